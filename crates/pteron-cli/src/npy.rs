//! The `.npy` format of NumPy: a magic number, a version, a header that is a Python literal, and the elements.

use pteron::ScalarType;
use pteron_format::EscapedText;
use pteron_format::alloc::{self, OutOfMemory};

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// The most dimensions that NumPy has.
const MOST_DIMS: usize = 64;
/// Elements start at a multiple of this.
const ALIGNMENT: usize = 64;

/// Supported types and their names in NumPy.
const TYPES: [(ScalarType, &str); 9] = [
    (ScalarType::Bool, "b1"),
    (ScalarType::Byte, "u1"),
    (ScalarType::Char, "i1"),
    (ScalarType::Short, "i2"),
    (ScalarType::Int, "i4"),
    (ScalarType::Long, "i8"),
    (ScalarType::Half, "f2"),
    (ScalarType::Float, "f4"),
    (ScalarType::Double, "f8"),
];

/// The reason why an array cannot be used, as the rest of a sentence about it.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum Fault {
    #[error("is not a NumPy array: it does not start with \\x93NUMPY")]
    Magic,
    #[error("has version {0}.{1} of NumPy's format, supported are 1.0, 2.0 and 3.0")]
    Version(u8, u8),
    #[error("is cut off inside its header")]
    Header,
    #[error("has a header that is not a Python dictionary of descr, fortran_order and shape")]
    Literal,
    #[error("has elements of several fields, supported are plain ones such as '<f4'")]
    Structured,
    #[error("is big-endian ({0:?}); save it with .astype({1:?})")]
    BigEndian(String, String),
    #[error("has {0} dimensions, more than NumPy's {MOST_DIMS}")]
    Dimensions(usize),
    #[error("has elements {found:?}, supported are {types}", found = EscapedText::name(.0), types = type_names())]
    Type(String),
    #[error("has shape {0:?}, whose size overflows")]
    Shape(Vec<u64>),
    #[error("needs {need} bytes of elements, but holds {found}")]
    Length { need: u64, found: u64 },
    #[error("is too large: {0}")]
    Memory(#[from] OutOfMemory),
}

fn type_names() -> String {
    TYPES.map(|(scalar_type, _)| scalar_type.name()).join(", ")
}

/// Type and shape of an array.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) scalar_type: ScalarType,
    pub(crate) shape: Vec<u32>,
    fortran_order: bool,
    /// Where the elements start.
    start: usize,
    /// Bytes of the elements.
    len: u64,
}

impl Header {
    /// The most bytes of a header.
    pub(crate) const MOST: u64 = 64 << 10;

    /// Reads the header from the first bytes of an array.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Fault::Magic)?;
        let (&[major, minor], rest) = rest.split_first_chunk().ok_or(Fault::Header)?;
        let wide = match (major, minor) {
            (1, 0) => 2,
            (2 | 3, 0) => 4,
            _ => return Err(Fault::Version(major, minor)),
        };
        let (len, rest) = rest.split_at_checked(wide).ok_or(Fault::Header)?;
        let len = len.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte));
        let text = rest.get(..len).ok_or(Fault::Header)?;
        let start = MAGIC.len() + 2 + wide + len;
        let text = std::str::from_utf8(text).map_err(|_| Fault::Literal)?;
        Self::parse(text, start)
    }

    fn parse(text: &str, start: usize) -> Result<Self, Fault> {
        let mut literal = Literal { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        literal.take("{").ok_or(Fault::Literal)?;
        while literal.take("}").is_none() {
            let key = literal.string().ok_or(Fault::Literal)?;
            literal.take(":").ok_or(Fault::Literal)?;
            match key {
                "descr" if literal.peek("[") => return Err(Fault::Structured),
                "descr" => descr = Some(literal.string().ok_or(Fault::Literal)?),
                "fortran_order" => fortran_order = Some(literal.truth().ok_or(Fault::Literal)?),
                "shape" => shape = Some(literal.tuple().ok_or(Fault::Literal)?),
                _ => return Err(Fault::Literal),
            }
            if literal.take(",").is_none() && !literal.peek("}") {
                return Err(Fault::Literal);
            }
        }
        let (Some(descr), Some(fortran_order), Some(sizes)) = (descr, fortran_order, shape) else {
            return Err(Fault::Literal);
        };
        let scalar_type = scalar_type(descr)?;
        if sizes.len() > MOST_DIMS {
            return Err(Fault::Dimensions(sizes.len()));
        }
        let shape: Option<Vec<u32>> = sizes.iter().map(|&size| u32::try_from(size).ok()).collect();
        let counted = shape.and_then(|shape| {
            let count = shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size.into()));
            Some((count?.checked_mul(scalar_type.size())?, shape))
        });
        let (len, shape) = counted.ok_or(Fault::Shape(sizes))?;
        Ok(Self { scalar_type, shape, fortran_order, start, len })
    }

    /// Bytes of header and elements.
    pub(crate) fn total(&self) -> u64 {
        (self.start as u64).saturating_add(self.len)
    }

    /// Returns the elements of an array in C order.
    #[expect(clippy::expect_used, reason = "element types have at most 16 bytes")]
    pub(crate) fn elements(&self, array: &[u8]) -> Result<Vec<u8>, Fault> {
        let elements = array.get(self.start..).unwrap_or_default();
        if elements.len() as u64 != self.len {
            return Err(Fault::Length { need: self.len, found: elements.len() as u64 });
        }
        // In one dimension, or without elements, C and Fortran order are the same.
        if !self.fortran_order || self.shape.len() < 2 || elements.is_empty() {
            return Ok(alloc::copied(elements)?);
        }
        let size = usize::try_from(self.scalar_type.size()).expect("an element's size fits usize");
        Ok(rows_first(elements, &self.shape, size)?)
    }
}

