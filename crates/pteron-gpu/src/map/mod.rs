//! Elementwise operators: one to three tensors in, one out, an expression between. Tables in `ops/` hold the expressions; what
//! all of them share is here: element types, broadcasting, and the three kernels.

mod layout;
#[cfg(test)]
mod tests;
mod types;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::shape::{Dims, MAX_RANK, broadcast};
use layout::Layout;
use types::{Computed, Number};

params! {
    /// Of the kernels.
    struct Params {
        dims: [u32; MAX_RANK], x: [u32; MAX_RANK], y: [u32; MAX_RANK], z: [u32; MAX_RANK],
        count: u32, rank: u32, modes: u32, pad: u32, p: [f32; 4], q: [i32; 4],
    }
}

pub(crate) static MAP1: KernelDef =
    KernelDef::new("map1", include_str!("map1.wgsl"), Params::FIELDS).with_variants(|| variants(1)).proven(reach);
pub(crate) static MAP2: KernelDef =
    KernelDef::new("map2", include_str!("map2.wgsl"), Params::FIELDS).with_variants(|| variants(2)).proven(reach);
pub(crate) static MAP3: KernelDef =
    KernelDef::new("map3", include_str!("map3.wgsl"), Params::FIELDS).with_variants(|| variants(3)).proven(reach);

/// A thread has four elements of the output. A kernel with one input reads the same four of it; others read where `places` leads.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let elements = count(params.count);
    let inputs = [("A", params.x), ("B", params.y), ("C", params.z)];
    let read = inputs.iter().map_while(|(ty, strides)| Some((call.type_bytes(ty)?, strides)));
    let mut reached = Reached::new();
    if std::ptr::eq(call.variant.kernel, &MAP1) {
        reached = reached.fours(elements, call.type_bytes("A")?);
    } else if (1..=MAX_RANK).contains(&(params.rank as usize)) && params.count > 0 {
        for (bytes, strides) in read {
            reached = reached.fours(furthest(&params, strides) + count(1), bytes);
        }
    } else {
        return None;
    }
    Some(reached.fours(elements, call.type_bytes("O")?))
}

/// The furthest place of an input: the last index of every axis but the outermost, which has what is left.
fn furthest(params: &Params, strides: &[u32; MAX_RANK]) -> Counts {
    let last = params.rank as usize - 1;
    let inner = params.dims[..last].iter().zip(strides);
    let at = inner.fold(count(0), |at, (&dim, &stride)| at + (count(dim) - count(1)) * count(stride));
    let rows = params.dims[..last].iter().fold(count(1), |rows, &dim| rows * count(dim));
    at + (count(params.count) - count(1)) / rows * count(strides[last])
}

/// By number of tensors.
static KERNELS: [&KernelDef; 3] = [&MAP1, &MAP2, &MAP3];

/// The element types that tables name.
pub(crate) const FLOATS: &[Elem] = &[Elem::F32];
pub(crate) const NUMBERS: &[Elem] = &[Elem::F32, Elem::I32];
pub(crate) const WHOLE: &[Elem] = &[Elem::I32, Elem::U8, Elem::I8, Elem::Bool];
pub(crate) const ALL: &[Elem] = &[Elem::F32, Elem::I32, Elem::U8, Elem::I8, Elem::Bool];

/// An operator of a family.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in files. Two rows may share it if they take different elements.
    pub(crate) name: &'static str,
    /// What the tensors are called in the schema, in order; they come first.
    pub(crate) tensors: &'static [&'static str],
    /// The elements they may have.
    pub(crate) takes: &'static [Elem],
    /// What the output holds.
    pub(crate) gives: Gives,
    /// Reads the arguments between the tensors and the output.
    pub(crate) numbers: fn(&mut Args<'_>) -> Result<Numbers, OpError>,
    /// What is computed where a tensor or a number is a float.
    pub(crate) float: Option<Formula<f64>>,
    /// What is computed where all are integers.
    pub(crate) integer: Option<Formula<i64>>,
}

/// An expression for the GPU, on x, y and z, four elements each, and its twin for tests. The operator's numbers are `params.p`
/// as floats and `params.q` as integers there, the second argument here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formula<N> {
    pub(crate) wgsl: &'static str,
    pub(crate) host: Host<N>,
}

/// A formula in plain Rust, by number of tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host<N> {
    One(fn(N, &[N; 4]) -> N),
    Two(fn(N, N, &[N; 4]) -> N),
    Three(fn(i64, N, N) -> N),
}

/// What an expression results in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// Elements of the type that PyTorch promotes the inputs to.
    Same,
    /// Floats, whatever the inputs are.
    Floats,
    /// Truth values.
    Truth,
    /// What the output's own type says.
    Output,
    /// The same numbers as elements of the output's own type.
    Converted,
}

/// The numbers among an operator's arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) values: [f64; 4],
    /// Whether they make floats of integers.
    pub(crate) floats: bool,
}

impl Numbers {
    /// No arguments.
    pub(crate) fn none(_: &mut Args<'_>) -> Result<Self, OpError> {
        Ok(Self::default())
    }

