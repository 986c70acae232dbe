package ui

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// The topics about which pages are notified. Others belong to a VidraResource or an object, see vidraResourceTopic and
// objectTopic.
const (
	topicOverview = "overview"
	topicCluster  = "cluster"
)

// vidraResourceTopic is the topic of a VidraResource.
func vidraResourceTopic(name string) string { return vidraResourcePrefix + name }

const (
	vidraResourcePrefix = "vr/"
	objectPrefix        = "object/"
)

// hub notifies pages. A page has a set of the topics that changed, so that a slow one takes no memory.
type hub struct {
	// mu guards the fields below.
	mu    sync.Mutex
	pages map[*subscription]struct{}
	// unanswered are the feeds whose last request had no answer, and awaySince is the time of the first; zero while there is none.
	unanswered map[feedSpec]bool
	awaySince  time.Time
}

// subscription is the set of topics that an open connection of pages waits for.
type subscription struct {
	topics map[string]bool
	// changed are the topics that changed since the last take; guarded by the mu of the hub.
	changed map[string]bool
	// ready has a value when there is one.
	ready parallel.Signal
}

func newHub() *hub { return &hub{pages: map[*subscription]struct{}{}, unanswered: map[feedSpec]bool{}} }

// subscribe subscribes to topics until end is called.
func (h *hub) subscribe(topics []string) (s *subscription, end func()) {
	s = &subscription{topics: map[string]bool{topicCluster: true}, changed: map[string]bool{topicCluster: true}, ready: parallel.NewSignal()}
	for _, topic := range topics {
		s.topics[topic] = true
	}
	s.ready.Send()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages[s] = struct{}{}
	return s, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.pages, s)
	}
}

// publish notifies the pages that have a topic.
func (h *hub) publish(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publishLocked(topic)
}

func (h *hub) publishLocked(topic string) {
	for s := range h.pages {
		if s.topics[topic] {
			s.changed[topic] = true
			s.ready.Send()
		}
	}
}

// take returns the topics that changed since the last call.
func (h *hub) take(s *subscription) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := slices.Sorted(maps.Keys(s.changed))
	clear(s.changed)
	return topics
}

// answered notes whether the API server answers a feed, or that the feed has ended. It notifies all pages of the first feed without
// an answer, and when all have one again: pages are up to date from then on.
func (h *hub) answered(spec feedSpec, answers bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answers {
		delete(h.unanswered, spec)
	} else {
		h.unanswered[spec] = true
	}
	if (len(h.unanswered) == 0) == h.awaySince.IsZero() {
		return
	}
	h.awaySince = time.Time{}
	if !answers {
		h.awaySince = time.Now()
	}
	h.publishLocked(topicCluster)
}

// away is the time since when the API server does not answer; zero while it does.
func (h *hub) away() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.awaySince
}
