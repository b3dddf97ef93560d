//! What is a broker's: its encryption, its topics, and its replicas.

mod encrypted;
mod replicas;
mod topics;
