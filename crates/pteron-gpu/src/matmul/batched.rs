//! Batched products of two activation tensors: `out [m, n] = alpha · x · weight + beta · addend`, the weight being `[k, n]`,
//! or `[n, k]` if it is read transposed. The WGSL side is `include/batched_matmul.wgsl`.

use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{self, GEMV_ROWS};
use crate::params;
use crate::plan::{Bind, Dispatch, Recipe};
use crate::shape::{Dims, MAX_RANK, innermost_first};

const TYPES: &[(&str, &[&str])] = &[("X", &["vec4<f32>", "f32"]), ("W", &["vec4<f32>", "f32"])];

/// For few rows.
pub(crate) static GEMV: KernelDef =
    KernelDef::new("batched_matmul_gemv", include_str!("batched_matmul_gemv.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(TYPES);
/// For many rows.
pub(crate) static GEMM: KernelDef =
    KernelDef::new("batched_matmul_gemm", include_str!("batched_matmul_gemm.wgsl"), Params::FIELDS)
        .with_includes(&[matmul::INCLUDES])
        .with_types(TYPES);

params! {
    /// Of `include/batched_matmul.wgsl`.
    pub(crate) struct Params {
        m: u32, n: u32, k: u32, batches: u32,
        first_batch: u32, rank: u32,
        x_base: u32, x_row: u32, x_column: u32, x_batch: u32,
        out_base: u32, out_row: u32, out_column: u32, out_batch: u32,
        has_addend: u32, addend_base: u32, addend_row: u32, addend_column: u32,
        alpha: f32, beta: f32,
        lanes: u32, pad: [u32; 3],
        dims: [u32; MAX_RANK], x_strides: [u32; MAX_RANK], weight_strides: [u32; MAX_RANK], addend_strides: [u32; MAX_RANK],
    }
}

impl Params {
    /// The same product as outᵀ = weightᵀ · xᵀ, with x and weight swapped.
    pub(crate) fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            x_row: 1,
            x_column: self.n,
            x_strides: self.weight_strides,
            weight_strides: self.x_strides,
            out_row: self.out_column,
            out_column: self.out_row,
            addend_row: self.addend_column,
            addend_column: self.addend_row,
            ..self
        }
    }
}

/// The sides of the GEMM's tiles.
const TILE: u32 = 64;
/// With fewer tiles than this, a large GPU takes as long as for this many.
const FULL_GRID: u64 = 256;
/// The relative cost of a product in the GEMV kernel, which reads the weight again for every eight rows; in a tile it is 1.
/// With both operands read in vectors, and otherwise. Measured on a large GPU.
const GEMV_COST: u64 = 4;
const GEMV_NARROW_COST: u64 = 16;

/// The threads of a GEMV workgroup.
const GEMV_THREADS: u32 = 256;
/// With this many workgroups, a large GPU has the most loads in flight.
const GEMV_FULL_GRID: u64 = 256;
/// Fewer lanes than this read less adjacent memory of a weight `[k, n]` than one transaction. That pays off only with fewer
/// workgroups than [`GEMV_HALF_IDLE`].
const GEMV_LANES: u32 = 4;
const GEMV_HALF_IDLE: u64 = 64;

/// Memory layout of the operands: the weight as `[n, k]` or `[k, n]`, and each operand loaded in vectors of four or one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperandLayout {
    pub(crate) transposed: bool,
    pub(crate) wide_x: bool,
    pub(crate) wide_weight: bool,
    /// Whether rows never exceed those of the GEMV kernel.
    pub(crate) few_rows: bool,
}

impl OperandLayout {
    /// Number of recipes: the GEMV for several numbers of rows, and the GEMM.
    pub(crate) fn count(&self) -> usize {
        GEMV_ROWS.len() + usize::from(!self.few_rows)
    }

    /// Its recipes, in the order that [`dispatch`](Self::dispatch) chooses from.
    pub(crate) fn recipes(&self, binds: &[Bind]) -> Vec<Recipe> {
        let ty = |wide| if wide { "vec4<f32>" } else { "f32" };
        let [gemv, gemm] = [&GEMV, &GEMM].map(|kernel| {
            let weight = Variant::new(kernel).with_type("W", ty(self.wide_weight));
            let variant = weight.with("WIDE_WEIGHT", self.wide_weight.into()).with("TRANSPOSED", self.transposed.into());
            matmul::reading(variant, self.wide_x)
        });
        let gemv = GEMV_ROWS.iter().map(|&rows| gemv.clone().with("ROWS", rows));
        let variants = gemv.chain([gemm.with("TILE", TILE)]).take(self.count());
        variants.map(|variant| Recipe::new(variant, binds.iter().copied())).collect()
    }

    /// The index of a layout's first recipe among those of all `ways`.
    fn first(&self, ways: &[Self]) -> usize {
        ways.iter().take_while(|way| *way != self).map(Self::count).sum()
    }

    /// The dispatch of a product in this layout, one of `ways`; `None` if there are no outputs.
    pub(crate) fn dispatch(&self, ways: &[Self], params: Params) -> Result<Option<Dispatch>, OpError> {
        let (recipe, lanes, groups) = self.choose(&params);
        Dispatch::groups(self.first(ways) + recipe, &Params { lanes, ..params }, groups)
    }

    /// The lanes of four columns per GEMV workgroup: as many as leave enough workgroups, so that few threads share a
    /// reduction, but few enough that each thread of a lane has two blocks of four along k.
    fn lanes(&self, k: u32, groups: impl Fn(u32) -> u64) -> u32 {
        let fewest = GEMV_THREADS / k.div_ceil(8).next_power_of_two().clamp(1, GEMV_THREADS);
        let mut lanes = GEMV_THREADS;
        while lanes > fewest && groups(lanes) < GEMV_FULL_GRID {
            lanes /= 2;
        }
        if !self.transposed && lanes < GEMV_LANES && groups(GEMV_LANES) >= GEMV_HALF_IDLE { GEMV_LANES } else { lanes }
    }

