//! Tests the private parts of `controllers/gateway/rollout/template.rs`.

use super::*;
use crate::pool::template::BASELINE_ANNOTATION;
use serde_json::{Value, json};

fn template(image: &str, map: &str) -> Value {
    json!({"spec": {
        "containers": [{"name": "collector", "image": image}],
        "volumes": [{"name": "config", "configMap": {"name": map}}],
    }})
}

fn live(image: &str, kept: Option<&Value>) -> StatefulSet {
    let annotations = kept.map(|kept| json!({BASELINE_ANNOTATION: kept.to_string()}));
    serde_json::from_value(json!({
        "metadata": {"annotations": annotations},
        "spec": {"selector": {}, "serviceName": "s", "template": template(image, "live")},
    }))
    .unwrap()
}

/// Scenario: the old template is stored, is the live one, or is neither. Guarantee: the rollback's
/// template always has the old unit, and a stored one is used unchanged.
#[test]
fn what_is_gone_back_to_holds_the_old_unit() {
    let wanted: PodTemplateSpec = serde_json::from_value(template("i:2-system", "new")).unwrap();
    let mut kept = template("i:1-mimalloc", "old");
    kept["spec"]["priorityClassName"] = "kept".into();
    let unit = unit_of(&serde_json::from_value(kept.clone()).unwrap()).unwrap();
    assert_eq!((unit.allocator.as_str(), unit.config.as_str()), ("mimalloc", "old"));
    let found = rollback_template(Some(&live("i:2-system", Some(&kept))), &unit, &wanted);
    assert_eq!(found.spec.as_ref().unwrap().priority_class_name.as_deref(), Some("kept"));
    for live in [None, Some(&live("i:2-system", None))] {
        let found = rollback_template(live, &unit, &wanted);
        assert!(unit_of(&found).unwrap().runs_as(&unit));
    }
    let unit = Unit { image: "i:1-system".into(), config: "live".into(), ..Unit::default() };
    let found = rollback_template(Some(&live("i:1-system", None)), &unit, &wanted);
    assert!(unit_of(&found).unwrap().runs_as(&unit));
}
