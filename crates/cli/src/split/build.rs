//! `polyplane split build`: both halves as files, from which the processes start without the
//! compilers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use command::handlers::{self, Handlers};
use command::topology;
use fabric::topology::{NodeId, PlaneSpec, SplitSpec, SwitchId};
use packet::PortId;
use passes::split::{SplitOptions, SplitProgram, split};
use serde::{Deserialize, Serialize};

use super::{Cut, Prepared, emit, show};
use crate::args::{Source, limits, read_text};
use crate::{Ended, artefacts, out};

#[derive(Args)]
#[command(
    after_help = "Writes the whole program and both halves as IR and P4Info, the layout of frames, clip.h, the C code and its object. Give DIR in \
                  place of the program to `polyplane split switch`, `server` and `control`: they start without the compilers. With --topo also the \
                  entries, and the commands of the processes (start.txt).\n\nExamples:\n  polyplane split build app.p4c --out build/\n  polyplane \
                  split server build/ --id 1 --port 0=eth0"
)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// Topology with a section [split] for the program: its budget, its entries, and the ports of
    /// its servers.
    #[arg(long, value_name = "T.toml")]
    topo: Option<PathBuf>,
    /// Write the files into this directory, which is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    cut: Cut,
}

/// File of the whole program, and of the halves.
const WHOLE: &str = "whole.ir";
const SWITCH: &str = "switch.ir";
const SERVER: &str = "server.ir";

/// File of the options of the split.
const OPTIONS: &str = "split.json";

/// File of the entries.
const ENTRIES: &str = "whole.entries";

/// Maximum number of bytes of a program as IR.
const MAX_IR: u64 = 256 << 20;

/// Options of the split that the directory has.
#[derive(Serialize, Deserialize)]
struct BuiltOptions {
    request_type: u16,
    response_type: u16,
    phv_bits: Option<u64>,
}

pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let mut cut = options.cut.options();
    let found = match &options.topo {
        Some(path) => Some(read_topology(path, &options.source, &mut cut)?),
        None => None,
    };
    let Some((program, blocks)) = super::split_source(&options.source, &cut)? else {
        return Ok(Ended::WithErrors);
    };
    for warning in &program.plan.phv.warnings {
        out::note(warning);
    }
    let code = handlers::texts(blocks, options.source.c_file.as_deref())?;
    let Some(handlers) = handlers::compile(&program.whole, &code) else {
        return Ok(Ended::WithErrors);
    };
    let built = BuiltOptions {
        request_type: cut.request_type,
        response_type: cut.response_type,
        phv_bits: cut.phv_bits,
    };
    let mut files = vec![
        (OPTIONS, json(&built)?),
        ("frame.json", json(&show::shown(&program))?),
        ("clip.h", foreign::header(&program.whole)),
    ];
    for (half, ir, info) in [
        (&program.whole, WHOLE, "whole.p4info.txt"),
        (&program.switch, SWITCH, "switch.p4info.txt"),
        (&program.server, SERVER, "server.p4info.txt"),
    ] {
        files.push((ir, half.to_string()));
        files.push((info, p4info::to_text(&artefacts::p4info(half)?)));
    }
    if !code.is_empty() {
        files.push(("handlers.c", emit::c_source(&code)));
    }
    if let Some((ports, spec)) = &found {
        if let Some(path) = &spec.entries {
            files.push((ENTRIES, read_text(path, limits::ENTRIES)?));
        }
        files.push(("start.txt", commands(ports, spec, &options.out)));
    }
    artefacts::write_all(&options.out, files)?;
    for path in handlers.write_to(&options.out)? {
        out::line(&path.display().to_string());
    }
    Ok(Ended::Well)
}

fn json(value: &impl Serialize) -> Result<String, String> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| format!("cannot write JSON: {error}"))?;
    Ok(text + "\n")
}

