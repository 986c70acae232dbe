package manifest

import (
	"encoding/base64"
	"strconv"
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

// TestEncryptedValues: values that SOPS encrypted are an error in artifacts alone, and only if they are sure to be that.
func TestEncryptedValues(t *testing.T) {
	t.Parallel()
	const value, file = "ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]", "password: ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]\nsops:\n  mac: ENC[AES256_GCM,data:x,iv:y,tag:z,type:str]\n"
	object := func(kind, field, value string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: a}\n" + field + ": {a: " + strconv.Quote(value) + "}\n"
	}
	encoded := base64.StdEncoding.EncodeToString
	for name, tt := range map[string]struct {
		reason, text string
		want         bool
	}{
		"file in a Secret":       {"A generator makes it.", object("Secret", "data", encoded([]byte(file))), true},
		"value in a Secret":      {"A generator makes it of an .env file.", object("Secret", "data", encoded([]byte(value))), true},
		"plain text of a Secret": {"The other field.", object("Secret", "stringData", file), true},
		"file in a ConfigMap":    {"Another generator.", object("ConfigMap", "data", file), true},
		"value in a ConfigMap":   {"Of an .env file.", object("ConfigMap", "data", value), true},
		"binary":                 {"The other field.", object("ConfigMap", "binaryData", encoded([]byte(file))), true},
		"dotenv":                 {"Another format.", object("ConfigMap", "data", "a="+value+"\nsops_mac="+value+"\n"), true},
		"JSON":                   {"Another format.", object("ConfigMap", "data", `{"a": "`+value+`", "sops": {"mac": "`+value+`"}}`), true},
		"mention":                {"A text about SOPS is none.", object("ConfigMap", "data", "values such as "+value+" are encrypted"), false},
		"another kind":           {"Who reads it may decrypt it.", "apiVersion: example.com/v1\nkind: SopsSecret\nmetadata: {name: a}\ndata: {a: '" + value + "'}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tt.text, Options{})
			require.NoError(t, err, "outside of artifacts")
			_, err = Parse(tt.text, Options{Artifact: true})
			if !tt.want {
				require.NoError(t, err, tt.reason)
				return
			}
			require.ErrorContains(t, err, "is encrypted with SOPS", tt.reason)
		})
	}
}
