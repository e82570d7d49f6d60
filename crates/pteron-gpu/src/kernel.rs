//! Kernels as values: source, constants and bindings.
//!
//! A variant (a kernel with its constants and element types) *is* the key of a pipeline. Sources are `.wgsl` files beside
//! their operators. A line `//#include name` includes shared text.

pub mod reach;
mod unroll;

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use reach::Reach;

/// WGSL text that several kernels share: the name after `//#include`, and the text.
pub type Include = (&'static str, &'static str);

/// Lists the files of a folder `include/` beside the caller as [`Include`]s: `includes!["matmul_params", "matmul_tile"]`.
#[macro_export]
macro_rules! includes {
    ($($name:literal),* $(,)?) => { &[$( ($name, include_str!(concat!("include/", $name, ".wgsl"))) ),*] };
}

/// Text that every kernel may include. Text of a family is in the family's folder, and its kernels add it with
/// [`KernelDef::with_includes`].
const COMMON: &[Include] = includes!["exact_division", "grid", "lanes"];

/// A kernel: its name, for users and profilers, and its source.
#[derive(Debug)]
pub struct KernelDef {
    /// The file name without extension.
    pub name: &'static str,
    /// The WGSL text.
    pub source: &'static str,
    /// The text its source may include in addition to the common text: one list per family.
    pub includes: &'static [&'static [Include]],
    /// Names and offsets of its parameters on the host, which a test compares with the shader's `struct Params`.
    pub params: &'static [(&'static str, usize)],
    /// Whether it uses subgroup operations, so that a target may need to enable them.
    pub subgroups: bool,
    /// Whether it uses cooperative matrices of `f16`, which no browser has.
    pub cooperative_matrix: bool,
    /// The types its source leaves open, and the allowed types of each. Tests that cover every kernel try them all.
    pub types: &'static [(&'static str, &'static [&'static str])],
    /// For a kernel that leaves functions open: every variant its operators use.
    pub variants: Option<fn() -> Vec<Variant>>,
    /// For a kernel without bounds checks: the reach of its indices, which every plan is checked against.
    pub reach: Option<Reach>,
}

impl KernelDef {
    /// A kernel that runs everywhere.
    #[must_use]
    pub const fn new(name: &'static str, source: &'static str, params: &'static [(&'static str, usize)]) -> Self {
        Self {
            name,
            source,
            includes: &[],
            params,
            subgroups: false,
            cooperative_matrix: false,
            types: &[],
            variants: None,
            reach: None,
        }
    }

    /// The same kernel, its source including text of these families.
    #[must_use]
    pub const fn with_includes(mut self, includes: &'static [&'static [Include]]) -> Self {
        self.includes = includes;
        self
    }

    /// Finds the text of an include: in the kernel's families first, then among the common includes.
    fn include(&self, name: &str) -> Option<&'static str> {
        let lists = self.includes.iter().copied().chain([COMMON]);
        lists.flatten().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The same kernel, needing subgroups.
    #[must_use]
    pub const fn with_subgroups(mut self) -> Self {
        self.subgroups = true;
        self
    }

    /// The same kernel, needing subgroups, `f16` and cooperative matrices ([`Caps::cooperative_matrix`](crate::plan::Caps)).
    #[must_use]
    pub const fn with_cooperative_matrix(mut self) -> Self {
        self.subgroups = true;
        self.cooperative_matrix = true;
        self
    }

    /// The same kernel, compiled without bounds checks on native targets: every plan that dispatches it is first checked
    /// against its largest indices. [`reach`] states the assumptions.
    #[must_use]
    pub const fn proven(mut self, reach: Reach) -> Self {
        self.reach = Some(reach);
        self
    }

    /// Whether it is compiled with bounds checks.
    #[must_use]
    pub const fn is_checked(&self) -> bool {
        self.reach.is_none()
    }

    /// The same kernel, its source leaving these types open.
    #[must_use]
    pub const fn with_types(mut self, types: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.types = types;
        self
    }

    /// The same kernel, its source leaving functions open that a family's table provides; `variants` lists them all.
    #[must_use]
    pub const fn with_variants(mut self, variants: fn() -> Vec<Variant>) -> Self {
        self.variants = Some(variants);
        self
    }
}