/// Reads the split program of a topology, and the ports of its switch. Takes the options of the
/// split.
///
/// # Errors
/// The topology has no split program, or another one.
fn read_topology(
    path: &Path,
    source: &Source,
    cut: &mut SplitOptions,
) -> Result<(BTreeSet<PortId>, SplitSpec), String> {
    let topology = topology::read(path)?;
    let mut switches = topology.switches.iter().zip(0..);
    let found = switches.find_map(|(switch, id)| match &switch.plane {
        PlaneSpec::Split(spec) => Some((NodeId::Switch(SwitchId(id)), spec.as_ref().clone())),
        _ => None,
    });
    let file = path.display();
    let (switch, spec) = found.ok_or_else(|| format!("{file}: it has no section [split]"))?;
    let ends = topology.links.iter().flat_map(|link| link.ends);
    let ports = ends.filter(|end| end.node == switch).map(|end| end.port);
    let same = |path: &Path| std::fs::canonicalize(path).ok();
    if same(&spec.program) != same(&source.program) {
        return Err(format!(
            "{file}: its [split] has the program {}, not {}",
            spec.program.display(),
            source.program.display()
        ));
    }
    cut.mirror_all = spec.mirror_all;
    cut.phv_bits = cut.phv_bits.or(spec.phv_bits);
    Ok((ports.collect(), spec))
}

/// Returns the commands of the processes. The topology does not name interfaces.
fn commands(ports: &BTreeSet<PortId>, spec: &SplitSpec, out: &Path) -> String {
    let out = out.display();
    let entries = match &spec.entries {
        Some(_) => format!(" --entries {out}/{ENTRIES}"),
        None => String::new(),
    };
    let servers = spec.servers.iter().zip(1..);
    let mut text = String::new();
    let mut switch = format!("polyplane split switch {out}{entries}");
    for port in ports {
        // Writing to a string never fails.
        let _ = write!(switch, " --port {}=INTERFACE", port.0);
    }
    for (server, id) in servers {
        let _ = write!(switch, " --server {id}={}", server.port.0);
        let size = spec.servers.len();
        let _ = writeln!(
            text,
            "# {}\npolyplane split server {out}{entries} --id {id} --group-size {size} \
             --workers {} --port 0=INTERFACE",
            server.name, server.spec.workers
        );
    }
    text + "# switch\n" + &switch + "\n"
}

/// Reads a program that [`run`] has written.
///
/// # Errors
/// A file cannot be read, or this version makes other halves of the program.
pub(super) fn read(
    source: &Source,
    options: &SplitOptions,
    with_c: bool,
) -> Result<Prepared, String> {
    let directory = &source.program;
    let shown = directory.display();
    if source.c_file.is_some() || *options != SplitOptions::default() {
        return Err(format!(
            "{shown}: the program was built with its C code and options: give them to `polyplane \
             split build`"
        ));
    }
    let text = |file: &str| read_text(&directory.join(file), MAX_IR);
    let built: BuiltOptions = serde_json::from_str(&text(OPTIONS)?)
        .map_err(|error| format!("{}: {error}", directory.join(OPTIONS).display()))?;
    let options = SplitOptions {
        request_type: built.request_type,
        response_type: built.response_type,
        phv_bits: built.phv_bits,
        ..SplitOptions::default()
    };
    let whole = ir::read(&text(WHOLE)?)
        .map_err(|error| format!("{}:{error}", directory.join(WHOLE).display()))?;
    let again = || format!("{shown}: another version has built it: build it again");
    ir::verify(&whole).map_err(|_| again())?;
    let program = split(&whole, &options).map_err(|error| error.to_string())?;
    let SplitProgram { switch, server, .. } = &program;
    if switch.to_string() != text(SWITCH)? || server.to_string() != text(SERVER)? {
        return Err(again());
    }
    let handlers = match with_c {
        true => Handlers::read_from(directory, &program.whole)?,
        false => Handlers::default(),
    };
    Ok(Prepared { program, handlers })
}
