//! Every kind of node, translated, fused and run, against the interpreter.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the interpreter rounds as the kernels do, and its numbers are small"
)]

mod cases;
mod dynamic_images;
mod reference;
mod samples;

pub(crate) use samples::samples;

use std::borrow::Cow;

use pteron_format::program::DataRef;
use pteron_format::xnnpack as file;

use self::reference::{Content, Interpreter};
use crate::engine::{LoadOptions, LoadedGraph, block_on};
use crate::frontend::builder::{Builder, BuiltGraph, ConstantOrigin};
use crate::fuse::Fusions;
use crate::graph::DecodedGraph;
use crate::ir::{ConstantId, DataType};
use crate::reference::{HostData, HostTensor};
use crate::testing::{compare, dims, gpu, noise, noise_bytes, run};

/// A delegate's graph, written by hand.
#[derive(Clone, Default)]
struct Delegate {
    graph: file::Graph,
    constants: Vec<Vec<u8>>,
}

impl Delegate {
    fn value(&mut self, value: file::Value) -> file::ValueId {
        self.graph.values.push(value);
        file::ValueId(u32::try_from(self.graph.values.len() - 1).unwrap())
    }

    fn external(&mut self, value: file::Value, output: bool) -> file::ValueId {
        let index = self.graph.external_count;
        self.graph.external_count += 1;
        self.value(file::Value { external: Some(file::External { index, output }), ..value })
    }

    fn input(&mut self, value: file::Value) -> file::ValueId {
        self.external(value, false)
    }

    fn output(&mut self, value: file::Value) -> file::ValueId {
        self.external(value, true)
    }

    fn bytes(&mut self, bytes: Vec<u8>) -> file::ConstantId {
        let id = file::ConstantId(u32::try_from(self.constants.len()).unwrap());
        let source = file::ConstantSource::Stored(0);
        self.graph.constants.push(file::Constant { len: bytes.len() as u64, source });
        self.constants.push(bytes);
        id
    }

    fn constant(&mut self, value: file::Value, bytes: Vec<u8>) -> file::ValueId {
        assert_eq!(value.byte_len(), Some(bytes.len() as u64), "a constant is as long as its dims say");
        let constant = Some(self.bytes(bytes));
        self.value(file::Value { constant, ..value })
    }

    fn floats(&mut self, dims: &[u32], seed: u64) -> file::ValueId {
        let values = noise(seed, dims.iter().product::<u32>() as usize);
        self.constant(float(dims), bytemuck::cast_slice(&values).to_vec())
    }

    fn node(&mut self, kind: file::NodeKind, range: Option<(f32, f32)>) {
        let output_range = range.map(|(min, max)| file::OutputRange { min, max });
        self.graph.nodes.push(file::Node { kind, output_range, debug_handle: 0 });
    }

    fn translated(&self) -> crate::Result<BuiltGraph> {
        let mut builder = Builder::new(1000);
        builder.begin_delegate(DataRef::Inline(0));
        let mut ports = vec![None; self.graph.external_count as usize];
        for (id, external) in self.graph.externals().filter(|(_, external)| !external.output) {
            let value = self.graph.value(id).unwrap();
            let tensor = builder.tensor(super::data_type(value.dtype), &value.dims)?;
            builder.input(tensor)?;
            ports[external.index as usize] = Some(tensor);
        }
        let mut outputs = super::translate(&self.graph, &ports, &mut builder)?;
        outputs.sort_unstable();
        outputs.iter().try_for_each(|&(_, output)| builder.output(output))?;
        builder.finish()
    }

