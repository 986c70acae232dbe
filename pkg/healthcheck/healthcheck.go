package healthcheck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// costLimit is the maximum cost of the evaluation of one expression, in the units of the Common Expression Language. It ends an
	// evaluation after about two milliseconds. A filter over ten conditions costs about 100.
	costLimit = 5_000
	// maxText is how many bytes of a text of the object expressions see, and maxInstructions the size of a compiled regular expression: a
	// function is charged for after its call.
	maxText, maxInstructions = 4096, 256
	// maxCopies is how many times the macros in copying may be in an expression: a chain of them doubles its size with each.
	maxCopies = 4
)

// copying are the macros of which the parser copies the text before them.
var copying = []string{"optMap", "optFlatMap"}

// products are the functions whose results are as long as the product of their arguments.
var products = []string{"replace", "join", "format"}

// Checks are the checks of a VidraResource, by kind. The zero value and nil are empty.
type Checks struct {
	spec   []v1alpha1.HealthCheck
	byKind map[schema.GroupKind]*Check
	faults []Fault
}

// Fault is an error of an item of spec.healthChecks, which is left out.
type Fault struct {
	// Index is the index of the item, and Kind its kind.
	Index int
	Kind  schema.GroupKind
	// Field has the invalid expression; empty if the item itself is invalid.
	Field string
	// Message has the place in the expression, if it is known, and the reason.
	Message string
}

// Error implements error.
func (f Fault) Error() string {
	text := fmt.Sprintf("spec.healthChecks[%d] (%s): ", f.Index, f.Kind)
	if f.Field != "" {
		text += f.Field + ": "
	}
	return text + f.Message
}

// Check is the health of one kind, as its expressions compute it.
type Check struct {
	rules []rule
}

// rule is an expression of a check, and the health of an object for which it is true. The first one that is true counts.
type rule struct {
	field   string
	program cel.Program
	health  status.Status
}

// Compile returns the checks of a VidraResource, which are old if they are the same. Those with an invalid expression are left out; see
// [Checks.Err].
func Compile(spec []v1alpha1.HealthCheck, old *Checks) *Checks {
	switch {
	case len(spec) == 0:
		return nil
	case old != nil && slices.Equal(old.spec, spec):
		return old
	}
	c := &Checks{spec: slices.Clone(spec), byKind: map[schema.GroupKind]*Check{}}
	for i, one := range spec {
		kind := KindOf(one)
		check, faults := old.For(kind), []Fault(nil)
		if check == nil || !slices.Contains(old.spec, one) { // otherwise objects that were evaluated by it keep their health
			check, faults = compile(i, one)
		}
		if _, twice := c.byKind[kind]; twice {
			faults = []Fault{{i, kind, "", "an earlier check has the same group and kind: remove one of them"}}
		}
		if len(faults) > 0 {
			c.faults = append(c.faults, faults...)
			continue
		}
		c.byKind[kind] = check
	}
	return c
}

// For returns the check of a kind, if any.
func (c *Checks) For(kind schema.GroupKind) *Check {
	if c == nil {
		return nil
	}
	return c.byKind[kind]
}

// KindOf returns the kind of the objects of a check.
func KindOf(check v1alpha1.HealthCheck) schema.GroupKind {
	return schema.FromAPIVersionAndKind(check.APIVersion, check.Kind).GroupKind()
}

// Faults returns the errors of all checks that are left out.
func (c *Checks) Faults() []Fault {
	if c == nil {
		return nil
	}
	return c.faults
}

// Err returns the errors of all checks that are left out in one line, or nil.
func (c *Checks) Err() error {
	var all []string
	for _, fault := range c.Faults() {
		all = append(all, fault.Error())
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// compile compiles the expressions of the check of an index.
func compile(index int, spec v1alpha1.HealthCheck) (c *Check, faults []Fault) {
	c = &Check{}
	for _, one := range []struct {
		field, text string
		health      status.Status
	}{{"inProgress", spec.InProgress, status.InProgressStatus}, {"failed", spec.Failed, status.FailedStatus}, {"current", spec.Current, status.CurrentStatus}} {
		if one.text == "" {
			continue
		}
		compiled, err := program(one.text)
		if err != nil {
			faults = append(faults, Fault{index, KindOf(spec), one.field, err.Error()})
		}
		c.rules = append(c.rules, rule{one.field, compiled, one.health})
	}
	return c, faults
}

// environment has the functions that expressions of Flux have, but for those on sets and encodings.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append(boundedFunctions(), cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings())...)
})

// types of the language are identifiers, too.
var typeNames = []string{"bool", "bytes", "double", "dyn", "google", "int", "list", "map", "null_type", "optional_type", "string", "type", "uint"}

