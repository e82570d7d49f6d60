use super::*;
use crate::ir::{DataType, Value, ValueId};
use crate::live::{Scalar, ScalarId};
use crate::plan::Dispatch;
use crate::testing::{DryRun, GraphBuilder, noise_bytes};

// The operators of the graph, by index in its chain.
const SIZE: usize = 0;
const POSITION: usize = 1;
const END: usize = 2;
const SLICE: usize = 3;
const VIEW: usize = 4;
const SIGMOID: usize = 5;
const RELU: usize = 6;
const ALL: [usize; 7] = [SIZE, POSITION, END, SLICE, VIEW, SIGMOID, RELU];

struct Chain {
    dry_run: DryRun,
    end: ValueId,
    rows: ValueId,
    view: ValueId,
    sigmoid: ValueId,
}

/// As many rows of a table as there are tokens, from a position on, viewed as heads; and an unrelated operator.
fn chain() -> Chain {
    let mut builder = GraphBuilder::new();
    let tokens = builder.input(DataType::Int32, &[1, 31]);
    let position = builder.input(DataType::Int32, &[1]);
    let other = builder.input(DataType::Float32, &[8]);
    let table = builder.constant(DataType::Float32, &[32, 16], noise_bytes(1, 32 * 16 * 4));
    let (zero, one, four) = (builder.int(0), builder.int(1), builder.int(4));
    let [length, start, end] = [(); 3].map(|()| builder.value(Value::SymInt));
    let sizes = builder.value(Value::ValueList(vec![length, four, four]));
    let rows = builder.tensor(DataType::Float32, &[31, 16]);
    let [view, sigmoid] = [(); 2].map(|()| builder.tensor(DataType::Float32, &[31, 4, 4]));
    let relu = builder.tensor(DataType::Float32, &[8]);
    builder.call("sym_size.int", &[tokens, one, length]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, start]);
    builder.call("add", &[start, length, end]);
    builder.call("aten.slice_copy.Tensor", &[table, zero, start, end, one, rows]);
    builder.call("aten.view_copy.default", &[rows, sizes, view]);
    builder.call("aten.sigmoid.default", &[view, sigmoid]);
    builder.call("aten.relu.default", &[other, relu]);
    builder.output(sigmoid);
    builder.output(relu);
    Chain { dry_run: DryRun::new(&builder).unwrap(), end, rows, view, sigmoid }
}

impl Chain {
    /// A call with `tokens` tokens, a position, and `other` other numbers.
    fn call(&mut self, tokens: u32, position: i32, other: u32) -> Result<(Vec<usize>, Vec<usize>)> {
        let ids = vec![0; tokens as usize];
        self.dry_run.call(&[(&[1, tokens], &ids), (&[1], &[position]), (&[other], &[])])
    }

    fn end(&self) -> i64 {
        self.dry_run.planned.live().scalar(Scalar::Live(ScalarId(self.end.0)))
    }

    fn shapes(&self) -> [Vec<u32>; 3] {
        [self.rows, self.view, self.sigmoid].map(|tensor| self.dry_run.dims(tensor))
    }

    fn steps(&self) -> Vec<Vec<Dispatch>> {
        self.dry_run.planned.plans().iter().map(|plan| plan.steps.clone()).collect()
    }
}

#[test]
fn building_is_the_first_resize() {
    let mut chain = chain();
    assert_eq!(chain.shapes(), [vec![31, 16], vec![31, 4, 4], vec![31, 4, 4]]);
    assert_eq!(chain.end(), 31);
    let built = chain.dry_run.planned.plans().to_vec();
    assert_eq!(built.len(), ALL.len());
    // Resized and back: the plans are those of loading.
    chain.call(3, 7, 8).unwrap();
    chain.call(31, 0, 8).unwrap();
    assert_eq!(chain.dry_run.planned.plans(), built);
}

#[test]
fn live_dims_flow_through_scalars_slices_and_views() {
    let mut chain = chain();
    for (tokens, position) in [(1, 0), (7, 25), (30, 1), (1, 31), (0, 5), (31, 0)] {
        chain.call(tokens, position, 8).unwrap();
        assert_eq!(chain.end(), i64::from(tokens) + i64::from(position));
        assert_eq!(chain.shapes(), [vec![tokens, 16], vec![tokens, 4, 4], vec![tokens, 4, 4]]);
    }
}

#[test]
fn only_affected_operators_are_planned_again() {
    let mut chain = chain();
    // The first call sets the position, which equals the one that loading assumed.
    assert_eq!(chain.call(31, 0, 8).unwrap(), (vec![POSITION], vec![]));
    assert_eq!(chain.call(31, 0, 8).unwrap(), (vec![], vec![]));
    assert_eq!(chain.call(31, 0, 3).unwrap().0, [RELU]);
    assert_eq!(chain.call(5, 0, 3).unwrap().0, [SIZE, END, SLICE, VIEW, SIGMOID]);
    assert_eq!(chain.call(5, 9, 3).unwrap().0, [POSITION, END, SLICE]);
    assert_eq!(chain.call(6, 8, 8).unwrap().0, [SIZE, POSITION, END, SLICE, VIEW, SIGMOID, RELU]);
}

#[test]
fn a_decode_step_moves_step_words_alone() {
    let mut chain = chain();
    chain.call(1, 10, 8).unwrap();
    for position in 11..32 {
        let (before, words) = (chain.steps(), chain.dry_run.planned.plans()[SLICE].step_words.clone());
        let (affected, differ) = chain.call(1, position, 8).unwrap();
        assert_eq!(affected, [POSITION, END, SLICE]);
        assert_eq!(differ, [POSITION, END, SLICE]);
        assert_eq!(chain.steps(), before, "parameters and grids stay");
        assert_ne!(chain.dry_run.planned.plans()[SLICE].step_words, words);
    }
}

#[test]
fn a_refused_resize_changes_nothing() {
    let mut chain = chain();
    chain.call(4, 20, 8).unwrap();
    let (live, plans) = (chain.dry_run.planned.live().clone(), chain.dry_run.planned.plans().to_vec());
    // The slice is clamped to three rows, and the view requires four.
    let error = chain.call(4, 29, 8).unwrap_err().to_string();
    assert!(error.contains("aten.view_copy.default (call 4)") && error.contains("[3, 16]"), "{error}");
    // More tokens than the bound.
    let error = chain.call(32, 0, 8).unwrap_err().to_string();
    assert!(error.contains("input 0 has shape [1, 32], allowed is up to [1, 31]"), "{error}");
    assert_eq!(chain.dry_run.planned.live(), &live);
    assert_eq!(chain.dry_run.planned.plans(), plans);
    assert_eq!(chain.call(4, 20, 8).unwrap(), (vec![], vec![]), "and the graph still runs as before");
}

#[test]
fn plans_stay_within_reserved_parameters() {
    let chain = chain();
    for (plan, recipes) in chain.dry_run.planned.plans().iter().zip(chain.dry_run.planned.recipes()) {
        assert!(plan.steps.iter().all(|step| step.recipe < recipes.list.len() && step.params.len() <= PARAM_SLOT));
        assert!(plan.step_words.len() <= recipes.step_words);
    }
    let bases = chain.dry_run.planned.step_bases();
    assert_eq!((bases[SLICE], bases[VIEW], bases[SIGMOID]), (0, 1, 2));
}
