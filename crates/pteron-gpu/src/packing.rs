//! Layouts of constants on the GPU other than the file's. Kernels in which neighbouring threads compute neighbouring rows of a
//! matrix load whole cache lines from them: a file's rows are far apart.

mod convolution;
mod int8;

pub use convolution::{ConvolutionTiles, SLICE as CONVOLUTION_SLICE, WeightLayout};
pub use int8::{ByteMatrix, Multipliers, RowSums, Transposed};

/// Rows per tile.
pub const TILE_ROWS: u32 = 16;
/// Bytes of one load of a thread.
pub const UNIT: usize = 16;
/// Units per block of scales: a thread loads those of four.
const SCALE_UNITS: u32 = 8;

/// The layout in which a constant is uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// A matrix of bytes in tiles of rows.
    Rows(RowTiles),
    /// A matrix of floats as 16-bit floats, in tiles of rows.
    Halves(RowTiles),
    /// The scales of such a matrix.
    Scales(ScaleTiles),
    /// The weights of a convolution in tiles of output channels.
    Convolution(ConvolutionTiles),
    /// The sums of the rows of a matrix of signed bytes.
    RowSums(RowSums),
    /// A matrix of bytes, column by column.
    ByteColumns(ByteMatrix),
    /// The sums of the columns of a matrix of signed bytes.
    ColumnSums(ByteMatrix),
    /// A matrix of 32-bit numbers, column by column.
    Transposed(Transposed),
    /// The factors that requantise sums of products, from the scales of weights.
    Multipliers(Multipliers),
}

impl Packing {
    /// Bytes on the GPU.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Rows(tiles) | Self::Halves(tiles) => u64::from(tiles.tiles()) * tiles.tile_bytes(),
            Self::Scales(tiles) => u64::from(tiles.tiles()) * tiles.tile_bytes(),
            Self::Convolution(tiles) => tiles.tiles().saturating_mul(tiles.tile_bytes()),
            Self::RowSums(sums) => u64::from(sums.rows) * 4,
            Self::Multipliers(multipliers) => u64::from(multipliers.count) * 4,
            Self::Transposed(matrix) => u64::from(matrix.columns) * matrix.column_bytes(),
            Self::ByteColumns(_) | Self::ColumnSums(_) => self.tile_bytes(),
        }
    }

    /// Whether 16-bit floats stay as they are and others become 16-bit floats.
    #[must_use]
    pub fn is_half(&self) -> bool {
        matches!(self, Self::Halves(_))
    }

    /// Bytes per tile.
    #[must_use]
    pub fn tile_bytes(&self) -> u64 {
        match self {
            Self::Rows(tiles) | Self::Halves(tiles) => tiles.tile_bytes(),
            Self::Scales(tiles) => tiles.tile_bytes(),
            Self::Convolution(tiles) => tiles.tile_bytes(),
            Self::RowSums(_) | Self::Multipliers(_) => 4,
            Self::Transposed(matrix) => matrix.column_bytes(),
            Self::ByteColumns(matrix) => matrix.bytes(),
            Self::ColumnSums(matrix) => u64::from(matrix.columns) * 4,
        }
    }

    /// Bytes of the constant that are packed together; `None` if all of them are.
    #[must_use]
    pub fn unit(&self) -> Option<u64> {
        match self {
            Self::Rows(tiles) | Self::Halves(tiles) => Some(tiles.source_bytes().max(1)),
            Self::Scales(_) | Self::Convolution(_) => None,
            Self::Transposed(_) | Self::ByteColumns(_) | Self::ColumnSums(_) => None,
            Self::RowSums(sums) => Some(u64::from(sums.stride).max(1)),
            Self::Multipliers(_) => Some(4),
        }
    }

    /// Tiles of a piece of the constant: whole units, or the end of it.
    #[must_use]
    pub fn tiles_of(&self, piece: &[u8]) -> usize {
        match self {
            Self::Rows(tiles) | Self::Halves(tiles) => {
                usize::try_from(tiles.source_bytes().max(1)).map_or(0, |unit| piece.len().div_ceil(unit))
            }
            Self::Scales(tiles) => tiles.tiles() as usize,
            Self::Convolution(tiles) => usize::try_from(tiles.tiles()).unwrap_or(usize::MAX),
            Self::RowSums(sums) => piece.len() / (sums.stride as usize).max(1),
            Self::Multipliers(_) => piece.len() / 4,
            Self::Transposed(matrix) => matrix.columns as usize,
            Self::ByteColumns(_) | Self::ColumnSums(_) => 1,
        }
    }

    /// Packs one tile of a piece.
    pub fn pack(&self, piece: &[u8], tile: usize, packed: &mut [u8]) {
        match self {
            Self::Rows(tiles) | Self::Halves(tiles) => tiles.pack(piece, tile, packed),
            Self::Scales(tiles) => tiles.pack(piece, tile, packed),
            Self::Convolution(tiles) => tiles.pack(piece, tile, packed),
            Self::RowSums(sums) => sums.pack(piece, tile, packed),
            Self::Multipliers(multipliers) => multipliers.pack(piece, tile, packed),
            Self::Transposed(matrix) => matrix.pack(piece, tile, packed),
            Self::ByteColumns(matrix) => matrix.pack_columns(piece, packed),
            Self::ColumnSums(matrix) => matrix.pack_sums(piece, packed),
        }
    }
}

