package events

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

var (
	owner      = corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "o1"}
	deployment = corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "d1"}
	replicas   = ownership.Change{Path: "spec.replicas", Found: "5", Restored: "2", Manager: "kubectl-edit"}
)

// ready is a status whose Ready condition is as given.
func ready(status metav1.ConditionStatus, reason, message string) v1alpha1.VidraResourceStatus {
	return v1alpha1.VidraResourceStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message},
	}}
}

// transition is a row of TestTransitions.
type transition struct {
	reason        string
	before, after v1alpha1.VidraResourceStatus
	changes       []Change
	want          []string // type reason/action regarding: note
}

func TestTransitions(t *testing.T) {
	for name, tc := range transitions() {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Transitions(owner, tc.before, tc.after, tc.changes) {
				got = append(got, e.Type+" "+e.Reason+"/"+e.Action+" "+Name(e.Regarding)+": "+e.Note)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestEveryActionHasAMeaning: an Action that the table lacks has no Event.
func TestEveryActionHasAMeaning(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("transitions.go")
	require.NoError(t, err)
	declared := regexp.MustCompile(`\w+ Action = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, declared, len(meanings))
	for _, d := range declared {
		require.Contains(t, meanings, Action(d[1]))
	}
}

// TestCatalogue holds the catalogue against the rows of TestTransitions: what is
// in the one occurs in the other.
func TestCatalogue(t *testing.T) {
	told := map[string]bool{}
	for name, tc := range transitions() {
		for _, e := range Transitions(owner, tc.before, tc.after, tc.changes) {
			requireCatalogued(t, e)
			told[e.Reason+"/"+e.Action] = true
		}
		if len(tc.changes) == 0 {
			require.Empty(t, Transitions(owner, tc.after, tc.after, nil), "%s: what stays is not told again", name)
			require.Empty(t, Transitions(owner, tc.before, tc.before, nil), "%s: what stays is not told again", name)
		}
	}
	known := map[string]bool{}
	for _, entry := range Catalogue() {
		require.False(t, known[entry.Reason], "%s is there twice", entry.Reason)
		known[entry.Reason] = true
		require.NotEmpty(t, entry.When)
		require.NotEmpty(t, entry.Do)
		for _, action := range entry.Actions {
			require.True(t, told[entry.Reason+"/"+action], "no row of TestTransitions tells %s/%s", entry.Reason, action)
		}
	}
	for reason, action := range problems {
		require.True(t, known[reason], reason)
		require.True(t, told[reason+"/"+action], "no row of TestTransitions tells the problem %s", reason)
	}
}

// requireCatalogued checks that the catalogue has an Event as it is.
func requireCatalogued(t *testing.T, e Event) {
	t.Helper()
	i := slices.IndexFunc(catalogue, func(entry Entry) bool { return entry.Reason == e.Reason })
	require.GreaterOrEqual(t, i, 0, "%s is not in the catalogue", e.Reason)
	require.Equal(t, catalogue[i].Type, e.Type, e.Reason)
	require.Contains(t, catalogue[i].Actions, e.Action, e.Reason)
	require.Equal(t, e.OnObject, e.Regarding.Kind != v1alpha1.Kind, e.Reason)
	if !catalogue[i].OnBoth {
		require.Equal(t, catalogue[i].OnObject, e.OnObject, e.Reason)
	}
}

func TestDifferentFieldsAreDifferentSeries(t *testing.T) {
	image := ownership.Change{Path: "spec.template", Found: "a", Restored: "b"}
	one := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{},
		[]Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}}})
	two := Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{},
		[]Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{image}}})
	require.NotEqual(t, one[0].Related, two[0].Related, "the first note of a series is the only one that is kept")
	require.NotEqual(t, one[1].Regarding, two[1].Regarding)
}

// TestEditsAreSeriesOfTheirOwn: another user or another value is another series, each with its note. Of a value
// that is withheld nothing is known, so another one is the same series.
func TestEditsAreSeriesOfTheirOwn(t *testing.T) {
	of := func(c ownership.Change) []string {
		var variants []string
		for _, e := range Transitions(owner, fine, fine, []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{c}, Place: place}}) {
			variants = append(variants, e.Variant)
		}
		require.Len(t, variants, 2)
		return variants
	}
	edit := ownership.Change{Path: "spec.replicas", Found: "5", Restored: "2", User: "alice", Manager: "kubectl-edit"}
	user, value := edit, edit
	user.User, value.Found = "bob", "6"
	require.NotEqual(t, of(edit), of(user))
	require.NotEqual(t, of(edit), of(value))
	edit.Withheld, value.Withheld, user.Withheld = true, true, true
	require.Equal(t, of(edit), of(value))
	require.NotEqual(t, of(edit), of(user))
}

func TestFieldNotes(t *testing.T) {
	cases := map[string]struct {
		reason string
		change ownership.Change
		want   string
	}{
		"Withheld": {
			"A value of a Secret is not shown.",
			ownership.Change{Path: "data.password", Kind: ownership.Changed, Withheld: true, Manager: "kubectl-edit"},
			`reverted data.password (values withheld); "kubectl-edit" had changed it`,
		},
		"Subresource": {
			"Who scales writes through a subresource.",
			ownership.Change{Path: "spec.replicas", Found: "9", Restored: "2", Manager: "hpa", Subresource: "scale"},
			`reverted spec.replicas to 2; "hpa" had set it to 9 through scale`,
		},
		"Taken": {
			"Only the ownership was restored.",
			ownership.Change{Path: "spec.replicas", Kind: ownership.Taken, Found: "2", Restored: "2", Manager: "kubectl"},
			`took ownership of spec.replicas = 2 again; "kubectl" had owned it`,
		},
		"WithheldAndTaken": {
			"What happened is told, the value is not.",
			ownership.Change{Path: "data.password", Kind: ownership.Taken, Withheld: true, Manager: "kubectl"},
			`took ownership of data.password (values withheld) again; "kubectl" had owned it`,
		},
		"User": {
			"Where a policy tells the user, the user is named with the tool.",
			ownership.Change{Path: "spec.replicas", Found: "9", Restored: "2", User: "alice@example.com", Manager: "kubectl-edit"},
			`reverted spec.replicas to 2; alice@example.com (kubectl-edit) had set it to 9`,
		},
		"RemovedByUser": {
			"A policy records what managedFields do not.",
			ownership.Change{Path: "metadata.labels.app", Restored: `"web"`, Kind: ownership.Removed, User: "alice@example.com"},
			`restored metadata.labels.app to "web"; alice@example.com had removed it`,
		},
		"Removed": {
			"Nobody is blamed for what the API server does not record.",
			ownership.Change{Path: "metadata.labels.app", Restored: `"web"`, Kind: ownership.Removed},
			`restored metadata.labels.app to "web"; it had been removed (the API server does not record who removes a field)`,
		},
		"AddedByDefault": {
			"The API server adds a default, which no field manager owns.",
			ownership.Change{Path: "spec.strategy.rollingUpdate", Found: `{"maxSurge":"25%"}`, Kind: ownership.Added},
			`removed spec.strategy.rollingUpdate; it had been added (the API server records no field manager for it, as for a default)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Fields([]ownership.Change{tc.change}), tc.reason)
		})
	}
}
