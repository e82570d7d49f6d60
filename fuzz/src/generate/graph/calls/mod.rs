//! A call of every operator: arguments that go together, and the tensors it writes.

mod blocks;
mod elementwise;
mod movement;
mod products;

use std::sync::LazyLock;

use pteron_format::vulkan::Value;
use pteron_gpu::ops::{OPS, find_in_files};

use super::builder::{Dim, GraphBuilder};
use crate::generate::cursor::Cursor;

type Maker = fn(&mut GraphBuilder, &mut Cursor<'_>, &str);

/// Every operator of the registry with what makes a call of it.
static OPERATORS: LazyLock<Vec<(&'static str, Option<Maker>)>> = LazyLock::new(|| {
    let names = OPS.iter().flat_map(|def| def.names).copied();
    names.map(|name| (name, maker(name))).collect()
});

/// The operators that files may call.
static PUBLIC: LazyLock<Vec<(&'static str, Option<Maker>)>> =
    LazyLock::new(|| OPERATORS.iter().copied().filter(|(name, _)| find_in_files(name).is_some()).collect());

fn maker(name: &str) -> Option<Maker> {
    use {elementwise as e, movement as m, products as p};
    Some(match name {
        "aten.sigmoid.default"
        | "aten.relu.default"
        | "aten.abs.default"
        | "aten.neg.default"
        | "aten.exp.default"
        | "aten.sqrt.default"
        | "aten.rsqrt.default"
        | "aten.tanh.default"
        | "aten.sin.default"
        | "aten.cos.default"
        | "aten.round.default"
        | "aten.log10.default"
        | "aten.hardswish.default"
        | "aten.gelu.default"
        | "aten.leaky_relu.default"
        | "aten.hardshrink.default"
        | "aten.hardtanh.default"
        | "aten.clamp.default"
        | "aten.pow.Tensor_Scalar" => e::unary,
        "aten.add.Tensor"
        | "aten.sub.Tensor"
        | "aten.mul.Tensor"
        | "aten.div.Tensor"
        | "aten.div.Tensor_mode"
        | "aten.minimum.default"
        | "aten.pow.Tensor_Tensor"
        | "aten.bitwise_and.Tensor"
        | "aten.bitwise_or.Tensor" => e::binary,
        "aten.eq.Tensor"
        | "aten.ne.Tensor"
        | "aten.lt.Tensor"
        | "aten.le.Tensor"
        | "aten.gt.Tensor"
        | "aten.ge.Tensor"
        | "aten.logical_and.default"
        | "aten.logical_or.default" => e::compare_two,
        "aten.eq.Scalar"
        | "aten.ne.Scalar"
        | "aten.lt.Scalar"
        | "aten.le.Scalar"
        | "aten.gt.Scalar"
        | "aten.ge.Scalar"
        | "aten.logical_not.default"
        | "aten.bitwise_not.default" => e::compare_one,
        "aten.where.self" => e::where_self,
        "aten._to_copy.default" | "dim_order_ops._to_dim_order_copy.default" => e::convert,
        "quantized_decomposed.quantize_per_tensor.default" | "quantized_decomposed.dequantize_per_tensor.default" => {
            e::quantise
        }
        "aten.full.default"
        | "aten.zeros.default"
        | "aten.ones.default"
        | "aten.full_like.default"
        | "aten.zeros_like.default"
        | "aten.ones_like.default"
        | "aten.scalar_tensor.default" => e::fill,
        "aten.arange.start_step" => e::arange,
        "aten.view_copy.default"
        | "aten.clone.default"
        | "aten.alias_copy.default"
        | "dim_order_ops._clone_dim_order.default"
        | "aten.unsqueeze_copy.default"
        | "aten.squeeze_copy.dims" => m::kept,
        "et_vk.prepack.default" => m::prepack,
        "aten.select_copy.int" => m::select,
        "aten.slice_copy.Tensor" => m::slice,
        "aten.permute_copy.default" | "aten.permute.default" | "aten.t_copy.default" | "aten.flip.default" => m::reorder,
        "aten.expand_copy.default" => m::expand,
        "aten.repeat.default" => m::repeat,
        "aten.cat.default" => m::cat,
        "aten.split_with_sizes_copy.default" => m::split,
        "aten.constant_pad_nd.default" => m::pad,
        "aten.gather.default" | "aten.index_select.default" | "aten.index.Tensor" => m::gather,
        "aten.embedding.default" | "et_vk.embedding_q4gsw.default" => m::embedding,
        "pteron.store" => m::store,
        "aten.linear.default" => p::linear,
        "et_vk.linear_q4gsw.default" | "et_vk.linear_qcs4w.default" | "et_vk.linear_dq8ca_q4gsw.default" => p::linear_q4,
        "aten.mm.default" | "aten.bmm.default" | "aten.addmm.default" => p::mm,
        "aten.sum.dim_IntList"
        | "aten.mean.dim"
        | "aten.amax.default"
        | "aten.amin.default"
        | "aten.argmax.default"
        | "aten.argmin.default" => p::reduce,
        "aten._softmax.default" | "aten._log_softmax.default" => p::softmax,
        "aten.native_layer_norm.default" => p::layer_norm,
        "et_vk.rms_norm.default" => p::rms_norm,
        "torchao.choose_qparams_affine.default" => p::choose_qparams,
        "et_vk.apply_rotary_emb.default"
        | "et_vk.apply_rotary_emb_hf.default"
        | "et_vk.apply_rotary_emb_interleaved.default" => p::rotary,
        "sdpa_with_kv_cache.default" | "pteron.sdpa_naive" | "pteron.sdpa_sliced" | "pteron.rotary_sdpa" => p::sdpa,
        "update_cache.default" => p::update_cache,
        "et_vk.sdpa.default" => p::attention,
        "pteron.sample_row" => p::sample_row,
        "pteron.fused_linear" => p::fused_linear,
        "sym_size.int" | "et_vk.select_as_symint.default" | "add" | "sub" | "mul" | "floordiv" => p::symbolic,
        _ => return None,
    })
}

/// A call of any operator, or several that stand together.
pub(super) fn any(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) {
    match cursor.below(40) {
        0 => blocks::feed_forward(builder, cursor),
        1 => blocks::self_attention(builder, cursor),
        2 => blocks::last_logits(builder, cursor),
        3 if builder.hostile => {
            let (name, maker) = cursor.of(&OPERATORS);
            one(builder, cursor, name, maker);
        }
        _ => {
            let (name, maker) = cursor.of(&PUBLIC);
            one(builder, cursor, name, maker);
        }
    }
}

fn one(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str, maker: Option<Maker>) {
    maker.unwrap_or(unknown)(builder, cursor, name);
}

/// A call of an operator that nothing is known of: anything there is, in any order.
fn unknown(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let mut args = Vec::new();
    for _ in 0..cursor.below(6) {
        args.push(match cursor.below(5) {
            0 => builder.int(cursor.integer()),
            1 => builder.float(cursor.float()),
            2 => builder.value(Value::Null),
            _ => builder.any(cursor, elementwise::ALL, 0..=4).id,
        });
    }
    let rank = cursor.below(4);
    let dims: Vec<Dim> = builder.dims(cursor, rank);
    let dtype = cursor.of(elementwise::ALL);
    builder.out(name, &args, dtype, &dims);
}

#[cfg(test)]
mod tests {
    use pteron_gpu::fuse::Fusions;

    use super::*;

    #[test]
    fn every_operator_has_a_maker() {
        let missing: Vec<_> = OPERATORS.iter().filter(|(_, maker)| maker.is_none()).map(|(name, _)| *name).collect();
        assert!(missing.is_empty(), "no calls are made of {missing:?}");
    }

    /// Sensible calls are mostly taken: a maker whose every call is refused tests nothing.
    #[test]
    fn sensible_calls_of_every_operator_are_decoded_and_planned() {
        let mut never = Vec::new();
        for &(name, maker) in PUBLIC.iter() {
            let taken = (0..=255u8).any(|seed| {
                let mut builder = GraphBuilder::new(false);
                one(&mut builder, &mut Cursor::new(&[seed, 3]), name, maker);
                super::super::finish(&mut builder, &mut Cursor::new(&[seed]));
                let Ok(graph) = builder.decode(&Fusions::NONE) else { return false };
                let bounds: Vec<_> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
                pteron_gpu::resize::Planned::at_bounds(&graph, &bounds, pteron_gpu::plan::Caps::PORTABLE).is_ok()
            });
            if !taken {
                never.push(name);
            }
        }
        assert!(never.is_empty(), "every call is refused of {never:?}");
    }
}
