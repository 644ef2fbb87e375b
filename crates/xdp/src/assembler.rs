//! Assembler for eBPF: instructions with labels and references to maps.
//!
//! Instructions that cannot be reached are removed, because verifiers refuse them.

use ir::{ExternId, TableId};

/// A register. Calls of kernel functions change `R0` to `R5` and keep the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R4: Register = Register(4);
pub(crate) const R5: Register = Register(5);
pub(crate) const R6: Register = Register(6);
pub(crate) const R7: Register = Register(7);
pub(crate) const R8: Register = Register(8);
pub(crate) const R9: Register = Register(9);

impl Register {
    /// The frame pointer: the stack is below it.
    pub(crate) const STACK: Register = Register(10);
}

/// Operation on a register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Shl = 0x60,
    Shr = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    ShrSigned = 0xc0,
}

/// Condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    Different = 0x50,
    AboveSigned = 0x60,
    AtLeastSigned = 0x70,
    Below = 0xa0,
    AtMost = 0xb0,
    BelowSigned = 0xc0,
    AtMostSigned = 0xd0,
}

impl When {
    /// Returns the condition that holds exactly if this one does not.
    pub(crate) fn not(self) -> When {
        match self {
            When::Equal => When::Different,
            When::Different => When::Equal,
            When::Above => When::AtMost,
            When::AtMost => When::Above,
            When::AtLeast => When::Below,
            When::Below => When::AtLeast,
            When::AboveSigned => When::AtMostSigned,
            When::AtMostSigned => When::AboveSigned,
            When::AtLeastSigned => When::BelowSigned,
            When::BelowSigned => When::AtLeastSigned,
        }
    }
}

/// Size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

impl Size {
    /// Returns the size of this many bytes: 1, 2, 4 or 8.
    pub(crate) fn of(bytes: u32) -> Size {
        match bytes {
            1 => Size::Byte,
            2 => Size::Half,
            4 => Size::Word,
            _ => Size::Double,
        }
    }
}

/// Function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helper {
    MapLookup = 1,
    KtimeGetNs = 5,
    /// `bpf_xdp_adjust_head` (Linux 4.10).
    AdjustHead = 44,
    /// `bpf_redirect_map` (Linux 4.14).
    RedirectMap = 51,
    /// `bpf_xdp_store_bytes` (Linux 5.18).
    StoreBytes = 190,
}

/// A map that the program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapName {
    /// The memory of the packet that a processor works on.
    Scratch,
    /// Inputs from outside: time and ingress port.
    Inputs,
    /// Ports with what the kernel part has received and sent there.
    Ports,
    /// From ports to interfaces, for redirection.
    Interfaces,
    /// Ports to which packets are redirected now.
    Directed,
    /// From queues to AF_XDP sockets.
    Sockets,
    /// Default actions of all tables.
    Defaults,
    /// Drops by reason.
    Drops,
    /// Packets that leave, by place.
    Leaves,
    /// Entries of a table.
    Table(TableId),
    /// Lists of a table's rules.
    Rules(TableId),
    /// The list of each table that packets search.
    Lists,
    /// Packets and bytes of each entry of a table.
    Rows(TableId),
    /// Cells of a counter.
    Counter(ExternId),
}

/// Position in the code that jumps refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

#[derive(Clone, Copy, Debug)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    number: i32,
    jump: Option<Label>,
    map: Option<MapName>,
}

/// Finished code.
#[derive(Clone, Debug, Default)]
pub struct Bytecode {
    words: Vec<u64>,
    /// Positions of the instructions that load a map's address, in order.
    maps: Vec<(usize, MapName)>,
}

const LOAD_WIDE: u8 = 0x18;
const EXIT: u8 = 0x95;
const JUMP: u8 = 0x05;
/// Source register of [`LOAD_WIDE`]: the number is a map's descriptor.
const MAP_DESCRIPTOR: u8 = 1;

impl Bytecode {
    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the references to maps: the position of the instruction, and the map.
    pub fn references(&self) -> &[(usize, MapName)] {
        &self.maps
    }

    /// Returns the instructions as they are in an object file, in which references to maps are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the instructions with the descriptors of the maps.
    pub fn linked(&self, descriptor: impl Fn(MapName) -> i32) -> Vec<u64> {
        let mut words = self.words.clone();
        for &(at, name) in &self.maps {
            let number = descriptor(name);
            words[at] = encode(LOAD_WIDE, register_of(words[at]), MAP_DESCRIPTOR, 0, number);
        }
        words
    }
}

