//! `polyplane pof` on real interfaces: a controller makes tables and flows over TCP, frames are
//! forwarded by them, also while controllers come and go, and the state survives the process.

mod lab;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lab::authority::Authority;
use lab::cables::Cables;
use lab::pof::{Bed, Script, TWO_FLOWS, counts, ipv4, start};
use lab::{Directory, Running, polyplane, said};
use packet::Frame;
use pof::wire::{Body, ErrorCode, Role, RoleChange};
use port::Port;

#[test]
fn a_controller_makes_two_flows_and_frames_are_forwarded_by_them() {
    for engine in ["jit", "interp"] {
        let Some(mut bed) = Bed::start(&["--listen", "127.0.0.1:0", "--engine", engine]) else {
            return;
        };
        let address = bed.address();
        let directory = Directory::new(&format!("pof-{engine}"));
        let text = directory.with("two.pof", TWO_FLOWS);
        let said = bed.ctl(&address, &["apply", &text]);
        assert_eq!(
            (said.status, said.err.as_str()),
            (Some(0), ""),
            "{}",
            said.out
        );
        for round in 0..20 {
            let frame = ipv4([10, 0, 1, round]);
            assert_eq!(bed.once(0, &frame), [(1, frame.clone())], "{engine}");
            let back = ipv4([10, 0, 2, round]);
            let mut changed = back.clone();
            changed[5] = 9;
            assert_eq!(bed.once(1, &back), [(0, changed)], "{engine}");
        }
        let said = bed.ctl(&address, &["--json", "stats"]);
        assert_eq!(counts(&said, "counters", "counter", 1), (40, 2_400));
        assert_eq!(counts(&said, "counters", "counter", 2), (20, 1_200));
        assert_eq!(counts(&said, "counters", "counter", 3), (20, 1_200));
        let flows = said.json()["flows"].clone();
        let packets = flows
            .as_array()
            .unwrap()
            .iter()
            .map(|flow| &flow["packets"]);
        assert_eq!(packets.collect::<Vec<_>>(), [40, 20, 20]);
        assert_eq!(said.json()["ports"][0]["sent_packets"], 20);
        // A dump makes the state that it was made of.
        let dump = bed.ctl(&address, &["dump"]).out;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let of_dump = directory.with("dump.pof", &dump);
        let frame = hex(&ipv4([10, 0, 2, 3]));
        let trace = [
            "trace", &of_dump, "--packet", &frame, "--port", "1", "--json",
        ];
        let trace = lab::said(&trace).json();
        let (mut changed, sent) = (ipv4([10, 0, 2, 3]), &trace["outputs"][0]);
        changed[5] = 9;
        assert_eq!(
            (&sent["port"], &sent["bytes"]),
            (&0.into(), &hex(&changed).into())
        );
        assert_eq!(dump.lines().count(), 5, "{dump}");
        let mut twin = Bed::start(&["--listen", "127.0.0.1:0", "--engine", "interp"]).unwrap();
        let other = twin.address();
        let again = directory.with("again.pof", &dump);
        assert_eq!(twin.ctl(&other, &["apply", &again]).status, Some(0));
        assert_eq!(twin.ctl(&other, &["dump"]).out, dump);
        let frame = ipv4([10, 0, 1, 1]);
        assert_eq!(twin.once(0, &frame), [(1, frame.clone())]);
        twin.stop();
        let program = lab::said(&["ir", &again]);
        assert!(program.out.contains("table"), "{}", program.err);
        let report = bed.stop();
        assert_eq!(report["ports"][0]["received"], 20, "{report}");
        assert_eq!(report["tables"][0]["hits"], 40);
    }
}

#[test]
fn no_frame_is_lost_while_controllers_are_away_and_come_back() {
    let Some(cables) = Cables::new(2) else { return };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let listen = |address: &str| cables.switch.run(|| TcpListener::bind(address)).unwrap();
    let mut listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (running, lines) = start(&cables, &["--controller", &format!("tcp:{address}")]);
    let mut bed = Bed {
        cables,
        running,
        lines,
    };
    // The controller is the side that the switch dials.
    let mut script = Script::new(listener.accept().unwrap().0);
    script.make(TWO_FLOWS);
    let mut expected = 0;
    let mut arrived = 0;
    let mut send = |bed: &mut Bed, time: Duration| {
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..8 {
                let frame = ipv4([10, 0, 1, expected as u8]);
                bed.cables.ends[0].tx(&[Frame::from_bytes(&frame).unwrap()]);
                expected += 1;
            }
            arrived += bed.arrived(Duration::from_millis(2), 8).len();
        }
    };
    for _ in 0..3 {
        send(&mut bed, Duration::from_millis(100));
        drop(script);
        drop(listener);
        bed.wait_for("is gone");
        send(&mut bed, Duration::from_millis(700));
        let again = bed.cables.switch.run(|| TcpListener::bind(&address));
        let again = again.unwrap().unwrap();
        script = Script::new(again.accept().unwrap().0);
        listener = again;
        bed.wait_for("is connected");
    }
    send(&mut bed, Duration::from_millis(100));
    let missing = expected - arrived;
    let late = bed.arrived(Duration::from_secs(2), missing).len();
    assert_eq!(late, missing, "of {expected}");
    assert!(expected > 1_000, "{expected}");
    let report = bed.stop();
    assert_eq!(report["connections"], 4);
    assert_eq!(report["ports"][0]["received"], expected);
}

