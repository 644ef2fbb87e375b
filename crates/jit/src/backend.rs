//! Cranelift back end: target selection, memory of compiled code, and its release.

use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::thread;

use bits::IdVec;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleReloc, default_libcall_names};
use exec::{Facts, FastPath, Natives, Unsupported};
use ir::{ControlId, Layout, ParserId, Program};
use support::work::{self, checkpoint};

use crate::abi::{Code, Native, NativeFastPath, PrefetchPass};
use crate::simplify::{PASS_GROWTH, SCOUT_GROWTH, simplify};
use crate::translate::{
    Body, BurstLayout, FastPathUses, Lines, PrefetchedStages, Shared, translate,
};
use crate::{lookup_buffer, prefetch_instruction};

/// Minimum number of instructions of a function that is compiled without optimization. A large
/// function would take too long in one step, and a packet runs only a small part of it.
const LARGE_FUNCTION: usize = 20_000;

/// Compiled blocks of a program.
pub(crate) struct Compiled {
    pub(crate) code: Code,
    pub(crate) parsers: IdVec<ParserId, Native>,
    pub(crate) controls: IdVec<ControlId, Native>,
    /// Memory that contains the functions above.
    _memory: Mutex<OwnedModule>,
}

/// Owner of a module and of the memory of its compiled code. A compilation that fails or is
/// interrupted frees the memory too.
struct OwnedModule(ManuallyDrop<JITModule>);

#[cfg(test)]
thread_local! {
    /// Number of modules of this thread.
    static MODULES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl OwnedModule {
    fn new(builder: JITBuilder) -> OwnedModule {
        #[cfg(test)]
        MODULES.set(MODULES.get() + 1);
        OwnedModule(ManuallyDrop::new(JITModule::new(builder)))
    }
}

impl Drop for OwnedModule {
    fn drop(&mut self) {
        #[cfg(test)]
        MODULES.set(MODULES.get() - 1);
        // SAFETY: the module is not used after this. Only a `Compiled` or `FastPathCode` holds
        // pointers to functions in this memory, and it owns the module, so it is being dropped and
        // none of the functions runs now or later.
        unsafe { ManuallyDrop::take(&mut self.0).free_memory() };
    }
}

/// Returns the error for a program that cannot be compiled, in the user's terms.
fn failed(what: impl std::fmt::Display) -> Unsupported {
    Unsupported {
        construct: format!("this program as native code ({what})"),
        loc: None,
    }
}

/// Compiles all parsers and controls of a verified program.
pub(crate) fn compile(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
) -> Result<Compiled, Unsupported> {
    let mut compiler = Compiler::new()?;
    let call_conv = compiler.call_conv();
    let mut shared = Shared::new(program, layout, natives, BurstLayout::Grouped, call_conv)?;
    let parsers = program.parsers.ids().map(Body::Parser);
    let controls = program.controls.ids().map(Body::Control);
    let parsers = compiler.all(&mut shared, parsers)?;
    let controls = compiler.all(&mut shared, controls)?;
    let mut module = compiler.module;
    module.0.finalize_definitions().map_err(failed)?;
    let native = |id: &FuncId| native(&module.0, *id);
    Ok(Compiled {
        code: shared.finish(),
        parsers: parsers.iter().map(native).collect(),
        controls: controls.iter().map(native).collect(),
        _memory: Mutex::new(module),
    })
}

/// Compiled fast path.
pub(crate) struct FastPathCode {
    pub(crate) code: Code,
    pub(crate) native: NativeFastPath,
    _memory: Mutex<OwnedModule>,
}

/// Compiles the fast path of a verified program for bursts with this layout.
pub(crate) fn compile_pass(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
    pass: &FastPath,
    arrival: BurstLayout,
) -> Result<FastPathCode, Unsupported> {
    let begun = BegunPass::begin(program, layout, natives, pass, arrival)?;
    begun.complete()
}

/// Compiles the fast path of a verified program for tables for which these facts hold.
pub(crate) fn compile_specialised(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
    pass: &FastPath,
    facts: &Facts,
) -> Result<FastPathCode, Unsupported> {
    let arrival = BurstLayout::Grouped;
    let facts = Some(facts);
    let begun = BegunPass::begin_with(program, layout, natives, pass, arrival, facts)?;
    begun.complete()
}

/// Runs [`compile`] and [`compile_pass`]. A second thread compiles the fast path while this one
/// compiles everything else.
pub(crate) fn compile_both(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
    pass: &FastPath,
) -> Result<(Compiled, Result<FastPathCode, Unsupported>), Unsupported> {
    let mut begun = match BegunPass::begin(program, layout, natives, pass, BurstLayout::Grouped) {
        Ok(begun) => begun,
        Err(unsupported) => {
            return Ok((compile(program, layout, natives)?, Err(unsupported)));
        }
    };
    let targets = begun.compiler.targets.clone();
    let work = work::current();
    let mut function = std::mem::take(&mut begun.function);
    let (compiled, scouts, made) = thread::scope(|scope| {
        let make = || match &work {
            // An interrupt of the work applies to both threads. The new thread sees it at a
            // checkpoint.
            Some(work) => work.run(|| function.make(&targets)),
            None => Ok(function.make(&targets)),
        };
        let by_itself = thread::Builder::new().spawn_scoped(scope, make);
        let compiled = compile(program, layout, natives);
        let scouts = begun.scouts();
        let made = by_itself.map(|thread| thread.join());
        (compiled, scouts, made)
    });
    let made = match made {
        Ok(Ok(Ok(made))) => made,
        Ok(Ok(Err(interrupt))) => std::panic::resume_unwind(Box::new(interrupt)),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // No thread could be started.
        Err(_) => function.make(&targets),
    };
    let finish = || {
        made?;
        begun.compiler.define(&mut function)?;
        begun.function = function;
        begun.finish(&scouts?)
    };
    Ok((compiled?, finish()))
}

/// Prefetch pass being compiled: its level, the function that writes keys, and the two lookup
/// functions.
type BegunScout = (usize, FuncId, Option<[FuncId; 2]>);

/// Fast path being compiled: translated to Cranelift IR, but not yet to native code.
struct BegunPass<'p> {
    compiler: Compiler,
    shared: Shared<'p>,
    pass: &'p FastPath,
    arrival: BurstLayout,
    function: Translated,
    stages: PrefetchedStages,
}

