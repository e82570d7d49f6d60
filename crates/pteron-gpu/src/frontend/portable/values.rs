//! The values of an execution plan while its instructions are translated: which value of the graph holds each now.
//!
//! Every write makes a new tensor of the graph, so a buffer that a plan changes in place is a sequence of tensors here. Three kinds
//! of tensors are read without having been written: constants, views that have no instruction (they lie where another tensor
//! was written), and state, whose content lasts from call to call.

mod elements;
mod finish;

use std::collections::{BTreeMap, HashMap, HashSet};

use pteron_format::ScalarType;
use pteron_format::program::{self as file, ExecutionPlan, Value as PlanValue};

use self::elements::{Elements, SELECT_NUMBER};
use super::VIEW;
use super::flow::{Place, has_data, place};
use crate::error::{Error, Result};
use crate::frontend::{Builder, ConstantOrigin};
use crate::graph::Elem;
use crate::ir::{ConstantSource, DataType, Tensor, Value, ValueId};

const PERMUTE: &str = "aten.permute_copy.default";
const CONVERT: &str = "aten._to_copy.default";
pub(super) const EXPAND: &str = "aten.expand_copy.default";
const ALIAS: &str = "aten.alias_copy.default";

/// The element type of a plan's tensor in the graph; `None` for types that GPUs do not compute with.
#[must_use]
pub fn data_type(scalar_type: ScalarType) -> Option<DataType> {
    Some(match scalar_type {
        ScalarType::Byte => DataType::UInt8,
        ScalarType::Char => DataType::Int8,
        ScalarType::Short => DataType::Int16,
        ScalarType::Int => DataType::Int32,
        ScalarType::Long => DataType::Int64,
        ScalarType::Half => DataType::Float16,
        ScalarType::BFloat16 => DataType::BFloat16,
        ScalarType::Float => DataType::Float32,
        ScalarType::Double => DataType::Float64,
        ScalarType::Bool => DataType::Bool,
        _ => return None,
    })
}

/// State: a tensor of the graph that lasts, and the plan's tensor it was read as.
#[derive(Clone, Copy, Debug)]
struct State {
    owner: file::ValueId,
    tensor: ValueId,
}

/// The values of a plan in one graph.
pub(in crate::frontend) struct PlanValues<'p> {
    pub(in crate::frontend) plan: &'p ExecutionPlan,
    pub(in crate::frontend) builder: Builder,
    /// The values that exist before the graph runs: inputs of the method, and what other parts of it compute.
    given: Vec<bool>,
    current: Vec<Option<ValueId>>,
    /// The tensor that was written last at each place.
    places: HashMap<Place, file::ValueId>,
    /// Views without an instruction, by their place.
    views: HashMap<Place, Vec<file::ValueId>>,
    states: Vec<State>,
    state_tensors: HashSet<ValueId>,
    inputs: BTreeMap<file::ValueId, ValueId>,
    input_ids: HashMap<ValueId, file::ValueId>,
    elements: HashMap<ValueId, Elements>,
    /// Numbers that need not be whole: numerator and denominator.
    pub(super) fractions: HashMap<file::ValueId, (ValueId, ValueId)>,
    /// Whether an instruction has read a number of a computed tensor, which no graph can.
    pub(super) computed_number: bool,
}

impl<'p> PlanValues<'p> {
    /// Values at the start of a graph: `given` exist already, and `places` are the tensors that lie in planned memory then.
    pub(in crate::frontend) fn new(
        plan: &'p ExecutionPlan,
        builder: Builder,
        given: Vec<bool>,
        places: HashMap<Place, file::ValueId>,
    ) -> Self {
        Self {
            plan,
            builder,
            given,
            current: vec![None; plan.values.len()],
            places,
            views: HashMap::new(),
            states: Vec::new(),
            state_tensors: HashSet::new(),
            inputs: BTreeMap::new(),
            input_ids: HashMap::new(),
            elements: HashMap::new(),
            fractions: HashMap::new(),
            computed_number: false,
        }
    }

    /// Whether an instruction has read a number of a computed tensor since this was asked last.
    pub(in crate::frontend) fn take_computed_number(&mut self) -> bool {
        std::mem::take(&mut self.computed_number)
    }

