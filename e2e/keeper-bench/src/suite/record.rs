//! What was measured, as JSON lines in two files: one line for each round, and what was sampled
//! meanwhile. A round is on record with its whole line; half a line is what a kill left, and is cut
//! off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Results and samples of a suite.
#[derive(Debug)]
pub(crate) struct Records {
    results: Vec<Value>,
    to_results: File,
    to_samples: File,
    samples_path: PathBuf,
}

impl Records {
    /// Reads what is there.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let (results_path, samples_path) = (dir.join("results.jsonl"), dir.join("samples.jsonl"));
        let results = read(&results_path)?;
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let (to_results, to_samples) = (append(&results_path)?, append(&samples_path)?);
        Ok(Self { results, to_results, to_samples, samples_path })
    }

    pub(crate) fn has(&self, cell: &str, repeat: u32) -> bool {
        self.of(cell).any(|result| result["repeat"] == repeat)
    }

    /// A cell's rounds.
    pub(crate) fn of(&self, cell: &str) -> impl Iterator<Item = &Value> {
        self.results.iter().filter(move |result| result["cell"] == cell)
    }

    /// Everything that was sampled; a round that wasn't finished may have samples twice.
    pub(crate) fn samples(&self) -> io::Result<Vec<Value>> {
        read(&self.samples_path)
    }

    /// Samples first: a round with a result has all of them.
    pub(crate) fn add(&mut self, result: &Value, samples: &[Value]) -> io::Result<()> {
        let lines: String = samples.iter().map(|sample| format!("{sample}\n")).collect();
        self.to_samples.write_all(lines.as_bytes())?;
        self.to_results.write_all(format!("{result}\n").as_bytes())?;
        self.to_results.sync_data()?;
        self.results.push(result.clone());
        Ok(())
    }
}

/// Every whole line; the file is cut behind the last.
fn read(path: &Path) -> io::Result<Vec<Value>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    let parsed: Result<Vec<Value>, _> = text[..whole].lines().map(serde_json::from_str).collect();
    parsed.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Scenario: two rounds, the second's line cut by a kill. Guarantee: the first is on record,
    /// the second isn't, and is whole once it was measured again.
    #[test]
    fn a_suite_goes_on_where_it_was_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let round = |repeat: u32| json!({"cell": "a", "repeat": repeat});
        let mut records = Records::open(dir.path()).unwrap();
        records.add(&round(1), &[json!({"second": 0})]).unwrap();
        records.add(&round(2), &[]).unwrap();
        let path = dir.path().join("results.jsonl");
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();

        let mut records = Records::open(dir.path()).unwrap();
        assert!(records.has("a", 1) && !records.has("a", 2) && !records.has("b", 1));
        records.add(&round(2), &[]).unwrap();
        let records = Records::open(dir.path()).unwrap();
        assert_eq!(records.of("a").count(), 2);
        assert_eq!(records.samples().unwrap().len(), 1);
    }
}
