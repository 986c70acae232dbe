package apply

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// observe finds the differences of an object that stays as it is.
func (p *procedure) observe(ctx context.Context) {
	found := p.known.task.Cause.Found
	live, err := dryRun(ctx, p.api, p.known.settings, p.known.task)
	added := p.known.undoOf().Added(found, found)
	switch {
	case apierrors.IsInvalid(err) && len(added.Lost) > 0:
		// An addition is in the way of the dry run only.
		p.result.Change.Fields = added.With(added.Lost)
	case err != nil:
		p.result.Change.Unknown = object.Message(err, p.known.disclosureWith())
	default:
		// The owner of a field matters only once Vidra reverts it.
		p.result.Change.Fields = added.With(slices.DeleteFunc(p.edits(found, live), func(c ownership.Change) bool { return c.Kind == ownership.Taken }))
	}
	p.result.Change.Fields = slices.Concat(p.result.Change.Fields, p.known.byTools(found).Changes)
}

// edits are the differences that other writers made. Values of a manifest that is still to be applied are none.
func (p *procedure) edits(found, live *unstructured.Unstructured) []ownership.Change {
	manager := p.known.settings.Claimant.Manager
	changes := ownership.Drift(found, live, manager, p.known.disclosureWith())
	switch {
	case !p.reconfigured():
		return ownership.Admitted(changes, found, manager)
	case p.known.expectedKnown && asExpected(found, p.known.expected):
		return nil
	}
	return byOthers(changes, manager, p.known.task.Seen)
}

// dryRun asks for the result of an apply of an object that exists.
func dryRun(ctx context.Context, api objectAPI, settings *plan.Settings, t plan.Task) (*unstructured.Unstructured, error) {
	whole, err := api.tryApply(ctx, t.Object.Key.Name, t.Object.Body)
	if err != nil || !t.Object.Rules.Ignored {
		return whole, err
	}
	_, reduced, err := t.Object.Rules.Exemptions.Without(t.Object.Body, t.Cause.Found, whole, settings.Claimant.Signature())
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(reduced)
	if err != nil {
		return nil, err
	}
	return api.tryApply(ctx, t.Object.Key.Name, body)
}
