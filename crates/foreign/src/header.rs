//! Text of `clip.h`, and of the functions that convert between limbs and structs.

use std::fmt::Write;

use crate::interface::{
    ConstantValue, Enumeration, Field, FieldType, Handler, Interface, MirroredTable, PayloadOption,
    Record, Scalar,
};

/// Functions and macros that do not depend on the program.
const PRELUDE: &str = include_str!("clip_prelude.h");

/// Symbol of objects that TinyCC made. It does not separate constants from variables.
pub(crate) const TCC_MARK: &str = "clip_compiler_is_tcc";

/// Prefix of the function that the host calls for a handler.
pub(crate) const CALL_PREFIX: &str = "clip_call_";

/// Returns the header of a program: `clip.h`.
pub(crate) fn text(interface: &Interface) -> String {
    let mut out = PRELUDE.to_owned();
    for declared in &interface.enums {
        enumeration(&mut out, declared);
    }
    for constant in &interface.constants {
        constant_value(&mut out, constant, &interface.enums);
    }
    for record in &interface.records {
        structure(&mut out, record, interface);
    }
    for table in &interface.tables {
        mirrored(&mut out, table, &interface.enums);
    }
    if !interface.handlers.is_empty() {
        out.push('\n');
    }
    for handler in &interface.handlers {
        let _ = writeln!(out, "{};", prototype(handler, interface));
    }
    out.push_str("\n#endif\n");
    out
}

fn enumeration(out: &mut String, declared: &Enumeration) {
    let members = declared.members.join(", ");
    let members = match members.is_empty() {
        true => format!("{}_none_", declared.name),
        false => members,
    };
    let _ = writeln!(out, "\nenum {} {{ {members} }};", declared.name);
}

fn constant_value(out: &mut String, constant: &ConstantValue, enums: &[Enumeration]) {
    let ConstantValue { name, ty, limbs } = constant;
    let low = limbs.first().copied().unwrap_or(0);
    let ty_name = ty.declare("", enums);
    let _ = match ty {
        Scalar::Bool => writeln!(out, "#define {name} {}", low != 0),
        Scalar::Bytes(width) => {
            let count = width.div_ceil(8) as usize;
            let byte = |at: usize| {
                limbs
                    .get(at / 8)
                    .map_or(0, |limb| (limb >> (8 * (at % 8))) as u8)
            };
            let bytes: Vec<String> = (0..count).rev().map(|at| byte(at).to_string()).collect();
            let declared = ty.declare(name, enums);
            writeln!(out, "static const {declared} = {{{}}};", bytes.join(", "))
        }
        Scalar::Signed(width) => {
            let shift = 64 - width;
            let value = ((low << shift) as i64) >> shift;
            match value {
                _ if i32::try_from(value).is_ok() => writeln!(out, "enum {{ {name} = {value} }};"),
                // C has no literal for this one.
                i64::MIN => writeln!(out, "#define {name} INT64_MIN"),
                _ => writeln!(out, "#define {name} (({})({value}LL))", ty_name.trim_end()),
            }
        }
        _ if low <= i32::MAX as u64 => writeln!(out, "enum {{ {name} = {low} }};"),
        _ => writeln!(out, "#define {name} (({}){low}ULL)", ty_name.trim_end()),
    };
}

fn structure(out: &mut String, record: &Record, interface: &Interface) {
    let _ = writeln!(out, "\nstruct {} {{", record.name);
    for Field { name, ty, .. } in &record.fields {
        let declared = match ty {
            FieldType::Scalar(ty) => ty.declare(name, &interface.enums),
            FieldType::Record(index) => {
                format!("struct {} {name}", interface.records[*index].name)
            }
        };
        let _ = writeln!(out, "    {declared};");
    }
    if record.fields.is_empty() {
        // C has no empty structs.
        out.push_str("    uint8_t unused_;\n");
    }
    out.push_str("};\n");
}

fn prototype(handler: &Handler, interface: &Interface) -> String {
    format!(
        "int {}(clip_t *c, const struct {} *q, struct {} *r)",
        handler.function,
        interface.records[handler.request].name,
        interface.records[handler.response].name
    )
}

