package ownership

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	// beforeHad has another manager own fields before the edit.
	beforeHad := func(fields string) func(*Undo) {
		return func(u *Undo) {
			u.Before, u.BeforeKnown = Others(widget(t, `"data":{}`, theirs("someone", fields)), "vidra/"), true
		}
	}
	labelled := func(u *Undo) {
		require.NoError(t, unstructured.SetNestedField(u.Configuration, "1", "metadata", "labels", "a"))
	}
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
		"BesideAnEmptyList": {
			reason: "Built-in kinds store no empty list.", configuration: `"spec":{"a":1,"volumes":[],"affinity":{"terms":[],"pods":{"terms":[]}}}`, found: `"spec":{"a":2,"b":1}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:a":{},"f:b":{}}}`)},
		},
		"BesideARefusedEmptyList": {
			reason: "It is a member of a union if the API server refuses the object.", configuration: `"spec":{"volumes":[]}`, found: `"spec":{"b":1}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:b":{}}}`)},
			change:  func(u *Undo) { u.Scope = BesideChanged }, want: []string{"spec.b"},
		},
		"BesideAnEmptyMap": {
			reason: "An empty map has a path: its removal shows.", configuration: `"spec":{"emptyDir":{},"volumes":[]}`, found: `"spec":{"b":1}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:b":{}}}`)}, want: []string{"spec.b"},
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
		"DefaultedKeyBesideAnother": {
			reason: "An item with all its keys is not the one that leaves out a key.", configuration: `"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP"}]}`,
			found: `"spec":{"ports":[{"port":5353,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]}`,
			managed: []string{
				ours(`{"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}}}}}`),
				theirs("kubectl-edit", `{"f:spec":{"f:ports":{"k:{\"port\":5353,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`),
			},
			want: []string{`spec.ports[port=5353,protocol="TCP"]`},
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
		"FirstEntry": {
			reason: "The entry of the editor may be the first.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{theirs("kubectl-edit", `{"f:data":{"f:b":{}}}`), ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`)}, want: []string{"data.b"},
		},
		"OlderEntry": {
			reason: "An event showed the edit, so that the time of its entry is no matter.", configuration: `"data":{"a":"1"}`, found: `"data":{"b":"1"}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), managed("kubectl-edit", "Update", "2026-01-02T03:04:00Z", `{"f:data":{"f:b":{}}}`)},
			change:  func(u *Undo) { u.BeforeKnown = true }, want: []string{"data.b"},
		},
		"PartOfAMap": {
			reason: "Of a map that was there before, only the new field goes.", configuration: `"data":{"a":"1"}`, found: `"data":{"m":{"a":1,"b":2}}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:m":{".":{},"f:a":{},"f:b":{}}}}`)},
			change:  beforeHad(`{"f:data":{"f:m":{".":{},"f:a":{}}}}`), want: []string{"data.m.b"},
		},
		"PartOfANestedMap": {
			reason: "So it is of a map in a map.", configuration: `"data":{"a":"1"}`, found: `"data":{"n":{"m":{"a":1,"b":2}}}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:n":{".":{},"f:m":{"f:a":{},"f:b":{}}}}}`)},
			change:  beforeHad(`{"f:data":{"f:n":{".":{},"f:m":{"f:a":{}}}}}`), want: []string{"data.n.m.b"},
		},
		"PartOfAMapOfAnother": {
			reason: "A map of another manager stays, with its other fields.", configuration: `"data":{"a":"1"}`, found: `"data":{"m":{"a":1,"b":2}}`,
			managed: []string{
				ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("someone", `{"f:data":{"f:m":{".":{},"f:a":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:m":{"f:b":{}}}}`),
			},
			change: beforeHad(`{"f:data":{"f:m":{".":{},"f:a":{}}}}`), want: []string{"data.m.b"},
		},
		"PartOfAnAppliedMap": {
			reason: "Of a map that was applied, managedFields have the fields alone.", configuration: `"data":{"a":"1"}`, found: `"data":{"m":{"a":1,"b":2}}`,
			managed: []string{
				ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), managed("someone", "Apply", "2026-01-02T03:05:00Z", `{"f:data":{"f:m":{"f:a":{}}}}`),
				theirs("kubectl-edit", `{"f:data":{"f:m":{"f:b":{}}}}`),
			},
			change: beforeHad(`{"f:data":{"f:m":{"f:a":{}}}}`), want: []string{"data.m.b"},
		},
		"PartOfAMapOfAnotherVersion": {
			reason: "A path that the object lacks keeps the map as well.", configuration: `"data":{"a":"1"}`, found: `"data":{"n":{"b":2}}`,
			managed: []string{ours(`{"f:metadata":{"f:labels":{"f:x":{}}}}`), theirs("kubectl-edit", `{"f:data":{"f:n":{".":{},"f:gone":{},"f:b":{}}}}`)},
			change:  beforeHad(`{"f:data":{"f:n":{".":{}}}}`), want: []string{"data.n.b"},
		},
		"DefaultedKeyOfBoth": {
			reason: "An item with a default key of which both own a field is none of the edit.", configuration: `"spec":{"ports":[{"port":80}],"a":1}`,
			found: `"spec":{"ports":[{"port":80,"protocol":"TCP"}],"b":1}`,
			managed: []string{
				ours(`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:port":{}}}}}`),
				theirs("kubectl-edit", `{"f:spec":{"f:b":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`),
			},
			want: []string{"spec.b"},
		},
		"Labels": {
			reason: "A label of the object.", configuration: `"metadata":{"labels":{"a":"1"}}`, found: `"spec":{}`,
			managed: []string{ours(`{"f:spec":{}}`), theirs("kubectl-edit", `{"f:metadata":{"f:labels":{"f:b":{}}}}`)}, change: labelled, want: []string{"metadata.labels.b"},
		},
		"LabelsSinceApply": {
			reason: "No label of the object is in the way of an apply.", configuration: `"metadata":{"labels":{"a":"1"}}`, found: `"spec":{}`,
			managed: []string{ours(`{"f:spec":{}}`), theirs("kubectl-edit", `{"f:metadata":{"f:labels":{"f:b":{}}}}`)},
			change:  func(u *Undo) { labelled(u); u.Scope = SinceApply },
		},
		"LabelsOfATemplate": {
			reason: "A label of a template may be.", configuration: `"spec":{"template":{"metadata":{"labels":{"a":"1"}}}}`, found: `"spec":{"template":{"metadata":{"labels":{"b":"1"}}}}`,
			managed: []string{ours(`{"f:spec":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{"f:b":{}}}}}}`)},
			change:  func(u *Undo) { u.Scope = SinceApply }, want: []string{"spec.template.metadata.labels.b"},
		},
		"UnownedLikeMetadata": {
			reason: "A field below the top may be called as the metadata.", configuration: `"spec":{"strategy":{"type":"A"}}`, found: `"spec":{"strategy":{"type":"B","deep":{"type":"A"},"metadata":{"a":1}}}`,
			managed: []string{ours(`{"f:spec":{"f:x":{}}}`), managed("person", "Apply", "2026-01-02T03:06:00Z", `{"f:spec":{"f:strategy":{"f:type":{},"f:deep":{"f:type":{}}}}}`)},
			change:  func(u *Undo) { u.Scope = SinceApply }, want: []string{"spec.strategy.deep", "spec.strategy.metadata"},
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
			if name == "Labels" || name == "LabelsSinceApply" {
				found.SetLabels(map[string]string{"b": "1"})
			}
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
			require.Len(t, slices.DeleteFunc(slices.Collect(records(after)), func(r record) bool { return !r.applies() || r.text("manager") != manager }), 1, "one entry of ours")
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
		"EmptyList": {
			reason: "Nor of an empty list.", configuration: `"spec":{"others":[]}`, found: edited, madeUp: made, change: known,
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
			after := patched(t, live, added.Patch)
			require.Equal(t, all(live).String(), all(after).String(), "fields change their owners alone")
			for r := range records(after) {
				for _, path := range added.paths {
					require.Equal(t, r.text("manager") == manager, setOf(r.fields()).Has(elementsTo(path)), "the addition is ours alone")
				}
			}
		})
	}
}

