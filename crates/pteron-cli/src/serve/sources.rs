//! The models that are served, by their names, and how each is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pteron::{AdapterOptions, Gpu, Program, Projections, block_on};
use pteron_llm::batch::DraftSource;
use pteron_llm::{Embedder, EmbedderOptions, Engine, EngineOptions, ModelOptions, PartialMetadata, Pooling};
use pteron_server::{EmbedderBackend, EngineBackend, ModelSource};

use super::args::{self, Log, Serve};
use super::invalid;
use crate::cli::{GpuArgs, KvArgs, ModelArgs};
use crate::failure::Failure;
use crate::{devices, generate, tune};

/// The name of the bundled model.
const BUNDLED: &str = "bundled";
/// The rank of adapters for which there is room at least: that of most adapters.
const USUAL_RANK: u32 = 16;

/// The models of the command line.
pub(super) fn sources(args: &Serve) -> Result<Vec<ModelSource>, Failure> {
    let (models, embedded) = models(args);
    if models.len() + embedded.len() > 1 && (args.tokenizer.is_some() || args.template.is_some()) {
        return Err(invalid("--tokenizer and --template", "belong to one model, but there are several"));
    }
    if models.len() > 1 && args.draft.is_some() {
        return Err(invalid("--draft", "belongs to one model, but there are several"));
    }
    let mut names: Vec<String> = models.iter().map(|model| model_name(*model)).collect();
    let texts = names.len();
    let (mut all, mut purposes) = (models, vec![Purpose::TEXT; texts]);
    for model in embedded {
        let name = model_name(model);
        match names[..texts].iter().position(|own| *own == name) {
            Some(at) => purposes[at].embeddings = true,
            None => {
                names.push(name);
                all.push(model);
                purposes.push(Purpose::EMBEDDINGS);
            }
        }
    }
    let find = |given: String, model: &str| {
        let at = names.iter().position(|name| name == model);
        at.ok_or_else(|| invalid(&given, &format!("the models are {}", names.join(", "))))
    };
    let mut adapters: Vec<(usize, &str, PathBuf)> = Vec::new();
    for given in &args.lora {
        let (own, folder) = given.split_once('=').ok_or_else(|| invalid(&format!("--lora {given}"), "give NAME=FOLDER"))?;
        let (model, adapter) = own.rsplit_once(':').unwrap_or((&names[0], own));
        adapters.push((find(format!("--lora {given}"), model)?, adapter, PathBuf::from(folder)));
    }
    let most = (0..names.len()).map(|index| adapters.iter().filter(|(at, ..)| *at == index).count()).max().unwrap_or(0);
    let loading = Loading::new(args, u32::try_from(most).unwrap_or(u32::MAX))?;
    let mut sources = Vec::with_capacity(all.len());
    for ((model, name), purpose) in all.iter().zip(&names).zip(purposes) {
        let mut loading = loading.clone();
        (loading.tokenizer, loading.template) = (args.tokenizer.clone(), args.template.clone());
        loading.draft = args.draft.clone();
        loading.prompt_lookup = args.prompt_lookup;
        sources.push(loading.source(*model, name, purpose)?);
    }
    for alias in &args.alias {
        let (alias, model) = alias.split_once('=').unwrap_or((alias, &names[0]));
        let at = find(format!("--alias {alias}={model}"), model)?;
        sources[at] = sources[at].clone().with_alias(alias);
    }
    for (at, adapter, folder) in adapters {
        sources[at] = sources[at].clone().with_adapter(adapter, folder);
    }
    Ok(sources)
}

/// The models for text and those for embeddings; `None` is the bundled one.
fn models(args: &Serve) -> (Vec<Option<&PathBuf>>, Vec<Option<&PathBuf>>) {
    fn given(path: &PathBuf) -> Option<&PathBuf> {
        (path.as_os_str() != BUNDLED || path.exists()).then_some(path)
    }
    let [texts, embedded]: [Vec<_>; 2] = [&args.models, &args.embed].map(|paths| paths.iter().map(given).collect());
    if texts.is_empty() && embedded.is_empty() { (vec![None], embedded) } else { (texts, embedded) }
}

