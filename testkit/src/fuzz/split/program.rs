//! Generator of cross-plane programs with state by flow.
//!
//! Each packet has a flow and a number in its first header, which no program writes. Keys of
//! mirrored tables depend on the flow alone. With delays between the planes, so do the conditions
//! before a cut, each register is used at one place, and a hit of an entry that a handler added
//! does not end ingress: then one device and the halves do the same with the packets of a flow.

use support::rng::Rng;

use super::setting::{Mode, Setting};

/// Part of a table's key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KeyPart {
    /// The packet's flow, 16 bits.
    Flow,
    /// Its space, 8 bits.
    Space,
    /// Its address, 32 bits.
    Address,
    /// The flow after an operation with a number, 16 bits.
    Computed(char, u16),
}

impl KeyPart {
    /// Returns the width in bits.
    pub(super) fn width(self) -> u32 {
        match self {
            KeyPart::Flow | KeyPart::Computed(..) => 16,
            KeyPart::Space => 8,
            KeyPart::Address => 32,
        }
    }

    /// Returns the value of a flow's packets.
    pub(super) fn of(self, flow: u16) -> u32 {
        let (space, address) = place_of(flow);
        match self {
            KeyPart::Flow => flow.into(),
            KeyPart::Space => space.into(),
            KeyPart::Address => address,
            KeyPart::Computed('+', number) => flow.wrapping_add(number).into(),
            KeyPart::Computed('^', number) => (flow ^ number).into(),
            KeyPart::Computed(_, number) => (flow & number).into(),
        }
    }
}

/// Returns the space and address of a flow. Some prefixes hold several flows.
pub(super) fn place_of(flow: u16) -> (u8, u32) {
    ((flow % 2) as u8, u32::from(flow / 2) << 3 | 1)
}

/// A table of the program.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The keys; the last one is matched by prefix if `has_prefix`.
    pub(super) keys: Vec<KeyPart>,
    pub(super) has_prefix: bool,
    /// Widths of the parameters of each action.
    pub(super) actions: Vec<Vec<u32>>,
}

/// Statements of a control, as a tree of which parts can be removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    head: String,
    arms: Vec<(String, Vec<Piece>)>,
    tail: String,
}

impl Piece {
    fn line(text: impl Into<String>) -> Piece {
        Piece {
            head: text.into(),
            ..Piece::default()
        }
    }

    fn either(condition: &str, then: Vec<Piece>, otherwise: Vec<Piece>) -> Piece {
        let mut arms = vec![(String::new(), then)];
        if !otherwise.is_empty() {
            arms.push(("else ".to_owned(), otherwise));
        }
        Piece {
            head: format!("if ({condition}) "),
            arms,
            tail: String::new(),
        }
    }

    fn print(&self, indent: usize, out: &mut String) {
        let space = "    ".repeat(indent);
        out.push_str(&format!("{space}{}", self.head));
        for (label, pieces) in &self.arms {
            out.push_str(&format!("{label}{{\n"));
            pieces.iter().for_each(|piece| piece.print(indent + 1, out));
            out.push_str(&format!("{space}}} "));
        }
        out.push_str(&format!("{}\n", self.tail));
    }
}

/// Returns the number of pieces.
fn count(pieces: &[Piece]) -> usize {
    let inner = |piece: &Piece| piece.arms.iter().map(|arm| count(&arm.1)).sum::<usize>();
    pieces.iter().map(|piece| 1 + inner(piece)).sum()
}

/// Removes the piece of this number, counted from outside and from the front.
fn remove(pieces: &mut Vec<Piece>, number: &mut usize) -> bool {
    for at in 0..pieces.len() {
        if *number == 0 {
            pieces.remove(at);
            return true;
        }
        *number -= 1;
        for (_, arm) in &mut pieces[at].arms {
            if remove(arm, number) {
                return true;
            }
        }
    }
    false
}

/// A generated program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    declarations: String,
    inner: String,
    parser: String,
    body: Vec<Piece>,
    egress: Vec<Piece>,
    checksum: String,
    pub(super) tables: Vec<Table>,
    /// Names of the handlers, and the table of each to which it adds entries.
    pub(super) handlers: Vec<(String, Option<String>)>,
    /// Number of cuts in the text of ingress.
    pub(super) cuts: usize,
}

