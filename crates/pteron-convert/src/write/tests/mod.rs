//! What is written, and that it is written whole or not at all.

mod accidents;
mod content;
mod large;
mod sample;

use std::ops::ControlFlow;
use std::path::Path;

use crate::blueprint::Blueprint;
use crate::error::Result;
use crate::quantise::Scales;
use crate::source::Source;
use crate::write::{Progress, Report, convert};

/// A conversion that nobody interrupts.
fn write(source: &dyn Source, blueprint: Blueprint, path: &Path) -> Result<Report> {
    convert(source, blueprint, Scales::default(), path, &mut going_on)
}

fn going_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
