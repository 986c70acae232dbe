package insight

import (
	"context"
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// EventQuery selects Events of Vidra. The zero value selects all.
type EventQuery struct {
	// VidraResource is the name of one that the Events are about, or whose objects.
	VidraResource string
	// Target is an object that the Events are about. Its namespace is Namespace, which is ignored for kinds without one.
	Target *Target
	// Namespace of an object that the Events are about; empty for all.
	Namespace string
	// Reasons are the reasons of the wanted Events; empty for all.
	Reasons []string
	// Type is Normal or Warning; empty for both.
	Type string
	// Since is the earliest time of the last occurrence.
	Since time.Time
}

// Events are Events of Vidra, the newest last.
type Events struct {
	Items []*eventsv1.Event
	// Remarks name the hidden parts, with the reasons.
	Remarks []string
}

// Events lists Events of Vidra. It fails if there are none and the VidraResource or the object is unknown: then the Events have the
// remarks alone.
func (c *Client) Events(ctx context.Context, q EventQuery) (*Events, error) {
	found := &Events{}
	filter, source, err := c.eventsOf(q, func(text string) { found.Remarks = append(found.Remarks, text) })
	if err != nil {
		return nil, err
	}
	all, err := source.listWithin(ctx, q.Namespace)
	if err != nil {
		return nil, err
	}
	found.Items = slices.DeleteFunc(all, func(e *eventsv1.Event) bool { return !filter.matches(e) })
	sortEvents(found.Items)
	if len(found.Items) == 0 {
		return found, c.requireKnown(ctx, filter)
	}
	return found, nil
}

// FollowEvents calls show with the Events that there are and then with those that are new or recurred, until ctx ends or show
// fails. It calls show and remark from one goroutine at a time. A watch that fails is retried, and remark has that.
func (c *Client) FollowEvents(ctx context.Context, q EventQuery, show func([]*eventsv1.Event) error, remark func(text string)) error {
	filter, source, err := c.eventsOf(q, remark)
	if err != nil {
		return err
	}
	all, err := source.listWithin(ctx, q.Namespace)
	if err != nil {
		return err
	}
	return followEvents(ctx, source, filter, all, show)
}

// eventsOf returns the filter of a query, and where its Events come from.
func (c *Client) eventsOf(q EventQuery, remark func(text string)) (eventFilter, *eventSource, error) {
	filter := eventFilter{namespace: q.Namespace, reasons: q.Reasons, eventType: q.Type, since: q.Since}
	if q.VidraResource != "" {
		filter.about = append(filter.about, vidraResource(q.VidraResource))
	}
	if q.Target != nil {
		about, served, err := kindFrom(c.mapper, q.Target.Kind)
		if err != nil {
			return filter, nil, err
		}
		about.name, about.namespace, filter.namespace = q.Target.Name, q.Namespace, ""
		if !served {
			remark(fmt.Sprintf("the cluster serves no kind %q: searching Events for that name", q.Target.Kind))
		} else if mapping, err := c.mapper.RESTMapping(schema.GroupKind{Group: *about.group, Kind: about.kind}); err != nil {
			return filter, nil, fmt.Errorf("find the kind %q: %w", q.Target.Kind, err)
		} else if !isNamespaced(mapping) {
			about.namespace = ""
		}
		filter.about = append(filter.about, about)
	}
	return filter, &eventSource{client: c.events, selector: filter.selector(), remark: remark}, nil
}

// requireKnown requires that the VidraResource and the object exist that no Event is about, as far as the user may read them.
func (c *Client) requireKnown(ctx context.Context, filter eventFilter) error {
	if len(filter.about) == 0 {
		return nil
	}
	all, err := c.VidraResources(ctx, "")
	if err != nil { // Events of a namespace may be read by users who may read no VidraResource
		return nil //nolint:nilerr // it is not known
	}
	for _, about := range filter.about {
		if about.group == nil {
			return c.noKind(about.kind)
		}
		id := object.Identity{GroupKind: schema.GroupKind{Group: *about.group, Kind: about.kind}, Namespace: about.namespace, Name: about.name}
		managed := func(m managedObject) bool {
			return m.id.Name == id.Name && (about.namespace == "" || m.id.Namespace == about.namespace)
		}
		switch {
		case id.GroupKind == v1alpha1.GroupVersion.WithKind(v1alpha1.Kind).GroupKind():
			if !slices.ContainsFunc(all, func(vr *v1alpha1.VidraResource) bool { return vr.Name == about.name }) {
				return c.program.noVidraResource(about.name, all)
			}
		case !slices.ContainsFunc(managedOfKind(all, id.GroupKind), managed):
			return fmt.Errorf("no Events found, and no VidraResource manages %s (%s searched)%s", id, display.Plural(len(all), "VidraResource"), meant(id, all))
		}
	}
	return nil
}
