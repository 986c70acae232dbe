package ownership

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutStaleOwners(t *testing.T) {
	const content = `"spec":{"a":1,"b":2,"m":{"x":1,"y":2}}`
	const both = `{"f:spec":{"f:a":{},"f:m":{"f:x":{}}}}`
	tests := map[string]struct {
		reason  string
		entries []string
		left    []string // the managers whose entries are left; nil if nothing changes
		fields  string   // what the first entry that is left beside ours owns
	}{
		"MadeUp":     {"All of the entry is ours.", []string{ours(both), theirs("before-first-apply", both)}, []string{manager}, ""},
		"Rest":       {"What the manifest does not have keeps its owner.", []string{ours(both), theirs("kubectl-client-side-apply", `{"f:spec":{"f:a":{},"f:b":{}}}`)}, []string{manager, "kubectl-client-side-apply"}, `{"f:spec":{"f:b":{}}}`},
		"Parent":     {"A map goes with its last field.", []string{ours(both), theirs("helm", `{"f:spec":{".":{},"f:m":{".":{},"f:x":{}}}}`)}, []string{manager}, ""},
		"ParentRest": {"A map of another field stays.", []string{ours(both), theirs("helm", `{"f:spec":{"f:m":{".":{},"f:x":{},"f:y":{}}}}`)}, []string{manager, "helm"}, `{"f:spec":{"f:m":{".":{},"f:y":{}}}}`},
		"Whole":      {"A map that is ours as a whole says nothing about its fields.", []string{ours(`{"f:spec":{"f:m":{}}}`), theirs("helm", `{"f:spec":{"f:m":{"f:x":{}}}}`)}, nil, ""},
		"Controller": {"A controller may want its field.", []string{ours(both), theirs("some-controller", both)}, nil, ""},
		"Applier":    {"An applier removes its field by an apply.", []string{ours(both), managed("kubectl", "Apply", "2026-01-02T03:05:00Z", both)}, nil, ""},
		"Unshared":   {"Nothing of the entry is ours.", []string{ours(both), theirs("kubectl-edit", `{"f:spec":{".":{},"f:b":{}}}`)}, nil, ""},
		"NotOurs":    {"We own nothing.", []string{theirs("before-first-apply", both)}, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj := widget(t, content, tt.entries...)
			before := obj.DeepCopy()
			got, changed := WithoutStaleOwners(obj, manager, DefaultTools)
			require.Equal(t, before, obj, "the argument is not modified")
			require.Equal(t, tt.left != nil, changed, tt.reason)
			if !changed {
				return
			}
			var left []string
			for _, item := range got {
				entry := item.(map[string]any)
				if left = append(left, entry["manager"].(string)); entry["manager"] != manager {
					fields, err := json.Marshal(entry["fieldsV1"])
					require.NoError(t, err)
					require.JSONEq(t, tt.fields, string(fields), tt.reason)
				}
			}
			require.Equal(t, tt.left, left, tt.reason)
		})
	}
}

