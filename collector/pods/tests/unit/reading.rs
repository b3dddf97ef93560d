//! Tests of what `reading.rs` keeps to itself.

use super::*;

fn of(annotations: &[(&str, &str)]) -> Readings {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Readings::of(&annotations.iter().map(owned).collect())
}

/// Scenario: each annotation with each of its words, in any case, and a pattern. Guarantee: they are
/// read, and nothing is told.
#[test]
fn each_word_is_read() {
    let parser = |parser| Reading { parser: Some(parser), ..Reading::default() };
    let multiline = |multiline| Reading { multiline: Some(multiline), ..Reading::default() };
    let wanted = |wanted| Reading { wanted: Some(wanted), ..Reading::default() };
    for (name, value, expected) in [
        ("millrace.dev/logs", "off", wanted(Wanted::Off)),
        ("millrace.dev/logs", "On", wanted(Wanted::On)),
        ("millrace.dev/logs-parser", "JSON", parser(Parser::Json)),
        ("millrace.dev/logs-parser", "logfmt", parser(Parser::Logfmt)),
        ("millrace.dev/logs-parser", "none", parser(Parser::None)),
        ("millrace.dev/logs-multiline", "java", multiline(Multiline::Traces(Traces::Java))),
        ("millrace.dev/logs-multiline", "python", multiline(Multiline::Traces(Traces::Python))),
        ("millrace.dev/logs-multiline", "go", multiline(Multiline::Traces(Traces::Go))),
        ("millrace.dev/logs-multiline", "nodejs", multiline(Multiline::Traces(Traces::NodeJs))),
        ("millrace.dev/logs-multiline", " Rust ", multiline(Multiline::Traces(Traces::Rust))),
        ("millrace.dev/logs-multiline", "none", multiline(Multiline::None)),
        (
            "millrace.dev/logs-multiline",
            r"^\d{4}-\d{2}-\d{2}",
            multiline(Multiline::Start(r"^\d{4}-\d{2}-\d{2}".into())),
        ),
    ] {
        let found = of(&[(name, value), ("millrace.dev/lo", "x"), ("other.dev/logs", "x")]);
        assert_eq!((found.all, found.faults), (expected.clone(), Vec::new()), "{name} {value}");
        let found = of(&[(&format!("{name}.side-car"), value)]);
        assert_eq!(found.containers.get("side-car"), Some(&expected), "{name} {value}");
        assert_eq!((found.all, found.faults), (Reading::default(), Vec::new()));
    }
}

/// Scenario: words that are none, a name that is none, patterns that are malformed, too long, too
/// large and without their beginning, beside an annotation that can be used. Guarantee: each is told
/// with its name and what to write, and the other holds.
#[test]
fn what_can_not_be_used_is_told_and_nothing_else_is_lost() {
    let (long, large) = (format!("^{}", "a".repeat(300)), r"^\w{200}");
    for (name, value, remedy) in [
        ("millrace.dev/logs", "false", "write on or off"),
        ("millrace.dev/logs-parser", "xml", "write json, logfmt or none"),
        ("millrace.dev/logs-parsers", "json", "no annotation has this name"),
        ("millrace.dev/logs-multiline", "jav", "begins with ^"),
        ("millrace.dev/logs-multiline", "", "begins with ^"),
        ("millrace.dev/logs-multiline", "^(", "128 KiB when compiled"),
        ("millrace.dev/logs-multiline.app", &long, "256 characters"),
        ("millrace.dev/logs-multiline.app", large, "128 KiB when compiled"),
    ] {
        let found = of(&[(name, value), ("millrace.dev/logs-parser.web", "json")]);
        assert_eq!(found.all, Reading::default());
        assert_eq!(found.containers.len(), 1, "{name}");
        assert_eq!(found.containers["web"].parser, Some(Parser::Json));
        let told: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{name}: ")) && told[0].contains(remedy), "{told:?}");
        assert!(told[0].len() < 400 && !told[0].contains('\n'), "{told:?}");
    }
}

/// Scenario: more annotations than are read of one pod. Guarantee: those that fit hold, some of the
/// others are told.
#[test]
fn what_is_read_of_a_pod_is_bounded() {
    let pattern = format!("^{}", "a".repeat(250));
    let names: Vec<String> = (0..40).map(|n| format!("{ANNOTATION}-multiline.c{n:02}")).collect();
    let found = of(&names.iter().map(|name| (name.as_str(), &*pattern)).collect::<Vec<_>>());
    assert_eq!(found.faults.len(), FAULTS_MAX);
    let each = names[0].len() + pattern.len();
    assert_eq!(found.containers.len(), READING_BYTES_MAX / each);
}
