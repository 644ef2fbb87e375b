//! Prints a program as text, complete and stable: `read(print(p)) == p`.
//!
//! Items are named as in P4. A name that is not unique among its kind, or an id that is out of
//! range, is written `#number`. Source positions follow their item as `@line:column`, or as
//! `@file:line:column` outside the first file.

mod code;
mod names;

use std::fmt::{self, Display, Write};

use bits::{Id, IdVec, Value};

use crate::program::*;
use crate::types::*;
use crate::words::{Word, is_bare};
use names::Refs;

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Printer::new(self).print())
    }
}

impl Program {
    /// Returns an expression of this program as text. Parameters of an action are written as `%`
    /// and their position.
    pub fn expr_text(&self, expr: &crate::code::Expr) -> String {
        Printer::new(self).expr(expr)
    }

    /// Returns the text without files and source positions: programs that differ in them alone have
    /// the same.
    pub fn text_without_positions(&self) -> String {
        let printer = Printer {
            has_positions: false,
            ..Printer::new(self)
        };
        printer.print()
    }
}

/// Text under construction.
struct Printer<'a> {
    program: &'a Program,
    refs: Refs,
    /// Names of the current action's parameters.
    params: Vec<String>,
    indent: usize,
    has_positions: bool,
    out: String,
}

/// Returns `text` between double quotes.
fn text(text: &str) -> String {
    quoted(text, '"')
}

