package search

import (
	"context"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// dependency returns the VidraResource that a spec depends on; empty for none.
func (s spec) dependency() string {
	name, _ := s.Others["dependsOn"].(string)
	return name
}

// mayWait reports whether the manifest of a spec may not be applied: its VidraResource is suspended, or depends on another one.
func (s spec) mayWait() bool { return s.Suspend || s.dependency() != "" }

// reaches reports whether a VidraResource is another one, or depends on it, directly or through others.
func (r *run) reaches(from, to string) bool {
	for range names {
		if from == to {
			return true
		}
		from = r.owners[from].dependency()
	}
	return false
}

// delayed reports whether a spec may wait for its dependency at rest: one that is missing, that is in a cycle, or that may have another state than Ready.
func (r *run) delayed(s spec) bool {
	if s.dependency() == "" {
		return false
	}
	on, exists := r.owners[s.dependency()]
	if !exists || on.Suspend || r.reaches(on.Name, s.Name) || r.delayed(on) {
		return true
	}
	contested := map[string]bool{}
	for o, variants := range r.wanted() {
		contested[o] = disagree(variants)
	}
	return !slices.Equal(r.reasons(on, contested), []string{v1alpha1.ReasonApplied})
}

// block notes whether a VidraResource depends on a missing one from its creation on, so that nothing of it is applied.
func (r *run) block(s spec, existed bool) {
	for name := range r.blocked {
		if r.owners[name].dependency() == s.Name {
			delete(r.blocked, name)
		}
	}
	_, found := r.owners[s.dependency()]
	if (!existed || r.blocked[s.Name]) && s.dependency() != "" && !found && s.Broken == "" && !s.Suspend {
		r.blocked[s.Name] = true
	} else {
		delete(r.blocked, s.Name)
	}
}

// removal is the deletion of a VidraResource together with a dependent, with the objects that each of them wants alone.
type removal struct {
	since           testenv.AuditMark
	dependent       string
	objects, before []string
}

// deleteAll deletes the VidraResources of a step, as one command does.
func (r *run) deleteAll(ctx context.Context, in step) {
	mark, sole := cluster.Env.AuditMark(), map[string][]string{}
	removable := r.inventories(ctx)
	for o, w := range r.sole() {
		// An object may be deleted by another VidraResource, and Secret/typed to be created again.
		others := slices.DeleteFunc(removable[o], func(owner string) bool { return owner == r.owner(w.owner) })
		if o != typed && len(others) == 0 {
			sole[w.owner] = append(sole[w.owner], o)
		}
	}
	for _, name := range in.Delete {
		on := r.owners[name].dependency()
		if _, exists := r.owners[on]; exists && slices.Contains(in.Delete, on) && !r.reaches(on, name) {
			r.removals = append(r.removals, removal{mark, name, sole[on], sole[name]})
		}
	}
	for _, name := range in.Delete {
		r.delete(ctx, name, in)
	}
}

// inventories returns the names of the VidraResources with each object in their inventories, also of those that are being deleted.
func (r *run) inventories(ctx context.Context) map[string][]string {
	all, found := &v1alpha1.VidraResourceList{}, map[string][]string{}
	require.NoError(r, admin.List(ctx, all))
	for i := range all.Items {
		for _, e := range all.Items[i].Status.ManagedResources {
			for _, o := range wholePool {
				if u := r.object(o, 0); u.GetKind() == e.Kind && u.GetNamespace() == e.Namespace && u.GetName() == e.Name {
					found[o] = append(found[o], all.Items[i].Name)
				}
			}
		}
	}
	return found
}

// requireOrder requires of the deletions since the last call that operators delete the objects of a VidraResource after those of its dependents.
func (r *run) requireOrder(ctx context.Context) {
	for _, is := range r.removals {
		sent, err := cluster.AuditSince(is.since)
		require.NoError(r, err)
		err = admin.Get(ctx, client.ObjectKey{Name: r.owner(is.dependent)}, &v1alpha1.VidraResource{})
		require.NoError(r, client.IgnoreNotFound(err))
		first, last := r.deletions(sent, is.objects), r.deletions(sent, is.before)
		if len(first) > 0 {
			require.Error(r, err, "%s exists, and objects of the dependents of a VidraResource are deleted first:\n%s", is.dependent, first)
		}
		if len(first) > 0 && len(last) > 0 {
			require.True(r, first[0].Time.After(last[len(last)-1].Time), "objects of the dependents of a VidraResource are deleted first:\n%s\n%s", first, last)
		}
	}
	r.removals = nil
}

// deletions returns the deletions of objects by operators.
func (r *run) deletions(sent []testenv.AuditEvent, objects []string) suite.Requests {
	return byOperators(sent).Only(func(q suite.Request) bool {
		return q.Verb == "delete" && slices.ContainsFunc(objects, func(o string) bool {
			u := r.object(o, 0)
			return q.Name == u.GetName() && q.Namespace == u.GetNamespace() && r.resourceOf(o) == q.Resource
		})
	})
}

// resourceOf returns the resource of the kind of an object.
func (r *run) resourceOf(o string) string { return strings.ToLower(r.kindOf(o)) + "s" }
