//! What is measured: which lengths, at which depths, and which of them a context has no room for.

use super::args::{Bench, Sizes};
use crate::units::count;

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// A prompt of so many tokens.
    Prefill { tokens: u32 },
    /// So many tokens, one after the other, behind a cache that holds `depth` of them.
    Decode { tokens: u32, depth: u32 },
}

impl Case {
    /// Everything that is asked for, each once.
    pub(super) fn asked_for(args: &Bench) -> Vec<Self> {
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

    /// Why it cannot be measured, if it cannot.
    pub(super) fn too_long(&self, context: u32) -> Option<String> {
        let positions = u64::from(self.tokens()) + u64::from(self.depth());
        (positions > context.into())
            .then(|| format!("needs {} positions, the context has {}", count(positions), count(context.into())))
    }
}

/// Token ids that look random and are the same every time.
pub(super) fn tokens(count: u32, vocabulary: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        // An odd step walks through every 64-bit number; two rounds of multiplying and folding hide that it is a walk.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        // The high half, scaled to the vocabulary, is smaller than the vocabulary.
        u32::try_from(((mixed >> 32) * u64::from(vocabulary)) >> 32).unwrap_or(0)
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
        Case::asked_for(&args)
    }

    #[test]
    fn each_is_measured_once_and_zero_is_none() {
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
    fn what_fits_to_the_last_position_is_measured() {
        let decode = Case::Decode { tokens: 24, depth: 1000 };
        assert_eq!(decode.too_long(1024), None);
        assert_eq!(decode.too_long(1023).unwrap(), "needs 1,024 positions, the context has 1,023");
        assert_eq!((decode.name().as_str(), Case::Prefill { tokens: 24 }.too_long(24)), ("tg 24", None));
        assert!(Case::Decode { tokens: u32::MAX, depth: u32::MAX }.too_long(u32::MAX).is_some());
    }

    #[test]
    fn random_tokens_are_of_the_vocabulary_and_spread_over_it() {
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
