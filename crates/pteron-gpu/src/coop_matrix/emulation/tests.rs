//! The interpreter itself, on small kernels.

use half::f16;

use super::*;

/// Runs one workgroup of a source on buffers of words.
fn run(source: &str, lanes: u32, buffers: &[&[u32]]) -> Vec<Vec<u32>> {
    let module = naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let all = naga::valid::Capabilities::all();
    let info = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all).validate(&module).unwrap();
    let buffers = buffers.iter().map(|words| bytemuck::cast_slice(words).to_vec()).collect();
    let run = Emulation { lanes }.run_module((&module, &info), &[], Grid { x: 1, y: 1 }, buffers);
    run.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect()
}

/// Runs eight threads that store a word each.
fn threads(body: &str) -> Vec<u32> {
    let source = format!(
        "@group(0) @binding(1) var<storage, read_write> out: array<u32>;\nvar<workgroup> shared_words: array<u32, 8>;\n\
         fn first_above(values: vec4<u32>, least: u32) -> u32 {{\nfor (var i = 0u; i < 4u; i++) {{\n\
         if values[i] > least {{ return values[i]; }}\n}}\nreturn 0u;\n}}\n\
         @compute @workgroup_size(8)\nfn main(@builtin(local_invocation_index) thread: u32,\n\
         @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32) {{\n{body}\n}}\n"
    );
    run(&source, 4, &[&[9; 8]]).remove(0)
}

fn fails(body: &str) -> bool {
    std::panic::catch_unwind(|| threads(body)).is_err()
}

#[test]
fn threads_diverge_and_meet_again() {
    assert_eq!(threads("if thread < 3u { out[thread] = thread; }"), [0, 1, 2, 9, 9, 9, 9, 9]);
    let turns =
        "var sum = 0u; for (var i = 0u; i < thread; i++) { if i == 1u { continue; } if i == 5u { break; } sum += i; }";
    assert_eq!(threads(&format!("{turns} out[thread] = sum;")), [0, 0, 0, 2, 5, 9, 9, 9]);
    assert_eq!(threads("out[thread] = first_above(vec4<u32>(1u, 3u, 5u, 7u), thread);"), [1, 3, 3, 5, 5, 7, 7, 0]);
    let cases = "switch thread { case 1u, 2u: { out[thread] = 5u; } case 3u: { if lane == 3u { break; } out[thread] = 4u; } \
                 default: { out[thread] = subgroup; } }";
    assert_eq!(threads(cases), [0, 5, 5, 9, 1, 1, 1, 1]);
    let local =
        "var words = array<u32, 8>(); words[thread] = 3u; words[7u - thread] += 2u; out[thread] = words[2] + words[5];";
    assert_eq!(threads(local), [0, 0, 5, 0, 0, 5, 0, 0]);
    assert_eq!(threads("out[thread] = subgroupShuffleXor(thread, 1u);"), [1, 0, 3, 2, 5, 4, 7, 6]);
}

#[test]
fn numbers_are_those_of_their_types() {
    assert_eq!(threads("out[thread] = (thread - 1u) / select(thread, 0u, thread == 2u);"), [u32::MAX, 0, 1, 0, 0, 0, 0, 0]);
    let signed = threads("out[thread] = bitcast<u32>(max((i32(thread) - 4) / 2, -1) >> 1u) + u32(f32(thread) * -0.5);");
    assert_eq!(signed, [u32::MAX, u32::MAX, u32::MAX, 0, 0, 0, 0, 0]);
    let floats = threads("out[thread] = bitcast<u32>(exp2(f32(thread)) + dot(vec2<f32>(2.0, 0.5), vec2<f32>(1.0, 1.0)));");
    assert_eq!(floats[3], 10.5_f32.to_bits());
}

#[test]
fn races_bounds_and_divergence_are_found() {
    let staged =
        |order: &str, from: &str| format!("shared_words[thread] = thread; {order} out[thread] = shared_words[{from}];");
    assert_eq!(threads(&staged("workgroupBarrier();", "7u - thread")), [7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(threads(&staged("subgroupBarrier();", "thread ^ 3u")), [3, 2, 1, 0, 7, 6, 5, 4]);
    assert_eq!(threads(&staged("", "thread")), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(fails(&staged("", "thread ^ 3u")) && fails(&staged("subgroupBarrier();", "7u - thread")));
    assert!(fails("shared_words[thread / 2u] = 1u;") && fails("out[thread + 1u] = 1u;"));
    assert!(fails("if thread < 4u { workgroupBarrier(); }") && fails("if lane == 1u { subgroupBarrier(); }"));
    assert_eq!(threads("if subgroup == 1u { subgroupBarrier(); } out[thread] = 1u;"), [1; 8]);
    assert!(fails("if lane < 3u { out[thread] = subgroupShuffleXor(thread, 1u); }"));
}

/// Each subgroup multiplies a matrix that is stored row by row with one that is stored column by column.
#[test]
fn subgroups_multiply_matrices() {
    let source = |order: &str| {
        format!(
            "enable f16;\nenable wgpu_cooperative_matrix;\n\
             @group(0) @binding(1) var<storage, read> factors: array<vec4<f16>>;\n\
             @group(0) @binding(2) var<storage, read_write> out: array<f32>;\nvar<workgroup> sums: array<f32, 160>;\n\
             @compute @workgroup_size(8)\nfn main(@builtin(local_invocation_index) thread: u32) {{\n\
             let first = thread / 4u * 16u;\nlet a = coopLoadT<coop_mat8x8<f16, A>>(&factors[first], 2u);\n\
             let b = coopLoad<coop_mat8x8<f16, B>>(&factors[32], 2u);\n\
             var sum = coop_mat8x8<f32, C>();\nsum = coopMultiplyAdd(a, b, sum);\nsum = coopMultiplyAdd(a, b, sum);\n\
             let at = thread / 4u * 80u;\ncoopStoreT(sum, &sums[at], 10u);\n{order}\n\
             for (var i = thread % 4u; i < 64u; i += 4u) {{\nout[thread / 4u * 64u + i] = sums[at + i / 8u * 10u + i % 8u];\n}}\n}}\n"
        )
    };
    let factor = |matrix: usize, row: usize, column: usize| [1.0, -2.0, 0.5][matrix] * (3 * row + column) as f32;
    let halves: Vec<u16> = (0..192).map(|i| f16::from_f32(factor(i / 64, i / 8 % 8, i % 8)).to_bits()).collect();
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&halves);
    let out: Vec<f32> =
        run(&source("subgroupBarrier();"), 4, &[&words, &[0; 128]])[1].iter().map(|v| f32::from_bits(*v)).collect();
    for (i, out) in out.iter().enumerate() {
        // The second factor is transposed.
        let product: f32 = (0..8).map(|k| factor(i / 64, i / 8 % 8, k) * factor(2, i % 8, k)).sum();
        assert_eq!(*out, 2.0 * product, "element {i}");
    }
    assert!(
        std::panic::catch_unwind(|| run(&source(""), 4, &[&words, &[0; 128]])).is_err(),
        "lanes read what others stored"
    );
}
