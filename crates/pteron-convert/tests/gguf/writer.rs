//! Writes small GGUF files.

/// The number of the type F32.
pub(crate) const F32: u32 = 0;

/// A value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    U16(u16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    /// A type's number and bytes.
    Raw(u32, Vec<u8>),
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Value {
    /// The type's number, then the value.
    fn bytes(&self) -> Vec<u8> {
        let typed = |kind: u32, bytes: &[u8]| [&kind.to_le_bytes(), bytes].concat();
        let array = |kind: u32, len: usize, bytes: Vec<u8>| {
            [&9u32.to_le_bytes()[..], &kind.to_le_bytes(), &(len as u64).to_le_bytes(), &bytes].concat()
        };
        match self {
            Self::U16(value) => typed(2, &value.to_le_bytes()),
            Self::U32(value) => typed(4, &value.to_le_bytes()),
            Self::I32(value) => typed(5, &value.to_le_bytes()),
            Self::F32(value) => typed(6, &value.to_le_bytes()),
            Self::Bool(value) => typed(7, &[u8::from(*value)]),
            Self::Text(value) => typed(8, &string(value)),
            Self::Texts(values) => array(8, values.len(), values.iter().flat_map(|value| string(value)).collect()),
            Self::I32s(values) => array(5, values.len(), values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Self::F32s(values) => array(6, values.len(), values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Self::Raw(kind, bytes) => typed(*kind, bytes),
        }
    }
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A tensor to write.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
    /// The offset written for it, if it is not directly after the one before.
    pub(crate) offset: Option<u64>,
}

/// A file to write.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub(crate) version: u32,
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) alignment: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self { version: 3, keys: Vec::new(), tensors: Vec::new(), alignment: 32 }
    }
}

impl Writer {
    /// With a key; the value of one that is there is replaced.
    pub(crate) fn key(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.keys.retain(|(other, _)| other != name);
        self.keys.push((name.to_owned(), value.into()));
        self
    }

    /// With a tensor; one that is there is replaced.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], kind: u32, bytes: Vec<u8>) -> Self {
        self.tensors.retain(|other| other.name != name);
        self.tensors.push(Tensor { name: name.to_owned(), dims: dims.to_vec(), kind, bytes, offset: None });
        self
    }

    /// With a tensor of float32 that counts up from `first` in eighths.
    pub(crate) fn floats(self, name: &str, dims: &[u64], first: u16) -> Self {
        let count: u64 = dims.iter().product();
        let numbers = (0..count).map(|index| f32::from(first) + f32::from(u16::try_from(index).unwrap()) / 8.0);
        self.tensor(name, dims, F32, numbers.flat_map(f32::to_le_bytes).collect())
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.keys.retain(|(other, _)| other != name);
        self.tensors.retain(|other| other.name != name);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut head = [b"GGUF", &self.version.to_le_bytes()[..]].concat();
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.keys.len() as u64).to_le_bytes());
        for (name, value) in &self.keys {
            head.extend(string(name));
            head.extend(value.bytes());
        }
        let mut data: Vec<u8> = Vec::new();
        for tensor in &self.tensors {
            head.extend(string(&tensor.name));
            head.extend(u32::try_from(tensor.dims.len()).unwrap().to_le_bytes());
            tensor.dims.iter().for_each(|dim| head.extend(dim.to_le_bytes()));
            head.extend(tensor.kind.to_le_bytes());
            head.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        head.resize(head.len().next_multiple_of(self.alignment), 0);
        [head, data].concat()
    }
}

/// Sizes of [`tiny`]'s model.
pub(crate) const WIDTH: u64 = 8;
const VOCABULARY: u64 = 12;
const HIDDEN: u64 = 16;
/// Four numbers for each of two heads of queries and of one of keys.
const QUERIES: u64 = 8;
const KEYS: u64 = 4;

/// A whole model of two layers, with biases or norms of heads where the architecture has them.
pub(crate) fn tiny(architecture: &str) -> Writer {
    let key = |name: &str| format!("{architecture}.{name}");
    let mut file = Writer::default()
        .key("general.architecture", architecture)
        .key(&key("block_count"), 2)
        .key(&key("context_length"), 128)
        .key(&key("embedding_length"), 8)
        .key(&key("feed_forward_length"), 16)
        .key(&key("attention.head_count"), 2)
        .key(&key("attention.head_count_kv"), 1)
        .key(&key("attention.layer_norm_rms_epsilon"), 1e-5)
        .key(&key("rope.freq_base"), 500_000.0)
        .floats("token_embd.weight", &[WIDTH, VOCABULARY], 1)
        .floats("output_norm.weight", &[WIDTH], 2)
        .floats("output.weight", &[WIDTH, VOCABULARY], 3);
    for layer in 0..2 {
        let mut add = |name: &str, dims: &[u64], first: u16| {
            file = std::mem::take(&mut file).floats(&format!("blk.{layer}.{name}"), dims, 100 * (layer + 1) + first);
        };
        add("attn_norm.weight", &[WIDTH], 1);
        add("attn_q.weight", &[WIDTH, QUERIES], 2);
        add("attn_k.weight", &[WIDTH, KEYS], 3);
        add("attn_v.weight", &[WIDTH, KEYS], 4);
        add("attn_output.weight", &[QUERIES, WIDTH], 5);
        add("ffn_norm.weight", &[WIDTH], 6);
        add("ffn_gate.weight", &[WIDTH, HIDDEN], 7);
        add("ffn_up.weight", &[WIDTH, HIDDEN], 8);
        add("ffn_down.weight", &[HIDDEN, WIDTH], 9);
        if architecture == "qwen2" {
            add("attn_q.bias", &[QUERIES], 10);
            add("attn_k.bias", &[KEYS], 11);
            add("attn_v.bias", &[KEYS], 12);
        }
        if architecture == "qwen3" {
            add("attn_q_norm.weight", &[4], 13);
            add("attn_k_norm.weight", &[4], 14);
        }
    }
    file
}

/// A byte-level tokenizer of a few tokens, the last one special.
pub(crate) fn with_tokenizer(file: Writer) -> Writer {
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|&text| text.to_owned()).collect());
    file.key("tokenizer.ggml.model", "gpt2")
        .key("tokenizer.ggml.pre", "llama-bpe")
        .key("tokenizer.ggml.tokens", texts(&["a", "b", "c", "Ġ", "ab", "Ġab", "abc", "<|eot_id|>"]))
        .key("tokenizer.ggml.token_type", Value::I32s(vec![1, 1, 1, 1, 1, 1, 1, 3]))
        .key("tokenizer.ggml.merges", texts(&["a b", "Ġ ab", "ab c"]))
        .key("tokenizer.ggml.bos_token_id", 7)
        .key("tokenizer.ggml.eos_token_id", 7)
}
