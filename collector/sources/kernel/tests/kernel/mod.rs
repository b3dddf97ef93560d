//! Tests of reading the kernel's log, with a stand-in device that returns one record per read, and
//! a scripted publisher.

mod rig;

use std::fs;
use std::path::Path;

use millrace_source_kernel::{Log, Machine, StartError};

use millrace_fake_publisher::Script;
use rig::{BOOT, Rig};

/// Scenario: records exist at the first start, more follow, the receiver ends, more follow, it
/// starts again. Guarantee: each arrives once, in order, with its attributes and its machine.
#[tokio::test]
async fn each_record_comes_once_over_a_restart() {
    let mut rig = Rig::new();
    rig.write(0..3);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..3).await;
    rig.write(3..5);
    rig.until_texts(0..5).await;
    rig.stop(true).await;
    rig.write(5..7);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..7).await;
    rig.stop(true).await;
    let came = rig.came();
    assert_eq!(came[1].resource, [("k8s.node.name".to_owned(), "node-1".to_owned())]);
    let (uid, device) = (format!("{BOOT}:1"), "+pci:1".to_owned());
    assert_eq!(came[1].find_attribute("log.record.uid"), Some(&uid));
    assert_eq!(came[1].find_attribute("kernel.device"), Some(&device));
    assert_eq!(came[1].severity, (13, "warning".to_owned()));
    // The stand-in's clock is the machine's: its records are a second apart.
    assert_eq!(came[2].time_unix_nano - came[1].time_unix_nano, 1_000_000_000);
}

/// Scenario: unread records are overwritten while the receiver is off, then while it waits for the
/// publisher. Guarantee: the remaining ones arrive, the missing ones are counted by number.
#[tokio::test]
async fn overwritten_records_are_counted_by_their_numbers() {
    let mut rig = Rig::new();
    rig.write(0..4);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..4).await;
    rig.stop(true).await;
    rig.write(4..20);
    rig.overwrite(12);
    rig.start(BOOT).unwrap();
    rig.until_texts((0..4).chain(12..20)).await;
    assert_eq!(rig.metric("millrace_kernel_lost_records_total"), 8);
    rig.write([25]);
    rig.until_texts((0..4).chain(12..20).chain([25])).await;
    assert_eq!(rig.metric("millrace_kernel_lost_records_total"), 13);
    assert_eq!(rig.metric("millrace_kernel_records_total"), 9);
    rig.stop(true).await;
}

/// Scenario: the machine boots while the receiver is off; two records of the new boot are
/// overwritten before it starts. Guarantee: reading begins with the oldest; the two are counted.
#[tokio::test]
async fn another_boot_is_read_from_its_oldest_record() {
    let mut rig = Rig::new();
    rig.write(0..6);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..6).await;
    rig.stop(true).await;
    rig.overwrite(u64::MAX);
    rig.write(2..4);
    rig.start("another").unwrap();
    rig.until_texts((0..6).chain(2..4)).await;
    assert_eq!(rig.metric("millrace_kernel_lost_records_total"), 2);
    rig.stop(true).await;
}

/// Scenario: the publisher refuses, then fails, then accepts records without an answer, and the
/// receiver's deadline passes. Guarantee: no position was stored, so all records arrive again; once
/// confirmed they never do.
#[tokio::test]
async fn a_position_means_that_records_are_confirmed() {
    // A request that is held isn't sent again.
    for (script, tries) in [(Script::Refuse, 2), (Script::Fail, 2), (Script::Hold, 1)] {
        let mut rig = Rig::new();
        rig.write(0..3);
        rig.start(BOOT).unwrap();
        rig.until_texts(0..3).await;
        rig.script(script);
        rig.write(3..5);
        rig.until(|rig| rig.tries() >= tries).await;
        rig.stop(false).await;
        rig.forget_after(3);
        rig.script(Script::Deliver);
        rig.start(BOOT).unwrap();
        rig.until_texts(0..5).await;
        rig.stop(true).await;
    }
}

