//! Reductions over dimensions: sums, products, moments, extrema and their indices, any and all. Each row of `table` is an operator.
//!
//! A reduction is a chain of passes (`crate::reduction`). Adjacent reduced dimensions are the rows of one pass; further groups of
//! reduced dimensions are reduced one after the other, the longest first. Few long rows are split into segments, whose partial results
//! another pass reduces. Passes hand results on through scratch. Results that are bytes are packed by a last pass.

mod pair;
#[cfg(any(test, feature = "reference"))]
mod reference;
mod table;
#[cfg(test)]
mod tests;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, Value, ValueId};
use crate::kernel::Variant;
use crate::live::{Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reduction::reducer::{Reducer, Source};
use crate::reduction::{PACK_BYTES, REDUCE, ReducePass, RowShape, max_partials, pack_bytes, reduce};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use table::{ResultKind, Row, TABLE, Takes};

static NAMES: [&str; TABLE.len()] = names!(TABLE, name);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&REDUCE, &PACK_BYTES], decode };

#[derive(Debug)]
pub(crate) struct Reduction {
    row: &'static Row,
    reducer: &'static Reducer,
    x: TensorId,
    #[cfg_attr(not(any(test, feature = "reference")), expect(dead_code, reason = "only references read it"))]
    elem: Elem,
    /// How elements of the tensor are loaded, if not as vectors.
    source: Source,
    /// Whether each dimension is reduced.
    reduced: Vec<bool>,
    keepdim: bool,
    /// Subtracted from the number of elements that the result is divided by.
    correction: f64,
    out: TensorId,
    out_elem: Elem,
}

/// The arguments of a reduction besides its outputs.
struct Reduced {
    x: TensorId,
    axes: Vec<bool>,
    keepdim: bool,
    correction: f64,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let row = args.row(TABLE);
    let reduced = decode_reduced(args, row.takes)?;
    let Some(second) = row.second else {
        let out = args.output("out")?;
        return Ok(Box::new(Reduction::new(args, row, &reduced, out)?));
    };
    let outputs = args.outputs("out", 2)?;
    let first = Reduction::new(args, row, &reduced, outputs[0])?;
    // A mean beside a variance has no correction.
    let second = Reduction::new(args, second, &Reduced { correction: 0.0, ..reduced }, outputs[1])?;
    Ok(Box::new(pair::Pair { first, second }))
}

fn decode_reduced(args: &mut Args<'_>, takes: Takes) -> Result<Reduced, OpError> {
    let x = args.tensor("self")?;
    let dims = match takes {
        Takes::OneDim | Takes::OneDimAndType => match args.optional_scalar("dim")? {
            None => Vec::new(),
            Some(Scalar::Fixed(dim)) => vec![dim],
            Some(Scalar::Live(_)) => return Err(OpError::new("dim", "is symbolic, expected an integer or None")),
        },
        Takes::Nothing | Takes::Type => Vec::new(),
        _ => args.optional_ints("dim")?.unwrap_or_default(),
    };
    let axes = reduced(&dims, args.info(x).bound.len())?;
    let correction = match takes {
        Takes::DimsAndBias => f64::from(u8::from(args.bool("unbiased")?)),
        Takes::DimsAndCorrection => args.optional_float("correction")?.unwrap_or(1.0),
        _ => 0.0,
    };
    let keepdim = !matches!(takes, Takes::Nothing | Takes::Type) && args.bool("keepdim")?;
    if matches!(takes, Takes::DimsAndType | Takes::OneDimAndType | Takes::Type) {
        // The output has that type.
        args.ignore("dtype")?;
    }
    Ok(Reduced { x, axes, keepdim, correction })
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
    /// The input, if the result is the mean of each row, with a last dimension of 1.
    pub(crate) fn row_mean(&self) -> Option<TensorId> {
        self.of_rows("aten.mean.dim")
    }

    /// The input, if the result is whether each row has an element that is not zero, with a last dimension of 1.
    pub(crate) fn row_any(&self) -> Option<TensorId> {
        self.of_rows("aten.any.dim")
    }

    fn of_rows(&self, name: &str) -> Option<TensorId> {
        let (last, others) = self.reduced.split_last()?;
        let rows = *last && !others.contains(&true) && self.keepdim;
        (self.row.name == name && rows).then_some(self.x)
    }

    /// The input, whether each of its dimensions is reduced, and the output, if reduced dimensions stay as dimensions of 1.
    pub(crate) fn kept_dims(&self) -> Option<(TensorId, &[bool], TensorId)> {
        self.keepdim.then_some((self.x, self.reduced.as_slice(), self.out))
    }

    fn new(args: &Args<'_>, row: &'static Row, given: &Reduced, out: TensorId) -> Result<Self, OpError> {
        let (elem, out_elem) = (args.info(given.x).elem, args.info(out).elem);
        let is_float = if row.result == ResultKind::Declared { out_elem } else { elem } == Elem::F32;
        let Some(reducer) = (if is_float { row.floats } else { row.integers }) else {
            return Err(match row.result {
                ResultKind::Declared => OpError::new("out", format!("has elements {out_elem:?}, supported: [F32]")),
                _ => OpError::new("self", format!("has elements {elem:?}, supported: [F32]")),
            });
        };
        let fits = match row.result {
            ResultKind::Same => out_elem == elem,
            ResultKind::Index => out_elem == Elem::I32,
            ResultKind::Truth => matches!(out_elem, Elem::Bool | Elem::U8),
            // A sum of floats is no integer, and Booleans are not summed.
            ResultKind::Declared => is_float || (elem != Elem::F32 && out_elem != Elem::Bool),
        };
        if !fits {
            let expected = match row.result {
                ResultKind::Index => Elem::I32,
                ResultKind::Truth => Elem::Bool,
                _ => elem,
            };
            return Err(OpError::new("out", format!("has elements {out_elem:?}, but the result's are {expected:?}")));
        }
        let source = match elem {
            Elem::I32 if is_float => Source::Integers,
            Elem::F32 | Elem::F16 | Elem::I32 => Source::Elements,
            Elem::U8 | Elem::Bool => Source::Bytes,
            Elem::I8 => Source::SignedBytes,
        };
        let Reduced { x, ref axes, keepdim, correction } = *given;
        Ok(Self { row, reducer, x, elem, source, reduced: axes.clone(), keepdim, correction, out, out_elem })
    }

    /// Whether results are bytes, which a last pass packs from words in scratch.
    fn packs(&self) -> bool {
        self.out_elem.lanes() == 4
    }

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
            let mut pass = match passes.is_empty() {
                true if self.source.converts() => ReducePass::over_converted(rows),
                true => ReducePass::over_elements(rows),
                false => ReducePass::over_partials(rows),
            };
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
    fn routes(&self, scratch: usize) -> Vec<(PassBuffer, PassBuffer)> {
        let inputs = [false, true].map(|vec4| PassBuffer::Input { vec4 });
        let inputs = inputs.into_iter().take(if self.source.converts() { 1 } else { 2 });
        let from = inputs.chain((0..scratch).map(PassBuffer::Scratch));
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
            PassBuffer::Input { vec4: false } => self.source,
            PassBuffer::Input { vec4: true } => Source::Vec4,
            _ => Source::Partials,
        };
        reduce(self.reducer, source, to == PassBuffer::Output).map(|variant| variant.labelled(self.row.name))
    }

    /// The binding of a buffer. Words to be packed are in the scratch after that of the passes.
    fn bind(&self, buffer: PassBuffer, scratch: usize) -> Bind {
        match buffer {
            PassBuffer::Input { .. } => self.x.into(),
            PassBuffer::Scratch(index) => Bind::Scratch(index),
            PassBuffer::Output if self.packs() => Bind::Scratch(scratch),
            PassBuffer::Output => self.out.into(),
        }
    }

    /// The factor of the result. A mean or variance of too few elements is 0 times infinity, which is NaN.
    fn factor(&self, dims: &Dims) -> f32 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "kernels compute in 32 bits")]
        let over = (1.0 / (self.elements(dims) as f64 - self.correction).max(0.0)) as f32;
        if self.row.mean { over } else { 1.0 }
    }
}

