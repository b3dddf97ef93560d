//! One run of one case by one collector of log files: from its start to the last record at its
//! destination, or for a while at a given rate.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use memchr::memmem;
use tempfile::TempDir;

use super::agent::{Agent, Form, Setting};
use super::corpus::{self, Pod, Text, Words};
use super::http::StandIn;
use super::outcome::Outcome;
use super::seen::Seen;
use crate::case::Size;
use crate::process::profile::Profile;
use crate::process::{Subject, Usage, busiest_thread};
use crate::report::Latency;
use crate::world::World;
use crate::world::account::Account;
use crate::world::broker::Follower;

/// Between two looks at a run.
const POLL: Duration = Duration::from_millis(20);
/// The slowest peer takes under two minutes on a busy machine.
const RUN_LIMIT: Duration = Duration::from_secs(400);
/// When nothing arrives for so long, nothing more will.
const STALL: Duration = Duration::from_secs(20);
/// Collectors' shutdown deadlines are 25 s.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// A label of every pod, as our collector writes it.
const LABEL: &[u8] = b"k8s.pod.label.tier";
/// Pods of a node.
pub(super) const PODS: usize = 100;
/// A line in each of 100 files in 10 ms are 10,000 a second.
const TICK: Duration = Duration::from_millis(10);
/// From the beginning of the load until it counts.
const WARM_TICKS: u64 = 200;
/// Files of which nothing is heard, and files that are written at once.
const IDLE_FILES: u64 = 10_000;
const ACTIVE_FILES: u64 = 1_000;
/// Lines in each of these, half a second apart.
const ROUNDS: u64 = 10;
const ROUND_PAUSE: Duration = Duration::from_millis(500);
/// What a collector may still have to do after its start.
const SETTLE: Duration = Duration::from_secs(3);
/// New pods, one after another.
const NEW_PODS: u64 = 20;

/// What a run is done with.
pub(super) struct Bench<'a> {
    pub(super) world: &'a mut World,
    pub(super) agent: &'a Agent,
    pub(super) size: Size,
    /// A folder in memory for files that grow, and for positions.
    pub(super) scratch: &'a Path,
    /// The case's name.
    pub(super) name: &'a str,
    /// Where to draw the profile.
    pub(super) drawing: Option<PathBuf>,
}

/// What starts with a run and ends with it.
struct Session {
    subject: Subject,
    seen: Arc<Seen>,
    /// Messages without the label that each pod has.
    unlabeled: Arc<AtomicU64>,
    stand_in: StandIn,
    topic: String,
    profile: Option<Profile>,
    // Keep the order: the program ends before its destination and its positions go.
    _account: Option<Account>,
    _follower: Option<Follower>,
    _state: TempDir,
}

impl Session {
    fn usage(&mut self) -> Result<Usage> {
        self.subject.usage()
    }

