package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// objectLoop is a lab with the loop of objects, whose worker is the test.
type objectLoop struct {
	*lab
	queue priorityqueue.PriorityQueue[trigger.Heal]
}

func newObjectLoop(t *testing.T, text string, with ...func(o *objectLoop)) *objectLoop {
	t.Helper()
	o := &objectLoop{lab: newLab(t, text), queue: priorityqueue.New[trigger.Heal](t.Name())}
	for _, set := range with {
		set(o)
	}
	t.Cleanup(o.queue.ShutDown)
	require.NoError(t, o.Watching.Trigger.HealSource().Start(t.Context(), o.queue))
	o.mustPass(t)
	o.told, o.done = nil, nil
	return o
}

func healOf(name string) trigger.Heal {
	return trigger.Heal{Owner: faulty, Key: trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "default", Name: name}}
}

// deleted delivers the deletion of an object.
func (o *objectLoop) deleted(t *testing.T, name string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(fixture.ConfigMapKind)
	u.SetNamespace("default")
	u.SetName(name)
	u.SetUID(types.UID("uid-" + name))
	u.SetResourceVersion("7")
	kept, err := o.Watching.Trigger.TransformFor("", fixture.ConfigMaps)(u)
	require.NoError(t, err)
	o.Watching.Trigger.HandlerFor("", fixture.ConfigMaps).OnDelete(kept)
}

// work has a worker take all that is queued.
func (o *objectLoop) work(t *testing.T) {
	t.Helper()
	for synctest.Wait(); o.queue.Len() > 0; synctest.Wait() {
		h, _, _ := o.queue.GetWithPriority()
		result, err := o.Converge(t.Context(), h)
		require.NoError(t, err)
		require.Zero(t, result, "it waits for nothing but its object")
		o.queue.Done(h)
	}
}

func (o *objectLoop) objectOf(name string) *plan.Object {
	return o.states.all[faulty].plan.Objects.ByID[object.Identity{GroupKind: fixture.ConfigMapKind.GroupKind(), Namespace: "default", Name: name}]
}

