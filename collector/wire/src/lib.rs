//! OTLP views over bytes, limits and decompression: the one place with raw decoders.
