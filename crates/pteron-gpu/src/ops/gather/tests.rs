use crate::engine::LoadOptions;
use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::{DryRun, GraphBuilder, check, dims, f32s, i32s, load_error, noise, noise_bytes, run};

const TYPES: [DataType; 5] = [DataType::Float32, DataType::Int32, DataType::UInt8, DataType::Int8, DataType::Bool];
// The recipes for words, and after the first those for bytes.
const ITEMS: usize = 0;
const LANES: usize = 1;
const WORDS: usize = 1;
const BYTES: usize = 2;

fn data(dtype: DataType, shape: &[u32], seed: u64) -> HostTensor {
    let count = shape.iter().product::<u32>() as usize;
    let noise = noise(seed, count);
    match dtype {
        DataType::Float32 => f32s(shape, noise),
        DataType::Int32 => i32s(shape, noise.iter().map(|x| x.to_bits().cast_signed()).collect()),
        _ => HostTensor { dims: dims(shape), data: HostData::U8(noise_bytes(seed, count)) },
    }
}

/// Indices from `first` to before `end`, in no order.
fn ids(shape: &[u32], first: i32, end: i32) -> HostTensor {
    let count = shape.iter().product::<u32>() as usize;
    i32s(shape, (3..).step_by(7).map(|id: i32| first + id % (end - first).max(1)).take(count).collect())
}

fn select_of(dtype: DataType, bound: &[u32], dim: i64, index: &[u32], out: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let (x, dim, index) = (builder.input(dtype, bound), builder.int(dim), builder.input(DataType::Int32, index));
    let out = builder.tensor(dtype, out);
    builder.call("aten.index_select.default", &[x, dim, index, out]);
    builder.output(out);
    (builder, out)
}

fn gather_of(dtype: DataType, bound: &[u32], dim: i64, index: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let (x, dim) = (builder.input(dtype, bound), builder.int(dim));
    let (ids, no) = (builder.input(DataType::Int32, index), builder.value(Value::Bool(false)));
    let out = builder.tensor(dtype, index);
    builder.call("aten.gather.default", &[x, dim, ids, no, out]);
    builder.output(out);
    (builder, out)
}

/// The index at `at` of `places`, the others are None.
fn index_of(
    dtype: DataType,
    bound: &[u32],
    (at, places): (usize, usize),
    index: &[u32],
    out: &[u32],
) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let (x, index, none) = (builder.input(dtype, bound), builder.input(DataType::Int32, index), builder.value(Value::Null));
    let list = (0..places).map(|place| if place == at { index } else { none }).collect();
    let list = builder.value(Value::ValueList(list));
    let out = builder.tensor(dtype, out);
    builder.call("aten.index.Tensor", &[x, list, out]);
    builder.output(out);
    (builder, out)
}

#[test]
fn index_select_of_any_dimension_agrees() {
    for dtype in TYPES {
        for (bound, dim, out) in [
            ([6, 5, 16], 0, [9, 5, 16]),
            ([6, 5, 16], 1, [6, 9, 16]),
            ([6, 5, 16], -1, [6, 5, 9]),
            ([6, 5, 3], 0, [9, 5, 3]),
            ([6, 5, 3], 1, [6, 9, 3]),
            ([6, 5, 4], 1, [6, 9, 4]),
            ([6, 5, 37], 1, [6, 9, 37]),
        ] {
            let (builder, _) = select_of(dtype, &bound, dim, &[9], &out);
            let axis = usize::try_from(dim).unwrap_or(2);
            let call =
                |shape: [u32; 3], count: u32| vec![data(dtype, &shape, 1), ids(&[count], 0, shape[axis].cast_signed())];
            let small = [1, 2, bound[2]];
            check(
                &builder,
                &[call(bound, 9), call(bound, 1), call(small, 4), call(bound, 0), call([0, 5, 1], 0), call(bound, 9)],
                0.0,
            );
        }
        check(&select_of(dtype, &[4, 3], 0, &[], &[1, 3]).0, &[vec![data(dtype, &[4, 3], 1), ids(&[], 2, 3)]], 0.0);
        check(&select_of(dtype, &[], 0, &[1], &[]).0, &[vec![data(dtype, &[], 1), ids(&[1], 0, 1)]], 0.0);
    }
}

