//! Tiles: which rows of a call have which adapter.

use std::collections::BTreeMap;

/// Rows of a tile.
pub const TILE_ROWS: u32 = 8;
/// Words of a tile: slot, vectors of its rank, rows.
pub const TILE_WORDS: u32 = 2 + TILE_ROWS;
/// The slot or the row of nothing.
const NONE: i32 = -1;

/// The most tiles of a call of `rows` rows that may have adapters in `slots` slots. Each slot, and rows without one, may have one tile that
/// is not full.
#[must_use]
pub fn max_tiles(rows: u32, slots: u32) -> u32 {
    let partial = slots.saturating_add(1).min(rows);
    (rows / TILE_ROWS).saturating_add(partial)
}

/// Divides the rows of a call into tiles of rows of one adapter: for each row the slot of its adapter, or None, and for each slot its rank.
/// There are no tiles if no row has an adapter; otherwise they cover every row. Rows of a slot need not be adjacent.
///
/// Returns `None` for a slot without a rank.
#[must_use]
pub fn tiles(slots: &[Option<u32>], ranks: &[u32]) -> Option<Vec<i32>> {
    if slots.iter().all(Option::is_none) {
        return Some(Vec::new());
    }
    let mut by_slot: BTreeMap<Option<u32>, Vec<i32>> = BTreeMap::new();
    for (row, &slot) in (0i32..).zip(slots) {
        by_slot.entry(slot).or_default().push(row);
    }
    let mut words = Vec::new();
    for (slot, rows) in by_slot {
        let (slot, rank) = match slot {
            None => (NONE, 0),
            Some(slot) => (i32::try_from(slot).ok()?, ranks.get(usize::try_from(slot).ok()?)?.div_ceil(4)),
        };
        let rank = i32::try_from(rank).ok()?;
        for tile in rows.chunks(TILE_ROWS as usize) {
            words.extend([slot, rank]);
            words.extend(tile);
            words.resize(words.len().next_multiple_of(TILE_WORDS as usize), NONE);
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_adapter_and_all_are_covered() {
        assert_eq!(tiles(&[None, None], &[]), Some(vec![]));
        assert_eq!(tiles(&[], &[]), Some(vec![]));
        assert_eq!(tiles(&[Some(1)], &[4]), None);
        let slots = [Some(1), None, Some(0), Some(1), None];
        let words = tiles(&slots, &[6, 16]).unwrap();
        let n = NONE;
        let expected = [[n, 0, 1, 4, n, n, n, n, n, n], [0, 2, 2, n, n, n, n, n, n, n], [1, 4, 0, 3, n, n, n, n, n, n]];
        assert_eq!(words, expected.as_flattened());
    }

    #[test]
    fn calls_have_no_more_tiles_than_the_most() {
        for rows in 0..70u32 {
            for slots in 1..5u32 {
                for seed in 0..4u32 {
                    let slot = |row: u32| (row * (7 + seed) + row / 3) % (slots + 1);
                    let slots_of: Vec<_> = (0..rows).map(|row| slot(row).checked_sub(1)).collect();
                    let words = tiles(&slots_of, &vec![8; slots as usize]).unwrap();
                    let count = u32::try_from(words.len()).unwrap() / TILE_WORDS;
                    assert!(count <= max_tiles(rows, slots), "{count} tiles of {rows} rows in {slots} slots");
                }
            }
        }
    }
}
