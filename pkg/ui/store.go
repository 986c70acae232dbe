package ui

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// vidraResourceFeed is the watch of all VidraResources.
var vidraResourceFeed = feedSpec{gvr: v1alpha1.Resource}

// entry is the part of a VidraResource that the overview needs.
type entry struct {
	// vr has neither the manifest nor the history, and of its problems the first ones.
	vr    *v1alpha1.VidraResource
	state state
	// why are the problems of a report, with their reasons.
	why   []string
	heals []healing
	// recent are the newest edits and changes of state, the newest first.
	recent []moment
	// problems is how many there are.
	problems int
}

// store has the VidraResources of the cluster as their watch reports them. It is a feedHandler, and the insight.VidraResources of the
// questions: those without the manifest are read again where an answer needs it.
type store struct {
	server *Server
	// requested reads VidraResources whole.
	requested insight.VidraResources

	// mu guards the fields below.
	mu  sync.RWMutex
	all map[string]*entry
	// ordered are all, those with problems first; nil after a change.
	ordered []*entry
	// read is closed once all are known, or refusal is.
	read    chan struct{}
	refusal error
	isRead  bool
}

func newStore(s *Server) *store {
	return &store{server: s, requested: insight.Requested(s.client), all: map[string]*entry{}, read: make(chan struct{})}
}

// shownProblems is how many problems of a VidraResource the overview has.
const shownProblems = 1

// convert implements feedHandler.
func (s *store) convert(u *unstructured.Unstructured) any {
	vr, err := insight.AsVidraResource(u)
	if err != nil { // the API server validates them
		return &entry{vr: &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: u.GetName()}}}
	}
	report := s.server.options.Program.ReportOf(vr)
	now := stateOf(vr, report.InOrder)
	e := &entry{
		vr: vr, state: now, why: report.Why, heals: healingsOf(vr.Status.History), recent: recentOf(vr, now),
		problems: len(vr.Status.Problems) + int(vr.Status.UnlistedProblems),
	}
	vr.ManagedFields, vr.Annotations, vr.Spec.Manifest, vr.Status.History = nil, nil, "", nil
	vr.Status.Problems = slices.Clone(vr.Status.Problems[:min(len(vr.Status.Problems), shownProblems)])
	for i := range vr.Status.ManagedResources {
		m := &vr.Status.ManagedResources[i]
		m.Digest, m.Configuration, m.Others, m.UID, m.Recreated, m.Message = "", "", "", "", nil, ""
	}
	return e
}

// GetObjectMeta has an entry be kept by the name of its VidraResource.
func (e *entry) GetObjectMeta() metav1.Object { return e.vr }

// set implements feedHandler.
func (s *store) set(obj any, _ bool) {
	if e, ok := obj.(*entry); ok {
		s.mu.Lock()
		s.all[e.vr.Name], s.ordered = e, nil
		s.mu.Unlock()
		s.changed(e.vr.Name)
	}
}

// remove implements feedHandler.
func (s *store) remove(obj any, _ bool) {
	if e, ok := obj.(*entry); ok {
		s.mu.Lock()
		delete(s.all, e.vr.Name)
		s.ordered = nil
		s.mu.Unlock()
		s.changed(e.vr.Name)
	}
}

// replace implements feedHandler.
func (s *store) replace(_ feedSpec, all []any) {
	s.mu.Lock()
	before := s.all
	s.all, s.ordered, s.refusal = make(map[string]*entry, len(all)), nil, nil
	for _, obj := range all {
		if e, ok := obj.(*entry); ok {
			s.all[e.vr.Name] = e
			before[e.vr.Name] = e
		}
	}
	s.finishLocked()
	s.mu.Unlock()
	for name := range before {
		s.changed(name)
	}
	s.server.hub.publish(topicOverview)
}

// refused implements feedHandler.
func (s *store) refused(_ feedSpec, err error) {
	s.mu.Lock()
	s.refusal = err
	s.finishLocked()
	s.mu.Unlock()
	s.server.hub.publish(topicOverview)
}

func (s *store) finishLocked() {
	if !s.isRead {
		s.isRead = true
		close(s.read)
	}
}

// ended implements feedHandler: the known state becomes outdated.
func (s *store) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked()
	s.all, s.ordered, s.refusal, s.isRead, s.read = map[string]*entry{}, nil, nil, false, make(chan struct{})
}

// changed notifies the pages that show a VidraResource.
func (s *store) changed(name string) {
	s.server.hub.publish(topicOverview)
	s.server.hub.publish(vidraResourceTopic(name))
	s.server.observers.inventoryChanged(name)
}

// patience is how long a page waits for the list of VidraResources before it is served without.
const patience = 3 * time.Second

// await waits until all VidraResources are known, at most for the patience of a page. It reports whether they are, and the refusal.
func (s *store) await(ctx context.Context) (known bool, refusal error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.awaitAll(ctx)
}

// awaitAll waits until all VidraResources are known, or ctx ends.
func (s *store) awaitAll(ctx context.Context) (known bool, refusal error) {
	s.mu.RLock()
	read := s.read
	s.mu.RUnlock()
	select {
	case <-read:
	case <-ctx.Done():
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.isRead && s.refusal == nil, s.refusal
}

// entry returns the entry of a VidraResource, or nil.
func (s *store) entry(name string) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// sorted returns all entries, those with problems first. The caller changes none of them.
func (s *store) sorted() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ordered == nil {
		s.ordered = slices.SortedFunc(maps.Values(s.all), compareEntries)
	}
	return s.ordered
}

// Get implements insight.VidraResources.
func (s *store) Get(ctx context.Context, name string) (*v1alpha1.VidraResource, error) {
	return s.requested.Get(ctx, name)
}

// askedKey is the key of the object of a question in its context.
type askedKey struct{}

// List implements insight.VidraResources. Those with the object of the question are whole. While some are unknown, all are requested.
func (s *store) List(ctx context.Context, selector string) ([]*v1alpha1.VidraResource, error) {
	defer s.server.feeds.use(vidraResourceFeed, s)()
	if known, _ := s.await(ctx); !known {
		return s.requested.List(ctx, selector)
	}
	selects, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	asked, _ := ctx.Value(askedKey{}).(object.Identity)
	entries := s.sorted()
	all := make([]*v1alpha1.VidraResource, 0, len(entries))
	for _, e := range entries {
		vr := e.vr
		if !selects.Matches(labels.Set(vr.Labels)) {
			continue
		}
		if asked.Name != "" && owners.EntryOf(vr, asked) != nil {
			if whole, err := s.Get(ctx, vr.Name); err == nil {
				vr = whole
			}
		}
		all = append(all, vr)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