#[test]
fn gather_of_elements_agrees() {
    for dtype in TYPES {
        for (bound, dim, index) in [
            (&[5, 6][..], 0, &[3, 6][..]),
            (&[5, 6], 1, &[5, 9]),
            (&[5, 6], -1, &[4, 2]),
            (&[3, 4, 8], 1, &[3, 7, 8]),
            (&[3, 4, 8], 1, &[2, 5, 7]),
            (&[3, 4, 8], 2, &[3, 4, 1]),
            (&[7], 0, &[11]),
            (&[2, 3, 2, 2, 5], 3, &[1, 3, 2, 4, 5]),
        ] {
            let (builder, _) = gather_of(dtype, bound, dim, index);
            let axis = usize::try_from(dim).unwrap_or(bound.len() - 1);
            let call = |index: &[u32]| vec![data(dtype, bound, 1), ids(index, 0, bound[axis].cast_signed())];
            let (small, none) = (dims(index).with(0, 1).to_vec(), dims(index).with(0, 0).to_vec());
            check(&builder, &[call(index), call(&small), call(&none), call(index)], 0.0);
        }
        for (bound, index) in [(&[][..], &[][..]), (&[], &[1]), (&[], &[3]), (&[3], &[])] {
            check(&gather_of(dtype, bound, 0, index).0, &[vec![data(dtype, bound, 1), ids(index, 0, 1)]], 0.0);
        }
    }
}

#[test]
fn index_of_any_rank_and_dimension_agrees() {
    for dtype in TYPES {
        for (bound, place, index, out) in [
            (&[16][..], (0, 1), &[5][..], &[5][..]),
            (&[4, 3], (0, 1), &[2, 3], &[2, 3, 3]),
            (&[4, 3], (1, 2), &[2, 3], &[4, 2, 3]),
            (&[4, 3], (1, 2), &[], &[4]),
            (&[2, 5, 8], (1, 3), &[3, 2], &[2, 3, 2, 8]),
            (&[2, 5, 3, 16], (1, 2), &[7], &[2, 7, 3, 16]),
        ] {
            let (builder, _) = index_of(dtype, bound, place, index, out);
            let limit = bound[place.0].cast_signed();
            let call = |index: &[u32], first, end| vec![data(dtype, bound, 1), ids(index, first, end)];
            let mut calls = vec![call(index, 0, limit), call(index, -limit, limit), call(index, -limit, 0)];
            if !index.is_empty() {
                let one = vec![1; index.len()];
                calls.extend([call(&one, -1, 0), call(&dims(index).with(0, 0), 0, 1), call(index, -limit, limit)]);
            }
            check(&builder, &calls, 0.0);
        }
    }
}

#[test]
fn strategy_follows_the_slice_width() {
    use DataType::{Bool as B, Float32 as F};
    let recipe = |builder: &(GraphBuilder, ValueId)| DryRun::new(&builder.0).unwrap().recipes(0);
    assert_eq!(recipe(&select_of(F, &[6, 5, 16], 0, &[9], &[9, 5, 16])), [ITEMS]);
    assert_eq!(recipe(&select_of(F, &[6, 5, 16], 2, &[9], &[6, 5, 9])), [LANES]);
    assert_eq!(recipe(&select_of(F, &[6, 2, 6], 0, &[9], &[9, 2, 6])), [ITEMS]);
    assert_eq!(recipe(&select_of(F, &[6, 2, 6], 1, &[9], &[6, 9, 6])), [LANES]);
    assert_eq!(recipe(&select_of(B, &[6, 16], 0, &[9], &[9, 16])), [ITEMS]);
    assert_eq!(recipe(&select_of(B, &[6, 12], 0, &[9], &[9, 12])), [WORDS]);
    assert_eq!(recipe(&select_of(B, &[6, 10], 0, &[9], &[9, 10])), [BYTES]);
    assert_eq!(recipe(&gather_of(F, &[6, 16], 0, &[2, 16])), [LANES]);
}

#[test]
fn computed_indices_are_clamped() {
    let wild = [-6, -5, -1, 0, 4, 5, i32::MAX, i32::MIN];
    for kind in 0..3 {
        let mut builder = GraphBuilder::new();
        let (given, none) = (builder.input(DataType::Int32, &[8]), builder.value(Value::Null));
        let index = builder.tensor(DataType::Int32, &[8]);
        builder.call("aten.clone.default", &[given, none, index]);
        let width = if kind == 1 { 0 } else { 4 };
        let bound: &[u32] = if width == 0 { &[5] } else { &[5, 4] };
        let x = builder.input(DataType::Float32, bound);
        let (zero, list) = (builder.int(0), builder.value(Value::ValueList(vec![index])));
        let out = builder.tensor(DataType::Float32, if width == 0 { &[8] } else { &[8, 4] });
        match kind {
            0 => builder.call("aten.index_select.default", &[x, zero, index, out]),
            1 => builder.call("aten.gather.default", &[x, zero, index, zero, out]),
            _ => builder.call("aten.index.Tensor", &[x, list, out]),
        }
        builder.output(out);
        check(&builder, &[vec![i32s(&[8], wild.to_vec()), data(DataType::Float32, bound, 1)]], 0.0);
    }
}

