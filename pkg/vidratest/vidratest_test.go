package vidratest

import (
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

var settings = Object{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "settings"}

// TestObstacles: a VidraResource that reverts edits at once has none, and each cause is named alone.
func TestObstacles(t *testing.T) {
	inOrder := func() *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		entry := object.NewEntry(settings.identity(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{*entry}
		vr.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionWatching, Status: metav1.ConditionTrue},
		}
		return vr
	}
	require.Empty(t, obstacles(inOrder(), settings, "vidra"))
	off := false
	for text, change := range map[string]func(*v1alpha1.VidraResource){
		"is suspended: `kubectl vidra resume shop` ends": func(vr *v1alpha1.VidraResource) {
			vr.Spec.Suspend = true
			vr.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDriftDetected}
		},
		"is being deleted":                         func(vr *v1alpha1.VidraResource) { vr.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"has spec.drift.mode Warn":                 func(vr *v1alpha1.VidraResource) { vr.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn} },
		"reconcileOnEvents false":                  func(vr *v1alpha1.VidraResource) { vr.Spec.Destination.ReconcileOnEvents = &off },
		"has no status: check that the operator":   func(vr *v1alpha1.VidraResource) { vr.Status.Conditions = vr.Status.Conditions[1:] },
		"is not ready: ApplyFailed: no":            func(vr *v1alpha1.VidraResource) { vr.Status.Conditions[0] = failed(v1alpha1.ConditionReady) },
		"does not watch all objects: ApplyFailed":  func(vr *v1alpha1.VidraResource) { vr.Status.Conditions[1] = failed(v1alpha1.ConditionWatching) },
		"does not have ConfigMap shop/settings in": func(vr *v1alpha1.VidraResource) { vr.Status.ManagedResources = nil },
		"by break-glass until 2099-01-31T18:00:00Z": func(vr *v1alpha1.VidraResource) {
			until := metav1.NewTime(time.Date(2099, 1, 31, 18, 0, 0, 0, time.UTC))
			vr.Status.ManagedResources[0].BreakGlass = &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Until: &until}
		},
	} {
		vr := inOrder()
		change(vr)
		got := obstacles(vr, settings, "kubectl vidra")
		require.Len(t, got, 1, text)
		require.Contains(t, got[0], "VidraResource shop ")
		require.Contains(t, got[0], text)
	}
	over := inOrder()
	over.Status.ManagedResources[0].BreakGlass = &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Until: &metav1.Time{Time: time.Now().Add(-time.Hour)}}
	require.Empty(t, obstacles(over, settings, "vidra"), "the operator has yet to write the end of the exemption")
}

func failed(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplyFailed, Message: "no"}
}

// TestSentinel: only annotations that start nothing are edited, and that of Vidra first.
func TestSentinel(t *testing.T) {
	with := func(annotations string) *desired.Object {
		return &desired.Object{Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{` + annotations + `}},"data":{"a":"b"}}`)}
	}
	foreign, described, marked := with(`"external-dns.alpha.kubernetes.io/hostname":"a.example"`), with(`"kubernetes.io/description":"x"`), with(`"`+v1alpha1.DrillAnnotation+`":""`)
	got, key := sentinel([]*desired.Object{foreign, described, marked})
	require.Same(t, marked, got)
	require.Equal(t, v1alpha1.DrillAnnotation, key)
	got, key = sentinel([]*desired.Object{foreign, described})
	require.Same(t, described, got)
	require.Equal(t, "kubernetes.io/description", key)
	got, _ = sentinel([]*desired.Object{foreign, with(`"` + v1alpha1.DrillAnnotation + `":"` + edited + `"`)})
	require.Nil(t, got, "the edit would change nothing")
}

func TestNotHealedError(t *testing.T) {
	e := &NotHealedError{Object: settings, Within: time.Second, Deleted: true, Why: []string{"a", "b"}}
	require.EqualError(t, e, "ConfigMap shop/settings is not healed after 1s: it does not exist: a; b")
	e = &NotHealedError{Object: settings, Within: time.Second, Refused: "no", Changes: []ownership.Change{
		{Path: "data.a", Kind: ownership.Changed, Withheld: true, Manager: "m"},
	}}
	require.EqualError(t, e, `ConfigMap shop/settings is not healed after 1s: data.a (values withheld) was changed, set by "m"; `+
		"the API server refuses an apply: no: check that the operator runs")
	e = &NotHealedError{Object: settings, Refused: "no"}
	require.EqualError(t, e, "ConfigMap shop/settings is not as wanted before the edit: the API server refuses an apply: no: check that the operator runs")
}

// TestWriteJUnit: what did not heal is a failure, what was not measured an error, and any text is XML.
func TestWriteJUnit(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteJUnit(&b, "suite <&>",
		Result{Name: "passed", Took: 5 * time.Millisecond, Output: "]]> \x00"},
		Result{Name: "failed", Took: time.Second, Err: errors.Join(&NotHealedError{Object: settings, Within: time.Second, Deleted: true})},
		Result{Name: "broken", Err: errEnded},
	))
	require.True(t, strings.HasPrefix(b.String(), "<?xml "))
	var suite junitSuite
	require.NoError(t, xml.Unmarshal([]byte(b.String()), &suite), b.String())
	require.Equal(t, "suite <&>", suite.Name)
	require.Equal(t, []int{3, 1, 1}, []int{suite.Tests, suite.Failures, suite.Errors})
	require.Equal(t, "1.0050", suite.Time)
	require.Equal(t, "0.0050", suite.Cases[0].Time)
	require.Equal(t, "]]> \uFFFD", suite.Cases[0].Output)
	require.Nil(t, suite.Cases[0].Failure)
	require.Contains(t, suite.Cases[1].Failure.Text, "it does not exist")
	require.Equal(t, errEnded.Error(), suite.Cases[2].Error.Text)
}
