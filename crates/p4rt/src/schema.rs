//! Maps P4Runtime ids to the program's objects: a controller's P4Info, checked against the program
//! with which it was sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use support::count::count;
use support::work::checkpoint;

use exec::table_spec;
use ir::{
    ActionId, ActionScope, DataTy, ExternId, ExternKind, MatchKind, Program, TableId, ValueSetId,
};
use p4info::P4Info;
use p4info::p4::config::v1::{self as info, Preamble};
use table::KeyField;
use tonic::Code;

use crate::coding::{Coding, Names};
use crate::platform;
use crate::ports::KnownPorts;
use crate::request_error::{Checked, RequestError, invalid, refuse};
use crate::restriction;
use constraints::Constraint;

/// A program with its P4Info.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) program: Arc<Program>,
    /// Shared with a program that takes over this one's state, since that state contains the
    /// numbers.
    pub(crate) names: Arc<Names>,
    pub(crate) tables: HashMap<u32, TableView>,
    pub(crate) actions: HashMap<u32, ActionView>,
    actions_by_name: HashMap<String, u32>,
    /// Actions of the P4Info that no table has. p4c also lists actions that are only called
    /// directly.
    unlisted: HashMap<u32, String>,
    /// Actions of the P4Info that were refused. Tables that list them are not refused a second
    /// time.
    refused: HashSet<u32>,
    pub(crate) profiles: HashMap<u32, ProfileView>,
    pub(crate) counters: HashMap<u32, CellsView>,
    pub(crate) meters: HashMap<u32, CellsView>,
    pub(crate) registers: HashMap<u32, CellsView>,
    pub(crate) digests: HashMap<u32, CellsView>,
    pub(crate) value_sets: HashMap<u32, ValueSetView>,
    pub(crate) packet_in: Option<HeaderView>,
    /// The ports of the device, if known.
    pub(crate) ports: Option<KnownPorts>,
    pub(crate) packet_out: Option<HeaderView>,
}

/// A table.
#[derive(Debug)]
pub(crate) struct TableView {
    pub(crate) id: u32,
    pub(crate) table: TableId,
    pub(crate) name: String,
    pub(crate) keys: Vec<FieldView>,
    /// Its actions: P4Runtime id and position in the table's action list.
    pub(crate) actions: Vec<(u32, usize)>,
    pub(crate) profile: Option<u32>,
    pub(crate) role: Option<String>,
    pub(crate) needs_priority: bool,
    pub(crate) has_idle_timeout: bool,
    /// The type of its direct meter.
    pub(crate) meter: MeterKind,
    /// The constraint on its entries.
    pub(crate) constraint: Option<Constraint>,
}

/// An element of a table key or of a value set.
#[derive(Debug)]
pub(crate) struct FieldView {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) kind: MatchKind,
    pub(crate) coding: Coding,
    /// The field as the device matches it.
    pub(crate) field: KeyField,
}

/// An action.
#[derive(Debug)]
pub(crate) struct ActionView {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) params: Vec<ParamView>,
    /// The constraint on its parameters.
    pub(crate) constraint: Option<Constraint>,
}

/// A parameter of an action, or a field of a controller header.
#[derive(Debug)]
pub(crate) struct ParamView {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) coding: Coding,
    pub(crate) width: u32,
}

/// An action profile or selector.
#[derive(Debug)]
pub(crate) struct ProfileView {
    pub(crate) id: u32,
    pub(crate) profile: ExternId,
    pub(crate) name: String,
    pub(crate) role: Option<String>,
    pub(crate) with_selector: bool,
    pub(crate) max_group_size: i32,
    pub(crate) weights_disallowed: bool,
    /// Maximum weight of a member, if group sizes count members; `None` if they count weights.
    pub(crate) counts_members: Option<i32>,
    /// Its actions: P4Runtime id and the device's id.
    pub(crate) actions: Vec<(u32, ActionId)>,
}

/// A counter, meter, register or digest.
#[derive(Debug)]
pub(crate) struct CellsView {
    pub(crate) id: u32,
    pub(crate) instance: ExternId,
    pub(crate) name: String,
    pub(crate) role: Option<String>,
    pub(crate) size: u32,
    pub(crate) data_ty: Option<DataTy>,
    pub(crate) meter: MeterKind,
}

