package insight

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Operator are the settings of the operator that decide about edits. The zero value has its defaults.
type Operator struct {
	// Additions is the policy where spec.drift.additions is not set. Defaults to Keep.
	Additions v1alpha1.AdditionsPolicy
	// Tools are the field managers of users' tools. Defaults to ownership.DefaultTools.
	Tools ownership.Tools
	// MaxBreakGlass is how long break-glass exempts an object at most, where spec.drift.maxBreakGlass is not set. Defaults to
	// v1alpha1.DefaultMaxBreakGlass.
	MaxBreakGlass *time.Duration
}

// tools are the field managers of users' tools.
func (o Operator) tools() ownership.Tools {
	if o.Tools == nil {
		return ownership.DefaultTools
	}
	return o.Tools
}

// maxBreakGlass is how long break-glass exempts an object of a VidraResource at most.
func (o Operator) maxBreakGlass(vr *v1alpha1.VidraResource) time.Duration {
	if o.MaxBreakGlass == nil {
		return vr.MaxBreakGlass(v1alpha1.DefaultMaxBreakGlass)
	}
	return vr.MaxBreakGlass(*o.MaxBreakGlass)
}

// keep makes a change of an object none if the operator does not revert it, by the decisions of the operator.
func (d *differ) keep(diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured) *ObjectDifference {
	if diff.Action != ActionChange {
		return diff
	}
	if skip := d.skipReason(o, live); skip != nil {
		diff.Action, diff.Stays, diff.Why = ActionNone, true, "it is not reverted: "+skip.Why
		diff.Conflicts, diff.AlsoRemoved = nil, nil
	}
	return diff
}

// skipReason returns why the operator does not revert what others changed of an object; nil if it does. Nothing holds a changed manifest
// back. spec.suspend holds all back, which the difference of the VidraResource reports.
func (d *differ) skipReason(o *desired.Object, live *unstructured.Unstructured) *plan.SkipReason {
	entry := owners.EntryOf(d.VR, o.ID)
	if entry == nil || entry.UID == "" || d.manifestChanged(entry, o) {
		return nil
	}
	vr := d.VR.DeepCopy()
	vr.Spec.Suspend = false
	longest := d.operator.maxBreakGlass(vr)
	settings := plan.Settings{MaxBreakGlass: longest, GlassRoom: func() *plan.BreakGlassRoom { return plan.NewBreakGlassRoom(nil) }}
	reason, _ := settings.SkipReason(plan.Task{
		Object: o, Known: &plan.Object{Entry: entry}, Why: plan.WhyDrift, Cause: trigger.Cause{Found: live},
		Skip: plan.SkipReasonOf(vr, entry, longest, time.Now()),
	})
	return reason
}

// manifestChanged reports whether the configuration of an object is, or may be, another one than was applied last. A sealed one cannot be
// compared: it is the same if the operator has observed the spec.
func (d *differ) manifestChanged(entry *v1alpha1.ManagedResourceStatus, o *desired.Object) bool {
	if entry.Configuration == "" || strings.HasPrefix(entry.Configuration, seal.Prefix) {
		return d.VR.Status.ObservedGeneration != d.VR.Generation
	}
	return entry.Configuration != d.operator.additions(d.VR).ConfigurationOf(o.Configuration)
}

// additions is the policy for what users add to the objects of a VidraResource.
func (o Operator) additions(vr *v1alpha1.VidraResource) plan.Additions {
	return plan.AdditionsOf(vr, o.Additions, o.tools())
}

// byTools is what users added to an object and what the policy for additions removes.
func (d *differ) byTools(o *desired.Object, live *unstructured.Unstructured) []ownership.Change {
	policy := d.operator.additions(d.VR)
	if policy.Policy != v1alpha1.AdditionsRevert {
		return nil
	}
	return policy.In(live, o, d.By.Manager, d.Disclosure(o, live)).Changes
}
