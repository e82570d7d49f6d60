//! Tests of safetensors: every class, every type, shards, and errors of tensors that do not fit.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde_json::json;

use super::super::HuggingFace;
use super::{CLASSES, Model, number, read_error};
use crate::config::{AttentionBias, LayerWeight, Weight};
use crate::source::Source;
use crate::testing::Temporary;

/// Compares every row of every weight with what the tensors were made from.
fn check_rows(source: &HuggingFace, model: &Model) {
    let mut weights: Vec<_> = source.config().weights().collect();
    weights.sort_unstable();
    let mut expected: Vec<_> = model.weights.iter().map(|(_, weight)| *weight).collect();
    expected.sort_unstable();
    assert_eq!(weights, expected);
    for (name, weight) in &model.weights {
        let matrix = source.config().shape(*weight);
        let columns = usize::try_from(matrix.columns).unwrap();
        let mut out = vec![f32::NAN; columns];
        for row in 0..matrix.rows {
            source.row(*weight, row, &mut out).unwrap();
            let first = usize::try_from(row).unwrap() * columns;
            let expected: Vec<_> = (first..first + columns).map(|index| number(name, index)).collect();
            assert_eq!(out, expected, "row {row} of {name}");
        }
    }
}

#[test]
fn every_class_has_its_weights() {
    for (class, _) in CLASSES {
        let model = Model::new(class);
        check_rows(&model.open(), &model);
    }
}

#[test]
fn every_type_is_decoded() {
    for dtype in [Dtype::BF16, Dtype::F16, Dtype::F32] {
        let mut model = Model::new("Qwen3ForCausalLM");
        let shapes: Vec<_> = model.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shape.clone())).collect();
        shapes.iter().for_each(|(name, shape)| model.put(name, dtype, shape));
        check_rows(&model.open(), &model);
    }
}

