//! Opens a model from a folder: program, tokenizer, chat template and metadata in one call.

use std::path::{Path, PathBuf};

use pteron::{Gpu, GpuOptions, Program};

use crate::assets::ModelAssets;
use crate::error::{Error, Result};
use crate::model::{Model, ModelOptions};

impl Model {
    /// Opens a model on the default GPU: a `.pte` file, or a folder with one, and the files in its folder. These are
    /// `tokenizer.json` or `tokenizer.model` (required), `tokenizer_config.json`, `chat_template.jinja` and `pteron.json`.
    ///
    /// The future blocks its thread while files are read and weights are uploaded, for seconds with a large model. In an async
    /// runtime, run it on a thread for blocking work, such as tokio's `spawn_blocking` with [`open_blocking`](Self::open_blocking).
    ///
    /// # Errors
    /// A file is missing or malformed ([`Error::File`]), there is no GPU or it has too little memory, or the program is not a language
    /// model.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let program = program_in(path.as_ref())?;
        let gpu = Gpu::open(&GpuOptions::default()).await.map_err(pteron::Error::from)?;
        Self::open_program(&gpu, &program, &ModelOptions::default()).await
    }

    /// Opens a model as [`open`](Self::open) does, with a GPU and options of the caller.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_on(gpu: &Gpu, path: impl AsRef<Path>, options: &ModelOptions) -> Result<Self> {
        let program = program_in(path.as_ref())?;
        Self::open_program(gpu, &program, options).await
    }

    /// Opens a model as [`open`](Self::open) does and blocks the thread until it is loaded.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self> {
        pteron::block_on(Self::open(path))
    }

    async fn open_program(gpu: &Gpu, path: &Path, options: &ModelOptions) -> Result<Self> {
        let program = Program::open(path)?;
        let assets = ModelAssets::beside(path)?;
        Self::load(gpu, &program, assets, options).await
    }
}

/// Finds the program that a path names: the path itself, or the only `.pte` file of a folder.
pub(crate) fn program_in(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let fail = |source| Error::File { path: path.to_owned(), source: Box::new(source) };
    let entries = std::fs::read_dir(path).map_err(|error| fail(Error::Read(error)))?;
    let mut programs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "pte") && path.is_file())
        .collect();
    match (programs.pop(), programs.len()) {
        (Some(program), 0) => Ok(program),
        (last, others) => Err(fail(Error::AmbiguousFolder { found: others + usize::from(last.is_some()) })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_needs_exactly_one_program() {
        let folder = pteron_files::TemporaryFolder::new("pteron-open").unwrap();
        let found = |path: &Path| match program_in(path) {
            Err(Error::File { source, .. }) => match *source {
                Error::AmbiguousFolder { found } => Err(found),
                other => panic!("{other}"),
            },
            other => Ok(other.unwrap()),
        };
        assert_eq!(found(folder.path()), Err(0));
        let first = folder.path().join("a.pte");
        std::fs::write(&first, b"").unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), b"").unwrap();
        assert_eq!(found(folder.path()), Ok(first.clone()));
        assert_eq!(found(&first), Ok(first));
        std::fs::write(folder.path().join("b.pte"), b"").unwrap();
        assert_eq!(found(folder.path()), Err(2));
    }
}
