package search

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// fresh has the contents of objects as the API server answers their first apply. mu guards known.
var fresh = struct {
	mu    sync.Mutex
	known map[string]map[string]any
}{known: map[string]map[string]any{}}

// freshOf returns the content of an object that is applied where nothing is, by a dry run in another namespace.
func (r *run) freshOf(ctx context.Context, object string, variant int) map[string]any {
	fresh.mu.Lock()
	defer fresh.mu.Unlock()
	key := fmt.Sprintf("%s %d", object, variant)
	if c, has := fresh.known[key]; has {
		return c
	}
	u := r.object(object, variant)
	if u.GetNamespace() == "" {
		u.SetName(u.GetName() + "-mirror")
	} else {
		u.SetNamespace(r.mirror())
	}
	require.NoError(r, admin.Create(context.WithoutCancel(ctx), u, client.DryRunAll))
	fresh.known[key] = content(u)
	return fresh.known[key]
}

// wrong yields the promises that do not hold now.
func (r *run) wrong(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		r.releaseHeld(ctx)
		all := &v1alpha1.VidraResourceList{}
		found, settled := r.wrongOwners(ctx, all)
		found = append(append(found, r.wrongHistories(all.Items)...), r.wrongSync(ctx)...)
		found = append(found, r.wrongExemptions(ctx)...)
		for _, text := range found {
			if !yield(text) {
				return
			}
		}
		for _, o := range wholePool {
			for _, text := range r.wrongObject(ctx, o, settled) {
				if !yield(text) {
					return
				}
			}
		}
	}
}

// wrongOwners reads the VidraResources, and returns which promises about them do not hold, and whether all are Ready.
func (r *run) wrongOwners(ctx context.Context, all *v1alpha1.VidraResourceList) (wrong []string, settled bool) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	contested := map[string]bool{}
	for o, variants := range r.wanted() {
		contested[o] = disagree(variants)
	}
	pending := r.pending()
	settled = !pending
	for _, name := range slices.Sorted(maps.Keys(r.owners)) {
		s, v := r.owners[name], &v1alpha1.VidraResource{}
		if err := admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v); err != nil {
			complain("%s: %v", name, err)
			continue
		}
		all.Items = append(all.Items, *v)
		c := ready(v)
		_, waits := r.waiting[name]
		applied := c.Reason == v1alpha1.ReasonApplied || waits && c.Reason == v1alpha1.ReasonRevisionHeld
		settled = settled && applied
		if r.blocked[name] && c.Reason != v1alpha1.ReasonDependencyNotReady {
			complain("%s: Ready is %s (%s), and %s does not exist, on which it has depended from its creation", name, c.Reason, c.Message, s.dependency())
		}
		if !pending && !slices.Contains(r.reasons(s, contested), c.Reason) {
			complain("%s: Ready is %s (%s), others: %v", name, c.Reason, c.Message, r.readiness(ctx))
		}
		if applied && s.Broken == "" {
			wrong = append(wrong, r.wrongInventory(name, s, v)...)
			wrong = append(wrong, r.wrongRevision(name, s, v)...)
		}
		if c.Reason == v1alpha1.ReasonApplied && s.Broken == "" {
			wrong = append(wrong, r.wrongConditions(ctx, name, s, v)...)
		}
		if shards := s.shards(); !slices.Equal(v.Status.Shards, shards) {
			complain("%s: status.shards is %v, and its operator has %v", name, v.Status.Shards, shards)
		}
	}
	return wrong, settled
}

// heals reports whether no policy keeps a difference of an object, or of one without which it cannot exist.
func (r *run) heals(o string) bool {
	for name, s := range r.owners {
		for _, part := range with(o) {
			if r.left[name][part] {
				return false
			}
			if _, wants := r.read[name][part]; wants && (s.Suspend || s.Mode != "" || s.NoEvents || s.Broken != "" || r.delayed(s)) {
				return false
			}
		}
	}
	return true
}

