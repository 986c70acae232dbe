package policy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

var now = time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)

// facts are the facts about an object, and the order in which a decision asked for them.
type facts struct {
	stale       error
	answer      *v1alpha1.BreakGlassStatus
	owners      []owners.CoOwner
	ownersErr   error
	receivers   []owners.Receiver
	receiverErr error
	may         bool
	mayNot      string
	mayErr      error
	inside      owners.Inside
	insideErr   error
	asked       []string
}

func (f *facts) Stale(context.Context) error {
	f.asked = append(f.asked, "stale")
	return f.stale
}

func (f *facts) BreakGlass() *v1alpha1.BreakGlassStatus {
	f.asked = append(f.asked, "break-glass")
	return f.answer
}

func (f *facts) Owners(context.Context) ([]owners.CoOwner, error) {
	f.asked = append(f.asked, "owners")
	return f.owners, f.ownersErr
}

func (f *facts) Receivers(context.Context) (iter.Seq[owners.Receiver], error) {
	f.asked = append(f.asked, "receiver")
	return slices.Values(f.receivers), f.receiverErr
}

func (f *facts) MayTake(_ context.Context, receiver *owners.Receiver) (bool, error) {
	f.asked = append(f.asked, "rights of "+receiver.VidraResource.Name)
	return f.may && f.mayNot != receiver.VidraResource.Name, f.mayErr
}

func (f *facts) Contents(context.Context) (owners.Inside, error) {
	f.asked = append(f.asked, "contents")
	return f.inside, f.insideErr
}

