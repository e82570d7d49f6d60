//! What all requests share.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Body;
use axum::http::{Request, header};
use bytes::BytesMut;
use futures_core::Stream;
use pteron_format::EscapedText;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::BackendError;
use crate::error::{ApiError, ServerError};
use crate::fields::{self, Fields};
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::slot::{LoadedModel, ModelSource, Slot};

/// More requests at once than any machine has memory for.
const MAX_REQUESTS: usize = 1 << 20;

/// The state of a server.
pub(crate) struct App {
    /// Models are added, never removed.
    slots: RwLock<Vec<Arc<Slot>>>,
    pub(crate) options: ServerOptions,
    pub(crate) metrics: Metrics,
    /// A permit per request that generates or waits.
    active: Arc<Semaphore>,
    /// A permit per thread that tokenizes.
    tokenizing: Arc<Semaphore>,
    draining: AtomicBool,
}

/// The model that a request names, as it is or with an adapter.
pub(crate) struct Target {
    pub(crate) slot: Arc<Slot>,
    pub(crate) adapter: Option<String>,
}

impl Target {
    /// The name that answers have.
    pub(crate) fn name(&self) -> &str {
        self.adapter.as_deref().unwrap_or(&self.slot.source.name)
    }
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) key: u64,
}

impl App {
    pub(crate) fn new(sources: Vec<ModelSource>, mut options: ServerOptions) -> Result<Self, ServerError> {
        let mut names: Vec<&str> = Vec::new();
        for name in sources.iter().flat_map(ModelSource::names) {
            if names.contains(&name) {
                return Err(ServerError::SameName(name.to_owned()));
            }
            names.push(name);
        }
        if sources.is_empty() {
            return Err(ServerError::NoModel);
        }
        options.limits.requests = options.limits.requests.clamp(1, MAX_REQUESTS);
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(Self {
            slots: RwLock::new(sources.into_iter().map(|source| Arc::new(Slot::new(source, options.log.clone()))).collect()),
            active: Arc::new(Semaphore::new(options.limits.requests)),
            tokenizing: Arc::new(Semaphore::new(threads)),
            metrics: Metrics::default(),
            draining: AtomicBool::new(false),
            options,
        })
    }

    /// The models, loaded or not.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds the model of a request. Without a name it is the first one.
    pub(crate) fn target(&self, fields: &Fields<'_>) -> Result<Target, ApiError> {
        self.target_named(fields.string("model")?)
    }

    pub(crate) fn target_named(&self, name: Option<&str>) -> Result<Target, ApiError> {
        let slots = self.slots();
        let Some(name) = name else {
            let first = slots.into_iter().next().ok_or_else(|| ApiError::unknown_model("", &[]))?;
            return Ok(Target { slot: first, adapter: None });
        };
        if let Some(slot) = slots.iter().find(|slot| slot.source.model_names().any(|own| own == name)) {
            return Ok(Target { slot: Arc::clone(slot), adapter: None });
        }
        if let Some(slot) = slots.iter().find(|slot| slot.has_adapter(name)) {
            return Ok(Target { slot: Arc::clone(slot), adapter: Some(name.to_owned()) });
        }
        let adapters = slots.iter().flat_map(|slot| slot.adapters()).map(|adapter| adapter.name);
        let known: Vec<String> = slots.iter().map(|slot| slot.source.name.clone()).chain(adapters).collect();
        Err(ApiError::unknown_model(name, &known))
    }

    /// Adds a model, unless another one has one of its names by now.
    pub(crate) fn add(&self, source: ModelSource) -> Result<Arc<Slot>, ApiError> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let is_taken =
            |name: &str| slots.iter().any(|slot| slot.source.names().any(|own| own == name) || slot.has_adapter(name));
        if let Some(name) = source.names().find(|name| is_taken(name)) {
            return Err(ApiError::invalid("model", format_args!("is called {:?}, as another one", EscapedText::name(name))));
        }
        let slot = Arc::new(Slot::new(source, self.options.log.clone()));
        slots.push(Arc::clone(&slot));
        Ok(slot)
    }

    /// Admits a request that generates, or says that there are too many.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        if self.is_draining() {
            return Err(BackendError::Draining.into());
        }
        Arc::clone(&self.active).try_acquire_owned().map_err(|_| {
            let most = self.options.limits.requests;
            ApiError::busy(format!("{most} requests run or wait, which is all that this server takes at once"))
        })
    }

    /// The number of requests that generate or wait.
    pub(crate) fn active(&self) -> usize {
        self.options.limits.requests.saturating_sub(self.active.available_permits())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Accepts no further requests; those that were accepted go on.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Returns when no request generates any more.
    pub(crate) async fn wait_idle(&self) {
        let all = u32::try_from(self.options.limits.requests).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.active.acquire_many(all).await;
    }

    /// Whether a model is loaded, none is being loaded, and new requests are accepted.
    pub(crate) fn is_ready(&self) -> bool {
        let slots = self.slots();
        !self.is_draining() && slots.iter().any(|slot| slot.is_loaded()) && !slots.iter().any(|slot| slot.is_loading())
    }

    /// Runs work of the processor on a thread for it. Few run at once, so that a flood of long prompts waits for its turn and not for
    /// memory.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        model: &Arc<LoadedModel>,
        work: impl FnOnce(&LoadedModel) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let model = Arc::clone(model);
        let permit = Arc::clone(&self.tokenizing).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&model)
        });
        done.await.unwrap_or_else(|_| Err(ApiError::internal("the prompt could not be prepared")))
    }

    /// Reads the JSON of a request.
    pub(crate) async fn read_json(&self, request: Request<Body>) -> Result<Value, ApiError> {
        let limits = &self.options.limits;
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > limits.body)) {
            return Err(ApiError::too_large(limits.body));
        }
        let read = read_bounded(request.into_body(), limits.body);
        let bytes = tokio::time::timeout(limits.arrival, read).await.map_err(|_| ApiError::too_slow())??;
        fields::parse(&bytes)
    }
}

async fn read_bounded(body: Body, limit: usize) -> Result<BytesMut, ApiError> {
    let mut stream = pin!(body.into_data_stream());
    let mut bytes = BytesMut::new();
    while let Some(chunk) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        let chunk = chunk.map_err(|_| ApiError::bad_request("the request ended before it was complete"))?;
        if bytes.len() + chunk.len() > limit {
            return Err(ApiError::too_large(limit));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
