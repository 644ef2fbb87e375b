//! Tests with random texts from the grammar of P4_16 (1.2.5, appendix H). Each must be accepted,
//! and expressions must group by the grammar's precedences.

mod common;

use common::print::print;
use proptest::prelude::*;
use syntax::ast::Decl;

/// Returns the number of cases of each property. `POLYPLANE_GRAMMAR_CASES` raises it.
fn config() -> ProptestConfig {
    let cases = std::env::var("POLYPLANE_GRAMMAR_CASES");
    let cases = cases.ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(600),
        ..ProptestConfig::default()
    }
}

/// Precedence level of an expression, loosest first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Ternary,
    Binary(u8),
    Prefix,
    Postfix,
}

/// Binary operators by level, loosest first; all are left-associative.
const BINARY: &[&[(&str, &str)]] = &[
    &[("||", "LogicalOr")],
    &[("&&", "LogicalAnd")],
    &[("==", "Eq"), ("!=", "Ne")],
    &[("<", "Lt"), (">", "Gt"), ("<=", "Le"), (">=", "Ge")],
    &[("|", "Or")],
    &[("^", "Xor")],
    &[("&", "And")],
    &[("<<", "Shl"), (">>", "Shr")],
    &[
        ("++", "Concat"),
        ("+", "Add"),
        ("-", "Sub"),
        ("|+|", "AddSat"),
        ("|-|", "SubSat"),
    ],
    &[("*", "Mul"), ("/", "Div"), ("%", "Mod")],
];

/// The level of `<` and `>`, which also enclose type arguments.
const RELATION: u8 = 3;

/// Names of variables, including keywords that can be names.
const NAMES: &[&str] = &[
    "v", "w", "key", "actions", "state", "entries", "type", "apply", "priority", ".v",
];
const MEMBERS: &[&str] = &[
    "a", "valid", "key", "apply", "list", "type", "T", "state", "size",
];

/// An expression: its text, its level, and its tree as [`print`] formats it.
struct Made {
    text: String,
    level: Level,
    tree: String,
}

/// A predetermined sequence of choices. When it is exhausted the first alternative is taken, so
/// that texts end.
struct Choices<'c> {
    all: &'c [u32],
    at: usize,
}

