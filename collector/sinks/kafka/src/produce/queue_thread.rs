//! A thread with a bounded queue, which ends with its owner.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// A thread that receives values. Dropping this closes its queue, which the thread takes as the
/// request to end, and waits for the thread.
pub(crate) struct QueueThread<T> {
    /// `None` once the thread was requested to end.
    queue: Option<SyncSender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> QueueThread<T> {
    /// Starts a thread with a queue of at most `length` values.
    pub(crate) fn start(
        name: &str,
        length: usize,
        run: impl FnOnce(&Receiver<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, values) = sync_channel(length);
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&values))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a value, or returns it when the queue is full or the thread has ended.
    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match &self.queue {
            Some(queue) => queue.try_send(value),
            None => Err(TrySendError::Disconnected(value)),
        }
    }
}

impl<T> Drop for QueueThread<T> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It can only have panicked, which ends the process.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::QueueThread;

    /// Scenario: values are queued for a thread that hasn't read any, and its owner goes.
    /// Guarantee: the thread gets all of them before it ends, and the owner waits for that.
    #[test]
    fn a_thread_ends_after_the_values_that_were_queued() {
        let (begin, begun) = sync_channel::<()>(0);
        let (seen, results) = sync_channel(4);
        let thread = QueueThread::start("test", 2, move |values| {
            let _ = begun.recv();
            values.iter().for_each(|value: u8| seen.send(value).unwrap());
        });
        let thread = thread.unwrap();
        assert!(thread.try_send(1).is_ok() && thread.try_send(2).is_ok());
        assert!(thread.try_send(3).is_err(), "the queue is full");
        drop(begin);
        drop(thread);
        assert_eq!(results.try_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
