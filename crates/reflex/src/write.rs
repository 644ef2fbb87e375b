//! Writes of elements: what the store replicates and elements apply.

use std::net::{IpAddr, Ipv4Addr};

use consensus::{ChangeBytes, Key};
use support::rng::mix;
use telemetry::FlowKey;

use crate::loops::{KeyPart, ReflexIndex};

/// Maximum number of keys of a managed table.
pub(crate) const MAX_KEYS: usize = 5;
/// Maximum number of bytes of one key.
const MAX_KEY_BYTES: usize = 16;

/// Value of one key of a table, most significant byte first, and the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyBytes {
    length: u8,
    prefix: u8,
    bytes: [u8; MAX_KEY_BYTES],
}

impl KeyBytes {
    fn new(bytes: &[u8]) -> Option<KeyBytes> {
        let mut key = KeyBytes::default();
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        key.length = u8::try_from(bytes.len()).ok()?;
        key.prefix = 8 * key.length;
        Some(key)
    }

    /// Returns the first `prefix` bits of a value. `None` if it has fewer bits, or is too long.
    pub fn prefix_of(bytes: &[u8], prefix: u8) -> Option<KeyBytes> {
        let mut key = KeyBytes::new(bytes).filter(|key| prefix <= key.prefix)?;
        key.prefix = prefix;
        for (at, byte) in key.bytes.iter_mut().enumerate() {
            let kept = usize::from(prefix).saturating_sub(8 * at).min(8);
            *byte &= !(0xffu16 >> kept) as u8;
        }
        Some(key)
    }

    /// Returns the bytes.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// Returns the number of leading bits that count: all, unless it is a prefix.
    pub fn prefix(&self) -> u32 {
        self.prefix.into()
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
        EntryKey::of_prefix(flow, parts, &[])
    }

    /// Returns the keys of a flow, with the longest of these prefixes that has its destination
    /// address in the place of the address. Without prefixes it is [`EntryKey::of_flow`]. `None` if
    /// no prefix has the address.
    pub fn of_prefix(
        flow: &FlowKey,
        parts: &[KeyPart],
        prefixes: &[(Ipv4Addr, u8)],
    ) -> Option<EntryKey> {
        let mut key = EntryKey::default();
        for part in parts {
            let bytes = match part {
                KeyPart::Source => address(flow.source),
                KeyPart::Destination if !prefixes.is_empty() => {
                    let IpAddr::V4(destination) = flow.destination else {
                        return None;
                    };
                    let within = prefixes
                        .iter()
                        .filter(|(network, length)| is_in(destination, *network, *length));
                    let (_, length) = within.max_by_key(|(_, length)| *length)?;
                    KeyBytes::prefix_of(&destination.octets(), *length)
                }
                KeyPart::Destination => address(flow.destination),
                KeyPart::Protocol => KeyBytes::new(&[flow.protocol]),
                KeyPart::SourcePort => KeyBytes::new(&flow.ports?.source.to_be_bytes()),
                KeyPart::DestinationPort => KeyBytes::new(&flow.ports?.destination.to_be_bytes()),
            };
            key.push(bytes?)?;
        }
        Some(key)
    }

    /// Returns the key of a table of addresses.
    pub fn of_host(host: IpAddr) -> Option<EntryKey> {
        let mut key = EntryKey::default();
        key.push(address(host)?)?;
        Some(key)
    }

    /// Returns the key of these values. `None` if there are too many.
    pub fn of_parts(parts: impl Iterator<Item = KeyBytes>) -> Option<EntryKey> {
        let mut key = EntryKey::default();
        for part in parts {
            key.push(part)?;
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

fn address(address: IpAddr) -> Option<KeyBytes> {
    match address {
        IpAddr::V4(address) => KeyBytes::new(&address.octets()),
        IpAddr::V6(address) => KeyBytes::new(&address.octets()),
    }
}

/// Returns whether a network has an address.
pub(crate) fn is_in(address: Ipv4Addr, network: Ipv4Addr, length: u8) -> bool {
    let differ = address.to_bits() ^ network.to_bits();
    differ.checked_shr(32 - u32::from(length)).unwrap_or(0) == 0
}

/// Place in an element that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WritePlace {
    /// The entry of a table with this key.
    Entry(EntryKey),
    /// This cell of a meter or register, or the queue of this port.
    Cell(u32),
}

/// Content that a write gives to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The entry has the permission's action, with this argument if the action has a parameter.
    Action(Option<u32>),
    /// The meter has this rate, in bytes a second.
    Rate(u64),
    /// The register's cell has this value, or the queue has room for this number of packets.
    Value(u64),
}

impl Setting {
    /// Returns the port that packets of an entry are sent to.
    pub fn port(self) -> Option<u32> {
        match self {
            Setting::Action(argument) => argument,
            Setting::Rate(_) | Setting::Value(_) => None,
        }
    }
}

/// A write of an element: an entry of a managed table, a meter's rate, or a register's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementWrite {
    /// The permission that it is made by, which names element, object and action.
    pub reflex: ReflexIndex,
    /// The place.
    pub place: WritePlace,
    /// Its content. `None`: the place is as it was before loops wrote there.
    pub setting: Option<Setting>,
}

