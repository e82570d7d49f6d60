//! Files that the command keeps or is given: arrays, tuning, pipeline caches.

use pteron_cli::fuzzing;
use pteron_gpu::engine::{parse_pipeline_cache, pipeline_cache_content};

use crate::mutate;
use crate::oracle;
use crate::seeds::Input;
use crate::target::{Outcome, Target};

/// Files of arrays, as `numpy.savez` writes them.
pub const NPZ: Target = Target {
    name: "npz",
    attacks: "pteron-cli: .npz archives, their compression and the headers of arrays",
    run: npz,
    max_len: 2048,
    dictionary: &[
        "PK\u{3}\u{4}",
        "PK\u{1}\u{2}",
        "PK\u{5}\u{6}",
        "NUMPY",
        "'descr': '<f4'",
        "'fortran_order': True",
        "'shape': (2, 3)",
    ],
    ..Target::DEFAULT
};

/// Tuning files.
pub const TUNING: Target = Target {
    name: "tuning",
    attacks: "pteron-cli: the tuning file",
    run: tuning,
    seeds: |_| {
        let entry = r#"{"adapter": "llvmpipe", "driver": "1", "backend": "vulkan", "shape_class": "2^20 bytes", "subgroups": true, "cooperative_matrix": false, "fill_percent": 100, "int8_dot": true, "gemv_percent": 25, "tiles_percent": 100, "split_k_percent": 400, "split_kv_percent": 100}"#;
        let file = |version: u32, entries: &str| format!(r#"{{"tuning_version": {version}, "entries": [{entries}]}}"#);
        vec![Input::new("file", file(2, entry)), Input::new("newer", file(3, entry)), Input::new("empty", file(2, ""))]
    },
    mutate: mutate::json_changed,
    max_len: 2048,
    smoke: 50_000,
    ..Target::DEFAULT
};

/// Pipeline caches.
pub const PIPELINE_CACHE: Target = Target {
    name: "pipeline_cache",
    attacks: "pteron-gpu: pipeline caches, which go to a driver when their seal is right",
    run: pipeline_cache,
    seeds: |_| vec![Input::new("cache", pipeline_cache_content(IDENTITY, b"pipelines"))],
    max_len: 512,
    smoke: 50_000,
    ..Target::DEFAULT
};

const IDENTITY: &str = "adapter 1.0";
/// The bytes of an array that are read.
const LARGEST: u64 = 1 << 20;

fn npz(bytes: &[u8]) -> Outcome {
    let arrays = oracle::bounded_heap(bytes.len(), 64, 4 * LARGEST + (1 << 20), || fuzzing::npz(bytes, LARGEST));
    if let Ok(arrays) = &arrays {
        assert!(arrays.iter().all(|(_, len)| *len as u64 <= LARGEST), "an array is larger than was accepted");
    }
    oracle::outcome(&arrays)
}

fn tuning(bytes: &[u8]) -> Outcome {
    let (count, complaint) = oracle::bounded_heap(bytes.len(), 200, 64 << 10, || fuzzing::tuning(bytes));
    assert!(count <= bytes.len(), "{count} entries");
    complaint.map_or("accepted", |complaint| {
        oracle::error_text(&complaint);
        "complaint"
    })
}

/// Only bytes that were sealed go to the driver.
fn pipeline_cache(bytes: &[u8]) -> Outcome {
    let Some(data) = parse_pipeline_cache(IDENTITY, bytes.to_vec()) else { return "refused" };
    assert!(pipeline_cache_content(IDENTITY, &data) == bytes, "bytes are accepted that were not written");
    assert!(parse_pipeline_cache("another", bytes.to_vec()).is_none(), "the cache of another adapter is accepted");
    "accepted"
}
