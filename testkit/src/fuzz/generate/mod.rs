//! Generator of random well-typed programs for v1model, PSA and PNA, used to compare engines.
//!
//! A program has random headers, parser states, tables, actions, extern instances and code. All
//! names are in scope and all types are valid. Widths include those at which engines are likely to
//! fail: one bit, a byte plus one bit, a limb plus one bit, several limbs.

mod architecture;
mod code;
mod expr;

use std::fmt::Write;

use architecture::{Architecture, Told};

use support::rng::Rng;

/// Widths of fields and variables, in bits.
const WIDTHS: &[u32] = &[
    1, 1, 2, 3, 4, 4, 5, 7, 8, 8, 8, 9, 12, 13, 16, 16, 16, 20, 24, 31, 32, 32, 32, 33, 40, 47, 48,
    48, 56, 63, 64, 64, 65, 72, 96, 127, 128, 128, 129, 200, 256, 257, 512, 600,
];

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ty {
    Bit(u32),
    Int(u32),
    Bool,
}

impl Ty {
    fn text(self) -> String {
        match self {
            Ty::Bit(width) => format!("bit<{width}>"),
            Ty::Int(width) => format!("int<{width}>"),
            Ty::Bool => String::from("bool"),
        }
    }
}

/// A readable location. It is writable unless it is constant.
#[derive(Clone, Debug)]
struct Variable {
    path: String,
    ty: Ty,
    is_writable: bool,
}

/// Maximum lengths of varbits, in bits.
const VARBITS: &[u32] = &[8, 16, 32, 64, 72, 320];

/// A header type. Its fields fill whole bytes. A varbit `v` may follow them.
struct HeaderType {
    fields: Vec<(String, Ty)>,
    has_varbit: bool,
}

/// A table: its name, its actions, and whether it is applied.
struct Table {
    name: String,
    actions: Vec<String>,
    is_applied: bool,
}

/// An action that code may call.
struct Action {
    name: String,
    params: Vec<Ty>,
    has_control_plane_params: bool,
}

/// The position of code in a program, which determines the permitted statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Parser,
    Action,
    Ingress,
    Egress,
}

/// The text of a random program.
pub(crate) fn program(choices: &mut Rng) -> String {
    let architecture = match choices.index(8) {
        0 | 1 => Architecture::Psa,
        2 => Architecture::Pna,
        3 => Architecture::PnaTwoControls,
        _ => Architecture::V1model,
    };
    let mut generator = Generator {
        choices,
        architecture,
        side: Place::Ingress,
        text: String::new(),
        header_types: Vec::new(),
        headers: Vec::new(),
        stack: None,
        variables: Vec::new(),
        tables: Vec::new(),
        actions: Vec::new(),
        externs: Vec::new(),
        next_name: 0,
        is_in_loop: false,
        may_apply: false,
        size: 0,
    };
    generator.program();
    generator.text
}

/// An extern instance of a control.
struct Instance {
    name: String,
    kind: InstanceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstanceKind {
    Register(Ty, u32),
    Counter(u32),
    Meter(u32),
    Hash,
    Random,
}

struct Generator<'c> {
    choices: &'c mut Rng,
    architecture: Architecture,
    /// The control that is being written, including its actions.
    side: Place,
    text: String,
    header_types: Vec<HeaderType>,
    /// Names of headers and their types.
    headers: Vec<(String, usize)>,
    /// The header stack `hdr.s`: its type and length.
    stack: Option<(usize, u32)>,
    variables: Vec<Variable>,
    tables: Vec<Table>,
    actions: Vec<Action>,
    externs: Vec<Instance>,
    next_name: u32,
    is_in_loop: bool,
    may_apply: bool,
    /// Number of statements so far, which is limited.
    size: u32,
}

