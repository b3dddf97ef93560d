package main

import (
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// sortMap sorts a map and those in it by key, except if it has duplicate keys, which can't be
// written.
func sortMap(m pcommon.Map) {
	values := map[string]pcommon.Value{}
	for key, value := range m.All() {
		sortValue(value)
		values[key] = pcommon.NewValueEmpty()
		value.CopyTo(values[key])
	}
	if len(values) < m.Len() {
		return
	}
	m.Clear()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		values[key].CopyTo(m.PutEmpty(key))
	}
}

func sortValue(value pcommon.Value) {
	switch value.Type() {
	case pcommon.ValueTypeMap:
		sortMap(value.Map())
	case pcommon.ValueTypeSlice:
		for _, one := range value.Slice().All() {
			sortValue(one)
		}
	}
}

func sortLogs(logs plog.Logs) {
	for _, resource := range logs.ResourceLogs().All() {
		sortMap(resource.Resource().Attributes())
		for _, scope := range resource.ScopeLogs().All() {
			sortMap(scope.Scope().Attributes())
			for _, record := range scope.LogRecords().All() {
				sortMap(record.Attributes())
				sortValue(record.Body())
			}
		}
	}
}

// sortTraces returns the number of span events.
func sortTraces(traces ptrace.Traces) int {
	events := 0
	for _, resource := range traces.ResourceSpans().All() {
		sortMap(resource.Resource().Attributes())
		for _, scope := range resource.ScopeSpans().All() {
			sortMap(scope.Scope().Attributes())
			for _, span := range scope.Spans().All() {
				sortMap(span.Attributes())
				for _, event := range span.Events().All() {
					sortMap(event.Attributes())
					events++
				}
				for _, link := range span.Links().All() {
					sortMap(link.Attributes())
				}
			}
		}
	}
	return events
}

func sortMetrics(metrics pmetric.Metrics) {
	for _, resource := range metrics.ResourceMetrics().All() {
		sortMap(resource.Resource().Attributes())
		for _, scope := range resource.ScopeMetrics().All() {
			sortMap(scope.Scope().Attributes())
			for _, metric := range scope.Metrics().All() {
				sortMap(metric.Metadata())
				sortPoints(metric)
			}
		}
	}
}

func sortExemplars(exemplars pmetric.ExemplarSlice) {
	for _, one := range exemplars.All() {
		sortMap(one.FilteredAttributes())
	}
}

func sortPoints(metric pmetric.Metric) {
	numbers := pmetric.NewNumberDataPointSlice()
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		numbers = metric.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		numbers = metric.Sum().DataPoints()
	case pmetric.MetricTypeHistogram:
		for _, point := range metric.Histogram().DataPoints().All() {
			sortMap(point.Attributes())
			sortExemplars(point.Exemplars())
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, point := range metric.ExponentialHistogram().DataPoints().All() {
			sortMap(point.Attributes())
			sortExemplars(point.Exemplars())
		}
	case pmetric.MetricTypeSummary:
		for _, point := range metric.Summary().DataPoints().All() {
			sortMap(point.Attributes())
		}
	}
	for _, point := range numbers.All() {
		sortMap(point.Attributes())
		sortExemplars(point.Exemplars())
	}
}
