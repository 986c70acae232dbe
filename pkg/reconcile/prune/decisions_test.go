package prune

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// requests answers the requests about one object, and records those that write. Every answer is made up: the tests are about the
// requests that a decision sends.
type requests struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	// live is the object; nil if it is absent. getErr, listErr and writeErrs are the errors of the requests; each write takes one of the last.
	live            *unstructured.Unstructured
	getErr, listErr error
	writeErrs       []error
	// patched is the answer to a write; nil for the object as it was.
	patched *unstructured.Unstructured

	mu    sync.Mutex
	sent  []string
	patch []byte
}

func (r *requests) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return r
}

func (r *requests) Namespace(string) dynamic.ResourceInterface { return r }

func (r *requests) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	switch {
	case r.getErr != nil:
		return nil, r.getErr
	case r.live == nil:
		return nil, notFound(name)
	}
	return r.live.DeepCopy(), nil
}

func (r *requests) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	if r.live != nil {
		list.Items = append(list.Items, *r.live.DeepCopy())
	}
	return list, r.listErr
}

func (r *requests) write(verb string) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, verb)
	if len(r.writeErrs) > 0 {
		err, r.writeErrs = r.writeErrs[0], r.writeErrs[1:]
	}
	return err
}

func (r *requests) Delete(_ context.Context, _ string, options metav1.DeleteOptions, _ ...string) error {
	if options.Preconditions == nil || *options.Preconditions.UID != r.live.GetUID() || *options.Preconditions.ResourceVersion != r.live.GetResourceVersion() {
		return errors.New("not the object that was read")
	}
	return r.write("delete")
}

func (r *requests) Patch(_ context.Context, _ string, pt types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	verb := "edit"
	if pt == types.ApplyPatchType {
		verb = "apply"
	}
	r.patch = data
	if r.patched != nil && verb == "apply" {
		return r.patched, r.write(verb)
	}
	return r.live.DeepCopy(), r.write(verb)
}

func notFound(name string) error {
	return apierrors.NewNotFound(fixture.ConfigMaps.GroupResource(), name)
}

func forbidden() error {
	return apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New("no right"))
}

// asVidra has Vidra itself read an object.
type asVidra struct {
	kinds
	own dynamic.Interface
	// invalidated is called when the kinds are to be discovered again. Optional.
	invalidated func()
}

func (d asVidra) Dynamic() dynamic.Interface { return d.own }

func (d asVidra) Invalidate(string) {
	if d.invalidated != nil {
		d.invalidated()
	}
}

// failing is a cache that cannot be read.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errDown
}

// reading returns a Remover in a removal of the object of requests.
func reading(r *requests) *Remover {
	a := remover(page)
	a.Plan.State.Objects.ByID[page].Entry.UID = "a"
	a.Applier.Client, a.Applier.Destination = r, asVidra{own: r}
	a.Applier.Finder = &owners.Finder{
		Claimant: a.Applier.Settings.Claimant, Index: a.Applier.Index, VidraResources: &fixture.CacheOf{},
		MayTake: func(context.Context, *v1alpha1.VidraResource, trigger.ObjectKey) (bool, error) { return true, nil },
	}
	a.Applier.Settings.BreakGlass.Max = time.Hour
	a.Applier.Settings.BreakGlass.Room = sync.OnceValue(func() *atomic.Int64 { return plan.NewBreakGlassRoom(nil) })
	a.exclusions = &exclusions{wanted: map[types.UID]bool{}, stayed: map[object.Identity]stayed{}}
	a.Replaced = func() bool { return false }
	a.stale = func() (struct{}, error) { return struct{}{}, nil }
	a.receivers = func() (map[object.Identity][]owners.Receiver, error) {
		return map[object.Identity][]owners.Receiver{}, nil
	}
	return a
}

// holding is the VidraResource shop, whose status lists the object.
func holding() *v1alpha1.VidraResource {
	vr := &v1alpha1.VidraResource{}
	vr.Name = "shop"
	entry := object.NewEntry(page, fixture.ConfigMapKind)
	entry.UID, entry.State = "a", v1alpha1.ObjectApplied
	vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{*entry}
	return vr
}

