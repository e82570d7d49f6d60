//! Statistics of several runs.

use serde::Serialize;

/// Median and spread of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// The median distance from the median, which outliers do not change.
    pub(super) median_deviation: f64,
}

impl Summary {
    /// Returns `None` without values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        let median = middle(&mut values)?;
        let (min, max) = (*values.first()?, *values.last()?);
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        Some(Self { median, min, max, median_deviation: middle(&mut deviations)? })
    }
}

/// Sorts values and returns the median; of an even number, the mean of the middle two.
fn middle(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_change_the_median() {
        let summary = Summary::of([3.0, 1.0, 90.0, 2.0, 4.0]).unwrap();
        assert_eq!(summary, Summary { median: 3.0, min: 1.0, max: 90.0, median_deviation: 1.0 });
    }

    #[test]
    fn the_median_of_an_even_number_is_a_mean() {
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of([2.5]).unwrap(), Summary { median: 2.5, min: 2.5, max: 2.5, median_deviation: 0.0 });
        assert_eq!(Summary::of([]), None);
    }
}
