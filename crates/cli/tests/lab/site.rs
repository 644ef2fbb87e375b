//! A site: agents, a switch and a master as processes, each host in a network namespace.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use port::Netns;
use support::rng::Rng;

use super::{Directory, Running, Said, polyplane, said};

/// Name of each host's interface.
const INTERFACE: &str = "eth0";

/// Time within which a job has its result or a failure with a name after a kill.
pub(crate) const NAMED: Duration = Duration::from_secs(30);

/// P4Runtime of the switch, in its namespace.
pub(crate) const SERVER: &str = "127.0.0.1:9559";

/// Three mappers and a reducer, each in a namespace, and a switch between them.
pub(crate) struct Site {
    pub(crate) hosts: Vec<Netns>,
    pub(crate) switch_netns: Netns,
    pub(crate) agents: Vec<Option<Running>>,
    pub(crate) switch: Option<Running>,
    pub(crate) master: Option<Running>,
    /// Options of the switch besides its ports.
    pub(crate) switch_options: Vec<String>,
    /// Options of agents besides their addresses.
    pub(crate) agent_options: Vec<String>,
    /// True if the switch hosts tenants: an L3 router that has all other packets.
    pub(crate) hosts_tenants: bool,
    pub(crate) directory: Directory,
}

pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 46, 0, host as u8 + 1)
}

pub(crate) fn mac(host: usize) -> [u8; 6] {
    [2, 0, 0, 0, 46, host as u8 + 1]
}

/// Address of the switch, to which the reducer sends (docs/AGGREGATE.md).
const SWITCH: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

pub(crate) const HOSTS: usize = 4;

/// The reducer's host.
pub(crate) const REDUCER: usize = 3;

impl Site {
    /// Lays the cables and starts all processes. Links have this rate in bits per second. Returns
    /// `None`, and prints the reason, if the machine forbids namespaces.
    pub(crate) fn start(test: &str, rate: u64, switch_options: &[&str]) -> Option<Site> {
        let mut site = Site::lay(test, rate)?;
        site.switch_options = switch_options.iter().map(|it| (*it).to_owned()).collect();
        site.start_all();
        Some(site)
    }

    /// As [`Site::start`], with a switch that hosts tenants.
    pub(crate) fn start_tenants(test: &str, rate: u64, switch_options: &[&str]) -> Option<Site> {
        let mut site = Site::lay(test, rate)?;
        site.switch_options = switch_options.iter().map(|it| (*it).to_owned()).collect();
        site.hosts_tenants = true;
        site.write_topology(20_000);
        site.start_all();
        Some(site)
    }

    fn start_all(&mut self) {
        let site = self;
        (0..HOSTS).for_each(|host| site.start_agent(host));
        site.start_switch();
        site.start_master();
    }

