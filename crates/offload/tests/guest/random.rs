//! Random flows and frames.

use offload::{Edit, Flow, LengthRange, MatchedBits, Met, Step};
use packet::PortId;
use support::rng::Rng;

use crate::bed::{PORTS, ipv4_checksum};

/// Kind of the flows that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The paper's actions, SetField and AddField, with ModifyField, DeleteField and the checksum
    /// that follows a change of the IPv4 header, on the headers of Ethernet, VLAN and IPv4.
    Fixed,
    /// Any bits, offsets and changes.
    Any,
}

/// A flow with a frame that matches it.
pub(crate) struct Sample {
    pub(crate) flow: Flow,
    pub(crate) frame: Vec<u8>,
    /// Offset of the network header.
    pub(crate) network: u32,
}

/// Returns a frame and the offset of its network header.
fn frame(rng: &mut Rng, kind: Kind) -> (Vec<u8>, u32) {
    let mut frame = vec![0; rng.between(60, 180) as usize];
    rng.fill(&mut frame);
    // Individual addresses.
    frame[0] &= 0xFE;
    frame[6] &= 0xFE;
    let network = if rng.one_in(4) {
        let tpid: [u8; 2] = if rng.one_in(4) {
            [0x88, 0xA8]
        } else {
            [0x81, 0]
        };
        frame[12..14].copy_from_slice(&tpid);
        18
    } else {
        14
    };
    let others: [[u8; 2]; 4] = [[8, 0], [0x86, 0xDD], [0x88, 0x47], [0x88, 0xB5]];
    let ether_type = match kind {
        Kind::Fixed => [8, 0],
        Kind::Any => others[rng.index(others.len())],
    };
    frame[network - 2..network].copy_from_slice(&ether_type);
    match ether_type {
        [8, 0] => {
            let length = (frame.len() - network) as u16;
            frame[network] = 0x45;
            frame[network + 2..network + 4].copy_from_slice(&length.to_be_bytes());
            frame[network + 6..network + 8].copy_from_slice(&[0, 0]);
            frame[network + 9] = [6, 17, 1, 200][rng.index(4)];
            ipv4_checksum(network as u32).apply(&mut frame);
        }
        [0x86, 0xDD] => {
            frame[network] = 0x60 | frame[network] & 0x0F;
            frame[network + 6] = [6, 17, 58][rng.index(3)];
        }
        _ => {}
    }
    (frame, network as u32)
}

/// Returns offset and length of a field of the fixed headers.
fn fixed_field(rng: &mut Rng, network: u32) -> (u32, u32) {
    let fields = [
        (0, 6),
        (6, 6),
        (network + 1, 1),
        (network + 8, 1),
        (network + 12, 4),
        (network + 16, 4),
        (network + 12, 8),
    ];
    fields[rng.index(fields.len())]
}

/// Returns offset and length of a field of the frame's headers.
fn any_field(rng: &mut Rng, frame: &[u8], network: u32) -> (u32, u32) {
    let fields: &[(u32, u32)] = match frame[network as usize - 2..network as usize] {
        [8, 0] => &[(0, 1), (6, 2), (9, 1), (12, 4), (20, 2), (22, 2), (33, 1)],
        [0x86, 0xDD] => &[(6, 1), (7, 1), (8, 16), (24, 16), (40, 2), (42, 2)],
        _ => &[(0, 4)],
    };
    let (offset, length) = fields[rng.index(fields.len())];
    (network + offset, length)
}

