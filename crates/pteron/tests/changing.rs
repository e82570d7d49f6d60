//! Files that another process changes while they are mapped: calls fail or return outputs, and unchecked data is never used.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Random, gpu, inputs, program_file};
use pteron::{Error, LoadOptions, Program, block_on};

/// A copy of the model, deleted on drop.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pteron-changing-{}-{name}.pte", std::process::id()));
        File::create_new(&path).unwrap().write_all(&program_file()).unwrap();
        Self(path)
    }

    fn writer(&self) -> File {
        OpenOptions::new().write(true).open(&self.0).unwrap()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Accesses everything of a program that relies on its checks.
fn use_program(program: &Program) {
    for plan in &program.pte().program().plans {
        assert!(std::str::from_utf8(plan.name.as_bytes()).is_ok());
        for id in plan.inputs.iter().chain(&plan.outputs) {
            assert!(plan.value(*id).is_some());
        }
        let _ = program.signature(&plan.name);
    }
    for (_, blob) in program.pte().graphs() {
        for call in &blob.graph.chain {
            assert!(std::str::from_utf8(call.name.as_bytes()).is_ok());
            assert!(call.args.iter().all(|&arg| blob.graph.value(arg).is_some()));
        }
    }
}

#[test]
fn a_file_that_is_rewritten_while_it_is_opened_is_read_as_it_was_checked() {
    let copy = Copy::new("rewritten");
    let original = program_file();
    let done = AtomicBool::new(false);
    let (mut opened, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        // Strings, offsets and lengths of the tables keep changing back and forth.
        scope.spawn(|| {
            let mut file = copy.writer();
            let mut random = Random::new(5);
            let tables = original.len().min(64 << 10);
            while !done.load(Ordering::Relaxed) {
                let at = random.below(tables);
                for byte in [u8::try_from(random.below(256)).unwrap(), original[at]] {
                    file.seek(SeekFrom::Start(at as u64)).unwrap();
                    file.write_all(&[byte]).unwrap();
                }
            }
        });
        for _ in 0..2000 {
            match Program::open(&copy.0) {
                Ok(program) => {
                    use_program(&program);
                    opened += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Format { .. }), "{error:?}");
                    refused += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(opened > 0, "{opened} opened, {refused} refused");
}

#[test]
fn a_file_that_was_cut_or_written_since_is_not_loaded() {
    let gpu = gpu();
    for change in ["cut", "written"] {
        let copy = Copy::new(change);
        let program = Program::open(&copy.0).unwrap();
        use_program(&program);
        match change {
            "cut" => copy.writer().set_len(4096).unwrap(),
            _ => {
                // Some file systems have coarse clocks.
                std::thread::sleep(std::time::Duration::from_millis(50));
                copy.writer().write_all(&program_file()).unwrap();
            }
        }
        let error = block_on(program.load(&gpu, "forward", &LoadOptions::default())).unwrap_err();
        assert!(matches!(error, Error::Changed { file: 0 }), "{change}: {error:?}");
        if change == "cut" {
            assert!(matches!(Program::open(&copy.0), Err(Error::Format { .. })));
        }
    }
}

#[test]
fn a_loaded_method_does_not_look_at_its_file_again() {
    let gpu = gpu();
    let copy = Copy::new("loaded");
    let program = Program::open(&copy.0).unwrap();
    let method = block_on(program.load(&gpu, "forward", &LoadOptions::default())).unwrap();
    let expected = block_on(method.call(&mut method.new_state().unwrap(), &inputs(1, 0, 8))).unwrap();
    copy.writer().set_len(0).unwrap();
    let outputs = block_on(method.call(&mut method.new_state().unwrap(), &inputs(1, 0, 8))).unwrap();
    assert_eq!(outputs, expected);
}
