//! Policies: chains of programs as files and as texts, and the diagnostics of each text.

mod common;

use std::path::Path;

use common::{Directory, V1MODEL, assert_parts};
use driver::{
    CompileError, CompiledPolicy, FileSystem, MAX_POLICY_BYTES, Options, PolicySource, StepSource,
};
use passes::compose::Form;

const BROKEN: &str = "header h_t { bit<8> x }\n";

fn directory() -> Directory {
    Directory::new(&[
        ("one.p4", V1MODEL),
        (
            "two.p4",
            &V1MODEL.replace("mark_to_drop(s)", "s.egress_spec = 3"),
        ),
        ("broken.p4", BROKEN),
        ("line.policy", "one -> two.p4\n"),
        ("outer.policy", "one -> line.policy"),
    ])
}

fn compile_text(directory: &Directory, text: &str) -> CompiledPolicy {
    let files = FileSystem::default();
    let source = PolicySource::of_text(text, &directory.path(""), &files);
    driver::compile_policy(&source, &Options::default(), Form::Merged)
}

#[test]
fn an_argument_is_a_policy_by_its_extension_or_by_an_arrow() {
    let cases = [
        ("router.p4", false, "router"),
        ("dir.policy/router.p4", false, "router"),
        ("dir/line.policy", true, "line"),
        ("a.p4 -> b.p4", true, "chain"),
        ("router", false, "router"),
    ];
    for (argument, is_policy, name) in cases {
        assert_eq!(
            driver::is_policy(Path::new(argument)),
            is_policy,
            "{argument}"
        );
        assert_eq!(driver::program_name(Path::new(argument)), name);
    }
}

#[test]
fn the_programs_of_a_policy_file_are_composed() {
    let directory = directory();
    let files = FileSystem::default();
    let source = PolicySource::of_argument(&directory.path("line.policy"), &files).unwrap();
    let compiled = driver::compile_policy(&source, &Options::default(), Form::Merged);
    let parts = compiled.parts.as_ref().unwrap();
    assert_eq!(parts.policy.to_string(), "one -> two.p4");
    let steps: Vec<&str> = parts
        .programs
        .iter()
        .map(|(step, _)| step.as_str())
        .collect();
    assert_eq!(steps, ["one", "two"]);
    let composed = compiled.into_result().unwrap();
    assert_eq!(composed.program.name, "line");
    assert_eq!(composed.joints.len(), 1);
    ir::verify(&composed.program).unwrap();
}

#[test]
fn a_policy_that_is_text_has_its_programs_in_the_directory() {
    let compiled = compile_text(&directory(), "one.p4 -> again = one.p4");
    // The file is compiled once.
    assert_eq!(compiled.diagnostics.len(), 1);
    assert_eq!(compiled.into_result().unwrap().program.name, "chain");
}

#[test]
fn errors_are_of_the_policy_or_of_the_program_that_has_them() {
    let cases = [
        ("", vec!["policy:1:1: error[E1201]", "the policy is empty"]),
        ("one ->\n ->", vec!["policy:2:2: error[E1201]"]),
        ("one -> broken", vec!["broken.p4:1:23: error", "`;`"]),
        (
            "one ->\n nowhere",
            vec![
                "policy:2:2: error[E1201]",
                "the step `nowhere`",
                "there is no such file",
            ],
        ),
        (
            "one -> line.policy",
            vec!["policy:1:8: error[E1201]", "is a policy"],
        ),
        (
            "one -> one",
            vec!["policy:1:8: error[E1201]", "a step `one`"],
        ),
    ];
    let directory = directory();
    for (text, parts) in cases {
        let compiled = compile_text(&directory, text);
        assert!(compiled.composed.is_none(), "{text}");
        let errors = compiled.diagnostics.iter();
        let errors: usize = errors.map(|one| one.list.error_count()).sum();
        assert_eq!(errors, 1, "{text}");
        assert_parts(&compiled.into_result().unwrap_err().to_string(), &parts);
    }
}

#[test]
fn a_policy_file_that_cannot_be_read_is_an_error() {
    let directory = directory();
    let large = "#".repeat(MAX_POLICY_BYTES as usize + 1);
    std::fs::write(directory.path("large.policy"), large).unwrap();
    std::fs::write(directory.path("binary.policy"), [0, 1]).unwrap();
    let cases = [
        (
            "missing.policy",
            vec!["cannot read", "there is no such file"],
        ),
        (
            "large.policy",
            vec!["cannot read", "larger than the limit of 1 MiB"],
        ),
        ("binary.policy", vec!["is not a text file"]),
    ];
    let files = FileSystem::default();
    for (name, parts) in cases {
        let read = PolicySource::of_argument(&directory.path(name), &files);
        assert_parts(
            &read.unwrap_err().to_string(),
            &[&[name], &parts[..]].concat(),
        );
    }
}

#[test]
fn programs_that_are_texts_are_composed_in_their_order() {
    let step = |step: &str, text: &str| StepSource {
        step: step.to_owned(),
        text: text.to_owned(),
    };
    let program =
        driver::compile_steps("pair", &[step("one", V1MODEL), step("two", V1MODEL)]).unwrap();
    assert_eq!(program.name, "pair");
    ir::verify(&program).unwrap();
    let cases = [
        (
            vec![step("one", V1MODEL), step("two", BROKEN)],
            "two.p4:1:23: error",
        ),
        (vec![step("1one", V1MODEL)], "1:1"),
        (
            vec![step("one", V1MODEL), step("one", V1MODEL)],
            "a step `one`",
        ),
        (
            vec![step("one", "#include \"/etc/hostname\"\n")],
            "one.p4:1",
        ),
    ];
    for (steps, part) in cases {
        let error: CompileError = driver::compile_steps("pair", &steps).unwrap_err();
        assert_parts(&error.to_string(), &[part]);
    }
}
