//! Tests of namespaces without root, and of the errors for users without permission. The file has
//! a separate `main`, because only a single-threaded process can enter a user namespace. Each test
//! runs in a separate, unprivileged process.

use packet::PortId;
use port::{
    AfPacketPort, Netns, PortDriver, Privilege, StopSignals, TapPort, enter_private, open_interface,
};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// User id of the unprivileged user `nobody` on every distribution.
const NOBODY: u32 = 65534;

/// A test's name, and the test function, which returns its result as a line.
type Test = (&'static str, fn() -> String);

const TESTS: [Test; 4] = [
    (
        "an_unprivileged_user_gets_namespaces_of_his_own",
        namespaces,
    ),
    ("a_machine_that_forbids_namespaces_says_why", forbidden),
    ("a_user_without_permission_is_told_what_to_do", permission),
    ("a_stop_signal_arrives_at_its_descriptor", signal),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name] = arguments.as_slice()
        && flag == "--in-child"
    {
        let (_, test) = TESTS
            .iter()
            .find(|(n, _)| n == name)
            .expect("a test's name");
        println!("{}", test());
        return ExitCode::SUCCESS;
    }
    let mut failures = 0;
    for (name, _) in TESTS {
        let (line, passed) = in_child(name);
        println!("test {name} ... {line}");
        failures += usize::from(!passed);
    }
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn in_child(name: &str) -> (String, bool) {
    // An unprivileged user may have no access to the build directory.
    let directory = std::env::temp_dir().join(format!("polyplane-private-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let program = directory.join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["--in-child", name]).current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output();
    std::fs::remove_dir_all(&directory).unwrap();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().to_owned();
    if output.status.success() {
        (line, true)
    } else {
        (
            format!("FAILED\n{text}{}", String::from_utf8_lossy(&output.stderr)),
            false,
        )
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status
        .lines()
        .any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]))
}

fn namespaces() -> String {
    match enter_private() {
        Err(error) => return format!("skipped: {error}"),
        Ok(privilege) => assert_eq!(privilege, Privilege::UserNamespace),
    }
    let host = Netns::create().unwrap();
    let mut config = host.rtnl().unwrap();
    config
        .add_veth("a", "b", Some(&Netns::current().unwrap()))
        .unwrap();
    config.set_up("a").unwrap();
    config.add_address("a", [10, 0, 0, 1].into(), 24).unwrap();
    config
        .add_route([0, 0, 0, 0].into(), 0, [10, 0, 0, 2].into())
        .unwrap();
    config
        .move_link("a", &Netns::of_process(std::process::id()).unwrap())
        .unwrap();
    let names: Vec<String> = port::interfaces()
        .unwrap()
        .into_iter()
        .map(|interface| interface.name)
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let opened = open_interface(PortId(0), "b", PortDriver::Auto, 1).unwrap();
    let expect = "AF_PACKET (no AF_XDP: it needs root";
    assert!(opened.how.starts_with(expect), "{}", opened.how);
    let tap = TapPort::open(PortId(1), "t");
    let error = config.set_up("a").unwrap_err().to_string();
    assert!(
        error.starts_with("bringing a up: No such device"),
        "{error}"
    );
    match tap {
        Ok(_) => "ok".to_owned(),
        // Most machines let every user open the device. Otherwise unprivileged users cannot use
        // TAP.
        Err(error) => {
            assert!(
                error
                    .to_string()
                    .contains("this user may not use /dev/net/tun"),
                "{error}"
            );
            format!("ok, but without TAP: {error}")
        }
    }
}

fn forbidden() -> String {
    if let Err(error) = enter_private() {
        return format!("skipped: {error}");
    }
    // The limit applies inside the namespace in which it is set.
    std::fs::write("/proc/sys/user/max_net_namespaces", "0").unwrap();
    let error = Netns::create().unwrap_err().to_string();
    let start = "this machine does not allow network namespaces: user.max_net_namespaces is 0";
    assert!(error.starts_with(start), "{error}");
    "ok".to_owned()
}

fn permission() -> String {
    let error = AfPacketPort::open(PortId(0), "lo")
        .err()
        .unwrap()
        .to_string();
    let start = "opening a raw socket on lo needs the capability CAP_NET_RAW: run with sudo";
    assert!(error.starts_with(start), "{error}");
    match TapPort::open(PortId(0), "polyplane-test").err().unwrap() {
        error @ port::PortError::NoPermission { .. } => {
            assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
            "ok".to_owned()
        }
        error => format!("ok, but without TAP: {error}"),
    }
}

fn signal() -> String {
    let signals = StopSignals::catch().unwrap();
    assert_eq!(signals.take(), None);
    let pid = std::process::id().to_string();
    // The shell's builtin, because the `kill` program may be missing.
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -TERM {pid}")])
        .status()
        .unwrap();
    assert!(kill.success());
    let mut poller = port::Poller::new();
    let ready = poller
        .wait([signals.poll_fd()], std::time::Duration::from_secs(2))
        .unwrap();
    assert_eq!(ready, 1);
    assert_eq!(signals.take(), Some(port::Signal::Terminate));
    assert_eq!(signals.take(), None);
    "ok".to_owned()
}
