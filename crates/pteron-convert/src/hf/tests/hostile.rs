//! Damaged and hostile files: each is an error, nothing worse.

use proptest::prelude::*;

use super::super::HuggingFace;
use super::super::shards::header;
use super::{Model, read_error};
use crate::source::Source;
use crate::testing::Temporary;

/// Opens a folder, and reads all of it if that works.
fn read_all(folder: &Temporary) -> Result<(), String> {
    let source = HuggingFace::open(folder.path()).map_err(|error| error.to_string())?;
    for weight in source.config().weights() {
        let matrix = source.config().shape(weight);
        let mut out = vec![0.0; usize::try_from(matrix.columns).unwrap()];
        for row in 0..matrix.rows {
            source.row(weight, row, &mut out).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn with_header(folder: &Temporary, json: &str, data: &[u8]) {
    let length = u64::try_from(json.len()).unwrap();
    folder.write("model.safetensors", [&length.to_le_bytes()[..], json.as_bytes(), data].concat());
}

#[test]
fn every_truncation_is_an_error() {
    let whole = Model::new("LlamaForCausalLM").safetensors(|_| true);
    let (start, metadata) = header(&whole).unwrap();
    assert_eq!(start + metadata.data_len(), whole.len());
    let cut_short =
        |length: usize, of: &str| format!("it is cut short: it has {length} bytes of {of}, so download it again");
    for length in 0..whole.len() {
        let expected = match length {
            0..8 => cut_short(length, "a header"),
            8 => "it is not a safetensors file".to_owned(),
            _ if length < start => cut_short(length, &format!("at least {start}")),
            _ => cut_short(length, &whole.len().to_string()),
        };
        assert_eq!(header(&whole[..length]).unwrap_err(), expected);
    }
}

#[test]
fn a_file_that_is_cut_short_is_named() {
    let model = Model::new("LlamaForCausalLM");
    let (folder, whole) = (model.folder(), model.safetensors(|_| true));
    assert_eq!(read_all(&folder), Ok(()));
    folder.write("model.safetensors", &whole[..whole.len() - 1]);
    let (there, all) = (whole.len() - 1, whole.len());
    let problem = format!("it is cut short: it has {there} bytes of {all}, so download it again");
    assert_eq!(read_error(&folder), format!("model.safetensors: {problem}"));
}

#[test]
fn files_of_other_formats_are_rejected() {
    let folder = Model::new("LlamaForCausalLM").folder();
    for (bytes, problem) in [
        (&b"PK\x03\x04 a zip archive"[..], "it is not a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a Git LFS pointer, "),
        (b"\x02\0\0\0\0\0\0\0[]", "its header is damaged: "),
        (b"\x02\0\0\0\0\0\0\0{}tail", "it has 4 bytes after its last tensor, "),
    ] {
        folder.write("model.safetensors", bytes);
        let text = read_error(&folder);
        assert!(text.starts_with(&format!("model.safetensors: {problem}")), "{text}");
    }
}

#[test]
fn invalid_offsets_are_rejected() {
    let folder = Model::new("LlamaForCausalLM").folder();
    let overlap =
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    with_header(&folder, overlap, &[0; 12]);
    assert!(read_error(&folder).contains("its header is damaged: invalid offset for tensor `b`"), "{}", read_error(&folder));
    let too_large = r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#;
    with_header(&folder, too_large, &[]);
    assert!(read_error(&folder).contains("overflow"), "{}", read_error(&folder));
}

/// Eight tensors that together end just below 2^64, so that the length of the header takes the sum beyond it.
#[test]
fn a_sum_of_lengths_does_not_overflow() {
    let folder = Model::new("LlamaForCausalLM").folder();
    let size = (1_u64 << 61) - 1;
    let tensors: Vec<_> = (0..8)
        .map(|index| {
            let (start, end) = (index * size, (index + 1) * size);
            format!(r#""{index}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{end}]}}"#)
        })
        .collect();
    with_header(&folder, &format!("{{{}}}", tensors.join(",")), &[]);
    let text = read_error(&folder);
    assert_eq!(text, "model.safetensors: its header speaks of more bytes than can be counted");
}

/// Changes some bytes.
fn damaged(bytes: &[u8], changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (index, value) in changes {
        let at = index.index(bytes.len());
        bytes[at] ^= value;
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX), 1..4)
}

proptest! {
    // A result of either kind will do, as long as there is one.
    #[test]
    fn damaged_safetensors_never_panic(changes in changes(), cut in any::<prop::sample::Index>()) {
        let model = Model::new("Qwen3ForCausalLM");
        let (folder, whole) = (model.folder(), model.safetensors(|_| true));
        // The header alone: other bytes are numbers, and any will do.
        let header = 8 + usize::try_from(u64::from_le_bytes(*whole.first_chunk().unwrap())).unwrap();
        let bytes = [&damaged(&whole[..header], &changes)[..], &whole[header..]].concat();
        folder.write("model.safetensors", &bytes);
        let _ = read_all(&folder);
        folder.write("model.safetensors", &bytes[..cut.index(bytes.len())]);
        prop_assert!(read_all(&folder).is_err());
    }

    #[test]
    fn damaged_configurations_never_panic(changes in changes(), cut in any::<prop::sample::Index>()) {
        let mut model = Model::new("Qwen3ForCausalLM");
        model.config["rope_scaling"] = serde_json::json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32});
        let (folder, whole) = (model.folder(), model.config.to_string());
        prop_assert_eq!(read_all(&folder), Ok(()));
        folder.write("config.json", damaged(whole.as_bytes(), &changes));
        let _ = read_all(&folder);
        folder.write("config.json", &whole[..cut.index(whole.len())]);
        prop_assert!(read_all(&folder).is_err());
    }

    /// Sizes that make sense one by one.
    #[test]
    fn any_sizes_are_read_or_rejected(sizes in prop::collection::vec(prop_oneof![0_u64..20, any::<u32>().prop_map(u64::from)], 8)) {
        let fields = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
            "num_hidden_layers", "vocab_size", "max_position_embeddings"];
        let model = fields.into_iter().zip(sizes).fold(Model::new("Qwen2ForCausalLM"), |model, (field, size)| {
            model.set(field, size.into())
        });
        let _ = read_all(&model.folder());
    }
}

