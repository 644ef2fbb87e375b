//! Detects programs in P4_14, the predecessor of P4_16.

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::token::{Interner, Token};

/// Words that begin a declaration in P4_14 but not in P4_16.
const DECLARATIONS: [&str; 5] = [
    "header_type",
    "field_list",
    "field_list_calculation",
    "calculated_field",
    "primitive_action",
];

/// Words followed by a name and `{` in P4_14. P4_16 has a parameter list between them.
const WITHOUT_PARAMETERS: [&str; 5] =
    ["parser", "control", "counter", "register", "action_profile"];

/// Returns one error that replaces many syntax errors if the program is in P4_14.
pub(crate) fn recognise(tokens: &[Token], texts: &Interner) -> Option<Diagnostic> {
    let at = declaration(tokens, texts)?;
    let message = "this looks like P4_14, an older language; Polyplane reads P4_16";
    let hint = "translate it once: `p4test --std p4-14 --pp NEW.p4 OLD.p4`, from p4c";
    Some(Diagnostic::error("E0122", at, message).hint(hint))
}

/// Returns the position of a declaration that only P4_14 has.
fn declaration(tokens: &[Token], texts: &Interner) -> Option<Span> {
    let text = |token: Option<&Token>| token.map_or("", |token| texts.text(token.symbol));
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        let (word, next, after) = (
            text(Some(token)),
            tokens.get(i + 1).is_some_and(Token::is_word),
            text(tokens.get(i + 2)),
        );
        match word {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ if depth > 0 || !next => {}
            _ if DECLARATIONS.contains(&word) && matches!(after, "{" | ".") => {
                return Some(token.span);
            }
            _ if WITHOUT_PARAMETERS.contains(&word) && after == "{" => return Some(token.span),
            "table" if after == "{" && matches!(text(tokens.get(i + 3)), "reads" | "actions") => {
                return Some(token.span);
            }
            _ => {}
        }
    }
    None
}
