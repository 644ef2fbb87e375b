//! `polyplane host --state`: a switch of several tenants that is killed at any moment and started
//! again. All that it acknowledged is there, and packets of tenants are forwarded again.

mod lab;
#[expect(dead_code, reason = "p4rt's tests use the rest")]
#[path = "../../p4rt/tests/p4rt/rig.rs"]
mod rig;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::host_model::{Model, STEADY, is_refusal};
use lab::{Directory, Running, polyplane, said};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4rt::service::tenancy::tenancy_client::TenancyClient;
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, Port, RingPort};
use rig::{ALL, Client, Objects, Stream, does, entry, exact, frame};
use support::rng::Rng;
use tonic::transport::Channel;

/// Number of ports of the switch.
const PORTS: u32 = 4;

/// Destination of the packets of tenant `steady`.
const HOST: u64 = 0x99;

/// A switch with ports at rings.
struct Switch {
    running: Running,
    address: SocketAddr,
    started: Instant,
}

fn ring(test: &str, port: u32) -> String {
    format!("hs.{test}.{}.{port}", std::process::id())
}

fn command(test: &str, state: &Path, options: &[&str]) -> Command {
    let mut command = polyplane();
    command.args(["host", "--p4runtime", "127.0.0.1:0", "--state"]);
    command.arg(state).args(options);
    for port in 0..PORTS {
        command.args(["--port", &format!("{port}=ring:{}", ring(test, port))]);
    }
    command
}

impl Switch {
    fn start(test: &str, state: &Path, options: &[&str]) -> Switch {
        let started = Instant::now();
        let mut command = command(test, state, options);
        command.stdout(Stdio::null());
        let mut running = Running::start(&mut command);
        let address = running.served_address().parse().expect("an address");
        Switch {
            running,
            address,
            started,
        }
    }

    /// Kills the process as a power cut would: SIGKILL.
    fn kill(mut self) {
        self.running.0.kill().expect("it runs");
        self.running.0.wait().expect("it has ended");
    }

    async fn operator(&self) -> TenancyClient<Channel> {
        let uri = format!("http://{}", self.address);
        let channel = Channel::from_shared(uri).expect("a uri").connect().await;
        TenancyClient::new(channel.expect("the server is there"))
    }

    /// Connects a primary of a vPDP.
    async fn primary(&self, device: u64) -> (Client, Stream) {
        let mut client = Client::connect(self.address).await;
        client.device = device;
        let stream = client.open(Some(1), "").await;
        (client, stream)
    }
}

/// The other ends of two rings.
struct Ends {
    ports: [RingPort; 2],
    start: Instant,
    sent: u8,
}

impl Ends {
    fn open(test: &str) -> Ends {
        let end = |port| RingPort::open(PortId(port), &ring(test, port));
        Ends {
            ports: [0, 1].map(|port| end(port).expect("a ring needs nothing")),
            start: Instant::now(),
            sent: 0,
        }
    }

