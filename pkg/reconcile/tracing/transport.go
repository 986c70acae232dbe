package tracing

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// requests parses the paths of requests as the API server does.
var requests = request.RequestInfoFactory{APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}}}

// Transport returns a transport whose requests below a span have spans. A span ends with the header of
// the answer. Bodies, and queries other than the dry run and the field manager, are left out. It
// is a rest.Config's WrapTransport.
func Transport(next http.RoundTripper) http.RoundTripper { return traced{next} }

// traced is an http.RoundTripper.
type traced struct{ next http.RoundTripper }

// WrappedRoundTripper implements net.RoundTripperWrapper, through which client-go closes idle connections.
func (t traced) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	parent := trace.SpanFromContext(r.Context())
	if !parent.IsRecording() {
		return t.next.RoundTrip(r)
	}
	name, attributes := describe(r)
	ctx, span := parent.TracerProvider().Tracer(scope).Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	defer span.End()
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	switch {
	case err != nil: // the message may have anything
		span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
		if response.StatusCode >= http.StatusBadRequest {
			span.SetAttributes(attribute.String("error.type", strconv.Itoa(response.StatusCode)))
			span.SetStatus(codes.Error, "")
		}
	}
	return response, err
}

// describe returns the name of a request, such as "apply configmaps", and its attributes.
func describe(r *http.Request) (name string, attributes []attribute.KeyValue) {
	path := *r.URL
	if at := strings.Index(path.Path, "/api"); at > 0 { // a remote cluster may be below a path
		path.Path = path.Path[at:]
	}
	info, err := requests.NewRequestInfo(&http.Request{Method: r.Method, URL: &path, Header: r.Header})
	if err != nil || !info.IsResourceRequest {
		return strings.ToLower(r.Method), nil
	}
	verb := info.Verb
	if r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		verb = "apply"
	}
	name = verb + " " + info.Resource
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	attributes = append(attributes, attribute.String("k8s.object.group", info.APIGroup), attribute.String("k8s.object.resource", info.Resource))
	query := r.URL.Query()
	for _, a := range []struct{ key, value string }{
		{"k8s.namespace.name", info.Namespace}, {"k8s.object.name", info.Name}, {"k8s.object.subresource", info.Subresource},
		{"vidra.field_manager", query.Get("fieldManager")}, {"vidra.dry_run", query.Get("dryRun")},
	} {
		if a.value != "" {
			attributes = append(attributes, attribute.String(a.key, a.value))
		}
	}
	return name, attributes
}
