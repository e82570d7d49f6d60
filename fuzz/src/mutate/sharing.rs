//! Tables that share on purpose: many offsets to one table, string or list, so that a small file unpacks to a large tree.

use fastrand::Rng;
use pteron_format::fuzzing;
use pteron_schema::flat_tensor as ft;
use pteron_schema::program as pt;
use pteron_schema::vulkan as vk;
use pteron_schema::xnnpack as xn;
use pteron_schema::{Builder, ForwardsUOffset, Vector, WIPOffset};

use crate::targets::files::Kind;

type Many<'b, T> = WIPOffset<Vector<'b, ForwardsUOffset<T>>>;

/// A file of this kind, or of any, that shares somewhere.
pub(super) fn input(rng: &mut Rng, kind: Option<Kind>) -> Vec<u8> {
    let kind = kind.unwrap_or_else(|| [Kind::Program, Kind::Delegate, Kind::Xnnpack, Kind::External][rng.usize(..4)]);
    match kind {
        Kind::Program if rng.u8(..3) == 0 => delegates(rng),
        Kind::Program => program(rng),
        Kind::Delegate => graph(rng),
        Kind::Xnnpack => xnnpack(rng),
        Kind::External => external(rng),
    }
}

/// One to thirty thousand, small numbers as often as large ones.
fn count(rng: &mut Rng) -> usize {
    let most = 1 << rng.u8(..16);
    rng.usize(1..=most)
}

/// A vector of offsets to one table.
fn many<'b, T>(rng: &mut Rng, b: &mut Builder<'b>, item: WIPOffset<T>) -> Option<Many<'b, T>>
where
    T: 'b,
{
    let items = vec![item; count(rng)];
    rng.bool().then(|| b.create_vector(&items))
}

fn text<'b>(rng: &mut Rng, b: &mut Builder<'b>) -> WIPOffset<&'b str> {
    let text = "long ".repeat(count(rng));
    b.create_string(&text)
}

fn program(rng: &mut Rng) -> Vec<u8> {
    let b = &mut Builder::new();
    let word = text(rng, b);
    let zeros = vec![0; count(rng)];
    let ids = Some(b.create_vector::<i32>(&zeros));
    let value = value(rng, b, word, zeros.len());
    let values = many(rng, b, value);
    let operator = pt::OperatorArgs { name: Some(word), overload: Some(word), ..Default::default() }.write(b);
    let operators = many(rng, b, operator);
    let call = pt::KernelCallArgs { op_index: 0, args: ids, ..Default::default() }.write(b).as_union_value();
    let instruction = pt::InstructionArgs { instr_args: Some((pt::KernelCall::TAG, call)), ..Default::default() }.write(b);
    let instructions = many(rng, b, instruction);
    let frame = pt::FrameArgs { filename: Some(word), name: Some(word), context: Some(word), ..Default::default() }.write(b);
    let items = many(rng, b, frame);
    let frames = pt::FrameListArgs { items, ..Default::default() }.write(b);
    let stacktrace = many(rng, b, frames);
    let chain = pt::ChainArgs { inputs: ids, outputs: ids, instructions, stacktrace, ..Default::default() }.write(b);
    let chains = many(rng, b, chain);
    let container =
        pt::ContainerMetadataArgs { encoded_inp_str: Some(word), encoded_out_str: Some(word), ..Default::default() };
    let plan = pt::ExecutionPlanArgs {
        name: Some(word),
        container_meta_type: Some(container.write(b)),
        values,
        inputs: ids,
        outputs: ids,
        chains,
        operators,
        ..Default::default()
    }
    .write(b);
    let segment = pt::DataSegmentArgs { offset: 0, size: 16, ..Default::default() }.write(b);
    let named = pt::NamedDataArgs { key: Some(word), segment_index: 0, ..Default::default() }.write(b);
    let args = pt::ProgramArgs {
        execution_plan: if rng.bool() { Some(b.create_vector(&[plan])) } else { many(rng, b, plan) },
        segments: many(rng, b, segment),
        named_data: many(rng, b, named),
        ..Default::default()
    };
    let root = args.write(b);
    b.finish(root, Some("ET12"));
    fuzzing::program_file(b.finished_data(), &[0; 16])
}

