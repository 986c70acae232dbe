package watches

import (
	"net/http"

	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// streamed says whether a request is for a streamed list.
func streamed(q faultproxy.Request) bool { return q.Query.Get("sendInitialEvents") == "true" }

// streams reports whether the API server lists with a WATCH by default. Where it does not, it refuses
// such a request, and a LIST follows.
func streams() bool { return testenv.AtLeast(34) }

// lists are the requests for all objects of a watch since a mark, streamed or not.
func (l *lab) lists(since faultproxy.Mark, key watchregistry.Key) []faultproxy.Request {
	var lists []faultproxy.Request
	for _, q := range l.Requests(since, faultproxy.Match{Resource: key.GVR}) {
		if q.Verb == "list" || streamed(q) {
			lists = append(lists, q)
		}
	}
	return lists
}

// informerRuns are how many informers each watch has had.
func (l *lab) informerRuns(keys []watchregistry.Key) map[watchregistry.Key]uint64 {
	runs := map[watchregistry.Key]uint64{}
	for _, key := range keys {
		runs[key] = l.watch(key).InformerRuns
	}
	return runs
}

// tombstone is the last one of an object.
func (l *lab) tombstone(key watchregistry.Key, obj client.Object) cache.DeletedFinalStateUnknown {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tombstones[id(key, obj)]
}

// transport is a function that sends requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
