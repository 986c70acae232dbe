package desired

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// rule is an ignore rule, ready to be matched.
type rule struct {
	spec     v1alpha1.IgnoreRule
	selector labels.Selector
	// pointers are the paths; found are those that cover something in the manifest.
	pointers []ignorePath
	found    map[int]bool
	// matched reports that the rule covers something in the manifest.
	matched bool
	// controllers reports that the rule is one for fields that controllers write by contract.
	controllers bool
}

// The ignore rules of a VidraResource may take maxIgnoreSteps to find the fields of all objects, see [ignorePath.in], and select maxIgnored fields of one: many
// paths that select all items of a long list would take all memory, and each heal looks for each of the fields. The paths to items of lists have at most
// as many names as the object has bytes, and maxIgnored: they are kept with it.
const (
	maxIgnoreSteps = 2_000_000
	maxIgnored     = 2000
)

// rules are the ignore rules of a VidraResource.
type rules struct {
	given []*rule
	// steps is the rest of maxIgnoreSteps.
	steps *int
	// controllers adds to them one for the fields that the controllers of each object write.
	controllers bool
}

// of returns the rules that cover an object of the manifest.
func (s rules) of(obj *unstructured.Unstructured) []*rule {
	var mine []*rule
	for _, r := range s.given {
		if r.covers(obj) {
			mine = append(mine, r)
		}
	}
	if s.controllers {
		if r := controllerRule(obj); r != nil {
			mine = append(mine, r)
		}
	}
	return mine
}

// rulesOf reads the ignore rules of a VidraResource.
func rulesOf(vr *v1alpha1.VidraResource) (rules, error) {
	drift := ptr.Deref(vr.Spec.Drift, v1alpha1.DriftPolicy{})
	all := rules{controllers: drift.ControllerFields != v1alpha1.ControllerFieldsRevert, steps: new(maxIgnoreSteps)}
	for i, spec := range drift.Ignore {
		selector := labels.Everything()
		if spec.Target.LabelSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(spec.Target.LabelSelector); err != nil {
				return rules{}, fmt.Errorf("spec.drift.ignore[%d].target.labelSelector: %w", i, err)
			}
		}
		r := &rule{spec: spec, selector: selector, found: map[int]bool{}}
		for j, path := range spec.Paths {
			pointer, err := parseIgnorePath(path)
			if err != nil {
				return rules{}, fmt.Errorf("spec.drift.ignore[%d].paths[%d]: %w", i, j, err)
			}
			r.pointers = append(r.pointers, pointer)
		}
		all.given = append(all.given, r)
	}
	return all, nil
}

// covers reports whether the rule is for an object of the manifest.
func (r *rule) covers(obj *unstructured.Unstructured) bool {
	target, gvk := r.spec.Target, obj.GroupVersionKind()
	same := func(want, is string) bool { return want == "" || want == is }
	group := same(target.Group, gvk.Group) || target.Group == v1alpha1.CoreGroup && gvk.Group == ""
	return group && same(target.Kind, gvk.Kind) &&
		same(target.Name, obj.GetName()) && same(target.Namespace, obj.GetNamespace()) &&
		r.selector.Matches(labels.Set(obj.GetLabels()))
}

// managedPaths are paths that are ignored where managers own them, or without managers in the fields of all of them; empty for all paths.
type managedPaths struct {
	paths    [][]string
	managers []string
	// copied is the number of names in the paths to items of lists: other paths share the memory of their rules.
	copied int
	// controllers reports that controllers write the paths by contract.
	controllers bool
}

// matchedIn returns the rules for an object of the manifest. given are the matching ones in the form of the spec, and it marks them as matched. It takes
// from steps as [ignorePath.in].
func matchedIn(mine []*rule, obj *unstructured.Unstructured, steps *int) (exempt Exemptions, given []v1alpha1.IgnoreRule) {
	exempt, found := exemptionsOf(mine, obj, steps)
	for i, r := range mine {
		if len(r.spec.Paths) > 0 && len(found[i]) == 0 {
			continue
		}
		for _, j := range found[i] {
			r.found[j] = true
		}
		r.matched = true
		given = append(given, r.spec)
	}
	return exempt, given
}

// unmatched names the rules, and the paths of other rules, that match nothing in the manifest.
func (s rules) unmatched() []string {
	var names []string
	for i, r := range s.given {
		if r.matched {
			for j, path := range r.spec.Paths {
				if !r.found[j] {
					names = append(names, fmt.Sprintf("spec.drift.ignore[%d].paths[%d] %s", i, j, display.Truncate(path, object.MaxReason)))
				}
			}
			continue
		}
		text, err := json.Marshal(r.spec)
		if err != nil {
			text = []byte(err.Error())
		}
		names = append(names, fmt.Sprintf("spec.drift.ignore[%d] %s", i, display.Truncate(string(text), object.MaxReason)))
	}
	return names
}

