//! `cargo xtask package`: makes the Debian package that `crates/cli/Cargo.toml` describes for
//! `cargo deb`, and checks it.
//!
//! The package is made by `dpkg-deb`, so that no further tool is needed. The unit is checked by
//! `systemd-analyze verify` where there is one. With `--root DIR`, a Debian system made by
//! `debootstrap`, the package is installed there, used as its own user, and removed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Outcome, cargo, root, target};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Package this program instead of a release build.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Install the package in a copy of this Debian root, use it and remove it. Needs root.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Script of the package's user in the clean root, with the capabilities of the unit that ports by
/// AF_PACKET and TAP ports need.
const USE: &str = r#"set -e
exec_as() {
    exec setpriv --reuid=polyplane --regid=polyplane --clear-groups --no-new-privs \
        --inh-caps=+net_raw,+net_admin --ambient-caps=+net_raw,+net_admin -- "$@"
}
as() {
    (exec_as "$@")
}
config=/usr/share/doc/polyplane/example.toml
as polyplane --version
as polyplane config check $config
as polyplane demo --megabytes 1
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -s /usr/lib/systemd/system/polyplane@.service \
    /etc/systemd/system/multi-user.target.wants/polyplane@edge.service
# `as` would be a shell, which gets the signals in place of the switch.
exec_as polyplane config start $config >/tmp/out 2>/tmp/log &
started=$!
try() {
    for time in $(seq 200); do
        if grep -q "$1" /tmp/log; then return 0; fi
        sleep 0.1
    done
    cat /tmp/log
    exit 1
}
try 'is running on'
kill -HUP $started
try 'reloaded in .*same program, no other change'
as polyplane ctl status
kill -TERM $started
wait $started
echo 'prot = "0=ring:x"' >/tmp/wrong.toml
status=0
as polyplane run --config /tmp/wrong.toml 2>/tmp/log || status=$?
test $status = 78
grep -q 'did you mean `port`' /tmp/log
"#;

/// Script that fails if files or the user are left when the package is removed.
const REMOVED: &str = r#"set -e
for path in /usr/bin/polyplane /usr/lib/systemd/system/polyplane@.service /etc/polyplane \
    /var/lib/polyplane /usr/share/doc/polyplane /usr/lib/sysusers.d/polyplane.conf; do
    if test -e $path; then echo "$path is left"; exit 1; fi
done
if test -L /etc/systemd/system/multi-user.target.wants/polyplane@edge.service; then
    echo 'an enabled instance is left'
    exit 1
fi
if getent passwd polyplane; then echo 'the user is left'; exit 1; fi
"#;

pub(crate) fn run(options: &Options) -> Outcome {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => {
            cargo(&["build", "--release", "--locked", "-p", "cli"])?;
            target().join("release/polyplane")
        }
    };
    let package = Package::read()?;
    let folder = target().join("package");
    let tree = folder.join("tree");
    remove(&tree)?;
    write_completions(&binary, &folder.join("completions"))?;
    package.lay(&binary, &tree)?;
    verify_unit(&tree, &folder)?;
    // The check of a package does not need a small one.
    let level = match options.root {
        Some(_) => "-z1",
        None => "-z9",
    };
    let file = package.pack(&tree, &folder, level)?;
    println!("{}", file.display());
    match &options.root {
        Some(clean) => try_in(clean, &file, &folder),
        None => Ok(()),
    }
}

/// The description of the package.
struct Package {
    name: String,
    version: String,
    fields: Value,
}

impl Package {
    fn read() -> Result<Package, String> {
        let words = ["metadata", "--no-deps", "--format-version", "1"];
        let said = output(Command::new(env!("CARGO")).args(words).current_dir(root()))?;
        let metadata: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut cli = packages.filter(|package| package["name"] == "cli");
        let cli = cli.next().ok_or("there is no package `cli`")?;
        let fields = cli["metadata"]["deb"].clone();
        Ok(Package {
            name: text(&fields, "name")?,
            version: cli["version"].as_str().unwrap_or("0").to_owned(),
            fields,
        })
    }

    /// Lays all files at their places below `tree`.
    fn lay(&self, binary: &Path, tree: &Path) -> Outcome {
        let assets = self.fields["assets"].as_array();
        for asset in assets.into_iter().flatten() {
            let part = |at: usize| asset[at].as_str().unwrap_or_default();
            let (from, to, mode) = (part(0), part(1), part(2));
            let from_here = root().join("crates/cli").join(from);
            let goal = tree.join(to);
            if let Some(folder) = from.strip_suffix("/**/*") {
                copy_all(&root().join("crates/cli").join(folder), &goal, mode)?;
                continue;
            }
            let source = match from {
                "target/release/polyplane" => binary.to_path_buf(),
                other => match other.strip_prefix("../../target/") {
                    Some(made) => target().join(made),
                    None => from_here,
                },
            };
            let goal = match to.ends_with('/') {
                // A program of another name is installed as the package's.
                true => goal.join(Path::new(from).file_name().unwrap_or_default()),
                false => goal,
            };
            install(&source, &goal, mode)?;
        }
        let program = tree.join("usr/bin").join("polyplane");
        finish(Command::new("strip").arg(&program))?;
        let man = tree.join("usr/share/man/man1/polyplane.1");
        finish(Command::new("gzip").args(["-9n"]).arg(&man))?;
        let copyright = tree
            .join("usr/share/doc")
            .join(&self.name)
            .join("copyright");
        install(&root().join("LICENSE"), &copyright, "644")
    }

