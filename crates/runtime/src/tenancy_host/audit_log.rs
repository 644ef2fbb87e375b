//! Audit log of operator changes on standard error: one line per change, with the operator and
//! the result. It is independent of the log level.

use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4info::polyplane::tenancy::v1::function::Function as OneFunction;
use p4rt::{Answer, Asker, TenancyError};
use wire::edit_stage::Edit;

/// Log target of the lines.
const TARGET: &str = "polyplane::operators";

/// Maximum number of logged characters of a change, or of the reason of its refusal.
const MAX_WRITTEN: usize = 500;

/// Wraps an answer, so that the change is logged when it is answered.
pub(super) fn noted(
    asker: Asker,
    asked: &wire::ChangeRequest,
    answer: Answer<wire::ChangeResponse>,
) -> Answer<wire::ChangeResponse> {
    let change = asked.change.as_ref().map(told).unwrap_or_default();
    answer.heard_by(move |result| write(&asker, &change, result))
}

fn write(asker: &Asker, change: &str, result: &Result<wire::ChangeResponse, TenancyError>) {
    let (peer, change) = (asker.address, beginning(change));
    let operator = (!asker.names.is_empty()).then(|| asker.names.join(", "));
    let operator = operator.as_deref();
    match result {
        Ok(wire::ChangeResponse { vpdp, lost }) => {
            let vpdp = (*vpdp > 0).then_some(*vpdp);
            let lost = (!lost.is_empty()).then(|| lost.join(", "));
            let lost = lost.as_deref().map(beginning);
            tracing::info!(target: TARGET, %peer, operator, change, vpdp, lost, "done");
        }
        Err(TenancyError { code, message }) => {
            let why = beginning(message);
            tracing::warn!(target: TARGET, %peer, operator, change, ?code, why, "refused");
        }
    }
}

/// Returns the beginning of a text that a client has chosen.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_WRITTEN);
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// Formats a change, much like the command of `polyplane tenant`.
fn told(change: &Change) -> String {
    match change {
        Change::Create(create) => told_create(create),
        Change::Delete(vpdp) => format!("delete {vpdp}"),
        Change::Suspend(vpdp) => format!("suspend {vpdp}"),
        Change::Resume(vpdp) => format!("resume {vpdp}"),
        Change::SetProgram(set) => told_load(set),
        Change::RollBack(vpdp) => format!("rollback {vpdp}"),
        Change::RemoveProgram(vpdp) => format!("unload {vpdp}"),
        Change::Connect(wire::Connect { port, physical }) => match physical {
            Some(physical) => format!("connect {} {physical}", told_port(port.as_ref())),
            None => format!("disconnect {}", told_port(port.as_ref())),
        },
        Change::Link(wire::Link { one, other }) => {
            let [one, other] = [one, other].map(|port| told_port(port.as_ref()));
            format!("link {one} {other}")
        }
        Change::Unlink(port) => format!("unlink {}", told_port(Some(port))),
        Change::Share(wire::Share { port, sharing }) => match sharing.as_str() {
            "" => format!("unshare {port}"),
            sharing => format!("share {port} {sharing}"),
        },
        Change::AddRule(rule) => format!("add-rule {rule}"),
        Change::RemoveRule(name) => format!("delete-rule {name}"),
        Change::SetQuotas(wire::SetQuotas { vpdp, quotas }) => match quotas.is_empty() {
            true => format!("quota {vpdp} --none"),
            false => format!("quota {vpdp} {}", quotas.join(" ")),
        },
        Change::Import(exported) => format!("import {}", exported.name),
        Change::EditStage(edit) => told_edit(edit),
    }
}

fn told_port(port: Option<&wire::VirtualPort>) -> String {
    port.map_or_else(String::new, |port| format!("{}:{}", port.vpdp, port.port))
}

fn told_create(create: &wire::Create) -> String {
    let mut words = vec![format!("create {}", create.name)];
    if create.id > 0 {
        words.push(format!("--id {}", create.id));
    }
    if !create.owner.is_empty() {
        words.push(format!("--owner {}", create.owner));
    }
    words.extend(create.ports.iter().map(|port| format!("--port {port}")));
    words.extend(create.quotas.iter().map(|one| format!("--quota {one}")));
    words.join(" ")
}