/// Type of a meter (section "MeterEntry & DirectMeterEntry").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MeterKind {
    /// Two rates, three colours (RFC 2698).
    #[default]
    TwoRate,
    /// One rate, three colours (RFC 2697).
    SingleRate,
    /// One rate, two colours.
    TwoColor,
}

/// A parser value set.
#[derive(Debug)]
pub(crate) struct ValueSetView {
    pub(crate) id: u32,
    pub(crate) set: ValueSetId,
    pub(crate) name: String,
    pub(crate) role: Option<String>,
    pub(crate) fields: Vec<FieldView>,
    pub(crate) size: u32,
}

/// A controller header.
#[derive(Debug)]
pub(crate) struct HeaderView {
    pub(crate) fields: Vec<ParamView>,
}

/// Returns the type of a meter.
fn meter_kind(spec: Option<&info::MeterSpec>) -> MeterKind {
    use info::meter_spec::Type;
    match spec.map(info::MeterSpec::r#type) {
        Some(Type::SingleRateThreeColor) => MeterKind::SingleRate,
        Some(Type::SingleRateTwoColor) => MeterKind::TwoColor,
        _ => MeterKind::TwoRate,
    }
}

/// The program's objects of one kind, by name.
struct Own<'a, T>(HashMap<&'a str, &'a T>);

impl<'a, T> Own<'a, T> {
    fn new(all: &'a [T], preamble: impl Fn(&'a T) -> Option<&'a Preamble>) -> Own<'a, T> {
        let named = all
            .iter()
            .filter_map(|one| Some((preamble(one)?.name.as_str(), one)));
        Own(named.collect())
    }

    fn find(&self, what: &str, preamble: &Preamble) -> Checked<&'a T> {
        match self.0.get(preamble.name.as_str()) {
            Some(own) => Ok(own),
            None => invalid(format!(
                "the P4Info has the {what} `{}`, which the program has not: it is of another program or version",
                preamble.name
            )),
        }
    }
}

/// Returns the preamble of an object. Its id must be set and not used twice.
fn preamble<'a>(
    what: &str,
    preamble: Option<&'a Preamble>,
    is_taken: impl Fn(u32) -> bool,
) -> Checked<&'a Preamble> {
    checkpoint();
    let Some(preamble) = preamble else {
        return invalid(format!("the P4Info has a {what} without preamble"));
    };
    if preamble.id == 0 {
        return invalid(format!(
            "the {what} `{}` has the id 0, which names nothing",
            preamble.name
        ));
    }
    if is_taken(preamble.id) {
        return invalid(format!(
            "the {what} `{}` has the id {}, which another one has",
            preamble.name, preamble.id
        ));
    }
    Ok(preamble)
}

/// Returns the role to which `@p4runtime_role("name")` assigns an object.
fn role_of(preamble: &Preamble) -> Option<String> {
    preamble.annotations.iter().find_map(|annotation| {
        let inner = annotation
            .strip_prefix("@p4runtime_role(")?
            .strip_suffix(')')?;
        Some(inner.trim().trim_matches('"').to_owned())
    })
}

impl Schema {
    /// Returns the number of cells of the counter, meter or register with this id.
    pub(crate) fn cell_count(&self, id: u32) -> usize {
        let of = |views: &HashMap<u32, CellsView>| views.get(&id).map(|view| view.size);
        let size = of(&self.counters)
            .or_else(|| of(&self.meters))
            .or_else(|| of(&self.registers));
        size.unwrap_or(0) as usize
    }

    /// Builds the schema of a program with a P4Info: the controller's, or the program's own.
    ///
    /// # Errors
    /// The P4Info does not belong to this program.
    pub(crate) fn new(program: Arc<Program>, given: &P4Info, own: &P4Info) -> Checked<Schema> {
        let mut schema = Schema {
            program,
            names: Arc::default(),
            tables: HashMap::new(),
            actions: HashMap::new(),
            actions_by_name: HashMap::new(),
            unlisted: HashMap::new(),
            refused: HashSet::new(),
            profiles: HashMap::new(),
            counters: HashMap::new(),
            meters: HashMap::new(),
            registers: HashMap::new(),
            digests: HashMap::new(),
            value_sets: HashMap::new(),
            packet_in: None,
            packet_out: None,
            ports: None,
        };
        let parts = [
            platform::check(given),
            schema.add_actions(given, own),
            schema.add_profiles(given, own),
            schema.add_tables(given, own),
            schema.add_cells(given),
            schema.add_value_sets(given, own),
            schema.add_headers(given),
        ];
        all(parts).map(|()| schema)
    }

