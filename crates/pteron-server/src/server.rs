//! The server: loads models, listens, and stops without losing what runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{self, Transport};
use crate::error::ServerError;
use crate::options::ServerOptions;
use crate::router;
use crate::slot::ModelSource;
use crate::state::App;

/// How often a signal is looked for.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// The time in which connections close after the last answer.
const CLOSE: Duration = Duration::from_secs(2);

/// A server of models.
pub struct Server {
    app: Arc<App>,
    router: Router,
    transport: Transport,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("options", &self.app.options).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server. Nothing is loaded yet.
    ///
    /// # Errors
    /// There is no model, two of them have one name, or an option is invalid.
    pub fn new(models: Vec<ModelSource>, options: ServerOptions) -> Result<Self, ServerError> {
        let app = Arc::new(App::new(models, options)?);
        let transport = connection::transport(app.options.tls.as_ref())?;
        Ok(Self { router: router::router(&app)?, app, transport })
    }

    /// The service, for a program with a listener of its own. [`load`](Self::load) loads the models.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Loads the models, one after another. Blocks.
    ///
    /// # Errors
    /// The first model that cannot be loaded.
    pub fn load(&self) -> Result<(), ServerError> {
        load(&self.app)
    }

    /// Accepts no further requests that generate; those that were accepted go on.
    pub fn drain(&self) {
        self.app.begin_drain();
    }

    /// Listens, loads the models, and serves until `stop` returns true. Then requests that run are finished, within the drain timeout.
    /// `on_listening` gets the address; `stop` is asked some times per second.
    ///
    /// # Errors
    /// The address cannot be bound, or a model cannot be loaded.
    pub fn run(
        &self,
        address: &str,
        on_listening: impl FnOnce(SocketAddr),
        stop: impl Fn() -> bool,
    ) -> Result<(), ServerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("server").build();
        let runtime = runtime.map_err(ServerError::Runtime)?;
        let result = runtime.block_on(self.serve(address, on_listening, stop));
        // A thread that tokenizes or loads is not waited for.
        runtime.shutdown_background();
        result
    }

    async fn serve(
        &self,
        address: &str,
        on_listening: impl FnOnce(SocketAddr),
        stop: impl Fn() -> bool,
    ) -> Result<(), ServerError> {
        let fail = |source| ServerError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        on_listening(listener.local_addr().map_err(fail)?);
        let (close, closed) = watch::channel(false);
        let accepting = connection::accept(listener, self.router(), self.transport.clone(), self.app.options.limits, closed);
        let accepting = tokio::spawn(accepting);

        let stopped = async {
            while !stop() {
                sleep(SIGNAL_INTERVAL).await;
            }
        };
        let mut loaded = self.start_loading()?;
        let failed = async {
            match loaded.recv().await {
                Some(Err(error)) => error,
                // All are loaded; nothing follows.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopped => {}
            error = failed => return Err(error),
        }
        self.finish().await;
        // The receivers are alive as long as their tasks.
        let _ = close.send(true);
        if let Ok(connections) = accepting.await {
            connection::close(connections, CLOSE).await;
        }
        self.app.options.log.event("stopped", &[]);
        Ok(())
    }

    /// Loads the models on a thread, which reports how it ended.
    fn start_loading(&self) -> Result<mpsc::Receiver<Result<(), ServerError>>, ServerError> {
        let (done, loaded) = mpsc::channel(1);
        let app = Arc::clone(&self.app);
        let thread = move || {
            // Nobody listens any more when the server has stopped.
            let _ = done.blocking_send(load(&app));
        };
        std::thread::Builder::new().name("load".to_owned()).spawn(thread).map_err(ServerError::Runtime)?;
        Ok(loaded)
    }

    /// Waits for the requests that run.
    async fn finish(&self) {
        let started = Instant::now();
        self.app.begin_drain();
        self.app.options.log.event("draining", &[("active", Value::from(self.app.active()))]);
        if timeout(self.app.options.drain_timeout, self.app.wait_idle()).await.is_err() {
            let left = [("active", Value::from(self.app.active())), ("seconds", started.elapsed().as_secs_f64().into())];
            self.app.options.log.event("requests were cut off", &left);
        }
        for slot in self.app.slots() {
            slot.stop();
        }
    }
}

fn load(app: &App) -> Result<(), ServerError> {
    for slot in app.slots() {
        slot.load().map_err(|reason| ServerError::Load { model: slot.source.name.clone(), reason })?;
    }
    Ok(())
}
