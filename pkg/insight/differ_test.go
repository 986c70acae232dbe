package insight

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// differOf compares the objects of the VidraResource shop.
func differOf() *differ {
	vr := &v1alpha1.VidraResource{}
	vr.Name = "shop"
	operator, err := Operator{}.decisions()
	if err != nil {
		panic(err)
	}
	by := object.SignatureOf("", vr.Name)
	none := &moves{client: &Client{}, given: map[string]*v1alpha1.VidraResource{}, contents: map[string]content{}}
	none.named = &owners.Named{Preview: none.all, Parts: none.partsOf}
	none.others = func(context.Context) ([]*v1alpha1.VidraResource, error) { return nil, nil }
	return &differ{runner: &dryrun.Runner{VR: vr, By: by, At: &cluster.Cluster{}}, moves: none, settings: operator.settings(vr, by)}
}

// entries are the managedFields of an object that shop applied, and that kubectl-edit wrote to since.
func entries(ours, theirs string) string {
	return `
  managedFields:
  - {manager: vidra/shop, operation: Apply, apiVersion: v1, time: "2026-01-02T03:04:05Z", fieldsType: FieldsV1, fieldsV1: ` + ours + `}
  - {manager: kubectl-edit, operation: Update, apiVersion: v1, time: "2026-01-02T03:05:00Z", fieldsType: FieldsV1, fieldsV1: ` + theirs + `}
`
}

