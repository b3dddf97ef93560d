//! Describes a pod for rollouts and trials. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use millrace_rollout::{EXIT_SETTINGS, Member, PodFigures};

use super::workload::pod_figures;
use crate::pool::template::collector_status;

/// The label with the revision that a StatefulSet's pod was made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";
/// The longest excerpt of the last output; the pod's log has all of it.
const OUTPUT_BYTES_MAX: usize = 400;

/// Describes one pod, which runs the newest template if its revision is `newest`.
#[must_use]
pub fn member_of_pod(pod: &Pod, newest: Option<&str>, now: Timestamp) -> Member {
    let labels = pod.metadata.labels.as_ref();
    let revision = labels.and_then(|labels| labels.get(REVISION_LABEL)).map(String::as_str);
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    let made = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    // A pod with neither time was created just now.
    let since = since.max(made).unwrap_or(now);
    let mut member = Member {
        figures: pod_figures(pod, now),
        updated: revision.is_some() && revision == newest,
        ready: is_ready,
        not_ready_seconds: if is_ready { 0 } else { now.duration_since(since).as_secs().max(0) },
        ..Member::default()
    };
    if let Some(container) = pod.status.as_ref().and_then(collector_status) {
        member.restarts = u32::try_from(container.restart_count).unwrap_or(0);
        let states = [container.state.as_ref(), container.last_state.as_ref()];
        let ended = states.into_iter().flatten().find_map(|state| state.terminated.as_ref());
        if let Some(ended) = ended {
            member.exit_code = Some(ended.exit_code);
            member.termination_message = last_output(ended);
        }
    }
    member
}

/// Describes a pod that should exist but has been missing since `since`. It would run the newest
/// template.
#[must_use]
pub fn missing_member(name: &str, since: i64, now: Timestamp) -> Member {
    let figures = PodFigures { name: name.to_owned(), missing: true, ..PodFigures::default() };
    let not_ready_seconds = now.as_second().saturating_sub(since);
    Member { figures, updated: true, not_ready_seconds, ..Member::default() }
}

/// Returns a container's last output: all of it if it refused its settings, since it prints nothing
/// else then; otherwise the last line, which has the cause.
fn last_output(ended: &ContainerStateTerminated) -> String {
    let message = ended.message.as_deref().unwrap_or_default();
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let words = match ended.exit_code {
        EXIT_SETTINGS => lines.collect::<Vec<_>>().join("; "),
        _ => lines.next_back().unwrap_or_default().to_owned(),
    };
    let end = words.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = end.take_while(|end| *end <= OUTPUT_BYTES_MAX).last().unwrap_or(0);
    words[..end].to_owned()
}
