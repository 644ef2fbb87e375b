//! Tests of the work budget of packets (`ir::work`): its consumption by code, and that the budget
//! bounds the size of results.

use super::common::{Engines, load};
use exec::{ControlVerdict, DropReason, WorkBudget};

const OUT_OF_WORK: ControlVerdict = ControlVerdict::Drop(DropReason::WorkBudget);

/// Loads a control of one stage. Field `n` counts iterations.
fn control(declarations: &str, code: &str) -> Engines {
    load(&format!(
        "program t psa\nerrors {{NoError}}\nfield n: bit<32>\nfield x: bit<32>\nfield wide: bit<2048>\nfield other: bit<2048>\nheader_type h_t {{\n    a: bit<8000>;\n}}\nheader h: h_t\n{declarations}\ncontrol c {{\n stage c.code: action next end {{\n{code}\n}}\n}}\n"
    ))
}

/// Returns how many iterations a loop over this code makes before the packet is dropped. `payload`
/// is the length of the packet's payload in bytes.
fn rounds(declarations: &str, code: &str, payload: usize) -> u128 {
    let code = format!("loop 0 {{ n = n + 32w0x1; {code} }}");
    let mut loaded = control(declarations, &code);
    let mut packet = loaded.packet(&vec![7; payload]);
    packet.work_left = WorkBudget::MAX.units();
    assert_eq!(loaded.control("c", &mut packet), OUT_OF_WORK);
    assert_eq!(packet.work_left, 0);
    loaded.number(&packet, "n")
}

#[test]
fn a_round_takes_one_unit_and_more_for_what_takes_longer() {
    let most = u128::from(WorkBudget::MAX.units());
    assert_eq!(rounds("", "", 0), most);
    assert_eq!(rounds("", "x = (x * n) + 32w0x7;", 0), most);
    // Numbers of 32 limbs: sums and copies cost one or two units, products one for each pair of
    // limbs, quotients work bit by bit.
    let sums = rounds("", "wide = wide + other;", 0);
    assert!((most / 5..most).contains(&sums), "{sums}");
    let products = rounds("", "wide = wide * other;", 0);
    assert!((most / 50..most / 5).contains(&products), "{products}");
    let quotients = rounds("", "wide = wide / other;", 0);
    assert!(
        (most / 5000..most / 500).contains(&quotients),
        "{quotients}"
    );
    assert!(rounds("", "if (x == 32w0x1) { wide = wide / other; }", 0) == quotients);
}

#[test]
fn hashes_take_work_by_their_bytes() {
    let hash = |algorithm: u32| {
        let code = format!("call hash (={algorithm}, 32w0x0, 32w0x9, {{wide, other}}, out x);");
        rounds("", &code, 0)
    };
    let (crc32, custom) = (hash(0), hash(1));
    assert!((2500..5000).contains(&crc32), "{crc32}");
    assert!((200..600).contains(&custom), "{custom}");
}

#[test]
fn checksums_of_payloads_take_work_by_their_bytes() {
    let code = "call update_checksum_with_payload (=6, true, {x}, out x);";
    assert_eq!(rounds("", code, 0), WorkBudget::MAX.units().into());
    let long = rounds("", code, 32_000);
    assert!((60..70).contains(&long), "{long}");
    let verify = "call verify_checksum_with_payload (=6, true, {x}, x);";
    assert_eq!(rounds("", verify, 32_000), long);
}

#[test]
fn a_running_checksum_ends_with_the_budget() {
    let unit = "extern crc: checksum width 32 crc32";
    let grows = "call checksum.update on crc ({wide, other});";
    let mut loaded = control(unit, &format!("loop 0 {{ {grows} }}"));
    let mut packet = loaded.packet(&[]);
    assert_eq!(loaded.control("c", &mut packet), OUT_OF_WORK);
    assert!(packet.is_oversized());
    let data = packet.checksums.iter().flatten().map(|unit| unit.len());
    assert!(data.sum::<usize>() < 8 << 20);
    // The cost of a hash is proportional to the bytes added so far, so few iterations are possible.
    let hashed = rounds(
        unit,
        &format!("{grows} call checksum.get on crc (out x);"),
        0,
    );
    assert!((20..200).contains(&hashed), "{hashed}");
}

#[test]
fn a_deparser_that_emits_without_end_stops_at_a_frame_s_length() {
    for code in ["emit h;", "emit_field wide;"] {
        let mut loaded = control("", &format!("h.$valid$ = true; loop 0 {{ {code} }}"));
        let mut packet = loaded.packet(&[]);
        let dropped = loaded.control("c", &mut packet);
        assert_eq!(dropped, ControlVerdict::Drop(DropReason::FrameTooLong));
        assert!(packet.emitted.bytes().len() <= packet::MAX_FRAME + 1000);
        assert!(!packet.is_oversized());
    }
}

#[test]
fn code_that_runs_once_takes_what_it_has_beyond_a_unit() {
    let spent = |code: &str| {
        let mut loaded = control("action long() {\n wide = wide / other;\n}", code);
        let mut packet = loaded.packet(&[]);
        assert_eq!(loaded.control("c", &mut packet), ControlVerdict::Done);
        WorkBudget::MAX.units() - packet.work_left
    };
    assert_eq!(spent("x = n + 32w0x1;"), 0);
    let quotient = spent("wide = wide / other;");
    assert!((1000..4000).contains(&quotient), "{quotient}");
    assert!(spent("run long();").abs_diff(quotient) < 10);
    assert!(spent("run long(); run long();").abs_diff(2 * quotient) < 20);
}

#[test]
fn digests_and_messages_of_one_packet_are_bounded() {
    let digest = "extern d: digest (bit<2048>) as bit<2048>";
    let mut loaded = control(digest, "loop 0 { call digest.send on d ({wide}); }");
    let mut packet = loaded.packet(&[]);
    assert_eq!(loaded.control("c", &mut packet), OUT_OF_WORK);
    assert_eq!(packet.digests.iter().count(), 1024);
    assert!(packet.digests.lost() > 1000);
    let text = r#"loop 0 { call log_msg ("a rather long message", {wide}); }"#;
    let mut loaded = control("", text);
    let mut packet = loaded.packet(&[]);
    assert_eq!(loaded.control("c", &mut packet), OUT_OF_WORK);
    let mut bytes = 0;
    packet.log.drain(|line| bytes += line.len());
    assert!(bytes < 20_000, "{bytes}");
}
