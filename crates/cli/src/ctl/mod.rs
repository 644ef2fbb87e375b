//! `polyplane ctl`: a command-line controller for any P4Runtime server.
//!
//! `link` is the connection. `state` reads the state of a device. The commands are in `list`,
//! `write`, `dump`, `counters`, `follow`, `observe`, `sync`, `config` and `port`. The crates
//! `controller` and `entries` translate names and values.

mod config;
mod counters;
mod dump;
mod follow;
mod json;
mod link;
mod list;
mod observe;
mod outcome;
mod port;
mod state;
mod sync;
mod validity;
mod write;

use clap::{Args, Subcommand};

use crate::Ended;
use link::LinkOptions;
use runtime::ProcessSetup;

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "Examples, for a switch that `polyplane serve` started:\n  \
        polyplane ctl load examples/router/router.p4\n  \
        polyplane ctl apply examples/router/router.entries\n  \
        polyplane ctl tables\n  \
        polyplane ctl show ipv4_lpm\n  \
        polyplane ctl add 'ipv4_lpm { hdr.ipv4.dst: 10.7.0.0/16 } -> connected(port: 1)'\n  \
        polyplane ctl delete 'ipv4_lpm { hdr.ipv4.dst: 10.7.0.0/16 }'\n  \
        polyplane ctl dump > backup.entries; polyplane ctl apply --sync backup.entries\n  \
        polyplane ctl counters --watch\n  \
        polyplane ctl status --addr 192.0.2.1:9559 --tls-ca ca.pem\n\n\
        docs/reference/ctl.md tells more, docs/reference/entries.md how entries are written. Exit status: 0 when all is done or a signal stopped it, 1 for errors in what was \
        given or of the server, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    link: LinkOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the tables, with their entries, sizes, keys and actions.
    Tables(list::TablesOptions),
    /// Show a table's entries and its default action, as statements that `add` takes.
    #[command(after_help = "Example: polyplane ctl show ipv4_lpm")]
    Show(list::ShowOptions),
    /// Add an entry, a member, a group, a multicast group or a clone session.
    #[command(
        after_help = "Examples:\n  polyplane ctl add 'ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 } -> forward(port: 3, mac: 00:aa:bb:cc:dd:ee)'\n  \
                      polyplane ctl add 'acl { meta.dst_port: 22 } -> drop() priority 10'\n  polyplane ctl add 'multicast 5 { port 1, port 2 }'"
    )]
    Add(write::StatementOptions),
    /// Change an entry or any other object: default actions, registers, meters, counters and
    /// value sets too.
    #[command(
        after_help = "Examples:\n  polyplane ctl change 'ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 } -> drop()'\n  \
                      polyplane ctl change 'ipv4_lpm default -> drop(reason: 1)'\n  polyplane ctl change 'register seen[3] = 0x10'"
    )]
    Change(write::StatementOptions),
    /// Delete what a statement names; `TABLE default` resets the program's own default action.
    #[command(
        after_help = "Examples:\n  polyplane ctl delete 'ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 }'\n  \
                      polyplane ctl delete 'acl { meta.dst_port: 22 } priority 10'\n  polyplane ctl delete 'multicast 5'"
    )]
    Delete(write::StatementOptions),
    /// Apply an entries file, in batches of 1,000 statements.
    #[command(
        after_help = "Errors are shown at the lines that they are of; without --atomic, all other statements are applied. Members, groups and sessions that are \
                      there already are replaced.\n\nExamples:\n  polyplane ctl apply router.entries\n  polyplane ctl apply --atomic router.entries    \
                      no packet sees a part of it\n  polyplane ctl apply --atomic=rollback router.entries    undone after an error\n  polyplane ctl apply --delete \
                      router.entries    what it adds is deleted\n  polyplane ctl apply --sync --dry-run backup.entries    what would change\n  polyplane ctl apply --sync --atomic \
                      backup.entries    all state as in the file: what it does not have is deleted"
    )]
    Apply(write::ApplyOptions),
    /// Write all state as an entries file; `apply --sync` brings it back.
    Dump(dump::DumpOptions),
    /// Show counters, direct ones too; with --watch live, with rates.
    #[command(
        after_help = "Examples:\n  polyplane ctl counters\n  polyplane ctl counters rx --watch\n  polyplane ctl counters --watch --every 5 --json"
    )]
    Counters(counters::CountersOptions),
    /// Show the meters that have rates, direct ones too.
    Meters(list::NamedOptions),
    /// Show the cells of registers that are not zero.
    #[command(
        after_help = "Examples:\n  polyplane ctl registers\n  polyplane ctl registers seen 3"
    )]
    Registers(list::RegistersOptions),
    /// Show members and groups of action profiles and selectors.
    Groups(list::NamedOptions),
    /// Show multicast groups and clone sessions.
    Multicast,
    /// Follow digests, and acknowledge them.
    Digests(follow::DigestsOptions),
    /// Follow packets that the device sends to controllers; or send one.
    #[command(
        after_help = "Examples:\n  polyplane ctl packets\n  polyplane ctl packets --out ffffffffffff0200000000010800 --set egress_port=3\n  \
                      polyplane ctl packets --out ffffffffffff0200000000010800 --count 1    send one, and wait for an answer"
    )]
    Packets(follow::PacketsOptions),
    /// Trace packets of the running switch that a filter describes, step by step.
    #[command(
        after_help = "Examples:\n  polyplane ctl trace 'ipv4.dst == 10.0.7.7' --count 1\n  polyplane ctl trace arp --json\n\ndocs/reference/trace.md has the filters."
    )]
    Trace(observe::TraceOptions),
    /// Capture frames at the ports of the running switch, in a pcapng file.
    #[command(
        after_help = "Examples:\n  polyplane ctl capture 'ipv4.dst == 10.0.7.7' -o lost.pcapng\n  polyplane ctl capture --port 1 --count 100 -o port1.pcapng\n  \
                      polyplane ctl capture all -o - | tcpdump -r -"
    )]
    Capture(observe::CaptureOptions),
    /// Sum up where packets that a filter describes go: tables, entries, actions, ports and drop
    /// reasons.
    #[command(
        after_help = "Examples:\n  polyplane ctl why 'ipv4.dst == 10.0.7.7'\n  polyplane ctl why all --seconds 60 --json"
    )]
    Why(observe::WhyOptions),
    /// Load a program, keeping the present state.
    #[command(
        after_help = "Examples:\n  polyplane ctl load my.p4\n  polyplane ctl load my.p4 --may-lose ingress.acl    let what it has no place for go\n  \
                      polyplane ctl load my.p4 --clear\n  polyplane ctl load my.p4 --verify\n  \
                      polyplane ctl load bmv2.json --p4info my.p4info.txt --clear    for BMv2's simple_switch_grpc"
    )]
    Load(config::LoadOptions),
    /// Show which program runs.
    Pipeline(config::PipelineOptions),
    /// Show the version of P4Runtime that the server speaks.
    Capabilities,
    /// Show the server's version, its program, and which controller is primary.
    Status,
    /// List the switch's ports, or add, remove and reopen one.
    #[command(
        after_help = "Examples:\n  polyplane ctl port list\n  polyplane ctl port add 2=eth1\n  polyplane ctl port add 3=tap:t0\n  polyplane ctl port reopen 2    after a change of the interface's driver or use\n  \
                      polyplane ctl port remove 2    packets to it are dropped as no_such_port"
    )]
    Port(port::PortOptions),
    /// Show the packets that the switch and its ports dropped, by reason.
    #[command(
        after_help = "`polyplane ctl why FILTER` shows where packets are dropped. docs/reference/drop-reasons.md has the reasons."
    )]
    Drops,
}

