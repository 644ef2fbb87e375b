//! Compiles the .proto files to Rust, and stores their descriptors for the text format.

use std::path::PathBuf;
use std::{env, error, fs};

use prost::Message as _;

/// All files. Their imports are found in the same directory.
const FILES: [&str; 11] = [
    "google/rpc/status.proto",
    "p4/config/v1/p4info.proto",
    "p4/config/v1/p4types.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
    "polyplane/observation/v1/observation.proto",
    "polyplane/ports/v1/ports.proto",
    "polyplane/reflex/v1/reflex.proto",
    "polyplane/settings/v1/settings.proto",
    "polyplane/split/v1/split.proto",
    "polyplane/tenancy/v1/tenancy.proto",
];

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = prost_build::Config::new();
    // Ordered maps ensure that equal messages have equal bytes.
    config.btree_map(["."]);
    config.enable_type_names();
    config.compile_fds(descriptors)?;
    Ok(())
}
