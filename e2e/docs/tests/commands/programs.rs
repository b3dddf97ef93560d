//! Command lines of our own programs, read by the programs' own definitions.

use clap::Parser;
use clap::error::ErrorKind;
use millrace_collector::args::Args;
use millrace_plugin::args::{Cli, Command};

use crate::commands::Extent;

// A program beside a library that the products link, which has no use for it.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../collector/ddl/src/bin/clickhouse-ddl/args/mod.rs"]
mod ddl;

/// `words` begins with `millrace`. What goes through to the collector's tool is judged by that.
pub(crate) fn plugin(words: &[String], extent: Extent) -> Vec<String> {
    let parsed = Cli::try_parse_from(words);
    if let Ok(Cli { command: Command::DeadLetters(letters), .. }) = &parsed {
        let (word, args) = letters.tool_command();
        let tool = ["millrace-collector", "dead-letters", word, "--config", "FILE"];
        return collector(&[&tool.map(str::to_owned)[..], &args.rest].concat(), extent);
    }
    said(parsed, extent)
}

pub(crate) fn collector(words: &[String], extent: Extent) -> Vec<String> {
    said(Args::try_parse_from(words), extent)
}

pub(crate) fn ddl(words: &[String], extent: Extent) -> Vec<String> {
    said(ddl::Cli::try_parse_from(words), extent)
}

fn said<T>(parsed: Result<T, clap::Error>, extent: Extent) -> Vec<String> {
    let Err(error) = parsed else { return Vec::new() };
    let missing = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    let help = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
    let fine =
        help.contains(&error.kind()) || extent == Extent::Part && missing.contains(&error.kind());
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    if fine { Vec::new() } else { vec![lines.join(" ")] }
}
