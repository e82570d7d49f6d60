//! Tests of `config.json`: accepted fields, defaults, and rejected files with their messages.

use serde_json::{Value, json};

use super::super::config::{Config, SlidingWindow};
use super::super::fields::Fields;
use super::{CLASSES, Model};
use crate::config::{AttentionBias, ModelConfig, RopeConfig, RopeScaling, RopeStyle};
use crate::source::Source;

fn read(config: &Value) -> Config {
    Config::read(&Fields::parse("config.json", config.to_string().as_bytes()).unwrap()).unwrap()
}

fn refused(class: &str, field: &str, value: Value) -> String {
    Model::new(class).set(field, value).read_error()
}

fn llama_refused(field: &str, value: Value) -> String {
    refused("LlamaForCausalLM", field, value)
}

#[test]
fn a_small_llama_3_is_read() {
    let scaling = json!({"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"});
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false, "head_dim": 64,
        "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072,
        "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_scaling": scaling, "rope_theta": 500000.0,
        "tie_word_embeddings": true, "vocab_size": 128256,
    });
    let expected = ModelConfig {
        vocab_size: 128_256,
        hidden_size: 2048,
        num_layers: 16,
        num_heads: 32,
        num_kv_heads: 8,
        head_dim: 64,
        intermediate_size: 8192,
        norm_eps: 1e-5,
        rope: RopeConfig {
            theta: 500_000.0,
            scaling: Some(RopeScaling::Llama3 {
                factor: 32.0,
                low_frequency_factor: 1.0,
                high_frequency_factor: 4.0,
                original_context: 8192,
            }),
            style: RopeStyle::HalfSplit,
        },
        qk_norm: false,
        attention_bias: AttentionBias::None,
        tied_embeddings: true,
        max_position_embeddings: 131_072,
    };
    assert_eq!(read(&config).model, expected);
}

#[test]
fn missing_fields_have_the_defaults_of_the_class() {
    let metadata = |class: &str| {
        let Config { model, window, .. } = read(&json!({"architectures": [class]}));
        assert_eq!((model.hidden_size, model.num_layers, model.num_heads, model.head_dim), (4096, 32, 32, 128));
        assert_eq!((model.norm_eps, model.rope.theta, model.rope.scaling), (1e-6, 10_000.0, None));
        assert!(!model.tied_embeddings);
        let sizes = (model.vocab_size, model.intermediate_size, model.num_kv_heads, model.max_position_embeddings);
        (sizes, model.attention_bias, model.qk_norm, window)
    };
    assert_eq!(metadata("LlamaForCausalLM"), ((32_000, 11_008, 32, 2_048), AttentionBias::None, false, None));
    assert_eq!(
        metadata("MistralForCausalLM"),
        ((32_000, 14_336, 8, 131_072), AttentionBias::None, false, Some(SlidingWindow(4096)))
    );
    assert_eq!(metadata("Qwen2ForCausalLM"), ((151_936, 22_016, 32, 32_768), AttentionBias::Qkv, false, None));
    assert_eq!(metadata("Qwen3ForCausalLM"), ((151_936, 22_016, 32, 32_768), AttentionBias::None, true, None));
}

#[test]
fn missing_head_fields_are_derived() {
    let sizes = |config: Value| {
        let model = read(&config).model;
        (model.num_heads, model.num_kv_heads, model.head_dim)
    };
    let llama = |config: Value| sizes(merge(json!({"model_type": "llama", "hidden_size": 576}), config));
    assert_eq!(llama(json!({"num_attention_heads": 9, "num_key_value_heads": 3})), (9, 3, 64));
    assert_eq!(llama(json!({"num_attention_heads": 9})), (9, 9, 64));
    assert_eq!(llama(json!({"num_attention_heads": 9, "head_dim": 128})), (9, 9, 128));
    let mistral = json!({"model_type": "mistral", "hidden_size": 5120, "num_key_value_heads": null, "head_dim": 128});
    assert_eq!(sizes(mistral), (32, 32, 128));
    let qwen = json!({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8});
    assert_eq!(sizes(qwen), (16, 8, 128));
}

