@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> section0: array<T>;
@group(0) @binding(2) var<storage, read> section1: array<T>;
@group(0) @binding(3) var<storage, read> section2: array<T>;
@group(0) @binding(4) var<storage, read> section3: array<T>;
@group(0) @binding(5) var<storage, read> section4: array<T>;
@group(0) @binding(6) var<storage, read> section5: array<T>;
@group(0) @binding(7) var<storage, read> section6: array<T>;

fn load_section(section: u32, at: u32) -> T {
    switch section {
        case 0u: { return section0[at]; }
        case 1u: { return section1[at]; }
        case 2u: { return section2[at]; }
        case 3u: { return section3[at]; }
        case 4u: { return section4[at]; }
        case 5u: { return section5[at]; }
        default: { return section6[at]; }
    }
}
