package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	clusters "github.com/vidra-operator/vidra/pkg/cluster"
)

const (
	// soakShare is how many objects a VidraResource of the soak has, soakSlots how many
	// CustomResourceDefinitions come and go, soakTick how often the soak looks what is due, and soakRetry how
	// often it tries again to end something.
	soakShare, soakSlots, soakTick, soakRetry = 8, 3, 5 * time.Millisecond, 200 * time.Millisecond
	// soakRest bounds the wait until everything is right after the last action: watches and clusters
	// that failed are retried after 30 seconds at most, and contended objects have their heals counted
	// after 30 seconds.
	soakRest = 2 * time.Minute
	// soakFlush is how long edits may be in no status after they were reverted, soakFlushContended those of
	// contended objects.
	soakFlush, soakFlushContended = 7 * time.Second, 40 * time.Second
	// soakQuiet is a little longer than the recorder remembers an Event that does not recur.
	soakQuiet = 6*time.Minute + 30*time.Second
)

// TestSoak lets many actors disturb an operator at the same time: edits of all kinds, definitions that
// come and go, restarts, faults between the operator and the API server, another cluster that flaps, and hostile
// manifests. `make soak` runs it for 30 minutes, `make soak SOAK=8h` longer, and SEED repeats the choices of
// another run.
//
// It has two halves, each of which ends with all faults gone and everything at rest. The operator is killed and
// restarted in the first half only, because a process that ends takes what it leaked with it: the second half is
// one process, from rest to rest, and has the API server restarted instead. At both ends
//
//   - every object is right: what Vidra would apply changes nothing, by a dry run;
//   - the audits of the watches have found no inconsistency, and the backstop has corrected nothing;
//   - each edit is accounted for: see [soakOwner].
//
// At the end of the second half, goroutines, heap, file descriptors and open watches are those of its
// beginning, within [soakTolerances].
func TestSoak(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	given := os.Getenv("SOAK")
	if given == "" {
		t.Skip("it runs with SOAK=30m, for example, as make soak does")
	}
	length, err := time.ParseDuration(given)
	require.NoError(t, err, "SOAK")
	s := newSoak(t, length)
	defer s.report()
	s.prepare()
	s.rest()
	s.sample("prepared")

	s.act(length/2, append(s.restarts(), s.actors()...))
	s.rest()
	lost := s.account("first half")
	require.LessOrEqual(t, lost, s.atRisk+s.offline, "VIDRA_SEED=%d: edits that no status has", s.seed)
	s.quiet()
	before := s.sample("second half begins")

	s.act(length/2, append(s.actors(), soakActor{"API server", 2 * time.Minute, s.restartAPIServer}))
	s.rest()
	require.LessOrEqual(t, s.account("second half"), lost, "VIDRA_SEED=%d: edits of the second half that no status has", s.seed)
	s.quiet()
	after := s.sample("second half ends")
	s.readCounters()
	soakRequireFlat(t, before, after)
	require.Zero(t, s.total["inconsistencies"])
	require.Zero(t, s.total["backstop corrections"])
}

// quiet has all watches begin again, because each keeps buffers as large as the largest event that it has decoded, and waits
// until the Event recorder has forgotten the series of all Events, of which it keeps up to 20,000.
func (s *soak) quiet() {
	for _, p := range []*faultproxy.Proxy{s.local, s.remote} {
		p.CloseStreams(faultproxy.Match{})
	}
	time.Sleep(soakQuiet)
}

// soak is a run of TestSoak. It is used by one goroutine.
type soak struct {
	t       *testing.T
	random  *rand.Rand
	seed    uint64
	length  time.Duration
	began   time.Time
	ns, far string
	// owners are the VidraResources whose objects are edited, and slots those whose definitions come and go.
	owners []*soakOwner
	slots  []*soakSlot
	// local is between the operator and the API server, and remote before the same API server as another
	// cluster.
	local, remote *faultproxy.Proxy
	operator      *testenv.Operator
	// down is true while no operator runs.
	down  bool
	args  []string
	pprof string
	// later are the ends of what an actor began.
	later []*soakEnd
	// faults end the fault of a proxy.
	faults map[*faultproxy.Proxy]func()
	// done counts what was done, by actor and what it did.
	done map[string]int
	// atRisk is how many edits no status had when the operator was killed last: a killed process loses the history
	// of the last seconds. offline is how many were made while no operator ran, or were not reverted when it was
	// stopped: some of them no status reports.
	// lost is how many of both no status has at the last rest.
	atRisk, offline, lost int
	// total are the counters of the operators that ended, and of the one that runs when readCounters was called.
	total   map[string]int
	samples []soakSample
	notes   []string
}

