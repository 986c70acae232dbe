package ownership

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// undoOf is an Undo of what is applied to a widget, given as members of a JSON object.
func undoOf(t *testing.T, configuration string) Undo {
	t.Helper()
	return Undo{Known: shown, Manager: manager, Prefix: "vidra/", Configuration: object(t, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},`+configuration+`}`).Object}
}

// pathsIn are the paths of changes.
func pathsIn(changes []Change) []string {
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths
}

// TestAdded finds what an edit added, in objects as the API server returns them after it.
func TestAdded(t *testing.T) {
	const (
		union = `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`
		// mounted is what is left of ours in it when emptyDir has gone.
		mounted  = `{"f:spec":{"f:volumes":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`
		hostPath = `{"f:spec":{"f:volumes":{"k:{\"name\":\"a\"}":{"f:hostPath":{".":{},"f:path":{}}}}}}`
		toHost   = `"spec":{"volumes":[{"name":"a","hostPath":{"path":"/"}}]}`
		ports    = `"spec":{"ports":[{"port":80}]}`
	)
	cases := map[string]struct {
		reason        string
		configuration string
		found         string
		managed       []string
		change        func(*Undo)
		want          []string
	}{
		"Union": {
			reason: "One member of a union goes, and another one comes.", configuration: union, found: toHost,
			managed: []string{ours(mounted), theirs("kubectl-edit", hostPath)}, want: []string{`spec.volumes[name="a"].hostPath`},
		},
		"ItemRenamed": {
			reason: "An item of a list goes, and another one comes.", configuration: `"spec":{"containers":[{"name":"web","image":"a"}]}`,
			found:   `"spec":{"containers":[{"name":"www","image":"a"}]}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:containers":{"k:{\"name\":\"www\"}":{".":{},"f:name":{},"f:image":{}}}}}`)},
			want:    []string{`spec.containers[name="www"]`},
		},
		"DefaultedKey": {
			reason: "The manifest leaves out a key that has a default.", configuration: ports, found: `"spec":{"ports":[{"port":80,"protocol":"UDP"}]}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}}}}}`)},
			want:    []string{`spec.ports[port=80,protocol="UDP"]`},
		},
		"DefaultedKeyInPlace": {
			reason: "What is ours with its default is not taken for removed.", configuration: ports,
			found: `"spec":{"ports":[{"port":80,"protocol":"TCP"},{"port":81,"protocol":"TCP"}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`),
				theirs("kubectl-edit", `{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}}}}`),
			},
		},
		"ZeroKey": {
			reason: "The server leaves out a key whose default is empty.", configuration: `"spec":{"secrets":[{"name":"a"}]}`, found: `"spec":{"secrets":[{}]}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("node-fetch", `{"f:spec":{"f:secrets":{"k:{\"name\":\"\"}":{}}}}`)},
			want:    []string{`spec.secrets[name=""]`},
		},
		"ZeroKeys": {
			reason: "One of several keys, in an item of an item.", configuration: `"spec":{"racks":[{"name":"a","slots":[{"row":1,"column":2}]}]}`,
			found: `"spec":{"racks":[{"name":"a","slots":[{"row":1}]}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:racks":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`),
				theirs("node-fetch", `{"f:spec":{"f:racks":{"k:{\"name\":\"a\"}":{"f:slots":{"k:{\"column\":0,\"row\":1}":{".":{},"f:row":{}}}}}}}`),
			},
			want: []string{`spec.racks[name="a"].slots[column=0,row=1]`},
		},
		"ZeroKeyInPlace": {
			reason: "What is ours without its key is not taken for removed.", configuration: `"spec":{"secrets":[{},{"name":"a"}]}`,
			found: `"spec":{"secrets":[{"name":"a"},{},{"name":"b"}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:secrets":{"k:{\"name\":\"\"}":{},"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`),
				theirs("node-fetch", `{"f:spec":{"f:secrets":{"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}}`),
			},
		},
		"Set": {
			reason: "An item of a set.", configuration: `"spec":{"tags":["a","b"]}`, found: `"spec":{"tags":["a","c"]}`,
			managed: []string{ours(`{"f:spec":{"f:tags":{"v:\"a\"":{}}}}`), theirs("kubectl-edit", `{"f:spec":{"f:tags":{"v:\"c\"":{}}}}`)},
			want:    []string{`spec.tags[="c"]`},
		},
		"KeyRenamed": {
			reason: "A key of a map.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`)}, want: []string{"data.b"},
		},
		"BelowTheParent": {
			reason: "What was added elsewhere stays: nothing was removed there.", configuration: `"data":{"a":"1"},"spec":{"x":1}`,
			found:   `"data":{"b":"1"},"spec":{"x":1,"y":2}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{}},"f:spec":{"f:y":{}}}`)}, want: []string{"data.b"},
		},
		"Value": {
			reason: "A changed value is no removal.", configuration: `"spec":{"x":1}`, found: `"spec":{"x":2,"y":2}`,
			managed: []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:x":{},"f:y":{}}}`)},
		},
		"ValueRefused": {
			reason: "Unless the API server refuses to have it back.", configuration: `"spec":{"x":1}`, found: `"spec":{"x":2,"y":2}`,
			managed: []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:x":{},"f:y":{}}}`)},
			change:  func(u *Undo) { u.Scope = BesideChanged }, want: []string{"spec.y"},
		},
		"Everything": {
			reason: "Then even what was added elsewhere.", configuration: `"data":{"a":"1"}`, found: `"data":{"a":"1"},"spec":{"y":2}`,
			managed: []string{ours(`{"f:data":{"f:a":{}}}`), theirs("kubectl-edit", `{"f:spec":{".":{},"f:y":{}}}`)},
			change:  func(u *Undo) { u.Scope = Everything }, want: []string{"spec"},
		},
		"Unowned": {
			reason: "At last what no manager owns: a default that came with the value.", configuration: `"spec":{"strategy":{"type":"A"},"z":1}`,
			found:   `"spec":{"strategy":{"type":"B","b":{"size":1,"step":2}},"limit":3,"z":1},"status":{"size":1}`,
			managed: []string{ours(`{"f:spec":{"f:z":{}}}`), managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:strategy":{"f:type":{}}}}`)},
			change:  func(u *Undo) { u.Scope, u.BeforeKnown = SinceApply, true }, want: []string{"spec.strategy.b"},
		},
		"PartlyUnowned": {
			reason: "The other client set a part of it.", configuration: `"spec":{"strategy":{"type":"A"}}`,
			found: `"spec":{"strategy":{"type":"B","b":{"size":1,"step":2}}}`,
			managed: []string{
				ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`),
				managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:strategy":{"f:type":{},"f:b":{"f:size":{}}}}}`),
			},
			change: func(u *Undo) { u.Scope = SinceApply }, want: []string{"spec.strategy.b"},
		},
		"UnownedInAnItem": {
			reason: "In an item of a list.", configuration: `"spec":{"parts":[{"name":"a","type":"A"}]}`,
			found: `"spec":{"parts":[{"name":"a","type":"B","b":{"size":[1]}}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`),
				managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:type":{}}}}}`),
			},
			change: func(u *Undo) { u.Scope = SinceApply }, want: []string{`spec.parts[name="a"].b`},
		},
		"OwnedBeforeTheFirstApply": {
			reason: "What was there before the first apply has an owner.", configuration: `"spec":{"type":"A"}`, found: `"spec":{"type":"B","old":1}`,
			managed: []string{
				ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), managed("before-first-apply", "Update", "2026-01-02T03:04:00Z", `{"f:spec":{"f:old":{}}}`),
				managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:type":{}}}`),
			},
			change: func(u *Undo) { u.Scope = SinceApply },
		},
		"UnownedByTheServer": {
			reason: "What the API server keeps about the object is no part of an edit.", configuration: `"metadata":{"annotations":{"a":"1"}},"type":"A"`,
			found:   `"type":"B","status":{"size":1}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:type":{}}`)},
			change:  func(u *Undo) { u.Scope = SinceApply },
		},
		"Dropped": {
			reason: "What the API server never kept was not removed.", configuration: `"spec":{"x":0,"y":1}`, found: `"spec":{"y":1,"z":1}`,
			managed: []string{ours(`{"f:spec":{"f:x":{},"f:y":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:z":{}}}`)},
		},
		"Before": {
			reason: "What was there before the edit stays.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1","c":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{},"f:c":{}}}`)},
			change: func(u *Undo) {
				u.Before = Others(widget(t, `"data":{}`, theirs("someone", `{"f:data":{"f:c":{}}}`)), "vidra/")
				u.BeforeKnown = true
			},
			want: []string{"data.b"},
		},
		"BeforeOurApply": {
			reason: "Where it is not known, an entry that is older than our apply stays.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), managed("kubectl-edit", "Update", "2026-01-02T03:04:00Z", `{"f:data":{"f:b":{}}}`)},
		},
		"Kept": {
			reason: "What an ignore rule leaves to its manager stays.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1","c":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{},"f:c":{}}}`)},
			change: func(u *Undo) {
				u.Keep = func(manager string, path []string) bool {
					return manager == "kubectl-edit" && slices.Equal(path, []string{"data", "c"})
				}
			},
			want: []string{"data.b"},
		},
		"Subresource": {
			reason: "A subresource is no edit.", configuration: `"spec":{"a":1}`, found: `"spec":{"replicas":1}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), strings.Replace(theirs("hpa", `{"f:spec":{"f:replicas":{}}}`), `{`, `{"subresource":"scale",`, 1)},
		},
		"Webhook": {
			reason: "What a webhook added to an apply of ours or of another VidraResource stays.", configuration: `"spec":{"a":1}`, found: `"spec":{"b":1,"c":1}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs(manager, `{"f:spec":{"f:b":{}}}`), theirs("vidra/other", `{"f:spec":{"f:c":{}}}`)},
		},
		"ForgedName": {
			reason: "Nobody hides behind our name.", configuration: `"spec":{"a":1}`, found: `"spec":{"b":1,"c":1}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs(manager, `{"f:spec":{"f:b":{}}}`), theirs("vidra/ghost", `{"f:spec":{"f:c":{}}}`)},
			change:  func(u *Undo) { u.BeforeKnown = true }, want: []string{"spec.b", "spec.c"},
		},
		"OtherVersion": {
			reason: "A path that the object does not have was written through another version.", configuration: `"spec":{"a":1}`, found: `"spec":{"c":1}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:spec":{"f:b":{},"f:c":{}}}`)}, want: []string{"spec.c"},
		},
		"WrittenSince": {
			reason: "An item that goes takes along what others wrote in it.", configuration: `"spec":{"parts":[{"name":"a"}]}`, found: `"spec":{"parts":[{"name":"b","size":1}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:parts":{"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}}`),
				managed("controller", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:parts":{"k:{\"name\":\"b\"}":{"f:size":{}}}}}`),
			},
			want: []string{`spec.parts[name="b"]`},
		},
		"Unobserved": {
			reason: "Of an edit that no event showed, what the status did not record was added.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1","c":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{},"f:c":{}}}`)},
			change: func(u *Undo) {
				u.Before = Others(widget(t, `"data":{}`, theirs("kubectl-edit", `{"f:data":{"f:c":{}}}`)), "vidra/")
				u.BeforeKnown, u.Unobserved = true, true
			},
			want: []string{"data.b"},
		},
		"UnobservedBeforeOurApply": {
			reason: "An entry that is older than our apply is no part of it, whatever the status recorded.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), managed("kubectl-edit", "Update", "2026-01-02T03:04:00Z", `{"f:data":{"f:b":{}}}`)},
			change:  func(u *Undo) { u.BeforeKnown, u.Unobserved = true, true },
		},
		"UnobservedOfTwo": {
			reason: "Which of two managers edited the data is not known. In the spec, one did.", configuration: `"data":{"a":"1"},"spec":{"x":1}`,
			found: `"data":{"b":"1","c":"1"},"spec":{"y":1}`,
			managed: []string{
				ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{}},"f:spec":{"f:y":{}}}`), theirs("mesh", `{"f:data":{"f:c":{}}}`),
			},
			change: func(u *Undo) { u.BeforeKnown, u.Unobserved = true, true }, want: []string{"spec.y"},
		},
		"Unrecorded": {
			reason: "Nothing counts if the status recorded nothing.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`)},
			change:  func(u *Undo) { u.Scope, u.Unobserved = Everything, true },
		},
		"UnrecordedInTheWay": {
			reason: "Unless the API server refuses the apply.", configuration: `"spec":{"a":1}`, found: `"spec":{"b":1}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:spec":{"f:b":{}}}`)},
			change:  func(u *Undo) { u.Scope, u.Unobserved = SinceApply, true }, want: []string{"spec.b"},
		},
		"Nothing": {reason: "Nobody else wrote.", configuration: union, found: `"spec":{"volumes":[{"name":"a"}]}`, managed: []string{ours(mounted)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			undo := undoOf(t, tc.configuration)
			if tc.change != nil {
				tc.change(&undo)
			}
			found := widget(t, tc.found, tc.managed...)
			added := undo.Added(found, found)
			if tc.want == nil {
				require.Empty(t, added.Changes, tc.reason)
				require.Empty(t, added.Patch, tc.reason)
				return
			}
			require.Equal(t, tc.want, pathsIn(added.Changes), tc.reason)
			after := patched(t, found, added.Patch)
			gained := setOf(applied(after, manager)).Difference(setOf(applied(found, manager)))
			require.False(t, gained.Empty(), "ours now: %s", tc.reason)
			for r := range records(after) {
				if r.text("manager") != manager || !r.applies() {
					require.True(t, setOf(r.fields()).Intersection(gained).Empty(), "nobody else's: %s", tc.reason)
				}
			}
			if undo.Scope != SinceApply {
				require.True(t, gained.Difference(all(found)).Empty(), "what no manager owned stays so: %s", tc.reason)
			}
			require.Equal(t, all(found).Union(gained).String(), all(after).String(), "nothing else has changed: %s", tc.reason)
		})
	}
}

