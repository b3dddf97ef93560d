//! Tests of `worker.rs`: what the kernel answers beside records, which no stand-in can.

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;

use super::*;

fn taker() -> Taker {
    let telemetry = Telemetry::new(Budget::new(1 << 20), "0", "system").unwrap();
    let metrics = KernelMetrics::register(&telemetry).unwrap();
    Taker::new(KernelLog::new("boot", None).0, Source::new(&[], &[]), metrics)
}

/// Takes what the kernel answers, then nothing more for now.
fn take(taker: &mut Taker, answers: Vec<Result<u64, Errno>>) -> io::Result<Read> {
    let mut answers = answers.into_iter();
    taker.take(|buffer| {
        let record = format!("6,{},1,-;text\n", answers.next().unwrap_or(Err(Errno::AGAIN))?);
        buffer[..record.len()].copy_from_slice(record.as_bytes());
        Ok(record.len())
    })
}

/// Scenario: records are overwritten while they are read, one is longer than the buffer, a signal
/// comes. Guarantee: reading goes on each time; what is missing is counted by its numbers.
#[test]
fn overwritten_records_are_passed_and_counted() {
    let mut taker = taker();
    let answers =
        vec![Ok(1), Ok(2), Err(Errno::PIPE), Err(Errno::PIPE), Ok(9), Err(Errno::INTR), Ok(10)];
    assert_eq!(take(&mut taker, answers).unwrap(), Read::Drained);
    assert_eq!((taker.lines.count(), taker.metrics.lost.get()), (4, 6));
    assert_eq!(take(&mut taker, vec![Err(Errno::INVAL), Ok(12)]).unwrap(), Read::Drained);
    assert_eq!((taker.lines.count(), taker.metrics.lost.get()), (5, 7));
    assert_eq!(taker.state.position().map(|position| position.next), Some(13));
}

/// Scenario: the device says "overwritten" without end; it fails otherwise. Guarantee: both are
/// errors, and what was read before them stays.
#[test]
fn a_device_that_gives_no_records_is_an_error() {
    for (error, times) in [(Errno::PIPE, PASSED_MAX as usize + 1), (Errno::IO, 1)] {
        let mut taker = taker();
        let mut answers = vec![Ok(1)];
        answers.resize(1 + times, Err(error));
        let said = take(&mut taker, answers).unwrap_err();
        assert_eq!(Errno::from_io_error(&said), Some(error));
        assert_eq!(taker.lines.count(), 1);
    }
}

/// Scenario: more records than a request holds. Guarantee: reading stops when it is full, with no
/// more bytes than are reserved.
#[test]
fn a_full_request_ends_reading() {
    let mut taker = taker();
    let mut number = 0;
    let filled = taker.take(|buffer| {
        number += 1;
        let text = "\\xff".repeat(KERNEL_RECORD_BYTES_MAX / 4 - 10);
        let record = format!("6,{number},1,-;{text}");
        buffer[..record.len()].copy_from_slice(record.as_bytes());
        Ok(record.len())
    });
    assert_eq!(filled.unwrap(), Read::Full);
    assert_eq!(taker.lines.count(), number);
    assert!(taker.lines.bytes().len() <= REQUEST_BYTES + SLACK_BYTES);
}
