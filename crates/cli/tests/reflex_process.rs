//! `polyplane reflex run` and `member` on real sockets: reports become entries of a running switch,
//! members are killed and started again.

mod lab;

use std::collections::BTreeMap;
use std::net::UdpSocket;

use lab::cables::Cables;
use lab::plane::{Plane, Sender, WINDOW, detours, free_ports, loops, switch, wait_for};
use lab::{Directory, example, said};
use p4rt::client::{Client, Endpoint};
use packet::Frame;
use port::Port;
use reflex_runtime::KeyOperation;

fn put(key: &str, value: impl ToString) -> KeyOperation {
    KeyOperation::Put(key.to_owned(), value.to_string())
}

fn get(key: &str) -> KeyOperation {
    KeyOperation::Get(key.to_owned())
}

#[test]
fn reports_become_entries_of_a_switch_that_come_back_after_its_restart() {
    let dir = Directory::new("reflex-live");
    let (running, address) = switch("127.0.0.1:0");
    let [port] = free_ports();
    let listen = format!("udp:127.0.0.1:{port}");
    let store = format!(
        "[store]\nnodes = [\"a\", \"b\", \"c\"]\nkeep = \"disk\"\ndir = \"{}\"\n",
        dir.file("store")
    );
    let file = dir.with("loops.toml", loops(&listen, &address, &store));
    let capture = format!("{listen}={}", dir.file("reports.pcap"));
    let run = ["run", &file, "--capture", &capture];
    let mut plane = Plane::start(&run, dir.file("sock"));
    wait_for("a connection", || {
        (plane.show()["disconnected"] == serde_json::json!([])).then_some(())
    });
    let mut watcher = plane.client();
    watcher.watch().unwrap();
    let mut sender = Sender::new(port);
    sender.slow_flow(1000);
    let expected = ("reflex detour".to_owned(), vec![3]);
    wait_for("an entry", || {
        (detours(&address) == [expected.clone()]).then_some(())
    });
    let event = wait_for("a decision", || {
        let event = watcher.next_event().unwrap().expect("the plane runs");
        (event["event"] == "decision").then_some(event)
    });
    assert_eq!(event["decision"]["port"], 3);
    plane.operate(&put("threshold", 20));

    // A datagram of a node that is not listed, and one that is none.
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(b"report", ("127.0.0.1", port)).unwrap();
    sender
        .socket
        .send_to(b"report", ("127.0.0.1", port))
        .unwrap();
    let counts = wait_for("both datagrams", || {
        let counts = plane.show()["counts"].clone();
        (counts["received"] == u64::from(WINDOW) + 3).then_some(counts)
    });
    assert_eq!(counts["not_allowed"], 1);
    assert_eq!(counts["malformed"], 1);
    assert_eq!(counts["accepted"], u64::from(WINDOW) + 1);
    assert_eq!(counts["classified"], u64::from(WINDOW) + 1);

    // The switch loses its entries, and gets them again.
    drop(running);
    let (running, _) = switch(&address);
    wait_for("the entry again", || {
        (detours(&address) == [expected.clone()]).then_some(())
    });

    // A name that the program lacks is refused with those that it has.
    let shipped = std::fs::read_to_string(&file).unwrap();
    for (from, words) in [
        ("IntIngress.detour", "; there are "),
        ("IntIngress.via", "; there are NoAction, IntIngress.via"),
    ] {
        let port = free_ports::<1>()[0];
        let text = shipped
            .replace(from, "IntIngress.none")
            .replace("store\"", "none\"");
        let text = text.replace(&listen, &format!("udp:127.0.0.1:{port}"));
        let wrong = said(&["reflex", "run", &dir.with("wrong.toml", text)]);
        assert!(wrong.err.contains(words), "{}", wrong.err);
    }

    // The plane is killed, and its store has votes, keys and changes on disk.
    plane.kill();
    drop(running);
    let (running, _) = switch(&address);
    let plane = Plane::start(&run, dir.file("sock"));
    wait_for("the entry from the disk", || {
        (detours(&address) == [expected.clone()]).then_some(())
    });
    assert_eq!(plane.operate(&get("threshold")).as_deref(), Some("20"));

    // A controller takes the place of the plane. When it has gone, the plane goes on.
    let endpoint = Endpoint {
        address: address.clone(),
        tls: None,
    };
    let mut passing = Client::connect(&endpoint, 1, "").unwrap();
    let highest = passing.arbitrate(None).unwrap().highest.unwrap();
    assert!(passing.arbitrate(Some(highest + 1)).unwrap().is_primary);
    wait_for("the loss of the switch", || {
        (plane.show()["disconnected"] == serde_json::json!(["leaf1"])).then_some(())
    });
    let refusal = plane.show()["elements"][0]["last_refusal"].to_string();
    assert!(refusal.contains("--role"), "{refusal}");
    drop(passing);
    wait_for("the connection again", || {
        (plane.show()["disconnected"] == serde_json::json!([])).then_some(())
    });

    // A leader of a later term controls the switch: this one is refused.
    let mut later = Client::connect(&endpoint, 1, "").unwrap();
    let election = 1u128 << 64 | u128::from(u32::MAX);
    assert!(later.arbitrate(Some(election)).unwrap().is_primary);
    sender.slow_flow(2000);
    let refusal = wait_for("a refusal", || {
        let element = plane.show()["elements"][0]["last_refusal"].clone();
        element.as_str().map(str::to_owned)
    });
    assert!(refusal.contains("a later leader"), "{refusal}");
    assert!(refusal.contains("write election_id = 2"), "{refusal}");
    assert_eq!(detours(&address).len(), 1);
    let shown = said(&["reflex", "show", "--control", &dir.file("sock")]);
    let all = [
        "refused datagrams: 1 not allowed",
        "1 changes, 1 of them at no switch yet",
    ];
    assert!(shown.out.contains(all[1]), "{}", shown.out);
    assert!(!shown.out.contains(all[0]), "{}", shown.out);

    // When it is gone, the plane controls the switch again, with all changes of its store.
    drop(later);
    drop(running);
    let (_running, _) = switch(&address);
    wait_for("both entries", || {
        (detours(&address).len() == 2).then_some(())
    });
    let shown = said(&["reflex", "show", "--control", &dir.file("sock")]);
    assert!(
        shown.out.contains("leader in term"),
        "{}{}",
        shown.out,
        shown.err
    );
    let live = plane.show()["decisions"].clone();
    plane.running.signal("TERM");
    let mut plane = plane;
    assert!(plane.running.0.wait().unwrap().success());

    // A replay of what the second process received makes its decisions.
    let replay = said(&["reflex", "replay", &file, "--in", &capture, "--json"]);
    let replay = replay.json()["decisions"].clone();
    for part in [
        "at", "monitor", "flow", "path", "latency", "average", "port",
    ] {
        assert_eq!(live[0][part], replay[0][part], "{part}");
    }
    assert_eq!(replay.as_array().map(Vec::len), Some(1));
}

