//! Sizes of pools on a real Kubernetes under load, and the console in a browser. Windows of minutes in which a policy watches the
//! load make these the longest tests, so `make nightly` runs them and `make test-all` does not: there the
//! rules have property tests (`operator/decide/autoscale`), reconcilers and a simulated cluster.

mod console;
mod resize;
mod sizing;
