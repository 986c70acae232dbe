package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/export"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// withheld is printed in place of a text.
const withheld = "(withheld)"

// readers is how many objects are read or patched at the same time.
const readers = 8

// Client moves objects in one cluster, with the rights of one user.
type Client struct {
	program   insight.Program
	writes    *writes.Client
	questions *insight.Client
	objects   *export.Objects
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, o insight.Options) (*Client, error) {
	c := &Client{program: o.Program}
	var err error
	if c.writes, err = writes.New(config, o); err != nil {
		return nil, err
	}
	if c.questions, err = insight.New(config, o); err != nil {
		return nil, err
	}
	if c.objects, err = export.NewObjects(config); err != nil {
		return nil, err
	}
	return c, nil
}

// Tool is a tool that applied objects.
type Tool interface {
	// title names the source in messages, and origin is the value of v1alpha1.MigratedFromAnnotation.
	title() string
	origin() string
	// defaultName is the name of the VidraResource unless the user gives one.
	defaultName() string
	// read adds the VidraResource and the findings to a plan. It is called while no VidraResource exists.
	read(ctx context.Context, p *Plan) error
	// stop ends all writes and deletions of the tool, and start undoes that. state reports both.
	state(ctx context.Context) (state, error)
	stop(ctx context.Context, timeout time.Duration) error
	start(ctx context.Context) error
	// steps describe stop and the end of the migration, which the user does.
	steps() (stop, end string)
	// marks are on the objects of the tool.
	marks() marks
	// restore returns the traces that an undo gives back to an object. document is the object in the manifest; it may be nil.
	restore(vr *v1alpha1.VidraResource, live, document *unstructured.Unstructured) (traces, error)
}

// state is the state of a tool.
type state struct {
	// exists reports that the tool can be started again, begun that a write of stop is there, and stopped that all of them are.
	exists, begun, stopped bool
}

// Options are the choices of the user.
type Options struct {
	// Name is the VidraResource. Defaults to the name of the source.
	Name string
	// PartsNamespace is the namespace of the parts of a manifest of documents. See [writes.Creation].
	PartsNamespace string
	// Accept are the fields of findings that the user accepts.
	Accept []string
	// Timeout is how long each wait takes at most.
	Timeout time.Duration
	// Progress is called with the objects that are done, and all; it may be nil.
	Progress func(done, all int)
}

// Severity is the effect of a finding.
type Severity string

const (
	// Note needs no answer.
	Note Severity = "note"
	// Acceptable refuses a migration until the user accepts it.
	Acceptable Severity = "accept"
	// Refused refuses a migration.
	Refused Severity = "refused"
)

// Finding is something that lacks a counterpart in a VidraResource, or that is in the way of a migration.
type Finding struct {
	// Field is a field of the source, or another name. The user accepts it by this name.
	Field string `json:"field"`
	// Severity is the effect, and Accepted reports that the user accepts it.
	Severity Severity `json:"severity"`
	Accepted bool     `json:"accepted,omitempty"`
	Text     string   `json:"text"`
}

// Step is a step of a migration.
type Step struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

// Plan is a migration that can be applied.
type Plan struct {
	// From names the source, and Name is the VidraResource.
	From string `json:"from"`
	Name string `json:"name"`
	// VidraResource is the VidraResource that is created; the existing one if Exists is true.
	VidraResource *unstructured.Unstructured `json:"vidraResource"`
	Exists        bool                       `json:"exists,omitempty"`
	// Objects counts the objects that are adopted, or are in the inventory.
	Objects  int       `json:"objects"`
	Findings []Finding `json:"findings,omitempty"`
	Steps    []Step    `json:"steps"`

	// Remarks are messages to the user.
	Remarks []string `json:"-"`

	tool    Tool
	options Options
	// expected are the objects that the tool applied, as far as it has an inventory.
	expected []expected
	// drifted are the objects whose documents differ from them, unless the user accepts that.
	drifted  map[expected]bool
	creation *writes.Creation
	prepared *writes.Prepared
	// compared are the objects of the manifest, if they could be compared.
	compared []*insight.ObjectDifference
	vr       *v1alpha1.VidraResource
}

