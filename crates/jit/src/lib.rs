//! The room `jit`: the engine that makes native code of programs.
//!
//! **In:** a verified [`ir::Program`]. **Out:** [`Jit`], an [`exec::Engine`] that runs everything the IR can say, as `interp` does.
//! **May import:** `exec`, `table`, `ir`, `packet`, `bits`.
//!
//! Each parser and each control becomes one function ([`translate`]) by Cranelift ([`backend`]). It works on the packet's limbs and bytes through
//! the pointers of an [`abi::Invocation`] and calls [`helpers`] for tables, externs and whatever is rare; these are `exec`'s, which all engines share.
//! A whole pass becomes one function that takes a burst, and, once several devices have it, a second one that finds each packet's device by the packet ([`abi::sight`]); a packet of it has a context only from the first helper on that needs one. Scouts may go
//! before (`translate/scout.rs`): they write down the keys of tables, which are then looked up together, level by level where keys depend on answers; in hash tables
//! native code does that itself (`translate/hashed.rs`), and asks the processor ahead for what it will read ([`prefetch`]). Where no scout has asked, as of few packets, native code looks in hash tables and tries by itself (`translate/trie.rs`). What a table's entries do, what small keys hit, and what is counted, native code finds without a helper ([`view`]). What no effect needs is swept out before
//! code is made ([`simplify`]).
//!
//! Invariants:
//! - what a packet leaves behind (fields, cursor, emitted bits, requests, work, verdict) is what `interp` leaves;
//! - native code touches the packet's limbs, its bytes and the headroom in front of them, where its frame begins and how long that is, and its lane's counts, in bounds for every verified program;
//!   its memory is freed with what was loaded;
//! - `unsafe` stands in [`abi`] and [`backend`] alone: where native code is entered, and where its memory is made and freed;
//! - steps are told by another engine ([`Jit::new`]), so that native code knows no tracer.
//!
//! Tests: `testkit/tests/engines`, which runs on every engine.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
#[allow(unsafe_code)]
mod backend;
mod common;
mod fuse;
mod helpers;
mod notes;
mod prefetch;
mod simplify;
mod translate;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use exec::{
    ControlVerdict, DropReason, Engine, Fused, Loaded, Natives, PacketContext, ParserVerdict, Pass,
    State, Tracer, Unsupported,
};
use ir::{ControlId, Layout, ParserId, Program};

use abi::Outcome;
use backend::{Compiled, CompiledPass};
use fuse::FusedPass;
use translate::Arrival;

/// The engine that makes native code. A program that is equal to one that is loaded, but for its name, runs as the same code: many devices that do
/// the same keep one copy in the processor's caches.
pub struct Jit {
    tracer: Arc<dyn Engine>,
    threads: Threads,
    loaded: Mutex<Vec<Weak<NativeProgram>>>,
}

/// How many threads compile a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Two,
}

impl Jit {
    /// The engine; `tracer` is the one that runs packets whose steps are to be told.
    pub fn new(tracer: Arc<dyn Engine>) -> Jit {
        Jit {
            tracer,
            threads: Threads::One,
            loaded: Mutex::default(),
        }
    }

    /// The same, which compiles by two threads: for programs before which no packets wait, on cores that nobody else needs.
    pub fn with_two_threads(self) -> Jit {
        Jit {
            threads: Threads::Two,
            ..self
        }
    }

    fn loaded(&self) -> MutexGuard<'_, Vec<Weak<NativeProgram>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was compiled, for all that load an equal program.
    fn keep(
        &self,
        compiled: Compiled,
        (program, layout, natives): (&Arc<Program>, &Layout, &Natives),
    ) -> Arc<NativeProgram> {
        // Functions of the host may have state, which belongs to one device.
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

    /// The code of an equal program, if there is some.
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
        pass: &Pass,
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

/// A program as native code.
struct NativeProgram {
    compiled: Compiled,
    /// Limbs that a packet needs for the blocks and the passes that were compiled.
    most_limbs: AtomicUsize,
    tracer: Arc<dyn Engine>,
    /// The same program as the tracer runs it, loaded when first asked for.
    traced: OnceLock<Option<Arc<dyn Loaded>>>,
    program: Arc<Program>,
    layout: Layout,
    natives: Natives,
    /// Passes that were made one function.
    passes: Mutex<Vec<(Pass, Arc<FusedPass>)>>,
}

impl NativeProgram {
    fn passes(&self) -> MutexGuard<'_, Vec<(Pass, Arc<FusedPass>)>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a pass that was compiled for whoever asks for it.
    fn keep(&self, pass: &Pass, compiled: CompiledPass) {
        let fused = self.fused(compiled);
        self.passes().push((pass.clone(), fused));
    }

    fn fused(&self, compiled: CompiledPass) -> Arc<FusedPass> {
        let limbs = compiled.code.limbs;
        self.most_limbs.fetch_max(limbs, Ordering::Relaxed);
        Arc::new(FusedPass::new(compiled))
    }

    /// Runs a block by the tracer, with limbs of its own behind the frame.
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
        // Verified controls have no statement that rejects.
        Outcome::Reject(_) => ControlVerdict::Drop(DropReason::ParserReject),
        Outcome::Drop(reason) => ControlVerdict::Drop(reason),
    }
}

impl Loaded for NativeProgram {
    fn scratch_limbs(&self) -> usize {
        self.most_limbs.load(Ordering::Relaxed) - self.layout.limbs() as usize
    }

    fn fuse(&self, pass: &Pass) -> Option<Arc<dyn Fused>> {
        let mut passes = self.passes();
        let compile = |arrival| {
            let (program, layout, natives) = (&self.program, &self.layout, &self.natives);
            backend::compile_pass(program, layout, natives, pass, arrival)
        };
        let known = passes.iter().find(|(known, _)| known == pass);
        let fused = match known {
            Some((_, fused)) => Arc::clone(fused),
            None => {
                let fused = self.fused(compile(Arrival::InRuns).ok()?);
                passes.push((pass.clone(), Arc::clone(&fused)));
                fused
            }
        };
        fused.take(|| compile(Arrival::Mixed).ok());
        Some(fused)
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
    use exec::PassStep;

    /// A program of this name whose one control does this with the field `a`.
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

    /// Whether both are loaded as the same code.
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
        let pass = Pass {
            steps: vec![PassStep::Control(ControlId::new(0))],
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
        let pass = Pass {
            steps: vec![PassStep::Control(ControlId::new(0))],
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
