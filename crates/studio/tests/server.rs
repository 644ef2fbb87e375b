//! The server on the loopback interface, spoken to as a browser, and as pages of other sites.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use studio::{StudioError, serve};

/// A server that is stopped by its drop.
struct Server {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

fn server() -> Server {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&is_stopped);
    let (ready, address) = channel();
    std::thread::spawn(move || {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let ready = |address| ready.send(address).expect("the test waits");
        serve(any, None, ready, move || stopped.load(Ordering::Relaxed)).expect("it serves");
    });
    Server {
        address: address.recv().expect("the server starts"),
        is_stopped,
    }
}

impl Server {
    /// Sends a request with the right host, unless `headers` have one, and returns the answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("it can be set");
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(text.as_bytes()).expect("it is sent");
        // A server that refuses by the headers may close before it has read all.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn status(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        let answer = self.ask(method, path, headers, body);
        let word = answer.split(' ').nth(1).unwrap_or_default();
        word.parse().unwrap_or_else(|_| panic!("{answer}"))
    }
}

/// Names and values of headers.
type Headers<'h> = &'h [(&'h str, &'h str)];

const JSON: (&str, &str) = ("Content-Type", "application/json");
const PROGRAM: &str = r#"{"program": "header h { bit<8> a; }"}"#;

#[test]
fn the_page_loads_nothing_from_elsewhere_and_its_files_are_there() {
    let server = server();
    let page = server.ask("GET", "/", &[], "");
    let policy = page
        .lines()
        .find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.expect("there is a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{policy}"
    );
    let nonce = policy
        .split_once("'nonce-")
        .and_then(|(_, rest)| rest.split_once('\''));
    let (nonce, _) = nonce.expect("there is a nonce");
    assert!(
        page.contains(&format!("\"{nonce}\"")),
        "the page has its nonce"
    );
    assert!(
        !server.ask("GET", "/", &[], "").contains(nonce),
        "each answer has its own"
    );
    for file in ["/studio.js", "/studio.css"] {
        assert!(page.contains(file));
        assert_eq!(server.status("GET", file, &[], ""), 200);
    }
    assert!(
        server
            .ask("GET", "/api/examples", &[], "")
            .contains("IPv4 router")
    );
}

#[test]
fn requests_of_other_sites_and_of_wrong_form_are_refused() {
    let server = server();
    let port = server.address.port();
    let own = format!("http://localhost:{port}");
    let foreign_port = format!("http://127.0.0.1:{}", port ^ 1);
    let cases: &[(&str, &str, Headers<'_>, &str, u16)] = &[
        ("POST", "/api/check", &[JSON], PROGRAM, 200),
        (
            "POST",
            "/api/check",
            &[JSON, ("Origin", &own)],
            PROGRAM,
            200,
        ),
        (
            "POST",
            "/api/check",
            &[JSON, ("Origin", "http://example.com")],
            PROGRAM,
            403,
        ),
        (
            "POST",
            "/api/check",
            &[JSON, ("Origin", "null")],
            PROGRAM,
            403,
        ),
        (
            "POST",
            "/api/check",
            &[JSON, ("Origin", &foreign_port)],
            PROGRAM,
            403,
        ),
        (
            "POST",
            "/api/check",
            &[JSON, ("Host", "example.com")],
            PROGRAM,
            421,
        ),
        ("GET", "/", &[("Host", "rebound.example:80")], "", 421),
        (
            "GET",
            "/api/start",
            &[("Sec-Fetch-Site", "cross-site")],
            "",
            403,
        ),
        (
            "GET",
            "/studio.js",
            &[("Sec-Fetch-Site", "same-site")],
            "",
            403,
        ),
        (
            "GET",
            "/",
            &[
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-Mode", "navigate"),
            ],
            "",
            200,
        ),
        ("POST", "/api/check", &[], PROGRAM, 415),
        (
            "POST",
            "/api/check",
            &[("Content-Type", "text/plain")],
            PROGRAM,
            415,
        ),
        ("POST", "/api/check", &[JSON], "{", 400),
        ("POST", "/api/check", &[JSON], r#"{"program": 1}"#, 422),
        (
            "POST",
            "/api/check",
            &[JSON],
            r#"{"program": "", "file": "/etc/passwd"}"#,
            422,
        ),
        ("POST", "/api/run", &[JSON], r#"{"program": ""}"#, 422),
        ("POST", "/api/capture", &[JSON], "no capture", 422),
        ("PUT", "/api/check", &[JSON], PROGRAM, 405),
        ("GET", "/api/check", &[], "", 405),
        ("GET", "/../Cargo.toml", &[], "", 404),
        ("GET", "/assets/", &[], "", 404),
    ];
    for (method, path, headers, body, expected) in cases {
        let got = server.status(method, path, headers, body);
        assert_eq!(got, *expected, "{method} {path} {headers:?}");
    }
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let server = server();
    let long = format!(r#"{{"program": "{}"}}"#, "a".repeat(5 << 20));
    let status = server.status("POST", "/api/check", &[JSON], &long);
    assert_eq!(status, 413);
}

#[test]
fn a_deeply_nested_program_is_an_error_and_the_server_goes_on() {
    let server = server();
    let program = format!(
        "const bit<8> a = {}1{};",
        "(".repeat(200_000),
        ")".repeat(200_000)
    );
    let body = format!(r#"{{"program": "{program}"}}"#);
    let answer = server.ask("POST", "/api/check", &[JSON], &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("\"severity\":"), "{answer}");
    assert_eq!(server.status("POST", "/api/check", &[JSON], PROGRAM), 200);
}

#[test]
fn addresses_that_other_machines_reach_are_refused() {
    let any: SocketAddr = ([0, 0, 0, 0], 0).into();
    let served = serve(any, None, |_| {}, || true);
    assert!(matches!(served, Err(StudioError::NotLoopback(address)) if address == any));
}
