//! What was measured, as JSON lines in two files: one line for each round, and what was sampled
//! meanwhile. A round is on record with its whole line; half a line is what a kill left, and is cut
//! off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Results and samples of a suite.
#[derive(Debug)]
pub(crate) struct Records {
    run: String,
    results: Vec<Round>,
    to_results: File,
    to_samples: File,
    samples: Vec<Value>,
}

/// A round's result. Its line is kept beside it: numbers of 17 digits are not read again to the last
/// one.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) line: String,
    pub(crate) result: Value,
}

impl Records {
    /// Reads what is there. A new folder is a new run of the matrix.
    pub(crate) fn open(dir: &Path, matrix: &str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let run = run_name(&dir.join("run"), matrix)?;
        let (results_path, samples_path) = (dir.join("results.jsonl"), dir.join("samples.jsonl"));
        let round = |line: &str| Ok(Round { line: line.to_owned(), result: value(line)? });
        let results = read(&results_path, round)?;
        let samples = read(&samples_path, value)?;
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let (to_results, to_samples) = (append(&results_path)?, append(&samples_path)?);
        Ok(Self { run, results, to_results, to_samples, samples })
    }

    /// What its rows are found by, among those of other runs.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    pub(crate) fn has(&self, cell: &str, repeat: u32) -> bool {
        self.of(cell).any(|result| result["repeat"] == repeat)
    }

    /// A cell's rounds.
    pub(crate) fn of(&self, cell: &str) -> impl Iterator<Item = &Value> {
        let results = self.results.iter().map(|round| &round.result);
        results.filter(move |result| result["cell"] == cell)
    }

    /// Every round.
    pub(crate) fn rounds(&self) -> &[Round] {
        &self.results
    }

    /// Everything that was sampled.
    pub(crate) fn samples(&self) -> &[Value] {
        &self.samples
    }

    /// What was sampled in a round. One that was cut off may have left others of its name.
    pub(crate) fn samples_of(&self, result: &Value) -> Vec<&Value> {
        let time = |value: &Value, name: &str| value[name].as_u64().unwrap_or_default();
        let within = time(result, "begun_ms")..=time(result, "ended_ms");
        let is_of = |sample: &&Value| {
            sample["cell"] == result["cell"]
                && sample["repeat"] == result["repeat"]
                && within.contains(&time(sample, "time_ms"))
        };
        self.samples.iter().filter(is_of).collect()
    }

    /// Samples first: a round with a result has all of them.
    pub(crate) fn add(&mut self, result: &Value, samples: &[Value]) -> io::Result<()> {
        let lines: String = samples.iter().map(|sample| format!("{sample}\n")).collect();
        self.to_samples.write_all(lines.as_bytes())?;
        let line = result.to_string();
        self.to_results.write_all(format!("{line}\n").as_bytes())?;
        self.to_results.sync_data()?;
        self.samples.extend_from_slice(samples);
        self.results.push(Round { line, result: result.clone() });
        Ok(())
    }
}

/// The name of a run: its matrix, and when it began. It is made once and kept.
fn run_name(path: &Path, matrix: &str) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(run) if !run.trim().is_empty() => return Ok(run.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = format!("{matrix}-{}", since.as_millis());
    fs::write(path, format!("{run}\n"))?;
    Ok(run)
}

/// Every whole line; the file is cut behind the last.
fn read<T>(path: &Path, parse: impl Fn(&str) -> io::Result<T>) -> io::Result<Vec<T>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    text[..whole].lines().map(parse).collect()
}

fn value(line: &str) -> io::Result<Value> {
    serde_json::from_str(line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: two rounds, the second's line cut by a kill, and measured again. Guarantee: the
    /// first is on record, the second isn't, and is whole once it was measured again, with the
    /// samples of that time alone, and with all digits. The run keeps its name.
    #[test]
    fn a_suite_goes_on_where_it_was_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Records::open(dir.path(), "small").unwrap();
        let round = |repeat: u32, begun: u32| {
            json!({
                "cell": "a", "repeat": repeat, "begun_ms": begun, "ended_ms": begun + 9,
                "per_second": f64::from_bits(1.976_949_229_f64.to_bits() + 1),
            })
        };
        let sample =
            |repeat: u32, time: u32| json!({"cell": "a", "repeat": repeat, "time_ms": time});
        let mut records = open();
        let run = records.run().to_owned();
        records.add(&round(1, 10), &[sample(1, 11)]).unwrap();
        records.add(&round(2, 20), &[sample(2, 21)]).unwrap();
        let path = dir.path().join("results.jsonl");
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();

        let mut records = open();
        assert!(records.has("a", 1) && !records.has("a", 2) && !records.has("b", 1));
        records.add(&round(2, 30), &[sample(2, 31), sample(2, 39)]).unwrap();
        let records = open();
        assert!(run.starts_with("small-") && records.run() == run);
        assert_eq!(records.of("a").count(), 2);
        assert_eq!(records.samples().len(), 4);
        assert!(records.rounds()[1].line.contains(":1.9769492290000001,"));
        assert_eq!(records.samples_of(&round(2, 30)), [&sample(2, 31), &sample(2, 39)]);
    }
}
