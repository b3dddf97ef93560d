//! The engine's HTTP interface, held to what ClickHouse's own promises its clients.
//!
//! `cargo test -p millrace-stack clickhouse_front::`. The first run fetches the engine with
//! pip (560 MB unpacked). Most tests share one engine, each with a database of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use clickhouse::{Client, Compression, Row};
use millrace_stack::clickhouse::{Engine, EngineOptions, Fault, FaultKind, User};
use millrace_stack::http::Answer;
use millrace_stack::service::{Secret, ServiceError};
use serde::{Deserialize, Serialize};

const FLATTENED: &str = "output_format_native_use_flattened_dynamic_and_json_serialization=1";

fn user(name: &str, password: &str, read_only: bool) -> User {
    User { name: Secret::new(name).unwrap(), password: Secret::new(password).unwrap(), read_only }
}

fn options() -> EngineOptions {
    EngineOptions {
        users: vec![user("writer", "right", false), user("reader", "readers", true)],
        test_faults: true,
        ..EngineOptions::default()
    }
}

/// The engine that most tests share. Its guard ends it with this process.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::start(options()).unwrap())
}

fn address(engine: &Engine) -> SocketAddr {
    engine.url().strip_prefix("http://").unwrap().parse().unwrap()
}

/// A fresh database for one test.
fn database(engine: &Engine, name: &str) -> String {
    engine.query(&format!("CREATE DATABASE {name}")).unwrap();
    name.to_owned()
}

/// Sends a request exactly as written and reads the answer to its end.
fn raw(engine: &Engine, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address(engine)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn code(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.header("x-clickhouse-exception-code"))
}

/// Percent-encodes a query for a URL.
fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A request with nothing but the given authentication.
fn ask_as(engine: &Engine, target: &str, header: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
    raw(engine, request.as_bytes())
}

/// Scenario: each of the three ways to log in, with the right and a wrong password, and without
/// any. Guarantee: only the right ones are let in; the others get 403 with code 516.
#[test]
fn a_wrong_password_is_refused_whichever_way_it_comes() {
    let select = "/?query=SELECT%2042";
    // writer:right and writer:wrong in base64.
    let ways = [
        (select.to_owned(), "X-ClickHouse-User: writer\r\nX-ClickHouse-Key: right\r\n", true),
        (select.to_owned(), "X-ClickHouse-User: writer\r\nX-ClickHouse-Key: wrong\r\n", false),
        (select.to_owned(), "Authorization: Basic d3JpdGVyOnJpZ2h0\r\n", true),
        (select.to_owned(), "Authorization: Basic d3JpdGVyOndyb25n\r\n", false),
        (format!("{select}&user=writer&password=right"), "", true),
        (format!("{select}&user=writer&password=wrong"), "", false),
        (format!("{select}&user=nobody&password=right"), "", false),
        (select.to_owned(), "", false),
    ];
    for (target, header, let_in) in ways {
        let answer = ask_as(engine(), &target, header);
        if let_in {
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n42\n"), "{answer}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 403"), "{target} {header}: {answer}");
            assert!(answer.contains("X-ClickHouse-Exception-Code: 516\r\n"), "{answer}");
            assert!(answer.contains("(AUTHENTICATION_FAILED)"), "{answer}");
        }
    }
}

/// Scenario: probes come without credentials. Guarantee: they are answered.
#[test]
fn probes_need_no_login() {
    for path in ["/ping", "/replicas_status", "/"] {
        let answer = ask_as(engine(), path, "");
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("Ok.\n"),
            "{path}: {answer}"
        );
    }
}

