package healthcheck

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// room is the limit in the units of a meter: a tenth of a unit of the Common Expression Language.
const room = 10 * costLimit

// meter is the cost of a call: by the sizes of its arguments and its result, whatever their types, as the types are known only then.
type meter struct{}

// CallCost implements interpreter.ActualCostEstimator. A comparison reads all of its arguments, a list grows by the shorter one of two, and
// other functions read texts alone.
func (meter) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case counted:
		return new(uint64(stepCost))
	case untyped:
		return new(uint64(1))
	}
	if _, isFree := rooms[function]; isFree {
		return new(uint64)
	}
	left, all := room, append(slices.Clip(args), result)
	for i, value := range all {
		switch v := value.(type) {
		case nil:
			continue
		case types.String:
			left -= len(v)
			if i == 1 && slices.Contains(searches, function) {
				left -= len(v) * size(args[0]) / 10
			}
		case types.Bytes:
			left -= len(v)
		case traits.Mapper:
			if slices.Contains(comparisons, function) && function != operators.In {
				left = spend(left, v)
			}
		default:
			if slices.Contains(comparisons, function) {
				left = spend(left, v)
			}
		}
		if i == 0 && function == overloads.Matches {
			left -= size(value) * maxInstructions / 10
		}
	}
	if function == operators.Add {
		left -= min(items(args[0]), items(args[1]))
	}
	cost := 1 + uint64(room-max(left, 0))/10
	return &cost
}

// searches are the functions whose work is the product of their arguments, and comparisons those whose work is at most the size of the
// second one.
var (
	searches    = []string{"indexOf", "lastIndexOf"}
	comparisons = []string{operators.Equals, operators.NotEquals, operators.In}
)

// counted is a function with its argument as the result, and stepCost the cost of its call. count has each step of a macro call it: other parts of a step
// may be free, and cel-go searches the values of all steps before. untyped has its argument as the result, too, as a value of any type.
const (
	counted  = "@counted"
	stepCost = 5
	untyped  = "@untyped"
)

// count has a comprehension, which a macro became, call counted in the condition of each step. id is an unused ID.
func count(e ast.Expr, id int64) {
	c, factory := e.AsComprehension(), ast.NewExprFactory()
	e.SetKindCase(factory.NewComprehensionTwoVar(e.ID(), c.IterRange(), c.IterVar(), c.IterVar2(), c.AccuVar(), c.AccuInit(),
		factory.NewCall(id, counted, c.LoopCondition()), c.LoopStep(), c.Result()))
}

// withoutTypes has a list or a map hide the types of its parts. Otherwise a chain of macros doubles the type of its result with each map that has a value as
// a key and as its value, and the checker reads the whole type at each step. id is an unused ID; it returns the next one.
func withoutTypes(e ast.Expr, id int64) int64 {
	factory := ast.NewExprFactory()
	hidden := func(part ast.Expr, optional bool) ast.Expr {
		if optional { // its type shows that
			return part
		}
		id++
		return factory.NewCall(id-1, untyped, part)
	}
	switch {
	case isConstant(e):
	case e.Kind() == ast.ListKind:
		items := slices.Clone(e.AsList().Elements())
		for i := range items {
			items[i] = hidden(items[i], slices.Contains(e.AsList().OptionalIndices(), int32(i)))
		}
		e.SetKindCase(factory.NewList(e.ID(), items, e.AsList().OptionalIndices()))
	default:
		entries := slices.Clone(e.AsMap().Entries())
		for i := range entries {
			entry := entries[i].AsMapEntry()
			entries[i] = factory.NewMapEntry(entries[i].ID(), hidden(entry.Key(), false), hidden(entry.Value(), entry.IsOptional()), entry.IsOptional())
		}
		e.SetKindCase(factory.NewMap(e.ID(), entries))
	}
	return id
}

// The bounded functions have their argument as the result, and end an evaluation in which that costs too much. bound has calls ask them first: the cost of a
// call counts after it, and few steps make a list of lists that takes days to compare. boundedList takes a map of any size, for a key in it.
const (
	bounded        = "@bounded"
	boundedList    = "@boundedList"
	boundedMatched = "@boundedMatched"
	boundedText    = "@boundedText"
	boundedPart    = "@boundedPart"
)

