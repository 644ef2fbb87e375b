//! How fast a controller writes and reads exact entries over loopback gRPC, in batches of 1,000: `cargo bench -p p4rt`, with another number of
//! entries behind `--`. The figures are of the whole way, the client's part included, which runs in the same process.

#[expect(dead_code, reason = "the tests use the rest")]
#[path = "../tests/p4rt/rig.rs"]
mod rig;

use std::time::Instant;

use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use rig::*;

/// Updates of a batch.
const BATCH: u32 = 1000;

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let entries: u32 = given.unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(measure(entries));
}

async fn measure(entries: u32) {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let text = ALL.replace("size = 16;", &format!("size = {entries};"));
    client
        .load(Action::VerifyAndCommit, &text)
        .await
        .expect("it loads");
    let objects = Objects::of(&client.config().await);
    for (what, ty, port) in [
        ("inserted", Type::Insert, b"\x01"),
        ("modified", Type::Modify, b"\x02"),
        ("deleted", Type::Delete, b"\x02"),
    ] {
        if ty == Type::Delete {
            let begin = Instant::now();
            let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
            assert_eq!(client.read(all).await.len(), entries as usize);
            tell("read", entries, begin);
        }
        let begin = Instant::now();
        for first in (0..entries).step_by(BATCH as usize) {
            let numbers = first..entries.min(first + BATCH);
            let updates = numbers.map(|number| {
                let forward = does(objects.id("forward"), &[port]);
                let key = bits::Value::truncated(number.into(), 48).to_p4rt_bytes();
                let one = entry(objects.id("exact_table"), vec![exact(1, &key)], forward);
                (ty, Kind::TableEntry(one))
            });
            let request = client.batch(updates.collect());
            client.grpc.write(request).await.expect("it is made");
        }
        tell(what, entries, begin);
    }
}

fn tell(what: &str, entries: u32, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    let rate = f64::from(entries) / seconds;
    println!("{what} {entries} entries in {seconds:.2} s: {rate:.0} a second");
}
