package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// explainedRows is of how many edits of a kind one is explained by `why` or `blame`, unless the run is long: each
// command is a process that takes as long as a heal and its checks.
const explainedRows = 6

// explainer asks the command line about edits. `why` and `blame` run as a user who may read objects and the Events
// of a namespace: an administrator would read the VidraResources and Events of all tests for each edit.
type explainer struct{ binary, user string }

func newExplainer(t *testing.T) *explainer {
	t.Helper()
	x := &explainer{binary: buildVidra(t), user: unique(t)}
	all, meta := []string{rbacv1.APIGroupAll}, metav1.ObjectMeta{Name: x.user}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: all, Resources: all}}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: x.user}, Subjects: []rbacv1.Subject{x.subject()},
	}))
	return x
}

// subject is the user of `why` and `blame`.
func (x *explainer) subject() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: x.user}
}

// explain requires that the command line explains the edits of a kind, which were reverted: `why` and `blame` name
// what was edited and by which client, by turns for one of explainedRows edits but in long runs, and `diff` shows the
// edits while they stand, and nothing before.
func (x *explainer) explain(t *testing.T, owner string, attempts map[string]*attempt) {
	t.Helper()
	cluster.GrantTo(t, x.subject(), owner, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{eventResource.Group}, Resources: []string{"events"}})
	commands := []string{"why", "blame"}
	for i, row := range slices.Sorted(maps.Keys(attempts)) {
		a := attempts[row]
		asked := commands
		switch {
		case a.report() == nil || !suite.Long() && i%explainedRows != 0:
			continue
		case a.want == recreated: // of the object, not of a line
			asked = commands[:1]
		case !suite.Long():
			asked = commands[i/explainedRows%2 : i/explainedRows%2+1]
		}
		for _, command := range asked {
			x.requireNamed(t, command, row, a)
		}
	}

	for name, diff := range x.diff(t, owner, 0) {
		require.Equal(t, "unchanged", diff.Action, "%s: %+v", name, diff)
	}
	changeSpec(t, owner, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
	awaitCondition(t, owner, metav1.Condition{Type: v1alpha1.ConditionSuspended, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSuspended})
	for _, a := range attempts {
		if a.want == reverted || a.want == relabelled || a.want == undoneWhole {
			a.do(t)
			a.edited = get(t, a.obj)
		}
	}
	diffs := x.diff(t, owner, 1)
	for row, a := range attempts {
		a.requireShown(t, row, diffs[a.obj.GetName()])
	}
}

// command is a command of the command line.
func (x *explainer) command(name string) commandLine {
	return commandLine{binary: x.binary, kubeconfig: env.KubeconfigPath, name: name}
}

// requireNamed requires that a command names what was edited in an object, and by which client, as far as the
// history knows.
func (x *explainer) requireNamed(t *testing.T, command, row string, a *attempt) {
	t.Helper()
	gvk := a.obj.GroupVersionKind()
	args := []string{strings.TrimSuffix(gvk.Kind+"."+gvk.Group, ".") + "/" + a.obj.GetName(), "-n", a.owner, "--as", x.user}
	parts := a.report()
	for _, e := range historyOf(getVidraResource(t, a.owner).Status, a.obj.GetName()) {
		parts = append(parts, e.Manager)
	}
	await(t, func(c *assert.CollectT) { // the API server learns of a binding soon
		out, said, code := x.command(command).run(c, args...)
		require.Zero(c, code, said)
		if command == "blame" {
			out = editsIn(out)
		}
		for _, part := range parts {
			require.Contains(c, out, part, "%s: %s: %s %s", row, a.reason, command, args)
		}
	})
}

// editsIn is what `blame` has beside the lines that were edited.
func editsIn(blame string) string {
	var b strings.Builder
	for line := range strings.Lines(blame) {
		_, edit, _ := strings.Cut(line, " ago: ")
		b.WriteString(edit)
	}
	return b.String()
}

// shownDifference is what `diff` reports about an object.
type shownDifference struct {
	Name, Action, Why, Diff string
	AlsoRemoved, Reverted   []string
}

// diff are the differences of the objects of a VidraResource by their names.
func (x *explainer) diff(t *testing.T, owner string, want int) map[string]shownDifference {
	t.Helper()
	out, said, code := x.command("diff").run(t, owner, "-o", "json")
	require.Equal(t, want, code, said+out)
	var printed struct {
		VidraResources []struct{ Objects []shownDifference }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	shown := map[string]shownDifference{}
	for _, o := range printed.VidraResources[0].Objects {
		shown[o.Name] = o
	}
	return shown
}

// requireShown requires that a difference shows all of an edit, and nothing of one that stays.
func (a *attempt) requireShown(t *testing.T, row string, diff shownDifference) {
	t.Helper()
	message := fmt.Sprintf("%s: %s: %+v", row, a.reason, diff)
	if a.want == stays || a.edited == nil { // or deleted
		assert.Equal(t, "unchanged", diff.Action, message)
		return
	}
	before, edited := a.shownText(t, a.before), a.shownText(t, a.edited)
	if before == edited { // but for managedFields
		assert.Equal(t, "unchanged", diff.Action, message)
		return
	}
	require.Equal(t, "change", diff.Action, message)
	paths := strings.Join(slices.Concat(diff.AlsoRemoved, diff.Reverted), "\n")
	for _, name := range a.added {
		assert.Contains(t, paths, strings.TrimSpace(name), message)
	}
	if diff.Diff == "" {
		for _, name := range a.names {
			name = strings.TrimSpace(name)
			short, _, keys := strings.Cut(name, ",")
			if keys && !strings.Contains(paths, name) { // the manifest leaves out a key that has a default
				name = short + "]"
			}
			assert.Contains(t, paths, name, message)
		}
		return
	}
	differ, shown := map[string]int{}, map[string]int{}
	for line := range strings.Lines(before) {
		differ[line]++
	}
	for line := range strings.Lines(edited) {
		differ[line]--
	}
	for line := range strings.Lines(diff.Diff) {
		switch line[0] {
		case '+':
			shown[line[1:]]++
		case '-':
			shown[line[1:]]--
		}
	}
	for line, n := range differ {
		switch {
		case len(diff.AlsoRemoved) > 0 && strings.HasSuffix(strings.NewReplacer("{}", "[]").Replace(line), ": []\n"): // AlsoRemoved has the content
		case n > 0:
			assert.GreaterOrEqual(t, shownTimes(shown, line, "after"), n, "%q is restored: %s", line, message)
		case n < 0 && len(diff.AlsoRemoved) == 0:
			assert.LessOrEqual(t, shownTimes(shown, line, "before"), n, "%q is removed: %s", line, message)
		}
	}
}

// shownText is an object in YAML, as `diff` compares it.
func (a *attempt) shownText(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	content := settled(obj)
	if _, is := a.obj.Object["status"]; is {
		content["status"] = obj.Object["status"]
	}
	text, err := yaml.Marshal(content)
	require.NoError(t, err)
	return string(text)
}

// shownTimes is how often a line is shown, or the one in its place whose value is withheld.
func shownTimes(shown map[string]int, line, side string) int {
	key, _, _ := strings.Cut(line, ": ")
	return shown[line] + shown[fmt.Sprintf("%s: '*** (%s)'\n", key, side)]
}
