//! A switch inside a Rust program: the example router forwards a capture between two memory ports.
//!
//! `cargo run -p runtime --example embed` prints the counts.

use std::error::Error;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use driver::{FileSystem, Source};
use packet::{Frame, PortId};
use port::{MemoryPort, OpenedPort, PcapReader, Port};
use runtime::{Forwarder, ForwarderEvent, ForwarderOptions, ProcessSetup, StopSources};
use switch::{Device, DeviceConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let router = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/router"));
    let (files, options) = (FileSystem::default(), driver::Options::default());
    let path = router.join("router.p4");
    let source = Source::File { path: &path, files: &files };
    let compiled = driver::compile(&source, &options);
    let program = compiled.program.ok_or_else(|| compiled.diagnostics.render(false))?;
    let engine = jit::Jit::new(Arc::new(interp::Interp));
    let mut device = Device::new(Arc::new(program), &engine, &DeviceConfig::default())?;
    let entries = std::fs::read_to_string(router.join("router.entries"))?;
    runtime::apply_entries(&mut device, "router.entries", &entries)?;

    // The far end of each link stands for the network.
    let link = |port| MemoryPort::pair(PortId(port), PortId(port), 256);
    let ((port0, mut network0), (port1, network1)) = (link(0), link(1));
    let open = |port| OpenedPort::new(Box::new(port), "memory", 1);
    let ports = vec![open(port0)?, open(port1)?];
    let mut switch = Forwarder::new(device, ports, ForwarderOptions::default())?;

    let mut capture = PcapReader::open(&router.join("router.pcap"))?;
    let (mut frame, mut packets) = (Frame::new(), 0);
    while capture.read(&mut frame)?.is_some() {
        network0.tx(std::slice::from_ref(&frame));
        packets += 1;
    }
    let (running, done) = UnixStream::pair()?;
    let (mut running, process) = (Some(running), ProcessSetup::default());
    let stop = StopSources { process: &process, done: Some(done.as_fd()) };
    switch.run(&stop, Duration::from_millis(5), &mut |event| match event {
        ForwarderEvent::Notice(line) => eprintln!("{line}"),
        ForwarderEvent::Tick(switch) if switch.port_reports()[0].received.packets == packets => {
            running = None; // Closes the stream, which ends the switch.
        }
        _ => {}
    })?;
    switch.check_conservation()?;
    println!("{packets} packets in, {} out by port 1", network1.waiting());
    print!("{}", runtime::report::text(&switch.port_reports(), &switch.device_report()));
    Ok(())
}
