package search

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// revised returns the spec that is sent, and the one with the objects that the VidraResource has with it: those of the applied revision under a hold, or
// those of an earlier one. Nothing is held before a revision is applied.
func (r *run) revised(ctx context.Context, s spec) (sent, is spec) {
	v := &v1alpha1.VidraResource{}
	was, exists := r.owners[s.Name]
	_, waits := r.waiting[s.Name]
	free := s.with("revision.hold", nil).with("revision.to", nil)
	if !s.holds() || !exists || admin.Get(ctx, client.ObjectKey{Name: r.owner(s.Name)}, v) != nil || v.Status.Revision == nil {
		return free, free
	}
	if !waits && (ready(v).Reason != v1alpha1.ReasonApplied || v.Status.Revision.Applied == 0) {
		return free, free
	}
	objects := r.read[s.Name]
	if s.Others["revision.to"] != nil {
		s = s.with("revision.to", nil)
		for _, k := range v.Status.Revision.Kept { // the newest first
			if known, has := r.revisions[s.Name][k.Number]; has {
				s, objects = s.with("revision.to", k.Number), known
			}
		}
	}
	is = s
	is.Objects, is.Broken, is.Parts = objects, "", s.Parts || was.Parts
	return s, is
}

// await notes the spec whose manifest waits, if it does: other VidraResources leave its objects to it.
func (r *run) await(s spec) {
	if delete(r.waiting, s.Name); s.holds() {
		r.waiting[s.Name] = s
	}
}

// awaitedNow returns the objects of manifests that wait.
func (r *run) awaitedNow() map[string]bool {
	all := map[string]bool{}
	for _, s := range r.waiting {
		for o := range s.Objects {
			all[o] = true
		}
	}
	return all
}

// record notes the objects of the revisions that are applied. A change of a part has no generation, so that a status may have the revision before.
func (r *run) record(ctx context.Context) {
	for name, s := range r.owners {
		v := &v1alpha1.VidraResource{}
		if s.Parts || s.Suspend || admin.Get(ctx, client.ObjectKey{Name: r.owner(name)}, v) != nil || ready(v).Reason != v1alpha1.ReasonApplied || v.Status.Revision == nil {
			continue
		}
		if r.revisions[name] == nil {
			r.revisions[name] = map[int64]map[string]int{}
		}
		r.revisions[name][v.Status.Revision.Applied] = s.Objects
	}
}

// wrongRevision compares the revisions in the status of a VidraResource that is Ready, or whose next revision waits, with those that were applied.
func (r *run) wrongRevision(name string, s spec, v *v1alpha1.VidraResource) (wrong []string) {
	is := v.Status.Revision
	if is == nil || s.Suspend {
		return nil
	}
	if known, has := r.revisions[name][is.Applied]; has && is.Applied != 0 && !maps.Equal(known, s.Objects) {
		wrong = append(wrong, fmt.Sprintf("%s: revision %d has %v, and %v is applied", name, is.Applied, known, s.Objects))
	}
	w, waits := r.waiting[name]
	if waits && w.Others["revision.to"] != nil && float64(is.Applied) != number(w.Others["revision.to"]) {
		wrong = append(wrong, fmt.Sprintf("%s: revision %d is applied, and %v is spec.revision.to", name, is.Applied, w.Others["revision.to"]))
	}
	if ready(v).Reason == v1alpha1.ReasonApplied && is.Waiting != nil {
		wrong = append(wrong, fmt.Sprintf("%s: Ready is True, and a revision waits: %v", name, is.Waiting))
	}
	return wrong
}

// number returns a number of a spec, also one that was read from YAML.
func number(value any) float64 {
	if n, is := value.(int64); is {
		return float64(n)
	}
	n, _ := value.(float64)
	return n
}

// exempted is how long an edit under break-glass stays.
const exempted = 3 * time.Second

// exemption is an edit under break-glass.
type exemption struct {
	until time.Time
	// content is the object with the edit. stays is whether it must stay: no change of it was under way.
	content map[string]any
	stays   bool
}

// exempt sets the break-glass annotations of an object together with other fields.
func exempt(fields map[string]any) (until time.Time) {
	until = time.Now().Add(exempted).Truncate(time.Second)
	metadata, has := fields["metadata"].(map[string]any)
	if !has {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["annotations"] = map[string]any{
		v1alpha1.BreakGlassUntilAnnotation: until.UTC().Format(time.RFC3339), v1alpha1.BreakGlassReasonAnnotation: "incident",
	}
	return until
}

// wrongExemptions returns the edits that were reverted before the end of their exemption, and those that are exempt.
func (r *run) wrongExemptions(ctx context.Context) []string {
	now, wrong := time.Now(), slices.Clone(r.reverted)
	for o, is := range r.exempt {
		if now.After(is.until) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s is exempt until %s", o, is.until.Format(time.TimeOnly)))
		u := r.object(o, 0)
		err := admin.Get(ctx, client.ObjectKeyFromObject(u), u)
		if is.stays && err == nil && time.Now().Before(is.until) && !reflect.DeepEqual(content(u), is.content) {
			r.reverted = append(r.reverted, fmt.Sprintf("%s was exempt until %s, and was changed: %v", o, is.until.Format(time.TimeOnly), u.Object))
			is.stays = false
		}
	}
	return wrong
}

// unexempt notes that exempt objects may be changed: by a change of a manifest.
func (r *run) unexempt() {
	for _, is := range r.exempt {
		is.stays = false
	}
}

// mayExempt reports whether an edit of an object stays while break-glass exempts it: no change of the object is under way, and its only owner allows the exemption.
func (r *run) mayExempt(o string, inOrder bool) bool {
	was, known := r.settled[o]
	is, wanted := r.sole()[o]
	most := r.owners[is.owner].Others["drift.maxBreakGlass"]
	return inOrder && known && wanted && was == is && !r.slowed && !r.edited[o] && most != "0s" && r.heals(o) && !r.unmanaged[o]
}
