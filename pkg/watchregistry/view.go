package watchregistry

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// Watch describes one watch of a Registry.
type Watch struct {
	Key `json:"-"`
	Status
	// Owners that need it.
	Owners []Owner `json:"-"`
	// Objects is how many objects it keeps, and Bytes an estimate of the memory
	// that they take, as far as they are Sized.
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Incarnation counts the starts of its informer.
	Incarnation uint64 `json:"incarnation"`
	// SyncTook is how long the last start took until the handler had seen every
	// object. Zero if it has not yet.
	SyncTook time.Duration `json:"-"`
	// LastEvent is when the API server last sent something, bookmarks included.
	// Zero if it has not yet.
	LastEvent time.Time `json:"lastEvent,omitzero"`
	// Events counts what the API server sent, by type.
	Events map[apiwatch.EventType]uint64 `json:"events"`
	// Restarts counts why a LIST or WATCH had to be sent again: a Reason, Closed
	// (the API server ended the stream, as it does every few minutes) or Expired
	// (what was to be watched from is too old).
	Restarts map[string]uint64 `json:"restarts"`
}

// Watches describes every watch, in the order of their keys.
func (r *Registry) Watches() []Watch {
	r.mu.Lock()
	all := make([]Watch, 0, len(r.watches))
	for key, w := range r.watches {
		all = append(all, Watch{
			Key: key, Status: w.statusLocked(), Incarnation: w.starts,
			Owners: slices.Collect(maps.Keys(w.owners)),
		})
		w.stats.fill(&all[len(all)-1])
	}
	r.mu.Unlock()
	for i := range all {
		slices.SortFunc(all[i].Owners, func(a, b Owner) int { return cmp.Compare(a.String(), b.String()) })
	}
	slices.SortFunc(all, func(a, b Watch) int { return cmp.Compare(a.String(), b.String()) })
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

// ServeHTTP answers a GET with every watch as a JSON list: which resources are
// watched, for whom, since when, in which state, and why not. It names no
// object. Who may see it is for the caller to decide.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is answered: the watches cannot be changed here", http.StatusMethodNotAllowed)
		return
	}
	type row struct {
		Watch  string   `json:"watch"`
		Owners []string `json:"owners"`
		description
	}
	rows := []row{}
	for _, watch := range r.Watches() {
		next := row{Watch: watch.String(), Owners: []string{}, description: description(watch)}
		for _, owner := range watch.Owners {
			next.Owners = append(next.Owners, strings.TrimPrefix(owner.String(), "/")) // no namespace
		}
		rows = append(rows, next)
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// What fails here is the connection to whom the error could be told.
	_ = encoder.Encode(rows)
}

// description is a Watch as it is shown, without what is shown in another form.
type description Watch
