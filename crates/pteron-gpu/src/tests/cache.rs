//! The pipeline cache file: reused, and never an obstacle.

use std::fs;
use std::path::{Path, PathBuf};

use crate::engine::{Gpu, GpuOptions, LoadOptions, block_on};
use crate::ir::DataType;
use crate::testing::{GraphBuilder, f32s, run, skip};

/// A folder of one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pteron-pipelines-{test}-{}", std::process::id()));
        // Left over from a test that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The files in it.
    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(folder: &Path) -> Gpu {
    let options = GpuOptions {
        adapter: std::env::var("PTERON_ADAPTER").ok(),
        pipeline_cache: Some(folder.to_owned()),
        ..GpuOptions::default()
    };
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

/// Returns whether this adapter's driver exposes compiled pipelines; the rest of the test is skipped if not.
fn keeps(gpu: &Gpu) -> bool {
    assert_eq!(gpu.pipeline_cache().is_some(), gpu.adapter().caches_pipelines);
    if !gpu.adapter().caches_pipelines {
        skip("does not hand out compiled pipelines");
    }
    gpu.adapter().caches_pipelines
}

fn read_bytes(gpu: &Gpu) -> u64 {
    gpu.pipeline_cache().expect("there is a cache").read_bytes
}

/// Compiles and runs a kernel, and returns the bytes of its output.
fn compute(gpu: &Gpu) -> Vec<u8> {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, &[4]);
    let output = builder.tensor(DataType::Float32, &[4]);
    builder.call("aten.sigmoid.default", &[input, output]);
    builder.output(output);
    let graph = builder.load_on(gpu, &LoadOptions::default()).unwrap();
    let output = run(&graph, &mut graph.new_state().unwrap(), &[f32s(&[4], vec![-1.0, 0.0, 1.0, 2.0])]).unwrap();
    output[0].bytes.to_vec()
}

#[test]
fn compiled_pipelines_are_found_by_the_next_device() {
    let folder = Folder::new("next");
    let place = folder.0.join("made").join("when needed");
    let first = open(&place);
    if !keeps(&first) {
        return;
    }
    assert_eq!((read_bytes(&first), place.exists()), (0, false), "nothing is written before something is compiled");
    let output = compute(&first);
    let file = first.pipeline_cache().unwrap().file;
    let written = fs::read(&file).unwrap();
    let second = open(&place);
    assert!(0 < read_bytes(&second) && read_bytes(&second) < written.len() as u64);
    assert_eq!(compute(&second), output);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1, "nothing unfinished lies about");
    // SwiftShader wraps the data in its own header, so the file may differ.
    assert!(read_bytes(&open(&place)) > 0, "a load that compiles nothing new leaves a good file");
}

#[test]
fn damaged_cache_file_is_replaced() {
    let folder = Folder::new("damaged");
    let gpu = open(&folder.0);
    if !keeps(&gpu) {
        return;
    }
    let output = compute(&gpu);
    let file = gpu.pipeline_cache().unwrap().file;
    let good = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"something else entirely".to_vec()];
    damaged.push(good[..good.len() - 1].to_vec());
    damaged.push([good.as_slice(), b"0"].concat());
    damaged.extend([0, 20, 48, good.len() - 1].map(|place| {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        bytes
    }));
    for (case, bytes) in damaged.iter().enumerate() {
        fs::write(&file, bytes).unwrap();
        let gpu = open(&folder.0);
        assert_eq!(read_bytes(&gpu), 0, "case {case}");
        assert_eq!(compute(&gpu), output, "case {case}");
        assert!(read_bytes(&open(&folder.0)) > 0, "case {case}: a good file took its place");
    }
}

#[test]
fn unwritable_cache_folder_does_not_stop_loading() {
    let folder = Folder::new("unwritable");
    let output = compute(&super::own_gpu());
    // A file has the path of the folder: not even root can create a folder there.
    let blocked = folder.0.join("file");
    fs::write(&blocked, b"").unwrap();
    let gpu = open(&blocked);
    assert_eq!(compute(&gpu), output);
    assert_eq!(fs::read(&blocked).unwrap(), b"");
    if !keeps(&gpu) {
        return;
    }
    // A folder has the path of the file.
    let other = open(&folder.0);
    fs::create_dir(other.pipeline_cache().unwrap().file).unwrap();
    let other = open(&folder.0);
    assert_eq!((read_bytes(&other), compute(&other)), (0, output));
    assert_eq!(folder.files().len(), 2, "nothing unfinished lies about");
}

#[cfg(unix)]
#[test]
fn cache_file_writable_by_others_is_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("others");
    let gpu = open(&folder.0);
    if !keeps(&gpu) {
        return;
    }
    compute(&gpu);
    let file = gpu.pipeline_cache().unwrap().file;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
    assert_eq!(read_bytes(&open(&folder.0)), 0);
    // The target of a link is not written either.
    let elsewhere = folder.0.join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert_eq!(read_bytes(&open(&folder.0)), 0);
}

#[test]
fn concurrent_writers_leave_one_good_file() {
    let folder = Folder::new("at-once");
    let outputs: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let devices: Vec<_> = (0..4).map(|_| scope.spawn(|| compute(&open(&folder.0)))).collect();
        devices.into_iter().map(|device| device.join().unwrap()).collect()
    });
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
    let gpu = open(&folder.0);
    if keeps(&gpu) {
        assert!(read_bytes(&gpu) > 0);
        assert_eq!(folder.files(), [gpu.pipeline_cache().unwrap().file]);
    }
}

#[test]
fn pipeline_cache_is_off_by_default() {
    assert_eq!(super::own_gpu().pipeline_cache(), None);
}