// TestRemove: the requests of a removal for each state of the object.
func TestRemove(t *testing.T) {
	t.Parallel()
	keep := map[string]string{v1alpha1.KeepAnnotation: "true"}
	mine := func(annotations map[string]string) *unstructured.Unstructured {
		live := fixture.LiveConfigMap("a", annotations, "vidra/web")
		live.SetResourceVersion("7")
		return live
	}
	endingSince := func(since time.Time, live *unstructured.Unstructured) *unstructured.Unstructured {
		live.SetDeletionTimestamp(&metav1.Time{Time: since})
		live.SetFinalizers([]string{"a"})
		return live
	}
	foreign := fixture.LiveConfigMap("a", keep)
	wanted := func(a *Remover) { a.exclusions.wanted["a"] = true }
	account := func(a *Remover) { a.Applier.User = "deployer" }
	conflict := apierrors.NewConflict(fixture.ConfigMaps.GroupResource(), "page", errors.New("changed"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "page", nil)
	shared := fixture.LiveConfigMap("a", nil, "vidra/web", "vidra/shop")
	listed := fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotation: "web,shop"}, "vidra/web", "vidra/shop")
	claimed := fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotationKey("shop"): "shop"}, "vidra/web")
	held := func(a *Remover) {
		a.Applier.Finder.VidraResources = &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"shop": holding()}}
	}
	mentioned := func(a *Remover) {
		a.receivers = func() (map[object.Identity][]owners.Receiver, error) {
			return map[object.Identity][]owners.Receiver{page: {{VidraResource: holding(), Mentioned: true}}}, nil
		}
	}
	moved := func(a *Remover) {
		a.receivers = func() (map[object.Identity][]owners.Receiver, error) {
			return map[object.Identity][]owners.Receiver{page: {{VidraResource: holding()}}}, nil
		}
	}
	cases := map[string]struct {
		reason string
		of     *requests
		before func(*Remover)
		want   end
		kept   bool
		// noted reports that the Event has a note.
		noted bool
		sent  []string
	}{
		"Ours":     {reason: "It is deleted.", of: &requests{live: mine(nil)}, want: deleted, sent: []string{"delete"}},
		"Absent":   {reason: "It is gone.", of: &requests{}, want: absent},
		"Foreign":  {reason: "Another client made an object of the name.", of: &requests{live: foreign}, want: notOurs, kept: true},
		"Wanted":   {reason: "The manifest has it in another group, so that its container is no matter of its annotation.", of: &requests{live: mine(keep)}, before: wanted, want: notOurs},
		"Kept":     {reason: "Its annotation keeps it.", of: &requests{live: mine(keep)}, want: unmanaged, kept: true, sent: []string{"edit"}},
		"Orphaned": {reason: "All objects stay.", of: &requests{live: mine(nil)}, before: func(a *Remover) { a.Applier.Orphans = true }, want: unmanaged, sent: []string{"edit"}},
		"Ending":   {reason: "Its deletion was accepted.", of: &requests{live: endingSince(time.Now(), mine(nil))}, want: beingDeleted},
		"Blocked":  {reason: "Its finalizers last.", of: &requests{live: endingSince(time.Now().Add(-ending.Grace), mine(nil))}, want: blocked},
		"EndingElsewhere": {
			reason: "Another client deletes an object that stays.", of: &requests{live: endingSince(time.Now(), mine(keep))}, want: notOurs,
		},
		"Stale":    {reason: "The VidraResource has changed.", of: &requests{live: mine(nil)}, before: func(a *Remover) { a.stale = func() (struct{}, error) { return struct{}{}, errDown } }, want: delayed},
		"Replaced": {reason: "The destination may be another cluster.", of: &requests{live: mine(nil)}, before: func(a *Remover) { a.Replaced = func() bool { return true } }, want: delayed},
		"Unlisted": {
			reason: "Other VidraResources may have it.", of: &requests{live: mine(nil)},
			before: func(a *Remover) {
				a.receivers = func() (map[object.Identity][]owners.Receiver, error) { return nil, errDown }
			}, want: delayed,
		},
		"Settles": {
			reason: "It has just left the manifest of its receiver.", of: &requests{live: mine(nil)}, before: func(a *Remover) { a.Plan.State.Objects.ByID[page].Departure.Received = true }, want: delayed,
		},
		"Moves": {
			reason: "Its receiver applies it.", of: &requests{live: mine(nil)}, before: func(a *Remover) { moved(a); a.Plan.State.Objects.ByID[page].Departure.At = time.Now() }, want: delayed,
		},
		"Moved": {reason: "Its receiver gets the fields.", of: &requests{live: mine(nil)}, before: moved, want: released, sent: []string{"edit"}},
		"Mentioned": {
			reason: "The manifest of the receiver is unreadable, and the Event reports that.", of: &requests{live: mine(nil)}, before: mentioned,
			want: unmanaged, noted: true, sent: []string{"edit"},
		},
		"OwnersUnknown": {
			reason: "Its marks name another owner, and the annotations of an object that may stay keep its container.", of: &requests{live: shared},
			before: func(a *Remover) { a.Applier.Finder.VidraResources = failing{} }, want: failed,
		},
		"DeleteFails":  {reason: "It is to be deleted, so that its container may go.", of: &requests{live: mine(nil), writeErrs: []error{errDown}}, want: deletionFailed, sent: []string{"delete"}},
		"ReleaseFails": {reason: "It stays, so that its container must.", of: &requests{live: mine(keep), writeErrs: []error{errDown}}, want: failed, kept: true, sent: []string{"edit"}},
		"Faster":       {reason: "Another client deletes it meanwhile.", of: &requests{live: mine(keep), writeErrs: []error{notFound("page")}}, want: absent, sent: []string{"edit"}},
		"OtherAbsent":  {reason: "Another object is absent.", of: &requests{live: mine(keep), writeErrs: []error{notFound("other")}}, want: failed, kept: true, sent: []string{"edit"}},
		"Changed":      {reason: "Another client writes to it meanwhile.", of: &requests{live: mine(nil), writeErrs: []error{conflict}}, want: deleted, sent: []string{"delete", "delete"}},

		"Shared":       {reason: "Another owner keeps it.", of: &requests{live: shared}, before: held, want: released, sent: []string{"apply"}},
		"SharedNoMore": {reason: "The other owner has released it meanwhile.", of: &requests{live: shared, patched: fixture.LiveConfigMap("a", nil)}, before: held, want: deleted, sent: []string{"apply", "delete"}},
		"SharedNoMoreStays": {
			reason: "The other owner has released it meanwhile, so that the object that stays has no owner.", of: &requests{live: shared, patched: fixture.LiveConfigMap("a", nil)},
			before: func(a *Remover) { held(a); mentioned(a) }, want: unmanaged, noted: true, sent: []string{"apply", "edit"},
		},
		"SharedNoMoreFails": {
			reason: "It had another owner when it was decided about, and its container stays.", of: &requests{live: shared, patched: fixture.LiveConfigMap("a", nil), writeErrs: []error{nil, errDown}},
			before: held, want: failed, sent: []string{"apply", "delete"},
		},
		"SharedInvalid": {
			reason: "The API server refuses the object without our fields.", of: &requests{live: shared, writeErrs: []error{invalid}}, before: held, want: released, sent: []string{"apply", "edit"},
		},
		"SharedFails": {reason: "It is tried again.", of: &requests{live: shared, writeErrs: []error{errDown}}, before: held, want: failed, sent: []string{"apply"}},
		"Listed":      {reason: "Its list of owners loses us first.", of: &requests{live: listed}, before: held, want: released, sent: []string{"edit", "apply"}},
		"ListedFails": {reason: "The list would still name us.", of: &requests{live: listed, writeErrs: []error{errDown}}, before: held, want: failed, sent: []string{"edit"}},
		"Claimed":     {reason: "Its other owner is still to apply it, and gets the fields.", of: &requests{live: claimed}, before: held, want: released, sent: []string{"edit"}},
		"Forged":      {reason: "No VidraResource has the object.", of: &requests{live: claimed}, want: deleted, sent: []string{"delete"}},

		"KindGone":    {reason: "Discovery was behind.", of: &requests{getErr: notFound("")}, want: kindUnserved},
		"Unreadable":  {reason: "It may be kept.", of: &requests{live: mine(nil), getErr: errDown}, want: failed},
		"Forbidden":   {reason: "It is to be deleted, as Vidra itself reads.", of: &requests{live: mine(nil), getErr: forbidden()}, before: account, want: deletionFailed},
		"HiddenKept":  {reason: "Its annotation keeps it.", of: &requests{live: mine(keep), getErr: forbidden()}, before: account, want: failed, kept: true},
		"HiddenOwned": {reason: "Its owners are unknown.", of: &requests{live: shared, getErr: forbidden()}, before: func(a *Remover) { account(a); a.Applier.Finder.VidraResources = failing{} }, want: failed},
		"Hidden":      {reason: "Vidra itself fails to read it, too.", of: &requests{live: mine(keep), getErr: forbidden(), listErr: errDown}, before: account, want: failed},
		"HiddenGone":  {reason: "It is gone, which looks the same.", of: &requests{getErr: forbidden()}, before: account, want: notOurs},
		"HiddenOther": {reason: "It is foreign.", of: &requests{live: foreign, getErr: forbidden()}, before: account, want: notOurs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := reading(tc.of)
			if tc.before != nil {
				tc.before(a)
			}
			done := a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
			require.Equal(t, tc.want, done.end, "%s: %v", tc.reason, done.err)
			require.Equal(t, tc.kept, done.kept, tc.reason)
			require.Equal(t, tc.want == failed || tc.want == deletionFailed, done.err != nil, tc.reason)
			require.Equal(t, tc.want == delayed, done.decision.Waits(), tc.reason)
			require.Equal(t, tc.noted, !done.decision.Waits() && done.decision.Text != "", tc.reason)
			require.Equal(t, tc.want == beingDeleted || tc.want == blocked, done.version == "7" && !done.blockedAt.IsZero() && done.waitsFor != "", tc.reason)
			require.Equal(t, tc.sent, tc.of.sent, tc.reason)
			require.Equal(t, pageKey, done.key)
		})
	}
}

