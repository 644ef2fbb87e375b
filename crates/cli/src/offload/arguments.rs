//! Options of switches that offload flows.

use std::sync::Arc;

use clap::Args;
use ir::Program;
use offload::model::ModelConfig;
use offload::tc::{TcPort, TcTarget, TcTargetOptions, TranslateOptions};
use offload::{OffloaderOptions, PortRole, Target};
use offload_runtime::{OffloadOptions, OffloadSetup, TableChoice, TargetSpec, table_of};
use packet::PortId;
use placement::planes::PlanePolicy;
use port::PortSpec;
use support::crc::crc32;
use syntax::diag::suggest;

use crate::out;

/// Options of the offload of flows.
#[derive(Args, Clone)]
#[group(id = "Offload")]
pub(crate) struct OffloadArguments {
    /// Let a NIC carry the heavy flows (docs/how-to/offload.md). `tc` gives rules of TC flower to
    /// the interfaces' own NICs; `model` is a NIC in memory before the ports, for trials, which
    /// takes the flows that have such a rule. RULES is the number of rules at most; a fault of the
    /// model is for a number of a thousand rules, as in model:100,refused=500 (others:
    /// refused-late, not-in-hardware, dead, evicted, evicted-silently).
    #[arg(
        id = "offload",
        long = "offload",
        value_name = "TARGET[:RULES[,FAULT=N]]"
    )]
    target: Option<TargetSpec>,
    /// Policy that chooses the flows: top (default; the fastest), exact, dense, threshold, fcfs,
    /// random, milp, or the paper's (paper, paper-literal).
    #[arg(long = "offload-policy", value_name = "POLICY", requires = "offload")]
    policy: Option<PlanePolicy>,
    /// Flows that enter or leave the NIC in a second at most.
    #[arg(long = "offload-moves", value_name = "N", requires = "offload")]
    moves: Option<u64>,
    /// Keep flows that look up this table in the NIC whenever there is room, or in software. Give
    /// one for each table.
    #[arg(
        id = "offload_tables",
        long = "offload-table",
        value_name = "TABLE=always|never",
        requires = "offload"
    )]
    tables: Vec<TableChoice>,
    /// No packet has IPv4 options, IPv6 extension headers or a broken header length. Then rules may
    /// compare ports and write checksums, and --valid-ip-checksums has an effect.
    #[arg(long, requires = "offload")]
    no_ip_options: bool,
    /// No packet has a wrong IPv4 header checksum, since the NICs or the neighbours drop these.
    /// Then flows of programs that check it, as most routers do, have rules, if --no-ip-options is
    /// given, too.
    #[arg(long, requires = "offload")]
    valid_ip_checksums: bool,
}

/// Ports of a switch that offloads flows, once they are open.
pub(crate) struct OffloadPorts<'p> {
    /// Number by which controllers know the device.
    pub(crate) device: u64,
    /// The ports.
    pub(crate) ports: &'p [PortSpec],
    /// Ports of controllers.
    pub(crate) controllers: Vec<PortId>,
    /// [`OffloadOptions::keeps_entries`].
    pub(crate) keeps_entries: bool,
    /// [`OffloadOptions::table_name`].
    pub(crate) table_name: fn(&str) -> String,
}

impl OffloadArguments {
    /// Returns true if flows are offloaded.
    pub(crate) fn is_given(&self) -> bool {
        self.target.is_some()
    }

    /// Checks that a program has the tables that the owner names.
    ///
    /// # Errors
    /// It does not have one; the error has the names of its tables.
    pub(crate) fn check_tables(&self, program: &Program) -> Result<(), String> {
        let missing = |choice: &&TableChoice| table_of(program, &choice.name).is_none();
        match self.tables.iter().find(missing) {
            Some(choice) => Err(no_table(&choice.name, program)),
            None => Ok(()),
        }
    }