#[test]
fn the_state_survives_the_death_of_the_process() {
    let directory = Directory::new("pof-state");
    let state = directory.file("state");
    let arguments = ["--listen", "127.0.0.1:0", "--state", &state];
    let Some(bed) = Bed::start(&arguments) else {
        return;
    };
    let address = bed.address();
    let more = "\
meter add 3 rate 1000
group add 5 all counter 9 do output 1
flow add mm/0 index 7 priority 3 cookie 0xc0 match 96/16=0x806 do meter 3; group 5
counter add 11
counter delete 9";
    let text = directory.with("two.pof", format!("{TWO_FLOWS}{more}"));
    let said_of = bed.ctl(&address, &["apply", &text]);
    assert_eq!(said_of.status, Some(0), "{}", said_of.err);
    let dump = bed.ctl(&address, &["dump"]).out;
    // The answer to `apply` came, so all of it is on the disk.
    let mut bed = bed.start_again(&arguments);
    bed.wait_for("stored state: 12 objects");
    let address = bed.address();
    assert_eq!(bed.ctl(&address, &["dump"]).out, dump);
    let frame = ipv4([10, 0, 1, 1]);
    assert_eq!(bed.once(0, &frame), [(1, frame.clone())]);
    // What is deleted stays deleted.
    let deleted = bed.ctl(
        &address,
        &["do", "flow delete mm/0 index 7", "group delete 5"],
    );
    assert_eq!(deleted.status, Some(0), "{}", deleted.err);
    let dump = bed.ctl(&address, &["dump"]).out;
    let bed = bed.start_again(&arguments);
    let address = bed.address();
    assert_eq!(bed.ctl(&address, &["dump"]).out, dump);
    let shown = said(&["state", &state]);
    assert!(
        shown.err.contains("in use by another switch"),
        "{}",
        shown.err
    );
    bed.stop();
    let shown = said(&["state", &state]);
    assert!(shown.out.contains("POF switch: "), "{}", shown.out);
}

#[test]
fn one_controller_is_master_and_the_others_read() {
    let Some(bed) = Bed::start(&["--listen", "127.0.0.1:0", "--engine", "interp"]) else {
        return;
    };
    let address = bed.address();
    let mut first = Script::connect(&bed.cables, &address);
    let mut second = Script::connect(&bed.cables, &address);
    let change = |role, generation| Body::RoleRequest(RoleChange { role, generation });
    first.ask(change(Role::Master, 1));
    first.make(TWO_FLOWS);
    second.ask(change(Role::Master, 2));
    let mut reader = pof::text::TextReader::new(pof::tables::Tables::new(Default::default()));
    let add = reader.read("meter add 1 rate 5").unwrap().unwrap();
    let query = reader.read("table query mm/0").unwrap().unwrap();
    let Body::Error(failure) = first.ask(add.clone()) else {
        panic!("a slave has written");
    };
    let is_slave = ErrorCode::IsSlave;
    assert_eq!(
        (failure.kind, failure.code),
        (is_slave.kind(), is_slave.code())
    );
    assert!(matches!(first.ask(query), Body::TableMod(_)));
    second.make("meter add 1 rate 5");
    // With the master gone, the other one takes over.
    drop(second);
    bed.wait_for("is gone");
    first.ask(change(Role::Master, 3));
    first.make("meter delete 1");
    bed.stop();
}

#[test]
fn standalone_floods_while_no_controller_is_connected() {
    let options = ["--listen", "127.0.0.1:0", "--fail", "standalone"];
    let Some(mut bed) = Bed::start(&options) else {
        return;
    };
    let address = bed.address();
    let frame = ipv4([10, 0, 7, 7]);
    assert_eq!(bed.once(0, &frame), [(1, frame.clone())]);
    let mut script = Script::connect(&bed.cables, &address);
    script.make("table add mm/0 size 1 fields 96/16\nflow add mm/0 match 96/16=* do drop");
    assert_eq!(bed.once(0, &frame), []);
    drop(script);
    bed.wait_for("is gone");
    assert_eq!(bed.once(1, &frame), [(0, frame.clone())]);
    assert_eq!(bed.stop()["flooded"], 2);
}

