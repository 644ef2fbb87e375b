//! The scalable constructs and their programs.

use std::fmt::Write;

use super::Construct;

/// Additions to the smallest program.
#[derive(Default)]
struct Parts {
    /// Declarations before the blocks.
    top: String,
    /// Fields of the headers struct and of the metadata struct.
    headers: String,
    metadata: String,
    /// Declarations and states of the parser. If empty, the parser extracts one header.
    parser: String,
    /// Declarations and statements of the ingress control.
    locals: String,
    apply: String,
    /// Statements of the control that updates checksums.
    checksums: String,
}

impl Parts {
    fn program(self) -> String {
        let Parts {
            top,
            headers,
            metadata,
            mut parser,
            locals,
            apply,
            checksums,
        } = self;
        if parser.is_empty() {
            parser = "state start { p.extract(h.h); transition accept; }".to_owned();
        }
        format!(
            "#include <core.p4>\n#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; }}
{top}
struct H {{ h_t h; {headers} }}
struct M {{ bit<32> x; bit<32> y; bool t; {metadata} }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) {{
{parser}
}}
control V(inout H h, inout M m) {{ apply {{}} }}
control I(inout H h, inout M m, inout standard_metadata_t sm) {{
{locals}
apply {{ {apply} }}
}}
control E(inout H h, inout M m, inout standard_metadata_t sm) {{ apply {{}} }}
control C(inout H h, inout M m) {{ apply {{ {checksums} }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }
}

/// Returns `n` texts, one per line, by their numbers.
fn each(n: usize, text: impl Fn(usize) -> String) -> String {
    let mut all = String::new();
    for i in 0..n {
        let _ = writeln!(all, "{}", text(i));
    }
    all
}

/// Same, with `between` as separator.
fn joined(n: usize, between: &str, text: impl Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..n).map(text).collect();
    all.join(between)
}

fn apply(apply: impl Into<String>) -> String {
    Parts {
        apply: apply.into(),
        ..Parts::default()
    }
    .program()
}

fn applied(locals: impl Into<String>, apply: impl Into<String>) -> String {
    Parts {
        locals: locals.into(),
        apply: apply.into(),
        ..Parts::default()
    }
    .program()
}

fn top(top: impl Into<String>, apply: impl Into<String>) -> String {
    Parts {
        top: top.into(),
        apply: apply.into(),
        ..Parts::default()
    }
    .program()
}

fn parser(parser: impl Into<String>) -> String {
    Parts {
        parser: parser.into(),
        ..Parts::default()
    }
    .program()
}

/// Returns `m.x = a OP b OP ...`.
fn operands(n: usize, operator: &str) -> String {
    let operands = joined(n, operator, |i| ["m.x", "m.y"][i % 2].to_owned());
    apply(format!("m.x = {operands};"))
}

fn conditions(n: usize, operator: &str) -> String {
    let operands = joined(n, operator, |i| format!("m.x == {i}"));
    apply(format!("m.t = {operands};"))
}

/// Returns a program with a table `t` of these properties.
fn table(properties: &str) -> String {
    applied(
        format!("action a(bit<32> v) {{ m.x = v; }}\ntable t {{ {properties} }}"),
        "t.apply();",
    )
}

/// Returns blocks named from `c0`. Each calls the one before it twice.
fn doubling(n: usize, first: &str, next: impl Fn(usize, usize) -> String) -> String {
    let mut all = first.to_owned();
    for i in 1..=n {
        let _ = writeln!(all, "{}", next(i, i - 1));
    }
    all
}

macro_rules! constructs {
    ($($name:literal $size:literal |$n:ident| $program:expr;)*) => {
        /// All constructs.
        pub const CONSTRUCTS: &[Construct] = &[$(Construct {
            name: $name,
            size: $size,
            program: {
                fn program($n: usize) -> String { $program }
                program
            },
        }),*];
    };
}

constructs! {
    "statements" 1000 |n| apply(each(n, |i| format!("m.x = m.x + {i};")));
    "variables" 500 |n| apply(each(n, |i| format!("bit<32> v{i} = m.x; m.y = v{i};")));
    "ifs" 500 |n| apply(each(n, |i| format!("if (m.x == {i}) m.y = {i};")));
    "else ifs" 60 |n| apply(joined(n, " else ", |i| format!("if (m.x == {i}) m.y = {i};")));
    "nested ifs" 30 |n| apply(format!(
        "{} m.y = 1; {}", each(n, |i| format!("if (m.x > {i}) {{")), "}".repeat(n)));
    "nested blocks" 30 |n| apply(format!("{} m.y = 1; {}", "{".repeat(n), "}".repeat(n)));
    "nested parentheses" 30 |n| apply(format!(
        "m.x = {} m.y {};", "(1 + ".repeat(n), ")".repeat(n)));
    "nested ternaries" 30 |n| apply(format!(
        "m.x = {} m.y;", each(n, |i| format!("m.x == {i} ? {i} :"))));
    "nested loops" 10 |n| apply(format!(
        "{} m.x = m.x + 1; {}",
        each(n, |i| format!("for (bit<8> i{i} = 0; i{i} < 2; i{i} = i{i} + 1) {{")),
        "}".repeat(n)));
    "loops" 100 |n| apply(each(n, |_| "for (bit<8> i in 1..3) { m.x = m.x + 1; }".to_owned()));
    "operands of +" 500 |n| operands(n, " + ");
    "operands of -" 500 |n| operands(n, " - ");
    "operands of *" 500 |n| operands(n, " * ");
    "operands of |+|" 500 |n| operands(n, " |+| ");
    "operands of &" 500 |n| operands(n, " & ");
    "operands of |" 500 |n| operands(n, " | ");
    "operands of ^" 500 |n| operands(n, " ^ ");
    "operands of <<" 500 |n| apply(format!("m.x = m.y {};", " << 1".repeat(n)));
    "operands of ++" 250 |n| apply(format!(
        "bit<{}> q = {}; m.x = (bit<32>) q;", 8 * n, joined(n, "++", |_| "h.h.a".to_owned())));
    "operands of &&" 500 |n| conditions(n, " && ");
    "operands of ||" 500 |n| conditions(n, " || ");
    "unary operators" 30 |n| apply(format!("m.x = {} m.y;", "~ ".repeat(n)));
    "slices" 500 |n| apply(each(n, |i| format!("m.x[{}:{}] = 1;", i % 32, i % 32)));
    "calls of a function" 500 |n| top(
        "bit<32> f(in bit<32> v) { return v + 1; }", each(n, |_| "m.x = f(m.x);".to_owned()));
    "functions" 500 |n| top(
        each(n, |i| format!("bit<32> f{i}(in bit<32> v) {{ return v + {i}; }}")),
        each(n, |i| format!("m.x = f{i}(m.x);")));
    "nested calls" 30 |n| top(
        "bit<32> f(in bit<32> v) { return v + 1; }",
        format!("m.x = {} m.y {};", "f(".repeat(n), ")".repeat(n)));
    "calls that nest" 30 |n| top(
        doubling(n, "bit<32> f0(in bit<32> v) { return v + 1; }\n", |i, before| {
            format!("bit<32> f{i}(in bit<32> v) {{ return f{before}(v) + 1; }}")
        }),
        format!("m.x = f{n}(m.x);"));
    "parameters of a function" 300 |n| top(
        format!("void f({}) {{ v0 = 1; }}", joined(n, ", ", |i| format!("inout bit<32> v{i}"))),
        format!("{} f({});",
            each(n, |i| format!("bit<32> a{i} = m.x;")), joined(n, ", ", |i| format!("a{i}"))));
    "in parameters" 300 |n| top(
        format!("void f(out bit<32> o, {}) {{ o = v0; }}",
            joined(n, ", ", |i| format!("in bit<32> v{i}"))),
        format!("f(m.x, {});", joined(n, ", ", |i| format!("m.y + {i}"))));
    "doubling functions" 8 |n| top(
        doubling(n, "bit<32> f0(in bit<32> v) { return v + 1; }\n", |i, before| {
            format!("bit<32> f{i}(in bit<32> v) {{ return f{before}(v) + f{before}(v); }}")
        }),
        format!("m.x = f{n}(m.x);"));
    "doubling actions" 8 |n| applied(
        doubling(n, "action a0() { m.x = m.x + 1; }\n", |i, before| {
            format!("action a{i}() {{ a{before}(); a{before}(); }}")
        }),
        format!("a{n}();"));
    "doubling controls" 8 |n| Parts {
        top: doubling(n, "control c0(inout bit<32> x) { apply { x = x + 1; } }\n", |i, was| {
            format!("control c{i}(inout bit<32> x) {{ c{was}() a; apply {{ a.apply(x); a.apply(x); }} }}")
        }),
        locals: format!("c{n}() c;"),
        apply: "c.apply(m.x);".to_owned(),
        ..Parts::default()
    }.program();
    "doubling instances" 8 |n| Parts {
        top: doubling(n, "control c0(inout bit<32> x) { table t { actions = { NoAction; } } \
            apply { t.apply(); } }\n", |i, was| format!(
            "control c{i}(inout bit<32> x) {{ c{was}() a; c{was}() b; apply {{ a.apply(x); }} }}"
        )),
        locals: format!("c{n}() c;"),
        apply: "c.apply(m.x);".to_owned(),
        ..Parts::default()
    }.program();
    "doubling parsers" 6 |n| Parts {
        top: doubling(n, "parser q0(packet_in p, inout bit<32> x) { state start { x = x + 1; \
            transition accept; } }\n", |i, before| format!(
            "parser q{i}(packet_in p, inout bit<32> x) {{ q{before}() a; q{before}() b; \
             state start {{ a.apply(p, x); b.apply(p, x); transition accept; }} }}"
        )),
        parser: format!("q{n}() q; state start {{ q.apply(p, m.x); transition accept; }}"),
        ..Parts::default()
    }.program();
    "doubling loops over lists" 4 |n| apply(format!(
        "{} m.x = m.x + 1; {}",
        each(n, |i| format!("for (bit<32> i{i} in (list<bit<32>>) {{ 1, 2 }}) {{")),
        "}".repeat(n)));
    "doubling structs" 6 |n| Parts {
        top: doubling(n, "struct s0 { bit<8> a; }\n", |i, before| {
            format!("struct s{i} {{ s{before} a; s{before} b; }}")
        }),
        metadata: format!("s{n} s;"),
        apply: "m.x = 1;".to_owned(),
        ..Parts::default()
    }.program();
    "doubling tuples" 6 |n| Parts {
        top: doubling(n, "typedef tuple<bit<8>, bit<8>> t0;\n", |i, before| {
            format!("typedef tuple<t{before}, t{before}> t{i};")
        }),
        metadata: format!("t{n} s;"),
        apply: "m.x = 1;".to_owned(),
        ..Parts::default()
    }.program();
    "doubling constants" 6 |n| top(
        doubling(n, "struct s0 { bit<8> a; }\nconst s0 k0 = { 1 };\n", |i, before| {
            format!("struct s{i} {{ s{before} a; s{before} b; }}\n\
                     const s{i} k{i} = {{ k{before}, k{before} }};")
        }),
        format!("m.t = k{n} == k{n};"));
    "nested structs" 30 |n| Parts {
        top: doubling(n, "struct s0 { bit<8> a; }\n", |i, before| {
            format!("struct s{i} {{ s{before} a; bit<8> b; }}")
        }),
        metadata: format!("s{n} s; s{n} u;"),
        apply: "m.s = m.u;".to_owned(),
        ..Parts::default()
    }.program();
    "typedefs" 500 |n| top(
        doubling(n, "typedef bit<32> t0;\n", |i, before| format!("typedef t{before} t{i};")),
        format!("t{n} v = m.x; m.x = v + 1;"));
    "new types" 30 |n| top(
        doubling(n, "type bit<32> t0;\n", |i, before| format!("type t{before} t{i};")),
        "m.x = 1;");
    "struct fields" 500 |n| Parts {
        top: format!("struct s {{ {} }}", each(n, |i| format!("bit<8> f{i};"))),
        metadata: "s a; s b;".to_owned(),
        apply: "m.a = m.b;".to_owned(),
        ..Parts::default()
    }.program();
    "headers" 300 |n| Parts {
        headers: each(n, |i| format!("h_t h{i};")),
        apply: each(n, |i| format!("h.h{i}.setValid();")),
        ..Parts::default()
    }.program();
    "header fields" 500 |n| Parts {
        top: format!("header big {{ {} }}", each(n, |i| format!("bit<8> f{i};"))),
        headers: "big b; big c;".to_owned(),
        parser: "state start { p.extract(h.h); p.extract(h.b); transition accept; }".to_owned(),
        apply: "h.c = h.b;".to_owned(),
        ..Parts::default()
    }.program();
    "header types" 300 |n| Parts {
        top: each(n, |i| format!("header t{i} {{ bit<8> a; }}")),
        headers: each(n, |i| format!("t{i} h{i};")),
        ..Parts::default()
    }.program();
    "stack elements" 500 |n| Parts {
        headers: format!("h_t[{n}] s;"),
        parser: "state start { p.extract(h.s.next); transition select(h.s.last.a) { \
            1: start; default: accept; } }".to_owned(),
        apply: "h.s.push_front(1); h.s[m.x].a = 1;".to_owned(),
        ..Parts::default()
    }.program();
    "stacks" 100 |n| Parts {
        headers: each(n, |i| format!("h_t[4] s{i};")),
        apply: each(n, |i| format!("h.s{i}.pop_front(1);")),
        ..Parts::default()
    }.program();
    "unions" 100 |n| Parts {
        top: "header_union u_t { h_t a; h_t b; }".to_owned(),
        headers: each(n, |i| format!("u_t u{i};")),
        apply: each(n, |i| format!("h.u{i}.a.setValid();")),
        ..Parts::default()
    }.program();
    "members of a union" 50 |n| Parts {
        top: format!("header_union u_t {{ {} }}", each(n, |i| format!("h_t m{i};"))),
        headers: "u_t u;".to_owned(),
        apply: "h.u.m0.setValid(); m.t = h.u.isValid();".to_owned(),
        ..Parts::default()
    }.program();
    "states" 300 |n| parser(format!(
        "state start {{ transition s0; }}\n{} state s{n} {{ transition accept; }}",
        each(n, |i| format!("state s{i} {{ m.x = m.x + 1; transition s{}; }}", i + 1))));
    "select cases" 500 |n| parser(format!(
        "state start {{ p.extract(h.h); transition select(h.h.c) {{ {} default: reject; }} }}",
        each(n, |i| format!("{i}: accept;"))));
    "select keys" 100 |n| parser(format!(
        "state start {{ p.extract(h.h); \
         transition select({}) {{ ({}): accept; default: reject; }} }}",
        joined(n, ", ", |_| "h.h.c".to_owned()), joined(n, ", ", |i| i.to_string())));
    "sub-parsers" 100 |n| Parts {
        top: "parser q(packet_in p, inout bit<32> x) { state start { x = x + 1; \
              transition accept; } }".to_owned(),
        parser: format!("{} state start {{ {} transition accept; }}",
            each(n, |i| format!("q() q{i};")), each(n, |i| format!("q{i}.apply(p, m.x);"))),
        ..Parts::default()
    }.program();
    "value sets" 100 |n| parser(format!(
        "{} state start {{ p.extract(h.h); transition select(h.h.c) {{ {} default: reject; }} }}",
        each(n, |i| format!("value_set<bit<16>>(4) v{i};")),
        each(n, |i| format!("v{i}: accept;"))));
    "actions" 300 |n| applied(
        format!("{} table t {{ key = {{ m.x: exact; }} actions = {{ {} }} }}",
            each(n, |i| format!("action a{i}(bit<32> v) {{ m.x = v + {i}; }}")),
            each(n, |i| format!("a{i};"))),
        "t.apply();");
    "calls of an action" 500 |n| applied(
        "action a(bit<32> v) { m.x = v; }", each(n, |i| format!("a({i});")));
    "parameters of an action" 300 |n| applied(
        format!("action a({}) {{ m.x = v1; }} table t {{ key = {{ m.x: exact; }} \
                 actions = {{ a; }} }}", joined(n, ", ", |i| format!("bit<32> v{i}"))),
        "t.apply();");
    "tables" 200 |n| applied(
        format!("action a(bit<32> v) {{ m.x = v; }} {}", each(n, |i| format!(
            "table t{i} {{ key = {{ m.x: exact; }} actions = {{ a; }} size = 1; }}"))),
        each(n, |i| format!("t{i}.apply();")));
    "applications of tables in ifs" 200 |n| applied(
        format!("action a(bit<32> v) {{ m.x = v; }} {}", each(n, |i| format!(
            "table t{i} {{ key = {{ m.x: exact; }} actions = {{ a; }} size = 1; }}"))),
        each(n, |i| format!("if (t{i}.apply().hit) {{ m.x = 1; }} else {{ m.x = 2; }}")));
    "keys" 300 |n| table(&format!(
        "key = {{ {} }} actions = {{ a; }}",
        each(n, |i| format!("m.x: ternary @name(\"k{i}\");"))));
    "entries" 500 |n| table(&format!(
        "key = {{ m.x: exact; }} actions = {{ a; }} const entries = {{ {} }}",
        each(n, |i| format!("{i}: a({i});"))));
    "ternary entries" 500 |n| table(&format!(
        "key = {{ m.x: ternary; }} actions = {{ a; }} const entries = {{ {} }}",
        each(n, |i| format!("{i} &&& 0xff: a({i});"))));
    "switch labels" 300 |n| apply(format!(
        "switch (m.x) {{ {} }}", each(n, |i| format!("{i}: {{ m.y = {i}; }}"))));
    "switch labels of a case" 300 |n| apply(format!(
        "switch (m.x) {{ {} {{ m.y = 1; }} }}", each(n, |i| format!("{i}:"))));
    "switch on actions" 200 |n| applied(
        format!("{} table t {{ key = {{ m.x: exact; }} actions = {{ {} }} }}",
            each(n, |i| format!("action a{i}() {{ m.x = {i}; }}")), each(n, |i| format!("a{i};"))),
        format!("switch (t.apply().action_run) {{ {} }}",
            each(n, |i| format!("a{i}: {{ m.y = {i}; }}"))));
    "instances" 150 |n| Parts {
        top: "control c(inout bit<32> x) { apply { x = x + 1; } }".to_owned(),
        locals: each(n, |i| format!("c() c{i};")),
        apply: each(n, |i| format!("c{i}.apply(m.x);")),
        ..Parts::default()
    }.program();
    "controls" 150 |n| Parts {
        top: each(n, |i| format!("control c{i}(inout bit<32> x) {{ apply {{ x = x + {i}; }} }}")),
        locals: each(n, |i| format!("c{i}() i{i};")),
        apply: each(n, |i| format!("i{i}.apply(m.x);")),
        ..Parts::default()
    }.program();
    "nested controls" 30 |n| Parts {
        top: doubling(n, "control c0(inout bit<32> x) { apply { x = x + 1; } }\n", |i, before| {
            format!("control c{i}(inout bit<32> x) {{ c{before}() a; apply {{ a.apply(x); }} }}")
        }),
        locals: format!("c{n}() c;"),
        apply: "c.apply(m.x);".to_owned(),
        ..Parts::default()
    }.program();
    "externs" 200 |n| applied(
        each(n, |i| format!("register<bit<32>>(16) r{i}; counter(16, CounterType.packets) c{i};")),
        each(n, |i| format!("r{i}.read(m.x, 1); c{i}.count(2);")));
    "fields of a checksum" 200 |n| Parts {
        checksums: format!("update_checksum(true, {{ {} }}, h.h.c, HashAlgorithm.csum16);",
            joined(n, ", ", |_| "h.h.a".to_owned())),
        ..Parts::default()
    }.program();
    "arguments of log_msg" 200 |n| apply(format!(
        "log_msg(\"{}\", {{ {} }});", "{}".repeat(n), joined(n, ", ", |_| "m.x".to_owned())));
    "constants" 500 |n| top(
        each(n, |i| format!("const bit<32> k{i} = {i};")), each(n, |i| format!("m.x = k{i};")));
    "enum members" 500 |n| top(
        format!("enum bit<32> e {{ {} }}", joined(n, ", ", |i| format!("m{i} = {i}"))),
        each(n, |i| format!("m.t = m.x == e.m{i};")));
    "enums" 200 |n| top(
        each(n, |i| format!("enum e{i} {{ a, b }}")),
        each(n, |i| format!("e{i} v{i} = e{i}.a; m.t = v{i} == e{i}.b;")));
    "errors" 500 |n| Parts {
        top: format!("error {{ {} }}", joined(n, ", ", |i| format!("e{i}"))),
        parser: format!("state start {{ {} transition accept; }}",
            each(n, |i| format!("verify(m.x == {i}, error.e{i});"))),
        ..Parts::default()
    }.program();
    "annotations" 300 |n| applied(
        format!("{} table t {{ key = {{ m.x: exact; }} actions = {{ NoAction; }} }}",
            each(n, |i| format!("@a{i}(\"text\")"))),
        "t.apply();");
    "macros" 500 |n| format!(
        "{}{}",
        each(n, |i| format!("#define K{i} {i}")), apply(each(n, |i| format!("m.x = K{i};"))));
}
