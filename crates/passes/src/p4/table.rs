//! Tables, actions and extern instances.

use bits::Value;
use ir::{
    Action, ActionCall, ActionScope, CounterUnit, DataTy, Entry, Extern, ExternId, ExternKind, Key,
    KeyMatch, MatchKind, Op, Operand, Program, ScalarTy, Stmt, StmtKind, Table,
};

use super::PrintError;
use super::body::{Body, print};
use super::call::algorithm;
use super::expr::Term;
use super::flow;
use super::names::{Names, quoted};
use super::text::{Text, annotations};
use super::types::Types;

/// Returns true if the text leaves out the default action of a table: it is the implicit one of a
/// table that declares none.
pub(super) fn has_implicit_default(program: &Program, table: &Table) -> bool {
    let Some(last) = table.actions.last() else {
        return false;
    };
    last.scope == ActionScope::DefaultOnly
        && last.annotations.is_empty()
        && table.default.action + 1 == table.actions.len()
        && !table.default_is_const
        && is_no_action(&program.actions[last.action])
}

/// Returns true for `NoAction` of `core.p4`.
pub(super) fn is_no_action(action: &Action) -> bool {
    action.control_plane_name == "NoAction" && action.params.is_empty() && action.body.is_empty()
}

/// Returns `@name` for a declaration in a control, with a blank after it; nothing if the
/// declaration's own name gives that.
pub(super) fn name_annotation(full: &str, path: &str, ident: &str) -> String {
    let own = match path {
        "" => ident.to_owned(),
        path => format!("{path}.{ident}"),
    };
    match own == full {
        true => String::new(),
        false => format!("@name({}) ", quoted(&format!(".{full}"))),
    }
}

