//! Statements about packet replication: multicast groups and clone sessions.

use super::Reader;
use crate::error::EntriesError;
use crate::ports;
use crate::update::{CloneSession, Replica, Update};

impl Reader<'_> {
    pub(super) fn multicast(&mut self) -> Result<Update, EntriesError> {
        Ok(Update::Multicast {
            id: self.group_number()?,
            replicas: self.replicas()?,
        })
    }

    pub(super) fn clone_session(&mut self) -> Result<Update, EntriesError> {
        let mut session = CloneSession {
            id: self.session_number()?,
            replicas: self.replicas()?,
            truncate: None,
            class_of_service: 0,
        };
        loop {
            if self.keyword("truncate") {
                session.truncate = Some(self.positive("a number of bytes")?);
            } else if self.keyword("class") {
                let what = "a class of service";
                let (number, at) = self.placed(what)?;
                ports::check_bits(number, 8, what, at)?;
                session.class_of_service = number;
            } else {
                return Ok(Update::Clone(session));
            }
        }
    }

    pub(super) fn group_number(&mut self) -> Result<u32, EntriesError> {
        self.skip_blanks(false);
        let start = self.at;
        let number = self.number32("a multicast group's number")?;
        ports::check_group(self.schema.arch, number, (start, self.at))?;
        Ok(number)
    }

    pub(super) fn session_number(&mut self) -> Result<u32, EntriesError> {
        let (number, at) = self.placed("a clone session's number")?;
        ports::check_session(self.schema.arch, number, at)?;
        Ok(number)
    }

    /// Reads a number. Returns it with its position.
    pub(super) fn placed(&mut self, what: &str) -> Result<(u32, (usize, usize)), EntriesError> {
        self.skip_blanks(false);
        let start = self.at;
        let number = self.number32(what)?;
        Ok((number, (start, self.at)))
    }

    /// Reads a number that is not 0 and fits into 31 bits, as P4Runtime requires.
    pub(super) fn positive(&mut self, what: &str) -> Result<u32, EntriesError> {
        let (number, at) = self.placed(what)?;
        match number {
            0 => Err(EntriesError::new(at, format!("{what} is at least 1"))),
            _ => ports::check_bits(number, 31, what, at).map(|()| number),
        }
    }

    /// Reads `{ port N [instance N], .. }`, without duplicates.
    fn replicas(&mut self) -> Result<Vec<Replica>, EntriesError> {
        let mut replicas = Vec::new();
        self.expect("{", true)?;
        loop {
            self.skip_blanks(true);
            if self.eat("}") {
                return Ok(replicas);
            }
            let start = self.at;
            let replica = self.replica()?;
            if replicas.contains(&replica) {
                let Replica { port, instance } = replica;
                let message = format!("port {port} instance {instance} is given twice");
                return Err(EntriesError::new((start, self.at), message)
                    .hint("give each copy to the same port an instance of its own"));
            }
            replicas.push(replica);
            self.skip_blanks(true);
            let _ = self.eat(",");
        }
    }

    fn replica(&mut self) -> Result<Replica, EntriesError> {
        if !self.keyword("port") {
            return Err(EntriesError::new(
                self.here(),
                format!("`port` is expected here, not {}", self.found()),
            ));
        }
        self.skip_blanks(false);
        let start = self.at;
        let port = self.number32("a port")?;
        ports::check_copy(self.schema.arch, port, (start, self.at))?;
        let instance = match self.keyword("instance") {
            true => {
                let (number, at) = self.placed("an instance")?;
                ports::check_instance(self.schema.arch, number, at)?;
                number
            }
            false => 0,
        };
        Ok(Replica { port, instance })
    }
}
