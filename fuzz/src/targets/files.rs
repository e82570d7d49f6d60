//! The file formats: `.pte`, `.ptd` and the blobs of delegates.

use std::path::Path;

use pteron_format::external::Ptd;
use pteron_format::vulkan::{read_blob, write_blob};
use pteron_format::{PartialFile, Problem, Pte, Section, external as ptd, fuzzing, write};

use crate::check::{self, Outcome};
use crate::corpus::{self, Typed};
use crate::mutate;
use crate::seeds::Input;
use crate::target::Target;

/// `.pte` files.
pub const PROGRAM: Target = Target {
    name: "program",
    attacks: "pteron-format: programs, read whole and in parts",
    run: |bytes| program(bytes).label,
    seeds: |root| seeds(root, Some(Kind::Program)),
    mutate: |rng, bytes, other| mutate::file(rng, Some(Kind::Program), bytes, other),
    smoke: 100_000,
    ..FORMAT
};

/// The blobs of delegates.
pub const DELEGATE: Target = Target {
    name: "delegate",
    attacks: "pteron-format: the blob of a Vulkan delegate",
    run: |bytes| delegate(bytes).label,
    seeds: |root| seeds(root, Some(Kind::Delegate)),
    mutate: |rng, bytes, other| mutate::file(rng, Some(Kind::Delegate), bytes, other),
    smoke: 100_000,
    ..FORMAT
};

/// The blobs of XNNPACK delegates.
pub const XNNPACK: Target = Target {
    name: "xnnpack",
    attacks: "pteron-format: the blob of an XNNPACK delegate",
    run: |bytes| xnnpack(bytes).label,
    seeds: |root| seeds(root, Some(Kind::Xnnpack)),
    mutate: |rng, bytes, other| mutate::file(rng, Some(Kind::Xnnpack), bytes, other),
    smoke: 100_000,
    ..FORMAT
};

/// Graphs of XNNPACK delegates, changed field by field.
pub const XNNPACK_TYPED: Target = Target {
    name: "xnnpack_typed",
    attacks: "pteron-format: XNNPACK graphs with every kind of node, changed in a few fields, written and read",
    run: xnnpack_typed,
    seeds: crate::seeds::entropy,
    max_len: 64,
    smoke: 50_000,
    ..Target::DEFAULT
};

/// `.ptd` files.
pub const EXTERNAL: Target = Target {
    name: "external",
    attacks: "pteron-format: external data",
    run: |bytes| external(bytes).label,
    seeds: |root| seeds(root, Some(Kind::External)),
    mutate: |rng, bytes, other| mutate::file(rng, Some(Kind::External), bytes, other),
    smoke: 50_000,
    ..FORMAT
};

/// All of them, written and read again.
pub const ROUND_TRIP: Target = Target {
    name: "round_trip",
    attacks: "pteron-format: the writers, with what the readers accept",
    run: |bytes| {
        round_trip(bytes);
        if Kind::of(bytes).is_some() { "known" } else { "unknown" }
    },
    seeds: |root| seeds(root, None),
    mutate: |rng, bytes, other| mutate::file(rng, None, bytes, other),
    smoke: 50_000,
    ..FORMAT
};

const FORMAT: Target = Target {
    max_len: 16 << 10,
    dictionary: &["ET12", "VH00", "FT01", "eh00", "VulkanBackend", "XH00", "XN01", "XN00", "XnnpackBackend"],
    ..Target::DEFAULT
};

/// The real files below `fixtures/`, and variants made from them.
fn seeds(root: &Path, kind: Option<Kind>) -> Vec<Input> {
    let of_kind = corpus::real(root).iter().filter(|seed| kind.is_none_or(|kind| kind == seed.kind));
    of_kind.map(|seed| Input::new(seed.name.clone(), seed.bytes.clone())).collect()
}

/// The kinds of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `.pte` file.
    Program,
    /// A delegate's blob.
    Delegate,
    /// An XNNPACK delegate's blob.
    Xnnpack,
    /// A `.ptd` file.
    External,
}

impl Kind {
    /// The kind that bytes claim to be.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes.get(4..8)? {
            b"ET12" => Some(Self::Program),
            b"VH00" => Some(Self::Delegate),
            b"XH00" | b"XN01" | b"XN00" => Some(Self::Xnnpack),
            b"FT01" => Some(Self::External),
            _ => None,
        }
    }
}

/// Reads a `.pte` file and looks at everything in it.
pub fn program(bytes: &[u8]) -> Outcome {
    let (pte, outcome) = check::reading(bytes.len(), || Pte::read(bytes));
    let whole = pte.as_ref().map(Pte::program);
    if let Some(parts) = in_parts(bytes) {
        assert_eq!(Some(parts.program()), whole, "what is read in parts is what is read whole");
    }
    if let Some(pte) = pte {
        check::program(&pte);
    }
    outcome
}

/// The same file, read as a browser fetches it: each part when reading asks for it.
fn in_parts(bytes: &[u8]) -> Option<Pte<PartialFile>> {
    let mut file = PartialFile::new(bytes.len() as u64);
    // Real files take three rounds; a file may have thousands of delegates, which are all read in the same way.
    for _ in 0..16 {
        let missing = match Pte::read(file.clone()) {
            Ok(pte) => return Some(pte),
            Err(error) => error.problem,
        };
        let Problem::NotLoaded { start, len } = missing else { return None };
        let part = usize::try_from(start).ok().and_then(|start| bytes.get(start..start + usize::try_from(len).ok()?));
        file.insert(start, part.expect("reading asks for what the file has").to_vec());
    }
    None
}

