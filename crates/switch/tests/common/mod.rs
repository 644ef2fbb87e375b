//! Helpers for tests: devices from IR text, and the packets that they send.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;

use exec::DropReason;
use ir::{ActionCall, KeyMatch, Program, TableId};
use packet::{Nanos, PortId};
use switch::{Action, Change, Device, DeviceConfig, EntryId, QueueConfig, TableEntry};

/// Returns a v1model program: header `h` (kind, value, mark), user metadata `kept` and `lost`, and
/// the given code for ingress and egress. Further declarations (tables, externs) come before the
/// parser.
pub fn v1model(declarations: &str, ingress: &str, egress: &str) -> Arc<Program> {
    program(&format!(
        r#"program t v1model
errors {{NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort}}
header_type h_t {{
    kind: bit<8>;
    value: bit<32>;
    mark: bit<8>;
}}
header hdr.h: h_t
field meta.kept: bit<8>
field meta.lost: bit<8>
field sm.ingress_port: bit<9>
field sm.egress_spec: bit<9>
field sm.egress_port: bit<9>
field sm.instance_type: bit<32>
field sm.packet_length: bit<32>
field sm.enq_timestamp: bit<32>
field sm.enq_qdepth: bit<19>
field sm.deq_timedelta: bit<32>
field sm.deq_qdepth: bit<19>
field sm.ingress_global_timestamp: bit<48>
field sm.egress_global_timestamp: bit<48>
field sm.mcast_grp: bit<16>
field sm.egress_rid: bit<16>
field sm.parser_error: error
field sm.priority: bit<3>
{declarations}
parser p start start {{
    state start {{
        extract hdr.h;
        goto accept;
    }}
}}
control ingress {{
{ingress}
}}
control egress {{
{egress}
}}
control deparser {{
    stage deparser.code: action next end {{
        emit hdr.h;
    }}
}}
block parser = parser p
block ingress = control ingress
block egress = control egress
block deparser = control deparser
intrinsic standard_metadata.ingress_port = sm.ingress_port
intrinsic standard_metadata.egress_spec = sm.egress_spec
intrinsic standard_metadata.egress_port = sm.egress_port
intrinsic standard_metadata.instance_type = sm.instance_type
intrinsic standard_metadata.packet_length = sm.packet_length
intrinsic standard_metadata.enq_timestamp = sm.enq_timestamp
intrinsic standard_metadata.enq_qdepth = sm.enq_qdepth
intrinsic standard_metadata.deq_timedelta = sm.deq_timedelta
intrinsic standard_metadata.deq_qdepth = sm.deq_qdepth
intrinsic standard_metadata.ingress_global_timestamp = sm.ingress_global_timestamp
intrinsic standard_metadata.egress_global_timestamp = sm.egress_global_timestamp
intrinsic standard_metadata.mcast_grp = sm.mcast_grp
intrinsic standard_metadata.egress_rid = sm.egress_rid
intrinsic standard_metadata.parser_error = sm.parser_error
intrinsic standard_metadata.priority = sm.priority
field_list 1 (meta.kept)
field_list 2 (meta.kept, sm.ingress_port, sm.parser_error, sm.priority, sm.ingress_global_timestamp)
"#
    ))
}

/// Returns a stage with this name that runs this code and ends the control.
pub fn code(name: &str, body: &str) -> String {
    format!("    stage {name}.code: action next end {{\n{body}\n    }}")
}

pub fn program(text: &str) -> Arc<Program> {
    let program = ir::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    if let Err(errors) = ir::verify(&program) {
        panic!("{errors:#?}");
    }
    Arc::new(program)
}

pub fn device(program: &Arc<Program>) -> Device {
    Device::new(program.clone(), &interp::Interp, &DeviceConfig::default()).unwrap()
}

/// Returns a packet for `v1model`.
pub fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0], payload].concat()
}

pub fn ns(n: u64) -> Nanos {
    Nanos(n)
}

/// Receives a packet at port 0 at this time, and runs the device up to this time.
pub fn send(device: &mut Device, bytes: &[u8], now: Nanos) {
    device.receive(PortId(0), bytes).unwrap();
    device.step(now);
    device.check_conservation().unwrap();
}

/// Returns the packets sent since the last call: port, bytes, time in nanoseconds.
pub fn sent(device: &mut Device) -> Vec<(u32, Vec<u8>, u64)> {
    let mut all = Vec::new();
    device.drain_sent(|port, bytes, time| all.push((port.0, bytes.to_vec(), time.0)));
    device.check_conservation().unwrap();
    all
}

pub fn ports(device: &mut Device) -> Vec<u32> {
    sent(device).into_iter().map(|(port, ..)| port).collect()
}

pub fn dropped(device: &Device, reason: DropReason) -> u64 {
    device.ledger().dropped(reason)
}

/// Inserts an entry that calls the action at this position of the table's list.
pub fn insert(
    device: &mut Device,
    keys: Vec<KeyMatch>,
    action: usize,
    args: Vec<bits::Value>,
) -> EntryId {
    let call = ActionCall { action, args };
    let change = Change::Insert(TableId::new(0), entry(keys, Action::Call(call)));
    device.apply(change).unwrap().unwrap()
}

pub fn entry(keys: Vec<KeyMatch>, action: Action) -> TableEntry {
    TableEntry {
        keys,
        priority: None,
        action,
        idle_timeout: None,
        meter: None,
        counter: None,
    }
}

pub fn value(number: u128, width: u32) -> bits::Value {
    bits::Value::truncated(number, width)
}

/// Returns a queue configuration with this rate.
pub fn slow(packets_per_second: u64, depth: usize) -> QueueConfig {
    QueueConfig {
        depth,
        bits_per_second: None,
        packets_per_second: Some(packets_per_second),
        ..QueueConfig::default()
    }
}
