package search

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// patience bounds the wait for the end of the work of the operator after a step. Conflicts and refusals are retried with backoff.
// VIDRA_PATIENCE gives a loaded machine more time.
var patience = suite.Duration("VIDRA_PATIENCE", time.Minute)

// moveTimeout is how long a removal waits for a manifest that cannot be read, and that mentions the object.
const moveTimeout = time.Minute

// run is one execution of a plan, with the expectations of what the promises allow.
type run struct {
	world
	require.TestingT
	// logf logs at once: rapid drops the messages of a failure that does not repeat.
	logf func(format string, args ...any)
	// owners has the specs of the VidraResources that exist, and read the objects of the manifests that were read last.
	owners map[string]spec
	read   map[string]map[string]int
	// uids has the objects that some VidraResource has wanted since they were seen, and before the objects that were wanted
	// before the last step.
	uids   map[string]types.UID
	before map[string][]int
	// unmanaged has the objects that a policy may leave unmanaged, and that may be refused when a VidraResource wants them again.
	unmanaged map[string]bool
	// left has the objects that left the manifests of VidraResources that keep their fields in them: suspended ones, and those with an object that
	// cannot be applied.
	left map[string]map[string]bool
	// leaving has the objects that left the manifests of VidraResources since those were Ready: their removals may be
	// under way, and follow the policies of a later spec.
	leaving map[string]map[string]bool
	// seen has the objects that some VidraResource has wanted, and unwanted those among them that were to be removed. kills is how many operators had been
	// killed at the begin.
	seen, unwanted map[string]bool
	kills          int64
	// blocked has the VidraResources that have depended on a missing one since their creation, and removals the deletions whose order is checked.
	blocked  map[string]bool
	removals []removal
	// mentioned has the objects in manifests that could not be read. They are not removed for another VidraResource before that is known.
	mentioned map[string]bool
	// contested has the objects that VidraResources have wanted with different content. One with a stale view may take it from another one.
	contested map[string]bool
	// shared has the objects that several VidraResources have wanted. One of them may revert an edit before another one sees it.
	shared map[string]bool
	// offered has the objects that leave a manifest in this step, and given those that moved to suspended VidraResources alone: an operator that is
	// killed after the minute of a move may not have listed them.
	offered, given map[string]bool
	// foreign is the object of another user, which stays unchanged unless spec.adopt allows the change.
	foreign *unstructured.Unstructured
	adopted bool
	// touched has the objects that users edited, held those with a finalizer of another controller, and owed the edits that histories must list.
	touched, held map[string]bool
	owed          map[string]owed
	// keyless is whether plans of the batch lose the keys of digests: edits of objects whose digests are sealed may be overwritten then.
	keyless bool
	// slowed is whether the writes of operators are delayed: their events come before.
	slowed bool
	// settled has the objects that one VidraResource wanted alone when all was quiet.
	settled map[string]wish
	// waiting has the specs whose manifests wait for a release, and revisions the objects of the applied revisions, by their numbers. awaited has the
	// objects of waiting manifests when all was quiet.
	waiting   map[string]spec
	revisions map[string]map[int64]map[string]int
	awaited   map[string]bool
	// exempt has the exemptions of objects by break-glass, and reverted the edits that were reverted before their end.
	exempt   map[string]*exemption
	reverted []string
	// edited has the objects that users edited since all was quiet.
	edited map[string]bool
	// publisher is the UID of the InfrahubSync of this run.
	publisher atomic.Value
	// weak has the accounts that lack rights or are gone. departed has the objects that left a manifest since all was quiet, and rightless those among them
	// that VidraResources with such accounts alone wanted meanwhile: these may not take an object over, which is removed.
	weak, departed, rightless map[string]bool
	// accounted is whether each spec of the plan has an account, and mark the begin of the run in the audit log.
	accounted bool
	mark      testenv.AuditMark
	// word matches the names of this run.
	word *regexp.Regexp
}

// wish is the variant of an object that a VidraResource wants.
type wish struct {
	owner   string
	variant int
}

// owed is an edit that a history must list.
type owed struct {
	// at is its time.
	at time.Time
	// kills is how many operators had been killed then. A killed one may lose an edit that it has reverted.
	kills int64
}

var runs atomic.Int64

// failing is the TestingT of one of several runs of a test. FailNow ends the goroutine of the run.
type failing struct {
	logf   func(format string, args ...any)
	failed atomic.Bool
}

func (f *failing) Errorf(format string, args ...any) {
	f.failed.Store(true)
	f.logf(format, args...)
}

func (f *failing) FailNow() {
	f.failed.Store(true)
	runtime.Goexit()
}

