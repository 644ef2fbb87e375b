//! Tests of chains: policies, errors, and renaming.

use ir::{Program, StepNext};
use passes::compose::{ComposeError, Composed, Form, Item, Policy, StepProgram, compose};

/// A program that extracts and emits one header, and sets its first field by a table. `HEADER`
/// stands for the header type's fields, `TYPE` for its name.
const SWITCH: &str = r#"
program switch v1model
file "switch.p4"
errors {NoError, NoMatch}
type struct told_t {TOLD}
header_type TYPE {
    HEADER
}
header hdr.h: TYPE
field meta.key: bit<8>
field meta.flag: bool
field standard_metadata.ingress_port: bit<9>
field standard_metadata.egress_spec: bit<SPEC>
field standard_metadata.mcast_grp: bit<16>
extern seen: direct_counter packets
extern told: digest (bit<8>) as told_t
action NoAction() @id("7") {
}
action Ingress.to as Ingress.to(port: bit<SPEC>) @5:3 {
    standard_metadata.egress_spec = %port;
    call digest.send on told ({meta.key});
}
table Ingress.ways @id("9") {
    key a: exact as bit<8> = meta.key;
    action Ingress.to table_and_default;
    action NoAction table_and_default;
    default NoAction();
    size 64;
    direct_counter seen;
}
parser P start start {
    state start {
        extract hdr.h;
        meta.key = hdr.h.a;
        goto accept;
    }
}
control Ingress {
    stage ways: match Ingress.ways next end;
}
control Egress {
}
control D {
    stage send: action next end {
        emit hdr.h;
    }
}
block parser = parser P
block ingress = control Ingress
block egress = control Egress
block deparser = control D
intrinsic standard_metadata.ingress_port = standard_metadata.ingress_port
intrinsic standard_metadata.egress_spec = standard_metadata.egress_spec
intrinsic standard_metadata.mcast_grp = standard_metadata.mcast_grp
field_list 1 (meta.key)
"#;

const ETHERNET: &str = "a: bit<8>; b: bit<104>;";

