//! `polyplane serve`: a switch on real interfaces that gets its program from a controller.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use ir::Program;
use p4rt::{Listen, Server};
use port::PortSpec;
use runtime::{
    ControllerChannel, ControllerLink, EMPTY_PROGRAM, ProcessSetup, Served, StoredDevice,
    compile_pool,
};
use switch::{Device, DeviceConfig};
use tenancy::Compilations;

use crate::args::Source;
use crate::config::ConfigOption;
use crate::control::{self, Cpu};
use crate::engine::Choice;
use crate::listen::Guard;
use crate::offload::arguments::OffloadArguments;
use crate::run::{self, AllowedPorts, DeviceProcessor, ForwardedFrames, ReloadFiles};
use crate::service::CertificateFiles;
use crate::state::Keeping;
use crate::{Ended, compile, out};

#[derive(Args)]
#[command(
    after_help = "The address must be of this machine's own (127.0.0.1 or [::1]); one that other machines reach needs --listen-beyond-loopback and TLS \
                  with client certificates. A controller sends what `polyplane compile` writes, P4 text, or the IR that `polyplane ir` prints, as \
                  p4_device_config, with the P4Info that `polyplane compile` writes and `polyplane p4info` prints or without one. docs/reference/p4runtime.md tells what is served.\n\nSeveral devices: `--device 1 --device 2=my.p4 \
                  --port 1:0=eth0 --port 2:0=eth1` serves two, each with its own workers, ports, primary and reports.\n\nStops on SIGINT (Ctrl-C) \
                  and SIGTERM with a final report. SIGHUP reads the certificates again. Exit status: 0 when stopped by a signal, 1 for errors in what was \
                  given or when the last port has gone, 2 for wrong usage, 78 for errors in the file of --config or in files that it names."
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
    guard: Guard,
    /// A device: the number by which controllers know it, and the P4 program that it runs until
    /// they set another one. Give one for each; if none is given, it is 1 and answers to 0,
    /// BMv2's default, too.
    #[arg(long = "device", value_name = "ID[=PROGRAM]", alias = "device-id")]
    devices: Vec<DeviceSpec>,
    #[command(flatten)]
    cpu: Cpu,
    /// A switch port and its interface; `tap:NAME` creates a TAP device, `ring:NAME` is shared
    /// memory with another process. Give one for each port; without any there is the port for
    /// controllers alone. With several devices, a port begins with its device's number.
    #[arg(long = "port", value_name = "[DEVICE:]NUMBER=INTERFACE")]
    ports: Vec<DevicePort>,
    #[command(flatten)]
    changes: AllowedPorts,
    #[command(flatten)]
    carrying: DeviceProcessor,
    /// A port on the host's side, for PNA programs; all others are on the network's. Give one for
    /// each.
    #[arg(long = "host-port", value_name = "NUMBER")]
    host_ports: Vec<u32>,
    /// Seed of the programs' random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    offload: OffloadArguments,
    #[command(flatten)]
    config: ConfigOption,
}

/// A device on the command line: `1`, `2=my.p4`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceSpec {
    id: u64,
    program: Option<PathBuf>,
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceSpec, String> {
        let (id, program) = match text.split_once('=') {
            Some((id, program)) => (id, Some(PathBuf::from(program))),
            None => (text, None),
        };
        Ok(DeviceSpec {
            id: device_id(id)?,
            program,
        })
    }
}

/// A port on the command line: `0=eth0`, with several devices `2:0=eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DevicePort {
    device: Option<u64>,
    spec: PortSpec,
}

impl FromStr for DevicePort {
    type Err = String;

    fn from_str(text: &str) -> Result<DevicePort, String> {
        // `tap:NAME` has a colon, too, after the number.
        let number = text.split('=').next().unwrap_or_default();
        let (device, spec) = match number.split_once(':') {
            Some((device, _)) => (Some(device_id(device)?), &text[device.len() + 1..]),
            None => (None, text),
        };
        let spec = spec
            .parse()
            .map_err(|error: port::PortSpecError| error.to_string())?;
        Ok(DevicePort { device, spec })
    }
}

fn device_id(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is no device id: ids are numbers from 0 to {}",
            u64::MAX
        )
    })
}

