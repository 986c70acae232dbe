package ui

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

func TestPlainText(t *testing.T) {
	for name, test := range map[string]struct{ reason, message, want string }{
		"report":    {"one word for a state, and a count as a sentence", "not healthy: Progressing: Deployment shop/web: InProgress: Replicas: 0/2", "In progress: Deployment shop/web: 0 of 2 replicas exist"},
		"available": {"counts of several kinds", "InProgress: Available: 1/3", "1 of 3 replicas are available"},
		"other":     {"other messages about progress", "InProgress: Service pending", "in progress: Service pending"},
		"foreign":   {"texts of users stay", `data.greeting is "Progressing" and should be "hello"`, `data.greeting is "Progressing" and should be "hello"`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, plainText(test.message), test.reason) })
	}
}

// TestMarked: commands in a message are code. The backquotes in the names of users stay.
func TestMarked(t *testing.T) {
	for name, test := range map[string]struct {
		message string
		want    []string
	}{
		"Command": {"it is suspended: `vidra resume shop` ends that", []string{"it is suspended: ", "vidra resume shop", " ends that"}},
		"Plugin":  {"`kubectl vidra get` lists those", []string{"", "kubectl vidra get", " lists those"}},
		"Names":   {"Role a`b and `c`, not d", []string{"Role a`b and `c`, not d"}},
		"Both":    {"Role a`b: `vidra why Role/'a`b'` and `kubectl get` show it", []string{"Role a`b: ", "vidra why Role/'a`b'", " and ", "kubectl get", " show it"}},
		"None":    {"", []string{""}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, marked(test.message)) })
	}
}

func TestNextStep(t *testing.T) {
	require.Empty(t, nextStep(v1alpha1.ReasonKindUnavailable, "kind Invoice is not served here: install its CustomResourceDefinition, or correct the kind or apiVersion"), "said already")
	require.NotEmpty(t, nextStep(v1alpha1.ReasonKindUnavailable, "kind Invoice is not served here"))
	require.Empty(t, nextStep("Unheard", "a message"), "no advice is known")
}

func TestConditionPhrase(t *testing.T) {
	for want, c := range map[string]metav1.Condition{
		"No drift":             {Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionFalse, Reason: "InSync"},
		"Healthy: in progress": {Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing},
		"Not ready":            {Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplyFailed},
		"Ready unknown":        {Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown},
		"Stalled":              {Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue},
	} {
		require.Equal(t, want, conditionPhrase(c))
	}
}

// TestLately has the newest moments of many VidraResources, in their order, and a bounded number.
func TestLately(t *testing.T) {
	at := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	var all lately
	for i := range 100 {
		var recent []moment
		for j := range latelyOfOne { // the newest first
			recent = append(recent, moment{Time: at.Add(time.Duration((i*37)%100-j*100) * time.Minute), VidraResource: fmt.Sprint(i)})
		}
		all.add(recent)
	}
	require.Len(t, all, mostLately)
	for i, m := range all {
		require.Equal(t, at.Add(time.Duration(99-i)*time.Minute), m.Time)
	}
}

func TestRecentOf(t *testing.T) {
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	at := metav1.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	later := metav1.NewTime(at.Add(time.Minute))
	vr.Status.History = []v1alpha1.HistoryEntry{{Reason: "DriftCorrected", FirstTime: later, LastTime: later, Count: 1}}
	vr.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplyFailed, LastTransitionTime: at}}
	outcomesOf := func(now state) (all []string) {
		for _, m := range recentOf(vr, now) {
			all = append(all, m.Outcome)
		}
		return all
	}
	require.Equal(t, []string{"Reverted by Vidra", "Failed: ApplyFailed"}, outcomesOf(stateFailing))
	require.Equal(t, []string{"Reverted by Vidra"}, outcomesOf(stateInProgress), "a failure that waits is none")
	vr.Status.Conditions[0].Status = metav1.ConditionTrue
	require.Equal(t, []string{"Reverted by Vidra", "Applied"}, outcomesOf(stateInOrder))
}

