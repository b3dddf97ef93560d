//! OpenTelemetry's member of W3C's trace state.

use millrace_processing::sample::{
    MEMBERS_MAX, Randomness, TRACE_STATE_BYTES_MAX, TRACE_STATE_READ_BYTES_MAX, Threshold,
    TraceState, TraceStateFault,
};
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};

fn write(raw: &str, threshold: &str) -> String {
    let state = TraceState::parse(raw.as_bytes()).expect("a trace state");
    let mut out = Vec::new();
    state.write(Threshold::parse(threshold.as_bytes()), &mut out);
    String::from_utf8(out).expect("ASCII")
}

/// Scenario: trace states as SDKs and vendors write them.
/// Guarantee: `th` and `rv` are read; a malformed member of OpenTelemetry counts as absent.
#[test]
fn reads_threshold_and_randomness() {
    let cases: [(&str, &str, &str, bool); 22] = [
        ("", "", "", false),
        (",,,", "", "", false),
        ("ot=th:c", "c", "", false),
        (" ot=th:1 ", "1", "", false),
        (" , ot=th:1, , other=value ", "1", "", false),
        ("ot=th:100;rv:abcdabcdabcdff", "1", "abcdabcdabcdff", false),
        ("ot=th:c;rv:d29d6a7215ced0;pn:abc,zz=vendorcontent", "c", "d29d6a7215ced0", false),
        ("zz=a,ot=rv:11111111111111", "", "11111111111111", false),
        ("tenant@ot=th:8", "", "", false),
        ("ott=th:8,xot=th:8", "", "", false),
        ("vendor=YWJj==,ot=th:8", "8", "", false),
        ("ot=p:8;r:62", "", "", false),
        ("ot=x:0X1FFF;y:.-_-.;z:;th:50", "5", "", false),
        ("ot=th:100000000000000", "", "", true),
        ("ot=th:;rv:11111111111111", "", "11111111111111", true),
        ("ot=th:1;rv:3", "1", "", true),
        ("ot=th:1;", "", "", true),
        ("ot=th:1;p=2", "", "", true),
        ("ot=:1", "", "", true),
        ("ot=TH:1", "", "", true),
        ("ot=th:8;th:c", "", "", true),
        ("ot=th:8,ot=th:c", "8", "", true),
    ];
    for (raw, threshold, randomness, has_fault) in cases {
        let state = TraceState::parse(raw.as_bytes()).expect("a trace state");
        assert_eq!(state.threshold(), Threshold::parse(threshold.as_bytes()), "{raw}");
        assert_eq!(state.randomness(), Randomness::parse(randomness.as_bytes()), "{raw}");
        assert_eq!(state.has_sampling_fault(), has_fault, "{raw}");
    }
}

/// Scenario: trace states that W3C says to discard.
/// Guarantee: each is refused with its reason.
#[test]
fn refuses_what_w3c_declares_malformed() {
    let members = |count| vec!["x=y"; count].join(",");
    let cases = [
        ("-1=2".to_owned(), TraceStateFault::Member(0)),
        ("a=b,=".to_owned(), TraceStateFault::Member(1)),
        ("KEY=value".to_owned(), TraceStateFault::Member(0)),
        ("key=".to_owned(), TraceStateFault::Member(0)),
        ("key".to_owned(), TraceStateFault::Member(0)),
        ("key=val\u{0}ue".to_owned(), TraceStateFault::Member(0)),
        ("a b=value".to_owned(), TraceStateFault::Member(0)),
        ("key=\u{e4}".to_owned(), TraceStateFault::Member(0)),
        (format!("x={}", "y".repeat(257)), TraceStateFault::Member(0)),
        (format!("{}=y", "x".repeat(257)), TraceStateFault::Member(0)),
        (members(MEMBERS_MAX + 1), TraceStateFault::TooManyMembers),
        (",".repeat(TRACE_STATE_READ_BYTES_MAX + 1), TraceStateFault::TooLong),
    ];
    for (raw, fault) in cases {
        assert_eq!(TraceState::parse(raw.as_bytes()), Err(fault), "{raw}");
    }
    assert!(TraceState::parse(members(MEMBERS_MAX).as_bytes()).is_ok());
}

/// Scenario: a threshold is written, replaced and removed.
/// Guarantee: the pairs and members of others stay in their order; a new member is the first; what
/// is malformed in OpenTelemetry's member goes.
#[test]
fn writes_the_threshold_and_leaves_the_rest() {
    let cases = [
        ("", "c", "ot=th:c"),
        ("", "", ""),
        ("a=b", "0", "ot=th:0,a=b"),
        ("a=b, c=d e ,f@g=h", "8", "ot=th:8,a=b,c=d e,f@g=h"),
        ("a=b,ot=th:8,c=d", "e", "a=b,ot=th:e,c=d"),
        ("a=b,ot=th:8,c=d", "", "a=b,c=d"),
        ("ot=th:8;rv:abcdefabcdefab", "fd70a4", "ot=th:fd70a4;rv:abcdefabcdefab"),
        ("ot=a:b;rv:abcdefabcdefab;c:d", "3", "ot=a:b;rv:abcdefabcdefab;c:d;th:3"),
        ("ot=a:b;th:8;c:d", "", "ot=a:b;c:d"),
        ("ot=rv:3;p:2", "8", "ot=p:2;th:8"),
        ("ot=th:8;th:9;x:y,a=b", "8", "ot=th:8,a=b"),
        ("ot=bad,a=b", "", "a=b"),
        ("ot=th:8,a=b,ot=th:c", "e", "ot=th:e,a=b"),
        ("ot=th:1000", "1", "ot=th:1"),
    ];
    for (raw, threshold, expected) in cases {
        assert_eq!(write(raw, threshold), expected, "{raw}");
    }
}

