//! Opens the program to measure.

use std::ops::ControlFlow;

use pteron::Program;
use pteron_convert::{ConvertOptions, ProgramTemplate, ScaleMethod, Source, Synthetic, synthetic};
use pteron_files::TemporaryFolder;
use pteron_format::Bytes;
use pteron_llm::PartialMetadata;

use super::args::TargetArgs;
use crate::failure::{Failure, Reason};
use crate::models::{self, Located};
use crate::{files, generate, interrupts};

/// A program and its name.
pub(crate) struct Target {
    pub(crate) program: Program,
    /// The name of its file, without its folder.
    pub(crate) name: String,
    /// Bytes of the program and of the files that belong to it.
    pub(super) bytes: u64,
    /// Metadata from flags and `pteron.json`.
    pub(super) metadata: PartialMetadata,
    /// The folder of a synthetic program, while it is mapped.
    _temporary: Option<TemporaryFolder>,
}

/// Opens the program to measure; a synthetic one gets this context length.
pub(super) fn open(args: &TargetArgs, context: u32) -> Result<Target, Failure> {
    if let Some(shape) = &args.synthetic {
        return synthetic(shape, context);
    }
    let flags =
        PartialMetadata::default().with_context_length(args.context_length).with_kv_cache(args.kv_cache.then_some(true));
    let located = args.model.as_deref().map(models::locate).transpose()?;
    let metadata = flags.or(generate::sidecar(located.as_ref())?);
    let Some(Located { program: path, data, .. }) = &located else {
        let program = generate::bundled_program()?;
        let bytes = program.pte().file().file_len();
        return Ok(Target { program, name: generate::BUNDLED_NAME.to_owned(), bytes, metadata, _temporary: None });
    };
    let pte = files::open_program(path)?;
    let data = if args.data.is_empty() { data } else { &args.data };
    let data = data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    let bytes = pte.file().file_len() + data.iter().map(|data| data.file().file_len()).sum::<u64>();
    let program = Program::from_files(pte, data).map_err(|error| Failure::file(path, error))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Target { program, name, bytes, metadata, _temporary: None })
}

/// Writes a program of a shape with synthetic weights to a file that lives as long as the run.
pub(super) fn synthetic(shape: &str, context: u32) -> Result<Target, Failure> {
    let source = Synthetic::new(synthetic::parse(shape)?, 0);
    let temporary = TemporaryFolder::new("pteron-bench-")
        .map_err(|error| Failure::file(&std::env::temp_dir(), Reason::Unwritten(error)))?;
    let path = temporary.path().join("model.pte");
    let options = ConvertOptions::new(context);
    let template = ProgramTemplate::new(source.config(), &options, &source.metadata())?;
    let mut until_interrupted =
        |_| if interrupts::interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    pteron_convert::convert(&source, template, ScaleMethod::default(), &path, &mut until_interrupted)?;
    let pte = files::open_program(&path)?;
    let bytes = pte.file().file_len();
    // On Unix a mapped file needs no name: removing it now leaves nothing, however the process ends.
    let temporary = if cfg!(unix) { None } else { Some(temporary) };
    let program = Program::from_files(pte, Vec::new()).map_err(|error| Failure::file(&path, error))?;
    Ok(Target { program, name: shape.to_owned(), bytes, metadata: PartialMetadata::default(), _temporary: temporary })
}
