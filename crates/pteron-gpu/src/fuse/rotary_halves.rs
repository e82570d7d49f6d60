//! Rotary position embedding of the halves of heads (NeoX and Hugging Face) right before attention over a KV cache becomes part of
//! attention. Programs compute its cosines and sines from the positions of a call's tokens, for all layers: they are concatenated once,
//! because a kernel binds one table.

use std::collections::HashMap;

use super::MAX_CHAIN;
use super::editor::Editor;
use super::operators;
use crate::ir::{Call, DataType, ValueId};
use crate::live::TensorId;
use crate::ops::copy::{CopyKind, cat_call};
use crate::ops::rotary::split_half_of_tokens;
use crate::ops::sdpa::Sdpa;

pub(super) fn find(editor: &mut Editor<'_>) {
    // The concatenated tables, by the tensors that cosines and sines are views of.
    let mut tables: HashMap<[TensorId; 2], TensorId> = HashMap::new();
    for (index, node) in editor.nodes() {
        let Some(sdpa) = node.op.downcast() else { continue };
        let Some(rotation) = Rotation::before(editor, index, sdpa) else { continue };
        let roots = rotation.tables.map(|table| before_views(editor, table));
        let known = tables.get(&roots).copied();
        let (table, mut calls) = known.map_or_else(|| rotation.joined(editor), |table| (table, Vec::new()));
        calls.push(sdpa.split_half_call(&mut editor.source, rotation.inputs, table));
        if editor.replace_with_all(&[rotation.call, index], index, calls) {
            tables.insert(roots, table);
        }
    }
}

/// A rotation of the queries and keys of one attention call.
struct Rotation {
    call: usize,
    /// Queries and keys.
    inputs: [TensorId; 2],
    /// Cosines and sines, `[tokens, rotated elements]`.
    tables: [TensorId; 2],
}

impl Rotation {
    /// The rotation before an attention call, if nothing else reads its results.
    fn before(editor: &Editor<'_>, attention: usize, sdpa: &Sdpa) -> Option<Self> {
        let &Sdpa { q, k, .. } = sdpa;
        let (call, node) = editor.writing_node(q).filter(|_| sdpa.is_plain())?;
        let (inputs, outputs) = split_half_of_tokens(node.op.as_ref())?;
        let rotated = [inputs.xq, inputs.xk];
        let tables = [inputs.freqs_cos, inputs.freqs_sin];
        let alone = [q, k].iter().all(|&tensor| editor.uses.only_reader(tensor) == Some(attention));
        let unchanged = rotated.iter().chain(&tables).all(|&tensor| !editor.uses.is_mutated(tensor));
        // One row per token of the call, and no more: the sines follow the cosines.
        let whole = tables.iter().all(|&table| editor.dims.same_size((table, 0), (inputs.xq, 1)));
        let fits = (outputs.xq, outputs.xk) == (q, k) && alone && unchanged && whole;
        fits.then_some(Self { call, inputs: rotated, tables })
    }

    /// The tables as one tensor, and the call that concatenates them.
    fn joined(&self, editor: &mut Editor<'_>) -> (TensorId, Vec<Call>) {
        let bound = editor.graph.info(self.tables[0]).bound;
        let dims = [bound[0].saturating_mul(2), bound.last()];
        let table = editor.tensor(DataType::Float32, &dims);
        let tables = self.tables.map(|table| ValueId(table.0));
        let call = cat_call(&mut editor.source, &tables, 0, ValueId(table.0));
        (table, vec![call])
    }
}