fn model_name(model: Option<&PathBuf>) -> String {
    model.map_or(BUNDLED.to_owned(), |path| name(path))
}

/// The name of a model: that of its folder, of its file, or OWNER/NAME.
pub(super) fn name(path: &Path) -> String {
    let shown = match path.extension().is_some_and(|extension| extension == "pte") {
        true => path.file_stem().map(Path::new),
        false if path.exists() => path.file_name().map(Path::new),
        false => None,
    };
    shown.unwrap_or(path).display().to_string()
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    text: bool,
    embeddings: bool,
}

impl Purpose {
    pub(super) const TEXT: Self = Self { text: true, embeddings: false };
    const EMBEDDINGS: Self = Self { text: false, embeddings: true };
}

/// How models are loaded.
#[derive(Clone, Debug)]
pub(super) struct Loading {
    tokenizer: Option<PathBuf>,
    template: Option<PathBuf>,
    draft: Option<PathBuf>,
    prompt_lookup: bool,
    kv: KvArgs,
    gpu: GpuArgs,
    memory: Option<u64>,
    /// The number of models among which the memory of the device is divided.
    models: usize,
    queue: usize,
    sequences: Option<u32>,
    adapters: Option<AdapterOptions>,
    pooling: Option<Pooling>,
    truncatable: bool,
    quiet: bool,
}

impl Loading {
    /// The options of the command line, with room for at least this many adapters.
    pub(super) fn new(args: &Serve, adapters: u32) -> Result<Self, Failure> {
        // An adapter that cannot be read ends the command at once, not after its model is loaded.
        let folders = args.lora.iter().filter_map(|given| given.split_once('='));
        let ranks = folders.map(|(_, folder)| Ok(read_adapter(Path::new(folder))?.rank()));
        let ranks: Vec<u32> = ranks.collect::<Result<_, Failure>>()?;
        let slots = args.max_loras.unwrap_or(0).max(adapters);
        let max_rank = ranks.into_iter().max().unwrap_or(0).max(USUAL_RANK);
        let max_rank = args.max_lora_rank.unwrap_or(max_rank);
        Ok(Self {
            tokenizer: None,
            template: None,
            draft: None,
            prompt_lookup: false,
            kv: args.kv.clone(),
            gpu: args.gpu.clone(),
            memory: args.memory.map(|mib| mib.saturating_mul(1 << 20)),
            models: args.models.len() + args.embed.len(),
            queue: args.max_queue,
            sequences: args.max_sequences,
            adapters: (slots > 0).then_some(AdapterOptions { slots, max_rank, projections: Projections::ALL }),
            pooling: args.pooling.map(|pooling| match pooling {
                args::Pooling::Last => Pooling::Last,
                args::Pooling::Mean => Pooling::Mean,
                args::Pooling::First => Pooling::First,
            }),
            truncatable: args.matryoshka,
            quiet: args.log != Log::Text,
        })
    }

