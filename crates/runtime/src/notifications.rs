//! Notifications of a device, for people: digests, idle entries and expired entries, each as a
//! line.

use std::collections::VecDeque;

use p4rt::{Inbox, Limit};
use packet::Nanos;
use support::amount;
use switch::Device;

use crate::report::DeviceReport;

/// Maximum number of lines of one kind in a report: the last ones.
const LAST: usize = 1000;

/// Interval of the search for idle entries, on the device's clock. The search visits all entries.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Selection of the notifications that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotificationLevel {
    /// None.
    Off,
    /// Those that no controller receives. Controllers receive digests and idle entries, if they
    /// are served.
    #[default]
    WithoutControllers,
    /// All.
    All,
}

impl NotificationLevel {
    /// Returns true if messages and expired entries are shown, which no controller receives.
    fn shows_own(self) -> bool {
        self != NotificationLevel::Off
    }

    /// Returns true if notifications that controllers may receive are shown.
    fn shows_common(self, is_served: bool) -> bool {
        match self {
            NotificationLevel::Off => false,
            NotificationLevel::WithoutControllers => !is_served,
            NotificationLevel::All => true,
        }
    }
}

/// Notifications of a device so far.
///
/// Of each kind, ten lines per second are shown; further lines are only counted.
pub struct Notifications {
    level: NotificationLevel,
    messages: Shown,
    digests: Lines,
    idle: Lines,
    expired: Lines,
    next_look: Nanos,
}

/// Rate limiter for lines of one kind.
#[derive(Default)]
struct Shown {
    limit: Limit,
}

impl Shown {
    /// Shows a line if the limit permits. `line` is called only then.
    fn show(&self, line: impl FnOnce() -> String, note: &mut dyn FnMut(String)) {
        match self.limit.may_say() {
            None => {}
            Some(0) => note(line()),
            Some(left_out) => {
                note(left_out_line(left_out));
                note(line());
            }
        }
    }

    /// Shows the number of suppressed lines once their second is over, and always at the end.
    fn settle(&self, is_end: bool, note: &mut dyn FnMut(String)) {
        let left_out = match is_end {
            true => self.limit.left_out_at_last(),
            false => self.limit.left_out(),
        };
        if let Some(left_out) = left_out {
            note(left_out_line(left_out));
        }
    }
}

fn left_out_line(lines: u64) -> String {
    let lines = amount::count(lines, "more line");
    format!("({lines} of this kind left out: at most ten a second are shown)")
}

/// Lines of one kind: their number, and the last of them.
#[derive(Default)]
struct Lines {
    count: u64,
    last: VecDeque<String>,
    shown: Shown,
}

impl Lines {
    fn add(&mut self, line: String, note: Option<&mut dyn FnMut(String)>) {
        if let Some(note) = note {
            self.shown.show(|| line.clone(), note);
        }
        self.count += 1;
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

impl Notifications {
    /// Returns no notifications, with a selection of those that will be shown.
    pub fn new(level: NotificationLevel) -> Notifications {
        Notifications {
            level,
            messages: Shown::default(),
            digests: Lines::default(),
            idle: Lines::default(),
            expired: Lines::default(),
            next_look: Nanos::ZERO,
        }
    }

    /// Takes the notifications out of the device's queues. `note` shows a line. `inbox` passes
    /// digests to controllers.
    pub fn hear(
        &mut self,
        device: &mut Device,
        inbox: Option<&Inbox>,
        note: &mut dyn FnMut(String),
    ) {
        let says = self.level.shows_own();
        let tells = self.level.shows_common(inbox.is_some());
        while let Some(message) = device.take_message() {
            if says {
                self.messages.show(|| message, note);
            }
        }
        while let Some(digest) = device.take_digest() {
            let line = trace_format::digest_line(&digest.program, digest.digest, &digest.limbs);
            self.digests.add(line, tells.then_some(&mut *note));
            if let Some(inbox) = inbox {
                inbox.digest(digest);
            }
        }
        for (table, entry) in device.take_expired() {
            let line = trace_format::learned_line(device.program(), table, &entry.key);
            let line = format!("expired: {line}");
            self.expired.add(line, says.then_some(&mut *note));
        }
        if device.now() >= self.next_look {
            self.next_look = device.now() + LOOK_EVERY;
            self.look(device, tells, note);
        }
        self.settle(false, note);
    }

    /// Ends the output: shows the entries that have become idle, and the numbers of suppressed
    /// lines.
    pub fn finish(&mut self, device: &mut Device, is_served: bool, note: &mut dyn FnMut(String)) {
        self.look(device, self.level.shows_common(is_served), note);
        self.settle(true, note);
    }

    fn settle(&self, is_end: bool, note: &mut dyn FnMut(String)) {
        let lines = [&self.digests, &self.idle, &self.expired];
        let kinds = lines.map(|lines| &lines.shown);
        for shown in kinds.into_iter().chain([&self.messages]) {
            shown.settle(is_end, note);
        }
    }

    fn look(&mut self, device: &mut Device, tells: bool, note: &mut dyn FnMut(String)) {
        if !device.program().tables.values().any(|t| t.idle_timeout) {
            return;
        }
        for (table, id) in device.take_idle() {
            if let Some(line) = trace_format::entry_line(device.configuration(), table, id) {
                let line = format!("idle: {line}");
                self.idle.add(line, tells.then_some(&mut *note));
            }
        }
    }

    /// Returns the report of the device, with its notifications.
    pub fn report(&self, device: &Device) -> DeviceReport {
        let last = |lines: &Lines| lines.last.iter().cloned().collect();
        DeviceReport {
            digests: self.digests.count,
            last_digests: last(&self.digests),
            idle: self.idle.count,
            last_idle: last(&self.idle),
            expired: self.expired.count,
            last_expired: last(&self.expired),
            ..DeviceReport::of(device)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_counted_a_few_are_shown_and_the_last_are_kept() {
        let mut lines = Lines::default();
        let mut shown = Vec::new();
        for n in 0..LAST + 2 {
            lines.add(n.to_string(), Some(&mut |line| shown.push(line)));
        }
        lines.shown.settle(true, &mut |line| shown.push(line));
        // Adding the lines may have taken more than a second.
        let counts = shown.iter().filter_map(|line| line.strip_prefix('('));
        let left_out = counts.map(|line| line.split(' ').next().unwrap().parse::<usize>().unwrap());
        let told = shown.iter().filter(|line| !line.starts_with('('));
        assert_eq!(told.count() + left_out.sum::<usize>(), LAST + 2);
        assert!(shown.len() < LAST / 2, "{shown:?}");
        assert_eq!(shown[..3], ["0", "1", "2"]);
        assert_eq!(lines.count, LAST as u64 + 2);
        assert_eq!(lines.last.len(), LAST);
        assert_eq!(lines.last.front().map(String::as_str), Some("2"));
    }
}
