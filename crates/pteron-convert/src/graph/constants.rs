//! The constants of a decoder's graph, in the order in which the exporter numbers them.

use super::sketch::{Arg, Element, Operator, Origin, Outcome, Size, Sketch, Tensor, TensorId, fixed};
use crate::blueprint::{Content, Form, Options, ScaleOrder};
use crate::decoder::{Decoder, Part, Weight};

/// What the scales of a projection are filled up to.
const TEXEL: u32 = 4;

/// A projection's constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    pub(super) matrix: Matrix,
    pub(super) bias: Option<TensorId>,
    pub(super) columns: u32,
    pub(super) rows: u32,
}

/// A matrix's constants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Matrix {
    FourBits { nibbles: TensorId, scales: TensorId, group: u32 },
    Float32(TensorId),
}

/// A layer's constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: TensorId,
    pub(super) query: Projection,
    pub(super) key: Projection,
    pub(super) value: Projection,
    pub(super) head_norms: Option<(TensorId, TensorId)>,
    pub(super) attention_output: Projection,
    pub(super) feed_forward_norm: TensorId,
    pub(super) gate: Projection,
    pub(super) up: Projection,
    pub(super) down: Projection,
}

/// Everything that a graph has before its first call.
#[derive(Clone, Debug)]
pub(super) struct Constants {
    pub(super) embedding: Matrix,
    pub(super) layers: Vec<Layer>,
    pub(super) final_norm: TensorId,
    pub(super) output: Projection,
    /// Of each layer, keys and values.
    pub(super) caches: Vec<(TensorId, TensorId)>,
    pub(super) cosines: TensorId,
    pub(super) sines: TensorId,
}

impl Constants {
    /// Parameters come in the order of their use. Buffers follow: caches, an embedding of 4-bit numbers, the rotary tables.
    pub(super) fn begin(sketch: &mut Sketch, decoder: &Decoder, options: &Options) -> Self {
        let mut beginner = Beginner { sketch, decoder, options };
        // An embedding of floats is a parameter, one of 4-bit numbers a buffer, which comes later.
        let embedding = match options.embedding {
            Form::Float32 => Ok(beginner.floats(Weight::Embedding)),
            Form::FourBits { group } => Err(group),
        };
        let layers = (0..decoder.layers).map(|layer| beginner.layer(layer)).collect();
        let final_norm = beginner.vector(Weight::FinalNorm);
        let output = beginner.projection(if decoder.tied { Weight::Embedding } else { Weight::Output }, None);
        let caches = (0..decoder.layers).map(|_| (beginner.cache(), beginner.cache())).collect();
        let embedding = embedding.unwrap_or_else(|group| beginner.nibbles(Weight::Embedding, group, ScaleOrder::RowsFirst));
        let (cosines, sines) = (beginner.table(Content::Cosines), beginner.table(Content::Sines));
        Self { embedding, layers, final_norm, output, caches, cosines, sines }
    }
}

struct Beginner<'a> {
    sketch: &'a mut Sketch,
    decoder: &'a Decoder,
    options: &'a Options,
}

impl Beginner<'_> {
    fn constant(&mut self, content: Content, element: Element, sizes: Vec<Size>) -> TensorId {
        self.sketch.begin(Tensor { element, sizes, origin: Origin::Constant(content) })
    }

    fn vector(&mut self, weight: Weight) -> TensorId {
        let sizes = fixed([self.decoder.matrix(weight).rows]);
        self.constant(Content::Floats(weight), Element::Float, sizes)
    }

    fn floats(&mut self, weight: Weight) -> Matrix {
        let matrix = self.decoder.matrix(weight);
        let sizes = fixed([matrix.rows, matrix.columns]);
        Matrix::Float32(self.constant(Content::Floats(weight), Element::Float, sizes))
    }

    fn nibbles(&mut self, weight: Weight, group: u32, order: ScaleOrder) -> Matrix {
        let matrix = self.decoder.matrix(weight);
        let groups = matrix.columns / group;
        let scale_sizes = match order {
            ScaleOrder::GroupsFirst => fixed([groups, matrix.rows.next_multiple_of(TEXEL)]),
            ScaleOrder::RowsFirst => fixed([matrix.rows, groups]),
        };
        let sizes = fixed([matrix.rows, matrix.columns / 2]);
        let nibbles = self.constant(Content::Nibbles { weight, group }, Element::Nibbles, sizes);
        let scales = self.constant(Content::Scales { weight, group, order }, Element::Float, scale_sizes);
        Matrix::FourBits { nibbles, scales, group }
    }

    fn projection(&mut self, weight: Weight, bias: Option<Weight>) -> Projection {
        let (rows, columns) = (self.decoder.matrix(weight).rows, self.decoder.matrix(weight).columns);
        let (matrix, bias) = match self.options.linears {
            // Quantising replaces the weight, which comes behind its bias then.
            Form::FourBits { group } => {
                let bias = bias.map(|bias| self.vector(bias));
                (self.nibbles(weight, group, ScaleOrder::GroupsFirst), bias)
            }
            Form::Float32 => {
                let matrix = self.floats(weight);
                (matrix, bias.map(|bias| self.vector(bias)))
            }
        };
        Projection { matrix, bias, columns, rows }
    }

    fn layer(&mut self, index: u32) -> Layer {
        let weight = |part| Weight::Layer(index, part);
        let bias = |decoder: &Decoder, part| decoder.has(part).then_some(weight(part));
        let attention_norm = self.vector(weight(Part::AttentionNorm));
        let query = self.projection(weight(Part::Query), bias(self.decoder, Part::QueryBias));
        let key = self.projection(weight(Part::Key), bias(self.decoder, Part::KeyBias));
        let value = self.projection(weight(Part::Value), bias(self.decoder, Part::ValueBias));
        let head_norms =
            self.decoder.head_norms.then(|| (self.vector(weight(Part::QueryNorm)), self.vector(weight(Part::KeyNorm))));
        let attention_output = self.projection(weight(Part::AttentionOutput), bias(self.decoder, Part::AttentionOutputBias));
        let feed_forward_norm = self.vector(weight(Part::FeedForwardNorm));
        let [gate, up, down] = [Part::Gate, Part::Up, Part::Down].map(|part| self.projection(weight(part), None));
        Layer { attention_norm, query, key, value, head_norms, attention_output, feed_forward_norm, gate, up, down }
    }

    fn cache(&mut self) -> TensorId {
        let sizes = fixed([1, self.options.context, self.decoder.key_value_heads, self.decoder.head_width]);
        self.sketch.begin(Tensor { element: Element::Float, sizes, origin: Origin::State(Content::Zeros) })
    }

    /// A table that calls slice, for which it has to be a tensor of the device.
    fn table(&mut self, content: Content) -> TensorId {
        let sizes = fixed([self.options.context, self.decoder.head_width / 2]);
        let stored = self.constant(content, Element::Float, sizes.clone());
        let table = self.sketch.add(Tensor { element: Element::Float, sizes, origin: Origin::Prepacked });
        self.sketch.call(Operator::Prepack, vec![Arg::Tensor(stored)], Outcome::Tensor(table));
        table
    }
}
