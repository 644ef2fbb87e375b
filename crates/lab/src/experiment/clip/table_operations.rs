//! Table II: times of insertions and deletions, in the switch by P4Runtime and in a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ::bench::split;
use ::bench::split::ports::{FIRST_PORT, PROGRAM};
use ::bench::{Forward, SentFrames};
use bits::Value;
use command::engine::Choice;
use ir::{ActionCall, KeyMatch, Program, TableId};
use p4info::p4::v1::Update;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::client::{Client, Endpoint};
use p4rt::{Loader, Server, ServerConfig, UpdateEncoder, Urgency};
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitOptions, SplitProgram};
use port::Poller;
use switch::{Action, Change, Device, DeviceConfig, EntryId, LoadError, TableEntry};

use super::{Context, Origin, Part, Row, Times, head};
use crate::bench::split::Bed;

/// Entries of a batch.
const BATCH: u32 = 1000;

/// Rounds of one entry, and of a batch.
const ROUNDS: usize = 200;
const BATCH_ROUNDS: usize = 20;

/// Port of the processor, which has no packets.
const CPU: u32 = 0xffff_fff0;

/// Values of the paper in microseconds: insert and delete of 1, insert and delete of 1,000.
struct Paper {
    name: &'static str,
    micros: [f64; 4],
}

const EM: Paper = Paper {
    name: "EM",
    micros: [1550.0, 1320.0, 499_900.0, 366_860.0],
};
const LPM: Paper = Paper {
    name: "LPM",
    micros: [1320.0, 990.0, 285_270.0, 143_620.0],
};
const EM_MIRRORED: Paper = Paper {
    name: "EM-m",
    micros: [9.39, 2.36, 121.06, 90.32],
};
const LPM_MIRRORED: Paper = Paper {
    name: "LPM-m",
    micros: [7.72, 3.93, 279.84, 215.77],
};

/// Measures the operations.
///
/// # Errors
/// A device cannot be served, or refuses an entry.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut found: Vec<(String, Paper, [Times; 4])> = Vec::new();
    for (is_exact, switch, server, done) in [
        (true, EM, EM_MIRRORED, 0.0),
        (false, LPM, LPM_MIRRORED, 0.4),
    ] {
        let program = program(is_exact)?;
        context.tell("table II", done)?;
        let times = by_p4runtime(&program, is_exact)?;
        found.push(("switch half by P4Runtime".to_owned(), switch, times));
        context.tell("table II", done + 0.2)?;
        let times = in_server(&program, is_exact)?;
        found.push(("server half".to_owned(), server, times));
    }
    context.tell("table II", 0.8)?;
    let handler = by_handler()?;
    let mut rows = Vec::new();
    let mut table = vec![head(&[
        "where",
        "type",
        "operation",
        "median us",
        "mean us",
        "±",
        "99 %",
        "paper us",
    ])];
    const OPERATIONS: [&str; 4] = ["insert 1", "delete 1", "insert 1,000", "delete 1,000"];
    for (place, paper, times) in &found {
        for ((operation, times), us) in OPERATIONS.iter().zip(times).zip(paper.micros) {
            add(
                &mut rows,
                &mut table,
                [place, paper.name, operation],
                times,
                Some(us),
            );
        }
    }
    let words = [
        "server half, request to response",
        "EM-m",
        "insert 2 by a handler",
    ];
    add(&mut rows, &mut table, words, &handler, None);
    Ok(Part {
        title: "Table II: times of table operations",
        rows,
        table,
        note: "Measured: P4Runtime over loopback gRPC, controller and switch in one process, until the write is answered. In a server until packets see the \
               change. A handler's row is a whole request of snat: the packet is parsed, C takes a port and adds both directions, and the response is written."
            .to_owned(),
        pictures: Vec::new(),
    })
}

fn add(
    rows: &mut Vec<Row>,
    table: &mut Vec<Vec<String>>,
    [place, kind, operation]: [&str; 3],
    times: &Times,
    paper: Option<f64>,
) {
    let values = [
        ("median_us", times.p50),
        ("mean_us", times.mean),
        ("deviation_us", times.deviation),
        ("p99_us", times.p99),
        ("paper_us", paper.unwrap_or(f64::NAN)),
    ];
    let count = values.len() - usize::from(paper.is_none());
    let paper = paper.map_or("at most 10 us is the aim".to_owned(), |us| {
        format!("{us} us")
    });
    table.push(vec![
        place.to_owned(),
        kind.to_owned(),
        operation.to_owned(),
        format!("{:.2}", times.p50),
        format!("{:.2}", times.mean),
        format!("{:.2}", times.deviation),
        format!("{:.2}", times.p99),
        paper.clone(),
    ]);
    let subject = format!("{place}, {kind}, {operation}");
    rows.push(Row::new(
        "table II",
        subject,
        Origin::Measured,
        &values[..count],
        paper,
    ));
}

