//! Embeddings: vectors of texts, from a program's hidden states.

use std::path::PathBuf;

use pteron::{ScalarType, Tensor};
use pteron_llm::{Embedder, EmbedderOptions, ModelOptions, Pooling, TokenId};
use pyo3::prelude::*;

use crate::errors::{self, InputError};
use crate::gpu::{self, OnGpu};
use crate::input::{self, Library};
use crate::llm::failed;
use crate::source::Source;

/// Texts that are computed before the next look for signals, such as Ctrl-C.
const BATCH: usize = 64;

/// A program that makes vectors of texts.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeEmbedder(OnGpu<Embedder>);

impl NativeEmbedder {
    /// Loads a program onto the GPU that the process has open.
    pub(crate) fn load(
        py: Python<'_>,
        source: &Source,
        adapter: Option<String>,
        model: ModelOptions,
        max_tokens: Option<u32>,
    ) -> PyResult<Self> {
        let gpu = gpu::open(py, adapter)?;
        let options = EmbedderOptions::default().with_model(model).with_max_tokens(max_tokens);
        let embedder = py.detach(|| source.embedder(&gpu, options)).map_err(|error| failed(py, error))?;
        Ok(Self(OnGpu::new(embedder)))
    }
}

#[pymethods]
impl NativeEmbedder {
    /// Opens a folder or a `.pte` file with its assets: a decoder or an encoder.
    #[staticmethod]
    #[pyo3(signature = (path, *, tokenizer = None, data_path = None, adapter = None, max_tokens = None, memory_budget = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        tokenizer: Option<PathBuf>,
        data_path: Option<PathBuf>,
        adapter: Option<String>,
        max_tokens: Option<u32>,
        memory_budget: Option<u64>,
    ) -> PyResult<Self> {
        let mut options = ModelOptions::default();
        options.memory_budget = memory_budget;
        let source = Source { path: Some(path), tokenizer, data: data_path };
        Self::load(py, &source, adapter, options, max_tokens)
    }

    #[getter]
    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    #[getter]
    fn max_tokens(&self) -> u32 {
        self.0.max_tokens()
    }

    #[getter]
    fn pooling(&self) -> &'static str {
        match self.0.pooling() {
            Pooling::Mean => "mean",
            Pooling::First => "first",
            _ => "last",
        }
    }

    /// The tokens of a text, with those that the tokenizer puts around it.
    fn tokens(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        py.detach(|| self.0.tokens(text)).map_err(errors::model)
    }

    /// The vectors of texts, one row each; a single row without its dimension if `single`.
    #[pyo3(signature = (texts, pooling = None, normalize = true, single = false))]
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<Vec<TokenId>>,
        pooling: Option<&str>,
        normalize: bool,
        single: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        gpu::check_fork()?;
        let pooling = pooling.map_or(Ok(self.0.pooling()), pooling_of)?;
        let embedder = OnGpu::new(self.0.with_pooling(pooling).with_normalize(normalize));
        let mut bytes = Vec::with_capacity(texts.len() * self.0.dimensions() * size_of::<f32>());
        for texts in texts.chunks(BATCH) {
            let vectors = py.detach(|| embedder.embed_tokens_blocking(texts)).map_err(|error| failed(py, error))?;
            bytes.extend(vectors.iter().flatten().flat_map(|number| number.to_ne_bytes()));
            py.check_signals()?;
        }
        let sizes = [texts.len(), self.0.dimensions()].map(u32::try_from);
        let [Ok(rows), Ok(columns)] = sizes else { return Err(InputError::new_err("there are too many texts")) };
        let shape = [rows, columns];
        let shape = if single { &shape[1..] } else { &shape[..] };
        let tensor = Tensor::new(ScalarType::Float, shape, bytes).map_err(errors::program)?;
        input::output(py, tensor, Library::Numpy)
    }
}

fn pooling_of(name: &str) -> PyResult<Pooling> {
    match name {
        "last" => Ok(Pooling::Last),
        "mean" => Ok(Pooling::Mean),
        "first" => Ok(Pooling::First),
        other => Err(InputError::new_err(format!("pooling is \"last\", \"mean\" or \"first\", not {other:?}"))),
    }
}
