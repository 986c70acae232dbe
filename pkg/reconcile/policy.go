package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// rule is an ignore rule, ready to be matched.
type rule struct {
	spec     v1alpha1.IgnoreRule
	selector labels.Selector
	// matched reports that the rule covers something in the manifest.
	matched bool
}

// rulesOf reads the ignore rules of a VidraResource.
func rulesOf(vr *v1alpha1.VidraResource) ([]*rule, error) {
	if vr.Spec.Drift == nil {
		return nil, nil
	}
	rules := make([]*rule, 0, len(vr.Spec.Drift.Ignore))
	for i, spec := range vr.Spec.Drift.Ignore {
		selector := labels.Everything()
		if spec.Target.LabelSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(spec.Target.LabelSelector); err != nil {
				return nil, fmt.Errorf("spec.drift.ignore[%d].target.labelSelector: %w", i, err)
			}
		}
		rules = append(rules, &rule{spec: spec, selector: selector})
	}
	return rules, nil
}

// covers reports whether the rule is for an object of the manifest.
func (r *rule) covers(obj *unstructured.Unstructured) bool {
	target, gvk := r.spec.Target, obj.GroupVersionKind()
	same := func(want, is string) bool { return want == "" || want == is }
	return same(target.Group, gvk.Group) && same(target.Kind, gvk.Kind) &&
		same(target.Name, obj.GetName()) && same(target.Namespace, obj.GetNamespace()) &&
		r.selector.Matches(labels.Set(obj.GetLabels()))
}

// ignored are the rules for one object.
type ignored struct {
	// paths are left to everybody.
	paths [][]string
	// managed are left to some managers.
	managed []managedPaths
}

// managedPaths are paths that are left to managers; no paths are all.
type managedPaths struct {
	paths    [][]string
	managers []string
}

// ignoredIn are the rules for an object of the manifest, also as they were given;
// nil if there are none. It marks the rules that cover something in it.
func ignoredIn(rules []*rule, obj *unstructured.Unstructured) (*ignored, []v1alpha1.IgnoreRule) {
	var ign ignored
	var given []v1alpha1.IgnoreRule
	for _, r := range rules {
		if !r.covers(obj) {
			continue
		}
		var paths [][]string
		for _, pointer := range r.spec.Paths {
			if path := parsePointer(pointer); hasPath(obj.Object, path) {
				paths = append(paths, path)
			}
		}
		switch {
		case len(r.spec.Paths) > 0 && len(paths) == 0:
			continue
		case len(r.spec.Managers) > 0:
			ign.managed = append(ign.managed, managedPaths{paths: paths, managers: r.spec.Managers})
		default:
			ign.paths = append(ign.paths, paths...)
		}
		r.matched = true
		given = append(given, r.spec)
	}
	if len(given) == 0 {
		return nil, nil
	}
	return &ign, given
}

// unmatched names the rules that match nothing in the manifest.
func unmatched(rules []*rule) []string {
	var names []string
	for i, r := range rules {
		if r.matched {
			continue
		}
		text, err := json.Marshal(r.spec)
		if err != nil {
			text = []byte(err.Error())
		}
		names = append(names, fmt.Sprintf("spec.drift.ignore[%d] %s", i, display.Truncate(string(text), maxReason)))
	}
	return names
}

// parsePointer splits a JSON pointer (RFC 6901) into its tokens.
func parsePointer(pointer string) []string {
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, token := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens
}

// hasPath reports whether a JSON value has something at a path.
func hasPath(value any, path []string) bool {
	for _, token := range path {
		found := false
		switch at := value.(type) {
		case map[string]any:
			value, found = at[token]
		case []any:
			var i int
			if i, found = indexIn(at, token); found {
				value = at[i]
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// withoutPath is a JSON value without what is at a path, if there is something. It
// changes the value. Maps and lists that are empty then stay.
func withoutPath(value any, path []string) any {
	token, last := path[0], len(path) == 1
	switch at := value.(type) {
	case map[string]any:
		if child, found := at[token]; found && last {
			delete(at, token)
		} else if found {
			at[token] = withoutPath(child, path[1:])
		}
	case []any:
		if i, found := indexIn(at, token); found && last {
			return slices.Delete(at, i, i+1)
		} else if found {
			at[i] = withoutPath(at[i], path[1:])
		}
	}
	return value
}

// indexIn is the index of a list that a token of a path names.
func indexIn(list []any, token string) (i int, found bool) {
	i, err := strconv.Atoi(token)
	return i, err == nil && i >= 0 && i < len(list)
}
