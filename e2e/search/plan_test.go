package search

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// plan is a sequence of changes. The operator may work between two steps, and need not have finished.
type plan struct {
	Steps []step `json:"steps"`
	// Slow delays the writes of the operator, as a webhook does: users write between its decisions and its writes.
	Slow bool `json:"slow,omitempty"`
}

// step is what users do in one moment.
type step struct {
	// Delete names VidraResources that are deleted, before those of Apply are written.
	Delete []string `json:"delete,omitempty"`
	// DeleteParts deletes their parts, too.
	DeleteParts bool `json:"deleteParts,omitempty"`
	// Midway is a change of the deleted VidraResources while they are being deleted: "suspend" suspends and resumes them, "orphan" has their objects stay.
	Midway string `json:"midway,omitempty"`
	Apply  []spec `json:"apply,omitempty"`
	Edit   []edit `json:"edit,omitempty"`
	// Kill is the kill of the operator before the step, and its start after it.
	Kill bool `json:"kill,omitempty"`
	// Rotate is a new key of digests meanwhile, beside the former ones.
	Rotate bool `json:"rotate,omitempty"`
	// Lose is the loss of all keys of digests meanwhile, which the plans of a batch share.
	Lose bool `json:"lose,omitempty"`
	// Kind deletes the kind of Thing/custom after the other changes, and creates it again. It is the kind of all runs.
	Kind bool `json:"kind,omitempty"`
	// Revoke takes the rights of accounts before the changes, and Remove deletes accounts. Grant gives both back after the changes, and so does Settle.
	Revoke []string `json:"revoke,omitempty"`
	Remove []string `json:"remove,omitempty"`
	Grant  bool     `json:"grant,omitempty"`
	// Settle lets the operator finish before the next step.
	Settle bool `json:"settle,omitempty"`
}

