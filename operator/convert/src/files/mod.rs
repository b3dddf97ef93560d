//! The file log receiver: files of containers become `receivers.containers`, others
//! `receivers.files`, in a pool with a pod on each node. Fields as of contrib's `fileconsumer`,
//! 0.12x to 0.15x.

mod field;
mod layout;
mod operators;
mod paths;

use millrace_crds::v1alpha1::{
    ContainersReceiver, EdgeMode, Encoding, FilesReceiver, Multiline, StartAt,
};

use crate::account::{Fate, Fields};
use crate::draft::{NODES, pool_path};
use crate::tree::Node;
use crate::words;
use crate::work::Work;
use operators::Plan;
use paths::{Files, Pods};

/// Most entries of `receivers.files`, and patterns of one.
const FILES_MAX: usize = 16;
const PATTERNS_MAX: usize = 16;
/// Longest pattern.
const PATTERN_BYTES_MAX: usize = 255;
/// Longest pattern of a record's first line, in bytes.
const START_BYTES_MAX: usize = 512;
/// Most namespaces of a list.
const NAMESPACES_MAX: usize = 64;

/// What is written below /var/log of a node is all that a pool may read.
const BELOW: &str = "/var/log/";

const LIMITS: &str = "the reader has settings of its own";

const OWN: [(&str, &str); 17] = [
    ("poll_interval", "directories are watched"),
    ("fingerprint_size", "a file is known by its first 1,024 bytes"),
    ("initial_buffer_size", LIMITS),
    ("max_concurrent_files", "files are read side by side, in turns"),
    ("max_batches", "files are read side by side, in turns"),
    ("force_flush_period", "a record of several lines is complete after a second"),
    ("polls_to_archive", "positions are kept on the node"),
    ("storage", "positions are kept on the node"),
    ("retry_on_failure", "reading stops until Kafka takes records again"),
    ("include_file_name", "log.file.name is written, of containers what their path says"),
    ("include_file_path", "log.file.path is written, of containers what their path says"),
    ("preserve_leading_whitespaces", "white space stays"),
    ("preserve_trailing_whitespaces", "white space stays"),
    ("file_cache_advise", LIMITS),
    ("acquire_fs_lock", "files are read without a lock"),
    ("on_truncate", "a truncated file is read from its beginning"),
    ("max_log_size_behavior", "a longer line is cut, marked and counted"),
];

/// Fields that ask for nothing when they are false.
const FLAGS: [&str; 8] = [
    "delete_after_read",
    "include_file_name_resolved",
    "include_file_path_resolved",
    "include_file_owner_name",
    "include_file_owner_group_name",
    "include_file_permissions",
    "include_file_record_number",
    "include_file_record_offset",
];

