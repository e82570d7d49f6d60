//! The calls of a model, in the exporter's order.

use super::builder::{Arg, CallOutput, Element, GraphBuilder, Operator, Origin, Size, SymInt, Tensor, TensorId, fixed};
use super::constants::{Constants, Layer, LinearWeight, Projection};
use crate::config::ModelConfig;
use crate::rope::narrow;
use crate::template::ConvertOptions;

/// Builds the whole graph.
pub(super) fn build(config: &ModelConfig, options: &ConvertOptions) -> GraphBuilder {
    let mut builder = GraphBuilder::new(options.max_call_tokens());
    let constants = Constants::declare(&mut builder, config, options);
    let input = |sizes| Tensor { element: Element::Index, sizes, origin: Origin::Input };
    let ids = builder.placeholder(input(vec![Size::Fixed(1), Size::Tokens]));
    let position = builder.placeholder(input(fixed([1])));
    let tokens = builder.sym_int(Operator::SymSize, vec![Arg::Tensor(ids), Arg::Int(1)]);
    let mut decoder = DecoderBuilder { builder, config, tokens };
    let logits = decoder.forward(&constants, ids, position, options.full_logits);
    decoder.builder.outputs.push(logits);
    decoder.builder
}

struct DecoderBuilder<'a> {
    builder: GraphBuilder,
    config: &'a ModelConfig,
    /// The number of tokens of a call.
    tokens: SymInt,
}

/// Values that all layers share.
struct Shared {
    cosines: TensorId,
    sines: TensorId,
    /// The position of the call's first token, added by the first layer.
    start: Option<SymInt>,
}

