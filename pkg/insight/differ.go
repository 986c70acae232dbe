package insight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// The effect of an apply on an object.
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

// Difference is the effect of an apply of a VidraResource.
type Difference struct {
	VidraResource string `json:"vidraResource"`
	Suspended     bool   `json:"suspended,omitempty"`
	// Held reports that spec.revision.hold has a new revision wait.
	Held bool `json:"held,omitempty"`
	// Dropped are the fields of the VidraResource that its file has dropped.
	Dropped []string            `json:"dropped,omitempty"`
	Objects []*ObjectDifference `json:"objects"`
}

// ObjectDifference is the effect of an apply on one object.
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
	// Why is the reason to refuse, replace, prune, release or leave it.
	Why string `json:"why,omitempty"`
	// Conflicts are the fields that the apply takes from other field managers.
	Conflicts []FieldConflict `json:"conflicts,omitempty"`
	// AlsoRemoved are the additions of users in the place of removed fields, which are removed with the revert.
	AlsoRemoved []string `json:"alsoRemoved,omitempty"`
	// Reverted are the fields that users removed or changed and that Diff cannot show: an addition is in the way of the dry
	// run.
	Reverted []string `json:"reverted,omitempty"`
	// Stays reports that others changed it, that Diff would revert that, and that Why keeps the operator from it.
	Stays bool `json:"stays,omitempty"`
	// Diff is a unified diff of the object as it is and as it would be.
	Diff string `json:"diff,omitempty"`

	// Cluster is the cluster of an object that left the manifest, if it is another one.
	Cluster string `json:"-"`

	// kinds are the kinds of all objects of the difference.
	kinds display.Kinds
}

// FieldConflict is a field that another field manager owns.
type FieldConflict struct {
	Field   string `json:"field"`
	Manager string `json:"manager"`
}

// Object is the object in messages: Deployment shop/web. A kind that the manifest has in several groups gets its group.
func (o *ObjectDifference) Object() string {
	return o.kinds.Name(o.ID().GroupKind, o.Namespace, o.Name)
}

// ID returns the identity of the object.
func (o *ObjectDifference) ID() object.Identity {
	return identify(o.APIVersion, o.Kind, o.Namespace, o.Name)
}

// differ finds out the effect of an apply of a VidraResource.
type differ struct {
	runner *dryrun.Runner
	// moves finds the other VidraResource of an object that moves.
	moves *moves
	// settings are the settings of the operator for the VidraResource.
	settings *plan.Settings
	// wanted are the objects of the manifest.
	wanted map[object.Identity]bool
	// unread are the objects that the user may not read, and that may be kept in a container which is removed.
	unread policy.Members
	// dropped are the fields of the VidraResource that its file has dropped.
	dropped []string
	// isNew reports that the VidraResource stands for a new one. Then remark gets the owner of an object.
	isNew  bool
	remark func(text string)
	owned  sync.Once
	// kinds are the answers about the kinds of the objects that left the manifest.
	kinds access.Mappings
}

func newDiffer(c *Client, at *cluster.Cluster, vr *v1alpha1.VidraResource, others *moves) *differ {
	runner := dryrun.New(c.dynamic, at, vr)
	runner.Sources = c.sources
	return &differ{runner: runner, moves: others, settings: c.operator.settings(vr, runner.By), wanted: map[object.Identity]bool{}}
}

// as returns a differ for the objects of another VidraResource, which this one receives.
func (d *differ) as(former *v1alpha1.VidraResource) *differ {
	runner := *d.runner
	runner.By.Manager = v1alpha1.InstallationOf(former).FieldManager(former.Name)
	settings := *d.settings
	settings.Claimant.Manager = runner.By.Manager
	return &differ{runner: &runner, moves: d.moves, settings: &settings, wanted: d.wanted}
}

