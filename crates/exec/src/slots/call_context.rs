//! Execution of extern calls for one packet.

use bits::{IdVec, limbs_for, one};
use ir::{Op, ScalarTy, TableId, limbs_of};
use table::Color;

use super::SlotValue;
use super::call::{Called, ExternCall};
use super::table::TableSite;
use crate::externs::{checksum, hash, stateful};
use crate::{
    BitBuffer, CloneRequest, Destination, DropReason, FrameRequest, HandlerCall, MIRROR_SLOTS,
    Mark, PacketContext, State,
};

/// Number of bytes of the MAC addresses, and of the whole Ethernet header.
const MAC_ADDRESSES: usize = 12;
const ETHERNET: usize = 14;

impl ExternCall {
    /// Executes the call.
    ///
    /// # Errors
    /// The drop reason, if the packet must be dropped.
    pub fn run(
        &self,
        limbs: &mut [u64],
        packet: &mut PacketContext,
        state: &State,
        tables: &IdVec<TableId, TableSite>,
    ) -> Result<Called, DropReason> {
        let mut calling = ExternCallContext {
            limbs,
            packet,
            state,
            tables,
        };
        calling.run(self)
    }
}

/// Context of an extern call.
struct ExternCallContext<'c> {
    limbs: &'c mut [u64],
    packet: &'c mut PacketContext,
    state: &'c State,
    tables: &'c IdVec<TableId, TableSite>,
}

