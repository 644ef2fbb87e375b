//! `polyplane experiment`: figures are measured, drawn and compared with the paper's values.

mod lab;

use std::path::Path;

use lab::{Directory, example, polyplane, said};
use serde_json::Value;

const KEYS: [&str; 8] = [
    "figure",
    "policy",
    "vpdps",
    "native_mpps",
    "vpdp_mpps",
    "ratio",
    "p50_us",
    "p99_us",
];

/// Runs these figures. Returns their rows, and checks that the files exist.
fn rows(dir: &Directory, figures: &str, more: &[&str], files: &[&str]) -> Vec<Value> {
    let (out, examples) = (dir.file("out"), example(""));
    let run = [
        "experiment",
        "hypervdp",
        "--figures",
        figures,
        "--out",
        &out,
        "--examples",
        &examples,
        "--seconds",
        "0.02",
        "--engine",
        "interp",
        "--json",
    ];
    let output = polyplane().args(run).args(more).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    for file in files.iter().chain(&["hypervdp.txt", "hypervdp.json"]) {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for row in &rows {
        let row = row.as_object().unwrap();
        assert!(KEYS.iter().all(|key| row.contains_key(*key)), "{row:?}");
    }
    rows
}

#[test]
fn the_emitted_hypervisor_declares_and_uses_tables_as_documented() {
    let dir = Directory::new("experiment-tables");
    let pictures = ["figure7a.svg", "figure7b.svg", "figure9.svg"];
    let rows = rows(&dir, "7,9", &[], &pictures);
    let of = |figure: &str| {
        let rows = rows.iter().filter(|row| row["figure"] == figure);
        rows.cloned().collect::<Vec<_>>()
    };
    assert_eq!((of("7a").len(), of("7b").len()), (9, 8));
    for row in of("7a").iter().chain(&of("7b")) {
        assert!(row["tables"].as_u64() <= row["paper_tables"].as_u64());
    }
    let manual = format!(
        "{}/../../docs/results/fixed-target-hypervisor.md",
        env!("CARGO_MANIFEST_DIR")
    );
    let manual = std::fs::read_to_string(manual).unwrap();
    for row in of("9") {
        let cell = |value: &Value| match value.as_u64() {
            Some(count) => count.to_string(),
            None => "-".to_owned(),
        };
        let paper = &row["paper"];
        let line = format!(
            "| {} | {} | {} | {} | {} | {} |",
            row["policy"].as_str().unwrap(),
            cell(&row["native_tables"]),
            cell(&row["vpdp_tables"]),
            cell(&paper["native"]),
            cell(&paper["hypervdp"]),
            cell(&paper["hyper4"])
        );
        assert!(
            manual.contains(&line),
            "docs/results/fixed-target-hypervisor.md has no {line}"
        );
    }
}

#[test]
fn sizes_and_policies_are_measured_alone_and_in_virtual_data_planes() {
    let dir = Directory::new("experiment-rates");
    let pictures = [
        "figure11a.svg",
        "figure11b.svg",
        "figure15a.svg",
        "figure15b.svg",
    ];
    let rows = rows(&dir, "11,15", &["--vpdps", "1,2"], &pictures);
    let of = |figure: &str| rows.iter().filter(|row| row["figure"] == figure).count();
    assert_eq!((of("11"), of("15")), (6, 14));
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("native_mpps") > 0.0 && number("p50_us") > 0.0);
        let ratio = number("vpdp_mpps") / number("native_mpps");
        assert!((number("ratio") - ratio).abs() < 1e-9, "{row}");
    }
    let emitted = rows.iter().filter(|row| row["emitted_mpps"].is_f64());
    assert_eq!(emitted.count(), 7);
}

