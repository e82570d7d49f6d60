use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::testing::{DryRun, GraphBuilder, check, dims, i32s, load_error, noise, noise_bytes};

struct Table {
    rows: u32,
    width: u32,
    group: i64,
    linear: bool,
    scales: [u32; 2],
}

impl Table {
    fn new(rows: u32, width: u32, group: u32, linear: bool) -> Self {
        Self { rows, width, group: group.into(), linear, scales: [rows, width / group.max(1)] }
    }

    fn builder(&self, bound: &[u32]) -> (GraphBuilder, ValueId) {
        let mut builder = GraphBuilder::new();
        let pairs = self.width / 2;
        let bytes = noise_bytes(9, (self.rows * pairs) as usize);
        let weight = builder.constant(DataType::UInt8, &[self.rows, pairs], bytes);
        let scales = builder.floats(&self.scales, &noise(4, (self.scales[0] * self.scales[1]) as usize));
        let group = builder.int(self.group);
        let indices = builder.input(DataType::Int32, bound);
        let linear = builder.value(Value::Bool(self.linear));
        let dims: Vec<u32> = bound.iter().copied().chain([self.width]).collect();
        let out = builder.tensor(DataType::Float32, &dims);
        builder.call("et_vk.embedding_q4gsw.default", &[weight, scales, group, indices, linear, out]);
        builder.output(out);
        (builder, out)
    }
}

#[test]
fn both_orders_of_nibbles_at_every_width() {
    for linear in [true, false] {
        for (width, group) in [(64, 32), (8, 8), (24, 8), (48, 16), (32, 32), (32, 4), (6, 2), (10, 5), (18, 18), (2, 1)] {
            let (builder, _) = Table::new(7, width, group, linear).builder(&[1, 9]);
            let call = |s: u32| vec![i32s(&[1, s], (2..).step_by(5).map(|id| id % 7).take(s as usize).collect())];
            check(&builder, &[9, 1, 4, 0, 9].map(call), 0.0);
        }
    }
}

#[test]
fn the_low_nibble_of_a_linear_weight_is_the_even_column() {
    for (linear, want) in [(true, [1.0, -6.0]), (false, [-6.0, 1.0])] {
        let mut builder = GraphBuilder::new();
        let weight = builder.constant(DataType::UInt8, &[1, 1], vec![0x29]);
        let scales = builder.floats(&[1, 1], &[1.0]);
        let (group, linear) = (builder.int(2), builder.value(Value::Bool(linear)));
        let (indices, out) = (builder.input(DataType::Int32, &[1]), builder.tensor(DataType::Float32, &[1, 2]));
        builder.call("et_vk.embedding_q4gsw.default", &[weight, scales, group, indices, linear, out]);
        builder.output(out);
        let dry_run = DryRun::new(&builder).unwrap();
        let mut tensors = builder.host_tensors(&dry_run.graph);
        let index = i32s(&[1], vec![0]);
        tensors.set(TensorId(indices.0), index.dims, index.data);
        crate::reference::run(&dry_run.graph, &dry_run.planned, &mut tensors).unwrap();
        assert_eq!(tensors.f32(TensorId(out.0)), want);
    }
}

#[test]
fn the_recipe_follows_width_and_group() {
    for (width, group, recipe) in [(64, 32, 0), (64, 4, 1), (36, 12, 1)] {
        let (builder, out) = Table::new(5, width, group, true).builder(&[1, 9]);
        let mut dry_run = DryRun::new(&builder).unwrap();
        assert_eq!(dry_run.recipes(0), [recipe]);
        dry_run.call(&[(&[1, 2], &[0; 2])]).unwrap();
        assert_eq!(dry_run.dims(out), [1, 2, width]);
        let flow = &dry_run.graph.nodes[0].flow;
        assert_eq!(flow.index_inputs.iter().map(|index| index.range(&dims(&[5, width / 2]))).collect::<Vec<_>>(), [(0, 5)]);
    }
}

#[test]
fn bad_arguments_are_rejected() {
    let refused = |table: Table| load_error(&table.builder(&[3]).0);
    assert!(refused(Table { group: 0, ..Table::new(5, 64, 32, true) }).contains("`group_size` is 0"));
    assert!(
        refused(Table { group: 24, ..Table::new(5, 64, 32, true) }).contains("`group_size` is 24, which does not divide")
    );
    assert!(refused(Table { scales: [2, 5], ..Table::new(5, 64, 32, true) }).contains("expected [5, 2]"));
    assert!(refused(Table::new(0, 64, 32, true)).contains("zero elements to choose from"));
}
