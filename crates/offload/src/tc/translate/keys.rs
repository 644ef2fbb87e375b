//! A flow's matched bits as keys of a rule.

use super::layout::{ETHER_TYPE, Layout, Network};
use super::{TranslateOptions, refused};
use crate::flow::{Flow, NotOffloadable};
use crate::tc::rule::{Field, Key, TCP, UDP};

/// Values and masks of a frame's first bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<(u8, u8)>);

impl Bits {
    /// Returns the bits that a flow matches.
    pub(super) fn of(flow: &Flow) -> Bits {
        let end = flow.matched.iter().map(|bits| bits.end()).max();
        let mut bytes = vec![(0, 0); end.unwrap_or(0) as usize];
        for bits in &flow.matched {
            let place = bytes.iter_mut().skip(bits.offset as usize);
            for (byte, pair) in place.zip(bits.value.iter().zip(&bits.mask)) {
                *byte = (*pair.0, *pair.1);
            }
        }
        Bits(bytes)
    }

    /// Returns value and mask of a byte.
    pub(super) fn byte(&self, offset: u32) -> (u8, u8) {
        self.0.get(offset as usize).copied().unwrap_or_default()
    }

    /// Returns value and mask of two bytes.
    pub(super) fn word(&self, offset: u32) -> (u16, u16) {
        let ((a, m), (b, n)) = (self.byte(offset), self.byte(offset + 1));
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([m, n]))
    }

    /// Returns value and mask of at most 128 bits. The offset counts bits.
    fn bits(&self, offset: u32, width: u32) -> (u128, u128) {
        let bit = |at: u32| {
            let (value, mask) = self.byte(at / 8);
            let shift = 7 - at % 8;
            (
                u128::from(value >> shift & 1),
                u128::from(mask >> shift & 1),
            )
        };
        let append = |(v, m): (u128, u128), at| {
            let (value, mask) = bit(at);
            (v << 1 | value, m << 1 | mask)
        };
        (offset..offset + width).fold((0, 0), append)
    }

    /// Opens bits: they are matched no longer.
    fn open(&mut self, offset: u32, width: u32) {
        for at in offset..offset + width {
            if let Some((_, mask)) = self.0.get_mut((at / 8) as usize) {
                *mask &= !(0x80 >> (at % 8));
            }
        }
    }
}

/// Returns the keys of a rule with this layout.
pub(super) fn keys(
    bits: &Bits,
    layout: &Layout,
    options: &TranslateOptions,
) -> Result<Vec<Key>, NotOffloadable> {
    let mut taker = Taker {
        left: bits.clone(),
        keys: Vec::new(),
    };
    taker.take(Field::EthDst, 0);
    taker.take(Field::EthSrc, 48);
    if layout.tag.is_some() {
        taker.left.open(ETHER_TYPE * 8, 16);
        taker.take(Field::VlanPriority, 14 * 8);
        taker.take(Field::VlanId, 14 * 8 + 4);
    }
    let base = layout.network * 8;
    if let Some(ether_type) = layout.ether_type {
        taker.left.open(base - 16, 16);
        if layout.tag.is_some() {
            taker.push(Field::VlanEthType, ether_type.into(), u16::MAX.into());
        }
    }
    match layout.header() {
        Network::Ipv4 => ipv4(&mut taker, base, options)?,
        Network::Ipv6 => ipv6(&mut taker, base, options)?,
        Network::Mpls => {
            taker.take(Field::MplsLabel, base);
            taker.take(Field::MplsTc, base + 20);
            taker.take(Field::MplsBos, base + 23);
            taker.take(Field::MplsTtl, base + 24);
        }
        Network::Unknown => {}
    }
    taker.finish(layout)
}

struct Taker {
    left: Bits,
    keys: Vec<Key>,
}

impl Taker {
    fn push(&mut self, field: Field, value: u128, mask: u128) {
        self.keys.push(Key { field, value, mask });
    }

    /// Makes a key of the protocol. A flow that leaves bits of it open gets a rule for TCP or UDP,
    /// if it has packets of one of them: flower compares the whole number.
    fn take_protocol(&mut self, offset: u32) {
        let (value, mask) = self.left.bits(offset, 8);
        let fits = |protocol: &u8| u128::from(*protocol) & mask == value;
        let of_flow: Vec<u8> = [TCP, UDP].into_iter().filter(fits).collect();
        match of_flow[..] {
            [protocol] if mask != 0 && mask != Field::IpProto.all() => {
                self.left.open(offset, 8);
                self.push(Field::IpProto, protocol.into(), Field::IpProto.all());
            }
            _ => self.take(Field::IpProto, offset),
        }
    }

    /// Makes a key of the field's bits, if the flow matches any and the field allows the mask.
    fn take(&mut self, field: Field, offset: u32) {
        let (value, mask) = self.left.bits(offset, field.bits());
        if mask != 0 && (field.is_maskable() || mask == field.all()) {
            self.left.open(offset, field.bits());
            self.push(field, value, mask);
        }
    }

    /// Opens bits that the owner says have a value. Returns an error without the owner's word.
    fn assume(
        &mut self,
        offset: u32,
        width: u32,
        wanted: u128,
        options: &TranslateOptions,
    ) -> Result<(), NotOffloadable> {
        let (value, mask) = self.left.bits(offset, width);
        if mask == 0 {
            return Ok(());
        }
        if !options.no_ip_options {
            return Err(no_ip_options());
        }
        // With another value, no key and no word of the owner is for these bits.
        if wanted & mask == value {
            self.left.open(offset, width);
        }
        Ok(())
    }

