//! `polyplane reflex show`, `watch`, `kv`, `set`, `reload` and `replace`: a running plane by its
//! control socket.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use port::Poller;
use reflex_runtime::{ControlClient, KeyOperation};
use runtime::ProcessSetup;
use serde_json::json;

use super::show;
use crate::{Ended, out};

/// Address of a running plane.
#[derive(Args)]
struct Plane {
    /// The UNIX socket of a running plane (`polyplane reflex run --control PATH`).
    #[arg(long, value_name = "PATH", global = true, required = false)]
    control: Option<PathBuf>,
}

impl Plane {
    fn connect(&self) -> Result<ControlClient, String> {
        let missing = "add --control PATH, the path that the plane was started with";
        let path = self.control.as_deref().ok_or(missing)?;
        ControlClient::connect(path).map_err(|error| error.to_string())
    }
}

#[derive(Args)]
pub(super) struct ShowOptions {
    #[command(flatten)]
    plane: Plane,
    /// Write JSON: nodes, counts, and all decisions.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct WatchOptions {
    #[command(flatten)]
    plane: Plane,
    /// Write JSON: an event a line.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Each operation is committed by a majority of the store's nodes before it is answered. Exit status: 0, also for a key without a value; 1 if the \
                  operation was refused, the key differs, or the outcome is not known."
)]
pub(super) struct KeyOptions {
    #[command(flatten)]
    plane: Plane,
    /// Write JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    operation: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Print the value of a key.
    Get {
        /// The key, of at most 16 bytes.
        key: String,
    },
    /// Set a key.
    Put {
        /// The key, of at most 16 bytes.
        key: String,
        /// The value, of at most 64 bytes.
        value: String,
        /// Set it only if the key has this value.
        #[arg(long, value_name = "VALUE", conflicts_with = "if_absent")]
        if_value: Option<String>,
        /// Set it only if the key has no value.
        #[arg(long)]
        if_absent: bool,
    },
    /// Remove a key.
    Delete {
        /// The key.
        key: String,
    },
}

#[derive(Args)]
#[command(
    after_help = "The program keeps its tables, registers, counters and meters; one that would lose some is refused, and its entries file is not read again. The \
                  plane takes reports while it is compiled. The compiler's errors and warnings are shown here."
)]
pub(super) struct ReloadOptions {
    #[command(flatten)]
    plane: Plane,
    /// The monitor: one that is a P4 program.
    monitor: String,
}

pub(super) fn reload(options: &ReloadOptions) -> Result<Ended, String> {
    let loaded = options.plane.connect()?.reload(&options.monitor);
    let diagnostics = loaded.map_err(|error| error.to_string())?;
    if !diagnostics.is_empty() {
        out::note(&diagnostics);
    }
    out::note(&format!("{}: its program is loaded again", options.monitor));
    Ok(Ended::Well)
}

#[derive(Args)]
#[command(
    after_help = "Start NEW before, by `polyplane reflex member LOOPS.toml --name NEW`; it is one of the `spares` of the file, and was never started elsewhere. It \
                  gets the log, then votes, then OLD is no member any more: stop it. Ask the process that leads. A replacement that was interrupted is asked for \
                  again."
)]
pub(super) struct ReplaceOptions {
    #[command(flatten)]
    plane: Plane,
    /// The node of the store that leaves.
    old: String,
    /// The node that takes its place.
    new: String,
}

#[derive(Args)]
#[command(
    after_help = "Without a name, print the settings with their values in the store. A setting in the store overrides the loop file's at all planes of the store, one \
                  heartbeat after their node applied it, until it is reset."
)]
pub(super) struct SetOptions {
    #[command(flatten)]
    plane: Plane,
    /// Write JSON.
    #[arg(long)]
    json: bool,
    /// The setting, as in "monitor/slow paths/above".
    name: Option<String>,
    /// Its value, as in the loop file.
    value: Option<String>,
    /// Give it the value of the loop file again.
    #[arg(long, requires = "name", conflicts_with = "value")]
    reset: bool,
}

pub(super) fn set(options: &SetOptions) -> Result<Ended, String> {
    let mut client = options.plane.connect()?;
    let Some(name) = &options.name else {
        let settings = client.settings().map_err(|error| error.to_string())?;
        match options.json {
            true => out::json(&settings),
            false => {
                for (name, value) in settings.as_object().into_iter().flatten() {
                    out::line(&match value.as_str() {
                        Some(value) => format!("{name}: {value}"),
                        None => format!("{name}: as in the loop file"),
                    });
                }
            }
        }
        return Ok(Ended::Well);
    };
    if options.value.is_none() && !options.reset {
        return Err(format!("give {name} a value, or --reset"));
    }
    let set = client.set(name, options.value.as_deref());
    set.map_err(|error| error.to_string())?;
    if options.json {
        out::json_line(&json!({ "done": true }));
    }
    Ok(Ended::Well)
}

pub(super) fn replace(options: &ReplaceOptions) -> Result<Ended, String> {
    let replaced = options.plane.connect()?.replace(&options.old, &options.new);
    replaced.map_err(|error| error.to_string())?;
    out::note(&format!(
        "node {} votes, and node {} is no member any more",
        options.new, options.old
    ));
    Ok(Ended::Well)
}

pub(super) fn show(options: &ShowOptions) -> Result<Ended, String> {
    let state = options.plane.connect()?.show();
    let state = state.map_err(|error| error.to_string())?;
    match options.json {
        true => out::json(&state),
        false => out::text(&show::state_text(&state)),
    }
    Ok(Ended::Well)
}

pub(super) fn watch(options: &WatchOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let mut client = options.plane.connect()?;
    client.watch().map_err(|error| error.to_string())?;
    let mut poller = Poller::new();
    loop {
        if !client.has_event() {
            let fds = early.signal_fd().into_iter().chain([client.fd()]);
            let waited = poller.wait(fds, Duration::from_secs(1));
            let ready = waited.map_err(|error| format!("cannot wait: {error}"))?;
            if early.take_signal().is_some() {
                return Ok(Ended::Well);
            }
            if ready == 0 {
                continue;
            }
        }
        let event = client.next_event().map_err(|error| error.to_string())?;
        let Some(event) = event else {
            return Ok(Ended::Well);
        };
        let is_read = match options.json {
            true => out::try_line(&event.to_string()),
            false => out::try_line(&show::event_text(&event)),
        };
        if !is_read {
            return Ok(Ended::Well);
        }
    }
}

pub(super) fn key(options: &KeyOptions) -> Result<Ended, String> {
    let (operation, is_read) = match &options.operation {
        KeyCommand::Get { key } => (KeyOperation::Get(key.clone()), true),
        KeyCommand::Put {
            key,
            value,
            if_value: None,
            if_absent: false,
        } => (KeyOperation::Put(key.clone(), value.clone()), false),
        KeyCommand::Put {
            key,
            value,
            if_value,
            ..
        } => {
            let (key, value) = (key.clone(), value.clone());
            let operation = KeyOperation::CompareAndSet(key, if_value.clone(), value);
            (operation, false)
        }
        KeyCommand::Delete { key } => (KeyOperation::Delete(key.clone()), false),
    };
    operation.operation()?;
    let value = options.plane.connect()?.operate(operation);
    let value = value.map_err(|error| error.to_string())?;
    match (options.json, is_read) {
        (true, true) => out::json_line(&json!({ "value": value })),
        (true, false) => out::json_line(&json!({ "done": true })),
        (false, true) => match value {
            Some(value) => out::line(&value),
            None => out::note("the key has no value"),
        },
        (false, false) => {}
    }
    Ok(Ended::Well)
}
