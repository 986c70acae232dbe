package insight

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// Kept is the last edit of an object in the text of its manifest.
type Kept struct {
	VidraResource string `json:"vidraResource"`
	// Object is the object in messages.
	Object string `json:"object"`
	// Edit is the edit, with its author.
	Edit string      `json:"edit"`
	Time metav1.Time `json:"time"`
	// Fields are the places of the edited fields.
	Fields []FieldLine `json:"fields"`
	// Diff is a unified diff of the text, as `git apply` takes it if the text is a file; empty if the text has the values already. Lines
	// with values that are never shown are left out or masked.
	Diff string `json:"diff,omitempty"`
	// Manual is the reason for which the user has to change the text; empty if it can be written.
	Manual string `json:"manual,omitempty"`

	// Before and After are the text. File is its name if it is one of the files of the question; Source names the object that holds it
	// otherwise, with nil for spec.manifest.
	Before string                   `json:"-"`
	After  string                   `json:"-"`
	File   string                   `json:"-"`
	Source *v1alpha1.ManifestSource `json:"-"`
	// Managers are the other field managers of spec.manifest.
	Managers []string `json:"-"`
	// Owner is the VidraResource as it was read.
	Owner *v1alpha1.VidraResource `json:"-"`
}

// keptReasons are the reasons of edits that can be kept.
var keptReasons = []string{events.ReasonDriftCorrected, v1alpha1.ReasonDriftDetected, v1alpha1.ReasonDriftContended}

// Keep returns the last edit of an object that was reverted, or that is unreverted, in the text of its manifest, or in files if there are
// some. It writes nothing. It fails for an edit with withheld values.
func (c *Client) Keep(ctx context.Context, of Target, files []File) (*Kept, error) {
	s, err := c.look(ctx, of)
	if err != nil {
		return nil, err
	}
	vr, edit := s.lastEdit()
	switch {
	case len(s.owners) == 0:
		return nil, fmt.Errorf("the VidraResource of %s cannot be read: %s", s.title(), strings.Join(s.missing, "; "))
	case edit == nil:
		return nil, fmt.Errorf("no edit of %s is known from the history of VidraResource %s; the history of an edit follows within some seconds", s.title(), s.owners[0].Name)
	case len(edit.Fields) == 0:
		return nil, fmt.Errorf("the last edit deleted %s: remove it from the manifest to keep that", s.title())
	case bool(ownership.SensitivityOf(s.live)) || s.id.GroupKind == object.SecretKind:
		return nil, fmt.Errorf("%s has values that are not shown, and so are not recorded: change its manifest", s.title())
	}
	k := &Kept{VidraResource: vr.Name, Object: s.title(), Edit: edit.Message, Time: edit.LastTime, Owner: vr}
	if len(files) > 0 {
		return k, s.keepIn(k, files, edit)
	}
	at, why := s.locate(ctx, vr)
	if at == nil {
		return nil, fmt.Errorf("find %s in the manifest of VidraResource %s: %s", s.title(), vr.Name, why)
	}
	if at.located.Secret() {
		return nil, fmt.Errorf("the manifest of %s is in a Secret, whose values are not shown: change it at %s", s.title(), at.place())
	}
	k.Source, k.Before = at.located.Source(), at.located.Text()
	name, in := "spec.manifest", at.start()
	switch file, _ := at.located.File(); {
	case k.Source == nil:
		k.Managers = othersOfManifest(vr)
	case source.IsArtifact(k.Source.Kind) && file == "":
		return nil, fmt.Errorf("the file of %s is not known: change it at %s", s.title(), at.place())
	case source.IsArtifact(k.Source.Kind):
		name, in = file, file
		k.Manual = fmt.Sprintf("%s has the file: commit the patch where it comes from", source.KeyOf(vr, *k.Source))
	default:
		key := source.KeyOf(vr, *k.Source)
		name = path.Join(strings.ToLower(key.Kind), key.Namespace, key.Name, k.Source.Key)
	}
	return k, s.amend(k, edit, at, name, in)
}

// othersOfManifest are the field managers of spec.manifest, but for the commands of Vidra.
func othersOfManifest(vr *v1alpha1.VidraResource) []string {
	var others []string
	for _, entry := range vr.ManagedFields {
		if entry.Manager != FieldManager && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:manifest":`) {
			others = append(others, entry.Manager)
		}
	}
	return others
}

// lastEdit returns the newest edit of the object in the histories of its owners, with the VidraResource, or nil.
func (s *subject) lastEdit() (of *v1alpha1.VidraResource, last *v1alpha1.HistoryEntry) {
	for _, vr := range s.owners {
		for i := range vr.Status.History {
			e := &vr.Status.History[i]
			if s.is(e.Object) && slices.Contains(keptReasons, e.Reason) && (last == nil || e.LastTime.After(last.LastTime.Time)) {
				of, last = vr, e
			}
		}
	}
	return of, last
}

