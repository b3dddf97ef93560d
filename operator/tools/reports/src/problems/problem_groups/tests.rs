//! Tests of grouping, as a table.

use super::group_findings;
use crate::problems::findings::{Finding, RolloutCause, Severity};

fn finding(object: &str, condition: &str, reason: &str, message: &str) -> Finding {
    let (kind, name) = object.split_once(' ').unwrap();
    Finding {
        severity: Severity::Broken,
        kind: kind.to_owned(),
        name: name.to_owned(),
        condition: condition.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        for_seconds: Some(60),
        remedy: None,
        image: None,
        rollout: None,
    }
}

/// A pool whose pods can't pull an image, as the operator words it; `rolled_back` after a canary.
fn bad_image(object: &str, image: &str, pod: &str, rolled_back: bool) -> Finding {
    let cause = format!("pod {pod}: its image can't be pulled; see its events");
    let (reason, message) = match rolled_back {
        true => ("RolledBack", format!("{image} was rolled back: ImagePullFailed: {cause}")),
        false => {
            ("ImagePullFailed", format!("no pod was changed to {image} with config-7f: {cause}"))
        }
    };
    Finding {
        image: Some(image.to_owned()),
        rollout: Some(RolloutCause { reason: "ImagePullFailed".to_owned(), message: cause }),
        ..finding(object, "PodsReady", reason, &message)
    }
}

const CONSENT: &str = "ConsentRequired";
const PLAIN: &str = "ConnectionUnencrypted";
const KAFKA: &str = "kafka.authentication.type Plain sends the password in plaintext";
const CLICKHOUSE: &str = "clickhouse.endpoints with http:// receive the password in plaintext";

/// A scenario, its problems, and the expected groups.
type Case = (&'static str, Vec<Finding>, &'static [&'static str]);

const SCHEMA: &str = "TelemetrySchema p";

fn consent_and_image_cases() -> Vec<Case> {
    vec![
        ("no problem", vec![], &[]),
        (
            "a changed TTL that waits for consent: three conditions of one object",
            vec![
                finding(SCHEMA, "Applied", CONSENT, "plan 0c85, 2 statements wait"),
                finding(SCHEMA, "SchemaReady", CONSENT, "otel_traces: time to live is none"),
                finding(SCHEMA, "Drifted", CONSENT, "otel_traces: time to live is none"),
            ],
            &["TelemetrySchema p: Applied ConsentRequired"],
        ),
        (
            "one bad image in all pools; the gateways' canary was rolled back",
            vec![
                bad_image("GatewayPool p", "r/c:9.9.9", "p-gateway-try-e8", true),
                bad_image("EdgePool p-clients", "r/c:9.9.9", "p-clients-edge-try-d2", false),
                bad_image(
                    "EdgePool p-nodes",
                    "r/c:9.9.9",
                    "p-nodes-edge-try-bf (and 3 more)",
                    false,
                ),
            ],
            &["GatewayPool p, EdgePool p-clients, EdgePool p-nodes: PodsReady ImagePullFailed"],
        ),
        (
            "two images that can't be pulled",
            vec![
                bad_image("GatewayPool p", "r/c:9.9.9", "p-gateway-0", false),
                bad_image("EdgePool p-clients", "r/edge:8", "p-clients-edge-1", false),
            ],
            &[
                "GatewayPool p: PodsReady ImagePullFailed",
                "EdgePool p-clients: PodsReady ImagePullFailed",
            ],
        ),
        (
            "a rollback whose cause no other object reports keeps its own reason",
            vec![bad_image("GatewayPool p", "r/c:9.9.9", "p-gateway-try-e8", true)],
            &["GatewayPool p: PodsReady RolledBack"],
        ),
    ]
}

fn connection_and_reason_cases() -> Vec<Case> {
    let both = format!("{KAFKA}; {CLICKHOUSE}");
    let crash = "pod p-clients-edge-5d: it ends again and again; see its log";
    vec![
        (
            "passwords in plaintext to two systems; one object reports both",
            vec![
                finding("EdgePool p-clients", "CredentialsExposed", PLAIN, KAFKA),
                finding(SCHEMA, "CredentialsExposed", PLAIN, CLICKHOUSE),
                finding("GatewayPool p", "CredentialsExposed", PLAIN, &both),
            ],
            &["EdgePool p-clients, GatewayPool p, TelemetrySchema p: CredentialsExposed \
               ConnectionUnencrypted"],
        ),
        (
            "passwords in plaintext to two systems, reported separately",
            vec![
                finding("EdgePool p-clients", "CredentialsExposed", PLAIN, KAFKA),
                finding(SCHEMA, "CredentialsExposed", PLAIN, CLICKHOUSE),
            ],
            &[
                "EdgePool p-clients: CredentialsExposed ConnectionUnencrypted",
                "TelemetrySchema p: CredentialsExposed ConnectionUnencrypted",
            ],
        ),
        (
            "equal messages with different reasons",
            vec![
                finding("EdgePool a", "PodsReady", "PodCrashing", crash),
                finding("EdgePool b", "PodsReady", "PodOutOfMemory", crash),
            ],
            &["EdgePool a: PodsReady PodCrashing", "EdgePool b: PodsReady PodOutOfMemory"],
        ),
        (
            "an unreachable broker: a topic and a pool",
            vec![
                finding("TelemetryTopic t", "Ready", "KafkaUnreachable", "kafka:9092: refused"),
                finding("GatewayPool p", "LagMeasured", "KafkaUnreachable", "kafka:9092: refused"),
            ],
            &["TelemetryTopic t, GatewayPool p: Ready KafkaUnreachable"],
        ),
    ]
}

/// Scenario: the problems of pipelines in typical trouble. Guarantee: one group for each cause,
/// with each object once, represented by the problem that names the cause.
#[test]
fn each_cause_is_one_group() {
    let cases = [consent_and_image_cases(), connection_and_reason_cases()].concat();
    for (scenario, findings, expected) in cases {
        let groups = group_findings(&findings);
        let shown: Vec<String> = groups
            .iter()
            .map(|it| {
                format!("{}: {} {}", it.objects.join(", "), it.main.condition, it.main.reason)
            })
            .collect();
        assert_eq!(shown, expected, "{scenario}");
    }
}
