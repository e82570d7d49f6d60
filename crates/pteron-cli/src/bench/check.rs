//! Compares the logits of the measured path with those of the exact path.

use pteron::{Gpu, LoadOptions, Method, Precision, State, StateDtype, Tensor, block_on};
use pteron_llm::{Metadata, token_inputs};

use super::agreement::{Agreement, Tally, argmax};
use super::cases;
use super::runner::{METHOD, Runner, failed};
use super::spinner::Spinner;
use super::target::Target;
use crate::failure::Failure;
use crate::interrupts;
use crate::loading::LoadingBar;

/// Load options of the measured path, which are those of `pteron run`.
pub(super) fn fast(state_dtype: StateDtype) -> LoadOptions {
    LoadOptions::default().with_precision(Precision::Fast).with_state_dtype(state_dtype)
}

/// Load options of the exact path, without what [`DIFFERENCE`] names.
fn exact() -> LoadOptions {
    LoadOptions::exact()
}

/// Optimisations that the exact path leaves out.
const DIFFERENCE: &str = "fusions, f16 factors and f16 caches: it computes one operator at a time, in f32";

/// The shape that is compared besides the bundled model: layers of large models, but few and small.
pub(super) const SYNTHETIC_SHAPE: &str = "layers=2,width=512,heads=8,kv=2,head=64,hidden=1536,vocab=8192";

/// Prompts, each of another length, and the positions per prompt at which logits are compared: after prefill, then after each decode
/// step.
const PROMPTS: u32 = 16;
const POSITIONS: u32 = 32;
/// The longest prompt, on GPUs and on software adapters.
const LONGEST: u32 = 512;
const LONGEST_IN_SOFTWARE: u32 = 128;
/// The context length that all of them fit.
pub(super) const ROOM: u32 = LONGEST + POSITIONS - 1;

/// The lengths of the prompts, from the longest down, two per power of two.
fn lengths(longest: u32) -> impl Iterator<Item = u32> {
    (0..PROMPTS).map(move |prompt| {
        let length = longest.checked_shr(prompt / 2).unwrap_or(0);
        let shorter = if prompt.is_multiple_of(2) { length } else { length * 3 / 4 };
        shorter.max(1)
    })
}

/// Runs both paths on the same tokens, position by position: a prompt, then the exact path's argmax.
pub(super) fn check(gpu: &Gpu, target: &Target, fast: &Runner, quiet: bool) -> Result<Agreement, Failure> {
    let metadata = &fast.metadata;
    let bar = LoadingBar::new(&format!("loading the exact path of {}", target.name), quiet);
    let options = exact().with_progress(bar.listener());
    let exact = block_on(target.program.load(gpu, METHOD, &options)).map_err(failed)?;
    drop(bar);
    let progress = Spinner::new(quiet);
    let mut fast = LoadedPath::new(&fast.method, metadata)?;
    let mut exact = LoadedPath::new(&exact, metadata)?;
    let longest = if gpu.adapter().software { LONGEST_IN_SOFTWARE } else { LONGEST };
    let room = metadata.context_length.saturating_sub(POSITIONS - 1).max(1);
    let mut tally = Tally::default();
    for (number, length) in (1..).zip(lengths(metadata.max_prefill.min(longest).min(room))) {
        let mut tokens = cases::tokens(length, metadata.vocab_size, 100 + number);
        let mut position = 0;
        for step in 0..POSITIONS.min(metadata.context_length - length + 1) {
            if interrupts::interrupted() {
                return Err(Failure::Interrupted);
            }
            progress.say(format!(
                "comparing {} with its exact path: prompt {number} of {PROMPTS}, token {}",
                target.name,
                step + 1
            ));
            let wanted = exact.logits(&tokens, position)?;
            tally.add(&fast.logits(&tokens, position)?, &wanted);
            position += if step == 0 { length } else { 1 };
            // NaN logits count as a disagreement; any token continues from there.
            tokens = vec![argmax(&wanted).unwrap_or(0)];
        }
    }
    Ok(tally.finish(&target.name, DIFFERENCE))
}

/// A loaded method with a KV cache of its own.
struct LoadedPath<'a> {
    method: &'a Method,
    state: State,
    vocab_size: usize,
}

impl<'a> LoadedPath<'a> {
    fn new(method: &'a Method, metadata: &Metadata) -> Result<Self, Failure> {
        let state = method.new_state().map_err(failed)?;
        Ok(Self { method, state, vocab_size: metadata.vocab_size as usize })
    }

    /// Returns the logits after the last of some tokens.
    fn logits(&mut self, tokens: &[u32], position: u32) -> Result<Vec<f32>, Failure> {
        let inputs = token_inputs(self.method.inputs(), tokens, position)?;
        let outputs = block_on(self.method.call(&mut self.state, &inputs)).map_err(failed)?;
        let mut logits = outputs.first().and_then(Tensor::to_f32).ok_or(Failure::NoLogits)?;
        // Some programs compute logits for every token; the last row is the one that counts.
        Ok(logits.split_off(logits.len().saturating_sub(self.vocab_size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_lengths_halve_from_the_longest_to_one() {
        let found: Vec<u32> = lengths(512).collect();
        assert_eq!(found, [512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3]);
        assert_eq!(lengths(3).take(4).collect::<Vec<_>>(), [3, 2, 1, 1]);
        assert!(lengths(1).all(|length| length == 1));
    }

    #[test]
    fn the_exact_path_has_no_fusions_and_the_synthetic_shape_parses() {
        let fast = fast(StateDtype::F16);
        assert_eq!((exact().fusions, fast.fusions), (pteron::Fusions::NONE, pteron::Fusions::ALL));
        assert_eq!((exact().precision, fast.precision), (Precision::Full, Precision::Fast));
        assert_eq!((exact().state_dtype, fast.state_dtype), (StateDtype::F32, StateDtype::F16));
        let config = pteron_convert::synthetic::parse(SYNTHETIC_SHAPE).unwrap();
        assert_eq!((config.num_layers, config.vocab_size), (2, 8192));
    }
}
