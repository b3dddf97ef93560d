//! How many gateways, and why: a pure function. No clock, no I/O.
