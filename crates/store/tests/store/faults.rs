//! Tests of stored state after power failures, with a full disk, and with damaged files.

use std::path::Path;
use std::sync::Arc;

use crate::common::{ALL, apply, commit, compile, device, forwards, table};
use ir::Program;
use packet::Nanos;
use store::{Directory, KeptState};
use support::rng::Rng;
use switch::{Change, Device, KeptCells, StorageError};

use crate::disk::SimulatedDisk;

/// Number of entries that every batch changes.
const STRIPE: u64 = 4;

/// Starts a device with its state on this disk.
fn started(program: &Arc<Program>, disk: &SimulatedDisk) -> (Device, KeptState) {
    let kept = KeptState::open(Box::new(disk.clone())).expect("the disk is in order");
    let mut device = device(program);
    let has_it = kept.program().expect("it can be read").is_some();
    if has_it {
        kept.restore(&mut device).expect("it fits");
    }
    (device, kept)
}

fn keep(mut device: Device, kept: KeptState, has_it: bool) -> Device {
    let keeper = kept.keep().expect("a thread");
    device.keep_in(Box::new(keeper), KeptCells::default(), has_it);
    device
}

/// Changes all entries of the stripe to the number, and adds one entry.
fn write(device: &mut Device, number: u64) -> Result<(), StorageError> {
    let program = Arc::clone(device.program());
    let table = table(&program, "exact_table");
    device.hold();
    for key in 0..STRIPE {
        let entry = forwards(&program, table, key, number);
        let entries = device.configuration().tables[table].iter();
        let there = entries.map(|entry| entry.id).nth(key as usize);
        match there {
            Some(id) => apply(device, Change::Modify(table, id, entry.action, None)),
            None => apply(device, Change::Insert(table, entry)),
        };
    }
    let note = number.to_be_bytes().into();
    apply(device, Change::SetNote(b"number"[..].into(), Some(note)));
    commit(device)
}

/// Returns the number of the last stored batch, or 0, and checks that the batch is complete.
fn read(device: &Device) -> u64 {
    let program = device.program();
    let table = table(program, "exact_table");
    let Some(number) = device.notes().get(&b"number"[..]) else {
        assert_eq!(device.configuration().tables[table].len(), 0);
        return 0;
    };
    let number = u64::from_be_bytes((**number).try_into().expect("8 bytes"));
    let entries: Vec<_> = device.configuration().tables[table].iter().collect();
    assert_eq!(entries.len(), STRIPE as usize);
    for entry in entries {
        let written = device.written(table, &entry).expect("it is the table's");
        let expected = forwards(program, table, 0, number);
        assert_eq!(written.action, expected.action, "half of a batch");
    }
    number
}

/// Cuts the power at some moment of some batch. Returns the number of the last batch reported as
/// stored, and those found on the disk.
fn cut(program: &Arc<Program>, seed: u64) -> (u64, u64, u64) {
    let mut draw = Rng::new(seed);
    let mut disk = SimulatedDisk::new();
    let (mut last_kept, mut last_tried) = (0, 0);
    // The power returns and fails again.
    for _ in 0..2 {
        let (found, kept) = started(program, &disk);
        let there = read(&found);
        assert!(
            (last_kept..=last_tried).contains(&there),
            "seed {seed}: {there} is there, {last_kept} was kept"
        );
        (last_kept, last_tried) = (there, there);
        disk.cut_after(draw.index(60) as u32);
        let mut device = keep(found, kept, there > 0);
        for number in there + 1..there + 12 {
            last_tried = number;
            if write(&mut device, number).is_err() {
                break;
            }
            last_kept = number;
        }
        drop(device);
        disk = disk.after_cut(|bound| draw.index(bound));
    }
    let (found, _) = started(program, &disk);
    (last_kept, read(&found), last_tried)
}

fn cuts(seeds: std::ops::Range<u64>) {
    let program = compile(ALL);
    let mut cut_short = 0;
    for seed in seeds.clone() {
        let (kept, there, tried) = cut(&program, seed);
        assert!(
            (kept..=tried).contains(&there),
            "seed {seed}: {there} is there, {kept} was kept, {tried} was tried"
        );
        cut_short += u64::from(kept < tried);
    }
    // Otherwise the power failed too late for a meaningful test.
    assert!(cut_short * 2 > seeds.end - seeds.start, "{cut_short} cuts");
}

