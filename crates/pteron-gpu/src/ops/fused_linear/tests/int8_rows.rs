//! Rows that are quantised to 8 bits, each by its own range.

use super::int8_dot::int8_gpus;
use super::*;

fn quantised(call: Call) -> Call {
    Call { int8: true, ..call }
}

#[test]
fn every_combination_matches_at_few_and_many_rows() {
    let mut calls = Vec::new();
    for (widths, swiglu) in shapes() {
        for (norm, biases, addend) in [(false, 0b010, false), (true, 0b111, false), (false, 0b111, true), (true, 0, true)] {
            if addend && widths.len() > 1 && !swiglu {
                continue;
            }
            calls.push(quantised(Call { norm, biases, addend, swiglu, ..Call::new(&widths, 96) }));
        }
    }
    for call in thinned(calls, 5) {
        call.check(70, &thinned([1, 8, 0, 5, 9, 2, 70], 2));
    }
    let padded = Call { group: 64, padding: [16, 4], biases: 0b101, ..Call::new(&[20, 36, 4], 192) };
    quantised(padded).check(33, &[1, 3, 12]);
    quantised(Call { addend: true, ..Call::new(&[8], 4128) }).check(2, &[1]);
}

#[test]
fn the_last_row_alone() {
    for (norm, bound) in [(false, 70), (true, 9)] {
        quantised(Call { norm, addend: true, last_row: true, ..Call::new(&[12], 96) }).check(bound, &[1, 8, 2, bound]);
    }
}

#[test]
fn int8_dot_products_quantise_in_the_same_dispatch() {
    let Some(gpus) = int8_gpus() else { return };
    let calls = [
        (Call { group: 64, ..Call::new(&[24, 16], 64) }, 9),
        (Call { biases: 0b101, padding: [16, 4], ..Call::new(&[36, 20, 4], 96) }, 6),
        (Call { norm: true, swiglu: true, addend: true, biases: 0b11, ..Call::new(&[44; 2], 1056) }, 3),
        (Call { swiglu: true, ..Call::new(&[40; 2], 2080) }, 5),
        (Call { norm: true, last_row: true, addend: true, group: 96, ..Call::new(&[20], 288) }, 5),
        (Call { last_row: true, ..Call::new(&[20], 288) }, 5),
        (Call { addend: true, ..Call::new(&[16], 4096 + 512) }, 1),
        // More than one chunk of k.
        (Call { biases: 0b1, ..Call::new(&[16], 8192 + 32) }, 3),
    ];
    for (call, bound) in calls {
        let call = quantised(call);
        for (gpu, options, _) in &gpus {
            let rows: Vec<_> = [bound, 1, 2, 4].iter().map(|&rows| call.inputs(rows.min(bound))).collect();
            check_with(gpu, options, &call.builder(&[bound]), &rows, call.tolerance());
            let mut dry_run = DryRun::on(&call.builder(&[bound]), gpu.caps()).unwrap();
            let one: Vec<Vec<u32>> = call.inputs(1).iter().map(|input| input.dims.to_vec()).collect();
            dry_run.call(&one.iter().map(|dims| (&dims[..], &[][..])).collect::<Vec<_>>()).unwrap();
            assert_eq!(kernels(&dry_run), ["fused_linear_q4gsw_gemv_int8"]);
        }
    }
}

#[test]
fn other_kernels_take_one_dispatch_more() {
    let call = quantised(Call { norm: true, swiglu: true, ..Call::new(&[12; 2], 64) });
    let mut dry_run = DryRun::new(&call.builder(&[70])).unwrap();
    let [quantise, gemm] = ["fused_linear_q4gsw_quantise", "fused_linear_q4gsw_gemm"];
    assert_eq!(kernels(&dry_run), [quantise, gemm, "fused_linear_q4gsw_swiglu"]);
    dry_run.call(&[(&[3, 64], &[])]).unwrap();
    assert_eq!(kernels(&dry_run), [quantise, "fused_linear_q4gsw_gemv"]);
    assert_eq!(dry_run.planned.plans()[0].scratch, [3 * 256, 0, 0]);
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, ..Caps::PORTABLE };
    let mut dry_run = DryRun::on(&call.builder(&[70]), caps).unwrap();
    assert_eq!(kernels(&dry_run), ["fused_linear_q4gsw_pack_f16", "fused_linear_q4gsw_split_k"]);
    dry_run.call(&[(&[2, 64], &[])]).unwrap();
    assert_eq!(kernels(&dry_run), [quantise, "fused_linear_q4gsw_gemv_subgroups"]);
    // A call of one row needs scratch even if no call has more.
    let few = DryRun::on(&call.builder(&[1]), caps).unwrap();
    assert_eq!(few.planned.recipes()[0].scratch[..3], [256, 0, 0]);
}

/// Rows with the same values, and one that is not a number: those that have it show it, the others do not.
#[test]
fn numbers_of_any_size_and_none() {
    let int8 = int8_gpus().map(|gpus| gpus.map(|(gpu, ..)| gpu)).into_iter().flatten();
    for gpu in with_and_without_subgroups().into_iter().chain([serial_gpu()]).chain(int8) {
        let call = quantised(Call::new(&[16], 128));
        let values = noise(7, 256);
        for scale in [1e-3, 1e20] {
            let scaled = values.iter().map(|value| value * scale).collect();
            check_on(&gpu, &call.builder(&[2]), &[vec![f32s(&[2, 128], scaled)]], TOLERANCE);
        }
        // Rows of zeros, and of one sign.
        let signs = (0..=255u8).map(|i| if i < 128 { 0.0 } else { -f32::from(i) }).collect();
        check_on(&gpu, &call.builder(&[2]), &[vec![f32s(&[2, 128], signs)]], TOLERANCE);
        let graph = call.builder(&[2]).load_on(&gpu, &LoadOptions::default()).unwrap();
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = values.clone();
            values[77] = bad;
            let outputs = run(&graph, &mut graph.new_state().unwrap(), &[f32s(&[2, 128], values)]).unwrap();
            let outputs: Vec<f32> = bytemuck::pod_collect_to_vec(&outputs[0].bytes);
            assert!(outputs[..16].iter().all(|value| !value.is_finite()), "{bad}, {:?}: {outputs:?}", gpu.caps());
            assert!(outputs[16..].iter().all(|value| value.is_finite()), "{bad}, {:?}: {outputs:?}", gpu.caps());
        }
    }
}

#[test]
fn scales_must_be_positive() {
    let call = quantised(Call::new(&[8], 64));
    for eps in [-0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
        let error = changed(&call, 3, |builder| builder.float(eps));
        assert!(error.contains("`int8_eps` is") && error.contains("expected a finite number"), "{error}");
    }
}
