//! Writes of a store that keeps votes and entries on disk, beside a bare write and `fdatasync`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use consensus::{Ack, NodeId, Operation, ReadMode, RequestAnswer, StoredValue};
use packet::Nanos;
use reflex::{
    MemberTransport, ReplicaGroup, RequestId, StoreEvent, StoreRefusal, StoreSpec, cluster_name,
};
use reflex_runtime::LogThread;
use store::LogOwner;
use support::wakeup::WakeupFd;

use super::{Context, Origin, ROUNDS, Sheet, median, ratio};

/// Requests under way at once, of the row of a load.
const OUTSTANDING: usize = 64;
/// Bytes of a bare write: an entry with a value of 64 bytes, and its place.
const BARE: usize = 128;
const SEED: u64 = 1;
/// Time within which an answer must come: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(60);

/// A store with all of its replicas in this process, each with a disk and the thread of it.
struct OnDisk {
    group: ReplicaGroup,
    begin: Instant,
    written: u64,
}

impl OnDisk {
    fn new(dir: &Path, replicas: usize) -> Result<OnDisk, String> {
        let nodes: Vec<String> = (0..replicas).map(|node| format!("n{node}")).collect();
        let spec = StoreSpec {
            voters: replicas,
            ack: Ack::Majority,
            transport: MemberTransport::OneProcess,
            key_file: None,
            reads: ReadMode::Index,
            dir: Some(dir.to_owned()),
            election_timeout: Nanos::from_millis(500),
            nodes,
        };
        let cluster = cluster_name(SEED, &spec.nodes);
        let wake = WakeupFd::armed().map_err(|error| error.to_string())?;
        let wake = Arc::new(wake);
        let opened = spec.nodes.iter().enumerate().map(|(at, name)| {
            let owner = LogOwner {
                cluster,
                node: NodeId(at as u64 + 1),
            };
            let opened = LogThread::open(&dir.join(name), owner, Arc::clone(&wake));
            Ok((at, opened.map_err(|error| error.to_string())?))
        });
        let opened = opened.collect::<Result<Vec<_>, String>>()?;
        let group = ReplicaGroup::on_disk(&spec, (SEED, 1), Nanos::ZERO, opened);
        let mut on_disk = OnDisk {
            group: group.ok_or("the store has too many nodes")?,
            begin: Instant::now(),
            written: 0,
        };
        on_disk.wait(|group, _| group.leads_with_all().then_some(()))?;
        Ok(on_disk)
    }

    /// Works until `found` returns something. It gets each event of the store.
    fn wait<T>(
        &mut self,
        mut found: impl FnMut(&mut ReplicaGroup, Option<StoreEvent>) -> Option<T>,
    ) -> Result<T, String> {
        let begin = Instant::now();
        loop {
            let now = Nanos::from(self.begin.elapsed());
            self.group.step(now);
            while let Some(event) = self.group.next_event() {
                if let Some(found) = found(&mut self.group, Some(event)) {
                    return Ok(found);
                }
            }
            if let Some(found) = found(&mut self.group, None) {
                return Ok(found);
            }
            if let Some(error) = self.group.disk_error() {
                return Err(error.message);
            }
            if begin.elapsed() > SOON {
                return Err(
                    "the store has no answer: a defect, or a disk that stood still".to_owned(),
                );
            }
            // The threads of the disks need the core.
            std::thread::yield_now();
        }
    }

    fn put(&mut self) -> Result<RequestId, String> {
        self.written += 1;
        let key = u128::from(self.written % 512).to_le_bytes();
        let value = StoredValue::new(&[7; 64]).unwrap_or_default();
        let requested = self.group.request(Operation::Put(key, value));
        requested.map_err(|refusal: StoreRefusal| refusal.to_string())
    }

    /// Makes writes, `outstanding` at once. Returns the time of each in ns, and the writes a
    /// second.
    fn write(&mut self, count: usize, outstanding: usize) -> Result<(Vec<f64>, f64), String> {
        let begin = Instant::now();
        let mut open: Vec<(RequestId, Instant)> = Vec::new();
        let mut times = Vec::with_capacity(count);
        while times.len() < count {
            while open.len() < outstanding && times.len() + open.len() < count {
                open.push((self.put()?, Instant::now()));
            }
            let (id, answer) = self.wait(|_, event| match event {
                Some(StoreEvent::Answered(id, answer)) => Some((id, answer)),
                _ => None,
            })?;
            if answer != RequestAnswer::Done {
                return Err(format!("a write is answered by {answer:?}"));
            }
            if let Some(at) = open.iter().position(|(own, _)| *own == id) {
                let (_, since) = open.swap_remove(at);
                times.push(since.elapsed().as_nanos() as f64);
            }
        }
        let rate = count as f64 / begin.elapsed().as_secs_f64();
        Ok((times, rate))
    }
}

/// Appends to a file and waits for the disk, again and again. Returns the times in ns.
fn bare(dir: &Path, count: usize) -> Result<Vec<f64>, String> {
    let path = dir.join("bare");
    let words = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::create(&path).map_err(words)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        file.write_all(&[7; BARE]).map_err(words)?;
        file.sync_data().map_err(words)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// Adds the rows of stores of one and of three replicas, each round beside bare writes on the same
/// disk.
///
/// # Errors
/// A write fails, or a signal arrived.
pub(super) fn rows(context: &mut Context<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let (count, load) = context.choose((200, 10_000), (3, 64));
    let dir = context.options.out.join("reflex-disk");
    let outcome = measured(context, &dir, sheet, (count, load));
    // What a failed measurement leaves is removed, too.
    let removed = std::fs::remove_dir_all(&dir);
    outcome?;
    removed.map_err(|error| format!("{}: {error}", dir.display()))
}

fn measured(
    context: &mut Context<'_>,
    dir: &Path,
    sheet: &mut Sheet,
    (count, load): (usize, usize),
) -> Result<(), String> {
    let mut all_bare = Vec::new();
    for (at, replicas) in [1, 3].into_iter().enumerate() {
        let own = dir.join(replicas.to_string());
        std::fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let mut store = OnDisk::new(&own, replicas)?;
        let (mut lone, mut beside, mut lone_rates, mut rates) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            context.tell(
                "writes on disk",
                at * (ROUNDS + 1) + round,
                2 * (ROUNDS + 1),
            )?;
            let bare = median(&bare(dir, count)?);
            let (times, lone_rate) = store.write(count, 1)?;
            let (_, rate) = store.write(load, OUTSTANDING)?;
            // The first round opens sessions.
            if round > 0 {
                beside.push(bare);
                lone.push(median(&times));
                lone_rates.push(lone_rate);
                rates.push(rate);
            }
        }
        let subject = match replicas {
            1 => "write, one replica, keep = disk",
            _ => "write, three replicas in one process, keep = disk",
        };
        let values = [
            ("median us", median(&lone) / 1e3),
            ("of a bare write and sync", ratio(&lone, &beside)),
            ("64 outstanding, writes/s", median(&rates)),
            (
                "64 outstanding, of a lone client",
                ratio(&rates, &lone_rates),
            ),
        ];
        sheet.add(subject, Origin::Measured, &values);
        all_bare.extend(beside);
    }
    let values = [("median us", median(&all_bare) / 1e3)];
    sheet.add("bare write and fdatasync", Origin::Measured, &values);
    Ok(())
}