/// A kernel with its constants: the source of a pipeline, and its key.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The kernel.
    pub kernel: &'static KernelDef,
    /// Values of the source's `override` constants.
    pub constants: Vec<(&'static str, u32)>,
    /// Names of types that the source leaves open, `("T", "f32")`.
    pub types: Vec<(&'static str, &'static str)>,
    /// Functions that the source leaves open: a head, and the expression it returns.
    pub functions: Vec<(&'static str, &'static str)>,
    /// Numbers substituted in the source: trip counts of unrolled loops.
    pub counts: Vec<(&'static str, u32)>,
    /// The profiler's label, where one kernel serves several purposes.
    pub label: &'static str,
}

impl Variant {
    /// A kernel without constants.
    #[must_use]
    pub fn new(kernel: &'static KernelDef) -> Self {
        let label = kernel.name;
        Self { kernel, constants: Vec::new(), types: Vec::new(), functions: Vec::new(), counts: Vec::new(), label }
    }

    /// A kernel with every combination of its open types, constants at their defaults.
    #[must_use]
    pub fn every(kernel: &'static KernelDef) -> Vec<Self> {
        if let Some(variants) = kernel.variants {
            return variants();
        }
        kernel.types.iter().fold(vec![Self::new(kernel)], |variants, (name, choices)| {
            let with_each = |variant: Self| choices.iter().map(move |ty| variant.clone().with_type(name, ty));
            variants.into_iter().flat_map(with_each).collect()
        })
    }

    /// The same with a constant set.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: u32) -> Self {
        self.constants.push((name, value));
        self
    }

    /// The same with a type named, one that the kernel's definition allows.
    #[must_use]
    pub fn with_type(mut self, name: &'static str, ty: &'static str) -> Self {
        debug_assert!(
            self.kernel.variants.is_some()
                || self.kernel.types.iter().any(|(open, choices)| *open == name && choices.contains(&ty)),
            "{} is not known to leave {name} open as {ty}",
            self.kernel.name,
        );
        self.types.push((name, ty));
        self
    }

    /// The same with a function that returns an expression: `("fn apply(x: f32) -> f32", "abs(x)")`.
    #[must_use]
    pub fn with_function(mut self, head: &'static str, expression: &'static str) -> Self {
        self.functions.push((head, expression));
        self
    }

    /// The same with a number that its source leaves open as `{NAME}`, in a loop `//#unroll i {NAME}` that is unrolled.
    #[must_use]
    pub fn with_count(mut self, name: &'static str, count: u32) -> Self {
        self.counts.push((name, count));
        self
    }

    /// The same under another label.
    #[must_use]
    pub fn labelled(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// Whether it uses `f16`, which a device must offer ([`Caps::f16`](crate::plan::Caps)).
    #[must_use]
    pub fn uses_f16(&self) -> bool {
        self.kernel.cooperative_matrix || self.types.iter().any(|(_, ty)| ty.contains("f16"))
    }

    /// The whole source: the target's prologue, type aliases, then the kernel with its includes.
    #[must_use]
    pub fn source(&self, target: Target) -> String {
        let mut out = String::new();
        if self.kernel.subgroups && target == Target::Browser {
            out.push_str("enable subgroups;\n");
        }
        if self.uses_f16() {
            out.push_str("enable f16;\n");
        }
        if self.kernel.cooperative_matrix {
            out.push_str("enable wgpu_cooperative_matrix;\n");
        }
        for (name, ty) in &self.types {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "alias {name} = {ty};");
        }
        let mut text = String::new();
        expand(self.kernel, self.kernel.source, &mut text);
        out.push_str(&if self.counts.is_empty() { text } else { unroll::unrolled(&text, &self.counts) });
        for (head, expression) in &self.functions {
            let _ = writeln!(out, "{head} {{ return {expression}; }}");
        }
        out
    }

    /// The kernel's bindings, in order of binding number.
    #[must_use]
    pub fn bindings(&self) -> Vec<BindingKind> {
        reflect(&self.source(Target::Native))
    }
}

impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.kernel, other.kernel)
            && (&self.constants, &self.types, &self.functions, &self.counts, self.label)
                == (&other.constants, &other.types, &other.functions, &other.counts, other.label)
    }
}

impl Eq for Variant {}

impl Hash for Variant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kernel.name, &self.constants, &self.types, &self.functions, &self.counts, self.label).hash(state);
    }
}

/// The compiler of a source: targets differ in some spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// wgpu's own compiler, which rejects `enable subgroups;`.
    Native,
    /// A browser, which requires it.
    Browser,
}

/// Expands the includes of a source, recursively.
fn expand(kernel: &KernelDef, source: &str, out: &mut String) {
    for line in source.lines() {
        match line.trim().strip_prefix("//#include ") {
            Some(name) => match kernel.include(name.trim()) {
                Some(text) => expand(kernel, text, out),
                // Not WGSL: the test that validates every kernel names it.
                None => out.push_str(line.trim_start_matches("//")),
            },
            None => out.push_str(line),
        }
        out.push('\n');
    }
}

/// The kind of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// Parameters.
    Uniform,
    /// A buffer that is only read.
    Read,
    /// A buffer that is written, and perhaps read.
    ReadWrite,
}

/// Parses the bindings of a source. Ours declare each on a separate line, in order; a test compares with naga's reflection.
fn reflect(source: &str) -> Vec<BindingKind> {
    let declarations = source.lines().filter(|line| line.trim_start().starts_with("@group(0) @binding("));
    declarations
        .map(|line| {
            if line.contains("var<uniform>") {
                BindingKind::Uniform
            } else if line.contains("read_write") {
                BindingKind::ReadWrite
            } else {
                BindingKind::Read
            }
        })
        .collect()
}

/// Declares a parameter struct that mirrors a shader's `struct Params`, with the names and offsets of its fields so that a
/// test can compare both. `[u32; 8]` is `array<vec4<u32>, 2>` there. Fields named `pad…` have no counterpart.
#[macro_export]
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $( $(#[$fmeta:meta])* $field:ident : $ty:ty ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
        #[repr(C)]
        $vis struct $name { $( $(#[$fmeta])* pub $field: $ty ),* }

        impl $name {
            /// Names and offsets of the fields, for the test that compares them with the shader's.
            pub(crate) const FIELDS: &'static [(&'static str, usize)] = &[$( (stringify!($field), std::mem::offset_of!($name, $field)) ),*];
        }
    };
}

#[cfg(test)]
mod tests;
