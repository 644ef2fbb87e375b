//! Allocation of P4 fields on the fast path to SSA variables, the frame, or the packet.
//!
//! A narrow field is held in SSA variables if no helper accesses it in the frame and no run-time
//! index reaches it. Other fields stay in the frame. If only extraction makes a header valid, its
//! fields that nothing else writes are *clean*. They are read from the packet as long as its bytes
//! are unchanged.

use std::collections::HashSet;

use exec::slots::call::marks;
use ir::{
    ActionId, Call, Control, ControlId, Dim, Expr, ExternId, FieldId, HeaderId, HeaderPlace,
    KeySet, Keyset, Op, Operand, Parser, ParserId, Place, Program, ScalarTy, StageKind, StateId,
    Stmt, StmtKind, Target, Transition, limbs_of,
};
use support::work::checkpoint;

use super::INLINE_LIMBS;
use super::checksum::is_inline as is_summed_inline;
use super::extract::is_inline;
use exec::slots::header::HeaderSite;

/// Maximum number of metadata fields in variables. With more, none is.
const MAX_OF_NO_HEADER: usize = 150;

/// Maximum number of limbs of a metadata field in variables. A register cell of 64 bytes is read
/// where its index is in range, and elsewhere the field keeps its old value: eight values that are
/// live on all paths.
const MAX_LIMBS_OF_NO_HEADER: u32 = 2;

/// Maximum number of fields in variables that the program writes. Extraction and a single
/// assignment by the architecture do not count. With more, none is. A program of 20 headers and 102
/// such fields forwarded 12.4 Mpps with variables and 6.4 without, with equal compilation times.
/// One with 250 such fields compiled in half the time without variables, and forwarded as much.
const MAX_WRITTEN: usize = 140;

/// Maximum number of fields in variables that belong to headers with untracked offsets. With more,
/// none is.
const MAX_UNTRACKED: usize = 160;

/// Allocation and properties of a program's fields.
#[derive(Debug, Default)]
pub(crate) struct FieldAllocation {
    /// Fields in variables.
    pub(crate) in_variables: HashSet<FieldId>,
    /// Fields in variables in a prefetch pass, which needs few of them. It evaluates no others.
    pub(crate) followed: HashSet<FieldId>,
    /// Fields with values only in the packet's bytes.
    pub(crate) clean: HashSet<FieldId>,
    /// Headers that only extraction makes valid and that have a clean field.
    pub(crate) in_packet: HashSet<HeaderId>,
    /// Headers of whole bytes with a tracked offset.
    pub(crate) tracked: HashSet<HeaderId>,
    /// Fields that something other than extraction writes, among those that could be in variables.
    pub(crate) written: HashSet<FieldId>,
    /// True if every extraction is byte-aligned.
    pub(crate) is_aligned: bool,
    /// Fields that the architecture sets once and the program only reads.
    pub(crate) only_told: HashSet<FieldId>,
    /// Operations that the program calls.
    pub(crate) ops: HashSet<Op>,
    /// Running ones' complement sums that helpers access.
    pub(crate) sums_by_helper: HashSet<ExternId>,
    /// True if there is `@atomic` code.
    pub(crate) has_atomic: bool,
}

impl FieldAllocation {
    /// Analyzes a program. `written` are the fields that the architecture writes.
    pub(crate) fn of(
        program: &Program,
        sites: &[HeaderSite],
        written: impl Iterator<Item = FieldId>,
    ) -> FieldAllocation {
        let mut walk = Walk::new(program);
        walk.program();
        let only_told = walk.write_besides(written);
        let Walk {
            in_frame,
            written,
            made_valid,
            is_aligned,
            ops,
            sums_by_helper,
            has_atomic,
            ..
        } = walk;
        let mut homes = FieldAllocation {
            only_told,
            is_aligned,
            ops,
            sums_by_helper,
            has_atomic,
            ..FieldAllocation::default()
        };
        let inline =
            |ty: ScalarTy| limbs_of(ty) <= INLINE_LIMBS && !matches!(ty, ScalarTy::Varbit(_));
        for (id, field) in program.fields.iter() {
            checkpoint();
            if inline(field.ty) && !in_frame.contains(&id) {
                homes.in_variables.insert(id);
            }
        }
        homes.spare_variables(program);
        for (id, header) in program.headers.iter() {
            checkpoint();
            let fields = fields_of(program, id);
            // Extraction writes these too.
            for field in &fields {
                checkpoint();
                homes.only_told.remove(field);
            }
            let Some(site) = sites.get(id.get() as usize) else {
                continue;
            };
            if !is_inline(site) {
                for field in fields {
                    checkpoint();
                    homes.in_variables.remove(&field);
                }
                continue;
            }
            let is_whole = fields
                .iter()
                .all(|field| homes.in_variables.contains(field));
            let is_bytes = site.fixed_bits.is_multiple_of(8) && is_aligned;
            if !is_whole || !is_bytes {
                continue;
            }
            homes.tracked.insert(id);
            if made_valid.contains(&header.valid) {
                continue;
            }
            let clean = fields[1..].iter().filter(|field| !written.contains(field));
            let before = homes.clean.len();
            homes.clean.extend(clean);
            if homes.clean.len() > before {
                homes.in_packet.insert(id);
            }
        }
        homes.written = written;
        homes.followed.clone_from(&homes.in_variables);
        homes
    }

