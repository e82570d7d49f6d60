//! A program that is fetched in parts.

use pteron_format::{PartialFile, Problem, Ptd, Pte};

use crate::bytes::FileBytes;
use crate::error::{Error, Result};
use crate::interpreter::InstructionList;
use crate::program::{FileRange, Program};

/// The files of a program, of which parts have been fetched. Methods and graphs take few bytes; constants, which are many, are
/// written to the GPU as they come, see [`Program::load_streaming`].
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
    /// A program in a file of so many bytes.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self { program: PartialFile::new(len), data: Vec::new() }
    }

    /// Adds a file of external data, as much of it as has been read; its number. [`needs`](Self::needs) may ask for more afterwards.
    pub fn attach(&mut self, file: PartialFile) -> usize {
        self.data.push(file);
        self.data.len()
    }

    /// Adds bytes of a file: 0 is the program, others have the number that [`attach`](Self::attach) gave them. Of less than was asked
    /// for, the same is asked for again.
    pub fn supply(&mut self, file: usize, start: u64, bytes: Vec<u8>) {
        let parts = match file.checked_sub(1) {
            None => Some(&mut self.program),
            Some(index) => self.data.get_mut(index),
        };
        if let Some(parts) = parts {
            parts.insert(start, bytes);
        }
    }

    /// What must be supplied before there is a program; `None` if nothing more. Files of external data that are not attached yet
    /// are none of it.
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

    /// The program, without the bytes of its constants.
    ///
    /// # Errors
    /// [`Error::NotRead`] if [`needs`](Self::needs) names more; a file that is broken, or lacks data it refers to.
    pub fn finish(self) -> Result<Program> {
        let program = Pte::read(FileBytes::PartialFile(self.program)).map_err(|error| failed(0, error))?;
        let read = |(index, parts)| Ptd::read(FileBytes::PartialFile(parts)).map_err(|error| failed(index + 1, error));
        let data = self.data.into_iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        let program = Program::from_files(program, data).map_err(|error| failed(0, error))?;
        for plan in program.files.pte.program().plans.iter().filter(|plan| !plan.is_constant()) {
            // What cannot run is refused when it is loaded; its data need not be there.
            if let Ok(instructions) = InstructionList::new(&program.files, plan) {
                instructions.check_read(&program.files)?;
            }
        }
        Ok(program)
    }
}

/// What a file lacks, or what is wrong with it.
fn failed(file: usize, error: pteron_format::Error) -> Error {
    let path = || if file == 0 { "program".to_owned() } else { format!("external data {file}") };
    match error.problem {
        Problem::NotLoaded { start, len } => Error::NotRead(FileRange { file, start, len }),
        _ => Error::Format { path: path(), source: Box::new(error) },
    }
}
