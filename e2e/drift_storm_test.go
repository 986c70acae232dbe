package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// driftStormRounds is how often TestF33DriftStorm edits every object, unless it lasts
	// longer; see stormDuration. So often no object is contended, whose heals are counted late.
	driftStormRounds = 4
	// driftStormOwners is how many VidraResources it has, and driftStormObjects how many
	// objects each of them, or driftStormObjectsLong in long tests.
	driftStormOwners                         = 5
	driftStormObjects, driftStormObjectsLong = 24, 60
	// driftStormWriters is how many clients edit at a time.
	driftStormWriters = 4
	// driftStormValues is how many values they write. Each is a series of its own.
	driftStormValues = 2
	// eventInterval is the least time between two writes of an Event (pkg/events,
	// writeInterval).
	eventInterval = 10 * time.Second
	// healsMetric is how the series begin that count what was reverted.
	healsMetric = "vidra_heals_total"
)

// driftStormOwner is a VidraResource in a namespace of its own.
type driftStormOwner struct {
	vidraResource *v1alpha1.VidraResource
	objs          []*unstructured.Unstructured
}

// TestF33DriftStorm has clients edit many managed objects as fast as the API server lets
// them. Everything is reverted, no Event is written more often than every ten seconds,
// and the Events of each object count each revert of it.
//
// It is not parallel: it counts all that the operator does, in an operator of its own
// that is built without the race detector.
func TestF33DriftStorm(t *testing.T) {
	stopOperator(t)
	plain := startPlainOperator(t)
	objects := suite.Size(driftStormObjects, driftStormObjectsLong)
	var owners []driftStormOwner
	for range driftStormOwners {
		ns := newNamespace(t)
		newVidraResource(t, ns, pages(objects))
		owners = append(owners, driftStormOwner{objs: declared(t, ns, pages(objects))})
	}
	for i := range owners {
		owners[i].vidraResource = awaitReady(t, owners[i].objs[0].GetNamespace())
	}

	var objs []*unstructured.Unstructured
	for i := range objects {
		for _, o := range owners {
			objs = append(objs, o.objs[i])
		}
	}
	mark, start := auditMark(t), time.Now()
	edited := driftStorm(t, objs, stormDuration(t, 0))
	took := time.Since(start)
	for _, o := range owners {
		awaitInOrder(t, o.vidraResource.Name, o.objs...)
	}
	settled := time.Since(start)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Equal(c, metric(c, plain, healsMetric), requireToldEach(c, owners))
	}, 3*patience, time.Second, "every heal is counted by the Events")
	healed := metric(t, plain, healsMetric)
	writes := operatorSince(t, mark).Accepted().Only(func(e request) bool { return e.Resource == "events" })
	counts := requireEventRate(t, writes, reasonsByEvent(t, owners))
	t.Logf("%d edits of %d objects in %s (%.0f/s), %d heals in %s (%.0f/s): %d writes of Events, of which there are %v",
		edited, len(objs), took.Round(time.Millisecond), float64(edited)/took.Seconds(),
		healed, settled.Round(time.Millisecond), float64(healed)/settled.Seconds(), len(writes), counts)
	require.Greater(t, healed, len(objs), "objects were changed again and again")
	require.Equal(t, counts["DriftCorrected"], counts["ChangeReverted"])
	for reason, events := range counts { // such as DriftContended, the more the faster the machine is
		require.LessOrEqual(t, events, driftStormValues*len(objs), reason)
	}
	require.Zero(t, metric(t, plain, `vidra_events_total{outcome="dropped"`)+metric(t, plain, `vidra_events_total{outcome="refused"`))
	for _, o := range owners { // all at once
		require.NoError(t, deleteVidraResource(t.Context(), o.vidraResource.Name))
	}
}

// driftStorm edits ConfigMaps in turn for a while, and counts the edits.
func driftStorm(t *testing.T, objs []*unstructured.Unstructured, lasts time.Duration) int {
	t.Helper()
	var sent atomic.Int64
	start := time.Now()
	var group errgroup.Group
	for writer := range driftStormWriters {
		group.Go(func() error {
			for i := writer; time.Since(start) < lasts || i < driftStormRounds*len(objs); i += driftStormWriters {
				obj := objs[i%len(objs)]
				if err := mergePatch(obj, `{"data":{"greeting":"changed %d"}}`, i/len(objs)%driftStormValues); err != nil {
					return fmt.Errorf("edit %s %s: %w", obj.GetNamespace(), obj.GetName(), err)
				}
				sent.Add(1)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return int(sent.Load())
}

// requireToldEach requires one DriftCorrected and one ChangeReverted about each object and value, at most,
// which count the same, and as much as the statuses. It returns how much that is.
func requireToldEach(t require.TestingT, owners []driftStormOwner) int {
	total := 0
	for _, o := range owners {
		corrected, reverted, series, heals := map[string]int{}, map[string]int{}, map[string]int{}, 0
		for _, e := range withReason(eventsAbout(t, o.vidraResource), "DriftCorrected") {
			series[e.Related.Name]++
			corrected[e.Related.Name] += occurrences(e)
			heals += occurrences(e)
		}
		for _, e := range eventsIn(t, o.objs[0].GetNamespace()) {
			require.Equal(t, "ChangeReverted", e.Reason)
			series[e.Regarding.Name]++
			reverted[e.Regarding.Name] += occurrences(e)
		}
		require.Len(t, corrected, len(o.objs), "no object is missing")
		for name, n := range series {
			require.LessOrEqual(t, n, 2*driftStormValues, "the same edit of %s is one series", name)
		}
		require.Equal(t, corrected, reverted)
		drift := getVidraResource(t, o.vidraResource.Name).Status.Drift
		require.NotNil(t, drift)
		require.EqualValues(t, heals, drift.Heals)
		total += heals
	}
	return total
}

// reasonsByEvent returns the reasons of the Events about VidraResources and their objects, by
// namespace and name.
func reasonsByEvent(t *testing.T, owners []driftStormOwner) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	for _, o := range owners {
		for _, e := range append(eventsAbout(t, o.vidraResource), eventsIn(t, o.objs[0].GetNamespace())...) {
			reasons[e.Namespace+"/"+e.Name] = e.Reason
		}
	}
	return reasons
}

// requireEventRate requires that each Event was created at most once, and written no more
// often than it may be. It returns how many Events were created for each reason.
func requireEventRate(t *testing.T, writes requests, reasons map[string]string) map[string]int {
	t.Helper()
	last, created := map[string]request{}, map[string]int{}
	for _, e := range writes {
		name := e.Namespace + "/" + e.Name
		before, known := last[name]
		last[name] = e
		if e.Verb == "create" {
			created[reasons[name]]++
		}
		if known {
			require.Equal(t, "patch", e.Verb, name)
			require.GreaterOrEqual(t, e.Time.Sub(before.Time), eventInterval, name)
		}
	}
	return created
}
