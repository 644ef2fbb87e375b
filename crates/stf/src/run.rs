//! Runs a test on a device: executes its commands in order, then compares the results with the
//! expectations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apply_entries::{apply, apply_file, replicas};
use bits::Value;
use entries::stf::{Command, CommandKind, CounterRef, Pattern};
use entries::{EntryError, Update};
use exec::Engine;
use ir::{ExternId, ExternKind, Program, TableId, limbs_of};
use packet::{Frame, Nanos, PortId};
use switch::{
    Change, CloneSession, Device, DeviceConfig, Digest, EntryId, Ledger, LedgerError, LoadError,
    PacketProcessor,
};

use crate::replication::Replication;
use crate::report::{Failure, PacketPlace, Report, difference, drops, hex, unusual};

/// Arrival time of a test's first packet. It is not zero, which programs may use for "never".
const START: Nanos = Nanos::from_millis(1);

/// Time between two packets.
const BETWEEN_PACKETS: Nanos = Nanos::from_micros(1);

/// Direction of the packets of a capture that a test uses. A capture may have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureDirection {
    /// Packets that arrive at the switch.
    In,
    /// Packets that leave it.
    Out,
}

/// Files that a test names. The argument is the path as the test writes it. A function that reads
/// texts is such files without captures.
pub trait TestFiles {
    /// Returns the text of a file (`entries FILE`).
    ///
    /// # Errors
    /// A message for users: the file cannot be read.
    fn text(&self, path: &str) -> Result<String, String>;

    /// Returns the packets of a capture that are not of the other direction (`packets PORT FILE`).
    ///
    /// # Errors
    /// A message for users: the file cannot be read, is no capture, or has such packets of several
    /// interfaces.
    fn packets(&self, path: &str, _direction: CaptureDirection) -> Result<Vec<Vec<u8>>, String> {
        Err(format!("{path}: captures cannot be read here"))
    }
}

impl<F: Fn(&str) -> Result<String, String>> TestFiles for F {
    fn text(&self, path: &str) -> Result<String, String> {
        self(path)
    }
}

/// Reads the files that a test names.
pub type ReadFile<'a> = &'a dyn TestFiles;

/// Environment of a test.
pub struct TestSetup<'a> {
    /// The program.
    pub program: Arc<Program>,
    /// Engine that runs the program.
    pub engine: &'a dyn Engine,
    /// Configuration of the device.
    pub device: DeviceConfig,
    /// Reads the files that the test names.
    pub read_file: ReadFile<'a>,
}

/// Error: a test cannot start.
#[derive(Debug)]
pub enum LoadRefusal {
    /// The program cannot be loaded.
    Load(LoadError),
    /// The test's text has errors.
    Test(Vec<EntryError>),
}

/// Test bed that forwards a test's packets: a device, or a node that contains one.
pub trait PacketPlane: PacketProcessor {
    /// Returns the device.
    fn device(&self) -> &Device;

    /// Returns the device for changes.
    fn device_mut(&mut self) -> &mut Device;

    /// Advances time, as [`Device::step`] does, and delivers all packets that have left by then.
    fn step(&mut self, now: Nanos, sent: &mut TakeSent<'_>);

    /// Updates the device's counters and registers, if packets change those of other devices.
    fn collect_cells(&mut self) {}

    /// Takes the next digest.
    fn take_digest(&mut self) -> Option<Digest> {
        self.device_mut().take_digest()
    }

    /// Takes the next message of the log.
    fn take_message(&mut self) -> Option<String> {
        self.device_mut().take_message()
    }

    /// Takes the entries that have become idle.
    fn take_idle(&mut self) -> Vec<(TableId, EntryId)> {
        self.device_mut().take_idle()
    }

    /// Returns the number of packets inside.
    fn held(&self) -> usize {
        self.device().held()
    }

    /// Checks that all packets are accounted for.
    ///
    /// # Errors
    /// They are not.
    fn check_conservation(&self) -> Result<(), LedgerError> {
        self.device().check_conservation()
    }

    /// Returns the counts of packets.
    fn ledger(&self) -> Ledger {
        self.device().ledger()
    }

    /// Returns the counts of packets of each plane, with its name if there are several.
    fn plane_ledgers(&self) -> Vec<(Option<String>, Ledger)> {
        vec![(None, self.ledger())]
    }
}

/// Callback for a transmitted packet: its egress port and its bytes.
pub type TakeSent<'t> = dyn FnMut(PortId, &[u8]) + 't;

impl PacketPlane for Device {
    fn device(&self) -> &Device {
        self
    }