// TestContested: an apply takes no field from another VidraResource, and those of an update under its own name and of forged managers.
func TestContested(t *testing.T) {
	other := &v1alpha1.VidraResource{}
	other.Name, other.UID, other.Spec.Manifest = "other", "2", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\ndata: {a: theirs}\n"
	tests := map[string]struct {
		reason, manager string
		new, unlisted   bool
		refused         string
	}{
		"Other":    {reason: "two VidraResources would take it from each other", manager: "vidra/other", refused: "VidraResource other wants another value of data.a"},
		"Unlisted": {reason: "without the right to list VidraResources, the marks count", manager: "vidra/other", unlisted: true, refused: "VidraResource other wants another value of data.a"},
		"Forged":   {reason: "no VidraResource of the name exists", manager: "vidra/ghost"},
		"New":      {reason: "nothing conflicts with an object that does not exist", manager: "vidra/other", new: true},
		"Own":      {reason: "a user updates the object under our name", manager: "vidra/shop"},
		"Somebody": {reason: "an edit", manager: "kubectl-edit"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := objectOf(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page","namespace":"shop","uid":"1","managedFields":[
				{"manager":"`+tt.manager+`","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"theirs"}}`)
			id := object.IdentityIn(live)
			listed := other.DeepCopy()
			entry := object.NewEntry(id, live.GroupVersionKind())
			entry.UID, entry.Digest = "1", trigger.DigestOf(live, "vidra/other", false, nil).String()
			listed.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{*entry}
			d, diff := differOf(), &ObjectDifference{}
			d.moves.others = func(context.Context) ([]*v1alpha1.VidraResource, error) {
				if tt.unlisted {
					return nil, apierrors.NewForbidden(v1alpha1.Resource.GroupResource(), "", nil)
				}
				return []*v1alpha1.VidraResource{listed}, nil
			}
			conflict := apierrors.NewApplyConflict([]metav1.StatusCause{
				{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.a", Message: `conflict with "` + tt.manager + `"`},
			}, "conflict")
			o := &desired.Object{ID: id, GVK: live.GroupVersionKind(), Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page","namespace":"shop"},"data":{"a":"ours"}}`)}
			if tt.new {
				live = nil
			}
			refused := d.contested(t.Context(), diff, o, live, conflict)
			require.Equal(t, []FieldConflict{{Field: "data.a", Manager: tt.manager}}, diff.Conflicts, tt.reason)
			if tt.refused == "" {
				require.Empty(t, refused, tt.reason)
				return
			}
			require.Contains(t, refused, tt.refused, tt.reason)
		})
	}
}

// TestChanged compares objects with what an apply makes of them.
func TestChanged(t *testing.T) {
	const (
		list   = `{"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}},"k:{\"port\":81}":{".":{},"f:port":{}}}}}`
		value  = `{"f:spec":{"f:size":{}},"f:status":{"f:phase":{}}}`
		theirs = `{"f:status":{"f:seen":{}}}`
	)
	tests := map[string]struct{ reason, live, applied, want string }{
		"Reordered": {
			reason:  "the order of items with a key is not owned",
			live:    entries(list, theirs) + "spec: {ports: [{port: 81}, {port: 80}]}",
			applied: entries(list, theirs) + "spec: {ports: [{port: 80}, {port: 81}]}",
		},
		"Removed": {
			reason:  "an item that is owned",
			live:    entries(`{"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}}}}}`, theirs) + "spec: {ports: [{port: 80}]}",
			applied: entries(list, theirs) + "spec: {ports: [{port: 80}, {port: 81}]}", want: "+  - port: 81\n",
		},
		"Status": {
			reason:  "a field of the status that the manifest has",
			live:    entries(`{"f:spec":{"f:size":{}}}`, `{"f:status":{"f:phase":{}}}`) + "spec: {size: 1}\nstatus: {phase: Changed}",
			applied: entries(value, theirs) + "spec: {size: 1}\nstatus: {phase: Wanted}", want: "-  phase: Changed\n+  phase: Wanted\n",
		},
		"StatusOfOthers": {
			reason:  "a controller writes between the requests",
			live:    entries(`{"f:spec":{}}`, theirs) + "spec: {size: 1}\nstatus: {phase: Pending}",
			applied: entries(`{"f:spec":{"f:size":{}}}`, theirs) + "spec: {size: 1}\nstatus: {phase: Running}",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			const head = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: web"
			live, applied := objectOf(t, head+tt.live), objectOf(t, head+tt.applied)
			diff, err := differOf().changed(t.Context(), &ObjectDifference{Action: ActionNone}, &desired.Object{Body: []byte(`{}`)}, live, applied)
			require.NoError(t, err)
			if tt.want == "" {
				require.Equal(t, ActionNone, diff.Action, "%s: %s", tt.reason, diff.Diff)
				return
			}
			require.Equal(t, ActionChange, diff.Action, tt.reason)
			require.Contains(t, diff.Diff, tt.want, tt.reason)
		})
	}
}

// TestInvalid is about objects of which the API server calls the apply invalid: an edit may be in the way, which
// the operator undoes first.
func TestInvalid(t *testing.T) {
	const (
		left = `{"f:metadata":{"f:labels":{"f:app":{}}}}`
		both = `{"f:spec":{"f:type":{},"f:rolling":{"f:surge":{}}}}`
	)
	tests := map[string]struct {
		reason, configuration, live string
		reverted, removed           []string
	}{
		"Union": {
			reason: "one member removed, another one added", configuration: `{"spec":{"type":{"of":"a"}}}`,
			live:     entries(left, `{"f:spec":{"f:rolling":{"f:surge":{}}}}`) + "spec: {rolling: {surge: 1}}",
			reverted: []string{`spec.type was removed and should be {"of":"a"}`}, removed: []string{`spec.rolling, which "kubectl-edit" added`},
		},
		"Changed": {
			reason: "a value changed, and a field added that goes with it alone", configuration: `{"spec":{"type":"Recreate"}}`,
			live:     entries(left, both) + "spec: {type: Rolling, rolling: {surge: 1}}",
			reverted: []string{`spec.type is "Rolling" and should be "Recreate", set by "kubectl-edit"`}, removed: []string{`spec.rolling, which "kubectl-edit" added`},
		},
		"DefaultedKey": {
			reason: "an item of two keys, of which the manifest leaves out one", configuration: `{"spec":{"ports":[{"port":80}]}}`,
			live:     entries(left, `{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`) + "spec: {ports: [{port: 81, protocol: TCP}]}",
			reverted: []string{`spec.ports[port=80] was removed and should be {"port":80}`}, removed: []string{`spec.ports[port=81,protocol="TCP"], which "kubectl-edit" added`},
		},
		"Elsewhere": {
			reason: "a key moved to another map, which excludes it", configuration: `{"data":{"a":"1"}}`,
			live:     entries(left, `{"f:binary":{"f:a":{}}}`) + "binary: {a: MQ==}",
			reverted: []string{`data was removed and should be {"a":"1"}`}, removed: []string{`binary, which "kubectl-edit" added`},
		},
		"Immutable": {
			reason: "the manifest has another value, and a label of another tool is not in the way", configuration: `{"spec":{"type":"Recreate"}}`,
			live: entries(`{"f:spec":{"f:type":{}}}`, `{"f:metadata":{"f:labels":{"f:team":{}}}}`) + "  labels: {team: web}\nspec: {type: Rolling}",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := objectOf(t, "apiVersion: v1\nkind: Thing\nmetadata:\n  name: web"+tt.live)
			head := `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"web"},`
			o := &desired.Object{Body: []byte(head + strings.TrimPrefix(tt.configuration, "{"))}
			invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "web", field.ErrorList{field.Forbidden(field.NewPath("spec"), "may not be")})
			diff, err := differOf().failed(t.Context(), &ObjectDifference{}, o, live, invalid, func() bool { return true })
			require.NoError(t, err)
			require.Equal(t, tt.reverted, diff.Reverted, tt.reason)
			require.Equal(t, tt.removed, diff.AlsoRemoved, tt.reason)
			if tt.removed == nil {
				require.Equal(t, ActionRefuse, diff.Action, tt.reason)
				return
			}
			require.Equal(t, ActionChange, diff.Action, tt.reason)
			require.Contains(t, diff.Why, "an edit is in the way, which is removed first: ", tt.reason)
		})
	}
	_, err := differOf().failed(t.Context(), &ObjectDifference{}, &desired.Object{}, nil, errors.New("connection refused"), nil)
	require.ErrorContains(t, err, "connection refused", "no answer of the API server")
}

