//! Tests of multicast groups and clone sessions.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::packet_replication_engine_entry::Type as Given;
use p4info::p4::v1::replica::PortKind;
use p4info::p4::v1::update::Type;
use packet::PortId;
use tonic::Code;

use crate::rig::*;

fn replica(port: u8, instance: u32, backups: &[(u8, u32)]) -> rt::Replica {
    let backup = |(port, instance): &(u8, u32)| rt::BackupReplica {
        port: vec![*port],
        instance: *instance,
    };
    rt::Replica {
        instance,
        port_kind: Some(PortKind::Port(vec![port])),
        backup_replicas: backups.iter().map(backup).collect(),
    }
}

fn multicast(multicast_group_id: u32, replicas: Vec<rt::Replica>) -> Kind {
    let group = rt::MulticastGroupEntry {
        multicast_group_id,
        replicas,
        metadata: b"mine".to_vec(),
    };
    replication(Given::MulticastGroupEntry(group))
}

fn session(session_id: u32, replicas: Vec<rt::Replica>) -> rt::CloneSessionEntry {
    rt::CloneSessionEntry {
        session_id,
        replicas,
        class_of_service: 2,
        packet_length_bytes: 100,
    }
}

fn replication(given: Given) -> Kind {
    Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
        r#type: Some(given),
    })
}

/// Returns the egress ports of a flooded frame.
fn flooded(rig: &Rig) -> Vec<u32> {
    rig.receive(1, &frame(1, 2, 0x9999));
    let mut ports = Vec::new();
    while let Some((port, _)) = rig.sent_now() {
        ports.push(port);
    }
    ports.sort_unstable();
    ports
}

#[tokio::test]
async fn multicast_groups_live_from_insert_to_delete() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let flood = does(objects.id("flood"), &[b"\x05"]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], flood);
    client.insert(Kind::TableEntry(one)).await;
    let group = multicast(5, vec![replica(3, 1, &[]), replica(4, 1, &[])]);
    assert_eq!(
        client.refused(Type::Modify, group.clone()).await,
        Code::NotFound
    );
    assert_eq!(
        client.refused(Type::Delete, group.clone()).await,
        Code::NotFound
    );
    assert_eq!(flooded(&rig), Vec::<u32>::new());
    client.insert(group.clone()).await;
    assert_eq!(
        client.refused(Type::Insert, group.clone()).await,
        Code::AlreadyExists
    );
    assert_eq!(client.read(multicast(5, vec![])).await, vec![group.clone()]);
    assert_eq!(flooded(&rig), [3, 4]);
    let other = multicast(6, vec![replica(3, 1, &[])]);
    client.insert(other.clone()).await;
    assert_eq!(client.read(multicast(0, vec![])).await, [group, other]);
    let smaller = multicast(5, vec![replica(3, 2, &[])]);
    client.modify(smaller.clone()).await;
    assert_eq!(client.read(multicast(5, vec![])).await, [smaller]);
    client.delete(multicast(5, vec![])).await;
    assert_eq!(client.read(multicast(5, vec![])).await, []);
    assert_eq!(flooded(&rig), Vec::<u32>::new());
}

