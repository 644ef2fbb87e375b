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
use crate::flow::{ChecksumTest, Flow, NotOffloadable, Step, Summed};
use edits::{Editor, IPV4_CHECKSUM, IPV4_LENGTH};
use keys::Bits;
use layout::{Layout, Network};

/// Interfaces of a switch's ports, by their indices in the kernel.
pub type Interfaces = BTreeMap<PortId, u32>;

/// Facts on which a translation may rely. The owner of the interface knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslateOptions {
    /// All IPv4 headers have version 4 and no options, all IPv6 headers have version 6 and no
    /// extension headers, and all TCP headers have at least 20 bytes (`no-ip-options`). No key of
    /// flower says so.
    pub no_ip_options: bool,
    /// No IPv4 header has a wrong checksum, since the NIC or the neighbour drops such frames
    /// (`valid-ip-checksums`). No key of flower says so. Programs that check the checksum sum the
    /// header without options, so it has an effect only with `no_ip_options`.
    pub valid_ip_checksums: bool,
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
            valid_ip_checksums: false,
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
            "the flow is only of frames of {} to {} bytes, and no key of flower is for the length",
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
    for test in &flow.checksums {
        checksum_test(test, layout, options)?;
    }
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

/// Checks that each frame with a layout passes a test, as the owner says.
fn checksum_test(
    test: &ChecksumTest,
    layout: &Layout,
    options: &TranslateOptions,
) -> Result<(), NotOffloadable> {
    if !test.is_right {
        return Err(refused(
            "the flow is of packets with a wrong checksum, and no key of flower says that a \
             checksum is wrong"
                .to_owned(),
        ));
    }
    if !is_ipv4_checksum(test, layout) {
        return Err(refused(
            "the program checks a checksum that is not that of the whole IPv4 header".to_owned(),
        ));
    }
    // The test is over the first 20 bytes. In a header with options these can have a wrong sum
    // where the header's own checksum is right.
    if !options.no_ip_options {
        return Err(keys::no_ip_options());
    }
    match options.valid_ip_checksums {
        true => Ok(()),
        false => Err(refused(
            "no key of flower says that an IPv4 header's checksum is right, and the program checks \
             it; allow it with --valid-ip-checksums if no packet has a wrong one"
                .to_owned(),
        )),
    }
}

/// Returns true if a test is that of the checksum of the IPv4 header without options.
fn is_ipv4_checksum(test: &ChecksumTest, layout: &Layout) -> bool {
    let base = layout.network;
    let mut words = Vec::new();
    for piece in &test.over {
        match *piece {
            Summed::Bytes { offset, len } => words.extend((offset..offset + len).step_by(2)),
            Summed::Word(_) | Summed::Rest { .. } => return false,
        }
    }
    words.sort_unstable();
    let header = (base..base + IPV4_LENGTH).step_by(2);
    layout.header() == Network::Ipv4
        && test.offset == base + IPV4_CHECKSUM
        && words.into_iter().eq(header.filter(|at| *at != test.offset))
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
