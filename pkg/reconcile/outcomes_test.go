package reconcile

import (
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestOutcomes logs what reconciles did.
func TestOutcomes(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var o outcomes
	suppressed := 0
	count := func() { suppressed++ }
	now := time.Now()
	settings := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	change := func(action events.Action) events.Change {
		return events.Change{Action: action, Object: settings, Took: 12 * time.Millisecond, Fields: []ownership.Change{{
			Path: "data.colour", Manager: "kubectl-edit", Found: `"secret-red"`, Restored: `"blue"`,
		}}}
	}
	problem := v1alpha1.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: "secret-red", Object: &v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "other"}}
	none, broken := v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{Problems: []v1alpha1.Problem{problem}}

	o.log(log, count, "shop", none, none, []events.Change{change(events.Restored)}, now)
	require.Equal(t, []string{`"level"=0 "msg"="Reverted an object" "VidraResource"="shop" "object"="ConfigMap shop/settings" "outcome"="Restored" ` +
		`"managers"=["kubectl-edit"] "fields"=["data.colour"] "duration"="12ms"`}, lines)
	lines = nil
	created := events.Change{Action: events.Created, Object: settings}
	o.log(log, count, "shop", none, none, []events.Change{created}, now)
	require.Empty(t, lines, "an ordinary apply is no outcome that a user looks for")
	adopted := events.Change{Action: events.Configured, Object: settings, Adopted: true}
	o.log(log, count, "shop", none, broken, []events.Change{adopted, change(events.Pruned)}, now)
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], `"msg"="Adopted an object"`)
	require.Contains(t, lines[1], `"msg"="Deleted an object"`)
	require.Contains(t, lines[2], `"msg"="Refused" "VidraResource"="shop" "object"="ConfigMap shop/other" "outcome"="ApplyFailed"`)
	lines = nil
	o.log(log, count, "shop", broken, broken, nil, now)
	require.Empty(t, lines, "a problem that stays is logged once")
	o.log(log, count, "shop", broken, none, nil, now)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"msg"="Recovered"`)
	whole := v1alpha1.VidraResourceStatus{Problems: []v1alpha1.Problem{{Reason: v1alpha1.ReasonApplyFailed, Message: "secret-red"}}}
	lines = nil
	o.log(log, count, "shop", whole, broken, nil, now)
	require.Len(t, lines, 2, "the VidraResource has recovered, and an object has not")
	require.Contains(t, lines[0], `"msg"="Refused" "VidraResource"="shop" "object"="ConfigMap shop/other"`)
	require.Contains(t, lines[1], `"msg"="Recovered"`)
	for _, line := range lines {
		require.NotContains(t, line, "secret-red", "no line has a value")
	}

	lines = nil
	for range 100 {
		o.log(log, count, "shop", none, none, []events.Change{change(events.Restored)}, now)
	}
	require.Len(t, lines, outcomeBurst-3, "three lines about the object came before")
	lines = nil
	o.log(log, count, "shop", none, none, []events.Change{change(events.Restored)}, now.Add(outcomeInterval))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"suppressed"=98`, "suppressed lines are counted")
	require.Equal(t, 98, suppressed)
	o.log(log, count, "shop", none, none, []events.Change{change(events.Restored), change(events.Restored)}, now.Add(outcomeInterval))
	require.Equal(t, 100, suppressed)
	settings.Name = "other"
	o.log(log, count, "shop", none, none, []events.Change{change(events.Restored)}, now.Add(outcomeInterval+2*outcomeForget))
	require.Len(t, o.objects, 1, "an object without outcomes is forgotten, with its suppressed lines, which are counted")
}
