package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/stopwatch"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// fightLasts is for how long two writers overwrite each other; see stormDuration.
	fightLasts = 15 * time.Second
	// healBurst is how many heals of an object are never delayed.
	healBurst = 100
	// contendedRate is how many heals of all contended objects a second there are, and
	// contendedBurst how many of them are not delayed.
	contendedRate, contendedBurst = 50.0, 200
)

// rival is another writer that overwrites data.greeting of ConfigMaps as soon as its watch
// shows that Vidra has healed it.
type rival struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// mu guards what follows.
	mu sync.Mutex
	// edited is since when each ConfigMap has a foreign value; longest is the longest time
	// for which one had.
	edited  map[types.NamespacedName]time.Time
	longest time.Duration
}

// startRival starts a writer that overwrites the ConfigMaps of a namespace with these names.
// It stops when the test ends.
func startRival(t *testing.T, ns string, names ...string) *rival {
	t.Helper()
	watching, err := client.NewWithWatch(env.Config, client.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &rival{stop: cancel, edited: map[types.NamespacedName]time.Time{}}
	const writers, room = 4, 10_000 // a watch whose events are not read is cut
	overwrite := make(chan string, room)
	r.done.Go(func() {
		defer close(overwrite)
		for ctx.Err() == nil {
			w, err := watching.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(ns))
			if err != nil {
				continue
			}
			for event := range w.ResultChan() {
				page, ok := event.Object.(*corev1.ConfigMap)
				if ok && event.Type != watch.Deleted && slices.Contains(names, page.Name) && r.see(page) {
					overwrite <- page.Name
				}
			}
		}
	})
	for range writers {
		r.done.Go(func() {
			for name := range overwrite {
				patch := fmt.Appendf(nil, `{"data":{"greeting":"mine %d"}}`, time.Now().UnixNano())
				page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
				_ = watching.Patch(ctx, page, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(person)) // it fails when the test ends
			}
		})
	}
	t.Cleanup(r.end)
	return r
}

// see notes what a ConfigMap holds, and reports whether that is Vidra's value.
func (r *rival) see(page *corev1.ConfigMap) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(page)
	since, foreign := r.edited[name]
	if page.Data["greeting"] != "hello" {
		if !foreign {
			r.edited[name] = time.Now()
		}
		return false
	}
	if foreign {
		r.longest = max(r.longest, time.Since(since))
		delete(r.edited, name)
	}
	return true
}

// exposure returns the longest time for which a foreign value stood, or stands.
func (r *rival) exposure() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := r.longest
	for _, since := range r.edited {
		longest = max(longest, time.Since(since))
	}
	return longest
}

// end ends the writer.
func (r *rival) end() {
	r.stop()
	r.done.Wait()
}

// requireHealBudget requires that the heals of an object are a burst at most, then 10 a
// second until slower, and 1 a second after that.
func requireHealBudget(t *testing.T, heals requests, slower time.Duration) {
	t.Helper()
	for i, heal := range heals {
		elapsed := heal.Time.Sub(heals[0].Time).Seconds()
		allowed := healBurst + 10*min(elapsed, slower.Seconds()) + max(0, elapsed-slower.Seconds())
		require.LessOrEqual(t, float64(i), allowed+2, "%d heals in %.1f s", i+1, elapsed)
	}
}

