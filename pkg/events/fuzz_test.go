package events

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// FuzzTransitions feeds Transitions with hostile text. Whatever comes out is in the
// catalogue, and is something that the API server accepts.
func FuzzTransitions(f *testing.F) {
	long := strings.Repeat("aä€😀", 400)
	f.Add("web", "spec.replicas", "5", "kubectl-edit", v1alpha1.ReasonApplyFailed, uint8(1))
	f.Add(long, long, long, long, long, uint8(9))
	f.Add(long[1:], "a\x00b\nc", strings.Repeat("\xff", 999), "\xf0\x9f", v1alpha1.ReasonWatchFailed, uint8(40))
	f.Add(strings.Repeat("\xff", 2000), strings.Repeat("\x1b[31m", 300), "\u202e", strings.Repeat("\xe2\x82", 700), v1alpha1.ReasonPruneFailed, uint8(77))
	actions := []Action{Created, Configured, Restored, Recreated, Relabelled, Pruned, Detected, Contended, Settled, Released, Orphaned}
	f.Fuzz(func(t *testing.T, name, path, value, manager, reason string, how uint8) {
		object := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: name, Name: name}
		change := Change{
			Object: object, Action: actions[int(how)%len(actions)], Note: value,
			Fields: []ownership.Change{{Path: path, Found: value, Restored: value, Manager: manager}},
		}
		before := failing(problem(reason, name, value))
		after := with(failed(reason, path), v1alpha1.ConditionWatching, metav1.ConditionFalse, reason, value)
		after = listing(with(after, v1alpha1.ConditionHealthy, metav1.ConditionFalse, reason, manager), problem(reason, path, manager), problem(manager, name, value))
		if how%2 == 0 {
			before, after = after, fine
		}
		mine := owner
		mine.Name = name
		for _, e := range Transitions(mine, before, after, []Change{change, change}) {
			requireCatalogued(t, e)
			requireAccepted(t, e)
		}
		require.Empty(t, Transitions(mine, before, before, nil))
		require.Empty(t, Transitions(mine, after, after, nil))
	})
}

// requireAccepted checks an Event for what the API server wants of it.
func requireAccepted(t *testing.T, e Event) {
	t.Helper()
	require.NotEmpty(t, e.Note)
	require.Less(t, len(e.Note), 1024)
	require.True(t, utf8.ValidString(e.Note), "%q", e.Note)
	require.Negative(t, strings.IndexFunc(e.Note, unicode.IsControl), "%q", e.Note)
	for _, ref := range []*corev1.ObjectReference{&e.Regarding, e.Related} {
		if ref != nil {
			require.LessOrEqual(t, len(ref.FieldPath), maxFieldPath)
			require.True(t, utf8.ValidString(ref.FieldPath))
		}
	}
}

// TestLongNotesKeepTheirEnd: a long value is shortened, and where to change the object is not.
func TestLongNotesKeepTheirEnd(t *testing.T) {
	field := ownership.Change{Path: "data.text", Found: strings.Repeat("€", 600), Restored: `"b"`, Manager: "kubectl"}
	long := fmt.Sprintf("ConfigMap %s/%s, key %s (spec.manifestFrom[31]), document 5000, line 1000000",
		strings.Repeat("n", 63), strings.Repeat("c", 253), strings.Repeat("k", 253))
	for _, at := range []string{"", place, long} {
		all := Transitions(owner, fine, fine, []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{field}, Place: at}})
		require.Len(t, all, 2)
		for _, e := range all {
			requireAccepted(t, e)
			require.Greater(t, len(e.Note), 900)
		}
		require.True(t, strings.HasSuffix(all[1].Note, "…"+keepBegin+cmp.Or(at, "the manifest of VidraResource web")), all[1].Note)
	}
}
