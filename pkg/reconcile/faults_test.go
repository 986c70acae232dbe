package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// The tests of this file are about the order of requests and about what is
// remembered when one of them fails. What a real API server makes of the
// requests is tested in e2e; here every answer is made up.

var faulty = types.NamespacedName{Name: "faulty"}

// lab is a Reconciler with one VidraResource among parts that fail on demand.
type lab struct {
	*Reconciler
	client client.Client
	// serves reports whether the kind Secret can be resolved.
	serves bool
	// watch is the state of every watch.
	watch watchregistry.State
	// foreign are the objects that exist and are somebody else's; denied those
	// that are not accepted.
	foreign, denied map[string]bool
	// failWrites is how many status writes fail, and failure with what: that the API
	// server is away if it is nil.
	failWrites int
	failure    error
	// away is the obstacle to reaching the destination; nil if it is reached.
	away error
	// unshown reports that the watches are synced, and have not shown anything.
	unshown atomic.Bool
	// writing is called while a status is written. Optional.
	writing func()
	// applying is called while an object is applied. Optional.
	applying func(name string)
	// resolving is called while a kind of the manifest is resolved. Optional.
	resolving func()
	// unreadable are the errors of reads of objects. Optional.
	unreadable map[string]error
	// kept are the applied objects, if they can be read. Optional.
	kept map[string]*unstructured.Unstructured
	// done are the requests that change something, in order: "status" or the
	// name of an applied object.
	done []string
	// told are the reasons of the Events.
	told []string
}

func newLab(t *testing.T, text string) *lab {
	t.Helper()
	l := &lab{serves: true, watch: watchregistry.Synced, foreign: map[string]bool{}, denied: map[string]bool{}}
	s := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(s))
	vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: text, Adopt: v1alpha1.AdoptNever, Drift: &v1alpha1.DriftPolicy{HealsPerMinute: 1000}}}
	vr.Name, vr.UID, vr.Generation, vr.Finalizers = faulty.Name, "vr", 1, []string{v1alpha1.Finalizer}
	l.client = fake.NewClientBuilder().WithScheme(s).WithObjects(vr).WithStatusSubresource(vr).WithIndex(vr, dependsOnField, dependsOn).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			if l.writing != nil {
				l.writing()
			}
			if l.failWrites > 0 {
				l.failWrites--
				return cmp.Or(l.failure, errors.New("the API server is away"))
			}
			l.requireApart(t)
			l.done = append(l.done, "status")
			return c.SubResource(sub).Patch(ctx, obj, p, o...)
		},
	}).Build()
	l.restart()
	return l
}

// requireApart requires that the lane of the VidraResource is not locked by the reconcile that sends a request.
func (l *lab) requireApart(t *testing.T) {
	t.Helper()
	if s := l.states.of(faulty); s != nil {
		require.False(t, s.lane.entered, "a request is sent apart")
	}
}

// restart forgets everything that is not in the API server.
func (l *lab) restart() {
	index := trigger.NewIndex()
	l.Reconciler = &Reconciler{
		Clients: Clients{Client: l.client, API: l.client, Metadata: metadatafake.NewSimpleMetadataClient(l.client.Scheme())}, Clusters: access.Destinations{Local: l}, Watching: Watching{Watches: l, Index: index, Trigger: trigger.NewFactory(index)}, Reports: Reports{Recorder: l, Metrics: metrics.New(), Inventories: &status.Inventories{}}, Options: Options{Parallel: 1,
			PeopleTools: ownership.DefaultTools,
		},
		Secrets: Secrets{DigestKeys: &seal.Store{}},
		bounds: bounds{
			remote: limits.NewRemoteLimiter(1), heavy: limits.NewHeavyShare(1),
			recompute: flowcontrol.NewTokenBucketPassiveRateLimiter(plan.RecomputeQPS, plan.RecomputeQPS),
		},
	}
	l.bounds.gate = limits.NewGate(l.Watching.Trigger.EnqueueHeal)
}