// TestF23Fight has another writer overwrite a field whenever Vidra reverts it. Vidra goes on
// reverting it with at most a burst of 100, then 10 requests a second in the first minute and
// one a second after it. The status and one Event name the other writer and how to end it.
// Other objects are healed at once.
func TestF23Fight(t *testing.T) {
	t.Parallel()
	lasts := stormDuration(t, fightLasts)
	ns := newNamespace(t)
	manifest := manifests(web, configMap("other", "hello"))
	newVidraResource(t, ns, manifest)
	v := awaitReady(t, ns)
	page, other := declaredObject(t, ns, manifest, "ConfigMap", "page"), declaredObject(t, ns, manifest, "ConfigMap", "other")
	mark, start := auditMark(t), time.Now()
	writer := startRival(t, ns, "page")
	awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftContended"), "ConfigMap "+ns+"/page", `"person" keeps changing data.greeting`,
		"more than 5 times within a minute", `"paths":["/data/greeting"]`)
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftContended", "Restore", "data.greeting", "person", "spec.drift.ignore")
	for time.Since(start) < lasts {
		require.NoError(t, mergePatch(other, `{"data":{"greeting":"mine"}}`))
		awaitInOrder(t, ns, other)
		select {
		case <-t.Context().Done():
		case <-time.After(min(lasts/4, 20*time.Second)): // what a user edits beside a contention is no contention
		}
	}
	exposure := writer.exposure()
	writer.end()
	awaitInOrder(t, ns, page)
	took := time.Since(start)
	sent := operatorSince(t, mark)
	heals := sent.On("configmaps", ns, "page").Writes()
	statuses := sent.On("vidraresources", "", ns).Writes()
	t.Logf("%d heals and %d writes of the status in %s; a foreign value stood for %s at most",
		len(heals), len(statuses), took.Round(time.Millisecond), exposure.Round(time.Millisecond))
	requireHealBudget(t, heals, time.Minute)
	require.Greater(t, len(heals), 2*int(lasts.Seconds())/3, "it goes on all the time")
	require.Less(t, exposure, v1alpha1.DefaultMaxExposure)
	require.LessOrEqual(t, len(statuses), 4+2*int(took/(5*time.Second)), "%s", statuses)
	require.Len(t, withReason(eventsAbout(t, v), "DriftContended"), 1)
	require.Equal(t, v1alpha1.ObjectContended, entry(t, getVidraResource(t, ns), "ConfigMap", "page").State, "it is over after a quiet minute")
}

// TestContentionAcrossRestarts: after a restart an object is still contended. It has a burst
// again, but no first minute, and the contention is not announced again.
func TestContentionAcrossRestarts(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	v := awaitReady(t, ns)
	writer := startRival(t, ns, "page")
	awaitCondition(t, ns, drifts(metav1.ConditionTrue, "DriftContended"))
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftContended", "Restore")
	killOperator(t)
	mark := auditMark(t)
	startOperator(t)
	heals := func() requests { return operatorSince(t, mark).On("configmaps", ns, "page").Writes() }
	await(t, func(c *assert.CollectT) { require.Greater(c, len(heals()), healBurst+3) })
	sent := heals()
	requireHealBudget(t, sent, 0)
	require.Greater(t, sent[len(sent)-1].Time.Sub(sent[0].Time), time.Second)
	require.Less(t, writer.exposure(), patience, "as long as the operator was away")
	require.Equal(t, v1alpha1.ObjectContended, entry(t, getVidraResource(t, ns), "ConfigMap", "page").State)
	require.Len(t, withReason(eventsAbout(t, v), "DriftContended"), 1)
	writer.end()
}

