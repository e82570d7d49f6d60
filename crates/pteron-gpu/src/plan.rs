//! Recipes and plans: every way an operator can run, and the way it runs at the live shapes.
//!
//! An operator is one immutable value with two pure functions. [`Op::recipes`] computes, from the bounds, which kernels it
//! may use, their bindings, and the scratch they need at worst; memory, pipelines and bind groups are created from that
//! once. [`Op::plan`] computes, from live shapes and scalars, the outputs' dims and which recipes run with which parameters
//! over which grid. Loading calls `plan` too, so no formula exists twice.

use std::any::Any;
use std::fmt::Debug;

pub use crate::caps::{COOPERATIVE_MATRIX_MEMORY, Caps, GridKind, Lanes, MatrixSide};
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::ir::Call;
use crate::kernel::Variant;
use crate::live::{Live, Number, Scalar, ScalarId, TensorId};
use crate::packing::Packing;
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::row_axes::RowAxes;
use crate::shape::Dims;

/// An operator with its arguments decoded.
pub trait Op: Any + Debug + Send + Sync {
    /// Returns every way this operator can run within the bounds.
    ///
    /// # Errors
    /// Arguments that no kernel covers.
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError>;

    /// Computes output dims, chosen recipes, parameters and grids from live shapes and scalars. Uses no device and no state.
    ///
    /// # Errors
    /// Inconsistent shapes or scalars, by argument.
    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError>;

    /// Computes the result on the host, for tests and fuzzers: from the same decoded operator, with none of the kernel's arithmetic.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), whose output dims the caller has applied already.
    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError>;

    /// The input whose memory the first output may alias instead of being written: the same elements in the same order.
    fn alias(&self) -> Option<TensorId> {
        None
    }

    /// The inputs whose memory the outputs take over, in order: the operator changes some of their elements and leaves the others. Nothing
    /// else may read these inputs.
    fn in_place(&self) -> &[TensorId] {
        &[]
    }

    /// The call that computes the same with channels last, if this operator can and that is worth it: where a tensor has channels last
    /// already, or for convolutions.
    fn channels_last(&self, _layout: &mut Relayout<'_>) -> Option<Call> {
        None
    }

    /// The dim along which the outputs have rows, where `rows` are those of the inputs: each row of an output depends on the same row of
    /// the inputs that have rows, and on inputs that have none. `None` if the operator is not row-wise.
    fn row_axis(&self, _rows: &RowAxes<'_>) -> Option<usize> {
        None
    }

    /// Whether the operator also accepts 16-bit floats for this tensor, which it changes in place.
    fn accepts_f16_state(&self, _state: TensorId) -> bool {
        false
    }
}

impl dyn Op {
    /// The operator as the type that its decoder created, if it is of that type. For fusions, which match decoded operators.
    pub(crate) fn downcast<T: Op>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The target of a kernel's binding. Parameters come first and are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// A tensor of the graph.
    Tensor(TensorId),
    /// Scratch of this operator, by index into [`Recipes::scratch`].
    Scratch(usize),
    /// Constants joined in one buffer, by index into [`Recipes::joined`].
    Joined(usize),
    /// The block of per-step words; this operator's start at [`PlanCx::step_base`].
    Step,
}

impl From<TensorId> for Bind {
    fn from(tensor: TensorId) -> Self {
        Self::Tensor(tensor)
    }
}

/// One way to run a kernel for an operator.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The kernel and its constants: the pipeline's key.
    pub variant: Variant,
    /// Its bindings, in the order of the shader's bindings after the parameters.
    pub binds: Vec<Bind>,
    /// The most dispatches of it in one plan.
    pub max_dispatches: u32,
}

impl Recipe {
    /// Creates a recipe that a plan dispatches at most once.
    pub fn new(variant: Variant, binds: impl IntoIterator<Item = Bind>) -> Self {
        Self { variant, binds: binds.into_iter().collect(), max_dispatches: 1 }
    }
}

/// Every way an operator can run, and the resources it needs at worst.
#[derive(Clone, Debug, Default)]
pub struct Recipes {
    /// The recipes; plans name them by index.
    pub list: Vec<Recipe>,
    /// Bytes of each scratch buffer at worst.
    pub scratch: Vec<u64>,
    /// Constants of the file that a kernel reads from one buffer.
    pub joined: Vec<JoinedConstants>,
    /// The most per-step words a plan may set.
    pub step_words: usize,
}

