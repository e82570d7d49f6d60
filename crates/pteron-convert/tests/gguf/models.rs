//! Tests of whole models: configuration and weights.

use std::path::PathBuf;

use pteron_convert::config::{AttentionBias, ModelConfig, RopeConfig, RopeScaling, RopeStyle};
use pteron_convert::{Gguf, LayerWeight, Source, Weight};

use super::writer::{F32, Value, WIDTH, Writer, tiny, with_tokenizer};

pub(crate) fn open(file: &Writer) -> Gguf {
    Gguf::from_bytes("tiny.gguf", file.bytes()).unwrap()
}

/// The numbers of a row.
fn row(model: &Gguf, weight: Weight, row: u32) -> Vec<f32> {
    let mut numbers = vec![0.0; model.config().shape(weight).columns as usize];
    model.row(weight, row, &mut numbers).unwrap();
    numbers
}

fn config(pairs: RopeStyle, head_norms: bool, biases: AttentionBias) -> ModelConfig {
    ModelConfig {
        vocab_size: 12,
        hidden_size: 8,
        num_layers: 2,
        num_heads: 2,
        num_kv_heads: 1,
        head_dim: 4,
        intermediate_size: 16,
        norm_eps: 1e-5,
        rope: RopeConfig { theta: 500_000.0, scaling: None, style: pairs },
        qk_norm: head_norms,
        attention_bias: biases,
        tied_embeddings: false,
        max_position_embeddings: 128,
    }
}

#[test]
fn each_architecture_has_its_own_switches() {
    assert_eq!(*open(&tiny("llama")).config(), config(RopeStyle::Interleaved, false, AttentionBias::None));
    assert_eq!(*open(&tiny("qwen2")).config(), config(RopeStyle::HalfSplit, false, AttentionBias::Qkv));
    assert_eq!(*open(&tiny("qwen3")).config(), config(RopeStyle::HalfSplit, true, AttentionBias::None));
    let old = Writer { version: 2, ..tiny("llama") };
    assert_eq!(*open(&old).config(), config(RopeStyle::Interleaved, false, AttentionBias::None));
}

#[test]
fn a_file_of_the_reference_writer_is_read() {
    let model = Gguf::from_bytes("written.gguf", include_bytes!("data/written.gguf")).unwrap();
    let expected = ModelConfig {
        vocab_size: 5,
        num_layers: 1,
        head_dim: 6,
        intermediate_size: 12,
        norm_eps: 1e-6,
        rope: RopeConfig { theta: 1e6, scaling: None, style: RopeStyle::HalfSplit },
        tied_embeddings: true,
        max_position_embeddings: 64,
        ..config(RopeStyle::HalfSplit, true, AttentionBias::None)
    };
    assert_eq!(*model.config(), expected);
    assert_eq!(row(&model, Weight::Embedding, 4), [4.0, 4.125, 4.25, 4.375, 4.5, 4.625, 4.75, 4.875]);
    assert_eq!(row(&model, Weight::FinalNorm, 7), [1.875]);
    assert_eq!(row(&model, Weight::Layer(0, LayerWeight::Query), 11)[7], 3.0 + 95.0 / 8.0);
    assert_eq!(row(&model, Weight::Layer(0, LayerWeight::KeyNorm), 5), [7.625]);
    assert_eq!(row(&model, Weight::Layer(0, LayerWeight::Down), 7)[11], 12.0 + 95.0 / 8.0);
    assert_eq!((model.metadata().bos_token, model.metadata().eos_tokens), (None, vec![3]));
    let names: Vec<String> = model.metadata().sidecars.into_iter().map(|sidecar| sidecar.name).collect();
    assert_eq!(names, ["tokenizer.json", "tokenizer_config.json"]);
}

#[test]
fn every_weight_is_found_and_has_its_rows() {
    let model = open(&tiny("qwen2"));
    assert_eq!(row(&model, Weight::Embedding, 2), [3.0, 3.125, 3.25, 3.375, 3.5, 3.625, 3.75, 3.875]);
    assert_eq!(row(&model, Weight::FinalNorm, 3), [2.375]);
    assert_eq!(row(&model, Weight::Layer(1, LayerWeight::Key), 3)[..2], [206.0, 206.125]);
    assert_eq!(row(&model, Weight::Layer(1, LayerWeight::Down), 7)[15], 209.0 + 127.0 / 8.0);
    assert_eq!(row(&model, Weight::Layer(0, LayerWeight::ValueBias), 3), [112.375]);
    let mut first = Vec::new();
    for weight in model.config().weights() {
        let matrix = model.config().shape(weight);
        row(&model, weight, matrix.rows - 1);
        first.push(row(&model, weight, 0)[0].to_bits());
        let problem = model.row(weight, matrix.rows, &mut vec![0.0; matrix.columns as usize]).unwrap_err().to_string();
        assert!(problem.contains("no row"), "{problem}");
    }
    let count = first.len();
    first.sort_unstable();
    first.dedup();
    assert_eq!((first.len(), count), (3 + 2 * 12, 3 + 2 * 12), "two weights have the same tensor");
}

#[test]
fn an_output_that_is_not_there_is_the_embedding() {
    let model = open(&tiny("llama").without("output.weight"));
    assert!(model.config().tied_embeddings);
    assert!(model.row(Weight::Output, 0, &mut [0.0; 8]).is_err());
}

