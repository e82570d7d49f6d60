//! The constants of a graph, in the exporter's order.

use super::builder::{Arg, CallOutput, Element, GraphBuilder, Operator, Origin, Size, Tensor, TensorId, fixed};
use crate::config::{LayerWeight, ModelConfig, Weight};
use crate::template::{ConstantData, ConvertOptions, ScaleOrder, WeightFormat};

/// The rows of scales are padded to a multiple of this.
const TEXEL: u32 = 4;

/// A projection's constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    pub(super) matrix: LinearWeight,
    pub(super) bias: Option<TensorId>,
    pub(super) columns: u32,
    pub(super) rows: u32,
}

/// A matrix's constants.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinearWeight {
    /// With the sums of each group, if rows of activations are quantised.
    Int4 {
        nibbles: TensorId,
        scales: TensorId,
        sums: Option<TensorId>,
        group: u32,
    },
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

/// All constants and states.
#[derive(Clone, Debug)]
pub(super) struct Constants {
    pub(super) embedding: LinearWeight,
    pub(super) layers: Vec<Layer>,
    pub(super) final_norm: TensorId,
    pub(super) output: Projection,
    /// The key and value cache of each layer.
    pub(super) caches: Vec<(TensorId, TensorId)>,
    pub(super) cosines: TensorId,
    pub(super) sines: TensorId,
}

impl Constants {
    /// Declares parameters in the order of their use, then buffers: caches, a 4-bit embedding, the RoPE tables.
    pub(super) fn declare(builder: &mut GraphBuilder, config: &ModelConfig, options: &ConvertOptions) -> Self {
        let mut constants = ConstantBuilder { builder, config, options };
        // A float embedding is a parameter; a 4-bit one is a buffer and comes later.
        let embedding = match options.embedding_format {
            WeightFormat::Float32 => Ok(constants.floats(Weight::Embedding)),
            WeightFormat::Int4 { group } => Err(group),
        };
        let layers = (0..config.num_layers).map(|layer| constants.layer(layer)).collect();
        let final_norm = constants.vector(Weight::FinalNorm);
        let output = constants.projection(if config.tied_embeddings { Weight::Embedding } else { Weight::Output }, None);
        let caches = (0..config.num_layers).map(|_| (constants.cache(), constants.cache())).collect();
        let embedding = embedding.unwrap_or_else(|group| constants.nibbles(Weight::Embedding, group, ScaleOrder::RowMajor));
        let (cosines, sines) = (constants.table(ConstantData::RopeCos), constants.table(ConstantData::RopeSin));
        Self { embedding, layers, final_norm, output, caches, cosines, sines }
    }
}

struct ConstantBuilder<'a> {
    builder: &'a mut GraphBuilder,
    config: &'a ModelConfig,
    options: &'a ConvertOptions,
}

impl ConstantBuilder<'_> {
    fn constant(&mut self, content: ConstantData, element: Element, sizes: Vec<Size>) -> TensorId {
        self.builder.placeholder(Tensor { element, sizes, origin: Origin::Constant(content) })
    }

    fn vector(&mut self, weight: Weight) -> TensorId {
        let sizes = fixed([self.config.shape(weight).rows]);
        self.constant(ConstantData::Float(weight), Element::Float, sizes)
    }

    fn floats(&mut self, weight: Weight) -> LinearWeight {
        let matrix = self.config.shape(weight);
        let sizes = fixed([matrix.rows, matrix.columns]);
        LinearWeight::Float32(self.constant(ConstantData::Float(weight), Element::Float, sizes))
    }

    fn nibbles(&mut self, weight: Weight, group: u32, order: ScaleOrder) -> LinearWeight {
        let matrix = self.config.shape(weight);
        let groups = matrix.columns / group;
        let scale_sizes = match order {
            ScaleOrder::GroupMajor => fixed([groups, matrix.rows.next_multiple_of(TEXEL)]),
            ScaleOrder::RowMajor => fixed([matrix.rows, groups]),
        };
        let sizes = fixed([matrix.rows, matrix.columns / 2]);
        let nibbles = self.constant(ConstantData::Int4 { weight, group }, Element::Nibbles, sizes);
        let scales = self.constant(ConstantData::Scales { weight, group, order }, Element::Float, scale_sizes);
        let sums = (order == ScaleOrder::GroupMajor && self.options.int8_activations).then(|| {
            let sizes = fixed([groups, matrix.rows.next_multiple_of(TEXEL)]);
            self.constant(ConstantData::Sums { weight, group }, Element::Int32, sizes)
        });
        LinearWeight::Int4 { nibbles, scales, sums, group }
    }

    fn projection(&mut self, weight: Weight, bias: Option<Weight>) -> Projection {
        let (rows, columns) = (self.config.shape(weight).rows, self.config.shape(weight).columns);
        let (matrix, bias) = match self.options.linear_format {
            // Quantising replaces the weight, which then comes after its bias.
            WeightFormat::Int4 { group } => {
                let bias = bias.map(|bias| self.vector(bias));
                (self.nibbles(weight, group, ScaleOrder::GroupMajor), bias)
            }
            WeightFormat::Float32 => {
                let matrix = self.floats(weight);
                (matrix, bias.map(|bias| self.vector(bias)))
            }
        };
        Projection { matrix, bias, columns, rows }
    }

    fn layer(&mut self, index: u32) -> Layer {
        let weight = |part| Weight::Layer(index, part);
        let bias = |config: &ModelConfig, part| config.has(part).then_some(weight(part));
        let attention_norm = self.vector(weight(LayerWeight::AttentionNorm));
        let query = self.projection(weight(LayerWeight::Query), bias(self.config, LayerWeight::QueryBias));
        let key = self.projection(weight(LayerWeight::Key), bias(self.config, LayerWeight::KeyBias));
        let value = self.projection(weight(LayerWeight::Value), bias(self.config, LayerWeight::ValueBias));
        let head_norms = self
            .config
            .qk_norm
            .then(|| (self.vector(weight(LayerWeight::QueryNorm)), self.vector(weight(LayerWeight::KeyNorm))));
        let attention_output =
            self.projection(weight(LayerWeight::AttentionOutput), bias(self.config, LayerWeight::AttentionOutputBias));
        let feed_forward_norm = self.vector(weight(LayerWeight::FeedForwardNorm));
        let [gate, up, down] =
            [LayerWeight::Gate, LayerWeight::Up, LayerWeight::Down].map(|part| self.projection(weight(part), None));
        Layer { attention_norm, query, key, value, head_norms, attention_output, feed_forward_norm, gate, up, down }
    }

    fn cache(&mut self) -> TensorId {
        let sizes = fixed([1, self.options.max_context_length, self.config.num_kv_heads, self.config.head_dim]);
        self.builder.placeholder(Tensor { element: Element::Float, sizes, origin: Origin::State(ConstantData::Zeros) })
    }

    /// Declares a table and prepacks it, since calls slice it on the device.
    fn table(&mut self, content: ConstantData) -> TensorId {
        let sizes = fixed([self.options.max_context_length, self.config.head_dim / 2]);
        let stored = self.constant(content, Element::Float, sizes.clone());
        let table = self.builder.add(Tensor { element: Element::Float, sizes, origin: Origin::Prepacked });
        self.builder.call(Operator::Prepack, vec![Arg::Tensor(stored)], CallOutput::Tensor(table));
        table
    }
}