func (l *lab) Mapping(_ context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error) {
	if l.resolving != nil {
		l.resolving()
	}
	if gvk.Kind == "Secret" && !l.serves {
		return cluster.Mapping{}, errors.New("discovery does not answer")
	}
	return cluster.Mapping{GVR: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: true}, nil
}

func (l *lab) Aggregated(context.Context, schema.GroupVersion) (bool, error) { return false, nil }

func (l *lab) DefinitionOf(context.Context, schema.GroupKind) (string, error) { return "", nil }

func (l *lab) VisitNamespace(context.Context, string, func(cluster.Content)) error { return nil }

func (l *lab) VisitKind(context.Context, schema.GroupVersionResource, string, func(cluster.Content)) error {
	return nil
}

func (l *lab) MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind) (cluster.Mapping, error) {
	return l.Mapping(ctx, gvk)
}

func (l *lab) Invalidate(string) {}

func (l *lab) Name() string { return "" }

func (l *lab) Unreachable() error { return l.away }

func (l *lab) Kubeconfig() (digest, secret string) { return "", "" }

func (l *lab) Metadata() metadata.Interface { return nil }

func (l *lab) MaybeUnreachable() bool { return false }

func (l *lab) As(string) (dynamic.Interface, error) { return l.Dynamic(), nil }

func (l *lab) AddCluster(string, watchregistry.Cluster) {}

func (l *lab) RemoveCluster(string) {}

func (l *lab) NoticesKinds(string) bool { return false }

func (l *lab) WakeWatch(watchregistry.Key) {}

func (l *lab) Wake(string) {}

func (l *lab) Record(all []events.Event) {
	for _, e := range all {
		l.told = append(l.told, e.Reason)
	}
}

func (l *lab) Ensure(owner watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status {
	return l.Sync(owner, want)
}

func (l *lab) Sync(_ watchregistry.Owner, want []watchregistry.Key) map[watchregistry.Key]watchregistry.Status {
	statuses := map[watchregistry.Key]watchregistry.Status{}
	for _, key := range want {
		statuses[key] = watchregistry.Status{State: l.watch, Since: time.Now()}
	}
	return statuses
}

func (l *lab) Await(watchregistry.Owner, []watchregistry.Kind) {}

func (l *lab) Release(watchregistry.Owner) {}

// Get is synced only if nothing is shown: what is not in order comes as a cause.
func (l *lab) Get(watchregistry.Key, string, string) (any, bool, bool) {
	return nil, false, l.unshown.Load()
}

// List never is synced, either.
func (l *lab) List(watchregistry.Key) ([]any, bool) { return nil, false }

// Dynamic answers as if every apply made the object.
func (l *lab) Dynamic() dynamic.Interface {
	c := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	c.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.GetAction).GetName()
		if err := l.unreadable[name]; err != nil {
			return true, nil, err
		}
		if u := l.kept[name]; u != nil {
			return true, u.DeepCopy(), nil
		}
		if !l.foreign[name] {
			return false, nil, nil
		}
		u := &unstructured.Unstructured{}
		u.SetName(name)
		return true, u, nil
	})
	c.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		u := &unstructured.Unstructured{}
		err := json.Unmarshal(patch.GetPatch(), &u.Object)
		if l.foreign[patch.GetName()] && u.GetResourceVersion() != "" {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, patch.GetName(), errors.New("it exists"))
		}
		if l.done = append(l.done, patch.GetName()); l.applying != nil {
			l.applying(patch.GetName())
		}
		if l.denied[patch.GetName()] {
			return true, nil, errors.New("denied")
		}
		u.SetUID(types.UID("uid-" + patch.GetName()))
		if l.kept != nil {
			l.kept[patch.GetName()] = u.DeepCopy()
		}
		return true, u, err
	})
	return c
}

