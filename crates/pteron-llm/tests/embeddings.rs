//! Embeddings of decoders and encoders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small counts of a test")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::LazyLock;

use pteron::{Gpu, GpuOptions, LoadOptions, Precision, Program, ScalarType, block_on};
use pteron_convert::template::{ConvertOptions, WeightFormat};
use pteron_convert::{ProgramTemplate, ScaleMethod, Source, Synthetic, Weight, synthetic};
use pteron_format::program::{
    Chain, DataRef, Delegate, ExecutionPlan, Instruction, SegmentId, ShapeDynamism, Tensor, Value, ValueId,
};
use pteron_format::vulkan::{self, Call, Constant, ConstantId, ConstantSource, DataType, Graph};
use pteron_llm::{
    Embedder, EmbedderOptions, Error, KvDtype, ModelAssets, ModelOptions, Pooling, TokenId, Tokenizer, token_inputs,
};

static GPU: LazyLock<Gpu> = LazyLock::new(|| {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
});

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn options(pooling: Option<Pooling>) -> EmbedderOptions {
    let model = ModelOptions::default().with_precision(Precision::Full).with_kv_dtype(KvDtype::F32);
    EmbedderOptions::default().with_model(model).with_pooling(pooling).with_normalize(false)
}

fn load(program: &Program, options: EmbedderOptions) -> Result<Embedder, Error> {
    block_on(Embedder::load(&GPU, program, ModelAssets::ids_only(), options))
}

fn tokens(seed: u32, count: u32) -> Vec<TokenId> {
    (0..count).map(|index| (seed * 13 + index * 7 + index * index) % 48).collect()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], context: &str) {
    assert_eq!(got.len(), expected.len(), "{context}");
    let largest = expected.iter().fold(1e-3f32, |largest, x| largest.max(x.abs()));
    let difference = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest;
    assert!(difference < 2e-3, "{context}: vectors differ by {difference} of the largest number");
}

/// A decoder with an output projection of its own, and that projection.
fn decoder() -> (Program, Vec<Vec<f32>>) {
    let config = synthetic::parse("layers=2,width=32,heads=4,kv=2,head=8,hidden=64,vocab=48").unwrap();
    let source = Synthetic::new(config.clone(), 7);
    let options =
        ConvertOptions::new(160).with_embedding_format(WeightFormat::Float32).with_linear_format(WeightFormat::Float32);
    let template = ProgramTemplate::new(&config, &options, &source.metadata()).unwrap();
    let path =
        std::env::temp_dir().join(format!("pteron-embeddings-{}-{:?}.pte", std::process::id(), std::thread::current().id()));
    pteron_convert::convert(&source, template, ScaleMethod::default(), &path, &mut |_| ControlFlow::Continue(())).unwrap();
    let program = Program::from_bytes(std::fs::read(&path).unwrap(), Vec::new()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let weight = if config.tied_embeddings { Weight::Embedding } else { Weight::Output };
    let row = |row| {
        let mut out = vec![0.0; 32];
        source.row(weight, row, &mut out).unwrap();
        out
    };
    (program, (0..48).map(row).collect())
}

#[test]
fn hidden_states_are_what_logits_are_computed_from() {
    let (program, projection) = decoder();
    let method = block_on(program.load(&GPU, "forward", &LoadOptions::default())).unwrap();
    let embedder = load(&program, options(None)).unwrap();
    assert_eq!((embedder.dimensions(), embedder.pooling()), (32, Pooling::Last));
    // One of them takes several steps: a step has 64 rows on a software adapter.
    let texts = [tokens(1, 5), tokens(2, 1), tokens(3, 150), tokens(4, 33), tokens(5, 64)];
    let vectors = embedder.embed_tokens_blocking(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&vectors) {
        let inputs = token_inputs(method.inputs(), text, 0).unwrap();
        let outputs = block_on(method.call(&mut method.new_state().unwrap(), &inputs)).unwrap();
        let logits: Vec<f32> =
            projection.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>()).collect();
        assert_close(&logits, &outputs[0].to_f32().unwrap(), &format!("{} tokens", text.len()));
    }
}

