//! `dead-letters`: maps arguments to calls of the dead-letter commands.
//!
//! Exit codes: 0 done, 1 something failed, 64 the arguments or the settings can't be used.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use millrace_collector::args::{DeadLetterCommand, DeadLetterTopics, Output, WhichDeadLetters};
use millrace_config::{
    CollectorMode, EdgeExporter, GroupId, KafkaConnection, KafkaExporter, KafkaReceiver, TopicName,
    Topics,
};
use millrace_dead_letters::{
    DeadLetterAccess, DeadLetterError, DeadLetterTopic, ListOptions, OutputFormat, PartitionOffset,
    PartitionRange, ResendOptions, Selection, list_dead_letters, parse_since, resend_dead_letters,
    show_dead_letter,
};
use millrace_wire::Signal;

use crate::commands::output;
use crate::commands::run::{EXIT_FAILED, EXIT_SETTINGS, load_settings};

/// The default suffix of a dead-letter topic's name.
const SUFFIX: &str = "_dead_letter";

/// The default consumer group for reading.
const GROUP: &str = "millrace-dead-letters";

/// Why a command ends early.
enum CommandExit {
    /// The error was already reported.
    Reported(ExitCode),
    /// The arguments are invalid.
    Arguments(String),
    /// The command failed.
    Failed(DeadLetterError),
}

impl From<DeadLetterError> for CommandExit {
    fn from(error: DeadLetterError) -> Self {
        Self::Failed(error)
    }
}

/// Runs a command.
pub(crate) fn run(command: DeadLetterCommand) -> ExitCode {
    let done = match command {
        DeadLetterCommand::List { topics, which, limit, output } => {
            run_list(topics, which, limit, output)
        }
        DeadLetterCommand::Show { place, topics, signal, save } => {
            run_show(place, topics, signal, save.as_deref())
        }
        DeadLetterCommand::Resend { places, topics, which, all, to, dry_run, again, limit } => {
            let options = ResendOptions { to, dry_run, again, limit, ..ResendOptions::default() };
            run_resend(places, topics, which, all, options)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandExit::Reported(code)) => code,
        Err(CommandExit::Arguments(message)) => {
            output::print_error(message);
            ExitCode::from(EXIT_SETTINGS)
        }
        // The reader closed the pipe, as `head` does.
        Err(CommandExit::Failed(DeadLetterError::Output(error)))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            ExitCode::SUCCESS
        }
        Err(CommandExit::Failed(error)) => {
            output::print_error(error);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn run_list(
    topics: DeadLetterTopics,
    which: WhichDeadLetters,
    limit: usize,
    output: Output,
) -> Result<(), CommandExit> {
    let selection = build_selection(which, Vec::new())?;
    let access = dead_letter_access(topics, selection.signal)?;
    let format = match output {
        Output::Text => OutputFormat::Text,
        Output::Json => OutputFormat::Json,
    };
    Ok(list_dead_letters(
        &access,
        &ListOptions { selection, limit, format },
        &mut io::stdout().lock(),
    )?)
}

fn run_show(
    position: PartitionOffset,
    topics: DeadLetterTopics,
    signal: Option<Signal>,
    save: Option<&Path>,
) -> Result<(), CommandExit> {
    let access = dead_letter_access(topics, signal)?;
    only_one_topic(&access)?;
    let Some(found) = show_dead_letter(&access, position, &mut io::stdout().lock())? else {
        return Ok(());
    };
    if let Some(path) = save {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(&found.payload)).map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            CommandExit::Failed(DeadLetterError::Output(io::Error::new(error.kind(), message)))
        })?;
    }
    Ok(())
}

fn run_resend(
    ranges: Vec<PartitionRange>,
    topics: DeadLetterTopics,
    which: WhichDeadLetters,
    all: bool,
    options: ResendOptions,
) -> Result<(), CommandExit> {
    let selection = build_selection(which, ranges)?;
    let Selection { ranges, reasons, since_millis, signal } = &selection;
    let chosen =
        !ranges.is_empty() || !reasons.is_empty() || since_millis.is_some() || signal.is_some();
    if chosen == all {
        return Err(CommandExit::Arguments(
            "select dead letters by position (PARTITION:OFFSET), --reason, --since or --signal, or \
             use --all alone"
                .to_owned(),
        ));
    }
    let access = dead_letter_access(topics, *signal)?;
    if !ranges.is_empty() {
        only_one_topic(&access)?;
    }
    let options = ResendOptions { selection, ..options };
    let mut out = io::stdout().lock();
    let done = resend_dead_letters(&access, &options, &mut out)?;
    let written = writeln!(
        out,
        "{}={} sent_before={} elsewhere={} without_bytes={}",
        if options.dry_run { "would_send" } else { "sent" },
        done.sent,
        done.sent_before,
        done.elsewhere,
        done.without_bytes
    );
    Ok(written.map_err(DeadLetterError::Output)?)
}

