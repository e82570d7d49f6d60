//! `f16` KV caches: which caches are narrowed, which kernels run on them, and their outputs.

use super::*;
use crate::engine::{LoadOptions, StateDtype};
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::resize::Planned;
use crate::testing::{check_with, f16_gpu, run};

const SIZES: Sizes = Sizes { heads: (8, 2), dim: 64, tokens: 40, cache: 300 };
/// Elements per cache.
const ELEMENTS: u32 = SIZES.cache * SIZES.heads.1 * SIZES.dim;
const F16: Caps = Caps { f16: true, ..Caps::PORTABLE };

fn f16_state() -> LoadOptions {
    LoadOptions { state_dtype: StateDtype::F16, ..LoadOptions::default() }
}

/// Attention whose caches are not outputs.
fn hidden(mut builder: crate::testing::GraphBuilder) -> crate::testing::GraphBuilder {
    builder.graph.outputs.truncate(1);
    builder
}

fn usual(sizes: Sizes) -> crate::testing::GraphBuilder {
    hidden(builder(NAME, sizes, true, USUAL).inner)
}

/// The key and value caches of a graph.
fn caches(builder: &crate::testing::GraphBuilder) -> [ValueId; 2] {
    let args = &builder.graph.calls.last().unwrap().args;
    [args[3], args[4]]
}

fn elems(builder: &crate::testing::GraphBuilder, state_dtype: StateDtype, caps: Caps) -> Vec<Elem> {
    let graph = state_dtype.of(builder.decode().unwrap(), caps).unwrap();
    caches(builder).map(|cache| graph.info(TensorId(cache.0)).elem).to_vec()
}

#[test]
fn state_that_attention_alone_touches_is_narrowed_where_asked_for() {
    let builder = usual(SIZES);
    assert_eq!(elems(&builder, StateDtype::F16, F16), [Elem::F16; 2]);
    assert_eq!(elems(&builder, StateDtype::F32, F16), [Elem::F32; 2]);
    assert_eq!(elems(&builder, StateDtype::F16, Caps::PORTABLE), [Elem::F32; 2]);
}

#[test]
fn caches_that_others_see_stay_as_they_are() {
    let stays = |builder: &crate::testing::GraphBuilder| assert_eq!(elems(builder, StateDtype::F16, F16), [Elem::F32; 2]);
    stays(&builder(NAME, SIZES, true, USUAL).inner);
    stays(&hidden(builder(NAME, SIZES, false, USUAL).inner));
    stays(&hidden(builder(SLICED, SIZES, true, USUAL).inner));
    for dim in [6, 260] {
        stays(&usual(Sizes { dim, ..SIZES }));
    }
    for cache in 0..2 {
        // A cache that another operator reads, and its sibling.
        let mut read = usual(SIZES);
        let (cache, attention) = (caches(&read)[cache], read.graph.calls.pop().unwrap());
        let out = read.tensor(DataType::Float32, &[1, SIZES.cache, SIZES.heads.1, SIZES.dim]);
        read.call("aten.sigmoid.default", &[cache, out]);
        read.graph.calls.push(attention);
        stays(&read);
    }
}

#[test]
fn caches_of_several_calls_are_narrowed_together_or_not() {
    // Two calls share keys; the values of the second are an output, so the keys stay `f32`, and so do the values of the
    // first.
    let mut shared = usual(SIZES);
    let first = shared.graph.calls.last().unwrap().clone();
    let shape = [1, SIZES.cache, SIZES.heads.1, SIZES.dim];
    let values = shared.floats(&shape, &vec![0.0; ELEMENTS as usize]);
    let out = shared.tensor(DataType::Float32, &[1, SIZES.tokens, SIZES.heads.0, SIZES.dim]);
    let mut args = first.args.clone();
    args[4] = values;
    *args.last_mut().unwrap() = out;
    shared.call(NAME, &args);
    let of_both = |builder: &crate::testing::GraphBuilder| {
        let graph = StateDtype::F16.of(builder.decode().unwrap(), F16).unwrap();
        [first.args[3], first.args[4], values].map(|cache| graph.info(TensorId(cache.0)).elem)
    };
    assert_eq!(of_both(&shared), [Elem::F16; 3]);
    shared.output(values);
    assert_eq!(of_both(&shared), [Elem::F32; 3]);
}

