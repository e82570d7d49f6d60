//! Every operator of the registry against its plain reference: exported graphs with their exported inputs, and hand-written
//! graphs for names that no exported graph has. An operator without either fails the last test here.

mod by_hand;
mod portable;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pteron_format::vulkan::{self, ConstantSource};
use pteron_format::{Ptd, Pte};
use serde_json::Value as Json;

use crate::frontend;
use crate::ir::{self, DataType, Value};
use crate::ops::OPS;
use crate::ops::sdpa::{ROTARY, SPLIT_HALF};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, i32s, noise, noise_bytes};

/// A graph of a file, and the calls of its program that run this graph alone.
pub(super) struct Fixture {
    pub(super) name: String,
    pub(super) builder: GraphBuilder,
    pub(super) calls: Vec<Vec<HostTensor>>,
    /// The reasons for leaving out other calls of the program.
    pub(super) not_compared: Vec<String>,
}

/// The operators of a graph.
fn operators(builder: &GraphBuilder) -> Vec<&'static str> {
    builder.decode().unwrap().nodes.into_iter().map(|node| node.name).collect()
}

/// Every delegate's graph below `fixtures/`.
pub(super) fn fixture_graphs() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut fixtures = Vec::new();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cases: Json = serde_json::from_str(&text(&root.join("ops/manifest.json"))).unwrap();
    for case in cases.as_array().unwrap() {
        let calls: Vec<&Json> = case["calls"].as_array().unwrap().iter().collect();
        read(&root.join("ops"), &case["name"], &case["pte"], &case["ptd"], &calls, &mut fixtures);
    }
    for model in ["tiny_4w", "tiny_8da4w", "tiny_fp16_full_logits"] {
        let folder = root.join("llama").join(model);
        let manifest: Json = serde_json::from_str(&text(&folder.join("manifest.json"))).unwrap();
        let calls: Vec<&Json> = manifest["sequences"][1]["calls"].as_array().unwrap().iter().collect();
        read(&folder, &Json::from(model), &manifest["program"], &manifest["ptd"], &calls, &mut fixtures);
    }
    fixtures
}

/// The graph of the bundled model.
pub(super) fn demo() -> GraphBuilder {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/demo");
    let mut fixtures = Vec::new();
    read(&folder, &Json::from("demo"), &Json::from("model.pte"), &Json::Null, &[], &mut fixtures);
    fixtures.remove(0).builder
}