impl ExternCallContext<'_> {
    fn run(&mut self, call: &ExternCall) -> Result<Called, DropReason> {
        let mut called = Called::default();
        match call.op {
            Op::CounterCount | Op::CounterCountLength => {
                let index = self.small(call, 0);
                let length = self.length(call, Op::CounterCountLength, 1);
                stateful::counter_count(self.state, self.packet.lane, call.instance, index, length);
            }
            Op::CounterAdd => {
                let (index, amount) = (self.small(call, 0), self.small(call, 1));
                stateful::counter_add(self.state, self.packet.lane, call.instance, index, amount);
            }
            // v1model counts a hit when the table is applied, so its `count()` has no further
            // effect.
            Op::DirectCounterCount | Op::DirectCounterCountLength => {
                let counted = self.packet.current.is_some_and(|current| {
                    self.tables
                        .get(current.table)
                        .is_some_and(|table| table.counts_hits)
                });
                if !counted {
                    let length = self.length(call, Op::DirectCounterCountLength, 0);
                    stateful::direct_counter_count(self.state, self.packet, length);
                }
            }
            Op::MeterExecute | Op::MeterExecuteColored | Op::MeterExecuteLength => {
                let index = self.small(call, 0);
                let before = match call.op {
                    Op::MeterExecute => Color::Green,
                    _ => self.color(call, 1),
                };
                let length = self.length(call, Op::MeterExecuteLength, 2);
                let color = stateful::meter_execute(
                    self.state,
                    call.instance,
                    index,
                    before,
                    self.packet,
                    length,
                );
                self.give_color(call, color);
            }
            Op::DirectMeterExecute
            | Op::DirectMeterExecuteColored
            | Op::DirectMeterExecuteLength => {
                let before = match call.op {
                    Op::DirectMeterExecute => Color::Green,
                    _ => self.color(call, 0),
                };
                let length = self.length(call, Op::DirectMeterExecuteLength, 1);
                let color = stateful::direct_meter_execute(self.state, before, self.packet, length);
                self.give_color(call, color);
            }
            Op::RegisterRead => self.register_read(call),
            Op::RegisterWrite => self.register_write(call),
            Op::Hash | Op::HashGetBase => self.hash_in_range(call),
            Op::HashGet => {
                let hash = self.hash(call);
                self.give(call, 0, hash);
            }
            Op::VerifyChecksum | Op::VerifyChecksumWithPayload => {
                if self.small(call, 0) != 0 {
                    let sum = self.checksum(call, call.op == Op::VerifyChecksumWithPayload)?;
                    let sum = sum & mask(call.values.ins.get(1));
                    called.checksum = Some(sum);
                    if sum != self.small(call, 1) {
                        self.packet.requests.checksum_error = true;
                    }
                }
            }
            Op::UpdateChecksum | Op::UpdateChecksumWithPayload => self.update_checksum(call)?,
            Op::ChecksumClear | Op::InternetChecksumClear => {
                if let Some(unit) = self.packet.checksum(call.instance) {
                    unit.clear();
                }
            }
            Op::ChecksumUpdate | Op::InternetChecksumAdd | Op::InternetChecksumSubtract => {
                self.gather(call);
                let data = std::mem::take(&mut self.packet.data);
                if let Some(unit) = self.packet.checksum(call.instance) {
                    match call.op {
                        Op::InternetChecksumSubtract => unit.subtract(&data),
                        _ => unit.add(&data),
                    }
                }
                self.packet.data = data;
            }
            Op::ChecksumGet | Op::InternetChecksumGet => {
                let data = self
                    .packet
                    .checksum(call.instance)
                    .map_or(0, |unit| unit.len());
                self.packet.spend_on_hash(call.algorithm, data)?;
                let state = self.state;
                let mut random = self.packet.random;
                let result = self
                    .packet
                    .checksum(call.instance)
                    .map_or(0, |unit| unit.get(call.algorithm, &state.hash, &mut random));
                self.packet.random = random;
                self.give(call, 0, result);
            }
            Op::InternetChecksumGetState => {
                let unit = self.packet.checksum(call.instance);
                let sum = unit.map_or(0, |unit| unit.state());
                self.give(call, 0, sum.into());
            }
            Op::InternetChecksumSetState => {
                let sum = self.small(call, 0) as u16;
                if let Some(unit) = self.packet.checksum(call.instance) {
                    unit.set_state(sum);
                }
            }
            Op::ChecksumReplace2 => {
                let [sum, old, new] = [0, 1, 2].map(|i| self.small(call, i));
                let result = checksum::replace2(sum as u16, old as u16, new as u16);
                self.give(call, 0, result.into());
            }
            Op::ChecksumReplace4 => {
                let [sum, old, new] = [0, 1, 2].map(|i| self.small(call, i));
                let result = checksum::replace4(sum as u16, old as u32, new as u32);
                self.give(call, 0, result.into());
            }
            Op::RandomBetween => self.random_between(call),
            Op::RandomRead => self.random_read(call),
            Op::DigestSend => self.digest(call),
            Op::MarkToDrop | Op::MarkToPass => {
                self.packet.requests.mark = Some(match call.op {
                    Op::MarkToDrop => Mark::Drop,
                    _ => Mark::Pass,
                });
            }
            Op::Clone => {
                self.packet.requests.clone = Some(CloneRequest {
                    session: self.small(call, 0) as u32,
                    field_list: field_list(call.numbers[1]),
                });
            }
            Op::Resubmit => self.packet.requests.resubmit = Some(field_list(call.numbers[0])),
            Op::Recirculate => {
                self.packet.requests.recirculate = Some(field_list(call.numbers[0]));
            }
            Op::Truncate => {
                let bytes = self.small(call, 0).min(u64::from(u32::MAX)) as u32;
                self.packet.requests.truncate_to(bytes);
            }
            // The code that runs the block calls `leave`, however the block ends.
            Op::HoldAtomic => self.packet.atomic.enter(&self.state.atomic),
            Op::Assert | Op::Assume => self.assert(call)?,
            Op::LogMessage => self.log(call),
            Op::DropPacket => self.packet.requests.destination = Some(Destination::Drop),
            Op::SendToPort => {
                let port = self.small(call, 0) as u32;
                self.packet.requests.destination = Some(Destination::Port(port));
            }
            Op::MirrorPacket => {
                let slot = self.small(call, 0) as usize;
                let session = self.small(call, 1) as u32;
                if slot < MIRROR_SLOTS {
                    self.packet.requests.mirrors[slot] = Some(session);
                }
            }
            Op::RecirculatePacket => self.packet.requests.recirculate_packet = true,
            Op::AddEntry => self.add_entry(call),
            Op::SetEntryExpireTime => {
                let profile = self.small(call, 0);
                stateful::set_entry_expire_time(self.state, profile, self.packet);
            }
            Op::RestartExpireTimer => stateful::restart_expire_timer(self.state, self.packet),
            Op::AllocateFlowId => {
                let id = self.state.allocate_flow_id();
                self.give(call, 0, id.into());
            }
            Op::IsHostPort | Op::IsNetPort => {
                let is_host = self.state.is_host_port(self.small(call, 0));
                self.give(call, 0, u64::from(is_host == (call.op == Op::IsHostPort)));
            }
            Op::TimeNs => self.give(call, 0, self.packet.now.0),
            Op::PerfEventOutput => {
                self.packet.requests.perf_event = true;
                self.give(call, 0, 0);
            }
            Op::Native => self.native(call),
            Op::Remote => self.remote(call)?,
            Op::SendFrame => self.send_frame(call)?,
            Op::SetPacketLength => {
                self.packet.length = self.small(call, 0).min(u64::from(u32::MAX)) as u32;
            }
        }
        Ok(called)
    }

    /// Returns a value of at most 64 bits. A wider value that does not fit gives `u64::MAX`.
    fn small(&self, call: &ExternCall, at: usize) -> u64 {
        let Some(value) = call.values.ins.get(at) else {
            return 0;
        };
        let slot = value.slot as usize;
        let limbs = limbs_for(value.ty.width());
        if limbs > 1
            && self.limbs[slot + 1..slot + limbs]
                .iter()
                .any(|&limb| limb != 0)
        {
            return u64::MAX;
        }
        self.limbs[slot]
    }

    /// Stores a result, truncated to its type.
    fn give(&mut self, call: &ExternCall, at: usize, value: u64) {
        if let Some(out) = call.values.outs.get(at) {
            let slot = out.slot as usize;
            let limbs = limbs_of(out.ty) as usize;
            self.limbs[slot..slot + limbs].fill(0);
            self.limbs[slot] = value & mask(Some(out));
        }
    }

    /// Returns the packet's length in bytes: the operand `at` if the operation is `told`, else the
    /// context's length.
    fn length(&self, call: &ExternCall, told: Op, at: usize) -> u64 {
        if call.op == told {
            self.small(call, at)
        } else {
            u64::from(self.packet.length)
        }
    }

    fn color(&self, call: &ExternCall, at: usize) -> Color {
        let number = self.small(call, at);
        let at = call.colors.iter().position(|&color| color == number);
        stateful::color_of_number(at.unwrap_or(2) as u64)
    }

    fn give_color(&mut self, call: &ExternCall, color: Color) {
        let number = stateful::color_number(color) as usize;
        let number = call.colors.get(number).copied().unwrap_or(0);
        self.give(call, 0, number);
    }

    /// Packs the call's data.
    fn gather(&mut self, call: &ExternCall) {
        self.packet.data.clear();
        self.append(call);
    }

    fn append(&mut self, call: &ExternCall) {
        for value in &call.values.data {
            push(&mut self.packet.data, self.limbs, value);
        }
    }

    /// Returns the hash of the call's data. As in BMv2, data that is not a whole number of bytes is
    /// zero-padded: at its end for v1model's `hash`, at its start for `Hash` objects.
    fn hash(&mut self, call: &ExternCall) -> u64 {
        self.packet.data.clear();
        if call.op != Op::Hash {
            let bits: u32 = call.values.data.iter().map(|v| span(self.limbs, v).1).sum();
            self.packet.data.push_u64(0, bits.wrapping_neg() % 8);
        }
        self.append(call);
        let PacketContext { data, random, .. } = &mut *self.packet;
        hash::seeded_hash(call.algorithm, data.bytes(), &self.state.hash, random)
    }

    fn hash_in_range(&mut self, call: &ExternCall) {
        let hash = self.hash(call);
        let [Some(base), Some(max)] = [call.values.ins.first(), call.values.ins.get(1)] else {
            return;
        };
        let Some(out) = call.values.outs.first() else {
            return;
        };
        // The result's slots come after all operands'.
        let (before, behind) = self.limbs.split_at_mut(out.slot as usize);
        let limbs = |value: &SlotValue| {
            let slot = value.slot as usize;
            &before[slot..slot + limbs_of(value.ty) as usize]
        };
        let result = &mut behind[..limbs_of(out.ty) as usize];
        hash::in_range(result, hash, limbs(base), limbs(max));
        bits::limbs::truncate_in_place(result, out.ty.width());
    }

    fn checksum(&mut self, call: &ExternCall, with_payload: bool) -> Result<u64, DropReason> {
        self.gather(call);
        if with_payload {
            let payload = self.packet.payload().len();
            self.packet.spend_on_hash(call.algorithm, payload)?;
            self.packet.data.pad_to_byte();
            let mut data = std::mem::take(&mut self.packet.data);
            data.push_bytes(self.packet.payload());
            self.packet.data = data;
        }
        let PacketContext { data, random, .. } = &mut *self.packet;
        let sum = hash::hash(call.algorithm, data.bytes(), &self.state.hash, random);
        Ok(sum)
    }

    /// If the condition is false, the destination keeps its value: the calling code has stored it
    /// in the result's slots.
    fn update_checksum(&mut self, call: &ExternCall) -> Result<(), DropReason> {
        if self.small(call, 0) != 0 {
            let sum = self.checksum(call, call.op == Op::UpdateChecksumWithPayload)?;
            self.give(call, 0, sum);
        }
        Ok(())
    }

    fn register_read(&mut self, call: &ExternCall) {
        let index = self.small(call, 0);
        for out in &call.values.outs {
            let slot = out.slot as usize;
            self.limbs[slot..slot + limbs_of(out.ty) as usize].fill(0);
        }
        let Some(registers) = self.state.registers(call.instance) else {
            return;
        };
        registers.read(index, |at, array| {
            if let Some(out) = call.values.outs.get(at) {
                let slot = out.slot as usize;
                let limbs = limbs_of(out.ty) as usize;
                array.read(index, &mut self.limbs[slot..slot + limbs]);
            }
        });
    }

    fn register_write(&mut self, call: &ExternCall) {
        let index = self.small(call, 0);
        let Some(registers) = self.state.registers(call.instance) else {
            return;
        };
        registers.write(index, |at, array| {
            if let Some(value) = call.values.data.get(at) {
                let slot = value.slot as usize;
                let limbs = limbs_of(value.ty) as usize;
                array.write(index, &self.limbs[slot..slot + limbs]);
            }
        });
    }

    fn random_between(&mut self, call: &ExternCall) {
        let (Some(low), Some(high), Some(out)) = (
            call.values.ins.first(),
            call.values.ins.get(1),
            call.values.outs.first(),
        ) else {
            return;
        };
        let width = low.ty.width();
        if width <= 64 {
            let (low, high) = (self.small(call, 0), self.small(call, 1));
            let drawn = self.packet.random.between(low, high);
            return self.give(call, 0, drawn);
        }
        // The result's slots come after all operands'.
        let (before, behind) = self.limbs.split_at_mut(out.slot as usize);
        let n = limbs_for(width);
        let (low, high) = (low.slot as usize, high.slot as usize);
        if let (Some(low), Some(high)) = (before.get(low..low + n), before.get(high..high + n)) {
            self.packet.random.between_wide(behind, low, high, width);
        }
    }

    fn random_read(&mut self, call: &ExternCall) {
        let (Some(out), Some((low, high))) = (call.values.outs.first(), &call.range) else {
            return;
        };
        let slot = out.slot as usize;
        let value = &mut self.limbs[slot..slot + limbs_of(out.ty) as usize];
        self.packet
            .random
            .between_wide(value, low, high, out.ty.width());
    }

    fn digest(&mut self, call: &ExternCall) {
        self.packet.digests.begin(call.instance);
        for value in &call.values.data {
            let slot = value.slot as usize;
            let limbs = limbs_of(value.ty) as usize;
            self.packet.digests.push(&self.limbs[slot..slot + limbs]);
        }
    }

    fn assert(&mut self, call: &ExternCall) -> Result<(), DropReason> {
        if self.small(call, 0) != 0 {
            return Ok(());
        }
        let (word, reason) = match call.op {
            Op::Assert => ("assert", DropReason::AssertFailed),
            _ => ("assume", DropReason::AssumeFailed),
        };
        let log = &mut self.packet.log;
        log.push(word);
        log.push(" failed: ");
        log.push(&call.text);
        log.end_line();
        Err(reason)
    }

    fn log(&mut self, call: &ExternCall) {
        let mut values = call.values.data.iter();
        let log = &mut self.packet.log;
        let mut parts = call.text.split("{}");
        log.push(parts.next().unwrap_or_default());
        for part in parts {
            match values.next() {
                Some(value) => {
                    let (slot, width) = span(self.limbs, value);
                    let signed = value.ty.is_signed().then_some(width);
                    log.push_number(&self.limbs[slot..slot + limbs_for(width).max(1)], signed);
                }
                None => log.push("{}"),
            }
            log.push(part);
        }
        log.end_line();
    }

    fn add_entry(&mut self, call: &ExternCall) {
        let failed = self.try_add_entry(call).is_none();
        self.give(call, 0, u64::from(failed));
    }

    fn try_add_entry(&self, call: &ExternCall) -> Option<()> {
        let current = self.packet.current?;
        let table = self.tables.get(current.table)?;
        let action = *table.actions.get(call.numbers[0] as usize)?;
        let limbs: u32 = call
            .values
            .data
            .iter()
            .map(|value| limbs_of(value.ty))
            .sum();
        let params = call
            .values
            .data
            .first()
            .map_or(0, |value| value.slot as usize);
        let key = table.key as usize;
        let added = stateful::add_entry(
            self.state,
            &current,
            &self.limbs[key..key + table.key_limbs as usize],
            action,
            &self.limbs[params..params + limbs as usize],
            self.small(call, 0),
            self.packet.now.0,
        );
        added.then_some(())
    }

    fn native(&mut self, call: &ExternCall) {
        let Some(function) = &call.native else {
            return;
        };
        let (arguments, results) = arguments_and_results(self.limbs, call);
        function(arguments, results);
        self.truncate_results(call);
    }

    fn remote(&mut self, call: &ExternCall) -> Result<(), DropReason> {
        let state = self.state;
        let handler = state.handlers.get(call.instance);
        let Some(handler) = handler.or(call.handler.as_ref()) else {
            return Ok(());
        };
        let (request, response) = arguments_and_results(self.limbs, call);
        response.fill(0);
        handler.call(HandlerCall {
            request,
            response,
            packet: self.packet,
            state: self.state,
        })?;
        self.truncate_results(call);
        Ok(())
    }

    /// Builds the first bytes of a frame of a split program.
    fn send_frame(&mut self, call: &ExternCall) -> Result<(), DropReason> {
        let header = self.small(call, 1).min(packet::MAX_FRAME as u64) as usize;
        let PacketContext { data, bytes, .. } = &mut *self.packet;
        let bytes = bytes.bytes();
        let addresses = bytes.get(..MAC_ADDRESSES);
        // The header of a received frame starts with the packet's own EtherType.
        let at = if header == 0 { MAC_ADDRESSES } else { ETHERNET };
        let own_type = bytes.get(at..at + 2);
        let (Some(addresses), Some(own_type)) = (addresses, own_type) else {
            return Err(DropReason::FrameTooShort);
        };
        data.clear();
        data.push_bytes(addresses);
        data.push_u64(call.numbers[0], 16);
        data.push_bytes(own_type);
        self.append(call);
        self.packet.data.pad_to_byte();
        self.packet.requests.frame = Some(FrameRequest {
            port: self.small(call, 0) as u32,
            replaced: (ETHERNET + header) as u32,
        });
        Ok(())
    }

    fn truncate_results(&mut self, call: &ExternCall) {
        for out in &call.values.outs {
            let width = out.ty.width();
            let slot = out.slot as usize;
            bits::limbs::truncate_in_place(
                &mut self.limbs[slot..slot + limbs_of(out.ty) as usize],
                width,
            );
        }
    }
}

