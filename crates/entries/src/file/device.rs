//! Statements about the device: port queues, hash parameters and host ports.

use super::Reader;
use crate::error::EntriesError;
use crate::ports;
use crate::update::{CrcSetting, QueueSetting, Update};

impl Reader<'_> {
    /// Reads `queue port 1 priority 3 rate 100 depth 64`, after `port`.
    pub(super) fn queue(&mut self) -> Result<Update, EntriesError> {
        let (port, at) = self.placed("a port")?;
        ports::check_copy(self.schema.arch, port, at)?;
        let mut queue = QueueSetting {
            port,
            ..QueueSetting::default()
        };
        if self.keyword("priority") {
            let (priority, at) = self.placed("a priority")?;
            queue.priority = Some(ports::check_priority(priority, at)?);
        }
        loop {
            if self.keyword("rate") {
                queue.packets_per_second = Some(self.rate("a number of packets a second")?);
            } else if self.keyword("bits") {
                queue.bits_per_second = Some(self.rate("a number of bits a second")?);
            } else if self.keyword("depth") {
                queue.depth = Some(self.positive("a number of packets")?);
            } else {
                return Ok(Update::Queue(queue));
            }
        }
    }

    fn rate(&mut self, what: &str) -> Result<u64, EntriesError> {
        self.skip_blanks(false);
        let start = self.at;
        match self.number(what)? {
            0 => {
                let fault = EntriesError::new((start, self.at), format!("{what} is at least 1"));
                Err(fault.hint("leave it out for no limit"))
            }
            rate => Ok(rate),
        }
    }

    /// Reads `hash crc16 polynomial 0x1021 initial 0xffff`, after the name of the CRC.
    pub(super) fn hash_crc(&mut self, bits: u32) -> Result<Update, EntriesError> {
        let mut crc = CrcSetting::default();
        loop {
            if self.keyword("polynomial") {
                crc.polynomial = Some(self.word_of(bits, "a polynomial")?);
            } else if self.keyword("initial") {
                crc.initial = Some(self.word_of(bits, "a first remainder")?);
            } else if self.keyword("final_xor") {
                crc.final_xor = Some(self.word_of(bits, "a mask")?);
            } else if self.keyword("reflect_in") {
                crc.reflect_in = Some(self.truth()?);
            } else if self.keyword("reflect_out") {
                crc.reflect_out = Some(self.truth()?);
            } else if crc == CrcSetting::default() {
                let message = "`polynomial`, `initial`, `final_xor`, `reflect_in` or `reflect_out` is expected here";
                return Err(EntriesError::new(self.here(), message));
            } else {
                return Ok(Update::HashCrc { bits, crc });
            }
        }
    }

    fn word_of(&mut self, bits: u32, what: &str) -> Result<u32, EntriesError> {
        let (number, at) = self.placed(what)?;
        if bits < u32::BITS {
            ports::check_bits(number, bits, what, at)?;
        }
        Ok(number)
    }

    fn truth(&mut self) -> Result<bool, EntriesError> {
        if self.keyword("true") {
            return Ok(true);
        }
        match self.keyword("false") {
            true => Ok(false),
            false => Err(EntriesError::new(
                self.here(),
                "`true` or `false` is expected here",
            )),
        }
    }

    /// Reads `host_ports 1, 2` or `host_ports none`, after the first word.
    pub(super) fn host_ports(&mut self) -> Result<Update, EntriesError> {
        let mut ports = Vec::new();
        if self.keyword("none") {
            return Ok(Update::HostPorts(ports));
        }
        loop {
            let (port, at) = self.placed("a port, or `none`,")?;
            ports::check_copy(self.schema.arch, port, at)?;
            ports.push(port);
            if !self.eat(",") {
                return Ok(Update::HostPorts(ports));
            }
            self.skip_blanks(true);
        }
    }

    /// Reads `hash toeplitz 0x6d5a56da`, after `toeplitz`. The key has a multiple of 4 bytes.
    pub(super) fn hash_key(&mut self) -> Result<Update, EntriesError> {
        let word = self.bare_value();
        let digits = word.text.strip_prefix("0x").unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let is_key = digits.len() >= 8 && digits.len().is_multiple_of(8);
        let key: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        match key.filter(|_| is_key) {
            Some(key) => Ok(Update::HashKey(key)),
            None => Err(EntriesError::new(
                word.at(),
                "a Toeplitz key is written as 0x and the hexadecimal digits of 4, 8, 12, ... bytes",
            )),
        }
    }
}