#[test]
fn a_power_cut_leaves_every_batch_that_was_kept_and_no_half_of_another() {
    cuts(0..40);
}

/// `cargo test -p store --test store -- --ignored`
#[test]
#[ignore = "takes a while"]
fn a_thousand_power_cuts_leave_every_batch_that_was_kept() {
    cuts(1000..2000);
}

#[test]
fn a_full_disk_refuses_batches_until_there_is_room_and_what_was_kept_stays() {
    let program = compile(ALL);
    let disk = SimulatedDisk::new();
    let (found, kept) = started(&program, &disk);
    let mut device = keep(found, kept, false);
    write(&mut device, 1).expect("there is room");
    disk.fill(0);
    let note = |device: &mut Device, size: usize| {
        let bytes = vec![7; size].into();
        apply(device, Change::SetNote(b"large"[..].into(), Some(bytes)));
        commit(device)
    };
    let error = note(&mut device, 1 << 20).expect_err("there is no room");
    assert!(error.is_full, "{error}");
    assert!(error.message.contains("the simulated disk"), "{error}");
    // Until the change is undone nothing else is stored, even with free space.
    disk.make_room();
    assert!(commit(&mut device).is_err());
    apply(&mut device, Change::SetNote(b"large"[..].into(), None));
    device.is_undone();
    write(&mut device, 2).expect("there is room again");
    drop(device);
    let (found, _) = started(&program, &disk);
    assert_eq!(read(&found), 2);
    assert!(!found.notes().contains_key(&b"large"[..]));
}

#[test]
fn what_packets_changed_is_kept_when_there_is_room_again() {
    let program = compile(ALL);
    let disk = SimulatedDisk::new();
    let (found, kept) = started(&program, &disk);
    let mut device = keep(found, kept, false);
    commit(&mut device).expect("there is room");
    disk.fill(0);
    let bytes = vec![7; 1 << 20].into();
    apply(&mut device, Change::SetNote(b"own"[..].into(), Some(bytes)));
    // No caller waits for this change.
    device.step(Nanos::from_millis(1));
    let error = commit(&mut device).expect_err("one behind a failure is refused");
    assert!(error.is_full, "{error}");
    disk.make_room();
    device.is_undone();
    device.step(Nanos::from_millis(5000));
    write(&mut device, 1).expect("there is room again");
    drop(device);
    let (found, _) = started(&program, &disk);
    assert_eq!(found.notes()[&b"own"[..]].len(), 1 << 20);
}

/// Creates a directory with the state of a device that stored one batch. Returns its file.
fn directory(program: &Arc<Program>, at: &Path) -> std::path::PathBuf {
    let kept = Directory::open(at).and_then(|directory| directory.device(1));
    let mut device = keep(device(program), kept.expect("it is new"), false);
    write(&mut device, 9).expect("there is room");
    at.join("device-1.redb")
}

/// Returns the result of opening a file with these bytes.
fn said(at: &Path, file: &Path, bytes: &[u8]) -> Result<u64, String> {
    std::fs::write(file, bytes).expect("there is room");
    let directory = Directory::open(at).map_err(|e| e.to_string())?;
    let kept = directory.device(1).map_err(|e| e.to_string())?;
    let program = kept.program().map_err(|e| e.to_string())?;
    let mut device = device(&program.ok_or("it is empty")?);
    kept.restore(&mut device).map_err(|e| e.to_string())?;
    Ok(read(&device))
}

#[test]
fn a_damaged_file_is_an_error_that_names_it_and_never_an_empty_state() {
    let program = compile(ALL);
    let at = tempfile::tempdir().expect("a directory");
    let file = directory(&program, at.path());
    let whole = std::fs::read(&file).expect("it is there");
    assert_eq!(said(at.path(), &file, &whole), Ok(9));
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut draw = Rng::new(1);
    let mut refused = 0;
    let empty = (0, whole.len());
    let short = (1, draw.index(whole.len()));
    let damages = [empty, short]
        .into_iter()
        .chain((0..60).map(|_| (2, draw.index(whole.len()))));
    for (kind, place) in damages.collect::<Vec<_>>() {
        let mut bytes = whole.clone();
        match kind {
            0 => bytes.clear(),
            1 => bytes.truncate(place),
            _ => bytes[place] ^= 0xff,
        }
        match said(at.path(), &file, &bytes) {
            // The changed byte is unused or has no meaning.
            Ok(number) => assert_eq!(number, 9, "byte {place}"),
            Err(error) => {
                refused += 1;
                assert!(error.contains("device-1.redb"), "{error}");
                assert!(error.contains("move the file away"), "{error}");
            }
        }
    }
    std::panic::set_hook(quiet);
    assert!(refused >= 3, "{refused}");
}

