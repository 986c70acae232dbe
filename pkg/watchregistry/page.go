package watchregistry

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Page sends one LIST for the objects of a watch, at most limit of them, with the client and the
// selector of the watch, and returns the answer. token is the continue token of the page before;
// empty for the first page. It sends the request once, and waits for the server. A watch in another
// state than Synced is an error.
func (r *Registry) Page(ctx context.Context, key Key, limit int64, token string) (*unstructured.UnstructuredList, error) {
	r.mu.Lock()
	w := r.watches[key]
	if w == nil || w.shown.phase.state != Synced {
		r.mu.Unlock()
		return nil, fmt.Errorf("the watch of %s is not synced", key)
	}
	resource := w.cluster.client.Dynamic().Resource(key.GVR)
	r.mu.Unlock()
	// Without a resourceVersion, the answer is as new as etcd.
	return resource.Namespace(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.opts.LabelSelector, Limit: limit, Continue: token})
}
