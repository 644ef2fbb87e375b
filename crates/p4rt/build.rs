//! Generates the code of the gRPC services. Their messages are in `p4info`.

use std::error;
use std::path::Path;

/// The protobuf files that define services.
const SERVICES: [&str; 6] = [
    "p4/v1/p4runtime.proto",
    "polyplane/observation/v1/observation.proto",
    "polyplane/ports/v1/ports.proto",
    "polyplane/settings/v1/settings.proto",
    "polyplane/split/v1/split.proto",
    "polyplane/tenancy/v1/tenancy.proto",
];

fn main() -> Result<(), Box<dyn error::Error>> {
    let proto = Path::new("../p4info/proto");
    println!("cargo::rerun-if-changed={}", proto.display());
    let descriptors = protox::compile(SERVICES, [proto])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .extern_path(".p4.v1", "::p4info::p4::v1")
        .extern_path(".p4.config.v1", "::p4info::p4::config::v1")
        .extern_path(".google.rpc", "::p4info::google::rpc")
        .extern_path(
            ".polyplane.observation.v1",
            "::p4info::polyplane::observation::v1",
        )
        .extern_path(".polyplane.ports.v1", "::p4info::polyplane::ports::v1")
        .extern_path(
            ".polyplane.settings.v1",
            "::p4info::polyplane::settings::v1",
        )
        .extern_path(".polyplane.split.v1", "::p4info::polyplane::split::v1")
        .extern_path(".polyplane.tenancy.v1", "::p4info::polyplane::tenancy::v1")
        .compile_fds(descriptors)?;
    Ok(())
}
