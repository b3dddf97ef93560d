//! Tests containers' files, and directory entries that are no logs.

use std::fs;
use std::os::unix::fs::symlink;

use millrace_config::{ContainersReceiver, FilesReceiver, Multiline, StackTraces, StartAt};
use millrace_source_files::SourceSettings;

use crate::files::rig::{Rig, numbered, text_of};
use crate::files::rotation::gzip;
use millrace_fake_publisher::Script;

/// A receiver of containers' files, and the directory of one.
fn a_pod() -> (Rig, &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let settings = ContainersReceiver {
        directory: folder.path().join("logs"),
        ..ContainersReceiver::default()
    };
    let rig = Rig::with(folder, vec![SourceSettings::Containers(settings)]);
    let place = "shop_cart-7f_12-ab/app";
    fs::create_dir_all(rig.path(place)).unwrap();
    (rig, place)
}

/// Scenario: a pod's file as the kubelet creates it, a rotated one, and a compressed one.
/// Guarantee: lines have the pod's attributes from the path, also rotated ones; no byte of the
/// compressed file is sent.
#[test]
fn containers_lines_have_their_pods_attributes() {
    let (mut rig, place) = a_pod();
    let line = |text: &str| format!("2026-11-25T04:00:00.000000001Z stdout F {text}\n");
    rig.append(&format!("{place}/2.log"), &line("second"));
    rig.append(&format!("{place}/2.log.20261125-040000"), &line("first"));
    rig.append(&format!("{place}/2.log.20261125-030000.gz"), "not text");
    rig.start();
    rig.until_exactly(vec!["first".into(), "second".into()]);
    for line in rig.publisher.records.lock().unwrap().iter() {
        for (name, value) in [
            ("k8s.namespace.name", "shop"),
            ("k8s.pod.name", "cart-7f"),
            ("k8s.pod.uid", "12-ab"),
            ("k8s.container.name", "app"),
            ("k8s.container.restart_count", "2"),
        ] {
            assert!(line.resource.contains(&(name.into(), value.into())), "{line:?}");
        }
    }
    rig.stop();
}

/// Scenario: a pod's file has a backlog when the collector is off, and the kubelet rotates and
/// compresses it. Guarantee: its remainder is sent, with the pod's attributes.
#[test]
fn the_rest_of_a_containers_compressed_file_has_its_pods_attributes() {
    let (mut rig, place) = a_pod();
    let (name, rotated) = (format!("{place}/0.log"), format!("{place}/0.log.20261125-040000"));
    let line = |text: &str| format!("2026-11-25T04:00:00.000000001Z stdout F {text}\n");
    rig.append(&name, &line("first"));
    rig.start();
    rig.until_exactly(vec!["first".into()]);
    rig.stop();
    rig.append(&name, &line("second"));
    rig.rename(&name, &rotated);
    gzip(&rig, &rotated, false);
    rig.append(&name, &line("third"));
    rig.start();
    rig.until_exactly(vec!["first".into(), "second".into(), "third".into()]);
    for line in rig.publisher.records.lock().unwrap().iter() {
        assert!(line.resource.contains(&("k8s.pod.name".into(), "cart-7f".into())), "{line:?}");
    }
    rig.stop();
}

/// Scenario: a FIFO, a socket, a device (behind a link), a directory and a link to nothing, all
/// named like logs; a link to a log elsewhere, and a log under two names. Guarantee: the former
/// block nothing and aren't read; the others are read once, with path and name.
#[test]
fn what_is_no_log_is_refused_and_links_are_followed() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    let fifo = rig.path("fifo.log");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    fs::create_dir(rig.path("folder.log")).unwrap();
    symlink("/nowhere/at/all", rig.path("broken.log")).unwrap();
    symlink("/dev/zero", rig.path("device.log")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.path("socket.log")).unwrap();
    fs::write(rig.folder.path().join("elsewhere"), text_of("e", 0, 5)).unwrap();
    symlink(rig.folder.path().join("elsewhere"), rig.path("link.log")).unwrap();
    rig.append("one.log", &text_of("o", 0, 5));
    fs::hard_link(rig.path("one.log"), rig.path("two.log")).unwrap();
    rig.start();
    rig.until_exactly([numbered("e", 0, 5), numbered("o", 0, 5)].concat());
    for line in rig.publisher.records.lock().unwrap().iter() {
        let of = |name: &str| &line.attributes.iter().find(|(key, _)| key == name).unwrap().1;
        assert!(of("log.file.path").ends_with(of("log.file.name")), "{line:?}");
    }
    rig.stop();
}

/// Scenario: a link to itself, a root that is a file and a link to a path below a file, next to
/// logs, all of which are deleted. Guarantee: the logs' lines are sent, and none of the deleted
/// files stays open.
#[test]
fn a_path_that_leads_nowhere_keeps_no_deleted_file_open() {
    let mut rig = Rig::new(&["*.log", "d/*.log"], StartAt::Beginning);
    symlink(rig.path("x.log"), rig.path("x.log")).unwrap();
    fs::write(rig.path("d"), "a file where a directory should be").unwrap();
    symlink(rig.path("d/e/f.log"), rig.path("behind.log")).unwrap();
    let names: Vec<String> = (0..30).map(|n| format!("n{n:02}.log")).collect();
    names.iter().for_each(|name| rig.append(name, &text_of(name, 0, 1)));
    rig.start();
    rig.until_exactly(names.iter().flat_map(|name| numbered(name, 0, 1)).collect());
    rig.until_metric("millrace_files_open", |open| open == 30);
    names.iter().for_each(|name| fs::remove_file(rig.path(name)).unwrap());
    rig.until_metric("millrace_files_open", |open| open == 0);
    rig.stop();
}