// expected is an object that a tool applied.
type expected struct{ apiVersion, kind, namespace, name string }

// is reports whether it is an object, in any version.
func (e expected) is(apiVersion, kind, namespace, name string) bool {
	group := func(apiVersion string) string { return schema.FromAPIVersionAndKind(apiVersion, kind).Group }
	return e.kind == kind && e.namespace == namespace && e.name == name && group(e.apiVersion) == group(apiVersion)
}

func (e expected) String() string {
	return strings.TrimSpace(display.Name(e.kind, e.namespace, e.name))
}

func (p *Plan) find(severity Severity, field, format string, args ...any) {
	p.Findings = append(p.Findings, Finding{Field: field, Severity: severity, Text: fmt.Sprintf(format, args...)})
}

// Blocked returns the findings that are in the way.
func (p *Plan) Blocked() (all []Finding) {
	for _, f := range p.Findings {
		if f.Severity == Refused || f.Severity == Acceptable && !f.Accepted {
			all = append(all, f)
		}
	}
	return all
}

func (p *Plan) accepts(field string) bool { return slices.Contains(p.options.Accept, field) }

// Plan returns the migration of the objects of a tool. It writes nothing.
func (c *Client) Plan(ctx context.Context, tool Tool, o Options) (*Plan, error) {
	p := &Plan{From: tool.title(), Name: o.Name, tool: tool, options: o, drifted: map[expected]bool{}}
	if p.Name == "" {
		p.Name = tool.defaultName()
	}
	vr, err := c.ours(ctx, p.Name, tool)
	if err != nil {
		return nil, err
	}
	now, err := tool.state(ctx)
	if err != nil {
		return nil, err
	}
	if vr != nil {
		p.Exists, p.vr, p.Objects = true, vr, len(vr.Status.ManagedResources)
		if p.VidraResource, err = c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
			return nil, c.program.VidraResourceError("get", p.Name, err)
		}
		unstructured.RemoveNestedField(p.VidraResource.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(p.VidraResource.Object, "status")
	} else if err := c.planNew(ctx, p); err != nil {
		return nil, err
	}
	for i := range p.Findings {
		f := &p.Findings[i]
		f.Accepted = f.Severity == Acceptable && p.accepts(f.Field)
	}
	for _, field := range o.Accept {
		if !p.Exists && !slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Field == field }) {
			if !now.begun {
				return nil, fmt.Errorf("--accept %s: %s has no such finding", field, p.From)
			}
			p.Remarks = append(p.Remarks, fmt.Sprintf("--accept %s: %s has no such finding, or no longer since an earlier run", field, p.From))
		}
	}
	stop, _ := tool.steps()
	if stop != "" {
		p.Steps = append(p.Steps, Step{stop, now.stopped})
	}
	p.withhold()
	left := 0
	if p.Exists {
		if left, err = c.release(ctx, p, false); err != nil {
			return nil, err
		}
	}
	adopted := p.Exists && settled(p.vr) == nil
	p.Steps = append(p.Steps, Step{fmt.Sprintf("create VidraResource %s, which adopts %s unchanged", p.Name, display.Plural(p.Objects, "object")), adopted},
		Step{"release " + tool.marks().describe(), adopted && left == 0})
	return p, nil
}

// withhold has the printed VidraResource without the texts of patches that may have values of a Secret or of a sensitive object.
func (p *Plan) withhold() {
	if p.VidraResource == nil {
		return
	}
	shown := p.VidraResource.DeepCopy() // the applied one keeps them
	patches, _, _ := unstructured.NestedSlice(shown.Object, "spec", "kustomize", "patches")
	changed := false
	for _, item := range patches {
		one, _ := item.(map[string]any)
		if patchesSecret(one) {
			one["patch"], changed = withheld, true
		}
	}
	if changed {
		_ = unstructured.SetNestedSlice(shown.Object, patches, "spec", "kustomize", "patches") // they are of this object
		p.VidraResource = shown
		p.find(Note, "patches", "a patch that may have values of a Secret is not printed, and is moved")
	}
}

