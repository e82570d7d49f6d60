//! The forms in which XNNPACK graphs are stored, read back as one typed graph.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::xnnpack::{Build, KEY, NAMED_LEN, program, program_of, sample};
use common::{check, xnnpack as build};
use pteron_format::external::{Entry, ExternalData};
use pteron_format::program::{DataRef, SegmentId};
use pteron_format::xnnpack::{
    ConstantSource, DataType, Graph, NodeKind, OutputRange, Quantization, Scales, UnaryOp, ValueId, read_blob, write_blob,
};
use pteron_format::{PartialFile, Problem, Ptd, Pte, external, fuzzing, write};
use pteron_schema::xnnpack as fb;
use pteron_schema::{Builder, WIPOffset, create_aligned_bytes};

#[test]
fn every_kind_survives_a_round_trip() {
    let Build { graph, stored } = sample();
    let names: std::collections::BTreeSet<_> = graph.nodes.iter().map(|node| node.kind.name()).collect();
    assert_eq!(names.len(), 46, "every kind that ExecuTorch runs: {names:?}");
    let blob = write_blob(&graph, &stored).unwrap();
    let read = read_blob(&blob).unwrap();
    assert_eq!(read.graph, graph);
    check::xnnpack_graph(&graph);
    check::xnnpack_again(&read, &blob);
    let slope = |graph: &Graph| {
        let ops = graph.nodes.iter().filter_map(|node| match node.kind {
            NodeKind::Unary { op: UnaryOp::LeakyRelu { slope }, .. } => Some(slope.to_bits()),
            _ => None,
        });
        ops.collect::<Vec<_>>()
    };
    assert_eq!(slope(&read.graph), [(-0.0f32).to_bits()], "a negative zero is not the default");
}

#[test]
fn a_program_reads_its_graph_and_finds_every_constant() {
    let file = write(&program()).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    let place = DataRef::Segment(SegmentId(0));
    let blob = pte.xnnpack(place).unwrap();
    assert_eq!(blob.graph, sample().graph);
    assert!(pte.graph(place).is_none() && pte.graphs().count() == 0);
    for constant in &blob.graph.constants {
        assert_eq!(pte.constant_bytes(place, constant).map(|bytes| bytes.len() as u64), Some(constant.len));
    }
    check::program(&pte);
    check::program_again(&pte);
    assert_eq!(pte.with_data().segments[0], program().segments[0], "blobs are kept byte for byte");
}

#[test]
fn a_delegate_of_another_backend_is_not_read() {
    let mut program = program();
    program.plans[0].delegates[0].id = "QnnBackend".to_owned();
    program.segments[0] = b"anything".to_vec();
    let file = write(&program).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.xnnpack_graphs().count(), 0);
}

#[test]
fn constants_outside_the_program_are_external() {
    let mut program = program();
    program.named_data = None;
    let file = write(&program).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.external_keys(), [(KEY, NAMED_LEN as u64)]);
    let with = |len| {
        let entries = vec![Entry { key: KEY.to_owned(), segment: SegmentId(0), layout: None }];
        let bytes = external::write(&ExternalData { version: 0, segments: vec![vec![0; len]], entries }).unwrap();
        pte.verify_external(&[Ptd::read(bytes).unwrap()])
    };
    assert_eq!(with(NAMED_LEN), Ok(()));
    assert!(matches!(with(NAMED_LEN - 1).unwrap_err().problem, Problem::Size { .. }));
    assert!(matches!(pte.verify_external::<&[u8]>(&[]).unwrap_err().problem, Problem::NoData { .. }));
}

