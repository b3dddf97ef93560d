package main

import (
	"math"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// fillSample writes attributes of every kind.
func fillSample(m pcommon.Map) {
	m.PutStr("s", "hello")
	m.PutStr("u", "größe漢🙂")
	m.PutStr("e", "")
	m.PutStr("hex", "0x1f")
	m.PutStr("num", "42")
	m.PutStr("flo", "1.5e3")
	m.PutStr("json", `{"k":"v","n":1,"big":12345678901234567890,`+
		`"o":{"z":null,"l":[1,{"y":true}]},"h":"<&>"}`)
	m.PutStr("url", "/api/v1/users/42?token=abc&x=1")
	m.PutStr("when", "2024-02-29T23:59:58.123Z")
	m.PutInt("i", 42)
	m.PutInt("neg", -7)
	m.PutInt("max", math.MaxInt64)
	m.PutInt("min", math.MinInt64)
	m.PutInt("zero", 0)
	m.PutDouble("d", 1.5)
	m.PutDouble("two", 2)
	m.PutDouble("nan", math.NaN())
	m.PutDouble("inf", math.Inf(1))
	m.PutDouble("negzero", math.Copysign(0, -1))
	m.PutDouble("large", 1e300)
	m.PutDouble("small", 1e-9)
	m.PutBool("t", true)
	m.PutBool("f", false)
	m.PutEmptyBytes("x").FromRaw([]byte{0, 0xff, 'a'})
	m.PutEmptyBytes("x0")
	m.PutEmpty("n")
	m.PutEmptyMap("m0")
	m.PutEmptySlice("l0")
	list := m.PutEmptySlice("l")
	list.AppendEmpty().SetStr("a")
	list.AppendEmpty().SetInt(1)
	list.AppendEmpty().SetDouble(2.5)
	list.AppendEmpty().SetEmptyMap().PutStr("k", "v")
	list.AppendEmpty().SetEmptySlice().AppendEmpty().SetBool(true)
	list.AppendEmpty()
	texts := m.PutEmptySlice("ls")
	texts.AppendEmpty().SetStr("a")
	texts.AppendEmpty().SetStr("b")
	nested := m.PutEmptyMap("m")
	nested.PutStr("s", "in")
	nested.PutInt("i", 1)
	inner := nested.PutEmptyMap("b")
	inner.PutStr("c", "x")
	inner.PutEmptySlice("d").AppendEmpty().SetEmptyMap().PutBool("e", true)
	inner.PutEmptyMap("void")
}

func at(text string) pcommon.Timestamp {
	read, err := time.Parse(time.RFC3339Nano, text)
	check(err)
	return pcommon.NewTimestampFromTime(read)
}

func named(attributes pcommon.Map, name string) {
	attributes.PutStr("service.name", name)
	attributes.PutInt("i", 7)
}

// logRequest has one record, which the caller completes.
func logRequest(fill func(plog.LogRecord)) []byte {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	named(resource.Resource().Attributes(), "api")
	scope := resource.ScopeLogs().AppendEmpty()
	scope.Scope().SetName("lib")
	scope.Scope().SetVersion("1.2.0")
	scope.Scope().Attributes().PutStr("sk", "sv")
	record := scope.LogRecords().AppendEmpty()
	record.SetTimestamp(at("2026-11-29T01:02:03.000000004Z"))
	record.SetObservedTimestamp(at("2026-11-29T01:02:04Z"))
	record.SetSeverityNumber(plog.SeverityNumberWarn)
	record.SetSeverityText("warn")
	record.SetTraceID(pcommon.TraceID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	record.SetSpanID(pcommon.SpanID{1, 2, 3, 4, 5, 6, 7, 8})
	fill(record)
	request, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	check(err)
	return request
}

func traceRequest() []byte {
	traces := ptrace.NewTraces()
	for _, name := range []string{"api", "web"} {
		resource := traces.ResourceSpans().AppendEmpty()
		named(resource.Resource().Attributes(), name)
		scope := resource.ScopeSpans().AppendEmpty()
		scope.Scope().SetName("lib")
		span := scope.Spans().AppendEmpty()
		span.SetName("GET /users/" + name)
		span.SetKind(ptrace.SpanKindServer)
		span.SetTraceID(pcommon.TraceID{0xab, 15: 1})
		span.SetSpanID(pcommon.SpanID{0xcd, 7: 1})
		span.TraceState().FromRaw("a=1,ot=th:8")
		span.SetStartTimestamp(at("2026-11-29T01:02:03Z"))
		span.SetEndTimestamp(at("2026-11-29T01:02:03.25Z"))
		span.Status().SetCode(ptrace.StatusCodeError)
		span.Status().SetMessage("timeout")
		span.Attributes().PutStr("http.method", "GET")
		span.Attributes().PutInt("http.status_code", 500)
		for _, event := range []string{"exception", "retry"} {
			one := span.Events().AppendEmpty()
			one.SetName(event)
			one.SetTimestamp(at("2026-11-29T01:02:03.1Z"))
			one.Attributes().PutStr("type", event+"Error")
		}
		link := span.Links().AppendEmpty()
		link.SetTraceID(pcommon.TraceID{0xef})
		link.Attributes().PutStr("why", "follows")
	}
	request, err := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
	check(err)
	return request
}

func metricRequest() []byte {
	metrics := pmetric.NewMetrics()
	resource := metrics.ResourceMetrics().AppendEmpty()
	named(resource.Resource().Attributes(), "api")
	scope := resource.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("lib")
	g := fixedGenerator()
	for kind, name := range []string{"gauge", "sum", "histogram", "exponential", "summary"} {
		metric := scope.Metrics().AppendEmpty()
		metric.SetName(name)
		metric.SetUnit("ms")
		g.points(metric, kind)
	}
	request, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	check(err)
	return request
}

// duplicateRequest has a record with a key three times and another twice. The Collector's own types
// can't write it: keys in the written bytes are renamed.
func duplicateRequest() []byte {
	logs := plog.NewLogs()
	record := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.Body().SetStr("twice")
	attributes := record.Attributes()
	for _, key := range []string{"a", "b", "A", "c", "B", "@"} {
		attributes.PutStr(key, "of "+key)
	}
	request, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	check(err)
	// Keys of one byte: tag 0x0a, length 1, the key.
	for i := 0; i+2 < len(request); i++ {
		if request[i] != 0x0a || request[i+1] != 1 {
			continue
		}
		switch request[i+2] {
		case 'A', '@':
			request[i+2] = 'a'
		case 'B':
			request[i+2] = 'b'
		}
	}
	return request
}