// TestConverge: an edit of an object whose configuration is applied is reverted without a reconcile, and reported at once. All else is
// left to a reconcile.
func TestConverge(t *testing.T) {
	t.Parallel()
	reverted := []string{events.ReasonDriftCorrected, events.ReasonChangeReverted}
	cases := map[string]struct {
		reason string
		// before is called before the edit.
		before func(t *testing.T, o *objectLoop)
		done   []string
		told   []string
		// handedOver is whether a reconcile gets the cause, and kept whether the loop of objects keeps it.
		handedOver, kept bool
	}{
		"Edit": {reason: "One request, and its Events.", done: []string{"a"}, told: reverted},
		"OtherHasProblem": {reason: "A problem of another object is none of this one.", before: func(_ *testing.T, o *objectLoop) {
			o.objectOf("b").Fail(v1alpha1.ReasonApplyFailed, "it is refused")
		}, done: []string{"a"}, told: reverted},
		"OtherManifest": {reason: "The object may have another configuration.", before: func(t *testing.T, o *objectLoop) {
			t.Helper()
			o.edit(t, colors("b"))
		}, handedOver: true},
		"OtherVidraResource": {reason: "Its name is that of another one now.", before: func(_ *testing.T, o *objectLoop) { o.states.all[faulty].plan.UID = "former" }, handedOver: true},
		"Suspended": {reason: "Edits of suspended VidraResources stay.", before: func(t *testing.T, o *objectLoop) {
			t.Helper()
			vr := o.get(t)
			vr.Spec.Suspend = true
			require.NoError(t, o.client.Update(t.Context(), vr))
		}, handedOver: true},
		"Deleting": {reason: "Its objects are removed.", before: func(t *testing.T, o *objectLoop) {
			t.Helper()
			require.NoError(t, o.client.Delete(t.Context(), o.get(t)))
		}, handedOver: true},
		"Forgotten":   {reason: "Nothing is known of the objects.", before: func(_ *testing.T, o *objectLoop) { delete(o.states.all, faulty) }, handedOver: true},
		"Closed":      {reason: "Another shard may reconcile it.", before: func(_ *testing.T, o *objectLoop) { o.states.all[faulty].lane.close() }, handedOver: true},
		"Outdated":    {reason: "Its state is made anew.", before: func(_ *testing.T, o *objectLoop) { o.states.restart(faulty, false) }, handedOver: true},
		"Unbegun":     {reason: "The reconcile before it failed.", before: func(_ *testing.T, o *objectLoop) { o.states.all[faulty].attempt.unbegun = true }, handedOver: true},
		"Unread":      {reason: "The manifest could not be read.", before: func(_ *testing.T, o *objectLoop) { o.states.all[faulty].plan.Read.Stalled = &object.Failure{} }, handedOver: true},
		"LeftBehind":  {reason: "The manifest lacks it.", before: func(_ *testing.T, o *objectLoop) { o.objectOf("a").Desired = nil }, handedOver: true},
		"Unapplied":   {reason: "It is applied by a reconcile.", before: func(_ *testing.T, o *objectLoop) { o.objectOf("a").Entry.Configuration = "former" }, handedOver: true},
		"Problem":     {reason: "The backoff of a failed object holds.", before: func(_ *testing.T, o *objectLoop) { o.objectOf("a").Fail(v1alpha1.ReasonApplyFailed, "it is refused") }, handedOver: true},
		"Terminating": {reason: "Nothing can be created in its Namespace.", before: func(_ *testing.T, o *objectLoop) { o.objectOf("a").Edits.Drift = &plan.Drift{} }, handedOver: true},
		"Reserved":    {reason: "A reconcile has the object in its hand, and resumes the heal.", before: func(_ *testing.T, o *objectLoop) { o.objectOf("a").Turn.Reserve(nil) }, kept: true},
		"Refused": {reason: "It is tried again by a reconcile, which reports the problem.", before: func(_ *testing.T, o *objectLoop) { o.denied["a"] = true },
			done: []string{"a"}, handedOver: true},
		"Ended": {reason: "Vidra ends.", before: func(_ *testing.T, o *objectLoop) { o.states.ended = true }, kept: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObjectLoop(t, colors("a", "b"))
				if tc.before != nil {
					tc.before(t, o)
				}
				o.done = nil
				o.deleted(t, "a")
				o.work(t)
				require.Equal(t, tc.done, o.done, tc.reason)
				require.Equal(t, tc.told, o.told, tc.reason)
				require.Equal(t, tc.kept, len(o.Watching.Trigger.Heals(faulty)) > 0, tc.reason)
				_, handedOver := o.Watching.Trigger.TakeCauses(faulty).Objects[healOf("a").Key]
				require.Equal(t, tc.handedOver, handedOver, tc.reason)
				if s := o.states.all[faulty]; s != nil {
					require.Zero(t, s.lane.healing)
					require.True(t, s.lane.mu.TryLock(), "the lane is free")
					s.lane.mu.Unlock()
				}
			})
		})
	}
}

// TestHealBesideAReconcile edits objects while a reconcile waits for the API server.
func TestHealBesideAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a", "b"))
		waits, answered := make(chan struct{}, 1), make(chan struct{})
		o.writing = func() {
			waits <- struct{}{}
			<-answered
		}
		o.states.all[faulty].plan.Reports.Unreported.Heals, o.states.all[faulty].plan.Schedule.Flush = 1, time.Now()
		reconciled := make(chan error)
		go func() { _, err := o.pass(t); reconciled <- err }()
		<-waits
		o.deleted(t, "a")
		o.work(t)
		require.Equal(t, []string{"a"}, o.done, "the heal does not wait")
		require.Contains(t, o.told, events.ReasonDriftCorrected)
		require.EqualValues(t, 1, o.states.all[faulty].plan.Reports.Unreported.Heals, "the status that is being written does not count it")
		close(answered)
		require.NoError(t, <-reconciled)
		o.writing = nil
		require.EqualValues(t, 1, o.get(t).Status.Drift.Heals)
		time.Sleep(plan.HealFlush)
		require.Equal(t, []string{"status"}, o.mustPass(t))
		require.EqualValues(t, 2, o.get(t).Status.Drift.Heals)
	})
}

