package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// Key identifies an object that spec.manifestFrom names.
type Key struct{ Kind, Namespace, Name string }

// KeyOf returns the object that holds a part of the manifest of a VidraResource.
func KeyOf(vr *v1alpha1.VidraResource, part v1alpha1.ManifestSource) Key {
	return Key{Kind: part.Kind, Namespace: cmp.Or(part.Namespace, vr.Spec.Destination.Namespace), Name: part.Name}
}

// KeysOf returns the objects that hold the manifest of a VidraResource, and its variables.
func KeysOf(vr *v1alpha1.VidraResource) []Key {
	keys := VariableKeys(vr)
	for _, part := range vr.Spec.ManifestFrom {
		keys = append(keys, KeyOf(vr, part))
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}

// IsArtifact reports whether the objects of a kind hold artifacts.
func IsArtifact(kind string) bool { return kind != ConfigMap && kind != Secret }

// HasArtifacts reports whether the manifest of a VidraResource comes from artifacts.
func HasArtifacts(vr *v1alpha1.VidraResource) bool {
	return slices.ContainsFunc(vr.Spec.ManifestFrom, func(part v1alpha1.ManifestSource) bool { return IsArtifact(part.Kind) })
}

// IsOptional reports whether all entries of spec.manifestFrom that name an object are optional.
func IsOptional(vr *v1alpha1.VidraResource, key Key) bool {
	return !slices.ContainsFunc(PartsOf(vr, key), func(part v1alpha1.ManifestSource) bool { return !part.Optional })
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
	// Fetch reads the content of an object. It returns nil if the object is absent.
	Fetch(ctx context.Context, r Request) (*Content, error)
}

// Kinds are the sources, by the kinds of their objects.
type Kinds map[string]Source

// Serves reports whether the API server serves a kind, as far as is known.
func (k Kinds) Serves(ctx context.Context, kind string) bool {
	_, err := k.Resource(ctx, kind)
	return err == nil
}

// Resource returns the resource of one of the kinds.
func (k Kinds) Resource(ctx context.Context, kind string) (schema.GroupVersionResource, error) {
	if k[kind] == nil {
		return schema.GroupVersionResource{}, unknownKind(kind)
	}
	return k[kind].Resource(ctx)
}

// Fetch reads an object of one of the kinds.
func (k Kinds) Fetch(ctx context.Context, r Request) (*Content, error) {
	if k[r.Key.Kind] == nil {
		_, err := k.Resource(ctx, r.Key.Kind)
		return nil, err
	}
	return k[r.Key.Kind].Fetch(ctx, r)
}

// Latest returns the revision of an object of one of the kinds as the API server has it, empty if the object is absent.
func (k Kinds) Latest(ctx context.Context, client dynamic.Interface, key Key) (string, error) {
	gvr, err := k.Resource(ctx, key.Kind)
	if err != nil {
		return "", err
	}
	is, err := client.Resource(gvr).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if IsAbsent(err) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return k[key.Kind].Revision(is), nil
}

// Requests are the requests of a watch.
type Requests struct {
	List  func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Client is the client of both; Object is an object of the type that they return.
	Client any
	Object runtime.Object
}

// Request asks for the content of an object.
type Request struct {
	// Client has the rights with which the object is read.
	Client dynamic.Interface
	Key    Key
	// Parts are the entries of spec.manifestFrom that name the object.
	Parts []v1alpha1.ManifestSource
	// Namespace is the namespace of the destination.
	Namespace string
	// Kustomize and Variables are how the files of an artifact are built.
	Kustomize *v1alpha1.Kustomize
	Variables Variables
}

// Content is the content of an object.
type Content struct {
	// Revision is the read revision, as Source.Revision returns it.
	Revision string
	// Shown is the revision for users, and Digest identifies its content; empty where an object has no revisions.
	Shown, Digest string
	// Parts are the texts of each entry of Request.Parts; nil where the object lacks the entry.
	Parts [][]Text
}

// Text is a text with objects.
type Text struct {
	// Label names the text within its object, for messages.
	Label string
	Text  string
	// File is the path of the file in its artifact; empty for other objects.
	File string
	// Origin is the place of the text in the file; nil if the text is the file.
	Origin *Origin
	// Sensitive reports that the text has values of a Secret.
	Sensitive bool
}

// Origin is the place of an object in a file.
type Origin struct {
	Text     string
	Position manifest.Position
}

// Variables are the values that are substituted in the files of an artifact.
type Variables struct {
	Values map[string]string
	// Secret are the names of those that come from Secrets.
	Secret []string
}

// SecretIn reports whether a text may use one of the variables that come from Secrets.
func (v Variables) SecretIn(text string) bool {
	return slices.ContainsFunc(v.Secret, func(name string) bool {
		return strings.Contains(text, "${"+name) || strings.Contains(text, "${#"+name) // its length
	})
}

// Error is the error of a read of an object.
type Error struct {
	// Reason is the reason of the condition Ready.
	Reason string
	// Awaited reports that a change of the object is awaited: reading it again before has the same result.
	Awaited bool
	// Revision is the unreadable revision, as Source.Revision returns it; empty if it is unknown.
	Revision string
	// NotServed is the kind of the object if it is unserved.
	NotServed schema.GroupKind

	err error
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error without its reason.
func (e *Error) Unwrap() error { return e.err }

// Invalid returns the error of a content that is unreadable until it is changed.
func Invalid(err error) error {
	return &Error{Reason: v1alpha1.ReasonManifestInvalid, Awaited: true, err: err}
}

// Absent returns the error of an object that has no content yet.
func Absent(err error) error {
	return &Error{Reason: v1alpha1.ReasonSourceUnavailable, Awaited: true, err: err}
}

// unknownKind returns the error of a kind without a source: a command may read ConfigMaps and Secrets alone, and a later version of Vidra other kinds.
// Its objects may have content.
func unknownKind(kind string) error {
	return Invalid(fmt.Errorf("the kind %s cannot be read here: this command, or this version of Vidra, does not know it", kind))
}

// IsEmpty reports whether an error is the absence of content: of an object without content yet, or whose kind is unserved.
func IsEmpty(err error) bool {
	of, is := errors.AsType[*Error](err)
	return is && of.Reason == v1alpha1.ReasonSourceUnavailable && (of.Awaited || !of.NotServed.Empty())
}

// NotServed returns the error of an object whose kind is unserved.
func NotServed(kind schema.GroupKind) error {
	return &Error{Reason: v1alpha1.ReasonSourceUnavailable, NotServed: kind, err: fmt.Errorf(
		"the kind %s is not served here: install it, for example with Flux, or correct the kind", kind)}
}

// At returns an error with the revision that it is about.
func At(revision string, err error) error {
	at := &Error{Reason: v1alpha1.ReasonSourceUnavailable, err: err}
	if of, is := errors.AsType[*Error](err); is {
		at.Reason, at.Awaited, at.NotServed = of.Reason, of.Awaited, of.NotServed
	}
	at.Revision = revision
	return at
}
