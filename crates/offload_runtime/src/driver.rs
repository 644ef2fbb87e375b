//! The driver: an offloader and its target, beside a device that others run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use exec::{State, WorkBudget};
use ir::{Program, TableId};
use offload::{
    Credit, FlowReport, FlowState, FlowTracer, NotOffloadable, OffloadCommand, Offloader,
    OffloaderOptions, Override, PortRole, Step, Target, View,
};
use packet::{Nanos, PortId};
use placement::planes::PlanePolicy;
use switch::{Change, Device, Record, ReplicationEngine};
use table::EntryId;

use crate::match_text::{ProgramField, match_text, with_field_names};
use crate::report::{
    FlowRow, InterfaceRow, OffloadStats, PlacementReport, PlaneRow, ReasonRow, StateRow, TableRow,
};
use crate::spec::TableChoice;

/// Settings of the offload of a device.
#[derive(Clone)]
pub struct OffloadOptions {
    /// Settings of the decision.
    pub offloader: OffloaderOptions,
    /// The owner's choices for tables.
    pub tables: Vec<TableChoice>,
    /// Returns the name by which the owner knows a table, from its name in the program.
    pub table_name: fn(&str) -> String,
    /// True if the owner knows the program's fields, so that reports have their names.
    pub names_fields: bool,
    /// Roles of the ports to which the program sends.
    pub role_of: Arc<dyn Fn(PortId) -> PortRole + Send + Sync>,
    /// True if entries keep their numbers whenever a program takes the place of another one, as
    /// with POF. Else counts that come at that time are lost, and counted as such.
    pub keeps_entries: bool,
}

/// State of a device as it was after some record of its log.
#[derive(Clone)]
pub struct DeviceView {
    program: Arc<Program>,
    state: Arc<State>,
    replication: ReplicationEngine,
    work: WorkBudget,
}

impl DeviceView {
    /// Publishes all changes of a device, and returns its state.
    pub fn of(device: &mut Device) -> DeviceView {
        DeviceView {
            state: device.state(),
            program: Arc::clone(device.program()),
            replication: device.replication().clone(),
            work: device.limits().work.unwrap_or_default(),
        }
    }

    fn view(&self) -> View<'_> {
        View {
            state: &self.state,
            replication: &self.replication,
        }
    }
}

/// All states, in the order of reports.
const STATES: [&str; 8] = [
    "software",
    "wanted",
    "adding",
    "in_hw",
    "not_in_hw",
    "refused",
    "evicted",
    "lost",
];

/// Names of the planes.
const NIC: &str = "nic";
const SOFTWARE: &str = "software";

/// An offloader with its target.
pub struct Driver {
    options: OffloadOptions,
    /// `None` as long as no program could be offloaded.
    offloader: Option<Offloader>,
    /// Reason for which the program that runs cannot be offloaded.
    unsupported: Option<NotOffloadable>,
    /// Tables with a choice of the owner.
    chosen: Vec<TableId>,
    target: Box<dyn Target + Send>,
    view: DeviceView,
    credits: Vec<Credit>,
    stats: OffloadStats,
    /// Ports that are down.
    down: BTreeSet<PortId>,
}

impl Driver {
    /// Creates a driver without flows.
    pub fn new(
        options: OffloadOptions,
        target: Box<dyn Target + Send>,
        view: DeviceView,
    ) -> Driver {
        let mut driver = Driver {
            options,
            offloader: None,
            unsupported: None,
            chosen: Vec::new(),
            target,
            view,
            credits: Vec::new(),
            stats: OffloadStats::default(),
            down: BTreeSet::new(),
        };
        driver.begin_program(Nanos::ZERO);
        driver
    }

    /// Returns the reason for which the program that runs cannot be offloaded.
    pub fn unsupported(&self) -> Option<&NotOffloadable> {
        self.unsupported.as_ref()
    }

    /// Returns how long counts of the target may be late.
    pub fn counts_delay(&self) -> Nanos {
        self.options.offloader.period + self.target.counts_delay()
    }

    /// Takes the view's program: a new one, or the same with changes that are not known.
    fn begin_program(&mut self, now: Nanos) {
        let program = &self.view.program;
        let role_of = Arc::clone(&self.options.role_of);
        match FlowTracer::new(program, move |port| role_of(port)) {
            Ok(tracer) => {
                let tracer = tracer.with_budget(self.view.work);
                self.unsupported = None;
                match &mut self.offloader {
                    Some(offloader) if self.options.keeps_entries => {
                        offloader.exchange_with_entries(tracer);
                    }
                    Some(offloader) => offloader.exchange(tracer),
                    None => {
                        let options = self.options.offloader.clone();
                        let mut offloader = Offloader::new(tracer, options);
                        for port in &self.down {
                            offloader.set_port(*port, false);
                        }
                        self.offloader = Some(offloader);
                    }
                }
                self.choose_tables();
            }
            Err(reason) => {
                let commands = self.offloader.as_mut().map(Offloader::withdraw);
                self.execute(now, commands.unwrap_or_default());
                self.unsupported = Some(reason);
            }
        }
    }

