//! `--metrics`: all figures for Prometheus, in its text format (OpenMetrics), by HTTP. docs/METRICS.md tells what each means.
//!
//! A scrape asks the office of each device, which answers between two rounds of its own from cells that it reads: no worker hears of it.

use std::convert::Infallible;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use p4rt::{Figures, LATENCY_MICROS};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};

use crate::control::Desk;
use crate::forward::{Ask, Sample};

/// A device that does not answer in this time has ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connections at a time; the next one waits.
const MOST_CONNECTIONS: usize = 16;

/// A device whose figures are served.
pub(crate) struct Subject {
    id: u64,
    ask: Sender<Ask>,
    desk: Option<Desk>,
}

impl Subject {
    pub(crate) fn new(id: u64, ask: Sender<Ask>, desk: Option<Desk>) -> Subject {
        Subject { id, ask, desk }
    }

    async fn sample(&self) -> Option<Shot> {
        let (ask, answer) = oneshot::channel();
        self.ask.send(ask).ok()?;
        let sample = tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()?;
        Some(Shot {
            device: self.id,
            sample,
            control: self.desk.as_ref().map(Desk::figures),
        })
    }
}

/// The figures of one device at one time.
#[derive(Debug)]
struct Shot {
    device: u64,
    sample: Sample,
    /// If controllers are let in.
    control: Option<Figures>,
}

/// A server of metrics, until it is dropped.
pub(crate) struct Metrics {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Serves at an address of the machine's own, on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be had, or is not of this machine alone.
    pub(crate) fn serve(address: SocketAddr, subjects: Vec<Subject>) -> Result<Metrics, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "metrics on {address} would be open to other machines; use 127.0.0.1 or [::1], and a proxy or a tunnel from elsewhere"
            ));
        }
        let io = |error| format!("cannot serve metrics on {address}: {error}");
        let listener = TcpListener::bind(address).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let bound = listener.local_addr().map_err(io)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(io)?;
        let subjects: Arc<[Subject]> = subjects.into();
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            tokio::select! {
                () = accept(listener, subjects) => {}
                _ = stopped => {}
            }
        };
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || runtime.block_on(serve))
            .map_err(io)?;
        Ok(Metrics {
            address: bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, subjects: Arc<[Subject]>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let subjects = Arc::clone(&subjects);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &subjects));
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A reader that goes away has what it wanted.
            let _ = served.await;
            drop(place);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    subjects: &[Subject],
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match metrics(subjects).await {
            Ok(body) => (StatusCode::OK, OPEN_METRICS, body),
            Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, String::new()),
        },
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET it\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, PLAIN, "see /metrics\n".to_owned()),
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

