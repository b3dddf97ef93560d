// Sends spans by OpenTelemetry's Go SDK as it comes: its batches, its exporters, their time-outs
// and their retries. Arguments: endpoint, protocol (grpc or http), service, spans a second, seconds.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	if err := send(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(arguments []string) error {
	if len(arguments) != 5 {
		return fmt.Errorf("endpoint, protocol, service, spans a second and seconds are needed")
	}
	endpoint, protocol, service := arguments[0], arguments[1], arguments[2]
	rate, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(arguments[4])
	if err != nil {
		return err
	}
	ctx := context.Background()
	exporter, err := newExporter(ctx, protocol, endpoint)
	if err != nil {
		return err
	}
	named := resource.NewSchemaless(attribute.String("service.name", service))
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(named))
	tracer := provider.Tracer("sdks")
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for range rate * seconds {
		_, span := tracer.Start(ctx, "stall")
		span.End()
		<-ticker.C
	}
	return provider.Shutdown(ctx)
}

func newExporter(ctx context.Context, protocol, endpoint string) (*otlptrace.Exporter, error) {
	if protocol == "grpc" {
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
}