// patchesSecret reports whether a patch of Kustomize may change a Secret or a sensitive object.
func patchesSecret(patch map[string]any) bool {
	text, _ := patch["patch"].(string)
	if bool(ownership.SensitivityOfManifest(text)) {
		return true
	}
	if patch["target"] == nil {
		return false // its text names the object
	}
	kind, _, _ := unstructured.NestedString(patch, "target", "kind")
	selects, err := regexp.Compile("^(?:" + kind + ")$")
	return kind == "" || err != nil || selects.MatchString("Secret")
}

// ours returns the VidraResource of a migration; nil if there is none. Another VidraResource of the name is an error, and so is a migration
// under another name.
func (c *Client) ours(ctx context.Context, name string, tool Tool) (*v1alpha1.VidraResource, error) {
	u, err := c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		all, err := c.questions.VidraResources(ctx, "")
		if err != nil {
			return nil, err
		}
		for _, vr := range all {
			if vr.Annotations[v1alpha1.MigratedFromAnnotation] == tool.origin() {
				return nil, fmt.Errorf("%s: moved to VidraResource %s already: use --name %s", tool.title(), vr.Name, vr.Name)
			}
		}
		return nil, nil //nolint:nilnil // that there is none is no error
	} else if err != nil {
		return nil, c.program.VidraResourceError("get", name, err)
	}
	vr, err := insight.AsVidraResource(u)
	if err != nil {
		return nil, err
	}
	if from := vr.Annotations[v1alpha1.MigratedFromAnnotation]; from != tool.origin() {
		return nil, fmt.Errorf("VidraResource %s exists, and is not migrated from %s: name another one with --name", name, tool.title())
	}
	return vr, nil
}

// planNew plans a new VidraResource.
func (c *Client) planNew(ctx context.Context, p *Plan) error {
	if err := p.tool.read(ctx, p); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Severity == Refused }) && p.VidraResource == nil {
		return nil
	}
	var err error
	if p.creation != nil {
		p.prepared, err = c.writes.Prepare(ctx, *p.creation)
	} else {
		p.prepared, err = c.writes.PrepareSources(ctx, p.VidraResource)
	}
	if err != nil {
		return err
	}
	p.VidraResource = p.prepared.Body()
	p.Remarks = append(p.Remarks, p.prepared.Remarks...)
	diff, err := c.writes.Difference(ctx, p.prepared)
	if err != nil { // such as an artifact that the user may not fetch
		p.find(Acceptable, "diff", "the objects were not compared: %s. Objects that differ are not adopted", err)
		return nil
	}
	p.Remarks = append(p.Remarks, diff.Remarks...)
	for _, d := range diff.VidraResources {
		for _, o := range d.Objects {
			p.judge(o)
		}
		p.compareInventory(d.Objects)
		p.compared = append(p.compared, d.Objects...)
	}
	return nil
}

// compareInventory adds the findings about objects that the tool applied, and that the manifest lacks.
func (p *Plan) compareInventory(found []*insight.ObjectDifference) {
	for _, e := range p.expected {
		if !slices.ContainsFunc(found, func(o *insight.ObjectDifference) bool { return e.is(o.APIVersion, o.Kind, o.Namespace, o.Name) }) {
			p.find(Acceptable, "inventory", "%s is not in the manifest that Vidra reads: it stays as it is, and nothing manages it", e)
		}
	}
}

