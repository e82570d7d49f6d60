//! Delegates: each once, with its options and its graph's numbers.

use std::collections::BTreeMap;

use pteron_format::program::{self, CompileSpec, DataRef};
use pteron_format::vulkan::{self, MemoryLayout, StorageType};
use pteron_format::{Bytes, Data, Pte, xnnpack};

use super::{clip, state, sum, tally};
use crate::inspect::report::{CompileOption, Delegate, Graph, Literal, Use, Xnnpack};

/// The report's delegates, and the index of each of the program's among them.
#[derive(Default)]
pub(super) struct Delegates<'a> {
    pub(super) list: Vec<Delegate>,
    places: BTreeMap<(DataRef, &'a str), usize>,
}

impl Delegates<'_> {
    pub(super) fn position(&self, delegate: &program::Delegate) -> Option<usize> {
        self.places.get(&(delegate.data, delegate.id.as_str())).copied()
    }
}

pub(super) fn collect<B: Bytes>(pte: &Pte<B>) -> Delegates<'_> {
    let mut all = Delegates::default();
    for plan in &pte.program().plans {
        for (index, delegate) in plan.delegates.iter().enumerate() {
            // Methods may share one.
            let place = *all.places.entry((delegate.data, &delegate.id)).or_insert_with(|| {
                all.list.push(describe(pte, delegate));
                all.list.len() - 1
            });
            all.list[place].used_by.push(Use { method: clip(&plan.name), index });
        }
    }
    all
}

fn describe<B: Bytes>(pte: &Pte<B>, delegate: &program::Delegate) -> Delegate {
    let vulkan = pte.graph(delegate.data).filter(|_| delegate.id == vulkan::BACKEND_ID);
    let xnnpack = pte.xnnpack(delegate.data).filter(|_| delegate.id == xnnpack::BACKEND_ID);
    Delegate {
        backend: delegate.id.clone(),
        used_by: Vec::new(),
        bytes: pte.program().delegate_data(delegate.data).map_or(0, Data::byte_len),
        options: delegate.specs.iter().map(|spec| option(&delegate.id, spec)).collect(),
        graph: vulkan.map(|blob| graph(&blob.graph)).or_else(|| xnnpack.map(|blob| xnnpack_graph(&blob.graph))),
        xnnpack: xnnpack.map(|blob| xnnpack_numbers(&blob.graph)),
    }
}

fn xnnpack_graph(graph: &xnnpack::Graph) -> Graph {
    let computed = graph.values.iter().filter(|value| value.constant.is_none());
    let activations = sum(computed.map(|value| value.byte_len().unwrap_or(u64::MAX)));
    let outputs = graph.externals().filter(|(_, external)| external.output).count();
    Graph {
        version: graph.version.clone(),
        calls: graph.nodes.len(),
        values: graph.values.len(),
        inputs: graph.externals().count() - outputs,
        outputs,
        operators: tally(graph.nodes.iter().map(|node| node.kind.name().to_owned())),
        // The file plans nothing.
        memory_objects: 0,
        activations_bytes: activations,
        activations_unshared_bytes: activations,
    }
}

fn xnnpack_numbers(graph: &xnnpack::Graph) -> Xnnpack {
    let quantised = graph.values.iter().filter_map(|value| value.quantization.as_ref());
    Xnnpack {
        dtypes: tally(graph.values.iter().map(|value| value.dtype.name().to_owned())),
        quantization: tally(quantised.map(|quantization| quantization.name().to_owned())),
        constants: graph.constants.len(),
        constants_bytes: sum(graph.constants.iter().map(|constant| constant.len)),
    }
}

