//! A server's settings as text: `zoo.cfg`.
//!
//! Pure: values in, text out.

use std::path::Path;

use super::{Addresses, EnsembleOptions, Size};

/// Settings that are the same for every server.
const COMMON: &str = "\
initLimit=10
syncLimit=5
4lw.commands.whitelist=*
# All clients of a test come from one address.
maxClientCnxns=0
";

/// The text of `zoo.cfg` of the server at `index`.
pub(super) fn server(
    data: &Path,
    index: usize,
    all: &[Addresses],
    options: &EnsembleOptions,
) -> String {
    let mut text = format!(
        "{COMMON}tickTime={}\ndataDir={}\n",
        options.tick.as_millis().max(1),
        data.display()
    );
    if let Some(Addresses { client, admin, metrics, .. }) = all.get(index) {
        text.push_str(&format!(
            "clientPortAddress={}\nclientPort={}\n",
            client.ip(),
            client.port()
        ));
        match admin {
            Some(address) => text.push_str(&format!(
                "admin.serverAddress={}\nadmin.serverPort={}\n",
                address.ip(),
                address.port()
            )),
            None => text.push_str("admin.enableServer=false\n"),
        }
        if let Some(address) = metrics {
            text.push_str(&format!(
                "metricsProvider.className=\
                 org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
                 metricsProvider.httpHost={}\nmetricsProvider.httpPort={}\n",
                address.ip(),
                address.port()
            ));
        }
    }
    if options.size == Size::Three {
        for (id, Addresses { quorum, election, .. }) in (1..).zip(all) {
            text.push_str(&format!("server.{id}={quorum}:{}\n", election.port()));
        }
    }
    for (key, value) in &options.settings {
        text.push_str(&format!("{key}={value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use super::{Addresses, EnsembleOptions, Size, server};

    fn addresses(first: u16) -> Addresses {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Addresses {
            client: at(first),
            quorum: at(first + 1),
            election: at(first + 2),
            admin: None,
            metrics: None,
        }
    }

    /// Scenario: the second of three. Guarantee: it listens for clients on its own port and knows
    /// all three by the same lines; a server alone has no such line, or it would wait for a quorum.
    #[test]
    fn three_know_each_other_and_one_is_alone() {
        let all = [addresses(1000), addresses(2000), addresses(3000)];
        let three = EnsembleOptions { size: Size::Three, ..EnsembleOptions::default() };
        let text = server(Path::new("/d"), 1, &all, &three);
        assert!(text.contains("clientPort=2000\n") && text.contains("dataDir=/d\n"));
        assert!(text.contains("server.1=127.0.0.1:1001:1002\nserver.2=127.0.0.1:2001:2002\n"));
        let text = server(Path::new("/d"), 0, &all[..1], &EnsembleOptions::default());
        assert!(!text.contains("server."));
    }
}