// resolve returns the objects of the manifest with the configurations of the operator. It fails for a manifest that the operator does not
// apply.
func (d *differ) resolve(ctx context.Context) (*desired.Resolved, error) {
	var err error
	if d.runner.Holders, err = d.moves.holders(ctx, d.runner.VR); err != nil {
		return nil, fmt.Errorf("VidraResource %s: %w", d.runner.VR.Name, err)
	}
	resolved, err := d.runner.Objects(ctx)
	if err != nil {
		return nil, err
	}
	state := &plan.State{Status: d.runner.VR.Status}
	for _, o := range resolved.Objects {
		o.Configuration = d.settings.Additions.ConfigurationOf(o.Configuration)
		d.wanted[o.ID] = true
		state.Objects.Manifest = append(state.Objects.Manifest, &plan.Object{ID: o.ID, Desired: o, Entry: owners.EntryOf(d.runner.VR, o.ID)})
	}
	for i := range d.runner.VR.Status.ManagedResources {
		if e := &d.runner.VR.Status.ManagedResources[i]; !d.wanted[object.IdentityOf(e)] {
			state.Objects.Others = append(state.Objects.Others, &plan.Object{ID: object.IdentityOf(e), Entry: e})
		}
	}
	if why := status.TooLarge(d.runner.VR, state, 0); why != nil {
		return nil, fmt.Errorf("VidraResource %s: %s", d.runner.VR.Name, why.Message)
	}
	return resolved, nil
}

func (d *differ) run(ctx context.Context) (*Difference, error) {
	resolved := &desired.Resolved{} // of one that is being deleted
	if d.runner.VR.DeletionTimestamp.IsZero() {
		var err error
		if resolved, err = d.resolve(ctx); err != nil {
			return nil, err
		}
	}
	diff := &Difference{VidraResource: d.name(), Suspended: d.runner.VR.Spec.Suspend, Held: d.runner.VR.Holds(), Dropped: d.dropped}
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
	var kinds display.Kinds
	for _, o := range slices.Concat(diff.Objects, pruned) {
		kinds.Add(o.ID().GroupKind)
	}
	for _, o := range slices.Concat(diff.Objects, pruned) {
		o.kinds = kinds
	}
	refused := slices.IndexFunc(diff.Objects, func(o *ObjectDifference) bool { return o.Action == ActionRefuse })
	for _, o := range pruned {
		if o.Action == ActionPrune && refused >= 0 {
			o.Why += ". It is not deleted before " + diff.Objects[refused].Object() + " and all else is applied"
		}
	}
	diff.Objects = append(diff.Objects, pruned...)
	return diff, err
}

// name is the name of the VidraResource in answers.
func (d *differ) name() string {
	if d.isNew {
		return newName
	}
	return d.runner.VR.Name
}

// unresolved is about an object whose kind is unserved.
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

// compare compares an object of the manifest with the object in the cluster.
func (d *differ) compare(ctx context.Context, o *desired.Object) (*ObjectDifference, error) {
	diff := newObjectDifference(o.ID, o.GVK)
	diff.Place = o.Place.In(d.runner.VR)
	live, err := d.runner.Live(ctx, o.Key)
	switch {
	case apierrors.IsForbidden(err):
		return diff.refused("you may not read it, so that it is not compared: " + err.Error()), nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", o.ID, err)
	}
	if live == nil && o.ID.Namespace != "" && d.wanted[object.Identity{GroupKind: object.NamespaceKind, Name: o.ID.Namespace}] {
		if _, err := d.runner.At.Dynamic().Resource(namespaces).Get(ctx, o.ID.Namespace, metav1.GetOptions{}); object.IsAbsent(err, o.ID.Namespace) {
			diff.Action, diff.Why = ActionCreate, "not checked, because the manifest has yet to create its namespace"
			diff.Diff = d.unified(nil, o.Unstructured(), d.runner.Disclosure(o))
			return diff, nil
		}
	}
	if d.isNew && live != nil {
		if managers := ownership.Managers(live, v1alpha1.FieldManagerPrefix); len(managers) > 0 {
			d.owned.Do(func() { d.printOwner(o.ID, managers[0]) })
		}
	}
	if live != nil && live.GetDeletionTimestamp() != nil {
		return d.recreated(diff, o, live), nil
	}
	if decision := policy.OfApply(o.Lifetime.Apply); live != nil && !decision.Reverts() {
		diff.Stays, diff.Why = len(desired.Differences(o.Unstructured(), live)) > 0, decision.Reason
		return diff, nil
	}
	if live != nil && owners.OnlyClaimed(live, []owners.CoOwner{{Manager: d.runner.By.Manager}}) {
		former, err := d.moves.former(ctx, d.runner.VR.Name, d.runner.At.Name(), o.ID, live)
		if err != nil {
			return nil, err
		}
		if former != nil {
			return d.moved(ctx, diff, o, live, former)
		}
	}
	if live == nil {
		if why := d.completed(o, trigger.Cause{Unsure: true, Deleted: true}); why != "" {
			diff.Why = why
			return diff, nil
		}
	}
	if diff, err = d.dryRun(ctx, diff, o, live); err != nil {
		return nil, err
	}
	if diff = d.keep(diff, o, live); !slices.Contains([]string{ActionCreate, ActionChange, ActionAdopt, ActionReplace}, diff.Action) {
		return diff, nil
	}
	if err := apply.CheckReferences(ctx, o, d.runner.At, d.runner.Live); err != nil {
		return diff.refused(err.Error()), nil
	}
	return diff, nil
}

