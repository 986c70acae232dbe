package insight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// What an apply would do with an object.
const (
	ActionNone    = "unchanged"
	ActionCreate  = "create"
	ActionChange  = "change"
	ActionAdopt   = "adopt"
	ActionMove    = "move"
	ActionReplace = "replace"
	ActionPrune   = "prune"
	ActionRelease = "release"
	ActionRefuse  = "refuse"
)

// Difference is what an apply of a VidraResource would do.
type Difference struct {
	VidraResource string `json:"vidraResource"`
	Suspended     bool   `json:"suspended,omitempty"`
	// Dropped are the fields of the VidraResource that its file has dropped.
	Dropped []string            `json:"dropped,omitempty"`
	Objects []*ObjectDifference `json:"objects"`
}

// ObjectDifference is what an apply would do with one object.
type ObjectDifference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Action     string `json:"action"`
	// From and To are the VidraResources between which it moves.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Place is where the manifest has it.
	Place string `json:"place,omitempty"`
	// Why is why it is refused, replaced, pruned, released or not reverted.
	Why string `json:"why,omitempty"`
	// Conflicts are the fields that the apply takes from other field managers.
	Conflicts []FieldConflict `json:"conflicts,omitempty"`
	// AlsoRemoved is what users added in the place of what they removed, and what is removed with it.
	AlsoRemoved []string `json:"alsoRemoved,omitempty"`
	// Reverted are the fields that users removed or changed, where Diff cannot show it: what they added is in the
	// way of the dry run.
	Reverted []string `json:"reverted,omitempty"`
	// Stays reports that others changed it, that Diff would revert that, and that Why keeps the operator from it.
	Stays bool `json:"stays,omitempty"`
	// Diff is a unified diff of the object as it is and as it would be.
	Diff string `json:"diff,omitempty"`
}

// FieldConflict is a field that another field manager owns.
type FieldConflict struct {
	Field   string `json:"field"`
	Manager string `json:"manager"`
}

// Object is the object in messages: Deployment shop/web.
func (o *ObjectDifference) Object() string {
	return object.Identity{GroupKind: schema.GroupKind{Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}.String()
}

// differ finds out what an apply of a VidraResource would do.
type differ struct {
	*dryrun.Runner
	// moves finds the other VidraResource of an object that moves. Commands that do not show moves leave it nil.
	moves *moves
	// operator are the settings of the operator.
	operator Operator
	// wanted are the namespaces and kinds that the manifest itself creates.
	wanted map[object.Identity]bool
	// dropped are the fields of the VidraResource that its file has dropped.
	dropped []string
	// isNew reports that the VidraResource stands for a new one. Then remark gets the owner of an object.
	isNew  bool
	remark func(text string)
	owned  sync.Once
}

func newDiffer(client *Client, at *cluster.Cluster, vr *v1alpha1.VidraResource) *differ {
	return &differ{Runner: dryrun.New(client.dynamic, at, vr), operator: client.operator, wanted: map[object.Identity]bool{}}
}

func (d *differ) run(ctx context.Context) (*Difference, error) {
	resolved := &desired.Resolved{} // of one that is being deleted
	if d.VR.DeletionTimestamp.IsZero() {
		var err error
		if resolved, err = d.Objects(ctx); err != nil {
			return nil, err
		}
	}
	diff := &Difference{VidraResource: d.VR.Name, Suspended: d.VR.Spec.Suspend, Dropped: d.dropped}
	for _, o := range resolved.Objects {
		d.wanted[o.ID] = true
	}
	for _, u := range resolved.Unresolved {
		diff.Objects = append(diff.Objects, d.unresolved(u, resolved))
	}
	found := make([]*ObjectDifference, len(resolved.Objects))
	var comparing errgroup.Group
	comparing.SetLimit(readers)
	for i, o := range resolved.Objects {
		comparing.Go(func() (err error) {
			found[i], err = d.compare(ctx, o)
			return err
		})
	}
	if err := comparing.Wait(); err != nil {
		return nil, err
	}
	pruned, err := d.pruned(ctx, resolved)
	diff.Objects = append(diff.Objects, found...)
	refused := slices.IndexFunc(diff.Objects, func(o *ObjectDifference) bool { return o.Action == ActionRefuse })
	for _, o := range pruned {
		if o.Action == ActionPrune && refused >= 0 {
			o.Why += ". It is not deleted before " + diff.Objects[refused].Object() + " and all else is applied"
		}
	}
	diff.Objects = append(diff.Objects, pruned...)
	return diff, err
}

// unresolved is about an object whose kind is not served.
func (d *differ) unresolved(u desired.Unresolved, resolved *desired.Resolved) *ObjectDifference {
	diff := newObjectDifference(u.ID, u.GVK)
	diff.Action, diff.Why = ActionRefuse, u.Why.Message
	for _, o := range resolved.Objects {
		if o.Defines(u.GVK.GroupKind()) {
			diff.Action, diff.Why = ActionCreate, "not checked, because the manifest has yet to create its kind"
		}
	}
	return diff
}

func newObjectDifference(id object.Identity, gvk schema.GroupVersionKind) *ObjectDifference {
	return &ObjectDifference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: id.Namespace, Name: id.Name, Action: ActionNone}
}

