package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // integers stay integers
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// without is an applied configuration without what is left to others in the
// object as it is. whole is what a dry run of it makes of the object: what is owned
// as a whole there is left as a whole. What marks the object as the owner's is not left.
func (ign *ignored) without(body []byte, live, whole *unstructured.Unstructured, by signature) (full, lean map[string]any, err error) {
	if err := json.Unmarshal(body, &full); err != nil {
		return nil, nil, fmt.Errorf("read the applied configuration again: %w", err)
	}
	lean, manager := runtime.DeepCopyJSON(full), by.manager
	var paths [][]string
	for _, path := range ign.paths {
		paths = append(paths, ownership.Whole(whole, manager, full, path))
	}
	for _, m := range ign.managed {
		for _, path := range ownership.SetBy(live, m.managers, full) {
			if len(m.paths) == 0 || slices.ContainsFunc(m.paths, func(above []string) bool {
				return isBelow(path, ownership.Whole(whole, manager, full, above))
			}) {
				paths = append(paths, path)
			}
		}
	}
	// What is removed from a list moves what follows.
	slices.SortFunc(paths, func(a, b []string) int { return slices.CompareFunc(b, a, compareTokens) })
	for _, path := range slices.CompactFunc(paths, slices.Equal) {
		withoutPath(lean, path)
	}
	by.mark(&unstructured.Unstructured{Object: lean})
	return full, lean, nil
}

// isBelow reports whether a path is another one, or below it.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// compareTokens orders the indexes of a list as numbers.
func compareTokens(a, b string) int {
	i, errI := strconv.Atoi(a)
	j, errJ := strconv.Atoi(b)
	if errI == nil && errJ == nil {
		return cmp.Compare(i, j)
	}
	return cmp.Compare(a, b)
}

// releaseFields gives up, in the object as it is, what is left to others and still ours. It
// returns the object, and the configuration without it.
func (a *applier) releaseFields(ctx context.Context, t task, live *unstructured.Unstructured) (*unstructured.Unstructured, []byte, error) {
	whole, err := a.patchDry(ctx, t.key, t.body)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	live, err = a.editManagedFields(ctx, t.key, live, func(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
		full, lean, err := t.ignored.without(t.body, live, whole, a.signature())
		if err != nil {
			return nil, false, err
		}
		if body, err = json.Marshal(lean); err != nil {
			return nil, false, err
		}
		managedFields, changed = ownership.ReleaseFields(live, a.manager, full, lean)
		return managedFields, changed, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("leave fields to others: %w", err)
	}
	return live, body, nil
}

// editManagedFields writes what change makes of the managedFields of an object, if that
// is another than they are, and returns the object. Should another client write meanwhile, it
// begins again with what they wrote.
func (a *applier) editManagedFields(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured,
	change func(live *unstructured.Unstructured) (managedFields any, changed bool, err error),
) (*unstructured.Unstructured, error) {
	err := retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		managedFields, changed, err := change(live)
		if err != nil || !changed {
			return err
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": managedFields},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		})
		if err != nil {
			return err
		}
		written, err := a.resource(key).Patch(ctx, key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
		if apierrors.IsConflict(err) {
			if fresh, getErr := a.get(ctx, key); getErr == nil && fresh != nil {
				live = fresh
			}
		}
		if err == nil {
			live = written
		}
		return err
	})
	return live, err
}
