//! Metrics server: serves all metrics to Prometheus, in its text format (OpenMetrics), over HTTP,
//! and reports of the offload of flows as JSON.
//! docs/reference/metrics.md describes each metric.
//!
//! A scrape sends a request to the control loop of each device, or of the switch that hosts them.
//! The control loop answers between two of its turns from published counters. Workers are not
//! interrupted.

mod families;
mod offload;
mod pof;
mod snapshot;
mod vpdps;

use std::convert::Infallible;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use offload_runtime::{Driver, OffloadHandle};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};

use crate::RuntimeError;
use crate::control_loop::SampleRequest;
use crate::cpu_port::ControllerChannel;
use families::Collector;
pub use snapshot::PofSample;
pub(crate) use snapshot::{MetricsSnapshot, SwitchShot, VpdpShot};

/// Time limit for an answer. A device that exceeds it has ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of concurrent connections. Further ones wait.
const MAX_CONNECTIONS: usize = 16;

/// Source of the served metrics: the control loop of a device, or of a switch that hosts virtual
/// data planes.
pub struct MetricsSource {
    source: Source,
    /// Number of the device, and handle to its offload.
    offload: Option<(u64, OffloadHandle)>,
}

/// Kind of a source.
pub(crate) enum Source {
    Device {
        id: u64,
        ask: Sender<SampleRequest>,
        /// Handle to the P4Runtime server, if controllers are served.
        server: Option<ControllerChannel>,
    },
    /// A switch that hosts virtual data planes.
    Host(Sender<MetricsRequest>),
    Pof {
        id: u64,
        ask: Sender<oneshot::Sender<PofSample>>,
    },
}

/// Queue of the requests for the metrics of a POF switch.
pub struct PofSampleQueue(Receiver<oneshot::Sender<PofSample>>);

impl PofSampleQueue {
    /// Answers all requests that wait.
    pub fn answer(&self, mut sample: impl FnMut() -> PofSample) {
        while let Ok(ask) = self.0.try_recv() {
            // The requester may have gone.
            let _ = ask.send(sample());
        }
    }
}

impl MetricsSource {
    pub(crate) fn new(source: Source, offload: Option<(u64, OffloadHandle)>) -> MetricsSource {
        MetricsSource { source, offload }
    }

    /// Creates the source of a POF switch with this number, and the queue of requests that its loop
    /// answers now and then.
    pub fn of_pof(id: u64, offload: Option<OffloadHandle>) -> (MetricsSource, PofSampleQueue) {
        let (ask, asked) = channel();
        let source = MetricsSource {
            source: Source::Pof { id, ask },
            offload: offload.map(|offload| (id, offload)),
        };
        (source, PofSampleQueue(asked))
    }

    async fn shots(&self) -> Vec<MetricsSnapshot> {
        let mut shots = self.shots_of_switch().await;
        if let Some((_, stats)) = self.of_offload(Driver::stats).await
            && let Some(shot) = shots.first_mut()
        {
            shot.offload = Some(stats);
        }
        shots
    }

    /// Returns the number of the device and a part of its report. `None` if it has no offload, or
    /// has ended.
    async fn of_offload<T: Send + 'static>(&self, part: fn(&Driver) -> T) -> Option<(u64, T)> {
        let (id, offload) = self.offload.as_ref()?;
        let (ask, answer) = oneshot::channel();
        // The requester waits for a limited time.
        offload.request(move |driver| drop(ask.send(part(driver))));
        let report = tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()?;
        Some((*id, report))
    }

    async fn shots_of_switch(&self) -> Vec<MetricsSnapshot> {
        match &self.source {
            Source::Device { id, ask, server } => {
                let sample = answer_to(ask).await;
                let control = || server.as_ref().map(ControllerChannel::figures);
                let shot = sample.map(|sample| MetricsSnapshot::of_device(*id, sample, control()));
                shot.into_iter().collect()
            }
            Source::Host(ask) => answer_to(ask).await.unwrap_or_default(),
            Source::Pof { id, ask } => {
                let sample = answer_to(ask).await;
                let shot = sample.map(|sample| MetricsSnapshot::of_pof(*id, sample));
                shot.into_iter().collect()
            }
        }
    }
}

