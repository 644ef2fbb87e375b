//! Commands of operators: the state, changes of the group, and the placement of entries.

use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::operate_request::Task;
use p4rt::{Code, TenancyError};
use packet::Nanos;
use placement::{Nesting, PlacementOptions, SketchSize};
use split::{EntryPolicy, Order, SplitPlacement, Window};

use crate::code_change::CodeTask;
use crate::control::CoordinatorLoop;

/// Returns the placement as switches get it. `reports` is the number of keys that a window can
/// report.
pub(crate) fn placement_message(
    placement: &SplitPlacement,
    order: Order,
    reports: usize,
) -> wire::Placement {
    let (window_packets, window_ns) = match placement.window {
        Window::Packets(packets) => (packets, 0),
        Window::Time(time) => (0, time.0),
    };
    wire::Placement {
        policy: placement.policy.name().to_owned(),
        is_strict: order == Order::Strict,
        sketch_columns: placement.options.sketch.columns,
        sketch_rows: placement.options.sketch.rows,
        reports: reports as u64,
        window_packets,
        window_ns,
    }
}

/// Returns a placement as operators give it.
pub fn policy_task(placement: &SplitPlacement, order: Order) -> wire::PolicyTask {
    let options = &placement.options;
    wire::PolicyTask {
        placement: Some(placement_message(placement, order, 0)),
        nesting: placement.nesting.name().to_owned(),
        top: placement.top,
        k: options.k,
        epsilon: options.epsilon,
        age: options.age,
        margin: options.margin,
    }
}

/// Returns the placement and the order of an operator's task.
///
/// # Errors
/// A name or number is wrong.
pub fn placement_of(task: &wire::PolicyTask) -> Result<(SplitPlacement, Order), String> {
    let given = task.placement.clone().unwrap_or_default();
    let Some(policy) = EntryPolicy::named(&given.policy) else {
        return Err(format!("there is no policy `{}`", given.policy));
    };
    let Some(nesting) = Nesting::named(&task.nesting) else {
        return Err(format!("there is no rule `{}` for prefixes", task.nesting));
    };
    let placement = SplitPlacement {
        policy,
        nesting,
        window: match given.window_packets {
            0 => Window::Time(Nanos(given.window_ns.max(1))),
            packets => Window::Packets(packets),
        },
        top: task.top,
        options: PlacementOptions {
            k: task.k,
            epsilon: task.epsilon,
            age: task.age,
            margin: task.margin,
            sketch: SketchSize {
                columns: given.sketch_columns,
                rows: given.sketch_rows,
            },
            ..PlacementOptions::default()
        },
    };
    let checked = placement.options.check();
    checked.map_err(|error| error.to_string())?;
    let order = match given.is_strict {
        true => Order::Strict,
        false => Order::Loose,
    };
    Ok((placement, order))
}

impl CoordinatorLoop {
    /// Carries out a task of an operator. Returns the state after it.
    ///
    /// # Errors
    /// The task is not possible. Nothing has changed.
    pub(crate) fn operate(
        &mut self,
        task: Task,
        note: &mut dyn FnMut(&str),
    ) -> Result<wire::OperateResponse, TenancyError> {
        let done = match task {
            Task::Status(_) => Ok(()),
            Task::Join(join) => self.join(&join),
            Task::Leave(server) => self.leave(server),
            Task::Policy(policy) => self.set_policy(&policy, note),
            Task::Reload(reload) => self.reload(&reload),
        };
        done.map_err(|message| TenancyError {
            code: Code::FailedPrecondition,
            message,
        })?;
        Ok(self.state())
    }

    fn set_policy(
        &mut self,
        task: &wire::PolicyTask,
        note: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let (placement, order) = placement_of(task)?;
        let placed = self.coordinator.set_placement(&placement, &mut self.switch);
        placed.map_err(|error| error.to_string())?;
        self.placement = placement;
        self.order = order;
        self.reports.clear();
        // Entries leave the switch before it counts for another policy.
        self.propagate(note);
        self.send_placement();
        Ok(())
    }

    fn state(&self) -> wire::OperateResponse {
        let switch = wire::PlaneState {
            name: self.switch.name.clone(),
            address: self.switch_address.clone(),
            is_connected: self.switch.is_connected(),
            reason: self.switch_reason.clone(),
            ..wire::PlaneState::default()
        };
        let servers = self.servers.iter().map(|(id, server)| wire::PlaneState {
            name: server.plane.name.clone(),
            server: (*id).into(),
            address: server.address.clone(),
            is_connected: server.plane.is_connected(),
            reason: server.reason.clone(),
            flows: server.flows,
        });
        let tables = self.coordinator.tables().into_iter();
        let tables = tables.map(|table| wire::MirroredState {
            name: table.name,
            entries: table.entries as u64,
            in_switch: table.in_switch as u64,
            covers: table.covers as u64,
            capacity: table.capacity as u64,
            reports: self.reports.get(&table.table).copied().unwrap_or(0),
        });
        wire::OperateResponse {
            planes: [switch].into_iter().chain(servers).collect(),
            group: Some(self.group.clone()),
            tables: tables.collect(),
            policy: Some(policy_task(&self.placement, self.order)),
            moves: self.coordinator.moves(),
            change: self.change(),
            refused: self.refusals.iter().cloned().collect(),
            code: self.code.as_ref().map(CodeTask::state),
        }
    }
}
