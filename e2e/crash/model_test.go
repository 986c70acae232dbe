package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// owners is how many VidraResources there are at most, each with up to objects
	// objects of its own, and sharing shared and contested ones.
	owners, objects, shared, contested = 6, 20, 4, 2
	// spaces is how many namespaces there are, each with foreign objects.
	spaces, foreigners = 3, 4
)

// model knows what should exist.
type model struct {
	rng *rand.Rand
	// wants are the manifests of the VidraResources that exist. leaving are those that
	// were deleted and may still be there.
	wants   map[string]map[object]content
	leaving map[string]bool
	// foreign are the unmanaged objects. One of each kind has a name that a
	// manifest may have, too, and one bears the marks of a VidraResource.
	foreign map[object]fingerprint
	copied  object
	// settled are the objects that existed at the last checkpoint.
	settled map[object]settled
	// recreated are the objects that a user deleted and that were created again. Where the
	// operator was killed before it wrote their UID into the inventory, the old one stays
	// there: the digest says that they are in order.
	recreated map[object]bool
	count     int
}

// settled is an object as it was at the last checkpoint.
type settled struct {
	uid types.UID
	// keepers have applied it then, and have wanted it ever since: while there is one,
	// the operator must not delete it.
	keepers map[string]bool
}

func newModel(seed uint64) *model {
	return &model{
		rng: rand.New(rand.NewPCG(seed, seed)), wants: map[string]map[object]content{}, leaving: map[string]bool{}, //nolint:gosec // to be repeated
		foreign: map[object]fingerprint{}, settled: map[object]settled{}, recreated: map[object]bool{},
	}
}

func ownerName(i int) string { return fmt.Sprintf("owner-%d", i) }
func namespace(i int) string { return fmt.Sprintf("space-%d", i) }

// prepare makes the namespaces and the foreign objects.
func (m *model) prepare(ctx context.Context) error {
	for i := range spaces {
		ns := &unstructured.Unstructured{}
		ns.SetAPIVersion("v1")
		ns.SetKind("Namespace")
		ns.SetName(namespace(i))
		if err := admin.Create(ctx, ns); err != nil {
			return err
		}
		for _, kind := range []string{"ConfigMap", "Secret", "Service"} {
			for j := range foreigners {
				if err := m.addForeign(ctx, object{kind, namespace(i), fmt.Sprintf("foreign-%d", j)}, nil); err != nil {
					return err
				}
			}
		}
	}
	m.copied = object{"ConfigMap", namespace(0), "copied"}
	return m.addForeign(ctx, m.copied, func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue})
		u.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotationKey(ownerName(0)): ownerName(0)})
	})
}

func (m *model) addForeign(ctx context.Context, o object, change func(*unstructured.Unstructured)) error {
	u := manifestOf(o, content{"value": "foreign"})
	if change != nil {
		change(u)
	}
	if err := admin.Create(ctx, u, client.FieldOwner("person")); err != nil {
		return fmt.Errorf("create %s: %w", o, err)
	}
	m.foreign[o] = fingerprintOf(u)
	return nil
}

// step makes one random change.
func (m *model) step(ctx context.Context) error {
	name := ownerName(m.rng.IntN(owners))
	_, exists := m.wants[name]
	switch p := m.rng.IntN(100); {
	case !exists:
		return m.create(ctx, name)
	case p < 12:
		return m.delete(ctx, name)
	case p < 65:
		return m.change(ctx, name)
	default:
		return m.meddle(ctx, name)
	}
}

// create creates a VidraResource, unless it is still on its way out.
func (m *model) create(ctx context.Context, name string) error {
	wants := map[object]content{}
	for range 3 + m.rng.IntN(objects) {
		m.put(wants, name)
	}
	v := &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.VidraResourceSpec{
			Destination: v1alpha1.Destination{Namespace: namespace(0)}, Manifest: manifest(wants),
		},
	}
	err := admin.Create(ctx, v)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return err
	}
	delete(m.leaving, name)
	m.wants[name] = wants
	return nil
}

