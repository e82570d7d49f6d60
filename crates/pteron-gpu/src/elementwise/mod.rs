//! Elementwise operators: one to three tensors in, one out, one expression per element. Tables in `ops/` hold the expressions; this
//! module holds the element types, broadcasting and the three kernels.

mod host_math;
mod layout;
mod scalars;
#[cfg(test)]
mod tests;
mod types;

use crate::args::Args;
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, ValueId};
use crate::kernel::reach::{Counts, DispatchView, Reached, count};
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::row_axes::RowAxes;
use crate::shape::{Dims, MAX_RANK, broadcast};
use crate::{includes, params};
pub(crate) use host_math::{
    div_rounded, erf, int_div_rounded, int_fmod, int_pow, int_remainder, remainder, rounding_mode, shift_left, shift_right,
};
use layout::Layout;
pub(crate) use scalars::{ScalarArgs, Scalars, quantisation, requantised};
use types::{Computed, Number};

params! {
    /// Parameters of the elementwise kernels.
    struct Params {
        dims: [u32; MAX_RANK], x: [u32; MAX_RANK], y: [u32; MAX_RANK], z: [u32; MAX_RANK],
        count: u32, rank: u32, flags: u32, pad: u32, p: [f32; 4], q: [i32; 4], r: [f32; 4],
    }
}

/// WGSL that the kernels share.
pub(crate) const INCLUDES: &[Include] =
    includes!["broadcast", "elementwise_main", "elementwise_params", "float_math", "integer_math"];

/// The kernel of a family of operators with `inputs` input tensors. `variants` lists the variants of its table, as [`variants`] does.
pub(crate) const fn kernel(name: &'static str, inputs: usize, variants: fn() -> Vec<Variant>) -> KernelDef {
    let source = match inputs {
        1 => include_str!("elementwise_unary.wgsl"),
        2 => include_str!("elementwise_binary.wgsl"),
        _ => include_str!("elementwise_ternary.wgsl"),
    };
    KernelDef::new(name, source, Params::FIELDS).with_includes(&[INCLUDES]).with_variants(variants).proven(reach)
}

/// A thread computes four elements of the output. The unary kernel loads the same four of its input; the others load at `input_offsets`.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let elements = count(params.count);
    let inputs = [("A", params.x), ("B", params.y), ("C", params.z)];
    let read = inputs.iter().map_while(|(ty, strides)| Some((call.type_bytes(ty)?, strides)));
    let mut reached = Reached::new();
    if call.type_bytes("B").is_none() {
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

/// The largest offset into an input: the last index of every axis but the outermost, which takes the remaining quotient.
fn furthest(params: &Params, strides: &[u32; MAX_RANK]) -> Counts {
    let last = params.rank as usize - 1;
    let inner = params.dims[..last].iter().zip(strides);
    let at = inner.fold(count(0), |at, (&dim, &stride)| at + (count(dim) - count(1)) * count(stride));
    let rows = params.dims[..last].iter().fold(count(1), |rows, &dim| rows * count(dim));
    at + (count(params.count) - count(1)) / rows * count(strides[last])
}

/// Sets of element types for table rows.
pub(crate) const FLOATS: &[Elem] = &[Elem::F32];
pub(crate) const INTEGERS: &[Elem] = &[Elem::I32, Elem::U8, Elem::I8, Elem::Bool];
pub(crate) const ALL: &[Elem] = &[Elem::F32, Elem::I32, Elem::U8, Elem::I8, Elem::Bool];

/// One elementwise operator.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in files. Two rows may share it if they take different element types.
    pub(crate) name: &'static str,
    /// The schema's names of the tensor arguments, which come first.
    pub(crate) tensors: &'static [&'static str],
    /// The element types they may have.
    pub(crate) dtypes: &'static [Elem],
    /// Whether the first tensor is a condition that selects between the others.
    pub(crate) conditional: bool,
    /// The output's element type.
    pub(crate) result: ResultType,
    /// Decodes the arguments between the tensors and the output.
    pub(crate) scalars: fn(&mut Args<'_>) -> Result<ScalarArgs, OpError>,
    /// The formula if a tensor or a scalar argument is a float.
    pub(crate) float: Option<Formula<f64>>,
    /// The formula if all are integers.
    pub(crate) integer: Option<Formula<i64>>,
}