impl DecoderBuilder<'_> {
    fn forward(&mut self, constants: &Constants, ids: TensorId, position: TensorId, full_logits: bool) -> TensorId {
        let mut x = self.embed(constants.embedding, ids);
        let mut shared = self.rotations(constants, position);
        for (layer, &cache) in constants.layers.iter().zip(&constants.caches) {
            x = self.attention(x, layer, cache, position, &mut shared);
            x = self.feed_forward(x, layer);
        }
        if full_logits {
            let x = self.norm(x, constants.final_norm);
            return self.project(x, &constants.output, per_token([self.config.vocab_size]));
        }
        let args = vec![Arg::Tensor(x), Arg::Int(1), Arg::Int(-1)];
        let last = self.make(Operator::Select, args, fixed([1, self.config.hidden_size]));
        let last = self.norm(last, constants.final_norm);
        self.project_matrix(last, &constants.output, fixed([1, self.config.vocab_size]))
    }

    /// Adds a call with one float tensor as its output.
    fn make(&mut self, operator: Operator, args: Vec<Arg>, sizes: Vec<Size>) -> TensorId {
        let out = self.computed(sizes);
        self.builder.call(operator, args, CallOutput::Tensor(out));
        out
    }

    fn computed(&mut self, sizes: Vec<Size>) -> TensorId {
        self.builder.add(Tensor { element: Element::Float, sizes, origin: Origin::Call })
    }

    fn sizes(&self, tensor: TensorId) -> Vec<Size> {
        self.builder.tensors[tensor].sizes.clone()
    }

    fn embed(&mut self, embedding: LinearWeight, ids: TensorId) -> TensorId {
        let sizes = per_token([self.config.hidden_size]);
        match embedding {
            LinearWeight::Int4 { nibbles, scales, group, .. } => {
                let tensors = [nibbles, scales].map(Arg::Tensor);
                // The last argument: packed like a linear weight.
                let rest = [Arg::Int(group.into()), Arg::Tensor(ids), Arg::Bool(true)];
                self.make(Operator::EmbeddingInt4, tensors.into_iter().chain(rest).collect(), sizes)
            }
            LinearWeight::Float32(weight) => {
                // No padding token, no scaled gradients, no sparse gradients.
                let options = [Arg::Int(-1), Arg::Bool(false), Arg::Bool(false)];
                let args = [weight, ids].map(Arg::Tensor).into_iter().chain(options).collect();
                self.make(Operator::Embedding, args, sizes)
            }
        }
    }

    /// Slices the rows of the call's tokens from the RoPE tables.
    fn rotations(&mut self, constants: &Constants, position: TensorId) -> Shared {
        let first = self.position(position, -1);
        let end = self.builder.sym_int(Operator::AddSymInts, vec![Arg::SymInt(first), Arg::SymInt(self.tokens)]);
        let [cosines, sines] = [constants.cosines, constants.sines].map(|table| {
            let args = vec![Arg::Tensor(table), Arg::Int(0), Arg::SymInt(first), Arg::SymInt(end), Arg::Int(1)];
            self.make(Operator::Slice, args, vec![Size::Tokens, Size::Fixed(self.config.head_dim / 2)])
        });
        Shared { cosines, sines, start: None }
    }

    fn position(&mut self, position: TensorId, index: i64) -> SymInt {
        self.builder.sym_int(Operator::SelectAsSymint, vec![Arg::Tensor(position), Arg::Int(0), Arg::Int(index)])
    }

    fn attention(
        &mut self,
        x: TensorId,
        layer: &Layer,
        cache: (TensorId, TensorId),
        position: TensorId,
        shared: &mut Shared,
    ) -> TensorId {
        let normed = self.norm(x, layer.attention_norm);
        let heads = |heads| per_token([heads, self.config.head_dim]);
        let (query_heads, key_heads) = (heads(self.config.num_heads), heads(self.config.num_kv_heads));
        let mut query = self.project(normed, &layer.query, query_heads.clone());
        let mut key = self.project(normed, &layer.key, key_heads.clone());
        let value = self.project(normed, &layer.value, key_heads.clone());
        if let Some((query_norm, key_norm)) = layer.head_norms {
            query = self.norm(query, query_norm);
            key = self.norm(key, key_norm);
        }
        let rotated = [query_heads.clone(), key_heads].map(|sizes| self.computed(sizes));
        let args = [query, key, shared.cosines, shared.sines].map(Arg::Tensor).to_vec();
        self.builder.call(Operator::Rotary, args, CallOutput::Tensors(rotated.to_vec()));
        let start = match shared.start {
            Some(start) => start,
            None => *shared.start.insert(self.position(position, 0)),
        };
        let [query, key] = rotated;
        let mut args = [query, key, value, cache.0, cache.1].map(Arg::Tensor).to_vec();
        // Sequence length 1 (the operator takes it from the queries), no mask, no dropout, causal, default scale.
        args.extend([Arg::SymInt(start), Arg::Int(1), Arg::Null, Arg::Double(0.0), Arg::Bool(true), Arg::Null]);
        let attended = self.make(Operator::Attention, args, query_heads);
        let branch = self.project(attended, &layer.attention_output, self.sizes(x));
        self.add(x, branch)
    }

    fn feed_forward(&mut self, x: TensorId, layer: &Layer) -> TensorId {
        let normed = self.norm(x, layer.feed_forward_norm);
        let hidden = per_token([self.config.intermediate_size]);
        let gate = self.project(normed, &layer.gate, hidden.clone());
        let opened = self.make(Operator::Sigmoid, vec![Arg::Tensor(gate)], hidden.clone());
        let gated = self.make(Operator::Multiply, [gate, opened].map(Arg::Tensor).to_vec(), hidden.clone());
        let up = self.project(normed, &layer.up, hidden.clone());
        let product = self.make(Operator::Multiply, [gated, up].map(Arg::Tensor).to_vec(), hidden);
        let branch = self.project(product, &layer.down, self.sizes(x));
        self.add(x, branch)
    }

    fn norm(&mut self, x: TensorId, weight: TensorId) -> TensorId {
        // The exporter reads it from a float32 tensor.
        let epsilon = f64::from(narrow(self.config.norm_eps));
        let args = vec![Arg::Tensor(x), Arg::Tensor(weight), Arg::Double(epsilon)];
        self.make(Operator::RmsNorm, args, self.sizes(x))
    }

    fn add(&mut self, x: TensorId, y: TensorId) -> TensorId {
        let args = vec![Arg::Tensor(x), Arg::Tensor(y), Arg::Int(1)];
        self.make(Operator::Add, args, self.sizes(x))
    }

    /// Applies a linear layer to every token. 4-bit layers keep the batch dimension, float layers take matrices; the exporter adds a
    /// view of the output in either case.
    fn project(&mut self, x: TensorId, projection: &Projection, sizes: Vec<Size>) -> TensorId {
        let [input, out] = [projection.columns, projection.rows].map(|width| match projection.matrix {
            LinearWeight::Int4 { .. } => per_token([width]),
            LinearWeight::Float32(_) => vec![Size::Tokens, Size::Fixed(width)],
        });
        let x = if self.sizes(x) == input { x } else { self.view(x, input) };
        let projected = self.project_matrix(x, projection, out);
        self.view(projected, sizes)
    }

    fn project_matrix(&mut self, x: TensorId, projection: &Projection, sizes: Vec<Size>) -> TensorId {
        let bias = projection.bias.map_or(Arg::Null, Arg::Tensor);
        match projection.matrix {
            LinearWeight::Int4 { nibbles, scales, sums: None, group } => {
                let [x, nibbles, scales] = [x, nibbles, scales].map(Arg::Tensor);
                self.make(Operator::LinearInt4, vec![x, nibbles, scales, Arg::Int(group.into()), bias], sizes)
            }
            LinearWeight::Int4 { nibbles, scales, sums: Some(sums), group } => {
                let [scale, zero_point] = self.quantisation(x);
                let tensors = [x, scale, zero_point, nibbles, sums, scales].map(Arg::Tensor);
                let args = tensors.into_iter().chain([Arg::Int(group.into()), bias]).collect();
                self.make(Operator::LinearInt8Int4, args, sizes)
            }
            LinearWeight::Float32(weight) => {
                self.make(Operator::Linear, vec![Arg::Tensor(x), Arg::Tensor(weight), bias], sizes)
            }
        }
    }

    /// Chooses the scale and the zero point of each row, for signed bytes.
    fn quantisation(&mut self, x: TensorId) -> [TensorId; 2] {
        let mut rows = self.sizes(x);
        let length = rows.pop().map_or(1, |size| if let Size::Fixed(size) = size { size.into() } else { 1 });
        let block = [vec![1; rows.len()], vec![length]].concat();
        let outputs = [Element::Float, Element::Int8]
            .map(|element| self.builder.add(Tensor { element, sizes: rows.clone(), origin: Origin::Call }));
        let [low, high] = [i8::MIN, i8::MAX].map(|bound| Arg::Int(bound.into()));
        let epsilon = Arg::Double(f32::EPSILON.into());
        let mut args = vec![Arg::Tensor(x), Arg::Text("ASYMMETRIC"), Arg::Ints(block), Arg::Null, low, high, epsilon];
        // No types of scales and zero points, and no dimensions of size 1 for rows.
        args.extend([Arg::Null, Arg::Null, Arg::Bool(false)]);
        self.builder.call(Operator::ChooseQparams, args, CallOutput::Tensors(outputs.to_vec()));
        outputs
    }

    fn view(&mut self, x: TensorId, sizes: Vec<Size>) -> TensorId {
        let argument = Arg::Sizes { sizes: sizes.clone(), tokens: self.tokens };
        self.make(Operator::View, vec![Arg::Tensor(x), argument], sizes)
    }
}

/// Sizes `[1, tokens, ...]`.
fn per_token<const N: usize>(sizes: [u32; N]) -> Vec<Size> {
    [Size::Fixed(1), Size::Tokens].into_iter().chain(sizes.map(Size::Fixed)).collect()
}