/// Converts it.
pub(crate) fn receiver(work: &mut Work, node: &Node<'_>, id: &str) -> bool {
    let includes = node.get("include");
    let texts = includes.as_ref().map(Node::texts).unwrap_or_default();
    let reads_pods = texts.iter().any(|text| paths::is_of_pods(text));
    let Some(pool) = pool_of(work, id, reads_pods) else {
        work.account.left(
            node,
            "a pipeline has at most 8 edge pools, and a pool one `containers`: make a second \
             pipeline, or have pods say how their logs are read by annotations",
        );
        return false;
    };
    let mark = work.account.entries.len();
    let files_place = work
        .draft
        .pool(&pool, EdgeMode::DaemonSet)
        .map(|pool| pool.receivers.files.len())
        .unwrap_or_default();
    let of_pods = format!("{}.receivers.containers", pool_path(&pool));
    let of_files = format!("{}.receivers.files[{files_place}]", pool_path(&pool));
    let base = if reads_pods { &of_pods } else { &of_files };

    let mut fields = work.account.open(node, Fate::left("it includes no file"));
    let (mut pods, mut files) = (Pods::default(), Files::default());
    includes_and_excludes(work, &mut fields, (&of_pods, &of_files), (&mut pods, &mut files));
    let start_at = start(work, &mut fields, base);
    let encoding = encoding(work, &mut fields, base, reads_pods);
    let mut plan = Plan::new(base, reads_pods);
    if let Some(lines) = fields.take("multiline") {
        multiline(work, &lines, &mut plan);
    }
    if let Some(list) = fields.take("operators") {
        operators::read(work, &list, &mut plan);
    }
    others(work, fields);
    let done = plan.finish();
    let found = pods.found || !files.include.is_empty();
    let Some(settings) = work.draft.pool(&pool, EdgeMode::DaemonSet).filter(|_| found) else {
        // What was said of its fields is of no use then.
        work.account.entries.truncate(mark);
        work.account
            .left(node, "it names no file that a pool can read: write patterns below /var/log");
        forget(work, &pool);
        return false;
    };
    if pods.found {
        settings.receivers.containers = Some(ContainersReceiver {
            start_at,
            docker_directory: done.docker_directory.clone(),
            namespaces: pods.namespaces(),
            exclude_namespaces: pods.excluded.into_iter().take(NAMESPACES_MAX).collect(),
            multiline: done.multiline.clone(),
            parse: done.parse.clone(),
            ..ContainersReceiver::default()
        });
    }
    if !files.include.is_empty() {
        settings.receivers.files.push(FilesReceiver {
            include: files.include,
            exclude: files.exclude,
            start_at,
            encoding,
            multiline: done.multiline,
            parse: done.parse,
        });
    }
    true
}

/// The pool that reads these files. One pool has one `containers`: a further receiver of
/// containers' files has a pool of its own, of its own name if that may be one.
fn pool_of(work: &mut Work, id: &str, reads_pods: bool) -> Option<String> {
    let is_free = |work: &mut Work, name: &str| {
        let pool = work.draft.pool(name, EdgeMode::DaemonSet);
        pool.is_some_and(|pool| {
            pool.mode == EdgeMode::DaemonSet
                && pool.receivers.files.len() < FILES_MAX
                && !(reads_pods && pool.receivers.containers.is_some())
        })
    };
    if is_free(work, NODES) {
        return Some(NODES.to_owned());
    }
    let own = id.split_once('/').map(|(_, name)| name.to_owned());
    let numbered = (2..=crate::draft::POOLS_MAX).map(|number| format!("{NODES}-{number}"));
    own.into_iter().chain(numbered).find(|name| is_free(work, name))
}

/// A pool without anything to read is taken out again, unless it takes OTLP.
fn forget(work: &mut Work, name: &str) {
    let takes_otlp = work.draft.otlp_pool() == name;
    work.draft.edges.retain(|edge| {
        edge.name.as_str() != name || takes_otlp || edge.settings.receivers.reads_files()
    });
}

fn includes_and_excludes(
    work: &mut Work,
    fields: &mut Fields<'_>,
    (of_pods, of_files): (&str, &str),
    (pods, files): (&mut Pods, &mut Files),
) {
    for (name, is_include) in [("include", true), ("exclude", false)] {
        let Some(list) = fields.take(name) else { continue };
        for item in work.account.items(&list, "it names no file") {
            let to = format!("{of_files}.{name}");
            let Some(text) = item.said() else {
                work.account.left(&item, "a pattern without variables is expected here");
                continue;
            };
            let fate = match (paths::is_of_pods(&text), is_include) {
                (true, true) => pods.include(&text, of_pods),
                (true, false) => pods.exclude(&text, of_pods),
                (false, _) => files.pattern(&text, is_include, &to),
            };
            work.account.put(&item, fate);
        }
    }
}

fn start(work: &mut Work, fields: &mut Fields<'_>, base: &str) -> StartAt {
    let Some(node) = fields.take("start_at") else { return StartAt::End };
    let to = format!("{base}.startAt");
    match work.account.text(&node, &to).as_deref() {
        Some("beginning") => {
            work.account.carried(&node, to);
            return StartAt::Beginning;
        }
        Some("end") => work.account.carried(&node, to),
        Some(_) => work.account.left(&node, "write Beginning or End"),
        None => {}
    }
    StartAt::End
}

