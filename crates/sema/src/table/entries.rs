//! Table entries: keys, actions and priorities (sections "Entries" and "Entry priorities").

use std::collections::HashMap;

use num_bigint::BigInt;
use num_traits::Signed;
use support::work::checkpoint;
use syntax::ast;
use syntax::diag::Diagnostic;
use syntax::source::Span;

use super::Draft;
use crate::hir::{Entry, Expr, ExprKind, KeySet};
use crate::keyset::Shape;
use crate::{Checker, annotations, code};

/// Maximum priority, the largest P4Runtime `int32`.
const MAX_PRIORITY: i64 = i32::MAX as i64;

impl Checker<'_> {
    pub(super) fn entries(
        &mut self,
        draft: &mut Draft<'_>,
        property: &ast::TableProperty,
        entries: &[ast::Entry],
    ) {
        draft.table.entries_are_const = property.is_const;
        if draft.table.keys.is_empty() && entries.is_empty() {
            return;
        }
        if draft.table.keys.is_empty() {
            let message = format!(
                "table `{}` has no key: it cannot have entries",
                draft.table.name.as_str()
            );
            let diagnostic = Diagnostic::error(code::BAD_ENTRY, draft.table.span, message);
            self.report(diagnostic.label(property.name.span, "the entries"));
            return;
        }
        let shapes: Vec<Shape> = draft
            .table
            .keys
            .iter()
            .map(|key| Shape::Leaf(key.expr.ty))
            .collect();
        let mut good = Vec::with_capacity(entries.len());
        for entry in entries {
            checkpoint();
            if let Some(checked) = self.entry(draft, property, entry, &shapes) {
                good.push((checked, entry));
            }
        }
        if good.len() == entries.len() {
            self.priorities(draft, property, &mut good);
        }
        let entries: Vec<Entry> = good.into_iter().map(|(entry, _)| entry).collect();
        self.check_same_keys(draft, &entries);
        draft.table.entries = entries;
    }

    fn entry(
        &mut self,
        draft: &Draft<'_>,
        property: &ast::TableProperty,
        entry: &ast::Entry,
        shapes: &[Shape],
    ) -> Option<Entry> {
        let annotations = self.annotations(&entry.annotations);
        let keys = self.entry_keys(entry, shapes);
        let args = entry.action.args.as_deref().unwrap_or_default();
        let action = self.listed_call(draft, &entry.action.path, args, entry.action.span);
        let (keys, action) = (keys?, action?);
        if annotations::has(
            &draft.table.actions[action.action].annotations,
            "defaultonly",
        ) {
            let message = "this action is marked `@defaultonly`: it cannot be in an entry";
            self.error(code::BAD_ENTRY, entry.action.span, message);
            return None;
        }
        let is_const = entry.is_const || property.is_const;
        Some(Entry {
            keys,
            action,
            priority: None,
            is_const,
            annotations,
            span: entry.span,
        })
    }

    fn entry_keys(&mut self, entry: &ast::Entry, shapes: &[Shape]) -> Option<Vec<KeySet>> {
        let sets = self.keyset(&entry.keyset, shapes)?;
        let good = sets
            .iter()
            .all(|set| self.check_known(set, entry.keyset.span));
        good.then_some(sets)
    }

    /// Checks that the key of an entry is known at compile time.
    fn check_known(&mut self, set: &KeySet, span: Span) -> bool {
        let parts: Vec<&Expr> = match set {
            KeySet::Any => return true,
            KeySet::Value(e) => vec![e],
            KeySet::Mask(a, b) | KeySet::Range(a, b) => vec![a, b],
            KeySet::ValueSet(_) => {
                self.error(
                    code::BAD_ENTRY,
                    span,
                    "a value set cannot be the key of an entry",
                );
                return false;
            }
        };
        match parts.iter().find(|e| !self.is_compile_time(e)) {
            Some(unknown) => {
                let message = "the key of an entry must be known at compile time";
                self.error(code::NOT_CONSTANT, unknown.span, message);
                false
            }
            None => true,
        }
    }

    /// Assigns each entry its priority. Entries of tables with only `exact` and `lpm` keys have
    /// none.
    fn priorities(
        &mut self,
        draft: &Draft<'_>,
        property: &ast::TableProperty,
        entries: &mut [(Entry, &ast::Entry)],
    ) {
        let needed = draft
            .table
            .keys
            .iter()
            .any(|key| !matches!(self.p.match_kinds[key.match_kind].as_str(), "exact" | "lpm"));
        let first = entries
            .iter()
            .find_map(|(_, written)| written.priority.as_ref());
        if let Some(first) = first {
            let problem = if !needed {
                Some("the match kinds of this table's keys need no priorities")
            } else if property.is_const {
                Some("`const entries` have no priorities: their order decides")
            } else {
                None
            };
            if let Some(message) = problem {
                let span = first.span;
                self.error(code::BAD_ENTRY, span, message);
                return;
            }
        }
        if !needed {
            return;
        }
        if first.is_none() {
            return self.implied_priorities(draft, entries);
        }
        self.written_priorities(draft, property, entries);
    }

    fn implied_priorities(&mut self, draft: &Draft<'_>, entries: &mut [(Entry, &ast::Entry)]) {
        let count = entries.len();
        let order = order_of_entries(entries);
        for ((entry, _), i) in entries.iter_mut().zip(order) {
            let rank = if draft.table.largest_priority_wins {
                count - 1 - i
            } else {
                i
            };
            entry.priority = Some(&draft.priority_delta * rank + 1);
        }
        let worst = entries
            .iter()
            .map(|(entry, _)| entry)
            .max_by_key(|entry| entry.priority.clone());
        if let Some(worst) = worst {
            let (priority, span) = (worst.priority.clone(), worst.span);
            self.check_priority(&priority.unwrap_or_default(), span);
        }
    }

    fn check_priority(&mut self, priority: &BigInt, span: Span) -> bool {
        let good = !priority.is_negative() && *priority <= MAX_PRIORITY.into();
        if !good {
            let message =
                format!("the priority is {priority}: it must be between 0 and {MAX_PRIORITY}");
            self.error(code::BAD_ENTRY, span, message);
        }
        good
    }

    fn written_priorities(
        &mut self,
        draft: &Draft<'_>,
        property: &ast::TableProperty,
        entries: &mut [(Entry, &ast::Entry)],
    ) {
        let mut last: Option<BigInt> = None;
        for (entry, written) in entries.iter_mut() {
            let priority = match (&written.priority, &last) {
                (Some(e), _) => self.constant_int(e, "a priority"),
                (None, Some(last)) if draft.table.largest_priority_wins => {
                    Some(last - &draft.priority_delta)
                }
                (None, Some(last)) => Some(last + &draft.priority_delta),
                (None, None) => {
                    let message = "the first entry must have a priority, because another one has";
                    self.error(code::BAD_ENTRY, written.span, message);
                    None
                }
            };
            let Some(priority) = priority else { return };
            if !self.check_priority(&priority, written.span) {
                return;
            }
            entry.priority = Some(priority.clone());
            last = Some(priority);
        }
        self.warn_priorities(draft, property, entries);
    }

    fn warn_priorities(
        &mut self,
        draft: &Draft<'_>,
        property: &ast::TableProperty,
        entries: &[(Entry, &ast::Entry)],
    ) {
        let silenced = self.annotations(&property.annotations);
        let silent = |what: &str| {
            silenced.iter().any(|a| {
                a.name.as_str() == "noWarn"
                    && annotations::string_of(std::slice::from_ref(a), "noWarn").as_deref()
                        == Some(what)
            })
        };
        let (duplicates, order) = (
            !silent("duplicate_priorities"),
            !silent("entries_out_of_priority_order"),
        );
        let mut seen: HashMap<BigInt, Span> = HashMap::new();
        for (entry, _) in entries {
            let Some(priority) = entry.priority.clone() else {
                continue;
            };
            if let Some(&before) = seen.get(&priority)
                && duplicates
                && self.options.warnings
            {
                let message =
                    format!("two entries have priority {priority}: which one wins is unspecified");
                let diagnostic = Diagnostic::warning(code::W_PRIORITY, entry.span, message);
                self.report(diagnostic.label(before, "the other one"));
            }
            seen.insert(priority, entry.span);
        }
        for pair in entries.windows(2) {
            let (a, b) = (&pair[0].0.priority, &pair[1].0.priority);
            let surprising = if draft.table.largest_priority_wins {
                a < b
            } else {
                a > b
            };
            if surprising && order {
                self.warn(
                    code::W_PRIORITY,
                    pair[1].0.span,
                    "this entry comes after one that it wins over",
                );
            }
        }
    }

    /// Reports entries with equal keys. In an exact table this is an error; in a ternary one the
    /// later entry is never reached.
    fn check_same_keys(&mut self, draft: &Draft<'_>, entries: &[Entry]) {
        let exact = draft
            .table
            .keys
            .iter()
            .all(|key| matches!(self.p.match_kinds[key.match_kind].as_str(), "exact" | "lpm"));
        let mut seen: HashMap<String, Span> = HashMap::new();
        for entry in entries {
            let Some(key) = self.key_of(entry) else {
                continue;
            };
            if let Some(&before) = seen.get(&key) {
                if exact {
                    let diagnostic = Diagnostic::error(
                        code::BAD_ENTRY,
                        entry.span,
                        "an entry with the same key exists",
                    );
                    self.report(diagnostic.label(before, "the other entry"));
                } else if entry.priority.is_some() && self.options.warnings {
                    let message = "an earlier entry has the same key";
                    let diagnostic = Diagnostic::warning(code::W_COVERED, entry.span, message);
                    self.report(diagnostic.label(before, "the other entry"));
                }
                continue;
            }
            seen.insert(key, entry.span);
        }
    }

    /// Returns the key of an entry in canonical form, if it is known.
    fn key_of(&self, entry: &Entry) -> Option<String> {
        let one = |e: &Expr| -> Option<String> {
            match (&e.kind, self.int_value(e)) {
                (_, Some(number)) => Some(number.to_string()),
                (ExprKind::Bool(value), _) => Some(value.to_string()),
                (kind @ (ExprKind::EnumMember(..) | ExprKind::ErrorCode(_)), _) => {
                    Some(format!("{kind:?}"))
                }
                _ => None,
            }
        };
        let mut out = String::new();
        for set in &entry.keys {
            let text = match set {
                KeySet::Any => "_".to_string(),
                KeySet::Value(e) => one(e)?,
                KeySet::Mask(a, b) => match (self.int_value(a), self.int_value(b)) {
                    (Some(value), Some(mask)) => format!("{}&{mask}", value & &mask),
                    _ => return None,
                },
                KeySet::Range(a, b) => format!("{}..{}", one(a)?, one(b)?),
                KeySet::ValueSet(_) => return None,
            };
            out.push_str(&text);
            out.push(';');
        }
        Some(out)
    }
}

/// Returns the order in which the entries are tried. It is the source order, unless `@priority(n)`
/// of BMv2's compiler overrides it. There, the smaller number comes first. An entry without it has
/// its position in the source as its number, from 1.
fn order_of_entries(entries: &[(Entry, &ast::Entry)]) -> Vec<usize> {
    let mut tried: Vec<(u64, usize)> = entries
        .iter()
        .enumerate()
        .map(|(i, (entry, _))| (annotated_priority(entry).unwrap_or(i as u64 + 1), i))
        .collect();
    tried.sort_unstable();
    let mut order = vec![0; entries.len()];
    for (place, (_, i)) in tried.into_iter().enumerate() {
        order[i] = place;
    }
    order
}

fn annotated_priority(entry: &Entry) -> Option<u64> {
    let annotation = entry
        .annotations
        .iter()
        .find(|annotation| annotation.name.as_str() == "priority")?;
    match &annotation.body {
        crate::hir::AnnotationBody::Tokens(tokens) => tokens.first()?.text.parse().ok(),
        crate::hir::AnnotationBody::Expressions(values) => match values.as_slice() {
            [crate::hir::AnnotationValue::Int(number)] => number.try_into().ok(),
            _ => None,
        },
        _ => None,
    }
}
