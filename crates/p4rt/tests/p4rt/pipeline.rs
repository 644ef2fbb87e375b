//! Tests of setting and getting programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4rt::{Loader, ProgramPermit, TenancyError};
use switch::{Device, LoadError};
use tonic::Code;

use crate::rig::*;

fn entries(objects: &Objects) -> Kind {
    Kind::TableEntry(entry(objects.id("exact_table"), vec![], None))
}

fn one(objects: &Objects) -> Kind {
    Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(objects.id("forward"), &[b"\x03"]),
    ))
}

#[tokio::test]
async fn what_was_set_is_got_with_its_cookie_in_the_parts_that_are_asked_for() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let get = |response_type| rt::GetForwardingPipelineConfigRequest {
        device_id: 1,
        response_type,
    };
    let nothing = client
        .grpc
        .get_forwarding_pipeline_config(get(0))
        .await
        .expect("an answer");
    assert_eq!(nothing.into_inner().config, None);
    let _stream = client.open(Some(1), "").await;
    client
        .load(Action::VerifyAndCommit, ALL)
        .await
        .expect("it loads");
    for (response_type, has_info, has_config) in [
        (0, true, true),
        (1, false, false),
        (2, true, false),
        (3, false, true),
    ] {
        let got = client
            .grpc
            .get_forwarding_pipeline_config(get(response_type))
            .await;
        let config = got
            .expect("an answer")
            .into_inner()
            .config
            .expect("a config");
        assert_eq!(config.cookie.map(|cookie| cookie.cookie), Some(77));
        assert_eq!(config.p4info.is_some(), has_info);
        assert_eq!(config.p4_device_config == ALL.as_bytes(), has_config);
    }
    let mut elsewhere = get(0);
    elsewhere.device_id = 3;
    let refused = client.grpc.get_forwarding_pipeline_config(elsewhere).await;
    assert_eq!(refused.expect_err("no such device").code(), Code::NotFound);
}

#[tokio::test]
async fn a_program_in_ir_is_taken_as_well() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let program = p4rt::Loader::compile(&Compiler, ALL).expect("it is fine");
    client
        .load(Action::VerifyAndCommit, &program.to_string())
        .await
        .expect("it loads");
    let info = client.config().await.p4info.expect("it has one");
    // The same P4Info is sent with the program.
    let config = rt::ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: program.to_string().into_bytes(),
        cookie: None,
    };
    client
        .set(Action::VerifyAndCommit, Some(config))
        .await
        .expect("it loads");
}

#[tokio::test]
async fn what_is_wrong_with_a_config_is_told_and_the_running_one_stays() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    client.insert(one(&objects)).await;
    let bad = [
        ("", "p4_device_config is empty"),
        ("{}", "BMv2"),
        (" { \"tables\": [] }", "polyplane compile"),
        ("\u{8}\u{1}\u{1a}\u{2}{}", "BMv2"),
        ("\u{8}\u{1}", "p4_device_config is empty"),
        ("\u{1a}\u{7f}P4", "P4DeviceConfig"),
        ("control c() { apply { x = 1; } }", "x"),
        ("program nonsense", "p4_device_config"),
    ];
    for (text, word) in bad {
        let refused = client
            .load(Action::VerifyAndCommit, text)
            .await
            .expect_err("refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{text}");
        assert!(refused.message().contains(word), "{}", refused.message());
    }
    let mut info = client.config().await.p4info.expect("it has one");
    let preamble = info.tables[0].preamble.as_mut().expect("it has one");
    preamble.name = "In.other".to_owned();
    let config = rt::ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: ALL.as_bytes().to_vec(),
        cookie: None,
    };
    let refused = client
        .set(Action::Verify, Some(config))
        .await
        .expect_err("another P4Info");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("In.other"),
        "{}",
        refused.message()
    );
    let unset = client
        .set(Action::VerifyAndCommit, None)
        .await
        .expect_err("no config");
    assert_eq!(unset.code(), Code::InvalidArgument);
    assert_eq!(client.read(entries(&objects)).await.len(), 1);
}

#[tokio::test]
async fn only_the_primary_sets_a_config() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let refused = client
        .load(Action::Verify, ALL)
        .await
        .expect_err("there is no primary");
    assert_eq!(refused.code(), Code::PermissionDenied);
    let _stream = client.open(Some(1), "").await;
    client.election = Some(2);
    let refused = client
        .load(Action::Verify, ALL)
        .await
        .expect_err("another id");
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn verify_changes_nothing_and_commit_clears_the_state() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    client.insert(one(&objects)).await;
    let group = Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
        r#type: Some(
            rt::packet_replication_engine_entry::Type::MulticastGroupEntry(
                rt::MulticastGroupEntry {
                    multicast_group_id: 4,
                    ..Default::default()
                },
            ),
        ),
    });
    client.insert(group.clone()).await;
    client.load(Action::Verify, ALL).await.expect("it is fine");
    assert_eq!(client.read(entries(&objects)).await.len(), 1);
    client
        .load(Action::VerifyAndCommit, ALL)
        .await
        .expect("it loads");
    assert_eq!(client.read(entries(&objects)).await.len(), 0);
    assert_eq!(client.read(group).await.len(), 0);
    // The program's own entries exist.
    let own = Kind::TableEntry(entry(objects.id("const_table"), vec![], None));
    assert_eq!(client.read(own).await.len(), 2);
}

