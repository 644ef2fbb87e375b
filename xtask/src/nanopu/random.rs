//! Random programs on the model and on `qemu-riscv64`: all registers, `fcsr` and the data must be
//! equal.

use std::path::Path;
use std::process::Command;

use nanopu::instruction::{Instruction, Reg};
use nanopu::{CoreState, CostTable, FaultKind, Image, MEMORY_BASE, SingleCore, decode};
use support::rng::Rng;

use super::MEMORY;
use crate::Outcome;

/// Offset of the data's middle, to which x2 and x8 point.
const DATA: u64 = 0x4_0000;
/// Bytes of the dump: the data, the registers, `fcsr`.
const DUMP: usize = 4096 + 2048;
/// Random instructions of a program.
const LENGTH: usize = 4000;

pub(super) fn compare(work: &Path, qemu: &Path, instructions: usize, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let mut done = 0;
    let mut programs = 0;
    while done < instructions {
        let program = make(&mut rng);
        let file = elf(&program);
        let path = work.join("random.elf");
        write_executable(&path, &file)?;
        let output = Command::new(qemu)
            .args(["-cpu", "rv64,zba=false,zbb=false,zbc=false,zbs=false"])
            .arg(&path)
            .output()
            .map_err(|error| format!("cannot start the emulator: {error}"))?;
        let image = Image::parse(&file, MEMORY).map_err(|error| error.to_string())?;
        let mut core = SingleCore::new(&image, MEMORY, &CostTable::default()).without_network();
        core.run(100_000_000);
        let kept = format!(
            "program {programs} of seed {seed}, kept as {}",
            path.display()
        );
        match core.state() {
            CoreState::Faulted(fault) if fault.kind == FaultKind::EnvironmentCall => {}
            state => return Err(format!("{kept}: the model ends with {state:?}")),
        }
        if !output.status.success() {
            return Err(format!("{kept}: the emulator ends with {}", output.status));
        }
        let dump = core.memory().slice(MEMORY_BASE + DATA - 2048, DUMP);
        let dump = dump.ok_or("the data are outside of memory")?;
        if let Some(at) = (0..DUMP).find(|&at| output.stdout.get(at) != dump.get(at)) {
            return Err(format!("{kept}: {}", describe(at, dump, &output.stdout)));
        }
        done += LENGTH;
        programs += 1;
    }
    println!(
        "random instructions: {done} in {programs} programs are equal to {}",
        qemu.display()
    );
    Ok(())
}

fn describe(at: usize, model: &[u8], emulator: &[u8]) -> String {
    let at = at & !7;
    let word = |bytes: &[u8]| {
        let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        word.map(u64::from_le_bytes)
    };
    let place = match at.checked_sub(4096) {
        None => format!("data + {at}"),
        Some(at @ 0..256) => format!("x{}", at / 8),
        Some(at @ 256..512) => format!("f{}", (at - 256) / 8),
        Some(_) => "fcsr".to_owned(),
    };
    format!(
        "{place} is {:x?} in the model and {:x?} in the emulator",
        word(model),
        word(emulator)
    )
}

#[cfg(unix)]
fn write_executable(path: &Path, bytes: &[u8]) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let write = || -> std::io::Result<()> {
        std::fs::write(path, bytes)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(not(unix))]
fn write_executable(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// A program: code, and the middle of its data.
struct Program {
    code: Vec<u8>,
    data: Vec<u8>,
}

impl Program {
    fn word(&mut self, bits: u32) {
        self.code.extend_from_slice(&bits.to_le_bytes());
    }
}

/// I-type encoding.
fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

/// S-type encoding.
fn s_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, imm: u32) -> u32 {
    (imm >> 5) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 31) << 7 | opcode
}

