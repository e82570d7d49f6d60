//! The bundled model.

use pteron::{FileBytes, Program};
use pteron_demo_model::{PROGRAM, TOKENIZER};
use pteron_format::Pte;
use pteron_llm::Tokenizer;

use crate::failure::Failure;

/// Its name in messages.
pub(crate) const NAME: &str = "the bundled model";

/// Opens the program without its tokenizer.
pub(crate) fn program() -> Result<Program, Failure> {
    let broken = |error: pteron_format::Error| pteron::Error::Format { path: NAME.to_owned(), source: Box::new(error) };
    let pte = Pte::read(FileBytes::Static(PROGRAM)).map_err(broken).map_err(pteron_llm::Error::from)?;
    Ok(Program::from_files(pte, Vec::new()).map_err(broken).map_err(pteron_llm::Error::from)?)
}

pub(super) fn open() -> Result<(Program, Tokenizer), Failure> {
    Ok((program()?, Tokenizer::from_bytes(TOKENIZER).map_err(pteron_llm::Error::from)?))
}
