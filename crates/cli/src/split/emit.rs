//! `polyplane split emit`: the switch half as P4_16 text, with what belongs to it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::handlers;
use command::split_text;
use foreign::CodeText;

use super::{Cut, show};
use crate::args::Source;
use crate::{Ended, artefacts, out};

#[derive(Args)]
#[command(
    after_help = "Writes NAME_switch.p4, NAME_switch.p4info.txt, NAME.frame.json, clip.h, and NAME.c if the program has C code.\n\nExamples:\n  \
                  polyplane split emit app.p4c --target v1model --out build/"
)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// Kind of switch that the text is for.
    #[arg(long, value_enum, default_value_t)]
    target: Target,
    /// Write the files into this directory, which is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    cut: Cut,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Any switch for v1model, as BMv2's simple_switch.
    #[default]
    V1model,
}

pub(super) fn run(options: &Options) -> Result<Ended, String> {
    let Target::V1model = options.target;
    let mut cut = options.cut.options();
    cut.fixed_switch = true;
    let Some((program, blocks)) = super::split_source(&options.source, &cut)? else {
        return Ok(Ended::WithErrors);
    };
    let code = handlers::texts(blocks, options.source.c_file.as_deref())?;
    let name = options.source.name();
    let file = format!("{name}_switch.p4");
    let (text, switch) = match split_text::print(&program.switch, &file) {
        Ok(printed) => printed,
        Err(error) => {
            out::error(&error.to_string());
            return Ok(Ended::WithErrors);
        }
    };
    let info = match p4info::p4info(&switch) {
        Ok(info) => p4info::to_text(&info),
        Err(errors) => {
            for error in errors {
                out::error(&error.to_string());
            }
            return Ok(Ended::WithErrors);
        }
    };
    let layout = serde_json::to_string_pretty(&show::shown(&program))
        .map_err(|error| format!("cannot write JSON: {error}"))?;
    let mut files = vec![
        (file, text),
        (format!("{name}_switch.p4info.txt"), info),
        (format!("{name}.frame.json"), layout + "\n"),
        ("clip.h".to_owned(), foreign::header(&program.whole)),
    ];
    if !code.is_empty() {
        files.push((format!("{name}.c"), c_source(&code)));
    }
    artefacts::write_all(&options.out, files)?;
    Ok(Ended::Well)
}

/// Returns the C code as one file, with the places that it comes from.
pub(super) fn c_source(code: &[CodeText]) -> String {
    let mut source = "#include \"clip.h\"\n".to_owned();
    for text in code {
        let file = passes::p4::quoted(&text.file);
        source += &format!("#line {} {file}\n{}\n", text.line, text.text);
    }
    source
}
