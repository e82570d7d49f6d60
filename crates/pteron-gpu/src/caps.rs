//! The capabilities of a device that recipes and plans depend on.

/// The capabilities of a device that recipes and plans depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Whether subgroup operations can be used.
    pub subgroups: bool,
    /// The smallest and largest subgroup size that a kernel may run with.
    pub subgroup_size: (u32, u32),
    /// The most invocations of a workgroup.
    pub max_invocations: u32,
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// The most bytes of one storage binding.
    pub max_binding: u64,
    /// Whether cooperative matrices may be used: subgroups multiply matrices of 16-bit floats and accumulate in 32 bits. The factors
    /// are rounded to 16 bits.
    pub cooperative_matrix: bool,
    /// The size of those matrices.
    pub matrix_side: MatrixSide,
    /// The smallest and largest subgroup size of kernels with those matrices.
    pub matrix_subgroup_size: (u32, u32),
    /// Whether a barrier of a subgroup orders its accesses to workgroup memory. Metal says so; Vulkan's barrier as naga writes it does not
    /// name workgroup memory, and holds by the behaviour of the drivers it is used with.
    pub subgroup_barrier: bool,
    /// The number of workgroups that occupy the device, as a percentage of the number kernels assume.
    pub fill_percent: u32,
    /// The same for each [`GridKind`], as a percentage of that.
    pub grid_percent: [u32; 4],
    /// Whether kernels can read and write 16-bit floats.
    pub f16: bool,
    /// Whether dot products of four signed bytes are an instruction.
    pub int8_dot: bool,
    /// Whether factors of matrix products may be rounded to 16 bits.
    pub rounded_factors: bool,
    /// Whether the adapter is a CPU: it runs the threads of a workgroup one after another, and barriers are expensive.
    pub software: bool,
}

/// Bytes of workgroup memory that cooperative-matrix kernels may use.
pub const COOPERATIVE_MATRIX_MEMORY: u32 = 48 * 1024;

/// The rows and columns of cooperative matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixSide {
    /// 8 × 8, as Metal has them. Kernels load and store them through pointers to scalars, which Metal requires.
    Eight,
    /// 16 × 16.
    #[default]
    Sixteen,
}

impl MatrixSide {
    /// Rows of a matrix.
    #[must_use]
    pub fn rows(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

/// Grids whose number of workgroups is tuned apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridKind {
    /// Products of few rows: more workgroups have more threads, or compute fewer columns.
    Gemv,
    /// Products of many rows: more workgroups have smaller tiles.
    Tiles,
    /// Workgroups or subgroups that share k.
    SplitK,
    /// Workgroups of attention that share the context.
    SplitKv,
}

impl GridKind {
    /// Every kind, in the order of [`Caps::grid_percent`].
    pub const ALL: [Self; 4] = [Self::Gemv, Self::Tiles, Self::SplitK, Self::SplitKv];
}

/// The lanes that a subgroup kernel reduces over: those of a subgroup, or those of the smallest where a driver chooses a size for each
/// kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The number of lanes, a power of two.
    pub count: u32,
    /// The most lanes of a subgroup. Threads of a workgroup are a multiple of it, so that subgroups are full.
    pub most: u32,
}

impl Lanes {
    /// The most lanes of a subgroup that kernels are written for.
    pub const MOST: u32 = 64;

    /// Lanes of subgroups of these sizes, the smallest and the largest; `None` for sizes that kernels are not written for.
    fn new((count, most): (u32, u32)) -> Option<Self> {
        let served = (4..=most).contains(&count) && most <= Self::MOST && count.is_power_of_two() && most.is_power_of_two();
        served.then_some(Self { count, most })
    }

    /// Whether every subgroup has this many lanes.
    #[must_use]
    pub fn are_whole(self) -> bool {
        self.count == self.most
    }
}

impl Caps {
    /// The capabilities that every WebGPU device guarantees.
    pub const PORTABLE: Self = Self {
        subgroups: false,
        subgroup_size: (0, 0),
        max_invocations: 256,
        workgroup_memory: 16 * 1024,
        max_binding: 128 * 1024 * 1024,
        cooperative_matrix: false,
        matrix_side: MatrixSide::Sixteen,
        matrix_subgroup_size: (32, 32),
        subgroup_barrier: false,
        fill_percent: 100,
        grid_percent: [100; 4],
        f16: false,
        int8_dot: false,
        rounded_factors: false,
        software: false,
    };

    /// The lanes that subgroup kernels reduce over, if they may run: subgroups have 4 to 64 lanes, powers of two.
    #[must_use]
    pub fn lanes(&self) -> Option<Lanes> {
        Lanes::new(self.subgroup_size).filter(|_| self.subgroups)
    }

    /// The lanes of kernels with cooperative matrices, if they may run.
    #[must_use]
    pub fn matrix_lanes(&self) -> Option<Lanes> {
        Lanes::new(self.matrix_subgroup_size).filter(|_| self.cooperative_matrix)
    }

    /// The percentage of workgroups that occupy this device, relative to a large GPU, in grids of a kind.
    #[must_use]
    pub fn fill(&self, kind: GridKind) -> u32 {
        let percent = u64::from(self.fill_percent) * u64::from(self.grid_percent[kind as usize]) / 100;
        u32::try_from(percent).unwrap_or(u32::MAX).max(1)
    }

    /// The number of workgroups that occupy this device where a large GPU takes `grid`.
    #[must_use]
    pub fn filled(&self, kind: GridKind, grid: u32) -> u32 {
        let scaled = u64::from(grid) * u64::from(self.fill(kind)) / 100;
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroups_of_4_to_64_lanes_are_served() {
        let lanes = |subgroup_size| Caps { subgroups: true, subgroup_size, ..Caps::PORTABLE }.lanes();
        for count in [4, 8, 16, 32, 64] {
            assert_eq!(lanes((count, count)), Some(Lanes { count, most: count }));
        }
        // AMD and Intel, whose drivers choose.
        assert_eq!(lanes((32, 64)), Some(Lanes { count: 32, most: 64 }));
        assert_eq!(lanes((8, 32)).map(Lanes::are_whole), Some(false));
        for sizes in [(0, 0), (1, 1), (2, 64), (128, 128), (32, 128), (24, 24), (64, 32), (8, 24)] {
            assert_eq!(lanes(sizes), None, "{sizes:?}");
        }
        assert_eq!(Caps { subgroup_size: (32, 32), ..Caps::PORTABLE }.lanes(), None);
    }

    #[test]
    fn kinds_of_grids_are_scaled_apart() {
        let caps = Caps { fill_percent: 400, grid_percent: [100, 25, 400, 1], ..Caps::PORTABLE };
        assert_eq!(GridKind::ALL.map(|kind| caps.filled(kind, 100)), [400, 100, 1600, 4]);
        assert_eq!(Caps { fill_percent: 0, ..caps }.fill(GridKind::Gemv), 1);
        assert!(Caps { fill_percent: u32::MAX, ..caps }.filled(GridKind::SplitK, u32::MAX) > 1 << 29);
    }
}
