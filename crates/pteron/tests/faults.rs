//! Out-of-memory tests: each reservation of host memory fails in turn. Every failure is an error, leaks nothing, and the next call
//! works.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::collections::BTreeSet;

use common::build::{accumulator, call, graph_ids, graph_tensor, ids, plan, program_of, tensor, with_delegates};
use common::{gpu, program_file};
use pteron::{Error, Gpu, LoadOptions, Method, Program, ScalarType, State, Tensor, block_on};
use pteron_format::alloc::faults::{Reached, failing};
use pteron_format::program::{Instruction, ValueId};
use pteron_format::vulkan::{self, DataType, Graph};
use pteron_format::{Problem, Pte};

fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::OutOfMemory(_) => true,
        Error::Format { source, .. } => matches!(source.problem, Problem::OutOfMemory(_)),
        _ => false,
    }
}

/// Fails each reservation of `run` in turn until it succeeds; every failure must be an out-of-memory error. Returns the counts
/// of the run in which nothing failed.
fn sweep<T>(what: &str, mut run: impl FnMut() -> pteron::Result<T>, mut after: impl FnMut(u64)) -> Reached {
    for nth in 0.. {
        let (result, reached) = failing(nth, &mut run);
        match result {
            Ok(_) => {
                assert_eq!(reached.reservations, nth, "{what}: a failure was swallowed");
                return reached;
            }
            Err(error) => assert!(is_out_of_memory(&error), "{what}, reservation {nth}: {error:?}"),
        }
        after(nth);
    }
    unreachable!("some number is larger than all reservations")
}

/// f16 in and out; i64 in and out; one accumulator that the delegate keeps and one that the method keeps.
fn program() -> Vec<u8> {
    let values = vec![
        graph_tensor(DataType::Float32, &[4], None),
        graph_tensor(DataType::Int32, &[4], None),
        graph_tensor(DataType::Float32, &[4], None),
        graph_tensor(DataType::Int32, &[4], None),
        vulkan::Value::Int(1),
    ];
    let chain = vec![call("aten.add.Tensor", &[0, 0, 4, 2]), call("aten.add.Tensor", &[1, 1, 4, 3])];
    let graph = Graph { chain, values, inputs: graph_ids(&[0, 1]), outputs: graph_ids(&[2, 3]), ..Graph::default() };
    let doubler = vulkan::write_blob(&graph, &[]).unwrap();
    let values = vec![
        tensor(ScalarType::Half, &[4]),
        tensor(ScalarType::Long, &[4]),
        tensor(ScalarType::Half, &[4]),
        tensor(ScalarType::Long, &[4]),
        // Read before it is written: the method keeps it.
        tensor(ScalarType::Float, &[4]),
        tensor(ScalarType::Float, &[4]),
    ];
    let steps = vec![
        Instruction::DelegateCall { delegate: 0, args: ids(&[0, 1, 2, 3]) },
        Instruction::DelegateCall { delegate: 1, args: ids(&[4, 5]) },
        Instruction::Move { from: ValueId(5), to: ValueId(4) },
    ];
    let plan = with_delegates(plan(values, &[0, 1], &[2, 3, 5], steps), [0, 1]);
    program_of(plan, vec![doubler, accumulator(4)])
}

fn arguments() -> [Tensor; 2] {
    let halves: Vec<u8> = [0x3c00u16; 4].iter().flat_map(|half| half.to_le_bytes()).collect();
    [Tensor::new(ScalarType::Half, &[4], halves).unwrap(), Tensor::from_i64(&[4], &[1, 2, 3, 4]).unwrap()]
}

fn load(gpu: &Gpu, program: &Program) -> pteron::Result<Method> {
    block_on(program.load(gpu, "forward", &LoadOptions::default()))
}

fn run(method: &Method, state: &mut State) -> pteron::Result<Vec<Tensor>> {
    block_on(method.call(state, &arguments()))
}

fn check(outputs: &[Tensor]) {
    assert_eq!(outputs[0].to_f32().unwrap(), [2.0; 4]);
    assert_eq!(outputs[1].to_i64().unwrap(), [2, 4, 6, 8]);
    assert_eq!(outputs[2].to_f32().unwrap(), [0.0; 4]);
}

#[test]
fn every_reservation_of_opening_loading_and_calling_may_fail() {
    let (gpu, file) = (gpu(), program());
    let open = || Program::from_bytes(file.clone(), Vec::new());
    let program = open().unwrap();
    let method = load(&gpu, &program).unwrap();
    let mut state = method.new_state().unwrap();
    check(&run(&method, &mut state).unwrap());
    // Memory of dropped resources is released when the device is next waited for.
    let allocated = || {
        block_on(gpu.wait_idle()).unwrap();
        gpu.allocated().map(|allocated| allocated.used_bytes)
    };
    let baseline = allocated();
    let steady = |nth: u64| assert_eq!(allocated(), baseline, "GPU memory is left behind, reservation {nth}");

    let reached = [
        sweep("opening", open, |_| ()),
        sweep("loading", || load(&gpu, &program), steady),
        sweep("a state", || method.new_state(), steady),
        sweep(
            "calling",
            || method.call_checked(),
            |nth| {
                steady(nth);
                check(&run(&method, &mut method.new_state().unwrap()).unwrap());
            },
        ),
    ];
    check(&run(&method, &mut state).unwrap());
    let (mut sites, mut reservations) = (BTreeSet::<&std::panic::Location<'_>>::new(), 0);
    for part in reached {
        reservations += part.reservations;
        sites.extend(part.sites);
    }
    println!("{reservations} reservations at {} sites failed in turn", sites.len());
    assert!(reservations > 50 && sites.len() > 15, "{reservations} reservations at {} sites", sites.len());
}

/// A call on a fresh state whose outputs are checked.
trait CallChecked {
    fn call_checked(&self) -> pteron::Result<()>;
}

impl CallChecked for Method {
    fn call_checked(&self) -> pteron::Result<()> {
        let mut state = self.new_state()?;
        check(&run(self, &mut state)?);
        Ok(())
    }
}

#[test]
fn a_failed_opening_of_a_real_file_leaves_nothing_on_the_heap() {
    let file = program_file();
    let (mut tried, mut sites) = (0, BTreeSet::<&std::panic::Location<'_>>::new());
    for nth in 0.. {
        let mut ended = false;
        let mut reached = Reached::default();
        let info = allocation_counter::measure(|| {
            let (result, all) = failing(nth, || Pte::read(file.as_slice()).map(drop));
            match result {
                Ok(()) => ended = true,
                Err(error) => assert!(matches!(error.problem, Problem::OutOfMemory(_)), "{error}"),
            }
            if ended {
                reached = all;
            }
        });
        tried += 1;
        if ended {
            sites.extend(reached.sites);
            break;
        }
        assert_eq!(info.bytes_current, 0, "reservation {nth} leaves memory behind");
    }
    println!("{tried} reservations of a real file failed, {} sites", sites.len());
    assert!(tried > 400 && sites.len() > 8, "{tried} tried, {} sites", sites.len());
}
