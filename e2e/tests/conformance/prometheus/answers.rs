//! What the stand-in for targets answers: the answer to the n-th scrape of a target is a function of
//! target and n alone, so that two clients that scrape at different moments are told the same.
//!
//! Chance is drawn from target, subject and n: which scrapes fail and how, when a target begins
//! anew, which series are there. Each target has a part of a Prometheus' formats or settings.

use std::fmt::Write;

use super::native;

/// Scrapes between two draws of which series are there.
const STAY: u64 = 3;
/// One scrape of so many finds its target begun anew.
const RESTART: u64 = 12;
/// Failures that are drawn, of so many draws.
const ROUGH: u64 = 16;

/// An answer to a scrape.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Status 200, a content type and a body.
    Body(&'static str, Vec<u8>),
    /// The same, with a fault behind what is well: a line that is none, a sample over the limit.
    Faulty(&'static str, Vec<u8>),
    /// Status 500.
    Refused,
    /// Half of a body, then the end of the connection.
    Cut(&'static str, Vec<u8>),
    /// No answer until the client goes.
    Silent,
    /// The end of the connection, without a word: what a target that restarts does.
    Closed,
}

/// The targets, by the label `target` that each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Text 0.0.4: every type, odd values and labels, series that come and go, every failure.
    Plain,
    /// OpenMetrics: creation times, exemplars, units, info, state sets; every failure.
    Open,
    /// Times of their own beside samples without; every failure.
    Timed,
    /// The same from a job that ignores them.
    Unstamped,
    /// Labels of the job's names, which a job keeps.
    Honored,
    /// The same from a job that renames them.
    Exported,
    /// Rules for targets and for samples; every failure.
    Relabeled,
    /// More samples than its job allows, now and then.
    Limited,
    /// Protobuf with native histograms; every failure.
    Native,
    /// From a list that drops it halfway.
    Listed,
}

impl Target {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self::Plain,
        Self::Open,
        Self::Timed,
        Self::Unstamped,
        Self::Honored,
        Self::Exported,
        Self::Relabeled,
        Self::Limited,
        Self::Native,
        Self::Listed,
    ];

    /// The label's value, and the job's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Open => "open",
            Self::Timed => "timed",
            Self::Unstamped => "unstamped",
            Self::Honored => "honored",
            Self::Exported => "exported",
            Self::Relabeled => "relabeled",
            Self::Limited => "limited",
            Self::Native => "native",
            Self::Listed => "listed",
        }
    }

    const fn is_rough(self) -> bool {
        matches!(self, Self::Plain | Self::Open | Self::Timed | Self::Relabeled | Self::Native)
    }

    /// The answer to its n-th scrape. Times of their own begin at `epoch_millis`.
    pub(crate) fn answer(self, n: u64, epoch_millis: u64) -> Answer {
        let at = At { target: self, n };
        let (content_type, mut body) = self.body(at, epoch_millis);
        if self == Self::Limited && at.is_over() {
            return Answer::Faulty(content_type, body);
        }
        if !self.is_rough() {
            return Answer::Body(content_type, body);
        }
        match at.draw("failure", n) % ROUGH {
            0 => Answer::Refused,
            1 => Answer::Cut(content_type, body),
            2 => {
                // Behind whole lines: half of one might be another sample.
                let half = &body[..body.len() / 2];
                let end = half.iter().rposition(|byte| *byte == b'\n').unwrap_or(half.len());
                body.truncate(end);
                body.extend_from_slice(b"\n}{ no line at all\n");
                Answer::Faulty(content_type, body)
            }
            3 => Answer::Silent,
            4 => Answer::Closed,
            _ => Answer::Body(content_type, body),
        }
    }

    fn body(self, at: At, epoch_millis: u64) -> (&'static str, Vec<u8>) {
        const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
        const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let stamp_millis = epoch_millis + at.n * 1_000;
        match self {
            Self::Plain => (TEXT, plain(at).into_bytes()),
            Self::Open => (OPEN, open(at, epoch_millis, stamp_millis).into_bytes()),
            Self::Timed | Self::Unstamped => (TEXT, timed(at, stamp_millis).into_bytes()),
            Self::Honored | Self::Exported => (TEXT, clashing(at).into_bytes()),
            Self::Relabeled => (TEXT, relabeled(at).into_bytes()),
            Self::Limited => (TEXT, limited(at).into_bytes()),
            Self::Native => (native::CONTENT_TYPE, native::body(at)),
            Self::Listed => (TEXT, format!("steady 1\ncounted_total {}\n", at.n).into_bytes()),
        }
    }
}

/// A scrape of a target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    target: Target,
    /// Which one, from 0.
    pub(crate) n: u64,
}

impl At {
    /// A number of chance.
    pub(crate) fn draw(self, subject: &str, round: u64) -> u64 {
        // FNV-1a, then the finish of splitmix64.
        let bytes = self.target.name().bytes().chain(subject.bytes()).chain(round.to_le_bytes());
        let mut drawn = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^ (drawn >> 31)
    }