#[tokio::test]
async fn reconciling_keeps_the_state_or_refuses() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let mut kept = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(objects.id("forward"), &[b"\x03"]),
    );
    kept.metadata = b"mine".to_vec();
    client.insert(Kind::TableEntry(kept.clone())).await;
    // Translations of strings to numbers are kept as well.
    let by_name = entry(
        objects.id("by_name"),
        vec![exact(1, b"\x01"), exact(2, b"\x01")],
        does(objects.id("forward_by_name"), &[b"eth7"]),
    );
    client.insert(Kind::TableEntry(by_name.clone())).await;
    // An additional table is accepted. Removing a table that has entries is refused.
    let more = ALL.replace("table keyless {", "table more { key = { hdr.ethernet.src : exact; } actions = { forward; NoAction; } }\n    table keyless {");
    let more = more.replace("keyless.apply();", "keyless.apply(); more.apply();");
    client
        .load(Action::ReconcileAndCommit, &more)
        .await
        .expect("all state has a place");
    assert_eq!(
        client.read(entries(&objects)).await,
        [Kind::TableEntry(kept.clone())]
    );
    let named = Kind::TableEntry(entry(objects.id("by_name"), vec![], None));
    assert_eq!(client.read(named).await, [Kind::TableEntry(by_name)]);
    rig.receive(2, &frame(1, 5, 0x9999));
    assert_eq!(rig.sent().expect("the entry forwards").0, 3);
    let less = ALL.replace("exact_table", "other_table");
    let refused = client
        .load(Action::ReconcileAndCommit, &less)
        .await
        .expect_err("no place");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("exact_table"),
        "{}",
        refused.message()
    );
    assert_eq!(
        client.read(entries(&objects)).await,
        [Kind::TableEntry(kept)]
    );
    // The removal is accepted if the request permits to lose this object, but not if it names
    // another one.
    let config = rt::ForwardingPipelineConfig {
        p4_device_config: less.into_bytes(),
        ..Default::default()
    };
    let action = Action::ReconcileAndCommit;
    for (word, is_enough) in [("In.acl, In.other_table", false), ("In.exact_table", true)] {
        let set = client.set_with(action, Some(config.clone()), Some(word));
        assert_eq!(set.await.is_ok(), is_enough, "{word}");
    }
    let named = Kind::TableEntry(entry(objects.id("by_name"), vec![], None));
    assert_eq!(client.read(named).await.len(), 1);
}

#[tokio::test]
async fn a_saved_config_takes_writes_and_runs_when_it_is_committed() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let none = client
        .set(Action::Commit, None)
        .await
        .expect_err("nothing is saved");
    assert_eq!(none.code(), Code::NotFound);
    client
        .load(Action::VerifyAndSave, ALL)
        .await
        .expect("it is fine");
    let given = client
        .load(Action::Commit, ALL)
        .await
        .expect_err("COMMIT takes no config");
    assert_eq!(given.code(), Code::InvalidArgument);
    client.insert(one(&objects)).await;
    assert_eq!(client.read(entries(&objects)).await.len(), 1);
    // Packets do not see it yet.
    rig.receive(2, &frame(1, 5, 0x9999));
    assert_eq!(rig.sent_now(), None);
    client
        .set(Action::Commit, None)
        .await
        .expect("it is committed");
    assert_eq!(client.read(entries(&objects)).await.len(), 1);
    rig.receive(2, &frame(1, 5, 0x9999));
    assert_eq!(rig.sent().expect("the entry forwards").0, 3);
    let again = client
        .set(Action::Commit, None)
        .await
        .expect_err("it is no longer saved");
    assert_eq!(again.code(), Code::NotFound);
    assert_eq!(
        client.refused(Type::Insert, one(&objects)).await,
        Code::AlreadyExists
    );
}

#[tokio::test]
async fn a_p4info_that_asks_for_more_than_the_platform_has_is_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, _objects) = rig.loaded().await;
    let info = client.config().await.p4info.expect("it has one");
    let asked = |groups, total, each| {
        let mut info = info.clone();
        let package = info.pkg_info.get_or_insert_default();
        let properties = package.platform_properties.get_or_insert_default();
        properties.multicast_group_table_size = groups;
        properties.multicast_group_table_total_replicas = total;
        properties.multicast_group_table_max_replicas_per_entry = each;
        Some(rt::ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: ALL.as_bytes().to_vec(),
            cookie: None,
        })
    };
    for (groups, total, each) in [(65536, 0, 0), (1, 4, 5), (-1, 0, 0)] {
        let config = asked(groups, total, each);
        let refused = client.set(Action::Verify, config).await;
        let code = refused.expect_err("too much").code();
        assert_eq!(code, Code::InvalidArgument, "{groups} {total} {each}");
    }
    let config = asked(65535, 1 << 20, 1 << 10);
    client
        .set(Action::Verify, config)
        .await
        .expect("it has that");
}

