//! `cargo xtask nanopu`: checks of the model `nanopu` that need a RISC-V compiler or QEMU. Shipped
//! images are compared with their sources, riscv-tests are built and run, and random programs are
//! compared with `qemu-riscv64`.

mod random;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use nanopu::instruction::Reg;
use nanopu::{CoreState, CostTable, FaultKind, Image, SingleCore};

use crate::{Outcome, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Compiler of bare-metal programs (Debian's package `gcc-riscv64-unknown-elf` 12.2 built the
    /// shipped images).
    #[arg(long, default_value = "riscv64-unknown-elf-gcc")]
    compiler: PathBuf,
    /// User-mode emulator (Debian's package `qemu-user`).
    #[arg(long, default_value = "qemu-riscv64")]
    qemu: PathBuf,
    /// Folder of riscv-tests, with its `isa`. Without it these tests are skipped.
    #[arg(long)]
    riscv_tests: Option<PathBuf>,
    /// Random instructions to compare with the emulator.
    #[arg(long, default_value_t = 1_000_000)]
    instructions: usize,
    /// Seed of the random programs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds of clusters with Rust and RISC-V replicas to check under simulated faults, beyond
    /// those of the tests.
    #[arg(long, default_value_t = 0)]
    mixed_seeds: u64,
    /// Write the images instead of comparing them.
    #[arg(long)]
    write_images: bool,
}

/// Bytes of memory of the tests.
const MEMORY: usize = 1 << 20;

/// Programs of examples/nanopu that have shipped images, with their sources.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("classifier", &["start.S", "classifier.c"]),
    ("figure2", &["figure2.S"]),
    ("loopback", &["start.S", "loopback.c"]),
    ("path_latency", &["start.S", "path_latency.c"]),
    ("raft", &["start.S", "raft.c"]),
    ("spreader", &["start.S", "spreader.c"]),
];

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let work = target().join("nanopu");
    std::fs::create_dir_all(&work).map_err(|e| format!("cannot create {}: {e}", work.display()))?;
    if starts(&options.compiler) {
        images(root, &work, options)?;
        match &options.riscv_tests {
            Some(folder) => riscv_tests(folder, &work, options)?,
            None => println!("riscv-tests: skipped, name their folder with --riscv-tests"),
        }
    } else {
        println!(
            "images, riscv-tests: skipped, {} does not start: install gcc-riscv64-unknown-elf",
            options.compiler.display()
        );
    }
    if options.mixed_seeds > 0 {
        mixed_cluster(root, options.mixed_seeds)?;
    }
    if starts(&options.qemu) {
        random::compare(&work, &options.qemu, options.instructions, options.seed)?;
    } else {
        println!(
            "random instructions: skipped, {} does not start: install qemu-user",
            options.qemu.display()
        );
    }
    Ok(())
}

/// Runs clusters with replicas of both kinds.
fn mixed_cluster(root: &Path, seeds: u64) -> Outcome {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--workspace", "--test", "mixed_cluster"])
        .env("POLYPLANE_MIXED_SEEDS", seeds.to_string())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err("a mixed cluster fails; the output above has its seed".to_owned()),
    }
}

