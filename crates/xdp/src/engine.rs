//! The engine by test runs: the kernel runs the emitted code on one frame after the other
//! (`BPF_PROG_TEST_RUN`), without an interface. Packets that leave run on another engine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::{
    Burst, BurstSegment, CompiledFastPath, ControlVerdict, Derived, DeviceView, DropReason, Engine,
    FastPath, Found, Loaded, Natives, PacketContext, ParserVerdict, PassOutcome, PrefetchStage,
    State, Tracer, Unsupported,
};
use ir::{ControlId, ExternId, Layout, ParserId, Program, TableId};
use packet::{Frame, PortId};
use port::BpfProgram;
use table::{CounterReading, CounterShard, EntryIdx};

use crate::emit::{self, Ending, KernelCode, Leave, TEST_PREFIX, outcome};
use crate::maps::{Counted, Maps};
use crate::shape::Shapes;

/// Number of bytes of the longest one: a page without headroom and the end of a buffer.
const MAX_FRAME: usize = 3000;

/// Counts of packets by where they were processed.
#[derive(Debug, Default)]
pub struct RunCounts {
    /// Packets that the kernel has finished.
    pub in_kernel: AtomicU64,
    /// Packets that left the kernel part, or that it could not be given.
    pub left: AtomicU64,
    /// Packets that left, by construct.
    places: Mutex<BTreeMap<String, u64>>,
}

impl RunCounts {
    /// Returns the packets that left, by the construct that the kernel part does not do.
    pub fn places(&self) -> BTreeMap<String, u64> {
        let places = self.places.lock();
        places.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, leave: &Leave) {
        let places = self.places.lock();
        let mut places = places.unwrap_or_else(PoisonError::into_inner);
        *places.entry(leave.construct.clone()).or_default() += 1;
    }
}

/// Engine that runs programs in the kernel, for one packet at a time.
pub struct XdpEngine {
    rest: Arc<dyn Engine>,
    counts: Arc<RunCounts>,
}

impl XdpEngine {
    /// Returns the engine. Packets that leave the kernel run on `rest`, which must compile fast
    /// paths.
    pub fn new(rest: Arc<dyn Engine>) -> XdpEngine {
        XdpEngine {
            rest,
            counts: Arc::default(),
        }
    }

    /// Returns the counts of all programs of the engine.
    pub fn counts(&self) -> Arc<RunCounts> {
        Arc::clone(&self.counts)
    }
}

impl Engine for XdpEngine {
    fn name(&self) -> &'static str {
        "xdp"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        _: &Layout,
        _: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        Err(Unsupported {
            construct: format!("the architecture of `{}` in the kernel", program.name),
            loc: None,
        })
    }

    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let shapes = Arc::new(Shapes::of(program));
        let code = emit::emit(program, layout, &shapes, pass, Ending::Report)?;
        let refused = |what: String| Unsupported {
            construct: what,
            loc: None,
        };
        let maps = Maps::new(program, &shapes, &code);
        let maps = maps.map_err(|error| refused(format!("maps of the kernel: {error}")))?;
        let linked = code.code.linked(|name| maps.descriptor(name));
        let kernel = BpfProgram::load(&linked);
        let kernel = kernel.map_err(|error| refused(format!("code in the kernel: {error}")))?;
        Ok(Arc::new(KernelProgram {
            rest: self.rest.load_with(program, layout, natives, pass)?,
            run: Arc::new(KernelRun {
                code,
                program: kernel,
                maps: Mutex::new(maps),
            }),
            counts: Arc::clone(&self.counts),
        }))
    }
}

/// A program in the kernel, with its maps.
struct KernelRun {
    code: KernelCode,
    program: BpfProgram,
    maps: Mutex<Maps>,
}

impl KernelRun {
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct KernelProgram {
    rest: Arc<dyn Loaded>,
    run: Arc<KernelRun>,
    counts: Arc<RunCounts>,
}

impl Loaded for KernelProgram {
    fn scratch_limbs(&self) -> usize {
        self.rest.scratch_limbs()
    }

    fn prepare(&self, packet: &mut PacketContext) {
        self.rest.prepare(packet);
    }

    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict {
        self.rest.run_parser(parser, packet, state)
    }

    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        self.rest.run_control(control, packet, state)
    }

    fn fuse(&self, pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        Some(Arc::new(KernelFastPath {
            rest: self.rest.fuse(pass)?,
            run: Arc::clone(&self.run),
            counts: Arc::clone(&self.counts),
        }))
    }

    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        self.rest.trace_parser(parser, packet, state, tracer)
    }

    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        self.rest.trace_control(control, packet, state, tracer)
    }
}

