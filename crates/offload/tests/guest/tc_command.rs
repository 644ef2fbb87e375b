//! Debian's command `tc` reads what this crate says is there.

use offload::tc::RulePlanes;
use support::rng::Rng;

use crate::bed::{Bed, name_of, run};
use crate::random::{Kind, sample};

/// Returns lines with single spaces, without what only the kernel knows: handles, indices, planes.
fn plain(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let kernels = ["index ", "random ", "in_hw", "not_in_hw", "used_hw_stats"];
    lines
        .filter(|line| !line.is_empty() && !kernels.iter().any(|word| line.starts_with(word)))
        .map(|line| line.split(" handle ").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn tc_prints_the_text_of_the_rule_and_json_has_its_state_and_counts() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rng = Rng::new(7);
    let (mut compared, mut turn) = (0, 0);
    while compared < 150 {
        turn += 1;
        let kind = if turn % 2 == 0 {
            Kind::Fixed
        } else {
            Kind::Any
        };
        let sample = sample(&mut rng, kind);
        let planes = [RulePlanes::Both, RulePlanes::Hardware, RulePlanes::Software][turn % 3];
        let Ok(rule) = bed.translate(&sample.flow, planes) else {
            continue;
        };
        let installed = bed.add(rule).expect("the kernel takes the rule");
        let show = |words: &[&str]| {
            run(
                "tc",
                &[words, &["filter", "show", "dev", "nic0", "ingress"]].concat(),
            )
        };
        // The first line is that of the priority.
        let text = show(&[]);
        let own = installed.rule.text(name_of);
        let (printed, own_lines) = (plain(&text), plain(&own));
        for (printed, own_line) in printed[1..].iter().zip(&own_lines) {
            assert_eq!(printed, own_line, "\n{text}\n{own}");
        }
        assert_eq!(printed.len() - 1, own_lines.len(), "\n{text}\n{own}");
        bed.exchange(&sample.frame);
        let read = bed.read(&installed);
        let text = show(&["-s", "-j"]);
        let json: serde_json::Value = serde_json::from_str(&text).expect("tc prints JSON");
        let filter = &json[1];
        assert_eq!(filter["pref"], read.rule.priority);
        let options = &filter["options"];
        assert_eq!(options["handle"], read.handle);
        assert_eq!(
            options["in_hw"].as_bool().unwrap_or(false),
            read.in_hardware,
            "{text}"
        );
        let actions = options["actions"].as_array().expect("there are actions");
        assert_eq!(actions.len(), read.rule.actions.len());
        let hits = |name: &str| {
            let counts = actions
                .iter()
                .filter_map(|action| action["stats"][name].as_u64());
            counts.max().unwrap_or(0)
        };
        let counts = read.counts;
        assert_eq!(hits("hw_packets"), counts.hardware_packets, "{text}");
        assert_eq!(
            hits("packets"),
            counts.hardware_packets + counts.software_packets,
            "{text}"
        );
        bed.remove(&installed);
        compared += 1;
    }
    println!("{compared} rules read by tc, {turn} flows tried");
}