fn value<'b>(rng: &mut Rng, b: &mut Builder<'b>, word: WIPOffset<&'b str>, len: usize) -> WIPOffset<pt::EValue<'b>> {
    let val = match rng.u8(..4) {
        0 => {
            let string = pt::StringArgs { string_val: Some(word), ..Default::default() };
            (pt::String::TAG, string.write(b).as_union_value())
        }
        1 => {
            let items = Some(b.create_vector::<i64>(&vec![0; len]));
            (pt::IntList::TAG, pt::IntListArgs { items, ..Default::default() }.write(b).as_union_value())
        }
        2 => {
            let rank = rng.usize(..18);
            let sizes = Some(b.create_vector::<i32>(&vec![1; rank]));
            let dim_order = Some(b.create_vector::<u8>(&(0..18).take(rank).collect::<Vec<_>>()));
            let tensor = pt::TensorArgs { sizes, dim_order, ..Default::default() };
            (pt::Tensor::TAG, tensor.write(b).as_union_value())
        }
        _ => (pt::Null::TAG, pt::NullArgs::default().write(b).as_union_value()),
    };
    pt::EValueArgs { val: Some(val), ..Default::default() }.write(b)
}

/// Many delegates and many segments over the bytes of one blob.
fn delegates(rng: &mut Rng) -> Vec<u8> {
    let (blob, id) = if rng.bool() { (graph(rng), "VulkanBackend") } else { (xnnpack(rng), "XnnpackBackend") };
    let b = &mut Builder::new();
    let id = Some(b.create_string(id));
    let count = count(rng);
    let size = blob.len() as u64;
    let segment = pt::DataSegmentArgs { offset: 0, size, ..Default::default() }.write(b);
    let segments = Some(b.create_vector(&vec![segment; count]));
    let delegates: Vec<_> = (0u32..)
        .take(count)
        .map(|index| {
            let processed = pt::BackendDelegateDataReferenceArgs { location: 1, index, ..Default::default() }.write(b);
            pt::BackendDelegateArgs { id, processed: Some(processed), ..Default::default() }.write(b)
        })
        .collect();
    let delegates = Some(b.create_vector(&delegates));
    let name = Some(b.create_string("forward"));
    let plan = pt::ExecutionPlanArgs { name, delegates, ..Default::default() }.write(b);
    let execution_plan = Some(b.create_vector(&[plan]));
    let root = pt::ProgramArgs { execution_plan, segments, ..Default::default() }.write(b);
    b.finish(root, Some("ET12"));
    fuzzing::program_file(b.finished_data(), &blob)
}

fn graph(rng: &mut Rng) -> Vec<u8> {
    let b = &mut Builder::new();
    let word = text(rng, b);
    let zeros = vec![0; count(rng)];
    let args = Some(b.create_vector::<i32>(&zeros));
    let call = vk::OperatorCallArgs { node_id: 0, name: Some(word), args, ..Default::default() }.write(b);
    let chain = many(rng, b, call);
    let content = if rng.bool() {
        let dims = Some(b.create_vector::<u32>(&vec![1; rng.usize(..18)]));
        let tensor = vk::VkTensorArgs { dims, constant_id: -1, mem_obj_id: -1, ..Default::default() };
        (vk::VkTensor::TAG, tensor.write(b).as_union_value())
    } else {
        let items = Some(b.create_vector::<i64>(&vec![0; zeros.len()]));
        (vk::IntList::TAG, vk::IntListArgs { items, ..Default::default() }.write(b).as_union_value())
    };
    let value = vk::VkValueArgs { value: Some(content), ..Default::default() }.write(b);
    let values = many(rng, b, value);
    // A stored constant's key is verified with the tables and then not needed.
    let offset = if rng.bool() { 0 } else { u64::MAX };
    let constant = vk::VkBytesArgs { offset, length: 0, named_key: Some(word), ..Default::default() }.write(b);
    let constants = many(rng, b, constant);
    let graph = vk::VkGraphArgs { version: Some(word), chain, values, constants, shaders: constants, ..Default::default() };
    let root = if rng.bool() { graph } else { vk::VkGraphArgs { constants, ..Default::default() } }.write(b);
    b.finish(root, Some("VK00"));
    fuzzing::blob_file(b.finished_data(), &[]).unwrap_or_default()
}