/// Returns the ports of each device.
///
/// # Errors
/// A device is given twice, a port's device does not exist, or a port names none of several
/// devices.
fn deal(devices: &[DeviceSpec], ports: &[DevicePort]) -> Result<Vec<Vec<PortSpec>>, String> {
    let ids = devices.iter().map(|device| device.id);
    for (place, id) in ids.enumerate() {
        if devices[..place].iter().any(|device| device.id == id) {
            return Err(format!(
                "device id {id} is given twice; give each device a number of its own"
            ));
        }
    }
    let mut dealt = vec![Vec::new(); devices.len()];
    for DevicePort { device, spec } in ports {
        let place = match (device, devices) {
            (None, [_]) => Some(0),
            (None, _) => {
                return Err(format!(
                    "port {spec}: with several devices, say whose it is, as in --port {}:{spec}",
                    devices[0].id
                ));
            }
            (Some(id), _) => devices.iter().position(|device| device.id == *id),
        };
        let Some(place) = place else {
            let id = device.unwrap_or_default();
            return Err(format!(
                "port {spec}: there is no device {id}; give --device {id}"
            ));
        };
        dealt[place].push(spec.clone());
    }
    let all: Vec<PortSpec> = ports.iter().map(|port| port.spec.clone()).collect();
    PortSpec::check_interfaces(&all).map_err(|error| error.to_string())?;
    Ok(dealt)
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let only = [DeviceSpec {
        id: 1,
        program: None,
    }];
    let devices = match options.devices.is_empty() {
        true => &only[..],
        false => &options.devices[..],
    };
    // Controllers written for BMv2 use its default device id, 0.
    let second_id = options.devices.is_empty().then_some(0);
    early.expect_hangup();
    let (habits, urgency) = options.carrying.begin(devices.len());
    let config = DeviceConfig {
        seed: options.seed,
        host_ports: options.host_ports.clone(),
        ..DeviceConfig::default()
    };
    let (listen, dealt) = match check_options(options, devices) {
        Ok(checked) => checked,
        Err(error) => {
            out::error(&error);
            return Ok(Ended::Misconfigured);
        }
    };
    let kept = options.keeping.open()?;
    let mut is_waiting = false;
    // All devices share the compile pool.
    let compilations = Compilations::new(compile_pool());
    let mut setups = Vec::new();
    let mut made = Vec::new();
    for (spec, ports) in devices.iter().zip(dealt) {
        let found = kept.as_ref().map(|kept| kept.device(spec.id)).transpose()?;
        let empty = driver::compile_text("empty.p4", EMPTY_PROGRAM)?;
        // The empty program in the stored state does not count.
        let before = found.as_ref().and_then(|found| found.program());
        let goes_on = before.is_some_and(|before| before.to_string() != empty.to_string());
        let device = match device(spec, found, empty, options.choice, &config) {
            Ok(Some(device)) => device,
            Ok(None) => return Ok(Ended::Misconfigured),
            Err(error) => {
                out::error(&error);
                return Ok(Ended::Misconfigured);
            }
        };
        let is_programmed = spec.program.is_some() || goes_on || p4rt::has_config(device.notes());
        is_waiting |= !is_programmed;
        let served = Served {
            program: is_programmed.then(|| device.program()),
            notes: device.notes(),
        };
        let named = spec.program.as_ref().map(|_| device.program().arch);
        let link = ControllerLink {
            id: spec.id,
            second_id,
            cpu: options.cpu.numbers(named),
            ports: &ports,
            workers: options.carrying.workers(),
            engine: Arc::from(options.choice.engine()),
            config: config.clone(),
            compilations: &compilations,
            extensions: &[],
        };
        let (setup, line) = control::connect(link, served)?;
        line.inbox.take_port_requests();
        line.inbox.take_settings_requests();
        setups.push(setup);
        made.push((spec, device, ports, line, is_programmed));
    }
    let server = Server::start(listen, setups, urgency).map_err(|error| error.to_string())?;
    let waiting = match is_waiting {
        true => "; the switch waits for a program",
        false => "",
    };
    out::note(&format!(
        "P4Runtime is served at {}{waiting}",
        server.address()
    ));
    let certificates = CertificateFiles {
        server: server.certificates(),
        guard: options.guard.clone(),
        address: options.address,
    };
    let server = Arc::new(server);
    let carried =
        made.into_iter().map(
            |(spec, device, ports, line, is_programmed)| ForwardedFrames {
                id: spec.id,
                what: match &spec.program {
                    Some(program) => program.display().to_string(),
                    None if is_programmed => "the program that it ran before".to_owned(),
                    None => "a switch without a program".to_owned(),
                },
                device,
                ports,
                control: Some((line, ControllerChannel::new(&server, spec.id))),
                filter: None,
                extension: None,
                kernel: None,
                offload: Some(options.offload.clone()),
                changes: Some(options.changes.clone()),
            },
        );
    let files = ReloadFiles {
        certificates: Some(certificates),
        device: None,
        config: options.config.watch("serve")?,
    };
    let carried = carried.collect();
    run::carry(carried, habits, &options.carrying, (early, Some(files)))
}

