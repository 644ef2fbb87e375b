//! Managed tables with processes: controllers of a switch read what loops wrote, and their writes
//! go through the store of a plane.

mod lab;

use lab::authority::Authority;
use lab::plane::{Plane, Sender, detours, free_ports, loops, switch, wait_for};
use lab::{Directory, Running, example, polyplane, said};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::field_match::{Exact, FieldMatchType};
use p4info::p4::v1::table_action::Type as ActionType;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::Code;
use p4rt::client::{Client, ClientError, Endpoint};
use reflex_runtime::KeyOperation;

/// A controller of the role `other`, and the entry that a loop made.
struct Controller {
    client: Client,
    example: rt::TableEntry,
}

impl Controller {
    /// Connects, and waits for an entry of a loop.
    fn new(address: &str) -> Controller {
        let endpoint = Endpoint {
            address: address.to_owned(),
            tls: None,
        };
        let client = wait_for("a switch", || Client::connect(&endpoint, 1, "other").ok());
        let mut controller = Controller {
            client,
            example: rt::TableEntry::default(),
        };
        let primary = controller.client.arbitrate(Some(1)).unwrap();
        assert!(primary.is_primary);
        controller.example = wait_for("an entry of a loop", || controller.entries().pop());
        controller
    }

    /// Returns the entries of the detour table.
    fn entries(&mut self) -> Vec<rt::TableEntry> {
        let mut found = Vec::new();
        let all = Entity::TableEntry(rt::TableEntry::default());
        let read = self.client.read(vec![all], |entity| {
            if let Entity::TableEntry(entry) = entity
                && entry.r#match.len() == 5
            {
                found.push(entry);
            }
        });
        read.unwrap();
        found
    }

    /// Returns an entry like that of the loop, for another source port.
    fn entry(&self, port: u16, metadata: &str) -> rt::TableEntry {
        let mut entry = rt::TableEntry {
            metadata: metadata.as_bytes().to_vec(),
            ..self.example.clone()
        };
        // In canonical form, as it is read.
        let value = port.to_be_bytes();
        let value = value
            .iter()
            .copied()
            .skip_while(|byte| *byte == 0)
            .collect();
        let exact = FieldMatchType::Exact(Exact { value });
        entry.r#match[3].field_match_type = Some(exact);
        entry
    }