/// The layout of a matrix of bytes in tiles of [`TILE_ROWS`] rows: a tile has its rows' first units of bytes, one row after
/// another, then their second, and so on. The last tile is padded with zeros, and so are rows, to whole multiples of several units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowTiles {
    /// Rows of the matrix.
    pub rows: u32,
    /// Bytes from one row of the constant to the next.
    pub stride: u32,
    /// Bytes of each row that are kept, a multiple of `unit`.
    pub kept: u32,
    /// Bytes of a row that stay together.
    pub unit: u32,
    /// Rows have multiples of so many units.
    pub multiple: u32,
}

impl RowTiles {
    /// Tiles of the matrix.
    #[must_use]
    pub fn tiles(&self) -> u32 {
        self.rows.div_ceil(TILE_ROWS)
    }

    /// Units per row in the layout.
    #[must_use]
    pub fn units(&self) -> u64 {
        u64::from(self.kept / self.unit.max(1)).next_multiple_of(self.multiple.max(1).into())
    }

    /// Bytes per tile.
    #[must_use]
    pub fn tile_bytes(&self) -> u64 {
        self.units() * u64::from(TILE_ROWS) * u64::from(self.unit)
    }

    /// Bytes of the constant per tile: rows are packed in multiples of this, but for the last.
    #[must_use]
    pub fn source_bytes(&self) -> u64 {
        u64::from(self.stride) * u64::from(TILE_ROWS)
    }

    /// Packs one tile; the last one may have fewer rows.
    fn pack(&self, source: &[u8], tile: usize, packed: &mut [u8]) {
        match self.unit {
            16 => self.pack_units::<16>(source, tile, packed),
            32 => self.pack_units::<32>(source, tile, packed),
            _ => debug_assert!(false, "units have 16 or 32 bytes"),
        }
    }

    fn pack_units<const BYTES: usize>(&self, source: &[u8], tile: usize, packed: &mut [u8]) {
        let (stride, kept) = (self.stride as usize, self.kept as usize);
        let rows = stride * TILE_ROWS as usize;
        let Some(source) = source.get(tile * rows..).filter(|_| stride > 0) else { return };
        let whole = source.len() >= rows;
        for (unit, column) in packed.chunks_exact_mut(BYTES * TILE_ROWS as usize).enumerate() {
            if whole && (unit + 1) * BYTES <= kept {
                pack_column::<BYTES>(&source[unit * BYTES..], stride, column);
            } else {
                pack_edge::<BYTES>(source, (stride, kept), unit, column);
            }
        }
    }
}

/// Packs one unit of all rows of a tile.
fn pack_column<const BYTES: usize>(rows: &[u8], stride: usize, column: &mut [u8]) {
    for (row, unit) in column.chunks_exact_mut(BYTES).enumerate() {
        if let Some(bytes) = rows.get(row * stride..).and_then(|row| row.first_chunk::<BYTES>()) {
            unit.copy_from_slice(bytes);
        }
    }
}

/// As [`pack_column`], where rows or units may be missing.
fn pack_edge<const BYTES: usize>(rows: &[u8], (stride, kept): (usize, usize), unit: usize, column: &mut [u8]) {
    column.fill(0);
    for (row, packed) in rows.chunks_exact(stride).zip(column.chunks_exact_mut(BYTES)) {
        if let Some(bytes) = row[..kept.min(stride)].get(unit * BYTES..(unit + 1) * BYTES) {
            packed.copy_from_slice(bytes);
        }
    }
}

