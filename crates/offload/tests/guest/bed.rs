//! The guest's interfaces: pairs of `nicN` and `wireN` of the test NIC.

use std::process::Command;

use offload::tc::{
    FlowerRule, Installed, Interfaces, Priorities, RulePlace, RulePlanes, Session, TranslateOptions,
};
use offload::{Flow, LengthRange, MatchedBits, Met, Step};
use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Port};

/// Number of pairs of interfaces.
pub(crate) const PORTS: u32 = 4;

/// MTU of all interfaces. Flows that add bytes end below the longest frame of the device.
const MTU: u32 = 9000;

/// The guest with its interfaces up and no rules.
pub(crate) struct Bed {
    pub(crate) session: Session,
    pub(crate) interfaces: Interfaces,
    /// Index of `nic0`, where the rules are.
    pub(crate) nic: u32,
    wires: Vec<AfPacketPort>,
    priorities: Priorities,
    cookies: u128,
}

impl Bed {
    /// Prepares the interfaces. `None` outside of the guest.
    pub(crate) fn open() -> Option<Bed> {
        if std::env::var_os("POLYPLANE_GUEST").is_none() {
            println!("skipped: not in the guest of 'cargo xtask kernel'");
            return None;
        }
        for (parameter, value) in [
            ("capacity", "4800"),
            ("max_actions", "32"),
            ("keys", "4294967295"),
            ("refuse", "0"),
            ("delay_ms", "0"),
            ("lie", "0"),
        ] {
            set_nic(parameter, value);
        }
        let off = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        std::fs::write(off, "1").expect("IPv6 can be switched off");
        let mut interfaces = Interfaces::new();
        let mut wires = Vec::new();
        for port in 0..PORTS {
            for side in ["nic", "wire"] {
                run(
                    "ip",
                    &[
                        "link",
                        "set",
                        &format!("{side}{port}"),
                        "up",
                        "mtu",
                        &MTU.to_string(),
                    ],
                );
            }
            interfaces.insert(PortId(port), index_of(&format!("nic{port}")));
            let wire = AfPacketPort::open(PortId(port), &format!("wire{port}"));
            wires.push(wire.expect("a wire opens"));
        }
        let nic = interfaces[&PortId(0)];
        let mut session = Session::open().expect("a netlink socket opens");
        run("tc", &["qdisc", "del", "dev", "nic0", "clsact"]);
        session.prepare(nic).expect("clsact can be added");
        session.prepare(nic).expect("clsact may be there");
        let priorities = Priorities::new(1);
        Some(Bed {
            session,
            interfaces,
            nic,
            wires,
            priorities,
            cookies: 0,
        })
    }

    /// Translates a flow under the word of the owner that IP headers have no options.
    pub(crate) fn translate(&self, flow: &Flow, planes: RulePlanes) -> Result<FlowerRule, String> {
        let options = TranslateOptions {
            no_ip_options: true,
            valid_ip_checksums: true,
            planes,
            ..TranslateOptions::of_mtu(MTU)
        };
        let rule = offload::tc::translate(flow, &self.interfaces, &options);
        rule.map_err(|reason| reason.to_string())
    }

    /// Gives a rule a priority and a cookie, and adds it.
    pub(crate) fn add(&mut self, mut rule: FlowerRule) -> Result<Installed, offload::tc::TcError> {
        if rule.priority == 0 {
            rule.priority = self.priorities.of(&rule).expect("there are priorities");
        }
        self.cookies += 1;
        rule.cookie = self.cookies.to_be_bytes();
        let installed = self.session.add(self.nic, &rule)?;
        assert_eq!(installed.rule, rule, "the kernel has another rule");
        Ok(installed)
    }

    pub(crate) fn place(&self, installed: &Installed) -> RulePlace {
        RulePlace {
            interface: self.nic,
            chain: installed.rule.chain,
            priority: installed.rule.priority,
            protocol: installed.rule.protocol,
            handle: installed.handle,
        }
    }

    pub(crate) fn remove(&mut self, installed: &Installed) {
        let place = self.place(installed);
        self.session.delete(place).expect("the rule is there");
    }

    pub(crate) fn read(&mut self, installed: &Installed) -> Installed {
        let place = self.place(installed);
        let read = self.session.read(place).expect("the rule can be read");
        read.expect("the rule is there")
    }