func TestVerdict(t *testing.T) {
	count := func(n ...int) (all []stateCount) {
		for i, info := range states {
			all = append(all, stateCount{info, n[i]})
		}
		return all
	}
	for name, test := range map[string]struct {
		listing listing
		want    cell
	}{
		"none":     {listing{Counts: count(0, 0, 0, 0, 0, 0)}, cell{}},
		"in order": {listing{Counts: count(0, 0, 0, 0, 0, 3), All: 3}, cell{"Everything is in order", "ok"}},
		"filtered": {listing{Counts: count(0, 0, 0, 0, 0, 3), All: 3, Filter: filter{Search: "a"}}, cell{"All that match are in order", "ok"}},
		"worst":    {listing{Counts: count(0, 1, 0, 2, 1, 3), All: 7}, cell{"Not in order: 1 drifted, 2 in progress, 1 suspended", "drifted"}},
	} {
		require.Equal(t, test.want, test.listing.Verdict(), name)
	}
}

// TestForecastOrder has what is lost first, then the fights.
func TestForecastOrder(t *testing.T) {
	v := verdict{Objects: []objectVerdict{
		{Verb: "change", Object: "a"}, {Verb: "create", Object: "b"}, {Verb: unchanged, Object: "c", Fights: []string{"spec.replicas"}}, {Verb: unchanged, Object: "d"}, {Verb: "delete", Object: "e"},
	}}
	var order string
	for _, o := range v.Changed() {
		order += o.Object
	}
	require.Equal(t, "ecba", order)
	require.Len(t, v.Same(), 1)
	require.Equal(t, "shop.yaml, spec.manifest: document 1, line 2", placeIn("shop.yaml", "spec.manifest of VidraResource shop, document 1, line 2", "shop", true))
	require.Equal(t, "shop.yaml: document 1, line 2", placeIn("shop.yaml", "spec.manifest of VidraResource shop, document 1, line 2", "shop", false))
	require.Equal(t, "ConfigMap shop/m, key a, line 2", placeIn("shop.yaml", "ConfigMap shop/m, key a, line 2", "shop", true))
}

func TestOriginOf(t *testing.T) {
	row := func(pointer string, vidra bool, manager string) blameRow {
		r := blameRow{Line: insight.BlameLine{Pointer: pointer}, Vidra: vidra, Foreign: manager != ""}
		if manager != "" {
			r.Line.Managers = []insight.LineManager{{Manager: manager}}
		}
		return r
	}
	rows := []blameRow{
		row("/data/a", true, ""), row("/metadata/labels/"+v1alpha1.ManagedByLabel, true, ""),
		row("/metadata/annotations/owner.vidraresource.infrahub.operators.com~1shop", true, ""), row("", false, ""),
	}
	require.Equal(t, "1 line from the manifest, none set by others", originOf(rows))
	require.Equal(t, "1 line from the manifest, 2 set by others (kubectl)", originOf(append(rows, row("/data/b", false, "kubectl"), row("/data/c", false, "kubectl"))))
}

// TestAddressOfState: the address of a tile has the whole filter, for a new tab.
func TestAddressOfState(t *testing.T) {
	l := listing{Filter: filterOf(url.Values{"namespace": {"shop"}, "labels": {"a in (b,c)"}})}
	l.fill(nil, time.Now())
	var out strings.Builder
	require.NoError(t, templates["overview"].ExecuteTemplate(&out, "part-summary", page{Base: "/token", Body: l}))
	require.Contains(t, out.String(), `href="/token/?labels=a&#43;in&#43;%28b%2Cc%29&amp;namespace=shop&amp;state=failing"`)
	require.Contains(t, out.String(), `href="/token/?labels=a&#43;in&#43;%28b%2Cc%29&amp;namespace=shop"`)
}

// TestBlock: a block that does not exist has no rows, and the browser asks for no block before it.
func TestBlock(t *testing.T) {
	entries := make([]*entry, blockRows+10)
	for i := range entries {
		entries[i] = &entry{vr: &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}}
	}
	for number, want := range map[int][2]int{0: {blockRows, 1}, 1: {10, 0}, 2: {0, 0}, -3: {blockRows, 1}, math.MaxInt: {0, 0}, math.MinInt: {blockRows, 1}} {
		l := listing{Filter: filterOf(nil), Block: number}
		l.fill(entries, time.Now())
		require.Equal(t, want, [2]int{len(l.Rows), len(l.Later)}, "block %d", number)
	}
}
