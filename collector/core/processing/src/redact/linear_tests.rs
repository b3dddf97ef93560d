//! The proof that reading a text takes time linear in its length: counted steps, no clock.

use super::{HITS_MAX, RedactConfig, RedactScratch, Redactor, STEPS_PER_BYTE, steps};

/// No detector reads more bytes than this for each byte of any text here. The most expensive are
/// `%40` with the longest local part and domain, and groups of four digits.
const STEPS_PER_BYTE_MAX: u64 = 220;

const UNIT_REPEATS: usize = 2000;

fn compile(config: &str) -> Redactor {
    let config: RedactConfig = serde_json::from_str(config).expect("settings");
    Redactor::compile(&config, None).expect("usable settings")
}

fn steps_of(redactor: &Redactor, text: &str) -> u64 {
    let _ = steps::take();
    redactor.find(text.as_bytes(), &mut RedactScratch::default());
    steps::take()
}

/// Scenario: texts that repeat the beginnings of matches, so that each begins inside the run that
/// the one before reads.
/// Guarantee: twice the text takes twice the steps, and no more than a stated number for each byte.
#[test]
fn hostile_texts_are_read_in_linear_time() {
    let redactor = compile("{}");
    let units = [
        "@",
        "a@",
        "a@b.",
        "a%40",
        "%40",
        "a.b@c.d.",
        "\\u0040",
        "o'",
        "\u{fc}@",
        "eyJ",
        "eyJaaaaaaaa.",
        "eyJaaaaaaaaaaaa.",
        "Bearer ",
        "Bearer a",
        "Basic YTpi",
        "Basic aaaa",
        "AKIA",
        "ASIAAKIA",
        "AIza",
        "ghp_",
        "gho_ghp_",
        "github_pat_",
        "xoxb-",
        "xoxb-1",
        "sk_live_",
        "AccountKey=",
        "SharedAccessKey=",
        "SecretAccessKey",
        "secret_access_key ",
        "sig=",
        "&sig=",
        "ya29.",
        "ya29.a",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----a ",
        "-----",
        "-----BEGIN PRIVATE KEY-----aaaaaaaaaaaaaaaaaaa",
        "1",
        "1.",
        "1.1.1.",
        "1.2.3.4.",
        "4111 ",
        "4111-",
        "4111 1111 1111 1111 ",
        "4",
        "DE89",
        "DE89 ",
        "IBANDE89",
        ":",
        "::",
        "1:",
        "1::",
        "a:",
        "1.:",
        "fe80:",
        "f",
        "f:f",
    ];
    for unit in units {
        let text = unit.repeat(UNIT_REPEATS);
        let once = steps_of(&redactor, &text);
        let twice = steps_of(&redactor, &text.repeat(2));
        assert!(twice <= 2 * once + 2000, "{unit}: {once}, then {twice}");
        let bytes = text.len() as u64;
        assert!(once <= STEPS_PER_BYTE_MAX * bytes, "{unit}: {once} of {bytes} bytes");
    }
}

/// Scenario: patterns of users for which a search reads to the end of the text for each match.
/// Guarantee: the steps are bounded for each byte; the remainder of the text counts as a hit, so
/// that no match is missed.
#[test]
fn patterns_of_users_read_a_bounded_number_of_steps() {
    let cases = [
        ("a+b|a", "a", true),
        (".*[^A-Z]|[A-Z]", "A", true),
        ("(?s).*x|a", "a", true),
        ("password=\\\\S+", "password=hunter2 ", false),
        ("[a-z]+[0-9]", "abc1 ", false),
        ("a", "a", false),
    ];
    for (pattern, unit, is_costly) in cases {
        let redactor = compile(&format!(
            r#"{{"sets": [], "patterns": [{{"name": "p", "pattern": "{pattern}"}}]}}"#
        ));
        let text = unit.repeat(UNIT_REPEATS);
        let mut scratch = RedactScratch::default();
        let _ = steps::take();
        redactor.find(text.as_bytes(), &mut scratch);
        let count = steps::take();
        // The search that exceeds the budget ends first, in each direction.
        let limit = (STEPS_PER_BYTE + 3) * text.len() + 1024;
        assert!(count <= limit as u64, "{pattern}: {count}");
        let last = scratch.hits().last().map(super::Hit::range).unwrap_or_default();
        assert_eq!(last.len() > unit.len(), is_costly, "{pattern}: {last:?}");
        assert_eq!(last.end, text.trim_end().len(), "{pattern}");
        let covered: usize = scratch.hits().iter().map(|hit| hit.range().len()).sum();
        assert!(!is_costly || covered == text.len(), "{pattern}: {covered}");
    }
}

/// Scenario: a text with more hits than are stored.
/// Guarantee: it counts as one hit that covers it.
#[test]
fn a_text_with_too_many_hits_is_one_hit() {
    let redactor = compile("{}");
    let mut scratch = RedactScratch::default();
    for (count, hits, length) in [(HITS_MAX, HITS_MAX, 7), (HITS_MAX + 1, 1, 8 * (HITS_MAX + 1))] {
        let text = "1.2.3.4 ".repeat(count);
        redactor.find(text.as_bytes(), &mut scratch);
        assert_eq!(scratch.hits().len(), hits);
        assert_eq!(scratch.hits()[0].range().len(), length);
    }
}
