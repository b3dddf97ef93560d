//! Tests that splitting a body doesn't change its result, and that any bytes are parsed or refused.

use common::{LIMITS, S, scrape_pieces, target};
use millrace_scrape::{BodyFormat, SeriesMemory};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::common;

fn body() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[ab]{1,2}(\\{[xy]=\"[a-c\\\\\\\\\"]{0,4}\"\\})? [0-9]{1,3}(\\.[0-9])?( [0-9]{1,12})?",
        Just("# TYPE a counter".to_owned()),
        Just("# HELP a text é".to_owned()),
        Just("# TYPE b histogram".to_owned()),
        "b_(bucket\\{le=\"(1|2|\\+Inf)\"\\}|sum|count) [0-9]",
        Just(String::new()),
        "[ -~é]{0,12}",
    ];
    proptest::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"))
}

fn cut<'a>(body: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

proptest! {
    /// Scenario: valid and malformed bodies are split anywhere. Guarantee: points, counts, fault
    /// and memory are the same as without splitting.
    #[test]
    fn where_a_body_is_cut_changes_nothing(
        body in body(),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        is_open: bool,
    ) {
        let format = if is_open { BodyFormat::OpenMetrics } else { BodyFormat::Prometheus };
        let target = target();
        let made = [vec![body.as_bytes()], cut(body.as_bytes(), &cuts)].map(|pieces| {
            let mut memory = SeriesMemory::default();
            let came = scrape_pieces(&target, &mut memory, (format, LIMITS), 10 * S, &pieces);
            let after = scrape_pieces(&target, &mut memory, (format, LIMITS), 20 * S, &[b"# EOF"]);
            (came.all_points(), came.counts, came.fault, after.all_points())
        });
        prop_assert_eq!(&made[0], &made[1]);
    }

    /// Scenario: a body has any bytes. Guarantee: no panic, and requests that pass the check of all
    /// clients' requests.
    #[test]
    fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [BodyFormat::Prometheus, BodyFormat::OpenMetrics] {
            let mut memory = SeriesMemory::default();
            let came = scrape_pieces(&target(), &mut memory, (format, LIMITS), 10 * S, &[&body]);
            prop_assert!(came.requests.len() == 1);
        }
    }
}
