//! Reductions over dimensions: sum, mean, amax, amin, argmax, argmin. Each row of `TABLE` is an operator.
//!
//! A reduction is a chain of passes (`crate::reduction`). Adjacent reduced dimensions are the rows of one pass; further groups of
//! reduced dimensions are reduced one after the other, the longest first. Few long rows are split into segments, whose partial results
//! another pass reduces. Passes hand results on through scratch.

#[cfg(any(test, feature = "reference"))]
mod reference;
#[cfg(test)]
mod tests;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::Variant;
use crate::live::{Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reduction::reducer::{self, Reducer, Source};
use crate::reduction::{REDUCE, ReducePass, RowShape, max_partials, reduce};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The operators of the family.
const TABLE: &[Row] = &[
    Row {
        name: "aten.sum.dim_IntList",
        takes: Takes::DimsAndType,
        empty: true,
        mean: false,
        reducers: &[(Elem::F32, &reducer::SUM_F32), (Elem::I32, &reducer::SUM_I32)],
        #[cfg(any(test, feature = "reference"))]
        host: |row| row.iter().sum(),
    },
    Row {
        name: "aten.mean.dim",
        takes: Takes::DimsAndType,
        empty: true,
        mean: true,
        reducers: &[(Elem::F32, &reducer::SUM_F32)],
        #[cfg(any(test, feature = "reference"))]
        host: reference::mean,
    },
    Row {
        name: "aten.amax.default",
        takes: Takes::Dims,
        empty: false,
        mean: false,
        reducers: &[(Elem::F32, &reducer::MAX_F32), (Elem::I32, &reducer::MAX_I32)],
        #[cfg(any(test, feature = "reference"))]
        host: |row| row[reference::first(row, |x, best| x > best)],
    },
    Row {
        name: "aten.amin.default",
        takes: Takes::Dims,
        empty: false,
        mean: false,
        reducers: &[(Elem::F32, &reducer::MIN_F32), (Elem::I32, &reducer::MIN_I32)],
        #[cfg(any(test, feature = "reference"))]
        host: |row| row[reference::first(row, |x, best| x < best)],
    },
    Row {
        name: "aten.argmax.default",
        takes: Takes::OneDim,
        empty: false,
        mean: false,
        reducers: &[(Elem::F32, &reducer::ARGMAX_F32), (Elem::I32, &reducer::ARGMAX_I32)],
        #[cfg(any(test, feature = "reference"))]
        host: |row| reference::first(row, |x, best| x > best) as f64,
    },
    Row {
        name: "aten.argmin.default",
        takes: Takes::OneDim,
        empty: false,
        mean: false,
        reducers: &[(Elem::F32, &reducer::ARGMIN_F32), (Elem::I32, &reducer::ARGMIN_I32)],
        #[cfg(any(test, feature = "reference"))]
        host: |row| reference::first(row, |x, best| x < best) as f64,
    },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    takes: Takes,
    /// Whether a reduction of no elements has a result.
    empty: bool,
    /// Whether the sum is divided by the number of elements.
    mean: bool,
    /// The reducer for each supported element type.
    reducers: &'static [(Elem, &'static Reducer)],
    /// The result for one row on the host, for tests.
    #[cfg(any(test, feature = "reference"))]
    host: fn(&[f64]) -> f64,
}

/// The arguments between `self` and `out`, besides `keepdim`.
#[derive(Debug, PartialEq)]
enum Takes {
    /// A list of dimensions.
    Dims,
    /// A list of dimensions, and the result's dtype.
    DimsAndType,
    /// One dimension. The result is an index.
    OneDim,
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, name);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&REDUCE], decode };

#[derive(Debug)]
struct Reduction {
    row: &'static Row,
    reducer: &'static Reducer,
    x: TensorId,
    #[cfg_attr(not(any(test, feature = "reference")), expect(dead_code, reason = "only references read it"))]
    elem: Elem,
    /// Whether each dimension is reduced.
    reduced: Vec<bool>,
    keepdim: bool,
    out: TensorId,
    #[cfg_attr(not(any(test, feature = "reference")), expect(dead_code, reason = "only references read it"))]
    out_elem: Elem,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let row = args.row(TABLE);
    let allowed: Vec<Elem> = row.reducers.iter().map(|(elem, _)| *elem).collect();
    let x = args.tensor_of("self", &allowed)?;
    let info = args.info(x);
    let Some(&(elem, reducer)) = row.reducers.iter().find(|(elem, _)| *elem == info.elem) else {
        return Err(OpError::new("self", format!("has elements {:?}, supported: {allowed:?}", info.elem)));
    };
    let dims = if row.takes == Takes::OneDim {
        match args.optional_scalar("dim")? {
            None => Vec::new(),
            Some(Scalar::Fixed(dim)) => vec![dim],
            Some(Scalar::Live(_)) => return Err(OpError::new("dim", "is symbolic, expected an integer or None")),
        }
    } else {
        args.optional_ints("dim")?.unwrap_or_default()
    };
    let reduced = reduced(&dims, info.bound.len())?;
    let keepdim = args.bool("keepdim")?;
    if row.takes == Takes::DimsAndType {
        args.none("dtype")?;
    }
    let out_elem = if row.takes == Takes::OneDim { Elem::I32 } else { elem };
    let out = args.output_of("out", out_elem)?;
    Ok(Box::new(Reduction { row, reducer, x, elem, reduced, keepdim, out, out_elem }))
}

