//! `memtint completions` and `memtint manual`: what follows from the definitions of the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::command_line::command;
use crate::output::{Ending, Failure, print, write_file};

/// Arguments of `memtint completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: memtint completions bash >/usr/share/bash-completion/completions/memtint")]
pub(crate) struct CompletionsArguments {
    /// Shell to complete in.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Ending {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "memtint", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `memtint manual`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes memtint.1 and a page for each verb, as memtint-run.1; with --markdown, memtint-run.md and the like.\n\n\
                        Example: memtint manual /usr/local/share/man/man1"
)]
pub(crate) struct ManualArguments {
    /// Folder for the pages; it must exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write Markdown in place of man pages.
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn main(arguments: &ManualArguments) -> Ending {
    let command = command();
    if arguments.markdown {
        write_markdown(command, &arguments.folder)?;
    } else {
        let failed = |cause: io::Error| Failure::File { path: arguments.folder.clone(), done: "written", cause };
        clap_mangen::generate_to(command, &arguments.folder).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each verb, its verbs of the second level included.
fn write_markdown(mut command: Command, folder: &Path) -> Result<(), Failure> {
    command.build();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let title = format!("memtint {}", verb.get_name());
        let options = clap_markdown::MarkdownOptions::new().title(title.clone());
        let page = clap_markdown::help_markdown_command_custom(
            verb,
            &options.show_footer(false).show_table_of_contents(false),
        );
        // A sentence about the document itself.
        let about = format!(
            "This document contains the help content for the `memtint-{}` command-line program.\n\n",
            verb.get_name()
        );
        let page = page.replacen(&about, "", 1);
        write_file(&folder.join(format!("{}.md", title.replace(' ', "-"))), &page)?;
    }
    Ok(())
}