impl<'p> BegunPass<'p> {
    fn begin(
        program: &'p Program,
        layout: &'p Layout,
        natives: &'p Natives,
        pass: &'p FastPath,
        arrival: BurstLayout,
    ) -> Result<BegunPass<'p>, Unsupported> {
        BegunPass::begin_with(program, layout, natives, pass, arrival, None)
    }

    fn begin_with(
        program: &'p Program,
        layout: &'p Layout,
        natives: &'p Natives,
        pass: &'p FastPath,
        arrival: BurstLayout,
        facts: Option<&'p Facts>,
    ) -> Result<BegunPass<'p>, Unsupported> {
        let mut compiler = Compiler::new()?;
        let call_conv = compiler.call_conv();
        let mut shared = Shared::new(program, layout, natives, arrival, call_conv)?;
        shared.facts = facts;
        let mut function = Translated::default();
        let stages = compiler.translate(&mut shared, Body::FastPath(pass), &mut function)?;
        Ok(BegunPass {
            compiler,
            shared,
            pass,
            arrival,
            function,
            stages,
        })
    }

    /// Compiles the fast path and its prefetch passes.
    fn complete(mut self) -> Result<FastPathCode, Unsupported> {
        let targets = self.compiler.targets.clone();
        self.function.make(&targets)?;
        self.compiler.define(&mut self.function)?;
        let scouts = self.scouts()?;
        self.finish(&scouts)
    }

    /// Compiles the prefetch passes.
    fn scouts(&mut self) -> Result<Vec<BegunScout>, Unsupported> {
        let (compiler, shared) = (&mut self.compiler, &mut self.shared);
        let levels = shared.code.scout_levels();
        let mut scouts: Vec<BegunScout> = Vec::with_capacity(levels.len());
        for level in levels {
            let scout = Body::Prefetch(self.pass, &self.stages, level);
            scouts.push((level, compiler.one(shared, scout)?, None));
        }
        shared.code.rows = lookup_buffer::list_of_rows(&shared.code);
        for (level, _, answers) in &mut scouts {
            let mut sites = shared.code.scouts.iter();
            if sites.any(|site| site.hashed_on(*level).is_some()) {
                let mut answer = |lines| {
                    let body = Body::Answers(*level, shared.code.rows, lines);
                    compiler.one(shared, body)
                };
                *answers = Some([answer(Lines::First)?, answer(Lines::Second)?]);
            }
        }
        Ok(scouts)
    }

    fn finish(self, scouts: &[BegunScout]) -> Result<FastPathCode, Unsupported> {
        let mut module = self.compiler.module;
        module.0.finalize_definitions().map_err(failed)?;
        let native = |id: FuncId| native(&module.0, id);
        let scouts = scouts.iter().map(|&(level, asks, answers)| PrefetchPass {
            level,
            asks: native(asks),
            answers: answers.map(|ids| ids.map(native)),
        });
        Ok(FastPathCode {
            native: NativeFastPath {
                run: native(self.function.id),
                scouts: scouts.collect(),
                uses: FastPathUses::of(self.shared.program),
                arrival: self.arrival,
            },
            code: self.shared.finish(),
            _memory: Mutex::new(module),
        })
    }
}

