//! Power cuts of a switch that hosts virtual data planes and keeps them on simulated disks.

#[path = "../../store/tests/store/disk.rs"]
#[allow(dead_code, reason = "the tests of `store` use the rest")]
mod disk;
#[path = "../../cli/tests/lab/host_model.rs"]
mod host_model;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use disk::{Power, SimulatedDisk};
use host_model::{Model, is_refusal};
use p4info::p4::v1 as rt;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4rt::Urgency;
use p4rt::client::{Client, ClientError, Endpoint, Operator};
use packet::PortId;
use passes::slots::SlotPlan;
use port::{MemoryPort, OpenedPort};
use runtime::WorkerConfig;
use runtime::tenancy_host::{ControlLoop, HostOptions, OperatorServer, StoredHost};
use store::{Builder, Database, DatabaseError, HostFiles, Medium, OpenError};
use support::rng::Rng;
use switch::{KeptCells, StorageError};

/// Number of ports of the switch.
const PORTS: u32 = 4;

/// Files of a switch on disks with one power supply. A file without a disk does not exist.
#[derive(Clone, Debug, Default)]
struct Files {
    power: Power,
    all: Arc<Mutex<BTreeMap<Option<u64>, SimulatedDisk>>>,
}

/// A file: that of the switch, or that of a vPDP.
#[derive(Debug)]
struct OneFile {
    files: Files,
    name: Option<u64>,
}

impl Files {
    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<Option<u64>, SimulatedDisk>> {
        self.all.lock().expect("no other thread panics")
    }

    /// Returns the files after a power failure.
    fn after_cut(&self, rng: &mut Rng) -> Files {
        let files = Files::default();
        for (name, disk) in &*self.all() {
            let disk = disk.after_cut(|bound| rng.index(bound));
            files.all().insert(*name, disk.powered_by(&files.power));
        }
        files
    }
}

impl Medium for OneFile {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        let disk = self.files.all().get(&self.name).cloned();
        // A file that does not exist is an error, as a disk without power is.
        let missing = || {
            let off = Power::default();
            off.cut_after(0);
            SimulatedDisk::default().powered_by(&off)
        };
        builder.create_with_backend(disk.unwrap_or_else(missing))
    }

    fn create(&self) -> Result<(), StorageError> {
        if self.files.all().contains_key(&self.name) {
            return Ok(());
        }
        let spent = self.files.power.spend();
        spent.map_err(|error| StorageError {
            is_full: false,
            message: error.to_string(),
        })?;
        let disk = SimulatedDisk::new().synced().powered_by(&self.files.power);
        self.files.all().insert(self.name, disk);
        Ok(())
    }

    fn name(&self) -> String {
        format!("the file {:?}", self.name)
    }
}

impl HostFiles for Files {
    fn place(&self) -> String {
        "the simulated disks".to_owned()
    }

    fn host(&self) -> Box<dyn Medium> {
        let (files, name) = (self.clone(), None);
        Box::new(OneFile { files, name })
    }

    fn vpdp(&self, file: u64) -> Box<dyn Medium> {
        let (files, name) = (self.clone(), Some(file));
        Box::new(OneFile { files, name })
    }

    fn vpdps(&self) -> Result<Vec<u64>, OpenError> {
        Ok(self.all().keys().copied().flatten().collect())
    }

    fn remove_vpdp(&self, file: u64) -> Result<(), OpenError> {
        if self.power.spend().is_ok() {
            self.all().remove(&Some(file));
        }
        Ok(())
    }
}

