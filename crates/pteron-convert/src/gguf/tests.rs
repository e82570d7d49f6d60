use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file::File;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/convert/gguf/types")
}

/// Every type of tensors, against the numbers that the Python package `gguf` makes of the same bytes.
#[test]
fn every_type_is_read_as_the_reference_reads_it() {
    let said: Value = serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap();
    let bytes = std::fs::read(folder().join("model.gguf")).unwrap();
    let file = File::read("model.gguf", &bytes).unwrap();
    let tensors = file.place().unwrap();
    let expected = said["tensors"].as_array().unwrap();
    assert_eq!((tensors.len(), expected.len()), (11, 11));
    for expected in expected {
        let name = expected["name"].as_str().unwrap();
        let tensor = &tensors[name];
        let reference = std::fs::read(folder().join(expected["path"].as_str().unwrap())).unwrap();
        let mut own = vec![0.0_f32; reference.len() / 4];
        let start = usize::try_from(tensor.start).unwrap();
        let len = usize::try_from(tensor.kind.row_bytes(own.len() as u64).unwrap()).unwrap();
        (tensor.kind.unpack)(&bytes[start..start + len], &mut own);
        let own: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert!(own == reference, "{name}: the numbers differ");
    }
}

#[test]
fn all_kinds_of_metadata_are_read() {
    let bytes = std::fs::read(folder().join("model.gguf")).unwrap();
    let metadata = File::read("model.gguf", &bytes).unwrap().metadata;
    assert_eq!(metadata.text("test.string").unwrap(), Some("naïve 🦀"));
    assert_eq!(metadata.number("test.uint32").unwrap(), Some(u32::MAX));
    assert_eq!(metadata.float("test.float32").unwrap(), Some(0.375));
    assert_eq!(metadata.flag("test.bool").unwrap(), Some(true));
    assert_eq!(metadata.array("test.strings").unwrap().unwrap().texts().unwrap(), ["a", "", "ü"]);
    assert_eq!(metadata.array("test.nested").unwrap().unwrap().len(), 2);
    assert!(metadata.number("test.int32").is_err(), "below zero");
}
