//! Storage: the P4 name of each field, header and stack of a program.
//!
//! Headers with the root of the emitted headers are members of the struct `hdr`. Another header is
//! a local variable of the only block that uses it, or else a member of the struct `meta`. All
//! other fields are members of `meta`, which is zero at the start as the IR requires. A field that
//! the deparser uses cannot be there: it is a local variable of the deparser, or a member of `hdr`.

use std::collections::{BTreeMap, BTreeSet};

use bits::IdVec;
use ir::{
    BinOp, BlockCode, BlockRole, Control, Dim, Expr, FieldId, HeaderId, Program, StackId,
    StageKind, Stmt, StmtKind,
};

use super::names::Names;
use crate::uses::{Uses, fields_of};

/// Storage of a field.
#[derive(Clone, Debug)]
pub(super) enum FieldHome {
    /// A variable, or a member of a struct, with this path.
    Path(String),
    /// The validity of a header.
    Valid(HeaderId),
    /// A field of a header, by its position.
    Member(HeaderId, usize),
    /// `nextIndex` of a stack.
    Next(StackId),
}

/// Struct or block that contains a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Home {
    /// The struct of the packet's headers.
    Headers,
    /// The struct of all other values.
    Metadata,
    /// A block, as a local variable.
    Local(BlockRole),
}

/// Type of a variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum VarTy {
    Field(FieldId),
    Header(HeaderId),
    Stack(StackId),
}

/// A variable to declare.
#[derive(Clone, Debug)]
pub(super) struct Var {
    pub(super) name: String,
    pub(super) ty: VarTy,
}

/// The storage of a program.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    fields: IdVec<FieldId, FieldHome>,
    /// Paths of the headers.
    headers: IdVec<HeaderId, String>,
    stacks: IdVec<StackId, String>,
    /// The stack of each header that is in one.
    stack_of: BTreeMap<HeaderId, StackId>,
    /// Stacks with an index that the text names `next`, `last` and `lastIndex`. Of others it is a
    /// variable.
    native: BTreeSet<StackId>,
    vars: BTreeMap<Home, Vec<Var>>,
    /// Names in each scope with variables.
    scopes: BTreeMap<Home, Names>,
}

impl Storage {
    pub(super) fn field(&self, field: FieldId) -> &FieldHome {
        &self.fields[field]
    }

    pub(super) fn header(&self, header: HeaderId) -> &str {
        &self.headers[header]
    }

    pub(super) fn stack(&self, stack: StackId) -> &str {
        &self.stacks[stack]
    }

    pub(super) fn stack_of(&self, header: HeaderId) -> Option<StackId> {
        self.stack_of.get(&header).copied()
    }

    pub(super) fn is_native(&self, stack: StackId) -> bool {
        self.native.contains(&stack)
    }

    pub(super) fn vars(&self, home: Home) -> &[Var] {
        self.vars.get(&home).map_or(&[], Vec::as_slice)
    }

    /// Returns the names that are taken in a block.
    pub(super) fn scope(&self, role: BlockRole, globals: &Names) -> Names {
        let scope = self.scopes.get(&Home::Local(role));
        scope.unwrap_or(globals).clone()
    }
}

/// Returns the uses of each block.
pub(super) fn block_uses(program: &Program) -> Vec<(BlockRole, Uses)> {
    let of = |code| match code {
        BlockCode::Parser(id) => Uses::of_parser(program, &program.parsers[id]),
        BlockCode::Control(id) => Uses::of_control(program, &program.controls[id]),
    };
    let blocks = program.pipeline.blocks.iter();
    blocks.map(|block| (block.role, of(block.code))).collect()
}

