//! Topologies of tests.

use std::fmt::Write;
use std::path::Path;

use fabric::Topology;
use support::rng::Rng;

fn read(text: &str) -> Topology {
    Topology::read("case", text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

fn add_switch(text: &mut String, name: &str, slots: u64) {
    writeln!(text, "[[switch]]\nname = \"{name}\"\nslots = {slots}").expect("a string can grow");
}

fn add_link(text: &mut String, a: &str, b: &str) {
    writeln!(text, "[[link]]\nends = [\"{a}\", \"{b}\"]").expect("a string can grow");
}

fn add_host(text: &mut String, number: usize, switch: &str) {
    writeln!(
        text,
        "[[host]]\nname = \"h{number}\"\nmac = \"02:00:00:00:01:{number:02x}\"\n\
         ip = \"10.0.0.{}/16\"",
        number + 1
    )
    .expect("a string can grow");
    add_link(text, &format!("h{number}"), switch);
}

/// Returns a connected topology of up to `most` switches, with slots for a few reductions.
pub(crate) fn random_topology(rng: &mut Rng, most: u64, hosts: usize) -> Topology {
    let switches = rng.between(1, most) as usize;
    let mut text = String::new();
    for switch in 0..switches {
        let slots = [0, 20, 40, 60, 80, 120][rng.index(6)];
        add_switch(&mut text, &format!("s{switch}"), slots);
    }
    let mut ports = vec![0; switches];
    let mut port = |switch: usize| {
        ports[switch] += 1;
        format!("s{switch}:{}", ports[switch])
    };
    for switch in 1..switches {
        let other = rng.index(switch);
        add_link(&mut text, &port(switch), &port(other));
    }
    for _ in 0..rng.below(switches as u64) {
        let (a, b) = (rng.index(switches), rng.index(switches));
        if a != b {
            add_link(&mut text, &port(a), &port(b));
        }
    }
    for host in 0..hosts {
        add_host(&mut text, host, &port(rng.index(switches)));
    }
    read(&text)
}

/// Returns a fat-tree of switches with `k` ports.
pub(crate) fn fat_tree(k: usize) -> Topology {
    let half = k / 2;
    let mut text = String::new();
    for core in 0..half * half {
        add_switch(&mut text, &format!("core{core:02}"), 100_000);
    }
    for pod in 0..k {
        for number in 0..half {
            let (edge, spine) = (
                format!("edge{pod}_{number}"),
                format!("spine{pod}_{number}"),
            );
            add_switch(&mut text, &edge, 100_000);
            add_switch(&mut text, &spine, 100_000);
            for port in 0..half {
                let host = (pod * half + number) * half + port;
                add_host(&mut text, host, &format!("{edge}:{port}"));
                let core = number * half + port;
                let up = half + port;
                add_link(
                    &mut text,
                    &format!("{spine}:{up}"),
                    &format!("core{core:02}:{pod}"),
                );
                add_link(
                    &mut text,
                    &format!("{edge}:{up}"),
                    &format!("spine{pod}_{port}:{number}"),
                );
            }
        }
    }
    read(&text)
}
