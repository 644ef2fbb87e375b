//! Extern instances that are visible to the control plane: counters, meters, registers, action
//! profiles and digests.

use std::collections::{BTreeSet, HashMap, HashSet};

use ir::{CounterUnit, DataTy, Extern, ExternId, ExternKind};
use support::work::checkpoint;

use crate::annotation;
use crate::convert::{Cx, extern_prefix};
use crate::error::P4InfoProblem;
use crate::object::describe;
use crate::p4::config::v1::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
use crate::p4::config::v1::meter_spec::Type as MeterType;
use crate::p4::config::v1::p4_ids::Prefix;
use crate::p4::config::v1::{
    self as info, CounterSpec, MeterSpec, P4Info, P4NamedType, Preamble, counter_spec, meter_spec,
};

/// Annotations of action selectors that are represented by separate fields.
const SELECTOR_FIELDS: [&str; 4] = [
    "max_group_size",
    "selector_size_semantics",
    "max_member_weight",
    "weights_disallowed",
];

impl Cx<'_> {
    /// Adds all externs that are visible to the control plane to the P4Info.
    pub(crate) fn externs(&mut self, made: &mut P4Info) {
        let direct_tables = self.direct_tables();
        let mut names = HashSet::new();
        for (id, instance) in self.program.externs.iter() {
            checkpoint();
            let Some(kind) = extern_prefix(&instance.kind) else {
                continue;
            };
            if !names.insert((kind, instance.name.as_str())) {
                self.error(
                    describe(kind, &instance.name),
                    instance.loc,
                    P4InfoProblem::NameTaken,
                );
            }
            self.types.info();
            self.instance(made, id, instance, kind, direct_tables.get(&id).copied());
        }
    }

    /// Returns the table id of each direct resource.
    fn direct_tables(&self) -> HashMap<ExternId, u32> {
        let tables = self.program.tables.values();
        tables
            .flat_map(|table| {
                let id = self.objects.id(Prefix::Table, &table.name);
                [table.direct_counter, table.direct_meter]
                    .into_iter()
                    .flatten()
                    .map(move |direct| (direct, id))
            })
            .collect()
    }

    fn instance(
        &mut self,
        made: &mut P4Info,
        id: ExternId,
        instance: &Extern,
        kind: Prefix,
        direct_table: Option<u32>,
    ) {
        let dropped: &[&str] = if kind == Prefix::ActionProfile {
            &SELECTOR_FIELDS
        } else {
            &[]
        };
        let preamble = Some(self.preamble(
            kind,
            &instance.name,
            &instance.annotations,
            instance.loc,
            dropped,
        ));
        match &instance.kind {
            ExternKind::Counter {
                unit,
                size,
                index_ty,
            } => made.counters.push(info::Counter {
                preamble,
                spec: Some(counter_spec(*unit)),
                size: (*size).into(),
                index_type_name: self.index_type(index_ty.as_ref()),
            }),
            ExternKind::Meter {
                unit,
                size,
                index_ty,
            } => made.meters.push(info::Meter {
                preamble,
                spec: Some(meter_spec(*unit, instance)),
                size: (*size).into(),
                index_type_name: self.index_type(index_ty.as_ref()),
            }),
            ExternKind::DirectCounter { unit } => {
                made.direct_counters
                    .extend(direct_table.map(|direct_table_id| info::DirectCounter {
                        preamble,
                        spec: Some(counter_spec(*unit)),
                        direct_table_id,
                    }))
            }
            ExternKind::DirectMeter { unit } => {
                made.direct_meters
                    .extend(direct_table.map(|direct_table_id| info::DirectMeter {
                        preamble,
                        spec: Some(meter_spec(*unit, instance)),
                        direct_table_id,
                    }))
            }
            ExternKind::Register {
                size,
                data_ty,
                index_ty,
                ..
            } => made.registers.push(info::Register {
                preamble,
                type_spec: Some(self.types.spec(data_ty)),
                size: self.size(&describe(kind, &instance.name), instance.loc, *size),
                index_type_name: self.index_type(index_ty.as_ref()),
            }),
            ExternKind::ActionProfile { size } => {
                let profile = self.profile(preamble, id, *size);
                made.action_profiles.push(profile);
            }
            ExternKind::ActionSelector { size, .. } => {
                let profile = self.profile(preamble, id, *size);
                let selector = self.selector(profile, instance);
                made.action_profiles.push(selector);
            }
            ExternKind::Digest { data_ty, .. } => made.digests.push(info::Digest {
                preamble,
                type_spec: Some(self.types.spec(data_ty)),
            }),
            ExternKind::Hash { .. }
            | ExternKind::Checksum { .. }
            | ExternKind::InternetChecksum
            | ExternKind::Random { .. }
            | ExternKind::TableKind { .. }
            | ExternKind::Handler { .. } => {}
        }
    }

    fn index_type(&mut self, ty: Option<&DataTy>) -> Option<P4NamedType> {
        let ty = ty?;
        self.types.spec(ty);
        self.types.new_type_name(ty)
    }

    fn profile(&self, preamble: Option<Preamble>, id: ExternId, size: u32) -> info::ActionProfile {
        let users: BTreeSet<&str> = self.profile_users().remove(&id).unwrap_or_default();
        info::ActionProfile {
            preamble,
            table_ids: users
                .into_iter()
                .map(|table| self.objects.id(Prefix::Table, table))
                .collect(),
            size: size.into(),
            ..info::ActionProfile::default()
        }
    }

    /// Evaluates the annotations of a selector (P4Runtime, "ActionProfile").
    fn selector(&mut self, profile: info::ActionProfile, instance: &Extern) -> info::ActionProfile {
        let (group_size, semantics) = match selector_sizes(instance) {
            Ok(sizes) => sizes,
            Err(problem) => {
                self.error(
                    describe(Prefix::ActionProfile, &instance.name),
                    instance.loc,
                    problem,
                );
                (0, None)
            }
        };
        info::ActionProfile {
            with_selector: true,
            max_group_size: group_size,
            selector_size_semantics: semantics,
            weights_disallowed: annotation::has(&instance.annotations, "weights_disallowed"),
            ..profile
        }
    }
}

