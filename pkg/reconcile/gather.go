package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// maxManifest is how many bytes all parts of a manifest have at most.
	maxManifest = 8 << 20
	// maxObject is how many bytes a VidraResource has at most, with its status. etcd
	// takes requests of 1.5 MiB by default, in which the API server wraps it.
	maxObject = 1_400_000
)

// part is a part of a manifest.
type part struct {
	// name says where it comes from, for people; empty if there is only one.
	name string
	text string
	// secret says that it comes from a Secret, so that no error may quote it.
	secret bool
}

// keyOf is the object that holds a part of the manifest.
func (p *pass) keyOf(source v1alpha1.ManifestSource) sourceKey {
	key := sourceKey{kind: source.Kind, namespace: source.Namespace, name: source.Name}
	if key.namespace == "" {
		key.namespace = p.vr.Spec.Destination.Namespace
	}
	return key
}

// sourcesChanged says whether what spec.manifestFrom names is another one than was
// read last, or may be.
func (p *pass) sourcesChanged() bool {
	for _, source := range p.vr.Spec.ManifestFrom {
		key := p.keyOf(source)
		switch version, known := p.sources.version(key); {
		case known && version != p.session.sources[key], !known && p.resync:
			return true
		}
	}
	return false
}

// gather reads the parts of the manifest, and which versions of its sources they are.
func (p *pass) gather(ctx context.Context) (parts []part, versions map[sourceKey]string, why *failure) {
	from := p.vr.Spec.ManifestFrom
	keys, versions := map[sourceKey]struct{}{}, map[sourceKey]string{}
	p.session.unreadable = nil
	for _, source := range from {
		keys[p.keyOf(source)] = struct{}{}
	}
	// Watched first, so that no change comes between.
	p.sources.sync(p.owner, p.Metadata, keys)
	if len(from) == 0 {
		return []part{{text: p.vr.Spec.Manifest}}, nil, nil
	}
	parts = append(parts, part{name: "spec.manifest", text: p.vr.Spec.Manifest})
	client, user, why := p.clientOf(p.Local)
	if why != nil {
		return nil, nil, why
	}
	reader := subject{cluster: p.Local.Name(), user: user}
	read := map[sourceKey]*unstructured.Unstructured{}
	for i, source := range from {
		key := p.keyOf(source)
		name := fmt.Sprintf("%s %s/%s, key %s (spec.manifestFrom[%d])", key.kind, key.namespace, key.name, source.Key, i)
		unavailable := func(text string) *failure {
			return &failure{v1alpha1.ReasonSourceUnavailable, events.Truncate(name+": "+text, maxMessage)}
		}
		if key.namespace == "" {
			return nil, nil, &failure{v1alpha1.ReasonManifestInvalid, name + ": give it a namespace, or set spec.destination.namespace"}
		}
		if _, known := read[key]; !known {
			held, err := readSource(ctx, client, key)
			if err != nil {
				for _, right := range reader.refused(err, key.gvr(), key.namespace, "get") {
					right.Name = key.name // which is all that a role has to name
					p.session.unreadable = map[access]dynamic.Interface{right: client}
				}
				return nil, nil, unavailable(err.Error())
			}
			read[key] = held
		}
		held := read[key]
		versions[key] = ""
		if held != nil {
			versions[key] = held.GetResourceVersion()
		}
		text, found, err := textIn(held, source.Key)
		switch {
		case err != nil:
			return nil, nil, unavailable(err.Error())
		case !found && source.Optional:
		case held == nil:
			return nil, nil, unavailable("does not exist: create it, or set optional")
		case !found:
			return nil, nil, unavailable("does not have this key: add it, or set optional")
		default:
			parts = append(parts, part{name: name, text: text, secret: key.kind == "Secret"})
		}
	}
	return parts, versions, nil
}

// readSource reads a ConfigMap or Secret; nil if it does not exist.
func readSource(ctx context.Context, client dynamic.Interface, key sourceKey) (*unstructured.Unstructured, error) {
	held, err := client.Resource(key.gvr()).Namespace(key.namespace).Get(ctx, key.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that it does not exist is no error here
	}
	return held, err
}

