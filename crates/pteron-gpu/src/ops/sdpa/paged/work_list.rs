//! The work list of a call over paged caches: which rows belong to which sequence, and where their keys and values are. All attention
//! calls of a graph share it; it is uploaded once per call.

/// Positions per block.
pub const BLOCK_POSITIONS: u32 = 32;

/// Words before the tiles.
pub(super) const HEADER: usize = 6;
pub(super) const TILE_WORDS: usize = 5;
pub(super) const SLOT_WORDS: usize = 2;

/// Rows of one sequence in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRows {
    /// The first of its rows.
    pub first_row: u32,
    /// The number of its rows.
    pub row_count: u32,
    /// The position of the first one.
    pub position: u32,
    /// The index of its first block in the block tables.
    pub block_table_offset: u32,
}

/// How attention calls divide rows into tiles, and when they split the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedTiling {
    /// KV heads, and query heads per KV head.
    pub(super) kv_heads: u32,
    pub(super) group: u32,
    /// Query rows of a tile of a sequence with few rows, and of one with many.
    pub(super) few_rows: u32,
    pub(super) many_rows: u32,
    pub(super) split: super::super::selection::SplitPolicy,
    /// When rows of sequences with few rows are tiles of their own, if ever.
    pub(super) one_row: Option<OneRowPolicy>,
    /// Blocks of each pool, and the most positions of a sequence.
    pub(super) blocks: u32,
    pub(super) positions: u32,
}

/// When each query row is a tile: more workgroups share the work, and each key is read once per row from the GPU's own cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OneRowPolicy {
    /// The longest context.
    pub(super) longest: u32,
    /// The most such tiles of all KV heads: with more, tiles of several rows fill the GPU as well.
    pub(super) most_groups: u32,
}

impl OneRowPolicy {
    /// Whether `tiles` tiles per KV head are few enough, and a context short enough.
    fn takes(self, kv_heads: u32, tiles: usize, context: u32) -> bool {
        context <= self.longest && kv_heads.saturating_mul(word(tiles)) <= self.most_groups
    }
}

/// Sequences with at most this many tiles of few rows are computed in such tiles.
const MAX_FEW_TILES: u32 = 4;

/// The most tiles of one row in a work list.
pub(super) const MAX_ONE_ROW_TILES: u32 = 1024;

impl PagedTiling {
    /// Blocks of each pool.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The most positions of a sequence.
    #[must_use]
    pub fn positions(&self) -> u32 {
        self.positions
    }

    /// The most words of a work list.
    #[must_use]
    pub fn max_words(rows: u32, sequences: u32, group: u32, table_blocks: u32) -> u64 {
        let several = u64::from(sequences) + u64::from(rows) * u64::from(group.div_ceil(super::FEWEST_ROWS));
        let single = (u64::from(rows) * u64::from(group)).min(MAX_ONE_ROW_TILES.into());
        let tiles = several + single;
        HEADER as u64 + tiles * TILE_WORDS as u64 + u64::from(rows) * SLOT_WORDS as u64 + u64::from(table_blocks)
    }