// pass does one pass and returns the requests that changed something.
func (l *lab) pass(t *testing.T, changed ...string) ([]string, error) {
	t.Helper()
	causes := trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{}}
	for _, name := range changed {
		key := trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "default", Name: name}
		causes.Objects[key] = trigger.Cause{Deleted: true}
	}
	l.Watching.Trigger.RequeueCauses(faulty, causes)
	l.done = nil
	_, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
	return l.done, err
}

func (l *lab) mustPass(t *testing.T, changed ...string) []string {
	t.Helper()
	done, err := l.pass(t, changed...)
	require.NoError(t, err)
	return done
}

// failuresOf returns the next attempt at an object.
func (l *lab) failuresOf(name string) plan.Retry {
	return l.states.all[faulty].plan.Objects.At(trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "default", Name: name}).Attempts.Retry
}

func (l *lab) get(t *testing.T) *v1alpha1.VidraResource {
	t.Helper()
	vr := &v1alpha1.VidraResource{}
	require.NoError(t, l.client.Get(t.Context(), faulty, vr))
	return vr
}

// edit changes the manifest as a person does.
func (l *lab) edit(t *testing.T, text string) {
	t.Helper()
	vr := l.get(t)
	vr.Spec.Manifest, vr.Generation = text, vr.Generation+1
	require.NoError(t, l.client.Update(t.Context(), vr))
}

func (l *lab) ready(t *testing.T) bool {
	t.Helper()
	return meta.IsStatusConditionTrue(l.get(t).Status.Conditions, v1alpha1.ConditionReady)
}

// colors is a manifest of ConfigMaps.
func colors(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {color: blue}\n")
	}
	return b.String()
}

func TestNothingIsCreatedBeforeItIsInTheInventory(t *testing.T) {
	l := newLab(t, colors("a"))
	require.Equal(t, []string{"status", "a", "status"}, l.mustPass(t))

	l.edit(t, colors("a", "new"))
	l.failWrites = 1
	done, err := l.pass(t)
	require.Error(t, err)
	require.Empty(t, done, "what is not in the inventory is not created")
	require.Equal(t, []string{"status", "a", "new", "status"}, l.mustPass(t, "a"),
		"a pass that a drift causes does all that the failed one left")
	require.True(t, l.ready(t))
	require.Len(t, l.get(t).Status.ManagedResources, 2)
}

func TestFailedStatusWriteLosesNoRetry(t *testing.T) {
	l := newLab(t, colors("a", "bad"))
	l.mustPass(t)
	l.edit(t, strings.ReplaceAll(colors("a", "bad"), "blue", "red"))
	l.denied["bad"], l.failWrites = true, 1
	_, err := l.pass(t)
	require.Error(t, err)
	l.denied = nil
	require.Contains(t, l.mustPass(t, "a"), "bad")
	require.True(t, l.ready(t))
}

func TestForeignObjectCostsNoWrites(t *testing.T) {
	l := newLab(t, colors("a", "theirs"))
	l.foreign["theirs"] = true
	require.Equal(t, []string{"status", "a", "status"}, l.mustPass(t))
	require.False(t, l.ready(t))
	for range 3 {
		l.states.all[faulty].plan.RetryNow()
		require.Empty(t, l.mustPass(t), "a problem that stays is written once")
	}
	require.Len(t, l.get(t).Status.ManagedResources, 1, "what is somebody else's is not in the inventory")
}

// TestSteadyPassesTellNothing looks at what is in order a thousand times.
func TestSteadyPassesTellNothing(t *testing.T) {
	l := newLab(t, colors("a", "b"))
	l.mustPass(t)
	require.NotEmpty(t, l.told)
	l.told = nil
	for range 1000 {
		require.Empty(t, l.mustPass(t))
	}
	require.Empty(t, l.told)
}

