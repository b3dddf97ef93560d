//! Tests of journals, and of live and expired claims.

use super::*;

/// Returns a journal of `count` finished migrations of two statements each.
fn journal(count: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in 1..=count {
        let statements = vec![format!("first of {number}"), format!("second of {number}")];
        let row = |event: JournalEvent, position| Row {
            number,
            event: event.as_str().to_owned(),
            position,
            runner: "r".to_owned(),
            ..Row::default()
        };
        rows.push(Row {
            phase: "expand".to_owned(),
            revision: "abc".to_owned(),
            statements,
            ..row(JournalEvent::Planned, 0)
        });
        rows.extend([
            row(JournalEvent::Done, 1),
            row(JournalEvent::Done, 2),
            row(JournalEvent::Finished, 2),
        ]);
    }
    rows
}

/// Guarantee: a journal reads back as it was written.
#[test]
fn an_unbroken_journal_is_read_in_order() {
    let history = History::read(&journal(3)).unwrap();
    assert_eq!(history.migrations.len(), 3);
    assert!(history.migrations.iter().all(|each| each.standing == MigrationState::Finished));
    assert_eq!(history.migrations[2].done, 2);
    assert_eq!(history.next(), 4);
    assert_eq!(History::read(&[]).unwrap().next(), 1);
}

/// Scenario: only the latest migrations are read; one of their rows is missing and a statement
/// changed; a newer release was at work. Guarantee: the remaining rows are read, since no plan
/// depends on them; an unknown word is refused.
#[test]
fn a_changed_or_shortened_journal_is_read() {
    let mut rows = journal(3);
    rows.retain(|row| row.number != 1);
    rows.remove(0);
    rows[3].statements[0].push('x');
    let history = History::read(&rows).unwrap();
    assert_eq!(history.migrations.iter().map(|each| each.number).collect::<Vec<_>>(), [3]);
    assert_eq!(history.next(), 4);
    rows[1].event = "teleported".to_owned();
    let error = History::read(&rows).unwrap_err();
    assert!(error.to_string().contains("newer"), "{error}");
}

/// Scenario: the last migration failed. Guarantee: an identical retry is recognised; another phase,
/// revision or statement is not, nor is a migration that succeeded or failed earlier.
#[test]
fn the_same_failure_is_known_and_no_other() {
    let mut rows = journal(2);
    let planned = rows[4].clone();
    let known = |rows: &[Row], phase: &str, revision: &str, statements: &[String]| {
        let history = History::read(rows).unwrap();
        history.failed_before(phase, revision, statements).map(|last| (last.number, last.done))
    };
    let Row { phase, revision, statements, .. } = &planned;
    assert_eq!(known(&rows, phase, revision, statements), None);
    rows.truncate(6);
    rows.push(Row { number: 2, event: "failed".to_owned(), position: 1, ..Row::default() });
    assert_eq!(known(&rows, phase, revision, statements), Some((2, 1)));
    assert_eq!(known(&rows, "contract", revision, statements), None);
    assert_eq!(known(&rows, phase, "other", statements), None);
    assert_eq!(known(&rows, phase, revision, &statements[1..]), None);
    let mut later = journal(3).split_off(8);
    rows.append(&mut later);
    assert_eq!(known(&rows, phase, revision, statements), None);
}

/// Scenario: a migration failed at a statement, for two reasons. Guarantee: each of these failures is
/// known, also with other figures in its text; another reason and another statement are not.
#[test]
fn a_failure_is_known_by_its_statement_and_its_reason() {
    let mut rows = journal(1);
    rows.truncate(2);
    let reasons = ["t: gave no answer within 60 s", "t: the disk is full (code 243)"];
    for reason in reasons {
        let (event, detail) = ("failed".to_owned(), reason.to_owned());
        rows.push(Row { number: 1, event, detail, position: 1, ..Row::default() });
    }
    let history = History::read(&rows).unwrap();
    let last = &history.migrations[0];
    for reason in reasons {
        assert!(last.has_failed_so(1, reason), "{reason}");
        assert!(!last.has_failed_so(0, reason), "{reason}");
    }
    assert!(last.has_failed_so(1, "t: gave no answer within 30 s"));
    assert!(!last.has_failed_so(1, "t: no such policy"));
}

/// Scenario: the last migration is finished, open, failed or abandoned. Guarantee: only in the
/// first case no statements are to be continued; those of earlier migrations never are.
#[test]
fn the_statements_of_an_unfinished_migration_are_known() {
    let mut rows = journal(2);
    assert!(History::read(&rows).unwrap().unfinished_statements().is_empty());
    rows.truncate(6);
    let expected = ["first of 2", "second of 2"];
    assert_eq!(History::read(&rows).unwrap().unfinished_statements(), expected);
    for event in ["failed", "interrupted"] {
        rows.push(Row { number: 2, event: event.to_owned(), ..Row::default() });
        assert_eq!(History::read(&rows).unwrap().unfinished_statements(), expected, "{event}");
    }
    rows.truncate(3);
    rows.extend(journal(2).split_off(4));
    assert!(History::read(&rows).unwrap().unfinished_statements().is_empty());
}

/// Scenario: a run that stopped without a final row, and one that failed. Guarantee: the first
/// migration stays open until it is abandoned; the second has the reason.
#[test]
fn an_unfinished_migration_stands_open_until_given_up() {
    let mut rows = journal(2);
    rows.truncate(6);
    let history = History::read(&rows).unwrap();
    assert_eq!(
        history.open_migrations().map(|each| (each.number, each.done)).collect::<Vec<_>>(),
        [(2, 1)]
    );
    let tail = |event: JournalEvent| Row {
        number: 2,
        event: event.as_str().to_owned(),
        detail: "words".to_owned(),
        ..Row::default()
    };
    for (event, standing) in [
        (JournalEvent::Interrupted, MigrationState::Interrupted),
        (JournalEvent::Failed, MigrationState::Failed),
    ] {
        let rows: Vec<Row> = rows.iter().cloned().chain([tail(event)]).collect();
        let history = History::read(&rows).unwrap();
        assert_eq!(history.migrations[1].standing, standing);
        assert_eq!(history.migrations[1].detail, "words");
        assert_eq!(history.open_migrations().count(), 0);
    }
}

/// Scenario: claims of two runs, one of them long silent. Guarantee: only another run's live claim
/// excludes us, not an expired, a released or our own claim; any row renews a claim.
#[test]
fn only_a_live_claim_of_another_keeps_us_out() {
    let row = |runner: &str, event: JournalEvent, at_millis| Row {
        runner: runner.to_owned(),
        event: event.as_str().to_owned(),
        at_millis,
        now_millis: 100_000,
        ..Row::default()
    };
    let lease = Duration::from_secs(30);
    let claimed =
        vec![row("a", JournalEvent::Claimed, 10_000), row("b", JournalEvent::Claimed, 90_000)];
    let history = History::read(&claimed).unwrap();
    assert_eq!(history.other_at_work("b", lease), None);
    assert_eq!(history.other_at_work("a", lease).unwrap().runner, "b");
    let released: Vec<Row> =
        claimed.iter().cloned().chain([row("b", JournalEvent::Released, 91_000)]).collect();
    assert_eq!(History::read(&released).unwrap().other_at_work("a", lease), None);
    let mut renewed = journal(1);
    renewed.insert(0, row("r", JournalEvent::Claimed, 0));
    for each in &mut renewed[1..] {
        each.at_millis = 99_000;
        each.now_millis = 100_000;
    }
    assert_eq!(History::read(&renewed).unwrap().other_at_work("a", lease).unwrap().runner, "r");
}