fn read(folder: &Path, name: &Json, pte: &Json, ptd: &Json, calls: &[&Json], fixtures: &mut Vec<Fixture>) {
    let path = |value: &Json| -> PathBuf { folder.join(value.as_str().unwrap()) };
    let pte = Pte::read(std::fs::read(path(pte)).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let data: Vec<Ptd<Vec<u8>>> =
        ptd.as_array().into_iter().flatten().map(|file| Ptd::read(std::fs::read(path(file)).unwrap()).unwrap()).collect();
    let alone = pte.graphs().count() == 1;
    for (index, (place, blob)) in pte.graphs().enumerate() {
        let bytes = |constant: &vulkan::Constant| {
            let external = || match &constant.source {
                ConstantSource::Named(key) => data.iter().find_map(|file| file.named_bytes(key)),
                ConstantSource::Stored(_) => None,
            };
            pte.constant_bytes(place, constant).or_else(external).unwrap().to_vec()
        };
        let graph = frontend::vulkan::translate(&blob.graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        let constants = blob.graph.constants.iter().map(bytes).collect();
        let builder = in_32_bits(GraphBuilder { graph, constants });
        let name = format!("{} graph {index}", name.as_str().unwrap());
        let mut fixture = Fixture { name, builder, calls: Vec::new(), not_compared: Vec::new() };
        for call in calls {
            let inputs = if alone { inputs(folder, &fixture.builder.graph, call) } else { Err(SEVERAL_GRAPHS.to_owned()) };
            match inputs {
                Ok(inputs) => fixture.calls.push(inputs),
                Err(reason) => fixture.not_compared.push(reason),
            }
        }
        fixtures.push(fixture);
    }
}

/// Widens 16-bit floats and narrows 64-bit integers, as in the references.
fn in_32_bits(mut builder: GraphBuilder) -> GraphBuilder {
    let mut done = BTreeSet::new();
    for value in &mut builder.graph.values {
        let Value::Tensor(tensor) = value else { continue };
        let wide: fn(&[u8]) -> Vec<u8> = match tensor.dtype {
            DataType::Float16 => |bytes| floats(bytes, "float16").iter().flat_map(|value| value.to_le_bytes()).collect(),
            DataType::Int64 => |bytes| integers(bytes, "int64").iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => continue,
        };
        tensor.dtype = if tensor.dtype == DataType::Int64 { DataType::Int32 } else { DataType::Float32 };
        if let Some(constant) = tensor.constant.filter(|constant| done.insert(constant.0)) {
            let bytes = &mut builder.constants[constant.index()];
            *bytes = wide(bytes);
            builder.graph.constants[constant.index()].len = bytes.len() as u64;
        }
    }
    builder
}

fn floats(bytes: &[u8], dtype: &str) -> Vec<f32> {
    match dtype {
        "float16" => bytes.chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect(),
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

fn integers(bytes: &[u8], dtype: &str) -> Vec<i32> {
    match dtype {
        "int64" => {
            bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap()).try_into().unwrap()).collect()
        }
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

/// The reason if a call of a program is not a call of one graph: the conformance suite compares it.
const SEVERAL_GRAPHS: &str = "the program has several graphs";
const OTHER_INPUTS: &str = "the program's inputs are not the graph's";

/// The inputs of a call, or the reason why they are not the graph's own.
fn inputs(folder: &Path, graph: &ir::Graph, call: &Json) -> Result<Vec<HostTensor>, String> {
    let files = call["inputs"].as_array().unwrap();
    if files.len() != graph.inputs.len() {
        return Err(OTHER_INPUTS.to_owned());
    }
    let input = |(file, id): (&Json, &ir::ValueId)| {
        let shape: Vec<u32> = serde_json::from_value(file["shape"].clone()).unwrap();
        // Plain numbers have no files.
        let Some(path) = file["path"].as_str() else { return Err(OTHER_INPUTS.to_owned()) };
        let bytes = std::fs::read(folder.join(path)).unwrap();
        let (dtype, tensor) = (file["dtype"].as_str().unwrap(), graph.value(*id).and_then(Value::as_tensor).unwrap());
        let data = match tensor.dtype {
            DataType::Float32 => HostData::F32(floats(&bytes, dtype)),
            DataType::Int32 => HostData::I32(integers(&bytes, dtype)),
            _ => HostData::U8(bytes),
        };
        let fits = dims(&shape).fits(&dims(&tensor.dims)) && data.len() as u64 == dims(&shape).count();
        if fits { Ok(HostTensor { dims: dims(&shape), data }) } else { Err(OTHER_INPUTS.to_owned()) }
    };
    files.iter().zip(&graph.inputs).map(input).collect()
}

#[test]
fn exported_graphs_agree_with_their_references() {
    for fixture in fixture_graphs() {
        let Fixture { name, builder, calls, not_compared } = fixture;
        println!("{name}: {} calls compared, not compared: {not_compared:?}", calls.len());
        check(&builder, &calls, 2e-3);
        let explained = |reason: &String| [SEVERAL_GRAPHS, OTHER_INPUTS].contains(&reason.as_str());
        assert!(not_compared.iter().all(explained), "{name}: {not_compared:?}");
        assert!(!calls.is_empty() || !not_compared.is_empty(), "{name} has no calls");
    }
}

/// Hand-written graphs with calls, for operators that no exported graph has.
pub(super) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    samples.extend([clones(), symbols(), update_cache(), choice(), turned("aten.t_copy.default"), linears()]);
    samples.push(turned("aten.permute.default"));
    samples.extend(by_hand::samples());
    samples.extend(portable::samples());
    for name in ["pteron.sdpa_naive", "pteron.sdpa_sliced", ROTARY, SPLIT_HALF] {
        samples.push(attention(name));
    }
    samples.extend(super::convolutions::samples());
    samples.extend(crate::frontend::xnnpack::tests::samples());
    samples
}

pub(super) type Sample = (GraphBuilder, Vec<Vec<HostTensor>>);

fn rows(calls: &[u32], width: u32, make: fn(f32) -> f32) -> Vec<Vec<HostTensor>> {
    let call = |&rows: &u32| {
        let values = noise(rows.into(), (rows * width) as usize).into_iter().map(make).collect();
        vec![f32s(&[rows, width], values)]
    };
    calls.iter().map(call).collect()
}

/// A transposed matrix.
fn turned(name: &str) -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[11, 7]);
    let mut args = vec![x];
    if name.contains("permute") {
        args.push(builder.value(Value::IntList(vec![1, 0])));
    }
    args.push(builder.tensor(DataType::Float32, &[7, 11]));
    builder.call(name, &args);
    builder.output(args[args.len() - 1]);
    (builder, rows(&[11, 1, 6], 7, |x| x))
}

/// The argmax of the last row of logits.
fn choice() -> Sample {
    let mut builder = GraphBuilder::new();
    let (logits, how) = (builder.input(DataType::Float32, &[3, 40]), builder.input(DataType::Int32, &[4]));
    let out = builder.tensor(DataType::Int32, &[1, 1]);
    builder.call(crate::ops::sample_row::NAME, &[logits, how, out]);
    builder.output(out);
    let calls = [3, 1].map(|rows: u32| vec![f32s(&[rows, 40], noise(5, rows as usize * 40)), i32s(&[4], vec![0; 4])]);
    (builder, calls.to_vec())
}

/// Two linears of normalised rows, with 4-bit weights in one buffer.
fn linears() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[11, 32]);
    let norm = builder.floats(&[32], &noise(1, 32));
    let weights =
        [4, 8].map(|rows: u32| builder.constant(DataType::UInt8, &[rows, 16], noise_bytes(rows.into(), rows as usize * 16)));
    let scales = [4, 8].map(|rows: u32| builder.floats(&[1, rows], &noise(rows.into(), rows as usize)));
    let outputs = [4, 8].map(|rows: u32| builder.tensor(DataType::Float32, &[11, rows]));
    let (none, no) = (builder.value(Value::Null), builder.value(Value::Bool(false)));
    let (eps, group) = (builder.float(1e-5), builder.int(32));
    let [weights, scales, biases, out] =
        [weights, scales, [none; 2], outputs].map(|list| builder.value(Value::ValueList(list.to_vec())));
    builder.call(crate::ops::fused_linear::NAME, &[x, norm, eps, none, weights, scales, group, biases, none, no, no, out]);
    outputs.into_iter().for_each(|output| builder.output(output));
    (builder, rows(&[11, 1, 8], 32, |x| x))
}

