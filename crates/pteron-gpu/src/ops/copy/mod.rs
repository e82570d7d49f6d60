//! Copies: operators that only say where elements go. A row of `TABLE` is an operator.
//!
//! Most read one tensor with strides and write another in order, which `strided` does for them: they say which elements the
//! output has, as a `Selection`. What keeps every element in its place only shares memory. Where a slice starts may move
//! from step to step, so it is a word of the step block, and parameters depend on shapes alone. `cat` and `split` put parts
//! together and take them apart.

pub(crate) mod axes;
mod cat;
mod parts;
mod reorder;
mod repeat;
mod slice;
mod split;
pub(crate) mod strided;
mod tile;
mod view;

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::rewrite::STORE;
use crate::shape::Dims;
use strided::Window;

/// The family: names, and how arguments become an operator.
const TABLE: &[(&str, Decode)] = &[
    ("aten.view_copy.default", |args| select(args, view::decode_view)),
    ("aten.clone.default", |args| select(args, view::decode_clone)),
    ("aten.alias_copy.default", |args| select(args, view::decode_same)),
    ("dim_order_ops._clone_dim_order.default", |args| select(args, view::decode_clone_dim_order)),
    ("et_vk.prepack.default", |args| select(args, view::decode_same)),
    ("aten.unsqueeze_copy.default", |args| select(args, view::decode_unsqueeze)),
    ("aten.squeeze_copy.dims", |args| select(args, view::decode_squeeze)),
    ("aten.select_copy.int", |args| select(args, slice::decode_select)),
    ("aten.slice_copy.Tensor", |args| select(args, slice::decode_slice)),
    ("aten.permute_copy.default", |args| select(args, reorder::decode_permute)),
    ("aten.permute.default", |args| select(args, reorder::decode_permute)),
    ("aten.t_copy.default", |args| select(args, reorder::decode_t)),
    ("aten.flip.default", |args| select(args, reorder::decode_flip)),
    ("aten.expand_copy.default", |args| select(args, repeat::decode_expand)),
    ("aten.repeat.default", |args| select(args, repeat::decode_repeat)),
    ("aten.cat.default", cat::decode),
    ("aten.split_with_sizes_copy.default", split::decode),
    (STORE, store),
];

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

static NAMES: [&str; TABLE.len()] = names(TABLE);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[STORE],
    kernels: &[
        &strided::ITEMS,
        &strided::LANES,
        &strided::TILE,
        &strided::TILE_VECTORS,
        &strided::TILE_BYTES,
        &cat::ITEMS,
        &cat::LANES,
        &split::ITEMS,
        &split::LANES,
    ],
    decode,
};

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some((_, decode)) = TABLE.iter().find(|(row, _)| *row == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    decode(args)
}

/// Which elements of `self` the output has, decoded from what stands between them.
trait Selection: Debug + Send + Sync {
    /// The output's dims, and where its elements are, `self` having these dims.
    fn window(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<Window, OpError>;

    /// The index in `self` of an element of the output, for the reference.
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError>;

    /// Whether the output has every element in order at every live shape, so that it can share memory.
    fn in_place(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct CopyOp {
    selection: Box<dyn Selection>,
    elem: Elem,
    from: TensorId,
    out: TensorId,
}

type DecodeSelection = fn(&mut Args<'_>, TensorInfo) -> Result<Box<dyn Selection>, OpError>;

fn select(args: &mut Args<'_>, decode: DecodeSelection) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let info = args.info(from);
    let selection = decode(args, info)?;
    Ok(Box::new(CopyOp { selection, elem: info.elem, from, out: args.output_of("out", info.elem)? }))
}

/// A whole tensor into a buffer of the state, which has the same elements and dims.
fn store(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let out = args.mutated("out")?;
    let (info, buffer) = (args.info(from), args.info(out));
    if info.elem != buffer.elem || info.bound != buffer.bound {
        let TensorInfo { elem, bound } = buffer;
        let reason = format!("has {} of {:?}, but it is stored as {bound} of {elem:?}", info.bound, info.elem);
        return Err(OpError::new("self", reason));
    }
    let selection = Box::new(view::Whole { bound: buffer.bound });
    Ok(Box::new(CopyOp { selection, elem: info.elem, from, out }))
}

fn axis(args: &mut Args<'_>, info: TensorInfo) -> Result<usize, OpError> {
    if info.bound.is_empty() {
        return Err(OpError::new("self", "is a single number, which has no dimension to take elements of"));
    }
    args.axis("dim", info.bound.len())
}

/// Dimensions of a tensor, each at most once.
fn distinct_axes(args: &mut Args<'_>, name: &'static str, rank: usize) -> Result<Vec<usize>, OpError> {
    let dims = args.ints(name)?;
    let mut axes = Vec::with_capacity(dims.len());
    for &dim in &dims {
        match normalise(dim, rank) {
            Some(axis) if !axes.contains(&axis) => axes.push(axis),
            Some(_) => return Err(OpError::new(name, format!("is {dims:?}, which names a dimension twice"))),
            None => return Err(OpError::new(name, format!("is {dims:?}, but the tensor has {rank} dimensions"))),
        }
    }
    Ok(axes)
}

impl Op for CopyOp {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(strided::recipes(self.elem, self.from, self.out))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        strided::plan(cx, self.elem, self.out, &self.selection.window(cx, cx.dims(self.from))?)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.selection.window(cx, cx.dims(self.from))?.dims;
        let Some(from) = tensors.get(self.from) else { return Ok(()) };
        let data = if self.selection.in_place() {
            from.data.clone()
        } else {
            let place = |index: Vec<u32>| Ok(broadcast_offset(&from.dims, &self.selection.source(cx, &from.dims, &index)?));
            from.data.at(&indices(&out).map(place).collect::<Result<Vec<usize>, OpError>>()?)
        };
        tensors.set(self.out, out, data);
        Ok(())
    }

    fn alias(&self) -> Option<TensorId> {
        self.selection.in_place().then_some(self.from)
    }
}