// TestManyContendedObjects has another writer overwrite hundreds of objects whenever Vidra
// heals them. No foreign value stands for longer than spec.drift.maxExposure, and the heal of
// another VidraResource takes at most 1.5 times as long as without them.
//
// The floor is the same edit of an object that a bare watch with one PATCH restores. It shows
// how much of the difference is that of the machine and the API server. It is measured with
// each heal. On a busy machine the time without them says little, because the load changes:
// there a heal may take three times as long as the floor, in one of a few periods: what other
// processes take of the machine differs from one to the next.
//
// It is not parallel: it measures times, with an operator of its own that is built without
// the race detector. Where it lasts longer there are 500 objects and the default settings.
func TestManyContendedObjects(t *testing.T) {
	lasts := stormDuration(t, 6*time.Second)
	objects, exposure := 150, 3*time.Second // as many a second as 500 in 10 s
	drift := &v1alpha1.DriftPolicy{HealsPerMinute: 1, MaxExposure: &metav1.Duration{Duration: exposure}}
	if lasts > 6*time.Second {
		objects, exposure, drift = 500, v1alpha1.DefaultMaxExposure, nil
	}
	stopOperator(t)
	startPlainOperator(t)
	quiet, bare := newNamespace(t), newNamespace(t)
	restoreBare(t, bare)
	newVidraResource(t, quiet, pages(quietObjects))
	const owners = 5
	var contended []string
	for range owners {
		ns := newNamespace(t)
		newVidraResource(t, ns, pages(objects/owners), func(v *v1alpha1.VidraResource) { v.Spec.Drift = drift })
		contended = append(contended, ns)
	}
	for _, ns := range append(contended, quiet) {
		awaitReady(t, ns)
	}
	without := timeHeals(t, quiet, bare, 5*time.Second)

	var writers []*rival
	for _, ns := range contended {
		var names []string
		for _, page := range declared(t, ns, pages(objects/owners)) {
			names = append(names, page.GetName())
		}
		writers = append(writers, startRival(t, ns, names...))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for _, ns := range contended {
			v := getVidraResource(c, ns)
			for _, e := range v.Status.ManagedResources {
				require.Equal(c, v1alpha1.ObjectContended, e.State, "%s/%s", ns, e.Name)
			}
			require.Len(c, withReason(eventsAbout(c, v), "DriftContended"), objects/owners)
		}
	}, 4*patience, 500*time.Millisecond)
	for _, w := range writers { // what stood before it was contended counts, but only from now on
		w.mu.Lock()
		w.longest = 0
		w.mu.Unlock()
	}
	mark, start := auditMark(t), time.Now()
	var with medians
	var slower, machine float64
	within := false
	for range contendedPeriods {
		with = timeHeals(t, quiet, bare, lasts)
		slower, machine = float64(with.heal)/float64(without.heal), float64(with.floor)/float64(without.floor)
		if within = with.heal <= max(time.Duration(1.5*max(1, machine)*float64(without.heal)), 3*with.floor); within {
			break
		}
	}
	took, longest := time.Since(start), time.Duration(0)
	for _, w := range writers {
		longest = max(longest, w.exposure())
		w.end()
	}
	heals := 0
	sent := operatorSince(t, mark)
	for _, ns := range contended {
		heals += len(sent.ObjectsIn(ns).Writes())
	}
	t.Logf("%d contended objects, healed %.0f times a second; the heal of another VidraResource: median %s, without them %s: %.2f x; the floor: %s, %s: %.2f x; a foreign value stood for %s at most; %d other writes a second",
		objects, float64(heals)/took.Seconds(), with.heal, without.heal, slower, with.floor, without.floor, machine,
		longest.Round(time.Millisecond), int(float64(len(sent.Writes())-heals)/took.Seconds()))
	if drift == nil { // which is for a machine that does nothing else
		require.Less(t, longest, exposure)
		require.LessOrEqual(t, slower, 1.5)
	}
	require.True(t, within, "of another VidraResource")
	require.Less(t, longest, 3*exposure)
	budget := max(contendedRate, float64(objects)/exposure.Seconds())
	require.Less(t, heals, int(1.3*budget*took.Seconds())+2*contendedBurst, "they are bounded together")
	for _, ns := range append(contended, quiet) {
		require.NoError(t, deleteVidraResource(t.Context(), ns))
	}
}

// contendedPeriods is how often TestManyContendedObjects measures at most, until a heal is as fast as it should be.
const contendedPeriods = 4

// quietObjects is how many objects timeHeals edits.
const quietObjects = 40

// medians are the median times for which an edit stands that Vidra heals, and for which one
// does that a bare watch restores.
type medians struct{ heal, floor time.Duration }

// timeHeals edits ConfigMaps in turn for a while, each too seldom to be contended, and with
// each of them one that restoreBare restores.
func timeHeals(t *testing.T, ns, bare string, lasts time.Duration) medians {
	t.Helper()
	ticker := time.NewTicker(max(100*time.Millisecond, lasts/(2*quietObjects)))
	defer ticker.Stop()
	var stood, floor []time.Duration
	for start := time.Now(); time.Since(start) < lasts; <-ticker.C {
		stood = append(stood, timeHeal(t, targetOf(t, ns, fmt.Sprintf("page-%d", len(stood)%quietObjects)), len(stood)))
		floor = append(floor, timeHeal(t, targetOf(t, bare, "page"), len(floor)))
	}
	slices.Sort(stood)
	slices.Sort(floor)
	return medians{heal: stood[len(stood)/2], floor: floor[len(floor)/2]}
}

// targetOf is a ConfigMap of a namespace.
func targetOf(t *testing.T, ns, name string) stopwatch.Target {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(env.Config)
	require.NoError(t, err)
	want := declared(t, ns, configMap(name, "hello"))[0]
	return stopwatch.Target{
		Resource: dynamicClient.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(ns), Want: want, Timeout: patience,
	}
}