// TestAddedWithoutManagedFields: an edit that cleared managedFields leaves it to the API server
// to record what there is, under a manager that it makes up.
func TestAddedWithoutManagedFields(t *testing.T) {
	const (
		edited = `"spec":{"volumes":[{"name":"a","hostPath":{"path":"/"}}]}`
		marks  = `{"f:metadata":{"f:labels":{"f:managed-by":{}}}}`
		made   = `{"f:spec":{"f:volumes":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:hostPath":{".":{},"f:path":{}}}}}}`
	)
	before := func(u *Undo) {
		u.Before, u.BeforeKnown = Others(widget(t, edited, theirs("mesh", made)), u.Prefix), true
	}
	known := func(u *Undo) { u.BeforeKnown = true }
	cases := map[string]struct {
		reason, configuration, found, madeUp string
		change                               func(*Undo)
		want                                 []string
	}{
		"Item": {
			reason: "The apply restored one item of a list, and the other one is left.", configuration: `"spec":{"volumes":[{"name":"b","emptyDir":{}}]}`,
			found: edited, madeUp: made, change: known, want: []string{`spec.volumes[name="a"]`},
		},
		"Empty": {
			reason: "The API server may keep nothing of an empty value.", configuration: `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`,
			found: edited, madeUp: made, change: known,
		},
		"EmptyAndRefused": {
			reason: "It is a member of a union if the API server refuses it.", configuration: `"spec":{"volumes":[{"name":"a","emptyDir":{}}]}`,
			found: edited, madeUp: made, change: func(u *Undo) { u.Scope = BesideChanged }, want: []string{`spec.volumes[name="a"].hostPath`},
		},
		"Before": {
			reason: "It was there before the edit.", configuration: `"spec":{"volumes":[{"name":"b","emptyDir":{}}]}`,
			found: edited, madeUp: made, change: before,
		},
		"Unknown": {
			reason: "What was there before is not known.", configuration: `"spec":{"volumes":[{"name":"b","emptyDir":{}}]}`,
			found: edited, madeUp: made,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			undo := undoOf(t, tc.configuration)
			if tc.change != nil {
				tc.change(&undo)
			}
			live := widget(t, tc.found, theirs(beforeFirstApply, tc.madeUp), ours(marks))
			added := undo.Added(widget(t, tc.found), live)
			require.Equal(t, tc.want, pathsIn(added.Changes), tc.reason)
			for _, c := range added.Changes {
				require.Empty(t, c.Manager, "nobody knows who")
			}
		})
	}
}

