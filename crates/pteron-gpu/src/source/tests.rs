use pteron_format::vulkan::{ConstantId, DataType, Value, ValueId};

use super::FileGraph;
use crate::error::Error;
use crate::fuse::Fusions;
use crate::graph::{Graph, Role};
use crate::ops::{self, OPS};
use crate::testing::{Dry, Sketch, noise};

#[test]
fn internal_operators_are_marked_and_all_are_ours() {
    let all = OPS.iter().flat_map(|def| def.names.iter().map(move |name| (*def, *name)));
    let (internal, in_files): (Vec<_>, Vec<_>) = all.partition(|(def, name)| def.internal.contains(name));
    assert!(in_files.iter().all(|(_, name)| !name.starts_with("pteron.") && ops::find_in_files(name).is_some()));
    assert!(internal.iter().all(|(_, name)| name.starts_with("pteron.") && ops::find_in_files(name).is_none()));
    assert_eq!(internal.len(), OPS.iter().map(|def| def.internal.len()).sum::<usize>(), "what is internal is a name");
    assert!(internal.len() >= 4 && internal.iter().all(|(def, name)| std::ptr::eq(ops::find(name).unwrap(), *def)));
}

#[test]
fn a_file_that_calls_an_internal_operator_is_refused_by_its_name() {
    for (def, name) in OPS.iter().flat_map(|def| def.internal.iter().map(move |name| (def, *name))) {
        assert!(!def.is_in_files(name));
        let mut sketch = Sketch::new();
        let x = sketch.input(DataType::Float32, &[4]);
        let out = sketch.tensor(DataType::Float32, &[4]);
        sketch.call("aten.neg.default", &[x, out]);
        sketch.call(name, &[x, out]);
        for fusions in [Fusions::NONE, Fusions::ALL] {
            let error = Graph::decode_with(sketch.graph.clone(), &fusions).unwrap_err();
            assert!(matches!(&error, Error::UnknownOperator { name: found, index: 1 } if found == name), "{error}");
        }
    }
}

/// Gives a tensor the constant that another has.
fn share_constant(sketch: &mut Sketch, tensor: ValueId, of: ValueId) {
    let constant = constant_of(sketch, of);
    let Some(Value::Tensor(tensor)) = sketch.graph.values.get_mut(tensor.index()) else { panic!("it is a tensor") };
    tensor.constant = Some(constant);
}

fn constant_of(sketch: &Sketch, tensor: ValueId) -> ConstantId {
    sketch.graph.value(tensor).and_then(Value::as_tensor).and_then(|tensor| tensor.constant).unwrap()
}

fn input_refusal(sketch: &Sketch) -> (usize, String) {
    match FileGraph::new(sketch.graph.clone()).unwrap().decode(&Fusions::ALL).unwrap_err() {
        Error::Input { index, reason } => (index, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn an_input_with_the_bytes_of_a_constant_is_refused() {
    let mut sketch = Sketch::new();
    let constant = sketch.floats(&[4, 4], &noise(1, 16));
    let x = sketch.input(DataType::Float32, &[4, 4]);
    let out = sketch.tensor(DataType::Float32, &[4, 4]);
    sketch.call("aten.neg.default", &[x, out]);
    sketch.output(out);
    assert!(sketch.decode().is_ok());
    share_constant(&mut sketch, x, constant);
    assert_eq!(input_refusal(&sketch), (0, format!("is tensor {x}, which has the bytes of a constant")));
}

#[test]
fn a_tensor_that_is_input_twice_is_refused() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[4, 4]);
    sketch.graph.inputs.push(x);
    sketch.output(x);
    assert_eq!(input_refusal(&sketch), (1, format!("is tensor {x}, which is input 0 already")));
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
    use pteron_format::vulkan::ConstantSource::Named;
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
fn what_is_stored_has_the_elements_and_the_dims_of_its_buffer() {
    let refusal = |dtype, dims: &[u32]| {
        let mut sketch = Sketch::new();
        let buffer = sketch.floats(&[4, 4], &noise(1, 16));
        let x = sketch.input(dtype, dims);
        sketch.call(crate::rewrite::STORE, &[x, buffer]);
        sketch.decode().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refusal(DataType::Float32, &[4, 4]), Ok(()));
    for (dtype, dims, found) in [
        (DataType::Int8, &[4, 4][..], "[4, 4] of I8"),
        (DataType::Int32, &[4, 4], "[4, 4] of I32"),
        (DataType::Float32, &[4, 5], "[4, 5] of F32"),
        (DataType::Float32, &[16], "[16] of F32"),
    ] {
        let expected = format!("pteron.store (call 0): `self` has {found}, but it is stored as [4, 4] of F32");
        assert_eq!(refusal(dtype, dims), Err(expected));
    }
}

#[test]
fn what_is_stored_fills_its_buffer_in_every_call() {
    let mut sketch = Sketch::new();
    let buffer = sketch.floats(&[4, 4], &noise(1, 16));
    let x = sketch.input(DataType::Float32, &[4, 4]);
    sketch.call(crate::rewrite::STORE, &[x, buffer]);
    let mut dry = Dry::new(&sketch).unwrap();
    assert!(dry.call(&[(&[4, 4], &[])]).is_ok());
    let error = dry.call(&[(&[3, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`self` has [3, 4], but the buffer it is stored in has [4, 4]"), "{error}");
}