fn program(text: &str) -> Program {
    let program = ir::read(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    assert_eq!(ir::verify(&program), Ok(()));
    program
}

fn filled(ty: &str, header: &str) -> String {
    let text = SWITCH.replace("TYPE", ty).replace("HEADER", header);
    text.replace("SPEC", "9").replace("TOLD", "key: bit<8>")
}

fn switch() -> Program {
    program(&filled("ethernet_t", ETHERNET))
}

fn composed_of(
    policy: &str,
    programs: &[(&str, &Program)],
    form: Form,
) -> Result<Composed, ComposeError> {
    let policy = Policy::read(policy).unwrap_or_else(|error| panic!("{error}"));
    let steps = programs.iter();
    let steps: Vec<_> = steps
        .map(|&(step, program)| StepProgram { step, program })
        .collect();
    compose("chain", &policy, &steps, form)
}

fn composed(policy: &str) -> Program {
    let switch = switch();
    let names = ["a", "b", "c", "d"].map(|name| (name, &switch));
    let composed = composed_of(policy, &names, Form::Steps);
    composed.unwrap_or_else(|error| panic!("{error}")).program
}

#[track_caller]
fn refused(policy: &str, programs: &[(&str, &Program)], expected: &str) {
    match composed_of(policy, programs, Form::Merged) {
        Ok(_) => panic!("{policy} is accepted"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

#[test]
fn what_is_no_policy_is_refused_with_its_place() {
    let cases = [
        (
            "",
            "1:1: the policy is empty: name at least one step, as in `l3_sw.p4 -> fw.p4`",
        ),
        (
            " // nothing\n",
            "2:1: the policy is empty: name at least one step, as in `l3_sw.p4 -> fw.p4`",
        ),
        (
            "a ->",
            "1:5: the policy ends where the name of a step or `[` is expected",
        ),
        (
            "a ->\n  | b",
            "2:3: `|` stands where the name of a step or `[` is expected",
        ),
        (
            "a b",
            "1:3: `b` stands where `->` or the end of the policy is expected",
        ),
        (
            "a = -> b",
            "1:5: `->` stands where the step's program is expected",
        ),
        (
            "ip-sg",
            "1:1: `ip-sg` is no name for a step: letters, digits and `_`, as in `fw = ip-sg`",
        ),
        (
            "[x == 1 a]",
            "1:9: `a]` stands where `:` behind the condition of an arm is expected",
        ),
        (
            "[x == 1: a",
            "1:11: the policy ends where `->`, `|` or `]` is expected",
        ),
        (
            "[else: a | x == 1: b]",
            "1:10: `|` stands where `]`: `else` is the last arm is expected",
        ),
        (
            "[x ==: a]",
            "1:6: `:` stands where a field, a number or `else` is expected",
        ),
        ("[(x == 1: a]", "1:9: `:` stands where `)` is expected"),
        (
            "[x.setValid(): a]",
            "1:13: the only method here is `isValid()` of a header",
        ),
        (
            "[x[0:7] == 1: a]",
            "1:4: the higher bit comes first: `[7:0]`",
        ),
        (
            "[0 == x[4294967295:0]: a]",
            "1:9: fields have at most 2048 bits, so the highest is 2047",
        ),
        (
            "[x[7] == 1: a]",
            "1:5: `]` stands where bits as in `[7:0]` is expected",
        ),
    ];
    for (text, expected) in cases {
        match Policy::read(text) {
            Ok(policy) => panic!("{text} is {policy:?}"),
            Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
        }
    }
    let deep = "[x == 1: ".repeat(40);
    let error = Policy::read(&deep).expect_err("it is too deep");
    assert!(error.message.contains("levels of nesting"), "{error}");
    let long = format!("[x{} == 1: a]", " & x".repeat(64));
    let error = Policy::read(&long).expect_err("it is too long");
    assert!(error.message.contains("at most 64 parts"), "{error}");
}

#[test]
fn a_policy_has_limits_by_name_and_is_read_in_linear_time() {
    let refused = |text: &str| {
        let error = Policy::read(text).expect_err("it is too large").to_string();
        assert!(error.len() < 300, "{} bytes are said", error.len());
        error
    };
    let steps = |count: usize| vec!["a"; count].join(" -> ");
    assert!(Policy::read(&steps(256)).is_ok());
    let error = refused(&steps(257));
    assert_eq!(error, "1:1281: a policy has at most 256 steps");
    assert_eq!(refused(&steps(20_000)), error);
    let arms = |count: usize| format!("[{}else:]", "x == 1: | ".repeat(count));
    assert!(Policy::read(&arms(1300)).is_ok());
    let what = "a policy has at most 4096 arms, fields and numbers in choices";
    assert!(refused(&arms(60_000)).ends_with(what));
    assert!(refused(&format!("[{}: a]", "x == 1 || ".repeat(90_000))).ends_with(what));
    assert!(refused(&"a".repeat((1 << 20) + 1)).ends_with("a policy has at most 1048576 bytes"));
    // Messages repeat only the beginning of long words, and long blanks are skipped once.
    refused(&format!("1{}", "x".repeat(1_000_000)));
    refused(&format!("a ] {}", "x".repeat(1_000_000)));
    refused(&format!("a {}]", " ".repeat(1_000_000)));
    refused(&format!("a {}]", "// x\n".repeat(200_000)));
}

#[test]
fn many_choices_one_behind_the_other_are_soon_read() {
    let choices = " -> [ingress_port == 1: | ingress_port == 2:]".repeat(60);
    composed(&format!("a{choices} -> b"));
}

#[test]
fn steps_have_names_and_sources() {
    let text = "# a comment\nl3 = nets/l3_sw.p4 -> \"my dir/fw.v2.p4\" // another\n -> [hdr.a[0].b == 0x1f: qos | else:] -> x=x";
    let policy = Policy::read(text).unwrap_or_else(|error| panic!("{error}"));
    let steps = policy.steps().into_iter();
    let steps: Vec<_> = steps
        .map(|step| format!("{} {} {}", step.at, step.name, step.source))
        .collect();
    let expected = [
        "2:1 l3 nets/l3_sw.p4",
        "2:23 fw my dir/fw.v2.p4",
        "3:26 qos qos",
        "3:42 x x",
    ];
    assert_eq!(steps, expected);
    let is_branch = |item: &&Item| matches!(item, Item::Branch(_));
    assert_eq!(policy.line.iter().filter(is_branch).count(), 1);
}

#[test]
fn a_chain_that_cannot_be_is_refused_with_the_mend() {
    let switch = switch();
    let other = program(&filled("ipv4_t", "a: bit<8>; b: bit<152>;"));
    let mut psa = switch.clone();
    psa.arch = ir::Arch::Psa;
    let all = [
        ("a", &switch),
        ("b", &switch),
        ("ip", &other),
        ("psa", &psa),
    ];
    refused(
        "a -> c",
        &all,
        "1:6: there is no program for the step `c`; there are a, b, ip, psa",
    );
    refused(
        "a -> b -> a",
        &all,
        "1:11: a step `a` stands at 1:1 already, and its tables would have the same names; name this one, as in `a2 = a`",
    );
    refused(
        "a ->\npsa",
        &all,
        "2:1: the step `psa` is written for Psa; a chain of several steps is made of programs for V1model",
    );
    refused(
        "a -> [ingress_port == 1: b] -> ip",
        &all,
        "1:32: the step `ip` expects packets to begin with `ipv4_t` (bits 8 152), but those that `a` sends begin with `ethernet_t` (bits 8 104); \
         put a step between that adds or removes the headers which differ",
    );
}

#[test]
fn headers_that_are_cut_at_other_places_follow_each_other_where_one_cuts_further() {
    let switch = switch();
    let finer = program(&filled("mac_t", "a: bit<8>; b: bit<40>; c: bit<64>;"));
    let other = program(&filled("odd_t", "a: bit<8>; b: bit<50>; c: bit<54>;"));
    let all = [("a", &switch), ("finer", &finer), ("other", &other)];
    assert!(
        composed_of(
            "a -> finer -> b = a",
            &[all[0], all[1], ("b", &switch)],
            Form::Steps
        )
        .is_ok()
    );
    assert!(composed_of("finer -> other", &all, Form::Steps).is_err());
}

#[test]
fn steps_that_cannot_stand_together_are_refused() {
    let text = filled("ethernet_t", ETHERNET);
    let switch = program(&text);
    let spec = "standard_metadata.egress_spec: bit<9>";
    let wide = text.replace(spec, "standard_metadata.egress_spec: bit<16>");
    let wide = program(&wide.replace("(port: bit<9>)", "(port: bit<16>)"));
    refused(
        "a -> wide",
        &[("a", &switch), ("wide", &wide)],
        "1:6: the step `wide`: standard_metadata.egress_spec is bit<16> here and bit<9> in a step before; let all steps include the same v1model.p4",
    );
    let header = |name: &str, fields: &str| {
        let declared = format!(
            "header_type {name} @controller_header(\"packet_in\") {{\n {fields}\n}}\nheader hdr.h"
        );
        program(&text.replacen("header hdr.h", &declared, 1))
    };
    let (one, another) = (
        header("in_t", "port: bit<9>;"),
        header("in_t", "port: bit<16>;"),
    );
    refused(
        "a -> b",
        &[("a", &one), ("b", &another)],
        "1:6: the step `b`: the controller header in_t is declared in another way in a step before; a switch has one for each direction",
    );
    assert!(composed_of("a -> b", &[("a", &one), ("b", &one)], Form::Steps).is_ok());
}

#[test]
fn conditions_that_mean_nothing_are_refused() {
    let switch = switch();
    let all = [("a", &switch), ("b", &switch), ("c", &switch)];
    let refused = |policy: &str, expected: &str| refused(policy, &all, expected);
    refused(
        "a -> [hdr.x == 1: b]",
        "1:7: there is no field `hdr.x` in standard metadata or in the program of the step before, switch",
    );
    refused(
        "[hdr.h.a == 1: a]",
        "1:2: there is no field `hdr.h.a` in standard metadata, which is all that a condition sees where packets do not all come from one step",
    );
    refused(
        "[ingress_port == 1: a | else: b] -> [h.a == 1: c]",
        "1:38: there is no field `h.a` in standard metadata, which is all that a condition sees where packets do not all come from one step",
    );
    refused(
        "a -> [1 == 2: b]",
        "1:7: two numbers are compared; a condition asks for a field of the packet",
    );
    refused("a -> [hdr.h.a == 256: b]", "1:18: 256 is no bit<8>");
    refused("a -> [hdr.h.a == 0xzz: b]", "1:18: 0xzz is no bit<8>");
    refused("a -> [meta.flag == 1: b]", "1:20: 1 is no bool");
    refused(
        "a -> [hdr.h.a == hdr.h.b: b]",
        "1:18: bit<104> is compared with bit<8>; choose bits of the wider one, as in `hdr.ipv4.dst[31:24]`",
    );
    refused(
        "a -> [hdr.h.a[8:1] == 1: b]",
        "1:7: `hdr.h.a` is bit<8> and has no bits [8:1]",
    );
    refused(
        "a -> [x.isValid(): b]",
        "1:7: there is no header `x` in standard metadata or in the program of the step before, switch",
    );
    refused(
        "a -> [hdr.h.a: b]",
        "1:7: bit<8> is compared with bool; choose bits of the wider one, as in `hdr.ipv4.dst[31:24]`",
    );
}

#[test]
fn names_begin_with_the_step_and_types_are_shared() {
    let chain = composed("a -> b");
    let names: Vec<&str> = chain.tables.values().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a.Ingress.ways", "b.Ingress.ways"]);
    let actions = chain
        .actions
        .values()
        .map(|a| a.control_plane_name.as_str());
    assert_eq!(
        actions.collect::<Vec<_>>(),
        ["a.NoAction", "a.Ingress.to", "b.NoAction", "b.Ingress.to"]
    );
    let externs = chain.externs.values().map(|e| e.name.as_str());
    assert_eq!(
        externs.collect::<Vec<_>>(),
        ["a.seen", "a.told", "b.seen", "b.told"]
    );
    assert_eq!((chain.header_types.len(), chain.named_types.len()), (1, 1));
    assert_eq!(chain.files, ["switch.p4"]);
    let fields = chain.fields.values();
    let standard = fields.filter(|field| field.name.starts_with("standard_metadata"));
    assert_eq!(standard.count(), 3, "standard metadata is one for all");
    assert!(
        chain
            .tables
            .values()
            .all(|table| table.annotations.is_empty())
    );
    let lists = &chain.pipeline.field_lists;
    assert_eq!(lists.len(), 2, "each step has its list");
}

#[test]
fn a_type_of_the_same_name_and_another_meaning_gets_the_name_of_its_step() {
    let one = switch();
    let other = filled("ethernet_t", "a: bit<8>; b: bit<40>; c: bit<64>;");
    let other = program(&other.replace("key: bit<8>}", "other: bit<8>}"));
    let chain = composed_of("a -> b", &[("a", &one), ("b", &other)], Form::Steps);
    let chain = chain.unwrap_or_else(|error| panic!("{error}")).program;
    let types = chain.header_types.values().map(|ty| ty.name.as_str());
    assert_eq!(types.collect::<Vec<_>>(), ["ethernet_t", "b.ethernet_t"]);
    let named = chain.named_types.iter().map(|ty| ty.name.as_str());
    assert_eq!(named.collect::<Vec<_>>(), ["told_t", "b.told_t"]);
    let told = chain.externs.values().filter_map(|e| match &e.kind {
        ir::ExternKind::Digest { data_ty, .. } => Some(format!("{data_ty:?}")),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        ["Named(\"told_t\")", "Named(\"b.told_t\")"]
    );
}

#[test]
fn a_chain_is_a_program_that_reads_back() {
    let policies = [
        "a",
        "a -> b -> c",
        "a -> [hdr.h.a == 1 && !(ingress_port >= 3): b -> c | else: d]",
        "[ingress_port[3:0] & 1 == 1 || egress_spec != 0: a]",
        "a -> [meta.flag: b] -> [mcast_grp < 5: c]",
    ]
    .map(str::to_owned);
    for policy in policies {
        let chain = composed(&policy);
        let text = chain.to_string();
        let again = ir::read(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        assert_eq!(again, chain, "{policy}");
    }
}

#[test]
fn a_chain_of_one_step_is_no_chain() {
    let chain = composed("a");
    assert!(chain.pipeline.steps.is_empty());
    assert_eq!(chain.pipeline.blocks.len(), 4);
}

#[test]
fn branches_lead_where_the_policy_says() {
    let next = |policy: &str| {
        let chain = composed(policy);
        let steps = chain.pipeline.steps.iter();
        let steps = steps.map(|(_, step)| {
            let next = match &step.next {
                StepNext::End => "end".to_owned(),
                StepNext::Step(step) => step.get().to_string(),
                StepNext::Branch { arms, otherwise } => {
                    let arms: Vec<u32> = arms.iter().map(|(_, step)| step.get()).collect();
                    format!("{arms:?} else {}", otherwise.get())
                }
            };
            format!("{}: {next}", step.name)
        });
        steps.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(next("a -> b"), "a: 1; b: end");
    assert_eq!(
        next("a -> [ingress_port == 1: b | else: c] -> d"),
        "a: [1] else 2; b: 3; c: 3; d: end"
    );
    assert_eq!(
        next("a -> [ingress_port == 1: b]"),
        "a: [1] else 2; b: end; chain.end: end"
    );
    assert_eq!(
        next("[ingress_port == 1: a | ingress_port == 2: | else: b] -> c"),
        "chain.choice0: [1, 3] else 2; a: 3; b: 3; c: end"
    );
    assert_eq!(
        next("a -> [ingress_port == 1: b] -> [ingress_port == 2: c] -> d"),
        "a: [1] else 2; b: 2; chain.choice2: [3] else 4; c: 4; d: end"
    );
}

#[test]
fn a_step_joins_those_before_it_only_if_its_packets_all_come_from_them() {
    let switch = switch();
    let finer = program(&filled("mac_t", "a: bit<8>; b: bit<40>; c: bit<64>;"));
    let all = [
        ("a", &switch),
        ("b", &switch),
        ("c", &switch),
        ("finer", &finer),
    ];
    let apart = |policy: &str| {
        let chain = composed_of(policy, &all, Form::Merged);
        let chain = chain.unwrap_or_else(|error| panic!("{error}"));
        let joints = chain.joints.iter();
        let joints = joints.filter(|joint| joint.apart.is_some());
        let names: Vec<&str> = joints.map(|joint| joint.step.as_str()).collect();
        (names.join(" "), chain.program.pipeline.steps.len())
    };
    assert_eq!(apart("a -> b -> c"), (String::new(), 0));
    assert_eq!(apart("a -> finer -> c"), ("finer c".to_owned(), 3));
    assert_eq!(
        apart("a -> [ingress_port == 1: finer | else: b] -> c"),
        ("finer b c".to_owned(), 4)
    );
    assert_eq!(
        apart("a -> b -> [ingress_port == 1: finer] -> c"),
        ("finer c".to_owned(), 3)
    );
}