/// The layout of 32-bit scales per group of columns of a matrix in [`RowTiles`]. A
/// tile has the scales of [`TILE_ROWS`] rows: those of eight units, then of the next eight. Scales of a row stay together in fours:
/// those of even units come first, then those of odd units. Where groups have pairs of units, both have the same scale, which
/// is stored once. Missing ones are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleTiles {
    /// Rows of the matrix.
    pub rows: u32,
    /// Scales from one row of the constant to the next.
    pub stride: u32,
    /// Whether a row of the constant has the scales of one row of the matrix; else it has those of one group of all rows.
    pub by_row: bool,
    /// Units of a row of the matrix.
    pub units: u32,
    /// Units that share a scale.
    pub units_per_scale: u32,
}

impl ScaleTiles {
    /// Tiles of the matrix.
    #[must_use]
    pub fn tiles(&self) -> u32 {
        self.rows.div_ceil(TILE_ROWS)
    }

    /// Fours of scales per eight units of a tile: one per row, or two.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        if self.units_per_scale.is_multiple_of(2) { TILE_ROWS } else { 2 * TILE_ROWS }
    }

    /// Bytes per tile.
    #[must_use]
    pub fn tile_bytes(&self) -> u64 {
        u64::from(self.units.div_ceil(SCALE_UNITS)) * u64::from(self.lanes()) * UNIT as u64
    }

    /// Packs one tile.
    fn pack(&self, source: &[u8], tile: usize, packed: &mut [u8]) {
        let columns = self.lanes() / TILE_ROWS;
        let first = tile * TILE_ROWS as usize;
        let rows = (self.rows as usize).saturating_sub(first).min(TILE_ROWS as usize);
        for (index, fours) in (0..).zip(packed.chunks_exact_mut(UNIT * TILE_ROWS as usize)) {
            let unit = index / columns * SCALE_UNITS + index % columns;
            pack_scales([unit, unit + 2, unit + 4, unit + 6].map(|unit| self.scales(source, unit, first, rows)), fours);
        }
    }

    /// The scales of `rows` rows from `first` on for a unit; none past the last unit.
    fn scales(&self, source: &[u8], unit: u32, first: usize, rows: usize) -> RowScales {
        let mut all = [0; 4 * TILE_ROWS as usize];
        let (group, stride) = ((unit / self.units_per_scale.max(1)) as usize, self.stride as usize);
        if unit >= self.units {
            return all;
        }
        if self.by_row {
            for (row, scale) in all.chunks_exact_mut(4).take(rows).enumerate() {
                let at = ((first + row) * stride + group) * 4;
                scale.copy_from_slice(source.get(at..at + 4).unwrap_or(&[0; 4]));
            }
        } else if let Some(scales) = source.get((group * stride + first) * 4..).and_then(|scales| scales.get(..rows * 4)) {
            all[..rows * 4].copy_from_slice(scales);
        }
        all
    }
}

/// The scales of the rows of a tile; missing ones are 0.
type RowScales = [u8; 4 * TILE_ROWS as usize];

