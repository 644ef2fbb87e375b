//! Settings of a running device that P4Runtime has no message for: statements of entries files.

use std::collections::BTreeSet;

use entries::{CrcSetting, EntriesFile, QueueSetting, Schema, Update};
use exec::{CrcParameters, HashParameters};
use p4rt::{Code, SettingsAction, TenancyError};
use packet::PortId;
use switch::{Device, Object, ObjectPlace, PriorityQueueConfig, QueueConfig};

use crate::persistence;
use crate::port_changes::check_port;

/// Maximum number of ports that have settings of queues.
const MAX_QUEUES: usize = 4096;

/// Carries out a request. Returns the settings if it asks for them.
///
/// # Errors
/// A statement is wrong or no setting; then nothing is changed. Or the settings are in force and
/// could not be stored.
pub(crate) fn serve(device: &mut Device, action: &SettingsAction) -> Result<String, TenancyError> {
    match action {
        SettingsAction::Get => Ok(statements(device)),
        SettingsAction::Set(text) => set(device, text).map(|()| String::new()),
    }
}

fn set(device: &mut Device, text: &str) -> Result<(), TenancyError> {
    let invalid = |message: String| TenancyError {
        code: Code::InvalidArgument,
        message,
    };
    let program = device.program().clone();
    let file = entries::read(&program, "settings", text);
    let file = file.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        invalid(errors.join("\n"))
    })?;
    let updates = file.updates();
    if let Some(at) = updates.iter().position(|update| !update.is_setting()) {
        let message = "this is no setting of the device; controllers write it by P4Runtime";
        return Err(invalid(file.error(at, message).to_string()));
    }
    check_queues(device, &file)?;
    let applied = apply_entries::apply_settings(device, updates);
    applied.map_err(|error| invalid(error.message))?;
    device.publish();
    if !device.is_kept() {
        return Ok(());
    }
    persistence::commit(device).map_err(|error| TenancyError {
        code: Code::Internal,
        message: format!("the settings are in force, but are lost with the switch: {error}"),
    })
}

/// Checks that the device can have the ports of the queues, and that they are not too many.
fn check_queues(device: &Device, file: &EntriesFile<'_>) -> Result<(), TenancyError> {
    let places = device.objects_with(|_| false).map(|(place, _)| place);
    let mut queues: BTreeSet<PortId> = places
        .filter_map(|place| match place {
            ObjectPlace::Queue(port) => Some(port),
            _ => None,
        })
        .collect();
    for (at, update) in file.updates().iter().enumerate() {
        let Update::Queue(queue) = update else {
            continue;
        };
        let port = PortId(queue.port);
        let refused = |code, message: String| TenancyError {
            code,
            message: file.error(at, message).to_string(),
        };
        check_port(device.program(), port)
            .map_err(|message| refused(Code::InvalidArgument, message))?;
        if queues.insert(port) && queues.len() > MAX_QUEUES {
            let message = format!("a switch has settings for the queues of {MAX_QUEUES} ports");
            return Err(refused(Code::ResourceExhausted, message));
        }
    }
    Ok(())
}

/// Returns the settings that differ from the defaults, one a line.
fn statements(device: &Device) -> String {
    let mut updates = Vec::new();
    let first = QueueConfig::default();
    for (place, object) in device.objects_with(|_| false) {
        match (place, object) {
            (ObjectPlace::Hash, Object::Hash(parameters)) => {
                updates.extend(hash_settings(&parameters));
            }
            (ObjectPlace::HostPorts, Object::HostPorts(ports)) if !ports.is_empty() => {
                updates.push(Update::HostPorts(ports));
            }
            (ObjectPlace::ExpireProfile(profile), Object::Timeout(Some(timeout))) => {
                updates.push(Update::ExpireProfile {
                    profile,
                    timeout_ns: Some(timeout.0),
                });
            }
            (ObjectPlace::Queue(port), Object::Queue(config)) => {
                let depth = u32::try_from(config.depth).unwrap_or(u32::MAX);
                let of_port = QueueConfig {
                    priorities: first.priorities,
                    ..config
                };
                let has_own = config.priorities != first.priorities;
                // Ports that were set to the defaults are listed, too.
                if of_port != first || !has_own {
                    updates.push(Update::Queue(QueueSetting {
                        port: port.0,
                        priority: None,
                        packets_per_second: config.packets_per_second,
                        bits_per_second: config.bits_per_second,
                        depth: Some(depth).filter(|_| config.depth != first.depth),
                    }));
                }
                let own = (0..).zip(&config.priorities);
                let own = own.filter(|(_, own)| **own != PriorityQueueConfig::default());
                updates.extend(own.map(|(priority, own)| {
                    Update::Queue(QueueSetting {
                        port: port.0,
                        priority: Some(priority),
                        packets_per_second: own.packets_per_second.map(Into::into),
                        bits_per_second: own.bits_per_second.map(Into::into),
                        depth: own.depth.map(Into::into),
                    })
                }));
            }
            _ => {}
        }
    }
    let schema = Schema::of(device.program());
    let lines = updates.iter().map(|update| schema.statement(update) + "\n");
    lines.collect()
}

fn hash_settings(parameters: &HashParameters) -> Vec<Update> {
    let first = HashParameters::default();
    let mut updates = Vec::new();
    let crcs = [
        (16, &parameters.crc16, &first.crc16),
        (32, &parameters.crc32, &first.crc32),
    ];
    let changed = crcs.into_iter().filter(|(_, crc, first)| crc != first);
    updates.extend(changed.map(|(bits, crc, _)| Update::HashCrc {
        bits,
        crc: crc_setting(crc),
    }));
    if parameters.toeplitz_key != first.toeplitz_key {
        updates.push(Update::HashKey(parameters.toeplitz_key.clone()));
    }
    if parameters.seed != first.seed {
        updates.push(Update::HashSeed(parameters.seed));
    }
    updates
}

fn crc_setting(crc: &CrcParameters) -> CrcSetting {
    CrcSetting {
        polynomial: Some(crc.polynomial),
        initial: Some(crc.initial),
        final_xor: Some(crc.final_xor),
        reflect_in: Some(crc.reflect_in),
        reflect_out: Some(crc.reflect_out),
    }
}
