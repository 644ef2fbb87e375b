//! Network namespaces: isolated network stacks in which a switch can be tested, also without root.
//!
//! A namespace lives as long as something refers to it: a [`Netns`], a thread inside, or the other
//! end of a veth pair. So the end of the process also cleans up its namespaces.

use super::rtnl::{Rtnl, RtnlError};
use super::sys;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::{fmt, io, panic, thread};

/// Path of the calling thread's network namespace.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";

/// Permission by which the process has a private network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It already had CAP_SYS_ADMIN, for instance as root.
    Administrator,
    /// It has become root inside a private user namespace only.
    UserNamespace,
}

/// Error of creating or entering a network namespace.
#[derive(Debug)]
pub enum NetnsError {
    /// The process lacks CAP_SYS_ADMIN.
    Unprivileged,
    /// The machine does not allow it.
    Forbidden {
        /// The reason, as far as it is known, and advice.
        because: String,
    },
    /// A step failed unexpectedly.
    Failed {
        /// The attempted operation.
        doing: String,
        /// The error of the operating system.
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

/// Moves the process to a private network namespace. Without CAP_SYS_ADMIN, it also gets a private
/// user namespace in which it is root. Call this before a second thread is started, because only a
/// single-threaded process can change its user namespace.
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
    // An unprivileged process must disable `setgroups` before it may map its group.
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

/// Returns the reason for an error of `unshare`, from the system settings that forbid it.
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

/// Returns true if a system call filter (seccomp) restricts the process.
fn is_filtered() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

/// Returns true if the process has CAP_SYS_ADMIN in its user namespace.
fn is_privileged() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // If the capabilities cannot be read, rely on the operating system's own error.
    effective.is_none_or(|mask| mask >> SYS_ADMIN & 1 == 1)
}

/// A handle that keeps a network namespace alive.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// Creates a namespace that contains only the loopback interface, which is down.
    ///
    /// # Errors
    /// [`NetnsError::Unprivileged`] without CAP_SYS_ADMIN (see [`enter_private`]).
    /// [`NetnsError::Forbidden`] if that capability does not help.
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

    /// Returns the calling thread's namespace.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> Result<Netns, NetnsError> {
        Netns::open(OWN_NETNS)
    }

    /// Returns the namespace of a process.
    ///
    /// # Errors
    /// There is no such process, or access is denied.
    pub fn of_process(pid: u32) -> Result<Netns, NetnsError> {
        Netns::open(&format!("/proc/{pid}/ns/net"))
    }

    fn open(path: &str) -> Result<Netns, NetnsError> {
        let file = File::open(path).map_err(failed(format!("opening {path}")))?;
        Ok(Netns { fd: file.into() })
    }

    /// Returns true if the calling thread is in this namespace.
    pub(super) fn is_current(&self) -> bool {
        let identity = |file: &File| file.metadata().map(|it| (it.dev(), it.ino()));
        let own = File::open(OWN_NETNS).and_then(|own| identity(&own));
        let this = self.fd.try_clone().and_then(|fd| identity(&fd.into()));
        matches!((own, this), (Ok(own), Ok(this)) if own == this)
    }

    /// Runs `work` inside the namespace, on a new thread, and waits for it. Sockets, ports and
    /// processes that it creates belong to the namespace, even if they are used elsewhere later.
    ///
    /// # Errors
    /// The thread cannot enter the namespace. A panic of `work` is propagated.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        in_thread(|| {
            sys::enter_netns(&self.fd).map_err(failed("entering a network namespace"))?;
            Ok(work())
        })
    }

    /// Opens a socket to configure the namespace's interfaces, addresses and routes.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the socket cannot be created.
    pub fn rtnl(&self) -> Result<Rtnl, NetnsError> {
        let opened: Result<Rtnl, RtnlError> = self.run(Rtnl::open)?;
        opened.map_err(|e| NetnsError::Failed {
            doing: e.doing,
            source: e.source,
        })
    }

    /// Returns the namespace's descriptor, which identifies the namespace to the kernel when an
    /// interface is moved there.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// Returns the namespace's descriptor. Other processes can enter through it as long as this value
/// lives.
impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` on a new thread, which may change its network namespace.
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