// execute runs plans at the same time, each in namespaces of its own, and returns those that have broken a promise.
func execute(logf func(format string, args ...any), plans []plan) (failed []plan) {
	type scene struct {
		plan
		failing
		*run
	}
	ctx, scenes := context.Background(), make([]*scene, len(plans))
	for i, p := range plans {
		scenes[i] = &scene{plan: p, failing: failing{logf: logf}}
	}
	each := func(f func(*scene)) (ok bool) {
		var group sync.WaitGroup
		for _, s := range scenes {
			if !s.failed.Load() {
				group.Go(func() { f(s) })
			}
		}
		group.Wait()
		return !slices.ContainsFunc(scenes, func(s *scene) bool { return s.failed.Load() })
	}
	once := func(f func()) {
		each(func(s *scene) {
			if s == scenes[0] {
				f()
			}
		})
	}
	ok := each(func(s *scene) {
		s.run = newRun(ctx, &s.failing, logf)
		s.keyless, s.run.accounted = slices.ContainsFunc(plans, plan.loses), s.hasAccounts()
		if s.Slow {
			defer s.slow()()
		}
		for _, step := range s.Steps {
			s.step(ctx, step)
		}
	})
	if ok && suite.Long() { // it takes the time of the attempts before a refusal rests
		ok = each(func(s *scene) { s.requireRest(ctx) })
	}
	if ok = ok && each(func(s *scene) { s.finish(ctx) }); ok {
		rest := func() { requireQuiet(ctx, &scenes[0].failing, nil, restWindow, 30*restWindow) } // of all
		once(rest)
		each(func(s *scene) { s.diff(ctx) })
		mark := cluster.Env.AuditMark()
		once(func() {
			require.NoError(&scenes[0].failing, killOperators())
			require.NoError(&scenes[0].failing, startOperators(ctx))
			rest()
		})
		each(func(s *scene) { s.requireUnwritten(ctx, mark) })
	}
	if each(func(s *scene) { s.end(ctx) }) {
		var counts map[string]int
		once(func() { counts = countReconciles(&scenes[0].failing) })
		each(func(s *scene) { s.requireFewReconciles(counts) })
	}
	for _, s := range scenes {
		if s.failed.Load() {
			failed = append(failed, s.plan)
		}
	}
	return failed
}

// newRun returns a run in namespaces of its own, with the object of another user.
func newRun(ctx context.Context, t require.TestingT, logf func(format string, args ...any)) *run {
	r := &run{
		world: world{fmt.Sprintf("plan%d", runs.Add(1))}, TestingT: t, logf: logf,
		owners: map[string]spec{}, read: map[string]map[string]int{}, uids: map[string]types.UID{}, unmanaged: map[string]bool{}, mentioned: map[string]bool{}, offered: map[string]bool{}, given: map[string]bool{}, contested: map[string]bool{}, shared: map[string]bool{},
		seen: map[string]bool{}, unwanted: map[string]bool{}, kills: kills.Load(), blocked: map[string]bool{}, left: map[string]map[string]bool{}, leaving: map[string]map[string]bool{}, touched: map[string]bool{}, held: map[string]bool{}, owed: map[string]owed{},
		waiting: map[string]spec{}, revisions: map[string]map[int64]map[string]int{}, awaited: map[string]bool{}, exempt: map[string]*exemption{}, edited: map[string]bool{},
		weak: map[string]bool{}, departed: map[string]bool{}, rightless: map[string]bool{},
	}
	r.word = regexp.MustCompile(`\b` + r.prefix + `\b`)
	for _, ns := range []string{r.main(), r.far(), r.mirror()} {
		require.NoError(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}
	r.grant(ctx)
	r.mark = cluster.Env.AuditMark()
	r.foreign = r.object("ConfigMap/foreign", 0)
	require.NoError(t, unstructured.SetNestedField(r.foreign.Object, "foreign", "data", "value"))
	require.NoError(t, admin.Create(ctx, r.foreign, client.FieldOwner("other-user")))
	return r
}

// writeDelay is the delay of the writes of the operator about the objects of a slow run.
const writeDelay = 700 * time.Millisecond

// slow delays the writes of operators about the objects of the run until end.
func (r *run) slow() (end func()) {
	r.slowed = true
	var rules []*faultproxy.Rule
	for _, p := range proxies {
		rules = append(rules, p.Inject(faultproxy.Match{Where: func(q faultproxy.Request) bool {
			return slices.Contains([]string{"create", "patch", "update", "delete"}, q.Verb) && q.Resource != v1alpha1.Resource.Resource && r.named(q.Namespace, q.Name)
		}}, faultproxy.Delay(writeDelay)))
	}
	return func() {
		r.slowed = false
		for _, rule := range rules {
			rule.Remove()
		}
	}
}

// step does what a step says.
func (r *run) step(ctx context.Context, s step) {
	r.note(ctx)
	r.requireOrder(ctx)
	if s.Lose { // before the kill: the next start makes another one
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: seal.SecretName}})))
	}
	if s.Kill {
		require.NoError(r, killOperators())
		r.lost(ctx)
	}
	if s.Rotate {
		require.NoError(r, rotateKey(ctx))
	}
	r.weaken(ctx, s)
	r.listAll(s)
	if len(s.Delete)+len(s.Apply) > 0 { // the edits may be of objects that have no owner any more, or other values
		clear(r.owed)
		r.unexempt()
	}
	r.deleteAll(ctx, s)
	for _, a := range s.Apply {
		r.apply(ctx, a)
	}
	r.forget()
	for _, e := range s.Edit {
		r.edit(ctx, e)
	}
	if s.Kind {
		r.replaceKind(ctx)
	}
	if s.Kill {
		require.NoError(r, startOperators(ctx))
	}
	if s.Grant {
		r.grant(ctx)
	}
	if s.Settle {
		r.settle(ctx)
	}
}

