use proptest::prelude::*;

use super::tiles::{TILE_WORDS, max_tiles, tiles};
use super::*;
use crate::ir::{DataType, Graph, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, gpu, i32s, load_error, noise, noise_bytes};

/// The sizes of a graph.
#[derive(Clone, Debug)]
struct Sizes {
    rows: u32,
    k: u32,
    widths: Vec<u32>,
    slots: u32,
    rank: u32,
    norm: bool,
    swiglu: bool,
}

/// Pairs of 16-bit floats.
fn packed(seed: u64, count: u32) -> Vec<u8> {
    noise(seed, count as usize).iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect()
}

/// Rows, and a linear of them by negation or two: what the updates are added to. The outputs are those of the operator.
fn builder(sizes: &Sizes) -> GraphBuilder {
    let Sizes { rows, k, widths, slots, rank, norm, swiglu } = sizes;
    let (count, width) = (u32::try_from(widths.len()).unwrap(), widths.iter().sum::<u32>());
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let x = builder.input(float, &[1, *rows, *k]);
    let tiles = builder.input(DataType::Int32, &[max_tiles(*rows, *slots), TILE_WORDS]);
    let products = widths.iter().map(|&width| {
        let y = builder.input(float, &[1, *rows, width]);
        let product = builder.tensor(float, &[1, *rows, width]);
        builder.call("aten.neg.default", &[y, product]);
        product
    });
    let products: Vec<ValueId> = products.collect();
    let norm = norm.then(|| (TensorId(builder.floats(&[*k], &noise(4, *k as usize)).0), 1e-5));
    let a = builder.constant(DataType::Int32, &[*slots, count, *rank, k / 2], packed(1, slots * count * rank * k));
    let b = builder.constant(DataType::Int32, &[*slots, width, rank / 2], packed(2, slots * width * rank));
    // One adapter leaves a linear alone.
    let mut values = noise(3, (slots * count) as usize);
    values[count as usize - 1] = 0.0;
    let scales = builder.floats(&[*slots, count], &values);
    let kept = if *swiglu { 1 } else { widths.len() };
    let outputs: Vec<ValueId> = widths[..kept].iter().map(|&width| builder.tensor(float, &[1, *rows, width])).collect();
    outputs.iter().for_each(|&out| builder.output(out));
    let (x, labels) = (TensorId(x.0), vec![0; widths.len()]);
    let call = LoraCall { x, norm, products, matrices: [a, b, scales], tiles, swiglu: *swiglu, labels, outputs };
    let call = call.call(&mut builder.graph);
    builder.graph.calls.push(call);
    builder
}

/// A call whose rows have these adapters.
fn call(sizes: &Sizes, slots: &[Option<u32>]) -> Vec<HostTensor> {
    let rows = u32::try_from(slots.len()).unwrap();
    let random = |seed: u64, width: u32| f32s(&[1, rows, width], noise(seed, (rows * width) as usize));
    let ranks: Vec<u32> = (0..sizes.slots).map(|slot| sizes.rank.saturating_sub(4 * slot).max(4)).collect();
    let words = tiles(slots, &ranks).unwrap();
    let count = u32::try_from(words.len()).unwrap() / TILE_WORDS;
    let products = (20..).zip(&sizes.widths).map(|(seed, &width)| random(seed, width));
    [random(u64::from(rows) + 9, sizes.k), i32s(&[count, TILE_WORDS], words)].into_iter().chain(products).collect()
}

fn sample_sizes() -> Sizes {
    Sizes { rows: 21, k: 68, widths: vec![72, 8, 130], slots: 3, rank: 8, norm: true, swiglu: false }
}

/// Mixes: all rows of one adapter, of several, some without, none, none at all.
fn mixes(rows: u32, slots: u32) -> Vec<Vec<Option<u32>>> {
    let mixed = |row: u32| ((row * 5 + row / 4) % (slots + 1)).checked_sub(1);
    vec![
        (0..rows).map(mixed).collect(),
        vec![Some(slots - 1); rows as usize],
        vec![None; rows as usize],
        (0..rows.div_ceil(2)).map(mixed).collect(),
        vec![Some(0)],
        vec![],
    ]
}

/// A graph, and calls of it.
pub(crate) fn sample() -> (GraphBuilder, Vec<Vec<HostTensor>>) {
    let sizes = sample_sizes();
    (builder(&sizes), mixes(sizes.rows, sizes.slots).iter().map(|slots| call(&sizes, slots)).collect())
}

fn agree(sizes: &Sizes) {
    let calls: Vec<_> = mixes(sizes.rows, sizes.slots).iter().map(|slots| call(sizes, slots)).collect();
    check(&builder(sizes), &calls, 2e-4);
}