/// Reads a delegate's blob.
pub fn delegate(bytes: &[u8]) -> Outcome {
    let (blob, outcome) = check::reading(bytes.len(), || read_blob(bytes));
    if let Some(blob) = blob {
        for constant in &blob.graph.constants {
            if let Some(stored) = blob.stored_bytes(bytes, constant) {
                assert_eq!(stored.len() as u64, constant.len, "a constant of another length");
            }
        }
    }
    outcome
}

/// Reads an XNNPACK delegate's blob.
pub fn xnnpack(bytes: &[u8]) -> Outcome {
    let (blob, outcome) = check::reading(bytes.len(), || pteron_format::xnnpack::read_blob(bytes));
    if let Some(blob) = blob {
        check::xnnpack_graph(&blob.graph);
        for constant in &blob.graph.constants {
            if let Some(stored) = blob.stored_bytes(bytes, constant) {
                assert_eq!(stored.len() as u64, constant.len, "a constant of another length");
            }
        }
        check::xnnpack_again(&blob, bytes);
    }
    outcome
}

/// Changes some fields of a graph with every kind of node, as the bytes decide.
fn xnnpack_typed(bytes: &[u8]) -> &'static str {
    let seed = bytes.iter().fold(0u64, |seed, &byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut rng = fastrand::Rng::with_seed(seed);
    let crate::xnnpack_sample::Build { mut graph, mut stored } = crate::xnnpack_sample::sample();
    for _ in 0..=rng.u8(..4) {
        mutate::xnnpack::mutate(&mut rng, &mut graph, &mut stored);
    }
    match typed(&Typed::Xnnpack(graph, stored)) {
        Some(blob) => xnnpack(&blob).label,
        None => "unwritten",
    }
}

/// Reads a `.ptd` file.
pub fn external(bytes: &[u8]) -> Outcome {
    let (ptd, outcome) = check::reading(bytes.len(), || Ptd::read(bytes));
    if let Some(ptd) = ptd {
        for entry in &ptd.data().entries {
            assert!(ptd.named_bytes(&entry.key).is_some(), "a name without bytes");
        }
    }
    outcome
}

/// Reads a file of any kind and, if it is valid, writes and reads it again.
pub fn round_trip(bytes: &[u8]) {
    match Kind::of(bytes) {
        Some(Kind::Program) => {
            if let Ok(pte) = Pte::read(bytes) {
                check::program_again(&pte);
            }
        }
        Some(Kind::Delegate) => {
            if let Ok(blob) = read_blob(bytes) {
                check::blob_again(&blob, bytes);
            }
        }
        Some(Kind::Xnnpack) => {
            if let Ok(blob) = pteron_format::xnnpack::read_blob(bytes) {
                check::xnnpack_again(&blob, bytes);
            }
        }
        Some(Kind::External) => {
            if let Ok(ptd) = Ptd::read(bytes) {
                check::external_again(&ptd);
            }
        }
        None => {}
    }
}

/// Typed content that may be invalid: the verifying writer refuses it, or writes what the other one writes and what reads as
/// equal content. Returns the file.
///
/// # Panics
/// If that does not hold.
pub fn typed(content: &Typed) -> Option<Vec<u8>> {
    match content {
        Typed::Program(program) => {
            let unverified = fuzzing::write_program(program).ok()?;
            match write(program) {
                Err(error) => check::error_text(&error),
                Ok(written) => {
                    assert!(written == unverified, "verifying changes what is written");
                    match Pte::read(written.as_slice()) {
                        Ok(pte) => {
                            let read = pte.program().map_data(|&extent| pte.bytes(extent).to_vec());
                            assert!(read == *program, "a written program reads as another");
                        }
                        // The writer does not look into delegates.
                        Err(error) => assert!(
                            matches!(error.location.section, Section::Delegate { .. })
                                || is_about_a_call(&error.to_string()),
                            "a written program cannot be read: {error}"
                        ),
                    }
                }
            }
            Some(unverified)
        }
        Typed::Graph(graph, stored) => {
            let unverified = fuzzing::write_blob(graph, stored).ok()?;
            match write_blob(graph, stored) {
                Err(error) => check::error_text(&error),
                Ok(written) => {
                    assert!(written == unverified, "verifying changes what is written");
                    let blob = read_blob(&written).expect("a written graph can be read");
                    assert!(blob.graph == *graph, "a written graph reads as another");
                }
            }
            Some(unverified)
        }
        Typed::Xnnpack(graph, stored) => {
            let unverified = fuzzing::write_xnnpack_blob(graph, stored).ok()?;
            match pteron_format::xnnpack::write_blob(graph, stored) {
                Err(error) => check::error_text(&error),
                Ok(written) => {
                    assert!(written == unverified, "verifying changes what is written");
                    let blob = pteron_format::xnnpack::read_blob(&written).expect("a written graph can be read");
                    // Debug, because a NaN equals itself there.
                    assert!(format!("{:?}", blob.graph) == format!("{graph:?}"), "a written graph reads as another");
                }
            }
            Some(unverified)
        }
        Typed::External(data) => {
            let unverified = fuzzing::write_external(data).ok()?;
            match ptd::write(data) {
                Err(error) => check::error_text(&error),
                Ok(written) => {
                    assert!(written == unverified, "verifying changes what is written");
                    let ptd = Ptd::read(written.as_slice()).expect("written data can be read");
                    assert!(ptd.with_data() == data.map_data(Vec::as_slice), "written data reads as other data");
                }
            }
            Some(unverified)
        }
    }
}

/// Whether an error is about the arguments of a delegate call, which depend on the delegate's graph.
fn is_about_a_call(error: &str) -> bool {
    ["delegate's argument", "argument of the delegate", "argument of an external value"]
        .iter()
        .any(|part| error.contains(part))
}
