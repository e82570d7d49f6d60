//! Embeddings: one vector for each text, from a program's hidden states.
//!
//! An [`Embedder`] takes two kinds of programs:
//!
//! - a **decoder**, as [`Model`](crate::Model) takes it: the rows that its last linear reads are its hidden states, and the logits are not
//!   computed. By default the last token's row is the text's vector;
//! - an **encoder**: it takes tokens and a mask of the same shape (and perhaps token types, which are zero), and returns the rows of all
//!   tokens or one vector. By default the mean of the rows is the text's vector.
//!
//! ```no_run
//! use pteron_llm::{Embedder, EmbedderOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let embedder = Embedder::open_blocking("models/embedding", EmbedderOptions::default())?;
//! let vectors = embedder.embed_blocking(&["a thread", "a task"])?;   // in one batch; of length 1
//! let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
//! # Ok(()) }
//! ```

mod decoder;
mod encoder;
mod pooling;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pteron::{Gpu, GpuOptions, Program};

use crate::assets::ModelAssets;
use crate::error::{Error, Result};
use crate::metadata::PartialMetadata;
use crate::model::ModelOptions;
use crate::open::program_in;
use crate::tokenizer::{Format, ParseSpecial, TokenId, Tokenizer};
pub use pooling::Pooling;
use {decoder::Decoder, encoder::Encoder};

/// Tokens of a text where the program takes more: each takes room in the KV cache.
const USUAL_TOKENS: u32 = 8192;

/// How an [`Embedder`] is loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmbedderOptions {
    /// How the program is loaded.
    pub model: ModelOptions,
    /// The GPU that [`Embedder::open_blocking`] opens.
    pub gpu: GpuOptions,
    /// How the rows of a text become one vector; by default the last row of a decoder, and the mean of an encoder's.
    pub pooling: Option<Pooling>,
    /// Whether vectors are divided by their length.
    pub normalize: bool,
    /// The most tokens of a text; by default what the program takes, up to 8,192.
    pub max_tokens: Option<u32>,
}

impl Default for EmbedderOptions {
    fn default() -> Self {
        Self { model: ModelOptions::default(), gpu: GpuOptions::default(), pooling: None, normalize: true, max_tokens: None }
    }
}

impl EmbedderOptions {
    /// Sets how the program is loaded.
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

    /// Sets how the rows of a text become one vector.
    #[must_use]
    pub fn with_pooling(mut self, pooling: impl Into<Option<Pooling>>) -> Self {
        self.pooling = pooling.into();
        self
    }

    /// Sets whether vectors are divided by their length.
    #[must_use]
    pub fn with_normalize(mut self, normalize: bool) -> Self {
        self.normalize = normalize;
        self
    }

    /// Limits the tokens of a text.
    #[must_use]
    pub fn with_max_tokens(mut self, tokens: impl Into<Option<u32>>) -> Self {
        self.max_tokens = tokens.into();
        self
    }
}

/// A program that makes vectors of texts. Cheap to clone; calls from several threads run one after another.
#[derive(Clone)]
pub struct Embedder {
    inner: Arc<Inner>,
    pooling: Pooling,
    normalize: bool,
}

struct Inner {
    runner: Mutex<Runner>,
    tokenizer: Tokenizer,
    bos: Option<TokenId>,
    dimensions: usize,
    max_tokens: u32,
    vocabulary: Option<u32>,
}

/// The two kinds of programs.
enum Runner {
    Decoder(Decoder),
    Encoder(Encoder),
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedder")
            .field("dimensions", &self.inner.dimensions)
            .field("pooling", &self.pooling)
            .finish_non_exhaustive()
    }
}

impl Embedder {
    /// Opens a program as [`Model::open_blocking`](crate::Model::open_blocking) does: a folder or a `.pte` file.
    ///
    /// # Errors
    /// As [`load`](Self::load); a file is missing or malformed, or there is no GPU.
    pub fn open_blocking(path: impl AsRef<Path>, options: EmbedderOptions) -> Result<Self> {
        let path = program_in(path.as_ref())?;
        let gpu = pteron::block_on(Gpu::open(&options.gpu)).map_err(pteron::Error::from)?;
        pteron::block_on(Self::open_on(&gpu, path, options))
    }

    /// Opens a program as [`open_blocking`](Self::open_blocking) does, with a GPU of the caller.
    ///
    /// # Errors
    /// As [`open_blocking`](Self::open_blocking).
    pub async fn open_on(gpu: &Gpu, path: impl AsRef<Path>, options: EmbedderOptions) -> Result<Self> {
        let path = program_in(path.as_ref())?;
        let program = Program::open(&path)?;
        let assets = ModelAssets::beside(&path)?;
        Self::load(gpu, &program, assets, options).await
    }

