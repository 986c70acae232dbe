package source

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Key identifies an object that spec.manifestFrom names.
type Key struct{ Kind, Namespace, Name string }

// KeyOf returns the object that holds a part of the manifest of a VidraResource.
func KeyOf(vr *v1alpha1.VidraResource, part v1alpha1.ManifestSource) Key {
	key := Key{Kind: part.Kind, Namespace: part.Namespace, Name: part.Name}
	if key.Namespace == "" {
		key.Namespace = vr.Spec.Destination.Namespace
	}
	return key
}

// KeysOf returns the objects that hold the manifest of a VidraResource.
func KeysOf(vr *v1alpha1.VidraResource) []Key {
	var keys []Key
	for _, part := range vr.Spec.ManifestFrom {
		if key := KeyOf(vr, part); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// PartsOf returns the entries of spec.manifestFrom that name an object, in their order.
func PartsOf(vr *v1alpha1.VidraResource, key Key) []v1alpha1.ManifestSource {
	var parts []v1alpha1.ManifestSource
	for _, part := range vr.Spec.ManifestFrom {
		if KeyOf(vr, part) == key {
			parts = append(parts, part)
		}
	}
	return parts
}

// String returns for example "ConfigMap shop/parts".
func (k Key) String() string { return display.Name(k.Kind, k.Namespace, k.Name) }

// Source reads manifests from the objects of one kind. It is safe for concurrent use.
type Source interface {
	// Resource returns the resource of the kind.
	Resource(ctx context.Context) (schema.GroupVersionResource, error)
	// Requests returns the requests that list and watch objects in a namespace, with the rights of Vidra itself.
	Requests(namespace string) Requests
	// Revision returns the revision that an object of these requests has: another one has another content.
	Revision(obj any) string
	// Fetch reads the content of an object. It returns nil if the object does not exist.
	Fetch(ctx context.Context, r Request) (*Content, error)
}

// Kinds are the sources, by the kinds of their objects.
type Kinds map[string]Source

// Requests are the requests of a watch.
type Requests struct {
	List  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Client is the client of both; Object is an object of the type that they return.
	Client any
	Object runtime.Object
}

// Request is what is read of an object.
type Request struct {
	// Client has the rights with which the object is read.
	Client dynamic.Interface
	Key    Key
	// Parts are the entries of spec.manifestFrom that name the object.
	Parts []v1alpha1.ManifestSource
}

// Content is what an object holds.
type Content struct {
	// Revision is the one that was read, as Source.Revision returns it.
	Revision string
	// Parts are the texts of each entry of Request.Parts; nil where the object does not have the entry.
	Parts [][]Text
}

// Text is a text with objects.
type Text struct {
	// Label names the text within its object, for messages.
	Label string
	Text  string
}
