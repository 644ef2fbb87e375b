//! Random messages, with all fields.

#![allow(dead_code, reason = "each test file uses a part")]

use pof::model::*;
use pof::wire::*;
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn field() -> impl Strategy<Value = Field> {
    (any::<u16>(), any::<u16>(), any::<u16>()).prop_map(|(id, offset, length)| Field {
        id,
        offset,
        length,
    })
}

pub(crate) fn one_match() -> impl Strategy<Value = Match> {
    (field(), any::<FieldValue>(), any::<FieldValue>()).prop_map(|(field, value, mask)| Match {
        field,
        value,
        mask,
    })
}

pub(crate) fn operand() -> impl Strategy<Value = Argument> {
    prop_oneof![
        any::<u32>().prop_map(Argument::Immediate),
        field().prop_map(Argument::Field),
    ]
}

pub(crate) fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forward), Just(Direction::Backward)]
}

pub(crate) fn place() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Packet), Just(Place::Metadata)]
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (operand(), any::<u16>(), any::<u16>(), any::<u16>()).prop_map(
            |(port, metadata_offset, metadata_length, packet_offset)| Action::Output {
                port,
                metadata_offset,
                metadata_length,
                packet_offset,
            }
        ),
        one_match().prop_map(Action::SetField),
        (field(), any::<u16>()).prop_map(|(field, metadata_offset)| {
            Action::SetFieldFromMetadata {
                field,
                metadata_offset,
            }
        }),
        (field(), any::<i32>())
            .prop_map(|(field, increment)| Action::ModifyField { field, increment }),
        (
            any::<u16>(),
            any::<u16>(),
            any::<u32>(),
            any::<FieldValue>()
        )
            .prop_map(|(id, offset, length, value)| Action::AddField {
                id,
                offset,
                length,
                value,
            }),
        (any::<u16>(), operand())
            .prop_map(|(offset, length)| Action::DeleteField { offset, length }),
        (place(), place(), any::<[u16; 4]>()).prop_map(|(checksum_place, data_place, n)| {
            Action::CalculateChecksum {
                checksum_place,
                checksum_offset: n[0],
                checksum_length: n[1],
                data_place,
                data_offset: n[2],
                data_length: n[3],
            }
        }),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(|reason| Action::Drop { reason }),
        any::<u32>().prop_map(|reason| Action::PacketIn { reason }),
        any::<u32>().prop_map(Action::Counter),
    ]
}

pub(crate) fn jump() -> impl Strategy<Value = Jump> {
    (direction(), operand()).prop_map(|(direction, distance)| Jump {
        direction,
        distance,
    })
}

pub(crate) fn calculation() -> impl Strategy<Value = Calculation> {
    prop_oneof![
        Just(Calculation::Add),
        Just(Calculation::Subtract),
        Just(Calculation::LeftShift),
        Just(Calculation::RightShift),
        Just(Calculation::And),
        Just(Calculation::Or),
        Just(Calculation::Xor),
        Just(Calculation::Nor),
    ]
}

pub(crate) fn instruction() -> impl Strategy<Value = Instruction> {
    prop_oneof![
        (any::<u8>(), any::<u16>(), vec(field(), 0..=8)).prop_map(|(table, offset, fields)| {
            Instruction::GotoTable {
                table,
                offset,
                fields,
            }
        }),
        (any::<u16>(), any::<u16>(), any::<FieldValue>()).prop_map(|(offset, length, value)| {
            Instruction::WriteMetadata {
                offset,
                length,
                value,
            }
        }),
        vec(action(), 0..=6).prop_map(Instruction::WriteActions),
        vec(action(), 0..=6).prop_map(Instruction::ApplyActions),
        Just(Instruction::ClearActions),
        any::<u32>().prop_map(Instruction::Meter),
        any::<[u16; 3]>().prop_map(|[metadata_offset, packet_offset, length]| {
            Instruction::WriteMetadataFromPacket {
                metadata_offset,
                packet_offset,
                length,
            }
        }),
        (any::<u8>(), any::<u16>(), operand()).prop_map(|(table, offset, index)| {
            Instruction::GotoDirectTable {
                table,
                offset,
                index,
            }
        }),
        (field(), operand(), jump(), jump(), jump()).prop_map(
            |(left, right, less, equal, greater)| Instruction::ConditionalJump {
                left,
                right,
                less,
                equal,
                greater,
            }
        ),
        (calculation(), field(), operand()).prop_map(|(operation, target, source)| {
            Instruction::CalculateField {
                operation,
                target,
                source,
            }
        }),
        (direction(), operand()).prop_map(|(direction, distance)| {
            Instruction::MovePacketOffset {
                direction,
                distance,
            }
        }),
        operand().prop_map(Instruction::SetPacketOffset),
        (any::<u8>(), field(), operand()).prop_map(|(result, left, right)| Instruction::Compare {
            result,
            left,
            right,
        }),
        (field(), operand(), any::<u32>()).prop_map(|(left, right, skip)| Instruction::Branch {
            left,
            right,
            skip
        }),
        (direction(), any::<u32>()).prop_map(|(direction, distance)| Instruction::Jump {
            direction,
            distance,
        }),
    ]
}