    /// Loads a program. The future blocks its thread while weights are uploaded.
    ///
    /// # Errors
    /// [`Error::NoHiddenStates`] for a program that is neither a decoder nor an encoder; an operator that is not supported, or too little
    /// GPU memory.
    pub async fn load(gpu: &Gpu, program: &Program, assets: ModelAssets, options: EmbedderOptions) -> Result<Self> {
        let EmbedderOptions { model, pooling, normalize, max_tokens, .. } = options;
        let metadata = assets.metadata.or(model.metadata.clone()).or(PartialMetadata::from_program(program)?);
        let model = ModelOptions { metadata: metadata.clone(), ..model };
        let (runner, usual, most, vocabulary) = if PartialMetadata::from_signature(program, &model.method).is_ok() {
            let decoder = Decoder::load(gpu, program, &model, max_tokens, &assets.tokenizer).await?;
            let (most, vocabulary) = (decoder.max_tokens(), decoder.vocabulary());
            (Runner::Decoder(decoder), Pooling::Last, most, Some(vocabulary))
        } else {
            let encoder = Encoder::load(gpu, program, &model).await?;
            let most = encoder.max_tokens();
            (Runner::Encoder(encoder), Pooling::Mean, most, metadata.vocab_size)
        };
        let mut inner = Inner {
            runner: Mutex::new(runner),
            tokenizer: assets.tokenizer,
            bos: metadata.bos_id,
            dimensions: 0,
            max_tokens: most.min(max_tokens.unwrap_or(u32::MAX)),
            vocabulary,
        };
        // The width of hidden states is known when there are some.
        let pooling = pooling.unwrap_or(usual);
        inner.dimensions = inner.run(&[&[0]], pooling)?.first().map_or(0, Vec::len);
        Ok(Self { inner: Arc::new(inner), pooling, normalize })
    }

    /// Returns an embedder of the same loaded program that pools otherwise.
    #[must_use]
    pub fn with_pooling(&self, pooling: Pooling) -> Self {
        Self { pooling, ..self.clone() }
    }

    /// Returns an embedder of the same loaded program that divides vectors by their length, or does not.
    #[must_use]
    pub fn with_normalize(&self, normalize: bool) -> Self {
        Self { normalize, ..self.clone() }
    }

    /// The numbers of a vector.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.inner.dimensions
    }

    /// The most tokens of a text.
    #[must_use]
    pub fn max_tokens(&self) -> u32 {
        self.inner.max_tokens
    }

    /// How the rows of a text become one vector.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// The tokenizer; `None` for a program that takes token ids alone.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        Some(&self.inner.tokenizer).filter(|tokenizer| tokenizer.format() != Format::IdsOnly)
    }

    /// The number of tokens that the program knows, where it states it.
    #[must_use]
    pub fn vocab_size(&self) -> Option<u32> {
        self.inner.vocabulary
    }

    /// Encodes a text, with the tokens that the tokenizer puts around it.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    pub fn tokens(&self, text: &str) -> Result<Vec<TokenId>> {
        let Inner { tokenizer, bos, .. } = &*self.inner;
        let tokens = tokenizer.encode_prompt(text, ParseSpecial::No)?;
        let first = bos.filter(|bos| tokenizer.adds_bos() && tokens.first() != Some(bos));
        Ok(first.into_iter().chain(tokens).collect())
    }

    /// Returns the vector of each text, and blocks the thread until the GPU has computed them.
    ///
    /// # Errors
    /// A text that the tokenizer cannot encode, that is empty or too long; a device that fails.
    pub fn embed_blocking(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>> {
        let tokens = texts.iter().map(|text| self.tokens(text.as_ref())).collect::<Result<Vec<_>>>()?;
        self.embed_tokens_blocking(&tokens)
    }

    /// Returns the vector of each list of tokens, as [`embed_blocking`](Self::embed_blocking) does for texts.
    ///
    /// # Errors
    /// A list that is empty or too long, a token outside the vocabulary, or a device that fails.
    pub fn embed_tokens_blocking(&self, texts: &[impl AsRef<[TokenId]>]) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<&[TokenId]> = texts.iter().map(AsRef::as_ref).collect();
        texts.iter().try_for_each(|tokens| self.check(tokens))?;
        let mut vectors = self.inner.run(&texts, self.pooling)?;
        if self.normalize {
            vectors.iter_mut().for_each(|vector| pooling::normalize(vector));
        }
        Ok(vectors)
    }

    fn check(&self, tokens: &[TokenId]) -> Result<()> {
        let Inner { max_tokens, vocabulary, .. } = *self.inner;
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if tokens.len() > max_tokens as usize {
            return Err(Error::TextTooLong { tokens: tokens.len(), most: max_tokens });
        }
        match vocabulary.and_then(|vocabulary| Some((*tokens.iter().find(|token| **token >= vocabulary)?, vocabulary))) {
            Some((token, vocabulary)) => Err(Error::TokenOutOfRange { token, vocabulary }),
            None => Ok(()),
        }
    }
}

impl Inner {
    fn run(&self, texts: &[&[TokenId]], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = match &mut *runner {
            Runner::Decoder(decoder) => decoder.run(texts, pooling),
            Runner::Encoder(encoder) => encoder.run(texts, pooling),
        };
        drop(runner);
        let vectors = vectors?;
        if vectors.iter().flatten().any(|number| !number.is_finite()) {
            return Err(Error::Sampling(crate::sampling::SamplingError::NoToken("the hidden states are not numbers")));
        }
        Ok(vectors)
    }
}
