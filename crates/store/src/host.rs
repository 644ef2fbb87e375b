//! Objects of a switch that hosts virtual data planes: its vPDPs, shared ports and rules, each as
//! a note of the file `host.redb`. The state of a vPDP is in a file of its own.

use prost::Message;

use crate::disk::{Medium, Note, OpenError};

/// Files of a switch that hosts virtual data planes. Tests use files on simulated disks.
pub trait HostFiles: Send + Sync {
    /// Returns the name of the place for messages.
    fn place(&self) -> String;

    /// Returns the file of the switch.
    fn host(&self) -> Box<dyn Medium>;

    /// Returns the file with this number, which has the state of a vPDP.
    fn vpdp(&self, file: u64) -> Box<dyn Medium>;

    /// Returns the numbers of all files of vPDPs.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn vpdps(&self) -> Result<Vec<u64>, OpenError>;

    /// Removes the file of a vPDP, if it exists.
    ///
    /// # Errors
    /// The file cannot be removed.
    fn remove_vpdp(&self, file: u64) -> Result<(), OpenError>;
}

/// A vPDP as the file of its switch has it. Texts have the forms of `polyplane tenant`.
#[derive(Clone, PartialEq, Message)]
pub struct StoredVpdp {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// The number of the file with its program and state.
    #[prost(uint64, tag = "2")]
    pub file: u64,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The owner's name; empty without an owner.
    #[prost(string, tag = "4")]
    pub owner: String,
    /// Its quotas.
    #[prost(string, repeated, tag = "5")]
    pub quotas: Vec<String>,
    /// Connections of its ports, from port 0 on. Ports after the last one are open.
    #[prost(string, repeated, tag = "6")]
    pub ports: Vec<String>,
    /// True if it is suspended.
    #[prost(bool, tag = "7")]
    pub is_suspended: bool,
    /// Stages that have a slot by choice.
    #[prost(message, repeated, tag = "8")]
    pub pins: Vec<StoredPin>,
}

/// A stage of a vPDP that has a slot by choice.
#[derive(Clone, PartialEq, Message)]
pub struct StoredPin {
    /// The stage.
    #[prost(string, tag = "1")]
    pub stage: String,
    /// The slot.
    #[prost(uint32, tag = "2")]
    pub slot: u32,
}

/// A shared port.
#[derive(Clone, PartialEq, Message)]
struct StoredShare {
    #[prost(uint32, tag = "1")]
    port: u32,
    #[prost(string, tag = "2")]
    sharing: String,
}

/// An object of a switch that hosts vPDPs.
#[derive(Clone, Debug, PartialEq)]
pub enum HostObject {
    /// A vPDP.
    Vpdp(StoredVpdp),
    /// A port with its sharing, as text.
    Share(u32, String),
    /// A rule as text, with its position among the rules.
    Rule(u32, String),
}

const VPDP: u8 = b'v';
const SHARE: u8 = b's';
const RULE: u8 = b'r';

impl HostObject {
    /// Encodes the object. Names are in the order of kinds and numbers.
    pub fn write(&self) -> Note {
        let (kind, number, bytes) = match self {
            HostObject::Vpdp(vpdp) => (VPDP, vpdp.id, vpdp.encode_to_vec()),
            HostObject::Share(port, sharing) => {
                let share = StoredShare {
                    port: *port,
                    sharing: sharing.clone(),
                };
                (SHARE, *port, share.encode_to_vec())
            }
            HostObject::Rule(number, text) => (RULE, *number, text.clone().into_bytes()),
        };
        let name = [&[kind][..], &number.to_be_bytes()].concat();
        (name.into(), bytes.into())
    }

    /// Decodes the result of [`HostObject::write`]. Returns `None` for other bytes.
    pub fn read((name, bytes): &Note) -> Option<HostObject> {
        let (&kind, number) = name.split_first()?;
        let number = u32::from_be_bytes(number.try_into().ok()?);
        let object = match kind {
            VPDP => HostObject::Vpdp(StoredVpdp::decode(&**bytes).ok()?),
            SHARE => {
                let share = StoredShare::decode(&**bytes).ok()?;
                HostObject::Share(share.port, share.sharing)
            }
            RULE => HostObject::Rule(number, String::from_utf8(bytes.to_vec()).ok()?),
            _ => return None,
        };
        (object.write().0 == *name).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_as_they_were_written_and_damaged_ones_are_refused() {
        let vpdp = StoredVpdp {
            id: 7,
            file: 3,
            name: "blue".to_owned(),
            owner: "alice".to_owned(),
            quotas: vec!["entries=9".to_owned()],
            ports: vec!["0".to_owned(), "red:1".to_owned()],
            is_suspended: true,
            pins: vec![StoredPin {
                stage: "In.t".to_owned(),
                slot: 2,
            }],
        };
        let objects = [
            HostObject::Vpdp(vpdp),
            HostObject::Share(0, "rules".to_owned()),
            HostObject::Rule(1, "one: port 0 -> 7".to_owned()),
        ];
        for object in objects {
            let (name, bytes) = object.write();
            let read = HostObject::read(&(name.clone(), bytes.clone()));
            assert_eq!(read, Some(object.clone()));
            let other = [&name[..4], &[9]].concat();
            // A rule has no number in its bytes.
            let is_rule = matches!(object, HostObject::Rule(..));
            assert_eq!(HostObject::read(&(other.into(), bytes)).is_some(), is_rule);
            assert_eq!(HostObject::read(&(name[..3].into(), [][..].into())), None);
        }
    }
}
