//! The weights of one call: one to three matrices whose rows are adjacent in one buffer, their scales, and their biases.

use super::Params;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::TensorId;
use crate::matmul::{Layout, Q4};
use crate::memory::joined;
use crate::packing::{Packing, RowTiles, ScaleTiles, TILE_ROWS};
use crate::plan::{Bind, Caps, JoinedConstants, JoinedPart};

/// The most matrices per call: each has an output, and a kernel binds at most eight buffers.
pub(super) const MAX_MATRICES: usize = 3;

/// Values of k per unit of a tile of 4-bit weights.
pub(super) const UNIT_VALUES: u32 = 32;

/// Bytes of a unit of float weights, and of how many units rows have multiples: eight subgroups share k evenly, in pairs.
pub(super) const FLOAT_UNIT: u32 = 32;
pub(super) const FLOAT_UNITS: u32 = 16;

/// The offset of an absent bias: biases begin at whole vectors, so none begins here.
pub(super) const NO_BIAS: u32 = u32::MAX;

/// The representation of weights on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// 4 bits, with scales per group.
    Q4,
    F16,
    F32,
}

impl Stored {
    /// Values per unit of a tile.
    pub(super) fn unit_values(self) -> u32 {
        match self {
            Self::Q4 => UNIT_VALUES,
            Self::F16 => FLOAT_UNIT / 2,
            Self::F32 => FLOAT_UNIT / 4,
        }
    }
}

#[derive(Debug)]
pub(super) struct WeightMatrices {
    list: Vec<WeightMatrix>,
    /// Common to all of them.
    pub(super) k: u32,
    /// Columns per scale, 0 for floats.
    pub(super) group: u32,
    /// Whether they are floats, and 16-bit ones in the file.
    floats: Option<bool>,
    /// Offsets in the scales buffer, in floats: the scales of each matrix, then the biases of those that have one.
    starts: Vec<u32>,
    /// Bytes of the weights' binding, and of the scales'.
    bytes: [u64; 2],
}

#[derive(Debug)]
pub(super) struct WeightMatrix {
    pub(super) values: Values,
    /// Rows, which are columns of the output.
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) bias: Option<TensorId>,
}

/// The numbers of a matrix.
#[derive(Debug)]
pub(super) enum Values {
    Q4(Q4, Layout),
    Floats { weight: TensorId, f16: bool },
}

impl WeightMatrices {
    /// Decodes weights, scales, group size and biases. Float weights have neither scales nor groups.
    pub(super) fn take(args: &mut Args<'_>) -> Result<Self, OpError> {
        let weights = args.tensors("weights")?;
        let scales = args.tensors("scales")?;
        let group = args.int("group_size")?;
        let biases = args.optional_tensors("biases")?;
        if weights.is_empty() || weights.len() > MAX_MATRICES {
            return Err(OpError::new("weights", format!("has {} tensors, expected 1 to {MAX_MATRICES}", weights.len())));
        }
        let floats = scales.is_empty() && group == 0;
        for (name, found) in [("scales", scales.len()), ("biases", biases.len())] {
            if found != weights.len() && !(floats && name == "scales") {
                return Err(OpError::new(name, format!("has {found} tensors, expected {}", weights.len())));
            }
        }
        let list = weights.into_iter().zip(biases).enumerate().map(|(index, (weight, bias))| {
            let values = match scales.get(index) {
                Some(&scales) => Values::q4(args, weight, scales, group)?,
                None => Values::floats(args, weight)?,
            };
            WeightMatrix::check(args, values, bias)
        });
        Self::of(args, list.collect::<Result<_, _>>()?)
    }

    fn of(args: &Args<'_>, list: Vec<WeightMatrix>) -> Result<Self, OpError> {
        let k = list[0].k;
        if let Some(other) = list.iter().map(|matrix| matrix.k).find(|&own| own != k) {
            return Err(OpError::new("weights", format!("have rows of {k} and of {other} values, expected alike")));
        }
        let (group, floats) = match &list[0].values {
            Values::Q4(_, layout) => (layout.group, None),
            // One that is not rounded on the way to the GPU keeps the others from it.
            Values::Floats { .. } => {
                (0, Some(list.iter().all(|matrix| matches!(matrix.values, Values::Floats { f16: true, .. }))))
            }
        };
        let bytes = |part: &JoinedPart| {
            let TensorInfo { elem, bound } = args.info(part.tensor);
            part.bytes(elem.bytes(bound.count()))
        };
        let (starts, scale_bytes) = joined(in_scales(&list).iter().map(bytes));
        let most = match floats {
            None => Stored::Q4,
            Some(true) => Stored::F16,
            Some(false) => Stored::F32,
        };
        let weight_bytes = list.iter().map(|matrix| matrix.packing(most).bytes()).fold(0, u64::saturating_add);
        let starts = starts.into_iter().map(|start| u32::try_from(start / 4)).collect::<Result<Vec<_>, _>>();
        let starts = starts.map_err(|_| OpError::new("scales", "take more than 32-bit indices reach"))?;
        Ok(Self { list, k, group, floats, starts, bytes: [weight_bytes, scale_bytes] })
    }

