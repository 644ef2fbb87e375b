//! Log of the requests of a switch, for the placement of entries.

use std::sync::{Arc, Mutex, PoisonError};

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use split::{Requests, SwitchFilter};
use switch::FrameFilter;

/// Maximum number of requests in the log. More are left out: the log is a sample.
const MAX_REQUESTS: usize = 1024;

/// Maximum number of bytes of their keys.
const MAX_BYTES: usize = 64 * 1024;

/// Requests since the log was last taken. All workers of a switch share it.
#[derive(Debug, Default)]
pub struct RequestLog(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    /// Cut and length of the key.
    requests: Vec<(u16, usize)>,
    /// The keys, one after the other.
    keys: Vec<u8>,
}

/// Request: its cut, and the key of the mirrored table.
pub(crate) type LoggedRequest = (u16, Vec<u8>);

impl RequestLog {
    /// Creates an empty log. It has its memory from the start.
    pub fn new() -> RequestLog {
        RequestLog(Mutex::new(Logged {
            requests: Vec::with_capacity(MAX_REQUESTS),
            keys: Vec::with_capacity(MAX_BYTES),
        }))
    }

    /// Adds a request, unless the log is full or in use.
    fn add(&self, cut: u16, key: &[u8]) {
        let Ok(mut logged) = self.0.try_lock() else {
            return;
        };
        let has_room = logged.requests.len() < MAX_REQUESTS;
        if has_room && logged.keys.len() + key.len() <= MAX_BYTES {
            logged.requests.push((cut, key.len()));
            logged.keys.extend_from_slice(key);
        }
    }

    /// Takes the requests, each different one once.
    pub(crate) fn take(&self) -> Vec<LoggedRequest> {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        let mut at = 0;
        for (cut, length) in &logged.requests {
            taken.push((*cut, logged.keys[at..at + length].to_vec()));
            at += length;
        }
        logged.requests.clear();
        logged.keys.clear();
        drop(logged);
        taken.sort_unstable();
        taken.dedup();
        taken
    }
}

/// Filter of the frames of a worker of the switch half, which also logs requests.
pub struct LoggingFilter {
    filter: SwitchFilter,
    requests: Arc<Requests>,
    log: Arc<RequestLog>,
    /// Widths of the keys of cuts in bits, by number; 0 for calls of handlers.
    key_widths: Arc<[usize]>,
    key: Vec<u8>,
}

impl LoggingFilter {
    /// Creates the filter of one worker.
    pub fn new(
        requests: Arc<Requests>,
        log: Arc<RequestLog>,
        key_widths: Arc<[usize]>,
    ) -> LoggingFilter {
        LoggingFilter {
            filter: SwitchFilter::new(Arc::clone(&requests)),
            requests,
            log,
            key_widths,
            key: Vec::new(),
        }
    }
}

impl FrameFilter for LoggingFilter {
    fn begin(&mut self, now: Nanos, before: &mut Vec<Frame>) {
        self.filter.begin(now, before);
    }

    fn end(&mut self, before: &mut Vec<Frame>) {
        self.filter.end(before);
    }

    fn held(&self) -> usize {
        self.filter.held()
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.filter.receive(frame)
    }

    fn send(&mut self, port: PortId, frame: &mut Frame) -> Result<Option<PortId>, DropReason> {
        if self.requests.is_request_port(port) {
            let wire = self.requests.wire();
            let cut = wire.point(frame);
            let width = self.key_widths.get(usize::from(cut)).copied();
            if let Some(width) = width.filter(|width| *width > 0) {
                wire.read_key(frame, width, &mut self.key);
                self.log.add(cut, &self.key);
            }
        }
        self.filter.send(port, frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_once_and_a_full_log_leaves_out_more() {
        let log = RequestLog::new();
        log.add(2, &[7]);
        log.add(1, &[1, 2]);
        log.add(2, &[7]);
        assert_eq!(log.take(), [(1, vec![1, 2]), (2, vec![7])]);
        assert_eq!(log.take(), []);
        for number in 0..2 * MAX_REQUESTS as u32 {
            log.add(1, &number.to_be_bytes());
        }
        assert_eq!(log.take().len(), MAX_REQUESTS);
    }
}
