//! `polyplane aggregate serve` with agents and a switch: all processes of a site, each host in a
//! network namespace.

mod lab;

use std::time::{Duration, Instant};

use lab::site::{HOSTS, NAMED, REDUCER, Site, address};
use lab::{Directory, Running, Said, polyplane, said};
use support::rng::Rng;

#[test]
fn a_site_runs_jobs_and_shows_them_and_forgets_them() {
    let Some(mut site) = Site::start("site", 100_000_000, &[]) else {
        return;
    };
    let job = site.job("words", 400, 200);
    let ran = site.run(&job);
    assert_eq!(ran.status, Some(0), "{}\n{}", ran.err, ran.out);
    let outcome = &ran.json()[0];
    assert_eq!(outcome["is_verified"], true);
    assert!(outcome["absorbed"].as_u64() > Some(0), "{outcome}");
    assert_eq!(outcome["attempts"], 1);
    site.is_clean();
    let jobs = site.ask(&["jobs", "--json"]);
    assert_eq!(jobs.status, Some(0), "{}", jobs.err);
    let jobs = jobs.json();
    let last = jobs.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["state"], "complete", "{jobs}");
    let number = last["number"].to_string();
    let shown = site.ask(&["show", &number]);
    assert!(shown.out.contains("switches: tor"), "{}", shown.out);

    // Direct, and two at once.
    let socket = site.socket("master.sock");
    let words = [
        "aggregate",
        "run",
        &job,
        "--master",
        &socket,
        "--json",
        "--scheme",
        "direct",
    ];
    let direct = said(&words);
    assert_eq!(direct.status, Some(0), "{}", direct.err);
    assert_eq!(direct.json()[0]["result"], outcome["result"]);
    // Beside a job that reduces, the program stays, and entries of paths come and go.
    let beside = site.job("beside", 16_000, 500);
    let running = site.submit(&beside);
    wait_for_step(&site, "reduces");
    let direct = said(&words);
    assert_eq!(direct.status, Some(0), "{}", direct.err);
    let reduced = running.finish();
    assert_eq!(reduced.status, Some(0), "{}\n{}", reduced.err, reduced.out);
    assert_eq!(reduced.json()[0]["is_verified"], true);
    let both = [site.submit(&job), site.submit(&job)];
    for ran in both.map(Running::finish) {
        assert_eq!(ran.status, Some(0), "{}\n{}", ran.err, ran.out);
        assert_eq!(ran.json()[0]["is_verified"], true);
    }
    site.is_clean();

    // A cancelled job.
    let slow = site.job("slow", 60_000, 500);
    let running = site.submit(&slow);
    let number = wait_for_step(&site, "reduces");
    assert!(site.registers() > Some(0));
    let cancelled = site.ask(&["cancel", &number.to_string()]);
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.err);
    assert_eq!(site.registers(), Some(0));
    let ended = running.finish();
    assert_eq!(ended.status, Some(1));
    assert!(ended.err.contains("was cancelled"), "{}", ended.err);

    // A client that is interrupted cancels its job.
    let running = site.submit(&slow);
    wait_for_step(&site, "reduces");
    running.signal("INT");
    assert_eq!(running.finish().status, Some(1));
    site.is_clean();

    // A stop of the master cancels jobs; agents and the switch go on.
    let running = site.submit(&slow);
    wait_for_step(&site, "reduces");
    let master = site.master.take().unwrap();
    master.signal("TERM");
    assert_eq!(master.finish().status, Some(0));
    assert_eq!(site.registers(), Some(0));
    assert_eq!(running.finish().status, Some(1));
    for agent in site.agents.iter_mut().map(|it| it.take().unwrap()) {
        agent.signal("TERM");
        assert_eq!(agent.finish().status, Some(0));
    }
    let left = std::fs::read_dir(&site.directory.0).unwrap();
    let left = left.map(|file| file.unwrap().path().display().to_string());
    let sockets: Vec<String> = left.filter(|path| path.ends_with(".sock")).collect();
    assert!(sockets.is_empty(), "{sockets:?}");
}

