//! `polyplane tenant`: operator commands for a switch that hosts virtual data planes
//! (`polyplane host`).

mod show;
mod slots;
mod stage;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand};
use driver::PolicyParts;
use ir::Program;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4info::polyplane::tenancy::v1::function::Function as OneFunction;
use p4rt::client::{ClientError, Code, Operator};
use prost::Message;

use crate::address::Address;
use crate::args::{Format, Source, limits, read};
use crate::{Ended, compile, out};

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "Examples, for a switch that `polyplane host --port 0=eth0 --port 1=eth1` started:\n  \
        polyplane tenant create blue --port 0 --port 1 --program examples/functions/l3_sw.p4\n  \
        polyplane ctl --device-id 1 apply blue.entries\n  \
        polyplane tenant load blue 'examples/functions/l3_sw.p4 -> examples/functions/fw.p4' --may-lose '*'\n  \
        polyplane tenant quota blue packets=1000000 entries=10000\n  \
        polyplane tenant create red --port open --program my.p4\n  \
        polyplane tenant link blue:2 red:0\n  \
        polyplane tenant share 2 rules; polyplane tenant connect blue:3 2; polyplane tenant connect red:1 2\n  \
        polyplane tenant add-rule 'voice: port 2 and vlan 10 -> red'\n  \
        polyplane tenant list\n  \
        polyplane tenant slots\n\n\
        A vPDP is named by its name or its number, which is its device_id for P4Runtime. Every change is made under traffic; one that is refused changes \
        nothing. docs/how-to/tenants.md has more. Exit status: 0 when it is done, 1 for errors in what was given or of the switch, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    address: Address,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create a vPDP.
    Create(CreateOptions),
    /// Delete a vPDP with its program and state. Links and rules that lead to it must be removed
    /// before.
    Delete(Name),
    /// Drop a vPDP's packets from now on; its state stays.
    Suspend(Name),
    /// Accept a suspended vPDP's packets again.
    Resume(Name),
    /// Load a program, or a chain of several as one, keeping the state that fits it.
    #[command(
        after_help = "Examples:\n  polyplane tenant load blue my.p4\n  polyplane tenant load blue 'l3_sw.p4 -> fw.p4'    what was there and what is stay, step by \
                      step\n  polyplane tenant load blue chain.policy --may-lose fw.Firewall.rules"
    )]
    Load(LoadOptions),
    /// Go back to what ran before the last load, unload or rollback; after the first load that is
    /// no program. Twice restores the present program.
    Rollback(Name),
    /// Remove the program and its state; packets are dropped until another one is loaded.
    Unload(Name),
    /// Connect a virtual port to a port of the switch.
    Connect(ConnectOptions),
    /// Connect a virtual port to nothing.
    Disconnect {
        /// The virtual port, as in blue:2.
        #[arg(value_name = "VPDP:PORT")]
        port: PortName,
    },
    /// Connect two virtual ports: what leaves at one comes in at the other.
    Link {
        /// One end.
        #[arg(value_name = "VPDP:PORT")]
        one: PortName,
        /// The other end.
        #[arg(value_name = "VPDP:PORT")]
        other: PortName,
    },
    /// Remove the link of a virtual port.
    Unlink {
        /// Either end.
        #[arg(value_name = "VPDP:PORT")]
        port: PortName,
    },
    /// Let several vPDPs share a port of the switch, and set how packets find theirs.
    #[command(
        after_help = "SHARING is one of:\n  rules                                              by rules (add-rule)\n  \
                      mac PREFIX                                         by the destination MAC address, PREFIX such as 02:aa:bb\n  \
                      described                                          by a description header in front of the packet\n  \
                      described mac-in-mac LOCAL REMOTE                  by one behind a backbone's Ethernet header\n  \
                      described vxlan LOCAL REMOTE LOCAL-IP REMOTE-IP VNI   by one behind VXLAN\n\n\
                      At a port that is shared by rules or mac, what a vPDP sends must be its own, \
                      and is dropped as foreign_egress otherwise. With `egress any` after the \
                      sharing, all may leave: for vPDPs that trust each other.\n\n\
                      Examples:\n  polyplane tenant share 2 rules\n  polyplane tenant share 2 rules egress any"
    )]
    Share(ShareOptions),
    /// Give a port of the switch to one vPDP alone again.
    Unshare {
        /// The port of the switch.
        port: u32,
    },
    /// Add a rule that leads packets of shared ports to a vPDP.
    #[command(
        after_help = "A rule is `NAME: FIELD VALUE and FIELD VALUE -> VPDP priority N`. Fields are port, vlan (a number, `none`, or `N untag`), eth.src, eth.dst, eth.type, \
                      ipv4.src, ipv4.dst, ipv6.src, ipv6.dst (prefixes), protocol, l4.src and l4.dst (a port, or FIRST..LAST), reduction (docs/AGGREGATE.md). Rules of one priority must \
                      not overlap.\n\n\
                      With `untag` the vPDP has the VLAN as by an access port: the tag is removed \
                      from what comes in, and added to what leaves untagged. Such a rule names the \
                      port, too.\n\n\
                      Rules hold in both directions: what the vPDP sends by a shared port must \
                      have as its source what rules ask of the destination, and the other way round.\n\n\
                      Examples:\n  polyplane tenant add-rule 'voice: port 2 and vlan 10 -> red'\n  \
                      polyplane tenant add-rule 'office: port 2 and vlan 20 untag -> blue'"
    )]
    AddRule {
        /// The rule, as one argument.
        rule: String,
    },
    /// Delete a rule.
    DeleteRule {
        /// Its name.
        name: String,
    },
    /// Set what a vPDP may use: all of it, in place of earlier settings. Without settings, show
    /// what it may use.
    #[command(
        after_help = "SETTINGs are entries=N and state-bytes=N (0 is for none), stages=N; work=N, units that a packet may do (256 to 65536; 4096 unless it is \
                      said); text-bytes=N, of a program's text as it is sent (P4, or the IR that `polyplane tenant load` makes of it), compile-ms=N and compile-bytes=N, time and memory of a compilation; by second \
                      packets=N, passes=N (packets that start over), cycles=N, each with /BURST for how many may come at once (a hundredth of a second's unless it is \
                      said); and weight=N, its share of a processor with too much to do. But for entries and state-bytes, N and BURST are at least 1.\n\nExamples:\n  \
                      polyplane tenant quota blue                                 what it may use, each line beginning with its setting\n  \
                      polyplane tenant quota blue entries=10000 packets=1000/64   this, and nothing else is limited\n  \
                      polyplane tenant quota blue --none                          nothing is limited"
    )]
    Quota(QuotaOptions),
    /// List all vPDPs, shared ports and rules.
    List,
    /// Show one vPDP.
    Show(Name),
    /// Show the stage slots: the content of each, and how often packets pass through them.
    Slots,
    /// Add, delete, replace or move one stage of what a vPDP runs; tables that stay keep their
    /// entries.
    #[command(
        subcommand_required = true,
        after_help = "Examples:\n  polyplane tenant slots                                             the names of stages\n  \
                      polyplane tenant stage delete blue Ingress.acl\n  polyplane tenant stage add blue count.p4 Ingress.count --before Ingress.acl\n  \
                      polyplane tenant stage move blue Ingress.acl --slot 3\n\nA stage is a condition, a match (a table) or an action (code without \
                      tables). `polyplane tenant rollback` undoes a change, but not a move to a slot."
    )]
    Stage {
        #[command(subcommand)]
        command: stage::Command,
    },
    /// Write a vPDP with its program and all of its state to a file, for another switch; it
    /// continues here.
    Export(FileOptions),
    /// Create a vPDP from such a file. Its ports are open.
    Import(ImportOptions),
}

