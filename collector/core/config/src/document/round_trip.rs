//! What is rendered reads back as the same settings, whatever they are.

use std::net::SocketAddr;

use proptest::option;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};

use crate::arbitrary::{exporters, receivers};
use crate::own_telemetry::arbitrary::own;
use crate::processing::arbitrary::processing;
use crate::{Admin, ByteSize, Config, Memory, OwnTelemetry, Positions, Shutdown};

pub(crate) fn parsed<T>(pattern: &'static str) -> impl Strategy<Value = T>
where
    T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug,
{
    pattern.prop_map(|text| text.parse().unwrap())
}

pub(crate) fn size() -> impl Strategy<Value = ByteSize> {
    prop_oneof![
        any::<u64>().prop_map(ByteSize::bytes),
        (0..1024_u64).prop_map(ByteSize::kib),
        (0..1024_u64).prop_map(ByteSize::mib),
    ]
}

pub(crate) fn textual(address: SocketAddr) -> SocketAddr {
    (address.ip(), address.port()).into()
}

fn config() -> impl Strategy<Value = Config> {
    let process = (any::<SocketAddr>(), option::of(size()), any::<(u8, u32, u32)>());
    let own = option::of(own().boxed());
    (process, own, "/[ -~]{0,30}", processing(), receivers(), exporters()).prop_map(
        |(
            (address, limit_bytes, (budget_percent, deadline_seconds, announce_seconds)),
            otlp,
            directory,
            processing,
            receivers,
            exporters,
        )| {
            Config {
                admin: Admin { address: textual(address) },
                memory: Memory { limit_bytes, budget_percent },
                shutdown: Shutdown { deadline_seconds, announce_seconds },
                telemetry: OwnTelemetry { otlp },
                positions: Positions { directory: directory.into() },
                processing,
                receivers,
                exporters,
            }
        },
    )
}

proptest! {
    /// Scenario: any settings at all, sensible or not. Guarantee: rendering loses nothing.
    #[test]
    fn rendered_settings_read_back_equal(config in config()) {
        let text = config.render().unwrap();
        assert_eq!(Config::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), config);
    }

    /// Scenario: bytes that are no document. Guarantee: an answer, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\t]{0,200}") {
        let _ = Config::load(&text);
    }
}
