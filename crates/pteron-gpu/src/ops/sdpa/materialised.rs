//! Attention in three kernels with scores in scratch, for heads of any length: in rounds, where scores would take too much.

use super::slices::Slices;
use super::{INCLUDES, Kernels, Sdpa, Shape, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::ops::update_cache::Write;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, Plan, PlanCx, Recipe, Recipes};

pub(super) static QK_SCALAR: KernelDef =
    KernelDef::new("sdpa_qk", include_str!("sdpa_qk.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]).proven(reach::scores);
pub(super) static QK_NAIVE: KernelDef = KernelDef::new("sdpa_qk_naive", include_str!("sdpa_qk_naive.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::naive_scores);
pub(super) static SOFTMAX: KernelDef = KernelDef::new("sdpa_softmax", include_str!("sdpa_softmax.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::softmax);
pub(super) static AV: KernelDef =
    KernelDef::new("sdpa_av", include_str!("sdpa_av.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]).proven(reach::values);
pub(super) static AV_FEW: KernelDef =
    KernelDef::new("sdpa_av_split_k", include_str!("sdpa_av_split_k.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::values);
pub(super) static AV_NAIVE: KernelDef = KernelDef::new("sdpa_av_naive", include_str!("sdpa_av_naive.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .proven(reach::naive_values);

params! {
    /// Of `include/materialised_params.wgsl`, for every kernel here.
    pub(super) struct Params {
        heads: u32,
        group: u32,
        rows: u32,
        lanes: u32,
        scale: f32,
        causal: u32,
        round: u32,
        step_base: u32,
    }
}

const K_RECIPE: usize = 0;
const V_RECIPE: usize = 1;
const SOFTMAX_RECIPE: usize = 2;
const QK_RECIPE: usize = 3;
const AV_RECIPE: usize = 4;
const AV_FEW_RECIPE: usize = 5;

/// Position, context, and three of the slices.
const STEP_WORDS: usize = 5;

/// With fewer threads than this the value kernel leaves a large GPU idle, and splits the context as well.
const AV_FEW_THREADS: u64 = 16_384;

impl Sdpa {
    fn most_scratch(&self, caps: Caps) -> u64 {
        self.score_bytes.min(caps.max_binding) / 16 * 16
    }

    pub(super) fn round_recipes(
        &self,
        cx: &BoundsCx<'_>,
        heads: u32,
        rows: u32,
        kernels: Kernels,
    ) -> Result<Recipes, OpError> {
        let most = self.most_scratch(cx.caps());
        let slices = Slices::new(heads, rows, cx.bound(self.k_cache)[1], most)?;
        let mut rounds = self.recipes_of_a_round(kernels == Kernels::Naive);
        for recipe in &mut rounds {
            recipe.max_dispatches = u32::try_from(slices.rounds()).unwrap_or(u32::MAX);
        }
        let mut list = vec![
            Write::recipe(cx, self.k, self.k_cache, "sdpa_k_cache"),
            Write::recipe(cx, self.v, self.v_cache, "sdpa_v_cache"),
        ];
        list.append(&mut rounds);
        Ok(Recipes { list, scratch: vec![slices.reserve(most)], step_words: STEP_WORDS, ..Recipes::default() })
    }

    /// The recipes of the rounds, in the order of their numbers.
    fn recipes_of_a_round(&self, naive: bool) -> Vec<Recipe> {
        let scores = Bind::Scratch(0);
        let qk = |kernel| Recipe::new(Variant::new(kernel), [self.q.into(), self.k_cache.into(), Bind::Step, scores]);
        let av = |kernel| Recipe::new(Variant::new(kernel), [scores, self.v_cache.into(), Bind::Step, self.out.into()]);
        let softmax = Recipe::new(Variant::new(&SOFTMAX), [Bind::Step, scores]);
        if naive {
            return vec![softmax, qk(&QK_NAIVE), av(&AV_NAIVE)];
        }
        vec![softmax, qk(&QK_SCALAR), av(&AV), av(&AV_FEW)]
    }

    /// The three dispatches of one round: scores, softmax, values.
    fn round(&self, shape: &Shape, slices: &Slices, params: &Params) -> Result<[Option<Dispatch>; 3], OpError> {
        let naive = self.kernels(shape.dim) == Kernels::Naive;
        let (heads, rows) = slices.round(params.round.into());
        let [context, stride, lanes] = [shape.context(), slices.stride, params.lanes].map(u64::from);
        let tiles = heads * rows.div_ceil(4);
        let qk = if naive {
            Dispatch::items(QK_RECIPE, params, heads * rows * stride, 64)?
        } else {
            Dispatch::groups(QK_RECIPE, params, heads * rows.div_ceil(32) * context.div_ceil(32))?
        };
        let softmax = Dispatch::groups(SOFTMAX_RECIPE, params, heads * rows)?;
        // The choice is by the whole call, so that the rounds of a call are alike.
        let threads = u64::from(params.heads) * u64::from(params.rows).div_ceil(4) * lanes;
        let av = match threads {
            _ if naive => Dispatch::items(AV_RECIPE, params, heads * rows * lanes, 64)?,
            few if few < AV_FEW_THREADS => Dispatch::groups(AV_FEW_RECIPE, params, tiles * lanes.div_ceil(4))?,
            _ => Dispatch::items(AV_RECIPE, params, tiles * lanes, 64)?,
        };
        Ok([qk, softmax, av])
    }
    pub(super) fn plan_rounds(&self, cx: &PlanCx<'_>, shape: &Shape) -> Result<Plan, OpError> {
        let slices = Slices::new(shape.kv_heads, shape.rows, shape.context(), self.most_scratch(cx.caps()))?;
        let mut params = Params {
            heads: shape.kv_heads,
            group: shape.group,
            rows: shape.rows,
            lanes: shape.dim,
            scale: self.scale(shape.dim),
            causal: self.causal.into(),
            round: 0,
            step_base: cx.step_base(),
        };
        let writes = [shape.k.step(cx, K_RECIPE)?, shape.v.step(cx, V_RECIPE)?];
        let mut plan = Plan::new(self.out, shape.q, writes.into_iter().flatten());
        for round in 0..slices.rounds() {
            params.round = u32::try_from(round).unwrap_or(u32::MAX);
            plan.steps.extend(self.round(shape, &slices, &params)?.into_iter().flatten());
        }
        plan.scratch = vec![slices.bytes()];
        plan.step_words = vec![shape.position(), shape.context(), slices.stride, slices.heads, slices.rows];
        Ok(plan)
    }
}
