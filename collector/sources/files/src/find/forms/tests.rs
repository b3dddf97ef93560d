//! Unit tests of `forms.rs`.

use millrace_lines::{Container, TextEncoding};

use super::*;

fn usual() -> RecordRules {
    RecordRules {
        container: Container::Detect,
        encoding: TextEncoding::Utf8,
        multiline: None,
        parse: None,
        max_record_bytes: 1024,
        timeout_nanos: u64::MAX,
    }
}

fn pattern(number: usize) -> Reading {
    let multiline = Some(Lines::Start(format!("^{number}")));
    Reading { multiline, parser: Some(TextParser::Json), logs: None }
}

fn of(forms: &mut Forms, reading: Reading) -> Option<Arc<RecordRules>> {
    forms.form_of(reading, &usual(), &Roles::default())
}

/// Scenario: two pods choose the same, a third nothing. Guarantee: the two share a form, the third
/// has no separate one; limits are unchanged.
#[test]
fn pods_that_choose_alike_share_a_form() {
    let mut forms = Forms::default();
    let (one, other) = (of(&mut forms, pattern(1)).unwrap(), of(&mut forms, pattern(1)).unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert!(one.parse.is_some() && one.multiline.is_some() && one.max_record_bytes == 1024);
    assert!(of(&mut forms, Reading::default()).is_none());
}

/// Scenario: more patterns than the limit; then the files of one are closed. Guarantee: the pattern
/// above the limit is skipped and counted, and its parser applies; then its slot is free.
#[test]
fn patterns_of_pods_are_bounded() {
    let mut forms = Forms::default();
    let mut used: Vec<_> =
        (0..PATTERNS_MAX).map(|number| of(&mut forms, pattern(number)).unwrap()).collect();
    assert_eq!(forms.take_rejected(), 0);
    let without = of(&mut forms, pattern(PATTERNS_MAX)).unwrap();
    assert!(without.multiline.is_none() && without.parse.is_some());
    assert_eq!((forms.take_rejected(), forms.take_rejected()), (1, 0));
    used.pop();
    assert!(of(&mut forms, pattern(PATTERNS_MAX)).unwrap().multiline.is_some());
    assert_eq!(forms.take_rejected(), 0);
}