fn clones() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[11, 7]);
    let (no, none) = (builder.value(Value::Bool(false)), builder.value(Value::Null));
    let outputs = [(); 2].map(|()| builder.tensor(DataType::Float32, &[11, 7]));
    builder.call("dim_order_ops._clone_dim_order.default", &[x, no, none, outputs[0]]);
    builder.call("aten.clone.default", &[x, none, outputs[1]]);
    outputs.into_iter().for_each(|output| builder.output(output));
    (builder, rows(&[11, 3], 7, |x| x))
}

/// Rows of a cache that calls share, from a position on.
fn update_cache() -> Sample {
    let mut builder = GraphBuilder::new();
    let value = builder.input(DataType::Float32, &[1, 5, 2, 3]);
    let position = builder.input(DataType::Int32, &[1]);
    let cache = builder.floats(&[1, 12, 2, 3], &noise(9, 72));
    let (zero, at) = (builder.int(0), builder.value(Value::SymInt));
    let done = builder.tensor(DataType::Float32, &[1]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    builder.call("update_cache.default", &[value, cache, at, done]);
    builder.output(cache);
    let calls = [(5, 0), (1, 5), (3, 9), (0, 2)].map(|(count, at): (u32, i32)| {
        vec![f32s(&[1, count, 2, 3], noise(u64::from(count) + 1, count as usize * 6)), i32s(&[1], vec![at])]
    });
    (builder, calls.to_vec())
}

/// A view whose sizes pass through every operator on symbols.
fn symbols() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[12, 4]);
    let (zero, two, one) = (builder.int(0), builder.int(2), builder.int(1));
    let [length, double, more, less, half] = [(); 5].map(|()| builder.value(Value::SymInt));
    builder.call("sym_size.int", &[x, zero, length]);
    builder.call("mul", &[length, two, double]);
    builder.call("add", &[double, one, more]);
    builder.call("sub", &[more, one, less]);
    builder.call("floordiv", &[less, two, half]);
    let sizes = builder.value(Value::ValueList(vec![half, two, two]));
    let (view, out) = (builder.tensor(DataType::Float32, &[12, 2, 2]), builder.tensor(DataType::Float32, &[12, 2, 2]));
    builder.call("aten.view_copy.default", &[x, sizes, view]);
    builder.call("aten.neg.default", &[view, out]);
    builder.output(out);
    (builder, rows(&[12, 1, 5], 4, |x| x))
}

