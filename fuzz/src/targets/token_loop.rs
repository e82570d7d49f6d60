//! The token loop against programs of any signature: accepted ones have the signature they claim; the rest are rejected.

use pteron::fuzzing::DryMethod;
use pteron::{LoadOptions, Program, Tensor};
use pteron_format::ScalarType;
use pteron_format::fuzzing::write_program;
use pteron_format::program::{Chain, DataRef, Delegate, ExecutionPlan, Instruction, SegmentId, Value, ValueId};
use pteron_format::vulkan::{self, DataType};
use pteron_gpu::graph::Elem;
use pteron_gpu::memory::Memory;
use pteron_gpu::plan::Caps;
use pteron_gpu::resize::{LiveInput, Planned};
use pteron_gpu::shape::Dims;

use super::graph::memory::{check_memory, check_plans};
use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::Dim;
use crate::generate::graph::{GraphBuilder, finish};
use crate::generate::part::Part;
use crate::generate::program::{assemble, border, constant_method, tensor};
use crate::oracle::error_text;
use crate::seeds;
use crate::target::{Outcome, Target};

/// The target.
pub const TARGET: Target = Target {
    name: "token_loop",
    attacks: "pteron: the token loop, against programs with any signature",
    run,
    seeds: seeds::entropy,
    max_len: 512,
    ..Target::DEFAULT
};

/// A graph of some inputs that is perhaps a language model.
fn graph(cursor: &mut Cursor<'_>) -> GraphBuilder {
    let mut builder = GraphBuilder::new(false);
    let usual = !cursor.one_in(4);
    let count = if usual { 2 } else { cursor.below(5) };
    for index in 0..count {
        let sizes: &[u32] = match (usual && !cursor.one_in(6), index) {
            (true, 0) => &[1, 8],
            (true, _) => &[1],
            (false, _) => cursor.of(&[&[1, 8][..], &[1], &[8], &[], &[2, 3], &[1, 0], &[4], &[1, 1, 8]]),
        };
        let dtype = match cursor.below(8) {
            0 => cursor.of(DataType::ALL),
            1 => DataType::Int64,
            _ => DataType::Int32,
        };
        let dims: Vec<Dim> = sizes.iter().map(|&size| Dim::Fixed(size)).collect();
        builder.input(dtype, &dims);
    }
    if let Some(tokens) = builder.nodes.first().cloned().filter(|_| cursor.flip()) {
        let width = cursor.of(&[16u32, 5]);
        let table = builder.constant(cursor, DataType::Float32, &[24, width]);
        let (padding, no) = (builder.int(-1), builder.bool(false));
        let dims = [&tokens.dims[..], &[Dim::Fixed(width)]].concat();
        builder.out("aten.embedding.default", &[table.id, tokens.id, padding, no, no], DataType::Float32, &dims);
    } else {
        let rank = cursor.below(4);
        let dims = builder.dims(cursor, rank);
        let (sizes, none, value) = (builder.size_list(&dims), builder.null(), builder.float(0.5));
        let dtype = cursor.of(&[DataType::Float32, DataType::Float32, DataType::Int32, DataType::Bool]);
        builder.out("aten.full.default", &[sizes, value, none, none, none, none], dtype, &dims);
    }
    if cursor.one_in(4) {
        // A position that the host reads.
        builder.position();
    }
    if cursor.flip() {
        let newest = builder.nodes[builder.nodes.len() - 1].id;
        builder.graph.outputs.push(newest);
    } else {
        finish(&mut builder, cursor);
    }
    builder
}

/// A method that calls a graph, perhaps with its arguments mixed up.
fn method(graph: &vulkan::Graph, cursor: &mut Cursor<'_>) -> ExecutionPlan {
    let mut plan = ExecutionPlan {
        name: "forward".to_owned(),
        delegates: vec![Delegate::vulkan(DataRef::Segment(SegmentId(1)))],
        ..ExecutionPlan::default()
    };
    let mut args = Vec::new();
    for id in graph.inputs.iter().chain(&graph.outputs) {
        let (scalar_type, sizes) = match graph.value(*id).and_then(vulkan::Value::as_tensor) {
            Some(tensor) => (border(tensor.border_dtype()), tensor.dims.clone()),
            None => (ScalarType::Float, Vec::new()),
        };
        let scalar_type = if cursor.one_in(24) { cursor.of(ScalarType::ALL) } else { scalar_type };
        plan.values.push(Value::Tensor(Box::new(tensor(scalar_type, &sizes))));
        args.push(ValueId(plan.values.len() as u32 - 1));
    }
    let (inputs, outputs) = args.split_at(graph.inputs.len());
    plan.inputs = inputs.to_vec();
    plan.outputs = outputs.to_vec();
    if !cursor.one_in(3) {
        plan.outputs.truncate(1);
    }
    if cursor.one_in(4) && !args.is_empty() {
        let (from, to) = (cursor.below(args.len()), cursor.below(args.len()));
        args.swap(from, to);
    }
    if cursor.one_in(6) {
        plan.inputs.reverse();
    }
    if cursor.one_in(8) && !args.is_empty() {
        let (from, to) = (cursor.below(args.len()), cursor.below(args.len()));
        args[to] = args[from];
    }
    if cursor.one_in(8) {
        plan.inputs.extend(args.first());
    }
    let call = Instruction::DelegateCall { delegate: 0, args };
    let mut instructions = vec![call.clone()];
    match cursor.below(12) {
        0 => instructions.push(call),
        1 => instructions.push(Instruction::Move { from: ValueId(0), to: ValueId(0) }),
        2 => plan.delegates.push(Delegate::vulkan(DataRef::Segment(SegmentId(1)))),
        _ => {}
    }
    plan.chains = vec![Chain { instructions, ..Chain::default() }];
    plan
}

