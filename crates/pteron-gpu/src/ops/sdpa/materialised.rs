//! Attention with materialised scores, for any head dim: `QKᵀ`, softmax and AV as three dispatches over scratch. Scores larger than the
//! scratch limit are computed in slices, one after the other.

use super::{Algorithm, How, INCLUDES, Sdpa, Shape, reach};
use crate::append_rows::AppendRows;
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::score_slices::ScoreSlices;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, Plan, PlanCx, Recipe, Recipes};

pub(super) static QK: KernelDef =
    KernelDef::new("sdpa_qk", include_str!("sdpa_qk.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]).proven(reach::qk);
#[cfg(any(test, feature = "bench"))]
pub(super) static QK_NAIVE: KernelDef = KernelDef::new("sdpa_qk_naive", include_str!("sdpa_qk_naive.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::qk_naive);
pub(super) static SOFTMAX: KernelDef = KernelDef::new("sdpa_softmax", include_str!("sdpa_softmax.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::softmax);
pub(super) static AV: KernelDef =
    KernelDef::new("sdpa_av", include_str!("sdpa_av.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]).proven(reach::av);
pub(super) static AV_SPLIT_K: KernelDef =
    KernelDef::new("sdpa_av_split_k", include_str!("sdpa_av_split_k.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::av);
#[cfg(any(test, feature = "bench"))]
pub(super) static AV_NAIVE: KernelDef = KernelDef::new("sdpa_av_naive", include_str!("sdpa_av_naive.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::av_naive);

params! {
    /// Of `include/materialised_params.wgsl`, which every kernel here includes.
    pub(super) struct Params {
        heads: u32,
        group: u32,
        rows: u32,
        head_dim: u32,
        scale: f32,
        causal: u32,
        slice_index: u32,
        step_base: u32,
    }
}

const K_RECIPE: usize = 0;
const V_RECIPE: usize = 1;
const SOFTMAX_RECIPE: usize = 2;
const QK_RECIPE: usize = 3;
const AV_RECIPE: usize = 4;
const AV_SPLIT_K_RECIPE: usize = 5;

/// Position, context, and the stride, heads and rows of the slices.
const STEP_WORDS: usize = 5;

/// With fewer threads than this the AV kernel leaves a large GPU idle, and the one that splits the context over threads runs.
const SPLIT_K_THREADS: u64 = 16_384;

impl Sdpa {
    fn most_scratch(&self, caps: Caps) -> u64 {
        self.score_bytes.min(caps.max_binding) / 16 * 16
    }

    pub(super) fn materialised_recipes(
        &self,
        cx: &BoundsCx<'_>,
        heads: u32,
        rows: u32,
        kernels: Algorithm,
    ) -> Result<Recipes, OpError> {
        let most = self.most_scratch(cx.caps());
        let slices = ScoreSlices::new(heads, rows, cx.bound(self.k_cache)[1], most)?;
        let mut slice_recipes = self.slice_recipes(kernels == Algorithm::Naive);
        for recipe in &mut slice_recipes {
            recipe.max_dispatches = u32::try_from(slices.count()).unwrap_or(u32::MAX);
        }
        let mut list = if self.how == How::Cached {
            Vec::new()
        } else {
            vec![
                AppendRows::recipe(cx, self.k, self.k_cache, "sdpa_k_cache"),
                AppendRows::recipe(cx, self.v, self.v_cache, "sdpa_v_cache"),
            ]
        };
        list.append(&mut slice_recipes);
        Ok(Recipes { list, scratch: vec![slices.reserve(most)], step_words: STEP_WORDS, ..Recipes::default() })
    }

    /// The recipes of a slice, in the order of their indices.
    fn slice_recipes(&self, naive: bool) -> Vec<Recipe> {
        let scores = Bind::Scratch(0);
        let qk = |kernel| Recipe::new(Variant::new(kernel), [self.q.into(), self.k_cache.into(), Bind::Step, scores]);
        let av = |kernel| Recipe::new(Variant::new(kernel), [scores, self.v_cache.into(), Bind::Step, self.out.into()]);
        let softmax = Recipe::new(Variant::new(&SOFTMAX), [Bind::Step, scores]);
        #[cfg(any(test, feature = "bench"))]
        if naive {
            return vec![softmax, qk(&QK_NAIVE), av(&AV_NAIVE)];
        }
        debug_assert!(!naive, "only tests and benchmarks name the naive operator");
        vec![softmax, qk(&QK), av(&AV), av(&AV_SPLIT_K)]
    }

    /// The three dispatches of one slice: `QKᵀ`, softmax, AV.
    fn slice_dispatches(
        &self,
        shape: &Shape,
        slices: &ScoreSlices,
        params: &Params,
    ) -> Result<[Option<Dispatch>; 3], OpError> {
        let naive = self.algorithm(shape.dim) == Algorithm::Naive;
        // Without the recipes that append.
        let skipped = if self.how == How::Cached { SOFTMAX_RECIPE } else { 0 };
        let [softmax_recipe, qk_recipe, av_recipe, av_split_k_recipe] =
            [SOFTMAX_RECIPE, QK_RECIPE, AV_RECIPE, AV_SPLIT_K_RECIPE].map(|recipe| recipe - skipped);
        let (heads, rows) = slices.extent(params.slice_index.into());
        let [context, stride, head_dim] = [shape.context(), slices.stride, params.head_dim].map(u64::from);
        let tiles = heads * rows.div_ceil(4);
        let qk = if naive {
            Dispatch::items(qk_recipe, params, heads * rows * stride, 64)?
        } else {
            Dispatch::groups(qk_recipe, params, heads * rows.div_ceil(32) * context.div_ceil(32))?
        };
        let softmax = Dispatch::groups(softmax_recipe, params, heads * rows)?;
        // Selected by the whole call, so that all slices of a call use the same kernel.
        let threads = u64::from(params.heads) * u64::from(params.rows).div_ceil(4) * head_dim;
        let av = match threads {
            _ if naive => Dispatch::items(av_recipe, params, heads * rows * head_dim, 64)?,
            threads if threads < SPLIT_K_THREADS => {
                Dispatch::groups(av_split_k_recipe, params, tiles * head_dim.div_ceil(4))?
            }
            _ => Dispatch::items(av_recipe, params, tiles * head_dim, 64)?,
        };
        Ok([qk, softmax, av])
    }

    pub(super) fn plan_materialised(&self, cx: &PlanCx<'_>, shape: &Shape) -> Result<Plan, OpError> {
        let slices = ScoreSlices::new(shape.kv_heads, shape.rows, shape.context(), self.most_scratch(cx.caps()))?;
        let mut params = Params {
            heads: shape.kv_heads,
            group: shape.group,
            rows: shape.rows,
            head_dim: shape.dim,
            scale: self.scale(shape.dim),
            causal: self.causal.into(),
            slice_index: 0,
            step_base: cx.step_base(),
        };
        let appends = if self.how == How::Cached {
            [None, None]
        } else {
            [shape.k.dispatch(cx, K_RECIPE)?, shape.v.dispatch(cx, V_RECIPE)?]
        };
        let mut plan = Plan::new(self.out, shape.q, appends.into_iter().flatten());
        for index in 0..slices.count() {
            params.slice_index = u32::try_from(index).unwrap_or(u32::MAX);
            plan.steps.extend(self.slice_dispatches(shape, &slices, &params)?.into_iter().flatten());
        }
        plan.scratch = vec![slices.bytes()];
        plan.step_words = vec![shape.position(), shape.context(), slices.stride, slices.heads, slices.rows];
        Ok(plan)
    }
}
