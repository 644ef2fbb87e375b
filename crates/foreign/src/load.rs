//! From compiled code to the handlers that engines call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use exec::{DropReason, HandlerCall, Natives, RemoteHandler};
use ir::{ActionId, ExternKind, HandlerRecord, Program, TableId, limbs_of};

use crate::abi::{self, Function, HandlerName, Library};
use crate::compile::Compiled;
use crate::header::CALL_PREFIX;
use crate::interface::{Interface, MirroredTable};
use crate::state::{HandlerState, VariableForm, Variables};
use crate::watchdog;

/// Options of [`load`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Number of the server, as `clip_server` returns it.
    pub server: u32,
    /// Variables that the code does not have in the same form are lost; otherwise they are an
    /// error.
    pub may_lose: bool,
}

/// Error of a load. The state is unchanged.
#[derive(Debug)]
pub enum LoadError {
    /// The code was compiled for a program with another interface.
    OtherProgram,
    /// The loader refused the shared object.
    Loader {
        /// Its message.
        message: String,
    },
    /// The shared object needs a symbol that nothing defines.
    UndefinedSymbol {
        /// The symbol.
        name: String,
    },
    /// A stateful variable has another size or kind than before.
    ChangedVariable {
        /// Its name.
        name: String,
        /// Its size before.
        before: u64,
        /// Its size in the new code.
        now: u64,
    },
    /// The new code does not have a stateful variable.
    RemovedVariable {
        /// Its name.
        name: String,
    },
    /// A stateful variable or a pool is too large.
    TooLarge {
        /// Its name.
        name: String,
        /// The limit.
        limit: u64,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::OtherProgram => {
                f.write_str("the C code was compiled for a program with another interface")
            }
            LoadError::Loader { message } => write!(f, "cannot load the C code: {message}"),
            LoadError::UndefinedSymbol { name } => {
                write!(
                    f,
                    "the C code uses `{name}`, which is not defined in it or in libc"
                )
            }
            LoadError::ChangedVariable { name, before, now } => write!(
                f,
                "the stateful variable `{name}` has size {now}, before {before}, or another kind: \
                 its state would be lost"
            ),
            LoadError::RemovedVariable { name } => write!(
                f,
                "the new C code has no stateful variable `{name}`: its state would be lost"
            ),
            LoadError::TooLarge { name, limit } => {
                write!(f, "the stateful variable `{name}` is larger than {limit}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// Code that the handlers of a program share.
#[derive(Debug)]
pub(crate) struct HandlerCode {
    pub(crate) server: u32,
    /// Mirrored tables, by the number of the table in the program.
    tables: HashMap<u32, TableCode>,
    pub(crate) variables: Variables,
}

impl HandlerCode {
    pub(crate) fn table(&self, id: u32) -> Option<&TableCode> {
        self.tables.get(&id)
    }
}

/// Mirrored table, as handlers access it.
#[derive(Debug)]
pub(crate) struct TableCode {
    pub(crate) id: TableId,
    pub(crate) key_limbs: usize,
    /// Number of limbs that the code has for parameters.
    pub(crate) param_limbs: usize,
    /// Action and number of its parameter limbs, by position in the table's list.
    pub(crate) actions: HashMap<u32, (ActionId, usize)>,
    /// Positions of actions. Tables that share an action profile may use other specialisations.
    pub(crate) positions: HashMap<u32, u32>,
}

/// Handler in C.
struct CHandler {
    name: &'static HandlerName,
    function: Function,
    request: usize,
    response: usize,
    code: Arc<HandlerCode>,
}

impl RemoteHandler for CHandler {
    fn call(&self, call: HandlerCall<'_>) -> Result<(), DropReason> {
        let has_room = call.request.len() >= self.request && call.response.len() >= self.response;
        if !has_room {
            return Err(DropReason::Handler);
        }
        let lane = self.code.variables.lane(call.packet.lane);
        let variables = lane.ok_or(DropReason::Handler)?;
        match self.function.call(self.name, &self.code, variables, call) {
            0 => Ok(()),
            number => Err(reason(number)),
        }
    }
}

/// Returns the number by which C code returns a drop reason.
pub(crate) fn number(reason: DropReason) -> i32 {
    -1 - reason.index() as i32
}

fn reason(number: i32) -> DropReason {
    let index = usize::try_from(-1 - i64::from(number)).ok();
    let reason = index.and_then(DropReason::from_index);
    let named = reason.filter(|reason| matches!(reason, DropReason::Named(_)));
    named.unwrap_or(DropReason::Handler)
}

/// Loads compiled code. Returns its handlers, by their names in the program. Code that was loaded
/// before stays usable until its handlers are dropped.
///
/// # Errors
/// See [`LoadError`]. The state is unchanged.
pub fn load(
    compiled: &Compiled,
    program: &Program,
    state: &HandlerState,
    options: &LoadOptions,
) -> Result<Natives, LoadError> {
    open(compiled, program)?.take_over(state, options)
}

/// Code in memory that has no state yet.
#[derive(Debug)]
pub struct OpenedCode {
    forms: Vec<VariableForm>,
    library: Arc<Library>,
    functions: Vec<(HandlerShape, Function)>,
    tables: HashMap<u32, TableCode>,
}

/// Name of a handler, and the numbers of limbs of its request and response.
#[derive(Debug)]
struct HandlerShape {
    name: String,
    request: usize,
    response: usize,
}

/// Loads compiled code into memory. That may take milliseconds; the state is not touched.
///
/// # Errors
/// See [`LoadError`].
pub fn open(compiled: &Compiled, program: &Program) -> Result<OpenedCode, LoadError> {
    let interface = Interface::of(program);
    if interface != compiled.interface {
        return Err(LoadError::OtherProgram);
    }
    let library = Arc::new(Library::open(&compiled.path)?);
    let names = compiled.variables.iter();
    let forms = names
        .map(|name| library.variable(name))
        .collect::<Result<Vec<_>, _>>()?;
    let functions = interface.handlers.iter().map(|handler| {
        let function = Library::function(&library, &format!("{CALL_PREFIX}{}", handler.function))?;
        let (request, response) = records(program, &handler.name).unwrap_or_default();
        let shape = HandlerShape {
            name: handler.name.clone(),
            request,
            response,
        };
        Ok((shape, function))
    });
    let functions = functions.collect::<Result<Vec<_>, LoadError>>()?;
    let tables = interface.tables.iter();
    abi::watch_signals();
    watchdog::start()?;
    Ok(OpenedCode {
        forms,
        library,
        functions,
        tables: tables
            .filter_map(|table| Some((table.id, table_code(program, table)?)))
            .collect(),
    })
}

impl OpenedCode {
    /// Checks that the code takes over all variables, or that they may be lost.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn check(&self, state: &HandlerState, may_lose: bool) -> Result<(), LoadError> {
        state.check(&self.forms, may_lose)
    }

    /// Takes over the variables. Returns the handlers, by their names in the program.
    ///
    /// # Errors
    /// See [`LoadError`]. The state is unchanged.
    pub fn take_over(
        self,
        state: &HandlerState,
        options: &LoadOptions,
    ) -> Result<Natives, LoadError> {
        let variables = state.take_over(&self.forms, options.may_lose)?;
        for (form, index) in self.forms.iter().zip(0..) {
            self.library.set_index(&form.name, index);
        }
        let code = Arc::new(HandlerCode {
            server: options.server,
            tables: self.tables,
            variables,
        });
        let mut natives = Natives::default();
        for (shape, function) in self.functions {
            let native = CHandler {
                name: watchdog::name_of_handler(&shape.name),
                function,
                request: shape.request,
                response: shape.response,
                code: Arc::clone(&code),
            };
            natives.insert_handler(&shape.name, Arc::new(native));
        }
        Ok(natives)
    }
}

/// Returns the numbers of limbs of a handler's request and response.
fn records(program: &Program, handler: &str) -> Option<(usize, usize)> {
    let limbs = |record: &HandlerRecord| -> usize {
        let scalars = record.scalars().into_iter();
        scalars.map(|ty| limbs_of(ty) as usize).sum()
    };
    program
        .externs
        .values()
        .find_map(|instance| match &instance.kind {
            ExternKind::Handler { request, response } if instance.name == handler => {
                Some((limbs(request), limbs(response)))
            }
            _ => None,
        })
}

fn table_code(program: &Program, table: &MirroredTable) -> Option<TableCode> {
    let id = TableId::new(table.id);
    let declared = program.tables.get(id)?;
    let mut code = TableCode {
        id,
        key_limbs: table.key_limbs(),
        param_limbs: table.param_limbs,
        actions: HashMap::new(),
        positions: HashMap::new(),
    };
    for action in &table.actions {
        let listed = declared.actions.get(action.position as usize)?.action;
        let limbs = action.params.iter().map(|(_, ty)| ty.limbs()).sum();
        code.actions.insert(action.position, (listed, limbs));
        let own = program.actions.get(listed)?;
        for (alias, other) in program.actions.iter() {
            let is_alias = other.control_plane_name == own.control_plane_name
                && other.params.len() == own.params.len();
            if is_alias {
                code.positions.entry(alias.get()).or_insert(action.position);
            }
        }
    }
    for action in &table.actions {
        let (listed, _) = code.actions[&action.position];
        code.positions.insert(listed.get(), action.position);
    }
    Some(code)
}
