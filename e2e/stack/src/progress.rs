//! Progress lines: what the stack is doing and the time since it began.
//!
//! A line is short, whole when written, and never holds a secret. Whoever calls the library decides
//! where lines go.

use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

/// Where progress is told.
pub trait Progress: Sync {
    /// Tells one thing that begins or is done, without a line end.
    fn tell(&self, line: &str);
}

/// Writes lines such as `[  12.3s] building etcd v3.6.5 (about 30 s)` to a writer.
#[derive(Debug)]
pub struct Timed<W> {
    began: Instant,
    out: Mutex<W>,
}

impl<W: Write + Send> Timed<W> {
    /// Counts time from now on.
    pub fn new(out: W) -> Self {
        Self { began: Instant::now(), out: Mutex::new(out) }
    }
}

impl<W: Write + Send> Progress for Timed<W> {
    fn tell(&self, line: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        // A closed terminal must not stop the work, and neither does a writer's panic.
        let mut out = self.out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = writeln!(out, "[{seconds:6.1}s] {line}");
        let _ = out.flush();
    }
}

/// Tells nobody: for callers that only want the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn tell(&self, _line: &str) {}
}

#[cfg(test)]
mod tests {
    use super::{Progress, Timed};

    /// A line carries the seconds since the start, padded so that columns line up.
    #[test]
    fn a_line_starts_with_the_elapsed_seconds() {
        let timed = Timed::new(Vec::new());
        timed.tell("building etcd");
        let out = String::from_utf8(timed.out.into_inner().unwrap()).unwrap();
        let (time, rest) = out.split_at(10);
        assert!(time.starts_with("[   0.") && time.ends_with("s] "), "{out:?}");
        assert_eq!(rest, "building etcd\n");
    }
}