fn make(rng: &mut Rng) -> Program {
    let mut program = Program {
        code: Vec::new(),
        data: Vec::new(),
    };
    for _ in 0..512 {
        program.data.extend_from_slice(&operand(rng).to_le_bytes());
    }
    // x8 = x2 = the data's middle.
    program.word(i_type(0x13, 0, 8, 0, 1));
    program.word(i_type(0x13, 1, 8, 8, 31));
    program.word((DATA as u32) | 2 << 7 | 0x37);
    program.word(2 << 20 | 8 << 15 | 8 << 7 | 0x33);
    program.word(i_type(0x13, 0, 2, 8, 0));
    for reg in 0..32 {
        program.word(i_type(0x07, 3, reg, 8, 8 * reg as i32));
        if reg != 2 && reg != 8 {
            program.word(i_type(0x03, 3, reg, 8, -8 * (reg as i32 + 1)));
        }
    }
    let mut count = 0;
    while count < LENGTH {
        count += 1;
        match rng.below(16) {
            0 => {
                // A branch over one instruction of 4 bytes.
                let condition = [0, 1, 4, 5, 6, 7][rng.below(6) as usize];
                let (rs1, rs2) = (rng.below(32) as u32, rng.below(32) as u32);
                program.word(rs2 << 20 | rs1 << 15 | condition << 12 | 4 << 8 | 0x63);
                let bits = random_word(rng);
                program.word(bits);
                count += 1;
            }
            1 => {
                // frm by an immediate, or the flags.
                let (csr, value) =
                    [(2, rng.below(5) as u32), (1, rng.below(32) as u32)][rng.below(2) as usize];
                let rd = free(rng);
                program.word(csr << 20 | value << 15 | 5 << 12 | rd << 7 | 0x73);
            }
            2..=5 => {
                let half = loop {
                    let half = rng.below(1 << 16) as u32;
                    if half & 3 != 3 && allowed(half) {
                        break half;
                    }
                };
                program.code.extend_from_slice(&(half as u16).to_le_bytes());
            }
            _ => {
                let bits = random_word(rng);
                program.word(bits);
            }
        }
    }
    // x2 = end of the data; all registers, then fcsr, go there.
    program.word(i_type(0x13, 0, 2, 8, 2047));
    program.word(i_type(0x13, 0, 2, 2, 1));
    for reg in 0..32 {
        program.word(s_type(0x23, 3, 2, reg, 8 * reg));
        program.word(s_type(0x27, 3, 2, reg, 256 + 8 * reg));
    }
    program.word(3 << 20 | 2 << 12 | 1 << 7 | 0x73);
    program.word(s_type(0x23, 3, 2, 1, 512));
    // write(1, data, DUMP), exit(0).
    program.word(i_type(0x13, 0, 17, 0, 64));
    program.word(i_type(0x13, 0, 10, 0, 1));
    program.word(i_type(0x13, 0, 11, 8, -2048));
    program.word(i_type(0x13, 0, 12, 0, 3));
    program.word(i_type(0x13, 1, 12, 12, 11));
    program.word(0x73);
    program.word(i_type(0x13, 0, 17, 0, 93));
    program.word(i_type(0x13, 0, 10, 0, 0));
    program.word(0x73);
    program
}

/// A register other than x2 and x8.
fn free(rng: &mut Rng) -> u32 {
    loop {
        let reg = rng.below(32) as u32;
        if reg != 2 && reg != 8 {
            return reg;
        }
    }
}

/// Values at which operations differ: ends of ranges, few bits, floating-point numbers.
fn operand(rng: &mut Rng) -> u64 {
    let random = rng.bits();
    match rng.below(10) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << (random & 63),
        3 => (1u64 << (random & 63)).wrapping_sub(1),
        4 => 0xffff_ffff_0000_0000 | u64::from(special_single(rng)),
        5 => u64::from(special_single(rng)),
        6 => special_double(rng),
        7 => (random as i8) as u64,
        _ => random,
    }
}

fn special_single(rng: &mut Rng) -> u32 {
    let random = rng.bits() as u32;
    let exponent = [0, 1, 126, 127, 128, 150, 254, 255][rng.below(8) as usize];
    let fraction = [0, 1, 0x7f_ffff, 0x40_0000, random & 0x7f_ffff][rng.below(5) as usize];
    random & 1 << 31 | exponent << 23 | fraction
}

