//! Maps tensors to weights and checks that all weights exist.

use std::collections::{HashMap, HashSet};

use half::f16;

use super::cursor::shown;
use super::file::Tensor;
use super::model::Architecture;
use super::tensor_types::TensorType;
use crate::config::{AttentionBias, LayerWeight, MatrixShape, ModelConfig, RopeScaling, Weight};
use crate::error::{Error, Result};

/// The tensor of RoPE frequency divisors.
const DIVISORS: &str = "rope_freqs.weight";
/// The most tensors named in an error; a wrong number of layers affects hundreds.
const MOST_PROBLEMS: usize = 64;

/// Tensors by name, each with the number of the file that it is in.
pub(super) type Tensors<'a> = HashMap<&'a str, (usize, Tensor)>;

/// The location of a weight.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) file: usize,
    pub(super) kind: &'static TensorType,
    pub(super) start: u64,
    pub(super) row_bytes: u64,
    pub(super) matrix: MatrixShape,
}

impl Stored {
    /// The range of a row in its file.
    pub(super) fn row(&self, row: u32) -> Option<std::ops::Range<usize>> {
        if row >= self.matrix.rows {
            return None;
        }
        let start = self.start + u64::from(row) * self.row_bytes;
        Some(usize::try_from(start).ok()?..usize::try_from(start + self.row_bytes).ok()?)
    }
}

fn part_name(part: LayerWeight) -> &'static str {
    match part {
        LayerWeight::AttentionNorm => "attn_norm.weight",
        LayerWeight::Query => "attn_q.weight",
        LayerWeight::Key => "attn_k.weight",
        LayerWeight::Value => "attn_v.weight",
        LayerWeight::AttentionOutput => "attn_output.weight",
        LayerWeight::QueryBias => "attn_q.bias",
        LayerWeight::KeyBias => "attn_k.bias",
        LayerWeight::ValueBias => "attn_v.bias",
        LayerWeight::AttentionOutputBias => "attn_output.bias",
        LayerWeight::QueryNorm => "attn_q_norm.weight",
        LayerWeight::KeyNorm => "attn_k_norm.weight",
        LayerWeight::FeedForwardNorm => "ffn_norm.weight",
        LayerWeight::Gate => "ffn_gate.weight",
        LayerWeight::Up => "ffn_up.weight",
        LayerWeight::Down => "ffn_down.weight",
    }
}

/// The name of a weight's tensor.
pub(super) fn name(weight: Weight) -> String {
    match weight {
        Weight::Embedding => "token_embd.weight".to_owned(),
        Weight::FinalNorm => "output_norm.weight".to_owned(),
        Weight::Output => "output.weight".to_owned(),
        Weight::Layer(layer, part) => format!("blk.{layer}.{}", part_name(part)),
    }
}

/// Completes a configuration from the tensors: vocabulary, tied embeddings, further biases.
pub(super) fn complete(config: &mut ModelConfig, tensors: &Tensors<'_>) {
    let has = |weight| tensors.contains_key(name(weight).as_str());
    let embedding = tensors.get(name(Weight::Embedding).as_str());
    config.vocab_size = embedding.and_then(|(_, tensor)| tensor.dims[1].try_into().ok()).unwrap_or(0);
    config.tied_embeddings = !has(Weight::Output);
    if has(Weight::Layer(0, LayerWeight::QueryBias)) {
        config.attention_bias =
            if has(Weight::Layer(0, LayerWeight::AttentionOutputBias)) { AttentionBias::All } else { AttentionBias::Qkv };
    }
}

