//! Policies in place of a program: valid ones, and the positions of errors.

mod lab;

use lab::{Directory, Said, example, said};

fn functions(name: &str) -> String {
    example(&format!("functions/{name}"))
}

/// Checks that the output has all parts and this exit status.
#[track_caller]
fn check(said: &Said, status: i32, parts: &[&str]) {
    let text = format!("{}{}", said.err, said.out);
    assert_eq!(said.status, Some(status), "{text}");
    for part in parts {
        assert!(text.contains(part), "\"{part}\" in:\n{text}");
    }
}

#[test]
fn a_policy_stands_wherever_a_program_can() {
    for number in 1..=7 {
        let file = |ending: &str| functions(&format!("policies/pol{number}.{ending}"));
        let (policy, test) = (file("policy"), file("stf"));
        check(&said(&["check", &policy]), 0, &[]);
        check(&said(&["test", "--quiet", &policy, &test]), 0, &[]);
    }
    let typed = format!(
        "first={} -> {}",
        functions("mac_learn.p4"),
        functions("l3_sw.p4")
    );
    check(
        &said(&["check", &typed]),
        0,
        &["l3_sw goes on with the headers as they are"],
    );
    check(
        &said(&["p4info", &typed]),
        0,
        &[
            "\"first.MacLearn.known_source\"",
            "\"l3_sw.L3Switch.routes\"",
        ],
    );
    let dir = Directory::new("chain-compile");
    let out = dir.file("out");
    check(
        &said(&["compile", &typed, "-o", &out]),
        0,
        &["chain.p4info.txt", "chain.device"],
    );
    let packet = "020000000101020000000102080045000020000100004011";
    let traced = said(&[
        "trace",
        &functions("policies/pol7.policy"),
        "--packet",
        packet,
    ]);
    check(&traced, 0, &["mac_learn.FunctionParser"]);
}

#[test]
fn a_wrong_policy_is_marked_where_it_is_wrong() {
    let dir = Directory::new("chain-wrong");
    dir.with("broken.p4", "#include <core.p4>\nheader h_t { bit<8> x }\n");
    let l3 = functions("l3_sw.p4");
    let cases = [
        (
            "".to_owned(),
            vec![":1:1: error[E1201]", "the policy is empty"],
        ),
        (
            "a ->\n ->".to_owned(),
            vec![":2:2: error[E1201]", "the name of a step or `[`", "^"],
        ),
        (
            format!("{l3} -> broken.p4"),
            vec!["broken.p4:2:23: error", "expected `;`"],
        ),
        (
            "nowhere -> l3".to_owned(),
            vec![":1:1: error[E1201]", "cannot read", "nowhere.p4"],
        ),
        (
            format!("{l3} -> wrong.policy"),
            vec![
                "error[E1201]",
                "wrong.policy is a policy, and steps are programs",
            ],
        ),
        (
            format!("{l3} -> {l3}"),
            vec!["error[E1201]", "a step `l3_sw` stands at 1:1 already"],
        ),
        (
            format!("{l3} -> [hdr.ipv4.tlt == 1: b = {l3}]"),
            vec!["error[E1201]", "there is no field `hdr.ipv4.tlt`"],
        ),
    ];
    for (text, parts) in cases {
        let policy = dir.with("wrong.policy", &text);
        check(&said(&["check", &policy]), 1, &parts);
        check(&said(&["ir", &policy]), 1, &parts);
        let told = said(&["check", "--format", "json", &policy]);
        check(&told, 1, &["\"severity\": \"error\""]);
        let array: Result<Vec<serde_json::Value>, _> = serde_json::from_str(&told.out);
        assert!(array.is_ok_and(|array| !array.is_empty()), "{}", told.out);
    }
    check(
        &said(&["check", &dir.file("no.policy")]),
        1,
        &["cannot read"],
    );
}
