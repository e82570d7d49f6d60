//! Operators that write elements by index: `aten.scatter`, `aten.scatter_add` and `aten.index_put`.
//!
//! The output is `self` with some elements replaced, or with numbers added to them. Where several indices name one element the last
//! one wins, and sums are added in the order of the indices, whatever the device: replacing elements first marks each with the
//! largest number of a source element that names it; adding sorts the source elements by the element that they name.

mod masked;
#[cfg(any(test, feature = "reference"))]
mod reference;
#[cfg(test)]
mod tests;

use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::graph::Elem;
use crate::index_offsets::{self, IndexList};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::{Dims, MAX_RANK};
use crate::sorting::{self, Sorting};
use crate::strided_copy;
use crate::strided_copy::strides::{self, Axis, StridedDims};

static CLEAR: KernelDef = KernelDef::new("scatter_clear", include_str!("scatter_clear.wgsl"), Params::FIELDS);
static MARK: KernelDef = KernelDef::new("scatter_mark", include_str!("scatter_mark.wgsl"), Params::FIELDS)
    .with_includes(&[strided_copy::INCLUDES, INCLUDES]);
static RESOLVE: KernelDef = KernelDef::new("scatter_resolve", include_str!("scatter_resolve.wgsl"), Params::FIELDS)
    .with_includes(&[strided_copy::INCLUDES, INCLUDES]);
static PAIRS: KernelDef = KernelDef::new("scatter_pairs", include_str!("scatter_pairs.wgsl"), Params::FIELDS)
    .with_includes(&[strided_copy::INCLUDES, INCLUDES]);
static ADD: KernelDef = KernelDef::new("scatter_add", include_str!("scatter_add.wgsl"), Params::FIELDS)
    .with_includes(&[strided_copy::INCLUDES, INCLUDES])
    .with_types(&[("T", &["f32", "i32"])]);

const INCLUDES: &[crate::kernel::Include] = crate::includes!["scatter_params"];

params! {
    /// Of `include/scatter_params.wgsl`.
    struct Params {
        dims: [u32; MAX_RANK], strides: [u32; 2 * MAX_RANK], rank: u32, count: u32, limit: u32, index_stride: u32,
        value: u32, sources: u32, pad: [u32; 2],
    }
}

/// The operators of the family.
const TABLE: &[(&str, Form)] = &[
    ("aten.scatter.value", Form::Value),
    ("aten.scatter.src", Form::Source),
    ("aten.scatter_add.default", Form::Add),
    ("aten.index_put.default", Form::Put),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Value,
    Source,
    Add,
    Put,
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[],
    kernels: &[
        &CLEAR,
        &MARK,
        &RESOLVE,
        &PAIRS,
        &ADD,
        &masked::KERNEL,
        &index_offsets::KERNEL,
        sorting::KERNELS[0],
        sorting::KERNELS[1],
    ],
    decode,
};

/// How source elements name elements of the output.
#[derive(Debug)]
enum Index {
    /// By an index tensor along one dimension; other indices are those of the source element.
    Along { index: TensorId, axis: usize },
    /// By index tensors of several dimensions.
    List(IndexList),
}

/// The source of new elements.
#[derive(Clone, Copy, Debug)]
enum Source {
    Number(f64),
    Tensor(TensorId),
}

#[derive(Debug)]
struct Scatter {
    name: &'static str,
    x: TensorId,
    index: Index,
    source: Source,
    adds: bool,
    elem: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let &(name, form) = args.row(TABLE);
    let x = args.tensor("self")?;
    let info = args.info(x);
    if form == Form::Put {
        return decode_put(args, name, x, info.elem);
    }
    let axis = args.axis("dim", info.bound.len())?;
    let index = args.tensor("index")?;
    args.check_indices("index", IndexInput { indices: index, of: x, axis, from_end: false })?;
    let source = match form {
        Form::Value => Source::Number(args.float("value")?),
        _ => Source::Tensor(args.tensor_of("src", &[info.elem])?),
    };
    finish(args, name, x, Index::Along { index, axis }, source, form == Form::Add)
}

fn decode_put(args: &mut Args<'_>, name: &'static str, x: TensorId, elem: Elem) -> Result<Box<dyn Op>, OpError> {
    let list = args.optional_tensors("indices")?;
    if let &[Some(mask)] = list.as_slice()
        && matches!(args.info(mask).elem, Elem::Bool | Elem::U8)
    {
        return masked::decode(args, x, mask);
    }
    let index = Index::List(IndexList::decode(args, x, &list)?);
    let source = Source::Tensor(args.tensor_of("values", &[elem])?);
    let adds = args.bool("accumulate")?;
    finish(args, name, x, index, source, adds)
}

