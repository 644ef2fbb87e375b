//! What a packet asks of the device while its program runs; the device acts when a block ends.

/// How many mirror slots a PNA packet has.
pub const MIRROR_SLOTS: usize = 8;

/// The requests of one packet in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// v1model `clone`; the last call counts.
    pub clone: Option<CloneRequest>,
    /// v1model `resubmit`: the field list to keep, if any.
    pub resubmit: Option<Option<u32>>,
    /// v1model `recirculate`: the field list to keep, if any.
    pub recirculate: Option<Option<u32>>,
    /// Bytes that the packet keeps when it leaves.
    pub truncate: Option<u32>,
    /// A checksum did not verify.
    pub checksum_error: bool,
    /// `mark_to_drop` and `mark_to_pass`; the last call counts.
    pub mark: Option<Mark>,
    /// PNA `drop_packet` and `send_to_port`; the last call counts.
    pub destination: Option<Destination>,
    /// PNA `mirror_packet`: the session of each slot.
    pub mirrors: [Option<u32>; MIRROR_SLOTS],
    /// PNA `recirculate`.
    pub recirculate_packet: bool,
    /// XDP `BPF_PERF_EVENT_OUTPUT`: a copy for the control plane.
    pub perf_event: bool,
}

impl Requests {
    /// Cuts the packet when it leaves; of several lengths the smallest counts (as in BMv2), whoever asked for it.
    #[inline]
    pub fn truncate_to(&mut self, bytes: u32) {
        self.truncate = Some(self.truncate.map_or(bytes, |before| before.min(bytes)));
    }
}

/// A v1model clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneRequest {
    /// The clone session.
    pub session: u32,
    /// The field list whose fields the clone keeps.
    pub field_list: Option<u32>,
}

/// An architecture's own mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `mark_to_drop`
    Drop,
    /// `mark_to_pass`
    Pass,
}

/// Where a PNA packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Drop,
    /// To a port.
    Port(u32),
}
