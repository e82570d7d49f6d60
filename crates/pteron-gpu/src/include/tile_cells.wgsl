//#include grid
//#include tile_params

// Four rows of four elements, or the columns of those.
struct Cell {
    p: V,
    q: V,
    r: V,
    s: V,
}

const IN_ORDER = vec4<u32>(0u, 1u, 2u, 3u);

@group(0) @binding(1) var<storage, read> source: array<V>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> tile: array<V, 4u * CELLS>;

fn held(rows: vec4<u32>, item: vec4<u32>) -> vec4<u32> {
    let mixed = item ^ ((rows / 4u) & vec4<u32>((1u << params.b_bits) - 1u));
    return (rows << vec4<u32>(params.b_bits)) + mixed;
}

// Where each of some indices of the other axes starts. A tile that has only one of them knows already.
fn starts_of(outer: vec4<u32>, only: Places) -> Places {
    if params.outer_bits == 0u {
        return only;
    }
    return walk(outer, 0u);
}

// The place of a cell in the tile: along `a`, along `b`, and among the indices of the other axes.
fn cell_at(cell: u32) -> vec3<u32> {
    let a = cell & ((1u << params.a_bits) - 1u);
    let b = (cell >> params.a_bits) & ((1u << params.b_bits) - 1u);
    return vec3<u32>(a, b, cell >> (params.a_bits + params.b_bits));
}

// A cell of the source. Outside the tensor it is anything, and is not written.
fn read_cell(cell: u32, tile_at: vec3<u32>, only: Places) -> Cell {
    let place = tile_at + cell_at(cell);
    let start = starts_of(vec4<u32>(min(place.z, params.outer - 1u)), only).x.x + step[params.base];
    let inside = 4u * place.x < params.a && 4u * place.y < params.b;
    let offset = select(0u, 4u * place.x + 4u * place.y * params.b_step, inside);
    let at = (start + offset + IN_ORDER * select(0u, params.b_step, inside)) / 4u;
    return Cell(source[at.x], source[at.y], source[at.z], source[at.w]);
}

fn hold_cell(cell: u32, rows: Cell) {
    let columns = turned(rows);
    let place = cell_at(cell);
    let to = held(4u * ((place.z << params.a_bits) + place.x) + IN_ORDER, vec4<u32>(place.y));
    tile[to.x] = columns.p;
    tile[to.y] = columns.q;
    tile[to.z] = columns.r;
    tile[to.w] = columns.s;
}

fn write_items(items: vec4<u32>, tile_at: vec3<u32>, only: Places) {
    let rows = items >> vec4<u32>(params.b_bits);
    let b_cells = items & vec4<u32>((1u << params.b_bits) - 1u);
    let a = 4u * tile_at.x + (rows & vec4<u32>((4u << params.a_bits) - 1u));
    let b = 4u * (tile_at.y + b_cells);
    let outer = tile_at.z + (rows >> vec4<u32>(params.a_bits + 2u));
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b)) & (outer < vec4<u32>(params.outer));
    let at = (starts_of(outer, only).y + a * params.a_pitch + b) / 4u;
    let places = held(rows, b_cells);
    if inside.x {
        out[at.x] = tile[places.x];
    }
    if inside.y {
        out[at.y] = tile[places.y];
    }
    if inside.z {
        out[at.z] = tile[places.z];
    }
    if inside.w {
        out[at.w] = tile[places.w];
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    if index < params.groups {
        let tile_at = tile_start(index);
        let only = walk(vec4<u32>(tile_at.z), 0u);
        // All that a thread reads is on its way before it waits for any.
        let first = read_cell(thread, tile_at, only);
        if CELLS > 256u {
            let second = read_cell(256u + thread, tile_at, only);
            hold_cell(256u + thread, second);
        }
        hold_cell(thread, first);
        workgroupBarrier();
        write_items(thread + 256u * IN_ORDER, tile_at, only);
        if CELLS > 256u {
            write_items(1024u + thread + 256u * IN_ORDER, tile_at, only);
        }
    }
}