#[test]
fn types_may_differ_and_lie_at_odd_addresses() {
    let mut model = Model::new("LlamaForCausalLM");
    model.put("model.norm.weight", Dtype::F32, &[8]);
    model.put("model.layers.1.mlp.up_proj.weight", Dtype::F16, &[12, 8]);
    model.put("model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::U8, &[3]);
    let folder = model.folder();
    // A header of odd length shifts everything after it.
    let bytes = model.safetensors(|_| true);
    let (length, rest) = bytes.split_first_chunk().unwrap();
    let odd = u64::from_le_bytes(*length) + 1;
    folder.write("model.safetensors", [&odd.to_le_bytes()[..], b" ", rest].concat());
    check_rows(&HuggingFace::open(folder.path()).unwrap(), &model);
}

#[test]
fn biases_come_where_they_are_asked_for() {
    for class in ["LlamaForCausalLM", "Qwen3ForCausalLM"] {
        let mut model = Model::new(class).set("attention_bias", json!(true));
        model.add_input_biases();
        model.add_parts(&[("self_attn.o_proj.bias", LayerWeight::AttentionOutputBias, &[8])]);
        let source = model.open();
        assert_eq!(source.config().attention_bias, AttentionBias::All);
        check_rows(&source, &model);
    }
}

#[test]
fn a_tied_output_is_the_embedding_whether_it_is_there_or_not() {
    let mut model = Model::new("LlamaForCausalLM").set("tie_word_embeddings", json!(true));
    model.weights.retain(|(_, weight)| *weight != Weight::Output);
    check_rows(&model.open(), &model);
    let model = model.without("lm_head.weight");
    check_rows(&model.open(), &model);
}

#[test]
fn missing_surplus_and_misshapen_tensors_are_told_together() {
    let mut model = Model::new("LlamaForCausalLM").without("lm_head.weight").without("model.layers.1.mlp.up_proj.weight");
    for layer in 0..2 {
        model.put(&format!("model.layers.{layer}.self_attn.q_proj.bias"), Dtype::BF16, &[16]);
        model.put(&format!("model.layers.{layer}.self_attn.rotary_emb.inv_freq"), Dtype::F32, &[2]);
    }
    model.put("model.layers.0.self_attn.k_proj.weight", Dtype::BF16, &[16, 8]);
    model.put("model.norm.weight", Dtype::BF16, &[8, 2]);
    assert_eq!(
        model.read_error(),
        "the checkpoint's tensors do not fit LlamaForCausalLM: missing are lm_head.weight, model.layers.1.mlp.up_proj.weight; \
         not expected are model.layers.0-1.self_attn.q_proj.bias; model.layers.0.self_attn.k_proj.weight is [16, 8] instead of \
         [8, 8]; model.norm.weight is [8, 2] instead of [8]"
    );
}

#[test]
fn layers_without_tensors_are_not_counted_out() {
    assert_eq!(
        Model::new("LlamaForCausalLM").set("num_hidden_layers", json!(u32::MAX)).read_error(),
        "the checkpoint's tensors do not fit LlamaForCausalLM: num_hidden_layers = 4294967295, but there are 21 tensors in all"
    );
}

#[test]
fn other_types_are_refused_by_tensor() {
    for (dtype, name) in [(Dtype::F8_E4M3, "F8_E4M3"), (Dtype::I8, "I8"), (Dtype::F64, "F64")] {
        let mut model = Model::new("LlamaForCausalLM");
        model.put("model.layers.1.mlp.down_proj.weight", dtype, &[8, 12]);
        let what = format!("the type {name} of model.layers.1.mlp.down_proj.weight");
        assert_eq!(model.read_error(), format!("{what} is not supported: supported are BF16, F16, F32"));
    }
}

const FILES: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

/// Which of two files a tensor goes to.
fn shard(name: &str) -> usize {
    usize::from(name.contains("layers.1") || name == "lm_head.weight")
}

fn sharded(model: &Model) -> Temporary {
    let folder = Temporary::new();
    folder.write("config.json", model.config.to_string());
    let map: BTreeMap<_, _> = model.tensors.keys().map(|name| (name, FILES[shard(name)])).collect();
    folder.write("model.safetensors.index.json", json!({"metadata": {"total_size": 0}, "weight_map": map}).to_string());
    for (number, file) in FILES.into_iter().enumerate() {
        folder.write(file, model.safetensors(|name| shard(name) == number));
    }
    folder
}

#[test]
fn shards_are_put_together() {
    for (class, _) in CLASSES {
        let model = Model::new(class);
        check_rows(&HuggingFace::open(sharded(&model).path()).unwrap(), &model);
    }
}

#[test]
fn a_shard_that_is_not_there_is_named() {
    let folder = sharded(&Model::new("LlamaForCausalLM"));
    for (file, listed) in FILES.into_iter().zip([FILES[0].to_owned(), FILES.join(", ")]) {
        std::fs::remove_file(folder.path().join(file)).unwrap();
        let start = "model.safetensors.index.json: it names files that are not there, so download these, too";
        assert_eq!(read_error(&folder), format!("{start}: {listed}"));
    }
}

#[test]
fn a_tensor_is_where_the_index_has_it() {
    let model = Model::new("LlamaForCausalLM");
    let folder = sharded(&model);
    // A copy in another file does not count.
    folder.write(FILES[0], model.safetensors(|name| shard(name) == 0 || name == "lm_head.weight"));
    folder.write(FILES[1], model.safetensors(|name| shard(name) == 1 && name != "lm_head.weight"));
    assert_eq!(
        read_error(&folder),
        format!(
            "the checkpoint's tensors do not fit LlamaForCausalLM: lm_head.weight is not in {}, where \
             model.safetensors.index.json has it",
            FILES[1]
        )
    );
}

#[test]
fn an_index_leads_to_no_other_folder() {
    let folder = sharded(&Model::new("LlamaForCausalLM"));
    for (file, start) in [
        (json!("../other.safetensors"), "it names files that are not in the same folder: ../other.safetensors"),
        (json!("/other.safetensors"), "it names files that are not in the same folder: /other.safetensors"),
        (json!(1), "weight_map = {\"lm_head.weight\":1} should be an object of texts"),
    ] {
        folder.write("model.safetensors.index.json", json!({"weight_map": {"lm_head.weight": file}}).to_string());
        assert_eq!(read_error(&folder), format!("model.safetensors.index.json: {start}"));
    }
    folder.write("model.safetensors.index.json", "{}");
    assert_eq!(read_error(&folder), "model.safetensors.index.json: weight_map is missing");
}

#[test]
fn a_row_that_is_not_there_is_an_error() {
    let source = Model::new("LlamaForCausalLM").open();
    let ask = |weight, row, columns| source.row(weight, row, &mut vec![0.0; columns]).map_err(|error| error.to_string());
    assert_eq!(ask(Weight::FinalNorm, 7, 1), Ok(()));
    let missing = |text: &str| Err(format!("model.safetensors: {text}"));
    assert_eq!(ask(Weight::FinalNorm, 8, 1), missing("model.norm.weight has no row 8 of 1 numbers"));
    assert_eq!(ask(Weight::Embedding, 0, 7), missing("model.embed_tokens.weight has no row 0 of 7 numbers"));
    let bias = Weight::Layer(0, LayerWeight::QueryBias);
    assert_eq!(ask(bias, 0, 1), missing("model.layers.0.self_attn.q_proj.bias has no row 0 of 1 numbers"));
}
