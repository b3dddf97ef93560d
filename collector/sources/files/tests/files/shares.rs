//! Tests the namespaces' shares of a full pipeline.

use std::fs;

use millrace_config::{ContainersReceiver, FilesReceiver, Multiline, NamespaceWeight, StartAt};
use millrace_source_files::SourceSettings;

use crate::files::rig::Rig;

const MIB: usize = 1024 * 1024;

/// The bytes of one read of a file.
const TURN_BYTES: usize = 256 * 1024;

/// Writes this much text to a namespace's file.
fn write(rig: &Rig, namespace: &str, pod: usize, bytes: usize) {
    let folder = format!("{namespace}_p{pod}_{namespace}{pod}/app");
    fs::create_dir_all(rig.path(&folder)).unwrap();
    let rest = "x".repeat(4096);
    let line = format!("2026-11-25T04:00:00.1Z stdout F {namespace} {rest}\n");
    rig.append(&format!("{folder}/0.log"), &line.repeat(bytes.div_ceil(line.len())));
}

/// Scenario: two namespaces have more than can be sent at once, with weights 3 and 1, the lighter
/// one in four files; a third has one line. Guarantee: while both have something to read, their
/// bytes are 3 to 1 within 10 %; the quiet one's line waits for at most one read of each.
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

/// Scenario: files of two sources with as much text, one of them by a pattern of the settings that
/// takes a hundred times as long. Guarantee: the other's lines don't wait for it: all are sent when
/// a quarter of it was read.
#[test]
fn a_costly_pattern_is_at_its_own_sources_expense() {
    const LINE_BYTES: usize = 16 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let files = |name: &str, start: Option<&str>| {
        SourceSettings::Files(FilesReceiver {
            include: vec![format!("{}/logs/{name}.log", folder.path().display())],
            start_at: StartAt::Beginning,
            multiline: start
                .map(|start| Multiline { start: Some(start.into()), ..Multiline::default() }),
            ..FilesReceiver::default()
        })
    };
    let sources = vec![files("costly", Some("^[ab]*a[ab]{300}Z")), files("usual", None)];
    let mut rig = Rig::with(folder, sources);
    // Random letters: with others the pattern's states would soon all be known.
    let mut chance = 1_u64;
    let mut letter = |_| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if chance >> 63 == 0 { 'a' } else { 'b' }
    };
    let lines: Vec<String> = (0..8 * MIB / LINE_BYTES)
        .map(|_| (1..LINE_BYTES).map(&mut letter).chain(['\n']).collect())
        .collect();
    rig.append("costly.log", &lines.concat());
    rig.append("usual.log", &lines.iter().map(|line| format!("usual {line}")).collect::<String>());
    rig.start();
    rig.until("the usual lines", || {
        let texts = rig.texts();
        texts.iter().filter(|text| text.starts_with("usual")).count() == lines.len()
    });
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes < 10 * MIB as u64);
    let _ = rig.stop_now();
}