    /// Builds the work list of a call of `rows` rows.
    ///
    /// # Errors
    /// Sequences that are not adjacent rows in order, positions past the last, and block tables that are too short or name blocks that
    /// there are not.
    pub fn work_list(&self, rows: u32, sequences: &[SequenceRows], block_tables: &[u32]) -> Result<Vec<i32>, String> {
        self.check(rows, sequences, block_tables)?;
        let is_few = |own: &SequenceRows| own.row_count * self.group <= self.few_rows * MAX_FEW_TILES;
        let (few, many): (Vec<&SequenceRows>, Vec<&SequenceRows>) =
            sequences.iter().filter(|own| own.row_count > 0).partition(|own| is_few(own));
        let tiles = |list: &[&SequenceRows], tile: u32| -> usize {
            list.iter().map(|own| (own.row_count * self.group).div_ceil(tile) as usize).sum()
        };
        let context = few.iter().map(|own| own.position + own.row_count).max().unwrap_or(0);
        let is_one = self.one_row.is_some_and(|policy| policy.takes(self.kv_heads, tiles(&few, 1), context));
        let few_rows = if is_one { 1 } else { self.few_rows };
        let counts = [tiles(&few, few_rows), tiles(&many, self.many_rows)];
        let groups = self.kv_heads.saturating_mul(word(counts[0]));
        let (splits, split_keys) = if is_one { (1, context) } else { self.split.split(groups, context) };
        // Sequences of few rows append their own keys and values; otherwise a dispatch before attention does it for all.
        let slot_rows = if many.is_empty() { 0 } else { rows as usize };
        let slots = HEADER + TILE_WORDS * (counts[0] + counts[1]);
        let tables = slots + SLOT_WORDS * slot_rows;
        let mut words = Vec::with_capacity(tables + block_tables.len());
        let slots_word = if slot_rows > 0 { word(slots) } else { 0 };
        words.extend([word(counts[0]), word(counts[1]), splits, split_keys, few_rows, slots_word]);
        for (list, tile) in [(&few, few_rows), (&many, self.many_rows)] {
            for own in list {
                let (first, end) = (own.first_row * self.group, (own.first_row + own.row_count) * self.group);
                for row in (first..end).step_by(tile as usize) {
                    let table = word(tables) + own.block_table_offset;
                    words.extend([row, end, own.first_row, own.position, table]);
                }
            }
        }
        if slot_rows > 0 {
            for own in sequences {
                for position in own.position..own.position + own.row_count {
                    let block = block_tables[(own.block_table_offset + position / BLOCK_POSITIONS) as usize];
                    words.extend([block * BLOCK_POSITIONS + position % BLOCK_POSITIONS, position]);
                }
            }
        }
        words.extend(block_tables);
        Ok(words.into_iter().map(u32::cast_signed).collect())
    }

    fn check(&self, rows: u32, sequences: &[SequenceRows], block_tables: &[u32]) -> Result<(), String> {
        let mut next = 0u64;
        for (index, own) in sequences.iter().enumerate() {
            if u64::from(own.first_row) != next {
                return Err(format!("sequence {index} begins at row {}, expected {next}", own.first_row));
            }
            next += u64::from(own.row_count);
            let end = u64::from(own.position) + u64::from(own.row_count);
            if end > self.positions.into() {
                return Err(format!("sequence {index} ends at position {end}, but there are {}", self.positions));
            }
            let blocks = end.div_ceil(BLOCK_POSITIONS.into());
            if u64::from(own.block_table_offset) + blocks > block_tables.len() as u64 {
                return Err(format!("sequence {index} needs {blocks} blocks, more than its block table has"));
            }
        }
        if next != u64::from(rows) {
            return Err(format!("sequences have {next} rows, but the call {rows}"));
        }
        match block_tables.iter().find(|&&block| block >= self.blocks) {
            Some(block) => Err(format!("a block table names block {block}, but the pools have {}", self.blocks)),
            None => Ok(()),
        }
    }
}

/// Numbers that the sizes of a call bound.
fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The first words of a work list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Tiles of sequences with few rows, and of sequences with many.
    pub(super) few: u32,
    pub(super) many: u32,
    pub(super) splits: u32,
    /// Query rows of a tile of a sequence with few rows.
    pub(super) few_rows: u32,
    /// Whether a dispatch appends keys and values before attention.
    pub(super) appends: bool,
}

