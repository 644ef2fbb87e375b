//! The check of outputs of a loop file.

use std::net::SocketAddrV4;

use telemetry::IntNodeId;
use toml_file::Spanned;

use super::check::Check;
use super::file;
use super::{OutputContent, OutputSpec};

impl Check {
    /// Reads a place that the plane sends to.
    pub(super) fn output(&mut self, output: &Spanned<file::Output>) -> Option<OutputSpec> {
        let given = output.get_ref();
        let text = given.to.get_ref();
        let to = text.strip_prefix("udp:");
        let to = to.and_then(|to| to.parse::<SocketAddrV4>().ok());
        if to.is_none() {
            let message = format!("\"{text}\" is no place that a plane sends to");
            let mend = "write \"udp:ADDRESS:PORT\", as in \"udp:10.0.0.9:32766\"";
            self.mistakes.at(&given.to, message, mend);
        }
        let words = [("json", Some(false)), ("report", Some(true))];
        let content = match (&given.events, &given.reports) {
            (Some(form), None) => match (self.word(Some(form), &words), &given.node) {
                (Some(true), Some(_)) => {
                    let node = self.mistakes.number(&given.node, 0, 0u32);
                    OutputContent::EventsAsReports(IntNodeId(node))
                }
                (Some(true), None) => {
                    let message = "reports name their node".to_owned();
                    let mend = "write a node that no exporter has, as in node = 99";
                    self.mistakes.at(form, message, mend);
                    return None;
                }
                _ => OutputContent::EventsAsJson,
            },
            (None, Some(rules)) => {
                let rules = rules.get_ref().iter();
                let rules = rules.filter_map(|text| self.rule(text, text.get_ref()));
                OutputContent::Reports(rules.collect())
            }
            _ => {
                let message = "an output gets events or reports".to_owned();
                let mend = "write one of `events = \"json\"`, `events = \"report\"` and `reports = \
                            [\"any\"]`";
                self.mistakes.at(output, message, mend);
                return None;
            }
        };
        if let (Some(node), false) = (
            &given.node,
            matches!(content, OutputContent::EventsAsReports(_)),
        ) {
            let message = "only events that are reports have a node".to_owned();
            let mend = "write events = \"report\", or take node away";
            self.mistakes.at(node, message, mend);
        }
        Some(OutputSpec { to: to?, content })
    }
}
