//! Converts the file log receiver: files of containers become `receivers.containers`, others
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
use crate::advice;
use crate::draft::{NODES, pool_path};
use crate::tree::Node;
use crate::work::Work;
use operators::ParserPlan;
use paths::{NodeFiles, PodNamespaces};

/// Maximum entries of `receivers.files`, and maximum patterns of one.
const FILES_MAX: usize = 16;
const PATTERNS_MAX: usize = 16;
/// Maximum length of a pattern.
const PATTERN_BYTES_MAX: usize = 255;
/// Maximum length of the pattern of a record's first line, in bytes.
const START_BYTES_MAX: usize = 512;
/// Maximum namespaces of a list.
const NAMESPACES_MAX: usize = 64;

/// A pool may only read files below a node's /var/log.
const BELOW: &str = "/var/log/";

const LIMITS: &str = "the reader has its own settings";

const FIXED_SETTINGS: [(&str, &str); 17] = [
    ("poll_interval", "directories are watched"),
    ("fingerprint_size", "a file is identified by its first 1,024 bytes"),
    ("initial_buffer_size", LIMITS),
    ("max_concurrent_files", "files are read in parallel, with fair shares"),
    ("max_batches", "files are read in parallel, with fair shares"),
    ("force_flush_period", "a record of several lines is complete after a second"),
    ("polls_to_archive", "positions are stored on the node"),
    ("storage", "positions are stored on the node"),
    ("retry_on_failure", "reading stops until Kafka accepts records again"),
    ("include_file_name", "log.file.name is written; for containers, the attributes of their path"),
    ("include_file_path", "log.file.path is written; for containers, the attributes of their path"),
    ("preserve_leading_whitespaces", "white space is retained"),
    ("preserve_trailing_whitespaces", "white space is retained"),
    ("file_cache_advise", LIMITS),
    ("acquire_fs_lock", "files are read without a lock"),
    ("on_truncate", "a truncated file is read from its beginning"),
    ("max_log_size_behavior", "a longer line is cut, marked and counted"),
];

/// Fields without effect when they are false.
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

