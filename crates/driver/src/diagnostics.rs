//! Diagnostics of a text, together with its source map.

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::SourceMap;

/// Diagnostics of a program or policy, and the source map that their spans point into.
#[derive(Debug, Default)]
pub struct SourceDiagnostics {
    /// Errors and warnings.
    pub list: Diagnostics,
    /// The text and the files that it includes.
    pub sources: SourceMap,
}

impl SourceDiagnostics {
    /// Returns true if the program or policy is rejected.
    pub fn has_errors(&self) -> bool {
        self.list.has_errors()
    }

    /// Renders the diagnostics as text with excerpts, as [`Diagnostics::render`] does.
    pub fn render(&self, colour: bool) -> String {
        self.list.render(&self.sources, colour)
    }

    /// Renders the diagnostics as a JSON array, as [`Diagnostics::to_json`] does.
    pub fn to_json(&self) -> String {
        self.list.to_json(&self.sources)
    }

    pub(crate) fn push_all(&mut self, diagnostics: Vec<Diagnostic>) {
        for diagnostic in diagnostics {
            self.list.push(diagnostic);
        }
    }
}