/// Target processor with two levels of optimization.
#[derive(Clone)]
struct Targets {
    /// Target for most functions.
    best: OwnedTargetIsa,
    /// Target for functions with [`LARGE_FUNCTION`] instructions or more.
    quick: OwnedTargetIsa,
}

impl Targets {
    fn new() -> Result<Targets, Unsupported> {
        Ok(Targets {
            best: target("speed", "backtracking")?,
            quick: target("none", "single_pass")?,
        })
    }

    /// Returns the target for a function of `insts` instructions.
    fn of(&self, insts: usize) -> &dyn TargetIsa {
        match insts < LARGE_FUNCTION {
            true => &*self.best,
            false => &*self.quick,
        }
    }
}

/// Builds the target for the processor that this runs on.
fn target(opt_level: &str, regalloc_algorithm: &str) -> Result<OwnedTargetIsa, Unsupported> {
    let mut flags = settings::builder();
    let verifies = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    let chosen = [
        ("opt_level", opt_level),
        ("regalloc_algorithm", regalloc_algorithm),
        ("enable_verifier", verifies),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("unwind_info", "false"),
        // Stack frames have a few pages at most. The function touches the pages itself, without a
        // library call.
        ("probestack_strategy", "inline"),
        ("enable_probestack", "true"),
    ];
    for (name, value) in chosen {
        flags.set(name, value).map_err(failed)?;
    }
    let isa = cranelift_native::builder().map_err(failed)?;
    isa.finish(settings::Flags::new(flags)).map_err(failed)
}

/// Function in translation to native code.
struct Translated {
    id: FuncId,
    context: cranelift_codegen::Context,
    /// Number of instructions by which tail duplication may increase the function.
    growth: usize,
}

impl Default for Translated {
    fn default() -> Translated {
        Translated {
            id: FuncId::from_u32(0),
            context: cranelift_codegen::Context::new(),
            growth: 0,
        }
    }
}

impl Translated {
    /// Optimizes the function and compiles it.
    fn make(&mut self, targets: &Targets) -> Result<(), Unsupported> {
        let insts = simplify(&mut self.context.func, self.growth);
        checkpoint();
        let isa = targets.of(insts);
        let made = self.context.compile(isa, &mut ControlPlane::default());
        made.map_err(|error| failed(format!("{:?}", error.inner)))?;
        Ok(())
    }
}

struct Compiler {
    targets: Targets,
    module: OwnedModule,
    /// Context that is reused for functions compiled one after the other.
    function: Translated,
    builder: FunctionBuilderContext,
}

impl Compiler {
    fn new() -> Result<Compiler, Unsupported> {
        let targets = Targets::new()?;
        let isa = OwnedTargetIsa::clone(&targets.best);
        let builder = JITBuilder::with_isa(isa, default_libcall_names());
        Ok(Compiler {
            targets,
            module: OwnedModule::new(builder),
            function: Translated::default(),
            builder: FunctionBuilderContext::new(),
        })
    }

    fn call_conv(&self) -> CallConv {
        self.targets.best.default_call_conv()
    }

