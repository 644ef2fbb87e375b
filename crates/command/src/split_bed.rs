//! Test bed of split programs: a switch with its servers, as STF tests see a device.

use ir::TableId;
use packet::{Frame, Nanos, PortId};
use split::LocalSplit;
use stf::{PacketPlane, TakeSent};
use switch::{Device, Digest, EntryId, Ledger, LedgerError, PacketProcessor};

/// A switch with its servers. Its device is the one with the whole tables.
pub struct SplitBed(pub LocalSplit);

impl PacketProcessor for SplitBed {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.0.forward(frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.0.next_time()
    }
}

impl PacketPlane for SplitBed {
    fn device(&self) -> &Device {
        self.0.coordinator().whole()
    }

    fn device_mut(&mut self) -> &mut Device {
        self.0.coordinator_mut().whole_mut()
    }

    fn step(&mut self, now: Nanos, sent: &mut TakeSent<'_>) {
        self.0
            .forward(&mut [], now, |port, frame, _| sent(port, frame.bytes()));
    }

    fn collect_cells(&mut self) {
        self.0.collect();
    }

    fn take_digest(&mut self) -> Option<Digest> {
        self.0.switch_mut().inner_mut().take_digest()
    }

    fn take_message(&mut self) -> Option<String> {
        self.0.take_message()
    }

    fn take_idle(&mut self) -> Vec<(TableId, EntryId)> {
        self.0.take_idle()
    }

    fn held(&self) -> usize {
        self.0.switch().inner().held()
    }

    fn check_conservation(&self) -> Result<(), LedgerError> {
        self.0.check_conservation()
    }

    fn ledger(&self) -> Ledger {
        self.0.ledger()
    }

    fn plane_ledgers(&self) -> Vec<(Option<String>, Ledger)> {
        let ledgers = self.0.plane_ledgers().into_iter();
        let named = ledgers.map(|(server, ledger)| {
            let name = match server {
                Some(server) => format!("server {}", server.0),
                None => "the switch".to_owned(),
            };
            (Some(name), ledger)
        });
        named.collect()
    }
}
