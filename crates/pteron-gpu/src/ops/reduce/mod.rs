//! Dimensions folded to one number: sums, means, extremes and where they are. A row of `TABLE` is an operator.
//!
//! A reduction is a chain of passes over lines (`crate::lines`). Reduced dimensions that lie together are the lines of one
//! pass; others are folded group after group, the longest first. Where there are few long lines a pass folds parts of them
//! and another what the parts gave. What passes leave for the next goes through scratch.

mod reference;
#[cfg(test)]
mod tests;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::Variant;
use crate::lines::fold::{self, Fold, Source};
use crate::lines::{Lines, Pass, REDUCE, reduce, worst_parts};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The family.
const TABLE: &[Row] = &[
    Row {
        name: "aten.sum.dim_IntList",
        takes: Takes::DimsAndType,
        empty: true,
        mean: false,
        folds: &[(Elem::F32, &fold::SUM_F32), (Elem::I32, &fold::SUM_I32)],
        plain: |line| line.iter().sum(),
    },
    Row {
        name: "aten.mean.dim",
        takes: Takes::DimsAndType,
        empty: true,
        mean: true,
        folds: &[(Elem::F32, &fold::SUM_F32)],
        plain: reference::mean,
    },
    Row {
        name: "aten.amax.default",
        takes: Takes::Dims,
        empty: false,
        mean: false,
        folds: &[(Elem::F32, &fold::MAX_F32), (Elem::I32, &fold::MAX_I32)],
        plain: |line| line[reference::first(line, |x, best| x > best)],
    },
    Row {
        name: "aten.amin.default",
        takes: Takes::Dims,
        empty: false,
        mean: false,
        folds: &[(Elem::F32, &fold::MIN_F32), (Elem::I32, &fold::MIN_I32)],
        plain: |line| line[reference::first(line, |x, best| x < best)],
    },
    Row {
        name: "aten.argmax.default",
        takes: Takes::OneDim,
        empty: false,
        mean: false,
        folds: &[(Elem::F32, &fold::ARGMAX_F32), (Elem::I32, &fold::ARGMAX_I32)],
        plain: |line| reference::first(line, |x, best| x > best) as f64,
    },
    Row {
        name: "aten.argmin.default",
        takes: Takes::OneDim,
        empty: false,
        mean: false,
        folds: &[(Elem::F32, &fold::ARGMIN_F32), (Elem::I32, &fold::ARGMIN_I32)],
        plain: |line| reference::first(line, |x, best| x < best) as f64,
    },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    takes: Takes,
    /// Whether no numbers have an answer.
    empty: bool,
    /// Whether the answer is over the number of numbers.
    mean: bool,
    /// What is folded, for each element type there can be.
    folds: &'static [(Elem, &'static Fold)],
    /// The answer for one line, in plain Rust.
    plain: fn(&[f64]) -> f64,
}

/// What stands between `self` and `out` beside `keepdim`.
#[derive(Debug, PartialEq)]
enum Takes {
    /// A list of dimensions.
    Dims,
    /// Such a list, and the type of the answer.
    DimsAndType,
    /// One dimension. The answer is an index.
    OneDim,
}

const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut row = 0;
    while row < names.len() {
        names[row] = TABLE[row].name;
        row += 1;
    }
    names
};

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&REDUCE], decode };

#[derive(Debug)]
struct Reduction {
    row: &'static Row,
    fold: &'static Fold,
    x: TensorId,
    elem: Elem,
    /// Whether each dimension is reduced.
    reduced: Vec<bool>,
    keepdim: bool,
    out: TensorId,
    out_elem: Elem,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    let allowed: Vec<Elem> = row.folds.iter().map(|(elem, _)| *elem).collect();
    let x = args.tensor_of("self", &allowed)?;
    let info = args.info(x);
    let Some(&(elem, fold)) = row.folds.iter().find(|(elem, _)| *elem == info.elem) else {
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
    Ok(Box::new(Reduction { row, fold, x, elem, reduced, keepdim, out, out_elem }))
}

/// Whether each dimension is in the list; an empty list means all of them.
fn reduced(dims: &[i64], rank: usize) -> Result<Vec<bool>, OpError> {
    // A single number has one dimension here, 0 or −1, though nothing is reduced along it.
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

/// Where a pass has its lines from, or puts what they give.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The tensor; whether it is read four numbers at a time.
    Input {
        wide: bool,
    },
    Scratch(usize),
    Output,
}

impl Reduction {
    /// The dims with 1 where they were reduced.
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

    /// How many numbers each answer is of.
    fn numbers(&self, dims: &Dims) -> u64 {
        let reduced = dims.iter().zip(&self.reduced).filter(|(_, reduced)| **reduced);
        reduced.fold(1, |count: u64, (&dim, _)| count.saturating_mul(dim.into()))
    }

    /// The lines of each group of reduced dimensions, the longest first, as the groups before it leave them.
    fn groups(&self, dims: &Dims) -> Vec<Lines> {
        // Dimensions of 1 are neither; what lies together on both sides of them is one group.
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
            groups.push(Lines::along(&Dims::new(&left).unwrap_or(Dims::SCALAR), run..run + 1));
            left[run] = 1;
        }
        if groups.is_empty() {
            groups.push(Lines { outer: dims.count_u32(), length: 1, inner: 1 });
        }
        groups
    }