// TestEntriesBelowAnAddition: everything in an added field goes with it, except fields of a subresource and of another VidraResource.
func TestEntriesBelowAnAddition(t *testing.T) {
	t.Parallel()
	below := func(name string) string { return `{"f:spec":{"f:m":{"f:` + name + `":{}}}}` }
	const entry = `{"manager":%q,"operation":%q,"subresource":%q,"fieldsType":"FieldsV1","fieldsV1":%s}`
	found := widget(t, `"spec":{"m":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}}`, ours(below("f")), theirs("kubectl-edit", `{"f:spec":{"f:m":{".":{},"f:a":{}}}}`),
		fmt.Sprintf(entry, "controller", "Update", "", below("b")), fmt.Sprintf(entry, "mesh", "Apply", "", below("c")),
		fmt.Sprintf(entry, "vidra/other", "Apply", "", below("d")), fmt.Sprintf(entry, "hpa", "Update", "scale", below("e")))
	undo := undoOf(t, `"spec":{"x":1}`)
	undo.Editors = []string{"kubectl-edit"}
	added := undo.Added(found, found)
	require.Equal(t, []string{"spec.m"}, pathsIn(added.Changes))
	after := patched(t, found, added.Patch)
	managers := map[string][]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		managers[name] = managersOf(after, "f:spec", "f:m", "f:"+name)
	}
	require.Equal(t, map[string][]string{"a": {manager}, "b": {manager}, "c": {manager}, "d": {"vidra/other"}, "e": {"hpa"}, "f": {manager}}, managers, "f is a field of the manifest before")
}

