//! Statements and blocks.

use super::cursor::{Failed, Parse, Parser};
use super::expr::Calls;
use super::types::is_type_word;
use crate::ast::{Annotation, BinaryOp, TypeRef};
use crate::ast::{
    Block, Decl, Expr, ExprKind, ForInStmt, ForStmt, InstanceDecl, Path, Stmt, StmtKind,
    SwitchCase, VariableDecl,
};
use crate::token::Class;

/// Maximum number of branches in a chain of `else if`. The depth of the tree is the length of the
/// chain.
const MAX_ELSE_IFS: usize = 1000;

impl Parser<'_> {
    /// Parses `{ .. }`.
    pub(super) fn block(&mut self, annotations: Vec<Annotation>) -> Parse<Block> {
        let start = self.span();
        self.deeper(|p| {
            p.expect("{")?;
            let stmts = p.scoped(|p| p.items_until("}", |p| p.stmt().map(Some)))?;
            Ok(Block {
                annotations,
                stmts,
                span: p.since(start),
            })
        })
    }

    /// Parses `statementOrDeclaration`.
    pub(super) fn stmt(&mut self) -> Parse<Stmt> {
        let start = self.span();
        let kind = self.deeper(|p| p.stmt_kind())?;
        Ok(Stmt {
            kind,
            span: self.since(start),
        })
    }

    fn stmt_kind(&mut self) -> Parse<StmtKind> {
        let annotations = self.annotations()?;
        let word = self.text();
        let is_control_flow = matches!(
            word,
            "for" | "return" | "exit" | "break" | "continue" | "switch"
        );
        if self.in_state && is_control_flow {
            return Err(self.unexpected("a statement that a parser state may have"));
        }
        match word {
            "{" => return Ok(StmtKind::Block(self.block(annotations)?)),
            "for" => return self.for_stmt(annotations),
            "const" => {
                return Ok(StmtKind::Decl(Box::new(Decl::Const(
                    self.const_decl(annotations)?,
                ))));
            }
            _ => {}
        }
        if !annotations.is_empty() || self.is_declaration() {
            return self.declaration(annotations);
        }
        match word {
            ";" => {
                self.bump();
                Ok(StmtKind::Empty)
            }
            "if" => self.if_stmt(),
            "return" => self.return_stmt(),
            "exit" => self.simple(StmtKind::Exit),
            "break" => self.simple(StmtKind::Break),
            "continue" => self.simple(StmtKind::Continue),
            "switch" => self.switch_stmt(),
            _ => {
                let kind = self.assignment_or_call()?;
                self.expect(";")?;
                Ok(kind)
            }
        }
    }

    fn simple(&mut self, kind: StmtKind) -> Parse<StmtKind> {
        self.bump();
        self.expect(";")?;
        Ok(kind)
    }

    /// Returns true if a variable or instance declaration begins here: a type and a name, or a
    /// type, arguments and a name.
    pub(super) fn is_declaration(&self) -> bool {
        let first = self.index();
        if is_type_word(self.text_at(first)) && self.kind_at(first) == Class::Word {
            return true;
        }
        let Some(end) = self.skip_type(first) else {
            return false;
        };
        if self.is_name_at(end) {
            return true;
        }
        let is_call = self.text_at(end) == "(" && self.kind_at(end) == Class::Punctuation;
        is_call
            && self
                .skip_balanced(end)
                .is_some_and(|behind| self.is_name_at(behind))
    }

    fn declaration(&mut self, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        let decl = self.variable_or_instance(annotations)?;
        Ok(StmtKind::Decl(Box::new(decl)))
    }

    /// Parses `T name [= init];` or `T(args) name [= { .. }];`.
    pub(super) fn variable_or_instance(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let start = self.span();
        let ty = self.type_ref()?;
        if self.is("(") {
            return Ok(Decl::Instance(self.instance_rest(
                annotations,
                ty,
                start,
            )?));
        }
        let decl = self.variable_rest(annotations, ty, start)?;
        self.expect(";")?;
        Ok(Decl::Variable(VariableDecl {
            span: self.since(start),
            ..decl
        }))
    }

    fn variable_rest(
        &mut self,
        annotations: Vec<Annotation>,
        ty: TypeRef,
        start: crate::source::Span,
    ) -> Parse<VariableDecl> {
        let name = self.name()?;
        let ty = self.array_suffix(ty)?;
        let init = if self.eat("=") {
            Some(self.expr()?)
        } else {
            None
        };
        self.declare_value(&name);
        Ok(VariableDecl {
            annotations,
            ty,
            name,
            init,
            span: self.since(start),
        })
    }

    pub(super) fn instance_rest(
        &mut self,
        annotations: Vec<Annotation>,
        ty: TypeRef,
        start: crate::source::Span,
    ) -> Parse<InstanceDecl> {
        let args = self.args()?;
        let name = self.name()?;
        let sizes = self.sizes()?;
        let init = if self.eat("=") {
            self.expect("{")?;
            Some(self.scoped(|p| p.items_until("}", |p| p.object_member()))?)
        } else {
            None
        };
        self.expect(";")?;
        self.declare_value(&name);
        Ok(InstanceDecl {
            annotations,
            ty,
            args,
            name,
            sizes,
            init,
            span: self.since(start),
        })
    }

    /// Parses an assignment or a call, without its semicolon.
    fn assignment_or_call(&mut self) -> Parse<StmtKind> {
        let left = self.lvalue()?;
        let op = match self.text() {
            "=" => None,
            "*=" => Some(BinaryOp::Mul),
            "/=" => Some(BinaryOp::Div),
            "%=" => Some(BinaryOp::Mod),
            "+=" => Some(BinaryOp::Add),
            "-=" => Some(BinaryOp::Sub),
            "|+|=" => Some(BinaryOp::AddSat),
            "|-|=" => Some(BinaryOp::SubSat),
            "<<=" => Some(BinaryOp::Shl),
            ">>=" => Some(BinaryOp::Shr),
            "&=" => Some(BinaryOp::And),
            "|=" => Some(BinaryOp::Or),
            "^=" => Some(BinaryOp::Xor),
            _ if matches!(left.kind, ExprKind::Call { .. }) => return Ok(StmtKind::Call(left)),
            _ => return Err(self.unexpected("`=`, another assignment or a call")),
        };
        if matches!(left.kind, ExprKind::Call { .. }) {
            return Err(self.error(left.span, "syntax error: a call cannot be assigned to"));
        }
        self.bump();
        let right = self.expr()?;
        Ok(match op {
            None => StmtKind::Assign(left, right),
            Some(op) => StmtKind::CompoundAssign(left, op, right),
        })
    }

    /// Parses the expression at the beginning of a statement: a name, `this`, or one in
    /// parentheses, with members, indices and calls after it.
    fn lvalue(&mut self) -> Parse<Expr> {
        let begins = self.is_name() || matches!(self.text(), "." | "this" | "(" | "error");
        if !begins {
            return Err(self.unexpected("a statement"));
        }
        self.postfix_expr(Calls::One)
    }

    /// Parses `if .. else if .. else ..`. The chain is parsed in a loop, because generated programs
    /// have long ones.
    fn if_stmt(&mut self) -> Parse<StmtKind> {
        let mut chain = Vec::new();
        let mut last = None;
        loop {
            let start = self.span();
            self.expect("if")?;
            self.expect("(")?;
            let cond = self.expr()?;
            self.expect(")")?;
            chain.push((start, cond, self.branch()?));
            if chain.len() > MAX_ELSE_IFS {
                return Err(self.error(
                    start,
                    format!("this `if` has more than {MAX_ELSE_IFS} branches"),
                ));
            }
            if !self.eat("else") {
                break;
            }
            if !self.is("if") {
                last = Some(Box::new(self.branch()?));
                break;
            }
        }
        let end = self.last_span();
        let mut statement = last;
        let mut first = None;
        for (start, cond, then) in chain.into_iter().rev() {
            if let Some(kind) = first.take() {
                statement = Some(kind);
            }
            let kind = StmtKind::If(cond, Box::new(then), statement.take());
            first = Some(Box::new(Stmt {
                kind,
                span: start.to(end),
            }));
        }
        first.map_or_else(|| Err(self.unexpected("`if`")), |first| Ok(first.kind))
    }

    /// Parses a statement that is not a declaration.
    fn branch(&mut self) -> Parse<Stmt> {
        if self.is("const") || self.is_declaration() {
            return Err(self.unexpected("a statement (a declaration needs braces around it here)"));
        }
        // A branch may be any statement, also in a parser state. Errors in it are found later.
        let in_state = std::mem::replace(&mut self.in_state, false);
        let branch = self.stmt();
        self.in_state = in_state;
        branch
    }

    fn return_stmt(&mut self) -> Parse<StmtKind> {
        self.bump();
        let value = if self.is(";") {
            None
        } else {
            Some(self.expr()?)
        };
        self.expect(";")?;
        Ok(StmtKind::Return(value))
    }

    fn switch_stmt(&mut self) -> Parse<StmtKind> {
        self.bump();
        self.expect("(")?;
        let value = self.expr()?;
        self.expect(")")?;
        self.expect("{")?;
        let cases = self.items_until("}", |p| p.switch_case().map(Some))?;
        Ok(StmtKind::Switch(value, cases))
    }

    fn switch_case(&mut self) -> Parse<SwitchCase> {
        let start = self.span();
        let label = if self.eat("default") {
            None
        } else if self.is("{") {
            return Err(self.unexpected("a label: an expression or `default`"));
        } else {
            Some(self.expr()?)
        };
        let label_span = self.since(start);
        self.expect(":")?;
        let annotated = self.is("@");
        let body = if self.is("{") || annotated {
            let annotations = self.annotations()?;
            Some(self.block(annotations)?)
        } else {
            None
        };
        Ok(SwitchCase {
            label,
            label_span,
            body,
        })
    }

    fn for_stmt(&mut self, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        self.bump();
        self.expect("(")?;
        self.scoped(|p| p.for_rest(annotations))
    }

    fn for_rest(&mut self, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        if self.is_for_in() {
            return self.for_in(annotations);
        }
        if self.is_name() && self.text_at(self.index() + 1) == "in" {
            self.bump();
            return Err(self.unexpected("a type in front of the loop's variable"));
        }
        let init = self.for_parts(";")?;
        let cond = self.expr()?;
        self.expect(";")?;
        let update = self.for_parts(")")?;
        let body = self.branch()?;
        Ok(StmtKind::For(Box::new(ForStmt {
            annotations,
            init,
            cond,
            update,
            body,
        })))
    }

    /// Returns true if `T x in` follows (ignoring annotations).
    fn is_for_in(&self) -> bool {
        let mut at = self.index();
        while self.text_at(at) == "@" {
            at += 2;
            if matches!(self.text_at(at), "(" | "[") {
                let Some(behind) = self.skip_balanced(at) else {
                    return false;
                };
                at = behind;
            }
        }
        self.skip_type(at)
            .is_some_and(|end| self.is_name_at(end) && self.text_at(end + 1) == "in")
    }

    fn for_in(&mut self, mut annotations: Vec<Annotation>) -> Parse<StmtKind> {
        annotations.extend(self.annotations()?);
        let var_ty = Some(self.type_ref()?);
        let name = self.name()?;
        let span = name.span;
        let var = Expr {
            kind: ExprKind::Name(Path {
                absolute: false,
                name,
            }),
            span,
        };
        self.expect("in")?;
        let collection = self.set_expr()?;
        self.expect(")")?;
        if let ExprKind::Name(path) = &var.kind {
            self.declare_value(&path.name);
        }
        let body = self.branch()?;
        Ok(StmtKind::ForIn(Box::new(ForInStmt {
            annotations,
            var_ty,
            var,
            collection,
            body,
        })))
    }

    /// Parses declarations, assignments and calls separated by commas, up to `;` or `)`.
    fn for_parts(&mut self, close: &str) -> Parse<Vec<Stmt>> {
        self.separated(close, false, |p| {
            let start = p.span();
            let annotations = p.annotations()?;
            let kind = if close == ";" && p.is_declaration() {
                let ty = p.type_ref()?;
                if p.is("(") {
                    return Err::<Stmt, Failed>(p.unexpected("a variable"));
                }
                StmtKind::Decl(Box::new(Decl::Variable(p.variable_rest(
                    annotations,
                    ty,
                    start,
                )?)))
            } else {
                p.assignment_or_call()?
            };
            Ok(Stmt {
                kind,
                span: p.since(start),
            })
        })
    }
}
