//! Surroundings of the switch: a source that sends at its maximum rate, a sink, and the veth pairs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packet::{Batch, Frame, Nanos, PortId};
use port::{
    Flows, Generator, LinkState, Netns, Order, Port, PortDriver, RtnlError, Sizes, Template,
    Values, open_interface,
};

/// Maximum time until a veth pair is up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of flows of each kind.
const FLOWS: u64 = 4096;

/// Three namespaces: source, switch and sink. They end with the process.
pub(super) struct Lab {
    before: Netns,
    switch: Netns,
    behind: Netns,
}

impl Lab {
    pub(super) fn new() -> Result<Lab, String> {
        let create = || Netns::create().map_err(|e| e.to_string());
        let lab = Lab {
            before: create()?,
            switch: create()?,
            behind: create()?,
        };
        for netns in [&lab.before, &lab.switch, &lab.behind] {
            // Only the source sends. Where sysctl is forbidden, the kernel sends some frames more.
            let silence = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            let _ = netns.run(silence);
        }
        lay(&lab.switch, "port0", &lab.before, "source")?;
        lay(&lab.switch, "port1", &lab.behind, "sink")?;
        Ok(lab)
    }

    /// Runs a function in the switch's namespace.
    pub(super) fn in_switch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        self.switch.run(work).map_err(|e| e.to_string())
    }

    /// Returns the frames that the source's veth interface dropped, by the kernel's counts. At the
    /// switch's end these contain the frames that a full AF_XDP socket did not take.
    pub(super) fn lost_on_cable(&self) -> Result<[u64; 2], String> {
        let source = counters(&self.before, "source")?;
        let port = counters(&self.switch, "port0")?;
        Ok([source.tx_dropped, port.rx_dropped])
    }

    /// Returns the number of frames that the sink received.
    pub(super) fn arrived_behind(&self) -> Result<u64, String> {
        Ok(counters(&self.behind, "sink")?.rx_frames)
    }
}

fn lay(switch: &Netns, name: &str, other: &Netns, end: &str) -> Result<(), String> {
    let failed = |e: RtnlError| e.to_string();
    let mut rtnl = switch.rtnl().map_err(|e| e.to_string())?;
    rtnl.add_veth(name, end, Some(other)).map_err(failed)?;
    rtnl.set_up(name).map_err(failed)?;
    let mut there = other.rtnl().map_err(|e| e.to_string())?;
    there.set_up(end).map_err(failed)
}

/// Kernel counters of an interface.
struct Counters {
    rx_frames: u64,
    rx_dropped: u64,
    tx_dropped: u64,
}

fn counters(netns: &Netns, name: &str) -> Result<Counters, String> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
    let text = netns.run(read).map_err(|e| e.to_string())?;
    let text = text.map_err(|e| format!("cannot read the interfaces' counters: {e}"))?;
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let line = line.ok_or_else(|| format!("{name} has no counters"))?;
    // Received bytes, packets, errors, drops and four more; then the same for sent ones.
    let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    Ok(Counters {
        rx_frames: number(1),
        rx_dropped: number(3),
        tx_dropped: number(11),
    })
}

/// The generator thread.
pub(super) struct Sender {
    thread: JoinHandle<()>,
    sent: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Sender {
    /// Sends frames of this length at the maximum rate.
    pub(super) fn start(lab: &Lab, bytes: usize) -> Result<Sender, String> {
        let mut generator = generator(bytes)?;
        let open = || open_interface(PortId(0), "source", PortDriver::Auto, 1);
        let opened = lab.before.run(open).map_err(|e| e.to_string())?;
        let mut shares = opened.map_err(|e| e.to_string())?.shares;
        let mut port = shares.pop().ok_or("the source has no port")?;
        wait_up(&mut *port)?;
        let sent = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (count, stop) = (Arc::clone(&sent), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let mut batch = Batch::default();
            while !stop.load(Relaxed) {
                batch.clear();
                generator.fill(&mut batch, PortId(0), Nanos::ZERO);
                count.fetch_add(port.tx(batch.frames()).sent, Relaxed);
            }
            // Frames that the kernel has not taken yet.
            for _ in 0..100 {
                port.tx(&[]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Ok(Sender {
            thread,
            sent,
            is_over,
        })
    }

    /// Returns the number of frames that the interface has taken.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Ends the generator. Returns the number of frames sent.
    pub(super) fn stop(self) -> Result<u64, String> {
        self.is_over.store(true, Relaxed);
        let joined = self.thread.join();
        joined.map_err(|_| "the generator ended in a panic".to_owned())?;
        Ok(self.sent.load(Relaxed))
    }
}

/// Returns UDP frames to the host of the sink, and every second one to an address without a route.
fn generator(bytes: usize) -> Result<Generator, String> {
    let to = |address: [u8; 4]| {
        let mut frame = Frame::new();
        let udp = Flows {
            count: 1,
            order: Order::InTurn,
        };
        let mut usual = Generator::new(vec![Template::udp4()], udp, &Sizes::OfTemplates, 1)
            .map_err(|e| e.to_string())?;
        usual.make(&mut frame);
        let mut bytes = frame.bytes().to_vec();
        bytes[..6].copy_from_slice(&[2, 0, 0, 0, 1, 1]);
        bytes[30..34].copy_from_slice(&address);
        let ports = Values::From {
            first: 1024,
            count: FLOWS,
        };
        Ok::<Template, String>(Template::new(bytes).vary(34, 2, ports))
    };
    let templates = vec![to([10, 0, 2, 2])?, to([10, 77, 0, 1])?];
    let flows = Flows {
        count: FLOWS as usize * 2,
        order: Order::Zipf { skew: 0.0 },
    };
    Generator::new(templates, flows, &Sizes::Fixed(bytes), 1).map_err(|e| e.to_string())
}

/// Waits until a link carries frames.
fn wait_up(port: &mut dyn Port) -> Result<(), String> {
    let start = Instant::now();
    let mut unused = Batch::with_capacity(1);
    while port.link() != LinkState::Up {
        if start.elapsed() > LINK_TIMEOUT {
            return Err(format!("{} did not come up", port.name()));
        }
        std::thread::sleep(Duration::from_millis(1));
        let _ = port.rx(&mut unused, Nanos::from(start.elapsed()));
        unused.clear();
    }
    Ok(())
}
