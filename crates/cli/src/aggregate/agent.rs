//! `polyplane aggregate agent`: the mappers and reducers of one host.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use aggregate_runtime::{Address, Agent, Listener, PartLimits, Served, Stream};
use clap::Args;
use command::reductions;
use runtime::ProcessSetup;

use crate::{Ended, out};

#[derive(Args)]
#[command(
    after_help = "It reads the files and runs the `exec` programs that its master names, with the rights of its user. Whoever reaches its address is its \
                  master.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP. Exit status: 0 when stopped by a signal, 1 for errors, 2 for wrong usage."
)]
pub(super) struct AgentOptions {
    /// The address of this host in the topology. Messages use its UDP port 9570.
    #[arg(long, value_name = "IP")]
    address: Ipv4Addr,
    /// Address for the master: unix:PATH or HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// Allow an address that other machines reach, on a network where all may run programs here.
    #[arg(long, requires = "listen")]
    listen_beyond_loopback: bool,
    /// Unix socket for engines of this host: unix:PATH. All who may open it may use the network.
    #[arg(long, value_name = "ADDRESS", requires = "listen")]
    engines: Option<Address>,
    /// Most memory of the parts that engines store, in MiB.
    #[arg(long, value_name = "MIB", requires = "engines", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    parts_memory: u64,
    /// Seconds after which a stored part that is not used is dropped, as those of an engine that
    /// was killed.
    #[arg(long, value_name = "S", requires = "engines", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    parts_age: u64,
    /// Take orders of the one connection that is standard input, and end with it.
    #[arg(long, hide = true, conflicts_with = "listen")]
    on_stdin: bool,
}

/// Runs the agent of a host until a signal, or until its only connection ends.
pub(super) fn run(options: &AgentOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let map = Arc::new(reductions::map_part);
    let limits = PartLimits {
        bytes: options.parts_memory << 20,
        age: Duration::from_secs(options.parts_age),
    };
    let Some(address) = &options.listen else {
        if !options.on_stdin {
            return Err("give --listen unix:PATH or --listen HOST:PORT, for the master".to_owned());
        }
        let mut agent = Agent::new(options.address, map, limits)?;
        let orders = io::stdin().as_fd().try_clone_to_owned();
        let orders = orders.map_err(|error| format!("cannot read orders: {error}"))?;
        let mut stream = Stream::Unix(UnixStream::from(orders));
        agent.serve(&mut stream, None, early.signal_fd())?;
        return Ok(Ended::Well);
    };
    super::check_reach(address, options.listen_beyond_loopback)?;
    let mut agent = Agent::new(options.address, map, limits)?;
    let listener = Listener::bind(address)?;
    early.begin_work();
    if let Some(engines) = &options.engines {
        agent.open_engines(engines)?;
        out::note(&format!("engines are served at {engines}"));
    }
    out::note(&format!(
        "the agent of {} is served at {}",
        options.address,
        listener.address()
    ));
    while early.take_signal().is_none() {
        let Some(mut stream) = agent.accept(&listener, early.signal_fd())? else {
            continue;
        };
        if let Served::Gone(why) = agent.serve(&mut stream, Some(&listener), early.signal_fd())? {
            out::note(&format!("the master has gone: {why}"));
        }
    }
    Ok(Ended::Well)
}
