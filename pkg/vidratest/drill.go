package vidratest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	// DrillManager is the field manager of drills. It counts as a tool of users.
	DrillManager = "kubectl-vidra-drill"

	// descriptionAnnotation is one that no program reads either
	// (https://kubernetes.io/docs/reference/labels-annotations-taints/#description).
	descriptionAnnotation = "kubernetes.io/description"
	// edited is the value that a drill sets. It is always the same, so that drills are one entry of the history.
	edited = "edited by vidra drill"
	// reportTimeout is how long the status may take to have the edit. It is written every few seconds.
	reportTimeout = 20 * time.Second
	// undoTimeout is how long a drill may take to revert its own edit, also if its context has ended.
	undoTimeout = 10 * time.Second
)

// ErrNoSentinel is the error of a drill if no object of a VidraResource has an annotation that is known to start nothing.
var ErrNoSentinel = errors.New("no object has an annotation that a drill may edit: give one in the manifest, such as a ConfigMap, " +
	"the annotation " + v1alpha1.DrillAnnotation + `: "sentinel"`)

// ErrNotUndone is the error of a drill if both Vidra and the drill have failed to revert the edit.
var ErrNotUndone = errors.New("the edit of the drill could not be undone")

// DrillReport is a drill whose edit Vidra reverted.
type DrillReport struct {
	// Heal is the revert of the edit.
	Heal Heal
	// Annotation that was edited.
	Annotation string
	// Entry is the entry of status.history about the edit, with its author, as the operator attributed it. Nil if it is
	// missing after 20 seconds.
	Entry *v1alpha1.HistoryEntry
	// Reported is how long it took from the edit until the status had Entry.
	Reported time.Duration
}

// Drill edits the sentinel of a VidraResource and blocks until the edit is reverted and reported in the status.
// The sentinel is the first object whose manifest sets [v1alpha1.DrillAnnotation], or else kubernetes.io/description: no
// program acts on these annotations. It fails without an edit if there is no sentinel, or if the VidraResource
// says that edits are not reverted. It fails with a [*NotHealedError] if the edit stands for longer than within,
// and reverts the edit itself, with its field ownership. It does so, too, if ctx ends. [ErrNotUndone] means that this failed.
func (c *Cluster) Drill(ctx context.Context, name string, within time.Duration) (DrillReport, error) {
	vr, err := c.get(ctx, name)
	if err != nil {
		return DrillReport{}, err
	}
	runner, err := c.runner(ctx, vr)
	if err != nil {
		return DrillReport{}, err
	}
	resolved, err := runner.Objects(ctx)
	if err != nil {
		return DrillReport{}, err
	}
	d, annotation := sentinel(resolved.Objects)
	if d == nil {
		return DrillReport{}, fmt.Errorf("VidraResource %s: %w", name, ErrNoSentinel)
	}
	if why := obstacles(vr, Object(d.ID), c.commandLine()); len(why) > 0 {
		return DrillReport{}, fmt.Errorf("nothing is edited, because the edit would not be reverted: %s", strings.Join(why, "; "))
	}
	return c.drill(ctx, &keeper{runner: runner, object: d}, annotation, within)
}

// sentinel returns the object that a drill edits, and the annotation, or nil.
func sentinel(all []*desired.Object) (*desired.Object, string) {
	for _, key := range []string{v1alpha1.DrillAnnotation, descriptionAnnotation} {
		for _, d := range all {
			value, set := d.Unstructured().GetAnnotations()[key]
			if set && value != edited && !d.Rules.Exemptions.Exempts(DrillManager, []string{"metadata", "annotations", key}) {
				return d, key
			}
		}
	}
	return nil, ""
}

// drill edits an annotation of an object, and reverts the edit if Vidra does not.
func (c *Cluster) drill(ctx context.Context, k *keeper, annotation string, within time.Duration) (DrillReport, error) {
	report := DrillReport{Annotation: annotation}
	before, err := k.runner.Live(ctx, k.object.Key)
	switch {
	case err != nil:
		return report, fmt.Errorf("read %s: %w", k.object.ID, err)
	case before == nil:
		return report, fmt.Errorf("%s does not exist", k.object.ID)
	}
	value := k.object.Unstructured().GetAnnotations()[annotation]
	var begin time.Time
	var refused error
	report.Heal, err = c.Healed(ctx, Object(k.object.ID), within, func(ctx context.Context) error {
		begin = time.Now()
		_, refused = k.setAnnotation(ctx, before, annotation, value, edited)
		return refused
	})
	if err != nil {
		if !begin.IsZero() && object.Unanswered(refused) {
			err = errors.Join(err, k.undo(context.WithoutCancel(ctx), before, annotation, value))
		}
		return report, err
	}
	report.Entry, err = c.awaitEntry(ctx, k, annotation)
	if report.Entry != nil {
		report.Reported = time.Since(begin)
	}
	return report, err
}