// wrongObject returns which promises about an object do not hold. settled is whether all VidraResources are Ready.
func (r *run) wrongObject(ctx context.Context, o string, settled bool) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	u, wanted := r.object(o, 0), r.wanted()[o]
	err := admin.Get(ctx, client.ObjectKeyFromObject(u), u)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return []string{fmt.Sprintf("%s: %v", o, err)}
	}
	switch {
	case o == "ConfigMap/foreign" && !r.adopted:
		if !exists || u.GetUID() != r.foreign.GetUID() || u.GetResourceVersion() != r.foreign.GetResourceVersion() {
			complain("the object of another user was changed or deleted")
		}
	case len(wanted) == 0:
		if exists && !r.unmanaged[o] && (!r.given[o] || kills.Load() == r.kills) && settled && !r.awaitedNow()[o] && o != "ConfigMap/foreign" {
			complain("%s is in no manifest, and exists since %s: labels %v, annotations %v, deleted %v",
				o, u.GetCreationTimestamp().Format(time.TimeOnly), u.GetLabels(), u.GetAnnotations(), u.GetDeletionTimestamp())
		}
	case !r.heals(o) || r.unmanaged[o] || o == "ConfigMap/foreign":
	case !exists:
		complain("%s is missing", o)
	case u.GetDeletionTimestamp() != nil:
		complain("%s is being deleted", o)
	default:
		wrong = append(wrong, r.wrongContent(ctx, o, u, wanted)...)
		if settled && divided != nil && !r.contested[o] {
			wrong = append(wrong, r.wrongOwnership(o, u)...)
		}
	}
	return wrong
}

// reasons returns the reasons of Ready that the promises allow.
func (r *run) reasons(s spec, disagree map[string]bool) []string {
	allowed := []string{v1alpha1.ReasonApplied}
	if w, waits := r.waiting[s.Name]; waits && w.Others["revision.to"] == nil {
		if !maps.Equal(w.Objects, s.Objects) {
			allowed = nil
		}
		allowed = append(allowed, v1alpha1.ReasonRevisionHeld)
	}
	if s.unreadable() {
		return []string{v1alpha1.ReasonManifestInvalid}
	}
	switch s.Broken {
	case "unknown-kind":
		allowed = []string{v1alpha1.ReasonKindUnavailable}
	case "refused":
		allowed = []string{v1alpha1.ReasonManifestInvalid, v1alpha1.ReasonApplyFailed}
	}
	for _, other := range r.owners {
		// A removal waits for a manifest that cannot be read, for a minute, and for the objects of its own manifest.
		_, held := r.waiting[other.Name]
		if waits := held || other.unreadable() || other.Broken == "unknown-kind" || other.Broken == "refused"; waits && other.Name != s.Name {
			allowed = append(allowed, v1alpha1.ReasonProgressing)
		}
	}
	if s.Mode == "Warn" {
		allowed = append(allowed, v1alpha1.ReasonDriftDetected)
	}
	if s.Wait {
		allowed = append(allowed, v1alpha1.ReasonProgressing, v1alpha1.ReasonUnhealthy)
	}
	for _, other := range r.owners {
		_, hasMember := other.Objects["ConfigMap/inside"]
		if _, hasContainer := other.Objects["Namespace/nested"]; hasMember && !hasContainer { // the Namespace left a manifest before what is in it
			allowed = append(allowed, v1alpha1.ReasonDeletionBlocked)
		}
	}
	for o := range s.Objects {
		if disagree[o] {
			allowed = append(allowed, v1alpha1.ReasonOwnershipConflict)
		}
		if o == "ConfigMap/foreign" || r.unmanaged[o] || s.Adopt == "Never" {
			allowed = append(allowed, v1alpha1.ReasonAdoptionRefused)
		}
	}
	return allowed
}

// wrongInventory compares the inventory of a VidraResource that is Ready with its manifest.
func (r *run) wrongInventory(name string, s spec, v *v1alpha1.VidraResource) (wrong []string) {
	listed := map[string]bool{}
	for _, e := range v.Status.ManagedResources {
		listed[e.Kind+" "+e.Namespace+"/"+e.Name] = true
	}
	for o := range s.Objects {
		u := r.object(o, 0)
		key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if !listed[key] {
			wrong = append(wrong, fmt.Sprintf("%s: %s is not in the inventory", name, o))
		}
		delete(listed, key)
	}
	for o := range listed {
		wrong = append(wrong, fmt.Sprintf("%s: the inventory has %s, which is in no manifest", name, o))
	}
	return wrong
}

