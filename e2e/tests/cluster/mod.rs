//! A pipeline on a real Kubernetes, as users meet it. Each test has a namespace, topics and tables of
//! its own, and most of its time is waiting, so they run side by side. What strikes the operator,
//! the broker or the engine, or loads the machine, is in `cluster_alone`.

mod access;
mod admission;
mod console;
mod dashboards;
mod deletion;
mod edges;
mod files;
mod found;
mod kernel;
mod network;
mod plugin;
mod pod_admission;
mod production;
mod pruned;
mod refusals;
mod repairs;
mod rollout;
mod scale;
mod sharing;
mod targets;
