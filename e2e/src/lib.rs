//! Black-box tests against a real cluster, broker and engine.
