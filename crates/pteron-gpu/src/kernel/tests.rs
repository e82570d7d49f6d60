//! Every kernel of the registry, without a GPU: it validates with every type it leaves open, and the host's assumptions
//! match naga's reflection.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, GlobalVariable, Module, StorageAccess, TypeInner};

use super::*;
use crate::ops::OPS;
use crate::plan::{Caps, PARAM_SLOT};

fn kernels() -> Vec<&'static KernelDef> {
    let mut kernels: Vec<&'static KernelDef> = Vec::new();
    for &kernel in OPS.iter().flat_map(|def| def.kernels) {
        if !kernels.iter().any(|known| std::ptr::eq(*known, kernel)) {
            kernels.push(kernel);
        }
    }
    kernels
}

/// The name of a variant in failure messages.
fn name(variant: &Variant) -> String {
    format!("{} {:?} {:?}", variant.kernel.name, variant.types, variant.functions)
}

fn module(variant: &Variant) -> Module {
    let source = variant.source(Target::Native);
    match naga::front::wgsl::parse_str(&source) {
        Ok(module) => module,
        Err(error) => panic!("{}: {}", name(variant), error.emit_to_string(&source)),
    }
}

fn each_variant(look: impl Fn(&Variant, &Module)) {
    for variant in kernels().into_iter().flat_map(Variant::every) {
        look(&variant, &module(&variant));
    }
}

/// The variables that are bound, by binding number.
fn bound(module: &Module) -> Vec<(u32, &GlobalVariable)> {
    let bindings = module.global_variables.iter().filter_map(|(_, variable)| Some((variable.binding?, variable)));
    let mut bound: Vec<_> = bindings
        .map(|(binding, variable)| {
            assert_eq!(binding.group, 0);
            (binding.binding, variable)
        })
        .collect();
    bound.sort_by_key(|(binding, _)| *binding);
    bound
}

#[test]
fn names_are_unique() {
    let kernels = kernels();
    for (index, kernel) in kernels.iter().enumerate() {
        assert!(kernels[..index].iter().all(|other| other.name != kernel.name), "two kernels are called {}", kernel.name);
    }
}

#[test]
fn every_variant_validates() {
    each_variant(|variant, module| {
        let needs = [
            (variant.kernel.subgroups, Capabilities::SUBGROUP),
            (variant.uses_f16(), Capabilities::SHADER_FLOAT16),
            (variant.source(Target::Native).contains("2x16float"), Capabilities::SHADER_FLOAT16_IN_FLOAT32),
            (variant.kernel.cooperative_matrix, Capabilities::COOPERATIVE_MATRIX),
            (variant.kernel.cooperative_matrix, Capabilities::SUBGROUP_BARRIER | Capabilities::SHADER_FLOAT16_IN_FLOAT32),
        ];
        let allowed = needs.into_iter().filter(|(needed, _)| *needed).map(|(_, capability)| capability).collect();
        if let Err(error) = Validator::new(ValidationFlags::all(), allowed).validate(module) {
            panic!("{}: {}", name(variant), error.emit_to_string(&variant.source(Target::Native)));
        }
        assert_eq!(module.entry_points.len(), 1, "{}", name(variant));
        assert_eq!(module.entry_points[0].name, "main", "{}", name(variant));
    });
}

#[test]
fn bindings_match_reflection() {
    each_variant(|variant, module| {
        let kinds = bound(module).into_iter().zip(0..).map(|((binding, variable), expected)| {
            assert_eq!(binding, expected, "{}: bindings are numbered without gaps", name(variant));
            match variable.space {
                AddressSpace::Uniform => BindingKind::Uniform,
                AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => BindingKind::ReadWrite,
                AddressSpace::Storage { .. } => BindingKind::Read,
                other => panic!("{}: {other:?} is bound", name(variant)),
            }
        });
        let kinds: Vec<BindingKind> = kinds.collect();
        assert_eq!(variant.bindings(), kinds, "{}", name(variant));
        assert_eq!(kinds.first(), Some(&BindingKind::Uniform), "{}: parameters come first", name(variant));
        assert!(!kinds[1..].contains(&BindingKind::Uniform), "{}: parameters come once", name(variant));
        assert!(kinds.len() <= 9, "{}: more than the eight storage buffers every device has", name(variant));
    });
}

#[test]
fn parameters_lie_where_the_host_puts_them() {
    each_variant(|variant, module| {
        let (_, params) = bound(module)[0];
        let TypeInner::Struct { members, span } = &module.types[params.ty].inner else {
            panic!("{}: parameters are not a struct", name(variant));
        };
        let read: Vec<(&str, usize)> =
            members.iter().map(|member| (member.name.as_deref().unwrap_or_default(), member.offset as usize)).collect();
        let host: Vec<_> = variant.kernel.params.iter().copied().filter(|(field, _)| !field.starts_with("pad")).collect();
        assert_eq!(read, host, "{}", name(variant));
        assert!(*span as usize <= PARAM_SLOT, "{}: {span} bytes of parameters", name(variant));
    });
}

#[test]
fn portable_kernels_stay_within_default_limits() {
    each_variant(|variant, module| {
        if variant.kernel.subgroups {
            return;
        }
        let entry = &module.entry_points[0];
        // A size that a constant sets is 0 or 1 here; the operator that sets it checks it.
        let threads: u32 = entry.workgroup_size.iter().map(|size| size.max(&1)).product();
        assert!(threads <= Caps::PORTABLE.max_invocations, "{}: {threads} threads", name(variant));
        let shared = module.global_variables.iter().filter(|(_, variable)| variable.space == AddressSpace::WorkGroup);
        let shared: u32 = shared.map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx())).sum();
        assert!(shared <= Caps::PORTABLE.workgroup_memory, "{}: {shared} bytes of workgroup memory", name(variant));
    });
}

#[test]
fn kernels_that_index_by_data_are_checked_when_they_run() {
    use crate::ops::{embedding, embedding_q4gsw, gather};
    for def in [&embedding::DEF, &embedding_q4gsw::DEF, &gather::DEF] {
        for kernel in def.kernels {
            assert!(kernel.is_checked(), "{} indexes by data", kernel.name);
        }
    }
    let proven = kernels().into_iter().filter(|kernel| !kernel.is_checked()).count();
    assert!(proven > 15, "{proven} kernels are proven");
}

#[test]
fn halves_are_enabled_once_where_they_are_used() {
    each_variant(|variant, _| {
        for source in [Target::Native, Target::Browser].map(|target| variant.source(target)) {
            let enabled = source.lines().filter(|line| *line == "enable f16;").count();
            assert_eq!(enabled, usize::from(variant.uses_f16()), "{}", name(variant));
            assert_eq!(source.contains("f16"), variant.uses_f16(), "{}", name(variant));
        }
    });
}

#[test]
fn every_open_type_is_tried() {
    static OPEN: KernelDef = KernelDef::new("open", "", &[]).with_types(&[("A", &["f32", "i32"]), ("B", &["u32", "bool"])]);
    let all: Vec<_> = Variant::every(&OPEN).into_iter().map(|variant| variant.types).collect();
    let pairs = [("f32", "u32"), ("f32", "bool"), ("i32", "u32"), ("i32", "bool")];
    assert_eq!(all, pairs.map(|(a, b)| vec![("A", a), ("B", b)]));
    static CLOSED: KernelDef = KernelDef::new("closed", "", &[]);
    assert_eq!(Variant::every(&CLOSED).len(), 1);
}
