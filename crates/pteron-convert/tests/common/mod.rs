//! Helpers for the tests of templates: real exports, and the decoder shapes read from their graphs.

#![allow(dead_code, reason = "each test binary uses a part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

pub(crate) mod live;

use std::path::{Path, PathBuf};

use pteron_convert::config::{AttentionBias, ModelConfig, RopeConfig, RopeStyle};
use pteron_convert::source::CheckpointMetadata;
use pteron_convert::template::{ConvertOptions, WeightFormat};
use pteron_format::program::{self, DataRef};
use pteron_format::vulkan::{Call, DataType, Graph, Tensor, Value, ValueId};
use pteron_format::{Float, Pte};

/// A file of the repository.
pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A real export.
pub(crate) struct Export {
    pub(crate) path: PathBuf,
    pub(crate) pte: Pte<Vec<u8>>,
}

impl Export {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path: path.to_owned(), pte: Pte::read(bytes).unwrap() }
    }

    pub(crate) fn place(&self) -> DataRef {
        self.pte.graphs().next().unwrap().0
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.pte.graph(self.place()).unwrap().graph
    }

    /// The integers that a constant method returns.
    fn constant_ints(&self, method: &str) -> Vec<u32> {
        let plan = self.pte.program().plan(method).unwrap();
        let number = |value: &program::Value| match value {
            program::Value::Int(number) => u32::try_from(*number).unwrap(),
            other => panic!("{method} returns {}", other.kind()),
        };
        plan.values.iter().map(number).collect()
    }

    pub(crate) fn metadata(&self) -> CheckpointMetadata {
        CheckpointMetadata {
            bos_token: Some(self.constant_ints("get_bos_id")[0]),
            eos_tokens: self.constant_ints("get_eos_ids"),
            sidecars: Vec::new(),
        }
    }

    /// The decoder that the graph computes, but for its angles, which only bytes tell.
    pub(crate) fn config(&self) -> ModelConfig {
        let graph = Reader(self.graph());
        let attention = graph.first("sdpa_with_kv_cache.default");
        let (queries, keys) = (graph.dims(attention.args[0]), graph.dims(attention.args[1]));
        let has_bias = |linear: &Call| graph.value(linear.args[linear.args.len() - 2]) != &Value::Null;
        let linears: Vec<_> = graph.all(&LINEARS).collect();
        let norm = graph.first("et_vk.rms_norm.default");
        let norms: Vec<_> = graph.all(&["et_vk.rms_norm.default"]).collect();
        let Value::Double(Float(norm_epsilon)) = *graph.value(norm.args[2]) else { panic!("no epsilon") };
        ModelConfig {
            vocab_size: self.constant_ints("get_vocab_size")[0],
            hidden_size: graph.dims(norm.args[0])[2],
            num_layers: self.constant_ints("get_n_layers")[0],
            num_heads: queries[2],
            num_kv_heads: keys[2],
            head_dim: queries[3],
            intermediate_size: *graph.dims(graph.first("aten.sigmoid.default").args[0]).last().unwrap(),
            norm_eps: norm_epsilon,
            rope: RopeConfig { theta: 1e4, scaling: None, style: RopeStyle::Interleaved },
            qk_norm: norms.iter().any(|norm| graph.dims(norm.args[0]).len() == 4),
            attention_bias: match (has_bias(linears[0]), has_bias(linears[3])) {
                (false, _) => AttentionBias::None,
                (true, false) => AttentionBias::Qkv,
                (true, true) => AttentionBias::All,
            },
            tied_embeddings: false,
            max_position_embeddings: self.constant_ints("get_max_context_len")[0],
        }
    }

    pub(crate) fn options(&self) -> ConvertOptions {
        let graph = Reader(self.graph());
        let group = |call: &Call, arg: usize| match graph.value(call.args[arg]) {
            Value::Int(group) => u32::try_from(*group).unwrap(),
            other => panic!("the group is {}", other.kind()),
        };
        let four_bits = graph.all(&LINEARS[..1]).next();
        let embedding = graph.all(&["et_vk.embedding_q4gsw.default"]).next();
        let logits = graph.tensor(graph.0.outputs[0]);
        ConvertOptions::new(self.constant_ints("get_max_context_len")[0])
            .with_max_seq_length(self.constant_ints("get_max_seq_len")[0])
            .with_linear_format(four_bits.map_or(WeightFormat::Float32, |call| WeightFormat::Int4 { group: group(call, 3) }))
            .with_embedding_format(
                embedding.map_or(WeightFormat::Float32, |call| WeightFormat::Int4 { group: group(call, 2) }),
            )
            .with_full_logits(logits.dims.len() == 3)
            .with_float16(logits.dtype == DataType::Float16)
    }
}

const LINEARS: [&str; 2] = ["et_vk.linear_q4gsw.default", "aten.linear.default"];

/// A graph whose values are looked up.
pub(crate) struct Reader<'a>(pub(crate) &'a Graph);

impl<'a> Reader<'a> {
    pub(crate) fn value(&self, id: ValueId) -> &'a Value {
        self.0.value(id).unwrap()
    }

    pub(crate) fn tensor(&self, id: ValueId) -> &'a Tensor {
        self.value(id).as_tensor().unwrap()
    }

    fn dims(&self, id: ValueId) -> &'a [u32] {
        &self.tensor(id).dims
    }

    fn all<'n>(&self, names: &'n [&str]) -> impl Iterator<Item = &'a Call> + use<'a, 'n> {
        self.0.chain.iter().filter(|call| names.contains(&call.name.as_str()))
    }

    fn first(&self, name: &str) -> &'a Call {
        self.all(&[name]).next().unwrap_or_else(|| panic!("no {name}"))
    }
}

/// Everything a graph says but the names of its constants, in lines.
pub(crate) fn text(graph: &Graph) -> String {
    let mut text = format!("{} {:?} {:?}\n", graph.version, graph.inputs, graph.outputs);
    for value in &graph.values {
        text += &match value {
            Value::Tensor(Tensor { dtype, dims, constant, memory_object, storage, layout, staging }) => {
                let constant = constant.map(|constant| graph.constants[constant.index()].len);
                format!("{dtype:?} {dims:?} {constant:?} {memory_object:?} {storage:?} {layout:?} {staging:?}\n")
            }
            other => format!("{other:?}\n"),
        };
    }
    for Call { node_id, name, args } in &graph.chain {
        text += &format!("{node_id} {name} {args:?}\n");
    }
    text
}
