//! Execution of one instruction: values and times.

use crate::alu;
use crate::core::{Core, Shared};
use crate::csr::{
    self, CYCLE, INSTRET, LCURCONTEXT, LCURPRIORITY, LIDLECYCLES, LMSGCYCLES, LMSGSRDY, LNICCMD,
    LNICRDY, LNICUCMD, LTARGETCONTEXT, LTARGETPRIORITY, MARCHID, MCYCLE, MHARTID, MIMPID, MINSTRET,
    MIP, MISA, MISA_VALUE, MVENDORID, SCHEDULER_INTERRUPT, TIME, TIMER_INTERRUPT,
};
use crate::decode::Decoded;
use crate::fault::FaultKind;
use crate::float::{self, Flags};
use crate::instruction::{
    CsrOp, CsrSource, FloatFormat, FloatReg, Instruction as I, Reg, RoundingMode, Width,
};

/// Bytes of a reservation of `lr`.
const RESERVATION: u64 = 64;

impl Core {
    /// Executes an instruction at `pc` and sets `pc` to the next one.
    pub(crate) fn execute(
        &mut self,
        shared: &mut Shared,
        decoded: Decoded,
        bits: u32,
    ) -> Result<(), FaultKind> {
        let pc = self.pc;
        let next = pc.wrapping_add(u64::from(decoded.length));
        let [a, b] = self.read_sources(decoded.instruction.sources())?;
        let mut target = next;
        match decoded.instruction {
            I::Lui { rd, imm } => self.write(rd, imm as u64)?,
            I::Auipc { rd, imm } => self.write(rd, pc.wrapping_add_signed(imm))?,
            I::Jal { rd, offset } => {
                target = pc.wrapping_add_signed(offset);
                if !self.predictor.jump(pc, target, rd, next) {
                    self.spend(self.costs.jump_miss, |parts| &mut parts.control);
                }
                self.write(rd, next)?;
            }
            I::Jalr { rd, rs1, offset } => {
                target = a.wrapping_add_signed(offset) & !1;
                if !self.predictor.indirect(pc, target, rs1, rd, next) {
                    self.spend(self.costs.jump_miss, |parts| &mut parts.control);
                }
                self.write(rd, next)?;
            }
            I::Branch {
                condition, offset, ..
            } => {
                let taken = alu::holds(condition, a, b);
                let goal = pc.wrapping_add_signed(offset);
                if !self.predictor.branch(pc, taken, goal) {
                    self.spend(self.costs.mispredict, |parts| &mut parts.control);
                }
                if taken {
                    target = goal;
                }
            }
            I::Load {
                width,
                signed,
                rd,
                offset,
                ..
            } => {
                let address = a.wrapping_add_signed(offset);
                let value = match load(shared, address, width, signed) {
                    Ok(value) => value,
                    Err(fault) => {
                        return self.load_device(address, width, rd, next).ok_or(fault)?;
                    }
                };
                let there = self.load_time(shared, address, width.bytes());
                let extra = match width {
                    Width::Byte | Width::Half => self.costs.subword_load_use,
                    Width::Word | Width::Double => self.costs.load_use,
                };
                self.write_at(rd, value, there + 1 + extra)?;
            }
            I::Store { width, offset, .. } => {
                let address = a.wrapping_add_signed(offset);
                match self.store(shared, address, width, b) {
                    Err(_) if self.store_device(address, width, b) => {}
                    stored => stored?,
                }
            }
            I::OpImm { op, rd, imm, .. } => {
                let value = alu::operate(op, a, imm as u64);
                self.write(rd, value)?;
            }
            I::Op { op, rd, .. } => {
                let value = alu::operate(op, a, b);
                let ready = match self.costs.muldiv.cycles(op, a, b) {
                    Some(cycles) => self.multiply_or_divide(cycles),
                    None => self.cycle + 1,
                };
                self.write_at(rd, value, ready)?;
            }
            I::LoadReserved { width, rd, .. } => {
                let value = self.load_atomic(shared, a, width).map_err(as_reserved)?;
                self.effects += 1;
                shared.reservations[self.hart] = Some(a / RESERVATION);
                let there = self.access_data(shared, a, width.bytes());
                self.write_at(rd, value, there + self.costs.atomic)?;
            }
            I::StoreConditional { width, rd, .. } => {
                self.load_atomic(shared, a, width).map_err(as_store)?;
                self.effects += 1;
                let succeeds = shared.reservations[self.hart].take() == Some(a / RESERVATION);
                if succeeds {
                    self.store(shared, a, width, b)?;
                }
                self.write_at(rd, u64::from(!succeeds), self.cycle + self.costs.atomic)?;
            }
            I::Amo { op, width, rd, .. } => {
                let old = self.load_atomic(shared, a, width).map_err(as_store)?;
                let there = self.access_data(shared, a, width.bytes());
                let new = alu::atomic(op, width, old, b);
                self.store(shared, a, width, new)?;
                self.write_at(rd, old, there + self.costs.atomic)?;
            }
            I::Csr {
                op,
                rd,
                source,
                csr,
            } => self.access_csr(op, rd, source, csr, a)?,
            I::Fence => self.spend_system(self.costs.fence),
            I::FenceI => {
                self.flush_instructions();
                self.spend_system(self.costs.fence);
            }
            I::Ecall => return Err(FaultKind::EnvironmentCall),
            I::Ebreak => return Err(FaultKind::Breakpoint),
            I::Mret => {
                self.effects += 1;
                target = self.csrs.leave();
                self.spend_system(self.costs.trap);
            }
            I::Wfi => self.poll(),
            _ => self.execute_float(shared, decoded.instruction, a, bits)?,
        }
        self.pc = target;
        Ok(())
    }

