use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::testing::{DryRun, GraphBuilder, check, dims, i32s, load_error, noise};

fn builder(table: &[u32], bound: &[u32], out: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let values = noise(5, table.iter().product::<u32>() as usize);
    let weight = builder.floats(table, &values);
    let indices = builder.input(DataType::Int32, bound);
    let (padding, no) = (builder.int(-1), builder.value(Value::Bool(false)));
    let out = builder.tensor(DataType::Float32, out);
    builder.call("aten.embedding.default", &[weight, indices, padding, no, no, out]);
    builder.output(out);
    (builder, out)
}

#[test]
fn rows_by_index_agree() {
    for width in [1, 3, 4, 16, 130, 600] {
        let (builder, _) = builder(&[11, width], &[2, 7], &[2, 7, width]);
        let ids = |count: u32| (3..).step_by(7).map(|id| id % 11).take(count as usize).collect();
        let call = |shape: [u32; 2]| vec![i32s(&shape, ids(shape[0] * shape[1]))];
        check(&builder, &[[2, 7], [1, 1], [2, 3], [0, 7], [1, 7], [2, 7]].map(call), 0.0);
    }
}

#[test]
fn single_index_agrees() {
    let (builder, _) = builder(&[5, 4], &[], &[4]);
    check(&builder, &[vec![i32s(&[], vec![4])], vec![i32s(&[], vec![0])]], 0.0);
}

#[test]
fn computed_indices_are_clamped() {
    let mut builder = GraphBuilder::new();
    let weight = builder.floats(&[5, 4], &noise(5, 20));
    let (x, none, indices) =
        (builder.input(DataType::Int32, &[6]), builder.value(Value::Null), builder.tensor(DataType::Int32, &[6]));
    let (padding, no) = (builder.int(-1), builder.value(Value::Bool(false)));
    let out = builder.tensor(DataType::Float32, &[6, 4]);
    builder.call("aten.clone.default", &[x, none, indices]);
    builder.call("aten.embedding.default", &[weight, indices, padding, no, no, out]);
    builder.output(out);
    check(&builder, &[vec![i32s(&[6], vec![-1, 0, 4, 5, i32::MAX, i32::MIN])]], 0.0);
}

#[test]
fn recipe_follows_the_row_width() {
    for (width, recipe) in [(16, 0), (6, 1)] {
        let (builder, out) = builder(&[5, width], &[9], &[9, width]);
        let mut dry_run = DryRun::new(&builder).unwrap();
        assert_eq!(dry_run.recipes(0), [recipe]);
        dry_run.call(&[(&[3], &[0; 3])]).unwrap();
        assert_eq!(dry_run.dims(out), [3, width]);
        dry_run.call(&[(&[0], &[])]).unwrap();
        assert_eq!((dry_run.dims(out), dry_run.recipes(0)), (vec![0, width], vec![]));
        let index = dry_run.graph.nodes[0].flow.index_inputs[0];
        assert_eq!((index.indices, index.range(&dims(&[5, width]))), (TensorId(1), (0, 5)));
    }
}

#[test]
fn bad_arguments_are_rejected() {
    assert!(load_error(&builder(&[5], &[2], &[2, 5]).0).contains("`weight` is [5], expected rows and columns"));
    assert!(load_error(&builder(&[0, 4], &[2], &[2, 4]).0).contains("`weight` is [0, 4], with zero elements"));
    assert!(load_error(&builder(&[2, 4], &[1; 8], &[1; 8]).0).contains("too many dimensions"));
}

/// The table stays two bytes per column on the GPU, and gives the same rows.
#[test]
fn tables_of_16_bit_floats_stay_so() {
    use crate::fuse::Fusions;
    use crate::graph::{DecodedGraph, Elem};
    let values = noise(5, 11 * 5);
    let bytes = |dtype| -> Vec<u8> {
        let halves = values.iter().map(|&value| match dtype {
            DataType::BFloat16 => half::bf16::from_f32(value).to_bits(),
            _ => half::f16::from_f32(value).to_bits(),
        });
        halves.flat_map(u16::to_le_bytes).collect()
    };
    for dtype in [DataType::BFloat16, DataType::Float16] {
        let mut builder = GraphBuilder::new();
        let weight = builder.constant(dtype, &[11, 5], bytes(dtype));
        let indices = builder.input(DataType::Int32, &[7]);
        let (padding, no) = (builder.int(-1), builder.value(Value::Bool(false)));
        let out = builder.tensor(DataType::Float32, &[7, 5]);
        builder.call("aten.embedding.default", &[weight, indices, padding, no, no, out]);
        builder.output(out);
        let fused = DecodedGraph::decode_with(builder.graph.clone(), &Fusions::ALL).unwrap();
        let table = fused.nodes[0].flow.reads[0];
        assert_eq!((fused.nodes.len(), fused.info(table).elem), (1, Elem::U8), "{}", fused.nodes[0].name);
        let load =
            |fusions| builder.load_fused(&crate::testing::gpu(), fusions, &crate::engine::LoadOptions::default()).unwrap();
        let [plain, fused] = [&Fusions::NONE, &Fusions::ALL].map(load);
        for count in [7, 1, 0] {
            let ids = vec![i32s(&[count], (3..).step_by(7).map(|id| id % 11).take(count as usize).collect())];
            let rows = |graph: &crate::engine::LoadedGraph| {
                crate::testing::run(graph, &mut graph.new_state().unwrap(), &ids).unwrap().remove(0).bytes
            };
            assert_eq!(rows(&plain), rows(&fused), "{count} rows of {}", dtype.name());
        }
    }
}
