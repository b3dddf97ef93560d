//! Reports which builds of an image pods really run: the digests to which nodes resolved its tag.
//! Pure.
//!
//! A tag can move while pods run. A new pod then runs another build than its neighbours under the
//! same name. The operator reports this and does not act: a person must choose the build. Limits:
//! [`DIGESTS_MAX`] builds of a unit.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use millrace_crds::EventReason;
use millrace_crds::v1alpha1::RolloutStatus;
use millrace_rollout::Unit;

use crate::pool::template::{collector_status, image_of};
use crate::report::events::Notice;

/// The number of builds reported; the status has the same limit. Two are already one too many.
const DIGESTS_MAX: usize = 4;
/// The longest digest reported: fits `sha256:` and `sha512:`. The status has the same limit.
const DIGEST_BYTES_MAX: usize = 160;

/// Records the builds that this unit's pods run; retains the last known while none reports.
pub(super) fn record_digests(unit: &mut Unit, pods: &[Pod]) {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let found: BTreeSet<&str> = staying.filter_map(|pod| pod_digest(pod, &unit.image)).collect();
    if !found.is_empty() {
        unit.digests = found.into_iter().take(DIGESTS_MAX).map(ToOwned::to_owned).collect();
    }
}

/// Returns the digest to which a pod's node resolved this image; `None` for other images, or before
/// the node has it.
fn pod_digest<'a>(pod: &'a Pod, image: &str) -> Option<&'a str> {
    let declared = image_of(Some(&pod.metadata), pod.spec.as_ref());
    let id = &collector_status(pod.status.as_ref()?)?.image_id;
    let digest = id.rsplit_once('@').map_or(id.as_str(), |(_, digest)| digest);
    let usable =
        digest.contains(':') && digest.len() <= DIGEST_BYTES_MAX && declared == Some(image);
    usable.then_some(digest)
}

/// Returns the event of a tag that resolved to different builds in pods of one unit.
pub(super) fn moved_tag_notice(
    before: Option<&RolloutStatus>,
    now: &RolloutStatus,
) -> Option<Notice> {
    let (was, is) = (&before?.after, &now.after);
    let same = was.image == is.image && was.config_map == is.config_map;
    let new = is.image_digests.iter().find(|it| !was.image_digests.contains(it));
    let new = new.filter(|_| same && !was.image_digests.is_empty())?;
    let note = format!(
        "the tag of {} was moved: new pods run {new}, others ran {}; write another \
         collector.version to roll out one build, or move the tag back and delete the newer pods",
        is.image,
        was.image_digests.join(", ")
    );
    Some(Notice::warning(EventReason::ImageTagMoved, "Rollout", note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::template::IMAGE_ANNOTATION;
    use serde_json::json;

    fn test_pod(image: &str, id: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "collector", "image": image}]},
            "status": {"containerStatuses": [{"name": "collector", "image": image, "imageID": id,
                "ready": true, "restartCount": 0}]}}))
        .unwrap()
    }

    /// Scenario: several runtimes report pods' images; one image is of another unit, one not yet
    /// pulled. Guarantee: each build is listed once; known builds remain while no pod reports.
    #[test]
    fn the_builds_that_pods_run_are_told() {
        let mut unit = Unit { image: "c:1-system".into(), ..Unit::default() };
        let pods = [
            test_pod("c:1-system", "docker.io/millrace/c@sha256:aa"),
            test_pod("c:1-system", "docker-pullable://millrace/c@sha256:aa"),
            test_pod("c:1-system", "sha256:bb"),
            test_pod("c:1-system", ""),
            test_pod("c:2-system", "docker.io/millrace/c@sha256:cc"),
        ];
        record_digests(&mut unit, &pods);
        assert_eq!(unit.digests, ["sha256:aa", "sha256:bb"]);
        record_digests(&mut unit, &pods[3..]);
        assert_eq!(unit.digests, ["sha256:aa", "sha256:bb"]);
    }

    /// Scenario: admission rewrites the image of pods to a mirror's. Guarantee: their builds are
    /// reported: the annotation has the image that they are made for.
    #[test]
    fn builds_of_rewritten_images_are_told() {
        let mut unit = Unit { image: "c:1-system".into(), ..Unit::default() };
        let mut rewritten = test_pod("mirror.example/c:1-system", "mirror.example/c@sha256:aa");
        let annotation = (IMAGE_ANNOTATION.to_owned(), "c:1-system".to_owned());
        rewritten.metadata.annotations = Some([annotation].into());
        record_digests(&mut unit, &[rewritten]);
        assert_eq!(unit.digests, ["sha256:aa"]);
    }
}