#[test]
fn figure_17_is_of_programs_and_of_virtual_data_planes() {
    let dir = Directory::new("experiment-flows");
    let few = |name: &str| {
        let file = example(&format!("fabric/{name}/{name}.toml"));
        let text = std::fs::read_to_string(file).unwrap();
        let beside = |key: &str| format!("{key} = \"{}/", example(&format!("fabric/{name}")));
        let text = text
            .replace("../../functions", &example("functions"))
            .replace("entries = \"", &beside("entries"))
            .replace("program = \"edge", &(beside("program") + "edge"))
            .replace("program = \"aggregate", &(beside("program") + "aggregate"))
            .replace("program = \"core", &(beside("program") + "core"))
            .replace("elephants = 40", "elephants = 2")
            .replace("100 MB", "20 MB")
            .replace("mice = 1000", "mice = 10");
        dir.with(&format!("{name}.toml"), text)
    };
    let (native, vpdps) = (few("fat_tree"), few("fat_tree_vpdps"));
    let more = ["--fabric", &native, "--vpdp-fabric", &vpdps];
    let rows = rows(&dir, "17", &more, &["figure17a.svg", "figure17b.svg"]);
    let counts: Vec<(u64, u64)> = rows
        .iter()
        .map(|row| {
            (
                row["vpdps"].as_u64().unwrap(),
                row["count"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(counts, [(0, 40), (4, 40), (0, 8), (4, 8)]);
    assert!(rows.iter().all(|row| row["p50"].as_f64() > Some(0.0)));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let dir = Directory::new("experiment-wrong");
    let out = dir.file("out");
    let run = |more: &[&str]| said(&[&["experiment", "hypervdp", "--out", &out], more].concat());
    let nowhere = run(&["--figures", "9", "--examples", "nowhere"]);
    assert_eq!(nowhere.status, Some(1));
    assert!(
        nowhere.err.contains("--examples names the directory"),
        "{}",
        nowhere.err
    );
    let no_time = run(&["--figures", "15", "--seconds", "0"]);
    let says = "invalid value '0' for '--seconds";
    assert!(no_time.err.contains(says), "{}", no_time.err);
    assert_eq!(run(&["--figures", "12"]).status, Some(2));
}

/// Runs parts of `experiment p4com` on small data. Returns the rows.
fn p4com_rows(dir: &Directory, parts: &[&str], files: &[&str]) -> Vec<Value> {
    let out = dir.file("out");
    let run = ["experiment", "p4com", "--out", &out, "--engine", "interp"];
    let more = ["--scale", "0.0001", "--json"];
    let output = polyplane()
        .args(run)
        .args(more)
        .args(parts)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    for file in files
        .iter()
        .chain(&["p4com.txt", "p4com.csv", "p4com.json"])
    {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn reductions_without_loss_have_no_pauses_between_epochs() {
    let dir = Directory::new("experiment-goodput");
    let rows = p4com_rows(&dir, &["--figures", "8"], &["figure8.svg"]);
    assert_eq!(rows.len(), 18);
    let goodput = |row: &Value| row["gigabits_per_second"].as_f64().unwrap();
    for group in rows.chunks(3) {
        assert!(group[0]["loss"] == 0.0 && group[2]["loss"] == 0.01);
        assert!(goodput(&group[0]) >= goodput(&group[2]), "{group:?}");
    }
}

#[test]
fn only_the_papers_algorithm_has_wrong_keys_under_loss() {
    let dir = Directory::new("experiment-schemes");
    let rows = p4com_rows(&dir, &["--tables", "1"], &[]);
    let wrong = |row: &Value| {
        let number = |name: &str| {
            row[name]
                .as_u64()
                .unwrap_or_else(|| row[name].as_f64().unwrap() as u64)
        };
        number("missing_keys") + number("doubled_keys")
    };
    assert_eq!((wrong(&rows[0]), wrong(&rows[3])), (0, 0));
    assert!(wrong(&rows[1]) > 0 && wrong(&rows[2]) > 0, "{rows:?}");
}

#[test]
fn real_jobs_have_a_row_for_each_number_of_mappers() {
    let dir = Directory::new("experiment-real");
    let out = dir.file("out");
    let words = [
        "experiment",
        "p4com",
        "--real",
        "--rounds",
        "1",
        "--scale",
        "0.0002",
        "--json",
        "--out",
    ];
    let output = polyplane().args(words).arg(&out).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    if err.contains("network namespace") {
        println!("skipped: {}", err.trim_end());
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(Path::new(&out).join("figure7-real.svg").exists());
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["source"], "measured");
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(
            number("seconds") > 0.0 && number("tcp_seconds") > 0.0,
            "{row}"
        );
        assert!(number("bytes") < number("tcp_bytes"), "{row}");
    }
}

/// Checks that each line of comma-separated values has as many as the head.
fn check_columns(csv: &str) {
    for line in csv.lines() {
        let outside = line.split('"').step_by(2);
        let commas: usize = outside.map(|part| part.matches(',').count()).sum();
        assert_eq!(commas, 5, "{line}");
    }
}

/// Returns the rows of `experiment pof` on small data.
fn pof_rows(dir: &Directory) -> Vec<Value> {
    let out = dir.file("out");
    let run = ["experiment", "pof", "--out", &out, "--json"];
    let more = ["--scale", "0.004", "--seconds", "0.01"];
    let output = polyplane().args(run).args(more).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    let pictures = ["6", "7", "8", "9a", "9b", "10"].map(|number| format!("figure-{number}.svg"));
    let files = ["traffic.svg", "txt", "csv", "json"].map(str::to_owned);
    for file in pictures.iter().chain(&files) {
        let separator = if file.contains(".svg") { "-" } else { "." };
        let file = format!("pof{separator}{file}");
        assert!(Path::new(&out).join(&file).exists(), "{file}");
    }
    let csv = std::fs::read_to_string(Path::new(&out).join("pof.csv")).unwrap();
    check_columns(&csv);
    // A column of the text has the values of one source.
    let text = std::fs::read_to_string(Path::new(&out).join("pof.txt")).unwrap();
    let heads = text.lines().filter(|line| line.contains(" (measured)"));
    assert!(heads.count() >= 6, "{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn figures_of_pof_have_their_sources_and_lose_no_packet() {
    let rows = pof_rows(&Directory::new("experiment-pof"));
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let of = |place: &str, source: &str| {
        let is_own = |row: &&Value| row["place"] == place && row["source"] == source;
        rows.iter().filter(is_own).collect::<Vec<_>>()
    };
    for (place, sources) in [
        ("figures 4, 5", &["model", "paper"][..]),
        ("figure 6", &["measured", "model", "paper"]),
        ("figure 7", &["measured", "model", "paper"]),
        ("figure 8", &["measured", "model", "paper"]),
        ("figure 9", &["measured", "model", "paper"]),
        ("figure 10", &["measured", "model", "paper"]),
        ("table II", &["measured", "model", "paper"]),
        ("table III", &["measured", "model", "paper"]),
        ("traffic", &["simulated"]),
    ] {
        for source in ["measured", "simulated", "model", "paper"] {
            let is_empty = of(place, source).is_empty();
            assert_eq!(is_empty, !sources.contains(&source), "{place}, {source}");
        }
    }
    let known = rows.iter().filter(|row| !text(row, "source").is_empty());
    assert_eq!(known.count(), rows.len());

    let states = of("figures 4, 5", "model");
    let states: Vec<String> = states.iter().map(|row| text(row, "state")).collect();
    assert_eq!(states, ["refused", "in_hw", "in_hw"]);
    assert!(text(of("figures 4, 5", "model")[0], "reason").contains("checksum"));

    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let runs = ["measured", "model"].map(|source| of("figure 7", source));
    let runs = runs.iter().flatten();
    let runs: Vec<_> = runs.filter(|row| row["lost"].is_number()).collect();
    assert_eq!(runs.len(), 3);
    for run in runs {
        for name in ["lost", "reordered", "mixtures"] {
            assert_eq!(number(run, name), 0.0, "{run}");
        }
        assert!(number(run, "by old list") > 0.0, "{run}");
        assert!(number(run, "by new list") > 0.0, "{run}");
    }
    for (row, expected) in of("figure 8", "model")
        .iter()
        .zip([22.5, 25.3].iter().cycle())
    {
        assert!((number(row, "nic ms") - expected).abs() < 0.001, "{row}");
    }
    let rates = of("figure 9", "measured");
    let with = |name: &str| rates.iter().filter(|row| row[name].is_number()).count();
    // Open vSwitch may not be installed, or have no such actions.
    assert_eq!(with("POF of P4"), 12);
    assert_eq!(with("jit Mpps by processor time"), 12);
    for row in rates {
        let cells = row.as_object().unwrap().iter();
        for (name, value) in cells.filter(|(_, value)| value.is_number()) {
            let value = value.as_f64().unwrap();
            assert!(value.is_finite() && value > 0.0, "{name} of {row}");
        }
    }
    let loads = of("figure 10", "measured");
    let loads = loads.iter().filter(|row| row["carried Mpps"].is_number());
    let loads: Vec<_> = loads.collect();
    assert_eq!(loads.len(), 20);
    for row in loads {
        let (offered, carried) = (number(row, "offered Mpps"), number(row, "carried Mpps"));
        assert!(carried != offered, "{row}");
        // Packets of a run arrive up to a burst before its end.
        assert!(0.0 < carried && carried < 1.1 * offered, "{row}");
    }
    let in_nic = of("figure 10", "model");
    assert_eq!(number(in_nic[0], "packets in software of 1000"), 0.0);

    for row in [of("table II", "model"), of("table III", "model")].concat() {
        let subject = text(row, "subject");
        let places = number(row, "in NIC, most");
        let is_over = places > 4800.0;
        let may_be = subject == "III, 6000 + 4000, paper-literal";
        assert_eq!(is_over, may_be, "{row}");
        assert!(is_over || number(row, "gap %") >= 0.0, "{row}");
    }
}

/// Returns a file of `docs/results`.
fn result_file(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/");
    std::fs::read_to_string(format!("{directory}{name}")).unwrap()
}

#[test]
fn the_documented_rates_of_pof_are_those_of_the_data() {
    let data = result_file("data/ovs-pof-tc.csv");
    check_columns(&data);
    let number = |place: &str, subject: &str, name: &str| -> f64 {
        let start = format!("\"{place}\",\"{subject}\",measured,{name},");
        let line = data.lines().find_map(|line| line.strip_prefix(&start));
        let value = line.and_then(|rest| rest.split(',').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("no {start}"))
    };
    let mut lines = Vec::new();
    for share in [10, 50, 80, 90, 95, 100, 110, 125] {
        let cells = ["jit", "interp"].map(|engine| {
            let subject = format!("software, {engine}, {share} %");
            let of = |name| number("figure 10", &subject, name);
            let (carried, us) = (of("carried Mpps"), of("us 50 %"));
            assert!(carried < 1.01 * of("offered Mpps"), "{subject}");
            format!("{carried:.2} | {us:.2}")
        });
        lines.push(format!("| {share} | {} | {} |", cells[0], cells[1]));
    }
    for kind in ["SetField", "AddField"] {
        for count in 1..=6 {
            let subject = format!("{kind} x {count}");
            let names = ["jit Mpps", "interp Mpps", "P4 on jit Mpps", "POF of P4"];
            let cells = names.map(|name| format!("{:.2}", number("figure 9", &subject, name)));
            lines.push(format!("| {subject} | {} |", cells.join(" | ")));
        }
    }
    let document = result_file("ovs-pof-tc.md");
    for line in lines {
        assert!(
            document.contains(&line),
            "docs/results/ovs-pof-tc.md has no {line}"
        );
    }
    // A ratio of a rate by wall clock and one by processor time is none.
    assert!(!document.contains("| jit of Open vSwitch |"));
    for (head, columns) in [("offered, % of the largest rate", 5), ("quantity", 5)] {
        let head = document
            .lines()
            .find(|line| line.starts_with(&format!("| {head} |")));
        let cells: Vec<&str> = head.unwrap().trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), columns);
        let sources = ["(measured)", "(model)", "(paper)"];
        let has_one = |cell: &&str| sources.iter().filter(|one| cell.contains(*one)).count() == 1;
        assert!(cells[1..].iter().all(has_one), "{cells:?}");
    }
}

#[test]
fn the_reflex_experiment_has_rows_of_each_source() {
    let dir = Directory::new("experiment-reflex");
    let out = dir.file("out");
    let run = ["experiment", "reflex", "--quick", "--out", &out, "--json"];
    let output = polyplane().args(run).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{err}");
    for file in ["reflex.txt", "reflex.json", "reflex.csv", "reflex-loop.svg"] {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let places = [
        "figures 1 and 2",
        "table 1",
        "section 3.2.3",
        "figure 3",
        "section 4.3",
    ];
    // The model's rows over load are a place of their own.
    let is_of = |row: &Value, place: &str| {
        let own = row["place"].as_str().unwrap_or_default();
        own.strip_suffix(", model").unwrap_or(own) == place
    };
    for place in places {
        let of = |source: &str| {
            let is_such = |row: &&Value| is_of(row, place) && row["source"] == source;
            rows.iter().filter(is_such).count()
        };
        assert!(of("measured") > 0 && of("paper") > 0, "{place}");
        assert!(of("model") > 0, "{place}");
    }
    // The model has values for each place.
    let model: Vec<&Value> = rows.iter().filter(|row| row["source"] == "model").collect();
    for place in places {
        let mut own = model.iter().filter(|row| is_of(row, place));
        let is_value = |row: &&&Value| {
            let state = row["state"].as_str().unwrap_or_default();
            !state.starts_with("missing: ")
        };
        assert!(own.any(|row| is_value(&row)), "{place}");
    }
}
