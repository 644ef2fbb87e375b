//! Checks that the examples in docs/reference/entries.md can be read.

use entries::{EntryError, Schema, Update, read};
use ir::Program;

const GUIDE: &str = include_str!("../../../docs/reference/entries.md");

fn program() -> Program {
    let program = ir::read(include_str!("guide.ir")).unwrap_or_else(|e| panic!("guide.ir:{e}"));
    assert_eq!(ir::verify(&program), Ok(()));
    program
}

/// Returns the blocks of the guide with this label.
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
    assert_eq!((updates.len(), inserts), (35, 10));
}

/// Updates that are handed over, each with its line and with an error at its statement; and the
/// result.
type HandedOver = (Vec<(Update, u32, EntryError)>, Result<(), Vec<EntryError>>);

/// Reads a text that is given in parts of this many lines.
fn handed_over(program: &Program, text: &str, lines: usize) -> HandedOver {
    let mut rest = text.split_inclusive('\n').peekable();
    let mut parts = || {
        rest.peek()?;
        Some(rest.by_ref().take(lines).collect())
    };
    let mut each = Vec::new();
    let result = entries::read_parts(program, "guide", &mut parts, &mut |part| {
        part.each(|update, statement| {
            let error = statement.error("guide", "as it is");
            each.push((update, statement.line, error));
        });
    });
    (each, result)
}

#[test]
fn updates_are_handed_over_one_by_one_until_the_first_error() {
    let program = program();
    let mut blocks = blocks("entries");
    blocks.push("\u{feff}# commands of BMv2\n\ntable_add");
    for block in blocks {
        let block = format!("{block}\n").repeat(150);
        let block = block.as_str();
        let text = format!("{block}\nno_such_table {{ }} -> x()\n{block}");
        let whole = handed_over(&program, block, usize::MAX);
        for lines in [1, 7, usize::MAX] {
            let (each, result) = handed_over(&program, block, lines);
            match read(&program, "guide", block) {
                Ok(all) => {
                    assert_eq!(result, Ok(()));
                    let all = all.statements().map(|(update, statement)| {
                        let error = statement.error("guide", "as it is");
                        (update.clone(), statement.line, error)
                    });
                    assert_eq!(each, all.collect::<Vec<_>>());
                }
                Err(errors) => {
                    assert_eq!(result, Err(errors));
                    assert_eq!(each, []);
                }
            }
            let (handed, result) = handed_over(&program, &text, lines);
            assert_eq!(result, read(&program, "guide", &text).map(drop));
            assert!(result.is_err());
            assert!(handed.len() <= whole.0.len(), "{text}");
        }
    }
}

#[test]
fn the_error_of_the_guide_is_what_is_told() {
    let shown = blocks("text")[0];
    let wrong = "# routes\nipv4_lmp { hdr.ipv4.dst_addr: 10.0.0.0/8; } -> drop()\n";
    let errors = read(&program(), "router.entries", wrong).expect_err("there is no such table");
    assert_eq!(format!("{}\n", errors[0]), shown);
}

#[test]
fn statements_of_updates_are_read_as_the_same_updates() {
    let program = program();
    let schema = Schema::of(&program);
    for block in blocks("entries") {
        let read = |text: &str| match schema.read("guide", text) {
            Ok(file) => file.updates().to_vec(),
            Err(errors) => panic!("{}\nin\n{text}", errors[0]),
        };
        for update in read(block) {
            let statement = schema.statement(&update);
            assert_eq!(read(&statement), [update], "{statement}");
        }
    }
}

#[test]
fn a_statement_s_beginning_names_what_it_makes() {
    let program = program();
    let schema = Schema::of(&program);
    let named = |text: &str| match schema.read_target("guide", text) {
        Ok(target) => schema.target(&target),
        Err(error) => error.to_string(),
    };
    for (text, expect) in [
        (
            "ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 }",
            "ingress.ipv4_lpm { hdr.ipv4.dst_addr: 10.0.0.0/8 }",
        ),
        (
            "acl { meta.dst_port: 80..443; hdr.ipv4.src_addr: 10.0.0.0/8 } -> drop() priority 7",
            "ingress.acl { hdr.ipv4.src_addr: 10.0.0.0/8; meta.dst_port: 80..443 } priority 7",
        ),
        ("ipv4_lpm default", "ingress.ipv4_lpm default"),
        ("next_hops member 3", "ingress.next_hops member 3"),
        ("next_hops group 4 { 1 }", "ingress.next_hops group 4"),
        ("multicast 5", "multicast 5"),
        ("clone 6 { port 1 }", "clone 6"),
    ] {
        assert_eq!(named(text), expect, "{text}");
    }
    assert!(named("acl { meta.dst_port: 80 }").contains("needs a priority"));
    assert!(named("register seen[3]").contains("is not taken away"));
}
