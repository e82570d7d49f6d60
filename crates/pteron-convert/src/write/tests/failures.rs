//! Tests that every failure leaves only the old file and reports its cause.

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pteron_files::{AtomicFile, faults};

use super::sample::{self, Accident, Checkpoint, Folder};
use super::{going_on, write};
use crate::config::{LayerWeight, Weight};
use crate::error::{Error, Result};
use crate::quantise::ScaleMethod;
use crate::template::ConstantData;
use crate::write::storage::Storage;
use crate::write::{convert, convert_through};

/// A folder with a file that a conversion would replace.
fn folder_with_old_file() -> Folder {
    let folder = Folder::new();
    std::fs::write(folder.join("model.pte"), "old").unwrap();
    folder
}

fn assert_untouched(folder: &Folder) {
    assert_eq!(folder.names(), ["model.pte"]);
    assert_eq!(std::fs::read(folder.join("model.pte")).unwrap(), b"old");
}

fn with_accident(accident: Accident) -> (Folder, Result<crate::write::Report>) {
    let (folder, config) = (folder_with_old_file(), sample::config());
    let source = Checkpoint::with_accident(config.clone(), accident);
    let result = write(&source, sample::template(&config, 32), &folder.join("model.pte"));
    (folder, result)
}

#[test]
fn an_old_file_is_replaced() {
    let (folder, result) = with_accident(|_, _, _| Ok(()));
    result.unwrap();
    assert_eq!(folder.names(), ["model.pte"]);
    assert_ne!(std::fs::read(folder.join("model.pte")).unwrap(), b"old");
}

#[test]
fn weights_that_are_not_finite_are_rejected() {
    let (folder, result) = with_accident(|weight, row, out| {
        if weight == Weight::Layer(1, LayerWeight::Key) && row == 9 {
            out[40] = f32::NAN;
        }
        Ok(())
    });
    let text = result.unwrap_err().to_string();
    assert_eq!(text, "layers.1.key: row 9, column 40 of the checkpoint is NaN; weights must be finite");
    assert_untouched(&folder);

    let (folder, result) = with_accident(|weight, row, out| {
        if weight == Weight::FinalNorm && row >= 5 {
            out[0] = f32::INFINITY;
        }
        Ok(())
    });
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NotFinite { weight: Weight::FinalNorm, row: 5, column: 0, .. }), "{error}");
    assert_untouched(&folder);
}

#[test]
fn unreadable_weights_are_an_error() {
    let (folder, result) = with_accident(|weight, _, _| match weight {
        Weight::Embedding => Err(Error::InvalidOption("gone".to_owned())),
        _ => Ok(()),
    });
    assert_eq!(result.unwrap_err().to_string(), "gone");
    assert_untouched(&folder);
}

#[test]
fn a_panic_propagates_and_leaves_no_file() {
    let (folder, config) = (folder_with_old_file(), sample::config());
    let source = Checkpoint::with_accident(config.clone(), |weight, _, _| match weight {
        Weight::Embedding => panic!("an accident"),
        _ => Ok(()),
    });
    let run = || write(&source, sample::template(&config, 32), &folder.join("model.pte"));
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"an accident"));
    assert_untouched(&folder);
}

