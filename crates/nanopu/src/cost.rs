//! The costs of the model: named parameters, each with its unit and its source.

use std::fmt;

/// Defines the parameters once: identifier, name, unit, default, source.
macro_rules! costs {
    ($($id:ident, $name:literal, $unit:ident, $default:literal, $least:literal, $most:literal, $source:literal;)*) => {
        /// A parameter of the model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cost {
            $(#[doc = $source] $id,)*
        }

        impl Cost {
            /// All parameters, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$(Self::$id,)*];

            /// Returns the name, as `--cost NAME=VALUE` takes it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// Returns the unit.
            pub fn unit(self) -> Unit {
                match self { $(Self::$id => Unit::$unit,)* }
            }

            /// Returns the source of the default.
            pub fn source(self) -> &'static str {
                match self { $(Self::$id => $source,)* }
            }

            /// Returns the default.
            pub fn default_value(self) -> u64 {
                match self { $(Self::$id => $default,)* }
            }

            /// Returns the least and the greatest accepted value.
            pub fn bounds(self) -> (u64, u64) {
                match self { $(Self::$id => ($least, $most),)* }
            }
        }
    };
}

/// Unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Cycles of the core.
    Cycles,
    /// Picoseconds.
    Picoseconds,
    /// Megahertz.
    Megahertz,
    /// Megabits per second.
    Megabits,
    /// Bytes.
    Bytes,
    /// A number without a unit.
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycles => "cycles",
            Self::Picoseconds => "ps",
            Self::Megahertz => "MHz",
            Self::Megabits => "Mb/s",
            Self::Bytes => "bytes",
            Self::Count => "",
        })
    }
}

