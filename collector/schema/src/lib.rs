//! The OpenTelemetry tables as data: names, types, order.
