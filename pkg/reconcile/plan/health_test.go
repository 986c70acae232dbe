package plan

import (
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestBlockedDeletions: an object that is being deleted and waits for its finalizers is a problem of its own once it has
// waited long, and the worst one.
func TestBlockedDeletions(t *testing.T) {
	t.Parallel()
	const waits = "waits for its finalizers (example.com/a)"
	began := time.Now().Truncate(time.Second)
	ill := func(name string, status kstatus.Status, since time.Duration) Illness {
		i := Illness{Object: v1alpha1.ProblemObject{Name: name}, Health: trigger.Health{Status: status, Message: waits}}
		if since > 0 {
			i.Health.WaitsSince = began.Add(since).Unix()
		}
		return i
	}
	r := HealthReport{Ill: []Illness{
		ill("starts", kstatus.InProgressStatus, 0), ill("later", kstatus.TerminatingStatus, 2*time.Second), ill("failed", kstatus.FailedStatus, 0),
		ill("first", kstatus.TerminatingStatus, time.Second), ill("graceful", kstatus.TerminatingStatus, 0), ill("blocked", kstatus.TerminatingStatus, 1),
	}}
	r.Ill[5].Blocked = true
	later, first := began.Add(2*time.Second).Add(ending.Grace), began.Add(time.Second).Add(ending.Grace)
	require.Equal(t, []Wake{{later, wakeBlocked}, {first, wakeBlocked}}, r.wakes(began))
	require.Equal(t, []Wake{{later, wakeBlocked}, {later, wakeBlocked}}, r.wakes(later))
	var got []string
	for _, p := range r.Problems() {
		got = append(got, p.Object.Name+" "+p.Reason)
	}
	require.Equal(t, []string{"blocked DeletionBlocked", "failed Unhealthy", "starts Progressing", "later Progressing", "first Progressing", "graceful Progressing"}, got)
	require.Equal(t, "is being deleted, and "+waits, r.Problems()[0].Message)
	require.True(t, (&HealthReport{Ill: r.Ill[5:]}).failed())
	require.False(t, (&HealthReport{Ill: r.Ill[3:5]}).failed())
}

// shown is a store with one object, or without any if it is nil.
type shown struct{ kept any }

func (s shown) Get(watchregistry.Key, string, string) (obj any, found, synced bool) {
	return s.kept, s.kept != nil, true
}

// TestHealthInAnswers: the answer to an apply may be older than the object in the store, which has reported no change of health since.
func TestHealthInAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason      string
		observation observation
		ill         int
	}{
		"shown":     {"The first event of the watch has a later version.", observed, 0},
		"not shown": {"The store has an earlier version.", awaited, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := wanted.ConfigMap("a")
			kept, err := trigger.NewFactory(trigger.NewIndex()).TransformFor("", d.Key.GVR)(fixture.LiveConfigMap("1", nil))
			require.NoError(t, err)
			s := &State{}
			s.Objects.SetManifest([]*desired.Object{d})
			o := s.Objects.Track(d.ID)
			o.Entry, o.Seen.observation = fixture.InState(v1alpha1.ObjectApplied, "1"), tt.observation
			o.Seen.answer.health = &trigger.Health{Status: kstatus.InProgressStatus}
			p := &Planner{Env: &Env{Watches: shown{kept}, Index: trigger.NewIndex()}, Settings: &Settings{Watched: true}, State: s, Scope: Scope{All: true}}
			p.Checkup()
			require.Len(t, s.Health.Ill, tt.ill, tt.reason)
		})
	}
}

// TestHealthOfAReadObject: a read of an object that is absent from its watch has shown its health. The event that shows the object to the watch counts, also
// of an object that is healthy by then: an unhealthy one may have left the watch, as without its label.
func TestHealthOfAReadObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		read   *trigger.Health
		want   bool
	}{
		"Unread":    {"Its health is unknown.", nil, true},
		"Unhealthy": {"The status has it.", &trigger.Health{Status: kstatus.InProgressStatus}, true},
		"Healthy":   {"Its health is the same.", &trigger.Health{Status: kstatus.CurrentStatus}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const manager = "vidra/shop"
			d, live, index, owner := wanted.ConfigMap("page"), fixture.LiveConfigMap("1", nil, manager), trigger.NewIndex(), trigger.Owner{Name: "shop"}
			index.Load(owner, map[trigger.ObjectKey]trigger.Applied{d.Key: {Manager: manager, Digest: trigger.DigestOf(live, manager, false, nil)}})
			factory, s := trigger.NewFactory(index), &State{}
			s.Objects.SetManifest([]*desired.Object{d})
			o := s.Objects.ByID[d.ID]
			o.Entry, o.Seen.answer.health = fixture.InState(v1alpha1.ObjectApplied, "1"), tt.read
			p := &Planner{Env: &Env{Watches: shown{}, Index: index}, Settings: &Settings{Watched: true}, State: s, Scope: Scope{All: true}}
			p.Settings.Claimant.Owner = owner
			p.Checkup()
			kept, err := factory.TransformFor("", d.Key.GVR)(live)
			require.NoError(t, err)
			factory.HandlerFor("", d.Key.GVR).OnAdd(kept, false)
			require.Equal(t, tt.want, factory.TakeCauses(owner).Health, tt.reason)
		})
	}
}

// TestRepeatedHealthReads: a read for health that failed is repeated with the next retry, and after a lasting refusal with the next resync.
func TestRepeatedHealthReads(t *testing.T) {
	t.Parallel()
	checks := healthcheck.Compile([]v1alpha1.HealthCheck{{APIVersion: "v1", Kind: "ConfigMap", Current: "true"}}, nil)
	const uncheck = "failed for the end of a check"
	for name, tt := range map[string]struct {
		err           error
		state         v1alpha1.ObjectState
		retry, resync bool
	}{
		"read":                {nil, v1alpha1.ObjectApplied, false, false},
		"failed":              {apierrors.NewInternalError(errors.New("no answer")), v1alpha1.ObjectApplied, true, true},
		"refused":             {apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "a", nil), v1alpha1.ObjectApplied, false, true},
		"failed and complete": {apierrors.NewInternalError(errors.New("no answer")), v1alpha1.ObjectCompleted, false, false},
		uncheck:               {apierrors.NewInternalError(errors.New("no answer")), v1alpha1.ObjectApplied, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &State{}
			s.Objects.SetManifest([]*desired.Object{wanted.ConfigMap("a")})
			o := s.Objects.Manifest[0]
			o.Entry = fixture.InState(tt.state, "1")
			p := &Planner{Env: &Env{Watches: shown{}, Index: trigger.NewIndex()}, Settings: &Settings{Checks: checks}, State: s}
			if name == uncheck {
				p.Settings.Checks = healthcheck.Compile(nil, nil)
			}
			p.NoteHealthRead(o, fixture.LiveConfigMap("1", nil), tt.err)
			p.Now = time.Now()
			p.NoteFailures(Ending{})
			require.Equal(t, tt.retry, Earliest(p.State.Retries()) != Wake{})
			require.Empty(t, p.NeedsHealth(), "before the retry")
			p.Now = p.Now.Add(time.Second)
			for _, of := range []struct {
				scope Scope
				want  bool
			}{{Scope{All: true, Retry: true}, tt.retry}, {Scope{All: true, Retry: true, Resync: true}, tt.resync}} {
				p.Scope = of.scope
				require.Equal(t, of.want, len(p.NeedsHealth()) > 0, of.scope)
			}
		})
	}
}
