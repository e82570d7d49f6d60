use crate::ir::{DataType, Value};
use crate::testing::{Sketch, check, f32s, refusal};

fn sketch(numbers: [Value; 3], dtype: DataType, bound: u32) -> Sketch {
    let mut sketch = Sketch::new();
    let mut args: Vec<_> = numbers.into_iter().map(|number| sketch.value(number)).collect();
    args.extend([(); 4].map(|()| sketch.value(Value::Null)));
    args.push(sketch.tensor(dtype, &[bound]));
    sketch.call("aten.arange.start_step", &args);
    sketch.output(args[7]);
    sketch
}

#[test]
fn ascending_and_descending_ranges_agree() {
    let number = |value: f64| Value::Double(value);
    check(&sketch([Value::Int(0), Value::Int(300), Value::Int(1)], DataType::Int32, 300), &[vec![]], 0.0);
    check(&sketch([Value::Int(10), Value::Int(-3), Value::Int(-4)], DataType::Int32, 4), &[vec![]], 0.0);
    check(&sketch([number(0.5), number(2.0), number(0.3)], DataType::Float32, 5), &[vec![]], 1e-6);
    check(&sketch([Value::Int(5), Value::Int(5), Value::Int(1)], DataType::Float32, 1), &[vec![]], 0.0);
}

#[test]
fn symbolic_range_follows_the_live_length() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[9]);
    let (zero, one) = (sketch.int(0), sketch.int(1));
    let [length, double] = [(); 2].map(|()| sketch.value(Value::SymInt));
    sketch.call("sym_size.int", &[x, zero, length]);
    sketch.call("add", &[length, length, double]);
    let none = sketch.value(Value::Null);
    let out = sketch.tensor(DataType::Int32, &[9]);
    sketch.call("aten.arange.start_step", &[length, double, one, none, none, none, none, out]);
    sketch.output(out);
    check(&sketch, &[9, 1, 4, 0, 9].map(|count: u32| vec![f32s(&[count], vec![0.0; count as usize])]), 0.0);
}

#[test]
fn unreachable_end_is_rejected() {
    let text = refusal(&sketch([Value::Int(3), Value::Int(9), Value::Int(-1)], DataType::Int32, 6));
    assert!(text.contains("`end` is 9, which no number of steps of -1 leads to from 3"), "{text}");
    assert!(refusal(&sketch([Value::Int(3), Value::Int(9), Value::Int(0)], DataType::Int32, 6)).contains("steps of 0"));
}