/// A WGSL expression of the vectors x, y and z, and the same formula on the host for tests. The operator's scalar arguments are
/// `params.p` and `params.r` (floats) and `params.q` (integers) in WGSL, and the last argument on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formula<N> {
    wgsl: &'static str,
    #[cfg(any(test, feature = "reference"))]
    host: Host<N>,
    /// Without the reference.
    #[cfg(not(any(test, feature = "reference")))]
    host: std::marker::PhantomData<N>,
}

impl<N: Copy> Formula<N> {
    /// A formula in WGSL and on the host; the latter is kept for tests only.
    pub(crate) const fn new(wgsl: &'static str, host: Host<N>) -> Self {
        #[cfg(not(any(test, feature = "reference")))]
        let host = {
            let _ = host;
            std::marker::PhantomData
        };
        Self { wgsl, host }
    }
}

/// A formula on the host, by number of input tensors.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(any(test, feature = "reference")), allow(dead_code, reason = "only references call formulas on the host"))]
pub(crate) enum Host<N> {
    Unary(fn(N, &Scalars<N>) -> N),
    Binary(fn(N, N, &Scalars<N>) -> N),
    Ternary(fn(N, N, N) -> N),
    /// With a condition first.
    Select(fn(i64, N, N) -> N),
}

/// A function of one float that kernels of other operators apply to their results: `apply` in their source, which includes `float_math`,
/// aliases X as `vec4<f32>` and has the scalar arguments in `params.p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activation {
    /// The operator's name.
    pub(crate) name: &'static str,
    formula: Formula<f64>,
    /// The operator's scalar arguments.
    pub(crate) values: [f64; 4],
}

impl Activation {
    /// Creates a function that no operator is.
    pub(crate) const fn new(name: &'static str, formula: Formula<f64>) -> Self {
        Self { name, formula, values: [0.0; 4] }
    }

    /// The function of an operator with one input, if it has one for floats.
    pub(crate) fn of(row: &'static Row, values: [f64; 4]) -> Option<Self> {
        let same = matches!(row.result, ResultType::Promoted | ResultType::Float);
        let formula = row.float.filter(|_| row.tensors.len() == 1 && same)?;
        Some(Self { name: row.name, formula, values })
    }

    fn scalars(&self) -> Scalars<f64> {
        let [a, b, c, d] = self.values;
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }

    /// The expression of x.
    pub(crate) fn wgsl(&self) -> &'static str {
        self.formula.wgsl
    }

    pub(crate) fn params(&self) -> [f32; 4] {
        ScalarArgs { values: self.scalars(), floats: true, ..ScalarArgs::default() }.params().0
    }

    /// The function on the host.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn apply(&self, x: f64) -> f64 {
        match self.formula.host {
            Host::Unary(function) => function(x, &self.scalars()),
            Host::Binary(_) | Host::Ternary(_) | Host::Select(_) => x,
        }
    }
}

/// The element type of an operator's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultType {
    /// The type that PyTorch promotes the inputs to.
    Promoted,
    /// Floats, for inputs of any type.
    Float,
    /// Booleans.
    Bool,
    /// The type that the file declares for the output.
    Output,
    /// The same values, cast to the type that the file declares for the output.
    Cast,
}

/// Returns the names of a table for its registry entry.
pub(crate) const fn names<const N: usize>(rows: &'static [Row]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = rows[index].name;
        // Overloads of a name are adjacent, and no element type fits two of them: the first that fits is decoded.
        if index > 0 && same_text(rows[index - 1].name, rows[index].name) {
            assert!(!overlap(rows[index - 1].dtypes, rows[index].dtypes), "two overloads take the same element type");
        }
        index += 1;
    }
    names
}

const fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

const fn overlap(a: &[Elem], b: &[Elem]) -> bool {
    let mut index = 0;
    while index < a.len() * b.len() {
        if a[index / b.len()] as u8 == b[index % b.len()] as u8 {
            return true;
        }
        index += 1;
    }
    false
}

/// Decodes a call of an operator of the table, which the family's kernel computes.
pub(crate) fn decode(
    kernel: &'static KernelDef,
    table: &'static [Row],
    args: &mut Args<'_>,
) -> Result<Box<dyn Op>, OpError> {
    let first = args.row(table);
    // Overloads for other element types are adjacent.
    let overloads =
        || table.iter().skip_while(move |row| row.name != first.name).take_while(move |row| row.name == first.name);
    let inputs = first.tensors.iter().map(|tensor| args.tensor(tensor)).collect::<Result<Vec<_>, _>>()?;
    let elems: Vec<Elem> = inputs.iter().map(|&tensor| args.info(tensor).elem).collect();
    let Some(row) = overloads().find(|row| elems.iter().all(|elem| row.dtypes.contains(elem))) else {
        return Err(refuse_elements(first, &elems, &overloads().flat_map(|row| row.dtypes).copied().collect::<Vec<_>>()));
    };
    let scalars = (row.scalars)(args)?;
    finish(kernel, row, inputs, scalars, args)
}

