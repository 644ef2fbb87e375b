//! Flows as rules of flower.
//!
//! A rule may match fewer packets than its flow, never more, and makes the same frames.

mod edits;
mod keys;
mod layout;
mod structure;

use std::collections::BTreeMap;

use packet::PortId;

use super::rule::{Action, FlowerRule, RulePlanes};
use crate::flow::{Flow, NotOffloadable, Step};
use edits::Editor;
use keys::Bits;
use layout::Layout;

/// Interfaces of a switch's ports, by their indices in the kernel.
pub type Interfaces = BTreeMap<PortId, u32>;

/// Facts on which a translation may rely. The owner of the interface knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslateOptions {
    /// All IPv4 headers have version 4 and no options, all IPv6 headers have version 6 and no
    /// extension headers, and all TCP headers have at least 20 bytes (`no-ip-options`). No key of
    /// flower says so.
    pub no_ip_options: bool,
    /// Length in bytes of the shortest frame that the interface receives. An Ethernet NIC receives
    /// none below 60 bytes.
    pub shortest: u32,
    /// Length of the longest one.
    pub longest: u32,
    /// Planes that may have the rules.
    pub planes: RulePlanes,
}

impl TranslateOptions {
    /// Returns the options of an Ethernet interface with this MTU: its longest frames also have a
    /// header and a VLAN tag.
    pub fn of_mtu(mtu: u32) -> TranslateOptions {
        TranslateOptions {
            no_ip_options: false,
            shortest: 60,
            longest: mtu.saturating_add(18),
            planes: RulePlanes::Both,
        }
    }
}

impl Default for TranslateOptions {
    fn default() -> TranslateOptions {
        TranslateOptions::of_mtu(1500)
    }
}

/// Most actions of a rule in the kernel.
const MAX_ACTIONS: usize = 32;

/// Translates a flow. The rule has no priority and no cookie yet.
///
/// # Errors
/// The reason why there is no exact rule.
pub fn translate(
    flow: &Flow,
    interfaces: &Interfaces,
    options: &TranslateOptions,
) -> Result<FlowerRule, NotOffloadable> {
    if flow.length.min > options.shortest || flow.length.max < options.longest {
        return Err(refused(format!(
            "the flow depends on the frame's length ({} to {} bytes), which no key says",
            flow.length.min, flow.length.max
        )));
    }
    let bits = Bits::of(flow);
    let mut last = refused("the frame's layout is not known".to_owned());
    for layout in Layout::candidates(&bits)? {
        match rule(flow, &bits, &layout, interfaces, options) {
            Ok(rule) => return Ok(rule),
            Err(reason) => last = reason,
        }
    }
    Err(last)
}

fn rule(
    flow: &Flow,
    bits: &Bits,
    layout: &Layout,
    interfaces: &Interfaces,
    options: &TranslateOptions,
) -> Result<FlowerRule, NotOffloadable> {
    let keys = keys::keys(bits, layout, options)?;
    let mut editor = Editor::new(bits, layout, options.no_ip_options, flow);
    for step in &flow.steps {
        match step {
            Step::Edit(edit) => editor.edit(edit)?,
            Step::Output(port) => {
                let interface = interfaces
                    .get(port)
                    .ok_or_else(|| refused(format!("port {port} is no interface of the kernel")))?;
                editor.output(*interface)?;
            }
        }
    }
    let actions = finish(editor.actions);
    if actions.len() > MAX_ACTIONS {
        let count = actions.len();
        return Err(refused(format!(
            "{count} actions, the kernel has at most {MAX_ACTIONS}"
        )));
    }
    Ok(FlowerRule {
        chain: 0,
        priority: 0,
        protocol: layout.protocol(),
        keys,
        actions,
        planes: options.planes,
        cookie: [0; 16],
    })
}

/// Makes the last output a redirect. What comes after it has no effect.
fn finish(mut actions: Vec<Action>) -> Vec<Action> {
    let last = actions
        .iter()
        .rposition(|action| matches!(action, Action::Mirror(_)));
    let Some(last) = last else {
        return vec![Action::Drop];
    };
    actions.truncate(last + 1);
    if let Some(Action::Mirror(interface)) = actions.pop() {
        actions.push(Action::Redirect(interface));
    }
    actions
}

fn refused(words: String) -> NotOffloadable {
    NotOffloadable::Target(words)
}

#[cfg(test)]
mod tests;
