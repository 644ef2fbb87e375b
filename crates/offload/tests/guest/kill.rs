//! Processes that are killed between two rules: the next start ends with no rule that is not
//! wanted, and those of others are untouched.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use offload::tc::TcTarget;
use support::rng::Rng;

use crate::bed::{Bed, run};
use crate::target::{Rig, options, to};

/// Number of processes that are killed.
const KILLS: u64 = 200;

/// Line that a process prints after its first rules.
const READY: &str = "there are rules";

/// Adds, replaces and removes rules until it is killed. Without the variable it does nothing.
#[test]
#[ignore = "a process of the test below"]
fn child_that_is_killed() {
    let Ok(seed) = std::env::var("POLYPLANE_GUEST_KILLED") else {
        return;
    };
    let mut rng = Rng::new(seed.parse().expect("a number"));
    let mut rig = Rig::open(options());
    let mut next = 1;
    let mut there: Vec<(u64, u8)> = Vec::new();
    loop {
        if next == 5 {
            println!("{READY}");
        }
        let last = rng.below(200) as u8;
        let port = 1 + rng.below(3) as u32;
        let known = there.iter().position(|(_, key)| *key == last);
        match known {
            None => {
                rig.add(vec![(next, to(last, port))]);
                rig.wait(1);
                there.push((next, last));
                next += 1;
            }
            Some(at) if rng.one_in(2) => {
                rig.replace(there[at].0, next, to(last, port));
                rig.wait(2);
                there[at].0 = next;
                next += 1;
            }
            Some(at) => {
                rig.remove(&[there.swap_remove(at).0]);
                rig.wait(1);
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_no_rule_after_the_next_start_and_others_are_untouched() {
    let Some(mut bed) = Bed::open() else { return };
    for (priority, protocol) in [("7", "ip"), ("1003", "ipv6"), ("2000", "ip")] {
        let words = [
            "filter", "add", "dev", "nic0", "ingress", "protocol", protocol, "prio",
        ];
        let rest = [priority, "flower", "action", "drop", "cookie", "0badcafe"];
        run("tc", &[&words[..], &rest].concat());
    }
    let text = || run("tc", &["filter", "show", "dev", "nic0", "ingress"]);
    let others = text();
    assert_eq!(others.matches("cookie 0badcafe").count(), 3, "{others}");
    let mut rng = Rng::new(47);
    let (mut left, mut with_rules) = (0, 0);
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("the test program"))
            .args([
                "kill::child_that_is_killed",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env("POLYPLANE_GUEST_KILLED", kill.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains(READY)),
            "the process does not start"
        );
        std::thread::sleep(Duration::from_micros(rng.below(40_000)));
        child.kill().expect("the process runs");
        child.wait().expect("the process has ended");
        let there = bed
            .session
            .dump(bed.nic, None)
            .expect("rules can be listed");
        let own = there.len() as u64 - 3;
        // The next start.
        let target = TcTarget::open(options()).expect("the target opens");
        assert_eq!(text(), others, "kill {kill}");
        assert_eq!(target.report().counts.removed_at_start, own);
        left += own;
        with_rules += u64::from(own > 0);
        target.close().expect("nothing is left");
    }
    assert!(
        with_rules > KILLS * 9 / 10,
        "{with_rules} of {KILLS} left rules"
    );
    println!("{KILLS} processes killed, {with_rules} of them left {left} rules");
    assert_eq!(text(), others);
}
