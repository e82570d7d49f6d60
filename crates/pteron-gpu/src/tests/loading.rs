//! How far loading is: told as it goes, and complete in the end.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use pteron_format::vulkan::{ConstantId, DataType};

use super::own_gpu;
use crate::engine::{Gpu, LoadOptions, LoadedGraph, Loading, OnProgress, PreparedGraph, Progress, block_on};
use crate::testing::{Sketch, f32s, noise_bytes, run};

/// A graph whose one constant takes more than one write, and is read back.
fn sketch() -> (Sketch, Vec<u8>) {
    let bytes = noise_bytes(1, (16 << 20) + 5);
    let mut sketch = Sketch::new();
    let constant = sketch.constant(DataType::UInt8, &[u32::try_from(bytes.len()).unwrap()], bytes.clone());
    let input = sketch.input(DataType::Float32, &[4]);
    let (once, twice) = (sketch.tensor(DataType::Float32, &[4]), sketch.tensor(DataType::Float32, &[4]));
    sketch.call("aten.sigmoid.default", &[input, once]);
    sketch.call("aten.sigmoid.default", &[once, twice]);
    sketch.output(constant);
    sketch.output(twice);
    (sketch, bytes)
}

/// Loads a graph, and gives all that was told meanwhile.
fn load(gpu: &Gpu, sketch: &Sketch) -> (LoadedGraph, Vec<Progress>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = OnProgress::new({
        let told = Arc::clone(&told);
        move |progress| told.lock().unwrap().push(progress)
    });
    let graph = PreparedGraph::new(gpu, sketch.decode().unwrap(), &LoadOptions::default()).unwrap();
    let mut loading = Loading::new(Some(&listener));
    loading.expect(&graph);
    let constants = |id: ConstantId| sketch.constants.get(id.index()).map(|bytes| Cow::Borrowed(bytes.as_slice()));
    let loaded = block_on(graph.load(&constants, &mut loading)).unwrap();
    let told = told.lock().unwrap().clone();
    (loaded, told)
}

#[test]
fn progress_grows_to_the_totals_of_the_start() {
    let (gpu, (sketch, bytes)) = (own_gpu(), sketch());
    // The device holds whole words.
    let total_bytes = bytes.len().next_multiple_of(4) as u64;
    // The second time the device has the pipeline already.
    for _ in 0..2 {
        let (loaded, told) = load(&gpu, &sketch);
        assert!(told.iter().all(|now| (now.total_bytes, now.total_pipelines) == (total_bytes, 1)), "{told:?}");
        let steps = told.windows(2).map(|pair| (pair[0], pair[1]));
        for (before, after) in steps {
            assert!(before.uploaded_bytes <= after.uploaded_bytes, "{told:?}");
            assert!(before.ready_pipelines <= after.ready_pipelines, "{told:?}");
        }
        assert!(told.iter().any(|now| 0 < now.uploaded_bytes && now.uploaded_bytes < total_bytes), "{told:?}");
        let last = told.last().unwrap();
        assert_eq!((last.uploaded_bytes, last.ready_pipelines), (total_bytes, 1));
        let outputs = run(&loaded, &loaded.new_state().unwrap(), &[f32s(&[4], vec![1.0, 2.0, 3.0, 4.0])]).unwrap();
        assert!(outputs[0].bytes == bytes, "a constant of several writes is whole");
    }
    assert_eq!(gpu.counts().pipelines, 1);
}
