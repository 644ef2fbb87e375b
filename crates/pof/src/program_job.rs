//! Programs that are made beside the running one.
//!
//! A message that needs another program waits. [`Forwarder::prepare`] notes what it needs,
//! [`Forwarder::take_job`] gives the work for all messages that wait to another thread, and
//! [`Forwarder::finish`] lets the result take the place of the running program, with all state.
//! Then the messages are looked at again, against the tables as they are by then. Meanwhile packets
//! go on with the program before.
//!
//! Without [`Forwarder::defer_programs`] a message makes its program at once.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use exec::Engine;
use ir::{ExternId, TableId};
use switch::{Device, DeviceConfig, MayLose, MigrationMode};

use crate::forwarder::{Forwarder, ForwarderOptions, is_for_tables, packet_out_entry};
use crate::tables::{FlowChange, GroupChange, TableChange, TableNumber, Tables};
use crate::translate::{Shape, ShapesByTable, Translation, translate};
use crate::wire::{Body, ErrorCode, FlowMod};

/// The wait of messages for a program. The program that is made keeps their shapes as long as this
/// exists.
#[derive(Debug)]
pub struct ProgramWait {
    /// Number of the job that is awaited.
    job: u64,
    /// False if another message comes first: the job is not for this one.
    has_joined: bool,
    /// Number of messages for which it is, in their order.
    pub(crate) messages: usize,
    #[expect(dead_code, reason = "the program keeps shapes that are held")]
    shapes: Vec<Arc<Shape>>,
}

/// Needs of the messages for which the next job is.
#[derive(Default)]
struct Wanted {
    messages: usize,
    /// Held until the job begins, which holds them then.
    shapes: Vec<Arc<Shape>>,
    /// Tables that the program must not have.
    without: BTreeSet<TableNumber>,
    /// Sizes of tables, where they are other ones.
    sizes: BTreeMap<TableNumber, u32>,
    /// Groups of which the entries follow when the program is made.
    groups: BTreeSet<u32>,
}

/// A job that has begun.
struct Begun {
    number: u64,
    messages: usize,
    groups: BTreeSet<u32>,
    /// The tables of its program, with their sizes.
    tables: BTreeMap<TableNumber, u32>,
}

/// A job that has failed.
struct Failed {
    number: u64,
    /// True if it was for one message, which is refused then.
    is_for_one: bool,
}

/// Jobs of a switch: at most one has begun, and one is collected.
pub(crate) struct ProgramJobs {
    is_deferred: bool,
    wanted: Option<Wanted>,
    /// Number of the job that is collected.
    next: u64,
    begun: Option<Begun>,
    failed: Option<Failed>,
    /// Number of jobs that are for one message each, since one for several has failed.
    single: usize,
    /// Groups that each get a job of their own, since one for several has failed.
    retried_groups: VecDeque<u32>,
    /// Groups of which the entries keep their actions: there is no room, or no program.
    failed_groups: Vec<u32>,
}

impl Default for ProgramJobs {
    fn default() -> ProgramJobs {
        ProgramJobs {
            is_deferred: false,
            wanted: None,
            next: 1,
            begun: None,
            failed: None,
            single: 0,
            retried_groups: VecDeque::new(),
            failed_groups: Vec::new(),
        }
    }
}

impl ProgramJobs {
    fn is_pending(&self, wait: &ProgramWait) -> bool {
        let has_begun = |begun: &Begun| begun.number == wait.job;
        wait.job >= self.next || self.begun.as_ref().is_some_and(has_begun)
    }

    /// Returns true if the job for this message alone has failed.
    fn has_failed(&self, wait: &ProgramWait) -> bool {
        let is_own = |failed: &Failed| failed.is_for_one && failed.number == wait.job;
        wait.has_joined && self.failed.as_ref().is_some_and(is_own)
    }

    /// Ends the job that has begun. Returns its groups if it has not failed.
    fn end(&mut self, number: u64, has_failed: bool) -> BTreeSet<u32> {
        let begun = self.begun.take();
        let (messages, groups) =
            begun.map_or((1, BTreeSet::new()), |begun| (begun.messages, begun.groups));
        let is_for_one = messages <= 1;
        self.single = match (has_failed, is_for_one) {
            (true, false) => messages,
            // The one that cannot be made is found.
            (true, true) => 0,
            (false, _) => self.single.saturating_sub(1),
        };
        if !has_failed {
            return groups;
        }
        self.failed = Some(Failed { number, is_for_one });
        match is_for_one {
            true => self.failed_groups.extend(groups),
            false => self.retried_groups.extend(groups),
        }
        BTreeSet::new()
    }
}

/// Needs of a message that the running program does not meet.
#[derive(Default)]
struct Needs {
    shapes: Vec<(TableNumber, Shape)>,
    without: Option<TableNumber>,
    size: Option<(TableNumber, u32)>,
}