impl Op for Reduction {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let axis = rows.axis(self.x).filter(|&axis| !self.reduced[axis])?;
        let removed = self.reduced[..axis].iter().filter(|&&reduced| reduced && !self.keepdim).count();
        Some(axis - removed)
    }

    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        let rank = self.reduced.len();
        let x = layout.moved(self.x).filter(|_| self.row.takes.is_list())?;
        // Without `keepdim`, what is left of one dimension or of images and channels is in order.
        let pixels = (2..rank).all(|axis| self.reduced[axis]);
        if !(pixels || self.keepdim) || (self.keepdim && !layout.can_move(self.out)) {
            return None;
        }
        let axes = (0..rank).filter(|&axis| self.reduced[axis]).map(|axis| Relayout::axis(rank, axis));
        let mut axes: Vec<i64> = axes.map(|axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
        axes.sort_unstable();
        let dims = layout.source.add(Value::IntList(axes));
        let out = if self.keepdim { layout.output(self.out) } else { self.out };
        let mut args = layout.call.args.clone();
        let last = args.len().checked_sub(1).filter(|&last| last >= 2)?;
        (args[0], args[1], args[last]) = (ValueId(x.0), dims, ValueId(out.0));
        Some(Call { args, ..layout.call.clone() })
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = cx.bound(self.x);
        let mut scratch = self.scratch(&bound);
        let groups: u32 = self.groups(&bound).iter().map(|_| 1).sum();
        let recipe = |(from, to)| {
            let binds = [from, to].map(|buffer| self.bind(buffer, scratch.len()));
            let mut recipe = Recipe::new(self.variant(from, to)?, binds);
            // A group takes at most two passes, so each group goes from one scratch buffer to the other at most once.
            if matches!((from, to), (PassBuffer::Scratch(_), PassBuffer::Scratch(_))) {
                recipe.max_dispatches = groups;
            }
            Some(recipe)
        };
        let mut list: Vec<Recipe> = self.routes(scratch.len()).into_iter().filter_map(recipe).collect();
        if self.packs() {
            let variant = Variant::new(&PACK_BYTES).labelled(self.row.name);
            list.push(Recipe::new(variant, [Bind::Scratch(scratch.len()), self.out.into()]));
            scratch.push(self.kept(&bound).count().saturating_mul(4));
        }
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
            // Loads of no elements are not vectors, whatever the type.
            vec![ReducePass::over_converted(RowShape { outer: out.count_u32(), length: 0, inner: 1 })]
        } else {
            self.passes(&dims)
        };
        let scratch = self.scratch(&cx.bound(self.x)).len();
        let routes = self.routes(scratch);
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
        if self.packs() {
            plan.scratch.resize(scratch + 1, 0);
            plan.scratch[scratch] = out.count().saturating_mul(4);
            plan.steps.extend(pack_bytes(routes.len(), &out)?);
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        reference::run(self, &cx.dims(self.x), tensors);
        Ok(())
    }
}
