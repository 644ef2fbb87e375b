//! `--config FILE`: options of a switch in a TOML file, and `polyplane config`, which checks such a
//! file and starts its command.
//!
//! The options are those of the command line, by their definitions there: a file becomes words of
//! the command line, which are then parsed as if they were typed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args, Command, CommandFactory, Subcommand};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use toml_file::{FileError, FileMistake, Mistakes, Spanned, nearest_name, parse};

use crate::args::read_text;

/// Commands that take `--config`.
pub(crate) const COMMANDS: [&str; 3] = ["run", "serve", "host"];

/// Key of the command that a file is for.
const COMMAND: &str = "command";

/// Hint of mistakes in a file.
const HINT: &str = "docs/reference/config-file.md describes the file";

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Option that names the file.
#[derive(Args)]
pub(crate) struct ConfigOption {
    /// Read options from this TOML file: each under its name, as in `port = ["0=eth0"]`. Options of
    /// the command line take the place of those of the file (docs/reference/config-file.md).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigOption {
    /// Returns the options of the file as they are now, with which later ones can be compared; none
    /// without a file. `command` is the command that they are for.
    ///
    /// # Errors
    /// The mistakes of the file.
    pub(crate) fn watch(&self, command: &'static str) -> Result<Option<ConfigWatch>, String> {
        let Some(path) = &self.config else {
            return Ok(None);
        };
        let typed: Vec<OsString> = std::env::args_os().collect();
        let (path, begun) = (path.clone(), BTreeMap::new());
        let mut watch = ConfigWatch {
            command,
            path,
            typed,
            begun,
        };
        watch.begun = watch.read()?;
        Ok(Some(watch))
    }
}

/// The options of a file with which a switch has begun.
pub(crate) struct ConfigWatch {
    command: &'static str,
    path: PathBuf,
    /// The command line.
    typed: Vec<OsString>,
    /// Words of the command line by key, for the options that the command line does not have.
    begun: BTreeMap<String, Vec<OsString>>,
}

impl ConfigWatch {
    fn read(&self) -> Result<BTreeMap<String, Vec<OsString>>, String> {
        let cli = crate::Cli::command();
        let file = ConfigFile::read(&cli, &self.path, Some(self.command))?;
        let own = file.untyped(&cli, &self.typed).into_iter();
        Ok(own
            .map(|setting| (setting.key.clone(), setting.words.clone()))
            .collect())
    }

    /// Reads the file again. Returns the keys of the options that have changed, in a sentence.
    ///
    /// # Errors
    /// The mistakes of the file.
    pub(crate) fn changed(&self) -> Result<Option<String>, String> {
        let now = self.read()?;
        let keys: BTreeSet<&String> = self.begun.keys().chain(now.keys()).collect();
        let changed = keys
            .into_iter()
            .filter(|key| self.begun.get(*key) != now.get(*key));
        let changed: Vec<String> = changed.map(|key| format!("`{key}`")).collect();
        let file = self.path.display();
        let has = if changed.len() == 1 { "has" } else { "have" };
        Ok((!changed.is_empty()).then(|| {
            let keys = changed.join(", ");
            format!("{keys} of {file} {has} changed: restart the switch to use that")
        }))
    }
}

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Check a file: its options, and the programs, entries and certificates that they name.
    /// Nothing is started.
    #[command(after_help = "Exit status: 0 for a file without errors, 78 otherwise.")]
    Check(FileArgument),
    /// Run the command of a file: its key `command` is run, serve or host.
    Start(FileArgument),
}

