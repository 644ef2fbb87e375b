//! Log of the controllers' actions on standard error, as text or as JSON.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::str::FromStr;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt as lines};

/// Log level and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbosity {
    level: LevelFilter,
    is_json: bool,
}

impl Default for Verbosity {
    fn default() -> Verbosity {
        Verbosity {
            level: LevelFilter::WARN,
            is_json: false,
        }
    }
}

impl fmt::Display for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.is_json { "json," } else { "" };
        write!(f, "{form}{}", self.level)
    }
}

impl FromStr for Verbosity {
    type Err = String;

    fn from_str(text: &str) -> Result<Verbosity, String> {
        let (level, is_json) = match text.strip_prefix("json,") {
            Some(level) => (level, true),
            None => (text, false),
        };
        let level = match level {
            "off" => LevelFilter::OFF,
            "error" => LevelFilter::ERROR,
            "warn" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            _ => return Err(format!("`{level}` is not off, error, warn, info or debug")),
        };
        Ok(Verbosity { level, is_json })
    }
}

/// True if lines are JSON. Set by [`begin`].
static IS_JSON: OnceLock<bool> = OnceLock::new();

/// Returns true if all output on standard error must be JSON.
pub fn is_json() -> bool {
    IS_JSON.get().copied().unwrap_or(false)
}

/// Log level. Set by [`begin`].
static LEVEL: OnceLock<LevelFilter> = OnceLock::new();

/// Returns true if lines of this level are logged. Commands without the option use the default.
pub fn says(level: LevelFilter) -> bool {
    level <= LEVEL.get().copied().unwrap_or(Verbosity::default().level)
}

/// Starts logging.
pub fn begin(verbosity: Verbosity) {
    // Log lines of libraries are for their authors. Lines of the command itself are always
    // written.
    let ours = Targets::new()
        .with_target("p4rt", verbosity.level)
        .with_target("polyplane", LevelFilter::INFO);
    let is_terminal = std::io::stderr().is_terminal();
    let writer = move || {
        let mut stderr = std::io::stderr();
        if is_terminal {
            // Clears the status line, which is redrawn later.
            let _ = write!(stderr, "\r\x1b[2K");
        }
        stderr
    };
    let layer = lines::layer().with_writer(writer);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match verbosity.is_json {
        true => Box::new(layer.json().flatten_event(true).with_filter(ours)),
        false => Box::new(layer.with_ansi(crate::out::colours()).with_filter(ours)),
    };
    // The first subscriber stays. A process starts logging once.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(layer));
    let _ = IS_JSON.set(verbosity.is_json);
    let _ = LEVEL.set(verbosity.level);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        for text in ["off", "error", "warn", "info", "debug", "json,info"] {
            let read: Verbosity = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        assert!("json".parse::<Verbosity>().is_err());
        assert!("loud".parse::<Verbosity>().is_err());
    }
}