impl Program {
    /// Returns all programs with one piece less.
    pub(super) fn shorter(&self) -> impl Iterator<Item = Program> {
        let (body, egress) = (count(&self.body), count(&self.egress));
        (0..body + egress).map(move |number| {
            let mut program = self.clone();
            let mut number = number;
            match number.checked_sub(body) {
                Some(mut number) => remove(&mut program.egress, &mut number),
                None => remove(&mut program.body, &mut number),
            };
            program
        })
    }

    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let print = |pieces: &[Piece]| {
            let mut out = String::new();
            pieces.iter().for_each(|piece| piece.print(2, &mut out));
            out
        };
        format!(
            "#include <v1model.p4>\n\
             header e_t {{ bit<48> dst; bit<48> src; bit<16> type; }}\n\
             header p_t {{ bit<16> flow; bit<8> space; bit<32> address; bit<32> number;\n    \
                 bit<8> a; bit<16> b; bit<32> c; bit<32> r; bit<64> w; bit<32> v; }}\n\
             header q_t {{ bit<8> a; bit<32> b; bit<24> c; }}\n\
             struct h {{ e_t e; p_t p; q_t q; }}\n\
             struct m {{ bit<8> x0; bit<16> x1; bit<32> x2; bit<48> x3; bit<16> k; bit<32> y; bit<32> z; }}\n\
             {declarations}\
             parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {{\n    \
                 state start {{ p.extract(hdr.e); p.extract(hdr.p); {parser}\
                 transition select(hdr.p.a[0:0]) {{ 1: more; default: accept; }} }}\n    \
                 state more {{ p.extract(hdr.q); transition accept; }}\n}}\n\
             control V(inout h hdr, inout m meta) {{ apply {{ }} }}\n\
             control I(inout h hdr, inout m meta, inout standard_metadata_t s) {{\n{inner}    \
                 apply {{\n        s.egress_spec = 2;\n        bit<32> l0 = 0;\n        \
                 bit<16> l1 = 7;\n{body}    }}\n}}\n\
             control E(inout h hdr, inout m meta, inout standard_metadata_t s) {{\n    \
                 apply {{\n        bit<32> l0 = 0;\n        bit<16> l1 = 7;\n{egress}    }}\n}}\n\
             control C(inout h hdr, inout m meta) {{ apply {{ {checksum} }} }}\n\
             control D(packet_out p, in h hdr) {{ apply {{ p.emit(hdr); }} }}\n\
             V1Switch(P(), V(), I(), E(), C(), D()) main;\n",
            declarations = self.declarations,
            parser = self.parser,
            inner = self.inner,
            body = print(&self.body),
            egress = print(&self.egress),
            checksum = self.checksum,
        )
    }
}

/// Variables that programs read and write: names and widths.
const VARIABLES: &[(&str, u32)] = &[
    ("hdr.p.a", 8),
    ("hdr.p.b", 16),
    ("hdr.p.c", 32),
    ("hdr.p.r", 32),
    ("hdr.p.w", 64),
    ("hdr.e.dst", 48),
    ("hdr.e.type", 16),
    ("meta.x0", 8),
    ("meta.x1", 16),
    ("meta.x2", 32),
    ("meta.x3", 48),
    ("l0", 32),
    ("l1", 16),
];

/// Values that depend on the flow alone.
const OF_FLOW: &[(&str, u32)] = &[
    ("hdr.p.flow", 16),
    ("hdr.p.space", 8),
    ("hdr.p.address", 32),
];