#[test]
fn the_same_kernels_run_on_narrow_caches() {
    let subgroups = Caps { subgroups: true, subgroup_size: (32, 32), ..F16 };
    let coop_matrix = Caps { cooperative_matrix: true, workgroup_memory: 48 * 1024, ..subgroups };
    let variants = |graph: &DecodedGraph, caps| -> Vec<crate::kernel::Variant> {
        let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        let planned = Planned::at_bounds(graph, &bounds, caps).unwrap();
        planned.recipes()[1].list.iter().map(|recipe| recipe.variant.clone()).collect()
    };
    let builders = [usual(SIZES), hidden(rotary(SIZES, 300, 32))];
    for (builder, caps) in builders.iter().flat_map(|builder| [F16, subgroups, coop_matrix].map(|caps| (builder, caps))) {
        let [f32, f16] = [StateDtype::F32, StateDtype::F16]
            .map(|state_dtype| variants(&state_dtype.of(builder.decode().unwrap(), caps).unwrap(), caps));
        assert_eq!(f32.len(), f16.len());
        for (f32, f16) in f32.iter().zip(&f16) {
            assert_eq!((f32.label, &f32.constants), (f16.label, &f16.constants));
            let expected: &[_] = match f16.label {
                "sdpa_split_kv_combine" => &[],
                // Two vectors per load.
                "sdpa_flash_decode_subgroups" => &[("KV", "vec4<u32>")],
                _ => &[("KV", "vec4<f16>")],
            };
            let caches = |variant: &crate::kernel::Variant| -> Vec<_> {
                variant.types.iter().filter(|(name, _)| *name == "KV").copied().collect()
            };
            assert_eq!(caches(f16), expected, "{}", f16.label);
            assert!(caches(f32).iter().all(|(_, ty)| *ty == "vec4<f32>"), "{}", f32.label);
            let others = |variant: &crate::kernel::Variant| -> Vec<_> {
                variant.types.iter().filter(|(name, _)| *name != "KV").copied().collect()
            };
            assert_eq!(others(f32), others(f16), "{}", f16.label);
        }
    }
}

#[test]
fn narrow_caches_agree_where_there_are_any() {
    let Some(gpu) = f16_gpu() else { return };
    let shapes = [(40, 0), (1, 40), (5, 41), (0, 9), (1, 46), (40, 200), (1, 299)];
    for (heads, dim) in [((8, 2), 64), ((6, 2), 20), ((2, 1), 4), ((2, 2), 132)] {
        let sizes = Sizes { heads, dim, ..SIZES };
        let calls: Vec<_> = shapes.map(|shape| call(sizes, true, shape)).into();
        for gpu in [gpu.clone(), gpu.with_caps(Caps { subgroups: false, ..gpu.caps() })] {
            for builder in [usual(sizes), hidden(rotary(sizes, 300, dim / 2))] {
                check_with(&gpu, &f16_state(), &builder, &calls, 4e-3);
            }
        }
    }
}

#[test]
fn narrow_caches_take_half_the_memory_and_start_as_the_file_says() {
    let Some(gpu) = f16_gpu() else { return };
    let mut builder = usual(SIZES);
    let bytes = |how: &LoadOptions| builder.load_on(&gpu, how).unwrap().state_bytes();
    let elements = u64::from(ELEMENTS);
    assert_eq!((bytes(&LoadOptions::default()), bytes(&f16_state())), (2 * 4 * elements, 2 * 2 * elements));
    for (seed, constant) in [7, 8].into_iter().zip(&mut builder.constants) {
        *constant = bytemuck::cast_slice(&noise(seed, ELEMENTS as usize)).to_vec();
    }
    let calls: Vec<_> = [(3, 100), (1, 250), (40, 200)].map(|shape| call(SIZES, true, shape)).into();
    check_with(&gpu, &f16_state(), &builder, &calls, 4e-3);
}

#[test]
fn a_copy_of_a_state_goes_on_from_where_it_is() {
    let Some(gpu) = f16_gpu() else { return };
    let loaded = usual(SIZES).load_on(&gpu, &f16_state()).unwrap();
    let mut state = loaded.new_state().unwrap();
    run(&loaded, &mut state, &call(SIZES, true, (40, 0))).unwrap();
    let mut copy = loaded.clone_state(&state).unwrap();
    let next = call(SIZES, true, (1, 40));
    let [own, copied, fresh] =
        [&mut state, &mut copy, &mut loaded.new_state().unwrap()].map(|state| run(&loaded, state, &next).unwrap());
    assert_eq!(own, copied);
    assert_ne!(own, fresh);
}

#[test]
fn values_too_large_for_f16_saturate() {
    let Some(gpu) = f16_gpu() else { return };
    let loaded = usual(SIZES).load_on(&gpu, &f16_state()).unwrap();
    let mut state = loaded.new_state().unwrap();
    for (tokens, at) in [(40, 0), (2, 40)] {
        let mut inputs = call(SIZES, true, (tokens, at));
        for input in &mut inputs[1..3] {
            let HostData::F32(values) = &mut input.data else { unreachable!("floats") };
            values.iter_mut().for_each(|value| *value *= 1e6);
        }
        run(&loaded, &mut state, &inputs).unwrap();
    }
    let output = run(&loaded, &mut state, &call(SIZES, true, (1, 42))).unwrap();
    let values: Vec<f32> = bytemuck::pod_collect_to_vec(&output[0].bytes);
    assert!(values.iter().all(|value| value.is_finite() && value.abs() <= 65504.0), "{values:?}");
    assert!(values.iter().any(|value| value.abs() > 10000.0), "{values:?}");
}