#[test]
fn a_file_in_parts_asks_for_its_tables_alone() {
    let Build { graph, mut stored } = sample();
    // Constants that are not needed to read the graph.
    stored.resize(1 << 20, 0);
    let file = write(&program_of(write_blob(&graph, &stored).unwrap())).unwrap();
    let mut parts = PartialFile::new(file.len() as u64);
    let mut loaded = 0;
    let pte = loop {
        match Pte::read(&parts).map_err(|error| error.problem) {
            Ok(pte) => break pte,
            Err(Problem::NotLoaded { start, len }) => {
                loaded += len;
                let start_at = usize::try_from(start).unwrap();
                parts.insert(start, file[start_at..start_at + usize::try_from(len).unwrap()].to_vec());
            }
            Err(problem) => panic!("{problem}"),
        }
    };
    assert_eq!(pte.xnnpack_graphs().next().unwrap().1.graph, graph);
    assert!(loaded < 64 << 10, "{loaded} bytes were needed");
}

/// Tables of an older exporter: constants inside, ids in any order, an input that is quantised when it is called.
fn old_tables(b: &mut Builder<'static>, dynamic: bool) -> WIPOffset<fb::XnnGraph<'static>> {
    let empty = fb::BufferArgs::default().write(b);
    let storage = Some(create_aligned_bytes(b, &[1; 8]));
    let weights = fb::BufferArgs { storage, ..Default::default() }.write(b);
    let constant_buffer = Some(b.create_vector(&[empty, weights]));
    let mut tensor = |dims: &[u32], id_out, external: Option<(u32, u32)>, constant_buffer_idx, datatype, dq_datatype| {
        let num_dims = u32::try_from(dims.len()).unwrap();
        let dims = Some(b.create_vector(dims));
        let (external_id, flags) = external.unwrap_or((u32::MAX, 0));
        fb::XnnTensorValueArgs {
            datatype,
            num_dims,
            dims,
            constant_buffer_idx,
            external_id,
            flags,
            id_out,
            dq_datatype,
            ..Default::default()
        }
        .write(b)
    };
    let input = tensor(&[3, 4], 70, Some((0, 1)), 0, 1, if dynamic { 3 } else { 0 });
    let filter = tensor(&[2, 4], 5, None, 1, 6, 0);
    let output = tensor(&[3, 2], 9, Some((1, 2)), 0, 1, 0);
    let scale = Some(b.create_vector(&[0.5f32, 0.25]));
    let quant = fb::PerChannelQuantArgs { scale, ..Default::default() }.write(b).as_union_value();
    let filter = fb::XnnQuantizedTensorValueArgs {
        tensor_value: Some(filter),
        quant_params: Some((fb::PerChannelQuant::TAG, quant)),
        ..Default::default()
    }
    .write(b);
    let values = [
        (fb::XnnTensorValue::TAG, output.as_union_value()),
        (fb::XnnTensorValue::TAG, input.as_union_value()),
        (fb::XnnQuantizedTensorValue::TAG, filter.as_union_value()),
    ];
    let values = values.map(|value| fb::XValueArgs { xvalue_union: Some(value), ..Default::default() }.write(b));
    let linear =
        fb::FullyConnectedArgs { input1_id: 70, filter_id: 5, bias_id: u32::MAX, output_id: 9, ..Default::default() };
    let linear = linear.write(b).as_union_value();
    let node = fb::XNodeArgs { xnode_union: Some((2, linear)), debug_handle: 8, ..Default::default() }.write(b);
    let (xnodes, xvalues) = (Some(b.create_vector(&[node])), Some(b.create_vector(&values)));
    fb::XnnGraphArgs { xnodes, xvalues, num_externs: 2, constant_buffer, ..Default::default() }.write(b)
}

fn old_blob(dynamic: bool, identifier: &str) -> Vec<u8> {
    let mut b = Builder::new();
    let root = old_tables(&mut b, dynamic);
    b.finish(root, Some(identifier));
    b.finished_data().to_vec()
}

#[test]
fn a_bare_flatbuffer_holds_its_constants_inside() {
    for (blob, shift) in
        [(old_blob(true, "XN00"), 0), (fuzzing::xnnpack_blob_file(&old_blob(true, "XN00"), &[]).unwrap(), 32)]
    {
        let read = read_blob(&blob).unwrap();
        assert_eq!(read.stored.start, shift);
        assert_eq!(read.stored_bytes(&blob, &read.graph.constants[0]), Some(&[1; 8][..]));
        check::xnnpack_graph(&read.graph);
        check::xnnpack_again(&read, &blob);
    }
}

#[test]
fn ids_in_another_order_become_indices() {
    let graph = read_blob(&old_blob(true, "XN00")).unwrap().graph;
    let NodeKind::FullyConnected { filter, output, bias: None, .. } = graph.nodes[1].kind else {
        panic!("{:?}", graph.nodes[1]);
    };
    assert_eq!((filter, output), (ValueId(2), ValueId(0)));
}

#[test]
fn an_input_that_is_quantised_when_called_gets_a_node_for_it() {
    let graph = read_blob(&old_blob(true, "XN00")).unwrap().graph;
    assert_eq!(graph.nodes[0].kind, NodeKind::Convert { input: ValueId(1), output: ValueId(3) });
    let quantised = &graph.values[3];
    assert_eq!((quantised.dtype, quantised.dims.as_slice()), (DataType::QdInt8, &[3, 4][..]));
    assert_eq!(quantised.quantization, Some(Quantization::PerToken { row_dims: 1 }));
    assert!(graph.nodes[1].kind.inputs().eq([ValueId(3), ValueId(2)]));
    // Newer files have no such field, whatever stands in its place.
    let graph = read_blob(&old_blob(true, "XN01")).unwrap().graph;
    assert_eq!((graph.nodes.len(), graph.values.len()), (1, 3));
}

#[test]
fn dims_of_an_image_quantised_when_run_are_those_of_its_source() {
    let mut b = Build::default();
    let image = b.external(0, false, DataType::Float32, &[1, 8, 9, 3]);
    let row = Some(Quantization::PerToken { row_dims: 3 });
    let quantised = b.value(DataType::QdInt8, &[1, 3, 8, 9], row);
    b.node(NodeKind::Convert { input: image, output: quantised });
    let blob = fuzzing::write_xnnpack_blob(&b.graph, &[]).unwrap();
    assert_eq!(read_blob(&blob).unwrap().graph.values[1].dims, [1, 8, 9, 3]);
    assert!(write_blob(&b.graph, &[]).is_err(), "it is not written so");
}

#[test]
fn a_clamp_without_bounds_has_none_and_other_bounds_are_dropped() {
    let mut b = Build::default();
    let x = b.external(0, false, DataType::Float32, &[4]);
    let y = b.unary(UnaryOp::Clamp, x);
    b.unary(UnaryOp::Sigmoid, y);
    b.graph.nodes[1].output_range = Some(OutputRange { min: 0.0, max: 1.0 });
    let graph = read_blob(&fuzzing::write_xnnpack_blob(&b.graph, &[]).unwrap()).unwrap().graph;
    let ranges: Vec<_> = graph.nodes.iter().map(|node| node.output_range).collect();
    assert_eq!(ranges, [Some(OutputRange::UNBOUNDED), None]);
}

#[test]
fn four_bit_rows_of_odd_width_are_padded() {
    let value = |dims: &[u32]| pteron_format::xnnpack::Value::new(DataType::QcInt4, dims).byte_len();
    assert_eq!([value(&[5, 7]), value(&[5, 8]), value(&[1]), value(&[0, 3])], [Some(20), Some(20), Some(1), Some(0)]);
    assert_eq!(value(&[u32::MAX, u32::MAX, u32::MAX]), None);
}

#[test]
fn scales_are_counted_wherever_they_are() {
    let graph = sample().graph;
    let scales = graph.values.iter().filter_map(|value| value.quantization.as_ref()?.scales());
    let counts: Vec<_> = scales.map(|scales| (matches!(scales, Scales::Inline(_)), scales.count())).collect();
    assert_eq!(counts, [(false, 16), (true, 5), (false, 4), (false, 4)]);
    assert_eq!(graph.named_keys().collect::<Vec<_>>(), [KEY]);
    assert!(matches!(&graph.constants[0].source, ConstantSource::Named(key) if key == build::KEY));
}