#[test]
fn both_sides_may_ask_for_certificates() {
    let directory = Directory::new("pof-tls");
    let authority = Authority::new();
    let ca = directory.with("ca.pem", &authority.pem);
    let issue = |name: &str| {
        let (certificate, key) = authority.of_host(name);
        let certificate = directory.with(&format!("{name}.pem"), certificate);
        (certificate, directory.with(&format!("{name}.key"), key))
    };
    let (switch, control) = (issue("switch"), issue("control"));
    let own = |(certificate, key): &(String, String)| {
        let words = ["--tls-ca", &ca, "--tls-cert", certificate, "--tls-key", key];
        words.map(str::to_owned).to_vec()
    };
    let mut arguments = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
    arguments.extend(own(&switch));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(bed) = Bed::start(&arguments) else {
        return;
    };
    let address = format!("tls:{}", bed.address());
    let text = directory.with("two.pof", TWO_FLOWS);
    let with = |more: &[String]| {
        let name = ["--tls-name", "switch"].map(str::to_owned);
        let words = [&name[..], more, &["apply".to_owned(), text.clone()]].concat();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        bed.ctl(&address, &words)
    };
    let made = with(&own(&control));
    assert_eq!(made.status, Some(0), "{}", made.err);
    let without = with(&own(&control)[..2]);
    assert_eq!(without.status, Some(1), "no certificate");
    let strange = Authority::new();
    let (certificate, key) = strange.of_host("control");
    let strange = (
        directory.with("x.pem", certificate),
        directory.with("x.key", key),
    );
    assert_eq!(with(&own(&strange)).status, Some(1), "another authority's");
    let plain = bed.ctl(&address[4..], &["dump"]);
    assert_eq!(plain.status, Some(1), "no TLS");
    // The switch is the side that dials.
    let listen = |cables: &Cables| cables.switch.run(|| TcpListener::bind("127.0.0.1:0"));
    let place = listen(&bed.cables)
        .unwrap()
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let waiting = || {
        let mut command = polyplane();
        command
            .args(["pof", "ctl", "--wait", &place])
            .args(own(&control))
            .arg("dump");
        Running::start(&mut command)
    };
    let waiting = bed.cables.switch.run(waiting).unwrap();
    let mut words = vec!["--controller".to_owned(), format!("tls:{place}")];
    words.extend(["--tls-name", "control"].map(str::to_owned));
    words.extend(own(&switch));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (second, _lines) = start(&bed.cables, &words);
    let dumped = waiting.finish();
    assert_eq!(
        (dumped.status, dumped.out.as_str()),
        (Some(0), ""),
        "{}",
        dumped.err
    );
    drop(second);
    bed.stop();
}

#[test]
fn ctl_shows_errors_with_their_places_and_what_the_switch_says() {
    let Some(bed) = Bed::start(&["--listen", "127.0.0.1:0", "--engine", "interp"]) else {
        return;
    };
    let address = bed.address();
    let directory = Directory::new("pof-ctl");
    let text = directory.with(
        "wrong.pof",
        format!("{TWO_FLOWS}\nflow add mm/0 match 96/16"),
    );
    let wrong = bed.ctl(&address, &["apply", &text]);
    assert_eq!(wrong.status, Some(1));
    for word in ["wrong.pof, line 7, column 21", "FIELD=VALUE"] {
        assert!(wrong.err.contains(word), "{}", wrong.err);
    }
    assert_eq!(bed.ctl(&address, &["dump"]).out, "", "nothing was sent");
    let lines = [
        "do",
        "table add mm/0 size 1 fields 96/16",
        "table add mm/0 size 1 fields 96/16",
    ];
    let twice = bed.ctl(&address, &lines);
    assert_eq!(twice.status, Some(1));
    for word in ["command line, line 2", "TableExists", "The table exists."] {
        assert!(twice.err.contains(word), "{}", twice.err);
    }
    let add = |line| bed.ctl(&address, &["do", line]).status;
    assert_eq!(add("table add mm/2 size 3 fields 96/16"), Some(0));
    assert_eq!(add("flow add mm/2 index 1 match 96/16=1"), Some(0));
    assert_eq!(add("flow add mm/2 match 96/16=2"), Some(0), "index 0");
    assert_eq!(add("flow add mm/2 match 96/16=3"), Some(0), "index 2");
    assert_eq!(add("flow add mm/2 match 96/16=4"), Some(1), "all are taken");
    let asked = bed.ctl(&address, &["do", "table query mm/0"]);
    assert_eq!(asked.out, "table add mm/0 size 1 fields 96/16\n");
    let json = bed.ctl(&address, &["--json", "do", "table query mm/1"]);
    assert_eq!(json.json()["refused"].as_array().unwrap().len(), 1);
    let nobody = said(&["pof", "ctl", "127.0.0.1:1", "dump"]);
    assert!(
        nobody
            .one_line()
            .contains("does `polyplane pof --listen` run there?")
    );
    let text = directory.with("two.pof", TWO_FLOWS);
    let trace = ["trace", &text, "--packet", "00", "--entries", "x.entries"];
    assert!(said(&trace).one_line().contains("leave it out"));
    let trace = ["trace", &text, "--packet", "00", "--port", "65300"];
    assert!(said(&trace).one_line().contains("a smaller number"));
    let alone = said(&["pof", "--port", "0=lo"]);
    assert!(alone.one_line().contains("--controller"), "{}", alone.err);
    let open = said(&["pof", "--port", "0=lo", "--listen", "0.0.0.0:0"]);
    assert!(open.one_line().contains("--tls-ca"), "{}", open.err);
    bed.stop();
}