/// Formats a load without the program's text: with the policy of a chain, or with the program's
/// name.
fn told_load(set: &wire::SetProgram) -> String {
    let function = set.function.as_ref();
    let function = function.and_then(|function| function.function.as_ref());
    let what = match function {
        None => String::new(),
        Some(OneFunction::Program(text)) => told_program(text),
        Some(OneFunction::Chain(chain)) => chain.policy.clone(),
    };
    let may_lose = set.may_lose.iter();
    let may_lose: String = may_lose.map(|name| format!(" --may-lose {name}")).collect();
    format!("load {} {what}{may_lose}", set.vpdp)
}

/// Formats a program: by the name at the beginning of its IR, or as a text without a name.
fn told_program(text: &str) -> String {
    // A compiled program has one line before its IR.
    let mut begin = text.lines().take(2);
    let line = begin.find_map(|line| line.strip_prefix("program "));
    let name = line.and_then(|line| line.split_whitespace().next());
    name.map_or_else(|| format!("P4 text of {} bytes", text.len()), str::to_owned)
}

fn told_edit(wire::EditStage { vpdp, stage, edit }: &wire::EditStage) -> String {
    let Some(edit) = edit else {
        return format!("stage of {vpdp}: {stage}");
    };
    match edit {
        Edit::Delete(wire::DeleteStage {}) => format!("stage delete {vpdp} {stage}"),
        Edit::Replace(by) => format!("stage replace {vpdp} {stage} by {}", by.stage),
        Edit::AddBefore(new) => format!("stage add {vpdp} {} --before {stage}", new.stage),
        Edit::AddAfter(new) => format!("stage add {vpdp} {} --after {stage}", new.stage),
        Edit::MoveBefore(of) => format!("stage move {vpdp} {stage} --before {of}"),
        Edit::MoveAfter(of) => format!("stage move {vpdp} {stage} --after {of}"),
        Edit::MoveToSlot(slot) => format!("stage move {vpdp} {stage} --slot {slot}"),
        Edit::MoveToAnySlot(wire::AnySlot {}) => {
            format!("stage move {vpdp} {stage} --slot any")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_the_words_of_the_command() {
        let port = |vpdp: &str, port| {
            let vpdp = vpdp.to_owned();
            Some(wire::VirtualPort { vpdp, port })
        };
        let load = |text: &str| {
            let text = OneFunction::Program(text.to_owned());
            Change::SetProgram(wire::SetProgram {
                vpdp: "blue".to_owned(),
                function: Some(wire::Function {
                    function: Some(text),
                }),
                may_lose: vec!["I.t".to_owned()],
            })
        };
        let cases = [
            (
                Change::Create(wire::Create {
                    id: 7,
                    name: "blue".to_owned(),
                    owner: "alice".to_owned(),
                    ports: vec!["0".to_owned(), "open".to_owned()],
                    quotas: vec!["stages=9".to_owned()],
                }),
                "create blue --id 7 --owner alice --port 0 --port open --quota stages=9",
            ),
            (
                load("#include <core.p4>"),
                "load blue P4 text of 18 bytes --may-lose I.t",
            ),
            (
                load("a compiled one\nprogram l2 v1model\n"),
                "load blue l2 --may-lose I.t",
            ),
            (
                Change::Connect(wire::Connect {
                    port: port("blue", 2),
                    physical: None,
                }),
                "disconnect blue:2",
            ),
            (
                Change::Link(wire::Link {
                    one: port("blue", 1),
                    other: port("red", 0),
                }),
                "link blue:1 red:0",
            ),
            (
                Change::SetQuotas(wire::SetQuotas {
                    vpdp: "blue".to_owned(),
                    quotas: Vec::new(),
                }),
                "quota blue --none",
            ),
            (
                Change::EditStage(wire::EditStage {
                    vpdp: "blue".to_owned(),
                    stage: "I.t".to_owned(),
                    edit: Some(Edit::MoveToSlot(3)),
                }),
                "stage move blue I.t --slot 3",
            ),
        ];
        for (change, words) in cases {
            assert_eq!(told(&change), words);
        }
    }

    #[test]
    fn what_others_have_chosen_is_written_in_part_if_it_is_long() {
        assert_eq!(beginning("short"), "short");
        let long = "\u{e9}".repeat(MAX_WRITTEN + 9);
        assert_eq!(beginning(&long).chars().count(), MAX_WRITTEN);
    }
}