#[test]
fn vectors_of_a_batch_are_those_of_each_text_alone() {
    let (program, _) = decoder();
    let last = load(&program, options(None)).unwrap();
    let mean = load(&program, options(Some(Pooling::Mean))).unwrap();
    // Of the same loaded program.
    let first = last.with_pooling(Pooling::First);
    assert_eq!((last.pooling(), first.pooling()), (Pooling::Last, Pooling::First));
    let texts: Vec<Vec<TokenId>> = (0..24).map(|index| tokens(index, 1 + index * 17 % 90)).collect();
    let together = last.embed_tokens_blocking(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        assert_close(vector, &last.embed_tokens_blocking(&[text]).unwrap()[0], &format!("{} tokens", text.len()));
    }
    // A decoder sees what comes before a token alone: its rows are the last rows of all beginnings of the text.
    let text = tokens(9, 70);
    let beginnings: Vec<&[TokenId]> = (1..=text.len()).map(|end| &text[..end]).collect();
    let rows = last.embed_tokens_blocking(&beginnings).unwrap();
    let expected: Vec<f32> =
        (0..32).map(|column| rows.iter().map(|row| row[column]).sum::<f32>() / rows.len() as f32).collect();
    assert_close(&mean.embed_tokens_blocking(&[&text]).unwrap()[0], &expected, "the mean of 70 tokens");
    assert_close(&first.embed_tokens_blocking(&[&text]).unwrap()[0], &rows[0], "the first of 70 tokens");
}

#[test]
fn vectors_have_length_one_unless_told_otherwise() {
    let (program, _) = decoder();
    let embedder = load(&program, EmbedderOptions::default()).unwrap();
    let length = |vector: &Vec<f32>| vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    let vectors = embedder.embed_tokens_blocking(&[tokens(1, 3), tokens(2, 9)]).unwrap();
    assert!(vectors.iter().all(|vector| (length(vector) - 1.0).abs() < 1e-5));
    let whole = embedder.with_normalize(false).embed_tokens_blocking(&[tokens(1, 3)]).unwrap();
    let scaled: Vec<f32> = whole[0].iter().map(|number| number / length(&whole[0])).collect();
    assert!((length(&whole[0]) - 1.0).abs() > 1e-3, "of another length");
    assert_close(&scaled, &vectors[0], "divided by its length");
    assert!(embedder.embed_tokens_blocking(&[[0; 0]; 0]).unwrap().is_empty());
}

#[test]
fn texts_that_no_vector_can_be_made_of_are_refused() {
    let (program, _) = decoder();
    let embedder = load(&program, options(None).with_max_tokens(40)).unwrap();
    assert_eq!(embedder.max_tokens(), 40);
    let refused = |tokens: Vec<TokenId>| embedder.embed_tokens_blocking(&[vec![1], tokens]).unwrap_err();
    assert!(matches!(refused(vec![]), Error::EmptyPrompt));
    assert!(matches!(refused(vec![1; 41]), Error::TextTooLong { tokens: 41, most: 40 }));
    assert!(matches!(refused(vec![48]), Error::TokenOutOfRange { token: 48, .. }));
    assert!(embedder.embed_blocking(&["a text"]).is_err(), "there is no tokenizer");
}