    fn finish(mut self, layout: &Layout) -> Result<Vec<Key>, NotOffloadable> {
        let bytes = (0..).zip(&self.left.0);
        let left = bytes.filter(|(_, (_, mask))| *mask != 0);
        let mut names: Vec<String> = left.map(|(at, _)| layout.name_of(at)).collect();
        names.dedup();
        if !names.is_empty() {
            return Err(refused(format!(
                "the flow compares bits of {}, for which flower has no key",
                names.join(", ")
            )));
        }
        self.keys.sort_unstable();
        Ok(self.keys)
    }
}

/// Returns the reason of a rule that relies on the owner's word.
pub(super) fn no_ip_options() -> NotOffloadable {
    refused(
        "no key of flower says that an IP header has no options; allow it with --no-ip-options if \
         no packet has any"
            .to_owned(),
    )
}

fn ipv4(taker: &mut Taker, base: u32, options: &TranslateOptions) -> Result<(), NotOffloadable> {
    taker.assume(base, 8, 0x45, options)?;
    taker.take(Field::IpTos, base + 8);
    taker.take(Field::IpTtl, base + 64);
    taker.take_protocol(base + 72);
    taker.take(Field::Ipv4Src, base + 96);
    taker.take(Field::Ipv4Dst, base + 128);
    // The kernel takes these fields as zero where the header's length is below 20 bytes, and knows
    // no addresses there.
    let is_address = |key: &Key| matches!(key.field, Field::Ipv4Src | Field::Ipv4Dst);
    let is_zero = |key: &Key| {
        let is_field = matches!(key.field, Field::IpTos | Field::IpTtl | Field::IpProto);
        is_field && key.value == 0
    };
    let is_open = taker.keys.iter().any(is_zero) && !taker.keys.iter().any(is_address);
    if is_open && !options.no_ip_options {
        return Err(no_ip_options());
    }
    // More fragments, and the offset: zero in a packet that is no fragment.
    let (value, mask) = taker.left.bits(base + 50, 14);
    if mask != 0 && value == 0 {
        taker.left.open(base + 50, 14);
        taker.push(Field::Fragment, 0, 1);
    }
    transport(taker, base + 160, options)
}

fn ipv6(taker: &mut Taker, base: u32, options: &TranslateOptions) -> Result<(), NotOffloadable> {
    taker.assume(base, 4, 6, options)?;
    taker.take(Field::IpTos, base + 4);
    if taker.left.byte(base / 8 + 6).1 != 0 {
        // Flower's key is the protocol after the extension headers.
        if !options.no_ip_options {
            return Err(no_ip_options());
        }
        taker.take_protocol(base + 48);
    }
    taker.take(Field::IpTtl, base + 56);
    for (field, offset) in [(Field::Ipv6Src, base + 64), (Field::Ipv6Dst, base + 192)] {
        // The command `tc` of iproute2 6.1 ends with a fault when it prints another mask, and then
        // the interface's rules cannot be listed.
        let (_, mask) = taker.left.bits(offset, 128);
        if mask.leading_ones() != mask.count_ones() {
            return Err(refused(
                "the mask of an IPv6 address is no prefix".to_owned(),
            ));
        }
        taker.take(field, offset);
    }
    transport(taker, base + 320, options)
}

fn transport(
    taker: &mut Taker,
    base: u32,
    options: &TranslateOptions,
) -> Result<(), NotOffloadable> {
    let proto = taker.keys.iter().find(|key| key.field == Field::IpProto);
    let proto = proto.map(|key| key.value as u8);
    if taker.left.bits(base, 32).1 == 0 && taker.left.bits(base + 96, 16).1 == 0 {
        return Ok(());
    }
    if !matches!(proto, Some(TCP | UDP)) {
        return Ok(());
    }
    if !options.no_ip_options {
        return Err(no_ip_options());
    }
    taker.take(Field::SrcPort, base);
    taker.take(Field::DstPort, base + 16);
    if proto == Some(TCP) {
        taker.take(Field::TcpFlags, base + 100);
    }
    // The kernel also takes flags as zero where a frame ends within the TCP header.
    let has_no_flag = |key: &Key| key.field == Field::TcpFlags && key.value == 0;
    let least = base / 8 + 20;
    if taker.keys.iter().any(has_no_flag) && options.shortest < least {
        return Err(refused(format!(
            "frames of {} to {} bytes end within the TCP header, and the kernel takes their flags \
             as zero",
            options.shortest,
            least - 1
        )));
    }
    // The kernel takes these fields as zero in a fragment. The owner's word says that no TCP header
    // is too short for its flags.
    let is_zero = |key: &Key| {
        let is_field = matches!(key.field, Field::SrcPort | Field::DstPort | Field::TcpFlags);
        is_field && key.value == 0
    };
    let is_fragment = |key: &Key| key.field == Field::Fragment;
    if taker.keys.iter().any(is_zero) && !taker.keys.iter().any(is_fragment) {
        taker.push(Field::Fragment, 0, 1);
    }
    Ok(())
}
