//! Splits a program over a switch and servers (CLIP, section IV).
//!
//! - The switch half is the whole program. It leaves at a mirrored table that misses in the switch
//!   and at the call of a handler, and resumes after it.
//! - The server half starts there. It goes on through code without state of the switch as long as
//!   another such stage may follow, so a miss that leads to a handler is one trip. Then it answers.
//! - A frame between them has the values that are live and that the packet's bytes do not give: its
//!   own bytes travel unchanged and are parsed again on both sides ([`WireLayout`]).
//!
//! Tables, actions, externs and value sets keep their ids and the positions of their actions in
//! both halves, so a change of the whole program's tables fits both.
//!
//! Registers, counters, meters, digests and other state belong to the switch. If an action of a
//! mirrored table uses them, a server selects the action and the switch runs it.

mod cuts;
mod epoch;
mod error;
mod fixed;
mod flows;
mod layout;
mod line;
mod liveness;
mod owner;
mod parser;
mod phv;
mod recompute;
mod server;
mod switch;

use ir::{Arch, BlockCode, BlockRole, ControlId, MatchKind, Program, StageKind, TableId};

use cuts::Cuts;
use layout::FrameHeader;
use parser::Start;

pub use cuts::{CutKind, Resume};
pub use error::SplitError;
pub use layout::{EPOCH_AT, ETHERNET_BYTES, FrameOption, FrameParameter, WireLayout};
pub use owner::OwnerPlan;
pub use phv::{PhvUse, Piv, PivHome};

/// EtherType of requests, if the user gives no other one.
pub const REQUEST_TYPE: u16 = 0x88b5;

/// EtherType of responses, if the user gives no other one.
pub const RESPONSE_TYPE: u16 = 0x88b6;

/// Egress port of requests in the switch half: the runtime replaces it by the port of a server.
pub const REQUEST_PORT: u32 = 509;

/// Options of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitOptions {
    /// Number of entries in the switch of each table of ingress that can be mirrored. `None`
    /// mirrors only the tables with `@mirror`.
    pub mirror_all: Option<u32>,
    /// EtherType of requests.
    pub request_type: u16,
    /// EtherType of responses.
    pub response_type: u16,
    /// Egress port of requests in the switch half.
    pub request_port: u32,
    /// Budget of the switch for the values of a packet, in bits.
    pub phv_bits: Option<u64>,
    /// True for a switch half that any v1model switch can run: it selects the servers itself.
    pub fixed_switch: bool,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions {
            mirror_all: None,
            request_type: REQUEST_TYPE,
            response_type: RESPONSE_TYPE,
            request_port: REQUEST_PORT,
            phv_bits: None,
            fixed_switch: false,
        }
    }
}

/// A program split in two.
#[derive(Clone, Debug)]
pub struct SplitProgram {
    /// The whole program, with its mirrored tables.
    pub whole: Program,
    /// The switch half.
    pub switch: Program,
    /// The server half.
    pub server: Program,
    /// Description of the split.
    pub plan: SplitPlan,
}

/// Description of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// The cuts. The number in a frame is the position plus one.
    pub cuts: Vec<CutPlan>,
    /// The places at which packets resume. The number in a frame is the position plus one.
    pub resumes: Vec<String>,
    /// Mirrored tables.
    pub mirrored: Vec<MirroredTable>,
    /// Names of the stages that servers run.
    pub server_stages: Vec<String>,
    /// Values that are computed again after a cut instead of travelling: names and widths in bits.
    pub recomputed: Vec<(String, u32)>,
    /// Number of bits of live values, the recomputed ones included.
    pub live_bits: u64,
    /// The values that the switch holds for a packet.
    pub phv: PhvUse,
    /// Layout of frames.
    pub frame: WireLayout,
}

impl SplitPlan {
    /// Returns the number of the place where a request goes on at its own cut, as if the packet
    /// had just come there.
    pub fn resume_at_cut(&self, cut: u16) -> u16 {
        self.resumes.len() as u16 + cut
    }