/// Draws a program.
pub(super) fn draw(rng: &mut Rng, setting: &Setting) -> Program {
    let keys = match rng.one_in(2) {
        true => (vec![KeyPart::Flow], false),
        false => (vec![KeyPart::Space, KeyPart::Address], rng.one_in(2)),
    };
    let mut maker = Maker {
        setting,
        keys,
        program: Program {
            declarations: String::new(),
            inner: String::new(),
            parser: String::new(),
            body: Vec::new(),
            egress: Vec::new(),
            checksum: String::new(),
            tables: Vec::new(),
            handlers: Vec::new(),
            cuts: 0,
        },
        registers: 0,
        counters: 0,
        may_exit: true,
        has_state: setting.mode == Mode::Exact,
        rng,
    };
    maker.whole();
    maker.program
}

struct Maker<'a> {
    rng: &'a mut Rng,
    setting: &'a Setting,
    /// Keys of all tables if all cuts have one flow.
    keys: (Vec<KeyPart>, bool),
    program: Program,
    registers: usize,
    counters: usize,
    /// False where ingress must go on.
    may_exit: bool,
    /// True where the program may use registers.
    has_state: bool,
}

impl Maker<'_> {
    fn whole(&mut self) {
        if self.rng.one_in(3) {
            self.program.parser = "meta.x1 = (bit<16>) s.ingress_port + hdr.p.b; ".to_owned();
        }
        if self.rng.one_in(3) {
            self.program.checksum =
                "update_checksum(true, { hdr.p.flow, hdr.p.c, hdr.p.r, hdr.p.w }, \
                                     hdr.p.b, HashAlgorithm.csum16);"
                    .to_owned();
        }
        let mut body = Vec::new();
        let is_postponable = self.rng.one_in(2);
        if is_postponable {
            body.extend(self.postponable());
        }
        for _ in 0..self.rng.below(4) {
            self.piece(&mut body, 0, true);
        }
        let cuts = 1 + self.rng.below(3);
        for _ in 0..cuts {
            self.cut(&mut body, 0);
            for _ in 0..self.rng.below(3) {
                self.piece(&mut body, 0, true);
            }
        }
        // Here a lost packet has changed nothing yet.
        self.has_state |= self.setting.mode == Mode::Lossy;
        for _ in 0..self.rng.below(4) {
            self.piece(&mut body, 2, false);
        }
        if is_postponable {
            body.push(Piece::line("hdr.p.w = hdr.p.w + (bit<64>) meta.y;"));
        }
        if self.has_state {
            let stateful = self.state("hdr.p.c");
            body.push(stateful);
        }
        self.program.body = body;
        let mut egress = Vec::new();
        for _ in 0..self.rng.below(3) {
            let line = self.assignment(false);
            egress.push(line);
        }
        self.program.egress = egress;
    }

    /// Returns the computation of a value that is used only after the last cut.
    fn postponable(&mut self) -> Vec<Piece> {
        let values = [
            "hdr.p.v",
            "hdr.p.address",
            "hdr.e.src[40:9]",
            "hdr.p.number",
        ];
        let mut value = || *self.rng.pick(&values).unwrap_or(&values[0]);
        let (a, b) = (value(), value());
        let hash = |to: &str, data: &str| {
            Piece::line(format!(
                "hash({to}, HashAlgorithm.crc32, 32w0, {{ {data} }}, 32w1000);"
            ))
        };
        match self.rng.below(4) {
            0 => vec![Piece::line(format!("meta.y = {a} ^ {b};"))],
            1 => vec![hash("meta.y", &format!("{a}, {b}, hdr.p.flow"))],
            2 => vec![
                Piece::line("meta.y = 5;"),
                hash("meta.y", &format!("{a}, hdr.p.space")),
            ],
            _ => vec![
                Piece::line(format!("meta.z = {a} + {b};")),
                hash("meta.y", "meta.z, hdr.p.v"),
            ],
        }
    }

    /// Adds a piece. `has_cut_after` is true if a cut may follow.
    fn piece(&mut self, out: &mut Vec<Piece>, depth: usize, has_cut_after: bool) {
        let is_async = self.setting.has_delays();
        let piece = match self.rng.below(16) {
            0..5 => self.assignment(true),
            5 => self.hash(),
            6 | 7 if self.has_state => {
                let (to, _) = self.variable();
                self.state(&to)
            }
            8 if self.has_state => self.counter(),
            9 | 10 if depth < 2 => {
                let of_flow = is_async && has_cut_after;
                let condition = self.condition(of_flow);
                let mut then = Vec::new();
                let mut otherwise = Vec::new();
                for arm in [&mut then, &mut otherwise] {
                    for _ in 0..self.rng.below(3) {
                        self.piece(arm, depth + 1, has_cut_after);
                    }
                    // A branch with a cut: its condition depends on the flow.
                    if has_cut_after && self.rng.one_in(4) {
                        self.cut(arm, depth + 1);
                    }
                }
                if then.is_empty() && otherwise.is_empty() {
                    then.push(self.assignment(true));
                }
                Piece::either(&condition, then, otherwise)
            }
            11 => self.header(),
            12 => self.local_table(),
            13 if self.setting.mode != Mode::Lossy => {
                let condition = self.condition(false);
                Piece::either(
                    &condition,
                    vec![Piece::line("mark_to_drop(s);")],
                    Vec::new(),
                )
            }
            14 if depth > 0 && self.may_exit => {
                let condition = self.condition(is_async && has_cut_after);
                Piece::either(&condition, vec![Piece::line("exit;")], Vec::new())
            }
            _ => self.assignment(true),
        };
        out.push(piece);
    }

    /// Adds a mirrored table or the call of a handler.
    fn cut(&mut self, out: &mut Vec<Piece>, depth: usize) {
        self.program.cuts += 1;
        match self.rng.below(5) {
            _ if self.setting.has_tables_alone() => self.mirrored(out, depth),
            0 => self.handler(out, None),
            1 if self.setting.may_learn() => self.learned(out),
            _ => self.mirrored(out, depth),
        }
    }

    fn mirrored(&mut self, out: &mut Vec<Piece>, depth: usize) {
        let (keys, has_prefix) = match self.setting.has_one_key() {
            true => self.keys.clone(),
            false => self.other_keys(),
        };
        let mut before = Vec::new();
        let table = self.table(&keys, has_prefix, false, &mut before);
        out.extend(before);
        let mut arms = [Vec::new(), Vec::new()];
        for arm in &mut arms {
            for _ in 0..self.rng.below(3) {
                self.piece(arm, depth + 1, true);
            }
        }
        let [then, otherwise] = arms;
        out.push(match self.rng.below(3) {
            0 => Piece::line(format!("{table}.apply();")),
            1 => Piece::either(&format!("{table}.apply().hit"), then, otherwise),
            _ => Piece {
                head: format!("switch ({table}.apply().action_run) {{ "),
                arms: vec![
                    (format!("{table}_0: "), then),
                    ("default: ".to_owned(), otherwise),
                ],
                tail: "}".to_owned(),
            },
        });
    }

    fn other_keys(&mut self) -> (Vec<KeyPart>, bool) {
        let computed = |rng: &mut Rng| {
            let operator = *rng.pick(&['+', '^', '&']).unwrap_or(&'+');
            KeyPart::Computed(operator, rng.below(64) as u16)
        };
        match self.rng.below(6) {
            0 => (vec![KeyPart::Flow], false),
            1 => (vec![KeyPart::Space, KeyPart::Address], true),
            2 => (vec![KeyPart::Address], true),
            3 => (vec![computed(self.rng)], false),
            4 => (vec![KeyPart::Flow, KeyPart::Space], false),
            _ => (vec![computed(self.rng), KeyPart::Address], true),
        }
    }

    /// Declares a mirrored table. Returns its name.
    fn table(
        &mut self,
        keys: &[KeyPart],
        has_prefix: bool,
        is_learned: bool,
        before: &mut Vec<Piece>,
    ) -> String {
        let number = self.program.tables.len();
        let name = format!("t{number}");
        let mut key = String::new();
        for (at, part) in keys.iter().enumerate() {
            let kind = match has_prefix && at + 1 == keys.len() {
                true => "lpm",
                false => "exact",
            };
            let value = match part {
                KeyPart::Flow => "hdr.p.flow".to_owned(),
                KeyPart::Space => "hdr.p.space".to_owned(),
                KeyPart::Address => "hdr.p.address".to_owned(),
                KeyPart::Computed(operator, number) => {
                    let value = format!("hdr.p.flow {operator} {number}");
                    match self.rng.one_in(2) {
                        true => value,
                        false => {
                            before.push(Piece::line(format!("meta.k = {value};")));
                            "meta.k".to_owned()
                        }
                    }
                }
            };
            key.push_str(&format!("{value}: {kind} @name(\"k{at}\"); "));
        }
        let mut actions = Vec::new();
        let mut names = String::new();
        for at in 0..1 + self.rng.below(3) {
            let (params, body, widths) = match (at, self.rng.below(6)) {
                (0, _) => ("bit<32> x", "hdr.p.r = x;".to_owned(), vec![32]),
                (_, 0) => (
                    "bit<8> x, bit<16> y",
                    "meta.x0 = x; hdr.p.b = hdr.p.b + y;".to_owned(),
                    vec![8, 16],
                ),
                (_, 1) => ("bit<9> p", "s.egress_spec = p;".to_owned(), vec![9]),
                (_, 2) if self.setting.mode != Mode::Lossy => {
                    ("", "mark_to_drop(s);".to_owned(), vec![])
                }
                (_, 3 | 4) if self.has_state && !is_learned => {
                    let state = self.state("hdr.p.c").head;
                    ("bit<32> x", format!("{state} meta.x2 = x;"), vec![32])
                }
                (_, 5) => (
                    "bit<48> x",
                    "if (x[0:0] == 1) { meta.x3 = x; } hdr.e.dst = hdr.e.dst ^ x;".to_owned(),
                    vec![48],
                ),
                _ => ("bit<32> x", "meta.x2 = meta.x2 ^ x;".to_owned(), vec![32]),
            };
            let inner = &mut self.program.inner;
            inner.push_str(&format!("    action {name}_{at}({params}) {{ {body} }}\n"));
            names.push_str(&format!("{name}_{at}; "));
            actions.push(widths);
        }
        let has_counter = self.has_state && self.rng.one_in(3);
        let inner = &mut self.program.inner;
        let mut counters = String::new();
        if has_counter {
            inner.push_str(&format!(
                "    direct_counter(CounterType.packets_and_bytes) {name}_c;\n"
            ));
            counters = format!("counters = {name}_c; ");
        }
        let mirror = 1 + self.rng.below(9);
        let default = match self.rng.below(3) {
            0 => format!("default_action = {name}_0(77); "),
            _ => "default_action = NoAction(); ".to_owned(),
        };
        self.program.inner.push_str(&format!(
            "    @mirror({mirror}) table {name} {{ key = {{ {key}}} actions = {{ {names}NoAction; }} \
             {default}{counters}size = 1024; }}\n"
        ));
        // `NoAction`.
        actions.push(Vec::new());
        self.program.tables.push(Table {
            name: name.clone(),
            keys: keys.to_vec(),
            has_prefix,
            actions,
        });
        name
    }

    /// Adds a handler and its call. `learns` is the table to which it adds entries.
    fn handler(&mut self, out: &mut Vec<Piece>, learns: Option<String>) {
        let number = self.program.handlers.len();
        let flow = match (self.setting.has_one_key(), &self.keys.0[..]) {
            (true, [KeyPart::Flow]) => "@affinity bit<16> flow; bit<8> space; bit<32> address;",
            (true, _) => "bit<16> flow; @affinity bit<8> space; @affinity bit<32> address;",
            (false, _) => "@affinity bit<16> flow; bit<8> space; bit<32> address;",
        };
        self.program.declarations.push_str(&format!(
            "struct req{number} {{ {flow} bit<8> a; bit<32> b; bool c; }}\n\
             struct res{number} {{ bit<32> a; bit<13> b; bool c; }}\n\
             @remote extern void h{number}(in req{number} q, out res{number} r);\n"
        ));
        let inner = &mut self.program.inner;
        inner.push_str(&format!(
            "    req{number} q{number};\n    res{number} r{number};\n"
        ));
        let (a, b) = (self.expression(8, 1), self.expression(32, 1));
        let c = self.condition(false);
        out.push(Piece::line(format!(
            "q{number} = {{ hdr.p.flow, hdr.p.space, hdr.p.address, {a}, {b}, {c} }};\n        \
             h{number}(q{number}, r{number});"
        )));
        let (to, width) = self.variable();
        out.push(Piece::line(format!(
            "if (r{number}.c) {{ {to} = (bit<{width}>) (bit<64>) r{number}.a; }} \
             else {{ {to} = (bit<{width}>) (bit<64>) r{number}.b; }}"
        )));
        self.program.handlers.push((format!("h{number}"), learns));
    }

    /// Adds a table to which the handler of its misses adds entries.
    fn learned(&mut self, out: &mut Vec<Piece>) {
        let keys = match self.setting.has_one_key() {
            true if self.keys.0 != [KeyPart::Flow] => return self.mirrored(out, 1),
            _ => [KeyPart::Flow],
        };
        let table = self.table(&keys, false, true, &mut Vec::new());
        let mut miss = Vec::new();
        if self.rng.one_in(2) {
            miss.push(self.assignment(true));
        }
        self.handler(&mut miss, Some(table.clone()));
        let mut hit = Vec::new();
        if self.rng.one_in(2) {
            // With delays, a packet that hits may not leave before an earlier one of its flow that
            // missed and goes on to a later cut.
            self.may_exit = !self.setting.has_delays();
            self.piece(&mut hit, 2, false);
            self.may_exit = true;
        }
        out.push(match self.rng.one_in(2) {
            true => Piece::either(&format!("{table}.apply().miss"), miss, hit),
            false => Piece::either(&format!("!{table}.apply().hit"), miss, hit),
        });
    }

    /// Returns a statement that changes a register of the flow.
    fn state(&mut self, to: &str) -> Piece {
        // With delays, a register is used at one place.
        let is_new = self.setting.has_delays() || self.registers == 0 || self.rng.one_in(2);
        let number = match is_new {
            true => {
                self.registers += 1;
                self.registers - 1
            }
            false => self.rng.index(self.registers),
        };
        if is_new {
            self.program
                .declarations
                .push_str(&format!("register<bit<32>>(64) g{number};\n"));
        }
        let width = VARIABLES.iter().find(|known| known.0 == to);
        let width = width.map_or(32, |known| known.1);
        Piece::line(format!(
            "{{ bit<32> v; g{number}.read(v, (bit<32>) hdr.p.flow); v = v * 3 + hdr.p.number; \
             g{number}.write((bit<32>) hdr.p.flow, v); {to} = (bit<{width}>) (bit<64>) v; }}"
        ))
    }

    fn counter(&mut self) -> Piece {
        self.counters += 1;
        let number = self.counters;
        self.program.declarations.push_str(&format!(
            "counter(64, CounterType.packets_and_bytes) n{number};\n"
        ));
        Piece::line(format!("n{number}.count((bit<32>) hdr.p.flow);"))
    }

    fn variable(&mut self) -> (String, u32) {
        let (name, width) = *self.rng.pick(VARIABLES).unwrap_or(&("l0", 32));
        (name.to_owned(), width)
    }

    fn assignment(&mut self, in_ingress: bool) -> Piece {
        let (to, width) = self.variable();
        if in_ingress && self.rng.one_in(12) {
            let port = 1 + self.rng.below(5);
            return Piece::line(format!("s.egress_spec = {port};"));
        }
        let value = self.expression(width, 2);
        match width > 12 && self.rng.one_in(6) {
            true => Piece::line(format!("{to}[11:4] = {};", self.expression(8, 1))),
            false => Piece::line(format!("{to} = {value};")),
        }
    }

    fn hash(&mut self) -> Piece {
        let algorithm = *self.rng.pick(&["crc16", "crc32"]).unwrap_or(&"crc16");
        let (to, width) = match self.rng.one_in(2) {
            true => ("meta.x2", 32),
            false => ("l1", 16),
        };
        let mut data = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            data.push(match self.rng.one_in(2) {
                true => self.variable().0,
                false => self
                    .rng
                    .pick(OF_FLOW)
                    .map_or("", |known| known.0)
                    .to_owned(),
            });
        }
        let most = 1 + self.rng.below(1000);
        Piece::line(format!(
            "hash({to}, HashAlgorithm.{algorithm}, {width}w0, {{ {} }}, {width}w{most});",
            data.join(", ")
        ))
    }

    fn header(&mut self) -> Piece {
        let (to, width) = self.variable();
        let (a, b, c) = (
            self.expression(8, 1),
            self.expression(32, 1),
            self.expression(24, 1),
        );
        let set = format!("hdr.q.setValid(); hdr.q.a = {a}; hdr.q.b = {b}; hdr.q.c = {c};");
        Piece::line(match self.rng.below(4) {
            0 => format!("if (hdr.q.isValid()) {{ hdr.q.setInvalid(); }} else {{ {set} }}"),
            1 => format!("if (hdr.q.isValid()) {{ hdr.q.b = {b}; hdr.q.a = hdr.q.a + 1; }}"),
            2 => set,
            _ => format!(
                "if (hdr.q.isValid()) {{ {to} = (bit<{width}>) (bit<64>) (hdr.q.b ++ hdr.q.c); }}"
            ),
        })
    }

    fn local_table(&mut self) -> Piece {
        let number = self.program.tables.len();
        let name = format!("t{number}");
        self.program.inner.push_str(&format!(
            "    action {name}_0(bit<16> x) {{ hdr.p.b = hdr.p.b ^ x; }}\n    \
             table {name} {{ key = {{ hdr.p.address: lpm @name(\"k0\"); }} actions = {{ {name}_0; NoAction; }} \
             default_action = NoAction(); size = 1024; }}\n"
        ));
        self.program.tables.push(Table {
            name: name.clone(),
            keys: vec![KeyPart::Address],
            has_prefix: true,
            actions: vec![vec![16], Vec::new()],
        });
        Piece::line(format!("{name}.apply();"))
    }

    fn condition(&mut self, of_flow: bool) -> String {
        let (name, width) = match of_flow || self.rng.one_in(3) {
            true => *self.rng.pick(OF_FLOW).unwrap_or(&OF_FLOW[0]),
            false => *self.rng.pick(VARIABLES).unwrap_or(&VARIABLES[0]),
        };
        let bit = match name {
            "hdr.p.space" => 0,
            "hdr.p.address" => 3 + self.rng.below(4),
            _ => self.rng.below(u64::from(width.min(6))),
        };
        match self.rng.below(3) {
            0 => format!("{name}[{bit}:{bit}] == 1"),
            1 => format!("{name} > {}", self.rng.below(20)),
            _ => format!("{name}[{bit}:0] != 0"),
        }
    }

    fn expression(&mut self, width: u32, depth: usize) -> String {
        match self.rng.below(8) {
            0 => format!("{width}w{}", self.rng.below(1 << width.min(20))),
            1 | 2 if depth > 0 => {
                let operator = *self
                    .rng
                    .pick(&["+", "-", "^", "&", "|", "*"])
                    .unwrap_or(&"+");
                let left = self.expression(width, depth - 1);
                let right = self.expression(width, depth - 1);
                format!("({left} {operator} {right})")
            }
            3 if depth > 0 => {
                let condition = self.condition(false);
                let left = self.expression(width, depth - 1);
                let right = self.expression(width, depth - 1);
                format!("({condition} ? {left} : {right})")
            }
            4 => {
                let (name, _) = *self.rng.pick(OF_FLOW).unwrap_or(&OF_FLOW[0]);
                format!("(bit<{width}>) (bit<64>) {name}")
            }
            5 => {
                let name = *self
                    .rng
                    .pick(&["hdr.p.number", "s.ingress_port", "s.packet_length"])
                    .unwrap_or(&"hdr.p.number");
                format!("(bit<{width}>) (bit<64>) {name}")
            }
            _ => {
                let (name, own) = self.variable();
                match own == width {
                    true => name,
                    false => format!("(bit<{width}>) (bit<64>) {name}"),
                }
            }
        }
    }
}