    fn device_mut(&mut self) -> &mut Device {
        self
    }

    fn step(&mut self, now: Nanos, sent: &mut TakeSent<'_>) {
        Device::step(self, now);
        self.drain_sent(|port, bytes, _| sent(port, bytes));
    }
}

/// Runs the test `text` of the file `file`.
///
/// # Errors
/// The test cannot start. Later errors are in the report.
pub fn run(setup: &TestSetup<'_>, file: &str, text: &str) -> Result<Report, LoadRefusal> {
    let mut device = Device::new(Arc::clone(&setup.program), setup.engine, &setup.device)
        .map_err(LoadRefusal::Load)?;
    run_in(&mut device, setup.read_file, file, text)
}

/// Runs the test `text` of the file `file`. `plane` forwards the packets; its device runs the
/// test's program.
///
/// # Errors
/// The test cannot start. Later errors are in the report.
pub fn run_in<P: PacketPlane>(
    plane: &mut P,
    read_file: ReadFile<'_>,
    file: &str,
    text: &str,
) -> Result<Report, LoadRefusal> {
    let program = Arc::clone(plane.device().program());
    let written = entries::stf::read(&program, file, text).map_err(LoadRefusal::Test)?;
    let mut test = Test::new(plane, program, read_file);
    let mut commands = Vec::new();
    for command in written {
        match packets_of(&command, read_file) {
            None => commands.push(command),
            Some(Ok(own)) => {
                commands.extend(own);
                // Its port is observed, also if the capture is empty.
                commands.push(command);
            }
            Some(Err(message)) => {
                let failure = Failure::new(command.line, message);
                test.report.failures.push(failure);
            }
        }
    }
    for command in &commands {
        test.command(command);
    }
    Ok(test.finish(&commands))
}

/// Returns the commands of a capture's packets, if the command names a capture.
fn packets_of(command: &Command, files: ReadFile<'_>) -> Option<Result<Vec<Command>, String>> {
    let (port, file, direction) = match &command.kind {
        CommandKind::Packets { port, file } => (*port, file, CaptureDirection::In),
        CommandKind::ExpectPackets { port, file } => (*port, file, CaptureDirection::Out),
        _ => return None,
    };
    let one = |data: Vec<u8>| Command {
        line: command.line,
        kind: match direction {
            CaptureDirection::In => CommandKind::Packet { port, data },
            CaptureDirection::Out => CommandKind::Expect {
                port,
                pattern: Some(exactly(&data)),
            },
        },
        broken_restriction: None,
    };
    let packets = files.packets(file, direction);
    Some(packets.map(|packets| packets.into_iter().map(one).collect()))
}

/// Returns the pattern that one packet matches.
fn exactly(bytes: &[u8]) -> Pattern {
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Pattern {
        nibbles: nibbles.map(Some).collect(),
        exact: true,
    }
}

/// Output of the device, with the lines of the commands that may have caused it: the packets that
/// were inside. There is one, except where packets wait in queues.
#[derive(Clone, Debug)]
struct Output<T> {
    value: T,
    lines: Arc<[u32]>,
}

impl<T> Output<T> {
    /// Returns a failure at the line of the cause.
    fn failure(&self, message: String) -> Failure {
        match &self.lines[..] {
            [] => Failure::new(0, message),
            [line] => Failure::new(*line, message),
            [.., last] => {
                let lines: Vec<String> = self.lines.iter().map(u32::to_string).collect();
                let lines = lines.join(", ");
                Failure::new(*last, format!("{message} (from one of the lines {lines})"))
            }
        }
    }
}

/// A running test.
struct Test<'a, P> {
    plane: &'a mut P,
    program: Arc<Program>,
    read_file: ReadFile<'a>,
    now: Nanos,
    replication: Replication,
    labels: BTreeMap<String, (TableId, EntryId)>,
    /// The line of the running command; 0 at the end of the test.
    line: u32,
    /// The lines of packets that may be inside the device.
    inside: Vec<u32>,
    sent: BTreeMap<u32, Vec<Output<Vec<u8>>>>,
    digests: BTreeMap<ExternId, Vec<Output<Vec<Value>>>>,
    log: Vec<Output<String>>,
    idle: Vec<Output<TableId>>,
    report: Report,
}

