//! `polyplane demo`: the example router between two Linux hosts, with real traffic.
//!
//! The hosts are network namespaces, which need no root. On machines that forbid them, the
//! program processes captures instead. Program, entries and captures are in the binary: the demo
//! needs no files.

mod capture;
mod hosts;
mod report;
mod traffic;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use port::{OpenedPort, Privilege};
use runtime::{Ending, Forwarder, ForwarderEvent, ForwarderOptions, ProcessSetup, StopSources};
use switch::Device;

use crate::args::Io;
use crate::engine::Choice;
use crate::live::{self, LiveLine};
use crate::{Ended, amount, configure, out};
use hosts::Host;
use report::Report;
use traffic::{Carried, Progress, Volume};

/// The program of the demo, its entries, and captures of the packets that the hosts send.
const PROGRAM: &str = include_str!("../../../../examples/router/router.p4");
const ENTRIES: &str = include_str!("../../../../examples/router/router.entries");
const CAPTURE_0: &[u8] = include_bytes!("../../../../examples/router/router.pcap");
const CAPTURE_1: &[u8] = include_bytes!("../../../../examples/router/router-port1.pcap");

/// Interval between two progress lines.
const INTERVAL: Duration = Duration::from_millis(200);

/// Width of the progress bar in characters.
const BAR: usize = 30;

#[derive(Args)]
#[command(
    after_help = "Needs no root: the hosts are network namespaces of this process and vanish with it.\n\nExit status: 0 only if the data \
                  arrived intact."
)]
pub(crate) struct Options {
    /// Amount of data that the TCP transfer carries, in millions of bytes.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    megabytes: u64,
    /// Transfer data for this long instead.
    #[arg(long, value_name = "N", conflicts_with = "megabytes", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Packet I/O of the switch's ports.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    #[command(flatten)]
    choice: Choice,
    /// Write the report as JSON.
    #[arg(long)]
    json: bool,
    /// Create no namespaces: run the program on the captures that ship with it.
    #[arg(long)]
    capture: bool,
}

impl Options {
    /// Returns true if the demo needs hosts.
    pub(crate) fn wants_hosts(&self) -> bool {
        !self.capture
    }

    fn volume(&self) -> Volume {
        match self.seconds {
            Some(seconds) => Volume::Time(Duration::from_secs(seconds)),
            None => Volume::Bytes(self.megabytes * 1_000_000),
        }
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let device = configure::load_text(
        "router.p4",
        PROGRAM,
        options.choice,
        "router.entries",
        ENTRIES,
    )?;
    let connected = match &early.private {
        None => return capture::run(device, options.json),
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(privilege)) => {
            hosts::connect(options.io.into()).map(|connected| (privilege, connected))
        }
    };
    match connected {
        Ok((privilege, (hosts, opened))) => {
            out::note(&opening(*privilege, &hosts));
            for (number, OpenedPort { how, .. }) in opened.iter().enumerate() {
                out::note(&format!("port {number}: {how}"));
            }
            carry(options, early, device, hosts, opened)
        }
        Err(why) => {
            out::note(&format!("no hosts to connect: {why}"));
            out::note("the same program carries the captures that ship with it instead:");
            capture::run(device, options.json)
        }
    }
}

fn opening(privilege: Privilege, hosts: &[Host; 2]) -> String {
    let right = match privilege {
        Privilege::Administrator => "as root",
        Privilege::UserNamespace => "without root",
    };
    let [a, b] = hosts.each_ref().map(|host| host.address);
    format!(
        "two hosts of Linux network namespaces ({right}): {a} -- port 0, router.p4, port 1 -- {b}"
    )
}

fn carry(
    options: &Options,
    early: &ProcessSetup,
    device: Device,
    hosts: [Host; 2],
    ports: Vec<OpenedPort>,
) -> Result<Ended, String> {
    let mut forwarder = Forwarder::new(device, ports, ForwarderOptions::default())?;
    let progress = Arc::new(Progress::default());
    let volume = options.volume();
    let (finished, traffic) = start_traffic(hosts, volume, Arc::clone(&progress))?;
    let stop = StopSources {
        process: early,
        done: Some(finished.as_fd()),
    };
    let mut line = LiveLine::new();
    let ending = forwarder.run(&stop, INTERVAL, &mut |event| match event {
        ForwarderEvent::Notice(notice) => line.note(&notice),
        ForwarderEvent::Traced(..)
        | ForwarderEvent::Link(..)
        | ForwarderEvent::PortAdded(..)
        | ForwarderEvent::PortRemoved(_) => {}
        ForwarderEvent::Tick(_) => line.show(&progress_line(&progress, volume)),
    })?;
    drop(line);
    let carried = match ending {
        // The traffic threads are not joined. They end with the process, and so do the
        // namespaces.
        Ending::Stopped(signal) => {
            progress.cancelled.store(true, Ordering::Relaxed);
            Err(format!("interrupted by {signal}"))
        }
        Ending::NoPortLeft => Err("the switch has lost its ports".to_owned()),
        Ending::Done => traffic
            .join()
            .unwrap_or_else(|_| Err("the traffic ended in a panic".to_owned())),
    };
    let report = Report {
        carried: carried.as_ref().ok(),
        ports: forwarder.port_reports(),
        device: forwarder.device_report(),
    };
    report.write(options.json);
    forwarder.check_conservation()?;
    carried.map(|carried| report::verdict(carried.transfer.is_intact()))
}

type Traffic = JoinHandle<Result<Carried, String>>;

/// Starts the hosts' traffic in a thread. The stream becomes readable when the thread ends, also
/// after an error.
fn start_traffic(
    hosts: [Host; 2],
    volume: Volume,
    progress: Arc<Progress>,
) -> Result<(UnixStream, Traffic), String> {
    let (finished, unfinished) =
        UnixStream::pair().map_err(|e| format!("cannot make a pair of sockets: {e}"))?;
    let traffic = std::thread::Builder::new()
        .name("traffic".to_owned())
        .spawn(move || {
            // Dropped at the end of the thread, which closes the stream.
            let _unfinished = unfinished;
            traffic::carry(&hosts, volume, &progress)
        });
    let traffic = traffic.map_err(|e| format!("cannot start a thread: {e}"))?;
    Ok((finished, traffic))
}

fn progress_line(progress: &Progress, volume: Volume) -> String {
    let echoes = progress.echoes.load(Ordering::Relaxed);
    let bytes = progress.bytes.load(Ordering::Relaxed);
    let requests = u64::from(traffic::ECHO_REQUESTS);
    if echoes < requests {
        return format!("ping {}", live::bar(echoes, requests, BAR));
    }
    let arrived = amount::bytes(bytes);
    match volume {
        Volume::Bytes(all) => format!("TCP  {} {arrived}", live::bar(bytes, all, BAR)),
        Volume::Time(all) => format!("TCP for {}: {arrived}", amount::time(all)),
    }
}
