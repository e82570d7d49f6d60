//! Rotary position embedding written as arithmetic on the queries and keys of attention becomes the rotary operator.
//!
//! Interleaved (GPT-J and Meta) and split-half (NeoX and Hugging Face) pairs, of whole heads or of their first elements, are told apart
//! by the [columns](super::columns) of the result, however slices, concatenations, views and permutations produce them.

use super::super::MAX_CHAIN;
use super::super::editor::Editor;
use super::super::operators;
use super::columns::{Column, Columns, Leaf, Sum};
use crate::graph::Node;
use crate::ir::DataType;
use crate::live::TensorId;
use crate::ops::copy::{CopyKind, squeeze_call, view_call};
use crate::ops::rotary::{self, Inputs, Pairs};
use crate::ops::sdpa::{GeneralSdpa, Sdpa};
use crate::ops::update_cache::{UpdateCache, UpdateRows};

/// The dims of queries and keys before the head dim, and which of them counts tokens.
const LEAD: [usize; 3] = [0, 1, 2];
const TOKENS: usize = 1;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    let mut feeding = Vec::new();
    for (index, node) in editor.nodes() {
        let Some((q, (k, reader))) = new_rows(editor, index, node) else { continue };
        let Some((queries, keys)) = Rotated::before(editor, index, q).zip(Rotated::before(editor, reader, k)) else {
            continue;
        };
        // The operator is placed at the last call of both: what reads them comes after it.
        if index.min(reader) < queries.last.max(keys.last) {
            continue;
        }
        let form = |rotated: &Rotated| (rotated.pairs, rotated.tables.each_ref().map(|table| table.rows));
        if form(&queries) != form(&keys) {
            continue;
        }
        feeding.extend(queries.calls.iter().chain(&keys.calls).copied());
        replace(editor, &queries, &keys);
    }
    feeding.sort_unstable();
    feeding.dedup();
    editor.remove_dead(feeding);
}

/// The queries of attention, its new keys and the call that reads those: attention itself, or the one that writes them to its cache.
fn new_rows(editor: &Editor<'_>, index: usize, node: &Node) -> Option<(TensorId, (TensorId, usize))> {
    let (q, cache) = match node.op.downcast::<Sdpa>() {
        Some(sdpa) if !sdpa.is_cached() => return Some((sdpa.q, (sdpa.k, index))),
        Some(sdpa) => (sdpa.q, sdpa.k_cache),
        None => {
            let (q, cache, _) = node.op.downcast().and_then(GeneralSdpa::queries_keys_output)?;
            (q, cache)
        }
    };
    let &[call] = editor.uses.mutators(cache) else { return None };
    let op = &editor.node(call).op;
    let value = op.downcast().map(|update: &UpdateCache| update.value);
    let value = value.or_else(|| op.downcast().map(|update: &UpdateRows| update.value))?;
    Some((q, (value, call)))
}

/// Writes the rotary operator in place of the last calls of both.
fn replace(editor: &mut Editor<'_>, queries: &Rotated, keys: &Rotated) {
    let mut calls = Vec::new();
    let [xq, xk] = [queries, keys].map(|rotated| {
        let bound = editor.graph.info(rotated.out).bound;
        if editor.graph.info(rotated.x).bound == bound {
            return rotated.x;
        }
        let heads = editor.tensor(DataType::Float32, &bound);
        calls.push(view_call(&mut editor.source, rotated.x, &bound, heads));
        heads
    });
    let [freqs_cos, freqs_sin] = queries.tables.each_ref().map(|table| {
        if table.units.is_empty() {
            return table.rows;
        }
        let bound = editor.graph.info(table.rows).bound;
        let kept = (0..bound.len()).filter(|axis| !table.units.contains(axis)).map(|axis| bound[axis]);
        let rows = editor.tensor(DataType::Float32, &kept.collect::<Vec<_>>());
        calls.push(squeeze_call(&mut editor.source, table.rows, &table.units, rows));
        rows
    });
    let inputs = Inputs { xq, xk, freqs_cos, freqs_sin };
    calls.push(rotary::call(&mut editor.source, queries.pairs, &inputs, [queries.out, keys.out]));
    editor.replace_with_all(&[queries.last, keys.last], queries.last.max(keys.last), calls);
}

/// A tensor that is a rotation of another one.
struct Rotated {
    x: TensorId,
    out: TensorId,
    pairs: Pairs,
    /// Cosines and sines.
    tables: [Table; 2],
    /// The call that writes it, and all calls between.
    last: usize,
    calls: Vec<usize>,
}

/// One row per token: a tensor with these dims of 1 besides tokens and angles, and the calls that view it otherwise.
#[derive(Clone, Debug)]
struct Table {
    rows: TensorId,
    units: Vec<usize>,
    calls: Vec<usize>,
}

impl Rotated {
    /// The rotation that gives a tensor which attention alone reads.
    fn before(editor: &Editor<'_>, attention: usize, out: TensorId) -> Option<Self> {
        let last = editor.uses.writer(out)?;
        if editor.uses.only_reader(out) != Some(attention) || editor.graph.info(out).bound.len() != 4 {
            return None;
        }
        let mut columns = Columns::new(editor);
        let sums = columns.of(out, &LEAD)?;
        let form = (0..columns.leaves.len()).find_map(|x| Form::of(&sums, x))?;
        let leaf = |at: usize| &columns.leaves[at];
        let x = leaf(form.x);
        let same_rows = LEAD.iter().all(|&axis| editor.dims.same_size((x.tensor, axis), (out, axis)));
        if x.axes != LEAD || !same_rows || x.width != sums.len() || editor.uses.is_mutated(x.tensor) {
            return None;
        }
        let width = if form.pairs == Pairs::Interleaved { form.rotated / 2 } else { form.rotated };
        let [cosines, sines] = form.tables.map(|table| Some(leaf(table)).filter(|leaf| leaf.width == width));
        let tables = [Table::of(editor, cosines?, x.tensor)?, Table::of(editor, sines?, x.tensor)?];
        let calls = [columns.calls, tables.iter().flat_map(|table| table.calls.clone()).collect()].concat();
        Some(Self { x: x.tensor, out, pairs: form.pairs, tables, last, calls })
    }
}

