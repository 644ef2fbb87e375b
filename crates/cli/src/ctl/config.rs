//! Commands about the program and the server: `load`, `pipeline`, `capabilities`, `status`.

use std::path::PathBuf;

use clap::Args;
use p4info::p4::v1 as rt;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::polyplane::ports::v1::PortState;
use p4rt::client::{ClientError, Code};
use serde_json::json;

use super::link::{Link, LinkOptions};
use crate::args::{Preprocess, Source, limits, read};
use crate::{Ended, amount, artefacts, compile, out};

#[derive(Args)]
pub(crate) struct LoadOptions {
    /// A P4 program, which is compiled here; or a device config that the server takes, as
    /// `polyplane compile` or another compiler makes it.
    #[arg(value_name = "PROGRAM.p4|CONFIG")]
    program: PathBuf,
    /// The P4Info of a device config, as text or binary; a P4 program has its own.
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,
    /// Start from an empty state (VERIFY_AND_COMMIT); without it, all state is kept
    /// (RECONCILE_AND_COMMIT), or the server refuses.
    #[arg(long, conflicts_with = "verify")]
    clear: bool,
    /// An object that may lose state which has no place in the program, by its whole name; `*`
    /// for all. Give one for each (docs/reference/program-change.md).
    #[arg(long = "may-lose", value_name = "NAME", conflicts_with_all = ["clear", "verify"])]
    may_lose: Vec<String>,
    /// Only check whether the server would take it.
    #[arg(long)]
    verify: bool,
    /// A number that identifies the program later.
    #[arg(long, value_name = "N")]
    cookie: Option<u64>,
    #[command(flatten)]
    preprocess: Preprocess,
}

#[derive(Args)]
pub(crate) struct PipelineOptions {
    /// Print the P4Info as protobuf text.
    #[arg(long)]
    p4info: bool,
    /// Write the device config into this file, if the server returns it.
    #[arg(long, value_name = "FILE")]
    device_config: Option<PathBuf>,
}

impl LoadOptions {
    fn action(&self) -> Action {
        match (self.verify, self.clear) {
            (true, _) => Action::Verify,
            (false, true) => Action::VerifyAndCommit,
            (false, false) => Action::ReconcileAndCommit,
        }
    }

    /// Returns the program in the form that is sent. `None` if it has errors, which were shown.
    fn config(&self) -> Result<Option<rt::ForwardingPipelineConfig>, String> {
        let source = Source {
            program: self.program.clone(),
            c_file: None,
            preprocess: self.preprocess.clone(),
        };
        let is_text = source.is_chain() || self.program.extension().is_some_and(|e| e == "p4");
        let (p4info, p4_device_config) = match is_text && self.p4info.is_none() {
            true => {
                let Some(program) = compile::compile(&source) else {
                    return Ok(None);
                };
                let info = artefacts::p4info(&program)?;
                (Some(info), p4rt::device_config(&program))
            }
            false => {
                let info = self.p4info.as_deref();
                let info = info.map(artefacts::read_p4info).transpose()?;
                (info, read(&self.program, limits::CONFIG)?)
            }
        };
        Ok(Some(rt::ForwardingPipelineConfig {
            p4info,
            p4_device_config,
            cookie: self
                .cookie
                .map(|cookie| rt::forwarding_pipeline_config::Cookie { cookie }),
        }))
    }
}

pub(crate) fn load(
    link: &LinkOptions,
    options: &LoadOptions,
    as_json: bool,
) -> Result<Ended, String> {
    // Before connecting: a program with errors needs no server.
    let Some(config) = options.config()? else {
        return Ok(Ended::WithErrors);
    };
    let mut link = link.connect()?;
    link.become_primary()?;
    let action = options.action();
    let set = link.client.set_config(action, config, &options.may_lose);
    set.map_err(|error| advised(&link, action, &error))?;
    let file = options.program.display().to_string();
    if as_json {
        out::json_line(&json!({ "loaded": file, "action": action.as_str_name() }));
        return Ok(Ended::Well);
    }
    out::line(&match action {
        Action::Verify => format!("{file} is a program that the server takes; nothing was changed"),
        Action::VerifyAndCommit => format!("{file} is running, with an empty state"),
        _ if options.may_lose.is_empty() => {
            format!("{file} is running; the state that was there is kept")
        }
        _ => format!(
            "{file} is running; the state that was there is kept, but for what has no place of {}",
            options.may_lose.join(", ")
        ),
    });
    Ok(Ended::Well)
}

fn advised(link: &Link, action: Action, error: &ClientError) -> String {
    match error {
        ClientError::Refused(refused) if refused.would_lose() => format!(
            "{error}; --may-lose NAME lets state of this object go, --may-lose '*' all of these, --clear loads it with an empty state"
        ),
        ClientError::Refused(refused)
            if action == Action::ReconcileAndCommit && refused.code == Code::Unimplemented =>
        {
            format!("{error}; --clear loads it with an empty state")
        }
        error => link.explain(error),
    }
}

