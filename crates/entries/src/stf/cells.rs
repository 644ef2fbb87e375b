//! Commands that write, read and check registers, counters and meters.

use bits::Value;

use super::{COMMANDS, CommandKind, Comparison, CounterRef, Line, number32, number64, words};
use crate::cells;
use crate::error::EntriesError;
use crate::resolve::{self, Word};
use crate::update::{CounterValue, MeterConfig, Update};

impl<'a> Line<'a> {
    pub(super) fn state(
        &self,
        keyword: &str,
        name: Word<'a>,
        args: &[Word<'a>],
    ) -> Result<CommandKind, EntriesError> {
        Ok(match (keyword, args) {
            ("register_read", [register]) => {
                CommandKind::RegisterRead(cells::register(self.schema, *register)?.0, None)
            }
            ("register_read", [register, index]) => {
                let (id, _, size) = cells::register(self.schema, *register)?;
                CommandKind::RegisterRead(id, Some(index_below(*index, size)?))
            }
            ("register_write", [register, index, values @ ..]) => {
                self.register_write(*register, Some(*index), values)?
            }
            ("register_reset", [register]) => self.register_write(*register, None, &[])?,
            ("counter_read", [counter, index]) => {
                let (id, _, size) = cells::counter(self.schema, *counter)?;
                CommandKind::CounterRead(id, index_below(*index, size)?)
            }
            ("counter_reset", [counter]) => {
                CommandKind::CounterReset(cells::counter(self.schema, *counter)?.0)
            }
            ("counter_write", [counter, index, packets, bytes]) => {
                let (counter, _, size) = cells::counter(self.schema, *counter)?;
                let value = CounterValue {
                    packets: number64(*packets)?,
                    bytes: number64(*bytes)?,
                };
                CommandKind::Update(Update::Counter {
                    counter,
                    index: index_below(*index, size)?,
                    value,
                })
            }
            ("check_counter", [_, ..]) => self.check_counter(name)?,
            ("meter_get_rates", [meter, index]) => {
                let (id, size) = cells::meter(self.schema, *meter)?;
                CommandKind::MeterRead(id, index_below(*index, size)?)
            }
            ("meter_set_rates", [meter, index, committed, peak]) => {
                let (meter, size) = cells::meter(self.schema, *meter)?;
                let index = Some(index_below(*index, size)?);
                CommandKind::Update(Update::Meter {
                    meter,
                    index,
                    config: rates(*committed, *peak)?,
                })
            }
            ("meter_array_set_rates", [meter, committed, peak]) => {
                let (meter, _) = cells::meter(self.schema, *meter)?;
                CommandKind::Update(Update::Meter {
                    meter,
                    index: None,
                    config: rates(*committed, *peak)?,
                })
            }
            _ if COMMANDS.contains(&keyword) => return Err(self.usage(keyword)),
            _ => return Err(self.unknown(name)),
        })
    }

    fn register_write(
        &self,
        name: Word<'a>,
        index: Option<Word<'a>>,
        values: &[Word<'a>],
    ) -> Result<CommandKind, EntriesError> {
        let (register, cell, size) = cells::register(self.schema, name)?;
        let index = index.map(|index| index_below(index, size)).transpose()?;
        let values = match values {
            [] => cell.iter().map(|ty| Value::zero(ty.width())).collect(),
            _ => cells::values(self.schema, cell, values, self.word.at())?,
        };
        Ok(CommandKind::Update(Update::Register {
            register,
            index,
            values,
        }))
    }

    /// Reads `check_counter NAME(INDEX) [packets|bytes] [OP NUMBER]`. The default comparison is
    /// `== 1`. With a table's name and an entry's label, it checks a direct counter.
    fn check_counter(&self, keyword: Word<'a>) -> Result<CommandKind, EntriesError> {
        let skip = keyword.start + keyword.text.len() - self.word.start;
        let rest = Word::new(&self.word.text[skip..], self.word.start + skip).trim();
        let (Some(open), Some(close)) = (rest.text.find('('), rest.text.find(')')) else {
            return Err(self.usage("check_counter"));
        };
        if close < open {
            return Err(self.usage("check_counter"));
        }
        let name = Word::new(&rest.text[..open], rest.start).trim();
        let index = Word::new(&rest.text[open + 1..close], rest.start + open + 1).trim();
        let mut tail = words(Word::new(&rest.text[close + 1..], rest.start + close + 1).trim());
        let bytes = tail
            .first()
            .is_some_and(|w| w.text.eq_ignore_ascii_case("bytes"));
        if bytes
            || tail
                .first()
                .is_some_and(|w| w.text.eq_ignore_ascii_case("packets"))
        {
            tail.remove(0);
        }
        let (op, number) = match tail[..] {
            [] => (Comparison::Eq, 1),
            [op, number] => (comparison(op)?, number64(number)?),
            _ => return Err(self.usage("check_counter")),
        };
        let counter = if index.text.bytes().all(|b| b.is_ascii_digit()) && !index.text.is_empty() {
            let (id, _, size) = cells::counter(self.schema, name)?;
            CounterRef::Cell(id, index_below(index, size)?)
        } else {
            CounterRef::Entry(
                resolve::table(self.schema, name)?,
                index.text.trim_start_matches('$').to_string(),
            )
        };
        Ok(CommandKind::CheckCounter {
            counter,
            bytes,
            op,
            number,
        })
    }
}

fn index_below(word: Word<'_>, size: u32) -> Result<u32, EntriesError> {
    cells::index_below(number32(word)?, size, word.at())
}

fn comparison(word: Word<'_>) -> Result<Comparison, EntriesError> {
    Ok(match word.text {
        "==" | "=" => Comparison::Eq,
        "!=" => Comparison::Ne,
        "<" => Comparison::Lt,
        "<=" => Comparison::Le,
        ">" => Comparison::Gt,
        ">=" => Comparison::Ge,
        _ => {
            return Err(EntriesError::new(
                word.at(),
                "one of == != < <= > >= is expected here",
            ));
        }
    })
}

/// Reads `RATE:BURST` twice, committed and peak. Rates are per microsecond.
fn rates(committed: Word<'_>, peak: Word<'_>) -> Result<MeterConfig, EntriesError> {
    let pair = |word: Word<'_>| -> Result<(u64, u64), EntriesError> {
        let fault = || {
            EntriesError::new(
                word.at(),
                "`RATE:BURST` is expected here, the rate in packets or bytes a microsecond",
            )
        };
        let (rate, burst) = word.text.split_once(':').ok_or_else(fault)?;
        let rate: f64 = rate
            .parse()
            .ok()
            .filter(|r: &f64| r.is_finite() && *r >= 0.0)
            .ok_or_else(fault)?;
        Ok((
            (rate * 1e6).round() as u64,
            burst.parse().map_err(|_| fault())?,
        ))
    };
    let (cir, cburst) = pair(committed)?;
    let (pir, pburst) = pair(peak)?;
    Ok(MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst: None,
    })
}
