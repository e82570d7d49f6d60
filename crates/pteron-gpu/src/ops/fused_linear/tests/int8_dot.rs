//! The kernel with 8-bit dot products, with factors of 16 and of 24 bits.

use super::*;

/// The device with 8-bit dot products, and factors of 16 or of 24 bits.
#[track_caller]
pub(super) fn int8_gpus() -> Option<[(Gpu, LoadOptions, f32); 2]> {
    let caps = Caps { int8_dot: true, ..gpu().caps() };
    if caps.lanes().is_none() {
        crate::testing::skip("has no subgroups of one size");
        return None;
    }
    let with = |precision| (gpu().with_caps(caps), LoadOptions { precision, ..LoadOptions::default() });
    let [(fast, rounding), (full, exact)] = [Precision::Fast, Precision::Full].map(with);
    Some([(fast, rounding, 1e-3), (full, exact, TOLERANCE)])
}

#[test]
fn int8_dot_products_agree_with_the_reference() {
    let Some(gpus) = int8_gpus() else { return };
    // Chunks that are whole and not, scales per unit and per pair, columns that do not fill their last tile.
    let qkv = Call { norm: true, biases: 0b101, padding: [16, 4], ..Call::new(&[36, 20, 4], 96) };
    let calls = [
        (Call { group: 64, ..Call::new(&[24, 16], 64) }, 9),
        (qkv, 6),
        (Call { norm: true, swiglu: true, addend: true, biases: 0b11, ..Call::new(&[44; 2], 1056) }, 3),
        (Call { norm: true, last_row: true, addend: true, group: 96, ..Call::new(&[20], 288) }, 5),
        (Call { addend: true, ..Call::new(&[16], 4096 + 512) }, 1),
    ];
    for (call, bound) in thinned(calls, 2) {
        for (gpu, options, tolerance) in &gpus {
            let rows: Vec<_> = [bound, 1, 2, 4].iter().map(|&rows| call.inputs(rows.min(bound))).collect();
            check_with(gpu, options, &call.builder(&[bound]), &rows, *tolerance);
        }
    }
}

#[test]
fn int8_dot_products_of_numbers_of_any_size() {
    let Some(gpus) = int8_gpus() else { return };
    for (gpu, options, tolerance) in gpus {
        let graph = Call::new(&[16], 128).builder(&[1]).load_on(&gpu, &options).unwrap();
        let output = |values: Vec<f32>| -> Vec<f32> {
            let outputs = run(&graph, &mut graph.new_state().unwrap(), &[f32s(&[1, 128], values)]).unwrap();
            bytemuck::pod_collect_to_vec(&outputs[0].bytes)
        };
        let values = noise(7, 128);
        let normal = output(values.clone());
        for scale in [1e-25, 1e25] {
            let scaled = output(values.iter().map(|value| value * scale).collect());
            for (scaled, normal) in scaled.iter().zip(&normal) {
                assert!((scaled / scale - normal).abs() <= tolerance, "{scaled} for {normal}, scaled by {scale}");
            }
        }
        // Too small to matter; and no number hides among others.
        assert_eq!(output(vec![1e-35; 128]), [0.0; 16]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = values.clone();
            values[77] = bad;
            assert!(output(values).iter().all(|value| !value.is_finite()), "{bad}");
        }
    }
}
