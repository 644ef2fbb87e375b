//! Tests of edits: stages are deleted, replaced, moved and inserted.

use ir::{MatchNext, Next, Program, StageKind};
use passes::edit::{Donor, Edit, Side, edit};

/// A control with a condition, a table on one branch, and code on both.
const PROGRAM: &str = r#"
program NAME v1model
errors {NoError}
header_type h_t {
    a: bit<8>;
    b: bit<WIDTH>;
}
header hdr.h: h_t
field meta.key: bit<8>
field meta.own: bit<8>
field meta.$tmp$: bit<8>
extern seen: direct_counter packets
extern unused: counter packets size 4
action NoAction() {
}
action C.set as C.set(to: bit<8>) {
    meta.$tmp$ = %to;
    meta.key = meta.$tmp$;
}
action C.other as C.other() {
    meta.key = 8w0x7;
}
table C.first {
    key a: exact as bit<8> = hdr.h.a;
    action C.set table_and_default;
    action NoAction table_and_default;
    default NoAction();
    size 64;
    direct_counter seen;
}
table C.second {
    key own: exact as bit<8> = meta.own;
    action C.other table_and_default;
    default C.other();
    size 64;
}
parser P start start {
    state start {
        extract hdr.h;
        goto accept;
    }
}
control C {
    stage C.if: condition hdr.h.a == 8w0x1 then C.first else C.mark;
    stage C.first: match C.first next hit C.mark miss C.last;
    stage C.mark: action next C.last {
        meta.own = 8w0x1;
    }
    stage C.last: match C.second next end;
}
block parser = parser P
block ingress = control C
"#;

fn program(name: &str, width: &str) -> Program {
    let text = PROGRAM.replace("NAME", name).replace("WIDTH", width);
    let program = ir::read(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ir::verify(&program), Ok(()));
    program
}

/// Returns a control's stages and their links as text.
fn line(program: &Program) -> String {
    let control = &program.controls.as_slice()[0];
    let to = |next: Next| match next {
        Next::End => "end".to_owned(),
        Next::Stage(id) => control.stages[id].name.clone(),
    };
    let stages = control.stages.values().map(|stage| {
        let ways = match &stage.kind {
            StageKind::Condition {
                then, otherwise, ..
            } => format!("{}/{}", to(*then), to(*otherwise)),
            StageKind::Action { next, .. } => to(*next),
            StageKind::Match { next, .. } => match next {
                MatchNext::Always(next) => to(*next),
                MatchNext::ByHit { hit, miss } => format!("{}/{}", to(*hit), to(*miss)),
                MatchNext::ByAction(all) => format!("{} ways", all.len()),
            },
        };
        format!("{}: {ways}", stage.name)
    });
    stages.collect::<Vec<_>>().join("; ")
}

const LINE: &str = "C.if: C.first/C.mark; C.first: C.mark/C.last; C.mark: C.last; C.last: end";

