//! Few rows: one dispatch for everything, by the kernel for subgroups where all of them have one size, else by its portable twin.

use super::{Binds, Linears, Params};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{GEMV_ROWS, gemv_holding};
use crate::plan::{Caps, Dispatch, Recipe};

pub(super) static PORTABLE: KernelDef =
    KernelDef::new("linears_q4gsw_gemv", include_str!("linears_q4gsw_gemv.wgsl"), Params::FIELDS)
        .with_variants(|| vec![holding(&PORTABLE, PORTABLE_COLUMNS)])
        .proven();
pub(super) static SUBGROUPS: KernelDef =
    KernelDef::new("linears_q4gsw_gemv_subgroups", include_str!("linears_q4gsw_gemv_subgroups.wgsl"), Params::FIELDS)
        .with_variants(|| COLUMNS.iter().map(|&columns| holding(&SUBGROUPS, columns)).collect())
        .with_subgroups()
        .proven();

/// Columns that a workgroup of the portable kernel shares.
const PORTABLE_COLUMNS: u32 = 4;

// What to tune on a device with subgroups.
/// Columns that a subgroup may take, the most first: it reads the activations once for all of them, but there must be enough
/// subgroups to keep a GPU busy, and registers enough to hold them.
const COLUMNS: [u32; 3] = [4, 2, 1];
/// The most columns a subgroup takes where it holds one, two, four and eight rows of activations.
const MOST_COLUMNS: [u32; GEMV_ROWS.len()] = [4, 4, 4, 2];
/// Subgroups that keep a large GPU busy: with fewer, each takes fewer columns.
const FULL_GRID: u32 = 4096;
/// Threads of a workgroup: small ones leave less to wait for at the end of a grid.
const THREADS: u32 = 128;
/// The bits of its lane by which a thread takes the eight chunks of a vector in another order than its neighbours: 7 for all
/// orders, 0 for one.
const TURN: u32 = 7;

/// How the kernel of a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twin {
    Portable,
    /// With subgroups of so many lanes.
    Subgroups(u32),
}

impl Twin {
    fn of(caps: Caps) -> Self {
        let (smallest, largest) = caps.subgroup_size;
        let known = caps.subgroups && smallest == largest && smallest.is_power_of_two();
        if known && (4..=THREADS).contains(&smallest) { Self::Subgroups(smallest) } else { Self::Portable }
    }

    /// The columns that share their threads, of `n` in all, where the recipe holds `held`.
    fn columns(self, held: usize, n: u32) -> u32 {
        if self == Self::Portable {
            return PORTABLE_COLUMNS;
        }
        let fits = |columns: &u32| *columns <= MOST_COLUMNS[held] && n / columns >= FULL_GRID;
        COLUMNS.into_iter().find(fits).unwrap_or(1)
    }

    /// Columns of a workgroup.
    fn columns_of_group(self, held: usize, n: u32) -> u64 {
        let columns = u64::from(self.columns(held, n));
        match self {
            Self::Portable => columns,
            Self::Subgroups(lanes) => columns * u64::from(THREADS / lanes),
        }
    }
}

/// A kernel with the type of so many columns that lie together.
fn holding(kernel: &'static KernelDef, columns: u32) -> Variant {
    let (ty, widened, narrowed) = match columns {
        1 => ("f32", "vec4<f32>(o, 0.0, 0.0, 0.0)", "v.x"),
        2 => ("vec2<f32>", "vec4<f32>(o, 0.0, 0.0)", "v.xy"),
        _ => ("vec4<f32>", "o", "v"),
    };
    Variant::new(kernel)
        .with("COLUMNS", columns)
        .with_type("O", ty)
        .with_function("fn widened(o: O) -> vec4<f32>", widened)
        .with_function("fn narrowed(v: vec4<f32>) -> O", narrowed)
}

/// A recipe for each number of rows that a kernel may hold.
pub(super) fn recipes(op: &Linears, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let (twin, n) = (Twin::of(caps), op.columns());
    let recipe = |(held, &rows): (usize, &u32)| {
        let columns = twin.columns(held, n);
        let variant = match twin {
            Twin::Portable => holding(&PORTABLE, columns),
            Twin::Subgroups(lanes) => holding(&SUBGROUPS, columns).with("LANES", lanes).with("THREADS", THREADS),
        };
        let variant = variant
            .with("ROWS", rows)
            .with("NORM", op.norm.is_some().into())
            .with("GATED", op.gated.into())
            .with("VECTORS", op.parts.group / 32)
            .with("TURN", TURN);
        let [out0, out1, out2] = binds.outputs;
        Recipe::new(variant, [binds.x, binds.norm, binds.weights, binds.scales, binds.addend, out0, out1, out2])
    };
    GEMV_ROWS.iter().enumerate().map(recipe).collect()
}

/// What computes `m` rows, with the recipes that start at `first`.
pub(super) fn step(op: &Linears, caps: Caps, first: usize, m: u32) -> Result<Option<Dispatch>, OpError> {
    let (held, n) = (gemv_holding(m), op.columns());
    let params = Params { m, n, has_addend: op.addend.is_some().into(), ..op.params() };
    Dispatch::items(first + held, &params, n.into(), Twin::of(caps).columns_of_group(held, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroups_of_one_size_are_used() {
        let caps = |smallest, largest| Caps { subgroups: true, subgroup_size: (smallest, largest), ..Caps::PORTABLE };
        for lanes in [4, 8, 32, 64, 128] {
            assert_eq!(Twin::of(caps(lanes, lanes)), Twin::Subgroups(lanes));
        }
        for (smallest, largest) in [(8, 32), (0, 0), (1, 1), (256, 256), (24, 24)] {
            assert_eq!(Twin::of(caps(smallest, largest)), Twin::Portable, "{smallest} to {largest}");
        }
        assert_eq!(Twin::of(Caps { subgroups: false, ..caps(32, 32) }), Twin::Portable);
    }

    #[test]
    fn a_subgroup_takes_more_columns_where_there_are_many() {
        let twin = Twin::Subgroups(32);
        for (held, n, columns, of_group) in [(0, 2048, 1, 4), (0, 8192, 2, 8), (0, 128_256, 4, 16), (3, 128_256, 2, 8)] {
            assert_eq!((twin.columns(held, n), twin.columns_of_group(held, n)), (columns, of_group), "{n} columns");
        }
        assert_eq!((Twin::Portable.columns(0, 2048), Twin::Portable.columns_of_group(3, 2048)), (4, 4));
    }
}