/// Returns the destination register of an encoded instruction.
fn register_of(word: u64) -> u8 {
    let registers = word.to_ne_bytes()[1];
    if cfg!(target_endian = "little") {
        registers & 15
    } else {
        registers >> 4
    }
}

fn encode(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    u64::from_ne_bytes([code, registers, o0, o1, n0, n1, n2, n3])
}

/// Code that is being assembled.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
}

impl Assembler {
    /// Returns the position of the next instruction.
    pub(crate) fn position(&self) -> usize {
        self.code.len()
    }

    /// Removes all instructions from a position on. No label that is still used may be among them.
    pub(crate) fn go_back(&mut self, position: usize) {
        self.code.truncate(position);
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.code.len());
    }

    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        self.code.push(Instruction {
            code,
            to: to.0,
            from: from.0,
            offset,
            number,
            jump: None,
            map: None,
        });
    }

    fn push_jump(&mut self, code: u8, a: Register, b: Register, number: i32, to: Label) {
        self.push(code, a, b, 0, number);
        if let Some(last) = self.code.last_mut() {
            last.jump = Some(to);
        }
    }

    /// `to = number`
    pub(crate) fn set(&mut self, to: Register, number: u64) {
        match i32::try_from(number as i64) {
            Ok(small) => self.push(0xb7, to, R0, 0, small),
            Err(_) => {
                self.push(LOAD_WIDE, to, R0, 0, number as u32 as i32);
                self.push(0, R0, R0, 0, (number >> 32) as u32 as i32);
            }
        }
    }

    /// `to = address of the map`
    pub(crate) fn set_map(&mut self, to: Register, map: MapName) {
        self.push(LOAD_WIDE, to, R0, 0, 0);
        if let Some(last) = self.code.last_mut() {
            last.map = Some(map);
        }
        self.push(0, R0, R0, 0, 0);
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        if to != from {
            self.push(0xbf, to, from, 0, 0);
        }
    }

    /// `to = to OPERATION from`
    pub(crate) fn alu(&mut self, operation: Alu, to: Register, from: Register) {
        self.push(0x0f | operation as u8, to, from, 0, 0);
    }

    /// `to = to OPERATION number`. The number is sign-extended from 32 bits.
    pub(crate) fn alu_number(&mut self, operation: Alu, to: Register, number: i32) {
        let is_nothing = number == 0
            && matches!(
                operation,
                Alu::Add | Alu::Sub | Alu::Or | Alu::Xor | Alu::Shl | Alu::Shr | Alu::ShrSigned
            );
        if !is_nothing {
            self.push(0x07 | operation as u8, to, R0, 0, number);
        }
    }

    /// `to = -to`
    pub(crate) fn negate(&mut self, to: Register) {
        self.push(0x87, to, R0, 0, 0);
    }

    /// Keeps the lowest bits of a register.
    pub(crate) fn mask(&mut self, to: Register, width: u32) {
        if width >= 64 {
            return;
        }
        if width < 31 {
            return self.alu_number(Alu::And, to, (1i32 << width) - 1);
        }
        let unused = 64 - width as i32;
        self.alu_number(Alu::Shl, to, unused);
        self.alu_number(Alu::Shr, to, unused);
    }

    /// Converts between the processor's byte order and network byte order; the bits above the size
    /// become zero.
    pub(crate) fn network_order(&mut self, to: Register, size: Size) {
        let bits = match size {
            Size::Byte => return,
            Size::Half => 16,
            Size::Word => 32,
            Size::Double => 64,
        };
        self.push(0xdc, to, R0, 0, bits);
    }

    pub(crate) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.push(0x61 | size as u8, to, from, offset, 0);
    }

    pub(crate) fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.push(0x63 | size as u8, to, from, offset, 0);
    }

    pub(crate) fn store_number(&mut self, size: Size, to: Register, offset: i16, number: i32) {
        self.push(0x62 | size as u8, to, R0, offset, number);
    }

    /// Adds a register to 64 bits of memory, atomically.
    pub(crate) fn add_to_memory(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0xdb, to, from, offset, 0);
    }

    pub(crate) fn jump(&mut self, to: Label) {
        self.push_jump(JUMP, R0, R0, 0, to);
    }

    pub(crate) fn jump_if(&mut self, when: When, a: Register, b: Register, to: Label) {
        self.push_jump(0x0d | when as u8, a, b, 0, to);
    }

    /// Jumps by comparison with a number, sign-extended from 32 bits.
    pub(crate) fn jump_if_number(&mut self, when: When, a: Register, number: i32, to: Label) {
        self.push_jump(0x05 | when as u8, a, R0, number, to);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(0x85, R0, R0, 0, helper as i32);
    }

    pub(crate) fn exit(&mut self) {
        self.push(EXIT, R0, R0, 0, 0);
    }

    /// Returns the finished code. Returns `None` if a jump is too far for an instruction, or if a
    /// label is missing.
    pub(crate) fn finish(self) -> Option<Bytecode> {
        let is_kept = self.reached()?;
        let mut place = Vec::with_capacity(self.code.len() + 1);
        let mut next = 0usize;
        for kept in &is_kept {
            place.push(next);
            next += usize::from(*kept);
        }
        place.push(next);
        let mut finished = Bytecode::default();
        for (at, instruction) in self.code.iter().enumerate() {
            if !is_kept[at] {
                continue;
            }
            let mut offset = instruction.offset;
            if let Some(Label(label)) = instruction.jump {
                let target = place[self.labels[label as usize]?] as i64;
                offset = i16::try_from(target - place[at] as i64 - 1).ok()?;
            }
            if let Some(map) = instruction.map {
                finished.maps.push((finished.words.len(), map));
            }
            let Instruction {
                code,
                to,
                from,
                number,
                ..
            } = *instruction;
            finished.words.push(encode(code, to, from, offset, number));
        }
        Some(finished)
    }

    /// Returns for each instruction whether execution can reach it.
    fn reached(&self) -> Option<Vec<bool>> {
        let mut reached = vec![false; self.code.len()];
        let mut waiting = vec![0];
        while let Some(mut at) = waiting.pop() {
            while !*reached.get(at)? {
                reached[at] = true;
                let instruction = &self.code[at];
                if let Some(Label(label)) = instruction.jump {
                    let target = self.labels[label as usize]?;
                    if instruction.code == JUMP {
                        at = target;
                        continue;
                    }
                    waiting.push(target);
                }
                if instruction.code == EXIT {
                    break;
                }
                at += 1;
            }
        }
        Some(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(code: &Bytecode) -> Vec<[u8; 8]> {
        code.words().iter().map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn code_that_nothing_reaches_is_left_out_and_jumps_span_the_rest() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.set(R0, 1);
        asm.jump_if_number(When::Equal, R1, 0, end);
        asm.jump(end);
        asm.set(R0, 2);
        asm.place(end);
        asm.exit();
        let code = asm.finish().expect("it is complete");
        assert_eq!(code.len(), 4);
        let jumps: Vec<u8> = bytes(&code).iter().map(|word| word[2]).collect();
        assert_eq!(jumps, [0, 1, 0, 0]);
    }

    #[test]
    fn maps_are_linked_by_their_descriptors() {
        let mut asm = Assembler::default();
        asm.set_map(R3, MapName::Ports);
        asm.set(R0, u64::MAX >> 1);
        asm.exit();
        let code = asm.finish().expect("it is complete");
        assert_eq!(code.references(), [(0, MapName::Ports)]);
        let linked = code.linked(|_| 77);
        let linked: Vec<[u8; 8]> = linked.iter().map(|word| word.to_ne_bytes()).collect();
        assert_eq!(linked[0], [0x18, 0x13, 0, 0, 77, 0, 0, 0]);
        assert_eq!(linked[3], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]);
    }

    #[test]
    fn masks_of_all_widths_are_instructions_with_numbers_that_stay_positive() {
        for width in 1..=64 {
            let mut asm = Assembler::default();
            asm.mask(R0, width);
            asm.exit();
            let code = asm.finish().expect("it is complete");
            let expected = match width {
                1..=30 => 2,
                64 => 1,
                _ => 3,
            };
            assert_eq!(code.len(), expected, "{width} bits");
            if width < 31 {
                let [.., n0, n1, n2, n3] = bytes(&code)[0];
                let number = i32::from_ne_bytes([n0, n1, n2, n3]);
                assert_eq!(number as u64, bits::one::mask(width));
            }
        }
    }

    #[test]
    fn a_jump_that_is_too_far_is_no_code() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.jump_if_number(When::Equal, R1, 0, end);
        for _ in 0..40_000 {
            asm.set(R0, 1);
        }
        asm.place(end);
        asm.exit();
        assert!(asm.finish().is_none());
    }
}