// TestCoOwned compares the fields of other managers with those that managers with a prefix applied.
func TestCoOwned(t *testing.T) {
	t.Parallel()
	const fields = `{"f:data":{"f:a":{},"f:m":{"f:x":{}}}}`
	forged := func(n int, operation, name string) []string {
		all := []string{ours(fields)}
		for i := range n {
			all = append(all, managed(fmt.Sprintf("%s%d", name, i), operation, "2026-01-02T03:05:00Z", `{"f:data":{"f:z":{}}}`))
		}
		return all
	}
	tests := map[string]struct {
		reason  string
		entries []string
		want    bool
	}{
		"Alone":         {"Nobody else owns a field.", []string{ours(fields)}, false},
		"Field":         {"The same field.", []string{ours(fields), theirs("helm", `{"f:data":{"f:a":{}}}`)}, true},
		"Below":         {"A field of a map.", []string{ours(fields), theirs("helm", `{"f:data":{"f:m":{"f:x":{}}}}`)}, true},
		"Whole":         {"A map as a whole.", []string{ours(fields), theirs("helm", `{"f:data":{"f:m":{}}}`)}, true},
		"OursWhole":     {"A field of a map that is ours as a whole.", []string{ours(`{"f:data":{}}`), theirs("helm", `{"f:data":{"f:b":{}}}`)}, true},
		"Beside":        {"Another field of the same map.", []string{ours(fields), theirs("helm", `{"f:data":{".":{},"f:b":{},"f:m":{".":{},"f:y":{}}}}`)}, false},
		"AnotherOfOurs": {"Another VidraResource that applies is none of the others.", []string{ours(fields), managed("vidra/other", "Apply", "2026-01-02T03:05:00Z", fields)}, false},
		"Applied":       {"Another manager applies the same field.", []string{ours(fields), managed("kustomize", "Apply", "2026-01-02T03:05:00Z", `{"f:data":{"f:a":{}}}`)}, true},
		"OursByUpdate":  {"An Update of our name counts as one of another.", []string{ours(fields), theirs(manager, `{"f:data":{"f:a":{}}}`)}, true},
		"MostOthers":    {"As many entries as are compared.", forged(maxOthers, "Update", "tool"), false},
		"TooManyOthers": {"More entries are forged.", forged(maxOthers+1, "Update", "tool"), true},
		"MostOfOurs":    {"As many appliers as are compared.", forged(maxApplied-1, "Apply", "vidra/"), false},
		"TooManyOfOurs": {"More appliers are forged.", forged(maxApplied, "Apply", "vidra/"), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, CoOwned(widget(t, `"data":{}`, tt.entries...), "vidra/"), tt.reason)
		})
	}
}

// TestKept names the owners of fields that an apply dropped and that stay.
func TestKept(t *testing.T) {
	t.Parallel()
	before := widget(t, `"data":{"a":"1","b":"2","c":"3"}`, ours(`{"f:data":{"f:a":{},"f:b":{},"f:c":{}}}`), theirs("helm", `{"f:data":{"f:b":{}}}`))
	after := widget(t, `"data":{"a":"1","b":"2","c":"3"}`, ours(`{"f:data":{"f:a":{}}}`), managed("vidra/other", "Apply", "2026-01-02T03:05:00Z", `{"f:data":{"f:b":{}}}`),
		theirs("argocd", `{"f:data":{"f:c":{}}}`), theirs("helm", `{"f:data":{"f:a":{},"f:b":{},"f:c":{}}}`),
		managed("kustomize", "Apply", "2026-01-02T03:05:00Z", `{"f:data":{"f:c":{}}}`), theirs("vidra/ghost", `{"f:data":{"f:c":{}}}`), `{"manager":"empty","operation":"Update"}`)
	kept := Kept(before, after, manager, "vidra/", shown)
	var got []string
	for _, field := range kept {
		got = append(got, field.Path+" "+field.Manager)
	}
	require.Equal(t, []string{"data.b helm", "data.c argocd", "data.c helm", "data.c kustomize", "data.c vidra/ghost"}, got)
	require.Equal(t, Others(widget(t, `"data":{}`, theirs("x", `{"f:data":{"f:b":{},"f:c":{}}}`)), "vidra/"), KeptPaths(kept))
	require.Empty(t, Kept(before, before, manager, "vidra/", shown), "nothing was dropped")
	require.Empty(t, Kept(after, before, manager, "vidra/", shown), "nothing was dropped, as the later apply has more")
	require.Empty(t, KeptPaths(nil))

	secret := Kept(widget(t, `"spec":{"tags":["token"]}`, ours(`{"f:spec":{"f:tags":{"v:\"token\"":{}}}}`)), widget(t, `"spec":{"tags":["token"]}`, ours(`{"f:spec":{}}`), theirs("helm", `{"f:spec":{"f:tags":{"v:\"token\"":{}}}}`)),
		manager, "vidra/", Disclose(true, false, false))
	require.Len(t, secret, 1)
	require.Equal(t, "spec.tags[*]", secret[0].Path, "the item of a sensitive object is withheld")
}
