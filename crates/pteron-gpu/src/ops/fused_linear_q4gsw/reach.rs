//! How far the kernels reach. All share `fused_linear_params.wgsl`; what they bind differs by the type of an item.

use super::Params;
use super::coop_matrix::PackParams;
use super::gemm::GateParams;
use super::weights::{MAX_MATRICES, NO_BIAS};
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// The columns of each part that a dispatch computes: `part_of` and the shaders' differences to `first` in one place.
struct Columns([Counts; MAX_MATRICES]);

impl Columns {
    /// For all columns below `n`; none where parts do not follow one another from the first column on.
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

    /// The furthest float of the scales buffer, plus one: scales of each part up to so many groups, and biases.
    fn scales(&self, params: &Params, groups: Counts) -> Counts {
        let of_part = |(part, &columns): (usize, &Counts)| {
            if columns.get() == 0 {
                return count(0);
            }
            let scales = count(params.scales[part]) + groups * count(params.scale_stride[part]) + columns;
            let bias = if params.bias[part] == NO_BIAS { count(0) } else { count(params.bias[part]) + columns };
            scales.max(bias)
        };
        self.0.iter().enumerate().map(of_part).max().unwrap_or(count(0))
    }

    /// The furthest float of a part's output, plus one, for `rows` rows.
    fn output(&self, params: &Params, part: usize, rows: Counts) -> Counts {
        let columns = self.0[part];
        if columns.get() == 0 { columns } else { (rows - count(1)) * count(params.width[part]) + columns }
    }

    /// The same for an addend, which lies as the outputs do, from a row of its own on.
    fn addend(&self, params: &Params, rows: Counts) -> Counts {
        let of_part = |part: usize| {
            let first = count(params.addend_row) * count(params.width[part]);
            if self.0[part].get() == 0 { count(0) } else { first + self.output(params, part, rows) }
        };
        (0..MAX_MATRICES).map(of_part).max().unwrap_or(count(0))
    }

    fn outputs(&self, mut reached: Reached, params: &Params, rows: Counts, put: Put) -> Reached {
        for part in 0..MAX_MATRICES {
            reached = put(reached, self.output(params, part, rows));
        }
        reached
    }
}

/// Floats of a binding, one by one or in vectors.
type Put = fn(Reached, Counts) -> Reached;
const IN_FLOATS: Put = |reached, floats| reached.array(floats, 4);
const IN_VECTORS: Put = |reached, floats| reached.fours(floats, 16);

/// A few rows (`fused_linear_gemv.wgsl`). Threads go through all chunks of four rows of weights, or of twice four.
pub(super) fn gemv(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 0)?;
    let (gated, wide) = (call.flag("GATED"), call.flag("WIDE"));
    let chunks = count(call.constant("CHUNKS")?);
    let rows = count(params.m).min(count(call.constant("ROWS")?));
    let step = if wide { 8 } else { 4 };
    // Columns come in whole steps, also where fewer are left.
    let n = count(params.n).next_multiple_of(step);
    let mut columns = Columns::new(&params, u32::try_from(n.get()).ok()?)?;
    if wide && columns.0.iter().any(|columns| columns.get() % 8 != 0) {
        return None;
    }
    // The other side of a gate is the second part, from its first column on.
    let last_row = if gated { count(params.first[1]) + n } else { n };
    if gated {
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
    if gated {
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

/// What a gate lets through (`fused_linear_q4gsw_swiglu.wgsl`).
pub(super) fn gate(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<GateParams>()?;
    let all = count(params.count);
    Some(Reached::new().array(all, 16).array(all, 16).array_if(params.has_addend == 1, all, 16).array(all, 16))
}

/// Many rows as matrices (`fused_linear_q4gsw_coop_matrix.wgsl`), which take k in slices of 64: surplus workgroups compute, but rows and
/// columns past the last are the last.
pub(super) fn matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 1 && params.group > 0)?;
    if params.k < 64 || params.k % 64 != 0 {
        return None;
    }
    let gated = call.flag("GATED");
    let all = Columns::new(&params, params.n)?;
    let last_column = if gated { count(params.n / 2 - 1) + count(params.first[1]) } else { count(params.n - 1) };
    // Of gated parts only the first is written, and both halves have as many columns.
    let written = Columns::new(&params, if gated { params.n / 2 } else { params.n })?;
    let (rows, k) = (count(params.m), count(params.k));
    let weights = last_column * count(params.weight_stride / 8) + k / count(16);
    // Biases are read four at a time.
    let scales = all.scales(&params, (k - count(16)) / count(params.group)).next_multiple_of(4);
    let read = Reached::new().array(rows * (k / count(4)), 8).array(rows, 4).array(weights, 8).array(scales, 4);
    let read = IN_VECTORS(read, if params.has_addend == 1 { written.addend(&params, rows) } else { count(0) });
    Some(written.outputs(read, &params, rows, IN_VECTORS))
}

/// Rows as 16-bit floats (`fused_linear_q4gsw_pack_f16.wgsl`); workgroups past the last row repeat it.
pub(super) fn pack(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<PackParams>().filter(|params| params.rows > 0)?;
    let (rows, vectors) = (count(params.rows), count(params.vectors));
    let read = Reached::new().array(rows * vectors, 16).array_if(call.flag("NORM"), vectors, 16);
    Some(read.array(rows * vectors, 8).array(rows, 4))
}
