package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// stateWith is a state of a ConfigMap that vidra/shop applied at a second, or whose key another field manager owns.
func stateWith(kind, value, editor string, second int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"color": value}}}
	at := metav1.NewTime(time.Date(2026, 1, 31, 18, 0, second, 0, time.UTC))
	own, foreign := `{"f:data":{"f:color":{}}}`, `{"f:data":{}}`
	if editor != "" {
		own, foreign = foreign, own
	}
	entries := []metav1.ManagedFieldsEntry{{Manager: "vidra/shop", Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(own), Time: &at}}
	if editor != "" {
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: editor, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(foreign), Time: &at})
	}
	u.SetManagedFields(entries)
	return u
}

// sensitiveState is a state with the mark of a sensitive object.
func sensitiveState(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetAnnotations(map[string]string{ownership.SensitiveAnnotation: "true"})
	return u
}

func TestObserver(t *testing.T) {
	began := time.Now()
	for name, test := range map[string]struct {
		reason string
		kind   string
		states []*unstructured.Unstructured
		want   string
		shown  bool
		late   bool
	}{
		"edit":   {reason: "an edit and its revert", kind: "ConfigMap", states: []*unstructured.Unstructured{stateWith("ConfigMap", "red", "kubectl-edit", 0), stateWith("ConfigMap", "blue", "", 0)}, want: "kubectl-edit", shown: true},
		"secret": {reason: "values of a Secret are withheld", kind: "Secret", states: []*unstructured.Unstructured{stateWith("Secret", "red", "kubectl-edit", 0), stateWith("Secret", "blue", "", 0)}, want: "kubectl-edit"},
		"marked": {reason: "a user marked the object before, and removed the mark", kind: "ConfigMap", states: []*unstructured.Unstructured{
			sensitiveState(stateWith("ConfigMap", "blue", "", 0)), stateWith("ConfigMap", "blue", "", 0), stateWith("ConfigMap", "red", "kubectl-edit", 0), stateWith("ConfigMap", "blue", "", 0)}, want: "kubectl-edit"},
		"late":     {reason: "the exposure of an edit during an interruption is unknown", kind: "ConfigMap", states: []*unstructured.Unstructured{stateWith("ConfigMap", "red", "kubectl-edit", 0), stateWith("ConfigMap", "blue", "", 0)}, want: "kubectl-edit", shown: true, late: true},
		"manifest": {reason: "an apply of a changed manifest is no edit", kind: "ConfigMap", states: []*unstructured.Unstructured{stateWith("ConfigMap", "green", "", 5)}},
		"same":     {reason: "an event without a change is no edit", kind: "ConfigMap", states: []*unstructured.Unstructured{stateWith("ConfigMap", "blue", "", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &observer{vidraResource: "shop", manager: "vidra/shop"}
			require.Nil(t, w.see(stateWith(test.kind, "blue", "", 0), began, false), "the first state is clean")
			var seen *edit
			for i, state := range test.states {
				if e := w.see(state, began.Add(time.Duration(i)*40*time.Millisecond), test.late); e != nil {
					seen = e
				}
			}
			if test.want == "" {
				require.Nil(t, seen, test.reason)
				return
			}
			require.NotNil(t, seen, test.reason)
			exposure := 40 * time.Millisecond
			if test.late {
				exposure = 0
			}
			require.Equal(t, exposure, seen.Exposure(), test.reason)
			require.False(t, seen.Reverted.IsZero())
			require.Len(t, seen.Changes, 1)
			require.Equal(t, test.want, seen.Changes[0].Manager)
			require.Equal(t, test.shown, seen.Changes[0].Found != "", test.reason)
			if !test.shown {
				require.NotContains(t, seen.Diff, "red")
				require.NotContains(t, seen.Diff, "blue")
			}
			require.Nil(t, w.pending)
		})
	}
}

// TestObserverWithoutState has an object that was deleted before it was read, and that another client created again.
func TestObserverWithoutState(t *testing.T) {
	w := &observer{vidraResource: "shop", manager: "vidra/shop"}
	deleted := w.gone(time.Now(), false)
	foreign := stateWith("ConfigMap", "red", "", 0)
	foreign.SetManagedFields(nil)
	require.Nil(t, w.see(foreign, time.Now(), false))
	require.True(t, deleted.Reverted.IsZero(), "the VidraResource has not created it")
	require.Same(t, deleted, w.see(stateWith("ConfigMap", "blue", "", 0), time.Now(), false))
	require.False(t, deleted.Reverted.IsZero())
}

// TestDiffOfLists: a withheld value in a list counts as edited only if it was.
func TestDiffOfLists(t *testing.T) {
	pod := func(image string, values ...string) *unstructured.Unstructured {
		var env []any
		for _, value := range values {
			env = append(env, map[string]any{"name": "KEY", "value": value})
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"image": image, "env": env}}}}}
	}
	diff := diffOf(pod("a:2", "same", "other"), pod("a:1", "same", "first"), ownership.Disclose(false, false, false))
	require.Contains(t, diff, "\n       value: '***'\n", "the same value")
	require.Contains(t, diff, "\n-      value: '*** (edited)'\n-    image: a:2\n+      value: '*** (reverted)'\n+    image: a:1\n")
	require.Equal(t, 1, strings.Count(diff, "(edited)"), "the other value alone")
}
