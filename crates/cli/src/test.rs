//! `polyplane test`: runs an STF test of a program: packets in, and packets that must come out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use packet::Frame;
use port::{FrameDirection, PcapError, PcapReader};
use stf::{CaptureDirection, LoadRefusal, Report, TestFiles, TestSetup};
use support::count::part_of;
use switch::DeviceConfig;

use crate::args::{self, Format, Source, limits};
use crate::engine::Choice;
use crate::handlers::engine_with;
use crate::{Ended, amount, check, compile, out};

#[derive(Args)]
#[command(
    after_help = "Beside the commands of p4c's STF tests there are: `entries FILE` and `entry STATEMENT` (the format of docs/reference/entries.md), `wait \
                  DURATION`, `expect_digest NAME VALUES..`, `expect_log TEXT`, `packets PORT CAPTURE` and `expect_packets PORT CAPTURE`.\n\nExit status: 0 when all that was expected came out and nothing \
                  else, 1 otherwise, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The STF test.
    #[arg(value_name = "TEST.stf")]
    test: PathBuf,
    /// Seed of random numbers.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    choice: Choice,
    /// Print nothing when all is as expected.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let text = read(&options.test, limits::STF)?;
    if !has_commands(&text) {
        return check_only(&options.source);
    }
    let Some(compiled) = compile::compile_with_handlers(&options.source)? else {
        return Ok(Ended::WithErrors);
    };
    let files = NeighbourFiles::of(&options.test);
    let engine = engine_with(options.choice.engine_before_packets(), compiled.handlers);
    let setup = TestSetup {
        program: Arc::new(compiled.program),
        engine: engine.as_ref(),
        device: DeviceConfig {
            seed: options.seed,
            ..DeviceConfig::default()
        },
        read_file: &files,
    };
    let file = options.test.display().to_string();
    match stf::run(&setup, &file, &text) {
        Ok(report) => Ok(tell(&file, &report, options.quiet)),
        Err(LoadRefusal::Load(error)) => Err(error.to_string()),
        Err(LoadRefusal::Test(errors)) => {
            for error in errors {
                out::note(&error.to_string());
            }
            Ok(Ended::WithErrors)
        }
    }
}

/// Files in the directory of a test.
pub(crate) struct NeighbourFiles<'t>(&'t Path);

impl NeighbourFiles<'_> {
    pub(crate) fn of(test: &Path) -> NeighbourFiles<'_> {
        NeighbourFiles(test.parent().unwrap_or(Path::new("")))
    }
}

impl TestFiles for NeighbourFiles<'_> {
    fn text(&self, path: &str) -> Result<String, String> {
        read(&self.0.join(path), limits::ENTRIES)
    }

    fn packets(&self, path: &str, direction: CaptureDirection) -> Result<Vec<Vec<u8>>, String> {
        let path = self.0.join(path);
        let whole = |error: PcapError| error.to_string();
        let mut reader = PcapReader::open(&path).map_err(whole)?;
        let mut frame = Frame::new();
        let mut packets = Vec::new();
        let other = match direction {
            CaptureDirection::In => FrameDirection::Sent,
            CaptureDirection::Out => FrameDirection::Received,
        };
        let mut interface = None;
        while let Some(packet) = reader.read(&mut frame).map_err(whole)? {
            if packet.direction == Some(other) {
                continue;
            }
            if *interface.get_or_insert(packet.interface) != packet.interface {
                return Err(format!(
                    "{}: the capture has packets of several interfaces: capture one port, \
                     as with `ctl capture --port N`",
                    path.display()
                ));
            }
            packets.push(frame.bytes().to_vec());
        }
        match reader.cut_packets() {
            0 => Ok(packets),
            cut => Err(format!(
                "{}: the capture has only a part of {}",
                path.display(),
                amount::count(cut, "packet")
            )),
        }
    }
}

/// Returns true if a test has a command.
fn has_commands(text: &str) -> bool {
    let code = |line: &str| line.split('#').next().unwrap_or_default().trim().is_empty();
    !text.lines().all(code)
}

/// Runs a test without commands: it only checks that the program has no errors, and starts no
/// device.
fn check_only(source: &Source) -> Result<Ended, String> {
    check::told(source, Format::Text)
}

pub(crate) fn read(path: &Path, limit: u64) -> Result<String, String> {
    let bytes = args::read(path, limit)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn tell(file: &str, report: &Report, quiet: bool) -> Ended {
    for shown in &report.shown {
        out::line(shown);
    }
    for failure in &report.failures {
        match failure.line {
            0 => out::note(&format!("{file}: {}", failure.message)),
            line => out::note(&format!("{file}:{line}: {}", failure.message)),
        }
    }
    for broken in &report.broken_restrictions {
        let (line, message) = (broken.line, &broken.message);
        out::note(&format!("{file}:{line}: warning: {message}"));
    }
    if !report.unusual.is_empty() {
        out::note(&format!("{file}: warning: {}", report.unusual.join(", ")));
    }
    let (packets, held, failed) = (report.packets, report.held, report.failures.len());
    if failed > 0 {
        report.drops.iter().for_each(|line| out::note(line));
        let checks = part_of(failed as u64, (failed + held) as u64, "check");
        out::note(&format!("{checks} failed"));
        return Ended::WithErrors;
    }
    if !quiet {
        let packets = amount::count(packets as u64, "packet");
        let checks = amount::count(held as u64, "check");
        out::line(&format!("{packets} in, {checks}: all as expected"));
    }
    Ended::Well
}
