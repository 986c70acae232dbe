package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/cmd/internal/version"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
)

// Environment variables of the OpenTelemetry specification. The libraries read the others, such as
// OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_HEADERS.
const (
	endpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolVariable       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVariable = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	exporterVariable       = "OTEL_TRACES_EXPORTER"
	disabledVariable       = "OTEL_SDK_DISABLED"
)

// tracesTimeout is how long the operator waits for the last spans to be sent when it ends.
const tracesTimeout = time.Second

// startTracing sends spans of reconciles to the OTLP endpoint that the environment names. Without one it
// does nothing. stop sends the last spans; spans that stay unsent are no error of the operator.
func startTracing(ctx context.Context) (stop func(), err error) {
	disabled, _ := strconv.ParseBool(os.Getenv(disabledVariable)) // anything else means false
	if cmp.Or(os.Getenv(tracesEndpointVariable), os.Getenv(endpointVariable)) == "" || disabled || os.Getenv(exporterVariable) == "none" {
		return func() {}, nil
	}
	if protocol := cmp.Or(os.Getenv(tracesProtocolVariable), os.Getenv(protocolVariable), "grpc"); protocol != "grpc" {
		return nil, fmt.Errorf("the OTLP protocol is %q: set %s to grpc, which is the only one, and the endpoint to the port for it, usually 4317", protocol, protocolVariable)
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of traces: %w: check the variables that begin with OTEL_EXPORTER_OTLP", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "vidra-operator"), attribute.String("service.version", version.String())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the resource of traces: %w: check OTEL_RESOURCE_ATTRIBUTES", err), exporter.Shutdown(ctx))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Log.WithName("tracing").Info("traces are not sent", "cause", err.Error()) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	tracing.Use(provider)
	return func() {
		tracing.Use(nil)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracesTimeout)
		defer cancel()
		if err := provider.Shutdown(ending); err != nil {
			log.Log.WithName("tracing").Info("the last traces are not sent", "cause", err.Error())
		}
	}, nil
}