    /// Lays the cables alone.
    pub(crate) fn lay(test: &str, rate: u64) -> Option<Site> {
        let switch_netns = match Netns::create() {
            Ok(netns) => netns,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let _ = switch_netns.run(quiet).unwrap();
        let mut near = switch_netns.rtnl().unwrap();
        near.set_up("lo").unwrap();
        let hosts = (0..HOSTS).map(|host| {
            let netns = Netns::create().unwrap();
            let _ = netns.run(quiet).unwrap();
            let port = format!("port{host}");
            near.add_veth(&port, INTERFACE, Some(&netns)).unwrap();
            near.set_up(&port).unwrap();
            let mut far = netns.rtnl().unwrap();
            far.set_up("lo").unwrap();
            far.set_hardware_address(INTERFACE, mac(host)).unwrap();
            far.add_address(INTERFACE, address(host).into(), 24)
                .unwrap();
            far.set_rate(INTERFACE, rate, 1 << 20).unwrap();
            far.set_up(INTERFACE).unwrap();
            for other in (0..HOSTS).filter(|other| *other != host) {
                far.set_neighbour(INTERFACE, address(other).into(), mac(other))
                    .unwrap();
            }
            let router = Ipv4Addr::new(10, 46, 0, 254);
            far.set_neighbour(INTERFACE, router.into(), [2, 0, 0, 0, 0, 0xfe])
                .unwrap();
            far.add_route(SWITCH.into(), 24, router.into()).unwrap();
            netns
        });
        let hosts = hosts.collect();
        let site = Site {
            hosts,
            switch_netns,
            agents: (0..HOSTS).map(|_| None).collect(),
            switch: None,
            master: None,
            switch_options: Vec::new(),
            agent_options: Vec::new(),
            hosts_tenants: false,
            directory: Directory::new(test),
        };
        site.write_topology(20_000);
        Some(site)
    }

    pub(crate) fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.directory.file(name))
    }

    pub(crate) fn write_topology(&self, slots: u32) {
        let mut text = format!(
            "name = \"site\"\n[[switch]]\nname = \"tor\"\nslots = {slots}\n\
             p4runtime = \"{SERVER}\"\ntenants = {}\n",
            self.hosts_tenants
        );
        for host in 0..HOSTS {
            let name = match host {
                REDUCER => "r".to_owned(),
                _ => format!("w{host}"),
            };
            let mac = mac(host).map(|byte| format!("{byte:02x}")).join(":");
            let agent = self.socket(&format!("agent{host}.sock"));
            write!(
                text,
                "[[host]]\nname = \"{name}\"\nmac = \"{mac}\"\nip = \"{}/24\"\nagent = \"{agent}\"\n\
                 [[link]]\nends = [\"{name}\", \"tor:{host}\"]\n",
                address(host)
            )
            .unwrap();
        }
        self.directory.with("site.toml", text);
    }

    /// Writes a job of three mappers with `words` different words each, and returns its path.
    pub(crate) fn job(&self, name: &str, words: u64, memory: u32) -> String {
        let mut text = String::new();
        for mapper in 0..REDUCER {
            let mut rng = Rng::new(mapper as u64 + 1);
            let mut part = String::new();
            for _ in 0..words {
                writeln!(part, "word{} word{}", rng.below(words), rng.below(words)).unwrap();
            }
            let path = self.directory.with(&format!("{name}{mapper}.txt"), part);
            let host = address(mapper);
            writeln!(text, "data p{mapper} = {host}:{path}").unwrap();
            writeln!(text, "map m{mapper} = words(p{mapper})").unwrap();
        }
        let host = address(REDUCER);
        writeln!(
            text,
            "reduce total = add(m0, m1, m2) at {host} memory {memory}"
        )
        .unwrap();
        self.directory.with(&format!("{name}.job"), text)
    }

    pub(crate) fn start_agent(&mut self, host: usize) {
        let (own, socket) = (
            address(host).to_string(),
            self.socket(&format!("agent{host}.sock")),
        );
        let engines = self.socket(&format!("engines{host}.sock"));
        let mut command = polyplane();
        command.args(["aggregate", "agent", "--address", &own, "--listen", &socket]);
        command.args(["--engines", &engines]);
        command.args(&self.agent_options);
        self.agents[host] = Some(start_in(&self.hosts[host], &mut command, "is served at"));
    }

    pub(crate) fn start_switch(&mut self) {
        let mut command = polyplane();
        let kind = if self.hosts_tenants { "host" } else { "serve" };
        command.args([kind, "--p4runtime", SERVER]);
        for port in 0..HOSTS {
            command.arg("--port").arg(format!("{port}=port{port}"));
        }
        command.args(&self.switch_options);
        let line = if self.hosts_tenants {
            "served at"
        } else {
            "is served at"
        };
        self.switch = Some(start_in(&self.switch_netns, &mut command, line));
        if self.hosts_tenants {
            self.create_router();
        }
    }

    /// Creates the L3 router, which has all packets that no rule of another tenant takes.
    fn create_router(&self) {
        let mut entries = String::new();
        for host in 0..HOSTS {
            let mac = mac(host).map(|byte| format!("{byte:02x}")).join(":");
            writeln!(
                entries,
                "routes {{ hdr.ipv4.dst: {}/32 }} -> next_hop(port: {host}, \
                 own: 02:00:00:00:00:fe, neighbour: {mac})",
                address(host)
            )
            .unwrap();
        }
        let entries = self.directory.with("router.entries", entries);
        let program = super::example("functions/l3_sw.p4");
        for port in (0..HOSTS).map(|port| port.to_string()) {
            self.tenant(&["share", &port, "rules"]);
        }
        let ports = (0..HOSTS).flat_map(|port| ["--port".to_owned(), port.to_string()]);
        let ports: Vec<String> = ports.collect();
        // A master may be there before, so the next free number may be another one.
        let id = "100";
        let mut words = vec!["create", "router", "--id", id, "--program", &program];
        words.extend(ports.iter().map(String::as_str));
        self.tenant(&words);
        self.tenant(&["add-rule", "rest: -> router"]);
        let words = [
            "ctl",
            "--addr",
            SERVER,
            "--device-id",
            id,
            "apply",
            &entries,
        ];
        let said = self.switch_netns.run(|| said(&words)).unwrap();
        assert_eq!(said.status, Some(0), "{}", said.err);
    }

    /// Runs `polyplane tenant`, and returns what it says.
    pub(crate) fn tenant(&self, words: &[&str]) -> Said {
        let words = [&["tenant", "--addr", SERVER], words].concat();
        let said = self.switch_netns.run(|| said(&words)).unwrap();
        assert_eq!(said.status, Some(0), "{words:?}: {}", said.err);
        said
    }

    /// Returns a vPDP of the switch by its name.
    pub(crate) fn vpdp(&self, name: &str) -> Option<serde_json::Value> {
        let listing = self.tenant(&["list", "--json"]).json();
        let mut vpdps = listing["vpdps"].as_array().unwrap().iter();
        vpdps.find(|vpdp| vpdp["name"] == name).cloned()
    }

    /// Returns the names of all vPDPs and rules of the switch.
    pub(crate) fn hosted(&self) -> Vec<String> {
        let listing = self.tenant(&["list", "--json"]).json();
        let vpdps = listing["vpdps"].as_array().unwrap().iter();
        let vpdps = vpdps.map(|vpdp| vpdp["name"].as_str().unwrap().to_owned());
        let rules = listing["rules"].as_array().unwrap().iter();
        vpdps
            .chain(rules.map(|rule| rule.as_str().unwrap().to_owned()))
            .collect()
    }

    pub(crate) fn start_master(&mut self) {
        let (topology, socket) = (self.directory.file("site.toml"), self.socket("master.sock"));
        let mut command = polyplane();
        command.args([
            "aggregate",
            "serve",
            "--fabric",
            &topology,
            "--listen",
            &socket,
        ]);
        self.master = Some(start_in(&self.switch_netns, &mut command, "are served at"));
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Said {
        let socket = self.socket("master.sock");
        said(&[&["aggregate"], words, &["--master", &socket]].concat())
    }

    /// Starts to run a job at the master.
    pub(crate) fn submit(&self, job: &str) -> Running {
        let socket = self.socket("master.sock");
        let words = [
            "aggregate",
            "run",
            job,
            "--master",
            &socket,
            "--verify",
            "--json",
        ];
        Running::start(polyplane().args(words))
    }

    /// Runs a job as soon as the site takes it.
    pub(crate) fn run(&self, job: &str) -> Said {
        self.wait_for_all();
        self.submit(job).finish()
    }

    /// Waits until a job of all hosts is admitted, so that all processes are connected.
    pub(crate) fn wait_for_all(&self) {
        let probe = self.job("probe", 10, 50);
        let start = Instant::now();
        loop {
            let said = self.submit(&probe).finish();
            if said.status == Some(0) {
                return;
            }
            assert!(start.elapsed() < NAMED, "{}\n{}", said.err, said.out);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the number of registers of the switch's program.
    pub(crate) fn registers(&self) -> Option<u64> {
        let words = ["ctl", "--addr", SERVER, "pipeline", "--json"];
        let said = self.switch_netns.run(|| said(&words)).unwrap();
        if said.status != Some(0) {
            return None;
        }
        said.json()["objects"]["registers"].as_u64()
    }

    /// Checks that the switch comes to have nothing of a job.
    pub(crate) fn is_clean(&self) {
        let start = Instant::now();
        while self.registers() != Some(0) {
            assert!(start.elapsed() < NAMED, "{:?} registers", self.registers());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Starts a process in a namespace, and waits for a line of its standard error.
pub(crate) fn start_in(netns: &Netns, command: &mut Command, line: &str) -> Running {
    let mut running = netns.run(|| Running::start(command)).unwrap();
    let stderr = running.0.stderr.take().unwrap();
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let found = lines.find(|found| found.contains(line));
    assert!(found.is_some(), "{command:?} has ended");
    let is_shown = std::env::var_os("SHOW_SITE").is_some();
    std::thread::spawn(move || {
        lines.for_each(|line| {
            if is_shown {
                println!("{line}");
            }
        });
    });
    running
}
