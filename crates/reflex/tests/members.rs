//! The shipped example of members in a fabric: each node of the store at a host of its own, and
//! faults of members and of the switch that they change.

mod common;

use std::rc::Rc;
use std::sync::Arc;

use common::{check_counts, device, example, read};
use fabric::topology::{HostId, NodeId, SwitchId};
use fabric::{LoadDevice, Node, Simulation, SwitchNode, Topology};
use packet::Nanos;
use reflex::{
    CommandTarget, ElementIndex, FabricElement, FabricPlane, Loops, MakeMember, ManagedElement,
    MemberNode, MonitorIndex, PlaneDriver, ReflexPlane, SharedDevice,
};

/// Flows that get another way.
const FLOWS: usize = 64;

struct Members {
    simulation: Simulation,
    planes: Vec<FabricPlane>,
    leaf1: SharedDevice,
}

impl Members {
    /// Creates the example. `edit` changes the text of its topology, and that of its loops.
    fn new(edit: impl Fn(String) -> String, loops: impl Fn(String) -> String) -> Members {
        let folder = example("members");
        let fabric = edit(read(&folder.join("fabric.toml")));
        let topology = Topology::read("fabric.toml", &fabric, &folder);
        let topology = topology.unwrap_or_else(|error| panic!("{error}"));
        let loops = Loops::read("loops.toml", &loops(read(&folder.join("loops.toml"))));
        let loops = loops.unwrap_or_else(|error| panic!("{error}"));
        let mut leaf1 = None;
        let simulation = Simulation::new(topology.clone(), &mut |spec| {
            let shared = SharedDevice::new(device(spec));
            if spec.name == "leaf1" {
                leaf1 = Some(shared.clone());
            }
            let again = spec.clone();
            let load: LoadDevice = Box::new(move || Ok(device(&again)));
            let node = SwitchNode::new(shared, spec.service).with_loader(load);
            Ok(Box::new(node) as Box<dyn Node>)
        });
        let mut simulation = simulation.unwrap_or_else(|error| panic!("{error}"));
        let leaf1 = leaf1.expect("the topology has the switch");
        let program = leaf1.with(|device| Arc::clone(device.program()));
        let managed = ManagedElement::new(&loops, ElementIndex(0), &program);
        let managed = managed.unwrap_or_else(|error| panic!("{error}"));
        let element = FabricElement::new(leaf1.clone(), managed);
        let made = loops.clone();
        let checked = topology.clone();
        let make: MakeMember = Rc::new(move |replica| {
            let mut plane = ReflexPlane::with_store(made.clone(), replica);
            plane.set_topology(&checked).expect("it has the element");
            let element = Box::new(element.clone()) as Box<dyn CommandTarget>;
            Ok(PlaneDriver::new(plane, vec![element]))
        });
        let members = MemberNode::all(&loops, &topology, &make);
        let members: Vec<(HostId, MemberNode)> = members.unwrap_or_else(|error| panic!("{error}"));
        let mut planes = Vec::new();
        for (host, member) in members {
            planes.push(member.plane());
            simulation.replace_host(host, Box::new(member)).unwrap();
        }
        Members {
            simulation,
            planes,
            leaf1,
        }
    }

    fn run_until(&mut self, end: Nanos) {
        self.simulation.run_until(end).unwrap();
        self.simulation.check_conservation().unwrap();
    }

    /// Returns the host that leads, by its place, and the voters that it knows.
    fn leader(&self) -> Option<(usize, Vec<usize>)> {
        let leads = |plane: &FabricPlane| {
            let driver = plane.get();
            let store = driver.plane().store();
            let (_, term) = store.leading()?;
            Some((term, store.voters()))
        };
        let all = self.planes.iter().enumerate();
        let leaders = all.filter_map(|(at, plane)| Some((at, leads(plane)?)));
        let newest = leaders.max_by_key(|(_, (term, _))| *term);
        newest.map(|(at, (_, voters))| (at, voters))
    }

    /// Returns the number of entries of the detour table.
    fn entries(&self) -> usize {
        self.leaf1.with(|device| {
            let program = Arc::clone(device.program());
            let mut tables = program.tables.iter();
            let (table, _) = tables
                .find(|(_, table)| &*table.name == "IntIngress.detour")
                .expect("the program has the table");
            device.configuration().tables[table].iter().count()
        })
    }
}

