//! Files of arrays, as `numpy.savez` writes and `numpy.load` reads them: a zip archive of `.npy` files.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use pteron::{FileBytes, Tensor};
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive, ZipVerification};

use crate::failure::Failure;
use crate::files::{self, Wanted};
use crate::npy::{self, Header};

/// DEFLATE makes of a byte at most this many.
const MOST_INFLATION: u64 = 1032;

/// Why a file of arrays cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it is no archive that numpy.savez writes: {0}")]
    Archive(rawzip::Error),
    #[error("it is a single array (.npy); save it with numpy.savez, which names it arr_0")]
    Single,
    #[error("{0} is in it twice")]
    Twice(String),
    #[error("{0} is compressed with {1:?}; supported is what numpy.savez and numpy.savez_compressed write")]
    Method(String, CompressionMethod),
    #[error("{0} is damaged: {1}")]
    Damaged(String, String),
    #[error("{0} {1}")]
    Array(String, #[source] npy::Fault),
}

/// An opened file of arrays, nothing of them read yet.
pub(crate) struct Npz<B = Mapped> {
    archive: ZipSliceArchive<B>,
    entries: Vec<Entry>,
}

struct Entry {
    /// The array's name, without `.npy`.
    name: String,
    method: CompressionMethod,
    place: ZipArchiveEntryWayfinder,
}

/// A file that is mapped as a whole.
pub(crate) struct Mapped(FileBytes);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.beginning()
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for Npz<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Npz {
    /// Opens a file and reads the names in it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let bytes = files::open(path, Wanted::Arrays)?;
        Self::read(Mapped(bytes)).map_err(|fault| Failure::file(path, fault))
    }
}

impl<B: AsRef<[u8]>> Npz<B> {
    /// Reads the names of the arrays in an archive.
    pub(crate) fn read(bytes: B) -> Result<Self, Fault> {
        if bytes.as_ref().starts_with(npy::MAGIC) {
            return Err(Fault::Single);
        }
        let archive = ZipArchive::from_slice(bytes).map_err(Fault::Archive)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut records = archive.entries();
        while let Some(record) = records.next_entry().map_err(Fault::Archive)? {
            let path = String::from_utf8_lossy(record.file_path().as_bytes()).into_owned();
            let name = path.strip_suffix(".npy").unwrap_or(&path).to_owned();
            if entries.iter().any(|entry| entry.name == name) {
                return Err(Fault::Twice(name));
            }
            entries.push(Entry { name, method: record.compression_method(), place: record.wayfinder() });
        }
        Ok(Self { archive, entries })
    }

    /// The names of the arrays.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Reads an array; `None` if there is none of that name. `accept` sees what the array is before its elements are read.
    pub(crate) fn array<E: From<Fault>>(
        &self,
        name: &str,
        accept: impl FnOnce(&Header) -> Result<(), E>,
    ) -> Result<Option<(Header, Vec<u8>)>, E> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        let fault = |fault: npy::Fault| Fault::Array(name.to_owned(), fault);
        let damaged = |reason: String| Fault::Damaged(name.to_owned(), reason);
        let file = self.archive.get_entry(entry.place).map_err(|error| damaged(error.to_string()))?;
        let (data, claim) = (file.data(), file.claim_verifier());
        let unpack = |most: u64| match entry.method {
            CompressionMethod::STORE => Ok(Cow::Borrowed(data)),
            CompressionMethod::DEFLATE => inflate(data, most).map(Cow::Owned).map_err(damaged),
            other => Err(Fault::Method(name.to_owned(), other)),
        };
        // The header alone says how much the rest may be.
        let header = Header::read(&unpack(Header::MOST)?).map_err(fault)?;
        accept(&header)?;
        let array = unpack(header.total().saturating_add(1))?;
        let found = ZipVerification { crc: rawzip::crc32(&array), uncompressed_size: array.len() as u64 };
        claim.valid(found).map_err(|error| damaged(error.to_string()))?;
        let elements = header.elements(&array).map_err(fault)?;
        Ok(Some((header, elements)))
    }
}

/// At most so many bytes of compressed data.
fn inflate(data: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let most = most.min((data.len() as u64).saturating_mul(MOST_INFLATION));
    let inflated = miniz_oxide::inflate::decompress_to_vec_with_limit(data, usize::try_from(most).unwrap_or(usize::MAX));
    inflated.or_else(|error| match error.status {
        miniz_oxide::inflate::TINFLStatus::HasMoreOutput => Ok(error.output),
        status => Err(format!("its compressed data does not unpack ({status:?})")),
    })
}

/// Writes tensors as `arr_0`, `arr_1`, …
pub(crate) fn write(path: &Path, tensors: &[Tensor]) -> Result<(), Failure> {
    files::write(path, |out| {
        let mut archive = rawzip::ZipArchiveWriter::new(out);
        for (index, tensor) in tensors.iter().enumerate() {
            let no_type = || format!("arr_{index} is {}, which NumPy does not have", tensor.scalar_type().name());
            let header = npy::header(tensor.scalar_type(), tensor.shape()).ok_or_else(|| io::Error::other(no_type()))?;
            let (mut entry, config) = archive.new_file(format!("arr_{index}.npy")).start().map_err(io::Error::other)?;
            let mut writer = config.wrap(&mut entry);
            writer.write_all(&header)?;
            writer.write_all(tensor.bytes())?;
            let (_, descriptor) = writer.finish().map_err(io::Error::other)?;
            entry.finish(descriptor).map_err(io::Error::other)?;
        }
        archive.finish().map_err(io::Error::other)?;
        Ok(())
    })
}
