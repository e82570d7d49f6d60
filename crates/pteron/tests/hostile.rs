//! Well-formed but malicious programs: impossible sizes, work that grows faster than the file, delegates with odd
//! signatures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::time::{Duration, Instant};

use common::build::{accumulator, call, graph_ids, graph_tensor, ids, open, plan, program_of, tensor, with_delegates};
use common::tokens::Tokens;
use common::{Random, gpu};
use pteron::{Error, LoadOptions, ScalarType, Tensor, block_on};
use pteron_format::program::{Instruction, ValueId};
use pteron_format::vulkan::{self, DataType, Graph};

fn moves(count: u32) -> Vec<Instruction> {
    (0..count).map(|at| Instruction::Move { from: ValueId(at), to: ValueId(at + 1) }).collect()
}

#[test]
fn state_of_a_terabyte_is_refused_before_any_is_made() {
    // Value 1 is read before it is written, so it keeps its value; the file has no initial value for it.
    let values = vec![tensor(ScalarType::Byte, &[1 << 20, 1 << 20]); 3];
    let steps =
        vec![Instruction::Move { from: ValueId(1), to: ValueId(2) }, Instruction::Move { from: ValueId(0), to: ValueId(1) }];
    let program = open(program_of(plan(values, &[0], &[2], steps), Vec::new()));
    let gpu = gpu();
    let before = gpu.counts().buffers;
    let error = block_on(program.load(&gpu, "forward", &LoadOptions::default())).unwrap_err();
    assert!(error.to_string().contains("1099511627776 elements"), "{error}");
    assert_eq!(gpu.counts().buffers, before);
}

