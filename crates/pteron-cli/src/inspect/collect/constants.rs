//! Collects constants: number, size, and how many are unique.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use pteron_format::program::{DataRef, ExecutionPlan, Tensor, TensorDataLocation, Value};
use pteron_format::vulkan::{self, ConstantSource, Graph};
use pteron_format::{Bytes, Pte, xnnpack};

use super::{clip, sum};
use crate::inspect::report::{Constant, Constants};

/// Identifies a constant's bytes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identity<'a> {
    Named(&'a str),
    Stored { delegate: DataRef, offset: u64, len: u64 },
    Buffer(u32),
}

#[derive(Default)]
struct Collection<'a> {
    count: usize,
    bytes: u64,
    unique: BTreeMap<Identity<'a>, Constant>,
}

pub(super) fn collect<B: Bytes>(pte: &Pte<B>, most: usize) -> Constants {
    let own: BTreeSet<&str> = pte.program().named_data.iter().flatten().map(|entry| entry.key.as_str()).collect();
    let place = |key: &str| if own.contains(key) { "program" } else { "external" };
    let mut all = Collection::default();
    for (delegate, blob) in pte.graphs() {
        all.add_graph(delegate, &blob.graph.constants, users(&blob.graph), place);
    }
    for (delegate, blob) in pte.xnnpack_graphs() {
        all.add_graph(delegate, &blob.graph.constants, xnnpack_users(&blob.graph), place);
    }
    for plan in &pte.program().plans {
        all.add_plan(plan, place);
    }
    let mut unique: Vec<_> = all.unique.into_values().collect();
    let (unique_count, unique_bytes) = (unique.len(), sum(unique.iter().map(|constant| constant.bytes)));
    unique.sort_by_key(|constant| Reverse(constant.bytes));
    unique.truncate(most);
    Constants { count: all.count, bytes: all.bytes, unique_count, unique_bytes, largest: unique }
}

impl<'a> Collection<'a> {
    fn add(&mut self, identity: Identity<'a>, constant: Constant) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(constant.bytes);
        let seen = self.unique.entry(identity).or_insert(constant);
        seen.copies += 1;
    }

    fn add_graph(
        &mut self,
        delegate: DataRef,
        constants: &'a [vulkan::Constant],
        users: Vec<User<'a>>,
        place: impl Fn(&str) -> &'static str,
    ) {
        for (constant, user) in constants.iter().zip(users) {
            let (identity, place, key) = match &constant.source {
                ConstantSource::Named(key) => (Identity::Named(key), place(key), Some(key.clone())),
                ConstantSource::Stored(offset) => {
                    (Identity::Stored { delegate, offset: *offset, len: constant.len }, "delegate", None)
                }
            };
            let tensor = user.tensor;
            let described = Constant {
                bytes: constant.len,
                dtype: tensor.map(|(dtype, _)| dtype),
                shape: tensor.map(|(_, dims)| dims.to_vec()),
                used_by: user.operator.map(clip),
                copies: 0,
                place,
                key,
            };
            self.add(identity, described);
        }
    }

    /// The constants of portable kernels: tensors with data and no planned memory.
    fn add_plan(&mut self, plan: &'a ExecutionPlan, place: impl Fn(&str) -> &'static str) {
        for tensor in plan.values.iter().filter_map(Value::as_tensor) {
            let named = tensor.extra.as_ref().filter(|extra| extra.location == TensorDataLocation::External);
            let name = named.and_then(|extra| extra.name.as_deref());
            let (identity, place) = match name {
                Some(name) => (Identity::Named(name), place(name)),
                None if tensor.buffer != 0 && tensor.allocation.is_none() => (Identity::Buffer(tensor.buffer), "program"),
                None => continue,
            };
            self.add(identity, describe(plan, tensor, place, name));
        }
    }
}

fn describe(plan: &ExecutionPlan, tensor: &Tensor, place: &'static str, name: Option<&str>) -> Constant {
    Constant {
        bytes: tensor.byte_len().unwrap_or(u64::MAX),
        dtype: Some(tensor.scalar_type.name()),
        shape: Some(tensor.sizes.clone()),
        used_by: Some(format!("method {}", clip(&plan.name))),
        copies: 0,
        place,
        key: name.map(str::to_owned),
    }
}

/// The first tensor that is a constant, and the first call that takes it.
#[derive(Clone, Copy, Default)]
struct User<'a> {
    /// Its element type and dims.
    tensor: Option<(&'static str, &'a [u32])>,
    operator: Option<&'a str>,
}

fn users(graph: &Graph) -> Vec<User<'_>> {
    let mut users = vec![User::default(); graph.constants.len()];
    let constant = |tensor: Option<&vulkan::Tensor>| tensor.and_then(|tensor| tensor.constant);
    for tensor in graph.values.iter().filter_map(vulkan::Value::as_tensor) {
        if let Some(user) = constant(Some(tensor)).and_then(|id| users.get_mut(id.index())) {
            user.tensor.get_or_insert((tensor.dtype.name(), &tensor.dims));
        }
    }
    for call in &graph.chain {
        for id in &call.args {
            let tensor = graph.value(*id).and_then(vulkan::Value::as_tensor);
            if let Some(user) = constant(tensor).and_then(|id| users.get_mut(id.index())) {
                user.operator.get_or_insert(&call.name);
            }
        }
    }
    users
}

/// The same for XNNPACK. A list of scales has no tensor of its own; the node that takes its weights takes it.
fn xnnpack_users(graph: &xnnpack::Graph) -> Vec<User<'_>> {
    let mut users = vec![User::default(); graph.constants.len()];
    for value in &graph.values {
        if let Some(user) = value.constant.and_then(|id| users.get_mut(id.index())) {
            user.tensor.get_or_insert((value.dtype.name(), &value.dims));
        }
    }
    for node in &graph.nodes {
        for value in node.kind.inputs().filter_map(|id| graph.value(id)) {
            let scales = value.quantization.as_ref().and_then(|quantization| match quantization.scales()? {
                xnnpack::Scales::Constant { id, .. } => Some(*id),
                xnnpack::Scales::Inline(_) => None,
            });
            for id in value.constant.into_iter().chain(scales) {
                if let Some(user) = users.get_mut(id.index()) {
                    user.operator.get_or_insert(node.kind.name());
                }
            }
        }
    }
    users
}