// TestDiscoveryBehind: a kind that moved to another version is found by a second discovery, which an unserved kind does without.
func TestDiscoveryBehind(t *testing.T) {
	t.Parallel()
	r := &requests{live: fixture.LiveConfigMap("a", nil, "vidra/web"), getErr: notFound("")}
	a := reading(r)
	a.Applier.Destination = asVidra{own: r, invalidated: func() { r.getErr = nil }}
	done := a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
	require.Equal(t, deleted, done.end)

	asked := 0
	a = remover(page)
	a.Applier.Destination = kinds{mapping: &meta.NoKindMatchError{}, asked: &asked}
	require.Equal(t, removal{end: kindUnserved}, a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry))
	require.Equal(t, 1, asked)
}

// TestForbiddenInNamespace: the rights in a Namespace are deleted with it, and so are its objects.
func TestForbiddenInNamespace(t *testing.T) {
	t.Parallel()
	r := &requests{getErr: forbidden()} // which has no Namespace, either
	a := reading(r)
	a.Prune(t.Context(), []object.Identity{page})
	require.Nil(t, a.Plan.State.Objects.ByID[page].Entry)

	r.live = fixture.LiveConfigMap("a", nil)
	a = reading(r)
	a.Prune(t.Context(), []object.Identity{page})
	require.Equal(t, v1alpha1.ObjectFailed, a.Plan.State.Objects.ByID[page].Entry.State, "the Namespace exists")
	r.live, r.getErr = nil, errDown
	a = reading(r)
	a.Prune(t.Context(), []object.Identity{page})
	require.Equal(t, v1alpha1.ObjectFailed, a.Plan.State.Objects.ByID[page].Entry.State, "the failure is another one")
}

