package main

import (
	"math"
	"math/rand"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Keys by the kind that their values mostly have.
var (
	textKeys   = []string{"a", "http.method", "user.id", "url", "größe"}
	numberKeys = []string{"http.status_code", "n"}
	doubleKeys = []string{"dur", "ratio"}
	boolKeys   = []string{"ok", "cached"}
	digitKeys  = []string{"digits", "port"}
	jsonKeys   = []string{"json"}
	csvKeys    = []string{"csv", "path"}
	mapKeys    = []string{"nested", "k8s"}
	listKeys   = []string{"list", "tags"}
	bytesKeys  = []string{"bin"}
	emptyKeys  = []string{"empty"}
	allKeys    = [][]string{
		textKeys, textKeys, numberKeys, doubleKeys, boolKeys, digitKeys, jsonKeys, csvKeys, mapKeys,
		listKeys, bytesKeys, emptyKeys,
	}
)

var words = []string{
	"", "GET", "POST", "/healthz", "hello world", "größe", "漢字かな", "🙂 ok", "someName",
	"SOME_NAME", "some-name with.dots", "user@example.com", "10.0.0.1:9100", "x=1 y=2", "ERROR: disk",
	"aaa", "tab\tand\nline", "password=hunter2", "a/b/c", "<b>&amp;</b>", "ǅ ß İ",
}

var digits = []string{
	"42", "-7", "0x1f", "3.5", "abc", "", " 1", "9223372036854775808", "1e3", "+5", "007",
}

var jsonTexts = []string{
	`{"k":"v","n":1}`, `{"k":{"x":[1,2,{"y":null}]},"b":true}`, `[1,"two",null]`, `{}`, `[]`,
	`"text"`, `{bad`,
	`{"k":1.5e3,"u":"\u00e9<"}`, `null`, `{"k":"1","k":"2"}`,
}

var csvTexts = []string{"a,b,c", "one", ",,", "x, y", "a,größe,🙂", "/api/v1/users/7", "/"}

type generator struct{ *rand.Rand }

func pick[T any](g generator, from []T) T { return from[g.Intn(len(from))] }

func (g generator) chance(percent int) bool { return g.Intn(100) < percent }

func (g generator) integer() int64 {
	switch g.Intn(8) {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return 0
	default:
		return int64(g.Intn(1000) - 300)
	}
}

// double gives none that is too large for an integer, where the answer is the processor's.
func (g generator) double() float64 {
	return pick(g, []float64{0, 1.5, -2.25, 100, 1e15, 1e-7, 0.1, -0.5, 12345.678, 1e-5, 3})
}

// fill writes a value of the kind that those keys mostly have.
func (g generator) fill(key []string, value pcommon.Value, depth int) {
	switch &key[0] {
	case &textKeys[0]:
		value.SetStr(pick(g, words))
	case &numberKeys[0]:
		value.SetInt(g.integer())
	case &doubleKeys[0]:
		value.SetDouble(g.double())
	case &boolKeys[0]:
		value.SetBool(g.chance(50))
	case &digitKeys[0]:
		value.SetStr(pick(g, digits))
	case &jsonKeys[0]:
		value.SetStr(pick(g, jsonTexts))
	case &csvKeys[0]:
		value.SetStr(pick(g, csvTexts))
	case &bytesKeys[0]:
		value.SetEmptyBytes().FromRaw([]byte(pick(g, words)))
	case &mapKeys[0]:
		into := value.SetEmptyMap()
		for range g.Intn(4) * (2 - depth) / 2 {
			keys := pick(g, allKeys)
			g.fill(pick(g, allKeys), into.PutEmpty(pick(g, keys)), depth+1)
		}
	case &listKeys[0]:
		into := value.SetEmptySlice()
		kind := pick(g, allKeys)
		for range g.Intn(4) * (2 - depth) / 2 {
			if g.chance(20) {
				kind = pick(g, allKeys)
			}
			g.fill(kind, into.AppendEmpty(), depth+1)
		}
	}
}

func (g generator) attributes(into pcommon.Map, most int) {
	for range most/2 + g.Intn(most+1) {
		keys := pick(g, allKeys)
		value := into.PutEmpty(pick(g, keys))
		if g.chance(15) {
			keys = pick(g, allKeys)
		}
		g.fill(keys, value, 0)
	}
}

func (g generator) resource(into pcommon.Resource) {
	into.Attributes().PutStr("service.name", pick(g, []string{"api", "web", "größe"}))
	g.attributes(into.Attributes(), 3)
	into.SetDroppedAttributesCount(uint32(g.Intn(2)))
}

func (g generator) scope(into pcommon.InstrumentationScope) {
	into.SetName(pick(g, []string{"", "lib", "otel.go"}))
	into.SetVersion(pick(g, []string{"", "1.2.0"}))
	g.attributes(into.Attributes(), 2)
}

func (g generator) time() pcommon.Timestamp {
	return pcommon.Timestamp(pick(g, []int64{0, 1_700_000_000_000_000_000, 1_700_000_123_456_789_012}))
}

func (g generator) traceID() (id pcommon.TraceID) {
	if g.chance(80) {
		g.Read(id[:])
	}
	return id
}

func (g generator) spanID() (id pcommon.SpanID) {
	if g.chance(80) {
		g.Read(id[:])
	}
	return id
}

func (g generator) logs() []byte {
	logs := plog.NewLogs()
	for range 1 + g.Intn(2) {
		resource := logs.ResourceLogs().AppendEmpty()
		resource.SetSchemaUrl(pick(g, []string{"", "https://s/1"}))
		g.resource(resource.Resource())
		for range 1 + g.Intn(6)/5 {
			scope := resource.ScopeLogs().AppendEmpty()
			g.scope(scope.Scope())
			for range 1 + g.Intn(2) {
				record := scope.LogRecords().AppendEmpty()
				record.SetTimestamp(g.time())
				record.SetObservedTimestamp(g.time())
				number := pick(g, []plog.SeverityNumber{0, 5, 9, 13, 17})
				record.SetSeverityNumber(number)
				record.SetSeverityText(pick(g, []string{"", "INFO", "warn", "Error"}))
				body := allKeys
				if g.chance(50) {
					body = [][]string{textKeys, mapKeys, jsonKeys}
				}
				g.fill(pick(g, body), record.Body(), 0)
				g.attributes(record.Attributes(), 9)
				record.SetTraceID(g.traceID())
				record.SetSpanID(g.spanID())
				record.SetFlags(plog.LogRecordFlags(g.Intn(2)))
				record.SetDroppedAttributesCount(uint32(g.Intn(2)))
				record.SetEventName(pick(g, []string{"", "login"}))
			}
		}
	}
	request, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	check(err)
	return request
}

func (g generator) traces() []byte {
	traces := ptrace.NewTraces()
	for range 1 + g.Intn(2) {
		resource := traces.ResourceSpans().AppendEmpty()
		g.resource(resource.Resource())
		for range 1 + g.Intn(6)/5 {
			scope := resource.ScopeSpans().AppendEmpty()
			g.scope(scope.Scope())
			for range 1 + g.Intn(2) {
				g.span(scope.Spans().AppendEmpty())
			}
		}
	}
	request, err := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
	check(err)
	return request
}

func (g generator) span(span ptrace.Span) {
	span.SetTraceID(g.traceID())
	span.SetSpanID(g.spanID())
	span.SetParentSpanID(g.spanID())
	span.SetName(pick(g, words))
	span.SetKind(ptrace.SpanKind(g.Intn(6)))
	span.TraceState().FromRaw(pick(g, []string{"", "a=1,b=2", "ot=th:8", "bad,,"}))
	span.SetStartTimestamp(g.time())
	span.SetEndTimestamp(g.time())
	span.SetFlags(uint32(g.Intn(2)))
	span.Status().SetCode(ptrace.StatusCode(g.Intn(3)))
	span.Status().SetMessage(pick(g, []string{"", "failed: timeout"}))
	g.attributes(span.Attributes(), 7)
	for range g.Intn(3) {
		event := span.Events().AppendEmpty()
		event.SetName(pick(g, []string{"exception", "retry", ""}))
		event.SetTimestamp(g.time())
		g.attributes(event.Attributes(), 4)
	}
	for range g.Intn(2) {
		link := span.Links().AppendEmpty()
		link.SetTraceID(g.traceID())
		g.attributes(link.Attributes(), 2)
	}
}

func (g generator) metrics() []byte {
	metrics := pmetric.NewMetrics()
	resource := metrics.ResourceMetrics().AppendEmpty()
	g.resource(resource.Resource())
	scope := resource.ScopeMetrics().AppendEmpty()
	g.scope(scope.Scope())
	first := g.Intn(5)
	for i := range 2 + g.Intn(2) {
		metric := scope.Metrics().AppendEmpty()
		metric.SetName(pick(g, []string{"http.server.duration", "up", "queue_größe", ""}))
		metric.SetDescription(pick(g, []string{"", "how long"}))
		metric.SetUnit(pick(g, []string{"", "ms", "By"}))
		g.attributes(metric.Metadata(), 1)
		g.points(metric, (first+i)%5)
	}
	request, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	check(err)
	return request
}

func (g generator) number(point pmetric.NumberDataPoint) {
	point.SetTimestamp(g.time())
	point.SetStartTimestamp(g.time())
	if g.chance(50) {
		point.SetIntValue(g.integer())
	} else {
		point.SetDoubleValue(g.double())
	}
	g.attributes(point.Attributes(), 4)
	for range g.Intn(2) {
		exemplar := point.Exemplars().AppendEmpty()
		exemplar.SetDoubleValue(g.double())
		g.attributes(exemplar.FilteredAttributes(), 1)
	}
}

func (g generator) points(metric pmetric.Metric, kind int) {
	temporality := pmetric.AggregationTemporality(g.Intn(3))
	for range 1 + g.Intn(2) {
		switch kind {
		case 0:
			if metric.Type() != pmetric.MetricTypeGauge {
				metric.SetEmptyGauge()
			}
			g.number(metric.Gauge().DataPoints().AppendEmpty())
		case 1:
			if metric.Type() != pmetric.MetricTypeSum {
				metric.SetEmptySum().SetAggregationTemporality(temporality)
				metric.Sum().SetIsMonotonic(g.chance(50))
			}
			g.number(metric.Sum().DataPoints().AppendEmpty())
		case 2:
			if metric.Type() != pmetric.MetricTypeHistogram {
				metric.SetEmptyHistogram().SetAggregationTemporality(temporality)
			}
			point := metric.Histogram().DataPoints().AppendEmpty()
			point.SetTimestamp(g.time())
			point.SetCount(3)
			point.SetSum(g.double())
			point.BucketCounts().FromRaw([]uint64{1, 2})
			point.ExplicitBounds().FromRaw([]float64{0.5})
			g.attributes(point.Attributes(), 4)
		case 3:
			if metric.Type() != pmetric.MetricTypeExponentialHistogram {
				metric.SetEmptyExponentialHistogram().SetAggregationTemporality(temporality)
			}
			point := metric.ExponentialHistogram().DataPoints().AppendEmpty()
			point.SetTimestamp(g.time())
			point.SetCount(4)
			point.SetScale(int32(g.Intn(5) - 2))
			point.SetZeroCount(1)
			point.Positive().SetOffset(int32(g.Intn(3) - 1))
			point.Positive().BucketCounts().FromRaw([]uint64{1, 2})
			g.attributes(point.Attributes(), 4)
		case 4:
			if metric.Type() != pmetric.MetricTypeSummary {
				metric.SetEmptySummary()
			}
			point := metric.Summary().DataPoints().AppendEmpty()
			point.SetTimestamp(g.time())
			point.SetCount(2)
			point.SetSum(g.double())
			quantile := point.QuantileValues().AppendEmpty()
			quantile.SetQuantile(0.5)
			quantile.SetValue(g.double())
			g.attributes(point.Attributes(), 4)
		}
	}
}
