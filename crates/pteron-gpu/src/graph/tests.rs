use super::*;
use crate::engine::LoadOptions;
use crate::error::Error;
use crate::ir::{ConstantId, ConstantSource, DataType, Value, ValueId};
use crate::testing::{DryRun, GraphBuilder, compare, f32s, noise, run};

#[test]
fn a_symbolic_integer_is_written_once_and_before_it_is_read() {
    let rejection = |calls: fn([ValueId; 3]) -> Vec<[ValueId; 3]>| {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[4]);
        let zero = builder.int(0);
        let [size, sum] = [(); 2].map(|()| builder.value(Value::SymInt));
        builder.call("sym_size.int", &[x, zero, size]);
        for args in calls([size, sum, zero]) {
            builder.call("add", &args);
        }
        builder.output(x);
        builder.decode().map_err(|error| error.to_string()).err()
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
    let mut builder = GraphBuilder::new();
    let floats = builder.floats(&[4], &[1.0; 4]);
    let integers = builder.tensor(DataType::Int32, &[4]);
    assert!(builder.decode().is_ok());
    let constant = builder.graph.value(floats).and_then(Value::as_tensor).unwrap().constant;
    let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(integers.index()) else { panic!("it is a tensor") };
    tensor.constant = constant;
    let text = builder.decode().unwrap_err().to_string();
    assert_eq!(text, "tensor 1 takes constant 0 as int32, another tensor as float32");
}

/// Gives a tensor the constant of another.
fn share_constant(builder: &mut GraphBuilder, tensor: ValueId, of: ValueId) {
    let constant = constant_of(builder, of);
    let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(tensor.index()) else { panic!("it is a tensor") };
    tensor.constant = Some(constant);
}

fn constant_of(builder: &GraphBuilder, tensor: ValueId) -> ConstantId {
    builder.graph.value(tensor).and_then(Value::as_tensor).and_then(|tensor| tensor.constant).unwrap()
}

fn input_rejection(builder: &GraphBuilder) -> (usize, String) {
    match DecodedGraph::decode_with(builder.graph.clone(), &Fusions::ALL).unwrap_err() {
        Error::Input { index, reason } => (index, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn an_input_with_the_bytes_of_a_constant_is_rejected() {
    let mut builder = GraphBuilder::new();
    let constant = builder.floats(&[4, 4], &noise(1, 16));
    let x = builder.input(DataType::Float32, &[4, 4]);
    let out = builder.tensor(DataType::Float32, &[4, 4]);
    builder.call("aten.neg.default", &[x, out]);
    builder.output(out);
    assert!(builder.decode().is_ok());
    share_constant(&mut builder, x, constant);
    assert_eq!(input_rejection(&builder), (0, format!("is tensor {x}, which has the bytes of a constant")));
}

#[test]
fn a_tensor_that_is_input_twice_is_rejected() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[4, 4]);
    builder.graph.inputs.push(x);
    builder.output(x);
    assert_eq!(input_rejection(&builder), (1, format!("is tensor {x}, which is input 0 already")));
}

#[test]
fn constants_are_as_long_as_their_tensors() {
    let mut builder = GraphBuilder::new();
    let constant = builder.floats(&[4, 4], &noise(1, 16));
    let longer = builder.tensor(DataType::Float32, &[4, 5]);
    assert!(builder.decode().is_ok());
    share_constant(&mut builder, longer, constant);
    let text = builder.decode().unwrap_err().to_string();
    assert_eq!(text, format!("tensor {longer} takes constant 0 of 64 bytes, which is not what its dims need"));
    let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(longer.index()) else { panic!("it is a tensor") };
    tensor.constant = Some(ConstantId(7));
    let text = builder.decode().unwrap_err().to_string();
    assert_eq!(text, format!("tensor {longer} takes constant 7, but the graph has 1"));
}

#[test]
fn keys_that_are_equal_share_bytes_only_if_they_are_as_long() {
    use ConstantSource::Named;
    let mut builder = GraphBuilder::new();
    let tensors = [4, 8, 4].map(|len: u32| builder.floats(&[len], &noise(1, len as usize)));
    for constant in &mut builder.graph.constants {
        constant.source = Named("key".to_owned());
    }
    let graph = builder.decode().unwrap();
    let firsts = tensors.map(|tensor| graph.first_equal(constant_of(&builder, tensor).0));
    assert_eq!(firsts, [0, 1, 0]);
}

#[test]
fn a_constant_that_a_call_changes_is_state() {
    let mut builder = GraphBuilder::new();
    let cache = builder.floats(&[1, 8, 1, 16], &noise(1, 128));
    let value = builder.input(DataType::Float32, &[1, 2, 1, 16]);
    let (position, done) = (builder.int(0), builder.tensor(DataType::Float32, &[1]));
    let product = builder.tensor(DataType::Float32, &[1, 8, 1, 16]);
    builder.call("aten.mul.Tensor", &[cache, cache, product]);
    builder.output(product);
    let role = |builder: &GraphBuilder| builder.decode().unwrap().roles[cache.index()];
    assert_eq!(role(&builder), Role::Constant(0));
    builder.call("update_cache.default", &[value, cache, position, done]);
    assert_eq!(role(&builder), Role::State(0));
}

#[test]
fn a_stored_tensor_has_the_elements_and_dims_of_its_buffer() {
    let rejection = |dtype, dims: &[u32]| {
        let mut builder = GraphBuilder::new();
        let buffer = builder.floats(&[4, 4], &noise(1, 16));
        let x = builder.input(dtype, dims);
        builder.call(crate::ops::copy::STORE, &[x, buffer]);
        builder.decode().map(|_| ()).map_err(|error| error.to_string())
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
    let mut builder = GraphBuilder::new();
    let buffer = builder.floats(&[4, 4], &noise(1, 16));
    let x = builder.input(DataType::Float32, &[4, 4]);
    builder.call(crate::ops::copy::STORE, &[x, buffer]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert!(dry_run.call(&[(&[4, 4], &[])]).is_ok());
    let error = dry_run.call(&[(&[3, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`self` has [3, 4], but the buffer it is stored in has [4, 4]"), "{error}");
}

/// A running sum, kept in a buffer that is initially zero.
#[test]
fn state_of_zeros_needs_no_bytes() {
    let mut builder = GraphBuilder::new();
    let sum = builder.floats(&[4], &[9.0; 4]);
    let x = builder.input(DataType::Float32, &[4]);
    let (one, next) = (builder.int(1), builder.tensor(DataType::Float32, &[4]));
    builder.call("aten.add.Tensor", &[sum, x, one, next]);
    builder.call(crate::ops::copy::STORE, &[next, sum]);
    builder.output(next);
    builder.graph.constants[0].source = ConstantSource::Zeros;
    builder.constants.clear();
    let loaded = builder.load(&LoadOptions::default()).unwrap();
    let mut state = loaded.new_state().unwrap();
    for total in [1.5, 3.0, 4.5] {
        let outputs = run(&loaded, &mut state, &[f32s(&[4], vec![1.5; 4])]).unwrap();
        compare("the sum", &outputs[0], &f32s(&[4], vec![total; 4]), 0.0);
    }
}
