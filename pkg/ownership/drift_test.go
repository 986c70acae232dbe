package ownership

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDriftSaysWhatAndWho(t *testing.T) {
	restored := object(t, deployment)
	cases := map[string]struct {
		reason string
		edit   func(*testing.T, *unstructured.Unstructured)
		want   []Change
	}{
		"Nothing": {reason: "An object as it should be has no drift.", edit: func(*testing.T, *unstructured.Unstructured) {}},
		"Changed": {
			reason: "The manager that owns the field now is the one that changed it.",
			edit:   takeReplicas,
			want: []Change{{
				Path: "spec.replicas", Kind: Changed, Found: "5", Value: "5", Restored: "2", Manager: "kubectl-edit", Operation: "Update",
				Time: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC),
			}},
		},
		"Taken": {
			reason: "A field that has its value may be owned by somebody else.",
			edit: func(t *testing.T, u *unstructured.Unstructured) {
				takeReplicas(t, u)
				set(int64(2), "spec", "replicas")(t, u)
			},
			want: []Change{{
				Path: "spec.replicas", Kind: Taken, Found: "2", Value: "2", Restored: "2", Manager: "kubectl-edit", Operation: "Update",
				Time: time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC),
			}},
		},
		"Removed": {
			reason: "Nobody owns what was removed, so nobody is named.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "labels", "app.kubernetes.io/name")
			},
			want: []Change{{Path: `metadata.labels["app.kubernetes.io/name"]`, Kind: Removed, Restored: `"web"`}},
		},
		"MapRemoved": {
			reason: "A map that is missing is one change, not one for each of its fields.",
			edit: func(_ *testing.T, u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "metadata", "labels")
			},
			want: []Change{{Path: "metadata.labels", Kind: Removed, Restored: `{"app.kubernetes.io/name":"web","foreign":"yes"}`}},
		},
		"ListItemRemoved": {
			reason: "So is an item of a list.",
			edit:   set([]any{}, "spec", "template", "spec", "containers"),
			want: []Change{{
				Path: `spec.template.spec.containers[name="web"]`, Kind: Removed,
				Restored: `{"args":["-v","2"],"image":"web:1","name":"web"}`,
			}},
		},
		"UnownedIsNotOurs": {reason: "What we do not own is nobody's drift.", edit: set(true, "spec", "paused")},
		"NumberEncoding":   {reason: "2 and 2.0 are the same number.", edit: set(float64(2), "spec", "replicas")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := edited(t, tc.edit)
			require.Equal(t, tc.want, withoutPointers(Drift(found, restored, manager, shown)), tc.reason)
			was, _ := Of(restored, manager)
			is, _ := Of(found, manager)
			require.Equal(t, tc.want == nil, was == is, "drift and digest agree")
		})
	}
	require.Empty(t, Drift(nil, restored, manager, shown), "an object that was removed altogether has no Changes")
}

// withoutPointers leaves the pointers out, which TestPointers is about.
func withoutPointers(changes []Change) []Change {
	for i := range changes {
		changes[i].Pointer = ""
	}
	return changes
}

// TestPointers shows which changes can be named by a JSON pointer.
func TestPointers(t *testing.T) {
	restored := object(t, deployment)
	found := edited(t, func(t *testing.T, u *unstructured.Unstructured) {
		t.Helper()
		unstructured.RemoveNestedField(u.Object, "metadata", "labels", "app.kubernetes.io/name")
		set(int64(5), "spec", "replicas")(t, u)
		set([]any{}, "spec", "template", "spec", "containers")(t, u)
	})
	pointers := map[string]string{}
	for _, change := range Drift(found, restored, manager, shown) {
		pointers[change.Path] = change.Pointer
	}
	require.Equal(t, map[string]string{
		`metadata.labels["app.kubernetes.io/name"]`: "/metadata/labels/app.kubernetes.io~1name", "spec.replicas": "/spec/replicas",
		`spec.template.spec.containers[name="web"]`: "",
	}, pointers)
}

