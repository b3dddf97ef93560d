//! `rules test`: runs the rules of a settings file on sample records, and prints what they do.
//!
//! Exit codes: 0 done, 1 the records can't be read, 64 the settings can't be used.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use millrace_collector::args::{Output, RulesCommand};
use millrace_processing::explain;

use crate::commands::output;
use crate::commands::run::{EXIT_FAILED, EXIT_SETTINGS, load_settings};

/// Runs a command.
pub(crate) fn run(command: RulesCommand) -> ExitCode {
    let RulesCommand::Test { config, records, output } = command;
    test(&config, &records, output)
}

fn test(config: &Path, records: &Path, format: Output) -> ExitCode {
    let checked = match load_settings(config) {
        Ok(checked) => checked,
        Err(code) => return code,
    };
    let text = match fs::read_to_string(records) {
        Ok(text) => text,
        Err(error) => {
            output::print_error(format_args!("{}: cannot be read: {error}", records.display()));
            return ExitCode::from(EXIT_FAILED);
        }
    };
    match explain::trace_records(&checked.processing, &text) {
        Ok(traces) => {
            output::print_output(match format {
                Output::Text => explain::render_text(&traces),
                Output::Json => explain::render_json(&traces),
            });
            ExitCode::SUCCESS
        }
        Err(explain::TraceError::Rules(errors)) => {
            output::print_error(format_args!("{}: {errors}", config.display()));
            ExitCode::from(EXIT_SETTINGS)
        }
        Err(error) => {
            output::print_error(format_args!("{}: {error}", records.display()));
            ExitCode::from(EXIT_FAILED)
        }
    }
}
