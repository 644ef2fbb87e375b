//! The C code of a running server, as its files have it.

use std::sync::Arc;

use command::handlers::{self, Handlers};
use foreign::{HandlerState, LoadOptions, OpenedCode};
use ir::Program;
use p4info::polyplane::split::v1::Pool;
use passes::split::{SplitOptions, split};
use split_runtime::{HandlerSource, NewHandlers, PreparedHandlers};

use super::{Prepared, build};
use crate::args::Source;
use crate::out;

/// The files of a server's program, and the state of its handlers.
pub(super) struct ServerCode {
    source: Source,
    options: SplitOptions,
    /// The whole program that runs, as text without positions.
    whole: String,
    server: u32,
    state: Arc<HandlerState>,
}

impl ServerCode {
    /// Creates the source of the handlers of the server with this number. `whole` is the program
    /// that runs.
    pub(super) fn new(
        source: &Source,
        options: SplitOptions,
        (whole, server): (&Program, u32),
        state: Arc<HandlerState>,
    ) -> ServerCode {
        ServerCode {
            source: source.clone(),
            options,
            whole: whole.text_without_positions(),
            server,
            state,
        }
    }
}

impl ServerCode {
    /// Compiles the handlers as the files have them now. Returns them with the server half.
    ///
    /// # Errors
    /// The files have errors, or another program.
    fn compile(&self) -> Result<(Program, Handlers), String> {
        if self.source.program.is_dir() {
            let Prepared { program, handlers } = build::read(&self.source, &self.options, true)?;
            self.compare(&program.whole)?;
            return Ok((program.server, handlers));
        }
        let files = self.source.files();
        let compiled = driver::compile(&self.source.program(&files), &self.source.options());
        let Some(program) = compiled.program else {
            return Err(compiled.diagnostics.render(false).trim_end().to_owned());
        };
        self.compare(&program)?;
        let split = split(&program, &self.options).map_err(|error| error.to_string())?;
        let texts = handlers::texts(compiled.foreign, self.source.c_file.as_deref())?;
        let (handlers, messages) = handlers::diagnose(&split.whole, &texts);
        let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
        let Some(handlers) = handlers else {
            return Err(messages.join("\n"));
        };
        for warning in &messages {
            out::note(warning);
        }
        Ok((split.server, handlers))
    }

    fn compare(&self, whole: &Program) -> Result<(), String> {
        match whole.text_without_positions() == self.whole {
            true => Ok(()),
            false => Err(format!(
                "{}: more than the C code differs from the program that runs: start all processes \
                 with the new program",
                self.source.program.display()
            )),
        }
    }
}

impl HandlerSource for ServerCode {
    fn prepare(&self, may_lose: bool) -> Result<Box<dyn PreparedHandlers>, String> {
        let (server, handlers) = self.compile()?;
        let opened = handlers
            .open(&server)
            .map_err(|error| error.to_string())?
            .ok_or("the program has no C code")?;
        let checked = opened.check(&self.state, may_lose);
        checked.map_err(|error| format!("{error}; --may-lose accepts that"))?;
        Ok(Box::new(PreparedCode {
            opened,
            state: Arc::clone(&self.state),
            options: LoadOptions {
                server: self.server,
                may_lose,
            },
        }))
    }
}

/// Code that is in memory and was checked.
struct PreparedCode {
    opened: OpenedCode,
    state: Arc<HandlerState>,
    options: LoadOptions,
}

impl PreparedHandlers for PreparedCode {
    fn take_over(self: Box<Self>) -> Result<NewHandlers, String> {
        let natives = self.opened.take_over(&self.state, &self.options);
        Ok(NewHandlers {
            natives: natives.map_err(|error| error.to_string())?,
            pools: pools(&self.state),
        })
    }
}

/// Returns the pools of a server, as it reports them.
pub(super) fn pools(state: &HandlerState) -> Vec<Pool> {
    let pools = state.pools();
    let pools = pools.iter().map(|pool| Pool {
        name: pool.name().to_owned(),
        size: pool.size(),
        chunk: pool.chunk(),
    });
    pools.collect()
}