fn attention(name: &str) -> Sample {
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let q = builder.input(float, &[1, 9, 4, 8]);
    let [k, v] = [(); 2].map(|()| builder.input(float, &[1, 9, 2, 8]));
    let position = builder.input(DataType::Int32, &[1]);
    let caches = [(); 2].map(|()| builder.floats(&[1, 20, 2, 8], &[0.0; 320]));
    let (zero, at) = (builder.int(0), builder.value(Value::SymInt));
    let (none, yes) = (builder.value(Value::Null), builder.value(Value::Bool(true)));
    let out = builder.tensor(float, &[1, 9, 4, 8]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    let mut args = vec![q, k, v, caches[0], caches[1], at, zero, none, zero, yes, none, out];
    if name == ROTARY {
        let tables = [5, 6].map(|seed| builder.floats(&[20, 4], &noise(seed, 80)));
        args.splice(3..3, tables);
    }
    if name == SPLIT_HALF {
        let table = builder.input(float, &[18, 8]);
        args.insert(3, table);
    }
    builder.call(name, &args);
    builder.output(out);
    let calls = [(9, 0), (1, 9), (5, 10)].map(|(count, at): (u32, i32)| {
        let new = |seed: u64, heads: u32| {
            f32s(&[1, count, heads, 8], noise(seed + u64::from(count), (count * heads * 8) as usize))
        };
        let mut inputs = vec![new(1, 4), new(2, 2), new(3, 2), i32s(&[1], vec![at])];
        if name == SPLIT_HALF {
            inputs.push(f32s(&[2 * count, 8], noise(7, 16 * count as usize)));
        }
        inputs
    });
    (builder, calls.to_vec())
}

#[test]
fn handwritten_graphs_agree_with_their_references() {
    for (builder, calls) in samples() {
        println!("{:?}", operators(&builder));
        check(&builder, &calls, 1e-4);
    }
}

#[test]
fn every_registered_operator_is_compared_with_its_reference() {
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    for fixture in fixture_graphs().iter().filter(|fixture| !fixture.calls.is_empty()) {
        covered.extend(operators(&fixture.builder));
    }
    for (builder, calls) in samples() {
        assert!(!calls.is_empty());
        covered.extend(operators(&builder));
    }
    let registry = OPS.iter().flat_map(|def| def.names).copied();
    let missing: Vec<&str> = registry.filter(|name| !covered.contains(name)).collect();
    assert!(
        missing.is_empty(),
        "no graph with calls has these operators: {missing:?}\nexport a fixture that uses them (export/), or add a builder to \
         `samples` in src/tests/operators.rs"
    );
}
