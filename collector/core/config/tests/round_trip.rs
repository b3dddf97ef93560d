//! What is rendered reads back as the same settings, whatever they are.

use millrace_config::{
    Acknowledge, AcknowledgeInsert, Admin, Attributes, Authorization, BasicAuth, Batch,
    BootstrapServer, ByteSize, ClickHouseExporter, ClientTls, Compression, Config,
    ContainersReceiver, Credentials, Delivery, DiskBuffer, Encoding, EnvName, Exporters,
    FilesReceiver, GroupId, GroupProtocol, GrpcListener, HttpAccess, HttpEndpoint, HttpListener,
    HttpTargets, HttpTls, HttpUrl, Identifier, KafkaConnection, KafkaExporter, KafkaReceiver,
    KernelReceiver, LabelOperator, LabelRequirement, LabelSelector, Memory, MessageTimes,
    Multiline, NamespaceWeight, NoProxy, OAuth2, OtlpLimits, OtlpReceiver, OwnOtlp, OwnTelemetry,
    Parse, ParseFormat, PartitionBy, PodMetadata, Positions, PrometheusReceiver, Proxy, Receivers,
    RecordTimes, RelabelAction, RelabelRule, Sasl, SaslMechanism, Scheme, ScrapeJob, ScrapeLimits,
    SecretFile, ServerTls, Shutdown, StackTraces, StartAt, TargetAddress, TimeFormat, Timestamp,
    TopicName, Topics,
};
use millrace_processing::{Config as Steps, DropConditions, ErrorMode, SignalName, Step};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

