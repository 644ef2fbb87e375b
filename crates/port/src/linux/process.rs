//! Programs that this process starts and ends.

use super::sys;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// A started program with all that it starts in turn: a process group. It is killed when this value
/// is dropped.
#[derive(Debug)]
pub struct ProcessGroup {
    /// The program.
    pub child: Child,
}

impl ProcessGroup {
    /// Starts a program in a process group. It receives all signals, also those that this process
    /// has blocked to catch them.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<ProcessGroup> {
        command.process_group(0);
        sys::unblock_signals(command);
        let child = command.spawn()?;
        Ok(ProcessGroup { child })
    }

    /// Returns the exit status, if the program has ended.
    ///
    /// # Errors
    /// Those of [`Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Returns true if a program of the group runs: the first one, or one that it has started.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) || sys::has_group(self.child.id())
    }
}

/// Starts a program in this process's own group, so that it has the terminal and gets its signals.
/// It receives all signals, also those that this process has blocked to catch them.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn start_in_foreground(command: &mut Command) -> io::Result<Child> {
    sys::unblock_signals(command);
    command.spawn()
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The number is not taken by another group while the program is not waited for, or a
        // program of the group runs. If none is left there is nothing to kill.
        let _ = sys::kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    #[test]
    fn a_group_runs_as_long_as_one_of_its_programs() {
        let mut group = ProcessGroup::start(&mut Command::new("true")).unwrap();
        group.child.wait().unwrap();
        assert!(!group.is_running());
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & exit"]);
        let mut group = ProcessGroup::start(command.stdout(Stdio::null())).unwrap();
        group.child.wait().unwrap();
        assert!(group.is_running());
    }

    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo started; wait"]);
        let mut group = ProcessGroup::start(command.stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(group.child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        drop(group);
        // The end of the output: no program has it open.
        assert_eq!(output.read_line(&mut line).unwrap(), 0);
    }
}