/// Decodes the output of a row's operator, whose other arguments are taken.
pub(crate) fn finish(
    kernel: &'static KernelDef,
    row: &'static Row,
    inputs: Vec<TensorId>,
    scalars: ScalarArgs,
    args: &mut Args<'_>,
) -> Result<Box<dyn Op>, OpError> {
    let out = args.output("out")?;
    let elems: Vec<Elem> = inputs.iter().map(|&tensor| args.info(tensor).elem).collect();
    let signature = Signature::of(row, &elems, scalars.floats, args.info(out).elem)?;
    Ok(Box::new(Elementwise { kernel, row, signature, inputs, scalars, out }))
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

/// The storage and compute types of an operator's inputs and output.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    inputs: Vec<Elem>,
    /// Whether the first input is a condition.
    conditional: bool,
    /// The type that the expression computes in.
    number: Number,
    /// The type of the expression.
    result: Computed,
    out: Elem,
}

impl Signature {
    fn of(row: &Row, inputs: &[Elem], floats: bool, out: Elem) -> Result<Self, OpError> {
        // A condition takes no part in promotion.
        let values = if row.conditional { &inputs[1..] } else { inputs };
        if row.conditional && !matches!(inputs[0], Elem::Bool | Elem::U8) {
            return Err(OpError::new(row.tensors[0], format!("has elements {:?}, supported: [Bool, U8]", inputs[0])));
        }
        let promoted = values.iter().copied().reduce(types::promote).unwrap_or(Elem::F32);
        // Exporters merge equal scalars of different types, so only the output shows whether a scalar was a float.
        let to_floats = row.result == ResultType::Promoted && out == Elem::F32 && row.float.is_some();
        let floats = floats || to_floats || row.result == ResultType::Float || promoted == Elem::F32;
        let expected = match row.result {
            ResultType::Bool | ResultType::Output | ResultType::Cast => out,
            ResultType::Promoted | ResultType::Float if floats => Elem::F32,
            ResultType::Promoted | ResultType::Float => promoted,
        };
        if !types::can_cast(expected, out) {
            return Err(OpError::new("out", format!("has elements {out:?}, but the result's are {expected:?}")));
        }
        let number = if floats { Number::Float } else { Number::Integer };
        let result = if row.result == ResultType::Bool { Computed::Bool } else { Computed::Number(number) };
        let signature = Self { inputs: inputs.to_vec(), conditional: row.conditional, number, result, out };
        match signature.expression(row) {
            Some(_) => Ok(signature),
            None => Err(refuse_elements(row, inputs, row.dtypes)),
        }
    }

    fn expression(&self, row: &Row) -> Option<&'static str> {
        match self.number {
            Number::Float => row.float.as_ref().map(|formula| formula.wgsl),
            Number::Integer => row.integer.as_ref().map(|formula| formula.wgsl),
        }
    }

    /// The compute type of an input. A condition is an integer, whatever the others are.
    fn number_of(&self, input: usize) -> Number {
        if self.conditional && input == 0 { Number::Integer } else { self.number }
    }

    /// The kernel variant for these types with a row's expression.
    fn variant(&self, kernel: &'static KernelDef, row: &Row) -> Variant {
        let mut variant = Variant::new(kernel).labelled(row.name);
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

/// Every variant that a table needs of its family's kernel: each row with each element type it accepts.
pub(crate) fn variants(kernel: &'static KernelDef, table: &'static [Row]) -> Vec<Variant> {
    let of_row = |row: &'static Row| {
        let outputs = |elem: Elem| match row.result {
            ResultType::Output | ResultType::Cast => ALL.to_vec(),
            ResultType::Bool => vec![Elem::Bool],
            ResultType::Promoted => vec![elem],
            ResultType::Float => vec![Elem::F32],
        };
        let variant = move |elem: Elem, out| {
            let mut inputs = vec![elem; row.tensors.len()];
            if row.conditional {
                inputs[0] = Elem::Bool;
            }
            // Scalar arguments may promote integers, where integers alone have no formula.
            let signature = [false, true].into_iter().find_map(|floats| Signature::of(row, &inputs, floats, out).ok());
            signature.map(|signature| signature.variant(kernel, row))
        };
        row.dtypes.iter().flat_map(move |&elem| outputs(elem).into_iter().filter_map(move |out| variant(elem, out)))
    };
    table.iter().flat_map(of_row).collect()
}