// compare compares an object of the manifest with the one in the cluster.
func (d *differ) compare(ctx context.Context, o *desired.Object) (*ObjectDifference, error) {
	diff := newObjectDifference(o.ID, o.GVK)
	diff.Place = o.Place.In(d.VR)
	live, err := d.Live(ctx, o)
	switch {
	case apierrors.IsForbidden(err):
		return diff.refused("you may not read it, so that it is not compared: " + err.Error()), nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", o.ID, err)
	}
	if live == nil && o.ID.Namespace != "" && d.wanted[object.Identity{GroupKind: object.NamespaceKind, Name: o.ID.Namespace}] {
		if _, err := d.At.Dynamic().Resource(namespaces).Get(ctx, o.ID.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			diff.Action, diff.Why = ActionCreate, "not checked, because the manifest has yet to create its namespace"
			diff.Diff = d.unified(nil, o.Unstructured(), d.Disclosure(o))
			return diff, nil
		}
	}
	if managers := []string(nil); d.isNew && live != nil {
		if managers = ownership.Managers(live, v1alpha1.FieldManagerPrefix); len(managers) > 0 {
			d.owned.Do(func() { d.printOwner(o.ID, managers[0]) })
		}
	}
	if live != nil && d.moves != nil && owners.OnlyClaimed(live, []owners.CoOwner{{Manager: d.By.Manager}}) {
		former, err := d.moves.former(ctx, d.VR.Name, d.At.Name(), o.ID, live)
		if err != nil {
			return nil, err
		}
		if former != nil {
			return d.moved(ctx, diff, o, live, former)
		}
	}
	if live == nil && d.completed(o) {
		diff.Why = "ended successfully and was removed by its own controller: it is created again when its configuration changes"
		return diff, nil
	}
	return d.dryRun(ctx, diff, o, live)
}

// printOwner prints how an object of a file is compared with the manifest that has it already.
func (d *differ) printOwner(id object.Identity, manager string) {
	if name, _ := v1alpha1.ParseFieldManager(manager); name != "" {
		d.remark(fmt.Sprintf("%s is an object of VidraResource %s: `%s` compares the files with its manifest, and shows the fields and objects that they drop",
			id, name, d.moves.program.Hint("diff", name, "-f", "FILE")))
	}
}

// moved is about an object that another VidraResource releases to this one, which receives its fields and then applies its
// own configuration: a dry run of the apply under the name of the former owner shows the result.
func (d *differ) moved(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, former *v1alpha1.VidraResource) (*ObjectDifference, error) {
	runner := *d.Runner
	runner.By.Manager = v1alpha1.InstallationOf(former).FieldManager(former.Name)
	diff, err := (&differ{Runner: &runner, operator: d.operator, wanted: d.wanted}).dryRun(ctx, diff, o, live)
	if err != nil {
		return nil, err
	}
	diff.From, diff.To = former.Name, d.VR.Name
	switch diff.Action {
	case ActionNone, ActionChange:
		edit := diff.Why
		diff.Action, diff.Why = ActionMove, "from VidraResource "+former.Name+", which "+releaseReason(former)
		if former.Spec.Suspend {
			diff.Why += " and releases it when its spec.suspend is false"
		}
		if edit != "" {
			diff.Why += ". " + edit
		}
	}
	return diff, nil
}

