//! Conversion of the device's data to messages, in canonical form. "Don't care" matches are omitted
//! (section "Match Format").

#![expect(
    deprecated,
    reason = "P4Runtime still has the fields, and clients still use them"
)]

use bits::Value;
use p4info::p4::v1 as rt;
use p4info::p4::v1::field_match::{self, FieldMatchType};
use p4info::p4::v1::table_action::Type as Action;
use switch::{CounterReading, MeterConfig, Replica};
use table::{ActionRef, ColorCounts, FieldMatch};

use crate::coding::Names;
use crate::controller_state::{Kept, Shot};
use crate::schema::{FieldView, Schema, TableView};
use crate::undo::Done;
use switch::arguments;

/// Converts the match fields of an entry.
pub(crate) fn matches(
    names: &Names,
    fields: &[FieldView],
    matched: &[FieldMatch],
) -> Vec<rt::FieldMatch> {
    let one = |(field, matched): (&FieldView, &FieldMatch)| {
        Some(rt::FieldMatch {
            field_id: field.id,
            field_match_type: Some(one(names, field, matched)?),
        })
    };
    fields.iter().zip(matched).filter_map(one).collect()
}

fn one(names: &Names, field: &FieldView, matched: &FieldMatch) -> Option<FieldMatchType> {
    if FieldMatch::any(&field.field).as_ref() == Some(matched) {
        return None;
    }
    let bytes = |value: &Value| field.coding.write(names, value);
    Some(match matched {
        FieldMatch::Exact(value) => FieldMatchType::Exact(field_match::Exact {
            value: bytes(value),
        }),
        FieldMatch::Lpm { value, prefix_len } => FieldMatchType::Lpm(field_match::Lpm {
            value: bytes(value),
            prefix_len: *prefix_len as i32,
        }),
        FieldMatch::Ternary { value, mask } => FieldMatchType::Ternary(field_match::Ternary {
            value: bytes(value),
            mask: bytes(mask),
        }),
        FieldMatch::Range { lo, hi } => FieldMatchType::Range(field_match::Range {
            low: bytes(lo),
            high: bytes(hi),
        }),
        FieldMatch::Optional(value) => FieldMatchType::Optional(field_match::Optional {
            value: bytes(value.as_ref()?),
        }),
    })
}

/// Converts a call of an action; `None` if the P4Info does not have the action.
pub(crate) fn action(schema: &Schema, action: &ActionRef) -> Option<rt::Action> {
    let declared = schema
        .program
        .actions
        .get(ir::ActionId::new(action.action))?;
    let view = schema.action_named(&declared.control_plane_name)?;
    let values = arguments(declared, &action.params);
    let param = |(view, value): (&crate::schema::ParamView, &Value)| rt::action::Param {
        param_id: view.id,
        value: view.coding.write(&schema.names, value),
    };
    Some(rt::Action {
        action_id: view.id,
        params: view.params.iter().zip(&values).map(param).collect(),
    })
}