impl<'a, P: PacketPlane> Test<'a, P> {
    fn new(plane: &'a mut P, program: Arc<Program>, read_file: ReadFile<'a>) -> Self {
        Test {
            plane,
            program,
            read_file,
            now: START,
            replication: Replication::default(),
            labels: BTreeMap::new(),
            line: 0,
            inside: Vec::new(),
            sent: BTreeMap::new(),
            digests: BTreeMap::new(),
            log: Vec::new(),
            idle: Vec::new(),
            report: Report::default(),
        }
    }

    fn command(&mut self, command: &Command) {
        self.line = command.line;
        if let Some(broken) = &command.broken_restriction {
            let broken = Failure::new(command.line, broken.as_str());
            self.report.broken_restrictions.push(broken);
        }
        if let Err(message) = self.execute(&command.kind, command.line) {
            self.report
                .failures
                .push(Failure::new(command.line, message));
        }
    }

    fn execute(&mut self, kind: &CommandKind, line: u32) -> Result<(), String> {
        match kind {
            CommandKind::Packet { port, data } => self.packet(*port, data)?,
            CommandKind::Wait => self.settle(),
            CommandKind::WaitFor(nanoseconds) => self.wait(Nanos(*nanoseconds)),
            CommandKind::Entries(path) => self.entries(path)?,
            CommandKind::Update(update) => {
                self.update(update)?;
            }
            CommandKind::Labelled(update, label) => {
                if let (Update::Insert(table, _), Some(entry)) = (update, self.update(update)?) {
                    self.labels.insert(label.clone(), (*table, entry));
                }
            }
            CommandKind::RemoveAll => self.remove_all()?,
            // The commands of its packets are before it.
            CommandKind::Packets { .. } | CommandKind::ExpectPackets { .. } => {}
            CommandKind::Expect { .. }
            | CommandKind::ExpectDigest { .. }
            | CommandKind::ExpectLog(_)
            | CommandKind::ExpectIdle(_)
            | CommandKind::NoPacket => {}
            CommandKind::CheckCounter { .. } => self.check_counter(kind)?,
            CommandKind::RegisterRead(..)
            | CommandKind::CounterRead(..)
            | CommandKind::MeterRead(..)
            | CommandKind::MirrorGet(_) => self.show(kind, line)?,
            CommandKind::CounterReset(counter) => {
                self.change(Change::WriteCounter(*counter, None, Default::default()))?
            }
            _ => self.replicate(kind)?,
        }
        Ok(())
    }

    fn packet(&mut self, port: u32, data: &[u8]) -> Result<(), String> {
        self.now += BETWEEN_PACKETS;
        self.report.packets += 1;
        let mut frame = Frame::from_bytes(data)
            .map_err(|error| format!("the packet cannot come in: {error}"))?;
        frame.ingress = PortId(port);
        self.inside.push(self.line);
        let lines = self.cause();
        let sent = &mut self.sent;
        self.plane
            .forward(&mut [frame], self.now, |port, frame, _| {
                let (value, lines) = (frame.bytes().to_vec(), Arc::clone(&lines));
                let output = Output { value, lines };
                sent.entry(port.0).or_default().push(output);
            });
        self.collect(&lines);
        Ok(())
    }

