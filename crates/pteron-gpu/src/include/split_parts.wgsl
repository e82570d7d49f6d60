@group(0) @binding(2) var<storage, read_write> part0: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> part1: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> part2: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> part3: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> part4: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> part5: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> part6: array<vec4<u32>>;

fn put(part: u32, at: u32, item: vec4<u32>) {
    switch part {
        case 0u: { part0[at] = item; }
        case 1u: { part1[at] = item; }
        case 2u: { part2[at] = item; }
        case 3u: { part3[at] = item; }
        case 4u: { part4[at] = item; }
        case 5u: { part5[at] = item; }
        default: { part6[at] = item; }
    }
}
