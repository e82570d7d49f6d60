use super::{ADD, CLAMP, MUL, PRELU, REQUANTISE};
use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, load_error, noise, noise_bytes};

fn bytes(shape: &[u32], seed: u64) -> HostTensor {
    let count = shape.iter().product::<u32>() as usize;
    HostTensor { dims: dims(shape), data: HostData::U8(noise_bytes(seed, count)) }
}

/// Scales and zero points, by turns.
fn numbers(builder: &mut GraphBuilder, quantised: &[(f32, i64)]) -> Vec<ValueId> {
    quantised.iter().flat_map(|&(scale, zero)| [builder.float(scale.into()), builder.int(zero)]).collect()
}

fn binary(name: &str, quantised: [(f32, i64); 3], more: &[Value]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let [a, b] = [&[3, 5, 4][..], &[5, 1]].map(|bound| builder.input(DataType::Int8, bound));
    let mut args = vec![a, b];
    args.extend(numbers(&mut builder, &quantised));
    args.extend(more.iter().map(|value| builder.value(value.clone())));
    let out = builder.tensor(DataType::Int8, &[3, 5, 4]);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    builder
}

#[test]
fn sums_and_products_are_exact() {
    let calls = [vec![bytes(&[3, 5, 4], 1), bytes(&[5, 1], 2)], vec![bytes(&[2, 5, 3], 3), bytes(&[5, 1], 4)]];
    let scales = [
        [(0.02, 3), (0.017, -5), (0.031, 7)],
        [(0.5, -128), (0.001, 127), (0.004, -128)],
        [(0.001, 0), (0.0009, 9), (0.9, 1)],
    ];
    for quantised in scales {
        for subtract in [false, true] {
            let more = [Value::Bool(subtract), Value::Int(-128), Value::Int(127)];
            check(&binary(ADD, quantised, &more), &calls, 0.0);
        }
        check(&binary(MUL, quantised, &[Value::Int(-100), Value::Int(99)]), &calls, 0.0);
    }
    let error =
        load_error(&binary(ADD, [(1.0, 0), (1.0, 0), (0.003, 0)], &[Value::Bool(false), Value::Int(-128), Value::Int(127)]));
    assert!(error.contains("`a_scale` is 333"), "{error}");
}

/// The sum by its definition in real numbers is at most one step away.
#[test]
fn fixed_point_sums_are_near_real_ones() {
    let builder =
        binary(ADD, [(0.02, 3), (0.017, -5), (0.031, 7)], &[Value::Bool(false), Value::Int(-128), Value::Int(127)]);
    let graph = builder.load(&crate::engine::LoadOptions::default()).unwrap();
    let (a, b) = (bytes(&[3, 5, 4], 1), bytes(&[5, 1], 2));
    let out = crate::testing::run(&graph, &mut graph.new_state().unwrap(), &[a.clone(), b.clone()]).unwrap();
    let (HostData::U8(a), HostData::U8(b)) = (&a.data, &b.data) else { unreachable!() };
    for (at, byte) in out[0].bytes.iter().enumerate() {
        let real = f64::from(i32::from(a[at].cast_signed()) - 3) * 0.02
            + f64::from(i32::from(b[at / 4 % 5].cast_signed()) + 5) * 0.017;
        let steps = (real / 0.031 + 7.0).clamp(-128.0, 127.0);
        assert!((f64::from(byte.cast_signed()) - steps).abs() <= 0.51, "{} for {steps}", byte.cast_signed());
    }
}

#[test]
fn other_scales_and_bounds_are_exact() {
    for (from, to) in [((0.02, 3), (0.031, -7)), ((0.5, -128), (0.01, 127)), ((0.01, 5), (1.2, 0))] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Int8, &[7, 9]);
        let [changed, clamped] = [(); 2].map(|()| builder.tensor(DataType::Int8, &[7, 9]));
        let mut args = vec![x];
        args.extend(numbers(&mut builder, &[from, to]));
        args.push(changed);
        builder.call(REQUANTISE, &args);
        let (low, high) = (builder.int(-20), builder.int(30));
        builder.call(CLAMP, &[changed, low, high, clamped]);
        builder.output(changed);
        builder.output(clamped);
        check(&builder, &[vec![bytes(&[7, 9], 5)], vec![bytes(&[1, 3], 6)]], 0.0);
    }
}

#[test]
fn slopes_apply_below_zero() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[2, 3, 5]);
    let slope = builder.floats(&[5], &noise(3, 5));
    let out = builder.tensor(DataType::Float32, &[2, 3, 5]);
    builder.call(PRELU, &[x, slope, out]);
    builder.output(out);
    check(&builder, &[vec![f32s(&[2, 3, 5], noise(1, 30))]], 0.0);
}
