//! `polyplane split test`: an STF test of a program over a switch and servers.

use std::path::PathBuf;

use clap::Args;
use command::split_bed::SplitBed;
use split::{LocalOptions, LocalSplit};
use stf::LoadRefusal;
use switch::DeviceConfig;

use super::Cut;
use super::placement::PlacementArgs;
use crate::args::{Source, limits};
use crate::engine::Choice;
use crate::handlers::engine_with;
use crate::{Ended, out};

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// The STF test.
    #[arg(value_name = "TEST.stf")]
    test: PathBuf,
    /// Number of servers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Mirror every table of ingress with exact or longest-prefix keys, and keep at most N entries
    /// of each in the switch.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    mirror_all: Option<u32>,
    /// Run the switch half as `split emit` writes it: its P4 text, compiled again.
    #[arg(long)]
    emitted: bool,
    /// Seed of random numbers.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    placement: PlacementArgs,
    #[command(flatten)]
    cut: Cut,
    #[command(flatten)]
    choice: Choice,
    /// Print nothing when all is as expected.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let text = crate::test::read(&options.test, limits::STF)?;
    let mut cut = options.cut.options();
    cut.mirror_all = options.mirror_all;
    cut.fixed_switch = options.emitted;
    let Some(mut prepared) = super::prepare(&options.source, &cut, true)? else {
        return Ok(Ended::WithErrors);
    };
    if options.emitted {
        prepared.program = match command::split_text::through_text(&prepared.program) {
            Ok(program) => program,
            Err(error) => {
                out::error(&error.to_string());
                return Ok(Ended::WithErrors);
            }
        };
    }
    let mut natives = Vec::new();
    for server in 0..options.servers {
        let loaded = prepared
            .handlers
            .load(&prepared.program.server, server.into());
        let Some(loaded) = loaded else {
            return Ok(Ended::WithErrors);
        };
        natives.push(loaded);
    }
    let local = LocalOptions {
        servers: options.servers,
        request_port: cut.request_port,
        device: DeviceConfig {
            seed: options.seed,
            ..DeviceConfig::default()
        },
        placement: options.placement.placement()?,
        order: options.placement.order(),
        ..LocalOptions::default()
    };
    let bed = LocalSplit::new(&prepared.program, &local, |plane| {
        let handlers = plane.map(|server| natives[usize::from(server)].clone());
        engine_with(
            options.choice.engine_before_packets(),
            handlers.unwrap_or_default(),
        )
    });
    let mut bed = SplitBed(bed.map_err(|error| error.to_string())?);
    let requests = bed.0.switch().requests();
    requests.set_owners(|pool| prepared.handlers.owners(pool));
    let files = crate::test::NeighbourFiles::of(&options.test);
    let file = options.test.display().to_string();
    let report = match stf::run_in(&mut bed, &files, &file, &text) {
        Ok(report) => report,
        Err(LoadRefusal::Load(error)) => return Err(error.to_string()),
        Err(LoadRefusal::Test(errors)) => {
            for error in errors {
                out::note(&error.to_string());
            }
            return Ok(Ended::WithErrors);
        }
    };
    for refused in bed.0.coordinator_mut().take_refused() {
        out::note(&format!("warning: a plane refused a change: {refused}"));
    }
    let ended = crate::test::tell(&file, &report, options.quiet);
    if !options.quiet {
        let requests = bed.0.switch().requests().sent();
        out::line(&format!(
            "{} went to the servers",
            crate::amount::count(requests, "packet")
        ));
        let moves = bed.0.coordinator().moves();
        if moves > 0 {
            out::line(&format!(
                "{} of entries into the switch or out of it",
                crate::amount::count(moves, "move")
            ));
        }
    }
    Ok(ended)
}
