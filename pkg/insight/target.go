package insight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/source/flux"
)

// Target is the object that a question is about.
type Target struct {
	// Kind is a resource, a short name or a kind, with or without its group, as kubectl takes it: deployment, deploy, Deployment.apps.
	Kind string
	// Namespace of the object; ignored for kinds without one.
	Namespace string
	Name      string
}

// subject is the object of a question, as far as the user may read it.
type subject struct {
	client *Client
	gvk    schema.GroupVersionKind
	gvr    schema.GroupVersionResource
	id     object.Identity
	// typed is the kind as the user wrote it.
	typed string
	// live is the object; nil if it is absent or may not be read.
	live *unstructured.Unstructured
	// owners are the VidraResources that manage it, and named those that the object itself names.
	owners []*v1alpha1.VidraResource
	named  []string
	// missing names the unread parts, with the reasons.
	missing []string
	// locations are where the manifests of the owners have the object; nil until they were read.
	locations map[string]location
}

// location is the place of the object in a manifest, or the obstacle to knowing it.
type location struct {
	at  *located
	why string
}

// look finds and reads the object that a question is about, see find and read.
func (c *Client) look(ctx context.Context, of Target) (*subject, error) {
	s, err := c.find(of)
	if err != nil {
		return nil, err
	}
	return s, s.read(ctx)
}

// find finds the kind and namespace of the object that a question is about.
func (c *Client) find(of Target) (*subject, error) {
	resolved, served, err := kindFrom(c.mapper, of.Kind)
	if err != nil {
		return nil, err
	}
	if !served {
		return nil, c.noKind(of.Kind)
	}
	mapping, err := c.mapper.RESTMapping(schema.GroupKind{Group: *resolved.group, Kind: resolved.kind})
	if err != nil {
		return nil, fmt.Errorf("find the kind %q: %w", of.Kind, err)
	}
	if !isNamespaced(mapping) {
		of.Namespace = ""
	}
	return &subject{
		client: c, gvk: mapping.GroupVersionKind, gvr: mapping.Resource, typed: of.Kind,
		id: object.Identity{GroupKind: mapping.GroupVersionKind.GroupKind(), Namespace: of.Namespace, Name: of.Name},
	}, nil
}

// Identify returns the object that a target names. It neither reads it nor requires that it exists.
func (c *Client) Identify(of Target) (object.Identity, error) {
	s, err := c.find(of)
	if err != nil {
		return object.Identity{}, err
	}
	return s.id, nil
}

// Managed is an object of this cluster with the VidraResources that manage it here, as far as the user may read them.
type Managed struct {
	ID       object.Identity
	Resource schema.GroupVersionResource
	Owners   []*v1alpha1.VidraResource
}

// Managed finds an object of this cluster that VidraResources manage. It fails if none does: the object of the same name in another
// cluster has to be written there.
func (c *Client) Managed(ctx context.Context, of Target) (Managed, error) {
	s, err := c.look(ctx, of)
	if err != nil {
		return Managed{}, err
	}
	if s.elsewhere() {
		return Managed{}, fmt.Errorf("%s, which VidraResource %s manages, is in the cluster %s: annotate it there, with kubectl and a kubeconfig of that cluster",
			s.id, s.owners[0].Name, s.owners[0].Spec.Destination.Server)
	}
	return Managed{ID: s.id, Resource: s.gvr, Owners: slices.DeleteFunc(slices.Clone(s.owners), Remote)}, nil
}

// elsewhere reports whether all VidraResources that manage the object have it in other clusters: an object of the same name in this
// cluster is another one. An owner that the object names and that may not be read may be one of this cluster.
func (s *subject) elsewhere() bool {
	unread := len(s.named) > 0 && len(s.missing) > 0
	return len(s.owners) > 0 && !unread && !slices.ContainsFunc(s.owners, func(vr *v1alpha1.VidraResource) bool { return !Remote(vr) })
}