/// Scenario: queries that fail in different ways. Guarantee: each answer has ClickHouse's code in
/// its header and text, and the HTTP status the server gives to that code.
#[test]
fn errors_carry_their_code_in_status_header_and_text() {
    let cases = [
        ("/", "SELECT * FROM nowhere", 404, "60"),
        ("/", "SELECT * FROM nowhere.t", 404, "81"),
        ("/?database=nowhere", "SELECT 1", 404, "81"),
        ("/?no_such_setting=1", "SELECT 1", 404, "115"),
        ("/", "SELECT 1 FORMAT Nonsense", 404, "73"),
        ("/", "SELEC 1", 400, "62"),
        ("/", "SELECT 1; SELECT 2", 400, "62"),
        ("/", "SELECT throwIf(1)", 500, "395"),
        ("/?max_execution_time=1", "SELECT sum(number) FROM numbers(1000000000000)", 408, "159"),
        (
            "/?max_memory_usage=1000000",
            "SELECT groupArray(number) FROM numbers(9000000)",
            500,
            "241",
        ),
        ("/?readonly=1", "CREATE TABLE t (a Int8) ENGINE = Memory", 500, "164"),
        ("/?session_id=1", "SELECT 1", 501, "48"),
        ("/", "SELECT 1 INTO OUTFILE '/tmp/millrace-must-not-exist'", 500, "358"),
        ("/", "INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString", 500, "80"),
        ("/", "SELECT * FROM file('/etc/passwd', 'LineAsString')", 403, "497"),
        (
            "/",
            "INSERT INTO t SELECT * FROM `file` /**/ ('/etc/passwd', 'LineAsString')",
            403,
            "497",
        ),
        ("/", "INSERT INTO FUNCTION file('/tmp/millrace-must-not-exist') VALUES (1)", 403, "497"),
        ("/", "SELECT * FROM Python(params)", 403, "497"),
    ];
    for (path, query, status, expected) in cases {
        let answer = engine().request(path, &[], query.as_bytes()).unwrap();
        assert_eq!(code(&answer), (status, Some(expected)), "{query}: {}", answer.text());
        let text = answer.text();
        assert!(text.starts_with(&format!("Code: {expected}. DB::Exception: ")), "{text}");
    }
    assert!(!Path::new("/tmp/millrace-must-not-exist").exists());
}

/// Scenario: a read-only user and a GET try to write. Guarantee: both may read, neither may write.
#[test]
fn a_read_only_user_and_a_get_may_not_write() {
    let db = database(engine(), "only_read");
    engine().query(&format!("CREATE TABLE {db}.t (a Int8) ENGINE = Memory")).unwrap();
    let reader = "X-ClickHouse-User: reader\r\nX-ClickHouse-Key: readers\r\n";
    let writer = "X-ClickHouse-User: writer\r\nX-ClickHouse-Key: right\r\n";
    let send = |method: &str, who: &str, query: &str| {
        let request = format!(
            "{method} /?query={} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n{who}\r\n",
            encode(query)
        );
        raw(engine(), request.as_bytes())
    };
    let count = format!("SELECT count() FROM {db}.t");
    let writes = [format!("INSERT INTO {db}.t VALUES (1)"), format!("DROP TABLE {db}.t")];
    for (method, who) in [("POST", reader), ("GET", writer)] {
        assert!(send(method, who, &count).ends_with("\r\n0\n"));
        for write in &writes {
            let answer = send(method, who, write);
            assert!(answer.contains("X-ClickHouse-Exception-Code: 164\r\n"), "{answer}");
        }
    }
    assert!(send("POST", writer, &writes[0]).starts_with("HTTP/1.1 200"));
    assert!(send("GET", reader, &count).ends_with("\r\n1\n"));
}

/// Scenario: settings, database, format and parameters come by URL, parameters also as a form.
/// Guarantee: they hold for that query, and for that query only.
#[test]
fn the_url_sets_up_its_own_query_only() {
    let db = database(engine(), "by_url");
    let query = "SELECT getSetting('max_block_size'), currentDatabase(), {word:String}";
    let path = format!("/?max_block_size=4321&database={db}&param_word=a%27b&default_format=CSV");
    let answer = engine().request(&path, &[], query.as_bytes()).unwrap();
    assert_eq!(answer.text(), format!("4321,\"{db}\",\"a'b\""));
    assert_eq!(answer.header("x-clickhouse-format"), Some("CSV"));
    assert!(answer.header("content-type").unwrap().starts_with("text/csv"));

    let form = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\n\
                SELECT {word:String}\r\n\
                --b\r\nContent-Disposition: form-data; name=\"param_word\"\r\n\r\nform\r\n--b--\r\n";
    let kind = ("Content-Type", "multipart/form-data; boundary=b");
    assert_eq!(engine().request("/", &[kind], form.as_bytes()).unwrap().text(), "form");

    assert_eq!(engine().query("SELECT getSetting('max_block_size') = 4321").unwrap(), "0");
    assert_eq!(engine().query("SELECT currentDatabase()").unwrap(), "default");
}

