package events

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestNotesNameEveryObject: what is long makes room for what else there is.
func TestNotesNameEveryObject(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		objects    int
		text, name int
		omitted    string
	}{
		"One":       {reason: "One has all the room.", objects: 1, text: 5000},
		"Several":   {reason: "Long texts share the room.", objects: 10, text: 1000},
		"Twenty":    {reason: "As many as a condition names have room for their names.", objects: 20, text: 300},
		"LongNames": {reason: "How many have no room is said.", objects: 20, text: 300, name: 240, omitted: "and 17 more"},
		"Short":     {reason: "What fits is not cut.", objects: 3, text: 5},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []part
			for i := range tc.objects {
				texts = append(texts, part{fmt.Sprintf("ConfigMap shop/%02d%s", i, strings.Repeat("n", tc.name)), strings.Repeat("é", tc.text/2)})
			}
			note := join(texts, MaxNote)
			require.LessOrEqual(t, len(note), MaxNote)
			require.True(t, len(note) > MaxNote-10*tc.objects-len(texts[0].String()) || tc.text < 100, "%d bytes are used: %s", len(note), tc.reason)
			shown := strings.Split(note, separator)
			if tc.omitted != "" {
				require.Equal(t, tc.omitted, shown[len(shown)-1], tc.reason)
				shown = shown[:len(shown)-1]
			} else {
				require.Len(t, shown, tc.objects, tc.reason)
			}
			for i, text := range shown {
				require.Contains(t, text, texts[i].object+": é", tc.reason)
			}
		})
	}
	require.Equal(t, "ConfigMap a: no; ConfigMap b: "+strings.Repeat("x", 50)+display.Ellipsis,
		join([]part{{"ConfigMap a", "no"}, {"ConfigMap b", strings.Repeat("x", 90)}}, 15+2+13+50+3), "a short text leaves its share to a long one")
}

// TestRelated: an Event about one object says which it is, so that it is found by it.
func TestRelated(t *testing.T) {
	web := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	namespace := of(corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop"}, problem(v1alpha1.ReasonApplyFailed, "", "no"))
	two := listing(broken, namespace)
	for name, tc := range map[string]struct {
		reason        string
		before, after v1alpha1.VidraResourceStatus
		changes       []Change
		want          *corev1.ObjectReference
	}{
		"Problem":   {reason: "An object fails.", before: fine, after: broken, want: &web},
		"Recovered": {reason: "It is mended.", before: broken, after: fine, want: &web},
		"SecondProblem": {
			reason: "Another object fails.", before: failing(namespace), after: two, want: &web,
		},
		"Several":     {reason: "Several objects fail.", before: fine, after: two},
		"NoObject":    {reason: "The manifest is no object.", before: fine, after: failed(v1alpha1.ReasonManifestInvalid, "document 1: bad")},
		"Unhealthy":   {reason: "It does not work.", before: fine, after: listing(fine, sick), want: &web},
		"Warned":      {reason: "It is warned of.", before: fine, after: listing(fine, of(web, warned("", "old"))), want: &web},
		"Pruned":      {reason: "One object went.", before: fine, after: fine, changes: []Change{{Action: Pruned, Object: web}}, want: &web},
		"Released":    {reason: "One object was left to others.", before: fine, after: fine, changes: []Change{{Action: Released, Object: web}}, want: &web},
		"Orphaned":    {reason: "One object was left.", before: fine, after: fine, changes: []Change{{Action: Orphaned, Object: web}}, want: &web},
		"SeveralWent": {reason: "Several objects went.", before: fine, after: fine, changes: []Change{{Action: Pruned, Object: web}, {Action: Orphaned, Object: deployment}}},
	} {
		t.Run(name, func(t *testing.T) {
			all := Transitions(owner, tc.before, tc.after, tc.changes)
			require.Len(t, all, 1)
			require.Equal(t, tc.want, all[0].Related, tc.reason)
		})
	}
}

// TestVariants: what is not the same for a person is another series, also where a
// long text has no room for its end.
func TestVariants(t *testing.T) {
	long := strings.Repeat("it is denied for a long reason ", 100)
	one := failing(problem(v1alpha1.ReasonApplyFailed, "a", long))
	two := listing(one, problem(v1alpha1.ReasonApplyFailed, "b", long))
	three := listing(one, problem(v1alpha1.ReasonApplyFailed, "c", long))
	a, ab, ac := Transitions(owner, fine, one, nil), Transitions(owner, fine, two, nil), Transitions(owner, fine, three, nil)
	require.NotEqual(t, a[0].Variant, ab[0].Variant)
	require.NotEqual(t, ab[0].Variant, ac[0].Variant)
}

// TestNotesOfOneGeneration: Events whose notes differ are several series, as a series keeps only its first note.
func TestNotesOfOneGeneration(t *testing.T) {
	invalid := func(message string) v1alpha1.VidraResourceStatus {
		return listing(fine, v1alpha1.Problem{Reason: v1alpha1.ReasonHealthCheckInvalid, Message: message, Conditions: []string{v1alpha1.ConditionHealthy}})
	}
	ended := func(names ...string) v1alpha1.VidraResourceStatus {
		status := *fine.DeepCopy()
		for _, name := range names {
			status.ManagedResources = append(status.ManagedResources, v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: "Pod", Name: name, UID: name, State: v1alpha1.ObjectCompleted})
		}
		return status
	}
	watching := func(reason string, resources ...string) v1alpha1.VidraResourceStatus {
		status := with(fine, v1alpha1.ConditionWatching, metav1.ConditionFalse, reason, "")
		for _, resource := range resources {
			status = listing(status, v1alpha1.Problem{Object: &v1alpha1.ProblemObject{APIVersion: "v1", Resource: resource}, Reason: v1alpha1.ReasonWatchFailed, Message: resource, Conditions: []string{v1alpha1.ConditionWatching}})
		}
		return status
	}
	orphaned := func(note string) []Change { return []Change{{Action: Orphaned, Object: deployment, Note: note}} }
	for name, tc := range map[string]struct {
		reason   string
		one, two []Event
	}{
		"HealthCheckInvalid": {
			"Expressions are corrected one by one.",
			Transitions(owner, fine, invalid("spec.healthChecks[0]: no"), nil), Transitions(owner, fine, invalid("spec.healthChecks[1]: no"), nil),
		},
		"Completed": {
			"A source of the manifest changes without a new generation, and one that had ended ends again, beside another.",
			Transitions(owner, fine, ended("a"), nil), Transitions(owner, fine, ended("a", "b"), nil),
		},
		"WatchRestored": {
			"The last one ends what was wrong.",
			Transitions(owner, watching(v1alpha1.ReasonWatchFailed, "secrets", "pods"), watching(v1alpha1.ReasonWatchFailed, "pods"), nil),
			Transitions(owner, watching(v1alpha1.ReasonWatchFailed, "secrets"), watching(v1alpha1.ReasonSynced), nil),
		},
		"Orphaned": {"It stays for another reason.", Transitions(owner, fine, fine, orphaned("kept")), Transitions(owner, fine, fine, orphaned("another owner"))},
	} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, tc.one, 1)
			require.Len(t, tc.two, 1)
			require.NotEqual(t, tc.one[0].Note, tc.two[0].Note, tc.reason)
			require.NotEqual(t, tc.one[0].Variant, tc.two[0].Variant, tc.reason)
		})
	}
}