/// Finds every weight.
///
/// # Errors
/// All weights that are missing or have another shape, and all tensors that are none of the weights.
pub(super) fn find(
    architecture: &Architecture,
    config: &ModelConfig,
    tensors: &Tensors<'_>,
) -> Result<HashMap<Weight, Stored>> {
    let mut problems = Problems::default();
    let mut found = HashMap::new();
    let mut used = HashSet::new();
    // A layer has more than one tensor: without this, a wrong number of layers would be a list of billions.
    if u64::from(config.num_layers) > tensors.len() as u64 {
        problems.add(format!("{} layers need more than {} tensors", config.num_layers, tensors.len()));
    } else {
        for weight in config.weights() {
            let name = name(weight);
            let Some((&key, &(file, tensor))) = tensors.get_key_value(name.as_str()) else {
                problems.add(format!("{name} is missing"));
                continue;
            };
            used.insert(key);
            match stored(file, &tensor, config.shape(weight)) {
                Ok(stored) => drop(found.insert(weight, stored)),
                Err(problem) => problems.add(format!("{name} {problem}")),
            }
        }
    }
    let mut surplus: Vec<_> = tensors.keys().filter(|&&name| !used.contains(name)).collect();
    surplus.retain(|&&name| !(architecture.divisors && name == DIVISORS));
    surplus.sort_unstable();
    surplus.into_iter().for_each(|name| problems.add(format!("{} is not part of it", shown(name))));
    problems.none(architecture.name).map(|()| found)
}

/// A tensor as the weight with this shape.
fn stored(file: usize, tensor: &Tensor, matrix: MatrixShape) -> Result<Stored, String> {
    let (rows, columns) = (u64::from(matrix.rows), u64::from(matrix.columns));
    let vector = matrix.columns == 1;
    let expected = if vector { [rows, 1, 1, 1] } else { [columns, rows, 1, 1] };
    if tensor.dims != expected {
        return Err(format!("has the shape {}, and {} is needed", shape(tensor.dims), shape(expected)));
    }
    // A vector's rows are single numbers.
    let row_bytes = tensor.kind.row_bytes(columns);
    let row_bytes = row_bytes.ok_or_else(|| format!("is a vector of type {}, which has blocks", tensor.kind.name))?;
    Ok(Stored { file, kind: tensor.kind, start: tensor.start, row_bytes, matrix })
}

/// Dimensions in the file's order, without ones at the end.
fn shape(dims: [u64; 4]) -> String {
    let rank = dims.iter().rposition(|&dim| dim != 1).map_or(1, |last| last + 1);
    format!("{:?}", &dims[..rank])
}

/// Reads the RoPE frequency divisors, if there are any.
pub(super) fn scaling(
    architecture: &Architecture,
    config: &ModelConfig,
    tensors: &Tensors<'_>,
    files: &[&[u8]],
) -> Result<Option<RopeScaling>> {
    let Some(&(file, tensor)) = tensors.get(DIVISORS).filter(|_| architecture.divisors) else { return Ok(None) };
    let fault = |problem: String| Error::Tensors {
        architecture: architecture.name.to_owned(),
        problems: format!("{DIVISORS} {problem}"),
    };
    let matrix = MatrixShape { rows: config.head_dim / 2, columns: 1 };
    let stored = stored(file, &tensor, matrix).map_err(fault)?;
    let mut divisors = vec![0.0; config.head_dim as usize / 2];
    for (row, divisor) in (0..).zip(&mut divisors) {
        let bytes = stored.row(row).and_then(|range| files.get(file)?.get(range)).unwrap_or_default();
        (stored.kind.unpack)(bytes, std::slice::from_mut(divisor));
    }
    // Factors outside the range of float16 are not plausible.
    if let Some(wrong) = divisors.iter().find(|&&divisor| !(divisor > 0.0 && divisor <= f16::MAX.to_f32())) {
        return Err(fault(format!("has {wrong}, by which no frequency can be divided")));
    }
    Ok(divisors.iter().any(|&divisor| divisor != 1.0).then_some(RopeScaling::FrequencyDivisors(divisors)))
}

/// Problems found with the tensors, as text.
#[derive(Default)]
struct Problems {
    first: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.first.len() < MOST_PROBLEMS { self.first.push(problem) } else { self.more += 1 }
    }

    fn none(mut self, architecture: &str) -> Result<()> {
        if self.first.is_empty() {
            return Ok(());
        }
        if self.more > 0 {
            self.first.push(format!("and {} more", self.more));
        }
        Err(Error::Tensors { architecture: architecture.to_owned(), problems: self.first.join("; ") })
    }
}
