//! Converts the Kafka client's SASL authentication.

use millrace_crds::v1alpha1::{KafkaAuthentication, KafkaAuthenticationType, PasswordSecret};

use crate::account::Fate;
use crate::advice;
use crate::draft::report_missing;
use crate::tree::Node;
use crate::work::Work;

const USER_SECRET: &str = "kafka-user";

const AUTHENTICATION: &str = "spec.kafka.authentication";
const REGION: &str = "spec.kafka.authentication.region";

/// The region of a pipeline whose file names none.
const REGION_PLACEHOLDER: &str = "aws-region";

/// Maximum characters of a region, as the API's schema has it.
const REGION_CHARS_MAX: usize = 32;

/// Where tokens for Amazon MSK come from, which the file doesn't state.
const IDENTITY: &str = "pods and operator sign with the AWS identity of their service accounts: set \
                        gateway.serviceAccount.annotations and each edge's, or use EKS Pod Identity";

/// Converts the SASL mechanism and its credentials.
pub(super) fn convert_sasl(work: &mut Work, node: &Node<'_>) {
    let mechanism = match node.get("mechanism") {
        None => Some("PLAIN".to_owned()),
        Some(mechanism) => mechanism.plain_text(),
    };
    let mechanism = match mechanism.as_deref() {
        Some("PLAIN") => KafkaAuthenticationType::Plain,
        Some("SCRAM-SHA-256") => KafkaAuthenticationType::ScramSha256,
        Some("SCRAM-SHA-512") => KafkaAuthenticationType::ScramSha512,
        Some("AWS_MSK_IAM_OAUTHBEARER" | "AWS_MSK_IAM") => KafkaAuthenticationType::AwsMskIam,
        _ => {
            return work.account.unsupported(
                node,
                "only PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and AWS_MSK_IAM_OAUTHBEARER are \
                 converted: create such a user, or set kafka.authentication to type Tls or \
                 OAuthBearer",
            );
        }
    };
    let before = work.draft.kafka.authentication.as_ref();
    if before.is_some_and(|it| it.r#type == KafkaAuthenticationType::Tls) {
        return work.account.unsupported(
            node,
            "a connection authenticates by a certificate or by SASL: select one of them in \
             kafka.authentication",
        );
    }
    match mechanism {
        KafkaAuthenticationType::AwsMskIam => convert_aws_msk_iam(work, node),
        mechanism => convert_password(work, node, mechanism),
    }
}

fn convert_password(work: &mut Work, node: &Node<'_>, mechanism: KafkaAuthenticationType) {
    work.draft.kafka.authentication = PasswordSecret::of_name(USER_SECRET)
        .map(|secret| KafkaAuthentication::of_password(mechanism, &secret));
    let mut fields = work.account.open_block(node, Fate::carried(AUTHENTICATION));
    let what = format!(
        "create the Secret {USER_SECRET} in the pipeline's namespace: keys username and password"
    );
    let mut is_requested = false;
    for name in ["username", "password"] {
        if let Some(field) = fields.take_field(name) {
            is_requested = true;
            work.account.fill_in(&field, AUTHENTICATION, &*what);
        }
    }
    if !is_requested {
        work.account.missing(AUTHENTICATION, &*what);
    }
    if let Some(field) = fields.take_field("mechanism") {
        work.account.carried(&field, format!("{AUTHENTICATION}.type"));
    }
    work.account.account_remaining(fields, of_other_mechanisms);
}

/// Converts IAM access control of Amazon MSK. The Collector takes credentials, and a region that
/// the file lacks, from its environment.
fn convert_aws_msk_iam(work: &mut Work, node: &Node<'_>) {
    let mut fields = work.account.open_block(node, Fate::carried(AUTHENTICATION));
    let region = fields.take_field("aws_msk").and_then(|block| {
        let mut inner = work.account.open_block(&block, Fate::not_needed("it sets nothing"));
        let region = inner.take_field("region").and_then(|node| convert_region(work, &node));
        work.account.account_remaining(inner, |name| match name {
            "broker_addr" => Fate::not_needed("each broker's own address is used"),
            _ => Fate::unsupported(advice::UNKNOWN),
        });
        region
    });
    // Another client of the file may have it.
    let before = work.draft.kafka.authentication.take().and_then(|it| it.region);
    let region = region.or(before);
    if region.is_none() {
        let what = "the AWS region of the cluster, for example eu-central-1";
        report_missing(&mut work.account, REGION, what);
    }
    let region = region.unwrap_or_else(|| REGION_PLACEHOLDER.to_owned());
    work.draft.kafka.authentication = Some(KafkaAuthentication::of_aws_msk_iam(region));
    // MSK accepts IAM over TLS alone, and the Collector uses it without `tls` in the file.
    work.draft.kafka.tls.get_or_insert_default();
    if let Some(field) = fields.take_field("mechanism") {
        work.account.differs(&field, format!("{AUTHENTICATION}.type"), IDENTITY);
    }
    work.account.account_remaining(fields, of_other_mechanisms);
}

/// Returns the region if it is one; otherwise the value is to be filled in.
fn convert_region(work: &mut Work, node: &Node<'_>) -> Option<String> {
    let text = work.account.require_text(node, REGION)?;
    let is_region = (1..=REGION_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-');
    if !is_region {
        work.account.fill_in(node, REGION, "it is not a region: write one like eu-central-1");
        return None;
    }
    work.account.carried(node, REGION);
    Some(text)
}

fn of_other_mechanisms(name: &str) -> Fate {
    match name {
        "version" => Fate::not_needed("versions are negotiated with the broker"),
        _ => Fate::unsupported("it belongs to another mechanism"),
    }
}