#[test]
fn a_store_whose_disk_is_full_refuses_by_name_and_goes_on_with_room() {
    let dir = Directory::new("reflex-full");
    let disk = dir.0.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let size = std::ffi::CString::new("size=16777216").unwrap();
    let flags = rustix::mount::MountFlags::NODEV;
    if let Err(error) = rustix::mount::mount("tmpfs", &disk, "tmpfs", flags, size.as_c_str()) {
        return println!("skipped: a small file system cannot be mounted: {error}");
    }
    let [reports] = free_ports();
    let text = format!(
        "[[source]]\nlisten = \"udp:127.0.0.1:{reports}\"\n\
         from = [{{ node = 9, address = \"127.0.0.1\" }}]\n\
         [[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"any\"]\nabove = \"1 us\"\n\
         [store]\nnodes = [\"a\"]\nkeep = \"disk\"\ndir = \"disk\"\n"
    );
    let file = dir.with("loops.toml", text);
    let mut plane = Plane::start(&["run", &file], dir.file("sock"));
    plane.operate(&put("key", 1));
    let ballast = disk.join("ballast");
    let mut fill = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write(&mut fill, &[1; 4096]).is_ok() {}
    let mut number = 1;
    let refused = wait_for("a refusal", || {
        number += 1;
        let mut client = plane.client();
        let put = put(&format!("key {}", number % 500), number);
        client.operate(put).err().map(|error| error.to_string())
    });
    let is_named = refused.contains("make room") || refused.contains("timeout");
    assert!(is_named, "{refused}");
    let shown = plane.show()["disk"].clone();
    let shown = shown.as_str().expect("the disk is full");
    assert!(shown.contains("no space is left"), "{shown}");
    // An open file keeps its room.
    drop(fill);
    std::fs::remove_file(&ballast).unwrap();
    plane.operate(&put("key", 2));
    plane.kill();
    let plane = Plane::start(&["run", &file], dir.file("sock"));
    assert_eq!(plane.operate(&get("key")).as_deref(), Some("2"));
    drop(plane);
    let _ = rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH);
}

