use super::*;
use crate::engine::LoadOptions;
use crate::error::Error;
use crate::ir::{ConstantId, ConstantSource, DataType, Value, ValueId};
use crate::testing::{Dry, Sketch, compare, f32s, noise, run};

#[test]
fn a_symbolic_integer_is_written_once_and_before_it_is_read() {
    let rejection = |calls: fn([ValueId; 3]) -> Vec<[ValueId; 3]>| {
        let mut sketch = Sketch::new();
        let x = sketch.input(DataType::Float32, &[4]);
        let zero = sketch.int(0);
        let [size, sum] = [(); 2].map(|()| sketch.value(Value::SymInt));
        sketch.call("sym_size.int", &[x, zero, size]);
        for args in calls([size, sum, zero]) {
            sketch.call("add", &args);
        }
        sketch.output(x);
        sketch.decode().map_err(|error| error.to_string()).err()
    };
    assert_eq!(rejection(|[size, sum, zero]| vec![[size, zero, sum]]), None);
    let accumulated = rejection(|[size, _, _]| vec![[size, size, size]]).unwrap();
    assert!(accumulated.contains("`out` is the symbolic integer 2, which was computed before"), "{accumulated}");
    let early = rejection(|[size, sum, _]| vec![[sum, size, sum]]).unwrap();
    assert!(early.contains("`input` is the symbolic integer 3, which is computed only later"), "{early}");
    let twice = rejection(|[size, sum, zero]| vec![[size, zero, sum], [zero, size, sum]]).unwrap();
    assert!(twice.contains("which was computed before"), "{twice}");
}

#[test]
fn elements_smaller_than_words_share_them() {
    let bytes = |elem: Elem| [0, 1, 2, 5, 8].map(|count| elem.bytes(count));
    assert_eq!(bytes(Elem::F32), [0, 4, 8, 20, 32]);
    assert_eq!(bytes(Elem::F16), [0, 4, 4, 12, 16]);
    assert_eq!(bytes(Elem::U8), [0, 4, 4, 8, 8]);
    assert_eq!((Elem::F16.lanes(), Elem::F16.bits(-1.5)), (2, 0xBE00));
}

#[test]
fn a_constant_has_one_type() {
    let mut sketch = Sketch::new();
    let floats = sketch.floats(&[4], &[1.0; 4]);
    let integers = sketch.tensor(DataType::Int32, &[4]);
    assert!(sketch.decode().is_ok());
    let constant = sketch.graph.value(floats).and_then(Value::as_tensor).unwrap().constant;
    let Some(Value::Tensor(tensor)) = sketch.graph.values.get_mut(integers.index()) else { panic!("it is a tensor") };
    tensor.constant = constant;
    let text = sketch.decode().unwrap_err().to_string();
    assert_eq!(text, "tensor 1 takes constant 0 as int32, another tensor as float32");
}

/// Gives a tensor the constant of another.
fn share_constant(sketch: &mut Sketch, tensor: ValueId, of: ValueId) {
    let constant = constant_of(sketch, of);
    let Some(Value::Tensor(tensor)) = sketch.graph.values.get_mut(tensor.index()) else { panic!("it is a tensor") };
    tensor.constant = Some(constant);
}

fn constant_of(sketch: &Sketch, tensor: ValueId) -> ConstantId {
    sketch.graph.value(tensor).and_then(Value::as_tensor).and_then(|tensor| tensor.constant).unwrap()
}