fn graph(graph: &vulkan::Graph) -> Graph {
    let living = state::living(graph);
    let passing = || graph.values.iter().enumerate().filter(|(id, _)| !living.contains(id)).map(|(_, value)| value);
    let computed = || passing().filter_map(vulkan::Value::as_tensor).filter(|tensor| tensor.constant.is_none());
    let bytes = |tensor: &vulkan::Tensor| tensor.byte_len().unwrap_or(u64::MAX);
    let mut objects = BTreeMap::<u32, u64>::new();
    for tensor in computed() {
        let Some(object) = tensor.memory_object else { continue };
        let largest = objects.entry(object).or_default();
        *largest = bytes(tensor).max(*largest);
    }
    let alone = sum(computed().filter(|tensor| tensor.memory_object.is_none()).map(bytes));
    Graph {
        version: graph.version.clone(),
        calls: graph.chain.len(),
        values: graph.values.len(),
        inputs: graph.inputs.len(),
        outputs: graph.outputs.len(),
        operators: tally(graph.chain.iter().map(|call| call.name.clone())),
        memory_objects: objects.len(),
        activations_bytes: sum(objects.into_values()).saturating_add(alone),
        activations_unshared_bytes: sum(computed().map(bytes)),
    }
}

/// Options of the Vulkan backend are numbers; the length determines the type, and for two options the key determines the meaning.
fn option(backend: &str, spec: &CompileSpec) -> CompileOption {
    let number = spec.value.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    let name = |name: Option<String>| name.map(Literal::Text);
    let known = match (spec.key.as_str(), spec.value.len()) {
        _ if backend != vulkan::BACKEND_ID => None,
        ("storage_type_override", 4) => {
            let found = u8::try_from(number).ok().and_then(StorageType::from_wire);
            name(found.map(|storage| format!("{storage:?}")))
        }
        ("memory_layout_override", 4) => {
            let found = u8::try_from(number).ok().and_then(MemoryLayout::from_wire);
            name(found.map(|layout| format!("{layout:?}")))
        }
        (_, 1) if number <= 1 => Some(Literal::Bool(number == 1)),
        (_, 4 | 8) => i64::try_from(number).ok().map(Literal::Int),
        _ => None,
    };
    CompileOption { key: spec.key.clone(), value: known.unwrap_or_else(|| raw(&spec.value)) }
}

/// Text if it is some, otherwise the first bytes in hexadecimal.
fn raw(bytes: &[u8]) -> Literal {
    const SHOWN: usize = 32;
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.is_empty()
        && !text.chars().any(char::is_control)
    {
        return Literal::Text(text.to_owned());
    }
    let hex: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let rest = if bytes.len() > SHOWN { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    Literal::Text(format!("0x{hex}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(key: &str, value: &[u8]) -> String {
        let spec = CompileSpec { key: key.to_owned(), value: value.to_vec() };
        serde_json::to_string(&option(vulkan::BACKEND_ID, &spec).value).unwrap()
    }

    #[test]
    fn known_options_are_decoded() {
        assert_eq!(decode("force_fp16", &[0]), "false");
        assert_eq!(decode("require_dynamic_shapes", &[1]), "true");
        assert_eq!(decode("texture_limits_x", &[0, 8, 0, 0]), "2048");
        assert_eq!(decode("external_constants_max_data_bytes", &[0, 0, 1, 0, 0, 0, 0, 0]), "65536");
        assert_eq!(decode("storage_type_override", &[1, 0, 0, 0]), r#""Texture3d""#);
        assert_eq!(decode("memory_layout_override", &[2, 0, 0, 0]), r#""ChannelsPacked""#);
    }

    #[test]
    fn others_are_shown_as_they_are() {
        assert_eq!(decode("name", b"fast"), "1953718630", "four bytes of a Vulkan option are a number");
        assert_eq!(decode("note", b"hello"), r#""hello""#);
        assert_eq!(decode("odd", &[0xff, 0x00]), r#""0xff00""#);
        assert_eq!(decode("none", &[]), r#""0x""#);
        let long = decode("long", &[0xee; 40]);
        assert!(long.ends_with(r#"… (40 bytes)""#), "{long}");
    }
}
