//! LoRA adapters as PEFT saves them: a folder with `adapter_config.json` and `adapter_model.safetensors`.
//!
//! What the tensors say decides which linears are updated; the configuration says how. Features that would change the result and are not
//! computed are rejected by name.

use std::collections::BTreeMap;
use std::path::Path;

use pteron_format::adapter::{LoraAdapter, LowRankUpdate, Projection};
use pteron_format::{EscapedText, alloc};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde_json::Value;

use super::fields::Fields;
use super::folder::{Files, Folder};
use super::names::{self, listing};
use super::shards::header;
use super::weights::FLOATS;
use crate::config::{LayerWeight, Weight};
use crate::error::{Error, Result};

const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";
/// How older versions of PEFT save tensors.
const PICKLE: &str = "adapter_model.bin";

/// What PEFT puts before the names of a model's modules.
const PREFIX: &str = "base_model.model.";
/// The name of the only adapter, which states of training have in the names of tensors.
const DEFAULT: &str = ".default";

/// Reads the adapter in a folder. Rows of B are in the order of Hugging Face's checkpoints, also those of queries and keys.
///
/// # Errors
/// Files that are missing or damaged, tensors that are not those of an adapter, and features that are not supported.
pub fn open_adapter(folder: &Path) -> Result<LoraAdapter> {
    read(&Folder::Disk(folder))
}

/// Reads an adapter from files in memory, for fuzzers.
///
/// # Errors
/// As for [`open_adapter`].
#[doc(hidden)]
pub fn adapter_from_files(files: &Files) -> Result<LoraAdapter> {
    read(&Folder::Memory(files))
}