// completed reports whether an object has ended and is not created again: the inventory says so about the same
// configuration. A sealed configuration cannot be compared, and counts as another one.
func (d *differ) completed(o *desired.Object) bool {
	return slices.ContainsFunc(d.VR.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool {
		return e.State == v1alpha1.ObjectCompleted && e.Name == o.ID.Name && object.IdentityOf(&e) == o.ID && e.Configuration == o.Configuration
	})
}

func (o *ObjectDifference) refused(why string) *ObjectDifference {
	o.Action, o.Why, o.Diff, o.Conflicts = ActionRefuse, why, "", nil
	return o
}

// dryRun has the API server apply an object without storing it.
func (d *differ) dryRun(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured) (*ObjectDifference, error) {
	configuration, err := d.Configuration(ctx, o, live)
	if err != nil {
		return nil, err
	}
	applied, err := d.Apply(ctx, o, configuration, false)
	if apierrors.IsConflict(err) {
		if why := diff.addConflicts(owners.FieldConflictsIn(err), live != nil, d.By.Manager, d.Disclosure(o, live)); why != "" {
			return diff.refused(why), nil
		}
	}
	if err != nil {
		applied, err = d.Apply(ctx, o, configuration, true)
	}
	if err != nil {
		return d.failed(ctx, diff, o, live, err, func() bool { return d.Acceptable(ctx, o) })
	}
	if live == nil {
		diff.Action, diff.Diff = ActionCreate, d.unified(nil, applied, d.Disclosure(o))
		return diff, nil
	}
	return d.keep(d.changed(diff, o, live, applied), o, live), nil
}

// addConflicts adds the fields that an apply by manager takes from others. It returns why an object that exists
// is refused: an apply takes no field from another VidraResource. An update under the name of manager is an edit
// like others.
func (o *ObjectDifference) addConflicts(conflicts []owners.FieldConflict, exists bool, manager string, known ownership.Disclosure) (refused string) {
	for _, c := range conflicts {
		c.Field = object.FieldWithoutValues(c.Field, known)
		if exists && c.Manager != manager && strings.HasPrefix(c.Manager, v1alpha1.FieldManagerPrefix) {
			name, _ := v1alpha1.ParseFieldManager(c.Manager)
			return fmt.Sprintf("VidraResource %s wants another value of %s: let only one of them set it", name, c.Field)
		}
		o.Conflicts = append(o.Conflicts, FieldConflict(c))
	}
	return ""
}

// failed is about an object that the API server refused. acceptable reports whether it accepts the object as a new one.
func (d *differ) failed(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, err error, acceptable func() bool) (*ObjectDifference, error) {
	if !isAnswer(err) {
		return nil, fmt.Errorf("dry run of %s: %w", o.ID, err)
	}
	why := object.Explain(err, o.GVK, o.ID, d.Disclosure(o, live)).Message
	invalid := live != nil && apierrors.IsInvalid(err) && !object.Denied(err)
	var edit ownership.Addition
	if invalid && d.Owns(live) {
		edit = d.InTheWay(o, live)
	}
	switch {
	case apierrors.IsForbidden(err) && !object.Denied(err):
		return diff.refused("you may not write it, so that it is not compared: " + why), nil
	case len(edit.Changes) > 0:
		diff.Action, diff.AlsoRemoved = ActionChange, additions(edit.Changes)
		for _, c := range edit.Lost {
			diff.Reverted = append(diff.Reverted, events.Differences([]ownership.Change{c}))
		}
		diff.Why = "an edit is in the way, which is removed first: " + why
		return diff, nil
	case invalid && d.VR.Spec.Force && d.Owns(live) && acceptable():
		diff.Action, diff.Why = ActionReplace, "spec.force: deleted and created again, if its kind and annotations allow it, because of "+why
		if o.ID.IsContainer() {
			d.contents(ctx, diff, live)
		}
		return diff, nil
	case invalid && acceptable():
		refusal := object.Refusal{ID: o.ID, Answer: why, Fields: object.FieldNames(err), Differing: desired.Differing(o.Unstructured(), live)}
		return diff.refused(refusal.WithAdvice()), nil
	}
	return diff.refused(why), nil
}

