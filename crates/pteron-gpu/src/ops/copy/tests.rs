mod expand;
mod permute;
mod rearrange;
mod sections;

use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::reference::{HostData, HostTensor};
use crate::strided_copy::strides::{select, slice};
use crate::testing::{DryRun, GraphBuilder, check, dims, f32s, i32s, load_error, noise, noise_bytes, thinned};

/// A graph of one operator on one input; `middle` are the arguments between input and output.
fn one(name: &str, dtype: DataType, bound: &[u32], middle: &[Value], out: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(dtype, bound);
    let mut args = vec![x];
    args.extend(middle.iter().map(|value| builder.value(value.clone())));
    let out = builder.tensor(dtype, out);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    (builder, out)
}

fn slice_of(dtype: DataType, bound: &[u32], [dim, start, end, step]: [i64; 4], out: &[u32]) -> (GraphBuilder, ValueId) {
    one("aten.slice_copy.Tensor", dtype, bound, &[dim, start, end, step].map(Value::Int), out)
}

fn select_of(dtype: DataType, bound: &[u32], [dim, index]: [i64; 2], out: &[u32]) -> (GraphBuilder, ValueId) {
    one("aten.select_copy.int", dtype, bound, &[dim, index].map(Value::Int), out)
}

fn input(dtype: DataType, shape: &[u32], seed: u64) -> HostTensor {
    let count = shape.iter().product::<u32>() as usize;
    let noise = noise(seed, count);
    match dtype {
        DataType::Float32 => f32s(shape, noise),
        DataType::Int32 => i32s(shape, noise.iter().map(|x| x.to_bits().cast_signed()).collect()),
        _ => HostTensor { dims: dims(shape), data: HostData::U8(noise_bytes(seed, count)) },
    }
}

fn inputs(dtype: DataType, shapes: &[&[u32]]) -> Vec<Vec<HostTensor>> {
    shapes.iter().zip(1..).map(|(shape, seed)| vec![input(dtype, shape, seed)]).collect()
}

const TYPES: [DataType; 5] = [DataType::Float32, DataType::Int32, DataType::UInt8, DataType::Int8, DataType::Bool];

#[test]
fn slices_clamp_as_pytorch_does() {
    for (start, end, step, dim, want) in [
        (0, i64::MAX, 1, 8, (0, 8)),
        (-3, i64::MAX, 1, 8, (5, 3)),
        (1, -1, 1, 8, (1, 6)),
        (1, -1, 2, 11, (1, 5)),
        (5, 2, 1, 8, (5, 0)),
        (100, 200, 1, 8, (8, 0)),
        (i64::MIN, i64::MIN, 1, 8, (0, 0)),
        (0, 8, 3, 8, (0, 3)),
        (2, 8, u64::MAX, 8, (2, 1)),
        (0, 4, 1, 0, (0, 0)),
    ] {
        assert_eq!(slice(start, end, step, dim), want, "{start}:{end}:{step} of {dim}");
    }
    assert_eq!(select(-1, 5), Ok(4));
    assert_eq!(select(4, 5), Ok(4));
    assert!(select(5, 5).unwrap_err().reason.contains("5 elements"));
    assert!(select(-6, 5).is_err());
    assert!(select(0, 0).unwrap_err().reason.contains("zero"));
}

// The strategies to copy words, and after the first those to copy bytes.
const VEC4: usize = 0;
const CELLS: usize = 1;
const TRANSPOSE: usize = 2;
const ELEMENTS: usize = 3;
const WORD_CELLS: usize = 1;
const WORDS: usize = 3;
const BYTE_CELLS: usize = 4;
const BYTES: usize = 5;

fn recipe((builder, _): &(GraphBuilder, ValueId)) -> Vec<usize> {
    DryRun::new(builder).unwrap().recipes(0)
}

#[test]
fn strategy_follows_the_alignment() {
    use DataType::{Float32 as F, UInt8 as U};
    // Whole rows, then columns, then columns that are not vectors.
    assert_eq!(recipe(&slice_of(F, &[8, 6], [0, 2, 4, 1], &[2, 6])), [VEC4]);
    assert_eq!(recipe(&slice_of(F, &[8, 6], [0, 1, 4, 1], &[3, 6])), [ELEMENTS]);
    assert_eq!(recipe(&slice_of(F, &[8, 16], [1, 4, 12, 1], &[8, 8])), [VEC4]);
    assert_eq!(recipe(&slice_of(F, &[8, 16], [1, 4, 13, 1], &[8, 9])), [ELEMENTS]);
    assert_eq!(recipe(&slice_of(F, &[8, 16], [1, 0, 16, 2], &[8, 8])), [ELEMENTS]);
    assert_eq!(recipe(&slice_of(F, &[8, 16], [0, 0, 8, 2], &[4, 16])), [VEC4]);
    assert_eq!(recipe(&select_of(F, &[3, 8, 4], [1, -1], &[3, 4])), [VEC4]);
    assert_eq!(recipe(&select_of(F, &[3, 8, 4], [2, 0], &[3, 8])), [ELEMENTS]);
    assert_eq!(recipe(&slice_of(U, &[8, 16], [0, 1, 4, 1], &[3, 16])), [VEC4]);
    assert_eq!(recipe(&slice_of(U, &[8, 12], [0, 1, 4, 1], &[3, 12])), [WORDS]);
    assert_eq!(recipe(&slice_of(U, &[8, 13], [0, 1, 4, 1], &[3, 13])), [BYTES]);
    // Nothing is dispatched for empty copies.
    assert_eq!(recipe(&slice_of(F, &[8, 6], [0, 4, 4, 1], &[0, 6])), [0usize; 0]);
}