fn mirrored(out: &mut String, table: &MirroredTable, enums: &[Enumeration]) {
    let name = &table.name;
    let _ = writeln!(out, "\nstruct {name}_key {{");
    for (field, ty) in &table.key {
        let _ = writeln!(out, "    {};", ty.declare(field, enums));
    }
    if table.key.is_empty() {
        out.push_str("    uint8_t unused_;\n");
    }
    out.push_str("};\n\n");
    let constants: Vec<String> = (table.actions.iter())
        .map(|action| format!("{} = {}", action.constant, action.position))
        .collect();
    if !constants.is_empty() {
        let _ = writeln!(out, "enum {{ {} }};", constants.join(", "));
    }
    let _ = writeln!(
        out,
        "\nstruct {name}_entry {{\n    uint32_t action;\n    union {{"
    );
    let with_params = || {
        table
            .actions
            .iter()
            .filter(|action| !action.params.is_empty())
    };
    for action in with_params() {
        out.push_str("        struct {\n");
        for (param, ty) in &action.params {
            let _ = writeln!(out, "            {};", ty.declare(param, enums));
        }
        let _ = writeln!(out, "        }} {};", action.name);
    }
    if with_params().next().is_none() {
        out.push_str("        uint8_t unused_;\n");
    }
    out.push_str("    } u;\n};\n");
    table_functions(out, table);
}

/// Writes the functions that convert keys and entries, and those that handlers call.
fn table_functions(out: &mut String, table: &MirroredTable) {
    let (name, id) = (&table.name, table.id);
    let (key, params) = (table.key_limbs().max(1), table.param_limbs.max(1));
    let _ = writeln!(
        out,
        "\nstatic inline void clip_{name}_pack_key(uint64_t *l, const struct {name}_key *k)\n{{"
    );
    let mut at = 0;
    for (field, ty) in table.matched() {
        pack(out, *ty, &format!("k->{field}"), "l", at, "    ");
        at += ty.limbs();
    }
    if at == 0 {
        out.push_str("    (void)l;\n    (void)k;\n");
    }
    let _ = writeln!(
        out,
        "}}\n\nstatic inline void clip_{name}_unpack(struct {name}_entry *e, const uint64_t *l)\n\
         {{\n    (void)l;\n    switch (e->action) {{"
    );
    for action in &table.actions {
        let _ = writeln!(out, "    case {}:", action.constant);
        let mut at = 0;
        for (param, ty) in &action.params {
            let place = format!("e->u.{}.{param}", action.name);
            unpack(out, *ty, &place, "l", at, "        ");
            at += ty.limbs();
        }
        out.push_str("        break;\n");
    }
    out.push_str("    default:\n        break;\n    }\n}\n");
    let _ = writeln!(
        out,
        "\nstatic inline int {name}_find(clip_t *c, const struct {name}_key *k, \
         struct {name}_entry *e)\n{{\n    uint64_t key[{key}], params[{params}];\n    \
         uint32_t action = 0;\n    clip_{name}_pack_key(key, k);\n    \
         if (!c->host->find(c, {id}u, key, params, &action))\n        return 0;\n    \
         memset(e, 0, sizeof *e);\n    e->action = action;\n    clip_{name}_unpack(e, params);\n    \
         return 1;\n}}"
    );
    if !table.is_written {
        return;
    }
    let _ = writeln!(
        out,
        "\nstatic inline int clip_{name}_pack(uint64_t *l, const struct {name}_entry *e)\n{{\n    \
         (void)l;\n    switch (e->action) {{"
    );
    for action in &table.actions {
        let _ = writeln!(out, "    case {}:", action.constant);
        let mut at = 0;
        for (param, ty) in &action.params {
            let place = format!("e->u.{}.{param}", action.name);
            pack(out, *ty, &place, "l", at, "        ");
            at += ty.limbs();
        }
        out.push_str("        return 1;\n");
    }
    out.push_str("    default:\n        return 0;\n    }\n}\n");
    let _ = writeln!(
        out,
        "\nstatic inline int {name}_insert(clip_t *c, const struct {name}_key *k, \
         const struct {name}_entry *e, uint64_t idle_ns)\n{{\n    \
         uint64_t key[{key}], params[{params}] = {{ 0 }};\n    \
         if (!clip_{name}_pack(params, e))\n        return CLIP_INVALID;\n    \
         clip_{name}_pack_key(key, k);\n    \
         return c->host->insert(c, {id}u, key, e->action, params, idle_ns);\n}}\n\n\
         static inline int {name}_modify(clip_t *c, const struct {name}_key *k, \
         const struct {name}_entry *e)\n{{\n    \
         uint64_t key[{key}], params[{params}] = {{ 0 }};\n    \
         if (!clip_{name}_pack(params, e))\n        return 0;\n    \
         clip_{name}_pack_key(key, k);\n    \
         return c->host->modify(c, {id}u, key, e->action, params);\n}}\n\n\
         static inline int {name}_delete(clip_t *c, const struct {name}_key *k)\n{{\n    \
         uint64_t key[{key}];\n    clip_{name}_pack_key(key, k);\n    \
         return c->host->remove(c, {id}u, key);\n}}"
    );
}

