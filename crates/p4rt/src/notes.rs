//! Data that the device stores for the server, so that a restarted switch continues as controllers
//! left it. It consists of the forwarding pipeline config, controller data that the device itself
//! does not use, and translations of strings to numbers. Objects are stored by name, since names
//! stay valid across programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bits::{Id, IdVec};
use ir::{ExternId, Program};
use p4info::p4::v1::{
    ActionProfileGroup, CloneSessionEntry, ForwardingPipelineConfig, MulticastGroupEntry,
    digest_entry,
};
use prost::Message;
use switch::{Change, Device};

use crate::coding::Names;
use crate::controller_state::{Changes, ControllerState, Group, Kept};
use crate::device_service::Loader;
use crate::pipeline::{self, Config};
use crate::request_error::{Checked, RequestError};

/// Notes by name, as returned by [`Device::notes`].
pub type Notes = BTreeMap<Box<[u8]>, Box<[u8]>>;

const CONFIG: &str = "config";

/// Returns true if a controller had set a program.
pub fn has_config(notes: &Notes) -> bool {
    notes.contains_key(CONFIG.as_bytes())
}

/// Removes the config that a controller had set. Called if the device now runs a program that no
/// controller has set.
pub fn forget_config(device: &mut Device) {
    set_bytes(device, CONFIG.to_owned(), None);
}

/// Removes what the device stores of the state that controllers have written. Called if files
/// replace that state. Digests and translations of strings stay.
pub fn forget_written(device: &mut Device) {
    let is_written = |name: &[u8]| {
        let kinds: [&[u8]; 4] = [b"group/", b"multicast/", b"session/", b"default/"];
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    let names = device.notes().keys().filter(|name| is_written(name));
    for name in names.cloned().collect::<Vec<_>>() {
        // The device accepts every note.
        let _ = device.apply(Change::SetNote(name, None));
    }
}

fn set<M: Message>(device: &mut Device, name: String, message: Option<&M>) {
    set_bytes(device, name, message.map(|message| message.encode_to_vec()));
}

fn set_bytes(device: &mut Device, name: String, bytes: Option<Vec<u8>>) {
    let (name, bytes) = (name.into_bytes().into(), bytes.map(Into::into));
    // The device accepts every note.
    let _ = device.apply(Change::SetNote(name, bytes));
}

/// Returns the name of an object, if it still exists.
fn instance(program: &Program, id: ExternId) -> Option<&str> {
    program.externs.get(id).map(|one| one.name.as_str())
}

impl Group {
    fn message(&self) -> ActionProfileGroup {
        ActionProfileGroup {
            members: self.members.clone(),
            max_size: self.max_size,
            ..ActionProfileGroup::default()
        }
    }
}

impl ControllerState {
    /// Stores the changed data as notes of the device.
    pub(crate) fn note(&self, device: &mut Device, changes: &Changes) {
        let program = Arc::clone(device.program());
        for key @ (profile, id) in changes.groups.keys() {
            let group = self.groups.get(key).map(Group::message);
            if let Some(name) = instance(&program, *profile) {
                set(device, format!("group/{name}/{id}"), group.as_ref());
            }
        }
        for id in changes.multicast.keys() {
            set(device, format!("multicast/{id}"), self.multicast.get(id));
        }
        for id in changes.sessions.keys() {
            set(device, format!("session/{id}"), self.sessions.get(id));
        }
        for id in changes.defaults.keys() {
            if let Some(table) = program.tables.get(*id) {
                let name = format!("default/{}", table.name);
                set(device, name, self.defaults.get(id));
            }
        }
        for id in changes.digests.keys() {
            if let Some(name) = instance(&program, *id) {
                set(device, format!("digest/{name}"), self.digests.get(id));
            }
        }
    }

    /// Returns all data as changes.
    fn all(&self) -> Changes {
        Changes {
            groups: self.groups.keys().map(|key| (*key, None)).collect(),
            multicast: self.multicast.keys().map(|key| (*key, None)).collect(),
            sessions: self.sessions.keys().map(|key| (*key, None)).collect(),
            defaults: self.defaults.keys().map(|key| (*key, None)).collect(),
            digests: self.digests.keys().map(|key| (*key, None)).collect(),
        }
    }
}

impl Names {
    /// Stores the translations added since the last call.
    pub(crate) fn note(&self, device: &mut Device) {
        for (uri, number, text) in self.take_fresh() {
            set_bytes(device, format!("string/{uri}/{number}"), Some(text));
        }
    }
}

/// Replaces all notes by those of a config that was just set, and by `more`.
pub(crate) fn renew(device: &mut Device, config: &Config, extras: &ControllerState, more: Notes) {
    put_back(device, more);
    set(device, CONFIG.to_owned(), Some(&config.message));
    extras.note(device, &extras.all());
    config.schema.names.note_all(device);
}

impl Names {
    fn note_all(&self, device: &mut Device) {
        self.take_fresh();
        for (uri, number, text) in self.every() {
            set_bytes(device, format!("string/{uri}/{number}"), Some(text));
        }
    }
}

/// Replaces all notes.
pub fn put_back(device: &mut Device, notes: Notes) {
    let gone: Vec<Box<[u8]>> = device.notes().keys().cloned().collect();
    let gone = gone.into_iter().map(|name| (name, None));
    let back = notes.into_iter().map(|(name, bytes)| (name, Some(bytes)));
    for (name, bytes) in gone.chain(back) {
        // The device accepts every note.
        let _ = device.apply(Change::SetNote(name, bytes));
    }
}

/// Contents of the notes.
#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) message: Option<ForwardingPipelineConfig>,
    pub(crate) extras: ControllerState,
    pub(crate) names: Names,
}

