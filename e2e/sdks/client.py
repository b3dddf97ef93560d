"""Sends spans by OpenTelemetry's Python SDK as it comes: its batches, its exporters, their time-outs
and their retries. Arguments: endpoint, protocol (grpc or http), service, spans a second, seconds."""

import sys
import time

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def new_exporter(protocol, endpoint):
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=endpoint, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint + "/v1/traces")


def main():
    endpoint, protocol, service, rate, seconds = sys.argv[1:]
    provider = TracerProvider(resource=Resource({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(new_exporter(protocol, endpoint)))
    tracer = provider.get_tracer("sdks")
    due = time.monotonic()
    for _ in range(int(rate) * int(seconds)):
        tracer.start_span("stall").end()
        due += 1 / int(rate)
        time.sleep(max(0.0, due - time.monotonic()))
    provider.shutdown()


main()