/// Converts the action of an entry.
pub(crate) fn table_action(schema: &Schema, done: &Done, kept: &Kept) -> Option<rt::TableAction> {
    let ty = match done {
        Done::Call(call) => Action::Action(action(schema, call)?),
        Done::Member(id) => Action::ActionProfileMemberId(*id),
        Done::Group(id) => Action::ActionProfileGroupId(*id),
        Done::OneShot(parts) => Action::ActionProfileActionSet(shots(schema, parts, kept)),
    };
    Some(rt::TableAction { r#type: Some(ty) })
}

/// Converts a one-shot action set, with the data that is kept in the entry's metadata.
fn shots(schema: &Schema, parts: &[(ActionRef, u32)], kept: &Kept) -> rt::ActionProfileActionSet {
    use rt::action_profile_action::WatchKind;
    let one = |(at, (call, weight)): (usize, &(ActionRef, u32))| {
        let plain = Shot {
            weight: *weight as i32,
            ..Shot::default()
        };
        let shot = kept.shots.get(at).unwrap_or(&plain);
        let watch = shot.watch.map(WatchKind::Watch);
        let port =
            (!shot.watch_port.is_empty()).then(|| WatchKind::WatchPort(shot.watch_port.clone()));
        rt::ActionProfileAction {
            action: action(schema, call),
            weight: shot.weight,
            watch_kind: watch.or(port),
        }
    };
    let live = || parts.iter().enumerate().map(one);
    let all = || {
        let kept = kept.shots.iter().enumerate();
        kept.map(|(at, shot)| rt::ActionProfileAction {
            action: shot_action(schema, shot),
            ..one((
                at,
                &(
                    ActionRef {
                        action: 0,
                        params: Box::default(),
                    },
                    1,
                ),
            ))
        })
    };
    rt::ActionProfileActionSet {
        // The device has only the actions with live watch ports.
        action_profile_actions: match kept.is_watching() {
            true => all().collect(),
            false => live().collect(),
        },
        action_selection_mode: kept.selection_mode,
        size_semantics: kept.size_semantics,
        ..rt::ActionProfileActionSet::default()
    }
}

/// Converts an action of a one-shot set, as it was written.
fn shot_action(schema: &Schema, shot: &Shot) -> Option<rt::Action> {
    let view = schema.action_named(&shot.name)?;
    let params = view.params.iter().zip(&shot.args);
    let param = |(view, bytes): (&crate::schema::ParamView, &Vec<u8>)| {
        let value = Value::from_be_bytes(bytes, view.width).ok()?;
        Some(rt::action::Param {
            param_id: view.id,
            value: view.coding.write(&schema.names, &value),
        })
    };
    Some(rt::Action {
        action_id: view.id,
        params: params.map(param).collect::<Option<_>>()?,
    })
}

/// Converts a counter.
pub(crate) fn counter(reading: CounterReading) -> rt::CounterData {
    rt::CounterData {
        byte_count: reading.bytes as i64,
        packet_count: reading.packets as i64,
    }
}

/// Converts a meter's counters of each colour.
pub(crate) fn colors(counts: ColorCounts) -> rt::MeterCounterData {
    rt::MeterCounterData {
        green: Some(counter(counts.green)),
        yellow: Some(counter(counts.yellow)),
        red: Some(counter(counts.red)),
    }
}

/// Converts a meter's rates and burst sizes.
pub(crate) fn meter(config: MeterConfig) -> rt::MeterConfig {
    match config {
        MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        } => rt::MeterConfig {
            cir: cir as i64,
            cburst: cburst as i64,
            pir: pir as i64,
            pburst: pburst as i64,
            eburst: 0,
        },
        MeterConfig::SingleRate {
            cir,
            cburst,
            eburst,
        } => rt::MeterConfig {
            cir: cir as i64,
            cburst: cburst as i64,
            pir: cir as i64,
            pburst: cburst as i64,
            eburst: eburst as i64,
        },
    }
}

/// Returns the limbs of a key as exact matches of its fields. Entries added by packets have such
/// keys.
pub(crate) fn learned_matches(view: &TableView, key: &[u64]) -> Vec<FieldMatch> {
    let mut at = 0;
    let one = |field: &FieldView| {
        let width = field.field.width;
        let own = key.get(at..).unwrap_or(&[]);
        at += bits::limbs_for(width);
        FieldMatch::Exact(Value::from_limbs(own, width))
    };
    view.keys.iter().map(one).collect()
}

/// Converts a replica of a multicast group or clone session.
pub(crate) fn replica(replica: &Replica) -> rt::Replica {
    rt::Replica {
        instance: replica.instance,
        port_kind: Some(rt::replica::PortKind::Port(port_bytes(replica.port.0))),
        ..rt::Replica::default()
    }
}

/// Encodes a port as the shortest byte string.
fn port_bytes(port: u32) -> Vec<u8> {
    Value::truncated(port.into(), 32).to_p4rt_bytes()
}