// soakOwner is a VidraResource whose objects are edited. Each edit that it counts as made is in one of these
// counts:
//
//   - its history: the counts of status.history, and of status.unlistedHistory;
//   - superseded: an edit before was not reverted yet when the edit was made, so one heal may revert both;
//   - lost with a killed process, or not reverted before the operator was stopped or while none ran: never more than
//     soak.atRisk and soak.offline.
type soakOwner struct {
	name             string
	objs             []*soakObject
	made, superseded int
}

// soakObject is an object that is edited, with the rows of the tables of edits that fit it.
type soakObject struct {
	*unstructured.Unstructured
	rows map[string]anEdit
}

// soakEnd is the end of something that an actor began. It is tried until it returns true.
type soakEnd struct {
	due time.Time
	end func() bool
}

func newSoak(t *testing.T, length time.Duration) *soak {
	t.Helper()
	seed := suite.Seed(t)
	return &soak{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, seed)), length: length, began: time.Now(), //nolint:gosec // to be repeated
		faults: map[*faultproxy.Proxy]func(){}, done: map[string]int{}, total: map[string]int{},
	}
}

// prepare starts the operator behind a proxy, and creates what is disturbed.
func (s *soak) prepare() {
	t := s.t
	stopOperator(t)
	s.ns, s.far = newNamespace(t), newNamespace(t)
	var through string
	s.local, through = proxied(t)
	s.startRemote()
	pprof := suite.FreeAddress(t).String()
	s.pprof = "http://" + pprof
	backstop := min(max(s.length/20, 2*time.Second), time.Minute)
	s.args = []string{
		through, "--pprof-bind-address=" + pprof, "--backstop-interval=" + backstop.String(),
		"--kubeconfig-namespace=" + testenv.OperatorNamespace,
	}
	s.start()
	t.Cleanup(func() { assert.NoError(t, s.operator.Stop(stopTimeout)) })

	group := unique(t) + ".example.com"
	definitions := declared(t, "", strings.ReplaceAll(manifests(editedKinds, structuralKinds), "<group>", group))
	require.NoError(t, testenv.Apply(t.Context(), env.Config, definitions))
	t.Cleanup(func() {
		for _, d := range definitions {
			require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), d)))
		}
	})
	s.addOwners(group)
	for i := range soakSlots {
		s.slots = append(s.slots, s.newSlot(i))
	}
	t.Cleanup(s.calm)
}

// startRemote makes the API server another cluster, too, behind a proxy of its own.
func (s *soak) startRemote() {
	upstream, err := env.UserConfig("vidra-elsewhere", "system:masters")
	require.NoError(s.t, err)
	s.remote, err = faultproxy.Start(upstream)
	require.NoError(s.t, err)
	s.t.Cleanup(s.remote.Close)
	kubeconfig, err := testenv.Kubeconfig(s.remote.Config())
	require.NoError(s.t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: s.far, Labels: map[string]string{clusters.KubeconfigLabel: ""}},
		StringData: map[string]string{"kubeconfig": string(kubeconfig)},
	}
	require.NoError(s.t, admin.Create(s.t.Context(), secret))
	s.t.Cleanup(func() { require.NoError(s.t, admin.Delete(context.Background(), secret)) })
}

// start starts the operator. Faults between it and the API server end first, as nothing would end them while it
// starts.
func (s *soak) start() {
	s.endFault(s.local)
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{Binary: operatorBinary, Args: s.args})
	require.NoError(s.t, err)
	s.operator, s.down = started, false
}