// TestRemoveAsFormer: the account that the spec named before removes an object that the present one may not.
func TestRemoveAsFormer(t *testing.T) {
	t.Parallel()
	live := fixture.LiveConfigMap("a", nil, "vidra/web")
	denied := apierrors.NewForbidden(fixture.ConfigMaps.GroupResource(), "page", errors.New(`admission webhook "w" denied the request`))
	cases := map[string]struct {
		reason, former  string
		present, as     error
		why             *object.Failure
		deleted, fails  bool
		message         string
		asked, asFormer bool
	}{
		"Removed":  {reason: "The former account may.", former: "shop/old", present: forbidden(), asked: true, asFormer: true, deleted: true},
		"Neither":  {reason: "Both are refused.", former: "shop/old", present: forbidden(), as: forbidden(), asked: true, asFormer: true, fails: true, message: ". ServiceAccount shop/old, which applied it, may not remove it either"},
		"Unusable": {reason: "The former account must not be used.", former: "shop/old", present: forbidden(), why: &object.Failure{Message: "it is outside"}, asked: true, fails: true, message: ". ServiceAccount shop/old, which applied it, is not used: it is outside"},
		"Fails":    {reason: "The failure of the former account counts.", former: "shop/old", present: forbidden(), as: errDown, asked: true, asFormer: true, fails: true},
		"Denied":   {reason: "A webhook refuses every account.", former: "shop/old", present: denied, fails: true},
		"None":     {reason: "The account is the same as before.", present: forbidden(), fails: true},
		"Allowed":  {reason: "The present account may.", former: "shop/old", deleted: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			present, former := &requests{live: live, writeErrs: []error{tc.present}}, &requests{live: live, writeErrs: []error{tc.as}}
			a, asked := reading(present), false
			a.FormerClient = func(_ context.Context, account string, _ access.Destination) (dynamic.Interface, string, *object.Failure) {
				require.Equal(t, tc.former, account)
				asked = true
				return former, "system:serviceaccount:shop:old", tc.why
			}
			entry := a.Plan.State.Objects.ByID[page].Entry
			entry.RemoveAs = tc.former
			done := a.remove(t.Context(), entry)
			require.Equal(t, []bool{tc.asked, tc.asFormer, tc.deleted, tc.fails}, []bool{asked, len(former.sent) > 0, done.end == deleted, done.err != nil}, tc.reason)
			require.Equal(t, tc.message, done.former, tc.reason)
			require.Empty(t, a.Applier.User, "the other objects are removed as the present account")
		})
	}
}