    /// These, which make floats of integers if one of them has a fraction or does not fit.
    pub(crate) fn of(given: &[f64]) -> Self {
        let mut values = [0.0; 4];
        values.iter_mut().zip(given).for_each(|(to, &from)| *to = from);
        let whole = |value: &f64| value.is_infinite() || (value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX));
        Self { values, floats: !given.iter().all(whole) }
    }

    fn integers(&self) -> [i64; 4] {
        #[allow(clippy::cast_possible_truncation, reason = "an infinite bound of integers is the largest one")]
        self.values.map(|value| (value as i64).clamp(i32::MIN.into(), i32::MAX.into()))
    }

    fn params(&self) -> ([f32; 4], [i32; 4]) {
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits, and integers were clamped to them")]
        (self.values.map(|value| value as f32), self.integers().map(|value| value as i32))
    }
}

/// The names of a table, for its registry entry.
pub(crate) const fn names<const N: usize>(rows: &'static [Row]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = rows[index].name;
        index += 1;
    }
    names
}

/// Decodes a call of a table's operator.
pub(crate) fn decode(table: &'static [Row], args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let rows = || table.iter().filter(move |row| row.name == name);
    let Some(first) = rows().next() else { return Err(OpError::new("self", "is of no known family")) };
    let taken = first.tensors.iter().map(|tensor| args.tensor(tensor)).collect::<Result<Vec<_>, _>>()?;
    let elems: Vec<Elem> = taken.iter().map(|&tensor| args.info(tensor).elem).collect();
    let Some(row) = rows().find(|row| elems.iter().all(|elem| row.takes.contains(elem))) else {
        return Err(refuse_elements(first, &elems, &rows().flat_map(|row| row.takes).copied().collect::<Vec<_>>()));
    };
    let numbers = (row.numbers)(args)?;
    let out = args.output("out")?;
    let shape = Shape::of(row, &elems, numbers.floats, args.info(out).elem)?;
    Ok(Box::new(Map { row, shape, inputs: taken, numbers, out }))
}

fn refuse_elements(row: &Row, elems: &[Elem], supported: &[Elem]) -> OpError {
    let bad = row.tensors.iter().zip(elems).find(|(_, elem)| !supported.contains(elem));
    match bad {
        Some((name, elem)) => OpError::new(name, format!("has elements {elem:?}, supported: {supported:?}")),
        None => {
            OpError::new(row.tensors[0], format!("and the others have elements {elems:?}, which are not supported together"))
        }
    }
}

/// An operator's types: of what is stored, and of what is computed.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    inputs: Vec<Elem>,
    /// What is computed with.
    number: Number,
    /// What is computed.
    result: Computed,
    out: Elem,
}

impl Shape {
    fn of(row: &Row, inputs: &[Elem], floats: bool, out: Elem) -> Result<Self, OpError> {
        // A condition chooses between numbers without being one.
        let values = if row.tensors.len() == 3 { &inputs[1..] } else { inputs };
        if row.tensors.len() == 3 && !matches!(inputs[0], Elem::Bool | Elem::U8) {
            return Err(OpError::new(row.tensors[0], format!("has elements {:?}, supported: [Bool, U8]", inputs[0])));
        }
        let promoted = values.iter().copied().reduce(types::promote).unwrap_or(Elem::F32);
        let floats = floats || row.gives == Gives::Floats || promoted == Elem::F32;
        let expected = match row.gives {
            Gives::Truth => Elem::Bool,
            Gives::Output | Gives::Converted => out,
            Gives::Same | Gives::Floats => {
                if floats {
                    Elem::F32
                } else {
                    promoted
                }
            }
        };
        if out != expected {
            return Err(OpError::new("out", format!("has elements {out:?}, but the answer's are {expected:?}")));
        }
        let number = if floats { Number::Float } else { Number::Integer };
        let result = if row.gives == Gives::Truth { Computed::Truth } else { Computed::Number(number) };
        let shape = Self { inputs: inputs.to_vec(), number, result, out };
        match shape.expression(row) {
            Some(_) => Ok(shape),
            None => Err(refuse_elements(row, inputs, row.takes)),
        }
    }

    fn expression(&self, row: &Row) -> Option<&'static str> {
        match self.number {
            Number::Float => row.float.as_ref().map(|formula| formula.wgsl),
            Number::Integer => row.integer.as_ref().map(|formula| formula.wgsl),
        }
    }

    /// What an input is computed as: a condition is an integer whatever the others are.
    fn number_of(&self, input: usize) -> Number {
        if self.inputs.len() == 3 && input == 0 { Number::Integer } else { self.number }
    }

    /// The kernel for these types with a row's expression.
    fn variant(&self, row: &Row) -> Variant {
        let mut variant = Variant::new(KERNELS[self.inputs.len() - 1]).labelled(row.name);
        for (index, &elem) in self.inputs.iter().enumerate() {
            let slot = &types::SLOTS[index];
            let number = self.number_of(index);
            variant = variant.with_type(slot.stored, types::stored(elem)).with_type(slot.computed, number.vector());
            variant = variant.with_function(slot.widen, types::widen(elem, number));
            if self.inputs.len() > 1 {
                variant = variant.with_function(slot.gather, types::gather(slot, elem));
            }
        }
        variant = variant.with_type("R", self.result.vector()).with_type("O", types::stored(self.out));
        variant = variant.with_function("fn narrow(v: R) -> O", types::narrow(self.result, self.out));
        variant.with_function(types::HEADS[self.inputs.len() - 1], self.expression(row).unwrap_or("R()"))
    }
}

