package reconcile

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unreadable reports whether an apply failed because of the object that exists: a list of it
// has an item without its key, for example, which some kinds allow in an update, and
// server-side apply cannot merge (k8s.io/apimachinery/pkg/util/managedfields/internal,
// structuredMergeManager.Apply). The API server has no reason of its own for it.
func unreadable(err error) bool {
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsInternalError(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "failed to create typed live object") || strings.Contains(text, "failed to create manager for existing fields")
}

// replaceLists makes an object readable for server-side apply again: a JSON merge patch with
// the applied configuration replaces each list of it as a whole.
func (a *applier) replaceLists(ctx context.Context, t task) error {
	_, err := a.resource(t.key).Patch(ctx, t.key.Name, types.MergePatchType, t.body, metav1.PatchOptions{FieldManager: a.manager})
	return err
}
