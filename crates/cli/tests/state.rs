//! A switch with stored state, as a user runs it: killed at any moment, restarted, with another
//! program.

#[expect(dead_code, reason = "p4rt's tests use the rest")]
#[path = "../../p4rt/tests/p4rt/rig.rs"]
mod rig;

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use rig::*;
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;
use tonic::Code;

/// Number of entries that every batch changes.
const STRIPE: u64 = 3;

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// # Errors
    /// This user or this machine may not mount one.
    fn mount(bytes: u32) -> std::io::Result<SmallDisk> {
        let place = tempfile::tempdir()?;
        let size = CString::new(format!("size={bytes}")).expect("no zero byte");
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("tmpfs", place.path(), "tmpfs", flags, size.as_c_str())?;
        Ok(SmallDisk(place))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Files may still be open; the file system is removed with the last of them.
        let _ = rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

/// A running switch; killed when it is dropped.
struct Switch {
    process: Child,
    address: SocketAddr,
    /// Its output before it was ready.
    said: Vec<String>,
}

impl Switch {
    fn start(words: &[&str], state: &Path) -> Switch {
        let mut process = Command::new(env!("CARGO_BIN_EXE_polyplane"))
            .args(words)
            .args(["--p4runtime", "127.0.0.1:0", "--state"])
            .arg(state)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the command is built");
        let told = process.stderr.take().expect("it is piped");
        let mut said = Vec::new();
        let mut address = None;
        for line in BufReader::new(told).lines() {
            let line = line.expect("it is text");
            if let Some((_, rest)) = line.split_once("P4Runtime is served at ") {
                let word = rest.split([';', ' ']).next().unwrap_or(rest);
                address = Some(word.parse().expect("an address"));
            }
            said.push(line);
            if address.is_some() {
                break;
            }
        }
        Switch {
            process,
            address: address.unwrap_or_else(|| panic!("it does not start: {said:#?}")),
            said,
        }
    }

    fn serve(state: &Path) -> Switch {
        Switch::start(&["serve"], state)
    }

    /// Kills the process as a power cut would: SIGKILL.
    fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
    }

    async fn primary(&self) -> (Client, Stream) {
        let mut client = Client::connect(self.address).await;
        let stream = client.open(Some(1), "").await;
        (client, stream)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn forwards(objects: &Objects, key: u64, port: u64) -> Kind {
    let key = bits::Value::truncated(key.into(), 48).to_p4rt_bytes();
    let port = bits::Value::truncated(port.into(), 9).to_p4rt_bytes();
    let does = does(objects.id("forward"), &[&port]);
    Kind::TableEntry(entry(objects.id("exact_table"), vec![exact(1, &key)], does))
}

/// Returns a batch that changes the stripe's entries to its number, and adds one entry.
fn batch(client: &Client, objects: &Objects, number: u64) -> rt::WriteRequest {
    let ty = match number {
        1 => Type::Insert,
        _ => Type::Modify,
    };
    let stripe = (0..STRIPE).map(|key| (ty, forwards(objects, key, number % 500)));
    let own = (Type::Insert, forwards(objects, 1000 + number, 1));
    let mut request = client.batch(stripe.chain([own]).collect());
    request.atomicity = match number % 3 {
        0 => Atomicity::ContinueOnError.into(),
        1 => Atomicity::RollbackOnError.into(),
        _ => Atomicity::DataplaneAtomic.into(),
    };
    request
}

/// Returns the number of the last stored batch. Checks that it and all earlier ones are complete.
async fn last_batch(client: &mut Client, objects: &Objects) -> u64 {
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let (mut stripe, mut own) = (Vec::new(), Vec::new());
    for kind in client.read(all).await {
        let Kind::TableEntry(one) = kind else {
            panic!("an entry was asked for")
        };
        let Some(rt::field_match::FieldMatchType::Exact(key)) =
            one.r#match[0].field_match_type.clone()
        else {
            panic!("the key is exact")
        };
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let key = number(&key.value);
        let Some(rt::table_action::Type::Action(action)) = one.action.and_then(|a| a.r#type) else {
            panic!("it has an action")
        };
        match key < 1000 {
            true => stripe.push(number(&action.params[0].value)),
            false => own.push(key - 1000),
        }
    }
    own.sort_unstable();
    let last = own.last().copied().unwrap_or(0);
    assert_eq!(own, (1..=last).collect::<Vec<_>>(), "a batch is missing");
    let expected = if last == 0 { 0 } else { STRIPE as usize };
    assert_eq!(stripe, vec![last % 500; expected], "half of a batch");
    last
}

/// Kills the switch this number of times while a controller writes. Returns the number of batches
/// stored in the end.
async fn kill(times: u64) -> u64 {
    let state = tempfile::tempdir().expect("a directory");
    let (mut kept, mut tried) = (0, 0);
    let mut seed = 1u64;
    for round in 0..=times {
        let mut switch = Switch::serve(state.path());
        let (mut client, _stream) = switch.primary().await;
        if round == 0 {
            let text = ALL.replace("size = 16;", "size = 1000000;");
            let loaded = client.load(Action::VerifyAndCommit, &text).await;
            loaded.expect("it loads");
        }
        let objects = Objects::of(&client.config().await);
        let there = last_batch(&mut client, &objects).await;
        assert!(
            (kept..=tried).contains(&there),
            "round {round}: {there} is there, {kept} was acknowledged, {tried} was tried"
        );
        (kept, tried) = (there, there);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // A random moment of some batch.
        let moment = Instant::now() + Duration::from_micros(seed >> 47);
        let writing = async {
            loop {
                tried += 1;
                let request = batch(&client, &objects, tried);
                match client.grpc.write(request).await {
                    Ok(_) => kept = tried,
                    Err(_) => return,
                }
            }
        };
        let killing = tokio::task::spawn_blocking(move || {
            std::thread::sleep(moment.saturating_duration_since(Instant::now()));
            switch.kill();
        });
        writing.await;
        killing.await.expect("it is killed");
    }
    kept
}

#[tokio::test]
async fn a_switch_that_is_killed_while_it_is_written_has_all_that_it_acknowledged() {
    let kept = kill(6).await;
    assert!(kept > 0, "nothing was written");
}

/// `cargo test -p cli --test state -- --ignored`
#[tokio::test]
#[ignore = "takes some minutes"]
async fn a_switch_that_is_killed_two_hundred_times_has_all_that_it_acknowledged() {
    let kept = kill(200).await;
    println!("{kept} batches were kept over 200 kills");
    assert!(kept > 200, "{kept}");
}

/// Number of entries of a batch that fills a disk, and additional bytes of each.
const MANY: u64 = 200;
const LARGE: usize = 1024;

#[tokio::test]
async fn what_a_real_disk_has_no_room_for_is_refused_and_goes_in_when_there_is_room() {
    let disk = match SmallDisk::mount(8 << 20) {
        Ok(disk) => disk,
        Err(error) => return println!("skipped: a small file system cannot be mounted: {error}"),
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).expect("there is room");
    let state = disk.path().join("state");
    let mut switch = Switch::serve(&state);
    let (mut client, stream) = switch.primary().await;
    let text = ALL.replace("size = 16;", "size = 1000000;");
    let loaded = client.load(Action::VerifyAndCommit, &text).await;
    loaded.expect("there is room for it");
    let objects = Objects::of(&client.config().await);
    let filling = |client: &Client, number: u64| {
        let one = |key| match forwards(&objects, number * MANY + key, 1) {
            Kind::TableEntry(mut one) => {
                one.metadata = vec![7; LARGE];
                (Type::Insert, Kind::TableEntry(one))
            }
            other => panic!("{other:?}"),
        };
        client.batch((0..MANY).map(one).collect())
    };
    let all = || Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let mut kept = 0;
    let refused = loop {
        assert!(kept * MANY * (LARGE as u64) < 8 << 20, "more than it holds");
        match client.grpc.write(filling(&client, kept)).await {
            Ok(_) => kept += 1,
            Err(status) => break status,
        }
    };
    assert!(kept > 0, "{refused}");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let told = refused.message();
    assert!(told.contains("no space is left on the disk"), "{told}");
    assert_eq!(client.read(all()).await.len() as u64, kept * MANY);
    // Neither a crash nor a start with a full disk loses acknowledged entries.
    drop(stream);
    switch.kill();
    let switch = Switch::serve(&state);
    let (mut client, _stream) = switch.primary().await;
    assert_eq!(client.read(all()).await.len() as u64, kept * MANY);
    let again = client.grpc.write(filling(&client, kept)).await;
    let again = again.expect_err("the disk is as full as before");
    assert_eq!(again.code(), Code::ResourceExhausted, "{again}");
    std::fs::remove_file(&ballast).expect("it is there");
    let written = client.grpc.write(filling(&client, kept)).await;
    written.expect("there is room");
    assert_eq!(client.read(all()).await.len() as u64, (kept + 1) * MANY);
}

#[tokio::test]
async fn another_program_on_the_command_line_takes_the_state_over_and_says_what_it_cannot() {
    let state = tempfile::tempdir().expect("a directory");
    let programs = tempfile::tempdir().expect("a directory");
    let [first, second] = ["first.p4", "second.p4"].map(|name| programs.path().join(name));
    std::fs::write(&first, ALL).expect("there is room");
    let changed = ALL
        .replace("table metered {", "table measured {")
        .replace("metered.apply", "measured.apply");
    std::fs::write(&second, changed).expect("there is room");
    let run = |program: &Path| {
        let program = program.to_str().expect("a name in UTF-8");
        Switch::start(&["run", program], state.path())
    };
    let mut switch = run(&first);
    let (mut client, _stream) = switch.primary().await;
    let objects = Objects::of(&client.config().await);
    client.insert(forwards(&objects, 5, 3)).await;
    let measured = entry(
        objects.id("metered"),
        vec![exact(1, b"\x07")],
        does(objects.id("read_meter"), &[]),
    );
    client.insert(Kind::TableEntry(measured)).await;
    switch.kill();
    let mut switch = run(&second);
    let said = switch.said.join("\n");
    assert!(said.contains("goes on with the state in"), "{said}");
    assert!(
        said.contains("carried over but for 1 entry of `In.metered`"),
        "{said}"
    );
    let (mut client, _stream) = switch.primary().await;
    let objects = Objects::of(&client.config().await);
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(client.read(all.clone()).await.len(), 1);
    switch.kill();
    // After the migration the state belongs to this program.
    let switch = run(&second);
    let said = switch.said.join("\n");
    assert!(!said.contains("another program"), "{said}");
    let (mut client, _stream) = switch.primary().await;
    assert_eq!(client.read(all).await.len(), 1);
    let other = Command::new(env!("CARGO_BIN_EXE_polyplane"))
        .args(["serve", "--p4runtime", "127.0.0.1:0", "--state"])
        .arg(state.path())
        .output()
        .expect("the command is built");
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("is in use by another switch"), "{said}");
    assert_eq!(other.status.code(), Some(1));
}

/// A state directory's file that an earlier release wrote. To write it again with this one:
/// `POLYPLANE_WRITE_GOLDEN=1 cargo test -p cli --test state release`.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/device-1.redb.gz");

/// Program of the golden state. It is small, so the file is small.
const SMALL: &str = include_str!("golden/small.p4");

/// Runs `gzip` with these options on a file. Returns its output.
fn gzip(options: &str, file: &Path) -> Vec<u8> {
    let output = Command::new("gzip").arg(options).arg(file).output();
    let output = output.expect("gzip is there");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Returns one entity of each kind that the golden state has.
fn golden_entities(objects: &Objects) -> [Kind; 3] {
    let row = does(objects.id("to_port"), &[b"\x02"]);
    let row = entry(objects.id("stations"), vec![exact(1, b"\x09")], row);
    let replica = rt::Replica {
        instance: 5,
        port_kind: Some(rt::replica::PortKind::Port(b"\x03".to_vec())),
        ..rt::Replica::default()
    };
    let session = rt::CloneSessionEntry {
        session_id: 7,
        replicas: vec![replica],
        ..rt::CloneSessionEntry::default()
    };
    let group = rt::MulticastGroupEntry {
        multicast_group_id: 3,
        ..rt::MulticastGroupEntry::default()
    };
    let replication = |of| {
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(of) })
    };
    [
        Kind::TableEntry(row),
        replication(Replication::CloneSessionEntry(session)),
        replication(Replication::MulticastGroupEntry(group)),
    ]
}

