//! The switch half for v1model switches without operations of ours.
//!
//! `resubmit` stands in for `frame.send`, because it gives the received bytes again. At a cut the
//! packet's values go into metadata that a field list preserves. In the second pass the parser only
//! reads the Ethernet header, and that of a frame if the packet is a response. Ingress fills the
//! frame's header, counts, selects a server and ends; egress does nothing.
//!
//! ```text
//! divert:   is it the second pass of a request ? fill : the switch half
//! fill:     the frame's header; group; sketch; pins; group members; end
//! ```

use bits::{Id, Value};
use ir::{
    Action, ActionCall, ActionParam, ActionScope, BinOp, BlockCode, BlockRole, ControlId, DataTy,
    Expr, Extern, ExternId, ExternKind, Field, FieldId, HashAlgorithm, Header, HeaderField,
    HeaderId, HeaderType, Key, KeySet, Keyset, MatchKind, MatchNext, MatchOutcome, NamedType,
    NamedTypeKind, Next, Op, Operand, ParserId, Place, Program, ScalarTy, SelectCase, Stage,
    StageId, StageKind, State, StateId, Stmt, StmtKind, Table, TableAction, TableId, Target,
    Transition,
};

use super::SplitOptions;
use super::layout::{ADDED, FrameHeader, FrameOption};
use super::line::Line;
use super::parser::{assign, call, constant, read, statement};
use crate::simplify::links;
use crate::uses::Uses;

/// Number of cells of a Bloom filter.
const FILTER_CELLS: u32 = 1 << 16;

/// Number of columns of the sketch.
const SKETCH_COLUMNS: u32 = 1024;

/// Number of cells that note reported flows.
const REPORTED_CELLS: u32 = 1 << 16;

/// Number of buckets of a group of servers.
const BUCKETS: u32 = 1024;

/// Number of flows that can be pinned to a server.
const PINS: u32 = 1 << 16;

/// Storage of a request between its two passes.
pub(super) struct Request {
    ingress: ControlId,
    /// True in the second pass.
    sending: FieldId,
    /// Number of the cut.
    cut: FieldId,
    flow: FieldId,
    /// Leased value of a packet at a cut with `@owner`.
    owned: FieldId,
    /// Values of the frame, in the order of its header.
    values: Vec<FieldId>,
    key: Option<FieldId>,
    /// Number of the field list.
    list: u32,
    /// The header before the frame's.
    outer: HeaderId,
    /// The frame's header.
    header: HeaderId,
    egress_spec: FieldId,
}

/// Declares a field.
fn field(program: &mut Program, name: &str, ty: ScalarTy) -> FieldId {
    program.fields.push(Field {
        name: format!("{ADDED}.{name}"),
        ty,
    })
}

/// Declares a header of a type.
fn header(program: &mut Program, name: &str, ty: ir::HeaderTypeId) -> HeaderId {
    let valid = field(program, &format!("{name}.$valid$"), ScalarTy::Bool);
    for at in 0..program.header_types[ty].fields.len() {
        let HeaderField { name: own, ty, .. } = &program.header_types[ty].fields[at];
        let (own, ty) = (format!("{name}.{own}"), *ty);
        field(program, &own, ty);
    }
    let name = format!("{ADDED}.{name}");
    program.headers.push(Header { name, ty, valid })
}

/// Returns the field of a header at a position.
fn member(program: &Program, header: HeaderId, at: usize) -> FieldId {
    FieldId::new(program.headers[header].valid.get() + 1 + at as u32)
}

fn bits(value: Expr, from: ScalarTy, width: u32) -> Expr {
    match from == ScalarTy::Bit(width) {
        true => value,
        false => Expr::Cast(ScalarTy::Bit(width), Box::new(value)),
    }
}

