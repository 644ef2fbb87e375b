//! Writes of managed tables: what the store replicates and elements apply.

use consensus::{ChangeBytes, Key};
use support::rng::mix;
use telemetry::FlowKey;

use crate::loops::{KeyPart, ReflexIndex};

/// Maximum number of keys of a managed table.
pub(crate) const MAX_KEYS: usize = 5;
/// Maximum number of bytes of one key.
const MAX_KEY_BYTES: usize = 16;

/// Value of one key of a table, most significant byte first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyBytes {
    length: u8,
    bytes: [u8; MAX_KEY_BYTES],
}

impl KeyBytes {
    fn new(bytes: &[u8]) -> Option<KeyBytes> {
        let mut key = KeyBytes::default();
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        key.length = u8::try_from(bytes.len()).ok()?;
        Some(key)
    }

    /// Returns the bytes.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// Keys of an entry, in the order of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryKey {
    count: u8,
    parts: [KeyBytes; MAX_KEYS],
}

impl EntryKey {
    /// Returns the keys of a flow. `None` if the flow lacks one of them, or if there are too many.
    pub fn of_flow(flow: &FlowKey, parts: &[KeyPart]) -> Option<EntryKey> {
        let mut key = EntryKey::default();
        for part in parts {
            let bytes = match part {
                KeyPart::Source => address(flow.source),
                KeyPart::Destination => address(flow.destination),
                KeyPart::Protocol => KeyBytes::new(&[flow.protocol]),
                KeyPart::SourcePort => KeyBytes::new(&flow.ports?.source.to_be_bytes()),
                KeyPart::DestinationPort => KeyBytes::new(&flow.ports?.destination.to_be_bytes()),
            };
            key.push(bytes?)?;
        }
        Some(key)
    }

    /// Returns the key of these values. `None` if there are too many, or one is too long.
    pub fn of_parts<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Option<EntryKey> {
        let mut key = EntryKey::default();
        for part in parts {
            key.push(KeyBytes::new(part)?)?;
        }
        Some(key)
    }

    fn push(&mut self, part: KeyBytes) -> Option<()> {
        *self.parts.get_mut(usize::from(self.count))? = part;
        self.count += 1;
        Some(())
    }

    /// Returns the values.
    pub fn parts(&self) -> &[KeyBytes] {
        self.parts.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

fn address(address: std::net::IpAddr) -> Option<KeyBytes> {
    match address {
        std::net::IpAddr::V4(address) => KeyBytes::new(&address.octets()),
        std::net::IpAddr::V6(address) => KeyBytes::new(&address.octets()),
    }
}

/// A write of a managed table: the entry of a key sends its packets to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableWrite {
    /// The permission that it is made by, which names element, table and action.
    pub reflex: ReflexIndex,
    /// The entry.
    pub key: EntryKey,
    /// Argument of the action.
    pub port: u32,
}

impl TableWrite {
    /// Returns the name of the entry in the store: a hash of 128 bits of permission and key.
    pub fn name(&self) -> Key {
        let mut halves = [mix(self.reflex.0 as u64), mix(!(self.reflex.0 as u64))];
        for part in self.key.parts() {
            for half in &mut halves {
                *half = mix(*half ^ part.get().len() as u64);
                for byte in part.get() {
                    *half = mix(*half ^ u64::from(*byte));
                }
            }
        }
        let mut name = [0; 16];
        name[..8].copy_from_slice(&halves[0].to_le_bytes());
        name[8..].copy_from_slice(&halves[1].to_le_bytes());
        name
    }

    /// Returns the write as bytes: permission (2 bytes), port (4 bytes), then length (1 byte) and
    /// bytes of each key. Numbers are little-endian.
    pub fn encode(&self) -> ChangeBytes {
        let mut bytes = [0; 6 + MAX_KEYS * (1 + MAX_KEY_BYTES)];
        // A loop file has fewer permissions than 16 bits number.
        let reflex = u16::try_from(self.reflex.0).unwrap_or(u16::MAX);
        bytes[..2].copy_from_slice(&reflex.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.port.to_le_bytes());
        let mut end = 6;
        for part in self.key.parts() {
            let part = part.get();
            bytes[end] = part.len() as u8;
            bytes[end + 1..=end + part.len()].copy_from_slice(part);
            end += 1 + part.len();
        }
        ChangeBytes::new(&bytes[..end]).unwrap_or_default()
    }

    /// Reads a write. `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<TableWrite> {
        let (reflex, rest) = bytes.split_first_chunk()?;
        let (port, mut rest) = rest.split_first_chunk()?;
        let mut key = EntryKey::default();
        while let Some((length, after)) = rest.split_first() {
            let (part, after) = after.split_at_checked(usize::from(*length))?;
            key.push(KeyBytes::new(part)?)?;
            rest = after;
        }
        Some(TableWrite {
            reflex: ReflexIndex(u16::from_le_bytes(*reflex).into()),
            key,
            port: u32::from_le_bytes(*port),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use telemetry::L4Ports;

    use super::*;

    const ALL: [KeyPart; 5] = [
        KeyPart::Source,
        KeyPart::Destination,
        KeyPart::Protocol,
        KeyPart::SourcePort,
        KeyPart::DestinationPort,
    ];

    fn flow(source: u16) -> FlowKey {
        FlowKey {
            source: Ipv6Addr::LOCALHOST.into(),
            destination: Ipv6Addr::UNSPECIFIED.into(),
            protocol: 6,
            ports: Some(L4Ports {
                source,
                destination: 80,
            }),
        }
    }

    #[test]
    fn a_write_is_the_same_after_its_bytes() {
        let write = TableWrite {
            reflex: ReflexIndex(3),
            key: EntryKey::of_flow(&flow(1000), &ALL).unwrap(),
            port: 7,
        };
        let bytes = write.encode();
        assert_eq!(TableWrite::decode(bytes.get()), Some(write));
        for end in 0..bytes.get().len() {
            let cut = TableWrite::decode(&bytes.get()[..end]);
            assert_ne!(cut, Some(write), "{end}");
        }
        let other = TableWrite {
            key: EntryKey::of_flow(&flow(1001), &ALL).unwrap(),
            ..write
        };
        assert_ne!(write.name(), other.name());
        let elsewhere = TableWrite { port: 8, ..write };
        assert_eq!(write.name(), elsewhere.name());
    }

    #[test]
    fn a_flow_without_ports_has_no_key_of_ports() {
        let flow = FlowKey {
            ports: None,
            ..flow(1)
        };
        assert_eq!(EntryKey::of_flow(&flow, &ALL), None);
        assert!(EntryKey::of_flow(&flow, &ALL[..3]).is_some());
    }
}