// TestLost lists the fields of the configuration that an edit removed or changed, and the manager of a change.
func TestLost(t *testing.T) {
	t.Parallel()
	const parts = `{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}}}}`
	cases := map[string]struct {
		reason, configuration, found string
		managed                      []string
		want                         []Change
	}{
		"Removed": {
			"The API server records no author.", `"spec":{"a":1,"z":1}`, `"spec":{"b":1}`, []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:b":{}}}`)},
			[]Change{{Path: "spec.a", Kind: Removed, Restored: "1"}, {Path: "spec.z", Kind: Removed, Restored: "1"}},
		},
		"Changed": {
			"The manager of the value is the author.", `"spec":{"a":1}`, `"spec":{"a":2}`, []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:a":{}}}`)},
			[]Change{{Path: "spec.a", Kind: Changed, Found: "2", Value: "2", Restored: "1", Manager: "kubectl-edit", Operation: "Update", Time: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)}},
		},
		"Item": {
			"An item lacks the key with a default.", `"spec":{"ports":[{"port":80}]}`, `"spec":{"ports":[{"port":81,"protocol":"TCP"}]}`, []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", parts)},
			[]Change{{Path: "spec.ports[port=80]", Kind: Removed, Restored: `{"port":80}`}},
		},
		"ItemWithoutKeys": {"Without a key, an item has no path.", `"spec":{"ports":[{"size":1}]}`, `"spec":{"ports":[{"port":81,"protocol":"TCP"}]}`, []string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", parts)}, nil},
		"UnknownList": {
			"The items of a list without an owned one are unknown.", `"spec":{"parts":[{"name":"a","size":1}]}`, `"spec":{"parts":[{"name":"b"}],"x":1}`,
			[]string{ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:x":{}}}`)}, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := widget(t, tc.found, tc.managed...)
			require.Equal(t, tc.want, withoutPointers(undoOf(t, tc.configuration).Added(found, found).Lost), tc.reason)
		})
	}
	found := widget(t, `"spec":{"a":2}`, ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:a":{}}}`))
	live := widget(t, `"spec":{"a":3}`, ours(`{"f:metadata":{}}`), theirs("later", `{"f:spec":{"f:a":{}}}`))
	lost := undoOf(t, `"spec":{"a":1}`).Added(found, live).Lost
	require.Len(t, lost, 1)
	require.Equal(t, "kubectl-edit", lost[0].Manager, "the author of the edit, not of a later one")
}

// TestAddedSince: a field that Vidra has restored since the edit counts as its own.
func TestAddedSince(t *testing.T) {
	t.Parallel()
	const added = `"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}`
	found := widget(t, `"spec":{"ports":[{"port":81,"protocol":"TCP"}]}`, ours(`{"f:metadata":{}}`), theirs("kubectl-edit", `{"f:spec":{"f:ports":{`+added+`}}}`))
	live := widget(t, `"spec":{"ports":[{"port":80,"protocol":"TCP"},{"port":81,"protocol":"TCP"}]}`, ours(`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`),
		theirs("kubectl-edit", `{"f:spec":{"f:ports":{`+added+`,"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`))
	require.Equal(t, []string{`spec.ports[port=81,protocol="TCP"]`}, pathsIn(undoOf(t, `"spec":{"ports":[{"port":80}]}`).Added(found, live).Changes))
}

// TestEmpty: a map or list that an edit filled, and that is empty in the manifest or belongs to another manager, is emptied with the reclaim. Others keep
// their fields in it.
func TestEmpty(t *testing.T) {
	t.Parallel()
	const nothing = `{"f:metadata":{"f:labels":{"f:x":{}}}}`
	cases := map[string]struct {
		reason, configuration, found string
		managed                      []string
		before                       string
		want                         string
	}{
		"Map": {
			"An apply would leave null.", `"spec":{"a":1,"none":{}}`, `"spec":{"none":{"color":"red"}}`,
			[]string{ours(`{"f:spec":{"f:none":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:none":{"f:color":{}}}}`)}, `{}`, `{"none":{}}`,
		},
		"Set": {
			"An apply would leave no list.", `"spec":{"a":1,"tags":[]}`, `"spec":{"tags":["x","y"]}`,
			[]string{ours(nothing), theirs("kubectl-edit", `{"f:spec":{"f:tags":{"v:\"x\"":{},"v:\"y\"":{}}}}`)}, `{}`, `{"tags":[]}`,
		},
		"InAnItem": {
			"A map in an item of a list.", `"spec":{"parts":[{"name":"a","size":1,"none":{}},{"name":"b"}]}`, `"spec":{"parts":[{"name":"b"},{"name":"a","none":{"x":{"y":1}}}]}`,
			[]string{
				ours(`{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:none":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}}`),
				theirs("kubectl-edit", `{"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{"f:none":{"f:x":{".":{},"f:y":{}}}}}}}`),
			}, `{}`, `{"parts":[{"name":"b"},{"name":"a","none":{}}]}`,
		},
		"EmptyMapOfAnother": {
			"Its owner keeps it.", `"spec":{"a":1}`, `"spec":{"none":{"color":"red"}}`,
			[]string{ours(nothing), theirs("someone", `{"f:spec":{"f:none":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:none":{"f:color":{}}}}`)},
			`{"f:spec":{"f:none":{}}}`, `{"none":{}}`,
		},
		"FilledBefore": {
			"A field of before stays, so that the map is not empty after the apply.", `"spec":{"a":1,"none":{}}`, `"spec":{"none":{"color":"red","size":"big"}}`,
			[]string{ours(`{"f:spec":{"f:none":{}}}`), theirs("someone", `{"f:spec":{"f:none":{"f:size":{}}}}`), theirs("kubectl-edit", `{"f:spec":{"f:none":{"f:color":{}}}}`)},
			`{"f:spec":{"f:none":{"f:size":{}}}}`, ``,
		},
		"FilledByDefault": {
			"So does an unowned field.", `"spec":{"a":1,"none":{}}`, `"spec":{"none":{"color":"red","size":"big"}}`,
			[]string{ours(`{"f:spec":{"f:none":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:none":{"f:color":{}}}}`)}, `{}`, ``,
		},
		"BelowAnAddition": {
			"A field of another VidraResource stays, also in an added field.", `"spec":{"a":1,"none":{}}`, `"spec":{"none":{"m":{"x":1,"y":2}}}`,
			[]string{
				ours(`{"f:spec":{"f:none":{}}}`), managed("vidra/other", "Apply", "2026-01-02T03:05:00Z", `{"f:spec":{"f:none":{"f:m":{"f:y":{}}}}}`),
				theirs("kubectl-edit", `{"f:spec":{"f:none":{"f:m":{".":{},"f:x":{}}}}}`),
			}, `{}`, ``,
		},
		"NotEmptyInTheManifest": {
			"The apply restores something in it.", `"spec":{"m":{"size":1}}`, `"spec":{"m":{"color":"red"}}`,
			[]string{ours(nothing), theirs("kubectl-edit", `{"f:spec":{"f:m":{"f:color":{}}}}`)}, `{"f:spec":{"f:m":{}}}`, ``,
		},
		"New": {
			"A map that is added goes as a whole.", `"spec":{"a":1,"z":1}`, `"spec":{"m":{"color":"red"},"z":1}`,
			[]string{ours(`{"f:spec":{"f:z":{}}}`), theirs("kubectl-edit", `{"f:spec":{"f:m":{".":{},"f:color":{}}}}`)}, `{}`, ``,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := widget(t, tc.found, tc.managed...)
			found.SetResourceVersion("5")
			undo := undoOf(t, tc.configuration)
			undo.Before, undo.BeforeKnown = Others(widget(t, `"data":{}`, theirs("someone", tc.before)), "vidra/"), true
			added := undo.Added(found, found)
			require.NotEmpty(t, added.Patch, tc.reason)
			if tc.want == "" {
				require.Empty(t, added.Empty, tc.reason)
				return
			}
			require.Equal(t, PatchOp{"test", "/metadata/resourceVersion", "5"}, added.Empty[0])
			after, err := json.Marshal(patched(t, found, slices.Concat(added.Patch, added.Empty)).Object["spec"])
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(after), tc.reason)
		})
	}
}

