//! Programs inside of the emitted hypervisor do what they do alone: every program of the corpus that entries can express passes its own test there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use entries::Update;
use entries::stf::CommandKind;
use hypervisor::{Place, Shape};
use ir::Program;
use stf::Setup;
use switch::DeviceConfig;

/// Deep expressions take stack to walk.
const STACK_BYTES: usize = 64 << 20;

const SHAPE: Shape = Shape { ingress: 12, egress: 12 };

fn place() -> Place {
    Place { vpdp: 1, program: 1, shape: SHAPE, cells: 0 }
}

fn hypervisor() -> Arc<Program> {
    testkit::compile_text(&hypervisor::emit(SHAPE)).expect("the hypervisor compiles")
}

/// A program's test for the hypervisor: its commands about tables are entries of the hypervisor, all others stay.
struct Hosting<'a> {
    program: &'a Program,
    directory: &'a Path,
    updates: Vec<Update>,
    files: HashMap<String, String>,
    told: Vec<String>,
}

impl Hosting<'_> {
    fn translate(&mut self, lines: &mut Vec<String>) -> Result<(), String> {
        let hosted = hypervisor::translate(self.program, &self.updates, &place())
            .map_err(|refusal| refusal.text(self.program))?;
        let mut text = String::from("HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1\n");
        for entry in &hosted.entries {
            text += &format!("{entry}\n");
        }
        for statement in &hosted.statements {
            if !self.told.contains(statement) {
                text += &format!("{statement}\n");
                self.told.push(statement.clone());
            }
        }
        let name = format!("part_{}", self.files.len());
        lines.push("remove all".into());
        lines.push(format!("entries {name}"));
        self.files.insert(name, text);
        Ok(())
    }

    fn test(&mut self, name: &str, text: &str) -> Result<String, String> {
        let commands = entries::stf::read(self.program, name, text).map_err(|e| format!("{e:?}"))?;
        let source: Vec<&str> = text.lines().collect();
        let mut lines = Vec::new();
        let mut is_stale = true;
        for command in commands {
            match command.kind {
                CommandKind::Update(update) | CommandKind::Labelled(update, _) => {
                    self.updates.push(update);
                    is_stale = true;
                }
                CommandKind::Entries(file) => {
                    let path = self.directory.join(&file);
                    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
                    let read = entries::read(self.program, &file, &text).map_err(|e| format!("{e:?}"))?;
                    self.updates.extend(read.updates().iter().cloned());
                    is_stale = true;
                }
                CommandKind::RemoveAll => {
                    self.updates.retain(|update| !matches!(update, Update::Insert(..)));
                    is_stale = true;
                }
                CommandKind::CheckCounter { .. } | CommandKind::ExpectDigest { .. } | CommandKind::ExpectIdle(_) => {}
                CommandKind::RegisterRead(..) | CommandKind::CounterRead(..) | CommandKind::MeterRead(..) => {}
                _ => {
                    if is_stale && matches!(command.kind, CommandKind::Packet { .. }) {
                        self.translate(&mut lines)?;
                        is_stale = false;
                    }
                    lines.push(source[command.line as usize - 1].to_owned());
                }
            }
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// How a program fared.
enum Fate {
    Same,
    Refused(String),
    Different(Vec<String>),
}

fn fate(path: &Path, hypervisor: &Arc<Program>) -> Fate {
    let program = testkit::compile(path).expect("the program compiles");
    let test = path.with_extension("stf");
    let text = std::fs::read_to_string(&test).expect("the test can be read");
    let mut hosting = Hosting {
        program: &program,
        directory: path.parent().expect("a file is in a directory"),
        updates: Vec::new(),
        files: HashMap::new(),
        told: Vec::new(),
    };
    let name = test.display().to_string();
    let text = match hosting.test(&name, &text) {
        Ok(text) => text,
        Err(refusal) => return Fate::Refused(refusal),
    };
    let files = hosting.files;
    if let Ok(dump) = std::env::var("DUMP") { let _ = std::fs::create_dir_all(&dump); let stem = path.file_stem().unwrap().to_string_lossy();
        std::fs::write(format!("{dump}/{stem}.stf"), &text).unwrap(); for (n, t) in &files { std::fs::write(format!("{dump}/{stem}_{n}"), t).unwrap(); } }
    let read_file = |name: &str| files.get(name).cloned().ok_or_else(|| name.to_owned());
    let engine = interp::Interp;
    let setup = Setup {
        program: Arc::clone(hypervisor),
        engine: &engine,
        device: DeviceConfig::default(),
        read_file: &read_file,
    };
    match stf::run(&setup, &name, &text) {
        Ok(report) if report.failures.is_empty() => Fate::Same,
        Ok(report) => Fate::Different(report.failures.iter().map(|f| f.message.clone()).collect()),
        Err(refused) => Fate::Different(vec![format!("{refused:?}")]),
    }
}

fn programs(directory: &str) -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the directory can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "stf") {
                found.push(path.with_extension("p4"));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn at_least_four_of_five_programs_do_the_same_inside_of_the_hypervisor() {
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
    let only = std::env::var("ONLY").ok();
    let checked = worker.spawn(move || {
        let hypervisor = hypervisor();
        let (mut same, mut of, mut wrong) = (0, 0, Vec::new());
        for path in [programs("programs"), programs("../examples")].concat() {
            let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            if only.as_ref().is_some_and(|only| !only.split(',').any(|o| o == name)) { continue; }
            if testkit::compile(&path).expect("it compiles").arch != ir::Arch::V1model {
                continue;
            }
            of += 1;
            match fate(&path, &hypervisor) {
                Fate::Same => same += 1,
                Fate::Refused(why) => println!("refused: {name}: {why}"),
                Fate::Different(how) => { println!("DIFFERENT {name}: {}", how.join(" | ")); wrong.push(name); }
            }
        }
        println!("{same} of {of} are expressed");
        (same, of, wrong)
    });
    let (same, of, wrong) = checked.expect("a thread starts").join().expect("no panic");
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(same * 5 >= of * 4, "{same} of {of}");
}
