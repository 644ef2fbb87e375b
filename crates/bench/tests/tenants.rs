//! Both sides of what is measured about virtual data planes do the same.

use std::sync::Arc;
use std::time::Duration;

use bench::measure::Plan;
use bench::tenants::{Entry, Tenants, TenantsError};
use bench::workloads::{self, Size};
use testkit::{compile_text, engines};

#[test]
fn virtual_data_planes_send_all_packets_that_the_program_alone_sends() {
    let function = workloads::divisible(Size::Small);
    let source = workloads::find("l2").unwrap().source();
    let program = compile_text(source).unwrap();
    let engine = engines().remove(0);
    let plan = Plan {
        time: Duration::from_millis(20),
        burst: 64,
        seed: 3,
    };
    let tenants = |vpdps, entry| Tenants {
        function: &*function,
        program: Arc::clone(&program),
        engine: Arc::clone(&engine),
        vpdps,
        entry,
    };
    for entry in Entry::ALL {
        for vpdps in [1, 4] {
            let measured = tenants(vpdps, entry).measure(&plan, &mut |_| {}).unwrap();
            let sent = (measured.native.sent, measured.hosted.sent);
            assert_eq!(sent, (1.0, 1.0), "{vpdps} by {}", entry.name());
            assert!(measured.ratio() > 0.0);
        }
    }
    let none = tenants(0, Entry::Whole).measure(&plan, &mut |_| {});
    assert!(matches!(none, Err(TenantsError::Count(0))));
}
