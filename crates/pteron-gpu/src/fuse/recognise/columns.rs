//! Symbolic columns: each element of a row as a sum of products of elements of other tensors.
//!
//! The trailing dims of a tensor, of fixed sizes, are its columns; the dims before them count its rows. Slices, concatenations, views and
//! permutations of dims only say which columns those are, so that every way to write the same arithmetic gives the same sums.

use super::super::editor::Editor;
use super::super::operators::{self, Binary};
use super::elementwise;
use crate::graph::Node;
use crate::live::{Scalar, TensorId};
use crate::ops::copy::{Cat, CopyKind, CopyOp, Split, fixed_slice};

/// The most columns of a tensor, the most terms of a sum, and the most calls that are followed.
const MAX_COLUMNS: usize = 512;
const MAX_TERMS: usize = 4;
const MAX_CALLS: usize = 128;

/// A tensor that is read as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) tensor: TensorId,
    /// For each dim before the columns, which dim of the target it is.
    pub(super) axes: Vec<usize>,
    /// Its number of columns.
    pub(super) width: usize,
}

/// A column of a leaf, by the leaf's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) leaf: usize,
    pub(super) at: usize,
}

/// A column, or the product of two, with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) negative: bool,
    pub(super) first: Column,
    pub(super) second: Option<Column>,
}

pub(super) type Sum = Vec<Term>;

impl Term {
    fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// The product with another term, if both are single columns.
    fn times(self, other: Self) -> Option<Self> {
        let negative = self.negative != other.negative;
        match (self.second, other.second) {
            (None, None) => Some(Self { negative, first: self.first, second: Some(other.first) }),
            _ => None,
        }
    }
}

/// Columns of tensors of a graph, and the calls that compute them from leaves.
pub(super) struct Columns<'e, 'a> {
    editor: &'e Editor<'a>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) calls: Vec<usize>,
}

impl<'e, 'a> Columns<'e, 'a> {
    pub(super) fn new(editor: &'e Editor<'a>) -> Self {
        Self { editor, leaves: Vec::new(), calls: Vec::new() }
    }

    /// The columns of a tensor whose first dims are these dims of the target.
    pub(super) fn of(&mut self, tensor: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        if let Some((index, node)) = self.editor.writing_node(tensor)
            && self.calls.len() < MAX_CALLS
            && !self.editor.uses.is_mutated(tensor)
            && let Some(sums) = self.computed(node, tensor, axes)
        {
            self.calls.push(index);
            return Some(sums);
        }
        self.leaf(tensor, axes)
    }

    /// The columns as they are.
    fn leaf(&mut self, tensor: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        let width = product(&self.tail(tensor, axes.len())?)?;
        let new = Leaf { tensor, axes: axes.to_vec(), width };
        let leaf = self.leaves.iter().position(|leaf| *leaf == new).unwrap_or_else(|| {
            self.leaves.push(new);
            self.leaves.len() - 1
        });
        let column = |at| vec![Term { negative: false, first: Column { leaf, at }, second: None }];
        Some((0..width).map(column).collect())
    }

    /// The sizes of the columns' dims; `None` if one is not the same in every call.
    fn tail(&self, tensor: TensorId, lead: usize) -> Option<Vec<usize>> {
        let rank = self.rank(tensor);
        (lead..rank).map(|axis| self.editor.dims.fixed(tensor, axis).map(|size| size as usize)).collect()
    }

    fn rank(&self, tensor: TensorId) -> usize {
        self.editor.graph.info(tensor).bound.len()
    }