    /// Loads from the timer's registers, outside of memory. None for other addresses.
    fn load_device(
        &mut self,
        address: u64,
        width: Width,
        rd: Reg,
        next: u64,
    ) -> Option<Result<(), FaultKind>> {
        let value = self.timer.load(address, width, self.clock, self.cycle)?;
        self.effects += 1;
        self.spend(self.costs.uncached, |parts| &mut parts.data);
        self.pc = next;
        Some(self.write(rd, value))
    }

    /// Stores to the timer's registers. Returns false for other addresses.
    fn store_device(&mut self, address: u64, width: Width, value: u64) -> bool {
        let (clock, cycle) = (self.clock, self.cycle);
        let is_timer = self.timer.store(address, width, value, clock, cycle);
        if is_timer {
            self.effects += 1;
            self.spend(self.costs.uncached, |parts| &mut parts.data);
        }
        is_timer
    }

    fn execute_float(
        &mut self,
        shared: &mut Shared,
        instruction: I,
        a: u64,
        bits: u32,
    ) -> Result<(), FaultKind> {
        self.effects += 1;
        let latency = self.costs.float;
        let mode = |core: &Self, rm: RoundingMode| {
            core.rounding(rm)
                .ok_or(FaultKind::UnknownInstruction { bits })
        };
        let f = |core: &Self, reg: FloatReg| core.f[reg.index()];
        match instruction {
            I::FloatLoad {
                format, rd, offset, ..
            } => {
                let address = a.wrapping_add_signed(offset);
                let width = width_of(format);
                let value = load(shared, address, width, false)?;
                let there = self.load_time(shared, address, width.bytes());
                let value = boxed(format, value);
                self.f[rd.index()] = value;
                self.float_ready[rd.index()] = there + 1 + self.costs.load_use;
            }
            I::FloatStore {
                format,
                rs2,
                offset,
                ..
            } => {
                let value = f(self, rs2);
                self.store(
                    shared,
                    a.wrapping_add_signed(offset),
                    width_of(format),
                    value,
                )?;
            }
            I::Float {
                op,
                format,
                rd,
                rs1,
                rs2,
                rm,
            } => {
                let round = float::round(mode(self, rm)?);
                let result = float::operate(op, format, f(self, rs1), f(self, rs2), round);
                let is_divide = op == crate::instruction::FloatOp::Div;
                let latency = if is_divide {
                    self.costs.float_divide
                } else {
                    latency
                };
                self.write_float(rd, result, latency);
            }
            I::FloatSqrt {
                format,
                rd,
                rs1,
                rm,
            } => {
                let round = float::round(mode(self, rm)?);
                let result = float::sqrt(format, f(self, rs1), round);
                self.write_float(rd, result, self.costs.float_divide);
            }
            I::FloatFused {
                format,
                rd,
                rs1,
                rs2,
                rs3,
                negate_product,
                negate_addend,
                rm,
            } => {
                let round = float::round(mode(self, rm)?);
                let operands = [rs1, rs2, rs3].map(|reg| f(self, reg));
                let result = float::fused(format, operands, negate_product, negate_addend, round);
                self.write_float(rd, result, latency);
            }
            I::FloatPick {
                pick,
                format,
                rd,
                rs1,
                rs2,
            } => {
                let result = float::pick(pick, format, f(self, rs1), f(self, rs2));
                self.write_float(rd, result, latency);
            }
            I::FloatCompare {
                compare,
                format,
                rd,
                rs1,
                rs2,
            } => {
                let result = float::compare(compare, format, f(self, rs1), f(self, rs2));
                self.write_flagged(rd, result, latency)?;
            }
            I::FloatClass { format, rd, rs1 } => {
                let class = float::classify(format, f(self, rs1));
                self.write_at(rd, class, self.cycle + latency)?;
            }
            I::FloatConvert {
                format,
                rd,
                rs1,
                rm,
            } => {
                let round = float::round(mode(self, rm)?);
                let result = float::convert(format, f(self, rs1), round);
                self.write_float(rd, result, latency);
            }
            I::FloatToInt {
                format,
                int,
                rd,
                rs1,
                rm,
            } => {
                let round = float::round(mode(self, rm)?);
                let result = float::to_int(format, int, f(self, rs1), round);
                self.write_flagged(rd, result, latency)?;
            }
            I::IntToFloat {
                format,
                int,
                rd,
                rm,
                ..
            } => {
                let round = float::round(mode(self, rm)?);
                self.write_float(rd, float::from_int(format, int, a, round), latency);
            }
            I::FloatToBits { format, rd, rs1 } => {
                let value = match format {
                    FloatFormat::Single => f(self, rs1) as i32 as i64 as u64,
                    FloatFormat::Double => f(self, rs1),
                };
                self.write_at(rd, value, self.cycle + latency)?;
            }
            I::BitsToFloat { format, rd, .. } => {
                self.f[rd.index()] = boxed(format, a);
                self.float_ready[rd.index()] = self.cycle + latency;
            }
            _ => return Err(FaultKind::UnknownInstruction { bits }),
        }
        Ok(())
    }

