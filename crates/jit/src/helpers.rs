//! Functions that native code calls. Their arguments are the invocation and numbers. They are safe
//! Rust: for any arguments, they access only the packet and its state.

use exec::externs::hash;
use exec::slots::Slot;
use exec::slots::header;
use exec::{Destination, DropReason, Found, PackedOutcome};
use ir::{ExternId, HashAlgorithm};
use table::EntryIdx;

use crate::abi::{Invocation, Outcome, applied_number};

/// Marks an address out of range, or the distance to a missing element.
pub(crate) const OUT_OF_RANGE: u64 = u64::MAX;

/// Marks the missing size of a header without a varbit field.
pub(crate) const NO_SIZE: u64 = u64::MAX;

macro_rules! helpers {
    ($($(#[$doc:meta])* $variant:ident = $function:ident($($arg:ident),*);)*) => {
        /// Function that native code calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Helper { $($(#[$doc])* $variant,)* }

        impl Helper {
            /// Returns the address of the function.
            pub(crate) fn address(self) -> usize {
                match self {
                    $(Helper::$variant => {
                        let function: extern "C" fn(&mut Invocation<'_> $(, helpers!(@number $arg))*) -> u64 = $function;
                        function as usize
                    })*
                }
            }

            const ALL: &[Helper] = &[$(Helper::$variant),*];
        }
    };
    (@number $arg:ident) => { u64 };
}

helpers! {
    /// Copies limbs.
    Copy = copy(d, a, n);
    /// Reads limbs of an element at an offset from `base`. Reads zeros if the offset is out of
    /// range.
    LoadAt = load_at(d, base, at, n);
    /// Writes limbs of an element at an offset from `base`. Writes nothing if the offset is out of
    /// range.
    StoreAt = store_at(base, at, a, n);
    /// Returns 1 if `n` limbs are equal.
    Equal = equal(a, b, n);
    /// Writes zeros.
    Clear = clear(d, n);
    /// Writes a constant into slots.
    Constant = constant(d, which);
    /// Copies limbs of the parameters of the running action.
    CopyParam = copy_param(d, from, n);
    /// Performs an operation on values of more than one limb.
    Wide = wide(which);
    /// Returns the CRC-32 of the first bytes of words, each most significant byte first.
    Crc32 = crc32(a, bytes);
    /// Returns the CRC-16 of the first bytes of words, each most significant byte first.
    Crc16 = crc16(a, bytes);
    /// Returns 1 if the key in slots is in a value set.
    InValueSet = in_value_set(set, a);
    /// Extracts a header. Returns 0, or the encoded outcome.
    Extract = extract(header, distance, size);
    /// Reads bits ahead of the cursor. Returns 0, or the encoded outcome.
    Lookahead = lookahead(which);
    /// Emits a header. Returns 0, or the encoded outcome.
    Emit = emit(header, distance);
    /// Emits a scalar. Returns 0, or the encoded outcome.
    EmitField = emit_field(slot, width);
    /// Emits a varbit. Returns 0, or the encoded outcome.
    EmitVarbit = emit_varbit(slot);
    /// Copies a header.
    CopyHeader = copy_header(which, to, from);
    /// Runs `push_front` on a header stack.
    PushFront = push_front(stack, n);
    /// Runs `pop_front` on a header stack.
    PopFront = pop_front(stack, n);
    /// Enters `@atomic` code.
    EnterAtomic = enter_atomic();
    /// Leaves `@atomic` code.
    LeaveAtomic = leave_atomic();
    /// Leaves all `@atomic` code that was entered.
    EndAtomic = end_atomic();
    /// Begins a block of the program.
    BeginBlock = begin_block();
    /// Begins one more parse of the packet's bytes.
    BeginPass = begin_pass();
    /// Replaces the packet by the emitted bits. Returns 0, or the encoded outcome.
    FinishDeparse = finish_deparse();
    /// Makes the packet the requested frame of a split program. Returns the encoded outcome, or 0
    /// without such a request.
    FinishFrame = finish_frame();
    /// Ends a packet that may have issued requests, or of which the context holds the frame.
    /// Returns 1 if the burst must stop here.
    EndPacket = end_packet();
    /// Switches to the next burst segment when all packets of one are finished. Returns 0 if there
    /// is none.
    NextLot = next_lot();
    /// Discards the emitted bits.
    ForgetEmitted = forget_emitted();
    /// Returns 1 if the packet has issued a request to the device.
    Asked = asked();
    /// Records a checksum error.
    WrongChecksum = wrong_checksum();
    /// Sets the running sum of a checksum instance.
    SetSum = set_sum(instance, sum);
    /// Returns 1 if a checksum did not verify.
    ChecksumError = checksum_error();
    /// PNA: returns the egress port of the packet, or the encoded outcome.
    Destination = destination();
    /// Returns 1 if the ingress port of the packet is a host port.
    IsHostPort = is_host_port();
    /// Returns the current length of the frame in bytes.
    FrameLength = frame_length();
    /// Returns the packet's length in bytes for counters.
    CountedLength = counted_length();
    /// Returns 1 if the queues of a port are not free.
    IsBusy = is_busy(port);
    /// Applies a table.
    Apply = apply(table);
    /// Looks up an entry of a table. Returns its record number, 0 for a miss.
    Find = find(table);
    /// Selects the action for a lookup result and assembles its record.
    Settle = settle(table, record);
    /// Calls an extern. Returns 0, or the encoded outcome.
    Call = call(which);
    /// Calls an extern that may issue requests or notifications to the device. Returns 0, or the
    /// encoded outcome.
    CallToAsk = call_to_ask(which);
    /// Calls an extern that reads the packet's bytes. Returns 0, or the encoded outcome.
    CallWithBytes = call_with_bytes(which);
    /// Calls a remote handler, which may write messages and the bytes after the parsed ones.
    /// Returns 0, or the encoded outcome.
    CallRemote = call_remote(which);
}

impl Helper {
    /// Returns true if the helper at this address neither changes nor moves the packet's bytes.
    /// Host functions may do anything, so calls of externs count as writes.
    pub(crate) fn leaves_bytes(address: u64) -> bool {
        let writes = |helper: Helper| {
            matches!(
                helper,
                Helper::BeginPass
                    | Helper::FinishDeparse
                    | Helper::FinishFrame
                    | Helper::EndPacket
                    | Helper::Call
                    | Helper::CallToAsk
                    | Helper::CallWithBytes
                    | Helper::CallRemote
            )
        };
        let mut here = Helper::ALL
            .iter()
            .filter(|helper| helper.address() as u64 == address)
            .peekable();
        here.peek().is_some() && !here.any(|&helper| writes(helper))
    }
}

extern "C" fn copy(inv: &mut Invocation<'_>, d: u64, a: u64, n: u64) -> u64 {
    let a = a as usize;
    inv.limbs.copy_within(a..a + n as usize, d as usize);
    0
}

extern "C" fn load_at(inv: &mut Invocation<'_>, d: u64, base: u64, at: u64, n: u64) -> u64 {
    let (d, n) = (d as usize, n as usize);
    if at == OUT_OF_RANGE {
        inv.limbs[d..d + n].fill(0);
    } else {
        let a = (base + at) as usize;
        inv.limbs.copy_within(a..a + n, d);
    }
    0
}

extern "C" fn store_at(inv: &mut Invocation<'_>, base: u64, at: u64, a: u64, n: u64) -> u64 {
    if at != OUT_OF_RANGE {
        let a = a as usize;
        inv.limbs
            .copy_within(a..a + n as usize, (base + at) as usize);
    }
    0
}

extern "C" fn equal(inv: &mut Invocation<'_>, a: u64, b: u64, n: u64) -> u64 {
    let (a, b, n) = (a as usize, b as usize, n as usize);
    u64::from(inv.limbs[a..a + n] == inv.limbs[b..b + n])
}

extern "C" fn clear(inv: &mut Invocation<'_>, d: u64, n: u64) -> u64 {
    inv.limbs[d as usize..][..n as usize].fill(0);
    0
}

extern "C" fn constant(inv: &mut Invocation<'_>, d: u64, which: u64) -> u64 {
    let constant = &inv.code.constants[which as usize];
    inv.limbs[d as usize..][..constant.len()].copy_from_slice(constant);
    0
}

extern "C" fn copy_param(inv: &mut Invocation<'_>, d: u64, from: u64, n: u64) -> u64 {
    let (d, from, n) = (d as usize, from as usize, n as usize);
    let params = inv.params.limbs(&inv.packet.learned_params);
    if let Some(param) = params.get(from..from + n) {
        inv.limbs[d..d + n].copy_from_slice(param);
    }
    0
}

extern "C" fn wide(inv: &mut Invocation<'_>, which: u64) -> u64 {
    let code = inv.code;
    code.wides[which as usize].run(inv.limbs, code.wide_scratch);
    0
}

extern "C" fn crc32(inv: &mut Invocation<'_>, a: u64, bytes: u64) -> u64 {
    let words = &inv.limbs[a as usize..];
    let crc = hash::crc32_of_words(words, bytes as usize).into();
    hash::seeded(HashAlgorithm::Crc32, crc, inv.state().hash.seed)
}

extern "C" fn crc16(inv: &mut Invocation<'_>, a: u64, bytes: u64) -> u64 {
    let words = &inv.limbs[a as usize..];
    let crc = hash::crc16_of_words(words, bytes as usize).into();
    hash::seeded(HashAlgorithm::Crc16, crc, inv.state().hash.seed)
}

extern "C" fn in_value_set(inv: &mut Invocation<'_>, set: u64, a: u64) -> u64 {
    let Some(set) = inv.state().value_sets.get(set as usize) else {
        return 0;
    };
    let key = &inv.limbs[a as usize..][..set.shape().limbs()];
    u64::from(set.contains(key))
}

extern "C" fn extract(inv: &mut Invocation<'_>, header: u64, distance: u64, size: u64) -> u64 {
    inv.hold();
    inv.take_back();
    let code = inv.code;
    let header = &code.headers[header as usize];
    let size = (size != NO_SIZE).then_some(size);
    let extracted = header.extract(inv.limbs, inv.packet, &code.errors, distance as usize, size);
    inv.show_cursor();
    outcome(extracted)
}

extern "C" fn lookahead(inv: &mut Invocation<'_>, which: u64) -> u64 {
    inv.hold();
    inv.take_back();
    let lookahead = &inv.code.lookaheads[which as usize];
    outcome(lookahead.read(inv.limbs, inv.packet, &inv.code.errors))
}

fn outcome(result: Result<(), u32>) -> u64 {
    match result {
        Ok(()) => Outcome::Done.number(),
        Err(error) => Outcome::Reject(error).number(),
    }
}

extern "C" fn emit(inv: &mut Invocation<'_>, header: u64, distance: u64) -> u64 {
    inv.take_back();
    let header = &inv.code.headers[header as usize];
    header.emit(inv.limbs, inv.packet, distance as usize);
    emitted(inv)
}

extern "C" fn emit_field(inv: &mut Invocation<'_>, slot: u64, width: u64) -> u64 {
    inv.take_back();
    header::emit_field(inv.limbs, inv.packet, slot as Slot, width as u32);
    emitted(inv)
}

extern "C" fn emit_varbit(inv: &mut Invocation<'_>, slot: u64) -> u64 {
    inv.take_back();
    header::emit_varbit(inv.limbs, inv.packet, slot as Slot);
    emitted(inv)
}

fn emitted(inv: &mut Invocation<'_>) -> u64 {
    inv.show_emitted();
    match inv.packet.has_emitted_too_much() {
        true => Outcome::Drop(DropReason::FrameTooLong).number(),
        false => Outcome::Done.number(),
    }
}

extern "C" fn copy_header(inv: &mut Invocation<'_>, which: u64, to: u64, from: u64) -> u64 {
    let distance = |at: u64| (at != OUT_OF_RANGE).then_some(at as usize);
    inv.code.header_copies[which as usize].run(inv.limbs, distance(to), distance(from));
    0
}

extern "C" fn push_front(inv: &mut Invocation<'_>, stack: u64, n: u64) -> u64 {
    inv.code.stacks[stack as usize].push_front(inv.limbs, n as u32);
    0
}

extern "C" fn pop_front(inv: &mut Invocation<'_>, stack: u64, n: u64) -> u64 {
    inv.code.stacks[stack as usize].pop_front(inv.limbs, n as u32);
    0
}

extern "C" fn enter_atomic(inv: &mut Invocation<'_>) -> u64 {
    let state = inv.state();
    inv.packet.atomic.enter(&state.atomic);
    0
}

extern "C" fn leave_atomic(inv: &mut Invocation<'_>) -> u64 {
    let state = inv.state();
    inv.packet.atomic.leave(&state.atomic);
    0
}

extern "C" fn apply(inv: &mut Invocation<'_>, table: u64) -> u64 {
    inv.begin();
    let table = &inv.code.tables.as_slice()[table as usize];
    let state = inv.state();
    let applied = table.apply(inv.limbs, inv.packet, state);
    inv.show_params(applied.params);
    applied_number(applied.position, applied.hit)
}

extern "C" fn find(inv: &mut Invocation<'_>, table: u64) -> u64 {
    let table = &inv.code.tables.as_slice()[table as usize];
    let state = inv.state();
    let found = table.find(inv.limbs, state);
    EntryIdx::record_of(found).into()
}

extern "C" fn settle(inv: &mut Invocation<'_>, table: u64, record: u64) -> u64 {
    inv.begin();
    let code = inv.code;
    let table = &code.tables.as_slice()[table as usize];
    let found = match record.checked_sub(1) {
        None => Found::Miss,
        Some(idx) => Found::Entry(EntryIdx::new(idx as u32)),
    };
    let state = inv.state();
    let applied = table.settle(found, inv.limbs, inv.packet, state);
    if let Some(position) = applied.position {
        let params = applied.params.limbs(&inv.packet.learned_params);
        let room = &mut inv.limbs[code.settled as usize - table.records.front()..];
        table.records.write(position as usize, params, room);
    }
    applied_number(applied.position, applied.hit)
}

extern "C" fn call(inv: &mut Invocation<'_>, which: u64) -> u64 {
    inv.begin();
    inv.take_back();
    let code = inv.code;
    let call = &code.calls[which as usize];
    let state = inv.state();
    let called = call.run(inv.limbs, inv.packet, state, &code.tables);
    inv.show_work();
    match called {
        Ok(_) => Outcome::Done.number(),
        Err(reason) => Outcome::Drop(reason).number(),
    }
}

extern "C" fn call_to_ask(inv: &mut Invocation<'_>, which: u64) -> u64 {
    inv.note_asking();
    call(inv, which)
}

extern "C" fn call_with_bytes(inv: &mut Invocation<'_>, which: u64) -> u64 {
    inv.hold();
    call(inv, which)
}

extern "C" fn call_remote(inv: &mut Invocation<'_>, which: u64) -> u64 {
    inv.hold();
    call_to_ask(inv, which)
}

extern "C" fn end_atomic(inv: &mut Invocation<'_>) -> u64 {
    let state = inv.state();
    inv.packet.atomic.leave_all(&state.atomic);
    0
}

extern "C" fn begin_block(inv: &mut Invocation<'_>) -> u64 {
    inv.packet.begin_block();
    0
}

extern "C" fn begin_pass(inv: &mut Invocation<'_>) -> u64 {
    // A context that has not begun yet gets all of this when it begins.
    if inv.has_begun() {
        inv.packet.begin_block();
        inv.packet.clear_checksums();
        inv.packet.requests.checksum_error = false;
        inv.packet.length = inv.frame().len() as u32;
    }
    0
}

extern "C" fn finish_deparse(inv: &mut Invocation<'_>) -> u64 {
    inv.take_back();
    let finished = inv.finish_deparse();
    if finished.is_err() {
        inv.packet.emitted.clear();
    }
    inv.show_bytes();
    inv.show_cursor();
    inv.show_emitted();
    match finished {
        Ok(()) => Outcome::Done.number(),
        Err(_) => Outcome::Drop(DropReason::FrameTooLong).number(),
    }
}

extern "C" fn finish_frame(inv: &mut Invocation<'_>) -> u64 {
    match inv.finish_frame() {
        None => 0,
        Some(Ok(port)) => PackedOutcome::SENT | u64::from(port),
        Some(Err(_)) => Outcome::Drop(DropReason::FrameTooLong).number(),
    }
}

extern "C" fn end_packet(inv: &mut Invocation<'_>) -> u64 {
    u64::from(inv.end_packet())
}

extern "C" fn next_lot(inv: &mut Invocation<'_>) -> u64 {
    u64::from(inv.take_up_next())
}

extern "C" fn forget_emitted(inv: &mut Invocation<'_>) -> u64 {
    inv.take_back();
    inv.packet.emitted.clear();
    inv.show_emitted();
    0
}

extern "C" fn asked(inv: &mut Invocation<'_>) -> u64 {
    u64::from(inv.may_have_asked() && inv.packet.has_asked())
}

extern "C" fn wrong_checksum(inv: &mut Invocation<'_>) -> u64 {
    inv.begin();
    inv.packet.requests.checksum_error = true;
    0
}

extern "C" fn set_sum(inv: &mut Invocation<'_>, instance: u64, sum: u64) -> u64 {
    inv.begin();
    if let Some(unit) = inv.packet.checksum(ExternId::new(instance as u32)) {
        unit.set_state(sum as u16);
    }
    0
}

extern "C" fn checksum_error(inv: &mut Invocation<'_>) -> u64 {
    u64::from(
        inv.requests()
            .is_some_and(|requests| requests.checksum_error),
    )
}

extern "C" fn destination(inv: &mut Invocation<'_>) -> u64 {
    match inv.requests().and_then(|requests| requests.destination) {
        Some(Destination::Port(port)) => port.into(),
        Some(Destination::Drop) => Outcome::Drop(DropReason::Ingress).number(),
        None => Outcome::Drop(DropReason::NoDestination).number(),
    }
}

extern "C" fn is_host_port(inv: &mut Invocation<'_>) -> u64 {
    let ingress = inv.frame().ingress;
    u64::from(inv.state().is_host_port(ingress.0.into()))
}

extern "C" fn frame_length(inv: &mut Invocation<'_>) -> u64 {
    inv.frame().len() as u64
}

extern "C" fn counted_length(inv: &mut Invocation<'_>) -> u64 {
    inv.begin();
    u64::from(inv.packet.length)
}

extern "C" fn is_busy(inv: &mut Invocation<'_>, port: u64) -> u64 {
    let port = u32::try_from(port);
    u64::from(port.is_ok_and(|port| inv.busy_ports().binary_search(&port).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_that_may_write_the_packets_bytes_or_move_them_are_known() {
        let leaves = |helper: Helper| Helper::leaves_bytes(helper.address() as u64);
        for helper in [
            Helper::BeginPass,
            Helper::FinishDeparse,
            Helper::FinishFrame,
            Helper::EndPacket,
            Helper::Call,
            Helper::CallToAsk,
            Helper::CallWithBytes,
            Helper::CallRemote,
        ] {
            assert!(!leaves(helper), "{helper:?}");
        }
        assert!(leaves(Helper::Find));
        assert!(!Helper::leaves_bytes(0));
    }
}
