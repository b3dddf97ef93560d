//! Spans as instrumentation libraries write them: servers, clients, databases and queues in no
//! order, with the keys and the kinds of values of OpenTelemetry's semantic conventions.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::data::{attribute, text};

/// The attributes of a span, by a random number. Short texts and small numbers for the most part,
/// a few texts over 32 bytes, one double in a database's; only the thread is in every kind.
pub(crate) fn attributes(number: u64) -> Vec<KeyValue> {
    let pick = number >> 32;
    let mut set = match number % 4 {
        0 => server(pick),
        1 => client(pick),
        2 => database(pick),
        _ => queue(pick),
    };
    set.push(int("thread.id", pick % 64));
    set.push(text("thread.name", format!("http-nio-8080-exec-{}", pick % 64)));
    set
}

fn int(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(value as i64))
}

fn truth(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
const STATUS: [u64; 5] = [200, 200, 201, 404, 503];

fn server(pick: u64) -> Vec<KeyValue> {
    let mut set = vec![
        text("http.request.method", METHODS[(pick % 4) as usize]),
        text("url.scheme", "https"),
        text("url.path", format!("/api/v1/orders/{}/items", pick % 1_000_000)),
        text("http.route", "/api/v1/orders/{id}/items"),
        int("http.response.status_code", STATUS[(pick % 5) as usize]),
        text("server.address", "shop.example.com"),
        int("server.port", 443),
        text("client.address", format!("10.{}.{}.{}", pick % 4, pick / 7 % 256, pick / 11 % 256)),
        text("network.protocol.version", "1.1"),
        text(
            "user_agent.original",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0",
        ),
        int("http.response.body.size", pick % 200_000),
    ];
    if pick.is_multiple_of(3) {
        set.push(text("enduser.id", format!("user-{}", pick % 50_000)));
    }
    set
}

fn client(pick: u64) -> Vec<KeyValue> {
    vec![
        text("http.request.method", METHODS[(pick % 4) as usize]),
        text("url.full", format!("http://inventory:8080/v2/stock/{}?expand=true", pick % 100_000)),
        text("server.address", "inventory"),
        int("server.port", 8080),
        int("http.response.status_code", STATUS[(pick % 5) as usize]),
        text("network.peer.address", format!("10.1.{}.{}", pick % 256, pick / 3 % 256)),
        int("network.peer.port", 8080),
        int("http.request.resend_count", pick % 3),
    ]
}

fn database(pick: u64) -> Vec<KeyValue> {
    vec![
        text("db.system.name", "postgresql"),
        text("db.namespace", "orders"),
        text("db.collection.name", "order_items"),
        text("db.operation.name", "SELECT"),
        text("db.query.text", "order_items: id, sku, price; where order_id = $1 and paid;"),
        text("server.address", "orders-db"),
        int("server.port", 5432),
        int("db.response.returned_rows", pick % 500),
        attribute("db.client.wait_ms", Value::DoubleValue((pick % 100_000) as f64 / 1000.0)),
        truth("db.client.pooled", !pick.is_multiple_of(5)),
    ]
}

fn queue(pick: u64) -> Vec<KeyValue> {
    vec![
        text("messaging.system", "kafka"),
        text("messaging.operation.type", "process"),
        text("messaging.destination.name", format!("orders.{}", pick % 8)),
        text("messaging.destination.partition.id", format!("{}", pick % 48)),
        int("messaging.kafka.offset", 4_000_000_000 + pick % 1_000_000_000),
        text("messaging.consumer.group.name", "billing"),
        int("messaging.message.body.size", pick % 20_000),
        truth("messaging.destination.temporary", false),
    ]
}