#[test]
fn biases_are_known_by_their_tensors() {
    let mut file = tiny("llama");
    for layer in 0..2 {
        for (name, size) in [("q", 8), ("k", 4), ("v", 4), ("output", 8)] {
            file = file.floats(&format!("blk.{layer}.attn_{name}.bias"), &[size], 0);
        }
    }
    assert_eq!(open(&file).config().attention_bias, AttentionBias::All);
    let file = file.without("blk.0.attn_output.bias").without("blk.1.attn_output.bias");
    assert_eq!(open(&file).config().attention_bias, AttentionBias::Qkv);
}

#[test]
fn keys_that_are_not_there_have_defaults() {
    let model = open(&tiny("llama").without("llama.rope.freq_base"));
    assert_eq!(model.config().rope.theta, 10_000.0);
    let file = tiny("llama").key("llama.attention.key_length", 4).key("llama.rope.dimension_count", 4);
    assert_eq!(open(&file).config().head_dim, 4);
    // Sizes come in any type of whole numbers.
    let file = tiny("llama").key("llama.block_count", Value::I32(2)).key("llama.context_length", Value::U16(128));
    assert_eq!(open(&file).config().num_layers, 2);
}

#[test]
fn frequencies_are_stretched_by_a_tensor() {
    let divisors = |values: [f32; 2]| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let stretched = |values| open(&tiny("llama").tensor("rope_freqs.weight", &[2], F32, divisors(values)));
    let scaling = Some(RopeScaling::FrequencyDivisors(vec![1.0, 8.0]));
    assert_eq!(stretched([1.0, 8.0]).config().rope.scaling, scaling);
    assert_eq!(stretched([1.0, 1.0]).config().rope.scaling, None);
    for (dims, values) in [([1, 2], [1.0, 8.0]), ([2, 1], [1.0, 0.0]), ([2, 1], [f32::NAN, 1.0])] {
        let file = tiny("llama").tensor("rope_freqs.weight", &dims, F32, divisors(values));
        let problem = Gguf::from_bytes("tiny.gguf", file.bytes()).err().unwrap().to_string();
        assert!(problem.contains("rope_freqs.weight has"), "{problem}");
    }
    let file = tiny("qwen2").tensor("rope_freqs.weight", &[2], F32, divisors([1.0, 8.0]));
    let problem = Gguf::from_bytes("tiny.gguf", file.bytes()).err().unwrap().to_string();
    assert!(problem.contains("\"rope_freqs.weight\" is not part of it"), "{problem}");
}

#[test]
fn other_alignments_and_arrays_of_arrays_are_read() {
    let mut file = tiny("llama").key("general.alignment", 64);
    file.alignment = 64;
    let inner = [&4u32.to_le_bytes()[..], &2u64.to_le_bytes(), &[7; 8]].concat();
    let nested = [&9u32.to_le_bytes()[..], &2u64.to_le_bytes(), &inner, &inner].concat();
    let file = file.key("general.nested", Value::Raw(9, nested));
    assert_eq!(row(&open(&file), Weight::FinalNorm, 7), [2.875]);
}

/// A folder for one test, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pteron-gguf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, file: &Writer) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, file.bytes()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_mapped_and_their_names_are_in_errors() {
    let folder = Folder::new("one");
    let path = folder.write("model.gguf", &with_tokenizer(tiny("llama")));
    assert_eq!(row(&Gguf::open(&path).unwrap(), Weight::Embedding, 0)[7], 1.875);
    let missing = Gguf::open(folder.0.join("none.gguf")).err().unwrap().to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("none.gguf"), "{missing}");
    std::fs::write(&path, b"").unwrap();
    let empty = Gguf::open(&path).err().unwrap().to_string();
    assert!(empty.contains("model.gguf: its header, at byte 0"), "{empty}");
}

#[test]
fn a_model_may_come_in_several_files() {
    let whole = tiny("llama");
    let part = |number: u16, tensors: std::ops::Range<usize>| {
        let keys = if number == 0 { whole.keys.clone() } else { Vec::new() };
        let part = Writer { keys, tensors: whole.tensors[tensors].to_vec(), ..Writer::default() };
        part.key("split.no", Value::U16(number)).key("split.count", Value::U16(3))
    };
    let folder = Folder::new("several");
    let first = folder.write("m-00001-of-00003.gguf", &part(0, 0..0));
    let second = folder.write("m-00002-of-00003.gguf", &part(1, 0..9));
    let third = part(2, 9..whole.tensors.len());
    folder.write("m-00003-of-00003.gguf", &third);
    let (model, one) = (Gguf::open(&first).unwrap(), open(&whole));
    assert_eq!(model.config(), one.config());
    for weight in one.config().weights() {
        let last = one.config().shape(weight).rows - 1;
        assert_eq!(row(&model, weight, last), row(&one, weight, last), "{weight:?}");
    }
    let problem = |path: &PathBuf| Gguf::open(path).err().unwrap().to_string();
    assert!(problem(&second).contains("name the first, which ends in -00001-of-00003.gguf"));
    folder.write("m-00003-of-00003.gguf", &third.clone().key("split.no", Value::U16(1)));
    assert!(problem(&first).contains("part 2 of 3, and it is used as 3 of 3"), "{}", problem(&first));
    folder.write("m-00003-of-00003.gguf", &third.floats("output.weight", &[WIDTH, 12], 0));
    assert!(problem(&first).contains("the tensor \"output.weight\" is in "), "{}", problem(&first));
    std::fs::remove_file(folder.0.join("m-00003-of-00003.gguf")).unwrap();
    assert!(problem(&first).starts_with("cannot read "), "{}", problem(&first));
}