#[test]
fn reports_are_received_at_interfaces_by_each_driver() {
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    let dir = Directory::new("reflex-interfaces");
    let source = |listen: &str| {
        format!(
            "[[source]]\nlisten = \"{listen}\"\nint_dscp = 23\n\
             from = [{{ node = 9, address = \"10.9.0.9\" }}]\n"
        )
    };
    let monitor = "[[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"any\"]\n\
                   above = \"10 us\"\n";
    let text = source("packet:port0") + &source("xdp:port1") + monitor;
    let file = dir.with("loops.toml", text);
    let start = || Plane::start(&["run", &file], dir.file("sock"));
    let plane = cables.switch.run(start).unwrap();
    plane.client();
    let mut sender = Sender::new(0);
    for _ in 0..WINDOW {
        for end in 0..2 {
            let frame = sender.frame(1000 + end as u16, 100);
            cables.ends[end].tx(&[Frame::from_bytes(&frame).unwrap()]);
        }
    }
    let other = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, 1, 2, 3, 4];
    cables.ends[0].tx(&[Frame::from_bytes(&other).unwrap()]);
    let state = wait_for("all reports", || {
        let state = plane.show();
        let is_all = state["counts"]["received"] == 2 * WINDOW && state["counts"]["others"] == 1;
        is_all.then_some(state)
    });
    assert_eq!(state["counts"]["accepted"], 2 * WINDOW);
    assert_eq!(state["monitors"][0]["normal"], 2 * WINDOW);
}

/// Returns the place of the member that leads.
fn leader_of(members: &[Plane]) -> usize {
    wait_for("a leader", || {
        let leads = |member: &Plane| member.show()["nodes"][0]["role"] == "leader";
        members.iter().position(leads)
    })
}

#[test]
fn killed_members_lose_no_acknowledged_write_and_commands_go_on() {
    let dir = Directory::new("reflex-members");
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
    let names = ["a", "b", "c"];
    let mut members = names.map(start);
    let mut sender = Sender::new(reports);
    let mut acknowledged = BTreeMap::new();
    let mut number = 0u32;
    for round in 0..3u16 {
        for at in 0..30 {
            number += 1;
            let key = format!("key {}", number % 7);
            members[at % 3].operate(&put(&key, number));
            acknowledged.insert(key, number);
        }
        let leader = leader_of(&members);
        members[leader].kill();
        // The others go on without it.
        for at in 0..10 {
            number += 1;
            let key = format!("key {}", number % 7);
            members[(leader + 1 + at % 2) % 3].operate(&put(&key, number));
            acknowledged.insert(key, number);
        }
        members[leader] = start(names[leader]);
        for (key, value) in &acknowledged {
            let found = members[leader].operate(&get(key));
            assert_eq!(found, Some(value.to_string()), "round {round}");
        }
        // A report at any member becomes an entry by the leader.
        sender.slow_flow(1000 + round);
        wait_for("an entry", || {
            (detours(&address).len() == usize::from(round) + 1).then_some(())
        });
    }
    // A member that was stopped, and not killed, follows the one that leads meanwhile.
    let leader = leader_of(&members);
    members[leader].running.signal("STOP");
    let other = (leader + 1) % 3;
    members[other].operate(&put("paused", 1));
    members[leader].running.signal("CONT");
    wait_for("it follows", || {
        (members[leader].show()["nodes"][0]["role"] == "follower").then_some(())
    });
    members[leader].operate(&put("paused", 2));
    assert_eq!(members[other].operate(&get("paused")).as_deref(), Some("2"));
    sender.slow_flow(2000);
    wait_for("an entry", || (detours(&address).len() == 4).then_some(()));
    let lines = said(&[
        "reflex",
        "kv",
        "get",
        "key 1",
        "--control",
        &dir.file("b.sock"),
        "--json",
    ]);
    assert_eq!(lines.json()["value"], acknowledged["key 1"].to_string());
}