// TestRestoreEntries: what was reclaimed is theirs again, beside what they wrote since.
func TestRestoreEntries(t *testing.T) {
	const mine, taken = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`
	before := widget(t, `"data":{"a":"1","b":"2"}`, ours(mine), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`))
	cases := map[string]struct {
		reason string
		now    []string
		want   []string
	}{
		"Gone":  {"Nothing of its entry was left.", []string{ours(taken)}, []string{ours(mine), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`)}},
		"Wrote": {"It wrote something else since.", []string{ours(taken), theirs("kubectl-edit", `{"f:data":{"f:c":{}}}`)}, []string{ours(mine), theirs("kubectl-edit", `{"f:data":{"f:b":{},"f:c":{}}}`)}},
		"Other": {"Another manager wrote since.", []string{theirs("kcm", `{"f:status":{"f:x":{}}}`), ours(taken)}, []string{theirs("kcm", `{"f:status":{"f:x":{}}}`), ours(mine), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list, err := json.Marshal(RestoreEntries(widget(t, `"data":{}`, tc.now...), before, manager))
			require.NoError(t, err)
			require.JSONEq(t, "["+strings.Join(tc.want, ",")+"]", string(list), tc.reason)
		})
	}
}

// TestRestoreApplied: an entry that another manager applied, and an Update under our name, keep the fields that they got since.
func TestRestoreApplied(t *testing.T) {
	const b, c, both = `{"f:data":{"f:b":{}}}`, `{"f:data":{"f:c":{}}}`, `{"f:data":{"f:b":{},"f:c":{}}}`
	entries := func(fields string) []string {
		return []string{managed("other", "Apply", "2026-01-02T03:05:00Z", fields), theirs(manager, fields)}
	}
	list, err := json.Marshal(RestoreEntries(widget(t, `"data":{}`, entries(c)...), widget(t, `"data":{}`, entries(b)...), manager))
	require.NoError(t, err)
	require.JSONEq(t, "["+strings.Join(entries(both), ",")+"]", string(list))
}

// all is what anybody owns in an object.
func all(u *unstructured.Unstructured) *fieldpath.Set {
	set := setOf(nil)
	for r := range records(u) {
		set = set.Union(setOf(r.fields()))
	}
	return set
}

// patched is an object after a JSON patch.
func patched(t *testing.T, u *unstructured.Unstructured, ops []PatchOp) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(ops)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	before, err := u.MarshalJSON()
	require.NoError(t, err)
	after, err := patch.Apply(before)
	require.NoError(t, err)
	return object(t, string(after))
}

// TestAddedFailsAfterAnotherWrite: what is to be taken is taken from the entries as they
// were seen, and from no others.
func TestAddedFailsAfterAnotherWrite(t *testing.T) {
	entries := []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`)}
	found := widget(t, `"data":{"b":"1"}`, entries...)
	undo := undoOf(t, `"data":{"a":"1"}`)
	added := undo.Added(found, found)
	text, err := json.Marshal(added.Patch)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(text)
	require.NoError(t, err)
	tests := map[string]struct {
		reason  string
		entries []string
		fails   bool
	}{
		"Same":    {"Nobody wrote.", entries, false},
		"Status":  {"What a controller writes does not matter.", append(slices.Clone(entries), theirs("controller", `{"f:status":{"f:x":{}}}`)), false},
		"Again":   {"The same manager added something else.", []string{entries[0], theirs("kubectl-edit", `{"f:data":{"f:b":{},"f:c":{}}}`)}, true},
		"Another": {"Another manager stands in this place.", []string{entries[0], theirs("other", `{"f:data":{"f:b":{}}}`)}, true},
		"Gone":    {"The entry is gone.", entries[:1], true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body, err := widget(t, `"data":{"b":"1"}`, tt.entries...).MarshalJSON()
			require.NoError(t, err)
			_, err = patch.Apply(body)
			require.Equal(t, tt.fails, err != nil, "%s: %v", tt.reason, err)
		})
	}
}

