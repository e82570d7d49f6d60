//! Largest indices of the kernels. All share `fused_linear_params.wgsl`; their bindings differ by item type.

use super::Params;
use super::coop_matrix::PackParams;
use super::gemm::SwigluParams;
use super::prologue::QuantiseParams;
use super::weights::{MAX_MATRICES, NO_BIAS, Stored, UNIT_VALUES};
use crate::coop_matrix::SIDE;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};
use crate::packing::TILE_ROWS;

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

    /// The furthest bias in the scales buffer, plus one, for weights without scales.
    fn biases(&self, params: &Params) -> Counts {
        let bias = |(matrix, &columns): (usize, &Counts)| {
            let absent = columns.get() == 0 || params.bias[matrix] == NO_BIAS;
            if absent { count(0) } else { count(params.bias[matrix]) + columns }
        };
        self.0.iter().enumerate().map(bias).max().unwrap_or(count(0))
    }

    /// The furthest float of the scales buffer, plus one: scales of each matrix, and biases.
    fn scales(&self, params: &Params) -> Counts {
        let per_tile = count(params.k / UNIT_VALUES).next_multiple_of(8) / count(8) * count(params.scale_lanes) * count(4);
        let of_matrix = |(matrix, &columns): (usize, &Counts)| {
            if columns.get() == 0 {
                return count(0);
            }
            let tiles = count(params.first_tile[matrix]) + columns.next_multiple_of(TILE_ROWS) / count(TILE_ROWS);
            let bias = if params.bias[matrix] == NO_BIAS { count(0) } else { count(params.bias[matrix]) + columns };
            (tiles * per_tile).max(bias)
        };
        self.0.iter().enumerate().map(of_matrix).max().unwrap_or(count(0))
    }

    /// The furthest 16-byte unit of the weights, plus one; `None` if a column has fewer than k / 32.
    fn weights(&self, params: &Params, k: Counts) -> Option<Counts> {
        self.units(params, k, UNIT_VALUES)
    }

    /// The furthest unit of the weights, plus one; `None` if a column's units have less than k values.
    fn units(&self, params: &Params, k: Counts, unit_values: u32) -> Option<Counts> {
        if k > count(params.units) * count(unit_values) {
            return None;
        }
        let of_matrix = |(matrix, &columns): (usize, &Counts)| {
            if columns.get() == 0 {
                return count(0);
            }
            let tiles = count(params.first_tile[matrix]) + columns.next_multiple_of(TILE_ROWS) / count(TILE_ROWS);
            tiles * count(params.units) * count(TILE_ROWS)
        };
        self.0.iter().enumerate().map(of_matrix).max()
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
    let held = call.constant("ROWS")?;
    gemv_of(call, |rows| rows.min(held))
}

/// The same in blocks of rows (`fused_linear_q4gsw_gemv_serial.wgsl`).
pub(super) fn gemv_serial(call: &DispatchView<'_>) -> Option<Reached> {
    gemv_of(call, |rows| rows)
}

fn gemv_of(call: &DispatchView<'_>, reached: impl Fn(u32) -> u32) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 0)?;
    let (swiglu, wide) = (call.flag("GATED"), call.flag("WIDE"));
    let chunks = count(call.constant("CHUNKS")?);
    let rows = count(reached(params.m));
    let step = if wide { 8 } else { 4 };
    // Columns are processed in whole steps, also where fewer are left.
    let n = count(params.n).next_multiple_of(step);
    let mut columns = Columns::new(&params, u32::try_from(n.get()).ok()?)?;
    if wide && columns.0.iter().any(|columns| columns.get() % 8 != 0) {
        return None;
    }
    // The second factor of SwiGLU is the second matrix.
    if swiglu {
        if n.get() > params.first[1].into() {
            return None;
        }
        columns.0[1] = n;
    }
    let weights = columns.weights(&params, chunks * count(16))? * count(2);
    let x = (count(params.x_row) + rows) * chunks * count(4);
    let scales = columns.scales(&params);
    let addend = columns.addend(&params, rows);
    let read = Reached::new().array(x, 16).array_if(call.flag("NORM"), chunks * count(4), 16).array(weights, 8);
    let read = read.array(scales, 4);
    let read = IN_VECTORS(read, if params.has_addend == 1 { addend } else { count(0) });
    if swiglu {
        columns.0[1] = count(0);
    }
    Some(columns.outputs(read, &params, rows, IN_VECTORS))
}

