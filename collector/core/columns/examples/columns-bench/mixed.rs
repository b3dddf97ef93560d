//! Spans as instrumentation libraries write them: servers, clients, databases and queues in no
//! order, with the keys and the kinds of values of OpenTelemetry's semantic conventions.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::attribute::{make_attribute, text_attribute};

/// Returns a span's attributes, by a random number: mostly short texts and small numbers, a few
/// texts over 32 bytes, one double in a database's; only the thread is in every kind.
pub(crate) fn span_attributes(number: u64) -> Vec<KeyValue> {
    let pick = number >> 32;
    let mut set = match number % 4 {
        0 => server_attributes(pick),
        1 => client_attributes(pick),
        2 => database_attributes(pick),
        _ => queue_attributes(pick),
    };
    set.push(int_attribute("thread.id", pick % 64));
    set.push(text_attribute("thread.name", format!("http-nio-8080-exec-{}", pick % 64)));
    set
}

fn int_attribute(key: &str, value: u64) -> KeyValue {
    make_attribute(key, Value::IntValue(value as i64))
}

fn bool_attribute(key: &str, value: bool) -> KeyValue {
    make_attribute(key, Value::BoolValue(value))
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
const STATUS: [u64; 5] = [200, 200, 201, 404, 503];

fn server_attributes(pick: u64) -> Vec<KeyValue> {
    let mut set = vec![
        text_attribute("http.request.method", METHODS[(pick % 4) as usize]),
        text_attribute("url.scheme", "https"),
        text_attribute("url.path", format!("/api/v1/orders/{}/items", pick % 1_000_000)),
        text_attribute("http.route", "/api/v1/orders/{id}/items"),
        int_attribute("http.response.status_code", STATUS[(pick % 5) as usize]),
        text_attribute("server.address", "shop.example.com"),
        int_attribute("server.port", 443),
        text_attribute(
            "client.address",
            format!("10.{}.{}.{}", pick % 4, pick / 7 % 256, pick / 11 % 256),
        ),
        text_attribute("network.protocol.version", "1.1"),
        text_attribute(
            "user_agent.original",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0",
        ),
        int_attribute("http.response.body.size", pick % 200_000),
    ];
    if pick.is_multiple_of(3) {
        set.push(text_attribute("enduser.id", format!("user-{}", pick % 50_000)));
    }
    set
}

fn client_attributes(pick: u64) -> Vec<KeyValue> {
    vec![
        text_attribute("http.request.method", METHODS[(pick % 4) as usize]),
        text_attribute(
            "url.full",
            format!("http://inventory:8080/v2/stock/{}?expand=true", pick % 100_000),
        ),
        text_attribute("server.address", "inventory"),
        int_attribute("server.port", 8080),
        int_attribute("http.response.status_code", STATUS[(pick % 5) as usize]),
        text_attribute("network.peer.address", format!("10.1.{}.{}", pick % 256, pick / 3 % 256)),
        int_attribute("network.peer.port", 8080),
        int_attribute("http.request.resend_count", pick % 3),
    ]
}

fn database_attributes(pick: u64) -> Vec<KeyValue> {
    vec![
        text_attribute("db.system.name", "postgresql"),
        text_attribute("db.namespace", "orders"),
        text_attribute("db.collection.name", "order_items"),
        text_attribute("db.operation.name", "SELECT"),
        text_attribute(
            "db.query.text",
            "order_items: id, sku, price; where order_id = $1 and paid;",
        ),
        text_attribute("server.address", "orders-db"),
        int_attribute("server.port", 5432),
        int_attribute("db.response.returned_rows", pick % 500),
        make_attribute("db.client.wait_ms", Value::DoubleValue((pick % 100_000) as f64 / 1000.0)),
        bool_attribute("db.client.pooled", !pick.is_multiple_of(5)),
    ]
}

fn queue_attributes(pick: u64) -> Vec<KeyValue> {
    vec![
        text_attribute("messaging.system", "kafka"),
        text_attribute("messaging.operation.type", "process"),
        text_attribute("messaging.destination.name", format!("orders.{}", pick % 8)),
        text_attribute("messaging.destination.partition.id", format!("{}", pick % 48)),
        int_attribute("messaging.kafka.offset", 4_000_000_000 + pick % 1_000_000_000),
        text_attribute("messaging.consumer.group.name", "billing"),
        int_attribute("messaging.message.body.size", pick % 20_000),
        bool_attribute("messaging.destination.temporary", false),
    ]
}
