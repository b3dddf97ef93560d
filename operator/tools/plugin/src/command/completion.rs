//! Completion scripts, the manual page, and completion candidates. Needs no cluster except for
//! names of pipelines.
//!
//! kubectl completes a plugin's words by the program `kubectl_complete-NAME`: it gets the words so
//! far, prints one candidate per line, and last a colon and a number, 4 for "no file names".

use clap::{Arg, Command as Clap, CommandFactory};
use serde_json::json;

use super::CommandOutput;
use crate::args::{Cli, Shell};
use crate::error::Error;

/// The script that kubectl runs.
const FOR_KUBECTL: &str = "#!/bin/sh\n\
    # Save as kubectl_complete-millrace on the PATH and make it executable.\n\
    exec kubectl-millrace __complete -- \"$@\"\n";
/// Completes no file names.
const NO_FILES: &str = ":4\n";
/// Completes file names too.
const FILES: &str = ":0\n";

/// Returns a completion script.
pub(super) fn completion_script(shell: Shell) -> Result<CommandOutput, Error> {
    let script = |shell: clap_complete::Shell| {
        let mut script = Vec::new();
        let mut command = Cli::command().bin_name("kubectl-millrace");
        clap_complete::generate(shell, &mut command, "kubectl-millrace", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    };
    let text = match shell {
        Shell::Kubectl => FOR_KUBECTL.to_owned(),
        Shell::Bash => script(clap_complete::Shell::Bash),
        Shell::Zsh => script(clap_complete::Shell::Zsh),
        Shell::Fish => script(clap_complete::Shell::Fish),
    };
    CommandOutput::from_report(text.clone(), &json!({ "script": text }))
}

/// Returns the manual page: the tool, then each command.
pub(super) fn man_page() -> Result<CommandOutput, Error> {
    let failed = |error: std::io::Error| Error::Impossible(format!("no manual page: {error}"));
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(failed)?;
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        // Only a command's own sections: one page has one title.
        let man = clap_mangen::Man::new(below.clone());
        page.extend(format!(".SH \"{}\"\n", below.get_name().to_uppercase()).bytes());
        man.render_description_section(&mut page).map_err(failed)?;
        man.render_options_section(&mut page).map_err(failed)?;
    }
    let text = String::from_utf8_lossy(&page).into_owned();
    CommandOutput::from_report(text.clone(), &json!({ "page": text }))
}

/// The completion candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateChange {
    /// Words, each with its meaning.
    pub words: Vec<(String, String)>,
    /// Whether a pipeline's name is possible.
    pub pipelines: bool,
    /// Whether a file's name is possible.
    pub files: bool,
}

/// Returns the candidates; the last of `words` is the incomplete one.
#[must_use]
pub fn next_words(words: &[String]) -> TemplateChange {
    let mut command = Cli::command();
    command.build();
    let (begun, done) = match words.split_last() {
        Some((begun, done)) => (begun.as_str(), done),
        None => ("", words),
    };
    let mut here = &command;
    let mut waiting: Option<&Arg> = None;
    let mut positionals = 0_usize;
    for word in done {
        if waiting.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            waiting = find_option(here, word).filter(|arg| arg.get_action().takes_values());
        } else if let Some(below) = here.find_subcommand(word) {
            (here, positionals) = (below, 0);
        } else {
            positionals += 1;
        }
    }
    let mut found = TemplateChange::default();
    match waiting {
        Some(arg) => add_values(arg, &mut found),
        None if begun.starts_with('-') => add_options(here, &mut found),
        None => {
            let shown = |one: &&Clap| !one.is_hide_set() && one.get_name() != "help";
            for below in here.get_subcommands().filter(shown) {
                let about = below.get_about().map(ToString::to_string).unwrap_or_default();
                found.words.push((below.get_name().to_owned(), about));
            }
            let mut args = here.get_positionals().skip(positionals);
            if let Some(arg) = args.next() {
                add_values(arg, &mut found);
            }
        }
    }
    found.words.retain(|(word, _)| word.starts_with(begun));
    found
}

fn find_option<'a>(command: &'a Clap, word: &str) -> Option<&'a Arg> {
    let mut args = command.get_arguments();
    match word.strip_prefix("--") {
        Some(long) => args.find(|arg| arg.get_long() == Some(long)),
        None => args.find(|arg| arg.get_short() == word.chars().nth(1)),
    }
}

fn add_options(command: &Clap, found: &mut TemplateChange) {
    for arg in command.get_arguments() {
        if let Some(long) = arg.get_long() {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            found.words.push((format!("--{long}"), help));
        }
    }
}

fn add_values(arg: &Arg, found: &mut TemplateChange) {
    for value in arg.get_possible_values() {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        found.words.push((value.get_name().to_owned(), help));
    }
    found.pipelines |= arg.get_id() == "pipeline";
    found.files |= matches!(arg.get_id().as_str(), "filename" | "file" | "kubeconfig" | "kubectl");
}

/// Returns the lines that kubectl reads.
#[must_use]
pub fn completion_lines(next: &TemplateChange, pipelines: &[String]) -> String {
    let mut text = String::new();
    for (word, help) in &next.words {
        let help = help.lines().next().unwrap_or_default();
        text.push_str(&format!("{word}\t{help}\n"));
    }
    for name in pipelines {
        text.push_str(&format!("{name}\ta TelemetryPipeline\n"));
    }
    text.push_str(if next.files { FILES } else { NO_FILES });
    text
}