costs! {
    ClockRate, "clock", Megahertz, 3200, 1, 100_000, "paper, 3.2";
    LoadUse, "load-use", Cycles, 1, 0, 1000, "Rocket: a load's result is ready one cycle after an operation's; a word and more";
    SubwordLoadUse, "subword-load-use", Cycles, 2, 0, 1000, "Rocket: bytes and halfwords are aligned and extended one cycle later";
    Mispredict, "mispredict", Cycles, 3, 0, 1000, "Rocket: branches are resolved in the memory stage, three cycles after the fetch";
    JumpMiss, "jump-miss", Cycles, 3, 0, 1000, "Rocket: a jump that is not in the BTB is resolved like a branch";
    Multiply, "multiply", Cycles, 10, 1, 1000, "Rocket, public configuration of the prototype (big cores): 8 bits a cycle, 64 bits, a cycle each for request and result; multiply-exit saves steps";
    Divide, "divide", Cycles, 67, 1, 1000, "Rocket, public configuration of the prototype (big cores): a bit a cycle, 65 steps, a cycle each for request and result; one or two more with signs; divide-exit saves steps";
    MultiplyExit, "multiply-exit", Count, 1, 0, 1, "Rocket, public configuration of the prototype (big cores): 1, a multiplication ends when the rest of its first operand is zero; 0 is never";
    DivideExit, "divide-exit", Count, 1, 0, 1, "Rocket, public configuration of the prototype (big cores): 1, a division begins at the highest bit that the quotient can have; 0 is at bit 63";
    FloatOp, "float", Cycles, 4, 1, 1000, "Rocket: fused multiply-add pipeline, latency of result, double";
    FloatDivide, "float-divide", Cycles, 28, 1, 1000, "Rocket: iterative division and square root, double";
    CsrAccess, "csr", Cycles, 1, 1, 1000, "Rocket: one instruction a cycle, without csr-use and csr-flush";
    CsrUse, "csr-use", Cycles, 2, 0, 1000, "Rocket: the result of a CSR access is not bypassed from the execute and memory stages";
    CsrFlush, "csr-flush", Cycles, 4, 0, 1000, "Rocket: a write of a CSR other than mscratch to mtval flushes the pipeline in the write-back stage, one after branches; assumption: network CSRs are no exception";
    Fence, "fence", Cycles, 5, 1, 1000, "assumption: a pipeline flush";
    Trap, "trap", Cycles, 5, 1, 1000, "assumption: a pipeline flush";
    Atomic, "atomic", Cycles, 5, 1, 1000, "Rocket: atomic unit of the data cache, latency of result";
    Misaligned, "misaligned", Cycles, 100, 0, 100_000, "assumption: Rocket traps, and a handler does two accesses";
    Uncached, "uncached", Cycles, 10, 0, 100_000, "assumption: a load or store of the timer's registers, over the system bus";
    InstructionCacheBytes, "l1i-bytes", Bytes, 16384, 64, 67_108_864, "paper, 3.2.1";
    DataCacheBytes, "l1d-bytes", Bytes, 16384, 64, 67_108_864, "paper, 3.2.1";
    L1Ways, "l1-ways", Count, 4, 1, 64, "Rocket: default configuration";
    LlcBytes, "llc-bytes", Bytes, 524_288, 64, 1_073_741_824, "paper, 3.2.1";
    LlcWays, "llc-ways", Count, 8, 1, 64, "SiFive inclusive cache: default configuration";
    Llc, "llc", Cycles, 20, 0, 100_000, "assumption: L1 miss that hits the shared cache";
    Dram, "dram", Picoseconds, 80_000, 0, 1_000_000_000, "assumption: miss of the shared cache, DDR4";
    MessageLimit, "message-limit", Cycles, 3000, 1, 1_000_000_000, "public sources of the prototype, about 1 us";
    LineRate, "line-rate", Megabits, 200_000, 1, 10_000_000, "paper, 2";
    Ingress, "ingress", Picoseconds, 38_000, 0, 1_000_000_000, "last bit to the core's queue: paper, 1 (below 40 ns), calibrated with egress by the loopback of 65 ns";
    Egress, "egress", Picoseconds, 22_775, 0, 1_000_000_000, "last word to first bit: calibrated with ingress by the loopback of 65 ns (paper, figure 1)";
    Dispatch, "dispatch", Picoseconds, 2000, 0, 1_000_000_000, "assumption: global queue to a core's queue after lmsgdone";
    SerialIo, "serial-io", Picoseconds, 0, 0, 1_000_000_000, "paper, 3.2: MAC and serial IO are not in the prototype; they add 26000 in each direction";
    Link, "link", Picoseconds, 43_000, 1, 1_000_000_000_000, "paper, 3.2.1";
    Switch, "switch", Picoseconds, 300_000, 0, 1_000_000_000_000, "paper, 3.2.3: 300 ns, or 1 ns";
    SwitchQueue, "switch-queue", Count, 8, 1, 65_536, "NDP: packets of an output queue before the switch trims";
    Timeout, "ndp-timeout", Cycles, 30_000, 1, 1_000_000_000_000, "public sources of the prototype, about 10 us";
    Retries, "ndp-retries", Count, 64, 1, 1_000_000, "assumption: timeouts after which a message is given up and counted";
    TxBuffers, "tx-buffers", Count, 64, 1, 65_535, "public sources of the prototype";
    RxBuffers, "rx-buffers", Count, 64, 1, 65_535, "public sources of the prototype";
    Jbsq, "jbsq", Count, 2, 1, 65_535, "paper, 2: JBSQ with two messages a core";
    YieldLimit, "yield-limit", Count, 50_000_000, 1, 1_000_000_000_000, "instructions without a poll before the fault never-yields";
}

/// Values of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    values: Vec<u64>,
}

impl Default for CostTable {
    fn default() -> Self {
        Self {
            values: Cost::ALL.iter().map(|c| c.default_value()).collect(),
        }
    }
}

impl CostTable {
    /// Returns the value of a parameter.
    pub fn get(&self, cost: Cost) -> u64 {
        self.values[cost as usize]
    }

