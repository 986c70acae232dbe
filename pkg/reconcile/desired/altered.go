package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// MaxAltered is how many fields of an object are reported, and maxValue how many bytes
	// of a value.
	MaxAltered = 3
	maxValue   = 64
)

// AlteredByWebhook describes the fields that the API server holds with another value than it was
// just sent: a mutating webhook does that. The value is not reverted, because that would
// be changed, too, again and again. Another way to write the same value is no other value. known is the decision
// about values of the object without these two.
func AlteredByWebhook(sent, held *unstructured.Unstructured, known ownership.Disclosure) []string {
	c := comparison{withheld: known.With(sent, held).Withholds()}
	for _, field := range slices.Sorted(maps.Keys(sent.Object)) {
		if field != "status" { // of most kinds it is not what is applied
			c.compare([]string{field}, sent.Object[field], held.Object[field])
		}
	}
	if more := len(c.texts) - MaxAltered; more > 0 {
		c.texts = append(c.texts[:MaxAltered], fmt.Sprintf("and %d more fields", more))
	}
	return c.texts
}

// comparison gathers what differs.
type comparison struct {
	withheld bool
	texts    []string
}

func (c *comparison) compare(path []string, sent, held any) {
	switch sent := sent.(type) {
	case map[string]any:
		fields, _ := held.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(sent)) {
			c.compare(append(slices.Clip(path), key), sent[key], fields[key])
		}
	case []any:
		items, _ := held.([]any)
		c.compareList(path, sent, items)
	case nil: // asks for the default
	default:
		if sameValue(sent, held) {
			return
		}
		text := strings.Join(path, ".") + " is not what the manifest says"
		if !c.withheld && !ownership.InEnvironment(path...) {
			text = fmt.Sprintf("%s is %s, and the manifest says %s", strings.Join(path, "."), brief(held), brief(sent))
		}
		c.texts = append(c.texts, text+": a mutating webhook has changed it")
	}
}

// compareList compares lists whose items have names by these, and others of the same
// length by position. Only the API server knows which other lists are associative.
func (c *comparison) compareList(path []string, sent, held []any) {
	named := map[string]any{}
	for _, item := range held {
		if name, ok := nameOf(item); ok {
			named[name] = item
		}
	}
	for i, item := range sent {
		name, ok := nameOf(item)
		switch found, there := named[name]; {
		case ok && there:
			c.compare(append(slices.Clip(path), "["+name+"]"), item, found)
		case !ok && len(sent) == len(held):
			c.compare(append(slices.Clip(path), fmt.Sprintf("[%d]", i)), item, held[i])
		}
	}
}

// nameOf is the name of an item of a list.
func nameOf(item any) (string, bool) {
	fields, _ := item.(map[string]any)
	name, ok := fields["name"].(string)
	return name, ok
}

// sameValue reports whether two values are the same, perhaps written in another way: as a
// quantity, a duration, or a number in quotes.
func sameValue(sent, held any) bool {
	a, b := fmt.Sprint(sent), fmt.Sprint(held)
	switch {
	case a == b:
		return true
	case held == nil: // the API server leaves out what is empty
		return a == "" || a == "false" || a == "0"
	}
	if x, err := resource.ParseQuantity(a); err == nil {
		if y, err := resource.ParseQuantity(b); err == nil {
			return x.Cmp(y) == 0
		}
	}
	x, errX := time.ParseDuration(a)
	y, errY := time.ParseDuration(b)
	return errX == nil && errY == nil && x == y
}

// brief is a value for a message.
func brief(value any) string {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", display.Truncate(text, maxValue))
	}
	if value == nil {
		return "missing"
	}
	return display.Truncate(fmt.Sprint(value), maxValue)
}