/// Every variant of a kernel: each row of each table with each element type it takes.
fn variants(tensors: usize) -> Vec<Variant> {
    let rows = crate::ops::MAPS.iter().copied().flatten().filter(|row| row.tensors.len() == tensors);
    let of_row = |row: &'static Row| {
        let outputs = |elem: Elem| match row.gives {
            Gives::Output | Gives::Converted => ALL.to_vec(),
            Gives::Truth => vec![Elem::Bool],
            Gives::Same => vec![elem],
            Gives::Floats => vec![Elem::F32],
        };
        let shape = move |elem: Elem, out| {
            let mut inputs = vec![elem; tensors];
            if tensors == 3 {
                inputs[0] = Elem::Bool;
            }
            Shape::of(row, &inputs, false, out).ok().map(|shape| shape.variant(row))
        };
        row.takes.iter().flat_map(move |&elem| outputs(elem).into_iter().filter_map(move |out| shape(elem, out)))
    };
    rows.flat_map(of_row).collect()
}

#[derive(Debug)]
struct Map {
    row: &'static Row,
    shape: Shape,
    inputs: Vec<TensorId>,
    numbers: Numbers,
    out: TensorId,
}

impl Map {
    fn out_dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let mut out = cx.dims(self.inputs[0]);
        for (name, &input) in self.row.tensors.iter().zip(&self.inputs).skip(1) {
            let dims = cx.dims(input);
            out = broadcast(&out, &dims)
                .ok_or_else(|| OpError::new(name, format!("is {dims}, which cannot be broadcast with {out}")))?;
        }
        Ok(out)
    }
}

impl Op for Map {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = self.inputs.iter().chain([&self.out]).map(|&tensor| tensor.into());
        Ok(Recipes::of([Recipe::new(self.shape.variant(self.row), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let out = self.out_dims(cx)?;
        let inputs: Vec<Dims> = self.inputs.iter().map(|&input| cx.dims(input)).collect();
        let Layout { dims, strides, rank, modes } = Layout::new(&out, &inputs);
        let (p, q) = self.numbers.params();
        let [x, y, z] = strides;
        let params = Params { dims, x, y, z, count: out.count_u32(), rank, modes, pad: 0, p, q };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 1024)?))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.out_dims(cx)?;
        let (row, elem) = (self.row, self.shape.out);
        let data = match (self.shape.number, &row.float, &row.integer) {
            (Number::Float, Some(formula), _) => {
                let values = self.evaluate(cx, &out, tensors, formula.host, types::floats, &self.numbers.values);
                types::host_floats(elem, values.into_iter())
            }
            (Number::Integer, _, Some(formula)) => {
                let values = self.evaluate(cx, &out, tensors, formula.host, types::integers, &self.numbers.integers());
                types::host_integers(elem, values.into_iter())
            }
            _ => return Ok(()),
        };
        tensors.set(self.out, out, data);
        Ok(())
    }

    fn alias(&self) -> Option<TensorId> {
        // A conversion to the same type changes nothing.
        let same = self.row.gives == Gives::Converted && self.shape.inputs == [self.shape.out];
        same.then(|| self.inputs[0])
    }
}

impl Map {
    /// The formula for each element of the output, on the host.
    fn evaluate<N: Copy>(
        &self,
        cx: &PlanCx<'_>,
        out: &Dims,
        tensors: &HostTensors,
        formula: Host<N>,
        read: fn(Elem, &HostTensors, TensorId) -> Vec<N>,
        numbers: &[N; 4],
    ) -> Vec<N> {
        let shapes: Vec<Dims> = self.inputs.iter().map(|&input| cx.dims(input)).collect();
        let elems = &self.shape.inputs;
        let inputs: Vec<Vec<N>> = self.inputs.iter().zip(elems).map(|(&id, &elem)| read(elem, tensors, id)).collect();
        let conditions = types::integers(elems[0], tensors, self.inputs[0]);
        let at = |input: usize, index: &[u32]| broadcast_offset(&shapes[input], index);
        let value = |input: usize, index: &[u32]| inputs[input][at(input, index)];
        let each = |index: Vec<u32>| match formula {
            Host::One(f) => f(value(0, &index), numbers),
            Host::Two(f) => f(value(0, &index), value(1, &index), numbers),
            Host::Three(f) => f(conditions[at(0, &index)], value(1, &index), value(2, &index)),
        };
        indices(out).map(each).collect()
    }
}