    /// A model by its path or OWNER/NAME; the bundled one without.
    pub(super) fn source(&self, path: Option<&PathBuf>, name: &str, purpose: Purpose) -> Result<ModelSource, Failure> {
        let path = path.map(|path| if path.is_dir() { only_program(path) } else { Ok(path.clone()) }).transpose()?;
        let model = ModelArgs {
            model: path,
            tokenizer: self.tokenizer.clone(),
            template: self.template.clone(),
            data: Vec::new(),
            context_length: None,
            bos_id: None,
            eos_ids: Vec::new(),
            kv_cache: false,
            kv: self.kv.clone(),
            gpu: self.gpu.clone(),
        };
        // A file that is missing or damaged ends the command at once, not after the first request.
        self.draft_program()?;
        let (program, ..) = generate::sources(&model, false)?;
        // An encoder makes embeddings and nothing else.
        let method = ModelOptions::default().method;
        let is_decoder = PartialMetadata::from_signature(&program, &method).is_ok();
        let purpose = if is_decoder { purpose } else { Purpose::EMBEDDINGS };
        let own = self.clone();
        Ok(ModelSource::new(name, move || {
            let embedder = purpose.embeddings.then(|| own.load_embedder(&model)).transpose();
            let embedder = embedder.map_err(|failure| failure.to_string())?.map(EmbedderBackend::new).transpose()?;
            let embedder = embedder.map(|embedder| embedder.with_truncatable(own.truncatable));
            let engine = purpose.text.then(|| own.load(&model)).transpose().map_err(|failure| failure.to_string())?;
            let backend = match (engine, embedder) {
                (Some(engine), Some(embedder)) => EngineBackend::new(engine)?.with_embedder(embedder),
                (Some(engine), None) => EngineBackend::new(engine)?,
                (None, Some(embedder)) => return Ok(Arc::new(embedder) as _),
                (None, None) => return Err("the model is for nothing".to_owned()),
            };
            let read = |folder: &Path| pteron_convert::open_adapter(folder).map_err(|error| error.to_string());
            Ok(Arc::new(backend.with_adapter_reader(read)) as _)
        }))
    }

    fn load(&self, model: &ModelArgs) -> Result<Engine, Failure> {
        let (program, assets, _) = generate::sources(model, false)?;
        let gpu = devices::open(&model.gpu, self.quiet)?;
        let tuning = tune::remembered(&gpu, &program, true).unwrap_or_default();
        let options = EngineOptions::default()
            .with_model(model_options(model, tuning))
            .with_max_queue(self.queue)
            .with_max_sequences(self.sequences)
            .with_adapters(self.adapters)
            .with_speculation(if self.prompt_lookup { DraftSource::PromptLookup } else { DraftSource::None })
            .with_draft_model(self.draft_program()?)
            .with_memory_budget(self.memory.or_else(|| share(&gpu, self.models)));
        Ok(block_on(Engine::load(&gpu, &program, assets, options))?)
    }

    fn draft_program(&self) -> Result<Option<Program>, Failure> {
        let Some(path) = &self.draft else { return Ok(None) };
        let path = if path.is_dir() { only_program(path)? } else { path.clone() };
        Ok(Some(generate::program(&path)?))
    }

    fn load_embedder(&self, model: &ModelArgs) -> Result<Embedder, Failure> {
        let (program, assets, _) = generate::sources(model, false)?;
        let gpu = devices::open(&model.gpu, self.quiet)?;
        let tuning = tune::remembered(&gpu, &program, true).unwrap_or_default();
        let mut options = model_options(model, tuning);
        options.memory_budget = self.memory.or_else(|| share(&gpu, self.models));
        let options = EmbedderOptions::default().with_model(options).with_pooling(self.pooling);
        Ok(block_on(Embedder::load(&gpu, &program, assets, options))?)
    }
}

fn model_options(model: &ModelArgs, tuning: pteron::Tuning) -> ModelOptions {
    ModelOptions::default().with_metadata(generate::flags(model)).with_kv_dtype(model.kv.dtype()).with_tuning(tuning)
}

fn read_adapter(folder: &Path) -> Result<pteron::LoraAdapter, Failure> {
    let fail = |error| invalid(&format!("--lora {}", folder.display()), &format!("{error}"));
    pteron_convert::open_adapter(folder).map_err(fail)
}

/// The only program of a folder.
fn only_program(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut programs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pte") && path.is_file());
    match (programs.next(), programs.count()) {
        (Some(program), 0) => Ok(program),
        (found, others) => {
            let found = others + usize::from(found.is_some());
            Err(pteron_llm::Error::File {
                path: folder.to_owned(),
                source: Box::new(pteron_llm::Error::AmbiguousFolder { found }),
            }
            .into())
        }
    }
}

/// The memory of each of several models, where the device's is known. One model has what the engine takes by itself.
fn share(gpu: &Gpu, models: usize) -> Option<u64> {
    let parts = u64::try_from(models).ok().filter(|models| *models > 1)?;
    gpu.adapter().memory_bytes.map(|bytes| bytes / 8 * 7 / parts)
}
