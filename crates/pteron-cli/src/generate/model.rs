//! From files, or from the box, to a model on a GPU.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pteron::{Gpu, Program, StateDtype, block_on};
use pteron_llm::{ChatTemplate, Model, ModelOptions, PartialMetadata, Tokenizer, TokenizerConfig};

use super::bundled;
use crate::cli::ModelArgs;
use crate::failure::{Failure, Reason};
use crate::loading::LoadingBar;
use crate::{devices, files, tune};

/// A model, and what stands beside it.
pub(super) struct OpenedModel {
    pub(super) model: Model,
    pub(super) gpu: Gpu,
    pub(super) template: Option<ChatTemplate>,
    pub(super) loading: Duration,
}

/// Files that lie beside a model, by what they are.
const TOKENIZERS: [&str; 2] = ["tokenizer.json", "tokenizer.model"];
const SIDECAR: &str = "pteron.json";
const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";

pub(super) fn open(args: &ModelArgs, quiet: bool) -> Result<OpenedModel, Failure> {
    let start = Instant::now();
    let (program, tokenizer, name) = sources(args)?;
    let config = config(args)?;
    let tokenizer = match &config {
        Some(config) => tokenizer.with_bos_eos(config.bos_token(), config.eos_token()).map_err(pteron_llm::Error::from)?,
        None => tokenizer,
    };
    let template = template(args, config.as_ref())?;
    let facts = flags(args).or(sidecar(args.model.as_deref())?);
    let gpu = devices::open(&args.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &program, quiet).unwrap_or_default();
    let bar = LoadingBar::new(&format!("loading {name} on {}", gpu.adapter().name), quiet);
    let kv_dtype = if args.half_cache { StateDtype::F16 } else { StateDtype::F32 };
    let options = ModelOptions { facts, progress: Some(bar.listener()), kv_dtype, tuning, ..ModelOptions::default() };
    let model = block_on(Model::load(&gpu, &program, tokenizer, &options));
    drop(bar);
    Ok(OpenedModel { model: model?, gpu, template, loading: start.elapsed() })
}

fn sources(args: &ModelArgs) -> Result<(Program, Tokenizer, String), Failure> {
    let Some(path) = &args.model else {
        let (program, tokenizer) = bundled::open()?;
        return Ok((program, tokenizer, bundled::NAME.to_owned()));
    };
    let pte = files::open_program(path)?;
    let data = args.data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    let program = Program::from_files(pte, data).map_err(|error| Failure::file(path, error))?;
    let file = match &args.tokenizer {
        Some(file) => file.clone(),
        None => TOKENIZERS
            .iter()
            .find_map(|name| beside(path, name))
            .ok_or_else(|| Failure::file(path, Reason::NoTokenizer { looked_for: TOKENIZERS.join(" or ") }))?,
    };
    let tokenizer = Tokenizer::from_bytes(&files::read(&file, LARGEST_TOKENIZER)?)
        .map_err(|error| Failure::file(&file, pteron_llm::Error::from(error)))?;
    Ok((program, tokenizer, path.display().to_string()))
}

/// A file beside the model, if it is there.
fn beside(model: &Path, name: &str) -> Option<PathBuf> {
    Some(model.with_file_name(name)).filter(|path| path.is_file())
}

/// The most bytes of files beside a model. The largest vocabularies take a seventh of that, the longest templates less.
const LARGEST_TOKENIZER: u64 = 256 << 20;
const LARGEST_CONFIG: u64 = 16 << 20;
const LARGEST_TEMPLATE: u64 = 4 << 20;

fn config(args: &ModelArgs) -> Result<Option<TokenizerConfig>, Failure> {
    let Some(path) = args.model.as_deref().and_then(|model| beside(model, CONFIG)) else { return Ok(None) };
    let config = TokenizerConfig::from_json(&files::read(&path, LARGEST_CONFIG)?);
    config.map(Some).map_err(|error| Failure::file(&path, pteron_llm::Error::from(error)))
}

fn template(args: &ModelArgs, config: Option<&TokenizerConfig>) -> Result<Option<ChatTemplate>, Failure> {
    let file = args.template.clone().or_else(|| args.model.as_deref().and_then(|model| beside(model, TEMPLATE)));
    let Some(path) = file else {
        let template = config.map(ChatTemplate::from_config).transpose().map_err(pteron_llm::Error::from)?;
        return Ok(template.flatten());
    };
    let text = String::from_utf8_lossy(&files::read(&path, LARGEST_TEMPLATE)?).into_owned();
    let tokens = config.map(|config| config.tokens.clone()).unwrap_or_default();
    ChatTemplate::new(&text, tokens).map(Some).map_err(|error| Failure::file(&path, pteron_llm::Error::from(error)))
}

/// What the sidecar of a model says, if there is one.
pub(crate) fn sidecar(model: Option<&Path>) -> Result<PartialMetadata, Failure> {
    let Some(path) = model.and_then(|model| beside(model, SIDECAR)) else { return Ok(PartialMetadata::default()) };
    PartialMetadata::from_sidecar(&files::read(&path, LARGEST_CONFIG)?)
        .map_err(|error| Failure::file(&path, pteron_llm::Error::from(error)))
}

fn flags(args: &ModelArgs) -> PartialMetadata {
    PartialMetadata {
        context_length: args.context_length,
        kv_cache: args.kv_cache.then_some(true),
        bos_id: args.bos_id,
        eos_ids: (!args.eos_ids.is_empty()).then(|| args.eos_ids.clone()),
        ..PartialMetadata::default()
    }
}
