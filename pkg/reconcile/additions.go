package reconcile

import (
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

// additions says what is done about what users add to the objects of a VidraResource, and
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

// undoTools describes what users added to an object, whenever that was.
func (k known) undoTools() ownership.Undo {
	return ownership.Undo{
		Manager: k.settings.manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: k.object().Object,
		BeforeKnown: true, Scope: ownership.Everything,
		Keep: func(manager string, path []string) bool {
			return !k.settings.additions.tools.Has(manager) || ownership.KeptAddition(path) || k.exempts(manager, path)
		},
	}
}

// byTools finds what users added to an object.
func (k known) byTools(live *unstructured.Unstructured) ownership.Addition {
	tools := k.settings.additions.tools
	if live == nil || len(tools) == 0 {
		return ownership.Addition{}
	}
	if _, found := tools.Digest(live, k.settings.manager); !found {
		return ownership.Addition{}
	}
	return k.undoTools().Added(live, live)
}

// onlyAdditions reports whether what is ours in the object that was found is as it was
// applied last, so that there is nothing to apply.
func (k known) onlyAdditions() bool {
	entry, found := k.entry(), k.cause.Found
	if len(k.settings.additions.tools) == 0 || k.why != whyDrift || found == nil || entry == nil || !labelled(found) {
		return false
	}
	return entry.Configuration == k.configuration && trigger.DigestOf(found, k.settings.manager, false, nil).String() == entry.Digest
}

// removeAdditions returns the first request that removes what users added to the object of
// r.live, which is otherwise as the manifest says: it takes the ownership of the additions, and
// applies. If the API server calls the object without them invalid, it returns the ownership,
// and the additions stay.
func (r request) removeAdditions() request {
	if added := r.byTools(r.live); len(added.Patch) == 0 {
		return r.finish()
	}
	r.goal, r.as, r.edit, r.found = toClean, whyDrift, r.undoTools(), r.live
	r.previous, r.reclaims = r.live, 0
	return r.reclaim(r.live)
}

func (r request) additionsReclaimed(taken *unstructured.Unstructured) request {
	switch {
	case !r.reclaimed:
		return r.failed(errors.New("it was changed while what was added to it was being removed; it is tried again"))
	case taken == nil:
		return r.finish()
	}
	r.cleaned, r.live = r.addition, taken
	return r.apply()
}

// cleanAnswered follows the apply that removes additions.
func (r request) cleanAnswered(got answer) request {
	switch {
	case got.err == nil:
		r.added, r.live = r.added.And(r.cleaned), got.live
		return r.finish()
	case !apierrors.IsInvalid(got.err) || denied(got.err):
		return r.failed(got.err)
	}
	refused := message(got.err, r.sensitive || ownership.Sensitive(r.live))
	r.unremovable = fmt.Sprintf("%s. The API server refuses the object without it: %s", differences(r.cleaned.Changes), refused)
	return r.give(r.previous)
}

// differences describes what users added, in at most maxDifferences bytes.
func differences(changes []ownership.Change) string {
	return display.Truncate(events.Differences(changes), maxDifferences)
}

// noteAdditions notes what users added to an object and what is not reverted, to be reported once.
func (p *recorder) noteAdditions(r result) {
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
	message, inherited := s.inherited[r.id.subject()]
	inherited = s.inheritedInPart || inherited && message == display.Truncate(text, v1alpha1.MaxProblemMessage)
	if text != "" && was != text && !inherited {
		s.pendingEvents = append(s.pendingEvents, events.Change{
			Action: events.Detected, Object: referenceTo(r.id, r.gvk, types.UID(r.known.entry.UID)), Fields: r.additions, Note: text,
		})
	}
}

// forgetAdditions forgets additions that do not count any more.
func (p *pass) forgetAdditions() {
	for o := range p.state.all() {
		if o.entry == nil || o.desired == nil || p.applier.additions.policy == v1alpha1.AdditionsKeep {
			o.additions = ""
		}
	}
}