// replaceKind deletes the kind of Thing/custom with its objects, and creates it again.
func (r *run) replaceKind(ctx context.Context) {
	crd := testenv.CRD("search")
	delete(r.uids, "Thing/custom")
	r.touched["Thing/custom"] = true
	require.NoError(r, admin.Delete(ctx, crd))
	require.NoError(r, wait.PollUntilContextTimeout(ctx, suite.Poll, patience, true, func(ctx context.Context) (bool, error) {
		r.releaseHeld(ctx)
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(crd), crd)), nil
	}), "the kind is gone")
	require.NoError(r, admin.Create(ctx, testenv.CRD("search")))
}

// delete deletes a VidraResource, and perhaps its part, as one command does.
func (r *run) delete(ctx context.Context, name string, in step) {
	s, exists := r.owners[name]
	if !exists {
		return
	}
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: r.owner(name)}}
	if s.Synced || s.Published {
		r.list(ctx, s, spec{})
	}
	if !s.Synced {
		require.NoError(r, admin.Delete(ctx, v))
	}
	if s.Suspend { // the deletion of a suspended one waits, as documented
		require.NoError(r, client.IgnoreNotFound(cluster.MergePatch(v, `{"spec":{"suspend":false}}`)))
	}
	if in.Midway == "orphan" {
		s.Orphan = true
		require.NoError(r, client.IgnoreNotFound(cluster.MergePatch(v, `{"spec":{"deletionPolicy":"Orphan"}}`)))
	}
	if in.Midway == "suspend" {
		require.NoError(r, client.IgnoreNotFound(cluster.MergePatch(v, `{"spec":{"suspend":true}}`)))
		time.Sleep(rest)
		require.NoError(r, client.IgnoreNotFound(cluster.MergePatch(v, `{"spec":{"suspend":false}}`)))
	}
	r.dropped(name, s, nil)
	if s.Parts && in.DeleteParts {
		part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.far(), Name: "part-" + name}}
		require.NoError(r, admin.Delete(ctx, part))
	}
	delete(r.left, name)
	delete(r.leaving, name)
	delete(r.owners, name)
	delete(r.blocked, name)
	delete(r.read, name)
	delete(r.waiting, name)
	delete(r.revisions, name)
}

// dropped notes the objects that left a manifest, perhaps while it was suspended, without being removed: by a policy, or because their removal waits for another
// object that is refused.
func (r *run) dropped(name string, was spec, is *spec) {
	former := map[string]bool{}
	maps.Copy(former, r.left[name])
	maps.Copy(former, r.leaving[name])
	for o := range r.read[name] {
		former[o] = true
	}
	for o := range former {
		if is != nil {
			if _, kept := is.Objects[o]; kept {
				continue
			}
		}
		r.offered[o], r.departed[o] = true, true
		blocked := o == "Namespace/nested" && was.Others["unmanagedContents"] == "Block"
		if blocked || r.mentioned[o] || was.NoPrune || was.Orphan || is != nil && (is.NoPrune || is.Orphan) {
			r.unmanaged[o] = true
		}
	}
}

func (r *run) apply(ctx context.Context, s spec) {
	if s.Synced || s.Published {
		r.list(ctx, r.owners[s.Name], s)
	}
	sent, s := r.revised(ctx, s)
	v, err := r.write(ctx, sent)
	if s.refused() {
		require.True(r, apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err), "%s %s is refused by the API server: %v", s.Broken, s.Invalid, err)
		return
	}
	require.NoError(r, err, "%s", v.Name)
	was, existed := r.owners[s.Name]
	r.owners[s.Name] = s
	r.block(s, existed)
	r.await(sent)
	if limit, has := s.Others["revisionHistoryLimit"]; has && number(limit) == 0 && !sent.holds() { // none is kept, and the next one has number 1
		delete(r.revisions, s.Name)
	}
	if s.Force {
		delete(r.uids, typed)
	}
	if s.unreadable() { // what it had stays, and what it mentions may be left to it
		for o := range r.read[s.Name] {
			if was.mayWait() { // perhaps it never had the object
				delete(r.uids, o)
			}
		}
		for o := range r.leaving[s.Name] {
			r.unmanaged[o] = r.unmanaged[o] || s.NoPrune || s.Orphan
		}
		for o := range s.Objects {
			if r.mentioned[o] = true; len(r.wanted()[o]) == 0 { // its removal may be under way
				r.unmanaged[o] = true
			}
		}
		return
	}
	r.dropped(s.Name, was, &s)
	keeps := s.mayWait() || s.Broken == "unknown-kind" || s.Broken == "refused" // the others wait until all of a manifest is applied
	if r.left[s.Name] == nil || !keeps {
		r.left[s.Name] = map[string]bool{}
	}
	if r.leaving[s.Name] == nil {
		r.leaving[s.Name] = map[string]bool{}
	}
	for o := range r.read[s.Name] {
		if _, wants := s.Objects[o]; !wants {
			r.leaving[s.Name][o] = true
			if keeps {
				r.left[s.Name][o] = true
			}
		}
	}
	r.read[s.Name] = s.Objects
	if _, wants := s.Objects["ConfigMap/foreign"]; wants && (s.Adopt == "Always" || s.Parts && was.Parts && was.Adopt == "Always") { // its part is written first
		r.adopted = true
	}
}

