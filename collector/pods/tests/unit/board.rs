//! Tests of what `board.rs` keeps to itself.

use super::*;

fn rules() -> Rules {
    Rules {
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

fn label(board: &Board, uid: &str) -> Option<String> {
    Some(board.find(uid, "s", "p")?.attributes.last()?.1.clone())
}

/// Scenario: a pod comes, is told again unchanged, changes, goes, and its time is over.
/// Guarantee: it is known until then and as it is; only changes give another version.
#[test]
fn a_pod_is_known_until_a_while_after_it_is_gone() {
    let (board, now) = (Board::default(), Instant::now());
    assert_eq!(board.put(&metadata("1", "x", ""), &rules(), now), Some(Stored::default()));
    let version = board.version();
    board.put(&metadata("1", "x", ""), &rules(), now);
    assert_eq!((board.version(), label(&board, "1")), (version, Some("x".into())));
    board.put(&metadata("1", "y", ""), &rules(), now);
    assert!(board.version() != version);
    board.gone(&metadata("1", "y", ""), now);
    assert_eq!(board.sweep(now + GONE_KEPT / 2), 1);
    assert_eq!(label(&board, "1"), Some("y".into()));
    assert_eq!(board.sweep(now + GONE_KEPT), 0);
    assert_eq!(label(&board, "1"), None);
}

/// Scenario: a pod has an annotation that can't be used; it is told again unchanged, with another
/// label, in a new list, with another such annotation, and put right. Guarantee: each fault is told
/// once, and the pod is known all the while.
#[test]
fn an_annotation_that_can_not_be_used_is_told_once() {
    let (board, now) = (Board::default(), Instant::now());
    let put = |label: &str, parser: &str| {
        let more = format!(r#", "annotations": {{"millrace.dev/logs-parser": "{parser}"}}"#);
        let stored = board.put(&metadata("1", label, &more), &rules(), now).unwrap();
        assert_eq!(self::label(&board, "1").as_deref(), Some(label));
        stored.faults.len()
    };
    assert_eq!((put("x", "xml"), put("x", "xml"), put("y", "xml")), (1, 0, 0));
    board.begin_anew(now);
    assert_eq!((put("y", "xml"), put("y", "yaml"), put("y", "yaml")), (0, 1, 0));
    assert_eq!((put("y", "json"), put("y", "yaml")), (0, 1));
}

/// Scenario: all pods are told anew, one of two is missing. Guarantee: that one is gone.
#[test]
fn a_pod_that_is_not_told_again_is_gone() {
    let (board, now) = (Board::default(), Instant::now());
    board.put(&metadata("1", "x", ""), &rules(), now);
    board.put(&metadata("2", "x", ""), &rules(), now);
    board.begin_anew(now);
    board.put(&metadata("1", "x", ""), &rules(), now);
    board.sweep(now + GONE_KEPT);
    assert_eq!((label(&board, "1"), label(&board, "2")), (Some("x".into()), None));
}

/// Scenario: more pods than may be known, with one that is gone among them, and without.
/// Guarantee: the one that is gone makes room; else the new one isn't known, and none of the
/// others is lost.
#[test]
fn pods_that_are_known_are_bounded() {
    let (board, now) = (Board::default(), Instant::now());
    for number in 0..PODS_MAX {
        board.put(&metadata(&number.to_string(), "x", ""), &rules(), now);
    }
    assert_eq!(board.put(&metadata("new", "x", ""), &rules(), now), None);
    board.gone(&metadata("7", "x", ""), now);
    assert_eq!(board.put(&metadata("new", "x", ""), &rules(), now), Some(Stored::default()));
    assert_eq!((label(&board, "7"), label(&board, "8")), (None, Some("x".into())));
    assert_eq!(board.sweep(now), PODS_MAX);
}

/// Scenario: a pod claims another's uid, by the annotation of pods from files; a path has the
/// uid of one pod and the name of another. Guarantee: the other's labels stay, and nothing is
/// found.
#[test]
fn no_pod_can_take_anothers_place() {
    let (board, now) = (Board::default(), Instant::now());
    board.put(&metadata("1", "right", ""), &rules(), now);
    let claim = r#", "annotations": {"kubernetes.io/config.mirror": "1"},
        "ownerReferences": [{"kind": "Node"}]"#;
    board.put(&metadata("2", "wrong", claim), &rules(), now);
    board.gone(&metadata("2", "wrong", claim), now);
    assert_eq!(label(&board, "1"), Some("right".into()));
    assert_eq!(board.find("1", "s", "other"), None);
    assert_eq!(board.find("1", "other", "p"), None);
}
