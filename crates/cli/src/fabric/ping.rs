//! Echo requests of a host: `ping` where the machine has none.

use std::io::{ErrorKind, IsTerminal};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use clap::Args;
use port::EchoSocket;
use runtime::ProcessSetup;

use crate::{Ended, amount, out};

/// Time that an echo request waits for its reply.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of requests if none is given and there is no terminal for Ctrl-C.
const COUNT: u16 = 4;

#[derive(Args)]
pub(super) struct PingOptions {
    /// Number of requests. Default: until Ctrl-C, or 4 without a terminal.
    #[arg(short, value_name = "COUNT")]
    count: Option<u16>,
    /// Time between requests, in seconds.
    #[arg(short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Address of the host to ask.
    #[arg(value_name = "ADDRESS")]
    target: Ipv4Addr,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.001..=60.0).contains(seconds));
    let seconds = seconds.ok_or("write seconds from 0.001 to 60")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Sends echo requests from the network namespace of this process.
///
/// # Errors
/// The process may not send them.
pub(super) fn run(options: &PingOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let target = options.target;
    let socket = EchoSocket::open(target, std::process::id() as u16);
    let socket = socket.map_err(|error| format!("cannot send to {target}: {error}"))?;
    let usual = match std::io::stdin().is_terminal() {
        true => u16::MAX,
        false => COUNT,
    };
    let count = options.count.unwrap_or(usual);
    let mut answered = 0;
    for sequence in 1..=count {
        let start = Instant::now();
        match echo(&socket, sequence)? {
            Some(time) => {
                answered += 1;
                let time = amount::time(time);
                out::line(&format!(
                    "reply from {target}: icmp_seq={sequence} time={time}"
                ));
            }
            None => out::line(&format!("{target} does not reply: icmp_seq={sequence}")),
        }
        if early.take_signal().is_some() {
            break;
        }
        if sequence < count {
            std::thread::sleep(options.interval.saturating_sub(start.elapsed()));
        }
    }
    Ok(match answered {
        0 => Ended::WithErrors,
        _ => Ended::Well,
    })
}

/// Sends an echo request. Returns the time of its reply, if it came.
pub(super) fn echo(socket: &EchoSocket, sequence: u16) -> Result<Option<Duration>, String> {
    let payload = [0x50; 56];
    let start = Instant::now();
    let sent = socket.request(sequence, &payload);
    let reply = sent.and_then(|()| socket.wait_reply(sequence, &payload, PATIENCE));
    match reply {
        Ok(true) => Ok(Some(start.elapsed())),
        // An unreachable host is one that does not reply.
        Ok(false) => Ok(None),
        Err(error) if error.kind() == ErrorKind::HostUnreachable => Ok(None),
        Err(error) if error.kind() == ErrorKind::NetworkUnreachable => Ok(None),
        Err(error) => Err(format!("cannot send an echo request: {error}")),
    }
}
