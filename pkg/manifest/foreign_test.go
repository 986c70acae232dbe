package manifest

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilesOfOtherTools reads files that users paste as a manifest.
func TestFilesOfOtherTools(t *testing.T) {
	const noKind = `has no "kind"`
	cases := map[string]struct{ reason, text, want string }{
		"kustomization":         {"with its type", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n", "kubectl kustomize"},
		"kustomization untyped": {"the type is optional", "resources:\n- deployment.yaml\nnamePrefix: dev-\n", "kubectl kustomize"},
		"values":                {"of a chart", "replicaCount: 2\nimage: {repository: web, tag: v1}\n", "helm template"},
		"values with resources": {"which a kustomization has as a list", "resources: {limits: {cpu: 1}}\n", "helm template"},
		"chart":                 {"its description", "apiVersion: v2\nname: web\nversion: 0.1.0\n", "Chart.yaml"},
		"compose":               {"services with images", "version: '3'\nservices:\n  web: {image: nginx}\n", "Docker Compose"},
		"patch":                 {"a list of operations", "- op: replace\n  path: /spec/replicas\n  value: 3\n", "JSON patch"},
		"patch in JSON":         {"in the other syntax", `[{"op": "remove", "path": "/a"}]`, "JSON patch"},
		"kubeconfig":            {"with credentials", "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\n", "is a kubeconfig"},
		"kind":                  {"the configuration of a tool", "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: []\n", "configuration file of a tool"},
		"workflow":              {"of a CI system", "name: build\non: push\njobs: {build: {}}\n", "GitHub Actions"},
		"SOPS":                  {"encrypted values are applied by no one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 'ENC[AES256_GCM,data:x]'}\nsops: {mac: x, version: 3.9.0}\n", "is encrypted with SOPS"},
		"SOPS in a Secret":      {"a file that kustomize put into a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: " + base64.StdEncoding.EncodeToString([]byte("k=ENC[AES256_GCM,data:x,tag:y]")) + "}\n", "is encrypted with SOPS"},
		"object":                {"an ordinary mistake keeps its message", "apiVersion: v1\nmetadata: {name: a}\n", noKind},
		"list":                  {"another list is no patch", "- a\n- b\n", "must be an object"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tt.text, Options{})
			require.ErrorContains(t, err, tt.want, tt.reason)
		})
	}
}
