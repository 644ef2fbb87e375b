//! Commands that follow the messages that a device sends unasked: digests and packet-ins.

use std::collections::HashMap;

use clap::Args;
use controller::{Catalog, Field, datum};
use entries::Object;
use p4info::p4::config::v1::P4DataTypeSpec;
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::client::{ClientError, Code, Next};
use serde_json::{Map, Value, json};

use super::json as as_value;
use super::link::Link;
use super::state;
use crate::out;
use runtime::ProcessSetup;

/// Digest configuration: how long a list may wait to fill, its maximum size, and the time limit
/// for its acknowledgement.
const DIGEST: rt::digest_entry::Config = rt::digest_entry::Config {
    max_timeout_ns: 100_000_000,
    max_list_size: 100,
    ack_timeout_ns: 1_000_000_000,
};

#[derive(Args)]
pub(crate) struct DigestsOptions {
    /// One digest; default: all.
    name: Option<String>,
    /// Stop after this number of messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

#[derive(Args)]
pub(crate) struct PacketsOptions {
    /// Send this packet (hexadecimal); without --count, stop then.
    #[arg(long, value_name = "HEX", value_parser = bytes)]
    out: Option<std::sync::Arc<[u8]>>,
    /// A field of the packet-out's metadata, as NAME=VALUE; default: 0.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair, requires = "out")]
    set: Vec<(String, String)>,
    /// Stop after this number of packet-ins.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl PacketsOptions {
    /// Returns the number of packet-ins to wait for. `None`: until stopped.
    fn wanted(&self) -> Option<u64> {
        match (self.count, &self.out) {
            (None, Some(_)) => Some(0),
            (count, _) => count,
        }
    }
}

fn bytes(text: &str) -> Result<std::sync::Arc<[u8]>, String> {
    let digits: Vec<char> = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .collect();
    let wrong = || "give pairs of hexadecimal digits".to_owned();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte =
        |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).map_err(|_| wrong());
    let bytes: Result<Vec<u8>, String> = digits.chunks(2).map(byte).collect();
    Ok(bytes?.into())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

pub(crate) fn digests(
    link: &mut Link,
    options: &DigestsOptions,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let catalog = link.catalog()?;
    let is_digest = |kind: &Object| matches!(kind, Object::Digest { .. });
    let wanted = state::externs(&catalog, "digest", options.name.as_deref(), is_digest)?;
    if wanted.is_empty() {
        return Err("the program has no digest".to_owned());
    }
    link.become_primary()?;
    let mut ours = Vec::new();
    for digest in wanted {
        let id = catalog.extern_id(digest);
        match link.client.write(
            vec![digest_update(Type::Insert, id)],
            Atomicity::ContinueOnError,
        ) {
            Ok(()) => ours.push(id),
            // Another controller has configured this digest. Its configuration is kept.
            Err(ClientError::Refused(refused)) if is_there(&refused) => {}
            Err(error) => return Err(link.explain(&error)),
        }
    }
    let ended = follow_digests(link, &catalog, options.count, as_json, early);
    for id in ours {
        // A digest that cannot be switched off now belongs to another controller.
        let _ = link.client.write(
            vec![digest_update(Type::Delete, id)],
            Atomicity::ContinueOnError,
        );
    }
    ended
}

fn is_there(refused: &p4rt::client::UpdateError) -> bool {
    let code = |error: &rt::Error| Code::from(error.canonical_code);
    refused.code == Code::AlreadyExists
        || refused
            .updates
            .iter()
            .any(|one| code(one) == Code::AlreadyExists)
}

fn digest_update(kind: Type, id: u32) -> rt::Update {
    let entry = rt::DigestEntry {
        digest_id: id,
        config: (kind != Type::Delete).then_some(DIGEST),
    };
    rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(Entity::DigestEntry(entry)),
        }),
    }
}

