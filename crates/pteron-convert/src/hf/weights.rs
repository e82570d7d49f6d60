//! The weights of a model in safetensors files.

use std::collections::{BTreeMap, HashMap};

use pteron_format::EscapedText;
use safetensors::Dtype;

use super::config::Config;
use super::names::{is_harmless, listing, name};
use super::shards::{INDEX, SINGLE, Shard, Shards, Tensor};
use crate::config::{MatrixShape, ModelConfig, Weight};
use crate::error::{Error, Result};
use crate::floats::Float;

/// The types of tensors that can be read.
pub(super) const FLOATS: [(Dtype, Float); 3] =
    [(Dtype::BF16, Float::Bf16), (Dtype::F16, Float::F16), (Dtype::F32, Float::F32)];

/// The most problems to list.
const MOST_PROBLEMS: usize = 40;

/// The location of each weight.
pub(super) struct Weights {
    files: Vec<Shard>,
    stored: HashMap<Weight, Stored>,
}

struct Stored {
    shard: usize,
    start: usize,
    matrix: MatrixShape,
    float: Float,
}

impl Weights {
    /// Finds every weight of the model. Missing and unexpected tensors are errors.
    pub(super) fn find(shards: Shards, config: &Config) -> Result<Self> {
        let model = &config.model;
        let unfit = |problems| Error::Tensors { architecture: config.architecture.class.to_owned(), problems };
        // The work is bounded by the contents of the file.
        if usize::try_from(model.num_layers).is_ok_and(|layers| layers > shards.tensors.len()) {
            let (layers, tensors) = (model.num_layers, shards.tensors.len());
            return Err(unfit(format!("num_hidden_layers = {layers}, but there are {tensors} tensors in all")));
        }
        let wanted: BTreeMap<_, _> = model.weights().map(|weight| (name(weight), weight)).collect();
        let stored = stored(&shards, &wanted, model)?;
        let problems = problems(&shards, &wanted, model);
        if !problems.is_empty() {
            return Err(unfit(problems.join("; ")));
        }
        Ok(Self { files: shards.files, stored })
    }

    /// Decodes a row.
    pub(super) fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        let Some((float, bytes)) = self.bytes(weight, row, out.len()) else {
            let problem = format!("{} has no row {row} of {} numbers", name(weight), out.len());
            let file = self.stored.get(&weight).and_then(|stored| self.files.get(stored.shard));
            return Err(Error::Malformed { file: file.map_or(SINGLE, |file| &file.name).to_owned(), problem });
        };
        float.decode(bytes, out);
        Ok(())
    }

    fn bytes(&self, weight: Weight, row: u32, columns: usize) -> Option<(Float, &[u8])> {
        let stored = self.stored.get(&weight)?;
        if row >= stored.matrix.rows || usize::try_from(stored.matrix.columns).ok()? != columns {
            return None;
        }
        let length = columns.checked_mul(stored.float.size())?;
        let start = usize::try_from(row).ok()?.checked_mul(length)?.checked_add(stored.start)?;
        let file = self.files.get(stored.shard)?.bytes.as_ref();
        Some((stored.float, file.get(start..)?.get(..length)?))
    }
}

/// Lists missing, unexpected and misshapen tensors.
fn problems(shards: &Shards, wanted: &BTreeMap<String, Weight>, model: &ModelConfig) -> Vec<String> {
    let absent = || wanted.keys().filter(|name| !shards.tensors.contains_key(*name)).map(String::as_str);
    let lost = absent().filter_map(|name| Some((name, shards.lost.get(name)?)));
    let missing = listing(absent().filter(|name| !shards.lost.contains_key(*name)));
    let surplus =
        shards.tensors.keys().filter(|name| !wanted.contains_key(*name) && !is_harmless(name, model.tied_embeddings));
    let surplus = listing(surplus.map(String::as_str));
    let list = |what: &str, names: String| (!names.is_empty()).then(|| format!("{what} {names}"));
    let mut problems: Vec<_> = list("missing are", missing).into_iter().chain(list("not expected are", surplus)).collect();
    let lost = lost.map(|(name, file)| format!("{name} is not in {}, where {INDEX} has it", EscapedText::name(file)));
    problems.extend(lost.take(MOST_PROBLEMS));
    let found = wanted.iter().filter_map(|(name, weight)| Some((name, model.shape(*weight), shards.tensors.get(name)?)));
    problems.extend(
        found
            .filter(|(_, matrix, tensor)| !has_shape(tensor, *matrix))
            .map(|(name, matrix, tensor)| {
                let found = format!("{:?}", tensor.shape);
                format!("{name} is {} instead of {:?}", EscapedText::name(&found), shape(matrix))
            })
            .take(MOST_PROBLEMS),
    );
    problems
}

fn shape(MatrixShape { rows, columns }: MatrixShape) -> Vec<u32> {
    if columns == 1 { vec![rows] } else { vec![rows, columns] }
}

fn has_shape(tensor: &Tensor, matrix: MatrixShape) -> bool {
    let is = |dims: &[u32]| tensor.shape.iter().map(|dim| u32::try_from(*dim)).eq(dims.iter().map(|dim| Ok(*dim)));
    is(&shape(matrix)) || is(&[matrix.rows, matrix.columns])
}

/// Returns the locations of the tensors found.
fn stored(shards: &Shards, wanted: &BTreeMap<String, Weight>, model: &ModelConfig) -> Result<HashMap<Weight, Stored>> {
    let found = wanted.iter().filter_map(|(name, weight)| Some((name, *weight, shards.tensors.get(name)?)));
    found.map(|(name, weight, tensor)| Ok((weight, tensor.stored(name, model.shape(weight))?))).collect()
}

impl Tensor {
    fn stored(&self, name: &str, matrix: MatrixShape) -> Result<Stored> {
        let Some((_, float)) = FLOATS.into_iter().find(|(dtype, _)| *dtype == self.dtype) else {
            return Err(Error::Unsupported {
                what: format!("the type {} of {name}", self.dtype),
                alternatives: FLOATS.map(|(dtype, _)| dtype.to_string()).to_vec(),
            });
        };
        Ok(Stored { shard: self.shard, start: self.start, matrix, float })
    }
}
