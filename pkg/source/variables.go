package source

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// VariableKeys returns the objects that hold the variables of a VidraResource, in their order.
func VariableKeys(vr *v1alpha1.VidraResource) []Key {
	if vr.Spec.Kustomize == nil {
		return nil
	}
	var keys []Key
	for _, from := range vr.Spec.Kustomize.SubstituteFrom {
		keys = append(keys, Key{Kind: from.Kind, Namespace: vr.Spec.Destination.Namespace, Name: from.Name})
	}
	return keys
}

// ReadVariables reads the variables of a VidraResource with a client. revisions are the revisions of the objects that hold them, empty for a
// missing one. failed is the unreadable object.
func ReadVariables(ctx context.Context, client dynamic.Interface, vr *v1alpha1.VidraResource) (vars Variables, revisions map[Key]string, failed Key, err error) {
	vars.Values, revisions = map[string]string{}, map[Key]string{}
	if vr.Spec.Kustomize == nil {
		return vars, revisions, failed, nil
	}
	secret := map[string]bool{}
	for i, key := range VariableKeys(vr) {
		values, revision, err := readAll(ctx, client, key)
		revisions[key] = revision
		switch optional := vr.Spec.Kustomize.SubstituteFrom[i].Optional; {
		case err != nil:
			return vars, revisions, key, fmt.Errorf("%s (spec.kustomize.substituteFrom[%d]): %w", key, i, err)
		case revision == "" && !optional:
			return vars, revisions, key, Absent(fmt.Errorf("%s (spec.kustomize.substituteFrom[%d]) does not exist: create it, or set optional", key, i))
		}
		for name, value := range values {
			vars.Values[name], secret[name] = value, key.Kind == Secret
		}
	}
	for name, value := range vr.Spec.Kustomize.Substitute {
		vars.Values[name], secret[name] = value, false
	}
	maps.DeleteFunc(secret, func(_ string, is bool) bool { return !is })
	vars.Secret = slices.Sorted(maps.Keys(secret))
	return vars, revisions, failed, nil
}

// readAll reads all values of a ConfigMap or Secret. The revision is empty if it is absent.
func readAll(ctx context.Context, client dynamic.Interface, key Key) (values map[string]string, revision string, err error) {
	resource := map[string]string{ConfigMap: "configmaps", Secret: "secrets"}[key.Kind]
	if resource == "" {
		return nil, "", unknownKind(key.Kind)
	}
	held, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if IsAbsent(err) {
		return nil, "", nil
	} else if err != nil {
		return nil, "", err
	}
	values, data, err := Values(key.Kind, held.Object)
	if err != nil {
		return nil, "", err
	}
	if key.Kind == Secret {
		values = map[string]string{}
		for name, value := range data {
			values[name] = string(value)
		}
	}
	return values, held.GetResourceVersion(), nil
}