pub(crate) fn name() -> impl Strategy<Value = ObjectName> {
    vec(any::<u8>(), NAME_BYTES).prop_map(|bytes| {
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&bytes);
        ObjectName(name)
    })
}

pub(crate) fn table_type() -> impl Strategy<Value = TableType> {
    (0..4usize).prop_map(|at| TableType::ALL[at])
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        Just(Command::Add),
        Just(Command::Modify),
        Just(Command::Delete),
        Just(Command::Query),
        Just(Command::QueryResult),
    ]
}

pub(crate) fn flow_mod() -> impl Strategy<Value = FlowMod> {
    let command = prop_oneof![
        Just(FlowCommand::Add),
        Just(FlowCommand::Modify),
        Just(FlowCommand::ModifyStrict),
        Just(FlowCommand::Delete),
        Just(FlowCommand::DeleteStrict),
        Just(FlowCommand::Query),
        Just(FlowCommand::QueryResult),
    ];
    let head = (command, any::<u32>(), any::<u64>(), any::<u64>());
    let table = (any::<u8>(), table_type(), any::<[u16; 4]>(), any::<u32>());
    let lists = (vec(one_match(), 0..=8), vec(instruction(), 0..=6));
    (head, table, lists).prop_map(|(head, table, lists)| FlowMod {
        command: head.0,
        counter: head.1,
        cookie: head.2,
        cookie_mask: head.3,
        table: table.0,
        table_type: table.1,
        idle_timeout: table.2[0],
        hard_timeout: table.2[1],
        priority: table.2[2],
        slot: table.2[3],
        index: table.3,
        matches: lists.0,
        instructions: lists.1,
    })
}

pub(crate) fn counter() -> impl Strategy<Value = Counter> {
    let command = prop_oneof![
        Just(CounterCommand::Add),
        Just(CounterCommand::Delete),
        Just(CounterCommand::Clear),
        Just(CounterCommand::Query),
        Just(CounterCommand::QueryResult),
    ];
    (command, any::<u16>(), any::<u32>(), any::<[u64; 2]>()).prop_map(
        |(command, slot, id, [packets, bytes])| Counter {
            command,
            slot,
            id,
            packets,
            bytes,
        },
    )
}

pub(crate) fn port_status() -> impl Strategy<Value = PortStatus> {
    let ids = (any::<u8>(), any::<u16>(), any::<u16>(), any::<u32>());
    let rest = (any::<[u8; 6]>(), name(), any::<[u32; 8]>(), any::<bool>());
    (ids, rest).prop_map(|((reason, slot, id, device), rest)| PortStatus {
        reason,
        port: Port {
            slot,
            id,
            device,
            address: rest.0,
            name: rest.1,
            config: rest.2[0],
            state: rest.2[1],
            current: rest.2[2],
            advertised: rest.2[3],
            supported: rest.2[4],
            peer: rest.2[5],
            current_speed: rest.2[6],
            maximum_speed: rest.2[7],
            is_enabled: rest.3,
        },
    })
}

pub(crate) fn config() -> impl Strategy<Value = Config> {
    (any::<u32>(), any::<u16>(), any::<u16>()).prop_map(|(device, flags, miss_send_length)| {
        Config {
            device,
            flags,
            miss_send_length,
        }
    })
}

pub(crate) fn role_change() -> impl Strategy<Value = RoleChange> {
    let role = prop_oneof![
        Just(Role::NoChange),
        Just(Role::Equal),
        Just(Role::Master),
        Just(Role::Slave),
    ];
    (role, any::<u64>()).prop_map(|(role, generation)| RoleChange { role, generation })
}

