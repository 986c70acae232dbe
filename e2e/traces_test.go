package e2e

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// traceReceiver is a collector of traces.
type traceReceiver struct {
	collector.UnimplementedTraceServiceServer

	// mu guards what follows.
	mu    sync.Mutex
	spans []*otlp.Span
	// raw is all that was received.
	raw []byte
}

// Export implements collector.TraceServiceServer.
func (r *traceReceiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, raw...)
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, err
}

// below returns the spans of a name below one of parents; below nil are those without a parent.
func (r *traceReceiver) below(name string, parents []*otlp.Span) (found []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		isBelow := slices.ContainsFunc(parents, func(p *otlp.Span) bool { return bytes.Equal(p.GetSpanId(), span.GetParentSpanId()) })
		if span.GetName() == name && (isBelow || parents == nil && len(span.GetParentSpanId()) == 0) {
			found = append(found, span)
		}
	}
	return found
}

// attributeOf returns an attribute of a span.
func attributeOf(span *otlp.Span, key string) string {
	for _, attribute := range span.GetAttributes() {
		if attribute.GetKey() == key {
			return attribute.GetValue().GetStringValue()
		}
	}
	return ""
}

// TestTraces has an operator send traces to this process. It reverts an edit of a Secret, and is refused
// an object whose value the API server quotes: no byte of the traces has either value.
func TestTraces(t *testing.T) {
	t.Parallel()
	suite.NeedsOwnControlPlane(t, "it starts an operator that sends traces to this process")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	received, server := &traceReceiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, received)
	go server.Serve(listener) //nolint:errcheck // Stop ends it
	t.Cleanup(server.Stop)

	ns := newNamespace(t)
	traced, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--installation=" + ns},
		Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=100"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, traced.Stop(stopTimeout)) })

	const ours, theirs = "b3VyLXNlY3JldA==", "dGhlaXItc2VjcmV0" // our-secret, their-secret
	newVidraResource(t, ns, `{apiVersion: v1, kind: Secret, metadata: {name: token}, data: {token: `+ours+`}}`, func(v *v1alpha1.VidraResource) {
		v.Labels = map[string]string{v1alpha1.InstallationLabel: ns}
	})
	awaitReady(t, ns)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "token"}}
	require.NoError(t, mergePatch(secret, `{"data":{"token":%q}}`, theirs))
	await(t, func(c *assert.CollectT) {
		reconciles := received.below("heal object", nil)
		reconciles = slices.DeleteFunc(reconciles, func(s *otlp.Span) bool {
			return attributeOf(s, "vidra.resource") != ns || !slices.ContainsFunc(s.GetEvents(), func(e *otlp.Span_Event) bool {
				return e.GetName() == "cause" && e.GetTimeUnixNano() <= s.GetStartTimeUnixNano()
			})
		})
		require.NotEmpty(c, reconciles, "a heal with the edit as its cause")
		objects := received.below("apply object", reconciles)
		require.Len(c, objects, 1)
		require.Equal(c, "Secret", attributeOf(objects[0], "k8s.object.kind"))
		require.Equal(c, "token", attributeOf(objects[0], "k8s.object.name"))
		require.Equal(c, "Restored", attributeOf(objects[0], "vidra.action"))
		require.Len(c, received.below("apply secrets", objects), 1, "one PATCH")
	})
	setManifest(t, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: page}, data: {"our secret!": our-secret}}`)
	await(t, func(c *assert.CollectT) {
		refused := false
		received.mu.Lock()
		defer received.mu.Unlock()
		for _, span := range received.spans {
			refused = refused || span.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR && attributeOf(span, "error.type") == "Invalid" && span.GetName() == "apply object"
		}
		require.True(c, refused, "a request that the API server refused")
	})
	received.mu.Lock()
	defer received.mu.Unlock()
	for _, secret := range []string{ours, theirs, "our-secret", "their-secret", "our secret!"} {
		require.False(t, bytes.Contains(received.raw, []byte(secret)), secret)
	}
}
