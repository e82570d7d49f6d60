//! A program that is opened while it is fetched.

use pteron_format::{PartialFile, Problem, Ptd, Pte};

use crate::bytes::FileBytes;
use crate::error::{Error, Result};
use crate::interpreter::InstructionList;
use crate::program::{FileRange, Program};

/// The files of a program, parts of which have been fetched. Methods and graphs are small; constants are large and are
/// uploaded to the GPU as they arrive, see [`Program::load_streaming`].
///
/// ```no_run
/// use pteron::PartialProgram;
///
/// # fn fetch(start: u64, len: u64) -> Vec<u8> { Vec::new() }
/// # fn run(file_len: u64) -> pteron::Result<()> {
/// let mut opening = PartialProgram::new(file_len);
/// while let Some(part) = opening.needs()? {
///     opening.supply(part.file, part.start, fetch(part.start, part.len));     // more does no harm
/// }
/// let program = opening.finish()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PartialProgram {
    program: PartialFile,
    data: Vec<PartialFile>,
}

impl PartialProgram {
    /// Creates a program in a file of `len` bytes.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { program: PartialFile::new(len), data: Vec::new() }
    }

    /// Adds a file of external data, with the parts that have been read, and returns its number. [`needs`](Self::needs) may
    /// request more of it.
    pub fn attach(&mut self, file: PartialFile) -> usize {
        self.data.push(file);
        self.data.len()
    }

    /// Adds bytes of a file: 0 is the program, others have the number that [`attach`](Self::attach) returned. Bytes that are
    /// still missing are requested again.
    pub fn supply(&mut self, file: usize, start: u64, bytes: Vec<u8>) {
        let parts = match file.checked_sub(1) {
            None => Some(&mut self.program),
            Some(index) => self.data.get_mut(index),
        };
        if let Some(parts) = parts {
            parts.insert(start, bytes);
        }
    }

    /// The next range to supply; `None` if the program is complete. Ranges of external data are included only for attached
    /// files.
    ///
    /// # Errors
    /// A file that is broken.
    pub fn needs(&self) -> Result<Option<FileRange>> {
        match self.clone().finish() {
            Ok(_) => Ok(None),
            Err(Error::NotRead(part)) => Ok(Some(part)),
            Err(Error::Format { source, .. }) if matches!(source.problem, Problem::NoData { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the program, without the bytes of its constants.
    ///
    /// # Errors
    /// [`Error::NotRead`] if [`needs`](Self::needs) requests more; a file that is broken, or lacks data it refers to.
    pub fn finish(self) -> Result<Program> {
        let program = Pte::read(FileBytes::PartialFile(self.program)).map_err(|error| failed(0, error))?;
        let read = |(index, parts)| Ptd::read(FileBytes::PartialFile(parts)).map_err(|error| failed(index + 1, error));
        let data = self.data.into_iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        let program = Program::from_files(program, data).map_err(|error| failed(0, error))?;
        for plan in program.files.pte.program().plans.iter().filter(|plan| !plan.is_constant()) {
            // Instructions that cannot run are rejected at load; their data need not be present.
            if let Ok((instructions, _)) = InstructionList::new(&program.files, plan) {
                instructions.check_read(&program.files)?;
            }
        }
        Ok(program)
    }
}

/// The missing range of a file, or the fault in it.
fn failed(file: usize, error: pteron_format::Error) -> Error {
    let path = || if file == 0 { "program".to_owned() } else { format!("external data {file}") };
    match error.problem {
        Problem::NotLoaded { start, len } => Error::NotRead(FileRange { file, start, len }),
        _ => Error::Format { path: path(), source: Box::new(error) },
    }
}
