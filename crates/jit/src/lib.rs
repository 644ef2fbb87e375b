//! Crate `jit`: engine that compiles programs to native code with Cranelift.
//!
//! **In:** a verified [`ir::Program`]. **Out:** [`Jit`], an [`exec::Engine`] that runs everything
//! the IR can express, with the same results as `interp`.
//!
//! Structure:
//! - Each parser and each control is translated ([`translate`]) to one function, which Cranelift
//!   compiles ([`backend`]). The function accesses the packet's limbs and bytes through the
//!   pointers of an [`abi::Invocation`]. For tables, externs and rare operations it calls
//!   [`helpers`], which use the code of `exec` that all engines share.
//! - The *fast path* of a program is compiled to one function that processes a burst. When a second
//!   device loads the same program, an *interleaved* variant is compiled. In that variant every
//!   packet carries a pointer to its device's state ([`abi::sight`]). A packet's context is
//!   prepared lazily, by the first helper that needs it.
//! - *Prefetch passes* (`translate/scout.rs`) may run before the fast path. They compute the lookup
//!   keys of a burst, so that tables are searched in batches. If a key depends on the result of
//!   another table, its lookup belongs to a later level.
//! - Native code searches hash tables itself (`translate/hashed.rs`) and prefetches what it will
//!   read ([`prefetch`]). Without a prefetched lookup, as in small bursts, it searches hash tables
//!   and tries by itself (`translate/trie.rs`).
//! - Entries' records, direct indices and counters are accessed without a helper ([`view`]).
//! - A fast path may be compiled once more for what the tables hold at one moment
//!   (`translate/known_table.rs`). The device leaves that code when it no longer holds.
//! - The Cranelift IR is optimized before code generation ([`simplify`]).
//!
//! Invariants:
//! - The result for a packet (fields, cursor, emitted bits, requests, work, verdict) is that of
//!   `interp`.
//! - Native code accesses the packet's limbs, its bytes and headroom, the start and length of its
//!   frame, and the counters of its shard. Every access is in bounds for every verified program.
//!   Its memory is freed with the loaded program.
//! - `unsafe` is used only in [`abi`] and [`backend`]: to enter native code, and to create and free
//!   its memory.
//! - Another engine runs traced packets ([`Jit::new`]), so that native code has no tracing.
//!
//! Tests: `testkit/tests/engines`, which runs on every engine.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
#[allow(unsafe_code)]
mod backend;
mod fast_path;
mod helpers;
mod lookup_buffer;
mod prefetch_instruction;
mod prefetch_list;
mod simplify;
mod translate;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use exec::{
    CompiledFastPath, ControlVerdict, DropReason, Engine, Facts, FastPath, Loaded, Natives,
    PacketContext, ParserVerdict, State, Tracer, Unsupported,
};
use ir::{ControlId, Layout, ParserId, Program};

use abi::Outcome;
use backend::{Compiled, FastPathCode};
use fast_path::LoadedFastPath;
use translate::BurstLayout;

/// Engine that compiles programs to native code. Programs that differ only in their names share one
/// compiled copy, so that many devices with the same program share cache lines.
pub struct Jit {
    tracer: Arc<dyn Engine>,
    threads: Threads,
    loaded: Mutex<Vec<Weak<NativeProgram>>>,
}

/// Number of threads that compile a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Two,
}

impl Jit {
    /// Returns the engine. `tracer` is the engine that runs traced packets.
    pub fn new(tracer: Arc<dyn Engine>) -> Jit {
        Jit {
            tracer,
            threads: Threads::One,
            loaded: Mutex::default(),
        }
    }

    /// Returns the same engine with two compilation threads. Use it for programs that start without
    /// waiting packets, on otherwise idle cores.
    pub fn with_two_threads(self) -> Jit {
        Jit {
            threads: Threads::Two,
            ..self
        }
    }

    fn loaded(&self) -> MutexGuard<'_, Vec<Weak<NativeProgram>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the compiled program, for all later loads of an equal program.
    fn keep(
        &self,
        compiled: Compiled,
        (program, layout, natives): (&Arc<Program>, &Layout, &Natives),
    ) -> Arc<NativeProgram> {
        // Host functions may have state, which belongs to one device.
        let is_shared = !compiled.code.calls_natives();
        let loaded = Arc::new(NativeProgram {
            most_limbs: AtomicUsize::new(compiled.code.limbs),
            compiled,
            tracer: Arc::clone(&self.tracer),
            traced: OnceLock::new(),
            program: Arc::clone(program),
            layout: layout.clone(),
            natives: natives.clone(),
            passes: Mutex::default(),
        });
        if is_shared {
            let mut all = self.loaded();
            all.retain(|one| one.strong_count() > 0);
            all.push(Arc::downgrade(&loaded));
        }
        loaded
    }

    /// Returns the compiled code of an equal program, if there is one.
    fn find(&self, program: &Program) -> Option<Arc<NativeProgram>> {
        let loaded = self.loaded();
        let mut alive = loaded.iter().filter_map(Weak::upgrade);
        alive.find(|one| one.program.equals_but_for_name(program))
    }
}

