package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// releasable returns the object whose ignored fields are released before an apply of live, or nil.
func (p *procedure) releasable(live *unstructured.Unstructured) *unstructured.Unstructured {
	switch {
	case p.known.task.Object.Ignored == nil:
		return nil
	case live == nil:
		return p.known.base
	}
	return live
}

// release releases the ignored fields of an object that was applied whole.
func (p *procedure) release(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, _, err := p.releaseFields(ctx, live)
	return live, err
}

// releaseFields releases the fields of ours that ignore rules exclude in the object as it is. It
// returns the object, and the configuration without them.
func (p *procedure) releaseFields(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, []byte, error) {
	whole, err := p.api.tryApply(ctx, p.known.task.Object.Key.Name, p.known.task.Object.Body)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	live, err = editManagedFields(ctx, p.api, live, func(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
		full, reduced, err := p.known.task.Object.Ignored.Without(p.known.task.Object.Body, live, whole, p.known.settings.Claimant.Signature())
		if err != nil {
			return nil, false, err
		}
		if body, err = json.Marshal(reduced); err != nil {
			return nil, false, err
		}
		managedFields, changed = ownership.ReleaseFields(live, p.known.settings.Claimant.Manager, full, reduced)
		return managedFields, changed, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("release ignored fields: %w", err)
	}
	return live, body, nil
}

// withoutBindings returns managedFields without the bindings of an object that the manifest has and that are left to their controllers: it was
// applied with them before. Without them, the apply would remove them.
func (p *procedure) withoutBindings(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
	bound := p.known.task.Object.Bound(live)
	if bound == nil {
		return nil, false, nil
	}
	managedFields, changed = ownership.ReleaseFields(live, p.known.settings.Claimant.Manager, bound, p.known.task.Object.Unstructured().Object)
	return managedFields, changed, nil
}

// editOwn edits managedFields of the object before its apply: of live, or where it is unknown, of the object that was read for that. It returns
// live as it is then. See editManagedFields.
func (p *procedure) editOwn(ctx context.Context, live *unstructured.Unstructured,
	change func(live *unstructured.Unstructured) (managedFields any, changed bool, err error),
) (*unstructured.Unstructured, error) {
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
