//! The switch as a service: its state for the service manager, and reload by SIGHUP.

mod files;
mod notify;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use p4rt::Certificates;
use runtime::{DeviceReload, ProcessSetup, Reloaded};
use support::amount;

use crate::listen::Guard;
use crate::out;
pub(crate) use files::DeviceFiles;
use notify::{Notifier, watchdog};

/// Files that SIGHUP reads again, with the parts of the switch that they describe.
#[derive(Default)]
pub(crate) struct Reload {
    certificates: Option<CertificateFiles>,
    device: Option<(DeviceFiles, DeviceReload)>,
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
    ) -> Reload {
        Reload {
            certificates,
            device,
        }
    }

    /// Reads all files again and makes the switch equal to them, if none has an error.
    ///
    /// # Errors
    /// A file has an error, or the switch refuses a part. Nothing is changed then.
    fn run(&self) -> Result<String, String> {
        let mut done = Vec::new();
        let certificates = self.certificates.as_ref().filter(|one| one.guard.has_tls());
        let checked = certificates.map(|files| {
            let listen = files.guard.listen(files.address)?;
            let checked = files.server.check(&listen);
            checked.map_err(|error| error.to_string())
        });
        let checked = checked.transpose()?;
        if let Some((files, device)) = &self.device {
            done.push(shown(&device.apply(files.read()?)?));
        }
        if let Some(checked) = checked {
            checked.put_in_use();
            done.push("certificates read again".to_owned());
        }
        if done.is_empty() {
            done.push("there is nothing to read again".to_owned());
        }
        Ok(done.join("; "))
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

/// A switch that forwards packets, for the service manager. Reports the stop when it is dropped.
pub(crate) struct Service {
    notifier: Arc<Notifier>,
    /// Ends the watchdog's thread when it is dropped.
    _life: Sender<()>,
}

impl Service {
    /// Reports that the switch is ready, and reloads at each SIGHUP from now on. `status` describes
    /// the switch in a line.
    ///
    /// # Errors
    /// The operating system provides no thread.
    pub(crate) fn start(
        early: &ProcessSetup,
        reload: Reload,
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
        if let Some(time) = watchdog() {
            let (own, turns) = (Arc::clone(&notifier), early.turns());
            std::thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || watch(&over, time, &turns, &own))
                .map_err(no_thread)?;
        }
        notifier.ready(status);
        Ok(Service {
            notifier,
            _life: life,
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.notifier.stopping();
    }
}

/// Reloads for each request. Requests that come during a reload are one.
fn reload_always(asked: &Receiver<()>, reload: &Reload, notifier: &Notifier, status: &str) {
    while asked.recv().is_ok() {
        while asked.try_recv().is_ok() {}
        notifier.reloading();
        let begin = Instant::now();
        let line = match reload.run() {
            Ok(done) => format!("reloaded in {}: {done}", amount::time(begin.elapsed())),
            Err(error) => format!("not reloaded, nothing is changed: {error}"),
        };
        out::note(&line);
        notifier.ready(&format!("{status}; {line}"));
    }
}

/// Reports signs of life while the control loop goes on.
fn watch(over: &Receiver<()>, time: Duration, turns: &AtomicU64, notifier: &Notifier) {
    let mut last = None;
    // A control loop sleeps at most 100 ms.
    while over.recv_timeout(time / 3) == Err(RecvTimeoutError::Timeout) {
        let now = turns.load(Ordering::Relaxed);
        if last != Some(now) {
            notifier.is_alive();
        }
        last = Some(now);
    }
}
