//! Largest indices of the kernels. All share `fused_linear_params.wgsl`; their bindings differ by item type.

use super::Params;
use super::coop_matrix::PackParams;
use super::gemm::SwigluParams;
use super::weights::{MAX_MATRICES, NO_BIAS};
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// The columns of each matrix that a dispatch computes, as in `matrix_of` of the shaders.
struct Columns([Counts; MAX_MATRICES]);

impl Columns {
    /// For all columns below `n`; `None` if matrices are not adjacent from the first column on.
    fn new(params: &Params, n: u32) -> Option<Self> {
        let [first, second, third, _] = params.first;
        let ends = [second.min(third).min(n), third.min(n), n];
        let starts = [first, second, third];
        if first != 0 || second > third || second == 0 {
            return None;
        }
        let mut columns = [count(0); MAX_MATRICES];
        for (columns, (end, start)) in columns.iter_mut().zip(ends.into_iter().zip(starts)) {
            *columns = count(end) - count(start);
        }
        Some(Self(columns))
    }

    /// The furthest float of the scales buffer, plus one: scales of each matrix for this many groups, and biases.
    fn scales(&self, params: &Params, groups: Counts) -> Counts {
        let of_matrix = |(matrix, &columns): (usize, &Counts)| {
            if columns.get() == 0 {
                return count(0);
            }
            let scales = count(params.scales[matrix]) + groups * count(params.scale_stride[matrix]) + columns;
            let bias = if params.bias[matrix] == NO_BIAS { count(0) } else { count(params.bias[matrix]) + columns };
            scales.max(bias)
        };
        self.0.iter().enumerate().map(of_matrix).max().unwrap_or(count(0))
    }

    /// The furthest float of a matrix's output, plus one, for `rows` rows.
    fn output(&self, params: &Params, matrix: usize, rows: Counts) -> Counts {
        let columns = self.0[matrix];
        if columns.get() == 0 { columns } else { (rows - count(1)) * count(params.width[matrix]) + columns }
    }

    /// The same for an addend, which has the layout of the outputs and its own first row.
    fn addend(&self, params: &Params, rows: Counts) -> Counts {
        let of_matrix = |matrix: usize| {
            let first = count(params.addend_row) * count(params.width[matrix]);
            if self.0[matrix].get() == 0 { count(0) } else { first + self.output(params, matrix, rows) }
        };
        (0..MAX_MATRICES).map(of_matrix).max().unwrap_or(count(0))
    }

    fn outputs(&self, mut reached: Reached, params: &Params, rows: Counts, put: Put) -> Reached {
        for matrix in 0..MAX_MATRICES {
            reached = put(reached, self.output(params, matrix, rows));
        }
        reached
    }
}

/// Floats of a binding, one by one or in vectors.
type Put = fn(Reached, Counts) -> Reached;
const IN_FLOATS: Put = |reached, floats| reached.array(floats, 4);
const IN_VECTORS: Put = |reached, floats| reached.fours(floats, 16);

/// Few rows (`fused_linear_gemv.wgsl`): all chunks of four or eight columns.
pub(super) fn gemv(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 0)?;
    let (swiglu, wide) = (call.flag("GATED"), call.flag("WIDE"));
    let chunks = count(call.constant("CHUNKS")?);
    let rows = count(params.m).min(count(call.constant("ROWS")?));
    let step = if wide { 8 } else { 4 };
    // Columns are processed in whole steps, also where fewer are left.
    let n = count(params.n).next_multiple_of(step);
    let mut columns = Columns::new(&params, u32::try_from(n.get()).ok()?)?;
    if wide && columns.0.iter().any(|columns| columns.get() % 8 != 0) {
        return None;
    }
    // The second factor of SwiGLU is the second matrix, from its first column on.
    let last_row = if swiglu { count(params.first[1]) + n } else { n };
    if swiglu {
        if n.get() > params.first[1].into() {
            return None;
        }
        columns.0[1] = n;
    }
    let groups = (chunks - count(1)) / count(call.constant("CHUNKS_PER_SCALE")?);
    let weights = (last_row - count(1)) * count(params.weight_stride / 8) + chunks;
    let x = (count(params.x_row) + rows) * chunks * count(4);
    let scales = columns.scales(&params, groups);
    let addend = columns.addend(&params, rows);
    let read = Reached::new().array(x, 16).array_if(call.flag("NORM"), chunks * count(4), 16).array(weights, 8);
    let read = IN_VECTORS(read, scales);
    let read = IN_VECTORS(read, if params.has_addend == 1 { addend } else { count(0) });
    if swiglu {
        columns.0[1] = count(0);
    }
    Some(columns.outputs(read, &params, rows, IN_VECTORS))
}