/// Scenario: an INSERT with its data in the URL, in the body behind it, and in both, in texts made
/// to look like the end of the query. Guarantee: the rows are those that were meant.
#[test]
fn data_behind_a_query_are_found_where_they_begin() {
    let db = database(engine(), "behind");
    let table = format!("{db}.t");
    engine()
        .query(&format!("CREATE TABLE {table} (format String, n UInt16) ENGINE = Memory"))
        .unwrap();
    let insert = |path: &str, body: &[u8]| {
        let answer = engine().request(path, &[], body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let summary = answer.header("x-clickhouse-summary").unwrap().to_owned();
        assert!(summary.contains("\"written_rows\":\"1\""), "{summary}");
    };
    let in_body = |query: String, data: &[u8]| insert("/", &[query.as_bytes(), data].concat());
    in_body(format!("INSERT INTO {table} (format, n) FORMAT RowBinary\n"), b"\x03a\nb\x01\x00");
    in_body(format!("INSERT INTO {table} VALUES "), b"('x; FORMAT CSV', 1 + 1);");
    in_body(format!("/* FORMAT */ insert into {table} -- FORMAT x\n format CSV\n"), b"\"c,d\",3\n");
    in_body(format!("INSERT INTO {table} SETTINGS max_threads = 1 FORMAT TSV\n"), b"e\t4\n");
    in_body(format!("INSERT INTO {table} SELECT 'FORMAT TSV', 5"), b"");
    let url = format!("/?query={}", encode(&format!("INSERT INTO {table} FORMAT TSV f\t")));
    insert(&url, b"6\n");
    let url = format!("/?query={}", encode(&format!("INSERT INTO {table} FORMAT JSONEachRow")));
    insert(&url, br#"{"n": 7, "format": "g"}"#);
    let rows = engine().query(&format!("SELECT format, n FROM {table} ORDER BY n FORMAT CSV"));
    let expected = [
        "\"a\nb\",1",
        "\"x; FORMAT CSV\",2",
        "\"c,d\",3",
        "\"e\",4",
        "\"FORMAT TSV\",5",
        "\"f\",6",
        "\"g\",7",
    ];
    assert_eq!(rows.unwrap(), expected.join("\n"));
}

#[derive(Debug, Clone, PartialEq, Row, Serialize, Deserialize)]
struct Item {
    id: u64,
    name: String,
}

/// Scenario: ClickHouse's own Rust client inserts and selects with LZ4 and without. Guarantee: it
/// gets back what it sent, parameters included, and reads errors as errors.
#[test]
fn the_official_rust_client_works_with_and_without_lz4() {
    let db = database(engine(), "rust_client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (table, compression) in [("plain", Compression::None), ("lz4", Compression::Lz4)] {
            let client = Client::default()
                .with_url(engine().url())
                .with_user(engine().user())
                .with_password(engine().password())
                .with_database(&db)
                .with_compression(compression);
            let create = format!(
                "CREATE TABLE {table} (id UInt64, name String) ENGINE = MergeTree ORDER BY id"
            );
            client.query(&create).execute().await.unwrap();
            let items: Vec<Item> =
                (0..50_000).map(|id| Item { id, name: format!("item {}", id % 7) }).collect();
            let mut insert = client.insert::<Item>(table).await.unwrap();
            for item in &items {
                insert.write(item).await.unwrap();
            }
            insert.end().await.unwrap();

            let select =
                format!("SELECT ?fields FROM {table} WHERE id < {{below:UInt64}} ORDER BY id");
            let found: Vec<Item> =
                client.query(&select).param("below", 40_000).fetch_all().await.unwrap();
            assert_eq!(found, items[..40_000]);

            let error = client.query("SELECT * FROM nowhere").execute().await.unwrap_err();
            assert!(error.to_string().contains("Code: 60."), "{error}");
        }
    });
}

