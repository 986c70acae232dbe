package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// release releases the ignored fields of an object that was applied whole.
func (p *procedure) release(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, _, err := p.releaseFields(ctx, live)
	return live, err
}

// releaseFields releases the fields of ours that ignore rules exclude in the object as it is. It
// returns the object, and the configuration without them. See editOwn.
func (p *procedure) releaseFields(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, []byte, error) {
	whole, err := p.api.tryApply(ctx, p.known.task.Object.Key.Name, p.known.task.Object.Body)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	var unreduced error
	live, err = p.editOwn(ctx, live, func(live *unstructured.Unstructured) (managedFields []any, changed bool) {
		var full, reduced map[string]any
		if full, reduced, unreduced = p.known.task.Object.Rules.Exemptions.Without(p.known.task.Object.Body, live, whole, p.known.settings.Claimant.Signature()); unreduced != nil {
			return nil, false
		}
		if body, unreduced = json.Marshal(reduced); unreduced != nil {
			return nil, false
		}
		return ownership.ReleaseFields(live, p.known.settings.Claimant.Manager, full, reduced)
	})
	if err = cmp.Or(err, unreduced); err != nil {
		return nil, nil, fmt.Errorf("release ignored fields: %w", err)
	}
	return live, body, nil
}

// withoutBindings returns managedFields without the bindings of an object that the manifest has and that are left to their controllers: it was
// applied with them before. Without them, the apply would remove them.
func (p *procedure) withoutBindings(live *unstructured.Unstructured) (managedFields []any, changed bool) {
	bound := p.known.task.Object.Bound(live)
	if bound == nil {
		return nil, false
	}
	return ownership.ReleaseFields(live, p.known.settings.Claimant.Manager, bound, p.known.task.Object.Unstructured().Object)
}

// editOwn edits managedFields of the object before its apply: of live, or where it is unknown, of the object that was read for that. It returns
// live as it is then. See editManagedFields.
func (p *procedure) editOwn(ctx context.Context, live *unstructured.Unstructured, change fieldsEdit) (*unstructured.Unstructured, error) {
	before := cmp.Or(live, p.known.base)
	if before == nil {
		return nil, nil
	}
	after, err := editManagedFields(ctx, p.api, before, change)
	if live == nil {
		p.known.base, after = after, nil
	}
	return after, err
}