    fn add_actions(&mut self, given: &P4Info, own: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        let owns = Own::new(&own.actions, |action| action.preamble.as_ref());
        faults.extend(given.actions.iter().map(|action| {
            let named = preamble("action", action.preamble.as_ref(), |id| {
                self.actions.contains_key(&id) || self.unlisted.contains_key(&id)
            })?;
            let Ok(same) = owns.find("action", named) else {
                self.unlisted.insert(named.id, named.name.clone());
                return Ok(());
            };
            self.refused.insert(named.id);
            let place = format!("the action `{}`", named.name);
            if action.params.len() != same.params.len() {
                return invalid(format!(
                    "{place} has {} in the P4Info and {} in the program",
                    count(action.params.len() as u64, "parameter"),
                    same.params.len()
                ));
            }
            let program = &self.program;
            let declared = program.actions.values();
            let declared = declared
                .into_iter()
                .find(|declared| declared.control_plane_name == named.name);
            // `own` was generated from the program, so each of its objects exists.
            let annotations = declared.map_or(&[][..], |declared| &declared.annotations);
            let constraint = restriction::read(&place, annotations, "action_restriction")?;
            let declared = declared.map_or(&[][..], |declared| &declared.params);
            let mut params = Vec::new();
            for param in declared {
                let found = action.params.iter().find(|given| given.name == param.name);
                let same = same.params.iter().find(|own| own.name == param.name);
                let (Some(found), Some(same)) = (found, same) else {
                    return invalid(format!(
                        "{place} has no parameter `{}` in the P4Info",
                        param.name
                    ));
                };
                check_width(&place, &param.name, found.bitwidth, same.bitwidth)?;
                let coding = self.coding(&place, &param.data_ty)?;
                params.push(ParamView {
                    id: found.id,
                    name: param.name.clone(),
                    coding,
                    width: param.ty.width(),
                });
            }
            if let Some(constraint) = &constraint {
                restriction::check_params(&place, constraint, &params)?;
            }
            let view = ActionView {
                id: named.id,
                name: named.name.clone(),
                params,
                constraint,
            };
            self.actions_by_name.insert(view.name.clone(), view.id);
            self.actions.insert(named.id, view);
            self.refused.remove(&named.id);
            Ok(())
        }));
        all(faults)
    }

    fn coding(&self, place: &str, ty: &DataTy) -> Checked<Coding> {
        Coding::of(&self.program, ty).ok_or_else(|| {
            RequestError::new(
                Code::Unimplemented,
                format!("{place}: its type is no scalar"),
            )
        })
    }

