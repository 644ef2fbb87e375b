//! Digest messages for the primary (section "`DigestEntry`"). Messages are bundled into lists, and
//! messages sent but not yet acknowledged are not repeated. A state machine without I/O; times are
//! nanoseconds of any clock.

use std::collections::{BTreeMap, HashMap, HashSet};

use ir::ExternId;
use p4info::p4::v1::digest_entry::Config;

/// Maximum number of messages in a list, whatever the controller configures.
const MAX_IN_LIST: usize = 4096;

/// Maximum number of messages in the cache of one digest. Beyond it the oldest list is removed, and
/// its messages may be sent again.
const MAX_IN_CACHE: usize = 1 << 16;

/// A message in limbs.
type Data = Vec<u64>;

/// A digest list: messages sent to the primary together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) digest: ExternId,
    pub(crate) id: u64,
    pub(crate) messages: Vec<Data>,
}

/// The digests of one device.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    lines: HashMap<ExternId, Line>,
    last_list: u64,
}

/// State of one digest: messages to send, and lists without an acknowledgement.
#[derive(Debug, Default)]
struct Line {
    waiting: Vec<Data>,
    /// Arrival time of the first waiting message.
    since: u64,
    /// Cache of the messages that wait or are not yet acknowledged.
    known: HashSet<Data>,
    /// Lists that are not yet acknowledged, by list id, with the time they were sent.
    sent: BTreeMap<u64, (u64, Vec<Data>)>,
}

