// A tensor that lies together along another axis than the one it is written along, word by word: permutes and transposes.
// A workgroup moves 2,048 words through workgroup memory: 2^`a_bits` along axis `a`, along which the source lies together, and
// 2^`b_bits` along axis `b`, along which the output does. Neighbouring threads read along `a` and write along `b`, each thread
// four words at a time; padding keeps them off each other's banks.

//#include grid
//#include tile_params

@group(0) @binding(1) var<storage, read> source: array<u32>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> tile: array<u32, 2560>;

fn padded(words: vec4<u32>) -> vec4<u32> {
    return words + (words >> vec4<u32>(max(params.b_bits, 2u)));
}

// Words from the source into the tile. Those outside the tensor get anything, and are not written.
fn read_words(cells: vec4<u32>, tile_at: vec3<u32>, start: u32) {
    let a_cells = cells & vec4<u32>((1u << params.a_bits) - 1u);
    let b_cells = cells >> vec4<u32>(params.a_bits);
    let a = tile_at.x + a_cells;
    let b = tile_at.y + b_cells;
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b));
    let at = start + select(vec4<u32>(), a * params.a_step + b * params.b_step, inside);
    let values = vec4<u32>(source[at.x], source[at.y], source[at.z], source[at.w]);
    let to = padded((a_cells << vec4<u32>(params.b_bits)) + b_cells);
    tile[to.x] = values.x;
    tile[to.y] = values.y;
    tile[to.z] = values.z;
    tile[to.w] = values.w;
}

// Words from the tile into the output.
fn write_words(words: vec4<u32>, tile_at: vec3<u32>, start: u32) {
    let a = tile_at.x + (words >> vec4<u32>(params.b_bits));
    let b = tile_at.y + (words & vec4<u32>((1u << params.b_bits) - 1u));
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b));
    let at = start + a * params.a_pitch + b;
    let held = padded(words);
    let values = vec4<u32>(tile[held.x], tile[held.y], tile[held.z], tile[held.w]);
    if inside.x {
        out[at.x] = values.x;
    }
    if inside.y {
        out[at.y] = values.y;
    }
    if inside.z {
        out[at.z] = values.z;
    }
    if inside.w {
        out[at.w] = values.w;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    if index < params.groups {
        let tile_at = tile_start(index);
        let starts = walk(vec4<u32>(tile_at.z), 0u);
        let start = starts.x.x + step[params.base];
        let own = thread + vec4<u32>(0u, 256u, 512u, 768u);
        read_words(own, tile_at, start);
        read_words(1024u + own, tile_at, start);
        workgroupBarrier();
        write_words(own, tile_at, starts.y.x);
        write_words(1024u + own, tile_at, starts.y.x);
    }
}
