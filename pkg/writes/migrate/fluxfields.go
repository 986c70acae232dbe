package migrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// fluxMapper maps the spec of a Kustomization to the spec of a VidraResource.
type fluxMapper struct {
	plan *Plan
	// namespace is the namespace of the Kustomization, and from its spec.
	namespace string
	from      map[string]any
	// spec is the spec of the VidraResource.
	spec map[string]any
	// moved returns the VidraResource of a Kustomization that was migrated before; empty for none.
	moved func(namespace, name string) string
}

// fluxField maps a field of a Kustomization. It adds a finding where the field lacks a counterpart.
type fluxField func(m *fluxMapper, value any)

// fluxFields are the fields of the spec of a Kustomization (kustomize.toolkit.fluxcd.io/v1). A field that it lacks is a finding, too.
var fluxFields = map[string]fluxField{
	"sourceRef":               (*fluxMapper).sourceRef,
	"path":                    ignored, // with sourceRef
	"patches":                 kustomizeField("patches"),
	"images":                  kustomizeField("images"),
	"namePrefix":              kustomizeField("namePrefix"),
	"nameSuffix":              kustomizeField("nameSuffix"),
	"commonMetadata":          kustomizeField("commonMetadata"),
	"targetNamespace":         kustomizeField("targetNamespace"),
	"components":              kustomizeField("components"),
	"ignoreMissingComponents": kustomizeField("ignoreMissingComponents"),
	"postBuild":               (*fluxMapper).postBuild,
	"dependsOn":               (*fluxMapper).dependsOn,
	"prune":                   (*fluxMapper).prune,
	"deletionPolicy":          ignored, // with prune
	"interval":                (*fluxMapper).interval,
	"retryInterval":           finding(Note, "retryInterval", "Vidra repeats failed applies with a growing delay"),
	"timeout":                 finding(Note, "timeout", "Vidra has no time limit for the health of objects: the conditions Ready and Healthy report it"),
	"wait":                    sameField("wait"),
	"force":                   (*fluxMapper).force,
	"healthChecks":            (*fluxMapper).healthChecks,
	"healthCheckExprs":        func(m *fluxMapper, value any) { m.spec["healthChecks"] = value },
	"serviceAccountName":      sameField("serviceAccountName"),
	"kubeConfig":              finding(Refused, "kubeConfig", "the objects are in another cluster: add that cluster as docs/clusters.md describes, and create a VidraResource with spec.adopt IfIdentical for it"),
	"decryption":              finding(Acceptable, "decryption", "Vidra decrypts nothing: with an encrypted Secret in the path nothing is adopted"),
	"suspend":                 (*fluxMapper).suspend,
	"ignore":                  (*fluxMapper).ignore,
	"buildMetadata":           finding(Acceptable, "buildMetadata", "Vidra adds no annotations about the origin: those on the objects stay, without an owner"),
}

func ignored(*fluxMapper, any) {}

func sameField(field string) fluxField {
	return func(m *fluxMapper, value any) { m.spec[field] = value }
}

func kustomizeField(field string) fluxField {
	return func(m *fluxMapper, value any) { m.kustomize()[field] = value }
}

func finding(severity Severity, field, text string) fluxField {
	return func(m *fluxMapper, _ any) { m.plan.find(severity, field, "%s", text) }
}

// run maps all fields, in the order of their names.
func (m *fluxMapper) run() {
	m.spec = map[string]any{"destination": map[string]any{"namespace": m.namespace}}
	for _, field := range slices.Sorted(maps.Keys(m.from)) {
		value := m.from[field]
		if isEmpty(value) {
			continue
		}
		if mapField, known := fluxFields[field]; known {
			mapField(m, value)
		} else {
			m.plan.find(Acceptable, field, "this version does not know the field: it has no effect any more")
		}
	}
	if m.from["prune"] == nil { // as the API server of Flux has it without prune
		m.prune(false)
	}
}

// isEmpty reports whether a value has no effect.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == nil || value == ""
}

func (m *fluxMapper) kustomize() map[string]any {
	below, found := m.spec["kustomize"].(map[string]any)
	if !found {
		below = map[string]any{}
		m.spec["kustomize"] = below
	}
	return below
}

func (m *fluxMapper) sourceRef(value any) {
	ref, _ := value.(map[string]any)
	from := map[string]any{"kind": ref["kind"], "name": ref["name"]}
	if namespace, _ := ref["namespace"].(string); namespace != "" && namespace != m.namespace {
		from["namespace"] = namespace
		m.plan.find(Acceptable, "sourceRef", "the source is in namespace %s: the operator must run with --allow-cross-namespace-sources", namespace)
	}
	path, _ := m.from["path"].(string)
	if path = strings.Trim(strings.TrimPrefix(path, "./"), "/"); path != "" && path != "." {
		from["path"] = path
	}
	m.spec["manifestFrom"] = []any{from}
}

