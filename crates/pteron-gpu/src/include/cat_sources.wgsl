@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> part0: array<T>;
@group(0) @binding(2) var<storage, read> part1: array<T>;
@group(0) @binding(3) var<storage, read> part2: array<T>;
@group(0) @binding(4) var<storage, read> part3: array<T>;
@group(0) @binding(5) var<storage, read> part4: array<T>;
@group(0) @binding(6) var<storage, read> part5: array<T>;
@group(0) @binding(7) var<storage, read> part6: array<T>;

fn part_at(part: u32, at: u32) -> T {
    switch part {
        case 0u: { return part0[at]; }
        case 1u: { return part1[at]; }
        case 2u: { return part2[at]; }
        case 3u: { return part3[at]; }
        case 4u: { return part4[at]; }
        case 5u: { return part5[at]; }
        default: { return part6[at]; }
    }
}
