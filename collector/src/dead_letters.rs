//! `dead-letters`: turns arguments into calls of the dead-letter commands.
//!
//! Exit codes: 0 done, 1 something failed, 64 the arguments or the settings can't be used.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use millrace_collector::args::{DeadLetterTopics, DeadLetters, Output, WhichDeadLetters};
use millrace_config::{
    GroupId, KafkaConnection, KafkaExporter, KafkaReceiver, Mode, TopicName, Topics,
};
use millrace_dead_letters::{
    DeadLetterError, DeadLetterTopic, Desk, Format, ListOptions, Place, Places, ResendOptions,
    Selection, list, parse_since, resend, show,
};
use millrace_wire::Signal;

use crate::output;
use crate::run::{EXIT_FAILED, EXIT_SETTINGS, load};

/// What a dead-letter topic's name ends with, unless the settings say otherwise.
const SUFFIX: &str = "_dead_letter";

/// The group to read as when nothing names one.
const GROUP: &str = "millrace-dead-letters";

/// Why a command ends early.
enum Stop {
    /// Already said.
    Said(ExitCode),
    /// The arguments.
    Arguments(String),
    /// The work.
    Failed(DeadLetterError),
}

impl From<DeadLetterError> for Stop {
    fn from(error: DeadLetterError) -> Self {
        Self::Failed(error)
    }
}

