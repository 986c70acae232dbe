package cluster

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of a Secret with a kubeconfig. Each holds patterns, separated by commas, where * matches any characters. Without
// the annotation everything is allowed; an empty one allows nothing.
const (
	// AllowedVidraResources limits which VidraResources may use the kubeconfig, by name.
	AllowedVidraResources = "vidraresource.infrahub.operators.com/allowed-vidraresources"
	// AllowedNamespaces limits the namespaces of the remote cluster: spec.destination.namespace, and the namespaces of all
	// objects. Objects without a namespace are refused, except Namespaces with an allowed name. Without patterns, each
	// namespace has watches of its own.
	AllowedNamespaces = "vidraresource.infrahub.operators.com/allowed-namespaces"
)

// NamespacesFlag is the flag of the operator that limits the namespaces of the local cluster.
const NamespacesFlag = "namespaces"

// Scope is the part of a cluster that Vidra may use: for a remote one, the permitted uses of its kubeconfig. The zero value
// allows everything.
type Scope struct {
	// secret is the namespace/name of the Secret with the kubeconfig; empty for the local cluster.
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

// LocalScope returns the scope of the local cluster for the names in --namespaces. Without names it allows everything. The
// error quotes the invalid name.
func LocalScope(names ...string) (Scope, error) {
	scope := Scope{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return Scope{}, fmt.Errorf("%q is not the name of a namespace: %s", name, strings.Join(problems, "; "))
		}
		if !slices.Contains(scope.namespaces, name) {
			scope.namespaces = append(scope.namespaces, name)
		}
	}
	return scope, nil
}

// IsLocal reports whether the scope limits the cluster that Vidra runs in.
func (s Scope) IsLocal() bool { return s.secret == "" && s.namespaces != nil }

// patternsIn returns the patterns of an annotation; nil if the annotation is missing.
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

// Same reports whether two scopes allow the same.
func (s Scope) Same(other Scope) bool {
	equal := func(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
	return equal(s.vidraResources, other.vidraResources) && equal(s.namespaces, other.namespaces)
}

// VidraResource refuses the use of the kubeconfig by a VidraResource with this name; nil if it is allowed.
func (s Scope) VidraResource(name string) error {
	if allows(s.vidraResources, name) {
		return nil
	}
	return fmt.Errorf("the kubeconfig in Secret %s is not for this VidraResource: the annotation %s of the Secret must allow its name",
		s.secret, AllowedVidraResources)
}

// LimitsNamespaces reports whether Namespace refuses some.
func (s Scope) LimitsNamespaces() bool { return s.namespaces != nil }

// NamesNamespaces reports whether the scope names each namespace that it allows. It is false with
// patterns: an author could then choose any number of namespaces.
func (s Scope) NamesNamespaces() bool {
	return s.namespaces != nil && !slices.ContainsFunc(s.namespaces, func(name string) bool { return strings.ContainsAny(name, `*?[\`) })
}

// Namespace refuses all work in a namespace of the cluster; nil if it is allowed. The empty
// namespace stands for objects without one.
func (s Scope) Namespace(namespace string) error {
	switch {
	case s.namespaces == nil || namespace != "" && allows(s.namespaces, namespace):
		return nil
	case s.IsLocal() && namespace == "":
		return fmt.Errorf("this Vidra manages no objects without a namespace, because it runs with --%s=%s: remove the object from the manifest, "+
			"or have a Vidra without the flag manage it", NamespacesFlag, strings.Join(s.namespaces, ","))
	case s.IsLocal():
		return fmt.Errorf("this Vidra does nothing in the namespace %s, because it runs with --%s=%s: use one of these namespaces, "+
			"or add %s to the flag and grant the operator its rights there", namespace, NamespacesFlag, strings.Join(s.namespaces, ","), namespace)
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