// TestEmptyMapsOfOthers: in a map that we applied empty, others may own fields. What
// they do there is no drift, unless the map is owned as a whole, and theirs below it
// is nothing.
func TestEmptyMapsOfOthers(t *testing.T) {
	text := func(value, ours, theirs string) string {
		return `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"w","managedFields":[
{"manager":"vidra/web","operation":"Apply","fieldsV1":{"f:spec":{` + ours + `}}},
{"manager":"other","operation":"Update","fieldsV1":{"f:spec":{` + theirs + `}}}]},"spec":{"map":` + value + `}}`
	}
	cases := map[string]struct {
		reason, before, after string
		drift                 bool
	}{
		"Granular": {"Others own a key in it.", text(`{}`, `"f:map":{}`, ``), text(`{"a":"1"}`, `"f:map":{}`, `"f:map":{"f:a":{}}`), false},
		"GranularAgain": {
			"They change it.", text(`{"a":"1"}`, `"f:map":{}`, `"f:map":{"f:a":{}}`), text(`{"a":"2"}`, `"f:map":{}`, `"f:map":{"f:a":{}}`), false,
		},
		"Atomic": {"Nobody owns anything below it.", text(`{"a":"1"}`, `"f:map":{}`, ``), text(`{"a":"2"}`, `"f:map":{}`, ``), true},
		"Applied": {
			"Another manager applied a key in it.", text(`{}`, `"f:map":{}`, ``), strings.Replace(text(`{"a":"1"}`, `"f:map":{}`, `"f:map":{"f:a":{}}`), "Update", "Apply", 1), false,
		},
		"OurUpdate": {
			"A client wrote a key in it under our name.", text(`{}`, `"f:map":{}`, ``), strings.Replace(text(`{"a":"1"}`, `"f:map":{}`, `"f:map":{"f:a":{}}`), "other", "vidra/web", 1), false,
		},
		"ItselfOfOthers": {
			"Another manager owns the map, and nothing in it.", text(`{"a":"1"}`, `"f:map":{}`, `"f:map":{".":{}}`), text(`{"a":"2"}`, `"f:map":{}`, `"f:map":{".":{}}`), true,
		},
		"AtomicTaken": {
			"Somebody took it as a whole.", text(`{"a":"1"}`, `"f:map":{}`, ``), text(`{"a":"1"}`, ``, `"f:map":{}`), true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := object(t, tc.before), object(t, tc.after)
			was, _ := Of(before, manager)
			is, _ := Of(after, manager)
			require.Equal(t, tc.drift, was != is, tc.reason)
		})
	}
}