#[test]
fn what_a_real_run_cannot_use_is_refused_with_its_line() {
    let dir = Directory::new("reflex-refused");
    let fabric = example("reflex/slow_link/fabric.toml");
    let shipped = std::fs::read_to_string(example("reflex/slow_link/loops.toml")).unwrap();
    let refused = |text: &str, arguments: &[&str], words: &[&str]| {
        let file = dir.with("loops.toml", text);
        let command = [&["reflex", arguments[0], &file], &arguments[1..]].concat();
        let run = said(&command);
        assert_eq!(run.status, Some(1), "{}", run.out);
        for word in words {
            assert!(run.err.contains(word), "{word}\n{}", run.err);
        }
    };
    let wrong = shipped
        .replace("host:collector", "host:nobody")
        .replace("ports = [3, 4]", "ports = [3, 9]");
    let run: &[&str] = &["run", "--fabric", &fabric];
    let words = [
        "loops.toml:14: error: ",
        "has no host nobody",
        "port 9 of leaf1 has no link",
    ];
    refused(&wrong, run, &words);
    let wrong = shipped.replace("name = \"leaf1\"", "name = \"leaf1\"\ndevice = \"leaf7\"");
    refused(
        &wrong,
        run,
        &["has no switch leaf7", "one of: leaf1, leaf2"],
    );
    refused(&shipped, &["run"], &["add --fabric TOPOLOGY", "line 14"]);
    // A store of which a node is missing, or that has other nodes.
    let [port] = free_ports();
    let disk = |nodes: &str| {
        format!(
            "topology = \"none.toml\"\n[[source]]\nlisten = \"udp:127.0.0.1:{port}\"\n\
             from = [{{ node = 9, address = \"127.0.0.1\" }}]\n\
             [[monitor]]\nname = \"m\"\nkind = \"path_latency\"\nmatch = [\"any\"]\n\
             above = \"1 us\"\n[store]\nnodes = {nodes}\nkeep = \"disk\"\ndir = \"store\"\n"
        )
    };
    // The store is made before the topology is read.
    let words = ["loops.toml:1: topology: ", "none.toml", "copy the topology"];
    refused(&disk("[\"a\", \"b\"]"), &["run"], &words);
    let words = [
        "is of node 1",
        "keep the seed of the file and its list of nodes",
    ];
    refused(&disk("[\"a\"]"), &["run"], &words);
    std::fs::remove_dir_all(dir.0.join("store/b")).unwrap();
    let words = ["store/b is missing", "another seed"];
    refused(&disk("[\"a\", \"b\"]"), &["run"], &words);
    let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    std::fs::remove_dir_all(dir.0.join("store")).unwrap();
    refused(&disk("[\"a\"]"), &["run"], &["node = \"NAME\""]);
    drop(socket);
    let wrong = shipped.replace("[{ node = 2, address = \"10.9.0.2\" }]", "[\"10.9.0.2\"]");
    refused(&wrong, &["check"], &["address = \"10.9.0.2\" }]"]);
    let wrong = shipped.replace("\"10 us\"", "10");
    refused(&wrong, &["check"], &["with its unit"]);
    refused(
        &shipped,
        &["member", "--name", "a"],
        &["gives its nodes no addresses"],
    );
    refused(
        &shipped,
        &["member", "--name", "z"],
        &["no node \"z\"; name one of: a, b, c"],
    );
    let store = "nodes = [{ name = \"a\", address = \"127.0.0.1:7000\" }]";
    let wrong = shipped.replace("nodes = [\"a\", \"b\", \"c\"]", store);
    refused(
        &wrong,
        &["check"],
        &["must keep their votes", "keep = \"disk\""],
    );
    let short = said(&["reflex", "run", "loops.toml", "--seconds", "0"]);
    assert!(short.err.contains("as in 20 or 0.5"), "{}", short.err);
    let none = said(&["reflex", "kv", "get", "key", "--control", &dir.file("none")]);
    assert_eq!(none.status, Some(1));
    assert!(none.err.contains("no plane serves"), "{}", none.err);
}
