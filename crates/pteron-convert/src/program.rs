//! The program around a graph: `forward`, and constant methods with the metadata.

use pteron_format::ScalarType;
use pteron_format::program::{
    AllocationDetails, Chain, CompileSpec, ContainerMetadata, DataRef, Delegate, ExecutionPlan, Instruction, Program,
    SegmentId, ShapeDynamism, SubsegmentOffsets, Tensor, Value, ValueId,
};

use crate::config::ModelConfig;
use crate::source::CheckpointMetadata;
use crate::template::ConvertOptions;

/// The segment of constants outside delegates. It is empty, and still comes first.
const CONSTANTS: SegmentId = SegmentId(0);
/// The segment of the delegate.
const DELEGATE: SegmentId = SegmentId(1);
/// The planned buffer of the outputs; buffer 0 is reserved.
const OUTPUTS: u32 = 1;
/// The alignment of tensors in a planned buffer.
const ALIGNMENT: u64 = 16;

/// The pytree spec of a value that is not a container.
const LEAF: &str = r#"{"type": null, "context": null, "children_spec": []}"#;

/// Builds the program of a checked model. Its segments are added later.
pub(crate) fn build(config: &ModelConfig, options: &ConvertOptions, metadata: &CheckpointMetadata) -> Program<Vec<u8>> {
    let plans = std::iter::once(forward(config, options)).chain(constant_methods(config, options, metadata)).collect();
    Program {
        plans,
        // The placeholder that stands for no constant.
        constants: Some(SubsegmentOffsets { segment: CONSTANTS, offsets: vec![0] }),
        ..Program::default()
    }
}

/// The method that computes logits from tokens and a position.
#[expect(clippy::expect_used, reason = "`check::check` runs before and bounds the size of every tensor")]
fn forward(config: &ModelConfig, options: &ConvertOptions) -> ExecutionPlan {
    let (tokens, vocabulary) = (options.max_call_tokens(), config.vocab_size);
    let bound = |scalar_type, sizes: &[u32]| Tensor { dynamism: ShapeDynamism::Bound, ..Tensor::new(scalar_type, sizes) };
    let ids = bound(ScalarType::Long, &[1, tokens]);
    let position = Tensor::new(ScalarType::Long, &[1]);
    let mut logits = if options.full_logits {
        bound(ScalarType::Float, &[1, tokens, vocabulary])
    } else {
        Tensor::new(ScalarType::Float, &[1, vocabulary])
    };
    logits.allocation = Some(AllocationDetails { memory: OUTPUTS, offset: 0 });
    let output_bytes = logits.byte_len().expect("`check` bounds the size of the logits").next_multiple_of(ALIGNMENT);
    let args = [0, 1, 2].map(ValueId).to_vec();
    let chain = Chain { instructions: vec![Instruction::DelegateCall { delegate: 0, args }], ..Chain::default() };
    ExecutionPlan {
        name: "forward".to_owned(),
        containers: Some(ContainerMetadata { inputs: forward_inputs(), outputs: container(LEAF) }),
        values: [ids, position, logits].map(|tensor| Value::Tensor(Box::new(tensor))).to_vec(),
        inputs: vec![ValueId(0), ValueId(1)],
        outputs: vec![ValueId(2)],
        chains: vec![chain],
        operators: Vec::new(),
        delegates: vec![delegate(options)],
        buffer_sizes: vec![0, output_bytes],
        buffer_devices: None,
    }
}

fn delegate(options: &ConvertOptions) -> Delegate {
    let flag = |key: &str, value: bool| CompileSpec { key: key.to_owned(), value: vec![value.into()] };
    let specs = vec![flag("require_dynamic_shapes", true), flag("force_fp16", options.float16)];
    Delegate { specs, ..Delegate::vulkan(DataRef::Segment(DELEGATE)) }
}

/// The constant methods: their return values are written into the program.
fn constant_methods(config: &ModelConfig, options: &ConvertOptions, metadata: &CheckpointMetadata) -> Vec<ExecutionPlan> {
    let number = |name, number: u32| scalar(name, Value::Int(number.into()));
    let yes = |name| scalar(name, Value::Bool(true));
    let mut plans = vec![
        number("get_max_seq_len", options.max_seq_length),
        number("get_max_context_len", options.max_context_length),
        number("get_n_layers", config.num_layers),
        number("get_vocab_size", config.vocab_size),
        yes("use_kv_cache"),
        yes("use_sdpa_with_kv_cache"),
        yes("enable_dynamic_shape"),
        number("append_eos_to_prompt", 0),
    ];
    plans.extend(metadata.bos_token.map(|begin| number("get_bos_id", begin)));
    if !metadata.eos_tokens.is_empty() {
        let ends = metadata.eos_tokens.iter().map(|&end| Value::Int(end.into())).collect();
        plans.push(constant(
            "get_eos_ids",
            ends,
            &node("builtins.list", r#""null""#, &vec![LEAF; metadata.eos_tokens.len()]),
        ));
    }
    plans
}

fn scalar(name: &str, value: Value) -> ExecutionPlan {
    constant(name, vec![value], LEAF)
}

fn constant(name: &str, values: Vec<Value>, outputs: &str) -> ExecutionPlan {
    ExecutionPlan {
        name: name.to_owned(),
        containers: Some(ContainerMetadata { inputs: String::new(), outputs: container(outputs) }),
        outputs: (0..).map(ValueId).take(values.len()).collect(),
        values,
        chains: vec![Chain::default()],
        buffer_sizes: vec![0],
        ..ExecutionPlan::default()
    }
}

/// `forward(tokens, {"input_pos": position})`.
fn forward_inputs() -> String {
    let options = node("builtins.dict", r#""[\"input_pos\"]""#, &[LEAF]);
    let positional = node("builtins.tuple", r#""null""#, &[LEAF, &options]);
    let named = node("builtins.dict", r#""[]""#, &[]);
    container(&node("builtins.tuple", r#""null""#, &[&positional, &named]))
}

/// A pytree node as Python writes it; its context is JSON within JSON.
fn node(kind: &str, context: &str, children: &[&str]) -> String {
    format!(r#"{{"type": "{kind}", "context": {context}, "children_spec": [{}]}}"#, children.join(", "))
}

/// Adds the version of the notation.
fn container(root: &str) -> String {
    format!("[1, {root}]")
}
