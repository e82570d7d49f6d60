//! Appends rows to a cache in place: `[1, new, heads, dim]` into `[1, length, heads, dim]` from a position on. Shared by the operators that
//! keep keys and values in a cache.

use crate::error::OpError;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, PlanCx, Recipe};
use crate::shape::Dims;

/// The copy kernel.
pub(crate) static KERNEL: KernelDef = KernelDef::new("append_rows", include_str!("append_rows.wgsl"), Params::FIELDS)
    .with_types(&[("T", &["vec4<u32>", "u32"])])
    .proven(reach);

params! {
    /// Of `append_rows.wgsl`.
    struct Params { count: u32, row: u32, step_base: u32, pad: u32 }
}

/// The new rows, and the cache from its first row to the last new one.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let bytes = call.type_bytes("T")?;
    let [position] = call.step(params.step_base)?;
    let new = count(params.count);
    let cache = position * count(params.row) + new;
    Some(Reached::new().array(new, bytes).step(params.step_base, 1).array(cache, bytes))
}

/// Elements that a thread copies at once. Live rows are as long as the bound's, which [`AppendRows::check`] makes sure of, so one
/// recipe serves every call.
fn width(bound: &Dims) -> u32 {
    if row_length(bound).is_multiple_of(4) { 4 } else { 1 }
}

fn row_length(cache: &Dims) -> u32 {
    cache.iter().skip(2).fold(1, |length, &dim| length.saturating_mul(dim))
}

/// A checked append of new rows to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppendRows {
    pub(crate) value: TensorId,
    pub(crate) cache: TensorId,
    /// New rows.
    pub(crate) rows: u32,
    /// The first row written.
    pub(crate) position: u32,
}

/// The arguments' names, for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgNames {
    pub(crate) value: &'static str,
    pub(crate) cache: &'static str,
    pub(crate) position: &'static str,
}

impl AppendRows {
    /// Checks `[1, S, H, D]` against a cache `[1, C, H, D]` and the position.
    pub(crate) fn check(
        cx: &PlanCx<'_>,
        names: ArgNames,
        (value, cache): (TensorId, TensorId),
        position: Scalar,
    ) -> Result<Self, OpError> {
        let (new, have, bound) = (cx.dims(value), cx.dims(cache), cx.bound(cache));
        let &[1, length, ref row @ ..] = &*have else {
            return Err(OpError::new(names.cache, format!("is {have}, expected [1, length, heads, head dim]")));
        };
        if row.len() != 2 || bound.get(2..) != Some(row) {
            return Err(OpError::new(names.cache, format!("is {have}, but rows are fixed by its bound {bound}")));
        }
        if new.len() != 4 || new[0] != 1 || new[2..] != *row {
            let expected = format!("expected [1, tokens, {}, {}] as in the cache", row[0], row[1]);
            return Err(OpError::new(names.value, format!("is {new}, {expected}")));
        }
        let rows = new[1];
        let at = cx.scalar(position);
        if at < 0 {
            return Err(OpError::new(names.position, format!("is {at}, expected 0 or more")));
        }
        let Some(position) = u32::try_from(at).ok().filter(|&at| u64::from(at) + u64::from(rows) <= length.into()) else {
            let what = format!("is {at} with {rows} new tokens, past the cache's {length}");
            return Err(OpError::new(names.position, what));
        };
        Ok(Self { value, cache, rows, position })
    }

    /// The recipe for appends to a cache. The operator's first step word must be the position.
    pub(crate) fn recipe(cx: &BoundsCx<'_>, value: TensorId, cache: TensorId, label: &'static str) -> Recipe {
        let ty = if width(&cx.bound(cache)) == 4 { "vec4<u32>" } else { "u32" };
        let variant = Variant::new(&KERNEL).with_type("T", ty).labelled(label);
        Recipe::new(variant, [value.into(), Bind::Step, cache.into()])
    }

    /// The dispatch of that recipe.
    pub(crate) fn dispatch(&self, cx: &PlanCx<'_>, recipe: usize) -> Result<Option<Dispatch>, OpError> {
        let width = width(&cx.bound(self.cache));
        let count = cx.dims(self.value).count_u32() / width;
        let row = row_length(&cx.dims(self.cache)) / width;
        let params = Params { count, row, step_base: cx.step_base(), pad: 0 };
        Dispatch::items(recipe, &params, count.into(), 256)
    }

    /// The append on host tensors.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn reference<E: Copy>(&self, cx: &PlanCx<'_>, value: &[E], cache: &[E]) -> Vec<E> {
        let start = self.position as usize * row_length(&cx.dims(self.cache)) as usize;
        let mut after = cache.to_vec();
        after[start..start + value.len()].copy_from_slice(value);
        after
    }
}