// TestTakenMap: a map that another manager took as a whole is a change, and one in which it owns a field is none.
func TestTakenMap(t *testing.T) {
	t.Parallel()
	const whole, below = `{"f:spec":{"f:map":{}}}`, `{"f:spec":{"f:map":{"f:a":{}}}}`
	restored := widget(t, `"spec":{"map":{"a":"1"}}`, ours(whole))
	taken := Drift(widget(t, `"spec":{"map":{"a":"1"}}`, ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl", whole)), restored, manager, shown)
	require.Equal(t, []string{"spec.map"}, pathsIn(taken))
	require.Equal(t, Taken, taken[0].Kind)
	require.Empty(t, Drift(widget(t, `"spec":{"map":{"a":"1"}}`, ours(`{"f:spec":{"f:x":{}}}`), theirs("kubectl", below)), restored, manager, shown))
}

// TestDriftOfWhatTheServerDrops: the API server keeps nothing of an empty list that
// was applied, and somebody put something there.
func TestDriftOfWhatTheServerDrops(t *testing.T) {
	text := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"w","managedFields":[
{"manager":"vidra/web","operation":"Apply","fieldsV1":{"f:spec":{"f:rules":{}}}}]},"spec":{` + spec + `}}`
	}
	changes := withoutPointers(Drift(object(t, text(`"rules":[{}]`)), object(t, text("")), manager, shown))
	require.Equal(t, []Change{{Path: "spec.rules", Kind: Changed, Found: "[{}]", Value: "[{}]", Manager: manager, Operation: "Apply"}}, changes)
}

// TestDriftOfClearedManagedFields shows that what can still be told is told.
func TestDriftOfClearedManagedFields(t *testing.T) {
	restored := object(t, deployment)
	cleared := Change{Path: "metadata.managedFields", Kind: Removed, Restored: `[{"manager":"vidra/web","operation":"Apply"}]`}
	found := edited(t, func(_ *testing.T, u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	})
	require.Equal(t, []Change{cleared}, Drift(found, restored, manager, shown), "nothing else was changed")

	set(int64(5), "spec", "replicas")(t, found)
	require.Equal(t, []Change{{Path: "spec.replicas", Kind: Changed, Found: "5", Value: "5", Restored: "2"}, cleared},
		withoutPointers(Drift(found, restored, manager, shown)), "what was changed is told first, though nobody can be named")
}

// TestDriftNames shows who is named for a change of spec.size from 1 to 2, and
// who is not.
func TestDriftNames(t *testing.T) {
	const size, none = `{"f:spec":{"f:size":{}}}`, `{"f:spec":{"f:color":{}}}`
	restored := widget(t, `"spec":{"size":1,"color":"red"}`, ours(size))
	cases := map[string]struct {
		reason    string
		managed   []string
		name      string
		operation string
	}{
		"Nobody":           {reason: "A write that the API server did not record has no author.", managed: []string{ours(none)}},
		"Owner":            {"Who owns the field wrote its value.", []string{ours(none), theirs("kubectl", size)}, "kubectl", "Update"},
		"OwnerOfTheWhole":  {"Who owns the map as a whole wrote the field in it.", []string{theirs("kubectl", `{"f:spec":{}}`)}, "kubectl", "Update"},
		"OwnerOfParts":     {"Who owns something in it wrote into it.", []string{theirs("kubectl", `{"f:spec":{"f:size":{"f:x":{}}}}`)}, "kubectl", "Update"},
		"OwnerOfAnother":   {"Who owns another field did not write this one.", []string{ours(none), theirs("kubectl", none)}, "", ""},
		"LastOfTwo":        {"Of two owners, the last wrote the value.", []string{managed("first", "Apply", "2026-01-02T03:04:06Z", size), theirs("last", size)}, "last", "Update"},
		"NoTime":           {"An entry without time is older than all others.", []string{managed("first", "Apply", "x", size), theirs("last", size)}, "last", "Update"},
		"OurName":          {"Who applies under our name is recorded under it.", []string{ours(size)}, manager, "Apply"},
		"OurNameUpdating":  {"So is who updates under it.", []string{theirs(manager, size)}, manager, "Update"},
		"BeforeFirstApply": {"The API server made this manager up.", []string{theirs("before-first-apply", size)}, "", ""},
		"AfterFirstApply":  {"Others are named beside it.", []string{theirs("before-first-apply", size), managed("argocd", "Apply", "", size)}, "argocd", "Apply"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes := Drift(widget(t, `"spec":{"size":2,"color":"red"}`, tc.managed...), restored, manager, shown)
			require.Len(t, changes, 1)
			require.Equal(t, "spec.size", changes[0].Path)
			require.Equal(t, Changed, changes[0].Kind)
			require.Equal(t, tc.name, changes[0].Manager, tc.reason)
			require.Equal(t, tc.operation, changes[0].Operation)
		})
	}
}

// TestDriftNamesWhoOwnsTheField: the manager that owns the changed field is named, and not one that wrote something
// else at the same time or later, and still owns the map of the field because it once wrote into it.
func TestDriftNamesWhoOwnsTheField(t *testing.T) {
	restored := widget(t, `"spec":{"size":1,"colour":"blue"}`, ours(`{"f:spec":{"f:size":{},"f:colour":{}}}`))
	creator := theirs("creator", `{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{".":{}}}`)
	editor := managed("editor", "Update", "2026-01-02T03:04:30Z", `{"f:spec":{"f:size":{}}}`)
	found := widget(t, `"spec":{"size":2,"colour":"red"}`, creator, editor)
	changes := Drift(found, restored, manager, shown)
	require.Len(t, changes, 2)
	require.Equal(t, "spec.colour", changes[0].Path)
	require.Equal(t, "creator", changes[0].Manager, "it may own the map as a whole")
	require.Equal(t, "spec.size", changes[1].Path)
	require.Equal(t, "editor", changes[1].Manager)
}

func TestDriftNamesTheSubresource(t *testing.T) {
	const size = `{"f:spec":{"f:size":{}}}`
	scaled := strings.Replace(theirs("kubectl", size), `"manager"`, `"subresource":"scale","manager"`, 1)
	changes := Drift(widget(t, `"spec":{"size":2}`, scaled), widget(t, `"spec":{"size":1}`, ours(size)), manager, shown)
	require.Len(t, changes, 1)
	require.Equal(t, "scale", changes[0].Subresource)
}

// TestTaken shows when a field whose value is as it should be has drifted.
func TestTaken(t *testing.T) {
	const both, size = `{"f:spec":{"f:parts":{"k:{\"n\":1}":{".":{},"f:n":{}}},"f:size":{}}}`, `{"f:spec":{"f:size":{}}}`
	const content = `"spec":{"size":1,"parts":[{"n":1}]}`
	restored := widget(t, content, ours(both))
	type taken struct{ path, by string }
	cases := map[string]struct {
		reason  string
		managed []string
		want    []taken
	}{
		"CoOwned":          {"Who applies the same value takes nothing.", []string{ours(both), theirs("kubectl", both)}, nil},
		"TakenByAnother":   {"Another owns the field, and we do not.", []string{ours(strings.Replace(both, `,"f:size":{}`, "", 1)), theirs("kubectl", size)}, []taken{{"spec.size", "kubectl"}}},
		"Item":             {"An item that was taken is told by its fields.", []string{ours(size), theirs("kubectl", both)}, []taken{{"spec.parts[n=1].n", "kubectl"}}},
		"ItemItself":       {`The item itself, ".", is told if nothing else can be.`, []string{ours(strings.Replace(both, `".":{},`, "", 1)), theirs("kubectl", both)}, []taken{{"spec.parts[n=1]", "kubectl"}}},
		"Edited":           {"Somebody edited our entry.", []string{ours(strings.Replace(both, `,"f:size":{}`, "", 1))}, []taken{{"spec.size", ""}}},
		"EverythingTaken":  {"Without a field left, we have no entry.", []string{theirs("kubectl", both)}, []taken{{"spec.parts[n=1].n", "kubectl"}, {"spec.size", "kubectl"}}},
		"BeforeFirstApply": {"Cleared, and then applied by somebody else first.", []string{theirs("before-first-apply", both), theirs("other", `{"f:spec":{"f:x":{}}}`)}, []taken{{"metadata.managedFields", ""}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := widget(t, content, tc.managed...)
			var got []taken
			for _, change := range Drift(found, restored, manager, shown) {
				if change.Path != "metadata.managedFields" {
					require.Equal(t, Taken, change.Kind)
					require.Equal(t, change.Restored, change.Found)
				}
				got = append(got, taken{change.Path, change.Manager})
			}
			require.Equal(t, tc.want, got, tc.reason)
			was, _ := Of(restored, manager)
			is, _ := Of(found, manager)
			require.Equal(t, tc.want == nil, was == is, "drift and digest agree")
		})
	}
}

func TestPaths(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	cases := map[string]struct{ reason, content, fields, want, withheld string }{
		"Field":     {"Fields are joined by points.", `"a":{"b":1}`, `{"f:a":{"f:b":{}}}`, "a.b", "a.b"},
		"Slash":     {"What cannot stand between points is quoted.", `"a":{"x.y/z":1}`, `{"f:a":{"f:x.y/z":{}}}`, `a["x.y/z"]`, `a["x.y/z"]`},
		"EmptyName": {"So is a name that cannot be seen.", `"a":{"":1}`, `{"f:a":{"f:":{}}}`, `a[""]`, `a[""]`},
		"Index":     {"Items are counted from 0.", `"a":[1]`, `{"f:a":{"i:0":{}}}`, "a[0]", "a[0]"},
		"Keys":      {"The keys of a list tell its items apart.", `"a":[{"n":"x","p":1}]`, `{"f:a":{"k:{\"n\":\"x\",\"p\":1}":{}}}`, `a[n="x",p=1]`, "a[*]"},
		"Set":       {"The items of a set tell themselves.", `"a":["x"]`, `{"f:a":{"v:\"x\"":{}}}`, `a[="x"]`, "a[*]"},
		"LongItem":  {"What is long is cut.", `"a":["` + long + `"]`, `{"f:a":{"v:\"` + long + `\"":{}}}`, `a[="` + long[:maxValue-2] + `…]`, "a[*]"},
		"LongName":  {"Names, too.", `"a":{"` + long + `":1}`, `{"f:a":{"f:` + long + `":{}}}`, "a." + long[:maxName-1] + "…", "a." + long[:maxName-1] + "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found, restored := widget(t, `"b":1`), widget(t, tc.content, ours(tc.fields))
			found.Object["a"] = map[string]any{}
			if _, list := restored.Object["a"].([]any); list {
				found.Object["a"] = []any{}
			}
			changes := Drift(found, restored, manager, shown)
			require.Len(t, changes, 1)
			require.Equal(t, tc.want, changes[0].Path, tc.reason)

			found.SetAnnotations(map[string]string{SensitiveAnnotation: "true"})
			changes = Drift(found, restored, manager, shown)
			require.Len(t, changes, 1)
			require.Equal(t, tc.withheld, changes[0].Path, "a path of a sensitive object tells no value")
		})
	}
}