// TestExempted: break-glass delays a removal, and the answer is reported.
func TestExempted(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Minute)
	live := fixture.LiveConfigMap("a", map[string]string{
		v1alpha1.BreakGlassUntilAnnotation: until.UTC().Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident 42",
	}, "vidra/web")
	r := &requests{live: live}
	a := reading(r)
	done := a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
	require.Equal(t, policy.Exempt, done.decision.Reason)
	require.Equal(t, v1alpha1.BreakGlassAccepted, done.glass.Status.State)
	require.Empty(t, r.sent)

	delete(live.Object["metadata"].(map[string]any)["annotations"].(map[string]any), v1alpha1.BreakGlassReasonAnnotation)
	done = a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
	require.Equal(t, deleted, done.end, "a request without a reason exempts nothing")
	require.Equal(t, policy.Remove(""), done.decision)
}

// TestReceiverThatStaysEmpty: an object waits a minute for a VidraResource whose source stays absent, or whose account stays without a Namespace, and is
// removed then: the end of the wait is no departure of that VidraResource, which would begin the wait anew.
func TestReceiverThatStaysEmpty(t *testing.T) {
	t.Parallel()
	for name, mayErr := range map[string]error{"NoContent": nil, "NoNamespace": &access.NoNamespace{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, begun := reading(&requests{live: fixture.LiveConfigMap("a", nil, "vidra/web")}), time.Now()
				a.Applier.Finder.MayTake = func(context.Context, *v1alpha1.VidraResource, trigger.ObjectKey) (bool, error) {
					return mayErr == nil, mayErr
				}
				a.receivers = func() (map[object.Identity][]owners.Receiver, error) {
					return map[object.Identity][]owners.Receiver{page: {{VidraResource: holding(), Unknown: errDown, Empty: true}}}, nil
				}
				o := a.Plan.State.Objects.ByID[page]
				for time.Since(begun) < 10*time.Minute {
					a.Plan.Now = time.Now()
					if len(a.Plan.SettleRemovals([]object.Identity{page}, plan.Settling)) == 1 {
						done := a.remove(t.Context(), o.Entry)
						if done.end == deleted {
							break
						}
						a.recordRemoval(o, done)
					}
					time.Sleep(time.Until(o.Problem.Until))
				}
				require.InDelta(t, moveTimeout, time.Since(begun), float64(2*plan.RemovalSettle))
			})
		})
	}
}

// TestClaim: a removed object loses its claim, and a deleted one has its claim expect the deletion, until it is gone.
func TestClaim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason    string
		live      *unstructured.Unstructured
		unwatched bool
		stale     error
		want      int
	}{
		"Deleted":   {"Its deletion is still to be seen.", fixture.LiveConfigMap("a", nil, "vidra/web"), false, nil, 1},
		"Unwatched": {"No event shows its deletion.", fixture.LiveConfigMap("a", nil, "vidra/web"), true, nil, 0},
		"Gone":      {"It is not ours.", nil, false, nil, 0},
		"Waits":     {"It may come back into the manifest.", fixture.LiveConfigMap("a", nil, "vidra/web"), false, errDown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := reading(&requests{live: tc.live})
			a.Applier.Settings.Watched, a.stale = !tc.unwatched, func() (struct{}, error) { return struct{}{}, tc.stale }
			a.remove(t.Context(), a.Plan.State.Objects.ByID[page].Entry)
			require.Len(t, a.Applier.Index.Claims(pageKey), tc.want, tc.reason)
		})
	}
}