    /// Sends a frame into `wire0` and returns what comes out of all wires, in order of the ports.
    pub(crate) fn exchange(&mut self, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.send(frame);
        self.receive()
    }

    /// Sends a frame into `wire0`.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        let frame = Frame::from_bytes(frame).expect("the frame is not too long");
        let outcome = self.wires[0].tx(std::slice::from_ref(&frame));
        assert_eq!(outcome.sent, 1, "the frame is sent");
    }

    /// Returns what has come out of all wires, in order of the ports.
    pub(crate) fn receive(&mut self) -> Vec<(PortId, Vec<u8>)> {
        // Frames on their way are in the kernel's queue of received ones.
        while backlog() > 0 {
            std::thread::yield_now();
        }
        let mut out = Vec::new();
        for wire in &mut self.wires {
            let mut batch = Batch::with_capacity(16);
            wire.rx(&mut batch, Nanos(0)).expect("the wire is up");
            let frames = batch.frames().iter();
            out.extend(frames.map(|frame| (wire.id(), frame.bytes().to_vec())));
        }
        out
    }

    /// Returns what a flow makes of a frame, in order of the ports.
    pub(crate) fn expected(flow: &Flow, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let mut out = flow.apply(frame);
        out.sort_by_key(|(port, _)| *port);
        out
    }
}

/// Writes a parameter of the test NIC.
pub(crate) fn set_nic(parameter: &str, value: &str) {
    let path = format!("/sys/module/nic/parameters/{parameter}");
    std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
}

/// Returns a parameter of the test NIC.
pub(crate) fn nic(parameter: &str) -> u64 {
    let path = format!("/sys/module/nic/parameters/{parameter}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.trim().parse().expect("a parameter is a number")
}

/// Returns the number of frames in the kernel's queues of received ones.
pub(crate) fn backlog() -> u32 {
    let path = "/proc/net/softnet_stat";
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().nth(11).unwrap_or_default());
    lines
        .map(|hex| u32::from_str_radix(hex, 16).expect("Linux 5.10 or later"))
        .sum()
}

fn index_of(interface: &str) -> u32 {
    let path = format!("/sys/class/net/{interface}/ifindex");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.trim().parse().expect("an index is a number")
}

/// Returns an interface's name.
pub(crate) fn name_of(index: u32) -> String {
    let entries = std::fs::read_dir("/sys/class/net").expect("there is sysfs");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    names
        .find(|name| index_of(name) == index)
        .expect("the interface is there")
}

/// Runs a command and returns what it prints.
pub(crate) fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a flow of frames at port 0 with these bits.
pub(crate) fn flow(matched: &[(u32, &[u8])], steps: Vec<Step>) -> Flow {
    let bits = |(offset, value): &(u32, &[u8])| MatchedBits {
        offset: *offset,
        value: value.to_vec(),
        mask: vec![0xFF; value.len()],
    };
    Flow {
        ingress: PortId(0),
        matched: matched.iter().map(bits).collect(),
        length: LengthRange {
            min: 34,
            max: 65535,
        },
        checksums: Vec::new(),
        steps,
        drop: None,
        met: Met::default(),
    }
}

/// Returns an IPv4 frame with UDP and a right header checksum, of this length.
pub(crate) fn udp_frame(source: [u8; 4], destination: [u8; 4], length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17]);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&destination);
    frame[34..42].copy_from_slice(&[0x03, 0xE8, 0x07, 0xD0, 0, 26, 0, 0]);
    frame[38..40].copy_from_slice(&(length as u16 - 34).to_be_bytes());
    let checksum = ipv4_checksum(14);
    checksum.apply(&mut frame);
    frame
}

/// Returns the change that writes the checksum of an IPv4 header at this offset.
pub(crate) fn ipv4_checksum(header: u32) -> offload::Edit {
    offload::Edit::Checksum {
        offset: header + 10,
        over: vec![
            offload::Summed::Bytes {
                offset: header,
                len: 10,
            },
            offload::Summed::Bytes {
                offset: header + 12,
                len: 8,
            },
        ],
    }
}

/// Returns a change that writes whole bytes.
pub(crate) fn set(offset: u32, value: &[u8]) -> Step {
    let (value, mask) = (value.to_vec(), vec![0xFF; value.len()]);
    Step::Edit(offload::Edit::Set {
        offset,
        value,
        mask,
    })
}
