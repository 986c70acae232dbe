package render

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// RuleYAML returns ignore rules as they are pasted into a VidraResource: those that it has, and those that are added. It escapes
// nothing: the lines of a text are escaped one by one.
func RuleYAML(rules []v1alpha1.IgnoreRule, added ...v1alpha1.IgnoreRule) (string, error) {
	all := append(slices.Clone(rules), added...)
	document, err := json.Marshal(map[string]any{"spec": map[string]any{"drift": map[string]any{"ignore": all}}})
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(document)
	return string(text), err
}
