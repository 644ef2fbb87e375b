//! Metrics as Prometheus receives them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Connects to a server that may still be starting.
fn connect(address: &str) -> TcpStream {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(begin.elapsed().as_secs() < 10, "{address}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the answer of an address to a request.
pub(crate) fn answer(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// All metrics at one time.
pub(crate) struct Scraped(pub(crate) String);

impl Scraped {
    /// Scrapes metrics in the format of Prometheus. Checks that each is declared once and
    /// documented.
    pub(crate) fn of(address: &str) -> Scraped {
        let answer = answer(address, "GET /metrics HTTP/1.1\r\nHost: switch\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("application/openmetrics-text"), "{head}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        let manual = format!("{}/../../docs/METRICS.md", env!("CARGO_MANIFEST_DIR"));
        let manual = std::fs::read_to_string(manual).unwrap();
        let types = body.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut seen = BTreeSet::new();
        for line in types {
            let (name, kind) = line.split_once(' ').unwrap();
            assert!(seen.insert(name), "{name} is there twice");
            let end = if kind == "counter" { "_total`" } else { "`" };
            assert!(manual.contains(&format!("`{name}{end}")), "{name}");
        }
        Scraped(body.to_owned())
    }

    /// Returns the value of a series, given without the common prefix.
    pub(crate) fn value(&self, series: &str) -> f64 {
        let found = self.find(series);
        found.unwrap_or_else(|| panic!("no {series} in {}", self.0))
    }

    pub(crate) fn find(&self, series: &str) -> Option<f64> {
        let start = format!("polyplane_{series} ");
        let mut found = self.0.lines().filter_map(|line| line.strip_prefix(&start));
        Some(found.next()?.parse().unwrap())
    }
}