// TestConflictLosesNoHeal has the first status write after a restart come to nothing,
// because what the cache holds is old: what was put back meanwhile is told all the same.
func TestConflictLosesNoHeal(t *testing.T) {
	l := newLab(t, colors("a", "b"))
	l.mustPass(t)
	l.restart()
	l.edit(t, strings.Replace(colors("a", "b"), "blue", "red", 1))
	l.foreign["a"] = true // it is there when it is looked at
	l.failWrites, l.failure = 1, apierrors.NewConflict(schema.GroupResource{Resource: "vidraresources"}, faulty.Name, errors.New("it was changed"))
	_, err := l.pass(t, "b")
	require.True(t, apierrors.IsConflict(err))
	l.mustPass(t)
	require.NoError(t, l.Flush(t.Context()))
	require.EqualValues(t, 1, l.get(t).Status.Drift.Heals)
	require.Contains(t, l.told, events.ReasonDriftCorrected)
}

func TestRestartWritesNothing(t *testing.T) {
	l := newLab(t, colors("a"))
	l.mustPass(t)
	l.restart()
	for _, state := range []watchregistry.State{watchregistry.Starting, watchregistry.Degraded, watchregistry.Synced} {
		l.watch = state
		require.Empty(t, l.mustPass(t), state)
	}
}

func TestEditWhileAKindCannotBeResolvedIsAppliedAfterARestart(t *testing.T) {
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: "
	l := newLab(t, colors("a")+secret+"one\n")
	l.mustPass(t)
	l.serves = false
	l.edit(t, colors("a")+secret+"two\n")
	l.mustPass(t)
	require.False(t, l.ready(t))
	l.serves = true
	l.restart()
	require.Contains(t, l.mustPass(t), "s")
	require.True(t, l.ready(t))
}

func TestEventsDoNotRetryWhatFailed(t *testing.T) {
	l := newLab(t, colors("a", "bad"))
	l.mustPass(t)
	l.denied["bad"] = true
	tries, heals := 0, 0
	for range 20 {
		for _, name := range l.mustPass(t, "a", "bad") {
			switch name {
			case "bad":
				tries++
			case "a":
				heals++
			}
		}
	}
	require.Equal(t, 20, heals, "everything else heals at full speed")
	require.LessOrEqual(t, tries, 2, "what failed waits for its time")
	require.LessOrEqual(t, l.failuresOf("bad").Failures, 2, "and its time is not pushed away")
}

// TestFirstFailureAmongLastingOnes: an edit whose revert fails once is reverted with the first delay of a backoff, also while another object has failed for
// so long that its next attempt is minutes away.
func TestFirstFailureAmongLastingOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a", "bad"))
		l.denied["bad"], l.Options.DefaultInterval = true, 24*time.Hour
		l.mustPass(t)
		for range 12 {
			time.Sleep(time.Until(l.failuresOf("bad").At))
			require.Contains(t, l.mustPass(t), "bad")
		}
		require.Greater(t, time.Until(l.failuresOf("bad").At), time.Minute)
		for _, lasts := range []time.Duration{time.Second, 2 * time.Second} {
			l.denied["a"] = true
			require.Contains(t, l.mustPass(t, "a"), "a")
			l.denied["a"] = false
			time.Sleep(lasts)
			require.Contains(t, l.mustPass(t), "a")
		}
		require.Greater(t, time.Until(l.failuresOf("bad").At), 30*time.Second, "the backoff goes on")
	})
}

// TestFlappingObjectAmongLastingFailures: an object fails and succeeds in turns. The other failing objects keep their own delays.
func TestFlappingObjectAmongLastingFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lasting := []string{"a"}
		for i := range 4 {
			lasting = append(lasting, fmt.Sprintf("bad%d", i))
		}
		l := newLab(t, colors(lasting...))
		l.Options.DefaultInterval = 24 * time.Hour
		for _, name := range lasting[1:] {
			l.denied[name] = true
		}
		l.mustPass(t)
		for range 12 {
			time.Sleep(time.Until(l.failuresOf("bad0").At))
			l.mustPass(t)
		}
		attempts := 0
		count := func(done []string) {
			for _, name := range done {
				if l.denied[name] && name != "a" {
					attempts++
				}
			}
		}
		for begun := time.Now(); time.Since(begun) < 4*time.Minute; {
			l.denied["a"] = true
			count(l.mustPass(t, "a"))
			l.denied["a"] = false
			time.Sleep(time.Until(l.failuresOf("a").At))
			done := l.mustPass(t)
			require.Contains(t, done, "a")
			count(done)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, attempts, 4*len(lasting), "one attempt a minute at each object")
		require.GreaterOrEqual(t, attempts, 2*(len(lasting)-1))
	})
}

