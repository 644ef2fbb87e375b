//! Faults of messages, nodes and disks.

use consensus::{Keep, NodeId};

use super::{What, World};
use crate::sim::plan::ELECTION;

impl World {
    /// Returns the time that a message takes, or `None` if it is lost.
    pub(super) fn delay(&mut self) -> Option<u64> {
        if self.is_healed() {
            return Some(20 + self.rng.below(100));
        }
        if self.rng.per_mille(self.plan.loss) {
            return None;
        }
        match self.rng.per_mille(self.plan.slow) {
            true => Some(self.rng.between(300, 15_000)),
            false => Some(20 + self.rng.below(self.plan.delay)),
        }
    }

    pub(super) fn transmit(&mut self, from: usize, to: NodeId, bytes: Vec<u8>) {
        let to = to.0.wrapping_sub(1) as usize;
        if to >= self.hosts.len() || self.blocked.contains(&(from, to)) {
            return;
        }
        for _ in 0..2 {
            if let Some(delay) = self.delay() {
                let mut bytes = bytes.clone();
                if !self.is_healed() && self.rng.per_mille(self.plan.damage) {
                    let at = self.rng.index(bytes.len());
                    bytes[at] ^= 1 << self.rng.below(8);
                    if self.rng.one_in(4) {
                        bytes.truncate(at);
                    }
                }
                self.at(delay, What::Message { to, bytes });
            }
            if self.is_healed() || !self.rng.per_mille(self.plan.duplicates) {
                break;
            }
        }
    }

    pub(super) fn fault(&mut self) {
        let hosts = self.hosts.len();
        let victim = match self
            .leading_host()
            .filter(|_| self.plan.is_storm || self.rng.one_in(2))
        {
            Some(leader) => leader,
            None => self.rng.index(hosts),
        };
        let length = self.rng.between(ELECTION / 10, 4 * ELECTION);
        match self.rng.below(8) {
            0..=2 => self.crash(victim, length),
            3 => {
                let length = length / 2;
                self.hosts[victim].paused_until = (self.now + length).min(self.plan.faults);
            }
            4 | 5 => {
                let others = (0..hosts).filter(|other| *other != victim);
                let kind = self.rng.below(3);
                let links = others.flat_map(|other| {
                    let (to, from) = ((other, victim), (victim, other));
                    [(kind != 1).then_some(to), (kind != 2).then_some(from)]
                });
                let links = links.flatten().collect();
                self.block(links, length);
            }
            6 => {
                let side: Vec<bool> = (0..hosts).map(|_| self.rng.one_in(2)).collect();
                let is_one_way = self.rng.one_in(3);
                let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
                let cut = |&(a, b): &(usize, usize)| side[a] && !side[b];
                let mut links: Vec<_> = pairs.filter(cut).collect();
                if !is_one_way {
                    links.extend(links.clone().iter().map(|&(a, b)| (b, a)));
                }
                self.block(links, length);
            }
            _ => self.transfer(),
        }
    }

    pub(super) fn block(&mut self, links: Vec<(usize, usize)>, length: u64) {
        self.report.partitions += 1;
        self.blocked.extend(&links);
        self.at(length, What::Unblock(links));
    }

    pub(super) fn crash(&mut self, at: usize, length: u64) {
        if self.hosts[at].node.is_none() || !self.may_lose(at) {
            return;
        }
        self.report.crashes += 1;
        let keeps_name = self.variant.keeps_name();
        let host = &mut self.hosts[at];
        host.node = None;
        host.paused_until = 0;
        match self.plan.keep {
            Keep::Disk => host.disk.crash(&mut self.rng),
            Keep::Memory => host.is_lost = !keeps_name,
        }
        let length = if self.rng.one_in(2) {
            length
        } else {
            length / 20
        };
        self.at(1 + length, What::Restart(at));
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        self.blocked.clear();
        for at in 0..self.hosts.len() {
            self.hosts[at].paused_until = 0;
            if self.hosts[at].node.is_none() && !self.hosts[at].is_lost {
                self.start(at);
            }
        }
    }
}
