//! The `.npz` format of NumPy: a zip archive of `.npy` files.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use miniz_oxide::inflate::{TINFLStatus, decompress_slice_iter_to_slice};
use pteron::{FileBytes, Tensor};
use pteron_format::{EscapedText, alloc};
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive, ZipVerification};

use crate::failure::Failure;
use crate::files::{self, Wanted};
use crate::npy::{self, Header};

/// The most arrays in a file; no method has as many inputs.
const MOST_ENTRIES: usize = 1 << 16;
/// The greatest expansion of DEFLATE.
const MOST_INFLATION: u64 = 1032;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it is not an archive of numpy.savez: {0}")]
    Archive(rawzip::Error),
    #[error("it has more than {MOST_ENTRIES} arrays")]
    Crowded,
    #[error("it is a single array (.npy); save it with numpy.savez, which names it arr_0")]
    Single,
    #[error("{name} is in it twice", name = EscapedText::name(.0))]
    Twice(String),
    #[error("{name} is compressed with {1:?}; supported is what numpy.savez and numpy.savez_compressed write", name = EscapedText::name(.0))]
    Method(String, CompressionMethod),
    #[error("{name} is damaged: {1}", name = EscapedText::name(.0))]
    Damaged(String, String),
    #[error("{name} {1}", name = EscapedText::name(.0))]
    Array(String, #[source] npy::Fault),
}

/// An opened file, its arrays not read yet.
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
    /// Opens a file and reads the names of its arrays.
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
        let mut names = HashSet::new();
        let mut records = archive.entries();
        while let Some(record) = records.next_entry().map_err(Fault::Archive)? {
            let path = String::from_utf8_lossy(record.file_path().as_bytes()).into_owned();
            let name = path.strip_suffix(".npy").unwrap_or(&path).to_owned();
            if entries.len() == MOST_ENTRIES {
                return Err(Fault::Crowded);
            }
            if !names.insert(name.clone()) {
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

    /// Reads an array; `None` if there is none of that name. `accept` checks type and shape before the elements are read.
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
            CompressionMethod::DEFLATE => inflate(name, data, most).map(Cow::Owned),
            other => Err(Fault::Method(name.to_owned(), other)),
        };
        // The header bounds how much is unpacked.
        let header = Header::read(&unpack(Header::MOST)?).map_err(fault)?;
        accept(&header)?;
        let array = unpack(header.total().saturating_add(1))?;
        let found = ZipVerification { crc: rawzip::crc32(&array), uncompressed_size: array.len() as u64 };
        claim.valid(found).map_err(|error| damaged(error.to_string()))?;
        let elements = header.elements(&array).map_err(fault)?;
        Ok(Some((header, elements)))
    }
}

/// Unpacks at most `most` bytes. Allocates no more than the data can expand to, and leaves the rest packed.
fn inflate(name: &str, data: &[u8], most: u64) -> Result<Vec<u8>, Fault> {
    let most = most.min((data.len() as u64).saturating_mul(MOST_INFLATION));
    // On 32-bit targets a larger length is one that cannot be allocated either.
    let len = usize::try_from(most).unwrap_or(usize::MAX);
    let mut out = alloc::zeroed(len).map_err(|lacking| Fault::Array(name.to_owned(), lacking.into()))?;
    match decompress_slice_iter_to_slice(&mut out, std::iter::once(data), false, true) {
        Ok(len) => out.truncate(len),
        // The rest is not needed.
        Err(TINFLStatus::HasMoreOutput) => {}
        Err(status) => {
            return Err(Fault::Damaged(name.to_owned(), format!("its compressed data does not unpack ({status:?})")));
        }
    }
    Ok(out)
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

#[cfg(test)]
mod tests {
    use pteron::ScalarType;
    use pteron_files::TemporaryFolder;

    use super::*;
    use crate::fuzzing;

    fn tensor() -> Tensor {
        Tensor::new(ScalarType::Byte, &[3], vec![1, 2, 3]).unwrap()
    }

    #[test]
    fn a_disk_that_fails_leaves_the_old_file() {
        let folder = TemporaryFolder::new("pteron-cli-").unwrap();
        let path = folder.path().join("0.npz");
        write(&path, &[tensor()]).unwrap();
        let tensors: Vec<Tensor> = (0..3).map(|_| tensor()).collect();
        assert!(files::tests::fail_each(folder.path(), || write(&path, &tensors)) >= 4);
        assert_eq!(Npz::open(&path).unwrap().names().collect::<Vec<_>>(), ["arr_0", "arr_1", "arr_2"]);
    }

    /// An archive with an entry of this name that is said to unpack to `claimed` bytes.
    fn archive(names: &[&str], method: CompressionMethod, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut out);
        for name in names {
            let (mut entry, config) = archive.new_file(name).compression_method(method).start().unwrap();
            let mut writer = config.wrap(&mut entry);
            writer.write_all(data).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        out
    }

    #[test]
    fn a_bomb_is_unpacked_as_far_as_its_header_says() {
        let header = npy::header(ScalarType::Byte, &[8]).unwrap();
        let bomb = miniz_oxide::deflate::compress_to_vec(&[header, vec![0; 16 << 20]].concat(), 9);
        assert!(bomb.len() < 1 << 17, "{} bytes", bomb.len());
        let text = fuzzing::npz(&archive(&["arr_0.npy"], CompressionMethod::DEFLATE, &bomb), 1 << 20).unwrap_err();
        assert!(text.starts_with("arr_0 is damaged: "), "{text}");
        // A header that claims more than the data can hold allocates no more than that.
        let header = npy::header(ScalarType::Double, &[u32::MAX, 1 << 20]).unwrap();
        let small = miniz_oxide::deflate::compress_to_vec(&header, 9);
        let text = fuzzing::npz(&archive(&["arr_0.npy"], CompressionMethod::DEFLATE, &small), u64::MAX).unwrap_err();
        assert!(text.starts_with("arr_0 "), "{text}");
        let text = fuzzing::npz(&archive(&["arr_0.npy"], CompressionMethod::STORE, &header), u64::MAX).unwrap_err();
        assert!(text.starts_with("arr_0 needs 36028797010575360 bytes of elements, but holds 0"), "{text}");
    }

    #[test]
    fn long_and_doubled_names_are_said_shortly() {
        let long = format!("{}.npy", "x".repeat(60_000));
        let text = fuzzing::npz(&archive(&[&long, &long], CompressionMethod::STORE, b""), 0).unwrap_err();
        assert!(text.len() < 200 && text.ends_with(" is in it twice"), "{text}");
        let text = fuzzing::npz(&archive(&["../../\u{1b}[2J"], CompressionMethod::STORE, b""), 0).unwrap_err();
        assert!(
            text.ends_with("is not a NumPy array: it does not start with \\x93NUMPY") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
