//! Steps of many sequences against each sequence alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::cast_possible_truncation, reason = "small counts of a test")]

use std::path::PathBuf;

use pteron::{Gpu, GpuOptions, LoadOptions, Method, Precision, Program, SequenceRows, block_on};
use pteron_llm::{
    GpuSampling, ModelOptions, PagedModel, PagedSample, PagedSizes, PagedStep, PagedToken, TokenId, token_inputs,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn gpu() -> Gpu {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

fn program(path: &str) -> Program {
    Program::open(root().join(path)).unwrap()
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

/// The logits after tokens, computed alone.
fn alone(method: &Method, tokens: &[TokenId], longest: usize, vocabulary: u32) -> Vec<f32> {
    let mut state = method.new_state().unwrap();
    let (mut last, mut position) = (Vec::new(), 0);
    for chunk in tokens.chunks(longest) {
        let inputs = token_inputs(method.inputs(), chunk, position).unwrap();
        last = block_on(method.call(&mut state, &inputs)).unwrap().remove(0).to_f32().unwrap();
        position += chunk.len() as u32;
    }
    last.split_off(last.len() - vocabulary as usize)
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], context: &str) {
    assert_eq!(got.len(), expected.len(), "{context}");
    let largest = expected.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
    let difference = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference <= 2e-3 * largest, "{context}: logits differ by {difference} of {largest}");
    let argmax = |logits: &[f32]| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    let (a, b) = (argmax(got), argmax(expected));
    assert!(a == b || (expected[a] - expected[b]).abs() <= 4e-3 * largest, "{context}: argmax {a} instead of {b}");
}

/// A sequence that grows.
struct Sequence {
    tokens: Vec<TokenId>,
    done: usize,
    blocks: Vec<u32>,
}

const SIZES: (u32, u32) = (24, 40);

fn load(program: &Program, precision: Precision) -> PagedModel {
    let sizes = PagedSizes::new(SIZES.0, SIZES.1).with_max_sequences(8);
    block_on(PagedModel::load(&gpu(), program, sizes, &ModelOptions::default().with_precision(precision))).unwrap()
}

fn reference(program: &Program) -> Method {
    block_on(program.load(&gpu(), "forward", &LoadOptions::default())).unwrap()
}

fn greedy(row: u32) -> PagedSample {
    PagedSample { row, sampling: GpuSampling::GREEDY }
}

/// Runs prompts of random lengths in random chunks, mixed with others, over blocks in random order. Compares the logits of every sequence
/// whenever its last token has run.
fn check_mixes(path: &str, seed: u64) {
    let program = program(path);
    let mut model = load(&program, Precision::Full);
    let method = reference(&program);
    let longest = method.inputs()[0].shape[1] as usize;
    let (vocabulary, context) = (model.vocab_size(), model.context_length().min(100));
    let mut random = Random(seed);
    let mut free: Vec<u32> = (0..SIZES.1).collect();
    for index in (1..free.len()).rev() {
        free.swap(index, random.below(index as u32 + 1) as usize);
    }
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut compared = 0;
    for _ in 0..20 {
        while sequences.len() < 4 {
            let length = 1 + random.below(context - 8);
            let tokens = (0..length).map(|_| random.below(vocabulary)).collect();
            sequences.push(Sequence { tokens, done: 0, blocks: Vec::new() });
        }
        let (mut tokens, mut rows, mut tables, mut samples) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut left = model.sizes().max_rows as usize;
        let mut compare = Vec::new();
        for (index, own) in sequences.iter_mut().enumerate() {
            let waiting = own.tokens.len() - own.done;
            let count = waiting.min(1 + random.below(17) as usize).min(left);
            if count == 0 {
                continue;
            }
            left -= count;
            let needed = (own.done + count).div_ceil(32);
            own.blocks.extend((own.blocks.len()..needed).map(|_| free.pop().unwrap()));
            rows.push(SequenceRows {
                first_row: tokens.len() as u32,
                row_count: count as u32,
                position: own.done as u32,
                block_table_offset: tables.len() as u32,
            });
            tokens.extend(own.tokens[own.done..own.done + count].iter().map(|&token| PagedToken::Known(token)));
            tables.extend(&own.blocks);
            own.done += count;
            if own.done == own.tokens.len() {
                samples.push(greedy(tokens.len() as u32 - 1));
                compare.push(index);
            }
        }
        let step = PagedStep {
            tokens: &tokens,
            sequences: &rows,
            block_tables: &tables,
            samples: &samples,
            ..PagedStep::default()
        };
        let (sampled, logits) = block_on(model.run_with_logits(&step)).unwrap();
        for ((&index, logits), token) in compare.iter().zip(&logits).zip(&sampled.tokens) {
            let own = &mut sequences[index];
            let expected = alone(&method, &own.tokens, longest, vocabulary);
            assert_close(logits, &expected, &format!("{path}: {} tokens", own.tokens.len()));
            own.tokens.push(token.unwrap());
            compared += 1;
        }
        // Some sequences end, and others take their blocks.
        sequences.retain_mut(|own| {
            let ends = own.tokens.len() as u32 >= context || (own.tokens.len() > own.done && random.below(4) == 0);
            if ends {
                free.append(&mut own.blocks);
            }
            !ends
        });
    }
    assert!(compared > 5, "{path}: {compared} compared");
}

#[test]
fn sequences_in_mixed_steps_have_the_logits_of_their_own_runs() {
    check_mixes("fixtures/llama/tiny_4w/program.pte", 1);
}

#[test]
fn so_have_those_of_programs_with_quantised_rows() {
    check_mixes("fixtures/llama/tiny_8da4w/program.pte", 2);
}

#[test]
fn so_have_those_of_programs_that_return_all_logits() {
    check_mixes("fixtures/llama/tiny_fp16_full_logits/program.pte", 3);
}

#[test]
fn sampled_tokens_are_fed_back_on_the_gpu() {
    let program = program("fixtures/llama/tiny_4w/program.pte");
    let mut model = load(&program, Precision::Full);
    let method = reference(&program);
    let vocabulary = model.vocab_size();
    let mut texts = [vec![3, 1, 4, 1, 5], vec![9, 2, 6]].map(|tokens: Vec<TokenId>| tokens);
    let blocks = [[7, 2], [5, 0]];
    // The prompts, then steps in flight at once, the second sequence first in some of them.
    let mut pending = Vec::new();
    let prompt: Vec<PagedToken> = texts.concat().iter().map(|&token| PagedToken::Known(token)).collect();
    let rows = |first_row, row_count, position, block_table_offset| SequenceRows {
        first_row,
        row_count,
        position,
        block_table_offset,
    };
    let step = PagedStep {
        tokens: &prompt,
        sequences: &[rows(0, 5, 0, 0), rows(5, 3, 0, 2)],
        block_tables: blocks.as_flattened(),
        samples: &[greedy(4), greedy(7)],
        ..PagedStep::default()
    };
    pending.push(([0, 1], model.start(&step).unwrap()));
    for index in 0..3u32 {
        let order = if index % 2 == 0 { [1, 0] } else { [0, 1] };
        let before = pending.last().unwrap().0;
        let sample = |own: usize| before.iter().position(|&other| other == own).unwrap() as u32;
        let tokens = order.map(|own| PagedToken::Sampled(sample(own)));
        let length = |own: usize| [5, 3][own] + index;
        let step = PagedStep {
            tokens: &tokens,
            sequences: &[
                rows(0, 1, length(order[0]), 2 * order[0] as u32),
                rows(1, 1, length(order[1]), 2 * order[1] as u32),
            ],
            block_tables: blocks.as_flattened(),
            samples: &[greedy(0), greedy(1)],
            ..PagedStep::default()
        };
        pending.push((order, model.start(&step).unwrap()));
    }
    for (order, step) in pending {
        let sampled = block_on(step.wait()).unwrap();
        order.iter().zip(sampled.tokens).for_each(|(&own, token)| texts[own].push(token.unwrap()));
    }
    for (text, prompt) in texts.iter().zip([5, 3]) {
        for end in prompt..text.len() {
            let logits = alone(&method, &text[..end], 16, vocabulary);
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert!(best - logits[text[end] as usize] <= 1e-3, "token {end} of {text:?}");
        }
    }
}

#[test]
fn shared_and_copied_blocks_continue_as_their_source() {
    let program = program("fixtures/llama/tiny_4w/program.pte");
    let mut model = load(&program, Precision::Full);
    let method = reference(&program);
    let vocabulary = model.vocab_size();
    let prefix: Vec<TokenId> = (0..40).map(|token| token * 7 % vocabulary).collect();
    let rows = |first_row, row_count, position, block_table_offset| SequenceRows {
        first_row,
        row_count,
        position,
        block_table_offset,
    };
    for (position, chunk) in [(0, &prefix[..20]), (20, &prefix[20..])] {
        let tokens: Vec<PagedToken> = chunk.iter().map(|&token| PagedToken::Known(token)).collect();
        let step = PagedStep {
            tokens: &tokens,
            sequences: &[rows(0, 20, position, 0)],
            block_tables: &[9, 4],
            ..PagedStep::default()
        };
        block_on(model.run_with_logits(&step)).unwrap();
    }
    // Three sequences share the full block 9. The second half-full block is copied for two of them.
    let next = [11, 12, 13];
    let step = PagedStep {
        tokens: &next.map(PagedToken::Known),
        sequences: &[rows(0, 1, 40, 0), rows(1, 1, 40, 2), rows(2, 1, 40, 4)],
        block_tables: &[9, 4, 9, 30, 9, 1],
        samples: &[greedy(0), greedy(1), greedy(2)],
        copies: &[[4, 30], [4, 1]],
        ..PagedStep::default()
    };
    let (_, logits) = block_on(model.run_with_logits(&step)).unwrap();
    for (token, logits) in next.into_iter().zip(&logits) {
        let text = [prefix.as_slice(), &[token]].concat();
        assert_close(logits, &alone(&method, &text, 16, vocabulary), &format!("after {token}"));
    }
}

#[test]
fn steps_that_do_not_fit_are_rejected_and_change_nothing() {
    let program = program("fixtures/llama/tiny_4w/program.pte");
    let mut model = load(&program, Precision::Full);
    let rows = |position, block_table_offset| [SequenceRows { first_row: 0, row_count: 1, position, block_table_offset }];
    let known = [PagedToken::Known(1)];
    let usual = PagedStep { tokens: &known, sequences: &rows(0, 0), block_tables: &[0], ..PagedStep::default() };
    let vocabulary = model.vocab_size();
    let cases = [
        (PagedStep { tokens: &[PagedToken::Known(vocabulary)], ..usual }, "token"),
        (PagedStep { tokens: &[PagedToken::Sampled(0)], ..usual }, "takes sample 0"),
        (PagedStep { block_tables: &[SIZES.1], ..usual }, "names block 40"),
        (PagedStep { block_tables: &[], ..usual }, "needs 1 blocks"),
        (PagedStep { sequences: &rows(1_000_000, 0), ..usual }, "position"),
        (PagedStep { copies: &[[0, SIZES.1]], ..usual }, "allowed is 0 to 39"),
        (PagedStep { copies: &[[0, 1], [1, 2]], ..usual }, "both copied and overwritten"),
        (PagedStep { samples: &[greedy(1)], ..usual }, "allowed is 0 to 0"),
    ];
    for (step, reason) in cases {
        let error = model.start(&step).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let one = PagedStep { samples: &[greedy(0)], ..usual };
    let error = model.start_with_logits(&one, 2).unwrap_err().to_string();
    assert!(error.contains("are to be read back"), "{error}");
    let sampled = block_on(model.start(&one).unwrap().wait()).unwrap();
    assert!(sampled.tokens[0].is_some() && sampled.logits.is_empty());
    let sampled = block_on(model.start_with_logits(&one, 1).unwrap().wait()).unwrap();
    let (_, logits) = block_on(model.run_with_logits(&one)).unwrap();
    assert_eq!((sampled.logits.len(), &sampled.logits), (vocabulary as usize, &logits[0]));
}
