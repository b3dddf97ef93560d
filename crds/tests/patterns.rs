//! One pattern, two readers: the API server's rule and the operator's check must agree.

use std::str::FromStr;

use millrace_crds::v1alpha1::TableTtl;
use millrace_crds::{
    AttributePath, BootstrapServer, ClickHouseEndpoint, ClusterName, ColumnName, ConsumerGroup,
    CpuQuantity, DatabaseName, EdgeName, ImageRepository, KeeperPath, MemoryQuantity, Period,
    ReplicaName, SecretKey, SecretName, StorageName, TablePrefix, TopicName, Version,
};
use proptest::prelude::*;
use schemars::JsonSchema;

fn agree<T: JsonSchema + FromStr>(text: &str) {
    let schema = T::json_schema(&mut schemars::SchemaGenerator::default()).to_value();
    let max = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
    let rule_passes = !text.is_empty()
        && text.len() <= max
        && kube_cel::Validator::new()
            .validate(&schema, &serde_json::Value::String(text.to_owned()), None)
            .is_ok();
    let type_passes = T::from_str(text).is_ok();
    assert_eq!(rule_passes, type_passes, "{}: {text:?}", T::schema_name());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// Scenario: text made of the characters that matter, and any text. Guarantee: what the API
    /// server lets in, the operator can read; what the operator would refuse never gets in.
    #[test]
    fn rule_and_type_agree(text in prop_oneof![
        r"(https?://)?[A-Za-z0-9_.{}/-]{0,20}(:[0-9]{0,6})?",
        r"[0-9]{0,7}[.]?[0-9]{0,4}(m|s|h|d|Mi|Gi|Ki|k|G)?",
        r"/[a-z{}/]{0,12}",
        r" ?(Forever|forever)[d$]?",
        r"[a-z0-9-]{0,18}",
        ".{0,12}",
    ]) {
        agree::<AttributePath>(&text);
        agree::<BootstrapServer>(&text);
        agree::<ClickHouseEndpoint>(&text);
        agree::<ClusterName>(&text);
        agree::<ColumnName>(&text);
        agree::<ConsumerGroup>(&text);
        agree::<CpuQuantity>(&text);
        agree::<DatabaseName>(&text);
        agree::<EdgeName>(&text);
        agree::<ImageRepository>(&text);
        agree::<KeeperPath>(&text);
        agree::<MemoryQuantity>(&text);
        agree::<Period>(&text);
        agree::<ReplicaName>(&text);
        agree::<SecretKey>(&text);
        agree::<SecretName>(&text);
        agree::<StorageName>(&text);
        agree::<TablePrefix>(&text);
        agree::<TopicName>(&text);
        agree::<TableTtl>(&text);
        agree::<Version>(&text);
    }
}