#[test]
fn an_interrupted_conversion_leaves_the_old_file() {
    let (folder, config) = (folder_with_old_file(), sample::config());
    let mut steps = 0;
    let mut progress = |_| {
        steps += 1;
        if steps < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let (source, template) = (Checkpoint::new(config.clone()), sample::template(&config, 32));
    let result = convert(&source, template, ScaleMethod::Search, &folder.join("model.pte"), &mut progress);
    assert!(matches!(result, Err(Error::Interrupted)));
    assert_eq!(steps, 5, "nothing is asked after a no");
    assert_untouched(&folder);
}

/// A file on a disk with room for a given number of bytes.
struct Full(AtomicFile, u64);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.1.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        self.1 = room;
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl Storage for Full {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn commit(self) -> io::Result<()> {
        self.0.commit()
    }
}

/// Full at once, in the midst of constants, and when only the tables are left.
#[test]
fn a_full_disk_leaves_the_old_file() {
    let (folder, config) = (folder_with_old_file(), sample::config());
    let source = Checkpoint::new(config.clone());
    let path = folder.join("model.pte");
    let attempt = |room| {
        let template = sample::template(&config, 32);
        convert_through(&source, template, ScaleMethod::Search, &path, &mut going_on, |file| Full(file, room))
    };
    let mut needed = 0;
    while let Err(error) = attempt(needed) {
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        assert_untouched(&folder);
        needed += 49_999;
    }
    assert!(needed > 300_000, "the cache alone is nearly as large");
    assert_eq!(folder.names(), ["model.pte"]);
}

/// Every operation on the file fails in turn, until there are no more.
#[test]
fn a_disk_that_fails_at_any_operation() {
    let (folder, config) = (folder_with_old_file(), sample::config());
    let (source, path) = (Checkpoint::new(config.clone()), folder.join("model.pte"));
    let mut operations = 0;
    loop {
        let fault = faults::fail_after(folder.path(), operations, io::ErrorKind::StorageFull);
        let result = write(&source, sample::template(&config, 32), &path);
        if !fault.reached() {
            result.unwrap();
            break;
        }
        let error = result.unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{operations}: {error}");
        assert_untouched(&folder);
        operations += 1;
    }
    assert!(operations > 20, "{operations} operations: a weight takes several");
    assert_eq!(folder.names(), ["model.pte"]);
    assert_ne!(std::fs::read(path).unwrap(), b"old");
}

/// Predictable names of temporary files would let another user choose which file is overwritten.
#[cfg(unix)]
#[test]
fn links_that_were_planted_are_not_followed() {
    let (folder, config) = (Folder::new(), sample::config());
    let (source, victim) = (Checkpoint::new(config.clone()), folder.join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    let planted: Vec<_> = (0..500).map(|count| format!(".model.pte.{}.{count}.tmp", std::process::id())).collect();
    for name in planted.iter().map(String::as_str).chain(["model.pte"]) {
        std::os::unix::fs::symlink(&victim, folder.join(name)).unwrap();
    }
    write(&source, sample::template(&config, 32), &folder.join("model.pte")).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(std::fs::symlink_metadata(folder.join("model.pte")).unwrap().is_file());
}

#[test]
fn paths_that_cannot_be_written_are_an_error() {
    let (folder, config) = (Folder::new(), sample::config());
    let source = Checkpoint::new(config.clone());
    std::fs::create_dir(folder.join("model.pte")).unwrap();
    for path in [folder.join("model.pte"), folder.join("nowhere/model.pte"), folder.path().to_owned(), "".into()] {
        let error = write(&source, sample::template(&config, 32), &path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{error}");
    }
    assert_eq!(folder.names(), ["model.pte"]);
    assert_eq!(source.asked.into_inner(), 0, "nothing is computed for a file that cannot be");
}

#[test]
fn templates_that_do_not_fit_the_model_are_rejected() {
    let (folder, config) = (Folder::new(), sample::config());
    let source = Checkpoint::new(config.clone());
    let refused = |template| write(&source, template, &folder.join("model.pte")).unwrap_err().to_string();

    let text = refused(sample::template(&config, 48));
    assert_eq!(text, "groups of 48 do not fit layers.0.query: its rows have 64 numbers, and groups are multiples of 8");

    let mut template = sample::template(&config, 32);
    template.graph.constants[1].len += 4;
    assert!(refused(template).contains("constant 1 (Scales { "));

    let mut template = sample::with_contents(&config, vec![ConstantData::RopeCos]);
    template.graph.constants[0].len += 4;
    assert!(refused(template).contains("constant 0 (RopeCos) has 65540 bytes, expected 65536"));

    let mut template = sample::template(&config, 32);
    template.constant_data.pop();
    assert!(refused(template).contains("constants, but"));

    let mut template = sample::template(&config, 32);
    template.program.plans[0].delegates.clear();
    assert!(refused(template).contains("no method has a delegate"));
    assert!(folder.names().is_empty());
}
