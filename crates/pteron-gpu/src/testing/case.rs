//! Graphs of one call, from a list of its arguments.

use super::{GraphBuilder, bools, check, dims, f32s, i32s, noise, noise_bytes};
use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};

pub(crate) const F: DataType = DataType::Float32;
pub(crate) const I: DataType = DataType::Int32;
pub(crate) const B: DataType = DataType::Bool;
pub(crate) const U8: DataType = DataType::UInt8;
pub(crate) const I8: DataType = DataType::Int8;

/// An argument of a call before its outputs.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    /// An input of the graph.
    In(DataType, Vec<u32>),
    /// An input of integers from 0 to below a limit.
    Indices(Vec<u32>, u32),
    /// A list of inputs.
    Ins(Vec<(DataType, Vec<u32>)>),
    /// A list of inputs of integers from 0 to below a limit, or None.
    IndexList(Vec<Option<(Vec<u32>, u32)>>),
    /// Anything else.
    Value(Value),
}

pub(crate) fn x(dtype: DataType, shape: &[u32]) -> Arg {
    Arg::In(dtype, shape.to_vec())
}

pub(crate) fn int(value: i64) -> Arg {
    Arg::Value(Value::Int(value))
}

pub(crate) fn float(value: f64) -> Arg {
    Arg::Value(Value::Double(value))
}

pub(crate) fn flag(value: bool) -> Arg {
    Arg::Value(Value::Bool(value))
}

pub(crate) fn ints(values: &[i64]) -> Arg {
    Arg::Value(Value::IntList(values.to_vec()))
}

pub(crate) fn none() -> Arg {
    Arg::Value(Value::Null)
}

/// A graph of one call.
pub(crate) struct Case {
    name: &'static str,
    args: Vec<Arg>,
    outs: Vec<(DataType, Vec<u32>)>,
    /// Whether the outputs are one list.
    listed: bool,
}

impl Case {
    pub(crate) fn new(name: &'static str, args: impl IntoIterator<Item = Arg>, out: (DataType, &[u32])) -> Self {
        Self { name, args: args.into_iter().collect(), outs: vec![(out.0, out.1.to_vec())], listed: false }
    }

    /// A call with a list of outputs.
    pub(crate) fn listed(name: &'static str, args: impl IntoIterator<Item = Arg>, outs: &[(DataType, &[u32])]) -> Self {
        let outs = outs.iter().map(|(dtype, dims)| (*dtype, dims.to_vec())).collect();
        Self { name, args: args.into_iter().collect(), outs, listed: true }
    }

    pub(crate) fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let mut args: Vec<ValueId> = self.args.iter().map(|arg| arg.add(&mut builder)).collect();
        let outs: Vec<ValueId> = self.outs.iter().map(|(dtype, dims)| builder.tensor(*dtype, dims)).collect();
        if self.listed {
            args.push(builder.value(Value::ValueList(outs.clone())));
        } else {
            args.extend(&outs);
        }
        builder.call(self.name, &args);
        outs.into_iter().for_each(|out| builder.output(out));
        builder
    }

    /// Random inputs. First dimensions of the length of the first input's are at most `first`.
    pub(crate) fn inputs(&self, first: u32) -> Vec<HostTensor> {
        let seeds = (1..).map(|seed| seed * 31 + u64::from(first));
        let inputs: Vec<CaseInput> = self.args.iter().flat_map(Arg::inputs).collect();
        let bound = inputs.first().and_then(|input| input.shape.first().copied());
        let limit = |input: &CaseInput| if input.shape.first().copied() == bound { first } else { u32::MAX };
        inputs.iter().zip(seeds).map(|(input, seed)| input.values(limit(input), seed)).collect()
    }

    /// Compares the call with its reference at its bounds, and with the first dimension limited to each of these.
    pub(crate) fn check(&self, firsts: &[u32], tolerance: f32) {
        println!("{} {:?}", self.name, self.args);
        let calls: Vec<_> =
            std::iter::once(u32::MAX).chain(firsts.iter().copied()).map(|first| self.inputs(first)).collect();
        check(&self.builder(), &calls, tolerance);
    }

    pub(crate) fn sample(&self, firsts: &[u32]) -> (GraphBuilder, Vec<Vec<HostTensor>>) {
        let calls = std::iter::once(u32::MAX).chain(firsts.iter().copied()).map(|first| self.inputs(first)).collect();
        (self.builder(), calls)
    }
}

/// An input of a case.
struct CaseInput {
    dtype: DataType,
    shape: Vec<u32>,
    /// The limit of its integers.
    limit: Option<u32>,
}

impl CaseInput {
    fn values(&self, first: u32, seed: u64) -> HostTensor {
        let mut shape = self.shape.clone();
        shape.iter_mut().take(1).for_each(|dim| *dim = (*dim).min(first));
        let count = shape.iter().map(|&dim| dim as usize).product();
        let bytes = || noise_bytes(seed, count);
        match (self.dtype, self.limit) {
            (_, Some(limit)) => {
                i32s(&shape, bytes().iter().map(|&byte| i32::try_from(u32::from(byte) % limit).unwrap()).collect())
            }
            (DataType::Float32, _) => f32s(&shape, noise(seed, count).into_iter().map(|value| value * 3.0).collect()),
            (DataType::Int32, _) => i32s(&shape, bytes().iter().map(|&byte| i32::from(byte) % 21 - 10).collect()),
            (DataType::Bool, _) => bools(&shape, seed),
            _ => HostTensor { dims: dims(&shape), data: HostData::U8(bytes()) },
        }
    }
}

impl Arg {
    fn inputs(&self) -> Vec<CaseInput> {
        let of = |dtype, shape: &[u32], limit| CaseInput { dtype, shape: shape.to_vec(), limit };
        match self {
            Self::In(dtype, shape) => vec![of(*dtype, shape, None)],
            Self::Indices(shape, limit) => vec![of(I, shape, Some(*limit))],
            Self::Ins(list) => list.iter().map(|(dtype, shape)| of(*dtype, shape, None)).collect(),
            Self::IndexList(list) => list.iter().flatten().map(|(shape, limit)| of(I, shape, Some(*limit))).collect(),
            Self::Value(_) => Vec::new(),
        }
    }

    fn add(&self, builder: &mut GraphBuilder) -> ValueId {
        let list = |builder: &mut GraphBuilder, ids| builder.value(Value::ValueList(ids));
        match self {
            Self::In(dtype, shape) => builder.input(*dtype, shape),
            Self::Indices(shape, _) => builder.input(I, shape),
            Self::Ins(inputs) => {
                let ids = inputs.iter().map(|(dtype, shape)| builder.input(*dtype, shape)).collect();
                list(builder, ids)
            }
            Self::IndexList(indices) => {
                let mut id = |index: &Option<(Vec<u32>, u32)>| match index {
                    Some((shape, _)) => builder.input(I, shape),
                    None => builder.value(Value::Null),
                };
                let ids = indices.iter().map(&mut id).collect();
                list(builder, ids)
            }
            Self::Value(value) => builder.value(value.clone()),
        }
    }
}
