//! Whole documents: what three lines give, and what is said about wrong ones, word for word.

use millrace_config::{
    Acknowledge, AcknowledgeInsert, ByteSize, CollectorMode, Config, EdgeExporter,
};

const EDGE: &str = "\
receivers: {otlp: {}}
exporters: {kafka: {connection: {bootstrapServers: [kafka:9092]}}}
";

fn problems(text: &str) -> Vec<String> {
    let error = Config::load(text).expect_err("the document is wrong");
    error.problems().iter().map(ToString::to_string).collect()
}

/// Scenario: the shortest edge. Guarantee: it runs, with the defaults the docs state.
#[test]
fn two_lines_make_an_edge() {
    let checked = Config::load(EDGE).unwrap();
    let CollectorMode::Edge { sources, exporter, .. } = checked.mode else { panic!("not an edge") };
    let EdgeExporter::Kafka(kafka) = exporter else { panic!("not to Kafka") };
    let otlp = sources.otlp.unwrap();
    assert_eq!(otlp.grpc.address.to_string(), "[::]:4317");
    assert_eq!(otlp.http.address.to_string(), "[::]:4318");
    assert_eq!(otlp.limits.grpc_message_bytes, ByteSize::mib(4));
    assert_eq!(kafka.topics.traces.unwrap().as_str(), "otlp_traces");
    assert_eq!(kafka.acknowledge, Acknowledge::AfterKafka);
    assert_eq!(checked.admin.address.to_string(), "[::]:9464");
}

/// Scenario: rules with an unknown editor, a step without an action, two equal names; rules on a
/// gateway. Guarantee: each is a problem of its own field, with line and column of the document and
/// of the text, and what to write instead.
#[test]
fn rules_that_do_not_compile_are_problems_of_their_fields() {
    let steps = "processing:
  - name: rename
    statements:
      - set(log.body, 1)
      - sett(log.body, 1)
  - name: quiet
    drop:
      logs:
        - severity_number < 
";
    let found = problems(&format!("{EDGE}{steps}"));
    let [first, second] = found.as_slice() else { panic!("{found:?}") };
    let start = "line 7, column 9: processing[0].statements[1]: ";
    assert!(first.starts_with(start), "{first}");
    assert!(first.contains("(line 1, column 1 of the text)"), "{first}");
    assert!(first.contains("did you mean \"set\"?"), "{first}");
    assert!(second.starts_with("line 11, column 11: processing[1].drop.logs[0]: "), "{second}");
    let found = problems(&format!("{EDGE}processing: [{{name: a}}]\n"));
    let expected = "line 3, column 14: processing[0]: the step has no action";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let twice = "processing:\n- {name: a, statements: ['set(log.body, 1)']}\n\
                 - {name: a, statements: ['set(log.body, 2)']}\n";
    let found = problems(&format!("{EDGE}{twice}"));
    let expected = "line 5, column 4: processing[1].name: `a` is also the name of a step before";
    assert_eq!(found, [expected]);
    let gateway = "receivers: {kafka: {connection: {bootstrapServers: [kafka:9092]}}}\n\
                   exporters: {clickhouse: {endpoints: [http://db:8123]}}\n";
    let rules = "processing: [{name: a, statements: ['set(log.body, 1)']}]\n";
    let found = problems(&format!("{gateway}{rules}"));
    let expected = "line 3, column 1: processing: a gateway runs no rules";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let checked = Config::load(&format!("{EDGE}{rules}")).unwrap();
    assert_eq!(checked.processing.steps[0].name, "a");
}

