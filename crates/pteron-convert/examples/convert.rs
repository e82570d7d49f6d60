//! Converts a checkpoint, or a small model with synthetic weights, to a program.
//!
//! ```text
//! cargo run -p pteron-convert --example convert                                # synthetic weights, to a temporary folder
//! cargo run --release -p pteron-convert --example convert -- CHECKPOINT model.pte   # a Hugging Face folder or a GGUF file
//! ```

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pteron_convert::{ConvertOptions, ProgramTemplate, ScaleMethod, Source, Synthetic, convert, open_checkpoint, synthetic};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let temporary = pteron_files::TemporaryFolder::new("pteron-convert-example-")?;
    let (source, out): (Box<dyn Source>, PathBuf) = match arguments.as_slice() {
        [] => {
            let config = synthetic::parse("layers=2,width=64,heads=4,kv=2,hidden=96,vocab=256")?;
            (Box::new(Synthetic::new(config, 0)), temporary.path().join("model.pte"))
        }
        [checkpoint, out] => (open_checkpoint(Path::new(checkpoint))?, out.into()),
        _ => return Err("expected no arguments, or a checkpoint and the program to write".into()),
    };
    let options = ConvertOptions::new(source.config().max_position_embeddings.min(2048));
    source.check_context(options.max_context_length)?;
    let metadata = source.metadata();
    let template = ProgramTemplate::new(source.config(), &options, &metadata)?;
    let mut percent = 0;
    let report = convert(&*source, template, ScaleMethod::default(), &out, &mut |progress| {
        let now = progress.done * 100 / progress.total.max(1);
        if now >= percent + 25 {
            percent = now;
            println!("{now} %");
        }
        ControlFlow::Continue(())
    })?;
    println!("{}: {} bytes, relative quantisation error {:.4}", out.display(), report.bytes, report.relative_error);
    for sidecar in metadata.sidecars {
        println!("put {} ({} bytes) beside it", sidecar.name, sidecar.bytes.len());
    }
    Ok(())
}