// judge adds the finding about an object that would not be adopted unchanged.
func (p *Plan) judge(o *insight.ObjectDifference) {
	switch o.Action {
	case insight.ActionAdopt:
		p.Objects++
	case insight.ActionNone:
		if o.Why == "" {
			p.Objects++
			return
		}
		p.find(Acceptable, "left", "%s %s", o.Object(), o.Why)
	case insight.ActionCreate:
		p.find(Acceptable, "missing", "%s does not exist, and Vidra creates it", o.Object())
	default:
		if p.drifted[expected{o.APIVersion, o.Kind, o.Namespace, o.Name}] {
			return // a finding names the fields
		}
		p.find(Refused, "objects", "%s would be refused or changed: %s", o.Object(), orWhy(o))
	}
}

func orWhy(o *insight.ObjectDifference) string {
	if o.Why != "" {
		return o.Why
	}
	return "the action is " + o.Action
}

// settled returns an error unless the operator has applied all objects of a VidraResource.
func settled(vr *v1alpha1.VidraResource) error {
	if !vr.DeletionTimestamp.IsZero() {
		return errors.New("it is being deleted")
	}
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	if vr.Status.ObservedGeneration < vr.Generation || ready == nil {
		return errors.New("the operator has not reconciled it")
	}
	for _, problem := range vr.Status.Problems { // the health of the objects does not count
		if problem.In(v1alpha1.ConditionReady) && problem.Conditions[0] != v1alpha1.ConditionHealthy {
			return fmt.Errorf("%s: %s", insight.ProblemObject(problem.Object), problem.Message)
		}
	}
	return nil
}

// refuses reports whether a problem does not end by itself.
func refuses(p v1alpha1.Problem) bool {
	return p.Reason == v1alpha1.ReasonAdoptionRefused || p.Reason == v1alpha1.ReasonOwnershipConflict || p.Reason == v1alpha1.ReasonManifestInvalid
}

// Result is the outcome of a migration.
type Result struct {
	// Objects counts the adopted objects, and Released those whose fields and marks of the former tool were released.
	Objects, Released int
	// Compared counts the objects that were compared with their former state. Left are unmanaged objects of the tool.
	Compared int
	Left     []string
	// Changed describes the objects with changes beyond metadata.
	Changed []string
	// Next is the last step, for the user.
	Next string
}

// Apply carries out a plan.
func (c *Client) Apply(ctx context.Context, p *Plan) (*Result, error) {
	if blocked := p.Blocked(); len(blocked) > 0 {
		return nil, fmt.Errorf("%s is not moved: %s: %s", p.From, blocked[0].Field, blocked[0].Text)
	}
	before, err := c.snapshot(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := p.tool.stop(ctx, p.options.Timeout); err != nil {
		return nil, err
	}
	const back = "nothing was released. Correct it and run the command again, or go back with --undo"
	if p.Exists {
		err = c.writes.SecureParts(ctx, p.vr)
	} else {
		var remarks []string
		remarks, err = c.writes.Create(ctx, p.prepared, nil)
		p.Remarks = append(p.Remarks, remarks...)
	}
	if err != nil {
		return nil, fmt.Errorf("create VidraResource %s: %w; %s", p.Name, err, back)
	}
	var last error
	p.vr, err = c.questions.Watch(ctx, p.Name, p.options.Timeout, func(vr *v1alpha1.VidraResource) bool {
		last = settled(vr)
		return last == nil || vr.Status.ObservedGeneration >= vr.Generation && slices.ContainsFunc(vr.Status.Problems, refuses)
	})
	if err == nil || errors.Is(err, insight.ErrTimeout) && last != nil {
		err = last
	}
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s has not adopted all objects: %w; %s", p.Name, err, back)
	}
	released, err := c.release(ctx, p, true)
	if err != nil {
		return nil, fmt.Errorf("release the fields of %s: %w: run the command again", p.From, err)
	}
	_, next := p.tool.steps()
	result := &Result{Objects: len(p.vr.Status.ManagedResources), Released: released, Compared: len(before), Left: p.left(), Next: next}
	result.Changed, err = c.changed(ctx, before)
	return result, err
}