/// Scenario: routes to a topic with an invalid name, to one of the exporter's own, by an exporter
/// to ClickHouse, and to another topic. Guarantee: the first three are problems of their fields.
#[test]
fn routes_need_a_topic_of_their_own() {
    let step = |topic: &str| {
        format!("processing: [{{name: a, route: {{topic: '{topic}', logs: ['true']}}}}]\n")
    };
    for (topic, expected) in [
        ("a/b", "topic `a/b` is invalid"),
        ("otlp_logs", "`otlp_logs` is in exporters.kafka.topics: name another topic"),
    ] {
        let found = problems(&format!("{EDGE}{}", step(topic)));
        let [one] = found.as_slice() else { panic!("{found:?}") };
        let field = "processing[0].route.topic: ";
        assert!(one.contains(field) && one.contains(expected), "{one}");
    }
    let direct = "receivers: {otlp: {}}\nexporters: {clickhouse: {endpoints: [http://db:8123]}}\n";
    let found = problems(&format!("{direct}{}", step("audit")));
    let expected = "processing[0].route: only an exporter to Kafka has routes";
    assert!(found.iter().any(|one| one.contains(expected)), "{found:?}");
    let checked = Config::load(&format!("{EDGE}{}", step("audit.logs"))).unwrap();
    assert_eq!(checked.processing.steps.len(), 1);
}

/// Scenario: a listener on all interfaces beside one on a single interface, or of the other family,
/// with one port. Guarantee: told before the system refuses the second.
#[test]
fn a_port_of_all_interfaces_is_every_interfaces_port() {
    let edge = |address: &str| {
        format!(
            "receivers: {{otlp: {{http: {{address: '{address}'}}}}}}\n\
             exporters: {{kafka: {{connection: {{bootstrapServers: [k:1]}}}}}}\n"
        )
    };
    for (address, other) in [
        ("127.0.0.1:9464", "admin.address"),
        ("0.0.0.0:9464", "admin.address"),
        ("[::1]:4317", "receivers.otlp.grpc.address"),
    ] {
        let said = format!("{address} is also {other}: use another port");
        let problems = problems(&edge(address));
        assert!(problems.len() == 1 && problems[0].ends_with(&said), "{problems:?}");
    }
    assert!(Config::load(&edge("127.0.0.1:4318")).is_ok());
}

/// Scenario: the shortest gateway. Guarantee: it runs, and dead letters have topics.
#[test]
fn two_lines_make_a_gateway() {
    let checked = Config::load(
        "receivers: {kafka: {connection: {bootstrapServers: [kafka:9092]}}}\n\
         exporters: {clickhouse: {endpoints: [http://db:8123]}}\n",
    )
    .unwrap();
    let CollectorMode::Gateway { kafka, clickhouse } = checked.mode else {
        panic!("not a gateway")
    };
    let letters = kafka.resolved_dead_letter_topics();
    assert_eq!(letters.logs.unwrap().as_str(), "otlp_logs_dead_letter");
    assert_eq!(clickhouse.database.as_str(), "otel");
    assert_eq!(clickhouse.batch.max_rows, 200_000);
}

/// Scenario: endpoints for several shards. Guarantee: as many for each, or the document is refused
/// with what to write.
#[test]
fn every_shard_has_as_many_endpoints() {
    let gateway = |shards: u32| {
        format!(
            "receivers: {{kafka: {{connection: {{bootstrapServers: [k:1]}}}}}}\n\
             exporters: {{clickhouse: {{endpoints: [http://a:1, http://b:1, http://c:1, http://d:1], \
             shards: {shards}}}}}\n"
        )
    };
    for good in [1, 2, 4] {
        let checked = Config::load(&gateway(good)).unwrap();
        let CollectorMode::Gateway { clickhouse, .. } = checked.mode else {
            panic!("not a gateway")
        };
        assert_eq!(u32::from(clickhouse.shards), good);
    }
    let said = problems(&gateway(3)).join("\n");
    assert!(
        said.contains("the number of endpoints (4) is not a multiple of the number of shards (3)"),
        "{said}"
    );
    assert!(problems(&gateway(0)).join("").contains("exporters.clickhouse.shards"));
}

