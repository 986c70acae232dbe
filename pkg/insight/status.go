package insight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// StatusQuery selects the VidraResources of [Client.Status]. The zero value selects all.
type StatusQuery struct {
	// Name of the only VidraResource.
	Name string
	// Selector selects by labels. It excludes Name.
	Selector string
	// Namespace selects VidraResources with an object in it.
	Namespace string
}

// Status reports whether VidraResources are in order.
type Status struct {
	InOrder        bool     `json:"inOrder"`
	VidraResources []Report `json:"vidraResources"`
}

// Report is the state of a VidraResource.
type Report struct {
	Name string `json:"name"`
	// InOrder reports the absence of problems; Why names them.
	InOrder bool     `json:"inOrder"`
	Why     []string `json:"why,omitempty"`
	// Ready is the reason of the condition Ready.
	Ready      string                `json:"ready"`
	Objects    map[string]int        `json:"objects"`
	Conditions []metav1.Condition    `json:"conditions"`
	Problems   []v1alpha1.Problem    `json:"problems,omitempty"`
	Drift      *v1alpha1.DriftStatus `json:"drift,omitempty"`
	Shards     []string              `json:"shards,omitempty"`
	// Source are the revisions of the sources of Flux that the manifest was last read from.
	Source []v1alpha1.SourceStatus `json:"source,omitempty"`

	// VidraResource is the whole object.
	VidraResource *v1alpha1.VidraResource `json:"-"`
}

// Status reports on VidraResources.
func (c *Client) Status(ctx context.Context, q StatusQuery) (*Status, error) {
	all, err := c.wanted(ctx, q)
	if err != nil {
		return nil, err
	}
	status := &Status{InOrder: true, VidraResources: make([]Report, 0, len(all))}
	for _, vr := range all {
		r := c.program.ReportOf(vr)
		status.VidraResources, status.InOrder = append(status.VidraResources, r), status.InOrder && r.InOrder
	}
	return status, nil
}

// wanted reads the VidraResources of a query.
func (c *Client) wanted(ctx context.Context, q StatusQuery) ([]*v1alpha1.VidraResource, error) {
	if q.Name != "" && q.Selector != "" {
		return nil, errors.New("a name excludes a selector")
	}
	if q.Name == "" {
		all, err := c.VidraResources(ctx, q.Selector)
		return slices.DeleteFunc(slices.Clone(all), func(vr *v1alpha1.VidraResource) bool {
			return q.Namespace != "" && !HasObjectIn(vr, q.Namespace)
		}), err
	}
	vr, err := c.VidraResource(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	if q.Namespace != "" && !HasObjectIn(vr, q.Namespace) {
		return nil, fmt.Errorf("VidraResource %s has no object in namespace %q", vr.Name, q.Namespace)
	}
	return []*v1alpha1.VidraResource{vr}, nil
}

// ReportOf reports on a VidraResource.
func (p Program) ReportOf(vr *v1alpha1.VidraResource) Report {
	r := Report{
		Name: vr.Name, Ready: "Unknown", Objects: map[string]int{}, Conditions: vr.Status.Conditions,
		Problems: vr.Status.Problems, Drift: vr.Status.Drift, Shards: vr.Status.Shards, Source: vr.Status.Source, VidraResource: vr,
	}
	for _, e := range vr.Status.ManagedResources {
		r.Objects[string(e.State)]++
	}
	wrong := func(kind, reason, message string) {
		r.Why = append(r.Why, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", kind, reason, message), ": "))
	}
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil {
		r.Ready = ready.Reason
	}
	switch {
	case ready == nil:
		wrong("no status", "Unreconciled", "no operator has reconciled it: check that Vidra runs"+installationOf(vr))
	case vr.Status.ObservedGeneration != vr.Generation && !vr.Spec.Suspend && !vr.Waits():
		wrong("not Ready", "Outdated", "the operator has not applied the present spec yet")
	case ready.Status != metav1.ConditionTrue:
		wrong("not Ready", ready.Reason, ready.Message)
	}
	if c := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionHealthy); c != nil && c.Status == metav1.ConditionFalse {
		wrong("not healthy", c.Reason, c.Message)
	}
	if c := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionDrifted); c != nil && c.Status == metav1.ConditionTrue {
		wrong("drifted", c.Reason, c.Message)
	}
	if c := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionWatching); c != nil && c.Reason != v1alpha1.ReasonEventsOff && c.Status != metav1.ConditionTrue {
		wrong("not watched", c.Reason, c.Message)
	}
	if meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionSuspended) {
		wrong("suspended", "nothing is applied or reverted", "`"+p.Hint("resume", vr.Name)+"` ends that")
	}
	if len(vr.Status.Shards) > 0 && len(v1alpha1.ShardsOf(vr, "")) == 0 {
		wrong("no shard", "Unreconciled", fmt.Sprintf("its labels do not match %s, and no other operator has taken it over since they changed: "+
			"check that an operator runs whose --watch-label-selector matches them", strings.Join(vr.Status.Shards, " or ")))
	}
	if !vr.DeletionTimestamp.IsZero() {
		wrong("being deleted", "it waits for the removal of its objects", "")
	}
	r.Why = withoutRepeats(r.Why)
	r.InOrder = len(r.Why) == 0
	return r
}

// withoutRepeats leaves out texts that repeat another condition: the text after its first colon.
func withoutRepeats(all []string) []string {
	var seen, kept []string
	for _, text := range all {
		_, what, _ := strings.Cut(text, ": ")
		if !slices.Contains(seen, what) {
			seen, kept = append(seen, what), append(kept, text)
		}
	}
	return kept
}

// installationOf names the installation that is to reconcile a VidraResource, if it is not the default one.
func installationOf(vr *v1alpha1.VidraResource) string {
	if installation := v1alpha1.InstallationOf(vr); installation != "" {
		return " with --installation=" + string(installation)
	}
	return ""
}

// ProblemObject returns the name of the object of a problem.
func ProblemObject(o *v1alpha1.ProblemObject) string {
	switch {
	case o == nil:
		return ""
	case o.Resource != "":
		return "all " + o.Resource
	}
	return object.Identity{GroupKind: schema.GroupKind{Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}.String()
}