    /// Returns the allocation on the fast path. A written field is live until the deparser. With
    /// very many, they stay in the frame, since register allocation needs a location for each value
    /// in each block. A field that only extraction writes is live only until its last use. A single
    /// input of the architecture is not live at all.
    pub(crate) fn in_pass(mut self, program: &Program) -> FieldAllocation {
        let is_kept =
            |field: &FieldId| self.written.contains(field) && !self.only_told.contains(field);
        if self
            .in_variables
            .iter()
            .filter(|field| is_kept(field))
            .count()
            > MAX_WRITTEN
        {
            self.in_variables.retain(|field| !is_kept(field));
        }
        self.spare_untracked(program);
        self
    }

    /// Moves fields of headers with untracked offsets to the frame if there are very many. Their
    /// loads cannot be deferred to the end of the parser (`late.rs`).
    fn spare_untracked(&mut self, program: &Program) {
        let headers = program.headers.ids();
        let untracked = headers.filter(|header| !self.tracked.contains(header));
        let fields: HashSet<FieldId> = untracked.flat_map(|id| fields_of(program, id)).collect();
        if self.in_variables.intersection(&fields).count() > MAX_UNTRACKED {
            self.in_variables.retain(|field| !fields.contains(field));
        }
    }

    /// Moves metadata fields to the frame that are long, and all if there are very many. There are
    /// no registers for them, and computing SSA form for all of them takes as long as the rest of
    /// compilation.
    fn spare_variables(&mut self, program: &Program) {
        let headers = program.headers.ids();
        let of_headers: HashSet<FieldId> = headers.flat_map(|id| fields_of(program, id)).collect();
        let is_short =
            |field: &FieldId| limbs_of(program.fields[*field].ty) <= MAX_LIMBS_OF_NO_HEADER;
        self.in_variables
            .retain(|field| of_headers.contains(field) || is_short(field));
        let of_none = self.in_variables.difference(&of_headers).count();
        if of_none > MAX_OF_NO_HEADER {
            self.in_variables.retain(|field| of_headers.contains(field));
        }
    }
}

/// Returns the fields that something other than extraction writes in a parser.
pub(super) fn written_in_parser(program: &Program, parser: ParserId) -> HashSet<FieldId> {
    Walk::of_parser(program, parser).with_actions()
}

/// Returns the fields that are extracted or written in a parser after code in which a prefetch pass
/// may diverge from the fast path ([`may_part`]).
pub(super) fn written_behind_parting(
    program: &Program,
    parser: &Parser,
    sites: &[HeaderSite],
) -> HashSet<FieldId> {
    let mut walk = Walk::new(program);
    let mut waiting: Vec<StateId> = Vec::new();
    for state in parser.states.values() {
        checkpoint();
        let mut behind = state.body.iter().skip_while(|stmt| !may_part(stmt, sites));
        let Some(first) = behind.next() else { continue };
        if !matches!(first.kind, StmtKind::Verify(..)) {
            walk.stmt(first);
        }
        behind.for_each(|stmt| walk.stmt(stmt));
        waiting.extend(states_behind(&state.transition));
    }
    let mut seen = HashSet::new();
    while let Some(id) = waiting.pop() {
        checkpoint();
        if let Some(state) = parser.states.get(id).filter(|_| seen.insert(id)) {
            walk.body(&state.body);
            waiting.extend(states_behind(&state.transition));
        }
    }
    let extracted = walk.extracted.iter();
    let extracted: Vec<FieldId> = extracted.flat_map(|&id| fields_of(program, id)).collect();
    let mut written = walk.with_actions();
    written.extend(extracted);
    written
}

