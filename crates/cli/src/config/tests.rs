//! Every option can be set by a file, flags win, and mistakes have their lines.

use clap::CommandFactory;

use super::*;
use crate::Cli;

/// Returns a value of an option. The name of its value says which form it has.
fn sample(arg: &Arg) -> String {
    if let Some(first) = arg.get_possible_values().first() {
        return first.get_name().to_owned();
    }
    let default = arg.get_default_values().first();
    if let Some(default) = default.and_then(|value| value.to_str()) {
        return default.to_owned();
    }
    let names = arg.get_value_names().unwrap_or_default();
    match names.first().map_or("", |name| name.as_str()) {
        "NUMBER=INTERFACE" | "[DEVICE:]NUMBER=INTERFACE" => "0=eth0",
        "ADDRESS" => "127.0.0.1:9559",
        "FILTER" => "ipv4.ttl == 1",
        "NAME[=ROLE]" => "fib=routing",
        "TABLE=CHOICE" => "ingress.acl=yes",
        "TARGET[:RULES]" => "model:10",
        _ => "7",
    }
    .to_owned()
}

/// Returns the words that a file with this text adds to the command.
fn words(command: &str, text: &str, typed: &[&str]) -> Result<Vec<String>, String> {
    let cli = Cli::command();
    let file = ConfigFile::of_text(&cli, Path::new("p.toml"), text, Some(command))?;
    let words = ["polyplane", command].into_iter();
    let words = words.chain(typed.iter().copied());
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let all = file.insert_into(&cli, &words);
    let all = all.into_iter().skip(2);
    Ok(all.map(|word| word.into_string().unwrap()).collect())
}

#[test]
fn a_file_sets_every_option_of_each_command_as_the_command_line_does() {
    let cli = Cli::command();
    let mut options = 0;
    for command in COMMANDS {
        let found = cli.find_subcommand(command).unwrap();
        for arg in found.get_arguments().filter(|arg| is_setting(arg)) {
            let key = key_of(arg);
            let text = match (is_flag(arg), is_list(arg)) {
                (true, _) => format!("{key} = true"),
                (false, true) => format!("{key} = ['{}']", sample(arg)),
                (false, false) => format!("{key} = '{}'", sample(arg)),
            };
            let own = words(command, &text, &[]).unwrap_or_else(|error| panic!("{error}"));
            let all = ["polyplane", command].into_iter();
            let all = all.chain(own.iter().map(String::as_str));
            let matches = cli.clone().ignore_errors(true).try_get_matches_from(all);
            let matches = matches.unwrap();
            let matches = matches.subcommand_matches(command).unwrap();
            let id = arg.get_id().as_str();
            assert_eq!(
                matches.value_source(id),
                Some(ValueSource::CommandLine),
                "{command}: `{text}` became {own:?}"
            );
            options += 1;
        }
    }
    assert!(options > 90, "{options}");
}

#[test]
fn options_of_the_command_line_take_the_place_of_those_of_the_file() {
    let text = "program = 'a.p4'\nport = ['0=eth0', '1=eth1']\nworkers = 2\njson = true\nseed = 7\ninclude = ['x']\n";
    for (typed, expected) in [
        (
            &[][..],
            "a.p4 --port=0=eth0 --port=1=eth1 --workers=2 --json --seed=7 -I x",
        ),
        (
            &["b.p4", "--port", "3=tap:t"],
            "--workers=2 --json --seed=7 -I x b.p4 --port 3=tap:t",
        ),
        (
            &["--json", "--seed=9", "-I", "y"],
            "a.p4 --port=0=eth0 --port=1=eth1 --workers=2 --json --seed=9 -I y",
        ),
    ] {
        assert_eq!(words("run", text, typed).unwrap().join(" "), expected);
    }
    assert_eq!(words("run", "json = false", &[]).unwrap().join(" "), "");
}

#[test]
fn mistakes_of_a_file_have_their_lines_and_hints() {
    for (command, text, expected) in [
        (
            "run",
            "seed = 1\nprot = ['0=eth0']\n",
            "p.toml:2: error: unknown key `prot`\n  = hint: did you mean `port`? `polyplane run --help` lists the options",
        ),
        (
            "run",
            "\n\njson = 1\n",
            "p.toml:3: error: `json` takes true or false",
        ),
        (
            "run",
            "seed = true",
            "p.toml:1: error: `seed` takes a value",
        ),
        (
            "run",
            "seed = [1, 2]",
            "p.toml:1: error: `seed` takes one value",
        ),
        ("run", "[port]\n0 = 'eth0'", "p.toml:1: error: "),
        ("run", "seed = ", "p.toml:1: error: "),
        (
            "run",
            "command = 'host'\n",
            "p.toml:1: error: the file is for `polyplane host`",
        ),
        (
            "host",
            "command = 'ruin'\n",
            "p.toml:1: error: there is no command `ruin`",
        ),
        ("host", "slot = 3\n", "did you mean `slots`?"),
        ("serve", "config = 'other.toml'\n", "unknown key `config`"),
    ] {
        let error = words(command, text, &[]).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_wrong_value_is_reported_at_its_line() {
    let cli = Cli::command();
    let file = |text| ConfigFile::of_text(&cli, Path::new("p.toml"), text, Some("run")).unwrap();
    for (text, expected) in [
        (
            "program = 'a.p4'\nport = ['0=eth0', 'eth1']\n",
            "p.toml:2: error: `port`: invalid value 'eth1'",
        ),
        (
            "program = 'a.p4'\n\nport = '0=eth0'\nworkers = 0\n",
            "p.toml:4: error: `workers`: ",
        ),
        (
            "program = 'a.p4'\nport = '0=eth0'\ntrace-count = 3\n",
            "p.toml: error: the following required arguments were not provided",
        ),
        (
            "port = '0=eth0'\n",
            "p.toml: error: the following required arguments were not provided",
        ),
    ] {
        let file = file(text);
        let words = file.insert_into(&cli, &["polyplane".into(), "run".into()]);
        let error = cli.clone().try_get_matches_from(words).unwrap_err();
        let place = file.place(&error);
        assert!(place.starts_with(expected), "{place}");
        assert!(!place.contains("Usage"), "{place}");
    }
}

#[test]
fn the_file_of_a_command_line_is_found() {
    for (typed, expected) in [
        ("run --config a.toml", Some(("run", "a.toml"))),
        ("host --io packet --config=a.toml", Some(("host", "a.toml"))),
        ("serve -- --config a.toml", None),
        ("ctl --config a.toml", None),
        ("run --config", None),
    ] {
        let words = ["polyplane"].into_iter().chain(typed.split(' '));
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let found = named_file(&words);
        let expected = expected.map(|(command, file)| (command, PathBuf::from(file)));
        assert_eq!(found, expected, "{typed}");
    }
}
