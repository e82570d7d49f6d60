//! A language model: a loaded program with its tokenizer, chat template and metadata.

use std::sync::Arc;

use pteron::{ConstantValue, Gpu, LoadOptions, Method, OnProgress, Precision, Program, ScalarType, TensorSpec, Tuning};

use crate::KvDtype;
use crate::assets::ModelAssets;
use crate::decode_step::{samples_tokens, with_token_sampling};
use crate::error::{Error, Result};
use crate::metadata::{Constant, Metadata, MetadataError, PartialMetadata};
use crate::prompt::PromptEncoder;
#[cfg(feature = "templates")]
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// How a model is loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelOptions {
    /// The method that takes tokens and a position and returns logits.
    pub method: String,
    /// Metadata that overrides the model's files and what the program states.
    pub metadata: PartialMetadata,
    /// Bytes of GPU memory the model may use in all, with the states of its sessions.
    pub memory_budget: Option<u64>,
    /// Called with the progress of loading.
    pub progress: Option<OnProgress>,
    /// The precision of the kernels. The default is fast, which seldom changes a sampled token.
    pub precision: Precision,
    /// The choice among kernels that compute the same.
    pub tuning: Tuning,
    /// The element type of the KV cache; by default 16-bit floats where the GPU has them and the precision is fast, else 32-bit floats.
    pub kv_dtype: KvDtype,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            method: "forward".to_owned(),
            metadata: PartialMetadata::default(),
            memory_budget: None,
            progress: None,
            precision: Precision::Fast,
            tuning: Tuning::default(),
            kv_dtype: KvDtype::Auto,
        }
    }
}

impl ModelOptions {
    /// Selects the method that takes tokens and a position and returns logits.
    #[must_use]
    pub fn with_method(mut self, name: impl Into<String>) -> Self {
        self.method = name.into();
        self
    }

    /// Overrides metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: PartialMetadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Limits the GPU memory of the model and its sessions, in bytes.
    #[must_use]
    pub fn with_memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Reports the progress of loading.
    #[must_use]
    pub fn with_progress(mut self, listener: OnProgress) -> Self {
        self.progress = Some(listener);
        self
    }

    /// Sets the precision of the kernels.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Selects among kernels that compute the same.
    #[must_use]
    pub fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Sets the element type of the KV cache.
    #[must_use]
    pub fn with_kv_dtype(mut self, dtype: KvDtype) -> Self {
        self.kv_dtype = dtype;
        self
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
    encoder: PromptEncoder,
}

impl Model {
    /// Loads a program as a language model.
    ///
    /// # Errors
    /// A program without such a method or that is no language model with a KV cache, a tokenizer that does not fit it, or too little
    /// GPU memory.
    pub async fn load(gpu: &Gpu, program: &Program, assets: impl Into<ModelAssets>, options: &ModelOptions) -> Result<Self> {
        let assets = assets.into().with_metadata(options.metadata.clone());
        // Before anything is uploaded, so that a wrong tokenizer costs no time.
        PartialMetadata::from_program(program)?;
        PartialMetadata::from_signature(program, &options.method)?;
        let load = LoadOptions::default()
            .with_memory_budget(options.memory_budget)
            .with_progress(options.progress.clone())
            .with_precision(options.precision)
            .with_tuning(options.tuning)
            .with_state_dtype(options.kv_dtype);
        let load = with_token_sampling(load)?;
        let method = program.load(gpu, &options.method, &load).await?;
        Self::new(program, method, assets)
    }

    /// Creates a language model from a method that was loaded [with token sampling](with_token_sampling).
    ///
    /// # Errors
    /// A method that is no language model with a KV cache, or a tokenizer that does not fit it.
    pub fn new(program: &Program, method: Method, assets: impl Into<ModelAssets>) -> Result<Self> {
        let assets = assets.into();
        let tokenizer = assets.tokenizer;
        if !samples_tokens(&method) {
            return Err(Error::NotALanguageModel("its method was not loaded with token sampling".to_owned()));
        }
        let metadata = Metadata::of(program, &method, assets.metadata, Some(&tokenizer))?;
        metadata.check_tokenizer(&tokenizer)?;
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let inner = Arc::new(Inner {
            method,
            encoder: PromptEncoder {
                tokenizer,
                #[cfg(feature = "templates")]
                chat_template: assets.chat_template,
                metadata,
            },
        });
        Ok(Self { inner })
    }

