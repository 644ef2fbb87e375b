//! Periodic work of the control side: timers, packets that it sends itself, and freeing of old
//! devices.

use exec::DropReason;
use packet::{Frame, Nanos, PortId};

use super::TenantSwitch;
use crate::port_classifier::IngressTarget;
use crate::snapshot::{Admission, EgressAction};
use crate::worker::{MAX_HOPS, MAX_LINKED};

impl TenantSwitch {
    /// Does the work that needs no received packet. It handles time-outs and packet learning,
    /// sends the control side's own packets, and frees what is no longer needed. Must be called
    /// periodically. Time never goes back.
    pub fn step(&mut self, now: Nanos, mut sent: impl FnMut(PortId, &mut Frame, Nanos)) {
        self.now = self.now.max(now);
        let now = self.now;
        self.free_retired();
        self.charge_compilations();
        let departing = self.departing.iter_mut().map(|one| &mut one.device);
        let vpdps = self.vpdps.values_mut();
        let slots = &self.slots;
        let loaded = vpdps.filter_map(|vpdp| Some((vpdp.id, vpdp.loaded.as_mut()?)));
        let loaded = loaded.map(|(id, loaded)| {
            loaded.catch_up(id, slots);
            &mut loaded.device
        });
        for device in departing.chain(loaded) {
            device.publish();
            device.step(now);
        }
        self.admit_programmed();
        let mut hops = 0;
        let mut allowances = vec![MAX_LINKED; self.root.slots()];
        loop {
            let linked = self.hand_out(&mut allowances, &mut sent);
            if linked.is_empty() {
                break;
            }
            hops += 1;
            for (inlet, frame) in linked {
                self.deliver(inlet, &frame, hops > MAX_HOPS);
            }
        }
        self.say_farewell();
    }

    /// Sends packets that devices have produced. Returns those for links, up to each tenant's
    /// allowance.
    fn hand_out(
        &mut self,
        allowances: &mut [usize],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> Vec<(IngressTarget, Frame)> {
        let mut linked = Vec::new();
        let root = &self.root;
        for vpdp in self.vpdps.values_mut() {
            let (Some(loaded), Some(place)) = (&mut vpdp.loaded, root.place(vpdp.slot)) else {
                continue;
            };
            let allowance = &mut allowances[vpdp.slot.index()];
            let mut lost = Vec::new();
            loaded.device.drain_sent(|port, bytes, time| {
                let mut frame = Frame::new();
                // The bytes come from another frame, so the length is valid.
                let _ = frame.assign(bytes);
                let exit = place.exit(port);
                match exit {
                    EgressAction::Port(port) => sent(*port, &mut frame, time),
                    EgressAction::Described(port) | EgressAction::Wrapped(port, _) => {
                        match place.describe(exit.outer(), &mut frame) {
                            Ok(()) => sent(*port, &mut frame, time),
                            Err(_) => lost.push(DropReason::FrameTooLong),
                        }
                    }
                    EgressAction::Guarded(guard) => match guard.pass(&mut frame) {
                        Ok(port) => sent(port, &mut frame, time),
                        Err(reason) => lost.push(reason),
                    },
                    EgressAction::Link(_) if *allowance == 0 => lost.push(DropReason::LinkHops),
                    EgressAction::Link(inlet) => {
                        *allowance -= 1;
                        linked.push((*inlet, frame));
                    }
                    EgressAction::Open => lost.push(DropReason::NoSuchPort),
                }
            });
            for reason in lost {
                loaded.device.count_drop(reason);
            }
        }
        linked
    }

    /// Delivers a packet at the other end of a link.
    fn deliver(&mut self, inlet: IngressTarget, frame: &Frame, is_too_far: bool) {
        self.linked += 1;
        let now = self.now;
        let vpdp = self.vpdps.values_mut().find(|vpdp| vpdp.slot == inlet.slot);
        let Some(vpdp) = vpdp else {
            return self.ledger.refuse(1, DropReason::Unclassified);
        };
        let reason = match vpdp.admission(self.stand_in.as_ref()) {
            Admission::Closed(reason) => Some(reason),
            Admission::Open if is_too_far => Some(DropReason::LinkHops),
            Admission::Open => None,
        };
        match (reason, &mut vpdp.loaded) {
            (None, Some(loaded)) => {
                // The frame was sent by a device, so the length is valid.
                let _ = loaded.device.receive(inlet.port, frame.bytes());
                loaded.device.step(now);
            }
            (reason, _) => {
                let reason = reason.unwrap_or(DropReason::NoProgram);
                self.ledger.refuse(1, reason);
            }
        }
    }

    /// Frees departed devices without packets.
    fn say_farewell(&mut self) {
        for seat in self.desks.iter().flat_map(|desk| desk.come_back()) {
            let departing = self.departing.iter_mut();
            let departing = departing.map(|one| (one.serial, &mut one.seats));
            let vpdps = self.vpdps.values_mut();
            // A dropped worker also returns the states of vPDPs that stay.
            let loaded = vpdps.filter_map(|vpdp| vpdp.loaded.as_mut());
            let loaded = loaded.map(|one| (one.serial, &mut one.seats));
            let mut all = departing.chain(loaded);
            if let Some((_, seats)) = all.find(|(serial, _)| *serial == seat.serial) {
                *seats -= 1;
            }
        }
        let (ledger, deleted) = (&mut self.ledger, &mut self.deleted);
        self.departing.retain_mut(|one| {
            // Packets that a departed device still produces are dropped: it has no ports.
            let device = &mut one.device;
            let mut lost = 0;
            device.drain_sent(|_, _, _| lost += 1);
            (0..lost).for_each(|_| device.count_drop(DropReason::NoSuchPort));
            let stays = one.seats > 0 || device.held() > 0;
            if !stays {
                let own = device.ledger();
                ledger.add(&own);
                deleted.set_ledger(one.serial, &own);
            }
            stays
        });
    }
}
