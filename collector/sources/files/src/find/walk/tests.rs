//! Unit tests of `walk.rs`.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use millrace_config::FilesReceiver;

use millrace_tail::RecordedPositions;

use super::*;
use crate::{SourceSettings, restore_tail};

/// Scenario: a FIFO, a socket, a directory, and links to a device and a directory, all named like
/// logs, alongside a log and a link to one elsewhere. Guarantee: the logs are listed, each of the
/// others is reported, and the scan is complete.
#[test]
fn what_is_no_log_is_named() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(path("fifo.log")).status().unwrap().success());
    let _socket = UnixListener::bind(path("socket.log")).unwrap();
    fs::create_dir(path("folder.log")).unwrap();
    symlink("/dev/zero", path("device.log")).unwrap();
    symlink(elsewhere.path(), path("away.log")).unwrap();
    fs::write(path("app.log"), "a line\n").unwrap();
    fs::write(elsewhere.path().join("text"), "a line\n").unwrap();
    symlink(elsewhere.path().join("text"), path("link.log")).unwrap();
    let include = vec![format!("{}/*.log", folder.path().display())];
    let settings = FilesReceiver { include, ..FilesReceiver::default() };
    let mut sources = [FileSource::from_settings(&SourceSettings::Files(settings)).unwrap()];
    let tail = restore_tail(&mut sources, 10, RecordedPositions::for_first_start());
    let mut walk = DirectoryScanner::default();
    let capacity = Capacity { reserve: &mut |_| true, tail: &tail, known_files: None };
    let look = walk.scan_sources(&sources, &mut DirectoryWatcher::new(0), capacity);
    let seen: Vec<_> = look.files.into_iter().map(|seen| seen.path.to_path_buf()).collect();
    assert_eq!(seen, [path("app.log"), path("link.log")]);
    assert!(look.unlisted.is_empty());
    let mut named: Vec<_> = walk.reported.into_iter().collect();
    named.sort();
    let others = ["away.log", "device.log", "fifo.log", "folder.log", "socket.log"];
    assert_eq!(named, others.map(path));
}

/// Scenario: each error of a call that names a path, for a file and for a directory that its server
/// no longer knows. Guarantee: files may exist where the path itself can't be read or its directory
/// is stale; a path without permission hides nothing.
#[test]
fn an_error_states_whether_files_may_exist() {
    use PathFault::{Denied, LeadsNowhere, Missing, ProcessLimit, Unreadable};
    for (error, of_file, of_folder) in [
        (Errno::NOENT, Missing, Missing),
        (Errno::LOOP, LeadsNowhere, LeadsNowhere),
        (Errno::NOTDIR, LeadsNowhere, LeadsNowhere),
        (Errno::STALE, LeadsNowhere, Unreadable),
        (Errno::ACCESS, Denied, Denied),
        (Errno::PERM, Denied, Denied),
        (Errno::IO, Unreadable, Unreadable),
        (Errno::NAMETOOLONG, Unreadable, Unreadable),
        (Errno::MFILE, ProcessLimit, ProcessLimit),
    ] {
        let error = io::Error::from(error);
        let found = [false, true].map(|is_stale| PathFault::from_error(&error, || is_stale));
        assert_eq!(found, [of_file, of_folder], "{error}");
    }
}

/// Scenario: a directory and a file in it that a stale mount made unreadable. Guarantee: the
/// directory, with everything below it, counts as unlisted.
#[test]
fn a_stale_directory_is_unlisted() {
    let (mut walk, mut look) = (DirectoryScanner::default(), ScanResult::default());
    let (folder, stale) = (Path::new("/mnt/logs"), io::Error::from(Errno::STALE));
    // The file's directory isn't stale: the file alone is gone.
    walk.record_fault(Path::new("/gone.log"), Path::new("/"), &stale, &mut look);
    assert!(look.unlisted.is_empty());
    walk.record_fault(folder, folder, &stale, &mut look);
    let mut expected = UnlistedPaths::default();
    expected.insert(folder);
    assert_eq!(look.unlisted, expected);
}

/// Scenario: a link that can't be followed (its target's name is too long), in a scan without
/// capacity. Guarantee: it is unlisted, so that a file known there isn't gone.
#[test]
fn an_unreadable_path_is_unlisted_without_room_too() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("a.log");
    symlink("x".repeat(300), &link).unwrap();
    let include = vec![format!("{}/*.log", folder.path().display())];
    let settings = FilesReceiver { include, ..FilesReceiver::default() };
    let mut sources = [FileSource::from_settings(&SourceSettings::Files(settings)).unwrap()];
    let tail = restore_tail(&mut sources, 10, RecordedPositions::for_first_start());
    let capacity = Capacity { reserve: &mut |_| false, tail: &tail, known_files: None };
    let look =
        DirectoryScanner::default().scan_sources(&sources, &mut DirectoryWatcher::new(0), capacity);
    let mut expected = UnlistedPaths::default();
    expected.insert(&link);
    assert_eq!((look.unlisted, look.polled_files.len()), (expected, 0));
}

/// Scenario: ten files, and a scan with capacity for five; then the first scan's files are known,
/// and they are rotated. Guarantee: five are listed, the directory is reported; known files are
/// always listed, and so are the next files of their names.
#[test]
fn a_look_lists_no_more_files_than_it_has_memory_for() {
    let folder = tempfile::tempdir().unwrap();
    let name = |number: usize| folder.path().join(format!("{number}.log"));
    (0..10).for_each(|number| fs::write(name(number), "a line\n").unwrap());
    let include = vec![format!("{}/*.log", folder.path().display())];
    let settings = FilesReceiver { include, ..FilesReceiver::default() };
    let mut sources = [FileSource::from_settings(&SourceSettings::Files(settings)).unwrap()];
    let mut tail = restore_tail(&mut sources, 10, RecordedPositions::for_first_start());
    let mut walk = DirectoryScanner::default();
    let mut look = |tail: &Tail, most: usize| {
        let mut reserve = |files: usize| files <= most;
        let capacity = Capacity { reserve: &mut reserve, tail, known_files: None };
        walk.scan_sources(&sources, &mut DirectoryWatcher::new(0), capacity).files
    };
    let first = look(&tail, 5);
    assert_eq!(first.len(), 5);
    tail.apply_scan(&first, &UnlistedPaths::default());
    assert_eq!(look(&tail, 0), first);
    let away = tempfile::tempdir().unwrap();
    for before in &first {
        let former = away.path().join(before.path.file_name().unwrap());
        fs::rename(&before.path, former).unwrap();
        fs::write(&before.path, "another line\n").unwrap();
    }
    let names =
        |seen: &[FileObservation]| seen.iter().map(|one| one.path.clone()).collect::<Vec<_>>();
    let next = look(&tail, 0);
    assert_eq!(names(&next), names(&first));
    assert!(next.iter().zip(&first).all(|(next, first)| next.inode != first.inode));
    assert_eq!(walk.reported.into_iter().collect::<Vec<_>>(), [folder.path()]);
}
