//! Names and amounts of custom resources: what the API takes is taken further on too, with the same
//! meaning, or is one of the few things that only a later look can tell.
//!
//! The first byte of an input chooses the type, the rest is the text.

use std::fmt::Display;
use std::str::FromStr;

use millrace_config as config;
use millrace_crds as crds;
use millrace_crds::{CpuQuantity, InvalidText, MemoryQuantity, Period};
use millrace_ddl as ddl;

/// Longest text that a refusal repeats, in characters.
const SHOWN_CHARACTERS: usize = 80;

/// A name or an amount.
pub fn word(data: &[u8]) {
    let Some((&control, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match control % 19 {
        0 => period(text),
        1 => memory(text),
        2 => processor_time(text),
        3 => {
            meant(text, crds::BootstrapServer::MAX_LENGTH, taken::<crds::BootstrapServer>, |text| {
                text.parse::<config::BootstrapServer>().is_ok() || is_odd_host(text)
            })
        }
        4 => meant(
            text,
            crds::ClickHouseEndpoint::MAX_LENGTH,
            taken::<crds::ClickHouseEndpoint>,
            |text| {
                let endpoint = text.parse::<ddl::ServerEndpoint>();
                let is_same = |each: ddl::ServerEndpoint| each.to_string().starts_with(text);
                endpoint.is_ok_and(is_same) || is_odd_host(text)
            },
        ),
        5 => meant(text, crds::TopicName::MAX_LENGTH, taken::<crds::TopicName>, |text| {
            format!("{text}_dead_letter").parse::<config::TopicName>().is_ok()
                && text.parse::<config::TopicName>().is_ok()
        }),
        6 => meant(text, crds::ConsumerGroup::MAX_LENGTH, taken::<crds::ConsumerGroup>, |text| {
            text.parse::<config::GroupId>().is_ok()
        }),
        7 => meant(text, crds::DatabaseName::MAX_LENGTH, taken::<crds::DatabaseName>, |text| {
            text.parse::<config::Identifier>().is_ok() && text.parse::<ddl::Identifier>().is_ok()
        }),
        8 => meant(text, crds::TablePrefix::MAX_LENGTH, taken::<crds::TablePrefix>, |text| {
            text.parse::<config::Identifier>().is_ok() && text.parse::<ddl::Identifier>().is_ok()
        }),
        9 => meant(text, crds::ClusterName::MAX_LENGTH, taken::<crds::ClusterName>, |text| {
            text.parse::<ddl::ClusterName>().is_ok()
        }),
        10 => meant(text, crds::KeeperPath::MAX_LENGTH, taken::<crds::KeeperPath>, |text| {
            let has_dots = text.split('/').any(|step| matches!(step, "." | ".."));
            text.parse::<ddl::KeeperPath>().is_ok() != has_dots
        }),
        11 => meant(text, crds::ReplicaName::MAX_LENGTH, taken::<crds::ReplicaName>, |text| {
            text.parse::<ddl::ReplicaName>().is_ok()
        }),
        12 => meant(text, crds::SecretName::MAX_LENGTH, taken::<crds::SecretName>, is_plain),
        13 => meant(text, crds::SecretKey::MAX_LENGTH, taken::<crds::SecretKey>, is_plain),
        14 => meant(text, crds::Version::MAX_LENGTH, taken::<crds::Version>, |text| {
            is_plain(text) && !text.starts_with(['.', '-'])
        }),
        15 => {
            meant(text, crds::ImageRepository::MAX_LENGTH, taken::<crds::ImageRepository>, |text| {
                !text.contains(['@', ' ']) && !text.contains("//")
            })
        }
        // 16 and 17 are free: other numbers keep their meaning in the corpus.
        _ => time_to_live(text),
    }
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Hosts are looked at closely only where they are used: whether an address in brackets is one, and
/// how long a name is.
fn is_odd_host(text: &str) -> bool {
    text.contains('[') || text.len() > 253
}

fn taken<T>(text: &str) -> Result<String, InvalidText>
where
    T: FromStr<Err = InvalidText> + Display,
{
    text.parse::<T>().map(|value| value.to_string())
}

/// What is taken is kept as it was written, within its length, and holds; what is refused is told
/// briefly.
fn meant(
    text: &str,
    max_bytes: usize,
    take: fn(&str) -> Result<String, InvalidText>,
    holds: fn(&str) -> bool,
) {
    match take(text) {
        Ok(kept) => {
            assert_eq!(kept, text, "not as written");
            assert!(!text.is_empty() && text.len() <= max_bytes, "{} bytes", text.len());
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
            assert!(!text.contains(['\'', '"', '`', '\\', ';']), "{text:?} leaves its quotes");
            assert!(holds(text), "{text:?} is taken, and refused where it is used");
        }
        Err(InvalidText { text: shown, what, says }) => {
            assert!(shown.chars().count() <= SHOWN_CHARACTERS && text.starts_with(&shown));
            assert!(!what.is_empty() && !says.is_empty());
        }
    }
}

/// A whole number and a unit behind it.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn period(text: &str) {
    meant(text, Period::MAX_LENGTH, taken::<Period>, |_| true);
    let Ok(period) = text.parse::<Period>() else { return };
    let unit_seconds = |unit: &str| match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 86_400,
    };
    let expected = number_and_unit(text).map(|(number, unit)| number * unit_seconds(unit));
    assert_eq!(Some(period.seconds()), expected, "{text}");
    assert!((1..=8_639_913_600).contains(&period.seconds()), "{text}");
    let ttl = text.parse::<ddl::Ttl>().map(ddl::Ttl::seconds);
    let is_long = period.seconds() > ddl::TTL_SECONDS_MAX;
    assert!(ttl == Ok(period.seconds()) || (ttl.is_err() && is_long), "{text} is {ttl:?}");
}

fn memory(text: &str) {
    meant(text, MemoryQuantity::MAX_LENGTH, taken::<MemoryQuantity>, |_| true);
    let Ok(memory) = text.parse::<MemoryQuantity>() else { return };
    let unit_bytes = |unit: &str| {
        let power = unit.chars().next().and_then(|first| "kmgt".find(first.to_ascii_lowercase()));
        let step: u64 = if unit.ends_with('i') { 1024 } else { 1000 };
        power.map_or(1, |power| step.pow(power as u32 + 1))
    };
    let expected = number_and_unit(text).map(|(number, unit)| number * unit_bytes(unit));
    assert_eq!(Some(memory.bytes()), expected, "{text}");
    assert!(memory.bytes() > 0 && memory.bytes() < 1 << 54, "{text}");
    // The same spelling in the collector's settings is the same size.
    if let Ok(size) = text.parse::<config::ByteSize>() {
        assert_eq!(size.get(), memory.bytes(), "{text}");
    }
}

fn processor_time(text: &str) {
    meant(text, CpuQuantity::MAX_LENGTH, taken::<CpuQuantity>, |_| true);
    let Ok(amount) = text.parse::<CpuQuantity>() else { return };
    let cores = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().map(|thousandths| thousandths / 1000.0),
        None => text.parse::<f64>(),
    };
    let expected = cores.map(|cores| (cores * 1000.0).round() as u64);
    assert_eq!(Ok(amount.millicores()), expected, "{text}");
    assert!((1..=9_999_999).contains(&amount.millicores()), "{text}");
}

/// Times to live have units of their own, and several of them in a row.
fn time_to_live(text: &str) {
    let Ok(ttl) = ddl::Ttl::parse_optional(text) else { return };
    let Some(ttl) = ttl else {
        assert!(text.bytes().all(|byte| !(b'1'..=b'9').contains(&byte)), "{text:?} is nothing");
        return;
    };
    assert!((1..=ddl::TTL_SECONDS_MAX).contains(&ttl.seconds()), "{text:?}");
    assert_eq!(ttl.to_string().parse(), Ok(ttl), "{text:?}");
}
