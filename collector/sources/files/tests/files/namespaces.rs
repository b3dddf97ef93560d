//! Tests namespaces that are selected by their labels.

use std::fs;
use std::sync::Arc;

use millrace_config::{ContainersReceiver, LabelSelector, StartAt};
use millrace_pipeline::pods::Namespaces;
use millrace_source_files::SourceSettings;

use crate::files::rig::Rig;

/// A receiver of the reported namespaces, and two namespaces with a pod each.
fn by_label(start_at: StartAt) -> (Rig, Arc<Namespaces>) {
    let folder = tempfile::tempdir().unwrap();
    let receiver = ContainersReceiver {
        directory: folder.path().join("logs"),
        namespace_selector: Some(LabelSelector::default()),
        start_at,
        ..ContainersReceiver::default()
    };
    let mut rig = Rig::with(folder, vec![SourceSettings::Containers(receiver)]);
    let namespaces = Arc::new(Namespaces::default());
    rig.namespaces = Some(Arc::clone(&namespaces));
    for namespace in ["shop", "bank"] {
        fs::create_dir_all(rig.path(&format!("{namespace}_cart_1/app"))).unwrap();
    }
    (rig, namespaces)
}

fn write(rig: &Rig, namespace: &str, text: &str) {
    let line = format!("2026-11-25T04:00:00.1Z stdout F {text}\n");
    rig.append(&format!("{namespace}_cart_1/app/0.log"), &line);
}

fn tell(namespaces: &Namespaces, chosen: &[&str]) {
    namespaces.set_chosen(chosen.iter().map(|name| (*name).to_owned()).collect());
}

fn expected(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Scenario: existing files are to be read from their end, and for some scans the selected
/// namespaces are unknown; then they are reported. Guarantee: nothing is read before, and existing
/// files don't count as new after it: only later lines are sent.
#[test]
fn nothing_is_read_or_begun_before_namespaces_are_known() {
    let (mut rig, namespaces) = by_label(StartAt::End);
    write(&rig, "shop", "before");
    rig.start();
    rig.until("the first look", || rig.positions().join("positions").exists());
    tell(&namespaces, &["shop"]);
    rig.until_metric("millrace_files_open", |open| open == 1);
    write(&rig, "shop", "after");
    rig.until_exactly(expected(&["after"]));
    rig.stop();
}

/// Scenario: a namespace is selected late, another is deselected; the latter's file is written and
/// rotated in that time, and the process restarts; then it is selected again. Guarantee: the first
/// is read from the beginning; the other isn't read in that time and has no backlog; then it
/// continues at its position, each line once.
#[test]
fn files_follow_what_is_told_of_their_namespace() {
    let (mut rig, namespaces) = by_label(StartAt::Beginning);
    write(&rig, "shop", "s1");
    write(&rig, "bank", "b1");
    tell(&namespaces, &["shop"]);
    rig.start();
    rig.until_exactly(expected(&["s1"]));
    tell(&namespaces, &["shop", "bank"]);
    rig.until_exactly(expected(&["s1", "b1"]));
    rig.until_metric("millrace_files_open", |open| open == 2);
    tell(&namespaces, &["bank"]);
    rig.until_metric("millrace_files_open", |open| open == 1);
    write(&rig, "shop", "s2");
    write(&rig, "bank", "b2");
    rig.until_exactly(expected(&["s1", "b1", "b2"]));
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes == 0);
    rig.stop();
    rig.rename("shop_cart_1/app/0.log", "shop_cart_1/app/0.log.20261125-040000");
    write(&rig, "shop", "s3");
    write(&rig, "bank", "b3");
    rig.start();
    rig.until_exactly(expected(&["s1", "b1", "b2", "b3"]));
    tell(&namespaces, &["bank", "shop"]);
    rig.until_exactly(expected(&["s1", "b1", "b2", "b3", "s2", "s3"]));
    rig.until_metric("millrace_files_lost_bytes_total", |bytes| bytes == 0);
    rig.stop();
}

/// Scenario: files of a namespace are on record, and the next start excludes it by name; a line of
/// it is written, and one of another. Guarantee: only the other is sent.
#[test]
fn files_on_record_are_left_out_with_their_namespace() {
    let (mut rig, namespaces) = by_label(StartAt::Beginning);
    tell(&namespaces, &["shop", "bank"]);
    write(&rig, "shop", "s1");
    rig.start();
    rig.until_exactly(expected(&["s1"]));
    rig.stop();
    let SourceSettings::Containers(receiver) = &mut rig.sources[0] else { unreachable!() };
    receiver.namespace_selector = None;
    receiver.exclude_namespaces = vec!["shop".to_owned()];
    write(&rig, "shop", "s2");
    write(&rig, "bank", "b1");
    rig.start();
    rig.until_exactly(expected(&["s1", "b1"]));
    // The next scan doesn't read the file either.
    write(&rig, "shop", "s3");
    write(&rig, "bank", "b2");
    rig.until_exactly(expected(&["s1", "b1", "b2"]));
    rig.stop();
}