// left names the objects that the tool applied and that the inventory of the VidraResource lacks.
func (p *Plan) left() (all []string) {
	for _, e := range p.expected {
		if !slices.ContainsFunc(p.vr.Status.ManagedResources, func(m v1alpha1.ManagedResourceStatus) bool { return e.is(m.APIVersion, m.Kind, m.Namespace, m.Name) }) {
			all = append(all, e.String())
		}
	}
	return all
}

// read reads an object; nil if it is absent.
func (c *Client) read(ctx context.Context, apiVersion, kind, namespace, name string) (*unstructured.Unstructured, error) {
	at, err := c.objects.At(schema.FromAPIVersionAndKind(apiVersion, kind), namespace)
	if meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // that it is absent is no error
	} else if err != nil {
		return nil, err
	}
	u, err := at.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that it is absent is no error
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.TrimSpace(display.Name(kind, namespace, name)), err)
	}
	return u, nil
}

// each does something with each object of the inventory of a VidraResource, several at a time.
func (c *Client) each(ctx context.Context, vr *v1alpha1.VidraResource, progress func(done, all int), do func(ctx context.Context, i int, e v1alpha1.ManagedResourceStatus) error) error {
	all := vr.Status.ManagedResources
	var mu sync.Mutex // guards ended
	ended := 0
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(readers)
	for i := range all {
		running.Go(func() error {
			err := do(ctx, i, all[i])
			mu.Lock()
			defer mu.Unlock()
			if ended++; progress != nil {
				progress(ended, len(all))
			}
			return err
		})
	}
	return running.Wait()
}

// snapshot reads the objects before a migration.
func (c *Client) snapshot(ctx context.Context, p *Plan) ([]*unstructured.Unstructured, error) {
	if !access.IsLocal(p.vrOrBody().Spec.Destination.Server) {
		return nil, nil
	}
	if p.Exists {
		found := make([]*unstructured.Unstructured, len(p.vr.Status.ManagedResources))
		err := c.each(ctx, p.vr, nil, func(ctx context.Context, i int, e v1alpha1.ManagedResourceStatus) (err error) {
			found[i], err = c.read(ctx, e.APIVersion, e.Kind, e.Namespace, e.Name)
			return err
		})
		return slices.DeleteFunc(found, func(u *unstructured.Unstructured) bool { return u == nil }), err
	}
	var found []*unstructured.Unstructured
	for _, o := range p.compared {
		u, err := c.read(ctx, o.APIVersion, o.Kind, o.Namespace, o.Name)
		if err != nil {
			return nil, err
		}
		if u != nil {
			found = append(found, u)
		}
	}
	return found, nil
}

func (p *Plan) vrOrBody() *v1alpha1.VidraResource {
	if p.vr != nil {
		return p.vr
	}
	return p.prepared.VidraResource
}

// changed compares objects with their state before a migration.
func (c *Client) changed(ctx context.Context, before []*unstructured.Unstructured) (changed []string, err error) {
	for _, was := range before {
		now, err := c.read(ctx, was.GetAPIVersion(), was.GetKind(), was.GetNamespace(), was.GetName())
		switch {
		case err != nil:
			return changed, err
		case now == nil:
			changed = append(changed, object.IdentityIn(was).String()+" does not exist any more")
		case now.GetUID() != was.GetUID():
			changed = append(changed, object.IdentityIn(was).String()+" was created again")
		case !sameContent(was, now):
			changed = append(changed, object.IdentityIn(was).String()+" has other content")
		}
	}
	return changed, nil
}

