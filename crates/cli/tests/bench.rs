//! `polyplane bench`: results as JSON and as tables, and errors for wrong options.

mod lab;

use lab::said;

#[test]
fn lookups_are_told_as_json_with_updates_beside_them() {
    let told = said(&[
        "bench",
        "--lookups=exact,lpm",
        "--sizes",
        "100",
        "--updates",
        "1,10",
        "--pace",
        "500",
        "--seconds",
        "0.1",
        "--json",
    ]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let rows: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let rows = rows.as_array().unwrap();
    // Exact, IPv4 and IPv6, each with four update patterns: at full speed and at the given rate,
    // in batches of one and of ten.
    assert_eq!(rows.len(), 12);
    for (row, asked) in rows
        .iter()
        .zip([None, None, Some(500), Some(500)].iter().cycle())
    {
        assert_eq!(row["updates_asked_per_s"].as_u64(), *asked, "{row}");
        assert_eq!(row["entries"], 100, "{row}");
        assert!(row["table"].is_string(), "{row}");
        for figure in [
            "mlps",
            "mlps_at_2s",
            "mlps_between_updates",
            "mlps_beside_updates",
            "bytes_per_entry",
            "updates_per_s",
        ] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{figure} of {row}");
        }
        assert!(row["seconds_to_full"].as_f64() >= Some(0.0), "{row}");
    }
}

#[test]
fn tables_without_entries_and_updates_that_are_never_published_are_refused() {
    for option in ["--sizes", "--updates"] {
        let told = said(&["bench", "--lookups=exact", option, "0"]);
        assert_eq!(told.status, Some(2));
        let says = format!("invalid value '0' for '{option} <N>'");
        assert!(told.err.contains(&says), "{}", told.err);
    }
}

#[test]
fn rates_are_drawn_with_a_bar_and_a_label_for_each_side() {
    let dir = lab::Directory::new("bench-svg");
    let svg = dir.file("rates.svg");
    let told = said(&[
        "bench",
        "l2",
        "--engine",
        "jit,bare",
        "--flows",
        "few",
        "--seconds",
        "0.05",
        "--svg",
        &svg,
    ]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg"), "{drawn}");
    for label in ["l2, few flows: jit", "l2, few flows: bare"] {
        assert!(drawn.contains(label), "{label} in {drawn}");
    }
}

#[test]
fn operations_under_load_are_told_with_what_became_of_each_packet() {
    let told = said(&[
        "bench",
        "--tenants",
        "--life",
        "--operations",
        "30",
        "--seconds",
        "0.1",
        "--json",
    ]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let figures: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let operations = figures["operations"].as_object().unwrap();
    let made: u64 = operations
        .values()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert_eq!(made, 30, "{figures}");
    let number = |of: &serde_json::Value| of.as_f64().unwrap();
    let reached = number(&figures["reached_mpps"]);
    assert!(number(&figures["reached_behind_mpps"]) > 0.0, "{figures}");
    for phase in ["without_operations", "with_operations"] {
        let load = &figures[phase];
        let [carried, missed, share] =
            ["carried_mpps", "missed_mpps", "share"].map(|figure| number(&load[figure]));
        assert!((share - carried / reached).abs() < 1e-9, "{figures}");
        // No more packets arrive than the load has.
        let came = carried + missed;
        let offered = number(&figures["load_mpps"]);
        assert!(carried > 0.0 && came < 1.01 * offered, "{figures}");
    }
    for vpdps in ["steady", "changing"] {
        let packets = &figures[vpdps];
        assert!(packets["left"].as_u64() > Some(0), "{figures}");
        for fate in ["lost", "changed", "reordered"] {
            assert_eq!(packets[fate], 0, "{figures}");
        }
    }
}

#[test]
fn what_a_measurement_does_not_heed_is_refused() {
    for measurement in ["--life", "--load"] {
        for (option, value) in [
            ("--policy", "pol1"),
            ("--vpdps", "8"),
            ("--burst", "64"),
            ("--arrival", "mixed"),
        ] {
            let told = said(&["bench", "--tenants", measurement, option, value]);
            assert_eq!(told.status, Some(2), "{measurement} {option}: {}", told.err);
            assert!(told.err.contains(option), "{}", told.err);
        }
    }
}

#[test]
fn workers_of_a_bench_are_1_to_64_as_those_of_run() {
    for workers in ["0", "65"] {
        let told = said(&["bench", "l2", "--workers", workers]);
        assert_eq!(told.status, Some(2));
        assert!(told.err.contains("is not in 1..=64"), "{}", told.err);
    }
}