    /// Writes an integer register that has its value from a cycle on.
    fn write_at(&mut self, rd: Reg, value: u64, ready: u64) -> Result<(), FaultKind> {
        if rd == Reg::NET_TX && self.has_network {
            // The queue takes the word when it is there, and the pipeline waits.
            let wait = ready.saturating_sub(self.cycle + 1);
            self.spend(wait, |parts| &mut parts.operands);
            return self.write(rd, value);
        }
        self.write(rd, value)?;
        if rd != Reg::ZERO {
            self.ready[rd.index()] = ready;
        }
        Ok(())
    }

    fn write_flagged(
        &mut self,
        rd: Reg,
        result: (u64, Flags),
        latency: u64,
    ) -> Result<(), FaultKind> {
        self.csrs.float_flags |= result.1.0;
        self.write_at(rd, result.0, self.cycle + latency)
    }

    fn write_float(&mut self, rd: FloatReg, result: (u64, Flags), latency: u64) {
        self.csrs.float_flags |= result.1.0;
        self.f[rd.index()] = result.0;
        self.float_ready[rd.index()] = self.cycle + latency;
    }

    /// The rounding mode of an instruction, if it and `frm` have one.
    fn rounding(&self, rm: RoundingMode) -> Option<RoundingMode> {
        if rm != RoundingMode::Dynamic {
            return Some(rm);
        }
        let mode = RoundingMode::from_bits(u32::from(self.csrs.float_rounding))?;
        (mode != RoundingMode::Dynamic).then_some(mode)
    }

