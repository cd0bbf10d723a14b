//! HTTP server of a session's figures on the loopback interface: `/metrics` for a monitoring system, `/healthz` for a
//! supervisor. It answers GET only, and no web page: neither another origin nor a name that resolves to this machine.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::prometheus_text;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::metrics::Metrics;

/// Timeout for the request's head.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for a whole connection, idle times included.
const CONNECTION: Duration = Duration::from_secs(60);
/// Maximum number of connections; others wait.
const CONNECTIONS: usize = 8;
/// Pause after an error of the listener, such as no free descriptor.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum size of a request's head, in bytes. hyper takes no less.
const MAX_HEAD: usize = 8 << 10;

/// Listener of the figures on 127.0.0.1.
#[derive(Debug)]
pub struct MetricsListener(TcpListener);

impl MetricsListener {
    /// Listens on 127.0.0.1 at `port`; with 0, the system chooses a port. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The operating system's error, such as a port in use.
    pub async fn bind(port: u16) -> std::io::Result<Self> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map(Self)
    }

    /// Address that it listens on.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self, metrics: Metrics) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            let stream = match self.0.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a reader of the metrics could not connect");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let metrics = metrics.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics))));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .max_buf_size(MAX_HEAD)
                    .serve_connection(TokioIo::new(stream), answer);
                let _late = timeout(CONNECTION, connection).await;
                drop(slot);
            });
        }
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    if request.headers().contains_key(ORIGIN) || !is_local(request.headers().get(HOST)) {
        return response(StatusCode::FORBIDDEN, "not for web pages: use http://127.0.0.1\n".to_owned());
    }
    if request.method() != Method::GET {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => match metrics.to_text() {
            Ok(text) => response(StatusCode::OK, text),
            Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" => match metrics.faults() {
            faults if faults.is_empty() => response(StatusCode::OK, "ok\n".to_owned()),
            faults => response(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", faults.join("\n"))),
        },
        _ => response(StatusCode::NOT_FOUND, "/metrics or /healthz\n".to_owned()),
    }
}

/// True for a `Host` header of this machine's own loopback names.
fn is_local(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    matches!(name.map_or(host, |(name, _)| name), "127.0.0.1" | "localhost")
}

fn response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(prometheus_text::CONTENT_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
