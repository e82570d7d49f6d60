//! The cases to measure: prompt lengths, decode lengths and depths, and those that do not fit the context.

use super::args::{Bench, Sizes};
use crate::units::count;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// A prompt of `tokens` tokens from an empty KV cache.
    Prefill { tokens: u32 },
    /// `tokens` decode steps after a KV cache that holds `depth` tokens.
    Decode { tokens: u32, depth: u32 },
}

impl Case {
    /// Returns the requested cases, each once.
    pub(super) fn requested(args: &Bench) -> Vec<Self> {
        let Sizes { pp, tg, depth } = args.sizes();
        let prefill = pp.into_iter().map(|tokens| Self::Prefill { tokens });
        let decode = depth.into_iter().map(|depth| Self::Decode { tokens: tg, depth });
        let mut cases: Vec<Self> = Vec::new();
        for case in prefill.chain(decode) {
            if case.tokens() > 0 && !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    pub(super) fn tokens(&self) -> u32 {
        match *self {
            Self::Prefill { tokens } | Self::Decode { tokens, .. } => tokens,
        }
    }

    pub(super) fn depth(&self) -> u32 {
        match *self {
            Self::Prefill { .. } => 0,
            Self::Decode { depth, .. } => depth,
        }
    }

    /// `pp 512` or `tg 128`.
    pub(super) fn name(&self) -> String {
        let kind = if matches!(self, Self::Prefill { .. }) { "pp" } else { "tg" };
        format!("{kind} {}", self.tokens())
    }

    /// Returns why the case does not fit a context, if it does not.
    pub(super) fn too_long(&self, context: u32) -> Option<String> {
        let positions = u64::from(self.tokens()) + u64::from(self.depth());
        (positions > context.into())
            .then(|| format!("needs {} positions, the context has {}", count(positions), count(context.into())))
    }
}

/// Returns pseudo-random token ids that depend on the seed only.
#[expect(clippy::expect_used, reason = "the high half of a product with a u32 fits a u32")]
pub(super) fn tokens(count: u32, vocabulary: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        // An odd increment visits every 64-bit number; two rounds of multiply and xor-shift make the sequence look random.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        u32::try_from(((mixed >> 32) * u64::from(vocabulary)) >> 32).expect("it is smaller than the vocabulary, a u32")
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn cases(args: &str) -> Vec<Case> {
        let typed = ["pteron", "bench"].into_iter().chain(args.split_whitespace());
        let Command::Bench(args) = Cli::parse_from(typed).command else { panic!("it is a bench") };
        Case::requested(&args)
    }

    #[test]
    fn cases_are_unique_and_zero_means_none() {
        let expected = [
            Case::Prefill { tokens: 8 },
            Case::Prefill { tokens: 16 },
            Case::Decode { tokens: 4, depth: 0 },
            Case::Decode { tokens: 4, depth: 32 },
        ];
        assert_eq!(cases("--pp 8,16,8 --tg 4 --depth 0,32,0"), expected);
        assert_eq!(cases("--pp 0 --tg 4 --depth 0"), [Case::Decode { tokens: 4, depth: 0 }]);
        assert_eq!(cases("--pp 0 --tg 0"), []);
    }

    #[test]
    fn a_case_that_fills_the_context_fits() {
        let decode = Case::Decode { tokens: 24, depth: 1000 };
        assert_eq!(decode.too_long(1024), None);
        assert_eq!(decode.too_long(1023).unwrap(), "needs 1,024 positions, the context has 1,023");
        assert_eq!((decode.name().as_str(), Case::Prefill { tokens: 24 }.too_long(24)), ("tg 24", None));
        assert!(Case::Decode { tokens: u32::MAX, depth: u32::MAX }.too_long(u32::MAX).is_some());
    }

    #[test]
    fn random_tokens_spread_over_the_vocabulary() {
        let ids = tokens(6000, 60, 1);
        assert_eq!(ids, tokens(6000, 60, 1));
        assert_ne!(ids[..50], tokens(50, 60, 2));
        for id in 0..60 {
            let found = ids.iter().filter(|&&other| other == id).count();
            assert!((50..200).contains(&found), "{id} came {found} times of about 100");
        }
        assert_eq!(tokens(3, 1, 9), [0; 3]);
    }
}
