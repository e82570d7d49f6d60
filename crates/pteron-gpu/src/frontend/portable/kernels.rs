//! The operator of each kernel, and how its arguments map.
//!
//! An execution plan calls *out* variants: `aten::add.out` is `aten.add.Tensor` with the tensor it writes as last argument. The
//! schemas agree otherwise, so one rule finds nearly every operator ([`find`]); [`ROWS`] holds the exceptions.

use std::collections::BTreeSet;

use pteron_format::program::Operator;

use crate::ops;

/// An argument of an operator in terms of its kernel's arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Arg {
    /// The kernel's argument at this index.
    At(usize),
    /// None.
    None,
    /// A list with the kernel's argument at this index as its only item.
    ListOf(usize),
}

use Arg::{At, ListOf, None as N};

/// A kernel whose operator has another name or other arguments than the rule gives.
struct Row {
    kernel: &'static str,
    operator: &'static str,
    /// `None` for those of the kernel.
    args: Option<&'static [Arg]>,
}

const fn same(kernel: &'static str, operator: &'static str) -> Row {
    Row { kernel, operator, args: None }
}

const fn row(kernel: &'static str, operator: &'static str, args: &'static [Arg]) -> Row {
    Row { kernel, operator, args: Some(args) }
}

/// The exceptions. Tensors that are written determine element types, so operators get None for a type.
const ROWS: &[Row] = &[
    // Overloads that the rule would take for another one.
    same("aten::any.out", "aten.any.dim"),
    same("aten::any.all_out", "aten.any.default"),
    same("aten::all.out", "aten.all.dim"),
    same("aten::all.all_out", "aten.all.default"),
    same("aten::div.out_mode", "aten.div.Tensor_mode"),
    same("aten::max.dim_max", "aten.max.dim"),
    same("aten::max.unary_out", "aten.max.default"),
    same("aten::min.dim_min", "aten.min.dim"),
    same("aten::min.unary_out", "aten.min.default"),
    same("aten::sort.values", "aten.sort.default"),
    same("aten::sort.values_stable", "aten.sort.stable"),
    same("aten::topk.values", "aten.topk.default"),
    same("aten::var.out", "aten.var.dim"),
    // Element types.
    row("aten::mean.out", "aten.mean.dim", &[At(0), At(1), At(2), N]),
    row("aten::mean.dtype_out", "aten.mean.default", &[At(0), N]),
    row("aten::sum.IntList_out", "aten.sum.dim_IntList", &[At(0), At(1), At(2), N]),
    row("aten::sum.out", "aten.sum.default", &[At(0), N]),
    row("aten::prod.out", "aten.prod.default", &[At(0), N]),
    row("aten::prod.int_out", "aten.prod.dim_int", &[At(0), At(1), At(2), N]),
    row("aten::cumsum.out", "aten.cumsum.default", &[At(0), At(1), N]),
    row("aten::cumprod.out", "aten.cumprod.default", &[At(0), At(1), N]),
    // Element type, layout, device and memory format, which out variants do not have.
    row("aten::clone.out", "aten.clone.default", &[At(0), N]),
    row("aten::_to_copy.out", "aten._to_copy.default", &[At(0), N, N, N, N, N, N]),
    row("aten::full.out", "aten.full.default", &[At(0), At(1), N, N, N, N]),
    row("aten::full_like.out", "aten.full_like.default", &[At(0), At(1), N, N, N, N, N]),
    row("aten::ones.out", "aten.ones.default", &[At(0), N, N, N, N]),
    row("aten::ones_like.out", "aten.ones_like.default", &[At(0), N, N, N, N, N]),
    row("aten::zeros.out", "aten.zeros.default", &[At(0), N, N, N, N]),
    row("aten::zeros_like.out", "aten.zeros_like.default", &[At(0), N, N, N, N, N]),
    // Uninitialised tensors are zeros.
    row("aten::empty.out", "aten.zeros.default", &[At(0), N, N, N, N]),
    row("dim_order_ops::_empty_dim_order.out", "aten.zeros.default", &[At(0), N, N, N, N]),
    row("aten::scalar_tensor.out", "aten.scalar_tensor.default", &[At(0), N, N, N, N]),
    // The graph's tensors are contiguous; orders in memory matter at the borders of delegates alone.
    row("dim_order_ops::_to_dim_order_copy.out", "aten._to_copy.default", &[At(0), N, N, N, N, N, N]),
    row("dim_order_ops::_clone_dim_order.out", "aten.clone.default", &[At(0), N]),
    // Copies by another name.
    row("aten::detach_copy.out", "aten.alias_copy.default", &[At(0)]),
    row("aten::lift_fresh_copy.out", "aten.alias_copy.default", &[At(0)]),
    row("et_copy::_h2d_copy.out", "aten.alias_copy.default", &[At(0)]),
    row("et_copy::_d2h_copy.out", "aten.alias_copy.default", &[At(0)]),
    row("aten::squeeze_copy.dim_out", "aten.squeeze_copy.dims", &[At(0), ListOf(1)]),
];