impl Choices<'_> {
    fn one_of(&mut self, count: usize) -> usize {
        let choice = self.all.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        choice as usize % count
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.one_of(from.len())]
    }

    fn space(&mut self) -> &'static str {
        self.pick(&[" ", "", "  ", "\n", " /* , */ ", " // ;\n"])
    }

    /// Returns an operand of at least this level, in parentheses if necessary and sometimes without
    /// need.
    fn operand(&mut self, depth: u32, level: Level, strictly: bool) -> Made {
        let made = self.expression(depth);
        let is_loose = made.level < level || strictly && made.level == level;
        match is_loose || self.one_of(6) == 5 {
            true => Made {
                text: format!("({}{}{})", self.space(), made.text, self.space()),
                level: Level::Postfix,
                tree: made.tree,
            },
            false => made,
        }
    }

    fn leaf(&mut self) -> Made {
        let (text, tree) = match self.one_of(6) {
            0 | 1 => {
                let name = self.pick(NAMES);
                (name.to_owned(), name.to_owned())
            }
            2 => ("7".to_owned(), "7".to_owned()),
            3 => {
                let [text, tree] = self.pick(&[
                    ["8w255", "8w10:255"],
                    ["4s7", "4s7"],
                    ["0xFf", "16:Ff"],
                    ["16w0b1_0", "16w2:10"],
                    ["0o17", "8:17"],
                ]);
                let tree = tree.replace("4s7", "4s10:7");
                (text.to_owned(), tree)
            }
            4 => {
                let value = self.pick(&["true", "false"]);
                (value.to_owned(), value.to_owned())
            }
            _ => ("this".to_owned(), "this".to_owned()),
        };
        Made {
            text,
            level: Level::Postfix,
            tree,
        }
    }

    /// Returns a type. Its text is the same in the source and in the tree.
    fn ty(&mut self, depth: u32) -> String {
        match self.one_of(if depth == 0 { 5 } else { 9 }) {
            0 => "bit<8>".to_owned(),
            1 => "T".to_owned(),
            2 => "bool".to_owned(),
            3 => "int<4>".to_owned(),
            4 => "error".to_owned(),
            5 => format!("tuple<{}, {}>", self.ty(depth - 1), self.ty(depth - 1)),
            6 => format!("U<{}>", self.ty(depth - 1)),
            7 => format!("list<{}>", self.ty(depth - 1)),
            _ => "varbit<32>".to_owned(),
        }
    }

    fn list(&mut self, depth: u32) -> (String, String) {
        let count = self.one_of(3);
        let made: Vec<Made> = (0..count).map(|_| self.expression(depth)).collect();
        let join = |part: fn(&Made) -> &str| made.iter().map(part).collect::<Vec<_>>().join(", ");
        (join(|m| &m.text), join(|m| &m.tree))
    }

    fn arguments(&mut self, depth: u32) -> (String, String) {
        match self.one_of(4) {
            0 => self.list(depth),
            1 => {
                let (a, b) = (self.expression(depth), self.expression(depth));
                let (x, y) = (self.pick(MEMBERS), self.pick(MEMBERS));
                let text = format!("{x} = {}, {y}={}", a.text, b.text);
                (text, format!("{x} = {}, {y} = {}", a.tree, b.tree))
            }
            2 => {
                let a = self.expression(depth);
                (format!("_, {}", a.text), format!("_, {}", a.tree))
            }
            _ => {
                let x = self.pick(MEMBERS);
                (format!("{x} = _"), format!("{x} = _"))
            }
        }
    }

    fn postfix(&mut self, depth: u32) -> Made {
        let base = self.operand(depth, Level::Postfix, false);
        // A number before a dot or a call would form other tokens.
        let starts_number = base.text.as_bytes()[0].is_ascii_digit();
        let (text, tree) = match self.one_of(if starts_number { 3 } else { 6 }) {
            0 => {
                let at = self.expression(depth);
                let text = format!("{}{}[{}]", base.text, self.space(), at.text);
                (text, format!("{}[{}]", base.tree, at.tree))
            }
            1 => {
                let (hi, lo) = (self.expression(depth), self.expression(depth));
                let space = self.space();
                let text = format!("{}[{}{space}:{space}{}]", base.text, hi.text, lo.text);
                (text, format!("{}[{}:{}]", base.tree, hi.tree, lo.tree))
            }
            2 => {
                let (lo, width) = (self.expression(depth), self.expression(depth));
                let text = format!("{}[{} +: {}]", base.text, lo.text, width.text);
                (
                    text,
                    format!("{}[{} +: {}]", base.tree, lo.tree, width.tree),
                )
            }
            3 => {
                let member = self.pick(MEMBERS);
                let text = format!("{}{}.{member}", base.text, self.space());
                (text, format!("{}.{member}", base.tree))
            }
            4 => {
                let (args, trees) = self.arguments(depth);
                let text = format!("{}{}({args})", base.text, self.space());
                (text, format!("{}({trees})", base.tree))
            }
            _ => {
                // Type arguments that cannot be an expression.
                let ty = self.pick(&["bit<8>", "tuple<bit<8>, T>", "_", "list<U<T>>"]);
                let (args, trees) = self.arguments(depth);
                let text = format!("v.a<{ty}>{}({args})", self.space());
                (text, format!("v.a<{ty}>({trees})"))
            }
        };
        Made {
            text,
            level: Level::Postfix,
            tree,
        }
    }

    fn braces(&mut self, depth: u32) -> Made {
        let (text, tree) = match self.one_of(5) {
            0 => {
                let (text, tree) = self.list(depth);
                (format!("{{{text}}}"), format!("{{{tree}}}"))
            }
            1 => {
                let a = self.expression(depth);
                let x = self.pick(MEMBERS);
                let text = format!("{{ {x} = {}, b = 1{} }}", a.text, self.pick(&["", ","]));
                (text, format!("{{{x} = {}, b = 1}}", a.tree))
            }
            2 => ("{#}".to_owned(), "{#}".to_owned()),
            3 => {
                let a = self.expression(depth);
                (
                    format!("{{ {}, ... }}", a.text),
                    format!("{{{} ...}}", a.tree),
                )
            }
            _ => {
                let a = self.expression(depth);
                (
                    format!("{{ a = {}, ... }}", a.text),
                    format!("{{a = {} ...}}", a.tree),
                )
            }
        };
        Made {
            text,
            level: Level::Postfix,
            tree,
        }
    }

    fn expression(&mut self, depth: u32) -> Made {
        if depth == 0 {
            return self.leaf();
        }
        let depth = depth - 1;
        match self.one_of(9) {
            0 => self.leaf(),
            1 | 2 => {
                let level = self.one_of(BINARY.len()) as u8;
                let (op, name) = self.pick(BINARY[level as usize]);
                let left = self.operand(depth, Level::Binary(level), level == RELATION);
                let right = self.operand(depth, Level::Binary(level), true);
                let (before, behind) = (self.space(), self.space());
                // `a - -b` and `a & &&...` need their space, and so does a `/` before a comment.
                let text = format!("{}{before} {op} {behind}{}", left.text, right.text);
                Made {
                    text,
                    level: Level::Binary(level),
                    tree: format!("({} {name} {})", left.tree, right.tree),
                }
            }
            3 => {
                let cond = self.operand(depth, Level::Binary(0), false);
                let (yes, no) = (self.expression(depth), self.expression(depth));
                Made {
                    text: format!("{} ? {} : {}", cond.text, yes.text, no.text),
                    level: Level::Ternary,
                    tree: format!("({} ? {} : {})", cond.tree, yes.tree, no.tree),
                }
            }
            4 => {
                let (op, name) = self.pick(&[
                    ("-", "Neg"),
                    ("+", "Plus"),
                    ("~", "Complement"),
                    ("!", "Not"),
                ]);
                let operand = self.operand(depth, Level::Prefix, false);
                Made {
                    text: format!("{op} {}{}", self.space(), operand.text),
                    level: Level::Prefix,
                    tree: format!("({name} {})", operand.tree),
                }
            }
            5 => {
                let ty = self.ty(2);
                let operand = match self.one_of(3) {
                    0 => self.braces(depth),
                    _ => self.operand(depth, Level::Prefix, false),
                };
                Made {
                    text: format!("({ty}){}{}", self.space(), operand.text),
                    level: Level::Prefix,
                    tree: format!("(cast {ty} {})", operand.tree),
                }
            }
            6 => self.braces(depth),
            _ => self.postfix(depth),
        }
    }

    fn lvalue(&mut self, depth: u32) -> String {
        let mut text = self
            .pick(&["v", "w", "key", "state", ".v", "(v)", "this"])
            .to_owned();
        for _ in 0..self.one_of(3) {
            match self.one_of(4) {
                0 => text += &format!(".{}", self.pick(MEMBERS)),
                1 => text += &format!("[{}]", self.expression(depth).text),
                2 => text += &format!("[{}:{}]", self.expression(depth).text, 0),
                _ => text += &format!("[{} +: {}]", 0, self.expression(depth).text),
            }
        }
        text
    }

    fn simple(&mut self, depth: u32) -> String {
        let place = self.lvalue(depth);
        match self.one_of(3) {
            0 => {
                let op = self.pick(&[
                    "=", "+=", "-=", "*=", "/=", "%=", "|+|=", "|-|=", "<<=", ">>=", "&=", "|=",
                    "^=",
                ]);
                format!("{place} {op} {}", self.expression(depth).text)
            }
            1 => format!("{place}({})", self.arguments(depth).0),
            _ => format!(
                "{place}<bit<8>, {}>({})",
                self.ty(1),
                self.arguments(depth).0
            ),
        }
    }

    fn block(&mut self, depth: u32) -> String {
        let statements: Vec<String> = (0..self.one_of(3)).map(|_| self.statement(depth)).collect();
        format!("{{ {} }}", statements.join(" "))
    }

    fn label(&mut self, depth: u32) -> String {
        loop {
            let made = self.expression(depth);
            match made.text.starts_with('{') {
                true if self.at > self.all.len() => return "default".to_owned(),
                true => {}
                false => return made.text,
            }
        }
    }

    fn statement(&mut self, depth: u32) -> String {
        if depth == 0 {
            return format!("{};", self.simple(1));
        }
        let depth = depth - 1;
        let note = self.pick(&["", "", "@atomic ", "@name(\"x\") @y[a=1, b=\"2\"] "]);
        match self.one_of(12) {
            0 | 1 => format!("{};", self.simple(2)),
            2 => format!("if ({}) {}", self.expression(2).text, self.statement(depth)),
            3 => {
                let (cond, then) = (self.expression(2).text, self.block(depth));
                format!("if ({cond}) {then} else {}", self.statement(depth))
            }
            4 => format!("{note}{}", self.block(depth)),
            5 => {
                let cases: Vec<String> = (0..self.one_of(3))
                    .map(|_| match self.one_of(2) {
                        0 => format!("{}: {}", self.label(1), self.block(depth)),
                        _ => format!("{}:", self.label(1)),
                    })
                    .collect();
                let on = self.expression(1).text;
                format!("switch ({on}) {{ {} default: {{ }} }}", cases.join(" "))
            }
            6 => {
                let ty = self.ty(2);
                let init = self.expression(2).text;
                format!("{{ {note}{ty} x = {init}; const {ty} y = {init}; {ty} z; }}")
            }
            7 => {
                let (first, cond) = (self.simple(1), self.expression(1).text);
                let next = self.simple(1);
                let body = self.statement(depth);
                format!("for (bit<8> i = 0, {first}; {cond}; {next}, i += 1) {body}")
            }
            8 => format!(
                "for ({note}bit<8> i in {} .. {}) {}",
                self.expression(1).text,
                self.expression(1).text,
                self.block(depth)
            ),
            9 => format!(
                "for (bit<8> i in {}) {{ break; continue; }}",
                self.lvalue(1)
            ),
            10 => self
                .pick(&["return;", "exit;", ";", "return v + 1;"])
                .to_owned(),
            _ => format!("T.apply({});", self.arguments(1).0),
        }
    }

    fn keyset(&mut self, depth: u32) -> String {
        let simple = |this: &mut Self| match this.one_of(4) {
            0 => this.expression(depth).text,
            1 => format!(
                "{} &&& {}",
                this.expression(depth).text,
                this.expression(depth).text
            ),
            2 => format!(
                "{} .. {}",
                this.expression(depth).text,
                this.expression(depth).text
            ),
            _ => this.pick(&["_", "default"]).to_owned(),
        };
        match self.one_of(2) {
            0 => simple(self),
            _ => format!("({}, {}, _)", simple(self), simple(self)),
        }
    }

    fn table(&mut self) -> String {
        let mut entries = String::new();
        for _ in 0..self.one_of(3) {
            let first = self.pick(&["", "const ", "priority = 1 + 2: "]);
            let (keys, args) = (self.keyset(2), self.list(1).0);
            entries += &format!("{first}{keys} : .a({args}) @note;\n");
        }
        let key = self.expression(2).text;
        format!(
            "table t {{ key = {{ {key} : exact @name(\"k\"); v : ternary; }} actions = {{ @x a; .b(v); }} \
             const default_action = a({}); const entries = {{ {entries} }} size = {}; @y other = {}; }}",
            self.list(1).0,
            self.expression(2).text,
            self.expression(2).text,
        )
    }
}

