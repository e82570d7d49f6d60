//! The few parts of the protobuf wire format that a model file uses.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], &'static str> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err("a field that should be text or a message is a number"),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, &'static str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text is not UTF-8")
    }

    pub(super) fn number(self) -> Result<u64, &'static str> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err("a field that should be a number is none"),
        }
    }

    pub(super) fn flag(self) -> Result<bool, &'static str> {
        Ok(self.number()? != 0)
    }

    pub(super) fn float(self) -> Result<f32, &'static str> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err("a field that should be a float is none"),
        }
    }
}

/// The fields of a message, one after the other. Takes no memory.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or(0);
            // Bits beyond the 64th are dropped, as protobuf's own readers do.
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than ten bytes")
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], &'static str> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = split.ok_or("the file ends in the middle of a field")?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), &'static str> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed64)?,
            2 => {
                let len = self.varint()?;
                Wire::Bytes(self.take(len)?)
            }
            5 => {
                let bytes = self.take(4)?.try_into().map_err(|_| "the file ends in the middle of a field")?;
                Wire::Fixed32(u32::from_le_bytes(bytes))
            }
            _ => return Err("a field has a type that is not in use"),
        };
        if key >> 3 == 0 { Err("a field has the number 0") } else { Ok((key >> 3, value)) }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_field() {
        let message = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1D, 0, 0, 0x80, 0x3F, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Result<Vec<_>, _> = Fields::new(&message).collect();
        let expected =
            [(1, Wire::Varint(150)), (2, Wire::Bytes(b"hi")), (3, Wire::Fixed32(1f32.to_bits())), (4, Wire::Fixed64)];
        assert_eq!(fields.unwrap(), expected);
    }

    #[test]
    fn broken_messages_are_errors_and_end() {
        let cases: [&[u8]; 6] =
            [&[0x80], &[0x12, 5, b'a'], &[0x0B], &[0x00, 1], &[0xFF; 12], &[0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]];
        for case in cases {
            let mut fields = Fields::new(case);
            assert!(fields.next().unwrap().is_err(), "{case:?}");
            assert_eq!(fields.next(), None);
        }
    }
}
