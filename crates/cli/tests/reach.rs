//! Text that arrives over gRPC cannot access files of the switch's machine. Each message with
//! text, from each kind of client, is answered as if no files existed.

mod lab;

use std::process::{Command, Stdio};

use lab::authority::Authority;
use lab::cables::Cables;
use lab::{Directory, Running, example, polyplane};
use p4info::p4::v1 as rt;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4info::polyplane::tenancy::v1::edit_stage::Edit;
use p4info::polyplane::tenancy::v1::function::Function as OneFunction;
use p4rt::client::{Client, Endpoint, Operator, Tls};

/// An existing file, and a name of the same length without a file.
const THERE: &str = "secret.p4";
const MISSING: &str = "absent.p4";

/// Text that no answer may contain: text of the file, and names of files beside it.
const LEAKS: [&str; 3] = ["key_of_the_switch", "listed_beside", "/etc/"];

/// A running server with its clients' certificates.
struct Served {
    _running: Running,
    address: String,
    directory: Directory,
    authority: Option<Authority>,
}

impl Served {
    /// Starts `command` beside the file, with TLS if there is an authority.
    fn start(mut command: Command, test: &str, authority: Option<Authority>) -> Served {
        let directory = Directory::new(test);
        directory.with(THERE, "const bit<8> key_of_the_switch = 42;\n");
        directory.with("listed_beside.p4", "");
        command.current_dir(&directory.0).stderr(Stdio::piped());
        if let Some(authority) = &authority {
            let (certificate, key) = authority.of_host("localhost");
            command
                .args(["--tls-cert", &directory.with("cert.pem", certificate)])
                .args(["--tls-key", &directory.with("key.pem", key)])
                .args(["--tls-client-ca", &directory.with("ca.pem", &authority.pem)])
                .args(["--allow", "owner=*", "--allow", "reader"])
                .args(["--allow", "part=one"]);
        }
        let mut running = Running::start(&mut command);
        let address = running.served_address();
        Served {
            _running: running,
            address,
            directory,
            authority,
        }
    }

    /// Returns the clients: those with these certificates, or one without.
    fn clients(&self, names: &[&str]) -> Vec<(String, Endpoint)> {
        let endpoint = |tls| Endpoint {
            address: self.address.clone(),
            tls,
        };
        let Some(authority) = &self.authority else {
            return vec![("no TLS".to_owned(), endpoint(None))];
        };
        let client = |name: &&str| {
            let (certificate, key) = authority.of_person(name);
            let tls = Tls {
                ca: authority.pem.clone().into(),
                identity: Some((certificate.into(), key.into())),
                name: Some("localhost".to_owned()),
            };
            (name.to_string(), endpoint(Some(tls)))
        };
        names.iter().map(client).collect()
    }

    /// Returns names by which a text may try to access the file.
    fn targets(&self) -> Vec<String> {
        let absolute = self.directory.file(THERE);
        let (_, inner) = absolute.split_once('/').unwrap();
        let up = format!("../../../../../../{inner}");
        vec![absolute, THERE.to_owned(), format!("./{THERE}"), up]
    }

    /// Compares the answers for the file with those for a missing file.
    fn check(&self, who: &str, message: &str, ask: &mut dyn FnMut(&str) -> String) {
        for target in self.targets() {
            let of_there = ask(&target);
            let of_missing = ask(&target.replace(THERE, MISSING));
            let same = of_there.replace(THERE, MISSING);
            assert_eq!(same, of_missing, "{who}: {message}: {target}");
            for leak in LEAKS {
                assert!(!of_there.contains(leak), "{who}: {message}: {of_there}");
            }
        }
    }
}

/// Returns programs that try to read `target`.
fn programs(target: &str) -> Vec<String> {
    vec![
        format!("#include \"{target}\"\n"),
        format!("#include <{target}>\n"),
        format!("#define F \"{target}\"\n#include F\n"),
        format!("#define S(x) #x\n#define F(x) S(x)\n#include F({target})\n"),
        format!("#line 1 \"{target}\"\n#include __FILE__\nnonsense\n"),
        format!("#include_next \"{target}\"\n"),
        format!("#import \"{target}\"\n"),
        format!("#include <core.p4>\n#include \"{target}\"\n#include \"{target}x\"\n"),
        format!("program {target}\n"),
        format!("program \"{target}\"\nfile 0 \"{target}\"\n"),
        target.to_owned(),
    ]
}

fn config(text: &str) -> rt::ForwardingPipelineConfig {
    rt::ForwardingPipelineConfig {
        p4_device_config: text.into(),
        ..Default::default()
    }
}

