//! Agreement of the logits of two paths.

use std::collections::HashSet;

use serde::Serialize;

use super::stats::Summary;
use crate::failure::Failure;
use crate::units::count;

/// Percentage of positions at which the argmax must be the same.
const LEAST: u64 = 99;
/// A position is a near tie where the argmax leads by less than this, relative to the largest logit: rounding alone can change it.
const NEAR_TIE: f32 = 1e-3;

/// Agreement of two paths on the logits of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Agreement {
    /// The name of the program.
    pub(super) program: String,
    pub(super) positions: u64,
    /// Positions at which the argmax is the same, near ties included.
    pub(super) agreed: u64,
    /// The number of distinct argmax tokens of the exact path: agreement means less for a model that repeats itself.
    pub(super) distinct_tokens: usize,
    /// Near ties of the exact path, and those of them that disagree.
    pub(super) near_ties: u64,
    pub(super) disagreed_near_ties: u64,
    /// Lead of the exact path's argmax over the second token, relative to its largest logit: the median, and the greatest of any
    /// position that disagrees.
    pub(super) median_lead: Option<f64>,
    pub(super) widest_disagreed_lead: Option<f32>,
    pub(super) largest_absolute_error: f32,
    /// Relative to the exact path's largest logit at the same position.
    pub(super) largest_relative_error: f32,
    /// Optimisations that the exact path leaves out.
    pub(super) difference: &'static str,
}

impl Agreement {
    /// Returns an error where too few positions agree.
    pub(super) fn demand(&self) -> Result<(), Failure> {
        if self.positions > 0 && self.agreed * 100 >= self.positions * LEAST {
            return Ok(());
        }
        let Self { program, agreed, positions, .. } = self.clone();
        Err(Failure::Disagreement { program, agreed, positions, least: LEAST })
    }

    /// Describes the agreement in a few sentences.
    pub(super) fn sentences(&self) -> String {
        let per_cent = |share: f64| format!("{:.2} %", 100.0 * share);
        let lead = self.median_lead.map_or_else(|| "nothing".to_owned(), per_cent);
        let widest = match self.widest_disagreed_lead {
            Some(lead) => format!(" Where they disagree, it leads by at most {}.", per_cent(lead.into())),
            None => String::new(),
        };
        format!(
            "**{}**, checked: the argmax agrees with the exact path at {} of {} positions, {} different tokens; logits differ by at most {:.2e}, \
             {:.2e} of the largest. The argmax leads by {lead} of the largest logit in the median. Near ties (a lead below {}) count like \
             all others: there are {}, {} disagree.{widest} The exact path leaves out {}.\n\n",
            crate::terminal::clean(&self.program),
            count(self.agreed),
            count(self.positions),
            count(self.distinct_tokens as u64),
            self.largest_absolute_error,
            self.largest_relative_error,
            per_cent(NEAR_TIE.into()),
            count(self.near_ties),
            count(self.disagreed_near_ties),
            self.difference,
        )
    }
}

/// Counts compared positions.
#[derive(Debug, Default)]
pub(super) struct Tally {
    positions: u64,
    agreed: u64,
    tokens: HashSet<u32>,
    near_ties: u64,
    disagreed_near_ties: u64,
    leads: Vec<f64>,
    widest_disagreed_lead: Option<f32>,
    largest_absolute_error: f32,
    largest_relative_error: f32,
}

impl Tally {
    /// Compares the logits of a position. NaN agrees with nothing.
    pub(super) fn add(&mut self, fast: &[f32], exact: &[f32]) {
        let token = argmax(exact);
        let same = token.is_some() && argmax(fast) == token && fast.len() == exact.len();
        self.tokens.extend(token);
        let scale = exact.iter().fold(f32::MIN_POSITIVE, |largest, logit| largest.max(logit.abs()));
        self.positions += 1;
        self.agreed += u64::from(same);
        if let Some(lead) = lead(exact).map(|lead| lead / scale) {
            let near_tie = lead < NEAR_TIE;
            self.leads.push(lead.into());
            self.near_ties += u64::from(near_tie);
            self.disagreed_near_ties += u64::from(near_tie && !same);
            let widest = self.widest_disagreed_lead.map_or(lead, |widest| widest.max(lead));
            self.widest_disagreed_lead = if same { self.widest_disagreed_lead } else { Some(widest) };
        }
        let error =
            |(fast, exact): (&f32, &f32)| Some((fast - exact).abs()).filter(|e| e.is_finite()).unwrap_or(f32::INFINITY);
        let absolute = fast.iter().zip(exact).map(error).fold(0.0, f32::max);
        self.largest_absolute_error = self.largest_absolute_error.max(absolute);
        self.largest_relative_error = self.largest_relative_error.max(absolute / scale);
    }