func TestDriftWithholdsWhatIsSensitive(t *testing.T) {
	const canary = "aHVudGVyMg"
	const fields = `{"f:data":{"f:password":{},"f:gone":{},"f:taken":{},"f:list":{"k:{\"n\":\"` + canary + `\"}":{"f:x":{}},"v:\"` + canary + `\"":{}}}}`
	secret := func(apiVersion, kind, annotation string, content string, managed ...string) *unstructured.Unstructured {
		u := widget(t, strings.ReplaceAll(content, "?", canary), managed...)
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		if annotation != "" {
			u.SetAnnotations(map[string]string{SensitiveAnnotation: annotation})
		}
		return u
	}
	cases := map[string]struct {
		reason           string
		apiVersion, kind string
		found, restored  string
		shown            bool
	}{
		"Secret":           {"The values of a Secret are not shown.", "v1", "Secret", "", "", false},
		"Marked":           {"Nor those of an object that says so.", "example.com/v1", "Login", "true", "true", false},
		"MarkedOtherwise":  {"In whatever words.", "example.com/v1", "Login", "yes", "yes", false},
		"MarkRemoved":      {"Somebody who removes the mark does not get to see the value.", "example.com/v1", "Login", "", "true", false},
		"MarkAdded":        {"Nor somebody who asks for secrecy too late.", "example.com/v1", "Login", "true", "", false},
		"MarkedFalse":      {"An object may say that it is not sensitive.", "example.com/v1", "Login", "false", "false", true},
		"SecretIsNotAsked": {"But not a Secret.", "v1", "Secret", "false", "false", false},
		"OtherSecret":      {"A Secret of another group is a kind like others.", "example.com/v1", "Secret", "", "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			restored := secret(tc.apiVersion, tc.kind, tc.restored, `"data":{"password":"?","gone":"?","taken":"?","list":[{"n":"?","x":"?"},"?"]}`, ours(fields))
			found := secret(tc.apiVersion, tc.kind, tc.found, `"data":{"password":"?!","taken":"?","list":[{"n":"?","x":"?!"}]}`, theirs("kubectl", fields))
			changes := Drift(found, restored, manager, shown)
			require.Len(t, changes, 5)
			require.Equal(t, tc.shown, strings.Contains(fmt.Sprint(changes), canary), "%s %v", tc.reason, changes)
			for _, change := range changes {
				require.Equal(t, !tc.shown, change.Withheld)
				require.NotEmpty(t, change.Path)
			}
		})
	}
}

