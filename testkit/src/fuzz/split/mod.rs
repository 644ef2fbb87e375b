//! The target `split`: random cross-plane programs with state by flow, over a switch and servers,
//! while entries, their placement and the group change and frames are late or lost. Each flow gets
//! what one device gives it.

mod bed;
mod handler;
mod program;
mod setting;

use passes::split::SplitProgram;
use support::rng::Rng;

use self::bed::Event;
use self::program::Program;
use self::setting::Setting;
use super::guard::guarded;
use super::minimise::minimise;
use super::{Case, Fault};

/// Number of attempts to shorten a failing run.
const ATTEMPTS: usize = 400;

/// Runs one random program. Returns a fault if a flow differs.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let setting = Setting::draw(&mut choices);
    let program = program::draw(&mut choices, &setting);
    let events = bed::draw(&mut choices, &setting, &program);
    case.keep_running(&program.text());
    let fault = judge(&program, &setting, &events, case).err()?;
    if !case.is_new(&fault) {
        return Some((fault, program.text()));
    }
    let fails = |program: &Program, events: &[Event]| {
        judge(program, &setting, events, case)
            .is_err_and(|other| other.signature == fault.signature)
    };
    let events = minimise(events, ATTEMPTS, |fewer| fails(&program, fewer));
    let mut program = program;
    loop {
        let shorter = program.shorter().find(|shorter| fails(shorter, &events));
        match shorter {
            Some(shorter) => program = shorter,
            None => break,
        }
    }
    let mut events = minimise(events, ATTEMPTS, |fewer| fails(&program, fewer));
    for at in 0..events.len() {
        let mut plainer = events.clone();
        if plainer[at].make_plain() && fails(&program, &plainer) {
            events = plainer;
        }
    }
    let fault = judge(&program, &setting, &events, case)
        .err()
        .unwrap_or(fault);
    let events: Vec<String> = events
        .iter()
        .map(|event| format!("// {event:?}\n"))
        .collect();
    let input = format!("// {setting:?}\n{}{}", events.concat(), program.text());
    Some((fault, input))
}

fn judge(
    program: &Program,
    setting: &Setting,
    events: &[Event],
    case: &Case<'_>,
) -> Result<(), Fault> {
    let Some(halves) = halves(program, setting.phv_share, case)? else {
        return Ok(());
    };
    case.accept();
    let (program, setting, events) = (program.clone(), *setting, events.to_vec());
    let run = move || bed::run(&program, &halves, &setting, &events);
    guarded(case.limit, run).map_err(|trouble| trouble.fault("running the halves"))?
}

/// Compiles and splits a program, if it can be.
fn halves(program: &Program, share: u64, case: &Case<'_>) -> Result<Option<SplitProgram>, Fault> {
    let text = program.text();
    let split = move || {
        let refused = |detail| Fault::new("a generated program is refused", detail);
        bed::split(&*crate::compile_text(&text).map_err(refused)?, share)
    };
    guarded(case.limit, split).map_err(|trouble| trouble.fault("splitting a program"))?
}