/// The operator of a kernel, and its arguments where they differ from the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) operator: &'static str,
    pub(super) args: Option<&'static [Arg]>,
}

/// Finds the operator of a kernel; `None` if there is none.
pub(super) fn find(kernel: &Operator) -> Option<Target> {
    let full = kernel.to_string();
    if let Some(row) = ROWS.iter().find(|row| row.kernel == full) {
        return registered(row.operator).map(|operator| Target { operator, args: row.args });
    }
    let (namespace, name) = kernel.name.split_once("::")?;
    let overloads = overloads(&kernel.overload);
    let mut names = overloads.iter().map(|overload| format!("{namespace}.{name}.{overload}"));
    let operator = names.find_map(|name| registered(&name)).or_else(|| {
        // Operators that ExecuTorch's partitioner knows by their bare name.
        let mut bare = overloads.iter().filter(|_| namespace == "llama").map(|overload| format!("{name}.{overload}"));
        bare.find_map(|name| registered(&name))
    })?;
    Some(Target { operator, args: None })
}

/// The names of the kernels that exporters write for the operators there are: the rule of [`find`] backwards, and [`ROWS`].
pub(super) fn names() -> BTreeSet<String> {
    let in_files = ops::OPS.iter().flat_map(|def| def.names.iter().filter(|name| def.is_in_files(name)));
    let named = in_files.filter_map(|name| {
        let (operator, overload) = name.rsplit_once('.')?;
        let (namespace, operator) = operator.split_once('.')?;
        let overload = match overload {
            "default" | "Tensor" | "dim" | "self" => "out".to_owned(),
            other => format!("{other}_out"),
        };
        let kernel = Operator { name: format!("{namespace}::{operator}"), overload };
        find(&kernel).filter(|target| target.operator == *name).map(|_| kernel.to_string())
    });
    let rows = ROWS.iter().filter(|row| registered(row.operator).is_some()).map(|row| row.kernel.to_owned());
    named.chain(rows).collect()
}

/// The functional overloads that an out variant may belong to, the most common first.
fn overloads(out: &str) -> Vec<String> {
    match out.strip_suffix("out").map(|stem| stem.strip_suffix('_').unwrap_or(stem)) {
        Some("") => ["default", "Tensor", "dim", "self"].map(str::to_owned).to_vec(),
        Some(stem) => vec![stem.to_owned(), format!("dim_{stem}"), stem.to_lowercase(), "default".to_owned()],
        None if out.is_empty() => vec!["default".to_owned()],
        None => vec![out.to_owned()],
    }
}

fn registered(name: &str) -> Option<&'static str> {
    let def = ops::find_in_files(name)?;
    def.names.iter().find(|own| **own == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(full: &str) -> Option<&'static str> {
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        find(&Operator { name: name.to_owned(), overload: overload.to_owned() }).map(|target| target.operator)
    }

    #[test]
    fn out_variants_find_their_functional_operator() {
        for (kernel, expected) in [
            ("aten::add.out", "aten.add.Tensor"),
            ("aten::relu.out", "aten.relu.default"),
            ("aten::eq.Scalar_out", "aten.eq.Scalar"),
            ("aten::where.self_out", "aten.where.self"),
            ("aten::mean.out", "aten.mean.dim"),
            ("aten::sum.IntList_out", "aten.sum.dim_IntList"),
            ("aten::div.out_mode", "aten.div.Tensor_mode"),
            ("aten::upsample_nearest2d.vec_out", "aten.upsample_nearest2d.vec"),
            ("llama::custom_sdpa.out", "llama.custom_sdpa.default"),
            ("llama::update_cache.out", "llama.update_cache.default"),
            ("quantized_decomposed::quantize_per_tensor.Tensor_out", "quantized_decomposed.quantize_per_tensor.tensor"),
        ] {
            assert_eq!(operator(kernel), Some(expected), "{kernel}");
        }
        for unknown in ["aten::mystery.out", "aten::store.out", "pteron::store", "add", ""] {
            assert_eq!(operator(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_listed_kernel_is_found() {
        let names = names();
        assert!(names.len() > 100, "{}", names.len());
        assert!(names.iter().all(|name| operator(name).is_some()));
        for known in ["aten::add.out", "aten::any.all_out", "aten::div.out_mode", "llama::custom_sdpa.out"] {
            assert!(names.contains(known), "{known}");
        }
    }

    #[test]
    fn no_kernel_has_two_rows() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.kernel != row.kernel), "{}", row.kernel);
        }
    }
}
