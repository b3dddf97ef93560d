//! `bundle`: a tar file for support. Secrets are never read; everything else is masked when it is
//! added (`report::mask`), so that nothing bypasses the masks.
//!
//! Limits: those of `gather`; 1,000 events; 10,000 lines of a log.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::watch::read_facts;
use super::{CommandOutput, CommandSession};
use crate::args::Bundle;
use crate::error::{Error, error_chain};
use crate::facts::{Facts, Gap};
use crate::gather::{Depth, Logs, Raw, to_raw};
use crate::render::{self, Palette, format_plural};
use crate::report::{self, mask};

/// Maximum events: the newest of a busy namespace.
const EVENTS_MAX: usize = 1_000;
/// Only the owner may read the file.
const MODE: u32 = 0o600;

const ABOUT: &str = "\
A bundle of `kubectl millrace bundle`.

status.txt, status.json   the screen of `kubectl millrace status`, at the time of the bundle
why.json, lag.json        the sizing decision; the lag by partition
objects/                  the pipeline and its objects, one file each
events.json               events about them
metrics/, logs/           each pod's metrics and the tail of its log; the operator's log
gaps.txt                  what could not be read, and why

Omitted or masked: Secrets are never read. Values of environment variables, fields whose name says
that they are credentials, users and passwords in URLs, tokens, private keys, and what follows a
word such as password= in any text are (masked). A credential that no word announces can't be known:
check logs/ before you share this.
";

/// Files of a bundle; each is masked when it is added.
#[derive(Default)]
struct BundleFiles {
    files: Vec<(String, Vec<u8>)>,
}

impl BundleFiles {
    fn add_text(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), mask::mask_text(text).into_bytes()));
    }

    fn add_json(&mut self, name: &str, mut value: Value) {
        mask::mask_object(&mut value);
        self.files.push((name.to_owned(), format!("{value:#}\n").into_bytes()));
    }
}

/// Runs the command.
pub(super) async fn run(session: &CommandSession, args: &Bundle) -> Result<CommandOutput, Error> {
    let mut facts = read_facts(session, &args.named, Depth::Metrics).await?;
    let path = args.file.clone().unwrap_or_else(|| {
        PathBuf::from(format!("millrace-{}-{}.tar", facts.namespace(), facts.name()))
    });
    // Creates the file first, so that nobody waits for a bundle that can't be written.
    let mut file = create_file(&path)?;
    let mut files = BundleFiles::default();
    files.files.push(("README.txt".to_owned(), ABOUT.as_bytes().to_vec()));
    let mut gaps = std::mem::take(&mut facts.gaps);
    add_objects(session, &facts, &mut files, &mut gaps).await;
    add_pods(session, &facts, args, &mut files, &mut gaps).await;
    gaps.sort();
    gaps.dedup();
    facts.gaps = gaps;
    add_reports(&facts, &mut files);
    let at = u64::try_from(facts.at_second).unwrap_or_default();
    let bytes = build_tar(&files, at).map_err(|error| file_error(&path, &error))?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .map_err(|error| file_error(&path, &error))?;
    let names: Vec<&String> = files.files.iter().map(|(name, _)| name).collect();
    let shown = path.display().to_string();
    let text = format!(
        "{shown}: {}, {}; {} could not be read (gaps.txt)\nno Secret was read, and what resembles a \
         credential is masked; check logs/ before you share it\n",
        format_plural(names.len() as u64, "file"),
        render::format_bytes(bytes.len() as u64),
        format_plural(facts.gaps.len() as u64, "part")
    );
    CommandOutput::from_report(text, &json!({"file": shown, "files": names, "gaps": facts.gaps}))
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), cause: error.to_string() }
}

fn create_file(path: &Path) -> Result<std::fs::File, Error> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::File {
            path: path.display().to_string(),
            cause: "the file exists and is not overwritten: name another with --file".to_owned(),
        },
        _ => file_error(path, &error),
    })
}

