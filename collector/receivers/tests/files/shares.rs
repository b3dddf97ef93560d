//! What namespaces get of a full pipeline.

use std::fs;

use millrace_config::{ContainersReceiver, NamespaceWeight};
use millrace_receivers::files::SourceSettings;

use crate::rig::Rig;

const MIB: usize = 1024 * 1024;

/// What one file's turn is.
const TURN_BYTES: usize = 256 * 1024;

/// A namespace's file with this much text.
fn write(rig: &Rig, namespace: &str, pod: usize, bytes: usize) {
    let folder = format!("{namespace}_p{pod}_{namespace}{pod}/app");
    fs::create_dir_all(rig.path(&folder)).unwrap();
    let rest = "x".repeat(4096);
    let line = format!("2026-11-25T04:00:00.1Z stdout F {namespace} {rest}\n");
    rig.append(&format!("{folder}/0.log"), &line.repeat(bytes.div_ceil(line.len())));
}

/// Scenario: two namespaces have more than can be sent at once, with weights 3 and 1, the lighter
/// one in four files; a third has one line. Guarantee: while both have something to be read, their
/// bytes are 3 to 1 within 10 %; the quiet one's line waits for a turn of each at most.
#[test]
fn namespaces_get_bytes_by_weight_and_a_quiet_one_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("logs");
    let weights = vec![NamespaceWeight { namespace: "shop".into(), weight: 3 }];
    let receiver = ContainersReceiver { directory, weights, ..ContainersReceiver::default() };
    let mut rig = Rig::with(folder, vec![SourceSettings::Containers(receiver)]);
    write(&rig, "shop", 0, 18 * MIB);
    (0..4).for_each(|pod| write(&rig, "batch", pod, 2 * MIB));
    write(&rig, "quiet", 0, 1);
    rig.start();
    rig.until_metric("millrace_files_open", |open| open == 6);
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    let texts = rig.texts();
    let is_of = |text: &String, namespace: &str| text.starts_with(namespace);
    let shop_ends = texts.iter().rposition(|text| is_of(text, "shop")).unwrap();
    let of = |texts: &[String], namespace: &str| -> usize {
        texts.iter().filter(|text| is_of(text, namespace)).map(String::len).sum()
    };
    let (shop, batch) = (of(&texts[..shop_ends], "shop"), of(&texts[..shop_ends], "batch"));
    assert!(of(&texts[shop_ends..], "batch") > 0, "both wrote until then");
    let share = shop as f64 / batch as f64;
    assert!((2.7..=3.3).contains(&share), "{shop} to {batch} bytes: {share}");
    let quiet = texts.iter().position(|text| is_of(text, "quiet")).unwrap();
    let before: usize = texts[..quiet].iter().map(String::len).sum();
    assert!(before <= 2 * TURN_BYTES, "{before} bytes came before");
    rig.stop();
}