// isAnswer reports whether an error is an answer of the API server.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// additions describes what an edit added: it is removed with the revert.
func additions(changes []ownership.Change) []string {
	var added []string
	for _, c := range changes {
		if c.Manager == "" {
			added = append(added, c.Path+", which the API server added")
			continue
		}
		added = append(added, fmt.Sprintf("%s, which %q added", c.Path, c.Manager))
	}
	return added
}

// changed compares an object with what the dry run made of it.
func (d *differ) changed(diff *ObjectDifference, o *desired.Object, live, applied *unstructured.Unstructured) *ObjectDifference {
	if !d.Owns(live) && len(ownership.Managers(live, v1alpha1.FieldManagerPrefix)) == 0 { // an annotation may be copied
		changes := owners.AdoptionChanges(live, applied, o.Unstructured(), d.By, d.Disclosure(o))
		switch policy := d.VR.AdoptPolicy(); {
		case policy == v1alpha1.AdoptNever:
			return diff.refused("it exists, Vidra does not manage it, and spec.adopt is Never")
		case policy == v1alpha1.AdoptIfIdentical && len(changes) > 0:
			return diff.refused("it exists and Vidra does not manage it: " + events.Differences(changes) +
				". Make the manifest the same, or set spec.adopt to Always to have it changed")
		}
		diff.Action = ActionAdopt
	}
	owned, recorded := ownership.Of(live, d.By.Manager)
	if after, _ := ownership.Of(applied, d.By.Manager); !recorded || owned != after { // the order of items is not owned
		diff.Diff = d.unified(live, applied, d.Disclosure(o))
	}
	if d.Owns(live) {
		diff.AlsoRemoved = additions(append(d.Added(o, live), d.byTools(o, live)...))
	}
	if diff.Action == ActionNone && (diff.Diff != "" || len(diff.AlsoRemoved) > 0) {
		diff.Action = ActionChange
	}
	return diff
}

// pruned is about the objects of the inventory that are no longer in the manifest.
func (d *differ) pruned(ctx context.Context, resolved *desired.Resolved) ([]*ObjectDifference, error) {
	var all []*ObjectDifference
	for _, e := range d.VR.Status.ManagedResources {
		id := object.IdentityOf(&e)
		if d.wanted[id] || slices.ContainsFunc(resolved.Unresolved, func(u desired.Unresolved) bool { return u.Is(id) }) {
			continue
		}
		diff := newObjectDifference(id, object.GVKOf(&e))
		mapping, err := d.At.MappingInAnyVersion(ctx, object.GVKOf(&e))
		if err != nil {
			continue // its kind is not served, and the object is gone with it
		}
		live, err := d.At.Dynamic().Resource(mapping.GVR).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			diff.Action, diff.Why = ActionPrune, d.left()+". You may not read it, so that it is not known whether it is kept"
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", id, err)
		default:
			d.removal(diff, live)
			if diff.Action == ActionPrune {
				d.received(ctx, diff, id, mapping.GVR)
			}
			if claimed := d.others(live); diff.Action == ActionPrune && len(claimed) > 0 {
				diff.release(d.left(), claimed)
			}
			if diff.Action == ActionPrune && id.IsContainer() {
				d.contents(ctx, diff, live)
			}
		}
		all = append(all, diff)
	}
	return all, nil
}

