package insight

import (
	"context"
	"fmt"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// eventState is the new part of an Event that is printed once more.
type eventState struct {
	count int32
	last  time.Time
}

// eventFollower is the store that a reflector keeps up to date: instead of keeping Events it prints their news. After a watch
// ended, the reflector continues or lists again: no Event is printed twice, and no news in the list is missed. The reflector
// calls it from one goroutine.
type eventFollower struct {
	filter eventFilter
	print  func([]*eventsv1.Event) error
	// stop ends the following when Events cannot be printed.
	stop context.CancelCauseFunc
	// seen is the state of each Event when it was printed last.
	seen map[types.UID]eventState
}

// followEvents prints news, from now on, until ctx ends. It returns the error of the printing, or of the watch for good.
func followEvents(ctx context.Context, source *eventSource, filter eventFilter, listed []*eventsv1.Event,
	show func([]*eventsv1.Event) error,
) error {
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &eventFollower{filter: filter, print: show, stop: stop, seen: map[types.UID]eventState{}}
	f.show(listed)
	// The wait between two attempts grows from half a second to eight.
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 8 * time.Second}
	cache.NewReflectorWithOptions(source.listWatch(stop), &eventsv1.Event{}, f, cache.ReflectorOptions{
		Name: "vidra events", Backoff: backoff,
	}).RunWithContext(following)
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(following)
}

// show prints the wanted news of some Events.
func (f *eventFollower) show(all []*eventsv1.Event) {
	var news []*eventsv1.Event
	for _, e := range all {
		is := eventState{TimesSeen(e), LastSeen(e)}
		was, known := f.seen[e.UID]
		if !f.filter.matches(e) || known && is.count <= was.count && !is.last.After(was.last) {
			continue
		}
		f.seen[e.UID] = is
		news = append(news, e)
	}
	sortEvents(news)
	if err := f.print(news); err != nil {
		f.stop(err)
	}
}

// Add implements cache.ReflectorStore.
func (f *eventFollower) Add(obj any) error {
	e, err := asEvent(obj)
	if err == nil {
		f.show([]*eventsv1.Event{e})
	}
	return err
}

// Update implements cache.ReflectorStore.
func (f *eventFollower) Update(obj any) error { return f.Add(obj) }

// Delete implements cache.ReflectorStore.
func (f *eventFollower) Delete(obj any) error {
	e, err := asEvent(obj)
	if err == nil {
		delete(f.seen, e.UID)
	}
	return err
}

// Replace implements cache.ReflectorStore: it gets all Events of the moment, or of a moment ago. An Event that is missing may
// be newer than the list, so it is kept.
func (f *eventFollower) Replace(objs []any, _ string) error {
	all := make([]*eventsv1.Event, 0, len(objs))
	for _, obj := range objs {
		e, err := asEvent(obj)
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	f.show(all)
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *eventFollower) Resync() error { return nil }

func asEvent(obj any) (*eventsv1.Event, error) {
	e, ok := obj.(*eventsv1.Event)
	if !ok {
		return nil, fmt.Errorf("the API server sent a %T instead of an Event", obj)
	}
	return e, nil
}
