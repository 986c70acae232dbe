package healthcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var widget = schema.GroupKind{Group: "example.com", Kind: "Widget"}

func check(current, inProgress, failed string) v1alpha1.HealthCheck {
	return v1alpha1.HealthCheck{APIVersion: "example.com/v1", Kind: "Widget", Current: current, InProgress: inProgress, Failed: failed}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte("apiVersion: example.com/v1\nkind: Widget\n"+text), &u.Object))
	content, err := yaml.YAMLToJSON([]byte("apiVersion: example.com/v1\nkind: Widget\n" + text))
	require.NoError(t, err)
	require.NoError(t, u.UnmarshalJSON(content)) // numbers as the API server has them
	return u
}

func TestEvaluate(t *testing.T) {
	const ready = `status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')`
	cases := map[string]struct {
		reason  string
		check   v1alpha1.HealthCheck
		object  string
		want    status.Status
		message string
	}{
		"Current":        {"An expression that is true.", check("status.phase == 'Bound'", "", ""), "status: {phase: Bound}", status.CurrentStatus, ""},
		"NotCurrent":     {"Without another expression, the object is on its way.", check("status.phase == 'Bound'", "", ""), "status: {phase: Lost}", status.InProgressStatus, "healthChecks.current is false"},
		"Failed":         {"Failed is stronger than current.", check("true", "", "status.phase == 'Lost'"), "status: {phase: Lost}", status.FailedStatus, "healthChecks.failed is true"},
		"InProgress":     {"InProgress is stronger than failed.", check("true", "true", "true"), "", status.InProgressStatus, "healthChecks.inProgress is true"},
		"Message":        {"The controller explains it.", check("true", "", "true"), "status: {conditions: [{type: Ready, message: no disk}]}", status.FailedStatus, "healthChecks.failed is true: no disk"},
		"Conditions":     {"The usual form.", check(ready, "", ""), "status: {conditions: [{type: Ready, status: 'True'}, {type: Other, status: 'False'}]}", status.CurrentStatus, ""},
		"NoStatus":       {"The controller has not written it yet.", check(ready, "", ""), "spec: {}", status.InProgressStatus, "healthChecks.current has no result: no such attribute(s): status"},
		"NoField":        {"The same, below it.", check("status.phase == 'Bound'", "", ""), "status: {}", status.InProgressStatus, "healthChecks.current has no result: no such key: phase"},
		"Optional":       {"An expression may expect that.", check("status.?phase.orValue('Bound') == 'Bound'", "", ""), "status: {}", status.CurrentStatus, ""},
		"OtherFields":    {"Kinds have any fields.", check("data.a.startsWith('b') && size(subsets) == 1", "", ""), "data: {a: bc}\nsubsets: [1]", status.CurrentStatus, ""},
		"Numbers":        {"The API server sends integers and fractions.", check("status.ready >= spec.replicas && status.load < 2", "", ""), "spec: {replicas: 2}\nstatus: {ready: 2, load: 1.5}", status.CurrentStatus, ""},
		"Observed":       {"A controller that is behind decides nothing.", check("true", "", ""), "metadata: {generation: 3}\nstatus: {observedGeneration: 2}", status.InProgressStatus, "its controller has observed generation 2 of 3"},
		"ObservedText":   {"A generation that is a text is for the expressions.", check("true", "", ""), "metadata: {generation: 3}\nstatus: {observedGeneration: '2'}", status.CurrentStatus, ""},
		"NeitherTrueNor": {"Only the object shows it.", check("status.phase", "", ""), "status: {phase: Bound}", status.UnknownStatus, "healthChecks.current is a string: make it true or false"},
		"CostsTooMuch":   {"Work has an end.", check("status.l.all(a, status.l.all(b, status.l.all(c, a + b + c > -1)))", "", ""), "status: {l: [" + strings.Repeat("1, ", 200) + "1]}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Steps":          {"Each step of a macro has a cost, whatever it does.", check("status.l.exists(a, status.l.exists_one(b, false))", "", ""), "status: {l: [" + strings.Repeat("1, ", 600) + "1]}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"ManySteps":      {"The memory for values of earlier steps is bounded, too.", check("status.l.exists_one(b, false)", "", ""), "status: {l: [" + strings.Repeat("1, ", 9_999) + "1]}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"SomeSteps":      {"Lists of a few hundred items are usual.", check("status.l.all(a, a == 1)", "", ""), "status: {l: [" + strings.Repeat("1, ", 399) + "1]}", status.CurrentStatus, ""},
		"LongTexts":      {"Functions are charged for after their call.", check("status.l.size() == 4096 && status.m[1].o.size() == 4096 && status.m[0] == 'a'", "", ""), "status: {l: " + strings.Repeat("a", 500_000) + ", m: [a, {o: " + strings.Repeat("a", 5_000) + "}]}", status.CurrentStatus, ""},
		"Matched":        {"So is the work of a regular expression.", check("status.l.matches('(a?){40}$') || status.l.matches('(a?){40}$')", "", ""), "status: {l: " + strings.Repeat("a", 5_000) + "b}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Searched":       {"So is the work of a search.", check("status.l.lastIndexOf(status.o) > 7 || status.l.lastIndexOf(status.o) > 7", "", ""), "status: {l: " + strings.Repeat("a", 5_000) + ", o: b" + strings.Repeat("a", 2_000) + "}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"SearchedLong":   {"A long text that is made of texts, too.", check("(status.l + status.l + status.l).indexOf(status.l + 'b') > 7", "", ""), "status: {l: " + strings.Repeat("a", 5_000) + "}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"MatchedLong":    {"Nor has it a large text that a regular expression reads.", check("matches(status.l + status.l + status.l, '(a?a?){20}[b-d]')", "", ""), "status: {l: " + strings.Repeat("a", 5_000) + "}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Texts":          {"Usual searches are as before.", check("status.l.indexOf('is full') == 2000 && status.l.lastIndexOf(status.o, 2000) == 2000 && status.o.matches('^is [a-z]+$') && matches(status.o, 'full')", "", ""), "status: {l: " + strings.Repeat("a", 2_000) + "is full, o: is full}", status.CurrentStatus, ""},
		"Large":          {"A large object with a small question.", check("size(status.l) == 10000 && 'o' in status && status.l[0] == 1", "", ""), "status: {o: 1, l: [" + strings.Repeat("1, ", 9_999) + "1]}", status.CurrentStatus, ""},
		"Compared":       {"The work of a comparison is the size of both values.", check("status.l.all(i, status == status)", "", ""), "status: {l: [" + strings.Repeat("1, ", 1000) + "1]}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Grown":          {"Nor by steps.", check("[status.l]"+strings.Repeat(".map(x, x + x + x + x + x)", 60)+".size() > 0", "", ""), "status: {l: " + strings.Repeat("a", 5_000) + "}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Doubled":        {"A text does not grow without end.", check("[0,1,2,3,4,5,6,7,8,9].map(i, status.l + status.l + status.l + status.l).size() > 0", "", ""), "status: {l: " + strings.Repeat("a", 500_000) + "}", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"DoubledList":    {"Nor does a list.", check("[[0]]"+strings.Repeat(".map(x, x + x)", 18)+".all(x, size(x) == 1)", "", ""), "", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Nested":         {"A comparison of lists that share their items ends before its work.", check("[0]"+strings.Repeat(".map(x, [x, x])", 26)+".all(x, x == x)", "", ""), "", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"NestedMaps":     {"So does one of maps and optional values.", check("[dyn(0)]"+strings.Repeat(".map(x, {1: dyn([x]), 2: dyn(optional.of(x))})", 24)+".all(x, x != x)", "", ""), "", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"NestedItems":    {"So does a search in them.", check("[dyn(0)]"+strings.Repeat(".map(x, dyn([x, x]))", 26)+".all(x, x in [x, x])", "", ""), "", status.UnknownStatus, "healthChecks.current costs too much for this object: make the expression simpler"},
		"Literals":       {"Lists and maps have parts of any types, and optional ones.", check("[status.a, 1, size('ab'), ?status.?o].size() == 3 && {'a': status.a, 'b': 2, ?'c': status.?o}.b == 2 && [1, size('ab')] == [1, 2] && 2 in [1, size('ab')]", "", ""), "status: {a: x}", status.CurrentStatus, ""},
		"BytesAsKeys":    {"They cannot be keys.", check("{b'a': 1}.size() == 1", "", ""), "", status.InProgressStatus, "healthChecks.current has no result: internal error: runtime error: hash of unhashable type types.Bytes"},
		"Members":        {"Small values are compared as before.", check("status.a == status.b && status.a != status.c && status.o in status.a && status.o in ['x'] && {'a': optional.of(1)} == {'a': optional.of(1)}", "", ""), "status: {a: [x, {y: 1}], b: [x, {y: 1.0}], c: [x], o: x}", status.CurrentStatus, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checks := Compile([]v1alpha1.HealthCheck{tc.check}, nil)
			require.NoError(t, checks.Err())
			u := parse(t, tc.object)
			before := u.DeepCopy()
			began := time.Now()
			got, message := checks.For(widget).Evaluate(u)
			took := time.Since(began)
			t.Log(took)
			require.Less(t, took, time.Second, tc.reason)
			require.Equal(t, tc.want, got, "%s: %s", tc.reason, message)
			require.Equal(t, tc.message, message, tc.reason)
			require.Equal(t, before, u)
		})
	}
}

func TestCompile(t *testing.T) {
	cases := map[string]struct {
		reason string
		checks []v1alpha1.HealthCheck
		want   string
	}{
		"None":            {"Most VidraResources have none.", nil, ""},
		"Valid":           {"Functions and macros of the language are known.", []v1alpha1.HealthCheck{check("has(status.a) && type(status.a) == string && 'x'.charAt(0) == 'x'", "status.a.matches('^[a-z]+$')", "status.a.exists_one(b, b)")}, ""},
		"Syntax":          {"The place is named.", []v1alpha1.HealthCheck{check("status.phase = 'Bound'", "", "")}, "spec.healthChecks[0] (Widget.example.com): current: character 14: Syntax error"},
		"Lines":           {"A text of several lines.", []v1alpha1.HealthCheck{check("true &&\n  status.phase = 'Bound'", "", "")}, "current: line 2, character 16: Syntax error"},
		"All":             {"Each expression is reported.", []v1alpha1.HealthCheck{check("a(", "b(", "c(")}, "; spec.healthChecks[0] (Widget.example.com): current: "},
		"UnknownFunction": {"It would never have a result.", []v1alpha1.HealthCheck{check("true", "", "ready(status)")}, "spec.healthChecks[0] (Widget.example.com): failed: character 6: undeclared reference to 'ready'"},
		"OtherType":       {"It would never be true.", []v1alpha1.HealthCheck{check("true", "size('a')", "")}, "inProgress: the expression is a int: make it true or false"},
		"Twice":           {"The version does not matter.", []v1alpha1.HealthCheck{check("true", "", ""), {APIVersion: "example.com/v2", Kind: "Widget", Current: "true"}}, "spec.healthChecks[1] (Widget.example.com): an earlier check has the same group and kind"},
		"Unbounded":       {"A text of a gigabyte.", []v1alpha1.HealthCheck{check("status.a.replace('a', status.a).size() > 0", "", "")}, "current: the function replace is not available"},
		"Sets":            {"All pairs of two lists.", []v1alpha1.HealthCheck{check("sets.contains(status.a, status.a)", "", "")}, "found no matching overload for 'contains'"},
		"Expression":      {"It could be as long as the object.", []v1alpha1.HealthCheck{check("status.a.matches(status.b)", "", "")}, "must be a text in quotes"},
		"LargeExpression": {"Its work is its size, for each character.", []v1alpha1.HealthCheck{check("status.a.matches('(a{1,500}b{1,500})')", "", "")}, "the regular expression of matches is too large"},
		"BadExpression":   {"It would never match.", []v1alpha1.HealthCheck{check("matches(status.a, '(')", "", "")}, "the regular expression of matches is invalid"},
		"Copied":          {"The parser copies the text before each of them, and the copies in it.", []v1alpha1.HealthCheck{check("status.?a.optMap(x, x)"+strings.Repeat(".optFlatMap(x, x)", 8)+".orValue(true)", "", "")}, "optMap and optFlatMap are available 4 times in an expression"},
		"CopiedFewTimes":  {"Few copies cost little.", []v1alpha1.HealthCheck{check("status.?a.optMap(x, x)"+strings.Repeat(".optFlatMap(x, optional.of(x))", 3)+".orValue(true)", "", "")}, ""},
		"Message":         {"It converts whole values, which may share their parts.", []v1alpha1.HealthCheck{check("google.protobuf.ListValue{values: status.a}.size() == 1", "", "")}, "current: google.protobuf.ListValue{} is not available: remove it"},
		"Panic":           {"The checker expects an optional value, and panics for one of any type.", []v1alpha1.HealthCheck{check("[?status.a].size() == 1", "", "")}, "current: the expression cannot be compiled: give each [?...] and {?...} an optional value"},
		"Deep":            {"The parser has a limit.", []v1alpha1.HealthCheck{check(strings.Repeat("(", 1000)+"true"+strings.Repeat(")", 1000), "", "")}, "recursion"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			checks := Compile(tc.checks, nil)
			if tc.want == "" {
				require.NoError(t, checks.Err(), tc.reason)
				return
			}
			require.ErrorContains(t, checks.Err(), tc.want, tc.reason)
			require.NotContains(t, checks.Err().Error(), "\n")
		})
	}
}

// TestCompileAgain keeps checks that are the same: objects that were evaluated by them are not read again.
func TestCompileAgain(t *testing.T) {
	other := v1alpha1.HealthCheck{APIVersion: "v1", Kind: "Service", Current: "true"}
	first := Compile([]v1alpha1.HealthCheck{check("true", "", "")}, nil)
	require.Same(t, first, Compile([]v1alpha1.HealthCheck{check("true", "", "")}, first))
	second := Compile([]v1alpha1.HealthCheck{other, check("true", "", "")}, first)
	require.Same(t, first.For(widget), second.For(widget))
	third := Compile([]v1alpha1.HealthCheck{other, check("false", "", "")}, second)
	require.NotSame(t, second.For(widget), third.For(widget))
	require.Same(t, second.For(schema.GroupKind{Kind: "Service"}), third.For(schema.GroupKind{Kind: "Service"}))
	require.Nil(t, Compile(nil, third))
}

// BenchmarkEvaluate is the cost of the usual form and of the longest evaluation.
func BenchmarkEvaluate(b *testing.B) {
	for name, expression := range map[string]string{
		"usual":   "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')",
		"longest": "status.l.all(a, status.l.all(b, status.l.all(c, a + b + c > -1)))",
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{}, "l": make([]any, 200)}}}
		for i := range 200 {
			u.Object["status"].(map[string]any)["l"].([]any)[i] = int64(i)
		}
		for i := range 10 {
			u.Object["status"].(map[string]any)["conditions"] = append(u.Object["status"].(map[string]any)["conditions"].([]any), map[string]any{"type": fmt.Sprint(i), "status": "True"})
		}
		c := Compile([]v1alpha1.HealthCheck{check(expression, "", "")}, nil).For(widget)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.Evaluate(u)
			}
		})
	}
}

// BenchmarkCompile is the cost of the largest spec.
func BenchmarkCompile(b *testing.B) {
	long := "true" + strings.Repeat(" && status.a1", 78)
	var spec []v1alpha1.HealthCheck
	for i := range 16 {
		one := check(long, long, long)
		one.Kind = fmt.Sprintf("Widget%d", i)
		spec = append(spec, one)
	}
	for b.Loop() {
		require.NoError(b, Compile(spec, nil).Err())
	}
}
