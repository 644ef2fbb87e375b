//! New C code of a running server: it is compiled beside the traffic, and workers take it at the
//! start of a burst.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use exec::Natives;
use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::code_change::Step;
use switch::Device;

/// Source of a server's handlers: files that the command line names. No code comes from a network.
pub trait HandlerSource: Send + Sync {
    /// Reads and compiles the handlers as the files have them now, and checks that they keep the
    /// state, unless it may be lost. Runs on a thread of its own.
    ///
    /// # Errors
    /// The place and the cause. Nothing is changed.
    fn prepare(&self, may_lose: bool) -> Result<Box<dyn PreparedHandlers>, String>;
}

/// Handlers that can run.
pub trait PreparedHandlers: Send {
    /// Takes over the state.
    ///
    /// # Errors
    /// The cause. The state is unchanged.
    fn take_over(self: Box<Self>) -> Result<NewHandlers, String>;
}

/// Handlers that have the server's state.
pub struct NewHandlers {
    /// The handlers, by their names in the program.
    pub natives: Natives,
    /// The pools of the server.
    pub pools: Vec<wire::Pool>,
}

type Prepared = Result<Box<dyn PreparedHandlers>, String>;

/// Stage of a change of the code.
enum Stage {
    Compiling(Receiver<Prepared>),
    Ready(Box<dyn PreparedHandlers>),
}

/// Change of the code of a server.
#[derive(Default)]
pub(crate) struct ServerCode {
    pub(crate) source: Option<Arc<dyn HandlerSource>>,
    /// The change that goes on, with its number.
    change: Option<(u64, Stage)>,
}

impl ServerCode {
    /// Carries out a step. Returns its result, if it has one now. New pools go to `pools`.
    pub(crate) fn step(
        &mut self,
        change: &wire::CodeChange,
        device: &mut Device,
        pools: &mut Vec<wire::Pool>,
    ) -> Option<wire::CodeResult> {
        let number = change.number;
        match change.step() {
            Step::Prepare => match self.begin_prepare(change.may_lose) {
                Ok(compiling) => {
                    self.change = Some((number, Stage::Compiling(compiling)));
                    None
                }
                Err(error) => Some(refused(number, false, error)),
            },
            Step::Discard => {
                self.change = None;
                None
            }
            Step::Run => {
                let new = match self.change.take() {
                    Some((own, Stage::Ready(prepared))) if own == number => prepared.take_over(),
                    _ => Err("it has not compiled this code".to_owned()),
                };
                Some(match new {
                    Ok(new) => {
                        device.set_handlers(&new.natives);
                        device.publish();
                        pools.clone_from(&new.pools);
                        wire::CodeResult {
                            number,
                            is_running: true,
                            error: String::new(),
                            pools: new.pools,
                        }
                    }
                    Err(error) => refused(number, true, error),
                })
            }
        }
    }

    fn begin_prepare(&self, may_lose: bool) -> Result<Receiver<Prepared>, String> {
        let Some(source) = self.source.clone() else {
            return Err("its program has no C code".to_owned());
        };
        let (sender, receiver) = channel();
        let compiler = thread::Builder::new().name("c-compiler".to_owned());
        let started = compiler.spawn(move || {
            // The change may be discarded.
            let _ = sender.send(source.prepare(may_lose));
        });
        let started = started.map(drop);
        started.map_err(|error| format!("there is no thread for the compiler: {error}"))?;
        Ok(receiver)
    }

    /// Returns the result of the compilation when it has ended.
    pub(crate) fn poll(&mut self) -> Option<wire::CodeResult> {
        let (number, Stage::Compiling(compiling)) = self.change.as_ref()? else {
            return None;
        };
        let number = *number;
        let prepared = match compiling.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the compilation has failed".to_owned()),
        };
        self.change = None;
        Some(match prepared {
            Ok(prepared) => {
                self.change = Some((number, Stage::Ready(prepared)));
                wire::CodeResult {
                    number,
                    ..wire::CodeResult::default()
                }
            }
            Err(error) => refused(number, false, error),
        })
    }
}

fn refused(number: u64, is_running: bool, error: String) -> wire::CodeResult {
    wire::CodeResult {
        number,
        is_running,
        error,
        pools: Vec::new(),
    }
}
