//! `aten.topk` and `aten.sort`: the largest or smallest elements of a dimension in order, and their indices. Of equal elements the first
//! comes first.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reduction::{self, RowShape};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;
use crate::sorting::{KERNELS, Sorting};

static KEYS: KernelDef = KernelDef::new("sort_keys", include_str!("sort_keys.wgsl"), Params::FIELDS)
    .with_includes(&[reduction::INCLUDES])
    .with_variants(|| {
        [Elem::F32, Elem::I32].into_iter().flat_map(|elem| [true, false].map(|down| keys(elem, down))).collect()
    });
static GATHER: KernelDef = KernelDef::new("sort_gather", include_str!("sort_gather.wgsl"), Params::FIELDS);

const TOPK: &str = "aten.topk.default";
const STABLE: &str = "aten.sort.stable";

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &[TOPK, "aten.sort.default", STABLE],
    internal: &[],
    kernels: &[&KEYS, KERNELS[0], KERNELS[1], &GATHER],
    decode,
};

params! {
    /// Of `sort_keys.wgsl` and `sort_gather.wgsl`.
    struct Params { count: u32, length: u32, inner: u32, taken: u32 }
}

/// The recipes: keys, gathers from either scratch buffer, then those of the sort.
const KEYS_RECIPE: usize = 0;
const GATHER_RECIPE: usize = 1;
const SORT: usize = 3;

/// The kernel that writes keys in descending or ascending order.
fn keys(elem: Elem, descending: bool) -> Variant {
    let key = match (elem, descending) {
        (Elem::F32, false) => "comparison_key(bits)",
        (Elem::F32, true) => "~comparison_key(bits)",
        (_, false) => "bits ^ SIGN",
        (_, true) => "~(bits ^ SIGN)",
    };
    Variant::new(&KEYS).with_function("fn key(bits: u32) -> u32", key)
}

#[derive(Debug)]
struct Sort {
    x: TensorId,
    elem: Elem,
    axis: usize,
    /// The number of elements; all of them if None.
    taken: Option<Scalar>,
    descending: bool,
    values: TensorId,
    indices: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let x = args.tensor_of("self", &[Elem::F32, Elem::I32])?;
    let info = args.info(x);
    let taken = if name == TOPK { Some(args.scalar("k")?) } else { None };
    if name == STABLE {
        // Every sort is stable.
        args.ignore("stable")?;
    }
    let axis = args.axis("dim", info.bound.len())?;
    let descending = args.bool(if name == TOPK { "largest" } else { "descending" })?;
    if name == TOPK {
        // Any order would do, and so does this one.
        args.ignore("sorted")?;
    }
    let outputs = args.outputs("out", 2)?;
    for (&output, expected) in outputs.iter().zip([info.elem, Elem::I32]) {
        let found = args.info(output).elem;
        if found != expected {
            return Err(OpError::new("out", format!("has elements {found:?}, but the result's are {expected:?}")));
        }
    }
    Ok(Box::new(Sort { x, elem: info.elem, axis, taken, descending, values: outputs[0], indices: outputs[1] }))
}

impl Sort {
    fn rows(&self, dims: &Dims) -> RowShape {
        RowShape::along(dims, self.axis..self.axis + 1)
    }

    /// The number of elements that are taken of a row.
    fn taken(&self, cx: &PlanCx<'_>, length: u32) -> Result<u32, OpError> {
        let Some(taken) = self.taken.map(|taken| cx.scalar(taken)) else { return Ok(length) };
        let taken = u32::try_from(taken).ok().filter(|&taken| taken <= length);
        taken.ok_or_else(|| {
            let asked = self.taken.map_or(0, |taken| cx.scalar(taken));
            OpError::new("k", format!("is {asked}, but the dimension has {length} elements"))
        })
    }

    fn out_dims(&self, dims: &Dims, taken: u32) -> Dims {
        if dims.is_empty() { *dims } else { dims.with(self.axis, taken) }
    }
}

impl Op for Sort {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = cx.bound(self.x);
        let (name, length) = (KEYS.name, self.rows(&bound).length);
        let gather = |buffer| {
            let outputs = [self.values, self.indices].map(Bind::Tensor);
            Recipe::new(Variant::new(&GATHER), [Bind::Scratch(buffer), self.x.into()].into_iter().chain(outputs))
        };
        let keys = Recipe::new(keys(self.elem, self.descending), [self.x.into(), Bind::Scratch(0)]);
        let mut recipes = Recipes::of([keys, gather(0), gather(1)]);
        recipes.list.extend(Sorting::new(SORT, 0).recipes(length, name));
        recipes.scratch = Sorting::scratch(bound.count(), length).to_vec();
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let shape = self.rows(&dims);
        let taken = self.taken(cx, shape.length)?;
        let out = self.out_dims(&dims, taken);
        let mut plan = Plan { outputs: vec![(self.values, out), (self.indices, out)], ..Plan::default() };
        if out.count() == 0 {
            return Ok(plan);
        }
        let rows = u32::try_from(shape.count()).unwrap_or(u32::MAX);
        let (sorting, sorted) = Sorting::new(SORT, 0).dispatches(rows, shape.length)?;
        let params = |count| Params { count, length: shape.length, inner: shape.inner, taken };
        plan.steps.extend(Dispatch::items(KEYS_RECIPE, &params(dims.count_u32()), dims.count(), 256)?);
        plan.steps.extend(sorting);
        plan.steps.extend(Dispatch::items(GATHER_RECIPE + sorted, &params(out.count_u32()), out.count(), 256)?);
        plan.scratch = Sorting::scratch(dims.count(), shape.length).to_vec();
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let RowShape { length, inner, .. } = self.rows(&dims);
        let taken = self.taken(cx, length)? as usize;
        let out = self.out_dims(&dims, u32::try_from(taken).unwrap_or(0));
        let x = tensors.numbers(self.elem, self.x);
        let (length, inner) = (length as usize, inner as usize);
        let count = usize::try_from(out.count()).unwrap_or(0);
        let (mut values, mut indices) = (vec![0.0; count], vec![0; count]);
        for row in 0..if count == 0 { 0 } else { x.len() / length } {
            let at = |k: usize, length: usize| (row / inner * length + k) * inner + row % inner;
            // NaN is above every number.
            let key = |k: usize| (x[at(k, length)].is_nan(), x[at(k, length)]);
            let compare = |a: usize, b: usize| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal);
            let mut order: Vec<usize> = (0..length).collect();
            order.sort_by(|&a, &b| if self.descending { compare(b, a) } else { compare(a, b) });
            for (k, &from) in order.iter().take(taken).enumerate() {
                values[at(k, taken)] = x[at(from, length)];
                indices[at(k, taken)] = i32::try_from(from).unwrap_or(i32::MAX);
            }
        }
        tensors.set(self.values, out, HostData::from_numbers(self.elem, values));
        tensors.set(self.indices, out, HostData::I32(indices));
        Ok(())
    }
}