    /// Returns the lines of the packets inside the device; without any, that of the running
    /// command.
    fn cause(&self) -> Arc<[u32]> {
        match (&self.inside[..], self.line) {
            ([], 0) => Arc::default(),
            ([], line) => Arc::from([line]),
            (inside, _) => Arc::from(inside),
        }
    }

    /// Advances time by `span`, event by event.
    fn wait(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some(next) = self.plane.next_time().filter(|next| *next < end) {
            self.step(next);
        }
        self.now = end;
        self.step(end);
    }

    /// Advances time until no packet is in flight.
    fn settle(&mut self) {
        while self.plane.held() > 0 {
            let Some(next) = self.plane.next_time() else {
                break;
            };
            self.now = self.now.max(next);
            self.step(self.now);
        }
        let lines = self.cause();
        self.collect(&lines);
    }

    fn device(&self) -> &Device {
        self.plane.device()
    }

    fn device_mut(&mut self) -> &mut Device {
        self.plane.device_mut()
    }

    fn step(&mut self, now: Nanos) {
        let lines = self.cause();
        let sent = &mut self.sent;
        self.plane.step(now, &mut |port, bytes| {
            let (value, lines) = (bytes.to_vec(), Arc::clone(&lines));
            let output = Output { value, lines };
            sent.entry(port.0).or_default().push(output);
        });
        self.collect(&lines);
    }

    /// Takes the device's messages, which these lines caused.
    fn collect(&mut self, lines: &Arc<[u32]>) {
        fn output<T>(value: T, lines: &Arc<[u32]>) -> Output<T> {
            let lines = Arc::clone(lines);
            Output { value, lines }
        }
        while let Some(digest) = self.plane.take_digest() {
            let values = output(digest_values(&self.program, &digest), lines);
            self.digests.entry(digest.digest).or_default().push(values);
        }
        while let Some(message) = self.plane.take_message() {
            self.log.push(output(message, lines));
        }
        // Entries become idle by time, whatever packets are inside.
        let now: Arc<[u32]> = Arc::from([self.line]);
        let idle = self.plane.take_idle();
        let idle = idle.into_iter().map(|(table, _)| output(table, &now));
        self.idle.extend(idle);
        if self.plane.held() == 0 {
            self.inside.clear();
        }
    }

    fn entries(&mut self, path: &str) -> Result<(), String> {
        let text = self.read_file.text(path)?;
        let file = entries::read(&self.program, path, &text);
        let file = file.map_err(|errors| {
            let texts: Vec<String> = errors.iter().map(EntryError::to_string).collect();
            format!("nothing of {path} is applied\n{}", texts.join("\n"))
        })?;
        apply_file(self.device_mut(), &file)
            .map_err(|unapplied| format!("{path} is applied in part\n{unapplied}"))
    }

    fn update(&mut self, update: &Update) -> Result<Option<EntryId>, String> {
        apply(self.device_mut(), update).map_err(|error| error.to_string())
    }

    fn change(&mut self, change: Change) -> Result<(), String> {
        let applied = self.device_mut().apply(change);
        applied.map(|_| ()).map_err(|error| error.to_string())
    }

    fn remove_all(&mut self) -> Result<(), String> {
        let tables: Vec<TableId> = self.program.tables.ids().collect();
        tables
            .into_iter()
            .try_for_each(|table| self.change(Change::Clear(table)))
    }

