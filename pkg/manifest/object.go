package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// serverFields are the fields of metadata that the API server writes and an
// apply must not carry; see [Parse].
var serverFields = []string{
	"managedFields",
	"resourceVersion",
	"uid",
	"creationTimestamp",
	"deletionTimestamp",
	"deletionGracePeriodSeconds",
	"generation",
	"selfLink",
}

// object returns the checked object that a node describes.
func (c *converter) object(n *yaml.Node, inherited identity, depth int) (*unstructured.Unstructured, *Error) {
	if n.Kind != yaml.MappingNode {
		if isJSONPatch(n) {
			return nil, faultf(n.Line, "looks like a JSON patch (RFC 6902), not an object: apply it with kustomize, and use the result")
		}
		return nil, faultf(n.Line, "must be an object, that is a mapping with apiVersion, kind and metadata, not %s", describe(n))
	}
	fields, err := c.mapping(n, depth)
	if err != nil {
		return nil, err
	}
	if fields["apiVersion"] == nil && fields["kind"] == nil && inherited.kind != "" {
		fields["apiVersion"], fields["kind"] = inherited.apiVersion, inherited.kind
	}
	if message := check(fields); message != "" {
		if hint := foreignFormat(fields); hint != "" {
			message = hint
		}
		return nil, faultf(0, "%s", message)
	}
	if isEncrypted(fields, c.encryptedValues) {
		return nil, faultf(n.Line, "%s", encryptedAdvice)
	}
	metadata := fields["metadata"].(map[string]any) // check requires it.
	for _, field := range serverFields {
		delete(metadata, field)
	}
	// Templates write "namespace:" with nothing behind it for "the default one".
	if namespace := metadata["namespace"]; namespace == nil || namespace == "" {
		delete(metadata, "namespace")
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// check returns the fault that keeps an object from being applied, or "".
func check(fields map[string]any) string {
	apiVersion, message := text(fields, "apiVersion")
	if message != "" {
		return message
	}
	if message := checkAPIVersion(apiVersion); message != "" {
		return message
	}
	if _, message := text(fields, "kind"); message != "" {
		return message
	}
	switch metadata := fields["metadata"].(type) {
	case nil:
		return `has no "metadata": give it one with a name`
	case map[string]any:
		return checkMetadata(metadata)
	default:
		return `"metadata" must be a mapping`
	}
}

// checkAPIVersion returns the fault of an apiVersion, or "". Group and version follow the rules that the API server has for
// CRDs and APIServices.
func checkAPIVersion(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	switch {
	case err != nil,
		strings.Contains(apiVersion, "/") && len(validation.IsDNS1123Subdomain(strings.ToLower(gv.Group))) > 0,
		len(validation.IsDNS1035Label(strings.ToLower(gv.Version))) > 0:
		return `"apiVersion" must be a version such as v1, or a group and a version such as apps/v1`
	}
	return ""
}

// checkMetadata returns the fault of an object's metadata, or "".
func checkMetadata(metadata map[string]any) string {
	if metadata["name"] == nil && metadata["generateName"] != nil {
		return `has "metadata.generateName" but no "metadata.name": an object that is applied again and again needs a name that stays`
	}
	name, message := text(metadata, "name")
	if message != "" {
		return inMetadata(message)
	}
	if reasons := content.IsPathSegmentName(name); len(reasons) > 0 {
		return `"metadata.name" ` + strings.Join(reasons, ", ")
	}
	if namespace := metadata["namespace"]; namespace != nil && namespace != "" {
		namespace, message := text(metadata, "namespace")
		if message != "" {
			return inMetadata(message)
		}
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return `"metadata.namespace" is not a valid name of a namespace: lower case letters, digits and '-', at most 63`
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if message := checkStrings(metadata, field); message != "" {
			return message
		}
	}
	return ""
}

// inMetadata makes a message about a field of metadata name its whole path.
func inMetadata(message string) string {
	return strings.Replace(message, `"`, `"metadata.`, 1)
}

// text returns a field that must hold text, or its fault.
func text(fields map[string]any, name string) (value, message string) {
	switch v := fields[name].(type) {
	case nil:
		return "", fmt.Sprintf("has no %q", name)
	case string:
		switch {
		case v == "":
			return "", fmt.Sprintf("%q is empty", name)
		case strings.Contains(v, "{{"), strings.Contains(v, "${"):
			return "", fmt.Sprintf("%q holds a template that was not rendered: render the manifest first", name)
		}
		return v, ""
	case map[string]any, []any:
		return "", fmt.Sprintf("%q must be text, not a mapping or a list", name)
	}
	return "", fmt.Sprintf("%q must be text: put it in quotes", name)
}

// checkStrings returns which label or annotation is no text, or "". The API server
// refuses these too, with less detail; and the accessors of unstructured objects
// take a mapping with one of them for empty.
func checkStrings(metadata map[string]any, field string) string {
	values, ok := metadata[field].(map[string]any)
	if !ok && metadata[field] != nil {
		return fmt.Sprintf(`"metadata.%s" must be a mapping`, field)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, ok := values[key].(string); !ok {
			return fmt.Sprintf(`"metadata.%s" has a value that is not text, of the key %s: put the value in quotes`, field, quote(key))
		}
	}
	return ""
}

// objectKey identifies an object: its version is ignored, because the API server serves one object in all of them.
type objectKey struct {
	group, kind, namespace, name string
}

// inventory knows the objects of a manifest, and where each of them stands.
type inventory map[objectKey]Position

// add notes an object, and returns an error if the manifest holds it already.
func (seen inventory) add(obj Object) *Error {
	gvk := obj.GroupVersionKind()
	key := objectKey{gvk.Group, gvk.Kind, obj.GetNamespace(), obj.GetName()}
	if first, twice := seen[key]; twice {
		return &Error{
			Position: obj.Position, GVK: gvk, Namespace: obj.GetNamespace(), Name: obj.GetName(),
			Message: fmt.Sprintf("the manifest holds this object twice, first at %s: remove one", first),
		}
	}
	seen[key] = obj.Position
	return nil
}
