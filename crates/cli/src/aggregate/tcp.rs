//! The scheme `tcp` between network namespaces: a TCP connection from each mapper to its reducer,
//! with the same pairs in the same number of bytes. The reducer combines them, and no switch does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aggregate::{
    Input, MapperCounts, Pair, ReducerCounts, Shape, read_key, read_value, write_key, write_value,
};
use aggregate_runtime::RealOutcome;
use fabric::topology::HostId;
use packet::Nanos;
use runtime::ProcessSetup;

use super::{JobOptions, Planned};
use crate::fabric::real::Running;

/// Port of the first reducer.
const FIRST_PORT: u16 = 9600;

/// Time between looks for a connection or a signal.
const LOOK: Duration = Duration::from_millis(1);

/// In place of the length of a key: the key is longer than its class. Its length is in the first
/// four bytes, and the key follows.
const LONG: u8 = u8::MAX;

/// Combined values by key.
type Values = HashMap<Box<[u8]>, i128>;

/// A mapper's data and its reducer.
struct Sender {
    host: HostId,
    to: SocketAddrV4,
    bytes: Vec<u8>,
}

/// Work that ends by itself, or is ended.
#[derive(Default)]
struct Ending {
    is_stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Ending {
    /// Adds a connection that is to end with the rest.
    fn add(&self, stream: &TcpStream) -> std::io::Result<()> {
        let stream = stream.try_clone()?;
        let streams = self.streams.lock();
        streams.unwrap_or_else(PoisonError::into_inner).push(stream);
        Ok(())
    }

    fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        let streams = self.streams.lock();
        for stream in &*streams.unwrap_or_else(PoisonError::into_inner) {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Sends the mappers' pairs to their reducers. All begin at once, when all pairs are there.
///
/// # Errors
/// A reduction is of vectors, a connection fails, or a signal arrives.
pub(super) fn run(
    planned: &Planned,
    inputs: &[Vec<Input>],
    (running, options): (&Running, &JobOptions),
    early: &ProcessSetup,
) -> Result<Vec<RealOutcome>, String> {
    let reductions = &planned.plan.reductions;
    if let Some(vector) = reductions.iter().find(|it| it.request.shape.is_vector()) {
        return Err(format!(
            "the scheme `tcp` is for pairs, and {} reduces vectors: take the scheme `direct`",
            vector.request.name
        ));
    }
    let hosts = &planned.topology.hosts;
    let mut listeners = Vec::new();
    let mut senders = Vec::new();
    for ((number, reduction), inputs) in (0..).zip(reductions).zip(inputs) {
        let request = &reduction.request;
        let to = SocketAddrV4::new(hosts[request.reducer.0].address, FIRST_PORT + number);
        listeners.push(listen(running, request.reducer, *to.ip(), to.port())?);
        let mappers = request.mappers.iter().zip(inputs);
        senders.extend(mappers.map(|((host, _), input)| Sender {
            host: *host,
            to,
            bytes: encode(input.pairs(), request.shape),
        }));
    }
    let (ending, begin) = (Ending::default(), Barrier::new(senders.len() + 1));
    let received = thread::scope(|scope| {
        let (ending, begin) = (&ending, &begin);
        let sent = senders.into_iter().map(|sender| {
            scope.spawn(move || {
                begin.wait();
                let sent = running.in_host(sender.host, || send(&sender, ending));
                let sent = sent.and_then(|sent| sent);
                if sent.is_err() {
                    // Its reducer would wait.
                    ending.is_stopped.store(true, Relaxed);
                }
                sent
            })
        });
        let sent: Vec<_> = sent.collect();
        begin.wait();
        let began = Instant::now();
        let of_reducer = listeners.into_iter().zip(reductions);
        let received: Vec<_> = of_reducer
            .map(|(listener, reduction)| {
                let request = &reduction.request;
                let (count, shape) = (request.mappers.len(), request.shape);
                scope.spawn(move || {
                    let values = receive(&listener, count, shape, ending)?;
                    Ok::<_, String>((values, began.elapsed()))
                })
            })
            .collect();
        let limit = Duration::from_secs(options.seconds);
        let mut stopped = None;
        while !received.iter().all(|thread| thread.is_finished()) {
            if let Some(signal) = early.take_signal() {
                stopped = Some(format!("interrupted by {signal}"));
            } else if began.elapsed() >= limit {
                stopped = Some("not complete; --seconds gives it more time".to_owned());
            }
            if stopped.is_some() || ending.is_stopped.load(Relaxed) {
                ending.stop();
                break;
            }
            thread::sleep(LOOK);
        }
        let sent: Result<Vec<()>, String> = sent.into_iter().map(joined).collect();
        let received: Result<Vec<_>, String> = received.into_iter().map(joined).collect();
        match stopped {
            Some(why) => Err(why),
            None => sent.and(received),
        }
    })?;
    let of_reduction = received.into_iter().zip(inputs);
    let outcomes = of_reduction.map(|((values, took), inputs)| outcome(values, took, inputs));
    Ok(outcomes.collect())
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn outcome(values: Values, took: Duration, inputs: &[Input]) -> RealOutcome {
    let mut result: Vec<Pair> = values
        .into_iter()
        .map(|(key, value)| Pair::new(key, value))
        .collect();
    result.sort();
    RealOutcome {
        result,
        is_complete: true,
        took: Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
        reducer: ReducerCounts {
            pairs: inputs.iter().map(|input| input.pairs().len() as u64).sum(),
            ..ReducerCounts::default()
        },
        mappers: vec![MapperCounts::default(); inputs.len()],
        attempts: 1,
        ..RealOutcome::default()
    }
}

fn listen(
    running: &Running,
    host: HostId,
    address: Ipv4Addr,
    port: u16,
) -> Result<TcpListener, String> {
    let bind = || {
        let listener = TcpListener::bind(SocketAddrV4::new(address, port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let bound: std::io::Result<TcpListener> = running.in_host(host, bind)?;
    bound.map_err(|error| format!("cannot listen at {address}:{port}: {error}"))
}

fn send(sender: &Sender, ending: &Ending) -> Result<(), String> {
    let sent = TcpStream::connect(sender.to).and_then(|mut stream| {
        ending.add(&stream)?;
        stream.write_all(&sender.bytes)?;
        stream.shutdown(Shutdown::Write)
    });
    sent.map_err(|error| format!("a mapper cannot send to {}: {error}", sender.to))
}

/// Receives the pairs of a number of mappers, with a thread for each.
fn receive(
    listener: &TcpListener,
    count: usize,
    shape: Shape,
    ending: &Ending,
) -> Result<Values, String> {
    let failed = |error: std::io::Error| format!("a reducer cannot receive: {error}");
    thread::scope(|scope| {
        let mut threads = Vec::new();
        while threads.len() < count && !ending.is_stopped.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(failed)?;
                    ending.add(&stream).map_err(failed)?;
                    threads.push(scope.spawn(move || decode(BufReader::new(stream), shape)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LOOK),
                Err(error) => return Err(failed(error)),
            }
        }
        let mut all = Values::new();
        for thread in threads {
            let values = joined(thread)?;
            let pairs = values.into_iter();
            let pairs = pairs.map(|(key, value)| Pair { key, value });
            pairs.for_each(|pair| shape.operator.combine_pair(&mut all, pair));
        }
        Ok(all)
    })
}

/// Returns the bytes of pairs: each as in a message, but for longer keys.
fn encode(pairs: &[Pair], shape: Shape) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pairs.len() * shape.pair_bytes());
    for pair in pairs {
        let at = bytes.len();
        bytes.resize(at + shape.keys.bytes(), LONG);
        let len = pair.key.len();
        match len <= shape.keys.longest() {
            true => write_key(&pair.key, &mut bytes[at..]),
            false => {
                bytes[at..at + 4].copy_from_slice(&(len as u32).to_be_bytes());
                bytes.extend(&*pair.key);
            }
        }
        let at = bytes.len();
        bytes.resize(at + shape.values.bytes(), 0);
        write_value(pair.value, &mut bytes[at..]);
    }
    bytes
}

/// Combines the pairs of a connection until its end.
fn decode(mut stream: impl BufRead, shape: Shape) -> Result<Values, String> {
    let mut values = Values::new();
    let mut wire = vec![0; shape.keys.bytes()];
    let mut value = vec![0; shape.values.bytes()];
    let mut read = || -> std::io::Result<()> {
        while !stream.fill_buf()?.is_empty() {
            stream.read_exact(&mut wire)?;
            let key: Box<[u8]> = match (read_key(&wire), wire.first_chunk()) {
                (Some(key), _) => key.into(),
                (None, Some(len)) if wire.last() == Some(&LONG) => {
                    let mut long = vec![0; u32::from_be_bytes(*len) as usize];
                    stream.read_exact(&mut long)?;
                    long.into()
                }
                _ => return Err(ErrorKind::InvalidData.into()),
            };
            stream.read_exact(&mut value)?;
            let pair = Pair::new(key, read_value(&value, shape.values));
            shape.operator.combine_pair(&mut values, pair);
        }
        Ok(())
    };
    read().map_err(|error| format!("a connection of a mapper failed: {error}"))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use aggregate::{KeyClass, Operator, ValueClass};

    use super::*;

    #[test]
    fn pairs_of_all_classes_are_read_as_they_were_written() {
        for keys in KeyClass::ALL {
            for values in ValueClass::ALL {
                let shape = Shape {
                    operator: Operator::Add,
                    keys,
                    values,
                };
                let largest = (1i128 << (values.bytes() * 8 - usize::from(values.is_signed()))) - 1;
                let least = match values.is_signed() {
                    true => -largest - 1,
                    false => 0,
                };
                let long = vec![b'k'; 300];
                let pairs = [
                    Pair::new(*b"", 1),
                    Pair::new(*b"a", largest),
                    Pair::new(*b"a\0", least),
                    Pair::new(vec![b'z'; keys.longest()], 5),
                    Pair::new(long, 7),
                ];
                let bytes = encode(&pairs, shape);
                let twice = [&bytes[..], &encode(&pairs[..1], shape)].concat();
                let read = decode(&twice[..], shape).unwrap();
                assert_eq!(read.len(), pairs.len());
                assert_eq!(read[&b""[..]], 2);
                for pair in &pairs[1..] {
                    assert_eq!(read[&pair.key], pair.value, "{keys:?} {values:?}");
                }
                assert!(decode(&bytes[..bytes.len() - 1], shape).is_err());
            }
        }
    }
}