/// Many rows in tiles (`matmul_tile.wgsl`), which take k in slices of 32.
pub(super) fn gemm(call: &DispatchView<'_>) -> Option<Reached> {
    let params =
        call.params::<Params>().filter(|params| params.m > 0 && params.n > 0 && params.k > 0 && params.group > 0)?;
    let columns = Columns::new(&params, params.n)?;
    let (rows, k) = (count(params.m), count(params.k).next_multiple_of(32));
    let x = (rows - count(1)) * count(params.k) + k;
    let words = (count(params.n) - count(1)) * count(params.weight_stride / 4) + k / count(8);
    let scales = columns.scales(&params, (k - count(4)) / count(params.group));
    let read = Reached::new().fours(x, 16).array(words, 4).array(scales, 4);
    let read = read.array_if(params.has_addend == 1, columns.addend(&params, rows), 4);
    Some(columns.outputs(read, &params, rows, IN_FLOATS))
}

/// SwiGLU after the GEMM (`fused_linear_q4gsw_swiglu.wgsl`).
pub(super) fn swiglu(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<SwigluParams>()?;
    let all = count(params.count);
    Some(Reached::new().array(all, 16).array(all, 16).array_if(params.has_addend == 1, all, 16).array(all, 16))
}

/// Cooperative matrices (`fused_linear_q4gsw_coop_matrix.wgsl`), with slices of 64 along k: surplus workgroups compute, with rows and columns
/// clamped to the last.
pub(super) fn coop_matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 1 && params.group > 0)?;
    if params.k < 64 || params.k % 64 != 0 {
        return None;
    }
    let swiglu = call.flag("GATED");
    let all = Columns::new(&params, params.n)?;
    let last_column = if swiglu { count(params.n / 2 - 1) + count(params.first[1]) } else { count(params.n - 1) };
    // SwiGLU stores the first matrix's columns alone; both matrices have as many.
    let written = Columns::new(&params, if swiglu { params.n / 2 } else { params.n })?;
    let (rows, k) = (count(params.m), count(params.k));
    let weights = last_column * count(params.weight_stride / 8) + k / count(16);
    // Biases are read four at a time.
    let scales = all.scales(&params, (k - count(16)) / count(params.group)).next_multiple_of(4);
    let read = Reached::new().array(rows * (k / count(4)), 8).array(rows, 4).array(weights, 8).array(scales, 4);
    let read = IN_VECTORS(read, if params.has_addend == 1 { written.addend(&params, rows) } else { count(0) });
    Some(written.outputs(read, &params, rows, IN_VECTORS))
}

/// Rows as 16-bit floats (`fused_linear_q4gsw_pack_f16.wgsl`); workgroups past the last row repeat it.
pub(super) fn pack_f16(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<PackParams>().filter(|params| params.rows > 0)?;
    let (rows, vectors) = (count(params.rows), count(params.vectors));
    let read = Reached::new().array(rows * vectors, 16).array_if(call.flag("NORM"), vectors, 16);
    Some(read.array(rows * vectors, 8).array(rows, 4))
}