/// Returns a random flow of this kind.
pub(crate) fn sample(rng: &mut Rng, kind: Kind) -> Sample {
    let (frame, network) = frame(rng, kind);
    let mut masks = vec![0u8; frame.len()];
    // A controller that offloads pins the EtherType, except as in the paper's example.
    if !rng.one_in(10) {
        masks[12..network as usize].fill(0xFF);
        if network == 18 {
            masks[14..16].fill(0);
        }
    }
    for _ in 0..rng.between(1, 3) {
        let (offset, length) = match kind {
            Kind::Fixed => fixed_field(rng, network),
            Kind::Any if rng.one_in(3) => (rng.below(44) as u32, rng.between(1, 4) as u32),
            Kind::Any => any_field(rng, &frame, network),
        };
        let masked = rng.one_in(4) && (kind == Kind::Any || offset != network + 9);
        for mask in &mut masks[offset as usize..(offset + length) as usize] {
            *mask |= if masked { rng.bits() as u8 } else { 0xFF };
        }
    }
    if network == 18 {
        match rng.index(3) {
            0 => masks[14] |= 0xE0,
            1 => {
                masks[14] |= 0x0F;
                masks[15] = 0xFF;
            }
            _ => {}
        }
    }
    if kind == Kind::Fixed && rng.one_in(3) {
        masks[network as usize + 9] = 0xFF;
    }
    let steps = steps(rng, kind, network);
    let flow = Flow {
        ingress: PortId(0),
        matched: matched(&frame, &masks),
        length: LengthRange {
            min: 60,
            max: 65535,
        },
        checksums: Vec::new(),
        steps,
        drop: None,
        met: Met::default(),
    };
    Sample {
        flow,
        frame,
        network,
    }
}

/// Returns the matched bits of these masks.
fn matched(frame: &[u8], masks: &[u8]) -> Vec<MatchedBits> {
    let mut matched: Vec<MatchedBits> = Vec::new();
    for (offset, (byte, mask)) in (0u32..).zip(frame.iter().zip(masks)) {
        if *mask == 0 {
            continue;
        }
        match matched.last_mut() {
            Some(last) if last.end() == offset => {
                last.value.push(byte & mask);
                last.mask.push(*mask);
            }
            _ => matched.push(MatchedBits {
                offset,
                value: vec![byte & mask],
                mask: vec![*mask],
            }),
        }
    }
    matched
}

fn steps(rng: &mut Rng, kind: Kind, network: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    if rng.one_in(12) {
        return steps;
    }
    let outputs = if rng.one_in(4) { 2 } else { 1 };
    for _ in 0..outputs {
        let mut is_header_changed = false;
        for _ in 0..rng.below(4) {
            let edit = match kind {
                Kind::Fixed => fixed_edit(rng, network, &mut is_header_changed),
                Kind::Any if rng.one_in(3) => any_edit(rng),
                Kind::Any => header_edit(rng, network),
            };
            steps.push(Step::Edit(edit));
        }
        if is_header_changed {
            steps.push(Step::Edit(ipv4_checksum(network)));
        }
        if kind == Kind::Fixed && outputs == 1 {
            steps.extend(link_edit(rng, network).map(Step::Edit));
        }
        steps.push(Step::Output(PortId(rng.below(PORTS.into()) as u32)));
    }
    steps
}

/// Returns a change of a field of the fixed headers that is followed by the header's checksum.
fn fixed_edit(rng: &mut Rng, network: u32, is_header_changed: &mut bool) -> Edit {
    if rng.one_in(5) {
        *is_header_changed = true;
        return Edit::Add {
            offset: network + 8,
            value: rng.bits() as u8,
        };
    }
    let (offset, length) = fixed_field(rng, network);
    *is_header_changed |= offset >= network;
    let mut value = vec![0; length as usize];
    rng.fill(&mut value);
    let mask = vec![0xFF; value.len()];
    Edit::Set {
        offset,
        value,
        mask,
    }
}

/// Returns a change of the tags or an added field.
fn link_edit(rng: &mut Rng, network: u32) -> Option<Edit> {
    let mut field = [0; 4];
    rng.fill(&mut field);
    Some(match rng.index(6) {
        0 | 1 => Edit::Insert {
            offset: network,
            bytes: field.to_vec(),
        },
        2 => {
            let [_, _, c, d] = field;
            Edit::Insert {
                offset: 12,
                bytes: vec![0x81, 0, c & 0xEF, d],
            }
        }
        4 if network == 18 => {
            let [.., c, d] = field;
            let (value, mask) = (vec![c & 0xEF, d], vec![0xEF, 0xFF]);
            Edit::Set {
                offset: 14,
                value,
                mask,
            }
        }
        3 if network == 18 => Edit::Delete { offset: 12, len: 4 },
        _ => return None,
    })
}

