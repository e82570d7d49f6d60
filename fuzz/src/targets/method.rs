//! Whole methods: programs with delegates of both backends, kernel calls on the GPU and the host, moves, jumps, kept tensors and
//! constants, joined, loaded and called without a GPU.

use pteron::fuzzing::DryMethod;
use pteron::{LoadOptions, Program, Tensor, TensorSpec};
use pteron_format::fuzzing::write_program;
use pteron_gpu::engine::TensorData;
use pteron_gpu::graph::{DecodedGraph, Elem};
use pteron_gpu::memory::Memory;
use pteron_gpu::plan::Caps;
use pteron_gpu::resize::Planned;
use pteron_gpu::shape::Dims;

use crate::generate::cursor::Cursor;
use crate::generate::program;
use crate::oracle::{allocations, error_text};
use crate::seeds;
use crate::target::{Outcome, Target};

/// The target.
pub const TARGET: Target = Target {
    name: "method",
    attacks: "pteron: programs, instructions, host tensors, states",
    run,
    seeds: seeds::entropy,
    max_len: 1024,
    ..Target::DEFAULT
};

/// Bytes of host memory that methods are given.
const HOST_MEMORY: u64 = 1 << 18;
/// Heap bytes per byte of a program. A call of a delegate is some words of the program, and the whole graph once it is joined.
const HEAP_FACTOR: u64 = 256;
/// Heap bytes beyond that: twice the methods' memory, because a call holds its results beside the state.
const HEAP_SLACK: u64 = (1 << 20) + 4 * HOST_MEMORY;
/// The most bytes of a tensor that a call brings.
const MOST_INPUT: u64 = 1 << 14;

fn run(bytes: &[u8]) -> Outcome {
    let mut cursor = Cursor::new(bytes);
    let Ok(file) = write_program(&program::program(&mut cursor)) else { return "cannot be written" };
    let len = file.len() as u64;
    let mut outcome = "";
    let used = allocations(|| outcome = opened(file, &mut cursor));
    let limit = HEAP_SLACK + HEAP_FACTOR * len;
    assert!(used.bytes_max <= limit, "{} bytes on the heap for a program of {len}", used.bytes_max);
    outcome
}

fn opened(file: Vec<u8>, cursor: &mut Cursor<'_>) -> Outcome {
    let program = match Program::from_bytes(file, Vec::new()) {
        Ok(program) => program,
        Err(error) => {
            error_text(&error);
            return "refused by the reader";
        }
    };
    for name in program.constant_methods() {
        let values = program.constant_method(name);
        assert!(values.is_some(), "{name} is a constant method without values");
    }
    error_text(&program.signature("nowhere").expect_err("there is no such method"));
    if let Err(error) = pteron_llm::PartialMetadata::from_program(&program) {
        error_text(&error);
    }
    let mut outcome = "no method";
    for name in program.methods() {
        outcome = method(&program, name, cursor);
    }
    outcome
}

fn method(program: &Program, name: &str, cursor: &mut Cursor<'_>) -> Outcome {
    let signature = program.signature(name);
    let options = LoadOptions::default().with_host_memory_budget(HOST_MEMORY);
    let mut method = match DryMethod::new(program, Caps::PORTABLE, name, &options) {
        Ok(method) => method,
        Err(error) => {
            error_text(&error);
            return "refused by loading";
        }
    };
    let (inputs, outputs) = signature.expect("a method that was loaded has a signature");
    assert_eq!((method.inputs(), method.outputs()), (&inputs[..], &outputs[..]), "what was loaded is what was said");
    for (graph, bounds) in method.graphs() {
        planned(graph, bounds);
    }
    let held = |method: &DryMethod| method.kept().cloned().collect::<Vec<Tensor>>();
    let kept: u64 = method.kept().map(|tensor| tensor.bytes().len() as u64).sum();
    assert!(kept <= HOST_MEMORY, "{kept} bytes are kept, {HOST_MEMORY} are allowed");
    let mut outcome = "no call";
    for _ in 0..2 {
        let Some(inputs) = inputs.iter().map(|spec| input(spec, cursor)).collect::<Option<Vec<_>>>() else { break };
        let before = held(&method);
        match method.call(&inputs, |graph, views| Ok(delegate_outputs(graph, views, cursor))) {
            Ok(returned) => {
                assert_eq!(returned.len(), outputs.len(), "as many outputs as the signature says");
                outcome = "called";
            }
            Err(error) => {
                error_text(&error);
                assert!(held(&method) == before, "a refused call has changed what is kept");
                outcome = "refused by the call";
            }
        }
    }
    outcome
}

/// Plans a graph as loading does.
fn planned(graph: &DecodedGraph, bounds: &[Option<Dims>]) {
    let file = |(index, &input)| bounds.get(index).copied().flatten().unwrap_or(graph.info(input).bound);
    let bounds: Vec<Dims> = graph.inputs.iter().enumerate().map(file).collect();
    match Planned::at_bounds(graph, &bounds, Caps::PORTABLE) {
        Ok(planned) => drop(Memory::plan(graph, &planned)),
        Err(error) => error_text(&error),
    }
}

/// A tensor for an input, or something else now and then; `None` if it would be large.
fn input(spec: &TensorSpec, cursor: &mut Cursor<'_>) -> Option<Tensor> {
    let size = |&bound: &u32, cursor: &mut Cursor<'_>| match spec.dynamic {
        true if cursor.flip() => bound.min(cursor.below(10) as u32),
        _ => bound,
    };
    let mut shape: Vec<u32> = spec.shape.iter().map(|bound| size(bound, cursor)).collect();
    if cursor.one_in(24) {
        shape.push(1);
    }
    let count = shape.iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
    let len = count.checked_mul(spec.scalar_type.size()).filter(|&len| len <= MOST_INPUT)?;
    let value = cursor.of(&[0, 0, 1, 0xff]);
    Tensor::new(spec.scalar_type, &shape, vec![value; len as usize]).ok()
}

/// Outputs that a delegate might return: at their bounds or smaller, small ones only.
fn delegate_outputs(graph: &DecodedGraph, views: &[TensorData<'_>], cursor: &mut Cursor<'_>) -> Vec<TensorData<'static>> {
    assert_eq!(views.len(), graph.inputs.len(), "a view for each input");
    let output = |&output: &pteron_gpu::live::TensorId| {
        let info = graph.info(output);
        let sizes: Vec<u32> = info.bound.iter().map(|&bound| bound.min(if cursor.flip() { 16 } else { 3 })).collect();
        let dims = Dims::new(&sizes).expect("as many as the bound has");
        let dims = if dims.count() > 4096 { Dims::new(&vec![0; sizes.len()]).expect("as many") } else { dims };
        let bytes = match info.elem {
            Elem::F32 | Elem::I32 => 4,
            Elem::F16 => 2,
            Elem::U8 | Elem::I8 | Elem::Bool => 1,
        };
        let bytes = vec![cursor.byte() & 1; (dims.count() * bytes) as usize];
        TensorData { dims, elem: info.elem, bytes: bytes.into() }
    };
    graph.outputs.iter().map(output).collect()
}
