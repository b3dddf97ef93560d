package main

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/processor"
)

func readLogs(request []byte) (plog.Logs, error) {
	read := plogotlp.NewExportRequest()
	err := read.UnmarshalProto(request)
	return read.Logs(), err
}

func readTraces(request []byte) (ptrace.Traces, error) {
	read := ptraceotlp.NewExportRequest()
	err := read.UnmarshalProto(request)
	return read.Traces(), err
}

func readMetrics(request []byte) (pmetric.Metrics, error) {
	read := pmetricotlp.NewExportRequest()
	err := read.UnmarshalProto(request)
	return read.Metrics(), err
}

// consume makes a processor of a signal and returns what it passes on, empty if nothing.
func consume(
	ctx context.Context, factory processor.Factory, set processor.Settings, config component.Config,
	signal string, request []byte,
) ([]byte, error) {
	switch signal {
	case "logs":
		sink := new(consumertest.LogsSink)
		made, err := factory.CreateLogs(ctx, set, config, sink)
		if err != nil {
			return nil, compileError{err}
		}
		records, err := readLogs(request)
		if err == nil {
			err = made.ConsumeLogs(ctx, records)
		}
		if err != nil || len(sink.AllLogs()) == 0 {
			return nil, err
		}
		return plogotlp.NewExportRequestFromLogs(sink.AllLogs()[0]).MarshalProto()
	case "traces":
		sink := new(consumertest.TracesSink)
		made, err := factory.CreateTraces(ctx, set, config, sink)
		if err != nil {
			return nil, compileError{err}
		}
		records, err := readTraces(request)
		if err == nil {
			err = made.ConsumeTraces(ctx, records)
		}
		if err != nil || len(sink.AllTraces()) == 0 {
			return nil, err
		}
		return ptraceotlp.NewExportRequestFromTraces(sink.AllTraces()[0]).MarshalProto()
	case "metrics":
		sink := new(consumertest.MetricsSink)
		made, err := factory.CreateMetrics(ctx, set, config, sink)
		if err != nil {
			return nil, compileError{err}
		}
		records, err := readMetrics(request)
		if err == nil {
			err = made.ConsumeMetrics(ctx, records)
		}
		if err != nil || len(sink.AllMetrics()) == 0 {
			return nil, err
		}
		return pmetricotlp.NewExportRequestFromMetrics(sink.AllMetrics()[0]).MarshalProto()
	default:
		return nil, compileError{fmt.Errorf("%q is not a signal", signal)}
	}
}

// sorted returns a request with every map sorted by key, and the number of its records, or of its
// span events in their context.
func sorted(signal string, request []byte, context string) ([]byte, int, error) {
	switch signal {
	case "logs":
		logs, err := readLogs(request)
		if err != nil {
			return nil, 0, err
		}
		sortLogs(logs)
		result, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
		return result, logs.LogRecordCount(), err
	case "traces":
		traces, err := readTraces(request)
		if err != nil {
			return nil, 0, err
		}
		count := sortTraces(traces)
		if context != "spanevent" {
			count = traces.SpanCount()
		}
		result, err := ptraceotlp.NewExportRequestFromTraces(traces).MarshalProto()
		return result, count, err
	case "metrics":
		metrics, err := readMetrics(request)
		if err != nil {
			return nil, 0, err
		}
		sortMetrics(metrics)
		result, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
		return result, metrics.DataPointCount(), err
	default:
		return nil, 0, fmt.Errorf("%q is not a signal", signal)
	}
}