/// Argument of the file.
#[derive(Args)]
pub(crate) struct FileArgument {
    /// The file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Value of an option in a file.
#[derive(Clone, Debug, PartialEq)]
enum OptionValue {
    Flag(bool),
    /// A text or a number, as it stands on the command line.
    One(String),
    Several(Vec<String>),
}

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionValue, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = OptionValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false, or a list of texts and numbers")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<OptionValue, E> {
                Ok(OptionValue::Flag(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<OptionValue, E> {
                Ok(OptionValue::One(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<OptionValue, E> {
                Ok(OptionValue::One(value.to_string()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<OptionValue, E> {
                Ok(OptionValue::One(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OptionValue, A::Error> {
                let mut all = Vec::new();
                while let Some(value) = seq.next_element::<OptionValue>()? {
                    match value {
                        OptionValue::One(value) => all.push(value),
                        _ => return Err(A::Error::custom("a list has texts and numbers only")),
                    }
                }
                Ok(OptionValue::Several(all))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// An option of a file.
#[derive(Clone, Debug)]
struct Setting {
    key: String,
    line: usize,
    /// Name of the option as error messages write it.
    flag: String,
    /// Id of the argument in its definition.
    id: String,
    words: Vec<OsString>,
}

/// A file of options.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    command: Option<String>,
    settings: Vec<Setting>,
}

/// Returns the name of an option in a file: its long name, or else what its value is.
fn key_of(arg: &Arg) -> String {
    let long = arg.get_long().map(str::to_owned);
    long.unwrap_or_else(|| arg.get_id().as_str().replace('_', "-"))
}

fn is_setting(arg: &Arg) -> bool {
    !matches!(arg.get_id().as_str(), "config" | "help" | "version")
}

/// Returns true if the option may be given several times.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Returns the words by which a value stands on the command line.
///
/// # Errors
/// The value has another form than the option takes.
fn words_of(arg: &Arg, value: OptionValue) -> Result<Vec<OsString>, &'static str> {
    let values = match value {
        OptionValue::Flag(is_set) if is_flag(arg) => {
            let flag = format!("--{}", key_of(arg));
            return Ok(is_set.then(|| flag.into()).into_iter().collect());
        }
        _ if is_flag(arg) => return Err("takes true or false"),
        OptionValue::Flag(_) => return Err("takes a value, not true or false"),
        OptionValue::One(value) => vec![value],
        OptionValue::Several(values) if is_list(arg) => values,
        OptionValue::Several(_) => return Err("takes one value"),
    };
    let words = values.into_iter().flat_map(|value| {
        match (arg.get_long(), arg.get_short()) {
            // One word, because a value may begin with a dash.
            (Some(long), _) => vec![OsString::from(format!("--{long}={value}"))],
            (None, Some(short)) => vec![format!("-{short}").into(), value.into()],
            (None, None) => vec![value.into()],
        }
    });
    Ok(words.collect())
}

/// Returns the name of an option as error messages write it.
fn flag_of(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => {
            let names = arg.get_value_names().unwrap_or_default();
            let name = names.first().map_or("", |name| name.as_str());
            format!("<{name}>")
        }
    }
}

fn wrong(path: &Path, mistakes: Vec<FileMistake>) -> String {
    let file = path.display().to_string();
    FileError { file, mistakes }.to_string()
}

impl ConfigFile {
    /// Reads a file of options. `cli` is the definition of all commands, and `named` the command of
    /// the command line, if it names one.
    ///
    /// # Errors
    /// All mistakes of the file, with their lines.
    pub(crate) fn read(
        cli: &Command,
        path: &Path,
        named: Option<&str>,
    ) -> Result<ConfigFile, String> {
        let text = read_text(path, MAX_FILE_BYTES)?;
        ConfigFile::of_text(cli, path, &text, named)
    }

    fn of_text(
        cli: &Command,
        path: &Path,
        text: &str,
        named: Option<&str>,
    ) -> Result<ConfigFile, String> {
        let parsed = parse::<BTreeMap<Spanned<String>, Spanned<OptionValue>>>(text, HINT);
        let mut mistakes = parsed.mistakes;
        let mut content = parsed.content.unwrap_or_default();
        let add = |mistakes: &mut Mistakes, at: usize, message: String, mend: String| {
            let line = mistakes.line_of(at);
            mistakes.add(FileMistake {
                line,
                message,
                mend,
            });
        };
        let key = content.keys().find(|key| key.get_ref() == COMMAND).cloned();
        let own = key.and_then(|key| content.remove(&key));
        let mut command = None;
        if let Some(own) = own {
            let at = own.span().start;
            let known = COMMANDS.join(", ");
            match own.into_inner() {
                OptionValue::One(name) if COMMANDS.contains(&name.as_str()) => {
                    if let Some(named) = named.filter(|named| *named != name) {
                        let message = format!("the file is for `polyplane {name}`");
                        let mend = format!("the command line says `{named}`");
                        add(&mut mistakes, at, message, mend);
                    }
                    command = Some(name);
                }
                OptionValue::One(name) => {
                    let message = format!("there is no command `{name}` with a file of options");
                    add(&mut mistakes, at, message, format!("commands are {known}"));
                }
                _ => {
                    let message = "`command` is a text".to_owned();
                    add(&mut mistakes, at, message, format!("commands are {known}"));
                }
            }
        }
        let name = named.or(command.as_deref());
        let Some(found) = name.and_then(|name| cli.find_subcommand(name)) else {
            if mistakes.is_empty() {
                let message = "the file has no key `command`".to_owned();
                let mend = "write `command = \"run\"`, \"serve\" or \"host\"".to_owned();
                add(&mut mistakes, 0, message, mend);
            }
            return Err(wrong(path, mistakes.into_list()));
        };
        let args: Vec<&Arg> = found
            .get_arguments()
            .filter(|arg| is_setting(arg))
            .collect();
        let keys: Vec<String> = args.iter().map(|arg| key_of(arg)).collect();
        let mut settings = Vec::new();
        for (key, value) in content {
            let (key_at, at) = (key.span().start, value.span().start);
            let key = key.into_inner();
            let Some(place) = keys.iter().position(|known| *known == key) else {
                let near = nearest_name(&key, keys.iter().map(String::as_str));
                let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
                let mend = format!(
                    "{near}`polyplane {} --help` lists the options",
                    found.get_name()
                );
                add(&mut mistakes, key_at, format!("unknown key `{key}`"), mend);
                continue;
            };
            let arg = args[place];
            match words_of(arg, value.into_inner()) {
                Ok(words) => settings.push(Setting {
                    line: mistakes.line_of(key_at),
                    flag: flag_of(arg),
                    id: arg.get_id().to_string(),
                    key,
                    words,
                }),
                Err(why) => {
                    add(&mut mistakes, at, format!("`{key}` {why}"), HINT.to_owned());
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(wrong(path, mistakes.into_list()));
        }
        settings.sort_by_key(|setting| setting.line);
        Ok(ConfigFile {
            path: path.to_path_buf(),
            command,
            settings,
        })
    }

    /// Returns the command that the file is for.
    ///
    /// # Errors
    /// It names none.
    pub(crate) fn command(&self) -> Result<&str, String> {
        self.command.as_deref().ok_or_else(|| {
            let file = self.path.display();
            format!("{file}: error: the file has no key `command`")
        })
    }

    /// Returns the words of a command line with those of the file after the name of the command.
    /// Options that the command line has are left out of the file.
    pub(crate) fn insert_into(&self, cli: &Command, words: &[OsString]) -> Vec<OsString> {
        let own = self.untyped(cli, words).into_iter();
        let own = own.flat_map(|setting| setting.words.iter().cloned());
        let (first, rest) = words.split_at(words.len().min(2));
        first
            .iter()
            .cloned()
            .chain(own)
            .chain(rest.iter().cloned())
            .collect()
    }

    /// Returns the options of the file that a command line does not have.
    fn untyped(&self, cli: &Command, words: &[OsString]) -> Vec<&Setting> {
        let lenient = cli.clone().ignore_errors(true);
        let typed = lenient.try_get_matches_from(words).ok();
        let typed = typed.as_ref().and_then(|typed| typed.subcommand());
        let is_typed = |id: &str| {
            typed.is_some_and(|(_, matches)| {
                let source = matches.try_contains_id(id).ok();
                source.is_some() && matches.value_source(id) == Some(ValueSource::CommandLine)
            })
        };
        let settings = self.settings.iter();
        settings.filter(|setting| !is_typed(&setting.id)).collect()
    }

    /// Describes an error of the command line by the place in the file that it comes from, if it
    /// comes from there.
    pub(crate) fn place(&self, error: &clap::Error) -> String {
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let is_named = |setting: &&Setting| {
            named.iter().any(|text| {
                let rest = text.strip_prefix(&setting.flag);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=', '.']))
            })
        };
        let found = self.settings.iter().find(is_named);
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nUsage:").next().unwrap_or(text).trim_end();
        let text = text
            .split("\n\nFor more information")
            .next()
            .unwrap_or(text);
        let file = self.path.display();
        match found {
            Some(Setting { line, key, .. }) => {
                format!("{file}:{line}: error: `{key}`: {text}")
            }
            None => format!("{file}: error: {text}"),
        }
    }
}

/// Returns the name of the command and the file of `--config` of a command line, if it has one.
pub(crate) fn named_file(words: &[OsString]) -> Option<(&str, PathBuf)> {
    let command = words.get(1)?.to_str()?;
    if !COMMANDS.contains(&command) {
        return None;
    }
    let mut rest = words[2..].iter().take_while(|word| *word != "--");
    while let Some(word) = rest.next() {
        if word == "--config" {
            return Some((command, rest.next()?.into()));
        }
        if let Some(file) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--config="))
        {
            return Some((command, file.into()));
        }
    }
    None
}

#[cfg(test)]
mod tests;
