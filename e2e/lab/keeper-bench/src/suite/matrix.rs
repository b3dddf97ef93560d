//! What a suite measures: every kind of server with every load. Made from text alone.

use millrace_stack::zookeeper::{Size, Version};
use serde::Deserialize;

use crate::{inserts, workload};

/// A matrix, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    pub(crate) name: String,
    /// How often each cell is measured; the repeat's number is its seed.
    pub(crate) repeats: u32,
    /// Requests under way at once in a session.
    pipeline: u32,
    servers: Vec<ServerKind>,
    /// Ready workloads, or `inserts`.
    workloads: Vec<String>,
    sessions: Vec<u32>,
    operations: Vec<u64>,
}

/// A kind of server, and its limits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerKind {
    version: Release,
    /// One, or an ensemble of three.
    count: u8,
    /// The most heap of the JVM.
    pub(crate) heap_mib: u32,
    /// Cores of each server; none without a limit.
    pub(crate) cpus: Option<f64>,
    /// Memory of each server, heap and all.
    pub(crate) memory_mib: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Release {
    #[serde(rename = "3.9")]
    V3_9,
    #[serde(rename = "3.8")]
    V3_8,
}

/// A matrix that can't be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MatrixError {
    #[error(transparent)]
    Yaml(#[from] serde_norway::Error),
    #[error("`{0}` is empty or nought")]
    Empty(&'static str),
    #[error("count is {0}: write 1 or 3")]
    Count(u8),
    #[error("no workload is called {0}")]
    Workload(String),
    #[error("cpus is {0}: write a number from 0.01 to 1000")]
    Cpus(f64),
}

/// One load on one kind of server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) server: ServerKind,
    pub(crate) workload: String,
    pub(crate) sessions: u32,
    pub(crate) operations: u64,
    pub(crate) pipeline: u32,
}

impl Matrix {
    pub(crate) fn read(text: &str) -> Result<Self, MatrixError> {
        let matrix: Self = serde_norway::from_str(text)?;
        let empty = [
            ("repeats", matrix.repeats == 0),
            ("pipeline", matrix.pipeline == 0),
            ("servers", matrix.servers.is_empty()),
            ("workloads", matrix.workloads.is_empty()),
            ("sessions", matrix.sessions.is_empty() || matrix.sessions.contains(&0)),
            ("operations", matrix.operations.is_empty() || matrix.operations.contains(&0)),
        ];
        if let Some((field, _)) = empty.iter().find(|(_, empty)| *empty) {
            return Err(MatrixError::Empty(field));
        }
        for server in &matrix.servers {
            if server.count != 1 && server.count != 3 {
                return Err(MatrixError::Count(server.count));
            }
            if let Some(cpus) = server.cpus.filter(|cpus| !(0.01..=1000.0).contains(cpus)) {
                return Err(MatrixError::Cpus(cpus));
            }
        }
        let is_unknown = |name: &&String| *name != inserts::NAME && workload::text(name).is_none();
        match matrix.workloads.iter().find(is_unknown) {
            Some(name) => Err(MatrixError::Workload(name.clone())),
            None => Ok(matrix),
        }
    }

    /// Every cell once.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in &self.workloads {
            for &operations in &self.operations {
                for &sessions in &self.sessions {
                    cells.extend(self.servers.iter().map(|server| Cell {
                        server: server.clone(),
                        workload: workload.clone(),
                        sessions,
                        operations,
                        pipeline: self.pipeline,
                    }));
                }
            }
        }
        cells
    }

    /// Every cell with every repeat. All cells have their first before one has its second, so that
    /// what changes on the machine meanwhile doesn't hit one kind of server alone.
    pub(crate) fn rounds(&self) -> Vec<(Cell, u32)> {
        let cells = self.cells();
        let repeats = 1..=self.repeats;
        repeats.flat_map(|nth| cells.iter().cloned().map(move |cell| (cell, nth))).collect()
    }
}

impl ServerKind {
    pub(crate) fn size(&self) -> Size {
        if self.count == 3 { Size::Three } else { Size::One }
    }

    pub(crate) fn version(&self) -> Version {
        match self.version {
            Release::V3_9 => Version::V3_9,
            Release::V3_8 => Version::V3_8,
        }
    }

    /// The kind in a few words.
    pub(crate) fn name(&self) -> String {
        let mut name =
            format!("{} x{}, heap {} MiB", self.version().number(), self.count, self.heap_mib);
        if let Some(cpus) = self.cpus {
            name += &format!(", {cpus} cpu");
        }
        if let Some(memory) = self.memory_mib {
            name += &format!(", {memory} MiB");
        }
        name
    }
}

impl Cell {
    /// What it is on record by.
    pub(crate) fn name(&self) -> String {
        format!("{} / {}", self.server.name(), self.load())
    }

    /// The load alone.
    pub(crate) fn load(&self) -> String {
        let Self { workload, sessions, operations, pipeline, .. } = self;
        format!("{workload}, {sessions} sessions of {pipeline}, {operations} operations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the quick matrix; others with one thing wrong. Guarantee: every cell as often as
    /// asked, under names that differ; the wrong thing is named.
    #[test]
    fn a_matrix_has_every_cell_as_often_as_asked() {
        let quick = Matrix::read(super::super::ready("quick").unwrap()).unwrap();
        let mut names: Vec<_> = quick
            .rounds()
            .iter()
            .map(|(cell, repeat)| format!("{} {repeat}", cell.name()))
            .collect();
        assert_eq!(names.len(), 4 * 2 * 3);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 4 * 2 * 3);
        let refused = |from: &str, to: &str| {
            Matrix::read(&super::super::ready("quick").unwrap().replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused("[3, 10]", "[3, 0]"), "`sessions` is empty or nought");
        assert_eq!(refused("count: 3", "count: 2"), "count is 2: write 1 or 3");
        assert!(refused("[described-load]", "[none]").contains("called none"));
        assert!(refused("repeats", "repeat").contains("repeat"));
    }

    /// Scenario: the matrices that come along. Guarantee: they can be measured, with as many rounds
    /// as their pages say, and are found by the names that they have.
    #[test]
    fn every_matrix_that_comes_along_can_be_measured() {
        let rounds = [("quick", 24), ("inserts", 9), ("clients", 30), ("long", 9), ("full", 800)];
        for (name, rounds) in rounds {
            let matrix = Matrix::read(super::super::ready(name).unwrap()).unwrap();
            assert_eq!((matrix.name.as_str(), matrix.rounds().len()), (name, rounds));
        }
        assert_eq!(super::super::ready("none"), None);
    }
}