    /// Returns the mirrored table with this id.
    pub fn mirrored_table(&self, table: TableId) -> Option<&MirroredTable> {
        self.mirrored
            .iter()
            .find(|mirrored| mirrored.table == table)
    }

    /// Returns the width of the key in frames at a cut, in bits.
    pub fn key_width(&self, cut: CutKind) -> usize {
        let CutKind::Table(table) = cut else {
            return 0;
        };
        let mirrored = self.mirrored_table(table);
        let mirrored = mirrored.filter(|mirrored| mirrored.entries > 0);
        let widths = mirrored.map_or(&[][..], |mirrored| &mirrored.key_widths);
        widths.iter().map(|&width| width as usize).sum()
    }

    /// Returns the cut of this number.
    pub fn cut(&self, number: u16) -> Option<&CutPlan> {
        self.cuts.get(usize::from(number).checked_sub(1)?)
    }
}

/// A cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPlan {
    /// Name of the stage.
    pub stage: String,
    /// Its kind.
    pub kind: CutKind,
    /// Name of the table or handler.
    pub name: String,
    /// Pool of which a server has leased a value of the packet: the packet goes to this server.
    pub owner: Option<OwnerPlan>,
}

/// A mirrored table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredTable {
    /// The table.
    pub table: TableId,
    /// Maximum number of its entries that the switch holds; 0 for a table of which it holds none.
    pub entries: u32,
    /// Position of the key with longest-prefix match, if it has one.
    pub prefix_key: Option<usize>,
    /// Widths of its keys in bits.
    pub key_widths: Vec<u32>,
    /// Position of the action that makes packets leave, in the switch half.
    pub miss_action: usize,
    /// True if the actions have state of the switch, so that a server only selects the action.
    pub is_captured: bool,
}

/// Splits a program.
///
/// # Errors
/// The program cannot be split: the construct, its place and the remedy.
pub fn split(program: &Program, options: &SplitOptions) -> Result<SplitProgram, SplitError> {
    let mut whole = program.clone();
    let ingress = ingress_of(&whole)?;
    if let Some(entries) = options.mirror_all {
        let control = whole.controls[ingress].clone();
        cuts::mirror_all(&mut whole, &control, entries);
    }
    check_other_controls(&whole, ingress)?;
    if options.mirror_all.is_some() && cuts::has_none(&whole, &whole.controls[ingress]) {
        return Ok(uncut(whole, (options.request_type, options.response_type)));
    }
    let cuts = Cuts::of(&whole, &whole.controls[ingress])?;
    let start = Start::of(&whole)?;
    let mut with_header = whole.clone();
    let mut frame = layout::add_header(&mut with_header, ingress, &cuts, options)?;
    let stages = &whole.controls[ingress].stages;
    let owners = cuts.cuts.iter();
    let owners = owners.map(|cut| owner::owner_of(&whole, cut, &stages[cut.stage]));
    let owners: Vec<_> = owners.collect::<Result<_, _>>()?;
    let owner_plans = owners.iter().map(|owner| Some(owner.as_ref()?.0.clone()));
    let mut plan = plan(&whole, ingress, &cuts, &frame, owner_plans.collect());
    plan.frame.epoch = epoch::epoch(&whole, &whole.controls[ingress], &cuts.resumes, &plan);
    frame.layout.epoch = plan.frame.epoch;
    let server = server::server_half(with_header.clone(), ingress, &cuts, &frame, &start);
    let extras = (options, &owners[..]);
    let switch = switch::switch_half(with_header, ingress, &cuts, &frame, &start, extras);
    Ok(SplitProgram {
        whole,
        switch,
        server,
        plan,
    })
}

/// Returns a program without cuts: the switch runs all of it.
fn uncut(whole: Program, (request_type, response_type): (u16, u16)) -> SplitProgram {
    let plan = SplitPlan {
        cuts: Vec::new(),
        resumes: Vec::new(),
        mirrored: Vec::new(),
        server_stages: Vec::new(),
        recomputed: Vec::new(),
        live_bits: 0,
        phv: PhvUse::default(),
        frame: WireLayout::without_parameters(request_type, response_type),
    };
    SplitProgram {
        switch: whole.clone(),
        server: whole.clone(),
        whole,
        plan,
    }
}

