package watchregistry

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Watch describes a watch of a Registry.
type Watch struct {
	Key Key `json:"-"`
	// Status is embedded, because the JSON of a watch has its fields.
	Status
	// Owners are the owners that need it.
	Owners []Owner `json:"-"`
	// Objects is the number of objects in the store, Bytes an estimate of the memory of
	// those that are Sized.
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// InformerRuns counts the starts of its informer.
	InformerRuns uint64 `json:"incarnation"`
	// SyncTook is the duration of the last start until the handler had handled every
	// object; zero before that.
	SyncTook time.Duration `json:"-"`
	// LastEvent is when the API server last sent an event or a bookmark; zero before the
	// first.
	LastEvent time.Time `json:"lastEvent,omitzero"`
	// Events counts the events that the API server sent, by type.
	Events map[apiwatch.EventType]uint64 `json:"events"`
	// Restarts counts the causes of a repeated LIST or WATCH: a Reason, Closed (the API server ended the stream, as it does
	// every few minutes) or Expired (the resourceVersion was too old).
	Restarts map[string]uint64 `json:"restarts"`
}

// Watches returns a description of every watch, sorted by key.
func (r *Registry) Watches() []Watch {
	r.mu.Lock()
	all := make([]Watch, 0, len(r.watches))
	for key, w := range r.watches {
		all = append(all, Watch{
			Key: key, Status: w.statusLocked(), InformerRuns: w.starts,
			Owners: r.needed.Owners(key),
		})
		w.stats.fill(&all[len(all)-1])
	}
	r.mu.Unlock()
	for i := range all {
		slices.SortFunc(all[i].Owners, func(a, b Owner) int { return cmp.Compare(a.String(), b.String()) })
	}
	slices.SortFunc(all, func(a, b Watch) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return all
}

// fill copies the statistics into a description.
func (s *stats) fill(w *Watch) {
	w.Objects, w.Bytes = s.objects.Load(), s.bytes.Load()
	w.SyncTook = time.Duration(s.syncTook.Load())
	if last := s.lastEvent.Load(); last != 0 {
		w.LastEvent = time.Unix(0, last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Events, w.Restarts = maps.Clone(s.events), maps.Clone(s.restarts)
}

// ServeHTTP answers a GET with a JSON list of the watches: resource, owners, state, since
// when, reason, message and statistics. It names no objects. The caller decides who may
// read it.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is supported: the watches are read-only", http.StatusMethodNotAllowed)
		return
	}
	type row struct {
		Watch  string   `json:"watch"`
		Owners []string `json:"owners"`
		description
	}
	rows := []row{}
	for _, watch := range r.Watches() {
		next := row{Watch: watch.Key.String(), Owners: []string{}, description: description(watch)}
		for _, owner := range watch.Owners {
			next.Owners = append(next.Owners, cache.NamespacedNameAsObjectName(owner).String())
		}
		rows = append(rows, next)
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// An error here is one of the connection, so no answer can report it.
	_ = encoder.Encode(rows)
}

// description is a Watch without the fields that ServeHTTP shows in another form.
type description Watch