// write creates or updates the VidraResource of a spec, unless an InfrahubSync does. One that is being deleted is awaited first.
func (r *run) write(ctx context.Context, s spec) (*v1alpha1.VidraResource, error) {
	v := &v1alpha1.VidraResource{}
	if s.Synced {
		return v, nil
	}
	for {
		err := admin.Get(ctx, client.ObjectKey{Name: r.owner(s.Name)}, v)
		if apierrors.IsNotFound(err) {
			v = &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: r.owner(s.Name)}}
			break
		}
		require.NoError(r, err)
		if v.DeletionTimestamp == nil {
			break
		}
		r.forget() // what only this one wants, or wanted, goes with it
		r.grant(ctx)
		require.NoError(r, startOperators(ctx))
		require.NoError(r, wait.PollUntilContextTimeout(ctx, suite.Poll, moveTimeout+patience, true, func(ctx context.Context) (bool, error) {
			r.releaseHeld(ctx)
			err := admin.Get(ctx, client.ObjectKeyFromObject(v), v)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}), "the deletion of %s ends: %v", v.Name, v.Status.Conditions)
	}
	r.fill(ctx, v, s)
	if v.ResourceVersion == "" {
		return v, admin.Create(ctx, r.sent(v, s))
	}
	err := admin.Update(ctx, r.sent(v, s))
	for apierrors.IsConflict(err) { // its status changed
		require.NoError(r, admin.Get(ctx, client.ObjectKeyFromObject(v), v))
		r.fill(ctx, v, s)
		err = admin.Update(ctx, r.sent(v, s))
	}
	return v, err
}

// sent returns a VidraResource with the fields of a spec that fill does not know.
func (r *run) sent(v *v1alpha1.VidraResource, s spec) *unstructured.Unstructured {
	v.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VidraResource"))
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(v)
	require.NoError(r, err)
	set := func(path string, value any) {
		require.NoError(r, unstructured.SetNestedField(content, value, append([]string{"spec"}, strings.Split(path, ".")...)...), path)
	}
	for path, value := range s.Others {
		if path == "dependsOn" {
			value = []any{map[string]any{"name": r.owner(fmt.Sprint(value))}}
		}
		if path != "interval" || s.Broken != "short-interval" {
			set(path, value)
		}
	}
	if s.Broken == "field" {
		for _, f := range others() {
			if f.path == s.Invalid {
				set(f.path, f.invalid())
			}
		}
	}
	return &unstructured.Unstructured{Object: content}
}

// fill sets the spec of a VidraResource, and writes the ConfigMap with its part.
func (r *run) fill(ctx context.Context, v *v1alpha1.VidraResource, s spec) {
	inline, part := r.manifest(s)
	v.Labels = nil
	if s.Shard != "" {
		v.Labels = map[string]string{divided.label: s.Shard}
	}
	v.Spec = v1alpha1.VidraResourceSpec{
		Destination: v1alpha1.Destination{Namespace: r.main()}, Manifest: inline, Prune: new(!s.NoPrune), Suspend: s.Suspend, Force: s.Force, Wait: s.Wait,
		Adopt: v1alpha1.AdoptPolicy(s.Adopt), ServiceAccountName: s.Account,
		Drift: &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftMode(s.Mode), Additions: v1alpha1.AdditionsPolicy(s.Additions)},
	}
	if s.Published {
		v.Spec.Manifest, v.Spec.ManifestFrom = "", []v1alpha1.ManifestSource{{Kind: "ExternalArtifact", Namespace: r.main(), Name: r.prefix}}
	}
	if s.Remote {
		v.Spec.Destination.Server = proxies[destinationProxy].Config().Host
	}
	if s.Orphan {
		v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	}
	if s.NoEvents {
		v.Spec.Destination.ReconcileOnEvents = new(false)
	}
	if s.Parts {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.far(), Name: "part-" + s.Name}}
		data := map[string]string{"manifest": part}
		err := admin.Get(ctx, client.ObjectKeyFromObject(cm), cm)
		cm.Data = data
		switch {
		case s.refused(): // the VidraResource keeps the part that it has
			err = nil
		case apierrors.IsNotFound(err):
			err = admin.Create(ctx, cm)
		case err == nil:
			err = admin.Update(ctx, cm)
		}
		require.NoError(r, err)
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Namespace: r.far(), Name: cm.Name, Key: "manifest"}}
	}
	switch s.Broken {
	case "short-interval":
		v.Spec.Interval = &metav1.Duration{Duration: time.Second}
	case "bad-account":
		v.Spec.ServiceAccountName = "Not A Name"
	case "two-parts-of-one-key":
		v.Spec.ManifestFrom = append(v.Spec.ManifestFrom, v1alpha1.ManifestSource{Kind: "Pod", Name: "x", Key: "y"})
	case "bad-server":
		v.Spec.Destination.Server = "https://with a blank"
	}
}