/// Scenario: 32 members, or 512 bytes, before a threshold is added.
/// Guarantee: the result is within both bounds: first members over 128 bytes go, then the last
/// ones; never OpenTelemetry's.
#[test]
fn what_is_written_is_within_the_bounds_of_w3c() {
    let names = (0..MEMBERS_MAX).map(|index| format!("m{index}=v")).collect::<Vec<_>>();
    let written = write(&names.join(","), "8");
    assert_eq!(written, format!("ot=th:8,{}", names[..MEMBERS_MAX - 1].join(",")));

    let long = format!("long={}", "x".repeat(200));
    let short: Vec<_> = (0..4).map(|index| format!("s{index}={}", "y".repeat(90))).collect();
    let raw = [&short[0], &long, &short[1], &short[2], &short[3]].map(String::as_str).join(",");
    assert_eq!(write(&raw, "8"), format!("ot=th:8,{}", short.join(",")));

    let many: Vec<_> = (0..9).map(|index| format!("s{index}={}", "y".repeat(60))).collect();
    let written = write(&many.join(","), "8");
    assert_eq!(written, format!("ot=th:8,{}", many[..7].join(",")));
    assert!(written.len() <= TRACE_STATE_BYTES_MAX);

    let full = format!("ot=a:{};rv:abcdefabcdefab", "b".repeat(256 - 20));
    assert_eq!(write(&full, "fd70a4"), "ot=rv:abcdefabcdefab;th:fd70a4");
}

fn member() -> impl Strategy<Value = String> {
    "[a-n][a-z0-9_*/-]{0,20}(@[a-z]{1,5})?=[ -+.-~]{0,80}[!-+.-~]"
}

fn own_member() -> impl Strategy<Value = String> {
    "ot=((th:[0-9a-f]{1,14};)?(rv:[0-9a-f]{14};)?|(x:[a-z]{0,5};)?(th:[0-9a-f]{1,14};)?)q:[a-z.]?"
}

proptest! {
    /// Scenario: any members, OpenTelemetry's at any position, and any threshold.
    /// Guarantee: what is written is read again: the threshold is the new one, the randomness and
    /// the other members are unchanged.
    #[test]
    fn trace_states_round_trip(
        before in proptest::collection::vec(member(), 0..3),
        own in proptest::option::of(own_member()),
        after in proptest::collection::vec(member(), 0..2),
        value in proptest::option::of(0_u64..1 << 56),
    ) {
        let others: Vec<String> = before.iter().chain(&after).cloned().collect();
        let raw: Vec<String> = before.into_iter().chain(own.clone()).chain(after).collect();
        let raw = raw.join(",");
        let state = TraceState::parse(raw.as_bytes()).expect("a trace state");
        let threshold = value.and_then(Threshold::new);
        let mut out = Vec::new();
        state.write(threshold, &mut out);
        let again = TraceState::parse(&out).expect("a trace state");
        prop_assert_eq!(again.threshold(), threshold);
        prop_assert_eq!(again.randomness(), state.randomness());
        prop_assert!(out.len() <= TRACE_STATE_BYTES_MAX);
        let written = String::from_utf8(out).expect("ASCII");
        let left: Vec<&str> =
            written.split(',').filter(|m| !m.is_empty() && !m.starts_with("ot=")).collect();
        let others: Vec<&str> = others.iter().map(|member| member.trim_matches(' ')).collect();
        prop_assert_eq!(left, others);
        let mut unchanged = Vec::new();
        state.write(state.threshold(), &mut unchanged);
        let unchanged = String::from_utf8(unchanged).expect("ASCII");
        if own.is_some_and(|own| own.contains("q:")) {
            prop_assert!(unchanged.contains("q:"));
        }
    }

    /// Scenario: any bytes.
    /// Guarantee: reading and writing end, within the bounds.
    #[test]
    fn hostile_bytes_are_read_within_bounds(
        raw in proptest::collection::vec(
            proptest::sample::select(b"ot=th:rv;,a8 \t=:\x00\xc3".to_vec()),
            0..600,
        ),
        value in 0_u64..1 << 56,
    ) {
        let state = TraceState::parse(&raw).unwrap_or_default();
        let mut out = Vec::new();
        state.write(Threshold::new(value), &mut out);
        prop_assert!(out.len() <= TRACE_STATE_BYTES_MAX);
        let again = TraceState::parse(&out).expect("what is written is well formed");
        prop_assert_eq!(again.threshold(), Threshold::new(value));
    }
}