impl Body<'_> {
    /// Prints an action.
    pub(super) fn print_action(
        &mut self,
        action: &Action,
        path: &str,
        ident: &str,
        text: &mut Text,
    ) -> Result<(), PrintError> {
        let mut params = Vec::new();
        for (param, name) in action.params.iter().zip(&self.params) {
            let mut line = annotations(&param.annotations);
            if param.name != *name {
                line += &format!("@name({}) ", quoted(&param.name));
            }
            let ty = self.types.declared(param.ty, &param.data_ty);
            params.push(format!("{line}{ty} {name}"));
        }
        let out = self.body(flow::of_body(&action.body))?;
        let head = annotations(&action.annotations);
        let name = name_annotation(&action.control_plane_name, path, ident);
        let params = params.join(", ");
        text.block(&format!("{head}{name}action {ident}({params})"), |text| {
            print(&out, text);
        });
        text.blank();
        Ok(())
    }

    /// Prints a table.
    pub(super) fn print_table(
        &mut self,
        table: &Table,
        path: &str,
        ident: &str,
        text: &mut Text,
    ) -> Result<(), PrintError> {
        self.loc.set(table.loc);
        if table.add_on_miss {
            return Err(self.error("`add_on_miss`"));
        }
        let head = annotations(&table.annotations);
        let name = name_annotation(&table.name, path, ident);
        text.open(&format!("{head}{name}table {ident}"));
        if !table.keys.is_empty() {
            text.open("key =");
            for key in &table.keys {
                text.line(self.key(key)?);
            }
            text.close("}");
        }
        let is_implicit = has_implicit_default(self.program, table);
        text.open("actions =");
        for (at, listed) in table.actions.iter().enumerate() {
            if is_implicit && at + 1 == table.actions.len() {
                continue;
            }
            let mut line = annotations(&listed.annotations);
            let is_annotated = |word: &str| {
                let mut names = listed.annotations.iter();
                names.any(|annotation| annotation.name == word)
            };
            let word = match listed.scope {
                ActionScope::TableAndDefault => "",
                ActionScope::TableOnly => "tableonly",
                ActionScope::DefaultOnly => "defaultonly",
            };
            if !word.is_empty() && !is_annotated(word) {
                line += &format!("@{word} ");
            }
            text.line(format!("{line}{};", self.action_name(listed.action)?));
        }
        text.close("}");
        if !is_implicit {
            let word = if table.default_is_const { "const " } else { "" };
            let call = self.action_call(table, &table.default)?;
            text.line(format!("{word}default_action = {call};"));
        }
        if table.size_is_declared {
            text.line(format!("size = {};", table.size));
        }
        let attached = [
            ("implementation", table.implementation),
            ("counters", table.direct_counter),
            ("meters", table.direct_meter),
        ];
        for (property, instance) in attached {
            if let Some(id) = instance {
                text.line(format!("{property} = {};", self.externs[id]));
            }
        }
        if table.idle_timeout {
            text.line("support_timeout = true;");
        }
        self.entries(table, text)?;
        text.close("}");
        text.blank();
        Ok(())
    }

    fn key(&self, key: &Key) -> Result<String, PrintError> {
        let term = self.term(&key.expr)?;
        let expr = self.key_value(key, term);
        let kind = key.match_kind.name();
        let name = quoted(&key.name);
        let more = annotations(&key.annotations);
        let line = format!("{expr}: {kind} @name({name}) {more}");
        Ok(format!("{};", line.trim_end()))
    }

    /// Returns a value of a key, of the type that the control plane sees.
    fn key_value(&self, key: &Key, term: Term) -> String {
        self.value_of_named(&key.data_ty, term).text
    }

    fn action_call(&self, table: &Table, call: &ActionCall) -> Result<String, PrintError> {
        let id = table.actions[call.action].action;
        let name = self.action_name(id)?;
        let params = &self.program.actions[id].params;
        let mut args = Vec::new();
        for (value, param) in call.args.iter().zip(params) {
            let term = self.constant(param.ty, value)?;
            args.push(self.value_of_named(&param.data_ty, term).text);
        }
        Ok(format!("{name}({})", args.join(", ")))
    }

    fn entries(&self, table: &Table, text: &mut Text) -> Result<(), PrintError> {
        if !table.largest_priority_wins && !table.entries.is_empty() {
            text.line("largest_priority_wins = false;");
        }
        if table.entries.is_empty() {
            if table.entries_are_const {
                text.block("const entries =", |_| {});
            }
            return Ok(());
        }
        let mut entries: Vec<&Entry> = table.entries.iter().collect();
        if table.entries_are_const {
            // Their order decides.
            match table.largest_priority_wins {
                true => entries.sort_by_key(|entry| std::cmp::Reverse(entry.priority)),
                false => entries.sort_by_key(|entry| entry.priority),
            }
        }
        let word = if table.entries_are_const {
            "const "
        } else {
            ""
        };
        text.open(&format!("{word}entries ="));
        for entry in entries {
            text.line(self.entry(table, entry)?);
        }
        text.close("}");
        Ok(())
    }

    fn entry(&self, table: &Table, entry: &Entry) -> Result<String, PrintError> {
        let mut matches = entry.keys.iter();
        let mut sets = Vec::new();
        for key in &table.keys {
            if key.match_kind == MatchKind::Selector {
                sets.push("_".to_owned());
                continue;
            }
            let ty = self.ty(&key.expr)?;
            let one = matches.next().unwrap_or(&KeyMatch::Any);
            sets.push(self.key_match(key, ty, one)?);
        }
        let sets = match sets.as_slice() {
            [only] => only.clone(),
            _ => format!("({})", sets.join(", ")),
        };
        let call = self.action_call(table, &entry.action)?;
        let mut head = String::new();
        if !table.entries_are_const {
            if entry.is_const {
                head += "const ";
            }
            if let Some(priority) = entry.priority {
                head += &format!("priority={priority}: ");
            }
        }
        Ok(format!("{head}{sets}: {call};"))
    }

    fn key_match(&self, key: &Key, ty: ScalarTy, one: &KeyMatch) -> Result<String, PrintError> {
        let value = |value: &Value| -> Result<String, PrintError> {
            Ok(self.key_value(key, self.constant(ty, value)?))
        };
        Ok(match one {
            KeyMatch::Any => "_".to_owned(),
            KeyMatch::Exact(exact) => value(exact)?,
            KeyMatch::Lpm(prefix, len) if *len == ty.width() => value(prefix)?,
            KeyMatch::Lpm(prefix, len) => {
                let mask = Value::prefix_mask(*len, ty.width());
                format!("{} &&& {}", value(prefix)?, value(&mask)?)
            }
            KeyMatch::Ternary(all, mask) if *mask == Value::all_ones(ty.width()) => value(all)?,
            KeyMatch::Ternary(some, mask) => format!("{} &&& {}", value(some)?, value(mask)?),
            KeyMatch::Range(low, high) if low == high => value(low)?,
            KeyMatch::Range(low, high) => format!("{} .. {}", value(low)?, value(high)?),
        })
    }
}

/// Prints the declaration of an extern instance. Digests have none.
pub(super) fn print_extern(
    program: &Program,
    types: &Types<'_>,
    id: ExternId,
    (path, ident): (&str, &str),
    text: &mut Text,
) -> Result<(), PrintError> {
    let made = &program.externs[id];
    let Some((ty, args)) = declaration(program, types, id, made)? else {
        return Ok(());
    };
    let head = annotations(&made.annotations);
    let name = name_annotation(&made.name, path, ident);
    text.line(format!("{head}{name}{ty}({args}) {ident};"));
    Ok(())
}