async fn metrics(subjects: &[Subject]) -> Result<String, fmt::Error> {
    let mut shots = Vec::new();
    for subject in subjects {
        shots.extend(subject.sample().await);
    }
    let mut registry = Registry::with_prefix("polyplane");
    registry.register_collector(Box::new(Collector(shots)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// What is known of devices, as metrics.
#[derive(Debug)]
struct Collector(Vec<Shot>);

/// Labels of a value: names and what they are.
type Labels = Vec<(&'static str, String)>;

/// A value of a metric.
enum Value {
    Count(u64),
    Seconds(f64),
    Level(u64),
}

/// Values of one metric, from what is known of one device.
type Values = fn(&Shot) -> Vec<(Labels, Value)>;

fn one(value: Value) -> Vec<(Labels, Value)> {
    vec![(Vec::new(), value)]
}

/// Of what controllers did, if they are let in.
fn of_control(shot: &Shot, pick: fn(&Figures) -> Value) -> Vec<(Labels, Value)> {
    shot.control
        .iter()
        .map(|figures| (Vec::new(), pick(figures)))
        .collect()
}

/// All metrics but histograms: name, help, type, values. The names of counters get `_total` behind them.
const METRICS: &[(&str, &str, MetricType, Values)] = &[
    (
        "port_packets",
        "Packets that a port carried",
        MetricType::Counter,
        |shot| {
            let both = |port: &crate::report::PortReport| {
                [
                    ("received", port.received.packets),
                    ("sent", port.sent.packets),
                ]
            };
            by_port_and_direction(shot, both)
        },
    ),
    (
        "port_bytes",
        "Bytes of the packets that a port carried",
        MetricType::Counter,
        |shot| {
            let both = |port: &crate::report::PortReport| {
                [("received", port.received.bytes), ("sent", port.sent.bytes)]
            };
            by_port_and_direction(shot, both)
        },
    ),
    (
        "port_dropped_packets",
        "Packets that a port itself dropped",
        MetricType::Counter,
        |shot| {
            let ports = shot.sample.ports.iter();
            let drops = ports.flat_map(|port| port.dropped.iter().map(move |drops| (port, drops)));
            drops
                .map(|(port, drops)| {
                    let labels = vec![
                        ("port", port.port.to_string()),
                        ("reason", drops.reason.clone()),
                    ];
                    (labels, Value::Count(drops.packets))
                })
                .collect()
        },
    ),
    (
        "dropped_packets",
        "Packets that the program or the device dropped",
        MetricType::Counter,
        |shot| {
            let drops = shot.sample.device.dropped.iter();
            drops
                .map(|drops| {
                    (
                        vec![("reason", drops.reason.clone())],
                        Value::Count(drops.packets),
                    )
                })
                .collect()
        },
    ),
    (
        "replicated_packets",
        "Copies that the device made",
        MetricType::Counter,
        |shot| one(Value::Count(shot.sample.device.replicated)),
    ),
    (
        "held_packets",
        "Packets that wait in queues",
        MetricType::Gauge,
        |shot| one(Value::Level(shot.sample.device.held)),
    ),
    (
        "table_hits",
        "Packets that hit an entry",
        MetricType::Counter,
        |shot| by_table(shot, |table| Value::Count(table.hits)),
    ),
    (
        "table_misses",
        "Packets that hit none",
        MetricType::Counter,
        |shot| by_table(shot, |table| Value::Count(table.misses)),
    ),
    (
        "table_entries",
        "Entries in a table",
        MetricType::Gauge,
        |shot| by_table(shot, |table| Value::Level(table.entries as u64)),
    ),
    (
        "table_capacity",
        "Entries that a table may have",
        MetricType::Gauge,
        |shot| by_table(shot, |table| Value::Level(table.capacity as u64)),
    ),
    (
        "worker_packets",
        "Packets that a worker took in",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.received)),
    ),
    (
        "worker_bursts",
        "Rounds of a worker in which there were packets",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.bursts)),
    ),
    (
        "worker_busy_seconds",
        "Time of these rounds",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Seconds(worker.busy)),
    ),
    (
        "worker_sleeps",
        "Times that a worker slept",
        MetricType::Counter,
        |shot| by_worker(shot, |worker| Value::Count(worker.sleeps)),
    ),
    (
        "digests",
        "Digest messages of the program",
        MetricType::Counter,
        |shot| one(Value::Count(shot.sample.device.digests)),
    ),
    (
        "events_waiting",
        "Packet-ins, digests and notifications that wait for the server",
        MetricType::Gauge,
        |shot| one(Value::Level(shot.sample.events.0 as u64)),
    ),
    (
        "events_lost",
        "Packet-ins, digests and notifications that the server did not take in time",
        MetricType::Counter,
        |shot| one(Value::Count(shot.sample.events.1)),
    ),
    (
        "p4runtime_sessions",
        "Sessions of controllers",
        MetricType::Gauge,
        |shot| of_control(shot, |figures| Value::Level(figures.sessions)),
    ),
    (
        "p4runtime_primaries",
        "Roles that have a primary",
        MetricType::Gauge,
        |shot| of_control(shot, |figures| Value::Level(figures.primaries)),
    ),
    (
        "p4runtime_updates",
        "Updates of controllers",
        MetricType::Counter,
        |shot| {
            let figures = shot.control.iter();
            let both = figures.flat_map(|f| [("made", f.updates), ("refused", f.refused)]);
            both.map(|(outcome, count)| {
                (vec![("outcome", outcome.to_owned())], Value::Count(count))
            })
            .collect()
        },
    ),
    (
        "p4runtime_denied",
        "Calls and sessions that the client's certificate does not allow",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.denied)),
    ),
    (
        "p4runtime_reads",
        "Read calls of controllers",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.reads)),
    ),
    (
        "p4runtime_configs",
        "Configs that controllers set",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.configs)),
    ),
    (
        "p4runtime_packet_ins",
        "Packets that controllers were sent",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.packet_ins)),
    ),
    (
        "p4runtime_packet_outs",
        "Packets of controllers that the device was given",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.packet_outs)),
    ),
    (
        "p4runtime_digest_lists",
        "Lists of digests that controllers were sent",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.digest_lists)),
    ),
    (
        "p4runtime_digests_waiting",
        "Digest messages that wait for their list or for its acknowledgement",
        MetricType::Gauge,
        |shot| of_control(shot, |figures| Value::Level(figures.digests_waiting)),
    ),
    (
        "p4runtime_notifications_lost",
        "Notifications that no session took in time",
        MetricType::Counter,
        |shot| of_control(shot, |figures| Value::Count(figures.lost)),
    ),
];