// setAnnotation changes the value of an annotation, if it is the expected one. before is the object before the drill: a policy may quote its values.
func (k *keeper) setAnnotation(ctx context.Context, before *unstructured.Unstructured, annotation, from, to string) (*unstructured.Unstructured, error) {
	path := ownership.Field{Tokens: []string{"metadata", "annotations", annotation}}.Pointer()
	patch, err := json.Marshal([]map[string]string{{"op": "test", "path": path, "value": from}, {"op": "replace", "path": path, "value": to}})
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	live, err := k.resource().Patch(ctx, k.object.Key.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: DrillManager})
	if err != nil {
		return nil, fmt.Errorf("edit the annotation %s of %s: %w", annotation, k.object.ID, object.WithoutValues(err, k.runner.Disclosure(k.object, before)))
	}
	return live, nil
}

// undo reverts the edit of a drill if it is there: first the value, then who owns it.
func (k *keeper) undo(ctx context.Context, before *unstructured.Unstructured, annotation, value string) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	live, err := k.setAnnotation(ctx, before, annotation, edited, value)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsInvalid(err): // it has another value, or a policy refuses the patch
		if now, getErr := k.runner.Live(ctx, k.object.Key); getErr == nil && (now == nil || now.GetAnnotations()[annotation] != edited) {
			return nil
		}
	}
	if err == nil {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			err := k.restoreOwners(ctx, live, before)
			if apierrors.IsConflict(err) {
				if now, getErr := k.runner.Live(ctx, k.object.Key); getErr == nil && now != nil {
					live = now
				}
			}
			return err
		})
	}
	if err != nil {
		as := fmt.Sprintf("%q", value)
		if k.runner.Disclosure(k.object, live, before).Withholds() {
			as = "its value in the manifest"
		}
		return fmt.Errorf("%w: set the annotation %s of %s to %s: %w", ErrNotUndone, annotation, k.object.ID, as, err)
	}
	return nil
}

// restoreOwners gives the field managers the fields that they owned before a drill.
func (k *keeper) restoreOwners(ctx context.Context, live, before *unstructured.Unstructured) error {
	entries := slices.DeleteFunc(ownership.RestoreEntries(live, before, DrillManager), func(entry any) bool {
		fields, _ := entry.(map[string]any)
		return fields["manager"] == DrillManager
	})
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"managedFields": entries, "resourceVersion": live.GetResourceVersion(),
	}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = k.resource().Patch(ctx, k.object.Key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: DrillManager})
	return object.WithoutValues(err, k.runner.Disclosure(k.object, live, before))
}

// awaitEntry waits until the history of a VidraResource has another edit of an annotation than when the drill
// began; nil if it is missing after reportTimeout.
func (c *Cluster) awaitEntry(ctx context.Context, k *keeper, annotation string) (*v1alpha1.HistoryEntry, error) {
	var found *v1alpha1.HistoryEntry
	before := k.lastEdit(k.runner.VR, annotation)
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, reportTimeout, true, func(ctx context.Context) (bool, error) {
		vr, err := c.get(ctx, k.runner.VR.Name)
		if err != nil {
			return false, err
		}
		last := k.lastEdit(vr, annotation)
		if last != nil && (before == nil || !last.LastTime.Equal(&before.LastTime) || last.Count != before.Count) {
			found = last
		}
		return found != nil, nil
	})
	if ctx.Err() == nil && wait.Interrupted(err) {
		err = nil
	}
	return found, err
}

// lastEdit returns the newest entry of a history about an annotation of the object, or nil.
func (k *keeper) lastEdit(vr *v1alpha1.VidraResource, annotation string) *v1alpha1.HistoryEntry {
	field := fmt.Sprintf("metadata.annotations[%q]", annotation)
	for i := range vr.Status.History {
		e := &vr.Status.History[i]
		id := object.IdentityOf(&v1alpha1.ManagedResourceStatus{
			APIVersion: e.Object.APIVersion, Kind: e.Object.Kind, Namespace: e.Object.Namespace, Name: e.Object.Name,
		})
		if id == k.object.ID && slices.Contains(e.Fields, field) {
			return e
		}
	}
	return nil
}
