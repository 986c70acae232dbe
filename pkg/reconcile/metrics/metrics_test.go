package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// healOf returns a heal that took a second, of one change.
func healOf(action events.Action, changes ...ownership.Change) Heal {
	now := time.Now()
	return Heal{
		ID:     object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "page"},
		Action: action, Fields: changes, Since: now.Add(-time.Second), Answered: now,
	}
}

func by(manager string) ownership.Change {
	return ownership.Change{Kind: ownership.Changed, Manager: manager}
}

func TestHealed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		heal     Heal
		kind     string
		exposure map[string]float64
	}{
		"value": {
			"a changed value costs one PATCH", healOf(events.Restored, by("kubectl-edit")),
			"value", map[string]float64{"kubectl-edit": 1},
		},
		"several managers": {
			"the values of each manager stood that long", healOf(events.Restored, by("kubectl-edit"), by("helm"), by("helm")),
			"value", map[string]float64{"kubectl-edit": 1, "helm": 1},
		},
		"removed": {
			"an edit that removes a field changes the structure, and a removed field has no field manager",
			healOf(events.Restored, ownership.Change{Kind: ownership.Removed}), "structural", map[string]float64{"unknown": 1},
		},
		"taken": {
			"a field that only has another owner has our value", healOf(events.Restored, ownership.Change{Kind: ownership.Taken, Manager: "helm"}),
			"value", nil,
		},
		"deleted": {
			"an object that is gone has no fields", healOf(events.Recreated), "deletion", map[string]float64{"unknown": 1},
		},
		"relabelled": {
			"the loss of the label looks like a deletion", healOf(events.Relabelled, by("kubectl-label")), "deletion",
			map[string]float64{"kubectl-label": 1},
		},
		"another VidraResource": {
			"each VidraResource has a field manager, whose number authors choose", healOf(events.Restored, by("vidra/shop")), "value",
			map[string]float64{"vidra": 1},
		},
		"long name": {
			"users choose the names", healOf(events.Restored, by(strings.Repeat("a", 65))), "value", map[string]float64{"other": 1},
		},
		"unusual name": {
			"a name may have any character, and Prometheus refuses invalid UTF-8", healOf(events.Restored, by("a\xff\n")), "value",
			map[string]float64{"other": 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := New()
			m.Healed(c.heal)
			for _, kind := range editKinds {
				want := 0
				if string(kind) == c.kind {
					want = 1
				}
				require.Equal(t, want, observations(t, m, kind), "%s: kind %s", c.reason, kind)
			}
			require.Equal(t, len(c.exposure), testutil.CollectAndCount(m.exposure.seconds), c.reason)
			for manager, seconds := range c.exposure {
				require.InDelta(t, seconds, testutil.ToFloat64(m.exposure.seconds.WithLabelValues(manager)), 1e-6, c.reason)
			}
		})
	}
}

// observations returns how many durations of a kind were observed.
func observations(t *testing.T, m *Metrics, kind editKind) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(m.durations))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, one := range families[0].GetMetric() {
		if one.GetLabel()[0].GetValue() == string(kind) {
			return int(one.GetHistogram().GetSampleCount()) //nolint:gosec // a small number
		}
	}
	require.Fail(t, "the kind has no series", kind)
	return 0
}

// TestHealWithoutEvent counts a revert of a change that no event reported, and not its duration.
func TestHealWithoutEvent(t *testing.T) {
	t.Parallel()
	m, heal := New(), healOf(events.Restored, by("helm"))
	heal.Since = time.Time{}
	m.Healed(heal)
	require.InDelta(t, 1, testutil.ToFloat64(m.heals.WithLabelValues("", "ConfigMap", "Restored")), 0)
	require.Zero(t, observations(t, m, editValue))
	require.Zero(t, testutil.CollectAndCount(m.exposure.seconds))
}

// TestManagersAreBounded has a user invent field managers: they get a bounded number of series, and
// known tools keep theirs.
func TestManagersAreBounded(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range 10 * maxManagers {
		m.Healed(healOf(events.Restored, by(fmt.Sprintf("invented-%d", i))))
	}
	require.Equal(t, maxManagers+1, testutil.CollectAndCount(m.exposure.seconds), "and one for the others")
	require.InDelta(t, 9*maxManagers, testutil.ToFloat64(m.exposure.seconds.WithLabelValues(otherManager)), 0.1)
	m.Healed(healOf(events.Restored, by("kubectl-edit")))
	require.InDelta(t, 1, testutil.ToFloat64(m.exposure.seconds.WithLabelValues("kubectl-edit")), 1e-6)
}

// cached is a cache of VidraResources.
type cached struct {
	client.Reader
	all []v1alpha1.VidraResource
	err error
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.VidraResourceList).Items = c.all
	return c.err
}

// resource returns a VidraResource with conditions.
func resource(name string, conditions ...metav1.Condition) v1alpha1.VidraResource {
	vr := v1alpha1.VidraResource{}
	vr.Name, vr.Status.Conditions = name, conditions
	return vr
}