/// Encodes the message `p4.tmp.P4DeviceConfig` with this `device_data`, as controllers for BMv2 do.
fn wrapped(data: &[u8]) -> Vec<u8> {
    let mut length = data.len();
    let mut bytes = vec![0x08, 1, 0x1a];
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(data);
    bytes
}

#[tokio::test]
async fn a_config_in_the_message_of_bmv2_is_taken_and_read_back_as_it_came() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let program = p4rt::Loader::compile(&Compiler, ALL).expect("it is fine");
    let compiled = p4rt::device_config(&program);
    for data in [ALL.as_bytes(), &compiled, program.to_string().as_bytes()] {
        let config = rt::ForwardingPipelineConfig {
            p4info: None,
            p4_device_config: wrapped(data),
            cookie: None,
        };
        let set = client.set(Action::VerifyAndCommit, Some(config)).await;
        set.expect("it loads");
        assert_eq!(client.config().await.p4_device_config, wrapped(data));
    }
}

#[tokio::test]
async fn actions_of_a_p4info_that_no_table_has_are_passed_over() {
    let rig = Rig::empty();
    let (mut client, _stream, _) = rig.loaded().await;
    let mut info = client.config().await.p4info.expect("it has one");
    let mut helper = info.actions[0].clone();
    let preamble = helper.preamble.as_mut().expect("it has one");
    preamble.name = "In.helper".to_owned();
    preamble.id = 0x01ff_ffff;
    info.actions.push(helper);
    let config = |info: &p4info::P4Info| rt::ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: ALL.as_bytes().to_vec(),
        cookie: None,
    };
    let set = client.set(Action::Verify, Some(config(&info))).await;
    set.expect("it is the program's");
    // A table that lists the action does not match. All differences are reported.
    let listed = p4info::p4::config::v1::ActionRef {
        id: 0x01ff_ffff,
        ..Default::default()
    };
    info.tables[0].action_refs.push(listed);
    let preamble = info.tables[1].preamble.as_mut().expect("it has one");
    preamble.name = "In.other".to_owned();
    let refused = client.set(Action::Verify, Some(config(&info))).await;
    let refused = refused.expect_err("it is of another program");
    assert_eq!(refused.code(), Code::InvalidArgument);
    for word in ["In.helper", "In.other"] {
        assert!(refused.message().contains(word), "{}", refused.message());
    }
}

/// Loader with compilations that only end when they are cancelled.
#[derive(Default)]
struct Slow {
    running: Arc<AtomicUsize>,
}

/// Permit for such a compilation.
struct Endless {
    running: Arc<AtomicUsize>,
    is_cancelled: AtomicBool,
}

impl ProgramPermit for Endless {
    fn run(&self, _work: &mut dyn FnMut()) -> Result<(), TenancyError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        while !self.is_cancelled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        Err(TenancyError {
            code: Code::Aborted,
            message: "cancelled".to_owned(),
        })
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }
}

impl Loader for Slow {
    fn admit(&self, _bytes: usize) -> Result<Arc<dyn ProgramPermit>, TenancyError> {
        Ok(Arc::new(Endless {
            running: Arc::clone(&self.running),
            is_cancelled: AtomicBool::new(false),
        }))
    }

    fn compile(&self, text: &str) -> Result<ir::Program, String> {
        Compiler.compile(text)
    }

    fn device(&self, program: Arc<ir::Program>) -> Result<Device, LoadError> {
        Compiler.device(program)
    }
}

/// Waits until this number of compilations are running.
async fn are_made(running: &AtomicUsize, count: usize) {
    for _ in 0..2000 {
        if running.load(Ordering::SeqCst) == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!(
        "{} are being made, not {count}",
        running.load(Ordering::SeqCst)
    );
}

#[tokio::test]
async fn a_program_is_made_no_more_when_its_client_has_gone() {
    let slow = Slow::default();
    let running = Arc::clone(&slow.running);
    let rig = Rig::loading(Arc::new(slow));
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    // The call is cancelled.
    {
        let load = client.load(Action::VerifyAndCommit, ALL);
        tokio::select! {
            _ = load => panic!("it never ends by itself"),
            () = are_made(&running, 1) => {}
        }
    }
    are_made(&running, 0).await;
    // The connection is lost.
    let mut other = rig.client().await;
    let _stream = other.open(Some(2), "").await;
    let load = tokio::spawn(async move { other.load(Action::Verify, ALL).await });
    are_made(&running, 1).await;
    load.abort();
    are_made(&running, 0).await;
    // The server stops.
    let mut last = rig.client().await;
    let _stream = last.open(Some(3), "").await;
    let load = tokio::spawn(async move { last.load(Action::Verify, ALL).await });
    are_made(&running, 1).await;
    drop(rig);
    are_made(&running, 0).await;
    assert!(load.await.expect("it does not panic").is_err());
}