#[test]
fn exported_decoders_have_hidden_states() {
    for name in ["tiny_4w", "tiny_8da4w", "tiny_fp16_full_logits"] {
        let program = Program::open(root().join(format!("fixtures/llama/{name}/program.pte"))).unwrap();
        let embedder = load(&program, options(None)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let texts = [tokens(1, 20), tokens(2, 7)];
        let vectors = embedder.embed_tokens_blocking(&texts).unwrap();
        assert_eq!(embedder.dimensions(), 64, "{name}");
        assert_close(&vectors[1], &embedder.embed_tokens_blocking(&texts[1..]).unwrap()[0], name);
        assert!(vectors[0].iter().zip(&vectors[1]).any(|(a, b)| (a - b).abs() > 1e-3), "{name}");
    }
}

#[test]
fn the_bundled_model_places_texts_of_one_topic_together() {
    let program = Program::open(root().join("models/demo/model.pte")).unwrap();
    let tokenizer = Tokenizer::open(root().join("models/demo/tokenizer.json")).unwrap();
    let options = EmbedderOptions::default().with_pooling(Pooling::Mean);
    let embedder = block_on(Embedder::load(&GPU, &program, tokenizer.into(), options)).unwrap();
    let texts = ["To read a file, open it first.", "Open the file before you read from it.", "A thread waits for the lock."];
    let vectors = embedder.embed_blocking(&texts).unwrap();
    let cosine = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum::<f32>();
    assert!(
        cosine(0, 1) > cosine(0, 2) && cosine(0, 1) > cosine(1, 2),
        "{} {} {}",
        cosine(0, 1),
        cosine(0, 2),
        cosine(1, 2)
    );
}

const TEXTS: u32 = 2;
const LONGEST: u32 = 5;
const WIDTH: u32 = 4;

/// A number of the table of the encoder.
fn entry(token: u32, column: u32) -> f32 {
    (token * 10 + column) as f32
}

/// An encoder that looks each token up and multiplies its row with the mask.
fn encoder() -> Program {
    let table: Vec<u8> =
        (0..8).flat_map(|token| (0..WIDTH).map(move |column| entry(token, column))).flat_map(f32::to_le_bytes).collect();
    let graph_tensor = |dtype, dims: &[u32], constant: Option<u32>| {
        vulkan::Value::Tensor(vulkan::Tensor { constant: constant.map(ConstantId), ..vulkan::Tensor::new(dtype, dims) })
    };
    let ids = |ids: &[u32]| ids.iter().copied().map(vulkan::ValueId).collect::<Vec<_>>();
    let call = |name: &str, args: &[u32]| Call { node_id: 0, name: name.to_owned(), args: ids(args) };
    let graph = Graph {
        chain: vec![
            call("aten.embedding.default", &[0, 1, 7, 8, 8, 3]),
            call("aten.unsqueeze_copy.default", &[2, 7, 4]),
            call("aten.mul.Tensor", &[3, 4, 5]),
        ],
        values: vec![
            graph_tensor(DataType::Float32, &[8, WIDTH], Some(0)),
            graph_tensor(DataType::Int64, &[TEXTS, LONGEST], None),
            graph_tensor(DataType::Float32, &[TEXTS, LONGEST], None),
            graph_tensor(DataType::Float32, &[TEXTS, LONGEST, WIDTH], None),
            graph_tensor(DataType::Float32, &[TEXTS, LONGEST, 1], None),
            graph_tensor(DataType::Float32, &[TEXTS, LONGEST, WIDTH], None),
            vulkan::Value::Null,
            vulkan::Value::Int(-1),
            vulkan::Value::Bool(false),
        ],
        inputs: ids(&[1, 2]),
        outputs: ids(&[5]),
        constants: vec![Constant { len: table.len() as u64, source: ConstantSource::Stored(0) }],
        ..Graph::default()
    };
    let tensor = |scalar_type, sizes: &[u32]| {
        Value::Tensor(Box::new(Tensor { dynamism: ShapeDynamism::Static, ..Tensor::new(scalar_type, sizes) }))
    };
    let values = vec![
        tensor(ScalarType::Long, &[TEXTS, LONGEST]),
        tensor(ScalarType::Float, &[TEXTS, LONGEST]),
        tensor(ScalarType::Float, &[TEXTS, LONGEST, WIDTH]),
    ];
    let args = [0, 1, 2].map(ValueId).to_vec();
    let plan = ExecutionPlan {
        name: "forward".to_owned(),
        values,
        inputs: args[..2].to_vec(),
        outputs: args[2..].to_vec(),
        chains: vec![Chain { instructions: vec![Instruction::DelegateCall { delegate: 0, args }], ..Chain::default() }],
        delegates: vec![Delegate::vulkan(DataRef::Segment(SegmentId(0)))],
        buffer_sizes: vec![0],
        ..ExecutionPlan::default()
    };
    let segments = vec![vulkan::write_blob(&graph, &table).unwrap()];
    let program = pteron_format::Program { plans: vec![plan], segments, ..pteron_format::Program::default() };
    Program::from_bytes(pteron_format::write(&program).unwrap(), Vec::new()).unwrap()
}

#[test]
fn encoders_take_a_mask_and_pool_the_tokens_of_each_text() {
    let program = encoder();
    let texts: [&[TokenId]; 3] = [&[1, 2, 6], &[3], &[7, 0, 1, 2, 5]];
    for pooling in [None, Some(Pooling::Last), Some(Pooling::First)] {
        let embedder = load(&program, options(pooling)).unwrap();
        assert_eq!((embedder.max_tokens(), embedder.dimensions()), (LONGEST, WIDTH as usize));
        let vectors = embedder.embed_tokens_blocking(&texts).unwrap();
        for (text, vector) in texts.iter().zip(&vectors) {
            let pooled: &[TokenId] = match pooling {
                Some(Pooling::Last) => &text[text.len() - 1..],
                Some(Pooling::First) => &text[..1],
                _ => text,
            };
            let mean = |column| pooled.iter().map(|&token| entry(token, column)).sum::<f32>() / pooled.len() as f32;
            assert_close(vector, &(0..WIDTH).map(mean).collect::<Vec<_>>(), &format!("{text:?}, {pooling:?}"));
        }
    }
    let embedder = load(&program, options(None)).unwrap();
    assert!(matches!(embedder.embed_tokens_blocking(&[[1; 6]]).unwrap_err(), Error::TextTooLong { tokens: 6, most: 5 }));
}

#[test]
fn programs_without_hidden_states_are_refused() {
    let add = Program::open(root().join("fixtures/ops/add_same/program.pte")).unwrap();
    let error = load(&add, options(None)).unwrap_err();
    assert!(matches!(error, Error::NoHiddenStates(_)), "{error}");
    assert!(error.to_string().starts_with("the program makes no embeddings: it takes neither"), "{error}");
}
