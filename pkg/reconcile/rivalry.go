package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// shared says whether another VidraResource owns fields of an object.
func (a *applier) shared(live *unstructured.Unstructured) bool {
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		if manager != a.manager {
			return true
		}
	}
	return false
}

// rivalry is a field for which another VidraResource wants another value.
type rivalry struct{ other, field string }

// Error implements error.
func (r *rivalry) Error() string {
	return fmt.Sprintf("VidraResource %s wants another value of %s: let only one of them set it", r.other, r.field)
}

// rivals returns a rivalry if a conflict is with another VidraResource.
func rivals(conflict error) error {
	var status apierrors.APIStatus
	if !errors.As(conflict, &status) || status.Status().Details == nil {
		return conflict
	}
	causes := status.Status().Details.Causes
	if len(causes) == 0 {
		return conflict // not a conflict of field managers
	}
	for _, cause := range causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			return conflict
		}
		// The message reads: conflict with "manager" using apps/v1.
		_, rest, _ := strings.Cut(cause.Message, `"`)
		manager, _, _ := strings.Cut(rest, `"`)
		if name, ours := strings.CutPrefix(manager, v1alpha1.FieldManagerPrefix); ours {
			return &rivalry{other: name, field: strings.TrimPrefix(cause.Field, ".")}
		}
	}
	return nil
}

// stake notes on an object that another VidraResource holds, and that is not applied for
// that reason, that we want it, too: our mark and nothing else. Otherwise the other one
// would be its last owner, and would delete it when it lets go: a Namespace with all
// that we have in it, for example.
func (a *applier) stake(ctx context.Context, t task) error {
	held := t.cause.Found
	if t.why != whyNew || held == nil || slices.Contains(ownership.Managers(held, a.manager), a.manager) {
		return nil
	}
	claim := &unstructured.Unstructured{}
	claim.SetGroupVersionKind(t.gvk)
	claim.SetNamespace(t.id.namespace)
	claim.SetName(t.id.name)
	mark(claim, a.owner.Name)
	body, err := claim.MarshalJSON()
	if err != nil {
		return err
	}
	lean := *t.desired
	lean.body = body
	if _, err := a.send(ctx, task{desired: &lean}, false); err != nil {
		return fmt.Errorf("note on it that it is wanted here, too: %w", err)
	}
	return nil
}
