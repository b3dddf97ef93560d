//! The sink and the dead-letter topic of one simulated process, and the encoder they hand out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{
    Appended, Block, Completion, DeadLetter, DeadLetters, Encoder, Insert, Rejection, Returned,
    Sink, Slice, TableIndex,
};
use millrace_wire::Signal;

use super::world::{Cargo, Flight, Row, World};

/// Letters that a process may have in flight.
const MAX_LETTERS: usize = 16;
/// Memory of a row in an encoder.
const ROW_BYTES: usize = 20_000;

/// The sink as one process sees it.
pub(super) struct SimSink {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) process: usize,
    pub(super) drain: Drain,
}

impl SimSink {
    /// Remembers what is sent while the process drains: its last words are held against it.
    fn note(&self, world: &mut World, partition: i32, next: i64) {
        if self.drain.is_begun() {
            world.sent_draining.push((self.process, partition, next));
        }
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }
}

impl World {
    /// Sends something on its way. `None` when the process has too much on it.
    fn send(&mut self, process: usize, most: usize, letter: bool) -> Option<Flight> {
        let same = |flight: &&Flight| {
            let is_letter = matches!(flight.what, Cargo::Letter(_));
            flight.process == process && flight.completion.is_some() && is_letter == letter
        };
        if self.flights.iter().filter(same).count() >= most {
            return None;
        }
        let slow = self.fault_in(10);
        let way = Duration::from_millis(self.random.between(1, if slow { 8000 } else { 150 }));
        let mut lands = vec![self.now + way];
        let mut answered = self.now + way;
        // The answer was lost and the same bytes were sent again, or it only took its time.
        if self.fault_in(6) {
            answered += Duration::from_millis(self.random.between(1, 4000));
            if self.random.once_in(2) {
                lands.push(answered);
            }
        }
        let what = Cargo::Rows { token: String::new(), rows: Vec::new(), _insert: None };
        Some(Flight {
            process,
            sent: self.now,
            lands,
            answered,
            what,
            refused: None,
            completion: None,
        })
    }
}

impl Sink for SimSink {
    fn encoder(&self, _: Signal) -> Box<dyn Encoder> {
        Box::new(SimEncoder::default())
    }

    fn is_blocked(&self, table: TableIndex) -> bool {
        let world = self.world();
        world.blocked.get(usize::from(table.0)).is_some_and(|until| *until > world.now)
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<Returned<Insert>>> {
        let mut world = self.world();
        let window = world.shape.window;
        let Some(flight) = world.send(self.process, window, false) else {
            return Err(Box::new(Returned { work: insert, completion }));
        };
        self.note(&mut world, insert.origin.partition, insert.origin.range.next());
        let token = insert.token();
        let rows = Row::read(&insert.block.body.to_vec()).unwrap_or_default();
        let what = Cargo::Rows { token, rows, _insert: Some(Box::new(insert)) };
        world.flights.push(Flight { what, completion: Some(completion), ..flight });
        Ok(())
    }
}

impl DeadLetters for SimSink {
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<Returned<DeadLetter>>> {
        let mut world = self.world();
        let Some(flight) = world.send(self.process, MAX_LETTERS, true) else {
            return Err(Box::new(Returned { work: letter, completion }));
        };
        self.note(&mut world, letter.partition, letter.offset + 1);
        let what = Cargo::Letter(Box::new(letter));
        world.flights.push(Flight { what, completion: Some(completion), ..flight });
        Ok(())
    }
}

/// Rows by table and day, in the order they came.
#[derive(Default)]
struct SimEncoder {
    blocks: BTreeMap<(u8, u8), Vec<Row>>,
    rows: usize,
}

impl Encoder for SimEncoder {
    fn append(&mut self, message: &[u8]) -> Result<Appended, Rejection> {
        let malformed = || Rejection { reason: "malformed", detail: "simulated".to_owned() };
        let rows = Row::read(message).ok_or_else(malformed)?;
        self.rows += rows.len();
        let records = rows.len() as u64;
        for row in rows {
            self.blocks.entry((row.table, row.day)).or_default().push(row);
        }
        Ok(Appended { records })
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn plain_bytes(&self) -> usize {
        self.rows * ROW_BYTES
    }

    fn memory_bytes(&self) -> usize {
        self.plain_bytes()
    }

    fn take(&mut self) -> Vec<Block> {
        self.rows = 0;
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let block = |((table, day), rows): ((u8, u8), Vec<Row>)| {
            let mut body = Vec::new();
            rows.iter().for_each(|row| row.write(&mut body));
            let records = rows.len() as u64;
            Block {
                table: TableIndex(table.into()),
                table_name: format!("table_{table}").into(),
                slice: Slice { day: day.into(), number: 0 },
                rows: records,
                records,
                plain_bytes: body.len() as u64,
                is_own: false,
                body: body.into(),
            }
        };
        blocks.map(block).collect()
    }
}
