package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestManyFaultsOfAnObject has the API server refuse thousands of environment variables of one object, each with a cause of its own: the
// status names the first ones, and a corrected manifest is applied.
func TestManyFaultsOfAnObject(t *testing.T) {
	t.Parallel()
	const variables = 4_000
	ns := newNamespace(t)
	deployment := func(name string) string {
		var b strings.Builder
		b.WriteString("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: web}}\n" +
			"  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: web\n        image: web\n        env:\n")
		for i := range variables {
			fmt.Fprintf(&b, "        - {name: %q, value: value-of-%d}\n", fmt.Sprintf(name, i), i)
		}
		return b.String()
	}
	newVidraResource(t, ns, deployment("=%d"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "spec.template.spec.containers[0].env[0].name: Invalid value")
	setManifest(t, ns, deployment("A%d"))
	awaitReady(t, ns)
}
