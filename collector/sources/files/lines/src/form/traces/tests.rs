//! Unit tests of `traces.rs`, with traces as runtimes print them.

use super::*;

/// The records that a text's lines form.
fn records(traces: TraceRuntime, text: &str) -> Vec<String> {
    let mut records: Vec<String> = Vec::new();
    for line in text.lines() {
        match records.last_mut() {
            Some(record) if traces.continues_record(line.as_bytes(), record.as_bytes()) => {
                record.push('\n');
                record.push_str(line);
            }
            _ => records.push(line.to_owned()),
        }
    }
    records.iter().map(|record| record.trim_end().to_owned()).collect()
}

/// Expects `trace` to be one record between others.
fn one(traces: TraceRuntime, trace: &str) {
    for before in ["INFO started", "2026-11-25 INFO x: y"] {
        let text = format!("{before}\n{trace}\nINFO: done\nINFO again (late)\n");
        let expected = [before, trace, "INFO: done", "INFO again (late)"];
        assert_eq!(records(traces, &text), expected, "{traces:?}");
    }
}

/// Scenario: exceptions of a JVM, as its own handler prints them, and as loggers do, with causes.
/// Guarantee: each is one record, and the lines around it are separate records.
#[test]
fn a_jvms_trace_is_one_record() {
    one(
        TraceRuntime::Java,
        "Exception in thread \"main\" java.lang.IllegalStateException: bad\n\
         \tat a.B.c(B.java:5)\n\tat a.B.main(B.java:1)\n\
         Caused by: java.io.IOException: gone\n\tat a.D.e(D.java:9)\n\t... 2 more",
    );
    one(
        TraceRuntime::Java,
        "12:00:00 ERROR a.B - failed\njava.lang.NullPointerException\n\tat a.B.c(B.java:5)\n\
         \tSuppressed: x.YException: z\n\t\tat x.Y.z(Y.java:1)",
    );
}

/// Scenario: a traceback below its logger's line, with a chain of two; one of a module's error
/// without a message. Guarantee: each is one record; a level after indented text is no exception.
#[test]
fn a_traceback_is_one_record() {
    one(
        TraceRuntime::Python,
        "ERROR:root:failed\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    \
         g()\n    ~^^\nKeyError: 'a'\n\nDuring handling of the above exception, another exception \
         occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    \
         f()\nshop.errors.Closed",
    );
    let plain = "values\n    a\nstopping: now";
    assert_eq!(records(TraceRuntime::Python, plain), ["values\n    a", "stopping: now"]);
    let level = "Traceback (most recent call last):\n    f()\nINFO: x";
    assert_eq!(records(TraceRuntime::Python, level).len(), 2);
}

/// Scenario: a panic by a signal, with all goroutines. Guarantee: it is one record.
#[test]
fn a_panic_of_go_is_one_record() {
    one(
        TraceRuntime::Go,
        "panic: runtime error: invalid memory address or nil pointer dereference\n\
         [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48]\n\n\
         goroutine 1 [running]:\nmain.(*T).f(0xc000, 0x1)\n\t/x/main.go:8 +0x1d\n\
         main.main()\n\t/x/main.go:3 +0x20\n\n\
         goroutine 6 [select]:\nnet/http.(*conn).serve({0x1, 0x2})\n\t/go/server.go:1 +0x1\n\
         ...additional frames elided...\ncreated by net/http.(*Server).Serve in goroutine 1\n\
         \t/go/server.go:2 +0x2",
    );
    let text = "INFO a\ngoroutine 7 leaks\nmain.main()";
    assert_eq!(records(TraceRuntime::Go, text).len(), 3);
}

/// Scenario: an uncaught error with its source and an object; one as `console.error` prints it.
/// Guarantee: each is one record.
#[test]
fn an_error_of_node_is_one_record() {
    one(
        TraceRuntime::NodeJs,
        "/app/x.js:3\n    throw new TypeError('x');\n    ^\n\nTypeError [ERR_X]: x\n    at f \
         (/app/x.js:3:9) {\n  code: 'ERR_X'\n}\n\nNode.js v22.1.0",
    );
    one(TraceRuntime::NodeJs, "Error: x\n    at f (/app/x.js:3:9) {\n  [cause]: Error: y\n}");
    assert_eq!(records(TraceRuntime::NodeJs, "Error: a\nError: b").len(), 2);
}

/// Scenario: a panic with a backtrace; an error with its causes. Guarantee: each is one record.
#[test]
fn a_panic_of_rust_is_one_record() {
    one(
        TraceRuntime::Rust,
        "thread 'main' panicked at src/main.rs:2:5:\nexplicit panic\nstack backtrace:\n   0: a::b\n\
         \x20            at ./src/main.rs:2:5\n\
         note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.",
    );
    one(TraceRuntime::Rust, "Error: no such shop\n\nCaused by:\n    0: gone\n    1: closed");
    let text = "thread 'main' panicked at 'older', src/main.rs:2:5\nINFO x";
    assert_eq!(records(TraceRuntime::Rust, text).len(), 2);
}