/// Scenario: only one signal is named. Guarantee: only that one flows, dead letters included.
#[test]
fn naming_one_topic_leaves_the_other_signals_out() {
    let checked = Config::load(
        "receivers: {kafka: {connection: {bootstrapServers: [k:1]}, topics: {traces: mine}}}\n\
         exporters: {clickhouse: {endpoints: [http://db:8123]}}\n",
    )
    .unwrap();
    let CollectorMode::Gateway { kafka, .. } = checked.mode else { panic!("not a gateway") };
    assert!(kafka.topics.logs.is_none());
    let letters = kafka.resolved_dead_letter_topics();
    assert_eq!(
        letters.configured_topics().map(|(signal, _)| signal).collect::<Vec<_>>(),
        ["traces"]
    );
}

/// Scenario: a field nobody knows. Guarantee: its place, its section and the fields there are.
#[test]
fn an_unknown_field_is_refused_with_its_line() {
    let text = EDGE.replace("{otlp: {}}", "\n  otlp:\n    limits:\n      bodyBytes: 7");
    assert_eq!(
        problems(&text),
        ["line 4, column 7: receivers.otlp.limits: unknown field `bodyBytes`, expected one of \
          `grpcMessageBytes`, `httpBodyBytes`, `headerListBytes`, `concurrentStreams`, \
          `connections`, `handshakeSeconds`, `headerReadSeconds`, `answerSeconds`, \
          `requestSeconds`, `idleSeconds`"]
    );
}

