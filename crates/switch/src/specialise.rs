//! Specialised code: a second version of a program's fast path, made for what the tables hold at
//! one moment. The device guards it: a publication for which the facts do not hold publishes the
//! code for any tables, together with the new state. So no packet that begins after a change is
//! published runs code that was made for the state before.
//!
//! The device starts no thread. A caller takes a [`SpecialisationJob`], runs it wherever it wants,
//! and returns the result.

use std::sync::Arc;

use exec::{CompiledFastPath, Facts, Unsupported};
use ir::TableId;

use crate::core::Code;
use crate::device::Device;

/// Specialised code of a device's program, with the facts for which it was made.
#[derive(Clone)]
pub(crate) struct Specialised {
    pub(crate) run: Arc<dyn CompiledFastPath>,
    facts: Arc<Facts>,
}

/// Specialisation of a device: its specialised code, if it runs any, and counts.
#[derive(Default)]
pub(crate) struct Specialisation {
    current: Option<Specialised>,
    report: SpecialisationReport,
}

/// Counts of a device's specialised code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialisationReport {
    /// True if packets run specialised code.
    pub is_running: bool,
    /// Number of times that specialised code was published.
    pub published: u64,
    /// Number of times that it was left because a table had changed.
    pub left: u64,
    /// The table for which it was last left.
    pub left_for: Option<TableId>,
}

/// Work to make specialised code, for another thread.
pub struct SpecialisationJob {
    code: Arc<Code>,
    facts: Facts,
}

/// Specialised code that no device runs yet.
pub struct SpecialisedCode {
    code: Arc<Code>,
    made: Specialised,
}

impl SpecialisationJob {
    /// Returns the facts for which the code is made.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes the code.
    ///
    /// # Errors
    /// The engine does not make it. Contains the reason.
    pub fn run(self) -> Result<SpecialisedCode, Unsupported> {
        let SpecialisationJob { code, facts } = self;
        let Some(fused) = &code.fused else {
            return Err(no_fast_path());
        };
        let run = code.loaded.specialise(&fused.plan.pass, &facts)?;
        let made = Specialised {
            run,
            facts: Arc::new(facts),
        };
        Ok(SpecialisedCode { code, made })
    }
}

fn no_fast_path() -> Unsupported {
    Unsupported {
        construct: "a program without a compiled fast path".to_string(),
        loc: None,
    }
}

impl Device {
    /// Returns the facts that hold for the tables now.
    pub fn facts(&self) -> Facts {
        Facts::of(&self.configuration)
    }

    /// Returns the facts for which the specialised code was made that packets run, if they run any.
    pub fn specialised_facts(&self) -> Option<&Facts> {
        let current = self.specialisation.current.as_ref();
        current.map(|specialised| &*specialised.facts)
    }

    /// Returns the work to make code for the current contents of the tables. Returns `None` if
    /// packets run such code, or if nothing of use is known about the tables.
    ///
    /// # Errors
    /// The program has no fast path that could be specialised.
    pub fn specialisation_job(&self) -> Result<Option<SpecialisationJob>, Unsupported> {
        if self.code().fused.is_none() {
            return Err(no_fast_path());
        }
        let facts = self.facts();
        if !facts.are_of_use() || self.specialised_facts() == Some(&facts) {
            return Ok(None);
        }
        Ok(Some(SpecialisationJob {
            code: Arc::clone(self.code()),
            facts,
        }))
    }

    /// Publishes specialised code, if it was made for this program and its facts still hold.
    /// Returns true if packets received from now on run it.
    pub fn adopt_specialised(&mut self, code: SpecialisedCode) -> bool {
        let SpecialisedCode { code, made } = code;
        let is_of_program = Arc::ptr_eq(&code, self.code());
        let broken_by = made.facts.broken_by(&self.configuration, |_| true);
        if !is_of_program || broken_by.is_some() || self.is_provisional() {
            return false;
        }
        self.specialisation.current = Some(made);
        self.specialisation.report.published += 1;
        self.is_stale = true;
        self.publish();
        self.specialisation.current.is_some()
    }

    /// Makes packets run the code for any tables from the next publication on.
    pub fn leave_specialised(&mut self) {
        if self.specialisation.current.take().is_some() {
            self.is_stale = true;
        }
    }

    /// Returns the counts of the device's specialised code.
    pub fn specialisation(&self) -> SpecialisationReport {
        SpecialisationReport {
            is_running: self.specialisation.current.is_some(),
            ..self.specialisation.report
        }
    }

    /// Returns the specialised code for a new state. Leaves code of which the state breaks the
    /// facts. `may_have_changed` is false for tables that are the same in the published state.
    pub(crate) fn guarded_code(
        &mut self,
        may_have_changed: impl FnMut(TableId) -> bool,
    ) -> Option<Arc<dyn CompiledFastPath>> {
        let current = self.specialisation.current.as_ref()?;
        let broken = current
            .facts
            .broken_by(&self.configuration, may_have_changed);
        if let Some(table) = broken {
            self.specialisation.current = None;
            let report = &mut self.specialisation.report;
            report.left += 1;
            report.left_for = Some(table);
            return None;
        }
        Some(Arc::clone(&current.run))
    }
}