/// Whether each dimension is in the list; an empty list means all of them.
fn reduced(dims: &[i64], rank: usize) -> Result<Vec<bool>, OpError> {
    // A scalar takes dimension 0 or −1, as in PyTorch, though nothing is reduced along it.
    let mut reduced = vec![dims.is_empty(); rank.max(1)];
    for &dim in dims {
        let Some(axis) = normalise(dim, rank) else {
            return Err(OpError::new("dim", format!("has {dim}, but the tensor has {rank} dimensions")));
        };
        if std::mem::replace(&mut reduced[axis], true) {
            return Err(OpError::new("dim", format!("is {dims:?}, which names dimension {axis} more than once")));
        }
    }
    reduced.truncate(rank);
    Ok(reduced)
}

/// Where a pass loads from or stores to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PassBuffer {
    /// The tensor, loaded as elements or as vectors of four.
    Input {
        vec4: bool,
    },
    Scratch(usize),
    Output,
}

impl Reduction {
    /// The dims with reduced ones set to 1.
    fn kept(&self, dims: &Dims) -> Dims {
        let reduced = (0..dims.len()).filter(|&axis| self.reduced[axis]);
        reduced.fold(*dims, |dims, axis| dims.with(axis, 1))
    }

    fn out_dims(&self, dims: &Dims) -> Dims {
        if self.keepdim {
            return self.kept(dims);
        }
        let reduced = (0..dims.len()).rev().filter(|&axis| self.reduced[axis]);
        reduced.fold(*dims, |dims, axis| dims.without(axis))
    }

    /// The number of elements per result.
    fn elements(&self, dims: &Dims) -> u64 {
        let reduced = dims.iter().zip(&self.reduced).filter(|(_, reduced)| **reduced);
        reduced.fold(1, |count: u64, (&dim, _)| count.saturating_mul(dim.into()))
    }

    /// The rows of each group of adjacent reduced dimensions, the longest first, after the groups before it are reduced.
    fn groups(&self, dims: &Dims) -> Vec<RowShape> {
        // Dimensions of 1 do not separate groups.
        let mut runs: Vec<(u32, bool)> = Vec::new();
        for (&dim, &reduced) in dims.iter().zip(&self.reduced).filter(|(dim, _)| **dim != 1) {
            match runs.last_mut() {
                Some((size, same)) if *same == reduced => *size = size.saturating_mul(dim),
                _ => runs.push((dim, reduced)),
            }
        }
        let mut left: Vec<u32> = runs.iter().map(|(size, _)| *size).collect();
        let mut longest: Vec<usize> = (0..runs.len()).filter(|&run| runs[run].1).collect();
        longest.sort_by_key(|&run| std::cmp::Reverse(left[run]));
        let mut groups = Vec::new();
        for run in longest {
            groups.push(RowShape::along(&Dims::new(&left).unwrap_or(Dims::SCALAR), run..run + 1));
            left[run] = 1;
        }
        if groups.is_empty() {
            groups.push(RowShape { outer: dims.count_u32(), length: 1, inner: 1 });
        }
        groups
    }

    /// The passes for these dims, which have elements.
    fn passes(&self, dims: &Dims) -> Vec<ReducePass> {
        let mut passes: Vec<ReducePass> = Vec::new();
        for rows in self.groups(dims) {
            let mut pass = if passes.is_empty() { ReducePass::over_elements(rows) } else { ReducePass::over_partials(rows) };
            passes.push(pass);
            while pass.is_split() {
                pass = ReducePass::over_partials(pass.partials_shape());
                passes.push(pass);
            }
        }
        passes
    }