/// Scenario: the publisher refuses some attempts, then accepts. Guarantee: each record arrives
/// once.
#[tokio::test]
async fn what_is_refused_is_sent_again() {
    let mut rig = Rig::new();
    rig.script(Script::Refuse);
    rig.write(0..3);
    rig.start(BOOT).unwrap();
    rig.until(|rig| rig.tries() >= 3).await;
    rig.script(Script::Deliver);
    rig.write(3..4);
    rig.until_texts(0..4).await;
    rig.stop(true).await;
}

/// Scenario: the position's file is torn, then the former one as well. Guarantee: the former one is
/// used, then the log is read from the oldest record: in neither case is a record skipped.
#[tokio::test]
async fn a_torn_position_skips_nothing() {
    let mut rig = Rig::new();
    let tear = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..30]).unwrap();
    let position = |rig: &Rig, name: &str| rig.positions().join("kernel").join(name);
    rig.write(0..2);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..2).await;
    rig.write(2..3);
    rig.until_texts(0..3).await;
    rig.stop(true).await;
    tear(&position(&rig, "positions"));
    rig.start(BOOT).unwrap();
    rig.until_texts((0..3).chain(2..3)).await;
    rig.stop(true).await;
    tear(&position(&rig, "positions"));
    tear(&position(&rig, "positions.previous"));
    rig.start(BOOT).unwrap();
    rig.until_texts((0..3).chain(2..3).chain(0..3)).await;
    rig.stop(true).await;
}

/// Scenario: a read of the log fails; the position lies beyond the log. Guarantee: the log is
/// opened again and continued without a repeat; or it is read from its oldest record.
#[tokio::test]
async fn a_log_that_fails_or_is_not_the_one_on_record_is_opened_again() {
    let mut rig = Rig::new();
    rig.write(0..5);
    rig.start(BOOT).unwrap();
    rig.until_texts(0..5).await;
    rig.fail();
    rig.write(5..7);
    rig.until_texts(0..7).await;
    rig.stop(true).await;
    rig.overwrite(u64::MAX);
    rig.write(0..2);
    rig.start(BOOT).unwrap();
    rig.until_texts((0..7).chain(0..2)).await;
    rig.stop(true).await;
}

/// Scenario: records don't have the kernel's form, or aren't UTF-8. Guarantee: they arrive as they
/// are, and are counted.
#[tokio::test]
async fn odd_records_are_kept_and_counted() {
    let mut rig = Rig::new();
    rig.write_raw(7, b"no head".to_vec());
    rig.write_raw(8, b"6,8,1,-;\\xff".to_vec());
    rig.start(BOOT).unwrap();
    rig.until(|rig| rig.came().len() == 2).await;
    let texts: Vec<String> = rig.came().into_iter().map(|record| record.text).collect();
    assert_eq!(texts, ["no head", "\u{fffd}"]);
    assert_eq!(rig.metric("millrace_kernel_unparsed_total"), 1);
    assert_eq!(rig.metric("millrace_kernel_invalid_utf8_total"), 1);
    rig.stop(true).await;
}

/// Scenario: the device is missing, a file, another device, or forbidden as by a container's device
/// cgroup. Guarantee: the start fails with the action to take.
#[tokio::test]
async fn a_log_that_cannot_be_opened_says_what_to_do() {
    let refused = |log: Log| match Rig::new().start_with(log, Machine::Host("h".into())) {
        Err(error @ StartError::Open { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let missing = refused(Log::from_device(Path::new("/nowhere/kmsg")).unwrap());
    assert!(missing.contains("hostPath, type CharDevice"), "{missing}");
    for path in ["/proc/version", "/dev/null"] {
        let said = refused(Log::from_device(Path::new(path)).unwrap());
        assert!(said.contains("it is not the kernel log"), "{said}");
    }
    let forbidden = Log::new("/dev/kmsg", BOOT, || Err(rustix::io::Errno::PERM.into()));
    let said = refused(forbidden);
    assert!(said.contains("run the container privileged"), "{said}");
}
