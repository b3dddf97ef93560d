//! The table: {none, rename, copy-truncate, delete} x {once, many between looks, while off} x
//! {tiny, like, large}.

use std::fs;

use millrace_config::StartAt;

use crate::rig::{Rig, numbered, text_of};

/// How large a file is, in lines of some 70 bytes, and what all of them begin with.
#[derive(Clone, Copy)]
struct Size {
    lines: usize,
    banner: &'static str,
}

/// Shorter than a fingerprint.
const TINY: Size = Size { lines: 3, banner: "" };
/// The same first line in each file; later ones differ within a fingerprint's length.
const LIKE: Size = Size { lines: 60, banner: "the service begins\n" };
/// Several slices and requests.
const LARGE: Size = Size { lines: 30_000, banner: "" };
const SIZES: [Size; 3] = [TINY, LIKE, LARGE];

/// What is done to `app.log` when its number is `turn`.
type Rotate = fn(&Rig, usize);

fn rename(rig: &Rig, turn: usize) {
    rig.rename("app.log", &format!("app.log.{turn}"));
}

fn delete(rig: &Rig, _: usize) {
    fs::remove_file(rig.path("app.log")).unwrap();
}

fn copy_truncate(rig: &Rig, turn: usize) {
    fs::copy(rig.path("app.log"), rig.path(&format!("app.log.{turn}"))).unwrap();
    fs::File::create(rig.path("app.log")).unwrap();
}

fn none(_: &Rig, _: usize) {}

/// Writes the lines of a turn.
fn write(rig: &Rig, size: Size, turn: usize) -> Vec<String> {
    let name = format!("t{turn}");
    rig.append("app.log", &format!("{}{}", size.banner, text_of(&name, 0, size.lines)));
    let mut lines = numbered(&name, 0, size.lines);
    if !size.banner.is_empty() {
        lines.push(size.banner.trim_end().to_owned());
    }
    lines
}

/// One rotation, each file being read before it.
fn once(rotate: Rotate) {
    for size in SIZES {
        let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
        let mut expected = write(&rig, size, 0);
        rig.start();
        rig.until_exactly(expected.clone());
        rotate(&rig, 0);
        expected.extend(write(&rig, size, 1));
        rig.until_exactly(expected);
        rig.stop();
    }
}

/// Three rotations as fast as they go, the first file being read before them.
fn many(rotate: Rotate) {
    for size in SIZES {
        let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
        let mut expected = write(&rig, size, 0);
        rig.start();
        rig.until_exactly(expected.clone());
        for turn in 0..3 {
            rotate(&rig, turn);
            expected.extend(write(&rig, size, turn + 1));
        }
        rig.until_exactly(expected);
        rig.stop();
    }
}

/// The same between two processes, the first of which has stopped in order.
fn off(rotate: Rotate) {
    for size in SIZES {
        let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
        let mut expected = write(&rig, size, 0);
        rig.start();
        rig.until_exactly(expected.clone());
        rig.stop();
        for turn in 0..3 {
            rotate(&rig, turn);
            expected.extend(write(&rig, size, turn + 1));
        }
        rig.start();
        rig.until_exactly(expected);
        rig.stop();
    }
}

/// Scenario: nothing is rotated; it is written to while read, and while off. Guarantee: each line
/// once.
#[test]
fn without_rotation_each_line_comes_once() {
    once(none);
    many(none);
    off(none);
}

/// Scenario: renamed and made anew. Guarantee: each line once.
#[test]
fn a_file_renamed_once_is_read_to_its_end() {
    once(rename);
}

/// Scenario: renamed and made anew three times between looks. Guarantee: each line once, also those
/// of files that never had the name that is read at a look.
#[test]
fn files_renamed_many_times_between_looks_are_read_to_their_end() {
    many(rename);
}

/// Scenario: the same while nobody reads. Guarantee: each line once.
#[test]
fn files_renamed_while_off_are_read_to_their_end() {
    off(rename);
}

/// Scenario: copied and truncated. Guarantee: each line once.
#[test]
fn a_file_truncated_once_is_read_from_its_start() {
    once(copy_truncate);
}

/// Scenario: copied and truncated while off. Guarantee: each line once, those of copies as well.
#[test]
fn files_truncated_while_off_are_read_from_their_copies() {
    off(copy_truncate);
}

/// Scenario: copied and truncated three times between looks. Guarantee: each line once.
#[test]
fn files_truncated_many_times_between_looks_are_read_from_their_copies() {
    many(copy_truncate);
}

/// Scenario: deleted and made anew. Guarantee: each line once.
#[test]
fn a_file_deleted_once_is_read_to_its_end() {
    once(delete);
}

/// Scenario: deleted while behind, the publisher refusing. Guarantee: nothing of it is lost: the
/// open file is read to its end when there is room again.
#[test]
fn a_file_deleted_while_behind_is_read_to_its_end() {
    let mut rig = Rig::new(&["app.log"], StartAt::Beginning);
    rig.script(crate::rig::Script::RefuseAll);
    let expected = numbered("a", 0, 200_000);
    rig.append("app.log", &text_of("a", 0, 200_000));
    rig.start();
    rig.until_metric("millrace_files_read_bytes_total", |bytes| bytes > 0);
    delete(&rig, 0);
    rig.script(crate::rig::Script::Deliver);
    rig.until_exactly(expected);
    rig.stop();
}