// printOwner prints how an object of a file is compared with the manifest that has it already.
func (d *differ) printOwner(id object.Identity, manager string) {
	if name, _ := v1alpha1.ParseFieldManager(manager); name != "" {
		d.remark(fmt.Sprintf("%s is an object of VidraResource %s: `%s` compares the files with its manifest, and shows the fields and objects that they drop",
			id, name, d.moves.client.program.Hint("diff", name, "-f", "FILE")))
	}
}

// moved is about an object that another VidraResource releases to this one, which receives its fields and then applies its
// own configuration: a dry run of the apply under the name of the former owner shows the result.
func (d *differ) moved(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, former *v1alpha1.VidraResource) (*ObjectDifference, error) {
	diff, err := d.as(former).dryRun(ctx, diff, o, live)
	if err != nil {
		return nil, err
	}
	diff.From, diff.To = former.Name, d.runner.VR.Name
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

// recreated is about an object whose deletion has begun: it is neither changed nor compared, and created again when it is gone.
func (d *differ) recreated(diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured) *ObjectDifference {
	diff.Why = "its deletion has begun"
	if waitsFor := ending.WaitsFor(live); waitsFor != "" {
		diff.Why += ", and waits for " + waitsFor
	}
	if why := d.completed(o, trigger.Cause{Deleted: true, Succeeded: ending.Succeeded(live)}); why != "" {
		diff.Why = why
		return diff
	}
	diff.Action, diff.Why = ActionCreate, diff.Why+": it is created again when it is gone"
	return d.keep(diff, o, nil)
}

// completed returns the reason for which an absent object has ended and is not created again, as the operator decides it; empty if it is created
// again.
func (d *differ) completed(o *desired.Object, absent trigger.Cause) string {
	entry := owners.EntryOf(d.runner.VR, o.ID)
	if entry == nil || d.manifestChanged(entry, o) {
		return ""
	}
	known := plan.Object{ID: o.ID, Desired: o, Entry: entry}
	switch completed := entry.State == v1alpha1.ObjectCompleted || known.Completes(absent); {
	case !completed:
		return ""
	case o.Lifetime.Apply.Leaves():
		return "was deleted, and its annotation " + v1alpha1.ApplyAnnotation + " is CreateOnly: it is created again when its configuration changes"
	}
	return "ended successfully and was removed by its own controller: it is created again when its configuration changes"
}

func (o *ObjectDifference) refused(why string) *ObjectDifference {
	o.Action, o.Why, o.Diff, o.Conflicts = ActionRefuse, why, "", nil
	return o
}

// dryRun has the API server apply an object without storing it.
func (d *differ) dryRun(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured) (*ObjectDifference, error) {
	configuration, err := d.runner.Configuration(ctx, o, live)
	if err != nil {
		return nil, err
	}
	applied, err := d.runner.Apply(ctx, o, configuration, false)
	if apierrors.IsConflict(err) {
		if why := d.contested(ctx, diff, o, live, err); why != "" {
			return diff.refused(why), nil
		}
	}
	if err != nil {
		applied, err = d.runner.Apply(ctx, o, configuration, true)
	}
	if err != nil {
		return d.failed(ctx, diff, o, live, err, func() bool { return d.runner.Acceptable(ctx, o) })
	}
	if live == nil {
		diff.Action, diff.Diff = ActionCreate, d.unified(nil, applied, d.runner.Disclosure(o))
		return diff, nil
	}
	return d.changed(ctx, diff, o, live, applied)
}

// contested adds the fields that an apply takes from others. It returns the reason for which the apply is refused: the
// operator takes no field from another VidraResource. A missing object has no other owner.
func (d *differ) contested(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, conflict error) (refused string) {
	known := d.runner.Disclosure(o, live)
	for _, c := range owners.FieldConflictsIn(conflict) {
		c.Field = object.FieldWithoutValues(c.Field, known)
		diff.Conflicts = append(diff.Conflicts, FieldConflict(c))
	}
	if live == nil {
		return ""
	}
	finder := d.finder()
	others, err := d.coOwners(live, func() ([]owners.CoOwner, error) { return finder.Conflicting(ctx, o.Key, live) })
	if err != nil {
		return err.Error()
	}
	var elsewhere []owners.CoOwner
	drift := d.isDrift(o)
	if d.settings.Adopt != v1alpha1.AdoptAlways && !drift {
		elsewhere = finder.Claimant.OwnersElsewhere(o.Key, live, others)
	}
	contest, is := errors.AsType[*owners.Conflict](owners.Contested(conflict, live, o.Unstructured(), others, elsewhere, drift))
	if !is {
		return ""
	}
	why := contest.AsFailure(nil, known).Message
	if contest.Leaving {
		diff.Why = why
		return ""
	}
	return why
}

// failed is about an object that the API server refused. acceptable reports whether it accepts the object as a new one.
func (d *differ) failed(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, err error, acceptable func() bool) (*ObjectDifference, error) {
	if !isAnswer(err) {
		return nil, fmt.Errorf("dry run of %s: %w", o.ID, err)
	}
	why := object.Explain(err, o.GVK, o.ID, d.runner.Disclosure(o, live)).Message
	invalid := live != nil && apierrors.IsInvalid(err) && !object.Denied(err)
	var edit ownership.Addition
	if invalid && d.runner.Owns(live) {
		edit = d.runner.InTheWay(o, live)
	}
	fields := object.InvalidFields(err)
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
	case !invalid, fields == nil, !o.SetsAll(fields) && d.isDrift(o), !acceptable():
		return diff.refused(why), nil
	}
	return d.replaced(ctx, diff, o, live, object.Refusal{
		ID: o.ID, Answer: why, Fields: object.FieldNames(err), Differing: desired.Differing(o.Unstructured(), live), Unset: !o.SetsAll(fields),
	})
}