// TestRecoveryEndsDelays: the recovery of a destination ends the delays of all its objects, also after a reconcile that the destination has blocked.
func TestRecoveryEndsDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("bad", "worse"))
		l.denied["bad"], l.denied["worse"], l.Options.DefaultInterval = true, true, 24*time.Hour
		l.mustPass(t)
		for range 12 {
			time.Sleep(time.Until(l.failuresOf("bad").At))
			l.mustPass(t)
		}
		l.Watching.Trigger.EnqueueRetry(faulty)
		l.away = errors.New("no route to host")
		l.mustPass(t)
		l.away = nil
		time.Sleep(time.Second)
		require.Subset(t, l.mustPass(t), []string{"bad", "worse"})
		for _, name := range []string{"bad", "worse"} {
			require.Equal(t, 1, l.failuresOf(name).Failures)
			require.Less(t, time.Until(l.failuresOf(name).At), time.Second)
		}
	})
}

// TestEventsDoNotProlongDelays: attempts that events make leave the delay of a failing object as it is, as in an outage in which many things change.
func TestEventsDoNotProlongDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a", "bad"))
		l.denied["bad"], l.Options.DefaultInterval = true, 24*time.Hour
		l.mustPass(t)
		for range 20 {
			l.Watching.Trigger.EnqueueAll(faulty)
			require.Contains(t, l.mustPass(t), "bad")
			time.Sleep(time.Millisecond)
		}
		l.denied["bad"] = false
		time.Sleep(time.Until(l.failuresOf("bad").At))
		require.Contains(t, l.mustPass(t), "bad")
	})
}

// TestInterruptedRevision: a reconcile that has read another content of a source is interrupted. The next one, which finds no further change of the content,
// tries the objects again that rest.
func TestInterruptedRevision(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a", "b"))
	l.Options.Parallel = 1
	l.mustPass(t)
	s := l.states.all[faulty]
	s.manifest.revision, s.plan.Read.Again = "of another content", true
	l.applying = func(string) { s.attempt.interrupted.Store(true) }
	require.Equal(t, []string{"a"}, l.mustPass(t, "a", "b"))
	require.True(t, l.Watching.Trigger.TakeCauses(faulty).Retry)
}

func TestStringDataIsOurs(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"data": map[string]any{"kept": "a2VwdA==", "both": "b2xk"}, "stringData": map[string]any{"both": "new", "text": "hi"},
	}}
	desired.MergeStringData(u)
	require.Equal(t, map[string]any{"data": map[string]any{"kept": "a2VwdA==", "both": "bmV3", "text": "aGk="}}, u.Object)
}

// TestConflictIsNoLostInventory: after the conflict of its first status, a VidraResource has a finalizer without an inventory. No inventory was lost: the objects
// of a former VidraResource of its name are none of it.
func TestConflictIsNoLostInventory(t *testing.T) {
	l := newLab(t, colors("a"))
	vr := l.get(t)
	vr.Finalizers = nil
	require.NoError(t, l.client.Update(t.Context(), vr))
	recovers := func() bool {
		p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
		defer p.state.lane.leave()
		return p.state.inventory.recovers
	}
	require.False(t, recovers())
	vr = l.get(t)
	vr.Finalizers = []string{l.Assignment.Installation.Finalizer()}
	require.NoError(t, l.client.Update(t.Context(), vr))
	l.states.restart(faulty, false)
	require.False(t, recovers(), "this process has seen it without a finalizer")
	l.restart()
	require.True(t, recovers(), "another process may have applied its objects")
	l.states.restart(faulty, false)
	require.True(t, recovers())
}