#[tokio::test]
async fn malformed_groups_and_sessions_are_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, _objects) = rig.loaded().await;
    let portless = rt::Replica {
        port_kind: None,
        ..replica(1, 1, &[])
    };
    let beyond = rt::Replica {
        port_kind: Some(PortKind::Port(vec![0x02, 0x00])),
        ..replica(1, 1, &[])
    };
    let too_long = rt::Replica {
        port_kind: Some(PortKind::Port(vec![1; 5])),
        ..replica(1, 1, &[])
    };
    let bad = [
        (
            vec![replica(1, 1, &[]), replica(1, 1, &[])],
            Code::InvalidArgument,
        ),
        (vec![replica(1, 1, &[(1, 2)])], Code::InvalidArgument),
        (
            vec![replica(1, 1, &[(2, 2)]), replica(2, 2, &[])],
            Code::InvalidArgument,
        ),
        (vec![replica(1, 0x10000, &[])], Code::InvalidArgument),
        (vec![portless], Code::InvalidArgument),
        (vec![beyond], Code::InvalidArgument),
        (vec![too_long], Code::OutOfRange),
    ];
    for (replicas, code) in bad {
        let group = multicast(5, replicas.clone());
        assert_eq!(
            client.refused(Type::Insert, group).await,
            code,
            "{replicas:?}"
        );
        let session = replication(Given::CloneSessionEntry(session(5, replicas.clone())));
        assert_eq!(
            client.refused(Type::Insert, session).await,
            code,
            "{replicas:?}"
        );
    }
    assert_eq!(
        client.refused(Type::Insert, multicast(0, vec![])).await,
        Code::InvalidArgument
    );
    let bad = [
        session(0, vec![]),
        rt::CloneSessionEntry {
            class_of_service: 256,
            ..session(5, vec![])
        },
        rt::CloneSessionEntry {
            packet_length_bytes: -1,
            ..session(5, vec![])
        },
    ];
    for session in bad {
        let kind = replication(Given::CloneSessionEntry(session));
        assert_eq!(
            client.refused(Type::Insert, kind).await,
            Code::InvalidArgument
        );
    }
    let backed = replication(Given::CloneSessionEntry(session(
        5,
        vec![replica(1, 1, &[(2, 2)])],
    )));
    assert_eq!(
        client.refused(Type::Insert, backed).await,
        Code::Unimplemented
    );
    let neither =
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: None });
    assert_eq!(
        client.refused(Type::Insert, neither).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn clone_sessions_live_from_insert_to_delete() {
    let rig = Rig::empty();
    let (mut client, _stream, _objects) = rig.loaded().await;
    let kind =
        |session: &rt::CloneSessionEntry| replication(Given::CloneSessionEntry(session.clone()));
    let mut one = session(100, vec![replica(3, 1, &[])]);
    assert_eq!(
        client.refused(Type::Modify, kind(&one)).await,
        Code::NotFound
    );
    assert_eq!(
        client.refused(Type::Delete, kind(&one)).await,
        Code::NotFound
    );
    client.insert(kind(&one)).await;
    assert_eq!(
        client.refused(Type::Insert, kind(&one)).await,
        Code::AlreadyExists
    );
    one.packet_length_bytes = 0;
    client.modify(kind(&one)).await;
    assert_eq!(client.read(kind(&session(0, vec![]))).await, [kind(&one)]);
    assert_eq!(client.read(kind(&session(7, vec![]))).await, []);
    client.delete(kind(&one)).await;
    assert_eq!(client.read(kind(&session(0, vec![]))).await, []);
}

#[tokio::test]
async fn a_backup_takes_over_while_a_port_is_down_and_the_order_is_read_back() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let flood = does(objects.id("flood"), &[b"\x05"]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], flood);
    client.insert(Kind::TableEntry(one)).await;
    let group = multicast(
        5,
        vec![replica(3, 1, &[(7, 1), (6, 1)]), replica(4, 1, &[])],
    );
    client.insert(group.clone()).await;
    let mut after = async |port: u32, is_up: bool, expected: &[u32]| {
        rig.server.port_changed(1, PortId(port), is_up);
        assert_eq!(client.read(multicast(5, vec![])).await, vec![group.clone()]);
        // Port changes take effect after a short time.
        for _ in 0..20 {
            if flooded(&rig) == expected {
                return;
            }
        }
        panic!("with port {port} up {is_up}, frames do not leave by {expected:?}");
    };
    after(3, false, &[4, 7]).await;
    after(7, false, &[4, 6]).await;
    after(6, false, &[4]).await;
    after(7, true, &[4, 7]).await;
    after(3, true, &[3, 4]).await;
}