#[derive(Debug)]
pub(crate) struct Elementwise {
    kernel: &'static KernelDef,
    pub(crate) row: &'static Row,
    signature: Signature,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) scalars: ScalarArgs,
    pub(crate) out: TensorId,
}

impl Elementwise {
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

impl Op for Elementwise {
    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        if !layout.can_move(self.out) || !self.inputs.iter().any(|&input| layout.moved(input).is_some()) {
            return None;
        }
        let rank = layout.info(self.out).bound.len();
        // Broadcasting depends on positions of dims, unless a tensor is a single number.
        let single = |layout: &Relayout<'_>, input| {
            let bound = layout.info(input).bound;
            bound.len() != rank && bound.iter().all(|&dim| dim == 1)
        };
        let movable =
            |&input: &TensorId| single(layout, input) || (layout.can_move(input) && layout.info(input).bound.len() == rank);
        if !self.inputs.iter().all(movable) {
            return None;
        }
        let mut args = layout.call.args.clone();
        for (arg, &input) in args.iter_mut().zip(&self.inputs) {
            if !single(layout, input) {
                *arg = ValueId(layout.moved_or_copied(input).0);
            }
        }
        *args.last_mut()? = ValueId(layout.output(self.out).0);
        Some(Call { args, ..layout.call.clone() })
    }

    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.broadcast(&self.inputs)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = self.inputs.iter().chain([&self.out]).map(|&tensor| tensor.into());
        Ok(Recipes::of([Recipe::new(self.signature.variant(self.kernel, self.row), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let out = self.out_dims(cx)?;
        let inputs: Vec<Dims> = self.inputs.iter().map(|&input| cx.dims(input)).collect();
        let Layout { dims, strides, rank, flags } = Layout::new(&out, &inputs);
        let (p, q, r) = self.scalars.live(cx).params();
        let [x, y, z] = strides;
        let params = Params { dims, x, y, z, count: out.count_u32(), rank, flags, pad: 0, p, q, r };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 1024)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.out_dims(cx)?;
        let (row, elem, scalars) = (self.row, self.signature.out, self.scalars.live(cx));
        let data = match (self.signature.number, &row.float, &row.integer) {
            (Number::Float, Some(formula), _) => {
                let values = self.evaluate(cx, &out, tensors, formula.host, types::floats, &scalars.values);
                types::host_floats(elem, values.into_iter())
            }
            (Number::Integer, _, Some(formula)) => {
                let values = self.evaluate(cx, &out, tensors, formula.host, types::integers, &scalars.integers());
                types::host_integers(elem, values.into_iter())
            }
            _ => return Ok(()),
        };
        tensors.set(self.out, out, data);
        Ok(())
    }

    fn alias(&self) -> Option<TensorId> {
        // A cast to the same type is the identity.
        let same = self.row.result == ResultType::Cast && self.signature.inputs == [self.signature.out];
        same.then(|| self.inputs[0])
    }
}

#[cfg(any(test, feature = "reference"))]
impl Elementwise {
    /// Evaluates the formula for each element of the output on the host.
    fn evaluate<N: Copy>(
        &self,
        cx: &PlanCx<'_>,
        out: &Dims,
        tensors: &HostTensors,
        formula: Host<N>,
        read: fn(Elem, &HostTensors, TensorId) -> Vec<N>,
        scalars: &Scalars<N>,
    ) -> Vec<N> {
        let shapes: Vec<Dims> = self.inputs.iter().map(|&input| cx.dims(input)).collect();
        let elems = &self.signature.inputs;
        let inputs: Vec<Vec<N>> = self.inputs.iter().zip(elems).map(|(&id, &elem)| read(elem, tensors, id)).collect();
        let conditions = types::integers(elems[0], tensors, self.inputs[0]);
        let at = |input: usize, index: &[u32]| broadcast_offset(&shapes[input], index);
        let value = |input: usize, index: &[u32]| inputs[input][at(input, index)];
        let each = |index: Vec<u32>| match formula {
            Host::Unary(f) => f(value(0, &index), scalars),
            Host::Binary(f) => f(value(0, &index), value(1, &index), scalars),
            Host::Ternary(f) => f(value(0, &index), value(1, &index), value(2, &index)),
            Host::Select(f) => f(conditions[at(0, &index)], value(1, &index), value(2, &index)),
        };
        indices(out).map(each).collect()
    }
}
