package tracing

import (
	"cmp"
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
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

// Span is a span, or without tracing one that records nothing.
type Span struct{ span trace.Span }

// End ends the span. Of an error it has the reason of the API server only.
func (s Span) End(err error) {
	if err != nil && s.span.IsRecording() {
		s.span.SetAttributes(attribute.String("error.type", cmp.Or(string(apierrors.ReasonForError(err)), "Unknown")))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// Done ends the span of an object with the action that was taken.
func (s Span) Done(action string, err error) {
	if action != "" && s.span.IsRecording() {
		s.span.SetAttributes(attribute.String("vidra.action", action))
	}
	s.End(err)
}

// Object begins a span about an object below the span of ctx. Without one it begins none.
func Object(ctx context.Context, name string, id object.Identity) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{parent}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(
		attribute.String("k8s.object.group", id.Group), attribute.String("k8s.object.kind", id.Kind),
		attribute.String("k8s.namespace.name", id.Namespace), attribute.String("k8s.object.name", id.Name)))
	return ctx, Span{span}
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
func Root(ctx context.Context, name string, owner trigger.Owner) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{noop.Span{}}
	}
	ctx, span := (*t).Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attribute.String("vidra.resource", owner.Name)))
	return ctx, Span{span}
}

// Reconciler returns a reconciler whose reconciles have spans.
func Reconciler(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		ctx, span := Root(ctx, "reconcile VidraResource", request.NamespacedName)
		result, err := next.Reconcile(ctx, request)
		span.End(err)
		return result, err
	})
}
