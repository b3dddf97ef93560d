//! Runs one seed: some hundred actions, then a quiet phase in which everything must arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{ContainersReceiver, FilesReceiver, StartAt};
use tempfile::TempDir;

use super::super::SourceSettings;
use super::super::find::finder::FinderSettings;
use super::super::find::watch::WATCHES_MAX;
use super::book::Book;
use super::disk::{Disk, STREAMS};
use super::process::{Mode, Process, Publisher};
use millrace_seeds::Random;

/// Actions of a seed: with 4,000 seeds a million.
const ACTIONS: usize = 250;
/// Writers of a seed.
const WRITERS: usize = 3;
/// The minimum time between two scans, as in the worker.
const LOOK: Duration = Duration::from_millis(250);
/// Scans in the quiet phase until everything has arrived: three times the 20 after which a file is
/// at its end.
const QUIET_LOOKS: usize = 60;
/// Steps between two scans of the quiet phase.
const QUIET_TURNS: usize = 40;
/// Steps of a second in which a process has sent everything that it has read: refused requests wait
/// 5 s.
const ENDING_TURNS: usize = 30;

/// Counts of events.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) lines: u64,
    pub(super) repeats: u64,
    pub(super) renames: u64,
    pub(super) copies: u64,
    pub(super) compressions: u64,
    pub(super) moves: u64,
    pub(super) deletions: u64,
    pub(super) kills: u64,
    pub(super) ends: u64,
    pub(super) failures: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.repeats += other.repeats;
        self.renames += other.renames;
        self.copies += other.copies;
        self.compressions += other.compressions;
        self.moves += other.moves;
        self.deletions += other.deletions;
        self.kills += other.kills;
        self.ends += other.ends;
        self.failures += other.failures;
    }
}

/// How a process finds changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Each scan walks all directories.
    ByWalks,
    /// Only events lead to scans.
    ByEvents,
}

/// Longer than any seed's clock runs.
pub(super) const NEVER: Duration = Duration::from_secs(1_000_000);

struct World {
    found: Found,
    random: Random,
    folder: TempDir,
    disk: Disk,
    publisher: Arc<Publisher>,
    process: Option<Process>,
    sources: Vec<SourceSettings>,
    began: Instant,
    clock: Duration,
    looked_at: Duration,
    tally: Tally,
}

/// Runs a seed. Returns the first fault as an error.
pub(super) fn run(seed: u64, found: Found) -> Result<Tally, String> {
    let mut world = World::new(seed, found);
    for _ in 0..ACTIONS {
        world.act()?;
    }
    world.quiet()?;
    Ok(world.tally)
}

/// The settings of a directory of logs.
pub(super) fn sources(folder: &TempDir, is_container: bool) -> Vec<SourceSettings> {
    let logs = folder.path().join("logs");
    vec![if is_container {
        SourceSettings::Containers(ContainersReceiver {
            directory: logs,
            ..ContainersReceiver::default()
        })
    } else {
        SourceSettings::Files(FilesReceiver {
            include: vec![format!("{}/*.log", logs.display())],
            start_at: StartAt::Beginning,
            ..FilesReceiver::default()
        })
    }]
}

impl World {
    fn new(seed: u64, found: Found) -> Self {
        let random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let is_container = seed % 2 == 1;
        let mut world = Self {
            found,
            random,
            disk: Disk::new(&folder.path().join("logs"), is_container, WRITERS),
            sources: sources(&folder, is_container),
            folder,
            publisher: Publisher::new(),
            process: None,
            began: Instant::now(),
            clock: Duration::ZERO,
            looked_at: Duration::ZERO,
            tally: Tally::default(),
        };
        // Files rotated before a first scan don't belong to a known name.
        for index in 0..WRITERS {
            world.disk.append(index, &mut world.random);
        }
        world.start();
        world.look();
        world.keep_positions();
        world
    }

    fn now(&self) -> Instant {
        self.began + self.clock
    }

    fn pass(&mut self, time: Duration) {
        self.clock += time;
        self.disk.clock += time;
    }

    fn act(&mut self) -> Result<(), String> {
        let millis = self.random.between(1, 60);
        self.pass(Duration::from_millis(millis));
        let index = self.random.below(WRITERS as u64) as usize;
        self.disk.open = self.process.as_ref().map(Process::open_inodes).unwrap_or_default();
        match self.random.below(100) {
            0..30 => self.disk.append(index, &mut self.random),
            30..36 => self.disk.linger(&mut self.random),
            36..41 => self.rotate(index),
            41..44 => {
                let compressed = self.disk.compress(&mut self.random);
                self.tally.compressions += u64::from(compressed);
            }
            44..46 => self.delete(),
            46..58 => self.look(),
            58..82 => self.turn(),
            82..86 => self.keep_positions(),
            86..94 => self.weather(),
            94..96 => self.kill(),
            96 => self.end(),
            _ => self.start(),
        }
        self.publisher.verdict()
    }

    fn rotate(&mut self, index: usize) {
        match self.random.below(10) {
            0..4 => {
                self.tally.renames += 1;
                self.disk.rename(index, &mut self.random);
            }
            4..6 if !self.disk.is_container => {
                self.tally.copies += 1;
                self.disk.copy_truncate(index, &mut self.random);
            }
            6 if !self.disk.is_container => {
                self.tally.moves += 1;
                self.disk.move_about(index);
            }
            _ => {}
        }
    }

