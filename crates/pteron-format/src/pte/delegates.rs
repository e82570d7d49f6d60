//! Reads the graphs of a program's delegates and checks the calls of those delegates.

use std::collections::{BTreeMap, btree_map};

use super::Names;
use crate::budget::Budget;
use crate::bytes::{Bytes, FileSlice};
use crate::dtype::ScalarType;
use crate::error::{Error, Item, Location, Problem, Result, Section, clip};
use crate::program::{ByteRange, DataRef, ExecutionPlan, Instruction, Program, Value, ValueId};
use crate::vulkan::{self, Constant, ConstantSource};
use crate::xnnpack::{self, DataType};

type Graphs<T> = BTreeMap<DataRef, T>;

/// Reads the graph of each delegate of a known backend. Delegates of others are left alone.
pub(super) fn read_graphs<B: Bytes>(
    file: &B,
    program: &Program,
    budget: &mut Budget,
) -> Result<(Graphs<vulkan::Blob>, Graphs<xnnpack::Blob>)> {
    let names = Names::of(program);
    let (mut vulkan, mut xnnpack, mut externals) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for plan in &program.plans {
        for (index, delegate) in plan.delegates.iter().enumerate() {
            let range = program.delegate_data(delegate.data).copied().unwrap_or(ByteRange { start: 0, len: 0 });
            let bytes = FileSlice { bytes: file, range };
            let result = match delegate.id.as_str() {
                vulkan::BACKEND_ID => read_once(vulkan.entry(delegate.data), budget, |budget| {
                    let blob = vulkan::read_blob_within(&bytes, budget)?;
                    verify_named(&blob.graph.constants, 0, &names)?;
                    Ok(blob)
                }),
                xnnpack::BACKEND_ID => read_once(xnnpack.entry(delegate.data), budget, |budget| {
                    let blob = xnnpack::read_blob_within(&bytes, budget)?;
                    // The first entry of the file's list stands for none.
                    verify_named(&blob.graph.constants, 1, &names)?;
                    externals.insert(delegate.data, sorted_externals(&blob.graph, budget)?);
                    Ok(blob)
                }),
                _ => Ok(()),
            };
            result.map_err(|error| error.within_delegate(&plan.name, index, range.start))?;
        }
        verify_calls(plan, &vulkan, &externals)?;
    }
    Ok((vulkan, xnnpack))
}

/// Methods may share a delegate's bytes; they are read once.
fn read_once<T>(
    entry: btree_map::Entry<'_, DataRef, T>,
    budget: &mut Budget,
    read: impl FnOnce(&mut Budget) -> Result<T>,
) -> Result<()> {
    let btree_map::Entry::Vacant(entry) = entry else { return Ok(()) };
    // A map keeps room for twice the entries it has.
    budget.charge::<(DataRef, T)>(&Section::Graph, 2)?;
    entry.insert(read(budget)?);
    Ok(())
}

/// Named data of the program is as long as the constants of that name. `first` is the number of the first constant in the file.
fn verify_named(constants: &[Constant], first: usize, names: &Names<'_, ByteRange>) -> Result<()> {
    for (index, constant) in constants.iter().enumerate() {
        let ConstantSource::Named(key) = &constant.source else { continue };
        // A key that the program lacks may be in external data; `verify_external` checks that.
        let Some(range) = names.find(key) else { continue };
        if range.len != constant.len {
            let item = Item::Entry { kind: "constant", index: first + index };
            let problem = Problem::Size { what: "the length of its named data", found: range.len, expected: constant.len };
            return Err(Error::new(Location { section: Section::Graph, item }, problem));
        }
    }
    Ok(())
}

/// The element types and ranks of a graph's external values, by their position in a call. Found once: calls may be many.
type Externals = Vec<(u32, DataType, usize)>;

fn sorted_externals(graph: &xnnpack::Graph, budget: &mut Budget) -> Result<Externals> {
    let mut list = budget.vec(&Section::Graph, graph.externals().count())?;
    list.extend(graph.externals().map(|(id, external)| {
        let value = &graph.values[id.index()];
        (external.index, value.dtype, value.dims.len())
    }));
    list.sort_unstable_by_key(|entry| entry.0);
    Ok(list)
}