impl Needs {
    fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.without.is_none() && self.size.is_none()
    }
}

/// Work that makes a program. It may run on any thread.
pub struct ProgramJob {
    number: u64,
    /// Number of programs that have run before it.
    after: u64,
    tables: Tables,
    shapes: ShapesByTable,
    options: ForwarderOptions,
    engine: Arc<dyn Engine>,
}

/// A program that was made, or the failure to make it.
pub struct MadeProgram {
    number: u64,
    after: u64,
    shapes: ShapesByTable,
    new: Option<NewProgram>,
}

/// A device with a program and no state, and the objects of the program.
struct NewProgram {
    device: Device,
    tables: BTreeMap<TableNumber, TableId>,
    counters: ExternId,
    meters: ExternId,
    fault_counts: ExternId,
}

impl ProgramJob {
    /// Makes the program.
    pub fn run(self) -> MadeProgram {
        let Translation {
            program,
            tables,
            counters,
            meters,
            fault_counts,
        } = translate(&self.tables, &self.shapes, self.options.on_miss);
        let config = DeviceConfig {
            seed: self.options.seed,
            ..DeviceConfig::default()
        };
        let device = Device::new(Arc::new(program), self.engine.as_ref(), &config);
        let new = device.ok().map(|device| NewProgram {
            device,
            tables,
            counters,
            meters,
            fault_counts,
        });
        MadeProgram {
            new,
            ..self.failed()
        }
    }

    /// Returns the result of a job that has come to no end.
    pub fn failed(&self) -> MadeProgram {
        MadeProgram {
            number: self.number,
            after: self.after,
            shapes: self.shapes.clone(),
            new: None,
        }
    }
}

impl Forwarder {
    /// From now on, messages that need a new program wait for [`Forwarder::take_job`] and
    /// [`Forwarder::finish`].
    pub fn defer_programs(&mut self) {
        self.jobs.is_deferred = true;
    }

    /// Looks whether the program has all that a message needs. `following` returns the FLOW_MODs
    /// that have arrived after it: they share its program. `last` is the wait of this message that
    /// is over. Returns a wait if a program must be made first, and then the message must not be
    /// handled.
    ///
    /// # Errors
    /// The program of this message cannot be made.
    pub(crate) fn prepare(
        &mut self,
        message: &Body,
        following: impl FnOnce() -> Vec<FlowMod>,
        last: Option<&ProgramWait>,
    ) -> Result<Option<ProgramWait>, ErrorCode> {
        let needs = self.needs(message);
        if needs.is_empty() {
            return Ok(None);
        }
        if !self.jobs.is_deferred {
            let following = following();
            if let Body::FlowMod(flow) = message
                && !following.is_empty()
            {
                self.foresee(std::iter::once(flow).chain(&following));
            }
            return Ok(None);
        }
        if last.is_some_and(|last| self.jobs.has_failed(last)) {
            return Err(match message {
                Body::TableMod(_) => ErrorCode::TableUnknown,
                _ => ErrorCode::FlowUnknown,
            });
        }
        self.shapes.drop_unused();
        let is_new = |(number, shape): &(TableNumber, Shape)| !self.shapes.has(*number, shape);
        if needs.shapes.iter().any(is_new) && self.is_full() {
            // It is refused when it is handled.
            return Ok(None);
        }
        let is_single = self.jobs.single > 0;
        if is_single && self.jobs.wanted.is_some() {
            return Ok(Some(ProgramWait {
                job: self.jobs.next,
                has_joined: false,
                messages: 1,
                shapes: Vec::new(),
            }));
        }
        let following = match is_single || !matches!(message, Body::FlowMod(_)) {
            true => Vec::new(),
            false => following(),
        };
        let mut shapes = needs.shapes;
        for flow in &following {
            if let Some((number, entry)) = self.tables.new_entry(flow) {
                shapes.push((number, self.shape_of(&entry).0));
            }
        }
        let wait = self.want(1 + following.len(), shapes);
        let wanted = self.jobs.wanted.get_or_insert_default();
        wanted.without.extend(needs.without);
        wanted.sizes.extend(needs.size);
        Ok(Some(wait))
    }

    /// Returns true if the program can have no other shape.
    pub(crate) fn is_full(&self) -> bool {
        self.shapes.len() >= self.options.limits.shapes
    }

    /// Adds shapes to the next job, up to the limit.
    fn want(&mut self, messages: usize, shapes: Vec<(TableNumber, Shape)>) -> ProgramWait {
        let mut held = Vec::new();
        for (number, shape) in shapes {
            if self.is_full() && !self.shapes.has(number, &shape) {
                continue;
            }
            held.push(self.shapes.add(number, shape));
        }
        let wanted = self.jobs.wanted.get_or_insert_default();
        wanted.messages += messages;
        wanted.shapes.extend(held.iter().cloned());
        ProgramWait {
            job: self.jobs.next,
            has_joined: true,
            messages,
            shapes: held,
        }
    }