fn merge(mut config: Value, more: Value) -> Value {
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[test]
fn rotation_is_read_from_both_of_its_places() {
    let rotary = |config: Value| read(&merge(json!({"model_type": "llama"}), config)).model.rope;
    let plain = |theta| RopeConfig { theta, scaling: None, style: RopeStyle::HalfSplit };
    assert_eq!(rotary(json!({"rope_theta": 1000000, "rope_scaling": null})), plain(1e6));
    assert_eq!(
        rotary(json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}, "rope_theta": 1.5})),
        plain(5e5)
    );
    assert_eq!(rotary(json!({"rope_theta": 5e4, "rope_scaling": {"type": "default"}})), plain(5e4));
    assert_eq!(rotary(json!({"rope_scaling": {}, "rope_parameters": {"rope_theta": 7.0}})), plain(7.0));
    assert_eq!(rotary(json!({"partial_rotary_factor": 1.0})), plain(1e4));
    let stretched = json!({"rope_type": "llama3", "rope_theta": 5e5, "factor": 8, "low_freq_factor": 1,
                           "high_freq_factor": 4, "original_max_position_embeddings": 8192});
    let rotary = rotary(json!({"rope_parameters": stretched}));
    assert_eq!(rotary.theta, 5e5);
    assert!(matches!(rotary.scaling, Some(RopeScaling::Llama3 { factor: 8.0, .. })), "{:?}", rotary.scaling);
}

#[test]
fn other_rope_types_are_rejected_by_name() {
    for kind in ["linear", "dynamic", "yarn", "longrope"] {
        let supported = "in config.json is not supported: supported are default, llama3";
        let text = llama_refused("rope_scaling", json!({"rope_type": kind, "factor": 2.0}));
        assert_eq!(text, format!("rope_scaling.rope_type = \"{kind}\" {supported}"));
        let text = llama_refused("rope_scaling", json!({"type": kind, "factor": 2.0}));
        assert_eq!(text, format!("rope_scaling.type = \"{kind}\" {supported}"));
        let text = llama_refused("rope_parameters", json!({"rope_type": kind, "rope_theta": 1e4}));
        assert_eq!(text, format!("rope_parameters.rope_type = \"{kind}\" {supported}"));
    }
    let text = llama_refused("rope_parameters", json!({"full_attention": {"rope_theta": 1.0}}));
    assert!(text.starts_with("rope_parameters.full_attention = {\"rope_theta\":1.0} in config.json is not"), "{text}");
    let text = llama_refused("partial_rotary_factor", json!(0.5));
    assert_eq!(text, "partial_rotary_factor = 0.5 in config.json is not supported: supported are 1.0");
    let text = llama_refused("rope_scaling", json!({"rope_type": "default", "partial_rotary_factor": 0.25}));
    assert!(text.starts_with("rope_scaling.partial_rotary_factor = 0.25 in config.json"), "{text}");
}

#[test]
fn a_rotation_lacks_nothing() {
    let whole = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 32});
    Model::new("LlamaForCausalLM").set("rope_scaling", whole.clone()).open();
    for field in ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"] {
        let mut part = whole.clone();
        part.as_object_mut().unwrap().remove(field);
        assert_eq!(llama_refused("rope_scaling", part), format!("config.json: rope_scaling.{field} is missing"));
    }
    let text = llama_refused("rope_scaling", json!({"factor": 2.0}));
    assert_eq!(text, "config.json: rope_scaling.rope_type is missing");
    let text = llama_refused("rope_scaling", merge(whole, json!({"low_freq_factor": 4.0})));
    assert_eq!(text, "config.json: rope_scaling.high_freq_factor = 4 should be greater than low_freq_factor = 4");
}

#[test]
fn other_architectures_are_refused_with_those_that_are_not() {
    let classes = "supported are LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM";
    for class in ["MixtralForCausalLM", "Qwen3MoeForCausalLM", "GemmaForCausalLM", "LlamaForSequenceClassification"] {
        let text = llama_refused("architectures", json!([class]));
        assert_eq!(text, format!("architectures = [\"{class}\"] in config.json is not supported: {classes}"));
    }
    let text =
        Model::new("LlamaForCausalLM").set("architectures", Value::Null).set("model_type", json!("gpt2")).read_error();
    assert_eq!(text, "model_type = \"gpt2\" in config.json is not supported: supported are llama, mistral, qwen2, qwen3");
    let text = llama_refused("model_type", json!("mistral"));
    assert_eq!(text, "config.json: model_type = \"mistral\" should be \"llama\", since architectures has LlamaForCausalLM");
    let text = Model::new("LlamaForCausalLM").set("architectures", json!([])).set("model_type", Value::Null).read_error();
    assert_eq!(text, "config.json: architectures is missing");
}

