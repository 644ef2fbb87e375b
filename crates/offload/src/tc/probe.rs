//! A question to the kernel: does the driver of an interface take rules?

use super::cookie::cookie;
use super::rule::{Action, Field, FlowerRule, Key, RulePlanes};
use super::session::{RulePlace, Session, TcError};
use crate::target::RuleId;

/// Number of the rule. Owners give none this number, so a rule that is left is a stray.
const RULE: RuleId = RuleId(0);

/// EtherType for local experiments (IEEE 802, number 1). With an address of zeros it is that of no
/// frame.
const ETHER_TYPE: u16 = 0x88B5;

/// Returns the reason for which an interface takes no rules in hardware; `None` if it takes them.
///
/// A rule that matches no frame is added with `skip_sw` at a priority that is free, and removed.
pub(super) fn refusal(
    session: &mut Session,
    interface: u32,
    priority: u16,
    owner: u32,
) -> Option<String> {
    let rule = FlowerRule {
        chain: 0,
        priority,
        protocol: ETHER_TYPE,
        keys: vec![Key {
            field: Field::EthDst,
            value: 0,
            mask: Field::EthDst.all(),
        }],
        actions: vec![Action::Drop],
        planes: RulePlanes::Hardware,
        cookie: cookie(owner, RULE),
    };
    match session.add(interface, &rule) {
        Ok(installed) => {
            let place = RulePlace {
                interface,
                chain: installed.rule.chain,
                priority: installed.rule.priority,
                protocol: installed.rule.protocol,
                handle: installed.handle,
            };
            // A rule that stays is found by its cookie, and is harmless.
            let _ = session.delete(place);
            None
        }
        Err(error) => Some(words_of(&error)),
    }
}

/// Error number of a driver without offload.
const EOPNOTSUPP: i32 = 95;

fn words_of(error: &TcError) -> String {
    let words = match error {
        TcError::Refused { words, .. } => words.as_deref().unwrap_or_default(),
        _ => "",
    };
    let is_missing = ["classifier not found", "filter kind not found"];
    if is_missing.iter().any(|part| words.contains(part)) {
        return "this kernel has no classifier flower (module cls_flower)".to_owned();
    }
    if error.refusal() == Some(EOPNOTSUPP) && words.is_empty() {
        return "its driver has no offload of TC flower, or it is switched off (see `ethtool -k`, \
                hw-tc-offload)"
            .to_owned();
    }
    match words.is_empty() {
        true => error.to_string(),
        false => format!("its driver refuses rules: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_kernel_or_the_driver() {
        let refused = |number, words: Option<&str>| TcError::Refused {
            doing: "adding a rule",
            source: std::io::Error::from_raw_os_error(number),
            words: words.map(str::to_owned),
        };
        for (error, part) in [
            (refused(2, Some("TC classifier not found")), "cls_flower"),
            (refused(EOPNOTSUPP, None), "hw-tc-offload"),
            (
                refused(EOPNOTSUPP, Some("no room for keys")),
                "refuses rules: no room for keys",
            ),
            (refused(1, None), "the kernel refuses it"),
        ] {
            let words = words_of(&error);
            assert!(words.contains(part), "{words}");
        }
    }
}
