//! Prints a v1model program as P4_16 text.
//!
//! The text means the same as the program: compiled again, it processes every packet alike, and
//! controllers see the same objects by the same names. It is not the source that the program came
//! from: sub-parsers, sub-controls and functions are inlined, and header unions are separate
//! headers.
//!
//! A program is storage ([`storage`]), types ([`types`]), a parser ([`parser`]), controls with
//! tables ([`table`]), and code: a line of stages becomes structured code ([`flow`]), and that
//! becomes statements ([`body`], [`stmt`], [`call`], [`expr`]). What P4_16 has no text for is a
//! [`PrintError`].

mod body;
mod call;
mod error;
mod expr;
mod flow;
mod lists;
mod names;
mod parser;
mod stmt;
mod storage;
mod table;
mod text;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use bits::IdVec;
use ir::{
    Arch, BlockCode, BlockRole, Control, ExternId, ExternKind, FieldId, MatchNext, MatchOutcome,
    Next, Program, Stage, StageKind, Stmt, StmtKind, TableId,
};

pub use error::PrintError;
pub use names::quoted;

use crate::length;
use crate::uses::Uses;
use body::{Block, Body, Scope};
use call::Natives;
use lists::Lists;
use names::Names;
use storage::{Home, Storage, VarTy};
use text::{Text, annotation_text};
use types::Types;

/// The blocks of v1model, with the names of their types and their parameters after the first.
const BLOCKS: [(BlockRole, &str); 6] = [
    (BlockRole::Parser, "PacketParser"),
    (BlockRole::VerifyChecksum, "ChecksumVerification"),
    (BlockRole::Ingress, "IngressPipeline"),
    (BlockRole::Egress, "EgressPipeline"),
    (BlockRole::ComputeChecksum, "ChecksumUpdate"),
    (BlockRole::Deparser, "PacketDeparser"),
];

/// Prints a program as P4_16 text for v1model.
///
/// # Errors
///
/// The first construct that P4_16 has no text for.
pub fn print(program: &Program) -> Result<String, PrintError> {
    let whole = || format!("program `{}`", program.name);
    if program.arch != Arch::V1model {
        return Err(PrintError::new("another architecture", whole()));
    }
    if !program.pipeline.steps.is_empty() {
        return Err(PrintError::new("a chain of programs in steps", whole()));
    }
    if program.pipeline.intrinsics.contains_key(ir::RESUME) {
        return Err(PrintError::new("a program in rounds", whole()));
    }
    let mut own = program.clone();
    leave_out_length(&mut own);
    Printer::new(&own).print()
}

/// Removes the code that computes `packet_length` in egress. The compiler adds it again.
fn leave_out_length(program: &mut Program) {
    let Some(&rest) = program.pipeline.intrinsics.get(length::REST) else {
        return;
    };
    let Some(&length) = program
        .pipeline
        .intrinsics
        .get("standard_metadata.packet_length")
    else {
        return;
    };
    let writes = |stmt: &Stmt, field: FieldId| match &stmt.kind {
        StmtKind::Assign(to, _) => to.base == field,
        _ => false,
    };
    for (_, control) in program.controls.iter_mut() {
        for (_, stage) in control.stages.iter_mut() {
            let StageKind::Action { body, .. } = &mut stage.kind else {
                continue;
            };
            if !stage.name.contains(".packet_length") {
                continue;
            }
            body.retain(|stmt| !writes(stmt, rest) && !writes(stmt, length));
        }
    }
}

