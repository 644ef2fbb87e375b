//! Runs the STF test of every program in a virtual data plane, alone and as a step of a chain. The
//! results must be the same as on a device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exec::Engine;
use ir::{Arch, Program};
use packet::{Frame, Nanos, PortId};
use passes::compose::ComposeProblem;
use stf::{PacketPlane, TakeSent};
use switch::{Device, PacketProcessor};
use tenancy::{Chain, Connection, Function, HypervisorError, Spec, TenantSwitch, VpdpId, Worker};

/// Stack size for deep expressions.
const STACK_BYTES: usize = 64 << 20;

/// Number of ports of the vPDP under test. Its ports are those of the switch from [`FIRST`], in
/// reverse order.
const PORTS: u32 = 512;
const FIRST: u32 = 1000;

/// A test that uses a port that no vPDP has: PSA's recirculation port.
const REFUSED: [&str; 1] = ["psa_router"];

/// A vPDP with another one on the same switch, which has one worker.
struct Hosted {
    hypervisor: TenantSwitch,
    worker: Worker,
    vpdp: VpdpId,
}

fn physical(port: u32) -> PortId {
    PortId(FIRST + PORTS - 1 - port)
}

impl Hosted {
    fn new(function: &Function, engine: Arc<dyn Engine>) -> Result<Self, HypervisorError> {
        let mut hypervisor = TenantSwitch::new(engine);
        let mut vpdps = Vec::new();
        for (name, base) in [("neighbour", 0), ("tested", FIRST)] {
            let ports = (0..PORTS).map(|port| match base {
                0 => PortId(port),
                _ => physical(port),
            });
            let vpdp = hypervisor.create(Spec {
                name: name.into(),
                ports: ports.map(Connection::Physical).collect(),
                ..Spec::default()
            })?;
            hypervisor.load(vpdp, function.clone())?;
            vpdps.push(vpdp);
        }
        let mut workers = hypervisor.workers(1);
        Ok(Hosted {
            hypervisor,
            worker: workers.remove(0),
            vpdp: vpdps[1],
        })
    }

    fn run(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut take = |port: PortId, frame: &mut Frame, at: Nanos| {
            let port = (FIRST + PORTS - 1).checked_sub(port.0);
            let port = port.filter(|port| *port < PORTS);
            sent(PortId(port.expect("a port of the vPDP")), frame, at);
        };
        self.device_mut().publish();
        self.worker.forward(frames, now, &mut take);
        self.worker.forward(&mut [], now, &mut take);
        self.hypervisor.step(now, &mut take);
    }
}

impl PacketProcessor for Hosted {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        for frame in &mut *frames {
            frame.ingress = physical(frame.ingress.0);
        }
        self.run(frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        let times = [self.device().next_time(), self.worker.next_time()];
        times.into_iter().flatten().min()
    }
}

impl PacketPlane for Hosted {
    fn device(&self) -> &Device {
        let vpdp = self.hypervisor.vpdp(self.vpdp).expect("it is there");
        vpdp.device().expect("a program is loaded")
    }

    fn device_mut(&mut self) -> &mut Device {
        let device = self.hypervisor.device_mut(self.vpdp);
        device.expect("a program is loaded")
    }

    fn step(&mut self, now: Nanos, sent: &mut TakeSent<'_>) {
        self.run(&mut [], now, |port, frame, _| sent(port, frame.bytes()));
    }
}

