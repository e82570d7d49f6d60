//! Rejected files, and the error messages for them.

use pteron_convert::{Error, Gguf};

use super::writer::{Tensor, Value, WIDTH, Writer, string, tiny, with_tokenizer};

fn error(file: &Writer) -> Error {
    Gguf::from_bytes("tiny.gguf", file.bytes()).err().unwrap()
}

fn read_error(file: &Writer) -> String {
    error(file).to_string()
}

/// The tiny Llama with one tensor changed.
fn changed(name: &str, change: impl Fn(&mut Tensor)) -> Writer {
    let mut file = tiny("llama");
    change(file.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap());
    file
}

#[test]
fn versions_and_orders_of_bytes_are_named() {
    let version = |version| read_error(&Writer { version, ..tiny("llama") });
    assert_eq!(version(1), "version 1 of GGUF is not supported: supported are 2, 3");
    assert_eq!(version(4), "version 4 of GGUF is not supported: supported are 2, 3");
    assert_eq!(version(3u32.swap_bytes()), "a big-endian GGUF file is not supported: supported are little-endian");
    let problem = Gguf::from_bytes("x", b"GGML....".to_vec()).err().unwrap().to_string();
    assert_eq!(problem, "x: its header, at byte 0: this is no GGUF file, which would begin with \"GGUF\"");
}

#[test]
fn architectures_and_their_keys_are_named() {
    let problem = read_error(&tiny("llama").key("general.architecture", "gemma3"));
    assert_eq!(problem, "the architecture \"gemma3\" is not supported: supported are llama, qwen2, qwen3");
    let refused = |key: &str, value: Value| {
        let error = error(&tiny("llama").key(&format!("llama.{key}"), value));
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        error.to_string()
    };
    assert!(refused("expert_count", Value::U32(8)).starts_with("a mixture of experts (llama.expert_count = 8) is not"));
    assert!(refused("attention.sliding_window", Value::U32(64)).starts_with("sliding-window attention"));
    assert!(refused("rope.scaling.type", "yarn".into()).starts_with("the scaling \"yarn\" of positions is not supported"));
    assert!(refused("rope.dimension_count", Value::U32(2)).starts_with("rotation of 2 of a head's 4 numbers"));
    assert!(refused("attention.value_length", Value::U32(2)).contains("keys of 4 numbers and values of 2"));
    assert!(refused("attention.causal", Value::Bool(false)).starts_with("attention to later tokens"));
    assert!(refused("logit_scale", Value::F32(0.5)).starts_with("scaling of logits (llama.logit_scale = 0.5)"));
    let each = refused("attention.head_count_kv", Value::I32s(vec![1, 2]));
    assert!(each.starts_with("another llama.attention.head_count_kv for each layer"), "{each}");
    let linear =
        |factor: f32| tiny("llama").key("llama.rope.scaling.type", "linear").key("llama.rope.scaling.factor", factor);
    assert!(read_error(&linear(4.0)).starts_with("the scaling \"linear\""));
    assert!(read_error(&linear(4.0).without("llama.rope.scaling.type")).starts_with("the scaling \"linear\""));
    // Values without effect are accepted.
    for file in [
        linear(1.0),
        tiny("llama").key("llama.expert_count", 0),
        tiny("llama").key("llama.attention.sliding_window", 128),
        tiny("llama").key("llama.logit_scale", 1.0),
        tiny("llama").key("llama.rope.scaling.type", "none"),
    ] {
        assert!(Gguf::from_bytes("tiny.gguf", file.bytes()).is_ok());
    }
}

