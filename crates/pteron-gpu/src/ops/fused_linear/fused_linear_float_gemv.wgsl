// Fused linears with float weights, few rows. A workgroup computes a tile of 16 columns of ROWS rows, of both factors for SwiGLU.
// A thread has one column and every SLOTS-th unit of k, which is two loads of 16 bytes; neighbouring threads load neighbouring
// columns, and share loads of activations. With a norm, its weights are multiplied in and squares summed in the same loop. One
// barrier later a thread per output adds the sums of the slots. With one slot, on software adapters, there is no barrier.

//#include grid
//#include fused_linear_params
//#include fused_linear_float
//#include fused_linear_store
//#include silu

alias O = f32;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<f32>;
@group(0) @binding(6) var<storage, read_write> out0: array<f32>;
@group(0) @binding(7) var<storage, read_write> out1: array<f32>;
@group(0) @binding(8) var<storage, read_write> out2: array<f32>;

// Rows of activations per workgroup; rows past the last repeat it and are not stored.
override ROWS: u32 = 1u;
override NORM: u32 = 0u;
override GATED: u32 = 0u;
override SLOTS: u32 = 4u;
// Units of k that have values.
override UNITS: u32 = 1u;

const MAX_ROWS: u32 = 4u;
override THREADS: u32 = SLOTS * 16u;
// Vectors of activations per unit.
override VECTORS: u32 = 2u + 2u * HALF;
override STEPS: u32 = (UNITS + SLOTS - 1u) / SLOTS;

// Sums of the slots, by row, factor, slot and column; and squares, by row and slot.
var<workgroup> partials: array<f32, ROWS * (1u + GATED) * THREADS>;
var<workgroup> square_partials: array<f32, ROWS * SLOTS>;

var<private> sums: array<f32, MAX_ROWS>;
var<private> up_sums: array<f32, MAX_ROWS>;
var<private> squares: array<f32, MAX_ROWS>;

// The values of a unit; of 32-bit values there are half as many.
struct Unit {
    first: vec4<u32>,
    second: vec4<u32>,
}

fn unit_at(at: u32) -> Unit {
    return Unit(weight[at], weight[at + 1u]);
}

// Four values of a unit, by the index of their vector.
fn values_of(unit: Unit, vector: u32) -> vec4<f32> {
    let both = select(unit.first, unit.second, vector / (VECTORS / 2u) == 1u);
    if HALF == 0u {
        return bitcast<vec4<f32>>(both);
    }
    return halves(select(both.xy, both.zw, vector % 2u == 1u));
}

// Adds the products of a unit with the activations of all rows.
fn add_unit(first_row: u32, unit: u32, w: Unit, up: Unit) {
    for (var vector = 0u; vector < VECTORS; vector++) {
        let at = unit * VECTORS + vector;
        let values = values_of(w, vector);
        var up_values = vec4<f32>();
        if GATED == 1u {
            up_values = values_of(up, vector);
        }
        var factors = vec4<f32>(1.0);
        if NORM == 1u {
            factors = norm[at];
        }
        for (var row = 0u; row < ROWS; row++) {
            var v = x[(params.x_row + min(first_row + row, params.m - 1u)) * (UNITS * VECTORS) + at];
            if NORM == 1u {
                squares[row] += dot(v, v);
                v *= factors;
            }
            sums[row] += dot(v, values);
            if GATED == 1u {
                up_sums[row] += dot(v, up_values);
            }
        }
    }
}

fn accumulate(first_row: u32, tile: u32, slot: u32, column: u32) {
    let start = (tile * params.units * 16u + column) * 2u;
    let up_start = ((tile + params.tiles) * params.units * 16u + column) * 2u;
    for (var step = 0u; step < STEPS; step++) {
        let unit = slot + step * SLOTS;
        if unit < UNITS {
            var up = Unit();
            if GATED == 1u {
                up = unit_at(up_start + unit * 32u);
            }
            add_unit(first_row, unit, unit_at(start + unit * 32u), up);
        }
    }
}

fn with_bias(matrix: u32, column: u32, value: f32) -> f32 {
    if params.bias[matrix] == NO_BIAS {
        return value;
    }
    return value + scales[params.bias[matrix] + column];
}

// Stores the output of a row and of a column of a tile.
fn store_sums(row: u32, tile: u32, local: u32, sum: f32, up: f32, square: f32) {
    var matrix = 0u;
    if GATED == 0u {
        matrix = matrix_of_tile(tile);
    }
    let column = (tile - params.first_tile[matrix]) * 16u + local;
    let width = params.width[matrix];
    if row >= params.m || column >= width {
        return;
    }
    var factor = 1.0;
    if NORM == 1u {
        factor = inverseSqrt(square / f32(params.k) + params.eps);
    }
    var value = with_bias(matrix, column, sum * factor);
    if GATED == 1u {
        value = silu(vec4<f32>(value)).x * with_bias(1u, column, up * factor);
    }
    let at = row * width + column;
    if params.has_addend == 1u {
        value += addend[at + params.addend_row * width];
    }
    store_output(matrix, at, value);
}

// The sums of all slots for one row and one column of the tile.
fn store_totals(first_row: u32, tile: u32, row: u32, local: u32) {
    var sum = 0.0;
    var up = 0.0;
    var square = 0.0;
    for (var slot = 0u; slot < SLOTS; slot++) {
        sum += partials[row * (1u + GATED) * THREADS + slot * 16u + local];
        if GATED == 1u {
            up += partials[(row * 2u + 1u) * THREADS + slot * 16u + local];
        }
        square += square_partials[row * SLOTS + slot];
    }
    store_sums(first_row + row, tile, local, sum, up, square);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let tile = index % params.tiles;
    let first_row = index / params.tiles * ROWS;
    if first_row < params.m {
        accumulate(first_row, tile, thread / 16u, thread % 16u);
        if SLOTS == 1u {
            for (var row = 0u; row < ROWS; row++) {
                store_sums(first_row + row, tile, thread, sums[row], up_sums[row], squares[row]);
            }
        } else {
            for (var row = 0u; row < ROWS; row++) {
                partials[row * (1u + GATED) * THREADS + thread] = sums[row];
                if GATED == 1u {
                    partials[(row * 2u + 1u) * THREADS + thread] = up_sums[row];
                }
                if thread % 16u == 0u {
                    square_partials[row * SLOTS + thread / 16u] = squares[row];
                }
            }
            workgroupBarrier();
            for (var item = thread; item < ROWS * 16u; item += THREADS) {
                store_totals(first_row, tile, item / 16u, item % 16u);
            }
        }
    }
}
