//! Where a session's requests come from: made from a seed, or recorded. It says when the next one
//! is due and writes it; it sends nothing.

pub(crate) mod pace;
pub(crate) mod replay;

use crate::source::pace::{Due, Schedule};
use crate::source::replay::Recorded;
use crate::watches::Changes;
use crate::workload::{Generator, Made};

/// A session's requests.
#[derive(Debug)]
pub(crate) enum Source {
    /// Without a schedule: each as soon as there is room.
    Generated {
        generator: Box<Generator>,
        schedule: Option<Schedule>,
    },
    Recorded(Recorded),
}

impl Source {
    /// The run begins: what is due counts from here.
    pub(crate) fn start(&mut self, go: u64) {
        match self {
            Self::Generated { schedule, .. } => {
                schedule.iter_mut().for_each(|schedule| schedule.start(go));
            }
            Self::Recorded(recorded) => recorded.start(go),
        }
    }

    pub(crate) fn due(&self) -> Due {
        match self {
            Self::Generated { schedule: None, .. } => Due::AtOnce,
            Self::Generated { schedule: Some(schedule), .. } => Due::At(schedule.due()),
            Self::Recorded(recorded) => recorded.due(),
        }
    }

    /// Appends the next request.
    pub(crate) fn make(
        &mut self,
        out: &mut Vec<u8>,
        xid: i32,
        notes: Option<(&Changes, u64)>,
    ) -> Option<Made> {
        match self {
            Self::Generated { generator, schedule } => {
                schedule.iter_mut().for_each(Schedule::advance);
                Some(generator.next(out, xid, notes))
            }
            Self::Recorded(recorded) => recorded.next(out, xid, notes),
        }
    }

    /// The warm-up is over.
    pub(crate) fn begin_measuring(&mut self) {
        if let Self::Generated { generator, .. } = self {
            generator.begin_measuring();
        }
    }

    /// A session begins.
    pub(crate) fn begin_session(&mut self) {
        if let Self::Generated { generator, .. } = self {
            generator.begin_session();
        }
    }

    /// How many more were due before a moment.
    pub(crate) fn overdue(&mut self, end: u64) -> u64 {
        match self {
            Self::Generated { schedule: Some(schedule), .. } => {
                let mut count = 0;
                while schedule.due() < end {
                    schedule.advance();
                    count += 1;
                }
                count
            }
            Self::Generated { schedule: None, .. } => 0,
            Self::Recorded(recorded) => recorded.left(),
        }
    }
}