/// Scenario: values of the wrong kind, one document each. Guarantee: place, field, what to write.
#[test]
fn wrong_values_say_what_to_write_instead() {
    let cases = [
        (
            "exporters:\n  kafka:\n    maxMessageBytes: 1M\n",
            "line 3, column 22: exporters.kafka.maxMessageBytes: `1M` is not a size: use bytes as \
             a number, or with Ki, Mi or Gi, as in 512Mi",
        ),
        (
            "exporters:\n  kafka:\n    connection:\n      bootstrapServers:\n        - kafka\n",
            "line 5, column 11: exporters.kafka.connection.bootstrapServers[0]: `kafka` is not a \
             broker address: use host:port, as in kafka-0.kafka:9092",
        ),
        (
            "exporters:\n  clickhouse:\n    database: a;b\n",
            "line 3, column 15: exporters.clickhouse.database: identifier `a;b` is invalid: use a \
             letter or '_', then up to 62 letters, digits or '_'",
        ),
        (
            "exporters:\n  kafka:\n    acknowledge: Never\n",
            "line 3, column 18: exporters.kafka.acknowledge: unknown variant `Never`, expected \
             `AfterKafka` or `AfterBuffering`",
        ),
        (
            "receivers:\n  otlp:\n    grpc:\n      tls:\n        certFile: /a\n",
            "line 5, column 9: receivers.otlp.grpc.tls: missing field `keyFile`",
        ),
        (
            "receivers: {otlp: {grpc: {tls: {certFile: a, keyFile: /k}}}}\n",
            "line 1, column 43: receivers.otlp.grpc.tls.certFile: `a` is not an absolute path: use \
             one that begins with /",
        ),
        (
            "receivers: {otlp: {}\n",
            "line 2, column 1: did not find expected ',' or '}' at line 2 column 1, while parsing \
             a flow mapping",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

/// Scenario: several rules broken at once. Guarantee: all are said, in the document's order.
#[test]
fn all_broken_rules_are_reported_at_once_in_order() {
    let text = "\
memory:
  budgetPercent: 99
shutdown: {deadlineSeconds: 0, announceSeconds: 1}
receivers:
  otlp:
    grpc: {address: '127.0.0.1:9464'}
    http: {address: '127.0.0.1:9464'}
    limits:
      connections: 0
admin: {address: '127.0.0.1:9464'}
exporters:
  kafka:
    topics:
      traces: one
      logs: one
    connection:
      sasl: {mechanism: PLAIN, usernameFile: /u, passwordFile: /p}
      tls:
";
    assert_eq!(
        problems(text),
        [
            "line 2, column 3: memory.budgetPercent: 99 is out of range: use 10 to 80",
            "line 3, column 12: shutdown.deadlineSeconds: 0 is out of range: use 1 to 600",
            "line 3, column 32: shutdown.announceSeconds: 1 is out of range: use 0 to 0",
            "line 6, column 12: receivers.otlp.grpc.address: 127.0.0.1:9464 is also admin.address: \
             use another port",
            "line 7, column 12: receivers.otlp.http.address: 127.0.0.1:9464 is also \
             receivers.otlp.grpc.address: use another port",
            "line 9, column 7: receivers.otlp.limits.connections: 0 is out of range: use 1 to \
             100000",
            "line 15, column 7: exporters.kafka.topics.logs: topic `one` is also \
             exporters.kafka.topics.traces: use a separate topic",
            "line 16, column 5: exporters.kafka.connection.bootstrapServers: no broker is \
             configured: set at least one, as in [kafka-0.kafka:9092]",
            "line 17, column 14: exporters.kafka.connection.sasl.mechanism: PLAIN without tls \
             sends the password in plaintext: add `tls: {}` or use SCRAM-SHA-512",
        ]
    );
}

/// Scenario: tokens for Amazon MSK, with and without access keys, and each incomplete form.
/// Guarantee: the first two are accepted, and the others are reported with the field to set.
#[test]
fn tokens_for_amazon_msk_are_checked() {
    let check = |sasl: &str, tls: &str| {
        let text = format!(
            "receivers: {{otlp: {{}}}}\nexporters:\n  kafka:\n    connection:\n      \
             bootstrapServers: [k:1]\n{tls}      sasl: {{{sasl}}}\n"
        );
        Config::load(&text).map_or_else(|error| error.to_string(), |_| String::new())
    };
    let keys = "accessKeyIdFile: /i, secretAccessKeyFile: /k";
    let aws =
        |more: &str| format!("mechanism: OAUTHBEARER, awsMskIam: {{region: eu-west-1{more}}}");
    let tls = "      tls: {}\n";
    assert_eq!(check(&aws(""), tls), "");
    assert_eq!(check(&aws(&format!(", {keys}")), tls), "");
    let oauth = ", oauth: {tokenEndpoint: 'https://t/', clientId: c, clientSecretFile: /s}";
    for (sasl, tls, expected) in [
        (aws(""), "", "sasl.awsMskIam: it requires tls"),
        (aws(", accessKeyIdFile: /i"), tls, "must be set together"),
        (aws("").replace("eu-west-1", "a.b/c"), tls, "awsMskIam.region: not a region of AWS"),
        (aws("") + oauth, tls, "OAUTHBEARER requires either oauth or awsMskIam"),
        ("mechanism: OAUTHBEARER".to_owned(), tls, "OAUTHBEARER requires either"),
        (aws("").replace("OAUTHBEARER", "PLAIN"), tls, "sasl.awsMskIam: only OAUTHBEARER uses it"),
    ] {
        let found = check(&sasl, tls);
        assert!(found.contains(expected), "{sasl}: {found}");
    }
}

/// Scenario: combinations that are no mode. Guarantee: each says what to write.
#[test]
fn every_combination_that_is_no_mode_is_explained() {
    let otlp = "otlp: {}";
    let kafka = "kafka: {connection: {bootstrapServers: [k:1]}}";
    let clickhouse = "clickhouse: {endpoints: [http://db:8123]}";
    let document = |receivers: &str, exporters: &str| {
        problems(&format!("receivers: {{{receivers}}}\nexporters: {{{exporters}}}\n")).join("\n")
    };
    assert!(document(kafka, kafka).contains("can't read from Kafka and export to Kafka"));
    let both = format!("{kafka}, {otlp}");
    assert!(document(&both, kafka).contains("run one of each"));
    assert!(document(otlp, &format!("{kafka}, {clickhouse}")).contains("remove one of them"));
    let nothing = problems("");
    assert!(nothing[0].starts_with("receivers: no receiver is configured"), "{nothing:?}");
    assert!(nothing[1].starts_with("exporters: no exporter is configured"), "{nothing:?}");
    assert_eq!(problems("# only a comment\n"), nothing);
}

/// Scenario: OTLP straight into ClickHouse, and a gateway that is told to answer early. Guarantee:
/// the first is a mode; the second is refused, because a gateway has nobody to answer.
#[test]
fn otlp_goes_straight_into_clickhouse_and_a_gateway_answers_nobody() {
    let exporter = "exporters: {clickhouse: {endpoints: [http://db:8123], \
                    acknowledge: AfterBuffering}}\n";
    let checked = Config::load(&format!("receivers: {{otlp: {{}}}}\n{exporter}")).unwrap();
    let CollectorMode::Edge { exporter: to, .. } = checked.mode else { panic!("not an edge") };
    let EdgeExporter::ClickHouse(clickhouse) = to else { panic!("not direct") };
    assert_eq!(clickhouse.acknowledge, AcknowledgeInsert::AfterBuffering);
    let gateway = "receivers: {kafka: {connection: {bootstrapServers: [k:1]}}}\n";
    let refused = problems(&format!("{gateway}{exporter}")).join("\n");
    assert!(refused.contains("exporters.clickhouse.acknowledge: AfterBuffering"), "{refused}");
}

/// Scenario: OTLP straight into ClickHouse, with batches that may be older than clients wait, and as old.
/// Guarantee: refused, naming both settings, unless clients are answered before their batch is inserted.
#[test]
fn batches_are_inserted_before_their_clients_are_answered() {
    let document = |answer_seconds: u32, acknowledge: &str, age: u32| {
        format!(
            "receivers: {{otlp: {{limits: {{answerSeconds: {answer_seconds}}}}}}}\n\
             exporters: {{clickhouse: {{endpoints: [http://db:8123], acknowledge: {acknowledge}, \
             batch: {{maxAgeMillis: {age}}}}}}}\n"
        )
    };
    for (answer_seconds, acknowledge, age, is_right) in [
        (9, "AfterInsert", 8_999, true),
        (9, "AfterInsert", 9_000, false),
        (2, "AfterInsert", 60_000, false),
        (600, "AfterInsert", 60_000, true),
        (9, "AfterBuffering", 60_000, true),
    ] {
        let text = document(answer_seconds, acknowledge, age);
        match Config::load(&text) {
            Ok(_) => assert!(is_right, "{text}"),
            Err(_) => {
                let refused = problems(&text).join("\n");
                assert!(!is_right, "{refused}");
                assert!(refused.contains("exporters.clickhouse.batch.maxAgeMillis: "), "{refused}");
                assert!(refused.contains("receivers.otlp.limits.answerSeconds"), "{refused}");
            }
        }
    }
}

/// Scenario: files beside OTLP, files alone, and files in settings that can't keep their promise.
/// Guarantee: the first two are an edge; each of the others is named with what to write.
#[test]
fn files_make_an_edge_whose_positions_mean_that_lines_are_safe() {
    let edge = |receivers: &str, exporter: &str| {
        format!(
            "receivers: {{{receivers}}}\n\
             exporters: {{kafka: {{connection: {{bootstrapServers: [k:1]}}{exporter}}}}}\n"
        )
    };
    for (receivers, names) in [
        ("otlp: {}, containers: {}", "otlp, containers"),
        ("files: [{include: [/var/log/*.log]}]", "files"),
        ("kernel: {}, files: [{include: [/a]}]", "files, kernel"),
        ("kernel: {device: /dev/other}", "kernel"),
        ("containers: {parse: {format: JSON}}", "containers"),
        ("files: [{include: [/a], parse: {format: Regex, pattern: '(?P<a>b)'}}]", "files"),
        ("containers: {parse: {format: Logfmt, timestamp: {fields: [ts]}}}", "containers"),
        ("containers: {followAnnotations: false}", "containers"),
        ("containers: {weights: [{namespace: a, weight: 100}, {namespace: b}]}", "containers"),
    ] {
        let checked = Config::load(&edge(receivers, "")).unwrap();
        let CollectorMode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
        assert_eq!(sources.names().join(", "), names);
    }
    for (receivers, exporter, said) in [
        ("containers: {}", ", acknowledge: AfterBuffering", "exporters.kafka.acknowledge: "),
        ("containers: {}", ", topics: {traces: t}", "exporters.kafka.topics: logs have no"),
        (
            "containers: {directory: var/log}",
            "",
            "receivers.containers.directory: `var/log` is not",
        ),
        (
            "containers: {dockerDirectory: docker}",
            "",
            "receivers.containers.dockerDirectory: `docker` is not an absolute path",
        ),
        ("kernel: {device: kmsg}", "", "receivers.kernel.device: `kmsg` is not an absolute path"),
        ("kernel: {}", ", topics: {traces: t}", "exporters.kafka.topics: logs have no topic"),
        ("kernel: {}", ", acknowledge: AfterBuffering", "exporters.kafka.acknowledge: "),
        ("files: [{}]", "", "receivers.files[0].include: no file is configured"),
        ("files: [{include: ['*.log']}]", "", "receivers.files[0].include[0]: `*.log` is not"),
        (
            "files: [{include: [/a], multiline: {}}]",
            "",
            "receivers.files[0].multiline: set exactly",
        ),
        (
            "files: [{include: [/a], multiline: {stackTraces: NodeJs, indented: true}}]",
            "",
            "receivers.files[0].multiline: set exactly one of `start`, `indented: true` and \
             `stackTraces`",
        ),
        ("files: [{include: [/a], multiline: {stackTraces: Perl}}]", "", "NodeJs"),
        ("files: [{include: [/a], maxLineBytes: 1Mi}]", "", "receivers.files[0].maxLineBytes: "),
        ("containers: {parse: {body: [m]}}", "", "receivers.containers.parse: no format is set"),
        ("containers: {parse: {format: Regex}}", "", "receivers.containers.parse.pattern: Regex"),
        (
            "files: [{include: [/a], parse: {format: JSON, pattern: a}}]",
            "",
            "receivers.files[0].parse.pattern: only `format: Regex`",
        ),
        (
            "containers: {parse: {format: JSON, timestamp: {format: UnixMillis}}}",
            "",
            "receivers.containers.parse.timestamp.fields: no field is named",
        ),
        (
            "containers: {parse: {format: Logfmt, severity: [a, msg], body: [msg, b]}}",
            "",
            "receivers.containers.parse.severity: `msg` is also in body",
        ),
        (
            "containers: {parse: {format: JSON, body: ['']}}",
            "",
            "receivers.containers.parse.body: a name is empty",
        ),
        (
            "containers: {parse: {format: JSON, body: [a, b, c, d, e, f, g, h, i]}}",
            "",
            "receivers.containers.parse.body: 9 names: use at most 8",
        ),
        (
            "containers: {parse: {format: JSON, timestamp: {fields: [t], format: Layout}}}",
            "",
            "receivers.containers.parse.timestamp.layout: `format: Layout` and",
        ),
        ("containers: {parse: {format: XML}}", "", "unknown variant `XML`"),
        (
            "containers: {annotations: [a]}",
            "",
            "receivers.containers.annotations: annotations require",
        ),
        (
            "containers: {weights: [{namespace: a, weight: 0}]}",
            "",
            "receivers.containers.weights[0].weight: 0 is out of range: use 1 to 100",
        ),
        (
            "containers: {weights: [{namespace: a, weight: 101}]}",
            "",
            "receivers.containers.weights[0].weight: 101 is out of range: use 1 to 100",
        ),
        (
            "containers: {weights: [{weight: 3}]}",
            "",
            "receivers.containers.weights[0].namespace: the namespace's name is missing",
        ),
        (
            "containers: {weights: [{namespace: a}, {namespace: a, weight: 2}]}",
            "",
            "receivers.containers.weights[1].namespace: `a` is also in weights[0]",
        ),
        (
            "containers: {namespaces: [b], weights: [{namespace: a}]}",
            "",
            "receivers.containers.weights[0].namespace: the pods of `a` are not read",
        ),
        (
            "containers: {excludeNamespaces: [a], weights: [{namespace: a}]}",
            "",
            "receivers.containers.weights[0].namespace: the pods of `a` are not read",
        ),
        (
            "containers: {podMetadata: KubernetesApi, namespaceSelector: {}}",
            "",
            "receivers.containers.namespaceSelector: an empty selector",
        ),
        (
            "containers: {podMetadata: KubernetesApi, namespaceSelector: {matchLabels: {'a,b': c}}}",
            "",
            "receivers.containers.namespaceSelector.matchLabels.a,b: not a valid label",
        ),
        (
            "containers: {namespaceSelector: {matchLabels: {a: b}}}",
            "",
            "receivers.containers.namespaceSelector: namespaceSelector requires a watch",
        ),
        (
            "containers: {podMetadata: KubernetesApi, namespaces: [a], namespaceSelector: {matchLabels: {a: b}}}",
            "",
            "receivers.containers.namespaceSelector: namespaceSelector and `namespaces`",
        ),
        (
            "containers: {multiline: {}}",
            "",
            "receivers.containers.multiline: set exactly one of `start`",
        ),
        (
            "containers: {multiline: {stackTraces: Java, timeoutMillis: 1}}",
            "",
            "receivers.containers.multiline.timeoutMillis: 1 is out of range",
        ),
        ("containers: {labels: ['a*b']}", "", "receivers.containers.labels: use a complete name"),
    ] {
        let said_all = problems(&edge(receivers, exporter)).join("\n");
        assert!(said_all.contains(said), "{said_all}");
    }
    let both = problems("receivers: {containers: {}, kafka: {connection: {bootstrapServers: []}}}");
    assert!(both.join("\n").contains("kafka can't be combined with other receivers"), "{both:?}");
}

/// Scenario: TLS said twice, differently. Guarantee: refused, at the endpoint.
#[test]
fn tls_with_a_plain_endpoint_is_refused() {
    let text = "\
receivers: {kafka: {connection: {bootstrapServers: [k:1]}}}
exporters:
  clickhouse:
    tls: {certFile: /c}
    endpoints:
      - https://a:8443
      - http://b:8123
";
    assert_eq!(
        problems(text),
        [
            "line 4, column 5: exporters.clickhouse.tls: certFile and keyFile must be set \
             together: set both, or neither",
            "line 7, column 9: exporters.clickhouse.endpoints[1]: `http://b:8123` is not https, \
             but tls is set: use https or remove tls",
        ]
    );
}

/// Scenario: nested attributes to another depth than usual, and to one that no request has.
/// Guarantee: taken; refused with the range.
#[test]
fn the_depth_of_paths_can_be_set_within_its_range() {
    let document = |depth: u8| {
        format!(
            "receivers: {{kafka: {{connection: {{bootstrapServers: [k:1]}}}}}}\n\
             exporters: {{clickhouse: {{endpoints: [http://db:8123], nestedDepth: {depth}}}}}\n"
        )
    };
    let checked = Config::load(&document(0)).unwrap();
    let CollectorMode::Gateway { clickhouse, .. } = checked.mode else { panic!("not a gateway") };
    assert_eq!(clickhouse.nested_depth, 0);
    let refused = problems(&document(31)).join("\n");
    assert!(refused.contains("exporters.clickhouse.nestedDepth"), "{refused}");
}

/// Scenario: documents made to hurt. Guarantee: refused at once, no blow-up.
#[test]
fn hostile_documents_are_refused() {
    let long = format!("# {}\n", "x".repeat(1024 * 1024));
    assert!(problems(&long)[0].contains("are allowed"));
    let deep = format!("receivers: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(problems(&deep).len(), 1);
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let item = format!("*a{},", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{item}]\n"));
    }
    assert_eq!(problems(&bomb).len(), 1);
    assert_eq!(problems("receivers: {otlp: {}}\nreceivers: {}\n").len(), 1);
}

/// Scenario: an edge that an operator would render. Guarantee: only what differs is written.
#[test]
fn a_rendered_document_holds_only_what_differs_from_the_defaults() {
    let mut config = Config::parse(EDGE).unwrap();
    config.exporters.kafka.as_mut().unwrap().linger_millis = 20;
    config.memory.limit_bytes = Some(ByteSize::mib(512));
    assert_eq!(
        config.render().unwrap(),
        "memory:\n  limitBytes: 512Mi\nreceivers:\n  otlp: {}\nexporters:\n  kafka:\n    \
         connection:\n      bootstrapServers:\n      - kafka:9092\n    lingerMillis: 20\n"
    );
}

/// Scenario: a gateway is told to announce its end. Guarantee: refused, because nobody listens.
#[test]
fn a_gateway_has_nobody_to_announce_its_end_to() {
    let gateway = "receivers: {kafka: {connection: {bootstrapServers: [k:1]}}}\n\
                   exporters: {clickhouse: {endpoints: [http://db:8123]}}\n\
                   shutdown: {announceSeconds: 5}\n";
    assert_eq!(
        problems(gateway),
        ["line 3, column 12: shutdown.announceSeconds: a gateway has no clients that follow its \
          readiness: remove the field"]
    );
}

/// Scenario: an edge with messages as long as a gateway decodes, and with longer ones. Guarantee:
/// only the first is accepted; the refusal names the bound.
#[test]
fn an_edge_writes_no_longer_messages_than_gateways_decode() {
    let edge = |bytes: u64| {
        format!(
            "receivers: {{otlp: {{}}}}\nexporters:\n  kafka:\n    \
             connection: {{bootstrapServers: [k:1]}}\n    maxMessageBytes: {bytes}\n"
        )
    };
    let longest = millrace_config::MAX_MESSAGE_BYTES.get();
    Config::load(&edge(longest)).unwrap();
    assert_eq!(
        problems(&edge(longest + 1)),
        ["line 5, column 5: exporters.kafka.maxMessageBytes: 8388609 is out of range: use 16Ki \
             to 8Mi"]
    );
}

/// Scenario: an edge with a buffer on disk that can't be used as asked. Guarantee: each reason is
/// said; a sensible one passes with its default size.
#[test]
fn a_buffer_needs_a_path_room_and_acknowledgements_that_wait() {
    let edge = |kafka: &str| {
        format!(
            "receivers: {{otlp: {{}}}}\nexporters:\n  kafka:\n    \
             connection: {{bootstrapServers: [k:1]}}\n{kafka}"
        )
    };
    let bad = edge(
        "    acknowledge: AfterBuffering\n    maxMessageBytes: 8Mi\n    \
         buffer: {path: buffer, maxBytes: 20Mi}\n",
    );
    assert_eq!(
        problems(&bad),
        [
            "line 5, column 5: exporters.kafka.acknowledge: AfterBuffering answers clients before \
             records are safe, so it can't be combined with a buffer on disk: use AfterKafka or \
             remove the buffer",
            "line 7, column 14: exporters.kafka.buffer.path: `buffer` is not an absolute path: use \
             one that begins with /",
            "line 7, column 28: exporters.kafka.buffer.maxBytes: 20Mi is out of range: use 32Mi to \
             1024Gi",
        ]
    );
    let good = Config::load(&edge("    buffer: {path: /var/lib/millrace}\n")).unwrap();
    let CollectorMode::Edge { exporter, .. } = good.mode else { panic!("not an edge") };
    let EdgeExporter::Kafka(kafka) = exporter else { panic!("not to Kafka") };
    assert_eq!(kafka.buffer.unwrap().max_bytes, ByteSize::mib(1024));
}
