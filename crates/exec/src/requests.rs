//! Requests of a packet to the device. The program makes them while a block runs; the device acts
//! on them when the block ends.

/// Number of mirror slots of a PNA packet.
pub const MIRROR_SLOTS: usize = 8;

/// Requests that one packet has made since it entered the pipeline or was recirculated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// v1model `clone`; the last call counts.
    pub clone: Option<CloneRequest>,
    /// v1model `resubmit`: the field list to keep, if any.
    pub resubmit: Option<Option<u32>>,
    /// v1model `recirculate`: the field list to keep, if any.
    pub recirculate: Option<Option<u32>>,
    /// Length in bytes to which the packet is truncated when it is sent.
    pub truncate: Option<u32>,
    /// Set if a checksum failed to verify.
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
    /// The packet leaves as a frame of a split program.
    pub frame: Option<FrameRequest>,
}

impl Requests {
    /// Requests truncation of the packet when it is sent. The smallest requested length counts, as
    /// in BMv2.
    #[inline]
    pub fn truncate_to(&mut self, bytes: u32) {
        self.truncate = Some(self.truncate.map_or(bytes, |before| before.min(bytes)));
    }
}

/// Request to send a packet as a frame of a split program. The frame's first bytes are in
/// [`crate::PacketContext::data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRequest {
    /// Egress port.
    pub port: u32,
    /// Number of received bytes that they replace.
    pub replaced: u32,
}

/// Request for a v1model clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneRequest {
    /// The clone session.
    pub session: u32,
    /// Field list of which the clone keeps the fields.
    pub field_list: Option<u32>,
}

/// Drop or pass mark of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `mark_to_drop`
    Drop,
    /// `mark_to_pass`
    Pass,
}

/// Destination of a PNA packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The packet is dropped.
    Drop,
    /// The packet is sent to this port.
    Port(u32),
}