// TestRemovalsGetAnAuthor: who removes a field owns nothing, but what he changed with the
// same write names him.
func TestRemovalsGetAnAuthor(t *testing.T) {
	removed := Change{Path: "data.a", Kind: Removed}
	first, second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	entry := func(fields string) []string {
		return []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-replace", fields)}
	}
	cases := map[string]struct {
		reason  string
		found   string
		managed []string
		changes []Change
		want    string
	}{
		"Beside":    {"What he added beside it.", `"data":{"c":"1"}`, entry(`{"f:data":{"f:c":{}}}`), []Change{removed}, "kubectl-replace"},
		"Elsewhere": {"What he added elsewhere.", `"data":{},"spec":{"y":1}`, entry(`{"f:spec":{"f:y":{}}}`), []Change{removed}, "kubectl-replace"},
		"Changed": {
			"What he changed.", `"data":{}`, entry(`{}`),
			[]Change{removed, {Path: "spec.x", Kind: Changed, Manager: "kubectl-edit"}}, "kubectl-edit",
		},
		"TwoManagers": {
			"One of two: nobody can say which.", `"data":{}`, entry(`{}`),
			[]Change{removed, {Path: "spec.x", Kind: Changed, Manager: "a"}, {Path: "spec.y", Kind: Changed, Manager: "b"}}, "",
		},
		"Scaled":  {"Who scales removes nothing.", `"data":{}`, entry(`{}`), []Change{removed, {Path: "spec.x", Kind: Changed, Manager: "hpa", Subresource: "scale"}}, ""},
		"Later":   {"The last one.", `"data":{}`, entry(`{}`), []Change{removed, {Path: "spec.x", Kind: Changed, Manager: "b", Time: second}, {Path: "spec.y", Kind: Changed, Manager: "a", Time: first}}, "b"},
		"Known":   {"The author is known.", `"data":{}`, entry(`{}`), []Change{{Path: "data.a", Kind: Removed, Manager: "c"}, {Path: "spec.x", Kind: Changed, Manager: "a"}}, "c"},
		"Value":   {"A change of an unknown author is no removal.", `"data":{}`, entry(`{}`), []Change{{Path: "spec.z", Kind: Changed}, {Path: "spec.x", Kind: Changed, Manager: "a"}}, ""},
		"Cleared": {"Another client may have cleared managedFields.", `"data":{}`, entry(`{}`), []Change{{Path: managedFieldsPath, Kind: Removed}, {Path: "spec.x", Kind: Changed, Manager: "a"}}, ""},
		"Nothing": {"He changed nothing else.", `"data":{}`, entry(`{}`), []Change{removed}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			undo := undoOf(t, `"data":{"a":"1"}`)
			undo.BeforeKnown = true
			found := widget(t, tc.found, tc.managed...)
			told := undo.Added(found, found).With(tc.changes)
			require.Equal(t, tc.want, told[0].Manager, tc.reason)
		})
	}
}