// spec is the wanted state of one VidraResource.
type spec struct {
	Name string `json:"name"`
	// Objects has a variant for each object of the manifest.
	Objects map[string]int `json:"objects"`
	// Broken makes the manifest, or the request, invalid.
	Broken  string `json:"broken,omitempty"`
	NoPrune bool   `json:"noPrune,omitempty"`
	Orphan  bool   `json:"orphan,omitempty"`
	Suspend bool   `json:"suspend,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Adopt   string `json:"adopt,omitempty"`
	Parts   bool   `json:"parts,omitempty"`
	// NoEvents is reconcileOnEvents: false.
	NoEvents bool `json:"noEvents,omitempty"`
	Force    bool `json:"force,omitempty"`
	Wait     bool `json:"wait,omitempty"`
	// Additions is spec.drift.additions.
	Additions string `json:"additions,omitempty"`
	// Account is spec.serviceAccountName.
	Account string `json:"account,omitempty"`
	// Remote is a destination at another URL.
	Remote bool `json:"remote,omitempty"`
	// Shard is the shard or the installation of the VidraResource, in searches with two operators: that of the others if it is empty.
	Shard string `json:"shard,omitempty"`
	// Synced has an InfrahubSync write the VidraResource: its manifest is an artifact. Published has it publish an artifact for each object, and the
	// VidraResource names the publication.
	Synced    bool `json:"synced,omitempty"`
	Published bool `json:"published,omitempty"`
	// Others are the other fields of the spec, by their paths.
	Others map[string]any `json:"others,omitempty"`
	// Invalid is the field that has a value of another type if Broken is "field".
	Invalid string `json:"invalid,omitempty"`
}

// edit is what a user does to an object, if it exists.
type edit struct {
	Object string `json:"object"`
	How    string `json:"how"`
}

var (
	names  = []string{"a", "b", "c"}
	breaks = []string{
		"syntax", "duplicate", "unknown-kind", "refused", "no-name", "template", // manifests
		"short-interval", "bad-account", "two-parts-of-one-key", "bad-server", "field", // requests that the API server refuses
	}
	// edits has the edits of plans; "hold" adds a finalizer, which its controller removes from an object that is being deleted.
	// "exempt" is a change under break-glass.
	edits = []string{"hold", "change", "add", "remove", "delete", "unlabel", "annotate", "take-over", "replace", "exempt"}
)

// plans generates plans. The first step has VidraResources, so that each plan does something.
func plans(t *rapid.T) plan {
	n := rapid.IntRange(2, 7).Draw(t, "steps")
	p, wanted, last := plan{}, map[string]map[string]int{}, map[string]spec{}
	for i := range n {
		s := step{Kill: i > 0 && rapid.IntRange(0, 11).Draw(t, "kill") == 0, Settle: rapid.IntRange(0, 2).Draw(t, "settle") > 0}
		s.Rotate = s.Kill && rapid.Bool().Draw(t, "rotate")
		weak := rapid.SampledFrom(accounts).Draw(t, "weak")
		switch rapid.IntRange(0, 7).Draw(t, "rights") {
		case 0:
			s.Revoke = []string{weak}
		case 1:
			s.Remove = []string{weak}
		case 2:
			s.Grant = true
		}
		kind := rapid.SampledFrom([]string{"apply", "apply", "move", "rename", "delete", "edit", "edit", "revision", "policy"}).Draw(t, "kind")
		if len(wanted) == 0 {
			kind = "apply"
		}
		switch kind {
		case "apply":
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID).Draw(t, "names") {
				s.Apply = append(s.Apply, specs(t, name))
			}
		case "move": // an object leaves one manifest and joins another, in either order
			from, to := rapid.SampledFrom(slices.Sorted(maps.Keys(wanted))).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
			if from == to {
				continue
			}
			object := rapid.SampledFrom(slices.Sorted(maps.Keys(wanted[from]))).Draw(t, "object")
			giver, receiver := maps.Clone(wanted[from]), maps.Clone(wanted[to])
			if receiver == nil {
				receiver = map[string]int{}
			}
			for _, o := range with(object) {
				if v, has := giver[o]; has {
					receiver[o] = v
					delete(giver, o)
				}
			}
			if rapid.Bool().Draw(t, "other variant") {
				receiver[object] = rapid.IntRange(0, variants-1).Draw(t, "variant")
			}
			s.Apply = []spec{{Name: from, Objects: giver}, {
				Name: to, Objects: receiver, Parts: rapid.IntRange(0, 3).Draw(t, "parts") == 0, Suspend: rapid.IntRange(0, 2).Draw(t, "suspend") == 0,
			}}
			if len(giver) == 0 {
				s.Apply, s.Delete = s.Apply[1:], []string{from}
			} else if rapid.Bool().Draw(t, "receiver first") {
				slices.Reverse(s.Apply)
			}
		case "rename":
			from, to := rapid.SampledFrom(slices.Sorted(maps.Keys(wanted))).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
			if from == to {
				continue
			}
			objects := maps.Clone(wanted[from])
			maps.Copy(objects, wanted[to])
			s.Delete, s.Apply = []string{from}, []spec{{Name: to, Objects: objects, Suspend: rapid.IntRange(0, 2).Draw(t, "suspend") == 0}}
		case "policy": // policies change in the middle of an apply and of removals
			next := specs(t, rapid.SampledFrom(slices.Sorted(maps.Keys(last))).Draw(t, "name"))
			next.Broken = ""
			p.Steps = append(p.Steps, step{Apply: []spec{next}, Kill: s.Kill, Rotate: s.Rotate})
			switch s.Kill, s.Rotate = false, false; rapid.SampledFrom([]string{"prune", "orphan", "suspend", "adopt"}).Draw(t, "policy") {
			case "prune":
				next.NoPrune = !next.NoPrune
			case "orphan":
				next.Orphan = !next.Orphan
			case "suspend":
				next.Suspend = !next.Suspend
			case "adopt":
				next.Adopt = map[bool]string{true: "", false: "Always"}[next.Adopt != ""]
			}
			s.Apply = []spec{next}
		case "delete":
			s.Midway = rapid.SampledFrom([]string{"", "", "suspend", "orphan"}).Draw(t, "midway")
			s.Delete = []string{rapid.SampledFrom(slices.Sorted(maps.Keys(wanted))).Draw(t, "name")}
			for _, name := range slices.Sorted(maps.Keys(last)) {
				if last[name].dependency() == s.Delete[0] && name != s.Delete[0] && rapid.IntRange(0, 3).Draw(t, "dependent") > 0 {
					s.Delete = append(s.Delete, name)
				}
			}
		case "revision": // one that is applied is held, or an earlier one is applied; then another one waits
			held := last[rapid.SampledFrom(slices.Sorted(maps.Keys(last))).Draw(t, "name")].with("revision.hold", true)
			if rapid.Bool().Draw(t, "back") {
				held = held.with("revision.to", earlier)
			}
			p.Steps[len(p.Steps)-1].Settle = true
			p.Steps = append(p.Steps, step{Apply: []spec{held}, Kill: s.Kill, Rotate: s.Rotate, Settle: true})
			next := specs(t, held.Name).with("revision.hold", true)
			next.Broken, s.Kill, s.Rotate = "", false, false
			s.Apply = []spec{next}
			for range rapid.IntRange(0, 2).Draw(t, "edits") {
				s.Edit = append(s.Edit, edit{rapid.SampledFrom(pool).Draw(t, "object"), rapid.SampledFrom(edits).Draw(t, "how")})
			}
		case "edit":
			for range rapid.IntRange(1, 3).Draw(t, "edits") {
				s.Edit = append(s.Edit, edit{rapid.SampledFrom(pool).Draw(t, "object"), rapid.SampledFrom(edits).Draw(t, "how")})
			}
		}
		for _, name := range s.Delete {
			delete(wanted, name)
			delete(last, name)
		}
		for _, a := range s.Apply {
			if a.Broken == "" {
				wanted[a.Name], last[a.Name] = a.Objects, a
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// losing returns the plan with a loss of all keys of digests at each kill, and without holds of revisions: which one is applied is unknown then.
func (p plan) losing() plan {
	for i := range p.Steps {
		p.Steps[i].Lose, p.Steps[i].Rotate = p.Steps[i].Kill, false
		for j, s := range p.Steps[i].Apply {
			p.Steps[i].Apply[j] = s.with("revision.hold", nil).with("revision.to", nil)
		}
	}
	return p
}

// loses reports whether all keys of digests are lost.
func (p plan) loses() bool { return slices.ContainsFunc(p.Steps, func(s step) bool { return s.Lose }) }

// specs generates the spec of one VidraResource.
func specs(t *rapid.T, name string) spec {
	rare := func(what string) bool { return rapid.IntRange(0, 5).Draw(t, what) == 0 }
	s := spec{
		Name: name, Objects: map[string]int{}, NoPrune: rare("noPrune"), Orphan: rare("orphan"), Suspend: rare("suspend"), Parts: rare("parts"),
		NoEvents: rare("noEvents"), Force: rare("force"), Wait: rare("wait"),
	}
	for _, object := range rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, 6, rapid.ID).Draw(t, "objects") {
		for _, o := range with(object) {
			s.Objects[o] = rapid.IntRange(0, variants-1).Draw(t, "variant")
		}
	}
	if rare("mode") {
		s.Mode = rapid.SampledFrom([]string{"Warn", "Ignore"}).Draw(t, "drift mode")
	}
	if rare("adopt") {
		s.Adopt = rapid.SampledFrom([]string{"Always", "Never"}).Draw(t, "adopt policy")
	}
	if rare("additions") {
		s.Additions = rapid.SampledFrom([]string{"Warn", "Revert"}).Draw(t, "additions policy")
	}
	if rapid.IntRange(0, 2).Draw(t, "as") == 0 {
		s.Account = rapid.SampledFrom(accounts).Draw(t, "account")
	}
	if rare("broken") {
		s.Broken = rapid.SampledFrom(breaks).Draw(t, "broken as")
	}
	if s.Broken == "field" {
		s.Invalid = rapid.SampledFrom(others()).Draw(t, "invalid").path
	}
	withOthers(t, &s)
	if on := rapid.SampledFrom(names).Draw(t, "dependency"); on != name && rapid.IntRange(0, 3).Draw(t, "depends") == 0 {
		s = s.with("dependsOn", on)
	}
	return s
}

// earlier is spec.revision.to of a plan: the first revision that is kept.
const earlier = "earlier"

// with returns a spec with another value of one of the other fields, or without it for nil.
func (s spec) with(path string, value any) spec {
	s.Others = maps.Clone(s.Others)
	if delete(s.Others, path); value != nil {
		if s.Others == nil {
			s.Others = map[string]any{}
		}
		s.Others[path] = value
	}
	return s
}

// holds reports whether new revisions wait.
func (s spec) holds() bool { return s.Others["revision.hold"] == true }

// refused reports whether the API server refuses the request, so that nothing changes.
func (s spec) refused() bool {
	return slices.Index(breaks, s.Broken) >= slices.Index(breaks, "short-interval")
}

// unreadable reports whether the manifest has no objects that can be read.
func (s spec) unreadable() bool {
	return slices.Contains([]string{"syntax", "duplicate", "no-name", "template"}, s.Broken)
}
