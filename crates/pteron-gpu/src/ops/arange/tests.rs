use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, check, f32s, load_error};

fn builder(numbers: [Value; 3], dtype: DataType, bound: u32) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args: Vec<_> = numbers.into_iter().map(|number| builder.value(number)).collect();
    args.extend([(); 4].map(|()| builder.value(Value::Null)));
    args.push(builder.tensor(dtype, &[bound]));
    builder.call("aten.arange.start_step", &args);
    builder.output(args[7]);
    builder
}

#[test]
fn ascending_and_descending_ranges_agree() {
    let number = |value: f64| Value::Double(value);
    check(&builder([Value::Int(0), Value::Int(300), Value::Int(1)], DataType::Int32, 300), &[vec![]], 0.0);
    check(&builder([Value::Int(10), Value::Int(-3), Value::Int(-4)], DataType::Int32, 4), &[vec![]], 0.0);
    check(&builder([number(0.5), number(2.0), number(0.3)], DataType::Float32, 5), &[vec![]], 1e-6);
    check(&builder([Value::Int(5), Value::Int(5), Value::Int(1)], DataType::Float32, 1), &[vec![]], 0.0);
}

#[test]
fn symbolic_range_follows_the_live_length() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[9]);
    let (zero, one) = (builder.int(0), builder.int(1));
    let [length, double] = [(); 2].map(|()| builder.value(Value::SymInt));
    builder.call("sym_size.int", &[x, zero, length]);
    builder.call("add", &[length, length, double]);
    let none = builder.value(Value::Null);
    let out = builder.tensor(DataType::Int32, &[9]);
    builder.call("aten.arange.start_step", &[length, double, one, none, none, none, none, out]);
    builder.output(out);
    check(&builder, &[9, 1, 4, 0, 9].map(|count: u32| vec![f32s(&[count], vec![0.0; count as usize])]), 0.0);
}

#[test]
fn unreachable_end_is_rejected() {
    let text = load_error(&builder([Value::Int(3), Value::Int(9), Value::Int(-1)], DataType::Int32, 6));
    assert!(text.contains("`end` is 9, which no number of steps of -1 leads to from 3"), "{text}");
    assert!(load_error(&builder([Value::Int(3), Value::Int(9), Value::Int(0)], DataType::Int32, 6)).contains("steps of 0"));
}
