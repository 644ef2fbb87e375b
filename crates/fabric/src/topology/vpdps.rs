//! Validation of a switch's data plane: one network function, or virtual data planes with the
//! syntax of `polyplane tenant`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use packet::PortId;
use tenancy::{Connection, Rule, VpdpId};
use toml_file::{Spanned, Text};

use super::check::Check;
use super::file::{self, EntriesFiles, VirtualPort};
use super::{
    End, FunctionSpec, NodeId, Placed, PlaneSpec, ProgramSpec, SharedSpec, SwitchId, VpdpSpec,
};

/// Separator of the steps of a policy. It does not occur in file names.
const ARROW: &str = "->";

/// Ids of a switch's virtual data planes, by name.
type Names = BTreeMap<String, VpdpId>;

impl VirtualPort {
    /// Returns the physical port that the virtual port is connected to, if any.
    fn physical(&self) -> Option<PortId> {
        match self {
            VirtualPort::Physical(number) => Some(PortId(*number)),
            VirtualPort::Words(words) => words.parse().ok().map(PortId),
        }
    }
}

impl Check<'_> {
    /// Validates a switch's data plane. `default` is the program of switches without one.
    pub(super) fn plane(
        &mut self,
        switch: &Spanned<file::Switch>,
        default: Option<&Text>,
    ) -> PlaneSpec {
        let written = switch.get_ref();
        if written.slots.is_some() {
            self.check_no_program(written, "slots for reductions");
            self.check_no_sharing(written);
            let slots = self.number(&written.slots, 0, 0);
            return PlaneSpec::Aggregate { slots };
        }
        if !written.vpdps.is_empty() {
            self.check_no_program(written, "virtual data planes");
            return PlaneSpec::Shared(self.shared(written));
        }
        self.check_no_sharing(written);
        let named = written.program.as_ref().or(default);
        let program = match named {
            Some(program) => self.program(program),
            None => {
                let message = format!("the switch {} has no program", written.name.get_ref());
                let mend = "add program = \"FILE.p4\" here or below [defaults.switch], or [[switch.vpdp]] sections";
                self.mistake(switch, message, mend);
                ProgramSpec::File(self.directory.to_path_buf())
            }
        };
        PlaneSpec::Alone(FunctionSpec {
            program,
            program_at: named.map_or(String::new(), |program| self.place(program)),
            entries: self.entries(written.entries.as_ref()),
        })
    }

    /// Refuses a program beside `others`, because it would receive no packets.
    fn check_no_program(&mut self, switch: &file::Switch, others: &str) {
        let name = switch.name.get_ref();
        let message = format!("{name} has {others} and a program of its own");
        let mend = "give the program to a [[switch.vpdp]], or leave it away";
        if let Some(program) = &switch.program {
            self.mistake(program, message.clone(), mend);
        }
        if let Some(entries) = &switch.entries {
            self.mistake(entries, message, mend);
        }
    }

    fn check_no_sharing(&mut self, switch: &file::Switch) {
        for text in switch.share.values().chain(&switch.rules) {
            let name = switch.name.get_ref();
            let message = format!("{name} has no virtual data planes to which packets could go");
            self.mistake(text, message, "add [[switch.vpdp]] sections");
        }
    }

    /// Returns file and line of a text.
    fn place(&self, text: &Text) -> String {
        format!("{}:{}", self.name, self.line(text))
    }

    fn program(&self, text: &Text) -> ProgramSpec {
        let written = text.get_ref();
        match written.contains(ARROW) {
            true => ProgramSpec::Policy {
                text: written.clone(),
                directory: self.directory.to_path_buf(),
            },
            false => ProgramSpec::File(self.directory.join(written)),
        }
    }

    fn entries(&self, files: Option<&Spanned<EntriesFiles>>) -> Vec<PathBuf> {
        let path = |file: &String| self.directory.join(file);
        match files.map(Spanned::get_ref) {
            None => Vec::new(),
            Some(EntriesFiles::One(file)) => vec![path(file)],
            Some(EntriesFiles::Several(files)) => files.iter().map(path).collect(),
        }
    }

    fn shared(&mut self, switch: &file::Switch) -> SharedSpec {
        let names = self.vpdp_names(&switch.vpdps);
        let vpdps = switch.vpdps.iter();
        let vpdps = vpdps.filter_map(|vpdp| self.vpdp(vpdp, &names)).collect();
        let mut sharings = Vec::new();
        for (port, text) in &switch.share {
            sharings.extend(self.sharing(port, text));
        }
        let rules = switch.rules.iter();
        SharedSpec {
            vpdps,
            sharings,
            rules: rules.filter_map(|rule| self.rule(rule, &names)).collect(),
        }
    }

    /// Assigns ids to the virtual data planes. Those without an explicit id get the smallest free
    /// ones, from 1 on.
    fn vpdp_names(&mut self, vpdps: &[Spanned<file::Vpdp>]) -> Names {
        let mut taken = BTreeSet::new();
        let mut names = Names::new();
        let chosen = |vpdp: &&Spanned<file::Vpdp>| vpdp.get_ref().id.is_none();
        let (free, numbered): (Vec<_>, Vec<_>) = vpdps.iter().partition(chosen);
        for vpdp in numbered.into_iter().chain(free) {
            let vpdp = vpdp.get_ref();
            let id = match &vpdp.id {
                Some(number) => self.vpdp_id(number),
                None => (1..).map_while(VpdpId::new).find(|id| !taken.contains(id)),
            };
            let Some(id) = id else {
                continue;
            };
            if !taken.insert(id) {
                let message = format!("two virtual data planes have the number {id}");
                self.mistake(&vpdp.name, message, "give each its own");
            }
            let name = vpdp.name.get_ref();
            if names.insert(name.clone(), id).is_some() {
                let message = format!("two virtual data planes are called {name}");
                self.mistake(&vpdp.name, message, "take another name");
            }
        }
        names
    }

    fn vpdp_id(&mut self, number: &Spanned<i64>) -> Option<VpdpId> {
        let id = u16::try_from(*number.get_ref()).ok().and_then(VpdpId::new);
        if id.is_none() {
            let message = format!("{} is no number of a virtual data plane", number.get_ref());
            self.mistake(number, message, format!("take 1 to {}", VpdpId::MAX));
        }
        id
    }

    fn vpdp(&mut self, vpdp: &Spanned<file::Vpdp>, names: &Names) -> Option<VpdpSpec> {
        let line = self.line(vpdp);
        let vpdp = vpdp.get_ref();
        let ports = vpdp.ports.iter();
        let ports = ports.filter_map(|port| self.connection(port, names));
        Some(VpdpSpec {
            ports: ports.collect(),
            name: vpdp.name.get_ref().clone(),
            id: *names.get(vpdp.name.get_ref())?,
            function: FunctionSpec {
                program: self.program(&vpdp.program),
                program_at: self.place(&vpdp.program),
                entries: self.entries(vpdp.entries.as_ref()),
            },
            line,
        })
    }

    fn connection(&mut self, port: &Spanned<VirtualPort>, names: &Names) -> Option<Connection> {
        let words = match port.get_ref() {
            VirtualPort::Physical(number) => return Some(Connection::Physical(PortId(*number))),
            VirtualPort::Words(words) => words,
        };
        let read = Connection::read(words, |name| names.get(name).copied());
        if let Err(error) = &read {
            let mend = "write a port's number, \"VPDP:PORT\" or \"open\"";
            self.mistake(port, error.to_string(), mend);
        }
        read.ok()
    }

    /// Checks that physical ports connected to virtual ports have a link, because packets sent
    /// there leave the switch.
    pub(super) fn check_vpdp_ports(
        &mut self,
        switches: &[Spanned<file::Switch>],
        has_link: &dyn Fn(End) -> bool,
    ) {
        for (number, switch) in switches.iter().enumerate() {
            let switch = switch.get_ref();
            for port in switch.vpdps.iter().flat_map(|vpdp| &vpdp.get_ref().ports) {
                let Some(physical) = port.get_ref().physical() else {
                    continue;
                };
                let end = End {
                    node: NodeId::Switch(SwitchId(number)),
                    port: physical,
                };
                if !has_link(end) {
                    let end = format!("{}:{physical}", switch.name.get_ref());
                    let mend = "add a [[link]] there, or connect the virtual port to \"open\"";
                    self.mistake(port, format!("{end} has no link"), mend);
                }
            }
        }
    }

    fn sharing(&mut self, port: &str, text: &Text) -> Option<Placed<(PortId, tenancy::Share)>> {
        let Ok(number) = port.parse() else {
            let message = format!("\"{port}\" is no port of a switch");
            self.mistake(text, message, "write its number, as in { 1 = \"rules\" }");
            return None;
        };
        let sharing = text.get_ref().parse();
        if let Err(error) = &sharing {
            let error: &tenancy::TextError = error;
            self.mistake(
                text,
                error.to_string(),
                "docs/reference/port-sharing.md has the ways to share",
            );
        }
        Some(Placed {
            it: (PortId(number), sharing.ok()?),
            line: self.line(text),
        })
    }

    fn rule(&mut self, text: &Text, names: &Names) -> Option<Placed<Rule>> {
        let rule = Rule::read(text.get_ref(), |name| names.get(name).copied());
        if let Err(error) = &rule {
            let mend = "write NAME: CONDITIONS -> VPDP priority N (docs/reference/port-sharing.md)";
            self.mistake(text, error.to_string(), mend);
        }
        Some(Placed {
            it: rule.ok()?,
            line: self.line(text),
        })
    }
}