#[test]
fn moves_share_bytes_instead_of_copying_them() {
    const LEN: u32 = 8 << 20;
    const MOVES: u32 = 200;
    let values = vec![tensor(ScalarType::Byte, &[LEN]); MOVES as usize + 1];
    let all: Vec<u32> = (1..=MOVES).collect();
    let program = open(program_of(plan(values, &[0], &all, moves(MOVES)), Vec::new()));
    let method = block_on(program.load(&gpu(), "forward", &LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let input = Tensor::new(ScalarType::Byte, &[LEN], vec![7; LEN as usize]).unwrap();
    let mut outputs = Vec::new();
    let info = allocation_counter::measure(|| outputs = block_on(method.call(&mut state, &[input])).unwrap());
    assert_eq!(outputs.len(), MOVES as usize);
    assert!(outputs.iter().all(|output| output.bytes().len() == LEN as usize && output.bytes()[0] == 7));
    assert!(info.bytes_max < u64::from(LEN) / 4, "{} bytes for {MOVES} moves of {LEN}", info.bytes_max);
}

#[test]
fn work_on_instructions_grows_with_their_number() {
    // Each move reads a value that no move before it wrote. A linear search of the written values at each move would take
    // minutes.
    const MOVES: usize = 1_000_000;
    let mut steps = vec![Instruction::Move { from: ValueId(2), to: ValueId(1) }; MOVES];
    steps.push(Instruction::Move { from: ValueId(0), to: ValueId(2) });
    let values = vec![tensor(ScalarType::Byte, &[1]); 3];
    let program = open(program_of(plan(values, &[0], &[1], steps), Vec::new()));
    let start = Instant::now();
    let method = block_on(program.load(&gpu(), "forward", &LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let input = Tensor::new(ScalarType::Byte, &[1], vec![7]).unwrap();
    for expected in [0, 7] {
        let outputs = block_on(method.call(&mut state, std::slice::from_ref(&input))).unwrap();
        assert_eq!(outputs[0].bytes(), [expected], "what the call before left");
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// A method that passes its input through `delegates` delegates, all with the same bytes.
fn chained(delegates: u32, len: u32) -> pteron::Program {
    let values = vec![tensor(ScalarType::Float, &[len]); delegates as usize + 1];
    let call = |at| Instruction::DelegateCall { delegate: at, args: ids(&[at, at + 1]) };
    let plan = plan(values, &[0], &[delegates], (0..delegates).map(call).collect());
    open(program_of(with_delegates(plan, (0..delegates).map(|_| 0)), vec![accumulator(len)]))
}

#[test]
fn delegates_that_share_their_bytes_have_states_of_their_own() {
    let gpu = gpu();
    let load = |delegates| block_on(chained(delegates, 4).load(&gpu, "forward", &LoadOptions::default())).unwrap();
    let (one, two) = (load(1), load(2));
    assert_eq!(two.memory_needed().constant_bytes, one.memory_needed().constant_bytes);
    assert_eq!(two.state_bytes(), 2 * one.state_bytes());
    let mut state = two.new_state().unwrap();
    let input = Tensor::from_f32(&[4], &[1.0; 4]).unwrap();
    // Each delegate has its own accumulator: 1 and 1, then 2 and 1 + 2, then 3 and 3 + 3.
    for expected in [1.0, 3.0, 6.0] {
        let outputs = block_on(two.call(&mut state, std::slice::from_ref(&input))).unwrap();
        assert_eq!(outputs[0].to_f32().unwrap(), [expected; 4]);
    }
    let copy = two.clone_state(&state).unwrap();
    two.reset(&mut state).unwrap();
    for (mut state, expected) in [(state, 1.0), (copy, 10.0)] {
        let outputs = block_on(two.call(&mut state, std::slice::from_ref(&input))).unwrap();
        assert_eq!(outputs[0].to_f32().unwrap(), [expected; 4]);
    }
}

#[test]
fn a_thousand_delegates_are_one_graph() {
    let gpu = gpu();
    let start = Instant::now();
    let method = block_on(chained(1000, 4).load(&gpu, "forward", &LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let outputs = block_on(method.call(&mut state, &[Tensor::from_f32(&[4], &[1.0; 4]).unwrap()])).unwrap();
    assert_eq!(outputs[0].to_f32().unwrap(), [1.0; 4]);
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

/// A program that resembles a language model: its inputs, and which of them the delegate takes.
#[derive(Clone, Debug)]
struct Signature {
    /// The delegate's inputs.
    inputs: Vec<(DataType, Vec<u32>)>,
    /// The delegate's outputs: inputs converted to floats, by index, or outputs with their own shape.
    outputs: Vec<usize>,
    /// The values passed to the delegate; those from 100 on are its outputs.
    args: Vec<u32>,
    method_inputs: Vec<u32>,
    method_outputs: Vec<u32>,
}

/// Two inputs, as in a language model.
fn language_model() -> Signature {
    Signature {
        inputs: vec![(DataType::Int64, vec![1, 8]), (DataType::Int64, vec![1])],
        outputs: vec![0],
        args: vec![0, 1, 100],
        method_inputs: vec![0, 1],
        method_outputs: vec![100],
    }
}

impl Signature {
    fn program(&self) -> Option<pteron::Program> {
        let count = u32::try_from(self.inputs.len()).unwrap();
        let mut values: Vec<vulkan::Value> =
            self.inputs.iter().map(|(dtype, dims)| graph_tensor(*dtype, dims, None)).collect();
        let none = count + u32::try_from(self.outputs.len()).unwrap();
        let mut chain = Vec::new();
        for (at, &from) in (count..).zip(&self.outputs) {
            values.push(graph_tensor(DataType::Float32, &self.inputs.get(from)?.1, None));
            let args = [&[u32::try_from(from).unwrap()], &[none; 6][..], &[at]].concat();
            chain.push(call("aten._to_copy.default", &args));
        }
        values.push(vulkan::Value::Null);
        let (inputs, outputs): (Vec<u32>, Vec<u32>) = ((0..count).collect(), (count..none).collect());
        let (inputs, outputs) = (graph_ids(&inputs), graph_ids(&outputs));
        let blob = vulkan::write_blob(&Graph { chain, values, inputs, outputs, ..Graph::default() }, &[]).ok()?;
        let mut own = vec![tensor(ScalarType::Long, &[1, 8]); 100];
        for (&arg, (dtype, dims)) in self.args.iter().zip(&self.inputs) {
            let scalar_type = if *dtype == DataType::Float32 { ScalarType::Float } else { ScalarType::Long };
            *own.get_mut(arg as usize)? = tensor(scalar_type, dims);
        }
        own.extend(self.outputs.iter().map(|&from| tensor(ScalarType::Float, &self.inputs[from].1)));
        let step = Instruction::DelegateCall { delegate: 0, args: ids(&self.args) };
        let plan = with_delegates(plan(own, &self.method_inputs, &self.method_outputs, vec![step]), [0]);
        let plan = Some(plan).filter(|plan| {
            let known = |id: &ValueId| plan.value(*id).is_some();
            self.args.len() == self.inputs.len() + self.outputs.len()
                && plan.inputs.iter().chain(&plan.outputs).chain(&ids(&self.args)).all(known)
        })?;
        Some(open(program_of(plan, vec![blob])))
    }
}

/// Loads such a program with an appended operator and feedback. If it loads, a step must return a token or an error.
fn extends(gpu: &pteron::Gpu, signature: &Signature) -> Result<(), String> {
    let Some(program) = signature.program() else { return Err("no program".to_owned()) };
    let options = common::tokens::sampling();
    let method = block_on(program.load(gpu, "forward", &options)).map_err(|error| error.to_string())?;
    let mut state = method.new_state().map_err(|error| error.to_string())?;
    for (tokens, position) in [(Tokens::Given(&[1, 2, 3]), 0), (Tokens::Sampled, 3), (Tokens::Given(&[]), u32::MAX.into())] {
        match common::tokens::start(&method, &mut state, tokens, position, common::tokens::GREEDY) {
            Ok(next) => drop(block_on(next.wait())),
            Err(error) => assert!(error.to_string().len() < 500),
        }
    }
    Ok(())
}

#[test]
fn hooks_are_refused_at_load_where_inputs_do_not_reach_the_delegate_once() {
    let gpu = gpu();
    let good = language_model();
    assert_eq!(extends(&gpu, &good), Ok(()));
    let long = (DataType::Int64, vec![1, 8]);
    let refused = [
        ("one input", Signature { inputs: vec![long.clone()], args: vec![0, 100], ..good.clone() }),
        ("tokens twice", Signature { args: vec![0, 0, 100], ..good.clone() }),
        ("one method input twice", Signature { method_inputs: vec![0, 0], ..good.clone() }),
        ("three method inputs", Signature { method_inputs: vec![0, 1, 2], ..good.clone() }),
        ("an input as output", Signature { method_outputs: vec![0], ..good.clone() }),
        (
            "float tokens",
            Signature { inputs: vec![(DataType::Float32, vec![1, 8]), (DataType::Int64, vec![1])], ..good.clone() },
        ),
        (
            "no vocabulary",
            Signature { inputs: vec![(DataType::Int64, vec![1, 0]), (DataType::Int64, vec![1])], ..good.clone() },
        ),
    ];
    for (name, signature) in refused {
        let error = extends(&gpu, &signature).expect_err(name);
        assert!(!error.is_empty() && error.len() < 500, "{name}: {error}");
    }
    let unusual = [
        (
            "three inputs",
            Signature {
                inputs: vec![long.clone(), (DataType::Int64, vec![1]), long.clone()],
                args: vec![0, 1, 0, 100],
                ..good.clone()
            },
        ),
        ("five inputs", Signature { inputs: vec![long.clone(); 5], args: vec![2, 3, 4, 0, 1, 100], ..good.clone() }),
        ("an output of nobody", Signature { method_outputs: vec![3], ..good.clone() }),
        ("two outputs", Signature { method_outputs: vec![100, 100], ..good.clone() }),
        ("a matrix as position", Signature { inputs: vec![long.clone(), long.clone()], ..good.clone() }),
        ("rank 3", Signature { inputs: vec![(DataType::Int64, vec![1, 8, 1]), (DataType::Int64, vec![1])], ..good.clone() }),
        ("a batch", Signature { inputs: vec![(DataType::Int64, vec![2, 8]), (DataType::Int64, vec![1])], ..good.clone() }),
    ];
    for (name, signature) in unusual {
        if let Err(error) = extends(&gpu, &signature) {
            assert!(error.len() < 500, "{name}: {error}");
        }
    }
    let swapped =
        Signature { inputs: vec![(DataType::Int64, vec![1]), long], outputs: vec![1], args: vec![1, 0, 100], ..good };
    assert_eq!(extends(&gpu, &swapped), Ok(()));
}

#[test]
fn any_signature_is_refused_or_runs() {
    let gpu = gpu();
    let mut random = Random::new(3);
    let mut loaded = 0;
    for _ in 0..300 {
        let dims = |random: &mut Random| {
            let rank = random.below(4);
            (0..rank).map(|_| [0, 1, 1, 2, 8][random.below(5)]).collect::<Vec<u32>>()
        };
        let mut signature = language_model();
        for _ in 0..random.below(4) {
            let inputs = signature.inputs.len();
            match random.below(7) {
                0 => signature.inputs.push((DataType::Int64, dims(&mut random))),
                1 => drop(signature.inputs.pop()),
                2 if inputs > 0 => {
                    let at = random.below(inputs);
                    signature.inputs[at] =
                        ([DataType::Int64, DataType::Int32, DataType::Float32][random.below(3)], dims(&mut random));
                }
                3 if inputs > 0 => signature.outputs.push(random.below(inputs)),
                4 => {
                    signature.method_inputs =
                        (0..random.below(4)).map(|_| u32::try_from(random.below(3)).unwrap()).collect();
                }
                5 => {
                    signature.method_outputs =
                        (0..random.below(3)).map(|_| 100 + u32::try_from(random.below(2)).unwrap()).collect();
                }
                _ => drop(signature.outputs.pop()),
            }
        }
        let mut arg = |_: usize| u32::try_from(random.below(3)).unwrap();
        let outputs = (100..).take(signature.outputs.len());
        let wild = signature.inputs.len() != 2;
        signature.args = if wild { (0..signature.inputs.len()).map(&mut arg).collect() } else { vec![0, 1] };
        signature.args.extend(outputs);
        loaded += usize::from(extends(&gpu, &signature).is_ok());
    }
    assert!(loaded > 10, "{loaded} of 300 loaded");
}

/// Checks that an error is one printable line, whatever names a file contains.
fn one_line(error: &Error) {
    let text = error.to_string();
    assert!(text.len() < 700 && !text.chars().any(char::is_control), "{} bytes: {:.300}", text.len(), text);
}

#[test]
fn names_of_a_megabyte_are_not_echoed_whole() {
    let gpu = gpu();
    let long = "\u{1b}[2J\n".to_owned() + &"x".repeat(1 << 20);
    let options = LoadOptions::default();
    let one = || vec![tensor(ScalarType::Float, &[4]); 2];
    let step = || vec![Instruction::DelegateCall { delegate: 0, args: ids(&[0, 1]) }];
    // A method's name.
    let mut named = with_delegates(plan(one(), &[0], &[1], step()), [0]);
    named.name.clone_from(&long);
    let program = open(program_of(named, vec![accumulator(4)]));
    one_line(&block_on(program.load(&gpu, "forward", &options)).unwrap_err());
    let wrong = LoadOptions::default().with_input_bounds(vec![Some(vec![9])]);
    one_line(&block_on(program.load(&gpu, &long, &wrong)).unwrap_err());
    let tokens = common::tokens::sampling();
    one_line(&block_on(program.load(&gpu, &long, &tokens)).unwrap_err());
    let method = block_on(program.load(&gpu, &long, &options)).unwrap();
    let mut state = method.new_state().unwrap();
    for inputs in [vec![], vec![Tensor::from_f32(&[3], &[0.0; 3]).unwrap()], vec![Tensor::from_i64(&[4], &[0; 4]).unwrap()]]
    {
        one_line(&block_on(method.call(&mut state, &inputs)).unwrap_err());
    }
    // The name of a backend, and of an operator outside and inside a delegate.
    let mut foreign = with_delegates(plan(one(), &[0], &[1], step()), [0]);
    foreign.delegates[0].id.clone_from(&long);
    one_line(&block_on(open(program_of(foreign, vec![accumulator(4)])).load(&gpu, "forward", &options)).unwrap_err());
    let kernel = Instruction::KernelCall { operator: 0, args: ids(&[0, 1]) };
    let mut outside = plan(one(), &[0], &[1], vec![kernel]);
    outside.operators.push(pteron_format::program::Operator { name: long.clone(), overload: String::new() });
    one_line(&block_on(open(program_of(outside, Vec::new())).load(&gpu, "forward", &options)).unwrap_err());
    let values = vec![graph_tensor(DataType::Float32, &[4], None); 2];
    let (inputs, outputs) = (graph_ids(&[0]), graph_ids(&[1]));
    let chain = vec![call(&long, &[0, 1])];
    let blob = vulkan::write_blob(&Graph { chain, values, inputs, outputs, ..Graph::default() }, &[]).unwrap();
    let inside = with_delegates(plan(one(), &[0], &[1], step()), [0]);
    one_line(&block_on(open(program_of(inside, vec![blob])).load(&gpu, "forward", &options)).unwrap_err());
}

#[test]
fn a_constant_method_that_repeats_a_text_returns_a_megabyte_at_most() {
    let mut repeats = plan(vec![pteron_format::program::Value::String("x".repeat(100_000))], &[], &[0; 5000], Vec::new());
    repeats.chains.clear();
    let program = open(program_of(repeats, Vec::new()));
    let mut values = Vec::new();
    let info = allocation_counter::measure(|| values = program.constant_method("forward").unwrap());
    assert_eq!(values.len(), 5000);
    assert!(matches!(&values[0], pteron::ConstantValue::Text(text) if text.len() == 100_000));
    assert!(info.bytes_max < 4 << 20, "{} bytes", info.bytes_max);
}
