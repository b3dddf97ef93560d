//! A target: what all its points have, and how its own labels meet those of the settings.

use millrace_wire::protobuf::put_varint;

use crate::encode::{
    EXPONENTIAL_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, NUMBER_ATTRIBUTE, RESOURCE_ATTRIBUTE,
    put_attribute, put_integer,
};

/// Labels that become attributes of the resource, never of a point.
const JOB: &str = "job";
const INSTANCE: &str = "instance";

/// What a scraped label is called that has the name of a target's.
pub(crate) const EXPORTED: &[u8] = b"exported_";

/// A target that is scraped.
#[derive(Debug, Clone)]
pub struct Target {
    /// Attributes of the resource, encoded.
    pub(crate) resource: Vec<u8>,
    /// The target's labels as attributes of numbers and summaries, of histograms, and of
    /// exponential ones.
    pub(crate) attributes: [Vec<u8>; 3],
    labels: Vec<(String, String)>,
    /// A bit for each length that one of their names has.
    lengths: u64,
    pub(crate) honors_labels: bool,
    pub(crate) honors_timestamps: bool,
}

impl Target {
    /// A target of a job at `host` and `port`, with labels of the settings.
    ///
    /// `honors_labels`: where a scraped label has the name of one of the target's, the scraped one
    /// is kept; otherwise the target's, and the scraped one as `exported_NAME`.
    /// `honors_timestamps`: times in the body are kept; otherwise the scrape's time stands for
    /// them.
    #[must_use]
    pub fn new(
        job: &str,
        (host, port): (&str, u16),
        labels: Vec<(String, String)>,
        honors_labels: bool,
        honors_timestamps: bool,
    ) -> Self {
        let mut resource = Vec::new();
        let host_text = host.trim_start_matches('[').trim_end_matches(']');
        for (key, value) in [
            ("service.name", job),
            ("service.instance.id", &format!("{host}:{port}")),
            ("server.address", host_text),
            ("url.scheme", "http"),
        ] {
            put_attribute(&mut resource, RESOURCE_ATTRIBUTE, key.as_bytes(), value.as_bytes());
        }
        put_integer(&mut resource, RESOURCE_ATTRIBUTE, b"server.port", port.into());
        let tags = [NUMBER_ATTRIBUTE, HISTOGRAM_ATTRIBUTE, EXPONENTIAL_ATTRIBUTE];
        let attributes = tags.map(|tag| {
            let mut out = Vec::new();
            for (name, value) in &labels {
                put_attribute(&mut out, tag, name.as_bytes(), value.as_bytes());
            }
            out
        });
        let names = labels.iter().map(|(name, _)| name.as_str()).chain([JOB, INSTANCE]);
        let lengths = names.fold(0, |lengths, name| lengths | length_bit(name.as_bytes()));
        Self { resource, attributes, labels, lengths, honors_labels, honors_timestamps }
    }

    /// Whether a scraped label has the name of one of the target's.
    #[inline]
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0 && self.has_name(name)
    }

    #[inline(never)]
    fn has_name(&self, name: &[u8]) -> bool {
        let is_ours = name == JOB.as_bytes() || name == INSTANCE.as_bytes();
        is_ours || self.labels.iter().any(|(known, _)| known.as_bytes() == name)
    }

    /// Appends the target's labels but for those that `is_taken`.
    pub(crate) fn put_others(&self, out: &mut Vec<u8>, tag: u8, is_taken: impl Fn(&[u8]) -> bool) {
        for (name, value) in &self.labels {
            if !is_taken(name.as_bytes()) {
                put_attribute(out, tag, name.as_bytes(), value.as_bytes());
            }
        }
    }

    /// The resource's message, with what `target_info` said.
    pub(crate) fn put_resource(&self, out: &mut Vec<u8>, tag: u8, target_info: &[u8]) {
        out.push(tag);
        put_varint(out, (self.resource.len() + target_info.len()) as u64);
        out.extend_from_slice(&self.resource);
        out.extend_from_slice(target_info);
    }
}

/// The bit of a name's length; that of long ones is one for all.
#[inline]
fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}
