//! The owner's words for targets and for tables.

use std::fmt;
use std::str::FromStr;

use offload::Override;
use offload::model::{Faults, ModelConfig};

/// A target: `model`, `model:100` or `tc:100`, with the number of rules that it may hold at most.
#[derive(Clone, Debug)]
pub enum TargetSpec {
    /// The model NIC. Faults follow the capacity, each for a number of a thousand rules, as in
    /// `model:100,refused=500,evicted=10`.
    Model(ModelConfig),
    /// The kernel's TC flower.
    Tc(Option<u32>),
}

/// The owner's choice for a table, as in `routes=never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChoice {
    /// The table as the owner names it.
    pub name: String,
    /// Its name in the program.
    pub table: String,
    /// The choice.
    pub wanted: Override,
}

/// Words that name no target or choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

/// Names of the model's faults.
const FAULTS: &str = "refused, refused-late, not-in-hardware, dead, evicted, evicted-silently";

fn capacity(text: &str) -> Result<u32, SpecError> {
    let number = text.parse().ok().filter(|rules| *rules > 0);
    number.ok_or_else(|| SpecError(format!("`{text}` is no number of rules; write 1 or more")))
}

fn model(words: Option<&str>) -> Result<ModelConfig, SpecError> {
    let mut config = ModelConfig::default();
    for word in words.unwrap_or_default().split_terminator(',') {
        let Some((name, number)) = word.split_once('=') else {
            config.rules = capacity(word)?;
            continue;
        };
        let wrong = || SpecError(format!("`{number}` is no number of a thousand rules"));
        let number = number.parse().ok().filter(|number| *number <= 1_000);
        let number: u32 = number.ok_or_else(wrong)?;
        let Faults {
            refused,
            refused_late,
            not_in_hardware,
            dead,
            evicted,
            evicted_silently,
        } = &mut config.faults;
        let fault = match name {
            "refused" => refused,
            "refused-late" => refused_late,
            "not-in-hardware" => not_in_hardware,
            "dead" => dead,
            "evicted" => evicted,
            "evicted-silently" => evicted_silently,
            _ => {
                return Err(SpecError(format!(
                    "`{name}` is no fault of the model; write one of {FAULTS}"
                )));
            }
        };
        *fault = number;
    }
    Ok(config)
}

impl FromStr for TargetSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<TargetSpec, SpecError> {
        let (name, words) = match text.split_once(':') {
            Some((name, words)) => (name, Some(words)),
            None => (text, None),
        };
        match name {
            "model" => model(words).map(TargetSpec::Model),
            "tc" => words.map(capacity).transpose().map(TargetSpec::Tc),
            _ => Err(SpecError(format!(
                "`{name}` is no target; write model or tc, with the number of rules as in model:100"
            ))),
        }
    }
}

impl FromStr for TableChoice {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<TableChoice, SpecError> {
        let (name, wanted) = text.rsplit_once('=').unwrap_or((text, ""));
        let wanted = match wanted {
            "always" => Override::Always,
            "never" => Override::Never,
            _ => {
                return Err(SpecError(format!(
                    "`{text}` is no choice for a table; write TABLE=always or TABLE=never"
                )));
            }
        };
        Ok(TableChoice {
            name: name.to_owned(),
            table: name.to_owned(),
            wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_capacity_and_the_model_has_faults() {
        let rules = |text: &str| match text.parse() {
            Ok(TargetSpec::Model(config)) => (Some(config.rules), config.faults),
            Ok(TargetSpec::Tc(rules)) => (rules, Faults::default()),
            Err(error) => panic!("{error}"),
        };
        let none = Faults::default();
        assert_eq!(rules("model"), (Some(4_800), none));
        assert_eq!(rules("model:7"), (Some(7), none));
        assert_eq!(rules("tc"), (None, none));
        assert_eq!(rules("tc:9"), (Some(9), none));
        let (all, faults) = rules("model:7,refused=10,evicted-silently=1000");
        assert_eq!(all, Some(7));
        assert_eq!((faults.refused, faults.evicted_silently), (10, 1_000));
    }

    #[test]
    fn wrong_words_are_named_with_what_to_write() {
        for (text, part) in [
            ("nic", "model or tc"),
            ("model:0", "1 or more"),
            ("model:1,broken=2", "refused-late"),
            ("model:1,refused=1001", "1001"),
            ("tc:x", "`x`"),
        ] {
            let error = text.parse::<TargetSpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!("routes".parse::<TableChoice>().is_err());
        assert!("routes=maybe".parse::<TableChoice>().is_err());
        let choice: TableChoice = "a=b=never".parse().unwrap();
        assert_eq!((&choice.name[..], choice.wanted), ("a=b", Override::Never));
    }
}
