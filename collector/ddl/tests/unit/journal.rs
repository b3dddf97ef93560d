//! Journals good and broken, and claims alive and dead.

use super::*;
use proptest::prelude::*;

/// A journal of `count` finished migrations of two statements each.
fn journal(count: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut parent = String::new();
    for number in 1..=count {
        let statements = vec![format!("first of {number}"), format!("second of {number}")];
        let sum = checksum(number, &parent, "expand", "abc", &statements);
        let row = |event: Event, position| Row {
            number,
            event: event.as_str().to_owned(),
            position,
            runner: "r".to_owned(),
            ..Row::default()
        };
        rows.push(Row {
            phase: "expand".to_owned(),
            revision: "abc".to_owned(),
            parent: parent.clone(),
            checksum: sum.clone(),
            statements,
            ..row(Event::Planned, 0)
        });
        rows.extend([row(Event::Done, 1), row(Event::Done, 2), row(Event::Finished, 2)]);
        parent = sum;
    }
    rows
}

/// Guarantee: a whole journal is read as it was written.
#[test]
fn an_unbroken_journal_is_read_in_order() {
    let history = History::read(&journal(3)).unwrap();
    assert_eq!(history.migrations.len(), 3);
    assert!(history.migrations.iter().all(|each| each.standing == Standing::Finished));
    assert_eq!(history.migrations[2].done, 2);
    assert_eq!(history.next().0, 4);
    assert_eq!(History::read(&[]).unwrap().next(), (1, ""));
}

/// Scenario: a row lost, a statement changed, a parent changed, a number twice, an unknown word.
/// Guarantee: each is refused, and says which migration.
#[test]
fn a_changed_or_missing_migration_is_refused() {
    let broken = |change: &dyn Fn(&mut Vec<Row>)| {
        let mut rows = journal(3);
        change(&mut rows);
        History::read(&rows).unwrap_err()
    };
    let is_changed = |error: JournalError, at| matches!(error, JournalError::Changed { number, .. } if number == at);
    assert_eq!(
        broken(&|rows| rows.retain(|row| row.number != 2)),
        JournalError::Missing { number: 2 }
    );
    assert_eq!(
        broken(&|rows| {
            rows.remove(0);
        }),
        JournalError::Missing { number: 1 }
    );
    assert!(is_changed(broken(&|rows| rows[4].statements[0].push('x')), 2));
    assert!(is_changed(broken(&|rows| rows[4].revision.push('x')), 2));
    assert!(is_changed(broken(&|rows| rows[8].parent.push('x')), 3));
    assert!(is_changed(
        broken(&|rows| rows.push(Row { checksum: "other".into(), ..rows[0].clone() })),
        1
    ));
    let error = broken(&|rows| rows[1].event = "teleported".to_owned());
    assert!(error.to_string().contains("newer"), "{error}");
}

/// Scenario: a run that ended without a word, and one that failed. Guarantee: the first stands open
/// until someone gives it up, the second says why.
#[test]
fn an_unfinished_migration_stands_open_until_given_up() {
    let mut rows = journal(2);
    rows.truncate(6);
    let history = History::read(&rows).unwrap();
    assert_eq!(history.open().map(|each| (each.number, each.done)).collect::<Vec<_>>(), [(2, 1)]);
    let tail = |event: Event| Row {
        number: 2,
        event: event.as_str().to_owned(),
        detail: "words".to_owned(),
        ..Row::default()
    };
    for (event, standing) in
        [(Event::Interrupted, Standing::Interrupted), (Event::Failed, Standing::Failed)]
    {
        let rows: Vec<Row> = rows.iter().cloned().chain([tail(event)]).collect();
        let history = History::read(&rows).unwrap();
        assert_eq!(history.migrations[1].standing, standing);
        assert_eq!(history.migrations[1].detail, "words");
        assert_eq!(history.open().count(), 0);
    }
}

/// Scenario: claims of two runs, one silent for long. Guarantee: a live claim of another keeps us
/// out; a dead one, a released one and our own do not; any row renews a claim.
#[test]
fn only_a_live_claim_of_another_keeps_us_out() {
    let row = |runner: &str, event: Event, at_millis| Row {
        runner: runner.to_owned(),
        event: event.as_str().to_owned(),
        at_millis,
        now_millis: 100_000,
        ..Row::default()
    };
    let lease = Duration::from_secs(30);
    let claimed = vec![row("a", Event::Claimed, 10_000), row("b", Event::Claimed, 90_000)];
    let history = History::read(&claimed).unwrap();
    assert_eq!(history.other_at_work("b", lease), None);
    assert_eq!(history.other_at_work("a", lease).unwrap().runner, "b");
    let released: Vec<Row> =
        claimed.iter().cloned().chain([row("b", Event::Released, 91_000)]).collect();
    assert_eq!(History::read(&released).unwrap().other_at_work("a", lease), None);
    let mut renewed = journal(1);
    renewed.insert(0, row("r", Event::Claimed, 0));
    for each in &mut renewed[1..] {
        each.at_millis = 99_000;
        each.now_millis = 100_000;
    }
    assert_eq!(History::read(&renewed).unwrap().other_at_work("a", lease).unwrap().runner, "r");
}

proptest! {
    /// Guarantee: changing any one thing that a migration consists of is noticed.
    #[test]
    fn any_change_breaks_the_chain(at in 0_usize..5, what in 0_usize..4, text in "[a-z]{1,8}") {
        let mut rows = journal(5);
        let row = &mut rows[at * 4];
        match what {
            0 => row.statements.push(text),
            1 => row.statements[1].push_str(&text),
            2 => row.phase.push_str(&text),
            _ => row.checksum.push_str(&text),
        }
        prop_assert!(History::read(&rows).is_err());
    }
}