    /// Returns true while the program of a wait is not made.
    pub fn is_pending(&self, wait: &ProgramWait) -> bool {
        self.jobs.is_pending(wait)
    }

    /// Returns the work for all messages that wait, if there are any and no other work has begun.
    /// Give its result to [`Forwarder::finish`].
    pub fn take_job(&mut self) -> Option<ProgramJob> {
        if self.jobs.begun.is_some() {
            return None;
        }
        while self.jobs.wanted.is_none()
            && let Some(group) = self.jobs.retried_groups.pop_front()
        {
            self.renew_groups([group]);
        }
        let wanted = self.jobs.wanted.take()?;
        let number = self.jobs.next;
        self.jobs.next += 1;
        self.shapes.drop_unused();
        let mut job = self.job(number);
        // Of a table that was removed, a message may hold shapes until it is refused.
        job.shapes.retain(|number, _| {
            let is_there =
                *number == TableNumber::PACKET_OUT || job.tables.table(*number).is_some();
            is_there && !wanted.without.contains(number)
        });
        for (number, size) in wanted.sizes {
            let name = job.tables.table(number).map(|table| table.name);
            let resize = name.map(|name| TableChange::Resize(number, size, name));
            resize
                .into_iter()
                .for_each(|resize| job.tables.apply_table(resize));
        }
        let tables = job.shapes.keys();
        let tables = tables.filter_map(|number| Some((*number, job.tables.table(*number)?.size)));
        self.jobs.begun = Some(Begun {
            number,
            messages: wanted.messages,
            groups: wanted.groups,
            tables: tables.collect(),
        });
        Some(job)
    }

    fn job(&self, number: u64) -> ProgramJob {
        ProgramJob {
            number,
            after: self.programs,
            tables: self.tables.without_entries(),
            shapes: self.shapes.by_table(),
            options: self.options.clone(),
            engine: Arc::clone(&self.engine),
        }
    }

    /// Lets the program of a job take the place of the running one, with all state. Its messages
    /// can go on then; after a failure those of a job for several are tried one by one. Returns
    /// what is left of the program that runs no more: to drop it may take time.
    pub fn finish(&mut self, made: MadeProgram) -> Option<Device> {
        let number = made.number;
        if made.after != self.programs {
            // Another program has taken the place, and this one may lack shapes of it.
            let groups = self.jobs.end(number, false);
            self.renew_groups(groups);
            return made.new.map(|new| new.device);
        }
        let held = made.shapes.clone();
        let (result, rest) = self.install(made);
        for group in self.jobs.end(number, result.is_err()) {
            if self.renew_users(group).is_err() {
                self.jobs.failed_groups.push(group);
            }
        }
        drop(held);
        rest
    }

    /// Renews the entries of groups, now or when their program is made.
    fn renew_groups(&mut self, groups: impl IntoIterator<Item = u32>) {
        for group in groups {
            if self.is_group_ready(group) && self.renew_users(group).is_err() {
                self.jobs.failed_groups.push(group);
            }
        }
    }