impl Table {
    /// A leaf with a row per token of `tokens`, and 1 along every other dim.
    fn of(editor: &Editor<'_>, leaf: &Leaf, tokens: TensorId) -> Option<Self> {
        let row_axis = leaf.axes.iter().position(|&axis| axis == TOKENS)?;
        let unit = |axis: &usize| *axis == row_axis || editor.dims.fixed(leaf.tensor, *axis) == Some(1);
        let rows = editor.dims.same_size((leaf.tensor, row_axis), (tokens, TOKENS));
        let one_dim = editor.graph.info(leaf.tensor).bound.len() == leaf.axes.len() + 1;
        if !rows || !one_dim || !(0..leaf.axes.len()).all(|axis| unit(&axis)) || editor.uses.is_mutated(leaf.tensor) {
            return None;
        }
        Some(Self::before_views(editor, leaf.tensor))
    }

    /// The table before views that only add dims of 1.
    fn before_views(editor: &Editor<'_>, tensor: TensorId) -> Self {
        let bound = |tensor: TensorId| editor.graph.info(tensor).bound;
        let wide = |tensor: TensorId| bound(tensor).iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
        let (mut rows, mut calls) = (tensor, Vec::new());
        while let Some((index, node)) = editor.writing_node(rows)
            && let Some((copy, CopyKind::View(_) | CopyKind::Unsqueezed(_))) = operators::copy(node)
            && wide(copy.from) == wide(rows)
            && bound(copy.from).len() >= 2
            && bound(copy.from).last() == bound(rows).last()
            && !editor.uses.is_mutated(copy.from)
            && calls.len() < MAX_CHAIN
        {
            rows = copy.from;
            calls.push(index);
        }
        let before_angles = bound(rows).len() - 1;
        // Where no dim counts more than one token, any of them counts tokens.
        let tokens = (0..before_angles).find(|&axis| bound(rows)[axis] != 1).unwrap_or(before_angles - 1);
        Self { rows, units: (0..before_angles).filter(|&axis| axis != tokens).collect(), calls }
    }
}

/// Which elements are rotated, and by what.
struct Form {
    x: usize,
    pairs: Pairs,
    /// The leaves of cosines and sines.
    tables: [usize; 2],
    /// The number of elements that are rotated; those after them stay as they are.
    rotated: usize,
}

impl Form {
    /// The rotation of the columns of leaf `x`, if the sums are one.
    fn of(sums: &[Sum], x: usize) -> Option<Self> {
        let columns = sums.iter().enumerate().map(|(at, sum)| Element::of(sum, at, x)).collect::<Option<Vec<_>>>()?;
        let rotated = columns.iter().take_while(|column| column.is_some()).count();
        if rotated == 0 || rotated % 2 != 0 || columns[rotated..].iter().any(Option::is_some) {
            return None;
        }
        let elements: Vec<Element> = columns.into_iter().flatten().collect();
        let tables = [elements[0].cosine.leaf, elements[0].sine.leaf];
        let one_table_each = elements.iter().all(|element| [element.cosine.leaf, element.sine.leaf] == tables);
        let half = rotated / 2;
        let interleaved = |(at, element): (usize, &Element)| element.is(at ^ 1, at % 2 == 0, at / 2);
        let split = |(at, element): (usize, &Element)| {
            let first = at < half;
            element.is(if first { at + half } else { at - half }, first, at)
        };
        let pairs = if rotated == sums.len() && elements.iter().enumerate().all(interleaved) {
            Pairs::Interleaved
        } else {
            elements.iter().enumerate().all(split).then_some(Pairs::SplitHalf)?
        };
        (one_table_each && tables[0] != tables[1]).then_some(Self { x, pairs, tables, rotated })
    }
}

/// A rotated element: itself times a cosine, plus or minus its partner times a sine.
struct Element {
    partner: usize,
    minus: bool,
    cosine: Column,
    sine: Column,
}

impl Element {
    /// The element at a column, which may be the column of `x` itself: `Some(None)`.
    fn of(sum: &Sum, at: usize, x: usize) -> Option<Option<Self>> {
        let parts = sum.iter().map(|term| {
            let (own, factor) = match term.second {
                Some(second) if second.leaf == x => (second, Some(term.first)),
                second if term.first.leaf == x => (term.first, second),
                _ => return None,
            };
            (factor.is_none_or(|factor| factor.leaf != x)).then_some((own.at, term.negative, factor))
        });
        match *parts.collect::<Option<Vec<_>>>()?.as_slice() {
            [(own, false, None)] if own == at => Some(None),
            [(own, false, Some(cosine)), (partner, minus, Some(sine))]
            | [(partner, minus, Some(sine)), (own, false, Some(cosine))]
                if own == at && partner != at =>
            {
                Some(Some(Self { partner, minus, cosine, sine }))
            }
            _ => None,
        }
    }

    /// Whether it has this partner and sign, and both tables' entry at this index.
    fn is(&self, partner: usize, minus: bool, entry: usize) -> bool {
        (self.partner, self.minus, self.cosine.at, self.sine.at) == (partner, minus, entry, entry)
    }
}

#[cfg(test)]
mod tests;