    /// The passes for these dims, which have elements.
    fn passes(&self, dims: &Dims) -> Vec<Pass> {
        let mut passes: Vec<Pass> = Vec::new();
        for lines in self.groups(dims) {
            let mut pass = if passes.is_empty() { Pass::over_numbers(lines) } else { Pass::over_folded(lines) };
            passes.push(pass);
            while pass.is_split() {
                pass = Pass::over_folded(pass.rest());
                passes.push(pass);
            }
        }
        passes
    }

    /// The bytes of each scratch buffer at worst. What a group leaves for the next is most where every dimension is: that is the
    /// product of the kept dims and of all groups but the longest. What parts leave is bounded for every shape.
    fn scratch(&self, bound: &Dims) -> Vec<u64> {
        let groups = self.groups(bound);
        let parts = |longest, inner| worst_parts(bound.count(), longest, inner) * self.fold.bytes;
        match groups[..] {
            [group] => Some(parts(group.length.into(), group.inner)).filter(|bytes| *bytes > 0).into_iter().collect(),
            // Groups can become one, and have others between their numbers.
            _ => vec![parts(self.numbers(bound), u32::MAX).max(groups[0].count() * self.fold.bytes); 2],
        }
    }

    /// Every way from place to place, in the order of the recipes.
    fn ways(scratch: usize) -> Vec<(Place, Place)> {
        let inputs = [false, true].map(|wide| Place::Input { wide });
        let from = inputs.into_iter().chain((0..scratch).map(Place::Scratch));
        let to = |from| {
            let others = (0..scratch).map(Place::Scratch).filter(move |to| *to != from);
            let reached = others.filter(move |to| !matches!(from, Place::Input { .. }) || *to == Place::Scratch(0));
            reached.chain([Place::Output]).map(move |to| (from, to))
        };
        from.flat_map(to).collect()
    }

    fn variant(&self, from: Place, to: Place) -> Option<Variant> {
        let source = match from {
            Place::Input { wide: false } => Source::Numbers,
            Place::Input { wide: true } => Source::Fours,
            _ => Source::Folded,
        };
        reduce(self.fold, source, to == Place::Output).map(|variant| variant.labelled(self.row.name))
    }

    fn bind(&self, place: Place) -> Bind {
        match place {
            Place::Input { .. } => self.x.into(),
            Place::Scratch(index) => Bind::Scratch(index),
            Place::Output => self.out.into(),
        }
    }

    /// What the answer is multiplied with. 0 over no numbers is NaN, and so is 0 times infinity.
    fn factor(&self, dims: &Dims) -> f32 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "kernels compute in 32 bits")]
        let over = (1.0 / self.numbers(dims) as f64) as f32;
        if self.row.mean { over } else { 1.0 }
    }
}

impl Op for Reduction {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = cx.bound(self.x);
        let scratch = self.scratch(&bound);
        let groups = u32::try_from(self.groups(&bound).len()).unwrap_or(u32::MAX);
        let recipe = |(from, to)| {
            let mut recipe = Recipe::new(self.variant(from, to)?, [self.bind(from), self.bind(to)]);
            // A group takes two passes at most, so from one scratch to the other there is one for each group at most.
            if matches!((from, to), (Place::Scratch(_), Place::Scratch(_))) {
                recipe.max_dispatches = groups;
            }
            Some(recipe)
        };
        let list = Self::ways(scratch.len()).into_iter().filter_map(recipe).collect();
        Ok(Recipes { list, scratch, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let out = self.out_dims(&dims);
        let none = self.numbers(&dims) == 0;
        if none && !self.row.empty {
            return Err(OpError::new("self", format!("is {dims}, which leaves no elements to reduce along `dim`")));
        }
        if out.count() == 0 {
            return Ok(Plan::new(self.out, out, None));
        }
        let passes = if none {
            vec![Pass::over_numbers(Lines { outer: out.count_u32(), length: 0, inner: 1 })]
        } else {
            self.passes(&dims)
        };
        let ways = Self::ways(self.scratch(&cx.bound(self.x)).len());
        let mut plan = Plan::new(self.out, out, None);
        let mut from = Place::Input { wide: passes[0].wide };
        for (index, pass) in passes.iter().enumerate() {
            let to = if index + 1 == passes.len() { Place::Output } else { Place::Scratch(index % 2) };
            let Some(recipe) = ways.iter().position(|way| *way == (from, to)) else {
                return Err(OpError::new("self", format!("is {dims}, which needs more passes than its bound")));
            };
            plan.steps.extend(pass.dispatch(recipe, self.factor(&dims))?);
            if let Place::Scratch(index) = to {
                plan.scratch.resize(plan.scratch.len().max(index + 1), 0);
                plan.scratch[index] = plan.scratch[index].max(pass.parts() * self.fold.bytes);
            }
            from = to;
        }
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        reference::run(self, &cx.dims(self.x), tensors);
        Ok(())
    }
}
