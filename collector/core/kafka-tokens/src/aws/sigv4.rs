//! Presigned URLs of AWS Signature Version 4. Pure: the time is passed in.

use jiff::Timestamp;
use millrace_config::push_encoded;
use ring::{digest, hmac};

use super::credentials::AwsCredentials;

/// A GET request to sign.
#[derive(Clone, Copy)]
pub(super) struct PresignedGet<'a> {
    /// The host, without a port.
    pub(super) host: &'a str,
    /// The parameters that the request has without a signature.
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) region: &'a str,
    /// The service's name in signatures.
    pub(super) service: &'a str,
    /// How long the signature is valid.
    pub(super) lifetime_seconds: u64,
}

impl PresignedGet<'_> {
    /// Returns the URL with its signature.
    pub(super) fn sign(&self, credentials: &AwsCredentials, now: Timestamp) -> String {
        let Self { host, region, service, .. } = self;
        let (date, time) = (now.strftime("%Y%m%d").to_string(), now.strftime("%H%M%S"));
        let time = format!("{date}T{time}Z");
        let scope = format!("{date}/{region}/{service}/aws4_request");
        let query = self.canonical_query(credentials, &time, &scope);
        let empty = hex(digest::digest(&digest::SHA256, b"").as_ref());
        let request = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{empty}");
        let request = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{request}");
        let mut key = format!("AWS4{}", credentials.secret_access_key).into_bytes();
        for part in [date.as_str(), region, service, "aws4_request"] {
            key = authenticate(&key, part);
        }
        let signature = hex(&authenticate(&key, &to_sign));
        format!("https://{host}/?{query}&X-Amz-Signature={signature}")
    }

    /// Returns all parameters but the signature, encoded and in their order.
    fn canonical_query(&self, credentials: &AwsCredentials, time: &str, scope: &str) -> String {
        let credential = format!("{}/{scope}", credentials.access_key_id);
        let lifetime = self.lifetime_seconds.to_string();
        let session = credentials.session_token.as_deref();
        let signing = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", time),
            ("X-Amz-Expires", &lifetime),
            ("X-Amz-SignedHeaders", "host"),
        ];
        let session = session.map(|token| ("X-Amz-Security-Token", token));
        let all = self.query.iter().copied().chain(signing).chain(session);
        let mut pairs: Vec<(String, String)> =
            all.map(|(name, value)| (encode(name), encode(value))).collect();
        pairs.sort();
        let pairs: Vec<String> =
            pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("&")
    }
}

fn authenticate(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    push_encoded(&mut encoded, text);
    encoded
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: requests of AWS' own test suite (awslabs/aws-c-auth, aws-signing-test-suite/v4,
    /// `query-signed-request.txt`). Guarantee: each has the signature that AWS publishes.
    #[test]
    fn signatures_are_those_of_the_test_suite_of_aws() {
        const UNRESERVED: &str =
            "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let session = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let cases: [(&[(&str, &str)], &str); 3] = [
            (
                &[("Param2", "value2"), ("Param1", "value1")],
                "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5",
            ),
            (
                &[("Param-3", "Value3"), ("Param", "Value2"), ("\u{1234}", "Value1")],
                "c5f1848ceec943ac2ca68ee720460c23aaae30a2300586597ada94c4a65e4787",
            ),
            (
                &[(UNRESERVED, UNRESERVED)],
                "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf",
            ),
        ];
        let mut credentials = AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
            expires_at: None,
        };
        let request = |query| PresignedGet {
            host: "example.amazonaws.com",
            query,
            region: "us-east-1",
            service: "service",
            lifetime_seconds: 3_600,
        };
        let now: Timestamp = "2015-08-30T12:36:00Z".parse().unwrap();
        for (query, signature) in cases {
            let url = request(query).sign(&credentials, now);
            assert!(url.ends_with(&format!("&X-Amz-Signature={signature}")), "{url}");
        }
        credentials.session_token = Some(session.to_owned());
        let url = request(&[]).sign(&credentials, now);
        assert_eq!(
            url,
            format!(
                "https://example.amazonaws.com/?X-Amz-Algorithm=AWS4-HMAC-SHA256\
                 &X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fservice%2Faws4_request\
                 &X-Amz-Date=20150830T123600Z&X-Amz-Expires=3600&X-Amz-Security-Token={session}\
                 &X-Amz-SignedHeaders=host&X-Amz-Signature=\
                 7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"
            )
        );
    }
}
