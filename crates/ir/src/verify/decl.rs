//! Checks storage, externs, value sets and tables.

use bits::{Id, Value};
use support::count::count_are;
use support::work::checkpoint;

use super::{Check, MAX_FRAME_LIMBS, Verifier, same, there};
use crate::layout::limbs_of;
use crate::program::*;
use crate::types::{MAX_WIDTH, ScalarTy};

impl Verifier<'_> {
    /// Checks that a type is valid.
    pub(super) fn ty(&self, ty: ScalarTy) -> Check {
        match ty {
            ScalarTy::Enum(id) => there(&self.program.enums, id, "enum").map(drop),
            ScalarTy::Int(0) => Err("int<0> is not a type".to_owned()),
            _ if ty.width() > MAX_WIDTH => {
                Err(format!("{} bits are more than {MAX_WIDTH}", ty.width()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a type is valid and not a `varbit`.
    pub(super) fn scalar(&self, ty: ScalarTy) -> Check {
        match ty {
            ScalarTy::Varbit(_) => Err("a varbit is not allowed here".to_owned()),
            _ => self.ty(ty),
        }
    }

    fn value_of(&self, ty: ScalarTy, value: &Value) -> Check {
        if value.width() == ty.width() {
            Ok(())
        } else {
            Err(format!(
                "a value of {} bits is expected, not one of {}",
                ty.width(),
                value.width()
            ))
        }
    }

    pub(super) fn storage(&mut self) {
        let p = self.program;
        self.enter("program", None);
        if p.errors.first().map(String::as_str) != Some("NoError") {
            self.tell(Err("the error with number 0 is not NoError".to_owned()));
        }
        self.unique("error", p.errors.iter());
        self.unique("field", p.fields.values().map(|f| &f.name));
        self.unique("action", p.actions.values().map(|a| &a.name));
        self.unique("table", p.tables.values().map(|t| &t.name));
        self.unique("extern", p.externs.values().map(|e| &e.name));
        self.unique("value set", p.value_sets.values().map(|s| &s.name));
        for t in p.header_types.values() {
            checkpoint();
            self.enter(format!("header type {}", t.name), None);
            let check = self.header_type(t);
            self.tell(check);
        }
        let mut limbs = 0u64;
        for field in p.fields.values() {
            checkpoint();
            self.enter(format!("field {}", field.name), None);
            let check = self.ty(field.ty);
            limbs += u64::from(limbs_of(field.ty));
            self.tell(check);
        }
        self.enter("program", None);
        if limbs > u64::from(MAX_FRAME_LIMBS) {
            self.tell(Err(format!(
                "the fields take {limbs} limbs, more than {MAX_FRAME_LIMBS}"
            )));
        }
        for header in p.headers.values() {
            checkpoint();
            self.enter(format!("header {}", header.name), None);
            let check = self.header(header);
            self.tell(check);
        }
        self.overlaps();
        for stack in p.stacks.values() {
            checkpoint();
            self.enter(format!("stack {}", stack.name), None);
            let check = self.stack(stack);
            self.tell(check);
        }
    }

    fn header_type(&self, t: &HeaderType) -> Check {
        let mut varbits = 0;
        for field in &t.fields {
            checkpoint();
            self.ty(field.ty)
                .map_err(|e| format!("field {}: {e}", field.name))?;
            match field.ty {
                ScalarTy::Bit(_) | ScalarTy::Int(_) | ScalarTy::Bool => {}
                ScalarTy::Varbit(_) => varbits += 1,
                ScalarTy::Error | ScalarTy::Enum(_) => {
                    return Err(format!("field {} has no form on the wire", field.name));
                }
            }
        }
        if varbits > 1 {
            return Err("there is more than one varbit".to_owned());
        }
        Ok(())
    }

    fn header(&self, header: &Header) -> Check {
        let fields = self.program.fields.as_slice();
        let ty = there(&self.program.header_types, header.ty, "header type")?;
        let first = header.valid.index();
        let own = fields
            .get(first..)
            .and_then(|rest| rest.get(..=ty.fields.len()));
        let own = own.ok_or("its fields are not all there")?;
        let types = std::iter::once(ScalarTy::Bool).chain(ty.fields.iter().map(|f| f.ty));
        types
            .zip(own)
            .try_for_each(|(ty, field)| same(ty, field.ty))
            .map_err(|e| format!("its fields do not have the types of {}: {e}", ty.name))
    }

    /// Checks that headers do not share fields.
    fn overlaps(&mut self) {
        let p = self.program;
        let mut spans: Vec<(usize, usize, &str)> = p
            .headers
            .values()
            .map(|h| {
                let len = p.header_types.get(h.ty).map_or(0, |t| t.fields.len());
                (
                    h.valid.index(),
                    h.valid.index().saturating_add(len),
                    h.name.as_str(),
                )
            })
            .collect();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            checkpoint();
            if let [(_, last, a), (first, _, b)] = pair
                && first <= last
            {
                self.tell(Err(format!("the headers {a} and {b} share fields")));
            }
        }
    }

    fn stack(&self, stack: &Stack) -> Check {
        let headers = self.program.headers.as_slice();
        let first = stack.first.index();
        let all = headers
            .get(first..)
            .and_then(|rest| rest.get(..stack.len as usize))
            .filter(|all| !all.is_empty())
            .ok_or("its headers are not all there")?;
        for pair in all.windows(2) {
            checkpoint();
            let [a, b] = pair else { continue };
            let len = there(&self.program.header_types, a.ty, "header type")?
                .fields
                .len();
            if a.ty != b.ty || b.valid.index() != a.valid.index() + len + 1 {
                return Err(format!("{} does not follow {}", b.name, a.name));
            }
        }
        self.field_of(Some(stack.next_index), ScalarTy::Bit(32))
    }

    pub(super) fn externs(&mut self) {
        for e in self.program.externs.values() {
            checkpoint();
            self.enter(format!("extern {}", e.name), e.loc);
            let check = self.extern_kind(&e.kind);
            self.tell(check);
        }
    }

    fn extern_kind(&self, kind: &ExternKind) -> Check {
        match kind {
            ExternKind::Register { cell, initial, .. } => {
                cell.iter().try_for_each(|ty| self.scalar(*ty))?;
                if cell.len() != initial.len() {
                    return Err("a cell's first values are not as many as its scalars".to_owned());
                }
                let mut both = cell.iter().zip(initial);
                both.try_for_each(|(ty, v)| self.value_of(*ty, v))
            }
            ExternKind::Digest { fields, .. } => fields.iter().try_for_each(|ty| self.ty(*ty)),
            ExternKind::Handler { request, response } => {
                let scalars = [request.scalars(), response.scalars()].concat();
                scalars.into_iter().try_for_each(|ty| match ty {
                    ScalarTy::Varbit(_) => Err("a handler does not take a varbit".to_owned()),
                    ty => self.scalar(ty),
                })
            }
            ExternKind::Meter { unit, .. } | ExternKind::DirectMeter { unit }
                if *unit == CounterUnit::Both =>
            {
                Err("a meter measures packets or bytes, not both".to_owned())
            }
            ExternKind::Random { min, max } if min.width() != max.width() => {
                Err("its bounds differ in width".to_owned())
            }
            ExternKind::ActionSelector { width, .. } if *width > 64 => {
                Err("its hash is wider than 64 bits".to_owned())
            }
            ExternKind::Hash { width, .. } | ExternKind::Checksum { width, .. }
                if *width > MAX_WIDTH =>
            {
                Err(format!("{width} bits are more than {MAX_WIDTH}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn value_sets(&mut self) {
        for set in self.program.value_sets.values() {
            checkpoint();
            self.enter(format!("value set {}", set.name), None);
            for field in &set.fields {
                checkpoint();
                let check = self.scalar(field.ty);
                self.tell(check);
            }
        }
    }

    pub(super) fn tables(&mut self) {
        let mut direct = std::collections::HashSet::new();
        for table in self.program.tables.values() {
            checkpoint();
            self.enter(format!("table {}", table.name), table.loc);
            let check = self.table(table);
            self.tell(check);
            for id in [table.direct_counter, table.direct_meter]
                .into_iter()
                .flatten()
            {
                if !direct.insert(id) {
                    self.tell(Err(
                        "its direct extern belongs to another table too".to_owned()
                    ));
                }
            }
        }
    }

    fn table(&mut self, table: &Table) -> Check {
        let mut keys = Vec::new();
        for key in &table.keys {
            checkpoint();
            let ty = self
                .expr(&key.expr, None)
                .map_err(|e| format!("key {}: {e}", key.name))?;
            if key.match_kind != MatchKind::Selector {
                keys.push((ty, key.match_kind));
            }
        }
        for action in &table.actions {
            checkpoint();
            there(&self.program.actions, action.action, "action")?;
        }
        self.action_call(table, &table.default, ActionScope::TableOnly)
            .map_err(|e| format!("default action: {e}"))?;
        for (at, entry) in table.entries.iter().enumerate() {
            checkpoint();
            self.entry(table, &keys, entry)
                .map_err(|e| format!("entry {at}: {e}"))?;
        }
        if table.mirror == Some(0) {
            return Err("a mirrored table has at least one entry in the switch".to_owned());
        }
        self.table_externs(table)?;
        self.table_code(table)
    }

    /// Checks that a call has all arguments, and that its action does not have the scope `refused`.
    fn action_call(&self, table: &Table, call: &ActionCall, refused: ActionScope) -> Check {
        let chosen = table
            .actions
            .get(call.action)
            .ok_or("the table has no such action")?;
        if chosen.scope == refused {
            return Err("the action may not be used here".to_owned());
        }
        let action = there(&self.program.actions, chosen.action, "action")?;
        if action.params.len() != call.args.len() {
            return Err(format!(
                "{} takes {} arguments",
                action.name,
                action.params.len()
            ));
        }
        let mut both = action.params.iter().zip(&call.args);
        both.try_for_each(|(param, value)| self.value_of(param.ty, value))
    }

    fn entry(&self, table: &Table, keys: &[(ScalarTy, MatchKind)], entry: &Entry) -> Check {
        if keys.len() != entry.keys.len() {
            return Err(format!("{} expected", count_are(keys.len() as u64, "key")));
        }
        for ((ty, kind), m) in keys.iter().zip(&entry.keys) {
            checkpoint();
            self.key_match(*ty, *kind, m)?;
        }
        self.action_call(table, &entry.action, ActionScope::DefaultOnly)
    }

    fn key_match(&self, ty: ScalarTy, kind: MatchKind, m: &KeyMatch) -> Check {
        use KeyMatch as M;
        use MatchKind as K;
        match (kind, m) {
            (K::Lpm | K::Ternary | K::Range | K::Optional, M::Any) => Ok(()),
            (_, M::Exact(v)) => self.value_of(ty, v),
            (K::Lpm, M::Lpm(_, len)) if *len > ty.width() => {
                Err(format!("a prefix of {len} bits is too long"))
            }
            (K::Lpm, M::Lpm(v, _)) => self.value_of(ty, v),
            (K::Ternary, M::Ternary(a, b)) => {
                self.value_of(ty, a).and_then(|()| self.value_of(ty, b))
            }
            (K::Range, M::Range(a, b)) => {
                self.value_of(ty, a)?;
                self.value_of(ty, b)?;
                let order = bits::limbs::cmp_signed(a.limbs(), b.limbs(), ty.width());
                let order = if ty.is_signed() { order } else { a.cmp(b) };
                if order.is_gt() {
                    return Err("a range ends before it begins".to_owned());
                }
                Ok(())
            }
            _ => Err(format!("a key of kind {kind:?} does not match so")),
        }
    }

    fn table_externs(&self, table: &Table) -> Check {
        let kind = |id: Option<ExternId>| match id {
            None => Ok(None),
            Some(id) => there(&self.program.externs, id, "extern").map(|e| Some(&e.kind)),
        };
        use ExternKind as K;
        let fits = matches!(
            kind(table.implementation)?,
            None | Some(K::ActionProfile { .. } | K::ActionSelector { .. } | K::TableKind { .. })
        ) && matches!(
            kind(table.direct_counter)?,
            None | Some(K::DirectCounter { .. })
        ) && matches!(
            kind(table.direct_meter)?,
            None | Some(K::DirectMeter { .. })
        );
        if fits {
            Ok(())
        } else {
            Err("an extern of the wrong kind is attached".to_owned())
        }
    }
}
