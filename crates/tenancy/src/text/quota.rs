//! Quotas: `entries=10000`, `packets=2000000/256`.

use std::num::NonZeroU64;
use std::time::Duration;

use exec::WorkBudget;

use crate::quota::{Quotas, Rate};
use crate::text::TextError;

const SETTING: &str = "a quota: entries=N, state-bytes=N, stages=N, work=N, text-bytes=N, compile-ms=N, compile-bytes=N, packets=N[/BURST], passes=N[/BURST], cycles=N[/BURST] or weight=N";

/// A quota with its texts for users.
struct Setting {
    name: &'static str,
    /// Syntax of the setting.
    wanted: &'static str,
    /// Unit of the value.
    unit: &'static str,
}

const SETTINGS: &[Setting] = &[
    Setting {
        name: "entries",
        wanted: "entries=N, a number of entries; 0 is for none",
        unit: "entries of tables, profiles, value sets, groups and sessions",
    },
    Setting {
        name: "state-bytes",
        wanted: "state-bytes=N, bytes of state; 0 is for none",
        unit: "bytes of counters, meters, registers and tables that packets write",
    },
    Setting {
        name: "stages",
        wanted: "stages=N, the program's stages, at least 1",
        unit: "stages of the program",
    },
    Setting {
        name: "work",
        wanted: "work=N, units that a packet may do, 256 to 65536",
        unit: "units of work a packet",
    },
    Setting {
        name: "text-bytes",
        wanted: "text-bytes=N, bytes of a program's text, at least 1",
        unit: "bytes of a program's text as it is sent: P4, or the IR that `polyplane` makes of it",
    },
    Setting {
        name: "compile-ms",
        wanted: "compile-ms=N, milliseconds to compile and load a program, at least 1",
        unit: "milliseconds to compile and load a program",
    },
    Setting {
        name: "compile-bytes",
        wanted: "compile-bytes=N, bytes of memory to compile and load a program, at least 1",
        unit: "bytes of memory to compile and load a program",
    },
    Setting {
        name: "packets",
        wanted: "packets=N or packets=N/BURST, packets a second and how many at once, each at least 1; to let none in, suspend the vPDP",
        unit: "packets",
    },
    Setting {
        name: "passes",
        wanted: "passes=N or passes=N/BURST, passes of packets that start over, a second and how many at once, each at least 1",
        unit: "passes of packets that start over,",
    },
    Setting {
        name: "cycles",
        wanted: "cycles=N or cycles=N/BURST, processor cycles a second and how many at once, each at least 1",
        unit: "processor cycles",
    },
    Setting {
        name: "weight",
        wanted: "weight=N, a share of a processor beside others' weights, at least 1; 1 unless it is said",
        unit: "parts of a processor that has too much to do, beside others' weights",
    },
];

impl Quotas {
    /// Parses settings, each of another quota. A missing quota means no limit. The default burst
    /// size of a rate is a hundredth of the rate.
    ///
    /// # Errors
    /// The first setting that is invalid or a duplicate.
    pub fn read<'t>(settings: impl IntoIterator<Item = &'t str>) -> Result<Quotas, TextError> {
        let mut quotas = Quotas::default();
        let mut seen = Vec::new();
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let known = Setting::find(name).ok_or_else(|| TextError::at(setting, SETTING))?;
            if seen.contains(&name) {
                return Err(TextError::at(setting, "a quota that is not set before"));
            }
            seen.push(name);
            let set = quotas.set(name, value);
            set.ok_or_else(|| TextError::at(setting, known.wanted))?;
        }
        Ok(quotas)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "entries" => self.limits.entries = Some(value.parse().ok()?),
            "state-bytes" => self.limits.state_bytes = Some(value.parse().ok()?),
            "stages" => self.limits.stages = Some(some(value)?),
            "work" => self.limits.work = Some(WorkBudget::new(value.parse().ok()?)?),
            "text-bytes" => self.compile.text_bytes = Some(some(value)?.try_into().ok()?),
            "compile-ms" => self.compile.time = Some(Duration::from_millis(some(value)?)),
            "compile-bytes" => self.compile.bytes = Some(some(value)?),
            "packets" => self.packets = Some(rate(value)?),
            "passes" => self.passes = Some(rate(value)?),
            "cycles" => self.cycles = Some(rate(value)?),
            "weight" => self.weight = some(value)?.try_into().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// Returns a setting, as it can be given again, and its meaning in parentheses. An unknown
    /// setting is returned unchanged: another release may know it.
    pub fn told(setting: &str) -> String {
        let known = setting.split_once('=').and_then(|(name, value)| {
            let Setting { unit, .. } = Setting::find(name)?;
            Some(match value.split_once('/') {
                None => format!("{setting} ({value} {unit})"),
                Some((rate, burst)) => {
                    format!("{setting} ({rate} {unit} a second, {burst} at once)")
                }
            })
        });
        known.unwrap_or_else(|| setting.to_owned())
    }

    /// Returns the settings in the format of [`Quotas::read`].
    pub fn settings(&self) -> Vec<String> {
        let limits = [
            ("entries", self.limits.entries),
            ("state-bytes", self.limits.state_bytes),
            ("stages", self.limits.stages),
            ("work", self.limits.work.map(|work| work.units().into())),
        ];
        let compile = [
            (
                "text-bytes",
                self.compile.text_bytes.map(|bytes| bytes as u64),
            ),
            (
                "compile-ms",
                self.compile.time.map(|time| time.as_millis() as u64),
            ),
            ("compile-bytes", self.compile.bytes),
        ];
        let rates = [
            ("packets", self.packets),
            ("passes", self.passes),
            ("cycles", self.cycles),
        ];
        let limits = limits
            .into_iter()
            .chain(compile)
            .filter_map(|(name, limit)| Some(format!("{name}={}", limit?)));
        let rates = rates.into_iter().filter_map(|(name, rate)| {
            let Rate { per_second, burst } = rate?;
            Some(format!("{name}={per_second}/{burst}"))
        });
        let weight = (self.weight != 0).then(|| format!("weight={}", self.weight));
        limits.chain(rates).chain(weight).collect()
    }
}

