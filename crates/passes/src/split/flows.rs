//! The flow of a packet: a hash, by which the group selects the packet's server.
//!
//! A server answers requests in their order, so all requests of a flow must go to one server, also
//! those that leave at different cuts. The flow of a packet is the hash of:
//!
//! - the fields of a handler's request with `@affinity`, where it leaves at this handler;
//! - else the key of the first mirrored table that it has met;
//! - else the whole request of the handler.
//!
//! A response has the flow of its request, and the packet keeps it at later cuts, but for handlers
//! with `@affinity`.

use bits::Value;
use ir::{
    AnnotationBody, BinOp, ControlId, Expr, ExternKind, Field, FieldId, HashAlgorithm, Op, Operand,
    Place, Program, ScalarTy, Stage, Stmt, StmtKind,
};

use super::cuts::{Cut, CutKind, Cuts, stages_after};
use super::layout::{ADDED, FrameHeader, FrameOption};
use super::parser::{assign, call, constant, read, statement};
use super::switch::request_of;
use crate::uses::Uses;

/// Width of the number of a cut, in bits.
const CUT_BITS: u32 = 16;

/// First cut of a packet that has come back from a server: its flow is known. No cut has the
/// number.
const RESTORED: u64 = u16::MAX as u64;

/// Fields for the flow of a packet in the switch half, and the flow at each cut.
pub(super) struct Flows {
    hash: FieldId,
    /// Number of the first cut that the packet has met, 0 for none, or [`RESTORED`]. `None` if each
    /// cut's own key is enough.
    first: Option<FieldId>,
    cuts: Vec<FlowAtCut>,
}

/// The flow of packets that leave at a cut.
struct FlowAtCut {
    /// Key of the table, or the request.
    own: Vec<Expr>,
    /// Copies of the key, for later cuts.
    copies: Vec<FieldId>,
    /// Numbers of the cuts with copies that a packet may have met before. `None` if the own key
    /// always is the flow.
    earlier: Option<Vec<usize>>,
}

impl Flows {
    /// Adds the fields to the program of the switch half.
    pub(super) fn declare(
        program: &mut Program,
        ingress: ControlId,
        cuts: &Cuts,
        frame: &FrameHeader,
    ) -> Flows {
        let stages = &program.controls[ingress].stages;
        let keys: Vec<FlowKey> = cuts
            .cuts
            .iter()
            .map(|cut| FlowKey::of(program, cut, &stages[cut.stage], cuts))
            .collect();
        let after = cuts.cuts.iter().map(|cut| stages_after(stages, cut.stage));
        let after: Vec<_> = after.collect();
        let may_precede = |at: usize| {
            let stage = cuts.cuts[at].stage;
            let all = after.iter().enumerate();
            let found = all.filter(move |(_, after)| after.contains(stage));
            found.map(|(other, _)| other).collect::<Vec<usize>>()
        };
        let is_passed = |at: usize| match cuts.cuts[at].kind {
            CutKind::Table(table) => frame.is_cached(program, table),
            CutKind::Handler(_) => false,
        };
        let earlier: Vec<Option<Vec<usize>>> = keys
            .iter()
            .enumerate()
            .map(|(at, key)| {
                let mut earlier = may_precede(at);
                let is_own = key.has_affinity || earlier.iter().all(|&at| keys[at].is_same(key));
                earlier.retain(|&at| is_passed(at));
                let numbers = earlier.into_iter().map(|at| at + 1);
                (!is_own).then(|| numbers.collect())
            })
            .collect();
        let mut field = |name: String, ty| {
            let name = format!("{ADDED}.{name}");
            program.fields.push(Field { name, ty })
        };
        let hash = field("flow".to_owned(), ScalarTy::Bit(32));
        let is_needed = earlier.iter().any(Option::is_some);
        let first = is_needed.then(|| field("first_cut".to_owned(), ScalarTy::Bit(CUT_BITS)));
        let has_copy = |number: usize| {
            let mut all = earlier.iter().flatten();
            all.any(|numbers| numbers.contains(&number))
        };
        let copies: Vec<Vec<FieldId>> = keys
            .iter()
            .enumerate()
            .map(|(at, key)| {
                let types = key.types.iter().filter(|_| has_copy(at + 1)).enumerate();
                let name = |position| format!("key_{}.{position}", at + 1);
                types
                    .map(|(position, &ty)| field(name(position), ty))
                    .collect()
            })
            .collect();
        let cuts = keys.into_iter().zip(copies).zip(earlier);
        Flows {
            hash,
            first,
            cuts: cuts
                .map(|((key, copies), earlier)| FlowAtCut {
                    own: key.values,
                    copies,
                    earlier,
                })
                .collect(),
        }
    }

    /// Returns the field of the flow.
    pub(super) fn hash(&self) -> FieldId {
        self.hash
    }

