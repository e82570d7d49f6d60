//! Options of an engine.

use std::time::Duration;

use pteron::{AdapterOptions, GpuOptions, Program};

use crate::batch::DraftSource;
use crate::model::ModelOptions;

/// How an [`Engine`](super::Engine) is loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How the model is loaded: precision, element type of the KV cache, progress. Its memory budget counts where
    /// [`memory_budget`](Self::memory_budget) is not set.
    pub model: ModelOptions,
    /// The GPU that [`Engine::open_blocking`](super::Engine::open_blocking) opens.
    pub gpu: GpuOptions,
    /// Bytes of GPU memory for weights, activations and the KV cache together. The default is the memory of the device, where that is
    /// known, less a reserve: an eighth, and half where the GPU shares the memory of the machine.
    pub memory_budget: Option<u64>,
    /// The most sequences that run at once. The default is 128, and 8 on a software adapter.
    pub max_sequences: Option<u32>,
    /// The most rows of a step: decode rows and rows of prompts. The default is 512, and 64 on a software adapter.
    pub max_rows: Option<u32>,
    /// The most requests that wait. Further ones are refused.
    pub max_queue: usize,
    /// Requests that arrived this long ago go first, whatever their key's share.
    pub aging: Duration,
    /// Who drafts tokens for speculative decoding, for requests that do not say.
    pub speculation: DraftSource,
    /// Room for LoRA adapters.
    pub adapters: Option<AdapterOptions>,
    /// A smaller model of the same vocabulary that drafts tokens.
    pub draft_model: Option<Program>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            model: ModelOptions::default(),
            gpu: GpuOptions::default(),
            memory_budget: None,
            max_sequences: None,
            max_rows: None,
            max_queue: 1024,
            aging: Duration::from_secs(5),
            speculation: DraftSource::None,
            adapters: None,
            draft_model: None,
        }
    }
}

impl EngineOptions {
    /// Sets how the model is loaded.
    #[must_use]
    pub fn with_model(mut self, model: ModelOptions) -> Self {
        self.model = model;
        self
    }

    /// Sets which GPU is opened.
    #[must_use]
    pub fn with_gpu(mut self, gpu: GpuOptions) -> Self {
        self.gpu = gpu;
        self
    }

    /// Limits the GPU memory of weights, activations and the KV cache together, in bytes.
    #[must_use]
    pub fn with_memory_budget(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.memory_budget = bytes.into();
        self
    }

    /// Limits the sequences that run at once.
    #[must_use]
    pub fn with_max_sequences(mut self, sequences: impl Into<Option<u32>>) -> Self {
        self.max_sequences = sequences.into();
        self
    }

    /// Limits the rows of a step.
    #[must_use]
    pub fn with_max_rows(mut self, rows: impl Into<Option<u32>>) -> Self {
        self.max_rows = rows.into();
        self
    }

    /// Limits the requests that wait.
    #[must_use]
    pub fn with_max_queue(mut self, requests: usize) -> Self {
        self.max_queue = requests;
        self
    }

    /// Sets how long a request waits at most before it goes first.
    #[must_use]
    pub fn with_aging(mut self, aging: Duration) -> Self {
        self.aging = aging;
        self
    }

    /// Sets who drafts tokens for requests that do not say.
    #[must_use]
    pub fn with_speculation(mut self, speculation: DraftSource) -> Self {
        self.speculation = speculation;
        self
    }

    /// Loads a smaller model of the same vocabulary too, which drafts tokens for up to eight requests at a time, unless they say otherwise.
    #[must_use]
    pub fn with_draft_model(mut self, program: impl Into<Option<Program>>) -> Self {
        self.draft_model = program.into();
        if self.draft_model.is_some() {
            self.speculation = DraftSource::Model;
        }
        self
    }

    /// Makes room for LoRA adapters; see [`Engine::load_adapter`](super::Engine::load_adapter). It takes GPU memory for each slot, and where
    /// adapters may update the factors of SwiGLU, a step runs one more dispatch per layer; otherwise requests without an adapter cost
    /// nothing.
    #[must_use]
    pub fn with_adapters(mut self, adapters: impl Into<Option<AdapterOptions>>) -> Self {
        self.adapters = adapters.into();
        self
    }
}
