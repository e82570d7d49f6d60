use super::work_list::SequenceRows;
use super::*;
use crate::engine::{Gpu, LoadOptions};
use crate::ir::DataType;
use crate::narrow_state::StateDtype;
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, check_on, check_with, f16_gpu, f32s, gpu, i32s, noise, with_and_without_subgroups};

#[derive(Clone, Copy)]
struct Sizes {
    heads: (u32, u32),
    dim: u32,
    rotated: bool,
}

const ROWS: u32 = 70;
const BLOCKS: u32 = 24;
const POSITIONS: u32 = 400;

fn builder(sizes: Sizes, shows_pools: bool) -> GraphBuilder {
    let Sizes { heads, dim, rotated } = sizes;
    let float = DataType::Float32;
    let mut builder = GraphBuilder::new();
    let [q, k, v] = [heads.0, heads.1, heads.1].map(|heads| builder.input(float, &[1, ROWS, heads, dim]));
    let work = builder.input(DataType::Int32, &[1000]);
    let copies = builder.input(DataType::Int32, &[4, 2]);
    let tables = [8, 9].map(|seed| match rotated {
        true => builder.floats(&[POSITIONS, dim / 2], &noise(seed, (POSITIONS * dim / 2) as usize)),
        false => builder.value(Value::Null),
    });
    let shape = [BLOCKS, BLOCK_POSITIONS, heads.1, dim];
    let count: u32 = shape.iter().product();
    let pools = [3, 4].map(|seed| builder.floats(&shape, &noise(seed, count as usize)));
    let (positions, none) = (builder.int(POSITIONS.into()), builder.value(Value::Null));
    let out = builder.tensor(float, &[1, ROWS, heads.0, dim]);
    let args = [q, k, v, tables[0], tables[1], pools[0], pools[1], work, work, copies, positions, none, out];
    builder.call(NAME, &args);
    builder.output(out);
    if shows_pools {
        pools.iter().for_each(|&pool| builder.output(pool));
    }
    builder
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap()
}

/// A call of sequences with these rows and positions. Block tables are in scattered order.
fn call(gpu: &Gpu, builder: &GraphBuilder, sizes: Sizes, sequences: &[(u32, u32)], copies: &[i32]) -> Vec<HostTensor> {
    let graph = builder.decode().unwrap();
    let bounds: Vec<Dims> = graph.tensors.iter().map(|info| info.map_or(Dims::SCALAR, |info| info.bound)).collect();
    let op: &PagedSdpa = graph.nodes[0].op.downcast().unwrap();
    let tiling = op.tiling(&BoundsCx::new(&bounds, gpu.caps())).unwrap();
    let (mut rows, mut list, mut tables) = (0, Vec::new(), Vec::new());
    let mut block = 5;
    for &(row_count, position) in sequences {
        list.push(SequenceRows { first_row: rows, row_count, position, block_table_offset: count(&tables) });
        for _ in 0..(position + row_count).div_ceil(BLOCK_POSITIONS) {
            tables.push(block);
            block = (block + 7) % BLOCKS;
        }
        rows += row_count;
    }
    let words = tiling.work_list(rows, &list, &tables).unwrap();
    let random = |seed: u64, heads: u32| {
        let dims = [1, rows, heads, sizes.dim];
        f32s(&dims, noise(seed + u64::from(rows), dims.iter().product::<u32>() as usize))
    };
    let mut inputs = vec![random(11, sizes.heads.0), random(12, sizes.heads.1), random(13, sizes.heads.1)];
    inputs.push(i32s(&[count(&words)], words));
    inputs.push(i32s(&[count(copies) / 2, 2], copies.to_vec()));
    inputs
}

/// Mixes of decode rows, short and long chunks, with and without cached positions, long contexts that are split, and copied blocks.
fn calls(gpu: &Gpu, builder: &GraphBuilder, sizes: Sizes) -> Vec<Vec<HostTensor>> {
    type Mix = (&'static [(u32, u32)], &'static [i32]);
    let mixes: [Mix; 6] = [
        (&[(1, 0)], &[]),
        (&[(1, 40), (1, 0), (1, 31), (1, 32), (1, 200)], &[]),
        (&[(40, 30), (1, 5), (3, 62)], &[3, 4]),
        (&[(33, 0), (37, 64)], &[]),
        (&[(1, 399), (2, 300)], &[5, 6, 12, 13]),
        (&[], &[]),
    ];
    mixes.iter().map(|(sequences, copies)| call(gpu, builder, sizes, sequences, copies)).collect()
}

/// A graph of paged attention, and calls of it on the device that tests run on.
pub(crate) fn sample() -> (GraphBuilder, Vec<Vec<HostTensor>>) {
    let builder = builder(SIZES[0], true);
    let calls = calls(&gpu(), &builder, SIZES[0]);
    (builder, calls)
}

const SIZES: [Sizes; 4] = [
    Sizes { heads: (4, 2), dim: 8, rotated: true },
    Sizes { heads: (6, 1), dim: 64, rotated: true },
    Sizes { heads: (3, 3), dim: 20, rotated: false },
    Sizes { heads: (16, 1), dim: 128, rotated: true },
];

#[test]
fn mixes_of_sequences_agree() {
    for sizes in SIZES {
        for gpu in with_and_without_subgroups() {
            let builder = builder(sizes, true);
            check_on(&gpu, &builder, &calls(&gpu, &builder, sizes), 1e-4);
        }
    }
}

#[test]
fn pools_of_f16_agree() {
    let Some(gpu) = f16_gpu() else { return };
    for sizes in [SIZES[0], SIZES[1]] {
        let builder = builder(sizes, false);
        let options = LoadOptions { state_dtype: StateDtype::F16, ..LoadOptions::default() };
        check_with(&gpu, &options, &builder, &calls(&gpu, &builder, sizes), 5e-3);
    }
}
