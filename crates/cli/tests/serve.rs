//! `polyplane serve`: devices, metrics, logs, and errors in its listen options.

mod lab;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use lab::scrape::{self, Scraped};
use lab::{Directory, Running, Said, example, polyplane, said};

/// A running server with its addresses.
struct Serving {
    running: Running,
    control: String,
    metrics: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        Serving::start_as(polyplane(), arguments)
    }

    /// Starts the server by a command; the arguments are appended to it.
    fn start_as(mut command: Command, arguments: &[&str]) -> Serving {
        command
            .args([
                "serve",
                "--p4runtime",
                "127.0.0.1:0",
                "--metrics",
                "127.0.0.1:0",
            ])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Running::start(&mut command);
        let stderr = running.0.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        // As text or within JSON.
        let mut after = |words: &str| {
            let line = lines.find(|line| line.contains(words)).unwrap();
            let (_, rest) = line.split_once(words).unwrap();
            let end = rest.find([';', '/', '"']).unwrap_or(rest.len());
            rest[..end].to_owned()
        };
        let control = after("P4Runtime is served at ");
        let metrics = after("metrics are served at http://");
        // A closed pipe would end it.
        std::thread::spawn(move || lines.for_each(drop));
        Serving {
            running,
            control,
            metrics,
        }
    }

    fn stop(self) -> Said {
        self.running.signal("TERM");
        self.running.finish()
    }
}

#[test]
fn metrics_tell_of_each_device_in_the_format_of_prometheus() {
    let program = format!("2={}", example("router/router.p4"));
    let serving = Serving::start(&["--device", "1", "--device", &program]);
    let scraped = Scraped::of(&serving.metrics);
    for device in ["1", "2"] {
        let of = |name: &str| scraped.value(&format!("{name}{{device=\"{device}\"}}"));
        assert_eq!(of("held_packets"), 0.0);
        assert_eq!(of("p4runtime_sessions"), 0.0);
        assert_eq!(of("p4runtime_write_seconds_count"), 0.0);
        // Quantiles cannot be computed without a bucket for all values.
        let all = format!("p4runtime_write_seconds_bucket{{le=\"+Inf\",device=\"{device}\"}}");
        assert_eq!(scraped.value(&all), 0.0);
    }
    // Only the second device has a program with tables.
    let body = &scraped.0;
    assert!(!body.contains("table_capacity{device=\"1\""), "{body}");
    assert!(
        body.contains("table_capacity{device=\"2\",table="),
        "{body}"
    );
    let refused = |request| scrape::answer(&serving.metrics, request);
    assert!(refused("GET / HTTP/1.1\r\nHost: x\r\n\r\n").contains(" 404 "));
    assert!(refused("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").contains(" 405 "));
    let said = serving.stop();
    assert_eq!(said.status, Some(0), "{}", said.err);
    for device in ["device 1 ran for", "device 2 ran for"] {
        assert!(said.out.contains(device), "{}", said.out);
    }
}

