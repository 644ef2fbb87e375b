//! Emission of a check for frames with incomplete checksums. A host may leave checksums of TCP and
//! UDP to its virtual interface; redirected frames would be lost. They leave, and the AF_XDP port
//! completes them.

use super::{Emitter, Ending};
use crate::assembler::{Alu, Label, R0, R1, R2, R3, R4, R5, R6, R7, Register, Size, When};

/// Lengths of headers, in bytes.
const ETHERNET: i16 = 14;
const IPV4: i16 = 20;
const IPV6: i16 = 40;

/// Protocol numbers.
const ICMP: i32 = 1;
const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMP6: i32 = 58;

/// EtherTypes with headers in which checksums may be incomplete: VLAN tags, MPLS, PPPoE.
const LAYERED: [u16; 5] = [0x8100, 0x88a8, 0x8847, 0x8848, 0x8864];

/// UDP ports of tunnels.
const TUNNELS: [u16; 3] = [4789, 6081, 8472];

impl Emitter<'_> {
    /// Frames in which a checksum may be incomplete leave: the field holds the sum of the pseudo
    /// header, or the place of the checksum is not known here.
    pub(super) fn leave_if_incomplete(&mut self) {
        let incomplete = self.leave_label("a frame with an incomplete checksum".to_owned());
        let unknown = "a frame of a virtual interface with other headers before its checksum";
        let unknown = self.leave_label(unknown.to_owned());
        // The places are the same ones for all ports of a program.
        if !self.may_be_incomplete() {
            return;
        }
        let (done, v6) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::Word, R7, R6, 0);
        self.asm.load(Size::Word, R5, R6, 4);
        self.jump_if_shorter(ETHERNET + IPV4 + 8, done);
        self.half(R0, 12);
        self.asm.jump_if_number(When::Equal, R0, 0x86dd, v6);
        for layered in LAYERED {
            self.asm
                .jump_if_number(When::Equal, R0, layered.into(), unknown);
        }
        self.asm.jump_if_number(When::Different, R0, 0x0800, done);
        self.asm.load(Size::Byte, R4, R7, ETHERNET + 9);
        self.asm.jump_if_number(When::Equal, R4, ICMP, done);
        self.asm.load(Size::Byte, R0, R7, ETHERNET);
        self.asm.jump_if_number(When::Different, R0, 0x45, unknown);
        // Only the first fragment has the header.
        self.half(R0, ETHERNET + 6);
        self.asm.mask(R0, 13);
        self.asm.jump_if_number(When::Different, R0, 0, done);
        self.half(R3, ETHERNET + 2);
        self.asm.alu_number(Alu::Sub, R3, IPV4.into());
        self.sum_halves(ETHERNET + 12, 4);
        self.compare_checksum(ETHERNET + IPV4, (done, unknown, incomplete));
        self.asm.place(v6);
        self.jump_if_shorter(ETHERNET + IPV6 + 8, done);
        self.asm.load(Size::Byte, R4, R7, ETHERNET + 6);
        self.asm.jump_if_number(When::Equal, R4, ICMP6, done);
        self.half(R3, ETHERNET + 4);
        self.sum_halves(ETHERNET + 8, 16);
        self.compare_checksum(ETHERNET + IPV6, (done, unknown, incomplete));
        self.asm.place(done);
    }

    fn may_be_incomplete(&self) -> bool {
        match self.ending {
            Ending::Report => false,
            Ending::Redirect {
                may_be_incomplete, ..
            } => may_be_incomplete,
        }
    }

    /// Loads a number of 16 bits of the frame.
    fn half(&mut self, to: Register, at: i16) {
        self.asm.load(Size::Half, to, R7, at);
        self.asm.network_order(to, Size::Half);
    }

    fn jump_if_shorter(&mut self, bytes: i16, to: Label) {
        self.asm.copy(R2, R7);
        self.asm.alu_number(Alu::Add, R2, bytes.into());
        self.asm.jump_if(When::Above, R2, R5, to);
    }

    /// Adds numbers of 16 bits of the frame to `R3`.
    fn sum_halves(&mut self, at: i16, count: i16) {
        for number in 0..count {
            self.half(R1, at + number * 2);
            self.asm.alu(Alu::Add, R3, R1);
        }
    }

    /// Compares the checksum of a TCP or UDP header with the sum in `R3`, to which the protocol in
    /// `R4` is added.
    fn compare_checksum(&mut self, at: i16, (done, unknown, incomplete): (Label, Label, Label)) {
        let (udp, fold) = (self.asm.label(), self.asm.label());
        self.asm.alu(Alu::Add, R3, R4);
        self.asm.jump_if_number(When::Equal, R4, UDP, udp);
        self.asm.jump_if_number(When::Different, R4, TCP, unknown);
        self.jump_if_shorter(at + 20, done);
        self.half(R0, at + 16);
        self.asm.jump(fold);
        self.asm.place(udp);
        self.half(R1, at + 2);
        for tunnel in TUNNELS {
            self.asm
                .jump_if_number(When::Equal, R1, tunnel.into(), unknown);
        }
        self.half(R0, at + 6);
        self.asm.place(fold);
        for _ in 0..2 {
            self.asm.copy(R1, R3);
            self.asm.alu_number(Alu::Shr, R1, 16);
            self.asm.mask(R3, 16);
            self.asm.alu(Alu::Add, R3, R1);
        }
        self.asm.jump_if(When::Equal, R0, R3, incomplete);
        self.asm.jump(done);
    }
}