    /// Executes the commands of multicast groups and mirror sessions.
    fn replicate(&mut self, kind: &CommandKind) -> Result<(), String> {
        let no_node = |handle: &u32| format!("there is no node with the handle {handle}");
        let no_group = |group: &u32| format!("there is no multicast group {group}");
        match kind {
            CommandKind::GroupCreate(group) => self.replication.create_group(*group),
            CommandKind::GroupDestroy(group) => {
                self.replication
                    .destroy_group(*group)
                    .ok_or_else(|| no_group(group))?;
                return self.change(Change::DeleteMulticast(*group));
            }
            CommandKind::NodeCreate { rid, ports } => {
                self.replication.create_node(*rid, ports.clone());
            }
            CommandKind::NodeUpdate { handle, ports } => {
                let updated = self.replication.update_node(*handle, ports.clone());
                updated.ok_or_else(|| no_node(handle))?;
            }
            CommandKind::NodeDestroy(handle) => {
                let destroyed = self.replication.destroy_node(*handle);
                destroyed.ok_or_else(|| no_node(handle))?;
            }
            CommandKind::NodeAssociate { group, handle } => {
                let associated = self.replication.associate(*group, *handle, true);
                associated.ok_or_else(|| format!("{} or {}", no_group(group), no_node(handle)))?;
            }
            CommandKind::NodeDissociate { group, handle } => {
                let dissociated = self.replication.associate(*group, *handle, false);
                dissociated.ok_or_else(|| format!("{} or {}", no_group(group), no_node(handle)))?;
            }
            CommandKind::MirrorToPort { session, port } => {
                let copy = entries::Replica {
                    port: *port,
                    instance: 0,
                };
                let replicas = replicas(&[copy]);
                return self.session(
                    *session,
                    CloneSession {
                        replicas,
                        ..Default::default()
                    },
                );
            }
            CommandKind::MirrorToGroup { session, group } => {
                let group = Some(*group);
                return self.session(
                    *session,
                    CloneSession {
                        group,
                        ..Default::default()
                    },
                );
            }
            CommandKind::MirrorDelete(session) => {
                return self.change(Change::DeleteCloneSession(*session));
            }
            _ => {}
        }
        for (group, copies) in self.replication.groups() {
            self.change(Change::SetMulticast(group, replicas(&copies)))?;
        }
        Ok(())
    }

    fn session(&mut self, id: u32, session: CloneSession) -> Result<(), String> {
        self.change(Change::SetCloneSession(id, session))
    }

    fn check_counter(&mut self, kind: &CommandKind) -> Result<(), String> {
        let CommandKind::CheckCounter {
            counter,
            bytes,
            op,
            number,
        } = kind
        else {
            return Ok(());
        };
        self.plane.collect_cells();
        let reading = match counter {
            CounterRef::Cell(id, index) => self.device().read_counter(*id, *index),
            CounterRef::Entry(table, label) => {
                let (labelled, entry) = self
                    .labels
                    .get(label)
                    .ok_or_else(|| format!("no entry has the label `{label}`"))?;
                if labelled != table {
                    return Err(format!("the entry `{label}` is in another table"));
                }
                self.device().read_direct_counter(*table, *entry)
            }
        };
        let reading = reading.ok_or("there is no such counter")?;
        let (got, what) = match bytes {
            true => (reading.bytes, "bytes"),
            false => (reading.packets, "packets"),
        };
        if op.holds(got, *number) {
            self.report.held += 1;
            return Ok(());
        }
        let symbol = op.symbol();
        Err(format!(
            "the counter has {got} {what}, which is not {symbol} {number}"
        ))
    }

    /// Executes the commands that read state.
    fn show(&mut self, kind: &CommandKind, line: u32) -> Result<(), String> {
        self.plane.collect_cells();
        let texts = match kind {
            CommandKind::RegisterRead(register, index) => self.registers(*register, *index)?,
            CommandKind::CounterRead(counter, index) => {
                let reading = self.device().read_counter(*counter, *index);
                let reading = reading.ok_or("there is no such counter")?;
                let (packets, bytes) = (reading.packets, reading.bytes);
                let [s, of_bytes] = [packets, bytes].map(|n| if n == 1 { "" } else { "s" });
                vec![format!(
                    "[{index}] {packets} packet{s}, {bytes} byte{of_bytes}"
                )]
            }
            CommandKind::MeterRead(meter, index) => {
                match self.device().read_meter(*meter, *index) {
                    Some(rates) => vec![format!("[{index}] {rates}")],
                    None => vec![format!("[{index}] no rates")],
                }
            }
            CommandKind::MirrorGet(session) => {
                match self.device().replication().session(*session) {
                    Some(session) => vec![format!("{session:?}")],
                    None => vec![format!("there is no session {session}")],
                }
            }
            _ => Vec::new(),
        };
        let lines = texts.into_iter().map(|text| format!("line {line}: {text}"));
        self.report.shown.extend(lines);
        Ok(())
    }

