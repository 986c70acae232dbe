package manifest

import (
	"encoding/base64"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file recognizes files of other tools that users paste as a manifest. It does not decide whether a manifest is valid: it only makes
// errors more useful.

// foreignFormats are the formats, each with the advice for it. The first one that fits counts.
var foreignFormats = []struct {
	// fits reports whether the fields of a document have the format.
	fits   func(fields map[string]any) bool
	advice string
}{
	{isKustomization, "is a kustomization, not an object of the cluster: use the output of `kubectl kustomize FOLDER`"},
	{isChart, "is the Chart.yaml of a Helm chart, not an object: use the output of `helm template NAME CHART`"},
	{isCompose, "looks like a file of Docker Compose, not an object: convert it to objects of Kubernetes, for example with kompose"},
	{isKubeconfig, "is a kubeconfig, not an object: remove it, and replace the credentials in it if others could read them"},
	{isToolConfiguration, "is a configuration file of a tool, not an object of the cluster: remove it from the manifest"},
	{isWorkflow, "looks like a workflow of GitHub Actions, not an object: remove it from the manifest"},
	{isValues, "looks like the values of a Helm chart, not an object: use the output of `helm template NAME CHART -f VALUES`"},
}

// foreignFormat returns the advice for a document of another tool; empty if it is unknown.
func foreignFormat(fields map[string]any) string {
	for _, format := range foreignFormats {
		if format.fits(fields) {
			return format.advice
		}
	}
	return ""
}

func has(fields map[string]any, names ...string) bool {
	for _, name := range names {
		if _, found := fields[name]; found {
			return true
		}
	}
	return false
}

func groupOf(fields map[string]any) string {
	apiVersion, _ := fields["apiVersion"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

func isKustomization(fields map[string]any) bool {
	if groupOf(fields) == "kustomize.config.k8s.io" {
		return true
	}
	// apiVersion and kind are optional in a kustomization.yaml.
	return !has(fields, "apiVersion", "kind") && has(fields, "resources", "bases", "components", "generators", "transformers", "configMapGenerator",
		"secretGenerator", "patches", "patchesStrategicMerge", "patchesJson6902", "namePrefix", "nameSuffix", "helmCharts", "commonLabels") && isAbsentOrList(fields["resources"])
}

// isAbsentOrList reports whether a value is a list, or is missing.
func isAbsentOrList(value any) bool {
	_, is := value.([]any)
	return is || value == nil
}

func isChart(fields map[string]any) bool {
	version, _ := fields["apiVersion"].(string)
	return (version == "v1" || version == "v2") && !has(fields, "kind", "metadata") && has(fields, "name") && has(fields, "version")
}

func isCompose(fields map[string]any) bool {
	services, is := fields["services"].(map[string]any)
	if !is || has(fields, "apiVersion", "kind") {
		return false
	}
	for _, service := range services {
		if s, is := service.(map[string]any); !is || !has(s, "image", "build", "extends") {
			return false
		}
	}
	return len(services) > 0
}

func isKubeconfig(fields map[string]any) bool {
	return fields["kind"] == "Config" && has(fields, "clusters") && has(fields, "users", "contexts")
}

// toolGroups are the API groups of configuration files that no API server serves.
var toolGroups = map[string]bool{
	"kind.x-k8s.io": true, "skaffold": true, "kubeadm.k8s.io": true, "kubelet.config.k8s.io": true, "kubeproxy.config.k8s.io": true,
	"apiserver.config.k8s.io": true, "audit.k8s.io": true, "eksctl.io": true, "k3d.io": true, "helmfile": true, "client.authentication.k8s.io": true,
}

func isToolConfiguration(fields map[string]any) bool {
	return toolGroups[groupOf(fields)]
}

func isWorkflow(fields map[string]any) bool {
	return !has(fields, "apiVersion", "kind") && has(fields, "jobs") && has(fields, "on", "true", "name")
}

// isValues reports whether a document without a type has the names that most charts use in their values.
func isValues(fields map[string]any) bool {
	return !has(fields, "apiVersion", "kind", "metadata") && has(fields, "image", "replicaCount", "service", "ingress", "resources", "serviceAccount", "global",
		"nameOverride", "fullnameOverride", "podAnnotations", "nodeSelector", "tolerations", "affinity", "autoscaling", "persistence")
}

// isJSONPatch reports whether a node is a list of operations of a JSON patch.
func isJSONPatch(n *yaml.Node) bool {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return false
	}
	for _, operation := range n.Content {
		if childText(operation, "op") == "" || childText(operation, "path") == "" {
			return false
		}
	}
	return true
}

// encryptedAdvice is the error of an object that SOPS encrypted.
const encryptedAdvice = "is encrypted with SOPS, and Vidra decrypts nothing: decrypt it before, in CI or by the producer of the artifact, or keep the value in " +
	"a Secret that another controller makes, such as External Secrets or Sealed Secrets"

// encryptedValue is the prefix of an encrypted value, and encryptedFile is found in each file that SOPS encrypted.
const encryptedValue = "ENC[AES256_GCM,data:"

var encryptedFile = regexp.MustCompile(`mac"?\s*[:=]\s*["']?ENC\[AES256_GCM,data:`)

// isEncrypted reports whether SOPS (https://getsops.io) encrypted an object. With values, it also does for a Secret or ConfigMap that holds an
// encrypted value, or an encrypted file, as a generator of kustomize makes it.
func isEncrypted(fields map[string]any, values bool) bool {
	if sops, is := fields["sops"].(map[string]any); is && has(sops, "mac", "lastmodified", "encrypted_regex") {
		return true
	}
	if kind := fields["kind"]; !values || kind != "Secret" && kind != "ConfigMap" {
		return false
	}
	for _, name := range []string{"data", "stringData", "binaryData"} {
		held, _ := fields[name].(map[string]any)
		for _, value := range held {
			text, _ := value.(string)
			if plain, err := base64.StdEncoding.DecodeString(text); err == nil && (name == "binaryData" || name == "data" && fields["kind"] == "Secret") {
				text = string(plain)
			}
			if text = strings.TrimSpace(text); strings.HasPrefix(text, encryptedValue) && strings.HasSuffix(text, "]") || encryptedFile.MatchString(text) {
				return true
			}
		}
	}
	return false
}
