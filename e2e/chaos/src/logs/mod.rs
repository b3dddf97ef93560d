//! Log files under faults: a writer that rotates them, a collector that reads them to Kafka, a
//! gateway that stores them, and the rows they come to. Judged by the table alone, never by what a
//! collector counts.

pub mod judge;
pub mod line;
pub mod writer;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::collector::{Collector, Launch};
use millrace_e2e::lab::DRAIN_LIMIT;
use millrace_e2e::wait;

use crate::logs::judge::{Judged, Row, Window};
use crate::logs::writer::{Done, FILES, Ledger, Manner, Writer, manner, pod};
use crate::say;
use crate::world::{LAG_LIMIT, LOGS_TOPIC, MEMORY_LIMIT_MIB, READY_LIMIT, World};

/// From a line's writing to its row, whatever was struck: the time in which the world is ready
/// again and has caught up, on a machine that may have other work.
const STORED_LIMIT: Duration = READY_LIMIT.saturating_add(LAG_LIMIT);
/// Between two looks at what is stored.
const LOOK: Duration = Duration::from_secs(1);
const TABLE: &str = "otel.otel_logs";
/// After this a record of several lines is whole: longer than its writer rests between two of them,
/// even on a machine that has other work.
const RECORD_MILLIS: u32 = 10_000;

/// Everything about log files in one round.
#[derive(Debug)]
pub struct Logs {
    /// The collector that reads them.
    pub reader: Collector,
    gateway: Collector,
    writer: Writer,
    round: u64,
    folder: PathBuf,
    positions: PathBuf,
    windows: Vec<Window>,
}

impl Logs {
    /// Starts the gateway, the reader, and then the writer, below folders of their own.
    ///
    /// # Errors
    /// When one of them doesn't start.
    pub fn start(world: &World, round: u64) -> Result<Self> {
        let folder = world.lab.folder().join(format!("files-{round:x}"));
        let (logs, pods) = (folder.join("logs"), folder.join("pods"));
        for folder in [&logs, &pods] {
            fs::create_dir_all(folder)?;
        }
        let disks = world.disks.as_ref().context("this world was made without disks of its own")?;
        let positions = disks.positions.path().join(format!("{round:x}"));
        world.lab.engine.query(&format!("TRUNCATE TABLE {TABLE}"))?;
        let mut gateway = world.logs_gateway()?;
        // Nothing is there yet, so all of it is read; with damaged positions `end` would skip it.
        let settings = format!(
            "memory: {{limitBytes: {MEMORY_LIMIT_MIB}Mi}}\nreceivers:\n  containers: {{directory: \
             \"{pods}\", startAt: End}}\n  files:\n  - {{include: [\"{logs}/app-*.log\"], startAt: \
             End}}\n  - {{include: [\"{logs}/wide-*.log\"], startAt: End, encoding: UTF-16LE}}\n  \
             - {{include: [\"{logs}/trace-*.log\"], startAt: End, multiline: {{indented: true, \
             timeoutMillis: {RECORD_MILLIS}}}}}\npositions: {{directory: \"{positions}\"}}\n\
             exporters:\n  kafka:\n    connection: {{bootstrapServers: [\"{broker}\"]}}\n    topics: {{logs: {LOGS_TOPIC}}}\n",
            pods = pods.display(),
            logs = logs.display(),
            positions = positions.display(),
            broker = world.kafka.address(),
        );
        let mut reader = world.lab.launch("log-reader", &settings, Launch::default())?;
        reader.ready()?;
        gateway.ready()?;
        let present = positions.join("positions");
        wait::until("the reader's first look", STORED_LIMIT, || Ok(fs::metadata(&present)?))?;
        let writer = Writer::start(&logs, &pods, round)?;
        Ok(Self { reader, gateway, writer, round, folder, positions, windows: Vec::new() })
    }

    /// The directory of the reader's positions.
    pub fn positions(&self) -> &Path {
        &self.positions
    }

    /// Lines that each file has by now, at least.
    pub fn lines(&self) -> Vec<u64> {
        self.writer.lines()
    }

    /// By file, the number of the first line that isn't stored.
    ///
    /// # Errors
    /// When the engine doesn't answer with numbers.
    pub fn stored(&self, world: &World) -> Result<Vec<u64>> {
        let mark = line::round_mark(self.round);
        let (at, digits) = line::number_place(self.round, 0);
        let file_at = mark.len() + 1;
        let text = world.lab.engine.query(&format!(
            "SELECT file, countIf(number = place) FROM (SELECT file, number, \
             row_number() OVER (PARTITION BY file ORDER BY number) - 1 AS place FROM \
             (SELECT DISTINCT toUInt32OrZero(substring(Body, {file_at}, 2)) AS file, \
             toUInt64OrZero(substring(Body, {at}, {digits})) AS number FROM {TABLE} \
             WHERE startsWith(Body, '{mark}'))) GROUP BY file FORMAT TabSeparated"
        ))?;
        let mut stored = vec![0; FILES];
        for row in text.lines() {
            let [file, count] = numbers(row)?;
            *stored.get_mut(usize::try_from(file)?).context("a row of no file")? = count;
        }
        Ok(stored)
    }