// wrongConditions compares the conditions of a VidraResource that is Ready, and the fields of its status that repeat them, with its spec and the objects.
func (r *run) wrongConditions(ctx context.Context, name string, s spec, v *v1alpha1.VidraResource) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, name+": "+fmt.Sprintf(format, args...)) }
	is := func(kind string) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(v.Status.Conditions, kind); c != nil {
			return c.Status
		}
		return ""
	}
	expect := func(kind string, allowed ...metav1.ConditionStatus) {
		if !slices.Contains(allowed, is(kind)) {
			complain("%s is %q, and %q was expected", kind, is(kind), allowed)
		}
	}
	for _, c := range v.Status.Conditions {
		if c.ObservedGeneration != v.Generation {
			complain("%s is of generation %d, and the spec of %d", c.Type, c.ObservedGeneration, v.Generation)
		}
	}
	expect(v1alpha1.ConditionStalled, "")
	expect(v1alpha1.ConditionReconciling, "")
	expect(v1alpha1.ConditionSuspended, map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: ""}[s.Suspend])
	expect(v1alpha1.ConditionWatching, map[bool]metav1.ConditionStatus{true: metav1.ConditionFalse, false: metav1.ConditionTrue}[s.NoEvents])
	if s.Mode == "" && !s.Suspend && !s.NoEvents && s.Additions != "Warn" {
		expect(v1alpha1.ConditionDrifted, metav1.ConditionFalse)
	}
	if healthy, known := r.healthy(ctx, s); known && !s.NoEvents {
		expect(v1alpha1.ConditionHealthy, map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[healthy])
	}
	if ready(v).Status == metav1.ConditionTrue && (v.Status.DeployState != v1alpha1.DeploySucceeded || v.Status.LastError != "") {
		complain("deployState is %s, lastError is %q, and Ready is True", v.Status.DeployState, v.Status.LastError)
	}
	if int(v.Status.Objects) != len(v.Status.ManagedResources) {
		complain("status.objects is %d, and the inventory has %d", v.Status.Objects, len(v.Status.ManagedResources))
	}
	for i := range v.Status.Problems {
		p := &v.Status.Problems[i]
		stands := slices.ContainsFunc(p.Conditions, func(kind string) bool {
			bad := metav1.ConditionFalse
			if slices.Contains([]string{v1alpha1.ConditionDrifted, v1alpha1.ConditionWarnings, v1alpha1.ConditionUnmatchedIgnoreRules}, kind) {
				bad = metav1.ConditionTrue
			}
			return is(kind) == bad
		})
		if !stands {
			complain("no condition has the problem %s: %s", p.Reason, p.Message)
		}
	}
	return wrong
}

// healthy reports whether kstatus finds each object of a manifest Current; known is false while one does not exist.
func (r *run) healthy(ctx context.Context, s spec) (healthy, known bool) {
	healthy = true
	for o := range s.Objects {
		u := r.object(o, 0)
		if admin.Get(ctx, client.ObjectKeyFromObject(u), u) != nil {
			return false, false
		}
		found, err := kstatus.Compute(u)
		if err != nil {
			return false, false
		}
		healthy = healthy && found.Status == kstatus.CurrentStatus
	}
	return healthy, true
}

// reconciling bounds the time of a reconcile. An edit that it finds is listed with the time of its begin.
const reconciling = 5 * time.Second

// managers are the field managers of users.
var managers = []string{"", "kubectl-edit", "kubectl-replace", "other-tool", "hold-controller"}

