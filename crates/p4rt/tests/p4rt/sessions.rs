//! Tests of arbitration, roles and capabilities.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::update::Type;
use tonic::Code;

use crate::rig::*;

#[tokio::test]
async fn the_highest_election_id_writes_and_others_do_not() {
    let rig = Rig::empty();
    let (mut first, mut first_stream, objects) = rig.loaded().await;
    let entity = Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(objects.id("forward"), &[b"\x01"]),
    ));
    first.insert(entity.clone()).await;
    let mut second = rig.client().await;
    let _second_stream = second.open(Some(9), "").await;
    assert_eq!(
        first_stream.arbitration().await,
        (Code::AlreadyExists, Some(9))
    );
    let request = first.request(Type::Delete, entity.clone());
    let refused = first
        .grpc
        .write(request)
        .await
        .expect_err("it is backup now");
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(
        refused.details().is_empty(),
        "an error of the whole call has no details"
    );
    second.delete(entity).await;
}

#[tokio::test]
async fn when_the_primary_goes_all_hear_and_nobody_writes() {
    let rig = Rig::empty();
    let (mut first, first_stream, objects) = rig.loaded().await;
    let mut second = rig.client().await;
    let mut second_stream = second.stream().await;
    second_stream.send(arbitration(1, Some(0), "")).await;
    assert_eq!(
        second_stream.arbitration().await,
        (Code::AlreadyExists, Some(1))
    );
    drop(first_stream);
    assert_eq!(second_stream.arbitration().await, (Code::NotFound, Some(1)));
    let entity = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let request = first.request(Type::Delete, entity);
    let refused = first
        .grpc
        .write(request)
        .await
        .expect_err("its session is over");
    assert_eq!(refused.code(), Code::PermissionDenied);
    // An id equal to the highest one ever used is sufficient.
    second_stream.send(arbitration(1, Some(1), "")).await;
    assert_eq!(second_stream.arbitration().await, (Code::Ok, Some(1)));
}

#[tokio::test]
async fn a_session_for_an_unknown_device_ends_as_not_found() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let mut stream = client.stream().await;
    stream.send(arbitration(2, Some(1), "")).await;
    let ended = stream.next().await.expect_err("there is no device 2");
    assert_eq!(ended.code(), Code::NotFound);
}

