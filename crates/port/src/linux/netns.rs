//! Network namespaces: machines in the machine, to try a switch between, without root.
//!
//! A namespace lives as long as something refers to it: a [`Netns`], a thread inside, an interface
//! pair's other end. So whatever ends the process also cleans up after it.

use super::rtnl::{Rtnl, RtnlError};
use super::sys;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io, panic, thread};

/// The calling thread's network namespace.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";

/// By what right the process has its private namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It was allowed to make network namespaces already: it is root, or has CAP_SYS_ADMIN.
    Administrator,
    /// It has become root inside a user namespace of its own, and nowhere else.
    UserNamespace,
}

/// Why a namespace cannot be made or entered.
#[derive(Debug)]
pub enum NetnsError {
    /// The process has no right to make them as it is: CAP_SYS_ADMIN.
    Unprivileged,
    /// This machine does not allow it.
    Forbidden {
        /// The reason, as far as the machine says it, and what to do.
        because: String,
    },
    /// A step failed that should not.
    Failed {
        /// What was being done.
        doing: String,
        /// What the operating system said.
        source: io::Error,
    },
}

impl fmt::Display for NetnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetnsError::Forbidden { because } => {
                write!(
                    f,
                    "this machine does not allow network namespaces: {because}"
                )
            }
            NetnsError::Unprivileged => f.write_str(
                "making network namespaces takes CAP_SYS_ADMIN, which this process does not have: \
                 run it as root",
            ),
            NetnsError::Failed { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for NetnsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NetnsError::Failed { source, .. } => Some(source),
            NetnsError::Unprivileged | NetnsError::Forbidden { .. } => None,
        }
    }
}

fn failed(doing: impl Into<String>) -> impl FnOnce(io::Error) -> NetnsError {
    let doing = doing.into();
    move |source| NetnsError::Failed { doing, source }
}

/// Puts the process into a network namespace of its own, in which it may do everything; without the
/// right to, by way of a user namespace of its own, in which it is root. Call it before there is a
/// second thread: only a process with one thread may change its user namespace.
///
/// # Errors
/// [`NetnsError::Forbidden`] with the machine's reason.
pub fn enter_private() -> Result<Privilege, NetnsError> {
    if sys::unshare(libc::CLONE_NEWNET).is_ok() {
        return Ok(Privilege::Administrator);
    }
    let (user, group) = sys::user_and_group();
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|e| NetnsError::Forbidden {
        because: why_forbidden(&e),
    })?;
    // Groups must be given up before they can be mapped without privilege.
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, text) in maps {
        fs::write(file, text).map_err(|e| NetnsError::Forbidden {
            because: why_forbidden(&e),
        })?;
    }
    Ok(Privilege::UserNamespace)
}

/// The machine's reason for an error of `unshare`, from the settings that forbid it.
fn why_forbidden(error: &io::Error) -> String {
    let is = |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|t| t.trim() == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        "user.max_user_namespaces is 0; allow some by 'sudo sysctl user.max_user_namespaces=15000', \
         or run as root"
            .to_owned()
    } else if is("/proc/sys/user/max_net_namespaces", "0") {
        "user.max_net_namespaces is 0; allow some by 'sudo sysctl user.max_net_namespaces=15000'"
            .to_owned()
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone is 0; allow it by 'sudo sysctl \
         kernel.unprivileged_userns_clone=1', or run as root"
            .to_owned()
    } else if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "AppArmor restricts user namespaces; allow them by 'sudo sysctl \
         kernel.apparmor_restrict_unprivileged_userns=0', or run as root"
            .to_owned()
    } else if is_filtered() {
        format!(
            "{error}; the process runs under a system call filter, as in a container: start the \
             container with --privileged, or run outside of it"
        )
    } else {
        format!("{error}; run as root")
    }
}

/// Whether a filter decides which system calls the process may make.
fn is_filtered() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

/// Whether the process may administer the system, in its user namespace.
fn is_privileged() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Where it cannot be read, the operating system's own error says more.
    effective.is_none_or(|mask| mask >> SYS_ADMIN & 1 == 1)
}

/// A network namespace, kept alive by this value.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// Makes a new namespace, with nothing in it but the loopback interface, which is down.
    ///
    /// # Errors
    /// [`NetnsError::Unprivileged`] without CAP_SYS_ADMIN (see [`enter_private`]);
    /// [`NetnsError::Forbidden`] where it is of no use.
    pub fn create() -> Result<Netns, NetnsError> {
        in_thread(|| {
            sys::unshare(libc::CLONE_NEWNET).map_err(|e| match is_privileged() {
                true => NetnsError::Forbidden {
                    because: why_forbidden(&e),
                },
                false => NetnsError::Unprivileged,
            })?;
            Netns::current()
        })
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Netns, NetnsError> {
        Netns::open(OWN_NETNS)
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// There is no such process, or the caller may not look into it.
    pub fn of_process(pid: u32) -> Result<Netns, NetnsError> {
        Netns::open(&format!("/proc/{pid}/ns/net"))
    }

    fn open(path: &str) -> Result<Netns, NetnsError> {
        let file = File::open(path).map_err(failed(format!("opening {path}")))?;
        Ok(Netns { fd: file.into() })
    }

    /// Runs `work` inside the namespace, in a thread of its own, and waits for it. Sockets, ports and
    /// processes that it makes are of the namespace, also when used elsewhere later.
    ///
    /// # Errors
    /// The thread cannot enter the namespace. A panic of `work` goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        in_thread(|| {
            sys::enter_netns(&self.fd).map_err(failed("entering a network namespace"))?;
            Ok(work())
        })
    }

    /// A socket to configure the namespace's interfaces, addresses and routes through.
    ///
    /// # Errors
    /// The namespace cannot be entered or the socket not be made.
    pub fn rtnl(&self) -> Result<Rtnl, NetnsError> {
        let opened: Result<Rtnl, RtnlError> = self.run(Rtnl::open)?;
        opened.map_err(|e| NetnsError::Failed {
            doing: e.doing,
            source: e.source,
        })
    }

    /// The namespace's descriptor, by which the kernel is told where an interface should go.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// The namespace's descriptor: another process may enter by it as long as this value lives.
impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` in a thread that ends with it, so that it may change the thread's namespace.
fn in_thread<T: Send>(
    work: impl FnOnce() -> Result<T, NetnsError> + Send,
) -> Result<T, NetnsError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(failed("starting a thread"))?;
        thread
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