#[derive(Args)]
struct Name {
    /// The vPDP, by its name or number.
    vpdp: String,
}

#[derive(Args)]
struct CreateOptions {
    /// Its name.
    name: String,
    /// Its number, 1 to 4095, by which controllers know it; default: the smallest that is free.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    id: u32,
    /// The name in the certificates of those who may control it; without it, only operators may.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    owner: String,
    /// Connections of its ports, from port 0 on: a port of the switch, VPDP:PORT, or open. Give
    /// one for each.
    #[arg(long = "port", value_name = "CONNECTION")]
    ports: Vec<String>,
    /// Its quotas (see quota). Give one for each.
    #[arg(long = "quota", value_name = "SETTING")]
    quotas: Vec<String>,
    /// A program, or a chain of several, to begin with.
    #[arg(long, value_name = "PROGRAM.p4")]
    program: Option<PathBuf>,
}

#[derive(Args)]
struct LoadOptions {
    /// The vPDP.
    vpdp: String,
    #[command(flatten)]
    source: Source,
    /// Let state of this table, counter or other object go if it does not fit the new program; *
    /// is for all. Give one for each.
    #[arg(long = "may-lose", value_name = "NAME")]
    may_lose: Vec<String>,
}

#[derive(Args)]
struct QuotaOptions {
    /// The vPDP.
    vpdp: String,
    /// Its quotas; everything but work is unlimited by default.
    #[arg(value_name = "SETTING")]
    settings: Vec<String>,
    /// Remove all of its quotas.
    #[arg(long, conflicts_with = "settings")]
    none: bool,
}

