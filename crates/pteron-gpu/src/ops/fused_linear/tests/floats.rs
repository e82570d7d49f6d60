//! Float weights.

use super::*;

/// A weight, rounded to 16 bits if it has them.
pub(super) fn weight(builder: &mut GraphBuilder, dtype: DataType, [n, k]: [u32; 2], seed: u64) -> ValueId {
    let values = noise(seed, (n * k) as usize).into_iter().map(|value| half::f16::from_f32(value * 0.2));
    let bytes = values.flat_map(|value| match dtype {
        DataType::Float16 => value.to_le_bytes().to_vec(),
        _ => value.to_f32().to_le_bytes().to_vec(),
    });
    builder.constant(dtype, &[n, k], bytes.collect())
}

pub(super) fn floats(call: Call) -> Call {
    Call { floats: Some(DataType::Float32), ..call }
}

/// Compares on every kind of device. The weights are those that 16 bits hold, so that rounding them changes nothing.
fn check(call: &Call, bound: u32, live: &[u32]) {
    call.check(bound, live);
    let calls: Vec<_> = [bound].iter().chain(live).map(|&rows| call.inputs(rows)).collect();
    check_with(&gpu(), &fast(), &call.builder(&[bound]), &calls, TOLERANCE);
}

#[test]
fn every_combination_matches_at_few_and_many_rows() {
    let mut calls = Vec::new();
    for (widths, swiglu) in shapes() {
        for (norm, biases, addend) in [(false, 0b010, false), (true, 0b111, false), (false, 0b111, true), (true, 0, true)] {
            if addend && widths.len() > 1 && !swiglu {
                continue;
            }
            calls.push(floats(Call { norm, biases, addend, swiglu, ..Call::new(&widths, 96) }));
        }
    }
    for call in thinned(calls, 5) {
        check(&call, 70, &thinned([1, 8, 0, 5, 9, 2, 70], 2));
    }
}

#[test]
fn rows_of_any_length_in_whole_units() {
    for k in thinned([16, 32, 48, 80, 1040, 4112], 3) {
        check(&floats(Call { biases: 0b1, norm: true, ..Call::new(&[36], k) }), 10, &[1, 3]);
    }
    check(&floats(Call { swiglu: true, addend: true, biases: 0b11, ..Call::new(&[36; 2], 272) }), 33, &[1, 4]);
    check(&floats(Call { last_row: true, norm: true, addend: true, ..Call::new(&[20], 48) }), 9, &[1, 2, 8]);
    // A grid of small workgroups.
    check(&floats(Call::new(&[16 * 2100], 32)), 3, &[1]);
}

#[test]
fn every_tile_of_matrices() {
    let Some(gpu) = coop_matrix_gpu() else { return };
    for (widths, swiglu) in [(vec![104, 60, 40], false), (vec![104, 104], true)] {
        for (fill_percent, rows) in EVERY_TILE {
            let call = Call { norm: true, biases: 0b011, swiglu, addend: swiglu, ..Call::new(&widths, 352) };
            let gpu = gpu.with_caps(Caps { fill_percent, ..gpu.caps() });
            let calls = [call.inputs(rows), call.inputs(9)];
            check_with(&gpu, &fast(), &floats(call).builder(&[rows]), &calls, MATRIX_TOLERANCE);
        }
    }
}

#[test]
fn many_rows_take_matrices_where_weights_have_16_bits() {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, ..Caps::PORTABLE };
    let call = floats(Call { norm: true, ..Call::new(&[32, 16], 80) });
    let exact = DryRun::on(&call.builder(&[70]), caps).unwrap();
    assert_eq!(kernels(&exact), ["rms_norm", "fused_linear_float_gemm"]);
    let rounded = DryRun::on(&call.builder(&[70]), Caps { rounded_factors: true, ..caps }).unwrap();
    assert_eq!(kernels(&rounded), ["fused_linear_q4gsw_pack_f16", "fused_linear_float_coop_matrix"]);
    // Rows of 256 values, with zeros past the end.
    assert_eq!(rounded.planned.plans()[0].scratch, [80 * 512, 70 * 4, 0]);
}

#[test]
fn f16_in_the_file_stays_f16() {
    let output = |options: &LoadOptions, dtype: DataType, rows: u32| -> Vec<u8> {
        let call = Call { floats: Some(dtype), norm: true, biases: 0b1, ..Call::new(&[20, 12], 80) };
        let graph = call.builder(&[rows]).load_on(&gpu(), options).unwrap();
        run(&graph, &mut graph.new_state().unwrap(), &call.inputs(rows)).unwrap()[0].bytes.to_vec()
    };
    for rows in [1, 2, 20] {
        // The same kernel on the same numbers.
        let exact = output(&LoadOptions::default(), DataType::Float16, rows);
        assert_eq!(exact, output(&fast(), DataType::Float32, rows));
    }
    let bytes = |dtype, caps| {
        let call = Call { floats: Some(dtype), ..Call::new(&[32], 256) };
        let dry_run = DryRun::on(&call.builder(&[4]), caps).unwrap();
        dry_run.planned.recipes()[0].joined[0].parts[0].packing.unwrap().bytes()
    };
    let rounding = Caps { rounded_factors: true, ..Caps::PORTABLE };
    assert_eq!(bytes(DataType::Float16, Caps::PORTABLE), 32 * 256 * 2);
    assert_eq!(bytes(DataType::Float32, Caps::PORTABLE), 32 * 256 * 4);
    assert_eq!(bytes(DataType::Float32, rounding), 32 * 256 * 2);
    assert_eq!(bytes(DataType::Float32, Caps { software: true, ..rounding }), 32 * 256 * 4);
}

#[test]
fn the_addend_groups_the_rows() {
    let mut builder = floats(Call { addend: true, ..Call::new(&[8], 32) }).builder(&[6]);
    let grouped = builder.tensor(DataType::Float32, &[2, 3, 8]);
    builder.graph.inputs[1] = grouped;
    builder.graph.calls[0].args[8] = grouped;
    let out = builder.graph.outputs[0];
    let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(out.index()) else { panic!("the output") };
    tensor.dims = vec![2, 3, 8];
    let call = |a: u32, b: u32| {
        vec![f32s(&[a * b, 32], noise(3, (a * b * 32) as usize)), f32s(&[a, b, 8], noise(4, (a * b * 8) as usize))]
    };
    check_on(&gpu(), &builder, &[call(2, 3), call(1, 2), call(2, 1)], TOLERANCE);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let error = dry_run.call(&[(&[5, 32], &[]), (&[2, 3, 8], &[])]).unwrap_err().to_string();
    assert!(error.contains("`addend` is [2, 3, 8], expected [5, 8]"), "{error}");
}

#[test]
fn unsupported_weights_are_rejected_by_argument() {
    let text = |call: Call| load_error(&floats(call).builder(&[4]));
    assert!(text(Call::new(&[8], 40)).contains("`weights` is [8, 40], expected rows of a multiple of 16 values"));
    assert!(text(Call::new(&[6], 32)).contains("`weights` has 6 rows, expected a multiple of 4"));
    assert!(text(Call { int8: true, ..Call::new(&[8], 32) }).contains("`int8_eps` is given with float weights"));
    let none = changed(&Call::new(&[8], 32), 5, |builder| builder.value(Value::ValueList(vec![])));
    assert!(none.contains("`scales` has 0 tensors, expected 1"), "{none}");
}