// liveOf returns an object of the API server.
func liveOf(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func configMap() *unstructured.Unstructured { return liveOf("v1", "ConfigMap", "shop", "page") }

func namespace() *unstructured.Unstructured { return liveOf("v1", "Namespace", "", "shop") }

func kept(live *unstructured.Unstructured) *unstructured.Unstructured {
	live.SetAnnotations(map[string]string{v1alpha1.KeepAnnotation: "true"})
	return live
}

func ending(live *unstructured.Unstructured) *unstructured.Unstructured {
	live.SetDeletionTimestamp(&metav1.Time{Time: now})
	return live
}

func receiverOf(change func(*owners.Receiver)) []owners.Receiver {
	vr := &v1alpha1.VidraResource{}
	vr.Name, vr.Spec.Destination.Server = "bank", "https://bank"
	r := owners.Receiver{VidraResource: vr}
	if change != nil {
		change(&r)
	}
	return []owners.Receiver{r}
}

func insideOf(of string, annotations map[string]string) owners.Inside {
	var inside owners.Inside
	inside.Add(owners.Member{Of: of, Content: cluster.Content{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine", Annotations: annotations}},
	}})
	return inside
}

// received returns the contents of a container with an object that a VidraResource has in its manifest.
func received() (inside owners.Inside) {
	inside.Add(owners.Member{Of: " in the manifest of VidraResource bank", Received: true, Content: cluster.Content{
		Kind: "ConfigMap", PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine"}},
	}})
	return inside
}

// TestDecide: each rule about a removal, alone and before the rules that follow it.
func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		removes = "remove"
		keeps   = "keep"
		waits   = "wait"
	)
	down := errors.New("down")
	exempt := &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Message: "incident 42", Until: &metav1.Time{Time: now.Add(time.Hour)}}
	over := exempt.DeepCopy()
	over.Until = &metav1.Time{Time: now}
	first := []string{"stale", "break-glass", "owners"}
	asked := func(more ...string) []string { return append(slices.Clone(first), more...) }
	page := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "page"}
	holding := func(note func(*Members)) *Members {
		m := &Members{}
		note(m)
		return m
	}
	keptPage := holding(func(m *Members) { m.Kept.Add(page, trigger.ObjectKey{}) })
	undecidedPage := holding(func(m *Members) { m.Undecided.Add(page, trigger.ObjectKey{}) })
	neededPage := holding(func(m *Members) { m.Needed.Add(page, trigger.ObjectKey{}) })
	cases := map[string]struct {
		reason string
		of     Departure
		facts  facts
		want   string
		why    Reason
		text   string
		cause  string
		until  time.Time
		asked  []string
	}{
		"Plain": {reason: "Nothing is in the way.", of: Departure{Live: configMap(), Owned: true}, want: removes, asked: asked("receiver")},

		"Wanted":         {reason: "The manifest has it in another group.", of: Departure{Live: configMap(), Owned: true, Wanted: true}, want: keeps, why: Wanted},
		"WantedEnding":   {reason: "Also while it is deleted.", of: Departure{Live: ending(configMap()), Owned: true, Wanted: true}, want: keeps, why: Wanted},
		"NotOwned":       {reason: "Another client created it again.", of: Departure{Live: configMap()}, want: keeps, why: NotOwned},
		"NotOwnedKept":   {reason: "Vidra writes nothing to an object of others.", of: Departure{Live: kept(configMap()), Orphans: true}, want: keeps, why: NotOwned},
		"Orphaned":       {reason: "spec.prune is false.", of: Departure{Live: configMap(), Owned: true, Orphans: true}, facts: facts{answer: exempt}, want: keeps, why: Orphaned, asked: []string{"stale"}},
		"OrphanedStale":  {reason: "The spec that says so is outdated.", of: Departure{Live: configMap(), Owned: true, Orphans: true}, facts: facts{stale: down}, want: waits, why: Stale, text: "is not removed now: down", cause: "down", asked: []string{"stale"}},
		"OrphanedEnding": {reason: "A user deletes it.", of: Departure{Live: ending(configMap()), Owned: true, Orphans: true}, facts: facts{stale: down}, want: keeps, why: Orphaned},
		"Annotated":      {reason: "The annotation keep.", of: Departure{Live: kept(configMap()), Owned: true}, facts: facts{answer: exempt}, want: keeps, why: Annotated, asked: []string{"stale"}},
		"HoldsKept": {
			reason: "An object in it is kept.", of: Departure{Live: namespace(), Owned: true, Members: keptPage}, facts: facts{answer: exempt},
			want: keeps, why: HoldsKept, cause: "holds ConfigMap shop/page with the annotation keep", asked: []string{"stale"},
		},

		"Ending":       {reason: "Its deletion continues.", of: Departure{Live: ending(configMap()), Owned: true}, facts: facts{stale: down, answer: exempt}, want: removes},
		"EndingUnsure": {reason: "It cannot be stopped.", of: Departure{Live: ending(namespace()), Owned: true, Members: undecidedPage}, want: removes},
		"Stale":        {reason: "The VidraResource changed.", of: Departure{Live: configMap(), Owned: true}, facts: facts{stale: down}, want: waits, why: Stale, text: "is not removed now: down", cause: "down", asked: []string{"stale"}},
		"Exempt": {
			reason: "Break-glass.", of: Departure{Live: configMap(), Owned: true}, facts: facts{answer: exempt, owners: []owners.CoOwner{{Name: "bank"}}}, want: waits, why: Exempt, until: now.Add(time.Hour),
			text:  "is to be removed, and is not before its break-glass ends: its annotations exempt it until 2026-01-31T11:00:00Z: incident 42",
			cause: "its annotations exempt it until 2026-01-31T11:00:00Z: incident 42", asked: []string{"stale", "break-glass"},
		},
		"ExemptBefore": {reason: "Its time is over.", of: Departure{Live: configMap(), Owned: true}, facts: facts{answer: over}, want: removes, asked: asked("receiver")},
		"Undecided": {
			reason: "An object in it may be kept.", of: Departure{Live: namespace(), Owned: true, Members: undecidedPage}, want: waits, why: Undecided, cause: "ConfigMap shop/page",
			text: "is not removed before it is known whether ConfigMap shop/page, which would be deleted with it, is to be kept", asked: []string{"stale", "break-glass"},
		},
		"OtherMember": {reason: "An object in another Namespace.", of: Departure{Live: liveOf("v1", "Namespace", "", "bank"), Owned: true, Members: undecidedPage}, want: removes, asked: asked("receiver", "contents")},
		"Shared":      {reason: "Another owner keeps it.", of: Departure{Live: configMap(), Owned: true}, facts: facts{owners: []owners.CoOwner{{Name: "bank"}}, receivers: receiverOf(nil)}, want: keeps, why: Shared, asked: asked()},

		"ReceiversUnknown": {
			reason: "They cannot be listed.", of: Departure{Live: configMap(), Owned: true}, facts: facts{receiverErr: down}, want: waits, why: ReceiversUnknown, cause: "down",
			text: "is not removed before it is known whether another VidraResource has it in its manifest: down", asked: asked("receiver"),
		},
		"ReceiverUnread": {
			reason: "The manifest of one cannot be read.", of: Departure{Live: configMap(), Owned: true}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unknown = down }), may: true}, want: waits, why: ReceiversUnknown,
			text: "is not removed before it is known whether VidraResource bank has it in its manifest", asked: asked("receiver", "rights of bank"),
		},
		"ReceiverUnreadMayNot": {
			reason: "The unread manifest of a VidraResource without the right takes nothing.", of: Departure{Live: configMap(), Owned: true}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unknown = down })},
			want: removes, asked: asked("receiver", "rights of bank"),
		},
		"ReceiverEmpty": {
			reason: "A source of its manifest is not there yet.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now, ContentEnds: now.Add(1)}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unknown, r.Empty = down, true }), may: true}, want: waits, why: ReceiversUnknown,
			until: now.Add(1), text: "is not removed before it is known whether VidraResource bank has it in its manifest", asked: asked("receiver", "rights of bank"),
		},
		"ReceiverStaysEmpty": {
			reason: "A source that does not come has no object.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1), ContentEnds: now}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unknown, r.Empty = down, true }), may: true},
			want: removes, asked: asked("receiver", "rights of bank"),
		},
		"ReceiverEmptyElsewhere": {
			reason: "Its cluster is no matter while it has no content.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now, ContentEnds: now.Add(1)},
			facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified, r.Unknown, r.Empty = down, down, true }), may: true}, want: waits, why: ReceiversUnknown,
			until: now.Add(1), text: "is not removed before it is known whether VidraResource bank has it in its manifest", asked: asked("receiver", "rights of bank"),
		},
		"ClusterUnknownMayNot": {
			reason: "An unknown cluster of a VidraResource without the right takes nothing.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down })},
			want: removes, asked: asked("receiver", "rights of bank"),
		},
		"ClusterUnknown": {
			reason: "It may be at the same cluster.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), may: true}, want: waits, why: ClusterUnknown, cause: "down",
			text: "is not removed before it is known whether the destination https://bank of VidraResource bank, which has an object of this name in its manifest, is the same cluster: down", asked: asked("receiver", "rights of bank"),
		},
		"ClusterStaysUnknown": {
			reason: "The object stays for the receiver.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), may: true}, want: keeps, why: Mentioned,
			text: "VidraResource bank has an object of this name in its manifest, and it is not known whether its destination https://bank is the same cluster", asked: asked("receiver", "rights of bank"),
		},
		"ClusterAndRightsUnknown": {
			reason: "The failed review is about a cluster that is unknown, too: the receiver may be able to apply it.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)},
			facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), mayErr: errors.New("no review")}, want: waits, why: ClusterUnknown, cause: "down",
			text: "is not removed before it is known whether the destination https://bank of VidraResource bank, which has an object of this name in its manifest, is the same cluster: down", asked: asked("receiver", "rights of bank"),
		},
		"ClusterAndRightsStayUnknown": {
			reason: "The object stays for a receiver that may be able to apply it.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now},
			facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), mayErr: errors.New("no review")}, want: keeps, why: Mentioned,
			text: "VidraResource bank has an object of this name in its manifest, and it is not known whether its destination https://bank is the same cluster", asked: asked("receiver", "rights of bank"),
		},
		"RightsUnknown": {
			reason: "A review failed.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)}, facts: facts{receivers: receiverOf(nil), may: true, mayErr: down}, want: waits, why: RightsUnknown, cause: "down",
			text: "is not removed before it is known whether VidraResource bank, whose manifest has it, may apply it: down", asked: asked("receiver", "rights of bank"),
		},
		"NoNamespaceYet": {
			reason: "The apply that wrote the receiver may create the Namespace of its account.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now, ContentEnds: now.Add(1)}, facts: facts{receivers: receiverOf(nil), mayErr: &access.NoNamespace{}},
			want: waits, why: RightsUnknown, until: now.Add(1), text: "is not removed before it is known whether VidraResource bank, whose manifest has it, may apply it: ", asked: asked("receiver", "rights of bank"),
		},
		"NoNamespace": {
			reason: "An account without a Namespace applies nothing, for as long as another team likes.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1), ContentEnds: now}, facts: facts{receivers: receiverOf(nil), mayErr: &access.NoNamespace{}},
			want: removes, asked: asked("receiver", "rights of bank"),
		},
		"NoNamespaceYetElsewhere": {
			reason: "It is not kept for a receiver that applies nothing.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now, ContentEnds: now.Add(1)},
			facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), mayErr: &access.NoNamespace{}}, want: waits, why: RightsUnknown,
			until: now.Add(1), text: "is not removed before it is known whether VidraResource bank, whose manifest has it, may apply it: ", asked: asked("receiver", "rights of bank"),
		},
		"NoNamespaceElsewhere": {
			reason: "Its cluster is no matter then.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1), ContentEnds: now},
			facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Unidentified = down }), mayErr: &access.NoNamespace{}}, want: removes, asked: asked("receiver", "rights of bank"),
		},
		"MayNot":   {reason: "A receiver without the right takes nothing.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)}, facts: facts{receivers: receiverOf(nil)}, want: removes, asked: asked("receiver", "rights of bank")},
		"MayNotIn": {reason: "The contents decide then, too.", of: Departure{Live: namespace(), Owned: true}, facts: facts{receivers: receiverOf(nil), insideErr: down}, want: waits, why: ContentsUnknown, cause: "down", text: "is not removed before all is known that it holds: down", asked: asked("receiver", "rights of bank", "contents")},
		"Moving": {
			reason: "Its receiver applies it.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now.Add(1)}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Mentioned = true }), may: true}, want: waits, why: Moving,
			text: "is in the manifest of VidraResource bank, and is released when that applies it", asked: asked("receiver", "rights of bank"),
		},
		"MayNotBeforeOne": {
			reason: "The receiver after it takes the object.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now}, facts: facts{receivers: append(receiverOf(nil), receiverOf(func(r *owners.Receiver) { r.VidraResource.Name = "shop" })...), may: true, mayNot: "bank"},
			want: keeps, why: Moved, asked: asked("receiver", "rights of bank", "rights of shop"),
		},
		"Moved": {reason: "The receiver takes long, and gets the fields.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now}, facts: facts{receivers: receiverOf(nil), may: true}, want: keeps, why: Moved, asked: asked("receiver", "rights of bank")},
		"Mentioned": {
			reason: "The receiver may lack the object.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now}, facts: facts{receivers: receiverOf(func(r *owners.Receiver) { r.Mentioned = true }), may: true}, want: keeps, why: Mentioned,
			text: "VidraResource bank mentions it, and its manifest cannot be read", asked: asked("receiver", "rights of bank"),
		},

		"Unreceived": {
			reason: "Its receiver has just left, and another one may come.", of: Departure{Live: configMap(), Owned: true, Settles: now.Add(1)}, want: waits, why: Unreceived, until: now.Add(1),
			text: Settling, asked: asked("receiver"),
		},
		"UnreceivedAndKept": {
			reason: "It stays anyway.", of: Departure{Live: namespace(), Owned: true, Settles: now.Add(1)}, facts: facts{insideErr: down}, want: waits, why: ContentsUnknown, cause: "down",
			text: "is not removed before all is known that it holds: down", asked: asked("receiver", "contents"),
		},
		"ReceivedByAnother": {
			reason: "Another receiver has come.", of: Departure{Live: configMap(), Owned: true, MoveEnds: now, Settles: now.Add(1)}, facts: facts{receivers: receiverOf(nil), may: true}, want: keeps, why: Moved,
			asked: asked("receiver", "rights of bank"),
		},
		"Undeletable": {reason: "The API server refuses its deletion.", of: Departure{Live: liveOf("v1", "Namespace", "", "kube-node-lease"), Owned: true}, want: keeps, why: Undeletable, text: "the API server never deletes it", asked: asked("receiver")},
		"Needed": {
			reason: "An object in it stays in the manifest.", of: Departure{Live: namespace(), Owned: true, Members: neededPage}, facts: facts{insideErr: down}, want: waits, why: Occupied,
			cause: "it holds ConfigMap shop/page, which stays in the manifest",
			text:  "is not removed, because it holds ConfigMap shop/page, which stays in the manifest. Remove the objects in it from the manifest, too, or put the Namespace back",
			asked: asked("receiver"),
		},
		"NeededElsewhere": {reason: "An object in another Namespace stays.", of: Departure{Live: liveOf("v1", "Namespace", "", "bank"), Owned: true, Members: neededPage}, want: removes, asked: asked("receiver", "contents")},
		"NeededMoved":     {reason: "Another VidraResource takes the container.", of: Departure{Live: namespace(), Owned: true, MoveEnds: now, Members: neededPage}, facts: facts{receivers: receiverOf(nil), may: true}, want: keeps, why: Moved, asked: asked("receiver", "rights of bank")},
		"NeededOrphaned":  {reason: "spec.prune is false.", of: Departure{Live: namespace(), Owned: true, Orphans: true, Members: neededPage}, want: keeps, why: Orphaned, asked: []string{"stale"}},
		"ContentsUnknown": {reason: "A kind cannot be listed.", of: Departure{Live: namespace(), Owned: true}, facts: facts{insideErr: down}, want: waits, why: ContentsUnknown, cause: "down", text: "is not removed before all is known that it holds: down", asked: asked("receiver", "contents")},
		"ContentsQuoted": {
			reason: "The list of a kind has no kind, and the client quotes it.", of: Departure{Live: namespace(), Owned: true},
			facts: facts{insideErr: fmt.Errorf("list secrets: %w", runtime.NewMissingKindErr(`{"items":[{"data":{"password":"hunter2"}}]}`))}, want: waits, why: ContentsUnknown,
			cause: "list secrets: Object 'Kind' is missing in an answer of the API server",
			text:  "is not removed before all is known that it holds: list secrets: Object 'Kind' is missing in an answer of the API server", asked: asked("receiver", "contents"),
		},
		"ContentsInPart": {reason: "The kept objects do not count while others are unknown.", of: Departure{Live: namespace(), Owned: true}, facts: facts{insideErr: down, inside: insideOf("", map[string]string{v1alpha1.KeepAnnotation: "true"})}, want: waits, why: ContentsUnknown, cause: "down", text: "is not removed before all is known that it holds: down", asked: asked("receiver", "contents")},
		"ContentsKept": {
			reason: "An unmanaged object in it has the annotation keep.", of: Departure{Live: namespace(), Owned: true}, facts: facts{inside: insideOf("", map[string]string{v1alpha1.KeepAnnotation: "true"})}, want: keeps, why: HoldsKept,
			text: "it holds ConfigMap shop/mine with the annotation keep", cause: "holds ConfigMap shop/mine with the annotation keep", asked: asked("receiver", "contents"),
		},
		"ContentsOwned": {
			reason: "An object in it has another owner.", of: Departure{Live: namespace(), Owned: true}, facts: facts{inside: insideOf(" of VidraResource bank", nil)}, want: waits, why: Occupied, cause: "it holds ConfigMap shop/mine of VidraResource bank",
			text:  "is not removed, because it holds ConfigMap shop/mine of VidraResource bank. Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place",
			asked: asked("receiver", "contents"),
		},
		"ContentsReceivedYet": {
			reason: "The rights of the receiver may be known then.", of: Departure{Live: namespace(), Owned: true, ContentEnds: now.Add(1)}, facts: facts{inside: received()}, want: waits, why: Occupied, until: now.Add(1),
			cause: "it holds ConfigMap shop/mine in the manifest of VidraResource bank",
			text:  "is not removed, because it holds ConfigMap shop/mine in the manifest of VidraResource bank. Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place",
			asked: asked("receiver", "contents"),
		},
		"ContentsReceived": {
			reason: "A change of that manifest ends it.", of: Departure{Live: namespace(), Owned: true, ContentEnds: now}, facts: facts{inside: received()}, want: waits, why: Occupied,
			cause: "it holds ConfigMap shop/mine in the manifest of VidraResource bank",
			text:  "is not removed, because it holds ConfigMap shop/mine in the manifest of VidraResource bank. Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place",
			asked: asked("receiver", "contents"),
		},
		"ContentsBlocked": {
			reason: "spec.unmanagedContents is Block.", of: Departure{Live: namespace(), Owned: true, UnmanagedContents: v1alpha1.UnmanagedBlock}, facts: facts{inside: insideOf("", nil)}, want: waits, why: Occupied,
			cause: "it holds 1 unmanaged objects, and spec.unmanagedContents is Block: ConfigMap shop/mine",
			text:  "is not removed, because it holds 1 unmanaged objects, and spec.unmanagedContents is Block: ConfigMap shop/mine. Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place",
			asked: asked("receiver", "contents"),
		},
		"ContentsUnmanaged": {reason: "Unmanaged objects go with it, and the Event names them.", of: Departure{Live: namespace(), Owned: true}, facts: facts{inside: insideOf("", nil)}, want: removes, text: "with 1 unmanaged objects: ConfigMap shop/mine", asked: asked("receiver", "contents")},
		"Empty":             {reason: "It holds nothing.", of: Departure{Live: namespace(), Owned: true}, want: removes, asked: asked("receiver", "contents")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.of.Now = now; tc.of.Members == nil {
				tc.of.Members = &Members{}
			}
			got, err := Decide(t.Context(), tc.of, &tc.facts)
			require.NoError(t, err)
			require.Equal(t, []bool{tc.want == removes, tc.want == keeps, tc.want == waits}, []bool{got.Removes(), got.Keeps(), got.Waits()}, tc.reason)
			require.Equal(t, tc.why, got.Reason, tc.reason)
			require.Equal(t, tc.text, got.Text, tc.reason)
			require.Equal(t, tc.cause, got.Cause, tc.reason)
			if tc.why == Moving || tc.why == ClusterUnknown {
				tc.until = tc.of.MoveEnds
			}
			require.True(t, tc.until.Equal(got.Until), "%s: %s", tc.reason, got.Until)
			require.Equal(t, tc.asked, tc.facts.asked, "the decision asks for facts in this order, and for no more: %s", tc.reason)
			if tc.why == Shared {
				require.Equal(t, tc.facts.owners, got.Owners)
			} else {
				require.Empty(t, got.Owners)
			}
			if slices.Contains([]Reason{ClusterUnknown, RightsUnknown, Moving, Moved, Mentioned}, tc.why) || slices.Contains([]string{"ReceiverUnread", "ReceiverEmpty", "ReceiverEmptyElsewhere"}, name) {
				require.Equal(t, tc.facts.receivers[len(tc.facts.receivers)-1], *got.Receiver)
			} else {
				require.Nil(t, got.Receiver)
			}
		})
	}
	t.Run("OwnersUnknown", func(t *testing.T) {
		t.Parallel()
		got, err := Decide(t.Context(), Departure{Live: configMap(), Owned: true, Members: &Members{}}, &facts{ownersErr: down})
		require.ErrorIs(t, err, down)
		require.False(t, got.Removes() || got.Keeps() || got.Waits(), "an error is no decision")
	})
}