    fn add_profiles(&mut self, given: &P4Info, own: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        use info::action_profile::SelectorSizeSemantics;
        let owns = Own::new(&own.action_profiles, |profile| profile.preamble.as_ref());
        faults.extend(given.action_profiles.iter().map(|profile| {
            let named = preamble("action profile", profile.preamble.as_ref(), |id| {
                self.profiles.contains_key(&id)
            })?;
            let same = owns.find("action profile", named)?;
            if same.with_selector != profile.with_selector {
                return invalid(format!(
                    "the action profile `{}` has with_selector {} in the P4Info, but {} in the program",
                    named.name, profile.with_selector, same.with_selector
                ));
            }
            let instance = self.instance(&named.name, |kind| {
                matches!(
                    kind,
                    ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. }
                )
            })?;
            let users = self.program.tables.iter();
            let users: Vec<TableId> = users
                .filter(|(_, table)| table.implementation == Some(instance))
                .map(|(id, _)| id)
                .collect();
            let counts_members = match &profile.selector_size_semantics {
                Some(SelectorSizeSemantics::SumOfMembers(members)) => {
                    Some(members.max_member_weight)
                }
                _ => None,
            };
            let view = ProfileView {
                id: named.id,
                profile: instance,
                name: named.name.clone(),
                role: role_of(named),
                with_selector: profile.with_selector,
                max_group_size: profile.max_group_size,
                weights_disallowed: profile.weights_disallowed,
                counts_members,
                actions: self.profile_actions(&users),
            };
            self.profiles.insert(named.id, view);
            Ok(())
        }));
        all(faults)
    }

    fn profile_actions(&self, users: &[TableId]) -> Vec<(u32, ActionId)> {
        let listed = users
            .iter()
            .flat_map(|table| &self.program.tables[*table].actions);
        let mut found: Vec<(u32, ActionId)> = Vec::new();
        for listed in listed.filter(|listed| listed.scope != ActionScope::DefaultOnly) {
            let name = &self.program.actions[listed.action].control_plane_name;
            let view = self.actions.values().find(|view| view.name == *name);
            if let Some(view) = view
                && found.iter().all(|(id, _)| *id != view.id)
            {
                found.push((view.id, listed.action));
            }
        }
        found
    }

    /// Returns the extern instance with this name and a matching kind.
    fn instance(&self, name: &str, is_kind: impl Fn(&ExternKind) -> bool) -> Checked<ExternId> {
        let mut externs = self.program.externs.iter();
        match externs.find(|(_, one)| one.name == name && is_kind(&one.kind)) {
            Some((id, _)) => Ok(id),
            None => invalid(format!(
                "the P4Info has `{name}`, which the program has not: it is of another program or version"
            )),
        }
    }

    fn add_tables(&mut self, given: &P4Info, own: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        let owns = Own::new(&own.tables, |table| table.preamble.as_ref());
        faults.extend(given.tables.iter().map(|table| {
            let named = preamble("table", table.preamble.as_ref(), |id| {
                self.tables.contains_key(&id)
            })?;
            let same = owns.find("table", named)?;
            let view = self
                .table(named, table, same)
                .map_err(|fault| fault.within(&format!("the table `{}`", named.name)))?;
            let mut meters = given.direct_meters.iter();
            let meter = meters.find(|meter| meter.direct_table_id == named.id);
            let meter = meter_kind(meter.and_then(|meter| meter.spec.as_ref()));
            self.tables.insert(named.id, TableView { meter, ..view });
            Ok(())
        }));
        all(faults)
    }

    fn table(
        &self,
        named: &Preamble,
        given: &info::Table,
        own: &info::Table,
    ) -> Checked<TableView> {
        let mut tables = self.program.tables.iter();
        let Some((table, declared)) = tables.find(|(_, table)| table.name == named.name) else {
            return invalid("the program has no such table");
        };
        let spec = table_spec(&self.program, declared);
        let matched = declared
            .keys
            .iter()
            .filter(|key| key.match_kind != MatchKind::Selector);
        let given_fields = &given.match_fields;
        let keys = matched.zip(spec.shape.fields()).map(|(key, field)| {
            let coding = self.coding(&key.name, &key.data_ty)?;
            field_view(
                &key.name,
                key.match_kind,
                coding,
                *field,
                given_fields,
                &own.match_fields,
            )
        });
        let keys: Vec<FieldView> = keys.collect::<Checked<_>>()?;
        if keys.len() != given.match_fields.len() {
            return invalid(format!(
                "the P4Info has {}, the program {}",
                count(given.match_fields.len() as u64, "match field"),
                keys.len()
            ));
        }
        let place = "its constraint";
        let constraint = restriction::read(place, &declared.annotations, "entry_restriction")?;
        if let Some(constraint) = &constraint {
            restriction::check_keys(place, constraint, &keys)?;
        }
        Ok(TableView {
            id: named.id,
            table,
            name: named.name.clone(),
            needs_priority: spec.shape.needs_priority(),
            keys,
            actions: self.listed_actions(declared, given)?,
            profile: self.profile_of(declared),
            role: role_of(named),
            has_idle_timeout: declared.idle_timeout,
            meter: MeterKind::default(),
            constraint,
        })
    }

    fn profile_of(&self, table: &ir::Table) -> Option<u32> {
        let implementation = table.implementation?;
        let mut profiles = self.profiles.values();
        Some(
            profiles
                .find(|profile| profile.profile == implementation)?
                .id,
        )
    }

    /// Returns the actions that the P4Info lists for a table, with their positions in the program's
    /// list.
    fn listed_actions(&self, table: &ir::Table, given: &info::Table) -> Checked<Vec<(u32, usize)>> {
        let place = |listed: &info::ActionRef| {
            if let Some(name) = self.unlisted.get(&listed.id) {
                return invalid(format!(
                    "it lists the action `{name}`, which no table of the program has"
                ));
            }
            let Some(view) = self.actions.get(&listed.id) else {
                return invalid(format!(
                    "it lists the action {}, which the P4Info has not",
                    listed.id
                ));
            };
            let name = |at: &ir::TableAction| &self.program.actions[at.action].control_plane_name;
            match table.actions.iter().position(|at| *name(at) == view.name) {
                Some(at) => Ok((view.id, at)),
                None => invalid(format!(
                    "the program does not list the action `{}`",
                    view.name
                )),
            }
        };
        let listed = given.action_refs.iter();
        let listed = listed.filter(|listed| !self.refused.contains(&listed.id));
        listed.map(place).collect()
    }

    fn add_cells(&mut self, given: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        faults.extend(given.counters.iter().map(|counter| {
            let named = preamble("counter", counter.preamble.as_ref(), |id| {
                self.counters.contains_key(&id)
            })?;
            let view = self.cells(named, |kind| match kind {
                ExternKind::Counter { size, .. } => Some((*size, None)),
                _ => None,
            })?;
            self.counters.insert(named.id, view);
            Ok(())
        }));
        faults.extend(given.meters.iter().map(|meter| {
            let named = preamble("meter", meter.preamble.as_ref(), |id| {
                self.meters.contains_key(&id)
            })?;
            let view = self.cells(named, |kind| match kind {
                ExternKind::Meter { size, .. } => Some((*size, None)),
                _ => None,
            })?;
            let meter = meter_kind(meter.spec.as_ref());
            self.meters.insert(named.id, CellsView { meter, ..view });
            Ok(())
        }));
        faults.extend(given.registers.iter().map(|register| {
            let named = preamble("register", register.preamble.as_ref(), |id| {
                self.registers.contains_key(&id)
            })?;
            let view = self.cells(named, |kind| match kind {
                ExternKind::Register { size, data_ty, .. } => Some((*size, Some(data_ty.clone()))),
                _ => None,
            })?;
            self.registers.insert(named.id, view);
            Ok(())
        }));
        faults.extend(given.digests.iter().map(|digest| {
            let named = preamble("digest", digest.preamble.as_ref(), |id| {
                self.digests.contains_key(&id)
            })?;
            let view = self.cells(named, |kind| match kind {
                ExternKind::Digest { data_ty, .. } => Some((0, Some(data_ty.clone()))),
                _ => None,
            })?;
            self.digests.insert(named.id, view);
            Ok(())
        }));
        all(faults)
    }

    fn cells(
        &self,
        named: &Preamble,
        shape: impl Fn(&ExternKind) -> Option<(u32, Option<DataTy>)>,
    ) -> Checked<CellsView> {
        let instance = self.instance(&named.name, |kind| shape(kind).is_some())?;
        let (size, data_ty) = shape(&self.program.externs[instance].kind).unwrap_or_default();
        Ok(CellsView {
            id: named.id,
            instance,
            name: named.name.clone(),
            role: role_of(named),
            size,
            data_ty,
            meter: MeterKind::default(),
        })
    }

    fn add_value_sets(&mut self, given: &P4Info, own: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        let owns = Own::new(&own.value_sets, |set| set.preamble.as_ref());
        faults.extend(given.value_sets.iter().map(|set| {
            let named = preamble("value set", set.preamble.as_ref(), |id| {
                self.value_sets.contains_key(&id)
            })?;
            let same = owns.find("value set", named)?;
            let mut sets = self.program.value_sets.iter();
            let Some((id, declared)) = sets.find(|(_, declared)| declared.name == named.name)
            else {
                return invalid(format!("the program has no value set `{}`", named.name));
            };
            let shape = exec::key_shape(declared.fields.iter().map(|f| (f.ty, f.match_kind)));
            let ordered = same
                .r#match
                .iter()
                .zip(&declared.fields)
                .zip(shape.fields());
            let fields = ordered.map(|((own_field, declared), field)| {
                let width = declared.ty.width();
                let coding = match declared.ty.is_signed() {
                    true => Coding::Signed(width),
                    false => Coding::Unsigned(width),
                };
                let name = &own_field.name;
                field_view(
                    name,
                    declared.match_kind,
                    coding,
                    *field,
                    &set.r#match,
                    &same.r#match,
                )
            });
            let view = ValueSetView {
                id: named.id,
                set: id,
                name: named.name.clone(),
                role: role_of(named),
                fields: fields.collect::<Checked<_>>()?,
                size: declared.size,
            };
            self.value_sets.insert(named.id, view);
            Ok(())
        }));
        all(faults)
    }

    fn add_headers(&mut self, given: &P4Info) -> Checked {
        let mut faults: Vec<Checked> = Vec::new();
        faults.extend(given.controller_packet_metadata.iter().map(|header| {
            let name = header
                .preamble
                .as_ref()
                .map_or("", |preamble| &preamble.name);
            let is_named = |ty: &&ir::HeaderType| {
                let mut annotations = ty.annotations.iter();
                annotations.any(|one| one.name == "controller_header" && says(&one.body, name))
            };
            let Some(declared) = self.program.header_types.values().find(is_named) else {
                return invalid(format!(
                    "the P4Info has the controller header `{name}`, which the program has not"
                ));
            };
            let mut fields = Vec::new();
            for field in &declared.fields {
                let found = header
                    .metadata
                    .iter()
                    .find(|metadata| metadata.name == field.name);
                let coding =
                    self.coding(&format!("the controller header `{name}`"), &field.data_ty)?;
                fields.push(ParamView {
                    // A field hidden from controllers has no id and is 0 in packets.
                    id: found.map_or(0, |metadata| metadata.id),
                    name: field.name.clone(),
                    coding,
                    width: field.ty.width(),
                });
            }
            let view = Some(HeaderView { fields });
            match name {
                "packet_in" => self.packet_in = view,
                "packet_out" => self.packet_out = view,
                // Other controller headers have no meaning in P4Runtime.
                _ => {}
            }
            Ok(())
        }));
        all(faults)
    }

    /// Returns the action with this name.
    pub(crate) fn action_named(&self, name: &str) -> Option<&ActionView> {
        self.actions.get(self.actions_by_name.get(name)?)
    }

    /// Returns the table with this id.
    pub(crate) fn table_of(&self, id: u32) -> Checked<&TableView> {
        lookup(&self.tables, "table", id)
    }

    /// Returns the action profile or selector with this id.
    pub(crate) fn profile_by(&self, id: u32) -> Checked<&ProfileView> {
        lookup(&self.profiles, "action profile", id)
    }
}