    fn all<'p>(
        &mut self,
        shared: &mut Shared<'_>,
        bodies: impl Iterator<Item = Body<'p>>,
    ) -> Result<Vec<FuncId>, Unsupported> {
        bodies.map(|body| self.one(shared, body)).collect()
    }

    fn one(&mut self, shared: &mut Shared<'_>, body: Body<'_>) -> Result<FuncId, Unsupported> {
        let mut function = std::mem::take(&mut self.function);
        self.translate(shared, body, &mut function)?;
        function.make(&self.targets)?;
        checkpoint();
        self.define(&mut function)?;
        self.function = function;
        Ok(self.function.id)
    }

    /// Translates a function to Cranelift IR. For a fast path, returns the stages that use lookup
    /// results.
    fn translate(
        &mut self,
        shared: &mut Shared<'_>,
        body: Body<'_>,
        function: &mut Translated,
    ) -> Result<PrefetchedStages, Unsupported> {
        let signature = shared.signature(0);
        let name = match body {
            Body::Parser(id) => format!("parser{}", id.get()),
            Body::Control(id) => format!("control{}", id.get()),
            Body::FastPath(_) => String::from("pass"),
            Body::Prefetch(_, _, level) => format!("scout{level}"),
            Body::Answers(level, _, Lines::First) => format!("answers{level}"),
            Body::Answers(level, _, Lines::Second) => format!("late{level}"),
        };
        let declared = self
            .module
            .0
            .declare_function(&name, Linkage::Local, &signature);
        function.id = declared.map_err(failed)?;
        // Tail duplication pays off only in code that nearly all packets run.
        function.growth = match body {
            Body::FastPath(_) => PASS_GROWTH,
            Body::Prefetch(..) => SCOUT_GROWTH,
            _ => 0,
        };
        let func = &mut function.context.func;
        func.signature = signature;
        let translated = translate(shared, FunctionBuilder::new(func, &mut self.builder), body)?;
        let dfg = &function.context.func.dfg;
        let insts = dfg.num_insts().max(dfg.num_values());
        shared.insts_left = shared.insts_left.saturating_sub(insts);
        Ok(translated)
    }

    /// Copies the compiled function into the module's memory.
    fn define(&mut self, function: &mut Translated) -> Result<(), Unsupported> {
        let (id, context) = (function.id, &mut function.context);
        if let Some(code) = context.compiled_code() {
            let relocs = code.buffer.relocs().iter();
            let relocs = relocs.map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, id));
            let relocs: Vec<ModuleReloc> = relocs.collect();
            let alignment = code.buffer.alignment.into();
            let mut bytes = code.code_buffer().to_vec();
            let traps = code.buffer.traps().iter();
            let traps = traps.map(|trap| (trap.offset as usize, trap.code));
            prefetch_instruction::make(&mut bytes, traps).map_err(failed)?;
            let defined = self
                .module
                .0
                .define_function_bytes(id, alignment, &bytes, &relocs);
            defined.map_err(|error| failed(format!("{error:?}")))?;
        }
        self.module.0.clear_context(context);
        Ok(())
    }
}

/// Returns the function pointer, which is valid as long as the module's memory.
fn native(module: &JITModule, id: FuncId) -> Native {
    let address = module.get_finalized_function(id);
    // SAFETY: the function was compiled with the signature of `Native`: one pointer argument, one
    // integer result, and the platform's C convention.
    unsafe { std::mem::transmute::<*const u8, Native>(address) }
}

