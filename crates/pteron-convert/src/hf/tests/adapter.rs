//! Adapters of two layers.

use std::collections::BTreeMap;

use half::bf16;
use proptest::prelude::*;
use pteron_format::adapter::{LoraAdapter, Projection};
use safetensors::Dtype;
use serde_json::{Value, json};

use super::super::{adapter_from_files, open_adapter};
use super::{Tensor, number, serialised};
use crate::testing::Temporary;

const QUERY: &str = "base_model.model.model.layers.1.self_attn.q_proj";
const DOWN: &str = "base_model.model.model.layers.0.mlp.down_proj";

struct Adapter {
    config: Value,
    tensors: BTreeMap<String, Tensor>,
}

impl Adapter {
    /// Rank 3 for queries `[8, 6]` of layer 1 and the down projection `[6, 10]` of layer 0.
    fn new() -> Self {
        let config = json!({
            "peft_type": "LORA", "r": 3, "lora_alpha": 12, "use_rslora": false, "use_dora": false, "bias": "none",
            "modules_to_save": null, "rank_pattern": {}, "alpha_pattern": {}, "target_modules": ["q_proj", "down_proj"],
            "fan_in_fan_out": false, "init_lora_weights": true, "lora_dropout": 0.05, "layers_to_transform": null,
        });
        let mut adapter = Self { config, tensors: BTreeMap::new() };
        for (module, rows, columns) in [(QUERY, 8, 6), (DOWN, 6, 10)] {
            adapter.add(&format!("{module}.lora_A.weight"), Dtype::BF16, &[3, columns]);
            adapter.add(&format!("{module}.lora_B.weight"), Dtype::F32, &[rows, 3]);
        }
        adapter
    }

    fn add(&mut self, name: &str, dtype: Dtype, shape: &[usize]) {
        self.tensors.insert(name.to_owned(), Tensor::new(name, dtype, shape));
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([
            ("adapter_config.json".to_owned(), self.config.to_string().into_bytes()),
            ("adapter_model.safetensors".to_owned(), serialised(self.tensors.iter())),
        ])
    }

    fn read(&self) -> Result<LoraAdapter, String> {
        adapter_from_files(&self.files()).map_err(|error| error.to_string())
    }
}

#[test]
fn updates_have_the_numbers_of_the_file() {
    let adapter = Adapter::new().read().unwrap();
    let [down, query] = adapter.updates() else { panic!("{} updates", adapter.updates().len()) };
    assert_eq!((down.layer, down.projection, down.rows, down.columns), (0, Projection::Down, 6, 10));
    assert_eq!((query.layer, query.projection, query.rows, query.columns), (1, Projection::Query, 8, 6));
    assert_eq!((query.rank, query.scale), (3, 4.0));
    let a: Vec<f32> =
        (0..18).map(|index| bf16::from_f32(number(&format!("{QUERY}.lora_A.weight"), index)).to_f32()).collect();
    let b: Vec<f32> = (0..18).map(|index| number(&format!("{DOWN}.lora_B.weight"), index)).collect();
    assert_eq!((&query.a, &down.b), (&a, &b));
}

#[test]
fn the_scale_may_be_by_the_root_of_the_rank() {
    let adapter = Adapter::new().with("r", json!(3)).with("use_rslora", json!(true)).read().unwrap();
    assert!((adapter.updates()[0].scale - 12.0 / 3.0f32.sqrt()).abs() < 1e-6);
}

#[test]
fn names_of_training_states_are_read_too() {
    let mut adapter = Adapter::new();
    let name = format!("{QUERY}.lora_A.weight");
    let tensor = adapter.tensors.remove(&name).unwrap();
    adapter.tensors.insert(format!("{QUERY}.lora_A.default.weight"), tensor);
    assert_eq!(adapter.read().unwrap().updates().len(), 2);
    adapter.add(&name, Dtype::F32, &[3, 6]);
    assert!(adapter.read().unwrap_err().contains("are the same matrix"));
}

