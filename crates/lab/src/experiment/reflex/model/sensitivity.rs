//! The effect of each cost on a value of the model.

use nanopu::{Cost, CostTable};

/// Share by which a cost is raised.
const SHARE: f64 = 0.2;
/// Effects in percent below which a cost has none.
const LEAST: f64 = 0.01;

/// Effect of a cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Dependence {
    pub(in super::super) cost: Cost,
    /// Change of the value in percent for 20 % more.
    pub(in super::super) percent: f64,
}

impl Dependence {
    /// Returns the name of the cost and its effect.
    pub(super) fn text(&self) -> String {
        format!("{}, + 20 %: {:+.1} %", self.cost.name(), self.percent)
    }
}

/// Returns the costs that a value depends on, the greatest effect first.
///
/// # Errors
/// The value cannot be computed.
pub(in super::super) fn depends_on(
    measure: &dyn Fn(&CostTable) -> Result<f64, String>,
) -> Result<Vec<Dependence>, String> {
    let defaults = CostTable::default();
    let base = measure(&defaults)?;
    let mut found = Vec::new();
    for (cost, value) in defaults.iter().filter(|(_, value)| *value > 0) {
        let more = (value as f64 * SHARE).round().max(1.0);
        let mut costs = defaults.clone();
        if costs.set(cost, value + more as u64).is_err() {
            continue;
        }
        // The change of a small whole number is more than the share.
        let scale = SHARE / (more / value as f64);
        let percent = (measure(&costs)? / base - 1.0) * 100.0 * scale;
        if percent.abs() >= LEAST {
            found.push(Dependence { cost, percent });
        }
    }
    found.sort_by(|a, b| b.percent.abs().total_cmp(&a.percent.abs()));
    Ok(found)
}