/// Returns the answer of a control loop. `None` if it has ended.
async fn answer_to<T>(office: &Sender<oneshot::Sender<T>>) -> Option<T> {
    let (ask, answer) = oneshot::channel();
    office.send(ask).ok()?;
    tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
}

/// Request for all metrics of a switch with virtual data planes, with its reply channel.
pub(crate) type MetricsRequest = oneshot::Sender<Vec<MetricsSnapshot>>;

/// A metrics server. It stops when it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Checks that the address is a loopback address. Must be called before ports are opened.
    ///
    /// # Errors
    /// Other machines can reach the address.
    pub fn check(address: Option<SocketAddr>) -> Result<(), RuntimeError> {
        match address {
            Some(address) if !address.ip().is_loopback() => {
                Err(RuntimeError::MetricsReachable(address))
            }
            _ => Ok(()),
        }
    }

    /// Returns the address, with the port that the system chose if none was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves at a loopback address, on a separate thread.
    ///
    /// # Errors
    /// The address is not available, or is not a loopback address.
    pub fn start(
        address: SocketAddr,
        sources: Vec<MetricsSource>,
    ) -> Result<MetricsServer, RuntimeError> {
        MetricsServer::check(Some(address))?;
        let io = |error| RuntimeError::Metrics { address, error };
        let listener = TcpListener::bind(address).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let bound = listener.local_addr().map_err(io)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(io)?;
        let sources: Arc<[MetricsSource]> = sources.into();
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            tokio::select! {
                () = accept(listener, sources) => {}
                _ = stopped => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || runtime.block_on(serve))
            .map_err(io)?;
        Ok(MetricsServer {
            address: bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Fails if the server has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, sources: Arc<[MetricsSource]>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let sources = Arc::clone(&sources);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &sources));
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // An error means that the client has closed the connection.
            let _ = served.await;
            drop(place);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    sources: &[MetricsSource],
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match metrics(sources).await {
            Ok(body) => (StatusCode::OK, OPEN_METRICS, body),
            Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, String::new()),
        },
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET it\n".to_owned()),
        (&Method::GET, path) => match offload(sources, path).await {
            Some(body) => (StatusCode::OK, JSON, body),
            None => (StatusCode::NOT_FOUND, PLAIN, NOT_FOUND.to_owned()),
        },
        _ => (StatusCode::NOT_FOUND, PLAIN, NOT_FOUND.to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const NOT_FOUND: &str = "see /metrics, and of a switch with --offload also /offload/flows, /offload/stats and /offload/placement\n";

/// Returns the reports of all devices at a path, as a JSON array. `None` if there is no such path,
/// or no device with offload.
async fn offload(sources: &[MetricsSource], path: &str) -> Option<String> {
    let part: fn(&Driver) -> serde_json::Result<Value> = match path {
        "/offload/flows" => |driver| serde_json::to_value(driver.flows()),
        "/offload/stats" => |driver| serde_json::to_value(driver.stats()),
        "/offload/placement" => |driver| serde_json::to_value(driver.placement()),
        _ => return None,
    };
    let mut devices = Vec::new();
    for source in sources {
        if let Some((id, report)) = source.of_offload(part).await {
            devices.push(json!({ "device": id, "report": report.ok()? }));
        }
    }
    (!devices.is_empty()).then(|| Value::Array(devices).to_string())
}

async fn metrics(sources: &[MetricsSource]) -> Result<String, fmt::Error> {
    let mut shots = Vec::new();
    for source in sources {
        shots.extend(source.shots().await);
    }
    let mut registry = Registry::with_prefix("polyplane");
    registry.register_collector(Box::new(Collector(shots)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}