#[test]
fn updates_of_merged_linears_and_of_swiglu_agree() {
    agree(&sample_sizes());
    agree(&Sizes { widths: vec![66, 66], swiglu: true, ..sample_sizes() });
    agree(&Sizes { widths: vec![4], norm: false, slots: 1, rank: 4, k: 4, rows: 1, ..sample_sizes() });
    agree(&Sizes { widths: vec![40, 12], norm: false, k: 520, rank: 64, ..sample_sizes() });
    // Rows of several chunks.
    agree(&Sizes { widths: vec![66, 66], swiglu: true, k: 1540, rank: 40, ..sample_sizes() });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shapes_agree(
        (rows, slots, seed) in (1u32..40, 1u32..5, any::<u64>()),
        (fours, rank) in (1u32..40, 1u32..8),
        widths in prop::collection::vec(1u32..140, 1..=3),
        (norm, swiglu) in any::<(bool, bool)>(),
    ) {
        let widths = if swiglu { vec![widths[0]; 2] } else { widths };
        let sizes = Sizes { rows, k: 4 * fours, widths, slots, rank: 4 * rank, norm, swiglu };
        let calls = (0..4u64).map(|index| {
            let state = noise_bytes(seed ^ index, rows as usize + 1);
            let live = usize::from(state[0]) % (rows as usize + 1);
            let slot = |&byte: &u8| (u32::from(byte) % (slots + 1)).checked_sub(1);
            let rows: Vec<_> = state[1..=live].iter().map(slot).collect();
            call(&sizes, &rows)
        });
        check(&builder(&sizes), &calls.collect::<Vec<_>>(), 2e-4);
    }
}

#[test]
fn rows_without_adapters_run_nothing_and_keep_their_memory() {
    let sizes = sample_sizes();
    let mut dry_run = DryRun::new(&builder(&sizes)).unwrap();
    let node = sizes.widths.len();
    let mut steps = |slots: &[Option<u32>]| {
        let inputs = call(&sizes, slots);
        let live: Vec<(&[u32], &[i32])> = inputs.iter().map(|input| (&*input.dims, &[][..])).collect();
        dry_run.call(&live).unwrap();
        dry_run.recipes(node)
    };
    assert_eq!(steps(&[None; 7]), [] as [usize; 0]);
    assert_eq!(steps(&[None, Some(1)]), [SHRINK_RECIPE, EXPAND_RECIPE]);
    let graph = builder(&sizes).decode().unwrap();
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let planned = crate::resize::Planned::at_bounds(&graph, &bounds, gpu().caps()).unwrap();
    let memory = crate::memory::Memory::plan(&graph, &planned).unwrap();
    let op: &Lora = graph.nodes[node].op.downcast().unwrap();
    for (product, out) in op.products.iter().zip(&op.outputs) {
        assert_eq!(memory.tensors[product.index()], memory.tensors[out.index()]);
    }
    assert!(!memory.aliased[node]);
}

/// The graph with an argument replaced.
fn with(edit: impl Fn(&mut Graph) -> (usize, ValueId)) -> GraphBuilder {
    let mut builder = builder(&sample_sizes());
    let (position, value) = edit(&mut builder.graph);
    builder.graph.calls.last_mut().unwrap().args[position] = value;
    builder
}

#[test]
fn bad_arguments_are_rejected() {
    let tensor = |graph: &mut Graph, dtype, dims: &[u32]| graph.add(Value::Tensor(crate::ir::Tensor::new(dtype, dims)));
    let input = |graph: &mut Graph, dtype, dims: &[u32]| {
        let id = tensor(graph, dtype, dims);
        graph.inputs.push(id);
        id
    };
    let short = with(|graph| (4, input(graph, DataType::Int32, &[3, 2, 8, 34])));
    assert!(load_error(&short).contains("`a` is [3, 2, 8, 34], expected slots of 3 matrices"));
    let narrow = with(|graph| (5, input(graph, DataType::Int32, &[3, 209, 4])));
    assert!(load_error(&narrow).contains("`b` is [3, 209, 4] and `scales` [3, 3]"));
    let tiles = with(|graph| (7, input(graph, DataType::Int32, &[4, 9])));
    assert!(load_error(&tiles).contains("`tiles` is [4, 9], expected tiles of 10 words"));
    let swiglu = with(|graph| (8, graph.add(Value::Bool(true))));
    assert!(load_error(&swiglu).contains("`swiglu` is true for linears of [72, 8, 130] columns"));
    let wide = with(|graph| (0, input(graph, DataType::Float32, &[1, 21, 72])));
    assert!(load_error(&wide).contains("`x` is [1, 21, 72], but the matrices have 68 columns"));
}

#[test]
fn products_that_others_read_are_not_changed_in_place() {
    let mut read = builder(&sample_sizes());
    let Some(Value::ValueList(products)) = read.graph.value(read.graph.calls.last().unwrap().args[3]).cloned() else {
        unreachable!("a list of products")
    };
    read.output(products[1]);
    assert!(load_error(&read).contains("not for this operator alone to change"));
    let mut given = builder(&sample_sizes());
    given.graph.calls.remove(0);
    let y = given.graph.inputs[2];
    let list = given.value(Value::ValueList(vec![y, products[1], products[2]]));
    given.graph.calls.last_mut().unwrap().args[3] = list;
    assert!(load_error(&given).contains("not for this operator alone to change"));
}
