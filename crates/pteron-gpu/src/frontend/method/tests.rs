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

#[test]
fn a_view_of_an_input_in_planned_memory_is_a_reshape_of_it() {
    let mut method = Method::default();
    let x = method.floats(&[2, 3], 0);
    method.plan.inputs.push(x);
    let (view, out) = (method.floats(&[6], 0), method.floats(&[6], 64));
    method.kernel("aten::neg.out", &[view, out, out]);
    method.plan.outputs = vec![out];
    assert_eq!(method.calls(), ["aten.view_copy.default", "aten.neg.default"]);
    let part = &method.lower().unwrap().parts[0];
    assert_eq!((&part.inputs[..], part.graph.origins.len()), (&[x][..], 0), "the view is no state");
}

#[test]
fn a_view_of_what_another_part_wrote_crosses_the_border() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[2, 2]);
    let (y, view) = (method.floats(&[2, 2], 0), method.floats(&[4], 0));
    let (indices, out) = (method.tensor(ScalarType::Long, &[4, 2], 64), method.floats(&[4], 128));
    method.kernel("aten::relu.out", &[x, y, y]);
    method.kernel("aten::nonzero.out", &[y, indices, indices]);
    method.kernel("aten::neg.out", &[view, out, out]);
    method.plan.outputs = vec![out, indices];
    let lowered = method.lower().unwrap();
    assert_eq!((&lowered.parts[0].outputs[..], &lowered.parts[1].inputs[..]), (&[y, view][..], &[y][..]));
    assert!(lowered.parts.iter().all(|part| part.graph.origins.is_empty()), "nothing is state");
}

/// `map(relu, x)` as ExecuTorch writes it: a counter that a jump back compares with the number of rows.
fn map() -> (Method, [ValueId; 4]) {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[5, 3]);
    let (row, result, all) = (method.floats(&[3], 0), method.floats(&[3], 64), method.floats(&[5, 3], 128));
    let (counter, rows, zero, one) = (method.int(0), method.int(0), method.int(0), method.int(1));
    let done = method.value(Value::Bool(false));
    method.kernel("aten::sym_size.int", &[x, zero, rows]);
    method.kernel("aten::select_copy.int_out", &[x, zero, counter, row, row]);
    method.kernel("aten::relu.out", &[row, result, result]);
    method.kernel("executorch_prim::et_copy_index.tensor", &[all, result, counter]);
    method.kernel("executorch_prim::add.Scalar", &[counter, one, counter]);
    method.kernel("executorch_prim::eq.Scalar", &[counter, rows, done]);
    method.push(Instruction::JumpFalse { condition: done, target: 1 });
    method.kernel("executorch_prim::sub.Scalar", &[counter, rows, counter]);
    method.plan.outputs = vec![all];
    (method, [x, counter, result, all])
}

#[test]
fn a_loop_is_a_graph_that_the_host_jumps_back_to() {
    let (method, [x, counter, result, all]) = map();
    let on_host = |kernel: &Operator| kernel.name.starts_with("executorch_prim") || kernel.name == "aten::sym_size";
    let lowered = lower(&method.plan, Sources { graph_of: &|_| None, on_host: &on_host }).unwrap();
    assert_eq!(lowered.parts.len(), 1);
    assert_eq!((&lowered.parts[0].inputs[..], &lowered.parts[0].outputs[..]), (&[x, counter][..], &[result][..]));
    let body = lowered.steps.iter().position(|step| *step == Step::Part(0)).unwrap();
    let jump = lowered.steps.iter().find_map(|step| match step {
        Step::JumpFalse { target, .. } => Some(*target),
        _ => None,
    });
    assert_eq!((body, jump), (1, Some(1)));
    let collect = Step::Host { operator: 3, inputs: vec![all, result, counter], outputs: vec![all] };
    assert_eq!(lowered.steps[2], collect);
}

#[test]
fn a_jump_back_that_is_always_taken_is_refused() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let y = method.floats(&[4], 0);
    let never = method.value(Value::Bool(false));
    method.kernel("aten::relu.out", &[x, y, y]);
    method.push(Instruction::JumpFalse { condition: never, target: 0 });
    method.plan.outputs = vec![y];
    let error = method.lower().unwrap_err().to_string();
    assert!(error.contains("never ends"), "{error}");
}

#[test]
fn a_mask_that_decides_a_shape_splits_the_method() {
    let mut method = Method::default();
    let x = method.input(ScalarType::Float, &[4]);
    let (zero, mask) = (method.int(0), method.tensor(ScalarType::Bool, &[4], 0));
    let list = method.value(Value::OptionalTensorList(vec![Some(mask)]));
    let out = method.floats(&[4], 64);
    method.kernel("aten::gt.Scalar_out", &[x, zero, mask, mask]);
    method.kernel("aten::index.Tensor_out", &[x, list, out, out]);
    method.plan.outputs = vec![out];
    let on_host = |kernel: &Operator| kernel.name == "aten::index";
    let lowered = lower(&method.plan, Sources { graph_of: &|_| None, on_host: &on_host }).unwrap();
    assert!(matches!(lowered.steps[..], [Step::Part(0), Step::Host { operator: 1, .. }]), "{:?}", lowered.steps);
}

#[test]
fn half_of_a_size_is_rounded_as_python_rounds_it() {
    for (kernel, expected) in [("trunc", &["mul", "floordiv"][..]), ("ceil", &["sub", "floordiv", "sub"][..])] {
        let mut method = Method::default();
        let x = method.input(ScalarType::Float, &[9]);
        let (zero, one, size, float, half) =
            (method.int(0), method.int(1), method.int(0), method.int(0), method.value(Value::Double(0.5.into())));
        let (scaled, whole, out) = (method.int(0), method.int(0), method.floats(&[9], 0));
        method.kernel("aten::sym_size.int", &[x, zero, size]);
        method.kernel("executorch_prim::sym_float.Scalar", &[size, float]);
        method.kernel("executorch_prim::mul.Scalar", &[float, half, scaled]);
        method.kernel(&format!("executorch_prim::{kernel}.Scalar"), &[scaled, whole]);
        method.kernel("aten::slice_copy.Tensor_out", &[x, zero, zero, whole, one, out, out]);
        method.plan.outputs = vec![out];
        let calls = method.calls();
        assert!(expected.iter().all(|name| calls.contains(name)), "{calls:?}");
    }
}