/// Makes a table of spans-like rows and returns them as Native bytes with FLATTENED JSON.
fn native_rows(db: &str, rows: u32) -> Vec<u8> {
    let columns = "id UInt64, kind LowCardinality(String), attributes JSON, events Array(JSON)";
    for table in ["source", "target"] {
        engine()
            .query(&format!(
                "CREATE TABLE {db}.{table} ({columns}) ENGINE = MergeTree ORDER BY id \
                 SETTINGS non_replicated_deduplication_window = 100"
            ))
            .unwrap();
    }
    engine()
        .query(&format!(
            "INSERT INTO {db}.source SELECT number, ['a', 'b', ''][1 + number % 3], \
             '{{\"http.status\":' || toString(number % 5) || ',\"ratio\":0.5,\"tags\":[1,2],\"mixed\":' \
             || ['1', '\"text\"', 'true'][1 + number % 3] || '}}', \
             arrayMap(i -> '{{\"n\":' || toString(i) || '}}', range(number % 3)) \
             FROM numbers({rows})"
        ))
        .unwrap();
    let query = format!("SELECT * FROM {db}.source ORDER BY id SETTINGS {FLATTENED} FORMAT Native");
    engine().request("/?max_block_size=3000", &[], query.as_bytes()).unwrap().body
}

fn insert_path(db: &str, parameters: &str) -> String {
    let query = encode(&format!("INSERT INTO {db}.target FORMAT Native"));
    format!("/?query={query}&async_insert=0{parameters}")
}

fn assert_same_rows(db: &str) {
    for (one, other) in [("source", "target"), ("target", "source")] {
        let query = format!(
            "SELECT count() FROM (SELECT id, kind, toString(attributes), toString(events) \
             FROM {db}.{one} EXCEPT SELECT id, kind, toString(attributes), toString(events) \
             FROM {db}.{other})"
        );
        assert_eq!(engine().query(&query).unwrap(), "0");
    }
}

/// Scenario: Native blocks with FLATTENED JSON, inside an array too, are selected and inserted
/// again. Guarantee: no setting is needed and every row is the same.
#[test]
fn native_blocks_with_flattened_json_round_trip() {
    let db = database(engine(), "flattened");
    let body = native_rows(&db, 10_000);
    let answer = engine().request(&insert_path(&db, ""), &[], &body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("x-clickhouse-summary").unwrap().contains("\"written_rows\":\"10000\""));
    assert_same_rows(&db);
}

/// Scenario: the same rows come and go as ClickHouse's compressed frames. Guarantee: they are the
/// same; a frame with one bit changed, or cut off, is refused and leaves no row.
#[test]
fn compressed_frames_work_both_ways_and_are_checked() {
    let db = database(engine(), "frames");
    let plain = native_rows(&db, 10_000);
    let select =
        format!("SELECT * FROM {db}.source ORDER BY id SETTINGS {FLATTENED} FORMAT Native");
    let path = "/?compress=1&max_block_size=3000";
    let frames = engine().request(path, &[], select.as_bytes()).unwrap().body;
    assert_eq!(frames[16], 0x82, "the method byte of LZ4");
    assert!(frames.len() * 2 < plain.len(), "{} of {}", frames.len(), plain.len());

    let insert = insert_path(&db, "&decompress=1");
    let mut changed = frames.clone();
    *changed.last_mut().unwrap() ^= 1;
    let answer = engine().request(&insert, &[], &changed).unwrap();
    assert_eq!(code(&answer), (500, Some("40")), "{}", answer.text());
    let answer = engine().request(&insert, &[], &frames[..frames.len() - 1]).unwrap();
    assert_eq!(code(&answer), (500, Some("3")), "{}", answer.text());
    assert_eq!(engine().query(&format!("SELECT count() FROM {db}.target")).unwrap(), "0");

    let answer = engine().request(&insert, &[], &frames).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_same_rows(&db);
}