#[test]
fn input_indices_are_checked_against_the_live_shape() {
    let refused = |builder: &GraphBuilder, bad: i32| {
        let loaded = builder.load(&LoadOptions::default()).unwrap();
        let call = |rows: u32, index| {
            run(
                &loaded,
                &mut loaded.new_state().unwrap(),
                &[data(DataType::Float32, &[rows, 3], 1), i32s(&[1], vec![index])],
            )
        };
        assert!(call(6, 4).is_ok());
        call(4, bad).unwrap_err().to_string()
    };
    let select = select_of(DataType::Float32, &[6, 3], 0, &[1], &[1, 3]).0;
    assert_eq!(refused(&select, 4), "input 1 holds 4, allowed is 0 to 3");
    assert_eq!(refused(&select, -1), "input 1 holds -1, allowed is 0 to 3");
    let index = index_of(DataType::Float32, &[6, 3], (0, 1), &[1], &[1, 3]).0;
    assert_eq!(refused(&index, 4), "input 1 holds 4, allowed is -4 to 3");
    assert_eq!(refused(&index, -5), "input 1 holds -5, allowed is -4 to 3");
}

#[test]
fn bad_arguments_are_rejected() {
    use DataType::Float32 as F;
    assert!(load_error(&select_of(F, &[4, 3], 0, &[2, 2], &[2, 3]).0).contains("`index` is [2, 2], expected one dimension"));
    assert!(load_error(&select_of(F, &[4, 3], 2, &[2], &[2, 3]).0).contains("`dim` is 2"));
    assert!(load_error(&select_of(F, &[0, 3], 0, &[2], &[2, 3]).0).contains("`self` is [0, 3], with zero elements"));
    assert!(load_error(&select_of(F, &[], 0, &[2], &[]).0).contains("a single number takes one index"));
    assert!(load_error(&gather_of(F, &[4, 3], 1, &[5, 2]).0).contains("`index` is [5, 2], expected at most [4, 3] apart"));
    assert!(load_error(&gather_of(F, &[4, 3], 1, &[5]).0).contains("`index` is [5], expected at most [4, 3]"));
    assert!(load_error(&gather_of(F, &[4, 0], 1, &[4, 1]).0).contains("zero elements to choose from in dimension 1"));
    assert!(load_error(&index_of(F, &[4, 3], (2, 3), &[2], &[2]).0).contains("`indices` has 3 places"));
    assert!(
        load_error(&index_of(F, &[4, 3], (2, 2), &[2], &[2]).0).contains("`indices` has no tensor, expected at least one")
    );
    assert!(load_error(&index_of(F, &[1; 8], (0, 1), &[1, 1], &[1; 8]).0).contains("too many dimensions"));
    let large = load_error(&select_of(F, &[1 << 15, 1 << 14], 0, &[1 << 20], &[1, 1]).0);
    assert!(large.contains("`out` has 17179869184 elements"), "{large}");
    let mut builder = GraphBuilder::new();
    let (x, mask) = (builder.input(F, &[4, 3]), builder.input(DataType::Bool, &[4]));
    let [two, three] = [2, 3].map(|count| builder.input(DataType::Int32, &[count]));
    let out = builder.tensor(F, &[2]);
    let (both, masked) = (builder.value(Value::ValueList(vec![two, three])), builder.value(Value::ValueList(vec![mask])));
    builder.call("aten.index.Tensor", &[x, both, out]);
    assert!(load_error(&builder).contains("`indices` has [3], which cannot be broadcast with [2]"));
    builder.graph.calls[0].args[1] = masked;
    assert!(load_error(&builder).contains("`indices` has elements Bool, expected integers"));
}

#[test]
fn several_index_tensors_agree() {
    use crate::testing::case::{Arg, Case, x};
    let some = |shape: &[u32], limit| Some((shape.to_vec(), limit));
    for dtype in TYPES {
        for (indices, out) in [
            (vec![some(&[6], 4), some(&[6], 5)], vec![6, 3, 4]),
            (vec![some(&[2, 1], 4), some(&[3], 5)], vec![2, 3, 3, 4]),
            (vec![None, some(&[6], 5), some(&[1], 3)], vec![4, 6, 4]),
            (vec![some(&[6], 4), None, some(&[6], 3)], vec![6, 5, 4]),
            (vec![some(&[], 4), some(&[], 5), some(&[], 3), some(&[2], 4)], vec![2]),
        ] {
            let case = Case::new("aten.index.Tensor", [x(dtype, &[4, 5, 3, 4]), Arg::IndexList(indices)], (dtype, &out));
            case.check(&[], 0.0);
        }
    }
}
