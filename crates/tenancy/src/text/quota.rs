//! Quotas: `entries=10000`, `packets=2000000/256`.

use std::time::Duration;

use exec::WorkBudget;

use crate::quota::{Quotas, Rate};
use crate::text::TextError;

const SETTING: &str = "a quota: entries=N, state-bytes=N, stages=N, work=N (units of a packet, 256 to 65536), text-bytes=N, compile-ms=N, packets=N[/BURST], passes=N[/BURST], cycles=N[/BURST] or weight=N";

impl Quotas {
    /// Reads settings, each of another quota; what is not set is not limited. A rate is so many a second, a hundredth of which may come at once unless it
    /// says how many.
    ///
    /// # Errors
    /// The first setting that is none, or that is there twice.
    pub fn read<'t>(settings: impl IntoIterator<Item = &'t str>) -> Result<Quotas, TextError> {
        let mut quotas = Quotas::default();
        let mut seen = Vec::new();
        for setting in settings {
            let wrong = || TextError::at(setting, SETTING);
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            if seen.contains(&name) {
                return Err(TextError::at(setting, "a quota that is not set before"));
            }
            seen.push(name);
            quotas.set(name, value).ok_or_else(wrong)?;
        }
        Ok(quotas)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u64>().ok();
        match name {
            "entries" => self.limits.entries = Some(number()?),
            "state-bytes" => self.limits.state_bytes = Some(number()?),
            "stages" => self.limits.stages = Some(number()?),
            "work" => self.limits.work = Some(WorkBudget::new(value.parse().ok()?)?),
            "text-bytes" => self.compile.text_bytes = Some(value.parse().ok()?),
            "compile-ms" => self.compile.time = Some(Duration::from_millis(number()?)),
            "packets" => self.packets = Some(rate(value)?),
            "passes" => self.passes = Some(rate(value)?),
            "cycles" => self.cycles = Some(rate(value)?),
            "weight" => self.weight = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// The settings, as [`Quotas::read`] reads them.
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

fn rate(text: &str) -> Option<Rate> {
    let (per_second, burst): (u64, Option<u64>) = match text.split_once('/') {
        None => (text.parse().ok()?, None),
        Some((per_second, burst)) => (per_second.parse().ok()?, Some(burst.parse().ok()?)),
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
