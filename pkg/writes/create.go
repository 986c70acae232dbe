package writes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/parts"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// Creation asks for a VidraResource whose manifest is in files.
type Creation struct {
	Name  string
	Files []insight.File
	// Namespace, Server and ServiceAccount are fields of the spec. Empty ones stay as they are.
	Namespace, Server, ServiceAccount string
	// DefaultNamespace is the namespace of the destination of a new VidraResource without Namespace.
	DefaultNamespace string
	// PartsNamespace is the namespace of the ConfigMaps and Secrets. Defaults to the namespace of the parts that exist, or else of the destination.
	PartsNamespace string
	// Annotations are set on the VidraResource.
	Annotations map[string]string
	// Force takes fields from other field managers.
	Force bool
}

// Prepared is a VidraResource that can be written, with the parts of its manifest. See [Client.Prepare].
type Prepared struct {
	// VidraResource is as the API server would store it.
	VidraResource *v1alpha1.VidraResource
	// IsNew reports that it is absent, and Changed that its spec is another one.
	IsNew, Changed bool
	// Objects counts the objects of its manifest.
	Objects int
	// Remarks are messages to the user.
	Remarks []string

	// body is the applied configuration, and before the VidraResource as it was read; nil for a new one.
	body   *unstructured.Unstructured
	before *v1alpha1.VidraResource
	// parts are the texts of spec.manifestFrom, in its order. A part has a uid if it exists.
	parts []*storedPart
	// former are the parts of earlier calls that the VidraResource drops.
	former []*storedPart
}

// Parts counts the parts of the manifest in ConfigMaps and Secrets.
func (p *Prepared) Parts() (configMaps, secrets int) {
	for _, part := range p.parts {
		if part.key.Kind == source.Secret {
			secrets++
		} else {
			configMaps++
		}
	}
	return configMaps, secrets
}

// Unfinished reports whether an earlier call ended before it had written or removed all parts.
func (p *Prepared) Unfinished() bool {
	return len(p.former) > 0 || slices.ContainsFunc(p.parts, func(part *storedPart) bool { return !part.ownedBy(p.VidraResource.UID) })
}

// Objects returns the VidraResource of a Creation with the ConfigMaps and Secrets of its manifest, these first. It sends no request.
func (q Creation) Objects() (all []*unstructured.Unstructured, remarks []string, err error) {
	namespace := cmp.Or(q.Namespace, q.DefaultNamespace)
	cut, err := q.cut(namespace)
	if err != nil {
		return nil, nil, err
	}
	var pieces []*storedPart
	for i, part := range cut.Parts {
		piece := pieceOf(part, cmp.Or(q.PartsNamespace, namespace))
		if piece.key.Name = nameOfPart(q.Name, piece.key.Kind, piece.text); part.Sensitive {
			piece.key.Name = fmt.Sprintf("%s-secret-%d", q.Name, i+1) // the same each time
		}
		pieces = append(pieces, piece)
	}
	vr := q.body(nil, namespace, cut.Inline, pieces)
	if err := check(vr, pieces); err != nil {
		return nil, nil, err
	}
	for _, piece := range pieces {
		u, err := partObject(q.Name, piece.key, piece.text)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, u)
	}
	return append(all, vr), cut.Remarks, nil
}

// Manifest returns the manifest of the files. Errors about the files name their lines. It sends no request.
func (q Creation) Manifest() (*parts.Manifest, error) {
	return q.cut(cmp.Or(q.Namespace, q.DefaultNamespace))
}