/// Writes a statement that stores a value in limbs from `at` on.
fn pack(out: &mut String, ty: Scalar, place: &str, limbs: &str, at: usize, indent: &str) {
    let _ = match ty {
        Scalar::Bool => writeln!(out, "{indent}{limbs}[{at}] = {place} ? 1 : 0;"),
        Scalar::Unsigned(width) | Scalar::Signed(width) => {
            writeln!(
                out,
                "{indent}{limbs}[{at}] = clip_cut((uint64_t){place}, {width});"
            )
        }
        Scalar::Enum(_) => writeln!(out, "{indent}{limbs}[{at}] = (uint32_t){place};"),
        Scalar::Bytes(width) => {
            writeln!(
                out,
                "{indent}clip_to_limbs({limbs} + {at}, {place}, {width});"
            )
        }
        Scalar::Float => writeln!(out, "{indent}{limbs}[{at}] = clip_float_to_limb(&{place});"),
        Scalar::Double => writeln!(
            out,
            "{indent}{limbs}[{at}] = clip_double_to_limb(&{place});"
        ),
    };
}

/// Writes a statement that sets a value from limbs from `at` on.
fn unpack(out: &mut String, ty: Scalar, place: &str, limbs: &str, at: usize, indent: &str) {
    let _ = match ty {
        Scalar::Bool => writeln!(out, "{indent}{place} = {limbs}[{at}] != 0;"),
        Scalar::Unsigned(_) | Scalar::Enum(_) => writeln!(out, "{indent}{place} = {limbs}[{at}];"),
        Scalar::Signed(width) => {
            writeln!(
                out,
                "{indent}{place} = clip_signed({limbs}[{at}], {width});"
            )
        }
        Scalar::Bytes(width) => {
            let size = width.div_ceil(8);
            writeln!(
                out,
                "{indent}clip_from_limbs({place}, {size}, {limbs} + {at});"
            )
        }
        Scalar::Float => writeln!(
            out,
            "{indent}clip_float_from_limb(&{place}, {limbs}[{at}]);"
        ),
        Scalar::Double => writeln!(
            out,
            "{indent}clip_double_from_limb(&{place}, {limbs}[{at}]);"
        ),
    };
}

/// Returns the functions that the host calls, one for each handler.
pub(crate) fn wrappers(interface: &Interface) -> String {
    let mut out = format!("#ifdef __TINYC__\nconst char {TCC_MARK} = 1;\n#endif\n");
    for handler in &interface.handlers {
        let function = &handler.function;
        let (request, response) = (
            &interface.records[handler.request],
            &interface.records[handler.response],
        );
        let _ = writeln!(
            out,
            "\nint32_t {CALL_PREFIX}{function}(clip_t *c, const uint64_t *q, uint64_t *r);\n\
             int32_t {CALL_PREFIX}{function}(clip_t *c, const uint64_t *q, uint64_t *r)\n{{\n    \
             struct {} request;\n    struct {} response;\n    int result;\n    (void)q;\n    \
             (void)r;\n    memset(&request, 0, sizeof request);\n    \
             memset(&response, 0, sizeof response);",
            request.name, response.name
        );
        each_scalar(
            interface,
            request,
            "request",
            &mut 0,
            &mut |field, ty, place, at| {
                unpack(&mut out, ty, place, "q", at, "    ");
                let _ = match field.option {
                    Some(PayloadOption::Index) => {
                        writeln!(out, "    c->payload_index = clip_narrow(q[{at}]);")
                    }
                    Some(PayloadOption::Length) => {
                        writeln!(out, "    c->payload_length = clip_narrow(q[{at}]);")
                    }
                    None => Ok(()),
                };
            },
        );
        let _ = writeln!(
            out,
            "    result = {function}(c, &request, &response);\n    if (result != CLIP_OK)\n        \
             return result;"
        );
        each_scalar(
            interface,
            response,
            "response",
            &mut 0,
            &mut |_, ty, place, at| {
                pack(&mut out, ty, place, "r", at, "    ");
            },
        );
        out.push_str("    return CLIP_OK;\n}\n");
    }
    out
}

/// Calls `each` for the scalars of a struct: the field, its type, its place in C, its first limb.
fn each_scalar(
    interface: &Interface,
    record: &Record,
    place: &str,
    at: &mut usize,
    each: &mut impl FnMut(&Field, Scalar, &str, usize),
) {
    for field in &record.fields {
        let place = format!("{place}.{}", field.name);
        match field.ty {
            FieldType::Scalar(ty) => {
                each(field, ty, &place, *at);
                *at += ty.limbs();
            }
            FieldType::Record(index) => {
                each_scalar(interface, &interface.records[index], &place, at, each);
            }
        }
    }
}