/// Returns the split program with one mirrored table of this kind.
fn program(is_exact: bool) -> Result<SplitProgram, String> {
    let text = match is_exact {
        true => PROGRAM.to_owned(),
        false => PROGRAM.replace("src : exact", "src : lpm"),
    };
    let program = driver::compile_text("ports.p4", &text)?;
    let split = passes::split::split(&program, &SplitOptions::default());
    split.map_err(|error| error.to_string())
}

/// Returns the insertion of an entry.
fn insertion(program: &Program, table: TableId, is_exact: bool, number: u32) -> Change {
    let value = Value::truncated((FIRST_PORT + number).into(), 16);
    let key = match is_exact {
        true => KeyMatch::Exact(value),
        false => KeyMatch::Lpm(value, 16),
    };
    let listed = program.tables[table].actions.iter();
    let mut listed = listed.map(|listed| &program.actions[listed.action]);
    let action = listed.position(|action| action.params.len() == 1);
    Change::Insert(
        table,
        TableEntry {
            keys: vec![key],
            priority: None,
            action: Action::Call(ActionCall {
                action: action.unwrap_or(0),
                args: vec![Value::truncated(1, 9)],
            }),
            idle_timeout: None,
            meter: None,
            counter: None,
        },
    )
}

/// Returns the times of an operation on each batch in microseconds.
fn timed<T>(
    batches: Vec<T>,
    mut operation: impl FnMut(T) -> Result<(), String>,
) -> Result<Vec<f64>, String> {
    let times = batches.into_iter().map(|batch| {
        let begin = Instant::now();
        operation(batch)?;
        Ok(begin.elapsed().as_secs_f64() * 1e6)
    });
    times.collect()
}

/// Measures a server half.
fn in_server(split: &SplitProgram, is_exact: bool) -> Result<[Times; 4], String> {
    let table = mirrored(split)?;
    let server = Arc::new(split.server.clone());
    let engine = Choice::default().engine_before_packets();
    let device = Device::new(Arc::clone(&server), &*engine, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    // A table is not empty when entries come and go.
    for number in 0..10_000 {
        let change = insertion(&server, table, is_exact, number);
        device.apply(change).map_err(|error| error.to_string())?;
    }
    device.publish();
    let mut results = Vec::new();
    for (count, rounds) in [(1, ROUNDS), (BATCH, BATCH_ROUNDS)] {
        let mut inserted = Vec::new();
        let mut deleted = Vec::new();
        for _ in 0..rounds {
            let changes: Vec<Change> = (0..count)
                .map(|number| insertion(&server, table, is_exact, 20_000 + number))
                .collect();
            let mut ids = Vec::new();
            inserted.extend(timed(vec![changes], |changes| {
                for change in changes {
                    ids.extend(device.apply(change).map_err(|error| error.to_string())?);
                }
                device.publish();
                Ok(())
            })?);
            deleted.extend(timed(vec![ids], |ids: Vec<EntryId>| {
                for id in ids {
                    let gone = device.apply(Change::Delete(table, id));
                    gone.map_err(|error| error.to_string())?;
                }
                device.publish();
                Ok(())
            })?);
        }
        results.extend([Times::new(&inserted), Times::new(&deleted)]);
    }
    results.try_into().map_err(|_| "four operations".to_owned())
}

fn mirrored(split: &SplitProgram) -> Result<TableId, String> {
    let first = split.plan.mirrored.first();
    first
        .map(|mirrored| mirrored.table)
        .ok_or_else(|| "the program has no mirrored table".to_owned())
}

/// Loader of a device that keeps its program.
struct Fixed;

impl Loader for Fixed {
    fn compile(&self, _: &str) -> Result<Program, String> {
        Err("the program cannot be changed here".to_owned())
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        let engine = Choice::default().engine_before_packets();
        Device::new(program, &*engine, &DeviceConfig::default())
    }
}

/// Measures a switch half that a controller writes by P4Runtime.
fn by_p4runtime(split: &SplitProgram, is_exact: bool) -> Result<[Times; 4], String> {
    let table = mirrored(split)?;
    let program = Arc::new(split.switch.clone());
    let mut device = Fixed
        .device(Arc::clone(&program))
        .map_err(|error| error.to_string())?;
    let channel = p4rt::channel(PortId(CPU));
    let (mut inbox, cpu, remote) = channel.map_err(|error| error.to_string())?;
    let setup = ServerConfig {
        id: 1,
        second_id: None,
        remote,
        loader: Arc::new(Fixed),
        program: Some(Arc::clone(&program)),
        ports: Vec::new(),
        notes: device.notes().clone(),
        extensions: &[],
        allowed: Vec::new(),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(address, vec![setup], Urgency::AsWorkers);
    let server = server.map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let (begin, mut poller) = (Instant::now(), Poller::new());
            while !stop.load(Relaxed) {
                let has_more = inbox.serve(&mut device, false);
                device.step(Nanos::from(begin.elapsed()));
                let fds = [inbox.wake_fd(), cpu.wake_fd()];
                if !has_more && poller.wait(fds, Duration::from_millis(10)).is_err() {
                    return;
                }
            }
        });
        let endpoint = Endpoint {
            address: server.address().to_string(),
            tls: None,
        };
        let measured = write(&endpoint, &program, table, is_exact);
        stop.store(true, Relaxed);
        measured
    })
}