/// Converts Fortran order to C order.
fn rows_first(elements: &[u8], shape: &[u32], size: usize) -> Result<Vec<u8>, OutOfMemory> {
    let mut strides = vec![0; shape.len()];
    let mut stride = size;
    for (own, &dim) in strides.iter_mut().zip(shape) {
        *own = stride;
        stride = stride.saturating_mul(dim as usize);
    }
    let mut index = vec![0u32; shape.len()];
    let mut out = alloc::vec(elements.len())?;
    while out.len() < elements.len() {
        let from: usize = index.iter().zip(&strides).map(|(&index, stride)| index as usize * stride).sum();
        out.extend_from_slice(&elements[from..from + size]);
        for (index, &dim) in index.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < dim {
                break;
            }
            *index = 0;
        }
    }
    Ok(out)
}

fn scalar_type(descr: &str) -> Result<ScalarType, Fault> {
    let unknown = || Fault::Type(descr.to_owned());
    let (order, name) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('|', descr),
    };
    let &(scalar_type, _) = TYPES.iter().find(|(_, known)| *known == name).ok_or_else(unknown)?;
    match order {
        '>' if scalar_type.size() > 1 => Err(Fault::BigEndian(descr.to_owned(), format!("<{name}"))),
        '|' if scalar_type.size() > 1 => Err(unknown()),
        _ => Ok(scalar_type),
    }
}

/// The header of an array that is written, up to its elements; `None` for a type NumPy does not have.
pub(crate) fn header(scalar_type: ScalarType, shape: &[u32]) -> Option<Vec<u8>> {
    let (_, name) = TYPES.iter().find(|(known, _)| *known == scalar_type)?;
    let order = if scalar_type.size() > 1 { '<' } else { '|' };
    let dims: String = match shape {
        [single] => format!("{single},"),
        dims => dims.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({dims}), }}");
    let fixed = MAGIC.len() + 4;
    let padded = (fixed + text.len() + 1).next_multiple_of(ALIGNMENT) - fixed;
    text.extend(std::iter::repeat_n(' ', padded - 1 - text.len()));
    text.push('\n');
    let len = u16::try_from(text.len()).ok()?;
    Some([MAGIC, &[1, 0], &len.to_le_bytes(), text.as_bytes()].concat())
}