// TestHealWhileAnotherObjectIsApplied deletes an object while a reconcile applies another one: it is created again at once, once with the new manifest, and
// the deletion is reported in any case.
func TestHealWhileAnotherObjectIsApplied(t *testing.T) {
	cases := map[string]struct {
		reason, edited string
		before, after  func(t *testing.T, o *objectLoop)
		atOnce, early  bool
		done           []string
	}{
		"Applied": {reason: "It is in no hand any more.", edited: "a", atOnce: true, done: []string{"status", "a", "b", "a", "c", "status"}},
		"Unapplied": {reason: "Only other objects have it wait.", edited: "c", atOnce: true, after: func(t *testing.T, o *objectLoop) {
			t.Helper()
			require.Equal(t, trigger.Cause{Unsure: true}, o.objectOf("c").Turn.Due().Cause, "the edit is answered")
		}, done: []string{"status", "a", "b", "c", "status"}},
		"Edited": {reason: "The reconcile has the edit.", edited: "c", early: true, atOnce: true, done: []string{"status", "a", "b", "c", "status"}},
		"Refused": {reason: "It may lack objects before it. Its turn comes.", edited: "c", atOnce: true,
			before: func(_ *testing.T, o *objectLoop) { o.denied["c"] = true }, after: func(t *testing.T, o *objectLoop) {
				t.Helper()
				require.True(t, o.objectOf("c").Turn.Due().Cause.Deleted, "its turn reports the edit")
				delete(o.denied, "c")
			},
			done: []string{"status", "a", "b", "c", "c", "status"}},
		"Waits": {reason: "Its turn comes.", edited: "c", before: func(_ *testing.T, o *objectLoop) { o.objectOf("c").Turn.Reserve(nil) }, done: []string{"status", "a", "b", "c", "status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObjectLoop(t, colors("a", "c"))
				o.applying = func(name string) {
					if name == "b" {
						o.applying = nil
						if tc.before != nil {
							tc.before(t, o)
						}
						if !tc.early {
							o.deleted(t, tc.edited)
						}
						o.work(t)
						require.Equal(t, tc.atOnce, slices.Contains(o.done, tc.edited), tc.reason)
						require.Equal(t, !tc.atOnce, len(o.Watching.Trigger.Heals(faulty)) > 0, tc.reason)
						if tc.after != nil {
							tc.after(t, o)
						}
					}
				}
				o.edit(t, strings.ReplaceAll(colors("a", "b", "c"), "blue", "red"))
				if tc.early {
					o.deleted(t, tc.edited)
					o.work(t)
					require.Empty(t, o.done, "it is handed over")
				}
				require.Equal(t, tc.done, o.mustPass(t), tc.reason)
				require.Contains(t, o.told, events.ReasonChangeReverted, "nothing is lost")
				require.Empty(t, o.Watching.Trigger.TakeCauses(faulty).Objects)
				o.done = nil
				o.work(t)
				require.Empty(t, o.done)
				require.Empty(t, o.Watching.Trigger.Heals(faulty))
			})
		})
	}
}

