//! The network interface as a core sees it: receive and transmit queues of contexts, the thread
//! scheduler, and the message limit.

use std::collections::VecDeque;

use crate::fault::FaultKind;

/// Contexts that a core has queues for (public sources of the prototype).
pub const CONTEXTS: usize = 4;
/// Bytes of the longest message.
pub const MAX_MESSAGE: u16 = 2048;

/// A message between a core and the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcMessage {
    /// Context of the core.
    pub context: u16,
    /// IPv4 address of the other end.
    pub peer: u32,
    /// Context of the other end.
    pub peer_context: u16,
    /// Contents, 1 to [`MAX_MESSAGE`] bytes, without the application header.
    pub bytes: Vec<u8>,
}

impl RpcMessage {
    /// Returns the application header: address, context and length.
    fn header(&self) -> u64 {
        let length = self.bytes.len() as u64;
        u64::from(self.peer) << 32 | u64::from(self.peer_context) << 16 | length
    }

    /// Returns the number of words with the header.
    fn words(&self) -> usize {
        1 + self.bytes.len().div_ceil(8)
    }

    /// Returns a word: the header, then the bytes in network order, filled with zeros.
    fn word(&self, index: usize) -> u64 {
        let Some(index) = index.checked_sub(1) else {
            return self.header();
        };
        let mut word = [0; 8];
        let rest = &self.bytes[index * 8..];
        let count = rest.len().min(8);
        word[..count].copy_from_slice(&rest[..count]);
        u64::from_be_bytes(word)
    }
}

/// Output of a core, in the order of its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A whole message.
    Message(RpcMessage),
    /// The core is done with a message of a context.
    Done(u16),
    /// A context is bound.
    Bound(u16),
    /// A context is removed, with a number of messages that were not read to their end.
    Removed(u16, usize),
}

/// A message that a program writes.
#[derive(Clone, Debug, Default)]
enum Transmit {
    /// The next word is a header. The length of the message before, if the program has not been
    /// done since.
    #[default]
    Idle,
    After(u16),
    Partial(RpcMessage, u16),
}

/// Queues of a context.
#[derive(Clone, Debug)]
struct Context {
    id: u16,
    /// Priority that the program gave.
    bound: u64,
    /// Priority after the message limit.
    effective: u64,
    received: VecDeque<(u64, RpcMessage)>,
    /// Words read of the first message.
    read: usize,
    transmit: Transmit,
    /// Cycle of the first word of the message in process.
    began: Option<u64>,
    is_idle: bool,
}

impl Context {
    fn wants_to_run(&self) -> bool {
        !self.received.is_empty() || self.began.is_some()
    }
}

/// Network interface of a core.
#[derive(Clone, Debug)]
pub(crate) struct NetworkQueues {
    contexts: Vec<Context>,
    current: u16,
    /// Priority for the next `lniccmd`.
    priority: u64,
    limit: u64,
    arrivals: VecDeque<(u64, RpcMessage)>,
    pub(crate) outputs: Vec<(u64, Output)>,
    sequence: u64,
    /// Cycle at which the message of the current context reaches the limit.
    limit_at: u64,
    target: Option<(u16, u64)>,
    timers: Timers,
    /// Messages that reached the limit.
    pub(crate) evictions: u64,
    /// Messages that arrived for a context that is not bound any more.
    pub(crate) unbound: u64,
}

/// Cycles in process and idle.
#[derive(Clone, Debug, Default)]
struct Timers {
    message: u64,
    idle: u64,
    idle_since: Option<u64>,
}

