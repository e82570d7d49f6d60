//! Converts checkpoints as `pteron convert` does, with scales as the exporter chooses them.

use std::ops::ControlFlow;
use std::path::Path;

use pteron_convert::template::{ConvertOptions, WeightFormat};
use pteron_convert::{ProgramTemplate, ScaleMethod, open_checkpoint};

use crate::Failure;
use crate::manifest::Conversion;

/// Converts a checkpoint. Returns the bytes of the program, and keeps its file if a folder is given.
pub(crate) fn convert(checkpoint: &Path, wanted: &Conversion, keep: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let failed = |error: pteron_convert::Error| Failure::Output(format!("conversion: {error}"));
    let source = open_checkpoint(checkpoint).map_err(failed)?;
    let options = ConvertOptions::new(wanted.context)
        .with_max_seq_length(wanted.longest_call)
        .with_linear_format(WeightFormat::from_group_size(wanted.linear_group))
        .with_embedding_format(WeightFormat::from_group_size(wanted.embedding_group))
        .with_full_logits(wanted.full_logits)
        .with_float16(false);
    source.check_context(options.max_context_length).map_err(failed)?;
    let template = ProgramTemplate::new(source.config(), &options, &source.metadata()).map_err(failed)?;
    let path = match keep {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
            folder.join("program.pte")
        }
        None => std::env::temp_dir().join(format!("pteron-conform-{}.pte", std::process::id())),
    };
    let mut no_progress = |_| ControlFlow::Continue(());
    pteron_convert::convert(&*source, template, ScaleMethod::Exporter, &path, &mut no_progress).map_err(failed)?;
    let bytes = std::fs::read(&path).map_err(|error| Failure::file(&path, &error));
    if keep.is_none() {
        let _ = std::fs::remove_file(&path);
    }
    bytes
}