#[tokio::test]
async fn an_election_id_in_use_ends_the_session() {
    let rig = Rig::empty();
    let mut first = rig.client().await;
    let _first = first.open(Some(1), "").await;
    let mut second = rig.client().await;
    let mut stream = second.stream().await;
    stream.send(arbitration(1, Some(1), "")).await;
    let ended = stream.next().await.expect_err("the id is taken");
    assert_eq!(ended.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_session_keeps_its_device_and_role() {
    let rig = Rig::empty();
    for change in [
        arbitration(7, Some(2), ""),
        arbitration(1, Some(2), "other"),
    ] {
        let mut client = rig.client().await;
        let mut stream = client.open(Some(2), "").await;
        stream.send(change).await;
        let ended = stream.next().await.expect_err("it cannot change");
        assert_eq!(ended.code(), Code::FailedPrecondition);
        // Once another controller may use the id, the server has noticed the end.
        drop(stream);
        let mut next = rig.client().await;
        let mut next_stream = next.stream().await;
        next_stream.send(arbitration(1, None, "")).await;
        assert_eq!(next_stream.arbitration().await.0, Code::NotFound);
    }
}

#[tokio::test]
async fn requests_are_checked_for_device_role_primary_and_config_in_this_order() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let entity = || Kind::TableEntry(rt::TableEntry::default());
    let mut request = client.request(Type::Insert, entity());
    request.device_id = 5;
    request.role = "nobody".to_owned();
    fn code<T>(result: Result<T, tonic::Status>) -> Code {
        result.map(drop).expect_err("refused").code()
    }
    assert_eq!(
        code(client.grpc.write(request.clone()).await),
        Code::NotFound
    );
    request.device_id = 1;
    assert_eq!(
        code(client.grpc.write(request.clone()).await),
        Code::NotFound
    );
    request.role = String::new();
    assert_eq!(
        code(client.grpc.write(request.clone()).await),
        Code::PermissionDenied
    );
    let _stream = client.open(Some(3), "").await;
    request.election_id = election(Some(3));
    assert_eq!(
        code(client.grpc.write(request).await),
        Code::FailedPrecondition
    );
    let read = rt::ReadRequest {
        device_id: 1,
        ..Default::default()
    };
    let read = client
        .grpc
        .read(read)
        .await
        .expect("a stream")
        .into_inner()
        .message()
        .await;
    assert_eq!(code(read), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_role_writes_what_is_its_own_or_nobody_s() {
    let rig = Rig::empty();
    let (mut main, _main_stream, objects) = rig.loaded().await;
    let guests = |ty: u16| {
        Kind::TableEntry(entry(
            objects.id("of_guests"),
            vec![exact(1, &ty.to_be_bytes())],
            does(objects.id("forward"), &[b"\x01"]),
        ))
    };
    let mut guest = rig.client().await;
    let _guest_stream = guest.open(Some(1), "guest").await;
    guest.insert(guests(0x0101)).await;
    let mut other = rig.client().await;
    let _other_stream = other.open(Some(1), "other").await;
    assert_eq!(
        other.refused(Type::Insert, guests(0x0202)).await,
        Code::PermissionDenied
    );
    // The default role sees everything.
    main.insert(guests(0x0303)).await;
    let all = Kind::TableEntry(entry(objects.id("of_guests"), vec![], None));
    assert_eq!(guest.read(all.clone()).await.len(), 2);
    assert_eq!(other.read(all.clone()).await.len(), 0);
    assert_eq!(main.read(all).await.len(), 2);
}

#[tokio::test]
async fn capabilities_tell_the_version() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    for device_id in [0, 1] {
        let request = rt::CapabilitiesRequest { device_id };
        let answer = client.grpc.capabilities(request).await.expect("an answer");
        assert_eq!(answer.into_inner().p4runtime_api_version, "1.5.0");
    }
    let request = rt::CapabilitiesRequest { device_id: 9 };
    let refused = client
        .grpc
        .capabilities(request)
        .await
        .expect_err("there is no device 9");
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn a_write_in_flight_is_whole_when_the_next_primary_is_told() {
    let rig = Rig::empty();
    let mut first = rig.client().await;
    let _first_stream = first.open(Some(1), "").await;
    let large = ALL.replace("size = 16;", "size = 5000;");
    let action = rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    first.load(action, &large).await.expect("it loads");
    let objects = Objects::of(&first.config().await);
    const MANY: u32 = 4000;
    let forward = does(objects.id("forward"), &[b"\x01"]);
    let updates = (1..=MANY).map(|number| {
        let key = number.to_be_bytes();
        let one = entry(
            objects.id("exact_table"),
            vec![exact(1, &key)],
            forward.clone(),
        );
        (Type::Insert, Kind::TableEntry(one))
    });
    let request = first.batch(updates.collect());
    let mut writer = first.clone();
    let writing = tokio::spawn(async move { writer.grpc.write(request).await });
    tokio::task::yield_now().await;
    let mut second = rig.client().await;
    let _second_stream = second.open(Some(2), "").await;
    // The second controller is primary now. The first one's batch was made before, or will never
    // be.
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let found = second.read(all.clone()).await.len();
    let written = writing.await.expect("it ends");
    match written {
        Ok(_) => assert_eq!(found, MANY as usize),
        Err(status) => {
            assert_eq!(status.code(), Code::PermissionDenied);
            assert_eq!(found, 0);
        }
    }
    assert_eq!(second.read(all).await.len(), found);
}

#[tokio::test]
async fn everybody_reads_and_the_primary_alone_writes() {
    let rig = Rig::empty();
    let (mut primary, _stream, objects) = rig.loaded().await;
    let one = Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(objects.id("forward"), &[b"\x01"]),
    ));
    primary.insert(one.clone()).await;
    let mut backup = rig.client().await;
    let _backup_stream = backup.open(None, "").await;
    let without_session = rig.client().await;
    for mut client in [backup, without_session] {
        let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
        assert_eq!(client.read(all).await, std::slice::from_ref(&one));
        let request = client.request(Type::Delete, one.clone());
        let refused = client.grpc.write(request).await.expect_err("not primary");
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
}