    /// The model's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.inner.encoder.metadata
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.encoder.tokenizer
    }

    /// The chat template, where the model has one.
    #[cfg(feature = "templates")]
    #[must_use]
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.inner.encoder.chat_template.as_ref()
    }

    pub(crate) fn encoder(&self) -> &PromptEncoder {
        &self.inner.encoder
    }

    /// The most tokens of one call.
    pub(crate) fn max_chunk(&self) -> usize {
        (self.metadata().max_prefill as usize).max(1)
    }

    /// The loaded method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.inner.method
    }
}

impl Metadata {
    /// Collects the metadata that a session needs of a loaded method. `given` has priority, then the method's shapes, the program,
    /// and the tokenizer where there is one.
    ///
    /// # Errors
    /// A value that is missing or invalid, or a method that is no language model with a KV cache.
    pub fn of(program: &Program, method: &Method, given: PartialMetadata, tokenizer: Option<&Tokenizer>) -> Result<Self> {
        let shapes = shapes(method.inputs(), method.outputs())?;
        let stated = given.or(shapes.clone()).or(PartialMetadata::from_program(program)?);
        // A method that takes a position has kept what came before it. Some exporters do not say so.
        let mut metadata = stated.or(PartialMetadata::default().with_kv_cache(true));
        // The method may be loaded with smaller shapes than the other sources claim.
        metadata.max_prefill = metadata.max_prefill.into_iter().chain(shapes.max_prefill).min();
        // Tokens beyond the row of logits would be looked up outside of the model.
        if let (Some(claimed), Some(logits)) = (metadata.vocab_size, shapes.vocab_size)
            && claimed > logits
        {
            return Err(MetadataError::Vocabulary { tokenizer: claimed, program: logits }.into());
        }
        let metadata = match tokenizer {
            Some(tokenizer) => metadata.or_tokenizer(tokenizer).resolve()?,
            None => metadata.resolve()?,
        };
        if !metadata.kv_cache {
            return Err(Error::NotALanguageModel("it was exported without a KV cache; export it with one".to_owned()));
        }
        Ok(metadata)
    }
}

impl PartialMetadata {
    /// Reads the constant methods of a program.
    ///
    /// # Errors
    /// A method that returns an invalid value.
    pub fn from_program(program: &Program) -> Result<Self> {
        let value = |value: &ConstantValue| match value {
            ConstantValue::Int(value) => Constant::Int(*value),
            ConstantValue::Bool(value) => Constant::Bool(*value),
            _ => Constant::Other,
        };
        let outputs = program.constant_outputs().map(|(name, values)| (name, values.iter().map(value).collect()));
        Ok(Self::from_constants(outputs)?)
    }

    /// Reads the shapes of a method, which need not be loaded.
    ///
    /// # Errors
    /// [`Error::NotALanguageModel`] for a method that does not take tokens and a position, and errors of the program.
    pub fn from_signature(program: &Program, method: &str) -> Result<Self> {
        let (inputs, outputs) = program.signature(method)?;
        shapes(&inputs, &outputs)
    }
}

/// Metadata from a method's signature. Inputs: integer tokens `[1, S]` and an integer position, `[1]` or one per token. Output: logits,
/// vocabulary last.
fn shapes(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<PartialMetadata> {
    let integers = |index: usize| {
        let spec = inputs.get(index).filter(|spec| matches!(spec.scalar_type, ScalarType::Int | ScalarType::Long));
        spec.map(|spec| spec.shape.as_slice())
    };
    match (integers(0), integers(1), outputs.first().and_then(|logits| logits.shape.last())) {
        (Some([1, longest]), Some([positions]), Some(&vocabulary)) if *positions == 1 || positions == longest => {
            Ok(PartialMetadata {
                max_prefill: Some(*longest),
                vocab_size: Some(vocabulary),
                dynamic_shape: inputs.first().map(|spec| spec.dynamic),
                ..PartialMetadata::default()
            })
        }
        _ => {
            let reason = "it must take tokens [1, S] and a position [1] or [S] and give logits".to_owned();
            Err(Error::NotALanguageModel(reason))
        }
    }
}