    fn registers(&self, register: ExternId, index: Option<u32>) -> Result<Vec<String>, String> {
        let cell = |index: u32| {
            let values = self.device().read_register(register, index)?;
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            Some(format!("[{index}] {}", values.join(", ")))
        };
        match index {
            Some(index) => Ok(vec![cell(index).ok_or("there is no such cell")?]),
            None => Ok((0..).map_while(cell).collect()),
        }
    }

    /// Compares the results with the expectations.
    fn finish(mut self, commands: &[Command]) -> Report {
        self.line = 0;
        self.settle();
        self.compare_packets(commands);
        self.compare_digests(commands);
        self.compare_log(commands);
        self.compare_idle(commands);
        if let Err(error) = self.plane.check_conservation() {
            let message = format!("packets are not conserved: {error}");
            self.report.failures.push(Failure::new(0, message));
        }
        self.report.drops = drops(&self.plane.plane_ledgers());
        self.report.unusual = unusual(&self.plane.ledger(), self.device().lost_messages());
        self.report
            .failures
            .sort_by_key(|failure| match failure.line {
                0 => u32::MAX,
                line => line,
            });
        self.report
    }

    fn compare_packets(&mut self, commands: &[Command]) {
        let mut expected: BTreeMap<u32, Vec<(u32, Option<&Pattern>)>> = BTreeMap::new();
        let mut last_line = BTreeMap::new();
        let mut is_silent = false;
        for command in commands {
            match &command.kind {
                CommandKind::Packet { port, .. } => {
                    expected.entry(*port).or_default();
                    last_line.insert(*port, command.line);
                }
                CommandKind::Expect { port, pattern } => {
                    let at_port = expected.entry(*port).or_default();
                    at_port.push((command.line, pattern.as_ref()));
                }
                CommandKind::Packets { port, .. } | CommandKind::ExpectPackets { port, .. } => {
                    expected.entry(*port).or_default();
                }
                CommandKind::NoPacket => is_silent = true,
                _ => {}
            }
        }
        if is_silent {
            for port in self.sent.keys() {
                expected.entry(*port).or_default();
            }
        }
        for (port, wanted) in expected {
            let got = self.sent.remove(&port).unwrap_or_default();
            self.compare_port(port, &wanted, &got);
        }
    }

    fn compare_port(
        &mut self,
        port: u32,
        wanted: &[(u32, Option<&Pattern>)],
        got: &[Output<Vec<u8>>],
    ) {
        for (number, output) in got.iter().enumerate() {
            let packet = &output.value;
            let Some((line, pattern)) = wanted.get(number) else {
                let message = format!(
                    "packet {} at port {port} is not expected: {}",
                    number + 1,
                    hex(packet)
                );
                self.report.failures.push(output.failure(message));
                continue;
            };
            let mismatch = pattern.and_then(|p| Some((p, p.compare(packet)?)));
            match mismatch {
                None => self.report.held += 1,
                Some((pattern, mismatch)) => {
                    let came = PacketPlace {
                        port,
                        number: number + 1,
                        lines: &output.lines,
                    };
                    let message = difference(&came, pattern, mismatch, packet);
                    self.report.failures.push(Failure::new(*line, message));
                }
            }
        }
        for (line, pattern) in wanted.iter().skip(got.len()) {
            let what = pattern.map_or("any packet".into(), Pattern::text);
            let message = format!("expected at port {port}, but did not come out: {what}");
            self.report.failures.push(Failure::new(*line, message));
        }
    }