pub(crate) fn resources() -> impl Strategy<Value = ResourceReport> {
    let table = || {
        (
            any::<u32>(),
            table_type(),
            any::<u8>(),
            any::<u16>(),
            any::<u32>(),
        )
            .prop_map(
                |(device, table_type, tables, key_length, size)| TableResource {
                    device,
                    table_type,
                    tables,
                    key_length,
                    size,
                },
            )
    };
    let tables = [table(), table(), table(), table()];
    (any::<u8>(), any::<u16>(), any::<[u32; 3]>(), tables).prop_map(
        |(kind, slot, [counters, meters, groups], tables)| ResourceReport {
            kind,
            slot,
            counters,
            meters,
            groups,
            tables,
        },
    )
}

pub(crate) fn flow_removed() -> impl Strategy<Value = FlowRemoved> {
    let present = one_match().prop_map(|mut one| {
        one.field.length = one.field.length.max(1);
        one
    });
    let head = (any::<u64>(), any::<[u16; 3]>(), any::<[u8; 2]>());
    let counts = (any::<[u32; 2]>(), any::<[u64; 2]>(), vec(present, 0..=8));
    (head, counts).prop_map(
        |((cookie, n, bytes), (times, counts, matches))| FlowRemoved {
            cookie,
            priority: n[0],
            reason: bytes[0],
            table: bytes[1],
            seconds: times[0],
            nanoseconds: times[1],
            idle_timeout: n[1],
            hard_timeout: n[2],
            packets: counts[0],
            bytes: counts[1],
            matches,
        },
    )
}

pub(crate) fn stats_request() -> impl Strategy<Value = StatsRequest> {
    prop_oneof![
        (any::<u8>(), any::<u64>(), any::<u64>()).prop_map(|(table, cookie, cookie_mask)| {
            StatsRequest::Flows {
                table,
                cookie,
                cookie_mask,
            }
        }),
        Just(StatsRequest::Tables),
        any::<u32>().prop_map(StatsRequest::Ports),
        any::<u32>().prop_map(StatsRequest::Groups),
        any::<u32>().prop_map(StatsRequest::Meters),
    ]
}

pub(crate) fn stats_reply() -> impl Strategy<Value = StatsReply> {
    let flow =
        (any::<[u32; 2]>(), any::<[u64; 2]>(), flow_mod()).prop_map(|(times, n, flow)| FlowStats {
            seconds: times[0],
            nanoseconds: times[1],
            packets: n[0],
            bytes: n[1],
            flow,
        });
    let table =
        (any::<u8>(), any::<u32>(), any::<[u64; 2]>()).prop_map(|(table, entries, n)| TableStats {
            table,
            entries,
            lookups: n[0],
            matched: n[1],
        });
    let port = (any::<u32>(), any::<[u64; 4]>()).prop_map(|(port, n)| PortStats {
        port,
        received_packets: n[0],
        sent_packets: n[1],
        received_bytes: n[2],
        sent_bytes: n[3],
    });
    let group = (any::<[u32; 2]>(), any::<[u64; 2]>()).prop_map(|(ids, n)| GroupStats {
        group: ids[0],
        users: ids[1],
        packets: n[0],
        bytes: n[1],
    });
    let meter =
        any::<[u32; 3]>().prop_map(|[meter, users, rate]| MeterStats { meter, users, rate });
    let stats = prop_oneof![
        vec(flow, 0..3).prop_map(Stats::Flows),
        vec(table, 0..4).prop_map(Stats::Tables),
        vec(port, 0..4).prop_map(Stats::Ports),
        vec(group, 0..4).prop_map(Stats::Groups),
        vec(meter, 0..4).prop_map(Stats::Meters),
    ];
    (any::<bool>(), stats).prop_map(|(has_more, stats)| StatsReply { has_more, stats })
}

pub(crate) fn data() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

pub(crate) fn packet_in() -> impl Strategy<Value = PacketIn> {
    let head = (any::<[u32; 2]>(), any::<[u16; 3]>(), any::<[u8; 2]>());
    (head, any::<u64>(), data()).prop_map(|((numbers, n, bytes), cookie, data)| PacketIn {
        buffer: numbers[0],
        length: n[0],
        reason: bytes[0],
        table: bytes[1],
        cookie,
        device: numbers[1],
        slot: n[1],
        port: n[2],
        data,
    })
}

