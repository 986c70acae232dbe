package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// readHealth reads the objects whose check of spec.healthChecks is new: the stores of the watches lack the objects to evaluate it. Later
// events evaluate it.
func (p *pass) readHealth(ctx context.Context) {
	objects := p.plan.NeedsHealth()
	if len(objects) == 0 || p.applier.Client == nil {
		return
	}
	lives, errs, wanted := make([]*unstructured.Unstructured, len(objects)), make([]error, len(objects)), make([]*desired.Object, len(objects))
	for i, o := range objects {
		wanted[i] = o.Desired
	}
	p.applier.ParallelKinds(len(objects), func(i int) object.Identity { return wanted[i].ID }, func(i int) {
		leave := p.applier.Slot(ctx, wanted[i].Key)
		lives[i], errs[i] = p.applier.Get(ctx, wanted[i].Key)
		leave(errs[i])
	})
	for i, o := range objects {
		if gone := lives[i] == nil && errs[i] == nil; o.Desired == wanted[i] && !gone { // the event of its deletion follows
			p.plan.NoteHealthRead(o, lives[i], errs[i])
		}
	}
}
