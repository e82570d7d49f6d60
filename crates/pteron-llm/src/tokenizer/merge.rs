//! Byte pair merging: merges neighbours, the best pair first, until no pair is a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A symbol before merging: where it ends in the text, and whether it stays as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) end: usize,
    pub(super) frozen: bool,
}

/// A symbol while merging: a range of the text between its living neighbours. One that was merged away is empty.
struct Node {
    start: usize,
    end: usize,
    previous: Option<usize>,
    next: Option<usize>,
    frozen: bool,
}

impl Node {
    fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Merges neighbours and returns the remaining ranges. The pair with the smallest rank is merged first; of equal ranks the
/// leftmost. `rank` is called with the range of the merged pair and the offset where its two halves meet; it returns `None` if the
/// pair is no token.
///
/// Runs in O(n log n) in the number of symbols, for any text.
pub(super) fn merge<R: Ord>(
    symbols: impl IntoIterator<Item = Symbol>,
    mut rank: impl FnMut(Range<usize>, usize) -> Option<R>,
) -> Vec<Range<usize>> {
    let mut nodes = link(symbols);
    let mut heap = BinaryHeap::new();
    let mut offer = |heap: &mut BinaryHeap<_>, nodes: &[Node], left: Option<usize>, right: Option<usize>| {
        let (Some(left), Some(right)) = (left, right) else { return };
        let (Some(a), Some(b)) = (nodes.get(left), nodes.get(right)) else { return };
        if !a.frozen
            && !b.frozen
            && let Some(rank) = rank(a.start..b.end, b.start)
        {
            heap.push(Reverse((rank, left, right, a.len() + b.len())));
        }
    };
    for right in 1..nodes.len() {
        offer(&mut heap, &nodes, Some(right - 1), Some(right));
    }
    while let Some(Reverse((_, left, right, size))) = heap.pop() {
        // Both halves must still be what they were when the pair was offered.
        let (a, b) = (&nodes[left], &nodes[right]);
        if a.len() == 0 || b.len() == 0 || a.len() + b.len() != size {
            continue;
        }
        let (end, next) = (b.end, b.next);
        nodes[right].start = end;
        nodes[left].end = end;
        nodes[left].next = next;
        if let Some(next) = next {
            nodes[next].previous = Some(left);
        }
        offer(&mut heap, &nodes, nodes[left].previous, Some(left));
        offer(&mut heap, &nodes, Some(left), next);
    }
    nodes.iter().filter(|node| node.len() > 0).map(|node| node.start..node.end).collect()
}

fn link(symbols: impl IntoIterator<Item = Symbol>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for Symbol { end, frozen } in symbols {
        let start = nodes.last().map_or(0, |node| node.end);
        let index = nodes.len();
        if let Some(last) = nodes.last_mut() {
            last.next = Some(index);
        }
        nodes.push(Node { start, end, previous: index.checked_sub(1), next: None, frozen });
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(text: &str, ranked: &[&str]) -> Vec<String> {
        let symbols = (1..=text.len()).map(|end| Symbol { end, frozen: false });
        let ranges = merge(symbols, |range, _| ranked.iter().position(|token| *token == &text[range.clone()]));
        ranges.into_iter().map(|range| text[range].to_owned()).collect()
    }

    #[test]
    fn the_smallest_rank_is_merged_first_and_the_leftmost_of_equals() {
        assert_eq!(merged("abab", &["ab", "abab"]), ["abab"]);
        assert_eq!(merged("aaa", &["aa"]), ["aa", "a"]);
        assert_eq!(merged("abc", &["bc", "ab"]), ["a", "bc"]);
        assert_eq!(merged("abc", &["ab", "bc"]), ["ab", "c"]);
        assert_eq!(merged("abcd", &["ab", "cd", "abc", "abcd"]), ["abcd"]);
        assert_eq!(merged("", &["ab"]), Vec::<String>::new());
    }

    #[test]
    fn frozen_symbols_stay_alone() {
        let symbols = [(1, false), (2, true), (3, false)].map(|(end, frozen)| Symbol { end, frozen });
        assert_eq!(merge(symbols, |_, _| Some(0)), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn a_long_run_takes_no_quadratic_time() {
        let ranges = merge((1..=200_000).map(|end| Symbol { end, frozen: false }), |range, _| {
            range.len().is_power_of_two().then_some(range.len())
        });
        assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), 200_000);
        assert!(ranges.len() < 32, "{}", ranges.len());
    }
}
