//! Tests of the table of pods.

use super::*;

fn rules() -> MetadataRules {
    MetadataRules {
        node: "n".into(),
        labels: vec!["*".into()],
        annotations: Vec::new(),
        follow_annotations: true,
    }
}

fn metadata(uid: &str, label: &str, more: &str) -> Metadata {
    let text = format!(
        r#"{{"uid": "{uid}", "name": "p", "namespace": "s",
            "labels": {{"a": "{label}"}}{more}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn label(board: &PodTable, uid: &str) -> Option<String> {
    Some(board.find_pod(uid, "s", "p")?.attributes.last()?.1.clone())
}

/// Scenario: a pod is added, repeated unchanged, changed, deleted, and expires. Guarantee: its
/// current state is known until then; only changes increase the version.
#[test]
fn a_pod_is_known_until_a_while_after_it_is_gone() {
    let (board, now) = (PodTable::default(), Instant::now());
    assert_eq!(
        board.store_pod(&metadata("1", "x", ""), &rules(), now),
        Some(StoreOutcome::default())
    );
    let version = board.version();
    board.store_pod(&metadata("1", "x", ""), &rules(), now);
    assert_eq!((board.version(), label(&board, "1")), (version, Some("x".into())));
    board.store_pod(&metadata("1", "y", ""), &rules(), now);
    assert!(board.version() != version);
    board.mark_deleted(&metadata("1", "y", ""), now);
    assert_eq!(board.evict_deleted(now + DELETED_RETENTION / 2), 1);
    assert_eq!(label(&board, "1"), Some("y".into()));
    assert_eq!(board.evict_deleted(now + DELETED_RETENTION), 0);
    assert_eq!(label(&board, "1"), None);
}

/// Scenario: a pod has an invalid annotation; it is repeated unchanged, with another label, in a
/// new list, with another invalid annotation, and corrected. Guarantee: each fault is reported
/// once, and the pod stays known.
#[test]
fn an_annotation_that_can_not_be_used_is_told_once() {
    let (board, now) = (PodTable::default(), Instant::now());
    let put = |label: &str, parser: &str| {
        let more = format!(r#", "annotations": {{"millrace.dev/logs-parser": "{parser}"}}"#);
        let stored = board.store_pod(&metadata("1", label, &more), &rules(), now).unwrap();
        assert_eq!(self::label(&board, "1").as_deref(), Some(label));
        stored.faults.len()
    };
    assert_eq!((put("x", "xml"), put("x", "xml"), put("y", "xml")), (1, 0, 0));
    board.begin_list();
    assert_eq!((put("y", "xml"), put("y", "yaml"), put("y", "yaml")), (0, 1, 0));
    assert_eq!((put("y", "json"), put("y", "yaml")), (0, 1));
}

/// Scenario: a new list lacks one of two pods; it breaks off, then it is complete. Guarantee: that
/// pod is deleted once the list is complete, not before.
#[test]
fn a_pod_that_is_not_told_again_is_gone() {
    let (board, now) = (PodTable::default(), Instant::now());
    board.store_pod(&metadata("1", "x", ""), &rules(), now);
    board.store_pod(&metadata("2", "x", ""), &rules(), now);
    for _ in 0..2 {
        board.begin_list();
        board.store_pod(&metadata("1", "x", ""), &rules(), now);
        board.evict_deleted(now + DELETED_RETENTION);
        assert_eq!(label(&board, "2"), Some("x".into()));
    }
    board.finish_list(now);
    board.evict_deleted(now + DELETED_RETENTION);
    assert_eq!((label(&board, "1"), label(&board, "2")), (Some("x".into()), None));
}

/// Scenario: more pods exist than may be known, with a deleted one among them, and without; then a
/// list that lacks most of them begins. Guarantee: the deleted one is replaced; otherwise the new
/// one isn't stored, and no other is lost; a listed one replaces one that the list doesn't have.
#[test]
fn pods_that_are_known_are_bounded() {
    let (board, now) = (PodTable::default(), Instant::now());
    for number in 0..PODS_MAX {
        board.store_pod(&metadata(&number.to_string(), "x", ""), &rules(), now);
    }
    assert_eq!(board.store_pod(&metadata("new", "x", ""), &rules(), now), None);
    board.mark_deleted(&metadata("7", "x", ""), now);
    assert_eq!(
        board.store_pod(&metadata("new", "x", ""), &rules(), now),
        Some(StoreOutcome::default())
    );
    assert_eq!((label(&board, "7"), label(&board, "8")), (None, Some("x".into())));
    assert_eq!(board.evict_deleted(now), PODS_MAX);
    board.begin_list();
    board.store_pod(&metadata("8", "y", ""), &rules(), now);
    let stored = board.store_pod(&metadata("listed", "x", ""), &rules(), now);
    assert_eq!(stored, Some(StoreOutcome::default()));
    assert_eq!(label(&board, "8"), Some("y".into()));
}

/// Scenario: a pod claims another's uid with the annotation of static pods; a path has the uid of
/// one pod and the name of another. Guarantee: the other's labels stay, and no pod is found.
#[test]
fn no_pod_can_take_anothers_place() {
    let (board, now) = (PodTable::default(), Instant::now());
    board.store_pod(&metadata("1", "right", ""), &rules(), now);
    let claim = r#", "annotations": {"kubernetes.io/config.mirror": "1"},
        "ownerReferences": [{"kind": "Node"}]"#;
    board.store_pod(&metadata("2", "wrong", claim), &rules(), now);
    board.mark_deleted(&metadata("2", "wrong", claim), now);
    assert_eq!(label(&board, "1"), Some("right".into()));
    assert_eq!(board.find_pod("1", "s", "other"), None);
    assert_eq!(board.find_pod("1", "other", "p"), None);
}
