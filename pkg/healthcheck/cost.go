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
	case bounded, boundedList:
		return new(uint64)
	case counted:
		return new(uint64(stepCost))
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
// may be free, and cel-go searches the values of all steps before.
const (
	counted  = "@counted"
	stepCost = 5
)

// count has a comprehension, which a macro became, call counted in the condition of each step. id is an unused ID.
func count(e ast.Expr, id int64) {
	c, factory := e.AsComprehension(), ast.NewExprFactory()
	e.SetKindCase(factory.NewComprehensionTwoVar(e.ID(), c.IterRange(), c.IterVar(), c.IterVar2(), c.AccuVar(), c.AccuInit(),
		factory.NewCall(id, counted, c.LoopCondition()), c.LoopStep(), c.Result()))
}

// bounded and boundedList are functions with their argument as the result. They end an evaluation in which that costs too much; boundedList
// takes a map of any size, for a key in it. bound has comparisons call them: the cost of a call counts after it, and few steps make a list
// of lists that takes days to compare.
const bounded, boundedList = "@bounded", "@boundedList"

// boundedFunctions declare counted, bounded and boundedList.
func boundedFunctions() []cel.EnvOption {
	var functions []cel.EnvOption
	for _, name := range []string{counted, bounded, boundedList} {
		functions = append(functions, cel.Function(name, cel.Overload(name, []*cel.Type{cel.TypeParamType("A")}, cel.TypeParamType("A"),
			cel.UnaryBinding(func(value ref.Val) ref.Val {
				if _, isMap := value.(traits.Mapper); isMap && name == boundedList || name == counted || spend(room, value) > 0 {
					return value
				}
				panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "cost limit exceeded"})
			}))))
	}
	return functions
}

// bound has a call measure its second argument first if it is a comparison with values of the object. id is an unused ID.
func bound(call ast.Expr, id int64) {
	name, args := call.AsCall().FunctionName(), call.AsCall().Args()
	if !slices.Contains(comparisons, name) || isConstant(args[1]) {
		return
	}
	function, factory := bounded, ast.NewExprFactory()
	if name == operators.In {
		function = boundedList
	}
	call.SetKindCase(factory.NewCall(call.ID(), name, args[0], factory.NewCall(id, function, args[1])))
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