/// Sends each P4Runtime message that contains text.
fn try_controllers(served: &Served, names: &[&str], device: u64) {
    for (who, endpoint) in served.clients(names) {
        let mut client = Client::connect(&endpoint, device, "").unwrap();
        // A reader cannot be primary; the request is sent all the same.
        let _ = client.arbitrate(Some(7));
        for action in [
            Action::Verify,
            Action::VerifyAndSave,
            Action::VerifyAndCommit,
            Action::ReconcileAndCommit,
        ] {
            served.check(&who, &format!("{action:?}"), &mut |target| {
                let answers = programs(target).into_iter().map(|program| {
                    let answer = client.set_config(action, config(&program), &[]);
                    assert!(answer.is_err(), "{who}: {action:?}: {program}");
                    format!("{answer:?}\n")
                });
                answers.collect()
            });
        }
        let router = std::fs::read_to_string(example("router/router.p4")).unwrap();
        served.check(&who, "P4Info", &mut |target| {
            let name = || target.to_owned();
            let preamble = p4info::p4::config::v1::Preamble {
                id: 0x0200_0001,
                name: name(),
                alias: name(),
                annotations: vec![format!("@include(\"{target}\")")],
                ..Default::default()
            };
            let table = p4info::p4::config::v1::Table {
                preamble: Some(preamble),
                ..Default::default()
            };
            let mut config = config(&router);
            config.p4info = Some(p4info::p4::config::v1::P4Info {
                tables: vec![table],
                ..Default::default()
            });
            format!("{:?}", client.set_config(Action::Verify, config, &[]))
        });
        served.check(&who, "may-lose", &mut |target| {
            let lost = [target.to_owned()];
            let answer = client.set_config(Action::Verify, config("nonsense"), &lost);
            format!("{answer:?}")
        });
        served.check(&who, "role", &mut |target| {
            let mut client = Client::connect(&endpoint, device, target).unwrap();
            let arbitrated = client.arbitrate(Some(9));
            let set = client.set_config(Action::Verify, config("nonsense"), &[]);
            format!("{arbitrated:?} {set:?}")
        });
    }
}

fn change(operator: &mut Operator, change: Change) -> String {
    format!("{:?}\n", operator.change(change))
}

fn function(function: OneFunction) -> Option<wire::Function> {
    Some(wire::Function {
        function: Some(function),
    })
}

/// Returns functions that contain a program, or the name of one.
fn functions(text: &str, target: &str) -> Vec<OneFunction> {
    let chain = |policy: &str, name: &str| {
        OneFunction::Chain(wire::Chain {
            policy: policy.to_owned(),
            programs: [(name.to_owned(), text.to_owned())].into(),
        })
    };
    vec![
        OneFunction::Program(text.to_owned()),
        chain("a -> b", "a"),
        chain(&format!("a = \"{target}\" -> b = {target}"), "a"),
        chain(&format!("{target} -> \"{target}\""), target),
    ]
}