    fn choose_tables(&mut self) {
        let Some(offloader) = &mut self.offloader else {
            return;
        };
        for table in self.chosen.drain(..) {
            offloader.set_table_override(table, None);
        }
        for choice in &self.options.tables {
            if let Some(table) = table_of(&self.view.program, &choice.table) {
                offloader.set_table_override(table, Some(choice.wanted));
                self.chosen.push(table);
            }
        }
    }

    /// Takes records of the device's log, with the state after them. `is_complete` is false if
    /// records before them are missing.
    pub fn take_changes(
        &mut self,
        now: Nanos,
        records: &[Record],
        is_complete: bool,
        view: DeviceView,
    ) {
        self.view = view;
        let is_program = |record: &Record| matches!(record.change, Change::Program);
        if !is_complete {
            self.stats.lost_changes += 1;
        }
        if !is_complete || records.iter().any(is_program) {
            return self.begin_program(now);
        }
        if let Some(offloader) = &mut self.offloader {
            records.iter().for_each(|record| offloader.changed(record));
        }
    }

    /// Sets a port up or down. No rule sends to a port that is down.
    pub fn set_port(&mut self, port: PortId, is_up: bool) {
        match is_up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        if let Some(offloader) = &mut self.offloader {
            offloader.set_port(port, is_up);
        }
    }

    /// Notes packets of one frame that the software has processed.
    pub fn observe(&mut self, now: Nanos, ingress: PortId, frame: &[u8], packets: u64) {
        if let (Some(offloader), None) = (&mut self.offloader, &self.unsupported) {
            offloader.observe(now, self.view.view(), ingress, frame, packets);
        }
    }

    /// Does what is due. Returns counts for [`Credit::apply`].
    pub fn turn(&mut self, now: Nanos) -> Vec<Credit> {
        let mut events = Vec::new();
        self.target.poll(now, &mut events);
        for event in events {
            let commands = self
                .offloader
                .as_mut()
                .map(|offloader| offloader.event(now, event));
            self.execute(now, commands.unwrap_or_default());
        }
        if let (Some(offloader), None) = (&mut self.offloader, &self.unsupported) {
            let commands = offloader.step(now, self.view.view(), &*self.target);
            self.execute(now, commands);
        }
        std::mem::take(&mut self.credits)
    }

    /// Returns the time at which something will be due at the target.
    pub fn next_time(&self) -> Option<Nanos> {
        self.target.next_time()
    }

    fn execute(&mut self, now: Nanos, commands: Vec<OffloadCommand>) {
        for command in commands {
            match command {
                OffloadCommand::Add(rules) => {
                    self.stats.added += rules.len() as u64;
                    self.target.add(now, rules);
                }
                OffloadCommand::Replace(rules) => {
                    self.stats.replaced += rules.len() as u64;
                    self.target.replace(now, rules);
                }
                OffloadCommand::Remove(rules) => {
                    self.stats.removed += rules.len() as u64;
                    self.target.remove(now, &rules);
                }
                OffloadCommand::Read(rules) => self.target.read(now, &rules),
                // The objects of the flow are those of another program.
                OffloadCommand::Credit(credit) if self.unsupported.is_some() => {
                    self.stats.uncredited_packets += credit.packets;
                }
                OffloadCommand::Credit(credit) => {
                    self.stats.packets += credit.packets;
                    self.stats.bytes += credit.bytes;
                    self.credits.push(credit);
                }
            }
        }
    }

    /// Removes all rules. Returns true once none is left. Their last counts come from
    /// [`Driver::turn`] before that.
    pub fn withdraw(&mut self, now: Nanos) -> bool {
        let commands = self.offloader.as_mut().map(Offloader::withdraw);
        self.execute(now, commands.unwrap_or_default());
        self.offloader
            .as_ref()
            .is_none_or(|offloader| !offloader.has_rules())
    }

    /// Returns the entries, or misses for `None`, for which counts of the target may still come.
    pub fn entries_in_target(&self) -> impl Iterator<Item = (TableId, Option<EntryId>)> {
        let offloader = self.offloader.iter();
        offloader.flat_map(Offloader::entries_in_target)
    }