/// Returns the ingress control of a program that can be split.
fn ingress_of(program: &Program) -> Result<ControlId, SplitError> {
    let refused = |message: &str, hint| Err(SplitError::new(program, None, message, hint));
    if program.arch != Arch::V1model {
        return refused(
            "the program is not for v1model",
            "only v1model programs run over a switch and servers",
        );
    }
    if !program.pipeline.steps.is_empty() {
        return refused(
            "the program is a chain",
            "split the programs of the chain one by one",
        );
    }
    let mut blocks = program.pipeline.blocks.iter();
    let ingress = blocks.find_map(|block| match block.code {
        BlockCode::Control(id) if block.role == BlockRole::Ingress => Some(id),
        _ => None,
    });
    match ingress {
        Some(ingress) => Ok(ingress),
        None => refused(
            "the program has no ingress control",
            "write a v1model program",
        ),
    }
}

/// Checks that only ingress applies mirrored tables.
fn check_other_controls(program: &Program, ingress: ControlId) -> Result<(), SplitError> {
    for (id, control) in program.controls.iter() {
        if id == ingress {
            continue;
        }
        for stage in control.stages.values() {
            if let StageKind::Match { table, .. } = stage.kind
                && program.tables[table].mirror.is_some()
            {
                return Err(SplitError::new(
                    program,
                    stage.loc.or(program.tables[table].loc),
                    format!(
                        "the mirrored table `{}` is applied outside of ingress",
                        program.tables[table].name
                    ),
                    "apply it in ingress, or take `@mirror` from it",
                ));
            }
        }
    }
    Ok(())
}

fn plan(
    program: &Program,
    ingress: ControlId,
    cuts: &Cuts,
    frame: &FrameHeader,
    owners: Vec<Option<OwnerPlan>>,
) -> SplitPlan {
    let stages = &program.controls[ingress].stages;
    let cut_plans = cuts.cuts.iter().zip(owners).map(|(cut, owner)| CutPlan {
        stage: stages[cut.stage].name.clone(),
        kind: cut.kind,
        name: cuts::name_of(program, cut.kind).to_owned(),
        owner,
    });
    let resumes = cuts.resumes.iter().map(|resume| match resume {
        Resume::End => "end of ingress".to_owned(),
        Resume::Stage(stage) => stages[*stage].name.clone(),
        Resume::Action(stage) => format!("action of {}", stages[*stage].name),
    });
    let mut tables: Vec<(TableId, bool)> = cuts
        .cuts
        .iter()
        .filter_map(|cut| match cut.kind {
            CutKind::Table(table) => Some((table, cuts.captured.contains(cut.stage))),
            CutKind::Handler(_) => None,
        })
        .collect();
    tables.sort_unstable();
    tables.dedup();
    let mirrored = tables.into_iter().map(|(id, is_captured)| {
        let table = &program.tables[id];
        let mut kinds = table.keys.iter().map(|key| key.match_kind);
        let width = |key: &ir::Key| key.expr.ty(program, None).map_or(0, ir::ScalarTy::width);
        MirroredTable {
            table: id,
            entries: match frame.is_cached(program, id) {
                true => table.mirror.unwrap_or(0),
                false => 0,
            },
            prefix_key: kinds.position(|kind| kind == MatchKind::Lpm),
            key_widths: table.keys.iter().map(width).collect(),
            miss_action: table.actions.len(),
            is_captured,
        }
    });
    SplitPlan {
        cuts: cut_plans.collect(),
        resumes: resumes.collect(),
        mirrored: mirrored.collect(),
        server_stages: cuts
            .at_server
            .iter()
            .map(|stage| stages[stage].name.clone())
            .collect(),
        recomputed: frame.recomputed.clone(),
        phv: frame.phv.clone(),
        live_bits: frame.bits_before,
        frame: frame.layout.clone(),
    }
}