struct KernelFastPath {
    rest: Arc<dyn CompiledFastPath>,
    run: Arc<KernelRun>,
    counts: Arc<RunCounts>,
}

impl CompiledFastPath for KernelFastPath {
    fn derive(&self, state: &Arc<State>, lane: CounterShard, derived: &mut Derived) {
        self.rest.derive(state, lane, derived);
        // Packets run on the other engine unless the maps hold the state.
        let _ = self.run.maps().write(state);
    }

    fn prefetch(&self, what: PrefetchStage, owner: &DeviceView) {
        self.rest.prefetch(what, owner);
    }

    fn run(&self, burst: &mut Burst<'_>, context: &mut PacketContext) -> usize {
        let mut done = 0;
        for lot in burst.segments {
            for number in (lot.first_packet..).take(lot.frames) {
                let at = burst.order[done] as usize;
                let now = burst.now.0;
                if let Some(outcome) = self.in_kernel(lot, &mut burst.frames[at], now) {
                    self.counts.in_kernel.fetch_add(1, Relaxed);
                    burst.outcomes[done] = outcome.into();
                    done += 1;
                    continue;
                }
                self.counts.left.fetch_add(1, Relaxed);
                let mut one = Burst {
                    frames: &mut *burst.frames,
                    order: &burst.order[done..=done],
                    outcomes: &mut burst.outcomes[done..=done],
                    now: burst.now,
                    segments: &[BurstSegment {
                        frames: 1,
                        first_packet: number,
                        owner: lot.owner,
                    }],
                };
                self.rest.run(&mut one, context);
                done += 1;
                let left = matches!(burst.outcomes[done - 1].unpack(), PassOutcome::Left { .. });
                if left || context.has_told() {
                    return done;
                }
            }
        }
        done
    }
}

impl KernelFastPath {
    /// Runs a packet in the kernel. Returns `None`, with the frame unchanged and nothing counted,
    /// if it leaves.
    fn in_kernel(
        &self,
        lot: &BurstSegment<'_>,
        frame: &mut Frame,
        now: u64,
    ) -> Option<PassOutcome> {
        let mut maps = self.run.maps();
        let state = lot.state();
        let is_fit = frame.len() <= MAX_FRAME
            && maps.hold(state)
            && lot.owner.busy_ports.is_empty()
            && lot.owner.work.units() >= self.run.code.work;
        if !is_fit {
            return None;
        }
        maps.set_inputs((now, 0), frame.ingress.0, true).ok()?;
        let input = [&[0; TEST_PREFIX], frame.bytes()].concat();
        let (result, bytes) = self.run.program.test(&input).ok()?;
        let (kind, number) = (u64::from(result & 7), result >> 3);
        let outcome = match kind {
            outcome::SENT => {
                frame.assign(bytes.get(TEST_PREFIX..)?).ok()?;
                PassOutcome::Sent(PortId(number))
            }
            outcome::DROPPED => PassOutcome::Dropped(DropReason::from_index(number as usize)?),
            _ => {
                self.counts.note(self.run.code.leaves.get(number as usize)?);
                return None;
            }
        };
        let counts = maps.read_counts(|counted| match counted {
            Counted::Row(table, entry, amounts) => {
                count_row(state, (table, entry), amounts, lot.owner.lane, now);
            }
            Counted::Cell(counter, index, amounts) => {
                count_cell(state, counter, index, amounts, lot.owner.lane);
            }
        });
        counts.ok()?;
        Some(outcome)
    }
}

/// Counts a packet for a lookup's result, as the switch's own engines do.
fn count_row(
    state: &State,
    (table, entry): (TableId, Option<EntryIdx>),
    amounts: CounterReading,
    lane: CounterShard,
    now: u64,
) {
    let Some(table) = state.table(table) else {
        return;
    };
    let found = entry.map_or(Found::Miss, Found::Entry);
    table.record(&found, lane, amounts.bytes, packet::Nanos(now));
    // In v1model, direct counters count hits.
    if entry.is_some() {
        table.count(&found, lane, amounts.bytes);
    }
}

fn count_cell(
    state: &State,
    counter: ExternId,
    index: u32,
    amounts: CounterReading,
    lane: CounterShard,
) {
    if let Some(exec::ExternState::Counter(cells)) = state.extern_state(counter) {
        // The index is one of the array.
        let _ = cells.count(lane, index.into(), amounts.bytes);
    }
}