    /// Notes packets of which an object is not there any more.
    pub fn note_uncredited(&mut self, packets: u64) {
        self.stats.uncredited_packets += packets;
    }

    /// Returns the program that runs.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.view.program
    }

    /// Returns the known flows, the fastest first. It takes long where there are many.
    pub fn flows(&self) -> Vec<FlowRow> {
        let flows = self.offloader.iter().flat_map(Offloader::flows);
        let mut flows: Vec<FlowRow> = flows.map(|flow| self.row(&flow)).collect();
        flows.sort_by_key(|flow| (std::cmp::Reverse(flow.rate), flow.flow));
        flows
    }

    fn states(&self) -> impl Iterator<Item = (&FlowState, u64)> {
        self.offloader.iter().flat_map(Offloader::states)
    }

    fn row(&self, flow: &FlowReport) -> FlowRow {
        let steps = flow.flow.steps.iter();
        let outputs = steps.filter_map(|step| match step {
            Step::Output(port) => Some(port.0),
            Step::Edit(_) => None,
        });
        let words = flow.state.to_string();
        let reason = words.split_once(": ");
        let reason = reason.map(|(_, reason)| reason.to_owned());
        let reason = match flow.state {
            FlowState::Software => Some(self.reason_for_software(flow)),
            FlowState::Adding => Some("the target adds its rule".to_owned()),
            _ => reason,
        };
        let fields = self.fields_of(flow);
        let reason = reason.map(|reason| with_field_names(&reason, &fields));
        FlowRow {
            flow: flow.id.0,
            matched: match_text(&flow.flow, &fields),
            outputs: outputs.collect(),
            plane: plane_of(&flow.state).to_owned(),
            state: flow.state.name().to_owned(),
            rate: flow.rate,
            software_packets: flow.in_software,
            nic_packets: flow.in_target,
            gain: flow.gain,
            wanted: flow.wanted.map(|wanted| name_of(wanted).to_owned()),
            tables: self.tables_of(flow),
            reason,
        }
    }

    /// Returns the program's fields in a flow's packets.
    fn fields_of(&self, flow: &FlowReport) -> Vec<ProgramField<'_>> {
        let parsed = flow.parsed.iter().filter(|_| self.options.names_fields);
        let named = parsed.filter_map(|parsed| {
            let field = self.view.program.fields.get(parsed.field)?;
            Some(ProgramField {
                name: &field.name,
                offset: parsed.offset,
                width: parsed.width,
            })
        });
        named.collect()
    }

    /// Returns the names of the tables that a flow's packets look up.
    fn tables_of(&self, flow: &FlowReport) -> Vec<String> {
        let tables = &self.view.program.tables;
        let met = flow.flow.met.lookups.iter();
        let met = met.filter_map(|met| tables.get(met.table));
        let mut names: Vec<String> = met
            .map(|table| (self.options.table_name)(&table.name))
            .collect();
        names.dedup();
        names
    }

    fn reason_for_software(&self, flow: &FlowReport) -> String {
        let met = &flow.flow.met.lookups;
        let names_a_table = |choice: &&TableChoice| {
            let table = table_of(&self.view.program, &choice.table);
            choice.wanted == Override::Never && met.iter().any(|met| Some(met.table) == table)
        };
        let options = &self.options.offloader;
        if let Some(choice) = self.options.tables.iter().find(names_a_table) {
            return format!(
                "the owner keeps table {0} in software (--offload-table {0}=never)",
                choice.name
            );
        }
        if let Err(reason) = self.target.can(&flow.flow) {
            return reason.to_string();
        }
        if let Some(error) = self.offloader.as_ref().and_then(Offloader::error) {
            return format!("nothing was decided: {error}");
        }
        if !flow.is_decided {
            let period = options.period.0 / 1_000_000;
            return format!("it is new: decisions are each {period} ms, and the next one has it");
        }
        let is_always = flow.wanted == Some(Override::Always);
        if flow.rate < options.least_rate && !is_always {
            return format!("its rate is below {} packets a second", options.least_rate);
        }
        let capacity = self.target.capacity();
        let has_room = capacity.rules.is_none_or(|rules| capacity.used < rules);
        match (has_room, options.moves_a_second) {
            (true, Some(most)) => format!(
                "it waits for its turn: at most {most} flows move in a second (--offload-moves)"
            ),
            (true, None) if is_always => "the next decision adds it".to_owned(),
            (true, None) => self.reason_of_policy(),
            (false, _) if is_always => format!(
                "the target is full with {} rules, and other flows of tables with `always` have \
                 them",
                capacity.used
            ),
            (false, _) => {
                let preference = match options.policy {
                    PlanePolicy::Fcfs => "the flows in it came first",
                    PlanePolicy::Random => "others were drawn",
                    PlanePolicy::Paper | PlanePolicy::PaperLiteral => "the policy prefers others",
                    _ => "the flows in it gain more",
                };
                format!(
                    "the target is full with {} rules, and {preference} (policy {})",
                    capacity.used, options.policy
                )
            }
        }
    }

    /// Returns the reason for which the policy leaves a flow in software although the target has
    /// room.
    fn reason_of_policy(&self) -> String {
        let policy = &self.options.offloader.policy;
        let words = match policy {
            PlanePolicy::Paper | PlanePolicy::PaperLiteral => {
                "software carries its rate well by the paper's thresholds, which are for \
                 comparisons; `--offload-policy top` moves the fastest flows"
            }
            PlanePolicy::Threshold => {
                "its rate is below the policy's threshold, which follows the load"
            }
            _ => "it has no gain in the target now",
        };
        format!("policy {policy} leaves it in software: {words}")
    }

    /// Returns the numbers of what was done.
    pub fn stats(&self) -> OffloadStats {
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        for (state, _) in self.states() {
            *states.entry(state.name()).or_default() += 1;
        }
        let states = STATES.map(|state| StateRow {
            state: state.to_owned(),
            flows: states.get(state).copied().unwrap_or_default(),
        });
        let row = |(reason, count): (&str, u64)| ReasonRow {
            reason: reason.to_owned(),
            count,
        };
        let offloader = self.offloader.as_ref();
        let counts = offloader.map(Offloader::counts).unwrap_or_default();
        let capacity = self.target.capacity();
        let interfaces = self.target.interfaces().into_iter();
        OffloadStats {
            target: self.target.name().to_owned(),
            interfaces: interfaces
                .map(|interface| InterfaceRow {
                    port: interface.port.0,
                    interface: interface.name,
                    refusal: interface.refusal,
                })
                .collect(),
            states: states.to_vec(),
            rules: capacity.used.into(),
            capacity: capacity.rules.map(u64::from),
            evicted: counts.evicted,
            uncredited_packets: self.stats.uncredited_packets + counts.uncredited,
            refused: offloader
                .iter()
                .flat_map(|offloader| offloader.refusals())
                .map(row)
                .collect(),
            not_offloadable: offloader
                .iter()
                .flat_map(|offloader| offloader.reasons())
                .map(row)
                .collect(),
            unnoted_packets: counts.unnoted,
            retraced: counts.retraced,
            changed: counts.changed,
            ..self.stats.clone()
        }
    }

    /// Returns how flows are chosen, and what each plane has.
    pub fn placement(&self) -> PlacementReport {
        let options = &self.options.offloader;
        let plane = |name: &str, capacity: Option<u64>| {
            let own = self.states().filter(|(state, _)| plane_of(state) == name);
            let mut row = PlaneRow {
                plane: name.to_owned(),
                flows: 0,
                capacity,
                rate: 0,
            };
            for (_, rate) in own {
                row.flows += 1;
                row.rate = row.rate.saturating_add(rate);
            }
            row
        };
        let tables = self.options.tables.iter().map(|choice| TableRow {
            table: choice.name.clone(),
            choice: name_of(choice.wanted).to_owned(),
            is_there: table_of(&self.view.program, &choice.table).is_some(),
        });
        let unsupported = self.unsupported.as_ref().map(NotOffloadable::to_string);
        let error = self.offloader.as_ref().and_then(Offloader::error);
        PlacementReport {
            policy: options.policy.to_string(),
            period_ms: options.period.0 / 1_000_000,
            moves_a_second: options.moves_a_second,
            hysteresis: options.hysteresis,
            planes: vec![
                plane(NIC, self.target.capacity().rules.map(u64::from)),
                plane(SOFTWARE, None),
            ],
            tables: tables.collect(),
            error: unsupported.or(error.map(str::to_owned)),
        }
    }
}

/// Returns the owner's word for a choice.
fn name_of(wanted: Override) -> &'static str {
    match wanted {
        Override::Always => "always",
        Override::Never => "never",
    }
}

/// Returns the plane that processes the packets of a flow in this state.
fn plane_of(state: &FlowState) -> &'static str {
    match state {
        FlowState::InHardware => NIC,
        _ => SOFTWARE,
    }
}

/// Returns the table of a program with this name, or with this last part of its name.
pub fn table_of(program: &Program, name: &str) -> Option<TableId> {
    let is_named = |full: &str| full == name || full.rsplit('.').next() == Some(name);
    let mut tables = program.tables.iter();
    tables
        .find(|(_, table)| is_named(&table.name))
        .map(|(id, _)| id)
}
