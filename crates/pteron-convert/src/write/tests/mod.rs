//! Tests of the writer: the bytes it writes, and that a file appears complete or not at all.

mod content;
mod failures;
mod large;
mod sample;

use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Result;
use crate::quantise::ScaleMethod;
use crate::source::Source;
use crate::template::ProgramTemplate;
use crate::write::{Progress, Report, convert};

/// Runs a conversion without interruption.
fn write(source: &dyn Source, template: ProgramTemplate, path: &Path) -> Result<Report> {
    convert(source, template, ScaleMethod::default(), path, &mut going_on)
}

fn going_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