/// The little of Python that headers are written in.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn peek(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.starts_with(token)
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take("'").is_some() { '\'' } else { self.take("\"").map(|()| '"')? };
        let (text, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn truth(&mut self) -> Option<bool> {
        match self.take("True") {
            Some(()) => Some(true),
            None => self.take("False").map(|()| false),
        }
    }

    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.take("(")?;
        let mut numbers = Vec::new();
        while self.take(")").is_none() {
            let end = self.rest.find(|character: char| !character.is_ascii_digit())?;
            let (digits, rest) = self.rest.split_at(end);
            numbers.push(digits.parse().ok()?);
            // Python 2 wrote `3L`.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if self.take(",").is_none() && !self.peek(")") {
                return None;
            }
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(version: &[u8], text: &str, elements: &[u8]) -> Vec<u8> {
        let len = u32::try_from(text.len()).unwrap().to_le_bytes();
        let len = if version[0] == 1 { &len[..2] } else { &len[..] };
        [MAGIC, version, len, text.as_bytes(), elements].concat()
    }

    fn fault(text: &str) -> String {
        Header::read(&array(&[1, 0], text, &[])).unwrap_err().to_string()
    }

    #[test]
    fn a_written_array_is_read_back() {
        for (scalar_type, _) in TYPES {
            for shape in [&[][..], &[7], &[3, 0], &[2, 3, 4]] {
                let mut bytes = header(scalar_type, shape).unwrap();
                assert_eq!(bytes.len() % ALIGNMENT, 0);
                let header = Header::read(&bytes).unwrap();
                assert_eq!((header.scalar_type, header.shape.as_slice()), (scalar_type, shape));
                let elements = vec![1; usize::try_from(header.len).unwrap()];
                bytes.extend(&elements);
                assert_eq!(header.total(), bytes.len() as u64);
                assert_eq!(header.elements(&bytes).unwrap(), elements);
            }
        }
        assert_eq!(header(ScalarType::BFloat16, &[]), None);
        let text = header(ScalarType::Float, &[1, 256]).unwrap();
        assert!(text[10..].starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 256), } "));
    }

    #[test]
    fn every_version_and_spelling_is_read() {
        let elements = [1, 2, 3, 4, 5, 6];
        for (version, text) in [
            (&[1, 0], "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n"),
            (&[2, 0], "{\"shape\": (2, 3), \"descr\": \"u1\", \"fortran_order\": False}"),
            (&[3, 0], " { 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 2L , 3L , ) }   \n"),
        ] {
            let bytes = array(version, text, &elements);
            let header = Header::read(&bytes).unwrap();
            assert_eq!((header.scalar_type, header.shape.as_slice()), (ScalarType::Byte, &[2, 3][..]), "{text}");
            assert_eq!(header.elements(&bytes).unwrap(), elements);
        }
    }

    #[test]
    fn columns_first_becomes_rows_first() {
        let bytes = array(&[1, 0], "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", &[1, 4, 2, 5, 3, 6]);
        assert_eq!(Header::read(&bytes).unwrap().elements(&bytes).unwrap(), [1, 2, 3, 4, 5, 6]);
        let elements: Vec<u8> = (0..24u16).flat_map(u16::to_le_bytes).collect();
        let bytes = array(&[1, 0], "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}", &elements);
        let found = Header::read(&bytes).unwrap().elements(&bytes).unwrap();
        // Element [1, 2, 3] is the last in both orders, element [0, 0, 1] comes after 2 × 3 others.
        assert_eq!((&found[2..4], &found[46..]), (&[6, 0][..], &[23, 0][..]));
    }

    #[test]
    fn errors_name_the_unsupported_part() {
        assert_eq!(Header::read(b"PK").unwrap_err(), Fault::Magic);
        assert_eq!(Header::read(b"\x93NUMPY\x04\x00").unwrap_err(), Fault::Version(4, 0));
        assert_eq!(Header::read(b"\x93NUMPY\x01\x00\x10\x00{").unwrap_err(), Fault::Header);
        assert_eq!(Header::read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err(), Fault::Header);
        let with =
            |descr: &str, shape: &str| fault(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"));
        assert_eq!(with("'>f4'", "(1,)"), "is big-endian (\">f4\"); save it with .astype(\"<f4\")");
        assert_eq!(
            with("'<c8'", "(1,)"),
            "has elements \"<c8\", supported are bool, uint8, int8, int16, int32, int64, float16, float32, float64"
        );
        assert!(with("'|O'", "(1,)").starts_with("has elements \"|O\""));
        assert!(with("[('a', '<f4')]", "(1,)").starts_with("has elements of several fields"));
        assert_eq!(with("'<f4'", "(5000000000,)"), "has shape [5000000000], whose size overflows");
        assert!(with("'<f8'", "(4294967295, 4294967295)").ends_with("whose size overflows"));
        let many = format!("({})", "1,".repeat(65));
        assert_eq!(with("'<f4'", &many), "has 65 dimensions, more than NumPy's 64");
        let long = with(&format!("'{}'", "x".repeat(60_000)), "(1,)");
        assert!(long.len() < 300, "{}", long.len());
        for broken in
            ["", "{", "{'descr'", "{'descr': '<f4'}", "{'shape': (1,}", "{'shape': (-1,)}", "{'other': 1}", "[1, 2]"]
        {
            assert_eq!(Header::read(&array(&[1, 0], broken, &[])).unwrap_err(), Fault::Literal, "{broken}");
        }
        let bytes = array(&[1, 0], "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", &[0; 7]);
        assert_eq!(Header::read(&bytes).unwrap().elements(&bytes).unwrap_err(), Fault::Length { need: 8, found: 7 });
    }
}
