//! Programs as texts and as files: the expected program, or the diagnostics of each phase.

mod common;

use std::path::PathBuf;

use common::{Directory, V1MODEL, assert_parts, with_ingress};
use driver::{CompileError, Compiled, FileSystem, Options, Source};
use support::work::{Interrupt, Work, WorkLimits};

fn text(text: &str) -> Compiled {
    let name = "dir/test.p4";
    driver::compile(&Source::Text { name, text }, &Options::default())
}

#[test]
fn a_program_without_errors_is_ir_that_the_verifier_accepts() {
    let compiled = text(V1MODEL);
    assert!(compiled.diagnostics.list.is_empty());
    let program = compiled.program.unwrap();
    assert_eq!(program.name, "dir/test");
    ir::verify(&program).unwrap();
    assert_eq!(
        driver::compile_text("dir/test.p4", V1MODEL).unwrap(),
        program
    );
}

#[test]
fn errors_of_each_phase_are_diagnostics_with_positions() {
    let cases = [
        // The parser: the checker does not report the missing type, too.
        (
            "header h_t { bit<8> x }\nconst t X = 1;\n",
            vec!["test.p4:1:23: error", "`;`"],
        ),
        // The checker: no error of lowering follows.
        (
            "const bit<8> X = missing;\n",
            vec!["test.p4:1:18: error", "missing"],
        ),
        // Lowering.
        ("const bit<8> X = 1;\n", vec!["error[E1102]", "no `main`"]),
        (
            &with_ingress("flash_t() f;", "f.on();"),
            vec!["test.p4:", "error[E1", "flash_t"],
        ),
    ];
    for (program, parts) in cases {
        let compiled = text(program);
        assert!(compiled.program.is_none());
        assert_eq!(compiled.diagnostics.list.error_count(), 1, "{program}");
        let rendered = compiled.diagnostics.render(false);
        assert_parts(&rendered, &parts);
        assert!(
            compiled
                .diagnostics
                .to_json()
                .contains("\"severity\": \"error\"")
        );
        let error = driver::compile_text("dir/test.p4", program).unwrap_err();
        assert_eq!(error.to_string(), rendered);
    }
}

#[test]
fn warnings_are_kept_beside_the_program() {
    let compiled = text(&with_ingress(
        "",
        "bit<8> unread; s.priority = (bit<3>) unread;",
    ));
    assert!(compiled.program.is_some());
    assert!(!compiled.diagnostics.has_errors());
    assert_parts(&compiled.diagnostics.render(false), &["warning[", "unread"]);
}

#[test]
fn a_description_has_no_need_for_implementations_of_externs() {
    let text = &with_ingress("flash_t() f;", "f.on();");
    let source = Source::Text {
        name: "test.p4",
        text,
    };
    let described = driver::describe(&source, &Options::default());
    assert!(described.program.is_some());
}

#[test]
fn phases_can_be_run_one_by_one() {
    let source = Source::Text {
        name: "test.p4",
        text: V1MODEL,
    };
    let parsed = driver::parse(&source, &Options::default());
    assert!(!parsed.tree.decls.is_empty());
    let checked = parsed.check();
    assert!(!checked.diagnostics.has_errors());
    let in_steps = checked.lower().into_result().unwrap();
    assert_eq!(in_steps, driver::compile_text("test.p4", V1MODEL).unwrap());
}

#[test]
fn macros_of_the_options_are_defined_and_removed() {
    let text = "const bit<8> X = WIDTH;\n#ifdef GONE\nnonsense\n#endif\n";
    let source = Source::Text {
        name: "test.p4",
        text,
    };
    let defines = [("WIDTH", "8"), ("GONE", "1")];
    let options = Options {
        defines: defines
            .map(|(name, body)| (name.into(), body.into()))
            .to_vec(),
        undefs: vec!["GONE".to_owned()],
    };
    assert!(!driver::check(&source, &options).diagnostics.has_errors());
    assert!(
        driver::check(&source, &Options::default())
            .diagnostics
            .has_errors()
    );
}

#[test]
fn a_file_includes_files_beside_it_and_of_the_include_directories() {
    let directory = Directory::new(&[
        (
            "main.p4",
            &format!("#include \"beside.p4\"\n#include <far.p4>\n{V1MODEL}"),
        ),
        ("beside.p4", "const bit<8> BESIDE = FAR;\n"),
        ("include/far.p4", "const bit<8> FROM_FAR = 2;\n"),
    ]);
    let path = directory.path("main.p4");
    let files = FileSystem {
        include_dirs: vec![directory.path("include")],
    };
    let options = Options {
        defines: vec![("FAR".to_owned(), "3".to_owned())],
        undefs: Vec::new(),
    };
    let compiled = driver::compile(
        &Source::File {
            path: &path,
            files: &files,
        },
        &options,
    );
    assert_eq!(compiled.into_result().unwrap().name, "main");
    let missing = directory.path("missing.p4");
    let compiled = driver::compile(
        &Source::File {
            path: &missing,
            files: &files,
        },
        &options,
    );
    assert_parts(
        &compiled.diagnostics.render(false),
        &["missing.p4", "no such file"],
    );
}

/// A text that comes from a network reaches no file: the answer for a file that exists is the
/// answer for one that does not.
#[test]
fn a_text_includes_no_file_of_the_machine() {
    let directory = Directory::new(&[("secret.p4", "const bit<8> KEY = 42;\n")]);
    let secret = directory.path("secret.p4");
    let include = |path: &PathBuf, form: [&str; 2]| {
        let text = format!(
            "#include {}{}{}\n{V1MODEL}",
            form[0],
            path.display(),
            form[1]
        );
        driver::compile_text(&secret.display().to_string(), &text)
            .unwrap_err()
            .to_string()
    };
    for form in [["\"", "\""], ["<", ">"]] {
        let present = include(&secret, form);
        let absent = include(&directory.path("absent.p4"), form);
        assert!(!present.contains("KEY"), "{present}");
        let same = |text: &str| text.replace("absent.p4", "secret.p4");
        assert_eq!(same(&present), same(&absent));
    }
    assert!(
        driver::compile_text("empty.p4", V1MODEL).is_ok(),
        "built-in files are included"
    );
}

#[test]
fn a_compilation_ends_when_its_work_is_cancelled() {
    let work = Work::new(WorkLimits::default());
    work.cancel();
    let ended = work.run(|| driver::compile_text("test.p4", V1MODEL));
    let ended: Result<Result<ir::Program, CompileError>, Interrupt> = ended;
    assert_eq!(ended.unwrap_err(), Interrupt::Cancelled);
}