// received makes a deletion a move if another VidraResource has the object in its manifest.
func (d *differ) received(ctx context.Context, diff *ObjectDifference, id object.Identity, gvr schema.GroupVersionResource) {
	if d.moves == nil {
		return
	}
	receiver, unknown := d.moves.receiver(ctx, d.VR.Name, d.At.Name(), id)
	if receiver == nil {
		if unknown != "" {
			diff.Why += ". It stays if " + unknown
		}
		return
	}
	may, err := mayPatch(ctx, d.At.Dynamic(), receiver, gvr, id)
	account := receiver.Spec.Destination.Namespace + "/" + receiver.Spec.ServiceAccountName
	if err == nil && !may {
		diff.Why += fmt.Sprintf(". VidraResource %s has it in its manifest, and its ServiceAccount %s may not patch it", receiver.Name, account)
		return
	}
	diff.Action, diff.Diff = ActionMove, ""
	diff.From, diff.To = d.VR.Name, receiver.Name
	diff.Why = "to VidraResource " + receiver.Name + ", which has it in its manifest"
	if receiver.Spec.Suspend {
		diff.Why += ", and applies it when its spec.suspend is false"
	}
	if err != nil {
		diff.Why += fmt.Sprintf(". It is deleted if the ServiceAccount %s of that may not patch it, which is not known: %s", account, object.Message(err, ownership.Disclose(false, false, false)))
	}
}

// contents decides about a Namespace or CustomResourceDefinition that would be deleted by its contents, as the operator does.
func (d *differ) contents(ctx context.Context, diff *ObjectDifference, live *unstructured.Unstructured) {
	if d.moves == nil {
		return
	}
	inside, err := d.moves.finder(d).Contents(ctx, d.At, live)
	switch why := inside.Blocked(d.VR.Spec.UnmanagedContents); {
	case err != nil:
		diff.Why += ". It is not known what it holds: " + object.Message(err, ownership.Disclose(false, false, false))
	case inside.Kept.Count > 0 && diff.Action == ActionReplace:
		diff.refused(diff.Why + ". It stays, because it holds " + inside.Kept.String() + " with the annotation keep")
	case inside.Kept.Count > 0:
		diff.Action, diff.Diff = ActionRelease, ""
		diff.Why += ", and holds " + inside.Kept.String() + " with the annotation keep: it stays, unmanaged"
	case why != "" && diff.Action == ActionReplace:
		diff.refused(diff.Why + ". It stays, because " + why)
	case why != "":
		diff.Why += ". It is not deleted while " + why
	case inside.Unmanaged.Count > 0:
		diff.Why += fmt.Sprintf(". It is deleted with %d unmanaged objects: %s", inside.Unmanaged.Count, inside.Unmanaged)
	}
}

// others are the other VidraResources that applied an object, by their field managers.
func (d *differ) others(live *unstructured.Unstructured) []owners.CoOwner {
	var all []owners.CoOwner
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		if manager != d.By.Manager {
			all = append(all, owners.CoOwner{Manager: manager})
		}
	}
	return all
}

// release is about an object that left for a reason, and that others keep.
func (o *ObjectDifference) release(left string, others []owners.CoOwner) {
	managers := make([]string, 0, len(others))
	for _, other := range others {
		managers = append(managers, other.Manager)
	}
	o.Action, o.Diff, o.Why = ActionRelease, "", left+", and other owners keep it: "+strings.Join(managers, ", ")
}

// left is why an object is removed.
func (d *differ) left() string {
	if !d.VR.DeletionTimestamp.IsZero() {
		return "the VidraResource is being deleted"
	}
	return "it is no longer in the manifest"
}

// removal decides what becomes of an object that left the manifest.
func (d *differ) removal(diff *ObjectDifference, live *unstructured.Unstructured) {
	others := d.others(live)
	diff.Action = ActionRelease
	orphaning := ", and spec.prune is false: it stays, unmanaged"
	if !d.VR.DeletionTimestamp.IsZero() {
		orphaning = ", and spec.deletionPolicy is Orphan: it stays, unmanaged"
	}
	switch {
	case d.VR.Orphans():
		diff.Why = d.left() + orphaning
	case live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true":
		diff.Why = d.left() + ", and the annotation keep has it stay, unmanaged"
	case !owners.OnlyClaimed(live, others):
		diff.release(d.left(), others)
	case !d.Owns(live):
		diff.Why = d.left() + ", and Vidra does not own it any more"
	default:
		diff.Action, diff.Why, diff.Diff = ActionPrune, d.left(), d.unified(live, nil, ownership.Disclose(d.WasSensitive(object.IdentityIn(live)), ownership.SensitivityOf(live), false))
	}
}
