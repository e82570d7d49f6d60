//! Safetensors files: one, or several with an index.
//!
//! The `safetensors` crate parses the header and checks that tensors do not overlap. This module checks the length of the file,
//! without overflow, so that the message can give both lengths.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pteron_format::EscapedText;
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::folder::Folder;
use super::names::listing;
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::open;

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

const MAP: &str = "weight_map";
/// The largest dense models have two hundred.
const MOST_SHARDS: usize = 1_000;
/// The largest dense models have headers of some hundred thousand bytes.
const LARGEST_HEADER: usize = 16 << 20;

/// Tensor names to file names.
type Index = BTreeMap<String, String>;

/// The files of a checkpoint and their tensors.
pub(super) struct Shards {
    pub(super) files: Vec<Shard>,
    pub(super) tensors: BTreeMap<String, Tensor>,
    /// Tensors missing from the file that the index names.
    pub(super) lost: Index,
}

/// A file.
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) bytes: Mapped,
}

/// A tensor that lies within one of the files.
pub(super) struct Tensor {
    pub(super) shard: usize,
    /// The offset of its bytes in the file.
    pub(super) start: usize,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

impl Shards {
    pub(super) fn open(folder: &Folder<'_>) -> Result<Self> {
        let index = if folder.has(SINGLE) { None } else { Some(index(folder)?) };
        let names = match &index {
            Some(index) => index.values().map(String::as_str).collect(),
            None => BTreeSet::from([SINGLE]),
        };
        check_shards(folder, &names)?;
        let mut shards = Self { files: Vec::new(), tensors: BTreeMap::new(), lost: BTreeMap::new() };
        for name in names {
            shards.add(name, folder.map(name)?, index.as_ref())?;
        }
        shards.lost = index.into_iter().flatten().filter(|(tensor, _)| !shards.tensors.contains_key(tensor)).collect();
        Ok(shards)
    }

    fn add(&mut self, name: &str, bytes: Mapped, index: Option<&Index>) -> Result<()> {
        let malformed = |problem| Error::Malformed { file: EscapedText::name(name).to_string(), problem };
        let (data, metadata) = header(bytes.as_ref()).map_err(malformed)?;
        let shard = self.files.len();
        for (tensor, info) in metadata.tensors() {
            // The index decides between two tensors of the same name.
            if index.and_then(|index| index.get(&tensor)).is_none_or(|file| file == name) {
                let (dtype, shape, start) = (info.dtype, info.shape.clone(), data + info.data_offsets.0);
                let place = match self.tensors.entry(tensor) {
                    Entry::Vacant(place) => place,
                    Entry::Occupied(there) => {
                        let other = self.files.get(there.get().shard).map_or(name, |file| &file.name);
                        let (tensor, other) = (EscapedText::name(there.key()), EscapedText::name(other));
                        return Err(malformed(format!("the tensor {tensor} is in {other}, too, and {INDEX} names neither")));
                    }
                };
                place.insert(Tensor { shard, start, dtype, shape });
            }
        }
        self.files.push(Shard { name: name.to_owned(), bytes });
        Ok(())
    }
}

fn index(folder: &Folder<'_>) -> Result<Index> {
    let fields = folder.optional_fields(INDEX)?.ok_or_else(|| open::no_safetensors(folder.path(), SINGLE))?;
    fields.text_map(MAP)?.ok_or_else(|| fields.missing(MAP))
}

/// Checks that all files of an index are in its folder.
fn check_shards(folder: &Folder<'_>, names: &BTreeSet<&str>) -> Result<()> {
    let malformed = |problem| Error::Malformed { file: INDEX.to_owned(), problem };
    let problem = |text: &str, names: Vec<&str>| malformed(format!("{text}: {}", listing(names)));
    if names.len() > MOST_SHARDS {
        return Err(malformed(format!("it names {} files, more than {MOST_SHARDS}", names.len())));
    }
    let elsewhere: Vec<_> =
        names.iter().copied().filter(|name| Path::new(name).file_name() != Some(name.as_ref())).collect();
    if !elsewhere.is_empty() {
        return Err(problem("it names files that are not in the same folder", elsewhere));
    }
    let missing: Vec<_> = names.iter().copied().filter(|name| !folder.has(name)).collect();
    if !missing.is_empty() {
        return Err(problem("it names files that are not there, so download these, too", missing));
    }
    Ok(())
}

/// Parses the header. Returns the offset of the data and the tensors, or a problem.
pub(super) fn header(bytes: &[u8]) -> Result<(usize, Metadata), String> {
    let cut_short = |wanted: &dyn std::fmt::Display| {
        format!("it is cut short: it has {} bytes of {wanted}, so download it again", bytes.len())
    };
    let Some((length, rest)) = bytes.split_first_chunk() else { return Err(cut_short(&"a header")) };
    let length = u64::from_le_bytes(*length);
    let json = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    let Some(json) = json else {
        return Err(if rest.first() == Some(&b'{') {
            cut_short(&format_args!("at least {}", length.saturating_add(8)))
        } else {
            "it is not a safetensors file".to_owned()
        });
    };
    if json.len() > LARGEST_HEADER {
        return Err(format!("its header has {length} bytes, more than {LARGEST_HEADER}"));
    }
    let damaged = |error: serde_json::Error| format!("its header is damaged: {}", EscapedText::sentence(&error.to_string()));
    let metadata: Metadata = serde_json::from_slice(json).map_err(damaged)?;
    let data = bytes.len() - rest.len() + json.len();
    let expected = data.checked_add(metadata.data_len()).ok_or("its header speaks of more bytes than can be counted")?;
    match bytes.len().checked_sub(expected) {
        Some(0) => Ok((data, metadata)),
        Some(surplus) => Err(format!("it has {surplus} bytes after its last tensor, so it is damaged: download it again")),
        None => Err(cut_short(&expected)),
    }
}
