//! Numbers that kernels need of int8 weights, computed when the weights are uploaded.

/// The sums of the rows of a matrix of signed bytes, as 32-bit integers: products with a zero point need no more of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowSums {
    /// Rows of the matrix.
    pub rows: u32,
    /// Bytes from one row to the next, all of which are added.
    pub stride: u32,
}

impl RowSums {
    pub(super) fn pack(&self, source: &[u8], row: usize, packed: &mut [u8]) {
        let stride = self.stride as usize;
        let bytes = source.get(row * stride..(row + 1) * stride).unwrap_or(&[]);
        let sum = bytes.iter().fold(0i32, |sum, byte| sum.wrapping_add(byte.cast_signed().into()));
        packed.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The factors by which sums of products become integers of the output: input scale · weight scale / output scale, each operation
/// rounded to 32 bits. The constant holds the scales of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multipliers {
    /// The number of scales.
    pub count: u32,
    /// Bits of the input's scale.
    pub input: u32,
    /// Bits of the output's scale.
    pub output: u32,
}

impl Multipliers {
    /// The factor of a weight's scale.
    #[must_use]
    pub fn factor(&self, scale: f32) -> f32 {
        f32::from_bits(self.input) * scale / f32::from_bits(self.output)
    }

    pub(super) fn pack(&self, source: &[u8], index: usize, packed: &mut [u8]) {
        let scale = source.get(index * 4..).and_then(|bytes| bytes.first_chunk::<4>()).copied().unwrap_or_default();
        packed.copy_from_slice(&self.factor(f32::from_le_bytes(scale)).to_le_bytes());
    }
}

/// A matrix of 32-bit numbers, column by column: kernels load the scales of neighbouring rows together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transposed {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
    /// Numbers from one column of the layout to the next, at least one per row.
    pub stride: u32,
}

impl Transposed {
    /// Bytes of a column in the layout.
    #[must_use]
    pub fn column_bytes(&self) -> u64 {
        u64::from(self.stride) * 4
    }

    pub(super) fn pack(&self, source: &[u8], column: usize, packed: &mut [u8]) {
        packed.fill(0);
        for (row, to) in packed.chunks_exact_mut(4).take(self.rows as usize).enumerate() {
            let at = (row * self.columns as usize + column) * 4;
            to.copy_from_slice(source.get(at..at + 4).unwrap_or(&[0; 4]));
        }
    }
}

/// A matrix of bytes, whose columns kernels read as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteMatrix {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix.
    pub columns: u32,
}

impl ByteMatrix {
    /// Bytes of the columns, in whole words.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (u64::from(self.rows) * u64::from(self.columns)).next_multiple_of(4)
    }

    /// The elements of the matrix, row by row, each with its row and column.
    fn elements<'a>(&self, source: &'a [u8]) -> impl Iterator<Item = (usize, usize, u8)> + use<'a> {
        let columns = (self.columns as usize).max(1);
        source.iter().enumerate().map(move |(at, &byte)| (at / columns, at % columns, byte))
    }

    pub(super) fn pack_columns(&self, source: &[u8], packed: &mut [u8]) {
        packed.fill(0);
        for (row, column, byte) in self.elements(source) {
            if let Some(to) = packed.get_mut(column * self.rows as usize + row) {
                *to = byte;
            }
        }
    }

    pub(super) fn pack_sums(&self, source: &[u8], packed: &mut [u8]) {
        let mut sums = vec![0i32; packed.len() / 4];
        for (_, column, byte) in self.elements(source) {
            if let Some(sum) = sums.get_mut(column) {
                *sum = sum.wrapping_add(byte.cast_signed().into());
            }
        }
        packed.chunks_exact_mut(4).zip(sums).for_each(|(to, sum)| to.copy_from_slice(&sum.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing;
    use super::*;

    fn packed(packing: Packing, source: &[u8]) -> Vec<u8> {
        let mut all = vec![1; usize::try_from(packing.bytes()).unwrap()];
        assert_eq!(packing.tiles_of(source) * 4, all.len());
        all.chunks_exact_mut(4).enumerate().for_each(|(tile, to)| packing.pack(source, tile, to));
        all
    }

    #[test]
    fn rows_of_signed_bytes_are_added() {
        let sums = packed(Packing::RowSums(RowSums { rows: 2, stride: 3 }), &[1, 255, 128, 127, 127, 127]);
        assert_eq!(sums, [(-128i32).to_le_bytes(), 381i32.to_le_bytes()].concat());
    }

    #[test]
    fn columns_of_bytes_are_rows_and_have_sums() {
        let (matrix, source) = (ByteMatrix { rows: 3, columns: 2 }, [1, 255, 2, 254, 3, 128]);
        let packed = |packing: Packing| {
            let mut all = vec![9; usize::try_from(packing.bytes()).unwrap()];
            assert_eq!(packing.tiles_of(&source), 1);
            packing.pack(&source, 0, &mut all);
            all
        };
        assert_eq!(packed(Packing::ByteColumns(matrix)), [1, 2, 3, 255, 254, 128, 0, 0]);
        assert_eq!(packed(Packing::ColumnSums(matrix)), [6i32.to_le_bytes(), (-131i32).to_le_bytes()].concat());
    }

    #[test]
    fn columns_are_padded_to_their_stride() {
        let packing = Packing::Transposed(Transposed { rows: 2, columns: 3, stride: 4 });
        let source: Vec<u8> = (1..=6u32).flat_map(u32::to_le_bytes).collect();
        let mut all = vec![1; usize::try_from(packing.bytes()).unwrap()];
        assert_eq!(packing.tiles_of(&source), 3);
        all.chunks_exact_mut(16).enumerate().for_each(|(column, to)| packing.pack(&source, column, to));
        let words: Vec<u32> = all.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [1, 4, 0, 0, 2, 5, 0, 0, 3, 6, 0, 0]);
    }

    #[test]
    fn multipliers_round_after_each_operation() {
        let (input, output, scale) = (0.1f32, 0.3f32, 0.7f32);
        let packing = Multipliers { count: 1, input: input.to_bits(), output: output.to_bits() };
        let expected = (input * scale) / output;
        assert_eq!(packed(Packing::Multipliers(packing), &scale.to_le_bytes()), expected.to_le_bytes());
        assert_ne!(expected.to_bits(), (input * (scale / output)).to_bits());
    }
}