impl Options {
    /// Returns true if the command runs until it is stopped.
    pub(crate) fn follows(&self) -> bool {
        match &self.command {
            Command::Counters(options) => options.watch,
            Command::Digests(_) | Command::Packets(_) => true,
            Command::Trace(_) | Command::Capture(_) | Command::Why(_) => true,
            _ => false,
        }
    }
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let json = options.link.address.json;
    if let Command::Load(load) = &options.command {
        return config::load(&options.link, load, json);
    }
    let mut link = options.link.connect()?;
    let link = &mut link;
    match &options.command {
        Command::Tables(options) => list::tables(link, options, json)?,
        Command::Show(options) => list::show(link, options, json)?,
        Command::Add(options) => return write::add(link, options, json),
        Command::Change(options) => return write::change(link, options, json),
        Command::Delete(options) => return write::delete(link, options, json),
        Command::Apply(options) => return write::apply(link, options, json),
        Command::Dump(options) => dump::dump(link, options, json)?,
        Command::Counters(options) => counters::counters(link, options, json, early)?,
        Command::Meters(options) => list::meters(link, options, json)?,
        Command::Registers(options) => list::registers(link, options, json)?,
        Command::Groups(options) => list::groups(link, options, json)?,
        Command::Multicast => list::multicast(link, json)?,
        Command::Digests(options) => follow::digests(link, options, json, early)?,
        Command::Packets(options) => follow::packets(link, options, json, early)?,
        Command::Trace(options) => observe::trace(link, options, json, early)?,
        Command::Capture(options) => observe::capture(link, options, early)?,
        Command::Why(options) => observe::why(link, options, json, early)?,
        Command::Load(_) => {}
        Command::Pipeline(options) => config::pipeline(link, options, json)?,
        Command::Capabilities => config::capabilities(link, json)?,
        Command::Status => config::status(link, &options.link, json)?,
        Command::Port(options) => port::port(link, options, json)?,
        Command::Drops => port::drops(link, json)?,
    }
    Ok(Ended::Well)
}