/// Scenario: answers and bodies with each HTTP content encoding. Guarantee: what was encoded on the
/// way out is understood on the way in; a cut-off body leaves no row; an unknown encoding is
/// refused.
#[test]
fn content_encodings_work_both_ways() {
    let db = database(engine(), "encodings");
    let plain = native_rows(&db, 1_000);
    let select =
        format!("SELECT * FROM {db}.source ORDER BY id SETTINGS {FLATTENED} FORMAT Native");
    let magics: [(&str, &[u8]); 3] =
        [("gzip", b"\x1f\x8b"), ("zstd", b"\x28\xb5\x2f\xfd"), ("lz4", b"\x04\x22\x4d\x18")];
    for (encoding, magic) in magics {
        let accept = [("Accept-Encoding", encoding)];
        let answer = engine().request("/", &accept, select.as_bytes()).unwrap();
        assert_eq!(answer.header("content-encoding"), Some(encoding));
        assert!(answer.body.starts_with(magic) && answer.body.len() < plain.len());

        engine().query(&format!("TRUNCATE TABLE {db}.target")).unwrap();
        let content = [("Content-Encoding", encoding)];
        let cut = &answer.body[..answer.body.len() - 5];
        let refused = engine().request(&insert_path(&db, ""), &content, cut).unwrap();
        assert_eq!(code(&refused), (500, Some("3")), "{encoding}: {}", refused.text());
        assert_eq!(engine().query(&format!("SELECT count() FROM {db}.target")).unwrap(), "0");
        let taken = engine().request(&insert_path(&db, ""), &content, &answer.body).unwrap();
        assert_eq!(taken.status, 200, "{encoding}: {}", taken.text());
        assert_same_rows(&db);
    }
    let answer = engine().request("/", &[("Content-Encoding", "br")], b"SELECT 1").unwrap();
    assert_eq!(code(&answer), (501, Some("48")));
}

