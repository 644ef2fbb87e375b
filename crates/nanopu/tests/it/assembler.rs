//! Programs of the tests, encoded by hand, and images with them.

use nanopu::csr;
use nanopu::{CostTable, Image, MEMORY_BASE, RpcMessage, SingleCore};

/// Bytes of memory of the tests.
pub(crate) const MEMORY: usize = 1 << 20;

pub(crate) const ZERO: u32 = 0;
pub(crate) const T0: u32 = 5;
pub(crate) const T1: u32 = 6;
pub(crate) const T2: u32 = 7;
pub(crate) const NET_RX: u32 = 30;
pub(crate) const NET_TX: u32 = 31;

pub(crate) fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
    (imm as u32) << 20 | rs1 << 15 | rd << 7 | 0x13
}
pub(crate) fn mv(rd: u32, rs1: u32) -> u32 {
    addi(rd, rs1, 0)
}
pub(crate) fn slli(rd: u32, rs1: u32, shift: u32) -> u32 {
    shift << 20 | rs1 << 15 | 1 << 12 | rd << 7 | 0x13
}
pub(crate) fn csrwi(csr: u16, value: u32) -> u32 {
    u32::from(csr) << 20 | value << 15 | 5 << 12 | 0x73
}
pub(crate) fn csrw(csr: u16, rs1: u32) -> u32 {
    u32::from(csr) << 20 | rs1 << 15 | 1 << 12 | 0x73
}
pub(crate) fn csrr(rd: u32, csr: u16) -> u32 {
    u32::from(csr) << 20 | 2 << 12 | rd << 7 | 0x73
}
fn branch(funct3: u32, rs1: u32, rs2: u32, offset: i32) -> u32 {
    let o = offset as u32;
    (o >> 12 & 1) << 31
        | (o >> 5 & 63) << 25
        | rs2 << 20
        | rs1 << 15
        | funct3 << 12
        | (o >> 1 & 15) << 8
        | (o >> 11 & 1) << 7
        | 0x63
}
pub(crate) fn beqz(rs1: u32, offset: i32) -> u32 {
    branch(0, rs1, 0, offset)
}
pub(crate) fn bnez(rs1: u32, offset: i32) -> u32 {
    branch(1, rs1, 0, offset)
}
pub(crate) fn j(offset: i32) -> u32 {
    let o = offset as u32;
    (o >> 20 & 1) << 31
        | (o >> 1 & 0x3ff) << 21
        | (o >> 11 & 1) << 20
        | (o >> 12 & 0xff) << 12
        | 0x6f
}
pub(crate) fn ld(rd: u32, rs1: u32, offset: i32) -> u32 {
    (offset as u32) << 20 | rs1 << 15 | 3 << 12 | rd << 7 | 0x03
}
pub(crate) fn sd(rs2: u32, rs1: u32, offset: i32) -> u32 {
    let o = offset as u32;
    (o >> 5) << 25 | rs2 << 20 | rs1 << 15 | 3 << 12 | (o & 31) << 7 | 0x23
}
pub(crate) fn jr(rs1: u32) -> u32 {
    rs1 << 15 | 0x67
}
pub(crate) const ECALL: u32 = 0x73;
pub(crate) const MRET: u32 = 0x3020_0073;

/// Binds context 0 with priority 0.
pub(crate) const BIND: [u32; 3] = [
    0x0530_5073, // csrwi lcurcontext, 0
    0x0550_5073, // csrwi lcurpriority, 0
    0x0540_d073, // csrwi lniccmd, 1
];

/// The program of the paper's figure 2, instruction by instruction.
pub(crate) fn loopback() -> Vec<u32> {
    let mut program = BIND.to_vec();
    program.extend([
        csrr(15, csr::LMSGSRDY),
        bnez(15, 16),
        csrwi(csr::LNICUCMD, 2),
        csrr(15, csr::LMSGSRDY),
        beqz(15, -8),
        mv(NET_TX, NET_RX),
        addi(NET_TX, NET_RX, 1),
        addi(NET_TX, NET_RX, 1),
        csrwi(csr::LNICUCMD, 1),
        j(-36),
    ]);
    program
}

/// An ELF file with one segment.
pub(crate) fn elf_of(words: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut file = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([2, 0, 243, 0, 1, 0, 0, 0]);
    for value in [MEMORY_BASE, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend(5u32.to_le_bytes());
    for value in [64u16, 56, 1, 64, 0, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    let bytes = code.len() as u64;
    for value in [120, MEMORY_BASE, MEMORY_BASE, bytes, bytes, 4] {
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(code);
    file
}

pub(crate) fn image_of(words: &[u32]) -> Image {
    Image::parse(&elf_of(words), MEMORY).unwrap()
}

pub(crate) fn core_of(words: &[u32]) -> SingleCore {
    core_with(words, &[])
}

/// A core with costs other than the defaults.
pub(crate) fn core_with(words: &[u32], costs: &[&str]) -> SingleCore {
    SingleCore::new(&image_of(words), MEMORY, &costs_of(costs))
}

pub(crate) fn costs_of(texts: &[&str]) -> CostTable {
    let mut table = CostTable::default();
    for text in texts {
        table.set_text(text).unwrap();
    }
    table
}

/// A message of a context from 10.0.0.1, context 9.
pub(crate) fn message(context: u16, bytes: &[u8]) -> RpcMessage {
    RpcMessage {
        context,
        peer: 0x0a00_0001,
        peer_context: 9,
        bytes: bytes.to_vec(),
    }
}
