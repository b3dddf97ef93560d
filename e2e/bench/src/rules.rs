//! Cases of rules: an edge that runs them, and the OpenTelemetry Collector with the processors that
//! do the same.

use crate::dataset::Dataset;

/// What is done with each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RulesCase {
    /// Nothing: what all others are compared with.
    Nothing,
    /// One attribute is renamed.
    Rename,
    /// A rename, a deletion, a value by a condition, long values cut.
    Four,
    /// A rename, and ten rules that match nothing: each costs a tenth of the difference.
    Unmatched,
    /// All but the most severe of sampled traces are dropped: 94.5 of 100.
    Drop,
    /// Nothing of spans, with which the next case is compared.
    SpansNothing,
    /// Of spans, two keys are deleted and one is set by a condition.
    Spans,
    /// All ready sets of redaction.
    Redact,
    /// The most severe go to another topic: one of eight.
    Route,
    /// The metadata of the pod that has the client's address, one of 10,000.
    Enrich,
}

const RENAME: &[&str] = &[
    "set(attributes[\"source.function\"], attributes[\"code.function.name\"])",
    "delete_key(attributes, \"code.function.name\")",
];
const FOUR: &[&str] = &[
    "set(attributes[\"source.function\"], attributes[\"code.function.name\"])",
    "delete_key(attributes, \"code.function.name\")",
    "delete_key(attributes, \"thread.id\")",
    "set(attributes[\"loud\"], true) where severity_number >= 17",
    "truncate_all(attributes, 256)",
];
const UNMATCHED: usize = 10;
const SPANS: &[&str] = &[
    "delete_key(attributes, \"user_agent.original\")",
    "delete_key(attributes, \"network.protocol.version\")",
    "set(attributes[\"failed\"], true) where attributes[\"http.response.status_code\"] >= 400",
];
/// The load has eight severities, each as often, and samples half of seven of eight records.
const DROP: &str = "severity_number < 24 or flags == 0";
const SEVERE: &str = "severity_number >= 24";
const LABELS: &str = "app.kubernetes.io/*";
/// What the Collector's processor blocks: expressions for the values that our sets find.
const BLOCKED: &[&str] = &[
    "[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}",
    "[Bb]earer [A-Za-z0-9._~+/-]+=*",
    "eyJ[A-Za-z0-9_-]+\\.eyJ[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+",
    "(?:\\d[ -]?){13,19}",
    "[A-Z]{2}\\d{2}[A-Z0-9]{11,30}",
    "-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "AKIA[0-9A-Z]{16}",
    "(?:\\d{1,3}\\.){3}\\d{1,3}",
    "(?:[0-9a-fA-F]{1,4}:){2,7}[0-9a-fA-F]{1,4}",
];

impl RulesCase {
    /// What is sent.
    pub(crate) fn dataset(self) -> Dataset {
        if self.is_of_spans() { Dataset::Rich } else { Dataset::Logs }
    }

    fn is_of_spans(self) -> bool {
        matches!(self, Self::Spans | Self::SpansNothing)
    }

    /// Whether the topic holds fewer records than were sent.
    pub(crate) fn drops(self) -> bool {
        self == Self::Drop
    }

    /// Another topic to which records of the one go.
    pub(crate) fn other_topic(self, topic: &str) -> Option<String> {
        (self == Self::Route).then(|| format!("{topic}_severe"))
    }

    /// Records of a batch of the Collector's: its exporter refuses messages over 1 MB, of which a
    /// log record is some 300 bytes and a rich span 1 KB.
    pub(crate) fn peers_batch(self) -> u32 {
        if self.is_of_spans() { 800 } else { 3_000 }
    }