// wanted returns the variants of each object that the VidraResources want.
func (r *run) wanted() map[string][]int {
	found := map[string][]int{}
	for _, name := range slices.Sorted(maps.Keys(r.read)) {
		for o, variant := range r.read[name] {
			found[o] = append(found[o], variant)
		}
	}
	return found
}

// forget forgets the uids of objects that no VidraResource wants.
func (r *run) forget() {
	wanted, active := r.wanted(), map[string]bool{}
	for name, s := range r.owners {
		for o := range r.read[name] {
			active[o] = active[o] || !s.mayWait()
		}
	}
	for _, o := range wholePool {
		r.given[o] = r.given[o] || r.offered[o] && len(wanted[o]) > 0 && !active[o]
		r.contested[o], r.shared[o] = r.contested[o] || disagree(wanted[o]), r.shared[o] || len(wanted[o]) > 1
		if r.seen[o] = r.seen[o] || len(wanted[o]) > 0; r.seen[o] && len(wanted[o]) == 0 {
			r.unwanted[o] = true
		}
	}
	clear(r.offered)
	r.noteRightless()
	awaited := r.awaitedNow()
	maps.DeleteFunc(r.uids, func(o string, _ types.UID) bool {
		return len(wanted[o]) == 0 && (!r.awaited[o] || !awaited[o]) || r.rightless[o]
	})
}

// edit does what a user does to an object that exists.
func (r *run) edit(ctx context.Context, e edit) {
	if e.Object == "ConfigMap/foreign" || e.Object == "Namespace/nested" && slices.Contains([]string{"delete", "replace", "take-over"}, e.How) {
		return
	}
	u := r.object(e.Object, 0)
	if admin.Get(ctx, client.ObjectKeyFromObject(u), u) != nil {
		return
	}
	wasInOrder, at := r.inOrder(ctx, e.Object, u) || r.slowed && e.How == "change" && r.waits(ctx, e.Object, u), time.Now()
	recorded := r.recorded(ctx, u)
	stays := r.mayExempt(e.Object, wasInOrder)
	r.touched[e.Object], r.edited[e.Object] = true, true
	delete(r.exempt, e.Object)
	patch := func(value any) {
		fields := map[string]any{"metadata": map[string]any{"labels": map[string]any{"variant": value}}}
		switch r.kindOf(e.Object) {
		case "ConfigMap", "Secret":
			fields = map[string]any{"data": map[string]any{"value": value}}
		case "Service":
			fields = map[string]any{"spec": map[string]any{"selector": map[string]any{"app": value}}}
		case "Thing":
			fields = map[string]any{"spec": map[string]any{"value": value}}
		case "Role", "ClusterRole":
			if value == nil {
				fields = map[string]any{"rules": nil}
			}
		}
		var until time.Time
		if e.How == "exempt" {
			until = exempt(fields)
		}
		r.merge(ctx, u, fields)
		if e.How == "exempt" {
			r.exempt[e.Object] = &exemption{until, content(u), stays}
		}
	}
	switch e.How {
	case "hold":
		r.held[e.Object] = true
		r.merge(ctx, u, map[string]any{"metadata": map[string]any{"finalizers": append(u.GetFinalizers(), hold)}})
	case "change", "exempt":
		patch("ZWRpdGVk") // base64, for Secrets
	case "remove":
		patch(nil)
	case "add":
		fields := map[string]any{"metadata": map[string]any{"labels": map[string]any{mine: "yes"}}}
		if _, has := u.Object["data"]; has {
			fields["data"] = map[string]any{mine: "bWluZQ=="}
		}
		r.merge(ctx, u, fields)
	case "unlabel":
		r.merge(ctx, u, map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.ManagedByLabel: nil}}})
	case "annotate":
		gone := map[string]any{}
		for key := range u.GetAnnotations() {
			gone[key] = nil
		}
		r.merge(ctx, u, map[string]any{"metadata": map[string]any{"annotations": gone}})
	case "delete":
		delete(r.uids, e.Object)
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, u)))
		u.Object = nil
	case "take-over":
		u = r.object(e.Object, 2)
		err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("other-tool"), client.ForceOwnership)
		require.NoError(r, client.IgnoreNotFound(err))
	case "replace":
		u.SetLabels(map[string]string{"variant": "replaced"})
		if data, has := u.Object["data"].(map[string]any); has {
			delete(data, "value")
		}
		err := admin.Update(ctx, u, client.FieldOwner("kubectl-replace"))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return
		}
		require.NoError(r, err)
	}
	// The one of two VidraResources that is refused may find the deletion first, and creates the object.
	created := e.How == "delete" && disagree(r.wanted()[e.Object])
	sealed := slices.Contains([]string{"Secret", "Deployment"}, r.kindOf(e.Object))
	if wasInOrder && recorded && !created && (!r.keyless || !sealed) && r.heals(e.Object) && !r.unmanaged[e.Object] && !r.inOrder(ctx, e.Object, u) {
		r.owed[e.Object] = owed{at, kills.Load()}
	}
}

