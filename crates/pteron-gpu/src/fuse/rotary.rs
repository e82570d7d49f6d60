//! Rotary position embedding right before attention over a KV cache becomes part of attention, which rotates queries and keys by the
//! whole tables of cosines and sines. Slices of the tables that nothing else reads are removed.

use std::collections::BTreeSet;

use super::MAX_CHAIN;
use super::editor::Editor;
use super::operators;
use crate::graph::Role;
use crate::live::{Scalar, ScalarId, TensorId};
use crate::ops::copy::CopyKind;
use crate::ops::rotary::interleaved::Interleaved;
use crate::ops::sdpa::{RotaryInputs, Sdpa};
use crate::ops::symint::{Source, SymInt};

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut feeding = BTreeSet::new();
    for (index, node) in editor.nodes() {
        let Some(sdpa) = node.op.downcast() else { continue };
        let Some(rotation) = Rotation::before(editor, index, sdpa) else { continue };
        let call = sdpa.rotary_call(&mut editor.source, rotation.inputs());
        if editor.replace_with(&[rotation.call, index], index, call) {
            feeding.extend(rotation.tables.into_iter().flat_map(|table| table.calls));
        }
    }
    editor.remove_dead(feeding);
}

/// A rotation of the queries and keys of one attention call.
struct Rotation {
    call: usize,
    queries: TensorId,
    keys: TensorId,
    /// Cosines and sines.
    tables: [Table; 2],
}

/// A table of which one row per token is read, from a position on.
struct Table {
    whole: TensorId,
    /// The calls between the table and the reader of its rows.
    calls: Vec<usize>,
}

impl Rotation {
    /// The rotation before an attention call, if nothing else reads its results.
    fn before(editor: &Editor<'_>, attention: usize, sdpa: &Sdpa) -> Option<Self> {
        let &Sdpa { q, k, k_cache, input_pos: Scalar::Live(position), .. } = sdpa else { return None };
        if !sdpa.is_plain() {
            return None;
        }
        let (call, Interleaved { inputs, outputs }) = editor.writer(q)?;
        let (queries, keys) = (inputs.xq, inputs.xk);
        let alone = [q, k].iter().all(|&tensor| editor.uses.only_reader(tensor) == Some(attention));
        let unchanged = [queries, keys].iter().all(|&tensor| !editor.uses.is_mutated(tensor));
        let bound = |tensor| editor.graph.info(tensor).bound;
        if (outputs.xq, outputs.xk) != (q, k)
            || !alone
            || !unchanged
            || bound(queries) != bound(q)
            || bound(keys) != bound(k)
        {
            return None;
        }
        let rows = Rows { position, attention, tokens: queries };
        let tables = [rows.table(editor, inputs.freqs_cos)?, rows.table(editor, inputs.freqs_sin)?];
        let wholes = [tables[0].whole, tables[1].whole];
        // One row per position of the cache, with one angle per pair of a head.
        let &[_, positions, _, dim] = &*bound(k_cache) else { return None };
        let covers = |table: &TensorId| matches!(*bound(*table), [rows, angles] if rows >= positions && angles == dim / 2);
        let fits = wholes.iter().all(covers) && editor.fits_binding(&wholes);
        fits.then_some(Self { call, queries, keys, tables })
    }

    /// The inputs of attention that rotates.
    fn inputs(&self) -> RotaryInputs {
        let [cosines, sines] = [self.tables[0].whole, self.tables[1].whole];
        RotaryInputs { q: self.queries, k: self.keys, cosines, sines }
    }
}

/// The table rows that an attention call needs: one per token, from its position on.
struct Rows {
    position: ScalarId,
    attention: usize,
    /// A tensor `[1, tokens, heads, head dim]`.
    tokens: TensorId,
}