    /// The names of the operators after all fusions.
    fn operators(&self) -> Vec<&'static str> {
        let graph = DecodedGraph::decode_with(self.translated().unwrap().graph, &Fusions::ALL).unwrap();
        graph.nodes.iter().map(|node| node.name).collect()
    }

    /// Runs the graph with inputs of these dims, with and without fusions, and compares with the interpreter.
    fn check(&self, shapes: &[&[&[u32]]], tolerance: f32) {
        for fusions in [Fusions::NONE, Fusions::ALL] {
            let built = self.translated().unwrap();
            let bytes = |id: ConstantId| match &built.origins[id.index()] {
                ConstantOrigin::Delegate { constant, .. } => {
                    Some(Cow::Borrowed(self.constants[*constant as usize].as_slice()))
                }
                ConstantOrigin::Bytes(bytes) => Some(Cow::Borrowed(bytes.as_slice())),
                _ => None,
            };
            let graph = DecodedGraph::decode_with(built.graph.clone(), &fusions).unwrap();
            let loaded = block_on(LoadedGraph::load(&gpu(), graph, &bytes, &LoadOptions::default())).unwrap();
            for shapes in shapes {
                self.check_call(&loaded, shapes, tolerance);
            }
        }
    }

    fn check_call(&self, loaded: &LoadedGraph, shapes: &[&[u32]], tolerance: f32) {
        let mut interpreter =
            Interpreter { graph: &self.graph, constants: &self.constants, values: vec![None; self.graph.values.len()] };
        let mut inputs = Vec::new();
        let externals = self.graph.externals().filter(|(_, external)| !external.output);
        for ((id, _), shape) in externals.zip(shapes) {
            let count = shape.iter().product::<u32>() as usize;
            let seed = u64::from(id.0) * 7 + count as u64;
            let (data, numbers) = match self.graph.value(id).unwrap().dtype {
                file::DataType::QInt8 => {
                    let bytes = noise_bytes(seed, count);
                    let numbers = bytes.iter().map(|byte| byte.cast_signed().into()).collect();
                    (HostData::U8(bytes), numbers)
                }
                _ => {
                    let values: Vec<f32> = noise(seed, count).iter().map(|x| x * 2.0).collect();
                    let numbers = values.iter().map(|&x| x.into()).collect();
                    (HostData::F32(values), numbers)
                }
            };
            inputs.push(HostTensor { dims: dims(shape), data });
            interpreter.values[id.index()] = Some(Content::new(shape, numbers));
        }
        interpreter.run();
        let got = run(loaded, &mut loaded.new_state().unwrap(), &inputs).unwrap();
        let outputs = self.graph.externals().filter(|(_, external)| external.output);
        for ((id, _), got) in outputs.zip(&got) {
            let want = interpreter.values[id.index()].clone().unwrap();
            let shape: Vec<u32> = want.dims.iter().map(|&dim| u32::try_from(dim).unwrap()).collect();
            let data = match super::data_type(self.graph.value(id).unwrap().dtype) {
                DataType::Int8 => HostData::U8(want.numbers.iter().map(|&q| (q as i8).cast_unsigned()).collect()),
                DataType::Int32 => HostData::I32(want.numbers.iter().map(|&q| q as i32).collect()),
                _ => HostData::F32(want.numbers.iter().map(|&x| x as f32).collect()),
            };
            let names: Vec<&str> = self.graph.nodes.iter().map(|node| node.kind.name()).collect();
            compare(&format!("{names:?} of {shapes:?}"), got, &HostTensor { dims: dims(&shape), data }, tolerance);
        }
    }
}

fn float(dims: &[u32]) -> file::Value {
    file::Value::new(file::DataType::Float32, dims)
}

fn quantised(dtype: file::DataType, dims: &[u32], scale: f32, zero_point: i32) -> file::Value {
    let quantization = Some(file::Quantization::PerTensor { scale, zero_point });
    file::Value { quantization, ..file::Value::new(dtype, dims) }
}

fn int8(dims: &[u32], scale: f32, zero_point: i32) -> file::Value {
    quantised(file::DataType::QInt8, dims, scale, zero_point)
}

/// A value that is quantised when the graph runs.
fn dynamic(dims: &[u32], row_dims: u32) -> file::Value {
    let quantization = Some(file::Quantization::PerToken { row_dims });
    file::Value { quantization, ..file::Value::new(file::DataType::QdInt8, dims) }
}

fn spatial(height: u32, width: u32) -> file::Spatial {
    file::Spatial { height, width }
}