fn write(
    endpoint: &Endpoint,
    program: &Arc<Program>,
    table: TableId,
    is_exact: bool,
) -> Result<[Times; 4], String> {
    let client = Client::connect(endpoint, 1, "");
    let mut client = client.map_err(|error| error.to_string())?;
    let primary = client.arbitrate(Some(1));
    primary.map_err(|error| error.to_string())?;
    let encoder = UpdateEncoder::new(Arc::clone(program));
    let mut encoder = encoder.map_err(|error| error.to_string())?;
    let mut updates = |change: &Change, id: u32| -> Result<Vec<Update>, String> {
        let updates = encoder.updates(change, Some(EntryId(id.into())));
        updates.map_err(|error| error.to_string())
    };
    let mut send = |updates: Vec<Update>| {
        let written = client.write(updates, Atomicity::ContinueOnError);
        written.map_err(|error| error.to_string())
    };
    let mut first = Vec::new();
    for number in 0..5000 {
        first.extend(updates(
            &insertion(program, table, is_exact, number),
            number,
        )?);
    }
    send(first)?;
    let mut results = Vec::new();
    for (count, rounds) in [(1, ROUNDS), (BATCH, BATCH_ROUNDS)] {
        let mut inserted = Vec::new();
        let mut deleted = Vec::new();
        for _ in 0..rounds {
            let (mut adds, mut deletes) = (Vec::new(), Vec::new());
            for number in 20_000..20_000 + count {
                let change = insertion(program, table, is_exact, number);
                adds.extend(updates(&change, number)?);
                let change = Change::Delete(table, EntryId(number.into()));
                deletes.extend(updates(&change, number)?);
            }
            inserted.extend(timed(vec![adds], &mut send)?);
            deleted.extend(timed(vec![deletes], &mut send)?);
        }
        results.extend([Times::new(&inserted), Times::new(&deleted)]);
    }
    results.try_into().map_err(|_| "four operations".to_owned())
}

/// Measures requests of new flows at a server of `snat`. Its handler adds both directions.
fn by_handler() -> Result<Times, String> {
    let function = split::find("snat").ok_or("a function is missing")?;
    let bed = Bed::new(&*function)?;
    let requests = bed.first_requests()?;
    let mut server = bed.empty_server_half()?;
    let mut out = SentFrames::new();
    let mut now = Nanos::from_secs(1);
    let mut times = Vec::new();
    for request in requests {
        let frame = Frame::from_bytes(&request);
        let mut frame = frame.map_err(|error| error.to_string())?;
        now += Nanos(1000);
        times.extend(timed(vec![&mut frame], |frame| {
            server.forward(std::slice::from_mut(frame), now, &mut out);
            Ok(())
        })?);
    }
    if out.flush() != function.flows() as usize {
        return Err(format!("{}: a request has no response", function.name()));
    }
    // Code and tables are warm after the first ones.
    Ok(Times::new(&times[times.len() / 10..]))
}