fn finish(
    args: &mut Args<'_>,
    name: &'static str,
    x: TensorId,
    index: Index,
    source: Source,
    adds: bool,
) -> Result<Box<dyn Op>, OpError> {
    let elem = args.info(x).elem;
    if adds && !matches!(elem, Elem::F32 | Elem::I32) {
        return Err(OpError::new("self", format!("has elements {elem:?}, supported: [F32, I32]")));
    }
    Ok(Box::new(Scatter { name, x, index, source, adds, elem, out: args.output_of("out", elem)? }))
}

/// The source elements of a call, and the elements that they name.
struct Layout {
    /// Dims of the source elements.
    sources: Dims,
    /// Their axes, with strides in the output and in the indices.
    axes: Vec<Axis>,
    /// Their strides in the tensor that holds them.
    strides: [u32; MAX_RANK],
    /// The length of the indexed dimension, and its stride.
    limit: u32,
    index_stride: u32,
    indexed: Option<index_offsets::Indexed>,
}

impl Scatter {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        match &self.index {
            Index::Along { index, axis } => self.along(cx, *index, *axis),
            Index::List(list) => {
                let indexed = list.layout(cx)?;
                let strides = match self.source {
                    Source::Tensor(values) => {
                        let found = cx.dims(values);
                        found.broadcast_strides(&indexed.dims).ok_or_else(|| {
                            let reason = format!("is {found}, which cannot be broadcast to {}", indexed.dims);
                            OpError::new("values", reason)
                        })?
                    }
                    Source::Number(_) => [0; MAX_RANK],
                };
                let (limit, index_stride) = (indexed.limit, indexed.unit);
                let axes = indexed.axes.clone();
                Ok(Layout { sources: indexed.dims, axes, strides, limit, index_stride, indexed: Some(indexed) })
            }
        }
    }

    fn along(&self, cx: &PlanCx<'_>, index: TensorId, axis: usize) -> Result<Layout, OpError> {
        // A single number is one element of one dimension.
        let whole = |dims: Dims| if dims.is_empty() { Dims::of([1]) } else { dims };
        let (x, sources) = (whole(cx.dims(self.x)), whole(cx.dims(index)));
        let fits = |dims: &Dims, but: Option<usize>| {
            let within = |(at, &dim): (usize, &u32)| Some(at) == but || dim <= dims[at];
            sources.len() == dims.len() && sources.iter().enumerate().all(within)
        };
        if sources.count() > 0 && (!fits(&x, Some(axis)) || x[axis] == 0) {
            return Err(OpError::new("index", format!("is {sources}, expected at most {x} apart from dimension {axis}")));
        }
        let strides = match self.source {
            Source::Tensor(source) => {
                let source = whole(cx.dims(source));
                if sources.count() > 0 && !fits(&source, None) {
                    return Err(OpError::new("src", format!("is {source}, but `index` is {sources}")));
                }
                source.strides()
            }
            Source::Number(_) => [0; MAX_RANK],
        };
        let (own, index_strides) = (x.strides(), sources.strides());
        let axes = (0..sources.len()).map(|at| {
            let along = if at == axis { 0 } else { own[at].into() };
            Axis { dim: sources[at], strides: [along, index_strides[at].into()] }
        });
        let axes = axes.collect();
        Ok(Layout { sources, axes, strides, limit: x[axis], index_stride: own[axis], indexed: None })
    }

    /// The most source elements at any live shape.
    fn max_sources(&self, cx: &BoundsCx<'_>) -> Result<u64, OpError> {
        Ok(match &self.index {
            Index::Along { index, .. } => cx.bound(*index).count(),
            Index::List(list) => {
                let indexed = list.list().iter().map(|(axis, _)| *axis);
                let kept = indexed.fold(cx.bound(self.x), |dims, axis| dims.with(axis, 1)).count();
                (list.scratch(cx)? / 4).saturating_mul(kept)
            }
        })
    }

    /// Bindings and scratch: the offsets of a list of indices come first.
    fn own_scratch(&self) -> usize {
        usize::from(matches!(self.index, Index::List(_)))
    }

    fn words(&self) -> Bind {
        match &self.index {
            Index::Along { index, .. } => (*index).into(),
            Index::List(_) => Bind::Scratch(0),
        }
    }

    fn source_bind(&self) -> Bind {
        match self.source {
            Source::Tensor(source) => source.into(),
            Source::Number(_) => self.x.into(),
        }
    }

    /// The recipes of the last stages; those that compute offsets follow.
    fn stages(&self, length: u32) -> Vec<Recipe> {
        let (first, label) = (self.own_scratch(), self.name);
        let scratch = |index| Bind::Scratch(first + index);
        if self.adds {
            let ty = if self.elem == Elem::F32 { "f32" } else { "i32" };
            let add = |buffer| {
                let variant = Variant::new(&ADD).with_type("T", ty).labelled(label);
                Recipe::new(variant, [self.x.into(), scratch(buffer), self.source_bind(), self.out.into()])
            };
            let pairs = Recipe::new(Variant::new(&PAIRS).labelled(label), [self.words(), scratch(0)]);
            let sorting = Sorting::new(3, first).recipes(length, label);
            return [pairs, add(0), add(1)].into_iter().chain(sorting).collect();
        }
        let resolve = Variant::new(&RESOLVE)
            .with("LANES", self.elem.lanes())
            .with("HAS_SOURCE", matches!(self.source, Source::Tensor(_)).into())
            .labelled(label);
        vec![
            Recipe::new(Variant::new(&CLEAR).labelled(label), [scratch(0)]),
            Recipe::new(Variant::new(&MARK).labelled(label), [self.words(), scratch(0)]),
            Recipe::new(resolve, [self.x.into(), scratch(0), self.source_bind(), self.out.into()]),
        ]
    }

    fn value(&self) -> u32 {
        if let Source::Number(value) = self.source { self.elem.bits(value) } else { 0 }
    }
}