fn special_double(rng: &mut Rng) -> u64 {
    let random = rng.bits();
    let exponent = [0, 1, 1022, 1023, 1024, 1086, 2046, 2047][rng.below(8) as usize];
    let all = (1 << 52) - 1;
    let fraction = [0, 1, all, 1 << 51, random & all][rng.below(5) as usize];
    random & 1 << 63 | exponent << 52 | fraction
}

/// An instruction of 4 bytes.
fn random_word(rng: &mut Rng) -> u32 {
    const OPCODES: [u32; 19] = [
        0x37, 0x17, 0x03, 0x23, 0x13, 0x1b, 0x33, 0x3b, 0x33, 0x3b, 0x2f, 0x07, 0x27, 0x43, 0x47,
        0x4b, 0x4f, 0x53, 0x53,
    ];
    let opcode = OPCODES[rng.below(19) as usize];
    loop {
        let mut bits = rng.bits() as u32 & !0x7f | opcode;
        match opcode {
            0x03 | 0x23 | 0x07 | 0x27 => bits = bits & !(31 << 15) | 8 << 15,
            0x2f => bits = bits & !(31 << 15) | 8 << 15,
            // Few functions are defined.
            0x33 | 0x3b => bits &= 0x43ff_ffff,
            0x53 => bits &= 0xfbff_ffff,
            _ => {}
        }
        if allowed(bits) {
            return bits;
        }
    }
}

/// True for an instruction that leaves x2 and x8 alone, accesses the data only, and goes on with
/// the next one.
fn allowed(bits: u32) -> bool {
    let Some(decoded) = decode(bits) else {
        return false;
    };
    use Instruction as I;
    let base = |reg: Reg| matches!(reg.index(), 2 | 8);
    match decoded.instruction {
        I::Load { rd, rs1, .. } => base(rs1) && !base(rd),
        I::Store { rs1, .. } | I::FloatLoad { rs1, .. } | I::FloatStore { rs1, .. } => base(rs1),
        I::Amo { rd, rs1, .. } => base(rs1) && !base(rd),
        I::Auipc { rd, .. }
        | I::Lui { rd, .. }
        | I::OpImm { rd, .. }
        | I::Op { rd, .. }
        | I::FloatCompare { rd, .. }
        | I::FloatClass { rd, .. }
        | I::FloatToInt { rd, .. }
        | I::FloatToBits { rd, .. } => !base(rd),
        I::Float { .. }
        | I::FloatSqrt { .. }
        | I::FloatFused { .. }
        | I::FloatPick { .. }
        | I::FloatConvert { .. }
        | I::IntToFloat { .. }
        | I::BitsToFloat { .. } => true,
        _ => false,
    }
}

/// An executable with one segment that may be read, written and executed.
fn elf(program: &Program) -> Vec<u8> {
    let start = (DATA - 2048) as usize;
    let mut contents = program.code.clone();
    contents.resize(start, 0);
    contents.extend_from_slice(&program.data);
    contents.resize(start + DUMP, 0);
    let mut file = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let offset: u64 = 0x1000;
    let half = |file: &mut Vec<u8>, value: u16| file.extend_from_slice(&value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend_from_slice(&value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend_from_slice(&value.to_le_bytes());
    half(&mut file, 2);
    half(&mut file, 243);
    word(&mut file, 1);
    long(&mut file, MEMORY_BASE);
    long(&mut file, 64);
    long(&mut file, 0);
    // Flags: compressed instructions, floats of double precision in registers.
    word(&mut file, 5);
    for value in [64, 56, 1, 64, 0, 0] {
        half(&mut file, value);
    }
    word(&mut file, 1);
    word(&mut file, 7);
    long(&mut file, offset);
    long(&mut file, MEMORY_BASE);
    long(&mut file, MEMORY_BASE);
    long(&mut file, contents.len() as u64);
    long(&mut file, contents.len() as u64);
    long(&mut file, 0x1000);
    file.resize(offset as usize, 0);
    file.extend_from_slice(&contents);
    file
}
