package tracing

import (
	"cmp"
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// scope names this instrumentation in spans.
const scope = "github.com/vidra-operator/vidra/pkg/reconcile"

// maxCauses is the maximum number of causes that a span lists.
const maxCauses = 32

// tracer makes the spans; nil without tracing.
var tracer atomic.Pointer[trace.Tracer]

// Use has all later reconciles traced by a provider; nil ends that.
func Use(provider trace.TracerProvider) {
	if provider == nil {
		tracer.Store(nil)
		return
	}
	t := provider.Tracer(scope)
	tracer.Store(&t)
}

// ending returns the end of a span: with the action that was taken, if any, and of an error with the reason of the API server only.
func ending(span trace.Span) func(action string, err error) {
	return func(action string, err error) {
		if action != "" && span.IsRecording() {
			span.SetAttributes(attribute.String("vidra.action", action))
		}
		if err != nil && span.IsRecording() {
			span.SetAttributes(attribute.String("error.type", cmp.Or(string(apierrors.ReasonForError(err)), "Unknown")))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Object begins a span about an object below the span of ctx. Without one it begins none.
func Object(ctx context.Context, name string, id object.Identity) (_ context.Context, end func(action string, err error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(string, error) {}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(
		attribute.String("k8s.object.group", id.Group), attribute.String("k8s.object.kind", id.Kind),
		attribute.String("k8s.namespace.name", id.Namespace), attribute.String("k8s.object.name", id.Name)))
	return ctx, ending(span)
}

// Causes adds the objects that differ from the expectation to the span of ctx, each at the time of the event that reported it.
func Causes(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int("vidra.causes", len(causes)))
	listed := 0
	for key, cause := range causes {
		if listed++; listed > maxCauses {
			return
		}
		options := []trace.EventOption{trace.WithAttributes(
			attribute.String("k8s.object.group", key.GVR.Group), attribute.String("k8s.object.resource", key.GVR.Resource),
			attribute.String("k8s.namespace.name", key.Namespace), attribute.String("k8s.object.name", key.Name),
			attribute.Bool("vidra.cause.deleted", cause.Deleted),
		)}
		if !cause.Since.IsZero() {
			options = append(options, trace.WithTimestamp(cause.Since))
		}
		span.AddEvent("cause", options...)
	}
}

// Root begins a span without a parent, of work for a VidraResource.
func Root(ctx context.Context, name string, owner trigger.Owner) (_ context.Context, end func(action string, err error)) {
	t := tracer.Load()
	if t == nil {
		return ctx, func(string, error) {}
	}
	ctx, span := (*t).Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attribute.String("vidra.resource", owner.Name)))
	return ctx, ending(span)
}

// Reconciler returns a reconciler whose reconciles have spans.
func Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		ctx, end := Root(ctx, "reconcile VidraResource", request.NamespacedName)
		result, err := next.Reconcile(ctx, request)
		end("", err)
		return result, err
	})
}
