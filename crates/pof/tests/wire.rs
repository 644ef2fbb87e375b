//! Tests of the wire format: sizes, round trips of random messages, refusals, and bytes that are no
//! messages.

mod strategies;

use pof::model::*;
use pof::wire::*;
use proptest::collection::vec;
use proptest::prelude::*;
use strategies::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_decoded_message_is_the_encoded_one(message in message()) {
        let bytes = encode(&message);
        prop_assert_eq!(message_length(&bytes), Some(bytes.len()));
        prop_assert_eq!(decode(&bytes), Ok(message));
    }

    #[test]
    fn changed_and_cut_messages_are_read_or_refused(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&message);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(message) = decode(&bytes) {
            // What was read is a message again, perhaps with other unused bytes.
            prop_assert_eq!(decode(&encode(&message)), Ok(message));
        }
        let end = cut.index(bytes.len());
        prop_assert!(decode(&bytes[..end]).is_err());
    }

    #[test]
    fn random_bytes_are_read_or_refused(kind in any::<u8>(), bytes in vec(any::<u8>(), 0..2_300)) {
        let length = (bytes.len() + HEADER_BYTES) as u16;
        let mut message = vec![VERSION, kind];
        message.extend(length.to_be_bytes());
        message.extend([0; 4]);
        message.extend(bytes);
        let _ = decode(&message);
    }
}

/// Returns a header with this type and a body of zeros.
fn zeros(kind: u8, body: usize) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    bytes.extend(((HEADER_BYTES + body) as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 9]);
    bytes.resize(HEADER_BYTES + body, 0);
    bytes
}

fn error_of(bytes: &[u8]) -> Option<ErrorCode> {
    decode(bytes).err().map(|refused| refused.error)
}

#[test]
fn messages_have_the_sizes_of_dialect_1_4() {
    let flow = FlowMod {
        command: FlowCommand::Add,
        counter: 0,
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        table_type: TableType::Masked,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 0,
        index: 0,
        slot: 0,
        matches: Vec::new(),
        instructions: Vec::new(),
    };
    let length = |body| encode(&Message { xid: 0, body }).len() - HEADER_BYTES;
    assert_eq!(length(Body::FlowMod(flow)), 2_184);
    assert_eq!(
        decode(&zeros(18, 144)).map(|table| length(table.body)),
        Ok(144)
    );
    assert_eq!(
        decode(&zeros(16, 208)).map(|group| length(group.body)),
        Ok(208)
    );
    assert_eq!(
        decode(&zeros(33, 24)).map(|counter| length(counter.body)),
        Ok(24)
    );
}

#[test]
fn a_flow_mod_may_end_after_its_last_instruction() {
    for places in 0..=6 {
        assert!(decode(&zeros(15, 360 + 304 * places)).is_ok(), "{places}");
    }
    for length in [0, 359, 361, 360 + 304 * 7] {
        assert_eq!(
            error_of(&zeros(15, length)),
            Some(ErrorCode::BadLength),
            "{length}"
        );
    }
}

#[test]
fn types_that_the_dialect_does_not_have_are_bad_types() {
    for kind in [23, 24, 27, 28, 29, 36, 101, 102, 200] {
        let refused = decode(&zeros(kind, 8)).unwrap_err();
        assert_eq!(
            (refused.xid, refused.error),
            (9, ErrorCode::BadType),
            "{kind}"
        );
    }
}

#[test]
fn refusals_have_the_code_of_their_cause() {
    let with = |kind: u8, body: usize, changes: &[(usize, u8)]| {
        let mut bytes = zeros(kind, body);
        changes
            .iter()
            .for_each(|(at, byte)| bytes[HEADER_BYTES + at] = *byte);
        error_of(&bytes)
    };
    let flow = |changes: &[(usize, u8)]| with(15, 2_184, changes);
    let rows = [
        (flow(&[(0, 7)]), ErrorCode::FlowBadCommand),
        (flow(&[(1, 9)]), ErrorCode::BadMatchLength),
        (flow(&[(2, 7)]), ErrorCode::BadInstructionLength),
        (flow(&[(25, 4)]), ErrorCode::FlowBadTableType),
        (flow(&[(2, 1), (361, 99)]), ErrorCode::UnknownInstruction),
        // APPLY_ACTIONS with seven actions, and with an action of type 11.
        (
            flow(&[(2, 1), (361, 4), (368, 7)]),
            ErrorCode::TooManyInstructionActions,
        ),
        (
            flow(&[(2, 1), (361, 4), (368, 1), (377, 11)]),
            ErrorCode::BadActionType,
        ),
        // CALCULATE_FIELD with operation 8.
        (
            flow(&[(2, 1), (361, 10), (369, 8)]),
            ErrorCode::UnknownInstruction,
        ),
        (with(18, 144, &[(0, 5)]), ErrorCode::TableBadCommand),
        (with(18, 144, &[(2, 4)]), ErrorCode::BadTableType),
        (with(18, 144, &[(3, 9)]), ErrorCode::BadKeyLength),
        (with(16, 208, &[(0, 5)]), ErrorCode::GroupBadCommand),
        (with(16, 208, &[(1, 4)]), ErrorCode::BadGroupType),
        (with(16, 208, &[(2, 5)]), ErrorCode::BadBucket),
        (with(30, 16, &[(0, 5)]), ErrorCode::MeterBadCommand),
        (with(31, 24, &[(0, 5)]), ErrorCode::CounterBadCommand),
        (with(25, 16, &[(3, 4)]), ErrorCode::BadRole),
        (with(19, 8, &[(1, 77)]), ErrorCode::BadMultipart),
        (with(14, 304, &[(8, 7)]), ErrorCode::TooManyActions),
        (with(14, 304, &[(15, 1)]), ErrorCode::BadPacket),
        (with(18, 143, &[]), ErrorCode::BadLength),
        (with(18, 145, &[]), ErrorCode::BadLength),
    ];
    for (at, (found, expected)) in rows.into_iter().enumerate() {
        assert_eq!(found, Some(expected), "row {at}");
    }
    let mut other_version = zeros(2, 0);
    other_version[0] = 5;
    assert_eq!(error_of(&other_version), Some(ErrorCode::BadVersion));
    other_version[1] = 0;
    assert_eq!(error_of(&other_version), Some(ErrorCode::HelloIncompatible));
}

#[test]
fn each_error_has_a_type_and_a_code_of_its_own() {
    let mut seen = std::collections::HashMap::new();
    for error in ErrorCode::ALL {
        let other = seen.insert((error.kind(), error.code()), *error);
        assert_eq!(other, None, "{error}");
    }
}