// timeHeal edits the object and returns for how long the edit stood.
func timeHeal(t *testing.T, target stopwatch.Target, edit int) time.Duration {
	t.Helper()
	lap, err := target.Time(t.Context(), func(context.Context) error {
		return mergePatch(target.Want, `{"data":{"greeting":"changed %d"}}`, edit)
	})
	require.NoError(t, err)
	return lap.Stood
}

// TestManyEditsOfOneField edits one field as users and attackers do, with default settings:
// each edit is healed as fast as the first one, although the object is contended from the
// sixth on. In long tests these are 200 edits within 40 s, with an operator of its own that
// is built without the race detector.
//
// The floor is the same edit of an object that a bare watch with one PATCH restores, after
// each edit. Heals are compared with it in the median and in the slowest twentieth.
func TestManyEditsOfOneField(t *testing.T) {
	edits, every, factor, room := 60, 50*time.Millisecond, time.Duration(3), 250*time.Millisecond
	if stormDuration(t, 0) > 0 {
		edits, every, factor, room = 200, 200*time.Millisecond, 2, 50*time.Millisecond
		stopOperator(t)
		startPlainOperator(t)
	} else {
		t.Parallel()
	}
	ns, bare := newNamespace(t), newNamespace(t)
	v := newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	restoreBare(t, bare)
	target, floorTarget := targetOf(t, ns, "page"), targetOf(t, bare, "page")
	var stood, floor []time.Duration
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	start := time.Now()
	for i := range edits {
		stood = append(stood, timeHeal(t, target, i))
		floor = append(floor, timeHeal(t, floorTarget, i))
		<-ticker.C
	}
	took := time.Since(start)
	slices.Sort(stood)
	slices.Sort(floor)
	median, late, last := stood[edits/2], stood[edits*95/100], stood[edits-1]
	t.Logf("%d edits in %s: median %s, 95 %% %s, longest %s; floor: median %s, 95 %% %s, longest %s", edits, took.Round(time.Millisecond),
		median, late, last, floor[edits/2], floor[edits*95/100], floor[edits-1])
	require.Less(t, median, factor*floor[edits/2])
	require.Less(t, late, max(factor*floor[edits*95/100], room), "a busy machine delays a process that waits")
	require.Less(t, last, max(10*floor[edits-1], time.Second), "none is delayed")
	awaitEvent(t, v, corev1.EventTypeWarning, "DriftContended", "Restore", "data.greeting", person)
	contended := awaitReady(t, ns)
	require.Equal(t, v1alpha1.ObjectContended, entry(t, contended, "ConfigMap", "page").State)
	require.Equal(t, "DriftContended", condition(t, contended, v1alpha1.ConditionDrifted).Reason)
}

// restoreBare keeps an unmanaged ConfigMap page, with a bare watch and one PATCH.
func restoreBare(t *testing.T, ns string) {
	t.Helper()
	target := targetOf(t, ns, "page")
	body, err := target.Want.MarshalJSON()
	require.NoError(t, err)
	force := true
	restore := func(ctx context.Context) error {
		_, err := target.Resource.Patch(ctx, "page", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "floor", Force: &force})
		return err
	}
	require.NoError(t, restore(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	w, err := target.Resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=page"})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if live, ok := event.Object.(*unstructured.Unstructured); ok && !stopwatch.Covers(live.Object, target.Want.Object) {
				_ = restore(ctx) // the test would time out
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// TestMaxExposureIsValidated: the API server refuses what is no sensible time, and says why.
func TestMaxExposureIsValidated(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withDrift(v1alpha1.DriftPolicy{}))
	v := awaitReady(t, ns)
	require.Equal(t, v1alpha1.DefaultMaxExposure, v.MaxExposure())
	require.Equal(t, v1alpha1.DefaultMaxExposure, v.Spec.Drift.MaxExposure.Duration, "it can be seen")
	for exposure, message := range map[string]string{
		`"10ms"`: "must be at least 1s", `"0s"`: "must be at least 1s", `"10m"`: "must be at most 5m", `"soon"`: "should match", `"-5s"`: "should match",
	} {
		err := edit(v, types.MergePatchType, fmt.Sprintf(`{"spec":{"drift":{"maxExposure":%s}}}`, exposure))
		require.ErrorContains(t, err, message, exposure)
	}
	require.NoError(t, edit(v, types.MergePatchType, `{"spec":{"drift":{"maxExposure":"1m30s"}}}`))
}
