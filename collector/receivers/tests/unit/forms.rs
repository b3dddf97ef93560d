//! Tests of what `forms.rs` keeps to itself.

use millrace_lines::{Container, Encoding};

use super::*;

fn usual() -> Form {
    Form {
        container: Container::Detect,
        encoding: Encoding::Utf8,
        multiline: None,
        parse: None,
        max_record_bytes: 1024,
    }
}

fn pattern(number: usize) -> Reading {
    let multiline = Some(Lines::Start(format!("^{number}")));
    Reading { multiline, parser: Some(Parser::Json), wanted: None }
}

fn of(forms: &mut Forms, reading: Reading) -> Option<Arc<Form>> {
    forms.of(reading, &usual(), &Roles::default())
}

/// Scenario: two pods choose alike, a third nothing. Guarantee: the two share a form, the third has
/// none of its own; limits stay.
#[test]
fn pods_that_choose_alike_share_a_form() {
    let mut forms = Forms::default();
    let (one, other) = (of(&mut forms, pattern(1)).unwrap(), of(&mut forms, pattern(1)).unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert!(one.parse.is_some() && one.multiline.is_some() && one.max_record_bytes == 1024);
    assert!(of(&mut forms, Reading::default()).is_none());
}

/// Scenario: more patterns than are used at a time; then the files of one are closed. Guarantee: the
/// one without room is left out and counted, and its parser holds; then there is room.
#[test]
fn patterns_of_pods_are_bounded() {
    let mut forms = Forms::default();
    let mut used: Vec<_> =
        (0..PATTERNS_MAX).map(|number| of(&mut forms, pattern(number)).unwrap()).collect();
    assert_eq!(forms.take_left_out(), 0);
    let without = of(&mut forms, pattern(PATTERNS_MAX)).unwrap();
    assert!(without.multiline.is_none() && without.parse.is_some());
    assert_eq!((forms.take_left_out(), forms.take_left_out()), (1, 0));
    used.pop();
    assert!(of(&mut forms, pattern(PATTERNS_MAX)).unwrap().multiline.is_some());
    assert_eq!(forms.take_left_out(), 0);
}