// recorded reports whether a status has the apply of an object. An operator that is killed between the two leaves no knowledge of the object before an edit.
func (r *run) recorded(ctx context.Context, u *unstructured.Unstructured) bool {
	for name := range r.owners {
		v := &v1alpha1.VidraResource{}
		if admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v) != nil {
			continue
		}
		if entry := owners.EntryOf(v, object.IdentityIn(u)); entry != nil && entry.UID != "" {
			return true
		}
	}
	return false
}

// sole returns the wishes for objects that one VidraResource wants alone.
func (r *run) sole() map[string]wish {
	found, wanted := map[string]wish{}, r.wanted()
	for name, objects := range r.read {
		for o, variant := range objects {
			if len(wanted[o]) == 1 {
				found[o] = wish{name, variant}
			}
		}
	}
	return found
}

// waits reports whether an object is as its only owner had it when all was quiet, while a newer variant of it is about to be applied.
func (r *run) waits(ctx context.Context, o string, u *unstructured.Unstructured) bool {
	was, known := r.settled[o]
	is, wanted := r.sole()[o]
	return known && wanted && was.owner == is.owner && u.GetDeletionTimestamp() == nil && len(r.wrongContent(ctx, o, u, []int{was.variant})) == 0
}

// disagree reports whether variants of an object differ.
func disagree(variants []int) bool {
	return slices.ContainsFunc(variants, func(v int) bool { return v != variants[0] })
}

// inOrder reports whether an object has the content that a VidraResource wants. Without content, it does not exist.
func (r *run) inOrder(ctx context.Context, o string, u *unstructured.Unstructured) bool {
	wanted := r.wanted()[o]
	return len(wanted) > 0 && u.Object != nil && u.GetDeletionTimestamp() == nil && len(r.wrongContent(ctx, o, u, wanted)) == 0
}

// inFlight bounds the time until the API server has committed the last request of an operator that was killed.
const inFlight = time.Second

// lost drops, after a kill, the edits that the operator had reverted: what it had not written to a history is lost. The others it has to find.
func (r *run) lost(ctx context.Context) {
	for o, edit := range r.owed {
		reverted := wait.PollUntilContextTimeout(ctx, suite.Poll, inFlight, true, func(ctx context.Context) (bool, error) {
			u := r.object(o, 0)
			if err := admin.Get(ctx, client.ObjectKeyFromObject(u), u); apierrors.IsNotFound(err) {
				u.Object = nil
			} else if err != nil {
				return false, client.IgnoreNotFound(err)
			}
			return r.inOrder(ctx, o, u), nil
		})
		if edit.kills = kills.Load(); reverted == nil {
			delete(r.owed, o)
		} else {
			require.True(r, wait.Interrupted(reverted), "%v", reverted)
			r.owed[o] = edit
		}
	}
}

// hold is the finalizer of a controller that releases objects that are being deleted.
const hold = "search.example.com/hold"

// releaseHeld does the work of the other controller.
func (r *run) releaseHeld(ctx context.Context) {
	for o := range r.held {
		r.release(ctx, o)
	}
}

// release removes hold from an object if it is being deleted. After a write of another client, the next call does.
func (r *run) release(ctx context.Context, o string) {
	u := r.object(o, 0)
	if admin.Get(ctx, client.ObjectKeyFromObject(u), u) != nil {
		return
	}
	if i := slices.Index(u.GetFinalizers(), hold); i >= 0 && u.GetDeletionTimestamp() != nil {
		u.SetFinalizers(slices.Delete(u.GetFinalizers(), i, i+1))
		err := admin.Update(ctx, u, client.FieldOwner("hold-controller"))
		require.True(r, err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil, "%v", err)
	}
}

func (r *run) merge(ctx context.Context, u *unstructured.Unstructured, fields map[string]any) {
	encoded, err := json.Marshal(fields)
	require.NoError(r, err)
	err = admin.Patch(ctx, u, client.RawPatch(types.MergePatchType, encoded), client.FieldOwner("kubectl-edit"))
	require.NoError(r, client.IgnoreNotFound(err))
}

// settle waits until everything is as the promises say, and notes the uids.
func (r *run) settle(ctx context.Context) {
	r.grant(ctx)
	if !r.settles(ctx) {
		r.broken(slices.Collect(r.wrong(ctx)))
	}
	if r.pending() { // nothing else shows that the operator has done what it may
		requireQuiet(ctx, r, r, restWindow, 30*restWindow)
	}
	clear(r.owed)
	conditions := r.readiness(ctx)
	maps.DeleteFunc(r.leaving, func(name string, _ map[string]bool) bool { // those of the others may wait for an object that is refused
		return strings.HasPrefix(conditions[name], v1alpha1.ReasonApplied+":")
	})
	r.before, r.settled, r.awaited = r.wanted(), r.sole(), r.awaitedNow()
	r.record(ctx)
	for _, of := range []map[string]bool{r.edited, r.departed, r.rightless} {
		clear(of)
	}
	clear(r.exempt)
	r.note(ctx)
	if moved := r.moved(ctx); len(moved) > 0 {
		r.broken([]string{fmt.Sprintf("deleted and created again: %v", moved)})
	}
}

// settles waits until everything is as the promises say, and reports whether it is in time.
func (r *run) settles(ctx context.Context) bool {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		for range r.wrong(ctx) {
			return false, nil
		}
		return ctx.Err() == nil, nil
	}) == nil
}

