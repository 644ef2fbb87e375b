//! Control and status registers: numbers, names, and those of machine mode.

/// Messages of the current context that are not begun; read-only.
pub const LMSGSRDY: u16 = 0x052;
/// Current context: the port of the paper.
pub const LCURCONTEXT: u16 = 0x053;
/// Commands to the network interface: 1 binds, 2 removes the current context, 4 starts the timers.
pub const LNICCMD: u16 = 0x054;
/// Priority of the current context; 0 is the highest.
pub const LCURPRIORITY: u16 = 0x055;
/// Signals to the scheduler: 1 is done (`lmsgdone`), 2 is idle (`lidle`).
pub const LNICUCMD: u16 = 0x056;
/// 1 if the network interface is ready; read-only.
pub const LNICRDY: u16 = 0x057;
/// Context that the scheduler wants to run; read-only.
pub const LTARGETCONTEXT: u16 = 0x058;
/// Priority of that context; read-only.
pub const LTARGETPRIORITY: u16 = 0x059;
/// Cycles in which messages were processed, since the timers were started; read-only.
pub const LMSGCYCLES: u16 = 0x060;
/// Cycles in which the program was idle, since the timers were started; read-only.
pub const LIDLECYCLES: u16 = 0x061;

pub(crate) const FFLAGS: u16 = 0x001;
pub(crate) const FRM: u16 = 0x002;
pub(crate) const FCSR: u16 = 0x003;
pub(crate) const MSTATUS: u16 = 0x300;
pub(crate) const MISA: u16 = 0x301;
pub(crate) const MIE: u16 = 0x304;
pub(crate) const MTVEC: u16 = 0x305;
pub(crate) const MSCRATCH: u16 = 0x340;
pub(crate) const MEPC: u16 = 0x341;
pub(crate) const MCAUSE: u16 = 0x342;
pub(crate) const MTVAL: u16 = 0x343;
pub(crate) const MIP: u16 = 0x344;
pub(crate) const MCYCLE: u16 = 0xb00;
pub(crate) const MINSTRET: u16 = 0xb02;
pub(crate) const CYCLE: u16 = 0xc00;
pub(crate) const TIME: u16 = 0xc01;
pub(crate) const INSTRET: u16 = 0xc02;
pub(crate) const MVENDORID: u16 = 0xf11;
pub(crate) const MARCHID: u16 = 0xf12;
pub(crate) const MIMPID: u16 = 0xf13;
pub(crate) const MHARTID: u16 = 0xf14;

/// Numbers and names of all CSRs. A CSR with two names has two rows, the program's name first.
pub const NAMES: &[(u16, &str)] = &[
    (FFLAGS, "fflags"),
    (FRM, "frm"),
    (FCSR, "fcsr"),
    (LMSGSRDY, "lmsgsrdy"),
    (LCURCONTEXT, "lcurcontext"),
    (LCURCONTEXT, "lcurport"),
    (LNICCMD, "lniccmd"),
    (LCURPRIORITY, "lcurpriority"),
    (LNICUCMD, "lnicucmd"),
    (LNICUCMD, "lmsgdone"),
    (LNICUCMD, "lidle"),
    (LNICRDY, "lnicrdy"),
    (LTARGETCONTEXT, "ltargetcontext"),
    (LTARGETPRIORITY, "ltargetpriority"),
    (LMSGCYCLES, "lmsgcycles"),
    (LIDLECYCLES, "lidlecycles"),
    (MSTATUS, "mstatus"),
    (MISA, "misa"),
    (MIE, "mie"),
    (MTVEC, "mtvec"),
    (MSCRATCH, "mscratch"),
    (MEPC, "mepc"),
    (MCAUSE, "mcause"),
    (MTVAL, "mtval"),
    (MIP, "mip"),
    (MCYCLE, "mcycle"),
    (MINSTRET, "minstret"),
    (CYCLE, "cycle"),
    (TIME, "time"),
    (INSTRET, "instret"),
    (MVENDORID, "mvendorid"),
    (MARCHID, "marchid"),
    (MIMPID, "mimpid"),
    (MHARTID, "mhartid"),
];

/// Returns the first name of a CSR.
pub fn name(csr: u16) -> Option<&'static str> {
    let found = NAMES.iter().find(|(number, _)| *number == csr);
    found.map(|(_, name)| *name)
}

/// Returns true if a write of the CSR flushes the pipeline: all but `mscratch` to `mtval`.
pub(crate) fn flushes(csr: u16) -> bool {
    !(MSCRATCH..=MTVAL).contains(&csr)
}