    fn compare_digests(&mut self, commands: &[Command]) {
        let mut observed = BTreeSet::new();
        for command in commands {
            let CommandKind::ExpectDigest { digest, values } = &command.kind else {
                continue;
            };
            observed.insert(*digest);
            let messages = self.digests.entry(*digest).or_default();
            if messages.is_empty() {
                let message = "this digest message did not come";
                let failure = Failure::new(command.line, message);
                self.report.failures.push(failure);
                continue;
            }
            let got = messages.remove(0).value;
            let fits =
                |(want, got): (&Option<Value>, &Value)| want.as_ref().is_none_or(|w| w == got);
            if values.len() == got.len() && values.iter().zip(&got).all(fits) {
                self.report.held += 1;
            } else {
                let message = format!("the digest message is {}", message_text(&got));
                self.report
                    .failures
                    .push(Failure::new(command.line, message));
            }
        }
        for digest in observed {
            for output in self.digests.remove(&digest).unwrap_or_default() {
                let name = &self.program.externs[digest].name;
                let message = format!(
                    "a digest message of {name} is not expected: {}",
                    message_text(&output.value)
                );
                self.report.failures.push(output.failure(message));
            }
        }
    }

    fn compare_idle(&mut self, commands: &[Command]) {
        let tables = &self.program.tables;
        let told = std::mem::take(&mut self.idle);
        let mut number = 0;
        for command in commands {
            let CommandKind::ExpectIdle(wanted) = &command.kind else {
                continue;
            };
            match told.get(number).map(|output| &output.value) {
                Some(table) if table == wanted => self.report.held += 1,
                Some(table) => {
                    let message = format!("the idle entry is one of {}", tables[*table].name);
                    self.report
                        .failures
                        .push(Failure::new(command.line, message));
                }
                None => {
                    let failure = Failure::new(command.line, "no entry was told to be idle");
                    self.report.failures.push(failure);
                }
            }
            number += 1;
        }
        if number > 0 {
            for output in told.iter().skip(number) {
                let name = &tables[output.value].name;
                let message = format!("an idle entry of {name} is not expected");
                self.report.failures.push(output.failure(message));
            }
        }
    }

    fn compare_log(&mut self, commands: &[Command]) {
        let wanted: Vec<(u32, &String)> = commands
            .iter()
            .filter_map(|command| match &command.kind {
                CommandKind::ExpectLog(text) => Some((command.line, text)),
                _ => None,
            })
            .collect();
        if wanted.is_empty() {
            return;
        }
        for (number, (line, text)) in wanted.iter().enumerate() {
            match self.log.get(number).map(|output| &output.value) {
                Some(got) if got == *text => self.report.held += 1,
                Some(got) => {
                    let message = format!("the message is: {got}");
                    self.report.failures.push(Failure::new(*line, message));
                }
                None => {
                    let failure = Failure::new(*line, "this message did not come");
                    self.report.failures.push(failure);
                }
            }
        }
        for output in self.log.iter().skip(wanted.len()) {
            let message = format!("a message is not expected: {}", output.value);
            self.report.failures.push(output.failure(message));
        }
    }
}

/// Splits a digest message into its scalars. Each scalar starts at a limb boundary.
fn digest_values(program: &Program, digest: &Digest) -> Vec<Value> {
    let ExternKind::Digest { fields, .. } = &program.externs[digest.digest].kind else {
        return Vec::new();
    };
    let mut limbs = digest.limbs.as_slice();
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        let count = (limbs_of(*field) as usize).min(limbs.len());
        let (own, rest) = limbs.split_at(count);
        values.push(Value::from_limbs(own, field.width()));
        limbs = rest;
    }
    values
}

fn message_text(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    format!("{{ {} }}", values.join(", "))
}