    /// Sets a parameter.
    ///
    /// # Errors
    /// The value is outside of the parameter's bounds.
    pub fn set(&mut self, cost: Cost, value: u64) -> Result<(), CostError> {
        let (least, most) = cost.bounds();
        if !(least..=most).contains(&value) {
            return Err(CostError::OutOfRange { cost, value });
        }
        self.values[cost as usize] = value;
        Ok(())
    }

    /// Sets a parameter from text of the form `NAME=VALUE`, as `--cost` has it.
    ///
    /// # Errors
    /// The form is wrong, no parameter has the name, or the value is not a number of its range.
    pub fn set_text(&mut self, text: &str) -> Result<(), CostError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(CostError::Form(text.to_owned()));
        };
        let (name, value) = (name.trim(), value.trim());
        let cost = Cost::ALL.iter().find(|c| c.name() == name);
        let cost = *cost.ok_or_else(|| CostError::Name(name.to_owned()))?;
        let digits = value.replace('_', "");
        let number = digits.parse().map_err(|_| CostError::Value {
            cost,
            text: value.to_owned(),
        })?;
        self.set(cost, number)
    }

    /// Iterates over parameters and values.
    pub fn iter(&self) -> impl Iterator<Item = (Cost, u64)> + '_ {
        Cost::ALL.iter().map(|&cost| (cost, self.get(cost)))
    }

    /// Returns the time that a number of bytes takes at the line rate, rounded up.
    pub fn wire_time(&self, bytes: usize) -> crate::Picos {
        let bits = bytes as u128 * 8 * 1_000_000;
        let picos = bits.div_ceil(u128::from(self.get(Cost::LineRate)));
        crate::Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

/// Mistake in a setting of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostError {
    /// The text has no `=`.
    Form(String),
    /// No parameter has this name.
    Name(String),
    /// The value is not a whole number.
    Value {
        /// Parameter.
        cost: Cost,
        /// Text in the place of the value.
        text: String,
    },
    /// The value is outside of the parameter's bounds.
    OutOfRange {
        /// Parameter.
        cost: Cost,
        /// Value.
        value: u64,
    },
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "`{text}` is not NAME=VALUE, for example mispredict=5"),
            Self::Name(name) => {
                let names: Vec<&str> = Cost::ALL.iter().map(|c| c.name()).collect();
                write!(
                    f,
                    "no cost is called `{name}`; the names are {}",
                    names.join(", ")
                )
            }
            Self::Value { cost, text } => write!(
                f,
                "the value of `{}` is a whole number of {}, not `{text}`",
                cost.name(),
                cost.unit()
            ),
            Self::OutOfRange { cost, value } => {
                let (least, most) = cost.bounds();
                write!(
                    f,
                    "{value} is no value of `{}`: it is {least} to {most}",
                    cost.name()
                )
            }
        }
    }
}

impl std::error::Error for CostError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_bounds_and_names_are_unique() {
        let mut table = CostTable::default();
        for &cost in Cost::ALL {
            table.set(cost, cost.default_value()).unwrap();
            assert_eq!(
                Cost::ALL.iter().filter(|c| c.name() == cost.name()).count(),
                1
            );
        }
        assert_eq!(table, CostTable::default());
    }

    #[test]
    fn text_sets_a_value_and_mistakes_are_named() {
        let mut table = CostTable::default();
        table.set_text("mispredict=5").unwrap();
        assert_eq!(table.get(Cost::Mispredict), 5);
        assert!(matches!(
            table.set_text("mispredict"),
            Err(CostError::Form(_))
        ));
        assert!(matches!(
            table.set_text("mistake=1"),
            Err(CostError::Name(_))
        ));
        assert!(matches!(
            table.set_text("llc=many"),
            Err(CostError::Value { .. })
        ));
        assert!(matches!(
            table.set_text("l1-ways=0"),
            Err(CostError::OutOfRange { .. })
        ));
    }

    #[test]
    fn sixteen_bytes_take_640_picoseconds() {
        assert_eq!(CostTable::default().wire_time(16), crate::Picos(640));
    }
}