    /// The columns that a call computes, if it is one of those that are followed.
    fn computed(&mut self, node: &Node, tensor: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        if let Some((copy, kind)) = operators::copy(node) {
            return self.copied(copy, kind, axes);
        }
        if let Some(cat) = node.op.downcast() {
            return self.joined(cat, axes);
        }
        if let Some(split) = node.op.downcast() {
            return self.section(split, tensor, axes);
        }
        if let Some((_, [x])) = elementwise(node, "aten.neg.default") {
            let sums = self.of(x, axes)?;
            return Some(sums.into_iter().map(|sum| sum.into_iter().map(Term::negated).collect()).collect());
        }
        if let Some(Binary { inputs, .. }) = operators::mul(node) {
            return self.products(inputs, tensor, axes);
        }
        let (Binary { inputs, .. }, alpha) = operators::add(node).or_else(|| operators::sub(node))?;
        let minus = match alpha {
            1.0 => false,
            -1.0 => true,
            _ => return None,
        };
        let [a, b] = [self.operand(inputs[0], tensor, axes)?, self.operand(inputs[1], tensor, axes)?];
        let sum = |(mut a, b): (Sum, Sum)| {
            a.extend(b.into_iter().map(|term| if minus { term.negated() } else { term }));
            (a.len() <= MAX_TERMS).then_some(a)
        };
        a.into_iter().zip(b).map(sum).collect()
    }

    fn copied(&mut self, copy: &CopyOp, kind: CopyKind<'_>, axes: &[usize]) -> Option<Vec<Sum>> {
        let lead = axes.len();
        match kind {
            CopyKind::Same => self.of(copy.from, axes),
            CopyKind::View(_) => {
                let same_rows = (0..lead).all(|axis| self.editor.dims.same_size((copy.from, axis), (copy.out, axis)));
                let width = |tensor| product(&self.tail(tensor, lead)?);
                (same_rows && self.rank(copy.from) >= lead && width(copy.from)? == width(copy.out)?)
                    .then(|| self.of(copy.from, axes))?
            }
            CopyKind::Unsqueezed(axis) => (axis >= lead).then(|| self.of(copy.from, axes))?,
            CopyKind::Squeezed(gone) => gone.iter().all(|&axis| axis >= lead).then(|| self.of(copy.from, axes))?,
            CopyKind::Slice { axis, start, end, step } => {
                let at = axis.checked_sub(lead)?;
                let tail = self.tail(copy.from, lead)?;
                let (start, length) = fixed_slice(start, end, step, u32::try_from(*tail.get(at)?).ok()?)?;
                let step = usize::try_from(step).ok()?;
                let kept = (0..length as usize).map(|index| start as usize + index * step).collect::<Vec<_>>();
                Some(picked(self.of(copy.from, axes)?, &tail, at, &kept))
            }
            CopyKind::Select { axis, index: Scalar::Fixed(index) } => {
                let at = axis.checked_sub(lead)?;
                let tail = self.tail(copy.from, lead)?;
                let size = i64::try_from(*tail.get(at)?).ok()?;
                let index = usize::try_from(if index < 0 { index + size } else { index }).ok()?;
                (index < tail[at]).then(|| Some(picked(self.of(copy.from, axes)?, &tail, at, &[index])))?
            }
            CopyKind::Permute(order) => {
                let (rows, columns) = order.split_at_checked(lead)?;
                let in_place = columns.iter().zip(lead..).all(|(&from, to)| from == to);
                let mut before = vec![0; lead];
                for (&from, &axis) in rows.iter().zip(axes) {
                    *before.get_mut(from)? = axis;
                }
                in_place.then(|| self.of(copy.from, &before))?
            }
            CopyKind::Select { .. } | CopyKind::Expanded(_) | CopyKind::Other => None,
        }
    }

