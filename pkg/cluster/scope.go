package cluster

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Annotations of a Secret with a kubeconfig. Each holds patterns, separated by commas, in
// which * matches any characters. Without the annotation everything is allowed; an empty one
// allows nothing.
const (
	// AllowedVidraResources limits which VidraResources may use the kubeconfig, by name.
	AllowedVidraResources = "vidraresource.infrahub.operators.com/allowed-vidraresources"
	// AllowedNamespaces limits the namespaces of the remote cluster: that of
	// spec.destination, and those of all objects. Objects without a namespace are refused,
	// except Namespaces with an allowed name.
	AllowedNamespaces = "vidraresource.infrahub.operators.com/allowed-namespaces"
)

// Scope is what a kubeconfig may be used for. The zero value allows everything.
type Scope struct {
	// secret is the namespace/name of the Secret with the kubeconfig.
	secret string
	// vidraResources and namespaces are the patterns; nil allows everything.
	vidraResources, namespaces []string
}

// scopeOf reads the annotations of a Secret.
func scopeOf(secret string, annotations map[string]string) Scope {
	return Scope{
		secret:         secret,
		vidraResources: patternsIn(annotations, AllowedVidraResources),
		namespaces:     patternsIn(annotations, AllowedNamespaces),
	}
}

// patternsIn returns the patterns of an annotation; nil if there is no annotation.
func patternsIn(annotations map[string]string, key string) []string {
	text, found := annotations[key]
	if !found {
		return nil
	}
	patterns := []string{}
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern != "" {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// same reports whether two scopes allow the same.
func (s Scope) same(other Scope) bool {
	equal := func(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
	return equal(s.vidraResources, other.vidraResources) && equal(s.namespaces, other.namespaces)
}

// VidraResource returns why a VidraResource with this name may not use the kubeconfig;
// nil if it may.
func (s Scope) VidraResource(name string) error {
	if allows(s.vidraResources, name) {
		return nil
	}
	return fmt.Errorf("the kubeconfig in Secret %s is not for this VidraResource: the annotation %s of the Secret must allow its name",
		s.secret, AllowedVidraResources)
}

// LimitsNamespaces reports whether Namespace refuses some.
func (s Scope) LimitsNamespaces() bool { return s.namespaces != nil }

// Namespace returns why nothing may be applied to a namespace of the remote cluster; nil if
// it may. The empty namespace stands for objects without one.
func (s Scope) Namespace(namespace string) error {
	switch {
	case s.namespaces == nil || namespace != "" && allows(s.namespaces, namespace):
		return nil
	case namespace == "":
		return fmt.Errorf("the kubeconfig in Secret %s is not for objects without a namespace: remove the object from the manifest, or the annotation %s from the Secret",
			s.secret, AllowedNamespaces)
	}
	return fmt.Errorf("the kubeconfig in Secret %s is not for the namespace %s: the annotation %s of the Secret must allow it",
		s.secret, namespace, AllowedNamespaces)
}

// allows reports whether one of the patterns matches a name.
func allows(patterns []string, name string) bool {
	return patterns == nil || slices.ContainsFunc(patterns, func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return err == nil && matches // an invalid pattern allows nothing
	})
}
