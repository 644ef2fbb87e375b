//! Programs that attack the compiler, set by a tenant beside another one. Each compilation ends
//! within the tenant's quotas, no work of it continues afterwards, and the other tenant's packets
//! pass.

mod lab;

use std::process::Command;
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, polyplane, to_other_host};
use p4info::p4::v1 as rt;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4info::polyplane::tenancy::v1::function::Function as OneFunction;
use p4rt::client::{Client, ClientError, Endpoint, Operator};

/// The quotas of the hostile tenant.
const QUOTAS: [&str; 2] = ["compile-ms=1000", "compile-bytes=200000000"];

/// Time after which a refused or cancelled compilation must have stopped. Without optimization
/// the code between two checkpoints takes longer.
const AFTER: Duration = match cfg!(debug_assertions) {
    true => Duration::from_secs(2),
    false => Duration::from_millis(100),
};

/// Window in which a process's CPU usage is measured.
const WINDOW: Duration = Duration::from_millis(200);

/// CPU ticks of 10 ms per window that only a compilation reaches.
const BUSY_TICKS: u64 = 8;

/// Returns a v1model program with these parts.
fn program(top: &str, parser: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\nstruct H {{}}\nstruct M {{ bit<32> x; }}\n{top}\n\
         parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{\n{parser}\n}}\n\
         control V(inout H h, inout M m) {{ apply {{}} }}\n\
         control I(inout H h, inout M m, inout standard_metadata_t s) {{\n{locals}\n\
         apply {{\n{apply}\n}} }}\n\
         control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control C(inout H h, inout M m) {{ apply {{}} }}\n\
         control D(packet_out p, in H h) {{ apply {{}} }}\n\
         V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    )
}

/// Number of states and actions in the largest programs.
const MANY: usize = match cfg!(debug_assertions) {
    true => 3_000,
    false => 16_000,
};

const START: &str = "state start { transition accept; }";

/// Returns a program that forwards each packet by the other one of two ports.
fn cable() -> String {
    program("", START, "", "s.egress_spec = s.ingress_port ^ 1;")
}

/// Returns a parser with a chain of states, which is slow to compile.
fn states(count: usize) -> String {
    let state = |n| {
        let next = n + 1;
        format!("state s{n} {{ m.x = m.x * 3 + {n}; transition s{next}; }}\n")
    };
    let chain: String = (0..count).map(state).collect();
    let parser =
        format!("state start {{ transition s0; }}\n{chain}state s{count} {{ transition accept; }}");
    program("", &parser, "", "s.egress_spec = 1;")
}

/// Returns controls or parsers, each of which uses the one before it twice.
fn doubling(kind: &str, body: impl Fn(usize) -> String, first: &str, depth: usize) -> String {
    let one = |n| format!("{kind} k{n}(inout bit<32> x) {{ {} }}\n", body(n));
    format!("{first}\n{}", (1..depth).map(one).collect::<String>())
}

/// Returns hostile programs by name. Those of [`REFUSED`] are refused under any quota.
fn hostile() -> Vec<(&'static str, String)> {
    let controls = doubling(
        "control",
        |n| {
            format!(
                "k{0}() a; k{0}() b; apply {{ a.apply(x); b.apply(x); }}",
                n - 1
            )
        },
        "control k0(inout bit<32> x) { apply { x = x + 1; } }",
        27,
    );
    let parsers = doubling(
        "parser",
        |n| {
            format!(
                "k{0}() a; k{0}() b; state start {{ a.apply(x); b.apply(x); transition accept; }}",
                n - 1
            )
        },
        "parser k0(inout bit<32> x) { state start { x = x + 1; transition accept; } }",
        25,
    );
    let macros: String = (1..40)
        .map(|n| format!("#define A{n} A{0} A{0}\n", n - 1))
        .collect();
    let actions: String = (0..MANY)
        .map(|n| format!("action a{n}(bit<32> v) {{ m.x = v + {n}; }}\n"))
        .collect();
    let listed: String = (0..MANY).map(|n| format!("a{n};")).collect();
    let apply = |apply: &str| program("", START, "", apply);
    vec![
        (
            "controls applied twice",
            program(&controls, START, "k26() k;", "k.apply(m.x);"),
        ),
        (
            "parsers applied twice",
            program(
                &parsers,
                "k24() k; state start { k.apply(m.x); transition accept; }",
                "",
                "",
            ),
        ),
        (
            "a concatenation",
            apply(&format!("m.x = ({}8w1)[31:0];", "8w1 ++ ".repeat(255))),
        ),
        (
            "nested parentheses",
            apply(&format!(
                "m.x = {}1{};",
                "(".repeat(50_000),
                ")".repeat(50_000)
            )),
        ),
        (
            "macros that double",
            format!("#define A0 1 +\n{macros}{}", apply("m.x = A39 1;")),
        ),
        (
            "included files",
            "#include <core.p4>\n".repeat(20_000) + &cable(),
        ),
        ("states", states(MANY)),
        (
            "actions",
            program(
                "",
                START,
                &format!(
                    "{actions}table t {{ key = {{ m.x: exact; }} actions = {{ {listed} NoAction; }} \
                     default_action = NoAction(); }}"
                ),
                "t.apply();",
            ),
        ),
    ]
}

