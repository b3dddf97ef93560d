//! Tests of `worker.rs` with the kernel's errors, which the stand-in device can't return.

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;

use super::*;

fn taker() -> RecordReader {
    let telemetry = Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap();
    let metrics = KernelMetrics::register(&telemetry).unwrap();
    RecordReader::new(KernelLog::new("boot", None).0, FileAttributes::new(&[], &[]), metrics)
}

/// Reads these results, then the end of the log.
fn take(taker: &mut RecordReader, answers: Vec<Result<u64, Errno>>) -> io::Result<KernelRead> {
    let mut answers = answers.into_iter();
    taker.read_records(|buffer| {
        let record = format!("6,{},1,-;text\n", answers.next().unwrap_or(Err(Errno::AGAIN))?);
        buffer[..record.len()].copy_from_slice(record.as_bytes());
        Ok(record.len())
    })
}

/// Scenario: records are overwritten while they are read, one is longer than the buffer, a signal
/// arrives. Guarantee: reading continues each time; missing records are counted by number.
#[test]
fn overwritten_records_are_passed_and_counted() {
    let mut taker = taker();
    let answers =
        vec![Ok(1), Ok(2), Err(Errno::PIPE), Err(Errno::PIPE), Ok(9), Err(Errno::INTR), Ok(10)];
    assert_eq!(take(&mut taker, answers).unwrap(), KernelRead::Drained);
    assert_eq!((taker.lines.record_count(), taker.metrics.lost.get()), (4, 6));
    assert_eq!(take(&mut taker, vec![Err(Errno::INVAL), Ok(12)]).unwrap(), KernelRead::Drained);
    assert_eq!((taker.lines.record_count(), taker.metrics.lost.get()), (5, 7));
    assert_eq!(taker.state.position().map(|position| position.next), Some(13));
}

/// Scenario: the device reports "overwritten" endlessly; another read fails. Guarantee: both are
/// errors, and records read before them are retained.
#[test]
fn a_device_that_gives_no_records_is_an_error() {
    for (error, times) in [(Errno::PIPE, PASSED_MAX as usize + 1), (Errno::IO, 1)] {
        let mut taker = taker();
        let mut answers = vec![Ok(1)];
        answers.resize(1 + times, Err(error));
        let said = take(&mut taker, answers).unwrap_err();
        assert_eq!(Errno::from_io_error(&said), Some(error));
        assert_eq!(taker.lines.record_count(), 1);
    }
}

/// Scenario: there are more records than a request holds. Guarantee: reading stops when it is full,
/// with no more bytes than are reserved.
#[test]
fn a_full_request_ends_reading() {
    let mut taker = taker();
    let mut number = 0;
    let filled = taker.read_records(|buffer| {
        number += 1;
        let text = "\\xff".repeat(KERNEL_RECORD_BYTES_MAX / 4 - 10);
        let record = format!("6,{number},1,-;{text}");
        buffer[..record.len()].copy_from_slice(record.as_bytes());
        Ok(record.len())
    });
    assert_eq!(filled.unwrap(), KernelRead::Full);
    assert_eq!(taker.lines.record_count(), number);
    assert!(taker.lines.bytes().len() <= REQUEST_BYTES + SLACK_BYTES);
}