// TestUnservedKind: an object is gone if its kind is, and waits while that is unknown.
func TestUnservedKind(t *testing.T) {
	t.Parallel()
	const advice = ": serve the kind again, or set spec.deletionPolicy to Orphan to leave the object in place"
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	cases := map[string]struct {
		reason  string
		kind    UnservedKind
		orphans bool
		want    Removal
	}{
		"Gone":       {"The object was deleted with its CustomResourceDefinition.", UnservedKind{GVK: gvk}, false, Remove("")},
		"Orphaned":   {"It stays in any case.", UnservedKind{GVK: gvk, Unknown: errors.New("down")}, true, Keep(Orphaned, "")},
		"Unknown":    {"The API server does not answer.", UnservedKind{GVK: gvk, Unknown: errors.New("down")}, false, Wait(KindUnknown, "is not removed, because its kind is not served, and it is not known whether the kind still exists: down"+advice, "", time.Time{})},
		"Defined":    {"Its CustomResourceDefinition serves no version.", UnservedKind{GVK: gvk, Definition: "CustomResourceDefinition things.example.com", Aggregated: true}, false, Wait(Unserved, "is not removed, because its kind is not served in any version, and CustomResourceDefinition things.example.com exists"+advice, "", time.Time{})},
		"Aggregated": {"An extension API server keeps it.", UnservedKind{GVK: gvk, Aggregated: true}, false, Wait(Unserved, "is not removed, because its kind is not served: the APIService v1.example.com of an extension API server is missing"+advice, "", time.Time{})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.kind.Decide(tc.orphans), tc.reason)
		})
	}
}

// TestKeptByAnnotation: the annotation keeps an object that no client has deleted.
func TestKeptByAnnotation(t *testing.T) {
	t.Parallel()
	other := configMap()
	other.SetAnnotations(map[string]string{v1alpha1.KeepAnnotation: "false"})
	require.True(t, KeptByAnnotation(kept(configMap())))
	require.False(t, KeptByAnnotation(ending(kept(configMap()))))
	require.True(t, AsksToStay(ending(kept(configMap()))))
	require.False(t, KeptByAnnotation(configMap()))
	require.False(t, KeptByAnnotation(other))
}
