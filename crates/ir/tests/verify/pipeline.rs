//! Tests of stages, blocks and steps.

use ir::*;

use crate::rig::*;

#[test]
fn stages_link_by_every_action() {
    let forward = "control ingress, stage ingress.forward";
    refused(
        "(ingress.code, end, ingress.if)",
        "(ingress.code, end)",
        forward,
        "2 transitions for 3 actions",
    );
    refused(
        "hit meta.ok action_run",
        "hit meta.a action_run",
        forward,
        "Bool is expected",
    );
    refused(
        "action_run meta.i",
        "action_run meta.a",
        forward,
        "Bit(32) is expected",
    );
}

#[test]
fn blocks_and_transfers_fit() {
    refused(
        "block parser = parser MyParser",
        "block parser = control ingress",
        "pipeline",
        "wrong kind",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = parser MyParser",
        "pipeline",
        "wrong kind",
    );
    refused(
        "block ingress =",
        "block deparser =",
        "pipeline",
        "two blocks",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = control MyDeparser",
        "pipeline",
        "only deparsers",
    );
    refused(
        "block ingress = control ingress",
        "block ingress = control #9",
        "pipeline",
        "no control 9",
    );
    refused(
        "egress_spec = meta.port",
        "egress_spec = hdr.more.data",
        "pipeline",
        "varbit is not allowed",
    );
    refused(
        "-> (meta.b, meta.ok)",
        "-> (meta.b)",
        "pipeline",
        "differ in length",
    );
    refused(
        "-> (meta.b, meta.ok)",
        "-> (meta.b, meta.b)",
        "pipeline",
        "Bit(8) is expected",
    );
    refused(
        "field_list 1 (meta.a, meta.b)",
        "field_list 1 (meta.a, #999)",
        "pipeline",
        "no field 999",
    );
}

#[test]
fn ports_that_a_chain_copies_have_one_type() {
    let step = Step {
        name: "a".to_owned(),
        next: StepNext::End,
    };
    for name in ["standard_metadata.egress_port", "chain.egress_spec"] {
        let text = format!("{SAMPLE}\nintrinsic {name} = meta.wide\n");
        let mut program = read(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(verify(&program), Ok(()));
        program.pipeline.steps.push(step.clone());
        let message = format!("intrinsic {name}: Bit(9) is expected, not Bit(300)");
        check_refused(&program, "pipeline", &message);
    }
}

#[test]
fn steps_of_a_chain_lead_forward() {
    let step = |name: &str, next| Step {
        name: name.to_owned(),
        next,
    };
    let chain =
        |steps: Vec<Step>| move |p: &mut Program| p.pipeline.steps = steps.into_iter().collect();
    let to = |step| StepNext::Step(StepId::new(step));
    let pipeline = "pipeline";
    let back = vec![step("a", to(1)), step("b", to(1))];
    changed(chain(back), pipeline, "step b leads back");
    let nowhere = vec![step("a", to(7))];
    changed(chain(nowhere), pipeline, "there is no step 7");
    let twice = vec![step("a", to(1)), step("a", StepNext::End)];
    changed(chain(twice), pipeline, "two steps are called 'a'");
    let branch = StepNext::Branch {
        arms: vec![(FieldId::new(1), StepId::new(1))],
        otherwise: StepId::new(1),
    };
    let by_no_bool = vec![step("a", branch), step("b", StepNext::End)];
    changed(chain(by_no_bool), pipeline, "Bool is expected");
    let psa = |p: &mut Program| {
        p.arch = Arch::Psa;
        p.pipeline.steps.push(step("a", StepNext::End));
    };
    changed(psa, pipeline, "only programs for v1model");
    let stray = |p: &mut Program| p.pipeline.blocks[1].step = StepId::new(3);
    changed(stray, pipeline, "there is no step 3");
}