// TestReconcileEndsAfterEarlyTasks interrupts a reconcile while the loop of objects does one of its tasks: the next one may have another manifest.
func TestReconcileEndsAfterEarlyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a", "c"), func(o *objectLoop) { o.Options.Parallel = 1 })
		begun, answered := make(chan struct{}), make(chan struct{})
		o.applying = func(name string) {
			switch name {
			case "b":
				o.deleted(t, "c")
				go func() {
					h, _, _ := o.queue.GetWithPriority()
					_, _ = o.Converge(t.Context(), h)
					o.queue.Done(h)
				}()
				<-begun
				o.states.all[faulty].attempt.interrupted.Store(true)
			case "c":
				close(begun)
				<-answered
			}
		}
		o.edit(t, strings.ReplaceAll(colors("a", "b", "c"), "blue", "red"))
		ended := make(chan error, 1)
		go func() { _, err := o.pass(t); ended <- err }()
		synctest.Wait()
		require.Empty(t, ended, "it waits for the task of the loop of objects")
		close(answered)
		require.NoError(t, <-ended)
		require.Equal(t, o.objectOf("c").Desired.Configuration, o.objectOf("c").Entry.Configuration)
		require.Nil(t, o.objectOf("c").Turn.Due())
	})
}

// TestDelayedHealBesideAReconcile: the heal of a contended object that has to wait is sent at its time, while a reconcile waits for another object.
func TestDelayedHealBesideAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a"), func(o *objectLoop) {
			o.Reports.Metrics = metrics.New()
			vr := o.get(t)
			vr.Spec.Drift.HealsPerMinute = 1
			require.NoError(t, o.client.Update(t.Context(), vr))
		})
		for range contention.HealBurst {
			o.deleted(t, "a")
			o.work(t)
			o.mustPass(t) // it reports the heal
		}
		require.True(t, o.ready(t), "each edit was reverted at once")
		answered := make(chan struct{})
		o.applying = func(name string) {
			if name == "b" {
				<-answered
			}
		}
		o.edit(t, colors("a", "b"))
		reconciled := make(chan error)
		go func() { _, err := o.pass(t); reconciled <- err }()
		synctest.Wait()
		held := func() float64 {
			return testutil.ToFloat64(o.Reports.Metrics.HeldHeals.WithLabelValues("", "ConfigMap"))
		}
		before := held()
		for range 3 { // the second edit of each is made while the first one waits
			o.done = nil
			began := time.Now()
			for range 2 {
				o.deleted(t, "a")
				o.work(t)
			}
			require.Empty(t, o.done, "its bucket is empty")
			require.Equal(t, []trigger.ObjectKey{healOf("a").Key}, o.Watching.Trigger.Heals(faulty), "the loop of objects keeps the cause")
			for time.Sleep(time.Millisecond); len(o.done) == 0; time.Sleep(time.Millisecond) {
				require.Less(t, time.Since(began), time.Second, "the heal waits for no other object")
				o.work(t)
			}
			require.Equal(t, []string{"a"}, o.done)
			require.Greater(t, time.Since(began), 50*time.Millisecond)
			require.False(t, o.objectOf("a").Edits.Delayed)

			require.Empty(t, o.Watching.Trigger.Heals(faulty))
		}
		require.InDelta(t, 3, held()-before, 0, "one for each heal")
		close(answered)
		require.NoError(t, <-reconciled)
		require.False(t, o.ready(t), "heals were delayed")
		require.Equal(t, v1alpha1.ReasonDriftContended, meta.FindStatusCondition(o.get(t).Status.Conditions, v1alpha1.ConditionDrifted).Reason)
	})
}