impl Setting {
    fn find(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }
}

/// Parses a non-zero number.
fn some(text: &str) -> Option<u64> {
    text.parse::<NonZeroU64>().ok().map(NonZeroU64::get)
}

/// Parses `RATE` or `RATE/BURST`. 0 is refused: the rate limiter would use 1 instead.
fn rate(text: &str) -> Option<Rate> {
    let (per_second, burst) = match text.split_once('/') {
        None => (some(text)?, None),
        Some((per_second, burst)) => (some(per_second)?, Some(some(burst)?)),
    };
    let hundredth = (per_second / 100).max(1);
    Some(Rate {
        per_second,
        burst: burst.unwrap_or(hundredth),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_shown_as_they_can_be_read() {
        let settings = [
            "entries=10",
            "state-bytes=4096",
            "stages=8",
            "work=1000",
            "text-bytes=65536",
            "compile-ms=500",
            "compile-bytes=1048576",
            "packets=1000/5",
            "passes=2000/20",
            "cycles=1000000/1",
            "weight=3",
        ];
        let quotas = Quotas::read(settings).expect("they are fine");
        assert_eq!(quotas.settings(), settings);
        assert_eq!(Quotas::read([]).map(|none| none.settings()), Ok(Vec::new()));
        let rates = Quotas::read(["packets=5000", "passes=1"]).expect("they are fine");
        assert_eq!(rates.settings(), ["packets=5000/50", "passes=1/1"]);
    }

    #[test]
    fn each_setting_is_told_with_its_unit() {
        let cases = [
            ("entries=10", "entries=10 (10 entries of tables"),
            ("text-bytes=9", "text-bytes=9 (9 bytes of a program's text"),
            ("compile-ms=5", "compile-ms=5 (5 milliseconds"),
            ("packets=7/2", "7 packets a second, 2 at once"),
            ("speed=9", "speed=9"),
        ];
        for (setting, part) in cases {
            let told = Quotas::told(setting);
            assert!(told.contains(part), "{told}");
        }
        // All settings that are shown have a unit.
        for Setting { name, .. } in SETTINGS {
            let set = Quotas::read([format!("{name}=300").as_str()]).expect(name);
            assert_ne!(Quotas::told(&set.settings()[0]), set.settings()[0]);
        }
    }

    #[test]
    fn a_quota_of_nothing_is_refused_but_where_none_makes_sense() {
        let none = Quotas::read(["entries=0", "state-bytes=0"]).expect("they are fine");
        assert_eq!(none.settings(), ["entries=0", "state-bytes=0"]);
        let refused = [
            "stages=0",
            "work=0",
            "text-bytes=0",
            "compile-ms=0",
            "compile-bytes=0",
            "packets=0",
            "packets=9/0",
            "packets=0/9",
            "passes=0",
            "cycles=0",
            "weight=0",
        ];
        for setting in refused {
            let error = Quotas::read([setting]).expect_err(setting).to_string();
            let (name, _) = setting.split_once('=').unwrap();
            assert!(
                error.starts_with(&format!("`{setting}` is not {name}=N"))
                    && (error.contains("at least 1") || error.contains("256 to 65536")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_setting_that_is_none_is_named() {
        let cases: &[&[&str]] = &[
            &["entries"],
            &["entries=many"],
            &["stages=1", "speed=9"],
            &["packets=1/"],
            &["weight=-1"],
            &["work=255"],
            &["work=65537"],
            &["stages=1", "stages=2"],
        ];
        for settings in cases {
            let at = Quotas::read(settings.iter().copied()).map_err(|error| error.at);
            assert_eq!(at, Err((*settings.last().unwrap()).to_owned()));
        }
    }
}