/// Maximum number of faults that an error lists.
const MAX_FAULTS: usize = 8;

/// Merges all faults into one.
fn all(parts: impl IntoIterator<Item = Checked>) -> Checked {
    let faults: Vec<RequestError> = parts.into_iter().filter_map(Checked::err).collect();
    let Some(first) = faults.first() else {
        return Ok(());
    };
    let named = faults.iter().take(MAX_FAULTS);
    let mut lines: Vec<String> = named.map(|fault| fault.message.clone()).collect();
    if faults.len() > MAX_FAULTS {
        lines.push(format!("and {} more", faults.len() - MAX_FAULTS));
    }
    refuse(first.code, lines.join("; "))
}

/// Returns the object with this id.
pub(crate) fn lookup<'a, T>(all: &'a HashMap<u32, T>, what: &str, id: u32) -> Checked<&'a T> {
    match all.get(&id) {
        Some(found) => Ok(found),
        None if id == 0 => invalid(format!("the {what}'s id is 0, which names nothing")),
        None => refuse(
            Code::NotFound,
            format!("there is no {what} with the id {id}"),
        ),
    }
}

/// Returns true if an annotation's body is this string.
fn says(body: &ir::AnnotationBody, text: &str) -> bool {
    match body {
        ir::AnnotationBody::Text(body) => body.trim().trim_matches('"') == text,
        ir::AnnotationBody::Expressions(values) => {
            matches!(&values[..], [ir::AnnotationValue::String(value)] if value == text)
        }
        _ => false,
    }
}

fn check_width(place: &str, name: &str, given: i32, own: i32) -> Checked {
    if given == own {
        return Ok(());
    }
    invalid(format!(
        "{place}: `{name}` has {given} bits in the P4Info and {own} in the program"
    ))
}

fn field_view(
    name: &str,
    kind: MatchKind,
    coding: Coding,
    field: KeyField,
    given: &[info::MatchField],
    own: &[info::MatchField],
) -> Checked<FieldView> {
    let by_name = |fields: &'_ [info::MatchField]| fields.iter().position(|one| one.name == name);
    let (Some(at), Some(same)) = (by_name(given), by_name(own)) else {
        return invalid(format!("the P4Info has no match field `{name}`"));
    };
    let (found, same) = (&given[at], &own[same]);
    check_width("match fields", name, found.bitwidth, same.bitwidth)?;
    if found.r#match != same.r#match {
        return invalid(format!(
            "the match field `{name}` has another match type in the program"
        ));
    }
    Ok(FieldView {
        id: found.id,
        name: name.to_owned(),
        kind,
        coding,
        field,
    })
}
