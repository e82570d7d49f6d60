//! Opens a model, from files or the bundled one, and loads it on a GPU.

use std::path::Path;
use std::time::{Duration, Instant};

use pteron::{Gpu, Program, block_on};
use pteron_llm::{AssetPaths, Engine, EngineOptions, Model, ModelAssets, ModelOptions, PartialMetadata};

use super::bundled;
use crate::cli::ModelArgs;
use crate::failure::Failure;
use crate::loading::LoadingBar;
use crate::models::{self, Located};
use crate::{devices, files, tune};

/// A loaded model with its chat template.
pub(super) struct OpenedModel {
    pub(super) model: Model,
    pub(super) gpu: Gpu,
    pub(super) loading: Duration,
}

/// Opens a model. One whose prompt is `token_ids` needs no tokenizer.
pub(super) fn open(args: &ModelArgs, token_ids: bool, quiet: bool) -> Result<OpenedModel, Failure> {
    let start = Instant::now();
    let (program, assets, name) = sources(args, token_ids)?;
    let gpu = devices::open(&args.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &program, quiet).unwrap_or_default();
    let bar = LoadingBar::new(&format!("loading {name} on {}", gpu.adapter().name), quiet);
    let options = ModelOptions::default()
        .with_metadata(flags(args))
        .with_progress(bar.listener())
        .with_kv_dtype(args.kv.dtype())
        .with_tuning(tuning);
    let model = block_on(Model::load(&gpu, &program, assets, &options));
    drop(bar);
    Ok(OpenedModel { model: model?, gpu, loading: start.elapsed() })
}

/// Opens a model for many texts at once. One whose prompts are all `token_ids` needs no tokenizer.
pub(super) fn open_engine(
    args: &ModelArgs,
    token_ids: bool,
    quiet: bool,
    options: EngineOptions,
) -> Result<Engine, Failure> {
    let (program, assets, name) = sources(args, token_ids)?;
    let gpu = devices::open(&args.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &program, quiet).unwrap_or_default();
    let bar = LoadingBar::new(&format!("loading {name} on {}", gpu.adapter().name), quiet);
    let model = ModelOptions::default()
        .with_metadata(flags(args))
        .with_progress(bar.listener())
        .with_kv_dtype(args.kv.dtype())
        .with_tuning(tuning);
    let engine = block_on(Engine::load(&gpu, &program, assets, options.with_model(model)));
    drop(bar);
    Ok(engine?)
}

/// Loads the bundled model as `pteron run` does, without a progress bar.
pub(crate) fn load_bundled(gpu: &Gpu) -> Result<Model, Failure> {
    let (program, tokenizer) = bundled::open()?;
    let tuning = tune::remembered(gpu, &program, true).unwrap_or_default();
    Ok(block_on(Model::load(gpu, &program, tokenizer, &ModelOptions::default().with_tuning(tuning)))?)
}

/// Opens the program and reads the files that belong to it. Returns its name for messages, too.
pub(crate) fn sources(args: &ModelArgs, token_ids: bool) -> Result<(Program, ModelAssets, String), Failure> {
    let Some(model) = &args.model else {
        let (program, tokenizer) = bundled::open()?;
        return Ok((program, asset_paths(args, None).read_onto(tokenizer.into())?, bundled::NAME.to_owned()));
    };
    let located = models::locate(model)?;
    let path = &located.program;
    let pte = files::open_program(path)?;
    let data = if args.data.is_empty() { &located.data } else { &args.data };
    let data = data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    let program = Program::from_files(pte, data).map_err(|error| Failure::file(path, error))?;
    let mut paths = asset_paths(args, Some(&located));
    let assets = if token_ids && paths.tokenizer.is_none() {
        // It names tokens of the tokenizer that is not there.
        paths.tokenizer_config = None;
        paths.read_onto(ModelAssets::ids_only())?
    } else {
        paths.read()?
    };
    Ok((program, assets, model.display().to_string()))
}

/// Opens a program alone.
pub(crate) fn program(path: &Path) -> Result<Program, Failure> {
    let located = models::locate(path)?;
    let pte = files::open_program(&located.program)?;
    let data = located.data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    Program::from_files(pte, data).map_err(|error| Failure::file(&located.program, error))
}

/// The files that belong to a program.
fn beside(located: &Located) -> AssetPaths {
    match &located.top {
        Some(top) => AssetPaths::beside_or_above(&located.program, top),
        None => AssetPaths::beside(&located.program),
    }
}

/// The files in the model's folder, and those that flags name instead.
fn asset_paths(args: &ModelArgs, located: Option<&Located>) -> AssetPaths {
    let mut paths = located.map(beside).unwrap_or_default();
    paths.tokenizer = args.tokenizer.clone().or(paths.tokenizer);
    paths.chat_template = args.template.clone().or(paths.chat_template);
    paths
}

/// Reads `pteron.json` in the model's folder, if it exists.
pub(crate) fn sidecar(model: Option<&Located>) -> Result<PartialMetadata, Failure> {
    Ok(model.map(beside).unwrap_or_default().read_sidecar()?)
}

/// The metadata that flags state.
pub(crate) fn flags(args: &ModelArgs) -> PartialMetadata {
    PartialMetadata::default()
        .with_context_length(args.context_length)
        .with_kv_cache(args.kv_cache.then_some(true))
        .with_bos_id(args.bos_id)
        .with_eos_ids((!args.eos_ids.is_empty()).then(|| args.eos_ids.clone()))
}
