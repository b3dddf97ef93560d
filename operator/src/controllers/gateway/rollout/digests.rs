//! Which builds of an image pods really run: the digests to which nodes resolved its tag. Pure.
//!
//! A tag can move while pods run. A new pod then runs another build than its neighbours under the
//! same name. This is reported and not acted on: a person must say which build is meant. Limits:
//! [`DIGESTS_MAX`] builds of a unit.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use millrace_crds::EventReason;
use millrace_crds::v1alpha1::RolloutStatus;
use millrace_rollout::Unit;

use crate::pool::template::{collector, collector_status};
use crate::report::events::Notice;

/// Builds reported; the status has the same limit. Two are already one too many.
const DIGESTS_MAX: usize = 4;
/// The longest digest reported: fits `sha256:` and `sha512:`. The status has the same limit.
const DIGEST_BYTES_MAX: usize = 160;

/// Notes what this unit's pods run; keeps the last known while none reports.
pub(super) fn note(unit: &mut Unit, pods: &[Pod]) {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let found: BTreeSet<&str> = staying.filter_map(|pod| digest(pod, &unit.image)).collect();
    if !found.is_empty() {
        unit.digests = found.into_iter().take(DIGESTS_MAX).map(ToOwned::to_owned).collect();
    }
}

/// The digest to which a pod's node resolved this image; `None` for other images, or before it has
/// it.
fn digest<'a>(pod: &'a Pod, image: &str) -> Option<&'a str> {
    let asked = collector(pod.spec.as_ref()?)?.image.as_deref();
    let id = &collector_status(pod.status.as_ref()?)?.image_id;
    let digest = id.rsplit_once('@').map_or(id.as_str(), |(_, digest)| digest);
    let usable = digest.contains(':') && digest.len() <= DIGEST_BYTES_MAX && asked == Some(image);
    usable.then_some(digest)
}

/// The event of a tag that resolved to different builds in pods of one unit.
pub(super) fn moved(before: Option<&RolloutStatus>, now: &RolloutStatus) -> Option<Notice> {
    let (was, is) = (&before?.after, &now.after);
    let same = was.image == is.image && was.config_map == is.config_map;
    let new = is.image_digests.iter().find(|it| !was.image_digests.contains(it));
    let new = new.filter(|_| same && !was.image_digests.is_empty())?;
    let note = format!(
        "the tag of {} was moved: pods made anew run {new}, others ran {}; write another \
         collector.version to roll out one build, or move the tag back and delete the newer pods",
        is.image,
        was.image_digests.join(", ")
    );
    Some(Notice::warning(EventReason::ImageTagMoved, "Rollout", note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(image: &str, id: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "collector", "image": image}]},
            "status": {"containerStatuses": [{"name": "collector", "image": image, "imageID": id,
                "ready": true, "restartCount": 0}]}}))
        .unwrap()
    }

    /// Scenario: pods as several runtimes tell of their image, of another unit, and not yet pulled.
    /// Guarantee: each build once; what was known stays while no pod tells.
    #[test]
    fn the_builds_that_pods_run_are_told() {
        let mut unit = Unit { image: "c:1-system".into(), ..Unit::default() };
        let pods = [
            pod("c:1-system", "docker.io/millrace/c@sha256:aa"),
            pod("c:1-system", "docker-pullable://millrace/c@sha256:aa"),
            pod("c:1-system", "sha256:bb"),
            pod("c:1-system", ""),
            pod("c:2-system", "docker.io/millrace/c@sha256:cc"),
        ];
        note(&mut unit, &pods);
        assert_eq!(unit.digests, ["sha256:aa", "sha256:bb"]);
        note(&mut unit, &pods[3..]);
        assert_eq!(unit.digests, ["sha256:aa", "sha256:bb"]);
    }
}