// TestCleanNote: a note is one line, and shows the characters that a terminal or a page would not.
func TestCleanNote(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"blanks":  {"values keep their blanks", `data.a is "x  y"`, `data.a is "x  y"`},
		"lines":   {"lines become one", "a\n\tb\u2029c", "a  b c"},
		"escapes": {"an escape of a terminal is shown", "\x1b[2K\u009b2K", `\x1b[2K\u009b2K`},
		"bidi":    {"a change of the direction is shown", "a \u202eb\u2066c", `a \u202eb\u2066c`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, CleanNote(tt.text), tt.reason)
			require.Equal(t, tt.want, CleanNote(tt.want), "a clean note stays as it is")
		})
	}
}

// TestDescriptionsAreBounded has an edit of tens of thousands of fields with long paths: the text ends soon after the part that a note shows.
func TestDescriptionsAreBounded(t *testing.T) {
	const n, most = 20_000, 1 << 20
	changes := make([]ownership.Change, n)
	for i := range changes {
		changes[i] = ownership.Change{Path: fmt.Sprintf("spec.%s.key-%d", strings.Repeat("k", 1_000), i), Kind: ownership.Changed, Found: "1", Restored: "2", Manager: "kubectl"}
	}
	for name, describe := range map[string]func([]ownership.Change) string{"Fields": Fields, "Differences": Differences, "fieldPath": fieldPath} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := describe(changes)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most), name)
		require.Contains(t, text, changes[0].Path[:maxFieldPath-len("…")], name)
	}
	require.Regexp(t, `key-3 is 1 and should be 2, set by "kubectl"; and 19996 more$`, Differences(changes), "the others are counted")
	require.NotContains(t, Differences(changes[:4]), "more")
}

// TestBriefNote: the note of an Event is one line, and so is the name of a Role in it.
func TestBriefNote(t *testing.T) {
	for _, name := range []string{"page", "a\nb", "a\u202eb"} {
		role := corev1.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespace: "shop", Name: name}
		note := Name(role) + ": reverted it" + keepBegin + "the manifest"
		require.Equal(t, "reverted it", BriefNote(note, role), name)
		require.Equal(t, "reverted it", BriefNote(CleanNote(note), role), name)
	}
}