// replaced is about an object that the API server accepts as a new one only: the operator decides whether it is deleted and created again.
func (d *differ) replaced(ctx context.Context, diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured, refusal object.Refusal) (*ObjectDifference, error) {
	entry := owners.EntryOf(d.runner.VR, o.ID)
	replacement := &apply.Replacement{Settings: d.settings, Object: o, Entry: entry, Live: live, Refusal: refusal, Drift: d.isDrift(o)}
	finder := d.finder()
	var err error
	if replacement.Others, err = d.coOwners(live, func() ([]owners.CoOwner, error) { return finder.CoOwners(ctx, o.Key, live) }); err != nil {
		return diff.refused(err.Error()), nil
	}
	if d.settings.Force && o.ID.IsContainer() {
		if replacement.Inside, err = finder.Contents(ctx, d.runner.At, live, false); err != nil {
			return diff.refused(refusal.Answer + ". It is not known what it holds: " + object.Message(err, ownership.Disclose(false, false, false))), nil
		}
	}
	if blocked := replacement.Blocked(); blocked != nil {
		return diff.refused(blocked.Error()), nil
	}
	diff.Action, diff.Why = ActionReplace, "spec.force: deleted and created again, because of "+refusal.Answer
	if n := replacement.Inside.Unmanaged.Count; n > 0 {
		diff.Why += fmt.Sprintf(". It is deleted with %s: %s", display.Plural(n, "unmanaged object"), replacement.Inside.Unmanaged)
	}
	return diff, nil
}

// isAnswer reports whether an error is an answer of the API server. A text, for example of a proxy, is none.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && !apierrors.IsUnexpectedServerError(err)
}

// additions describes the additions of an edit, which are removed with the revert.
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

// changed compares an object with the result of the dry run.
func (d *differ) changed(ctx context.Context, diff *ObjectDifference, o *desired.Object, live, applied *unstructured.Unstructured) (*ObjectDifference, error) {
	if entry := owners.EntryOf(d.runner.VR, o.ID); entry == nil || entry.UID == "" {
		adopted, refused, err := d.mayTake(ctx, o, live, applied)
		switch {
		case err != nil:
			return nil, err
		case refused != "":
			return diff.refused(refused), nil
		case adopted:
			diff.Action = ActionAdopt
		}
	}
	owned, recorded := ownership.Of(live, d.runner.By.Manager)
	// The order of items is not owned. The result of a JSON patch that removes defaults first has the former owners.
	if after, _ := ownership.Of(applied, d.runner.By.Manager); !recorded || owned != after || !d.isDrift(o) && nearer(o, live, applied) {
		diff.Diff = d.unified(live, applied, d.runner.Disclosure(o))
	}
	if d.runner.Owns(live) {
		diff.AlsoRemoved = additions(append(d.runner.Added(o, live), d.byTools(o, live)...))
	}
	if diff.Action == ActionNone && (diff.Diff != "" || len(diff.AlsoRemoved) > 0) {
		diff.Action = ActionChange
	}
	return diff, nil
}