#[test]
fn members_decide_together_while_they_crash_and_a_switch_gets_its_entries_again() {
    let mut members = Members::new(|fabric| fabric, |loops| loops);
    members.run_until(Nanos::from_millis(11));
    let (_, voters) = members.leader().expect("a member leads");
    assert_eq!(voters, [0, 1, 2]);
    // Two of three have a majority at any time.
    members.run_until(Nanos::from_millis(35));
    assert_eq!(members.entries(), FLOWS);
    let (_, mut voters) = members.leader().expect("a member leads");
    voters.sort_unstable();
    assert_eq!(voters, [0, 1, 3], "the spare node has the place of c");
    // The switch is away, then has what the store has.
    members.run_until(Nanos::from_millis(37));
    let (leader, _) = members.leader().expect("a member leads");
    assert!(!members.planes[leader].get().is_connected(ElementIndex(0)));
    members.run_until(Nanos::from_millis(45));
    assert_eq!(members.entries(), FLOWS);
    let (leader, _) = members.leader().expect("a member leads");
    let driver = members.planes[leader].get();
    assert!(driver.is_settled());
    check_counts(driver.plane());
    // The switch lost what came meanwhile, and no other report is missing.
    let leaf1 = members.simulation.tally(NodeId::Switch(SwitchId(0)));
    let lost = leaf1.drops();
    assert!(lost > 0);
    let counts = members.planes[0]
        .get()
        .plane()
        .monitor_counts(MonitorIndex(0));
    assert_eq!(counts.reports, 20_000 - lost);
}

#[test]
fn a_switch_with_a_kept_disk_has_the_entries_of_loops_once() {
    let mut members = Members::new(
        |fabric| {
            let at = fabric
                .rfind("disk = \"lost\"")
                .expect("the last fault has it");
            fabric[..at].to_owned()
        },
        |loops| loops,
    );
    members.run_until(Nanos::from_millis(45));
    assert_eq!(members.entries(), FLOWS);
    let (leader, _) = members.leader().expect("a member leads");
    let driver = members.planes[leader].get();
    let element = driver.element_counts(ElementIndex(0));
    assert_eq!((element.refused, element.unknown), (0, 0), "{element:?}");
    assert!(driver.is_settled());
}

#[test]
fn a_member_without_its_disk_does_not_come_back_under_its_name() {
    let mut members = Members::new(
        |fabric| fabric,
        |loops| {
            let without = loops.lines().filter(|line| !line.starts_with("spares"));
            without.collect::<Vec<_>>().join("\n")
        },
    );
    let error = members
        .simulation
        .run_until(Nanos::from_millis(30))
        .expect_err("it lost its votes");
    let message = error.to_string();
    assert!(message.contains("m3"), "{message}");
    assert!(message.contains("vote twice"), "{message}");
}

#[test]
fn equal_seeds_give_equal_members() {
    let run = || {
        let mut members = Members::new(|fabric| fabric, |loops| loops);
        members.run_until(Nanos::from_millis(30));
        let driver = members.planes[0].get();
        let decisions: Vec<_> = driver.plane().decisions().copied().collect();
        (decisions, members.leader())
    };
    let first = run();
    assert!(!first.0.is_empty());
    assert!(first == run());
}

#[test]
fn members_with_clocks_that_deviate_decide_as_before() {
    let clocks = "
[[fault]]
clock = \"m2\"
ahead = \"3 ms\"
drift = 0.2
at = \"2 ms\"

[[fault]]
clock = \"m3\"
drift = -0.2
at = \"2 ms\"
until = \"30 ms\"
";
    let mut members = Members::new(
        |fabric| fabric + clocks,
        |loops| loops.replace("[store]", "[store]\nreads = \"lease\"\nclock_drift = 200"),
    );
    members.run_until(Nanos::from_millis(45));
    assert_eq!(members.entries(), FLOWS);
    let (leader, _) = members.leader().expect("a member leads");
    assert!(members.planes[leader].get().is_settled());
}
