//! The choice of the NIC, and a NIC with rules of the kernel's traffic control.

use std::str::FromStr;
use std::time::{Duration, Instant};

use offload::Flow;
use offload::tc::{
    FlowerRule, Installed, Interfaces, Priorities, RulePlace, Session, TranslateOptions, translate,
};
use packet::PortId;

/// Priority of the first rules.
const FIRST_PRIORITY: u16 = 100;

/// Number of the interface in a rule that is only shown.
const SHOWN: u32 = 1;

/// The NIC beside the model.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum TargetChoice {
    /// None.
    Model,
    /// Interfaces for packets in and out.
    Tc(String, String),
}

impl FromStr for TargetChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetChoice, String> {
        match text.strip_prefix("tc:") {
            Some(names) if !names.is_empty() => {
                let (ingress, egress) = names.split_once(',').unwrap_or((names, names));
                Ok(TargetChoice::Tc(ingress.to_owned(), egress.to_owned()))
            }
            _ if text == "model" => Ok(TargetChoice::Model),
            _ => Err("write model, tc:IF or tc:IF,OUT".to_owned()),
        }
    }
}

/// Returns the rule of a flow, where no packet has IP options.
///
/// # Errors
/// There is none, with the reason.
pub(super) fn rule(flow: &Flow, egress: u32) -> Result<FlowerRule, String> {
    let interfaces = Interfaces::from([(PortId(1), egress)]);
    let options = TranslateOptions {
        no_ip_options: true,
        valid_ip_checksums: false,
        ..TranslateOptions::default()
    };
    translate(flow, &interfaces, &options).map_err(|why| why.to_string())
}

/// Returns the text of a flow's rule.
///
/// # Errors
/// There is no rule, with the reason.
pub(super) fn rule_text(flow: &Flow) -> Result<String, String> {
    Ok(rule(flow, SHOWN)?.text(|_| "port1".to_owned()))
}

/// An interface with rules of the kernel.
pub(super) struct TcNic {
    session: Session,
    ingress: u32,
    egress: u32,
    priorities: Priorities,
}

impl TcNic {
    /// Opens the chosen NIC, if it is not the model alone.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses it.
    pub(super) fn open(choice: &TargetChoice) -> Result<Option<TcNic>, String> {
        let TargetChoice::Tc(ingress, egress) = choice else {
            return Ok(None);
        };
        let mut session = Session::open().map_err(|error| error.to_string())?;
        let (ingress, egress) = (index_of(ingress)?, index_of(egress)?);
        session
            .prepare(ingress)
            .map_err(|error| error.to_string())?;
        Ok(Some(TcNic {
            session,
            ingress,
            egress,
            priorities: Priorities::new(FIRST_PRIORITY),
        }))
    }

    /// Adds the rules of flows. Returns them, and the time of the requests.
    ///
    /// # Errors
    /// A flow has no rule, or the kernel refuses one.
    pub(super) fn add(&mut self, flows: &[&Flow]) -> Result<(Vec<Installed>, Duration), String> {
        let mut rules = Vec::new();
        for flow in flows {
            let mut rule = rule(flow, self.egress)?;
            let priority = self.priorities.of(&rule);
            rule.priority = priority.ok_or("there are no more priorities")?;
            rules.push(rule);
        }
        let start = Instant::now();
        let added: Result<Vec<Installed>, _> = rules
            .iter()
            .map(|rule| self.session.add(self.ingress, rule))
            .collect();
        Ok((added.map_err(|error| error.to_string())?, start.elapsed()))
    }

    /// Removes rules. Returns the time of the requests.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn remove(&mut self, rules: &[Installed]) -> Result<Duration, String> {
        let start = Instant::now();
        for installed in rules {
            let FlowerRule {
                chain,
                priority,
                protocol,
                ..
            } = installed.rule;
            let place = RulePlace {
                interface: self.ingress,
                chain,
                priority,
                protocol,
                handle: installed.handle,
            };
            self.session
                .delete(place)
                .map_err(|error| error.to_string())?;
        }
        Ok(start.elapsed())
    }
}

/// Returns the index of an interface.
fn index_of(name: &str) -> Result<u32, String> {
    let file = std::path::Path::new("/sys/class/net")
        .join(name)
        .join("ifindex");
    let text =
        std::fs::read_to_string(file).map_err(|_| format!("there is no interface {name}"))?;
    let index = text.trim().parse();
    index.map_err(|_| format!("the interface {name} has no index"))
}