    /// Waits until `count` records have arrived, or nothing arrives any more.
    fn until(&mut self, count: u64) -> Result<()> {
        let began = Instant::now();
        let (mut last, mut since) = (0, began);
        loop {
            let distinct = self.seen.distinct();
            self.usage()?;
            if distinct >= count || since.elapsed() > STALL {
                return Ok(());
            }
            if distinct > last {
                (last, since) = (distinct, Instant::now());
            }
            if began.elapsed() > RUN_LIMIT {
                let words = self.subject.last_words();
                bail!("{distinct} of {count} records arrived; its last words:\n{words}");
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the first records of each file, so that all are open.
    fn ready(&mut self, count: u64) -> Result<()> {
        self.until(count)?;
        if self.seen.distinct() < count {
            let words = self.subject.last_words();
            bail!("the first {count} records don't arrive; its last words:\n{words}");
        }
        Ok(())
    }

    /// Ends it, and puts what arrived into the outcome.
    fn end(self, world: &World, outcome: Outcome) -> Result<Outcome> {
        let Self { subject, seen, unlabeled, topic, profile, .. } = self;
        if let Some(profile) = profile {
            profile.finish()?;
        }
        subject.stop(STOP_LIMIT)?;
        if seen.unknown() > 0 {
            bail!("{} records arrived that nobody wrote", seen.unknown());
        }
        match unlabeled.load(Ordering::Acquire) {
            0 => {}
            count => bail!("{count} messages arrived without their pods' labels"),
        }
        world.topics.remove(&topic)?;
        let missing = seen.count() - seen.distinct();
        Ok(Outcome { missing, repeated: seen.repeated(), ..outcome })
    }
}

impl Bench<'_> {
    fn start(
        &mut self,
        root: &Path,
        form: Form,
        compression: &str,
        count: u64,
        pods: &[Pod],
    ) -> Result<Session> {
        let name = self.world.fresh_name(self.name);
        let topic = name.replace('-', "_");
        self.world.topics.make(&topic)?;
        let seen = Arc::new(Seen::new(count));
        let has_labels = self.agent.is_ours() && form == Form::Containers;
        let unlabeled = Arc::new(AtomicU64::new(0));
        let follower = if self.agent.speaks_kafka() {
            let (taking, counting) = (Arc::clone(&seen), Arc::clone(&unlabeled));
            let take = move |payload: &[u8]| {
                if has_labels && memmem::find(payload, LABEL).is_none() {
                    counting.fetch_add(1, Ordering::AcqRel);
                }
                taking.take(payload);
            };
            Some(self.world.topics.follow(&topic, take)?)
        } else {
            None
        };
        let names: Vec<String> = pods.iter().map(|pod| pod.name.clone()).collect();
        let stand_in = StandIn::start(Arc::clone(&seen), &names)?;
        let account = has_labels.then(|| Account::new(stand_in.address())).transpose()?;
        let state = tempfile::tempdir_in(self.scratch)?;
        let config = self.world.file(&format!("{name}.yaml"));
        let launch = self.agent.launch(&Setting {
            root,
            state: state.path(),
            form,
            broker: self.world.topics.bootstrap(),
            topic: &topic,
            compression,
            stand_in: &stand_in.url(),
            account: account.as_ref(),
            config: &config,
        })?;
        fs::write(&config, &launch.settings)?;
        let variables: Vec<(&str, &str)> =
            launch.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let subject = Subject::start(
            self.agent.name(),
            &launch.program,
            &launch.arguments,
            &variables,
            &self.world.file(&format!("{name}.log")),
        )?;
        let data = self.world.file(&format!("{name}.perf"));
        let drawing = self.drawing.as_deref();
        let profile = drawing.map(|it| Profile::start(subject.pid(), &data, it)).transpose()?;
        Ok(Session {
            subject,
            seen,
            unlabeled,
            stand_in,
            topic,
            profile,
            _account: account,
            _follower: follower,
            _state: state,
        })
    }

    /// Reads files that are there.
    pub(super) fn drain(
        &mut self,
        (root, pods): (&Path, &[Pod]),
        (form, compression): (Form, &str),
        (records, bytes): (u64, u64),
    ) -> Result<Outcome> {
        let mut session = self.start(root, form, compression, records, pods)?;
        session.until(records)?;
        let wall_seconds = session.subject.started().elapsed().as_secs_f64();
        let usage = session.usage()?;
        let thread_seconds = busiest_thread(session.subject.pid())?;
        let outcome = Outcome {
            records,
            bytes,
            cpu_seconds: usage.cpu_seconds,
            thread_seconds: self.agent.is_ours().then_some(thread_seconds),
            wall_seconds,
            peak_bytes: usage.peak_bytes,
            ..Outcome::default()
        };
        session.end(self.world, outcome)
    }

    /// 100 pods, of which each writes 100 lines a second.
    pub(super) fn steady(&mut self) -> Result<Outcome> {
        let folder = tempfile::tempdir_in(self.scratch)?;
        let seconds = if self.size == Size::Full { 20 } else { 10 };
        let each = PODS as u64;
        let ticks = WARM_TICKS + seconds * 100;
        let mut words = Words::new(ticks);
        let (pods, mut logs) = node(folder.path(), &mut words)?;
        let count = (ticks + 1) * each;
        let mut session = self.start(folder.path(), Form::Containers, "zstd", count, &pods)?;
        session.ready(each)?;
        thread::sleep(SETTLE);
        let began = Instant::now();
        let mut warm = (began, Usage::default());
        let mut written = Vec::new();
        for tick in 0..ticks {
            let due = began + TICK * u32::try_from(tick)?;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if tick == WARM_TICKS {
                warm = (Instant::now(), session.usage()?);
            }
            written.push(session.seen.micros(Instant::now()));
            for (log, number) in logs.iter_mut().zip((tick + 1) * each..) {
                log.write_all(words.record(Text::Container, number).as_bytes())?;
            }
        }
        let wall_seconds = warm.0.elapsed().as_secs_f64();
        let usage = session.usage()?;
        session.until(count)?;
        let latencies = (WARM_TICKS..ticks)
            .flat_map(|tick| (0..each).map(move |place| (tick, (tick + 1) * each + place)));
        let latencies = latencies.filter_map(|(tick, number)| {
            let at = written.get(usize::try_from(tick).ok()?)?;
            Some(session.seen.arrival(number)?.saturating_sub(*at))
        });
        let outcome = Outcome {
            records: (ticks - WARM_TICKS) * each,
            bytes: (ticks - WARM_TICKS) * each * corpus::CONTAINER_BYTES as u64,
            cpu_seconds: usage.cpu_seconds - warm.1.cpu_seconds,
            wall_seconds,
            rss_bytes: Some(usage.rss_bytes),
            peak_bytes: usage.peak_bytes,
            cores: Some((usage.cpu_seconds - warm.1.cpu_seconds) / wall_seconds),
            latency: Latency::of(latencies.collect()),
            ..Outcome::default()
        };
        session.end(self.world, outcome)
    }

    /// 10,000 files of which nothing is heard and 1,000 that are written at once: first none is
    /// written for a while, then these.
    pub(super) fn many(&mut self) -> Result<Outcome> {
        let folder = tempfile::tempdir_in(self.scratch)?;
        let files = IDLE_FILES + ACTIVE_FILES;
        let path = |number: u64| folder.path().join(format!("service-{number:05}.log"));
        let mut words = Words::new(files);
        for number in 0..files {
            fs::write(path(number), words.record(Text::Plain, number))?;
        }
        let count = files + ACTIVE_FILES * ROUNDS;
        let mut session = self.start(folder.path(), Form::Lines, "zstd", count, &[])?;
        session.ready(files)?;
        thread::sleep(SETTLE);
        let (before, began) = (session.usage()?, Instant::now());
        thread::sleep(Duration::from_secs(if self.size == Size::Full { 20 } else { 10 }));
        let idle = session.usage()?;
        let idle_cores = (idle.cpu_seconds - before.cpu_seconds) / began.elapsed().as_secs_f64();
        let (began, records) = (Instant::now(), ACTIVE_FILES * ROUNDS);
        for round in 0..ROUNDS {
            for file in 0..ACTIVE_FILES {
                let record = words.record(Text::Plain, files + round * ACTIVE_FILES + file);
                let log = OpenOptions::new().append(true).open(path(IDLE_FILES + file));
                log?.write_all(record.as_bytes())?;
            }
            thread::sleep(ROUND_PAUSE);
        }
        session.until(count)?;
        let usage = session.usage()?;
        let outcome = Outcome {
            records,
            bytes: records * corpus::PLAIN_BYTES as u64,
            cpu_seconds: usage.cpu_seconds - idle.cpu_seconds,
            wall_seconds: began.elapsed().as_secs_f64(),
            rss_bytes: Some(idle.rss_bytes),
            peak_bytes: usage.peak_bytes,
            idle_cores: Some(idle_cores),
            ..Outcome::default()
        };
        session.end(self.world, outcome)
    }

    /// New pods beside 100 that are quiet: from before a pod's directory is made until its first
    /// line is at its destination.
    pub(super) fn first_line(&mut self) -> Result<Outcome> {
        let folder = tempfile::tempdir_in(self.scratch)?;
        let each = PODS as u64;
        let mut words = Words::new(each);
        let (pods, _) = node(folder.path(), &mut words)?;
        let count = each + NEW_PODS;
        let mut session = self.start(folder.path(), Form::Containers, "zstd", count, &pods)?;
        session.ready(each)?;
        thread::sleep(SETTLE);
        let (before, began) = (session.usage()?, Instant::now());
        let mut latencies = Vec::new();
        for number in each..count {
            // Prime, so as not to beat with anyone's timer.
            thread::sleep(Duration::from_millis(617));
            let at = session.seen.micros(Instant::now());
            let pod = corpus::make_pod(folder.path(), usize::try_from(number)?)?;
            fs::write(&pod.log, words.record(Text::Container, number))?;
            session.stand_in.add_pod(&pod.name);
            session.until(number + 1)?;
            let arrival = session.seen.arrival(number);
            latencies.extend(arrival.map(|arrival| arrival.saturating_sub(at)));
        }
        let usage = session.usage()?;
        let outcome = Outcome {
            records: NEW_PODS,
            bytes: NEW_PODS * corpus::CONTAINER_BYTES as u64,
            cpu_seconds: usage.cpu_seconds - before.cpu_seconds,
            wall_seconds: began.elapsed().as_secs_f64(),
            peak_bytes: usage.peak_bytes,
            latency: Latency::of(latencies),
            ..Outcome::default()
        };
        session.end(self.world, outcome)
    }
}

/// A node's pods, with a line in each one's log.
fn node(root: &Path, words: &mut Words) -> Result<(Vec<Pod>, Vec<File>)> {
    let mut pods = Vec::new();
    let mut logs = Vec::new();
    for number in 0..PODS {
        let pod = corpus::make_pod(root, number)?;
        let mut log = File::create(&pod.log).context("no log of a pod")?;
        log.write_all(words.record(Text::Container, number as u64).as_bytes())?;
        pods.push(pod);
        logs.push(log);
    }
    Ok((pods, logs))
}