// delete deletes a VidraResource.
func (m *model) delete(ctx context.Context, name string) error {
	if err := admin.Delete(ctx, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	for o := range m.wants[name] {
		m.dropped(o, name)
	}
	delete(m.wants, name)
	m.leaving[name] = true
	return nil
}

// change gives a VidraResource another manifest: objects come, go and change.
func (m *model) change(ctx context.Context, name string) error {
	wants := m.wants[name]
	for range 1 + m.rng.IntN(8) {
		m.put(wants, name)
	}
	for _, o := range m.sample(wants, m.rng.IntN(1+len(wants)/2)) {
		m.take(wants, o, name)
	}
	if len(wants) == 0 { // that would be a mistake
		m.put(wants, name)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"manifest": manifest(wants)}})
	if err != nil {
		return err
	}
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return admin.Patch(ctx, v, client.RawPatch(types.MergePatchType, patch))
}

// put adds a random object to a manifest, or changes it.
func (m *model) put(wants map[object]content, name string) {
	m.count++
	c := content{"value": fmt.Sprintf("value-%d", m.count)}
	for i := range m.rng.IntN(3) { // a key that goes with the next change
		c[fmt.Sprintf("extra-%d-%d", m.count, i)] = "x"
	}
	space := namespace(m.rng.IntN(spaces))
	switch p := m.rng.IntN(100); {
	case p < 10:
		o := object{"ConfigMap", namespace(0), fmt.Sprintf("shared-%d", m.rng.IntN(shared))}
		wants[o] = content{"value": o.name} // all agree
	case p < 13:
		o := object{"ConfigMap", namespace(0), fmt.Sprintf("contested-%d", m.rng.IntN(contested))}
		wants[o] = content{"value": name}
	case p < 15:
		wants[object{"Secret", space, "foreign-0"}] = c
	case p < 22 && name == ownerName(1):
		wants[definition] = content{}
		for i := range 1 + m.rng.IntN(3) {
			wants[object{"Thing", space, fmt.Sprintf("thing-%d", i)}] = c
		}
	default:
		kind := []string{"ConfigMap", "ConfigMap", "Secret", "Service"}[m.rng.IntN(4)]
		wants[object{kind, space, fmt.Sprintf("%s-%d", name, m.rng.IntN(objects))}] = c
	}
}

// take takes an object from a manifest, and with a definition what it defines.
func (m *model) take(wants map[object]content, o object, name string) {
	delete(wants, o)
	m.dropped(o, name)
	if o != definition {
		return
	}
	for other := range wants {
		if other.kind == "Thing" {
			delete(wants, other)
			m.dropped(other, name)
		}
	}
}

// meddle edits or deletes a managed object, as a person does.
func (m *model) meddle(ctx context.Context, name string) error {
	for _, o := range m.sample(m.wants[name], 1+m.rng.IntN(3)) {
		if _, foreign := m.foreign[o]; foreign || o == definition {
			continue
		}
		u := manifestOf(o, nil)
		var err error
		if m.rng.IntN(3) == 0 {
			delete(m.settled, o)
			m.recreated[o] = true
			err = admin.Delete(ctx, u)
		} else {
			fields := map[string]any{"value": "ZWRpdGVk", "mine": nil} // base64, for Secrets
			patch := fields
			for _, key := range slices.Backward(kinds[o.kind].path) {
				patch = map[string]any{key: patch}
			}
			encoded, _ := json.Marshal(patch)
			err = admin.Patch(ctx, u, client.RawPatch(types.MergePatchType, encoded), client.FieldOwner("person"))
		}
		if err != nil && !apierrors.IsNotFound(err) && !isNoKind(err) {
			return fmt.Errorf("edit %s: %w", o, err)
		}
	}
	return nil
}

// dropped notes that a VidraResource does not want an object any more.
func (m *model) dropped(o object, name string) {
	delete(m.settled[o].keepers, name)
}

// sample are n random objects of a manifest.
func (m *model) sample(wants map[object]content, n int) []object {
	all := sorted(wants)
	m.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// sorted are the objects of a manifest in an order that is always the same.
func sorted(wants map[object]content) []object {
	var all []object
	for o := range wants {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// manifest is the text of a manifest.
func manifest(wants map[object]content) string {
	var documents []string
	for _, o := range sorted(wants) {
		encoded, _ := json.Marshal(manifestOf(o, wants[o]).Object)
		documents = append(documents, string(encoded))
	}
	return strings.Join(documents, "\n---\n")
}