/// Scenario: one token with the same body twice, then another token. Guarantee: the second of one
/// token adds nothing, the other token adds all.
#[test]
fn a_deduplication_token_drops_the_second_insert() {
    let db = database(engine(), "tokens");
    let body = native_rows(&db, 1_000);
    for (token, rows_after) in [("one", "1000"), ("one", "1000"), ("two", "2000")] {
        let path = insert_path(&db, &format!("&insert_deduplication_token={token}"));
        let answer = engine().request(&path, &[], &body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let count = engine().query(&format!("SELECT count() FROM {db}.target")).unwrap();
        assert_eq!(count, rows_after, "after token {token}");
    }
}

/// An insert whose body is sent in two HTTP chunks, the second when the test says so.
fn open_insert(engine: &Engine, table: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(engine)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let query = encode(&format!("INSERT INTO {table} FORMAT TSV"));
    let head = format!(
        "POST /?query={query}&async_insert=0 HTTP/1.1\r\nX-ClickHouse-User: {}\r\n\
         X-ClickHouse-Key: {}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n",
        engine.user(),
        engine.password()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn finish_insert(stream: &mut TcpStream) -> String {
    stream.write_all(b"4\r\ntwo\n\r\n0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

/// Scenario: eight inserts are under way at once and end in the reverse of their order; a ninth
/// loses its client in the middle. Guarantee: none waits for another, all rows of the eight are
/// there and none of the ninth; a connection serves again after its answer.
#[test]
fn eight_inserts_run_at_once_and_a_broken_one_leaves_no_row() {
    let db = database(engine(), "at_once");
    let table = format!("{db}.t");
    let create = format!("CREATE TABLE {table} (word String) ENGINE = MergeTree ORDER BY word");
    engine().query(&create).unwrap();
    let mut open: Vec<TcpStream> = (0..8).map(|_| open_insert(engine(), &table)).collect();
    drop(open_insert(engine(), &table));
    for stream in open.iter_mut().rev() {
        let answer = finish_insert(stream);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("Connection: keep-alive"), "{answer}");
    }
    let counts = format!("SELECT word, count() FROM {table} GROUP BY word ORDER BY word");
    assert_eq!(engine().query(&counts).unwrap(), "one\t8\ntwo\t8");

    let stream = &mut open[0];
    stream.write_all(b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("Ok.\n"), "{answer}");
}

/// Scenario: the engine is killed right after it answered an insert, started again, restarted in
/// good order. Guarantee: the rows are there each time, and a second engine cannot take the same
/// folder. Slow: an engine starts three times.
#[test]
fn a_killed_engine_serves_again_with_its_rows() {
    let mut engine = Engine::start(options()).unwrap();
    engine.query("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a").unwrap();
    engine
        .query("INSERT INTO t SETTINGS async_insert = 0 SELECT number FROM numbers(1000)")
        .unwrap();
    let url = engine.url();
    engine.kill9().unwrap();
    assert!(engine.query("SELECT 1").is_err());
    engine.restart().unwrap();
    assert_eq!(engine.query("SELECT sum(a) FROM t").unwrap(), "499500");
    engine.restart().unwrap();
    assert_eq!(engine.query("SELECT sum(a) FROM t").unwrap(), "499500");
    assert_eq!(engine.url(), url);

    let second = EngineOptions { dir: Some(engine.dir().to_owned()), ..options() };
    let error = Engine::start(second).unwrap_err();
    assert!(matches!(error, ServiceError::Exited { .. }), "{error}");
    assert!(error.to_string().contains("is in use by another engine"), "{error}");
}

/// Scenario: a dropped engine. Guarantee: neither its process nor its folder is left.
#[test]
fn a_dropped_engine_leaves_nothing_behind() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let process = format!("/proc/{}", engine.pid());
    let dir = engine.dir().to_owned();
    assert!(Path::new(&process).exists() && dir.join("data").exists());
    drop(engine);
    assert!(!Path::new(&process).exists());
    assert!(!dir.exists());
}

/// Scenario: each kind of fault is asked for. Guarantee: it strikes the queries it names, as often
/// as it says; after `CutAfter` the insert has landed although nobody was told.
#[test]
fn faults_strike_the_queries_they_name() {
    let db = database(engine(), "faults");
    let table = format!("{db}.t");
    engine().query(&format!("CREATE TABLE {table} (a Int64) ENGINE = Memory")).unwrap();
    let insert = format!("INSERT INTO {table} VALUES (1)");
    let count = || engine().query(&format!("SELECT count() FROM {db}.t")).unwrap();
    let fault = |kind, times| {
        let matching = format!("INSERT INTO {table}");
        engine().inject(&Fault { kind, matching, times }).unwrap();
    };
    fault(FaultKind::Error { code: 252 }, 2);
    for _ in 0..2 {
        let answer = engine().request("/", &[], insert.as_bytes()).unwrap();
        assert_eq!(code(&answer), (500, Some("252")));
    }
    assert_eq!(count(), "0");
    fault(FaultKind::CutBefore, 1);
    assert!(matches!(engine().query(&insert), Err(ServiceError::Io { .. })));
    assert_eq!(count(), "0");
    fault(FaultKind::CutAfter, 1);
    assert!(matches!(engine().query(&insert), Err(ServiceError::Io { .. })));
    assert_eq!(count(), "1");
    fault(FaultKind::Delay(Duration::from_millis(1)), 1);
    engine().query(&insert).unwrap();
    assert_eq!(count(), "2");
}

/// Scenario: faults are asked of an engine that was not started for them. Guarantee: refused.
#[test]
fn an_engine_without_test_faults_has_none() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let fault = Fault { kind: FaultKind::CutBefore, matching: String::new(), times: 1 };
    let error = engine.inject(&fault).unwrap_err();
    assert!(matches!(error, ServiceError::Refused { status: 404, .. }), "{error}");
    assert_eq!(engine.query("SELECT 1").unwrap(), "1");
}

/// Scenario: a client that names a protocol version, as clickhouse-go does. Guarantee: it is told
/// who the server is at its own version, claiming an old one; from then on blocks come with their
/// information in front, and empty answers stay empty.
#[test]
fn clients_that_name_a_version_get_blocks_as_they_read_them() {
    const INFORMATION: &[u8] = b"\x01\x00\x02\xff\xff\xff\xff\x00";
    let ask = |sql: &str| {
        let path = "/?client_protocol_version=54460&default_format=Native";
        let answer = engine().request(path, &[], sql.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.body
    };
    let hello = ask("SELECT displayName(), version(), revision(), timezone()");
    assert!(hello.starts_with(&[INFORMATION, b"\x04\x01\x0ddisplayName()\x06String\x00"].concat()));
    let old = [b"\x0arevision()\x06UInt32\x00".as_slice(), &50_000_u32.to_le_bytes()].concat();
    assert!(hello.windows(old.len()).any(|window| window == old));
    assert_eq!(
        ask("SELECT toUInt8(7) AS n"),
        [INFORMATION, b"\x01\x01\x01n\x05UInt8\x07"].concat()
    );
    assert!(ask("CREATE DATABASE versioned").is_empty());
}
