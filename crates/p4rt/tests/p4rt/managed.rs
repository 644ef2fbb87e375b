//! Tests of managed tables: writes of other controllers are proposed to the manager.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use p4info::polyplane::reflex::v1 as wire;
use p4rt::{pack, unpack};
use tonic::Code;

use crate::rig::*;

/// A rig with a manager of `exact_table`, as the primary of the default role, and a controller of
/// another role.
struct Managed {
    rig: Rig,
    manager: Client,
    stream: Stream,
    other: Client,
    other_stream: Stream,
    objects: Objects,
}

impl Managed {
    async fn new() -> Managed {
        let rig = Rig::empty();
        let (manager, stream, objects) = rig.loaded().await;
        let mut other = rig.client().await;
        let other_stream = other.open(Some(1), "other").await;
        let mut managed = Managed {
            rig,
            manager,
            stream,
            other,
            other_stream,
            objects,
        };
        managed.manage(&["exact_table"]).await;
        managed
    }

    /// Has these tables managed, and awaits the message back.
    async fn manage(&mut self, tables: &[&str]) {
        let tables = tables.iter().map(|name| self.objects.id(name));
        let request = wire::ManageTables {
            table_ids: tables.collect(),
        };
        self.stream.send(Ask::Other(pack(&request))).await;
        let Ok(Told::Other(message)) = self.stream.next().await else {
            panic!("the switch sends the message back");
        };
        assert_eq!(unpack(&message), Some(request));
    }

    fn entry(&self, table: &str, key: u8) -> Kind {
        let forward = does(self.objects.id("forward"), &[&[1]]);
        let keys = vec![exact(1, &[key])];
        Kind::TableEntry(entry(self.objects.id(table), keys, forward))
    }

