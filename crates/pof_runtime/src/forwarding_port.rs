//! A port of the loop: its interface, its queue of frames to send, and its link.

use packet::{Batch, Frame, Nanos};
use port::{LinkState, Port};

/// A port with its queue.
pub(crate) struct ForwardingPort {
    id: u16,
    port: Box<dyn Port>,
    outgoing: Batch,
    is_gone: bool,
    /// True if the user knows that the link is down.
    is_told: bool,
    /// False while a PORT_MOD forbids to send.
    pub(crate) is_sending: bool,
    /// Frames that PORT_MOD forbids.
    pub(crate) refused: u64,
}

/// News of a port.
pub(crate) enum PortNews {
    /// Its link is up or down.
    Link(bool),
    /// A line for the user.
    Notice(String),
}

impl ForwardingPort {
    pub(crate) fn new(id: u16, port: Box<dyn Port>) -> ForwardingPort {
        ForwardingPort {
            id,
            port,
            outgoing: Batch::with_capacity(Batch::DEFAULT),
            is_gone: false,
            is_told: false,
            is_sending: true,
            refused: 0,
        }
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn port(&mut self) -> &mut dyn Port {
        &mut *self.port
    }

    /// Returns the descriptor that becomes readable when frames arrive.
    pub(crate) fn poll_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match self.is_gone {
            true => None,
            false => self.port.poll_fd(),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.is_gone && self.port.link() == LinkState::Up
    }

    /// Receives frames until the batch is full.
    pub(crate) fn receive(&mut self, batch: &mut Batch, now: Nanos) -> Option<PortNews> {
        if self.is_gone {
            return None;
        }
        let error = self.port.rx(batch, now).err()?;
        self.is_gone = !error.is_recoverable();
        self.is_told = true;
        Some(PortNews::Notice(format!("port {}: {error}", self.id)))
    }

    /// Puts a frame into the queue.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if !self.is_sending {
            self.refused += 1;
            return;
        }
        if self.outgoing.room() == 0 {
            self.flush();
        }
        if let Some(frame) = self.outgoing.push()
            && frame.assign(bytes).is_err()
        {
            self.outgoing.pop();
        }
    }

    /// Sends the frames of the queue. Their fates are in the port's statistics.
    pub(crate) fn flush(&mut self) {
        if !self.outgoing.is_empty() {
            let frames: &[Frame] = self.outgoing.frames();
            self.port.tx(frames);
            self.outgoing.clear();
        }
    }

    /// Looks at the link, and for an interface that was removed.
    pub(crate) fn look(&mut self, now: Nanos) -> Vec<PortNews> {
        let mut news = Vec::new();
        let id = self.id;
        if self.is_gone
            && let Some(how) = self.port.comes_back(now)
        {
            self.is_gone = false;
            self.is_told = false;
            let name = self.port.name();
            let line = format!("port {id}: {name} is back, by {how}");
            news.push(PortNews::Notice(line));
        }
        let is_up = self.is_up();
        if is_up && self.is_told {
            self.is_told = false;
            let name = self.port.name();
            news.push(PortNews::Notice(format!("port {id}: {name} is up again")));
        }
        news.push(PortNews::Link(is_up));
        news
    }
}
