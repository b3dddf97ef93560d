//! Sums what was lost of nodes' logs before it was read, over pods and their restarts. Pure.
//!
//! A process counts from zero; the status stores, by node, how much of its count is in the sums. So
//! an operator that restarted, or decides from an older status, neither forgets nor counts twice.
//! Losses within [`QUIET`] of each other are one episode: `LogsLost` is true until [`QUIET`] after
//! the last, and one event reports it. Limits: growth is added once a minute, so losses in a
//! process's last minute may be missed; [`NODES_MAX`] nodes.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{LogsLostStatus, NodeLost};

use crate::pods::NodeLogsSample;
use crate::pool::process_counts::{is_recent, is_same_process, reserve_slot};
use crate::pool::status::as_i64;
use crate::report::counts::format_count;

/// A pod's answer about its node.
pub(super) struct NodeResponse<'a> {
    pub(super) node: &'a str,
    pub(super) is_ready: bool,
    pub(super) started_at: Option<i64>,
    pub(super) logs: NodeLogsSample,
}

/// The time without a loss after which an episode is over.
pub(super) const QUIET: SignedDuration = SignedDuration::from_secs(3600);
/// The nodes whose counts are stored: some 40 kB of the status, which has the same limit. Losses of
/// further nodes aren't added: the sums are then too low, never too high.
const NODES_MAX: usize = 300;

/// The remedy for lost files.
const CONTAINERS_REMEDY: &str = "to retain logs of nodes for longer, raise the kubelet's \
                                 containerLogMaxSize and containerLogMaxFiles";
/// The remedy for lost records of kernels.
const KERNEL_REMEDY: &str =
    "to retain more of the kernels' logs, raise their boot parameter log_buf_len";

