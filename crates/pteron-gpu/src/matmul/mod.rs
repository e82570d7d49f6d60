//! Shared code of operators that multiply rows of activations by rows of weights, `out [m, n] = x [m, k] · weight [n, k]ᵀ +
//! bias`: kernel selection, grids and parameters. The WGSL side is `include/matmul_*.wgsl`.

pub(crate) mod batched;
mod q4;
mod q4_reach;
pub(crate) mod score_slices;

pub(crate) use q4::{Layout, Q4};
pub(crate) use q4_reach::{reach, reach_in_vectors};

use crate::error::OpError;
use crate::includes;
use crate::kernel::{Include, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{Bind, Caps, Dispatch, GridKind, PlanCx, Recipe};
use crate::shape::Dims;

/// WGSL that the kernels of matrix products share.
pub(crate) const INCLUDES: &[Include] = includes![
    "batched_matmul",
    "f32_weights",
    "float_activations",
    "matmul_activations",
    "matmul_gemm",
    "matmul_gemv",
    "matmul_gemv_blocks",
    "matmul_params",
    "matmul_store",
    "matmul_tile",
    "q4_dequantise",
    "q4_gemv_wide",
    "q4_weights",
    "q8_activations",
];

/// Up to this many rows of activations the GEMV kernels run, which load the weights once per eight rows; with more rows the
/// tiled GEMM kernels run.
pub(crate) const GEMV_MAX_ROWS: u32 = 8;

/// Rows of activations per GEMV workgroup, one recipe each: unused rows are wasted work.
pub(crate) const GEMV_ROWS: [u32; 4] = [1, 2, 4, 8];

/// Columns per GEMV workgroup.
const GEMV_COLUMNS: u32 = 4;

/// Sides of GEMM tiles, one recipe each: the large one loads less, the small one gives more workgroups.
pub(crate) const GEMM_TILES: [u32; 2] = [64, 32];

/// With fewer workgroups than this the small tile is selected: large GPUs have about as many processors.
const GEMM_FULL_GRID: u32 = 128;

/// Recipes per product.
pub(crate) const RECIPES: usize = GEMV_ROWS.len() + GEMM_TILES.len();

params! {
    /// Of `include/matmul_params.wgsl`.
    pub(crate) struct Params {
        m: u32, n: u32, k: u32, has_bias: u32, group: u32, weight_stride: u32, scale_stride: u32, last_word: u32,
    }
}

/// The type of a load of `x`, which the kernels leave open.
pub(crate) const TYPES: &[(&str, &[&str])] = &[("X", &["vec4<f32>", "f32"])];

/// A kernel that loads activations as vectors of four along k, where k is a multiple of 4, or one by one.
pub(crate) fn reading(variant: Variant, wide: bool) -> Variant {
    variant.with("WIDE", wide.into()).with_type("X", if wide { "vec4<f32>" } else { "f32" })
}

/// The recipes of both kernels, in the order that [`dispatch`] selects from.
pub(crate) fn recipes(gemv: &Variant, gemm: &Variant, binds: &[Bind]) -> impl Iterator<Item = Recipe> {
    let gemv = GEMV_ROWS.iter().map(|&rows| gemv.clone().with("ROWS", rows));
    let gemm = GEMM_TILES.iter().map(|&tile| gemm.clone().with("TILE", tile));
    gemv.chain(gemm).map(|variant| Recipe::new(variant, binds.iter().copied()))
}

/// The recipe for `m` rows and `n` columns, counted from the product's first, and its workgroups.
fn choose(caps: Caps, m: u32, n: u32) -> (usize, u64) {
    if m <= GEMV_MAX_ROWS {
        let held = gemv_holding(m);
        return (held, u64::from(m.div_ceil(GEMV_ROWS[held])) * u64::from(n.div_ceil(GEMV_COLUMNS)));
    }
    let (tile, groups) = gemm_tiles(caps, m, n);
    (GEMV_ROWS.len() + tile, groups)
}

/// Selects the GEMM recipe for `m` rows and `n` columns; returns its index and workgroups.
pub(crate) fn gemm_tiles(caps: Caps, m: u32, n: u32) -> (usize, u64) {
    let groups = GEMM_TILES.map(|side| u64::from(m.div_ceil(side)) * u64::from(n.div_ceil(side)));
    let [large, small] = groups;
    if large >= caps.filled(GridKind::Tiles, GEMM_FULL_GRID).into() { (0, large) } else { (1, small) }
}

/// The GEMV recipe for `m` rows, or the one with the most rows.
pub(crate) fn gemv_holding(m: u32) -> usize {
    GEMV_ROWS.iter().position(|&rows| m <= rows).unwrap_or(GEMV_ROWS.len() - 1)
}

/// The dispatch of a product, with the recipes that start at `first`; `None` if the output is empty.
pub(crate) fn dispatch(caps: Caps, first: usize, params: &Params) -> Result<Option<Dispatch>, OpError> {
    let (recipe, groups) = choose(caps, params.m, params.n);
    Dispatch::groups(first + recipe, params, groups)
}

/// The tensors around the weights.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The activations, `[.., k]`.
    pub(crate) x: TensorId,
    /// The bias added to each row of the output, `[n]`.
    pub(crate) bias: Option<TensorId>,
    /// The output, `[.., n]`.
    pub(crate) out: TensorId,
}