/// A switch on a thread of its own, without workers.
struct Switch {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    fn start(files: &Files) -> Switch {
        let (tell, told) = std::sync::mpsc::channel();
        let is_over = Arc::<AtomicBool>::default();
        let (files, ends) = (files.clone(), Arc::clone(&is_over));
        let work = move || {
            let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
            let server = OperatorServer::start(address.into(), Urgency::AsWorkers);
            let server = server.expect("a free port");
            let address = server.address();
            let port = |number| {
                let port = PortId(number);
                let (near, _far) = MemoryPort::pair(port, port, 4);
                OpenedPort::new(Box::new(near), "memory", 1).expect("one share")
            };
            let options = HostOptions {
                engine: Arc::new(interp::Interp),
                workers: WorkerConfig::default(),
                slots: SlotPlan::default(),
                is_fair: false,
            };
            let ports = (0..PORTS).map(port).collect();
            let mut switch = ControlLoop::new(ports, server, options).expect("descriptors");
            let stored = StoredHost::of(Arc::new(files), KeptCells::default());
            switch
                .keep_in(stored.expect("it can be read"))
                .expect("it fits");
            tell.send(address).expect("the test waits");
            while !ends.load(Ordering::Relaxed) {
                if !switch.turn(&mut |_| {}) {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        };
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(work);
        Switch {
            thread: Some(thread.expect("a thread")),
            address: told.recv().expect("it starts"),
            is_over,
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.address.to_string(),
            tls: None,
        }
    }

    fn operator(&self) -> Operator {
        Operator::connect(&self.endpoint()).expect("it is served")
    }

    /// Lets a controller set a program.
    fn set_config(&self, device: u32, text: &str) -> Result<(), ClientError> {
        let mut client = Client::connect(&self.endpoint(), device.into(), "")?;
        client.arbitrate(Some(1))?;
        let config = rt::ForwardingPipelineConfig {
            p4_device_config: text.as_bytes().to_vec(),
            ..Default::default()
        };
        client.set_config(Action::VerifyAndCommit, config, &[])
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(
                ended.is_some_and(|ended| ended.is_ok()),
                "the switch panics"
            );
        }
    }
}

fn shown(operator: &mut Operator) -> Model {
    let shown = operator.show(wire::ShowRequest::default());
    shown.expect("it is shown").into()
}

/// A program that drops everything, with this many entries.
fn program(entries: usize) -> String {
    let entry = |number: usize| format!("{number} : drop();");
    let entries: Vec<String> = (0..entries).map(entry).collect();
    format!(
        "#include <core.p4>
#include <v1model.p4>
struct none_t {{ }}
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
control C(inout none_t h, inout none_t m) {{ apply {{ }} }}
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) {{
    action drop() {{ mark_to_drop(s); }}
    table ports {{ key = {{ s.ingress_port : exact; }} actions = {{ drop; }} const entries = {{ {} }} }}
    apply {{ ports.apply(); }}
}}
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in none_t h) {{ apply {{ }} }}
V1Switch(P(), C(), I(), E(), C(), D()) main;
",
        entries.join(" ")
    )
}

/// Counts over many power cuts.
#[derive(Debug, Default)]
struct Totals {
    changes: u64,
    configs: u64,
    cuts: u64,
    done: u64,
    undone: u64,
}

/// Changes a switch until the power fails, and again after that.
fn cut(seed: u64, totals: &mut Totals) {
    let mut rng = Rng::new(seed);
    let mut files = Files::default();
    let mut model = Model::default();
    let text = |entries| wire::Function {
        function: Some(wire::function::Function::Program(program(entries))),
    };
    let functions = [text(1), text(2)];
    for _ in 0..3 {
        let switch = Switch::start(&files);
        let mut operator = switch.operator();
        assert_eq!(shown(&mut operator), model, "seed {seed}");
        files.power.cut_after(rng.index(400) as u32);
        let mut under_way = None;
        for _ in 0..60 {
            let changed = model.changed();
            if rng.index(6) == 0 && !changed.is_empty() {
                let (name, device) = changed[rng.index(changed.len())].clone();
                let set = switch.set_config(device, &program(3 + rng.index(2)));
                if set.is_err() {
                    assert_eq!(shown(&mut operator), model, "seed {seed}: {name}");
                    totals.cuts += 1;
                    under_way = Some(Change::SetProgram(wire::SetProgram {
                        vpdp: name,
                        ..Default::default()
                    }));
                    break;
                }
                totals.configs += 1;
                model = shown(&mut operator);
                continue;
            }
            let change = model.draw(&mut rng, &functions);
            match operator.change(change.clone()) {
                Ok(_) => {
                    totals.changes += 1;
                    let now = shown(&mut operator);
                    match now == model {
                        true => assert!(model.may_stay_after(&change), "seed {seed}: {change:?}"),
                        false => model.assert_becomes(&now, &change),
                    }
                    model = now;
                }
                Err(ClientError::Refused(error)) if is_refusal(error.code) => {}
                Err(_) => {
                    // It was undone in memory.
                    assert_eq!(shown(&mut operator), model, "seed {seed}: {change:?}");
                    totals.cuts += 1;
                    under_way = Some(change);
                    break;
                }
            }
        }
        drop(operator);
        drop(switch);
        files = files.after_cut(&mut rng);
        // A change that was refused because the power was off may be on the disk, as a whole.
        let again = Switch::start(&files);
        let found = shown(&mut again.operator());
        match (found == model, under_way) {
            (true, _) => totals.undone += 1,
            (false, Some(change)) => {
                totals.done += 1;
                model.assert_becomes(&found, &change);
            }
            (false, None) => assert_eq!(found, model, "seed {seed}"),
        }
        model = found;
    }
}

fn cuts(seeds: std::ops::Range<u64>) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        cut(seed, &mut totals);
    }
    println!("{totals:?}");
    totals
}

#[test]
fn a_power_cut_leaves_every_change_of_a_host_that_was_acknowledged_and_no_half_of_another() {
    let totals = cuts(0..4);
    assert!(totals.cuts > 4 && totals.configs > 4, "{totals:?}");
}