/// Constants of the file in one buffer: the parts, at the offsets given by [`joined`](crate::memory::joined).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedConstants {
    /// The constants, in order.
    pub parts: Vec<JoinedPart>,
}

/// A constant of [`JoinedConstants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedPart {
    /// The constant.
    pub tensor: TensorId,
    /// The layout it is packed in when it is uploaded; `None` for the file's.
    pub packing: Option<Packing>,
}

impl JoinedPart {
    /// The bytes that it takes in the buffer, if the constant has `bytes`.
    #[must_use]
    pub fn bytes(&self, bytes: u64) -> u64 {
        self.packing.map_or(bytes, |packing| packing.bytes())
    }

    /// The bytes that are uploaded for it, before they are packed.
    #[must_use]
    pub fn unpacked_bytes(&self, bytes: u64) -> u64 {
        if self.packing.is_some_and(|packing| packing.is_half()) { bytes / 2 } else { bytes }
    }
}

impl<T: IntoIterator<Item = TensorId>> From<T> for JoinedConstants {
    /// Joins constants in the layout of the file.
    fn from(tensors: T) -> Self {
        Self { parts: tensors.into_iter().map(|tensor| JoinedPart { tensor, packing: None }).collect() }
    }
}

impl Recipes {
    /// Only these recipes, without scratch.
    pub fn of(list: impl IntoIterator<Item = Recipe>) -> Self {
        Self { list: list.into_iter().collect(), ..Self::default() }
    }
}

/// An operator's plan for live shapes and scalars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The dims of each output tensor.
    pub outputs: Vec<(TensorId, Dims)>,
    /// The value of each output scalar.
    pub scalars: Vec<(ScalarId, i64)>,
    /// The dispatches, in order. Empty where there are no elements.
    pub steps: Vec<Dispatch>,
    /// Bytes of each scratch buffer that `steps` touch.
    pub scratch: Vec<u64>,
    /// Words that change from step to step while shapes do not; kernels read them through [`Bind::Step`].
    pub step_words: Vec<u32>,
}

impl Plan {
    /// Creates a plan of one output and the dispatches that compute it.
    pub fn new(output: TensorId, dims: Dims, steps: impl IntoIterator<Item = Dispatch>) -> Self {
        Self { outputs: vec![(output, dims)], steps: steps.into_iter().collect(), ..Self::default() }
    }
}

/// One dispatch: a recipe, its parameters and its grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Index into [`Recipes::list`].
    pub recipe: usize,
    /// The shader's parameters, at most [`PARAM_SLOT`] bytes. Values that change with every step belong into
    /// [`Plan::step_words`] instead.
    pub params: Vec<u8>,
    /// Workgroups.
    pub grid: Grid,
}

/// Bytes reserved for a dispatch's parameters.
pub const PARAM_SLOT: usize = 256;

impl Dispatch {
    /// Creates a dispatch of `groups` workgroups; `None` if there are none.
    ///
    /// # Errors
    /// More workgroups than a grid can hold.
    pub fn groups<P: bytemuck::NoUninit>(recipe: usize, params: &P, groups: u64) -> Result<Option<Self>, OpError> {
        let Some(grid) = Grid::new(groups)? else { return Ok(None) };
        Ok(Some(Self { recipe, params: bytemuck::bytes_of(params).to_vec(), grid }))
    }

    /// Creates a dispatch in which each workgroup processes `per_group` of `items`; `None` if there are no items.
    ///
    /// # Errors
    /// More workgroups than a grid can hold.
    pub fn items<P: bytemuck::NoUninit>(
        recipe: usize,
        params: &P,
        items: u64,
        per_group: u64,
    ) -> Result<Option<Self>, OpError> {
        Self::groups(recipe, params, items.div_ceil(per_group))
    }
}

/// Workgroups, folded to two dimensions if there are many. Kernels take their index from `group_index` of
/// `include/grid.wgsl`, which inverts the fold, and check it: a fold may have a few workgroups too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Workgroups in x.
    pub x: u32,
    /// Workgroups in y.
    pub y: u32,
}

