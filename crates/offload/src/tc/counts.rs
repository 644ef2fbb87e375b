//! Counts of a rule, by plane.

/// Counts of a rule since it was added, as the kernel has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets in hardware.
    pub hardware_packets: u64,
    /// Their bytes, as the driver counts them.
    pub hardware_bytes: u64,
    /// Packets in the kernel's software.
    pub software_packets: u64,
    /// Bytes of their frames as they came in. For rules of each EtherType without the VLAN tag of
    /// frames that have one: see [`FlowerRule::is_for_each_ether_type`](super::FlowerRule).
    pub software_bytes: u64,
    /// Milliseconds since the last packet, or since the rule was added if there was none.
    pub idle_ms: u64,
}

/// Counts of one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ActionCounts {
    /// Packets and bytes of both planes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Those of hardware.
    pub(super) hardware_packets: u64,
    pub(super) hardware_bytes: u64,
    /// Time since the last packet.
    pub(super) idle_ms: Option<u64>,
}

impl Counts {
    /// Makes a rule's counts from those of its actions.
    ///
    /// `csum` and `mpls` never count for hardware, so hardware's are those of the action that has
    /// most. Software's are those of the first action: later ones see a frame with other bytes.
    /// The kernel counts software bytes without the `hidden` ones at the frame's beginning.
    pub(super) fn of(actions: &[ActionCounts], hidden: u64) -> Counts {
        let most = actions.iter().max_by_key(|action| action.hardware_packets);
        let most = most.copied().unwrap_or_default();
        let first = actions.first().copied().unwrap_or_default();
        let packets = first.packets.saturating_sub(first.hardware_packets);
        let bytes = first.bytes.saturating_sub(first.hardware_bytes);
        Counts {
            hardware_packets: most.hardware_packets,
            hardware_bytes: most.hardware_bytes,
            software_packets: packets,
            software_bytes: bytes + packets * hidden,
            idle_ms: (actions.iter().filter_map(|action| action.idle_ms).min()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_counts_are_not_those_of_the_first_action() {
        let csum = ActionCounts {
            packets: 3,
            bytes: 3 * 46,
            ..ActionCounts::default()
        };
        let mirred = ActionCounts {
            packets: 8,
            bytes: 3 * 60 + 5 * 60,
            hardware_packets: 5,
            hardware_bytes: 300,
            idle_ms: Some(7),
        };
        let counts = Counts::of(&[csum, mirred], 14);
        assert_eq!((counts.hardware_packets, counts.hardware_bytes), (5, 300));
        assert_eq!((counts.software_packets, counts.software_bytes), (3, 180));
        assert_eq!(counts.idle_ms, 7);
    }
}