/// Precedes each text: the types and constants that it names.
const NAMED: &str = "struct T { } struct U<X> { } const bit<8> v = 1; const bit<8> w = 1; \
    const bit<8> key = 1; const bit<8> actions = 1; const bit<8> state = 1; \
    const bit<8> entries = 1; const bit<8> type = 1; const bit<8> apply = 1; \
    const bit<8> priority = 1; ";

fn refusals(text: &str) -> Vec<String> {
    common::said(&common::parse(text))
}

fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 1..150)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn expressions_of_the_grammar_are_accepted_and_group_as_it_says(all in choices()) {
        let made = Choices { all: &all, at: 0 }.expression(5);
        let text = format!("{NAMED}const int x = {};", made.text);
        let parsed = common::parse(&text);
        prop_assert_eq!(common::said(&parsed), Vec::<String>::new(), "{}", text);
        match parsed.program.decls.last() {
            Some(Decl::Const(decl)) => {
                // A name with a leading dot is printed with the dot, as in the text.
                prop_assert_eq!(print(&decl.init), made.tree, "{}", text);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn statements_of_the_grammar_are_accepted(all in choices()) {
        let body = Choices { all: &all, at: 0 }.statement(4);
        let text = format!("{NAMED}control c(inout bit<8> v, inout bit<8> w) {{ apply {{ {body} }} }}");
        prop_assert_eq!(refusals(&text), Vec::<String>::new(), "{}", text);
    }

    #[test]
    fn tables_and_selects_of_the_grammar_are_accepted(all in choices()) {
        let mut choices = Choices { all: &all, at: 0 };
        let table = choices.table();
        let on = choices.list(2).0;
        let cases: Vec<String> = (0..choices.one_of(4))
            .map(|_| format!("{}: accept;", choices.keyset(2)))
            .collect();
        let text = format!(
            "{NAMED}control c(inout bit<8> v, inout bit<8> w) {{ {table} apply {{ }} }} \
             parser p(inout bit<8> v, inout bit<8> w) {{ state start {{ transition select({on}) {{ {} }} }} }}",
            cases.join(" "),
        );
        prop_assert_eq!(refusals(&text), Vec::<String>::new(), "{}", text);
    }
}