fn binary(op: BinOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn truth(value: bool) -> Expr {
    Expr::Const(ScalarTy::Bool, Value::truncated(value.into(), 1))
}

impl Request {
    /// Adds the storage of a request to a program.
    pub(super) fn declare(
        program: &mut Program,
        ingress: ControlId,
        frame: &FrameHeader,
        flow: FieldId,
    ) -> Request {
        let sending = field(program, "sending", ScalarTy::Bool);
        let cut = field(program, "cut", ScalarTy::Bit(16));
        let owned = field(program, "owned", ScalarTy::Bit(32));
        let mut values = Vec::new();
        for carried in &frame.carried {
            let Field { name, ty } = program.fields[carried.slot].clone();
            let name = name
                .rsplit_once(".frame.")
                .map_or("value", |(_, name)| name);
            let name = format!("value.{name}");
            values.push(field(program, &name, ty));
        }
        let key = frame.key.map(|slot| {
            let ty = program.fields[slot].ty;
            field(program, "key", ty)
        });
        let ty = program.headers[frame.header].ty;
        let request = header(program, "request", ty);
        let parts = [("dst", 48), ("src", 48), ("type", 16)];
        let outer_ty = program.header_types.push(HeaderType {
            name: format!("{ADDED}.outer_t"),
            fields: parts
                .into_iter()
                .map(|(name, width)| HeaderField {
                    name: name.to_owned(),
                    ty: ScalarTy::Bit(width),
                    data_ty: DataTy::Bit(width),
                    annotations: Vec::new(),
                })
                .collect(),
            annotations: Vec::new(),
        });
        let outer = header(program, "outer", outer_ty);
        let spec = "standard_metadata.egress_spec";
        let known = program.pipeline.intrinsics.get(spec).copied();
        let egress_spec = known.unwrap_or_else(|| {
            let made = field(program, "egress_spec", ScalarTy::Bit(9));
            program.pipeline.intrinsics.insert(spec.to_owned(), made);
            made
        });
        let lists = &mut program.pipeline.field_lists;
        let list = (0..=u32::from(u8::MAX)).find(|number| !lists.contains_key(number));
        let list = list.unwrap_or(0);
        let mut listed = vec![sending, cut, flow, owned];
        listed.extend(values.iter().copied());
        listed.extend(key);
        lists.insert(list, listed);
        Request {
            ingress,
            sending,
            cut,
            flow,
            owned,
            values,
            key,
            list,
            outer,
            header: request,
            egress_spec,
        }
    }

    /// Makes the parser read a request's Ethernet header only.
    pub(super) fn extend_parser(
        &self,
        program: &mut Program,
        parser: ParserId,
        frame: &FrameHeader,
    ) {
        let first = program.parsers[parser].start;
        let outer_type = member(program, self.outer, 2);
        let states = &mut program.parsers[parser].states;
        let state = |name: &str, body: Vec<Stmt>, transition: Transition| State {
            name: format!("{ADDED}.{name}"),
            body,
            transition,
            loc: None,
        };
        let case = |set: KeySet, target: Target| SelectCase {
            keyset: Keyset::Sets(vec![set]),
            target,
        };
        let extract = |header: HeaderId| statement(StmtKind::Extract(header.into(), None));
        let again = states.push(state(
            "response_again",
            vec![extract(self.header)],
            Transition::Direct(Target::Accept),
        ));
        let is_response = constant(u64::from(frame.layout.response_type), 16);
        let request = states.push(state(
            "request",
            vec![extract(self.outer)],
            Transition::Select {
                keys: vec![read(outer_type)],
                cases: vec![
                    case(KeySet::Value(is_response), Target::State(again)),
                    case(KeySet::Any, Target::Accept),
                ],
            },
        ));
        let start: StateId = states.push(state(
            "begin",
            Vec::new(),
            Transition::Select {
                keys: vec![bits(read(self.sending), ScalarTy::Bool, 1)],
                cases: vec![
                    case(KeySet::Value(constant(1, 1)), Target::State(request)),
                    case(KeySet::Any, Target::State(first)),
                ],
            },
        ));
        program.parsers[parser].start = start;
    }

    /// Returns the code at a cut: it keeps the values and starts the second pass.
    pub(super) fn leave(
        &self,
        program: &Program,
        frame: &FrameHeader,
        number: usize,
        (key, missing): (Vec<Expr>, u32),
        owner: Option<&Expr>,
    ) -> Vec<Stmt> {
        let mut body = vec![
            assign(self.sending, truth(true)),
            assign(self.cut, constant(number as u64, 16)),
        ];
        for (carried, &value) in frame.carried.iter().zip(&self.values) {
            let ty = program.fields[carried.field].ty;
            let from = read(carried.field);
            body.push(assign(
                value,
                bits(from, ty, program.fields[value].ty.width()),
            ));
        }
        if let Some(own) = self.key {
            let mut parts = key.into_iter().map(|part| {
                let ty = part.ty(program, None).unwrap_or(ScalarTy::Bit(1));
                bits(part, ty, ty.width())
            });
            let zeros = (missing > 0).then(|| constant(0, missing));
            let first = parts.next();
            let whole = first
                .into_iter()
                .chain(parts)
                .chain(zeros)
                .reduce(|left, right| Expr::Concat(Box::new(left), Box::new(right)));
            body.extend(whole.map(|whole| assign(own, whole)));
        }
        if let Some(owner) = owner {
            let ty = owner.ty(program, None).unwrap_or(ScalarTy::Bit(32));
            body.push(assign(self.owned, bits(owner.clone(), ty, 32)));
        }
        let list = u64::from(self.list) + 1;
        body.push(call(Op::Resubmit, vec![Operand::Number(list)]));
        body
    }

    /// Adds the stages of the second pass, before all others.
    pub(super) fn send(
        &self,
        program: &mut Program,
        line: &mut Line<'_>,
        frame: &FrameHeader,
        options: &SplitOptions,
        first: Next,
    ) {
        let path = program.controls[self.ingress].name.clone();
        let divert = line.reserve();
        let fill = line.reserve();
        line.before(
            divert,
            "divert",
            StageKind::Condition {
                cond: read(self.sending),
                then: Next::Stage(fill),
                otherwise: first,
            },
        );
        let group = Group::declare(program, &path);
        let sketch = self.key.map(|key| Sketch::declare(program, &path, key));
        let mut body = self.fill(program, frame);
        body.extend(group.generation(program, self.flow));
        if let Some(sketch) = &sketch {
            body.extend(sketch.count(self));
        }
        let pins = line.reserve();
        let members = line.reserve();
        line.before(
            fill,
            "fill",
            StageKind::Action {
                body,
                next: Next::Stage(pins),
            },
        );
        let (pin_table, member_table) = self.tables(program, frame, &path, &group, options);
        let apply = |table, next| StageKind::Match {
            table,
            outcome: MatchOutcome::default(),
            next,
        };
        let by_hit = MatchNext::ByHit {
            hit: Next::End,
            miss: Next::Stage(members),
        };
        line.before(pins, "pins", apply(pin_table, by_hit));
        let always = MatchNext::Always(Next::End);
        line.before(members, "members", apply(member_table, always));
    }

    /// Returns the code that fills the frame's header.
    fn fill(&self, program: &Program, frame: &FrameHeader) -> Vec<Stmt> {
        let valid = program.headers[self.header].valid;
        let outer_type = member(program, self.outer, 2);
        let own_type = member(program, self.header, 0);
        // A response already has the packet's own EtherType there.
        let mut body = vec![statement(StmtKind::If(
            Expr::Unary(ir::UnOp::Not, Box::new(read(valid))),
            vec![
                assign(valid, truth(true)),
                assign(own_type, read(outer_type)),
            ],
            Vec::new(),
        ))];
        let request = constant(u64::from(frame.layout.request_type), 16);
        body.push(assign(outer_type, request));
        let epoch = constant(frame.layout.epoch.into(), 16);
        body.push(assign(member(program, self.header, 1), epoch));
        let mut at = 2;
        let mut next = || {
            at += 1;
            member(program, self.header, at - 1)
        };
        for &value in &self.values {
            body.push(assign(next(), read(value)));
        }
        if let Some(key) = self.key {
            body.push(assign(next(), read(key)));
        }
        if frame.padding > 0 {
            body.push(assign(next(), constant(0, frame.padding)));
        }
        for (option, width) in frame.each_option() {
            let value = match option {
                FrameOption::ResumePoint => read(self.cut),
                FrameOption::Flow => read(self.flow),
                FrameOption::Sequence => read(self.owned),
                _ => constant(0, width),
            };
            body.push(assign(next(), value));
        }
        body
    }

    /// Declares the tables that select a server.
    fn tables(
        &self,
        program: &mut Program,
        frame: &FrameHeader,
        path: &str,
        group: &Group,
        options: &SplitOptions,
    ) -> (TableId, TableId) {
        let at_server = frame
            .each_option()
            .position(|(option, _)| option == FrameOption::Server);
        let count = program.header_types[program.headers[self.header].ty]
            .fields
            .len();
        let first_option = count - frame.each_option().count();
        let server = member(program, self.header, first_option + at_server.unwrap_or(0));
        let port = program.fields[self.egress_spec].ty;
        let param = |name: &str, ty: ScalarTy| ActionParam {
            name: name.to_owned(),
            ty,
            data_ty: DataTy::Bit(ty.width()),
            annotations: Vec::new(),
        };
        let send = program.actions.push(Action {
            name: format!("{path}.split_send"),
            control_plane_name: format!("{path}.split_send"),
            params: vec![param("port", port), param("server", ScalarTy::Bit(16))],
            body: vec![
                assign(self.egress_spec, Expr::Param(0)),
                assign(server, Expr::Param(1)),
            ],
            annotations: Vec::new(),
            loc: None,
        });
        let unpinned = program.actions.push(Action {
            name: format!("{path}.split_unpinned"),
            control_plane_name: format!("{path}.split_unpinned"),
            params: Vec::new(),
            body: Vec::new(),
            annotations: Vec::new(),
            loc: None,
        });
        let key = |name: &str, expr: Expr, width: u32| Key {
            name: name.to_owned(),
            expr,
            match_kind: MatchKind::Exact,
            data_ty: DataTy::Bit(width),
            annotations: Vec::new(),
        };
        let listed = |action, scope| TableAction {
            action,
            scope,
            annotations: Vec::new(),
        };
        let both = ActionScope::TableAndDefault;
        let number = |value: u32, width: u32| Value::truncated(value.into(), width);
        let mut table = |name: &str, keys, actions, default, size| {
            program.tables.push(Table {
                name: format!("{path}.{name}"),
                keys,
                actions,
                default,
                default_is_const: false,
                entries: Vec::new(),
                entries_are_const: false,
                largest_priority_wins: true,
                size,
                size_is_declared: true,
                implementation: None,
                direct_counter: None,
                direct_meter: None,
                idle_timeout: false,
                add_on_miss: false,
                mirror: None,
                annotations: Vec::new(),
                loc: None,
            })
        };
        let pins = table(
            "split_pins",
            vec![key("flow", read(self.flow), 32)],
            vec![
                listed(send, ActionScope::TableOnly),
                listed(unpinned, ActionScope::DefaultOnly),
            ],
            ActionCall {
                action: 1,
                args: Vec::new(),
            },
            PINS,
        );
        let bucket = Expr::Slice(Box::new(read(self.flow)), BUCKETS.ilog2() - 1, 0);
        let members = table(
            "split_servers",
            vec![
                key("generation", read(group.generation), 1),
                key("bucket", bucket, BUCKETS.ilog2()),
            ],
            vec![listed(send, both)],
            ActionCall {
                action: 0,
                args: vec![number(options.request_port, port.width()), number(0, 16)],
            },
            2 * BUCKETS,
        );
        (pins, members)
    }

    /// Makes egress skip a request, and the deparser emit it. No packet leaves with the header of a
    /// response, but it is one of those that are emitted: the compiler takes only their bytes from
    /// `packet_length`. In egress it is valid in a copy of the received packet.
    pub(super) fn finish(&self, program: &mut Program, frame: &FrameHeader) {
        let response = frame.header;
        let received = program.headers[response].valid;
        for block in program.pipeline.blocks.clone() {
            let BlockCode::Control(id) = block.code else {
                continue;
            };
            match block.role {
                BlockRole::Egress => {
                    let next = first_of(program, id);
                    let mut body = own_length(program, id, frame);
                    body.push(assign(received, truth(false)));
                    put_first(program, id, "response", StageKind::Action { body, next });
                    let kind = StageKind::Condition {
                        cond: read(self.sending),
                        then: Next::End,
                        otherwise: Next::Stage(StageId::new(1)),
                    };
                    put_first(program, id, "request", kind);
                }
                BlockRole::Deparser => {
                    let emit = |header: HeaderId| statement(StmtKind::Emit(header.into()));
                    let body = vec![emit(self.outer), emit(self.header), emit(response)];
                    let next = first_of(program, id);
                    put_first(program, id, "request", StageKind::Action { body, next });
                }
                _ => {}
            }
        }
    }
}

/// Returns the code that takes the frame's header off the length of a copy of the received packet,
/// if egress reads the length.
fn own_length(program: &Program, egress: ControlId, frame: &FrameHeader) -> Vec<Stmt> {
    let known = program
        .pipeline
        .intrinsics
        .get("standard_metadata.packet_length");
    let reads = Uses::of_control(program, &program.controls[egress]).reads;
    let Some(&length) = known.filter(|length| reads.contains(length)) else {
        return Vec::new();
    };
    let width = program.fields[length].ty.width();
    let bytes = constant(u64::from(frame.layout.header_bytes), width);
    let own = assign(length, binary(BinOp::Sub, read(length), bytes));
    let cond = read(frame.valid(program));
    vec![statement(StmtKind::If(cond, vec![own], Vec::new()))]
}

/// Returns the link from a new first stage to the present one.
fn first_of(program: &Program, control: ControlId) -> Next {
    match program.controls[control].stages.is_empty() {
        true => Next::End,
        false => Next::Stage(StageId::new(1)),
    }
}

/// Inserts a stage before all others. Its own links are those of the result.
fn put_first(program: &mut Program, control: ControlId, name: &str, kind: StageKind) {
    let control = &mut program.controls[control];
    let mut stages = std::mem::take(&mut control.stages).into_vec();
    for next in stages.iter_mut().flat_map(|stage| links(&mut stage.kind)) {
        if let Next::Stage(id) = next {
            *id = StageId::from_index(id.index() + 1);
        }
    }
    let first = Stage {
        name: format!("{}.{ADDED}.{name}", control.name),
        kind,
        loc: None,
    };
    stages.insert(0, first);
    control.stages = stages.into_iter().collect();
}

/// Declares a register array of numbers.
fn register(program: &mut Program, path: &str, name: &str, size: u32, width: u32) -> ExternId {
    program.externs.push(Extern {
        name: format!("{path}.{name}"),
        kind: ExternKind::Register {
            cell: vec![ScalarTy::Bit(width)],
            size,
            initial: vec![Value::zero(width)],
            data_ty: DataTy::Bit(width),
            index_ty: None,
        },
        annotations: Vec::new(),
        loc: None,
    })
}

fn read_cell(register: ExternId, index: Expr, to: FieldId) -> Stmt {
    statement(StmtKind::Call(ir::Call {
        op: Op::RegisterRead,
        instance: Some(register),
        operands: vec![Operand::In(index), Operand::Outs(vec![Place::from(to)])],
    }))
}

fn write_cell(register: ExternId, index: Expr, value: Expr) -> Stmt {
    statement(StmtKind::Call(ir::Call {
        op: Op::RegisterWrite,
        instance: Some(register),
        operands: vec![Operand::In(index), Operand::Data(vec![value])],
    }))
}

/// Two generations of a group: a flow that the other generation knows stays in it.
struct Group {
    current: ExternId,
    filters: [ExternId; 2],
    generation: FieldId,
    /// Cells of the other generation's filter.
    seen: [FieldId; 2],
}

impl Group {
    fn declare(program: &mut Program, path: &str) -> Group {
        let current = register(program, path, "split_current", 1, 1);
        let filters = ["split_flows_0", "split_flows_1"]
            .map(|name| register(program, path, name, FILTER_CELLS, 1));
        Group {
            current,
            filters,
            generation: field(program, "generation", ScalarTy::Bit(1)),
            seen: ["seen_low", "seen_high"].map(|name| field(program, name, ScalarTy::Bit(1))),
        }
    }

    /// Returns the code that notes a flow in the current generation, and selects its generation.
    fn generation(&self, program: &Program, flow: FieldId) -> Vec<Stmt> {
        let index = |low: u32| {
            let half = Expr::Slice(Box::new(read(flow)), low + 15, low);
            bits(half, ScalarTy::Bit(16), 32)
        };
        let one = || constant(1, program.fields[self.generation].ty.width());
        let side = |own: usize| {
            let (own, other) = (self.filters[own], self.filters[1 - own]);
            vec![
                write_cell(own, index(0), one()),
                write_cell(own, index(16), one()),
                read_cell(other, index(0), self.seen[0]),
                read_cell(other, index(16), self.seen[1]),
            ]
        };
        let both = binary(BinOp::And, read(self.seen[0]), read(self.seen[1]));
        vec![
            read_cell(self.current, constant(0, 32), self.generation),
            statement(StmtKind::If(
                binary(BinOp::Eq, read(self.generation), constant(0, 1)),
                side(0),
                side(1),
            )),
            assign(
                self.generation,
                binary(BinOp::Xor, read(self.generation), both),
            ),
        ]
    }
}

/// A count-min sketch with two rows, and a digest for each flow above a threshold.
struct Sketch {
    rows: [ExternId; 2],
    threshold: ExternId,
    reported: ExternId,
    digest: ExternId,
    /// Hash of the cut and the flow.
    hash: FieldId,
    counts: [FieldId; 2],
    limit: FieldId,
    noted: FieldId,
    key: FieldId,
}

impl Sketch {
    fn declare(program: &mut Program, path: &str, key: FieldId) -> Sketch {
        let rows = ["split_sketch_0", "split_sketch_1"]
            .map(|name| register(program, path, name, SKETCH_COLUMNS, 32));
        let threshold = register(program, path, "split_threshold", 1, 32);
        let reported = register(program, path, "split_reported", REPORTED_CELLS, 32);
        let key_width = program.fields[key].ty.width();
        let mut name = "split_report_t".to_owned();
        while program.named_types.iter().any(|ty| ty.name == name) {
            name.push('_');
        }
        let members = [
            ("cut", 16),
            ("flow", 32),
            ("packets", 32),
            ("key", key_width),
        ];
        program.named_types.push(NamedType {
            name: name.clone(),
            kind: NamedTypeKind::Struct(
                members
                    .iter()
                    .map(|&(name, width)| (name.to_owned(), DataTy::Bit(width)))
                    .collect(),
            ),
            annotations: Vec::new(),
        });
        let digest = program.externs.push(Extern {
            name: name.clone(),
            kind: ExternKind::Digest {
                fields: members
                    .iter()
                    .map(|&(_, width)| ScalarTy::Bit(width))
                    .collect(),
                data_ty: DataTy::Named(name),
            },
            annotations: Vec::new(),
            loc: None,
        });
        let mut number = |name| field(program, name, ScalarTy::Bit(32));
        Sketch {
            rows,
            threshold,
            reported,
            digest,
            hash: number("sketch_hash"),
            counts: [number("count_0"), number("count_1")],
            limit: number("threshold"),
            noted: number("noted"),
            key,
        }
    }

    /// Returns the code that counts a request, and reports its flow once above the threshold. A
    /// threshold of 0 reports none.
    fn count(&self, request: &Request) -> Vec<Stmt> {
        let width = SKETCH_COLUMNS.ilog2();
        let column = |row: u32| {
            let slice = Expr::Slice(
                Box::new(read(self.hash)),
                (row + 1) * width - 1,
                row * width,
            );
            bits(slice, ScalarTy::Bit(width), 32)
        };
        let mut body = vec![call(
            Op::Hash,
            vec![
                Operand::Number(HashAlgorithm::Crc32.number()),
                Operand::In(constant(0, 32)),
                Operand::In(Expr::Const(
                    ScalarTy::Bit(33),
                    Value::truncated(1 << 32, 33),
                )),
                Operand::Data(vec![read(request.cut), read(request.flow)]),
                Operand::Out(Place::from(self.hash)),
            ],
        )];
        for (row, (&register, &count)) in self.rows.iter().zip(&self.counts).enumerate() {
            let column = column(row as u32);
            body.push(read_cell(register, column.clone(), count));
            let more = binary(BinOp::AddSaturating, read(count), constant(1, 32));
            body.push(assign(count, more));
            body.push(write_cell(register, column, read(count)));
        }
        let [first, second] = self.counts;
        let is_less = binary(BinOp::Lt, read(second), read(first));
        let to_first = vec![assign(first, read(second))];
        body.push(statement(StmtKind::If(is_less, to_first, Vec::new())));
        body.push(read_cell(self.threshold, constant(0, 32), self.limit));
        // The cell has the last flow that was reported from it.
        let cell = Expr::Slice(Box::new(read(self.hash)), REPORTED_CELLS.ilog2() - 1, 0);
        let cell = bits(cell, ScalarTy::Bit(REPORTED_CELLS.ilog2()), 32);
        let set = binary(BinOp::Ne, read(self.limit), constant(0, 32));
        let above = binary(BinOp::Gt, read(first), read(self.limit));
        let is_new = binary(BinOp::Ne, read(self.noted), read(self.hash));
        let report = statement(StmtKind::Call(ir::Call {
            op: Op::DigestSend,
            instance: Some(self.digest),
            operands: vec![Operand::Data(vec![
                read(request.cut),
                read(request.flow),
                read(first),
                read(self.key),
            ])],
        }));
        let note = vec![
            read_cell(self.reported, cell.clone(), self.noted),
            statement(StmtKind::If(
                is_new,
                vec![write_cell(self.reported, cell, read(self.hash)), report],
                Vec::new(),
            )),
        ];
        let cond = binary(BinOp::LogicalAnd, set, above);
        body.push(statement(StmtKind::If(cond, note, Vec::new())));
        body
    }
}