#[test]
fn features_that_are_not_computed_are_rejected_by_name() {
    for (field, value) in [
        ("use_dora", json!(true)),
        ("bias", json!("all")),
        ("modules_to_save", json!(["lm_head"])),
        ("rank_pattern", json!({"q_proj": 8})),
        ("alpha_pattern", json!({"q_proj": 8})),
        ("fan_in_fan_out", json!(true)),
        ("lora_bias", json!(true)),
        ("layer_replication", json!([[0, 4]])),
        ("trainable_token_indices", json!([1])),
        ("init_lora_weights", json!("pissa")),
        ("peft_type", json!("LOHA")),
    ] {
        let error = Adapter::new().with(field, value).read().unwrap_err();
        assert!(
            error.starts_with(&format!("{field} = ")) && error.contains("adapter_config.json is not supported"),
            "{error}"
        );
    }
    for (field, value) in [("r", json!(0)), ("lora_alpha", json!("x")), ("use_dora", json!(3)), ("bias", json!([]))] {
        let error = Adapter::new().with(field, value).read().unwrap_err();
        assert!(error.contains("adapter_config.json") && error.contains(field), "{error}");
    }
    for field in ["r", "lora_alpha", "peft_type"] {
        assert_eq!(
            Adapter::new().with(field, Value::Null).read().unwrap_err(),
            format!("adapter_config.json: {field} is missing")
        );
    }
}

#[test]
fn tensors_that_are_no_matrices_of_the_rank_are_rejected_with_both_shapes() {
    let error = Adapter::new().with("r", json!(4)).read().unwrap_err();
    assert!(error.contains("down_proj.lora_A.weight is [3, 10], expected [4, columns] as r is 4"), "{error}");
    let mut adapter = Adapter::new();
    adapter.add(&format!("{QUERY}.lora_B.weight"), Dtype::F32, &[8, 4]);
    let error = adapter.read().unwrap_err();
    assert!(error.contains("q_proj.lora_B.weight is [8, 4], expected [rows, 3] as r is 3"), "{error}");
    adapter.add(&format!("{QUERY}.lora_B.weight"), Dtype::F32, &[24]);
    assert!(adapter.read().unwrap_err().contains("q_proj.lora_B.weight is [24], expected [rows, 3]"));
    adapter.add(&format!("{QUERY}.lora_B.weight"), Dtype::I32, &[8, 3]);
    assert!(adapter.read().unwrap_err().contains("the type I32 of"));
    adapter.tensors.remove(&format!("{QUERY}.lora_B.weight"));
    assert!(adapter.read().unwrap_err().contains("q_proj of layer 1 has lora_A and no lora_B"));
}

#[test]
fn other_tensors_and_numbers_are_rejected() {
    for name in [
        "base_model.model.lm_head.lora_A.weight",
        "base_model.model.model.layers.01.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.1.self_attn.q_proj.lora_magnitude_vector",
        "model.layers.1.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.1.input_layernorm.lora_A.weight",
    ] {
        let mut adapter = Adapter::new();
        adapter.add(name, Dtype::F32, &[3, 6]);
        let error = adapter.read().unwrap_err();
        assert!(error.starts_with("adapter_model.safetensors: not expected are "), "{error}");
    }
    let mut infinite = Adapter::new();
    let tensor = infinite.tensors.get_mut(&format!("{DOWN}.lora_B.weight")).unwrap();
    tensor.bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(infinite.read().unwrap_err().contains("has inf; weights must be finite"));
    let empty = Adapter { tensors: BTreeMap::new(), ..Adapter::new() };
    assert!(empty.read().unwrap_err().contains("the adapter updates no linear"));
}

#[test]
fn folders_without_the_files_are_rejected() {
    let folder = Temporary::new();
    assert!(open_adapter(folder.path()).unwrap_err().to_string().contains("adapter_config.json"));
    for (name, bytes) in Adapter::new().files() {
        folder.write(&name, bytes);
    }
    assert_eq!(open_adapter(folder.path()).unwrap().updates().len(), 2);
    std::fs::rename(folder.path().join("adapter_model.safetensors"), folder.path().join("adapter_model.bin")).unwrap();
    let error = open_adapter(folder.path()).unwrap_err().to_string();
    assert_eq!(error, "adapter_model.bin is not supported: supported are adapter_model.safetensors");
}

#[test]
fn every_truncation_is_an_error() {
    let mut files = Adapter::new().files();
    let whole = files["adapter_model.safetensors"].clone();
    for length in 0..whole.len() {
        files.insert("adapter_model.safetensors".to_owned(), whole[..length].to_vec());
        assert!(adapter_from_files(&files).is_err(), "{length} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any changed bytes are read or rejected.
    #[test]
    fn changed_bytes_do_no_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut files = Adapter::new().files();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            let bytes = files.get_mut(file).unwrap();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
        }
        let _ = adapter_from_files(&files);
    }
}
