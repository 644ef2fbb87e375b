//! Generation of statements.

use super::architecture::Architecture;
use super::{Generator, InstanceKind, Place, Ty, Variable, width_of};

/// Maximum number of statements in one body, including nested ones.
const MAX: u32 = 40;

impl Generator<'_> {
    /// Writes statements, nested up to `depth`. Variables that they declare go out of scope at the
    /// end.
    pub(super) fn statements(&mut self, place: Place, count: usize, depth: u32) {
        let outer = self.variables.len();
        for _ in 0..count {
            self.size += 1;
            if self.size <= MAX {
                self.statement(place, depth);
            }
        }
        self.variables.truncate(outer);
    }

    fn statement(&mut self, place: Place, depth: u32) {
        match self.choices.index(16) {
            0..6 => self.assignment(),
            6 => self.slice_assignment(),
            7 => self.local("        "),
            8 | 9 if depth > 0 => self.branch(place, depth - 1),
            10 if depth > 0 && place != Place::Parser => self.counted_loop(place, depth - 1),
            11 => self.header_statement(),
            12 | 13 if self.may_apply && !self.is_in_loop => self.apply(place, depth),
            14 if place != Place::Parser => self.extern_call(place),
            15 if place != Place::Parser => self.rare(place),
            _ => self.assignment(),
        }
    }

    pub(super) fn writable(&mut self, fits: impl Fn(Ty) -> bool) -> Option<Variable> {
        let all = self.variables.iter();
        let fitting: Vec<&Variable> = all.filter(|v| v.is_writable && fits(v.ty)).collect();
        self.choices.pick(&fitting).map(|v| Variable::clone(v))
    }

    fn assignment(&mut self) {
        let Some(target) = self.writable(|_| true) else {
            return;
        };
        let value = self.expr(target.ty, 3);
        let op = match target.ty {
            Ty::Bit(_) if self.choices.one_in(5) => {
                ["+=", "-=", "&=", "|=", "^="][self.choices.index(5)]
            }
            _ => "=",
        };
        self.line(format!("        {} {op} {value};", target.path));
    }

    fn slice_assignment(&mut self) {
        let Some(target) = self.writable(|ty| matches!(ty, Ty::Bit(_))) else {
            return;
        };
        let width = width_of(target.ty);
        let low = self.choices.index(width as usize) as u32;
        let high = low + self.choices.index((width - low) as usize) as u32;
        let value = self.expr(Ty::Bit(high - low + 1), 2);
        self.line(format!("        {}[{high}:{low}] = {value};", target.path));
    }

    pub(super) fn local(&mut self, indent: &str) {
        let (name, ty) = (self.name("v"), self.ty());
        let value = match indent.len() > 4 {
            true => self.expr(ty, 2),
            false => self.literal(ty),
        };
        self.line(format!("{indent}{} {name} = {value};", ty.text()));
        self.variables.push(Variable {
            path: name,
            ty,
            is_writable: true,
        });
    }

    fn branch(&mut self, place: Place, depth: u32) {
        if self.choices.one_in(3) && place != Place::Parser {
            return self.switch(place, depth);
        }
        let condition = self.expr(Ty::Bool, 2);
        self.line(format!("        if ({condition}) {{"));
        let count = 1 + self.choices.index(3);
        self.statements(place, count, depth);
        if self.choices.one_in(2) {
            self.line("        } else {");
            let count = 1 + self.choices.index(3);
            self.statements(place, count, depth);
        }
        self.line("        }");
    }

    fn switch(&mut self, place: Place, depth: u32) {
        let ty = Ty::Bit([2, 8, 16, 70][self.choices.index(4)]);
        let value = self.expr(ty, 2);
        self.line(format!("        switch ({value}) {{"));
        for label in 0..1 + self.choices.index(3) {
            self.line(format!("        {label}: {{"));
            self.statements(place, 1, depth);
            self.line("        }");
        }
        if self.choices.one_in(2) {
            self.line("        default: {");
            self.statements(place, 1, depth);
            self.line("        }");
        }
        self.line("        }");
    }

    fn counted_loop(&mut self, place: Place, depth: u32) {
        let name = self.name("i");
        let last = self.choices.index(4);
        self.line(format!("        for (bit<8> {name} in 8w0 .. 8w{last}) {{"));
        let outer = std::mem::replace(&mut self.is_in_loop, true);
        self.variables.push(Variable {
            path: name,
            ty: Ty::Bit(8),
            is_writable: false,
        });
        if self.choices.one_in(4) {
            let condition = self.expr(Ty::Bool, 1);
            let word = ["break", "continue"][self.choices.index(2)];
            self.line(format!("        if ({condition}) {{ {word}; }}"));
        }
        self.statements(place, 2, depth);
        self.variables.pop();
        self.is_in_loop = outer;
        self.line("        }");
    }

    fn header_statement(&mut self) {
        let Some((header, ty)) = self.choices.pick(&self.headers).cloned() else {
            return;
        };
        let same: Vec<String> = self
            .headers
            .iter()
            .filter(|(other, other_ty)| *other_ty == ty && *other != header)
            .map(|(other, _)| other.clone())
            .collect();
        let line = match (self.choices.index(6), self.stack) {
            (0, Some(_)) => format!("hdr.s.push_front({});", 1 + self.choices.index(2)),
            (1, Some(_)) => format!("hdr.s.pop_front({});", 1 + self.choices.index(2)),
            (2, Some((stack_ty, len))) if stack_ty == ty => {
                let index = self.choices.index(len as usize);
                format!("hdr.s[{index}] = {header};")
            }
            (3, _) if !same.is_empty() => {
                format!("{header} = {};", same[self.choices.index(same.len())])
            }
            (4, _) => format!("{header}.setInvalid();"),
            _ => format!("{header}.setValid();"),
        };
        self.line(format!("        {line}"));
    }

    fn apply(&mut self, place: Place, depth: u32) {
        let free: Vec<usize> = (0..self.tables.len())
            .filter(|&at| !self.tables[at].is_applied)
            .collect();
        let Some(&at) = self.choices.pick(&free) else {
            return self.assignment();
        };
        self.tables[at].is_applied = true;
        let name = self.tables[at].name.clone();
        let depth = depth.saturating_sub(1);
        match self.choices.index(4) {
            0 => {
                let word = ["hit", "miss"][self.choices.index(2)];
                self.line(format!("        if ({name}.apply().{word}) {{"));
                self.statements(place, 2, depth);
                self.line("        }");
            }
            1 => {
                self.line(format!("        switch ({name}.apply().action_run) {{"));
                for action in self.tables[at].actions.clone() {
                    self.line(format!("        {action}: {{"));
                    self.statements(place, 1, depth);
                    self.line("        }");
                }
                self.line("        default: { }\n        }");
            }
            _ => self.line(format!("        {name}.apply();")),
        }
    }

    fn extern_call(&mut self, place: Place) {
        let instances: Vec<(String, InstanceKind)> = self
            .externs
            .iter()
            .map(|instance| (instance.name.clone(), instance.kind))
            .collect();
        let Some((name, kind)) = self.choices.pick(&instances).cloned() else {
            return self.function_call(place);
        };
        if self.architecture != Architecture::V1model {
            if let Some(target) = self.writable(|ty| matches!(ty, Ty::Bit(_))) {
                let call = self.instance_call(&name, kind, &target);
                self.line(format!("        {call}"));
            }
            return;
        }
        match kind {
            InstanceKind::Counter(size) => {
                let index = self.index(size);
                self.line(format!("        {name}.count({index});"));
            }
            InstanceKind::Meter(size) => {
                if let Some(target) = self.writable(|ty| matches!(ty, Ty::Bit(2..))) {
                    let index = self.index(size);
                    self.line(format!(
                        "        {name}.execute_meter({index}, {});",
                        target.path
                    ));
                }
            }
            InstanceKind::Register(ty, size) => {
                let index = self.index(size);
                let target = self.writable(|other| other == ty);
                match target.filter(|_| self.choices.one_in(2)) {
                    Some(target) => {
                        self.line(format!("        {name}.read({}, {index});", target.path))
                    }
                    None => {
                        let value = self.expr(ty, 2);
                        self.line(format!("        {name}.write({index}, {value});"));
                    }
                }
            }
            InstanceKind::Hash | InstanceKind::Random => {}
        }
    }

    /// Returns an index, usually in range, sometimes one past the end.
    pub(super) fn index(&mut self, size: u32) -> String {
        match self.choices.one_in(3) {
            true => self.expr(Ty::Bit(32), 1),
            false => format!("32w{}", self.choices.index(size as usize + 1)),
        }
    }

    fn function_call(&mut self, place: Place) {
        let Some(target) = self.writable(|ty| matches!(ty, Ty::Bit(_))) else {
            return;
        };
        let (path, width) = (target.path, width_of(target.ty));
        match self.choices.index(3) {
            _ if self.architecture != Architecture::V1model => self.call_action(place),
            0 => {
                let algorithm =
                    ["crc32", "crc16", "identity", "csum16", "xor16"][self.choices.index(5)];
                let data = self.whole_bytes();
                let (base, most) = (self.choices.index(2), 1 + self.choices.index(100));
                let width = width.max(8);
                self.line(format!(
                    "        hash({path}, HashAlgorithm.{algorithm}, {width}w{base}, {{ {data} }}, {width}w{most});",
                ));
            }
            1 => {
                let (low, high) = (self.literal(target.ty), self.literal(target.ty));
                self.line(format!("        random({path}, {low}, {high});"));
            }
            _ => self.call_action(place),
        }
    }

    /// Writes a call of an action. Actions are declared before the code that calls them, and only
    /// those with directed parameters can be called.
    fn call_action(&mut self, place: Place) {
        if place == Place::Action {
            return self.assignment();
        }
        let callable: Vec<(String, Vec<Ty>)> = self
            .actions
            .iter()
            .map(|action| (action.name.clone(), action.params.clone()))
            .collect();
        let Some((name, params)) = self.choices.pick(&callable).cloned() else {
            return self.assignment();
        };
        let arguments: Vec<String> = params.iter().map(|ty| self.expr(*ty, 2)).collect();
        self.line(format!("        {name}({});", arguments.join(", ")));
    }

    fn rare(&mut self, place: Place) {
        let line = match (place, self.choices.index(12)) {
            (Place::Ingress, 6) if self.architecture == Architecture::V1model => {
                let ty = self.ty();
                let value = self.expr(ty, 2);
                match ty {
                    Ty::Bit(_) => format!("digest<{}>(1, {value});", ty.text()),
                    _ => return self.assignment(),
                }
            }
            (Place::Ingress | Place::Egress, 7) => {
                let condition = self.expr(Ty::Bool, 2);
                format!("if ({condition}) {{ exit; }}")
            }
            (Place::Ingress | Place::Egress, 8) => {
                let condition = self.expr(Ty::Bool, 2);
                format!("if ({condition}) {{ return; }}")
            }
            (place, 0..=6) => match self.request(place) {
                Some(line) => line,
                None => return self.extern_call(place),
            },
            (place, _) => return self.extern_call(place),
        };
        self.line(format!("        {line}"));
    }
}
