//! Controllers of a served switch: synchronization of the state with a file, and the CPU port.

mod lab;

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;

use lab::{Directory, Running, Said, polyplane};
use support::rng::Xorshift;

/// Path of the program with every kind of object, from the tests of crate `p4rt`.
fn all_objects() -> String {
    format!("{}/../p4rt/tests/p4rt/all.p4", env!("CARGO_MANIFEST_DIR"))
}

/// A switch without ports, at a separate address.
struct Server {
    address: String,
    running: Running,
    /// Kept open, because the switch writes to it.
    _said: BufReader<ChildStderr>,
}

impl Server {
    fn start(more: &[&str]) -> Server {
        let mut command = polyplane();
        command
            .args(["serve", "--p4runtime", "127.0.0.1:0"])
            .args(more);
        let mut running = Running::start(&mut command);
        let mut said = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            let read = said.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the switch has ended");
            if let Some((_, rest)) = line.split_once("P4Runtime is served at ") {
                break rest.split(';').next().unwrap_or(rest).trim().to_owned();
            }
        };
        Server {
            address,
            running,
            _said: said,
        }
    }

    fn ctl(&self, arguments: &[&str]) -> Said {
        let mut command = polyplane();
        command.arg("ctl").args(arguments);
        Running::start(command.args(["--addr", &self.address])).finish()
    }

    fn well(&self, arguments: &[&str]) -> String {
        let Said { status, out, err } = self.ctl(arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {err}{out}");
        out
    }
}

/// A state with an object of every kind.
const STATE: &str = r#"value_set TestParser.special { 2048, 34525 }
multicast 5 { port 1, port 2 instance 7 }
clone 9 { port 3 } truncate 64 class 2
In.profile member 1 -> In.forward(port: 4)
In.selector member 1 -> In.forward(port: 5)
In.selector member 2 -> In.drop()
In.selector group 7 { 1, 2 weight 3 } max_size 4
In.exact_table default -> In.forward(port: 8)
In.exact_table { hdr.ethernet.dst: 00:00:00:00:00:01 } -> In.forward(port: 1) counter packets 5 bytes 320
In.metered { hdr.ethernet.src: 00:11:22:33:44:55 } -> In.read_meter() idle_timeout 30s meter cir 1000 cburst 100 pir 2000 pburst 200
In.lpm_table { hdr.ethernet.dst: 00:11:00:00:00:00/16 } -> In.forward(port: 3)
In.mixed { hdr.ethernet.type: 0x800; meta.a: 3..9; sm.ingress_port: 1 } -> In.forward(port: 2) priority 10
In.indirect { hdr.ethernet.dst: 00:00:00:00:00:03 } -> member 1
In.balanced { hdr.ethernet.dst: 00:00:00:00:00:04 } -> group 7
In.balanced { hdr.ethernet.dst: 00:00:00:00:00:06 } -> member 2
counter In.ports_counter[3] = packets 12
meter In.ports_meter[1] cir 10 cburst 1 pir 20 pburst 2
register In.numbers[2] = 4294967295
register In.rich[0] = { true, green, 7, NoMatch, true, 1, 2, 2048, 3, -4 }
"#;

/// Returns a statement about an object that may exist or not.
fn statement(chance: &mut Xorshift) -> String {
    let (kind, n, m) = (chance.index(16), 1 + chance.index(6), 1 + chance.index(4));
    match kind {
        0 => format!("value_set TestParser.special {{ {} }}", 2048 + n),
        1 => format!("multicast {n} {{ port {m}, port {n} instance 3 }}"),
        2 => format!("clone {} {{ port {m} }} class {n}", 6 + n),
        3 => format!("In.profile member {n} -> In.forward(port: {m})"),
        4 => format!("In.selector member {n} -> In.forward(port: {m})"),
        5 => format!(
            "In.selector group {} {{ {n}, {} weight 2 }} max_size {}",
            5 + m,
            7 - n % 4,
            3 + m % 2
        ),
        6 => format!("In.exact_table default -> In.forward(port: {n})"),
        7 => format!(
            "In.exact_table {{ hdr.ethernet.dst: 00:00:00:00:00:0{n} }} -> In.forward(port: {m}) counter packets {n} bytes 64"
        ),
        8 => format!(
            "In.metered {{ hdr.ethernet.src: 00:11:22:33:44:5{n} }} -> In.read_meter() meter cir {m} cburst 100 pir 2000 pburst 200"
        ),
        9 => format!(
            "In.lpm_table {{ hdr.ethernet.dst: 00:1{n}:00:00:00:00/16 }} -> In.forward(port: {m})"
        ),
        10 => format!(
            "In.mixed {{ hdr.ethernet.type: 0x80{n}; meta.a: 3..9; sm.ingress_port: 1 }} -> In.forward(port: {m}) priority {n}"
        ),
        11 => format!("In.indirect {{ hdr.ethernet.dst: 00:00:00:00:00:0{n} }} -> member {m}"),
        12 => match n % 2 {
            0 => format!(
                "In.balanced {{ hdr.ethernet.dst: 00:00:00:00:00:0{n} }} -> group {}",
                5 + m
            ),
            _ => format!("In.balanced {{ hdr.ethernet.dst: 00:00:00:00:00:0{n} }} -> member {m}"),
        },
        13 => format!("counter In.ports_counter[{n}] = packets {m}"),
        14 => format!(
            "meter In.ports_meter[{}] cir 1 cburst {m} pir 20 pburst 2",
            m - 1
        ),
        _ => format!("register In.numbers[{}] = {n}", m - 1),
    }
}