/// Sends each message of the tenancy service that contains text.
fn try_operators(served: &Served, names: &[&str]) {
    for (who, endpoint) in served.clients(names) {
        let mut operator = Operator::connect(&endpoint).unwrap();
        served.check(&who, "SetProgram and Import", &mut |target| {
            let mut answers = String::new();
            for text in programs(target) {
                for one in functions(&text, target) {
                    let asked = wire::SetProgram {
                        vpdp: "one".to_owned(),
                        function: function(one.clone()),
                        may_lose: vec![target.to_owned()],
                    };
                    answers += &change(&mut operator, Change::SetProgram(asked));
                    let exported = wire::Exported {
                        name: "two".to_owned(),
                        function: function(one.clone()),
                        before: function(one),
                        ..Default::default()
                    };
                    answers += &change(&mut operator, Change::Import(exported));
                }
            }
            answers
        });
        served.check(&who, "EditStage", &mut |target| {
            let mut answers = String::new();
            for text in programs(target) {
                for edit in [Edit::Replace, Edit::AddBefore, Edit::AddAfter] {
                    let donor = wire::Donor {
                        program: text.clone(),
                        stage: target.to_owned(),
                        prefix: target.to_owned(),
                        step: target.to_owned(),
                    };
                    let asked = wire::EditStage {
                        vpdp: "one".to_owned(),
                        stage: "ingress.mac".to_owned(),
                        edit: Some(edit(donor)),
                    };
                    answers += &change(&mut operator, Change::EditStage(asked));
                }
            }
            answers
        });
        served.check(&who, "names and other texts", &mut |target| {
            let text = || target.to_owned();
            let port = || wire::VirtualPort {
                vpdp: text(),
                port: 0,
            };
            let one = || "one".to_owned();
            let changes = [
                Change::Create(wire::Create {
                    name: text(),
                    ..Default::default()
                }),
                Change::Create(wire::Create {
                    name: one(),
                    owner: text(),
                    ..Default::default()
                }),
                Change::Create(wire::Create {
                    name: "three".to_owned(),
                    ports: vec![text()],
                    ..Default::default()
                }),
                Change::Create(wire::Create {
                    name: "three".to_owned(),
                    quotas: vec![text()],
                    ..Default::default()
                }),
                Change::Delete(text()),
                Change::Suspend(text()),
                Change::Resume(text()),
                Change::RollBack(text()),
                Change::RemoveProgram(text()),
                Change::Connect(wire::Connect {
                    port: Some(port()),
                    physical: Some(0),
                }),
                Change::Link(wire::Link {
                    one: Some(port()),
                    other: Some(port()),
                }),
                Change::Unlink(port()),
                Change::Share(wire::Share {
                    port: 0,
                    sharing: text(),
                }),
                Change::AddRule(text()),
                Change::AddRule(format!("{target}: in 0 -> one")),
                Change::RemoveRule(text()),
                Change::SetQuotas(wire::SetQuotas {
                    vpdp: one(),
                    quotas: vec![text(), format!("entries={target}")],
                }),
                Change::Import(wire::Exported {
                    name: text(),
                    owner: text(),
                    quotas: vec![text()],
                    ..Default::default()
                }),
                Change::Import(wire::Exported {
                    name: "two".to_owned(),
                    objects: vec![wire::Kept {
                        place: text().into(),
                        object: text().into(),
                    }],
                    ..Default::default()
                }),
            ];
            let answers = changes.map(|asked| change(&mut operator, asked));
            let show = |export| wire::ShowRequest {
                vpdp: text(),
                export,
                slots: true,
            };
            let shown = [false, true].map(|export| format!("{:?}\n", operator.show(show(export))));
            answers.concat() + &shown.concat()
        });
    }
}

fn serve() -> Command {
    let mut command = polyplane();
    command.args(["serve", "--p4runtime", "127.0.0.1:0"]);
    command
}

#[test]
fn a_controller_without_tls_learns_nothing_of_files() {
    let served = Served::start(serve(), "reach-plain", None);
    try_controllers(&served, &[], 1);
}

#[test]
fn owners_and_readers_of_a_switch_learn_nothing_of_files() {
    let served = Served::start(serve(), "reach-tls", Some(Authority::new()));
    try_controllers(&served, &["owner", "reader", "part"], 1);
}

/// Starts a switch that hosts one vPDP, `one`, with a program.
fn host(test: &str, authority: Option<Authority>, cables: &Cables) -> Served {
    let mut command = polyplane();
    command.args(["host", "--p4runtime", "127.0.0.1:0", "--port", "0=port0"]);
    let served = Served::start(command, test, authority);
    let (_, endpoint) = served.clients(&["owner"]).remove(0);
    let mut operator = Operator::connect(&endpoint).unwrap();
    let create = wire::Create {
        name: "one".to_owned(),
        owner: "tenant".to_owned(),
        ..Default::default()
    };
    operator.change(Change::Create(create)).unwrap();
    let router = std::fs::read_to_string(example("router/router.p4")).unwrap();
    let asked = wire::SetProgram {
        vpdp: "one".to_owned(),
        function: function(OneFunction::Program(router)),
        may_lose: Vec::new(),
    };
    operator.change(Change::SetProgram(asked)).unwrap();
    assert!(!cables.ends.is_empty());
    served
}

#[test]
fn operators_and_tenants_without_tls_learn_nothing_of_files() {
    let Some(cables) = Cables::new(1) else { return };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let run = || {
        let served = host("reach-host-plain", None, &cables);
        try_operators(&served, &[]);
        try_controllers(&served, &[], 1);
    };
    cables.switch.run(run).unwrap();
}

#[test]
fn operators_tenants_and_readers_with_certificates_learn_nothing_of_files() {
    let Some(cables) = Cables::new(1) else { return };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let run = || {
        let served = host("reach-host-tls", Some(Authority::new()), &cables);
        try_operators(&served, &["owner", "tenant", "reader"]);
        try_controllers(&served, &["owner", "tenant", "reader"], 1);
    };
    cables.switch.run(run).unwrap();
}
