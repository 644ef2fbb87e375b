//! Output of the traces of a running switch: to standard error as text, or to a file with one
//! line of JSON each.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::trace_filter::{TracedPacket, TracedPlane};
use support::amount;
use switch::Device;
use trace_format::{PacketTrace, WorkerPacket};

use crate::live::LiveLine;
use crate::out;
use crate::trace::OwnFiles;

pub(super) struct Tracer {
    file: Option<(PathBuf, BufWriter<File>)>,
    /// Source files of which traces show lines.
    sources: OwnFiles,
    /// The first write error.
    error: Option<String>,
}

impl Tracer {
    /// Writes traces to this file, or to standard error, with source lines of the command line's
    /// program.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn new(path: Option<&Path>, program: &ir::Program) -> Result<Tracer, String> {
        let made = path.map(|path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), BufWriter::new(file))),
            Err(error) => Err(format!("cannot make {}: {error}", path.display())),
        });
        Ok(Tracer {
            file: made.transpose()?,
            sources: OwnFiles::of(program),
            error: None,
        })
    }

    /// Shows a trace.
    pub(super) fn show(&mut self, device: &Device, traced: &TracedPacket, line: &mut LiveLine) {
        if !Arc::ptr_eq(&traced.program, device.program()) {
            let at = amount::time(traced.time.into());
            return line.note(&format!(
                "traced by worker {} at {at}, by the program before this one: its trace cannot be told any more",
                traced.worker
            ));
        }
        let sources = &self.sources;
        let trace = PacketTrace::new(
            device.configuration(),
            (traced.port.0, &traced.bytes),
            &traced.events,
            &|file| sources.read(file),
        );
        let trace = trace.without_middle_rounds();
        let Some((path, file)) = &mut self.file else {
            let at = amount::time(traced.time.into());
            let head = match traced.plane {
                TracedPlane::Software => format!("traced by worker {} at {at}:", traced.worker),
                TracedPlane::Nic => {
                    format!("traced in the NIC before worker {} at {at}:", traced.worker)
                }
            };
            let text = trace.text(out::colours());
            return line.note(&format!("{head}\n{}", text.trim_end()));
        };
        let live = WorkerPacket {
            plane: traced.plane.name(),
            worker: traced.worker,
            time_ns: traced.time.0,
        };
        let written = trace.json_line(live).and_then(|json| {
            let written = writeln!(file, "{json}").and_then(|()| file.flush());
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))
        });
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    /// A trace could not be written.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.error.take().map_or(Ok(()), Err)
    }
}
