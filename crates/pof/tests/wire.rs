//! Tests of the wire format.
#[test]
fn placeholder() {}
