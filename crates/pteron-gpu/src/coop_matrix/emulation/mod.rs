//! Cooperative matrices and their subgroups on the host, so that kernels for devices that are not at hand run in tests: an interpreter of
//! kernels as naga reads them. All threads of a workgroup execute a statement before the next one; that they may do so on every device
//! is checked. A test fails where threads touch one place of workgroup memory without a barrier between, where an index is out of
//! bounds, and where a barrier or an operation of a subgroup is not reached by all of its threads.

mod arithmetic;
mod expressions;
mod machine;
mod matrices;
mod memory;
mod values;

use machine::Machine;

use crate::kernel::Variant;
use crate::plan::{Grid, PARAM_SLOT};

/// How a device runs kernels with cooperative matrices that it does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emulation {
    /// The lanes of a subgroup.
    pub(crate) lanes: u32,
}

impl Emulation {
    /// Whether the host runs a kernel. Those that only prepare factors use the device's own subgroups.
    pub(crate) fn runs(source: &str) -> bool {
        source.split("coop_mat").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// The source that the device compiles for a variant: nothing where the host runs it.
    pub(crate) fn source(variant: &Variant, source: &str) -> String {
        if Self::runs(source) {
            let constants = variant.constants.iter().map(|(name, _)| format!("override {name}: u32 = 0u;\n"));
            return constants.collect::<String>() + "@compute @workgroup_size(1)\nfn main() {\n}\n";
        }
        source.replace("enable wgpu_cooperative_matrix;\n", "")
    }

    /// Runs a kernel on buffers, in the order of bindings after the parameters.
    pub(crate) fn run(self, variant: &Variant, params: &[u8], grid: Grid, buffers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let (module, info) = crate::testing::validated(variant, naga::valid::Capabilities::all());
        self.run_module((&module, &info), params, grid, buffers)
    }

    fn run_module(
        self,
        (module, info): (&naga::Module, &naga::valid::ModuleInfo),
        params: &[u8],
        grid: Grid,
        buffers: Vec<Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        let mut slot = params.to_vec();
        slot.resize(PARAM_SLOT, 0);
        let mut all = vec![slot];
        all.extend(buffers);
        for (y, x) in (0..grid.y).flat_map(|y| (0..grid.x).map(move |x| (y, x))) {
            Machine::run((module, info), self.lanes as usize, [[x, y, 0], [grid.x, grid.y, 1]], &mut all);
        }
        all.split_off(1)
    }
}

#[cfg(test)]
mod tests;