#[derive(Args)]
struct ConnectOptions {
    /// The virtual port, as in blue:2.
    #[arg(value_name = "VPDP:PORT")]
    port: PortName,
    /// The port of the switch.
    physical: u32,
}

#[derive(Args)]
struct ShareOptions {
    /// The port of the switch.
    port: u32,
    /// Rule by which packets find their vPDP.
    #[arg(required = true)]
    sharing: Vec<String>,
}

#[derive(Args)]
struct ImportOptions {
    /// The file.
    file: PathBuf,
    /// Its name here, if it is not the one that it had.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args)]
struct FileOptions {
    /// The vPDP.
    vpdp: String,
    /// The file.
    file: PathBuf,
}

/// A virtual port on the command line: `blue:2`.
#[derive(Clone, Debug)]
struct PortName(wire::VirtualPort);

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<PortName, String> {
        let named = text.rsplit_once(':').and_then(|(vpdp, port)| {
            let (vpdp, port) = (vpdp.to_owned(), port.parse().ok()?);
            Some(PortName(wire::VirtualPort { vpdp, port }))
        });
        named.ok_or_else(|| format!("`{text}` is no virtual port; give VPDP:PORT, as in blue:2"))
    }
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let mut desk = OperatorSession::open(&options.address)?;
    match &options.command {
        Command::Create(create) => return desk.create(create),
        Command::Load(load) => {
            let Some(function) = function_of(&load.source)? else {
                return Ok(Ended::WithErrors);
            };
            desk.set_program(&load.vpdp, function, &load.may_lose)?;
        }
        Command::DeleteRule { name } => desk.delete_rule(name)?,
        Command::List => desk.list()?,
        Command::Show(name) => desk.show(&name.vpdp)?,
        Command::Export(export) => desk.export(export)?,
        Command::Quota(quota) if quota.settings.is_empty() && !quota.none => {
            desk.show_quotas(&quota.vpdp)?;
        }
        Command::Slots => desk.slots()?,
        Command::Stage { command } => {
            let Some(asked) = command.asked()? else {
                return Ok(Ended::WithErrors);
            };
            desk.change(Change::EditStage(asked))?;
        }
        command => {
            if let Some(change) = simple(command)? {
                desk.change(change)?;
            }
        }
    }
    Ok(Ended::Well)
}

/// Returns the change of a command that needs no further input.
fn simple(command: &Command) -> Result<Option<Change>, String> {
    Ok(Some(match command {
        Command::Delete(name) => Change::Delete(name.vpdp.clone()),
        Command::Suspend(name) => Change::Suspend(name.vpdp.clone()),
        Command::Resume(name) => Change::Resume(name.vpdp.clone()),
        Command::Rollback(name) => Change::RollBack(name.vpdp.clone()),
        Command::Unload(name) => Change::RemoveProgram(name.vpdp.clone()),
        Command::Connect(connect) => Change::Connect(wire::Connect {
            port: Some(connect.port.0.clone()),
            physical: Some(connect.physical),
        }),
        Command::Disconnect { port } => Change::Connect(wire::Connect {
            port: Some(port.0.clone()),
            physical: None,
        }),
        Command::Link { one, other } => Change::Link(wire::Link {
            one: Some(one.0.clone()),
            other: Some(other.0.clone()),
        }),
        Command::Unlink { port } => Change::Unlink(port.0.clone()),
        Command::Share(share) => Change::Share(wire::Share {
            port: share.port,
            sharing: share.sharing.join(" "),
        }),
        Command::Unshare { port } => Change::Share(wire::Share {
            port: *port,
            sharing: String::new(),
        }),
        Command::AddRule { rule } => Change::AddRule(rule.clone()),
        // Without settings, the quotas have been shown before.
        Command::Quota(quota) => Change::SetQuotas(wire::SetQuotas {
            vpdp: quota.vpdp.clone(),
            quotas: quota.settings.clone(),
        }),
        Command::Import(import) => Change::Import(exported(import)?),
        Command::Create(_)
        | Command::Load(_)
        | Command::DeleteRule { .. }
        | Command::List
        | Command::Show(_)
        | Command::Slots
        | Command::Stage { .. }
        | Command::Export(_) => return Ok(None),
    }))
}