pub(crate) fn pipeline(
    link: &mut Link,
    options: &PipelineOptions,
    as_json: bool,
) -> Result<(), String> {
    let parts = match options.device_config {
        Some(_) => ResponseType::All,
        None => ResponseType::P4infoAndCookie,
    };
    let config = link
        .client
        .config(parts)
        .map_err(|error| link.explain(&error))?;
    let Some(config) = config.filter(|config| config.p4info.is_some()) else {
        // Gives the same error as the other commands.
        return link.catalog().map(|_| ());
    };
    if let Some(path) = &options.device_config {
        if config.p4_device_config.is_empty() {
            return Err("the server does not tell the device config".to_owned());
        }
        let written = std::fs::write(path, &config.p4_device_config);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let info = config.p4info.unwrap_or_default();
    if options.p4info {
        out::text(&p4info::to_text(&info));
        return Ok(());
    }
    let cookie = config.cookie.map(|cookie| cookie.cookie);
    let package = info.pkg_info.clone().unwrap_or_default();
    let counts = [
        ("tables", info.tables.len()),
        ("actions", info.actions.len()),
        ("profiles", info.action_profiles.len()),
        ("counters", info.counters.len() + info.direct_counters.len()),
        ("meters", info.meters.len() + info.direct_meters.len()),
        ("registers", info.registers.len()),
        ("value sets", info.value_sets.len()),
        ("digests", info.digests.len()),
    ];
    if as_json {
        let counts = counts
            .iter()
            .map(|(name, count)| (name.replace(' ', "_"), (*count).into()));
        let counts: serde_json::Map<String, serde_json::Value> = counts.collect();
        out::json(&json!({
            "cookie": cookie,
            "name": package.name,
            "version": package.version,
            "arch": package.arch,
            "objects": counts,
        }));
        return Ok(());
    }
    let or_none = |text: &str| {
        if text.is_empty() {
            "(none)".to_owned()
        } else {
            text.to_owned()
        }
    };
    out::line(&format!("program  {}", or_none(&package.name)));
    out::line(&format!("version  {}", or_none(&package.version)));
    out::line(&format!("arch     {}", or_none(&package.arch)));
    out::line(&format!(
        "cookie   {}",
        cookie.map_or("(none)".to_owned(), |cookie| cookie.to_string())
    ));
    let there = counts.iter().filter(|(_, count)| *count > 0);
    let there: Vec<String> = there
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    out::line(&format!("objects  {}", there.join(", ")));
    Ok(())
}

pub(crate) fn capabilities(link: &mut Link, as_json: bool) -> Result<(), String> {
    let version = link
        .client
        .capabilities()
        .map_err(|error| link.explain(&error))?;
    match as_json {
        true => out::json(&json!({ "p4runtime_api_version": version })),
        false => out::line(&format!("P4Runtime {version}")),
    }
    Ok(())
}

pub(crate) fn status(link: &mut Link, options: &LinkOptions, as_json: bool) -> Result<(), String> {
    let version = match link.client.capabilities() {
        Ok(version) => Some(version),
        Err(ClientError::Refused(refused)) if refused.code == Code::Unimplemented => None,
        Err(error) => return Err(link.explain(&error)),
    };
    let config = link.client.config(ResponseType::P4infoAndCookie);
    let config = config.map_err(|error| link.explain(&error))?;
    let arbitration = link
        .client
        .arbitrate(None)
        .map_err(|error| link.explain(&error))?;
    let ports = link.client.port_states();
    let ports = ports.map_err(|error| link.explain(&error))?;
    let highest = arbitration.highest.map(|id| id.to_string());
    let info = config.as_ref().and_then(|config| config.p4info.as_ref());
    let tables = info.map(|info| info.tables.len());
    let cookie = config
        .as_ref()
        .and_then(|config| config.cookie.as_ref())
        .map(|cookie| cookie.cookie);
    if as_json {
        out::json(&json!({
            "addr": options.address.addr,
            "device_id": options.device_id,
            "role": options.role,
            "p4runtime_api_version": version,
            "has_program": info.is_some(),
            "cookie": cookie,
            "has_primary": arbitration.has_primary,
            "highest_election_id": highest,
            "ports": ports.map(|ports| ports.iter().map(port_json).collect::<Vec<_>>()),
        }));
        return Ok(());
    }
    out::line(&format!(
        "server   {}, P4Runtime {}",
        options.address.addr,
        version
            .as_deref()
            .unwrap_or("of a version that it does not tell")
    ));
    out::line(&format!("device   {}", options.device_id));
    let program = match tables {
        Some(tables) => amount::count(tables as u64, "table"),
        None => "none; load one with `polyplane ctl load PROGRAM.p4`".to_owned(),
    };
    let cookie = cookie.map_or(String::new(), |cookie| format!(", cookie {cookie}"));
    out::line(&format!("program  {program}{cookie}"));
    let primary = match (arbitration.has_primary, &highest) {
        (true, Some(highest)) => format!("a controller with the election id {highest}"),
        (true, None) => "a controller".to_owned(),
        (false, Some(highest)) => format!("none; the highest election id so far is {highest}"),
        (false, None) => "none, and there was none".to_owned(),
    };
    out::line(&format!("primary  {primary}"));
    for port in ports.iter().flatten() {
        out::line(&port_line(port));
    }
    Ok(())
}

fn port_json(port: &PortState) -> serde_json::Value {
    json!({ "port": port.port, "name": port.name, "up": port.is_up })
}

/// Formats a port's state: `port     0 (eth0) is up`.
fn port_line(port: &PortState) -> String {
    let name = match port.name.as_str() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    let state = if port.is_up { "up" } else { "down" };
    format!("port     {}{name} is {state}", port.port)
}
