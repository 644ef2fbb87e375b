//! Settings of a run: planes, links, placement, and what is compared.

use packet::Nanos;
use placement::{GroupOptions, Nesting, Policy, SketchSize};
use split::{EntryPolicy, LinkOptions, LocalOptions, Order, SplitPlacement, Window};
use support::rng::Rng;

/// Number of flows of the traffic.
pub(super) const FLOWS: u64 = 60;

/// Maximum delay of a link with delays.
const MAX_DELAY: Nanos = Nanos(60_000);

/// Kind of a run: its events, and the results that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// State by flow at any place. An entry changes when no packet that it matches is in flight.
    /// Each packet, register and counter is as in one device.
    Exact,
    /// Frames are lost, and servers fail. State comes after the last cut. What comes out is as in
    /// one device that gets only the packets that come out.
    Lossy,
    /// No state. Entries of one table change while packets are in flight: each packet is as in one
    /// device with one of the versions of the table since it arrived.
    Racing,
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) servers: u16,
    pub(super) links: LinkOptions,
    pub(super) order: Order,
    pub(super) placement: SplitPlacement,
    pub(super) is_native: bool,
    pub(super) has_group_changes: bool,
    pub(super) has_small_filters: bool,
    /// Budget of the switch for values, in eighths of those of the program.
    pub(super) phv_share: u64,
}

impl Setting {
    /// Draws a setting.
    pub(super) fn draw(rng: &mut Rng) -> Setting {
        let mode = match rng.below(5) {
            0..3 => Mode::Exact,
            3 => Mode::Lossy,
            _ => Mode::Racing,
        };
        let has_delays = mode != Mode::Exact || rng.one_in(2);
        let servers = *rng.pick(&[1, 1, 2, 3]).unwrap_or(&1);
        let order = match rng.one_in(4) && (!has_delays || mode == Mode::Racing) {
            true => Order::Loose,
            false => Order::Strict,
        };
        Setting {
            mode,
            servers,
            links: LinkOptions {
                max_delay: if has_delays { MAX_DELAY } else { Nanos(0) },
                loss_one_in: match mode {
                    Mode::Exact => 0,
                    Mode::Lossy => 30,
                    Mode::Racing => *rng.pick(&[0, 50]).unwrap_or(&0),
                },
                seed: rng.bits(),
            },
            order,
            placement: SplitPlacement {
                policy: policy(rng),
                nesting: *rng.pick(&Nesting::ALL).unwrap_or(&Nesting::Cover),
                window: Window::Packets(rng.between(10, 80)),
                top: rng.one_in(4).then(|| rng.between(1, 4)),
                ..SplitPlacement::default()
            },
            is_native: rng.one_in(4),
            has_group_changes: rng.one_in(2),
            has_small_filters: rng.one_in(2),
            phv_share: rng.between(4, 8),
        }
    }

    /// Returns true if frames between the planes take time.
    pub(super) fn has_delays(&self) -> bool {
        self.links.max_delay.0 > 0
    }

    /// Returns true if all cuts need one flow: handlers have state by their own key.
    pub(super) fn has_one_key(&self) -> bool {
        (self.servers > 1 || self.has_group_changes) && !self.has_tables_alone()
    }

    /// Returns true if the program has no handler, so that tables may have different keys.
    pub(super) fn has_tables_alone(&self) -> bool {
        (self.servers > 1 || self.has_group_changes) && self.links.seed.is_multiple_of(2)
    }

    /// Returns true if handlers may add entries.
    pub(super) fn may_learn(&self) -> bool {
        self.mode == Mode::Exact
    }

    /// Returns true if handlers may have state by flow.
    pub(super) fn has_handler_state(&self) -> bool {
        self.mode == Mode::Exact
    }

    /// Returns the options of the test bed.
    pub(super) fn local(&self, request_port: u32) -> LocalOptions {
        let mut group = GroupOptions::default();
        if self.has_small_filters {
            // Small filters err.
            group.filter = SketchSize {
                columns: 64,
                rows: 2,
            };
        }
        LocalOptions {
            servers: self.servers,
            spare_servers: 2,
            placement: self.placement,
            order: self.order,
            links: self.links,
            group,
            request_port,
            ..LocalOptions::default()
        }
    }
}

/// Draws a policy.
pub(super) fn policy(rng: &mut Rng) -> EntryPolicy {
    let windows = Policy::ALL.into_iter().map(EntryPolicy::Windows);
    let all: Vec<EntryPolicy> = [EntryPolicy::Asked, EntryPolicy::Asked]
        .into_iter()
        .chain(windows)
        .collect();
    *rng.pick(&all).unwrap_or(&EntryPolicy::Asked)
}
