package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// othersOwn says whether another VidraResource owns an object: by fields of it, or because
// the annotations name one that has not applied it yet.
func (a *applier) othersOwn(ctx context.Context, live *unstructured.Unstructured) (bool, error) {
	if a.shared(live) {
		return true, nil
	}
	for _, name := range v1alpha1.Owners(live.GetAnnotations()) {
		if name == a.owner.Name {
			continue
		}
		vr := &v1alpha1.VidraResource{}
		err := a.vidraResources.Get(ctx, client.ObjectKey{Name: name}, vr)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read VidraResource %s, which the annotations name: %w", name, err)
		}
		if err == nil && mayCome(vr, a.destination.Name(), live) {
			return true, nil
		}
	}
	return false, nil
}

// mayCome says whether a VidraResource that the annotations of an object name may still
// take it over, or remove it: one that is not going, and has it in its inventory. One
// that was never read by this Vidra is taken at the word of the annotation. What
// somebody copied from another object is nobody's.
func mayCome(vr *v1alpha1.VidraResource, at string, live *unstructured.Unstructured) bool {
	server := ""
	if !isLocal(vr.Spec.Destination.Server) {
		var err error
		if server, err = cluster.NormalizeServer(vr.Spec.Destination.Server); err != nil {
			return false
		}
	}
	if server != at || !vr.DeletionTimestamp.IsZero() {
		return false
	}
	id := identityIn(live)
	return vr.Status.ObservedGeneration == 0 ||
		slices.ContainsFunc(vr.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool { return identityOf(&e) == id })
}

// shared says whether another VidraResource owns fields of an object.
func (a *applier) shared(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(ownership.Managers(live, v1alpha1.FieldManagerPrefix), func(manager string) bool {
		return manager != a.manager
	})
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
	claim := bare(t.gvk, t.key)
	mark(claim, a.owner.Name)
	body, err := claim.MarshalJSON()
	if err != nil {
		return err
	}
	if _, err := a.send(ctx, t.key, body, false); err != nil {
		return fmt.Errorf("note on it that it is wanted here, too: %w", err)
	}
	return nil
}

// staked says whether the other VidraResources that own an object only note on it that
// it is wanted: all that they own is our mark.
func staked(live *unstructured.Unstructured, manager string) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager == manager ||
			!strings.HasPrefix(entry.Manager, v1alpha1.FieldManagerPrefix) || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return false
		}
		marks := true
		set.Iterate(func(path fieldpath.Path) { marks = marks && isMark(path) })
		if !marks {
			return false
		}
	}
	return true
}

// isMark says whether a field is of what mark sets, or above it.
func isMark(path fieldpath.Path) bool {
	var names []string
	for _, element := range path {
		if element.FieldName == nil {
			return false
		}
		names = append(names, *element.FieldName)
	}
	if len(names) < 3 { // metadata.labels
		return names[0] == "metadata"
	}
	return len(names) == 3 && names[0] == "metadata" &&
		(names[1] == "labels" && names[2] == v1alpha1.ManagedByLabel || names[1] == "annotations" && v1alpha1.IsOwnerAnnotation(names[2]))
}
