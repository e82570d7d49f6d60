//! Writes every kernel variant as a browser would get it, for compilers other than naga: `kernels OUT [FOLDER...]`.
//!
//! Those are the registry's kernels with every type they leave open, and the variants that the graphs of the programs below
//! the folders need, fused and not, on a minimal and on a more capable device. `OUT/kernels.json` lists them.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pteron_format::{Pte, vulkan};
use pteron_gpu::frontend::vulkan::translate;
use pteron_gpu::fuse::Fusions;
use pteron_gpu::kernel::{BindingKind, Target, Variant};
use pteron_gpu::ops::OPS;
use pteron_gpu::plan::Caps;
use pteron_gpu::resize::Planned;
use pteron_gpu::shape::Dims;

/// A device with more capabilities than a browser must offer.
const GENEROUS: Caps = Caps {
    subgroups: true,
    subgroup_size: (32, 32),
    max_invocations: 256,
    workgroup_memory: 32 * 1024,
    max_binding: 2 << 30,
    ..Caps::PORTABLE
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(out) = args.next() else { return Err("usage: kernels OUT [FOLDER...]".into()) };
    let mut variants: Vec<Variant> = Vec::new();
    let mut known = HashSet::new();
    let mut add = |variant: Variant| {
        if known.insert(variant.clone()) {
            variants.push(variant);
        }
    };
    let kernels = OPS.iter().flat_map(|def| def.kernels).filter(|kernel| !kernel.cooperative_matrix);
    kernels.flat_map(|kernel| Variant::every(kernel)).for_each(&mut add);
    for folder in args {
        for program in programs(&folder)? {
            of_program(&program)?.into_iter().for_each(&mut add);
        }
    }
    write(&out, &variants)?;
    println!("{} variants in {}", variants.len(), out.display());
    Ok(())
}

/// Every `.pte` below a folder.
fn programs(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(programs(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "pte") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The variants that a program's graphs may run. Unsupported files and operators are skipped.
fn of_program(path: &Path) -> Result<Vec<Variant>, Box<dyn Error>> {
    let Ok(pte) = Pte::read(std::fs::read(path)?) else { return Ok(Vec::new()) };
    let mut variants = Vec::new();
    let decode = |graph: &vulkan::Graph| {
        [Fusions::NONE, Fusions::ALL].map(|fusions| translate(graph).and_then(|graph| graph.decode(&fusions)).ok())
    };
    for graph in pte.graphs().flat_map(|(_, blob)| decode(&blob.graph)).flatten() {
        let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        for caps in [Caps::PORTABLE, GENEROUS] {
            let planned = Planned::at_bounds(&graph, &bounds, caps)?;
            variants.extend(planned.recipes().iter().flat_map(|recipes| &recipes.list).map(|recipe| recipe.variant.clone()));
        }
    }
    Ok(variants)
}

fn write(out: &Path, variants: &[Variant]) -> Result<(), Box<dyn Error>> {
    if out.exists() {
        std::fs::remove_dir_all(out)?;
    }
    std::fs::create_dir_all(out)?;
    let mut list = String::new();
    for (index, variant) in variants.iter().enumerate() {
        let file = format!("{index:03}_{}.wgsl", variant.kernel.name);
        std::fs::write(out.join(&file), variant.source(Target::Browser))?;
        let kinds = variant.bindings().into_iter().map(|kind| match kind {
            BindingKind::Uniform => "\"uniform\"",
            BindingKind::Read => "\"read\"",
            BindingKind::ReadWrite => "\"read-write\"",
        });
        let bindings = kinds.collect::<Vec<_>>().join(", ");
        let constants =
            variant.constants.iter().map(|(name, value)| format!("{name:?}: {value}")).collect::<Vec<_>>().join(", ");
        let types = variant.types.iter().map(|(name, ty)| format!(" {name}={ty}")).collect::<String>();
        let separator = if index == 0 { "" } else { ",\n" };
        write!(
            list,
            "{separator}{{ \"name\": \"{}{types}\", \"file\": {file:?}, \"portable\": {}, \"bindings\": [{bindings}], \
             \"constants\": {{ {constants} }} }}",
            variant.label,
            !variant.kernel.subgroups && !variant.uses_f16()
        )?;
    }
    std::fs::write(out.join("kernels.json"), format!("[\n{list}\n]\n"))?;
    Ok(())
}