    pub(super) fn finish(self, program: &str, difference: &'static str) -> Agreement {
        Agreement {
            program: program.to_owned(),
            positions: self.positions,
            agreed: self.agreed,
            distinct_tokens: self.tokens.len(),
            near_ties: self.near_ties,
            disagreed_near_ties: self.disagreed_near_ties,
            median_lead: Summary::of(self.leads).map(|leads| leads.median),
            widest_disagreed_lead: self.widest_disagreed_lead,
            largest_absolute_error: self.largest_absolute_error,
            largest_relative_error: self.largest_relative_error,
            difference,
        }
    }
}

/// The token with the greatest logit; `None` where one is NaN or there is none.
pub(super) fn argmax(logits: &[f32]) -> Option<u32> {
    if logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let (first, _) = logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    u32::try_from(first).ok()
}

/// The lead of the greatest logit over the second; `None` where there is no second, or one is NaN.
fn lead(logits: &[f32]) -> Option<f32> {
    let [mut first, mut second] = [f32::NEG_INFINITY; 2];
    for &logit in logits {
        if logit.is_nan() {
            return None;
        }
        if logit > first {
            (first, second) = (logit, first);
        } else {
            second = second.max(logit);
        }
    }
    Some(first - second).filter(|lead| lead.is_finite())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn agreement(pairs: &[(&[f32], &[f32])]) -> Agreement {
        let mut tally = Tally::default();
        pairs.iter().for_each(|(fast, exact)| tally.add(fast, exact));
        tally.finish("bird & co.pte", "all that is fast")
    }

    #[test]
    fn errors_are_maxima_and_agreement_counts_argmax() {
        let found = agreement(&[(&[1.0, 4.5, -2.0], &[1.0, 4.0, -2.0]), (&[3.0, 2.0], &[2.0, 3.0])]);
        assert_eq!((found.positions, found.agreed, found.largest_absolute_error), (2, 1, 1.0));
        assert_eq!(found.largest_relative_error, 1.0 / 3.0);
        assert_eq!(agreement(&[(&[5.0, 5.0], &[5.0, 5.0])]).agreed, 1, "ties go to the first on both sides");
    }

    #[test]
    fn near_ties_are_reported_and_count_as_disagreements() {
        let pairs: [(&[f32], &[f32]); 4] = [
            // A clear lead of 0.5 of 2; a near tie that holds; one that does not; and a clear lead that is lost.
            (&[1.0, 2.0], &[1.0, 2.0]),
            (&[2.0, -1.0, 1.999], &[2.0, -1.0, 1.999]),
            (&[2.0, 2.001], &[2.0, 1.9999]),
            (&[1.0, 2.0], &[4.0, 3.0]),
        ];
        let found = agreement(&pairs);
        assert_eq!((found.positions, found.agreed, found.near_ties, found.disagreed_near_ties), (4, 2, 2, 1));
        assert_eq!((found.widest_disagreed_lead, found.distinct_tokens), (Some(0.25), 2));
        // Of 0.5, 0.0005, 0.00005 and 0.25 the median.
        assert!((found.median_lead.unwrap() - 0.125_25).abs() < 1e-5, "{:?}", found.median_lead);
        let text = found.sentences();
        for part in [
            "**bird & co.pte**, checked: the argmax agrees with the exact path at 2 of 4 positions, 2 different tokens;",
            "leads by 12.53 %",
            "(a lead below 0.10 %)",
            "there are 2, 1 disagree.",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(text.contains("it leads by at most 25.00 %. The exact path leaves out all that is fast.\n"), "{text}");
        assert!(!agreement(&pairs[..2]).sentences().contains("Where they disagree"));
    }

    #[test]
    fn nan_agrees_with_nothing() {
        for (fast, exact) in [([f32::NAN, 1.0], [0.0, 1.0]), ([0.0, 1.0], [f32::NAN, 1.0]), ([f32::NAN; 2], [f32::NAN; 2])] {
            let found = agreement(&[(&fast, &exact)]);
            assert_eq!((found.agreed, found.largest_absolute_error), (0, f32::INFINITY), "{fast:?} {exact:?}");
        }
        assert_eq!(agreement(&[(&[], &[])]).agreed, 0);
        assert_eq!((lead(&[]), lead(&[1.0]), lead(&[1.0, f32::NAN]), lead(&[2.0, 2.0])), (None, None, None, Some(0.0)));
    }

    #[test]
    fn less_than_99_percent_is_an_error() {
        let of = |agreed, positions| Agreement { agreed, positions, ..agreement(&[]) }.demand();
        assert!(of(99, 100).is_ok() && of(512, 512).is_ok() && of(507, 512).is_ok());
        assert!(of(98, 100).is_err() && of(506, 512).is_err() && of(0, 0).is_err());
        assert_eq!(
            of(1, 2).unwrap_err().to_string(),
            "bird & co.pte: the argmax differs from the exact path at 1 of 2 positions; 99 % must agree, so nothing is measured"
        );
    }
}
