//! A GGUF file: header, key-value metadata, tensor descriptions and tensor data.

use std::collections::HashMap;

use super::cursor::{Cursor, shown};
use super::metadata::Metadata;
use super::tensor_types::{TENSOR_TYPES, TensorType, kind, tensor_type_name};
use crate::error::{Error, Result};

const MAGIC: [u8; 4] = *b"GGUF";
/// The default alignment of tensors.
const DEFAULT_ALIGNMENT: u32 = 32;
/// A tensor has at most this many dimensions.
const MAX_RANK: u32 = 4;
/// Real files have thousands.
const MOST_TENSORS: usize = 1 << 20;
/// The fewest bytes that a tensor's description takes: the name's length, the rank, the type, the offset.
const LEAST_TENSOR: usize = 8 + 4 + 4 + 8;

/// A file with its header parsed.
pub(super) struct File<'a> {
    name: &'a str,
    pub(super) metadata: Metadata<'a>,
    tensors: Vec<Described<'a>>,
    alignment: u64,
    /// The offset of the tensor data, and the length of the file.
    data: u64,
    end: u64,
}

/// A tensor as described in the header.
struct Described<'a> {
    name: &'a str,
    dims: [u64; MAX_RANK as usize],
    kind: u32,
    offset: u64,
}

/// A tensor that lies within its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    pub(super) kind: &'static TensorType,
    /// The number of columns comes first; dimensions that it does not have are 1.
    pub(super) dims: [u64; MAX_RANK as usize],
    /// Its offset in the file.
    pub(super) start: u64,
    len: u64,
}

impl<'a> File<'a> {
    /// Reads the header. [`place`](Self::place) checks the tensors, so that a caller can first check whether the architecture is
    /// supported.
    pub(super) fn read(name: &'a str, bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(name, bytes);
        if cursor.array()? != MAGIC {
            return Err(Cursor::new(name, bytes).fault("this is no GGUF file, which would begin with \"GGUF\""));
        }
        check_version(cursor.u32()?)?;
        cursor.part = "the number of tensors".to_owned();
        let count = cursor.count(LEAST_TENSOR)?;
        if count > MOST_TENSORS {
            return Err(cursor.fault(format!("there are {count}, more than {MOST_TENSORS}")));
        }
        let metadata = Metadata::read(&mut cursor, name)?;
        let alignment = alignment(&metadata)?;
        let mut tensors = Vec::with_capacity(count.min(cursor.left() / LEAST_TENSOR));
        for number in 0..count {
            cursor.part = format!("tensor {number}");
            tensors.push(described(&mut cursor)?);
        }
        let data = (cursor.position() as u64).next_multiple_of(alignment);
        Ok(Self { name, metadata, tensors, alignment, data, end: bytes.len() as u64 })
    }

    /// Returns the tensors by name. Checks that types are known, and that tensors lie within the file and do not overlap.
    pub(super) fn place(&self) -> Result<HashMap<&'a str, Tensor>> {
        let mut placed = HashMap::with_capacity(self.tensors.len());
        for described in &self.tensors {
            let tensor = self.placed(described)?;
            if placed.insert(described.name, tensor).is_some() {
                return Err(self.fault(described.name, "it is there twice"));
            }
        }
        self.check_apart(&placed)?;
        Ok(placed)
    }

    fn placed(&self, described: &Described<'_>) -> Result<Tensor> {
        let &Described { name, dims, offset, .. } = described;
        let kind = kind(described.kind).ok_or_else(|| Error::Unsupported {
            what: format!("the type {} of the tensor {}", tensor_type_name(described.kind), shown(name)),
            alternatives: TENSOR_TYPES.iter().map(|kind| kind.name.to_owned()).collect(),
        })?;
        let rows = dims[1..].iter().try_fold(1, |rows: u64, &dim| rows.checked_mul(dim));
        if !dims[0].is_multiple_of(kind.block as u64) {
            let problem = format!("its rows have {} numbers, but {} has blocks of {}", dims[0], kind.name, kind.block);
            return Err(self.fault(name, problem));
        }
        let len = kind.row_bytes(dims[0]).zip(rows).and_then(|(row, rows)| rows.checked_mul(row));
        let len = len.ok_or_else(|| self.fault(name, "it is too large"))?;
        if offset % self.alignment != 0 {
            let problem = format!("it begins at {offset}, which is no multiple of the alignment {}", self.alignment);
            return Err(self.fault(name, problem));
        }
        let start = self.data.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= self.end);
        match (start, end) {
            (Some(start), Some(_)) => Ok(Tensor { kind, dims, start, len }),
            _ => {
                let room = self.end.saturating_sub(self.data);
                let problem =
                    format!("its {len} bytes from {offset} on are not all in the file, which has {room} for tensors");
                Err(self.fault(name, problem))
            }
        }
    }

    fn check_apart(&self, placed: &HashMap<&'a str, Tensor>) -> Result<()> {
        let mut ordered: Vec<_> = placed.iter().filter(|(_, tensor)| tensor.len > 0).collect();
        ordered.sort_unstable_by_key(|(_, tensor)| tensor.start);
        for pair in ordered.windows(2) {
            let [(first, a), (second, b)] = pair else { continue };
            if a.start + a.len > b.start {
                let problem = format!("it begins at byte {}, within the tensor {}", b.start, shown(first));
                return Err(self.fault(second, problem));
            }
        }
        Ok(())
    }

    fn fault(&self, tensor: &str, problem: impl std::fmt::Display) -> Error {
        Error::Malformed { file: self.name.to_owned(), problem: format!("the tensor {}: {problem}", shown(tensor)) }
    }
}

fn check_version(version: u32) -> Result<()> {
    let (what, alternatives) = match version {
        2 | 3 => return Ok(()),
        _ if matches!(version.swap_bytes(), 1..=3) => {
            ("a big-endian GGUF file".to_owned(), vec!["little-endian".to_owned()])
        }
        _ => (format!("version {version} of GGUF"), vec!["2".to_owned(), "3".to_owned()]),
    };
    Err(Error::Unsupported { what, alternatives })
}

fn alignment(metadata: &Metadata<'_>) -> Result<u64> {
    const KEY: &str = "general.alignment";
    let alignment = metadata.number(KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() {
        return Err(metadata.fault(KEY, format!("{alignment} is no power of two")));
    }
    Ok(alignment.into())
}

fn described<'a>(cursor: &mut Cursor<'a>) -> Result<Described<'a>> {
    let name = cursor.name()?;
    cursor.part = format!("the tensor {}", shown(name));
    let rank = cursor.u32()?;
    if rank > MAX_RANK {
        return Err(cursor.fault(format!("it has {rank} dimensions, more than {MAX_RANK}")));
    }
    let mut dims = [1; MAX_RANK as usize];
    for dim in dims.iter_mut().zip(0..rank).map(|(dim, _)| dim) {
        *dim = cursor.u64()?;
    }
    Ok(Described { name, dims, kind: cursor.u32()?, offset: cursor.u64()? })
}
