//! Cranelift's side: the target, the memory of compiled code, and who frees it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use bits::IdVec;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use exec::{Natives, Pass, Unsupported};
use ir::{ControlId, Layout, ParserId, Program};

use crate::abi::{Code, Native, Scout};
use crate::notes;
use crate::simplify::simplify;
use crate::translate::{Body, Lines, PassUses, ScoutedStages, Shared, translate};

/// A program, compiled.
pub(crate) struct Compiled {
    pub(crate) code: Code,
    pub(crate) parsers: IdVec<ParserId, Native>,
    pub(crate) controls: IdVec<ControlId, Native>,
    /// What holds the memory of the functions above.
    _memory: Memory,
}

/// The memory of compiled code.
struct Memory(Mutex<Option<JITModule>>);

impl Drop for Memory {
    fn drop(&mut self) {
        let module = self.0.get_mut().ok().and_then(Option::take);
        if let Some(module) = module {
            // SAFETY: the functions in this memory are known to the `Compiled` that is being dropped alone, so none of them runs or will.
            unsafe { module.free_memory() };
        }
    }
}

/// Why there is no native code, in the user's words.
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
    let module = JITModule::new(builder()?);
    let call_conv = module.isa().default_call_conv();
    let mut shared = Shared::new(program, layout, natives, call_conv)?;
    let parsers = program.parsers.ids().map(Body::Parser);
    let controls = program.controls.ids().map(Body::Control);
    let mut compiler = Compiler {
        context: module.make_context(),
        function: FunctionBuilderContext::new(),
        module,
    };
    let parsers = compiler.all(&mut shared, parsers)?;
    let controls = compiler.all(&mut shared, controls)?;
    let mut module = compiler.module;
    module.finalize_definitions().map_err(failed)?;
    let native = |id: &FuncId| native(&module, *id);
    Ok(Compiled {
        code: shared.finish(),
        parsers: parsers.iter().map(native).collect(),
        controls: controls.iter().map(native).collect(),
        _memory: Memory(Mutex::new(Some(module))),
    })
}

/// A pass, compiled.
pub(crate) struct CompiledPass {
    pub(crate) code: Code,
    pub(crate) run: Native,
    /// What goes before, in the order of levels, if it is worth it.
    pub(crate) scouts: Vec<Scout>,
    pub(crate) uses: PassUses,
    _memory: Memory,
}

/// Compiles a pass of a verified program.
pub(crate) fn compile_pass(
    program: &Program,
    layout: &Layout,
    natives: &Natives,
    pass: &Pass,
) -> Result<CompiledPass, Unsupported> {
    let module = JITModule::new(builder()?);
    let call_conv = module.isa().default_call_conv();
    let mut shared = Shared::new(program, layout, natives, call_conv)?;
    let mut compiler = Compiler {
        context: module.make_context(),
        function: FunctionBuilderContext::new(),
        module,
    };
    let uses = PassUses::of(program);
    let (id, stages) = compiler.one(&mut shared, Body::Pass(pass))?;
    let asked = shared.code.scouts.iter().filter(|site| !site.is_direct());
    let levels: BTreeSet<usize> = asked.map(|site| site.level).collect();
    let mut scouts = Vec::with_capacity(levels.len());
    for level in levels {
        let scout = Body::Scout(pass, &stages, level);
        let (asks, _) = compiler.one(&mut shared, scout)?;
        scouts.push((level, asks, None));
    }
    shared.code.rows = notes::list_of_rows(&shared.code);
    for (level, _, answers) in &mut scouts {
        let mut sites = shared.code.scouts.iter();
        if sites.any(|site| site.hashed_on(*level).is_some()) {
            let mut answer = |lines| {
                let body = Body::Answers(*level, shared.code.rows, lines);
                Ok(compiler.one(&mut shared, body)?.0)
            };
            *answers = Some([answer(Lines::First)?, answer(Lines::Second)?]);
        }
    }
    let mut module = compiler.module;
    module.finalize_definitions().map_err(failed)?;
    Ok(CompiledPass {
        scouts: scouts
            .into_iter()
            .map(|(level, asks, answers)| Scout {
                level,
                asks: native(&module, asks),
                answers: answers.map(|ids| ids.map(|id| native(&module, id))),
            })
            .collect(),
        code: shared.finish(),
        run: native(&module, id),
        uses,
        _memory: Memory(Mutex::new(Some(module))),
    })
}

fn builder() -> Result<JITBuilder, Unsupported> {
    let mut flags = settings::builder();
    let verifies = if cfg!(debug_assertions) {
        "true"
    } else {
        "false"
    };
    let chosen = [
        ("opt_level", "speed"),
        ("enable_verifier", verifies),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("unwind_info", "false"),
        // Frames are a few pages at most: the stack is touched in the function itself, without a library's help.
        ("probestack_strategy", "inline"),
        ("enable_probestack", "true"),
    ];
    for (name, value) in chosen {
        flags.set(name, value).map_err(failed)?;
    }
    let isa = cranelift_native::builder().map_err(failed)?;
    let isa = isa.finish(settings::Flags::new(flags)).map_err(failed)?;
    Ok(JITBuilder::with_isa(isa, default_libcall_names()))
}

struct Compiler {
    module: JITModule,
    context: cranelift_codegen::Context,
    function: FunctionBuilderContext,
}

impl Compiler {
    fn all<'p>(
        &mut self,
        shared: &mut Shared<'_>,
        bodies: impl Iterator<Item = Body<'p>>,
    ) -> Result<Vec<FuncId>, Unsupported> {
        bodies.map(|body| Ok(self.one(shared, body)?.0)).collect()
    }

    /// A function; of a pass, where it takes answers of a scout.
    fn one(
        &mut self,
        shared: &mut Shared<'_>,
        body: Body<'_>,
    ) -> Result<(FuncId, ScoutedStages), Unsupported> {
        let signature = shared.signature(0);
        let name = match body {
            Body::Parser(id) => format!("parser{}", id.get()),
            Body::Control(id) => format!("control{}", id.get()),
            Body::Pass(_) => String::from("pass"),
            Body::Scout(_, _, level) => format!("scout{level}"),
            Body::Answers(level, _, Lines::First) => format!("answers{level}"),
            Body::Answers(level, _, Lines::Second) => format!("late{level}"),
        };
        let declared = self
            .module
            .declare_function(&name, Linkage::Local, &signature);
        let id = declared.map_err(failed)?;
        self.context.func.signature = signature;
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.function);
        let stages = translate(shared, builder, body)?;
        // Ways are worth code of their own where nearly all packets go.
        let is_parted = matches!(body, Body::Pass(_));
        simplify(&mut self.context.func, is_parted);
        let defined = self.module.define_function(id, &mut self.context);
        defined.map_err(|error| failed(format!("{error:?}")))?;
        self.module.clear_context(&mut self.context);
        Ok((id, stages))
    }
}

/// The function, which lives as long as the module's memory.
fn native(module: &JITModule, id: FuncId) -> Native {
    let address = module.get_finalized_function(id);
    // SAFETY: the function was compiled with the signature of `Native`: a pointer in, a number out, by the platform's C convention.
    unsafe { std::mem::transmute::<*const u8, Native>(address) }
}
