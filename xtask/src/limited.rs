//! Runs programs for a limited time.

use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time between two looks at a program.
const LOOK: Duration = Duration::from_millis(20);

/// A child process that is killed in the end.
pub(crate) struct KilledChild(pub(crate) Child);

impl KilledChild {
    /// Waits for the end of the process. Returns what it has written to the pipes of its outputs.
    ///
    /// # Errors
    /// It has not ended after `limit`: then it is killed.
    pub(crate) fn output(mut self, limit: Duration) -> io::Result<Output> {
        let begin = Instant::now();
        let stdout = self.0.stdout.take().map(read_all);
        let stderr = self.0.stderr.take().map(read_all);
        loop {
            if let Some(status) = self.0.try_wait()? {
                let rest = limit.saturating_sub(begin.elapsed());
                return Ok(Output {
                    status,
                    stdout: stdout.map_or(Ok(Vec::new()), |pipe| text_of(&pipe, rest))?,
                    stderr: stderr.map_or(Ok(Vec::new()), |pipe| text_of(&pipe, rest))?,
                });
            }
            if begin.elapsed() >= limit {
                return Err(too_late(limit));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, as [`Command::output`] does, for a limited time.
///
/// # Errors
/// It cannot be started, or has not ended after `limit`.
pub(crate) fn output(command: &mut Command, limit: Duration) -> io::Result<Output> {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    KilledChild(command.spawn()?).output(limit)
}

fn too_late(limit: Duration) -> io::Error {
    let message = format!("it has not ended after {} s", limit.as_secs_f64());
    io::Error::new(io::ErrorKind::TimedOut, message)
}

/// Reads a pipe in a thread of its own, which ends with the pipe.
fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.read_to_end(&mut bytes);
        // After the limit no text is awaited.
        let _ = sender.send(read.map(|_| bytes));
    });
    receiver
}

/// Returns what a pipe had. Programs that the process has left may hold it open.
fn text_of(pipe: &Receiver<io::Result<Vec<u8>>>, rest: Duration) -> io::Result<Vec<u8>> {
    let text = pipe.recv_timeout(rest.max(LOOK));
    text.map_err(|_| {
        let message = "a program that it has started holds its output open";
        io::Error::new(io::ErrorKind::TimedOut, message)
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_an_error() -> io::Result<()> {
        let limit = Duration::from_millis(200);
        let late = output(Command::new("sleep").arg("60"), limit);
        assert!(late.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        let script = ["-c", "echo out; echo err >&2; exit 3"];
        let ended = output(Command::new("sh").args(script), Duration::from_secs(30))?;
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (&ended.stdout[..], &ended.stderr[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
        Ok(())
    }
}
