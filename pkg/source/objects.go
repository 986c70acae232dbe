package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The kinds of the core API that hold manifests.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// Objects returns the sources that are ConfigMaps and Secrets. client watches their metadata alone; nil where nothing is watched.
func Objects(client metadata.Interface) Kinds {
	return Kinds{
		ConfigMap: &objects{gvr: corev1.SchemeGroupVersion.WithResource("configmaps"), client: client, kind: ConfigMap},
		Secret:    &objects{gvr: corev1.SchemeGroupVersion.WithResource("secrets"), client: client, kind: Secret},
	}
}

// objects are the ConfigMaps, or the Secrets.
type objects struct {
	gvr    schema.GroupVersionResource
	client metadata.Interface
	kind   string
}

func (o *objects) Resource(context.Context) (schema.GroupVersionResource, error) { return o.gvr, nil }

func (o *objects) Requests(namespace string) Requests {
	resource := o.client.Resource(o.gvr).Namespace(namespace)
	return Requests{
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, opts)
			return list, err
		},
		Watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, opts)
		},
		Client: o.client, Object: &metav1.PartialObjectMetadata{},
	}
}

// Revision returns the resourceVersion.
func (o *objects) Revision(obj any) string {
	if is, err := meta.Accessor(obj); err == nil {
		return is.GetResourceVersion()
	}
	return ""
}

// Fetch reads the values of the keys of r. Other values are dropped: they may be large.
func (o *objects) Fetch(ctx context.Context, r Request) (*Content, error) {
	held, err := r.Client.Resource(o.gvr).Namespace(r.Key.Namespace).Get(ctx, r.Key.Name, metav1.GetOptions{})
	if IsAbsent(err) {
		return nil, nil //nolint:nilnil // its absence is no error
	} else if err != nil {
		return nil, err
	}
	texts, data, err := Values(o.kind, held.Object)
	if err != nil {
		return nil, err
	}
	content := &Content{Revision: held.GetResourceVersion(), Parts: make([][]Text, len(r.Parts))}
	for i, part := range r.Parts {
		if text, found := texts[part.Key]; found {
			content.Parts[i] = []Text{{Label: LabelOf(part), Text: text}}
		} else if text, found := data[part.Key]; found {
			content.Parts[i] = []Text{{Label: LabelOf(part), Text: string(text)}}
		}
	}
	return content, nil
}

// IsAbsent reports whether an error says that an object is absent. A text, for example of a proxy, is no answer of the API server.
func IsAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// LabelOf names an entry of spec.manifestFrom within its object, for messages.
func LabelOf(part v1alpha1.ManifestSource) string {
	if part.Key == "" {
		return "path " + cmp.Or(part.Path, ".")
	}
	return "key " + part.Key
}

// Values returns the values of a ConfigMap or Secret by their keys, those as text and those in bytes. A Secret has text in a file alone.
func Values(kind string, object map[string]any) (texts map[string]string, data map[string][]byte, err error) {
	if kind == Secret {
		secret := &corev1.Secret{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, secret); err != nil {
			return nil, nil, errors.New("it cannot be read as a Secret") // the error may quote it
		}
		return secret.StringData, secret.Data, nil
	}
	cm := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, cm); err != nil {
		return nil, nil, fmt.Errorf("it cannot be read as a ConfigMap: %w", err)
	}
	return cm.Data, cm.BinaryData, nil
}