/// Waits until the last job of the master is at a step. Returns its number.
fn wait_for_step(site: &Site, step: &str) -> u64 {
    let start = Instant::now();
    loop {
        let jobs = site.ask(&["jobs", "--json"]).json();
        let last = jobs.as_array().unwrap().last().cloned().unwrap_or_default();
        if last["state"] == "running" && last["reductions"][0]["step"] == step {
            return last["number"].as_u64().unwrap();
        }
        assert!(start.elapsed() < NAMED, "{jobs}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_site_refuses_is_one_line_with_a_remedy() {
    let Some(mut site) = Site::lay("site-refusals", 100_000_000) else {
        return;
    };
    let job = site.job("words", 20, 50);
    let refused = |said: Said, words: &[&str]| {
        assert_eq!(said.status, Some(1), "{}\n{}", said.err, said.out);
        let line = said.one_line();
        for word in words {
            assert!(line.contains(word), "{line}");
        }
    };
    refused(
        site.submit(&job).finish(),
        &["cannot be reached", "polyplane aggregate serve", "--master"],
    );
    refused(site.ask(&["jobs"]), &["the master at", "cannot be reached"]);
    for host in 0..REDUCER {
        site.start_agent(host);
    }
    site.start_switch();
    site.start_master();
    std::thread::sleep(Duration::from_millis(1000));
    refused(
        site.submit(&job).finish(),
        &[
            "reducer total on r",
            "polyplane aggregate agent --address 10.46.0.4",
        ],
    );
    site.start_agent(REDUCER);
    site.wait_for_all();
    refused(site.ask(&["show", "99"]), &["no job 99"]);
    refused(site.ask(&["cancel", "99"]), &["no job 99"]);
    let big = site.job("big", 20, 11_000);
    // 22,000 slots of 16 and 4 + 8 bytes in whole words, where 20,000 are.
    refused(site.submit(&big).finish(), &["704000 bytes", "640000 free"]);
    let host = address(0);
    let write = |text: &str| {
        let end = format!("reduce t = add(m) at {} memory 9\n", address(REDUCER));
        let text = format!(
            "data p = {host}:{}\n{text}\n{end}",
            site.directory.file("words0.txt")
        );
        site.directory.with("wrong.job", text)
    };
    // The client cannot verify those, so it does not map them.
    let run = |job: &str| {
        said(&[
            "aggregate",
            "run",
            job,
            "--master",
            &site.socket("master.sock"),
        ])
    };
    let named = |said: Said, words: &[&str]| {
        assert_eq!(said.status, Some(1), "{}\n{}", said.err, said.out);
        let both = said.err.clone() + &said.out;
        for word in words {
            assert!(both.contains(word), "{both}");
        }
    };
    let failing = write("map m = exec \"exit 3\"(p)");
    named(run(&failing), &["mapper m on w0", "exit status: 3"]);
    let without_tab = write("map m = exec \"echo word\"(p)");
    named(run(&without_tab), &["mapper m on w0", "wrong line"]);
    std::fs::remove_file(site.directory.file("words1.txt")).unwrap();
    named(run(&job), &["mapper m1 on w1", "words1.txt"]);
    site.is_clean();

    // A second agent, a second master of the agents, and no agents at all.
    let socket = site.socket("other.sock");
    let words = [
        "aggregate",
        "agent",
        "--address",
        "10.46.0.1",
        "--listen",
        &socket,
    ];
    refused(
        site.hosts[0].run(|| said(&words)).unwrap(),
        &["10.46.0.1:9570", "already"],
    );
    let words = [
        "aggregate",
        "agent",
        "--address",
        "10.99.0.1",
        "--listen",
        &socket,
    ];
    refused(
        site.hosts[0].run(|| said(&words)).unwrap(),
        &["no interface"],
    );
    let words = [
        "aggregate",
        "agent",
        "--address",
        "10.46.0.1",
        "--listen",
        "0.0.0.0:9581",
    ];
    refused(said(&words), &["--listen-beyond-loopback"]);
    let words = ["aggregate", "agent", "--address", "10.46.0.1"];
    refused(said(&words), &["--listen"]);
    let rack = lab::example("aggregate/rack.toml");
    refused(
        said(&["aggregate", "serve", "--fabric", &rack]),
        &["names no agents"],
    );
}

/// Number of kills of each kind. The example of docs/AGGREGATE.md has 20.
fn kills() -> u64 {
    let given = std::env::var("AGGREGATE_KILLS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(1)
}

/// Runs a job and kills something at a random moment. Returns true if the result was exact, and
/// false if a failure was named. Panics if neither came in time.
fn kill_in_run(site: &mut Site, job: &str, delay: u64, kill: &mut dyn FnMut(&mut Site)) -> bool {
    site.wait_for_all();
    let running = site.submit(job);
    std::thread::sleep(Duration::from_millis(delay));
    kill(site);
    let killed = Instant::now();
    let said = running.finish();
    assert!(
        killed.elapsed() < NAMED,
        "{:?}\n{}",
        killed.elapsed(),
        said.err
    );
    let is_exact = said.status == Some(0) && said.json()[0]["is_verified"] == true;
    let names = ["mapper m", "reducer total", "switch tor", "the master at"];
    let both = said.err.clone() + &said.out;
    let is_named = names.iter().any(|name| both.contains(name));
    let is_false = said.out.contains("\"is_verified\": false");
    assert!(!is_false && (is_exact || is_named), "{both}");
    assert!(is_exact || said.status == Some(1), "{:?}", said.status);
    let line = match is_exact {
        true => format!("exact, {} attempts", said.json()[0]["attempts"]),
        false => both.lines().next().unwrap_or_default().to_owned(),
    };
    println!("killed after {delay} ms: {line}");
    is_exact
}

/// A job that takes some seconds, at the rate of [`SLOW`].
fn slow_job(site: &Site) -> String {
    site.job("slow", 16_000, 1500)
}

/// Bits per second.
const SLOW: u64 = 2_000_000;

#[test]
fn killed_agents_are_replaced_and_the_result_is_exact() {
    let Some(mut site) = Site::start("site-agents", SLOW, &[]) else {
        return;
    };
    let job = slow_job(&site);
    let mut rng = Rng::new(46);
    let mut exact = 0;
    for round in 0..2 * kills() {
        let host = (rng.below(2) as usize + round as usize * 2) % HOSTS;
        // A job of which an agent is not there when it is submitted is refused.
        let delay = rng.between(300, 3000);
        let is_exact = kill_in_run(&mut site, &job, delay, &mut |site| {
            // SIGKILL.
            drop(site.agents[host].take());
            std::thread::sleep(Duration::from_millis(200));
            site.start_agent(host);
        });
        exact += u64::from(is_exact);
        site.is_clean();
    }
    println!("{exact} of {} exact", 2 * kills());
    assert_eq!(exact, 2 * kills());

    // An agent that does not come back.
    let is_exact = kill_in_run(&mut site, &job, 1000, &mut |site| {
        drop(site.agents[1].take());
    });
    assert!(!is_exact);
    site.is_clean();
}

/// Returns the numbers of the processes with this word in their command lines.
fn processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap();
    let all = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers = all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let has_word = |number: &String| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    numbers.filter(has_word).collect()
}

#[test]
fn programs_of_a_killed_agent_end_with_it() {
    let Some(mut site) = Site::start("site-exec", 100_000_000, &[]) else {
        return;
    };
    site.wait_for_all();
    let (host, reducer) = (address(0), address(REDUCER));
    let part = site.directory.with("part.txt", "");
    // A time that no other process has.
    let word = format!("{}", 1_000_000 + std::process::id());
    let text = format!(
        "data p = {host}:{part}\n\
         map m = exec \"sleep {word} | sleep {word} & sleep {word}\"(p)\n\
         reduce t = add(m) at {reducer} memory 9\n"
    );
    let job = site.directory.with("exec.job", text);
    let socket = site.socket("master.sock");
    let words = ["aggregate", "run", &job, "--master", &socket];
    let running = Running::start(polyplane().args(words));
    let start = Instant::now();
    // The shells have the word too.
    while processes_with(&word).len() < 4 {
        assert!(start.elapsed() < NAMED);
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(site.agents[0].take());
    let killed = Instant::now();
    while !processes_with(&word).is_empty() {
        assert!(
            killed.elapsed() < Duration::from_secs(5),
            "{:?}",
            processes_with(&word)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal("INT");
    assert_eq!(running.finish().status, Some(1));
}

#[test]
fn killed_switches_are_loaded_again_and_nothing_is_wrong() {
    let state = Directory::new("site-state");
    let state = state.file("state");
    let with_state = ["--state", &*state];
    for (name, options) in [("none", &[][..]), ("state", &with_state)] {
        let Some(mut site) = Site::start(&format!("site-{name}"), SLOW, options) else {
            return;
        };
        let job = slow_job(&site);
        let mut rng = Rng::new(47);
        let mut exact = 0;
        for _ in 0..kills() {
            let is_exact = kill_in_run(&mut site, &job, rng.below(3000), &mut |site| {
                drop(site.switch.take());
                site.start_switch();
            });
            exact += u64::from(is_exact);
            site.is_clean();
        }
        println!("{name}: {exact} of {} exact", kills());
    }
}

#[test]
fn a_killed_master_is_named_and_the_next_one_clears_the_switches() {
    let Some(mut site) = Site::start("site-master", SLOW, &[]) else {
        return;
    };
    let job = slow_job(&site);
    let mut rng = Rng::new(48);
    for _ in 0..kills() {
        kill_in_run(&mut site, &job, rng.below(3000), &mut |site| {
            drop(site.master.take());
        });
        site.start_master();
        site.is_clean();
    }
    // At a job's very begin: its client may not have reached the master yet.
    for delay in [0, 10, 20, 50, 100, 200] {
        site.wait_for_all();
        let running = site.submit(&job);
        std::thread::sleep(Duration::from_millis(delay));
        drop(site.master.take());
        let killed = Instant::now();
        let said = running.finish();
        assert!(killed.elapsed() < NAMED, "{:?}", killed.elapsed());
        assert_eq!(said.status, Some(1), "{}", said.err);
        println!("killed after {delay} ms: {}", said.err.trim_end());
        let words = ["the master at", "polyplane aggregate serve"];
        assert!(
            words.iter().all(|word| said.err.contains(word)),
            "{}",
            said.err
        );
        site.start_master();
        site.is_clean();
    }
}

#[test]
fn a_master_that_says_nothing_is_named_by_its_clients() {
    let Some(site) = Site::start("site-silent", SLOW, &[]) else {
        return;
    };
    let job = site.job("slow", 20_000, 1500);
    site.wait_for_all();
    let running = site.submit(&job);
    wait_for_step(&site, "reduces");
    site.master.as_ref().unwrap().signal("STOP");
    let stopped = Instant::now();
    // One that has a job there, and one that asks now.
    let words = [
        "the master at",
        "said nothing for",
        "polyplane aggregate serve",
    ];
    for said in [running.finish(), site.ask(&["jobs"])] {
        assert_eq!(said.status, Some(1), "{}", said.out);
        assert!(
            words.iter().all(|word| said.err.contains(word)),
            "{}",
            said.err
        );
        println!("after {:?}: {}", stopped.elapsed(), said.err.trim_end());
    }
    assert!(stopped.elapsed() < NAMED, "{:?}", stopped.elapsed());
    site.master.as_ref().unwrap().signal("CONT");
    site.is_clean();
}

#[test]
fn vectors_of_a_site_are_exact_also_when_an_agent_is_killed() {
    let Some(mut site) = Site::start("site-vectors", SLOW, &[]) else {
        return;
    };
    let mut text = String::new();
    for mapper in 0..REDUCER {
        let values = (0..120_000u32).map(|lane| (lane % 1999) as f32 * (mapper as f32 - 0.7));
        let part: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let path = site.directory.with(&format!("g{mapper}.bin"), part);
        let host = address(mapper);
        text += &format!("data g{mapper} = {host}:{path}\nmap m{mapper} = gradients(g{mapper})\n");
    }
    let host = address(REDUCER);
    text += &format!(
        "reduce total = add(m0, m1, m2) at {host} keys none values f32 memory 50 to all\n"
    );
    let job = site.directory.with("vectors.job", text);
    let ran = site.run(&job);
    let exact = |said: &Said| {
        assert_eq!(said.status, Some(0), "{}\n{}", said.err, said.out);
        let outcome = &said.json()[0];
        assert_eq!(outcome["is_verified"], true);
        assert_eq!(outcome["receivers"], REDUCER);
        assert_eq!(outcome["vector"]["values"], 120_000);
        assert!(outcome["absorbed"].as_u64() > Some(0), "{outcome}");
        (
            outcome["attempts"].clone(),
            outcome["retried_mappers"].clone(),
        )
    };
    println!("attempts, retried mappers: {:?}", exact(&ran));
    for host in [1, REDUCER] {
        site.wait_for_all();
        let running = site.submit(&job);
        std::thread::sleep(Duration::from_millis(1500));
        drop(site.agents[host].take());
        std::thread::sleep(Duration::from_millis(200));
        site.start_agent(host);
        println!("killed {host}: {:?}", exact(&running.finish()));
        site.is_clean();
    }
}