    /// Answers the next proposal with a code, after the manager made the update if it is `Ok`.
    async fn answer(&mut self, code: Code) -> rt::Update {
        let Ok(Told::Other(message)) = self.stream.next().await else {
            panic!("a proposal");
        };
        let proposal: wire::ProposedUpdate = unpack(&message).expect("a proposal");
        let update = proposal.update.expect("an update");
        let entity = update.entity.clone().and_then(|entity| entity.entity);
        if code == Code::Ok {
            let entity = entity.expect("an entity");
            let made = self.manager.write(update.r#type(), entity).await;
            made.expect("the manager's own write is made at once");
        }
        let result = wire::ProposalResult {
            number: proposal.number,
            canonical_code: code as i32,
            message: format!("the manager says {code:?}"),
        };
        self.stream.send(Ask::Other(pack(&result))).await;
        update
    }

    async fn entries(&mut self) -> usize {
        let all = entry(self.objects.id("exact_table"), vec![], None);
        self.other.read(Kind::TableEntry(all)).await.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_write_to_a_managed_table_is_answered_with_the_managers_result() {
    let mut managed = Managed::new().await;
    for code in [Code::Ok, Code::AlreadyExists] {
        let (mut other, one) = (managed.other.clone(), managed.entry("exact_table", 1));
        let sent = one.clone();
        let written = tokio::spawn(async move { other.write(Type::Insert, sent).await });
        let update = managed.answer(code).await;
        assert_eq!(update.entity.and_then(|it| it.entity), Some(one));
        let written = written.await.expect("no panic");
        let error = written.err().unwrap_or_default();
        assert_eq!(error.canonical_code, code as i32);
        assert_eq!(managed.entries().await, 1);
    }
    // What does not fit the program is refused before.
    let unfit = Kind::TableEntry(entry(managed.objects.id("exact_table"), vec![], None));
    let refused = managed.other.refused(Type::Insert, unfit).await;
    assert_eq!(refused, Code::InvalidArgument);
    // Direct counters of its entries, and other tables, are not managed.
    let counter = rt::DirectCounterEntry {
        table_entry: match managed.entry("exact_table", 1) {
            Kind::TableEntry(entry) => Some(rt::TableEntry {
                action: None,
                ..entry
            }),
            _ => None,
        },
        data: Some(rt::CounterData::default()),
    };
    managed
        .other
        .modify(Kind::DirectCounterEntry(counter))
        .await;
    assert!(managed.stream.is_quiet().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_batch_of_both_kinds_of_tables_has_its_results_in_order() {
    let mut managed = Managed::new().await;
    let read_meter = does(managed.objects.id("read_meter"), &[]);
    let free = entry(
        managed.objects.id("metered"),
        vec![exact(1, &[1])],
        read_meter,
    );
    let free = || Kind::TableEntry(free.clone());
    let batch = vec![
        (Type::Insert, free()),
        (Type::Insert, managed.entry("exact_table", 1)),
        (Type::Insert, free()),
        (Type::Insert, managed.entry("exact_table", 2)),
    ];
    let (mut other, updates) = (managed.other.clone(), batch.clone());
    let written =
        tokio::spawn(async move { other.write_all(Atomicity::ContinueOnError, updates).await });
    managed.answer(Code::ResourceExhausted).await;
    managed.answer(Code::Ok).await;
    let codes = [
        Code::Ok,
        Code::ResourceExhausted,
        Code::AlreadyExists,
        Code::Ok,
    ];
    let codes: Vec<i32> = codes.iter().map(|code| *code as i32).collect();
    assert_eq!(written.await.expect("no panic"), Err(codes));
    // An atomic one is refused, and nothing of it is made.
    managed.other.delete(free()).await;
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut request = managed.other.batch(batch.clone());
        request.atomicity = atomicity.into();
        let refused = managed.other.grpc.write(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
        assert!(refused.message().contains("CONTINUE_ON_ERROR"), "{refused}");
    }
    managed.other.insert(free()).await;
    assert!(managed.stream.is_quiet().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_its_manager_a_table_is_not_written_until_it_is_given_back() {
    let mut managed = Managed::new().await;
    let one = managed.entry("exact_table", 1);
    // A write under way when the manager goes: it may be done.
    let (mut other, sent) = (managed.other.clone(), one.clone());
    let written = tokio::spawn(async move { other.write(Type::Insert, sent).await });
    let proposal = managed.stream.next().await;
    assert!(matches!(proposal, Ok(Told::Other(_))));
    managed.stream = managed.rig.client().await.open(None, "").await;
    let error = written.await.expect("no panic").unwrap_err();
    assert_eq!(error.canonical_code, Code::Unavailable as i32);
    assert!(error.message.starts_with("unknown: "), "{}", error.message);
    let error = managed
        .other
        .write(Type::Insert, one.clone())
        .await
        .unwrap_err();
    assert_eq!(error.canonical_code, Code::Unavailable as i32);
    assert!(
        error.message.starts_with("no_quorum: "),
        "{}",
        error.message
    );
    // Also another primary of its role cannot write, unless it manages the table.
    let mut next = managed.rig.client().await;
    managed.stream = next.open(Some(20), "").await;
    assert_eq!(
        next.refused(Type::Insert, one.clone()).await,
        Code::Unavailable
    );
    managed.manager = next;
    managed.manage(&["exact_table"]).await;
    managed.manager.insert(one.clone()).await;
    managed.manage(&[]).await;
    managed.other.delete(one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_write_ends_before_another_primary_of_its_role_begins() {
    let mut managed = Managed::new().await;
    let (mut other, one) = (managed.other.clone(), managed.entry("exact_table", 1));
    let written = tokio::spawn(async move { other.write(Type::Insert, one).await });
    let Ok(Told::Other(message)) = managed.stream.next().await else {
        panic!("a proposal");
    };
    let proposal: wire::ProposedUpdate = unpack(&message).expect("a proposal");
    let mut next = managed.rig.client().await;
    let mut next_stream = next.stream().await;
    next_stream.send(arbitration(1, Some(2), "other")).await;
    assert!(managed.other_stream.is_quiet().await);
    // Writes of the old primary are refused meanwhile.
    let two = managed.entry("exact_table", 2);
    let error = managed.other.write(Type::Insert, two).await.unwrap_err();
    assert!(
        error.message.contains("asks to be primary"),
        "{}",
        error.message
    );
    let result = wire::ProposalResult {
        number: proposal.number,
        ..wire::ProposalResult::default()
    };
    managed.stream.send(Ask::Other(pack(&result))).await;
    assert_eq!(written.await.expect("no panic"), Ok(()));
    assert_eq!(next_stream.arbitration().await, (Code::Ok, Some(2)));
}

#[tokio::test]
async fn who_may_not_manage_a_table_is_refused() {
    let mut managed = Managed::new().await;
    let refused = async |stream: &mut Stream, tables: Vec<u32>| {
        let request = wire::ManageTables { table_ids: tables };
        stream.send(Ask::Other(pack(&request))).await;
        match stream.next().await {
            Ok(Told::Error(error)) => Code::from(error.canonical_code),
            other => panic!("{other:?}"),
        }
    };
    let exact_table = managed.objects.id("exact_table");
    let of_other = &mut managed.other_stream;
    let taken = refused(of_other, vec![exact_table]).await;
    assert_eq!(taken, Code::FailedPrecondition);
    assert_eq!(refused(of_other, vec![7]).await, Code::NotFound);
    let mut backup = managed.rig.client().await;
    let mut backup = backup.open(None, "").await;
    let none = refused(&mut backup, vec![exact_table]).await;
    assert_eq!(none, Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_saved_config_takes_no_write_to_a_managed_table_and_its_manager_learns_of_the_commit() {
    use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
    let mut managed = Managed::new().await;
    let one = managed.entry("exact_table", 1);
    let saved = managed.manager.load(Action::VerifyAndSave, ALL).await;
    saved.expect("the config is good");
    for by_manager in [true, false] {
        let writer = match by_manager {
            true => &mut managed.manager,
            false => &mut managed.other,
        };
        let error = writer.write(Type::Insert, one.clone()).await.unwrap_err();
        assert_eq!(error.canonical_code, Code::FailedPrecondition as i32);
        assert!(error.message.contains("(COMMIT)"), "{}", error.message);
    }
    assert!(managed.stream.is_quiet().await);
    let notice = wire::ManageTables {
        table_ids: vec![managed.objects.id("exact_table")],
    };
    let committed = managed.manager.set(Action::Commit, None).await;
    committed.expect("a config is saved");
    let committed = managed.manager.load(Action::VerifyAndCommit, ALL).await;
    committed.expect("the config is good");
    for _ in 0..2 {
        let Ok(Told::Other(message)) = managed.stream.next().await else {
            panic!("the manager gets a notice of each change");
        };
        assert_eq!(unpack(&message), Some(notice.clone()));
    }
    assert_eq!(managed.entries().await, 0);
    managed.manager.insert(one).await;
}
