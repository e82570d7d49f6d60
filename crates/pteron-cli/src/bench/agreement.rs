//! How far the logits of two paths agree.

use std::collections::HashSet;

use serde::Serialize;

use super::stats::Summary;
use crate::failure::Failure;
use crate::units::count;

/// Of a hundred likeliest tokens, so many must be the same.
const LEAST: u64 = 99;
/// Where the likeliest token leads by less than this, in parts of the largest logit, any rounding may put another first.
const NEAR_TIE: f32 = 1e-3;

/// How far two paths agree on the logits of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Agreement {
    /// The name of the program.
    pub(super) program: String,
    pub(super) positions: u64,
    /// Positions at which both find the same token likeliest. Near ties are among them as everything else is.
    pub(super) agreed: u64,
    /// Different tokens among those that the exact path finds likeliest: a model that repeats itself says less.
    pub(super) distinct_tokens: usize,
    /// Positions at which the exact path's likeliest token leads by less than a thousandth of the largest logit, and those of them
    /// that did not agree.
    pub(super) near_ties: u64,
    pub(super) disagreed_near_ties: u64,
    /// By how much the exact path's likeliest token leads, in parts of its largest logit: in the median, and the most of any
    /// position that did not agree.
    pub(super) median_lead: Option<f64>,
    pub(super) widest_disagreed_lead: Option<f32>,
    pub(super) largest_absolute_error: f32,
    /// In parts of the exact path's largest logit at the same position.
    pub(super) largest_relative_error: f32,
    /// What the exact path leaves out.
    pub(super) difference: &'static str,
}

impl Agreement {
    /// An error where too few agree.
    pub(super) fn demand(&self) -> Result<(), Failure> {
        if self.positions > 0 && self.agreed * 100 >= self.positions * LEAST {
            return Ok(());
        }
        let Self { program, agreed, positions, .. } = self.clone();
        Err(Failure::Disagreement { program, agreed, positions, least: LEAST })
    }

    /// The whole in a few sentences.
    pub(super) fn sentences(&self) -> String {
        let per_cent = |share: f64| format!("{:.2} %", 100.0 * share);
        let lead = self.median_lead.map_or_else(|| "nothing".to_owned(), per_cent);
        let widest = match self.widest_disagreed_lead {
            Some(lead) => format!(" Where they disagree, it leads by {} at most.", per_cent(lead.into())),
            None => String::new(),
        };
        format!(
            "**{}**, checked: at {} of {} positions the exact path finds the same token likeliest, {} different ones; logits differ by {:.2e} at \
             most, {:.2e} of the largest. The likeliest token leads by {lead} of the largest logit in the median. Near ties, where \
             it leads by less than {}, count like all others: there are {}, {} disagree.{widest} The exact path leaves out {}.\n\n",
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

/// Positions that were compared so far.
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
    /// Compares the logits of a position. Those that are no numbers agree with nothing.
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

    pub(super) fn agreement(self, program: &str, difference: &'static str) -> Agreement {
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

/// The token with the greatest logit; `None` where one is no number, or there are none.
pub(super) fn argmax(logits: &[f32]) -> Option<u32> {
    if logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let (first, _) = logits.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    u32::try_from(first).ok()
}

/// How far the greatest logit is above the second; `None` where there is no second, or one is no number.
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
        tally.agreement("bird & co.pte", "all that is fast")
    }

    #[test]
    fn errors_are_the_largest_and_agreement_is_of_tokens() {
        let found = agreement(&[(&[1.0, 4.5, -2.0], &[1.0, 4.0, -2.0]), (&[3.0, 2.0], &[2.0, 3.0])]);
        assert_eq!((found.positions, found.agreed, found.largest_absolute_error), (2, 1, 1.0));
        assert_eq!(found.largest_relative_error, 1.0 / 3.0);
        assert_eq!(agreement(&[(&[5.0, 5.0], &[5.0, 5.0])]).agreed, 1, "ties go to the first on both sides");
    }

    #[test]
    fn near_ties_are_counted_and_count() {
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
            "**bird & co.pte**, checked: at 2 of 4 positions the exact path finds the same token likeliest, 2 different ones;",
            "leads by 12.53 %",
            "less than 0.10 %",
            "there are 2, 1 disagree.",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(text.contains("it leads by 25.00 % at most. The exact path leaves out all that is fast.\n"), "{text}");
        assert!(!agreement(&pairs[..2]).sentences().contains("Where they disagree"));
    }

    #[test]
    fn what_is_no_number_agrees_with_nothing() {
        for (fast, exact) in [([f32::NAN, 1.0], [0.0, 1.0]), ([0.0, 1.0], [f32::NAN, 1.0]), ([f32::NAN; 2], [f32::NAN; 2])] {
            let found = agreement(&[(&fast, &exact)]);
            assert_eq!((found.agreed, found.largest_absolute_error), (0, f32::INFINITY), "{fast:?} {exact:?}");
        }
        assert_eq!(agreement(&[(&[], &[])]).agreed, 0);
        assert_eq!((lead(&[]), lead(&[1.0]), lead(&[1.0, f32::NAN]), lead(&[2.0, 2.0])), (None, None, None, Some(0.0)));
    }

    #[test]
    fn one_of_a_hundred_may_differ_and_no_more() {
        let of = |agreed, positions| Agreement { agreed, positions, ..agreement(&[]) }.demand();
        assert!(of(99, 100).is_ok() && of(512, 512).is_ok() && of(507, 512).is_ok());
        assert!(of(98, 100).is_err() && of(506, 512).is_err() && of(0, 0).is_err());
        assert_eq!(
            of(1, 2).unwrap_err().to_string(),
            "bird & co.pte: the exact path finds another token likeliest at 1 of 2 positions; 99 % must agree, so there are no figures"
        );
    }
}
