//! One file: from where it stopped to its checksum.

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use pteron_files::ResumableFile;

use crate::checksum::{Checksum, Hasher};
use crate::endpoint::Hub;
use crate::error::{Error, Result};
use crate::http::{Head, RequestError};
use crate::name::ModelRef;
use crate::pull::{Reporter, Stage};
use crate::transfer::{Part, Transfer};

/// A file to fetch.
pub(crate) struct Wanted<'a> {
    pub(crate) model: &'a ModelRef,
    pub(crate) commit: &'a str,
    pub(crate) path: &'a str,
    pub(crate) size: u64,
    pub(crate) checksum: Checksum,
}

/// A file on its way: its bytes so far and their checksum.
struct Arriving {
    file: ResumableFile,
    hasher: Hasher,
}

/// How an attempt ended without an error that ends the pull.
enum Attempt {
    Complete,
    /// The connection was lost, or the server asks to wait.
    Again {
        host: String,
        problem: String,
        error: Option<Error>,
        wait: Option<std::time::Duration>,
    },
    /// What had arrived is of no use, so it was dropped.
    FromStart,
}

impl Wanted<'_> {
    /// Fetches the file to `partial`, from where an earlier attempt stopped, and moves it to `target` when its checksum is right.
    pub(crate) fn fetch(&self, hub: &Hub, partial: &Path, target: &Path, reporter: &mut Reporter<'_>) -> Result<()> {
        let folder = target.parent().unwrap_or(target);
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        // A checksum that is wrong after bytes of an earlier run may be theirs: once more without them.
        let mut trusted = false;
        loop {
            let mut arriving = self.open(partial, reporter)?;
            trusted |= arriving.file.is_empty();
            self.receive(hub, &mut arriving, partial, reporter)?;
            let found = arriving.hasher.finish();
            if found == self.checksum {
                return arriving.file.commit(target).map_err(Error::write(target));
            }
            arriving.file.remove().map_err(Error::write(partial))?;
            if trusted {
                return Err(Error::Checksum {
                    model: self.model.name().to_owned(),
                    file: self.path.to_owned(),
                    expected: self.checksum.to_string(),
                    found: found.to_string(),
                });
            }
        }
    }

    /// Opens what has arrived, and computes its checksum.
    fn open(&self, partial: &Path, reporter: &mut Reporter<'_>) -> Result<Arriving> {
        let mut file = ResumableFile::open(partial).map_err(Error::write(partial))?;
        if file.len() > self.size {
            file.clear().map_err(Error::write(partial))?;
        }
        let mut hasher = self.checksum.hasher(self.size);
        let mut stopped = false;
        let read = file.read_back(|bytes| {
            hasher.update(bytes);
            stopped |= reporter.tick(Stage::Verifying(self.path)).is_break();
            if stopped { Err(std::io::Error::from(std::io::ErrorKind::Interrupted)) } else { Ok(()) }
        });
        if stopped {
            return Err(reporter.interrupted());
        }
        read.map_err(Error::read(partial))?;
        reporter.set_file(file.len());
        Ok(Arriving { file, hasher })
    }

    /// Requests the missing bytes until all are there.
    fn receive(&self, hub: &Hub, arriving: &mut Arriving, partial: &Path, reporter: &mut Reporter<'_>) -> Result<()> {
        let mut failed = 0;
        let mut restarts = 0;
        while arriving.file.len() < self.size {
            let before = arriving.file.len();
            match self.attempt(hub, arriving, partial, reporter)? {
                Attempt::Complete => {}
                Attempt::FromStart if restarts > 0 => return Err(self.malformed(hub, "is not the part that was asked for")),
                Attempt::FromStart => restarts += 1,
                Attempt::Again { host, problem, error, wait } => {
                    failed = if arriving.file.len() > before { 1 } else { failed + 1 };
                    let Some(wait) = hub.retries.wait(failed, wait) else {
                        return Err(error.unwrap_or(Error::Network { host, problem }));
                    };
                    reporter.pause(&problem, wait)?;
                }
            }
        }
        Ok(())
    }

    fn attempt(&self, hub: &Hub, arriving: &mut Arriving, partial: &Path, reporter: &mut Reporter<'_>) -> Result<Attempt> {
        let address = hub.file_address(self.model, self.commit, self.path);
        let transfer = Transfer::start(&hub.client, address, arriving.file.len());
        let mut host = String::new();
        loop {
            let Some(part) = transfer.next(&mut || reporter.tick(Stage::Downloading(self.path))) else {
                return Err(reporter.interrupted());
            };
            match part {
                Ok(Part::Head(head)) => {
                    host.clone_from(&head.host);
                    if !self.accept(hub, &head, arriving, partial, reporter)? {
                        return Ok(Attempt::FromStart);
                    }
                }
                Ok(Part::Bytes(bytes)) => {
                    if bytes.len() as u64 > self.size - arriving.file.len() {
                        arriving.clear(self, partial)?;
                        return Err(self.malformed(hub, "has more bytes than its listing states"));
                    }
                    arriving.file.write_all(&bytes).map_err(Error::write(partial))?;
                    arriving.hasher.update(&bytes);
                    reporter.set_file(arriving.file.len());
                    if reporter.tick(Stage::Downloading(self.path)).is_break() {
                        return Err(reporter.interrupted());
                    }
                }
                Ok(Part::End) if arriving.file.len() == self.size => return Ok(Attempt::Complete),
                Ok(Part::End) => {
                    let problem = "the connection ended early".to_owned();
                    return Ok(Attempt::Again { host, problem, error: None, wait: None });
                }
                Err(error) => return self.failed(hub, error, arriving, partial),
            }
        }
    }

    /// Compares a response with what was asked for. Returns false if all must be asked for again from the start.
    fn accept(
        &self,
        hub: &Hub,
        head: &Head,
        arriving: &mut Arriving,
        partial: &Path,
        reporter: &mut Reporter<'_>,
    ) -> Result<bool> {
        if head.checksum.is_some_and(|checksum| checksum != self.checksum)
            || head.size.is_some_and(|size| size != self.size && !head.is_partial)
        {
            arriving.clear(self, partial)?;
            return Err(self.malformed(hub, "is another version than its listing states; pull the model again"));
        }
        if !head.is_partial && !arriving.file.is_empty() {
            // A server without ranges sends all of it again.
            arriving.clear(self, partial)?;
            reporter.set_file(0);
        }
        if head.is_partial
            && !matches!(head.range, Some((first, size)) if first == arriving.file.len() && size.is_none_or(|size| size == self.size))
        {
            arriving.clear(self, partial)?;
            reporter.set_file(0);
            return Ok(false);
        }
        Ok(true)
    }

    fn failed(&self, hub: &Hub, error: RequestError, arriving: &mut Arriving, partial: &Path) -> Result<Attempt> {
        match error {
            RequestError::Network { host, problem } => Ok(Attempt::Again { host, problem, error: None, wait: None }),
            RequestError::Final(error) => Err(error),
            RequestError::Refused(refused) if refused.status == 416 && !arriving.file.is_empty() => {
                arriving.clear(self, partial)?;
                Ok(Attempt::FromStart)
            }
            RequestError::Refused(refused) => {
                let error = hub.refusal(&refused, self.model, self.commit, self.path);
                if matches!(refused.status, 408 | 429 | 500 | 502 | 503 | 504) {
                    let problem = format!("status {}", refused.status);
                    return Ok(Attempt::Again {
                        host: refused.host,
                        problem,
                        error: Some(error),
                        wait: refused.retry_after,
                    });
                }
                Err(error)
            }
        }
    }

    fn malformed(&self, hub: &Hub, problem: &str) -> Error {
        Error::Response { host: hub.address.clone(), what: format!("{:?}", self.path), problem: problem.to_owned() }
    }
}

impl Arriving {
    fn clear(&mut self, wanted: &Wanted<'_>, partial: &Path) -> Result<()> {
        self.file.clear().map_err(Error::write(partial))?;
        self.hasher = wanted.checksum.hasher(wanted.size);
        Ok(())
    }
}

/// Computes the checksum of a file that is in its place.
pub(crate) fn is_intact(
    path: &Path,
    size: u64,
    checksum: Checksum,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Option<bool>> {
    let (mut file, metadata) = match pteron_files::open(path) {
        Ok(opened) => opened,
        Err(error) if error.is_not_found() => return Ok(Some(false)),
        Err(error) => return Err(Error::read(path)(error.into())),
    };
    if metadata.len() != size {
        return Ok(Some(false));
    }
    let mut hasher = checksum.hasher(size);
    let mut block = vec![0; 1 << 20];
    loop {
        let read = std::io::Read::read(&mut file, &mut block).map_err(Error::read(path))?;
        if read == 0 {
            return Ok(Some(hasher.finish() == checksum));
        }
        hasher.update(&block[..read]);
        if go_on().is_break() {
            return Ok(None);
        }
    }
}