/// Returns a change of a field that rules may be able to change.
fn header_edit(rng: &mut Rng, network: u32) -> Edit {
    let mut value = vec![0; 6];
    rng.fill(&mut value);
    let set = |offset, length| {
        let value = value[..length].to_vec();
        Edit::Set {
            offset,
            mask: vec![0xFF; value.len()],
            value,
        }
    };
    match rng.index(6) {
        0 => set(0, 6),
        1 => set(6, 6),
        2 => set(network + 7, 1),
        3 => set(network - 4, 2),
        4 => Edit::Delete {
            offset: network,
            len: 4,
        },
        _ => set(network - 2, 2),
    }
}

fn any_edit(rng: &mut Rng) -> Edit {
    let offset = rng.below(40) as u32;
    let mut value = vec![0; rng.between(1, 6) as usize];
    rng.fill(&mut value);
    match rng.index(5) {
        0 => Edit::Add {
            offset,
            value: value[0],
        },
        1 => Edit::Insert {
            offset: [0, 12, 14, 16, 18, 30][rng.index(6)],
            bytes: value,
        },
        2 => Edit::Delete {
            offset: [0, 12, 14, 18, 30][rng.index(5)],
            len: rng.between(1, 6) as u32,
        },
        3 => ipv4_checksum(14),
        _ => {
            let mask = value
                .iter()
                .map(|_| rng.bits() as u8 | 1)
                .collect::<Vec<u8>>();
            let value = value
                .iter()
                .zip(&mask)
                .map(|(value, mask)| value & mask)
                .collect();
            Edit::Set {
                offset,
                value,
                mask,
            }
        }
    }
}

impl Sample {
    /// Returns a frame of the flow with other bytes where the flow matches none. The owner's word
    /// on IP headers holds for it.
    pub(crate) fn sibling(&self, rng: &mut Rng) -> Vec<u8> {
        let mut frame = self.frame.clone();
        let keep = self.network as usize;
        rng.fill(&mut frame[keep + 1..]);
        rng.fill(&mut frame[..12]);
        if rng.one_in(3) {
            let types: [[u8; 2]; 6] = [
                [8, 0],
                [0x86, 0xDD],
                [0x81, 0],
                [0x88, 0xA8],
                [0x88, 0x47],
                [0x88, 0x64],
            ];
            frame[12..14].copy_from_slice(&types[rng.index(types.len())]);
            rng.fill(&mut frame[14..16]);
        }
        self.impose(&mut frame);
        plain_ip(&mut frame);
        self.mend(&mut frame);
        frame
    }

    /// Returns a frame in which one matched bit is another: it is not of the flow.
    pub(crate) fn stranger(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        let mut frame = self.sibling(rng);
        let bits = rng.pick(&self.flow.matched)?;
        let at = rng.index(bits.mask.len());
        let choices: Vec<u8> = (0..8).filter(|bit| bits.mask[at] >> bit & 1 != 0).collect();
        let bit = rng.pick(&choices)?;
        let offset = bits.offset as usize + at;
        frame[offset] ^= 1 << bit;
        plain_ip(&mut frame);
        self.mend(&mut frame);
        (!self.flow.matches(self.flow.ingress, &frame)).then_some(frame)
    }

    /// Makes the owner's word on checksums true for a frame.
    fn mend(&self, frame: &mut Vec<u8>) {
        for test in &self.flow.checksums {
            let edit = Edit::Checksum {
                offset: test.offset,
                over: test.over.clone(),
            };
            edit.apply(frame);
        }
    }

    fn impose(&self, frame: &mut [u8]) {
        for bits in &self.flow.matched {
            for (at, (value, mask)) in (bits.offset..).zip(bits.value.iter().zip(&bits.mask)) {
                let byte = &mut frame[at as usize];
                *byte = *byte & !mask | value;
            }
        }
    }
}

/// Makes the owner's word on IP headers true for a frame.
fn plain_ip(frame: &mut [u8]) {
    let network = if matches!(frame[12..14], [0x81, 0] | [0x88, 0xA8]) {
        18
    } else {
        14
    };
    match frame[network - 2..network] {
        [8, 0] => frame[network] = 0x45,
        [0x86, 0xDD] => {
            frame[network] = 0x60 | frame[network] & 0x0F;
            // No extension header.
            if !matches!(frame[network + 6], 6 | 17 | 58) {
                frame[network + 6] = 59;
            }
        }
        _ => {}
    }
}