/// Checks the options and the files that they name. Opens no port and no directory.
///
/// # Errors
/// The first error of a file, with its place.
pub(crate) fn check(options: &Options) -> Result<(), String> {
    let only = [DeviceSpec {
        id: 1,
        program: None,
    }];
    let devices = match options.devices.is_empty() {
        true => &only[..],
        false => &options.devices[..],
    };
    let (_, dealt) = check_options(options, devices)?;
    dealt.iter().for_each(|ports| run::warn_of_missing(ports));
    let config = DeviceConfig::default();
    for spec in devices {
        let empty = driver::compile_text("empty.p4", EMPTY_PROGRAM)?;
        if device(spec, None, empty, Choice::INTERP, &config)?.is_none() {
            let program = spec.program.as_deref().unwrap_or(Path::new(""));
            return Err(format!("{} has errors", program.display()));
        }
    }
    Ok(())
}

/// Returns the address with its certificates, and the ports of each device. All are checked.
fn check_options(
    options: &Options,
    devices: &[DeviceSpec],
) -> Result<(Listen, Vec<Vec<PortSpec>>), String> {
    options.carrying.check()?;
    let dealt = deal(devices, &options.ports)?;
    for ports in &dealt {
        PortSpec::check_distinct(ports).map_err(|error| error.to_string())?;
    }
    let listen = options.guard.listen(options.address)?;
    let checked = listen.check_certificates();
    checked.map_err(|error| error.to_string())?;
    Ok((listen, dealt))
}

/// Creates a device from its stored state, or with its first program. Shows errors in the
/// program, and returns `None` if there are any.
fn device(
    spec: &DeviceSpec,
    found: Option<StoredDevice>,
    empty: Program,
    choice: Choice,
    config: &DeviceConfig,
) -> Result<Option<Device>, String> {
    let engine = choice.engine();
    let program = match &spec.program {
        Some(path) => match compile::compile(&Source::file(path)) {
            Some(program) => Some(program),
            None => return Ok(None),
        },
        None => None,
    };
    let before = found.as_ref().and_then(|found| found.program().cloned());
    let (found, program) = match (found, before, program) {
        (Some(found), Some(before), Some(program)) => {
            let device = found.run(&before, program, engine.as_ref(), config, &mut out::note)?;
            return Ok(Some(device));
        }
        (Some(found), Some(_), None) => {
            let device = found.start(engine.as_ref(), config, &mut out::note)?;
            return Ok(Some(device));
        }
        (found, _, Some(program)) => (found, program),
        (found, _, None) => (found, empty),
    };
    let made = Device::new(Arc::new(program), engine.as_ref(), config);
    let mut device = made.map_err(|error| error.to_string())?;
    found.map_or(Ok(()), |found| found.keep(&mut device, false))?;
    Ok(Some(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deal_texts(devices: &[&str], ports: &[&str]) -> Result<Vec<usize>, String> {
        let devices: Vec<DeviceSpec> = devices.iter().map(|d| d.parse().unwrap()).collect();
        let ports: Vec<DevicePort> = ports.iter().map(|p| p.parse().unwrap()).collect();
        let dealt = deal(&devices, &ports)?;
        Ok(dealt.iter().map(Vec::len).collect())
    }

    #[test]
    fn one_device_has_all_ports_and_of_several_each_has_its_own() {
        assert_eq!(deal_texts(&["7"], &["0=a", "1=tap:b"]), Ok(vec![2]));
        assert_eq!(deal_texts(&["0", "1"], &["0:0=a", "1:0=b"]), Ok(vec![1, 1]));
        let ports = ["1:0=a", "2:0=tap:b", "2:1=c"];
        assert_eq!(deal_texts(&["1", "2=my.p4"], &ports), Ok(vec![1, 2]));
    }

    #[test]
    fn a_port_without_device_and_an_interface_twice_are_refused() {
        let refused = |devices: &[&str], ports: &[&str], word: &str| {
            let message = deal_texts(devices, ports).unwrap_err();
            assert!(message.contains(word), "{message}");
        };
        refused(&["1", "2"], &["0=a"], "--port 1:0=a");
        refused(&["7", "7=my.p4"], &[], "device id 7");
        refused(&["1"], &["3:0=a"], "--device 3");
        refused(&["1", "2"], &["1:0=a", "2:0=a"], "a");
        assert!("-1".parse::<DeviceSpec>().is_err());
        assert!("x:0=a".parse::<DevicePort>().is_err());
    }
}