// broken ends the run with the promises that are broken.
func (r *run) broken(wrong []string) {
	r.logf("%s: %s", r.prefix, join(wrong))
	for _, log := range operatorLogs() {
		text, err := os.ReadFile(log)
		r.logf("operator log %s: %v", log, err)
		for line := range strings.Lines(string(text)) {
			if r.word.MatchString(line) {
				r.logf("%s", line)
			}
		}
	}
	for name := range r.owners {
		v := &v1alpha1.VidraResource{}
		if admin.Get(context.Background(), client.ObjectKey{Name: r.owner(name)}, v) == nil {
			text, _ := json.Marshal(v.Status)
			r.logf("status of %s: %s", name, text)
			for _, e := range v.Status.History {
				r.logf("history of %s: %s %s/%s at %s: %s", name, e.Object.Kind, e.Object.Namespace, e.Object.Name, e.LastTime.Format(time.TimeOnly), e.Message)
			}
		}
	}
	require.FailNow(r, "a promise is broken")
}

// pending reports whether a VidraResource is suspended, or may wait for another one. What moves to it waits, and its former owner reports that.
func (r *run) pending() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.owners)), func(s spec) bool { return s.Suspend || r.delayed(s) })
}

// note notes the uids of managed objects that VidraResources want now and wanted before the last step: no removal of them is under way.
func (r *run) note(ctx context.Context) {
	wanted := r.wanted()
	for o := range r.before {
		u := r.object(o, 0)
		if wanted[o] == nil || r.rightless[o] || r.uids[o] != "" || admin.Get(ctx, client.ObjectKeyFromObject(u), u) != nil {
			continue
		}
		if u.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue && u.GetDeletionTimestamp() == nil {
			r.uids[o] = u.GetUID()
		}
	}
	r.before = wanted
}

// moved returns the objects that were wanted all the time and have another uid.
func (r *run) moved(ctx context.Context) (found []string) {
	awaited := r.awaitedNow()
	for o, uid := range r.uids {
		u := r.object(o, 0)
		err := admin.Get(ctx, client.ObjectKeyFromObject(u), u)
		if gone := apierrors.IsNotFound(err) && awaited[o]; gone || err == nil && u.GetUID() != uid {
			found = append(found, o)
		}
	}
	return found
}

// finish ends the policies that keep differences, and compares everything.
func (r *run) finish(ctx context.Context) {
	r.grant(ctx)
	for _, name := range slices.Sorted(maps.Keys(r.owners)) {
		s := r.owners[name]
		if w, waits := r.waiting[name]; waits {
			s = w.with("revision.hold", nil).with("revision.to", nil)
		}
		s.Broken, s.Suspend, s.Mode, s.NoEvents = "", false, "", false
		if _, exists := r.owners[s.dependency()]; !exists || r.reaches(s.dependency(), name) {
			s = s.with("dependsOn", nil)
		}
		r.apply(ctx, s)
	}
	r.forget()
	r.settle(ctx)
	r.requireDeleted(ctx)
	r.requireOrder(ctx)
	r.requireImpersonated()
	r.requireWithheld(ctx)
}

// requireWithheld requires that no status and no Event has a value of a Secret.
func (r *run) requireWithheld(ctx context.Context) {
	resources, events := &v1alpha1.VidraResourceList{}, &corev1.EventList{}
	require.NoError(r, admin.List(ctx, resources))
	require.NoError(r, admin.List(ctx, events))
	texts := map[string]any{}
	for i := range resources.Items {
		texts["the status of "+resources.Items[i].Name] = resources.Items[i].Status
	}
	for _, e := range events.Items {
		texts["the Event "+e.Name] = e.Message
	}
	for of, text := range texts {
		is, err := json.Marshal(text)
		require.NoError(r, err)
		for _, value := range []string{withheld, base64.StdEncoding.EncodeToString([]byte(withheld))} {
			require.NotContains(r, string(is), value, "%s has a value of a Secret", of)
		}
	}
}

// requireDeleted requires that the deletions of earlier steps end, perhaps with a release of an object that another VidraResource has taken over, unless
// an object blocks them.
func (r *run) requireDeleted(ctx context.Context) {
	var waits []string
	require.NoError(r, wait.PollUntilContextTimeout(ctx, suite.Poll, patience, true, func(ctx context.Context) (bool, error) {
		r.releaseHeld(ctx)
		waits = nil
		for _, name := range names {
			v := &v1alpha1.VidraResource{}
			if admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v) == nil && v.DeletionTimestamp != nil && ready(v).Reason != v1alpha1.ReasonDeletionBlocked {
				waits = append(waits, fmt.Sprintf("%s: %s", v.Name, ready(v).Message))
			}
		}
		return len(waits) == 0, nil
	}), "deletions end: %v", &waits)
}

// diff requires that vidra diff finds nothing to do about the VidraResources that are Ready.
func (r *run) diff(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(r.owners)) {
		v := &v1alpha1.VidraResource{}
		require.NoError(r, admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v))
		if ready(v).Reason != v1alpha1.ReasonApplied {
			continue
		}
		out, err := exec.CommandContext(ctx, cli, "diff", v.Name, "--kubeconfig="+adminKubeconfig).CombinedOutput()
		require.NoError(r, err, "vidra diff %s: %s", v.Name, out)
	}
}

