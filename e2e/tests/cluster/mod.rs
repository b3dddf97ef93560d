//! A pipeline on a real Kubernetes, as users meet it. Each test has a namespace, topics and tables of
//! its own, and most of its time is waiting, so they run side by side. What strikes the operator,
//! the broker or the engine, or loads the machine, is in `cluster_alone`.

mod access;
mod admission;
mod deletion;
mod edges;
mod network;
mod production;
mod pruned;
mod receivers;
mod repairs;
mod rollout;
mod scale;
mod views;
