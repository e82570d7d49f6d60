//! Runs the bundled model and compares its tokens with those of PyTorch.

use std::time::Instant;

use pteron::{Gpu, block_on};
use pteron_llm::{GenerationOptions, Session, TokenId};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::generate;

/// How many prompts are continued, and by how many tokens.
const PROMPTS: usize = 3;
const TOKENS: usize = 24;

/// The result of the check.
#[derive(Default, Serialize)]
pub(super) struct Check {
    pub(super) ok: bool,
    /// The adapter that was checked; null where none could be opened.
    pub(super) adapter: Option<String>,
    /// The number of generated tokens, and of those equal to PyTorch's at the same position.
    pub(super) tokens: usize,
    pub(super) matching: usize,
    pub(super) load_seconds: Option<f64>,
    pub(super) tokens_per_second: Option<f64>,
    /// Why it could not run.
    pub(super) error: Option<String>,
}

/// Continuations of prompts by greedy decoding in PyTorch.
#[derive(Deserialize)]
struct Goldens {
    prompts: Vec<Golden>,
}

#[derive(Deserialize)]
struct Golden {
    prompt_ids: Vec<TokenId>,
    ids: Vec<TokenId>,
}

impl Check {
    pub(super) fn run(gpu: &Result<Gpu, Failure>) -> Self {
        let mut check = Self { adapter: gpu.as_ref().ok().map(|gpu| gpu.adapter().name.clone()), ..Self::default() };
        let result = match gpu {
            Ok(gpu) => check.generate(gpu).map_err(|failure| failure.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        check.error = result.err();
        check.ok = check.error.is_none() && check.tokens > 0 && check.matching == check.tokens;
        check
    }

    fn generate(&mut self, gpu: &Gpu) -> Result<(), Failure> {
        let goldens: Goldens =
            serde_json::from_str(pteron_demo_model::GOLDENS).map_err(|error| Failure::Output(error.into()))?;
        let start = Instant::now();
        let model = generate::load_bundled(gpu)?;
        let mut session = Session::new(&model)?;
        self.load_seconds = Some(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for golden in goldens.prompts.iter().take(PROMPTS) {
            let options = GenerationOptions::default().with_max_tokens(TOKENS);
            let mut generation = session.generate(&golden.prompt_ids, options)?;
            while block_on(generation.next())?.is_some() {}
            self.add(generation.generated(), &golden.ids);
        }
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = self.tokens as f64 / start.elapsed().as_secs_f64();
        self.tokens_per_second = Some(rate);
        Ok(())
    }

    /// Compares a continuation with PyTorch's. Tokens that are missing count as different ones.
    fn add(&mut self, own: &[TokenId], golden: &[TokenId]) {
        let expected = &golden[..golden.len().min(TOKENS)];
        self.tokens += expected.len();
        self.matching += own.iter().zip(expected).filter(|(own, expected)| own == expected).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_different_tokens_do_not_match() {
        let mut check = Check::default();
        check.add(&[1, 2, 3], &[1, 2, 3]);
        assert_eq!((check.tokens, check.matching), (3, 3));
        check.add(&[1], &[1, 2]);
        check.add(&[7, 8], &[7, 9]);
        assert_eq!((check.tokens, check.matching), (7, 5));
    }

    #[test]
    fn the_goldens_have_enough_prompts_and_tokens() {
        let goldens: Goldens = serde_json::from_str(pteron_demo_model::GOLDENS).unwrap();
        assert!(goldens.prompts.len() >= PROMPTS);
        assert!(goldens.prompts.iter().take(PROMPTS).all(|golden| golden.ids.len() >= TOKENS));
    }

    #[test]
    fn without_an_adapter_the_check_fails_with_the_reason() {
        let check = Check::run(&Err(Failure::NoPrompt));
        assert!(!check.ok && check.adapter.is_none() && check.error.is_some());
    }
}
