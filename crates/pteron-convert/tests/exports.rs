//! Templates equal the programs that ExecuTorch's exporter writes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{Export, file, live};
use half::f16;
use pteron_convert::config::{ModelConfig, RopeConfig, RopeScaling, Weight};
use pteron_convert::rope;
use pteron_convert::template::{ConstantData, ProgramTemplate};
use pteron_format::vulkan::{ConstantSource, DataType, Graph};

/// Operators that exports have and templates do not: quantised activations, and rotation by halves, for which conversion
/// reorders the weights instead.
const ELSEWHERE: [&str; 2] = ["torchao.choose_qparams_affine.default", "et_vk.apply_rotary_emb_hf.default"];

/// The demo model.
const DEMO: &str = "models/demo/model.pte";

/// Every export that a template can equal.
fn exports() -> Vec<Export> {
    let folders = std::fs::read_dir(file("fixtures/llama")).unwrap();
    let mut paths: Vec<_> = folders.map(|folder| folder.unwrap().path().join("program.pte")).collect();
    paths.sort();
    paths.push(file(DEMO));
    let is_elsewhere = |name: &str| ELSEWHERE.contains(&name);
    let exports = paths.iter().map(|path| Export::read(path));
    exports.filter(|export| !export.graph().chain.iter().any(|call| is_elsewhere(&call.name))).collect()
}

/// The graph without the names of its constants, which come from their bytes.
fn unnamed(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for constant in &mut graph.constants {
        constant.source = ConstantSource::Named(String::new());
    }
    graph
}

#[test]
fn graphs_and_plans_equal_the_exporters() {
    let exports = exports();
    assert!(exports.len() >= 3, "only {} exports are compared", exports.len());
    for export in exports {
        let (config, options) = (export.config(), export.options());
        let template = ProgramTemplate::new(&config, &options, &export.metadata()).unwrap();
        let (program, exported) = (&template.program, export.pte.program());
        assert_eq!(program.plans, exported.plans, "{}", export.path.display());
        assert_eq!(program.constants, exported.constants, "{}", export.path.display());
        assert_eq!((program.version, &program.mutable_data), (exported.version, &exported.mutable_data));
        assert!(exported.inline_constants.is_empty() && exported.inline_delegates.is_empty());
        let graph = unnamed(export.graph());
        for (index, (built, written)) in template.graph.values.iter().zip(&graph.values).enumerate() {
            assert_eq!(built, written, "{}, value {index}", export.path.display());
        }
        for (built, written) in template.graph.chain.iter().zip(&graph.chain) {
            assert_eq!(built, written, "{}", export.path.display());
        }
        assert!(template.graph == graph, "{}: the graphs differ", export.path.display());
        assert_eq!(template.constant_data.len(), graph.constants.len(), "{}", export.path.display());
    }
}

/// The check that other tests apply to templates accepts the exporter's memory plans, so the check itself is right.
#[test]
fn the_exporters_plans_of_memory_are_sound() {
    for export in exports() {
        live::check(export.graph()).unwrap_or_else(|problem| panic!("{}: {problem}", export.path.display()));
        let mut broken = export.graph().clone();
        let objects = broken.values.iter_mut().filter_map(|value| match value {
            pteron_format::vulkan::Value::Tensor(tensor) => tensor.memory_object.as_mut(),
            _ => None,
        });
        objects.for_each(|object| *object /= 2);
        assert!(live::check(&broken).is_err(), "{}: shared memory was not noticed", export.path.display());
    }
}

#[test]
fn caches_and_nothing_else_begin_as_zeros() {
    for export in exports() {
        let template = ProgramTemplate::new(&export.config(), &export.options(), &export.metadata()).unwrap();
        for (content, constant) in template.constant_data.iter().zip(&export.graph().constants) {
            let bytes = export.pte.constant_bytes(export.place(), constant).unwrap();
            let zeros = bytes.iter().all(|&byte| byte == 0);
            assert_eq!(*content == ConstantData::Zeros, zeros, "{}: {content:?}", export.path.display());
        }
    }
}

/// The demo model's output is its embedding: the same nibbles, and scales in two orders.
#[test]
fn a_tied_output_is_the_embedding() {
    let export = Export::read(&file(DEMO));
    let config = ModelConfig { tied_embeddings: true, ..export.config() };
    let template = ProgramTemplate::new(&config, &export.options(), &export.metadata()).unwrap();
    let is_nibbles = |content: &ConstantData| matches!(content, ConstantData::Int4 { weight: Weight::Embedding, .. });
    let constants = template.constant_data.iter().zip(&export.graph().constants);
    let keys: Vec<_> = constants.filter(|(content, _)| is_nibbles(content)).map(|(_, constant)| &constant.source).collect();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

/// The angles of an export: what its manifest says of them, in the words of `params.json`.
fn rotary(export: &Export) -> RopeConfig {
    let mut rotary = export.config().rope;
    let Ok(manifest) = std::fs::read(export.path.with_file_name("manifest.json")) else { return rotary };
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let params = &manifest["params"];
    rotary.theta = params["rope_theta"].as_f64().unwrap();
    let scaling =
        RopeScaling::Llama3 { factor: 32.0, low_frequency_factor: 1.0, high_frequency_factor: 4.0, original_context: 8192 };
    rotary.scaling = params["use_scaled_rope"].as_bool().unwrap_or(false).then_some(scaling);
    rotary
}

/// By how many steps of their type two numbers of one sign differ.
fn distances(dtype: DataType, theirs: &[u8], ours: &[f32]) -> Vec<u32> {
    assert_eq!(theirs.len() as u64, ours.len() as u64 * dtype.size());
    if dtype == DataType::Float16 {
        let theirs = theirs.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        return theirs.zip(ours).map(|(a, &b)| a.abs_diff(f16::from_f32(b).to_bits()).into()).collect();
    }
    let theirs = theirs.chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
    theirs.zip(ours).map(|(a, b)| a.abs_diff(b.to_bits())).collect()
}

#[test]
fn rotary_tables_are_within_one_step_of_pytorchs() {
    for export in exports() {
        let config = ModelConfig { rope: rotary(&export), ..export.config() };
        let constant_data = ProgramTemplate::new(&config, &export.options(), &export.metadata()).unwrap().constant_data;
        let dtype = if export.options().float16 { DataType::Float16 } else { DataType::Float32 };
        let (cosines, sines) = rope::table(&config, export.options().max_context_length);
        for (content, ours) in [(ConstantData::RopeCos, cosines), (ConstantData::RopeSin, sines)] {
            let index = constant_data.iter().position(|other| *other == content).unwrap();
            let constant = &export.graph().constants[index];
            let theirs = export.pte.constant_bytes(export.place(), constant).unwrap();
            let distances = distances(dtype, theirs, &ours);
            let (equal, all) = (distances.iter().filter(|&&distance| distance == 0).count(), distances.len());
            let name = export.path.display();
            assert!(distances.iter().all(|&distance| distance <= 1), "{name}: {content:?} is further than one step");
            assert!(equal * 100 >= all * 93, "{name}: of {all} {content:?} {equal} are equal");
        }
    }
}