/// Returns the statements of a dump, sorted: entries of a table have no order.
fn lines(dump: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = dump.lines().collect();
    lines.sort_unstable();
    lines
}

/// Applies `count` random changes: statements are applied, or their objects deleted. Some are
/// refused.
fn change(server: &Server, dir: &Directory, chance: &mut Xorshift, count: usize) {
    for part in 0..count / 50 {
        let statements: Vec<String> = (0..50).map(|_| statement(chance)).collect();
        // A file may contain an entry only once.
        let file = dir.with("changes.entries", statements.join("\n"));
        let how = match part % 4 {
            3 => "--delete",
            _ => "--replace",
        };
        let said = server.ctl(&["apply", how, &file]);
        // Single statements may be refused, but never the file.
        let is_applied = said.out.contains("applied") || said.err.contains("refused;");
        assert!(is_applied, "{}", said.err);
    }
}

#[test]
fn after_any_changes_a_sync_of_a_dump_makes_the_state_that_it_was_made_of() {
    let dir = Directory::new("ctl-sync");
    let server = Server::start(&[]);
    server.well(&["load", &all_objects()]);
    let file = dir.with("state.entries", STATE);
    server.well(&["apply", &file]);
    let dump = server.well(&["dump"]);
    let kept = dir.with("dump.entries", &dump);
    let none = server.well(&["apply", "--sync", &kept]);
    assert!(none.starts_with("0 changes"), "{none}");
    let mut chance = Xorshift::new(0x9e37_79b9_7f4a_7c15);
    for atomic in [None, Some("--atomic"), Some("--atomic=rollback")] {
        change(&server, &dir, &mut chance, 400);
        let changed = server.well(&["dump"]);
        assert_ne!(changed, dump);
        // A dry run changes nothing.
        let shown = server.well(&["apply", "--sync", "--dry-run", &kept]);
        assert_eq!(server.well(&["dump"]), changed);
        let sync = ["apply", "--sync", &kept];
        let applied = match atomic {
            Some(atomic) => server.well(&[&sync[..], &[atomic]].concat()),
            None => server.well(&sync),
        };
        let after = server.well(&["dump"]);
        assert_eq!(lines(&after), lines(&dump), "{shown}");
        let count = |text: &str| text.lines().count();
        assert_eq!(count(&applied), count(&shown), "{applied}\n{shown}");
    }
    // The max_size of a group cannot change: the group is created again, with the entries that
    // refer to it.
    let other = dir.with(
        "other.entries",
        dump.replace("weight 3 } max_size 4", "weight 2 } max_size 3"),
    );
    server.well(&["apply", "--sync", "--atomic", &other]);
    assert!(server.well(&["dump"]).contains("max_size 3"));
    server.well(&["apply", "--sync", &kept]);
    let after = server.well(&["dump"]);
    assert_eq!(lines(&after), lines(&dump));
}

#[test]
fn a_sync_of_a_dump_holds_after_the_switch_was_killed() {
    let dir = Directory::new("ctl-sync-killed");
    let state = dir.file("state");
    let server = Server::start(&["--state", &state]);
    server.well(&["load", &all_objects()]);
    let file = dir.with("state.entries", STATE);
    server.well(&["apply", &file]);
    let dump = server.well(&["dump", "--no-counters", "--no-registers"]);
    let kept = dir.with("dump.entries", &dump);
    change(&server, &dir, &mut Xorshift::new(77), 400);
    let sync = ["apply", "--sync", "--no-counters", "--no-registers", &kept];
    server.well(&sync);
    server.running.signal("KILL");
    drop(server);
    let server = Server::start(&["--state", &state]);
    let after = server.well(&["dump", "--no-counters", "--no-registers"]);
    assert_eq!(lines(&after), lines(&dump));
}