fn xnnpack(rng: &mut Rng) -> Vec<u8> {
    let b = &mut Builder::new();
    let word = text(rng, b);
    let dims = Some(b.create_vector::<u32>(&vec![1; rng.usize(..9)]));
    let num_dims = rng.u32(..9);
    let (external_id, id_out) = (u32::MAX, rng.u32(..2));
    let tensor = xn::XnnTensorValueArgs {
        datatype: 6,
        num_dims,
        dims,
        constant_buffer_idx: 1,
        external_id,
        id_out,
        ..Default::default()
    };
    let tensor_value = Some(tensor.write(b));
    let scale = Some(b.create_vector::<f32>(&vec![1.0; count(rng)]));
    let quant = xn::PerChannelQuantArgs { scale, ..Default::default() }.write(b).as_union_value();
    let quant_params = Some((xn::PerChannelQuant::TAG, quant));
    let value = xn::XnnQuantizedTensorValueArgs { tensor_value, quant_params, ..Default::default() }.write(b);
    let xvalue_union = Some((xn::XnnQuantizedTensorValue::TAG, value.as_union_value()));
    let value = xn::XValueArgs { xvalue_union, ..Default::default() }.write(b);
    let xvalues = many(rng, b, value);
    let perm = Some(b.create_vector::<u32>(&vec![0; count(rng)]));
    let kind = xn::StaticTransposeArgs { num_dims, perm, ..Default::default() }.write(b).as_union_value();
    let node = xn::XNodeArgs { xnode_union: Some((5, kind)), ..Default::default() }.write(b);
    let xnodes = many(rng, b, node);
    let constant = xn::ConstantDataOffsetArgs { offset: u64::MAX, size: 1, named_key: Some(word), ..Default::default() };
    let constant = constant.write(b);
    let constant_data = many(rng, b, constant);
    let storage = Some(b.create_vector::<u8>(&vec![0; count(rng)]));
    let buffer = xn::BufferArgs { storage, ..Default::default() }.write(b);
    let constant_buffer = many(rng, b, buffer);
    let args =
        xn::XnnGraphArgs { version: Some(word), xnodes, xvalues, constant_data, constant_buffer, ..Default::default() };
    let root = args.write(b);
    b.finish(root, Some(if rng.bool() { "XN01" } else { "XN00" }));
    match rng.bool() {
        true => b.finished_data().to_vec(),
        false => fuzzing::xnnpack_blob_file(b.finished_data(), &[]).unwrap_or_default(),
    }
}

fn external(rng: &mut Rng) -> Vec<u8> {
    let b = &mut Builder::new();
    let key = Some(text(rng, b));
    let sizes = Some(b.create_vector::<i32>(&vec![1; rng.usize(..18)]));
    let dim_order = Some(b.create_vector::<u8>(&vec![0; count(rng)]));
    let layout = ft::TensorLayoutArgs { sizes, dim_order, ..Default::default() }.write(b);
    let entry = ft::NamedDataArgs { key, segment_index: 0, tensor_layout: Some(layout), ..Default::default() }.write(b);
    let segment = ft::DataSegmentArgs { offset: 0, size: 16, ..Default::default() }.write(b);
    let (segments, named_data) = (many(rng, b, segment), many(rng, b, entry));
    let root = ft::FlatTensorArgs { segments, named_data, ..Default::default() }.write(b);
    b.finish(root, Some("FT01"));
    fuzzing::external_file(b.finished_data(), &[0; 16])
}
