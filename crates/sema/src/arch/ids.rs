//! Checks `@id` annotations of control-plane objects. The upper byte is 0 or the prefix of the
//! object's kind (P4Runtime, "ID Allocation for P4Info Objects"). No two declarations have the same
//! id.

use std::collections::HashMap;

use syntax::ast::AnnotationTokenKind;
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use crate::code;
use crate::hir::{Annotation, AnnotationBody, AnnotationValue, Program, Ty};

/// Externs with ids for their instances, and the upper byte of these ids.
const EXTERNS: [(&str, u8); 15] = [
    ("action_profile", 0x11),
    ("action_selector", 0x11),
    ("ActionProfile", 0x11),
    ("ActionSelector", 0x11),
    ("counter", 0x12),
    ("Counter", 0x12),
    ("direct_counter", 0x13),
    ("DirectCounter", 0x13),
    ("meter", 0x14),
    ("Meter", 0x14),
    ("direct_meter", 0x15),
    ("DirectMeter", 0x15),
    ("register", 0x16),
    ("Register", 0x16),
    ("Digest", 0x17),
];

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut ids = Ids {
        diagnostics,
        given: HashMap::new(),
    };
    for action in program.actions.values() {
        ids.object(0x01, &action.annotations);
    }
    for table in program.tables.values() {
        ids.object(0x02, &table.annotations);
    }
    for value_set in program.value_sets.values() {
        ids.object(0x03, &value_set.annotations);
    }
    for instance in program.instances.values() {
        let Ty::Extern(id, _) = program.types.get(instance.ty) else {
            continue;
        };
        let name = program.externs[*id].name.as_str();
        if let Some((_, kind)) = EXTERNS.iter().find(|(known, _)| *known == name) {
            ids.object(*kind, &instance.annotations);
        }
    }
}

struct Ids<'d> {
    diagnostics: &'d mut Diagnostics,
    given: HashMap<u32, Span>,
}

impl Ids<'_> {
    fn object(&mut self, kind: u8, annotations: &[Annotation]) {
        let Some(annotation) = annotations.iter().find(|a| a.name.as_str() == "id") else {
            return;
        };
        let Some(id) = number(annotation) else {
            return;
        };
        let error =
            |message: String| Diagnostic::error(code::BAD_ANNOTATION, annotation.span, message);
        let upper = (id >> 24) as u8;
        if upper != 0 && upper != kind {
            let message = format!(
                "the upper byte of `@id({id:#x})` is that of another kind of object: it must be 0 \
                 or {kind:#04x}"
            );
            self.diagnostics.push(error(message));
            return;
        }
        let whole = u32::from(kind) << 24 | id & 0x00ff_ffff;
        match self.given.get(&whole) {
            Some(&before) => {
                let message = format!("the id {whole:#010x} is given twice");
                let diagnostic = error(message).label(before, "given here before");
                self.diagnostics.push(diagnostic);
            }
            None => {
                self.given.insert(whole, annotation.span);
            }
        }
    }
}

fn number(annotation: &Annotation) -> Option<u32> {
    match &annotation.body {
        AnnotationBody::Tokens(tokens) => match tokens.as_slice() {
            [only] if only.kind == AnnotationTokenKind::Integer => {
                let digits = only.text.rsplit(['w', 's']).next()?;
                u32::try_from(bits::Value::parse(digits, 32).ok()?.to_u64()?).ok()
            }
            _ => None,
        },
        AnnotationBody::Expressions(values) => match values.as_slice() {
            [AnnotationValue::Int(number)] => u32::try_from(number).ok(),
            _ => None,
        },
        AnnotationBody::None | AnnotationBody::KeyValues(_) => None,
    }
}