/// Carries a command out.
pub(crate) fn run(command: DeadLetters) -> ExitCode {
    let done = match command {
        DeadLetters::List { topics, which, limit, output } => {
            run_list(topics, which, limit, output)
        }
        DeadLetters::Show { place, topics, signal, save } => {
            run_show(place, topics, signal, save.as_deref())
        }
        DeadLetters::Resend { places, topics, which, all, to, dry_run, again, limit } => {
            let options = ResendOptions { to, dry_run, again, limit, ..ResendOptions::default() };
            run_resend(places, topics, which, all, options)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Said(code)) => code,
        Err(Stop::Arguments(message)) => {
            output::complaint(message);
            ExitCode::from(EXIT_SETTINGS)
        }
        // Whoever reads has read enough, as `head` does.
        Err(Stop::Failed(DeadLetterError::Output(error)))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            ExitCode::SUCCESS
        }
        Err(Stop::Failed(error)) => {
            output::complaint(error);
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn run_list(
    topics: DeadLetterTopics,
    which: WhichDeadLetters,
    limit: usize,
    output: Output,
) -> Result<(), Stop> {
    let selection = selection(which, Vec::new())?;
    let desk = desk(topics, selection.signal)?;
    let format = match output {
        Output::Text => Format::Text,
        Output::Json => Format::Json,
    };
    Ok(list(&desk, &ListOptions { selection, limit, format }, &mut io::stdout().lock())?)
}

fn run_show(
    place: Place,
    topics: DeadLetterTopics,
    signal: Option<Signal>,
    save: Option<&Path>,
) -> Result<(), Stop> {
    let desk = desk(topics, signal)?;
    only_one_topic(&desk)?;
    let Some(found) = show(&desk, place, &mut io::stdout().lock())? else { return Ok(()) };
    if let Some(path) = save {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(&found.payload)).map_err(|error| {
            let message = format!("{} cannot be written: {error}", path.display());
            Stop::Failed(DeadLetterError::Output(io::Error::new(error.kind(), message)))
        })?;
    }
    Ok(())
}

fn run_resend(
    places: Vec<Places>,
    topics: DeadLetterTopics,
    which: WhichDeadLetters,
    all: bool,
    options: ResendOptions,
) -> Result<(), Stop> {
    let selection = selection(which, places)?;
    let Selection { places, reasons, since_millis, signal } = &selection;
    let chosen =
        !places.is_empty() || !reasons.is_empty() || since_millis.is_some() || signal.is_some();
    if chosen == all {
        return Err(Stop::Arguments(
            "say which letters: places as PARTITION:OFFSET, --reason, --since or --signal; or --all"
                .to_owned(),
        ));
    }
    let desk = desk(topics, *signal)?;
    if !places.is_empty() {
        only_one_topic(&desk)?;
    }
    let options = ResendOptions { selection, ..options };
    let mut out = io::stdout().lock();
    let done = resend(&desk, &options, &mut out)?;
    let said = writeln!(
        out,
        "{}={} sent_before={} elsewhere={}",
        if options.dry_run { "would_send" } else { "sent" },
        done.sent,
        done.sent_before,
        done.elsewhere
    );
    Ok(said.map_err(DeadLetterError::Output)?)
}

fn selection(which: WhichDeadLetters, places: Vec<Places>) -> Result<Selection, Stop> {
    let WhichDeadLetters { reason, since, signal } = which;
    let since_millis = since
        .map(|text| parse_since(&text, Timestamp::now()))
        .transpose()
        .map_err(|error| Stop::Arguments(format!("--since: {error}")))?;
    Ok(Selection { places, reasons: reason, since_millis, signal })
}

/// Offsets mean nothing without a topic.
fn only_one_topic(desk: &Desk) -> Result<(), Stop> {
    match desk.topics.len() {
        1 => Ok(()),
        _ => Err(Stop::Arguments(
            "there are several dead-letter topics: say which by --signal or --topic".to_owned(),
        )),
    }
}

/// The connection and the topics; those of one signal only, if that is asked for.
fn desk(arguments: DeadLetterTopics, signal: Option<Signal>) -> Result<Desk, Stop> {
    let DeadLetterTopics { config, brokers, topic, group } = arguments;
    let (connection, configured_group, mut topics) = match config {
        Some(path) => match load(&path).map_err(Stop::Said)?.mode {
            Mode::Gateway { kafka, .. } => of_gateway(*kafka),
            Mode::Edge { kafka, .. } => of_edge(*kafka),
            Mode::Direct { .. } => {
                return Err(Stop::Arguments(format!(
                    "{}: this collector has no Kafka, so no dead letters",
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
            found.unwrap_or_else(|| by_name(name, signal))
        };
        topics = topic.into_iter().map(find).collect();
    }
    let group = match group.or(configured_group) {
        Some(group) => group,
        None => GroupId::new(GROUP).map_err(|error| Stop::Arguments(error.to_string()))?,
    };
    Ok(Desk { connection, group, topics })
}

fn of_gateway(kafka: KafkaReceiver) -> (KafkaConnection, Option<GroupId>, Vec<DeadLetterTopic>) {
    let letters = kafka.resolved_dead_letter_topics();
    let topics = Signal::ALL.into_iter().filter_map(|signal| {
        let (name, source) = (of(&letters, signal)?, of(&kafka.topics, signal));
        Some(DeadLetterTopic { name, signal: Some(signal), source })
    });
    let topics = topics.collect();
    (kafka.connection, Some(kafka.group_id), topics)
}

fn of_edge(kafka: KafkaExporter) -> (KafkaConnection, Option<GroupId>, Vec<DeadLetterTopic>) {
    let topics = Signal::ALL.into_iter().filter_map(|signal| {
        let source = of(&kafka.topics, signal)?;
        let name = TopicName::new(format!("{source}{SUFFIX}")).ok()?;
        Some(DeadLetterTopic { name, signal: Some(signal), source: Some(source) })
    });
    let topics = topics.collect();
    (kafka.connection, None, topics)
}

/// A topic that no settings name: its name says where its letters come from.
fn by_name(name: TopicName, signal: Option<Signal>) -> DeadLetterTopic {
    let source = name.as_str().strip_suffix(SUFFIX);
    let source = source.and_then(|source| TopicName::new(source).ok());
    DeadLetterTopic { name, signal, source }
}

fn of(topics: &Topics, signal: Signal) -> Option<TopicName> {
    match signal {
        Signal::Traces => topics.traces.clone(),
        Signal::Logs => topics.logs.clone(),
        Signal::Metrics => topics.metrics.clone(),
    }
}