// TestReportOfContendedHeals: the begin of a contention is reported at once, and its later heals together: a reconcile for each of them, of
// all objects, costs more than the heal.
func TestReportOfContendedHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a", "b"), func(o *objectLoop) {
			vr := o.get(t)
			vr.Spec.Drift.HealsPerMinute = 2
			require.NoError(t, o.client.Update(t.Context(), vr))
		})
		reconciles := priorityqueue.New[reconcile.Request](t.Name())
		t.Cleanup(reconciles.ShutDown)
		require.NoError(t, o.Watching.Trigger.Source().Start(t.Context(), reconciles))
		pending := func() int { synctest.Wait(); return reconciles.Len() }
		heal := func() {
			o.deleted(t, "a")
			o.work(t)
			time.Sleep(time.Millisecond)
		}
		for range 2 {
			heal()
			require.Zero(t, pending(), "its count waits")
		}
		heal()
		require.Equal(t, 1, pending(), "the contention begins")
		request, _, _ := reconciles.GetWithPriority()
		reconciles.Done(request)
		o.mustPass(t)
		require.Equal(t, v1alpha1.ObjectContended, o.get(t).Status.ManagedResources[0].State)
		for range 5 {
			heal()
			require.Zero(t, pending(), "the status shows nothing new but the count")
		}
		time.Sleep(plan.HealFlush)
		require.Equal(t, 1, pending())
		o.mustPass(t)
		require.EqualValues(t, 8, o.get(t).Status.Drift.Heals)
	})
}

// attempt has the VidraResource reconciled, which may continue without a worker.
func (l *lab) attempt(t *testing.T) {
	t.Helper()
	_, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
	require.NoError(t, err)
	synctest.Wait()
}

// TestReconcileThatWaits: a reconcile that waits for the API server gives its worker back, and what comes meanwhile is reconciled at its end.
func TestReconcileThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a"))
		l.kept = map[string]*unstructured.Unstructured{}
		queue := priorityqueue.New[reconcile.Request](t.Name())
		defer queue.ShutDown()
		require.NoError(t, l.Watching.Trigger.Source().Start(t.Context(), queue))
		ended := 0
		l.bounds.workers = &limits.Workers{Ended: func(owner trigger.Owner, again bool, result reconcile.Result, err error) {
			ended++
			require.NoError(t, err)
			l.Watching.Trigger.Requeue(owner, again, result)
		}}
		answered := make(chan struct{})
		l.applying = func(string) { <-answered }
		l.attempt(t)
		require.Equal(t, []string{"status", "a"}, l.done, "it has waited, and given the worker back")
		require.Zero(t, ended)
		l.edit(t, colors("a", "b"))
		l.done = nil
		l.attempt(t)
		require.Empty(t, l.done, "reconciles of a VidraResource do not overlap")
		close(answered)
		synctest.Wait()
		require.Equal(t, 1, ended)
		require.Equal(t, 1, queue.Len(), "it is reconciled again")
		require.Equal(t, []string{"status", "b", "status"}, l.mustPass(t))
		require.True(t, l.ready(t))
	})
}

// TestInterruptedReconcile changes a VidraResource while its reconcile waits for the API server: no further object is applied or removed for
// the former manifest, and nothing is lost.
func TestInterruptedReconcile(t *testing.T) {
	cases := map[string]struct {
		reason string
		first  string
		// waits is the manifest whose reconcile waits for waitsFor, and next the one after it.
		waits, waitsFor, next string
		// unchanged has the VidraResource reconciled again without a change. done are the requests of the next reconcile, and left is how many
		// objects there are at the end.
		unchanged bool
		done      []string
		left      int
	}{
		"Apply": {"What the new manifest lacks is not created.", colors("a"), colors("a", "b", "c", "d"), "b", colors("a", "b", "e"), false, []string{"status", "e", "status"}, 3},
		"Same":  {"Nothing has changed.", colors("a"), colors("a", "b", "c"), "b", "", true, nil, 3},
		"Changed": {"The applied object is known, and the other one gets its second configuration.", colors("a", "b"), strings.ReplaceAll(colors("a", "b"), "blue", "red"), "a",
			strings.ReplaceAll(colors("a", "b"), "blue", "green"), false, []string{"a", "b", "status"}, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tc.first)
				l.kept = map[string]*unstructured.Unstructured{}
				l.mustPass(t)
				l.bounds.workers = &limits.Workers{Ended: func(_ trigger.Owner, _ bool, _ reconcile.Result, err error) { require.NoError(t, err) }}
				answered := make(chan struct{})
				l.applying = func(name string) {
					if name == tc.waitsFor {
						<-answered
					}
				}
				l.edit(t, tc.waits)
				l.attempt(t)
				if !tc.unchanged {
					l.edit(t, tc.next)
				}
				l.done = nil
				l.attempt(t)
				require.Empty(t, l.done, tc.reason)
				l.applying = nil
				close(answered)
				synctest.Wait()
				if !tc.unchanged {
					require.NotContains(t, l.done, "c", tc.reason)
					require.NotContains(t, l.done, "status", "the next reconcile reports")
				}
				time.Sleep(time.Minute)
				require.Equal(t, tc.done, l.mustPass(t), tc.reason)
				time.Sleep(time.Minute)
				l.mustPass(t)
				time.Sleep(time.Minute)
				l.mustPass(t)
				require.True(t, l.ready(t))
				require.Len(t, l.get(t).Status.ManagedResources, tc.left, tc.reason)
			})
		})
	}
}