    /// Sends a frame by the first ring until it arrives at the second one.
    fn carries(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        let bytes = frame(HOST, self.sent.into(), 0x88b5);
        let mut batch = Batch::default();
        let limit = Instant::now() + Duration::from_secs(30);
        while Instant::now() < limit {
            let now = Nanos::from(self.start.elapsed());
            let _ = self.ports[0].rx(&mut Batch::default(), now);
            if self.ports[0].link() == LinkState::Up {
                self.ports[0].tx(&[Frame::from_bytes(&bytes).expect("it is short")]);
            }
            batch.clear();
            let _ = self.ports[1].rx(&mut batch, now);
            let is_it = |it: &Frame| it.bytes().starts_with(&bytes);
            if batch.frames().iter().any(is_it) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        panic!("frame {} does not arrive", self.sent);
    }
}

async fn shown(operator: &mut TenancyClient<Channel>) -> Model {
    let shown = operator.show(wire::ShowRequest::default()).await;
    shown.expect("it is shown").into_inner().into()
}

/// Returns two programs, and a chain of both.
fn functions() -> Vec<wire::Function> {
    let text = |name: &str| {
        let file = lab::example(&format!("functions/{name}.p4"));
        let said = said(&["ir", &file]);
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.out
    };
    let [l2, qos] = ["l2_sw", "qos"].map(text);
    let programs = [("l2", &l2), ("class", &qos)];
    let chain = wire::Chain {
        policy: "l2 -> class".to_owned(),
        programs: programs
            .map(|(name, text)| (name.to_owned(), text.clone()))
            .into(),
    };
    let functions = [
        wire::function::Function::Chain(chain),
        wire::function::Function::Program(l2),
        wire::function::Function::Program(qos),
    ];
    let functions = functions.map(Some).into_iter();
    functions
        .map(|function| wire::Function { function })
        .collect()
}

fn forwards(objects: &Objects, key: u64, port: u64) -> Kind {
    let key = bits::Value::truncated(key.into(), 48).to_p4rt_bytes();
    let port = bits::Value::truncated(port.into(), 9).to_p4rt_bytes();
    let does = does(objects.id("forward"), &[&port]);
    Kind::TableEntry(entry(objects.id("exact_table"), vec![exact(1, &key)], does))
}

/// Returns the keys of the entries of `steady`.
async fn keys(client: &mut Client, objects: &Objects) -> Vec<u64> {
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let key = |kind| {
        let Kind::TableEntry(one) = kind else {
            panic!("an entry was asked for")
        };
        let Some(rt::field_match::FieldMatchType::Exact(key)) =
            one.r#match[0].field_match_type.clone()
        else {
            panic!("the key is exact")
        };
        let bytes = key.value.iter();
        bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let read = client.read(all).await;
    let mut keys: Vec<u64> = read.into_iter().map(key).collect();
    keys.sort_unstable();
    keys
}

/// Makes the vPDP `steady` and its program, with the entry that its packets need.
async fn make_steady(switch: &Switch) {
    let create = Change::Create(wire::Create {
        id: 0,
        name: STEADY.to_owned(),
        owner: String::new(),
        ports: vec!["0".to_owned(), "1".to_owned()],
        quotas: Vec::new(),
    });
    let request = wire::ChangeRequest {
        change: Some(create),
    };
    let made = switch.operator().await.change(request).await;
    assert_eq!(made.expect("it is made").into_inner().vpdp, 1);
    let (mut client, _stream) = switch.primary(1).await;
    let text = ALL.replace("size = 16;", "size = 1000000;");
    let loaded = client.load(Action::VerifyAndCommit, &text).await;
    loaded.expect("it loads");
    let objects = Objects::of(&client.config().await);
    client.insert(forwards(&objects, HOST, 1)).await;
}

/// Totals of many kills.
#[derive(Debug, Default)]
struct Totals {
    changes: u64,
    refused: u64,
    entries: u64,
    /// Kills with a change under way that was found done, and undone.
    done: u64,
    undone: u64,
    /// Time from the start of a process to the first forwarded packet.
    resumed: Vec<Duration>,
}

/// Kills the switch this number of times while an operator and a controller change it.
async fn kill(test: &str, times: u64) -> Totals {
    let state = tempfile::tempdir().expect("a directory");
    let mut ends = Ends::open(test);
    let mut rng = Rng::new(7);
    let functions = functions();
    let mut totals = Totals::default();
    let mut switch = Switch::start(test, state.path(), &[]);
    make_steady(&switch).await;
    let mut model = shown(&mut switch.operator().await).await;
    let (mut kept, mut tried, mut before_round) = (0, 0, 0);
    for round in 0..=times {
        ends.carries();
        if round > 0 {
            totals.resumed.push(switch.started.elapsed());
        }
        let mut operator = switch.operator().await;
        let (mut client, _stream) = switch.primary(1).await;
        let objects = Objects::of(&client.config().await);
        let all = keys(&mut client, &objects).await;
        let there = all.len() as u64 - 1;
        let expected: Vec<u64> = [HOST].into_iter().chain(1000..1000 + there).collect();
        assert_eq!(all, expected, "round {round}");
        assert!(
            (kept..=tried).contains(&there),
            "round {round}: {there} are there, {kept} were acknowledged, {tried} were tried"
        );
        totals.entries += there - before_round;
        before_round = there;
        (kept, tried) = (there, there);
        if round == times {
            break;
        }
        let moment = Instant::now() + Duration::from_micros(rng.index(400_000) as u64);
        let before = shown(&mut operator).await;
        assert_eq!(before, model, "round {round}");
        let changing = async {
            let mut model = before;
            loop {
                let change = model.draw(&mut rng, &functions);
                let request = wire::ChangeRequest {
                    change: Some(change.clone()),
                };
                match operator.change(request).await {
                    Ok(_) => {
                        totals.changes += 1;
                        let now = operator.show(wire::ShowRequest::default()).await;
                        let Ok(now) = now else {
                            return (model, change, true);
                        };
                        let now = now.into_inner().into();
                        match now == model {
                            true => assert!(model.may_stay_after(&change), "{change:?}"),
                            false => model.assert_becomes(&now, &change),
                        }
                        model = now;
                    }
                    Err(status) if is_refusal(status.code()) => totals.refused += 1,
                    Err(_) => return (model, change, false),
                }
            }
        };
        let writing = async {
            loop {
                let one = forwards(&objects, 1000 + tried, tried % 500);
                tried += 1;
                let request = client.batch(vec![(Type::Insert, one)]);
                match client.grpc.write(request).await {
                    Ok(_) => kept = tried,
                    Err(_) => return,
                }
            }
        };
        let killing = tokio::task::spawn_blocking(move || {
            std::thread::sleep(moment.saturating_duration_since(Instant::now()));
            switch.kill();
        });
        let ((before, change, is_acknowledged), ()) = tokio::join!(changing, writing);
        killing.await.expect("it is killed");
        switch = Switch::start(test, state.path(), &[]);
        let found = shown(&mut switch.operator().await).await;
        model = found.clone();
        let is_done = found != before;
        assert!(
            !is_acknowledged || is_done || before.may_stay_after(&change),
            "round {round}: {change:?} was acknowledged, and is lost"
        );
        if is_done {
            totals.done += 1;
            before.assert_becomes(&found, &change);
        } else {
            totals.undone += 1;
        }
    }
    totals
}

#[tokio::test]
async fn a_host_that_is_killed_while_it_is_changed_has_all_that_it_acknowledged() {
    let totals = kill("kills", 20).await;
    println!("{totals:?}");
    assert!(totals.changes > 20 && totals.entries > 20, "{totals:?}");
}

/// `cargo test --workspace --test host_state -- --ignored --nocapture`
#[tokio::test]
#[ignore = "takes some minutes"]
async fn a_host_that_is_killed_two_hundred_times_has_all_that_it_acknowledged() {
    let totals = kill("kills200", 200).await;
    let mut resumed = totals.resumed.clone();
    resumed.sort_unstable();
    println!("{totals:?}");
    println!(
        "packets were forwarded again {:?} after the start (median), {:?} at most",
        resumed[resumed.len() / 2],
        resumed[resumed.len() - 1]
    );
    assert!(totals.changes > 200, "{totals:?}");
    assert!(totals.done > 10 && totals.undone > 10, "{totals:?}");
}

#[test]
fn a_directory_of_another_switch_a_damaged_one_and_a_missing_port_are_refused_by_name() {
    let directory = Directory::new("host-state-refused");
    let refused = |options: &[&str], state: &Path| {
        let mut command = command("refused", state, options);
        let said = Running::start(&mut command).finish();
        assert_eq!(said.status, Some(1), "{}", said.err);
        said.err
    };
    let of_serve = directory.0.join("serve");
    let mut serve = polyplane();
    serve.args(["serve", "--p4runtime", "127.0.0.1:0", "--state"]);
    let mut serve = Running::start(serve.arg(&of_serve));
    serve.served_address();
    drop(serve);
    let error = refused(&[], &of_serve);
    assert!(error.contains("polyplane serve or run"), "{error}");

    let state = directory.0.join("host");
    let switch = Switch::start("refused", &state, &[]);
    let address = switch.address.to_string();
    let create = [
        "tenant", "--addr", &address, "create", "blue", "--port", "3",
    ];
    let made = said(&create);
    assert_eq!(made.status, Some(0), "{}", made.err);
    drop(switch);
    let shown = said(&["state", &state.display().to_string()]);
    assert_eq!(shown.status, Some(0), "{}", shown.err);
    assert!(shown.out.contains("vPDP 1 blue"), "{}", shown.out);

    let mut serve = polyplane();
    serve.args(["serve", "--p4runtime", "127.0.0.1:0", "--state"]);
    let serve = Running::start(serve.arg(&state)).finish();
    assert!(serve.err.contains("polyplane host"), "{}", serve.err);

    let mut fewer = polyplane();
    fewer.args(["host", "--p4runtime", "127.0.0.1:0", "--state"]);
    fewer.arg(&state);
    fewer.args(["--port", &format!("0=ring:{}", ring("refused", 0))]);
    let fewer = Running::start(&mut fewer).finish();
    assert!(
        fewer
            .err
            .contains("port 0 of vPDP `blue` is connected to port 3"),
        "{}",
        fewer.err
    );

    let files = std::fs::read_dir(&state).expect("it is there");
    let files = files.map(|file| file.expect("it is there").path());
    let vpdp = files.filter(|file| file.display().to_string().contains("vpdp-"));
    let vpdp: Vec<_> = vpdp.collect();
    assert_eq!(vpdp.len(), 1, "{vpdp:?}");
    let whole = std::fs::read(&vpdp[0]).expect("it is there");
    std::fs::write(&vpdp[0], &whole[..whole.len() / 3]).expect("there is room");
    let error = refused(&[], &state);
    let name = vpdp[0].display().to_string();
    assert!(error.contains("blue") && error.contains(&name), "{error}");
    std::fs::remove_file(&vpdp[0]).expect("it is there");
    let error = refused(&[], &state);
    assert!(error.contains("blue") && error.contains(&name), "{error}");
    std::fs::write(&vpdp[0], &whole).expect("there is room");
    let host = state.join("host.redb");
    std::fs::write(&host, b"something else").expect("there is room");
    let error = refused(&[], &state);
    assert!(error.contains("host.redb"), "{error}");
    std::fs::remove_file(&host).expect("it is there");
    let error = refused(&[], &state);
    assert!(error.contains("host.redb is missing"), "{error}");
}
