//! The collector's settings file, and the small types in it.

use millrace_config::{ByteSize, Config, EnvName, GroupId, Identifier, TopicName};

use crate::meter::peak_bytes;

/// Memory for a document: positions by path, the YAML reader's own tree, and the messages.
const BYTES_BASE: usize = 1 << 20;
/// A document with rules has patterns, which may take a thousand times their length.
const BYTES_OF_RULES: usize = 64 << 20;
/// The longest path is as long as the document is deep.
const BYTES_PER_BYTE: usize = 1024;

/// A settings document.
pub fn document(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (loaded, bytes) = peak_bytes(|| Config::load(text));
    let of_rules = if text.contains("processing") { BYTES_OF_RULES } else { 0 };
    let bound = BYTES_BASE + BYTES_PER_BYTE * text.len() + of_rules;
    assert!(bytes <= bound, "{} bytes took {bytes} of memory", text.len());
    if let Err(error) = &loaded {
        assert!(!error.to_string().is_empty());
    }
    let Ok(config) = Config::parse(text) else {
        assert!(loaded.is_err(), "loaded what can't be parsed");
        return;
    };
    let rendered = config.render();
    assert!(rendered.is_ok(), "can't be rendered: {rendered:?}");
    let rendered = rendered.unwrap_or_default();
    assert_eq!(Config::parse(&rendered).ok().as_ref(), Some(&config), "rendered as {rendered}");
    assert_eq!(config.check().is_ok(), loaded.is_ok(), "judged otherwise without its lines");
}

/// A size, and the checked names.
pub fn words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(size) = text.parse::<ByteSize>() {
        assert_eq!(size.to_string().parse(), Ok(size));
    }
    if let Ok(name) = TopicName::new(text) {
        assert!(name.as_str().len() <= 249 && !matches!(name.as_str(), "." | ".."));
    }
    if let Ok(group) = GroupId::new(text) {
        assert!(group.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if let Ok(name) = EnvName::new(text) {
        assert!(word(name.as_str()));
    }
    if let Ok(name) = Identifier::new(text) {
        assert!(word(name.as_str()) && millrace_schema::Identifier::new(text).is_ok());
    } else {
        assert!(
            millrace_schema::Identifier::new(text).is_err(),
            "two rules for one name: {text:?}"
        );
    }
}
