//! Conditions of objects as series, for alerts.

use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason};

use crate::telemetry::metrics::{Gauge, Metrics, ObjectGauge};

/// Maximum number of objects whose conditions are series. With ten conditions each, of 200 bytes as
/// text, a scrape has 2 MB, and memory holds as much.
const OBJECTS_MAX: usize = 1_000;

const CONDITION: ObjectGauge<6> = ObjectGauge::new(
    "millrace_operator_condition",
    "1 for each condition of an object, with its status (True, False, Unknown) and reason, as last \
     computed by the leading replica.",
    ["kind", "object_namespace", "object", "condition", "status", "reason"],
    OBJECTS_MAX,
);

const OMITTED: Gauge<0> = Gauge::new(
    "millrace_operator_conditions_omitted",
    "Objects whose conditions have no series, as there are too many objects.",
    [],
);

/// Sets an object's current conditions; none when it was deleted.
pub fn set_conditions(
    metrics: &Metrics,
    kind: &str,
    namespace: &str,
    name: &str,
    all: &[Condition],
) {
    let known = all.iter().filter_map(|it| {
        let type_ = ConditionType::parse(&it.type_)?.as_str();
        let reason = Reason::parse(&it.reason).map_or("", Reason::as_str);
        Some((vec![type_.into(), status_label(it.status).into(), reason.into()], 1.0))
    });
    let omitted = metrics.set_rows(&CONDITION, &[kind, namespace, name], known.collect());
    metrics.set(&OMITTED, [], omitted);
}

const fn status_label(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_observe::text::MetricsFormat;

    fn test_condition(type_: ConditionType, status: ConditionStatus, reason: Reason) -> Condition {
        let time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        Condition::new(type_, status, reason, "", 1, time)
    }

    /// Scenario: an object becomes ready, then it is deleted. Guarantee: one series for each
    /// condition, with the newest status and reason, and none remains.
    #[test]
    fn conditions_have_one_series_each_until_their_object_is_gone() {
        use ConditionStatus::{False, True};
        let metrics = Metrics::new().unwrap();
        let series = || {
            let text = metrics.render(MetricsFormat::Prometheus).unwrap();
            let lines =
                text.lines().filter(|line| line.starts_with("millrace_operator_condition{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let waits = test_condition(ConditionType::Ready, False, Reason::PodsNotReady);
        let stays = test_condition(ConditionType::Paused, True, Reason::PausedBySpec);
        set_conditions(&metrics, "EdgePool", "a", "b", &[waits, stays.clone()]);
        assert_eq!(series().len(), 2);
        let ready = test_condition(ConditionType::Ready, True, Reason::Reconciled);
        set_conditions(&metrics, "EdgePool", "a", "b", &[ready, stays]);
        let now = series();
        assert!(now.len() == 2 && now.iter().any(|line| line.contains("Reconciled")), "{now:?}");
        set_conditions(&metrics, "EdgePool", "a", "b", &[]);
        assert_eq!(series(), Vec::<String>::new());
    }

    /// Scenario: one object beyond the limit. Guarantee: it has no series, and it is counted until
    /// it is deleted.
    #[test]
    fn objects_past_the_limit_are_counted() {
        let metrics = Metrics::new().unwrap();
        let ready = [test_condition(ConditionType::Ready, ConditionStatus::True, Reason::AllReady)];
        for object in 0..=OBJECTS_MAX {
            set_conditions(&metrics, "EdgePool", "a", &object.to_string(), &ready);
        }
        let last = OBJECTS_MAX.to_string();
        let left_out = |text: &str| {
            let line =
                text.lines().find(|it| it.starts_with("millrace_operator_conditions_omitted"));
            line.and_then(|line| line.split(' ').nth(1)).map(str::to_owned)
        };
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(!text.contains(&format!("object=\"{last}\"")));
        assert_eq!(left_out(&text).as_deref(), Some("1"));
        set_conditions(&metrics, "EdgePool", "a", &last, &[]);
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert_eq!(left_out(&text).as_deref(), Some("0"));
    }
}