#[test]
fn a_log_in_json_has_one_object_a_line() {
    let mut command = polyplane();
    command
        .args(["serve", "--p4runtime", "127.0.0.1:0", "--log", "json,warn"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    for words in ["P4Runtime is served at", "is running on"] {
        let line = lines.next().unwrap().unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let message = value["message"].as_str().unwrap();
        assert!(message.contains(words), "{line}");
        assert_eq!(value["level"], "INFO");
    }
    std::thread::spawn(move || lines.for_each(drop));
    running.signal("TERM");
    assert_eq!(running.finish().status, Some(0));
}

#[test]
fn what_would_be_open_to_others_is_refused_with_what_to_give() {
    let directory = Directory::new("serve");
    let no_pem = directory.with("no.pem", "nothing");
    let refused = |arguments: &[&str], words: &[&str]| {
        let all: Vec<&str> = ["serve", "--p4runtime"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let said = said(&all);
        assert_ne!(said.status, Some(0));
        for word in words {
            assert!(said.err.contains(word), "{}", said.err);
        }
    };
    let beyond = "--listen-beyond-loopback";
    refused(&["0.0.0.0:0"], &["127.0.0.1", beyond]);
    refused(
        &["0.0.0.0:0", beyond],
        &["without encryption", "--tls-cert"],
    );
    refused(&["0.0.0.0:0", "--anyone-may-control"], &[beyond]);
    refused(&["127.0.0.1:0", "--tls-cert", &no_pem], &["--tls-key"]);
    refused(&["127.0.0.1:0", "--allow", "a=*"], &["--tls-client-ca"]);
    let tls = ["127.0.0.1:0", "--tls-cert", &no_pem, "--tls-key", &no_pem];
    refused(&tls, &["server's certificate"]);
    refused(
        &["127.0.0.1:0", "--metrics", "0.0.0.0:0"],
        &["metrics", "open to other machines"],
    );
    refused(
        &["127.0.0.1:0", "--device", "1", "--device", "1"],
        &["device id 1 is given twice"],
    );
    let state = directory.file("state");
    refused(
        &[
            "127.0.0.1:0",
            "--device",
            "1",
            "--device",
            "1",
            "--state",
            &state,
        ],
        &["device id 1 is given twice"],
    );
    assert!(!std::path::Path::new(&state).exists(), "nothing is opened");
}

/// Returns the line of `ctl status` about the program.
fn program_of(serving: &Serving) -> String {
    let status = said(&["ctl", "status", "--addr", &serving.control]);
    let line = status.out.lines().find(|line| line.starts_with("program"));
    line.unwrap_or_else(|| panic!("{}{}", status.out, status.err))
        .to_owned()
}

#[test]
fn a_program_that_is_kept_is_there_for_controllers_and_the_port_for_them_stays() {
    let directory = Directory::new("serve-kept");
    let state = |name: &str| directory.file(name);
    let [none, router, psa] = ["none", "router", "psa"].map(state);
    let names = |program: &str| format!("1={}", example(program));
    // No program was ever set: the switch waits for one, also after a restart.
    for _ in 0..2 {
        let serving = Serving::start(&["--state", &none]);
        assert!(program_of(&serving).contains("none"));
        assert_eq!(serving.stop().status, Some(0));
    }
    let named = names("router/router.p4");
    let serving = Serving::start(&["--state", &router, "--device", &named]);
    assert!(program_of(&serving).contains("5 tables"));
    assert_eq!(serving.stop().status, Some(0));
    let serving = Serving::start(&["--state", &router]);
    assert!(program_of(&serving).contains("5 tables"));
    assert_eq!(serving.stop().status, Some(0));
    // A PSA program on the command line selects PSA's CPU port. A stored one has the CPU port of
    // a switch that waited for a program.
    let taken = |arguments: &[&str], port: &str| {
        let words = ["serve", "--p4runtime", "127.0.0.1:0", "--state", &psa];
        let said = said(&[&words[..], arguments, &["--port", &format!("{port}=lo")]].concat());
        assert_eq!(said.status, Some(1), "{}", said.err);
        let line = format!("port {port} is the one for controllers");
        assert!(said.err.contains(&line), "{}", said.err);
    };
    taken(
        &["--device", &names("psa_router/psa_router.p4")],
        "4294967293",
    );
    taken(&[], "510");
}

#[test]
fn a_switch_whose_state_cannot_be_kept_at_its_end_reports_what_it_did() {
    let directory = Directory::new("serve-full");
    let state = directory.file("state");
    let program = format!("1={}", example("router/router.p4"));
    // With SIGXFSZ ignored, exceeding the file size limit is an error and not a signal.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_polyplane"));
    let arguments = [
        "--device",
        &program,
        "--state",
        &state,
        "--state-keep",
        "counters",
    ];
    let serving = Serving::start_as(command, &arguments);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let process = Pid::from_child(&serving.running.0);
    prlimit(Some(process), Resource::Fsize, none).expect("it is ours");
    let said = serving.stop();
    assert_eq!(said.status, Some(1), "it was kept: {}", said.out);
    assert!(said.out.starts_with("ran for"), "{}", said.out);
}

#[test]
fn a_plain_switch_says_where_it_serves() {
    let serving = Serving::start(&[]);
    TcpStream::connect(&serving.control).unwrap();
    let said = serving.stop();
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(said.out.starts_with("ran for"), "{}", said.out);
}

#[test]
fn the_default_port_is_that_of_p4runtime() {
    let help = said(&["serve", "--help"]);
    assert!(
        help.out.contains("[default: 127.0.0.1:9559]"),
        "{}",
        help.out
    );
}