impl Rows {
    /// The constant of which these are rows, and the calls between.
    fn table(&self, editor: &Editor<'_>, rows: TensorId) -> Option<Table> {
        let (rows, mut calls) = before_copies(editor, rows)?;
        let (slice, node) = editor.writing_node(rows)?;
        let (copy, CopyKind::Slice { axis: 0, start: Some(Scalar::Live(start)), end: Some(Scalar::Live(end)), step: 1 }) =
            operators::copy(node)?
        else {
            return None;
        };
        if editor.uses.is_mutated(rows) || !self.starts(editor, slice, start) {
            return None;
        }
        calls.extend([slice, self.end(editor, slice, start, end)?]);
        calls.extend(editor.uses.symbol_writer(start, slice));
        let (whole, copies) = before_copies(editor, copy.from)?;
        calls.extend(copies);
        matches!(editor.graph.role(whole), Role::Constant(_)).then_some(Table { whole, calls })
    }

    /// Whether a slice that starts at this symbol starts at the position of attention.
    fn starts(&self, editor: &Editor<'_>, slice: usize, start: ScalarId) -> bool {
        let (Some(first), Some(second)) =
            (editor.uses.symbol_writer(start, slice), editor.uses.symbol_writer(self.position, self.attention))
        else {
            return false;
        };
        // Every valid index of a tensor with one element names that element.
        let element = |call: usize| match editor.node(call).op.downcast()? {
            SymInt { source: Source::Element { x, .. }, .. } if editor.graph.info(*x).bound.count() == 1 => Some(*x),
            _ => None,
        };
        first == second || element(first).is_some_and(|of| element(second) == Some(of))
    }

    /// The call that computes the end of a slice, if the slice has as many rows as there are tokens.
    fn end(&self, editor: &Editor<'_>, slice: usize, start: ScalarId, end: ScalarId) -> Option<usize> {
        let sum = editor.uses.symbol_writer(end, slice)?;
        let SymInt { source: Source::Binary { name: "add", a: Scalar::Live(a), b: Scalar::Live(b), .. }, .. } =
            editor.node(sum).op.downcast()?
        else {
            return None;
        };
        let length = if *a == start { *b } else { *a };
        let settled = [start, length].iter().all(|&symbol| editor.uses.symbol_writer(symbol, sum).is_some());
        ([*a, *b].contains(&start) && settled && editor.dims.is_size(length, self.tokens, 1)).then_some(sum)
    }
}