    /// The largest size of each scratch buffer in bytes. The results of a group are most numerous at the bound: the product of the kept
    /// dims and of all groups but the longest. The results of segments are bounded for every live shape.
    fn scratch(&self, bound: &Dims) -> Vec<u64> {
        let groups = self.groups(bound);
        let partials = |longest, inner| max_partials(bound.count(), longest, inner) * self.reducer.bytes;
        match groups[..] {
            [group] => Some(partials(group.length.into(), group.inner)).filter(|bytes| *bytes > 0).into_iter().collect(),
            // At smaller live shapes groups can merge into one, of rows with any stride.
            _ => vec![partials(self.elements(bound), u32::MAX).max(groups[0].count() * self.reducer.bytes); 2],
        }
    }

    /// Every pair of buffers that a pass can load from and store to, in the order of the recipes.
    fn routes(scratch: usize) -> Vec<(PassBuffer, PassBuffer)> {
        let inputs = [false, true].map(|vec4| PassBuffer::Input { vec4 });
        let from = inputs.into_iter().chain((0..scratch).map(PassBuffer::Scratch));
        let to = |from| {
            let others = (0..scratch).map(PassBuffer::Scratch).filter(move |to| *to != from);
            let reached =
                others.filter(move |to| !matches!(from, PassBuffer::Input { .. }) || *to == PassBuffer::Scratch(0));
            reached.chain([PassBuffer::Output]).map(move |to| (from, to))
        };
        from.flat_map(to).collect()
    }

    fn variant(&self, from: PassBuffer, to: PassBuffer) -> Option<Variant> {
        let source = match from {
            PassBuffer::Input { vec4: false } => Source::Elements,
            PassBuffer::Input { vec4: true } => Source::Vec4,
            _ => Source::Partials,
        };
        reduce(self.reducer, source, to == PassBuffer::Output).map(|variant| variant.labelled(self.row.name))
    }

    fn bind(&self, buffer: PassBuffer) -> Bind {
        match buffer {
            PassBuffer::Input { .. } => self.x.into(),
            PassBuffer::Scratch(index) => Bind::Scratch(index),
            PassBuffer::Output => self.out.into(),
        }
    }

    /// The factor of the result. A mean of no elements is 0 times infinity, which is NaN.
    fn factor(&self, dims: &Dims) -> f32 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "kernels compute in 32 bits")]
        let over = (1.0 / self.elements(dims) as f64) as f32;
        if self.row.mean { over } else { 1.0 }
    }
}

impl Op for Reduction {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = cx.bound(self.x);
        let scratch = self.scratch(&bound);
        let groups: u32 = self.groups(&bound).iter().map(|_| 1).sum();
        let recipe = |(from, to)| {
            let mut recipe = Recipe::new(self.variant(from, to)?, [self.bind(from), self.bind(to)]);
            // A group takes at most two passes, so each group goes from one scratch buffer to the other at most once.
            if matches!((from, to), (PassBuffer::Scratch(_), PassBuffer::Scratch(_))) {
                recipe.max_dispatches = groups;
            }
            Some(recipe)
        };
        let list = Self::routes(scratch.len()).into_iter().filter_map(recipe).collect();
        Ok(Recipes { list, scratch, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let out = self.out_dims(&dims);
        let none = self.elements(&dims) == 0;
        if none && !self.row.empty {
            return Err(OpError::new("self", format!("is {dims}, which leaves no elements to reduce along `dim`")));
        }
        if out.count() == 0 {
            return Ok(Plan::new(self.out, out, None));
        }
        let passes = if none {
            vec![ReducePass::over_elements(RowShape { outer: out.count_u32(), length: 0, inner: 1 })]
        } else {
            self.passes(&dims)
        };
        let routes = Self::routes(self.scratch(&cx.bound(self.x)).len());
        let mut plan = Plan::new(self.out, out, None);
        let mut from = PassBuffer::Input { vec4: passes[0].vec4 };
        for (index, pass) in passes.iter().enumerate() {
            let to = if index + 1 == passes.len() { PassBuffer::Output } else { PassBuffer::Scratch(index % 2) };
            let Some(recipe) = routes.iter().position(|route| *route == (from, to)) else {
                return Err(OpError::new("self", format!("is {dims}, which needs more passes than its bound")));
            };
            plan.steps.extend(pass.dispatch(recipe, self.factor(&dims))?);
            if let PassBuffer::Scratch(index) = to {
                plan.scratch.resize(plan.scratch.len().max(index + 1), 0);
                plan.scratch[index] = plan.scratch[index].max(pass.segments() * self.reducer.bytes);
            }
            from = to;
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        reference::run(self, &cx.dims(self.x), tensors);
        Ok(())
    }
}