#[test]
fn bad_arguments_are_rejected() {
    use DataType::Float32 as F;
    assert!(load_error(&select_of(F, &[3, 4], [1, 4], &[3]).0).contains("`index` is 4, but the dimension has 4 elements"));
    assert!(load_error(&select_of(F, &[3, 0], [1, 0], &[3]).0).contains("zero elements"));
    assert!(load_error(&select_of(F, &[3, 4], [2, 0], &[3]).0).contains("`dim` is 2"));
    assert!(load_error(&select_of(F, &[], [0, 0], &[]).0).contains("is a scalar, which has no dimension"));
    assert!(load_error(&slice_of(F, &[3, 4], [0, 0, 3, 0], &[3, 4]).0).contains("`step` is 0"));
    assert!(load_error(&slice_of(F, &[3, 4], [0, 0, 3, -1], &[3, 4]).0).contains("`step` is -1"));
    assert!(load_error(&slice_of(F, &[3, 4], [0, 0, 3, 1], &[2, 4]).0).contains("past its bound [2, 4]"));
    let format = [Value::Int(2)];
    assert!(load_error(&one("aten.clone.default", F, &[3], &format, &[3]).0).contains("`memory_format` is an integer"));
    let order = [Value::Bool(false), Value::IntList(vec![1, 0])];
    let clone = "dim_order_ops._clone_dim_order.default";
    assert!(load_error(&one(clone, F, &[3, 2], &order, &[3, 2]).0).contains("`dim_order` is [1, 0]"));
    let mut builder = GraphBuilder::new();
    let (x, out) = (builder.input(F, &[8]), builder.tensor(DataType::UInt8, &[8]));
    builder.call("et_vk.prepack.default", &[x, out]);
    assert!(load_error(&builder).contains("`out` has elements U8"));
}

#[test]
fn clones_agree() {
    let order = [Value::Bool(false), Value::IntList(vec![0, 1])];
    for dtype in TYPES {
        for (name, middle) in [
            ("aten.clone.default", &[Value::Null][..]),
            ("dim_order_ops._clone_dim_order.default", &order),
            ("et_vk.prepack.default", &[]),
            ("aten.view_copy.default", &[Value::IntList(vec![-1, 7])]),
        ] {
            let (builder, _) = one(name, dtype, &[9, 7], middle, &[9, 7]);
            check(&builder, &inputs(dtype, &[&[9, 7], &[1, 7], &[4, 7], &[0, 7], &[9, 7]]), 0.0);
        }
    }
}

#[test]
fn slices_of_every_dtype_and_dimension_agree() {
    for dtype in TYPES {
        let (builder, _) = slice_of(dtype, &[5, 83], [1, 3, 60, 1], &[5, 57]);
        check(&builder, &inputs(dtype, &[&[5, 83], &[2, 81], &[1, 40]]), 0.0);
        for (spec, out) in [
            ([0, 1, 6, 1], [5, 6, 9]),
            ([0, -4, i64::MAX, 3], [2, 6, 9]),
            ([1, 1, -1, 2], [7, 2, 9]),
            ([-1, 2, 9, 1], [7, 6, 7]),
            ([2, 0, 9, 4], [7, 6, 3]),
        ] {
            let (builder, _) = slice_of(dtype, &[7, 6, 9], spec, &out);
            check(&builder, &inputs(dtype, &[&[7, 6, 9], &[1, 6, 9], &[3, 5, 8], &[2, 0, 9], &[6, 1, 1], &[7, 6, 9]]), 0.0);
        }
    }
}

#[test]
fn selects_of_every_dtype_and_dimension_agree() {
    for dtype in TYPES {
        for (spec, out) in [([0, -1], [5, 8]), ([1, 0], [7, 8]), ([-1, -1], [7, 5])] {
            let (builder, _) = select_of(dtype, &[7, 5, 8], spec, &out);
            check(&builder, &inputs(dtype, &[&[7, 5, 8], &[1, 1, 1], &[3, 5, 4], &[2, 2, 7], &[7, 5, 8]]), 0.0);
        }
    }
}

