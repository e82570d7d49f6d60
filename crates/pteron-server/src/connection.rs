//! Connections: accepted, bounded in number and in time, and closed when the server stops.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use crate::options::Limits;

/// Bytes of the head of a request.
const MAX_HEAD: usize = 64 << 10;
/// Pause after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How bytes travel.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain,
    #[cfg(feature = "tls")]
    Tls(tokio_rustls::TlsAcceptor),
}

/// Accepts connections until `stop` changes. Returns the connections that are open then; each ends after the answer it is writing.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    transport: Transport,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let permits = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let connection_stop = stop.clone();
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = stop.changed() => return connections,
        };
        // Those that have ended are let go.
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let (router, transport, stop) = (router.clone(), transport.clone(), connection_stop.clone());
        connections.spawn(async move {
            let _permit = permit;
            serve(stream, router, transport, limits, stop).await;
        });
    }
}

async fn serve(stream: TcpStream, router: Router, transport: Transport, limits: Limits, stop: watch::Receiver<bool>) {
    // Tokens are small, and wait for nothing.
    let _ = stream.set_nodelay(true);
    match transport {
        Transport::Plain => serve_http(stream, router, limits, stop).await,
        #[cfg(feature = "tls")]
        Transport::Tls(acceptor) => {
            let handshake = tokio::time::timeout(limits.arrival, acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = handshake {
                serve_http(stream, router, limits, stop).await;
            }
        }
    }
}

async fn serve_http<S>(stream: S, router: Router, limits: Limits, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = TokioIo::new(WriteTimeout::new(stream, limits.stalled));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.arrival).max_buf_size(MAX_HEAD);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(stream, service));
    // A connection that fails has no one to tell.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// A stream on which a write fails that the other side does not take in time.
struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<S> WriteTimeout<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, deadline: Box::pin(sleep(limit)), waiting: false }
    }

    /// Starts, checks or forgets the deadline, by what a write has returned.
    fn check<T>(&mut self, result: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waiting = false;
            return result;
        }
        if !std::mem::replace(&mut self.waiting, true) {
            self.deadline.as_mut().reset(Instant::now() + self.limit);
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(shut, context)
    }
}

/// Reads a certificate and a key.
#[cfg(feature = "tls")]
pub(crate) fn transport(tls: Option<&crate::options::Tls>) -> Result<Transport, crate::error::ServerError> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use crate::error::ServerError;

    let Some(tls) = tls else { return Ok(Transport::Plain) };
    let fail = |what: &str, error: &dyn std::fmt::Display| ServerError::Tls(format!("{what}: {error}"));
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&tls.certificates)
        .collect::<Result<_, _>>()
        .map_err(|error| fail("the certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|error| fail("the key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fail("the protocol", &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| fail("the certificate and the key", &error))?;
    Ok(Transport::Tls(Arc::new(config).into()))
}

/// Without TLS, a certificate is an error.
#[cfg(not(feature = "tls"))]
pub(crate) fn transport(tls: Option<&crate::options::Tls>) -> Result<Transport, crate::error::ServerError> {
    match tls {
        Some(_) => Err(crate::error::ServerError::Tls("this server was built without it".to_owned())),
        None => Ok(Transport::Plain),
    }
}

/// Waits for connections to end, and ends those that do not.
pub(crate) async fn close(mut connections: JoinSet<()>, timeout: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(timeout, all).await.is_err() {
        connections.shutdown().await;
    }
}