// TestOthers: what was there before an edit is what anybody but a VidraResource owns.
func TestOthers(t *testing.T) {
	const fields = `{"f:data":{"f:b":{}}}`
	none := Others(widget(t, `"data":{}`, ours(fields), theirs("kubectl", fields)), "vidra/")
	require.Empty(t, none, "what is ours, too, is ours")
	const applied = "2026-01-02T03:04:05Z"
	for reason, obj := range map[string]*unstructured.Unstructured{
		"a client wrote it under our name":                    widget(t, `"data":{}`, theirs(manager, fields)),
		"our Update makes the field of another none of ours":  widget(t, `"data":{}`, theirs(manager, fields), theirs("kubectl", fields)),
		"another manager applied it":                          widget(t, `"data":{}`, managed("other", "Apply", applied, fields)),
		"the apply of another makes the field none of ours":   widget(t, `"data":{}`, managed("other", "Apply", applied, fields), theirs("kubectl", fields)),
		"an excepted manager owns it beside one that is none": widget(t, `"data":{}`, theirs("mesh", fields), theirs("kubectl", fields)),
	} {
		require.Len(t, Others(obj, "vidra/", "mesh"), hashBytes, reason)
	}
	require.Empty(t, Others(widget(t, `"data":{}`, theirs("kubectl", fields)), "vidra/", "kubectl"), "the manager is excepted")
	const itself = `{"f:data":{"f:c":{".":{},"f:d":{}}}}`
	require.Empty(t, Others(widget(t, `"data":{}`, ours(itself), theirs("kubectl", itself)), "vidra/"), "the map is ours, too")
	require.Empty(t, Others(widget(t, `"data":{}`, theirs("kcm", `{"f:status":{"f:x":{}}}`)), "vidra/"), "the status is nobody's concern")
	one := Others(widget(t, `"data":{}`, theirs("kubectl", fields)), "vidra/")
	two := Others(widget(t, `"data":{}`, theirs("kubectl", `{"f:data":{"f:b":{},"f:c":{".":{},"f:d":{}}}}`)), "vidra/")
	require.Len(t, one, hashBytes)
	require.Len(t, two, 3*hashBytes)
	require.Equal(t, two, one.Union(two))
	require.Len(t, two.Minus(one), 2*hashBytes)
	require.Equal(t, two, two.Minus(one).Union(one))
}

