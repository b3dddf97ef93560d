//! What is a broker's: its encryption and its topics.

mod encrypted;
mod topics;
