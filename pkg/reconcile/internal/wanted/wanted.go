package wanted

import (
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// ConfigMap is a ConfigMap of a manifest.
func ConfigMap(name string) *desired.Object {
	return &desired.Object{
		ID: fixture.IDOf(fixture.ConfigMapKind, "shop", name), GVK: fixture.ConfigMapKind,
		Key: trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "shop", Name: name}, Body: []byte(name),
	}
}
