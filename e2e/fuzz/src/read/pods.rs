//! What the API server tells of pods, and what pods' annotations ask: any bytes in any pieces come
//! to the same events, and what becomes of each is bounded. An annotation that can't be used
//! changes nothing that others say.
//!
//! An answer's first byte is the length of its pieces, the second one the longest event; the rest
//! is the answer. Annotations are lines: the end of a name, `=`, and a value with escapes as in
//! JSON.

use std::collections::BTreeMap;

use millrace_lines::MultilineRule as Pattern;
use millrace_pipeline::pods::{PodMultiline, Reading};
use millrace_pods::{
    ANNOTATION, Events, FAULTS_MAX, Metadata, MetadataRules, POD_BYTES_MAX, PodDescription,
    READING_BYTES_MAX, WatchEvent, WatchRefusal,
};
use serde_json::json;

use crate::meter::peak_bytes;

/// What parsing takes beside the text: strings, maps, and serde's own state.
const BYTES_BASE: usize = 1 << 16;
const BYTES_PER_BYTE: usize = 64;

/// An answer to a watch.
pub fn events(data: &[u8]) {
    let &[piece, limit, ref answer @ ..] = data else { return };
    let bytes_max = 16 + 16 * usize::from(limit);
    let whole = read(answer, answer.len().max(1), bytes_max);
    let pieces = read(answer, 1 + usize::from(piece) % 64, bytes_max);
    let shown = |events: &[Told]| format!("{events:?}");
    assert_eq!(shown(&whole), shown(&pieces), "pieces made a difference");
    let lines = answer.iter().filter(|byte| **byte == b'\n').count();
    assert!(whole.len() <= lines, "more events than lines");
    for event in whole.iter().flatten() {
        let (WatchEvent::Upserted(object)
        | WatchEvent::Deleted(object)
        | WatchEvent::Bookmark(object)) = event
        else {
            continue;
        };
        let PodDescription { pod, .. } = object.metadata.describe_pod(&rules());
        let bytes = |(name, value): &(String, String)| name.len() + value.len();
        let sum: usize = pod.attributes.iter().map(bytes).sum();
        assert!(sum <= POD_BYTES_MAX, "{sum} bytes of attributes");
        for (name, _) in &pod.attributes {
            assert!(name.starts_with("k8s."), "{name} is no attribute of Kubernetes");
        }
    }
}

type Told = Result<WatchEvent, WatchRefusal>;

/// The events up to a refusal or the end of the answer.
fn read(answer: &[u8], step: usize, bytes_max: usize) -> Vec<Told> {
    let mut events = Events::new(bytes_max);
    let mut told = Vec::new();
    for piece in answer.chunks(step) {
        events.push_piece(piece.to_vec().into());
        loop {
            match events.next_event() {
                Ok(None) => break,
                Ok(Some(event)) => told.push(Ok(event)),
                Err(refusal) => {
                    told.push(Err(refusal));
                    return told;
                }
            }
        }
    }
    told
}

fn rules() -> MetadataRules {
    let all = || vec!["*".to_owned()];
    MetadataRules {
        node: "n".to_owned(),
        labels: all(),
        annotations: all(),
        follow_annotations: true,
    }
}

/// A pod's annotations.
pub fn annotations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut annotations = BTreeMap::new();
    for line in text.lines() {
        let (end, value) = line.split_once('=').unwrap_or((line, ""));
        let unescaped = serde_json::from_str::<String>(&format!("\"{value}\""));
        let value = unescaped.unwrap_or_else(|_| value.to_owned());
        annotations.insert(format!("{ANNOTATION}{end}"), value);
    }
    let (all, bytes) = peak_bytes(|| made(&annotations));
    let length: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    // A pattern is compiled to see whether it can be, within a bound of its own.
    assert!(bytes <= PATTERN_BYTES + BYTES_BASE + BYTES_PER_BYTE * length, "{bytes} bytes");
    let PodDescription { pod, faults, .. } = all;
    assert!(faults.len() <= FAULTS_MAX);
    for fault in &faults {
        let text = fault.to_string();
        assert!(text.starts_with(ANNOTATION) && text.contains(" is invalid: "), "{text}");
    }
    for reading in pod.containers.values().chain([&pod.reading]) {
        if let Some(PodMultiline::Start(pattern)) = &reading.multiline {
            assert!(pattern.starts_with('^') && pattern.chars().count() <= 256, "{pattern}");
            assert!(Pattern::from_foreign_pattern(pattern).is_ok(), "{pattern} was taken");
        }
    }
    if length > READING_BYTES_MAX {
        return;
    }
    // Each says by itself what it says beside the others.
    let mut wrong = 0;
    for (name, value) in &annotations {
        let alone = made(&BTreeMap::from([(name.clone(), value.clone())]));
        wrong += alone.faults.len();
        assert!(alone.faults.iter().all(|it| faults.len() == FAULTS_MAX || faults.contains(it)));
        let PodDescription { pod: alone, .. } = alone;
        for (container, said) in alone.containers {
            let beside = pod.containers.get(&container);
            assert!(beside.is_some_and(|beside| says(beside, &said)), "{name}: {beside:?}");
        }
        assert!(says(&pod.reading, &alone.reading), "{name}: {:?}", pod.reading);
    }
    assert_eq!(faults.len(), wrong.min(FAULTS_MAX), "of {annotations:?}");
}

/// Whether all of `part` is in `whole`.
fn says(whole: &Reading, part: &Reading) -> bool {
    (part.logs.is_none() || part.logs == whole.logs)
        && (part.parser.is_none() || part.parser == whole.parser)
        && (part.multiline.is_none() || part.multiline == whole.multiline)
}

/// A pattern of 128 KiB, and what the regex compiler has beside it while it works.
const PATTERN_BYTES: usize = 8 << 20;

fn made(annotations: &BTreeMap<String, String>) -> PodDescription {
    let metadata = json!({ "annotations": annotations });
    let metadata: Metadata = serde_json::from_value(metadata).unwrap_or_default();
    metadata.describe_pod(&rules())
}
