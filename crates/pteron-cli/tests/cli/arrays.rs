//! Files of arrays as NumPy writes them, made and read here without the code under test.

use std::io::Write;

use rawzip::{CompressionMethod, ZipArchive, ZipArchiveWriter};
use serde_json::Value;

use super::{read, root};

/// An array: NumPy's name of its type, its shape, its elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) descr: String,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: Vec<u8>,
}

impl Array {
    pub(super) fn new(descr: &str, shape: &[u64], bytes: &[u8]) -> Self {
        Self { descr: descr.to_owned(), shape: shape.to_vec(), bytes: bytes.to_vec() }
    }

    pub(super) fn longs(shape: &[u64], values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new("<i8", shape, &bytes)
    }

    pub(super) fn floats(shape: &[u64], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new("<f4", shape, &bytes)
    }

    /// An array that a manifest describes.
    pub(super) fn of_fixture(folder: &str, file: &Value) -> Self {
        let descr = match file["dtype"].as_str().unwrap() {
            "bool" => "|b1",
            "uint8" => "|u1",
            "int8" => "|i1",
            "int32" => "<i4",
            "int64" => "<i8",
            "float16" => "<f2",
            "float32" => "<f4",
            other => panic!("{other}"),
        };
        let shape: Vec<u64> = file["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        Self::new(descr, &shape, &read(&format!("{folder}/{}", file["path"].as_str().unwrap())))
    }

    pub(super) fn npy(&self) -> Vec<u8> {
        let dims: Vec<String> = self.shape.iter().map(|dim| format!("{dim},")).collect();
        let header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}\n", self.descr, dims.concat());
        let len = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), &self.bytes].concat()
    }

    /// The elements as numbers.
    pub(super) fn values(&self) -> Vec<f64> {
        let words = |size: usize| self.bytes.chunks_exact(size);
        match self.descr.as_str() {
            "<f4" => words(4).map(|word| f32::from_le_bytes(word.try_into().unwrap()).into()).collect(),
            "<f2" => words(2).map(|word| half(u16::from_le_bytes(word.try_into().unwrap()))).collect(),
            "<i4" => words(4).map(|word| i32::from_le_bytes(word.try_into().unwrap()).into()).collect(),
            "<i8" => words(8).map(|word| i64::from_le_bytes(word.try_into().unwrap()) as f64).collect(),
            _ => words(1).map(|byte| byte[0].into()).collect(),
        }
    }
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    sign * if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) }
}

/// A file with these arrays under their names.
pub(super) fn named(arrays: &[(&str, Vec<u8>)], compressed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut out);
    for (name, npy) in arrays {
        let method = if compressed { CompressionMethod::DEFLATE } else { CompressionMethod::STORE };
        let builder = archive.new_file(format!("{name}.npy")).compression_method(method);
        let (mut entry, _) = builder.start().unwrap();
        let packed = if compressed { miniz_oxide::deflate::compress_to_vec(npy, 6) } else { npy.clone() };
        entry.write_all(&packed).unwrap();
        let descriptor = rawzip::DataDescriptorOutput::new(rawzip::crc32(npy), npy.len() as u64);
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    out
}

/// A file with these arrays as `arr_0`, `arr_1`, …
pub(super) fn save(arrays: &[Array]) -> Vec<u8> {
    let names: Vec<String> = (0..arrays.len()).map(|index| format!("arr_{index}")).collect();
    let arrays: Vec<_> = names.iter().zip(arrays).map(|(name, array)| (name.as_str(), array.npy())).collect();
    named(&arrays, false)
}

/// The arrays of a file that was written, which must be named `arr_0`, `arr_1`, … in order.
pub(super) fn load(path: &str) -> Vec<Array> {
    let bytes = std::fs::read(root().join(path)).unwrap();
    let archive = ZipArchive::from_slice(&bytes).unwrap();
    let mut entries = archive.entries();
    let mut arrays = Vec::new();
    while let Some(entry) = entries.next_entry().unwrap() {
        assert_eq!(entry.file_path().as_bytes(), format!("arr_{}.npy", arrays.len()).as_bytes());
        assert_eq!(entry.compression_method(), CompressionMethod::STORE);
        let file = archive.get_entry(entry.wayfinder()).unwrap();
        assert_eq!(file.claim_verifier().crc, rawzip::crc32(file.data()));
        arrays.push(parse(file.data()));
    }
    arrays
}

fn parse(npy: &[u8]) -> Array {
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00"));
    let end = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    assert_eq!(end % 64, 0, "elements are aligned");
    let header = std::str::from_utf8(&npy[10..end]).unwrap();
    let rest = header.strip_prefix("{'descr': '").expect(header);
    let (descr, rest) = rest.split_once("', 'fortran_order': False, 'shape': (").expect(header);
    let (dims, rest) = rest.split_once(')').expect(header);
    assert!(rest.starts_with(", }") && rest.ends_with('\n'), "{header}");
    let shape = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect();
    Array { descr: descr.to_owned(), shape, bytes: npy[end..].to_vec() }
}