    /// Makes an update. Returns the code and the words of the refusal.
    fn write(&mut self, kind: Type, entry: rt::TableEntry) -> Result<(), (Code, String)> {
        let update = rt::Update {
            r#type: kind.into(),
            entity: Some(rt::Entity {
                entity: Some(Entity::TableEntry(entry)),
            }),
        };
        match self.client.write(vec![update], Atomicity::ContinueOnError) {
            Ok(()) => Ok(()),
            Err(ClientError::Refused(refused)) => {
                let one = &refused.updates[0];
                Err((Code::from_i32(one.canonical_code), one.message.clone()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes an update, again while the store has no leader and when it may be done.
    fn write_soon(&mut self, kind: Type, entry: &rt::TableEntry) -> Result<(), (Code, String)> {
        wait_for("an answer", || match self.write(kind, entry.clone()) {
            Err((_, words)) if words.starts_with("no_quorum: ") => None,
            Err((_, words)) if words.starts_with("unknown: ") => None,
            result => Some(result),
        })
    }
}

/// Returns the entry with another port.
fn to_port(mut entry: rt::TableEntry, port: u8) -> rt::TableEntry {
    let action = entry.action.as_mut().and_then(|it| it.r#type.as_mut());
    let Some(ActionType::Action(action)) = action else {
        panic!("the entry has an action");
    };
    action.params[0].value = vec![port];
    entry
}

/// Returns the sorted metadata and ports of a switch's entries.
fn sorted(address: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = detours(address);
    found.sort();
    found
}

#[test]
fn controllers_write_managed_tables_through_the_store_and_get_them_back_after_restarts() {
    let dir = Directory::new("reflex-managed");
    let (running, address) = switch("127.0.0.1:0");
    let [port] = free_ports();
    let listen = format!("udp:127.0.0.1:{port}");
    let store = format!(
        "[store]\nnodes = [\"a\", \"b\", \"c\"]\nkeep = \"disk\"\ndir = \"{}\"\n",
        dir.file("store")
    );
    let file = dir.with("loops.toml", loops(&listen, &address, &store));
    let mut plane = Plane::start(&["run", &file], dir.file("sock"));
    wait_for("a connection", || {
        (plane.show()["disconnected"] == serde_json::json!([])).then_some(())
    });
    Sender::new(port).slow_flow(1000);
    let mut controller = Controller::new(&address);
    assert_eq!(controller.example.metadata, b"reflex detour");

    // Answers are those of a table that is not managed.
    let own = controller.entry(7, "mine");
    assert_eq!(controller.write_soon(Type::Insert, &own), Ok(()));
    let cases = [
        (Type::Insert, own.clone(), Code::AlreadyExists),
        (Type::Modify, controller.entry(8, ""), Code::NotFound),
        (Type::Delete, controller.entry(8, ""), Code::NotFound),
        (
            Type::Insert,
            controller.example.clone(),
            Code::AlreadyExists,
        ),
        (
            Type::Modify,
            controller.example.clone(),
            Code::PermissionDenied,
        ),
        (
            Type::Insert,
            controller.entry(9, &"long".repeat(40)),
            Code::ResourceExhausted,
        ),
    ];
    for (kind, entry, code) in cases {
        let refused = controller.write(kind, entry).unwrap_err();
        assert_eq!(refused.0, code, "{}", refused.1);
    }
    let changed = to_port(own.clone(), 2);
    assert_eq!(controller.write(Type::Modify, changed), Ok(()));
    let read = controller.entries();
    assert!(read.contains(&to_port(own.clone(), 2)), "{read:?}");
    let expected = [
        ("mine".to_owned(), vec![2]),
        ("reflex detour".to_owned(), vec![3]),
    ];
    assert_eq!(sorted(&address), expected);

    // `ctl` shows the owners, and writes the table as well.
    let ctl = |arguments: &[&str]| {
        let at = ["ctl", "--addr", &address, "--role", "ctl"];
        said(&[&at, arguments].concat())
    };
    let shown = ctl(&["show", "detour"]).out;
    assert!(shown.contains("# reflex detour"), "{shown}");
    let json = ctl(&["dump", "--json"]).json();
    let owners = json.as_array().unwrap().iter();
    let owners = owners.filter(|it| it["metadata"] == "reflex detour");
    assert_eq!(owners.count(), 1);
    let line = shown.lines().find(|it| it.ends_with("# mine")).unwrap();
    let statement = dir.with("one.entries", line);
    let deleted = ctl(&["apply", "--delete", &statement]);
    assert_eq!(deleted.status, Some(0), "{}", deleted.err);
    assert_eq!(sorted(&address), expected[1..]);
    assert_eq!(controller.write(Type::Insert, own.clone()), Ok(()));

    // An element that restarts has all of the store.
    let expected = [
        ("mine".to_owned(), vec![3]),
        ("reflex detour".to_owned(), vec![3]),
    ];
    drop(running);
    let (running, _) = switch(&address);
    wait_for("both entries", || {
        (sorted(&address) == expected).then_some(())
    });
    let mut controller = Controller::new(&address);

    // A plane that is killed leaves its tables managed, and goes on with what it had.
    plane.kill();
    let gone = wait_for("a refusal", || {
        let written = controller.write(Type::Insert, controller.entry(8, "mine"));
        written.err()
    });
    assert_eq!(gone.0, Code::Unavailable, "{}", gone.1);
    let mut plane = Plane::start(&["run", &file], dir.file("sock"));
    assert_eq!(controller.write_soon(Type::Delete, &own), Ok(()));
    assert_eq!(sorted(&address), expected[1..]);

    // One that ends gives them back. What is written then becomes part of the store.
    plane.running.signal("TERM");
    assert!(plane.running.0.wait().unwrap().success());
    assert_eq!(controller.write(Type::Insert, own.clone()), Ok(()));
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    wait_for("a connection", || {
        (plane.show()["disconnected"] == serde_json::json!([])).then_some(())
    });
    let other = controller.entry(9, "");
    let none = controller.write_soon(Type::Delete, &other).unwrap_err();
    assert_eq!(none.0, Code::NotFound, "{}", none.1);
    drop(running);
    let (_running, _) = switch(&address);
    wait_for("both entries", || {
        (sorted(&address) == expected).then_some(())
    });
    let mut controller = Controller::new(&address);
    let of_loop = controller.entry(1000, "");
    assert_eq!(controller.write_soon(Type::Delete, &of_loop), Ok(()));
    assert_eq!(sorted(&address), expected[..1]);
}

#[test]
fn a_store_without_quorum_refuses_writes_of_managed_tables_by_name() {
    let dir = Directory::new("reflex-no-quorum");
    let (_running, address) = switch("127.0.0.1:0");
    let [reports, a, b, c] = free_ports();
    let nodes = [("a", a), ("b", b), ("c", c)]
        .map(|(name, port)| format!("{{ name = \"{name}\", address = \"127.0.0.1:{port}\" }}"));
    let store = format!(
        "[store]\nnodes = [{}]\nkeep = \"disk\"\ndir = \"{}\"\n",
        nodes.join(", "),
        dir.file("store")
    );
    let listen = format!("udp:127.0.0.1:{reports}\"\nnode = \"a");
    let file = dir.with("loops.toml", loops(&listen, &address, &store));
    let start = |name: &str| {
        let control = dir.file(&format!("{name}.sock"));
        Plane::start(&["member", &file, "--name", name], control)
    };
    let mut members = ["a", "b", "c"].map(start);
    let leader = wait_for("a leader", || {
        let leads = |member: &Plane| member.show()["nodes"][0]["role"] == "leader";
        members.iter().position(leads)
    });
    wait_for("a connection", || {
        (members[leader].show()["disconnected"] == serde_json::json!([])).then_some(())
    });
    Sender::new(reports).slow_flow(1000);
    let mut controller = Controller::new(&address);
    let own = controller.entry(7, "mine");
    assert_eq!(controller.write_soon(Type::Insert, &own), Ok(()));

    // Without a majority nothing is written, and what is there stays.
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    for other in &others {
        members[*other].kill();
    }
    let next = controller.entry(8, "mine");
    let refused = wait_for("a refusal", || {
        let written = controller.write(Type::Insert, next.clone()).err();
        written.filter(|(_, words)| words.starts_with("no_quorum: "))
    });
    assert_eq!(refused.0, Code::Unavailable);
    let there = sorted(&address);
    assert!(there.contains(&("mine".to_owned(), vec![3])), "{there:?}");

    // With one, the next leader takes writes. An earlier one may be done now.
    members[others[0]] = start(["a", "b", "c"][others[0]]);
    if let Err((code, words)) = controller.write_soon(Type::Insert, &next) {
        assert_eq!(code, Code::AlreadyExists, "{words}");
    }
    assert_eq!(detours(&address).len(), 3);
}

#[test]
fn an_element_speaks_tls_with_the_certificates_of_the_file() {
    let dir = Directory::new("reflex-tls");
    let authority = Authority::new();
    let (certificate, key) = authority.of_host("leaf1.example");
    let (own, own_key) = authority.of_person("plane");
    let ca = dir.with("ca.pem", &authority.pem);
    let (certificate, key) = (
        dir.with("switch.pem", certificate),
        dir.with("switch.key", key),
    );
    dir.with("plane.pem", own);
    dir.with("plane.key", own_key);
    let program = format!("1={}", example("int/int.p4"));
    let mut command = polyplane();
    command.args(["serve", "--p4runtime", "127.0.0.1:0", "--device", &program]);
    command.args([
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
    ]);
    let mut switch = Running::start(&mut command);
    let address = switch.served_address().trim().to_owned();
    let [port] = free_ports();
    let listen = format!("udp:127.0.0.1:{port}");
    let tls = |more: &str| {
        let text = loops(&listen, &address, "");
        let device = format!("device = \"p4runtime:{address}\"\n");
        assert!(text.contains(&device), "{text}");
        text.replace(&device, &format!("{device}{more}"))
    };
    let all = "tls_ca = \"ca.pem\"\ntls_cert = \"plane.pem\"\ntls_key = \"plane.key\"\n\
               tls_name = \"leaf1.example\"\n";
    let file = dir.with("loops.toml", tls(all));
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    wait_for("a connection", || {
        let state = plane.show();
        let is_connected = state["elements"][0]["connected"] == true;
        is_connected.then_some(())
    });
    drop(plane);
    for (more, words) in [
        ("tls_ca = \"none.pem\"\n", "none.pem"),
        ("tls_ca = \"plane.key\"\n", "has no certificate in PEM"),
        (
            "tls_cert = \"plane.pem\"\n",
            "tls_cert and tls_key belong together",
        ),
        ("tls_name = \"leaf1\"\n", "there is no tls_ca"),
    ] {
        let file = dir.with("wrong.toml", tls(more));
        let refused = said(&["reflex", "run", &file, "--seconds", "0.1"]);
        assert_eq!(refused.status, Some(1));
        assert!(refused.err.contains(words), "{}", refused.err);
    }
}

#[test]
fn changes_that_are_at_no_switch_at_the_end_are_an_error() {
    let dir = Directory::new("reflex-away");
    let (switch, address) = switch("127.0.0.1:0");
    let [port] = free_ports();
    let listen = format!("udp:127.0.0.1:{port}");
    let file = dir.with("loops.toml", loops(&listen, &address, ""));
    let mut plane = Plane::start(&["run", &file], dir.file("sock"));
    wait_for("a connection", || {
        (plane.show()["disconnected"] == serde_json::json!([])).then_some(())
    });
    drop(switch);
    Sender::new(port).slow_flow(1000);
    wait_for("a change", || {
        (plane.show()["monitors"][0]["waiting"] == 1).then_some(())
    });
    plane.running.signal("TERM");
    let status = plane.running.0.wait().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_key_is_set_if_it_has_the_value_that_is_expected() {
    let dir = Directory::new("reflex-compare");
    let [port] = free_ports();
    let text = format!(
        "[[source]]\nlisten = \"udp:127.0.0.1:{port}\"\n\
         from = [{{ node = 9, address = \"127.0.0.1\" }}]\n\
         [[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"any\"]\nabove = \"1 us\"\n"
    );
    let file = dir.with("loops.toml", text);
    let control = dir.file("sock");
    let plane = Plane::start(&["run", &file], control.clone());
    let compare = |expected: Option<&str>, new: &str| {
        let expected = expected.map(str::to_owned);
        KeyOperation::CompareAndSet("key".to_owned(), expected, new.to_owned())
    };
    plane.operate(&compare(None, "1"));
    let kv = |arguments: &[&str]| {
        let put = ["reflex", "kv", "put", "--control", &control, "key"];
        said(&[&put, arguments].concat())
    };
    let cases = [
        (
            &["2", "--if-absent"][..],
            Some("differs: the key has the value \"1\""),
        ),
        (
            &["2", "--if-value", "3"],
            Some("differs: the key has the value \"1\""),
        ),
        (&["2", "--if-value", "1"], None),
        (
            &["4", "--if-value", "1"],
            Some("differs: the key has the value \"2\""),
        ),
    ];
    for (arguments, words) in cases {
        let run = kv(arguments);
        assert_eq!(run.status, Some(i32::from(words.is_some())), "{}", run.err);
        assert!(run.err.contains(words.unwrap_or_default()), "{}", run.err);
    }
    let value = plane.operate(&KeyOperation::Get("key".to_owned()));
    assert_eq!(value.as_deref(), Some("2"));
}