    fn delete(&mut self) {
        self.tally.deletions += 1;
        let Self { disk, publisher, .. } = self;
        disk.delete(|text, lines| {
            publisher.with_book(|book| is_confirmed(book, text, lines.lines))
        });
    }

    fn look(&mut self) {
        let since = self.clock - self.looked_at;
        self.pass(LOOK.saturating_sub(since));
        self.looked_at = self.clock;
        let now = self.now();
        if let Some(process) = &mut self.process {
            tracing::debug!("look");
            match self.found {
                Found::ByWalks => process.look(now),
                Found::ByEvents => _ = process.look_if_needed(now),
            }
            for text in &mut self.disk.texts {
                text.seen = true;
            }
        }
    }

    fn turn(&mut self) {
        let now = self.now();
        if let Some(process) = &mut self.process {
            process.read(now);
            process.send(now, false);
        }
    }

    fn keep_positions(&mut self) {
        let now = self.now();
        if let Some(process) = &mut self.process {
            process.keep_positions(now);
            tracing::debug!("positions");
            for text in &mut self.disk.texts {
                text.recorded = text.seen;
            }
        }
    }

    fn weather(&mut self) {
        const MODES: [Mode; 8] = [
            Mode::Deliver,
            Mode::Deliver,
            Mode::Deliver,
            Mode::Refuse,
            Mode::Fail,
            Mode::LoseAnswer,
            Mode::Hold,
            Mode::Hold,
        ];
        let mode = self.random.pick(&MODES).unwrap();
        self.tally.failures += u64::from(matches!(mode, Mode::Fail | Mode::LoseAnswer));
        tracing::debug!(?mode, "publisher");
        self.publisher.set(mode);
        if self.random.once_in(2) {
            let bad = self.random.below(6) as usize;
            self.publisher.answer(|index| index != bad);
        }
    }

    fn start(&mut self) {
        if self.process.is_none() {
            tracing::debug!("start");
            let positions = self.folder.path().join("positions");
            let finding = FinderSettings {
                walk_interval: NEVER,
                watches: WATCHES_MAX,
                ..FinderSettings::default()
            };
            let publisher = &self.publisher;
            self.process = Some(Process::start(&self.sources, &positions, publisher, finding));
            self.look();
        }
    }

    fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.tally.kills += 1;
        tracing::debug!("kill");
        process.kill();
        self.gone();
        self.forget();
    }

    /// Observations that only the process knew are gone with it.
    fn forget(&mut self) {
        self.publisher.with_book(Book::kill);
        for text in &mut self.disk.texts {
            text.seen = text.recorded;
        }
    }

    /// Deleted files that weren't read to their end are lost with the process that had them open.
    fn gone(&mut self) {
        let Self { disk, publisher, .. } = self;
        for (number, text) in disk.texts.iter_mut().enumerate() {
            let is_safe = publisher.with_book(|book| is_confirmed(book, number, text.lines));
            text.lost |= text.deleted && !is_safe;
        }
    }

    /// Sends everything that was read, as at the end of a process.
    fn end(&mut self) {
        self.publisher.set(Mode::Deliver);
        self.publisher.answer(|_| true);
        let Some(mut process) = self.process.take() else { return };
        tracing::debug!("end");
        for _ in 0..ENDING_TURNS {
            self.pass(Duration::from_secs(1));
            process.send(self.now(), true);
        }
        if process.is_idle() {
            self.tally.ends += 1;
        }
        process.keep_positions(self.now());
        process.kill();
        self.gone();
        self.forget();
    }

    /// Requires that everything arrives, and that a further start repeats nothing.
    fn quiet(&mut self) -> Result<(), String> {
        self.disk.finish_all();
        self.publisher.set(Mode::Deliver);
        self.publisher.answer(|_| true);
        self.start();
        self.settle()?;
        let Self { disk, publisher, .. } = self;
        for (number, text) in disk.texts.iter().enumerate().filter(|(_, text)| !text.lost) {
            for stream in 0..STREAMS {
                let count = text.lines[stream];
                if !publisher.with_book(|book| book.has(number, stream, count)) {
                    let of = format!("of text {number}, stream {stream}, {count} lines");
                    return Err(format!("not all came {of}: {text:?}"));
                }
            }
        }
        self.end();
        let lines = self.publisher.with_book(|book| book.lines);
        self.start();
        self.settle()?;
        let (after, repeats) = self.publisher.with_book(|book| (book.lines, book.repeats));
        (self.tally.lines, self.tally.repeats) = (lines, repeats);
        let again = after - lines;
        if again > 0 {
            Err(format!("{again} lines came again after an end in order"))
        } else {
            Ok(())
        }
    }

    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..QUIET_LOOKS {
            self.look();
            for _ in 0..QUIET_TURNS {
                self.pass(Duration::from_millis(10));
                self.turn();
            }
            // The longest wait after a refusal.
            self.pass(Duration::from_secs(1));
            self.turn();
            self.publisher.verdict()?;
        }
        Ok(())
    }
}

fn is_confirmed(book: &Book, text: usize, lines: [usize; STREAMS]) -> bool {
    (0..STREAMS).all(|stream| book.all_confirmed(text, stream, lines[stream]))
}