/// True if a program starts.
fn starts(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Builds the example programs and compares them with the shipped images.
fn images(root: &Path, work: &Path, options: &Options) -> Outcome {
    let folder = root.join("examples/nanopu");
    for (program, sources) in PROGRAMS {
        let built = work.join(format!("{program}.elf"));
        let status = Command::new(&options.compiler)
            .current_dir(&folder)
            .args(["-march=rv64imafdc", "-mabi=lp64d", "-mcmodel=medany"])
            .args([
                "-ffixed-x30",
                "-ffixed-x31",
                "-ffreestanding",
                "-O2",
                "-Wall",
                "-Werror",
            ])
            .args([
                "-nostdlib",
                "-static",
                "-Wl,-x,--build-id=none,-n,--no-warn-rwx-segments,-T,link.ld",
            ])
            .args(sources)
            .arg("-o")
            .arg(&built)
            .status()
            .map_err(|error| format!("cannot start the compiler: {error}"))?;
        if !status.success() {
            return Err(format!("{} cannot be built", sources.join(", ")));
        }
        let shipped = folder.join(format!("{program}.elf"));
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let new = read(&built)?;
        if options.write_images {
            std::fs::write(&shipped, &new)
                .map_err(|error| format!("cannot write {}: {error}", shipped.display()))?;
            println!("image {program}: written, {} bytes", new.len());
        } else if read(&shipped)? == new {
            println!("image {program}: equal to its source, {} bytes", new.len());
        } else {
            return Err(format!(
                "{} is not the image of its source; build it with --write-images",
                shipped.display()
            ));
        }
    }
    Ok(())
}

/// Groups of riscv-tests for user-level instructions that the model claims.
const GROUPS: [&str; 6] = ["rv64ui", "rv64um", "rv64ua", "rv64uf", "rv64ud", "rv64uc"];

/// Environment of riscv-tests: the end of a test is an `ecall` with its number in gp, 1 if all
/// passed.
const ENVIRONMENT: &str = "
#define RVTEST_RV64U .macro init; .endm
#define RVTEST_RV64UF .macro init; .endm
#define RVTEST_CODE_BEGIN .section .text.init; .globl _start; _start: init
#define RVTEST_CODE_END
#define TESTNUM gp
#define RVTEST_PASS li gp, 1; ecall
#define RVTEST_FAIL slli gp, gp, 1; ori gp, gp, 1; ecall
#define EXTRA_DATA
#define RVTEST_DATA_BEGIN .align 4
#define RVTEST_DATA_END .align 4
";

fn riscv_tests(folder: &Path, work: &Path, options: &Options) -> Outcome {
    let header = work.join("riscv_test.h");
    std::fs::write(&header, ENVIRONMENT)
        .map_err(|error| format!("cannot write {}: {error}", header.display()))?;
    let mut failed = Vec::new();
    for group in GROUPS {
        let sources = folder.join("isa").join(group);
        let list = std::fs::read_dir(&sources)
            .map_err(|error| format!("cannot read {}: {error}", sources.display()))?;
        let mut sources: Vec<PathBuf> = list.filter_map(|e| Some(e.ok()?.path())).collect();
        sources.retain(|path| path.extension().is_some_and(|e| e == "S"));
        sources.sort();
        let mut passed = 0;
        for source in &sources {
            match riscv_test(folder, work, source, options) {
                Ok(()) => passed += 1,
                Err(error) => failed.push(format!("{}: {error}", source.display())),
            }
        }
        println!("{group}: {passed} of {} pass", sources.len());
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

fn riscv_test(folder: &Path, work: &Path, source: &Path, options: &Options) -> Outcome {
    let built = work.join("test.elf");
    let output = Command::new(&options.compiler)
        .args([
            "-march=rv64gc",
            "-mabi=lp64d",
            "-mcmodel=medany",
            "-nostdlib",
            "-static",
        ])
        .args(["-nostartfiles", "-Wl,-Ttext=0x80000000,-n,--no-relax"])
        .arg("-I")
        .arg(work)
        .arg("-I")
        .arg(folder.join("isa/macros/scalar"))
        .arg(source)
        .arg("-o")
        .arg(&built)
        .output()
        .map_err(|error| format!("cannot start the compiler: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let file = std::fs::read(&built).map_err(|error| error.to_string())?;
    let image = Image::parse(&file, MEMORY).map_err(|error| error.to_string())?;
    let mut core = SingleCore::new(&image, MEMORY, &CostTable::default()).without_network();
    core.run(1_000_000);
    match core.state() {
        CoreState::Faulted(fault) if fault.kind == FaultKind::EnvironmentCall => {
            match core.register(Reg::new(3)) {
                1 => Ok(()),
                number => Err(format!("test {} fails", number >> 1)),
            }
        }
        CoreState::Faulted(fault) => Err(fault.to_string()),
        state => Err(format!("no end within a million cycles: {state:?}")),
    }
}
