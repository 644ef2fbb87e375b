//! Arguments that several commands share.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use driver::FileSystem;
use port::PortDriver;
use support::read::{ReadError, read_file};

/// A P4 program and how to preprocess it.
#[derive(Args, Clone)]
pub struct Source {
    /// The P4_16 program. Or several as one: a policy in a file NAME.policy, or typed, as in
    /// 'l3_sw.p4 -> fw.p4' (docs/reference/policy.md).
    #[arg(value_name = "PROGRAM.p4")]
    pub program: PathBuf,
    /// C code of the program's handlers, if it is not in the program (docs/reference/clip-c.md).
    #[arg(long = "c", value_name = "FILE.c")]
    pub c_file: Option<PathBuf>,
    /// Options of the preprocessor.
    #[command(flatten)]
    pub preprocess: Preprocess,
}

impl Source {
    /// Returns a source of one program file without preprocessor options.
    pub fn file(program: &Path) -> Source {
        Source {
            program: program.to_path_buf(),
            c_file: None,
            preprocess: Preprocess::default(),
        }
    }

    /// Returns true if the source is a chain of programs.
    pub fn is_chain(&self) -> bool {
        driver::is_policy(&self.program)
    }

    /// Returns the name of the program.
    pub fn name(&self) -> String {
        driver::program_name(&self.program)
    }

    /// Returns the capability to read the program and the files that it includes.
    pub fn files(&self) -> FileSystem {
        FileSystem {
            include_dirs: self.preprocess.include.clone(),
        }
    }

    /// Returns the program for the compiler.
    pub fn program<'s>(&'s self, files: &'s FileSystem) -> driver::Source<'s> {
        driver::Source::File {
            path: &self.program,
            files,
        }
    }

    /// Returns the options of the compiler.
    pub fn options(&self) -> driver::Options {
        let define = |text: &String| match text.split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => (text.clone(), "1".to_string()),
        };
        driver::Options {
            defines: self.preprocess.define.iter().map(define).collect(),
            undefs: self.preprocess.undefine.clone(),
        }
    }
}

/// Options of the preprocessor.
#[derive(Args, Clone, Default)]
pub struct Preprocess {
    /// Look for included files here first; the architectures' own files (core.p4, v1model.p4,
    /// psa.p4, pna.p4, ...) are built in.
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro (value 1 when none is given).
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
    /// Undefine a macro.
    #[arg(short = 'U', value_name = "NAME")]
    pub undefine: Vec<String>,
}

/// Configuration of a device.
#[derive(Args, Clone)]
pub struct Setup {
    /// Table entries and other configuration (docs/reference/entries.md).
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,
    /// A port on the host's side, for PNA programs; all others are on the network's. Give one for
    /// each.
    #[arg(long = "host-port", value_name = "NUMBER")]
    pub host_ports: Vec<u32>,
    /// Seed of the program's random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Maximum number of workers.
pub const MAX_WORKERS: i64 = 64;

/// Limits on the size of files in bytes, so that an endless file does not fill the memory. The
/// limits of program files, policies and topologies are [`syntax::files::MAX_FILE_BYTES`],
/// [`driver::MAX_POLICY_BYTES`] and [`fabric::topology::MAX_FILE_BYTES`].
pub mod limits {
    /// An entries file.
    pub const ENTRIES: u64 = 256 << 20;
    /// A program that is read as one text.
    pub const PROGRAM: u64 = 2 << 20;
    /// An STF test.
    pub const STF: u64 = 64 << 20;
    /// C code of handlers.
    pub const C_CODE: u64 = 16 << 20;
    /// A P4Info or a device config.
    pub const CONFIG: u64 = 64 << 20;
    /// A certificate or a key.
    pub const CERTIFICATE: u64 = 1 << 20;
    /// An exported virtual data plane.
    pub const EXPORTED: u64 = 1 << 30;
}

/// Reads the bytes of an input file.
///
/// # Errors
/// The file cannot be read, or is larger than the limit.
pub fn read(file: &Path, limit: u64) -> Result<Vec<u8>, String> {
    read_file(file, limit).map_err(|error| unread(file, &error))
}

/// Reads the text of an input file.
///
/// # Errors
/// As for [`read`], and if the file is not text.
pub fn read_text(file: &Path, limit: u64) -> Result<String, String> {
    support::read::read_text(file, limit).map_err(|error| unread(file, &error))
}

/// Formats the message for a file that could not be read.
pub fn unread(file: &Path, error: &ReadError) -> String {
    let file = file.display();
    match error {
        ReadError::NotText => format!("{file} is not a text file"),
        ReadError::System(_) | ReadError::TooLarge(_) => format!("cannot read {file}: {error}"),
    }
}

/// Output format of diagnostics.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON array, for editors.
    Json,
}

/// Packet I/O of ports on interfaces.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Io {
    /// The fastest driver that is available and leaves the machine its own traffic.
    #[default]
    Auto,
    /// By AF_XDP: the interface's frames go to the switch and not to the machine. Needs root.
    Xdp,
    /// By AF_PACKET: the machine receives the frames, too.
    Packet,
}

impl From<Io> for PortDriver {
    fn from(io: Io) -> PortDriver {
        match io {
            Io::Auto => PortDriver::Auto,
            Io::Xdp => PortDriver::Xdp,
            Io::Packet => PortDriver::Packet,
        }
    }
}