/// The columns of a dispatch over whole tiles; `None` if its tiles are not those of the matrices.
fn columns_of_tiles(params: &Params, swiglu: bool) -> Option<Columns> {
    let mut columns = Columns([count(0); MAX_MATRICES]);
    let mut tiles = count(0);
    for matrix in 0..MAX_MATRICES {
        if params.first_tile[matrix] != u32::MAX && (!swiglu || matrix < 2) {
            // Matrices follow one another, or both factors of SwiGLU have the tiles of the dispatch.
            let own = count(params.width[matrix]).next_multiple_of(TILE_ROWS) / count(TILE_ROWS);
            if own.get() == 0 || (!swiglu && count(params.first_tile[matrix]).get() != tiles.get()) {
                return None;
            }
            tiles = if swiglu { own } else { tiles + own };
            if swiglu && own.get() != u64::from(params.tiles) {
                return None;
            }
            columns.0[matrix] = count(params.width[matrix]);
        }
    }
    (tiles.get() == u64::from(params.tiles)).then_some(columns)
}

/// Few rows with 8-bit dot products (`fused_linear_q4gsw_gemv_int8.wgsl`): whole tiles, whose columns past the last repeat its scales.
pub(super) fn gemv_int8(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.tiles > 0)?;
    let (swiglu, units) = (call.flag("GATED"), call.constant("UNITS").filter(|&units| units > 0)?);
    let rows = count(params.m);
    let vectors = count(units) * count(UNIT_VALUES / 4);
    let mut columns = columns_of_tiles(&params, swiglu)?;
    let weights = columns.weights(&params, count(units) * count(UNIT_VALUES))?;
    let alike = units == params.k / UNIT_VALUES
        && units.next_multiple_of(2) == params.units
        && call.constant("SCALE_LANES")? == params.scale_lanes
        && (!swiglu || call.constant("FACTOR_TILES")? == params.first_tile[1]);
    if !alike {
        return None;
    }
    let scales = columns.scales(&params);
    if swiglu {
        columns.0[1] = count(0);
    }
    let addend = columns.addend(&params, rows);
    let read = Reached::new().array((count(params.x_row) + rows) * vectors, 16).array_if(call.flag("NORM"), vectors, 16);
    let read = IN_VECTORS(read.array(weights, 16), scales).array_if(params.has_addend == 1, addend, 4);
    Some(columns.outputs(read, &params, rows, IN_FLOATS))
}

/// Many rows in tiles (`matmul_tile.wgsl`), which take k in slices of 32.
pub(super) fn gemm(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 0 && params.k > 0)?;
    let columns = Columns::new(&params, params.n)?;
    let (rows, k) = (count(params.m), count(params.k).next_multiple_of(32));
    let x = (rows - count(1)) * count(params.k) + k;
    let words = columns.weights(&params, k)? * count(4);
    let scales = columns.scales(&params);
    let read = Reached::new().fours(x, 16).array(words, 4).array(scales, 4);
    let read = read.array_if(params.has_addend == 1, columns.addend(&params, rows), 4);
    Some(columns.outputs(read, &params, rows, IN_FLOATS))
}

/// Values per unit of float weights.
fn float_unit_values(call: &DispatchView<'_>) -> u32 {
    if call.flag("HALF") { Stored::F16.unit_values() } else { Stored::F32.unit_values() }
}

/// Few rows with float weights (`fused_linear_float_gemv.wgsl`): whole tiles.
pub(super) fn float_gemv(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.tiles > 0)?;
    let (swiglu, units) = (call.flag("GATED"), call.constant("UNITS")?);
    let (rows, k) = (count(params.m), count(units) * count(float_unit_values(call)));
    let mut columns = columns_of_tiles(&params, swiglu)?;
    // The second factor's tiles follow those of the first.
    if k.get() != u64::from(params.k) || (swiglu && params.first_tile[1] != params.tiles) {
        return None;
    }
    // A unit is two loads of 16 bytes.
    let weights = columns.units(&params, k, float_unit_values(call))? * count(2);
    let biases = columns.biases(&params);
    if swiglu {
        columns.0[1] = count(0);
    }
    let vectors = k / count(4);
    let read = Reached::new().array((count(params.x_row) + rows) * vectors, 16).array_if(call.flag("NORM"), vectors, 16);
    let read = read.array(weights, 16).array(biases, 4);
    let read = read.array_if(params.has_addend == 1, columns.addend(&params, rows), 4);
    Some(columns.outputs(read, &params, rows, IN_FLOATS))
}

/// Many rows in tiles (`matmul_tile.wgsl`) with float weights, of which k past the end is read, and of rows is not.
pub(super) fn float_gemm(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.n > 0 && params.k > 0)?;
    let columns = Columns::new(&params, params.n)?;
    let (rows, k) = (count(params.m), count(params.k).next_multiple_of(32));
    // A unit is four loads of 8 bytes.
    let weights = columns.units(&params, k, float_unit_values(call))? * count(4);
    let read = Reached::new().fours(rows * count(params.k), 16).array(weights, 8).array(columns.biases(&params), 4);
    let read = read.array_if(params.has_addend == 1, columns.addend(&params, rows), 4);
    Some(columns.outputs(read, &params, rows, IN_FLOATS))
}

/// SwiGLU after the GEMM (`fused_linear_q4gsw_swiglu.wgsl`).
pub(super) fn swiglu(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<SwigluParams>()?;
    let all = count(params.count);
    Some(Reached::new().array(all, 16).array(all, 16).array_if(params.has_addend == 1, all, 16).array(all, 16))
}