// rooms are the limits of the arguments of these functions: of a value to compare, of a text that a regular expression reads, and of a text and the
// part that is searched in it.
var rooms = map[string]int{
	bounded: room, boundedList: room, boundedMatched: 10 * room / maxInstructions, boundedText: maxText + 2, boundedPart: 10 * room / maxText,
}

// boundedFunctions declare counted, untyped and the bounded functions.
func boundedFunctions() []cel.EnvOption {
	itself := cel.UnaryBinding(func(value ref.Val) ref.Val { return value })
	functions := []cel.EnvOption{
		cel.Function(counted, cel.Overload(counted, []*cel.Type{cel.BoolType}, cel.BoolType, itself)),
		cel.Function(untyped, cel.Overload(untyped, []*cel.Type{cel.DynType}, cel.DynType, itself)),
	}
	for name, limit := range rooms {
		functions = append(functions, cel.Function(name, cel.Overload(name, []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"),
			cel.UnaryBinding(func(value ref.Val) ref.Val {
				if _, isMap := value.(traits.Mapper); isMap && name == boundedList || spend(limit, value) > 0 {
					return value
				}
				panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "cost limit exceeded"})
			}))))
	}
	return functions
}

// bound has a call measure its arguments first that are values of the object: the second one of a comparison, and the texts of a search. id is an unused
// ID; it returns the next one.
func bound(e ast.Expr, id int64) int64 {
	call, factory, by := e.AsCall(), ast.NewExprFactory(), []string(nil) // by are the functions for the first arguments
	switch name := call.FunctionName(); {
	case name == operators.In:
		by = []string{"", boundedList}
	case slices.Contains(comparisons, name):
		by = []string{"", bounded}
	case name == overloads.Matches:
		by = []string{boundedMatched}
	case slices.Contains(searches, name):
		by = []string{boundedText, boundedPart}
	default:
		return id
	}
	args := slices.Clone(call.Args())
	if call.IsMemberFunction() {
		args = slices.Insert(args, 0, call.Target())
	}
	for i, function := range by[:min(len(by), len(args))] {
		if function != "" && !isConstant(args[i]) {
			args[i] = factory.NewCall(id, function, args[i])
			id++
		}
	}
	if call.IsMemberFunction() {
		e.SetKindCase(factory.NewMemberCall(e.ID(), call.FunctionName(), args[0], args[1:]...))
	} else {
		e.SetKindCase(factory.NewCall(e.ID(), call.FunctionName(), args...))
	}
	return id
}

// isConstant reports whether an expression is a text, a number or alike, or a list of these.
func isConstant(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind || e.Kind() == ast.ListKind &&
		!slices.ContainsFunc(e.AsList().Elements(), func(item ast.Expr) bool { return item.Kind() != ast.LiteralKind })
}

// size returns the bytes of a text; 0 for another value.
func size(value ref.Val) int {
	text, _ := value.(types.String)
	return len(text)
}

// items returns how many items a list has; 0 for another value.
func items(value ref.Val) int {
	list, isList := value.(traits.Lister)
	if !isList {
		return 0
	}
	n, _ := list.Size().(types.Int)
	return int(n)
}

// spend returns the rest of left after the size of a value: a byte of a text costs one, and each other value, too.
func spend(left int, value ref.Val) int {
	left--
	switch v := value.(type) {
	case types.String:
		left -= len(v)
	case types.Bytes:
		left -= len(v)
	case *types.Optional:
		if v.HasValue() {
			left = spend(left, v.GetValue())
		}
	case traits.Mapper:
		for keys := v.Iterator(); left > 0 && keys.HasNext() == types.True; {
			key := keys.Next()
			left = spend(spend(left, key), v.Get(key))
		}
	case traits.Lister:
		for items := v.Iterator(); left > 0 && items.HasNext() == types.True; {
			left = spend(left, items.Next())
		}
	}
	return left
}
