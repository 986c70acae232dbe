package export

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// maxRequests is how many dry runs are sent for one object.
const maxRequests = 150

// reducer finds the defaults in an object: fields that the API server sets again when an update lacks them.
type reducer struct {
	at   dynamic.ResourceInterface
	live *unstructured.Unstructured
	// left is the number of requests that may be sent, and removed are the fields that were found.
	left    int
	removed [][]string
	// err ends the search: the user may not update the object.
	err error
}

// defaults returns the paths of the defaults of live among the paths of a document, as names and indexes.
func defaults(ctx context.Context, at dynamic.ResourceInterface, live, document *unstructured.Unstructured) ([][]string, error) {
	r := &reducer{at: at, live: live, left: maxRequests}
	r.find(ctx, candidates(document))
	return r.removed, r.err
}

// find removes the paths that are defaults, in halves.
func (r *reducer) find(ctx context.Context, paths [][]string) {
	switch {
	case len(paths) == 0 || r.left == 0 || r.err != nil:
	case r.same(ctx, paths):
		r.removed = append(r.removed, paths...)
	case len(paths) > 1:
		r.find(ctx, paths[:len(paths)/2])
		r.find(ctx, paths[len(paths)/2:])
	}
}

// same reports whether an update without the removed fields and further ones leaves the object as it is.
func (r *reducer) same(ctx context.Context, paths [][]string) bool {
	const attempts = 3 // a controller may write its status meanwhile
	for range attempts {
		if r.left == 0 {
			return false
		}
		r.left--
		body := r.live.DeepCopy()
		remove(body.Object, append(slices.Clone(r.removed), paths...))
		updated, err := r.at.Update(ctx, body, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: insight.FieldManager})
		switch {
		case err == nil:
			return sameContent(r.live, updated)
		case apierrors.IsForbidden(err), ctx.Err() != nil:
			r.err = err
			return false
		case !apierrors.IsConflict(err):
			return false
		}
		now, err := r.at.Get(ctx, r.live.GetName(), metav1.GetOptions{})
		if err != nil || !sameContent(r.live, now) {
			return false
		}
		r.live = now
	}
	return false
}

// sameContent reports whether two versions of an object have the same content, without the status and the fields of the API server.
func sameContent(a, b *unstructured.Unstructured) bool {
	content := func(u *unstructured.Unstructured) map[string]any {
		all := maps.Clone(u.Object)
		delete(all, "status")
		all["metadata"] = map[string]any{"labels": u.GetLabels(), "annotations": u.GetAnnotations(), "uid": u.GetUID()}
		return all
	}
	return equality.Semantic.DeepEqual(content(a), content(b))
}

// kept are fields whose removal the API server may repair only for an object that exists, or that carry a meaning.
var kept = []string{"clusterIP", "nodePort", "ipFamilies", "ipFamilyPolicy", "emptyDir", "podSelector"}

// candidates are the paths of a document that may be defaults: single values in maps, and empty maps and lists.
func candidates(document *unstructured.Unstructured) (paths [][]string) {
	var walk func(value any, at []string)
	walk = func(value any, at []string) {
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				path := append(slices.Clone(at), name)
				if slices.Contains(kept, name) || skips(document, path) {
					continue
				}
				switch child := v[name].(type) {
				case map[string]any:
					if len(child) > 0 {
						walk(child, path)
						continue
					}
				case []any:
					if len(child) > 0 {
						if _, isMap := child[0].(map[string]any); !isMap {
							paths = append(paths, path) // as a whole, such as ipFamilies
						}
						walk(child, path)
						continue
					}
				}
				paths = append(paths, path)
			}
		case []any:
			for i, item := range v {
				if _, isMap := item.(map[string]any); isMap {
					walk(item, append(slices.Clone(at), strconv.Itoa(i)))
				}
			}
		}
	}
	walk(document.Object, nil)
	return paths
}

// skips reports whether a field lacks defaults, or is too large to look for them.
func skips(document *unstructured.Unstructured, path []string) bool {
	last := path[len(path)-1]
	switch document.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		if last == "openAPIV3Schema" {
			return true
		}
	case schema.GroupKind{Kind: "ConfigMap"}, schema.GroupKind{Kind: "Secret"}:
		return len(path) == 1 && last != "immutable" && last != "type"
	}
	return len(path) == 1 && (last == "apiVersion" || last == "kind" || last == "metadata")
}

// remove removes fields, and the maps that become empty by that.
func remove(object map[string]any, paths [][]string) {
	for _, path := range paths {
		removeOne(object, path)
	}
}

// removeOne removes a field below a value. It reports whether a map became empty.
func removeOne(value any, path []string) (empty bool) {
	switch v := value.(type) {
	case map[string]any:
		child, found := v[path[0]]
		switch {
		case !found:
			return false
		case len(path) == 1 || removeOne(child, path[1:]):
			delete(v, path[0])
		}
		return len(v) == 0
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(v) && len(path) > 1 {
			removeOne(v[i], path[1:])
		}
	}
	return false
}