async fn write_golden() {
    let state = tempfile::tempdir().expect("a directory");
    let mut switch = Switch::serve(state.path());
    let (mut client, _stream) = switch.primary().await;
    let loaded = client.load(Action::VerifyAndCommit, SMALL).await;
    loaded.expect("it loads");
    let objects = Objects::of(&client.config().await);
    for entity in golden_entities(&objects) {
        client.insert(entity).await;
    }
    switch.kill();
    let packed = gzip("-9nc", &state.path().join("device-1.redb"));
    std::fs::write(GOLDEN, packed).expect("it can be written");
}

#[tokio::test]
async fn a_directory_of_the_release_before_is_read_and_goes_on() {
    if std::env::var_os("POLYPLANE_WRITE_GOLDEN").is_some() {
        write_golden().await;
    }
    let state = tempfile::tempdir().expect("a directory");
    let file = state.path().join("device-1.redb");
    std::fs::write(&file, gzip("-dc", Path::new(GOLDEN))).expect("there is room");
    let shown = Command::new(env!("CARGO_BIN_EXE_polyplane"))
        .args(["state", "--json"])
        .arg(state.path())
        .output()
        .expect("the command is built");
    let said = String::from_utf8_lossy(&shown.stderr);
    assert_eq!((shown.status.code(), &*said), (Some(0), ""));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown[0]["program"], "p4_device_config", "{shown}");
    for round in 0..2 {
        let mut switch = Switch::serve(state.path());
        let (mut client, _stream) = switch.primary().await;
        let objects = Objects::of(&client.config().await);
        let replication = |of| {
            Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
                r#type: Some(of),
            })
        };
        let all = [
            Kind::TableEntry(entry(objects.id("stations"), vec![], None)),
            replication(Replication::CloneSessionEntry(Default::default())),
            replication(Replication::MulticastGroupEntry(Default::default())),
        ];
        for (all, expected) in all.into_iter().zip(golden_entities(&objects)) {
            let read = client.read(all).await;
            assert!(read.contains(&expected), "round {round}: {read:#?}");
        }
        // A change is kept in the same file.
        let more = does(objects.id("to_port"), &[b"\x01"]);
        let key = vec![exact(1, &[0x10 + round])];
        let more = entry(objects.id("stations"), key, more);
        client.insert(Kind::TableEntry(more)).await;
        let all = Kind::TableEntry(entry(objects.id("stations"), vec![], None));
        assert_eq!(client.read(all).await.len(), 2 + usize::from(round));
        switch.kill();
    }
}