#[test]
fn a_directory_has_one_owner_at_a_time() {
    let at = tempfile::tempdir().expect("a directory");
    let first = Directory::open(at.path()).expect("nobody has it");
    let kept = first.device(1).expect("it is new");
    drop(first);
    // The device's state holds the lock.
    let error = Directory::open(at.path())
        .expect_err("it is taken")
        .to_string();
    assert!(error.contains("is in use by another switch"), "{error}");
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    // An owner that is about to end is waited for, as after a kill.
    let again = std::thread::scope(|scope| {
        let opening = scope.spawn(|| Directory::open(at.path()));
        scope.spawn(|| drop(kept));
        opening.join().expect("it does not panic")
    });
    let again = again.expect("it is free");
    assert_eq!(again.devices(), Ok(vec![1]));
}

#[test]
fn a_state_that_is_open_already_is_not_called_damaged() {
    let at = tempfile::tempdir().expect("a directory");
    let directory = Directory::open(at.path()).expect("nobody has it");
    let kept = directory.device(1).expect("it is new");
    let error = directory.device(1).expect_err("it is open").to_string();
    assert!(error.contains("device-1.redb is in use already"), "{error}");
    assert!(!error.contains("move the file away"), "{error}");
    drop(kept);
    directory.device(1).expect("it is free");
}

#[test]
fn a_lock_of_something_else_stays_as_it_is() {
    let at = tempfile::tempdir().expect("a directory");
    let lock = at.path().join("lock");
    let opens = [Directory::open, Directory::look];
    let long = "1".repeat(100);
    for text in ["dpkg", "12 and more", "-1", &long] {
        std::fs::write(&lock, text).expect("there is room");
        for open in opens {
            let error = open(at.path()).expect_err("it is not a switch's");
            let error = error.to_string();
            assert!(error.contains("`lock` is not that of a switch"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&lock).expect("it is there"), text);
    }
    // The file of a switch that has ended, and of one that was killed before it wrote its process
    // id.
    for text in ["4294967", "77\n", ""] {
        std::fs::write(&lock, text).expect("there is room");
        for open in opens {
            open(at.path()).expect("nobody has it");
        }
    }
}

#[test]
fn who_only_looks_makes_nothing_and_still_waits_for_its_turn() {
    let at = tempfile::tempdir().expect("a directory");
    let looked = Directory::look(at.path()).expect("it is there");
    assert_eq!(looked.devices(), Ok(vec![]));
    let files = std::fs::read_dir(at.path()).expect("it is there");
    assert_eq!(files.count(), 0);
    let switch = Directory::open(at.path()).expect("nobody has it");
    let error = Directory::look(at.path()).expect_err("a switch has it");
    assert!(error.to_string().contains("is in use"), "{error}");
    drop(switch);
    let looked = Directory::look(at.path()).expect("it is free");
    Directory::open(at.path()).expect_err("it is looked at");
    drop(looked);
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    use redb::{Database, TableDefinition};
    let at = tempfile::tempdir().expect("a directory");
    drop(Directory::open(at.path()).and_then(|directory| directory.device(4)));
    let database = Database::open(at.path().join("device-4.redb")).expect("it is there");
    let change = database.begin_write().expect("it can be written");
    let about: TableDefinition<&str, u64> = TableDefinition::new("about");
    change
        .open_table(about)
        .unwrap()
        .insert("version", 2)
        .unwrap();
    change.commit().expect("there is room");
    drop(database);
    let directory = Directory::open(at.path()).expect("it is free");
    let error = directory.device(4).expect_err("it is newer").to_string();
    assert!(
        error.contains("device-4.redb has the format 2 of a newer Polyplane"),
        "{error}"
    );
    assert!(error.contains("reads the format 1"), "{error}");
}
