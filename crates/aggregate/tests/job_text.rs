//! Job files: what they mean, and the place and remedy of each error.

use aggregate::{Job, KeyClass, MapFunction, Operator, ValueClass};

const DATA: &str = "data d = 10.0.1.11:a.txt # a part\n";
const MAP: &str = "map m = words(d)\n";
const REDUCE: &str = "reduce r = add(m) at 10.0.9.2\n";

#[test]
fn a_job_has_parts_mappers_and_reducers() {
    let job = format!(
        "{DATA}\n{MAP}map n = exec \"./mine --flag\"(d)\n\
         reduce r = max(m, n) at 10.0.9.2 keys 64 values u32 memory 10 tiers 0\n"
    );
    let job = Job::read(&job).expect("the job is right");
    assert_eq!(job.parts[0].path, "a.txt");
    assert_eq!(
        job.mappers[1].function,
        MapFunction::Exec("./mine --flag".to_owned())
    );
    let reducer = &job.reducers[0];
    assert_eq!(reducer.mappers, [0, 1]);
    assert_eq!(reducer.shape.operator, Operator::Max);
    assert_eq!(reducer.shape.keys, KeyClass::B64);
    assert_eq!(reducer.shape.values, ValueClass::U32);
    assert_eq!((reducer.slots, reducer.tiers), (10, 0));
}

#[test]
fn a_job_has_vectors() {
    let job = format!(
        "{DATA}map m = gradients(d)\n\
         reduce r = add(m) at 10.0.9.2 keys none values f32 to all\n"
    );
    let job = Job::read(&job).expect("the job is right");
    assert_eq!(job.mappers[0].function, MapFunction::Gradients);
    let reducer = &job.reducers[0];
    assert_eq!(reducer.shape.keys, KeyClass::Block);
    assert_eq!(reducer.shape.values, ValueClass::F32);
    assert_eq!(reducer.slots, 1000);
    assert!(reducer.to_all);
}

/// Checks the place and the beginning of the message of the first error.
fn check(text: &str, expected: &str) {
    let errors = Job::read(text).expect_err("the job is wrong");
    let error = errors[0].to_string();
    assert!(error.starts_with(expected), "{error}");
    assert!(!errors[0].mend.is_empty(), "{error}");
}

#[test]
fn each_error_has_its_place() {
    check("", "1:1: the job has no reducer");
    check("move it\n", "1:1: \"move\" is no statement");
    check("data d = 10.0.1:a\n", "1:10: \"10.0.1\" is no IPv4 address");
    check("data d = 10.0.1.1:\n", "1:19: the path is missing");
    check(
        &format!("{DATA}{DATA}"),
        "2:6: d is the name of two statements",
    );
    check("map m = words(d)\n", "1:15: there is no data d above");
    check(
        &format!("{DATA}map m = wrods(d)\n"),
        "2:9: \"wrods\" is no map function",
    );
    check(
        &format!("{DATA}map m = exec \"a(d)\n"),
        "2:15: the \" is not closed",
    );
    check(&format!("{DATA}{MAP}"), "1:1: the job has no reducer");
    let job = |reduce: &str| format!("{DATA}{MAP}{reduce}");
    check(
        &job("reduce r = sum(m) at 10.0.9.2\n"),
        "3:12: \"sum\" is no operator",
    );
    check(
        &job("reduce r = add(x) at 10.0.9.2\n"),
        "3:16: there is no mapper x above",
    );
    check(
        &job("reduce r = add(m, m) at 10.0.9.2\n"),
        "3:19: m is twice in one reducer",
    );
    check(
        &job("reduce r = add() at 10.0.9.2\n"),
        "3:16: the name of a mapper is missing",
    );
    let option = |option: &str| format!("{DATA}{MAP}{} {option}\n", REDUCE.trim_end());
    check(&option("keys 12"), "3:36: \"12\" is no value of keys");
    check(&option("values f16"), "3:38: \"f16\" is no value of values");
    check(
        &option("values f32"),
        "3:38: there is no add of pairs of f32",
    );
    check(
        &option("keys none"),
        "3:8: the mapper m gives pairs, but the keys are none",
    );
    let vector = |option: &str| {
        format!(
            "{DATA}map m = gradients(d)\n{} {option}\n",
            REDUCE.trim_end()
        )
    };
    check(&vector(""), "3:8: the mapper m gives a vector");
    check(
        &vector("keys none values i64"),
        "3:48: there is no add of vectors of i64",
    );
    check(
        &vector("keys none values f32").replace("add", "max"),
        "3:48: there is no max of vectors of f32",
    );
    check(
        &vector("keys none values i32 memory 2000000"),
        "3:8: 2000000 blocks of a vector are too many",
    );
    check(&option("memory 0"), "3:38: \"0\" is no value of memory");
    check(&option("tiers 5"), "3:37: \"5\" is no value of tiers");
    check(&option("to some"), "3:34: \"some\" is no value of to");
    check(&option("to all"), "3:8: pairs go to the reducer alone");
    check(
        &option("speed 5"),
        "3:31: \"speed\" is no option of a reducer",
    );
    check(
        &format!("{DATA}{MAP}map n = words(d)\n{REDUCE}"),
        "3:5: the mapper n is in no reducer",
    );
}

#[test]
fn uses_of_a_wrong_statement_are_no_further_errors() {
    let errors = |text: &str| Job::read(text).expect_err("the job is wrong").len();
    assert_eq!(errors(&format!("{DATA}map m = wrods(d)\n{REDUCE}")), 1);
    assert_eq!(errors(&format!("data d = 10.0.1:a\n{MAP}{REDUCE}")), 1);
}