    fn spend_system(&mut self, cycles: u64) {
        // One cycle is the instruction's own.
        self.spend(cycles - 1, |parts| &mut parts.system);
    }

    /// The cycle from which loaded data are there.
    fn load_time(&mut self, shared: &mut Shared, address: u64, bytes: u8) -> u64 {
        if shared.reservations.len() > 1 {
            // Another core may store: a loop with this load may end without a message.
            self.effects += 1;
        }
        self.access_data(shared, address, bytes)
    }

    fn store(
        &mut self,
        shared: &mut Shared,
        address: u64,
        width: Width,
        value: u64,
    ) -> Result<(), FaultKind> {
        let bytes = width.bytes();
        let data = &value.to_le_bytes()[..usize::from(bytes)];
        let outside = FaultKind::StoreOutsideMemory { address, bytes };
        shared.memory.write(address, data).ok_or(outside)?;
        for (hart, reservation) in shared.reservations.iter_mut().enumerate() {
            // Another core's store ends a reservation.
            let last = address + u64::from(bytes) - 1;
            let lines = address / RESERVATION..=last / RESERVATION;
            if hart != self.hart && reservation.is_some_and(|line| lines.contains(&line)) {
                *reservation = None;
            }
        }
        self.effects += 1;
        self.access_data(shared, address, bytes);
        Ok(())
    }

    fn load_atomic(
        &mut self,
        shared: &Shared,
        address: u64,
        width: Width,
    ) -> Result<u64, FaultKind> {
        let bytes = width.bytes();
        if !address.is_multiple_of(u64::from(bytes)) {
            return Err(FaultKind::MisalignedAtomic { address, bytes });
        }
        load(shared, address, width, true)
    }

    fn access_csr(
        &mut self,
        op: CsrOp,
        rd: Reg,
        source: CsrSource,
        csr: u16,
        a: u64,
    ) -> Result<(), FaultKind> {
        let (operand, names_zero) = match source {
            CsrSource::Register(reg) => (a, reg == Reg::ZERO),
            CsrSource::Immediate(value) => (u64::from(value), value == 0),
        };
        // CSRRW without a destination does not read, CSRRS and CSRRC of zero do not write.
        let reads = op != CsrOp::Write || rd != Reg::ZERO;
        let writes = op == CsrOp::Write || !names_zero;
        let old = if reads { self.read_csr(csr)? } else { 0 };
        if writes {
            let new = match op {
                CsrOp::Write => operand,
                CsrOp::Set => old | operand,
                CsrOp::Clear => old & !operand,
            };
            self.write_csr(csr, new)?;
        }
        let flush = match writes && csr::flushes(csr) {
            true => self.costs.csr_flush,
            false => 0,
        };
        self.spend_system(self.costs.csr + flush);
        self.write_at(rd, old, self.cycle + 1 + self.costs.csr_use)?;
        // The poll is recorded last: its result is part of the state.
        let found_nothing = csr == LMSGSRDY && old == 0;
        if found_nothing || (csr == LNICUCMD && writes && operand == 2) {
            self.poll();
        }
        Ok(())
    }

    fn read_csr(&mut self, csr: u16) -> Result<u64, FaultKind> {
        if let Some(value) = self.csrs.read(csr) {
            return Ok(value);
        }
        let cycle = self.cycle;
        // Values that change by themselves: a loop with them is not skipped.
        let changes = matches!(
            csr,
            CYCLE | MCYCLE | TIME | INSTRET | MINSTRET | LMSGCYCLES | LIDLECYCLES
        );
        self.effects += u64::from(changes);
        Ok(match csr {
            LMSGSRDY => {
                self.yielded();
                self.queues.ready()
            }
            LCURCONTEXT => u64::from(self.queues.current()),
            LNICCMD | LNICUCMD => 0,
            LCURPRIORITY => self.queues.current_priority(),
            LNICRDY => 1,
            LTARGETCONTEXT => u64::from(self.queues.target().0),
            LTARGETPRIORITY => self.queues.target().1,
            LMSGCYCLES => self.queues.message_cycles(cycle),
            LIDLECYCLES => self.queues.idle_cycles(cycle),
            CYCLE | MCYCLE => cycle,
            TIME => self.clock.start_of(cycle).0 / 1000,
            INSTRET | MINSTRET => self.instret,
            MHARTID => self.hart as u64,
            MISA => MISA_VALUE,
            MIP => {
                let scheduler = u64::from(self.queues.wants_switch()) << SCHEDULER_INTERRUPT;
                scheduler | u64::from(self.timer.is_pending()) << TIMER_INTERRUPT
            }
            MVENDORID | MARCHID | MIMPID => 0,
            _ => return Err(FaultKind::UnknownCsr { csr }),
        })
    }