func (m *fluxMapper) postBuild(value any) {
	build, _ := value.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(build)) {
		switch {
		case isEmpty(build[field]):
		case field == "substitute" || field == "substituteFrom":
			m.kustomize()[field] = build[field]
		case field == "substituteStrategy" && (build[field] == "WithVariables" || !isEmpty(build["substitute"]) || !isEmpty(build["substituteFrom"])):
		default:
			m.plan.find(Acceptable, "postBuild", "postBuild.%s has no counterpart", field)
		}
	}
}

func (m *fluxMapper) prune(value any) {
	prune, _ := value.(bool)
	m.spec["prune"] = prune
	policy, _ := m.from["deletionPolicy"].(string)
	switch {
	case policy == "Orphan", !prune && (policy == "" || policy == "MirrorPrune"):
		m.spec["deletionPolicy"] = string(v1alpha1.DeletionOrphan)
	case policy == "WaitForTermination":
		m.plan.find(Note, "deletionPolicy", "a VidraResource that is deleted always waits until its objects are gone")
	}
}

func (m *fluxMapper) interval(value any) {
	text, _ := value.(string)
	if d, err := time.ParseDuration(text); err == nil && d < v1alpha1.MinInterval {
		text = v1alpha1.MinInterval.String()
		m.plan.find(Note, "interval", "the shortest interval is %s. Edits do not wait for it", text)
	}
	m.spec["interval"] = text
}

func (m *fluxMapper) force(value any) {
	if value == true {
		m.spec["force"] = true
		m.plan.find(Note, "force", "Vidra creates no Namespace, CustomResourceDefinition, volume or StatefulSet again without the annotation %s", v1alpha1.AllowRecreateAnnotation)
	}
}

func (m *fluxMapper) healthChecks(any) {
	if m.from["wait"] == true {
		return // Flux ignores it then
	}
	m.spec["wait"] = true
	m.plan.find(Acceptable, "healthChecks", "Ready waits for the health of all objects, not of those in the list alone: spec.wait is set")
}

func (m *fluxMapper) suspend(value any) {
	if value == true {
		m.plan.find(Acceptable, "suspend", "the Kustomization is suspended: the VidraResource is not, and applies the source from now on")
	}
}

func (m *fluxMapper) dependsOn(value any) {
	list, _ := value.([]any)
	var mapped []any
	for _, item := range list {
		one, _ := item.(map[string]any)
		name, _ := one["name"].(string)
		namespace, _ := one["namespace"].(string)
		namespace = cmp.Or(namespace, m.namespace)
		if !isEmpty(one["readyExpr"]) {
			m.plan.find(Acceptable, "dependsOn", "the expression for Kustomization %s/%s has no counterpart: the VidraResource waits until it is Ready", namespace, name)
		}
		if moved := m.moved(namespace, name); moved != "" {
			mapped = append(mapped, map[string]any{"name": moved})
			continue
		}
		m.plan.find(Acceptable, "dependsOn", "Kustomization %s/%s is not moved: move it first, or the VidraResource does not wait for it", namespace, name)
	}
	if len(mapped) > 0 {
		m.spec["dependsOn"] = mapped
	}
}

// ignore maps rules that the type of Vidra can express.
func (m *fluxMapper) ignore(value any) {
	list, _ := value.([]any)
	var mapped []any
	for i, item := range list {
		text, err := json.Marshal(item)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err == nil {
			err = decoder.Decode(&v1alpha1.IgnoreRule{})
		}
		if err != nil {
			m.plan.find(Acceptable, "ignore", "rule %d has no counterpart, and is left out: %s", i+1, strings.TrimPrefix(err.Error(), "json: "))
			continue
		}
		mapped = append(mapped, item)
	}
	if len(mapped) > 0 {
		m.spec["drift"] = map[string]any{"ignore": mapped}
	}
}

// fluxAnnotations are annotations on objects by which Flux treats them in another way: the values that count, and the advice.
var fluxAnnotations = map[string]struct {
	counts func(value string) bool
	advice string
}{
	"reconcile": {func(value string) bool { return value == "disabled" }, "spec.drift.ignore, or leave it out of the path"},
	"ssa":       {func(value string) bool { return value != "Override" }, v1alpha1.ApplyAnnotation + " for IfNotPresent, and spec.drift.ignore for the others"},
	"force":     {func(value string) bool { return value == "enabled" }, "spec.force"},
}

// objectAnnotations adds findings about annotations of Flux on an object.
func objectAnnotations(p *Plan, u *unstructured.Unstructured) {
	for _, key := range slices.Sorted(maps.Keys(u.GetAnnotations())) {
		short, ours := strings.CutPrefix(key, fluxGroup+"/")
		of, known := fluxAnnotations[short]
		if value := u.GetAnnotations()[key]; ours && known && of.counts(strings.TrimSpace(value)) {
			p.find(Acceptable, "annotations", "%s has the annotation %s: %s, which Vidra does not read: use %s", name(u), key, value, of.advice)
		}
	}
}