    /// Whether a series that comes and goes is there.
    pub(crate) fn has(self, series: &str) -> bool {
        !self.draw(series, self.n / STAY).is_multiple_of(3)
    }

    /// Whether it has more samples than its job allows.
    fn is_over(self) -> bool {
        self.draw("over", self.n).is_multiple_of(4)
    }

    /// The scrape at which the target last began anew.
    fn began(self) -> u64 {
        let is_first = |n: &u64| self.draw("restart", *n).is_multiple_of(RESTART);
        (0..=self.n).rev().find(is_first).unwrap_or(0)
    }

    /// Of a counter: it grows, and falls when the target begins anew.
    pub(crate) fn count(self, step: u64) -> u64 {
        (self.n - self.began() + 1) * step
    }

    /// Of a gauge: anything, with a fraction.
    fn level(self, subject: &str) -> f64 {
        self.draw(subject, self.n) as i64 as f64 / 1e15
    }
}

fn plain(at: At) -> String {
    let mut text = String::from(
        "# HELP requests_total Requests \\\\ with a \\n line end.\n# TYPE requests_total counter\n",
    );
    let _ = writeln!(text, "requests_total{{code=\"200\",path=\"/\"}} {}", at.count(7));
    let _ = writeln!(text, r#"requests_total{{path="/a\"b\\c\nd", code="500",}} {}"#, at.count(1));
    let _ = writeln!(text, "requests_total{{path=\"grüße ☃\",code=\"\"}} {}", at.count(3));
    let odd = ["NaN", "+Inf", "-Inf", "-0", "1e-320", "1.7976931348623157e308", "12345"];
    text.push_str("\n# a comment\n# TYPE odd gauge\n");
    for (place, value) in odd.iter().enumerate() {
        let _ = writeln!(text, "odd{{place=\"{place}\"}} {value}");
    }
    text.push_str("# TYPE temperature gauge\n");
    for room in ["a", "b", "c", "d", "e", "f"] {
        if at.has(room) {
            let _ = writeln!(text, "temperature{{room=\"{room}\"}}\t{}", at.level(room));
        }
    }
    let _ = writeln!(text, "without_type {}\n# TYPE told untyped\ntold 3e-7", at.level("without"));
    text.push_str("# TYPE same gauge\nsame{a=\"1\"} 1\nsame{a=\"1\"} 1\n");
    if at.has("family") {
        let _ = writeln!(text, "# TYPE seldom counter\nseldom {}", at.count(2));
    }
    histogram(&mut text, at, "latency_seconds", "0.1 0.5 1 2.5");
    summary(&mut text, at, "rpc_seconds", "0.5 0.9 0.99");
    text
}

/// A classic histogram with two sets of labels, one of which comes and goes, and bounds of which
/// one does.
fn histogram(text: &mut String, at: At, name: &str, bounds: &str) {
    let _ = writeln!(text, "# HELP {name} A histogram.\n# TYPE {name} histogram");
    for zone in ["a", "b"] {
        if zone == "b" && !at.has(name) {
            continue;
        }
        let mut sum = 0;
        for (place, bound) in bounds.split(' ').enumerate() {
            sum = at.count(place as u64 + 2);
            if place == 2 && !at.has("bound") {
                continue;
            }
            let _ = writeln!(text, "{name}_bucket{{zone=\"{zone}\",le=\"{bound}\"}} {sum}");
        }
        let all = sum + at.count(1);
        let _ = writeln!(text, "{name}_bucket{{zone=\"{zone}\",le=\"+Inf\"}} {all}");
        let _ = writeln!(text, "{name}_sum{{zone=\"{zone}\"}} {}.25", at.count(9));
        let _ = writeln!(text, "{name}_count{{zone=\"{zone}\"}} {all}");
    }
}

fn summary(text: &mut String, at: At, name: &str, quantiles: &str) {
    let _ = writeln!(text, "# TYPE {name} summary");
    for zone in ["a", "b"] {
        if zone == "b" && !at.has(name) {
            continue;
        }
        for (place, quantile) in quantiles.split(' ').enumerate() {
            let value = if place == 1 { "NaN".to_owned() } else { at.level(quantile).to_string() };
            let _ = writeln!(text, "{name}{{zone=\"{zone}\",quantile=\"{quantile}\"}} {value}");
        }
        let _ = writeln!(text, "{name}_sum{{zone=\"{zone}\"}} {}.5", at.count(3));
        let _ = writeln!(text, "{name}_count{{zone=\"{zone}\"}} {}", at.count(4));
    }
}

fn open(at: At, epoch_millis: u64, stamp_millis: u64) -> String {
    let created = epoch_millis as f64 / 1e3 - 1e6 + at.began() as f64 + 0.25;
    let stamp = format!("{}.{:03}", stamp_millis / 1_000, stamp_millis % 1_000);
    let exemplar = format!("# {{trace_id=\"{:032x}\",of=\"x\"}} 0.25 {stamp}", at.n + 1);
    let mut text = String::from("# TYPE jobs counter\n# HELP jobs All \\\"jobs\\\".\n");
    for queue in ["a", "b"] {
        if queue == "b" && !at.has("queue") {
            continue;
        }
        let count = at.count(5);
        let _ = writeln!(text, "jobs_total{{queue=\"{queue}\"}} {count}.0 {exemplar}");
        let _ = writeln!(text, "jobs_created{{queue=\"{queue}\"}} {created}");
    }
    let (few, all) = (at.count(2), at.count(6));
    text.push_str("# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n");
    let _ = writeln!(text, "wait_seconds_bucket{{le=\"0.5\"}} {few} {exemplar}");
    let _ = writeln!(text, "wait_seconds_bucket{{le=\"1.0\"}} {all}");
    let _ = writeln!(text, "wait_seconds_bucket{{le=\"+Inf\"}} {all}");
    let _ = writeln!(text, "wait_seconds_sum {few}.5\nwait_seconds_count {all}");
    let _ = writeln!(text, "wait_seconds_created {created}");
    text.push_str("# TYPE rpc summary\n");
    let _ = writeln!(text, "rpc{{quantile=\"0.5\"}} {}", at.level("rpc"));
    let _ = writeln!(text, "rpc_count {all}\nrpc_sum {few}");
    text.push_str("# TYPE build info\nbuild_info{version=\"1.2\",commit=\"\"} 1\n");
    let is_on = u64::from(at.has("phase"));
    let _ = writeln!(text, "# TYPE phase stateset\nphase{{phase=\"on\"}} {is_on}");
    let _ = writeln!(text, "phase{{phase=\"off\"}} {}", 1 - is_on);
    text.push_str("# TYPE depth gaugehistogram\ndepth_bucket{le=\"1.0\"} 2\n");
    text.push_str("depth_bucket{le=\"+Inf\"} 3\ndepth_gcount 3\ndepth_gsum 4\n");
    let _ = writeln!(text, "# TYPE what unknown\nwhat {}", at.level("what"));
    let _ = writeln!(text, "# TYPE timed gauge\ntimed{{a=\"x\"}} {} {stamp}", at.level("timed"));
    text.push_str("# TYPE target info\ntarget_info{region=\"north\",version=\"3\"} 1\n# EOF\n");
    text
}

fn timed(at: At, stamp_millis: u64) -> String {
    let mut text = String::from("# TYPE timed gauge\n");
    for name in ["a", "b", "c"] {
        if at.has(name) {
            let _ = writeln!(text, "timed{{a=\"{name}\"}} {} {stamp_millis}", at.level(name));
        }
    }
    let _ =
        writeln!(text, "# TYPE timed_total counter\ntimed_total {} {stamp_millis}", at.count(2));
    if at.has("untimed") {
        let _ = writeln!(text, "# TYPE untimed gauge\nuntimed {}", at.level("untimed"));
    }
    text
}

/// Labels that the job and its target have too.
fn clashing(at: At) -> String {
    let mut text = String::from("# TYPE pushed gauge\n");
    let sets = [
        "job=\"batch\",instance=\"i-1\"",
        "job=\"batch\"",
        "env=\"body\"",
        "job=\"batch\",exported_job=\"x\"",
        "instance=\"\"",
        "env=\"\",job=\"\"",
        "exported_env=\"y\",env=\"z\"",
    ];
    for (own, labels) in sets.iter().enumerate().filter(|(_, labels)| at.has(labels)) {
        let _ = writeln!(text, "pushed{{{labels},own=\"{own}\"}} {}", at.level(labels));
    }
    text
}

fn relabeled(at: At) -> String {
    let mut text = String::from("# TYPE go_threads gauge\ngo_threads 7\n");
    for id in 0..6 {
        let id = format!("id-{id}");
        if at.has(&id) {
            let level = at.level(&id);
            let _ = writeln!(text, "disk_free{{id=\"{id}\",device=\"SDA\",tmp=\"1\"}} {level}");
        }
    }
    histogram(&mut text, at, "old_seconds", "1 2 4 8");
    let _ = writeln!(text, "# TYPE old_total counter\nold_total{{a=\"1\"}} {}", at.count(3));
    let _ =
        writeln!(text, "# TYPE keep gauge\nkeep{{drop_me=\"yes\"}} 1\nkeep{{drop_me=\"no\"}} 2");
    text
}

/// At most ten samples are allowed.
fn limited(at: At) -> String {
    let count = if at.is_over() { 13 } else { 10 };
    (0..count).fold(String::new(), |mut text, place| {
        let _ = writeln!(text, "limited{{place=\"{place}\"}} {}", at.count(1));
        text
    })
}