fn selector_sizes(
    instance: &Extern,
) -> Result<(i32, Option<SelectorSizeSemantics>), P4InfoProblem> {
    let annotations = &instance.annotations;
    let group_size = annotation::number(annotations, "max_group_size")?.unwrap_or(0);
    let max_member_weight = annotation::number(annotations, "max_member_weight")?.unwrap_or(0);
    let name = "selector_size_semantics";
    let semantics = match annotation::string(annotations, name)?
        .map(|text| text.to_ascii_lowercase())
        .as_deref()
    {
        None => None,
        Some("sum_of_weights") => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
        Some("sum_of_members") => Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers {
            max_member_weight,
        })),
        Some(_) => {
            return Err(P4InfoProblem::Annotation {
                name: name.to_owned(),
                expected: "\"sum_of_weights\" or \"sum_of_members\"",
            });
        }
    };
    Ok((group_size, semantics))
}

fn counter_spec(unit: CounterUnit) -> CounterSpec {
    let unit = match unit {
        CounterUnit::Packets => counter_spec::Unit::Packets,
        CounterUnit::Bytes => counter_spec::Unit::Bytes,
        CounterUnit::Both => counter_spec::Unit::Both,
    };
    CounterSpec { unit: unit.into() }
}

fn meter_spec(unit: CounterUnit, instance: &Extern) -> MeterSpec {
    let unit = match unit {
        CounterUnit::Packets => meter_spec::Unit::Packets,
        // P4Info has no meter that counts both.
        CounterUnit::Bytes | CounterUnit::Both => meter_spec::Unit::Bytes,
    };
    let has = |name| annotation::has(&instance.annotations, name);
    let marker = match () {
        () if has("single_rate_two_color") => MeterType::SingleRateTwoColor,
        () if has("single_rate_three_color") => MeterType::SingleRateThreeColor,
        () => MeterType::TwoRateThreeColor,
    };
    MeterSpec {
        unit: unit.into(),
        r#type: marker.into(),
    }
}
