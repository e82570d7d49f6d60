//! The compiled normalisation table of `SentencePiece`: a double-array trie (of the darts-clone library) from bytes to offsets of
//! NUL-terminated replacements.

/// The longest replacement for one entry. Unicode's own longest is 33 bytes; the limit bounds how much a text can grow.
const MAX_REPLACEMENT: usize = 1024;

#[derive(Debug, PartialEq)]
pub(crate) struct CharsMap {
    units: Vec<u32>,
    texts: String,
}

fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xFF)
}

fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn value(unit: u32) -> u32 {
    unit & !(1 << 31)
}

/// Where the children of the unit at `index` are: at this place, exclusive-or their byte; its value is at the place itself.
fn base(index: u32, unit: u32) -> u32 {
    index ^ (unit >> 10) << ((unit >> 9 & 1) * 8)
}

impl CharsMap {
    /// Reads a table and checks every entry that a text can reach.
    ///
    /// # Errors
    /// The reason, if the table is malformed.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let (size, rest) = bytes.split_first_chunk().ok_or("the table of characters is cut short")?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok().filter(|size| size.is_multiple_of(4));
        let (units, texts) =
            size.and_then(|size| rest.split_at_checked(size)).ok_or("the table of characters is cut short")?;
        let units: Vec<u32> = units.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let texts = std::str::from_utf8(texts).map_err(|_| "the table of characters is not UTF-8")?.to_owned();
        let map = Self { units, texts };
        map.verify()?;
        Ok(map)
    }

    fn unit(&self, index: u32) -> Option<u32> {
        self.units.get(usize::try_from(index).ok()?).copied()
    }

    fn verify(&self) -> Result<(), &'static str> {
        const BROKEN: &str = "the table of characters points outside of itself";
        let mut seen = vec![false; self.units.len()];
        let mut open = vec![0u32];
        while let Some(index) = open.pop() {
            let unit = self.unit(index).ok_or(BROKEN)?;
            let base = base(index, unit);
            // All children are in one block of 256, and readers look at a child before they know that it is one.
            self.unit(base | 0xFF).ok_or(BROKEN)?;
            if index != 0 && has_value(unit) {
                self.text(value(self.unit(base).ok_or(BROKEN)?)).ok_or(BROKEN)?;
            }
            for byte in 1..=255 {
                let child = base ^ byte;
                let slot = usize::try_from(child).ok().and_then(|child| seen.get_mut(child)).ok_or(BROKEN)?;
                if self.unit(child).is_some_and(|unit| label(unit) == byte) && !std::mem::replace(slot, true) {
                    open.push(child);
                }
            }
        }
        Ok(())
    }

    /// The text at a place.
    fn text(&self, start: u32) -> Option<&str> {
        let rest = self.texts.get(usize::try_from(start).ok()?..)?;
        rest.split_once('\0').map(|(text, _)| text).filter(|text| text.len() <= MAX_REPLACEMENT)
    }

    /// The longest entry that the input starts with: its length and its replacement.
    pub(crate) fn longest(&self, input: &[u8]) -> Option<(usize, &str)> {
        self.find(input, false)
    }

    /// The replacement for the shortest entry that the input starts with.
    pub(crate) fn shortest(&self, input: &[u8]) -> Option<&str> {
        self.find(input, true).map(|(_, replacement)| replacement)
    }

    fn find(&self, input: &[u8], first: bool) -> Option<(usize, &str)> {
        let mut at = base(0, self.unit(0)?);
        let mut found = None;
        for (&byte, len) in input.iter().zip(1..) {
            let index = at ^ u32::from(byte);
            let unit = self.unit(index).filter(|&unit| byte != 0 && label(unit) == u32::from(byte));
            let Some(unit) = unit else { break };
            at = base(index, unit);
            if has_value(unit) {
                found = self.unit(at).and_then(|unit| Some((len, self.text(value(unit))?)));
                if first {
                    break;
                }
            }
        }
        found
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table of one-byte entries, enough to test reading.
    pub(crate) fn table(entries: &[(u8, u32)], texts: &str) -> Vec<u8> {
        // The root's children are in the second block, and each child's value in a block of its own.
        let mut units = vec![0u32; 256 * (2 + entries.len())];
        units[0] = 256 << 10;
        for (&(byte, value), block) in entries.iter().zip(2u32..) {
            let index = 256 ^ u32::from(byte);
            let offset = index ^ block << 8;
            units[index as usize] = offset << 10 | 1 << 8 | u32::from(byte);
            units[(block << 8) as usize] = value | 1 << 31;
        }
        let size = u32::try_from(units.len() * 4).unwrap();
        let units = units.iter().flat_map(|unit| unit.to_le_bytes());
        size.to_le_bytes().into_iter().chain(units).chain(texts.bytes()).collect()
    }

    #[test]
    fn finds_the_replacement_of_a_byte() {
        let map = CharsMap::read(&table(&[(b'A', 0), (b'B', 2)], "a\0bee\0")).unwrap();
        assert_eq!(map.longest(b"Ax"), Some((1, "a")));
        assert_eq!(map.longest(b"B"), Some((1, "bee")));
        assert_eq!(map.longest(b"C"), None);
        assert_eq!(map.longest(b""), None);
        assert_eq!(map.longest(b"\0"), None);
    }

    #[test]
    fn malformed_tables_are_rejected() {
        let good = table(&[(b'A', 0)], "a\0");
        assert!(CharsMap::read(&good).is_ok());
        for len in 0..good.len() {
            assert!(CharsMap::read(&good[..len]).is_err(), "{len}");
        }
        // A value outside of the texts, one inside a character, and one without an end.
        assert!(CharsMap::read(&table(&[(b'A', 9)], "a\0")).is_err());
        assert!(CharsMap::read(&table(&[(b'A', 1)], "é\0")).is_err());
        assert!(CharsMap::read(&table(&[(b'A', 0)], "a")).is_err());
        let long = format!("{}\0", "a".repeat(MAX_REPLACEMENT + 1));
        assert!(CharsMap::read(&table(&[(b'A', 0)], &long)).is_err());
        // More units than there are bytes for.
        assert!(CharsMap::read(&[0xFC, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn cyclic_tries_terminate() {
        let mut bytes = table(&[(b'A', 0)], "a\0");
        // The child is its own parent.
        let at = 4 + 4 * (256 ^ usize::from(b'A'));
        bytes[at..at + 4].copy_from_slice(&(u32::from(b'A') << 10 | u32::from(b'A')).to_le_bytes());
        let map = CharsMap::read(&bytes).unwrap();
        assert_eq!(map.longest(&[b'A'; 1000]), None);
    }
}