impl Engine for Jit {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        if let Some(known) = self.find(program) {
            return Ok(known);
        }
        let compiled = backend::compile(program, layout, natives)?;
        Ok(self.keep(compiled, (program, layout, natives)))
    }

    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        if self.threads == Threads::One || self.find(program).is_some() {
            return self.load(program, layout, natives);
        }
        let (compiled, fused) = backend::compile_both(program, layout, natives, pass)?;
        let loaded = self.keep(compiled, (program, layout, natives));
        if let Ok(fused) = fused {
            loaded.keep(pass, fused);
        }
        Ok(loaded)
    }
}

/// Loaded program in native code.
struct NativeProgram {
    compiled: Compiled,
    /// Number of limbs that a packet needs for the compiled blocks and fast paths.
    most_limbs: AtomicUsize,
    tracer: Arc<dyn Engine>,
    /// The same program loaded by the tracer, on first use.
    traced: OnceLock<Option<Arc<dyn Loaded>>>,
    program: Arc<Program>,
    layout: Layout,
    natives: Natives,
    /// Compiled fast paths.
    passes: Mutex<Vec<(FastPath, Arc<LoadedFastPath>)>>,
}

impl NativeProgram {
    fn passes(&self) -> MutexGuard<'_, Vec<(FastPath, Arc<LoadedFastPath>)>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a compiled fast path for later calls of `fast_path`.
    fn keep(&self, pass: &FastPath, compiled: FastPathCode) {
        let fused = self.fused(compiled);
        self.passes().push((pass.clone(), fused));
    }

    fn fused(&self, compiled: FastPathCode) -> Arc<LoadedFastPath> {
        let limbs = compiled.code.limbs;
        self.most_limbs.fetch_max(limbs, Ordering::Relaxed);
        Arc::new(LoadedFastPath::new(compiled))
    }

    /// Runs a block with the tracer, with separate scratch limbs after the frame.
    fn trace<V>(
        &self,
        packet: &mut PacketContext,
        run: impl FnOnce(&dyn Loaded, &mut PacketContext) -> V,
    ) -> Option<V> {
        let traced = self.traced.get_or_init(|| {
            let loaded = self.tracer.load(&self.program, &self.layout, &self.natives);
            loaded.ok()
        });
        let traced = traced.as_deref()?;
        let frame = packet.frame().len();
        let mut limbs = vec![0; frame + traced.scratch_limbs()];
        limbs[..frame].copy_from_slice(packet.frame());
        let own = std::mem::replace(&mut packet.limbs, limbs);
        traced.prepare(packet);
        let verdict = run(traced, packet);
        let told = std::mem::replace(&mut packet.limbs, own);
        packet.frame_mut().copy_from_slice(&told[..frame]);
        Some(verdict)
    }
}

fn parser_verdict(outcome: Outcome) -> ParserVerdict {
    match outcome {
        Outcome::Done => ParserVerdict::Accept,
        Outcome::Reject(error) => ParserVerdict::Reject(error),
        Outcome::Drop(reason) => ParserVerdict::Drop(reason),
    }
}

fn control_verdict(outcome: Outcome) -> ControlVerdict {
    match outcome {
        Outcome::Done => ControlVerdict::Done,
        // Verified controls have no reject statement.
        Outcome::Reject(_) => ControlVerdict::Drop(DropReason::ParserReject),
        Outcome::Drop(reason) => ControlVerdict::Drop(reason),
    }
}

impl Loaded for NativeProgram {
    fn scratch_limbs(&self) -> usize {
        self.most_limbs.load(Ordering::Relaxed) - self.layout.limbs() as usize
    }

    fn fuse(&self, pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        let mut passes = self.passes();
        let compile = |arrival| {
            let (program, layout, natives) = (&self.program, &self.layout, &self.natives);
            backend::compile_pass(program, layout, natives, pass, arrival)
        };
        let known = passes.iter().find(|(known, _)| known == pass);
        let fused = match known {
            Some((_, fused)) => Arc::clone(fused),
            None => {
                let fused = self.fused(compile(BurstLayout::Grouped).ok()?);
                passes.push((pass.clone(), Arc::clone(&fused)));
                fused
            }
        };
        fused.take(|| compile(BurstLayout::Interleaved).ok());
        Some(fused)
    }

    fn specialise(
        &self,
        pass: &FastPath,
        facts: &Facts,
    ) -> Result<Arc<dyn CompiledFastPath>, Unsupported> {
        let (program, layout, natives) = (&self.program, &self.layout, &self.natives);
        let compiled = backend::compile_specialised(program, layout, natives, pass, facts)?;
        if compiled.code.limbs > self.most_limbs.load(Ordering::Relaxed) {
            return Err(Unsupported {
                construct: "code that needs larger contexts than the code for any tables".into(),
                loc: None,
            });
        }
        Ok(Arc::new(LoadedFastPath::new(compiled)))
    }