/// Returns the message types of digests by P4Runtime id.
fn digest_types(catalog: &Catalog) -> HashMap<u32, (&str, Option<&P4DataTypeSpec>)> {
    let digests = catalog.info.digests.iter();
    let named = digests.filter_map(|digest| {
        let own = digest.preamble.as_ref()?;
        Some((own.id, (own.name.as_str(), digest.type_spec.as_ref())))
    });
    named.collect()
}

fn follow_digests(
    link: &mut Link,
    catalog: &Catalog,
    count: Option<u64>,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let types = digest_types(catalog);
    let mut told = 0;
    while count.is_none_or(|count| told < count) {
        let list = match link.told(early)? {
            Some(Told::Digest(list)) => list,
            Some(other) => {
                note(&other);
                continue;
            }
            None => return Ok(()),
        };
        let (name, spec) = types
            .get(&list.digest_id)
            .copied()
            .unwrap_or(("digest", None));
        for data in &list.data {
            let value = datum(catalog, spec, "", data);
            let line = match as_json {
                true => json!({
                    "digest": name,
                    "timestamp_ns": list.timestamp,
                    "data": as_value::datum(&value),
                })
                .to_string(),
                false => format!("{name} {}", as_value::told(&value)),
            };
            told += 1;
            if !out::try_line(&line) {
                return Ok(());
            }
        }
        let ack = rt::DigestListAck {
            digest_id: list.digest_id,
            list_id: list.list_id,
        };
        let sent = link.client.send(Ask::DigestAck(ack));
        sent.map_err(|error| link.explain(&error))?;
    }
    Ok(())
}

pub(crate) fn packets(
    link: &mut Link,
    options: &PacketsOptions,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let catalog = link.catalog()?;
    let metadata = catalog.packet_out(&options.set)?;
    link.become_primary()?;
    if let Some(payload) = &options.out {
        let packet = rt::PacketOut {
            payload: payload.to_vec(),
            metadata,
        };
        let sent = link.client.send(Ask::Packet(packet));
        sent.map_err(|error| link.explain(&error))?;
        if let Some(error) = link.sent()? {
            return Err(error);
        }
    }
    let mut told = 0;
    while options.wanted().is_none_or(|wanted| told < wanted) {
        match link.told(early)? {
            Some(Told::Packet(packet)) => {
                told += 1;
                let fields = catalog.packet_in(&packet.metadata);
                if !out::try_line(&packet_in(&fields, &packet.payload, as_json)) {
                    return Ok(());
                }
            }
            Some(other) => note(&other),
            None => return Ok(()),
        }
    }
    Ok(())
}

fn packet_in(fields: &[Field], payload: &[u8], as_json: bool) -> String {
    let digits: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    if as_json {
        let metadata = fields
            .iter()
            .map(|one| (one.name.clone(), one.value.clone().into()));
        let metadata: Map<String, Value> = metadata.collect();
        return json!({ "metadata": metadata, "payload": digits }).to_string();
    }
    let fields: Vec<String> = fields
        .iter()
        .map(|one| format!("{}={}", one.name, one.value))
        .collect();
    let fields = fields.join(" ");
    format!("{} bytes {fields} {digits}", payload.len()).replace("  ", " ")
}

/// Shows other messages of the server that matter to the user.
fn note(told: &Told) {
    match told {
        Told::Arbitration(told) if told.status.as_ref().is_some_and(|status| status.code != 0) => {
            out::note("warning: another controller is primary now; nothing more will come");
        }
        Told::Error(error) => out::note(&format!(
            "warning: the server refused a message: {}",
            error.message
        )),
        _ => {}
    }
}

impl Link {
    /// Returns the next message. `None` if a signal requests a stop.
    fn told(&mut self, early: &ProcessSetup) -> Result<Option<Told>, String> {
        match self.client.next(None, early.signal_fd()) {
            Ok(Next::Told(told)) => Ok(Some(told)),
            Ok(Next::Stopped | Next::TimedOut) => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Waits until the server has processed all sent messages. Returns its first error message.
    fn sent(&mut self) -> Result<Option<String>, String> {
        let told = self.client.settle().map_err(|error| self.explain(&error))?;
        Ok(told.into_iter().next())
    }
}