    /// Returns the code for a packet that has come back: its flow is that of its request.
    pub(super) fn restore(&self, frame: &FrameHeader) -> Vec<Stmt> {
        let Some(first) = self.first else {
            return Vec::new();
        };
        let flow = read(frame.option(FrameOption::Flow));
        // A request to the owner of a value has no flow.
        let is_known = Expr::Binary(BinOp::Ne, Box::new(flow.clone()), Box::new(constant(0, 32)));
        let known = assign(first, constant(RESTORED, CUT_BITS));
        vec![
            assign(self.hash, flow),
            statement(StmtKind::If(is_known, vec![known], Vec::new())),
        ]
    }

    /// Returns the code before the lookup at a cut: it keeps the key of the first cut.
    pub(super) fn note(&self, number: usize) -> Vec<Stmt> {
        let FlowAtCut { own, copies, .. } = &self.cuts[number - 1];
        let Some(first) = self.first.filter(|_| !copies.is_empty()) else {
            return Vec::new();
        };
        let mut body = vec![assign(first, constant(number as u64, CUT_BITS))];
        let keys = copies.iter().zip(own);
        body.extend(keys.map(|(&copy, key)| assign(copy, key.clone())));
        let is_first = is_first(first, 0);
        vec![statement(StmtKind::If(is_first, body, Vec::new()))]
    }

    /// Returns the code that computes the flow of a packet that leaves at a cut.
    pub(super) fn identify(&self, number: usize) -> Vec<Stmt> {
        let FlowAtCut { own, earlier, .. } = &self.cuts[number - 1];
        let own = self.hash_of(own.clone());
        let (Some(first), Some(earlier)) = (self.first, earlier) else {
            return own;
        };
        let others = earlier.iter().map(|&number| {
            let copies = self.cuts[number - 1].copies.iter();
            (number, copies.map(|&copy| read(copy)).collect())
        });
        let code = others.fold(own, |otherwise, (number, key)| {
            let is_first = is_first(first, number as u64);
            let code = StmtKind::If(is_first, self.hash_of(key), otherwise);
            vec![statement(code)]
        });
        let is_restored = is_first(first, RESTORED);
        vec![statement(StmtKind::If(is_restored, Vec::new(), code))]
    }

    /// Returns the code that computes the hash of values.
    fn hash_of(&self, values: Vec<Expr>) -> Vec<Stmt> {
        if values.is_empty() {
            return Vec::new();
        }
        let size = Expr::Const(ScalarTy::Bit(33), Value::truncated(1 << 32, 33));
        vec![call(
            Op::Hash,
            vec![
                Operand::Number(HashAlgorithm::Crc32.number()),
                Operand::In(constant(0, 32)),
                Operand::In(size),
                Operand::Data(values),
                Operand::Out(Place::from(self.hash)),
            ],
        )]
    }
}

fn is_first(first: FieldId, number: u64) -> Expr {
    Expr::Binary(
        BinOp::Eq,
        Box::new(read(first)),
        Box::new(constant(number, CUT_BITS)),
    )
}

/// Values that identify the flow at a cut.
struct FlowKey {
    values: Vec<Expr>,
    types: Vec<ScalarTy>,
    /// True if the user has marked them.
    has_affinity: bool,
    /// True if no stage before the cut writes them.
    is_of_packet: bool,
}

impl FlowKey {
    fn of(program: &Program, cut: &Cut, stage: &Stage, cuts: &Cuts) -> FlowKey {
        let (values, has_affinity) = match cut.kind {
            CutKind::Table(table) => {
                let keys = program.tables[table].keys.iter();
                (keys.map(|key| key.expr.clone()).collect(), false)
            }
            CutKind::Handler(handler) => {
                let request = request_of(stage);
                let marked = marked(program, handler, &request);
                match marked.is_empty() {
                    true => (request, false),
                    false => (marked, true),
                }
            }
        };
        let written = &cuts.written[cut.stage];
        let is_written = |value: &Expr| {
            let mut reads = Uses::of_expr(program, value).reads.into_iter();
            reads.any(|field| written.contains(field))
        };
        let ty = |value: &Expr| value.ty(program, None).unwrap_or(ScalarTy::Bit(1));
        FlowKey {
            types: values.iter().map(ty).collect(),
            is_of_packet: !values.iter().any(is_written),
            values,
            has_affinity,
        }
    }

    /// Returns true if the two keys of a packet are always equal.
    fn is_same(&self, other: &FlowKey) -> bool {
        self.is_of_packet && other.is_of_packet && self.values == other.values
    }
}

/// Returns the values of a request of which the fields have `@affinity`.
fn marked(program: &Program, handler: ir::ExternId, request: &[Expr]) -> Vec<Expr> {
    let ExternKind::Handler {
        request: record, ..
    } = &program.externs[handler].kind
    else {
        return Vec::new();
    };
    let mut is_marked = Vec::new();
    record.each_scalar(&mut |field, _| {
        let mut annotations = field.annotations.iter();
        is_marked.push(annotations.any(|annotation| {
            annotation.name == "affinity" && annotation.body == AnnotationBody::None
        }));
    });
    let marked = request.iter().zip(is_marked);
    let marked = marked.filter(|(_, is_marked)| *is_marked);
    marked.map(|(value, _)| value.clone()).collect()
}
