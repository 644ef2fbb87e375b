//! Differences between the objects of a plane and those that it must hold.

use std::collections::HashMap;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type;

/// Number of differences between a plane and what it must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(crate) missing: usize,
    pub(crate) changed: usize,
    pub(crate) unknown: usize,
}

impl Differences {
    pub(crate) fn any(self) -> bool {
        self != Differences::default()
    }
}

/// Key of an object that updates insert, modify and delete.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Entry(Vec<u8>),
    Member(u32, u32),
    Group(u32, u32),
    Multicast(u32),
    Session(u32),
    Digest(u32),
}

fn entry_key(entry: &rt::TableEntry) -> rt::TableEntry {
    rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..rt::TableEntry::default()
    }
}

/// Returns the key of an object; `None` for objects that are only modified.
fn key(entity: &Entity) -> Option<Key> {
    use rt::packet_replication_engine_entry::Type;
    Some(match entity {
        Entity::TableEntry(entry) if entry.is_default_action => return None,
        Entity::TableEntry(entry) => {
            use prost::Message;
            Key::Entry(entry_key(entry).encode_to_vec())
        }
        Entity::ActionProfileMember(member) => {
            Key::Member(member.action_profile_id, member.member_id)
        }
        Entity::ActionProfileGroup(group) => Key::Group(group.action_profile_id, group.group_id),
        Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Type::MulticastGroupEntry(group) => Key::Multicast(group.multicast_group_id),
            Type::CloneSessionEntry(session) => Key::Session(session.session_id),
        },
        Entity::DigestEntry(entry) => Key::Digest(entry.digest_id),
        _ => return None,
    })
}

/// Returns an object without what P4Runtime reads beside it.
fn plain(entity: &Entity) -> Entity {
    match entity {
        Entity::TableEntry(entry) => Entity::TableEntry(rt::TableEntry {
            counter_data: None,
            time_since_last_hit: None,
            ..entry.clone()
        }),
        other => other.clone(),
    }
}

/// Returns the updates that make a plane with the objects `found` hold what `wanted` inserts, and
/// the number of differences of entries. Objects that cannot be read are left out if the plane has
/// held them before.
pub(crate) fn difference(
    wanted: Vec<rt::Update>,
    found: Vec<Entity>,
    is_known: bool,
    is_server: bool,
) -> (Vec<rt::Update>, Differences) {
    let mut differences = Differences::default();
    let mut held: HashMap<Key, Entity> = HashMap::new();
    let mut deletions = Vec::new();
    for entity in found {
        let is_fixed = match &entity {
            // Without a number, a server's entry is one that a handler has added.
            Entity::TableEntry(entry) => entry.is_const || is_server && entry.metadata.is_empty(),
            _ => false,
        };
        if let Some(key) = key(&entity).filter(|_| !is_fixed) {
            held.insert(key, entity);
        }
    }
    let mut updates = Vec::new();
    for mut update in wanted {
        let entity = update.entity.as_ref().and_then(|one| one.entity.as_ref());
        let Some(entity) = entity else { continue };
        let is_entry = matches!(entity, Entity::TableEntry(_));
        let Some(key) = key(entity) else {
            if !is_known {
                updates.push(update);
            }
            continue;
        };
        match held.remove(&key) {
            Some(found) if plain(&found) == plain(entity) => continue,
            Some(_) => {
                differences.changed += usize::from(is_entry);
                update.r#type = Type::Modify.into();
            }
            None => differences.missing += usize::from(is_entry),
        }
        updates.push(update);
    }
    for (key, entity) in held {
        differences.unknown += usize::from(matches!(key, Key::Entry(_)));
        let rank = match key {
            Key::Entry(_) => 0,
            Key::Group(..) => 1,
            _ => 2,
        };
        let entity = match entity {
            Entity::TableEntry(entry) => Entity::TableEntry(entry_key(&entry)),
            entity => entity,
        };
        let deletion = rt::Update {
            r#type: Type::Delete.into(),
            entity: Some(rt::Entity {
                entity: Some(entity),
            }),
        };
        deletions.push((rank, deletion));
    }
    deletions.sort_by_key(|(rank, _)| *rank);
    let deletions = deletions.into_iter().map(|(_, deletion)| deletion);
    // Entries that leave make room.
    (deletions.chain(updates).collect(), differences)
}
