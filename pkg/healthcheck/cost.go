package healthcheck

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"
)

// meter is the cost of a call: by the sizes of its arguments and its result, whatever their types, as the types are known only then.
type meter struct{}

// CallCost implements interpreter.ActualCostEstimator. A comparison reads all of its arguments; other functions read texts alone.
func (meter) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	room, all := 10*costLimit, append(slices.Clip(args), result)
	compares := function == operators.Equals || function == operators.NotEquals || function == operators.In
	for i, value := range all {
		if value == nil {
			continue
		}
		switch v := value.Value().(type) {
		case string:
			room -= len(v)
			if i == 1 && slices.Contains(searches, function) {
				room -= len(v) * size(args[0]) / 10
			}
		case []byte:
			room -= len(v)
		case map[string]any, map[ref.Val]ref.Val:
			if compares && function != operators.In {
				room = spend(room, v)
			}
		default:
			if compares {
				room = spend(room, v)
			}
		}
		if i == 0 && function == overloads.Matches {
			room -= size(value) * maxInstructions / 10
		}
	}
	cost := 1 + uint64(10*costLimit-max(room, 0))/10
	return &cost
}

// searches are the functions whose work is the product of their arguments.
var searches = []string{"indexOf", "lastIndexOf"}

// size returns the bytes of a text; 0 for another value.
func size(value ref.Val) int {
	text, _ := value.Value().(string)
	return len(text)
}

// spend returns the rest of room after the size of a value: a byte of a text costs one, and each other value, too.
func spend(room int, value any) int {
	room--
	switch v := value.(type) {
	case string:
		room -= len(v)
	case []byte:
		room -= len(v)
	case map[string]any:
		for key, below := range v {
			if room = spend(room-len(key), below); room <= 0 {
				break
			}
		}
	case []any:
		for _, below := range v {
			if room = spend(room, below); room <= 0 {
				break
			}
		}
	case []ref.Val:
		for _, below := range v {
			if room = spend(room, below.Value()); room <= 0 {
				break
			}
		}
	case map[ref.Val]ref.Val:
		for key, below := range v {
			if room = spend(spend(room, key.Value()), below.Value()); room <= 0 {
				break
			}
		}
	}
	return room
}