    /// The recipe, counted from the layout's first, the lanes per workgroup, and the number of workgroups.
    fn choose(&self, params: &Params) -> (usize, u32, u64) {
        let &Params { m, n, k, batches, .. } = params;
        let groups = |rows: u32, columns: u32| {
            (u64::from(m.div_ceil(rows)) * u64::from(n.div_ceil(columns))).saturating_mul(batches.into())
        };
        let held = matmul::gemv_holding(m);
        let rows = GEMV_ROWS[held];
        let cost = if self.wide_x && self.wide_weight { GEMV_COST } else { GEMV_NARROW_COST };
        let gemv = groups(rows, 1).saturating_mul(cost * u64::from(rows));
        let tiles = groups(TILE, TILE);
        if self.few_rows || gemv <= tiles.max(FULL_GRID).saturating_mul((TILE * TILE).into()) {
            let lanes = self.lanes(k, |lanes| groups(rows, 4 * lanes));
            (held, lanes, groups(rows, 4 * lanes))
        } else {
            (GEMV_ROWS.len(), 0, tiles)
        }
    }
}

/// The dims of a batch of matrices: the last two, and the batch dims before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixDims {
    pub(crate) batch: Dims,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

impl MatrixDims {
    /// `None` if there are fewer than two dims.
    pub(crate) fn of(dims: &Dims) -> Option<Self> {
        let (batch, &[rows, columns]) = dims.split_last_chunk::<2>()?;
        Some(Self { batch: Dims::new(batch)?, rows, columns })
    }

    /// The stride from one batch to the next along each dim of `batch`, innermost first; 0 where it is broadcast. `None` if
    /// it cannot be broadcast.
    pub(crate) fn strides(&self, batch: &Dims) -> Option<[u32; MAX_RANK]> {
        let strides = self.batch.broadcast_strides(batch)?;
        let elements = self.rows.saturating_mul(self.columns);
        Some(innermost_first(&strides[..batch.len()], 0).map(|stride| stride.saturating_mul(elements)))
    }
}

/// The parameters of a call's batches.
pub(crate) fn batches(batch: &Dims) -> Params {
    let rank = u32::try_from(batch.len()).unwrap_or(0);
    Params { batches: batch.count_u32(), rank, dims: innermost_first(batch, 1), ..Params::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: OperandLayout = OperandLayout { transposed: false, wide_x: true, wide_weight: true, few_rows: false };

    fn choose(way: OperandLayout, [batches, m, n, k]: [u32; 4]) -> (usize, u32, u64) {
        way.choose(&Params { batches, m, n, k, ..Params::default() })
    }

    #[test]
    fn threads_share_k_as_far_as_it_goes_and_workgroups_need() {
        for (n, k, expected) in [
            (4096, 4096, (0, 4, 256)),
            (4096, 24, (0, 64, 16)),
            (4096, 0, (0, 256, 4)),
            (262_144, 64, (0, 256, 256)),
            (16_384, 1024, (0, 16, 256)),
            (1024, 16_384, (0, 4, 64)),
            (64, 1 << 20, (0, 1, 16)),
            (64, 17, (0, 64, 1)),
        ] {
            assert_eq!(choose(WIDE, [1, 1, n, k]), expected, "{n} {k}");
        }
        assert_eq!(choose(WIDE, [32, 1, 64, 4096]), (0, 4, 128));
        let transposed = OperandLayout { transposed: true, ..WIDE };
        assert_eq!(choose(transposed, [1, 1, 1024, 16_384]), (0, 1, 256));
        assert_eq!(choose(WIDE, [1, 0, 64, 64]).2, 0);
        assert_eq!(choose(WIDE, [1, 64, 0, 64]).2, 0);
        assert_eq!(choose(WIDE, [0, 64, 64, 64]).2, 0);
    }

    #[test]
    fn tiles_are_for_many_rows_and_columns() {
        for (m, n, batches, gemm) in [
            (8, 4096, 1, false),
            (16, 4096, 1, false),
            (64, 4096, 1, false),
            (100, 2048, 1, false),
            (512, 2048, 1, true),
            (64, 8192, 1, true),
            (8, 100_000, 1, false),
            (24, 100_000, 1, true),
            (4096, 64, 1, false),
            (1024, 64, 16, true),
            (197, 197, 12, true),
        ] {
            assert_eq!(choose(WIDE, [batches, m, n, 512]).0 == GEMV_ROWS.len(), gemm, "{m} {n} {batches}");
        }
        let narrow = OperandLayout { wide_x: false, ..WIDE };
        assert_eq!(choose(narrow, [1, 100, 2048, 511]).0, GEMV_ROWS.len());
        assert_eq!(choose(OperandLayout { few_rows: true, ..narrow }, [1, 8, 1 << 20, 511]).0, 3);
    }

    #[test]
    fn matrices_repeat_where_a_batch_dim_is_1() {
        let dims = |dims: &[u32]| Dims::new(dims).unwrap();
        let few = MatrixDims::of(&dims(&[3, 1, 5, 7])).unwrap();
        assert_eq!((few.rows, few.columns), (5, 7));
        assert_eq!(few.strides(&dims(&[2, 3, 4])).unwrap()[..3], [0, 35, 0]);
        assert_eq!(few.strides(&dims(&[4, 4])), None);
        assert_eq!(MatrixDims::of(&dims(&[5, 7])).unwrap().strides(&dims(&[2])).unwrap()[..1], [0]);
        assert!(MatrixDims::of(&dims(&[5])).is_none());
    }
}
