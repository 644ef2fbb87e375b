//! `polyplane nanopu image`: a rule set as classifier image.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use generators::{FiveTuple, Kind, Pattern, RuleSet, Spread};
use support::count::count;
use table::{
    ActionRef, EntryAction, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry, Table, TableSpec,
};

use crate::{Ended, out};

/// Bytes of a file of rules, at most.
const MAX_RULES_BYTES: u64 = 1 << 30;

#[derive(Args)]
#[command(
    after_help = "A rule is a line of ClassBench's filter format, the first that matches wins:\n  \
                  @192.0.2.0/24 198.51.100.7/32 0 : 65535 80 : 80 0x06/0xFF\n\n\
                  The result of a search is the number of the rule, from 0. docs/reference/classifier-image.md has the layout."
)]
pub(super) struct Options {
    /// The rules, in ClassBench's filter format.
    #[arg(long, value_name = "FILE", required_unless_present = "kind")]
    rules: Option<PathBuf>,
    /// Generate the rules instead.
    #[arg(long, value_enum, conflicts_with = "rules")]
    kind: Option<RuleKind>,
    /// With --kind: number of rules.
    #[arg(long, default_value_t = 1000, requires = "kind", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// With --kind: seed.
    #[arg(long, default_value_t = 1, requires = "kind")]
    seed: u64,
    /// Print a key of each of the first N rules, as `--payload` takes it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    keys: usize,
    /// File to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Kind of generated rules.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleKind {
    /// Access control: long prefixes on both sides.
    Acl,
    /// Firewalls: often a wildcard on one side.
    Fw,
    /// IP chains: prefixes of medium length, ports on either side.
    Ipc,
}

impl RuleKind {
    fn kind(self) -> Kind {
        match self {
            Self::Acl => Kind::Acl,
            Self::Fw => Kind::Fw,
            Self::Ipc => Kind::Ipc,
        }
    }
}

pub(super) fn write_image(options: &Options) -> Result<Ended, String> {
    let set = match (&options.rules, options.kind) {
        (Some(path), _) => {
            let text = command::args::read_text(path, MAX_RULES_BYTES)?;
            RuleSet::read(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
        (None, Some(kind)) => RuleSet::generate(
            kind.kind(),
            Spread::Scaled,
            options.count as usize,
            options.seed,
        ),
        (None, None) => return Err("rules are missing: give --rules or --kind".to_owned()),
    };
    let table = table_of(&set)?;
    let image = table
        .classifier_image()
        .map_err(|error| error.to_string())?;
    std::fs::write(&options.out, &image)
        .map_err(|error| format!("cannot write {}: {error}", options.out.display()))?;
    let mut chance = support::rng::Rng::new(options.seed);
    for rule in set.rules().iter().take(options.keys) {
        let key = rule.random_header(&mut chance);
        let key: String = key.iter().map(|limb| format!("{limb:016x}")).collect();
        out::line(&key);
    }
    out::note(&format!(
        "{}: {}, {} bytes",
        options.out.display(),
        count(set.rules().len() as u64, "rule"),
        image.len()
    ));
    Ok(Ended::Well)
}

/// Returns a table in which the entry of a rule has the number of the rule.
fn table_of(set: &RuleSet) -> Result<Table, String> {
    let shape = KeyShape::new(FiveTuple::ANY.patterns().map(|it| field_of(it).0));
    let action = EntryAction::Direct(ActionRef {
        action: 0,
        params: [].into(),
    });
    let spec = TableSpec::new(shape, set.rules().len().max(1));
    let mut table = Table::new(spec, action.clone());
    for (priority, rule) in set.prioritized() {
        let matches = rule.patterns().map(|it| field_of(it).1);
        let entry = NewEntry {
            priority: Some(priority),
            ..NewEntry::new(matches.into(), action.clone())
        };
        table.insert(entry, 0).map_err(|error| error.to_string())?;
    }
    Ok(table)
}

fn field_of(pattern: Pattern) -> (KeyField, FieldMatch) {
    let width = pattern.width();
    let (kind, matched) = match pattern {
        Pattern::Prefix { value, len } => {
            let prefix_len = len;
            (MatchKind::Lpm, FieldMatch::Lpm { value, prefix_len })
        }
        Pattern::Ternary { value, mask } => {
            (MatchKind::Ternary, FieldMatch::Ternary { value, mask })
        }
        Pattern::Range { lo, hi } => (MatchKind::Range, FieldMatch::Range { lo, hi }),
    };
    (KeyField { width, kind }, matched)
}
