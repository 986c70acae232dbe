package prune

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// lacksRights reports whether the API server refused a request for want of a right.
func lacksRights(err error) bool { return apierrors.IsForbidden(err) && !object.Denied(err) }

// removeAsFormer removes an object as the account that the spec named before, after the present one was refused.
func (a *Remover) removeAsFormer(ctx context.Context, e *v1alpha1.ManagedResourceStatus, refused removal) removal {
	as, user, why := a.FormerClient(ctx, e.RemoveAs, a.Applier.Destination)
	if why != nil {
		refused.former = fmt.Sprintf(". ServiceAccount %s, which applied it, is not used: %s", e.RemoveAs, why.Message)
		return refused
	}
	applier := *a.Applier
	applier.Client, applier.User = as, user
	former := *a
	former.Applier = &applier
	done := former.removeIn(ctx, e)
	if lacksRights(done.err) {
		refused.former = fmt.Sprintf(". ServiceAccount %s, which applied it, may not remove it either", e.RemoveAs)
		return refused
	}
	return done
}

// advice is the step that ends the failure of a removal for lack of rights of the account; empty for others.
func (a *Remover) advice(done removal) string {
	if a.Applier.User == "" || !lacksRights(done.err) || access.RefusesImpersonation(done.err) {
		return done.former
	}
	account := access.Account(a.Plan.VR)
	where := "in all namespaces"
	if done.key.Namespace != "" {
		where = "in namespace " + done.key.Namespace
	}
	return fmt.Sprintf("%s: grant the ServiceAccount %s get, patch and delete on %s %s, or delete the object yourself", done.former, account, done.key.GVR.Resource, where)
}