    /// Returns the setup for a switch, if flows are offloaded. `table_of` returns the name in the
    /// program of a table that the owner names.
    ///
    /// # Errors
    /// A table is unknown, or the target cannot be opened.
    pub(crate) fn setup(
        &self,
        of: OffloadPorts<'_>,
        role_of: impl Fn(PortId) -> PortRole + Send + Sync + 'static,
        table_of: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Option<OffloadSetup>, String> {
        let Some(target) = &self.target else {
            return Ok(None);
        };
        let tables = self.tables.iter().map(|choice| {
            Ok(TableChoice {
                table: table_of(&choice.name)?,
                ..choice.clone()
            })
        });
        let options = OffloadOptions {
            offloader: OffloaderOptions {
                policy: self.policy.unwrap_or(PlanePolicy::Top),
                moves_a_second: self.moves,
                ..OffloaderOptions::default()
            },
            tables: tables.collect::<Result<_, String>>()?,
            table_name: of.table_name,
            // Those of POF tables are made from offsets.
            names_fields: !of.keeps_entries,
            role_of: Arc::new(role_of),
            keeps_entries: of.keeps_entries,
        };
        let setup = match target {
            TargetSpec::Model(config) => {
                out::note(
                    "heavy flows go to a model of a NIC in memory, for trials; it takes those that \
                     have a rule of TC flower",
                );
                let as_tc = TranslateOptions {
                    no_ip_options: self.no_ip_options,
                    valid_ip_checksums: self.valid_ip_checksums,
                    ..TranslateOptions::default()
                };
                let config = ModelConfig {
                    as_tc: Some(as_tc),
                    ..config.clone()
                };
                OffloadSetup::model(options, config)
            }
            TargetSpec::Tc(rules) => {
                let target = self.tc(*rules, &of)?;
                announce(&target);
                OffloadSetup {
                    options,
                    target: Box::new(target),
                    nic: None,
                    controller_ports: Vec::new(),
                }
            }
        };
        Ok(Some(OffloadSetup {
            controller_ports: of.controllers,
            ..setup
        }))
    }

    fn tc(&self, rules: Option<u32>, of: &OffloadPorts<'_>) -> Result<TcTarget, String> {
        let ports = of.ports.iter().map(|spec| TcPort {
            port: spec.id,
            interface: spec.name().to_owned(),
            no_ip_options: self.no_ip_options,
            valid_ip_checksums: self.valid_ip_checksums,
        });
        // Another switch on the machine has other interfaces, so it does not take the rules for its
        // own, and this one knows them again after a crash, in whichever order they are given.
        let mut specs: Vec<&PortSpec> = of.ports.iter().collect();
        specs.sort_by_key(|spec| spec.id);
        let words: Vec<String> = specs.into_iter().map(PortSpec::to_string).collect();
        let owner = crc32(format!("{} {}", of.device, words.join(" ")).as_bytes());
        let options = TcTargetOptions {
            rules,
            ..TcTargetOptions::new(owner, ports.collect())
        };
        TcTarget::open(options).map_err(|error| format!("--offload tc: {error}"))
    }
}

/// Says which interfaces take rules.
fn announce(target: &TcTarget) {
    let interfaces = target.interfaces();
    if interfaces.iter().any(|one| one.refusal.is_none()) {
        out::note("heavy flows go to the NICs of the ports, by rules of TC flower");
    } else {
        out::note("no interface takes rules of TC flower: all flows stay in software");
    }
    for one in interfaces {
        let name = format!("port {} ({})", one.port, one.name);
        out::note(&match one.refusal {
            None => format!("{name} takes rules of TC flower"),
            Some(reason) => format!("{name} takes no rules: {reason}"),
        });
    }
}

/// Returns the error for a table that a program does not have, with the names of those that it has.
fn no_table(name: &str, program: &Program) -> String {
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let names: Vec<String> = program
        .tables
        .values()
        .map(|table| short(&table.name))
        .collect();
    let near = suggest(name, names.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let all = match names.is_empty() {
        true => "It has no tables".to_owned(),
        false => format!("Its tables: {}", some_of(&names)),
    };
    format!("--offload-table {name}: the program has no table `{name}`; {near}{all}")
}

/// Number of tables that an error names.
const NAMED: usize = 20;

fn some_of(names: &[String]) -> String {
    let named = &names[..names.len().min(NAMED)];
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns the roles of the ports of a device: those of the data plane, those of controllers, and
/// others, which are missing.
pub(crate) fn roles(
    ports: &[PortSpec],
    controllers: &[PortId],
) -> impl Fn(PortId) -> PortRole + Send + Sync + use<> {
    let ports: Vec<PortId> = ports.iter().map(|spec| spec.id).collect();
    let controllers = controllers.to_vec();
    move |port| {
        if controllers.contains(&port) {
            PortRole::Controller
        } else if ports.contains(&port) {
            PortRole::Data
        } else {
            PortRole::Missing
        }
    }
}