func TestConditions(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Succeeded"}
	failed := metav1.Condition{Type: "Ready", Status: "False", Reason: "ApplyFailed"}
	other := resource("other", ready)
	other.Labels = map[string]string{v1alpha1.InstallationLabel: "another"}
	changed, suspended, resumed := resource("changed"), resource("suspended"), resource("resumed")
	held := resource("held", metav1.Condition{Type: "Ready", Status: "False", Reason: "RevisionHeld"})
	held.Spec.Revision = &v1alpha1.RevisionPolicy{Hold: true}
	dependent := resource("dependent", metav1.Condition{Type: "Ready", Status: "False", Reason: "DependencyNotReady"})
	dependent.Spec.DependsOn = []v1alpha1.Dependency{{Name: "shop"}}
	for _, vr := range []*v1alpha1.VidraResource{&changed, &suspended, &resumed, &held, &dependent} {
		vr.Generation, vr.Status.ObservedGeneration = 2, 1
	}
	isSuspended := metav1.Condition{Type: "Suspended", Status: "True", Reason: "Suspended"}
	suspended.Spec.Suspend, suspended.Status.Conditions, resumed.Status.Conditions = true, []metav1.Condition{isSuspended}, []metav1.Condition{isSuspended}
	all := &cached{all: []v1alpha1.VidraResource{
		resource("shop", ready, metav1.Condition{Type: "Drifted", Status: "False", Reason: "NoDrift"}),
		resource("web", failed), other, resource("new"), changed, suspended, resumed, held, dependent,
		resource("forged", metav1.Condition{Type: "Invented", Status: "True"}, metav1.Condition{Type: "Healthy", Status: "Perhaps"}, ready, ready),
	}}
	c := NewConditions(all, "")
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP vidra_resource_condition 1 for each condition of a VidraResource, with its status: True, False or Unknown. At most 5000 VidraResources have it, those first whose Ready is not True.
# TYPE vidra_resource_condition gauge
vidra_resource_condition{name="dependent",status="False",type="Ready"} 1
vidra_resource_condition{name="forged",status="True",type="Ready"} 1
vidra_resource_condition{name="held",status="False",type="Ready"} 1
vidra_resource_condition{name="resumed",status="True",type="Suspended"} 1
vidra_resource_condition{name="shop",status="False",type="Drifted"} 1
vidra_resource_condition{name="shop",status="True",type="Ready"} 1
vidra_resource_condition{name="suspended",status="True",type="Suspended"} 1
vidra_resource_condition{name="web",status="False",type="Ready"} 1
# HELP vidra_resource_unobserved 1 for each VidraResource whose metadata.generation status.observedGeneration has not reached. One that is suspended, or waits for a release or a dependency, does not count. At most 5000 have it.
# TYPE vidra_resource_unobserved gauge
vidra_resource_unobserved{name="changed"} 1
vidra_resource_unobserved{name="resumed"} 1
# HELP vidra_resources VidraResources by condition, its status and its reason. All VidraResources are counted.
# TYPE vidra_resources gauge
vidra_resources{reason="ApplyFailed",status="False",type="Ready"} 1
vidra_resources{reason="DependencyNotReady",status="False",type="Ready"} 1
vidra_resources{reason="NoDrift",status="False",type="Drifted"} 1
vidra_resources{reason="RevisionHeld",status="False",type="Ready"} 1
vidra_resources{reason="Succeeded",status="True",type="Ready"} 2
vidra_resources{reason="Suspended",status="True",type="Suspended"} 2
`)))
	all.all = all.all[:1]
	require.Equal(t, 4, testutil.CollectAndCount(c), "the series of a VidraResource end with it")
	all.err = errors.New("not synced")
	require.Zero(t, testutil.CollectAndCount(c))
}

// TestConditionsAreBounded has authors create many VidraResources, and a client write invented reasons.
func TestConditionsAreBounded(t *testing.T) {
	t.Parallel()
	all := &cached{}
	for i := range MaxNamedResources {
		all.all = append(all.all, resource(fmt.Sprintf("a%d", i), metav1.Condition{Type: "Ready", Status: "True", Reason: fmt.Sprintf("R%d", i)}))
	}
	all.all = append(all.all, resource("z", metav1.Condition{Type: "Ready", Status: "False", Reason: strings.Repeat("R", 1000)}))
	families := map[string]int{}
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(NewConditions(all, "")))
	found, err := registry.Gather()
	require.NoError(t, err)
	failed := false
	for _, family := range found {
		families[family.GetName()] = len(family.GetMetric())
		for _, one := range family.GetMetric() {
			failed = failed || one.GetLabel()[0].GetValue() == "z"
		}
	}
	require.Equal(t, MaxNamedResources, families["vidra_resource_condition"])
	require.True(t, failed, "those that are not Ready come first")
	require.LessOrEqual(t, families["vidra_resources"], maxReasons+2)
}