/// Programs that no quota permits.
const REFUSED: [&str; 5] = [
    "controls applied twice",
    "parsers applied twice",
    "nested parentheses",
    "macros that double",
    "included files",
];

/// A switch that hosts `victim` (device 1) between its two ports, and `hostile` (device 2).
struct Switch {
    cables: Cables,
    running: Running,
    endpoint: Endpoint,
    operator: Operator,
    frames: u16,
}

fn function(text: String) -> Option<wire::Function> {
    Some(wire::Function {
        function: Some(OneFunction::Program(text)),
    })
}

/// Sets a device's program.
fn set(endpoint: &Endpoint, device: u64, text: &str) -> Result<(), ClientError> {
    let config = rt::ForwardingPipelineConfig {
        p4_device_config: text.into(),
        ..Default::default()
    };
    let mut client = Client::connect(endpoint, device, "")?;
    client.arbitrate(Some(1))?;
    client.set_config(Action::VerifyAndCommit, config, &[])
}

/// Returns the peak memory of a process.
fn peak_kib(running: &Running) -> u64 {
    let status = format!("/proc/{}/status", running.0.id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

/// Checks that an error has what a user needs.
fn check_error(name: &str, error: &ClientError) {
    let error = error.to_string();
    // It names the position or the quota.
    assert!(
        error.contains("error[E") || error.contains("compile-") || error.contains(" at "),
        "{name}: {error}"
    );
    assert!(error.len() < 8 << 10, "{name}: {} bytes", error.len());
}

impl Switch {
    /// Returns `None` if the machine forbids namespaces.
    fn start(port: u16) -> Option<Switch> {
        let cables = Cables::new(2)?;
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let mut command = polyplane();
        command.args(["host", "--p4runtime", &format!("127.0.0.1:{port}")]);
        command.args(["--port", "0=port0", "--port", "1=port1"]);
        let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
        let address = running.served_address();
        let endpoint = Endpoint { address, tls: None };
        let connect = || Operator::connect(&endpoint);
        let operator = cables.switch.run(connect).unwrap().unwrap();
        let mut switch = Switch {
            cables,
            running,
            endpoint,
            operator,
            frames: 0,
        };
        switch.change(Change::Create(wire::Create {
            id: 1,
            name: "victim".to_owned(),
            ports: vec!["0".to_owned(), "1".to_owned()],
            ..Default::default()
        }));
        switch.change(Change::SetProgram(wire::SetProgram {
            vpdp: "victim".to_owned(),
            function: function(cable()),
            may_lose: Vec::new(),
        }));
        switch.create_hostile();
        Some(switch)
    }

    fn change(&mut self, change: Change) {
        let Switch { operator, .. } = self;
        let asked = || operator.change(change).unwrap();
        self.cables.switch.run(asked).unwrap();
    }

    fn create_hostile(&mut self) {
        self.change(Change::Create(wire::Create {
            id: 2,
            name: "hostile".to_owned(),
            quotas: QUOTAS.map(str::to_owned).into(),
            ..Default::default()
        }));
    }

    /// Sets a program of the hostile tenant.
    fn set(&self, text: &str) -> Result<(), ClientError> {
        let set = || set(&self.endpoint, 2, text);
        self.cables.switch.run(set).unwrap()
    }

    /// Returns true if the victim's packets pass.
    fn passes(&mut self) -> bool {
        self.frames += 1;
        let frame = to_other_host(1, 64, self.frames);
        self.cables.carries(0, &frame) == Some(1)
    }

    /// Returns the CPU ticks that the switch has used.
    fn ticks(&self) -> u64 {
        let stat = format!("/proc/{}/stat", self.running.0.id());
        let stat = std::fs::read_to_string(stat).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |at: usize| fields[at].parse::<u64>().unwrap();
        field(11) + field(12)
    }

    fn ticks_of_window(&self) -> u64 {
        let before = self.ticks();
        std::thread::sleep(WINDOW);
        self.ticks() - before
    }

    /// Returns the time until the switch uses no more CPU than `idle` ticks per window.
    fn quiet_after(&self, idle: u64) -> Duration {
        let begin = Instant::now();
        loop {
            let quiet = begin.elapsed();
            if self.ticks_of_window() < idle + BUSY_TICKS {
                return quiet;
            }
            assert!(quiet < Duration::from_secs(60), "it stays busy");
        }
    }
}

#[test]
fn hostile_programs_end_within_their_quotas_and_other_packets_pass() {
    let Some(mut switch) = Switch::start(9661) else {
        return;
    };
    assert!(switch.passes());
    let idle = switch.ticks_of_window();
    let before = peak_kib(&switch.running);
    for (name, text) in hostile() {
        let begin = Instant::now();
        let ended = switch.set(&text);
        let took = begin.elapsed();
        let quiet = switch.quiet_after(idle);
        println!("{name}: {took:?}, quiet after {quiet:?}: {ended:?}");
        match &ended {
            Err(error) => check_error(name, error),
            Ok(()) => assert!(!REFUSED.contains(&name), "{name} is accepted"),
        }
        // The quota is a second; transferring a message of 300 KB takes time, too.
        assert!(took < Duration::from_secs(8), "{name}: {took:?}");
        assert!(quiet <= AFTER, "{name}: {quiet:?}");
        assert!(switch.passes(), "{name}");
    }
    let grown = peak_kib(&switch.running) - before;
    assert!(grown < 500 << 10, "the switch has grown by {grown} KiB");
}

#[test]
fn nothing_of_a_compilation_runs_on_when_its_client_or_its_vpdp_has_gone() {
    let Some(mut switch) = Switch::start(9662) else {
        return;
    };
    let idle = switch.ticks_of_window();
    let quotas = || vec!["compile-ms=600000".to_owned()];
    let text = states(3000);
    let directory = Directory::new("hostile-gone");
    let file = directory.with("states.p4", &text);
    for gone in ["client", "vPDP"] {
        switch.change(Change::SetQuotas(wire::SetQuotas {
            vpdp: "hostile".to_owned(),
            quotas: quotas(),
        }));
        let mut command: Command = polyplane();
        let address = switch.endpoint.address.clone();
        command.args(["ctl", "--addr", &address, "--device-id", "2", "load", &file]);
        let client = switch.cables.switch.run(|| Running::start(&mut command));
        let mut client = client.unwrap();
        let begin = Instant::now();
        while switch.ticks_of_window() < idle + BUSY_TICKS && begin.elapsed().as_secs() < 20 {
            if client.0.try_wait().unwrap().is_some() {
                let said = client.finish();
                panic!("it ended before it was seen: {}{}", said.out, said.err);
            }
        }
        assert!(
            begin.elapsed().as_secs() < 20,
            "the compilation was not seen"
        );
        match gone {
            "client" => drop(client),
            _ => {
                switch.change(Change::Delete("hostile".to_owned()));
                let said = client.finish();
                assert_eq!(said.status, Some(1), "{}{}", said.out, said.err);
            }
        }
        let quiet = switch.quiet_after(idle);
        println!("{gone}: quiet after {quiet:?}");
        assert!(quiet <= AFTER, "{gone}: {quiet:?}");
        assert!(switch.passes());
    }
}

#[test]
fn a_controller_of_one_switch_cannot_make_it_compile_for_long() {
    let mut command = polyplane();
    command.args(["serve", "--p4runtime", "127.0.0.1:0"]);
    let mut running = Running::start(&mut command);
    let address = running.served_address();
    let endpoint = Endpoint { address, tls: None };
    let before = peak_kib(&running);
    for (name, text) in hostile() {
        let begin = Instant::now();
        let ended = set(&endpoint, 1, &text);
        println!("{name}: {:?}: {ended:?}", begin.elapsed());
        match &ended {
            Err(error) => check_error(name, error),
            Ok(()) => assert!(!REFUSED.contains(&name), "{name} is accepted"),
        }
        let most = match cfg!(debug_assertions) {
            true => Duration::from_secs(60),
            false => Duration::from_secs(4),
        };
        assert!(begin.elapsed() < most, "{name}: {:?}", begin.elapsed());
    }
    let grown = peak_kib(&running) - before;
    println!("the switch has grown by {grown} KiB");
    assert!(grown < 500 << 10, "the switch has grown by {grown} KiB");
}