impl Generator<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    fn name(&mut self, kind: &str) -> String {
        self.next_name += 1;
        format!("{kind}{}", self.next_name)
    }

    fn width(&mut self) -> u32 {
        WIDTHS[self.choices.index(WIDTHS.len())]
    }

    fn ty(&mut self) -> Ty {
        match self.choices.index(8) {
            0 => Ty::Bool,
            1 => Ty::Int(self.width().max(2)),
            _ => Ty::Bit(self.width()),
        }
    }

    fn program(&mut self) {
        self.line(self.architecture.preamble());
        for number in 0..1 + self.choices.index(4) {
            self.header_type(number);
        }
        self.structs();
        self.blocks();
    }

    fn header_type(&mut self, number: usize) {
        let mut fields = Vec::new();
        let mut bits = 0;
        for index in 0..1 + self.choices.index(6) {
            let ty = match self.choices.index(6) {
                0 => Ty::Int(self.width().max(2)),
                _ => Ty::Bit(self.width()),
            };
            bits += width_of(ty);
            fields.push((format!("f{index}"), ty));
        }
        if bits % 8 != 0 {
            fields.push((String::from("pad"), Ty::Bit(8 - bits % 8)));
        }
        self.line(format!("header h{number}_t {{"));
        for (name, ty) in &fields {
            let line = format!("    {} {name};", ty.text());
            self.line(line);
        }
        let has_varbit = self.choices.one_in(5);
        if has_varbit {
            let most = VARBITS[self.choices.index(VARBITS.len())];
            self.line(format!("    varbit<{most}> v;"));
        }
        self.line("}\n");
        self.header_types.push(HeaderType { fields, has_varbit });
    }

    fn structs(&mut self) {
        let count = 1 + self.choices.index(4);
        let mut text = String::from("struct headers_t {\n");
        for index in 0..count {
            let ty = self.choices.index(self.header_types.len());
            self.headers.push((format!("hdr.x{index}"), ty));
            let _ = writeln!(text, "    h{ty}_t x{index};");
        }
        if self.choices.one_in(2) {
            let ty = self.choices.index(self.header_types.len());
            let len = 1 + self.choices.index(4) as u32;
            self.stack = Some((ty, len));
            let _ = writeln!(text, "    h{ty}_t[{len}] s;");
        }
        text.push_str("}\n\nstruct metadata_t {\n");
        for index in 0..1 + self.choices.index(6) {
            let ty = self.ty();
            let list = match self.choices.one_in(3) {
                true => "    @field_list(1)\n",
                false => "",
            };
            let _ = writeln!(text, "{list}    {} m{index};", ty.text());
            self.variables.push(Variable {
                path: format!("meta.m{index}"),
                ty,
                is_writable: true,
            });
        }
        text.push_str("}\n");
        self.line(text);
        self.header_variables();
    }

    fn header_variables(&mut self) {
        let mut headers = self.headers.clone();
        if let Some((ty, len)) = self.stack {
            headers.extend((0..len).map(|index| (format!("hdr.s[{index}]"), ty)));
        }
        for (header, ty) in headers {
            for (field, ty) in &self.header_types[ty].fields {
                self.variables.push(Variable {
                    path: format!("{header}.{field}"),
                    ty: *ty,
                    is_writable: true,
                });
            }
        }
    }

    fn parser(&mut self, signature: &str, told: &[Told]) {
        self.line(format!("{signature} {{"));
        let states = 1 + self.choices.index(5);
        self.where_told(told, |generator| {
            for state in 0..states {
                generator.state(state, states);
            }
        });
        self.line("}\n");
    }

    fn state(&mut self, number: usize, states: usize) {
        let name = match number {
            0 => String::from("start"),
            number => format!("s{number}"),
        };
        self.line(format!("    state {name} {{"));
        match self.choices.index(5) {
            0 if let Some((ty, _)) = self.stack => self.extract("hdr.s.next", ty),
            1 => {
                let bits = 8 * self.choices.index(4);
                self.line(format!("        packet.advance({bits});"));
            }
            _ => {
                let (header, ty) = self.headers[number % self.headers.len()].clone();
                self.extract(&header, ty);
            }
        }
        if self.choices.one_in(3) {
            self.statements(Place::Parser, 2, 2);
        }
        if self.choices.one_in(6) {
            let condition = self.expr(Ty::Bool, 2);
            let error = ["NoError", "NoMatch", "HeaderTooShort"][self.choices.index(3)];
            self.line(format!("        verify({condition}, error.{error});"));
        }
        self.transition(number, states);
        self.line("    }");
    }

    /// The size of a varbit is usually a small number of whole bytes.
    fn extract(&mut self, header: &str, ty: usize) {
        if !self.header_types[ty].has_varbit {
            return self.line(format!("        packet.extract({header});"));
        }
        let size = match self.choices.index(4) {
            0 => (8 * self.choices.index(6)).to_string(),
            1 => self.expr(Ty::Bit(32), 1),
            _ => format!("((bit<32>)({})) * 8", self.expr(Ty::Bit(3), 1)),
        };
        self.line(format!("        packet.extract({header}, {size});"));
    }

    /// Writes a transition, usually to a later state. A loop may fill a header stack.
    fn transition(&mut self, number: usize, states: usize) {
        if self.choices.one_in(4) || number + 1 == states && !self.choices.one_in(4) {
            return self.line("        transition accept;");
        }
        let key = match self.choices.index(4) {
            0 => {
                let width = [4, 8, 9, 16][self.choices.index(4)];
                (format!("packet.lookahead<bit<{width}>>()"), Ty::Bit(width))
            }
            _ => {
                let ty = Ty::Bit([3, 8, 16, 48, 64, 72][self.choices.index(6)]);
                (self.expr(ty, 2), ty)
            }
        };
        self.line(format!("        transition select({}) {{", key.0));
        for _ in 0..self.choices.index(4) {
            let set = self.key_set(key.1);
            let target = self.target(number, states);
            self.line(format!("            {set}: {target};"));
        }
        if !self.choices.one_in(4) {
            let target = self.target(number, states);
            self.line(format!("            default: {target};"));
        }
        self.line("        }");
    }

    fn target(&mut self, number: usize, states: usize) -> String {
        let back = self.stack.is_some() && self.choices.one_in(6);
        let from = if back { 1 } else { number + 1 };
        match from < states && !self.choices.one_in(4) {
            true => format!("s{}", from + self.choices.index(states - from)),
            false if self.choices.one_in(6) => String::from("reject"),
            false => String::from("accept"),
        }
    }

    fn key_set(&mut self, ty: Ty) -> String {
        let mut value = || self.literal_small(ty);
        let (a, b) = (value(), value());
        match self.choices.index(4) {
            0 => format!("{a} &&& {b}"),
            1 if !matches!(ty, Ty::Bit(65..)) => {
                let low = self.choices.index(3);
                format!("{low} .. {}", low + 1 + self.choices.index(4))
            }
            2 => String::from("_"),
            _ => a,
        }
    }

    fn checksums(&mut self) {
        for (control, function) in [
            ("Verify", "verify_checksum"),
            ("Compute", "update_checksum"),
        ] {
            self.line(format!(
                "control {control}(inout headers_t hdr, inout metadata_t meta) {{\n    apply {{"
            ));
            if self.choices.one_in(2)
                && let Some(target) = self.header_field(16)
            {
                let mut data = self.whole_bytes();
                let varbits = self.headers.iter();
                let mut varbits = varbits.filter(|(_, ty)| self.header_types[*ty].has_varbit);
                if let Some((header, _)) = varbits.next() {
                    data = format!("{data}, {header}.v");
                }
                let algorithm = ["csum16", "crc16"][self.choices.index(2)];
                let condition = self.header_valid();
                self.line(format!(
                    "        {function}({condition}, {{ {data} }}, {target}, HashAlgorithm.{algorithm});"
                ));
            }
            self.line("    }\n}\n");
        }
    }

    fn header_field(&mut self, width: u32) -> Option<String> {
        let fields: Vec<&Variable> = self
            .variables
            .iter()
            .filter(|v| v.ty == Ty::Bit(width) && v.path.starts_with("hdr.x"))
            .collect();
        self.choices.pick(&fields).map(|v| v.path.clone())
    }

    fn header_valid(&mut self) -> String {
        match self.choices.pick(&self.headers) {
            Some((header, _)) => format!("{header}.isValid()"),
            None => String::from("true"),
        }
    }

    fn control(&mut self, place: Place, signature: &str, told: &[Told]) {
        self.line(format!("{signature} {{"));
        self.side = place;
        self.where_told(told, |generator| generator.control_body(place));
        self.line("}\n");
    }

    fn control_body(&mut self, place: Place) {
        self.tables.clear();
        self.actions.clear();
        self.externs.clear();
        self.instances();
        for _ in 0..self.choices.index(3) {
            self.local("    ");
        }
        for _ in 0..1 + self.choices.index(4) {
            self.action();
        }
        for _ in 0..self.choices.index(4) {
            match self.architecture.is_pna() && self.choices.one_in(3) {
                true => self.learning_table(),
                false => self.table(place),
            }
        }
        self.line("    apply {");
        self.size = 0;
        self.may_apply = true;
        if place == Place::Ingress && !self.choices.one_in(8) {
            let line = self.first_port();
            self.line(format!("        {line}"));
        }
        let count = 2 + self.choices.index(8);
        self.statements(place, count, 3);
        self.may_apply = false;
        self.line("    }");
    }

    fn instances(&mut self) {
        for _ in 0..self.choices.index(4) {
            let (name, kind) = (self.name("e"), self.instance_kind());
            let declaration = self.declaration(&name, kind);
            self.line(format!("    {declaration}"));
            self.externs.push(Instance { name, kind });
        }
    }

    fn action(&mut self) {
        let name = self.name("a");
        let params: Vec<(String, Ty)> = (0..self.choices.index(4))
            .map(|_| (self.name("p"), self.ty()))
            .collect();
        // Parameters without a direction are set by the control plane. An action that code calls
        // has `in` parameters.
        let has_control_plane_params = self.choices.one_in(2);
        let direction = if has_control_plane_params { "" } else { "in " };
        let list: Vec<String> = params
            .iter()
            .map(|(name, ty)| format!("{direction}{} {name}", ty.text()))
            .collect();
        self.line(format!("    action {name}({}) {{", list.join(", ")));
        let outer = self.variables.len();
        for (path, ty) in &params {
            self.variables.push(Variable {
                path: path.clone(),
                ty: *ty,
                is_writable: false,
            });
        }
        self.size = 0;
        let count = self.choices.index(4);
        self.statements(Place::Action, count, 2);
        self.line("    }");
        self.variables.truncate(outer);
        self.actions.push(Action {
            name,
            params: params.iter().map(|(_, ty)| *ty).collect(),
            has_control_plane_params,
        });
    }

    fn table(&mut self, place: Place) {
        let name = self.name("t");
        let mut text = format!("    table {name} {{\n        key = {{\n");
        let mut has_lpm = false;
        if self.choices.one_in(3)
            && let Some((key, kind)) = self.choices.pick(self.architecture.told_keys(place))
        {
            let key_name = self.name("k");
            let _ = writeln!(text, "            {key}: {kind} @name(\"{key_name}\");");
        }
        for _ in 0..1 + self.choices.index(4) {
            let ty = Ty::Bit(self.width());
            let kind =
                ["exact", "exact", "ternary", "lpm", "range", "optional"][self.choices.index(6)];
            let kind = match kind {
                "lpm" if has_lpm => "exact",
                kind => kind,
            };
            has_lpm |= kind == "lpm";
            let key = self.expr(ty, 1);
            let key_name = self.name("k");
            let _ = writeln!(text, "            {key}: {kind} @name(\"{key_name}\");");
        }
        let usable: Vec<String> = self
            .actions
            .iter()
            .filter(|action| action.has_control_plane_params || action.params.is_empty())
            .map(|action| action.name.clone())
            .collect();
        let _ = writeln!(text, "        }}\n        actions = {{");
        for action in &usable {
            let _ = writeln!(text, "            {action};");
        }
        let _ = writeln!(text, "            NoAction;\n        }}");
        let _ = writeln!(
            text,
            "        default_action = NoAction();\n        size = 64;\n    }}"
        );
        self.line(text);
        self.tables.push(Table {
            name,
            actions: usable,
            is_applied: false,
        });
    }

    /// Writes a deparser. `carried` lists the metadata outputs to set, each with its condition, and
    /// permits the update of a checksum field of 16 bits. `None` permits neither.
    fn deparser(&mut self, signature: &str, carried: Option<&[(&str, &str)]>) {
        self.line(format!("{signature} {{"));
        let checksum = carried.and_then(|_| self.header_field(16));
        if checksum.is_some() {
            self.line("    InternetChecksum() sum;");
        }
        self.line("    apply {");
        for (condition, to) in carried.unwrap_or_default() {
            let value = self.expr(Ty::Bit(13), 2);
            self.line(format!("        if ({condition}) {{ {to}.c = {value}; }}"));
        }
        if let Some(field) = checksum {
            let (data, valid) = (self.words(), self.header_valid());
            self.line(format!("        if ({valid}) {{\n            sum.clear();\n            sum.add({{ {data} }});\n            {field} = sum.get();\n        }}"));
        }
        let mut order: Vec<String> = self
            .headers
            .iter()
            .map(|(header, _)| header.clone())
            .collect();
        if self.stack.is_some() {
            order.insert(self.choices.index(order.len() + 1), String::from("hdr.s"));
        }
        if self.choices.one_in(3) {
            let (a, b) = (
                self.choices.index(order.len()),
                self.choices.index(order.len()),
            );
            order.swap(a, b);
        }
        for header in order {
            self.line(format!("        packet.emit({header});"));
        }
        self.line("    }\n}\n");
    }
}

fn width_of(ty: Ty) -> u32 {
    match ty {
        Ty::Bit(width) | Ty::Int(width) => width,
        Ty::Bool => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_programs_are_accepted_for_each_architecture() {
        let mut refused = Vec::new();
        let mut made = std::collections::HashMap::new();
        for seed in 0..400 {
            let text = program(&mut Rng::new(seed));
            let include = text.lines().nth(1).unwrap_or_default().to_string();
            *made.entry(include).or_insert(0) += 1;
            if let Err(error) = crate::compile_text(&text) {
                refused.push(format!("{seed}: {error}\n"));
            }
        }
        assert_eq!(made.len(), 4, "{made:?}");
        let first: String = refused.iter().take(5).cloned().collect();
        assert!(
            refused.len() < 40,
            "{} of 400 are refused: {first}",
            refused.len()
        );
    }
}
