package status

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestDescribeNamesTheWorstFirst(t *testing.T) {
	ids := []object.Identity{fixture.IDOf(fixture.ConfigMapKind, "a", "1"), fixture.IDOf(fixture.ConfigMapKind, "a", "2"), fixture.IDOf(fixture.ConfigMapKind, "a", "3"), fixture.IDOf(fixture.ConfigMapKind, "a", "4")}
	for name, tc := range map[string]struct {
		reason   string
		problems []object.Failure
		want     string
		message  string
	}{
		"Nothing": {reason: "Nothing is wrong."},
		"Alike": {
			"The order is that of the manifest.", []object.Failure{{Reason: v1alpha1.ReasonApplyFailed, Message: "w"}, {Reason: v1alpha1.ReasonApplyFailed, Message: "x"}},
			v1alpha1.ReasonApplyFailed, "ConfigMap a/1: w; ConfigMap a/2: x",
		},
		"OtherProblems": {
			"Other reasons are named.",
			[]object.Failure{{Reason: v1alpha1.ReasonKindUnavailable, Message: "w"}, {Reason: v1alpha1.ReasonApplyFailed, Message: "x"}, {Reason: v1alpha1.ReasonManifestInvalid, Message: "y"}, {Reason: v1alpha1.ReasonApplyFailed, Message: "z"}},
			v1alpha1.ReasonManifestInvalid, "ConfigMap a/3: y; ConfigMap a/2: ApplyFailed: x; ConfigMap a/4: ApplyFailed: z; ConfigMap a/1: KindUnavailable: w",
		},
		"UnderWay": {
			"What is in progress comes last.",
			[]object.Failure{{Reason: v1alpha1.ReasonProgressing, Message: "w"}, {Reason: v1alpha1.ReasonDriftDetected, Message: "x"}, {Reason: v1alpha1.ReasonPruneFailed, Message: "y"}},
			v1alpha1.ReasonPruneFailed, "ConfigMap a/3: y; ConfigMap a/2: DriftDetected: x; ConfigMap a/1: Progressing: w",
		},
		"NoProblem": {
			"A problem comes before drift and contention.",
			[]object.Failure{{Reason: v1alpha1.ReasonDriftContended, Message: "w"}, {Reason: v1alpha1.ReasonSuspended, Message: "x"}, {Reason: v1alpha1.ReasonNamespaceTerminating, Message: "y"}},
			v1alpha1.ReasonNamespaceTerminating, "ConfigMap a/3: y; ConfigMap a/1: DriftContended: w; ConfigMap a/2: Suspended: x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var o Outcome
			for i, why := range tc.problems {
				o.objects.problems = append(o.objects.problems, wrong(ids[i], why.Reason, why.Message))
			}
			got, message := describe(o.problems(v1alpha1.VidraResourceStatus{}), nil)
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.message, message, tc.reason)
		})
	}
}

// TestEveryReasonHasASeverity compares the list of severities with the reasons of conditions:
// a reason that is missing would come before all others.
func TestEveryReasonHasASeverity(t *testing.T) {
	noProblem := []string{"ReasonApplied", "ReasonSynced", "ReasonEventsOff", "ReasonInSync", "ReasonHealthy"}
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, 0)
	require.NoError(t, err)
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			name := spec.Names[0].Name
			names = append(names, name)
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.NotEqual(t, slices.Contains(noProblem, name), slices.Contains(severity, value), name)
		}
		return true
	})
	require.Len(t, names, len(severity)+len(noProblem), "each reason is in one of the two lists")
	rest := false
	for _, reason := range severity {
		require.False(t, rest && events.IsProblem(reason), "%s has an Event, and comes after a reason that has none", reason)
		rest = rest || !events.IsProblem(reason)
	}
}

// TestStatusIsBounded gives a VidraResource as many problems as there can be, with names and
// messages as long as they can be.
func TestStatusIsBounded(t *testing.T) {
	o := Outcome{now: time.Now()}
	var order []object.Identity
	for i := range 200 {
		id := fixture.IDOf(fixture.ConfigMapKind, strings.Repeat("n", 63), fmt.Sprintf("%s-%03d", strings.Repeat("o", 249), i))
		order = append(order, id)
		reason := v1alpha1.ReasonApplyFailed
		if i%2 == 0 {
			reason = v1alpha1.ReasonProgressing
		}
		o.objects.problems = append(o.objects.problems, wrong(id, reason, strings.Repeat("x", 2*v1alpha1.MaxProblemMessage)))
	}
	status := Summarize(v1alpha1.VidraResourceStatus{}, o)
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	require.Less(t, len(ready.Message), maxCondition)
	named := strings.Split(ready.Message, "; ")
	for n, text := range named[:len(named)-1] {
		require.Contains(t, text, order[2*n+1].String()+": x", "no name is cut")
	}
	require.Equal(t, fmt.Sprintf("and %d more", 200-len(named)+1), named[len(named)-1])

	require.Len(t, order, len(status.Problems)+int(status.UnlistedProblems), "no problem is lost silently")
	text, err := json.Marshal(status.Problems)
	require.NoError(t, err)
	require.Less(t, len(text), maxProblems+v1alpha1.MaxProblems+2)
	require.Greater(t, len(text), maxProblems-2*v1alpha1.MaxProblemMessage, "the room is used")
	for _, p := range status.Problems {
		require.Equal(t, v1alpha1.ReasonApplyFailed, p.Reason, "the worst are listed")
		require.LessOrEqual(t, len(p.Message), v1alpha1.MaxProblemMessage)
	}

	for i := range o.objects.problems {
		o.objects.problems[i].Message = "no"
	}
	o.objects.problems[1].Object.Name = "short"
	status = Summarize(v1alpha1.VidraResourceStatus{}, o)
	require.Len(t, status.Problems, v1alpha1.MaxProblems)
	require.EqualValues(t, 100, status.UnlistedProblems)

	away := Outcome{All: true, now: o.now, Obstacles: Obstacles{Blocked: &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: "away"}}}
	blocked := Summarize(status, away)
	require.EqualValues(t, 101, blocked.UnlistedProblems, "nothing is known of those that were not listed")
	require.Equal(t, blocked.UnlistedProblems, Summarize(blocked, away).UnlistedProblems, "nothing is to be written")

	o.objects.problems = o.objects.problems[1:2]
	o.objects.problems[0].Message = strings.Repeat("x", v1alpha1.MaxProblemMessage)
	status = Summarize(v1alpha1.VidraResourceStatus{}, o)
	require.Equal(t, "ConfigMap "+strings.Repeat("n", 63)+"/short: "+o.objects.problems[0].Message,
		meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady).Message, "one alone is not cut")
}