#[test]
fn a_sync_keeps_counters_and_registers_by_the_users_word_and_refuses_an_entry_twice() {
    let dir = Directory::new("ctl-sync-kept");
    let server = Server::start(&[]);
    server.well(&["load", &all_objects()]);
    let file = dir.with("state.entries", STATE);
    server.well(&["apply", &file]);
    let empty = dir.with("empty.entries", "");
    server.well(&["apply", "--sync", "--no-counters", "--no-registers", &empty]);
    let left = server.well(&["dump"]);
    assert!(
        left.contains("counter In.ports_counter[3] = packets 12"),
        "{left}"
    );
    assert!(
        left.contains("register In.numbers[2] = 4294967295"),
        "{left}"
    );
    assert!(!left.contains("In.exact_table {"), "{left}");
    assert!(!left.contains("multicast"), "{left}");
    server.well(&["apply", "--sync", &empty]);
    let left = server.well(&["dump"]);
    assert!(!left.contains("counter In.ports_counter"), "{left}");
    let entry = "In.lpm_table { hdr.ethernet.dst: 00:11:00:00:00:00/16 } -> In.forward(port: 3)\n";
    let twice = dir.with("twice.entries", entry.repeat(2));
    let said = server.ctl(&["apply", "--sync", &twice]);
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("twice.entries:2"), "{}", said.err);
    assert_eq!(server.well(&["dump"]), left);
}

#[test]
fn a_psa_program_that_a_controller_sets_has_the_port_for_controllers_of_psa() {
    let server = Server::start(&[]);
    let program = format!(
        "{}/tests/programs/psa_controllers.p4",
        env!("CARGO_MANIFEST_DIR")
    );
    server.well(&["load", &program]);
    let packet = "0000000000010000000000020800";
    let told = server.well(&["packets", "--out", packet, "--count", "1"]);
    assert!(told.contains("ingress_port=4294967293"), "{told}");
    assert!(told.contains(packet), "{told}");
}

#[test]
fn a_dry_run_foresees_what_the_server_refuses_and_a_sync_says_what_it_made() {
    let dir = Directory::new("ctl-sync-refused");
    let server = Server::start(&[]);
    server.well(&["load", &all_objects()]);
    // Without this, the first synchronization deletes the initial entries of the program.
    let empty = dir.with("empty.entries", "");
    server.well(&["apply", "--sync", &empty]);
    let good = "multicast 5 { port 1 }\n";
    for (bad, why) in [
        (
            "In.mixed { meta.b: 9; sm.ingress_port: 1 } -> In.forward(1) priority 3",
            "@entry_restriction: `meta.b != 9` does not hold",
        ),
        (
            "In.exact_table { hdr.ethernet.dst: 1 } -> In.flood(0)",
            "@action_restriction: `group != 0` does not hold",
        ),
        (
            "In.exact_table { hdr.ethernet.dst: 1 } -> NoAction()",
            "cannot be used in entries",
        ),
        (
            "In.exact_table default -> In.drop()",
            "cannot be used as default action",
        ),
        (
            "In.lpm_table { hdr.ethernet.dst: 00:11:00:00:00:00/16 } -> In.forward(1) idle_timeout 1s",
            "no idle time-outs",
        ),
        (
            "In.mixed { sm.ingress_port: 1 } -> In.forward(1) priority 3 counter packets 1",
            "direct counter",
        ),
        (
            "In.mixed { sm.ingress_port: 1 } -> In.forward(1) priority 3 meter cir 1 cburst 1 pir 1 pburst 1",
            "direct meter",
        ),
        (
            "In.balanced { hdr.ethernet.dst: 1 } -> In.forward(1)",
            "give a member or a group",
        ),
        ("In.balanced { hdr.ethernet.dst: 1 } -> group 3", "group 3"),
        (
            "In.indirect { hdr.ethernet.dst: 1 } -> member 3",
            "member 3",
        ),
        (
            "In.indirect { hdr.ethernet.dst: 1 } -> group 3",
            "no selector",
        ),
        ("In.selector group 3 { 4 } max_size 2", "no member 4"),
        ("In.selector group 3 { } max_size 9", "within 1 to 4"),
    ] {
        let file = dir.with("bad.entries", format!("{good}{bad}\n"));
        let foreseen = server.ctl(&["apply", "--sync", "--dry-run", &file]);
        let made = server.ctl(&["apply", "--sync", &file]);
        for (said, end) in [
            (
                &foreseen,
                "1 of 2 changes would be refused; nothing was written",
            ),
            (&made, "1 of 2 changes was refused; the other one was made"),
        ] {
            assert_eq!(said.status, Some(1), "{bad}: {}{}", said.err, said.out);
            for part in ["bad.entries:2:1: error:", why, end] {
                assert!(said.err.contains(part), "{bad}: {part}: {}", said.err);
            }
        }
        let atomic = dir.with(
            "atomic.entries",
            format!("multicast 6 {{ port 1 }}\n{bad}\n"),
        );
        let atomic = server.ctl(&["apply", "--sync", "--atomic=rollback", &atomic]);
        assert!(
            atomic.err.contains("changes was refused; nothing was made"),
            "{bad}: {}",
            atomic.err
        );
        server.well(&["apply", "--sync", &empty]);
    }
}