#[test]
fn sizes_that_cannot_be_are_named() {
    let problem = |key: &str, value: Value| read_error(&tiny("llama").key(&format!("llama.{key}"), value));
    assert!(problem("block_count", Value::U32(0)).contains("\"llama.block_count\": 0 is not between 1 and"));
    assert!(problem("block_count", Value::U32(u32::MAX)).contains("is not between"));
    assert!(problem("block_count", Value::U32(1 << 20)).contains("1048576 layers need more than 21 tensors"));
    assert!(problem("embedding_length", Value::F32(8.0)).contains("it should be a whole number"));
    assert!(problem("embedding_length", Value::I32(-8)).contains("it should be a whole number"));
    assert!(problem("attention.head_count_kv", Value::U32(3)).contains("2 heads of queries cannot share 3"));
    assert!(problem("attention.key_length", Value::U32(3)).contains("heads of 3 numbers cannot be rotated in pairs"));
    let widest = tiny("llama").key("llama.attention.head_count", 1 << 20).key("llama.attention.key_length", 1 << 20);
    assert!(read_error(&widest).contains("are too many"));
    assert!(problem("attention.layer_norm_rms_epsilon", Value::F32(f32::NAN)).contains("NaN is not from 0 to 1"));
    assert!(problem("rope.freq_base", Value::F32(-1.0)).contains("-1 is no base of frequencies"));
    let missing = read_error(&tiny("llama").without("llama.embedding_length"));
    assert_eq!(missing, "tiny.gguf: there is no \"llama.embedding_length\"");
}

#[test]
fn all_tensors_that_do_not_fit_are_listed_at_once() {
    let file = tiny("qwen3")
        .without("blk.1.ffn_up.weight")
        .without("blk.0.attn_q_norm.weight")
        .floats("blk.0.ffn_gate_exps.weight", &[1], 0)
        .floats("blk.2.attn_norm.weight", &[WIDTH], 0)
        .floats("output.weight", &[WIDTH, 13], 0)
        .tensor("output_norm.weight", &[32], 8, vec![0; 34]);
    let error = error(&file);
    assert!(matches!(error, Error::Tensors { .. }));
    assert_eq!(
        error.to_string(),
        "the checkpoint's tensors do not fit qwen3: blk.0.attn_q_norm.weight is missing; blk.1.ffn_up.weight is missing; \
         output_norm.weight has the shape [32], and [8] is needed; output.weight has the shape [8, 13], and [8, 12] is needed; \
         \"blk.0.ffn_gate_exps.weight\" is not part of it; \"blk.2.attn_norm.weight\" is not part of it"
    );
    let vector =
        read_error(&tiny("llama").key("llama.embedding_length", 32).tensor("output_norm.weight", &[32], 8, vec![0; 34]));
    assert!(vector.contains("output_norm.weight is a vector of type Q8_0, which has blocks"), "{vector}");
    // Each of 64 is named, the rest are counted.
    let many = (0..70).fold(tiny("llama"), |file, index| file.floats(&format!("extra{index}"), &[1], 0));
    assert!(read_error(&many).ends_with("; and 6 more"), "{}", read_error(&many));
}

#[test]
fn types_of_tensors_are_named() {
    let problem = read_error(&changed("output.weight", |tensor| tensor.kind = 23));
    assert_eq!(
        problem,
        "the type IQ4_XS of the tensor \"output.weight\" is not supported: supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, \
         Q5_0, Q5_1, Q4_K, Q5_K, Q6_K"
    );
    assert!(read_error(&changed("output.weight", |tensor| tensor.kind = 4)).starts_with("the type number 4 of"));
    // The architecture comes first: a model of another kind often has other types, too.
    let other = changed("output.weight", |tensor| tensor.kind = 39).key("general.architecture", "gpt-oss");
    assert!(read_error(&other).starts_with("the architecture \"gpt-oss\""));
    let blocks = read_error(&changed("output.weight", |tensor| tensor.kind = 2));
    assert!(blocks.contains("the tensor \"output.weight\": its rows have 8 numbers, but Q4_0 has blocks of 32"), "{blocks}");
}

#[test]
fn tensors_out_of_place_are_named() {
    let problem = |change: fn(&mut Tensor)| read_error(&changed("output.weight", change));
    assert!(problem(|tensor| tensor.offset = Some(8)).contains("it begins at 8, which is no multiple of the alignment 32"));
    assert!(
        problem(|tensor| tensor.offset = Some(1 << 20)).contains("its 384 bytes from 1048576 on are not all in the file")
    );
    assert!(problem(|tensor| tensor.offset = Some(u64::MAX - 31)).contains("are not all in the file"));
    assert!(problem(|tensor| tensor.offset = Some(32)).contains("within the tensor \"token_embd.weight\""));
    assert!(problem(|tensor| tensor.dims = vec![1 << 40, 1 << 40]).contains("it is too large"));
    assert!(problem(|tensor| tensor.dims = vec![u64::MAX; 4]).contains("it is too large"));
    assert!(problem(|tensor| tensor.dims = vec![1; 5]).contains("it has 5 dimensions, more than 4"));
    assert!(problem(|tensor| tensor.name = "token_embd.weight".to_owned()).contains("it is there twice"));
    assert!(read_error(&tiny("llama").key("general.alignment", 24)).contains("24 is no power of two"));
    assert!(read_error(&tiny("llama").key("general.alignment", 0)).contains("0 is no power of two"));
}