#[test]
fn unsupported_features_are_rejected_by_field_and_value() {
    for method in ["gptq", "awq", "fp8"] {
        let text = llama_refused("quantization_config", json!({"quant_method": method, "bits": 4}));
        let field = "quantization_config.quant_method";
        let supported = "supported are weights that are not quantised";
        assert_eq!(text, format!("{field} = \"{method}\" in config.json is not supported: {supported}"));
    }
    let text = llama_refused("quantization_config", json!({"load_in_8bit": true}));
    assert!(text.starts_with("quantization_config = {\"load_in_8bit\":true} in config.json is not supported"), "{text}");
    let text = llama_refused("hidden_act", json!("gelu"));
    assert_eq!(text, "hidden_act = \"gelu\" in config.json is not supported: supported are silu, swish");
    assert_eq!(
        llama_refused("mlp_bias", json!(true)),
        "mlp_bias = true in config.json is not supported: supported are false"
    );
    let text = refused("Qwen3ForCausalLM", "layer_types", json!(["full_attention", "sliding_attention"]));
    let start = "layer_types = [\"full_attention\",\"sliding_attention\"] in config.json is not supported";
    assert_eq!(text, format!("{start}: supported are full_attention"));
    let text = refused("MistralForCausalLM", "layer_types", json!(["chunked_attention"]));
    assert!(text.starts_with("layer_types = [\"chunked_attention\"] in config.json is not supported"), "{text}");
}

#[test]
fn sizes_that_do_not_fit_together_are_named() {
    let text = llama_refused("num_key_value_heads", json!(3));
    assert_eq!(text, "config.json: num_key_value_heads = 3 should divide num_attention_heads = 4");
    assert_eq!(llama_refused("head_dim", json!(3)), "config.json: head_dim = 3 should be even");
    let text = llama_refused("head_dim", json!(2_147_483_648_u32));
    assert_eq!(text, "config.json: head_dim = 2147483648 is too large for num_attention_heads = 4");
    let text = Model::new("LlamaForCausalLM").set("head_dim", Value::Null).set("hidden_size", json!(9)).read_error();
    assert_eq!(text, "config.json: hidden_size = 9 should be a multiple of num_attention_heads = 4");
    let text = llama_refused("rms_norm_eps", json!("small"));
    assert_eq!(text, "config.json: rms_norm_eps = \"small\" should be a number above zero");
    let text = llama_refused("num_hidden_layers", json!(0));
    assert_eq!(text, "config.json: num_hidden_layers = 0 should be a whole number from 1 to 4294967295");
}

#[test]
fn a_window_limits_the_context_and_says_so() {
    let source = Model::new("MistralForCausalLM").set("sliding_window", json!(16)).open();
    assert!(source.check_context(16).is_ok());
    assert_eq!(
        source.check_context(17).unwrap_err().to_string(),
        "sliding_window = 16 in config.json: the model looks back on 16 tokens, and a context of 17 would show it more: choose a \
         context of at most 16"
    );
    assert!(Model::new("MistralForCausalLM").set("sliding_window", Value::Null).open().check_context(64).is_ok());
    for (class, _) in CLASSES {
        // Only Mistral obeys it unasked.
        let context = Model::new(class).set("sliding_window", json!(16)).open().check_context(64);
        assert_eq!(context.is_err(), class == "MistralForCausalLM", "{class}");
    }
}

#[test]
fn qwen_has_a_window_where_it_is_asked_for() {
    for class in ["Qwen2ForCausalLM", "Qwen3ForCausalLM"] {
        let asked = || Model::new(class).set("use_sliding_window", json!(true)).set("sliding_window", json!(16));
        // Two layers, and windows from the 28th on.
        assert!(asked().open().check_context(64).is_ok());
        let last_layer = asked().set("max_window_layers", json!(1)).open();
        assert!(last_layer.check_context(16).is_ok());
        assert!(last_layer.check_context(17).unwrap_err().to_string().starts_with("sliding_window = 16 in config.json: "));
        let types = |types: Value| asked().set("layer_types", types).open().check_context(64);
        assert!(types(json!(["full_attention", "full_attention"])).is_ok());
        assert!(types(json!(["full_attention", "sliding_attention"])).is_err());
    }
}
