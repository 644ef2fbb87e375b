//! Runs bursts on a compiled fast path.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use exec::{Burst, CompiledFastPath, Derived, DeviceView, PacketContext, PrefetchStage, State};
use ir::TableId;
use table::CounterShard;
use table::prefetch::prefetch_value;

use crate::abi::{self, WORTH_SCOUTING};
use crate::backend::FastPathCode;
use crate::{prefetch_list, view};

/// Maximum number of tables that are prefetched. The bound keeps the time small, since it is not
/// charged to any device.
const MAX_ASKED: usize = 8;

/// Average number of packets per segment from which on segments are processed one by one.
const FEW_OF_A_LOT: usize = 4;

/// Compiled fast path of a program.
pub(crate) struct LoadedFastPath {
    compiled: FastPathCode,
    /// True if a device uses it.
    is_taken: AtomicBool,
    /// Variant for interleaved bursts. It is compiled when a second device uses the program. The
    /// inner option is empty if it cannot be compiled.
    mixed: OnceLock<Option<FastPathCode>>,
    /// Those of the first tables that may be searched by their own code. Native code searches the
    /// others.
    searched: Box<[TableId]>,
}

impl LoadedFastPath {
    pub(crate) fn new(compiled: FastPathCode) -> LoadedFastPath {
        let tables = compiled.code.tables.ids().take(MAX_ASKED);
        let searched = tables.filter(|table| compiled.code.is_searched(*table));
        LoadedFastPath {
            searched: searched.collect(),
            compiled,
            is_taken: AtomicBool::new(false),
            mixed: OnceLock::new(),
        }
    }

    /// Registers one more device. From the second device on, compiles the variant for interleaved
    /// bursts. It is kept if both variants can use the same derived data.
    pub(crate) fn take(&self, compile: impl FnOnce() -> Option<FastPathCode>) {
        if self.is_taken.swap(true, Ordering::Relaxed) && !self.compiled.code.calls_natives() {
            let does = |mixed: &FastPathCode| self.compiled.code.sees_as(&mixed.code);
            self.mixed.get_or_init(|| compile().filter(does));
        }
    }

    /// Returns the variant for interleaved bursts, if there is one.
    pub(crate) fn mixed(&self) -> Option<&FastPathCode> {
        self.mixed.get()?.as_ref()
    }
}

impl CompiledFastPath for LoadedFastPath {
    fn derive(&self, state: &Arc<State>, lane: CounterShard, derived: &mut Derived) {
        view::derive(derived, state, lane, &self.compiled.code);
    }

    fn prefetch(&self, what: PrefetchStage, owner: &DeviceView) {
        let Some(state) = owner.state() else {
            return;
        };
        if what == PrefetchStage::Tables {
            view::ask_for_totals(
                &owner.derived,
                self.compiled.code.tables.len().min(MAX_ASKED),
            );
        }
        for table in self.searched.iter().filter_map(|table| state.table(*table)) {
            match what {
                PrefetchStage::Tables => prefetch_value(table),
                PrefetchStage::Lookups => prefetch_value(&*table.lookup),
                PrefetchStage::Entries => table.lookup.ask_for(),
            }
        }
    }

    fn run(&self, burst: &mut Burst<'_>, context: &mut PacketContext) -> usize {
        let few = burst.order.len() < FEW_OF_A_LOT * burst.segments.len();
        let mixed = self.mixed().filter(|_| few && burst.segments.len() > 1);
        let compiled = mixed.unwrap_or(&self.compiled);
        if let [lot] = burst.segments
            && burst.order.len() < WORTH_SCOUTING
        {
            prefetch_list::prefetch_all(&lot.owner.derived.words);
        }
        abi::run_pass(&compiled.native, burst, context, &compiled.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::compile_pass;
    use crate::translate::BurstLayout;
    use exec::{FastPath, FastPathStep, Natives, PassInput};
    use ir::{ControlId, FieldId, Layout, ParserId};

    #[test]
    fn tables_in_which_native_code_always_finds_keys_are_not_asked_for_ahead() {
        let table = |name: &str, kind: &str| {
            format!(
                "table {name} {{\n key a: {kind} as bit<32> = a;\n action none table_and_default;\n default none();\n size 16 declared;\n}}\n"
            )
        };
        let names = ["one", "two", "three"];
        let kinds = ["exact", "ternary", "exact"];
        let tables = names
            .iter()
            .zip(kinds)
            .map(|(name, kind)| table(name, kind));
        let nexts = ["two", "three", "end"];
        let stages = names.iter().zip(nexts);
        let stages =
            stages.map(|(name, next)| format!(" stage {name}: match {name} next {next};\n"));
        let text = format!(
            "program p own\nfield a: bit<32>\nparser p start s {{\n state s {{\n goto accept;\n }}\n}}\naction none() {{\n}}\n{}control c {{\n{}}}\n",
            tables.collect::<String>(),
            stages.collect::<String>(),
        );
        let program = ir::read(&text).expect("the text is IR");
        let pass = FastPath {
            steps: vec![
                FastPathStep::Parse {
                    parser: ParserId::new(0),
                    errors: Vec::new(),
                },
                FastPathStep::Set(FieldId::new(0), PassInput::IngressPort),
                FastPathStep::Control(ControlId::new(0)),
            ],
        };
        let (layout, natives) = (Layout::of(&program), Natives::default());
        let compiled = compile_pass(&program, &layout, &natives, &pass, BurstLayout::Grouped)
            .expect("it is compiled");
        let fused = LoadedFastPath::new(compiled);
        assert_eq!(*fused.searched, [TableId::new(1)]);
    }
}