#[test]
fn keys_that_are_broken_are_named() {
    let mut twice = tiny("llama");
    twice.keys.push(twice.keys[0].clone());
    assert!(read_error(&twice).contains("the value of \"general.architecture\", at byte"), "{}", read_error(&twice));
    let raw = |kind, bytes: &[u8]| read_error(&tiny("llama").key("general.x", Value::Raw(kind, bytes.to_vec())));
    assert!(raw(13, &[]).contains("there is no type 13; types are 0 to 12"));
    let array = |kind: u32, len: u64| raw(9, &[&kind.to_le_bytes()[..], &len.to_le_bytes()].concat());
    assert!(array(0, u64::MAX).contains("it says that there are 18446744073709551615, and the file has room for"));
    assert!(array(8, 1 << 40).contains("it says that there are 1099511627776"));
    assert!(raw(8, &(1u64 << 60).to_le_bytes()).contains("it needs 1152921504606846976 bytes, and the file has"));
    let deep = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat().repeat(1000);
    assert!(raw(9, &deep).contains("arrays are nested more than 8 deep"));
    let latin = Value::Raw(8, [&3u64.to_le_bytes()[..], b"q\xffn"].concat());
    assert!(read_error(&tiny("llama").key("general.architecture", latin)).contains("it should be a text in UTF-8"));
    // Names are shown so that they cannot deceive a terminal, nor fill it.
    let odd = read_error(&tiny("llama").key(&format!("\u{1b}[2J{}", "x".repeat(999)), Value::Raw(99, string(""))));
    assert!(odd.contains("\\u{1b}[2Jxxx") && odd.len() < 250, "{odd}");
}

#[test]
fn tokenizers_that_cannot_be_written_are_named() {
    let file = || with_tokenizer(tiny("llama"));
    let problem = |key: &str, value: Value| read_error(&file().key(&format!("tokenizer.ggml.{key}"), value));
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|&text| text.to_owned()).collect());
    let kind = problem("model", "bert".into());
    assert_eq!(kind, "the tokenizer \"bert\" is not supported: supported are gpt2, llama");
    let cut = problem("pre", "kimi-k2".into());
    assert!(cut.starts_with("the pre-tokenizer \"kimi-k2\" is not supported: supported are llama-bpe, "), "{cut}");
    assert!(
        read_error(&file().without("tokenizer.ggml.pre")).starts_with("a byte-level tokenizer without tokenizer.ggml.pre")
    );
    assert!(read_error(&file().without("tokenizer.ggml.merges")).contains("there is no \"tokenizer.ggml.merges\""));
    let merge = problem("merges", texts(&["a b", "a c"]));
    assert!(merge.contains("merge 1 is \"a c\", which is not two tokens that make a third"), "{merge}");
    assert!(problem("tokens", texts(&["a", "b", "a"])).contains("elements for 3 tokens"));
    let twice = texts(&["a", "b", "c", "Ġ", "ab", "Ġab", "abc", "a"]);
    assert!(problem("tokens", twice).contains("tokens 0 and 7 are both \"a\""));
    let many = Value::Texts((0..13).map(|id| format!("t{id}")).collect());
    assert!(problem("tokens", many).contains("there are 13, and the embedding has 12 rows"));
    assert!(problem("token_type", Value::I32s(vec![7; 8])).contains("element 0 should be a type of tokens, 1 to 6"));
    assert!(problem("eos_token_id", Value::U32(8)).contains("there is no token 8"));
    let long = Value::Texts(vec!["x".repeat(513)]);
    let long = file().key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", long);
    let long = long.without("tokenizer.ggml.token_type").without("tokenizer.ggml.bos_token_id");
    assert!(read_error(&long.without("tokenizer.ggml.eos_token_id")).contains("has 513 bytes, more than 512"));
}
