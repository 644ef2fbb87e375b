//! Wrong C code: each error names what is wrong and where.

use std::time::Duration;

use foreign::{CodeError, CompileOptions, HandlerState, LoadError, LoadOptions, Severity};

use crate::common::{cache, code, compile, compilers, options, program};

fn one_handler() -> std::sync::Arc<ir::Program> {
    let declarations = "extern h: handler request req {a: bit<8>} response res {b: bit<8>} @7:3\n";
    let ingress = "    stage ingress.code: action next end {
        sm.egress_spec = 9w0x1;
    }";
    program("    a: bit<8>;", declarations, ingress)
}

const HANDLER: &str =
    "int h(clip_t *c, const struct req *q, struct res *r) { (void)c; (void)q; (void)r; return 0; }";

fn error(text: &str, compiler: &str) -> String {
    match foreign::compile(&one_handler(), &code(text), &options(compiler)) {
        Ok(_) => panic!("{compiler} compiles {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn wrong_code_is_refused_with_its_place() {
    for compiler in compilers() {
        for (text, place, words) in [
            ("\nint f(void) { return x; }", "app.p4c:101", "x"),
            ("int h(clip_t *c) { return 0; }", "app.p4c:100", "h"),
            ("", "app.p4c:7:3", "the handler `h` has no C code"),
            (
                "int other(int);\nint h(clip_t *c, const struct req *q, struct res *r) { return other(1); }",
                "app.p4c:100:5",
                "`other` is declared, but not defined",
            ),
            (
                &format!("{HANDLER}\nint counter;"),
                "app.p4c:101:5",
                "`counter` is writable",
            ),
            (
                &format!("{HANDLER}\nstatic int counter = 1; int f(void) {{ return counter++; }}"),
                "app.p4c:101:12",
                "`counter` is writable",
            ),
            (
                &format!("{HANDLER}\nint f(void) {{ static int n; return n++; }}"),
                "app.p4c:101",
                "`n` is writable",
            ),
            (
                &format!("{HANDLER}\nconst char *pointer = \"x\";"),
                "app.p4c:101:13",
                "`pointer` is writable",
            ),
            ("#include \"missing.h\"\n", "app.p4c:100", "missing.h"),
            (&format!("{HANDLER}\n#error no\n"), "app.p4c:101", "no"),
        ] {
            let error = error(text, compiler);
            let line = error.lines().find(|line| line.contains("error: "));
            let line = line.unwrap_or_else(|| panic!("{compiler}: {error}"));
            assert!(
                line.starts_with(place) && error.contains(words),
                "{compiler}: {error}"
            );
        }
    }
}

#[test]
fn constants_and_functions_of_libc_are_fine() {
    let text = format!(
        "#include <math.h>\n#include <stdlib.h>\n{HANDLER}\nstatic const int t[] = {{1, 2}};\n\
         const char *const names[] = {{\"a\", \"b\"}};\n\
         double f(int x) {{ static const double k[] = {{1.5}}; return sin(k[0] * t[x & 1]) + names[0][0]; }}\n\
         const char *g(void) {{ return __func__; }}\n\
         int s(int x) {{ switch (x) {{ case 1: return 5; case 2: return 8; case 3: return 1; case 4: return 11; case 5: return 2; default: return abs(x); }} }}\n"
    );
    for compiler in compilers() {
        compile(&one_handler(), &text, compiler);
    }
}

#[test]
fn warnings_have_places_and_stay_in_the_cache() {
    let text = format!("{HANDLER}\nstatic int unused(void) {{ return 1; }}\n");
    let folder = tempfile::tempdir().unwrap();
    let options = CompileOptions {
        compiler: Some("cc".into()),
        ..CompileOptions::new(folder.path())
    };
    for is_cached in [false, true] {
        let compiled = foreign::compile(&one_handler(), &code(&text), &options).unwrap();
        assert_eq!(compiled.was_cached(), is_cached);
        let warning = &compiled.warnings()[0];
        let place = warning
            .place
            .as_ref()
            .map(|place| (place.file.as_str(), place.line));
        assert_eq!(
            (warning.severity, place),
            (Severity::Warning, Some(("app.p4c", 101)))
        );
        assert!(warning.text.contains("unused"), "{warning}");
    }
    let names = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(
        names.count(),
        2,
        "the directory has the object and its notes only"
    );
}

#[test]
fn a_compiler_that_is_missing_slow_or_fails_is_reported() {
    let no_compiler = error(HANDLER, "no-such-compiler -x");
    assert!(
        no_compiler.contains("`no-such-compiler -x`: install gcc"),
        "{no_compiler}"
    );
    let failed = error(HANDLER, "false");
    assert!(failed.contains("`false` failed"), "{failed}");
    let no_object = error(HANDLER, "true");
    assert!(no_object.contains("`true` failed"), "{no_object}");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("slow");
    std::fs::write(&script, "#!/bin/sh\nsleep 100 & wait\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let options = CompileOptions {
        compiler: Some(script.into_os_string()),
        time_limit: Duration::from_millis(100),
        ..CompileOptions::new(&cache())
    };
    let slow = foreign::compile(&one_handler(), &code(HANDLER), &options);
    assert!(matches!(slow, Err(CodeError::TimeLimit { .. })), "{slow:?}");
    let loud = folder.path().join("loud");
    std::fs::write(&loud, "#!/bin/sh\nwhile echo noise >&2; do :; done\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&loud, executable).unwrap();
    let options = CompileOptions {
        compiler: Some(loud.into_os_string()),
        ..CompileOptions::new(&cache())
    };
    let loud = foreign::compile(&one_handler(), &code(HANDLER), &options);
    assert!(matches!(loud, Err(CodeError::Failed { .. })));
}

#[test]
fn code_for_another_program_is_not_loaded() {
    let compiled = compile(&one_handler(), HANDLER, "cc");
    let ingress = "    stage ingress.code: action next end {
        sm.egress_spec = 9w0x1;
    }";
    let declarations = "extern h: handler request req {a: bit<9>} response res {b: bit<8>}\n";
    let other = program("    a: bit<8>;", declarations, ingress);
    let state = HandlerState::default();
    let error = foreign::load(&compiled, &other, &state, &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, LoadError::OtherProgram), "{error}");
}
