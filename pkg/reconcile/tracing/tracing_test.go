package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

var page = object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "page"}

// TestOff requires that nothing is allocated while there is no tracing.
func TestOff(t *testing.T) {
	causes, answer := map[trigger.ObjectKey]trigger.Cause{{Name: "page"}: {}}, &http.Response{}
	transport := Transport(roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil }))
	get := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/configmaps/page", http.NoBody)
	r := Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		Causes(ctx, causes)
		_, end := Object(ctx, "apply object", page)
		_, err := transport.RoundTrip(get) //nolint:bodyclose // it has none
		end("Restored", err)
		return reconcile.Result{}, err
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = r.Reconcile(t.Context(), reconcile.Request{}) }))
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTransport requires the span of each kind of request.
func TestTransport(t *testing.T) {
	type attributes map[attribute.Key]string
	tests := map[string]struct {
		reason, method, url, contentType string
		status                           int
		err                              error
		name                             string
		want                             attributes
	}{
		"apply": {
			reason: "an apply is a PATCH of its own content type", method: http.MethodPatch, contentType: string(types.ApplyYAMLPatchType),
			url: "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=vidra%2Fshop&force=true&dryRun=All", status: 200,
			name: "apply deployments", want: attributes{
				"k8s.object.group": "apps", "k8s.object.resource": "deployments", "k8s.namespace.name": "shop", "k8s.object.name": "web",
				"vidra.field_manager": "vidra/shop", "vidra.dry_run": "All", "http.response.status_code": "200",
			},
		},
		"status": {
			reason: "a subresource, an object of the cluster, and an answer that refuses", method: http.MethodPut,
			url: "/apis/vidra.example/v1/vidraresources/shop/status", status: 409,
			name: "update vidraresources/status", want: attributes{
				"k8s.object.group": "vidra.example", "k8s.object.resource": "vidraresources", "k8s.object.name": "shop",
				"k8s.object.subresource": "status", "http.response.status_code": "409", "error.type": "409",
			},
		},
		"remote": {
			reason: "a remote cluster below a path, whose answer does not come; what the error quotes is not shown", method: http.MethodDelete,
			url: "https://proxy.example/k8s/clusters/c-1/api/v1/namespaces/shop/secrets/token", err: errors.New("our-secret"),
			name: "delete secrets", want: attributes{
				"k8s.object.group": "", "k8s.object.resource": "secrets", "k8s.namespace.name": "shop", "k8s.object.name": "token",
				"error.type": "*errors.errorString",
			},
		},
		"version": {
			reason: "a request about no object has its verb only", method: http.MethodGet, url: "/version", status: 200,
			name: "get", want: attributes{"http.response.status_code": "200"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			Use(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
			defer Use(nil)
			transport := Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: test.status}, test.err
			}))
			_, _ = Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				request := httptest.NewRequestWithContext(ctx, test.method, test.url, http.NoBody)
				request.Header.Set("Content-Type", test.contentType)
				_, err := transport.RoundTrip(request) //nolint:bodyclose // it has none
				return reconcile.Result{}, err
			})).Reconcile(t.Context(), reconcile.Request{})
			ended := spans.Ended()
			require.Len(t, ended, 2, test.reason)
			require.Equal(t, test.name, ended[0].Name(), test.reason)
			require.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID(), "below the reconcile")
			got := attributes{}
			for _, a := range ended[0].Attributes() {
				got[a.Key] = a.Value.String()
			}
			require.Equal(t, test.want, got, test.reason)
			require.Equal(t, test.err != nil || test.status >= 400, ended[0].Status().Code == codes.Error, test.reason)
		})
	}
}
