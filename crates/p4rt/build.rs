//! Makes the code of the gRPC service; its messages are `p4info`'s.

use std::error;
use std::path::Path;

fn main() -> Result<(), Box<dyn error::Error>> {
    let proto = Path::new("../p4info/proto");
    println!("cargo::rerun-if-changed={}", proto.display());
    let descriptors = protox::compile(["p4/v1/p4runtime.proto"], [proto])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .extern_path(".p4.v1", "::p4info::p4::v1")
        .extern_path(".p4.config.v1", "::p4info::p4::config::v1")
        .extern_path(".google.rpc", "::p4info::google::rpc")
        .compile_fds(descriptors)?;
    Ok(())
}
