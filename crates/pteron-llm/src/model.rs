//! A language model: a program with its tokenizer and what must be known of both.

use std::sync::Arc;

use pteron::{ConstantValue, Gpu, LoadOptions, Method, OnProgress, Precision, Program, StateDtype, Tuning};

use crate::error::{Error, Result};
use crate::metadata::{Constant, Metadata, MetadataError, PartialMetadata};
use crate::tokenizer::Tokenizer;

/// How a model is loaded.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The method that takes tokens and a position and gives logits.
    pub method: String,
    /// PartialMetadata from flags or a sidecar, which come before what the program says.
    pub facts: PartialMetadata,
    /// Bytes of GPU memory the model may use in all, with the states of its sessions.
    pub memory_budget: Option<u64>,
    /// Told how far loading is.
    pub progress: Option<OnProgress>,
    /// How exactly kernels compute: fast unless told otherwise, which seldom chooses another token.
    pub precision: Precision,
    /// Which of several kernels that serve the same plan are run.
    pub tuning: Tuning,
    /// How exactly attention remembers keys and values: as the program has them unless told otherwise.
    pub kv_dtype: StateDtype,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            method: "forward".to_owned(),
            facts: PartialMetadata::default(),
            memory_budget: None,
            progress: None,
            precision: Precision::Fast,
            tuning: Tuning::default(),
            kv_dtype: StateDtype::F32,
        }
    }
}

/// A model ready for sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Model {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    method: Method,
    tokenizer: Tokenizer,
    metadata: Metadata,
}

impl Model {
    /// Loads a program as a language model.
    ///
    /// # Errors
    /// A program without such a method, one that is no language model with a KV cache, a tokenizer that does not fit it, or a
    /// GPU that has no room.
    pub async fn load(gpu: &Gpu, program: &Program, tokenizer: Tokenizer, options: &ModelOptions) -> Result<Self> {
        // Before anything is uploaded, so that a wrong tokenizer costs no time.
        PartialMetadata::from_program(program)?;
        let load = LoadOptions {
            choose_tokens: true,
            memory_budget: options.memory_budget,
            progress: options.progress.clone(),
            precision: options.precision,
            tuning: options.tuning,
            state_dtype: options.kv_dtype,
            ..LoadOptions::default()
        };
        let method = program.load(gpu, &options.method, &load).await?;
        Self::new(program, method, tokenizer, options.facts.clone())
    }

    /// A method that is loaded already, with [`choose_tokens`](LoadOptions::choose_tokens), as a language model. `facts` come before
    /// what the program says.
    ///
    /// # Errors
    /// A method that is no language model with a KV cache, or a tokenizer that does not fit it.
    pub fn new(program: &Program, method: Method, tokenizer: Tokenizer, facts: PartialMetadata) -> Result<Self> {
        if !method.chooses_tokens() {
            return Err(Error::NotALanguageModel("its method was not loaded to choose tokens".to_owned()));
        }
        let metadata = Metadata::of(program, &method, facts, Some(&tokenizer))?;
        metadata.check_tokenizer(&tokenizer)?;
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let inner = Arc::new(Inner { method, tokenizer, metadata });
        Ok(Self { inner })
    }

    /// What is known of the model.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.inner.metadata
    }

    /// Text to tokens and back.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.tokenizer
    }

    /// The method behind it.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.inner.method
    }
}

impl Metadata {
    /// All that a session must know of a loaded method: what is `given` comes first, then what the method's shapes say, the
    /// program, and the tokenizer where there is one.
    ///
    /// # Errors
    /// A fact that is missing or cannot be, or a method that is no language model with a KV cache.
    pub fn of(program: &Program, method: &Method, given: PartialMetadata, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let shapes = shapes(method)?;
        let mut facts = given.or(shapes.clone()).or(PartialMetadata::from_program(program)?);
        // Whoever loaded the method may have made room for less than others say it takes.
        facts.max_prefill = facts.max_prefill.into_iter().chain(shapes.max_prefill).min();
        // A row of logits has as many as it has; tokens beyond them would be looked up outside of the model.
        if let (Some(claimed), Some(logits)) = (facts.vocab_size, shapes.vocab_size)
            && claimed > logits
        {
            return Err(MetadataError::Vocabulary { tokenizer: claimed, program: logits }.into());
        }
        let facts = match tokenizer {
            Some(tokenizer) => facts.or_tokenizer(tokenizer),
            None => facts,
        };
        let metadata = facts.resolve()?;
        if !metadata.kv_cache {
            return Err(Error::NotALanguageModel("it was exported without a KV cache; export it with one".to_owned()));
        }
        Ok(metadata)
    }
}

impl PartialMetadata {
    /// What the constant methods of a program say.
    ///
    /// # Errors
    /// A method whose answer makes no sense.
    pub fn from_program(program: &Program) -> Result<Self> {
        let value = |value: &ConstantValue| match value {
            ConstantValue::Int(value) => Constant::Int(*value),
            ConstantValue::Bool(value) => Constant::Bool(*value),
            _ => Constant::Other,
        };
        let answers = program.constant_outputs().map(|(name, values)| (name, values.iter().map(value).collect()));
        Ok(Self::from_constants(answers)?)
    }
}

/// What the shapes of a method say: tokens `[1, S]` and a position `[1]` in, logits with the vocabulary last out.
fn shapes(method: &Method) -> Result<PartialMetadata> {
    let shape = |specs: &[pteron::TensorSpec], index: usize| specs.get(index).map(|spec| spec.shape.clone());
    let (tokens, position, logits) = (shape(method.inputs(), 0), shape(method.inputs(), 1), shape(method.outputs(), 0));
    match (tokens.as_deref(), position.as_deref(), logits.as_deref().and_then(<[u32]>::last)) {
        (Some([1, longest]), Some([1]), Some(&vocabulary)) => Ok(PartialMetadata {
            max_prefill: Some(*longest),
            vocab_size: Some(vocabulary),
            dynamic_shape: method.inputs().first().map(|spec| spec.dynamic),
            ..PartialMetadata::default()
        }),
        _ => {
            let reason = "it must take tokens [1, S] and a position [1] and give logits".to_owned();
            Err(Error::NotALanguageModel(reason))
        }
    }
}