/// The loop nest over axes, innermost first, as kernels take it.
fn strided(axes: &[Axis]) -> Result<StridedDims, OpError> {
    StridedDims::new(&strides::collapse(axes))
        .ok_or_else(|| OpError::new("index", format!("needs {} axes, kernels support {MAX_RANK}", axes.len())))
}

impl Op for Scatter {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let sources = self.max_sources(cx)?;
        let length = u32::try_from(sources).unwrap_or(u32::MAX);
        let mut recipes = Recipes::of(self.stages(length));
        if let Index::List(list) = &self.index {
            recipes.list.extend(list.recipes(0));
            recipes.scratch.push(list.scratch(cx)?);
        }
        if self.adds {
            recipes.scratch.extend(Sorting::scratch(sources, length));
        } else {
            recipes.scratch.push(cx.bound(self.out).count().saturating_mul(4).max(4));
        }
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let out = cx.dims(self.x);
        let layout = self.layout(cx)?;
        let mut plan = Plan::new(self.out, out, None);
        if out.count() == 0 {
            return Ok(plan);
        }
        let (count, sources) = (out.count(), layout.sources.count());
        let stages = self.stages(u32::try_from(self.max_sources(&cx.bounds)?).unwrap_or(u32::MAX)).len();
        if let (Index::List(list), Some(indexed)) = (&self.index, &layout.indexed) {
            plan.steps.extend(list.dispatches(cx, indexed, stages)?);
            plan.scratch.push(indexed.indices.count().saturating_mul(4));
        }
        let StridedDims { dims, strides, rank } = strided(&layout.axes)?;
        let named = Params {
            dims,
            strides,
            rank,
            count: layout.sources.count_u32(),
            limit: layout.limit,
            index_stride: layout.index_stride,
            ..Params::default()
        };
        let held = layout.sources.iter().zip(layout.strides).map(|(&dim, stride)| Axis { dim, strides: [stride.into(), 0] });
        let StridedDims { dims, strides, rank } = strided(&held.collect::<Vec<_>>())?;
        let (value, sources_u32) = (self.value(), layout.sources.count_u32());
        let written =
            Params { dims, strides, rank, count: out.count_u32(), value, sources: sources_u32, ..Params::default() };
        if self.adds {
            let sorting = Sorting::new(3, self.own_scratch());
            let (sort, sorted) = if sources == 0 { (Vec::new(), 0) } else { sorting.dispatches(1, sources_u32)? };
            plan.steps.extend(Dispatch::items(0, &named, sources, 256)?);
            plan.steps.extend(sort);
            plan.steps.extend(Dispatch::items(1 + sorted, &written, count, 256)?);
            plan.scratch.extend(Sorting::scratch(sources, sources_u32));
        } else {
            plan.steps.extend(Dispatch::items(0, &written, count, 256)?);
            plan.steps.extend(Dispatch::items(1, &named, sources, 256)?);
            plan.steps.extend(Dispatch::items(2, &written, count.div_ceil(self.elem.lanes().into()), 256)?);
            plan.scratch.push(count.saturating_mul(4));
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        reference::run(self, cx, tensors)
    }
}
