//! A loaded model, and the two things that are timed on it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Instant;

use pteron::{Choice, Gpu, LoadOptions, Method, NextToken, State, Tokens, block_on};
use pteron_llm::Metadata;

use super::cases;
use super::target::Target;
use crate::failure::Failure;
use crate::interrupts;
use crate::loading::LoadingBar;

/// The method that takes tokens and a position and gives logits.
pub(super) const METHOD: &str = "forward";

/// Steps that may be on their way: one that runs, one that waits behind it.
const AHEAD: usize = 2;

/// What one run took.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Run {
    pub(super) wall_seconds: f64,
    /// The sum of what its calls took on the GPU, where it tells.
    pub(super) gpu_seconds: Option<f64>,
}

/// A model ready to run, with one cache.
pub(super) struct Runner {
    pub(super) method: Method,
    state: RefCell<State>,
    pub(super) metadata: Metadata,
}

impl Runner {
    /// Loads the model, and says how many seconds that took until its first token was there: constants uploaded, pipelines
    /// compiled, and all of it used once.
    pub(super) fn load(gpu: &Gpu, target: &Target, options: LoadOptions, quiet: bool) -> Result<(Self, f64), Failure> {
        let bar = LoadingBar::new(&format!("loading {} on {}", target.name, gpu.adapter().name), quiet);
        let options = LoadOptions { progress: Some(bar.listener()), ..options };
        let start = Instant::now();
        let method = block_on(target.program.load(gpu, METHOD, &options)).map_err(failed)?;
        let metadata = Metadata::of(&target.program, &method, target.facts.clone(), None)?;
        let state = RefCell::new(method.new_state().map_err(failed)?);
        let runner = Self { method, state, metadata };
        runner.decode(0, 1)?;
        Ok((runner, start.elapsed().as_secs_f64()))
    }

    /// How many calls a prompt of so many tokens takes.
    pub(super) fn calls(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.metadata.max_prefill)
    }

    /// Runs a prompt from an empty cache: from the start of its first call until its token is chosen and read. What the cache
    /// held before is overwritten, and nothing looks behind the position.
    pub(super) fn prefill(&self, tokens: u32) -> Result<Run, Failure> {
        let ids = cases::tokens(tokens, self.metadata.vocab_size, 1);
        let mut line = Line::start();
        let mut position = 0;
        for chunk in ids.chunks(self.metadata.max_prefill as usize) {
            line.push(|| self.step(Tokens::Given(chunk), position))?;
            position += u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        }
        line.finish()
    }

    /// Generates tokens at a position, each from the one before it, which stays on the GPU.
    pub(super) fn decode(&self, position: u32, steps: u32) -> Result<Run, Failure> {
        let first = cases::tokens(1, self.metadata.vocab_size, 2);
        let mut line = Line::start();
        for step in 0..steps {
            let tokens = if step == 0 { Tokens::Given(&first) } else { Tokens::Chosen };
            line.push(|| self.step(tokens, position + step))?;
        }
        line.finish()
    }

    fn step(&self, tokens: Tokens<'_>, position: u32) -> Result<NextToken, Failure> {
        self.method.start_token(&mut self.state.borrow_mut(), tokens, position, Choice::GREEDY).map_err(failed)
    }
}

pub(super) fn failed(error: pteron::Error) -> Failure {
    pteron_llm::Error::from(error).into()
}

/// Calls that follow one another: the next is started before the last one's token is read.
struct Line {
    start: Instant,
    on_their_way: VecDeque<NextToken>,
    gpu_seconds: Option<f64>,
}

impl Line {
    fn start() -> Self {
        Self { start: Instant::now(), on_their_way: VecDeque::with_capacity(AHEAD), gpu_seconds: Some(0.0) }
    }

    fn push(&mut self, start: impl FnOnce() -> Result<NextToken, Failure>) -> Result<(), Failure> {
        if interrupts::interrupted() {
            return Err(Failure::Interrupted);
        }
        if self.on_their_way.len() == AHEAD {
            self.read_oldest()?;
        }
        self.on_their_way.push_back(start()?);
        Ok(())
    }

    fn read_oldest(&mut self) -> Result<(), Failure> {
        if let Some(next) = self.on_their_way.pop_front() {
            let seconds = block_on(next.wait()).map_err(failed)?.gpu_seconds;
            self.gpu_seconds = self.gpu_seconds.zip(seconds).map(|(sum, seconds)| sum + seconds);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Run, Failure> {
        while !self.on_their_way.is_empty() {
            self.read_oldest()?;
        }
        Ok(Run { wall_seconds: self.start.elapsed().as_secs_f64(), gpu_seconds: self.gpu_seconds })
    }
}