/// Adds the growth of the processes' counts, unless the last addition is recent; `nodes` are those
/// that have a pod.
pub(super) fn add_losses(
    lost: &mut Option<LogsLostStatus>,
    responses: &[NodeResponse<'_>],
    nodes: &BTreeSet<&str>,
    now: Timestamp,
) {
    let last_at = lost.as_ref().map(|lost| lost.last_increase_at.clone());
    if last_at.as_ref().is_some_and(|at| is_recent(at, now)) {
        return;
    }
    let known = lost.as_ref().map_or(&[][..], |lost| &lost.nodes);
    let grown: Vec<NodeLost> =
        responses.iter().filter_map(|answer| node_growth(known, answer)).collect();
    if grown.is_empty() {
        return;
    }
    let sums = lost.get_or_insert_with(|| LogsLostStatus {
        bytes: 0,
        records: 0,
        since: Time(now),
        last_increase_at: Time(now),
        episode_bytes: 0,
        episode_records: 0,
        nodes: Vec::new(),
    });
    let mut begins_anew = last_at.is_some_and(|at| now.duration_since(at.0).abs() >= QUIET);
    for growth in grown {
        let is_it = |node: &NodeLost| node.name == growth.name;
        let exists = |node: &NodeLost| nodes.contains(node.name.as_str());
        if !sums.nodes.iter().any(is_it) && !reserve_slot(&mut sums.nodes, NODES_MAX, exists) {
            continue;
        }
        if std::mem::take(&mut begins_anew) {
            begin_episode(sums, now);
        }
        sums.last_increase_at = Time(now);
        add_one(sums, growth);
    }
    sums.nodes.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Returns a node's losses since the last addition, with its process's present counts. `None`
/// without a loss.
fn node_growth(known: &[NodeLost], answer: &NodeResponse<'_>) -> Option<NodeLost> {
    let NodeResponse { node, started_at, logs, .. } = answer;
    let process_bytes = as_i64(logs.lost_bytes);
    let process_records = as_i64(logs.lost_records.unwrap_or(0));
    let continues = |last: &&NodeLost| {
        let has_not_fallen =
            process_bytes >= last.process_bytes && process_records >= last.process_records;
        is_same_process(last.started_at, *started_at, has_not_fallen)
    };
    let last = known.iter().find(|last| last.name == *node).filter(continues);
    let bytes = process_bytes - last.map_or(0, |last| last.process_bytes);
    let records = process_records - last.map_or(0, |last| last.process_records);
    (bytes > 0 || records > 0).then(|| NodeLost {
        name: (*node).to_owned(),
        bytes,
        records,
        started_at: *started_at,
        process_bytes,
        process_records,
    })
}

fn begin_episode(sums: &mut LogsLostStatus, now: Timestamp) {
    sums.since = Time(now);
    (sums.episode_bytes, sums.episode_records) = (0, 0);
    for node in &mut sums.nodes {
        (node.bytes, node.records) = (0, 0);
    }
}

fn add_one(sums: &mut LogsLostStatus, growth: NodeLost) {
    for sum in [&mut sums.bytes, &mut sums.episode_bytes] {
        *sum = sum.saturating_add(growth.bytes);
    }
    for sum in [&mut sums.records, &mut sums.episode_records] {
        *sum = sum.saturating_add(growth.records);
    }
    match sums.nodes.iter_mut().find(|node| node.name == growth.name) {
        Some(node) => {
            let bytes = node.bytes.saturating_add(growth.bytes);
            let records = node.records.saturating_add(growth.records);
            *node = NodeLost { bytes, records, ..growth };
        }
        None => sums.nodes.push(growth),
    }
}

/// Returns the message about the last episode, with its remedy.
pub(super) fn episode_text(lost: &LogsLostStatus) -> String {
    let (all, since) = (amount_text(lost.episode_bytes, lost.episode_records), lost.since.0);
    let in_episode = || lost.nodes.iter().filter(|node| node.bytes > 0 || node.records > 0);
    let worst = in_episode().max_by_key(|node| (node.bytes, node.records));
    let on = match (worst, in_episode().count()) {
        (Some(worst), 1) => format!("node {}", worst.name),
        (Some(worst), count) => {
            let most = amount_text(worst.bytes, worst.records);
            format!("{count} nodes, the most on {} ({most})", worst.name)
        }
        (None, _) => "nodes that no longer exist".to_owned(),
    };
    let remedy = match (lost.episode_bytes > 0, lost.episode_records > 0) {
        (true, false) => CONTAINERS_REMEDY.to_owned(),
        (false, _) => KERNEL_REMEDY.to_owned(),
        (true, true) => format!("{CONTAINERS_REMEDY}; {KERNEL_REMEDY}"),
    };
    format!(
        "since {since}: {all} were deleted before a pod read them, on {on}, the last observed at \
         {}; status.nodes and the pods' logs show why they are behind; {remedy}",
        lost.last_increase_at.0
    )
}

fn amount_text(bytes: i64, records: i64) -> String {
    let bytes_text = format!("{} of log files", format_count(bytes, "byte"));
    let records_text = format!("{} of kernels' logs", format_count(records, "record"));
    match (bytes, records) {
        (_, 0) => bytes_text,
        (0, _) => records_text,
        _ => format!("{bytes_text} and {records_text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::NodeLogsSample;
    use proptest::prelude::*;

    /// A node's process: its start and its counts.
    #[derive(Clone, Copy, Debug)]
    struct Process {
        started_at: i64,
        bytes: u64,
        records: u64,
    }

    fn test_response<'a>(node: &'a str, process: &Process) -> NodeResponse<'a> {
        let Process { started_at, bytes, records } = *process;
        let logs = NodeLogsSample {
            behind_bytes: Some(0),
            lost_bytes: bytes,
            lost_records: Some(records),
            ..NodeLogsSample::default()
        };
        NodeResponse { node, is_ready: true, started_at: Some(started_at), logs }
    }

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// The events between two observations: seconds; for each node the bytes and records that it
    /// loses, whether its process then restarts, and whether it answers.
    type Step = (i64, [(u64, u64, bool, bool); 3]);

    fn any_steps(seconds: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Step>> {
        let amount = || prop_oneof![3 => Just(0_u64), 1 => 1..1000_u64];
        let node = (amount(), amount(), prop::bool::weighted(0.2), prop::bool::weighted(0.8));
        prop::collection::vec((seconds, [node.clone(), node.clone(), node]), 1..40)
    }

    const NODES: [&str; 3] = ["a", "b", "c"];

    proptest! {
        /// Scenario: nodes lose bytes and records, restart and don't answer, in any order and at
        /// any interval. Guarantee: sums never shrink and never exceed the losses; an episode is
        /// part of the total, is the sum of its nodes, and ends only with an hour without a loss.
        #[test]
        fn sums_never_exceed_what_was_lost(steps in any_steps(0..5000)) {
            let mut processes = NODES.map(|_| Process { started_at: 0, bytes: 0, records: 0 });
            let (mut now, mut lost, mut truth) = (0, None::<LogsLostStatus>, (0, 0));
            for (number, (seconds, nodes)) in steps.into_iter().enumerate() {
                now += seconds;
                let mut answers = Vec::new();
                for ((process, node), told) in processes.iter_mut().zip(NODES).zip(nodes) {
                    let (bytes, records, starts_anew, answers_now) = told;
                    process.bytes += bytes;
                    process.records += records;
                    truth = (truth.0 + as_i64(bytes), truth.1 + as_i64(records));
                    if starts_anew {
                        let started_at = 1 + i64::try_from(number).unwrap();
                        *process = Process { started_at, bytes: 0, records: 0 };
                    }
                    if answers_now {
                        answers.push(test_response(node, process));
                    }
                }
                let before = lost.clone();
                add_losses(&mut lost, &answers, &NODES.into(), at_second(now));
                let Some(sums) = &lost else { continue };
                prop_assert!(sums.bytes <= truth.0 && sums.records <= truth.1);
                prop_assert!(sums.episode_bytes <= sums.bytes);
                let nodes = |of: fn(&NodeLost) -> i64| sums.nodes.iter().map(of).sum::<i64>();
                prop_assert_eq!(sums.episode_bytes, nodes(|node| node.bytes));
                prop_assert_eq!(sums.episode_records, nodes(|node| node.records));
                if let Some(before) = before {
                    prop_assert!(sums.bytes >= before.bytes && sums.records >= before.records);
                    let calm = sums.last_increase_at.0.duration_since(before.last_increase_at.0);
                    prop_assert_eq!(sums.since != before.since, calm >= QUIET);
                }
            }
        }

        /// Scenario: as above, observed no more often than sums grow, and each process is observed
        /// before it ends. Guarantee: the sums are exactly the losses.
        #[test]
        fn what_is_seen_is_counted_once(steps in any_steps(60..5000)) {
            let mut processes = NODES.map(|_| Process { started_at: 0, bytes: 0, records: 0 });
            let (mut now, mut lost, mut truth) = (0, None::<LogsLostStatus>, (0, 0));
            for (number, (seconds, nodes)) in steps.into_iter().enumerate() {
                now += seconds;
                for (process, (bytes, records, ..)) in processes.iter_mut().zip(nodes) {
                    process.bytes += bytes;
                    process.records += records;
                    truth = (truth.0 + as_i64(bytes), truth.1 + as_i64(records));
                }
                let answers: Vec<_> =
                    processes.iter().zip(NODES).map(|(it, node)| test_response(node, it)).collect();
                add_losses(&mut lost, &answers, &NODES.into(), at_second(now));
                let sums = lost.as_ref().map_or((0, 0), |lost| (lost.bytes, lost.records));
                prop_assert_eq!(sums, truth);
                for (process, (.., starts_anew, _)) in processes.iter_mut().zip(nodes) {
                    if starts_anew {
                        let started_at = 1 + i64::try_from(number).unwrap();
                        *process = Process { started_at, bytes: 0, records: 0 };
                    }
                }
            }
        }
    }

    /// Scenario: more nodes than are stored lose a byte each, observed twice; then half of them are
    /// removed, and others lose one. Guarantee: nothing is counted twice, the stored counts are
    /// bounded, and removed nodes free slots.
    #[test]
    fn what_is_remembered_is_bounded_and_nothing_is_counted_twice() {
        let names: Vec<String> = (0..NODES_MAX + 100).map(|at| format!("node-{at:03}")).collect();
        let process = Process { started_at: 1, bytes: 1, records: 0 };
        let mut lost = None;
        let mut look = |names: &[String], second| {
            let answers: Vec<_> = names.iter().map(|node| test_response(node, &process)).collect();
            let nodes = names.iter().map(String::as_str).collect();
            add_losses(&mut lost, &answers, &nodes, at_second(second));
            let lost = lost.as_ref().unwrap();
            (lost.bytes, lost.nodes.len())
        };
        let most = i64::try_from(NODES_MAX).unwrap();
        for second in [0, 100] {
            assert_eq!(look(&names, second), (most, NODES_MAX));
        }
        assert_eq!(look(&names[NODES_MAX / 2..], 200), (most + 100, NODES_MAX));
    }

    /// Scenario: one node's files, several nodes' kernels, or both lose something. Guarantee: the
    /// message has the amount, node and remedy of the loss, and fits a condition.
    #[test]
    fn the_message_names_what_was_lost_where_and_what_to_do() {
        let said = |counts: &[(&'static str, u64, u64)]| {
            let mut lost = None;
            let one = |(node, bytes, records): &(&'static str, u64, u64)| {
                test_response(node, &Process { started_at: 1, bytes: *bytes, records: *records })
            };
            let answers: Vec<_> = counts.iter().map(one).collect();
            add_losses(&mut lost, &answers, &NODES.into(), at_second(0));
            episode_text(&lost.unwrap())
        };
        let files = said(&[("a", 7, 0)]);
        assert!(files.starts_with("since 1970-01-01T00:00:00Z: 7 bytes of log files"), "{files}");
        assert!(files.contains("on node a,") && files.contains("containerLogMaxSize"), "{files}");
        assert!(!files.contains("kernel"), "{files}");
        let kernels = said(&[("a", 0, 3), ("b", 0, 4)]);
        assert!(kernels.contains("7 records of kernels' logs"), "{kernels}");
        assert!(kernels.contains("2 nodes, the most on b (4 records"), "{kernels}");
        assert!(kernels.contains("log_buf_len") && !kernels.contains("containerLog"), "{kernels}");
        let both = said(&[("a", u64::MAX, u64::MAX), ("b", u64::MAX, 1)]);
        assert!(both.contains("log_buf_len") && both.contains("containerLogMaxFiles"), "{both}");
        assert!(both.len() + 253 < 1_024, "{}", both.len());
    }
}
