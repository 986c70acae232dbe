package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// inventory is an inventory of ConfigMaps with a health.
func inventory(n int, health func(i int) v1alpha1.ObjectHealth) (entries []v1alpha1.ManagedResourceStatus) {
	for i := range n {
		e := object.NewEntry(fixture.IDOf(fixture.ConfigMapKind, "shop", fmt.Sprintf("page-%d", i)), fixture.ConfigMapKind)
		e.Health, e.Message = health(i), "of before"
		entries = append(entries, *e)
	}
	return entries
}

// TestDetails: an entry has the message of the worst problem of its object, while there is one.
func TestDetails(t *testing.T) {
	t.Parallel()
	entries := inventory(3, func(int) v1alpha1.ObjectHealth { return v1alpha1.ObjectCurrent })
	id := func(i int) object.Identity { return object.IdentityOf(&entries[i]) }
	o := Outcome{now: time.Now(), objects: objectFacts{entries: entries, problems: []v1alpha1.Problem{
		wrong(id(1), v1alpha1.ReasonDriftDetected, "it was changed"), wrong(id(1), v1alpha1.ReasonApplyFailed, "no"),
		wrong(id(2), v1alpha1.ReasonApplyFailed, strings.Repeat("x", 2*v1alpha1.MaxObjectMessage)),
	},
	}}
	after := Summarize(v1alpha1.VidraResourceStatus{}, o)
	require.Empty(t, after.ManagedResources[0].Message)
	require.Equal(t, "no", after.ManagedResources[1].Message)
	require.Len(t, after.ManagedResources[2].Message, v1alpha1.MaxObjectMessage)
	o.objects.problems, o.objects.entries = nil, after.ManagedResources
	for _, e := range Summarize(after, o).ManagedResources {
		require.Empty(t, e.Message)
		require.Equal(t, v1alpha1.ObjectCurrent, e.Health)
	}
}

// TestDetailsAreBounded: thousands of objects, and messages as long as they can be, take no more room than there is. That an
// object is not healthy is left out last.
func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	const many = 10_000
	entries := inventory(many, func(i int) v1alpha1.ObjectHealth {
		if i%10 == 0 {
			return v1alpha1.ObjectUnhealthy
		}
		return v1alpha1.ObjectCurrent
	})
	o := Outcome{now: time.Now(), objects: objectFacts{entries: entries}}
	for i := range v1alpha1.MaxProblems {
		o.objects.problems = append(o.objects.problems, wrong(object.IdentityOf(&entries[i]), v1alpha1.ReasonApplyFailed, strings.Repeat(`"`, 300)))
	}
	size := func(entries []v1alpha1.ManagedResourceStatus) int {
		text, err := json.Marshal(entries)
		require.NoError(t, err)
		return len(text)
	}
	bare := inventory(many, func(int) v1alpha1.ObjectHealth { return "" })
	for i := range bare {
		bare[i].Message = ""
	}
	status := Summarize(v1alpha1.VidraResourceStatus{}, o)
	after := status.ManagedResources
	require.Greater(t, len(status.Problems), v1alpha1.MaxProblems/2)
	require.LessOrEqual(t, size(after)-size(bare), maxDetails)
	counts := map[v1alpha1.ObjectHealth]int{}
	for i, e := range after {
		counts[e.Health]++
		require.Equal(t, i < len(status.Problems), e.Message != "")
	}
	require.Equal(t, many/10, counts[v1alpha1.ObjectUnhealthy], "it is left out last")
	require.Less(t, counts[v1alpha1.ObjectCurrent], many/10)

	after = Summarize(v1alpha1.VidraResourceStatus{}, Outcome{now: o.now, objects: objectFacts{entries: inventory(2000, func(int) v1alpha1.ObjectHealth { return v1alpha1.ObjectCurrent })}}).ManagedResources
	for _, e := range after {
		require.Equal(t, v1alpha1.ObjectCurrent, e.Health)
	}
}

// TestChanged: only what is new is written, and the health of healthy objects waits for it.
func TestChanged(t *testing.T) {
	of := func(health v1alpha1.ObjectHealth, heals string) v1alpha1.VidraResourceStatus {
		return v1alpha1.VidraResourceStatus{LastHandledReconcileAt: heals, ManagedResources: []v1alpha1.ManagedResourceStatus{{Name: "a", Health: health}}}
	}
	tests := map[string]struct {
		before, after v1alpha1.VidraResourceStatus
		want          bool
	}{
		"nothing":                  {of("", "1"), of("", "1"), false},
		"health of an upgrade":     {of("", "1"), of(v1alpha1.ObjectCurrent, "1"), false},
		"with something else":      {of("", "1"), of(v1alpha1.ObjectCurrent, "2"), true},
		"in progress":              {of("", "1"), of(v1alpha1.ObjectInProgress, "1"), true},
		"healthy again":            {of(v1alpha1.ObjectInProgress, "1"), of(v1alpha1.ObjectCurrent, "1"), true},
		"health is lost":           {of(v1alpha1.ObjectCurrent, "1"), of("", "1"), true},
		"kubeconfig of an upgrade": {v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{KubeconfigDigest: "x"}, false},
		"account of an upgrade":    {v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{AppliedAs: &v1alpha1.AppliedAsStatus{ServiceAccount: "a/b"}}, false},
		"account changed": {v1alpha1.VidraResourceStatus{AppliedAs: &v1alpha1.AppliedAsStatus{ServiceAccount: "a/b"}}, v1alpha1.VidraResourceStatus{
			AppliedAs: &v1alpha1.AppliedAsStatus{ServiceAccount: "a/c"}}, true},
		"kubeconfig rotated": {v1alpha1.VidraResourceStatus{KubeconfigDigest: "x"}, v1alpha1.VidraResourceStatus{KubeconfigDigest: "y"}, true},
		"another object":     {of("", "1"), v1alpha1.VidraResourceStatus{LastHandledReconcileAt: "1"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			health := append([]v1alpha1.ManagedResourceStatus{}, tt.after.ManagedResources...)
			require.Equal(t, tt.want, Changed(tt.before, tt.after))
			require.ElementsMatch(t, health, tt.after.ManagedResources, "it is not changed")
		})
	}
}

// TestOthersAreBounded: the records of the fields of other managers in thousands of objects take no more room than there is, and those
// that an earlier version did not write wait for the next write.
func TestOthersAreBounded(t *testing.T) {
	t.Parallel()
	entries := inventory(10_000, func(int) v1alpha1.ObjectHealth { return "" })
	size := func(all []v1alpha1.ManagedResourceStatus) int {
		text, err := json.Marshal(all)
		require.NoError(t, err)
		return len(text)
	}
	without := withDetails(entries, nil)
	bare := size(without)
	before := v1alpha1.VidraResourceStatus{ManagedResources: append([]v1alpha1.ManagedResourceStatus{}, without...)}
	for i := range entries {
		entries[i].Others = "AbCd"
	}
	require.False(t, Changed(before, v1alpha1.VidraResourceStatus{ManagedResources: entries}), "an upgrade writes nothing")
	after := withDetails(append([]v1alpha1.ManagedResourceStatus{}, entries...), nil)
	require.Equal(t, "AbCd", after[0].Others)
	require.LessOrEqual(t, size(after)-bare, maxOthers)
	before.ManagedResources = entries[:1]
	changed := entries[0]
	changed.Others = "AbCe"
	require.True(t, Changed(before, v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{changed}}))
}