/// Returns the code of a refusal.
fn refusal(changed: Result<wire::ChangeResponse, ClientError>) -> p4rt::Code {
    match changed {
        Err(ClientError::Refused(error)) => error.code,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn a_full_disk_refuses_changes_of_a_host_until_there_is_room() {
    let files = Files::default();
    let switch = Switch::start(&files);
    let mut operator = switch.operator();
    let create = Change::Create(wire::Create {
        name: "blue".to_owned(),
        ..Default::default()
    });
    operator.change(create).expect("there is room");
    let share = Change::Share(wire::Share {
        port: 3,
        sharing: "rules".to_owned(),
    });
    operator.change(share).expect("there is room");
    let fill = |files: &Files| files.all().values().for_each(|disk| disk.fill(0));
    let make_room = |files: &Files| files.all().values().for_each(SimulatedDisk::make_room);
    let load = |entries| {
        Change::SetProgram(wire::SetProgram {
            vpdp: "blue".to_owned(),
            function: Some(wire::Function {
                function: Some(wire::function::Function::Program(program(entries))),
            }),
            may_lose: Vec::new(),
        })
    };
    let before = shown(&mut operator);
    let (_, blue) = before.changed()[0].clone();
    let mut controller =
        Client::connect(&switch.endpoint(), blue.into(), "").expect("it is served");
    controller.arbitrate(Some(1)).expect("there is no other");
    fill(&files);
    let code = refusal(operator.change(load(500)));
    assert_eq!(code, p4rt::Code::ResourceExhausted);
    assert_eq!(shown(&mut operator), before);
    make_room(&files);
    // The refused program has not ended the session.
    let config = rt::ForwardingPipelineConfig {
        p4_device_config: program(7).into_bytes(),
        ..Default::default()
    };
    let set = controller.set_config(Action::VerifyAndCommit, config, &[]);
    set.expect("it is still the primary one");
    operator.change(load(400)).expect("there is room");
    let loaded = shown(&mut operator);
    assert_ne!(loaded, before);

    // Rules fill the file of the switch.
    fill(&files);
    let rule = |number: usize| {
        let name = "r".repeat(250);
        Change::AddRule(format!(
            "{name}{number}: port 3 and eth.dst 02:00:00:00:{:02x}:{:02x} -> blue",
            number >> 8,
            number & 0xff
        ))
    };
    let mut last = loaded;
    let (number, code) = (0..2000)
        .find_map(|number| match operator.change(rule(number)) {
            Ok(_) => {
                last = shown(&mut operator);
                None
            }
            refused => Some((number, refusal(refused))),
        })
        .expect("the disk has an end");
    assert_eq!(code, p4rt::Code::ResourceExhausted);
    assert_eq!(shown(&mut operator), last, "rule {number}");
    make_room(&files);
    operator.change(rule(number)).expect("there is room");
    let all = shown(&mut operator);
    assert_ne!(all, last);
    drop(operator);
    drop(switch);
    let switch = Switch::start(&files);
    assert_eq!(shown(&mut switch.operator()), all);
}

#[test]
fn a_change_that_is_refused_after_it_is_durable_is_undone_on_the_disk() {
    let create = |name: &str| {
        Change::Create(wire::Create {
            name: name.to_owned(),
            ..Default::default()
        })
    };
    let changes = [
        create("red"),
        Change::Delete("blue".to_owned()),
        Change::Suspend("blue".to_owned()),
        Change::Share(wire::Share {
            port: 3,
            sharing: "rules".to_owned(),
        }),
    ];
    // With two errors the first attempt to undo it fails as well, and the next change undoes it.
    for (change, errors) in changes.iter().flat_map(|change| [(change, 1), (change, 2)]) {
        let files = Files::default();
        let switch = Switch::start(&files);
        let mut operator = switch.operator();
        operator.change(create("blue")).expect("there is room");
        let mut before = shown(&mut operator);
        files.all()[&None].fail_after_syncs(errors);
        let code = refusal(operator.change(change.clone()));
        assert_eq!(code, p4rt::Code::Internal, "{change:?}");
        assert_eq!(shown(&mut operator), before, "{change:?}");
        if errors > 1 {
            operator.change(create("green")).expect("there is room");
            before = shown(&mut operator);
        }
        drop(operator);
        drop(switch);
        let switch = Switch::start(&files);
        assert_eq!(shown(&mut switch.operator()), before, "{change:?}");
    }
}

/// `cargo test --workspace --test host_power -- --ignored --nocapture`
#[test]
#[ignore = "takes some minutes"]
fn hundreds_of_power_cuts_leave_every_change_of_a_host_that_was_acknowledged() {
    let totals = cuts(1000..1200);
    assert!(totals.cuts > 200 && totals.done > 0, "{totals:?}");
}
