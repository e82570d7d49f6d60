//! The largest of many numbers.

/// Returns positions and values of the `k` largest numbers, the largest first; of equal ones the first. NaN is never among them.
#[must_use]
pub fn top_k(values: &[f32], k: usize) -> Vec<(usize, f32)> {
    let mut all: Vec<(usize, f32)> = values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan()).collect();
    let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if k < all.len() && k > 0 {
        all.select_nth_unstable_by(k - 1, order);
    }
    all.truncate(k);
    all.sort_unstable_by(order);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first_and_nan_never() {
        let values = [0.5, f32::NAN, 2.0, -1.0, 2.0, f32::NEG_INFINITY];
        assert_eq!(top_k(&values, 3), [(2, 2.0), (4, 2.0), (0, 0.5)]);
        assert_eq!(top_k(&values, 99).len(), 5);
        assert_eq!(top_k(&values, 0), []);
        assert_eq!(top_k(&[], 4), []);
    }
}
