//! Lookup by name in an immutable list.

use std::sync::OnceLock;

/// Positions of entries sorted by name, built at the first lookup.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex(OnceLock<Vec<usize>>);

impl NameIndex {
    /// Returns the first entry with a name. `entries` must be the same list each time.
    pub(crate) fn find<'a, T>(&self, entries: &'a [T], wanted: &str, name: impl Fn(&T) -> &str) -> Option<&'a T> {
        let sorted = self.0.get_or_init(|| {
            let mut sorted: Vec<usize> = (0..entries.len()).collect();
            sorted.sort_by_key(|&at| name(&entries[at]));
            sorted
        });
        let first = sorted.partition_point(|&at| entries.get(at).is_some_and(|entry| name(entry) < wanted));
        entries.get(*sorted.get(first)?).filter(|entry| name(entry) == wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_first_entry_of_a_name_is_found() {
        let (index, entries) = (NameIndex::default(), [("b", 0), ("a", 1), ("b", 2), ("", 3), ("c", 4)]);
        let find = |wanted| index.find(&entries, wanted, |entry| entry.0).map(|entry| entry.1);
        assert_eq!(["a", "b", "c", "", "d", "aa"].map(find), [Some(1), Some(0), Some(4), Some(3), None, None]);
        assert_eq!(NameIndex::default().find(&[] as &[&str], "a", |entry| entry), None);
    }

    #[test]
    fn many_lookups_among_many_names_look_at_few_of_them() {
        let names: Vec<String> = (0..10_000).map(|at: u32| at.wrapping_mul(2_654_435_761).to_string()).collect();
        let (index, looks) = (NameIndex::default(), Cell::new(0u64));
        for wanted in &names {
            let found = index.find(&names, wanted, |entry| {
                looks.set(looks.get() + 1);
                entry
            });
            assert_eq!(found, Some(wanted));
        }
        // Looking through all for each would be a hundred million.
        assert!(looks.get() < 1_000_000, "{} looks", looks.get());
    }
}
