//! Text format of shared ports and connections of virtual ports.

use std::fmt;
use std::str::FromStr;

use packet::PortId;
use support::mac::octets;

use crate::encapsulation::{Backbone, Encapsulation, Tunnel};
use crate::port_map::{Egress, MacPrefix, Share, Sharing};
use crate::text::{TextError, Words};
use crate::vpdp::{Connection, VirtualPort, VpdpId};

impl FromStr for Sharing {
    type Err = TextError;

    /// Parses `rules`; `mac PREFIX`; `described`, `described mac-in-mac LOCAL REMOTE`, or
    /// `described vxlan LOCAL REMOTE LOCAL-IP REMOTE-IP VNI`.
    fn from_str(text: &str) -> Result<Sharing, TextError> {
        let mut words = Words::of(text);
        let sharing = sharing(&mut words)?;
        words.end()?;
        Ok(sharing)
    }
}

impl FromStr for Share {
    type Err = TextError;

    /// Parses a sharing, optionally followed by `egress any` or `egress own`.
    fn from_str(text: &str) -> Result<Share, TextError> {
        const EGRESS: &str = "`own` or `any`";
        let mut words = Words::of(text);
        let sharing = sharing(&mut words)?;
        let egress = match words.takes("egress") {
            false => Egress::Own,
            true => match words.next(EGRESS)? {
                "own" => Egress::Own,
                "any" => Egress::Any,
                word => return Err(TextError::at(word, EGRESS)),
            },
        };
        words.end()?;
        Ok(Share { sharing, egress })
    }
}

fn sharing(words: &mut Words<'_>) -> Result<Sharing, TextError> {
    const WANTED: &str = "`rules`, `mac` or `described`";
    Ok(match words.next(WANTED)? {
        "rules" => Sharing::Rules,
        "mac" => {
            const PREFIX: &str =
                "three bytes of a locally administered MAC address, as in 02:aa:bb";
            let word = words.next(PREFIX)?;
            let prefix = octets(word, &[':'], 2..=2).and_then(MacPrefix::new);
            Sharing::Destination(prefix.ok_or_else(|| TextError::at(word, PREFIX))?)
        }
        "described" => Sharing::Described(carriage(words)?),
        word => return Err(TextError::at(word, WANTED)),
    })
}

fn carriage(words: &mut Words<'_>) -> Result<Encapsulation, TextError> {
    match words.0.clone().next() {
        None | Some("egress") => return Ok(Encapsulation::Plain),
        Some(_) => {}
    }
    match words.next("`mac-in-mac` or `vxlan`")? {
        "mac-in-mac" => Ok(Encapsulation::MacInMac(backbone(words)?)),
        "vxlan" => Ok(Encapsulation::Vxlan(Tunnel {
            backbone: backbone(words)?,
            local: words.value("this end's IPv4 address")?,
            remote: words.value("the other end's IPv4 address")?,
            vni: words.value("a VXLAN network's number, 0 to 16777215")?,
        })),
        word => Err(TextError::at(word, "`mac-in-mac` or `vxlan`")),
    }
}

fn backbone(words: &mut Words<'_>) -> Result<Backbone, TextError> {
    Ok(Backbone {
        local: words.value("this end's MAC address")?,
        remote: words.value("the other end's MAC address")?,
    })
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sharing::Rules => f.write_str("rules"),
            Sharing::Destination(prefix) => write!(f, "mac {prefix}"),
            Sharing::Described(Encapsulation::Plain) => f.write_str("described"),
            Sharing::Described(Encapsulation::MacInMac(Backbone { local, remote })) => {
                write!(f, "described mac-in-mac {local} {remote}")
            }
            Sharing::Described(Encapsulation::Vxlan(tunnel)) => {
                let Backbone { local, remote } = tunnel.backbone;
                write!(
                    f,
                    "described vxlan {local} {remote} {} {} {}",
                    tunnel.local, tunnel.remote, tunnel.vni
                )
            }
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sharing.fmt(f)?;
        match self.egress {
            Egress::Own => Ok(()),
            Egress::Any => f.write_str(" egress any"),
        }
    }
}

impl Connection {
    /// Parses the connection of a virtual port: `open`, the number of a physical port, or
    /// `VPDP:PORT`, another virtual port. `find` resolves the name or number of a vPDP.
    ///
    /// # Errors
    /// The wrong text, and the expected one.
    pub fn read(
        text: &str,
        find: impl FnOnce(&str) -> Option<VpdpId>,
    ) -> Result<Connection, TextError> {
        const WANTED: &str = "`open`, a port of the switch, or VPDP:PORT";
        let wrong = || TextError::at(text, WANTED);
        match text.rsplit_once(':') {
            None if text == "open" => Ok(Connection::Open),
            None => {
                let port = text.parse().map_err(|_| wrong())?;
                Ok(Connection::Physical(PortId(port)))
            }
            Some((vpdp, port)) => Ok(Connection::Link(VirtualPort {
                vpdp: find(vpdp).ok_or_else(wrong)?,
                port: port.parse().map_err(|_| wrong())?,
            })),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connection::Open => f.write_str("open"),
            Connection::Physical(port) => port.fmt(f),
            Connection::Link(VirtualPort { vpdp, port }) => write!(f, "{vpdp}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharings_are_shown_as_they_can_be_read() {
        let texts = [
            "rules",
            "mac 02:aa:bb",
            "described",
            "described mac-in-mac 02:00:00:00:00:01 02:00:00:00:00:02",
            "described vxlan 02:00:00:00:00:01 02:00:00:00:00:02 10.0.0.1 10.0.0.2 77",
        ];
        for text in texts {
            let sharing: Result<Sharing, TextError> = text.parse();
            assert_eq!(
                sharing.map(|sharing| sharing.to_string()),
                Ok(text.to_owned())
            );
            for (egress, shown) in [
                ("", ""),
                (" egress own", ""),
                (" egress any", " egress any"),
            ] {
                let share: Result<Share, TextError> = format!("{text}{egress}").parse();
                let share = share.map(|share| share.to_string());
                assert_eq!(share, Ok(format!("{text}{shown}")));
            }
        }
    }

    #[test]
    fn what_is_wrong_of_a_sharing_is_named() {
        let cases = [
            ("", ""),
            ("shared", "shared"),
            ("mac 01:aa:bb", "01:aa:bb"),
            ("mac 02:aa:+b", "02:aa:+b"),
            ("described gre", "gre"),
            ("described mac-in-mac 02:00:00:00:00:01", ""),
            ("rules 7", "7"),
        ];
        for (text, at) in cases {
            let sharing: Result<Sharing, TextError> = text.parse();
            assert_eq!(
                sharing.map_err(|error| error.at),
                Err(at.to_owned()),
                "{text}"
            );
        }
        let cases = [
            ("rules egress", ""),
            ("rules egress all", "all"),
            ("rules any", "any"),
            ("described egress any 7", "7"),
        ];
        for (text, at) in cases {
            let share: Result<Share, TextError> = text.parse();
            assert_eq!(share.map_err(|error| error.at), Err(at.to_owned()));
        }
    }

    #[test]
    fn connections_are_shown_as_they_can_be_read() {
        let find = |word: &str| word.parse().ok().and_then(VpdpId::new);
        for text in ["open", "7", "3:0"] {
            let read = Connection::read(text, find).map(|connection| connection.to_string());
            assert_eq!(read, Ok(text.to_owned()));
        }
        for text in ["closed", "-1", "x:0", "3:", "0:1"] {
            assert!(Connection::read(text, find).is_err(), "{text}");
        }
    }
}