fn build_selection(
    which: WhichDeadLetters,
    ranges: Vec<PartitionRange>,
) -> Result<Selection, CommandExit> {
    let WhichDeadLetters { reason, since, signal } = which;
    let since_millis = since
        .map(|text| parse_since(&text, Timestamp::now()))
        .transpose()
        .map_err(|error| CommandExit::Arguments(format!("--since: {error}")))?;
    Ok(Selection { ranges, reasons: reason, since_millis, signal })
}

/// Checks for a single topic: offsets mean nothing without one.
fn only_one_topic(access: &DeadLetterAccess) -> Result<(), CommandExit> {
    match access.topics.len() {
        1 => Ok(()),
        _ => Err(CommandExit::Arguments(
            "there are several dead-letter topics: select one with --signal or --topic".to_owned(),
        )),
    }
}

/// Returns the connection and the topics; only those of one signal, if requested.
fn dead_letter_access(
    arguments: DeadLetterTopics,
    signal: Option<Signal>,
) -> Result<DeadLetterAccess, CommandExit> {
    let DeadLetterTopics { config, brokers, topic, group } = arguments;
    let (connection, configured_group, mut topics) = match config {
        Some(path) => match load_settings(&path).map_err(CommandExit::Reported)?.mode {
            CollectorMode::Gateway { kafka, .. } => gateway_topics(*kafka),
            CollectorMode::Edge { exporter: EdgeExporter::Kafka(kafka), .. } => edge_topics(*kafka),
            CollectorMode::Edge { .. } => {
                return Err(CommandExit::Arguments(format!(
                    "{}: this collector has no Kafka, so it has no dead letters",
                    path.display()
                )));
            }
        },
        None => {
            let connection = KafkaConnection { bootstrap_servers: brokers, ..Default::default() };
            (connection, None, Vec::new())
        }
    };
    if topic.is_empty() {
        topics.retain(|topic| signal.is_none_or(|signal| topic.signal == Some(signal)));
    } else {
        let known = topics;
        let find = |name: TopicName| {
            let found = known.iter().find(|topic| topic.name == name).cloned();
            found.unwrap_or_else(|| topic_by_name(name, signal))
        };
        topics = topic.into_iter().map(find).collect();
    }
    let group = match group.or(configured_group) {
        Some(group) => group,
        None => GroupId::new(GROUP).map_err(|error| CommandExit::Arguments(error.to_string()))?,
    };
    Ok(DeadLetterAccess { connection, group, topics })
}

fn gateway_topics(
    kafka: KafkaReceiver,
) -> (KafkaConnection, Option<GroupId>, Vec<DeadLetterTopic>) {
    let dead_letter_topics = kafka.resolved_dead_letter_topics();
    let topics = Signal::ALL.into_iter().filter_map(|signal| {
        let (name, source) =
            (topic_of_signal(&dead_letter_topics, signal)?, topic_of_signal(&kafka.topics, signal));
        Some(DeadLetterTopic { name, signal: Some(signal), source })
    });
    let topics = topics.collect();
    (kafka.connection, Some(kafka.group_id), topics)
}

fn edge_topics(kafka: KafkaExporter) -> (KafkaConnection, Option<GroupId>, Vec<DeadLetterTopic>) {
    let topics = Signal::ALL.into_iter().filter_map(|signal| {
        let source = topic_of_signal(&kafka.topics, signal)?;
        let name = TopicName::new(format!("{source}{SUFFIX}")).ok()?;
        Some(DeadLetterTopic { name, signal: Some(signal), source: Some(source) })
    });
    let topics = topics.collect();
    (kafka.connection, None, topics)
}

/// Returns a topic that no settings name: its own name shows where its dead letters come from.
fn topic_by_name(name: TopicName, signal: Option<Signal>) -> DeadLetterTopic {
    let source = name.as_str().strip_suffix(SUFFIX);
    let source = source.and_then(|source| TopicName::new(source).ok());
    DeadLetterTopic { name, signal, source }
}

fn topic_of_signal(topics: &Topics, signal: Signal) -> Option<TopicName> {
    match signal {
        Signal::Traces => topics.traces.clone(),
        Signal::Logs => topics.logs.clone(),
        Signal::Metrics => topics.metrics.clone(),
    }
}
