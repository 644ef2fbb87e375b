//! Cranelift's side: the target, the memory of compiled code, and who frees it.

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
    let levels = shared.code.scout_levels();
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

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::Function;
    use exec::{PassStep, PassTest};
    use ir::FieldId;

    /// What a function has after it was simplified, but for ways of their own.
    struct Size {
        insts: usize,
        /// What ways give blocks, all together: each is a move, or a place on the stack.
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

    /// The pass of a program with so many headers of so many fields, each of which may be followed by any of the next two or by none; all fields are
    /// written by a control. Packets may leave at so many steps behind that.
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
        let leave = |at| PassStep::LeaveIf(PassTest::Equals(FieldId::new(1), at));
        let parse = PassStep::Parse {
            parser: ParserId::new(0),
            errors: Vec::new(),
        };
        let mut pass = Pass {
            steps: vec![parse, PassStep::Control(ControlId::new(0))],
        };
        pass.steps.extend((0..steps as u64).map(leave));
        pass.steps.push(PassStep::Deparse(ControlId::new(1)));
        size_of(&program, &pass)
    }

    fn size_of(program: &Program, pass: &Pass) -> Size {
        let (layout, natives) = (Layout::of(program), Natives::default());
        let module = JITModule::new(builder().expect("the target is known"));
        let call_conv = module.isa().default_call_conv();
        let shared = Shared::new(program, &layout, &natives, call_conv);
        let mut shared = shared.expect("the program has all that it names");
        let (mut func, mut context) = (Function::new(), FunctionBuilderContext::new());
        func.signature = shared.signature(0);
        let builder = FunctionBuilder::new(&mut func, &mut context);
        translate(&mut shared, builder, Body::Pass(pass)).expect("it is translated");
        simplify(&mut func, false);
        Size::of(&func)
    }

    #[test]
    fn a_parser_of_many_headers_carries_no_fields_from_state_to_state() {
        let few = pass_of(24, 8, 1);
        let many = pass_of(24, 24, 1);
        // Where a header's fields meet that was extracted or not.
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