// TestLane: a reconcile waits for the heal of an object that it needs, a closed lane for all heals, and neither holds the lock meanwhile.
func TestLane(t *testing.T) {
	await := func(l *lane, o *plan.Object) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.awaitLocked(o)
	}
	cases := map[string]struct {
		reason string
		wait   func(l *lane, o *plan.Object)
	}{
		"Await": {"The object is in the hand of a heal.", await},
		"Close": {"The VidraResource is given away.", func(l *lane, _ *plan.Object) { l.close() }},
		"CloseOfAReconcile": {"It is given away by a reconcile, which sends no request before.", func(l *lane, _ *plan.Object) {
			l.enter()
			defer l.leave()
			l.closeLocked()
			l.apart(func() { await(l, &plan.Object{}) })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, o, other := &lane{}, &plan.Object{}, &plan.Object{}
				l.mu.Lock()
				l.beginLocked(o)
				l.mu.Unlock()
				waited := make(chan struct{})
				go func() { tc.wait(l, o); close(waited) }()
				synctest.Wait()
				select {
				case <-waited:
					require.Fail(t, tc.reason)
				default:
				}
				await(l, other)
				l.mu.Lock()
				l.endLocked(o)
				l.mu.Unlock()
				<-waited
			})
		})
	}
}

// TestHealOfAnObjectThatLeaves: the heal of an object that is gone from the manifest when its answer arrives is counted, and the object
// is not expected any more.
func TestHealOfAnObjectThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a", "b"))
		s := o.states.all[faulty]
		o.deleted(t, "a")
		h, _, _ := o.queue.GetWithPriority()
		one := o.beginHeal(t.Context(), h, false)
		require.NotNil(t, one)
		require.Nil(t, o.beginHeal(t.Context(), h, false), "one at a time")
		result := one.pass.applier.Apply(t.Context(), one.task)
		s.plan.Objects.SetManifest(nil)
		s.plan.Objects.ForgetUnused()
		o.endHeal(t.Context(), h, one, result)
		require.EqualValues(t, 1, s.plan.Reports.Unreported.Heals)
		require.Zero(t, s.lane.healing)
		require.Contains(t, o.told, events.ReasonDriftCorrected)
		require.NotNil(t, o.objectOf("a").Entry, "it is removed by a reconcile")
		require.Nil(t, o.objectOf("a").Desired)
	})
}

// TestAbandonedHeal: a heal that panics leaves its cause, of which it is not known whether it was reverted.
func TestAbandonedHeal(t *testing.T) {
	o := newObjectLoop(t, colors("a"))
	o.deleted(t, "a")
	one := o.beginHeal(t.Context(), healOf("a"), false)
	require.NotNil(t, one)
	o.abandonHeal(healOf("a"), one)
	require.Zero(t, o.states.all[faulty].lane.healing)
	require.True(t, o.Watching.Trigger.TakeCauses(faulty).Objects[healOf("a").Key].Unanswered)
}

