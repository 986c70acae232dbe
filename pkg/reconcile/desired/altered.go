package desired

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
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

// Difference is a field that the API server holds with another value than the manifest says.
type Difference struct {
	at         *step
	sent, held any
}

// step is the last element of a path, and the path above. The paths of a comparison share those above, so that their memory does not grow with the length.
type step struct {
	above *step
	// token is the name of a field, or an item of a list in brackets. item is that as the Path of an ownership.Change has it; empty for a field.
	token, item string
	// hash is the hash of the whole path.
	hash uint64
}

// child returns the step to a field or an item at p.
func (p *step) child(token, item string) *step {
	hash := fnv.New64a()
	if p != nil {
		_ = binary.Write(hash, binary.BigEndian, p.hash)
	}
	_, _ = hash.Write([]byte(token))
	return &step{above: p, token: token, item: item, hash: hash.Sum64()}
}

// tokens returns the tokens of the whole path.
func (p *step) tokens() (tokens []string) {
	for ; p != nil; p = p.above {
		tokens = append(tokens, p.token)
	}
	slices.Reverse(tokens)
	return tokens
}

// path returns the path as an ownership.Change has it.
func (p *step) path() string {
	switch {
	case p == nil:
		return ""
	case p.item != "":
		return p.above.path() + p.item
	}
	return ownership.FieldPath(p.above.path(), p.token)
}

// Signature returns a number that differs for differences in other fields.
func Signature(differences []Difference) uint64 {
	hash := fnv.New64a()
	for _, d := range differences {
		_ = binary.Write(hash, binary.BigEndian, d.at.hash)
	}
	return hash.Sum64()
}

// Differences returns the fields that an object holds with another value than was sent. Another notation of a value is the same
// value, and items of lists are compared as far as their identity is known.
func Differences(sent, held *unstructured.Unstructured) []Difference {
	var c comparison
	for _, field := range slices.Sorted(maps.Keys(sent.Object)) {
		if field != "status" { // of most kinds it is not what is applied
			c.compare((*step)(nil).child(field, ""), sent.Object[field], held.Object[field])
		}
	}
	return c.differences
}

// Differing returns the paths of Differences, and at most MaxAltered of them. Keys of list items are left out: they are values.
func Differing(sent, held *unstructured.Unstructured) []string {
	var paths []string
	for _, d := range Differences(sent, held) {
		if len(paths) == MaxAltered {
			break
		}
		names := slices.DeleteFunc(d.at.tokens(), func(token string) bool { return strings.HasPrefix(token, "[") })
		if path := strings.Join(names, "."); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Altered describes fields that hold another value than was sent, in at most MaxAltered lines and one that counts the others. why
// is the explanation of each. known is the decision about values of the object without these two.
func Altered(differences []Difference, why string, sent, held *unstructured.Unstructured, known ownership.Disclosure) []string {
	withheld := known.With(sent, held).Withholds()
	var texts []string
	for i, d := range differences {
		if i == MaxAltered {
			texts = append(texts, fmt.Sprintf("and %d more fields", len(differences)-MaxAltered))
			break
		}
		path := d.at.path()
		text := path + " is not what the manifest says"
		if !withheld && !ownership.InEnvironment(d.at.tokens()...) {
			text = fmt.Sprintf("%s is %s, and the manifest says %s", path, brief(d.held), brief(d.sent))
		}
		texts = append(texts, text+": "+why)
	}
	return texts
}

// comparison gathers the fields that differ.
type comparison struct{ differences []Difference }

func (c *comparison) compare(at *step, sent, held any) {
	switch sent := sent.(type) {
	case map[string]any:
		fields, _ := held.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(sent)) {
			c.compare(at.child(key, ""), sent[key], fields[key])
		}
	case []any:
		items, _ := held.([]any)
		c.compareList(at, sent, items)
	case nil: // asks for the default
	default:
		if !sameValue(sent, held) {
			c.differences = append(c.differences, Difference{at: at, sent: sent, held: held})
		}
	}
}

// compareList compares list items that have a name of their own by it, and others by position in lists of the same length. Only the API server knows
// the keys of a list: two subjects of a RoleBinding have one name in two namespaces.
func (c *comparison) compareList(at *step, sent, held []any) {
	mine, theirs := byName(sent), byName(held)
	for i, item := range sent {
		name, named := nameOf(item)
		switch found := theirs[name]; {
		case len(mine[name]) == 1 && len(found) == 1:
			c.compare(at.child("["+name+"]", fmt.Sprintf("[name=%q]", name)), item, found[0])
		case named && len(found) == 0:
		case len(sent) == len(held):
			c.compare(at.child(fmt.Sprintf("[%d]", i), fmt.Sprintf("[%d]", i)), item, held[i])
		}
	}
}

// byName are the items of a list that have names.
func byName(items []any) map[string][]any {
	named := map[string][]any{}
	for _, item := range items {
		if name, ok := nameOf(item); ok {
			named[name] = append(named[name], item)
		}
	}
	return named
}

// nameOf is the name of an item of a list.
func nameOf(item any) (string, bool) {
	fields, _ := item.(map[string]any)
	name, ok := fields["name"].(string)
	return name, ok
}

// sameValue reports whether two values are the same, perhaps written in another way: as a
// quantity, a duration, a time, a number in quotes, base64 with line ends, an IP address or a range of them.
func sameValue(sent, held any) bool {
	a, b := fmt.Sprint(sent), fmt.Sprint(held)
	switch {
	case a == b:
		return true
	case held == nil: // the API server leaves out what is empty
		return a == "" || a == "false" || a == "0"
	}
	if x, y, ok := both(a, b, resource.ParseQuantity); ok {
		return x.Cmp(y) == 0
	}
	if x, y, ok := both(a, b, netip.ParseAddr); ok {
		return x.Unmap() == y.Unmap()
	}
	if x, y, ok := both(a, b, netip.ParsePrefix); ok {
		return x == y
	}
	if x, y, ok := both(a, b, func(text string) (time.Time, error) { return time.Parse(time.RFC3339, text) }); ok {
		return x.Equal(y)
	}
	if strings.ContainsAny(a, "\r\n") && strings.NewReplacer("\r", "", "\n", "").Replace(a) == b {
		if _, err := base64.StdEncoding.DecodeString(b); err == nil {
			return true
		}
	}
	x, y, ok := both(a, b, time.ParseDuration)
	return ok && x == y
}

// both parses two texts. ok reports that both are valid.
func both[T any](a, b string, parse func(string) (T, error)) (x, y T, ok bool) {
	x, errX := parse(a)
	y, errY := parse(b)
	return x, y, errX == nil && errY == nil
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