// keepIn finds the object in files, or in a VidraResource of files, and writes the edit there.
func (s *subject) keepIn(k *Kept, files []File, edit *v1alpha1.HistoryEntry) error {
	parsed, err := parseFiles(files)
	if err != nil {
		return err
	}
	for _, f := range parsed {
		at, err := desired.Locate(k.Owner, []desired.Part{desired.NewPart("", f.file.Text, false)}, s.id)
		if err != nil {
			return fmt.Errorf("%s: %w", f.file.Name, err)
		}
		if at != nil {
			k.File, k.Before = f.file.Name, f.file.Text
			return s.amend(k, edit, &located{located: at, vr: k.Owner}, f.file.Name, f.file.Name)
		}
	}
	for _, f := range parsed {
		for _, obj := range f.objects {
			if !isVidraResource(obj) || obj.GetName() != k.VidraResource {
				continue
			}
			inner, _, _ := unstructured.NestedString(obj.Object, "spec", "manifest")
			at, err := desired.Locate(k.Owner, []desired.Part{desired.NewPart("", inner, false)}, s.id)
			if err != nil || at == nil {
				return errors.Join(fmt.Errorf("%s: VidraResource %s does not have %s", f.file.Name, obj.GetName(), s.title()), err)
			}
			inside := *k
			inside.Before = inner
			if err := s.amend(&inside, edit, &located{located: at, vr: k.Owner}, f.file.Name, "spec.manifest in "+f.file.Name); err != nil {
				return err
			}
			k.File, k.Before, k.Fields = f.file.Name, f.file.Text, inside.Fields
			k.After, err = manifest.Amend(f.file.Text, obj.Position, []manifest.Amendment{{Path: []string{"spec", "manifest"}, Value: inside.After}}, manifest.Options{})
			if err != nil {
				return fmt.Errorf("%s: %w", f.file.Name, err)
			}
			k.Diff, _ = patchOf(k.Owner, f.file.Name, k.Before, k.After)
			return nil
		}
	}
	return fmt.Errorf("%s: no file has %s", FileNames(files), s.title())
}

// amend writes the values of an edit into the text. name is the name of the text in the diff, and in where lines are counted from.
func (s *subject) amend(k *Kept, edit *v1alpha1.HistoryEntry, at *located, name, in string) error {
	var amendments []manifest.Amendment
	for i, field := range edit.Fields {
		value := ""
		if i < len(edit.Values) {
			value = edit.Values[i]
		}
		tokens := s.tokens(at, field)
		line := at.located.Line(tokens...)
		k.Fields = append(k.Fields, FieldLine{Field: field, Place: fmt.Sprintf("line %d of %s", line, in)})
		switch {
		case value == "":
			return fmt.Errorf("the value of %s is not recorded, because it is long or withheld: change line %d of %s", field, line, in)
		case tokens == nil:
			return fmt.Errorf("the manifest does not have %s, which the edit added: change it at line %d of %s", field, line, in)
		case at.overridden(tokens):
			k.Manual = fmt.Sprintf("%s does not have the value of %s, which a patch, a setting or a variable of the kustomization sets: change that", in, field)
			return nil
		}
		a := manifest.Amendment{Path: tokens}
		if a.Remove = value == "null"; !a.Remove && utiljson.Unmarshal([]byte(value), &a.Value) != nil {
			return fmt.Errorf("the value of %s cannot be read", field) // the error may quote it
		}
		amendments = append(amendments, a)
	}
	// Later items of a list first, so that none moves before it is removed.
	slices.SortStableFunc(amendments, func(a, b manifest.Amendment) int { return comparePaths(b.Path, a.Path) })
	after, err := manifest.Amend(k.Before, at.located.Object.Position, amendments, manifest.Options{})
	if err != nil {
		return fmt.Errorf("%s in %s: %w: change it at %s", s.title(), in, err, k.Fields[0].Place)
	}
	k.After = after
	var whole bool
	if k.Diff, whole = patchOf(k.Owner, name, k.Before, after); !whole && k.Manual != "" {
		k.Manual += ": change it there, as lines of the patch have values that are not shown, and it does not apply"
	}
	return nil
}

// comparePaths orders paths, with indexes of lists as numbers.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(a, b string) int {
		left, errLeft := strconv.Atoi(a)
		right, errRight := strconv.Atoi(b)
		if errLeft == nil && errRight == nil {
			return left - right
		}
		return strings.Compare(a, b)
	})
}

// nameInPath matches a name of a path as a history has it: plain, or quoted in brackets.
var nameInPath = regexp.MustCompile(`^(?:\.?([^.\[\]" ]+)|\[("(?:[^"\\]|\\.)*")\])`)

// tokens returns the path of a field in the text of the manifest; nil if the text cannot have it.
func (s *subject) tokens(at *located, field string) []string {
	if s.live != nil && !Remote(at.vr) {
		m := &ManagedBy{located: at}
		m.addFields(s.live, signature(at.vr).Manager, ownership.Disclose(false, ownership.SensitivityOf(s.live), false))
		for _, one := range m.configured {
			if one.Path == field {
				return one.Tokens
			}
		}
	}
	var names []string
	for rest := field; rest != ""; {
		found := nameInPath.FindStringSubmatch(rest)
		if found == nil {
			return nil // it leads through an item of a list that the manifest does not have
		}
		name := found[1]
		if found[2] != "" {
			var err error
			if name, err = strconv.Unquote(found[2]); err != nil {
				return nil
			}
		}
		names, rest = append(names, name), rest[len(found[0]):]
	}
	return names
}