// TestKeepPaths: an ignore rule gets the names that lead to a field, also below the fields of the configuration, and the names above a list.
func TestKeepPaths(t *testing.T) {
	t.Parallel()
	found := widget(t, `"spec":{"list":[{"name":"a","x":1}],"m":{"k":1,"l":1}}`, ours(`{"f:metadata":{}}`),
		theirs("kubectl-edit", `{"f:spec":{"f:list":{"k:{\"name\":\"a\"}":{"f:x":{}}},"f:m":{"f:k":{},"f:l":{}}}}`))
	undo := undoOf(t, `"spec":{"gone":1}`)
	var asked []string
	undo.Keep = func(manager string, path []string) bool {
		asked = append(asked, manager+" "+strings.Join(path, "."))
		return slices.Equal(path, []string{"spec", "m", "k"})
	}
	require.Equal(t, []string{"spec.list", "spec.m.l"}, pathsIn(undo.Added(found, found).Changes))
	require.Equal(t, []string{"kubectl-edit spec.list", "kubectl-edit spec.m.k", "kubectl-edit spec.m.l"}, asked)
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

// TestAmbiguousBelowOneParent: several managers, with several additions each, below the parent of a removed field.
func TestAmbiguousBelowOneParent(t *testing.T) {
	t.Parallel()
	found := owning(t, "example.com/v1", "Widget", `{"spec":{"m":{"a":"1"}}}`)
	entries, _, err := unstructured.NestedSlice(found.Object, "metadata", "managedFields")
	require.NoError(t, err)
	spec := found.Object["spec"].(map[string]any)
	for _, name := range []string{"one", "two", "three"} {
		spec[name] = "x"
		spec["m"].(map[string]any)[name] = "x"
		entries = append(entries, map[string]any{
			"manager": name, "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:" + name: map[string]any{}, "f:m": map[string]any{"f:" + name: map[string]any{}}}},
		})
	}
	require.NoError(t, unstructured.SetNestedSlice(found.Object, entries, "metadata", "managedFields"))
	undo := Undo{
		Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Unobserved: true, Scope: BesideChanged,
		Configuration: map[string]any{"spec": map[string]any{"gone": "x", "m": map[string]any{"a": "1"}}},
	}
	added := undo.Added(found, found)
	require.Empty(t, added.Changes, "the editor is unknown")
	require.Len(t, added.Lost, 1)
}
