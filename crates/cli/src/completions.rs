//! `polyplane completions`: writes the completion script of a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, Ended, out};

#[derive(Args)]
#[command(
    after_help = "bash:  polyplane completions bash > ~/.local/share/bash-completion/completions/polyplane\n\
                  zsh:   polyplane completions zsh > ~/.zfunc/_polyplane    (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)\n\
                  fish:  polyplane completions fish > ~/.config/fish/completions/polyplane.fish"
)]
pub(crate) struct Options {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "polyplane", &mut script);
    out::text(&String::from_utf8_lossy(&script));
    Ok(Ended::Well)
}