// sameContent compares all but the metadata and the status. (The generation of some kinds also counts their annotations.)
func sameContent(a, b *unstructured.Unstructured) bool {
	for _, u := range []*unstructured.Unstructured{a, b} {
		u.Object = maps.Clone(u.Object)
		delete(u.Object, "metadata")
		delete(u.Object, "status")
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// patchObject sends patches of an object until one of them is for the version that was read. patch returns nil for none.
func (c *Client) patchObject(ctx context.Context, e v1alpha1.ManagedResourceStatus, patch func(live *unstructured.Unstructured) ([]byte, error)) (sent bool, err error) {
	at, err := c.objects.At(object.GVKOf(&e), e.Namespace)
	if err != nil {
		return false, err
	}
	const attempts = 10
	for range attempts {
		live, err := at.Get(ctx, e.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read %s: %w", object.IdentityOf(&e), err)
		}
		body, err := patch(live)
		if err != nil || body == nil {
			return false, err
		}
		_, err = at.Patch(ctx, e.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: insight.FieldManager})
		switch {
		case err == nil:
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("patch %s: %w", object.IdentityOf(&e), object.WithoutValues(err, ownership.Disclosure{}))
		}
	}
	return false, fmt.Errorf("patch %s: other writers change it all the time: stop them, and run the command again", object.IdentityOf(&e))
}

// Undone is the outcome of an undo.
type Undone struct {
	// Objects counts the objects that stay, and Deleted reports that the VidraResource existed.
	Objects int
	Deleted bool
}

// Undo returns the objects to their former tool. It may be repeated.
func (c *Client) Undo(ctx context.Context, tool Tool, o Options) (*Undone, error) {
	name := o.Name
	if name == "" {
		name = tool.defaultName()
	}
	done := &Undone{}
	now, err := tool.state(ctx)
	if err != nil {
		return nil, err
	}
	vr, err := c.ours(ctx, name, tool)
	switch {
	case err != nil:
		return nil, err
	case vr != nil && !now.exists:
		return nil, fmt.Errorf("%s does not exist any more, so that nothing could manage the objects: they stay with VidraResource %s, and nothing was written", tool.title(), name)
	case vr == nil && !now.begun:
		return nil, fmt.Errorf("%s is not moved: there is no VidraResource %s, and nothing to undo", tool.title(), name)
	}
	if vr != nil {
		done.Deleted, done.Objects = true, len(vr.Status.ManagedResources)
		if err := c.giveBack(ctx, tool, vr, o); err != nil {
			return nil, err
		}
	}
	return done, tool.start(ctx)
}

// giveBack returns the marks of a tool to the objects of a VidraResource, which it then deletes without them.
func (c *Client) giveBack(ctx context.Context, tool Tool, vr *v1alpha1.VidraResource, o Options) error {
	documents, err := c.documents(ctx, vr)
	if err != nil {
		return err
	}
	restore := func() error {
		return c.each(ctx, vr, o.Progress, func(ctx context.Context, _ int, e v1alpha1.ManagedResourceStatus) error {
			_, err := c.patchObject(ctx, e, func(live *unstructured.Unstructured) ([]byte, error) {
				return restored(tool, vr, live, documents[object.IdentityOf(&e)])
			})
			return err
		})
	}
	if vr.DeletionTimestamp.IsZero() {
		if err := restore(); err != nil {
			return fmt.Errorf("return the objects to %s: %w", tool.title(), err)
		}
	}
	if err := c.writes.Orphan(ctx, vr.Name); err != nil {
		return err
	}
	at := c.objects.Dynamic.Resource(v1alpha1.Resource)
	err = at.Delete(ctx, vr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(vr.UID)}})
	if err != nil && !apierrors.IsNotFound(err) {
		return c.program.VidraResourceError("delete", vr.Name, object.WithoutValues(err, ownership.Disclosure{}))
	}
	return c.awaitGone(ctx, vr, o.Timeout)
}

// awaitGone waits until the operator has released the objects of a VidraResource.
func (c *Client) awaitGone(ctx context.Context, vr *v1alpha1.VidraResource, timeout time.Duration) error {
	_, err := c.questions.Watch(ctx, vr.Name, timeout, func(now *v1alpha1.VidraResource) bool { return now.UID != vr.UID })
	if err == nil {
		return nil
	}
	if _, getErr := c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, vr.Name, metav1.GetOptions{}); apierrors.IsNotFound(getErr) {
		return nil
	}
	return fmt.Errorf("VidraResource %s is not gone: %w: check that the operator runs, and run the command again", vr.Name, err)
}