#[test]
fn slices_without_end_and_whole_slices_agree() {
    let whole = [Value::Int(0), Value::Null, Value::Null, Value::Int(1)];
    let (builder, out) = one("aten.slice_copy.Tensor", DataType::Float32, &[6, 5], &whole, &[6, 5]);
    check(&builder, &inputs(DataType::Float32, &[&[6, 5], &[2, 5], &[6, 1]]), 0.0);
    let dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(dry_run.graph.nodes[0].op.alias(), Some(TensorId(0)));
    assert_eq!(dry_run.dims(out), [6, 5]);
}

#[test]
fn views_follow_fixed_and_symbolic_sizes() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[1, 9, 24]);
    let (axis, eight, three) = (builder.int(1), builder.int(8), builder.int(3));
    let length = builder.value(Value::SymInt);
    builder.call("sym_size.int", &[x, axis, length]);
    let by_symbol = builder.value(Value::ValueList(vec![length, eight, three]));
    let by_number = builder.value(Value::IntList(vec![9, 24]));
    let (view, flat) = (builder.tensor(DataType::Float32, &[9, 8, 3]), builder.tensor(DataType::Float32, &[9, 24]));
    builder.call("aten.view_copy.default", &[x, by_symbol, view]);
    builder.call("aten.view_copy.default", &[view, by_number, flat]);
    let sigmoid = builder.tensor(DataType::Float32, &[9, 24]);
    builder.call("aten.sigmoid.default", &[flat, sigmoid]);
    [view, flat, sigmoid].into_iter().for_each(|out| builder.output(out));
    check(&builder, &inputs(DataType::Float32, &[&[1, 9, 24], &[1, 1, 24], &[1, 5, 24], &[1, 0, 24], &[1, 9, 24]]), 1e-6);
}

/// A table sliced at a position that is an input of each call, as rotary tables are.
fn positioned(width: u32, dtype: DataType) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let tokens = builder.input(DataType::Int32, &[1, 12]);
    let position = builder.input(DataType::Int32, &[1]);
    let bytes = noise_bytes(3, (20 * width) as usize * usize::try_from(dtype.bits() / 8).unwrap());
    let table = builder.constant(dtype, &[20, width], bytes);
    let packed = builder.tensor(dtype, &[20, width]);
    builder.call("et_vk.prepack.default", &[table, packed]);
    let (zero, one) = (builder.int(0), builder.int(1));
    let [length, start, end] = [(); 3].map(|()| builder.value(Value::SymInt));
    builder.call("sym_size.int", &[tokens, one, length]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, start]);
    builder.call("add", &[start, length, end]);
    let (rows, row) = (builder.tensor(dtype, &[12, width]), builder.tensor(dtype, &[width]));
    builder.call("aten.slice_copy.Tensor", &[packed, zero, start, end, one, rows]);
    builder.call("aten.select_copy.int", &[packed, zero, start, row]);
    builder.output(rows);
    builder.output(row);
    (builder, rows)
}

#[test]
fn slices_with_symbolic_start_agree() {
    let call = |length: u32, position| vec![i32s(&[1, length], vec![0; length as usize]), i32s(&[1], vec![position])];
    let calls: Vec<_> =
        [(12, 0), (1, 12), (1, 13), (5, 14), (1, 19), (7, 1), (0, 4), (12, 8), (4, -4)].map(|(s, p)| call(s, p)).into();
    for width in [1, 3, 8, 16] {
        check(&positioned(width, DataType::Int32).0, &calls, 0.0);
        check(&positioned(width, DataType::UInt8).0, &calls, 0.0);
    }
}

#[test]
fn symbolic_start_changes_only_step_words() {
    for width in [3, 4] {
        let (builder, rows) = positioned(width, DataType::Int32);
        let mut dry_run = DryRun::new(&builder).unwrap();
        let (slice, select) = (4, 5);
        dry_run.call(&[(&[1, 1], &[0]), (&[1], &[8])]).unwrap();
        let before = dry_run.planned.plans().to_vec();
        let (affected, differ) = dry_run.call(&[(&[1, 1], &[0]), (&[1], &[9])]).unwrap();
        assert_eq!(affected, [2, 3, slice, select]);
        assert_eq!(dry_run.dims(rows), [1, width]);
        for node in differ.into_iter().filter(|&node| node >= slice) {
            let (before, now) = (&before[node], &dry_run.planned.plans()[node]);
            assert_eq!((&before.steps, &before.outputs), (&now.steps, &now.outputs));
            assert_ne!(before.step_words, now.step_words);
        }
    }
}