fn checked<T>(pattern: &'static str) -> impl Strategy<Value = T>
where
    T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug,
{
    pattern.prop_map(|text| text.parse().unwrap())
}

/// Names that YAML would read as something else are the interesting ones.
fn topic() -> impl Strategy<Value = TopicName> {
    prop_oneof![
        checked("[a-zA-Z0-9_-]{1,20}"),
        prop_oneof![Just("null"), Just("1e3"), Just("0x10"), Just("true"), Just("-"), Just("1.5")]
            .prop_map(|text| TopicName::new(text).unwrap()),
    ]
}

fn topics() -> impl Strategy<Value = Topics> {
    (option::of(topic()), option::of(topic()), option::of(topic()))
        .prop_map(|(traces, logs, metrics)| Topics { traces, logs, metrics })
}

fn file() -> impl Strategy<Value = SecretFile> {
    "/[ -~]{0,30}".prop_map(|path| SecretFile::new(path).unwrap())
}

fn size() -> impl Strategy<Value = ByteSize> {
    prop_oneof![
        any::<u64>().prop_map(ByteSize::bytes),
        (0..1024_u64).prop_map(ByteSize::kib),
        (0..1024_u64).prop_map(ByteSize::mib),
    ]
}

fn client_tls() -> impl Strategy<Value = ClientTls> {
    (option::of(file()), option::of(file()), option::of(file()))
        .prop_map(|(ca_file, cert_file, key_file)| ClientTls { ca_file, cert_file, key_file })
}

fn connection() -> impl Strategy<Value = KafkaConnection> {
    let server = checked::<BootstrapServer>("[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
    let mechanism = prop_oneof![
        Just(SaslMechanism::ScramSha512),
        Just(SaslMechanism::ScramSha256),
        Just(SaslMechanism::Plain)
    ];
    let sasl = (mechanism, option::of(file()), option::of(file())).prop_map(
        |(mechanism, username_file, password_file)| Sasl {
            mechanism,
            username: username_file.is_none().then(|| "edge".to_owned()),
            username_file,
            password_file,
            oauth: None,
            aws_msk_iam: None,
        },
    );
    (proptest::collection::vec(server, 0..4), option::of(client_tls()), option::of(sasl))
        .prop_map(|(bootstrap_servers, tls, sasl)| KafkaConnection { bootstrap_servers, tls, sasl })
}

fn otlp() -> impl Strategy<Value = OtlpReceiver> {
    let tls = || {
        option::of((file(), file(), option::of(file())).prop_map(
            |(cert_file, key_file, client_ca_file)| ServerTls {
                cert_file,
                key_file,
                client_ca_file,
            },
        ))
    };
    let grpc = (any::<bool>(), any::<std::net::SocketAddr>(), tls());
    let http = (any::<bool>(), any::<std::net::SocketAddr>(), tls());
    let limits = (size(), size(), size(), any::<[u32; 7]>());
    (grpc, http, limits).prop_map(
        |(grpc, http, (grpc_bytes, http_bytes, header_bytes, numbers))| {
            let [streams, connections, handshake, header, answer, request, idle] = numbers;
            OtlpReceiver {
                // A flow label or scope id has no place in text, so it can't come back from it.
                grpc: GrpcListener { enabled: grpc.0, address: textual(grpc.1), tls: grpc.2 },
                http: HttpListener { enabled: http.0, address: textual(http.1), tls: http.2 },
                limits: OtlpLimits {
                    grpc_message_bytes: grpc_bytes,
                    http_body_bytes: http_bytes,
                    header_list_bytes: header_bytes,
                    concurrent_streams: streams,
                    connections,
                    handshake_seconds: handshake,
                    header_read_seconds: header,
                    answer_seconds: answer,
                    request_seconds: request,
                    idle_seconds: idle,
                },
                record_times: RecordTimes { past_days: streams, future_hours: idle },
            }
        },
    )
}

fn textual(address: std::net::SocketAddr) -> std::net::SocketAddr {
    (address.ip(), address.port()).into()
}

fn kafka_receiver() -> impl Strategy<Value = KafkaReceiver> {
    let group = checked::<GroupId>("[!-~]{1,20}");
    let env = option::of(checked::<EnvName>("[A-Z_][A-Z0-9_]{0,20}"));
    (
        connection().boxed(),
        group,
        env,
        topics(),
        topics(),
        any::<Option<std::num::NonZeroU16>>(),
        size(),
    )
        .prop_map(|(connection, group_id, env, topics, dead, workers, fetch_queue_bytes)| {
            KafkaReceiver {
                connection,
                group_id,
                group_instance_id_env: env,
                topics,
                dead_letter_topics: dead,
                workers,
                fetch_queue_bytes,
                group_protocol: GroupProtocol::Consumer,
                session_timeout_seconds: 30,
                delivery: Delivery::EffectivelyOnce,
                record_times: MessageTimes { past_days: 3, future_hours: 2 },
            }
        })
}

fn kafka_exporter() -> impl Strategy<Value = KafkaExporter> {
    let compression =
        prop_oneof![Just(Compression::Zstd), Just(Compression::Lz4), Just(Compression::None)];
    let acknowledge = prop_oneof![Just(Acknowledge::AfterKafka), Just(Acknowledge::AfterBuffering)];
    let partition_by = prop_oneof![Just(PartitionBy::Any), Just(PartitionBy::TraceId)];
    let choices = (compression, partition_by, acknowledge);
    let buffer =
        option::of((file(), size(), any::<bool>()).prop_map(|(path, max_bytes, drain)| {
            let path = path.path().to_owned();
            DiskBuffer { path, max_bytes, drain }
        }));
    (connection().boxed(), topics(), choices, size(), any::<[u32; 2]>(), buffer).prop_map(
        |(connection, topics, choices, max_message_bytes, [linger, delivery], buffer)| {
            let (compression, partition_by, acknowledge) = choices;
            KafkaExporter {
                connection,
                topics,
                compression,
                max_message_bytes,
                linger_millis: linger,
                partition_by,
                acknowledge,
                delivery_timeout_seconds: delivery,
                buffer,
            }
        },
    )
}

fn clickhouse() -> impl Strategy<Value = ClickHouseExporter> {
    let endpoint = checked::<HttpEndpoint>("https?://[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
    let names = (checked::<Identifier>("[A-Za-z_][A-Za-z0-9_]{0,20}"), "[a-z]{1,8}");
    let credentials = (option::of(file()), option::of(file()), option::of(file())).prop_map(
        |(username_file, password_file, token_file)| Credentials {
            username: username_file.is_none().then(|| "writer".to_owned()),
            username_file,
            password_file,
            token_file,
        },
    );
    let attributes = prop_oneof![Just(Attributes::Json), Just(Attributes::Map)];
    let acknowledge =
        prop_oneof![Just(AcknowledgeInsert::AfterInsert), Just(AcknowledgeInsert::AfterBuffering)];
    let batch = (any::<u32>(), size(), any::<u32>()).prop_map(|(rows, max_bytes, age)| Batch {
        max_rows: rows,
        max_bytes,
        max_age_millis: age,
    });
    (
        proptest::collection::vec(endpoint, 0..3),
        names,
        option::of(credentials),
        option::of(client_tls()),
        option::of(attributes),
        batch,
        (any::<u16>(), any::<u32>(), acknowledge, any::<u16>()),
    )
        .prop_map(
            |(endpoints, (database, prefix), credentials, tls, attributes, batch, numbers)| {
                ClickHouseExporter {
                    endpoints,
                    database,
                    table_prefix: Identifier::new(prefix).unwrap(),
                    credentials,
                    tls,
                    attributes,
                    batch,
                    nested_depth: (numbers.0 % 31) as u8,
                    max_inserts_in_flight: numbers.0,
                    insert_timeout_seconds: numbers.1,
                    acknowledge: numbers.2,
                    shards: numbers.3,
                }
            },
        )
}

fn start_at() -> impl Strategy<Value = StartAt> {
    prop_oneof![Just(StartAt::Beginning), Just(StartAt::End)]
}

fn label_selector() -> impl Strategy<Value = LabelSelector> {
    use LabelOperator::{DoesNotExist, Exists, In, NotIn};
    let operator = proptest::sample::select(vec![In, NotIn, Exists, DoesNotExist]);
    let values = proptest::collection::vec("[ -~]{0,20}", 0..3);
    let requirement = ("[ -~]{0,20}", operator, values)
        .prop_map(|(key, operator, values)| LabelRequirement { key, operator, values });
    let match_labels = proptest::collection::btree_map("[ -~]{0,20}", "[ -~]{0,20}", 0..3);
    (match_labels, proptest::collection::vec(requirement, 0..3)).prop_map(
        |(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions },
    )
}

fn multiline() -> impl Strategy<Value = Multiline> {
    let runtimes = [
        StackTraces::Java,
        StackTraces::Python,
        StackTraces::Go,
        StackTraces::NodeJs,
        StackTraces::Rust,
    ];
    let traces = option::of(proptest::sample::select(runtimes.to_vec()));
    (option::of("[ -~]{0,20}"), any::<bool>(), traces, any::<u32>()).prop_map(
        |(start, indented, traces, timeout_millis)| Multiline {
            start,
            indented,
            stack_traces: traces,
            timeout_millis,
        },
    )
}

fn containers() -> impl Strategy<Value = ContainersReceiver> {
    let names = || proptest::collection::vec("[ -~]{0,20}", 0..3);
    let named = (any::<bool>(), names(), names(), names(), names());
    let weight = ("[ -~]{0,20}", any::<u8>())
        .prop_map(|(namespace, weight)| NamespaceWeight { namespace, weight });
    let weights = proptest::collection::vec(weight, 0..3);
    let weights = (any::<bool>(), weights, option::of(label_selector()), option::of(multiline()));
    let folders = ("/[ -~]{0,30}", option::of("/[ -~]{0,30}"));
    (folders, start_at(), named, weights, parse(), size()).prop_map(
        |((directory, docker), start_at, named, weights, parse, max_line_bytes)| {
            ContainersReceiver {
                directory: directory.into(),
                docker_directory: docker.map(Into::into),
                start_at,
                pod_metadata: match named.0 {
                    true => PodMetadata::KubernetesApi,
                    false => PodMetadata::FilePath,
                },
                namespaces: named.1,
                exclude_namespaces: named.2,
                labels: named.3,
                annotations: named.4,
                follow_annotations: weights.0,
                weights: weights.1,
                namespace_selector: weights.2,
                multiline: weights.3,
                parse,
                max_line_bytes,
            }
        },
    )
}

fn parse() -> impl Strategy<Value = Parse> {
    let formats = [ParseFormat::None, ParseFormat::Json, ParseFormat::Logfmt, ParseFormat::Regex];
    let names = || proptest::collection::vec("[ -~]{0,20}", 0..3);
    let times = [
        TimeFormat::Rfc3339,
        TimeFormat::UnixSeconds,
        TimeFormat::UnixMillis,
        TimeFormat::UnixMicros,
        TimeFormat::UnixNanos,
        TimeFormat::Layout,
    ];
    let timestamp = (names(), proptest::sample::select(times.to_vec()), option::of("[ -~]{0,20}"))
        .prop_map(|(fields, format, layout)| Timestamp { fields, format, layout });
    let format = proptest::sample::select(formats.to_vec());
    (format, option::of("[ -~]{0,20}"), names(), names(), option::of(timestamp)).prop_map(
        |(format, pattern, body, severity, timestamp)| Parse {
            format,
            pattern,
            body,
            severity,
            timestamp,
        },
    )
}

fn files() -> impl Strategy<Value = FilesReceiver> {
    let patterns = || proptest::collection::vec("[ -~]{0,20}", 0..3);
    let encodings = [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be, Encoding::Latin1];
    let begin = (start_at(), proptest::sample::select(encodings.to_vec()));
    (patterns(), patterns(), begin, option::of(multiline()), parse(), size()).prop_map(
        |(include, exclude, (start_at, encoding), multiline, parse, max_line_bytes)| {
            FilesReceiver { include, exclude, start_at, encoding, multiline, parse, max_line_bytes }
        },
    )
}

fn http_tls() -> impl Strategy<Value = HttpTls> {
    let name = option::of("[a-z.]{1,10}");
    (option::of(file()), option::of(file()), option::of(file()), name, any::<bool>()).prop_map(
        |(ca_file, cert_file, key_file, server_name, insecure_skip_verify)| HttpTls {
            ca_file,
            cert_file,
            key_file,
            server_name,
            insecure_skip_verify,
        },
    )
}

fn basic_auth() -> impl Strategy<Value = BasicAuth> {
    (option::of("[ -~é]{0,10}"), option::of(file()), option::of(file())).prop_map(
        |(username, username_file, password_file)| BasicAuth {
            username,
            username_file,
            password_file,
        },
    )
}

fn url() -> impl Strategy<Value = HttpUrl> {
    checked::<HttpUrl>("https?://[a-z][a-z0-9.-]{0,10}(:[1-9][0-9]{0,3})?/[a-z?&=]{0,9}")
}

fn proxy() -> impl Strategy<Value = Proxy> {
    let hosts = checked::<NoProxy>("([.]?[a-z]{1,9}(:[1-9])?|10[.]0[.]0[.]0/[1-9]|[*]|fd00::1)");
    let hosts = proptest::collection::vec(hosts, 0..3);
    (url(), option::of(basic_auth()), hosts).prop_map(|(url, basic_auth, no_proxy)| Proxy {
        url,
        basic_auth,
        no_proxy,
    })
}

fn access() -> impl Strategy<Value = HttpAccess> {
    let authorization = ("[A-Za-z]{1,9}", file())
        .prop_map(|(r#type, credentials_file)| Authorization { r#type, credentials_file });
    let texts = proptest::collection::vec("[ -~é]{0,6}", 0..3);
    let params = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
    let client = (option::of("[ -~]{0,6}"), option::of(file()), file());
    let oauth2 = (client, url(), texts, params, (option::of(http_tls()), option::of(proxy())));
    let oauth2 =
        oauth2.prop_map(|(client, token_url, scopes, endpoint_params, (tls, proxy))| OAuth2 {
            client_id: client.0,
            client_id_file: client.1,
            client_secret_file: client.2,
            token_url,
            scopes,
            endpoint_params,
            tls,
            proxy,
        });
    let logins = (option::of(authorization), option::of(basic_auth()), option::of(oauth2));
    (option::of(http_tls()), logins.boxed(), option::of(proxy()), any::<bool>()).prop_map(
        |(tls, (authorization, basic_auth, oauth2), proxy, follow_redirects)| HttpAccess {
            tls,
            authorization,
            basic_auth,
            oauth2,
            proxy,
            follow_redirects,
        },
    )
}

fn rule() -> impl Strategy<Value = RelabelRule> {
    let action = proptest::sample::select(RelabelAction::ALL.to_vec());
    let source = proptest::collection::vec("[ -~é]{0,6}", 0..3);
    let texts = ("[ -~]{0,3}", "[ -~é]{0,10}", "[ -~]{0,5}", "[ -~]{0,5}");
    (action, source, any::<u64>(), texts).prop_map(
        |(action, source_labels, modulus, (separator, regex, replacement, target_label))| {
            RelabelRule {
                action,
                source_labels,
                separator,
                regex,
                modulus,
                replacement,
                target_label,
            }
        },
    )
}

fn prometheus() -> impl Strategy<Value = PrometheusReceiver> {
    let target = checked::<TargetAddress>("[a-z][a-z0-9.-]{0,10}:[1-9][0-9]{0,3}");
    let targets = proptest::collection::vec(target, 0..3);
    let labels = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
    let limits = (size(), any::<[u32; 2]>());
    let texts = ("[ -~é]{0,10}", "/[ -~]{0,10}", targets, labels);
    let url = ("[ -~]{0,10}", any::<u32>());
    let url = url.prop_map(|(url, refresh_seconds)| HttpTargets { url, refresh_seconds });
    let files = proptest::collection::vec("/[ -~]{0,10}", 0..3);
    let rules = proptest::collection::vec(rule(), 0..3);
    let lists = (files, proptest::collection::vec(url, 0..3), rules);
    let texts = (texts, lists);
    let values = proptest::collection::vec("[ -~é]{0,6}", 0..3);
    let params = proptest::collection::btree_map("[ -~]{0,6}", values, 0..3);
    let asked = (prop_oneof![Just(Scheme::Http), Just(Scheme::Https)], params, access().boxed());
    let job = (texts, asked, any::<[u32; 2]>(), any::<[bool; 3]>(), limits).prop_map(
        |(
            ((name, path, targets, labels), (files, http, rules)),
            (scheme, params, access),
            seconds,
            honors,
            (body_bytes, most),
        )| ScrapeJob {
            scheme,
            params,
            tls: access.tls,
            authorization: access.authorization,
            basic_auth: access.basic_auth,
            oauth2: access.oauth2,
            proxy: access.proxy,
            follow_redirects: access.follow_redirects,
            name,
            targets,
            files,
            http,
            interval_seconds: seconds[0],
            timeout_seconds: seconds[1],
            path,
            relabel: rules.clone(),
            metric_relabel: rules,
            labels,
            honor_labels: honors[0],
            honor_timestamps: honors[1],
            native_histograms: honors[2],
            limits: ScrapeLimits { body_bytes, samples: most[0], labels: most[1] },
        },
    );
    (proptest::collection::vec(job, 0..3), any::<bool>()).prop_map(
        |(jobs, allow_local_addresses)| PrometheusReceiver {
            jobs,
            allow_local_addresses,
            ..PrometheusReceiver::default()
        },
    )
}

fn own() -> impl Strategy<Value = OwnOtlp> {
    let endpoint =
        checked::<HttpUrl>("https?://[a-z][a-z0-9.-]{0,10}(:[1-9][0-9]{0,3})?(/[a-z]{1,9})?");
    let headers = proptest::collection::btree_map("[ -~]{0,6}", file(), 0..3);
    let attributes = proptest::collection::btree_map("[ -~]{0,6}", "[ -~é]{0,6}", 0..3);
    let rest = (option::of(client_tls()), any::<(u32, u8, bool)>());
    (endpoint, headers, attributes, rest).prop_map(
        |(endpoint, headers, attributes, (tls, (traces_per_second, traces_percent, logs)))| {
            OwnOtlp { endpoint, headers, tls, traces_per_second, traces_percent, logs, attributes }
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let process = (any::<std::net::SocketAddr>(), option::of(size()), any::<(u8, u32, u32)>());
    let kernel = "/[ -~]{0,30}".prop_map(|device| KernelReceiver { device: device.into() });
    let files = proptest::collection::vec(files(), 0..3);
    let read =
        (option::of(containers()), files, option::of(kernel), option::of(prometheus().boxed()));
    let receivers = (option::of(otlp().boxed()), option::of(kafka_receiver().boxed()), read)
        .prop_map(|(otlp, kafka, (containers, files, kernel, prometheus))| Receivers {
            otlp,
            kafka,
            containers,
            files,
            kernel,
            prometheus,
        });
    let exporters = (option::of(kafka_exporter().boxed()), option::of(clickhouse().boxed()))
        .prop_map(|(kafka, clickhouse)| Exporters { kafka, clickhouse });
    let own = option::of(own().boxed());
    (process, own, "/[ -~]{0,30}", processing(), receivers, exporters).prop_map(
        |(
            (address, limit_bytes, (budget_percent, deadline_seconds, announce_seconds)),
            otlp,
            directory,
            processing,
            receivers,
            exporters,
        )| {
            Config {
                admin: Admin { address: textual(address) },
                memory: Memory { limit_bytes, budget_percent },
                shutdown: Shutdown { deadline_seconds, announce_seconds },
                telemetry: OwnTelemetry { otlp },
                positions: Positions { directory: directory.into() },
                processing,
                receivers,
                exporters,
            }
        },
    )
}

/// Steps of statements and of conditions; the crate of rules has its own tests of the others.
fn processing() -> impl Strategy<Value = Steps> {
    let texts = || vec("[ -~]{1,20}", 0..3);
    let drop = option::of((texts(), texts()).prop_map(|(resources, logs)| DropConditions {
        resources,
        logs,
        ..DropConditions::default()
    }));
    let mode = select(vec![ErrorMode::Ignore, ErrorMode::Silent, ErrorMode::Propagate]);
    let signals = vec(select(vec![SignalName::Traces, SignalName::Metrics]), 0..3);
    let step = ("[ -~]{0,10}", mode, signals, texts(), drop);
    let step = step.prop_map(|(name, error_mode, signals, statements, drop)| Step {
        name,
        error_mode,
        signals,
        statements,
        drop,
        ..Step::default()
    });
    vec(step, 0..3).prop_map(|steps| Steps { steps })
}

proptest! {
    /// Scenario: any settings at all, sensible or not. Guarantee: rendering loses nothing.
    #[test]
    fn rendered_settings_read_back_equal(config in config()) {
        let text = config.render().unwrap();
        assert_eq!(Config::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), config);
    }

    /// Scenario: bytes that are no document. Guarantee: an answer, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\t]{0,200}") {
        let _ = Config::load(&text);
    }
}