/// Converts the receiver.
pub(crate) fn convert_receiver(work: &mut Work, node: &Node<'_>, id: &str) -> bool {
    let includes = node.get("include");
    let texts = includes.as_ref().map(Node::list_texts).unwrap_or_default();
    let reads_pods = texts.iter().any(|text| paths::is_of_pods(text));
    let Some(pool) = pool_of(work, id, reads_pods) else {
        work.account.unsupported(
            node,
            "a pipeline has at most 8 edge pools, and a pool one `containers`: create a second \
             pipeline, or annotate pods with how to read their logs",
        );
        return false;
    };
    let mark = work.account.entries.len();
    let files_index = work
        .draft
        .pool_settings(&pool, EdgeMode::DaemonSet)
        .map(|pool| pool.receivers.files.len())
        .unwrap_or_default();
    let of_pods = format!("{}.receivers.containers", pool_path(&pool));
    let of_files = format!("{}.receivers.files[{files_index}]", pool_path(&pool));
    let base = if reads_pods { &of_pods } else { &of_files };

    let mut fields = work.account.open_block(node, Fate::unsupported("it includes no file"));
    let (mut pods, mut files) = (PodNamespaces::default(), NodeFiles::default());
    includes_and_excludes(work, &mut fields, (&of_pods, &of_files), (&mut pods, &mut files));
    let start_at = convert_start_at(work, &mut fields, base);
    let encoding = convert_encoding(work, &mut fields, base, reads_pods);
    let mut plan = ParserPlan::new(base, reads_pods);
    if let Some(lines) = fields.take_field("multiline") {
        convert_multiline(work, &lines, &mut plan);
    }
    if let Some(list) = fields.take_field("operators") {
        operators::convert_operators(work, &list, &mut plan);
    }
    account_others(work, fields);
    let done = plan.into_outcome();
    let found = pods.is_included || !files.include.is_empty();
    let Some(settings) = work.draft.pool_settings(&pool, EdgeMode::DaemonSet).filter(|_| found)
    else {
        // Entries of its fields are then useless.
        work.account.entries.truncate(mark);
        work.account.unsupported(
            node,
            "it has no file that a pool can read: write patterns below /var/log",
        );
        remove_unused_pool(work, &pool);
        return false;
    };
    if pods.is_included {
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

/// Returns the pool that reads these files. One pool has one `containers`: a further receiver of
/// containers' files gets a separate pool, with the receiver's name if that is valid.
fn pool_of(work: &mut Work, id: &str, reads_pods: bool) -> Option<String> {
    let is_free = |work: &mut Work, name: &str| {
        let pool = work.draft.pool_settings(name, EdgeMode::DaemonSet);
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

/// Removes a pool that reads nothing, unless it receives OTLP.
fn remove_unused_pool(work: &mut Work, name: &str) {
    let takes_otlp = work.draft.otlp_pool() == name;
    work.draft.edges.retain(|edge| {
        edge.name.as_str() != name || takes_otlp || edge.settings.receivers.reads_files()
    });
}

fn includes_and_excludes(
    work: &mut Work,
    fields: &mut Fields<'_>,
    (of_pods, of_files): (&str, &str),
    (pods, files): (&mut PodNamespaces, &mut NodeFiles),
) {
    for (name, is_include) in [("include", true), ("exclude", false)] {
        let Some(list) = fields.take_field(name) else { continue };
        for item in work.account.list_items(&list, "it names no file") {
            let to = format!("{of_files}.{name}");
            let Some(text) = item.plain_text() else {
                work.account.unsupported(&item, "a pattern without variables is expected here");
                continue;
            };
            let fate = match (paths::is_of_pods(&text), is_include) {
                (true, true) => pods.include_pattern(&text, of_pods),
                (true, false) => pods.exclude_pattern(&text, of_pods),
                (false, _) => files.add_pattern(&text, is_include, &to),
            };
            work.account.add_entry(&item, fate);
        }
    }
}

fn convert_start_at(work: &mut Work, fields: &mut Fields<'_>, base: &str) -> StartAt {
    let Some(node) = fields.take_field("start_at") else { return StartAt::End };
    let to = format!("{base}.startAt");
    match work.account.require_text(&node, &to).as_deref() {
        Some("beginning") => {
            work.account.carried(&node, to);
            return StartAt::Beginning;
        }
        Some("end") => work.account.carried(&node, to),
        Some(_) => work.account.unsupported(&node, "write Beginning or End"),
        None => {}
    }
    StartAt::End
}

fn convert_encoding(
    work: &mut Work,
    fields: &mut Fields<'_>,
    base: &str,
    is_pods: bool,
) -> Encoding {
    let Some(node) = fields.take_field("encoding") else { return Encoding::Utf8 };
    let to = format!("{base}.encoding");
    let Some(text) = work.account.require_text(&node, &to) else { return Encoding::Utf8 };
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
        Some(_) => work.account.unsupported(&node, "containers' files are UTF-8"),
        None => work
            .account
            .unsupported(&node, "the encodings are UTF-8, UTF-16LE, UTF-16BE and ISO-8859-1"),
    }
    Encoding::Utf8
}

fn convert_multiline(work: &mut Work, node: &Node<'_>, plan: &mut ParserPlan) {
    let mut fields = work.account.open_block(node, Fate::not_needed("each line is a record"));
    if let Some(start) = fields.take_field("line_start_pattern") {
        let to = plan.field_path("multiline.start");
        let written = match plan.reads_pods {
            true => None,
            false => work.account.require_text(&start, &to),
        };
        match written {
            Some(pattern) if pattern.len() <= START_BYTES_MAX && plan.set_start(&pattern) => {
                work.account.carried(&start, to);
            }
            Some(_) => work
                .account
                .unsupported(&start, "a pattern of at most 512 characters, in RE2's syntax"),
            None if plan.reads_pods => work.account.unsupported(
                &start,
                "it matches the runtime's line, with time and stream: write multiline.start for \
                 the container's own line",
            ),
            None => {}
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "line_end_pattern" => Fate::unsupported("write the beginning of a record: multiline.start"),
        "omit_pattern" => Fate::unsupported("the complete line is stored"),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

fn account_others(work: &mut Work, mut fields: Fields<'_>) {
    if let Some(size) = fields.take_field("max_log_size") {
        work.account.unsupported(
            &size,
            "lines are limited to 256 KiB; a longer one is cut, marked and counted",
        );
    }
    for name in FLAGS {
        let Some(flag) = fields.take_field(name) else { continue };
        match (flag.is_true(), name) {
            (false, _) => work.account.not_needed(&flag, "it is off"),
            (true, "delete_after_read") => {
                work.account.unsupported(&flag, "files are never deleted")
            }
            (true, _) => {
                work.account.unsupported(&flag, "this attribute of a file is not supported")
            }
        }
    }
    work.account.account_remaining(fields, |name| match name {
        "attributes" | "resource" => Fate::unsupported(format!(
            "attributes are not added: {} {}",
            advice::PROCESSORS,
            advice::IN_FRONT
        )),
        "exclude_older_than" => Fate::unsupported("exclude older files by their names (exclude)"),
        "compression" => Fate::unsupported(
            "files that rotation compresses are read to their end; archives are not",
        ),
        "header" => Fate::unsupported("a file's header lines are ordinary records"),
        "ordering_criteria" => Fate::unsupported("all files that a pattern matches are read"),
        "id" | "type" => Fate::not_needed("it names the receiver"),
        name => crate::account::by_name(&FIXED_SETTINGS, advice::UNKNOWN)(name),
    });
}

/// Returns multiline settings from a pattern of the first line; `None` if it is invalid.
fn multiline_from(pattern: &str) -> Option<Multiline> {
    let usable = !pattern.is_empty()
        && pattern.len() <= START_BYTES_MAX
        && millrace_lines::MultilineRule::from_pattern(pattern).is_ok();
    usable.then(|| Multiline { start: Some(pattern.to_owned()), ..Multiline::default() })
}