    fn joined(&mut self, cat: &Cat, axes: &[usize]) -> Option<Vec<Sum>> {
        let at = cat.axis.checked_sub(axes.len())?;
        let inner = product(self.tail(cat.out, axes.len())?.get(at + 1..)?)?;
        let parts = cat.tensors.iter().map(|&tensor| {
            let length = if cat.stacked { 1 } else { *self.tail(tensor, axes.len())?.get(at)? };
            Some((length.checked_mul(inner)?, self.of(tensor, axes)?))
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        let (block, first) = parts.first()?;
        let blocks = first.len().checked_div(*block)?;
        let joined: Vec<Sum> = (0..blocks)
            .flat_map(|index| parts.iter().flat_map(move |(block, sums)| sums[index * block..].iter().take(*block).cloned()))
            .collect();
        (joined.len() <= MAX_COLUMNS).then_some(joined)
    }

    fn section(&mut self, split: &Split, out: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        let at = split.axis.checked_sub(axes.len())?;
        let lengths = split.fixed_lengths(self.editor.dims.fixed(split.from, split.axis))?;
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
        let section = split.outs.iter().position(|&tensor| tensor == out)?;
        let start: usize = lengths[..section].iter().sum();
        let tail = self.tail(split.from, axes.len())?;
        let kept: Vec<usize> = (start..start + lengths[section]).collect();
        (start + lengths[section] <= *tail.get(at)?).then(|| Some(picked(self.of(split.from, axes)?, &tail, at, &kept)))?
    }

    fn products(&mut self, inputs: [TensorId; 2], out: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        // A scaled tensor is a tensor of its own.
        if inputs.iter().any(|&input| self.editor.graph.info(input).bound.count() == 1) {
            return None;
        }
        let [a, b] = [self.operand(inputs[0], out, axes)?, self.operand(inputs[1], out, axes)?];
        let product = |(a, b): (Sum, Sum)| {
            let terms = a.iter().flat_map(|&a| b.iter().map(move |&b| a.times(b)));
            terms.collect::<Option<Sum>>().filter(|sum| sum.len() <= MAX_TERMS)
        };
        a.into_iter().zip(b).map(product).collect()
    }

    /// The columns of an operand of an elementwise call, broadcast to those of the result. An operand with fewer rows is a leaf: a table.
    fn operand(&mut self, input: TensorId, out: TensorId, axes: &[usize]) -> Option<Vec<Sum>> {
        let wanted = self.tail(out, axes.len())?;
        let own_axes = self.rank(input).checked_sub(wanted.len())?;
        let first = axes.len().checked_sub(own_axes)?;
        let repeated = |axis: usize| {
            self.editor.dims.fixed(input, axis) == Some(1) && self.editor.dims.fixed(out, first + axis) != Some(1)
        };
        let is_table = first > 0 || (0..own_axes).any(repeated);
        let axes = &axes[first..];
        let sums = if is_table { self.leaf(input, axes)? } else { self.of(input, axes)? };
        let tail = self.tail(input, own_axes)?;
        let count = product(&wanted)?;
        (0..count).map(|at| sums.get(broadcast_index(at, &wanted, &tail)?).cloned()).collect()
    }
}

/// The index in columns of sizes `tail` of an index in columns of sizes `wanted`.
fn broadcast_index(at: usize, wanted: &[usize], tail: &[usize]) -> Option<usize> {
    let (mut rest, mut stride, mut index) = (at, 1, 0);
    for (&wanted, &own) in wanted.iter().zip(tail).rev() {
        if own != 1 && own != wanted {
            return None;
        }
        index += if own == 1 { 0 } else { rest % wanted * stride };
        rest /= wanted.max(1);
        stride *= own;
    }
    Some(index)
}

/// The columns at some indices of a dim.
fn picked(sums: Vec<Sum>, tail: &[usize], axis: usize, kept: &[usize]) -> Vec<Sum> {
    let inner: usize = tail[axis + 1..].iter().product();
    let outer: usize = tail[..axis].iter().product();
    let block = |outer: usize, index: usize| (outer * tail[axis] + index) * inner;
    let starts = (0..outer).flat_map(|outer| kept.iter().map(move |&index| block(outer, index)));
    starts.flat_map(|start| sums[start..start + inner].to_vec()).collect()
}

/// The number of columns, if it is not too large.
fn product(sizes: &[usize]) -> Option<usize> {
    let count = sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
    count.filter(|&count| count > 0 && count <= MAX_COLUMNS)
}