fn read(folder: &Folder<'_>) -> Result<LoraAdapter> {
    let config = Config::read(&Fields::parse(CONFIG, folder.map(CONFIG)?.as_ref())?)?;
    if !folder.has(TENSORS) && folder.has(PICKLE) {
        return Err(Error::Unsupported { what: PICKLE.to_owned(), alternatives: vec![TENSORS.to_owned()] });
    }
    let mapped = folder.map(TENSORS)?;
    let bytes = mapped.as_ref();
    let malformed = |problem| Error::Malformed { file: TENSORS.to_owned(), problem };
    let (data, metadata) = header(bytes).map_err(malformed)?;
    let (mut pairs, mut others) = (BTreeMap::<(u32, Projection), Pair<'_>>::new(), Vec::new());
    let tensors: BTreeMap<_, _> = metadata.tensors().into_iter().collect();
    for (name, info) in &tensors {
        let Some((layer, projection, matrix)) = parse(name) else {
            others.push(name.as_str());
            continue;
        };
        let pair = pairs.entry((layer, projection)).or_default();
        let own = if matrix == Matrix::A { &mut pair.a } else { &mut pair.b };
        if let Some((first, _)) = own.replace((name, info)) {
            let names = [first, name].map(|name| EscapedText::name(name).to_string());
            return Err(malformed(format!("{} and {} are the same matrix", names[0], names[1])));
        }
    }
    if !others.is_empty() {
        let known = Projection::ALL.map(Projection::name).join(", ");
        return Err(malformed(format!("not expected are {}; supported are lora_A and lora_B of {known}", listing(others))));
    }
    let data = bytes.get(data..).unwrap_or_default();
    let updates = pairs.into_iter().map(|((layer, projection), pair)| pair.update(layer, projection, &config, data));
    let updates = updates.collect::<Result<Vec<_>>>()?;
    LoraAdapter::new(updates).map_err(|error| malformed(error.to_string()))
}

/// What the configuration says about all updates.
struct Config {
    rank: u32,
    scale: f32,
}

impl Config {
    fn read(fields: &Fields) -> Result<Self> {
        if fields.text("peft_type")? != Some("LORA") {
            return Err(match fields.value("peft_type") {
                Some(_) => fields.unsupported("peft_type", &["LORA"]),
                None => fields.missing("peft_type"),
            });
        }
        check_features(fields)?;
        let rank = fields.count("r")?.ok_or_else(|| fields.missing("r"))?;
        let alpha = fields.number("lora_alpha")?.ok_or_else(|| fields.missing("lora_alpha"))?;
        let by_root = fields.flag("use_rslora")?.unwrap_or(false);
        let divisor = if by_root { f64::from(rank).sqrt() } else { f64::from(rank) };
        Ok(Self { rank, scale: crate::rope::narrow(alpha / divisor) })
    }
}

/// Rejects what would change the result and is not computed.
fn check_features(fields: &Fields) -> Result<()> {
    for flag in ["use_dora", "use_qalora", "lora_bias", "fan_in_fan_out"] {
        if fields.flag(flag)? == Some(true) {
            return Err(fields.unsupported(flag, &["false"]));
        }
    }
    if !matches!(fields.text("bias")?, None | Some("none")) {
        return Err(fields.unsupported("bias", &["none"]));
    }
    let absent = ["modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication", "target_parameters"];
    for field in absent.into_iter().chain(["trainable_token_indices"]) {
        let is_empty = |value: &Value| match value {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if fields.value(field).is_some_and(|value| !is_empty(value)) {
            return Err(fields.unsupported(field, &["null"]));
        }
    }
    // Others change the weights of the model, too.
    const INITIAL: &str = "init_lora_weights";
    let harmless = ["gaussian", "eva", "orthogonal"];
    match fields.value(INITIAL) {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(Value::String(text)) if harmless.contains(&text.as_str()) => Ok(()),
        Some(_) => Err(fields.unsupported(INITIAL, &["true", "false", "gaussian", "eva", "orthogonal"])),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Matrix {
    A,
    B,
}

/// The layer, linear and matrix of a tensor's name.
fn parse(name: &str) -> Option<(u32, Projection, Matrix)> {
    let name = name.strip_prefix(PREFIX)?.strip_suffix(".weight")?;
    let name = name.strip_suffix(DEFAULT).unwrap_or(name);
    let (module, matrix) = match name.strip_suffix(".lora_A") {
        Some(module) => (module, Matrix::A),
        None => (name.strip_suffix(".lora_B")?, Matrix::B),
    };
    let layer = module.split('.').find_map(|part| part.parse().ok())?;
    let is_of = |part| names::name(Weight::Layer(layer, part)).strip_suffix(".weight") == Some(module);
    let (_, projection) = PARTS.into_iter().find(|&(part, _)| is_of(part))?;
    Some((layer, projection, matrix))
}

/// The weights that adapters update.
const PARTS: [(LayerWeight, Projection); 7] = [
    (LayerWeight::Query, Projection::Query),
    (LayerWeight::Key, Projection::Key),
    (LayerWeight::Value, Projection::Value),
    (LayerWeight::AttentionOutput, Projection::AttentionOutput),
    (LayerWeight::Gate, Projection::Gate),
    (LayerWeight::Up, Projection::Up),
    (LayerWeight::Down, Projection::Down),
];

/// A tensor of the file, with its name.
type Named<'a> = (&'a str, &'a TensorInfo);

/// The two matrices of an update.
#[derive(Default)]
struct Pair<'a> {
    a: Option<Named<'a>>,
    b: Option<Named<'a>>,
}

impl Pair<'_> {
    fn update(&self, layer: u32, projection: Projection, config: &Config, data: &[u8]) -> Result<LowRankUpdate> {
        let malformed = |problem| Error::Malformed { file: TENSORS.to_owned(), problem };
        let (Some(a), Some(b)) = (self.a, self.b) else {
            let (there, missing) = if self.a.is_some() { ("lora_A", "lora_B") } else { ("lora_B", "lora_A") };
            return Err(malformed(format!("{projection} of layer {layer} has {there} and no {missing}")));
        };
        let rank = config.rank;
        let wrong = |(name, info): Named<'_>, expected: String| {
            let (name, shape) = (EscapedText::name(name), format!("{:?}", info.shape));
            malformed(format!("{name} is {}, expected {expected} as r is {rank}", EscapedText::name(&shape)))
        };
        let dims = |info: &TensorInfo| match info.shape[..] {
            [rows, columns] => Some([u32::try_from(rows).ok()?, u32::try_from(columns).ok()?]),
            _ => None,
        };
        let Some([_, columns]) = dims(a.1).filter(|&[rows, columns]| rows == rank && columns > 0) else {
            return Err(wrong(a, format!("[{rank}, columns]")));
        };
        let Some([rows, _]) = dims(b.1).filter(|&[rows, columns]| columns == rank && rows > 0) else {
            return Err(wrong(b, format!("[rows, {rank}]")));
        };
        let (a, b) = (numbers(a, data)?, numbers(b, data)?);
        Ok(LowRankUpdate { layer, projection, rank, columns, rows, scale: config.scale, a, b })
    }
}

/// The numbers of a tensor.
fn numbers((name, info): Named<'_>, data: &[u8]) -> Result<Vec<f32>> {
    let Some((_, float)) = FLOATS.into_iter().find(|(dtype, _)| *dtype == info.dtype) else {
        return Err(Error::Unsupported {
            what: format!("the type {} of {}", info.dtype, EscapedText::name(name)),
            alternatives: FLOATS.map(|(dtype, _): (Dtype, _)| dtype.to_string()).to_vec(),
        });
    };
    let malformed = |problem: String| Error::Malformed { file: TENSORS.to_owned(), problem };
    let bytes = data.get(info.data_offsets.0..info.data_offsets.1);
    // The header was checked: the bytes are there, and as many as the shape says.
    let bytes = bytes.ok_or_else(|| malformed(format!("{} lies past its end", EscapedText::name(name))))?;
    let (mut out, count) = (Vec::new(), bytes.len() / float.size());
    alloc::reserve(&mut out, count).map_err(|error| malformed(error.to_string()))?;
    out.resize(count, 0.0);
    float.decode(bytes, &mut out);
    Ok(out)
}
