//! A loaded model, and the prefill and decode runs that are timed on it.

use std::cell::RefCell;
use std::time::Instant;

use pteron::{Gpu, LoadOptions, Method, State, block_on};
use pteron_llm::{
    GpuSampling, Metadata, PartialMetadata, PendingToken, StepOutput, StepPipeline, StepTokens, start_sampled_steps,
    start_step, with_token_sampling,
};

use super::cases;
use super::target::Target;
use crate::failure::Failure;
use crate::interrupts;
use crate::loading::LoadingBar;

/// The method that takes tokens and a position and returns logits.
pub(super) const METHOD: &str = "forward";

/// Times of a run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Run {
    pub(super) wall_seconds: f64,
    /// GPU time of its calls, where the adapter has timestamps.
    pub(super) gpu_seconds: Option<f64>,
}

impl Run {
    /// Wall time less GPU time, where there are timestamps.
    pub(super) fn gap(&self) -> Option<f64> {
        self.gpu_seconds.map(|gpu| self.wall_seconds - gpu)
    }
}

/// A loaded model with one KV cache.
pub(super) struct Runner {
    pub(super) method: Method,
    state: RefCell<State>,
    pub(super) metadata: Metadata,
}

impl Runner {
    /// Loads the model and generates a token. Returns the seconds this took: constants uploaded, pipelines compiled and used once.
    pub(super) fn load(gpu: &Gpu, target: &Target, options: LoadOptions, quiet: bool) -> Result<(Self, f64), Failure> {
        let bar = LoadingBar::new(&format!("loading {} on {}", target.name, gpu.adapter().name), quiet);
        PartialMetadata::from_signature(&target.program, METHOD)?;
        let options = with_token_sampling(options.with_progress(bar.listener()))?;
        let start = Instant::now();
        let method = block_on(target.program.load(gpu, METHOD, &options)).map_err(failed)?;
        let metadata = Metadata::of(&target.program, &method, target.metadata.clone(), None)?;
        let state = RefCell::new(method.new_state().map_err(failed)?);
        let runner = Self { method, state, metadata };
        runner.decode(0, 1)?;
        Ok((runner, start.elapsed().as_secs_f64()))
    }

    /// Calls that a prompt of `tokens` tokens takes.
    pub(super) fn calls(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.metadata.max_prefill)
    }

    /// Runs a prompt from an empty KV cache, from the start of its first call to the readback of its token. Overwrites the cache's old
    /// content; attention reads no further than the position.
    pub(super) fn prefill(&self, tokens: u32) -> Result<Run, Failure> {
        let ids = cases::tokens(tokens, self.metadata.vocab_size, 1);
        let mut pipeline = Pipeline::start();
        let most = self.metadata.max_prefill as usize;
        for (chunk, position) in ids.chunks(most).zip((0..).step_by(most)) {
            pipeline.push(|| self.step(StepTokens::Given(chunk), position))?;
        }
        pipeline.finish()
    }

    /// Generates tokens from a position on, with the token of each step fed back on the GPU.
    pub(super) fn decode(&self, position: u32, steps: u32) -> Result<Run, Failure> {
        let first = cases::tokens(1, self.metadata.vocab_size, 2);
        let mut pipeline = Pipeline::start();
        pipeline.push(|| self.step(StepTokens::Given(&first), position))?;
        let mut started = 1;
        while started < steps {
            let count = pipeline.wait_for_room()?.min(steps - started);
            let mut state = self.state.borrow_mut();
            let sampling = |_| GpuSampling::GREEDY;
            let next = start_sampled_steps(&self.method, &mut state, position + started, count, sampling)?;
            for step in next {
                pipeline.steps.push(step);
                started += 1;
            }
        }
        pipeline.finish()
    }

    fn step(&self, tokens: StepTokens<'_>, position: u32) -> Result<PendingToken, Failure> {
        Ok(start_step(&self.method, &mut self.state.borrow_mut(), tokens, position, GpuSampling::GREEDY)?)
    }
}

pub(super) fn failed(error: pteron::Error) -> Failure {
    pteron_llm::Error::from(error).into()
}

/// Pipelined steps: the next is submitted before the last one's token is read back.
struct Pipeline {
    start: Instant,
    steps: StepPipeline,
    gpu_seconds: Option<f64>,
}

impl Pipeline {
    fn start() -> Self {
        Self { start: Instant::now(), steps: StepPipeline::new(), gpu_seconds: Some(0.0) }
    }

    fn push(&mut self, start: impl FnOnce() -> Result<PendingToken, Failure>) -> Result<(), Failure> {
        self.wait_for_room()?;
        self.steps.push(start()?);
        Ok(())
    }

    /// Reads steps until others can be started; returns how many.
    fn wait_for_room(&mut self) -> Result<u32, Failure> {
        if interrupts::interrupted() {
            return Err(Failure::Interrupted);
        }
        while self.steps.is_full() {
            self.read_oldest()?;
        }
        Ok(self.steps.room())
    }

    fn read_oldest(&mut self) -> Result<(), Failure> {
        if let Some(StepOutput::Token { gpu_seconds, .. }) = block_on(self.steps.read_oldest()).transpose()? {
            self.gpu_seconds = self.gpu_seconds.zip(gpu_seconds).map(|(sum, seconds)| sum + seconds);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Run, Failure> {
        while !self.steps.is_empty() {
            self.read_oldest()?;
        }
        Ok(Run { wall_seconds: self.start.elapsed().as_secs_f64(), gpu_seconds: self.gpu_seconds })
    }
}