    fn write_csr(&mut self, csr: u16, value: u64) -> Result<(), FaultKind> {
        if self.csrs.write(csr, value).is_some() {
            self.effects += 1;
            return Ok(());
        }
        let cycle = self.cycle;
        if !(csr == LNICUCMD && value == 2) {
            self.effects += 1;
        }
        let bad = FaultKind::BadCsrValue { csr, value };
        match csr {
            LCURCONTEXT => {
                let id = u16::try_from(value).map_err(|_| bad)?;
                self.queues.set_current(id, cycle);
            }
            LCURPRIORITY => {
                let priority = u8::try_from(value).map_err(|_| bad)?;
                self.queues.set_priority(u64::from(priority));
            }
            LNICCMD => match value {
                1 => self.queues.bind(cycle)?,
                2 => self.queues.remove(cycle)?,
                4 => self.queues.start_timers(cycle),
                5 => {
                    self.queues.bind(cycle)?;
                    self.queues.start_timers(cycle);
                }
                _ => return Err(bad),
            },
            LNICUCMD => {
                self.yielded();
                match value {
                    1 => self.queues.done(cycle)?,
                    2 => self.queues.idle(cycle)?,
                    _ => return Err(bad),
                }
            }
            // Writable by the specification, without effect: the extensions and the counters are
            // fixed, and the interrupt ends when the context is the target.
            MISA | MIP | MCYCLE | MINSTRET => {}
            _ if csr::name(csr).is_some() => return Err(FaultKind::ReadOnlyCsr { csr }),
            _ => return Err(FaultKind::UnknownCsr { csr }),
        }
        Ok(())
    }
}

fn as_store(kind: FaultKind) -> FaultKind {
    match kind {
        FaultKind::LoadOutsideMemory { address, bytes } => {
            FaultKind::StoreOutsideMemory { address, bytes }
        }
        other => other,
    }
}

fn as_reserved(kind: FaultKind) -> FaultKind {
    match kind {
        FaultKind::MisalignedAtomic { address, bytes } => {
            FaultKind::MisalignedReserved { address, bytes }
        }
        other => other,
    }
}

fn width_of(format: FloatFormat) -> Width {
    match format {
        FloatFormat::Single => Width::Word,
        FloatFormat::Double => Width::Double,
    }
}

/// The value of a floating-point register for bits of a format.
fn boxed(format: FloatFormat, bits: u64) -> u64 {
    match format {
        FloatFormat::Single => float::BOX | bits,
        FloatFormat::Double => bits,
    }
}

fn load(shared: &Shared, address: u64, width: Width, signed: bool) -> Result<u64, FaultKind> {
    let memory = &shared.memory;
    let outside = FaultKind::LoadOutsideMemory {
        address,
        bytes: width.bytes(),
    };
    let value = match (width, signed) {
        (Width::Byte, false) => memory
            .read(address)
            .map(|b| u64::from(u8::from_le_bytes(b))),
        (Width::Byte, true) => memory.read(address).map(|b| i8::from_le_bytes(b) as u64),
        (Width::Half, false) => memory
            .read(address)
            .map(|b| u64::from(u16::from_le_bytes(b))),
        (Width::Half, true) => memory.read(address).map(|b| i16::from_le_bytes(b) as u64),
        (Width::Word, false) => memory
            .read(address)
            .map(|b| u64::from(u32::from_le_bytes(b))),
        (Width::Word, true) => memory.read(address).map(|b| i32::from_le_bytes(b) as u64),
        (Width::Double, _) => memory.read(address).map(u64::from_le_bytes),
    };
    value.ok_or(outside)
}