fn run(bytes: &[u8]) -> Outcome {
    let mut cursor = Cursor::new(bytes);
    let cursor = &mut cursor;
    let graph = graph(cursor).graph;
    let mut plans = vec![method(&graph, cursor)];
    let Some(part) = Part::vulkan(graph) else { return "cannot be written" };
    for _ in 0..cursor.below(4) {
        let facts = constant_method(cursor);
        if plans.iter().all(|plan| plan.name != facts.name) {
            plans.push(facts);
        }
    }
    let Ok(file) = write_program(&assemble(plans, vec![part.into_blob()])) else { return "cannot be written" };
    let program = match Program::from_bytes(file, Vec::new()) {
        Ok(program) => program,
        Err(error) => {
            error_text(&error);
            return "refused by the reader";
        }
    };
    facts(&program);
    let plain = DryMethod::new(&program, Caps::PORTABLE, "forward", &LoadOptions::default());
    let options = pteron_llm::with_token_sampling(LoadOptions::default()).expect("four integers");
    let mut method = match DryMethod::new(&program, Caps::PORTABLE, "forward", &options) {
        Ok(method) => method,
        Err(error) => {
            error_text(&error);
            return "refused";
        }
    };
    assert!(plain.is_ok(), "a method that samples tokens is a method: {:?}", plain.err());
    let shapes: Vec<&[u32]> = method.inputs().iter().map(|spec| spec.shape.as_slice()).collect();
    if !matches!(shapes.as_slice(), [[1, tokens], [1]] if *tokens > 0) {
        return "not a language model";
    }
    accepted(&mut method, cursor);
    "accepted"
}

/// Reads the metadata of a program; bad values must be errors.
fn facts(program: &Program) {
    let facts = pteron_llm::PartialMetadata::from_program(program);
    match facts {
        Err(error) => error_text(&error),
        Ok(facts) => {
            if let Err(error) = facts.resolve() {
                error_text(&error);
            }
        }
    }
}

/// A step passes tokens `[1, n]`, a position `[1]` and how to choose, and reads one token.
fn accepted(method: &mut DryMethod, cursor: &mut Cursor<'_>) {
    let (graph, bounds) = method.graphs().next().expect("a method that chooses tokens has a graph");
    assert_eq!((graph.inputs.len(), method.inputs().len()), (3, 2), "tokens, a position, and how to choose");
    let chosen = *graph.outputs.last().expect("the token is the last output");
    assert_eq!(graph.info(chosen).elem, Elem::I32);
    let tokens = (0..2).find(|&input| graph.info(graph.inputs[input]).bound.len() == 2).expect("tokens are [1, n]");
    let file = |(index, &input)| bounds.get(index).copied().flatten().unwrap_or(graph.info(input).bound);
    let bounds: Vec<Dims> = graph.inputs.iter().enumerate().map(file).collect();
    let Ok(mut planned) = Planned::at_bounds(graph, &bounds, Caps::PORTABLE) else { return };
    let memory = Memory::plan(graph, &planned).unwrap_or_else(|error| panic!("no memory for a planned graph: {error}"));
    check_memory(graph, &planned, &memory);
    let count = 1 + cursor.below(bounds[tokens].last().min(64) as usize) as u32;
    let given: Vec<i32> = (0..count).map(|_| cursor.below(40) as i32 - 4).collect();
    let position = [cursor.integer() as i32];
    let dims = |sizes: &[u32]| Dims::new(sizes).expect("few");
    let mut inputs = [LiveInput { dims: dims(&[4]), values: Some(&[0; 4]) }; 3];
    inputs[tokens] = LiveInput { dims: dims(&[1, count]), values: Some(&given) };
    inputs[1 - tokens] = LiveInput { dims: dims(&[1]), values: Some(&position) };
    match planned.resize(graph, &inputs) {
        Err(error) => error_text(&error),
        Ok(change) => {
            planned.commit(change);
            check_plans(graph, &planned, &memory);
            assert_eq!(&*planned.live().dims(chosen), &[1, 1], "one token");
        }
    }
    let inputs: Vec<Option<Tensor>> =
        method.inputs().iter().map(|spec| Tensor::zeros(spec.scalar_type, &spec.shape).ok()).collect();
    if let Some(inputs) = inputs.into_iter().collect::<Option<Vec<_>>>() {
        let refused = method.call(&inputs, |_, _| Err(pteron::Error::Tensor("no delegate runs here".to_owned())));
        error_text(&refused.expect_err("the delegate refuses"));
    }
}