// addOwners creates the VidraResources: the objects of all kinds that the tables edit, and some in the other
// cluster.
func (s *soak) addOwners(group string) {
	rows := soakRows(s.t, group)
	var documents []string
	var objs []*soakObject
	flush := func(ns string, options ...func(*v1alpha1.VidraResource)) {
		o := &soakOwner{name: fmt.Sprintf("%s-%d", s.ns, len(s.owners)), objs: objs}
		newVidraResource(s.t, ns, manifests(documents...), append(options, named(o.name))...)
		s.owners = append(s.owners, o)
		documents, objs = nil, nil
	}
	add := func(kind, ns string) {
		document := editedObject(kind, fmt.Sprintf("%s-%d-%d", s.ns, len(s.owners), len(objs)), group)
		if kind == "PersistentVolumeClaim" { // a PersistentVolume that it is bound to cannot be deleted
			document = strings.Replace(document, "storageClassName: none", "storageClassName: other", 1)
		}
		documents = append(documents, document)
		objs = append(objs, &soakObject{declared(s.t, ns, asStored.Replace(document))[0], rows[kind]})
	}
	// They would have the API server refuse Pods in their namespace.
	limiting := []string{"LimitRange", "ResourceQuota"}
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		if slices.Contains(limiting, kind) {
			continue
		}
		if add(kind, s.ns); len(objs) == soakShare {
			flush(s.ns)
		}
	}
	if len(objs) > 0 {
		flush(s.ns)
	}
	limited := newNamespace(s.t)
	for _, kind := range limiting {
		add(kind, limited)
	}
	flush(limited)
	for _, kind := range []string{"ConfigMap", "Secret", "Service", "Deployment", "Ingress"} {
		add(kind, s.far)
	}
	flush(s.far, func(v *v1alpha1.VidraResource) { v.Spec.Destination.Server = s.remote.Config().Host })
}

// soakRows are the edits by kind that can be made again and again: those that Vidra reverts and reports, and writes
// to the status, which it ignores.
func soakRows(t *testing.T, group string) map[string]map[string]anEdit {
	t.Helper()
	all := map[string]map[string]anEdit{}
	add := func(kind string, rows map[string]anEdit) {
		if strings.Contains(kind, "finalizers") || kind == claiming {
			return // it cannot be deleted again, or not each version has it
		}
		for name, row := range rows {
			ignored := row.want == stays && name == "status"
			if row.first != nil || row.undo != "" || !soakReported(row) && !ignored {
				continue
			}
			if strings.ContainsAny(strings.ReplaceAll(row.what, "<ca>", ""), "<") {
				continue // it names another object
			}
			row.what = strings.ReplaceAll(row.what, "<ca>", base64.StdEncoding.EncodeToString(env.Config.CAData))
			if all[kind] == nil {
				all[kind] = map[string]anEdit{}
			}
			all[kind][name] = row
		}
	}
	for _, table := range []map[string]map[string]anEdit{coreEdits, workloadEdits, configurationEdits, customEdits} {
		for kind, edits := range table {
			add(kind, edits)
		}
	}
	for _, table := range []map[string]map[string]structuralEdit{structuralWorkloads, structuralServices, structuralPolicies, structuralCustom} {
		for kind, edits := range table {
			add(kind, structuralRows(t, kind, group, edits))
		}
	}
	return all
}

// soakReported reports whether the history has an edit.
func soakReported(row anEdit) bool { return (&attempt{anEdit: row}).report() != nil }

// act lets the actors act for a while, each at least once, and then at random moments.
func (s *soak) act(lasts time.Duration, actors []soakActor) {
	begin := time.Now()
	due := make([]time.Time, len(actors))
	for i, a := range actors {
		due[i] = begin.Add(min(a.every, lasts*time.Duration(i+1)/time.Duration(len(actors)+1)))
	}
	tick := time.NewTicker(soakTick)
	defer tick.Stop()
	for time.Since(begin) < lasts {
		<-tick.C
		s.endDue()
		for i, a := range actors {
			if time.Now().Before(due[i]) {
				continue
			}
			what := a.act()
			if what != "" {
				s.done[a.name+": "+what]++
			} else if a.name != "" {
				due[i] = time.Now().Add(soakRetry)
				continue
			}
			every := min(a.every, max(lasts/2, time.Second/10))
			due[i] = time.Now().Add(s.between(every/2, every*3/2))
		}
		if !s.down {
			require.NoError(s.t, s.operator.Err(), "the operator ended by itself: see %s", s.operator.Log)
		}
	}
}

// between is a random time.
func (s *soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)+1))
}