fn edited(program: &Program, change: &Edit<'_>) -> Program {
    edit(program, change).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(change: &Edit<'_>, expected: &str) {
    match edit(&program("one", "16"), change) {
        Ok(_) => panic!("{change:?} is accepted"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

fn donor<'p>(program: &'p Program, stage: &'p str) -> Donor<'p> {
    Donor {
        program,
        stage,
        prefix: "new",
        scope: "",
    }
}

#[test]
fn packets_go_on_behind_a_stage_that_went() {
    let program = program("one", "16");
    assert_eq!(line(&program), LINE);
    let without = |stage| line(&edited(&program, &Edit::Delete { stage }));
    assert_eq!(
        without("C.mark"),
        "C.if: C.first/C.last; C.first: C.last/C.last; C.last: end"
    );
    assert_eq!(
        without("C.last"),
        "C.if: C.first/C.mark; C.first: C.mark/end; C.mark: end"
    );
}

#[test]
fn the_first_stage_leaves_its_place_only_to_the_second() {
    let program = program("one", "16");
    let without_mark = edited(&program, &Edit::Delete { stage: "C.mark" });
    let without_both = edited(&without_mark, &Edit::Delete { stage: "C.first" });
    assert_eq!(line(&without_both), "C.if: C.last/C.last; C.last: end");
    let last = edited(&without_both, &Edit::Delete { stage: "C.if" });
    assert_eq!(line(&last), "C.last: end");
    let nothing = edited(&last, &Edit::Delete { stage: "C.last" });
    assert_eq!(line(&nothing), "C.last: end", "a stage that does nothing");
    assert_eq!(nothing.tables.len(), 2, "tables stay");
}

#[test]
fn a_stage_takes_the_place_of_another_with_what_it_needs() {
    let (program, other) = (program("one", "16"), program("two", "16"));
    let by = donor(&other, "C.first");
    let change = Edit::Replace {
        stage: "C.first",
        by,
    };
    let replaced = edited(&program, &change);
    assert_eq!(line(&replaced), LINE.replace("C.first", "new.C.first"));
    let names: Vec<&str> = replaced.tables.values().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        ["C.first", "C.second", "new.C.first"],
        "no table beside its own comes along"
    );
    let externs: Vec<&str> = replaced.externs.values().map(|e| e.name.as_str()).collect();
    assert_eq!(externs, ["seen", "unused", "new.seen"]);
    let actions: Vec<&str> = replaced.actions.values().map(|a| a.name.as_str()).collect();
    assert_eq!(
        actions,
        ["NoAction", "C.set", "C.other", "new.NoAction", "new.C.set"]
    );
    assert_eq!(
        replaced.headers.len(),
        1,
        "headers are those that are there"
    );
    let again = ir::read(&replaced.to_string());
    assert_eq!(again.as_ref(), Ok(&replaced));
}

#[test]
fn a_stage_comes_before_or_behind_another() {
    let (program, other) = (program("one", "16"), program("two", "16"));
    let with = |stage, side| {
        let new = donor(&other, "C.mark");
        line(&edited(&program, &Edit::Insert { stage, side, new }))
    };
    assert_eq!(
        with("C.mark", Side::Before),
        "C.if: C.first/new.C.mark; C.first: new.C.mark/C.last; new.C.mark: C.mark; C.mark: C.last; C.last: end"
    );
    assert_eq!(
        with("C.mark", Side::After),
        "C.if: C.first/C.mark; C.first: C.mark/C.last; C.mark: new.C.mark; new.C.mark: C.last; C.last: end"
    );
    assert_eq!(
        with("C.if", Side::Before),
        "new.C.mark: C.if; C.if: C.first/C.mark; C.first: C.mark/C.last; C.mark: C.last; C.last: end"
    );
    assert_eq!(
        with("C.last", Side::After),
        format!(
            "{}new.C.mark; new.C.mark: end",
            LINE.strip_suffix("end").unwrap_or(LINE)
        )
    );
}

#[test]
fn a_stage_moves_along_its_line() {
    let program = program("one", "16");
    let moved = |stage, side, of| {
        let moved = edited(&program, &Edit::Move { stage, side, of });
        assert_eq!(moved.tables, program.tables, "tables stay");
        line(&moved)
    };
    assert_eq!(
        moved("C.mark", Side::Before, "C.if"),
        "C.mark: C.if; C.if: C.first/C.last; C.first: C.last/C.last; C.last: end"
    );
    assert_eq!(
        moved("C.mark", Side::After, "C.last"),
        "C.if: C.first/C.last; C.first: C.last/C.last; C.last: C.mark; C.mark: end"
    );
    assert_eq!(
        moved("C.last", Side::Before, "C.if"),
        "C.last: C.if; C.if: C.first/C.mark; C.first: C.mark/end; C.mark: end"
    );
    // A first stage that is only a placeholder can be deleted, too.
    let without_if = edited(&program, &Edit::Delete { stage: "C.mark" });
    let without_if = edited(&without_if, &Edit::Delete { stage: "C.first" });
    let last = Edit::Move {
        stage: "C.if",
        side: Side::After,
        of: "C.last",
    };
    assert_eq!(
        line(&edited(&without_if, &last)),
        "C.last: C.if; C.if: end/end"
    );
}

#[test]
fn changes_that_cannot_be_are_refused_with_the_mend() {
    let other = program("two", "16");
    let wide = program("three", "24");
    refused(
        &Edit::Delete { stage: "C.none" },
        "one has no stage `C.none`; its stages are C.if, C.first, C.mark, C.last",
    );
    refused(
        &Edit::Delete { stage: "C.if" },
        "`C.if` decides where packets go, and without it nothing would; replace it instead, or delete what it decides first",
    );
    refused(
        &Edit::Insert {
            stage: "C.if",
            side: Side::After,
            new: donor(&other, "C.mark"),
        },
        "`C.if` decides where packets go, and without it nothing would; replace it instead, or delete what it decides first",
    );
    refused(
        &Edit::Move {
            stage: "C.if",
            side: Side::After,
            of: "C.last",
        },
        "`C.if` decides where packets go, and without it nothing would; replace it instead, or delete what it decides first",
    );
    refused(
        &Edit::Move {
            stage: "C.mark",
            side: Side::After,
            of: "C.mark",
        },
        "`C.mark` cannot be put beside `C.mark`; choose another stage of the same control",
    );
    refused(
        &Edit::Replace {
            stage: "C.mark",
            by: donor(&other, "C.if"),
        },
        "`C.if` decides where packets go, but here is one way on; choose a stage that leads to one place",
    );
    refused(
        &Edit::Insert {
            stage: "C.mark",
            side: Side::Before,
            new: Donor {
                prefix: "C",
                ..donor(&other, "C.mark")
            },
        },
        "there is a `C.set` already; give another prefix",
    );
    let mut strange = other.clone();
    for (_, field) in strange.fields.iter_mut() {
        field.name = field.name.replace("meta.own", "meta.strange");
    }
    refused(
        &Edit::Insert {
            stage: "C.mark",
            side: Side::Before,
            new: donor(&strange, "C.last"),
        },
        "`C.last` needs the field meta.strange, which the program has not; let both parse and keep the same headers",
    );
    let mut twice = wide.clone();
    let control = twice.controls.as_slice()[0].clone();
    twice.controls.push(control);
    refused(
        &Edit::Insert {
            stage: "C.mark",
            side: Side::Before,
            new: donor(&twice, "C.mark"),
        },
        "several controls have a stage `C.mark`: C, C; compose the program as a step of a chain, so that its stages have its name in front",
    );
    let mut other_type = other.clone();
    for (_, field) in other_type.fields.iter_mut() {
        if field.name == "meta.own" {
            field.ty = ir::ScalarTy::Bit(9);
        }
    }
    refused(
        &Edit::Insert {
            stage: "C.mark",
            side: Side::Before,
            new: donor(&other_type, "C.last"),
        },
        "`C.last` needs the field meta.own, which has another type here; let both declare it in the same way",
    );
}