func TestValuesAreCutAtARune(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  any
		want   string
	}{
		"Short":     {"A short value is shown.", "<ä>", `"<ä>"`},
		"JustShort": {"So is one that just fits.", strings.Repeat("ä", maxValue-2), `"` + strings.Repeat("ä", maxValue-2) + `"`},
		"JustLong":  {"One that does not is cut.", strings.Repeat("ä", maxValue-1), `"` + strings.Repeat("ä", maxValue-2) + "…"},
		"Long":      {"Wherever a rune ends.", strings.Repeat("ä", 1<<20), `"` + strings.Repeat("ä", maxValue-2) + "…"},
		"Escaped":   {"Escapes count as they are shown.", strings.Repeat("\n", 1<<20), `"` + strings.Repeat(`\n`, 39) + "…"},
		"List":      {"Lists are JSON.", []any{nil, true, 1.5, int64(2), "x", []any{}}, `[null,true,1.5,2,"x",[]]`},
		"Map":       {"Maps are in order.", map[string]any{"b": map[string]any{}, "a": "x"}, `{"a":"x","b":{}}`},
		"Other":     {"What is no JSON is not shown.", make(chan int), "?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, shorten(tc.value, ordinary), tc.reason)
		})
	}
}

// TestDriftOfLargeValues shows that the values of an object of a few MiB are
// neither encoded as a whole nor compared more than once.
func TestDriftOfLargeValues(t *testing.T) {
	many := make([]any, 1<<18)
	for i := range many {
		many[i] = "0123456789"
	}
	cases := map[string]any{
		"Text": strings.Repeat("x", 4<<20), "List": many, "Deep": []any{[]any{map[string]any{"x": many}}},
	}
	for name, large := range cases {
		t.Run(name, func(t *testing.T) {
			restored := widget(t, `"spec":{"blob":1,"other":2}`, ours(`{"f:spec":{"f:blob":{},"f:other":{}}}`))
			found := restored.DeepCopy()
			restored.Object["spec"].(map[string]any)["blob"] = large
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			changes := Drift(found, restored, manager, shown)
			runtime.ReadMemStats(&after)
			require.Len(t, changes, 1)
			require.Len(t, []rune(changes[0].Restored), maxValue)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<18))
		})
	}
}