// exemptionsOf returns the rules that cover an object, with all their paths: the additions of a user to the
// object are absent from the manifest. found has the indexes of the paths of each rule that select something in the object. It takes from steps
// as [ignorePath.in].
func exemptionsOf(mine []*rule, obj *unstructured.Unstructured, steps *int) (exempt Exemptions, found [][]int) {
	found = make([][]int, len(mine))
	for i, r := range mine {
		m := managedPaths{managers: r.spec.Managers, controllers: r.controllers}
		for j, pointer := range r.pointers {
			paths, whole := pointer.from(obj.Object, steps)
			if whole {
				found[i] = append(found[i], j)
			}
			for _, path := range pointer.shared(paths) {
				if m.paths = append(m.paths, path); &path[0] != &pointer[0] {
					m.copied += len(path)
				}
			}
		}
		exempt = append(exempt, m.sorted())
	}
	return exempt, found
}

// sorted returns m with sorted paths, without those at or below others.
func (m managedPaths) sorted() managedPaths {
	slices.SortFunc(m.paths, slices.Compare)
	left := m.paths[:0]
	for _, path := range m.paths {
		if len(left) == 0 || !isBelow(path, left[len(left)-1]) {
			left = append(left, path)
		}
	}
	m.paths = left
	return m
}

// covers reports whether a path is at or below one of the paths, which are sorted: that one is the last before it.
func (m managedPaths) covers(path []string) bool {
	i, found := slices.BinarySearchFunc(m.paths, path, slices.Compare)
	return found || i > 0 && isBelow(path, m.paths[i-1])
}

// Exemptions are the ignore rules for one object.
type Exemptions []managedPaths

// fit returns an error for exemptions of more fields than maxIgnored, or with longer paths than an object of size bytes may have, and for those that had
// no steps left.
func (e Exemptions) fit(steps *int, size int) error {
	many, copied := 0, 0
	for _, m := range e {
		many, copied = many+len(m.paths), copied+m.copied
	}
	if many > maxIgnored || copied > maxIgnored+size || *steps < 0 {
		return fmt.Errorf("the paths of spec.drift.ignore select too many of its fields, more than %d, or deeper items of its lists than its size permits, or those of all objects take more than %d steps: "+
			"name fewer of them, or the list as a whole", maxIgnored, maxIgnoreSteps)
	}
	return nil
}

// Exempts reports whether the ignore rules leave a path to a field manager.
func (e Exemptions) Exempts(manager string, path []string) bool {
	return slices.ContainsFunc(e, func(m managedPaths) bool {
		return (len(m.managers) == 0 || slices.Contains(m.managers, manager)) &&
			(len(m.paths) == 0 || m.covers(path))
	})
}

// Controlled reports whether a path is left to the controllers that write it by contract.
func (e Exemptions) Controlled(path []string) bool {
	return slices.ContainsFunc(e, func(m managedPaths) bool {
		return m.controllers && m.covers(path)
	})
}

// ControllerFields returns the paths of the fields of the manifest that are left to the controllers that write them by contract, as messages
// have them.
func (e Exemptions) ControllerFields() []string {
	var all []string
	for _, m := range e {
		for i := 0; m.controllers && i < len(m.paths); i++ {
			text := ""
			for _, token := range m.paths[i] {
				if _, err := strconv.Atoi(token); err == nil {
					text += "[" + token + "]"
				} else {
					text = ownership.FieldPath(text, token)
				}
			}
			all = append(all, text)
		}
	}
	return all
}

// Without is an applied configuration without the fields that ignore rules exclude in the
// object as it is. whole is the object by a dry run of it: a field that is owned
// as a whole there is excluded as a whole. The marks of the owner stay.
func (e Exemptions) Without(body []byte, live, whole *unstructured.Unstructured, by object.Signature) (full, reduced map[string]any, err error) {
	if err := utiljson.Unmarshal(body, &full); err != nil {
		return nil, nil, fmt.Errorf("read the applied configuration again: %w", err)
	}
	reduced, manager := runtime.DeepCopyJSON(full), by.Manager
	cut := ownership.Wholes(whole, manager, full)
	ignored, managed := &ownership.Selection{}, map[string][]*ownership.Selection{}
	for _, m := range e {
		within, selects := ignored, false
		if len(m.managers) > 0 {
			within = &ownership.Selection{}
			if len(m.paths) == 0 {
				within.Add()
				selects = true
			}
		}
		for _, path := range m.paths {
			if len(ignorePath(path).in(full, new(maxIgnoreSteps))) > 0 {
				within.Add(cut(path)...)
				selects = true
			}
		}
		if selects {
			for _, name := range m.managers {
				managed[name] = append(managed[name], within)
			}
		}
	}
	ignored.SetBy(live, managed, full, whole, manager)
	ignored.Remove(reduced)
	by.Mark(&unstructured.Unstructured{Object: reduced})
	return full, reduced, nil
}

// isBelow reports whether a path is another one, or below it.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}