// TestCauseThatAHealHasReverted: the cause of a change that a reconcile gets after a heal of the object is not reverted a second time.
func TestCauseThatAHealHasReverted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObjectLoop(t, colors("a", "b"), func(o *objectLoop) { o.kept = map[string]*unstructured.Unstructured{} })
		held := time.Now() // by a reconcile, which has taken it
		time.Sleep(time.Second)
		o.deleted(t, "a")
		o.work(t)
		require.Equal(t, []string{"a"}, o.done)
		o.told = nil
		o.Watching.Trigger.RequeueCauses(faulty, trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{healOf("a").Key: {Deleted: true, Since: held}}})
		require.Empty(t, o.mustPass(t))
		require.Empty(t, o.told)
		require.EqualValues(t, 1, o.states.all[faulty].plan.Reports.Unreported.Heals)
		delete(o.kept, "a")
		require.Equal(t, []string{"a"}, o.mustPass(t, "a"), "a later change is reverted")
	})
}

// TestHealsOfAChangedManifest: an edit of an object that a changed manifest has unchanged is reverted as soon as the manifest is read.
func TestHealsOfAChangedManifest(t *testing.T) {
	cases := map[string]struct {
		reason string
		during bool
	}{
		"Before": {"The reconcile gets the cause with the change.", false},
		"During": {"The loop of objects hands the cause over.", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObjectLoop(t, colors("a"))
				o.edit(t, colors("new", "a"))
				edit := func() {
					o.resolving = nil
					o.deleted(t, "a")
					o.work(t)
					require.Empty(t, o.Watching.Trigger.Heals(faulty), "the present manifest may not have it so")
				}
				if tc.during {
					o.resolving = edit
				} else {
					edit()
				}
				var meanwhile []string
				o.applying = func(name string) {
					if name == "new" {
						o.work(t)
						meanwhile = o.done
					}
				}
				o.mustPass(t)
				require.Equal(t, []string{"status", "new", "a"}, meanwhile, tc.reason)
			})
		})
	}
}

// shardReader has the VidraResource as the API server has it.
type shardReader struct {
	client.Reader
	labels map[string]string
	err    error
}

func (s *shardReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetLabels(s.labels)
	return s.err
}

// TestLabelOfAnotherShard: an object whose label the operator of another shard may have changed is not reverted, in either loop.
func TestLabelOfAnotherShard(t *testing.T) {
	cases := map[string]struct {
		reason string
		now    shardReader
		// done are the requests of the loop of objects, and later those of a reconcile.
		done, later []string
	}{
		"Here":    {"Its label is an edit.", shardReader{labels: map[string]string{"team": "one"}}, []string{"a"}, []string{"a"}},
		"Left":    {"The other shard heals it.", shardReader{labels: map[string]string{"team": "two"}}, nil, nil},
		"Unknown": {"The VidraResource may have left.", shardReader{err: errors.New("the API server is away")}, nil, []string{"status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObjectLoop(t, colors("a"), func(o *objectLoop) { o.Assignment.Shard, o.Clients.API = "team=one", &tc.now })
				o.deleted(t, "a")
				o.work(t)
				require.Equal(t, tc.done, o.done, tc.reason)
				if tc.now.err == nil {
					o.mustPass(t)
					require.Equal(t, tc.later, o.mustPass(t, "a"), tc.reason)
					return
				}
				require.Equal(t, tc.later, o.mustPass(t), "%s That is reported.", tc.reason)
				tc.now = shardReader{labels: map[string]string{"team": "one"}}
				time.Sleep(time.Until(o.failuresOf("a").At))
				require.Contains(t, o.mustPass(t), "a", "The cause waits until it is known.")
			})
		})
	}
}