/// Scenario: one line of 100 MB among short ones, more than the complete budget, and a file of
/// zeros without an end of line. Guarantee: both are cut, marked and counted; the others are
/// complete.
#[test]
fn a_line_over_the_limit_is_cut_and_the_next_ones_come() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    rig.append("a.log", &text_of("a", 0, 5));
    rig.append("a.log", &format!("{}\n", "x".repeat(100_000_000)));
    rig.append("a.log", &text_of("a", 5, 10));
    fs::write(rig.path("zeros.log"), vec![0; 2_000_000]).unwrap();
    rig.start();
    rig.until_each(&numbered("a", 0, 10));
    rig.until_metric("millrace_files_cut_total", |cut| cut == 2);
    rig.until("all is read", || rig.texts().len() == 12);
    let lines = rig.publisher.records.lock().unwrap();
    let cut: Vec<_> = lines.iter().filter(|line| line.text.len() > 1000).collect();
    assert!(
        cut.iter().all(|line| line.attributes.iter().any(|(name, _)| name.contains("truncated")))
    );
    assert!(cut.iter().any(|line| line.text.bytes().all(|byte| byte == 0)));
    drop(lines);
    rig.stop();
}

/// Scenario: a sparse file of 1 TB next to others. Guarantee: it is read slice by slice, as one
/// line that is cut; its backlog is reported; the others' lines are sent in the meantime, and a
/// drain doesn't wait for it.
#[test]
fn a_sparse_file_of_a_terabyte_holds_nobody_up() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    fs::File::create(rig.path("sparse.log")).unwrap().set_len(1 << 40).unwrap();
    rig.start();
    rig.until_metric("millrace_files_cut_total", |cut| cut == 1);
    for turn in 0..3 {
        rig.append("a.log", &text_of("a", turn * 5, turn * 5 + 5));
        rig.until_each(&numbered("a", 0, turn * 5 + 5));
    }
    rig.until_metric("millrace_files_behind_bytes", |bytes| bytes > 1 << 39);
    rig.stop();
}

/// Scenario: a record of three lines, the last for now. Guarantee: it is complete when no further
/// line has come for the time-out, and a restart repeats nothing.
#[test]
fn lines_that_belong_together_come_as_one_after_the_time_out() {
    let folder = tempfile::tempdir().unwrap();
    let settings = FilesReceiver {
        include: vec![format!("{}/logs/*.log", folder.path().display())],
        start_at: StartAt::Beginning,
        multiline: Some(Multiline { indented: true, timeout_millis: 300, ..Multiline::default() }),
        ..FilesReceiver::default()
    };
    let mut rig = Rig::with(folder, vec![SourceSettings::Files(settings)]);
    rig.append("a.log", "panic\n  at one\n  at two\n");
    rig.start();
    let trace = "panic\n  at one\n  at two".to_owned();
    rig.until_exactly(vec![trace.clone()]);
    rig.stop();
    rig.append("a.log", "next\n");
    rig.start();
    rig.until_exactly(vec![trace, "next".into()]);
    rig.stop();
}

/// Scenario: settings name a runtime, whose trace a program prints below its own line. Guarantee:
/// the trace is one record with the line before it; other lines are separate records.
#[test]
fn traces_of_a_runtime_that_the_settings_name_are_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let settings = FilesReceiver {
        include: vec![format!("{}/logs/*.log", folder.path().display())],
        start_at: StartAt::Beginning,
        multiline: Some(Multiline {
            stack_traces: Some(StackTraces::Java),
            timeout_millis: 300,
            ..Multiline::default()
        }),
        ..FilesReceiver::default()
    };
    let mut rig = Rig::with(folder, vec![SourceSettings::Files(settings)]);
    let first = "10:00 failed\njava.io.IOException: gone\n\tat a.B.c(B.java:1)\n\
                 Caused by: java.lang.Error: x\n\t... 2 more";
    rig.append("a.log", &format!("10:00 begun\n{first}\n10:01 goes on\n"));
    rig.start();
    rig.until_exactly(vec!["10:00 begun".into(), first.into(), "10:01 goes on".into()]);
    rig.stop();
}

/// Scenario: the drain's deadline passes while everything is refused. Guarantee: the receiver
/// reports that not all lines are confirmed, and the next process sends them.
#[test]
fn a_drain_that_leaves_lines_unconfirmed_says_so_and_they_come_later() {
    let mut rig = Rig::new(&["*.log"], StartAt::Beginning);
    rig.script(Script::Refuse);
    rig.append("a.log", &text_of("a", 0, 5));
    rig.start();
    rig.until("a try", || rig.publisher.attempt_count() >= 1);
    assert!(!rig.stop_now());
    rig.script(Script::Deliver);
    rig.start();
    rig.until_exactly(numbered("a", 0, 5));
    rig.stop();
}
