package crash

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// isNoKind says whether an error means that a kind is not served.
func isNoKind(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsMethodNotSupported(err) }

// cluster is what there is at a moment.
type cluster struct {
	// managed are the objects with the label of Vidra.
	managed map[object]*unstructured.Unstructured
	vrs     map[string]*v1alpha1.VidraResource
	// touched are the foreign objects that the operator has changed.
	touched []string
}

// observe looks at the cluster: the objects first, so that an inventory is never older
// than what it should list.
func (m *model) observe(ctx context.Context) (c cluster, err error) {
	if c.managed, err = managed(ctx); err != nil {
		return c, err
	}
	if c.vrs, err = vidraResources(ctx); err != nil {
		return c, err
	}
	c.touched, err = m.touched(ctx)
	return c, err
}

// strays are the objects that no VidraResource would find again: those that a VidraResource has
// applied which is not there, or whose inventory does not list them. There must never be
// one, whenever the operator is killed.
func (m *model) strays(c cluster) []string {
	wrong := c.touched
	for o, obj := range c.managed {
		for _, name := range appliers(obj) {
			if v := c.vrs[name]; v == nil {
				wrong = append(wrong, fmt.Sprintf("%s is an orphan: VidraResource %s is gone", o, name))
			} else if _, listed := inventory(v)[o]; !listed {
				wrong = append(wrong, fmt.Sprintf("%s is not in the inventory of VidraResource %s", o, name))
			}
		}
	}
	return wrong
}

// touched are the foreign objects that the operator has changed.
func (m *model) touched(ctx context.Context) (wrong []string, err error) {
	for _, kind := range []string{"ConfigMap", "Secret", "Service"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kinds[kind].gvk)
		if err := admin.List(ctx, list); err != nil {
			return nil, err
		}
		found := map[object]fingerprint{}
		for i := range list.Items {
			found[object{kind, list.Items[i].GetNamespace(), list.Items[i].GetName()}] = fingerprintOf(&list.Items[i])
		}
		for o, before := range m.foreign {
			if o.kind == kind && found[o] != before {
				wrong = append(wrong, fmt.Sprintf("%s is foreign, and was touched: %v -> %v", o, before, found[o]))
			}
		}
	}
	return wrong, nil
}

// compare returns how the cluster differs from the model. When the operator had time
// enough, there is no difference.
func (m *model) compare(c cluster) []string {
	live, vrs, wrong := c.managed, c.vrs, c.touched
	for name := range vrs {
		if _, wanted := m.wants[name]; !wanted {
			wrong = append(wrong, fmt.Sprintf("VidraResource %s is still there", name))
		}
	}
	wanted := map[object]bool{m.copied: true}
	for name, wants := range m.wants {
		if vrs[name] == nil {
			wrong = append(wrong, fmt.Sprintf("VidraResource %s is missing", name))
			continue
		}
		wrong = append(wrong, m.compareOwner(vrs[name], wants, live)...)
		for o := range wants {
			wanted[o] = true
		}
	}
	for o := range live {
		if !wanted[o] {
			wrong = append(wrong, fmt.Sprintf("%s is in no manifest", o))
		}
	}
	for o, before := range m.settled {
		if len(before.keepers) > 0 && live[o] != nil && live[o].GetUID() != before.uid {
			wrong = append(wrong, fmt.Sprintf("%s was deleted and created again, while %v wanted it", o, before.keepers))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// compareOwner returns how the objects and the status of a VidraResource differ from its
// manifest.
func (m *model) compareOwner(v *v1alpha1.VidraResource, wants map[object]content, live map[object]*unstructured.Unstructured) (wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("VidraResource %s: %s", v.Name, fmt.Sprintf(format, args...)))
	}
	listed, reason := inventory(v), v1alpha1.ReasonApplied
	for o, want := range wants {
		if _, foreign := m.foreign[o]; foreign { // it is refused
			if _, has := listed[o]; has {
				complain("the inventory has the foreign %s", o)
			}
			reason = v1alpha1.ReasonAdoptionRefused
			continue
		}
		e, has := listed[o]
		switch obj := live[o]; {
		case obj == nil:
			complain("%s is missing", o)
		case !has:
			complain("%s is not in the inventory", o)
		case !contentOf(o, obj).same(want) && m.rival(o, v.Name, contentOf(o, obj)):
			if reason == v1alpha1.ReasonApplied { // another VidraResource was first
				reason = v1alpha1.ReasonOwnershipConflict
			}
		case !contentOf(o, obj).same(want):
			complain("%s is %v instead of %v", o, contentOf(o, obj), want)
		case !slices.Contains(appliers(obj), v.Name):
			complain("%s is not applied", o)
		case e.UID != string(obj.GetUID()) && (e.UID == "" || !m.recreated[o]):
			complain("the inventory has %s with UID %s instead of %s", o, e.UID, obj.GetUID())
		case e.State != v1alpha1.ObjectApplied:
			complain("%s is %s", o, e.State)
		}
	}
	for o := range listed {
		if _, wanted := wants[o]; !wanted {
			complain("the inventory has %s, which is not in the manifest", o)
		}
	}
	ready := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != reason || ready.ObservedGeneration != v.Generation {
		complain("Ready is %v instead of %s for generation %d", ready, reason, v.Generation)
	}
	return wrong
}

// rival says whether an object has what another VidraResource than name wants.
func (m *model) rival(o object, name string, c content) bool {
	for other, wants := range m.wants {
		if want, has := wants[o]; has && other != name && want.same(c) {
			return true
		}
	}
	return false
}

// settle notes what exists at a checkpoint.
func (m *model) settle(c cluster) {
	m.settled = map[object]settled{}
	for o, obj := range c.managed {
		keepers := map[string]bool{}
		for _, name := range appliers(obj) {
			if _, wants := m.wants[name][o]; wants {
				keepers[name] = true
			}
		}
		m.settled[o] = settled{obj.GetUID(), keepers}
	}
}