// cut returns the manifest of the files in parts.
func (q Creation) cut(namespace string) (*parts.Manifest, error) {
	if problems := validation.IsDNS1123Subdomain(q.Name); len(problems) > 0 {
		return nil, fmt.Errorf("%q is no name of a VidraResource: %s", q.Name, problems[0])
	}
	texts := make([]parts.Text, 0, len(q.Files))
	for _, f := range q.Files {
		texts = append(texts, parts.Text{Name: f.Name, Text: f.Text})
	}
	cut, err := parts.Cut(texts, parts.Options{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	if len(cut.Objects) == 0 {
		return nil, fmt.Errorf("%s: no object found", insight.FileNames(q.Files))
	}
	held := cmp.Or(q.PartsNamespace, namespace)
	for _, o := range cut.Objects {
		if len(cut.Parts) > 0 && o.GroupVersionKind().GroupKind() == object.NamespaceKind && o.GetName() == held {
			return nil, fmt.Errorf("the manifest has Namespace %s, in which the parts of the manifest itself would be: name another namespace for them with --parts-namespace", held)
		}
	}
	return cut, nil
}

// pieceOf returns a new part, still unnamed.
func pieceOf(part parts.Part, namespace string) *storedPart {
	kind := source.ConfigMap
	if part.Sensitive {
		kind = source.Secret
	}
	return &storedPart{key: source.Key{Kind: kind, Namespace: namespace}, text: part.Text}
}

// body returns the fields of the VidraResource that are applied. live is the VidraResource as it is; nil for a new one.
func (q Creation) body(live *v1alpha1.VidraResource, namespace, inline string, pieces []*storedPart) *unstructured.Unstructured {
	destination, spec := map[string]any{}, map[string]any{}
	server, account := q.Server, q.ServiceAccount
	if live != nil {
		server, account = cmp.Or(server, live.Spec.Destination.Server), cmp.Or(account, live.Spec.ServiceAccountName)
	}
	if namespace != "" {
		destination["namespace"] = namespace
	}
	if server != "" {
		destination["server"] = server
	}
	if account != "" {
		spec["serviceAccountName"] = account
	}
	spec["destination"] = destination
	// Empty values replace those of other field managers.
	if inline != "" || live != nil && live.Spec.Manifest != "" {
		spec["manifest"] = inline
	}
	if len(pieces) > 0 || live != nil && len(live.Spec.ManifestFrom) > 0 {
		from := make([]any, 0, len(pieces))
		for _, piece := range pieces {
			from = append(from, map[string]any{"kind": piece.key.Kind, "name": piece.key.Name, "namespace": piece.key.Namespace, "key": PartKey})
		}
		spec["manifestFrom"] = from
	}
	vr := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	vr.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	vr.SetName(q.Name)
	vr.SetAnnotations(q.Annotations)
	return vr
}

// check checks the manifest of a VidraResource without a cluster.
func check(u *unstructured.Unstructured, pieces []*storedPart) error {
	vr, err := insight.AsVidraResource(u)
	if err != nil {
		return err
	}
	return desired.Check(vr, partsOf(vr, pieces))
}

func partsOf(vr *v1alpha1.VidraResource, pieces []*storedPart) []desired.Part {
	texts := make([]string, 0, len(pieces))
	for _, piece := range pieces {
		texts = append(texts, piece.text)
	}
	return desired.PartsOf(vr, texts)
}

// Prepare returns the VidraResource of a Creation as it would be, with the parts of its manifest. It writes nothing. It fails for a
// VidraResource whose manifest another field manager has written, unless q.Force is set.
func (c *Client) Prepare(ctx context.Context, q Creation) (*Prepared, error) {
	var live *v1alpha1.VidraResource
	u, err := c.dynamic.Resource(v1alpha1.Resource).Get(ctx, q.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		if live, err = insight.AsVidraResource(u); err != nil {
			return nil, err
		}
		if !live.DeletionTimestamp.IsZero() {
			return nil, fmt.Errorf("VidraResource %s is being deleted: try again when it is gone", q.Name)
		}
	case !object.IsAbsent(err, q.Name):
		return nil, c.program.VidraResourceError("get", q.Name, err)
	}
	namespace := cmp.Or(q.Namespace, q.DefaultNamespace)
	var named []source.Key
	if live != nil {
		namespace = cmp.Or(q.Namespace, live.Spec.Destination.Namespace)
		for _, from := range live.Spec.ManifestFrom {
			named = append(named, source.KeyOf(live, from))
		}
	}
	if q.PartsNamespace == "" {
		q.PartsNamespace = cmp.Or(namespace, q.DefaultNamespace)
		for _, key := range named {
			q.PartsNamespace = key.Namespace
		}
	}
	cut, err := q.cut(namespace)
	if err != nil {
		return nil, err
	}
	p := &Prepared{IsNew: live == nil, Objects: len(cut.Objects), Remarks: cut.Remarks}
	stored, err := c.storedParts(ctx, q, cut.Parts, named)
	if err != nil {
		return nil, err
	}
	var uid types.UID
	if live != nil {
		uid = live.UID
	}
	p.place(q, cut.Parts, stored, named, uid)
	for _, part := range stored {
		switch {
		case slices.Contains(p.parts, part):
		case live == nil && len(part.owners) > 0, live != nil && part.ofAnother(uid), !part.whole:
			p.Remarks = append(p.Remarks, part.key.String()+" stays: it is not as this command wrote it, or another VidraResource owns it")
		default:
			p.former = append(p.former, part)
		}
	}
	for _, key := range named {
		if !slices.ContainsFunc(stored, func(part *storedPart) bool { return part.key == key }) {
			p.Remarks = append(p.Remarks, key.String()+" is not used any more, and stays: this command has not written it")
		}
	}
	return p, c.judge(ctx, q, live, namespace, cut.Inline, p)
}

// storedParts returns the parts that earlier calls have written, in the namespaces where they can be.
func (c *Client) storedParts(ctx context.Context, q Creation, cut []parts.Part, named []source.Key) ([]*storedPart, error) {
	in := map[source.Key]bool{}
	for _, part := range cut {
		in[pieceOf(part, q.PartsNamespace).key] = true
	}
	for _, key := range named {
		if key.Name = ""; !source.IsArtifact(key.Kind) {
			in[key] = true
		}
	}
	var stored []*storedPart
	for key := range in {
		found, err := c.partsIn(ctx, q.Name, key.Kind, key.Namespace)
		if err != nil {
			return nil, err
		}
		stored = append(stored, found...)
	}
	slices.SortFunc(stored, func(a, b *storedPart) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return stored, nil
}

// place finds a stored part for each part of the manifest: one with the same text, first of all one in named, the parts that the
// VidraResource with uid names. Others get a name. The garbage collector deletes the parts of a former VidraResource of the name, at any moment.
func (p *Prepared) place(q Creation, cut []parts.Part, stored []*storedPart, named []source.Key, uid types.UID) {
	for _, part := range cut {
		piece := pieceOf(part, q.PartsNamespace)
		var found *storedPart
		for _, one := range stored {
			fits := one.key.Kind == piece.key.Kind && one.key.Namespace == piece.key.Namespace && one.text == piece.text && one.whole && !one.ofAnother(uid)
			if fits && !slices.Contains(p.parts, one) && (found == nil || slices.Contains(named, one.key)) {
				found = one
			}
		}
		if found == nil {
			found = piece
			found.key.Name = nameOfPart(q.Name, piece.key.Kind, piece.text)
			if slices.ContainsFunc(stored, func(one *storedPart) bool { return one.key == found.key }) { // a user has edited it, or it goes
				found.key.Name = nameOfPart(q.Name, source.Secret, piece.text)
			}
		}
		p.parts = append(p.parts, found)
	}
}

// Body returns the fields of the VidraResource that are applied.
func (p *Prepared) Body() *unstructured.Unstructured { return p.body }

// PrepareSources returns a new VidraResource whose manifest is in sources that exist, as the API server would store it. It writes nothing.
func (c *Client) PrepareSources(ctx context.Context, body *unstructured.Unstructured) (*Prepared, error) {
	vr, err := c.applyVidraResource(ctx, body, metav1.DryRunAll)
	if err != nil {
		return nil, err
	}
	return &Prepared{VidraResource: vr, IsNew: true, Changed: true, body: body}, nil
}

// SecureParts finishes a write of [Client.Create] that ended after it had written the VidraResource: its parts get it as their owner.
func (c *Client) SecureParts(ctx context.Context, vr *v1alpha1.VidraResource) error {
	in := map[source.Key]bool{}
	var named []source.Key
	for _, from := range vr.Spec.ManifestFrom {
		if key := source.KeyOf(vr, from); !source.IsArtifact(key.Kind) {
			named = append(named, key)
			in[source.Key{Kind: key.Kind, Namespace: key.Namespace}] = true
		}
	}
	for key := range in {
		stored, err := c.partsIn(ctx, vr.Name, key.Kind, key.Namespace)
		if err != nil {
			return err
		}
		for _, part := range stored {
			if !slices.Contains(named, part.key) {
				continue
			}
			if err := c.secure(ctx, part, vr); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge has the API server and the rules of Vidra judge the VidraResource.
func (c *Client) judge(ctx context.Context, q Creation, live *v1alpha1.VidraResource, namespace, inline string, p *Prepared) error {
	var err error
	p.body, p.before = q.body(live, namespace, inline, p.parts), live
	if p.VidraResource, err = c.applyVidraResource(ctx, p.body, metav1.DryRunAll); err != nil {
		return err
	}
	if err := desired.Check(p.VidraResource, partsOf(p.VidraResource, p.parts)); err != nil {
		return err
	}
	p.Changed = live == nil || !equality.Semantic.DeepEqual(live.Spec, p.VidraResource.Spec)
	if live == nil || q.Force {
		return nil
	}
	if others := otherWriters(live, p.VidraResource); len(others) > 0 {
		return fmt.Errorf("VidraResource %s: its manifest is written by %s, which would be overwritten: use another name, or take the fields with --force-conflicts",
			q.Name, strings.Join(others, ", "))
	}
	return nil
}

// applyVidraResource applies a VidraResource. Errors quote no value that is never shown.
func (c *Client) applyVidraResource(ctx context.Context, u *unstructured.Unstructured, dryRun ...string) (*v1alpha1.VidraResource, error) {
	name, force := u.GetName(), true // see otherWriters
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encode VidraResource %s: %w", name, err)
	}
	applied, err := c.dynamic.Resource(v1alpha1.Resource).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &force, DryRun: dryRun})
	switch {
	case apierrors.IsConflict(err):
		return nil, err
	case apierrors.IsRequestEntityTooLargeError(err):
		return nil, fmt.Errorf("VidraResource %s is too large for the API server: %w", name, err)
	case err != nil:
		return nil, c.program.VidraResourceError("patch", name, object.WithoutValues(err, c.questions.DisclosureOfWrite(ctx, name, u)))
	}
	return insight.AsVidraResource(applied)
}

// ErrUnfinished is in the error of a call that ended between its writes. The same call finishes them.
var ErrUnfinished = errors.New("run the command again to finish")

// errChanged is the error about a VidraResource whose spec another writer has changed.
var errChanged = errors.New("it was changed meanwhile: run the command again")

// applyAsRead applies a prepared VidraResource if its spec is as it was read. Writes of its status are ignored.
func (c *Client) applyAsRead(ctx context.Context, p *Prepared) (vr *v1alpha1.VidraResource, err error) {
	body, before := p.body.DeepCopy(), p.before
	if before == nil {
		body.SetResourceVersion(object.NoVersion)
		if vr, err = c.applyVidraResource(ctx, body); apierrors.IsConflict(err) {
			return nil, fmt.Errorf("VidraResource %s: %w", body.GetName(), errChanged)
		}
		return vr, err
	}
	body.SetUID(before.UID)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		body.SetResourceVersion(before.ResourceVersion)
		if vr, err = c.applyVidraResource(ctx, body); !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := c.questions.VidraResource(ctx, before.Name)
		if getErr != nil || now.UID != p.before.UID || now.Generation != p.before.Generation {
			return errors.Join(fmt.Errorf("VidraResource %s: %w", before.Name, errChanged), getErr)
		}
		before = now
		return err
	})
	return vr, err
}

// writtenFields are the fields that a Creation sets.
var writtenFields = []struct {
	path  fieldpath.Path
	value func(spec *v1alpha1.VidraResourceSpec) any
}{
	{fieldpath.MakePathOrDie("spec", "manifest"), func(s *v1alpha1.VidraResourceSpec) any { return s.Manifest }},
	{fieldpath.MakePathOrDie("spec", "manifestFrom"), func(s *v1alpha1.VidraResourceSpec) any { return s.ManifestFrom }},
	{fieldpath.MakePathOrDie("spec", "serviceAccountName"), func(s *v1alpha1.VidraResourceSpec) any { return s.ServiceAccountName }},
	{fieldpath.MakePathOrDie("spec", "destination", "namespace"), func(s *v1alpha1.VidraResourceSpec) any { return s.Destination.Namespace }},
	{fieldpath.MakePathOrDie("spec", "destination", "server"), func(s *v1alpha1.VidraResourceSpec) any { return s.Destination.Server }},
}

// otherWriters returns the other field managers of the fields that differ between a VidraResource as it is and as it would be.
func otherWriters(live, after *v1alpha1.VidraResource) []string {
	var others []string
	for _, entry := range live.ManagedFields {
		owned := fieldpath.NewSet()
		if entry.Manager == FieldManager || entry.FieldsV1 == nil || owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		for _, field := range writtenFields {
			differs := !equality.Semantic.DeepEqual(field.value(&live.Spec), field.value(&after.Spec))
			if name := fmt.Sprintf("%q", entry.Manager); differs && owned.Has(field.path) && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	return others
}

// Difference returns the effect of an apply of a prepared VidraResource.
func (c *Client) Difference(ctx context.Context, p *Prepared) (*insight.Diff, error) {
	if source.HasArtifacts(p.VidraResource) {
		return c.questions.Diff(ctx, insight.PreviewQuery{Given: &insight.Given{VidraResource: p.VidraResource}}) // its parts are read
	}
	return c.questions.Diff(ctx, insight.PreviewQuery{Given: &insight.Given{VidraResource: p.VidraResource, Parts: partsOf(p.VidraResource, p.parts)}})
}

// Create writes a prepared VidraResource: first its new parts, then the VidraResource, and when the operator has read that, it removes the
// former parts. The next call finishes the steps that a call leaves unfinished; [ErrUnfinished] reports them after the first write of a call. progress
// is called with the number of finished steps and of all; it may be nil. It returns messages to the user.
func (c *Client) Create(ctx context.Context, p *Prepared, progress func(done, all int)) (remarks []string, err error) {
	done, all := 0, 2*len(p.parts)+len(p.former)+1
	step := func() {
		if done++; progress != nil {
			progress(done, all)
		}
	}
	var owner *v1alpha1.VidraResource
	if !p.IsNew {
		owner = p.VidraResource
	}
	var made []*storedPart
	for i, part := range p.parts {
		if part.uid == "" {
			stored, err := c.createPart(ctx, p.VidraResource.Name, part.key, part.text, owner)
			if err != nil {
				return nil, c.discard(ctx, made, err)
			}
			p.parts[i] = stored
			made = append(made, stored)
		}
		step()
	}
	vr := p.VidraResource
	if p.Changed {
		if vr, err = c.applyAsRead(ctx, p); err != nil {
			if errors.Is(err, errChanged) || !object.Unanswered(err) {
				return nil, c.discard(ctx, made, err)
			}
			return nil, fmt.Errorf("%w: VidraResource %s and its parts may be written: %w", err, p.VidraResource.Name, ErrUnfinished)
		}
	}
	step()
	for _, part := range p.parts {
		if err := c.secure(ctx, part, vr); err != nil {
			return nil, fmt.Errorf("%w: VidraResource %s is written, and owns not all its parts: %w", err, vr.Name, ErrUnfinished)
		}
		step()
	}
	if remarks, err = c.dropFormer(ctx, vr, p.former, step); err != nil {
		return remarks, fmt.Errorf("%w: VidraResource %s is written, and parts of its former manifest stay: %w", err, vr.Name, ErrUnfinished)
	}
	return remarks, nil
}

// discard deletes the new parts of a VidraResource that stays unwritten because of an error, also after the end of ctx. It returns
// the error, with the errors of the deletions.
func (c *Client) discard(ctx context.Context, made []*storedPart, err error) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTimeout)
	defer cancel()
	for _, part := range made {
		if _, fault := c.deletePart(ending, part); fault != nil {
			err = fmt.Errorf("%w; %w: %w", err, fault, ErrUnfinished)
		}
	}
	return err
}

// dropFormer removes parts that no VidraResource names, once the operator has read the VidraResource without them.
func (c *Client) dropFormer(ctx context.Context, vr *v1alpha1.VidraResource, former []*storedPart, step func()) (remarks []string, err error) {
	if len(former) == 0 {
		return nil, nil
	}
	stay := func(why string) ([]string, error) {
		return []string{fmt.Sprintf("%s of the former manifest, such as %s: %s; the next call removes what is not used", display.Plural(len(former), "part"), former[0].key, why)}, nil
	}
	now, err := c.questions.Watch(ctx, vr.Name, AnswerTimeout, func(now *v1alpha1.VidraResource) bool { return now.Status.ObservedGeneration >= vr.Generation })
	switch {
	case errors.Is(err, insight.ErrTimeout):
		return stay("the operator has not read the new one within " + AnswerTimeout.String())
	case apierrors.IsForbidden(err):
		return stay("not removed, because " + err.Error())
	case err != nil:
		return nil, err
	case now == nil || now.UID != vr.UID:
		return stay("the VidraResource was deleted meanwhile")
	}
	all, err := c.questions.VidraResources(ctx, "")
	if err != nil { // a part that another one names must stay
		return stay("not removed, because " + err.Error())
	}
	for _, part := range former {
		i := slices.IndexFunc(all, func(vr *v1alpha1.VidraResource) bool { return slices.Contains(source.KeysOf(vr), part.key) })
		if i >= 0 {
			remarks = append(remarks, fmt.Sprintf("%s stays: VidraResource %s names it", part.key, all[i].Name))
			step()
			continue
		}
		gone, err := c.deletePart(ctx, part)
		if err != nil {
			return remarks, err
		}
		if !gone {
			remarks = append(remarks, part.key.String()+" stays: it was changed meanwhile")
		}
		step()
	}
	return remarks, nil
}
