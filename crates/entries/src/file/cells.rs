//! Statements that write cells: registers, counters and meters.

use bits::Value;
use ir::CounterUnit;

use super::Reader;
use crate::cells;
use crate::error::EntriesError;
use crate::resolve::Word;
use crate::schema::ValueTy;
use crate::update::{CounterValue, MeterConfig, Update};

impl<'a> Reader<'a> {
    /// Reads `[index]`. Returns `None` if there is no index, which means all cells.
    fn index(&mut self, size: u32) -> Result<Option<u32>, EntriesError> {
        if !self.eat("[") {
            return Ok(None);
        }
        let at = self.here();
        let index = self.number32("an index")?;
        let index = cells::index_below(index, size, (at.0, self.at))?;
        self.expect("]", false)?;
        Ok(Some(index))
    }

    pub(super) fn register(&mut self) -> Result<Update, EntriesError> {
        let name = self.name("a register")?;
        let (register, cell, size) = cells::register(self.schema, name)?;
        let index = self.index(size)?;
        self.expect("=", false)?;
        self.skip_blanks(false);
        let values = self.cell(cell)?;
        Ok(Update::Register {
            register,
            index,
            values,
        })
    }

    /// Reads one value, or `{ a, b }`.
    fn cell(&mut self, cell: &[ValueTy]) -> Result<Vec<Value>, EntriesError> {
        let at = self.here();
        let mut words = Vec::new();
        if self.eat("{") {
            loop {
                self.skip_blanks(true);
                if self.eat("}") {
                    break;
                }
                words.push(self.raw(&[',', '}'])?);
                self.skip_blanks(true);
                let _ = self.eat(",");
            }
        } else {
            words.push(self.bare_value());
        }
        cells::values(self.schema, cell, &words, at)
    }

    /// Reads a value that ends at a blank or `;`.
    pub(super) fn bare_value(&mut self) -> Word<'a> {
        self.skip_blanks(false);
        let rest = self.rest();
        let len = rest
            .find(|c: char| c.is_whitespace() || c == ';' || c == '#')
            .unwrap_or(rest.len());
        let word = Word::new(&rest[..len], self.at);
        self.at += len;
        word
    }

    pub(super) fn meter(&mut self) -> Result<Update, EntriesError> {
        let name = self.name("a meter")?;
        let (meter, size) = cells::meter(self.schema, name)?;
        let index = self.index(size)?;
        Ok(Update::Meter {
            meter,
            index,
            config: self.rates()?,
        })
    }

    /// Reads `cir N cburst N pir N pburst N`, or `cir N cburst N` and maybe `eburst N` for a single
    /// rate, in any order.
    pub(super) fn rates(&mut self) -> Result<MeterConfig, EntriesError> {
        self.skip_blanks(false);
        let at = self.here();
        let mut rates: [Option<u64>; 5] = [None; 5];
        const NAMES: [&str; 5] = ["cir", "cburst", "pir", "pburst", "eburst"];
        while let Some(which) = NAMES.iter().position(|name| self.keyword(name)) {
            rates[which] = Some(self.number("a rate or burst")?);
        }
        match rates {
            [Some(cir), Some(cburst), Some(pir), Some(pburst), None] if cir <= pir => {
                Ok(MeterConfig {
                    cir,
                    cburst,
                    pir,
                    pburst,
                    eburst: None,
                })
            }
            [Some(cir), Some(cburst), None, None, eburst] => {
                Ok(MeterConfig::single_rate(cir, cburst, eburst.unwrap_or(0)))
            }
            [Some(cir), _, Some(pir), _, _] if cir > pir => Err(EntriesError::new(
                at,
                format!("the committed rate {cir} is above the peak rate {pir}"),
            )),
            _ => Err(EntriesError::new(
                at,
                "a meter needs `cir N cburst N pir N pburst N`, or with a single rate `cir N cburst N eburst N`: rates a second, bursts in packets or bytes",
            )),
        }
    }

    pub(super) fn counter(&mut self) -> Result<Update, EntriesError> {
        let name = self.name("a counter")?;
        let (counter, unit, size) = cells::counter(self.schema, name)?;
        let at = self.here();
        let Some(index) = self.index(size)? else {
            return Err(EntriesError::new(
                at,
                "a counter is written with an index, as in `counter NAME[3] = packets 0 bytes 0`",
            ));
        };
        self.expect("=", false)?;
        let value = self.counts()?;
        if unit == CounterUnit::Packets && value.bytes != 0
            || unit == CounterUnit::Bytes && value.packets != 0
        {
            return Err(EntriesError::new(
                name.at(),
                "this counter does not count that",
            ));
        }
        Ok(Update::Counter {
            counter,
            index,
            value,
        })
    }

    pub(super) fn counts(&mut self) -> Result<CounterValue, EntriesError> {
        let mut value = CounterValue::default();
        loop {
            if self.keyword("packets") {
                value.packets = self.number("a number of packets")?;
            } else if self.keyword("bytes") {
                value.bytes = self.number("a number of bytes")?;
            } else {
                return Ok(value);
            }
        }
    }
}