/// Reads an exported vPDP.
fn exported(options: &ImportOptions) -> Result<wire::Exported, String> {
    let file = options.file.display();
    let exported = wire::Exported::decode(&read(&options.file, limits::EXPORTED)?[..]);
    let exported =
        exported.map_err(|_| format!("{file} is not what `polyplane tenant export` wrote"))?;
    Ok(wire::Exported {
        name: options.name.clone().unwrap_or(exported.name),
        ..exported
    })
}

/// Returns a program in the form that a switch takes.
fn text(program: &Program) -> String {
    let config = p4rt::device_config(program);
    String::from_utf8_lossy(&config).into_owned()
}

/// Compiles a vPDP's program, or chain, on this machine, where its files are. Shows errors, and
/// returns `None` if there are any.
fn function_of(source: &Source) -> Result<Option<wire::Function>, String> {
    let function = match source.is_chain() {
        false => compile::compile(source).map(|program| OneFunction::Program(text(&program))),
        true => {
            let compiled = compile::chain(source)?;
            compile::show_all(&compiled.diagnostics, Format::Text);
            let whole = compiled.composed.and(compiled.parts);
            whole.map(|PolicyParts { policy, programs }| {
                let programs = programs.iter();
                OneFunction::Chain(wire::Chain {
                    policy: policy.to_string(),
                    programs: programs
                        .map(|(step, program)| (step.clone(), text(program)))
                        .collect(),
                })
            })
        }
    };
    Ok(function.map(|function| wire::Function {
        function: Some(function),
    }))
}

/// Connection of an operator to a switch.
struct OperatorSession<'o> {
    operator: Operator,
    address: &'o Address,
}