fn declaration(
    program: &Program,
    types: &Types<'_>,
    id: ExternId,
    made: &Extern,
) -> Result<Option<(String, String)>, PrintError> {
    let unit = |unit: CounterUnit| match unit {
        CounterUnit::Packets => "packets",
        CounterUnit::Bytes => "bytes",
        CounterUnit::Both => "packets_and_bytes",
    };
    let is_indexed = has_index_types(program);
    let index = |ty: &Option<DataTy>| match (ty, is_indexed) {
        (Some(ty), _) => types.data(ty),
        (None, true) => "bit<32>".to_owned(),
        (None, false) => String::new(),
    };
    let of = |parts: &[String]| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("<{}>", parts.join(", ")),
        }
    };
    let error = |what: &str| PrintError::new(what, format!("extern `{}`", made.name));
    Ok(Some(match &made.kind {
        ExternKind::Counter {
            unit: of_counter,
            size,
            index_ty,
        } => (
            format!("counter{}", of(&[index(index_ty)])),
            format!("{size}, CounterType.{}", unit(*of_counter)),
        ),
        ExternKind::DirectCounter { unit: of_counter } => (
            "direct_counter".to_owned(),
            format!("CounterType.{}", unit(*of_counter)),
        ),
        ExternKind::Meter {
            unit: of_meter,
            size,
            index_ty,
        } => (
            format!("meter{}", of(&[index(index_ty)])),
            format!("{size}, MeterType.{}", unit(*of_meter)),
        ),
        ExternKind::DirectMeter { unit: of_meter } => (
            format!("direct_meter<{}>", types.scalar(color_ty(program, id))),
            format!("MeterType.{}", unit(*of_meter)),
        ),
        ExternKind::Register {
            size,
            data_ty,
            index_ty,
            initial,
            ..
        } => {
            if initial.iter().any(|value| !value.is_zero()) {
                return Err(error("a register with an initial value"));
            }
            (
                format!("register{}", of(&[types.data(data_ty), index(index_ty)])),
                size.to_string(),
            )
        }
        ExternKind::ActionProfile { size } => ("action_profile".to_owned(), size.to_string()),
        ExternKind::ActionSelector {
            size,
            width,
            algorithm: number,
        } => {
            let name = algorithm(*number)
                .ok_or_else(|| error("a hash algorithm that v1model does not have"))?;
            (
                "action_selector".to_owned(),
                format!("{name}, {size}, {width}"),
            )
        }
        ExternKind::InternetChecksum => ("Checksum16".to_owned(), String::new()),
        ExternKind::Digest { .. } => return Ok(None),
        ExternKind::Hash { .. } => return Err(error("a hash engine")),
        ExternKind::Checksum { .. } => return Err(error("a checksum engine")),
        ExternKind::Random { .. } => return Err(error("a random source")),
        ExternKind::TableKind { .. } => return Err(error("a table implementation of eBPF")),
        // Its calls are refused.
        ExternKind::Handler { .. } => return Ok(None),
    }))
}

/// Returns true if arrays have types for their indices, as in v1model since version 20200408.
pub(super) fn has_index_types(program: &Program) -> bool {
    program.externs.values().any(|made| {
        matches!(
            made.kind,
            ExternKind::Counter {
                index_ty: Some(_),
                ..
            } | ExternKind::Meter {
                index_ty: Some(_),
                ..
            } | ExternKind::Register {
                index_ty: Some(_),
                ..
            }
        )
    })
}

/// Returns the type of the colour that a direct meter yields: that of the first place that gets it.
fn color_ty(program: &Program, meter: ExternId) -> ScalarTy {
    let actions = program.actions.values();
    let mut found = actions.filter_map(|action| color_in(program, &action.body, meter));
    found.next().unwrap_or(ScalarTy::Bit(32))
}

fn color_in(program: &Program, body: &[Stmt], meter: ExternId) -> Option<ScalarTy> {
    body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Call(call)
            if call.op == Op::DirectMeterExecute && call.instance == Some(meter) =>
        {
            match call.operands.first() {
                Some(Operand::Out(place)) => place.ty(program),
                _ => None,
            }
        }
        StmtKind::If(_, then, otherwise) => {
            color_in(program, then, meter).or_else(|| color_in(program, otherwise, meter))
        }
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
            color_in(program, body, meter)
        }
        _ => None,
    })
}

/// Names the parameters of an action.
pub(super) fn param_names(action: &Action, names: &mut Names) -> Vec<String> {
    let params = action.params.iter();
    params.map(|param| names.fresh(&param.name)).collect()
}