fn by_port_and_direction(
    shot: &Shot,
    both: fn(&crate::report::PortReport) -> [(&'static str, u64); 2],
) -> Vec<(Labels, Value)> {
    let ports = shot.sample.ports.iter();
    let directions = ports.flat_map(|port| both(port).map(|one| (port, one)));
    directions
        .map(|(port, (direction, count))| {
            let labels = vec![
                ("port", port.port.to_string()),
                ("name", port.name.clone()),
                ("direction", direction.to_owned()),
            ];
            (labels, Value::Count(count))
        })
        .collect()
}

fn by_table(shot: &Shot, pick: fn(&crate::report::TableReport) -> Value) -> Vec<(Labels, Value)> {
    let tables = shot.sample.device.tables.iter();
    tables
        .map(|table| (vec![("table", table.name.clone())], pick(table)))
        .collect()
}

fn by_worker(shot: &Shot, pick: fn(&crate::report::WorkerReport) -> Value) -> Vec<(Labels, Value)> {
    let workers = shot.sample.workers.iter();
    workers
        .map(|worker| (vec![("worker", worker.worker.to_string())], pick(worker)))
        .collect()
}

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, kind, values) in METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for shot in &self.0 {
                for (mut labels, value) in values(shot) {
                    labels.insert(0, ("device", shot.device.to_string()));
                    value.encode(metric.encode_family(&labels)?)?;
                }
            }
        }
        self.encode_latencies(&mut encoder)
    }
}

impl Collector {
    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "How long Write calls took, from their arrival until the device had made them and, with --state, kept them";
        let name = "p4runtime_write_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for shot in &self.0 {
            let Some(figures) = &shot.control else {
                continue;
            };
            let ends = LATENCY_MICROS.iter().map(|end| *end as f64 / 1e6);
            let ends = ends.chain([f64::MAX]);
            let counts = figures.writes.counts;
            let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
            let labels: Labels = vec![("device", shot.device.to_string())];
            metric
                .encode_family(&labels)?
                .encode_histogram::<[(&str, &str); 0]>(
                    figures.writes.sum.as_secs_f64(),
                    counts.iter().sum(),
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        type None = [(&'static str, &'static str); 0];
        match self {
            Value::Count(count) => encoder.encode_counter::<None, _, u64>(count, Option::None),
            Value::Seconds(seconds) => {
                encoder.encode_counter::<None, _, u64>(seconds, Option::None)
            }
            Value::Level(level) => encoder.encode_gauge(level),
        }
    }
}