// isNamespaced reports whether objects of a kind have a namespace.
func isNamespaced(mapping *meta.RESTMapping) bool {
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// kindArgument is a kind as an argument: with its group if that is not one of Kubernetes, because other groups may have the kind, too.
func kindArgument(kind schema.GroupKind) string {
	if display.OfKubernetes(kind.Group) {
		kind.Group = ""
	}
	return strings.ToLower(kind.String())
}

// Argument is the target as an argument of a command that a user copies into a shell: deployment/web -n shop. The name of a Role may have any character.
func (t Target) Argument() string {
	text := Quoted(t.Kind + "/" + t.Name)
	if t.Namespace != "" {
		text += " -n " + Quoted(t.Namespace)
	}
	return text
}

// Quoted quotes a word for a shell, if that is necessary.
func Quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_=.,/:@%+", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// TargetOf returns the target that names an object.
func TargetOf(id object.Identity) Target {
	return Target{Kind: kindArgument(id.GroupKind), Namespace: id.Namespace, Name: id.Name}
}

// argument is the object as an argument of a command, with the kind as the user wrote it.
func (s *subject) argument() string {
	return Target{Kind: s.typed, Namespace: s.id.Namespace, Name: s.id.Name}.Argument()
}

// title names the object, with the group of its kind where the cluster serves the kind in several groups.
func (s *subject) title() string {
	var kinds display.Kinds
	all, err := s.client.mapper.KindsFor(schema.GroupVersionResource{Resource: s.gvr.Resource})
	if err == nil { // the kind is named alone otherwise
		for _, kind := range all {
			kinds.Add(kind.GroupKind())
		}
	}
	return kinds.Name(s.id.GroupKind, s.id.Namespace, s.id.Name)
}

// is reports whether an entry of a status is about the object.
func (s *subject) is(o v1alpha1.ProblemObject) bool { return IdentityOf(o) == s.id }

// IdentityOf returns the identity of the object of an entry of a status.
func IdentityOf(o v1alpha1.ProblemObject) object.Identity {
	return identify(o.APIVersion, o.Kind, o.Namespace, o.Name)
}

// identify returns the identity of an object of a kind in any version.
func identify(apiVersion, kind, namespace, name string) object.Identity {
	return object.Identity{GroupKind: schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind(), Namespace: namespace, Name: name}
}

// read reads the object, and finds the VidraResources that manage it. It fails if there are none.
func (s *subject) read(ctx context.Context) error {
	absent, err := s.get(ctx)
	if err != nil {
		return err
	}
	all, err := s.findOwners(ctx)
	switch {
	case err != nil && !apierrors.IsForbidden(err):
		return err
	case err != nil && len(s.named) == 0 && s.live != nil: // an inventory may have the object all the same
		return fmt.Errorf("%s names no existing VidraResource: %w", s.id, err)
	case err != nil && len(s.named) == 0:
		return err
	case err != nil:
		s.missing = append(s.missing, "the VidraResource: "+err.Error())
	}
	if s.elsewhere() {
		s.live = nil
	}
	if s.live != nil && s.inVersionOfOwner() {
		if _, err := s.get(ctx); err != nil {
			return err
		}
	}
	if len(s.owners) > 0 || len(s.named) > 0 && len(s.missing) > 0 { // a controller copies the annotations that name them to what it creates
		return nil
	}
	return s.unmanaged(ctx, absent, all)
}

// get reads the object. It reports whether the object is absent.
func (s *subject) get(ctx context.Context) (absent bool, err error) {
	s.live = nil
	live, err := s.client.dynamic.Resource(s.gvr).Namespace(s.id.Namespace).Get(ctx, s.id.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		s.missing = append(s.missing, fmt.Sprintf("the object: you may not get %s in namespace %q", s.gvr.GroupResource(), s.id.Namespace))
	case object.IsAbsent(err, s.id.Name):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", s.id, err)
	default:
		s.live, s.named = live, v1alpha1.Owners(live.GetAnnotations())
	}
	return false, nil
}

// inVersionOfOwner sets the version of the object to the version of its first owner's manifest: fields may have other names in other versions. It
// reports a change of the version.
func (s *subject) inVersionOfOwner() bool {
	for _, vr := range s.owners {
		entry := owners.EntryOf(vr, s.id)
		if entry == nil || Remote(vr) {
			continue
		}
		mapping, err := s.client.mapper.RESTMapping(s.id.GroupKind, object.GVKOf(entry).Version)
		if err != nil || mapping.Resource == s.gvr { // the version may be gone
			return false
		}
		s.gvk, s.gvr = mapping.GroupVersionKind, mapping.Resource
		return true
	}
	return false
}

// findOwners finds the VidraResources that have the object in their inventory, or that it names, among all that may be read.
func (s *subject) findOwners(ctx context.Context) (all []*v1alpha1.VidraResource, err error) {
	all, err = s.client.VidraResources(ctx, "")
	if apierrors.IsForbidden(err) { // perhaps those that the object names may be read
		all, err = s.readNamed(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	for _, vr := range all {
		if owners.EntryOf(vr, s.id) != nil || s.appliedBy(vr) {
			s.owners = append(s.owners, vr)
		}
	}
	return all, nil
}

// maxNamed is how many of the VidraResources that an object names are read one by one: who may edit it can write any number of names.
const maxNamed = 2 * owners.MaxOwners

// readNamed reads the VidraResources that the object names, for a user who may not list them: unlisted is the error. Those that may not be read
// are missing parts, and absent ones are no longer named. It fails with unlisted if none remains.
func (s *subject) readNamed(ctx context.Context, unlisted error) (all []*v1alpha1.VidraResource, err error) {
	names := slices.DeleteFunc(s.named, func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
	s.named = nil
	for _, name := range names[:min(len(names), maxNamed)] {
		vr, err := s.client.resources.Get(ctx, name)
		switch {
		case err == nil:
			all = append(all, vr)
		case apierrors.IsNotFound(err) && !cluster.IsNoResource(err):
			continue
		case apierrors.IsForbidden(err):
			s.missing = append(s.missing, "the VidraResource: "+s.client.program.VidraResourceError("get", name, err).Error())
		default:
			return nil, s.client.program.VidraResourceError("get", name, err)
		}
		s.named = append(s.named, name)
	}
	if more := names[min(len(names), maxNamed):]; len(more) > 0 {
		s.named = append(s.named, more...)
		s.missing = append(s.missing, fmt.Sprintf("the VidraResources of %d further names in the annotations of the object: %v", len(more), unlisted))
	}
	if len(s.named) == 0 {
		return nil, unlisted
	}
	return all, nil
}

// signature are the marks of a VidraResource on its objects.
func signature(vr *v1alpha1.VidraResource) object.Signature {
	return object.SignatureOf(v1alpha1.InstallationOf(vr), vr.Name)
}

// appliedBy reports whether managedFields show that a VidraResource of this cluster applied the object.
func (s *subject) appliedBy(vr *v1alpha1.VidraResource) bool {
	if s.live == nil || Remote(vr) {
		return false
	}
	by := signature(vr)
	return slices.Contains(ownership.Managers(s.live, by.Manager), by.Manager)
}

// isAppliedBy reports whether an entry of managedFields, by its manager and operation, belongs to an owner, or to a VidraResource without the
// right to read it. Other clients may have such a name, too.
func (s *subject) isAppliedBy(manager, operation string) bool {
	if operation != string(metav1.ManagedFieldsOperationApply) || !strings.HasPrefix(manager, v1alpha1.FieldManagerPrefix) {
		return false
	}
	_, installation := v1alpha1.ParseFieldManager(manager)
	return slices.ContainsFunc(s.owners, func(vr *v1alpha1.VidraResource) bool { return !Remote(vr) && signature(vr).Manager == manager }) ||
		len(s.missing) > 0 && slices.ContainsFunc(s.named, func(name string) bool { return installation.FieldManager(name) == manager })
}

// located is where the manifest of an owner has the object.
type located struct {
	located *desired.Located
	vr      *v1alpha1.VidraResource
	// inFile is the object in the file from which it was built; nil before it is read.
	inFile map[string]any
}

// locate finds the object in the manifest of an owner; nil if it cannot be found, with the reason. The first call reads the manifests of
// all owners.
func (s *subject) locate(ctx context.Context, vr *v1alpha1.VidraResource) (*located, string) {
	if s.locations == nil {
		s.locations = map[string]location{}
		for _, owner := range s.owners {
			at, why := s.locateIn(ctx, owner)
			s.locations[owner.Name] = location{at, why}
		}
	}
	found := s.locations[vr.Name]
	return found.at, found.why
}

// disclosure decides whether values of the object are shown, from the inventories of its owners, the object as it is, and
// the manifests of its owners.
func (s *subject) disclosure(ctx context.Context) ownership.Disclosure {
	versions := []*unstructured.Unstructured{s.live}
	before := ownership.Sensitivity(false)
	for _, vr := range s.owners {
		if entry := owners.EntryOf(vr, s.id); entry != nil && entry.Sensitive {
			before = true
		}
		if at, _ := s.locate(ctx, vr); at != nil {
			versions = append(versions, at.located.Object.Unstructured)
		}
	}
	return ownership.Disclose(before, false, false).With(versions...)
}

// Disclosure decides whether values of an object are shown. It withholds them if the object cannot be read.
func (c *Client) Disclosure(ctx context.Context, of Target) ownership.Disclosure {
	s, err := c.look(ctx, of)
	if err != nil || s.live == nil {
		return ownership.Disclosure{}
	}
	return s.disclosure(ctx)
}

// locateIn finds the object in the manifest of a VidraResource; nil if it cannot be found, with the reason.
func (s *subject) locateIn(ctx context.Context, vr *v1alpha1.VidraResource) (*located, string) {
	parts, err := desired.ReadParts(ctx, s.client.sources, s.client.dynamic, vr, nil)
	if err != nil {
		return nil, err.Error()
	}
	found, err := desired.Locate(vr, parts, s.id)
	switch {
	case err != nil:
		return nil, "the manifest cannot be read: " + err.Error()
	case found == nil:
		return nil, "the manifest does not have the object any more"
	}
	return &located{located: found, vr: vr}, ""
}

// place is where a field of the object is in the manifest.
func (l *located) place(path ...string) string {
	at := *l.located
	at.Object.Position.Line, at.Object.Position.Item = l.located.Line(path...), 0
	text := at.In(l.vr)
	if l.overridden(path) {
		text += overriddenThere
	}
	return text
}

// overriddenThere follows the place of a field that is overridden.
const overriddenThere = " (has another value there, which a patch, a setting or a variable of the kustomization changes)"

// overridden reports whether a kustomization changed the value of a field that the file of the object has.
func (l *located) overridden(path []string) bool {
	if _, built := l.located.File(); !built || len(path) == 0 {
		return false
	}
	if l.inFile == nil {
		l.inFile = map[string]any{}
		objects, _ := manifest.Parse(l.located.Text(), manifest.Options{}) // one that is found is whole
		for _, obj := range objects {
			if at := l.located.Object.Position; obj.Position.Document == at.Document && obj.Position.Line == at.Line && obj.Position.Item == at.Item {
				desired.MergeStringData(obj.Unstructured)
				l.inFile = obj.Object
			}
		}
	}
	return otherValue(valueAt(l.inFile, path), valueAt(l.located.Object.Object, path))
}

// start is where the lines of the part of the manifest that has the object are counted from.
func (l *located) start() string {
	if from := l.located.Source(); from != nil && source.IsArtifact(from.Kind) {
		return "the file"
	} else if from != nil {
		return "key " + from.Key
	}
	return "spec.manifest"
}

// editWith is the command that edits a part of the manifest of a VidraResource, or describes its source. from is nil for spec.manifest.
func editWith(vr *v1alpha1.VidraResource, from *v1alpha1.ManifestSource) string {
	if from == nil {
		return "kubectl edit vidraresource " + vr.Name
	}
	key, verb, kind := source.KeyOf(vr, *from), "edit", strings.ToLower(from.Kind)
	if source.IsArtifact(from.Kind) { // other groups have kinds such as Bucket, too
		verb, kind = "describe", kind+"."+flux.Group // it names the repository with the file
	}
	return fmt.Sprintf("kubectl %s %s %s -n %s", verb, kind, key.Name, key.Namespace)
}
