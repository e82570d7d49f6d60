//! Kernel calls whose arguments fit: what lies between delegates, what runs on the host, and numbers that split a method.

use pteron_format::ScalarType;
use pteron_format::program::{Instruction, Operator, Value, ValueId};

use super::program::Builder;

/// Kernels of one tensor whose output is like it.
const UNARY: [&str; 6] = ["aten::relu", "aten::neg", "aten::sigmoid", "aten::exp", "aten::abs", "aten::tanh"];
/// Kernels of two tensors whose output is like them, and whether a factor follows.
const BINARY: [(&str, bool); 4] = [("aten::add", true), ("aten::sub", true), ("aten::mul", false), ("aten::div", false)];

fn element_count(sizes: &[u32]) -> u64 {
    sizes.iter().fold(1, |count, &size| count.saturating_mul(size.into()))
}

impl Builder<'_, '_> {
    /// A call with arguments of the right types and shapes.
    pub(super) fn typed_kernel(&mut self) {
        let (input, sizes) = self.float();
        let elements = element_count(&sizes).min(u32::MAX.into()) as u32;
        let rank = sizes.len() as i64;
        match self.cursor.below(12) {
            0 | 1 => {
                let name = self.cursor.of(&UNARY);
                self.computes((name, "out"), &[input], ScalarType::Float, &sizes);
            }
            2 | 3 => {
                let (name, scaled) = self.cursor.of(&BINARY);
                let other = self.argument(ScalarType::Float, &sizes);
                let mut args = vec![input, other];
                if scaled {
                    args.push(self.int(1));
                }
                self.computes((name, "out"), &args, ScalarType::Float, &sizes);
            }
            4 => {
                let shape = self.ints(&[i64::from(elements)]);
                self.computes(("aten::view_copy", "out"), &[input, shape], ScalarType::Float, &[elements]);
            }
            5 if rank == 2 => {
                let order = self.ints(&[1, 0]);
                self.computes(("aten::permute_copy", "out"), &[input, order], ScalarType::Float, &[sizes[1], sizes[0]]);
            }
            6 if rank > 0 => {
                let [dim, half] = [self.int(rank - 1), self.value(Value::Bool(false))];
                self.computes(("aten::_softmax", "out"), &[input, dim, half], ScalarType::Float, &sizes);
            }
            7 if rank > 0 => {
                let list = self.value(Value::TensorList(vec![input, input]));
                let dim = self.int(0);
                let mut doubled = sizes.clone();
                doubled[0] = doubled[0].saturating_mul(2);
                self.computes(("aten::cat", "out"), &[list, dim], ScalarType::Float, &doubled);
            }
            8 => self.computes(("aten::nonzero", "out"), &[input], ScalarType::Long, &[elements, sizes.len() as u32]),
            9 if rank > 0 => self.sorted(input, &sizes),
            10 if rank > 0 => {
                let mask = self.computed(ScalarType::Bool, &sizes);
                let zero = self.int(0);
                self.call_kernel(("aten::gt", "Scalar_out"), &[input, zero, mask, mask]);
                self.computes(("aten::masked_select", "out"), &[input, mask], ScalarType::Float, &[elements]);
            }
            _ if rank > 0 => self.jump_by_size(input),
            _ => self.computes(("aten::relu", "out"), &[input], ScalarType::Float, &sizes),
        }
    }

    /// Sorts a tensor or takes its largest elements, on the host.
    fn sorted(&mut self, input: ValueId, sizes: &[u32]) {
        let dim = self.int(sizes.len() as i64 - 1);
        let [yes, no] = [true, false].map(|flag| self.value(Value::Bool(flag)));
        if self.cursor.flip() {
            let outputs = [ScalarType::Float, ScalarType::Long].map(|scalar_type| self.computed(scalar_type, sizes));
            self.known.push(outputs[0]);
            self.call_kernel(("aten::sort", "values"), &[input, dim, no, outputs[0], outputs[1]]);
            return;
        }
        let mut taken = sizes.to_vec();
        if let Some(last) = taken.last_mut() {
            *last = (*last).min(2);
        }
        let count = self.int(taken.last().copied().unwrap_or(1).into());
        let outputs = [ScalarType::Float, ScalarType::Long].map(|scalar_type| self.computed(scalar_type, &taken));
        self.known.push(outputs[0]);
        self.call_kernel(("aten::topk", "values"), &[input, count, dim, yes, yes, outputs[0], outputs[1]]);
    }

    /// A jump over the next instructions that depends on a live size.
    fn jump_by_size(&mut self, input: ValueId) {
        let [dim, limit] = [self.int(0), self.int(2)];
        let [size, condition] = [self.int(0), self.value(Value::Bool(false))];
        self.call_kernel(("aten::sym_size", "int"), &[input, dim, size]);
        self.call_kernel(("executorch_prim::lt", "Scalar"), &[size, limit, condition]);
        let target = self.plan.chains[0].instructions.len() as u32 + 2 + self.cursor.below(3) as u32;
        self.push(Instruction::JumpFalse { condition, target });
    }

    /// A float tensor that is there, or a new input.
    fn float(&mut self) -> (ValueId, Vec<u32>) {
        let small = |id: &ValueId| match self.plan.value(*id) {
            Some(Value::Tensor(tensor)) if tensor.scalar_type == ScalarType::Float => {
                (element_count(&tensor.sizes) <= 4096).then(|| (*id, tensor.sizes.clone()))
            }
            _ => None,
        };
        let mut known: Vec<_> = self.known.iter().filter_map(small).collect();
        if !known.is_empty() && !self.cursor.one_in(6) {
            return known.swap_remove(self.cursor.below(known.len()));
        }
        let sizes = vec![self.cursor.of(&[1, 2, 3]), self.cursor.of(&[1, 4, 8])];
        (self.argument(ScalarType::Float, &sizes), sizes)
    }

    fn int(&mut self, value: i64) -> ValueId {
        self.value(Value::Int(value))
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        let items = values.iter().map(|&value| self.int(value)).collect();
        self.value(Value::IntList(items))
    }

    /// A call with one output, which is its last argument and its result.
    fn computes(&mut self, kernel: (&str, &str), args: &[ValueId], scalar_type: ScalarType, sizes: &[u32]) {
        let output = self.computed(scalar_type, sizes);
        let args: Vec<ValueId> = args.iter().copied().chain([output, output]).collect();
        self.call_kernel(kernel, &args);
        self.known.push(output);
    }

    fn call_kernel(&mut self, (name, overload): (&str, &str), args: &[ValueId]) {
        let operators = &mut self.plan.operators;
        let is_it = |operator: &Operator| operator.name == name && operator.overload == overload;
        let operator = operators.iter().position(is_it).unwrap_or_else(|| {
            operators.push(Operator { name: name.to_owned(), overload: overload.to_owned() });
            operators.len() - 1
        });
        self.push(Instruction::KernelCall { operator: operator as u32, args: args.to_vec() });
    }
}