// nearer reports whether an apply sets values of the manifest that the object lacks.
func nearer(o *desired.Object, live, applied *unstructured.Unstructured) bool {
	wanted := o.Unstructured()
	return len(desired.Differences(wanted, applied)) < len(desired.Differences(wanted, live))
}

// mayTake returns the reason for which an existing object is not applied for the first time, empty if it is, and reports
// whether it is adopted then.
func (d *differ) mayTake(ctx context.Context, o *desired.Object, live, applied *unstructured.Unstructured) (adopted bool, refused string, err error) {
	finder := d.finder()
	others, err := d.coOwners(live, func() ([]owners.CoOwner, error) { return finder.Conflicting(ctx, o.Key, live) })
	if err != nil {
		return false, "", err
	}
	rival, is := errors.AsType[*owners.Conflict](owners.RivalOf(others, o.Unstructured()))
	switch {
	case is:
		return false, rival.AsFailure(nil, d.runner.Disclosure(o, live)).Message, nil
	case d.settings.Claimant.Applied(live):
		return false, "", nil
	case len(others) >= owners.MaxOwners:
		return false, owners.Crowded(others).Error(), nil
	case d.runner.Owns(live), slices.ContainsFunc(others, func(other owners.CoOwner) bool { return other.Owns }):
		return false, "", nil
	}
	return true, d.settings.Adoption(o.Key, live, applied, o.Unstructured(), d.runner.Disclosure(o)).Decide().Reason, nil
}

// byTools are the additions of users to an object that the policy for additions removes.
func (d *differ) byTools(o *desired.Object, live *unstructured.Unstructured) []ownership.Change {
	if !policy.OfAdditions(d.settings.Additions.Policy).Reverts() {
		return nil
	}
	return d.settings.Additions.In(live, o, d.runner.By.Manager, d.runner.Disclosure(o, live)).Changes
}

// isDrift reports whether the operator applied the present configuration of an object, so that a difference is an edit.
func (d *differ) isDrift(o *desired.Object) bool {
	entry := owners.EntryOf(d.runner.VR, o.ID)
	return entry != nil && entry.UID != "" && !d.manifestChanged(entry, o)
}

// manifestChanged reports whether the configuration of an object is, or may be, another one than was applied last. A sealed
// one cannot be compared: it is the same if the operator has observed the spec, and its parts come from the cluster.
func (d *differ) manifestChanged(entry *v1alpha1.ManagedResourceStatus, o *desired.Object) bool {
	if entry.Configuration == "" || strings.HasPrefix(entry.Configuration, seal.Prefix) {
		return d.runner.VR.Status.ObservedGeneration != d.runner.VR.Generation || d.runner.Beside != nil && len(d.runner.VR.Spec.ManifestFrom) > 0
	}
	return entry.Configuration != o.Configuration
}

// keep makes a difference none if the operator does not revert it.
func (d *differ) keep(diff *ObjectDifference, o *desired.Object, live *unstructured.Unstructured) *ObjectDifference {
	if !slices.Contains([]string{ActionChange, ActionCreate, ActionReplace}, diff.Action) {
		return diff
	}
	if decision := d.decide(o, live); !decision.Reverts() {
		diff.Action, diff.Stays, diff.Why = ActionNone, true, "it is not reverted: "+decision.Reason
		diff.Conflicts, diff.AlsoRemoved = nil, nil
	}
	return diff
}

// decide returns the decision of the operator about an edit of an object. No policy delays a changed manifest, and spec.suspend, which
// delays all writes, is reported by the difference of the VidraResource.
func (d *differ) decide(o *desired.Object, live *unstructured.Unstructured) policy.Decision {
	if !d.isDrift(o) {
		return policy.Revert
	}
	entry := owners.EntryOf(d.runner.VR, o.ID)
	decision, _ := d.settings.Decide(plan.Task{
		Object: o, Known: &plan.Object{Entry: entry}, Why: plan.WhyDrift, Cause: trigger.Cause{Found: live, Deleted: live == nil},
		Decision: policy.OfEdit(d.runner.VR, entry.BreakGlass, d.settings.BreakGlass.Max, time.Now()),
	})
	return decision
}