/// Returns `name`, between single quotes if it needs them.
fn name(name: &str) -> String {
    if is_bare(name) {
        name.to_owned()
    } else {
        quoted(name, '\'')
    }
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Formats a value with its width, in P4 syntax.
fn value(value: &Value) -> String {
    format!("{value:?}")
}

fn list<T>(items: impl IntoIterator<Item = T>, each: impl FnMut(T) -> String) -> String {
    items.into_iter().map(each).collect::<Vec<_>>().join(", ")
}

fn data_ty(ty: &DataTy) -> String {
    match ty {
        DataTy::Bit(w) => format!("bit<{w}>"),
        DataTy::Int(w) => format!("int<{w}>"),
        DataTy::Varbit(w) => format!("varbit<{w}>"),
        DataTy::Bool => "bool".to_owned(),
        DataTy::Error => "error".to_owned(),
        DataTy::Tuple(items) => format!("tuple<{}>", list(items, data_ty)),
        DataTy::Named(n) => name(n),
        DataTy::Stack(n, len) => format!("stack<{}, {len}>", name(n)),
    }
}

fn annotation(annotation: &Annotation) -> String {
    let value = |v: &AnnotationValue| match v {
        AnnotationValue::String(s) => text(s),
        AnnotationValue::Int(number) => format!("int {}", text(number)),
        AnnotationValue::Bool(b) => b.to_string(),
    };
    let body = match &annotation.body {
        AnnotationBody::None => String::new(),
        AnnotationBody::Text(s) => format!("({})", text(s)),
        AnnotationBody::Expressions(values) => format!("[{}]", list(values, value)),
        AnnotationBody::KeyValues(pairs) => {
            format!(
                "{{{}}}",
                list(pairs, |(key, v)| format!("{} = {}", name(key), value(v)))
            )
        }
    };
    let called = if annotation.name.contains('[') {
        quoted(&annotation.name, '\'')
    } else {
        name(&annotation.name)
    };
    format!("@{called}{body}")
}

/// Formats the annotations, each after a space.
fn annotations(all: &[Annotation]) -> String {
    all.iter().map(|a| format!(" {}", annotation(a))).collect()
}

/// Returns the type that the control plane sees for a scalar, unless declared otherwise.
pub(crate) fn natural_data_ty(program: &Program, ty: ScalarTy) -> Option<DataTy> {
    Some(match ty {
        ScalarTy::Bit(w) => DataTy::Bit(w),
        ScalarTy::Int(w) => DataTy::Int(w),
        ScalarTy::Varbit(w) => DataTy::Varbit(w),
        ScalarTy::Bool => DataTy::Bool,
        ScalarTy::Error => DataTy::Error,
        ScalarTy::Enum(id) => DataTy::Named(program.enums.get(id)?.name.clone()),
    })
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program) -> Self {
        Printer {
            program,
            refs: Refs::of(program),
            params: Vec::new(),
            indent: 0,
            has_positions: true,
            out: String::new(),
        }
    }

    /// Formats the source position, after a space.
    fn loc(&self, loc: Option<Loc>) -> String {
        match loc.filter(|_| self.has_positions) {
            None => String::new(),
            Some(Loc {
                file: 0,
                line,
                column,
            }) => format!(" @{line}:{column}"),
            Some(Loc { file, line, column }) => format!(" @{file}:{line}:{column}"),
        }
    }

    fn print(mut self) -> String {
        let p = self.program;
        self.line(format_args!("program {} {}", name(&p.name), p.arch.word()));
        if self.has_positions {
            for file in &p.files {
                self.line(format_args!("file {}", text(file)));
            }
        }
        for a in &p.annotations {
            self.line(format_args!("annotation {}", annotation(a)));
        }
        self.types();
        for constant in &p.constants {
            let ty = self.ty(constant.ty);
            let (name, value) = (name(&constant.name), value(&constant.value));
            self.line(format_args!("constant {name}: {ty} = {value}"));
        }
        self.storage();
        self.value_sets();
        self.externs();
        p.actions.values().for_each(|a| self.action(a));
        p.tables.values().for_each(|t| self.table(t));
        p.parsers.values().for_each(|parser| self.parser(parser));
        p.controls.values().for_each(|c| self.control(c));
        self.pipeline();
        self.out
    }

    /// Writes a line.
    fn line(&mut self, line: fmt::Arguments<'_>) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(line);
        self.out.push('\n');
    }

    /// Writes `head {`, the output of `body`, and `}`.
    fn braces(&mut self, head: fmt::Arguments<'_>, body: impl FnOnce(&mut Self)) {
        self.line(format_args!("{head} {{"));
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.line(format_args!("}}"));
    }

    fn ty(&self, ty: ScalarTy) -> String {
        match ty {
            ScalarTy::Bit(w) => format!("bit<{w}>"),
            ScalarTy::Int(w) => format!("int<{w}>"),
            ScalarTy::Varbit(w) => format!("varbit<{w}>"),
            ScalarTy::Bool => "bool".to_owned(),
            ScalarTy::Error => "error".to_owned(),
            ScalarTy::Enum(id) => format!("enum {}", names::get(&self.refs.enums, id)),
        }
    }

    /// Formats a scalar type, and its control-plane type if that differs.
    fn ty_as(&self, ty: ScalarTy, seen: &DataTy) -> String {
        if natural_data_ty(self.program, ty).as_ref() == Some(seen) {
            self.ty(ty)
        } else {
            format!("{} as {}", self.ty(ty), data_ty(seen))
        }
    }

    fn types(&mut self) {
        let p = self.program;
        self.line(format_args!("errors {{{}}}", list(&p.errors, |e| name(e))));
        for e in p.enums.values() {
            self.line(format_args!(
                "enum {} {{{}}}",
                name(&e.name),
                list(&e.members, |m| name(m))
            ));
        }
        for t in &p.named_types {
            let head = format!("{}{}", name(&t.name), annotations(&t.annotations));
            self.named_type(&head, &t.kind);
        }
        for t in p.header_types.values() {
            self.braces(
                format_args!(
                    "header_type {}{}",
                    name(&t.name),
                    annotations(&t.annotations)
                ),
                |s| {
                    for f in &t.fields {
                        s.line(format_args!(
                            "{}: {}{};",
                            name(&f.name),
                            s.ty_as(f.ty, &f.data_ty),
                            annotations(&f.annotations)
                        ));
                    }
                },
            );
        }
    }

    fn named_type(&mut self, head: &str, kind: &NamedTypeKind) {
        let fields = |fields: &[(String, DataTy)]| {
            list(fields, |(n, ty)| format!("{}: {}", name(n), data_ty(ty)))
        };
        match kind {
            NamedTypeKind::Struct(all) => {
                self.line(format_args!("type struct {head} {{{}}}", fields(all)));
            }
            NamedTypeKind::Header(all) => {
                self.line(format_args!("type header {head} {{{}}}", fields(all)));
            }
            NamedTypeKind::HeaderUnion(members) => self.line(format_args!(
                "type header_union {head} {{{}}}",
                list(members, |(n, ty)| format!("{}: {}", name(n), name(ty)))
            )),
            NamedTypeKind::Enum(members) => self.line(format_args!(
                "type enum {head} {{{}}}",
                list(members, |m| name(m))
            )),
            NamedTypeKind::SerializableEnum {
                width,
                signed,
                members,
            } => {
                let base = if *signed { "int" } else { "bit" };
                let members = list(members, |(n, v)| format!("{} = {}", name(n), value(v)));
                self.line(format_args!(
                    "type serializable_enum {head} {base}<{width}> {{{members}}}"
                ));
            }
            NamedTypeKind::NewType {
                underlying,
                translation,
            } => {
                let translation = translation.as_ref().map_or(String::new(), |t| {
                    let controller = match t.controller {
                        ControllerTy::Bits(w) => format!("bits {w}"),
                        ControllerTy::String => "string".to_owned(),
                    };
                    format!(" translation {} {controller}", text(&t.uri))
                });
                self.line(format_args!(
                    "type new {head} {}{translation};",
                    data_ty(underlying)
                ));
            }
        }
    }

    /// Prints the fields in order. A header is one line if it is the next header in order and its
    /// fields have names derived from its own.
    fn storage(&mut self) {
        let p = self.program;
        let mut next_header = HeaderId::new(0);
        let mut id = FieldId::new(0);
        while let Some(field) = p.fields.get(id) {
            match self.plain_header(next_header, id) {
                Some(len) => {
                    let header = &p.headers[next_header];
                    self.line(format_args!(
                        "header {}: {}",
                        name(&header.name),
                        names::get(&self.refs.header_types, header.ty)
                    ));
                    next_header = HeaderId::from_index(next_header.index() + 1);
                    id = FieldId::from_index(id.index() + len);
                }
                None => {
                    self.line(format_args!(
                        "field {}: {}",
                        name(&field.name),
                        self.ty(field.ty)
                    ));
                    id = FieldId::from_index(id.index() + 1);
                }
            }
        }
        for header in p.headers.values().skip(next_header.index()) {
            self.line(format_args!(
                "header {}: {} at {}",
                name(&header.name),
                names::get(&self.refs.header_types, header.ty),
                names::get(&self.refs.fields, header.valid)
            ));
        }
        for stack in p.stacks.values() {
            self.line(format_args!(
                "stack {}: {} from {} next {}",
                name(&stack.name),
                stack.len,
                names::get(&self.refs.headers, stack.first),
                names::get(&self.refs.fields, stack.next_index)
            ));
        }
    }

    /// Returns the number of fields of `header`, if it begins at `first` and its line implies them.
    fn plain_header(&self, header: HeaderId, first: FieldId) -> Option<usize> {
        let p = self.program;
        let header = p.headers.get(header).filter(|h| h.valid == first)?;
        let ty = p.header_types.get(header.ty)?;
        let implied = implied_fields(header, ty);
        let there = p.fields.as_slice().get(first.index()..)?;
        (there.len() >= implied.len() && implied.iter().eq(&there[..implied.len()]))
            .then_some(implied.len())
    }

    fn value_sets(&mut self) {
        for set in self.program.value_sets.values() {
            self.braces(
                format_args!(
                    "value_set {} size {} as {}{}",
                    name(&set.name),
                    set.size,
                    data_ty(&set.data_ty),
                    annotations(&set.annotations)
                ),
                |s| {
                    for f in &set.fields {
                        s.line(format_args!(
                            "{}: {} {}{};",
                            name(&f.name),
                            s.ty(f.ty),
                            f.match_kind.word(),
                            annotations(&f.annotations)
                        ));
                    }
                },
            );
        }
    }

    fn externs(&mut self) {
        for e in self.program.externs.values() {
            self.line(format_args!(
                "extern {}: {}{}{}",
                name(&e.name),
                self.extern_kind(&e.kind),
                annotations(&e.annotations),
                self.loc(e.loc)
            ));
        }
    }

    fn extern_kind(&self, kind: &ExternKind) -> String {
        let index = |ty: &Option<DataTy>| {
            ty.as_ref()
                .map_or(String::new(), |ty| format!(" index {}", data_ty(ty)))
        };
        match kind {
            ExternKind::Counter {
                unit,
                size,
                index_ty,
            } => format!("counter {} size {size}{}", unit.word(), index(index_ty)),
            ExternKind::DirectCounter { unit } => format!("direct_counter {}", unit.word()),
            ExternKind::Meter {
                unit,
                size,
                index_ty,
            } => format!("meter {} size {size}{}", unit.word(), index(index_ty)),
            ExternKind::DirectMeter { unit } => format!("direct_meter {}", unit.word()),
            ExternKind::Register {
                cell,
                size,
                initial,
                data_ty: seen,
                index_ty,
            } => format!(
                "register ({}) size {size} initial ({}) as {}{}",
                list(cell, |ty| self.ty(*ty)),
                list(initial, value),
                data_ty(seen),
                index(index_ty)
            ),
            ExternKind::ActionProfile { size } => format!("action_profile size {size}"),
            ExternKind::ActionSelector {
                size,
                width,
                algorithm,
            } => format!(
                "action_selector size {size} width {width} {}",
                algorithm.word()
            ),
            ExternKind::Hash { algorithm, width } => {
                format!("hash width {width} {}", algorithm.word())
            }
            ExternKind::Checksum { algorithm, width } => {
                format!("checksum width {width} {}", algorithm.word())
            }
            ExternKind::InternetChecksum => "internet_checksum".to_owned(),
            ExternKind::Random { min, max } => format!("random {} .. {}", value(min), value(max)),
            ExternKind::Digest {
                fields,
                data_ty: seen,
            } => format!(
                "digest ({}) as {}",
                list(fields, |ty| self.ty(*ty)),
                data_ty(seen)
            ),
            ExternKind::TableKind { size, is_array } => {
                let kind = if *is_array {
                    "array_table"
                } else {
                    "hash_table"
                };
                format!("{kind} size {size}")
            }
            ExternKind::Handler { request, response } => {
                let (request, response) = (self.record(request), self.record(response));
                format!("handler request {request} response {response}")
            }
        }
    }

    fn record(&self, record: &HandlerRecord) -> String {
        let fields = list(&record.fields, |field| {
            let ty = match &field.ty {
                HandlerFieldTy::Scalar(ty) => self.ty(*ty),
                HandlerFieldTy::Float(ty) => format!("float {}", self.ty(*ty)),
                HandlerFieldTy::Record(record) => format!("record {}", self.record(record)),
            };
            let annotations = annotations(&field.annotations);
            format!("{}: {ty}{annotations}", name(&field.name))
        });
        format!("{} {{{fields}}}", name(&record.name))
    }

    fn action(&mut self, action: &'a Action) {
        self.params = names::of(action.params.iter().map(|p| p.name.as_str()));
        let control_plane_name = if action.control_plane_name == action.name {
            String::new()
        } else {
            format!(" as {}", name(&action.control_plane_name))
        };
        let params = list(&action.params, |p| {
            format!(
                "{}: {}{}",
                name(&p.name),
                self.ty_as(p.ty, &p.data_ty),
                annotations(&p.annotations)
            )
        });
        self.braces(
            format_args!(
                "action {}{control_plane_name}({params}){}{}",
                name(&action.name),
                annotations(&action.annotations),
                self.loc(action.loc)
            ),
            |s| s.stmts(&action.body),
        );
        self.params.clear();
    }

    fn table(&mut self, t: &'a Table) {
        let head = format!(
            "table {}{}{}",
            name(&t.name),
            annotations(&t.annotations),
            self.loc(t.loc)
        );
        self.braces(format_args!("{head}"), |s| {
            for key in &t.keys {
                s.line(format_args!(
                    "key {}: {} as {} = {}{};",
                    name(&key.name),
                    key.match_kind.word(),
                    data_ty(&key.data_ty),
                    s.expr(&key.expr),
                    annotations(&key.annotations)
                ));
            }
            for action in &t.actions {
                s.line(format_args!(
                    "action {} {}{};",
                    names::get(&s.refs.actions, action.action),
                    action.scope.word(),
                    annotations(&action.annotations)
                ));
            }
            let constant = if t.default_is_const { " const" } else { "" };
            s.line(format_args!(
                "default{constant} {};",
                s.action_call(t, &t.default)
            ));
            t.entries.iter().for_each(|e| s.entry(t, e));
            s.table_properties(t);
        });
    }

    fn entry(&mut self, table: &Table, entry: &Entry) {
        let matches = list(&entry.keys, |m| match m {
            KeyMatch::Any => "_".to_owned(),
            KeyMatch::Exact(v) => value(v),
            KeyMatch::Lpm(v, len) => format!("{} / {len}", value(v)),
            KeyMatch::Ternary(v, mask) => format!("{} &&& {}", value(v), value(mask)),
            KeyMatch::Range(lo, hi) => format!("{} .. {}", value(lo), value(hi)),
        });
        let priority = entry
            .priority
            .map_or(String::new(), |p| format!(" priority {p}"));
        let constant = if entry.is_const { " const" } else { "" };
        self.line(format_args!(
            "entry ({matches}) -> {}{priority}{constant};",
            self.action_call(table, &entry.action)
        ));
    }

    fn action_call(&self, table: &Table, call: &ActionCall) -> String {
        let actions = names::of(table.actions.iter().map(|a| {
            self.program
                .actions
                .get(a.action)
                .map_or("", |a| a.name.as_str())
        }));
        format!(
            "{}({})",
            names::at(&actions, call.action),
            list(&call.args, value)
        )
    }

    fn table_properties(&mut self, t: &Table) {
        let declared = if t.size_is_declared { " declared" } else { "" };
        self.line(format_args!("size {}{declared};", t.size));
        let externs = [
            ("implementation", t.implementation),
            ("direct_counter", t.direct_counter),
            ("direct_meter", t.direct_meter),
        ];
        for (property, id) in externs {
            if let Some(id) = id {
                self.line(format_args!(
                    "{property} {};",
                    names::get(&self.refs.externs, id)
                ));
            }
        }
        let flags = [
            ("const_entries", t.entries_are_const),
            ("largest_priority_wins", t.largest_priority_wins),
            ("idle_timeout", t.idle_timeout),
            ("add_on_miss", t.add_on_miss),
        ];
        for (property, set) in flags {
            if set {
                self.line(format_args!("{property};"));
            }
        }
        if let Some(entries) = t.mirror {
            self.line(format_args!("mirror {entries};"));
        }
    }

    fn pipeline(&mut self) {
        let pipeline = &self.program.pipeline;
        self.steps();
        for block in &pipeline.blocks {
            let step = match pipeline.steps.is_empty() {
                true => String::new(),
                false => format!(" of {}", names::get(&self.refs.steps, block.step)),
            };
            let code = match block.code {
                BlockCode::Parser(id) => format!("parser {}", names::get(&self.refs.parsers, id)),
                BlockCode::Control(id) => {
                    format!("control {}", names::get(&self.refs.controls, id))
                }
            };
            self.line(format_args!("block {}{step} = {code}", block.role.word()));
        }
        for (key, field) in &pipeline.intrinsics {
            self.line(format_args!(
                "intrinsic {} = {}",
                name(key),
                names::get(&self.refs.fields, *field)
            ));
        }
        for t in &pipeline.transfers {
            self.line(format_args!(
                "transfer {} ({}) -> ({})",
                t.path.word(),
                self.fields(&t.from),
                self.fields(&t.to)
            ));
        }
        for (number, fields) in &pipeline.field_lists {
            self.line(format_args!(
                "field_list {number} ({})",
                self.fields(fields)
            ));
        }
    }

    fn steps(&mut self) {
        let steps = &self.program.pipeline.steps;
        if steps.is_empty() {
            return;
        }
        let names = list(steps.values(), |step| name(&step.name));
        self.line(format_args!("steps {{{names}}}"));
        for (id, step) in steps.iter() {
            let next = self.step_next(&step.next);
            self.line(format_args!(
                "next {} -> {next}",
                names::get(&self.refs.steps, id)
            ));
        }
    }

    fn step_next(&self, next: &StepNext) -> String {
        let to = |step: StepId| names::get(&self.refs.steps, step);
        match next {
            StepNext::End => "end".to_owned(),
            StepNext::Step(step) => to(*step),
            StepNext::Branch { arms, otherwise } => {
                let arm = |(field, step): &(FieldId, StepId)| {
                    let field = names::get(&self.refs.fields, *field);
                    format!("if {field} {}, ", to(*step))
                };
                let arms: String = arms.iter().map(arm).collect();
                format!("({arms}else {})", to(*otherwise))
            }
        }
    }

    fn fields(&self, fields: &[FieldId]) -> String {
        list(fields, |f| names::get(&self.refs.fields, *f))
    }
}

/// Returns the fields that a header has if their names are derived from its own: validity first.
pub(crate) fn implied_fields(header: &Header, ty: &HeaderType) -> Vec<Field> {
    let own = ty.fields.iter().map(|f| (f.name.as_str(), f.ty));
    std::iter::once(("$valid$", ScalarTy::Bool))
        .chain(own)
        .map(|(field, ty)| Field {
            name: format!("{}.{field}", header.name),
            ty,
        })
        .collect()
}

/// Returns the references to all items of an [`IdVec`].
fn names_of<I: Id, T>(things: &IdVec<I, T>, name: impl Fn(&T) -> &str) -> Vec<String> {
    names::of(things.values().map(name))
}