// after has an end tried after a random time of at most d.
func (s *soak) after(d time.Duration, end func() bool) {
	s.later = append(s.later, &soakEnd{time.Now().Add(s.between(d/4, d)), end})
}

// endDue ends what is due.
func (s *soak) endDue() {
	s.later = slices.DeleteFunc(s.later, func(e *soakEnd) bool {
		if time.Now().Before(e.due) {
			return false
		}
		e.due = time.Now().Add(soakRetry)
		return e.end()
	})
}

// calm ends everything that an actor began.
func (s *soak) calm() {
	suite.AwaitFor(s.t, soakRest, func(c *assert.CollectT) {
		s.later = slices.DeleteFunc(s.later, func(e *soakEnd) bool { return e.end() })
		require.Empty(c, s.later)
	}, "faults are gone, and definitions are there again")
}

// rest ends everything that an actor began, and waits until all VidraResources are Ready, all objects are right,
// and the histories have all edits that they will have.
func (s *soak) rest() {
	s.calm()
	begin := time.Now()
	for _, o := range s.owners {
		cluster.AwaitReadyFor(s.t, soakRest, o.name)
		for _, obj := range o.objs {
			s.awaitRight(o.name, obj.Unstructured)
		}
	}
	for _, slot := range s.slots {
		cluster.AwaitReadyFor(s.t, soakRest, slot.name)
		for _, obj := range slot.objs {
			s.awaitRight(slot.name, obj)
		}
	}
	s.notes = append(s.notes, fmt.Sprintf("everything was right %s after the last action", time.Since(begin).Round(time.Millisecond)))
}

func (s *soak) awaitRight(owner string, obj *unstructured.Unstructured) {
	suite.AwaitFor(s.t, soakRest, func(c *assert.CollectT) { require.Empty(c, s.wrong(owner, obj)) },
		"VIDRA_SEED=%d: %s %s of %s is right", s.seed, obj.GetKind(), obj.GetName(), owner)
}

// wrong is what is wrong with an object; empty if applying the manifest again changes nothing.
func (s *soak) wrong(owner string, want *unstructured.Unstructured) string {
	live := want.DeepCopy()
	if err := admin.Get(context.Background(), client.ObjectKeyFromObject(want), live); err != nil {
		return err.Error()
	}
	if live.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	if !slices.Contains(appliedBy(live), "vidra/"+owner) {
		return "Vidra has not applied it"
	}
	applied := &unstructured.Unstructured{Object: marked(owner, want)}
	patch, err := applied.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	err = admin.Patch(context.Background(), applied, client.RawPatch(types.ApplyPatchType, patch),
		client.ForceOwnership, client.FieldOwner("vidra/"+owner), client.DryRunAll)
	if err != nil {
		return err.Error()
	}
	return cmp.Or(difference("", settled(applied), settled(live)), difference("", settled(live), settled(applied)))
}

// account waits until the histories have all edits but those that were lost before, or else, for a while, and
// returns how many they do not have.
func (s *soak) account(when string) int {
	begin := time.Now()
	for {
		missing, listed := s.missing()
		waited := time.Since(begin)
		if missing <= s.lost || missing <= s.atRisk+s.offline && waited > min(soakFlush, s.length/2) || waited > soakFlushContended {
			made, superseded := 0, 0
			for _, o := range s.owners {
				made, superseded = made+o.made, superseded+o.superseded
			}
			s.lost = missing
			s.notes = append(s.notes, fmt.Sprintf("after the %s: %d edits to be reverted, %d of them of objects that an edit before was not reverted of yet; "+
				"%d in the histories; %d in none, of at most %d that no status had when the operator was killed and %d that stood while none ran", when, made, superseded, listed, missing, s.atRisk, s.offline))
			return missing
		}
		time.Sleep(suite.Poll)
	}
}

// missing is how many edits the histories do not have that each must have, and how many they have.
func (s *soak) missing() (missing, listed int) {
	for _, o := range s.owners {
		has := s.history(o)
		listed += has
		missing += max(0, o.made-o.superseded-has)
	}
	return missing, listed
}

// history is how many edits the history of a VidraResource has, or counts.
func (s *soak) history(o *soakOwner) int {
	status := getVidraResource(s.t, o.name).Status
	listed := status.UnlistedHistory
	for _, e := range status.History {
		listed += e.Count
	}
	return int(listed)
}
