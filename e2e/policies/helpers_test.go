package policies

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// alice and bob are administrators who edit objects.
	alice, bob = "alice@example.com", "bob@example.com"
	// robot is an administrator whom the overlay exempts.
	robot = "robot@example.com"
	// owner is the VidraResource of the objects that the tests share, and space their namespace.
	owner, space = "shop", "policies"
)

// exemption is the patch by which docs/policies.md exempts a user.
const exemption = `
- target: {kind: (Validating|Mutating)AdmissionPolicy, name: vidra-(warn.*|stamp|deny)}
  patch: |
    - op: replace
      path: /spec/variables/0/expression
      value: "['` + robot + `']"
`

// overlay renders config/default with policies, as a user does.
func overlay(policies ...string) ([]*unstructured.Unstructured, error) {
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vidra-policies-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	folder, err := filepath.Rel(dir, filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	text := "resources: [" + folder + "/default]\ncomponents:\n"
	for _, policy := range policies {
		text += "- " + folder + "/policies/" + policy + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text+"patches:"+exemption), 0o600); err != nil {
		return nil, err
	}
	return testenv.Render(dir)
}

// stamps reports whether the API server serves MutatingAdmissionPolicies.
func stamps() bool { return testenv.AtLeast(36) }

// served returns the objects of a kind that the API server serves.
func served(objs []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objs), func(obj *unstructured.Unstructured) bool {
		return strings.HasPrefix(obj.GetKind(), "Mutating") && !stamps()
	})
}

// warnings are those that a client got.
type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name, text, is := strings.Cut(text, ": "); is && strings.Contains(name, "'vidra-warn") {
		w.all = append(w.all, text)
	}
}

// users are the configurations of users: a certificate takes time.
var users sync.Map

// as returns a client of an administrator of a name, and the warnings that it gets.
func as(t *testing.T, user string) (dynamic.Interface, *warnings) {
	t.Helper()
	groups := []string{"system:masters"}
	if user == stranger {
		groups = nil
	}
	cfg, known := users.Load(user)
	if !known {
		made, err := env.UserConfig(user, groups...)
		require.NoError(t, err)
		cfg, _ = users.LoadOrStore(user, made)
	}
	mine, got := rest.CopyConfig(cfg.(*rest.Config)), &warnings{}
	mine.WarningHandler = got
	d, err := dynamic.NewForConfig(mine)
	require.NoError(t, err)
	return d, got
}

// stranger is a user without rights.
const stranger = "stranger@example.com"

// The resources of the tests.
var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	widgets      = schema.GroupVersionResource{Group: "policies.example.com", Version: "v1", Resource: "widgets"}
)

// makeKind installs the kind Widget, with status and scale.
func makeKind(ctx context.Context) error {
	crd := &unstructured.Unstructured{}
	if err := crd.UnmarshalJSON([]byte(`{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.policies.example.com"},
  "spec": {"group": "policies.example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
    "versions": [{"name": "v1", "served": true, "storage": true,
      "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
      "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}`)); err != nil {
		return err
	}
	return testenv.Apply(ctx, env.Config, []*unstructured.Unstructured{crd})
}

// workload is a Deployment or StatefulSet without Pods; spec is added to its spec.
func workload(kind, name, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: %s}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template: {metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: web, image: web:1}]}}
%[3]s`, kind, name, spec)
}