fn nanos(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl Line {
    /// Removes lists without an acknowledgement after the timeout, and the oldest lists if the
    /// cache is full.
    fn forget(&mut self, now: u64, ack_timeout: u64) {
        while let Some(oldest) = self.sent.first_entry() {
            let is_old = now.saturating_sub(oldest.get().0) >= ack_timeout;
            if !is_old && self.known.len() <= MAX_IN_CACHE {
                return;
            }
            let (_, messages) = oldest.remove();
            for message in messages {
                self.known.remove(&message);
            }
        }
    }
}

impl Digests {
    /// Returns the number of messages that wait for their list or for its acknowledgement.
    pub(crate) fn waiting(&self) -> usize {
        self.lines.values().map(|line| line.known.len()).sum()
    }

    /// Adds a message. Returns a list if one must be sent now.
    pub(crate) fn take(
        &mut self,
        digest: ExternId,
        message: Data,
        now: u64,
        config: &Config,
    ) -> Option<List> {
        let line = self.lines.entry(digest).or_default();
        line.forget(now, nanos(config.ack_timeout_ns));
        if !line.known.insert(message.clone()) {
            return None;
        }
        if line.waiting.is_empty() {
            line.since = now;
        }
        line.waiting.push(message);
        let most = usize::try_from(config.max_list_size).unwrap_or(0);
        let is_full = line.waiting.len() >= MAX_IN_LIST || most > 0 && line.waiting.len() >= most;
        let is_due = is_full || config.max_timeout_ns == 0;
        is_due.then(|| self.send(digest, now)).flatten()
    }

    fn send(&mut self, digest: ExternId, now: u64) -> Option<List> {
        let line = self.lines.get_mut(&digest)?;
        let messages = std::mem::take(&mut line.waiting);
        if messages.is_empty() {
            return None;
        }
        self.last_list += 1;
        line.sent.insert(self.last_list, (now, messages.clone()));
        Some(List {
            digest,
            id: self.last_list,
            messages,
        })
    }

    /// Returns the lists of which the first message has waited for the configured time.
    pub(crate) fn due(&mut self, now: u64, configs: &BTreeMap<ExternId, Config>) -> Vec<List> {
        self.lines.retain(|digest, _| configs.contains_key(digest));
        let is_due = |(digest, line): &(&ExternId, &Line)| {
            let timeout = configs
                .get(digest)
                .map_or(0, |config| nanos(config.max_timeout_ns));
            !line.waiting.is_empty() && now.saturating_sub(line.since) >= timeout
        };
        let mut due: Vec<ExternId> = self
            .lines
            .iter()
            .filter(is_due)
            .map(|(id, _)| *id)
            .collect();
        due.sort_unstable();
        due.into_iter()
            .filter_map(|digest| self.send(digest, now))
            .collect()
    }

    /// Returns the time when the next list is due.
    pub(crate) fn next_time(&self, configs: &BTreeMap<ExternId, Config>) -> Option<u64> {
        let waiting = self
            .lines
            .iter()
            .filter(|(_, line)| !line.waiting.is_empty());
        let times = waiting.map(|(digest, line)| {
            let timeout = configs
                .get(digest)
                .map_or(0, |config| nanos(config.max_timeout_ns));
            line.since.saturating_add(timeout)
        });
        times.min()
    }

    /// Processes an acknowledgement of a list.
    pub(crate) fn acknowledge(&mut self, digest: ExternId, list: u64) {
        let line = self.lines.get_mut(&digest);
        if let Some(line) = line
            && let Some((_, messages)) = line.sent.remove(&list)
        {
            for message in messages {
                line.known.remove(&message);
            }
        }
    }

    /// Forgets all messages. Called when another controller becomes primary or another program
    /// runs.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: ExternId = ExternId::new(3);

    fn config(max_list_size: i32, max_timeout_ns: i64, ack_timeout_ns: i64) -> Config {
        Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        }
    }

    fn messages(list: Option<List>) -> Vec<Data> {
        list.map(|list| list.messages).unwrap_or_default()
    }

    #[test]
    fn a_list_goes_when_it_is_full_or_its_first_message_has_waited() {
        let mut digests = Digests::default();
        let config = config(2, 100, 1000);
        let configs = BTreeMap::from([(D, config)]);
        assert_eq!(digests.take(D, vec![1], 0, &config), None);
        assert_eq!(messages(digests.take(D, vec![2], 5, &config)), [[1], [2]]);
        assert_eq!(digests.take(D, vec![3], 50, &config), None);
        assert_eq!(digests.next_time(&configs), Some(150));
        assert_eq!(digests.due(149, &configs), []);
        assert_eq!(digests.due(150, &configs)[0].messages, [[3]]);
        assert_eq!(digests.next_time(&configs), None);
    }

    #[test]
    fn messages_of_a_list_are_distinct_and_not_repeated_before_the_acknowledgement() {
        let mut digests = Digests::default();
        let config = config(1, 0, 1000);
        let list = digests
            .take(D, vec![1], 0, &config)
            .expect("it goes at once");
        assert_eq!(digests.take(D, vec![1], 10, &config), None);
        digests.acknowledge(D, list.id);
        assert!(digests.take(D, vec![1], 20, &config).is_some());
        // Without an acknowledgement, the timeout has the same effect.
        assert_eq!(digests.take(D, vec![1], 1019, &config), None);
        assert!(digests.take(D, vec![1], 1020, &config).is_some());
    }

    #[test]
    fn without_time_for_an_acknowledgement_nothing_is_remembered() {
        let mut digests = Digests::default();
        let config = config(1, 0, 0);
        for now in 0..3 {
            assert_eq!(messages(digests.take(D, vec![1], now, &config)), [[1]]);
        }
    }

    #[test]
    fn the_cache_is_bounded_and_so_are_lists() {
        let mut digests = Digests::default();
        let config = config(0, i64::MAX, i64::MAX);
        let mut lists = 0;
        for number in 0..(MAX_IN_CACHE + 2 * MAX_IN_LIST) as u64 {
            lists += usize::from(digests.take(D, vec![number], 0, &config).is_some());
        }
        assert_eq!(lists, MAX_IN_CACHE / MAX_IN_LIST + 2);
        assert!(digests.lines[&D].known.len() <= MAX_IN_CACHE + MAX_IN_LIST);
    }
}
