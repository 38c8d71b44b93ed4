//! `cavy man`.

use crate::args::Args;
use crate::faults::Fault;
use crate::{Outcome, terminal};
use clap::CommandFactory as _;

/// Prints the manual page: the command, then each of its commands.
pub fn man() -> Result<Outcome, Fault> {
    let wrong = |error| Fault::new(format!("cannot make the manual page: {error}"));
    let mut command = Args::command();
    command.build();
    let mut bytes = Vec::new();
    let page = clap_mangen::Man::new(command.clone());
    page.render(&mut bytes).map_err(wrong)?;
    let mut pages: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    while !pages.is_empty() {
        let page = pages.remove(0);
        if page.get_name() == "help" {
            continue;
        }
        pages.splice(0..0, page.get_subcommands().cloned());
        let title = format!(".SH \"{}\"\n", page.get_bin_name().unwrap_or("cavy").to_uppercase());
        bytes.extend_from_slice(title.as_bytes());
        let man = clap_mangen::Man::new(page);
        man.render_description_section(&mut bytes).map_err(wrong)?;
        man.render_options_section(&mut bytes).map_err(wrong)?;
    }
    terminal::print(&String::from_utf8_lossy(&bytes))?;
    Ok(Outcome::Success)
}