// textIn is what a ConfigMap or Secret holds under a key.
func textIn(held *unstructured.Unstructured, key string) (text string, found bool, err error) {
	if held == nil {
		return "", false, nil
	}
	if held.GetKind() == "Secret" {
		secret := &corev1.Secret{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(held.Object, secret); err != nil {
			return "", false, errors.New("it cannot be read as a Secret") // the error may quote it
		}
		value, found := secret.Data[key]
		return string(value), found, nil
	}
	cm := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(held.Object, cm); err != nil {
		return "", false, fmt.Errorf("it cannot be read as a ConfigMap: %w", err)
	}
	if text, found = cm.Data[key]; found {
		return text, true, nil
	}
	value, found := cm.BinaryData[key]
	return string(value), found, nil
}

// parse reads the objects of all parts of a manifest, in order.
func parse(parts []part) ([]manifest.Object, error) {
	total := 0
	for _, p := range parts {
		total += len(p.text)
	}
	if total > maxManifest {
		return nil, fmt.Errorf("the parts of the manifest have %d bytes, and the limit is %d: make several VidraResources of it", total, maxManifest)
	}
	var all []manifest.Object
	for _, p := range parts {
		objects, err := manifest.Parse(p.text, manifest.Options{Source: p.name})
		if problems := (manifest.Errors)(nil); p.secret && errors.As(err, &problems) {
			for _, problem := range problems {
				problem.Message = "cannot be read (what is wrong is withheld, because it may quote the Secret)"
			}
		}
		if err != nil {
			return nil, err
		}
		if p.secret {
			withhold(objects)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// withhold has the values of objects that come from a Secret treated as those of a
// Secret are, unless the manifest says of an object whether they are to be.
func withhold(objects []manifest.Object) {
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if _, said := annotations[ownership.SensitiveAnnotation]; said {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownership.SensitiveAnnotation] = "true"
		object.SetAnnotations(annotations)
	}
}

// tooLarge says why a VidraResource would not fit into the API server with the status
// that its manifest makes; nil if it does. Nothing is written then.
func (p *pass) tooLarge() *failure {
	vr := p.vr.DeepCopy()
	vr.Status = *p.session.status.DeepCopy()
	vr.Status.ManagedResources = nil
	for _, d := range p.session.objects {
		entry := entryOf(d.id, d.gvk)
		const uid, digest = "00000000-0000-0000-0000-000000000000", "1:0123456789abcdef0123456789abcdef"
		entry.UID, entry.Digest, entry.Configuration = uid, digest, d.configuration
		vr.Status.ManagedResources = append(vr.Status.ManagedResources, *entry)
	}
	if size := sizeOf(vr); size > maxObject {
		return &failure{v1alpha1.ReasonManifestInvalid, fmt.Sprintf(
			"the VidraResource would have %d bytes with the status of its %d objects, and the limit is %d: "+
				"move the manifest into ConfigMaps with spec.manifestFrom, or make several VidraResources of it",
			size, len(p.session.objects), maxObject)}
	}
	going := 0
	for id, entry := range p.session.inventory { // what it removes is there until it is gone
		if p.session.byID[id] == nil {
			vr.Status.ManagedResources = append(vr.Status.ManagedResources, *entry)
			going++
		}
	}
	if size := sizeOf(vr); size > maxObject {
		return &failure{v1alpha1.ReasonManifestInvalid, fmt.Sprintf(
			"the VidraResource would have %d bytes with the status of the %d objects of the manifest and the %d that it removes, and the limit is %d: "+
				"change fewer objects at a time, for instance by removing some first",
			size, len(p.session.objects), going, maxObject)}
	}
	return nil
}

// sizeOf is how many bytes a VidraResource takes.
func sizeOf(vr *v1alpha1.VidraResource) int {
	text, err := json.Marshal(vr)
	if err != nil { // it came from JSON
		return 0
	}
	return len(text)
}
