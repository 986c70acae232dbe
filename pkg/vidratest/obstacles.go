package vidratest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// obstacles are the reasons for a delayed revert of an edit, as far as the VidraResource has
// them. One may propose a command of the command line.
func obstacles(vr *v1alpha1.VidraResource, o Object, commandLine string) []string {
	var all []string
	add := func(format string, args ...any) {
		all = append(all, fmt.Sprintf("VidraResource %s ", vr.Name)+fmt.Sprintf(format, args...))
	}
	condition := func(kind string) *metav1.Condition { return meta.FindStatusCondition(vr.Status.Conditions, kind) }
	if vr.Spec.Suspend {
		add("is suspended: `%s resume %s` ends that", commandLine, vr.Name)
	}
	if !vr.DeletionTimestamp.IsZero() {
		add("is being deleted")
	}
	if mode := vr.DriftMode(); mode != v1alpha1.DriftCorrect {
		add("has spec.drift.mode %s, with which nothing is reverted", mode)
	}
	if !vr.WatchesEvents() {
		add("has spec.destination.reconcileOnEvents false: edits are found at the next interval")
	}
	if c := condition(v1alpha1.ConditionReady); c == nil {
		add("has no status: check that the operator runs")
	} else if c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonDriftDetected { // that is reported by what causes it
		add("is not ready: %s: %s", c.Reason, c.Message)
	}
	if c := condition(v1alpha1.ConditionWatching); c != nil && c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonEventsOff {
		add("does not watch all objects: %s: %s", c.Reason, c.Message)
	}
	if e := owners.EntryOf(vr, o.identity()); e == nil {
		add("does not have %s in its inventory yet", o)
	} else if b := e.BreakGlass; breakglass.Exempts(b, time.Now()) {
		add("exempts %s by break-glass until %s", o, b.Until.UTC().Format(time.RFC3339))
	}
	return all
}
