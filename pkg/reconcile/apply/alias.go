package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// applyWithAlias applies a configuration that has dropped a field which the API server keeps under a second name: that goes with it. If the API
// server refuses the object, Vidra owns no more of it than before.
func (p *procedure) applyWithAlias(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var alias []string
	live, err := p.editOwn(ctx, live, func(live *unstructured.Unstructured) ([]any, bool) {
		managedFields, path := ownership.WithAlias(live, p.known.settings.Claimant.Manager, p.known.settings.Tools, p.known.task.Object.Unstructured().Object)
		if path == nil || p.known.task.Object.Rules.Exemptions.Exempts("", path) {
			return nil, false
		}
		alias = path
		return managedFields, true
	})
	if err != nil {
		return nil, fmt.Errorf("take the second name of a field that the manifest has dropped: %w", err)
	}
	written, err := p.apply(ctx, p.known.task.Why, live)
	if alias == nil || !apierrors.IsInvalid(err) {
		return written, err
	}
	_, released := p.editOwn(ctx, live, func(live *unstructured.Unstructured) ([]any, bool) {
		return ownership.WithoutField(live, p.known.settings.Claimant.Manager, alias)
	})
	if released != nil {
		err = errors.Join(err, released)
	}
	return nil, err
}