// TestExclude: the objects of the manifest in a container that is removed are read, and decide about it.
func TestExclude(t *testing.T) {
	t.Parallel()
	keep := map[string]string{v1alpha1.KeepAnnotation: "true"}
	glass := map[string]string{v1alpha1.BreakGlassUntilAnnotation: time.Now().Add(time.Minute).UTC().Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident 42"}
	deleting := func(a *Remover) { a.Plan.State.Objects.ByID[shop].Entry.State = v1alpha1.ObjectDeleting }
	account := func(a *Remover) { a.Applier.User = "deployer" }
	live := func(annotations map[string]string) *unstructured.Unstructured {
		return fixture.LiveConfigMap("a", annotations, "vidra/web")
	}
	cases := map[string]struct {
		reason                  string
		of                      *requests
		removed                 object.Identity
		before                  func(*Remover)
		needed, kept, undecided bool
	}{
		"Plain":         {reason: "The manifest has it.", of: &requests{live: live(nil)}, removed: shop, needed: true},
		"Kept":          {reason: "Its annotation keeps it.", of: &requests{live: live(keep)}, removed: shop, needed: true, kept: true},
		"Exempt":        {reason: "Break-glass keeps it for a while.", of: &requests{live: live(glass)}, removed: shop, needed: true, undecided: true},
		"Absent":        {reason: "It is still to be applied.", of: &requests{}, removed: shop, needed: true},
		"KindGone":      {reason: "No object of the kind exists.", of: &requests{getErr: notFound("")}, removed: shop, needed: true},
		"Unreadable":    {reason: "It may be kept.", of: &requests{live: live(nil), getErr: errDown}, removed: shop, needed: true, undecided: true},
		"Hidden":        {reason: "Vidra itself reads it.", of: &requests{live: live(nil), getErr: forbidden()}, removed: shop, before: account, needed: true},
		"HiddenKept":    {reason: "Vidra itself reads its annotation.", of: &requests{live: live(keep), getErr: forbidden()}, removed: shop, before: account, needed: true, kept: true},
		"HiddenExempt":  {reason: "Vidra itself reads its annotations.", of: &requests{live: live(glass), getErr: forbidden()}, removed: shop, before: account, needed: true, undecided: true},
		"HiddenAbsent":  {reason: "It is still to be applied.", of: &requests{getErr: forbidden()}, removed: shop, before: account, needed: true},
		"HiddenUnknown": {reason: "Vidra itself fails to read it.", of: &requests{live: live(nil), getErr: forbidden(), listErr: errDown}, removed: shop, before: account, needed: true, undecided: true},
		"Deleting":      {reason: "An accepted deletion stands.", of: &requests{live: live(keep)}, removed: shop, before: deleting},
		"Elsewhere":     {reason: "Another Namespace does not hold it.", of: &requests{live: live(keep)}, removed: fixture.IDOf(fixture.NamespaceKind, "", "bank")},
		"NoContainer":   {reason: "An ordinary object holds none.", of: &requests{live: live(keep)}, removed: fixture.IDOf(fixture.ConfigMapKind, "", "shop")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := reading(tc.of)
			for _, id := range []object.Identity{shop, tc.removed} {
				a.Plan.State.Objects.Track(id).Entry = object.NewEntry(id, id.WithVersion("v1"))
			}
			a.Plan.State.Objects.SetManifest([]*desired.Object{{ID: page, Key: pageKey}})
			if tc.before != nil {
				tc.before(a)
			}
			excluded := a.exclude(t.Context(), []object.Identity{tc.removed})
			_, needed := excluded.members.Needed.In(shop)
			_, kept := excluded.members.Kept.In(shop)
			_, undecided := excluded.members.Undecided.In(shop)
			require.Equal(t, []bool{tc.needed, tc.kept, tc.undecided}, []bool{needed, kept, undecided}, tc.reason)
			require.Equal(t, map[types.UID]bool{"a": true}, excluded.wanted, "the UIDs of the manifest")
		})
	}
	t.Run("NeverApplied", func(t *testing.T) {
		t.Parallel()
		a := reading(&requests{})
		for _, entry := range []*v1alpha1.ManagedResourceStatus{nil, object.NewEntry(page, fixture.ConfigMapKind)} {
			a.Plan.State.Objects.SetManifest([]*desired.Object{{ID: page, Key: pageKey}})
			a.Plan.State.Objects.ByID[page].Entry = entry
			require.Empty(t, a.exclude(t.Context(), nil).wanted, "an unknown UID excludes no object")
		}
	})
}