// TestRecordedPaths: a record is read for its subject alone, and one of many paths is not made.
func TestRecordedPaths(t *testing.T) {
	paths := Others(widget(t, `"data":{}`, theirs("kubectl", `{"f:data":{"f:b":{},"f:c":{".":{},"f:d":{}}}}`)), "vidra/")
	text := paths.Record("owner/object")
	read, known := RecordedPaths(text, "owner/object")
	require.True(t, known)
	require.Equal(t, paths, read)
	require.Equal(t, "jg8FEqU1-HMV4pHyy8qT", text, "another version of Vidra reads it")
	empty, known := RecordedPaths(Paths("").Record("owner/object"), "owner/object")
	require.True(t, known, "that there were none is known, too")
	require.Empty(t, empty)
	for reason, other := range map[string]string{
		"nothing is recorded": "", "no base64": "!", "no base64 at its end": text + "!", "too short": text[:2], "a part of it": text[:len(text)-2], "of another subject": paths.Record("other/object"),
		"not sorted": base64.RawURLEncoding.EncodeToString(append(tagOf("owner/object"), 2, 0, 0, 0, 1, 0, 0, 0)),
	} {
		_, known := RecordedPaths(other, "owner/object")
		require.False(t, known, reason)
	}
	var many []uint32
	for i := range uint32(maxRecorded) {
		many = append(many, i)
	}
	require.NotEmpty(t, pathsOf(many).Record("owner/object"))
	require.Empty(t, pathsOf(append(many, maxRecorded)).Record("owner/object"))
}