// TestLongLists shows that the work for a list does not grow with its square:
// comparing each item with each key allocates, n*n/2 times at least.
func TestLongLists(t *testing.T) {
	const n, limit = 2000, 2000 * 500
	constant := func(int) int { return 1 }
	restored := widget(t, parts(n, 0, constant), ours(partsFields(n)))
	found := widget(t, parts(n, n/2, func(i int) int { return 1 + i/(n-1) }), ours(partsFields(n)))
	var changes []Change
	require.Less(t, testing.AllocsPerRun(1, func() { changes = Drift(found, restored, manager, shown) }), float64(limit))
	require.Len(t, changes, 1)
	require.Equal(t, fmt.Sprintf(`spec.parts[name="part",port=%d].size`, n-1), changes[0].Path)
	require.Less(t, testing.AllocsPerRun(1, func() { Of(found, manager) }), float64(limit))
}

// TestAdmitted names the writer of a field that changed while manager owned it.
func TestAdmitted(t *testing.T) {
	const size, team = `{"f:spec":{"f:size":{}}}`, `{"f:metadata":{"f:labels":{"f:team":{}}}}`
	at := func(name, second string) string {
		return managed(name, "Update", "2026-01-02T03:04:"+second+"Z", team)
	}
	mine := managed(manager, "Apply", "2026-01-02T03:04:30Z", size)
	tests := map[string]struct {
		reason  string
		entries []string
		want    string
	}{
		"later":        {reason: "a webhook changed it in the request of that client", entries: []string{mine, at("editor", "31")}, want: "editor"},
		"same second":  {reason: "the times of managedFields are seconds", entries: []string{mine, at("editor", "30")}, want: "editor"},
		"two":          {reason: "the last request counts", entries: []string{mine, at("editor", "31"), at("earlier", "30")}, want: "editor"},
		"both at once": {reason: "one of the two", entries: []string{mine, at("editor", "31"), at("other", "31")}},
		"earlier":      {reason: "another client applied with the name of the manager", entries: []string{mine, at("editor", "29")}, want: manager},
		"alone":        {reason: "there is no other writer", entries: []string{mine}, want: manager},
		"status":       {reason: "a write of the status changes no other field", entries: []string{mine, strings.Replace(at("controller", "31"), `"manager"`, `"subresource":"status","manager"`, 1)}, want: manager},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found := widget(t, `"spec":{"size":2}`, tt.entries...)
			changes := Admitted(Drift(found, widget(t, `"spec":{"size":1}`, mine), manager, shown), found, manager)
			require.Len(t, changes, 1)
			require.Equal(t, tt.want, changes[0].Manager, tt.reason)
		})
	}
}

// TestKeepWriters: the client that set a value that stays is its writer, also if another one writes later.
func TestKeepWriters(t *testing.T) {
	before := []Change{{Path: "spec.size", Kind: Changed, Value: "2", Manager: "editor", User: "alice"}, {Path: "spec.hidden", Kind: Changed, Withheld: true, Manager: "editor"}}
	tests := map[string]struct {
		reason string
		now    Change
		want   string
	}{
		"same":     {reason: "the value has stayed", now: Change{Path: "spec.size", Kind: Changed, Value: "2", Manager: "later"}, want: "editor"},
		"other":    {reason: "it is a second edit", now: Change{Path: "spec.size", Kind: Changed, Value: "3", Manager: "later"}, want: "later"},
		"withheld": {reason: "it may be a second edit", now: Change{Path: "spec.hidden", Kind: Changed, Withheld: true, Manager: "later"}, want: "later"},
		"removed":  {reason: "the field is gone since", now: Change{Path: "spec.size", Kind: Removed, Manager: "later"}, want: "later"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changes := []Change{tt.now}
			KeepWriters(changes, before)
			require.Equal(t, tt.want, changes[0].Manager, tt.reason)
		})
	}
}
