package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// byTools finds the additions of users to an object.
func (k known) byTools(live *unstructured.Unstructured) ownership.Addition {
	return k.settings.Additions.In(live, k.task.Object, k.settings.Claimant.Manager, k.disclosureWith())
}

// onlyAdditions reports whether our fields in the found object are as the last apply left them, so that
// an apply is unnecessary.
func (k known) onlyAdditions() bool {
	entry, found := k.task.Entry(), k.task.Cause.Found
	if len(k.settings.Additions.Tools) == 0 || k.task.Why != plan.WhyDrift || found == nil || entry == nil || k.settings.Claimant.Signature().MissingLabel(found) != "" {
		return false
	}
	return entry.Configuration == k.task.Object.Configuration && trigger.DigestOf(found, k.settings.Claimant.Manager, false, nil).String() == entry.Digest
}

// removeAdditions removes the additions of users to live, an object that equals the manifest apart from them: it takes the ownership of
// the additions, and applies. If the API server calls the object without them invalid, it returns the ownership,
// and the additions stay.
func (p *procedure) removeAdditions(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if len(p.known.byTools(live).Patch) == 0 {
		return live, nil
	}
	p.edit, p.confirmed = nil, true // an object with the additions is as expected, too
	p.versions = append(p.versions, live)
	previous := live
	undo := p.known.settings.Additions.Undo(p.known.task.Object, p.known.settings.Claimant.Manager, p.known.disclosureWith())
	got := p.reclaim(ctx, undo, live, live)
	switch {
	case got.err != nil:
		return nil, got.err
	case !got.complete:
		return nil, errors.New("it was changed while what was added to it was being removed; it is tried again")
	case got.live == nil:
		return live, nil
	}
	cleaned, err := p.apply(ctx, plan.WhyDrift, got.live)
	switch {
	case err == nil:
		p.result.Change.Added = p.result.Change.Added.And(got.addition)
		return cleaned, nil
	case !apierrors.IsInvalid(err) || object.Denied(err):
		return nil, p.abandon(ctx, got.live, previous, err)
	}
	p.result.Additions.Unremovable = fmt.Sprintf("%s. The API server refuses the object without it: %s",
		Differences(got.addition.Changes), object.Message(err, p.known.disclosureWith(got.live)))
	return p.giveBack(ctx, got.live, previous)
}

// Differences describes additions of users, in at most plan.MaxDifferences bytes.
func Differences(changes []ownership.Change) string {
	return display.Truncate(events.Differences(changes), plan.MaxDifferences)
}
