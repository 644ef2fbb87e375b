//! Declarations: top level, parsers, controls, tables and extern objects.

use super::cursor::{Failed, Parse, Parser};
use crate::ast::{
    ActionDecl, ActionRef, Annotation, BlockTypeDecl, ConstDecl, ControlDecl, Decl, Direction,
    Entry, EnumDecl, ExternDecl, ForeignDecl, FunctionDecl, FunctionProto, IdentifierListDecl,
    KeyElement, MethodProto, Name, Param, ParserDecl, RecordDecl, RecordField, RecordKind, Select,
    SelectCase, State, Stmt, TableDecl, TableProperty, TablePropertyValue, Transition, TypedefDecl,
    TypedefTarget, ValueSetDecl,
};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::token::{Class, TokenKind};

impl Parser<'_> {
    /// Parses all declarations up to the end of the file.
    pub(crate) fn program(&mut self) -> Vec<Decl> {
        let mut decls = Vec::new();
        while !self.at_end() {
            let before = self.index();
            match self.top_level() {
                Ok(decl) => decls.extend(decl),
                Err(_) => self.skip_declaration(),
            }
            if self.index() == before {
                self.bump();
            }
        }
        decls
    }

    /// Recovers from a top-level error: skips the declaration, or stops before a word that begins
    /// another.
    fn skip_declaration(&mut self) {
        loop {
            self.skip_statement();
            if !self.eat("}") || self.at_end() {
                return;
            }
        }
    }

    fn top_level(&mut self) -> Parse<Option<Decl>> {
        if self.eat(";") {
            return Ok(None);
        }
        let annotations = self.annotations()?;
        let word = if self.kind() == Class::Word {
            self.text()
        } else {
            ""
        };
        let decl = match word {
            "const" => Decl::Const(self.const_decl(annotations)?),
            "extern" => self.extern_decl(annotations)?,
            "action" => Decl::Action(self.action(annotations)?),
            "parser" => self.parser(annotations)?,
            "control" => self.control(annotations)?,
            "package" => self.package(annotations)?,
            "header" | "header_union" | "struct" => Decl::Record(self.record(annotations)?),
            "enum" => Decl::Enum(self.enum_decl(annotations)?),
            "typedef" | "type" => Decl::Typedef(self.typedef(annotations)?),
            "error" if self.text_at(self.index() + 1) == "{" => {
                Decl::Error(self.identifiers(annotations)?)
            }
            "match_kind" if self.text_at(self.index() + 1) == "{" => {
                Decl::MatchKind(self.identifiers(annotations)?)
            }
            "value_set" => Decl::ValueSet(self.value_set(annotations)?),
            _ => self.function_or_instance(annotations)?,
        };
        Ok(Some(decl))
    }

    /// Returns true if a function declaration begins here: a type, a name, optional type
    /// parameters, `(`.
    fn is_function_at(&self, index: usize) -> bool {
        let Some(end) = self.skip_type(index) else {
            return false;
        };
        self.is_name_at(end) && matches!(self.text_at(end + 1), "(" | "<")
    }

    fn function_or_instance(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.span();
        if self.is_function_at(self.index()) {
            return Ok(Decl::Function(self.function(annotations)?));
        }
        if self.skip_type(self.index()).is_none() {
            return Err(self.unexpected("a declaration"));
        }
        let ty = self.type_ref()?;
        if self.is_name() && matches!(self.text_at(self.index() + 1), ";" | "=") {
            self.bump();
            let message = "syntax error: there are no variables at the top level";
            let error = Diagnostic::error("E0123", self.span(), message);
            self.report(error.hint("make it `const`, or declare it in a control or parser"));
            return Err(Failed);
        }
        Ok(Decl::Instance(self.instance_rest(
            annotations,
            ty,
            start,
        )?))
    }

    fn function(&mut self, annotations: Vec<Annotation>) -> Parse<FunctionDecl> {
        let function = self.scoped(|p| {
            let proto = p.prototype(annotations)?;
            p.declare_value(&proto.name);
            let body = p.block(Vec::new())?;
            Ok(FunctionDecl { proto, body })
        })?;
        self.declare_value(&function.proto.name);
        Ok(function)
    }

    /// Parses `typeOrVoid name<..>(..)`. Its declarations stay in scope, for the body.
    fn prototype(&mut self, annotations: Vec<Annotation>) -> Parse<FunctionProto> {
        let start = self.span();
        let ret = Some(self.type_ref()?);
        let name = self.name()?;
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(FunctionProto {
            annotations,
            ret,
            name,
            type_params,
            params,
            span: self.since(start),
        })
    }

    /// Parses a function or an instance in an object's initializer.
    pub(super) fn object_member(&mut self) -> Parse<Option<Decl>> {
        if self.eat(";") {
            return Ok(None);
        }
        let annotations = self.annotations()?;
        self.function_or_instance(annotations).map(Some)
    }

    pub(super) fn const_decl(&mut self, annotations: Vec<Annotation>) -> Parse<ConstDecl> {
        let start = self.expect("const")?;
        let ty = self.type_ref()?;
        let name = self.name()?;
        let ty = self.array_suffix(ty)?;
        self.expect("=")?;
        let init = self.expr()?;
        self.expect(";")?;
        self.declare_value(&name);
        Ok(ConstDecl {
            annotations,
            ty,
            name,
            init,
            span: self.since(start),
        })
    }

    fn extern_decl(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.expect("extern")?;
        if self.kind() == Class::String {
            return self.foreign_block();
        }
        if self.is_extern_object() {
            let name = self.name()?;
            self.declare_type(&name);
            let (type_params, methods) = self.scoped(|p| {
                let type_params = p.type_params()?;
                p.expect("{")?;
                let method = |p: &mut Self| p.scoped(|p| p.method(&name)).map(Some);
                Ok((type_params, p.items_until("}", method)?))
            })?;
            let span = self.since(start);
            return Ok(Decl::Extern(ExternDecl {
                annotations,
                name,
                type_params,
                methods,
                span,
            }));
        }
        let mut proto = self.scoped(|p| p.prototype(annotations))?;
        self.expect(";")?;
        self.declare_value(&proto.name);
        proto.span = self.since(start);
        Ok(Decl::ExternFunction(proto))
    }

    /// Parses the language and the block of `extern "C" { .. }`.
    fn foreign_block(&mut self) -> Parse<Decl> {
        let language = self.token().map(|token| self.meaning_of(token));
        if language.is_none_or(|language| &*language != "C") {
            let message = "syntax error: the only foreign language is \"C\"";
            return Err(self.error(self.span(), message));
        }
        self.bump();
        if self
            .token()
            .is_none_or(|token| token.kind != TokenKind::Foreign)
        {
            return Err(self.unexpected("`{` and the text in C"));
        }
        let span = self.span();
        self.bump();
        let text = self.source_text(span);
        let text = text.strip_prefix('{').unwrap_or(text);
        let text = text.strip_suffix('}').unwrap_or(text).into();
        Ok(Decl::Foreign(ForeignDecl { text, span }))
    }

    /// Returns true at `name {` or `name<T> {`.
    fn is_extern_object(&self) -> bool {
        let name = self.index();
        let behind = match self.text_at(name + 1) {
            "<" => self.skip_type_args(name + 1),
            _ => Some(name + 1),
        };
        self.is_name_at(name) && behind.is_some_and(|at| self.text_at(at) == "{")
    }

    fn method(&mut self, object: &Name) -> Parse<MethodProto> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_abstract = self.eat("abstract");
        let is_constructor = self.is_name() && self.text_at(self.index() + 1) == "(";
        let mut proto = if is_constructor {
            let name = self.name()?;
            if name.text != object.text {
                let message = format!(
                    "syntax error: `{}` has no return type and is not the constructor of `{}`",
                    name.text, object.text
                );
                return Err(self.error(name.span, message));
            }
            let params = self.params()?;
            FunctionProto {
                annotations,
                ret: None,
                name,
                type_params: Vec::new(),
                params,
                span: start,
            }
        } else {
            self.prototype(annotations)?
        };
        self.expect(";")?;
        proto.span = self.since(start);
        Ok(MethodProto { proto, is_abstract })
    }

    pub(super) fn params(&mut self) -> Parse<Vec<Param>> {
        self.expect("(")?;
        self.separated(")", false, |p| p.param())
    }

    fn param(&mut self) -> Parse<Param> {
        let start = self.span();
        let annotations = self.annotations()?;
        let direction = if self.eat("in") {
            Direction::In
        } else if self.eat("out") {
            Direction::Out
        } else if self.eat("inout") {
            Direction::InOut
        } else {
            Direction::None
        };
        let ty = self.type_ref()?;
        let name = self.name()?;
        let ty = self.array_suffix(ty)?;
        self.declare_value(&name);
        let default = if self.eat("=") {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(Param {
            annotations,
            direction,
            ty,
            name,
            default,
            span: self.since(start),
        })
    }

    fn action(&mut self, annotations: Vec<Annotation>) -> Parse<ActionDecl> {
        let start = self.expect("action")?;
        let name = self.name()?;
        self.declare_value(&name);
        let (params, body) = self.scoped(|p| Ok((p.params()?, p.block(Vec::new())?)))?;
        Ok(ActionDecl {
            annotations,
            name,
            params,
            body,
            span: self.since(start),
        })
    }

    /// Parses `name<..>(..)` after `parser`, `control` or `package`.
    fn signature(&mut self, annotations: Vec<Annotation>, start: Span) -> Parse<BlockTypeDecl> {
        let name = self.name()?;
        self.declare_type(&name);
        let type_params = self.type_params()?;
        let params = self.params()?;
        Ok(BlockTypeDecl {
            annotations,
            name,
            type_params,
            params,
            span: self.since(start),
        })
    }

    fn ctor_params(&mut self) -> Parse<Vec<Param>> {
        if self.is("(") {
            self.params()
        } else {
            Ok(Vec::new())
        }
    }

    fn package(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.expect("package")?;
        let signature = self.scoped(|p| p.signature(annotations, start))?;
        self.declare_type(&signature.name);
        self.expect(";")?;
        Ok(Decl::Package(signature))
    }

    fn parser(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let decl = self.scoped(|p| p.parser_in_scope(annotations))?;
        match &decl {
            Decl::Parser(parser) => self.declare_type(&parser.signature.name),
            Decl::ParserType(signature) => self.declare_type(&signature.name),
            _ => {}
        }
        Ok(decl)
    }

    fn parser_in_scope(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.expect("parser")?;
        let signature = self.signature(annotations, start)?;
        if self.eat(";") {
            return Ok(Decl::ParserType(signature));
        }
        let ctor_params = self.ctor_params()?;
        self.expect("{")?;
        let mut locals = Vec::new();
        let mut states = Vec::new();
        let errors = self.diagnostics.error_count();
        self.items_until("}", |p| {
            if p.eat(";") {
                return Ok(None);
            }
            let annotations = p.annotations()?;
            if p.is("state") && p.is_name_at(p.index() + 1) && p.text_at(p.index() + 2) == "{" {
                states.push(p.state(annotations)?);
            } else {
                let start = p.span();
                let local = p.parser_local(annotations)?;
                if !states.is_empty() {
                    return Err(p.error(
                        start,
                        "syntax error: declarations stand in front of the states",
                    ));
                }
                locals.push(local);
            }
            Ok(None::<()>)
        })?;
        if states.is_empty() && errors == self.diagnostics.error_count() {
            let span = self.last_span();
            self.error(span, "syntax error: a parser has at least one state");
        }
        Ok(Decl::Parser(ParserDecl {
            signature,
            ctor_params,
            locals,
            states,
            span: self.since(start),
        }))
    }

    fn parser_local(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        match self.text() {
            "const" => Ok(Decl::Const(self.const_decl(annotations)?)),
            "value_set" => Ok(Decl::ValueSet(self.value_set(annotations)?)),
            _ if self.is_declaration() => self.variable_or_instance(annotations),
            _ => Err(self.unexpected("a state or a declaration")),
        }
    }

    fn state(&mut self, annotations: Vec<Annotation>) -> Parse<State> {
        let start = self.expect("state")?;
        let name = self.name()?;
        self.expect("{")?;
        self.in_state = true;
        let parts = self.scoped(|p| p.state_body());
        self.in_state = false;
        let (body, transition) = parts?;
        Ok(State {
            annotations,
            name,
            body,
            transition,
            span: self.since(start),
        })
    }

    /// Parses statements, a transition, and the `}` after them.
    fn state_body(&mut self) -> Parse<(Vec<Stmt>, Transition)> {
        let mut body = Vec::new();
        let mut transition = Transition::Implicit;
        loop {
            if self.eat("}") {
                break;
            }
            if self.is("transition") {
                self.bump();
                match self.transition() {
                    Ok(found) => transition = found,
                    Err(_) => self.skip_statement(),
                }
                self.expect("}")?;
                break;
            }
            if self.at_end() {
                return Err(self.unexpected("`transition` or `}`"));
            }
            let before = self.index();
            match self.stmt() {
                Ok(stmt) => body.push(stmt),
                Err(_) => self.skip_statement(),
            }
            if self.index() == before && !self.is("}") {
                self.bump();
            }
        }
        Ok((body, transition))
    }

    fn transition(&mut self) -> Parse<Transition> {
        if !self.is("select") {
            let name = self.name()?;
            self.expect(";")?;
            return Ok(Transition::Direct(name));
        }
        let start = self.span();
        self.bump();
        self.expect("(")?;
        let args = self.separated(")", false, |p| p.expr())?;
        self.expect("{")?;
        let cases = self.items_until("}", |p| p.select_case().map(Some))?;
        Ok(Transition::Select(Select {
            args,
            cases,
            span: self.since(start),
        }))
    }

    fn select_case(&mut self) -> Parse<SelectCase> {
        let start = self.span();
        let keyset = self.keyset()?;
        self.expect(":")?;
        let state = self.name()?;
        self.expect(";")?;
        Ok(SelectCase {
            keyset,
            state,
            span: self.since(start),
        })
    }

    fn value_set(&mut self, annotations: Vec<Annotation>) -> Parse<ValueSetDecl> {
        let start = self.expect("value_set")?;
        self.expect("<")?;
        let ty = self.type_ref()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.expr()?;
        self.expect(")")?;
        let name = self.name()?;
        self.declare_value(&name);
        self.expect(";")?;
        Ok(ValueSetDecl {
            annotations,
            ty,
            size,
            name,
            span: self.since(start),
        })
    }

    fn control(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let decl = self.scoped(|p| p.control_in_scope(annotations))?;
        match &decl {
            Decl::Control(control) => self.declare_type(&control.signature.name),
            Decl::ControlType(signature) => self.declare_type(&signature.name),
            _ => {}
        }
        Ok(decl)
    }

    fn control_in_scope(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.expect("control")?;
        let signature = self.signature(annotations, start)?;
        if self.eat(";") {
            return Ok(Decl::ControlType(signature));
        }
        let ctor_params = self.ctor_params()?;
        self.expect("{")?;
        let mut locals = Vec::new();
        while !self.is_apply_block() {
            if self.at_end() || self.is("}") {
                return Err(self.unexpected("`apply`"));
            }
            let before = self.index();
            match self.control_local() {
                Ok(local) => locals.extend(local),
                Err(_) => self.skip_statement(),
            }
            if self.index() == before {
                self.bump();
            }
        }
        self.expect("apply")?;
        let annotations = self.annotations()?;
        let body = self.block(annotations)?;
        self.expect("}")?;
        Ok(Decl::Control(ControlDecl {
            signature,
            ctor_params,
            locals,
            body,
            span: self.since(start),
        }))
    }

    fn is_apply_block(&self) -> bool {
        self.is("apply") && matches!(self.text_at(self.index() + 1), "{" | "@")
    }

    fn control_local(&mut self) -> Parse<Option<Decl>> {
        if self.eat(";") {
            return Ok(None);
        }
        let annotations = self.annotations()?;
        Ok(Some(match self.text() {
            "const" => Decl::Const(self.const_decl(annotations)?),
            "action" => Decl::Action(self.action(annotations)?),
            "table" => Decl::Table(self.table(annotations)?),
            _ if self.is_declaration() => self.variable_or_instance(annotations)?,
            _ => return Err(self.unexpected("`apply`, a declaration, an action or a table")),
        }))
    }

    fn record(&mut self, annotations: Vec<Annotation>) -> Parse<RecordDecl> {
        let start = self.span();
        let kind = match self.text() {
            "header" => RecordKind::Header,
            "header_union" => RecordKind::HeaderUnion,
            _ => RecordKind::Struct,
        };
        self.bump();
        let name = self.name()?;
        self.declare_type(&name);
        let (type_params, fields) = self.scoped(|p| {
            let type_params = p.type_params()?;
            p.expect("{")?;
            Ok((type_params, p.items_until("}", |p| p.field().map(Some))?))
        })?;
        Ok(RecordDecl {
            kind,
            annotations,
            name,
            type_params,
            fields,
            span: self.since(start),
        })
    }

    fn field(&mut self) -> Parse<RecordField> {
        let annotations = self.annotations()?;
        let ty = self.type_ref()?;
        let name = self.name()?;
        let ty = self.array_suffix(ty)?;
        self.expect(";")?;
        Ok(RecordField {
            annotations,
            ty,
            name,
        })
    }

    fn enum_decl(&mut self, annotations: Vec<Annotation>) -> Parse<EnumDecl> {
        let start = self.expect("enum")?;
        let plain = self.is_name() && self.text_at(self.index() + 1) == "{";
        let underlying = if plain { None } else { Some(self.type_ref()?) };
        let name = self.name()?;
        self.declare_type(&name);
        self.expect("{")?;
        let is_serializable = underlying.is_some();
        let members = self.separated("}", true, |p| {
            let name = p.name()?;
            let value = if is_serializable {
                p.expect("=")?;
                Some(p.expr()?)
            } else {
                None
            };
            Ok((name, value))
        })?;
        if members.is_empty() {
            let span = self.since(start);
            self.error(span, "syntax error: an enum has at least one member");
        }
        Ok(EnumDecl {
            annotations,
            underlying,
            name,
            members,
            span: self.since(start),
        })
    }

    fn typedef(&mut self, annotations: Vec<Annotation>) -> Parse<TypedefDecl> {
        let start = self.span();
        let is_new = self.eat("type");
        if !is_new {
            self.expect("typedef")?;
        }
        let inner = if is_new {
            Vec::new()
        } else {
            self.annotations()?
        };
        let target = match self.text() {
            "header" | "header_union" | "struct" if !is_new => {
                TypedefTarget::Derived(Box::new(Decl::Record(self.record(inner)?)))
            }
            "enum" if !is_new => {
                TypedefTarget::Derived(Box::new(Decl::Enum(self.enum_decl(inner)?)))
            }
            _ => TypedefTarget::Type(self.type_ref()?),
        };
        let name = self.name()?;
        let target = match target {
            TypedefTarget::Type(ty) => TypedefTarget::Type(self.array_suffix(ty)?),
            derived => derived,
        };
        self.declare_type(&name);
        self.expect(";")?;
        Ok(TypedefDecl {
            annotations,
            is_new,
            target,
            name,
            span: self.since(start),
        })
    }

    fn identifiers(&mut self, annotations: Vec<Annotation>) -> Parse<IdentifierListDecl> {
        let start = self.span();
        // The grammar allows a trailing comma in a list of match kinds, but not in one of errors.
        let trailing = self.is("match_kind");
        self.bump();
        self.expect("{")?;
        let names = self.separated("}", trailing, |p| p.name())?;
        if names.is_empty() {
            let span = self.since(start);
            self.error(
                span,
                "syntax error: at least one name is expected between the braces",
            );
        }
        Ok(IdentifierListDecl {
            annotations,
            names,
            span: self.since(start),
        })
    }

    fn table(&mut self, annotations: Vec<Annotation>) -> Parse<TableDecl> {
        let start = self.expect("table")?;
        let name = self.name()?;
        self.declare_value(&name);
        self.expect("{")?;
        let errors = self.diagnostics.error_count();
        let properties = self.items_until("}", |p| p.table_property().map(Some))?;
        if properties.is_empty() && errors == self.diagnostics.error_count() {
            let span = self.last_span();
            self.error(span, "syntax error: a table has at least one property");
        }
        Ok(TableDecl {
            annotations,
            name,
            properties,
            span: self.since(start),
        })
    }

    fn table_property(&mut self) -> Parse<TableProperty> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_const = self.eat("const");
        let name = self.name()?;
        self.expect("=")?;
        let braces = self.is("{");
        let value = match name.as_str() {
            "key" if braces && !is_const => {
                TablePropertyValue::Key(self.braced(|p| p.key_element())?)
            }
            "actions" if braces && !is_const => {
                TablePropertyValue::Actions(self.braced(|p| p.listed_action())?)
            }
            "entries" if braces => TablePropertyValue::Entries(self.braced(|p| p.entry())?),
            "key" | "actions" if is_const => {
                let message = format!("syntax error: `{}` cannot be `const`", name.text);
                return Err(self.error(name.span, message));
            }
            "key" | "actions" | "entries" => return Err(self.unexpected("`{`")),
            _ => {
                let value = self.expr()?;
                self.expect(";")?;
                TablePropertyValue::Expr(value)
            }
        };
        Ok(TableProperty {
            annotations,
            is_const,
            name,
            value,
            span: self.since(start),
        })
    }

    fn braced<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        self.expect("{")?;
        self.items_until("}", |p| item(p).map(Some))
    }

    fn key_element(&mut self) -> Parse<KeyElement> {
        let start = self.span();
        let expr = self.expr()?;
        self.expect(":")?;
        let match_kind = self.name()?;
        let annotations = self.annotations()?;
        self.expect(";")?;
        Ok(KeyElement {
            expr,
            match_kind,
            annotations,
            span: self.since(start),
        })
    }

    fn listed_action(&mut self) -> Parse<ActionRef> {
        let annotations = self.annotations()?;
        let action = self.action_ref(annotations)?;
        self.expect(";")?;
        Ok(action)
    }

    fn action_ref(&mut self, annotations: Vec<Annotation>) -> Parse<ActionRef> {
        let start = self.span();
        let path = self.path("an action")?;
        let args = if self.is("(") {
            Some(self.args()?)
        } else {
            None
        };
        Ok(ActionRef {
            annotations,
            path,
            args,
            span: self.since(start),
        })
    }

    fn entry(&mut self) -> Parse<Entry> {
        let start = self.span();
        let is_const = self.eat("const");
        let has_priority = self.is("priority") && self.text_at(self.index() + 1) == "=";
        let priority = if has_priority {
            self.bump();
            self.bump();
            let priority = self.expr()?;
            self.expect(":")?;
            Some(priority)
        } else {
            None
        };
        let keyset = self.keyset()?;
        self.expect(":")?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.annotations()?;
        self.expect(";")?;
        Ok(Entry {
            annotations,
            is_const,
            priority,
            keyset,
            action,
            span: self.since(start),
        })
    }
}
