//! Models that were pulled: `pteron models`, and `--model OWNER/NAME` of other commands.

mod args;
mod list;
#[cfg(feature = "pull")]
pub(crate) use list::Entry;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use args::ModelsArgs;
use pteron_hub::{Error, ModelRef, Models};

use crate::failure::Failure;
use crate::{folders, terminal, units};

/// Where a program and the files that belong to it are.
pub(crate) struct Located {
    pub(crate) program: PathBuf,
    /// External constants that were pulled with it.
    pub(crate) data: Vec<PathBuf>,
    /// The topmost folder that may have its tokenizer; that of the program, if it was not pulled.
    pub(crate) top: Option<PathBuf>,
}

/// Finds the program that an argument names: a file, or a model that was pulled. Fetches nothing.
pub(crate) fn locate(path: &Path) -> Result<Located, Failure> {
    let plain = Located { program: path.to_owned(), data: Vec::new(), top: None };
    let Some(reference) = reference(path) else { return Ok(plain) };
    let Ok(models) = folder() else { return Ok(plain) };
    let found = models.find(&reference).and_then(|pulled| pulled.program(reference.file()));
    match found {
        Ok(files) => Ok(Located { program: files.program, data: files.data, top: Some(files.folder) }),
        Err(error @ Error::NotPulled { .. }) => {
            Err(Failure::NeitherFileNorModel { path: path.to_owned(), error: Box::new(error) })
        }
        Err(error) => Err(error.into()),
    }
}

/// Replaces a path that names a pulled model by its program, and adds its external constants where none are named.
pub(crate) fn replace(path: &mut PathBuf, data: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let located = locate(path)?;
    *path = located.program;
    if data.is_empty() {
        *data = located.data;
    }
    Ok(())
}

/// The model that an argument names, if it is no file.
fn reference(path: &Path) -> Option<ModelRef> {
    if path.exists() {
        return None;
    }
    let reference: ModelRef = path.to_str()?.parse().ok()?;
    // A path of a file that does not exist.
    let is_file = reference.file().is_none() && path.extension().is_some_and(|extension| extension == "pte");
    (!is_file).then_some(reference)
}

/// The folder of pulled models.
pub(crate) fn folder() -> Result<Models, Failure> {
    folders::models().map(Models::new).ok_or(Failure::NoModelsFolder)
}

/// Runs `pteron models`.
pub(crate) fn run(args: &ModelsArgs) -> ExitCode {
    let result = match &args.command {
        None => list::run(args.json),
        Some(args::ModelsCommand::Remove(remove)) => {
            remove.models.iter().try_for_each(|model| remove_model(model, remove.quiet))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

fn remove_model(model: &ModelRef, quiet: bool) -> Result<(), Failure> {
    let bytes = folder()?.remove(model)?;
    if !quiet {
        terminal::note(&format!("removed {model}: {}", units::bytes(bytes)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_name_no_models() {
        for (text, expected) in [
            ("owner/name", true),
            ("owner/name@v1:model.pte", true),
            ("owner/name:model.pte", true),
            ("folder/model.pte", false),
            ("model.pte", false),
            ("/abs/olute", false),
            ("../up", false),
            ("src/models", false),
        ] {
            assert_eq!(reference(Path::new(text)).is_some(), expected, "{text}");
        }
    }
}