impl Frame {
    /// The dims of the output and the parameters of every product, for consistent live shapes. A bias may be longer than the
    /// output: exporters pad those of quantised weights.
    pub(crate) fn sizes(&self, cx: &PlanCx<'_>, n: u32, k: u32) -> Result<(Dims, Params), OpError> {
        let x = cx.dims(self.x);
        if x.is_empty() || x.last() != k {
            return Err(OpError::new("x", format!("is {x}, but the weights have {k} columns")));
        }
        let m =
            u32::try_from(x.rows()).map_err(|_| OpError::new("x", format!("is {x}, with more rows than kernels count")))?;
        let bias = self.bias.map(|bias| cx.dims(bias));
        if let Some(bias) = bias.filter(|bias| bias.len() != 1 || bias[0] < n) {
            return Err(OpError::new("bias", format!("is {bias}, but the output has {n} columns")));
        }
        let params = Params { m, n, k, has_bias: self.bias.is_some().into(), ..Params::default() };
        Ok((x.with(x.len() - 1, n), params))
    }
}

/// Checks that there is a number for each of `m` rows of activations.
pub(crate) fn check_rows(name: &'static str, dims: Dims, m: u32) -> Result<(), OpError> {
    if dims.count() == u64::from(m) {
        return Ok(());
    }
    Err(OpError::new(name, format!("is {dims}, expected one for each of the input's {m} rows")))
}

/// The product on the host. `x` and `weight` return the element of a row and a column.
#[cfg(any(test, feature = "reference"))]
pub(crate) fn reference(
    params: &Params,
    x: impl Fn(usize, usize) -> f64,
    weight: impl Fn(usize, usize) -> f64,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    let (n, k) = (params.n as usize, params.k as usize);
    let element = |index: usize| {
        let (row, column) = (index / n, index % n);
        let sum: f64 = (0..k).map(|k| x(row, k) * weight(column, k)).sum();
        to_f32(sum + bias.map_or(0.0, |bias| f64::from(bias[column])))
    };
    (0..params.m as usize * n).map(element).collect()
}

/// Rounds a sum to 32 bits.
pub(crate) fn to_f32(sum: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    let rounded = sum as f32;
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(m: u32, n: u32) -> (usize, u64) {
        super::choose(Caps::PORTABLE, m, n)
    }

    #[test]
    fn few_rows_take_the_gemv_that_holds_them() {
        for (m, recipe, groups) in [(1, 0, 25), (2, 1, 25), (3, 2, 25), (4, 2, 25), (5, 3, 25), (8, 3, 25)] {
            assert_eq!(choose(m, 99), (recipe, groups), "{m} rows");
        }
        assert_eq!(choose(0, 99).1, 0);
        assert_eq!(choose(5, 0).1, 0);
    }

    #[test]
    fn many_rows_take_tiles_small_ones_where_large_ones_are_few() {
        assert_eq!(choose(9, 99), (5, 4));
        assert_eq!(choose(127, 2048), (5, 4 * 64));
        assert_eq!(choose(129, 8192), (4, 3 * 128));
        let small = Caps { fill_percent: 25, ..Caps::PORTABLE };
        assert_eq!(super::choose(small, 127, 2048), (4, 2 * 32));
    }
}