/// Decodes notes. Notes of objects that the program no longer has are ignored.
///
/// # Errors
/// A note cannot be decoded, because another version wrote it.
pub(crate) fn read(notes: &Notes, program: &Program) -> Checked<Noted> {
    let mut noted = Noted::default();
    for (name, bytes) in notes {
        let name = String::from_utf8_lossy(name);
        let read = read_one(&mut noted, program, &name, bytes);
        read.map_err(|error| {
            let message = format!("the note `{name}` in the state cannot be read: {error}");
            RequestError::new(tonic::Code::DataLoss, message)
        })?;
    }
    Ok(noted)
}

fn read_one(
    noted: &mut Noted,
    program: &Program,
    name: &str,
    bytes: &[u8],
) -> Result<(), prost::DecodeError> {
    let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
    let numbered = || {
        let (object, number) = rest.rsplit_once('/').unwrap_or(("", rest));
        Some((object, number.parse::<u64>().ok()?))
    };
    let extras = &mut noted.extras;
    match kind {
        CONFIG => noted.message = Some(ForwardingPipelineConfig::decode(bytes)?),
        "group" => {
            let group = ActionProfileGroup::decode(bytes)?;
            if let Some((name, id)) = numbered()
                && let Some(profile) = find(&program.externs, |one| one.name == name)
            {
                let group = Group {
                    members: group.members,
                    max_size: group.max_size,
                };
                extras.groups.insert((profile, id as u32), group);
            }
        }
        "multicast" => {
            let group = MulticastGroupEntry::decode(bytes)?;
            extras.multicast.insert(group.multicast_group_id, group);
        }
        "session" => {
            let session = CloneSessionEntry::decode(bytes)?;
            extras.sessions.insert(session.session_id, session);
        }
        "default" => {
            let kept = Kept::decode(bytes)?;
            if let Some(table) = find(&program.tables, |table| table.name == rest) {
                extras.defaults.insert(table, kept);
            }
        }
        "digest" => {
            let config = digest_entry::Config::decode(bytes)?;
            if let Some(digest) = find(&program.externs, |one| one.name == rest) {
                extras.digests.insert(digest, config);
            }
        }
        "string" => {
            if let Some((uri, number)) = numbered() {
                noted.names.put(uri, number, bytes);
            }
        }
        // Notes of other users of the device are ignored.
        _ => {}
    }
    Ok(())
}

fn find<I: Id, T>(all: &IdVec<I, T>, is_it: impl Fn(&T) -> bool) -> Option<I> {
    all.iter().find(|(_, one)| is_it(one)).map(|(id, _)| id)
}

/// Returns the config of a program as a controller had set it, if one had, and the other noted
/// data.
pub(crate) fn config(
    noted: Noted,
    program: Option<Arc<Program>>,
    loader: &dyn Loader,
) -> Checked<(Option<Config>, ControllerState)> {
    let Some(program) = program else {
        return Ok((None, ControllerState::default()));
    };
    let mut config = pipeline::config(program, noted.message.unwrap_or_default(), loader)?;
    if let Some(schema) = Arc::get_mut(&mut config.schema) {
        schema.names = Arc::new(noted.names);
    }
    Ok((Some(config), noted.extras))
}
