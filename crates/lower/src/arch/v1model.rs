//! Bindings of v1model, the architecture of BMv2's simple_switch.

use std::collections::BTreeMap;

use ir::{Arch, BlockRole, FieldId, ScalarTy};
use sema::hir::Ty;
use support::work::checkpoint;

use super::{Binding, BlockSpec, PACKET};
use crate::annotate;
use crate::cx::Lower;
use crate::storage::{Place, SlotKind};

/// Reports of drops a second and worker at most.
const MAX_DROP_REPORTS: u32 = 1_000_000;

pub(super) const BINDING: Binding = Binding {
    arch: Arch::V1model,
    package: "V1Switch",
    arguments: 6,
    blocks: &[
        BlockSpec {
            role: BlockRole::Parser,
            path: &[0],
            params: &[PACKET, "hdr", "meta", "standard_metadata"],
        },
        BlockSpec {
            role: BlockRole::VerifyChecksum,
            path: &[1],
            params: &["hdr", "meta"],
        },
        BlockSpec {
            role: BlockRole::Ingress,
            path: &[2],
            params: &["hdr", "meta", "standard_metadata"],
        },
        BlockSpec {
            role: BlockRole::Egress,
            path: &[3],
            params: &["hdr", "meta", "standard_metadata"],
        },
        BlockSpec {
            role: BlockRole::ComputeChecksum,
            path: &[4],
            params: &["hdr", "meta"],
        },
        BlockSpec {
            role: BlockRole::Deparser,
            path: &[5],
            params: &[PACKET, "hdr"],
        },
    ],
    transfers: &[],
    intrinsics: &["standard_metadata"],
};

impl Lower<'_> {
    /// Collects the field lists from the `@field_list` annotations of user and standard metadata.
    pub(super) fn annotated_field_lists(&mut self) {
        let mut lists = BTreeMap::new();
        for storage in ["meta", "standard_metadata"] {
            if let Some(place) = self.shared.get(storage).cloned() {
                self.collect_lists(&place, &[], &mut lists);
            }
        }
        for (number, fields) in lists {
            checkpoint();
            self.out
                .pipeline
                .field_lists
                .entry(number)
                .or_insert(fields);
        }
    }

    /// Finds the fields of user metadata by which packets are watched for drops, and checks their
    /// rate.
    pub(super) fn drop_reports(&mut self) {
        let names = [
            ("drop_session", ir::DROP_SESSION),
            ("drop_reason", ir::DROP_REASON),
        ];
        if let Some(place) = self.shared.get("meta").cloned() {
            let hir = self.hir;
            let ty = self.peel(place.ty);
            let fields = match *self.ty(ty) {
                Ty::Record(id, _) => hir.records[id].fields.as_slice(),
                _ => &[],
            };
            for (index, field) in fields.iter().enumerate() {
                checkpoint();
                for (annotation, intrinsic) in names {
                    if !annotate::has(&field.annotations, annotation) {
                        continue;
                    }
                    let number = self.member(&place, index).and_then(|member| {
                        let SlotKind::Scalar(field, _) = member.slot.kind else {
                            return None;
                        };
                        let is_number = matches!(self.out.fields[field].ty, ScalarTy::Bit(1..=64));
                        is_number.then_some(field)
                    });
                    let intrinsics = &mut self.out.pipeline.intrinsics;
                    let is_first = !intrinsics.contains_key(intrinsic);
                    match number.filter(|_| is_first) {
                        Some(field) => drop(intrinsics.insert(intrinsic.to_owned(), field)),
                        None => {
                            let message = format!(
                                "`@{annotation}` is for one field of user metadata, of a type bit<1> to bit<64>"
                            );
                            self.error("E1104", hir.instances[self.main].span, message);
                        }
                    }
                }
            }
        }
        let hir = self.hir;
        for (at, annotation) in hir.package_annotations.iter().enumerate() {
            if annotation.name.as_str() != ir::DROP_REPORTS {
                continue;
            }
            match annotate::only_number(hir, annotation) {
                Some(rate @ 1..=MAX_DROP_REPORTS) => {
                    // One form for all readers of the program.
                    self.out.annotations[at].body = ir::AnnotationBody::Text(rate.to_string());
                }
                _ => {
                    let message = format!(
                        "`@{}` has the number of copies a second, from 1 to {MAX_DROP_REPORTS}",
                        ir::DROP_REPORTS
                    );
                    self.error("E1104", hir.instances[self.main].span, message);
                }
            }
        }
    }

    /// Sets `packet_length` in egress to the length of the packet as ingress left it.
    pub(super) fn egress_length(&mut self) {
        let Some(place) = self.shared.get("hdr") else {
            return;
        };
        let fields = place.extent();
        let headers = self.out.headers.iter();
        let of_packet = headers.filter(|(_, header)| fields.contains(&header.valid.get()));
        let headers: Vec<ir::HeaderId> = of_packet.map(|(id, _)| id).collect();
        passes::length::egress_length(&mut self.out, &headers);
    }

    fn collect_lists(
        &mut self,
        place: &Place,
        outer: &[u32],
        lists: &mut BTreeMap<u32, Vec<FieldId>>,
    ) {
        let hir = self.hir;
        let ty = self.peel(place.ty);
        let fields = match *self.ty(ty) {
            Ty::Record(id, _) => hir.records[id].fields.as_slice(),
            _ => &[],
        };
        let members = self.members(ty).len();
        if members == 0 {
            for part in self.flat_places(place) {
                checkpoint();
                for &number in outer {
                    checkpoint();
                    lists.entry(number).or_default().push(part.base);
                }
            }
            return;
        }
        for index in 0..members {
            checkpoint();
            let mut numbers = outer.to_vec();
            if let Some(field) = fields.get(index) {
                let annotations = field
                    .annotations
                    .iter()
                    .filter(|a| a.name.as_str() == "field_list");
                numbers
                    .extend(annotations.flat_map(|annotation| annotate::numbers(hir, annotation)));
            }
            if let Some(member) = self.member(place, index) {
                self.collect_lists(&member, &numbers, lists);
            }
        }
    }
}