// end deletes all VidraResources, and what is left: also the unmanaged objects that block a deletion, perhaps one of an earlier step.
func (r *run) end(ctx context.Context) {
	for _, name := range names {
		v := &v1alpha1.VidraResource{}
		err := admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v)
		require.NoError(r, client.IgnoreNotFound(err))
		if err == nil && v.Spec.UnmanagedContents == v1alpha1.UnmanagedBlock {
			require.NoError(r, client.IgnoreNotFound(cluster.MergePatch(v, `{"spec":{"unmanagedContents":"Delete"}}`)))
		}
	}
	r.requireOrder(ctx)
	r.deleteAll(ctx, step{Delete: names})
	r.settle(ctx)
	for _, name := range names {
		v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: r.owner(name)}}
		require.NoError(r, wait.PollUntilContextTimeout(ctx, suite.Poll, patience, true, func(ctx context.Context) (bool, error) {
			r.releaseHeld(ctx)
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(v), v)), nil
		}), "%s is gone: %v", v.Name, v.Status.Conditions)
	}
	r.requireOrder(ctx)
	r.endSync(ctx)
	for _, name := range accounts {
		_, rights := r.account(name)
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, rights)))
	}
	for _, ns := range []string{r.main(), r.far(), r.mirror(), r.nested()} {
		require.NoError(r, client.IgnoreNotFound(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})))
	}
}

// restWindow is the time without requests after which operators count as at rest, and refusalWindow that time where a manifest is refused: longer
// than the longest backoff of attempts.
const (
	restWindow    = 1200 * time.Millisecond
	refusalWindow = time.Minute
)

// requireRest requires that a refused manifest costs no requests.
func (r *run) requireRest(ctx context.Context) {
	for _, s := range r.owners {
		if s.Broken != "" {
			r.settle(ctx)
			requireQuiet(ctx, r, r, refusalWindow, moveTimeout+patience+2*refusalWindow)
			return
		}
	}
}

// requireQuiet requires that operators end to send requests about a run, or about all without one: none for a window, within a time.
func requireQuiet(ctx context.Context, t require.TestingT, of *run, window, within time.Duration) {
	var sent suite.Requests
	mark := cluster.Env.AuditMark()
	err := wait.PollUntilContextTimeout(ctx, window, within, false, func(context.Context) (bool, error) {
		all, err := cluster.AuditSince(mark)
		mark = cluster.Env.AuditMark()
		sent = byOperators(all).Only(func(q suite.Request) bool {
			return of == nil || of.named(q.Namespace, q.Name)
		})
		return len(sent) == 0, err
	})
	require.NoError(t, err, "operators send requests at rest:\n%s", sent)
}

// byOperators returns the requests of operators that come from their work.
func byOperators(all []testenv.AuditEvent) suite.Requests {
	return suite.Requests(all).Only(func(q suite.Request) bool {
		return q.User == suite.OperatorUser && q.Resource != "leases" && q.Verb != "watch" && q.Resource != "events"
	})
}

// requireUnwritten requires that operators have written no object since a mark, and at full size no status either, if all VidraResources are Ready.
func (r *run) requireUnwritten(ctx context.Context, mark testenv.AuditMark) {
	all := &v1alpha1.VidraResourceList{}
	require.NoError(r, admin.List(ctx, all))
	for i := range all.Items {
		if v := &all.Items[i]; r.named("", v.Name) && (v.DeletionTimestamp != nil || ready(v).Reason != v1alpha1.ReasonApplied) {
			return
		}
	}
	sent, err := cluster.AuditSince(mark)
	require.NoError(r, err)
	writes := byOperators(sent).Writes().Only(func(q suite.Request) bool {
		return (suite.Long() || q.Resource != v1alpha1.Resource.Resource) && r.named(q.Namespace, q.Name)
	})
	require.Empty(r, writes, "writes after a start:\n%s", writes)
}

// named reports whether an object is of the run.
func (r *run) named(namespace, name string) bool {
	return r.word.MatchString(namespace) || r.word.MatchString(name) || r.isArchive(name)
}

// short returns a name without the parts that differ from run to run.
func (r *run) short(name string) string {
	if r.isArchive(name) {
		return "archive"
	}
	return strings.Trim(r.word.ReplaceAllString(name, ""), "-")
}

// isArchive reports whether a name is of a Secret with an archive that the InfrahubSync of the run has published.
func (r *run) isArchive(name string) bool {
	publisher, is := r.publisher.Load().(string)
	return is && strings.Contains(name, publisher)
}

func ready(v *v1alpha1.VidraResource) metav1.Condition {
	c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady)
	if waits := c != nil && (v.Holds() && c.Reason == v1alpha1.ReasonRevisionHeld || c.Reason == v1alpha1.ReasonDependencyNotReady); waits { // the observed generation is the one that is applied
		return *c
	}
	if c == nil || c.ObservedGeneration != v.Generation || v.Status.ObservedGeneration != v.Generation {
		return metav1.Condition{Reason: "none for this generation"}
	}
	return *c
}
