//! Where a language model comes from: read once for its sessions, and again for its batches and its embeddings.

use std::path::PathBuf;

use pteron::{FileBytes, Gpu, Program, block_on};
use pteron_format::Pte;
use pteron_llm::{AssetPaths, Embedder, EmbedderOptions, Engine, EngineOptions, Model, ModelAssets, ModelOptions};

/// The files of a model; without a path, the bundled one.
pub(crate) struct Source {
    pub(crate) path: Option<PathBuf>,
    pub(crate) tokenizer: Option<PathBuf>,
    pub(crate) data: Option<PathBuf>,
}

impl Source {
    pub(crate) fn model(&self, gpu: &Gpu, options: &ModelOptions) -> pteron_llm::Result<Model> {
        if let Some(path) = self.as_folder() {
            return block_on(Model::open_on(gpu, path, options));
        }
        let (program, assets) = self.read()?;
        block_on(Model::load(gpu, &program, assets, options))
    }

    pub(crate) fn engine(&self, gpu: &Gpu, options: EngineOptions) -> pteron_llm::Result<Engine> {
        if let Some(path) = self.as_folder() {
            return block_on(Engine::open_on(gpu, path, options));
        }
        let (program, assets) = self.read()?;
        block_on(Engine::load(gpu, &program, assets, options))
    }

    pub(crate) fn embedder(&self, gpu: &Gpu, options: EmbedderOptions) -> pteron_llm::Result<Embedder> {
        if let Some(path) = self.as_folder() {
            return block_on(Embedder::open_on(gpu, path, options));
        }
        let (program, assets) = self.read()?;
        block_on(Embedder::load(gpu, &program, assets, options))
    }

    /// The path, if everything is beside it.
    fn as_folder(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.tokenizer.is_none() && self.data.is_none())
    }

    fn read(&self) -> pteron_llm::Result<(Program, ModelAssets)> {
        let Some(path) = &self.path else { return bundled() };
        let data: Vec<PathBuf> = self.data.iter().cloned().collect();
        let program = Program::open_with(path, &data)?;
        let paths = self.tokenizer.iter().cloned().fold(AssetPaths::beside(path), AssetPaths::with_tokenizer);
        Ok((program, paths.read()?))
    }
}

/// The bundled model: program and assets.
fn bundled() -> pteron_llm::Result<(Program, ModelAssets)> {
    let file = FileBytes::Static(pteron_demo_model::PROGRAM);
    let format = |source| pteron::Error::Format { path: "the bundled model".to_owned(), source: Box::new(source) };
    let program = Program::from_files(Pte::read(file).map_err(format)?, Vec::new()).map_err(format)?;
    let tokenizer = pteron_llm::Tokenizer::from_bytes(pteron_demo_model::TOKENIZER)?;
    Ok((program, tokenizer.into()))
}
