use pteron_format::ScalarType;
use pteron_format::program::{AllocationDetails, Chain, ShapeDynamism, Tensor, ValueId};

use super::*;
use crate::fuse::Fusions;

/// A method as it is written by hand.
#[derive(Default)]
struct Method {
    plan: ExecutionPlan,
}

impl Method {
    fn value(&mut self, value: Value) -> ValueId {
        self.plan.values.push(value);
        ValueId(u32::try_from(self.plan.values.len() - 1).unwrap())
    }

    fn int(&mut self, value: i64) -> ValueId {
        self.value(Value::Int(value))
    }

    /// A tensor at a place of planned memory.
    fn tensor(&mut self, scalar_type: ScalarType, sizes: &[u32], offset: u64) -> ValueId {
        let allocation = Some(AllocationDetails { memory: 1, offset });
        self.value(Value::Tensor(Box::new(Tensor { allocation, ..Tensor::new(scalar_type, sizes) })))
    }

    fn floats(&mut self, sizes: &[u32], offset: u64) -> ValueId {
        self.tensor(ScalarType::Float, sizes, offset)
    }

    fn input(&mut self, scalar_type: ScalarType, sizes: &[u32]) -> ValueId {
        let dynamism = ShapeDynamism::Bound;
        let id = self.value(Value::Tensor(Box::new(Tensor { dynamism, ..Tensor::new(scalar_type, sizes) })));
        self.plan.inputs.push(id);
        id
    }

    fn kernel(&mut self, full: &str, args: &[ValueId]) {
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        self.plan.operators.push(Operator { name: name.to_owned(), overload: overload.to_owned() });
        let operator = u32::try_from(self.plan.operators.len() - 1).unwrap();
        self.push(Instruction::KernelCall { operator, args: args.to_vec() });
    }

    fn push(&mut self, instruction: Instruction) {
        if self.plan.chains.is_empty() {
            self.plan.chains.push(Chain::default());
        }
        self.plan.chains[0].instructions.push(instruction);
    }

    fn lower(&self) -> Result<LoweredMethod> {
        let on_host = |kernel: &Operator| kernel.name == "aten::nonzero" || kernel.name == "aten::_local_scalar_dense";
        lower(&self.plan, Sources { graph_of: &|_| None, on_host: &on_host })
    }

    /// The names of the calls of the only graph, which must be valid.
    fn calls(&self) -> Vec<&'static str> {
        let mut method = self.lower().unwrap();
        assert_eq!((method.parts.len(), &method.steps[..1]), (1, &[Step::Part(0)][..]));
        let graph = method.parts.remove(0).graph.graph;
        let names = graph.calls.iter().map(|call| call.name).collect();
        graph.decode(&Fusions::NONE).unwrap();
        names
    }
}

#[test]
fn a_view_without_an_instruction_is_a_reshape_of_what_was_written_at_its_place() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[2, 3]);
    let y = method.floats(&[2, 3], 0);
    let view = method.floats(&[6], 0);
    let out = method.floats(&[6], 64);
    method.kernel("aten::relu.out", &[x, y, y]);
    method.kernel("aten::neg.out", &[view, out, out]);
    method.plan.outputs = vec![out];
    assert_eq!(method.calls(), ["aten.relu.default", "aten.view_copy.default", "aten.neg.default"]);
}

#[test]
fn a_tensor_that_nothing_wrote_is_state_and_a_copy_into_it_is_stored_at_the_end() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let (buffer, sum) = (method.floats(&[4], 0), method.floats(&[4], 64));
    let (one, no) = (method.int(1), method.value(Value::Bool(false)));
    method.kernel("aten::add.out", &[buffer, x, one, sum, sum]);
    method.kernel("aten::copy_", &[buffer, sum, no, buffer]);
    method.plan.outputs = vec![sum];
    assert_eq!(method.calls(), ["aten.add.Tensor", "pteron.store"]);
    let part = &method.lower().unwrap().parts[0];
    assert_eq!(part.graph.origins, [crate::frontend::ConstantOrigin::Zeros]);
    assert_eq!((&part.inputs[..], &part.outputs[..]), (&[x][..], &[sum][..]));
}

#[test]
fn an_element_of_an_input_is_a_number_however_it_was_reshaped() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[8, 3]);
    let positions = method.input(ScalarType::Long, &[8]);
    let (row, flat) = (method.tensor(ScalarType::Long, &[1, 8], 0), method.tensor(ScalarType::Long, &[8], 64));
    let single = method.tensor(ScalarType::Long, &[], 128);
    let (zero, one, number) = (method.int(0), method.int(1), method.int(0));
    let (null, out) = (method.value(Value::Null), method.floats(&[8, 3], 256));
    method.kernel("aten::unsqueeze_copy.out", &[positions, zero, row, row]);
    method.kernel("aten::select_copy.int_out", &[row, zero, zero, flat, flat]);
    method.kernel("aten::select_copy.int_out", &[flat, zero, zero, single, single]);
    method.kernel("aten::_local_scalar_dense", &[single, number]);
    method.kernel("aten::slice_copy.Tensor_out", &[x, zero, number, null, one, out, out]);
    method.plan.outputs = vec![out];
    let calls = method.calls();
    assert!(calls.contains(&"et_vk.select_as_symint.default"), "{calls:?}");
}

