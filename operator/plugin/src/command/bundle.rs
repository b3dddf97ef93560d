//! `bundle`: a tar file for support. Secrets are never read; everything else is masked on its way
//! in (`report::mask`), so that nothing is added without it.
//!
//! Limits: those of `gather`; 1,000 events; 10,000 lines of a log.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::watch::facts;
use super::{Answer, Session};
use crate::args::Bundle;
use crate::error::{Error, chain};
use crate::facts::{Facts, Gap};
use crate::gather::{Depth, Logs, Raw, raw};
use crate::render::{self, Palette};
use crate::report::{self, mask};

/// Events kept: the newest of a busy namespace.
const EVENTS_MAX: usize = 1_000;
/// Only its owner reads it.
const MODE: u32 = 0o600;

const ABOUT: &str = "\
A bundle of `kubectl millrace bundle`.

status.txt, status.json   the screen of `kubectl millrace status`, at the time of the bundle
why.json, lag.json        the sizing decision; the lag by partition
objects/                  the pipeline and all that belongs to it, one file each
events.json               events about them
metrics/, logs/           each pod's metrics and the tail of its log; the operator's log
gaps.txt                  what could not be read, and why

Left out or masked: Secrets are never read. Values of environment variables, fields whose name says
that they are credentials, users and passwords in URLs, tokens, private keys, and what follows a
word such as password= in any text are (masked). A credential that no word announces can't be known:
look through logs/ before you give this away.
";

/// Files of a bundle, masked as they are added.
#[derive(Default)]
struct Files {
    files: Vec<(String, Vec<u8>)>,
}

impl Files {
    fn text(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), mask::text(text).into_bytes()));
    }

    fn json(&mut self, name: &str, mut value: Value) {
        mask::object(&mut value);
        self.files.push((name.to_owned(), format!("{value:#}\n").into_bytes()));
    }
}

/// Runs it.
pub(super) async fn run(session: &Session, args: &Bundle) -> Result<Answer, Error> {
    let mut facts = facts(session, &args.named, Depth::Metrics).await?;
    let path = args.file.clone().unwrap_or_else(|| {
        PathBuf::from(format!("millrace-{}-{}.tar", facts.namespace(), facts.name()))
    });
    // The file first: nobody waits for a bundle that can't be written.
    let mut file = create(&path)?;
    let mut files = Files::default();
    files.files.push(("README.txt".to_owned(), ABOUT.as_bytes().to_vec()));
    let mut gaps = std::mem::take(&mut facts.gaps);
    objects(session, &facts, &mut files, &mut gaps).await;
    pods(session, &facts, args, &mut files, &mut gaps).await;
    gaps.sort();
    gaps.dedup();
    facts.gaps = gaps;
    reports(&facts, &mut files);
    let at = u64::try_from(facts.at_second).unwrap_or_default();
    let bytes = tar(&files, at).map_err(|error| failed(&path, &error))?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(|error| failed(&path, &error))?;
    let names: Vec<&String> = files.files.iter().map(|(name, _)| name).collect();
    let shown = path.display().to_string();
    let text = format!(
        "{shown}: {} files, {}; {} things could not be read (gaps.txt)\nno Secret was read, and \
         what looks like a credential is masked; look through logs/ before you give it away\n",
        names.len(),
        render::bytes(bytes.len() as u64),
        facts.gaps.len()
    );
    Answer::of(text, &json!({"file": shown, "files": names, "gaps": facts.gaps}))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), cause: error.to_string() }
}

fn create(path: &Path) -> Result<std::fs::File, Error> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::File {
            path: path.display().to_string(),
            cause: "it exists and is not overwritten: name another with --file".to_owned(),
        },
        _ => failed(path, &error),
    })
}

async fn objects(session: &Session, facts: &Facts, files: &mut Files, gaps: &mut Vec<Gap>) {
    let mut all: Vec<Raw> = raw(&facts.pipeline).into_iter().collect();
    all.extend(facts.topics.iter().filter_map(raw));
    all.extend(facts.schemas.iter().filter_map(raw));
    all.extend(facts.edges.iter().filter_map(raw));
    all.extend(facts.gateways.iter().filter_map(raw));
    let mut events = Vec::new();
    for one in session.cluster.raw(facts, gaps).await {
        match &*one.kind {
            "event" => events.push(one.value),
            _ => all.push(one),
        }
    }
    for one in all {
        files.json(&format!("objects/{}-{}.json", one.kind, one.name), one.value);
    }
    let time = |event: &Value| {
        let times = [&event["lastTimestamp"], &event["eventTime"], &event["firstTimestamp"]];
        times.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
    };
    events.sort_by_key(|event| std::cmp::Reverse(time(event)));
    events.truncate(EVENTS_MAX);
    files.json("events.json", Value::Array(events));
}

async fn pods(
    session: &Session,
    facts: &Facts,
    args: &Bundle,
    files: &mut Files,
    gaps: &mut Vec<Gap>,
) {
    let cluster = &session.cluster;
    let namespace = facts.namespace();
    for pod in &facts.pods {
        // Without an answer above there is none here.
        if pod.now.is_some() {
            let read = cluster.metrics(namespace, &pod.name).await;
            keep(files, gaps, &format!("metrics/{}.txt", pod.name), read);
        }
        if args.lines == 0 {
            continue;
        }
        let part = Logs { lines: args.lines, previous: false, since_seconds: None };
        let read = cluster.log(namespace, &pod.name, part).await;
        keep(files, gaps, &format!("logs/{}.txt", pod.name), read);
        if pod.restarts > 0 {
            let read = cluster.log(namespace, &pod.name, Logs { previous: true, ..part }).await;
            keep(files, gaps, &format!("logs/{}-previous.txt", pod.name), read);
        }
    }
    if args.lines > 0 {
        let place = &args.operator_namespace;
        for pod in cluster.operator_pods(place, gaps).await {
            let part = Logs { lines: args.lines, previous: false, since_seconds: None };
            let read = cluster.operator_log(place, &pod, part).await;
            keep(files, gaps, &format!("logs/operator-{pod}.txt"), read);
        }
    }
}

fn keep(files: &mut Files, gaps: &mut Vec<Gap>, name: &str, read: Result<String, Error>) {
    match read {
        Ok(text) => files.text(name, &text),
        Err(error) => gaps.push(Gap { what: name.to_owned(), why: chain(&error) }),
    }
}

fn reports(facts: &Facts, files: &mut Files) {
    let status = report::status(facts);
    files.text("status.txt", &render::status(&status, Palette::PLAIN));
    files.json("status.json", serde_json::to_value(&status).unwrap_or_default());
    files.json("why.json", serde_json::to_value(report::sizing(facts)).unwrap_or_default());
    files.json("lag.json", serde_json::to_value(report::lag(facts)).unwrap_or_default());
    let lines = facts.gaps.iter().map(|gap| format!("{}: {}\n", gap.what, gap.why));
    files.text("gaps.txt", &lines.collect::<String>());
}

fn tar(files: &Files, at: u64) -> std::io::Result<Vec<u8>> {
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