/// The tensor before copies that keep the order of its elements.
fn before_views(editor: &Editor<'_>, mut tensor: TensorId) -> TensorId {
    for _ in 0..MAX_CHAIN {
        let copy = editor.writing_node(tensor).and_then(|(_, node)| operators::copy(node));
        let Some((copy, CopyKind::View(_) | CopyKind::Same | CopyKind::Unsqueezed(_) | CopyKind::Squeezed(_))) = copy else {
            break;
        };
        if editor.uses.is_mutated(copy.from) {
            break;
        }
        tensor = copy.from;
    }
    tensor
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::ops::sdpa::{NAME, SPLIT_HALF};
    use crate::testing::{GraphBuilder, f32s, i32s, noise};

    const ONLY: Fusions = Fusions { rotary: true, ..Fusions::NONE };
    const TURN: &str = "et_vk.apply_rotary_emb_hf.default";
    const ELEMENT: &str = "et_vk.select_as_symint.default";
    const CAT: &str = "aten.cat.default";
    const DIM: u32 = 16;
    const HEADS: [u32; 3] = [4, 2, 2];

    /// Layers of attention whose queries and keys are rotated by rows of the call's tokens, of this many columns.
    struct Layers {
        builder: GraphBuilder,
        tables: [ValueId; 2],
        turned: Vec<[ValueId; 2]>,
    }

    fn layers(count: usize, columns: u32) -> Layers {
        let mut builder = GraphBuilder::new();
        let float = DataType::Float32;
        let new = HEADS.map(|heads| builder.input(float, &[1, 9, heads, DIM]));
        let position = builder.input(DataType::Int32, &[1]);
        // Angles are a number of each token times constants, so that there are as many rows as tokens.
        let [zero, two, at] = [Value::Int(0), Value::Int(2), Value::SymInt].map(|value| builder.value(value));
        let [head, number] = [&[1, 9, DIM][..], &[1, 9]].map(|dims| builder.tensor(float, dims));
        builder.call("aten.select_copy.int", &[new[0], two, zero, head]);
        builder.call("aten.select_copy.int", &[head, two, zero, number]);
        let [column, part] = [1, columns].map(|width| builder.tensor(float, &[1, 9, width]));
        builder.call("aten.unsqueeze_copy.default", &[number, two, column]);
        let frequencies = builder.floats(&[columns], &noise(9, columns as usize));
        builder.call("aten.mul.Tensor", &[column, frequencies, part]);
        let dims = builder.value(Value::IntList(vec![0]));
        let tables = ["aten.cos.default", "aten.sin.default"].map(|name| {
            let angle = builder.tensor(float, &[1, 9, columns]);
            builder.call(name, &[part, angle]);
            let rows = builder.tensor(float, &[9, columns]);
            builder.call("aten.squeeze_copy.dims", &[angle, dims, rows]);
            rows
        });
        builder.call(ELEMENT, &[position, zero, zero, at]);
        let mut turned = Vec::new();
        for _ in 0..count {
            let outs = [0, 1].map(|i| builder.tensor(float, &[1, 9, HEADS[i], DIM]));
            let list = builder.value(Value::ValueList(outs.to_vec()));
            builder.call(TURN, &[new[0], new[1], tables[0], tables[1], zero, list]);
            let caches = [(); 2].map(|()| builder.floats(&[1, 20, HEADS[1], DIM], &[0.0; 20 * 2 * DIM as usize]));
            let [none, yes] = [Value::Null, Value::Bool(true)].map(|value| builder.value(value));
            let out = builder.tensor(float, &[1, 9, HEADS[0], DIM]);
            let args = [outs[0], outs[1], new[2], caches[0], caches[1], at, zero, none, zero, yes, none, out];
            builder.call(NAME, &args);
            builder.output(out);
            turned.push(outs);
        }
        Layers { builder, tables, turned }
    }

    fn agrees(layers: &Layers) {
        let call = |(tokens, at): (u32, i32)| {
            let new = |(seed, heads): (u64, u32)| {
                let count = (tokens * heads * DIM) as usize;
                f32s(&[1, tokens, heads, DIM], noise(seed + u64::from(at.unsigned_abs()), count))
            };
            let mut inputs: Vec<_> = (1..).zip(HEADS).map(new).collect();
            inputs.push(i32s(&[1], vec![at]));
            inputs
        };
        agree(&layers.builder, &ONLY, &[(9, 0), (1, 9), (5, 10), (0, 12), (1, 15), (3, 4), (9, 11)].map(call));
    }

    fn attention_names(layers: &Layers) -> Vec<&'static str> {
        let names = fused_names(&layers.builder, &ONLY);
        names.into_iter().filter(|name| [TURN, CAT, NAME, SPLIT_HALF].contains(name)).collect()
    }

    #[test]
    fn layers_share_one_table() {
        for columns in [16, 8] {
            let layers = layers(3, columns);
            assert_eq!(attention_names(&layers), [CAT, SPLIT_HALF, SPLIT_HALF, SPLIT_HALF]);
            agrees(&layers);
        }
    }

    #[test]
    fn rotations_with_other_readers_or_of_parts_of_vectors_stay() {
        let mut output = layers(1, 16);
        let queries = output.turned[0][0];
        output.builder.output(queries);
        assert_eq!(attention_names(&output), [TURN, NAME]);
        assert_eq!(attention_names(&layers(1, 12)), [TURN, NAME]);
        // A table with as many rows in every call.
        let mut rows = layers(1, 16);
        let table = rows.builder.floats(&[9, 16], &noise(3, 144));
        let turn = rows.builder.graph.calls.iter_mut().find(|call| call.name == TURN).unwrap();
        assert_eq!(turn.args[2], rows.tables[0]);
        turn.args[2] = table;
        assert_eq!(attention_names(&rows), [TURN, NAME]);
    }
}