#[test]
fn arithmetic_on_literals_is_a_literal() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[6]);
    let (a, b, product) = (method.int(2), method.int(3), method.int(0));
    let sizes = method.value(Value::IntList(vec![a, b]));
    let (y, out) = (method.floats(&[2, 3], 0), method.floats(&[2, 3], 64));
    method.kernel("executorch_prim::sub.Scalar", &[b, a, product]);
    method.kernel("executorch_prim::et_view.default", &[x, sizes, y]);
    method.kernel("aten::add.out", &[y, y, product, out, out]);
    method.plan.outputs = vec![out];
    assert_eq!(method.calls(), ["aten.view_copy.default", "aten.add.Tensor"]);
}

#[test]
fn a_kernel_with_a_shape_from_data_splits_the_method() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let y = method.floats(&[4], 0);
    let (indices, out) = (method.tensor(ScalarType::Long, &[4, 1], 64), method.tensor(ScalarType::Long, &[4, 1], 128));
    method.kernel("aten::relu.out", &[x, y, y]);
    method.kernel("aten::nonzero.out", &[y, indices, indices]);
    method.kernel("aten::neg.out", &[indices, out, out]);
    method.plan.outputs = vec![out];
    let lowered = method.lower().unwrap();
    let host = Step::Host { operator: 1, inputs: vec![y], outputs: vec![indices] };
    assert_eq!(lowered.steps, [Step::Part(0), host, Step::Part(1)]);
    assert_eq!((&lowered.parts[0].outputs[..], &lowered.parts[1].inputs[..]), (&[y][..], &[indices][..]));
}

#[test]
fn a_number_of_a_computed_tensor_is_read_by_the_host() {
    let mut method = Method::default();
    let (x, steps) = (method.input(ScalarType::Float, &[8]), method.input(ScalarType::Long, &[]));
    let doubled = method.tensor(ScalarType::Long, &[], 0);
    let (zero, one, number) = (method.int(0), method.int(1), method.int(0));
    let out = method.floats(&[8], 64);
    method.kernel("aten::add.out", &[steps, steps, one, doubled, doubled]);
    method.kernel("aten::_local_scalar_dense", &[doubled, number]);
    method.kernel("aten::slice_copy.Tensor_out", &[x, zero, number, number, one, out, out]);
    method.plan.outputs = vec![out];
    let lowered = method.lower().unwrap();
    assert!(matches!(lowered.steps[..], [Step::Part(0), Step::Host { .. }, Step::Part(1)]), "{:?}", lowered.steps);
    assert_eq!(lowered.parts[1].inputs, [x, number]);
}

#[test]
fn everything_that_is_missing_is_reported_at_once() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let (y, z) = (method.floats(&[4], 0), method.floats(&[4], 64));
    method.kernel("aten::mystery.out", &[x, y, y]);
    method.kernel("aten::mystery.out", &[y, z, z]);
    let delegate = Delegate { id: "CoreMLBackend".to_owned(), ..Delegate::vulkan(DataRef::Inline(0)) };
    method.plan.delegates.push(delegate);
    method.push(Instruction::DelegateCall { delegate: 0, args: vec![z, y] });
    method.plan.outputs = vec![y];
    match method.lower().unwrap_err() {
        Error::UnsupportedOperators(names) => {
            assert_eq!(names, [("aten::mystery.out".to_owned(), 2), ("delegate for CoreMLBackend".to_owned(), 1)]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_input_that_nothing_computes_with_is_copied_by_the_host() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Double, &[4]);
    let out = method.tensor(ScalarType::Double, &[4], 0);
    method.push(Instruction::Move { from: x, to: out });
    method.plan.outputs = vec![out];
    let lowered = method.lower().unwrap();
    assert_eq!((lowered.parts.len(), &lowered.steps[..]), (0, &[Step::Copy { from: x, to: out }][..]));
}

#[test]
fn a_kernel_without_its_outputs_is_an_error() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let list = method.value(Value::TensorList(vec![x, x]));
    method.kernel("aten::relu.out", &[list]);
    assert!(method.lower().is_err());
    method.plan.chains[0].instructions = vec![Instruction::KernelCall { operator: 0, args: Vec::new() }];
    assert!(method.lower().is_err());
}