async fn add_objects(
    session: &CommandSession,
    facts: &Facts,
    files: &mut BundleFiles,
    gaps: &mut Vec<Gap>,
) {
    let mut all: Vec<Raw> = to_raw(&facts.pipeline).into_iter().collect();
    all.extend(facts.topics.iter().filter_map(to_raw));
    all.extend(facts.schemas.iter().filter_map(to_raw));
    all.extend(facts.edges.iter().filter_map(to_raw));
    all.extend(facts.gateways.iter().filter_map(to_raw));
    let mut events = Vec::new();
    for one in session.cluster.raw_objects(facts, gaps).await {
        match &*one.kind {
            "event" => events.push(one.value),
            _ => all.push(one),
        }
    }
    for one in all {
        files.add_json(&format!("objects/{}-{}.json", one.kind, one.name), one.value);
    }
    let time = |event: &Value| {
        let times = [&event["lastTimestamp"], &event["eventTime"], &event["firstTimestamp"]];
        times.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
    };
    events.sort_by_key(|event| std::cmp::Reverse(time(event)));
    events.truncate(EVENTS_MAX);
    files.add_json("events.json", Value::Array(events));
}

async fn add_pods(
    session: &CommandSession,
    facts: &Facts,
    args: &Bundle,
    files: &mut BundleFiles,
    gaps: &mut Vec<Gap>,
) {
    let cluster = &session.cluster;
    let namespace = facts.namespace();
    for pod in &facts.pods {
        // A pod that did not answer above does not answer here.
        if pod.now.is_some() {
            let read = cluster.read_pod_metrics(namespace, &pod.name).await;
            add_or_gap(files, gaps, &format!("metrics/{}.txt", pod.name), read);
        }
        if args.lines == 0 {
            continue;
        }
        let part = Logs { lines: args.lines, previous: false, since_seconds: None };
        let read = cluster.read_log(namespace, &pod.name, part).await;
        add_or_gap(files, gaps, &format!("logs/{}.txt", pod.name), read);
        if pod.restarts > 0 {
            let read =
                cluster.read_log(namespace, &pod.name, Logs { previous: true, ..part }).await;
            add_or_gap(files, gaps, &format!("logs/{}-previous.txt", pod.name), read);
        }
    }
    if args.lines > 0 {
        let operator_namespace = &args.operator_namespace;
        for pod in cluster.operator_pods(operator_namespace, gaps).await {
            let part = Logs { lines: args.lines, previous: false, since_seconds: None };
            let read = cluster.operator_log(operator_namespace, &pod, part).await;
            add_or_gap(files, gaps, &format!("logs/operator-{pod}.txt"), read);
        }
    }
}

fn add_or_gap(
    files: &mut BundleFiles,
    gaps: &mut Vec<Gap>,
    name: &str,
    read: Result<String, Error>,
) {
    match read {
        Ok(text) => files.add_text(name, &text),
        Err(error) => gaps.push(Gap { what: name.to_owned(), why: error_chain(&error) }),
    }
}

fn add_reports(facts: &Facts, files: &mut BundleFiles) {
    let status = report::status_report(facts);
    files.add_text("status.txt", &render::render_status(&status, Palette::PLAIN));
    files.add_json("status.json", serde_json::to_value(&status).unwrap_or_default());
    files.add_json(
        "why.json",
        serde_json::to_value(report::sizing_report(facts)).unwrap_or_default(),
    );
    files.add_json("lag.json", serde_json::to_value(report::lag_report(facts)).unwrap_or_default());
    let lines = facts.gaps.iter().map(|gap| format!("{}: {}\n", gap.what, gap.why));
    files.add_text("gaps.txt", &lines.collect::<String>());
}

fn build_tar(files: &BundleFiles, at: u64) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in &files.files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(MODE);
        header.set_mtime(at);
        archive.append_data(&mut header, format!("millrace/{name}"), &**bytes)?;
    }
    archive.into_inner()
}
