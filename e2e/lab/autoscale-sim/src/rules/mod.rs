//! The rules that are played: ours, and models of others. A model follows its original's published
//! formula and defaults; each file names its source and what it leaves out.

mod flink;
mod hpa;
mod keda;
mod numaflow;
mod ours;

pub use flink::Flink;
pub use hpa::Cpu;
pub use keda::Keda;
pub use numaflow::Numaflow;
pub use ours::Ours;

use crate::signals::Seen;

/// What a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Pods.
    pub size: u32,
    /// Memory limit of a pod in bytes, where the rule sets one.
    pub memory_limit: Option<f64>,
}

impl Wish {
    /// Pods only.
    #[must_use]
    pub const fn size(size: u32) -> Self {
        Self { size, memory_limit: None }
    }
}

/// A rule with its memory.
pub trait Rule {
    /// Its name, as in the table.
    fn name(&self) -> &'static str;
    /// How often it decides.
    fn period_seconds(&self) -> usize;
    /// Decides.
    fn decide(&mut self, seen: &Seen) -> Wish;
    /// Why it decided so, where it can tell.
    fn why(&self) -> String {
        String::new()
    }
}

/// A fresh instance of each rule, ours first.
#[must_use]
pub fn all() -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(Ours::default()),
        Box::new(Keda::with_default_threshold()),
        Box::new(Keda::tuned()),
        Box::new(Flink::default()),
        Box::new(Numaflow::default()),
        Box::new(Cpu::default()),
    ]
}
