package insight

import (
	"context"
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// eventSource is where Events come from.
type eventSource struct {
	client typedeventsv1.EventsV1Interface
	// namespace that is read; empty for all.
	namespace string
	// selector is a field selector. about is a part that only Events about a VidraResource match; nil for all Events.
	selector, about fields.Selector
	// remark receives the messages to the user meanwhile.
	remark func(text string)

	// watched reports that a watch was granted, and broken that none runs.
	watched, broken bool
}

// list reads all Events that also match a further selector, page by page.
func (s *eventSource) list(ctx context.Context, also fields.Selector) ([]*eventsv1.Event, error) {
	selector := s.selector
	if also != nil {
		selector = fields.AndSelectors(selector, also)
	}
	list, _, err := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		o.FieldSelector = selector.String()
		return s.client.Events(s.namespace).List(ctx, o)
	})).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	var all []*eventsv1.Event
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		e, err := asEvent(obj)
		all = append(all, e)
		return err
	})
	return all, err
}

// listWithin returns all Events. If the user may not list them but named a namespace, it returns
// those in the namespace: they include Events about its objects, and none about VidraResources.
func (s *eventSource) listWithin(ctx context.Context, namespace string) ([]*eventsv1.Event, error) {
	all, err := s.list(ctx, s.about)
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	if namespace == "" {
		return nil, fmt.Errorf("%w; name a namespace that you may read with -n", err)
	}
	s.namespace = namespace
	if all, err = s.list(ctx, nil); err == nil {
		s.remark("you may not list the Events of all namespaces: those about VidraResources are left out")
	}
	return all, err
}

// listWatch reads and watches Events for a reflector. It reports when a watch fails and when it works
// again. If the user may not watch and no watch has worked yet, it calls stop, because the reflector
// would retry for ever.
func (s *eventSource) listWatch(stop context.CancelCauseFunc) *cache.ListWatch {
	events := s.client.Events(s.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = s.selector.String()
			list, err := events.List(ctx, o)
			s.judge(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = s.selector.String()
			w, err := events.Watch(ctx, o)
			switch {
			// An API server without streamed lists returns this error. The reflector
			// sends a LIST then.
			case apierrors.IsInvalid(err) && o.SendInitialEvents != nil:
			case apierrors.IsForbidden(err) && !s.watched:
				stop(fmt.Errorf("watch Events: %w", err))
			default:
				s.judge(ctx, err)
				s.watched = s.watched || err == nil
			}
			return w, err
		},
	}
}

// judge reports when requests begin to fail, and when they work again.
func (s *eventSource) judge(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !s.broken && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
		s.broken = true
		s.remark("the watch failed and is retried: " + err.Error())
	case err == nil && s.broken:
		s.broken = false
		s.remark("the watch works again")
	}
}

// kindFrom returns the kind for a resource, a short name or a kind, with or without its group, as
// kubectl does. A name that is unserved, as after its CustomResourceDefinition was deleted, counts
// as a kind.
func kindFrom(mapper meta.RESTMapper, text string) (name objectName, served bool, err error) {
	versioned, unversioned := schema.ParseResourceArg(strings.ToLower(text))
	resources := []schema.GroupVersionResource{unversioned.WithVersion("")}
	if versioned != nil {
		resources = append([]schema.GroupVersionResource{*versioned}, resources...)
	}
	for _, resource := range resources {
		found, err := mapper.KindFor(resource)
		if err == nil {
			return objectName{kind: found.Kind, group: &found.Group}, true, nil
		}
		if !meta.IsNoMatchError(err) {
			return objectName{}, false, fmt.Errorf("find the kind %q: %w", text, err)
		}
	}
	name = objectName{kind: unversioned.Resource}
	if unversioned.Group != "" {
		name.group = &unversioned.Group
	}
	return name, false, nil
}