pub(crate) fn group_mod() -> impl Strategy<Value = GroupMod> {
    let group_type = prop_oneof![
        Just(GroupType::All),
        Just(GroupType::Select),
        Just(GroupType::Indirect),
        Just(GroupType::FastFailover),
    ];
    let head = (command(), group_type, any::<[u32; 2]>(), any::<u16>());
    (head, vec(action(), 0..=4)).prop_map(|((command, group_type, ids, slot), actions)| GroupMod {
        command,
        group_type,
        id: ids[0],
        counter: ids[1],
        slot,
        actions,
    })
}

pub(crate) fn table_mod() -> impl Strategy<Value = TableMod> {
    let head = (command(), any::<u8>(), table_type(), any::<u32>());
    (head, any::<[u16; 2]>(), name(), vec(field(), 0..=8)).prop_map(
        |((command, id, table_type, size), [key_length, slot], name, fields)| TableMod {
            command,
            id,
            table_type,
            size,
            key_length,
            slot,
            name,
            fields,
        },
    )
}

pub(crate) fn failure() -> impl Strategy<Value = ErrorMessage> {
    (any::<[u16; 3]>(), any::<u32>(), "[a-z ]{0,255}").prop_map(|(n, device, text)| ErrorMessage {
        kind: n[0],
        code: n[1],
        device,
        slot: n[2],
        text,
    })
}

pub(crate) fn features() -> impl Strategy<Value = Features> {
    let names = [name(), name(), name()];
    (any::<[u32; 2]>(), any::<[u16; 3]>(), names).prop_map(|(numbers, n, names)| Features {
        device: numbers[0],
        slot: n[0],
        ports: n[1],
        tables: n[2],
        capabilities: numbers[1],
        vendor: names[0],
        forwarding_engine: names[1],
        lookup_engine: names[2],
    })
}

/// Every kind of message.
pub(crate) fn body() -> impl Strategy<Value = Body> {
    let empty = prop_oneof![
        Just(Body::Hello),
        Just(Body::FeaturesRequest),
        Just(Body::GetConfigRequest),
        Just(Body::BarrierRequest),
        Just(Body::BarrierReply),
        Just(Body::QueryAllFin),
        any::<u16>().prop_map(Body::QueryAllRequest),
    ];
    let meter =
        (command(), any::<u16>(), any::<[u32; 2]>()).prop_map(|(command, slot, [id, rate])| {
            MeterMod {
                command,
                slot,
                id,
                rate,
            }
        });
    let packet_out = (any::<[u32; 2]>(), vec(action(), 0..=6), data()).prop_map(
        |([buffer, in_port], actions, data)| PacketOut {
            buffer,
            in_port,
            actions,
            data,
        },
    );
    let symmetric = prop_oneof![
        failure().prop_map(Body::Error),
        data().prop_map(Body::EchoRequest),
        data().prop_map(Body::EchoReply),
        (any::<u32>(), data()).prop_map(|(id, data)| Body::Experimenter(id, data)),
        features().prop_map(Body::FeaturesReply),
        config().prop_map(Body::GetConfigReply),
        config().prop_map(Body::SetConfig),
        role_change().prop_map(Body::RoleRequest),
        role_change().prop_map(Body::RoleReply),
    ];
    let objects = prop_oneof![
        flow_mod().prop_map(Body::FlowMod),
        table_mod().prop_map(Body::TableMod),
        group_mod().prop_map(Body::GroupMod),
        meter.prop_map(Body::MeterMod),
        counter().prop_map(Body::CounterMod),
        counter().prop_map(Body::CounterRequest),
        counter().prop_map(Body::CounterReply),
        port_status().prop_map(Body::PortMod),
    ];
    let reports = prop_oneof![
        packet_in().prop_map(Body::PacketIn),
        packet_out.prop_map(Body::PacketOut),
        flow_removed().prop_map(Body::FlowRemoved),
        port_status().prop_map(Body::PortStatus),
        resources().prop_map(Body::ResourceReport),
        stats_request().prop_map(Body::MultipartRequest),
        stats_reply().prop_map(Body::MultipartReply),
    ];
    prop_oneof![empty, symmetric, objects, reports]
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (any::<u32>(), body()).prop_map(|(xid, body)| Message { xid, body })
}