/// Returns true if a prefetch pass may diverge from the fast path in a statement. Prefetch passes
/// do not verify, and they load only some fields of a header that a helper extracts.
pub(super) fn may_part(stmt: &Stmt, sites: &[HeaderSite]) -> bool {
    let part = |body: &[Stmt]| body.iter().any(|stmt| may_part(stmt, sites));
    match &stmt.kind {
        StmtKind::Verify(..) => true,
        StmtKind::Extract(header, size) => {
            let site = sites.get(header.base.get() as usize);
            size.is_some() || !site.is_some_and(is_inline)
        }
        StmtKind::If(_, then, otherwise) => part(then) || part(otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => part(body),
        _ => false,
    }
}

/// Returns the successor states.
fn states_behind(transition: &Transition) -> impl Iterator<Item = StateId> {
    let (direct, cases) = match transition {
        Transition::Direct(target) => (Some(*target), &[][..]),
        Transition::Select { cases, .. } => (None, &cases[..]),
    };
    let targets = direct
        .into_iter()
        .chain(cases.iter().map(|case| case.target));
    targets.filter_map(|target| match target {
        Target::State(state) => Some(state),
        Target::Accept | Target::Reject => None,
    })
}

/// Returns the fields that something other than extraction writes in a control.
pub(super) fn written_in_control(program: &Program, control: ControlId) -> HashSet<FieldId> {
    let mut walk = Walk::new(program);
    if let Some(control) = program.controls.get(control) {
        walk.control(control);
    }
    walk.with_actions()
}

/// Returns the fields that a statement writes, including results and side effects of calls.
pub(super) fn written_by_stmt(program: &Program, stmt: &Stmt) -> HashSet<FieldId> {
    let mut walk = Walk::new(program);
    walk.stmt(stmt);
    walk.with_actions()
}

/// Returns the headers that a parser extracts. For a run-time index into a stack, it is the first
/// element.
pub(super) fn extracted_in_parser(program: &Program, parser: ParserId) -> HashSet<HeaderId> {
    Walk::of_parser(program, parser).extracted
}

/// Returns the validity field of a header, followed by its fields.
pub(super) fn fields_of(program: &Program, header: HeaderId) -> Vec<FieldId> {
    let Some(declared) = program.headers.get(header) else {
        return Vec::new();
    };
    let ty = program.header_types.get(declared.ty);
    let count = ty.map_or(0, |ty| ty.fields.len() as u32);
    let first = declared.valid.get();
    (first..=first + count).map(FieldId::new).collect()
}

struct Walk<'p> {
    program: &'p Program,
    in_frame: HashSet<FieldId>,
    written: HashSet<FieldId>,
    extracted: HashSet<HeaderId>,
    /// Validity fields that something other than extraction sets.
    made_valid: HashSet<FieldId>,
    is_aligned: bool,
    ops: HashSet<Op>,
    sums_by_helper: HashSet<ExternId>,
    has_atomic: bool,
    /// Actions that may run.
    actions: Vec<ActionId>,
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program) -> Walk<'p> {
        Walk {
            program,
            in_frame: HashSet::new(),
            written: HashSet::new(),
            extracted: HashSet::new(),
            made_valid: HashSet::new(),
            is_aligned: true,
            ops: HashSet::new(),
            sums_by_helper: HashSet::new(),
            has_atomic: false,
            actions: Vec::new(),
        }
    }

    fn of_parser(program: &'p Program, parser: ParserId) -> Walk<'p> {
        let mut walk = Walk::new(program);
        if let Some(parser) = program.parsers.get(parser) {
            walk.parser(parser);
        }
        walk
    }

    /// Adds fields that the architecture writes. Returns those that only it writes, and only once.
    fn write_besides(&mut self, fields: impl Iterator<Item = FieldId>) -> HashSet<FieldId> {
        let (mut once, mut again) = (HashSet::new(), HashSet::new());
        for field in fields {
            checkpoint();
            if self.written.contains(&field) || !once.insert(field) {
                again.insert(field);
            }
        }
        self.made_valid.extend(once.iter().copied());
        self.written.extend(once.iter().copied());
        once.retain(|field| !again.contains(field));
        once
    }

    /// Returns the written fields, including those of actions that may run.
    fn with_actions(mut self) -> HashSet<FieldId> {
        let mut seen = HashSet::new();
        while let Some(action) = self.actions.pop() {
            checkpoint();
            if let Some(action) = self
                .program
                .actions
                .get(action)
                .filter(|_| seen.insert(action))
            {
                self.body(&action.body);
            }
        }
        self.written
    }

    fn parser(&mut self, parser: &Parser) {
        for state in parser.states.values() {
            checkpoint();
            self.body(&state.body);
            self.transition(&state.transition);
        }
    }

    fn control(&mut self, control: &Control) {
        for stage in control.stages.values() {
            checkpoint();
            match &stage.kind {
                StageKind::Condition { cond, .. } => self.expr(cond),
                StageKind::Action { body, .. } => self.body(body),
                StageKind::Match { table, outcome, .. } => {
                    let fields = outcome.hit.into_iter().chain(outcome.action_run);
                    fields.for_each(|field| self.wrote(field));
                    let table = self.program.tables.get(*table);
                    let actions = table.into_iter().flat_map(|table| &table.actions);
                    self.actions.extend(actions.map(|action| action.action));
                }
            }
        }
    }

    fn program(&mut self) {
        let program = self.program;
        program.parsers.values().for_each(|p| self.parser(p));
        program.controls.values().for_each(|c| self.control(c));
        for table in program.tables.values() {
            checkpoint();
            table.keys.iter().for_each(|key| self.expr(&key.expr));
        }
        for action in program.actions.values() {
            checkpoint();
            self.body(&action.body);
        }
    }

    fn transition(&mut self, transition: &Transition) {
        let Transition::Select { keys, cases } = transition else {
            return;
        };
        keys.iter().for_each(|key| self.expr(key));
        for case in cases {
            checkpoint();
            let Keyset::Sets(sets) = &case.keyset else {
                continue;
            };
            for set in sets {
                checkpoint();
                match set {
                    KeySet::Value(value) => self.expr(value),
                    KeySet::Mask(a, b) | KeySet::Range(a, b) => {
                        self.expr(a);
                        self.expr(b);
                    }
                    KeySet::Any | KeySet::ValueSet(_) => {}
                }
            }
        }
    }

    fn body(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign(place, value) => {
                self.expr(value);
                let is_false = matches!(value, Expr::Const(_, value) if value.is_zero());
                if is_false {
                    self.place(place);
                    self.written.insert(place.base);
                } else {
                    self.write(place);
                }
            }
            StmtKind::AssignSlice(place, _, _, value) => {
                self.write(place);
                self.expr(value);
            }
            StmtKind::AssignVarbit(to, from) => {
                self.write(to);
                self.place(from);
            }
            StmtKind::ClearVarbit(place) | StmtKind::PacketLength(place) => self.write(place),
            StmtKind::CopyHeader(to, from) => self.copy_header(to, from),
            StmtKind::If(cond, then, otherwise) => {
                self.expr(cond);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) => self.body(body),
            StmtKind::Atomic(body) => {
                self.has_atomic = true;
                self.body(body);
            }
            StmtKind::CallAction(action, args) => {
                self.actions.push(*action);
                args.iter().for_each(|arg| self.expr(arg));
            }
            StmtKind::Extract(header, size) => {
                self.header_place(header);
                self.extracted.insert(header.base);
                size.iter().for_each(|size| self.expr(size));
                // A varbit is then whole bytes too, or the header is rejected
                // (`HeaderSite::extract`).
                let fixed = fields_of(self.program, header.base).into_iter().skip(1);
                let fixed = fixed.map(|field| self.program.fields[field].ty);
                let fixed = fixed.filter(|ty| !matches!(ty, ScalarTy::Varbit(_)));
                let bits: u32 = fixed.map(|ty| ty.width()).sum();
                self.is_aligned &= bits.is_multiple_of(8);
            }
            StmtKind::Advance(bits) => {
                self.expr(bits);
                let bits = match bits {
                    Expr::Const(_, bits) => bits.to_u64(),
                    _ => None,
                };
                self.is_aligned &= bits.is_some_and(|bits| bits.is_multiple_of(8));
            }
            StmtKind::Lookahead { dests, .. } => dests.iter().for_each(|(to, _)| self.write(to)),
            StmtKind::Verify(cond, error) => {
                self.expr(cond);
                self.expr(error);
            }
            StmtKind::Emit(header) => self.header_place(header),
            // A helper may read it in the frame.
            StmtKind::EmitField(place) => {
                self.place(place);
                self.in_frame.insert(place.base);
            }
            StmtKind::PushFront(stack, _) | StmtKind::PopFront(stack, _) => {
                let Some(stack) = self.program.stacks.get(*stack) else {
                    return;
                };
                self.headers_in_frame(stack.first, stack.len);
                self.in_frame.insert(stack.next_index);
            }
            StmtKind::Call(call) => {
                self.ops.insert(call.op);
                self.summed(call);
                self.has_atomic |= call.op == Op::HoldAtomic;
                for operand in &call.operands {
                    checkpoint();
                    match operand {
                        Operand::In(value) => self.expr(value),
                        Operand::Data(all) => all.iter().for_each(|value| self.expr(value)),
                        Operand::Out(place) => self.write(place),
                        Operand::Outs(all) => all.iter().for_each(|place| self.write(place)),
                        Operand::Text(_) | Operand::Number(_) => {}
                    }
                }
                let marked = marks(self.program, call.op);
                marked.into_iter().for_each(|(field, _)| self.wrote(field));
            }
            StmtKind::Leave(_) | StmtKind::Continue(_) | StmtKind::Exit | StmtKind::Fail(_) => {}
        }
    }

    /// Records instances with data that a helper sums.
    fn summed(&mut self, call: &Call) {
        let data = call.operands.iter().filter_map(|operand| match operand {
            Operand::Data(data) => Some(data),
            _ => None,
        });
        let ty = |expr: &Expr| expr.ty(self.program, None);
        if let Some(instance) = call.instance
            && !data.into_iter().all(|data| is_summed_inline(data, ty))
        {
            self.sums_by_helper.insert(instance);
        }
    }

    fn copy_header(&mut self, to: &HeaderPlace, from: &HeaderPlace) {
        self.header_place(to);
        self.header_place(from);
        let fields = fields_of(self.program, to.base);
        let limbs: u32 = fields
            .iter()
            .map(|&field| limbs_of(self.program.fields[field].ty))
            .sum();
        // A helper copies long headers and stack elements.
        if limbs > 4 * INLINE_LIMBS || !to.dims.is_empty() || !from.dims.is_empty() {
            self.headers_in_frame(to.base, 1);
            self.headers_in_frame(from.base, 1);
        }
        fields.into_iter().for_each(|field| self.wrote(field));
    }

    fn write(&mut self, place: &Place) {
        self.place(place);
        self.wrote(place.base);
    }

    /// Records that a field gets some value. If it is a header's validity, which handwritten IR may
    /// assign anywhere, the header may be valid without being in the packet.
    fn wrote(&mut self, field: FieldId) {
        self.written.insert(field);
        self.made_valid.insert(field);
    }

    /// Keeps elements that are selected at run time in the frame.
    fn place(&mut self, place: &Place) {
        if place.dims.is_empty() {
            return;
        }
        let last = place.base.get().saturating_add(span(&place.dims));
        let all = place.base.get()..=last;
        self.in_frame.extend(all.map(FieldId::new));
        place.dims.iter().for_each(|dim| self.expr(&dim.index));
    }

    fn header_place(&mut self, place: &HeaderPlace) {
        if place.dims.is_empty() {
            return;
        }
        self.headers_in_frame(place.base, span(&place.dims).saturating_add(1));
        place.dims.iter().for_each(|dim| self.expr(&dim.index));
    }

    fn headers_in_frame(&mut self, first: HeaderId, count: u32) {
        for header in first.get()..first.get().saturating_add(count) {
            checkpoint();
            let fields = fields_of(self.program, HeaderId::new(header));
            self.in_frame.extend(fields);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(..) | Expr::Param(_) => {}
            Expr::Read(place) | Expr::VarbitLen(place) => self.place(place),
            Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => self.expr(a),
            Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Expr::Ternary(a, b, c) => {
                self.expr(a);
                self.expr(b);
                self.expr(c);
            }
            Expr::VarbitEq(a, b) => {
                self.place(a);
                self.place(b);
            }
        }
    }
}

