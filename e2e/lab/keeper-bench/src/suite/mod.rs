//! `keeper-bench suite`: a matrix of servers and loads, each cell several times. Every round is on
//! record once it is over, and a suite that was stopped goes on behind it. Where it is asked for,
//! rounds are rows in ClickHouse too (`store`).
//!
//! It needs root for the limits, and Linux. It knows no ClickHouse Keeper: no package has its
//! server, so it is measured by `keeper-bench run` at its address.

mod cgroup;
mod figures;
mod matrix;
mod plot;
mod record;
mod report;
mod round;
mod store;

use std::io;
use std::path::PathBuf;

use millrace_stack::service::ServiceError;

use self::matrix::{Cell, Matrix};
use self::record::Records;
use self::store::{Store, StoreArgs, StoreError};
use crate::say;

/// The matrix that a few minutes suffice for.
const QUICK: &str = "quick";

/// The matrices that come with the program, by name.
fn ready(name: &str) -> Option<&'static str> {
    match name {
        QUICK => Some(include_str!("quick.yaml")),
        "inserts" => Some(include_str!("inserts.yaml")),
        "clients" => Some(include_str!("clients.yaml")),
        "long" => Some(include_str!("long.yaml")),
        "full" => Some(include_str!("full.yaml")),
        _ => None,
    }
}

/// A suite ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuiteError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("the matrix: {0}")]
    Matrix(#[from] matrix::MatrixError),
    #[error("cannot limit servers by control groups: {0}; run it as root, or give no limits")]
    Group(#[from] cgroup::GroupError),
    #[error(transparent)]
    Server(#[from] ServiceError),
    #[error("cannot keep results in {}: {cause}", path.display())]
    Record { path: PathBuf, cause: io::Error },
    #[error("the load of {cell} failed: {said}")]
    Load { cell: String, said: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// `suite`
#[derive(Debug, clap::Args)]
pub(crate) struct Suite {
    /// Where results, samples, report and plots go; what is there already isn't measured again.
    #[arg(long)]
    out: PathBuf,
    /// The matrix: quick (less than ten minutes), inserts, clients, long, full; or a file, as YAML.
    #[arg(long, default_value = QUICK)]
    matrix: PathBuf,
    /// How often each cell is measured, instead of what the matrix says.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: Option<u32>,
    /// Only write report and plots anew.
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(suite: &Suite) -> Result<(), SuiteError> {
    let text = match suite.matrix.to_str().and_then(ready) {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(&suite.matrix)
            .map_err(|cause| SuiteError::Read { path: suite.matrix.clone(), cause })?,
    };
    let mut matrix = Matrix::read(&text)?;
    matrix.repeats = suite.repeats.unwrap_or(matrix.repeats);
    let record = |cause| SuiteError::Record { path: suite.out.clone(), cause };
    let mut records = Records::open(&suite.out, &matrix.name).map_err(record)?;
    let store = suite.store.open(&suite.out, records.run())?;
    if let Some(store) = &store {
        store.catch_up(&records)?;
    }
    let report = |records: &Records| {
        let told = store.as_ref().map(Store::told).transpose()?;
        report::write(&suite.out, &matrix, records, told.as_ref()).map_err(record)
    };
    if !suite.report {
        let mut left: Vec<(Cell, u32)> = matrix.rounds();
        let all = left.len();
        left.retain(|(cell, repeat)| !records.has(&cell.name(), *repeat));
        say::progress(&format!("{all} rounds, {} of them on record", all - left.len()));
        for (nth, (cell, repeat)) in left.iter().enumerate() {
            let name = cell.name();
            say::progress(&format!("round {} of {}: {name}, repeat {repeat}", nth + 1, left.len()));
            let taken = |samples: &[_]| store.iter().for_each(|store| store.offer(samples));
            let (result, samples) = round::run(cell, *repeat, taken)?;
            records.add(&result, &samples).map_err(record)?;
            if let Some(store) = &store {
                store.keep(&result, &samples)?;
            }
            report(&records)?;
        }
        // By now the servers of a killed suite have ended.
        cgroup::remove_left();
    }
    report(&records)
}
