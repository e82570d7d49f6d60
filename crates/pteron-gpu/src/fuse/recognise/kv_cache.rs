//! `update_cache` of keys and of values, and attention over both caches, become one call that appends and attends.

use super::super::editor::Editor;
use super::same_scalar;
use crate::live::{Scalar, TensorId};
use crate::ops::sdpa::Sdpa;
use crate::ops::update_cache::UpdateCache;

pub(in super::super) fn find(editor: &mut Editor<'_>) {
    for (index, node) in editor.nodes() {
        let Some(sdpa) = node.op.downcast().filter(|sdpa: &&Sdpa| sdpa.is_cached()) else { continue };
        let appended = |cache| Append::before(editor, (index, sdpa.input_pos), cache);
        let (Some(keys), Some(values)) = (appended(sdpa.k_cache), appended(sdpa.v_cache)) else { continue };
        // The new keys and values are read at attention's position.
        if sdpa.k_cache == sdpa.v_cache || [keys.value, values.value].iter().any(|&value| editor.uses.is_mutated(value)) {
            continue;
        }
        let call = sdpa.appending_call(&mut editor.source, keys.value, values.value);
        editor.replace_with(&[keys.call, values.call, index], index, call);
    }
}

/// The call that appends rows to a cache.
struct Append {
    call: usize,
    value: TensorId,
}

impl Append {
    /// The only call that changes a cache, if it comes before attention, appends at the same position, and nothing else uses the cache.
    fn before(editor: &Editor<'_>, (attention, position): (usize, Scalar), cache: TensorId) -> Option<Self> {
        let &[call] = editor.uses.mutators(cache) else { return None };
        let append: &UpdateCache = editor.node(call).op.downcast()?;
        let users = editor.uses.all_readers(cache);
        let alone = users.iter().all(|&user| user == attention || user == call) && !editor.uses.is_output(cache);
        let same_position = same_scalar(editor, (append.start_pos, call), (position, attention));
        let unread = editor.uses.is_unread(append.out);
        (call < attention && alone && same_position && unread).then_some(Self { call, value: append.value })
    }
}

#[cfg(test)]
mod tests {
    use crate::fuse::Fusions;
    use crate::fuse::tests::{agree, fused_names};
    use crate::ir::{DataType, Value, ValueId};
    use crate::ops::sdpa::NAME;
    use crate::testing::{GraphBuilder, f32s, i32s, noise};

    const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };
    const ELEMENT: &str = "et_vk.select_as_symint.default";
    const UPDATE: &str = "update_cache.default";
    const CUSTOM: &str = "llama.custom_sdpa.default";
    const DIM: u32 = 8;

    /// Attention over caches that two calls append to, at positions that are elements of inputs.
    struct Attention {
        builder: GraphBuilder,
        caches: [ValueId; 2],
        done: [ValueId; 2],
    }

    /// The index of the position that each of the three calls reads, of as many as the input has.
    fn attention(positions: u32, indices: [i64; 3]) -> Attention {
        let mut builder = GraphBuilder::new();
        let float = DataType::Float32;
        let [q, k, v] = [4, 2, 2].map(|heads| builder.input(float, &[1, 6, heads, DIM]));
        let position = builder.input(DataType::Int32, &[positions]);
        let caches = [(); 2].map(|()| builder.floats(&[1, 16, 2, DIM], &[0.0; 256]));
        let done = [(); 2].map(|()| builder.tensor(float, &[1]));
        let out = builder.tensor(float, &[1, 6, 4, DIM]);
        let at = indices.map(|index| {
            let (zero, index, at) = (builder.int(0), builder.int(index), builder.value(Value::SymInt));
            builder.call(ELEMENT, &[position, zero, index, at]);
            at
        });
        builder.call(UPDATE, &[v, caches[1], at[0], done[1]]);
        builder.call(UPDATE, &[k, caches[0], at[1], done[0]]);
        let [none, zero, yes] = [Value::Null, Value::Double(0.0), Value::Bool(true)].map(|value| builder.value(value));
        builder.call(CUSTOM, &[q, caches[0], caches[1], at[2], none, zero, yes, none, out]);
        builder.output(out);
        Attention { builder, caches, done }
    }

    fn calls(positions: u32) -> Vec<Vec<crate::reference::HostTensor>> {
        let call = |(at, tokens): (i32, u32)| {
            let new = |seed: u64, heads: u32| {
                f32s(&[1, tokens, heads, DIM], noise(seed + u64::from(tokens), (tokens * heads * DIM) as usize))
            };
            vec![new(1, 4), new(2, 2), new(3, 2), i32s(&[positions], vec![at; positions as usize])]
        };
        [(0, 5), (5, 1), (6, 1), (7, 6), (2, 3)].map(call).to_vec()
    }

    #[test]
    fn appending_and_attending_is_one_call() {
        // Any index of one position is that position.
        for (positions, indices) in [(1, [0, -1, 0]), (3, [0, 0, 0])] {
            let built = attention(positions, indices);
            assert_eq!(fused_names(&built.builder, &ONLY), [ELEMENT, ELEMENT, ELEMENT, NAME]);
            agree(&built.builder, &ONLY, &calls(positions));
        }
    }

    #[test]
    fn other_positions_and_other_readers_stay_apart() {
        for indices in [[0, 1, 0], [1, 0, 0], [0, 0, 1]] {
            assert!(!fused_names(&attention(3, indices).builder, &ONLY).contains(&NAME));
        }
        let mut read = attention(1, [0; 3]);
        let negated = read.builder.tensor(DataType::Float32, &[1, 16, 2, DIM]);
        read.builder.call("aten.neg.default", &[read.caches[0], negated]);
        read.builder.output(negated);
        assert!(!fused_names(&read.builder, &ONLY).contains(&NAME));
        let mut ordered = attention(1, [0; 3]);
        let done = ordered.done[0];
        ordered.builder.output(done);
        assert!(!fused_names(&ordered.builder, &ONLY).contains(&NAME));
        // Attention before keys are appended.
        let mut late = attention(1, [0; 3]);
        let count = late.builder.graph.calls.len();
        late.builder.graph.calls.swap(count - 2, count - 1);
        assert!(!fused_names(&late.builder, &ONLY).contains(&NAME));
    }
}