/// Returns the distance from the first to the last element.
fn span(dims: &[Dim]) -> u32 {
    dims.iter()
        .map(|dim| dim.len.saturating_sub(1).saturating_mul(dim.stride))
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ir::Layout;

    /// Reads a program. Returns it with its headers and the allocation of its fields.
    pub(in super::super) fn read(text: &str) -> (Program, Vec<HeaderSite>, FieldAllocation) {
        read_written(text, std::iter::empty())
    }

    /// Reads a program of which the architecture writes these fields.
    fn read_written(
        text: &str,
        written: impl Iterator<Item = FieldId>,
    ) -> (Program, Vec<HeaderSite>, FieldAllocation) {
        let program = ir::read(text).expect("the text is IR");
        let layout = Layout::of(&program);
        let headers = program.headers.ids();
        let sites: Vec<HeaderSite> = headers
            .filter_map(|id| HeaderSite::new(&program, &layout, id))
            .collect();
        let homes = FieldAllocation::of(&program, &sites, written);
        (program, sites, homes)
    }

    /// Returns the number of headers that are considered to be in the packet if a parser runs
    /// `code` after extracting the only one.
    fn in_packet(code: &str) -> usize {
        let (.., homes) = read(&format!(
            "program t own\nheader_type h_t {{\n    a: bit<8>;\n}}\nheader hdr.h: h_t\nparser p start start {{\n    state start {{\n        \
             extract hdr.h;\n        {code}\n        goto accept;\n    }}\n}}\n"
        ));
        homes.in_packet.len()
    }

    #[test]
    fn where_fields_of_no_header_are_very_many_only_those_of_headers_live_in_variables() {
        // Includes the header's validity.
        const OF_HEADER: usize = 2;
        let in_variables = |of_none: usize| {
            let fields: String = (0..of_none)
                .map(|at| format!("field m{at}: bit<16>\n"))
                .collect();
            let text = format!(
                "program t own\nheader_type h_t {{\n    a: bit<8>;\n}}\n{fields}header hdr.h: h_t\n"
            );
            let (.., homes) = read(&text);
            homes.in_variables.len()
        };
        assert_eq!(in_variables(150), 150 + OF_HEADER);
        assert_eq!(in_variables(151), OF_HEADER);
    }

    #[test]
    fn where_fields_that_are_written_are_very_many_they_stay_in_the_frame_of_a_pass() {
        let in_variables = |written: u32| {
            let fields: String = (0..written)
                .map(|at| format!("field w{at}: bit<16>\n"))
                .collect();
            let code: String = (0..written)
                .map(|at| format!("        w{at} = 16w1;\n"))
                .collect();
            let text = format!(
                "program t own\nheader_type h_t {{\n    a: bit<8>;\n}}\nfield told: bit<8>\n{fields}header hdr.h: h_t\ncontrol c {{\n    stage c.code: action next end {{\n{code}    }}\n}}\n"
            );
            let told = FieldId::new(0);
            let (program, _, homes) = read_written(&text, std::iter::once(told));
            let homes = homes.in_pass(&program);
            assert_eq!(homes.followed.len() as u32, written + 3);
            assert!(homes.in_variables.contains(&told));
            homes.in_variables.len() as u32
        };
        // The remaining fields are the input of the architecture, the header's validity, and a
        // field that is only read.
        assert_eq!(in_variables(140), 140 + 3);
        assert_eq!(in_variables(141), 3);
    }

    #[test]
    fn where_fields_of_headers_that_may_begin_anywhere_are_very_many_they_stay_in_the_frame_of_a_pass()
     {
        let in_variables = |headers: usize, advance: &str| {
            let declared: String = (0..headers)
                .map(|at| format!("header hdr.h{at}: h_t\n"))
                .collect();
            let (program, _, homes) = read(&format!(
                "program t own\nheader_type h_t {{\n    a: bit<8>;\n}}\nfield m: bit<8>\n{declared}parser p start s {{\n    state s {{\n        advance {advance};\n        goto accept;\n    }}\n}}\n"
            ));
            homes.in_pass(&program).in_variables.len()
        };
        // Each header counts its validity, and there is one metadata field.
        assert_eq!(in_variables(80, "32w12"), 160 + 1);
        assert_eq!(in_variables(81, "32w12"), 1);
        assert_eq!(in_variables(81, "32w16"), 162 + 1);
    }

    #[test]
    fn a_header_that_something_else_may_make_valid_is_not_looked_for_in_the_packet() {
        assert_eq!(in_packet(""), 1);
        assert_eq!(in_packet("hdr.h.$valid$ = false;"), 1);
        assert_eq!(in_packet("hdr.h.$valid$ = true;"), 0);
        assert_eq!(in_packet("lookahead 8 (hdr.h.$valid$ at 0);"), 0);
    }
}
