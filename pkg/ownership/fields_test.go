package ownership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManagersOfMarks names the managers that set a label or an annotation.
func TestManagersOfMarks(t *testing.T) {
	t.Parallel()
	const both = `{"f:metadata":{"f:labels":{"f:app":{}},"f:annotations":{"f:example.com/app":{}}}}`
	obj := widget(t, `"data":{}`, ours(both), theirs(beforeFirstApply, both), theirs("kubectl-edit", both), theirs("kubectl-label", `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`),
		theirs("other", `{"f:metadata":{"f:labels":{"f:apple":{}}}}`), `{"manager":"empty","operation":"Update"}`)
	require.Equal(t, []string{manager, "kubectl-edit", "kubectl-label"}, LabelManagers(obj, "app"))
	require.Equal(t, []string{manager, "kubectl-edit"}, AnnotationManagers(obj, "example.com/app"))
	require.Empty(t, AnnotationManagers(obj, "app"), "a label is no annotation")
	require.False(t, OnlyLabelledBy(obj, "app", manager), "others set it, too")
	require.True(t, OnlyLabelledBy(obj, "apple", "other"))
	require.False(t, OnlyLabelledBy(obj, "apple", manager))
	require.True(t, OnlyLabelledBy(obj, "none", manager), "no manager sets it")
}

// TestEditorsAndSuccessors names the managers that wrote paths that are new, or that are given.
func TestEditorsAndSuccessors(t *testing.T) {
	t.Parallel()
	const a, b, both = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	before := Others(widget(t, `"data":{}`, theirs("x", a)), "vidra/")
	obj := widget(t, `"data":{}`, managed("applier", "Apply", "2026-01-02T03:05:00Z", both), theirs("old", a), theirs("new", b), theirs("both", both),
		`{"manager":"status","operation":"Update","subresource":"scale","fieldsV1":{"f:data":{"f:b":{}}}}`, theirs("none", `{}`))
	require.Equal(t, []string{"new", "both"}, Editors(obj, before))
	require.Equal(t, []string{"old", "both"}, Successors(obj, before))
	require.Empty(t, Successors(obj, ""))

	undo := Undo{Before: before, BeforeKnown: true}
	require.Equal(t, []string{"new", "both"}, undo.EditorsOf(obj))
	require.NotNil(t, undo.EditorsOf(widget(t, `"data":{}`, theirs("old", a))), "no editor is an answer")
	require.Nil(t, undo.EditorsOf(widget(t, `"data":{}`)), "an object without managedFields names none")
	undo.BeforeKnown = false
	require.Nil(t, undo.EditorsOf(obj), "the fields before the edit are unknown")
}

// TestAnd joins the parts of an addition.
func TestAnd(t *testing.T) {
	t.Parallel()
	first := Addition{Changes: []Change{{Path: "a"}}, Lost: []Change{{Path: "l"}}, Patch: []PatchOp{{Op: "test"}}}
	second := Addition{Changes: []Change{{Path: "b"}}, Lost: []Change{{Path: "m"}}, Patch: []PatchOp{{Op: "add"}}}
	both := first.And(second)
	require.Equal(t, []string{"a", "b"}, pathsIn(both.Changes))
	require.Equal(t, first.Lost, both.Lost)
	require.Equal(t, second.Patch, both.Patch, "the second patch is for the object after the first one")
	require.Equal(t, []string{"a"}, pathsIn(first.Changes), "the argument is not modified")
}

// TestLastApplied: only an apply of the manager to the object itself counts.
func TestLastApplied(t *testing.T) {
	t.Parallel()
	const fields = `{"f:data":{"f:a":{}}}`
	first, second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	applied := func(when string) string { return managed(manager, "Apply", when, fields) }
	cases := map[string]struct {
		reason  string
		entries []string
		want    time.Time
	}{
		"None":    {"No manager applied.", nil, time.Time{}},
		"Others":  {"Another manager did.", []string{managed("vidra/other", "Apply", "2026-01-02T03:05:00Z", fields)}, time.Time{}},
		"Update":  {"An Update is no apply.", []string{applied("2026-01-02T03:04:05Z"), theirs(manager, fields)}, first},
		"Last":    {"The last of several counts.", []string{applied("2026-01-02T03:04:05Z"), applied("2026-01-02T03:05:00Z"), applied("2026-01-02T03:04:05Z")}, second},
		"NoTime":  {"An entry may have none.", []string{applied("")}, time.Time{}},
		"OneOnly": {"It is ours.", []string{theirs("kubectl", fields), applied("2026-01-02T03:04:05Z")}, first},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, tc.want.Equal(LastApplied(widget(t, `"data":{}`, tc.entries...), manager)), tc.reason)
		})
	}
}