    fn prepare(&self, _packet: &mut PacketContext) {}

    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict {
        let native = self.compiled.parsers[parser];
        parser_verdict(abi::run(native, packet, state, &self.compiled.code))
    }

    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        let native = self.compiled.controls[control];
        control_verdict(abi::run(native, packet, state, &self.compiled.code))
    }

    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        let verdict = self.trace(packet, |traced, packet| {
            traced.trace_parser(parser, packet, state, tracer)
        });
        verdict.unwrap_or_else(|| self.run_parser(parser, packet, state))
    }

    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        let verdict = self.trace(packet, |traced, packet| {
            traced.trace_control(control, packet, state, tracer)
        });
        verdict.unwrap_or_else(|| self.run_control(control, packet, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::FastPathStep;

    /// Returns a program with this name. Its only control runs `code` on the field `a`.
    fn program(name: &str, code: &str) -> Arc<Program> {
        let text = format!(
            "program {name} psa\nfield a: bit<8>\ncontrol c {{\n stage c.code: action next end {{\n{code}\n}}\n}}\n"
        );
        Arc::new(ir::read(&text).expect("the text is IR"))
    }

    fn engine() -> Jit {
        struct NoTracer;
        impl Engine for NoTracer {
            fn name(&self) -> &'static str {
                "none"
            }
            fn load(
                &self,
                _: &Arc<Program>,
                _: &Layout,
                _: &Natives,
            ) -> Result<Arc<dyn Loaded>, Unsupported> {
                Err(Unsupported {
                    construct: "everything".into(),
                    loc: None,
                })
            }
        }
        Jit::new(Arc::new(NoTracer))
    }

    fn load(engine: &Jit, program: &Arc<Program>) -> Arc<dyn Loaded> {
        let mut natives = Natives::default();
        natives.insert("twice", |args, results| results[0] = 2 * args[0]);
        let loaded = engine.load(program, &Layout::of(program), &natives);
        loaded.expect("the engine runs it")
    }

    /// Returns true if both programs share their compiled code.
    fn is_shared(one: &Arc<Program>, other: &Arc<Program>) -> bool {
        let engine = engine();
        let loaded = [one, other].map(|program| load(&engine, program));
        Arc::ptr_eq(&loaded[0], &loaded[1])
    }

    #[test]
    fn programs_that_are_equal_but_for_their_names_share_code() {
        let one = program("one", "a = 8w0x1;");
        assert!(is_shared(&one, &program("other", "a = 8w0x1;")));
        assert!(!is_shared(&one, &program("one", "a = 8w0x2;")));
    }

    #[test]
    fn programs_that_call_functions_of_the_host_share_no_code() {
        let one = program("one", r#"call native ("twice", {a}, out {a});"#);
        assert!(!is_shared(&one, &one));
    }

    #[test]
    fn two_threads_make_a_pass_when_its_program_is_loaded() {
        let program = program("one", "a = 8w0x1;");
        let pass = FastPath {
            steps: vec![FastPathStep::Control(ControlId::new(0))],
        };
        for (engine, made) in [(engine(), 0), (engine().with_two_threads(), 1)] {
            let (layout, natives) = (Layout::of(&program), Natives::default());
            let loaded = engine.load_with(&program, &layout, &natives, &pass);
            let loaded = loaded.expect("the engine runs it");
            let passes = || engine.find(&program).map(|one| one.passes().len());
            assert_eq!(passes(), Some(made));
            assert!(loaded.fuse(&pass).is_some());
            assert_eq!(passes(), Some(1), "it is made once");
        }
    }

    #[test]
    fn code_for_mixed_packets_is_made_when_a_second_device_has_the_program() {
        let pass = FastPath {
            steps: vec![FastPathStep::Control(ControlId::new(0))],
        };
        let program = program("one", "a = 8w0x1;");
        for engine in [engine(), engine().with_two_threads()] {
            let (layout, natives) = (Layout::of(&program), Natives::default());
            let loaded = engine.load_with(&program, &layout, &natives, &pass);
            let loaded = loaded.expect("the engine runs it");
            for devices in 1..4 {
                assert!(loaded.fuse(&pass).is_some());
                let known = engine.find(&program).expect("it is loaded");
                let is_there = known.passes().iter().any(|(_, one)| one.mixed().is_some());
                assert_eq!(is_there, devices > 1);
            }
        }
    }

    #[test]
    fn code_goes_with_the_last_that_has_it() {
        let engine = engine();
        let (one, other) = (program("one", "a = 8w0x1;"), program("two", "a = 8w0x2;"));
        let users = || -> Vec<usize> { engine.loaded().iter().map(Weak::strong_count).collect() };
        let first = load(&engine, &one);
        let second = load(&engine, &one);
        assert_eq!(users(), [2]);
        drop(first);
        assert_eq!(users(), [1]);
        drop(second);
        assert_eq!(users(), [0]);
        let _other = load(&engine, &other);
        assert_eq!(users(), [1], "what is gone is forgotten");
    }
}