// program compiles an expression. Each identifier in it may be a field of the object, as kinds have any.
func program(text string) (compiled cel.Program, err error) {
	// The checker panics for some expressions. One VidraResource must not take a worker of the operator each time.
	defer func() {
		if recover() != nil {
			compiled, err = nil, errors.New("the expression cannot be compiled: give each [?...] and {?...} an optional value, such as status.?a, or make it simpler")
		}
	}()
	copies := 0
	for _, macro := range copying {
		copies += strings.Count(text, macro)
	}
	if copies > maxCopies {
		return nil, fmt.Errorf("%s are available %d times in an expression: make it simpler", strings.Join(copying, " and "), maxCopies)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, fault(issues)
	}
	var fields []cel.EnvOption
	var unbounded error
	seen, id := map[string]bool{}, ast.MaxID(parsed.NativeRep())
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if name := e.AsIdent(); !seen[name] && !slices.Contains(typeNames, name) && !strings.HasPrefix(name, "@") {
				seen[name] = true
				fields = append(fields, cel.Variable(name, cel.DynType))
			}
		case ast.CallKind:
			unbounded = cmp.Or(unbounded, unboundedCall(e.AsCall()))
			id = bound(e, id)
		case ast.ComprehensionKind:
			count(e, id)
			id++
		case ast.ListKind, ast.MapKind:
			id = withoutTypes(e, id)
		case ast.StructKind: // it converts whole values, whatever that costs
			unbounded = cmp.Or(unbounded, fmt.Errorf("%s{} is not available: remove it", e.AsStruct().TypeName()))
		default:
		}
	}))
	if unbounded != nil {
		return nil, unbounded
	}
	if env, err = env.Extend(fields...); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	switch {
	case issues.Err() != nil:
		return nil, fault(issues)
	case checked.OutputType() != cel.BoolType && checked.OutputType() != cel.DynType:
		return nil, fmt.Errorf("the expression is a %s: make it true or false", checked.OutputType())
	}
	return env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit), cel.CostTracking(meter{}))
}

// unboundedCall returns an error if a call may cost more than its arguments show.
func unboundedCall(call ast.CallExpr) error {
	name := call.FunctionName()
	if slices.Contains(products, name) {
		return fmt.Errorf("the function %s is not available", name)
	}
	if name != "matches" {
		return nil
	}
	args := call.Args()
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return errors.New("the regular expression of matches must be a text in quotes")
	}
	text, _ := args[len(args)-1].AsLiteral().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("the regular expression of matches is invalid: %w", err)
	}
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxInstructions {
		return errors.New("the regular expression of matches is too large: make it simpler")
	}
	return nil
}

// fault returns the errors of an expression in one line each.
func fault(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		at := fmt.Sprintf("character %d", e.Location.Column()+1)
		if line := e.Location.Line(); line > 1 {
			at = fmt.Sprintf("line %d, %s", line, at)
		}
		all = append(all, at+": "+e.Message)
	}
	return errors.New(strings.Join(all, "; "))
}

// Evaluate returns the health of an object that is not being deleted, and the reason if it is not Current. An expression without a result,
// such as one about a field that the object lacks, has it InProgress, as with Flux. One that costs too much, or is neither true nor false, has
// it Unknown.
func (c *Check) Evaluate(u *unstructured.Unstructured) (status.Status, string) {
	observed, reports, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration") // of another type, it is for the expressions
	if reports && u.GetGeneration() != 0 && observed != u.GetGeneration() {
		return status.InProgressStatus, fmt.Sprintf("its controller has observed generation %d of %d", observed, u.GetGeneration())
	}
	short, _ := withShortTexts(u.Object)
	fields, _ := short.(map[string]any)
	for _, one := range c.rules {
		result, _, err := one.program.Eval(fields)
		switch is, isBool := result.(types.Bool); {
		case err != nil && strings.Contains(err.Error(), "cost limit"):
			return status.UnknownStatus, fmt.Sprintf("healthChecks.%s costs too much for this object: make the expression simpler", one.field)
		case err != nil:
			return status.InProgressStatus, fmt.Sprintf("healthChecks.%s has no result: %v", one.field, err)
		case !isBool:
			return status.UnknownStatus, fmt.Sprintf("healthChecks.%s is a %s: make it true or false", one.field, result.Type().TypeName())
		case bool(is) && one.health == status.CurrentStatus:
			return status.CurrentStatus, ""
		case bool(is):
			return one.health, withCondition(u, "healthChecks."+one.field+" is true")
		}
	}
	return status.InProgressStatus, withCondition(u, "healthChecks.current is false")
}

// withShortTexts returns a value with texts of at most maxText: the value itself if its texts are as short. cut reports that one is not.
func withShortTexts(value any) (short any, cut bool) {
	switch v := value.(type) {
	case string:
		if len(v) > maxText {
			return strings.ToValidUTF8(v[:maxText], ""), true
		}
	case map[string]any:
		var short map[string]any
		for key, was := range v {
			if is, cut := withShortTexts(was); cut {
				if short == nil {
					short = maps.Clone(v)
				}
				short[key] = is
			}
		}
		if short != nil {
			return short, true
		}
	case []any:
		var short []any
		for i, was := range v {
			if is, cut := withShortTexts(was); cut {
				if short == nil {
					short = slices.Clone(v)
				}
				short[i] = is
			}
		}
		if short != nil {
			return short, true
		}
	}
	return value, false
}

// withCondition adds the message of the condition Ready of an object to a reason.
func withCondition(u *unstructured.Unstructured, reason string) string {
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, one := range list {
		condition, _ := one.(map[string]any)
		if message, _ := condition["message"].(string); condition["type"] == "Ready" && message != "" {
			return reason + ": " + message
		}
	}
	return reason
}
