package insight

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestClaims: the fields that others set have the claim of the manifest, and their values, but for those of Secrets.
func TestClaims(t *testing.T) {
	live := func(kind string) *unstructured.Unstructured {
		return objectOf(t, `
apiVersion: v1
kind: `+kind+`
metadata:
  name: web
  labels: {team: payments}
  managedFields:
  - {manager: kubectl-label, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata":{"f:labels":{"f:team":{}}},"f:data":{"f:long":{}},"f:statusPage":{},"f:status":{"f:a":{}}}}
  - {manager: scaler, operation: Update, subresource: scale, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data":{"f:taken":{},"f:same":{}}}}
data: {long: `+strings.Repeat("x", 100)+`, taken: b, same: c}
statusPage: d
status: {a: e}
`)
	}
	set := func(paths ...string) (fields []ownership.Field) {
		for _, path := range paths {
			fields = append(fields, ownership.Field{Path: path, Tokens: strings.Split(path, ".")})
		}
		return fields
	}
	e := &Explanation{ManagedBy: []ManagedBy{{Fields: []string{"data.own", "data.same"}, configured: set("data.own", "data.same", "data.taken")}}}
	details := func(kind string) (all []OtherField) {
		obj := live(kind)
		for _, o := range e.othersOf(&subject{live: obj}, ownership.Disclose(false, ownership.SensitivityOf(obj), false)) {
			all = append(all, o.Details...)
		}
		return all
	}
	require.Equal(t, []OtherField{
		{Path: "data.long", Value: `"` + strings.Repeat("x", 59) + "…"}, {Path: "metadata.labels.team", Value: `"payments"`}, {Path: "statusPage", Value: `"d"`},
		{Path: "data.same", Value: `"c"`, Claim: Shared}, {Path: "data.taken", Value: `"b"`, Claim: Claimed},
	}, details("ConfigMap"))
	require.Contains(t, details("Secret"), OtherField{Path: "data.taken", Value: `"***"`, Claim: Claimed}, "a value of a Secret is never shown")
}

// TestExemptions: an exemption is named while the operator heeds it, and the command for one where the operator accepts it.
func TestExemptions(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	at := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(after)} }
	answer := func(since, until *metav1.Time) *v1alpha1.BreakGlassStatus {
		return &v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Since: since, Until: until}
	}
	const skip, end = `vidra skip cm/page -n shop --for 1h --reason "WHY"`, "vidra skip cm/page -n shop --end"
	const until, reason = v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation
	const there = "https://eu.example.com:6443"
	cases := map[string]struct {
		answer  *v1alpha1.BreakGlassStatus
		max     *time.Duration // of the operator
		spec    *metav1.Duration
		cluster string
		exempt  bool
		command string
	}{
		"None":            {command: skip},
		"InForce":         {answer: answer(at(-time.Hour), at(time.Hour)), exempt: true, command: end},
		"Over":            {answer: answer(at(-2*time.Hour), at(-time.Hour)), command: skip},
		"Endless":         {answer: answer(nil, nil), command: skip},
		"Beginless":       {answer: answer(nil, at(time.Hour)), command: skip},
		"LowerMaximum":    {answer: answer(at(-2*time.Hour), at(time.Hour)), max: new(time.Hour)},
		"LongerMaximum":   {answer: answer(at(-30*time.Hour), at(time.Hour)), exempt: true, command: end},
		"LongerUsedUp":    {answer: answer(at(-30*time.Hour), at(-time.Hour))},
		"LowerInSpec":     {answer: answer(at(-2*time.Hour), at(time.Hour)), spec: &metav1.Duration{Duration: time.Hour}},
		"Closed":          {spec: &metav1.Duration{}},
		"ClosedByDefault": {max: new(time.Duration(0))},
		"Elsewhere":       {cluster: there, command: "kubectl annotate --overwrite cm/page -n shop " + until + "=2026-01-31T19:00:00Z " + reason + `="WHY"`},
		"EndElsewhere":    {cluster: there, answer: answer(at(-time.Hour), at(time.Hour)), exempt: true, command: "kubectl annotate cm/page -n shop " + until + "- " + reason + "-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := &Client{program: DefaultProgram}
			client.operator.operator.MaxBreakGlass = tc.max
			vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{MaxBreakGlass: tc.spec}}}
			m := ManagedBy{BreakGlass: tc.answer, Cluster: tc.cluster}
			m.addExemption(&subject{client: client, typed: "cm", id: object.Identity{Namespace: "shop", Name: "page"}}, vr, now)
			require.Equal(t, tc.exempt, m.Exempt != nil)
			require.Equal(t, tc.command, m.SkipWith)
		})
	}
}
