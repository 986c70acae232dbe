package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// additions says what is done about what people add to the objects of a VidraResource, and
// which tools are theirs: none with Keep.
type additions struct {
	policy v1alpha1.AdditionsPolicy
	tools  ownership.Tools
}

// additionsOf is the policy of a VidraResource. A mode that ignores drift ignores additions.
func (r *Reconciler) additionsOf(vr *v1alpha1.VidraResource) additions {
	policy := vr.Additions(r.Additions)
	if policy == v1alpha1.AdditionsKeep || vr.DriftMode() == v1alpha1.DriftIgnore {
		return additions{policy: v1alpha1.AdditionsKeep}
	}
	tools := r.PeopleTools
	if tools == nil {
		tools = ownership.DefaultTools
	}
	return additions{policy: policy, tools: tools}
}

// configuration identifies a policy, so that another one has every object applied; empty
// with Keep.
func (a additions) configuration() string {
	if a.policy == v1alpha1.AdditionsKeep {
		return ""
	}
	return string(a.policy) + ":" + strings.Join(a.tools, ",")
}

// undoTools describes what people added to an object, whenever that was.
func (a *applier) undoTools(t task) ownership.Undo {
	return ownership.Undo{
		Manager: a.manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: t.object().Object,
		BeforeKnown: true, Scope: ownership.Everything,
		Keep: func(manager string, path []string) bool {
			return !a.additions.tools.Has(manager) || ownership.KeptAddition(path) || t.exempts(manager, path)
		},
	}
}

// byTools finds what people added to an object.
func (a *applier) byTools(t task, live *unstructured.Unstructured) ownership.Addition {
	if live == nil || len(a.additions.tools) == 0 {
		return ownership.Addition{}
	}
	if _, found := a.additions.tools.Digest(live, a.manager); !found {
		return ownership.Addition{}
	}
	return a.undoTools(t).Added(live, live)
}

// onlyAdditions reports whether what is ours in the object that was found is as it was
// applied last, so that there is nothing to apply.
func (a *applier) onlyAdditions(t task) bool {
	entry, found := t.known.entry, t.cause.Found
	if len(a.additions.tools) == 0 || t.why != whyDrift || found == nil || entry == nil || !labelled(found) {
		return false
	}
	return entry.Configuration == t.configuration && trigger.DigestOf(found, a.manager, false, nil).String() == entry.Digest
}

// observeAdditions notes an object in which there is nothing to change: additions are
// reported, or those that there are do not count.
func (a *applier) observeAdditions(r result) result {
	found := r.cause.Found
	if a.watched {
		a.index.Begin(a.owner, r.key, a.manager)
		a.trigger.Commit(a.owner, r.key, a.expectation(found))
	}
	r.compared, r.additions = true, a.byTools(r.task, found).Changes
	return r
}

// expectation is what is expected of an object from now on.
func (a *applier) expectation(live *unstructured.Unstructured) trigger.Applied {
	return trigger.Applied{
		Manager: a.manager, Digest: trigger.DigestOf(live, a.manager, false, a.additions.tools), UID: live.GetUID(),
		ResourceVersion: live.GetResourceVersion(), Others: ownership.Others(live, v1alpha1.FieldManagerPrefix),
	}
}

// sendReverting sends the apply, unless nothing of ours has changed, and then removes what
// people added, if the policy is Revert.
func (a *applier) sendReverting(ctx context.Context, t *task) (live *unstructured.Unstructured, err error) {
	if live = t.cause.Found; a.additions.policy != v1alpha1.AdditionsRevert || !a.onlyAdditions(*t) {
		live, err = a.sendUndoing(ctx, t)
	}
	if err != nil || live == nil || a.additions.policy != v1alpha1.AdditionsRevert {
		return live, err
	}
	return a.removeAdditions(ctx, t, live)
}

// removeAdditions removes what people added to an object that is otherwise as it should be:
// it takes the ownership of the additions, and applies. If the API server calls the object
// without them invalid, it gives the ownership back, and the additions stay.
func (a *applier) removeAdditions(ctx context.Context, t *task, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before, again := live, *t
	if added := a.byTools(*t, live); len(added.Patch) == 0 {
		return live, nil
	}
	again.why, again.cause, again.added = whyDrift, trigger.Cause{Found: live}, ownership.Addition{}
	taken, reclaimed, err := a.reclaim(ctx, &again, live, a.undoTools(*t))
	switch {
	case err != nil:
		return nil, err
	case !reclaimed:
		return nil, errors.New("it was changed while what was added to it was being removed; it is tried again")
	case taken == nil:
		return live, nil
	}
	again.cause.Found, live = taken, taken
	applied, err := a.sendWithoutIgnored(ctx, again)
	if apierrors.IsInvalid(err) && !denied(err) {
		refused := message(err, t.sensitive || ownership.Sensitive(live))
		t.unremovable = fmt.Sprintf("%s. The API server refuses the object without it: %s", differences(again.added.Changes), refused)
		return a.returnFields(ctx, *t, live, before)
	}
	t.added = t.added.And(again.added)
	return applied, err
}

// describeAdditions finds out what people added to the object that was applied: what was
// removed, which an apply of another configuration does besides, and what is left.
func (a *applier) describeAdditions(r *result) {
	r.compared = true
	if a.additions.policy == v1alpha1.AdditionsWarn {
		r.additions = a.byTools(r.task, r.live).Changes
	}
	if len(r.fields) == 0 && len(r.reverted) == 0 {
		r.reverted = r.added.Changes
	}
}

// differences says what people added, in at most maxDifferences bytes.
func differences(changes []ownership.Change) string {
	return display.Truncate(events.Differences(changes), maxDifferences)
}

// noteAdditions notes what people added to an object and what is not reverted, to be reported once.
func (p *pass) noteAdditions(r result) {
	if !r.compared {
		return
	}
	s, text := p.state, ""
	switch {
	case r.unremovable != "":
		text = r.unremovable
	case len(r.additions) > 0:
		text = differences(r.additions) + ". It is not reverted: spec.drift.additions is Warn"
	}
	was := r.known.additions
	r.known.additions = text
	if text != "" && was != text && !s.inheritedOf(r.id, text) {
		s.pendingEvents = append(s.pendingEvents, events.Change{
			Action: events.Detected, Object: referenceTo(r.id, r.gvk, types.UID(r.known.entry.UID)), Fields: r.additions, Note: text,
		})
	}
}

// inheritedOf reports whether the status that a Vidra before this one wrote has a text about
// an object.
func (s *ownerState) inheritedOf(id identity, text string) bool {
	for _, message := range s.inherited {
		if _, said, named := strings.Cut(message, id.String()+": "); named && strings.HasPrefix(said, text) {
			return true
		}
	}
	return false
}

// withAdditions are the objects with additions of people that are not reverted.
func (p *pass) withAdditions() map[identity]failure {
	all := map[identity]failure{}
	for o := range p.state.all() {
		if o.entry == nil || o.desired == nil || p.applier.additions.policy == v1alpha1.AdditionsKeep {
			o.additions = ""
		}
		if o.additions != "" {
			all[o.id] = failure{v1alpha1.ReasonDriftDetected, o.additions}
		}
	}
	return all
}