    /// Returns the groups of which the entries keep their actions, since there is no room or no
    /// program for others. Each is returned once.
    pub fn take_failed_groups(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.jobs.failed_groups)
    }

    /// Makes the program of all shapes, and lets it take the place of the running one. After an
    /// error the running one stays, and new shapes are forgotten.
    pub(crate) fn make_program(&mut self) -> Result<(), ErrorCode> {
        let made = self.job(0).run();
        self.install(made).0
    }

    fn install(&mut self, made: MadeProgram) -> (Result<(), ErrorCode>, Option<Device>) {
        let MadeProgram { shapes, new, .. } = made;
        let Some(mut new) = new else {
            self.shapes.forget(&shapes);
            return (Err(ErrorCode::TableUnknown), None);
        };
        let keep_all = MigrationMode::State(MayLose::Nothing);
        if self.device.exchange(&mut new.device, keep_all).is_err() {
            self.shapes.forget(&shapes);
            return (Err(ErrorCode::TableUnknown), Some(new.device));
        }
        self.device.stay();
        self.shapes.placed(&shapes);
        self.translated = new.tables;
        (self.counters, self.meters) = (new.counters, new.meters);
        self.fault_counts = new.fault_counts;
        self.programs += 1;
        (Ok(()), Some(new.device))
    }

    /// Makes one program for all new shapes of these messages, so that none of them needs one of
    /// its own. Nothing else changes, and each message may be refused later.
    pub fn foresee<'f>(&mut self, flows: impl IntoIterator<Item = &'f FlowMod>) {
        self.shapes.drop_unused();
        let mut held = Vec::new();
        let mut has_new = false;
        for flow in flows {
            let Some((number, entry)) = self.tables.new_entry(flow) else {
                continue;
            };
            if self.shapes.len() >= self.options.limits.shapes {
                break;
            }
            let (shape, _) = self.shape_of(&entry);
            has_new |= self.shapes.find(number, &shape).is_none();
            held.push(self.shapes.add(number, shape));
        }
        if has_new {
            // Without it each message makes its own.
            let _ = self.make_program();
        }
    }

    /// Returns true if the running program has a table as it is no more: it was set or removed, or
    /// has another size.
    pub(crate) fn is_outdated(&self, number: TableNumber, is_set: bool) -> bool {
        let size = self.tables.table(number).map(|table| table.size);
        is_set && self.translated.contains_key(&number)
            || size.is_some_and(|size| self.has_other_size(number, size))
    }

    fn has_other_size(&self, number: TableNumber, size: u32) -> bool {
        let id = self.translated.get(&number);
        id.is_some_and(|id| self.device.program().tables[*id].size != size)
    }

    /// Returns true if all entries of a group can be renewed now. Otherwise they are when the
    /// program for them is made.
    pub(crate) fn is_group_ready(&mut self, group: u32) -> bool {
        if !self.jobs.is_deferred {
            return true;
        }
        let shapes = self.new_shapes_of_users(group);
        if shapes.is_empty() {
            return true;
        }
        self.shapes.drop_unused();
        // The job holds the shapes.
        let _ = self.want(1, shapes);
        let wanted = self.jobs.wanted.get_or_insert_default();
        wanted.groups.insert(group);
        false
    }

    /// Returns the shapes of a group's entries that the running program does not have.
    fn new_shapes_of_users(&self, group: u32) -> Vec<(TableNumber, Shape)> {
        let mut new = HashSet::new();
        for (number, index) in self.tables.users_of_group(group) {
            let table = self.tables.table(number);
            let Some(entry) = table.and_then(|table| table.entry(index)) else {
                continue;
            };
            let (shape, _) = self.shape_of(&entry);
            if self.shapes.find(number, &shape).is_none() {
                new.insert((number, shape));
            }
        }
        new.into_iter().collect()
    }

    /// Returns what a message needs that the running program does not have. One that is refused
    /// needs nothing.
    fn needs(&mut self, message: &Body) -> Needs {
        let mut needs = Needs::default();
        match message {
            Body::FlowMod(flow) => {
                let change = self.tables.flow_change(flow);
                if let Ok(FlowChange::Insert(number, entry) | FlowChange::Replace(number, entry)) =
                    change
                {
                    needs.shapes = self.new_shape(number, self.shape_of(&entry).0);
                }
            }
            Body::PacketOut(packet) => {
                let actions = packet.actions.as_slice();
                let mut checked = actions
                    .iter()
                    .map(|action| self.tables.check_action(action));
                if !is_for_tables(actions) && checked.all(|checked| checked.is_ok()) {
                    let (shape, _) = self.shape_of(&packet_out_entry(actions));
                    needs.shapes = self.new_shape(TableNumber::PACKET_OUT, shape);
                }
            }
            Body::GroupMod(group) => {
                if let Ok(GroupChange::Set(id, group)) = self.tables.group_change(group) {
                    let old = self.tables.exchange_group(id, Some(group));
                    needs.shapes = self.new_shapes_of_users(id);
                    self.tables.exchange_group(id, old);
                }
            }
            Body::TableMod(table) => match self.tables.table_change(table) {
                Ok(TableChange::Set(number, _) | TableChange::Remove(number)) => {
                    let mut begun = self.jobs.begun.iter();
                    let is_there = self.translated.contains_key(&number)
                        || begun.any(|begun| begun.tables.contains_key(&number));
                    needs.without = Some(number).filter(|_| is_there);
                }
                Ok(TableChange::Resize(number, size, _)) => {
                    let begun = self.jobs.begun.as_ref();
                    let begun = begun.and_then(|begun| begun.tables.get(&number));
                    let is_other = self.has_other_size(number, size)
                        || begun.is_some_and(|begun| *begun != size);
                    needs.size = Some((number, size)).filter(|_| is_other);
                }
                Ok(TableChange::Report(_)) | Err(_) => {}
            },
            _ => {}
        }
        needs
    }

    fn new_shape(&self, number: TableNumber, shape: Shape) -> Vec<(TableNumber, Shape)> {
        match self.shapes.find(number, &shape) {
            Some(_) => Vec::new(),
            None => vec![(number, shape)],
        }
    }
}