    /// Makes the package of a tree, compressed at this level of gzip. Returns its file.
    fn pack(&self, tree: &Path, folder: &Path, level: &str) -> Result<PathBuf, String> {
        let control = tree.join("DEBIAN");
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let architecture = architecture.trim();
        let scripts = root()
            .join("crates/cli")
            .join(text(&self.fields, "maintainer-scripts")?);
        for script in ["postinst", "prerm", "postrm"] {
            install(&scripts.join(script), &control.join(script), "755")?;
        }
        let needed = shared_libraries(&tree.join("usr/bin/polyplane"), folder)?;
        let depends = text(&self.fields, "depends")?.replace("$auto", &needed);
        let long = text(&self.fields, "extended-description")?;
        let fields = format!(
            "Package: {}\nVersion: {}\nArchitecture: {architecture}\nMaintainer: {}\nSection: {}\n\
             Priority: {}\nDepends: {depends}\nDescription: programmable switch for P4_16\n {}\n",
            self.name,
            self.version,
            text(&self.fields, "maintainer")?,
            text(&self.fields, "section")?,
            text(&self.fields, "priority")?,
            long.trim().replace('\n', "\n "),
        );
        write(&control.join("control"), &fields)?;
        let file = format!("{}_{}_{architecture}.deb", self.name, self.version);
        let file = folder.join(file);
        let mut pack = Command::new("dpkg-deb");
        finish(
            pack.args(["--root-owner-group", "-Zgzip", level, "--build"])
                .arg(tree)
                .arg(&file),
        )?;
        Ok(file)
    }
}

fn write_completions(binary: &Path, folder: &Path) -> Outcome {
    for (shell, file) in [
        ("bash", "polyplane.bash"),
        ("zsh", "_polyplane"),
        ("fish", "polyplane.fish"),
    ] {
        let said = output(Command::new(binary).args(["completions", shell]))?;
        write(&folder.join(file), &said)?;
    }
    Ok(())
}

/// Returns the packages of the shared libraries that a program needs.
fn shared_libraries(program: &Path, folder: &Path) -> Result<String, String> {
    // The tool wants a source package.
    write(
        &folder.join("debian/control"),
        "Source: polyplane\n\nPackage: polyplane\nArchitecture: any\n",
    )?;
    let mut find = Command::new("dpkg-shlibdeps");
    let said = output(find.arg("-O").arg(program).current_dir(folder))?;
    let found = said
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("dpkg-shlibdeps: {said}"))
}

/// Checks the unit, with the packaged program in place of the one that is not installed.
fn verify_unit(tree: &Path, folder: &Path) -> Outcome {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("the unit is not checked: there is no systemd-analyze");
        return Ok(());
    }
    let name = "polyplane@.service";
    let unit = tree.join("usr/lib/systemd/system").join(name);
    let text = std::fs::read_to_string(&unit).map_err(|error| error.to_string())?;
    let program = tree.join("usr/bin/polyplane").display().to_string();
    let copy = folder.join("units").join(name);
    write(&copy, &text.replace("/usr/bin/polyplane", &program))?;
    finish(
        Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&copy),
    )?;
    println!("systemd-analyze verify: {name} is right");
    Ok(())
}

/// Installs the package in a copy of a clean root, uses it as its own user, and removes it.
fn try_in(clean: &Path, file: &Path, folder: &Path) -> Outcome {
    let copy = folder.join("root");
    remove(&copy)?;
    finish(Command::new("cp").arg("-a").arg(clean).arg(&copy))?;
    let package = copy.join("tmp/polyplane.deb");
    install(file, &package, "644")?;
    inside(&copy, "dpkg -i /tmp/polyplane.deb")?;
    inside(&copy, USE)?;
    println!("installed and used as its own user");
    inside(&copy, "dpkg -r polyplane && dpkg -P polyplane")?;
    inside(&copy, REMOVED)?;
    println!("removed");
    remove(&copy)
}

/// Runs a script in a root of its own, with namespaces of mounts, networks and processes.
fn inside(new_root: &Path, script: &str) -> Outcome {
    // The root of the mount namespace, not of `chroot` alone: the demo makes user namespaces, which
    // are refused in the latter.
    let enter = r#"set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
cd "$1"
mkdir -p .before
pivot_root . .before
cd /
umount -l /.before
rmdir /.before
exec /bin/sh -c "$2"
"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--", "/bin/sh", "-c"]);
    // The loopback interface is down in a new namespace.
    let script = format!("PATH=/usr/sbin:/usr/bin:/sbin:/bin; export PATH\n{script}");
    let up = format!("ip link set lo up\n{enter}");
    finish(unshare.args([&up, "sh"]).arg(new_root).arg(script))
}

fn text(fields: &Value, name: &str) -> Result<String, String> {
    let found = fields[name].as_str();
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("the description of the package has no `{name}`"))
}

/// Runs a program to its end, and returns what it writes.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output();
    let done = done.map_err(|error| format!("cannot start {name}: {error}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!(
            "{name} failed: {}",
            String::from_utf8_lossy(&done.stderr)
        )),
    }
}

/// Runs a program to its end.
fn finish(command: &mut Command) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    let status = status.map_err(|error| format!("cannot start {name}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name} failed: {status}")),
    }
}

fn write(file: &Path, text: &str) -> Outcome {
    let folder = file.parent().unwrap_or(file);
    let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
    made.map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn install(from: &Path, to: &Path, mode: &str) -> Outcome {
    finish(
        Command::new("install")
            .args(["-D", "-m", mode])
            .arg(from)
            .arg(to),
    )
}

fn copy_all(from: &Path, to: &Path, mode: &str) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (own, goal) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().map_err(failed)?.is_dir() {
            true => copy_all(&own, &goal, mode)?,
            false => install(&own, &goal, mode)?,
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Outcome {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
