//! Loop files: shipped ones are right, and all mistakes of a wrong one are named with their lines.

mod common;

use common::{bed, example, read};
use reflex::{ChangeSpec, ElementIndex, Loops, ManagedElement};

/// Names of the examples.
const EXAMPLES: [&str; 9] = [
    "slow_link",
    "members",
    "spreader",
    "routing_loop",
    "rate_limit",
    "microburst",
    "tuning",
    "p4_burst",
    "drops",
];

const HEAD: &str = r#"[[element]]
name = "leaf1"
node = 1
[[source]]
listen = "host:collector"
from = [{ node = 2, address = "10.9.0.2" }]
"#;

/// Returns the mistakes of a text after [`HEAD`], with their lines from its end on.
fn mistakes(text: &str) -> Vec<(usize, String, String)> {
    let error = Loops::read("loops.toml", &format!("{HEAD}{text}")).expect_err("it is wrong");
    let first = HEAD.lines().count();
    let mistakes = error.mistakes.into_iter();
    mistakes
        .map(|it| (it.line.saturating_sub(first), it.message, it.mend))
        .collect()
}

fn check(text: &str, expected: &[(usize, &str)]) {
    let mut found = mistakes(text);
    found.sort();
    let found: Vec<(usize, &str)> = found
        .iter()
        .inspect(|(_, _, mend)| assert!(!mend.is_empty()))
        .map(|(line, message, _)| (*line, message.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn each_example_has_switches_that_its_permissions_fit() {
    let folders = std::fs::read_dir(example("")).unwrap();
    let folders = folders.filter(|it| it.as_ref().unwrap().path().join("loops.toml").exists());
    assert_eq!(folders.count(), EXAMPLES.len());
    for name in EXAMPLES {
        // It binds all elements to their switches.
        let bed = bed(name, |fabric, loops| (fabric, loops));
        assert!(!bed.plane.get().plane().loops().monitors.is_empty());
    }
}

#[test]
fn a_monitor_is_of_a_kind_or_a_program() {
    check(
        r#"[[monitor]]
name = "a"
match = ["any"]
[[monitor]]
name = "b"
kind = "loops"
program = "b.p4"
match = ["any"]
[[monitor]]
name = "c"
kind = "loops"
entries = "c.entries"
match = ["any"]
[[monitor]]
name = "d"
program = "d.p4"
entries = ""
window = 10
match = ["any"]
reflexes = ["block host", "block-host"]
[[reflex]]
name = "block host"
element = "leaf1"
table = "t"
key = ["ip.src"]
action = "drop"
[[reflex]]
name = "block-host"
element = "leaf1"
table = "u"
key = ["ip.src"]
action = "drop"
"#,
        &[
            (2, "the monitor has neither `kind` nor `program`"),
            (7, "the monitor has both `kind` and `program`"),
            (12, "a monitor of kind loops has no setting `entries`"),
            (
                16,
                "the reflexes \"block host\" and \"block-host\" are both REFLEX_BLOCK_HOST in the \
                 program",
            ),
            (17, "`entries` names no file"),
            (18, "a monitor with a program has no setting `window`"),
        ],
    );
}

#[test]
fn numbers_of_any_size_are_refused_without_an_overflow() {
    check(
        r#"[[monitor]]
name = "a"
kind = "spreader"
match = ["any"]
peers = 9223372036854775807
hosts = 9223372036854775807
reflex = "r"
[[monitor]]
name = "b"
kind = "microburst"
match = ["any"]
above = "10 KB"
share = 4000000000
[[reflex]]
name = "r"
element = "leaf1"
table = "t"
key = ["ip.src"]
action = "drop"
"#,
        &[
            (3, "4194304 hosts with 4096 peers each need too much memory"),
            (5, "9223372036854775807 is too large"),
            (6, "9223372036854775807 is too large"),
            (13, "4000000000 percent of a queue are more than all"),
        ],
    );
}

#[test]
fn an_unknown_key_has_the_known_one_that_is_like_it() {
    let found =
        mistakes("[[monitor]]\nname = \"a\"\nkind = \"loops\"\nmatch = [\"any\"]\nreflx = \"b\"\n");
    let Some((5, message, mend)) = found.first() else {
        panic!("{found:?}");
    };
    assert!(message.starts_with("unknown field `reflx`"), "{message}");
    assert!(mend.starts_with("did you mean `reflex`?"), "{mend}");
}

#[test]
fn settings_of_other_kinds_and_missing_ones_are_mistakes() {
    check(
        r#"[[monitor]]
name = "a"
kind = "spreader"
match = ["any"]
window = 10
distinct = ["ip.src"]
reflex = "r"
[[monitor]]
name = "b"
kind = "loops"
match = ["any"]
above = "10 us"
[[monitor]]
name = "c"
kind = "rate_limit"
match = ["any"]
every = "0 s"
[[monitor]]
name = "d"
kind = "microburst"
match = ["any"]
share = 101
entitled = ["ip.src 10.0.0.0/8", "colour red 5 %"]
[[monitor]]
name = "e"
kind = "tuning"
match = ["any"]
least = 9
most = 8
[[monitor]]
name = "f"
kind = "sketch"
match = ["any"]
[[monitor]]
name = "g"
kind = "path_latency"
match = ["any"]
above = "1 us"
flows = 4_000_000
window = 1
[[reflex]]
name = "r"
element = "leaf1"
table = "t"
key = ["ip.src"]
action = "drop"
"#,
        &[
            (3, "the monitor has no number of peers"),
            (5, "a monitor of kind spreader has no setting `window`"),
            (6, "\"ip.src\" is the host itself"),
            (12, "a monitor of kind loops has no setting `above`"),
            (15, "the monitor has no limit"),
            (17, "nothing can be measured over \"0 s\""),
            (20, "the monitor has no threshold"),
            (22, "101 percent of a queue are more than all"),
            (23, "\"colour\" is no fact of a report"),
            (23, "\"ip.src 10.0.0.0/8\" is no rule with a share"),
            (26, "the monitor has no `node`"),
            (26, "the monitor has no `port`"),
            (26, "the monitor has no objective"),
            (28, "thresholds from 9 to 8 packets are none"),
            (32, "\"sketch\" is not understood"),
            (
                36,
                "4000000 flows with 1 samples each take 1056 MiB of memory",
            ),
        ],
    );
}

#[test]
fn a_million_flows_with_ten_samples_are_not_too_many() {
    // All mistakes are found at once: none is of the memory.
    let text = r#"
[[monitor]]
name = "slow paths"
kind = "path_latency"
match = ["any"]
flows = 1_000_000
window = 10
above = "1 us"
[[monitor]]
name = "other"
kind = "sketch"
match = ["any"]
"#;
    check(
        text,
        &[
            (0, "no reflex changes the element \"leaf1\""),
            (11, "\"sketch\" is not understood"),
        ],
    );
}

#[test]
fn a_permission_that_does_not_fit_its_monitor_is_a_mistake() {
    let monitors = [
        (
            "path_latency",
            "above = \"1 us\"",
            ["entry", "meter", "queue", "limited"].as_slice(),
        ),
        ("loops", "", &["entry", "meter", "queue", "limited"]),
        ("spreader", "peers = 5", &["detour", "meter", "queue"]),
        (
            "rate_limit",
            "limit = \"1 Gbit/s\"",
            &["detour", "entry", "queue", "limited"],
        ),
        (
            "microburst",
            "above = \"9 KB\"",
            &["entry", "meter", "queue"],
        ),
        (
            "tuning",
            "node = 1\nport = 3\nobjective = \"1 ms\"",
            &["detour", "entry", "meter", "limited"],
        ),
    ];
    let reflexes = r#"
[[reflex]]
name = "detour"
element = "leaf1"
table = "t1"
key = ["ip.dst"]
action = "via"
ports = [3, 4]
[[reflex]]
name = "entry"
element = "leaf1"
table = "t2"
key = ["ip.src"]
action = "drop"
[[reflex]]
name = "limited"
element = "leaf1"
table = "t3"
key = ["ip.src"]
action = "police"
meter_rate = "1 Mbit/s"
[[reflex]]
name = "meter"
element = "leaf1"
meter = "m"
[[reflex]]
name = "queue"
element = "leaf1"
queue = 3
"#;
    for (kind, settings, wrong) in monitors {
        let text = format!(
            "[[monitor]]\nname = \"m\"\nkind = \"{kind}\"\nmatch = [\"any\"]\n{settings}\n\
             reflexes = [\"detour\", \"entry\", \"limited\", \"meter\", \"queue\"]\n{reflexes}"
        );
        let found = mistakes(&text);
        let line = 6 + settings.lines().count() - 1 + usize::from(settings.is_empty());
        for (at, message, mend) in &found {
            assert_eq!(*at, line, "{message}");
            assert!(message.starts_with(&format!("a monitor of kind {kind} cannot use")));
            assert!(mend.starts_with("give it "), "{mend}");
        }
        let mut named: Vec<&str> = wrong.to_vec();
        named.sort_unstable();
        let found: Vec<&str> = found
            .iter()
            .map(|(_, it, _)| it.split('"').nth(1).unwrap())
            .collect();
        assert_eq!(found, named, "{kind}");
    }
}

#[test]
fn what_is_unused_or_changed_twice_is_named() {
    check(
        r#"[[element]]
name = "spare"
[[monitor]]
name = "m"
kind = "tuning"
match = ["any"]
node = 1
port = 3
objective = "1 ms"
reflexes = ["a", "b", "a"]
[[reflex]]
name = "a"
element = "leaf1"
queue = 3
life = "1 s"
[[reflex]]
name = "b"
element = "leaf1"
queue = 3
[[reflex]]
name = "c"
element = "leaf1"
queue = 4
"#,
        &[
            (2, "no reflex changes the element \"spare\""),
            (10, "the reflex \"a\" has a `life`"),
            (10, "the reflex \"a\" has a `life`"),
            (10, "the reflex \"a\" is there twice"),
            (17, "another reflex changes queue of leaf1"),
            (21, "no monitor uses the reflex \"c\""),
        ],
    );
}

#[test]
fn wrong_settings_of_permissions_are_named() {
    check(
        r#"[[monitor]]
name = "m"
kind = "loops"
match = ["any"]
reflexes = ["a", "b", "c", "d"]
[[reflex]]
name = "a"
element = "leaf1"
table = "t"
key = ["ip.src"]
action = "via"
ports = [3, 4]
prefixes = ["10.0.0.1/8", "ten"]
cell = 3
rate = "0/s"
hold = "1"
life = "0 s"
[[reflex]]
name = "b"
element = "leaf1"
[[reflex]]
name = "c"
element = "leaf1"
meter = "m"
register = "r"
[[reflex]]
name = "d"
element = "leaf1"
table = "t4"
"#,
        &[
            (5, "a monitor of kind loops cannot use the reflex \"b\""),
            (5, "a monitor of kind loops cannot use the reflex \"c\""),
            (5, "a monitor of kind loops cannot use the reflex \"d\""),
            (13, "\"10.0.0.1/8\" has bits after the prefix"),
            (13, "\"ten\" is no prefix"),
            (13, "prefixes are of ip.dst, which is no key"),
            (14, "the reflex has `cell` without `meter` or `register`"),
            (15, "a rate of 0 changes a second allows no change"),
            (16, "\"1\" is no time between changes"),
            (17, "\"0 s\" is no life of an entry"),
            (19, "the reflex changes nothing"),
            (22, "the reflex changes several objects"),
            (29, "the reflex has a table and no `action`"),
            (29, "the reflex has a table and no `key`"),
        ],
    );
}

#[test]
fn a_part_that_the_program_lacks_is_named_with_the_permission() {
    for (name, from, to, expected) in [
        (
            "rate_limit",
            "tenant_rate",
            "other",
            "no meter of bytes IntIngress.other",
        ),
        ("rate_limit", "cell = 0", "cell = 64", "has 64 cells"),
        (
            "spreader",
            "IntIngress.drop",
            "IntIngress.to_port",
            "no action",
        ),
        (
            "spreader",
            "IntIngress.blocked",
            "IntIngress.routes",
            "is not exact",
        ),
        (
            "routing_loop",
            "IntIngress.routes",
            "IntIngress.blocked",
            "`prefixes` needs a table with lpm",
        ),
        (
            "microburst",
            "ports = [3, 4]",
            "meter_rate = \"1 Mbit/s\"",
            "has no direct meter",
        ),
    ] {
        let text = read(&example(name).join("loops.toml"));
        assert!(text.contains(from), "{name}: {from}");
        let loops = Loops::read("loops.toml", &text.replace(from, to)).unwrap();
        let bed = bed(name, |fabric, loops| (fabric, loops));
        let element = &loops.elements[0];
        let mut devices = bed.devices.iter();
        let (_, device) = devices
            .find(|(name, _)| element.device.switch() == Some(name))
            .unwrap();
        let bound = device.with(|device| {
            ManagedElement::new(&loops, ElementIndex(0), device.program()).map(|_| ())
        });
        let error = bound.expect_err(name).to_string();
        assert!(error.starts_with("reflex \""), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let loops = read(&example("tuning").join("loops.toml"));
    let loops = Loops::read("loops.toml", &loops).unwrap();
    assert_eq!(loops.reflexes[0].change, ChangeSpec::Queue(3));
}

#[test]
fn wrong_outputs_instances_and_interfaces_are_named() {
    let unused = (0, "no reflex changes the element \"leaf1\"");
    check(
        r#"[[monitor]]
name = "a"
kind = "rate_limit"
match = ["any"]
limit = "1 Gbit/s"
instances = 2
[[monitor]]
name = "b"
kind = "spreader"
match = ["any"]
peers = 8
instances = 65
[[output]]
to = "10.0.0.9:32766"
events = "json"
[[output]]
to = "udp:10.0.0.9:32766"
events = "report"
[[output]]
to = "udp:10.0.0.9:32766"
events = "json"
node = 9
[[output]]
to = "udp:10.0.0.9:32766"
[[output]]
to = "udp:10.0.0.9:32766"
reports = ["colour red"]
[store]
keep = "disk"
dir = "store"
nodes = [
    { name = "a", address = "10.0.0.1:7000", interface = "xdp:eth1" },
    { name = "b", address = "10.0.0.2:7000", interface = "eth1" },
    { name = "c", interface = "packet:eth1" },
]
"#,
        &[
            unused,
            (
                6,
                "a monitor of kind rate_limit has one state for all reports",
            ),
            (12, "65 is too large"),
            (14, "\"10.0.0.9:32766\" is no place that a plane sends to"),
            (18, "reports name their node"),
            (22, "only events that are reports have a node"),
            (23, "an output gets events or reports"),
            (27, "\"colour\" is no fact of a report"),
            (33, "node \"b\" has no interface that is understood"),
            (34, "node \"c\" has no address that is understood"),
        ],
    );
}
