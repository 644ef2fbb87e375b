//! `polyplane ir` and `polyplane p4info`: what a program compiles to.

use clap::Args;

use crate::args::Source;
use crate::{Ended, compile, out};

#[derive(Args)]
pub(crate) struct IrOptions {
    #[command(flatten)]
    source: Source,
}

#[derive(Args)]
pub(crate) struct P4infoOptions {
    #[command(flatten)]
    source: Source,
}

pub(crate) fn ir(options: &IrOptions) -> Result<Ended, String> {
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    out::text(&program.to_string());
    Ok(Ended::Well)
}

pub(crate) fn p4info(options: &P4infoOptions) -> Result<Ended, String> {
    let Some(program) = compile::compile(&options.source) else {
        return Ok(Ended::WithErrors);
    };
    match p4info::p4info(&program) {
        Ok(info) => {
            out::text(&p4info::to_text(&info));
            Ok(Ended::Well)
        }
        Err(errors) => {
            errors
                .iter()
                .for_each(|error| out::error(&error.to_string()));
            Ok(Ended::WithErrors)
        }
    }
}