impl<'o> OperatorSession<'o> {
    fn open(address: &'o Address) -> Result<OperatorSession<'o>, String> {
        let operator = Operator::connect(&address.endpoint()?);
        let operator = operator.map_err(|error| explain(address, &error))?;
        Ok(OperatorSession { operator, address })
    }

    fn change(&mut self, change: Change) -> Result<wire::ChangeResponse, String> {
        let changed = match self.operator.change(change) {
            Ok(changed) => changed,
            Err(error) => return Err(self.refused(&error)),
        };
        for line in &changed.lost {
            out::note(&format!("lost: {line}"));
        }
        Ok(changed)
    }

    /// Describes an error of a change. For an owner, who may not make it, the vPDPs that it
    /// controls are named with their device ids.
    fn refused(&mut self, error: &ClientError) -> String {
        let text = explain(self.address, error);
        let is_denied = matches!(
            error,
            ClientError::Refused(refused) if refused.code == Code::PermissionDenied
        );
        let shown = match is_denied {
            true => self.operator.show(wire::ShowRequest::default()),
            false => return text,
        };
        let own = shown.map(|shown| shown.vpdps).unwrap_or_default();
        let own: Vec<String> = own
            .iter()
            .map(|vpdp| format!("{} (--device-id {})", vpdp.name, vpdp.id))
            .collect();
        match own.is_empty() {
            true => text,
            false => format!("{text}; you own {}", own.join(", ")),
        }
    }

    fn create(&mut self, options: &CreateOptions) -> Result<Ended, String> {
        let source = options.program.as_deref().map(Source::file);
        let function = match &source {
            None => None,
            Some(source) => match function_of(source)? {
                None => return Ok(Ended::WithErrors),
                function => function,
            },
        };
        if !options.owner.is_empty() && self.address.tls_ca.is_none() {
            out::note(
                "warning: the switch is served without TLS, where clients have no names: --owner protects nothing until it is served with --tls-client-ca",
            );
        }
        let created = self.change(Change::Create(wire::Create {
            id: options.id,
            name: options.name.clone(),
            owner: options.owner.clone(),
            ports: options.ports.clone(),
            quotas: options.quotas.clone(),
        }))?;
        if let Some(function) = function
            && let Err(error) = self.set_program(&options.name, function, &[])
        {
            // All or nothing: a vPDP without its program is deleted.
            self.change(Change::Delete(options.name.clone()))?;
            return Err(error);
        }
        let number = created.vpdp;
        match self.address.json {
            true => out::json(&serde_json::json!({ "vpdp": number, "name": options.name })),
            false => out::line(&format!(
                "vPDP {number} is {}; controllers know it as device {number}",
                options.name
            )),
        }
        Ok(Ended::Well)
    }

    fn set_program(
        &mut self,
        vpdp: &str,
        function: wire::Function,
        may_lose: &[String],
    ) -> Result<(), String> {
        self.change(Change::SetProgram(wire::SetProgram {
            vpdp: vpdp.to_owned(),
            function: Some(function),
            may_lose: may_lose.to_vec(),
        }))?;
        Ok(())
    }

    fn ask(&mut self, request: wire::ShowRequest) -> Result<wire::ShowResponse, String> {
        let told = self.operator.show(request);
        told.map_err(|error| explain(self.address, &error))
    }

    /// Deletes a rule, and reports it with the rules that its vPDP still has.
    fn delete_rule(&mut self, name: &str) -> Result<(), String> {
        let rules = self
            .ask(wire::ShowRequest::default())
            .map(|told| told.rules);
        let own = format!("{name}:");
        let deleted = rules.iter().flatten().find(|rule| rule.starts_with(&own));
        let deleted = deleted.cloned().unwrap_or_else(|| name.to_owned());
        let id = self.change(Change::RemoveRule(name.to_owned()))?.vpdp;
        let told = self.ask(wire::ShowRequest::default())?;
        let vpdp = told.vpdps.iter().find(|vpdp| vpdp.id == id);
        let vpdp = vpdp.map_or_else(|| id.to_string(), |vpdp| vpdp.name.clone());
        let is_of_vpdp = |rule: &&String| {
            let to = rule.rsplit_once(" -> ").map(|(_, to)| to);
            let rest = to.and_then(|to| to.strip_prefix(vpdp.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" priority "))
        };
        let left = told.rules.iter().filter(is_of_vpdp);
        let left: Vec<&str> = left
            .filter_map(|rule| Some(rule.split_once(':')?.0))
            .collect();
        match self.address.json {
            true => out::json(&serde_json::json!({
                "deleted": deleted, "vpdp": vpdp, "left": left
            })),
            false => out::line(&match left.is_empty() {
                true => format!("deleted {deleted}; {vpdp} has no other rule"),
                false => format!("deleted {deleted}; {vpdp} still has {}", left.join(", ")),
            }),
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(), String> {
        let told = self.ask(wire::ShowRequest::default())?;
        match self.address.json {
            true => out::json(&show::Listing::of(&told)),
            false => out::text(&show::list(&told)),
        }
        Ok(())
    }

    fn ask_of(&mut self, vpdp: &str) -> Result<Vec<wire::Vpdp>, String> {
        let told = self.ask(wire::ShowRequest {
            vpdp: vpdp.to_owned(),
            ..wire::ShowRequest::default()
        });
        told.map(|told| told.vpdps)
    }

    fn show(&mut self, vpdp: &str) -> Result<(), String> {
        for vpdp in &self.ask_of(vpdp)? {
            match self.address.json {
                true => out::json(&show::Described::of(vpdp)),
                false => out::text(&show::describe(vpdp)),
            }
        }
        Ok(())
    }

    fn show_quotas(&mut self, vpdp: &str) -> Result<(), String> {
        for vpdp in &self.ask_of(vpdp)? {
            match self.address.json {
                true => out::json(&show::Quotas::of(vpdp)),
                false => out::text(&show::quotas(vpdp)),
            }
        }
        Ok(())
    }

    fn slots(&mut self) -> Result<(), String> {
        let told = self.ask(wire::ShowRequest {
            slots: true,
            ..wire::ShowRequest::default()
        })?;
        let slots = told.slots.unwrap_or_default();
        let map = slots::Map::of(&slots);
        match self.address.json {
            true => out::json(&map),
            false => out::text(&map.text()),
        }
        Ok(())
    }

    fn export(&mut self, options: &FileOptions) -> Result<(), String> {
        let told = self.ask(wire::ShowRequest {
            vpdp: options.vpdp.clone(),
            export: true,
            ..wire::ShowRequest::default()
        })?;
        let exported = told.exported.unwrap_or_default();
        write(&options.file, &exported.encode_to_vec())
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = std::fs::write(file, bytes);
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// Describes an error and suggests a remedy.
fn explain(address: &Address, error: &ClientError) -> String {
    match error {
        ClientError::Unreachable {
            with_tls: false, ..
        } => format!(
            "{error}; start a switch with `polyplane host`, or name another with --addr HOST:PORT"
        ),
        error => address.explain(error),
    }
}