impl Header {
    /// Reads the header; `None` where the list is too short for what it names.
    pub(super) fn read(words: &[i32]) -> Option<Self> {
        let words: Vec<u32> = words.iter().take(HEADER).map(|word| word.cast_unsigned()).collect();
        let &[few, many, splits, _, few_rows, slots] = words.as_slice() else { return None };
        (splits > 0).then_some(Self { few, many, splits, few_rows, appends: slots > 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::selection::SplitPolicy;
    use super::*;

    const TILING: PagedTiling = PagedTiling {
        kv_heads: 2,
        group: 2,
        few_rows: 4,
        many_rows: 32,
        split: SplitPolicy { full_grid: 16, min_keys: 128, unsplit_keys: 128 },
        one_row: None,
        blocks: 8,
        positions: 200,
    };

    fn rows(first_row: u32, row_count: u32, position: u32, block_table_offset: u32) -> SequenceRows {
        SequenceRows { first_row, row_count, position, block_table_offset }
    }

    #[test]
    fn sequences_of_few_rows_are_one_list_of_tiles() {
        let words = TILING.work_list(4, &[rows(0, 1, 40, 0), rows(1, 3, 0, 2)], &[7, 3, 5]).unwrap();
        assert_eq!(words[..HEADER], [3, 0, 1, 128, 4, 0]);
        assert_eq!(words[HEADER..][..15], [0, 2, 0, 40, 21, 2, 8, 1, 0, 23, 6, 8, 1, 0, 23]);
        assert_eq!(words[21..], [7, 3, 5]);
    }

    #[test]
    fn rows_of_few_short_sequences_are_tiles_of_their_own() {
        let tiling = PagedTiling { one_row: Some(OneRowPolicy { longest: 48, most_groups: 8 }), ..TILING };
        let words = tiling.work_list(2, &[rows(0, 1, 40, 0), rows(1, 1, 0, 2)], &[7, 3, 5]).unwrap();
        assert_eq!(words[..HEADER], [4, 0, 1, 41, 1, 0]);
        assert_eq!(words[HEADER..][..20], [0, 2, 0, 40, 26, 1, 2, 0, 40, 26, 2, 4, 1, 0, 28, 3, 4, 1, 0, 28]);
        // A row more, or a longer context, and a tile has several rows again.
        let tile_rows = |list: &[SequenceRows], count| tiling.work_list(count, list, &[7, 3, 5]).unwrap()[4];
        assert_eq!(tile_rows(&[rows(0, 2, 40, 0), rows(2, 1, 0, 2)], 3), 4);
        assert_eq!(tile_rows(&[rows(0, 1, 48, 0)], 1), 4);
        assert_eq!(tile_rows(&[rows(0, 1, 47, 0)], 1), 1);
    }

    #[test]
    fn with_many_rows_every_row_has_a_slot() {
        let words = TILING.work_list(41, &[rows(0, 1, 33, 0), rows(1, 40, 0, 2)], &[7, 3, 5, 1]).unwrap();
        assert_eq!(words[..HEADER], [1, 3, 1, 128, 4, 26]);
        assert_eq!(words[26..32], [3 * 32 + 1, 33, 5 * 32, 0, 5 * 32 + 1, 1]);
        assert_eq!(words[26 + 2 * 33..][..2], [32, 32]);
        assert_eq!(words.len(), 26 + 82 + 4);
    }

    #[test]
    fn long_contexts_are_split_until_the_grid_is_full() {
        let words = TILING.work_list(1, &[rows(0, 1, 150, 0)], &[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(words[2..4], [2, 128]);
    }

    #[test]
    fn lists_that_name_what_there_is_not_are_rejected() {
        for (list, tables, reason) in [
            (vec![rows(1, 1, 0, 0)], vec![0], "begins at row 1"),
            (vec![rows(0, 2, 0, 0)], vec![0], "have 2 rows"),
            (vec![rows(0, 1, 200, 0)], vec![0; 9], "ends at position 201"),
            (vec![rows(0, 1, 32, 0)], vec![0], "needs 2 blocks"),
            (vec![rows(0, 1, 0, 1)], vec![0], "needs 1 blocks"),
            (vec![rows(0, 1, 0, 0)], vec![8], "names block 8"),
        ] {
            let error = TILING.work_list(1, &list, &tables).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
