package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// Result is the outcome of a migration.
type Result struct {
	// Objects counts the adopted objects, and Released those whose fields and marks of the former tool were released.
	Objects, Released int
	// Compared counts the objects that were compared with their former state. Left are unmanaged objects of the tool.
	Compared int
	Left     []string
	// Changed describes the objects with changes beyond metadata.
	Changed []string
	// Next is the last step, for the user.
	Next string
}

// Apply carries out a plan.
func (c *Client) Apply(ctx context.Context, p *Plan) (*Result, error) {
	if blocked := p.Blocked(); len(blocked) > 0 {
		return nil, fmt.Errorf("%s is not moved: %s: %s", p.From, blocked[0].Field, blocked[0].Text)
	}
	before, err := c.snapshot(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := unfinished(ctx, p.work.tool.stop(ctx, p.work.options.Timeout)); err != nil {
		return nil, err
	}
	back := fmt.Errorf("nothing was released. Correct it and %w, or go back with --undo", writes.ErrUnfinished)
	if p.Exists {
		if err = c.withdrawUndo(ctx, p.Name); err == nil {
			err = c.writes.SecureParts(ctx, p.work.vr)
		}
	} else {
		var remarks []string
		remarks, err = c.writes.Create(ctx, p.work.prepared, nil)
		p.Remarks = append(p.Remarks, remarks...)
	}
	if err != nil {
		return nil, fmt.Errorf("create VidraResource %s: %w; %w", p.Name, err, back)
	}
	var last error
	p.work.vr, err = c.questions.Watch(ctx, p.Name, p.work.options.Timeout, func(vr *v1alpha1.VidraResource) bool {
		last = settled(vr)
		return last == nil || vr.Status.ObservedGeneration >= vr.Generation && slices.ContainsFunc(vr.Status.Problems, refuses)
	})
	if err == nil || errors.Is(err, insight.ErrTimeout) && last != nil {
		err = last
	}
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s has not adopted all objects: %w; %w", p.Name, err, back)
	}
	released, err := c.release(ctx, p, true)
	if err != nil {
		return nil, fmt.Errorf("release the fields of %s: %w: %w", p.From, err, writes.ErrUnfinished)
	}
	_, next := p.work.tool.steps()
	result := &Result{Objects: len(p.work.vr.Status.ManagedResources), Released: released, Compared: len(before), Left: p.left(), Next: next}
	result.Changed, err = c.changed(ctx, before)
	return result, err
}

// unfinished adds writes.ErrUnfinished to the error of a step that the end of ctx interrupted.
func unfinished(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: some writes are done: %w", err, writes.ErrUnfinished)
}

// settled returns an error unless the operator has applied all objects of a VidraResource.
func settled(vr *v1alpha1.VidraResource) error {
	if !vr.DeletionTimestamp.IsZero() {
		return errors.New("it is being deleted")
	}
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	if vr.Status.ObservedGeneration < vr.Generation || ready == nil {
		return errors.New("the operator has not reconciled it")
	}
	for _, problem := range vr.Status.Problems { // the health of the objects does not count
		if problem.In(v1alpha1.ConditionReady) && problem.Conditions[0] != v1alpha1.ConditionHealthy {
			return fmt.Errorf("%s: %s", insight.ProblemObject(problem.Object), problem.Message)
		}
	}
	return nil
}

// refuses reports whether a problem does not end by itself.
func refuses(p v1alpha1.Problem) bool {
	return p.Reason == v1alpha1.ReasonAdoptionRefused || p.Reason == v1alpha1.ReasonOwnershipConflict || p.Reason == v1alpha1.ReasonManifestInvalid
}

// left names the objects that the tool applied and that the inventory of the VidraResource lacks.
func (p *Plan) left() (all []string) {
	for _, e := range p.work.expected {
		if owners.EntryOf(p.work.vr, e) == nil {
			all = append(all, display.Name(e.Kind, e.Namespace, e.Name))
		}
	}
	return all
}

// snapshot reads the objects before a migration.
func (c *Client) snapshot(ctx context.Context, p *Plan) ([]*unstructured.Unstructured, error) {
	vr := p.work.vr
	if !p.Exists {
		vr = p.work.prepared.VidraResource
	}
	if !access.IsLocal(vr.Spec.Destination.Server) {
		return nil, nil
	}
	if p.Exists {
		found := make([]*unstructured.Unstructured, len(p.work.vr.Status.ManagedResources))
		err := c.each(ctx, p.work.vr, nil, func(ctx context.Context, i int, e v1alpha1.ManagedResourceStatus) (err error) {
			found[i], err = c.read(ctx, e.APIVersion, e.Kind, e.Namespace, e.Name)
			return err
		})
		return slices.DeleteFunc(found, func(u *unstructured.Unstructured) bool { return u == nil }), err
	}
	var found []*unstructured.Unstructured
	for _, o := range p.work.compared {
		u, err := c.read(ctx, o.APIVersion, o.Kind, o.Namespace, o.Name)
		if err != nil {
			return nil, err
		}
		if u != nil {
			found = append(found, u)
		}
	}
	return found, nil
}

// changed compares objects with their state before a migration.
func (c *Client) changed(ctx context.Context, before []*unstructured.Unstructured) (changed []string, err error) {
	for _, was := range before {
		now, err := c.read(ctx, was.GetAPIVersion(), was.GetKind(), was.GetNamespace(), was.GetName())
		switch {
		case err != nil:
			return changed, err
		case now == nil:
			changed = append(changed, object.IdentityIn(was).String()+" does not exist any more")
		case now.GetUID() != was.GetUID():
			changed = append(changed, object.IdentityIn(was).String()+" was created again")
		case !sameContent(was, now):
			changed = append(changed, object.IdentityIn(was).String()+" has other content")
		}
	}
	return changed, nil
}

// sameContent compares all but the metadata and the status. (The generation of some kinds also counts their annotations.)
func sameContent(a, b *unstructured.Unstructured) bool {
	for _, u := range []*unstructured.Unstructured{a, b} {
		u.Object = maps.Clone(u.Object)
		delete(u.Object, "metadata")
		delete(u.Object, "status")
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}
