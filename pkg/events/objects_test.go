package events

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// named is the object of a kind with a number.
func named(kind string, i int) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: fmt.Sprintf("page-%04d", i), UID: "u"}
}

// done is what a reconcile did to many objects.
func done(action Action, many int) []Change {
	var changes []Change
	for i := range many {
		changes = append(changes, Change{Action: action, Object: named(string(action), i)})
	}
	return changes
}

// TestObjectsOfAnEvent: an Event about several objects has them as data, whatever fits into its
// note.
func TestObjectsOfAnEvent(t *testing.T) {
	cases := map[string]struct {
		reason  string
		changes []Change
		note    []string // what the note contains
		named   int      // in the annotation
		related string
	}{
		"One":     {"It is related, which is enough.", done(Created, 1), []string{"1 created, 0 changed. Created Created shop/page-0000"}, 0, "page-0000"},
		"Two":     {"related has room for one.", done(Configured, 2), []string{"Changed Configured shop/page-0000, Configured shop/page-0001"}, 2, ""},
		"Many":    {"The note ends with how many it does not name.", done(Created, 5000), []string{"5000 created", " more"}, maxObjects, ""},
		"Changed": {"A few that changed are named beside many that were created.", append(done(Created, 5000), done(Configured, 3)...), []string{"Configured shop/page-0002", " more. Changed"}, maxObjects, ""},
		"Pruned":  {"So are those that were removed.", done(Pruned, 90), []string{"Removed Pruned shop/page-0000", " more"}, 90, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, tc.changes)
			require.Len(t, all, 1)
			e := all[0]
			require.Len(t, e.Objects, len(tc.changes), tc.reason)
			require.LessOrEqual(t, len(e.Note), MaxNote)
			require.NotContains(t, e.Note, display.Ellipsis, "it is not cut")
			for _, part := range tc.note {
				require.Contains(t, e.Note, part, tc.reason)
			}
			objects := ObjectsOf(e.Annotations())
			require.Len(t, objects, tc.named, tc.reason)
			for i, o := range objects {
				want := tc.changes[i].Object
				want.UID = ""
				require.Equal(t, want, o)
			}
			if tc.related != "" {
				require.Equal(t, tc.related, e.Related.Name)
				return
			}
			require.Nil(t, e.Related)
			other := append([]Change(nil), tc.changes...)
			other[len(other)-1].Object.Name = "other"
			again := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, other)[0]
			require.NotEqual(t, e.Variant, again.Variant, "other objects are another series, although the note does not name them")
		})
	}
}

// TestAnnotationIsBounded: long names take no more room than there is.
func TestAnnotationIsBounded(t *testing.T) {
	changes := done(Created, 100)
	for i := range changes {
		changes[i].Object.Name = strings.Repeat("a", 250) + fmt.Sprint(i)
	}
	e := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, changes)[0]
	text := e.Annotations()[ObjectsAnnotation]
	require.LessOrEqual(t, len(text), maxObjectsBytes)
	require.Greater(t, len(text), maxObjectsBytes*9/10)
	require.NotEmpty(t, ObjectsOf(e.Annotations()))
	require.Empty(t, ObjectsOf(map[string]string{ObjectsAnnotation: "no list"}), "another writer may have written it")
	require.Empty(t, ObjectsOf(nil))
}

// TestObjectsOfAProblem: several objects that fail in one reconcile share an Event, which has all.
func TestObjectsOfAProblem(t *testing.T) {
	status := failing(problem(v1alpha1.ReasonApplyFailed, "a", "no"), problem(v1alpha1.ReasonApplyFailed, "b", "no"), problem(v1alpha1.ReasonApplyFailed, "", "no"))
	all := Transitions(owner, fine, status, nil)
	require.Len(t, all, 1)
	require.Equal(t, []corev1.ObjectReference{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"}, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "b"},
	}, ObjectsOf(all[0].Annotations()))
}