/// Returns the limbs of a call's data and of its results. Arguments usually come before results.
/// Both are temporaries, and the order of their allocation decides.
fn arguments_and_results<'l>(
    limbs: &'l mut [u64],
    call: &ExternCall,
) -> (&'l [u64], &'l mut [u64]) {
    let count = |values: &[SlotValue]| values.iter().map(|v| limbs_of(v.ty)).sum::<u32>() as usize;
    let (outs, args) = (count(&call.values.outs), count(&call.values.data));
    let out = call.values.outs.first().map_or(0, |out| out.slot as usize);
    let arg = call.values.data.first().map_or(0, |arg| arg.slot as usize);
    if arg >= out + outs {
        let (results, arguments) = limbs.split_at_mut(arg);
        (&arguments[..args], &mut results[out..out + outs])
    } else {
        let (arguments, results) = limbs.split_at_mut(out);
        (&arguments[arg..arg + args], &mut results[..outs])
    }
}

/// Returns the mask of the bits in a value's low limb.
fn mask(value: Option<&SlotValue>) -> u64 {
    value.map_or(0, |value| one::mask(value.ty.width().min(64)))
}

/// Returns the first slot of a value's bits and its current number of bits.
fn span(limbs: &[u64], value: &SlotValue) -> (usize, u32) {
    let slot = value.slot as usize;
    match value.ty {
        ScalarTy::Varbit(most) => (slot + 1, (limbs[slot] as u32).min(most)),
        ty => (slot, ty.width()),
    }
}

fn push(data: &mut BitBuffer, limbs: &[u64], value: &SlotValue) {
    let (slot, width) = span(limbs, value);
    data.push(&limbs[slot..slot + limbs_for(width).max(1)], width);
}

/// Returns the field list's index from the number in a call.
fn field_list(number: u64) -> Option<u32> {
    u32::try_from(number).ok()?.checked_sub(1)
}