    fn plan_tensor(&self, id: file::ValueId) -> Result<&'p file::Tensor> {
        let value = self.plan.value(id);
        value.and_then(PlanValue::as_tensor).ok_or_else(|| {
            let kind = value.map_or("missing", PlanValue::kind);
            tensor_error(id, format!("is {kind}, expected a tensor"))
        })
    }

    /// The element type and sizes of a plan's tensor.
    pub(in crate::frontend) fn tensor_type(&self, id: file::ValueId) -> Result<(DataType, &'p [u32])> {
        let tensor = self.plan_tensor(id)?;
        match data_type(tensor.scalar_type) {
            Some(dtype) => Ok((dtype, &tensor.sizes)),
            None => Err(tensor_error(
                id,
                format!("has elements of {}, which GPUs do not compute with", tensor.scalar_type.name()),
            )),
        }
    }

    /// The tensor that holds a plan's tensor now.
    pub(in crate::frontend) fn tensor(&mut self, id: file::ValueId) -> Result<ValueId> {
        if let Some(known) = self.current.get(id.index()).copied().flatten() {
            return Ok(known);
        }
        let own = self.plan_tensor(id)?;
        let value = if self.given[id.index()] {
            self.input(id)?
        } else if has_data(own) && own.allocation.is_none() {
            self.constant(id)?
        } else if let Some(base) = self.viewed(id, own) {
            self.views.entry(place(own).unwrap_or_default()).or_default().push(id);
            self.reinterpret(base, id)?
        } else {
            self.state(id)?
        };
        self.current[id.index()] = Some(value);
        Ok(value)
    }

    /// The tensor that was written at the place of one that is read without having been written.
    fn viewed(&self, id: file::ValueId, own: &file::Tensor) -> Option<file::ValueId> {
        let base = *self.places.get(&place(own)?)?;
        let len = |id| self.plan_tensor(id).ok().and_then(file::Tensor::byte_len);
        (base != id && len(base) == own.byte_len()).then_some(base)
    }

    fn input(&mut self, id: file::ValueId) -> Result<ValueId> {
        let (dtype, dims) = self.tensor_type(id)?;
        let input = self.builder.tensor(dtype, dims)?;
        self.inputs.insert(id, input);
        self.input_ids.insert(input, id);
        Ok(input)
    }

    fn constant(&mut self, id: file::ValueId) -> Result<ValueId> {
        let (dtype, _) = self.tensor_type(id)?;
        let own = self.plan_tensor(id)?;
        let name = own.extra.as_ref().filter(|extra| extra.location == file::TensorDataLocation::External);
        let source = match name.and_then(|extra| extra.name.clone()) {
            Some(key) => ConstantSource::Named(key),
            None => ConstantSource::Stored,
        };
        let tensor = Tensor::new(dtype, &memory_dims(own));
        let constant = self.builder.constant(tensor, source, ConstantOrigin::Tensor(id))?;
        self.in_dim_order(constant, id)
    }

    fn state(&mut self, id: file::ValueId) -> Result<ValueId> {
        let (dtype, _) = self.tensor_type(id)?;
        let own = self.plan_tensor(id)?;
        if has_data(own) && memory_dims(own) != own.sizes {
            return Err(tensor_error(id, "is state whose dims are in another order in memory".to_owned()));
        }
        let value = match has_data(own) {
            true => self.constant(id)?,
            false => self.builder.zeros(dtype, &own.sizes)?,
        };
        self.states.push(State { owner: id, tensor: value });
        self.state_tensors.insert(value);
        if let Some(place) = place(own) {
            self.places.insert(place, id);
        }
        Ok(value)
    }

    /// The memory of one tensor of the plan read as another.
    fn reinterpret(&mut self, base: file::ValueId, id: file::ValueId) -> Result<ValueId> {
        let ((from, _), (to, _)) = (self.tensor_type(base)?, self.tensor_type(id)?);
        if Elem::of(from) != Elem::of(to) {
            let reason = format!("is {} in the memory of {}", to.name(), from.name());
            return Err(tensor_error(id, reason));
        }
        let value = self.tensor(base)?;
        let memory = self.in_memory_order(value, base)?;
        let viewed = self.reshaped(memory, &memory_dims(self.plan_tensor(id)?))?;
        self.in_dim_order(viewed, id)
    }

    /// A tensor with other dims.
    pub(in crate::frontend) fn reshaped(&mut self, value: ValueId, dims: &[u32]) -> Result<ValueId> {
        let Some(tensor) = self.builder.tensor_at(value) else { return Ok(value) };
        if tensor.dims == dims {
            return Ok(value);
        }
        let dtype = tensor.dtype;
        let sizes: Vec<i64> = dims.iter().map(|&dim| i64::from(dim)).collect();
        let sizes = self.builder.ints(&sizes)?;
        let out = self.builder.compute(VIEW, &[value, sizes], dtype, dims)?;
        self.same_elements(value, out);
        Ok(out)
    }

    /// A tensor's dims in the order its plan tensor has in memory.
    pub(in crate::frontend) fn in_memory_order(&mut self, value: ValueId, id: file::ValueId) -> Result<ValueId> {
        let order: Vec<usize> = self.plan_tensor(id)?.dim_order.iter().map(|&dim| dim.into()).collect();
        self.permuted(value, &order)
    }

    /// The inverse of [`in_memory_order`](Self::in_memory_order).
    pub(in crate::frontend) fn in_dim_order(&mut self, value: ValueId, id: file::ValueId) -> Result<ValueId> {
        let own = self.plan_tensor(id)?;
        let mut inverse = vec![0; own.dim_order.len()];
        for (index, &dim) in own.dim_order.iter().enumerate() {
            // Verification has checked that it is a permutation.
            inverse[usize::from(dim)] = index;
        }
        self.permuted(value, &inverse)
    }

    /// A tensor with its dims in another order.
    pub(super) fn permuted(&mut self, value: ValueId, order: &[usize]) -> Result<ValueId> {
        let Some(tensor) = self.builder.tensor_at(value) else { return Ok(value) };
        if order.iter().copied().eq(0..order.len()) || order.len() != tensor.dims.len() {
            return Ok(value);
        }
        let (dtype, dims) = (tensor.dtype, order.iter().map(|&dim| tensor.dims[dim]).collect::<Vec<u32>>());
        let order: Vec<i64> = order.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
        let order = self.builder.ints(&order)?;
        self.builder.compute(PERMUTE, &[value, order], dtype, &dims)
    }

    /// A tensor in another element type.
    pub(in crate::frontend) fn converted(&mut self, value: ValueId, dtype: DataType) -> Result<ValueId> {
        let Some(tensor) = self.builder.tensor_at(value) else { return Ok(value) };
        if Elem::of(tensor.dtype) == Elem::of(dtype) {
            return Ok(value);
        }
        let dims = tensor.dims.clone();
        let none = self.builder.null()?;
        let out = self.builder.compute(CONVERT, &[value, none, none, none, none, none, none], dtype, &dims)?;
        self.same_elements(value, out);
        Ok(out)
    }

    /// A new tensor for a plan's tensor that a call writes.
    pub(in crate::frontend) fn output(&mut self, id: file::ValueId) -> Result<ValueId> {
        let (dtype, dims) = self.tensor_type(id)?;
        let out = self.builder.tensor(dtype, dims)?;
        self.set(id, out);
        Ok(out)
    }

    /// Makes a value of the graph the content of a value of the plan.
    pub(in crate::frontend) fn set(&mut self, id: file::ValueId, value: ValueId) {
        if let Some(current) = self.current.get_mut(id.index()) {
            *current = Some(value);
        }
        let Some(place) = self.plan.value(id).and_then(PlanValue::as_tensor).and_then(place) else { return };
        // Views of what was there have the new content.
        for view in self.views.remove(&place).unwrap_or_default() {
            if view != id {
                self.current[view.index()] = None;
            }
        }
        self.places.insert(place, id);
    }

    /// Makes a tensor the content of a plan's tensor, converted and broadcast to its type and shape.
    pub(in crate::frontend) fn assign(&mut self, id: file::ValueId, value: ValueId) -> Result<()> {
        let (dtype, dims) = self.tensor_type(id)?;
        let mut value = self.converted(value, dtype)?;
        if self.builder.tensor_at(value).is_some_and(|tensor| tensor.dims != dims) {
            let sizes: Vec<i64> = dims.iter().map(|&dim| i64::from(dim)).collect();
            let (sizes, implicit) = (self.builder.ints(&sizes)?, self.builder.bool(false)?);
            value = self.builder.compute(EXPAND, &[value, sizes, implicit], dtype, dims)?;
        }
        self.set(id, value);
        Ok(())
    }

    /// The state that a plan's tensor is, for operators that change it in place; `None` if it holds anything else by now.
    pub(in crate::frontend) fn state_of(&mut self, id: file::ValueId) -> Result<Option<ValueId>> {
        let value = self.tensor(id)?;
        Ok(self.state_tensors.contains(&value).then_some(value))
    }

    /// A tensor of the plan that a delegate may change in place, without changing the plan's.
    pub(in crate::frontend) fn private(&mut self, id: file::ValueId) -> Result<ValueId> {
        let value = self.tensor(id)?;
        self.copied(value)
    }

    /// An argument of a kernel.
    pub(in crate::frontend) fn argument(&mut self, id: file::ValueId) -> Result<ValueId> {
        match self.plan.value(id) {
            Some(PlanValue::Tensor(_)) => self.tensor(id),
            Some(PlanValue::Null) | None => self.builder.null(),
            Some(PlanValue::String(text)) => self.builder.text(text),
            Some(PlanValue::Int(_) | PlanValue::Bool(_) | PlanValue::Double(_)) => self.number(id),
            Some(PlanValue::IntList(items)) => self.numbers(items),
            Some(PlanValue::DoubleList(items)) => {
                let items: Vec<f64> = items.iter().map(|item| item.0).collect();
                self.builder.doubles(&items)
            }
            Some(PlanValue::BoolList(items)) => self.builder.value(Value::BoolList(items.clone())),
            Some(PlanValue::TensorList(items)) => {
                self.builder.charge(items.len())?;
                let items = items.iter().map(|&id| self.tensor(id)).collect::<Result<Vec<_>>>()?;
                self.builder.list(&items)
            }
            Some(PlanValue::OptionalTensorList(items)) => {
                self.builder.charge(items.len())?;
                let items = items.iter().map(|&id| match id {
                    Some(id) => self.argument(id),
                    None => self.builder.null(),
                });
                let items = items.collect::<Result<Vec<_>>>()?;
                self.builder.list(&items)
            }
        }
    }

    /// A number of the plan: one that a call has computed, or a literal.
    pub(in crate::frontend) fn number(&mut self, id: file::ValueId) -> Result<ValueId> {
        if let Some(known) = self.current.get(id.index()).copied().flatten() {
            return Ok(known);
        }
        if self.given[id.index()] {
            return self.given_number(id);
        }
        match self.plan.value(id) {
            Some(PlanValue::Int(value)) => self.builder.int(*value),
            Some(PlanValue::Bool(value)) => self.builder.bool(*value),
            Some(PlanValue::Double(value)) => self.builder.double(value.0),
            _ => self.builder.null(),
        }
    }

    /// A number that another part of the method computes comes in as a tensor of one integer.
    fn given_number(&mut self, id: file::ValueId) -> Result<ValueId> {
        let input = self.builder.tensor(DataType::Int32, &[1])?;
        self.inputs.insert(id, input);
        self.input_ids.insert(input, id);
        let (zero, out) = (self.builder.int(0)?, self.builder.symint()?);
        self.builder.call(SELECT_NUMBER, &[input, zero, zero, out])?;
        self.current[id.index()] = Some(out);
        Ok(out)
    }

    fn numbers(&mut self, items: &[file::ValueId]) -> Result<ValueId> {
        self.builder.charge(items.len())?;
        let items = items.iter().map(|&id| self.number(id)).collect::<Result<Vec<_>>>()?;
        self.list_of(&items)
    }

    /// A list of numbers of the graph: of literals, if all are.
    pub(super) fn list_of(&mut self, items: &[ValueId]) -> Result<ValueId> {
        let literal = |id: &ValueId| match self.builder.graph().value(*id) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        };
        match items.iter().map(literal).collect::<Option<Vec<i64>>>() {
            Some(literals) => self.builder.ints(&literals),
            None => self.builder.list(items),
        }
    }

    /// The literal that a number of the graph is, if it is one.
    pub(in crate::frontend) fn literal(&self, id: ValueId) -> Option<i64> {
        match self.builder.graph().value(id) {
            Some(Value::Int(value)) => Some(*value),
            Some(Value::Bool(value)) => Some((*value).into()),
            _ => None,
        }
    }

    /// A size of a tensor that is the same in every call.
    pub(super) fn fixed_size(&self, id: file::ValueId, dim: i64) -> Option<i64> {
        let tensor = self.plan_tensor(id).ok()?;
        let fixed = tensor.dynamism == file::ShapeDynamism::Static && !self.given[id.index()];
        let dim = crate::args::normalise(dim, tensor.sizes.len()).filter(|_| fixed)?;
        tensor.sizes.get(dim).map(|&size| size.into())
    }

    /// The plan's value that a graph's input is.
    fn input_of(&self, value: ValueId) -> Option<file::ValueId> {
        self.input_ids.get(&value).copied()
    }
}

fn memory_dims(tensor: &file::Tensor) -> Vec<u32> {
    tensor.dim_order.iter().filter_map(|&dim| tensor.sizes.get(usize::from(dim)).copied()).collect()
}

pub(super) fn tensor_error(id: file::ValueId, reason: String) -> Error {
    Error::Tensor { tensor: id.0, reason }
}
