//! `cargo xtask kernel`: tests of the offload by TC flower in a guest with Debian's kernel and a
//! test NIC.
//!
//! The packages of the kernel, its headers, QEMU and BusyBox are unpacked in the target folder;
//! nothing is installed. The guest has the test program `guest` of the crate `offload`, the
//! command `tc`, and the kernel module `testkit/kernel/nic.c`. QEMU emulates the processor, so that
//! the guest also runs where no virtual machine does.

mod cpio;
mod packages;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{Outcome, target};
use cpio::Archive;
use packages::Packages;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Flows that go through the test NIC and through the kernel's software.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    flows: u32,
    /// Seed of these flows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only tests with this word in their names.
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Look for newer packages. Else those that are there are used.
    #[arg(long)]
    refresh: bool,
    /// Seconds after which the guest is ended.
    #[arg(long, value_name = "S", default_value_t = 900)]
    limit: u64,
}

/// Kernel modules that the tests need, without those on which they depend.
const MODULES: [&str; 10] = [
    "sch_ingress",
    "cls_flower",
    "act_gact",
    "act_mirred",
    "act_pedit",
    "act_vlan",
    "act_mpls",
    // The checksum CRC32c is found by its name when `act_csum` begins.
    "crc32c_generic",
    "act_csum",
];

/// Word that begins the guest's last line; the test program's exit status follows.
const ENDED: &str = "guest-ended";

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let folder = target().join("kernel");
    let begin = Instant::now();
    let packages = match Packages::get(&folder, options.refresh) {
        Ok(packages) => packages,
        Err(reason) => {
            println!("kernel: skipped: {reason}");
            return Ok(());
        }
    };
    println!(
        "kernel: Linux {} ({:.1?})",
        packages.release,
        begin.elapsed()
    );
    let module = build_module(root, &folder, &packages)?;
    let program = build_tests()?;
    let image = folder.join("initramfs.cpio");
    let archive = initramfs(options, &packages, &module, &program)?;
    std::fs::write(&image, archive).map_err(|e| format!("{}: {e}", image.display()))?;
    println!("kernel: the guest starts ({:.1?})", begin.elapsed());
    let outcome = run_guest(&packages, &image, Duration::from_secs(options.limit));
    println!("kernel: the guest has ended ({:.1?})", begin.elapsed());
    outcome
}

/// Builds the test NIC against the kernel's headers. Returns the module's path.
fn build_module(root: &Path, folder: &Path, packages: &Packages) -> Result<PathBuf, String> {
    let build = folder.join("module");
    let from = root.join("testkit/kernel");
    std::fs::create_dir_all(&build).map_err(|e| format!("{}: {e}", build.display()))?;
    for name in ["nic.c", "Makefile"] {
        std::fs::copy(from.join(name), build.join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    // The headers' own Makefile names a path of an installed package.
    let headers = packages.root.join("usr/src");
    let release = &packages.release;
    let common = release.trim_end_matches("amd64").to_owned() + "common";
    let output = Command::new("make")
        .arg("-C")
        .arg(headers.join(format!("linux-headers-{release}")))
        .arg("-f")
        .arg(headers.join(format!("linux-headers-{common}/Makefile")))
        .arg(format!("M={}", build.display()))
        .arg("modules")
        .output()
        .map_err(|e| format!("cannot start make: {e}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the test NIC cannot be built:\n{words}"));
    }
    Ok(build.join("nic.ko"))
}

/// Builds the test program and returns its path.
fn build_tests() -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "-p", "offload", "--test", "guest", "--no-run"])
        .arg("--message-format=json")
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err("the test program cannot be built".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = (text.lines()).filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| message["target"]["name"] == "guest")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo names no test program".to_owned())
}

/// Makes the guest's root file system.
fn initramfs(
    options: &Options,
    packages: &Packages,
    module: &Path,
    program: &Path,
) -> Result<Vec<u8>, String> {
    let mut archive = Archive::default();
    for folder in ["bin", "lib", "lib64", "proc", "sys", "dev", "tmp", "run"] {
        archive.folder(folder);
    }
    archive.file("bin/busybox", &packages.find("bin/busybox")?)?;
    archive.file("lib/nic.ko", module)?;
    let modules = packages.modules(&MODULES)?;
    for (name, path) in &modules {
        archive.file(&format!("lib/{name}.ko"), path)?;
    }
    let tc = packages.find("sbin/tc")?;
    for (name, path) in [("bin/tc", tc.as_path()), ("bin/guest", program)] {
        archive.file(name, path)?;
        for library in packages.libraries(path)? {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            let folder = if name.starts_with("ld-linux") {
                "lib64"
            } else {
                "lib"
            };
            archive.file(&format!("{folder}/{name}"), &library)?;
        }
    }
    archive.text("init", &init(options, &modules));
    Ok(archive.finish())
}

/// Returns the guest's first program.
fn init(options: &Options, modules: &[(String, PathBuf)]) -> String {
    let loads: String = (modules.iter())
        .map(|(name, _)| format!("insmod /lib/{name}.ko\n"))
        .collect();
    let (flows, seed, only) = (options.flows, options.seed, &options.only);
    format!(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin\n\
         export PATH=/bin LD_LIBRARY_PATH=/lib RUST_BACKTRACE=1\n\
         mount -t proc proc /proc\n\
         mount -t sysfs sysfs /sys\n\
         mount -t devtmpfs devtmpfs /dev\n\
         {loads}\
         insmod /lib/nic.ko\n\
         export POLYPLANE_GUEST=1 POLYPLANE_GUEST_FLOWS={flows} POLYPLANE_GUEST_SEED={seed}\n\
         guest --nocapture --test-threads=1 {only}\n\
         echo \"{ENDED} $?\"\n\
         poweroff -f\n"
    )
}

/// Runs the guest and prints its lines, up to the time limit.
fn run_guest(packages: &Packages, image: &Path, limit: Duration) -> Outcome {
    let mut command = packages.qemu()?;
    command
        .args([
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-m",
            "1024",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args(["-nodefaults", "-serial", "stdio", "-kernel"])
        .arg(
            packages
                .root
                .join(format!("boot/vmlinuz-{}", packages.release)),
        )
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut guest = command
        .spawn()
        .map_err(|e| format!("cannot start QEMU: {e}"))?;
    let console = guest.stdout.take().ok_or("QEMU has no console")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + limit;
    let mut status = None;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.strip_prefix(ENDED) {
                Some(number) => status = Some(number.trim().to_owned()),
                None => println!("guest: {line}"),
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = guest.kill();
                let _ = guest.wait();
                return Err(format!("the guest did not end in {limit:?}"));
            }
        }
    }
    let _ = guest.wait();
    let _ = reader.join();
    match status.as_deref() {
        Some("0") => Ok(()),
        Some(number) => Err(format!("the guest's test program ended with {number}")),
        None => Err("the guest ended without its test program's status".to_owned()),
    }
}