impl NetworkQueues {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            contexts: Vec::new(),
            current: 0,
            priority: 0,
            limit,
            arrivals: VecDeque::new(),
            outputs: Vec::new(),
            sequence: 0,
            limit_at: u64::MAX,
            target: None,
            timers: Timers::default(),
            evictions: 0,
            unbound: 0,
        }
    }

    /// Adds a message that arrives at a cycle, or with the last one if that is later.
    pub(crate) fn deliver(&mut self, cycle: u64, message: RpcMessage) {
        let last = self.arrivals.back().map_or(0, |(last, _)| *last);
        self.arrivals.push_back((cycle.max(last), message));
    }

    /// Returns the cycle of the next arrival or of the message limit.
    pub(crate) fn next_event(&self) -> u64 {
        self.arrivals
            .front()
            .map_or(u64::MAX, |a| a.0)
            .min(self.limit_at)
    }

    /// Takes all that is due at a cycle.
    pub(crate) fn advance(&mut self, cycle: u64) {
        while self.arrivals.front().is_some_and(|a| a.0 <= cycle) {
            let Some((_, message)) = self.arrivals.pop_front() else {
                break;
            };
            let sequence = self.sequence;
            self.sequence += 1;
            match self.contexts.iter_mut().find(|c| c.id == message.context) {
                Some(context) => context.received.push_back((sequence, message)),
                None => {
                    self.unbound += 1;
                    self.outputs.push((cycle, Output::Done(message.context)));
                }
            }
        }
        if self.limit_at <= cycle {
            self.evictions += 1;
            if let Some(context) = self.current_context() {
                context.effective = context.effective.saturating_add(1);
            }
            // Once for each message.
            self.limit_at = u64::MAX;
        }
        self.schedule();
    }

    fn current_context(&mut self) -> Option<&mut Context> {
        let current = self.current;
        self.contexts.iter_mut().find(|c| c.id == current)
    }

    fn bound_context(&mut self) -> Result<&mut Context, FaultKind> {
        let context = self.current;
        self.current_context()
            .ok_or(FaultKind::UnboundContext { context })
    }

    /// Selects the context that shall run: of those with messages, that of the highest priority,
    /// and of these the one with the oldest message.
    fn schedule(&mut self) {
        let order = |c: &Context| {
            let oldest = c.received.front().map_or(0, |(sequence, _)| *sequence);
            // A message in process is older than all that wait.
            (c.effective, if c.began.is_some() { 0 } else { oldest + 1 })
        };
        let wanting = self.contexts.iter().filter(|c| c.wants_to_run());
        let first = wanting.min_by_key(|c| order(c));
        self.target = first.map(|c| (c.id, c.effective));
    }

    /// Returns true if the scheduler wants another context to run than the current one.
    pub(crate) fn wants_switch(&self) -> bool {
        self.target.is_some_and(|(id, _)| id != self.current)
    }

    pub(crate) fn target(&self) -> (u16, u64) {
        self.target
            .unwrap_or((self.current, self.effective_priority()))
    }

    fn effective_priority(&self) -> u64 {
        let current = self.contexts.iter().find(|c| c.id == self.current);
        current.map_or(self.priority, |c| c.effective)
    }

    /// `lcurpriority`.
    pub(crate) fn current_priority(&self) -> u64 {
        self.effective_priority()
    }

    pub(crate) fn set_priority(&mut self, priority: u64) {
        self.priority = priority;
    }

    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    pub(crate) fn set_current(&mut self, id: u16, cycle: u64) {
        self.current = id;
        let limit = self.limit;
        let began = self.current_context().and_then(|c| {
            // A message that was evicted is not evicted again.
            c.began.filter(|_| c.effective == c.bound)
        });
        self.limit_at = began.map_or(u64::MAX, |began| (began + limit).max(cycle));
        self.schedule();
    }

    /// `lmsgsrdy`: messages of the current context that are not begun.
    pub(crate) fn ready(&self) -> u64 {
        let current = self.contexts.iter().find(|c| c.id == self.current);
        current.map_or(0, |c| (c.received.len() - usize::from(c.read > 0)) as u64)
    }

    /// Reads the next word of the current context.
    pub(crate) fn read(&mut self, cycle: u64) -> Result<u64, FaultKind> {
        let limit = self.limit;
        let context = self.bound_context()?;
        let Some((_, message)) = context.received.front() else {
            return Err(FaultKind::EmptyReceiveQueue {
                context: context.id,
            });
        };
        let word = message.word(context.read);
        context.read += 1;
        context.is_idle = false;
        let begins = context.read == 1 && context.began.is_none();
        if begins {
            context.began = Some(cycle);
        }
        if context.read == message.words() {
            context.received.pop_front();
            context.read = 0;
        }
        if begins {
            self.limit_at = cycle.saturating_add(limit);
            self.stop_idle(cycle);
        }
        Ok(word)
    }

    /// Writes the next word of the current context.
    pub(crate) fn write(&mut self, word: u64, cycle: u64) -> Result<(), FaultKind> {
        let context = self.bound_context()?;
        let transmit = std::mem::take(&mut context.transmit);
        let (mut message, announced) = match transmit {
            Transmit::Partial(message, announced) => (message, announced),
            Transmit::Idle | Transmit::After(_) => {
                let announced = (word & 0xffff) as u16;
                let peer = (word >> 32) as u32;
                if announced == 0 || announced > MAX_MESSAGE || peer == 0 {
                    if let Transmit::After(announced) = transmit {
                        return Err(FaultKind::MoreWordsThanAnnounced {
                            announced,
                            extra: word,
                        });
                    }
                    if (1..=MAX_MESSAGE).contains(&announced) {
                        return Err(FaultKind::NoDestination { announced });
                    }
                    let longest = MAX_MESSAGE;
                    return Err(FaultKind::BadMessageLength { announced, longest });
                }
                let message = RpcMessage {
                    context: context.id,
                    peer,
                    peer_context: (word >> 16) as u16,
                    bytes: Vec::with_capacity(usize::from(announced)),
                };
                context.transmit = Transmit::Partial(message, announced);
                return Ok(());
            }
        };
        let missing = usize::from(announced) - message.bytes.len();
        message
            .bytes
            .extend_from_slice(&word.to_be_bytes()[..missing.min(8)]);
        if missing <= 8 {
            context.transmit = Transmit::After(announced);
            self.outputs.push((cycle, Output::Message(message)));
        } else {
            context.transmit = Transmit::Partial(message, announced);
        }
        Ok(())
    }

    fn check_whole(context: &mut Context) -> Result<(), FaultKind> {
        if let Transmit::Partial(message, announced) = &context.transmit {
            return Err(FaultKind::IncompleteMessage {
                announced: *announced,
                written: message.bytes.len() as u16,
            });
        }
        context.transmit = Transmit::Idle;
        Ok(())
    }

    /// `lmsgdone`.
    pub(crate) fn done(&mut self, cycle: u64) -> Result<(), FaultKind> {
        let context = self.bound_context()?;
        Self::check_whole(context)?;
        if let (Some((_, message)), 1..) = (context.received.front(), context.read) {
            let words = (message.words() - context.read) as u16;
            return Err(FaultKind::UnreadWords { words });
        }
        context.effective = context.bound;
        let (id, began) = (context.id, context.began.take());
        if let Some(began) = began {
            self.timers.message += cycle.saturating_sub(began);
            self.outputs.push((cycle, Output::Done(id)));
        }
        self.limit_at = u64::MAX;
        self.schedule();
        Ok(())
    }

    /// `lidle`.
    pub(crate) fn idle(&mut self, cycle: u64) -> Result<(), FaultKind> {
        let context = self.bound_context()?;
        Self::check_whole(context)?;
        context.is_idle = true;
        self.timers.idle_since.get_or_insert(cycle);
        Ok(())
    }

    fn stop_idle(&mut self, cycle: u64) {
        if let Some(since) = self.timers.idle_since.take() {
            self.timers.idle += cycle.saturating_sub(since);
        }
    }

    /// `lniccmd` bit 0: binds the current context, or changes its priority.
    pub(crate) fn bind(&mut self, cycle: u64) -> Result<(), FaultKind> {
        let (id, priority) = (self.current, self.priority);
        if let Some(context) = self.current_context() {
            context.bound = priority;
            context.effective = priority;
        } else {
            if self.contexts.len() == CONTEXTS {
                return Err(FaultKind::TooManyContexts {
                    limit: CONTEXTS as u16,
                });
            }
            self.contexts.push(Context {
                id,
                bound: priority,
                effective: priority,
                received: VecDeque::new(),
                read: 0,
                transmit: Transmit::Idle,
                began: None,
                is_idle: false,
            });
            self.outputs.push((cycle, Output::Bound(id)));
        }
        self.schedule();
        Ok(())
    }

    /// `lniccmd` bit 1: removes the current context. Its messages are dropped and counted.
    pub(crate) fn remove(&mut self, cycle: u64) -> Result<(), FaultKind> {
        let context = self.bound_context()?;
        Self::check_whole(context)?;
        let (id, dropped) = (context.id, context.received.len());
        self.contexts.retain(|c| c.id != id);
        self.limit_at = u64::MAX;
        self.outputs.push((cycle, Output::Removed(id, dropped)));
        self.schedule();
        Ok(())
    }

    /// `lniccmd` bit 2: starts the timers at zero.
    pub(crate) fn start_timers(&mut self, cycle: u64) {
        self.timers.message = 0;
        self.timers.idle = 0;
        if let Some(since) = &mut self.timers.idle_since {
            *since = cycle;
        }
    }

    /// `lmsgcycles`.
    pub(crate) fn message_cycles(&self, cycle: u64) -> u64 {
        let current = self.contexts.iter().find(|c| c.id == self.current);
        let running = current
            .and_then(|c| c.began)
            .map_or(0, |began| cycle.saturating_sub(began));
        self.timers.message + running
    }

    /// `lidlecycles`.
    pub(crate) fn idle_cycles(&self, cycle: u64) -> u64 {
        let since = self.timers.idle_since;
        self.timers.idle + since.map_or(0, |since| cycle.saturating_sub(since))
    }
}
