//! docs/ENTRIES.md is true: its examples are read as they stand.

use entries::{Update, read};

const GUIDE: &str = include_str!("../../../docs/ENTRIES.md");

fn program() -> ir::Program {
    let program = ir::read(include_str!("guide.ir")).unwrap_or_else(|e| panic!("guide.ir:{e}"));
    assert_eq!(ir::verify(&program), Ok(()));
    program
}

/// The blocks of the guide with this label.
fn blocks(label: &str) -> Vec<&'static str> {
    let open = format!("```{label}\n");
    let blocks: Vec<&str> = GUIDE.split(open.as_str()).skip(1).collect();
    blocks
        .into_iter()
        .map(|rest| rest.split("```").next().unwrap_or(rest))
        .collect()
}

#[test]
fn examples_of_the_guide_are_read() {
    let program = program();
    let mut updates = Vec::new();
    for block in blocks("entries") {
        match read(&program, "guide", block) {
            Ok(all) => updates.extend_from_slice(all.updates()),
            Err(errors) => panic!("{}\nin\n{block}", errors[0]),
        }
    }
    let inserts = updates
        .iter()
        .filter(|u| matches!(u, Update::Insert(..)))
        .count();
    assert_eq!((updates.len(), inserts), (26, 10));
}

#[test]
fn the_error_of_the_guide_is_what_is_told() {
    let shown = blocks("text")[0];
    let wrong = "# routes\nipv4_lmp { hdr.ipv4.dst_addr: 10.0.0.0/8; } -> drop()\n";
    let errors = read(&program(), "router.entries", wrong).expect_err("there is no such table");
    assert_eq!(format!("{}\n", errors[0]), shown);
}