    pub(super) fn list(&self) -> &[WeightMatrix] {
        &self.list
    }

    pub(super) fn are_floats(&self) -> bool {
        self.floats.is_some()
    }

    /// The representation on a device: floats are rounded to 16 bits if factors may be.
    pub(super) fn stored(&self, caps: Caps) -> Stored {
        match self.floats {
            None => Stored::Q4,
            Some(f16) if f16 || (caps.rounded_factors && !caps.software) => Stored::F16,
            Some(_) => Stored::F32,
        }
    }

    /// The columns of each matrix.
    pub(super) fn widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|matrix| matrix.n)
    }

    /// The bindings of weights and scales, and the constants packed for them.
    pub(super) fn binds(&self, caps: Caps) -> (Bind, Bind, Vec<JoinedConstants>) {
        let stored = self.stored(caps);
        let part =
            |matrix: &WeightMatrix| JoinedPart { tensor: matrix.values.weight(), packing: Some(matrix.packing(stored)) };
        let weights = JoinedConstants { parts: self.list.iter().map(part).collect() };
        let scales = JoinedConstants { parts: in_scales(&self.list) };
        if scales.parts.is_empty() {
            // Never read: the weights are bound in their place.
            return (Bind::Joined(0), Bind::Joined(0), vec![weights]);
        }
        (Bind::Joined(0), Bind::Joined(1), vec![weights, scales])
    }

    /// Bytes of the larger of both bindings.
    pub(super) fn largest_binding(&self) -> u64 {
        let [weights, scales] = self.bytes;
        weights.max(scales)
    }

    /// Tiles of all matrices.
    pub(super) fn tiles(&self) -> u32 {
        self.list.iter().map(WeightMatrix::tiles).sum()
    }

    /// Units per column of a tile.
    pub(super) fn units(&self, caps: Caps) -> u32 {
        let stored = self.stored(caps);
        self.k.div_ceil(stored.unit_values()).next_multiple_of(if stored == Stored::Q4 { 2 } else { FLOAT_UNITS })
    }

    /// The parameters that follow from the weights alone, for all columns.
    pub(super) fn params(&self, caps: Caps) -> Params {
        let scale_lanes = self.list[0].scale_tiles().map_or(0, |tiles| tiles.lanes());
        let mut params = Params { k: self.k, units: self.units(caps), scale_lanes, ..Params::default() };
        params.first = [u32::MAX; 4];
        params.first_tile = [u32::MAX; 4];
        params.bias = [NO_BIAS; 4];
        let scales = if self.are_floats() { 0 } else { self.list.len() };
        let mut biases = self.starts[scales..].iter();
        for (index, matrix) in self.list.iter().enumerate() {
            params.first[index] = params.n;
            params.width[index] = matrix.n;
            if let Some(&start) = matrix.bias.and_then(|_| biases.next()) {
                params.bias[index] = start;
            }
            params.first_tile[index] = params.tiles;
            params.n += matrix.n;
            params.tiles += matrix.tiles();
        }
        params
    }
}

/// The constants of the scales buffer, in order: scales of all matrices, then biases.
fn in_scales(list: &[WeightMatrix]) -> Vec<JoinedPart> {
    let scales = |matrix: &WeightMatrix| {
        let tensor = matrix.values.scales()?;
        Some(JoinedPart { tensor, packing: matrix.scale_tiles().map(Packing::Scales) })
    };
    let bias = |matrix: &WeightMatrix| matrix.bias.map(|tensor| JoinedPart { tensor, packing: None });
    list.iter().filter_map(scales).chain(list.iter().filter_map(bias)).collect()
}