/// Bit of the scheduler's interrupt in `mie` and `mip`, and its code in `mcause`: the first that
/// the privileged specification leaves to the platform.
pub const SCHEDULER_INTERRUPT: u32 = 16;

/// Bit of the timer's interrupt in `mie` and `mip`, and its code in `mcause`.
pub const TIMER_INTERRUPT: u32 = 7;

/// `mstatus.MIE`: interrupts are taken.
const STATUS_MIE: u64 = 1 << 3;
/// `mstatus.MPIE`: the value of `MIE` before the trap.
const STATUS_MPIE: u64 = 1 << 7;
/// Fixed bits of `mstatus`: the previous mode is machine mode, and floating-point registers are
/// always in use (`FS` and `SD`).
const STATUS_FIXED: u64 = 3 << 11 | 3 << 13 | 1 << 63;

/// `misa`: 64 bits, extensions A, C, D, F, I, M.
pub(crate) const MISA_VALUE: u64 = 2 << 62 | 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 12;

/// Registers of machine mode that hold values.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineCsrs {
    status: u64,
    pub(crate) interrupt_enable: u64,
    trap_vector: u64,
    scratch: u64,
    exception_pc: u64,
    cause: u64,
    trap_value: u64,
    /// `fflags`.
    pub(crate) float_flags: u8,
    /// `frm`.
    pub(crate) float_rounding: u8,
}

impl MachineCsrs {
    /// Returns the value of a register that this structure has.
    pub(crate) fn read(&self, csr: u16) -> Option<u64> {
        Some(match csr {
            FFLAGS => u64::from(self.float_flags),
            FRM => u64::from(self.float_rounding),
            FCSR => u64::from(self.float_rounding << 5 | self.float_flags),
            MSTATUS => self.status | STATUS_FIXED,
            MIE => self.interrupt_enable,
            MTVEC => self.trap_vector,
            MSCRATCH => self.scratch,
            MEPC => self.exception_pc,
            MCAUSE => self.cause,
            MTVAL => self.trap_value,
            _ => return None,
        })
    }

    /// Writes a register. Bits that the register does not have are dropped, as the specification
    /// says (WARL, WPRI).
    pub(crate) fn write(&mut self, csr: u16, value: u64) -> Option<()> {
        match csr {
            FFLAGS => self.float_flags = (value & 31) as u8,
            FRM => self.float_rounding = (value & 7) as u8,
            FCSR => {
                self.float_flags = (value & 31) as u8;
                self.float_rounding = (value >> 5 & 7) as u8;
            }
            MSTATUS => self.status = value & (STATUS_MIE | STATUS_MPIE),
            MIE => {
                self.interrupt_enable = value & (1 << SCHEDULER_INTERRUPT | 1 << TIMER_INTERRUPT);
            }
            MTVEC => self.trap_vector = value & !2,
            MSCRATCH => self.scratch = value,
            MEPC => self.exception_pc = value & !1,
            MCAUSE => self.cause = value,
            MTVAL => self.trap_value = value,
            _ => return None,
        }
        Some(())
    }

    /// True if an interrupt is taken when it is pending.
    pub(crate) fn takes_interrupt(&self, interrupt: u32) -> bool {
        self.status & STATUS_MIE != 0 && self.interrupt_enable & 1 << interrupt != 0
    }

    /// True if there is a trap handler.
    pub(crate) fn has_handler(&self) -> bool {
        self.trap_vector != 0
    }

    /// Enters a trap and returns the address of the handler.
    pub(crate) fn enter(&mut self, pc: u64, cause: u64, value: u64, is_interrupt: bool) -> u64 {
        self.exception_pc = pc;
        self.cause = cause | u64::from(is_interrupt) << 63;
        self.trap_value = value;
        let enabled = self.status & STATUS_MIE != 0;
        self.status = if enabled { STATUS_MPIE } else { 0 };
        let base = self.trap_vector & !3;
        if is_interrupt && self.trap_vector & 1 != 0 {
            base.wrapping_add(4 * cause)
        } else {
            base
        }
    }

    /// Leaves a trap (`mret`) and returns the address at which the program goes on.
    pub(crate) fn leave(&mut self) -> u64 {
        let enabled = self.status & STATUS_MPIE != 0;
        self.status = STATUS_MPIE | if enabled { STATUS_MIE } else { 0 };
        self.exception_pc
    }
}
