//! The switch as a service: its state for the service manager, and reload by SIGHUP.

mod files;
mod notify;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use p4rt::Certificates;
use runtime::{DeviceReload, LoopTurns, ProcessSetup, Reloaded};
use support::amount;

use crate::config::ConfigWatch;
use crate::listen::Guard;
use crate::out;
pub(crate) use files::DeviceFiles;
use notify::{Notifier, watchdog};

/// Files that SIGHUP reads again, with the parts of the switch that they describe.
#[derive(Default)]
pub(crate) struct Reload {
    certificates: Option<CertificateFiles>,
    device: Option<(DeviceFiles, DeviceReload)>,
    config: Option<ConfigWatch>,
}

/// Outcome of a reload, as lines for people.
struct ReloadLines {
    done: String,
    /// The changed options that a reload does not apply.
    ignored: Option<String>,
}

/// Certificates of a server, and the options that name their files.
pub(crate) struct CertificateFiles {
    pub(crate) server: Certificates,
    pub(crate) guard: Guard,
    pub(crate) address: SocketAddr,
}

impl Reload {
    pub(crate) fn new(
        certificates: Option<CertificateFiles>,
        device: Option<(DeviceFiles, DeviceReload)>,
        config: Option<ConfigWatch>,
    ) -> Reload {
        Reload {
            certificates,
            device,
            config,
        }
    }

    /// Reads all files again and makes the switch equal to them, if none has an error.
    ///
    /// # Errors
    /// A file has an error, or the switch refuses a part. Nothing is changed then.
    fn run(&self) -> Result<ReloadLines, String> {
        let mut done = Vec::new();
        let config = self.config.as_ref().map(ConfigWatch::changed);
        let ignored = config.transpose()?.flatten();
        let certificates = self.certificates.as_ref().filter(|one| one.guard.has_tls());
        let checked = certificates.map(|files| {
            let listen = files.guard.listen(files.address)?;
            let checked = files.server.check(&listen);
            checked.map_err(|error| error.to_string())
        });
        let checked = checked.transpose()?;
        if let Some((files, device)) = &self.device {
            let read = files.read()?;
            done.push(shown(&device.apply(read.device)?));
            files.set_handlers(read.handlers);
        }
        if let Some(checked) = checked {
            checked.put_in_use();
            done.push("certificates read again".to_owned());
        }
        if done.is_empty() {
            done.push("there is nothing to read again".to_owned());
        }
        Ok(ReloadLines {
            done: done.join("; "),
            ignored,
        })
    }
}

fn shown(reloaded: &Reloaded) -> String {
    let program = match reloaded.is_new_program {
        true => "new program",
        false => "same program",
    };
    let changes = match reloaded.changes {
        0 => "no other change".to_owned(),
        changes => format!("{} of its state", amount::count(changes as u64, "change")),
    };
    let lost = match reloaded.lost.is_empty() {
        true => String::new(),
        false => format!(", without {}", reloaded.lost.join(", ")),
    };
    format!("{program}, {changes}{lost}")
}

/// A switch that forwards packets, for the service manager.
pub(crate) struct Service {
    notifier: Arc<Notifier>,
    is_stopping: Arc<AtomicBool>,
    /// Ends the watchdog's thread when it is dropped.
    _life: Sender<()>,
}

impl Service {
    /// Reports that the switch is ready, and reloads at each SIGHUP from now on. `status` describes
    /// the switch in a line, and `loops` are its control loops: all of them go on in a switch that
    /// is alive.
    ///
    /// # Errors
    /// The operating system provides no thread.
    pub(crate) fn start(
        early: &ProcessSetup,
        reload: Reload,
        loops: Vec<LoopTurns>,
        status: &str,
    ) -> Result<Service, String> {
        let no_thread = |error| format!("cannot start a thread: {error}");
        let notifier = Arc::new(Notifier::from_environment());
        let (asks, asked) = channel();
        let own = Arc::clone(&notifier);
        let shown = status.to_owned();
        std::thread::Builder::new()
            .name("reload".to_owned())
            // It compiles programs.
            .stack_size(crate::STACK_BYTES)
            .spawn(move || reload_always(&asked, &reload, &own, &shown))
            .map_err(no_thread)?;
        early.set_hangup(move || {
            // The thread ends with the process.
            let _ = asks.send(());
        });
        let (life, over) = channel();
        let is_stopping = Arc::new(AtomicBool::new(false));
        if let Some(time) = watchdog() {
            let (own, is_stopping) = (Arc::clone(&notifier), Arc::clone(&is_stopping));
            let watched = WatchedLoops::new(loops);
            std::thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || watch(&over, time, watched, &is_stopping, &own))
                .map_err(no_thread)?;
        }
        notifier.ready(status);
        Ok(Service {
            notifier,
            is_stopping,
            _life: life,
        })
    }

    /// Reports that the switch stops: it forwards no more, but may have state to store. Signs of
    /// life do not depend on its control loops from now on.
    pub(crate) fn stop(&self) {
        if !self.is_stopping.swap(true, Ordering::AcqRel) {
            self.notifier.stopping();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reloads for each request. Requests that come during a reload are one.
fn reload_always(asked: &Receiver<()>, reload: &Reload, notifier: &Notifier, status: &str) {
    while asked.recv().is_ok() {
        while asked.try_recv().is_ok() {}
        notifier.reloading();
        let begin = Instant::now();
        let line = match reload.run() {
            Ok(ReloadLines { done, ignored }) => {
                let line = format!("reloaded in {}: {done}", amount::time(begin.elapsed()));
                out::note(&line);
                if let Some(ignored) = &ignored {
                    out::note(&format!("warning: {ignored}"));
                }
                [Some(line), ignored]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("; ")
            }
            Err(error) => {
                let line = format!("not reloaded, nothing is changed: {error}");
                out::error(&line);
                line
            }
        };
        notifier.ready(&format!("{status}; {line}"));
    }
}

/// Control loops, with their turns at the last look.
struct WatchedLoops(Vec<(LoopTurns, Option<u64>)>);

impl WatchedLoops {
    fn new(loops: Vec<LoopTurns>) -> WatchedLoops {
        WatchedLoops(loops.into_iter().map(|one| (one, None)).collect())
    }

    /// Returns true if each loop has made turns since the last look, or has ended.
    fn go_on(&mut self) -> bool {
        let mut all = true;
        for (turns, last) in &mut self.0 {
            let now = turns.read();
            all &= now.is_none() || now != *last;
            *last = now;
        }
        all
    }
}

/// Reports signs of life while the control loops go on, or the switch stops.
fn watch(
    over: &Receiver<()>,
    time: Duration,
    mut loops: WatchedLoops,
    is_stopping: &AtomicBool,
    notifier: &Notifier,
) {
    // A control loop sleeps at most 100 ms.
    while over.recv_timeout(time / 3) == Err(RecvTimeoutError::Timeout) {
        if loops.go_on() || is_stopping.load(Ordering::Acquire) {
            notifier.is_alive();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_alive_only_while_all_of_its_loops_go_on() {
        let (one, other) = (ProcessSetup::default(), ProcessSetup::default());
        let mut loops = WatchedLoops::new(vec![one.turns(), other.turns()]);
        assert!(loops.go_on());
        assert!(!loops.go_on());
        one.take_signal();
        assert!(!loops.go_on(), "the other one stands still");
        for setup in [&one, &other] {
            setup.take_signal();
        }
        assert!(loops.go_on());
    }
}
