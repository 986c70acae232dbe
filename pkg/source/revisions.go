package source

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// fewSources is the number of sources of a kind that are asked for one by one. For more of them, one list of the kind takes less.
const fewSources = 8

// Latest are the revisions of sources as the API server has them, with the rights of their watches, which may be behind. Each answer is from
// a request that began after Latest was made. It is safe for concurrent use; one request is sent at a time.
type Latest struct {
	watches *Watches

	// mu guards the fields below.
	mu sync.Mutex
	// revisions are the revisions of the sources that were asked for.
	revisions map[Key]string
	// asked counts them by their kinds.
	asked map[string]int
	// listed are the revisions of all objects of a kind; nil for a kind that cannot be listed.
	listed map[string]map[Key]string
}

// Latest returns the present revisions of sources. None is asked for yet.
func (w *Watches) Latest() *Latest {
	return &Latest{watches: w, revisions: map[Key]string{}, asked: map[string]int{}, listed: map[string]map[Key]string{}}
}

// Revision returns the revision of a source, empty if it is absent.
func (l *Latest) Revision(ctx context.Context, key Key) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if revision, known := l.revisions[key]; known {
		return revision, nil
	}
	all, listed := l.listed[key.Kind]
	if !listed && l.watches.Everywhere && l.asked[key.Kind] >= fewSources {
		var err error
		if all, err = l.list(ctx, key.Kind, "", metav1.ListOptions{}); err != nil { // as where Vidra may read some namespaces alone
			all = nil
		}
		l.listed[key.Kind] = all
	}
	if all != nil {
		return all[key], nil
	}
	one, err := l.list(ctx, key.Kind, key.Namespace, metav1.ListOptions{FieldSelector: selectorOf(key)})
	if err != nil {
		return "", err
	}
	l.revisions[key] = one[key]
	l.asked[key.Kind]++
	return one[key], nil
}

// list returns the revisions of the objects of a kind, in a namespace or in all of them.
func (l *Latest) list(ctx context.Context, kind, namespace string, opts metav1.ListOptions) (map[Key]string, error) {
	of := l.watches.Kinds[kind]
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