    /// Waits until everything that is written by now is stored; what is may be deleted.
    ///
    /// # Errors
    /// When it isn't in time.
    pub fn catch_up(&self, world: &World) -> Result<()> {
        let lines = self.lines();
        let stored = wait::until("every line to be stored", STORED_LIMIT, || {
            // Each look reads the whole table, and would slow down what it waits for.
            sleep(LOOK);
            let stored = self.stored(world)?;
            let files = lines.iter().zip(&stored).enumerate();
            let behind: Vec<String> = files
                .filter(|(_, (all, done))| done < all)
                .map(|(file, (all, done))| format!("{} of file {file} from {done} on", all - done))
                .collect();
            ensure!(behind.is_empty(), "these aren't, or are behind such: {}", behind.join("; "));
            Ok(stored)
        })?;
        self.writer.are_stored(&stored);
        Ok(())
    }

    /// SIGKILL to the reader. Gives the lines that it may have read.
    ///
    /// # Errors
    /// When it had ended before.
    pub fn kill(&mut self, world: &mut World) -> Result<Vec<u64>> {
        world.note_memory_of(&mut self.reader);
        self.reader.process().still_runs().context("it ended before it was killed")?;
        self.reader.process().kill9()?;
        Ok(self.lines())
    }

    /// Starts the reader again. Gives what it has said since, once it is ready.
    ///
    /// # Errors
    /// When it isn't ready in time.
    pub fn start_reader(&mut self) -> Result<String> {
        let before = self.reader.process().output().len();
        let launch = self.reader.launched().clone();
        self.reader.relaunch(launch)?;
        self.reader.ready()?;
        Ok(self.reader.process().output().split_off(before))
    }

    /// Each of these lines may come once more.
    pub fn allow(&mut self, from: &[u64], to: &[u64]) {
        let windows = from.iter().zip(to).enumerate();
        self.windows.extend(windows.map(|(file, (from, to))| Window {
            file,
            from: *from,
            to: *to.max(from),
        }));
    }

    /// Ends the writer, waits for the last line, ends reader and gateway, and judges the rows.
    ///
    /// # Errors
    /// When a part doesn't end well, or the rows can't be read.
    pub fn end(mut self, world: &mut World) -> Result<Judged> {
        self.writer.end()?;
        let late = self.catch_up(world).err();
        world.note_memory_of(&mut self.reader);
        for collector in [&mut self.reader, &mut self.gateway] {
            let status = collector.process().terminate(DRAIN_LIMIT)?;
            ensure!(status.success(), "{} drained with {status}", collector.name());
        }
        let ledger = self.writer.ledger();
        let mut judged = self.judge(world, &ledger)?;
        judged.examples.extend(late.map(|error| format!("{error:#}")));
        let Judged { lines, repeated, bound, .. } = &judged;
        let Done { rotated, compressed, deleted } = ledger.done;
        say::progress(&format!(
            "{lines} lines in {FILES} files, {rotated} rotations, {compressed} compressed, \
             {deleted} deleted, {repeated} lines repeated of {bound} allowed"
        ));
        if judged.missing + judged.altered + judged.invented + judged.unexplained == 0 {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(judged)
    }

    fn judge(&self, world: &World, ledger: &Ledger) -> Result<Judged> {
        let (mut judged, mut known) = (Judged::default(), 0);
        for (file, written) in ledger.files.iter().enumerate() {
            let rows = self.rows(world, file)?;
            known += rows.len() as u64;
            judged.add(self.round, file, written, &rows, &self.windows);
            if manner(file) == Manner::Kubelet {
                judged.altered += self.of_other_pods(world, file)?;
            }
        }
        let all: u64 = count(world, "1")?;
        judged.invented += all.saturating_sub(known);
        Ok(judged)
    }

    fn rows(&self, world: &World, file: usize) -> Result<Vec<Row>> {
        let (at, digits) = line::number_place(self.round, file);
        let text = world.lab.engine.query(&format!(
            "SELECT toUInt64OrZero(substring(Body, {at}, {digits})), \
             toUnixTimestamp64Nano(Timestamp), length(Body), CRC32(Body) FROM {TABLE} \
             WHERE startsWith(Body, '{}') FORMAT TabSeparated",
            line::file_mark(self.round, file),
        ))?;
        let row = |line| {
            let [number, time, bytes, crc] = numbers(line)?;
            Ok(Row { number, time, bytes, crc: u32::try_from(crc)? })
        };
        text.lines().map(row).collect()
    }

    /// Rows of a container's file that don't say whose it is.
    fn of_other_pods(&self, world: &World, file: usize) -> Result<u64> {
        let (mark, pod) = (line::file_mark(self.round, file), pod(file));
        count(
            world,
            &format!(
                "startsWith(Body, '{mark}') AND (ResourceAttributes.`k8s.pod.name`::String != \
                 '{pod}' OR ResourceAttributes.`k8s.namespace.name`::String != 'chaos' OR \
                 ResourceAttributes.`k8s.container.name`::String != 'app')"
            ),
        )
    }
}

fn count(world: &World, condition: &str) -> Result<u64> {
    let text = world.lab.engine.query(&format!("SELECT count() FROM {TABLE} WHERE {condition}"))?;
    let [count] = numbers(text.trim())?;
    Ok(count)
}

fn numbers<const N: usize>(line: &str) -> Result<[u64; N]> {
    let numbers: Vec<u64> = line.split('\t').map(str::parse).collect::<Result<_, _>>()?;
    numbers.try_into().map_err(|_| anyhow::anyhow!("not {N} numbers: {line}"))
}
