//! What a device tells its controller, for people: digests, entries that are idle and entries that have expired, each as a line.

use std::collections::VecDeque;

use p4rt::Inbox;
use packet::Nanos;
use switch::Device;

use crate::report::DeviceReport;
use crate::{configure, trace};

/// Lines of one kind that a report has: the last ones.
const LAST: usize = 1000;

/// How often idle entries are looked for, on the device's clock: that walks through all entries.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// What a device has told so far.
#[derive(Default)]
pub(crate) struct Heard {
    digests: Lines,
    idle: Lines,
    expired: Lines,
    next_look: Nanos,
}

/// Lines of one kind: how many there were, and the last of them.
#[derive(Default)]
struct Lines {
    count: u64,
    last: VecDeque<String>,
}

impl Lines {
    fn add(&mut self, line: String, note: &mut dyn FnMut(String)) {
        note(line.clone());
        self.count += 1;
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

impl Heard {
    /// Takes what the device says, so that there is room for more; `note` shows a line, and controllers get digests.
    pub(crate) fn hear(
        &mut self,
        device: &mut Device,
        inbox: Option<&Inbox>,
        note: &mut dyn FnMut(String),
    ) {
        while let Some(message) = device.take_message() {
            note(message);
        }
        while let Some(digest) = device.take_digest() {
            let line = trace::digest_line(&digest.program, digest.digest, &digest.limbs);
            self.digests.add(line, note);
            if let Some(inbox) = inbox {
                inbox.digest(digest);
            }
        }
        for (table, entry) in device.take_expired() {
            let line = trace::learned_line(device.program(), table, &entry.key);
            self.expired.add(format!("expired: {line}"), note);
        }
        if device.now() >= self.next_look {
            self.next_look = device.now() + LOOK_EVERY;
            self.look_for_idle(device, note);
        }
    }

    /// Shows the entries that have become idle.
    pub(crate) fn look_for_idle(&mut self, device: &mut Device, note: &mut dyn FnMut(String)) {
        if !device.program().tables.values().any(|t| t.idle_timeout) {
            return;
        }
        for (table, id) in device.take_idle() {
            if let Some(line) = trace::entry_line(device.configuration(), table, id) {
                self.idle.add(format!("idle: {line}"), note);
            }
        }
    }

    /// What the device did, with what it told.
    pub(crate) fn report(&self, device: &Device) -> DeviceReport {
        let last = |lines: &Lines| lines.last.iter().cloned().collect();
        DeviceReport {
            digests: self.digests.count,
            last_digests: last(&self.digests),
            idle: self.idle.count,
            last_idle: last(&self.idle),
            expired: self.expired.count,
            last_expired: last(&self.expired),
            ..configure::report(device)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_shown_and_counted_and_the_last_are_kept() {
        let mut lines = Lines::default();
        let mut shown = 0;
        for n in 0..LAST + 2 {
            lines.add(n.to_string(), &mut |_| shown += 1);
        }
        assert_eq!(shown, LAST + 2);
        assert_eq!(lines.count, LAST as u64 + 2);
        assert_eq!(lines.last.len(), LAST);
        assert_eq!(lines.last.front().map(String::as_str), Some("2"));
    }
}