/// Vectors of `f16` that are loaded as matrices, through pointers to vectors or to scalars.
fn matrix_elements(reached: Reached, call: &DispatchView<'_>, vectors: Counts) -> Option<Reached> {
    match call.type_bytes("E")? {
        2 => Some(reached.array(vectors * count(4), 2)),
        bytes => Some(reached.array(vectors, bytes)),
    }
}

/// Cooperative matrices (`fused_linear_q4gsw_coop_matrix.wgsl`, `fused_linear_q4gsw_split_k.wgsl`), with slices of two units along k:
/// surplus workgroups compute, with rows and columns clamped to the last.
pub(super) fn coop_matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.tiles > 0 && params.k > 0)?;
    let swiglu = call.flag("GATED");
    let whole = params.k.is_multiple_of(UNIT_VALUES) && (params.k / UNIT_VALUES).next_multiple_of(2) == params.units;
    if !whole || (swiglu && params.first_tile[1].checked_mul(2) != Some(params.tiles)) {
        return None;
    }
    let present = |matrix: usize| params.first_tile[matrix] != u32::MAX;
    let columns = |matrix: usize| count(if present(matrix) { params.width[matrix] } else { 0 });
    let all = Columns(std::array::from_fn(columns));
    // SwiGLU stores the first matrix's columns alone; both matrices have as many.
    let written = Columns(std::array::from_fn(|matrix| if swiglu && matrix > 0 { count(0) } else { columns(matrix) }));
    let (rows, units) = (count(params.m), count(params.units));
    let x = rows.next_multiple_of(SIDE) * units * count(UNIT_VALUES / 4);
    let weights = count(params.tiles) * units * count(TILE_ROWS);
    // Biases are read four at a time.
    let scales = all.scales(&params).next_multiple_of(4);
    let read = matrix_elements(Reached::new(), call, x)?.array(rows, 4).array(weights, 16).array(scales, 4);
    let read = IN_VECTORS(read, if params.has_addend == 1 { written.addend(&params, rows) } else { count(0) });
    Some(written.outputs(read, &params, rows, IN_VECTORS))
}

/// Cooperative matrices with float weights (`fused_linear_float_coop_matrix.wgsl`), whose subgroups share k evenly.
pub(super) fn float_coop_matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>().filter(|params| params.m > 0 && params.tiles > 0 && params.k > 0)?;
    let (swiglu, shares) = (call.flag("GATED"), call.constant("SHARES").filter(|&shares| shares > 0)?);
    if !params.units.is_multiple_of(2 * shares) || (swiglu && params.first_tile[1].checked_mul(2) != Some(params.tiles)) {
        return None;
    }
    let present = |matrix: usize| params.first_tile[matrix] != u32::MAX;
    let columns = |matrix: usize| count(if present(matrix) { params.width[matrix] } else { 0 });
    let all = Columns(std::array::from_fn(columns));
    let written = Columns(std::array::from_fn(|matrix| if swiglu && matrix > 0 { count(0) } else { columns(matrix) }));
    // A matrix is 64 vectors of four.
    let (rows, units) = (count(params.m), count(params.units));
    let x = rows.next_multiple_of(SIDE) / count(SIDE) * units * count(64);
    let weights = count(params.tiles) * units * count(64);
    let read = matrix_elements(matrix_elements(Reached::new(), call, x)?.array(rows, 4), call, weights)?;
    let read = read.array(all.biases(&params).next_multiple_of(4), 4);
    let read = IN_VECTORS(read, if params.has_addend == 1 { written.addend(&params, rows) } else { count(0) });
    Some(written.outputs(read, &params, rows, IN_VECTORS))
}

/// Rows as 16-bit floats (`fused_linear_q4gsw_pack_f16.wgsl`); workgroups past the last row repeat it.
pub(super) fn pack_f16(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<PackParams>().filter(|params| params.rows > 0)?;
    // Vectors are packed in pairs, and in matrices of four.
    if !params.vectors.is_multiple_of(2) || !params.packed_vectors.is_multiple_of(4) {
        return None;
    }
    let (rows, vectors) = (count(params.rows), count(params.vectors));
    let packed = rows.next_multiple_of(SIDE) * count(params.packed_vectors);
    let read = Reached::new().array(rows * vectors, 16).array_if(call.flag("NORM"), vectors, 16);
    Some(read.array(packed, 8).array(rows, 4))
}

/// Rows as quantised floats (`fused_linear_q4gsw_quantise.wgsl`).
pub(super) fn quantise(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<QuantiseParams>()?;
    let (rows, vectors) = (count(params.rows), count(params.vectors));
    let read = Reached::new().array((count(params.x_row) + rows) * vectors, 16);
    Some(read.array_if(call.flag("NORM"), vectors, 16).array(rows * vectors, 16))
}
