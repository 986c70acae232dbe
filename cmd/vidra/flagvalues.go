package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vidra-operator/vidra/pkg/events"
)

// eventReasons are the reasons that Vidra's Events have.
func eventReasons() []string {
	var reasons []string
	for _, entry := range events.Catalogue() {
		reasons = append(reasons, entry.Reason)
	}
	return slices.Sorted(slices.Values(reasons))
}

// eventTypes are the types that Events have.
var eventTypes = []string{corev1.EventTypeNormal, corev1.EventTypeWarning}

// splitFor takes KIND[.GROUP]/NAME apart.
func splitFor(text string) (kind, name string, err error) {
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("--for %q: %s", text, wantObject)
	}
	return kind, name, nil
}

// oneOf is the allowed value that a flag names, in any case.
func oneOf(flag, value string, allowed []string) (string, error) {
	for _, a := range allowed {
		if strings.EqualFold(a, value) {
			return a, nil
		}
	}
	last := len(allowed) - 1
	return "", fmt.Errorf("--%s %q: want %s or %s", flag, value, strings.Join(allowed[:last], ", "), allowed[last])
}

// validateNamespace checks the value of a flag that names a namespace.
func validateNamespace(flag, namespace string) error {
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return fmt.Errorf("--%s %q: want the name of a namespace: %s", flag, namespace, nameRule(problems))
	}
	return nil
}

// nameRule is the rule of an invalid name, without the example and the regular expression that follow it.
func nameRule(problems []string) string {
	rule, _, _ := strings.Cut(problems[0], " (e.g. ")
	return rule
}
