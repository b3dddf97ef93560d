//! Tests of annotations.

use super::*;

fn of(annotations: &[(&str, &str)]) -> Readings {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Readings::from_annotations(&annotations.iter().map(owned).collect())
}

/// Scenario: each annotation has each of its words, in any case, or a pattern. Guarantee: it is
/// parsed without a fault.
#[test]
fn each_word_is_read() {
    let parser = |parser| Reading { parser: Some(parser), ..Reading::default() };
    let multiline = |multiline| Reading { multiline: Some(multiline), ..Reading::default() };
    let wanted = |wanted| Reading { logs: Some(wanted), ..Reading::default() };
    for (name, value, expected) in [
        ("millrace.dev/logs", "off", wanted(LogReading::Off)),
        ("millrace.dev/logs", "On", wanted(LogReading::On)),
        ("millrace.dev/logs-parser", "JSON", parser(TextParser::Json)),
        ("millrace.dev/logs-parser", "logfmt", parser(TextParser::Logfmt)),
        ("millrace.dev/logs-parser", "none", parser(TextParser::None)),
        ("millrace.dev/logs-multiline", "java", multiline(PodMultiline::Traces(StackTraces::Java))),
        (
            "millrace.dev/logs-multiline",
            "python",
            multiline(PodMultiline::Traces(StackTraces::Python)),
        ),
        ("millrace.dev/logs-multiline", "go", multiline(PodMultiline::Traces(StackTraces::Go))),
        (
            "millrace.dev/logs-multiline",
            "nodejs",
            multiline(PodMultiline::Traces(StackTraces::NodeJs)),
        ),
        (
            "millrace.dev/logs-multiline",
            " Rust ",
            multiline(PodMultiline::Traces(StackTraces::Rust)),
        ),
        ("millrace.dev/logs-multiline", "none", multiline(PodMultiline::None)),
        (
            "millrace.dev/logs-multiline",
            r"^\d{4}-\d{2}-\d{2}",
            multiline(PodMultiline::Start(r"^\d{4}-\d{2}-\d{2}".into())),
        ),
    ] {
        let found = of(&[(name, value), ("millrace.dev/lo", "x"), ("other.dev/logs", "x")]);
        assert_eq!((found.all, found.faults), (expected.clone(), Vec::new()), "{name} {value}");
        let found = of(&[(&format!("{name}.side-car"), value)]);
        assert_eq!(found.containers.get("side-car"), Some(&expected), "{name} {value}");
        assert_eq!((found.all, found.faults), (Reading::default(), Vec::new()));
    }
}

/// Scenario: words, names and patterns are invalid in all forms, alongside a valid annotation.
/// Guarantee: each is reported with its name and correction, and the valid one applies.
#[test]
fn what_can_not_be_used_is_told_and_nothing_else_is_lost() {
    let (long, large) = (format!("^{}", "a".repeat(300)), "^[ab]*a[ab]{1900}Z");
    for (name, value, remedy) in [
        ("millrace.dev/logs", "false", "use on or off"),
        ("millrace.dev/logs-parser", "xml", "use json, logfmt or none"),
        ("millrace.dev/logs-parsers", "json", "unknown annotation"),
        ("millrace.dev/logs-multiline", "jav", "begins with ^"),
        ("millrace.dev/logs-multiline", "", "begins with ^"),
        ("millrace.dev/logs-multiline", "^(", "64 KiB when compiled"),
        ("millrace.dev/logs-multiline", r"^\p{Lu}", r"classes are ASCII only, so no \p{Lu}"),
        ("millrace.dev/logs-multiline", "^[А-Я]", "no other letters in brackets"),
        ("millrace.dev/logs-multiline.app", &long, "256 characters"),
        ("millrace.dev/logs-multiline.app", large, "64 KiB when compiled"),
    ] {
        let found = of(&[(name, value), ("millrace.dev/logs-parser.web", "json")]);
        assert_eq!(found.all, Reading::default());
        assert_eq!(found.containers.len(), 1, "{name}");
        assert_eq!(found.containers["web"].parser, Some(TextParser::Json));
        let told: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{name}: ")) && told[0].contains(remedy), "{told:?}");
        assert!(told[0].len() < 400 && !told[0].contains('\n'), "{told:?}");
    }
}

/// Scenario: a pod has more annotations than are read. Guarantee: those that fit apply, and some of
/// the others are reported.
#[test]
fn what_is_read_of_a_pod_is_bounded() {
    let pattern = format!("^{}", "a".repeat(250));
    let names: Vec<String> = (0..40).map(|n| format!("{ANNOTATION}-multiline.c{n:02}")).collect();
    let found = of(&names.iter().map(|name| (name.as_str(), &*pattern)).collect::<Vec<_>>());
    assert_eq!(found.faults.len(), FAULTS_MAX);
    let each = names[0].len() + pattern.len();
    assert_eq!(found.containers.len(), READING_BYTES_MAX / each);
}
