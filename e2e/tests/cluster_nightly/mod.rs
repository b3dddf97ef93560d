//! Sizes of pools on a real Kubernetes under load, labels of pods that come and go, and the console
//! in a browser. Windows of minutes in which a policy watches the load, or the API server is away,
//! make these the longest tests, so `make nightly` runs them and `make test-all` does not: there the
//! rules of sizes have property tests (`operator/decide/autoscale`), reconcilers and a simulated
//! cluster, and the watches of pods have a server that fails (`collector/sources/pods`).

mod console;
mod labels;
mod resize;
mod sizing;
