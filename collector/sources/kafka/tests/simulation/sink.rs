//! The sink and the dead-letter topic of one simulated process, and the encoder they return.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{
    AppendedMessage, Block, BlockSlice, Completion, DeadLetter, DeadLetterSink, Encoder, Insert,
    QueueFull, Rejection, Sink, TableIndex,
};
use millrace_wire::Signal;

use super::world::{Cargo, Flight, Row, World};

/// The dead letters that a process may have in flight.
const MAX_LETTERS: usize = 16;
/// Memory of a row in an encoder.
const ROW_BYTES: usize = 20_000;

/// The sink of one process.
pub(super) struct SimSink {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) process: usize,
    pub(super) drain: Drain,
}

impl SimSink {
    /// Records what is sent while the process drains, to compare it with the drain's report.
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
    /// Sends an insert or a dead letter. `None` when the process has too many in flight.
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
        // The answer was lost and the same bytes were sent again, or it was only late.
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
            messages: 1,
            lands,
            answered,
            what,
            refused: None,
            completion: None,
        })
    }
}

impl Sink for SimSink {
    fn new_encoder(&self, _: Signal) -> Box<dyn Encoder> {
        Box::new(SimEncoder::default())
    }

    fn is_blocked(&self, _: &str, _: i32, table: TableIndex) -> bool {
        let world = self.world();
        world.blocked.get(usize::from(table.0)).is_some_and(|until| *until > world.now)
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>> {
        let mut world = self.world();
        let window = world.shape.window;
        let Some(flight) = world.send(self.process, window, false) else {
            return Err(Box::new(QueueFull { work: insert, completion }));
        };
        self.note(&mut world, insert.origin.partition, insert.origin.range.next());
        let token = insert.dedup_token();
        let messages = insert.origin.range.span();
        world.events.inserts += 1;
        let rows = Row::read(&insert.block.body.to_vec()).unwrap_or_default();
        let what = Cargo::Rows { token, rows, _insert: Some(Box::new(insert)) };
        world.flights.push(Flight { what, messages, completion: Some(completion), ..flight });
        Ok(())
    }
}

impl DeadLetterSink for SimSink {
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<QueueFull<DeadLetter>>> {
        let mut world = self.world();
        let Some(flight) = world.send(self.process, MAX_LETTERS, true) else {
            return Err(Box::new(QueueFull { work: letter, completion }));
        };
        self.note(&mut world, letter.partition, letter.offset + 1);
        let what = Cargo::Letter(Box::new(letter));
        world.flights.push(Flight { what, completion: Some(completion), ..flight });
        Ok(())
    }
}

/// Rows by table and day, in the order of arrival.
#[derive(Default)]
struct SimEncoder {
    blocks: BTreeMap<(u8, u8), Vec<Row>>,
    rows: usize,
}

impl Encoder for SimEncoder {
    fn append(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection> {
        let malformed = || Rejection { reason: "malformed", detail: "simulated".to_owned() };
        let rows = Row::read(message).ok_or_else(malformed)?;
        self.rows += rows.len();
        let records = rows.len() as u64;
        for row in rows {
            self.blocks.entry((row.table, row.day)).or_default().push(row);
        }
        Ok(AppendedMessage { records })
    }

    fn row_count(&self) -> usize {
        self.rows
    }

    fn plain_bytes(&self) -> usize {
        self.rows * ROW_BYTES
    }

    fn memory_bytes(&self) -> usize {
        self.plain_bytes()
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        self.rows = 0;
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let block = |((table, day), rows): ((u8, u8), Vec<Row>)| {
            let mut body = Vec::new();
            rows.iter().for_each(|row| row.write(&mut body));
            let records = rows.len() as u64;
            Block {
                table: TableIndex(table.into()),
                table_name: format!("table_{table}").into(),
                slice: BlockSlice { day: day.into(), number: 0 },
                rows: records,
                records,
                plain_bytes: body.len() as u64,
                is_self_telemetry: false,
                body: body.into(),
            }
        };
        blocks.map(block).collect()
    }
}