impl Grid {
    /// The limit per dimension on every device.
    pub const LIMIT: u32 = 65_535;

    /// Creates a grid of at least `groups` workgroups; `None` if there are none.
    ///
    /// # Errors
    /// More workgroups than two dimensions allow.
    pub fn new(groups: u64) -> Result<Option<Self>, OpError> {
        if groups == 0 {
            return Ok(None);
        }
        let limit = u64::from(Self::LIMIT);
        let rows = groups.div_ceil(limit);
        match (u32::try_from(groups.div_ceil(rows)), u32::try_from(rows)) {
            (Ok(x), Ok(y)) if y <= Self::LIMIT => Ok(Some(Self { x, y })),
            _ => Err(OpError::new("out", format!("needs {groups} workgroups, more than {limit} × {limit}"))),
        }
    }

    /// Workgroups in all.
    #[must_use]
    pub fn groups(&self) -> u64 {
        u64::from(self.x) * u64::from(self.y)
    }
}

/// The context of [`Op::recipes`].
#[derive(Clone, Copy, Debug)]
pub struct BoundsCx<'a> {
    pub(crate) bounds: &'a [Dims],
    pub(crate) caps: Caps,
}

impl<'a> BoundsCx<'a> {
    /// Creates a context from the bounds of each value of a graph, by id, and the device's capabilities.
    #[must_use]
    pub fn new(bounds: &'a [Dims], caps: Caps) -> Self {
        Self { bounds, caps }
    }

    /// The largest dims a tensor can have.
    #[must_use]
    pub fn bound(&self, tensor: TensorId) -> Dims {
        self.bounds[tensor.index()]
    }

    /// The device's capabilities.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.caps
    }
}

/// The context of [`Op::plan`]: live dims and scalars, and the bounds that the recipes were created from.
#[derive(Clone, Copy, Debug)]
pub struct PlanCx<'a> {
    pub(crate) live: &'a Live,
    pub(crate) bounds: BoundsCx<'a>,
    pub(crate) step_base: u32,
}

impl<'a> PlanCx<'a> {
    /// Creates a context outside a graph, for tests.
    #[must_use]
    pub fn new(live: &'a Live, bounds: BoundsCx<'a>, step_base: u32) -> Self {
        Self { live, bounds, step_base }
    }

    /// The live dims of a tensor.
    #[must_use]
    pub fn dims(&self, tensor: TensorId) -> Dims {
        self.live.dims(tensor)
    }

    /// The live value of a scalar.
    #[must_use]
    pub fn scalar(&self, scalar: Scalar) -> i64 {
        self.live.scalar(scalar)
    }

    /// The live value of a number.
    #[must_use]
    pub fn number(&self, number: Number) -> f64 {
        match number {
            Number::Fixed(value) => value,
            #[allow(clippy::cast_precision_loss, reason = "symbolic scalars are lengths and positions")]
            Number::Live(id) => self.live.scalar(Scalar::Live(id)) as f64,
        }
    }

    /// The integers of a graph input on the host; `None` while loading, before any call.
    #[must_use]
    pub fn host_values(&self, tensor: TensorId) -> Option<&'a [i32]> {
        self.live.host_values(tensor)
    }

    /// The largest dims a tensor can have.
    #[must_use]
    pub fn bound(&self, tensor: TensorId) -> Dims {
        self.bounds.bound(tensor)
    }

    /// The device's capabilities.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.bounds.caps
    }

    /// The offset of this operator's words in the per-step block.
    #[must_use]
    pub fn step_base(&self) -> u32 {
        self.step_base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_fold_past_the_limit_and_waste_little() {
        assert_eq!(Grid::new(0).unwrap(), None);
        assert_eq!(Grid::new(65_535).unwrap(), Some(Grid { x: 65_535, y: 1 }));
        for groups in [65_536, 100_000, 1 << 20, (1 << 30) + 7] {
            let grid = Grid::new(groups).unwrap().unwrap();
            assert!(grid.x <= Grid::LIMIT && grid.y <= Grid::LIMIT, "{grid:?}");
            assert!(grid.groups() >= groups && grid.groups() - groups < u64::from(grid.y), "{grid:?}");
        }
        assert!(Grid::new(u64::MAX).is_err());
        assert!(Grid::new(65_535 * 65_535).is_ok());
    }
}