/// Returns the tables that no stage applies, by the block that declares them: that of which their
/// name has the path, or else ingress.
fn unreached_tables(
    program: &Program,
    uses: &[(BlockRole, Uses)],
    paths: &BTreeMap<BlockRole, &str>,
) -> BTreeMap<BlockRole, Vec<TableId>> {
    let mut unreached: BTreeMap<BlockRole, Vec<TableId>> = BTreeMap::new();
    for (id, table) in program.tables.iter() {
        if uses.iter().any(|(_, uses)| uses.tables.contains(&id)) {
            continue;
        }
        let is_home = |path: &str| {
            let rest = table.name.strip_prefix(path);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let home = match is_home(paths.get(&BlockRole::Egress).copied().unwrap_or_default()) {
            true => BlockRole::Egress,
            false => BlockRole::Ingress,
        };
        unreached.entry(home).or_default().push(id);
    }
    unreached
}

/// Returns what the application of a table uses.
fn uses_of_table(program: &Program, table: TableId) -> Uses {
    Uses::of_stage(
        program,
        &Stage {
            name: String::new(),
            kind: StageKind::Match {
                table,
                outcome: MatchOutcome::default(),
                next: MatchNext::Always(Next::End),
            },
            loc: None,
        },
    )
}

struct Printer<'a> {
    program: &'a Program,
    types: Types<'a>,
    storage: Storage,
    lists: Lists,
    uses: BTreeMap<BlockRole, Uses>,
    /// Tables that no packet reaches. Controllers know them.
    unreached: BTreeMap<BlockRole, Vec<TableId>>,
    /// Names of the declarations at top level.
    globals: Names,
    blocks: BTreeMap<BlockRole, String>,
    /// The names of the blocks in the IR, which begin the names of their objects.
    paths: BTreeMap<BlockRole, &'a str>,
    externs: IdVec<ExternId, String>,
    /// The block that declares each extern instance; `None` for top level.
    extern_homes: IdVec<ExternId, Option<BlockRole>>,
    natives: Natives,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program) -> Printer<'a> {
        let mut globals = Names::of_declarations();
        let mut blocks = BTreeMap::new();
        let mut paths = BTreeMap::new();
        for (role, name) in BLOCKS {
            let own = program.pipeline.blocks.iter();
            let mut own = own
                .filter(|block| block.role == role)
                .map(|block| match block.code {
                    BlockCode::Parser(id) => program.parsers[id].name.as_str(),
                    BlockCode::Control(id) => program.controls[id].name.as_str(),
                });
            let name = own.next_back().unwrap_or(name);
            paths.insert(role, name);
            blocks.insert(role, globals.fresh(name));
        }
        let types = Types::new(program, &mut globals);
        let mut block_uses = storage::block_uses(program);
        let unreached = unreached_tables(program, &block_uses, &paths);
        for (role, uses) in &mut block_uses {
            for &table in unreached.get(role).into_iter().flatten() {
                *uses = std::mem::take(uses).and(uses_of_table(program, table));
            }
        }
        let mut made = Printer {
            program,
            types,
            storage: storage::storage(program, &block_uses, &globals),
            lists: Lists::default(),
            uses: block_uses.into_iter().collect(),
            unreached,
            globals,
            blocks,
            paths,
            externs: program.externs.values().map(|_| String::new()).collect(),
            extern_homes: program.externs.values().map(|_| None).collect(),
            natives: Natives::default(),
        };
        made.lists = Lists::new(program, &made.storage);
        made.place_externs();
        made
    }

    /// Chooses the block of each extern instance, and names those at top level.
    fn place_externs(&mut self) {
        for (id, made) in self.program.externs.iter() {
            if matches!(made.kind, ExternKind::Digest { .. }) {
                continue;
            }
            let mut users: BTreeSet<BlockRole> = BTreeSet::new();
            for (role, uses) in &self.uses {
                let tables = uses.tables.iter().map(|&table| &self.program.tables[table]);
                let is_attached = tables.into_iter().any(|table| {
                    [
                        table.implementation,
                        table.direct_counter,
                        table.direct_meter,
                    ]
                    .contains(&Some(id))
                });
                if is_attached || uses.externs.contains(&id) {
                    users.insert(*role);
                }
            }
            let named = self.paths.iter().find(|(_, path)| {
                let rest = made.name.strip_prefix(**path);
                rest.is_some_and(|rest| rest.starts_with('.'))
            });
            let named = named.map(|(role, _)| *role);
            let home = match users.iter().next() {
                None => named,
                Some(only) if users.len() == 1 => named.filter(|role| role == only),
                Some(_) => None,
            };
            self.extern_homes[id] = home;
            if home.is_none() {
                self.externs[id] = self.globals.fresh(&made.name);
            }
        }
    }

    fn print(mut self) -> Result<String, PrintError> {
        let mut text = Text::default();
        let mut bodies = Text::default();
        for (role, _) in BLOCKS {
            self.print_block(role, &mut bodies)?;
        }
        if table::has_index_types(self.program) {
            text.line("#define V1MODEL_VERSION 20200408");
        }
        text.line("#include <core.p4>");
        text.line("#include <v1model.p4>");
        text.blank();
        self.types.print(&mut text);
        self.types.print_digests(&mut text);
        self.print_struct("headers_t", Home::Headers, &mut text);
        self.print_struct("metadata_t", Home::Metadata, &mut text);
        for (name, (args, results)) in self.natives.known.borrow().iter() {
            let args = args.iter().enumerate();
            let results = results.iter().enumerate();
            let params: Vec<String> = args
                .map(|(at, ty)| format!("in {ty} value_{at}"))
                .chain(results.map(|(at, ty)| format!("out {ty} result_{at}")))
                .collect();
            text.line(format!("extern void {name}({});", params.join(", ")));
            text.blank();
        }
        for id in self.program.externs.ids() {
            if self.extern_homes[id].is_none() {
                let ident = self.externs[id].as_str();
                table::print_extern(self.program, &self.types, id, ("", ident), &mut text)?;
            }
        }
        text.blank();
        let mut out = text.finish();
        out += &bodies.finish();
        let mut text = Text::default();
        for annotation in &self.program.annotations {
            text.line(annotation_text(annotation));
        }
        let blocks = BLOCKS
            .iter()
            .map(|(role, _)| format!("{}()", self.blocks[role]));
        let blocks: Vec<String> = blocks.collect();
        text.line(format!("V1Switch({}) main;", blocks.join(", ")));
        out += &text.finish();
        Ok(out)
    }

    fn print_struct(&self, name: &str, home: Home, text: &mut Text) {
        text.block(&format!("struct {name}"), |text| {
            for var in self.storage.vars(home) {
                let annotation = match var.ty {
                    VarTy::Field(field) => self.lists.annotation(field),
                    VarTy::Header(_) | VarTy::Stack(_) => String::new(),
                };
                text.line(format!("{annotation}{} {};", self.var_ty(var.ty), var.name));
            }
        });
        text.blank();
    }

    fn var_ty(&self, ty: VarTy) -> String {
        match ty {
            VarTy::Field(id) => self.types.scalar(self.program.fields[id].ty),
            VarTy::Header(id) => {
                let ty = self.program.headers[id].ty;
                self.types.header_ident(ty).to_owned()
            }
            VarTy::Stack(id) => {
                let stack = &self.program.stacks[id];
                let ty = self.program.headers[stack.first].ty;
                format!("{}[{}]", self.types.header_ident(ty), stack.len)
            }
        }
    }

    /// Prints a parser or control.
    fn print_block(&mut self, role: BlockRole, text: &mut Text) -> Result<(), PrintError> {
        let program = self.program;
        let name = self.blocks[&role].clone();
        let standard = ", inout standard_metadata_t standard_metadata";
        let params = match role {
            BlockRole::Parser => {
                format!("packet_in packet, out headers_t hdr, inout metadata_t meta{standard}")
            }
            BlockRole::Deparser => "packet_out packet, in headers_t hdr".to_owned(),
            BlockRole::Ingress | BlockRole::Egress => {
                format!("inout headers_t hdr, inout metadata_t meta{standard}")
            }
            _ => "inout headers_t hdr, inout metadata_t meta".to_owned(),
        };
        let code = program.pipeline.blocks.iter();
        let mut code = code
            .filter(|block| block.role == role)
            .map(|block| block.code);
        let code = code.next_back();
        let word = match role {
            BlockRole::Parser => "parser",
            _ => "control",
        };
        let mut names = self.storage.scope(role, &self.globals);
        let mut scope = Scope::default();
        text.open(&format!("{word} {name}({params})"));
        for var in self.storage.vars(Home::Local(role)) {
            let ty = self.var_ty(var.ty);
            match var.ty {
                VarTy::Field(field) => {
                    let value = zero(program, &self.types, field);
                    text.line(format!("{ty} {}{value};", var.name));
                }
                VarTy::Header(_) | VarTy::Stack(_) => text.line(format!("{ty} {};", var.name)),
            }
        }
        for (id, made) in program.externs.iter() {
            if self.extern_homes[id] == Some(role) {
                let ident = names.fresh(own_name(&made.name, self.paths[&role]));
                table::print_extern(program, &self.types, id, (&name, &ident), text)?;
                self.externs[id] = ident;
            }
        }
        text.blank();
        match code {
            Some(BlockCode::Parser(id)) => {
                let parser = &program.parsers[id];
                for set in parser::value_sets(parser) {
                    let made = &program.value_sets[set];
                    let ident = names.fresh(own_name(&made.name, self.paths[&role]));
                    parser::print_value_set(made, &self.types, (&name, &ident), text);
                    scope.value_sets.insert(set, ident);
                }
                text.blank();
                parser::print_states(parser, self.block(role, &scope), &names, text)?;
            }
            Some(BlockCode::Control(id)) => {
                let control = &program.controls[id];
                self.print_control(control, role, &name, names, scope, text)?;
            }
            None if role == BlockRole::Parser => {
                text.block("state start", |text| text.line("transition accept;"));
            }
            None => text.block("apply", |_| {}),
        }
        text.close("}");
        text.blank();
        Ok(())
    }

    fn block<'b>(&'b self, role: BlockRole, scope: &'b Scope) -> Block<'b> {
        Block {
            program: self.program,
            storage: &self.storage,
            types: &self.types,
            externs: &self.externs,
            lists: &self.lists,
            natives: &self.natives,
            scope,
            role,
        }
    }

    fn print_control(
        &self,
        control: &Control,
        role: BlockRole,
        name: &str,
        mut names: Names,
        mut scope: Scope,
        text: &mut Text,
    ) -> Result<(), PrintError> {
        let program = self.program;
        let none = Uses::default();
        let uses = self.uses.get(&role).unwrap_or(&none);
        let mut actions: BTreeSet<ir::ActionId> = uses.actions.iter().copied().collect();
        let tables: BTreeSet<ir::TableId> = uses.tables.iter().copied().collect();
        for table in &tables {
            let listed = program.tables[*table].actions.iter();
            actions.extend(listed.map(|listed| listed.action));
        }
        let path = self.paths[&role];
        let uncalled = self.uncalled(role);
        actions.extend(&uncalled);
        for &id in &actions {
            let action = &program.actions[id];
            let ident = match table::is_no_action(action) {
                true => "NoAction".to_owned(),
                false => names.fresh(own_name(&action.control_plane_name, path)),
            };
            scope.actions.insert(id, ident);
        }
        for &id in &tables {
            let ident = names.fresh(own_name(&program.tables[id].name, path));
            scope.tables.insert(id, ident);
        }
        for &id in &actions {
            let action = &program.actions[id];
            if table::is_no_action(action) {
                continue;
            }
            let mut locals = names.clone();
            let params = table::param_names(action, &mut locals);
            let place = format!("action `{}`", action.name);
            let mut body = Body::new(self.block(role, &scope), locals, place);
            body.loc.set(action.loc);
            body.action = Some(action);
            body.params = params;
            body.print_action(action, name, &scope.actions[&id], text)?;
        }
        for &id in &tables {
            let table = &program.tables[id];
            let place = format!("table `{}`", table.name);
            let mut body = Body::new(self.block(role, &scope), names.clone(), place);
            body.print_table(table, name, &scope.tables[&id], text)?;
        }
        let place = format!("control `{}`", control.name);
        let mut body = Body::new(self.block(role, &scope), names.clone(), place);
        let out = body.body(flow::of_control(control))?;
        text.open("apply");
        for id in &uncalled {
            text.line(format!("{}();", scope.actions[id]));
        }
        body::print(&out, text);
        if let Some(unreached) = self.unreached.get(&role) {
            // A table that is not applied is no object of the control plane.
            text.open("if (true)");
            text.line("return;");
            text.close("}");
            for id in unreached {
                text.line(format!("{}.apply();", scope.tables[id]));
            }
        }
        text.close("}");
        Ok(())
    }

    /// Returns the actions without code that are only there for their names, if another object of
    /// the control plane ends in the same name: they keep its alias apart.
    fn uncalled(&self, role: BlockRole) -> Vec<ir::ActionId> {
        let program = self.program;
        let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let actions = program.actions.values();
        let objects = actions
            .map(|action| action.control_plane_name.as_str())
            .chain(program.tables.values().map(|table| table.name.as_str()))
            .chain(program.externs.values().map(|made| made.name.as_str()))
            .chain(program.value_sets.values().map(|set| set.name.as_str()));
        for object in objects {
            *counts.entry(last(object)).or_default() += 1;
        }
        let used = |id: ir::ActionId| self.uses.values().any(|uses| uses.actions.contains(&id));
        let listed: BTreeSet<ir::ActionId> = program
            .tables
            .values()
            .flat_map(|table| table.actions.iter().map(|listed| listed.action))
            .collect();
        let home = |action: &ir::Action| {
            let own = self.paths.iter().find(|(_, path)| {
                let rest = action.control_plane_name.strip_prefix(**path);
                rest.is_some_and(|rest| rest.starts_with('.'))
            });
            own.map_or(BlockRole::Ingress, |(role, _)| *role)
        };
        program
            .actions
            .iter()
            .filter(|(id, action)| {
                action.body.is_empty()
                    && action.params.is_empty()
                    && !used(*id)
                    && !listed.contains(id)
                    && counts[last(&action.control_plane_name)] > 1
                    && home(action) == role
            })
            .map(|(id, _)| id)
            .collect()
    }
}

/// Returns a name without the path of the block that declares it.
fn own_name<'n>(name: &'n str, block: &str) -> &'n str {
    let rest = name.strip_prefix(block);
    rest.and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// Returns the initial value of a local variable, with the equals sign before it.
fn zero(program: &Program, types: &Types<'_>, field: FieldId) -> String {
    use ir::ScalarTy::{Bit, Bool, Enum, Error, Int, Varbit};
    match program.fields[field].ty {
        Bit(_) | Int(_) => " = 0".to_owned(),
        Bool => " = false".to_owned(),
        Error => " = error.NoError".to_owned(),
        Enum(id) => {
            let first = program.enums[id].members.first();
            let ident = types.enum_ident(id);
            first.map_or(String::new(), |member| format!(" = {ident}.{member}"))
        }
        Varbit(_) => String::new(),
    }
}