/// Runs a program's test on a vPDP with this function on every engine. Returns the failures.
fn failures(path: &Path, function: &Function, what: &str) -> Vec<String> {
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).expect("the test can be read");
    let directory = path.parent().expect("a file is in a directory");
    let read_file = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let file = test.display().to_string();
    let mut failures = Vec::new();
    for engine in testkit::engines() {
        let at = format!("{what} on {}: {file}", engine.name());
        let mut hosted = match Hosted::new(function, engine) {
            Ok(hosted) => hosted,
            Err(refusal) => {
                failures.push(format!("{at}: {refusal}"));
                continue;
            }
        };
        match stf::run_in(&mut hosted, &read_file, &file, &text) {
            Ok(report) => {
                let told = report.failures.iter();
                failures.extend(told.map(|f| format!("{at}:{}: {}", f.line, f.message)));
            }
            Err(refused) => failures.push(format!("{at}: {refused:?}")),
        }
        if let Err(error) = hosted.hypervisor.check_conservation() {
            failures.push(format!("{at}: {error}"));
        }
    }
    failures
}

/// Checks the programs of a directory that a vPDP can run. There must be `at_least` of them.
fn all_pass(
    directory: &str,
    at_least: usize,
    check: impl Fn(&Path, Arc<Program>) -> Vec<String> + Send + 'static,
) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = worker.spawn(move || {
        let mut programs = testkit::tested(&root);
        let is_refused = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default();
            REFUSED.iter().any(|refused| name == *refused)
        };
        programs.retain(|path| !is_refused(path));
        assert!(programs.len() >= at_least, "only {} tests", programs.len());
        let check = |path: &PathBuf| check(path, testkit::compile(path).expect("it compiles"));
        programs.iter().flat_map(check).collect::<Vec<_>>()
    });
    let failures = checked.expect("a thread starts").join().expect("no panic");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn by_itself(path: &Path, program: Arc<Program>) -> Vec<String> {
    failures(path, &Function::Program(program), "by itself")
}

#[test]
fn every_feature_does_in_a_vpdp_what_its_test_says() {
    all_pass("programs", 70, by_itself);
}

#[test]
fn every_example_does_in_a_vpdp_what_its_test_says() {
    all_pass("../examples", 18, by_itself);
}

/// Programs of which the egress acts on the copies of a group, for example to omit the one for the
/// ingress port. Before the last step there is only one packet (docs/reference/policy.md).
const OTHERWISE_IF_FOLLOWED: [&str; 6] = [
    "l2_sw",
    "learning",
    "multicast",
    "multicast_ptp",
    "pol1",
    "pol2",
];

/// Checks a program between steps that do nothing. Programs for other architectures than v1model
/// cannot be in chains, and must be refused.
fn in_chain(path: &Path, program: Arc<Program>, pass: &Arc<Program>) -> Vec<String> {
    let is_v1model = program.arch == Arch::V1model;
    let name = path.file_stem().unwrap_or_default();
    let policy = match OTHERWISE_IF_FOLLOWED.iter().any(|other| name == *other) {
        true => "before -> x",
        false => "before -> x -> after",
    };
    let steps = [("before", pass), ("x", &program), ("after", pass)];
    let steps = steps.map(|(step, program)| (step.to_owned(), Arc::clone(program)));
    let function = Function::from(Chain::read(policy, steps).expect("a policy"));
    if is_v1model {
        return failures(path, &function, policy);
    }
    match Hosted::new(&function, testkit::engines().remove(0)) {
        Err(HypervisorError::Compose(_, error))
            if matches!(error.problem, ComposeProblem::Architecture { .. }) =>
        {
            Vec::new()
        }
        Err(other) => vec![format!("{}: {other}", path.display())],
        Ok(_) => vec![format!("{}: it is taken", path.display())],
    }
}

fn all_pass_in_chains(directory: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pass = testkit::compile(&root.join("programs/pass_through.p4")).expect("it compiles");
    all_pass(directory, at_least, move |path, program| {
        in_chain(path, program, &pass)
    });
}

#[test]
fn every_feature_between_steps_that_do_nothing_does_in_a_vpdp_what_its_test_says() {
    all_pass_in_chains("programs", 70);
}

#[test]
fn every_example_between_steps_that_do_nothing_does_in_a_vpdp_what_its_test_says() {
    all_pass_in_chains("../examples", 18);
}