// wrongHistories compares the histories of VidraResources with the edits of users.
func (r *run) wrongHistories(all []v1alpha1.VidraResource) (wrong []string) {
	objects := map[string]string{}
	for _, o := range wholePool {
		u := r.object(o, 0)
		objects[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = o
	}
	listed := map[string]time.Time{}
	for _, v := range all {
		for _, e := range v.Status.History {
			o := objects[e.Object.Kind+" "+e.Object.Namespace+"/"+e.Object.Name]
			if listed[o].Before(e.LastTime.Time) {
				listed[o] = e.LastTime.Time
			}
			// A killed operator may have deleted or released the object itself.
			ours := kills.Load() > r.kills && (r.unwanted[o] && strings.Contains(e.Message, "created it again after it had been deleted") ||
				r.unmanaged[o] && e.Message == "restored the label "+v1alpha1.ManagedByLabel+"="+v1alpha1.ManagedByValue)
			// The values of another VidraResource stand without a manager once that has left the object.
			another := strings.HasPrefix(e.Manager, v1alpha1.FieldManagerPrefix)
			if r.contested[o] && (another || r.unmanaged[o] && e.Manager == "") || r.shared[o] && r.touched[o] && another {
				continue
			}
			ours = ours || o == typed && e.Reason == events.ReasonReplaced
			if !r.touched[o] && !ours || !slices.Contains(managers, e.Manager) {
				wrong = append(wrong, fmt.Sprintf("%s: the history has an edit that no user made: %s of %q: %s", v.Name, e.Reason, o, e.Message))
			}
		}
	}
	for o, edit := range r.owed {
		if listed[o].Before(edit.at.Add(-reconciling)) && edit.kills == kills.Load() {
			wrong = append(wrong, fmt.Sprintf("no history has the edit of %s at %s", o, edit.at.Format(time.TimeOnly)))
		}
	}
	return wrong
}

// wrongContent compares an object with the fresh applies of the variants that VidraResources want.
func (r *run) wrongContent(ctx context.Context, o string, u *unstructured.Unstructured, wanted []int) (wrong []string) {
	if u.GetLabels()[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByValue {
		wrong = append(wrong, o+" does not have the label of Vidra")
	}
	if found, shards := shardLabels(u), r.shardLabelsOf(o); !slices.Equal(found, shards) {
		wrong = append(wrong, fmt.Sprintf("%s has the labels of shards %v, and its owners %v", o, found, shards))
	}
	live := content(u)
	for _, variant := range wanted {
		if reflect.DeepEqual(live, r.freshOf(ctx, o, variant)) {
			return wrong
		}
	}
	var managers []string
	for _, m := range u.GetManagedFields() {
		managers = append(managers, fmt.Sprintf("%s (%s) %s", m.Manager, m.Operation, m.FieldsV1))
	}
	return append(wrong, fmt.Sprintf("%s is %v, and a fresh apply gives %v; managers: %q", o, live, r.freshOf(ctx, o, wanted[0]), managers))
}

// wrongOwnership compares the owner annotations and the field managers of an object with the VidraResources that want it.
func (r *run) wrongOwnership(o string, u *unstructured.Unstructured) (wrong []string) {
	var managers, annotations, wantedManagers, wantedAnnotations []string
	for name, objects := range r.read {
		if _, wants := objects[o]; wants {
			i := r.owners[name].installation()
			wantedManagers, wantedAnnotations = append(wantedManagers, i.FieldManager(r.owner(name))), append(wantedAnnotations, i.OwnerAnnotationKey(r.owner(name)))
		}
	}
	for _, m := range u.GetManagedFields() {
		if m.Operation == metav1.ManagedFieldsOperationApply && strings.HasPrefix(m.Manager, v1alpha1.FieldManagerPrefix) {
			managers = append(managers, m.Manager)
		}
	}
	for key := range u.GetAnnotations() {
		if strings.Contains(key, v1alpha1.OwnerAnnotationPrefix+"/") {
			annotations = append(annotations, key)
		}
	}
	for kind, of := range map[string][2][]string{"field managers": {managers, wantedManagers}, "annotations": {annotations, wantedAnnotations}} {
		if slices.Sort(of[0]); !slices.Equal(of[0], slices.Sorted(slices.Values(of[1]))) {
			wrong = append(wrong, fmt.Sprintf("%s has the %s %v, and its owners %v", o, kind, of[0], of[1]))
		}
	}
	return wrong
}

func join(lines []string) string { return "\n  " + strings.Join(lines, "\n  ") }

// readiness returns the condition Ready of each VidraResource.
func (r *run) readiness(ctx context.Context) map[string]string {
	all := map[string]string{}
	for name := range r.owners {
		v := &v1alpha1.VidraResource{}
		if admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v) == nil {
			all[name] = ready(v).Reason + ": " + ready(v).Message
		}
	}
	return all
}