/// Kinds of writes, as bytes.
const ENTRY: u8 = 0;
const ENTRY_WITH_ARGUMENT: u8 = 1;
const RATE: u8 = 2;
const VALUE: u8 = 3;
/// First bytes of a change by a controller: those of no permission.
const OF_CONTROLLER: [u8; 3] = [0xff, 0xff, 4];
/// Bytes of the longest write.
const MAX_BYTES: usize = 7 + MAX_KEYS * (2 + MAX_KEY_BYTES);

impl ElementWrite {
    /// Returns the name of the place in the store: a hash of 128 bits of permission and place.
    pub fn name(&self) -> Key {
        let mut halves = [mix(self.reflex.0 as u64), mix(!(self.reflex.0 as u64))];
        let mut add = |number: u64| {
            for half in &mut halves {
                *half = mix(*half ^ number);
            }
        };
        match &self.place {
            WritePlace::Entry(key) => {
                for part in key.parts() {
                    add(part.get().len() as u64 | u64::from(part.prefix()) << 8);
                    part.get().iter().for_each(|byte| add(u64::from(*byte)));
                }
            }
            WritePlace::Cell(cell) => add(u64::from(*cell) | 1 << 32),
        }
        let mut name = [0; 16];
        name[..8].copy_from_slice(&halves[0].to_le_bytes());
        name[8..].copy_from_slice(&halves[1].to_le_bytes());
        name
    }

    /// Returns the content as bytes: permission (2 bytes) and kind (1 byte). Then an entry has its
    /// argument (4 bytes, kind 1 only), and length, prefix (1 byte each) and bytes of each key; a
    /// cell has its number (4 bytes) and rate or value (8 bytes). Numbers are little-endian. `None`
    /// for a write that restores its place.
    pub fn encode(&self) -> Option<ChangeBytes> {
        let setting = self.setting?;
        let mut bytes = [0; MAX_BYTES];
        let mut end = 0;
        let mut put = |part: &[u8]| {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        };
        // A loop file has fewer permissions than 16 bits number.
        let reflex = u16::try_from(self.reflex.0).unwrap_or(u16::MAX);
        put(&reflex.to_le_bytes());
        match (setting, &self.place) {
            (Setting::Action(argument), WritePlace::Entry(key)) => {
                match argument {
                    Some(argument) => {
                        put(&[ENTRY_WITH_ARGUMENT]);
                        put(&argument.to_le_bytes());
                    }
                    None => put(&[ENTRY]),
                }
                for part in key.parts() {
                    put(&[part.length, part.prefix]);
                    put(part.get());
                }
            }
            (Setting::Rate(number) | Setting::Value(number), WritePlace::Cell(cell)) => {
                let is_rate = matches!(setting, Setting::Rate(_));
                put(&[if is_rate { RATE } else { VALUE }]);
                put(&cell.to_le_bytes());
                put(&number.to_le_bytes());
            }
            (Setting::Action(_), WritePlace::Cell(_)) | (_, WritePlace::Entry(_)) => {
                debug_assert!(false, "permissions give a place the content of its kind");
            }
        }
        ChangeBytes::new(&bytes[..end])
    }

    /// Reads a write. `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<ElementWrite> {
        let (reflex, rest) = bytes.split_first_chunk()?;
        let ([kind], rest) = rest.split_first_chunk()?;
        let (place, setting) = match *kind {
            ENTRY => (WritePlace::Entry(keys(rest)?), Setting::Action(None)),
            ENTRY_WITH_ARGUMENT => {
                let (argument, rest) = rest.split_first_chunk()?;
                let argument = u32::from_le_bytes(*argument);
                (
                    WritePlace::Entry(keys(rest)?),
                    Setting::Action(Some(argument)),
                )
            }
            RATE | VALUE => {
                let (cell, rest) = rest.split_first_chunk()?;
                let number = u64::from_le_bytes(rest.try_into().ok()?);
                let setting = match *kind {
                    RATE => Setting::Rate(number),
                    _ => Setting::Value(number),
                };
                (WritePlace::Cell(u32::from_le_bytes(*cell)), setting)
            }
            _ => return None,
        };
        Some(ElementWrite {
            reflex: ReflexIndex(u16::from_le_bytes(*reflex).into()),
            place,
            setting: Some(setting),
        })
    }
}