/// Chooses the storage of everything. `globals` are the names of declarations at top level.
pub(super) fn storage(program: &Program, uses: &[(BlockRole, Uses)], globals: &Names) -> Storage {
    let mut made = Layout {
        program,
        globals,
        names: BTreeMap::new(),
        roots: roots(program, uses),
        users: users(uses),
        vars: BTreeMap::new(),
    };
    let unknown = FieldHome::Path(String::new());
    let mut fields: IdVec<FieldId, Option<FieldHome>> =
        program.fields.values().map(|_| None).collect();
    let mut headers: IdVec<HeaderId, String> =
        program.headers.values().map(|_| String::new()).collect();
    let mut stacks = IdVec::new();
    let mut stack_of = BTreeMap::new();
    let native = native_stacks(program);
    for id in program.headers.ids() {
        for (at, field) in fields_of(program, id).enumerate() {
            fields[field] = Some(match at.checked_sub(1) {
                None => FieldHome::Valid(id),
                Some(at) => FieldHome::Member(id, at),
            });
        }
    }
    for (id, stack) in program.stacks.iter() {
        let members: Vec<HeaderId> = (0..stack.len)
            .map(|at| HeaderId::new(stack.first.get() + at))
            .collect();
        let home = made.home_of_headers(&stack.name, &members);
        let path = made.declare(home, &stack.name, VarTy::Stack(id));
        for (at, &member) in members.iter().enumerate() {
            headers[member] = format!("{path}[{at}]");
            stack_of.insert(member, id);
        }
        if native.contains(&id) {
            fields[stack.next_index] = Some(FieldHome::Next(id));
        }
        stacks.push(path);
    }
    for (id, header) in program.headers.iter() {
        if !stack_of.contains_key(&id) {
            let home = made.home_of_headers(&header.name, &[id]);
            headers[id] = made.declare(home, &header.name, VarTy::Header(id));
        }
    }
    for (name, &field) in &program.pipeline.intrinsics {
        if let Some(member) = name.strip_prefix("standard_metadata.")
            && !member.contains('.')
        {
            fields[field] = Some(FieldHome::Path(name.clone()));
        }
    }
    let listed = program.pipeline.field_lists.values().flatten();
    let listed: BTreeSet<FieldId> = listed.copied().collect();
    for (id, field) in program.fields.iter() {
        let is_used = made.users.contains_key(&id) || listed.contains(&id);
        if fields[id].is_none() && is_used {
            let home = made.home_of_field(id);
            let path = made.declare(home, &field.name, VarTy::Field(id));
            fields[id] = Some(FieldHome::Path(path));
        }
    }
    let fields = fields.into_vec().into_iter();
    Storage {
        fields: fields
            .map(|home| home.unwrap_or_else(|| unknown.clone()))
            .collect(),
        headers,
        stacks,
        stack_of,
        native,
        vars: made.vars,
        scopes: made.names,
    }
}

/// Returns the roots of the names of all headers that the packet consists of.
fn roots(program: &Program, uses: &[(BlockRole, Uses)]) -> BTreeSet<String> {
    let mut roots = BTreeSet::new();
    for (role, uses) in uses {
        if *role == BlockRole::Deparser {
            let emitted = uses.emits.iter();
            roots.extend(emitted.filter_map(|&header| root(&program.headers[header].name)));
        }
    }
    roots
}

/// Returns the first part of a name that has several.
fn root(name: &str) -> Option<String> {
    name.split_once('.').map(|(root, _)| root.to_owned())
}

/// Returns the blocks that use each field.
fn users(uses: &[(BlockRole, Uses)]) -> BTreeMap<FieldId, BTreeSet<BlockRole>> {
    let mut users: BTreeMap<FieldId, BTreeSet<BlockRole>> = BTreeMap::new();
    for (role, uses) in uses {
        for &field in uses.reads.iter().chain(&uses.writes) {
            users.entry(field).or_default().insert(*role);
        }
    }
    users
}

struct Layout<'a> {
    program: &'a Program,
    globals: &'a Names,
    names: BTreeMap<Home, Names>,
    roots: BTreeSet<String>,
    users: BTreeMap<FieldId, BTreeSet<BlockRole>>,
    vars: BTreeMap<Home, Vec<Var>>,
}

impl Layout<'_> {
    fn home_of_headers(&self, name: &str, headers: &[HeaderId]) -> Home {
        if root(name).is_some_and(|root| self.roots.contains(&root)) {
            return Home::Headers;
        }
        let fields = headers.iter().flat_map(|&h| fields_of(self.program, h));
        let users = fields.filter_map(|field| self.users.get(&field));
        let users: BTreeSet<BlockRole> = users.flatten().copied().collect();
        self.home(&users, true)
    }

    fn home_of_field(&self, field: FieldId) -> Home {
        let none = BTreeSet::new();
        self.home(self.users.get(&field).unwrap_or(&none), false)
    }

    fn home(&self, users: &BTreeSet<BlockRole>, is_header: bool) -> Home {
        let only = users.iter().next().filter(|_| users.len() == 1);
        match only {
            Some(&role) if is_header || role == BlockRole::Deparser => Home::Local(role),
            _ if users.contains(&BlockRole::Deparser) => Home::Headers,
            _ => Home::Metadata,
        }
    }

    /// Returns a name without the block that it begins with.
    fn without_block<'n>(&self, name: &'n str) -> &'n str {
        let program = self.program;
        let controls = program.controls.values().map(|control| &control.name);
        let parsers = program.parsers.values().map(|parser| &parser.name);
        let mut blocks = controls.chain(parsers);
        match name.split_once('.') {
            Some((first, rest)) if blocks.any(|block| block == first) => rest,
            _ => name,
        }
    }

    /// Declares a variable, and returns its path.
    fn declare(&mut self, home: Home, name: &str, ty: VarTy) -> String {
        let (prefix, short) = match home {
            Home::Headers => {
                let rest = name.split_once('.').map_or(name, |(_, rest)| rest);
                ("hdr.", rest.strip_prefix("hdr.").unwrap_or(rest))
            }
            Home::Metadata => (
                "meta.",
                self.without_block(name.strip_prefix("meta.").unwrap_or(name)),
            ),
            Home::Local(_) => ("", self.without_block(name)),
        };
        let names = self.names.entry(home).or_insert_with(|| match home {
            Home::Local(_) => self.globals.clone(),
            Home::Headers | Home::Metadata => Names::of_members(),
        });
        let name = names.fresh(short);
        let path = format!("{prefix}{name}");
        self.vars.entry(home).or_default().push(Var { name, ty });
        path
    }
}