/// Packs the scales of four units so that those of a row are neighbours.
fn pack_scales(units: [RowScales; 4], fours: &mut [u8]) {
    for (column, four) in fours.chunks_exact_mut(UNIT).enumerate() {
        for (row, scale) in units.iter().zip(four.chunks_exact_mut(4)) {
            scale.copy_from_slice(&row[column * 4..column * 4 + 4]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(packing: Packing, source: &[u8]) -> Vec<u8> {
        let (tiles, tile) = (packing.tiles_of(source), usize::try_from(packing.tile_bytes()).unwrap());
        let mut packed = vec![1; tiles * tile];
        (0..tiles).for_each(|index| packing.pack(source, index, &mut packed[index * tile..][..tile]));
        packed
    }

    /// The layout by its definition, one byte at a time.
    fn packed_rows(layout: RowTiles, source: &[u8]) -> Vec<u8> {
        let [rows, stride, kept, bytes, multiple] =
            [layout.rows, layout.stride, layout.kept, layout.unit, layout.multiple].map(|value| value as usize);
        let units = (kept / bytes).next_multiple_of(multiple);
        let mut packed = vec![0; rows.div_ceil(16) * 16 * units * bytes];
        for row in 0..rows {
            for byte in 0..kept {
                let unit = (row / 16 * units + byte / bytes) * 16 + row % 16;
                packed[unit * bytes + byte % bytes] = source[row * stride + byte];
            }
        }
        packed
    }

    #[test]
    fn tiles_hold_units_of_neighbouring_rows() {
        let of_16 = [(16, 32, 32), (48, 64, 64), (17, 32, 16), (5, 48, 48), (40, 80, 48), (1, 16, 16)];
        let of_32 = [(16, 32, 32), (48, 96, 96), (17, 64, 32), (5, 320, 320)];
        let layouts = of_16.map(|layout| (layout, 16, 2)).into_iter().chain(of_32.map(|layout| (layout, 32, 8)));
        for ((rows, stride, kept), unit, multiple) in layouts {
            let layout = RowTiles { rows, stride, kept, unit, multiple };
            let source: Vec<u8> = (0..rows * stride).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            let expected = packed_rows(layout, &source);
            let packing = Packing::Rows(layout);
            assert_eq!(packing.bytes(), expected.len() as u64);
            assert_eq!(pack(packing, &source), expected, "{layout:?}");
            let unit = usize::try_from(packing.unit().unwrap()).unwrap();
            let pieces: Vec<u8> = source.chunks(unit).flat_map(|piece| pack(packing, piece)).collect();
            assert_eq!(pieces, expected, "{layout:?}, piece by piece");
        }
    }

    #[test]
    fn scales_of_four_unit_pairs_are_neighbours() {
        for (rows, stride, units, units_per_scale) in
            [(16, 16, 8, 1), (20, 24, 3, 1), (33, 36, 20, 2), (16, 16, 12, 4), (7, 8, 9, 3), (16, 16, 1, 2)]
        {
            let layout = ScaleTiles { rows, stride, by_row: false, units, units_per_scale };
            let groups = units.div_ceil(units_per_scale);
            let value = |group: u32, row: u32| f32::from(u16::try_from(group * 1000 + row + 1).unwrap());
            let source: Vec<u8> =
                (0..groups * stride).flat_map(|at| value(at / stride, at % stride).to_le_bytes()).collect();
            let packed = pack(Packing::Scales(layout), &source);
            assert_eq!(packed.len() as u64, Packing::Scales(layout).bytes());
            let by_row: Vec<u8> = (0..rows * groups).flat_map(|at| value(at % groups, at / groups).to_le_bytes()).collect();
            let layout = ScaleTiles { stride: groups, by_row: true, ..layout };
            assert_eq!(pack(Packing::Scales(layout), &by_row), packed, "{layout:?}: row by row");
            let lanes = if units_per_scale % 2 == 0 { 16 } else { 32 };
            let blocks = units.div_ceil(8);
            let mut found = 0;
            for row in 0..rows {
                for unit in 0..units {
                    let lane = unit % 2 * (lanes - 16) + row % 16;
                    let at = ((row / 16 * blocks + unit / 8) * lanes + lane) * 4 + unit % 8 / 2;
                    let bytes = packed[at as usize * 4..][..4].try_into().unwrap();
                    assert_eq!(f32::from_le_bytes(bytes), value(unit / units_per_scale, row), "{layout:?}");
                    found += u32::from(lanes == 32 || unit % 2 == 0);
                }
            }
            let zeros = packed.chunks_exact(4).filter(|scale| scale.iter().all(|&byte| byte == 0)).count();
            assert_eq!(zeros + found as usize, packed.len() / 4, "{layout:?}: padding is 0");
        }
    }

    #[test]
    fn degenerate_layouts_and_short_constants_do_not_panic() {
        for (rows, stride, kept) in [(0, 16, 16), (16, 0, 0), (16, 16, 0)] {
            let packing = Packing::Rows(RowTiles { rows, stride, kept, unit: 16, multiple: 2 });
            assert_eq!(packing.bytes(), 0);
            packing.pack(&[1; 64], 3, &mut []);
        }
        let scales = Packing::Scales(ScaleTiles { rows: 40, stride: 40, by_row: false, units: 9, units_per_scale: 0 });
        let mut tile = vec![1; usize::try_from(scales.tile_bytes()).unwrap()];
        scales.pack(&[1; 64], 2, &mut tile);
        assert!(tile.iter().all(|&byte| byte == 0));
    }
}