/// The tensor before copies that keep its dims, such as prepacks and clones, and the calls of those copies. `None` if one of them is
/// mutated or there are too many.
fn before_copies(editor: &Editor<'_>, mut tensor: TensorId) -> Option<(TensorId, Vec<usize>)> {
    let mut calls = Vec::new();
    while let Some((call, node)) = editor.writing_node(tensor)
        && let Some((copy, CopyKind::Same)) = operators::copy(node)
    {
        if editor.uses.is_mutated(tensor) || calls.len() == MAX_CHAIN {
            return None;
        }
        tensor = copy.from;
        calls.push(call);
    }
    Some((tensor, calls))
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::ops::sdpa::{NAME, ROTARY};
    use crate::testing::{GraphBuilder, f32s, i32s, noise};

    const TURN: &str = "et_vk.apply_rotary_emb.default";
    const SLICE: &str = "aten.slice_copy.Tensor";
    const PREPACK: &str = "et_vk.prepack.default";
    const ELEMENT: &str = "et_vk.select_as_symint.default";
    const SUM: &str = "add";
    const COPY: &str = "aten.clone.default";
    const ONLY: Fusions = Fusions { rotary: true, ..Fusions::NONE };
    const FUSED: [&str; 2] = [ELEMENT, ROTARY];
    const UNFUSED: [&str; 9] = [PREPACK, PREPACK, ELEMENT, SUM, SLICE, SLICE, TURN, ELEMENT, NAME];

    #[derive(Clone, Copy)]
    struct Sizes {
        tokens: u32,
        cache: u32,
        dim: u32,
        /// Rows of the tables, and positions per call.
        rows: u32,
        positions: u32,
    }

    const USUAL: Sizes = Sizes { tokens: 9, cache: 20, dim: 8, rows: 24, positions: 1 };
    const HEADS: [u32; 3] = [4, 2, 2];

    /// Queries, keys and values from outside, queries and keys rotated as exporters do it, and attention.
    struct AttentionBuilder {
        builder: GraphBuilder,
        sizes: Sizes,
        /// Queries, keys and values.
        new: [ValueId; 3],
        position: ValueId,
        /// Rows of cosines and sines.
        rows: [ValueId; 2],
        at: ValueId,
        turned: [ValueId; 2],
    }

    impl AttentionBuilder {
        fn new(sizes: Sizes) -> Self {
            let Sizes { tokens, dim, rows, positions, .. } = sizes;
            let mut builder = GraphBuilder::new();
            let new = HEADS.map(|heads| builder.input(DataType::Float32, &[1, tokens, heads, dim]));
            let position = builder.input(DataType::Int32, &[positions]);
            let float = DataType::Float32;
            let tables = [3, 4].map(|seed| {
                let table = builder.floats(&[rows, dim / 2], &noise(seed, (rows * dim / 2) as usize));
                let packed = builder.tensor(float, &[rows, dim / 2]);
                builder.call(PREPACK, &[table, packed]);
                packed
            });
            let [count, start, end, at] = [(); 4].map(|()| builder.value(Value::SymInt));
            let [zero, one, last] = [0, 1, -1].map(|number| builder.int(number));
            builder.call("sym_size.int", &[new[0], one, count]);
            builder.call(ELEMENT, &[position, zero, last, start]);
            builder.call(SUM, &[start, count, end]);
            let rows = tables.map(|table| {
                let rows = builder.tensor(float, &[tokens, dim / 2]);
                builder.call(SLICE, &[table, zero, start, end, one, rows]);
                rows
            });
            let mut attention = Self { builder, sizes, new, position, rows, at, turned: [ValueId(0); 2] };
            attention.turned = attention.turn();
            attention.builder.call(ELEMENT, &[position, zero, zero, at]);
            attention.attend(attention.turned);
            attention
        }

        /// Rotates queries and keys.
        fn turn(&mut self) -> [ValueId; 2] {
            let Sizes { tokens, dim, .. } = self.sizes;
            let turned = [0, 1].map(|i| self.builder.tensor(DataType::Float32, &[1, tokens, HEADS[i], dim]));
            let list = self.builder.value(Value::ValueList(turned.to_vec()));
            self.builder.call(TURN, &[self.new[0], self.new[1], self.rows[0], self.rows[1], list]);
            turned
        }

        /// Attention with its own caches.
        fn attend(&mut self, [q, k]: [ValueId; 2]) {
            let Sizes { tokens, cache, dim, .. } = self.sizes;
            let shape = [1, cache, HEADS[1], dim];
            let caches = [(); 2].map(|()| self.builder.floats(&shape, &vec![0.0; (cache * HEADS[1] * dim) as usize]));
            let [none, zero, yes] = [Value::Null, Value::Int(0), Value::Bool(true)].map(|value| self.builder.value(value));
            let out = self.builder.tensor(DataType::Float32, &[1, tokens, HEADS[0], dim]);
            let args = [q, k, self.new[2], caches[0], caches[1], self.at, zero, none, zero, yes, none, out];
            self.builder.call(NAME, &args);
            self.builder.output(out);
        }

        fn names(&self) -> Vec<&'static str> {
            fused_names(&self.builder, &ONLY)
        }

        /// An argument of the first call of an operator.
        fn arg(&mut self, name: &str, position: usize) -> &mut ValueId {
            let call = self.builder.graph.calls.iter_mut().find(|call| call.name == name).unwrap();
            &mut call.args[position]
        }

        fn agrees(&self, shapes: &[(u32, i32)]) {
            let call = |&(tokens, at): &(u32, i32)| {
                let new = |(seed, heads): (u64, u32)| {
                    let count = (tokens * heads * self.sizes.dim) as usize;
                    f32s(&[1, tokens, heads, self.sizes.dim], noise(seed + u64::from(at.unsigned_abs()), count))
                };
                let mut inputs: Vec<_> = (1..).zip(HEADS).map(new).collect();
                inputs.push(i32s(&[1], vec![at]));
                inputs
            };
            let calls: Vec<_> = shapes.iter().map(call).collect();
            agree(&self.builder, &ONLY, &calls);
        }
    }

    #[test]
    fn copies_of_rows_go_with_them() {
        let mut attention = AttentionBuilder::new(USUAL);
        let place = attention.builder.graph.calls.iter().position(|call| call.name == TURN).unwrap();
        for (argument, rows) in [(2, attention.rows[0]), (3, attention.rows[1])] {
            let none = attention.builder.value(Value::Null);
            let copy = attention.builder.tensor(DataType::Float32, &[USUAL.tokens, USUAL.dim / 2]);
            attention.builder.call(COPY, &[rows, none, copy]);
            let call = attention.builder.graph.calls.pop().unwrap();
            attention.builder.graph.calls.insert(place, call);
            *attention.arg(TURN, argument) = copy;
        }
        assert_eq!(attention.names(), FUSED);
        attention.agrees(&[(9, 0), (1, 9), (3, 4)]);
    }

    #[test]
    fn turning_becomes_part_of_attention_and_slices_go() {
        let attention = AttentionBuilder::new(USUAL);
        assert_eq!(attention.names(), FUSED);
        attention.agrees(&[(9, 0), (1, 9), (5, 10), (0, 12), (1, 15), (3, 4), (1, 7), (9, 11)]);
        let long = AttentionBuilder::new(Sizes { tokens: 40, cache: 300, rows: 300, ..USUAL });
        long.agrees(&[(40, 0), (40, 40), (40, 80), (1, 120), (8, 121), (5, 126), (40, 131), (1, 171), (1, 128), (9, 291)]);
        // The sum with swapped operands, and one symbol for both positions.
        let mut attention = AttentionBuilder::new(USUAL);
        let args = attention.builder.graph.calls[4].args.clone();
        attention.builder.graph.calls[4].args = vec![args[1], args[0], args[2]];
        let start = *attention.arg(SLICE, 2);
        *attention.arg(NAME, 5) = start;
        assert_eq!(attention.names(), [ELEMENT, ELEMENT, ROTARY]);
        attention.agrees(&[(9, 0), (1, 9)]);
    }

    #[test]
    fn slices_stay_as_long_as_somebody_reads_them() {
        let mut layers = AttentionBuilder::new(USUAL);
        let turned = layers.turn();
        layers.attend(turned);
        assert_eq!(layers.names(), [ELEMENT, ROTARY, ROTARY]);
        layers.agrees(&[(9, 0), (1, 9), (2, 3)]);
        // The second layer's queries are also an output.
        layers.builder.output(turned[0]);
        assert_eq!(layers.names(), [&UNFUSED[..6], &[ELEMENT, ROTARY, TURN, NAME]].concat());
        layers.agrees(&[(9, 0), (1, 9), (2, 3)]);
        let mut outside = AttentionBuilder::new(USUAL);
        outside.builder.output(outside.rows[1]);
        assert_eq!(outside.names(), [PREPACK, ELEMENT, SUM, SLICE, ELEMENT, ROTARY]);
    }

    #[test]
    fn rotated_tensors_with_other_users_are_not_fused() {
        let mut output = AttentionBuilder::new(USUAL);
        output.builder.output(output.turned[1]);
        assert_eq!(output.names(), UNFUSED);

        let mut twice = AttentionBuilder::new(USUAL);
        *twice.arg(NAME, 2) = twice.turned[1];
        assert_eq!(twice.names(), UNFUSED);

        let mut changed = AttentionBuilder::new(USUAL);
        let (zero, done) = (changed.builder.int(0), changed.builder.tensor(DataType::Float32, &[1]));
        changed.builder.call("update_cache.default", &[changed.new[2], changed.new[1], zero, done]);
        assert_eq!(changed.names(), [&UNFUSED[..], &["update_cache.default"]].concat());
    }

    #[test]
    fn other_rows_than_those_of_the_positions_stay_apart() {
        // With two positions, one consumer takes the first and the other the last.
        assert_eq!(AttentionBuilder::new(Sizes { positions: 2, ..USUAL }).names(), UNFUSED);

        let mut other = AttentionBuilder::new(USUAL);
        let elsewhere = other.builder.input(DataType::Int32, &[1]);
        *other.arg(ELEMENT, 0) = elsewhere;
        assert_eq!(other.names(), UNFUSED);

        let mut fixed = AttentionBuilder::new(USUAL);
        let zero = fixed.builder.int(0);
        *fixed.arg(SLICE, 2) = zero;
        assert_eq!(fixed.names(), UNFUSED);

        // As many rows as another input has tokens, or as the wrong sum.
        let mut length = AttentionBuilder::new(USUAL);
        *length.arg("sym_size.int", 0) = length.new[2];
        assert_eq!(length.names(), UNFUSED);
        let mut end = AttentionBuilder::new(USUAL);
        let count = *end.arg(SUM, 1);
        *end.arg(SUM, 0) = count;
        assert_eq!(end.names(), UNFUSED);

        let mut steps = AttentionBuilder::new(USUAL);
        let two = steps.builder.int(2);
        *steps.arg(SLICE, 4) = two;
        assert_eq!(steps.names(), UNFUSED);
        let mut columns = AttentionBuilder::new(USUAL);
        let one = columns.builder.int(1);
        *columns.arg(SLICE, 1) = one;
        assert_eq!(columns.names(), UNFUSED);
    }

    #[test]
    fn symbols_that_are_written_twice_or_late_are_refused() {
        for symbol in [(ELEMENT, 3), (SUM, 2), ("sym_size.int", 2), (NAME, 5)] {
            let mut attention = AttentionBuilder::new(USUAL);
            let symbol = *attention.arg(symbol.0, symbol.1);
            let zero = attention.builder.int(0);
            attention.builder.call(ELEMENT, &[attention.position, zero, zero, symbol]);
            assert!(attention.builder.decode().is_err(), "symbol {symbol} has two writers");
        }
        // The slice comes before its start is known.
        let mut late = AttentionBuilder::new(USUAL);
        let element = late.builder.graph.calls.remove(3);
        late.builder.graph.calls.insert(7, element);
        assert!(late.builder.decode().is_err());
    }

    #[test]
    fn tables_and_heads_that_do_not_fit_stay_apart() {
        assert_eq!(AttentionBuilder::new(Sizes { rows: 19, ..USUAL }).names(), UNFUSED);
        assert_eq!(AttentionBuilder::new(Sizes { rows: 20, ..USUAL }).names(), FUSED);
        assert_eq!(AttentionBuilder::new(Sizes { dim: 6, ..USUAL }).names(), UNFUSED);

        let mut outside = AttentionBuilder::new(USUAL);
        *outside.arg(PREPACK, 0) = outside.builder.input(DataType::Float32, &[24, 4]);
        assert_eq!(outside.names(), UNFUSED);

        let attention = AttentionBuilder::new(USUAL);
        let within = |bytes| fused_names(&attention.builder, &ONLY.within(bytes));
        assert_eq!((within(2 * 24 * 4 * 4), within(2 * 24 * 4 * 4 - 1)), (FUSED.to_vec(), UNFUSED.to_vec()));
    }

    #[test]
    fn queries_in_the_place_of_keys_stay_apart() {
        let mut swapped = AttentionBuilder::new(USUAL);
        let [q, k] = swapped.turned;
        (*swapped.arg(NAME, 0), *swapped.arg(NAME, 1)) = (k, q);
        assert_eq!(swapped.names(), UNFUSED);
    }
}