#[cfg(test)]
mod growth;

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::Function;
    use exec::{FastPathStep, FastPathTest};
    use ir::FieldId;

    /// Size of a function after optimization, without tail duplication.
    struct Size {
        insts: usize,
        /// Number of block arguments on all edges. Each is a register move or a stack access.
        args: usize,
    }

    impl Size {
        fn of(func: &Function) -> Size {
            let (mut insts, mut args) = (0, 0);
            for inst in func
                .layout
                .blocks()
                .flat_map(|b| func.layout.block_insts(b))
            {
                let dfg = &func.dfg;
                let calls =
                    dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
                insts += 1;
                args += calls
                    .iter()
                    .map(|call| call.len(&dfg.value_lists))
                    .sum::<usize>();
            }
            Size { insts, args }
        }
    }

    /// Returns the size of the fast path of a program with this number of headers and fields. Each
    /// header may be followed by one of the next two or by none. A control writes all fields.
    /// Packets may leave at `steps` steps after that.
    fn pass_of(headers: usize, fields: usize, steps: usize) -> Size {
        let declared: String = (0..fields)
            .map(|at| format!("    f{at}: bit<16>;\n"))
            .collect();
        let mut text = format!("program t own\nheader_type h_t {{\n{declared}}}\n");
        (0..headers).for_each(|at| text.push_str(&format!("header h{at}: h_t\n")));
        text.push_str("parser p start s0 {\n");
        for at in 0..headers {
            let next = |by: usize| match at + by < headers {
                true => format!("s{}", at + by),
                false => String::from("accept"),
            };
            text.push_str(&format!(
                "state s{at} {{\n extract h{at};\n select (h{at}.f0) {{ (16w0x1): {}; (16w0x2): {}; (_): accept; }}\n}}\n",
                next(1), next(2),
            ));
        }
        text.push_str("}\ncontrol c {\n stage c.code: action next end {\n");
        for at in 0..headers {
            (0..fields)
                .for_each(|f| text.push_str(&format!("h{at}.f{f} = h{at}.f{f} + 16w0x1;\n")));
        }
        text.push_str("}\n}\ncontrol d {\n stage d.code: action next end {\n");
        (0..headers).for_each(|at| text.push_str(&format!("emit h{at};\n")));
        text.push_str("}\n}\n");
        let program = ir::read(&text).unwrap_or_else(|error| panic!("{error:?}"));
        let leave = |at| FastPathStep::LeaveIf(FastPathTest::Equals(FieldId::new(1), at));
        let parse = FastPathStep::Parse {
            parser: ParserId::new(0),
            errors: Vec::new(),
        };
        let mut pass = FastPath {
            steps: vec![parse, FastPathStep::Control(ControlId::new(0))],
        };
        pass.steps.extend((0..steps as u64).map(leave));
        pass.steps.push(FastPathStep::Deparse(ControlId::new(1)));
        size_of(&program, &pass)
    }

    fn size_of(program: &Program, pass: &FastPath) -> Size {
        let (layout, natives) = (Layout::of(program), Natives::default());
        let targets = Targets::new().expect("the target is known");
        let call_conv = targets.best.default_call_conv();
        let shared = Shared::new(program, &layout, &natives, BurstLayout::Grouped, call_conv);
        let mut shared = shared.expect("the program has all that it names");
        let (mut func, mut context) = (Function::new(), FunctionBuilderContext::new());
        func.signature = shared.signature(0);
        let builder = FunctionBuilder::new(&mut func, &mut context);
        translate(&mut shared, builder, Body::FastPath(pass)).expect("it is translated");
        simplify(&mut func, 0);
        Size::of(&func)
    }

    #[test]
    fn a_scout_that_asks_a_hash_table_prefetches_its_line() {
        let (program, pass) = lookup_buffer::tests::read(
            "program t own\nfield a: bit<64>\nparser p start s {\n state s {\n goto accept;\n }\n}\naction none() {\n}\n\
            table hosts {\n key a: exact as bit<64> = a;\n action none table_and_default;\n default none();\n size 65536 declared;\n}\n\
            control c {\n stage hosts: match hosts next end;\n}\n",
        );
        let (layout, natives) = (Layout::of(&program), Natives::default());
        let begun = BegunPass::begin(&program, &layout, &natives, &pass, BurstLayout::Grouped);
        let BegunPass {
            mut compiler,
            mut shared,
            stages,
            ..
        } = begun.expect("it is translated");
        let (mut function, scout) = (Translated::default(), Body::Prefetch(&pass, &stages, 0));
        let translated = compiler.translate(&mut shared, scout, &mut function);
        translated.expect("it is translated");
        function.make(&compiler.targets).expect("it is compiled");
        let code = function.context.compiled_code().expect("it was compiled");
        let traps = code.buffer.traps().iter();
        let prefetches = traps
            .filter(|trap| trap.code == prefetch_instruction::MARK)
            .count();
        assert_eq!(prefetches, usize::from(prefetch_instruction::ARE_THERE));
    }

    #[test]
    fn a_parser_of_many_headers_carries_no_fields_from_state_to_state() {
        let few = pass_of(24, 8, 1);
        let many = pass_of(24, 24, 1);
        // Block parameters at merge points, where a header's fields were extracted on one edge and
        // not on the other.
        let meeting = 24 * (24 - 8) * 2;
        assert!(
            many.args < few.args + 2 * meeting,
            "{} {}",
            few.args,
            many.args
        );
    }

    #[test]
    fn a_parser_of_very_many_headers_carries_none_from_state_to_state() {
        let [few, many] = [24, 72].map(|headers| pass_of(headers, 8, 1).args);
        assert!(many < few * 72 / 24 + few, "{few} {many}");
    }

    #[test]
    fn packets_that_leave_at_many_steps_leave_by_one_piece_of_code() {
        let [one, many] = [1, 9].map(|steps| pass_of(8, 16, steps).insts);
        let fields = 8 * 16;
        assert!(many < one + fields, "{one} {many}");
    }
}