fn encoding(work: &mut Work, fields: &mut Fields<'_>, base: &str, is_pods: bool) -> Encoding {
    let Some(node) = fields.take("encoding") else { return Encoding::Utf8 };
    let to = format!("{base}.encoding");
    let Some(text) = work.account.text(&node, &to) else { return Encoding::Utf8 };
    let found = match &*text.to_ascii_lowercase() {
        "utf-8" | "utf8" | "utf-8-raw" | "ascii" | "us-ascii" | "" => Some(Encoding::Utf8),
        "utf-16le" | "utf16le" | "utf-16-le" => Some(Encoding::Utf16Le),
        "utf-16be" | "utf16be" | "utf-16-be" => Some(Encoding::Utf16Be),
        "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1" => Some(Encoding::Latin1),
        _ => None,
    };
    match found {
        Some(Encoding::Utf8) => work.account.not_needed(&node, "it is utf-8"),
        Some(found) if !is_pods => {
            work.account.carried(&node, to);
            return found;
        }
        Some(_) => work.account.left(&node, "containers' files are UTF-8"),
        None => work.account.left(&node, "the encodings are utf-8, utf-16le, utf-16be and latin-1"),
    }
    Encoding::Utf8
}

fn multiline(work: &mut Work, node: &Node<'_>, plan: &mut Plan) {
    let mut fields = work.account.open(node, Fate::not_needed("each line is a record"));
    if let Some(start) = fields.take("line_start_pattern") {
        let to = plan.path("multiline.start");
        let written = match plan.reads_pods {
            true => None,
            false => work.account.text(&start, &to),
        };
        match written {
            Some(pattern) if pattern.len() <= START_BYTES_MAX && plan.starts(&pattern) => {
                work.account.carried(&start, to);
            }
            Some(_) => {
                work.account.left(&start, "a pattern of at most 512 characters, in RE2's syntax")
            }
            None if plan.reads_pods => work.account.left(
                &start,
                "it is matched against the container's own line, with time and stream: write \
                 multiline.start for what the container writes",
            ),
            None => {}
        }
    }
    work.account.rest(fields, |name| match name {
        "line_end_pattern" => Fate::left("say how a record begins: multiline.start"),
        "omit_pattern" => Fate::left("all of a line stays"),
        _ => Fate::left(words::UNKNOWN),
    });
}

fn others(work: &mut Work, mut fields: Fields<'_>) {
    if let Some(size) = fields.take("max_log_size") {
        work.account
            .left(&size, "a line of a pool has 256 KiB; the rest is cut, marked and counted");
    }
    for name in FLAGS {
        let Some(flag) = fields.take(name) else { continue };
        match (flag.is_true(), name) {
            (false, _) => work.account.not_needed(&flag, "it asks for nothing"),
            (true, "delete_after_read") => work.account.left(&flag, "files are never deleted"),
            (true, _) => work.account.left(&flag, "there is no such attribute of a file"),
        }
    }
    work.account.rest(fields, |name| match name {
        "attributes" | "resource" => Fate::left(format!(
            "attributes are not added: {} {}",
            words::PROCESSORS,
            words::IN_FRONT
        )),
        "exclude_older_than" => Fate::left("leave older files out by their names (exclude)"),
        "compression" => Fate::left("what rotation has compressed is read to its end; no archives"),
        "header" => Fate::left("the first lines of a file are records like others"),
        "ordering_criteria" => Fate::left("all files that a pattern matches are read"),
        "id" | "type" => Fate::not_needed("it names the receiver"),
        name => crate::account::by_name(&OWN, words::UNKNOWN)(name),
    });
}

/// Lines that are one record, from a pattern of the first one; None if it can't be one.
fn starting(pattern: &str) -> Option<Multiline> {
    let usable = !pattern.is_empty()
        && pattern.len() <= START_BYTES_MAX
        && millrace_lines::Multiline::start(pattern).is_ok();
    usable.then(|| Multiline { start: Some(pattern.to_owned()), ..Multiline::default() })
}