    fn statements(self) -> Vec<String> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        match self {
            Self::Rename => owned(RENAME),
            Self::Four => owned(FOUR),
            Self::Spans => owned(SPANS),
            Self::Unmatched => {
                let unmatched = (0..UNMATCHED).map(|number| {
                    format!("set(body, \"x\") where attributes[\"absent.{number}\"] == \"x\"")
                });
                RENAME.iter().map(|&text| text.to_owned()).chain(unmatched).collect()
            }
            Self::Nothing
            | Self::SpansNothing
            | Self::Drop
            | Self::Redact
            | Self::Route
            | Self::Enrich => Vec::new(),
        }
    }

    /// Our settings for this topic: a section, or nothing.
    pub(crate) fn ours(self, topic: &str) -> String {
        match self {
            Self::Nothing | Self::SpansNothing => String::new(),
            Self::Route => {
                let other = self.other_topic(topic).unwrap_or_default();
                format!(
                    "processing:\n- {{name: bench, route: {{topic: {other}, logs: ['{SEVERE}']}}}}\n"
                )
            }
            Self::Enrich => format!(
                "processing:\n- {{name: bench, enrich: {{podMetadata: {{labels: ['{LABELS}']}}}}}}\n"
            ),
            Self::Drop => {
                format!("processing:\n- {{name: bench, drop: {{logs: ['{DROP}']}}}}\n")
            }
            Self::Redact => "processing:\n- {name: bench, redact: {}}\n".to_owned(),
            _ => {
                let context = if self == Self::Spans { "span" } else { "log" };
                let lines = self.statements().into_iter().map(|text| format!("  - '{text}'\n"));
                format!(
                    "processing:\n- name: bench\n  context: {context}\n  statements:\n{}",
                    lines.collect::<String>()
                )
            }
        }
    }

    /// The Collector's processor, and its name for the pipeline, with a comma behind it.
    pub(crate) fn peers(self) -> (String, &'static str) {
        match self {
            Self::Nothing | Self::SpansNothing | Self::Route | Self::Enrich => (String::new(), ""),
            Self::Drop => {
                let logs = format!("logs: {{log_record: ['{DROP}']}}");
                (format!("  filter: {{error_mode: ignore, {logs}}}\n"), "filter, ")
            }
            Self::Redact => {
                let blocked = BLOCKED.iter().map(|text| format!("    - '{text}'\n"));
                let head = "  redaction:\n    allow_all_keys: true\n    blocked_values:\n";
                (format!("{head}{}", blocked.collect::<String>()), "redaction, ")
            }
            _ => {
                let (list, context) = match self {
                    Self::Spans => ("trace_statements", "span"),
                    _ => ("log_statements", "log"),
                };
                let texts = self.statements().into_iter().map(|text| format!("      - '{text}'\n"));
                let head = format!(
                    "  transform:\n    error_mode: ignore\n    {list}:\n    - context: {context}\n\
                     \x20     statements:\n"
                );
                (format!("{head}{}", texts.collect::<String>()), "transform, ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::RulesCase;

    const ALL: [RulesCase; 10] = [
        RulesCase::Nothing,
        RulesCase::Rename,
        RulesCase::Four,
        RulesCase::Unmatched,
        RulesCase::Drop,
        RulesCase::SpansNothing,
        RulesCase::Spans,
        RulesCase::Redact,
        RulesCase::Route,
        RulesCase::Enrich,
    ];

    /// Scenario: the settings of each case, for the collector that is built, if one is. Guarantee:
    /// it takes them, so that a run of hours doesn't end at the last case.
    #[test]
    fn the_collector_takes_the_rules_of_each_case() {
        let Ok(program) = millrace_e2e::binaries::path("millrace-collector") else { return };
        let folder = tempfile::tempdir().unwrap();
        let edge = "receivers: {otlp: {}}\n\
                    exporters: {kafka: {connection: {bootstrapServers: ['k:1']}}}\n";
        for case in ALL {
            let file = folder.path().join("edge.yaml");
            std::fs::write(&file, format!("{}{edge}", case.ours("t"))).unwrap();
            let mut command = Command::new(&program);
            let output = command.args(["validate", "--config"]).arg(&file).output().unwrap();
            assert!(output.status.success(), "{case:?}: {output:?}");
        }
    }

    /// Scenario: each case that peers have. Guarantee: the peer has a processor exactly where ours has
    /// rules.
    #[test]
    fn each_case_is_the_same_for_both() {
        let are_ours = [RulesCase::Route, RulesCase::Enrich];
        for case in ALL.into_iter().filter(|case| !are_ours.contains(case)) {
            let (processor, name) = case.peers();
            assert_eq!(case.ours("t").is_empty(), processor.is_empty(), "{case:?}");
            assert_eq!(name.is_empty(), processor.is_empty(), "{case:?}");
        }
    }
}