// TestDepartures: what becomes of an object that its VidraResource no longer wants.
func TestDepartures(t *testing.T) {
	const (
		ours    = `{"f:data":{"f:a":{}}}`
		claim   = `{"f:metadata":{"f:annotations":{"f:owner.vidraresource.infrahub.operators.com/other":{}}}}`
		another = "  - {manager: vidra/other, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: "
		exempt  = "  annotations: {break-glass-until: TIME, break-glass-reason: incident}\n"
		keep    = "  annotations: {keep: \"true\"}\n"
		left    = "it is no longer in the manifest"
		waits   = ". This waits for the end of its break-glass: its annotations exempt it until "
	)
	page := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n"
	shared := entries(ours, ours) + another + ours + "}\n"
	tests := map[string]struct {
		reason, live string
		change       func(vr *v1alpha1.VidraResource)
		// received is the manifest of the VidraResource other.
		received    string
		action, why string
	}{
		"Left":          {reason: "no other owner", live: entries(ours, ours), action: ActionPrune, why: left},
		"Exempt":        {reason: "break-glass delays it", live: exempt + entries(ours, ours), action: ActionPrune, why: left + waits},
		"Shared":        {reason: "another VidraResource applied it", live: shared, received: page, action: ActionRelease, why: left + ", and other owners keep it: vidra/other"},
		"SharedExempt":  {reason: "it is released at the end of its break-glass", live: exempt + shared, received: page, action: ActionRelease, why: left + ", and other owners keep it: vidra/other" + waits},
		"OrphanExempt":  {reason: "break-glass delays deletions, not releases", live: exempt + shared, received: page, change: func(vr *v1alpha1.VidraResource) { vr.Spec.Prune = new(bool) }, action: ActionRelease, why: left + ", and spec.prune is false: it stays, unmanaged"},
		"Claimed":       {reason: "another VidraResource marked it, and has it in its manifest", live: entries(ours, ours) + another + claim + "}\n", received: page, action: ActionMove, why: "to VidraResource other, which has it in its manifest"},
		"ClaimedBefore": {reason: "the manifest dropped it", live: entries(ours, ours) + another + claim + "}\n", action: ActionRelease, why: left + ", and other owners keep it: vidra/other"},
		"Received":      {reason: "another VidraResource has it in its manifest", live: entries(ours, ours), received: page, action: ActionMove, why: "to VidraResource other, which has it in its manifest"},
		"Kept":          {reason: "the annotation", live: keep + entries(ours, ours), received: page, action: ActionRelease, why: left + ", and the annotation keep has it stay, unmanaged"},
		"Foreign":       {reason: "it was released", live: "\n", action: ActionRelease, why: left + ", and Vidra does not own it any more"},
		"ForeignKept":   {reason: "it was released: nothing is written", live: keep, action: ActionRelease, why: left + ", and Vidra does not own it any more"},
		"Ending":        {reason: "its deletion cannot be stopped", live: exempt + "  deletionTimestamp: \"2026-01-02T03:04:05Z\"\n  finalizers: [example.com/wait]\n" + entries(ours, ours), action: ActionPrune, why: left + ". Its deletion has begun, and waits for "},
		"NoPrune":       {reason: "a change", change: func(vr *v1alpha1.VidraResource) { vr.Spec.Prune = new(bool) }, live: entries(ours, ours), action: ActionRelease, why: left + ", and spec.prune is false: it stays, unmanaged"},
		"Deleting":      {reason: "a deletion", change: deleting, live: entries(ours, ours), action: ActionPrune, why: "the VidraResource is being deleted"},
		"Orphan": {reason: "a deletion that leaves the objects", live: entries(ours, ours), change: func(vr *v1alpha1.VidraResource) {
			deleting(vr)
			vr.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		}, action: ActionRelease, why: "the VidraResource is being deleted, and spec.deletionPolicy is Orphan: it stays, unmanaged"},
		"UnknownPolicy": {reason: "a policy of another version deletes nothing", live: entries(ours, ours), change: func(vr *v1alpha1.VidraResource) {
			deleting(vr)
			vr.Spec.DeletionPolicy = "Archive"
		}, action: ActionRelease, why: "the VidraResource is being deleted, and spec.deletionPolicy is Archive: it stays, unmanaged"},
	}
	marks := strings.NewReplacer("break-glass-until", v1alpha1.BreakGlassUntilAnnotation, "break-glass-reason", v1alpha1.BreakGlassReasonAnnotation,
		"keep", v1alpha1.KeepAnnotation, "TIME", strconv.Quote(time.Now().Add(time.Hour).Format(time.RFC3339)))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, diff := differOf(), &ObjectDifference{}
			if tt.change != nil {
				tt.change(d.runner.VR)
			}
			live := objectOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: shop\n  uid: \"1\"\n"+marks.Replace(tt.live))
			id := object.IdentityIn(live)
			other := &v1alpha1.VidraResource{}
			other.Name, other.Spec.Manifest = "other", cmp.Or(tt.received, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: index, namespace: shop}\n")
			entry := object.NewEntry(id, live.GroupVersionKind())
			entry.UID = "1"
			other.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{*entry}
			d.moves.others = func(context.Context) ([]*v1alpha1.VidraResource, error) { return []*v1alpha1.VidraResource{other}, nil }
			about := &departure{differ: d, diff: diff, entry: entry, key: trigger.ObjectKey{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "shop", Name: "page"}, of: policy.Departure{
				Live: live, Owned: d.runner.Owns(live), Orphans: d.runner.VR.Orphans(), Members: &policy.Members{}, Now: time.Now(), MoveEnds: time.Now().Add(time.Hour),
			}}
			got, err := about.describe(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.action, got.Action, "%s: %s", tt.reason, got.Why)
			if strings.HasSuffix(tt.why, " ") {
				require.Contains(t, got.Why, tt.why, tt.reason)
			} else {
				require.Equal(t, tt.why, got.Why, tt.reason)
			}
			namespace := object.Identity{GroupKind: object.NamespaceKind, Name: "shop"}
			_, undecided := about.of.Members.Undecided.In(namespace)
			require.Equal(t, strings.Contains(got.Why, waits) || got.Action == ActionMove && name == "Received", undecided, "the Namespace waits for it")
		})
	}
}

// deleting makes a VidraResource one that is being deleted.
func deleting(vr *v1alpha1.VidraResource) { vr.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// TestRecreatedJob: a Job whose deletion has begun is completed if it has ended successfully, and is created again otherwise, as the operator sees its
// last status.
func TestRecreatedJob(t *testing.T) {
	for status, want := range map[string]string{"{active: 1}": ActionCreate, "{conditions: [{type: Complete, status: 'True'}]}": ActionNone} {
		live := objectOf(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: page, namespace: shop, deletionTimestamp: '2026-01-02T03:04:05Z', finalizers: [foregroundDeletion]}\n"+
			"spec: {ttlSecondsAfterFinished: 60}\nstatus: "+status+"\n")
		id := object.IdentityOf(&v1alpha1.ManagedResourceStatus{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "page"})
		d := differOf()
		d.runner.VR.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "page", UID: "1", Configuration: "c"}}
		o := &desired.Object{ID: id, GVK: live.GroupVersionKind(), Configuration: "c", Lifetime: desired.Lifetime{RemovesItself: true}}
		require.Equal(t, want, d.recreated(&ObjectDifference{Action: ActionNone}, o, live).Action, status)
	}
}