impl Values {
    fn q4(args: &Args<'_>, weight: TensorId, scales: TensorId, group: i64) -> Result<Self, OpError> {
        check_constant(args, "weights", weight, Elem::U8)?;
        check_constant(args, "scales", scales, Elem::F32)?;
        let weights = Q4::in_any_order(args, weight, scales, group)?;
        let Some(layout) = weights.fixed() else { return Err(OpError::new("weights", "must be constants")) };
        let Layout { k, group, weight_stride, scale_stride, .. } = layout;
        if !layout.in_vectors() || k == 0 {
            let what = format!(
                "has rows of {k} values in groups of {group}, {weight_stride} bytes a row and {scale_stride} scales a group, \
                 expected whole multiples of 32, 32, 16 and 4"
            );
            return Err(OpError::new("weights", what));
        }
        Ok(Self::Q4(weights, layout))
    }

    fn floats(args: &Args<'_>, weight: TensorId) -> Result<Self, OpError> {
        check_constant(args, "weights", weight, Elem::F32)?;
        let dims = args.info(weight).bound;
        if dims.len() != 2 || dims[1] == 0 || !dims[1].is_multiple_of(FLOAT_UNIT / 2) {
            let unit = FLOAT_UNIT / 2;
            return Err(OpError::new("weights", format!("is {dims}, expected rows of a multiple of {unit} values")));
        }
        Ok(Self::Floats { weight, f16: args.is_16_bit_in_file(weight) })
    }

    pub(super) fn weight(&self) -> TensorId {
        match self {
            Self::Q4(q4, _) => q4.weight,
            Self::Floats { weight, .. } => *weight,
        }
    }

    pub(super) fn scales(&self) -> Option<TensorId> {
        match self {
            Self::Q4(q4, _) => Some(q4.scales),
            Self::Floats { .. } => None,
        }
    }
}

/// Checks that a tensor is a constant of a type.
fn check_constant(args: &Args<'_>, name: &'static str, tensor: TensorId, elem: Elem) -> Result<(), OpError> {
    let found = args.info(tensor).elem;
    if found != elem {
        return Err(OpError::new(name, format!("has elements {found:?}, supported: {:?}", [elem])));
    }
    if !args.is_constant(tensor) {
        return Err(OpError::new(name, format!("has tensor {tensor}, expected a constant")));
    }
    Ok(())
}

impl WeightMatrix {
    /// The layout of the weights on the GPU.
    fn packing(&self, stored: Stored) -> Packing {
        let float = |value_bytes: u32| {
            let row = self.k.saturating_mul(value_bytes);
            RowTiles { rows: self.n, stride: row, kept: row, unit: FLOAT_UNIT, multiple: FLOAT_UNITS }
        };
        match (&self.values, stored) {
            (Values::Q4(_, Layout { n, k, weight_stride, .. }), _) => {
                Packing::Rows(RowTiles { rows: *n, stride: *weight_stride, kept: k / 2, unit: 16, multiple: 2 })
            }
            (Values::Floats { .. }, Stored::F32) => Packing::Rows(float(4)),
            (Values::Floats { .. }, _) => Packing::Halves(float(2)),
        }
    }

    fn tiles(&self) -> u32 {
        self.n.div_ceil(TILE_ROWS)
    }

    /// The layout of the scales.
    fn scale_tiles(&self) -> Option<ScaleTiles> {
        let Values::Q4(_, Layout { n, k, group, scale_stride, by_row, .. }) = self.values else { return None };
        let stride = if by_row { k.checked_div(group).unwrap_or(0) } else { scale_stride };
        Some(ScaleTiles { rows: n, stride, by_row, units: k / UNIT_VALUES, units_per_scale: group / UNIT_VALUES })
    }

    /// Checks a matrix and its bias.
    fn check(args: &Args<'_>, values: Values, bias: Option<TensorId>) -> Result<Self, OpError> {
        if let Some(bias) = bias {
            check_constant(args, "biases", bias, Elem::F32)?;
        }
        let (n, k) = match &values {
            Values::Q4(_, layout) => (layout.n, layout.k),
            Values::Floats { weight, .. } => {
                let dims = args.info(*weight).bound;
                (dims[0], dims[1])
            }
        };
        if n % 4 != 0 || n == 0 {
            return Err(OpError::new("weights", format!("has {n} rows, expected a multiple of 4")));
        }
        let long = |bias: &TensorId| {
            let dims = args.info(*bias).bound;
            dims.len() == 1 && dims[0] >= n
        };
        if let Some(short) = bias.filter(|bias| !long(bias)) {
            let dims = args.info(short).bound;
            return Err(OpError::new("biases", format!("has {dims}, but the output has {n} columns")));
        }
        Ok(Self { values, n, k, bias })
    }
}
