//! Open vSwitch on DPDK, where Debian's packages are installed. Packets come from a capture in
//! memory (`net_pcap`, without end) and end in a null PMD.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use packet::Nanos;
use port::{PcapWriteError, PcapWriter};

use super::actions::{Kind, MOST, SOURCE};
use super::bed::{FRAME, udp};

/// The daemon of `openvswitch-switch-dpdk`.
const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Settings: no huge pages, no device, one core for packets.
const SETTINGS: [&str; 3] = [
    "other_config:dpdk-init=true",
    "other_config:dpdk-extra=--no-huge --legacy-mem --no-pci -m 1024",
    "other_config:pmd-cpu-mask=0x1",
];

/// Packets of the capture.
const CAPTURED: usize = 64;

/// Time in which a daemon starts at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// Actions as those of [`Kind::SetField`], in their order.
const SET: [&str; MOST] = [
    "mod_nw_dst:10.2.2.2",
    "mod_dl_dst:02:00:00:00:00:05",
    "mod_dl_src:02:00:00:00:00:06",
    "mod_nw_tos:44",
    "mod_tp_src:1000",
    "mod_tp_dst:2000",
];

/// Largest number of MPLS headers that it pushes.
const MAX_PUSHED: usize = 3;

/// A running switch.
pub(super) struct OpenVswitch {
    directory: PathBuf,
    daemons: Vec<Child>,
}

impl OpenVswitch {
    /// Starts it.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub(super) fn start() -> Result<OpenVswitch, String> {
        if !Path::new(DAEMON).exists() {
            return Err("openvswitch-switch-dpdk is not installed".to_owned());
        }
        let name = format!("polyplane-ovs-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot make a directory: {error}"))?;
        let mut switch = OpenVswitch {
            directory,
            daemons: Vec::new(),
        };
        switch.capture().map_err(|error| error.to_string())?;
        let (database, socket) = (switch.file("conf.db"), switch.file("db.sock"));
        switch.run("ovsdb-tool", &["create", &database, SCHEMA])?;
        let remote = format!("--remote=punix:{socket}");
        switch.spawn("ovsdb-server", &[&database, &remote], "db")?;
        switch.wait_for(&socket)?;
        switch.set(&["init"])?;
        switch.set(&[&["set", "Open_vSwitch", "."], &SETTINGS[..]].concat())?;
        switch.spawn(DAEMON, &[&format!("unix:{socket}")], "vs")?;
        switch.wait_for(&switch.file("vs.ctl"))?;
        let packets = format!(
            "options:dpdk-devargs=net_pcap0,rx_pcap={},infinite_rx=1",
            switch.file("in.pcap")
        );
        let ports = [
            ("p0", packets.as_str(), "ofport_request=1"),
            (
                "p1",
                "options:dpdk-devargs=net_null1,no-rx=1",
                "ofport_request=2",
            ),
        ];
        let bridge = ["--", "set", "bridge", "br0", "datapath_type=netdev"];
        switch.set(&[&["add-br", "br0"], &bridge[..]].concat())?;
        for (name, devices, number) in ports {
            let set = ["--", "set", "Interface", name, "type=dpdk", devices, number];
            switch.set(&[&["add-port", "br0", name], &set[..]].concat())?;
        }
        Ok(switch)
    }

    /// Makes the flow with these actions. Returns false if it has no such actions.
    ///
    /// # Errors
    /// A command fails.
    pub(super) fn set_flow(&self, kind: Kind, count: usize) -> Result<bool, String> {
        let actions: String = match kind {
            Kind::AddField if count > MAX_PUSHED => return Ok(false),
            Kind::SetField => SET[..count].iter().map(|set| format!("{set},")).collect(),
            Kind::AddField => (1..=count)
                .map(|label| format!("push_mpls:0x8847,set_field:{label}->mpls_label,"))
                .collect(),
        };
        let bridge = format!("unix:{}", self.file("br0.mgmt"));
        let source = std::net::Ipv4Addr::from(SOURCE);
        let flow = format!("udp,nw_src={source},actions={actions}output:2");
        self.run(
            "ovs-ofctl",
            &["-O", "OpenFlow13", "add-flow", &bridge, &flow],
        )?;
        // The first packets take the slow path.
        std::thread::sleep(Duration::from_millis(300));
        Ok(true)
    }

    /// Waits for a time. Returns million packets a second of processor time of its core in it.
    ///
    /// # Errors
    /// A command fails.
    pub(super) fn rate(&self, time: Duration) -> Result<f64, String> {
        let first = self.read()?;
        std::thread::sleep(time);
        let second = self.read()?;
        let (packets, nanos) = (second.0 - first.0, second.1 - first.1);
        Ok(packets as f64 * 1e3 / nanos.max(1) as f64)
    }

    /// Reads its packets, and the processor time in ns of the thread that forwards them.
    fn read(&self) -> Result<(u64, u64), String> {
        let control = self.file("vs.ctl");
        let text = self.run(
            "ovs-appctl",
            &["-t", &control, "dpif-netdev/pmd-stats-show"],
        )?;
        let received = text.split("packets received: ").nth(1);
        let packets = received.and_then(|rest| rest.lines().next()?.trim().parse().ok());
        let daemon = self.daemons.last().map_or(0, Child::id);
        let nanos = thread_time(daemon).ok_or("its thread is not there")?;
        Ok((packets.ok_or("it shows no packets")?, nanos))
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn capture(&self) -> Result<(), PcapWriteError> {
        let mut writer = PcapWriter::create(&self.directory.join("in.pcap"))?;
        let frame = udp(SOURCE, FRAME);
        for _ in 0..CAPTURED {
            writer.write(&frame, Nanos::ZERO)?;
        }
        writer.finish()
    }

    /// Runs `ovs-vsctl`.
    fn set(&self, words: &[&str]) -> Result<String, String> {
        let database = format!("--db=unix:{}", self.file("db.sock"));
        let mut all = vec![database.as_str(), "--timeout=20"];
        if self.daemons.len() < 2 {
            all.push("--no-wait");
        }
        all.extend(words);
        self.run("ovs-vsctl", &all)
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, &self.directory);
        }
        command
    }

    /// Runs a command to its end. Returns its output.
    fn run(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let output = self.command(program, words).output();
        let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() && !said.contains("Error detected") {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "{program}: {}",
                said.lines().next().unwrap_or_default()
            )),
        }
    }

    fn spawn(&mut self, program: &str, words: &[&str], name: &str) -> Result<(), String> {
        let control = format!("--unixctl={}", self.file(&format!("{name}.ctl")));
        let pid = format!("--pidfile={}", self.file(&format!("{name}.pid")));
        let mut command = self.command(program, &[words, &[&control, &pid]].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot run {program}: {error}"))?;
        self.daemons.push(child);
        Ok(())
    }

    fn wait_for(&self, socket: &str) -> Result<(), String> {
        let start = Instant::now();
        while !Path::new(socket).exists() {
            if start.elapsed() > PATIENCE {
                return Err("it does not start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the processor time in ns of a process's thread for packets.
fn thread_time(process: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut threads = threads.filter_map(|thread| Some(thread.ok()?.path()));
    let thread = threads.find(|thread| {
        let name = fs::read_to_string(thread.join("comm"));
        name.is_ok_and(|name| name.starts_with("pmd"))
    })?;
    let times = fs::read_to_string(thread.join("schedstat")).ok()?;
    times.split_whitespace().next()?.parse().ok()
}
