//! What a log file is: identity, rotation, how far it is read; as a state machine.