// TestOtherReferences: only the references to the VidraResource leave an object.
func TestOtherReferences(t *testing.T) {
	t.Parallel()
	ours := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "1"}
	change := func(with func(*metav1.OwnerReference)) metav1.OwnerReference {
		ref := ours
		with(&ref)
		return ref
	}
	older := change(func(r *metav1.OwnerReference) { r.APIVersion = v1alpha1.GroupVersion.Group + "/v1" })
	cases := map[string]struct {
		reason string
		ref    metav1.OwnerReference
		ours   bool
	}{
		"Ours":         {"The first operator set it.", ours, true},
		"OtherVersion": {"The version is no matter.", older, true},
		"OtherGroup":   {"Another kind has the same name.", change(func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1" }), false},
		"OtherKind":    {"It is an InfrahubSync.", change(func(r *metav1.OwnerReference) { r.Kind = "InfrahubSync" }), false},
		"OtherName":    {"It is another VidraResource.", change(func(r *metav1.OwnerReference) { r.Name = "shop" }), false},
		"Malformed":    {"It is no reference of Vidra.", change(func(r *metav1.OwnerReference) { r.APIVersion = "a/b/c" }), false},
	}
	other := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := fixture.LiveConfigMap("a", nil)
			live.SetOwnerReferences([]metav1.OwnerReference{other, tc.ref})
			rest, changed := otherReferences(live, "web")
			require.Equal(t, tc.ours, changed, tc.reason)
			want := []metav1.OwnerReference{other, tc.ref}
			if tc.ours {
				want = want[:1]
			}
			require.Equal(t, want, rest, tc.reason)
			metadata := reading(&requests{}).withoutMarks(live, v1alpha1.OwnerAnnotationKey("web"))
			require.Equal(t, tc.ours, metadata["ownerReferences"] != nil, tc.reason)
			require.Contains(t, metadata["annotations"], v1alpha1.OwnerAnnotationKey("web"))
		})
	}
}

// TestReleasedLabels: a label stays while another owner, or another manager, needs it.
func TestReleasedLabels(t *testing.T) {
	t.Parallel()
	const shard = v1alpha1.ShardLabelPrefix + "/shard-1"
	labelled := func(manager string) *unstructured.Unstructured {
		live := writtenBy(fixture.LiveConfigMap("a", nil, "vidra/web"), manager, `{"f:metadata":{"f:labels":{"f:`+shard+`":{}}}}`)
		live.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue, shard: ""})
		return live
	}
	shared := fixture.LiveConfigMap("a", nil, "vidra/web", "vidra/shop")
	cases := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		shards []string
		shared bool
		want   string
	}{
		"Alone":       {"It has no owner then.", fixture.LiveConfigMap("a", nil, "vidra/web"), nil, false, `"labels":{"managed-by":null}`},
		"Shared":      {"The other owner has it watched.", shared, nil, true, ""},
		"Shard":       {"No other shard needs it.", labelled("vidra/web"), []string{shard}, false, `"labels":{"managed-by":null,"` + shard + `":null}`},
		"FormerShard": {"The VidraResource has just left the shard.", labelled("vidra/web"), nil, false, `"labels":{"managed-by":null,"` + shard + `":null}`},
		"OtherShard":  {"Another manager set it, too.", labelled("vidra/shop"), []string{shard}, false, `"labels":{"managed-by":null}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &requests{live: tc.live}
			a := reading(r)
			a.Applier.Settings.Claimant.ShardLabels = tc.shards
			if tc.shared {
				a.Applier.Finder.VidraResources = &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"shop": holding()}}
			}
			require.Equal(t, removal{end: unmanaged}, a.release(t.Context(), pageKey, tc.live))
			if tc.want == "" {
				require.NotContains(t, string(r.patch), `"labels"`, tc.reason)
			}
			require.Contains(t, string(r.patch), tc.want, tc.reason)
		})
	}
	a := reading(&requests{live: shared})
	a.Applier.Finder.VidraResources = failing{}
	require.ErrorIs(t, a.release(t.Context(), pageKey, shared).err, errDown, "the owners are unknown, and the label may be needed")
}
