//! Entries files that are read in parts: the device, and the errors, are those of the whole text.

use std::sync::Arc;

use apply_entries::{ApplyTextError, apply_parts};
use support::work::{Interrupt, Work, WorkLimits};
use switch::{Device, DeviceConfig};

const PROGRAM: &str = include_str!("../../../examples/router/router.p4");

/// Number of routes: more than a part of a file has statements.
const ROUTES: u32 = 3000;

fn device() -> Device {
    let program = driver::compile_text("router.p4", PROGRAM).expect("the example compiles");
    let config = DeviceConfig::default();
    Device::new(Arc::new(program), &interp::Interp, &config).expect("the example is loaded")
}

/// Applies a text that is given in parts of this many lines.
fn applied(text: &str, lines: usize) -> (Device, Result<(), ApplyTextError>) {
    let mut rest = text.split_inclusive('\n').peekable();
    let mut parts = || {
        rest.peek()?;
        Some(rest.by_ref().take(lines).collect())
    };
    let mut device = device();
    let result = apply_parts(&mut device, "routes", &mut parts);
    (device, result)
}

/// Returns a file of routes. The entries `doubled` have the prefix of the first one.
fn routes(doubled: &[u32]) -> String {
    let route = |number: u32| {
        let prefix = if doubled.contains(&number) { 0 } else { number };
        let (high, low) = (prefix >> 8, prefix & 255);
        let key = format!("ipv4_lpm {{ hdr.ipv4.dst: 11.{high}.{low}.0/24; }}");
        format!("# route {number}\n{key}\n    -> connected(port: 1)\n")
    };
    (0..ROUTES).map(route).collect()
}

#[test]
fn a_file_in_parts_makes_the_device_and_the_errors_of_the_whole_file() {
    let refused = [5, 1700, 2999];
    for (doubled, wrong) in [(&[][..], None), (&refused, None), (&[], Some(2500))] {
        let mut text = routes(doubled);
        if let Some(line) = wrong {
            let at = text
                .find(&format!("# route {line}\n"))
                .expect("it is there");
            text.insert_str(at, "no_such_table { } -> x()\n");
        }
        let (whole, expected) = applied(&text, usize::MAX);
        match &expected {
            Ok(()) => assert!(doubled.is_empty() && wrong.is_none()),
            Err(ApplyTextError::Text(errors)) => {
                assert_eq!(errors.len(), 1);
                assert_eq!(errors[0].line, 3 * wrong.expect("a wrong line") + 1);
            }
            Err(ApplyTextError::Refused(error)) => {
                let lines: Vec<u32> = error.errors.iter().map(|error| error.line).collect();
                assert_eq!(lines, [5 * 3 + 2, 1700 * 3 + 2, 2999 * 3 + 2]);
                assert_eq!((error.refused, error.statements), (3, ROUTES as usize));
                let hint = error.errors[2].hint.as_deref();
                assert_eq!(hint, Some("line 2 adds it"));
            }
        }
        for lines in [1, 100, 4000] {
            let (device, result) = applied(&text, lines);
            assert_eq!(result, expected, "parts of {lines} lines");
            if result.is_ok() || wrong.is_none() {
                assert_eq!(device.objects(), whole.objects());
            }
        }
    }
}

#[test]
fn the_bounds_of_a_computation_hold_for_the_reading_of_a_file() {
    let text = routes(&[]);
    let mut lines = text.split_inclusive('\n');
    let mut parts = || lines.next().map(str::to_owned);
    let mut device = device();
    let work = Work::new(WorkLimits::default());
    work.cancel();
    let ended = work.run(|| apply_parts(&mut device, "routes", &mut parts));
    assert_eq!(ended, Err(Interrupt::Cancelled));
}
