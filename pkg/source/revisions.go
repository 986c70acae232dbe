package source

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/pager"
)

// fewSources is the number of sources of a kind that are asked for one by one. For more of them, one list of the kind takes less.
const fewSources = 8

// listTimeout is how long the list of a kind may take.
const listTimeout = 30 * time.Second

// Latest are the revisions of sources as the API server has them, with the rights of their watches, which may be behind. Each answer is from
// a request that began after Latest was made. It is safe for concurrent use, apart from Expect; one request is sent at a time.
type Latest struct {
	watches *Watches
	// expected are the sources that were announced, by their kinds.
	expected map[string]sets.Set[Key]

	// mu guards the fields below.
	mu sync.Mutex
	// revisions are the revisions of the sources that were asked for.
	revisions map[Key]string
	// listed are the revisions of all objects of a kind that was listed.
	listed map[string]map[Key]string
}

// Latest returns the present revisions of sources. None is asked for yet.
func (w *Watches) Latest() *Latest {
	return &Latest{watches: w, expected: map[string]sets.Set[Key]{}, revisions: map[Key]string{}, listed: map[string]map[Key]string{}}
}

// Expect announces sources that may be asked for. It lists a kind once there are many of it, so that the time of the list is no part of the time for
// a source.
func (l *Latest) Expect(ctx context.Context, keys ...Key) {
	for _, key := range keys {
		of := l.expected[key.Kind]
		if of == nil {
			of = sets.Set[Key]{}
			l.expected[key.Kind] = of
		}
		if of.Has(key) || of.Insert(key).Len() != fewSources || !l.watches.Everywhere {
			continue
		}
		within, cancel := context.WithTimeout(ctx, listTimeout)
		all, err := l.watches.list(within, key.Kind, "", metav1.ListOptions{})
		cancel()
		if err != nil { // as where Vidra may read some namespaces alone
			continue
		}
		l.mu.Lock()
		l.listed[key.Kind] = all
		l.mu.Unlock()
	}
}

// Revision returns the revision of a source, empty if it is absent.
func (l *Latest) Revision(ctx context.Context, key Key) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.listed[key.Kind]; all != nil {
		return all[key], nil
	}
	if revision, known := l.revisions[key]; known {
		return revision, nil
	}
	one, err := l.watches.list(ctx, key.Kind, key.Namespace, metav1.ListOptions{FieldSelector: selectorOf(key)})
	if err != nil {
		return "", err
	}
	l.revisions[key] = one[key]
	return one[key], nil
}

// list returns the revisions of the objects of a kind, in a namespace or in all of them.
func (w *Watches) list(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (map[Key]string, error) {
	of := w.Kinds[kind]
	all := map[Key]string{}
	err := pager.New(of.Requests(namespace).List).EachListItem(ctx, opts, func(obj runtime.Object) error {
		is, err := meta.Accessor(obj)
		if err == nil {
			all[Key{Kind: kind, Namespace: is.GetNamespace(), Name: is.GetName()}] = of.Revision(obj)
		}
		return err
	})
	return all, err
}
