//! The built-in workloads, each with its loop in one file.
//!
//! To add a workload, write its program in `programs/`, implement [`Workload`] in this directory,
//! and add it to [`ALL`]. The tests that compare every workload with its loop, the command and its
//! list then include it.

mod acl;
mod bng;
pub(crate) mod fill;
pub(crate) mod flat;
mod kv;
mod l2;
mod l3;
mod policies;
mod sai;
mod snat;
mod upf;
mod vector;

use crate::Workload;
use crate::tenants::ShardableWorkload;

/// Size of a workload's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The size that the workload's name stands for.
    Full,
    /// Hundreds of entries, sufficient for tests of a loop.
    Small,
}

/// Constructor of a workload.
pub type Make = fn(Size) -> Box<dyn Workload>;

/// All workloads by name, in the order in which they are listed.
pub const ALL: &[(&str, Make)] = &[
    ("l2", |size| Box::new(l2::Switch::new(size))),
    ("l3", |size| Box::new(l3::Router::new(size))),
    ("acl-500", |size| {
        let about = "a VLAN switch and router with an access list of 500 rules";
        Box::new(acl::Acl::new("acl-500", about, 500, size))
    }),
    ("acl-1k", |size| {
        let about = "the same with 1,000 rules";
        Box::new(acl::Acl::new("acl-1k", about, 1000, size))
    }),
    ("acl-10k", |size| {
        let about = "the same with 10,000 rules";
        Box::new(acl::Acl::new("acl-10k", about, 10_000, size))
    }),
    ("upf", |size| Box::new(upf::Upf::new(size))),
    ("bng", |size| Box::new(bng::Bng::new(size))),
    ("snat", |size| Box::new(snat::Snat::new(size))),
    ("sai", |size| Box::new(sai::Sai::new(size))),
    ("kv64", |size| Box::new(kv::Kv::new(kv::KV64, size))),
    ("kv64-60k", |size| Box::new(kv::Kv::new(kv::KV64_60K, size))),
    ("kv16", |size| Box::new(kv::Kv::new(kv::KV16, size))),
    ("vector", |size| Box::new(vector::Vector::new(size))),
];

/// Returns the workload with this name.
pub fn find(name: &str) -> Option<Box<dyn Workload>> {
    let (_, make) = ALL.iter().find(|(other, _)| *other == name)?;
    Some(make(Size::Full))
}

/// Returns the names of shardable workloads: `l2`, and the policies of HyperVDP.
pub fn divisibles() -> impl Iterator<Item = &'static str> {
    std::iter::once("l2").chain(policies::NAMES)
}

/// Returns the shardable workload with this name.
pub fn divisible(name: &str, size: Size) -> Option<Box<dyn ShardableWorkload>> {
    if name == "l2" {
        return Some(Box::new(switch(size)));
    }
    Some(Box::new(policies::Policy::find(name, size)?))
}

/// Returns `l2` as a shardable workload.
pub fn switch(size: Size) -> impl ShardableWorkload {
    l2::Switch::new(size)
}

/// Returns `sai` with about 100,000 entries.
pub fn large_sai() -> Box<dyn Workload> {
    Box::new(sai::Sai::large())
}

/// Returns the workload `kv64-60k`.
pub fn reduction() -> impl Workload {
    kv::Kv::new(kv::KV64_60K, Size::Full)
}

/// Returns two versions of `sai`. Each counts the packets that reach egress in a separate cell of
/// the counter `version`.
pub fn sai_versions() -> [String; 2] {
    let source = include_str!("../../programs/sai.p4");
    [0, 1].map(|version| {
        let counter = "counter((bit<32>)512, CounterType.packets_and_bytes) port_tx;";
        let counters = format!("{counter}\n    counter((bit<32>)2, CounterType.packets) version;");
        let first = "egress_stp.apply();";
        let counted = format!("version.count((bit<32>){version});\n        {first}");
        source.replace(counter, &counters).replace(first, &counted)
    })
}
