//! `polyplane serve`: a switch on real interfaces whose program comes from a controller.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use port::PortSpec;
use switch::{Device, DeviceConfig};

use crate::control::{Numbers, Served};
use crate::early::Early;
use crate::engine::Choice;
use crate::run::{self, Carrying};
use crate::state::Keeping;
use crate::{Ended, compile, out};

/// What runs until a controller sets a program: every packet is dropped by name.
const EMPTY: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct none_t { }
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) { state start { transition accept; } }
control C(inout none_t h, inout none_t m) { apply { } }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in none_t h) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"#;

#[derive(Args)]
#[command(
    after_help = "The address must be of this machine's own (127.0.0.1 or [::1]); from elsewhere, use a tunnel. A controller sends P4 text, or the IR \
                  that `polyplane ir` prints, as p4_device_config, with the P4Info that `polyplane p4info` prints or without one. docs/P4RUNTIME.md \
                  tells what is served.\n\nStops on SIGINT (Ctrl-C), SIGTERM and SIGHUP with a final report. Exit status: 0 when stopped by a signal, 1 for \
                  errors in what was given or when the last port has gone, 2 for wrong usage."
)]
pub(crate) struct Options {
    /// Serve P4Runtime here.
    #[arg(
        long = "p4runtime",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9559"
    )]
    address: SocketAddr,
    #[command(flatten)]
    numbers: Numbers,
    /// A switch port and its interface; `tap:NAME` makes a TAP device. Give one for each port; without any there is the port for controllers alone.
    #[arg(long = "port", value_name = "NUMBER=INTERFACE")]
    ports: Vec<PortSpec>,
    #[command(flatten)]
    carrying: Carrying,
    /// A port on the host's side, for PNA programs; all others are on the network's. Give one for each.
    #[arg(long = "host-port", value_name = "NUMBER")]
    host_ports: Vec<u32>,
    /// What programs' random numbers depend on.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    keeping: Keeping,
}

pub(crate) fn run(options: &Options, early: &Early) -> Result<Ended, String> {
    let carrying = &options.carrying;
    let config = DeviceConfig {
        seed: options.seed,
        host_ports: options.host_ports.clone(),
        ..DeviceConfig::default()
    };
    let device = device(options, &config)?;
    let is_configured = p4rt::has_config(device.notes());
    let control = options.numbers.start(
        options.address,
        Served {
            program: is_configured.then(|| device.program()),
            notes: device.notes(),
        },
        &options.ports,
        carrying.workers(),
        options.choice,
        config,
    )?;
    let (waits, what) = match is_configured {
        true => ("", "the program that a controller has set"),
        false => (
            "; the switch waits for a program",
            "a switch without a program",
        ),
    };
    out::note(&format!(
        "P4Runtime is served at {}{waits}",
        control.server.address()
    ));
    run::carry(device, what, &options.ports, carrying, Some(control), early)
}

/// What was kept, or a device without a program.
fn device(options: &Options, config: &DeviceConfig) -> Result<Device, String> {
    let engine = options.choice.engine();
    let found = options.keeping.open(options.numbers.device_id)?;
    let found = match found {
        Some(found) if found.program.is_some() => return found.start(engine.as_ref(), config),
        found => found,
    };
    let program = Arc::new(compile::compile_text("empty.p4", EMPTY)?);
    let mut device =
        Device::new(program, engine.as_ref(), config).map_err(|error| error.to_string())?;
    found.map_or(Ok(()), |found| found.keep(&mut device, false))?;
    Ok(device)
}