fn verify_calls(plan: &ExecutionPlan, vulkan: &Graphs<vulkan::Blob>, xnnpack: &Graphs<Externals>) -> Result<()> {
    for (chain, instructions) in plan.chains.iter().map(|chain| &chain.instructions).enumerate() {
        for (index, instruction) in instructions.iter().enumerate() {
            let Instruction::DelegateCall { delegate, args } = instruction else { continue };
            let Some(delegate) = plan.delegates.get(*delegate as usize) else { continue };
            let checked = match delegate.id.as_str() {
                vulkan::BACKEND_ID => vulkan.get(&delegate.data).map_or(Ok(()), |blob| vulkan_call(&blob.graph, args)),
                xnnpack::BACKEND_ID => {
                    xnnpack.get(&delegate.data).map_or(Ok(()), |externals| xnnpack_call(plan, externals, args))
                }
                _ => Ok(()),
            };
            checked.map_err(|problem| {
                let section = Section::Method(clip(&plan.name));
                Error::new(Location { section, item: Item::Instruction { chain, index } }, problem)
            })?;
        }
    }
    Ok(())
}

/// A call passes the graph's inputs, then its outputs.
fn vulkan_call(graph: &vulkan::Graph, args: &[ValueId]) -> Result<(), Problem> {
    let expected = (graph.inputs.len() + graph.outputs.len()) as u64;
    match args.len() as u64 {
        found if found == expected => Ok(()),
        found => Err(Problem::Size { what: "the number of the delegate's arguments", found, expected }),
    }
}

/// The argument at an external index is the tensor of that value; arguments that no value has are integers.
fn xnnpack_call(plan: &ExecutionPlan, externals: &Externals, args: &[ValueId]) -> Result<(), Problem> {
    if let Some(&(index, ..)) = externals.last().filter(|entry| entry.0 as usize >= args.len()) {
        let what = "the argument of an external value";
        return Err(Problem::Index { what, index: index.into(), len: args.len() as u64 });
    }
    let mut externals = externals.iter().peekable();
    for (index, argument) in (0..).zip(args) {
        let Some(argument) = plan.value(*argument) else { continue };
        match externals.next_if(|entry| entry.0 == index) {
            Some(&(_, dtype, rank)) => xnnpack_argument(argument, dtype, rank)?,
            None if matches!(argument, Value::Int(_)) => {}
            None => {
                let (found, expected) = (argument.kind(), "an integer, as no tensor of the graph has its place");
                return Err(Problem::Kind { what: "an argument of the delegate", found, expected });
            }
        }
    }
    Ok(())
}

/// An argument is a tensor of the value's type and rank.
fn xnnpack_argument(argument: &Value, dtype: DataType, rank: usize) -> Result<(), Problem> {
    let Value::Tensor(tensor) = argument else {
        let (found, expected) = (argument.kind(), "a tensor");
        return Err(Problem::Kind { what: "an argument of the delegate", found, expected });
    };
    let (fits, expected) = match dtype {
        DataType::Float32 => (tensor.scalar_type == ScalarType::Float, "float32"),
        DataType::Float16 => (tensor.scalar_type == ScalarType::Half, "float16"),
        DataType::BFloat16 => (tensor.scalar_type == ScalarType::BFloat16, "bfloat16"),
        DataType::Int32 => (matches!(tensor.scalar_type, ScalarType::Int | ScalarType::Long), "int32 or int64"),
        DataType::QUInt8 => (matches!(tensor.scalar_type, ScalarType::Byte | ScalarType::QUInt8), "uint8"),
        _ => (matches!(tensor.scalar_type, ScalarType::Char | ScalarType::QInt8), "int8"),
    };
    if !fits {
        let found = tensor.scalar_type.name();
        return Err(Problem::Kind { what: "the element type of a delegate's argument", found, expected });
    }
    // A single number of the program has one dim in the graph.
    let (found, expected) = (tensor.sizes.len().max(1) as u64, rank.max(1) as u64);
    if found != expected {
        return Err(Problem::Size { what: "the rank of a delegate's argument", found, expected });
    }
    Ok(())
}
