@group(0) @binding(2) var<storage, read_write> section0: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> section1: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> section2: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> section3: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> section4: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> section5: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> section6: array<vec4<u32>>;

fn store_section(section: u32, at: u32, vector: vec4<u32>) {
    switch section {
        case 0u: { section0[at] = vector; }
        case 1u: { section1[at] = vector; }
        case 2u: { section2[at] = vector; }
        case 3u: { section3[at] = vector; }
        case 4u: { section4[at] = vector; }
        case 5u: { section5[at] = vector; }
        default: { section6[at] = vector; }
    }
}