/// Returns a change by a controller as bytes. The message describes it to its element. `None` if it
/// is too long for the store.
pub fn controller_change(message: &[u8]) -> Option<ChangeBytes> {
    ChangeBytes::new(&[&OF_CONTROLLER, message].concat())
}

/// Returns the message of a change by a controller. `None` if the change is one of a permission.
pub fn controller_message(change: &[u8]) -> Option<&[u8]> {
    change.strip_prefix(&OF_CONTROLLER)
}

/// Reads keys of an entry up to the end.
fn keys(mut rest: &[u8]) -> Option<EntryKey> {
    let mut key = EntryKey::default();
    while let Some(([length, prefix], after)) = rest.split_first_chunk() {
        let (part, after) = after.split_at_checked(usize::from(*length))?;
        // Bits after the prefix are 0, so a write has one form.
        let bytes = KeyBytes::prefix_of(part, *prefix).filter(|key| key.get() == part)?;
        key.push(bytes)?;
        rest = after;
    }
    rest.is_empty().then_some(key)
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

    fn entry(source: u16, argument: Option<u32>) -> ElementWrite {
        ElementWrite {
            reflex: ReflexIndex(3),
            place: WritePlace::Entry(EntryKey::of_flow(&flow(source), &ALL).unwrap()),
            setting: Some(Setting::Action(argument)),
        }
    }

    #[test]
    fn a_write_is_the_same_after_its_bytes() {
        let cell = |setting| ElementWrite {
            reflex: ReflexIndex(9),
            place: WritePlace::Cell(77),
            setting: Some(setting),
        };
        let writes = [
            entry(1000, Some(7)),
            entry(1000, None),
            cell(Setting::Rate(u64::MAX)),
            cell(Setting::Value(5)),
        ];
        for write in writes {
            let bytes = write.encode().unwrap();
            assert_eq!(ElementWrite::decode(bytes.get()), Some(write));
            for end in 0..bytes.get().len() {
                let cut = ElementWrite::decode(&bytes.get()[..end]);
                assert_ne!(cut, Some(write), "{end}");
            }
            let removal = ElementWrite {
                setting: None,
                ..write
            };
            assert_eq!(removal.encode(), None);
            assert_eq!(removal.name(), write.name());
        }
        assert_ne!(entry(1000, None).name(), entry(1001, None).name());
        assert_eq!(entry(1000, None).name(), entry(1000, Some(8)).name());
    }

    #[test]
    fn a_change_by_a_controller_is_no_write_of_a_permission() {
        let longest = consensus::MAX_CHANGE - OF_CONTROLLER.len();
        for length in [0, 1, longest] {
            let message = vec![7; length];
            let change = controller_change(&message).unwrap();
            assert_eq!(controller_message(change.get()), Some(&message[..]));
            assert_eq!(ElementWrite::decode(change.get()), None);
        }
        assert_eq!(controller_change(&vec![7; longest + 1]), None);
        let write = entry(1000, Some(7)).encode().unwrap();
        assert_eq!(controller_message(write.get()), None);
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

    #[test]
    fn the_longest_prefix_that_has_the_destination_is_the_key() {
        let to = |last: u8| FlowKey {
            destination: Ipv4Addr::new(10, 1, 2, last).into(),
            ..flow(1)
        };
        let prefixes = [
            (Ipv4Addr::new(10, 1, 0, 0), 16),
            (Ipv4Addr::new(10, 1, 2, 128), 25),
        ];
        let key = |last| EntryKey::of_prefix(&to(last), &[KeyPart::Destination], &prefixes);
        let parts = [key(200).unwrap(), key(5).unwrap()];
        assert_eq!(parts[0].parts()[0].get(), [10, 1, 2, 128]);
        assert_eq!(parts[0].parts()[0].prefix(), 25);
        assert_eq!(parts[1].parts()[0].get(), [10, 1, 0, 0]);
        assert_eq!(parts[1].parts()[0].prefix(), 16);
        let none = EntryKey::of_prefix(&to(5), &[KeyPart::Destination], &prefixes[1..]);
        assert_eq!(none, None);
    }
}