fn input_rejection(sketch: &Sketch) -> (usize, String) {
    match Graph::decode_with(sketch.graph.clone(), &Fusions::ALL).unwrap_err() {
        Error::Input { index, reason } => (index, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn an_input_with_the_bytes_of_a_constant_is_rejected() {
    let mut sketch = Sketch::new();
    let constant = sketch.floats(&[4, 4], &noise(1, 16));
    let x = sketch.input(DataType::Float32, &[4, 4]);
    let out = sketch.tensor(DataType::Float32, &[4, 4]);
    sketch.call("aten.neg.default", &[x, out]);
    sketch.output(out);
    assert!(sketch.decode().is_ok());
    share_constant(&mut sketch, x, constant);
    assert_eq!(input_rejection(&sketch), (0, format!("is tensor {x}, which has the bytes of a constant")));
}

#[test]
fn a_tensor_that_is_input_twice_is_rejected() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[4, 4]);
    sketch.graph.inputs.push(x);
    sketch.output(x);
    assert_eq!(input_rejection(&sketch), (1, format!("is tensor {x}, which is input 0 already")));
}

#[test]
fn constants_are_as_long_as_their_tensors() {
    let mut sketch = Sketch::new();
    let constant = sketch.floats(&[4, 4], &noise(1, 16));
    let longer = sketch.tensor(DataType::Float32, &[4, 5]);
    assert!(sketch.decode().is_ok());
    share_constant(&mut sketch, longer, constant);
    let text = sketch.decode().unwrap_err().to_string();
    assert_eq!(text, format!("tensor {longer} takes constant 0 of 64 bytes, which is not what its dims need"));
    let Some(Value::Tensor(tensor)) = sketch.graph.values.get_mut(longer.index()) else { panic!("it is a tensor") };
    tensor.constant = Some(ConstantId(7));
    let text = sketch.decode().unwrap_err().to_string();
    assert_eq!(text, format!("tensor {longer} takes constant 7, but the graph has 1"));
}

#[test]
fn keys_that_are_equal_share_bytes_only_if_they_are_as_long() {
    use ConstantSource::Named;
    let mut sketch = Sketch::new();
    let tensors = [4, 8, 4].map(|len: u32| sketch.floats(&[len], &noise(1, len as usize)));
    for constant in &mut sketch.graph.constants {
        constant.source = Named("key".to_owned());
    }
    let graph = sketch.decode().unwrap();
    let firsts = tensors.map(|tensor| graph.first_equal(constant_of(&sketch, tensor).0));
    assert_eq!(firsts, [0, 1, 0]);
}

#[test]
fn a_constant_that_a_call_changes_is_state() {
    let mut sketch = Sketch::new();
    let cache = sketch.floats(&[1, 8, 1, 16], &noise(1, 128));
    let value = sketch.input(DataType::Float32, &[1, 2, 1, 16]);
    let (position, done) = (sketch.int(0), sketch.tensor(DataType::Float32, &[1]));
    let product = sketch.tensor(DataType::Float32, &[1, 8, 1, 16]);
    sketch.call("aten.mul.Tensor", &[cache, cache, product]);
    sketch.output(product);
    let role = |sketch: &Sketch| sketch.decode().unwrap().roles[cache.index()];
    assert_eq!(role(&sketch), Role::Constant(0));
    sketch.call("update_cache.default", &[value, cache, position, done]);
    assert_eq!(role(&sketch), Role::State(0));
}

#[test]
fn a_stored_tensor_has_the_elements_and_dims_of_its_buffer() {
    let rejection = |dtype, dims: &[u32]| {
        let mut sketch = Sketch::new();
        let buffer = sketch.floats(&[4, 4], &noise(1, 16));
        let x = sketch.input(dtype, dims);
        sketch.call(crate::ops::copy::STORE, &[x, buffer]);
        sketch.decode().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(rejection(DataType::Float32, &[4, 4]), Ok(()));
    for (dtype, dims, found) in [
        (DataType::Int8, &[4, 4][..], "[4, 4] of I8"),
        (DataType::Int32, &[4, 4], "[4, 4] of I32"),
        (DataType::Float32, &[4, 5], "[4, 5] of F32"),
        (DataType::Float32, &[16], "[16] of F32"),
    ] {
        let expected = format!("pteron.store (call 0): `self` has {found}, but it is stored as [4, 4] of F32");
        assert_eq!(rejection(dtype, dims), Err(expected));
    }
}

#[test]
fn a_stored_tensor_fills_its_buffer_in_every_call() {
    let mut sketch = Sketch::new();
    let buffer = sketch.floats(&[4, 4], &noise(1, 16));
    let x = sketch.input(DataType::Float32, &[4, 4]);
    sketch.call(crate::ops::copy::STORE, &[x, buffer]);
    let mut dry = Dry::new(&sketch).unwrap();
    assert!(dry.call(&[(&[4, 4], &[])]).is_ok());
    let error = dry.call(&[(&[3, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`self` has [3, 4], but the buffer it is stored in has [4, 4]"), "{error}");
}

/// A running sum, kept in a buffer that is initially zero.
#[test]
fn state_of_zeros_needs_no_bytes() {
    let mut sketch = Sketch::new();
    let sum = sketch.floats(&[4], &[9.0; 4]);
    let x = sketch.input(DataType::Float32, &[4]);
    let (one, next) = (sketch.int(1), sketch.tensor(DataType::Float32, &[4]));
    sketch.call("aten.add.Tensor", &[sum, x, one, next]);
    sketch.call(crate::ops::copy::STORE, &[next, sum]);
    sketch.output(next);
    sketch.graph.constants[0].source = ConstantSource::Zeros;
    sketch.constants.clear();
    let loaded = sketch.load(&LoadOptions::default()).unwrap();
    let mut state = loaded.new_state().unwrap();
    for total in [1.5, 3.0, 4.5] {
        let outputs = run(&loaded, &mut state, &[f32s(&[4], vec![1.5; 4])]).unwrap();
        compare("the sum", &outputs[0], &f32s(&[4], vec![total; 4]), 0.0);
    }
}
