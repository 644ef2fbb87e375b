//! The pcapng format: a sequence of blocks. Some describe interfaces, others hold packets.

use super::reader::{CapturedPacket, Lengths, check_link_type, finish, read_data};
use super::source::Source;
use super::{FrameDirection, MAX_CAPTURED, Order, PcapError, PcapErrorKind};
use packet::{Frame, Nanos};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;

/// Option code of the packet flags, the same in both blocks that have options.
const PACKET_FLAGS: u16 = 2;

/// Maximum length of an interface description block, which is read into memory.
const MAX_DESCRIPTION: u32 = 1 << 20;

/// Bytes of a block outside its body: type and length before it, and the length again after it.
const BLOCK_FRAME: u32 = 12;

/// State of a section: its byte order and interface descriptions.
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

/// An interface description, which applies to the packets captured on the interface.
struct Interface {
    link_type: u16,
    /// Maximum number of bytes captured per packet. Zero means no limit.
    snap_len: u32,
    ticks: Ticks,
    /// Offset in seconds, added to every time stamp.
    offset: i64,
    fcs: u32,
}

/// Time stamp resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticks {
    /// 10 to the minus n seconds.
    Decimal(u8),
    /// 2 to the minus n seconds.
    Binary(u8),
}

impl Ticks {
    fn to_nanos(self, ticks: u64) -> u64 {
        let wide = u128::from(ticks);
        let nanos = match self {
            Ticks::Decimal(n @ 0..=9) => wide * 10u128.pow(9 - u32::from(n)),
            // Resolutions above 28 need a divisor of at least 10^20, which exceeds every `u64`.
            Ticks::Decimal(n @ 10..=28) => wide / 10u128.pow(u32::from(n) - 9),
            Ticks::Decimal(_) => 0,
            Ticks::Binary(n) => (wide * 1_000_000_000)
                .checked_shr(u32::from(n))
                .unwrap_or(0),
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

impl Section {
    /// Reads the section header at the start of the file. Its type, the first four bytes, has been
    /// read.
    pub(super) fn first(source: &mut Source) -> Result<Section, PcapError> {
        let mut section = Section {
            order: Order::Little,
            interfaces: Vec::new(),
        };
        section.restart(source)?;
        Ok(section)
    }

    /// Reads blocks until one holds a packet.
    pub(super) fn read(
        &mut self,
        source: &mut Source,
        frame: &mut Frame,
    ) -> Result<Option<CapturedPacket>, PcapError> {
        loop {
            source.begin();
            let mut kind = [0; 4];
            if !source.read_unless_end(&mut kind)? {
                return Ok(None);
            }
            let kind = self.order.u32(kind);
            if kind == SECTION_HEADER {
                self.restart(source)?;
                continue;
            }
            let body = self.read_body_len(source)?;
            match kind {
                INTERFACE_DESCRIPTION => self.describe(source, body)?,
                ENHANCED_PACKET | OBSOLETE_PACKET => {
                    return self.read_packet(source, frame, kind, body).map(Some);
                }
                SIMPLE_PACKET => return self.read_simple(source, frame, body).map(Some),
                _ => source.skip(u64::from(body) + 4)?,
            }
        }
    }

    /// Starts a new section: reads its byte order and clears the interfaces. The type of a section
    /// header is the same in both byte orders.
    fn restart(&mut self, source: &mut Source) -> Result<(), PcapError> {
        let mut head = [0; 12];
        source.read(&mut head)?;
        self.order = match head[4..8] {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            _ => return Err(source.corrupt("its section header has no byte order")),
        };
        self.interfaces.clear();
        let (major, minor) = (self.order.half(&head, 4), self.order.half(&head, 5));
        // Some tools write version 1.2 and mean 1.0.
        if major != 1 {
            return Err(source.error(PcapErrorKind::Version { major, minor }));
        }
        let len = check_block_len(source, self.order.word(&head, 0))?;
        match len.checked_sub(16) {
            Some(rest) => source.skip(u64::from(rest)),
            None => Err(source.corrupt("its section header is too short")),
        }
    }

    fn read_body_len(&self, source: &mut Source) -> Result<u32, PcapError> {
        let mut len = [0; 4];
        source.read(&mut len)?;
        Ok(check_block_len(source, self.order.u32(len))? - BLOCK_FRAME)
    }

    fn describe(&mut self, source: &mut Source, body: u32) -> Result<(), PcapError> {
        if !(8..=MAX_DESCRIPTION).contains(&body) {
            return Err(source.corrupt(format!("an interface description has {body} bytes")));
        }
        let mut bytes = vec![0; body as usize];
        source.read(&mut bytes)?;
        source.skip(4)?;
        let mut interface = Interface {
            link_type: self.order.half(&bytes, 0),
            snap_len: self.order.word(&bytes, 1),
            ticks: Ticks::Decimal(6),
            offset: 0,
            fcs: 0,
        };
        interface.read_options(self.order, &bytes[8..]);
        self.interfaces.push(interface);
        Ok(())
    }

    fn interface(&self, source: &Source, id: u32) -> Result<&Interface, PcapError> {
        let Some(interface) = self.interfaces.get(id as usize) else {
            return Err(source.corrupt(format!("it is of interface {id}, which is not described")));
        };
        check_link_type(source, interface.link_type)?;
        Ok(interface)
    }

    /// Reads an enhanced packet block, or the obsolete packet block. Only their interface field
    /// differs.
    fn read_packet(
        &self,
        source: &mut Source,
        frame: &mut Frame,
        kind: u32,
        body: u32,
    ) -> Result<CapturedPacket, PcapError> {
        const FIXED: u32 = 20;
        if body < FIXED {
            return Err(source.corrupt(format!("its block has {body} bytes")));
        }
        let mut fixed = [0; FIXED as usize];
        source.read(&mut fixed)?;
        let id = match kind {
            ENHANCED_PACKET => self.order.word(&fixed, 0),
            _ => u32::from(self.order.half(&fixed, 0)),
        };
        let word = |i| self.order.word(&fixed, i);
        let (high, low, captured, original) = (word(1), word(2), word(3), word(4));
        let interface = self.interface(source, id)?;
        if captured > body - FIXED && captured <= MAX_CAPTURED {
            let what = format!("its {captured} captured bytes do not fit into its block");
            return Err(source.corrupt(what));
        }
        let rest = (body - FIXED).saturating_sub(captured);
        let flags = match frame.make_space(captured as usize) {
            Ok(_) => {
                read_data(source, frame, captured, 0)?;
                let padding = captured.next_multiple_of(4) - captured;
                source.skip(u64::from(padding.min(rest)))?;
                self.read_flags(source, rest.saturating_sub(padding))?
            }
            // Too long for a frame. Report the error after the whole block is skipped.
            Err(_) => {
                read_data(source, frame, captured, u64::from(rest) + 4)?;
                0
            }
        };
        frame.arrival = interface.time(u64::from(high) << 32 | u64::from(low));
        // Bits 5 to 8. 0 means an unknown length.
        let fcs = Some(flags >> 5 & 0xf).filter(|&len| len > 0);
        let packet = finish(
            source,
            frame,
            Lengths {
                captured,
                original,
                fcs: fcs.unwrap_or(interface.fcs),
            },
            id,
        );
        let direction = match flags & 3 {
            1 => Some(FrameDirection::Received),
            2 => Some(FrameDirection::Sent),
            _ => None,
        };
        Ok(CapturedPacket {
            direction,
            ..packet
        })
    }

    /// Reads the remaining `rest` bytes of a packet block, which hold the options, and the block's
    /// end. Returns the packet flags; 0 without any.
    fn read_flags(&self, source: &mut Source, mut rest: u32) -> Result<u32, PcapError> {
        let mut found = 0;
        while rest >= 4 {
            let mut head = [0; 4];
            source.read(&mut head)?;
            rest -= 4;
            let (code, len) = (self.order.half(&head, 0), self.order.half(&head, 1));
            if code == OPTION_END {
                break;
            }
            let mut padded = u32::from(len).next_multiple_of(4).min(rest);
            rest -= padded;
            if code == PACKET_FLAGS && len == 4 && padded == 4 {
                let mut flags = [0; 4];
                source.read(&mut flags)?;
                padded = 0;
                found = self.order.u32(flags);
            }
            source.skip(u64::from(padded))?;
        }
        source.skip(u64::from(rest) + 4)?;
        Ok(found)
    }

    /// Reads a simple packet block. Its packet belongs to the first interface and has no time
    /// stamp.
    fn read_simple(
        &self,
        source: &mut Source,
        frame: &mut Frame,
        body: u32,
    ) -> Result<CapturedPacket, PcapError> {
        const FIXED: u32 = 4;
        if body < FIXED {
            return Err(source.corrupt(format!("its block has {body} bytes")));
        }
        let mut original = [0; FIXED as usize];
        source.read(&mut original)?;
        let original = self.order.u32(original);
        let interface = self.interface(source, 0)?;
        let limit = if interface.snap_len == 0 {
            u32::MAX
        } else {
            interface.snap_len
        };
        let captured = original.min(limit).min(body - FIXED);
        read_data(
            source,
            frame,
            captured,
            u64::from(body - FIXED - captured) + 4,
        )?;
        frame.arrival = Nanos::ZERO;
        Ok(finish(
            source,
            frame,
            Lengths {
                captured,
                original,
                fcs: interface.fcs,
            },
            0,
        ))
    }
}

impl Interface {
    /// Reads the options that affect packets. A truncated option ends the list.
    fn read_options(&mut self, order: Order, mut options: &[u8]) {
        while let Some((head, rest)) = options.split_at_checked(4) {
            let (code, len) = (order.half(head, 0), usize::from(order.half(head, 1)));
            let Some(value) = rest.get(..len) else { return };
            match (code, value) {
                (OPTION_END, _) => return,
                (IF_TSRESOL, &[n]) if n & 0x80 != 0 => self.ticks = Ticks::Binary(n & 0x7f),
                (IF_TSRESOL, &[n]) => self.ticks = Ticks::Decimal(n),
                (IF_FCSLEN, &[n]) => self.fcs = u32::from(n),
                (IF_TSOFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    self.offset = match order {
                        Order::Little => i64::from_le_bytes(bytes),
                        Order::Big => i64::from_be_bytes(bytes),
                    };
                }
                _ => {}
            }
            options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn time(&self, ticks: u64) -> Nanos {
        let since_offset = i128::from(self.ticks.to_nanos(ticks));
        let nanos = since_offset + i128::from(self.offset) * 1_000_000_000;
        Nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

fn check_block_len(source: &Source, len: u32) -> Result<u32, PcapError> {
    if len < BLOCK_FRAME || !len.is_multiple_of(4) {
        return Err(source.corrupt(format!("a block claims to have {len} bytes")));
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_resolution_gives_nanoseconds() {
        for (ticks, count, nanos) in [
            (Ticks::Decimal(6), 1_500_000, 1_500_000_000),
            (Ticks::Decimal(9), 1_500_000_000, 1_500_000_000),
            (Ticks::Decimal(0), 3, 3_000_000_000),
            (Ticks::Decimal(12), 1_500_000, 1_500),
            (Ticks::Decimal(127), u64::MAX, 0),
            (Ticks::Binary(10), 1536, 1_500_000_000),
            (Ticks::Binary(127), u64::MAX, 0),
            (Ticks::Decimal(0), u64::MAX, u64::MAX),
        ] {
            assert_eq!(ticks.to_nanos(count), nanos, "{ticks:?} {count}");
        }
    }
}