fn with_index(map: &str) -> Temporary {
    let folder = Temporary::new();
    folder.write("config.json", Model::new("LlamaForCausalLM").config.to_string());
    folder.write("model.safetensors.index.json", format!(r#"{{"weight_map": {map}}}"#));
    folder
}

#[test]
fn an_index_names_files_of_its_folder_alone() {
    for name in ["../../etc/passwd", "/etc/passwd", "sub/model.safetensors", "..", "./model.safetensors", ""] {
        let text = read_error(&with_index(&format!(r#"{{"a": "{name}"}}"#)));
        assert_eq!(
            text,
            format!("model.safetensors.index.json: it names files that are not in the same folder: {name}"),
            "{name}"
        );
    }
}

#[test]
fn an_index_of_too_many_files_is_rejected() {
    let map: Vec<String> = (0..1_001).map(|number| format!(r#""{number}": "{number}.safetensors""#)).collect();
    let text = read_error(&with_index(&format!("{{{}}}", map.join(","))));
    assert_eq!(text, "model.safetensors.index.json: it names 1001 files, more than 1000");
    let long = "x".repeat(1 << 20);
    let text = read_error(&with_index(&format!(r#"{{"a": "{long}"}}"#)));
    assert!(text.len() < 300 && text.contains("(1048576 bytes)"), "{text}");
}

#[test]
fn a_tensor_that_is_in_two_files_is_refused_unless_the_index_chooses() {
    let model = Model::new("LlamaForCausalLM");
    let folder = with_index(r#"{"lm_head.weight": "a.safetensors", "model.norm.weight": "b.safetensors"}"#);
    folder.write("a.safetensors", model.safetensors(|_| true));
    folder.write("b.safetensors", model.safetensors(|_| true));
    let text = read_error(&folder);
    assert!(text.starts_with("b.safetensors: the tensor ") && text.contains(" is in a.safetensors, too"), "{text}");
}

#[test]
fn files_that_are_read_whole_have_a_largest_size() {
    for (name, len) in [("config.json", 17 << 20), ("tokenizer.json", 257 << 20), ("chat_template.jinja", 1 << 40)] {
        let folder = Model::new("LlamaForCausalLM").folder();
        // Holes that take no place.
        let file = std::fs::File::create(folder.path().join(name)).unwrap();
        if file.set_len(len).is_ok() {
            let text = read_error(&folder);
            assert!(text.starts_with(&format!("{name}: it has {len} bytes, more than ")), "{text}");
        }
    }
}

#[test]
fn long_names_are_truncated_in_messages() {
    let folder = Model::new("LlamaForCausalLM").folder();
    let long = "x".repeat(1 << 20);
    for json in [
        format!(r#"{{"{long}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"a":{{"dtype":"{long}","shape":[1],"data_offsets":[0,4]}}}}"#),
        format!(r#"{{"{long}":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}}"#),
        format!(r#"{{"model.norm.weight":{{"dtype":"F32","shape":[{}1],"data_offsets":[0,4]}}}}"#, "1,".repeat(100_000)),
    ] {
        with_header(&folder, &json, &[0; 4]);
        assert!(read_error(&folder).len() < 5_000, "{}", read_error(&folder).len());
    }
}

#[test]
fn a_folder_in_memory_is_read_as_one_on_disk() {
    let model = Model::new("LlamaForCausalLM");
    let files = [("config.json", model.config.to_string().into_bytes()), ("model.safetensors", model.safetensors(|_| true))];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().collect();
    assert_eq!(HuggingFace::from_files(&files).unwrap().config(), model.open().config());
    let text = HuggingFace::from_files(&Default::default()).err().unwrap().to_string();
    assert!(text.starts_with("config.json: it is not JSON"), "{text}");
}