/// Returns the stacks with a `nextIndex` that P4 can name everywhere. The parser extracts into
/// `next`, which increments the index, and otherwise only reads it. Controls only copy it.
fn native_stacks(program: &Program) -> BTreeSet<StackId> {
    let mut native: BTreeSet<StackId> = program.stacks.ids().collect();
    let mut spoil = |field: FieldId| {
        native.retain(|&stack| program.stacks[stack].next_index != field);
    };
    for parser in program.parsers.values() {
        for state in parser.states.values() {
            spoiled(program, &state.body, &mut spoil);
        }
    }
    let indices = program.stacks.values().map(|stack| stack.next_index);
    let indices: BTreeSet<FieldId> = indices.collect();
    for control in program.controls.values() {
        let mut read = Uses::default();
        control_reads(program, control, &indices, &mut read);
        read.reads.iter().copied().for_each(&mut spoil);
    }
    native
}

/// Collects what a control reads, without operations on whole stacks and copies of an index.
fn control_reads(
    program: &Program,
    control: &Control,
    indices: &BTreeSet<FieldId>,
    uses: &mut Uses,
) {
    let add = |uses: &mut Uses, more: Uses| uses.reads.extend(more.reads);
    for stage in control.stages.values() {
        match &stage.kind {
            StageKind::Condition { cond, .. } => add(uses, Uses::of_expr(program, cond)),
            StageKind::Action { body, .. } => body_reads(program, body, indices, uses),
            StageKind::Match { table, .. } => {
                let table = &program.tables[*table];
                for key in &table.keys {
                    add(uses, Uses::of_expr(program, &key.expr));
                }
                for action in &table.actions {
                    body_reads(program, &program.actions[action.action].body, indices, uses);
                }
            }
        }
    }
}

fn body_reads(program: &Program, body: &[Stmt], indices: &BTreeSet<FieldId>, uses: &mut Uses) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign(to, _) if indices.contains(&to.base) => {}
            StmtKind::PushFront(..) | StmtKind::PopFront(..) => {}
            StmtKind::If(cond, then, otherwise) => {
                uses.reads.extend(Uses::of_expr(program, cond).reads);
                body_reads(program, then, indices, uses);
                body_reads(program, otherwise, indices, uses);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                body_reads(program, body, indices, uses);
            }
            _ => uses.reads.extend(Uses::of_stmt(program, stmt).reads),
        }
    }
}

fn spoiled(program: &Program, body: &[Stmt], spoil: &mut impl FnMut(FieldId)) {
    for (at, stmt) in body.iter().enumerate() {
        match &stmt.kind {
            StmtKind::Assign(place, _) => {
                let before = at.checked_sub(1).and_then(|before| body.get(before));
                if !before.is_some_and(|before| advances(before, stmt)) {
                    spoil(place.base);
                }
            }
            StmtKind::Extract(header, _) => {
                let next = body.get(at + 1);
                if let [
                    Dim {
                        index: Expr::Read(index),
                        ..
                    },
                ] = header.dims.as_slice()
                    && !next.is_some_and(|next| advances(stmt, next))
                {
                    spoil(index.base);
                }
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                spoil(program.stacks[*stack].next_index);
            }
            StmtKind::If(_, then, otherwise) => {
                spoiled(program, then, spoil);
                spoiled(program, otherwise, spoil);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                spoiled(program, body, spoil);
            }
            StmtKind::Lookahead { dests, .. } => {
                dests.iter().for_each(|(place, _)| spoil(place.base));
            }
            _ => {}
        }
    }
}

/// Returns true if one statement extracts into `stack[index]` and the other increments the index.
pub(super) fn advances(extract: &Stmt, assign: &Stmt) -> bool {
    let StmtKind::Extract(header, _) = &extract.kind else {
        return false;
    };
    let [dim] = header.dims.as_slice() else {
        return false;
    };
    let StmtKind::Assign(place, Expr::Binary(BinOp::Add, old, one)) = &assign.kind else {
        return false;
    };
    let (Expr::Read(index), Expr::Read(old), Expr::Const(_, one)) = (&dim.index, &**old, &**one)
    else {
        return false;
    };
    index == place && old == place && place.dims.is_empty() && one.to_u64() == Some(1)
}
